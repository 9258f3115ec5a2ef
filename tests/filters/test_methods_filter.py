"The plain filter: what it finds, what it guarantees, what it refuses."
import numpy as np
import pytest
from scipy.stats import gamma

from dp_knockoff.core.errors import stream
from dp_knockoff.core.testing import assert_fair_coin, assert_rate_at_most, refusal
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.methods import ExactRelease, NonPrivate, knockoff_filter
from dp_knockoff.knockoffs.fixed_x import knockoffs_of
from dp_knockoff.knockoffs.laws import Blocks, Gaussian, Independent, Levels, open_uniforms, row_uniforms
from dp_knockoff.knockoffs.statistics import _PENALISED, ESTIMATES, Statistic, csm, lcd
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import KnockoffPlus

STATISTICS = [Statistic(e, c, .4 if e in _PENALISED else None) for e in ESTIMATES for c in ("csm", "lcd")]


@pytest.fixture(scope="module")
def data(): return linear_model(100, p=5, k=2, random_state=0)


@pytest.mark.parametrize("s", ["lam_min", "equi", "sdp", "mvr"])
@pytest.mark.parametrize("f", STATISTICS, ids=str)
def test_strong_signals_are_found_by_every_combination(s, f):
    X, y, beta = linear_model(400, p=12, k=6, amplitude=2, rho=.3, random_state=1)
    m = Moments.from_data(X, y)
    singular = np.linalg.eigvalsh(knockoffs_of(m, s).G)[0] < 1e-10
    if singular and f.estimate == "ols":
        assert "singular" in refusal(knockoff_filter, m, s=s, statistic=f)
        return
    chosen = knockoff_filter(m, s=s, statistic=f, random_state=0)
    if (s, f.estimate) == ("sdp", "ols"): return  # valid, but so close to singular least squares has no power
    assert set(np.flatnonzero(beta)) <= set(np.flatnonzero(chosen.support))
    assert (chosen.signs[beta > 0] == 1).all()


def test_fdr_with_appended_rows():
    "n = 1.4 p with known sigma: 400 datasets, all null but ten strong signals"
    fdp, statistic = [], Statistic("lasso", "lcd", 2.0)
    for seed in range(400):
        X, y, beta = linear_model(28, p=20, k=10, amplitude=6, random_state=seed)
        chosen = knockoff_filter(X, y, intercept=False, sigma=1.0, random_state=seed, statistic=statistic)
        fdp.append(error_rates(chosen.support, beta)[0])
        assert chosen.guarantee.control.kind == "exact" and "approximate" not in str(chosen.guarantee)
    assert_rate_at_most(fdp, .2)


def test_the_guarantee_says_what_was_done(data):
    X, y, _ = data
    plain = str(knockoff_filter(X, y).guarantee)
    assert "a + X b" in plain and "a + X b" not in str(knockoff_filter(X, y, intercept=False).guarantee)
    assert "modified" in str(knockoff_filter(X, y, offset=0).guarantee)
    assert "Not private" in plain and "standard deviation" not in plain
    estimated = knockoff_filter(X[:8], y[:8], sigma="estimate").guarantee
    assert estimated.control.kind == "measured" and "approximate" in str(estimated)
    assert "standard deviation is 2" in str(knockoff_filter(X[:8], y[:8], sigma=2).guarantee)


def test_a_release_is_exact_and_can_be_selected_from_again(data):
    X, y, _ = data
    release = NonPrivate().release(X, y, random_state=3)
    k = knockoffs_of(Moments.from_data(X, y), "mvr")
    assert isinstance(release, ExactRelease) and release.n == 100 and release.method == "none"
    assert (release.pair()[0] == k.G).all() and (release.pair()[1] == k.products(3)).all()
    assert release.budget is None and release.estimate() is None and (release.s == k.s).all()
    for statistic in STATISTICS:
        again = knockoff_filter(X, y, statistic=statistic, fdr=.5, random_state=3)
        assert (select(release, rule=KnockoffPlus(statistic), fdr=.5).W == again.W).all()


def test_an_own_statistic_gets_the_gram_matrix_and_the_products_only(data):
    X, y, _ = data
    seen = []
    def own(*args):
        seen.append([np.shape(a) for a in args])
        return lcd(args[1])
    knockoff_filter(X, y, statistic=own, random_state=0)
    assert all(shapes == [(10, 10), (10,)] for shapes in seen)


def test_random_state_decides_the_knockoffs_and_nothing_else(data):
    X, y, _ = data
    a, b, c = (knockoff_filter(X, y, random_state=seed).W for seed in (0, 0, 1))
    assert (a == b).all() and not np.allclose(a, c)


BAD = [dict(fdr=0), dict(fdr=1), dict(fdr=-.1), dict(fdr="a"), dict(fdr=np.nan), dict(offset=.5),
       dict(offset=True), dict(s=1), dict(s="best"), dict(random_state=1.5), dict(statistic=3),
       dict(intercept="yes"), dict(sigma=1.0)]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_arguments(data, bad):
    X, y, _ = data
    sentence = refusal(knockoff_filter, X, y, **bad)
    assert next(iter(bad)) in sentence and "\n" not in sentence


def test_without_an_intercept_the_origin_matters(data):
    X, y, _ = data
    def W(X, y, intercept): return knockoff_filter(X, y, intercept=intercept, random_state=0).W
    assert not np.allclose(W(X + 5, y + 9, False), W(X, y, False), rtol=.01)
    assert np.allclose(W(X + 5, y + 9, True), W(X, y, True))


def test_without_an_intercept_2p_rows_are_enough():
    X, y, _ = linear_model(20, p=10, k=2, random_state=0)
    assert len(knockoff_filter(X, y, intercept=False, random_state=0).W) == 10
    assert "knockoffs need n >= 2p + 1 = 21" in refusal(knockoff_filter, X, y, intercept=True)


def test_a_statistic_that_fails_on_the_real_data_only_is_refused(data):
    "The matrices made up to check a statistic do not have a unit diagonal"
    def f(A, b): return csm(b) * (np.nan if A[0, 0] == 1 else 1.0)
    X, y, _ = data
    assert "not finite" in refusal(knockoff_filter, X, y, statistic=f, random_state=0)


def test_appended_noise_follows_the_seed():
    X, y, _ = linear_model(30, p=20, k=5, random_state=0)
    a, b, c = (knockoff_filter(X, y, sigma=1.0, random_state=seed).W for seed in (3, 3, 4))
    assert (a == b).all() and (a != c).any()


def test_clipped_moments_are_for_another_filter(data):
    X, y, _ = data
    assert "in bounds" in refusal(knockoff_filter, Moments.from_data(X, y, clip=Clip(2.0, 5.0)))


# ---------------------------------------------------------------- rows of a law

LAW = Blocks(Gaussian(1, ar1(4, .5), list("abcd")), Levels({"f": {0: .5, 1: .3, 2: .2}, "g": {0: .9, 1: .1}}))


def rows_of(law, n, seed):
    rng = np.random.default_rng(seed)
    X = law.draw(open_uniforms(rng, (n, law.p)))
    return X, np.exp(X[:, 0]) + X[:, 4] * X[:, 1] + rng.standard_t(2, n)


@pytest.mark.parametrize("intercept", [True, False])
def test_a_law_gives_moments_of_rows_and_their_knockoffs(intercept):
    X, y = rows_of(LAW, 300, 0)
    r = NonPrivate(law=LAW, intercept=intercept).release(open_source(X, y, columns=LAW.names), random_state=4)
    key = tuple(int(word) for word in stream(4, "rows' knockoffs").integers(0, 2**63, 2))
    K = LAW(X, row_uniforms(key, 0, 0, 300, LAW.uniforms))
    lam, V = np.linalg.eigh(LAW.covariance[4:6, 4:6])
    T = V / np.sqrt(lam) @ V.T
    both = []
    for half in (X, K):
        Z = half - LAW.mean
        Z[:, 4:6] = Z[:, 4:6] @ T
        both.append(Z)
    D = np.column_stack([*both, y])
    if intercept: D = D - D.mean(0)
    D = D / np.linalg.norm(D, axis=0)
    assert np.allclose(r.A, D[:, :-1].T @ D[:, :-1])
    assert np.allclose(r.b, np.sqrt(300) * D[:, :-1].T @ D[:, -1])
    assert r.names == ("a", "b", "c", "d", "f", "g") and r.groups["f"] == ("f=1", "f=2") and "Blocks" in r.law


def test_a_selection_with_a_law_says_so_and_can_be_repeated():
    X, y = rows_of(LAW, 300, 0)
    source = open_source(X, y, columns=LAW.names)
    one, two, three = (knockoff_filter(source, law=LAW, random_state=seed) for seed in (0, 0, 1))
    assert (one.W == two.W).all() and (one.W != three.W).any() and len(one.W) == 6
    assert "for any response" in str(one.guarantee)
    assert "independent draws of the given distribution" in str(one.guarantee)
    assert "normal noise" not in str(one.guarantee) and "Not private" in str(one.guarantee)


def test_null_signs_are_fair_for_rows_of_a_law():
    "Few rows, a response with heavy tails; levels that nobody has are no reason to refuse"
    rare = Blocks(Independent(dict.fromkeys("abcd", gamma(.5))),
                  Levels({"f": {0: .95, 1: .04, 2: .01}, "g": {0: .99, 1: .01}}))
    signs = []
    for seed in range(200):
        X, y = rows_of(rare, 60, seed)
        source = open_source(X, y - X[:, 4] * X[:, 1], columns=rare.names)
        r = NonPrivate(law=rare).release(source, random_state=seed)
        W = Statistic("ridge", "lcd", .1)(r.A, r.b, r.variables)[1:]
        signs.append(W[W != 0] > 0)
    assert_fair_coin(np.concatenate(signs))


def test_what_does_not_go_with_a_law_is_refused():
    X, y = rows_of(LAW, 30, 0)
    normal = Gaussian(0, np.eye(7))
    numbers = [dict(s=np.ones(7)), dict(s=[1.0] * 7), dict(sigma=1.0)]
    for bad in (*numbers, dict(s="lam_min"), dict(sigma="estimate")):
        assert "leave it out" in refusal(knockoff_filter, X, y, law=normal, **bad)
    assert "pass the rows" in refusal(knockoff_filter, Moments.from_data(X, y), law=normal)
    assert "constant" in refusal(knockoff_filter, X, np.ones(30), law=normal)
    assert "7" in refusal(knockoff_filter, X, y, law=Gaussian(0, np.eye(3)))
    assert len(knockoff_filter(X, y, law=normal, s="mvr").W) == 7  # the default, in other words


def test_a_level_that_nobody_has_gets_an_answer():
    law = Blocks(Gaussian(0, np.eye(2), ["a", "b"]), Levels({"g": {0: .5, 1: .5}}))
    X, _ = rows_of(Blocks(law, Gaussian(0, np.eye(2), ["c", "d"])), 64, 0)
    X = np.column_stack([X[:, :2], np.zeros(64)])  # in units of the law a constant, -1
    r = NonPrivate(law=law).release(open_source(X, X[:, 0], columns=law.names), random_state=0)
    assert r.A[2, 2] == 0 and r.b[2] == 0 and r.A[5, 5] > 0 and np.isfinite(select(r).W).all()


def test_a_pair_that_brings_all_knockoffs_close_is_named():
    "With s = lam_min one collinear pair loses the signals of all other columns"
    rng = stream(5, "pair")
    X = rng.standard_normal((1000, 12))
    y = X[:, :6].sum(1) * .3 + rng.standard_normal(1000)
    assert len(knockoff_filter(X, y, random_state=0)) >= 5
    X[:, 11] = -.987 * X[:, 10] + np.sqrt(1 - .987**2) * X[:, 11]
    found = knockoff_filter(X, y, s="lam_min", random_state=0)
    assert found.diagnosis[0].subject == "collinear columns" and "'x10', 'x11'" in found.diagnosis[0].found
    assert found.diagnosis.unknown == () and found.release.noise_share() == 0
    assert "collinear" not in repr(knockoff_filter(X[:, :11], y, s="lam_min", random_state=0).diagnosis)
