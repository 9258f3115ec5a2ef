"Estimates from noisy moments: unbiased, with a covariance that is right, a noise level that is not too low."
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from dp_knockoff.clip import INTERCEPT, Clip
from dp_knockoff.estimate import CANONICAL, PrivateMoments, canonical, estimate_coefficients
from dp_knockoff.knockoffs import choose_s
from dp_knockoff.mechanisms import Budget
from dp_knockoff.method_moments import MomentsMethod
from dp_knockoff.models import ar1, linear_model
from dp_knockoff.moments import Moments
from dp_knockoff.randomness import stream
from dp_knockoff.selection import SIMULATION, select
from dp_knockoff.statistics import Statistic
from dp_knockoff.testing import assert_same_law, refusal
from watched import Trusted

PUBLIC = dict(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=5.0)
REST = 1, "", True, 1, ()  # rounds, sampler, simulated, rows_per_person, ids


@pytest.fixture(scope="module")
def data(): return linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


def noisy(S, beta, n, N, gram_sd=1e-6, product_sd=0.0, square_sd=0.0, sigma=0.0, seed=0):
    "N releases of data with X'X = S, truth beta and noise level sigma: arguments of the estimator"
    rng = np.random.default_rng(seed)
    d = len(beta)
    E = np.triu(rng.standard_normal((N, d, d)))
    E[:, range(d), range(d)] /= np.sqrt(2)
    Xtw = sigma * rng.standard_normal((N, d)) @ np.linalg.cholesky(S).T
    explained = (Xtw @ np.linalg.inv(S) * Xtw).sum(1)
    square = beta @ S @ beta + 2 * Xtw @ beta + explained + sigma**2 * rng.chisquare(n - d, N)
    return (S + gram_sd * (E + E.transpose(0, 2, 1)),
            S @ beta + Xtw + product_sd * rng.standard_normal((N, d)),
            square + square_sd * rng.standard_normal(N), n, gram_sd, product_sd, square_sd)


def standardised(e, beta):
    "Errors over the standard deviations that V claims"
    return (e.beta - beta) / np.sqrt(np.diagonal(e.V, axis1=-2, axis2=-1))


# ---------------------------------------------------------------- the shift

def unbiasing_shift(lam, kappa):
    "What is added to eigenvalues `lam` of a matrix with noise kappa: read off the first coefficient"
    d = len(lam)
    e = estimate_coefficients(np.diag(lam), np.eye(d)[0], 1.0, 100, kappa, 1e-9, 1.0, sigma=0.0)
    return 1 / e.beta[0] - lam[0]


def test_unbiasing_shift_solves_its_equation():
    rng = stream(0, "shift")
    for _ in range(200):
        lam = np.sort(rng.standard_normal(rng.integers(1, 30)) * 10.0 ** rng.uniform(-3, 3))
        kappa = 10.0 ** rng.uniform(-3, 3) * np.abs(lam).max()
        w = unbiasing_shift(lam, kappa)
        assert w > max(0, -lam[0]) and np.isclose(w, kappa**2 * np.sum(1 / (lam + w)), rtol=1e-6)


def test_a_batch_is_estimated_one_by_one():
    S, beta = 400 * ar1(5, .5), np.array([1.0, 0, -1, .5, 0])
    gram, products, square, *rest = noisy(S, beta, 10**4, 7, 40.0, 40.0, 40.0, 1.0)
    for sigma in (None, 2.0):
        batch = estimate_coefficients(gram, products, square, *rest, start=beta, sigma=sigma)
        for k in range(7):
            one = estimate_coefficients(gram[k], products[k], square[k], *rest, start=beta, sigma=sigma)
            for name in ("beta", "V", "theta", "size2", "zeta"):
                assert np.allclose(getattr(one, name), getattr(batch, name)[k]), name
            assert np.allclose(one.sigma, batch.sigma if sigma else batch.sigma[k])
            assert np.allclose(one.beta, beta + one.theta)


def test_estimates_are_unbiased_in_spite_of_the_noise_on_the_gram_matrix():
    "Thirty columns, a fifth of whose inverse is noise: without the shift all would come out too large"
    beta = np.zeros(30)
    beta[:3] = 1, -1, .5
    S, kappa = 1000 * np.eye(30), 1000 * np.sqrt(.2 / 30)
    arguments = noisy(S, beta, 10**6, 2000, gram_sd=kappa)
    e = estimate_coefficients(*arguments, sigma=0.0)
    assert .15 < e.zeta.mean() < .3 and np.abs(e.beta.mean(0) - beta).max() < .03
    plain = np.linalg.solve(arguments[0], arguments[1][..., None])[..., 0].mean(0)
    assert plain[0] > 1.15


# ---------------------------------------------------------------- the covariance

def test_noise_on_the_gram_matrix_counts_twice_along_the_truth():
    "(E beta)_j has variance kappa^2 (|beta|^2 + beta_j^2): an estimate off the direction of beta varies less"
    beta, S = np.array([3.0, 0, 0, 0]), 100 * np.eye(4)
    e = estimate_coefficients(*noisy(S, beta, 10**6, 8000, gram_sd=3.0), sigma=0.0)
    z2 = np.mean(standardised(e, beta)**2, axis=0)
    assert np.abs(z2 - 1).max() < .1
    assert 1.8 < np.var(e.beta[:, 0]) / np.var(e.beta[:, 1]) < 2.2


SOURCES = {"regression": dict(sigma=2.0), "products": dict(product_sd=20.0),
           "Gram matrix": dict(gram_sd=12.0), "all": dict(sigma=1.0, product_sd=15.0, gram_sd=8.0)}


@pytest.mark.parametrize("name", SOURCES)
def test_the_covariance_is_that_of_the_errors(name):
    "Each source of noise alone, and all: errors whitened by V have variance 1 in every direction"
    beta, S = np.array([1.0, 0, -1, .5, 0]), 400 * ar1(5, .5)
    scales = SOURCES[name]
    e = estimate_coefficients(*noisy(S, beta, 10**6, 6000, **scales), sigma=scales.get("sigma", 0.0))
    root = np.linalg.inv(np.linalg.cholesky(e.V.mean(0)))
    errors = (e.beta - beta) @ root.T
    assert np.abs(errors.mean(0)).max() < .08
    lam = np.linalg.eigvalsh(np.cov(errors.T))
    assert .87 < lam[0] and lam[-1] < 1.15


def test_the_size_of_the_truth_is_estimated_without_the_noise():
    beta, S = np.array([1.0, 0, -1, .5, 0]), 400 * ar1(5, .5)
    scales = dict(sigma=4.0, product_sd=40.0, gram_sd=15.0)
    e = estimate_coefficients(*noisy(S, beta, 10**6, 6000, **scales), sigma=4.0)
    assert abs(e.size2.mean() / (beta @ beta) - 1) < .04 and (e.theta**2).sum(-1).mean() > 1.1 * (beta @ beta)
    nothing = estimate_coefficients(*noisy(S, 0 * beta, 10**6, 500, **scales), sigma=4.0)
    assert (nothing.size2 >= 0).all() and np.mean(nothing.size2 == 0) > .3


def test_estimate_formula(data):
    X, y, _ = data
    r = MomentsMethod(**PUBLIC, rounds=2).release(X, y, simulation=True, random_state=0)
    e = r.estimate(sigma=.8)
    I = np.eye(7)
    Q = np.linalg.inv(r.gram + unbiasing_shift(np.linalg.eigvalsh(r.gram), r.gram_sd) * I)
    theta = Q @ r.products
    assert np.allclose(e.beta, r.start + theta) and np.isclose(e.zeta, r.gram_sd**2 * np.trace(Q @ Q))
    known = .64 * np.linalg.inv(Q) + r.product_sd**2 * I
    along = np.outer(theta, theta) / (theta @ theta)
    full = Q @ (known + r.gram_sd**2 * e.size2 * (I + along)) @ Q
    assert np.allclose(e.V, full) and np.isclose(e.size2, theta @ theta - np.trace(full))


# ---------------------------------------------------------------- the noise level

LEVELS = {"square": dict(square_sd=3000.0), "products": dict(product_sd=300.0),
          "Gram matrix": dict(gram_sd=60.0)}


@pytest.mark.parametrize("name", LEVELS)
def test_sigma_lies_one_standard_deviation_above(name):
    "Whatever part of the release is loudest: in five of six cases sigma is not below the truth"
    beta, S, n = np.array([4.0, -3, 0]), 10_000 * np.eye(3), 10_000
    e = estimate_coefficients(*noisy(S, beta, n, 4000, sigma=1.0, **LEVELS[name]))
    assert abs(np.mean(e.sigma > 1) - .841) < .05 and np.abs(e.sigma - 1).max() < 1


def test_what_noise_on_the_products_seems_to_explain_is_given_back():
    "A hundred null columns: products that are all noise explain part of y, and sigma would be too small"
    d, n = 100, 10_000
    arguments = noisy(n * np.eye(d), np.zeros(d), n, 400, sigma=1.0, product_sd=300.0)
    e = estimate_coefficients(*arguments)
    assert e.sigma.mean() > 1 and np.mean(e.sigma > 1) > .7
    assert d * 300.0**2 / n > .08 * n  # what is given back


def test_a_noise_level_is_never_more_than_all_of_y_and_never_imaginary():
    S, beta, n = 100 * np.eye(3), np.array([1.0, 0, 0]), 100
    arguments = noisy(S, beta, n, 2000, sigma=1.0, gram_sd=80.0, product_sd=80.0, square_sd=80.0)
    e = estimate_coefficients(*arguments)
    square = arguments[2]
    assert (e.sigma >= 0).all() and (e.sigma**2 * (n - 3) <= np.maximum(square + 80, 0) * (1 + 1e-12)).all()


def test_degrees_of_freedom_of_sigma():
    e = estimate_coefficients(*noisy(np.eye(20), np.ones(20), 40, 4000, sigma=1.0))
    assert abs(np.mean(e.sigma**2) - 1) < .03


def test_sigma_is_estimated():
    "With a large budget the free third part finds the noise level (of rows scaled by about w)"
    X, y, _ = linear_model(50_000, p=5, k=2, amplitude=1.0, sigma=2.0, random_state=0)
    method = MomentsMethod(epsilon=50.0, delta=1e-2, row_bound=20.0, response_bound=20.0)
    assert abs(method.release(X, y, simulation=True, random_state=0).estimate().sigma - 2.0) < .05


# ---------------------------------------------------------------- the canonical form

@pytest.mark.parametrize("s", ["lam_min", "mvr"])
def test_canonical_is_the_whitening_form(s):
    """Differences over s: the estimates plus noise, with a diagonal covariance D that dominates V

    Sums are uncorrelated with them.
    """
    rng = stream(0, "canonical")
    Z = rng.standard_normal((8, 5))
    V, beta, N = Z.T @ Z / 8, np.array([3.0, 0, 0, -2, 0]), 4000
    P = np.linalg.inv(V)
    C = np.sqrt(np.diag(P))
    s_values = choose_s(P / np.outer(C, C), s)
    hats = beta + rng.standard_normal((N, 5)) @ np.linalg.cholesky(V).T
    pairs = np.array([canonical(b, V, s_values, rng)[1] for b in hats])
    delta = (pairs[:, :5] - pairs[:, 5:]) / s_values / C
    sums = (pairs[:, :5] + pairs[:, 5:]) * C
    D = 2 / (s_values * C**2)
    assert np.abs(np.cov(delta.T) - np.diag(D)).max() < .12 * D.max()
    assert np.linalg.eigvalsh(np.diag(D) - V)[0] > -1e-9
    assert np.abs(delta.mean(0) - beta).max() < .1 * np.sqrt(D.max())
    assert np.abs(np.corrcoef(delta.T, sums.T)[:5, 5:]).max() < .1
    if s == "lam_min": assert np.allclose(2 / s_values, 2 * np.linalg.eigvalsh(V * np.outer(C, C))[-1])


def test_the_canonical_form_does_not_depend_on_units():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((9, 4))
    V, beta, units = Z.T @ Z, rng.standard_normal(4), 10.0 ** np.array([-20, 0, 3, 40])
    one = canonical(beta, V, "mvr", np.random.default_rng(1))
    two = canonical(beta * units, V * np.outer(units, units), "mvr", np.random.default_rng(1))
    for a, b in zip(one, two): assert np.allclose(a, b, atol=1e-9)


def test_knockoffs_of_a_singular_covariance_are_finite():
    V = np.ones((3, 3))
    G, c = canonical(np.ones(3), V, "mvr", np.random.default_rng(0))
    assert np.isfinite(G).all() and np.isfinite(c).all()


def test_a_canonical_release_takes_a_lasso_with_one_standard_deviation(data):
    X, y, _ = data
    r = MomentsMethod(**PUBLIC).release(X, y, simulation=True, random_state=0)
    assert r.statistic == CANONICAL == Statistic("lasso", "lcd", 2.0)
    A, b = r.pair(random_state=3)
    e = r.estimate()
    again = canonical(e.beta[:6], e.V[:6, :6], "mvr", stream(3, "knockoffs"))
    assert (A == again[0]).all() and (b == again[1]).all()
    assert (select(r).W == CANONICAL(*r.pair(random_state=r.seed))).all()
    for other in (r.pair("lam_min", 3), r.pair(random_state=3, estimate=r.estimate(sigma=5.0))):
        assert not np.allclose(other[0], A) and not np.allclose(other[1], b)
    assert (r.pair("lam_min", 3)[1][:6] == b[:6]).all() and (r.pair(random_state=4)[1][6:] != b[6:]).all()


# ---------------------------------------------------------------- releases

def test_a_release_has_names_starts_and_noise(data):
    X, y, _ = data
    methods = (MomentsMethod(**PUBLIC, rounds=k) for k in (1, 2))
    one, two = (method.release(X, y, simulation=True, random_state=0) for method in methods)
    assert one.columns == ("x0", "x1", "x2", "x3", "x4", "x5", INTERCEPT) and one.names == one.columns[:-1]
    assert (one.start == 0).all() and one.start.shape == (7,) and (two.start == two.clip.start).all()
    assert one.noise == {"Gram matrix": one.gram_sd, "products": one.product_sd}
    assert one.method == "moments" and one.budget == Budget(1.0, 1e-3) and one.n == 3000


def test_saved_releases_select_the_same(data, tmp_path):
    X, y, _ = data
    ranges = {"x1": (-3, 3)}
    method = MomentsMethod(**PUBLIC, rounds=2, ranges=ranges, response_center=.5)
    r = method.release(X, y, simulation=True, random_state=0)
    again = PrivateMoments.load(r.save(tmp_path / "r.npz"))
    for name, value in vars(r).items(): assert np.array_equal(getattr(again, name), value), name
    assert type(again.budget) is Budget and type(again.clip) is Clip and type(again.columns) is tuple
    one, two = (select(x) for x in (r, again))
    assert (one.W == two.W).all() and one.guarantee == two.guarantee and one.notes == two.notes


NUMBERS = [dict(rounds=np.int64(2)), dict(row_bound=np.int64(2)), dict(epsilon=np.float32(1.0)),
           dict(epsilon=1)]


@pytest.mark.parametrize("numbers", NUMBERS, ids=["int64 rounds", "int64 bound", "float32", "int"])
def test_releases_of_all_kinds_of_numbers_can_be_saved(data, tmp_path, numbers):
    X, y, _ = data
    r = MomentsMethod(**{**PUBLIC, **numbers}).release(X, y, simulation=True, random_state=0)
    assert PrivateMoments.load(r.save(tmp_path / "r.npz")).rounds == r.rounds


def test_other_files_are_no_release(data, tmp_path):
    from dp_knockoff.archives import load_arrays, save_arrays
    X, y, _ = data
    path = MomentsMethod(**PUBLIC).release(X, y, simulation=True, random_state=0).save(tmp_path / "r.npz")
    header, arrays = load_arrays(path, "private moments")
    for change in (dict(rounds=None), dict(more=1)):
        changed = {**header, **change}
        kept = {key: value for key, value in changed.items() if value is not None and key != "kind"}
        save_arrays(path, "private moments", kept, **arrays)
        assert "another version" in refusal(PrivateMoments.load, path)
    save_arrays(path, "moments", {})
    assert "holds moments, not private moments" in refusal(PrivateMoments.load, path)


@pytest.mark.filterwarnings("ignore:delta=", "ignore:epsilon=")
def test_statement_and_notes(data):
    X, y, _ = data
    def text(rows=3000, sigma=None, **options):
        release = MomentsMethod(**{**PUBLIC, **options}).release(X[:rows], y[:rows], sampler=Trusted())
        found = select(release, sigma=sigma)
        return " ".join([found.guarantee, *found.notes])
    plain = text()
    assert "every pair of datasets that differ in one row" in plain and "first order" in plain
    assert "(epsilon=1, delta=0.001)" in plain and "counts as private" in plain and "if y = a + X b" in plain
    for word in ("on average over", "private count", "rounds", "ranges", "sigma"): assert word not in plain
    assert "in 2 rounds" in text(rounds=2) and "if y = X b" in text(intercept=False)
    assert "if the bounds, ranges were set" in text(ranges={"x0": (-3, 3)})
    assert "if the bounds, sigma were set" in text(sigma=1.0)
    loud = text(response_bound=.05, epsilon=50.0)
    assert "of the responses were clamped" in loud and "a private count" in loud
    assert "mostly noise" in text(100, epsilon=.05) and "noise (ratio" not in text(epsilon=50.0)


@pytest.mark.filterwarnings("ignore:delta=")
def test_a_guarantee_is_about_privacy_only(data):
    X, y, _ = data
    r = MomentsMethod(**PUBLIC).release(X, y, sampler=Trusted())
    assert r.guarantee.startswith("(epsilon=1, delta=0.001)-differential privacy for every pair")
    assert "FDR" not in r.guarantee


def test_nothing_fails_after_the_release():
    "Whatever the design and the noise did: finite estimates, usable knockoffs, a positive next bound"
    from dp_knockoff.rounds import next_clip
    rng = stream(0, "next clip")
    for _ in range(150):
        p, n = int(rng.integers(2, 6)), 10.0 ** rng.uniform(1, 9)
        Z = rng.standard_normal((p, int(rng.integers(1, p + 1))))  # often singular
        kappa = 10.0 ** rng.uniform(-3, 5)
        E = np.triu(rng.standard_normal((p, p))) * kappa
        G, truth = n * Z @ Z.T, rng.standard_normal(p) * 10.0 ** rng.uniform(-4, 3)
        products = G @ truth + kappa * rng.standard_normal(p)
        square = float(truth @ G @ truth + kappa * rng.standard_normal())
        clip = Clip(1, 2.5, intercept=False)
        moments = G + E + E.T, products, square, kappa, kappa, kappa
        r = PrivateMoments(int(n), tuple(map(str, range(p))), clip, Budget(1, .1), *moments, 0, 1, *REST)
        e = r.estimate()
        assert np.isfinite(e.beta).all() and e.sigma >= 0 and 0 < next_clip(r, e).response_bound <= 2.5
        for s in (None, "lam_min"): assert np.isfinite(select(r, s=s).W).all()


# ---------------------------------------------------------------- simulations, and the same answer every time

def test_a_file_keeps_whether_it_was_simulated(data, tmp_path):
    X, y, _ = data
    for draw, simulated in ((dict(simulation=True), True), (dict(sampler=Trusted()), False)):
        r = MomentsMethod(**{**PUBLIC, "delta": 1e-4}, rows_per_person=2).release(X, y, **draw)
        again = PrivateMoments.load(r.save(tmp_path / "r.npz"))
        assert again.simulated is simulated is r.simulated and again.guarantee == r.guarantee
        assert (again.guarantee == SIMULATION) == simulated and repr(again) == repr(r)
        assert again.ids == r.ids and again.rows_per_person == 2


def test_selecting_again_gives_the_same_answer(data, tmp_path):
    X, y, _ = data
    for rounds in (1, 3):
        r = MomentsMethod(**PUBLIC, rounds=rounds).release(X, y, simulation=True)
        again = PrivateMoments.load(r.save(tmp_path / "r.npz"))
        for question in (dict(), dict(s="sdp", fdr=.5), dict(statistic=Statistic("ols", "csm"), offset=0)):
            first, *others = (select(x, **question) for x in (r, r, again))
            assert all((found.W == first.W).all() and repr(found) == repr(first) for found in others)
        assert again.seed == r.seed and (again.pair()[1] == r.pair()[1]).all()


AGAIN = """
import sys
from dp_knockoff.estimate import PrivateMoments
from dp_knockoff.selection import select
print(*(w.hex() for w in select(PrivateMoments.load(sys.argv[1])).W))
"""


def test_selecting_in_another_process_with_other_threads_gives_the_same_answer(tmp_path):
    X, y, _ = linear_model(3000, p=60, k=20, amplitude=1.0, rho=.4, random_state=0)
    r = MomentsMethod(**{**PUBLIC, "epsilon": 20.0}).release(X, y, simulation=True)
    path = r.save(tmp_path / "r.npz")
    def found(threads):
        threads = {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        command = [sys.executable, "-c", AGAIN, str(path)]
        environment = {**os.environ, **threads}
        return subprocess.check_output(command, env=environment, text=True).split()
    assert found("1") == found("4") == [w.hex() for w in select(r).W]


# ---------------------------------------------------------------- releases add

def sites(data, count=3, **options):
    "Releases of disjoint rows, each by itself, with budgets of their own"
    X, y, _ = data
    budgets = [dict(epsilon=1.0 + k, delta=1e-3 / (k + 1)) for k in range(count)]
    methods = [MomentsMethod(**{**PUBLIC, **budget, **options}) for budget in budgets]
    parts = np.array_split(np.arange(len(y)), count)
    return [m.release(X[part], y[part], simulation=True) for m, part in zip(methods, parts)]


def test_the_sum_of_releases_is_a_release_of_all_rows(data, tmp_path):
    a, b, c = sites(data)
    total = a + b + c
    for name in ("n", "gram", "products", "square", "clamped"):
        assert np.allclose(getattr(total, name), sum(getattr(r, name) for r in (a, b, c)), rtol=1e-14), name
    for name in ("gram_sd", "product_sd", "square_sd", "clamped_sd"):
        assert np.isclose(getattr(total, name)**2, sum(getattr(r, name)**2 for r in (a, b, c))), name
    assert total.budget == Budget(3.0, 1e-3)  # in parallel: the largest of each
    assert set(total.ids) == {*a.ids, *b.ids, *c.ids} and len(set(total.ids)) == 6
    assert (total.gram == sum([a, b, c]).gram).all() and total.simulated and total.n == 3000
    again = PrivateMoments.load(total.save(tmp_path / "sum.npz"))
    assert (select(again).W == select(total).W).all() and "already" not in repr(select(total))
    for part in (a, c): assert "added twice" in refusal(again.__add__, part)


def test_the_noise_of_a_sum_has_the_summed_variances(data):
    "In law: three sites together are one release with that much noise, entry by entry"
    X, y, _ = data
    small = X[:90], y[:90], None
    exact = Moments.from_data(*small[:2], clip=Clip(2.0, 5.0))
    def standardised():
        r = sum(sites(small))
        above = np.triu_indices(7, 1)
        return np.concatenate([(r.gram - exact.XtX)[above] / r.gram_sd,
                               np.diag(r.gram - exact.XtX) / r.gram_sd / np.sqrt(2),
                               (r.products - exact.Xty) / r.product_sd,
                               [(r.square - exact.yty) / r.square_sd],
                               [(r.clamped - exact.cut[1]) / r.clamped_sd]])
    noise = np.array([standardised() for _ in range(300)])
    assert_same_law(noise.ravel(), np.random.default_rng(0).standard_normal(40_000))
    assert np.abs(np.mean(noise**2, axis=0) - 1).max() < .5


def test_a_sum_is_as_private_as_its_parts_say(data):
    X, y, _ = data
    method = MomentsMethod(**{**PUBLIC, "delta": 1e-4})
    parts = slice(1000), slice(1000, None)
    real, other = (method.release(X[part], y[part], sampler=Trusted()) for part in parts)
    simulated = method.release(X, y, simulation=True)
    assert not (real + other).simulated and "differential privacy" in (real + other).guarantee
    for total in (real + simulated, simulated + real):
        assert total.simulated and total.guarantee == SIMULATION
        assert "counts as private" in total.sampler and "NumPy" in total.sampler
    assert (real + other).sampler == Trusted.name


def test_what_cannot_be_added_is_refused(data):
    X, y, _ = data
    def release(data=(X, y), **options):
        return MomentsMethod(**{**PUBLIC, **options}).release(*data, simulation=True)
    one = release()
    for options, words in ((dict(row_bound=2.5), "clip"), (dict(response_bound=4.0), "clip"),
                           (dict(intercept=False), "columns"), (dict(data=(X[:, :5], y)), "columns"),
                           (dict(rows_per_person=2), "rows_per_person"), (dict(response_center=.1), "clip"),
                           (dict(ranges={"x0": (-1, 1)}), None), (dict(rounds=2), None)):
        other = release(**options)
        for sentence in (refusal(one.__add__, other), refusal(other.__add__, one)):
            assert words is None or f"different {words}" in sentence
    rounds = release(rounds=2)
    same = replace(rounds, ids=("another",))
    assert "several rounds" in refusal(rounds.__add__, same)
    for other in (3, None, "a"):
        with pytest.raises(TypeError): one + other


def test_the_same_rows_are_not_added_twice(data):
    X, y, _ = data
    collected = Moments.from_data(X, y, clip=Clip(2.0, 5.0))
    a, b = (MomentsMethod(epsilon=1.0, delta=1e-3).release(collected, simulation=True) for _ in range(2))
    assert a.ids[0] != b.ids[0] and a.ids[1] == b.ids[1]
    for pair in ((a, a), (a, b)): assert "added twice" in refusal(pair[0].__add__, pair[1])
    c, d = sites(data, 2)
    assert "added twice" in refusal((c + d).__add__, c)
