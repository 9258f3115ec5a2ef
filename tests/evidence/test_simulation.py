"The simulator: same numbers whatever the jobs, the methods' own code, and datasets as rows would have them."
from dataclasses import replace

import numpy as np
import pytest

import dp_knockoff.evidence.simulation as simulation
from dp_knockoff.core.errors import stream
from dp_knockoff.core.testing import assert_fair_coin, assert_rate_at_most, assert_same_law, refusal
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import RESPONSE_SDS, ROW_SHARE, planted
from dp_knockoff.data.moments import MOST_ROWS, Moments
from dp_knockoff.evidence.simulation import (
    _CHUNK,
    METHODS,
    RUNS,
    SIZES,
    Experiment,
    Point,
    _Batch,
    _clip_for,
    _clipped_law,
    _clipped_worlds,
    _draw_batch,
    _noise_scales,
    _pair_transform,
    _paper_method,
    _point,
    _release_world,
    _run_moments,
    _run_none,
    _run_one,
    _run_products,
    _run_rows,
    _run_tests,
    _run_two,
    _solve_blocks,
    _World,
    measure,
    run_chunk,
    simulate,
    simulated_moments,
)
from dp_knockoff.filters.methods import ask
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.filters.private_moments import Residuals, on_directions
from dp_knockoff.filters.products_method import clamped_normal
from dp_knockoff.knockoffs.fixed_x import gram, knockoffs_of
from dp_knockoff.knockoffs.statistics import Statistic, csm, lcd, ols
from dp_knockoff.knockoffs.threshold import error_rates, knockoff_threshold
from dp_knockoff.paper.one_and_two import MethodOne, MethodTwo, repair
from dp_knockoff.privacy.mechanisms import Budget
from dp_knockoff.selection.inference import bh_threshold

SMALL = Experiment(p=8, k=4, bounds="corrected", epsilon=1., delta=.01)


# ---------------------------------------------------------------- an experiment

def test_budgets():
    assert Experiment().budget(10**5) == Budget(.2, 1e-3) and Experiment().budget(10) == Budget(.2, .999)
    assert Experiment(delta="1/n").budget(10**4) == Budget(.2, 1e-4)
    assert Experiment(delta=.3).budget(9) == Budget(.2, .3)


@pytest.mark.parametrize("bad, words", [
    (dict(k=60), "k=60 is larger than p=50"), (dict(epsilon=0), "epsilon=0"), (dict(delta=2), "delta=2"),
    (dict(delta="n"), "delta='n'"), (dict(rho=1), "rho=1"), (dict(rho="x"), "rho='x'"),
    (dict(fdr=1.5), "fdr=1.5"), (dict(bounds="best"), "bounds='best'"), (dict(contrast="x"), "contrast='x'"),
    (dict(risk=0), "risk=0"), (dict(sigma=0), "sigma=0"), (dict(amplitude=-1), "amplitude=-1"),
    (dict(p=0), "p=0"), (dict(k=-1), "k=-1"),
])
def test_an_experiment_refuses(bad, words): assert words in refusal(Experiment, **bad)


@pytest.mark.parametrize("arguments, words", [
    (dict(sizes=[50]), "n=50 is below 2p=100"), (dict(sizes=[1000], methods=["three"]), "method='three'"),
    (dict(sizes=[MOST_ROWS + 1], methods=["moments"]), "rows are more than 67,108,864"),
    (dict(sizes=[1000], trials=0), "trials=0"), (dict(sizes=[1000], jobs=0), "jobs=0"),
])
def test_simulate_refuses(arguments, words): assert words in refusal(simulate, Experiment(), **arguments)


def test_a_choice_among_columns_is_not_simulated():
    words = "p=200 is not below 200, from where on tests choose columns first"
    assert words in refusal(simulate, Experiment(p=200), [1000], ["two", "tests"])
    assert simulate(Experiment(p=199, k=5), [1000], ["tests"], trials=1)[0].trials == 1


def test_row_bounds_cover():
    rng = np.random.default_rng(0)
    for rho in (0., .7):
        e = Experiment(p=10, k=1, rho=rho, risk=.1)
        L = np.linalg.cholesky(e.population)
        longest = [np.linalg.norm(rng.standard_normal((200, 10)) @ L.T, axis=1).max() for _ in range(1000)]
        assert np.mean(np.array(longest) <= e.row_bound(200)) > .87


# ---------------------------------------------------------------- a batch

def test_gram_matrices_are_wishart():
    "Against Gram matrices of rows, for correlated columns"
    e, rng = Experiment(p=3, k=1, rho=.6), np.random.default_rng(0)
    X = rng.standard_normal((20_000, 8, 3)) @ np.linalg.cholesky(e.population).T
    def entries(S):
        return np.column_stack([S[:, 0, 0], S[:, 2, 2], S[:, 0, 1], S[:, 0, 2], np.log(np.linalg.det(S))])
    assert_same_law(entries(_draw_batch(e, 8, 20_000, rng).XtX), entries(X.transpose(0, 2, 1) @ X))


def test_the_coefficients_of_a_batch_solve_the_normal_equations_in_law():
    "Mean C beta and covariance sigma^2 G^-1, given the design"
    e, rng = replace(SMALL, sigma=1.5, rho=.4), np.random.default_rng(0)
    b = _draw_batch(e, 50, 20_000, rng)
    L = np.linalg.cholesky(gram(b.Sigma, np.repeat(b.s, 8, axis=1)))
    error = b.coef - np.concatenate([b.C * b.beta, np.zeros_like(b.beta)], axis=1)
    Z = np.einsum("tji,tj->ti", L, error) / 1.5
    def watched(Z): return np.column_stack([Z, Z[:, :8] * Z[:, 8:]])
    assert_same_law(watched(Z), watched(rng.standard_normal(Z.shape)))


def test_signals_of_a_batch():
    b = _draw_batch(replace(SMALL, amplitude=2.5), 100, 4000, np.random.default_rng(0))
    assert ((b.beta == 2.5).sum(1) == 4).all() and ((b.beta == 0).sum(1) == 4).all()
    assert np.allclose((b.beta != 0).mean(0), .5, atol=.04)
    assert isinstance(b, _Batch) and b.B == SMALL.row_bound(100)


# ---------------------------------------------------------------- Methods I and II

@pytest.mark.parametrize("repaired", [False, True])
def test_blocks_solve_what_the_full_matrix_solves(repaired):
    rng = np.random.default_rng(0)
    for _ in range(20):
        E = rng.standard_normal((5, 5)) * .4
        Sigma = np.eye(5) + E + E.T - 2 * np.diag(np.diag(E))
        s, c = rng.uniform(.2, .9), rng.standard_normal(10)
        A = gram(Sigma, np.full(5, s))
        M = 2 * Sigma - s * np.eye(5)
        blocks = _solve_blocks(M[None], np.array([[s]]), _pair_transform(c)[None], repaired)
        assert np.allclose(ols(repair(A) if repaired else A, c), _pair_transform(blocks)[0])


@pytest.mark.parametrize("bounds", ["paper", "corrected", "tight", "coupled"])
def test_scales_are_those_of_a_real_run(bounds):
    e = replace(SMALL, bounds=bounds, epsilon=.9, delta=.2)
    b = replace(_draw_batch(e, 5000, 1, np.random.default_rng(0)), B=10.)
    scatter = np.block([[b.XtX[0], np.ones((8, 1))], [np.ones((1, 8)), np.array([[9e3]])]])
    m = Moments(5000, np.zeros(9), scatter, 9.9, tuple("abcdefgh"))
    public = dict(epsilon=.9, delta=.2, row_bound=10., sigma=1., beta_norm=9., bounds=bounds)
    public |= dict(simulation=True, random_state=0)
    two = list(ask("two", m, **public).noise.values())
    assert np.allclose(_noise_scales(_paper_method(MethodTwo, e, b), b, 1)[0], two, rtol=1e-12)
    if bounds == "coupled": return
    one = list(ask("one", m, **public).noise.values())
    assert np.allclose(_noise_scales(_paper_method(MethodOne, e, b), b, 3)[0], one, rtol=1e-12)


@pytest.mark.parametrize("repaired", [False, True])
def test_the_methods_on_a_batch_are_the_methods(repaired):
    "The same noise, written out with the full 2p x 2p matrices"
    e, T, p = replace(SMALL, repaired=repaired), 6, 8
    b = _draw_batch(e, 5000, T, np.random.default_rng(0))
    one, two = _run_one(e, b, np.random.default_rng(5)), _run_two(e, b, np.random.default_rng(6))
    scales_one = _noise_scales(_paper_method(MethodOne, e, b), b, 3)
    scales_two = _noise_scales(_paper_method(MethodTwo, e, b), b, 1)
    rng, above = np.random.default_rng(5), np.triu_indices(p, 1)
    upper, laplace = rng.standard_normal((T, len(above[0]))), rng.laplace(size=(T, 1))
    white, white_two = rng.standard_normal((T, 2 * p)), np.random.default_rng(6).standard_normal((T, 2 * p))
    for t in range(T):
        lam_scale, gram_scale, product_scale = scales_one[t]
        theta = np.zeros((p, p))
        theta[above] = gram_scale * upper[t]
        A = gram(b.Sigma[t] + theta + theta.T, np.full(p, b.lam[t, 0] + lam_scale * laplace[t, 0]))
        exact = gram(b.Sigma[t], np.full(p, b.lam[t, 0])) @ b.coef[t]
        c = exact + product_scale * _pair_transform(white[t])
        assert np.allclose(one[t], Statistic()(repair(A) if repaired else A, c))
        assert np.allclose(two[t], csm(b.coef[t] + scales_two[t] * white_two[t]))


def test_contrasts_and_the_filter_without_privacy():
    b = _draw_batch(SMALL, 100, 5, np.random.default_rng(0))
    assert np.array_equal(_run_none(SMALL, b, None), csm(b.coef))
    assert np.array_equal(_run_none(replace(SMALL, contrast="lcd"), b, None), lcd(b.coef))
    b = _draw_batch(SMALL, 10**6, 5, np.random.default_rng(0))
    tight = _run_one(replace(SMALL, bounds="tight"), b, np.random.default_rng(1))
    coupled = _run_one(replace(SMALL, bounds="coupled"), b, np.random.default_rng(1))
    assert np.array_equal(tight, coupled) # coupling is Method II's


def test_a_method_that_refuses_selects_nothing():
    e = Experiment(p=40, k=20)
    rates = run_chunk(e, ["none", "one", "two"], 90, 0, 30, 0)
    assert rates["two"].max() == 0 and rates["none"][1].mean() > .1
    short = replace(_draw_batch(e, 90, 3, np.random.default_rng(0)), B=50.)
    assert np.isnan(_run_one(e, short, np.random.default_rng(0))).all()
    assert np.isnan(_run_two(e, short, np.random.default_rng(0))).all()
    assert knockoff_threshold(np.zeros(5), .2) == np.inf


# ---------------------------------------------------------------- the moments filter

def test_a_clamped_normal_variable():
    "Against integrals"
    x = np.linspace(-9, 9, 200_001)
    density = np.exp(-x**2 / 2) / np.exp(-x**2 / 2).sum()
    a = np.array([.3, 1.0, 2.5, 6.0])
    inside, square = clamped_normal(a)
    assert np.allclose(inside, [density @ (np.abs(x) < bound) for bound in a], atol=1e-4)
    assert np.allclose(square, [density @ np.minimum(x**2, bound**2) for bound in a], atol=1e-4)


def test_clipped_law_against_rows():
    "Means of the clipped moments, from fresh rows; and the world that is made of them"
    e, n = Experiment(p=8, k=3, rho=.5, amplitude=1.0, sigma=1.5), 200_000
    rng = stream(3, "rows")
    X = rng.standard_normal((n, 8)) @ np.linalg.cholesky(e.population).T
    w = np.minimum(1, _clip_for(e).row_bound / np.linalg.norm(X, axis=1))[:, None]
    T, root, w2, whole, v2 = _clipped_law(8, .5)
    v = np.maximum(1, w / np.sqrt(w2))
    assert np.allclose((X * v).T @ (X * v) / n, whole, atol=.02) and abs((v**2).mean() - v2) < .005
    assert np.allclose((X * w).T @ (X * w) / n, T @ e.population @ T.T, atol=.01)
    assert np.allclose((X * w**2).T @ (X * w**2) / n, root @ root.T, atol=.01)
    assert abs((w**2).mean() - w2) < .005
    b = _draw_batch(e, n, 4, rng)
    for k, world in enumerate(_clipped_worlds(e, b, rng)):
        assert isinstance(world, _World) and (world.n, world.sigma) == (n, 1.5)
        assert np.allclose(world.gram, T @ b.XtX[k] @ T.T) and (world.beta == b.beta[k]).all()
    assert k == 3


@pytest.mark.parametrize("start", [(), (1.1, .9, 1.1, -.1, .1, .1, -.1, .1)])
def test_residuals_without_rows_are_those_of_rows(start):
    "Histograms before a fit and after one, where rows that scaling left long count as longer ones"
    e, n, rng = Experiment(p=8, k=3, rho=.5, amplitude=1.0, sigma=1.5), 200_000, stream(3, "rows")
    b = replace(_draw_batch(e, n, 1, rng), beta=np.repeat([[1.0, 0.0]], [3, 5], axis=1))
    (world,) = _clipped_worlds(e, b, rng)
    X = rng.standard_normal((n, 8)) @ np.linalg.cholesky(e.population).T
    y = X @ b.beta[0] + 1.5 * rng.standard_normal(n)
    seen = Residuals(world.names, replace(_clip_for(e), start=start), np.sqrt(world.law.w2))
    spread = world._spread(seen.clip)
    edges = spread * np.array([.25, .5, 1.0, 1.5, 2.0, 3.0])
    def beyond(counts): return counts.sum(0)[::-1].cumsum()[::-1] / n
    rows, drawn = beyond(seen.sizes(edges)(X, y)), beyond(world.sizes(seen, edges))
    short = replace(world, law=world.law._replace(whole=world.gram / n / world.law.w2, v2=1.0))
    gaps = [np.abs(rows - found).max() for found in (drawn, beyond(short.sizes(seen, edges)))]
    assert gaps[0] < .02 and gaps[1] > .03 # without the lengthening they are too short


def release_rows(e, n, trials, rounds):
    "What the filter releases of rows: each by itself"
    clip, found = _clip_for(e), []
    budget = e.budget(n)
    method = MomentsMethod(epsilon=budget.epsilon, delta=budget.delta, row_bound=clip.row_bound,
                           response_bound=clip.response_bound, intercept=False, rounds=rounds)
    root = np.linalg.cholesky(e.population).T
    for k in range(trials):
        rng = stream(k, "release rows")
        X = rng.standard_normal((n, e.p)) @ root
        beta = np.zeros(e.p)
        beta[:e.k] = e.amplitude
        y = X @ beta + e.sigma * rng.standard_normal(n)
        found.append(method.release(X, y, simulation=True, random_state=rng))
    return found


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("amplitude", [.15, 1.5])
def test_releases_without_rows_are_those_of_rows(rounds, amplitude):
    "Means of every kind of number that is released, for weak signals and for strong ones; and its scales"
    e, n, T = Experiment(p=6, k=3, rho=.4, epsilon=2.0, delta=1e-3, amplitude=amplitude), 2000, 150
    b = _draw_batch(e, n, T, stream(0, "batch"))
    b = replace(b, beta=np.tile(np.where(np.arange(6) < 3, amplitude, 0.0), (T, 1)))
    worlds = _clipped_worlds(e, b, stream(0, "noise"))
    drawn = [_release_world(world, _clip_for(e), e.budget(n), rounds) for world in worlds]
    rows = release_rows(e, n, T, rounds)
    for name in ("gram_sd", "clamped_sd", "weights_sd"):
        assert np.isclose(getattr(drawn[0], name), getattr(rows[0], name), rtol=1e-9), name
    names = dict.fromkeys(("gram", "weights", "products", "squares", "variances"), 2.0)
    names |= {"clamped": 10.0, "bounds": .05, "product_sds": 1.0}  # beside 3 % and the noise of the means
    for name, room in names.items():
        one, two = (np.array([getattr(r, name) for r in made]) for made in (drawn, rows))
        assert one.shape == two.shape, name
        far, se = np.abs(one.mean(0) - two.mean(0)), np.sqrt((one.var(0) + two.var(0)) / T)
        assert (far < room + .03 * np.abs(two.mean(0)) + 5 * se).all(), name
        if name in ("gram", "products"): assert np.abs(np.log(one.std(0) / two.std(0))).max() < .5
    assert np.isclose(*(np.median([r.variance_sd for r in made]) for made in (drawn, rows)), rtol=.15)


def test_scores_without_rows_are_those_of_rows():
    "|z| of nulls and of signals"
    e, n, T = Experiment(p=6, k=3, rho=.4, epsilon=2.0, delta=1e-3, amplitude=.15), 2000, 150
    b = _draw_batch(e, n, T, stream(0, "batch"))
    b = replace(b, beta=np.tile(np.where(np.arange(6) < 3, .15, 0.0), (T, 1)))
    Z = _run_moments(e, b, stream(0, "noise"))
    rows = []
    for r in release_rows(e, n, T, None):
        found = r.estimate()
        rows.append(np.abs(found.beta / np.sqrt(np.diag(found.V))))
    rows = np.array(rows)
    summed = [np.column_stack([z[:, :3].sum(1), z[:, 3:].sum(1)]) for z in (Z, rows)]
    assert_same_law(*summed)
    assert (Z >= 0).all() and np.allclose(*(z.mean(0) for z in summed), rtol=.15)
    with pytest.raises(AssertionError): assert_same_law(1.5 * summed[0], summed[1])


def test_scores_are_estimates_over_their_standard_deviations_trial_by_trial():
    e, n, T = Experiment(p=12, k=5, rho=.4, epsilon=1.0, delta=1e-3), 3000, 3
    b = _draw_batch(e, n, T, stream(0, "batch"))
    worlds = _clipped_worlds(e, b, stream(1, "noise"))
    released = [_release_world(world, _clip_for(e), e.budget(n)) for world in worlds]
    Z = _run_moments(e, b, stream(1, "noise"))
    for z, r in zip(Z, released):
        found = r.estimate()
        assert np.allclose(z, np.abs(found.beta) / np.sqrt(np.diag(found.V))) and r.products.shape == (3, 12)


def test_the_moments_filter_selects_by_benjamini_and_hochberg_and_others_by_knockoffs():
    name = "simulation n=3000 chunk=2"
    e = replace(SMALL, amplitude=.2)
    b = _draw_batch(e, 3000, 20, stream(5, name))
    Z = _run_moments(e, b, stream(5, f"{name} method=moments"))
    W = _run_none(e, b, None)
    found = run_chunk(e, ["none", "moments"], 3000, 2, 20, 5)
    tests = np.array([z >= bh_threshold(z, e.fdr) for z in Z])
    knockoffs = np.array([w >= knockoff_threshold(w, e.fdr) for w in W])
    assert np.allclose(found["moments"], error_rates(tests, b.beta))
    assert np.allclose(found["none"], error_rates(knockoffs, b.beta)) and 0 < tests.mean() < 1


def test_bounds_of_the_simulator_are_those_of_the_trials():
    "Exactly for independent columns; on average over the places of the signals for correlated ones"
    clip = _clip_for(Experiment())
    _, _, _, B, By = planted(10)(np.random.default_rng(0))
    assert np.isclose(clip.row_bound, B) and np.isclose(clip.response_bound, By) and not clip.intercept
    squares = [planted(10, rho=.5)(np.random.default_rng(k))[4]**2 for k in range(2000)]
    assert np.isclose(_clip_for(Experiment(rho=.5)).response_bound**2, np.mean(squares), rtol=.02)


# ---------------------------------------------------------------- points

@pytest.mark.parametrize("rho", [0, .5])
@pytest.mark.parametrize("sigma", [.5, 3.0])
def test_response_bounds_are_standard_deviations_of_a_response(rho, sigma):
    "Of one whose signals lie at random places"
    e, rng = Experiment(p=6, k=3, amplitude=2.0, rho=rho, sigma=sigma), np.random.default_rng(0)
    places = np.argsort(rng.random((4000, 6)), axis=1) < 3
    beta = 2.0 * places
    spread = np.sqrt(np.mean(np.einsum("ti,ij,tj->t", beta, e.population, beta)) + sigma**2)
    assert np.isclose(_clip_for(e).response_bound, ROW_SHARE * RESPONSE_SDS * spread, rtol=.02)
    assert np.isclose(simulation._response_bound(e), RESPONSE_SDS * spread, rtol=.02)


def test_variances_of_a_world_are_those_along_unit_vectors():
    "Residual square times its share along a unit vector: what the fit left, and regression noise"
    rng, n, d, sigma = np.random.default_rng(0), 500, 3, 2.0
    root, noise = rng.standard_normal((d, d)), rng.standard_normal(d)
    law = _clipped_law(d, 0.0)._replace(root=root)
    world = _World(n, np.eye(d), np.zeros(d), noise, sigma, law, rng)
    clip = Clip(2.0, 60.0, intercept=False)
    directions = on_directions(rng.standard_normal((4, d)))
    sums = world.sums(Residuals(world.names, clip, .7), directions, True)
    unit = (clip.design_bound * clip.response_bound)**2 / 2**26
    q = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    assert np.allclose(sums.variances * unit, n * sigma**2 * ((q @ root)**2).sum(1), rtol=1e-3)
    assert np.allclose(sums.products[:-1, :-1] * clip.row_step**2, np.eye(d))
    assert np.allclose(sums.products[-1, :-1] * clip.row_step * clip.response_step, noise, rtol=1e-6)


def test_numbers_depend_on_the_seed_only():
    runs = [simulate(SMALL, [2000, 5000], trials=2 * _CHUNK + 7, seed=3, jobs=jobs) for jobs in (1, 2, 5)]
    assert runs[0] == runs[1] == runs[2] and {pt.trials for pt in runs[0]} == {2 * _CHUNK + 7}
    both = simulate(SMALL, [2000, 5000], ["none", "two"], trials=20, seed=3)
    assert simulate(SMALL, [5000], ["two"], trials=20, seed=3)[0] == both[3]
    assert (simulate(SMALL, [5000], ["none"], trials=200, seed=4)
            != simulate(SMALL, [5000], ["none"], trials=200, seed=3))


def test_points_that_were_computed_before():
    "Version 0.1 gave these: the paper's setting, 100 trials"
    points = simulate(Experiment(), [31623, 125893], ["none", "one", "two"], trials=100, seed=0)
    assert [(pt.method, pt.n) for pt in points[:3]] == [("none", 31623), ("one", 31623), ("two", 31623)]
    assert np.allclose([pt.power for pt in points], POWERS, atol=1e-12)
    assert np.allclose([pt.fdr for pt in points], FDRS, atol=1e-12)


POWERS = [1.0, 0.0, 0.0593333333333, 1.0, 0.0073333333333, 0.5553333333333]
FDRS = [0.2021888983877, 0.0, 0.0778913586414, 0.1734235084511, 0.028, 0.1541433845137]


def test_every_draw_has_a_stream_of_its_own(monkeypatch):
    names, original = [], simulation.stream

    def recording(seed, name):
        names.append(name)
        return original(seed, name)

    monkeypatch.setattr(simulation, "stream", recording)
    simulate(SMALL, [2000, 3000], trials=_CHUNK + 1)
    names = [name for name in names if not name.startswith("clipped")] # drawn once, for all
    assert len(names) == len(set(names)) == 2 * 2 * 7                  # sizes x chunks x (data and methods)


def test_points_are_told_as_they_are_finished():
    told = []
    points = simulate(SMALL, [2000, 3000], ["none", "two"], trials=10, done=told.append)
    assert told == [points[:2], points[2:]] and isinstance(points[0], Point)


def test_a_point():
    pt = _point("two", 7, np.array([[0, .5, .1, .2], [1., 1, 0, 0]]))
    expected = [.2, .5, .25, np.std([0, .5, .1, .2]) / 2]
    assert np.allclose([pt.fdr, pt.power, pt.power_se, pt.fdr_se], expected) and pt.trials == 4
    assert (pt.method, pt.n) == ("two", 7)


def test_words_and_sizes():
    assert METHODS == tuple(RUNS) == ("none", "one", "two", "moments", "products", "tests")
    assert len(SIZES) == 15 and SIZES[0] == 1000 and SIZES[-1] == 3981072


# ---------------------------------------------------------------- on rows

def test_rows_of_any_design():
    def binary(rng): return rng.integers(0, 2, (3000, 8)) - .5
    rates, again = (_run_rows(replace(SMALL, k=6), binary, trials=10, seed=1) for _ in range(2))
    assert rates["none"].shape == (2, 10) and rates["none"][1].mean() == 1
    assert set(rates) == set(METHODS) and all((rates[m] == again[m]).all() for m in rates)
    def short(rng): return rng.standard_normal((20, 8))
    assert _run_rows(SMALL, short, ["two"], trials=3)["two"].max() == 0 # refused


@pytest.mark.parametrize("method, run", [("products", _run_products), ("tests", _run_tests)])
def test_sums_without_rows_are_those_of_rows(method, run):
    "Statistics of the filters for public distributions from moments and from rows have one law"
    e = replace(SMALL, rho=.5, amplitude=1.0)
    draws = 200
    b = _draw_batch(e, 500, draws, stream(0, "designs"))
    W = run(e, b, stream(0, "noise"))
    rows = []
    rng = stream(1, "rows")
    root = np.linalg.cholesky(e.population).T
    for beta in b.beta:
        X = rng.standard_normal((500, e.p)) @ root
        y = X @ beta + rng.standard_normal(500)
        rows.append(simulation._row_filters(e, X, y, beta, rng)[method]().W)
    rows = np.array(rows)
    found = [np.column_stack([(w * (b.beta != 0)).sum(1), (w * (b.beta == 0)).sum(1)]) for w in (W, rows)]
    assert_same_law(*found)
    with pytest.raises(AssertionError): assert_same_law(3 * found[0], found[1])


# Moments without rows, and rows with a known truth


@pytest.mark.parametrize("intercept", [True, False])
def test_a_null_of_moments_without_rows_is_a_fair_coin(intercept):
    "With means of zero and an intercept it won .29 of the time"
    rng = np.random.default_rng(0)
    def wins():
        k = knockoffs_of(simulated_moments(3, np.zeros(1), 1.0, rng), intercept=intercept)
        return Statistic()(k.G, k.products(rng))[0] > 0
    assert_fair_coin([wins() for _ in range(1200)])


def test_moments_without_rows_refuse():
    assert "not above p=2" in refusal(simulated_moments, 2, np.ones(2))
    assert "sigma=-1" in refusal(simulated_moments, 20, np.ones(2), -1)
    m = simulated_moments(20, np.ones(2), 0.0, random_state=0)
    assert np.allclose(m.Xty, m.XtX @ np.ones(2))


def test_measure_is_the_filter_as_a_user_calls_it():
    draw = planted(2000, p=8, k=4)
    rates = measure(draw, 3, seed=5, epsilon=1.0, delta=.01)
    for k in range(3):
        rng = np.random.default_rng([5, k])
        X, y, beta, B, By = draw(rng)
        chosen = ask("moments", X, y, epsilon=1.0, delta=.01, row_bound=B, response_bound=By, intercept=False,
                                simulation=True, random_state=rng)
        assert np.array_equal(rates[:, k], error_rates(chosen.support, beta))
    assert np.array_equal(rates, measure(draw, 3, seed=5, jobs=1, epsilon=1.0, delta=.01))
    assert not np.array_equal(rates, measure(draw, 3, seed=6, epsilon=.1, delta=.01))


@pytest.mark.parametrize("rounds, size, least", [(None, 10**3.8, .95), (1, 10_000, .6)])
def test_target_of_the_paper_setting(rounds, size, least):
    "Power .95 at n = 10^3.8 with FDR at most .2, where Method II finds next to nothing; less with one round"
    n = int(size)
    fdp, power = measure(planted(n), 20, seed=11, epsilon=.2, delta=100 / n, rounds=rounds)
    assert power.mean() > least and assert_rate_at_most(fdp, .2) < .25
