"The simulator: same numbers whatever the jobs, the methods' own code, and datasets as rows would have them."
from dataclasses import replace

import numpy as np
import pytest

import dp_knockoff.simulation as simulation
from dp_knockoff.estimate import CANONICAL, canonical, estimate_coefficients
from dp_knockoff.knockoffs import gram
from dp_knockoff.mechanisms import Budget, analytic_ratio
from dp_knockoff.method_moments import MomentsMethod
from dp_knockoff.method_one import MethodOne, filter_one, repair
from dp_knockoff.method_two import MethodTwo, filter_two
from dp_knockoff.moments import MOST_ROWS, ExactMoments, Moments
from dp_knockoff.private_moments import Units, noisy_moments
from dp_knockoff.randomness import stream
from dp_knockoff.rounds import BALANCE, CHECK
from dp_knockoff.samplers import NumpySampler
from dp_knockoff.simulation import (
    CHUNK,
    METHODS,
    RUNS,
    SIZES,
    Batch,
    Experiment,
    Point,
    clip_for,
    clipped_law,
    clipped_moments,
    draw_batch,
    in_steps,
    noise_scales,
    pair_transform,
    paper_method,
    point,
    run_chunk,
    run_moments,
    run_none,
    run_one,
    run_products,
    run_rows,
    run_two,
    simulate,
    solve_blocks,
)
from dp_knockoff.statistics import Statistic, csm, lcd, ols
from dp_knockoff.testing import assert_same_law, refusal
from dp_knockoff.threshold import knockoff_threshold
from dp_knockoff.trials import planted

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
    assert_same_law(entries(draw_batch(e, 8, 20_000, rng).XtX), entries(X.transpose(0, 2, 1) @ X))


def test_the_coefficients_of_a_batch_solve_the_normal_equations_in_law():
    "Mean C beta and covariance sigma^2 G^-1, given the design"
    e, rng = replace(SMALL, sigma=1.5, rho=.4), np.random.default_rng(0)
    b = draw_batch(e, 50, 20_000, rng)
    L = np.linalg.cholesky(gram(b.Sigma, np.repeat(b.s, 8, axis=1)))
    error = b.coef - np.concatenate([b.C * b.beta, np.zeros_like(b.beta)], axis=1)
    Z = np.einsum("tji,tj->ti", L, error) / 1.5
    def watched(Z): return np.column_stack([Z, Z[:, :8] * Z[:, 8:]])
    assert_same_law(watched(Z), watched(rng.standard_normal(Z.shape)))


def test_signals_of_a_batch():
    b = draw_batch(replace(SMALL, amplitude=2.5), 100, 4000, np.random.default_rng(0))
    assert ((b.beta == 2.5).sum(1) == 4).all() and ((b.beta == 0).sum(1) == 4).all()
    assert np.allclose((b.beta != 0).mean(0), .5, atol=.04)
    assert isinstance(b, Batch) and b.B == SMALL.row_bound(100)


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
        blocks = solve_blocks(M[None], np.array([[s]]), pair_transform(c)[None], repaired)
        assert np.allclose(ols(repair(A) if repaired else A, c), pair_transform(blocks)[0])


@pytest.mark.parametrize("bounds", ["paper", "corrected", "tight", "coupled"])
def test_scales_are_those_of_a_real_run(bounds):
    e = replace(SMALL, bounds=bounds, epsilon=.9, delta=.2)
    b = replace(draw_batch(e, 5000, 1, np.random.default_rng(0)), B=10.)
    scatter = np.block([[b.XtX[0], np.ones((8, 1))], [np.ones((1, 8)), np.array([[9e3]])]])
    m = Moments(5000, np.zeros(9), scatter, 9.9, tuple("abcdefgh"))
    public = dict(epsilon=.9, delta=.2, row_bound=10., sigma=1., beta_norm=9., bounds=bounds)
    public |= dict(simulation=True, random_state=0)
    two = list(filter_two(m, **public).noise.values())
    assert np.allclose(noise_scales(paper_method(MethodTwo, e, b), b, 1)[0], two, rtol=1e-12)
    if bounds == "coupled": return
    one = list(filter_one(m, **public).noise.values())
    assert np.allclose(noise_scales(paper_method(MethodOne, e, b), b, 3)[0], one, rtol=1e-12)


@pytest.mark.parametrize("repaired", [False, True])
def test_the_methods_on_a_batch_are_the_methods(repaired):
    "The same noise, written out with the full 2p x 2p matrices"
    e, T, p = replace(SMALL, repaired=repaired), 6, 8
    b = draw_batch(e, 5000, T, np.random.default_rng(0))
    one, two = run_one(e, b, np.random.default_rng(5)), run_two(e, b, np.random.default_rng(6))
    scales_one = noise_scales(paper_method(MethodOne, e, b), b, 3)
    scales_two = noise_scales(paper_method(MethodTwo, e, b), b, 1)
    rng, above = np.random.default_rng(5), np.triu_indices(p, 1)
    upper, laplace = rng.standard_normal((T, len(above[0]))), rng.laplace(size=(T, 1))
    white, white_two = rng.standard_normal((T, 2 * p)), np.random.default_rng(6).standard_normal((T, 2 * p))
    for t in range(T):
        lam_scale, gram_scale, product_scale = scales_one[t]
        theta = np.zeros((p, p))
        theta[above] = gram_scale * upper[t]
        A = gram(b.Sigma[t] + theta + theta.T, np.full(p, b.lam[t, 0] + lam_scale * laplace[t, 0]))
        exact = gram(b.Sigma[t], np.full(p, b.lam[t, 0])) @ b.coef[t]
        c = exact + product_scale * pair_transform(white[t])
        assert np.allclose(one[t], Statistic()(repair(A) if repaired else A, c))
        assert np.allclose(two[t], csm(b.coef[t] + scales_two[t] * white_two[t]))


def test_contrasts_and_the_filter_without_privacy():
    b = draw_batch(SMALL, 100, 5, np.random.default_rng(0))
    assert np.array_equal(run_none(SMALL, b, None), csm(b.coef))
    assert np.array_equal(run_none(replace(SMALL, contrast="lcd"), b, None), lcd(b.coef))
    b = draw_batch(SMALL, 10**6, 5, np.random.default_rng(0))
    tight = run_one(replace(SMALL, bounds="tight"), b, np.random.default_rng(1))
    coupled = run_one(replace(SMALL, bounds="coupled"), b, np.random.default_rng(1))
    assert np.array_equal(tight, coupled) # coupling is Method II's


def test_a_method_that_refuses_selects_nothing():
    e = Experiment(p=40, k=20)
    rates = run_chunk(e, ["none", "one", "two"], 90, 0, 30, 0)
    assert rates["two"].max() == 0 and rates["none"][1].mean() > .1
    short = replace(draw_batch(e, 90, 3, np.random.default_rng(0)), B=50.)
    assert np.isnan(run_one(e, short, np.random.default_rng(0))).all()
    assert np.isnan(run_two(e, short, np.random.default_rng(0))).all()
    assert knockoff_threshold(np.zeros(5), .2) == np.inf


# ---------------------------------------------------------------- the moments filter

class WithoutCount(NumpySampler):
    "Draws everything but the count of clamped responses"
    def lattice(self, value, scale, purpose):
        return value if purpose == "clamped responses" else super().lattice(value, scale, purpose)


@pytest.mark.parametrize("e, n", [(Experiment(), 10_000), (Experiment(p=12, k=5, rho=.4, epsilon=1.), 3000)])
def test_a_batch_of_one_is_the_filter_on_its_moments(e, n):
    "The release's knockoffs are drawn with the numbers that follow its noise"
    method = MomentsMethod(epsilon=e.epsilon, delta=e.budget(n).delta)
    for seed in range(3):
        b = draw_batch(e, n, 1, stream(seed, "batch"))
        W = run_moments(e, b, stream(seed, "noise"))[0]
        rng, clip = stream(seed, "noise"), clip_for(e)
        sums = in_steps(clip, *clipped_moments(e, b, rng))[0]
        m = ExactMoments(n, sums, tuple(f"x{j}" for j in range(e.p)), clip, cut=(0, 0), longest=1)
        release = method.release(m, sampler=WithoutCount(rng))
        whole = release.statistic(*release.pair(random_state=rng))
        assert release.simulated
        assert np.allclose(W, whole, rtol=1e-9, atol=1e-9 * np.abs(W).max())


def test_sums_in_whole_steps_are_the_moments():
    "Half a step is 2^-37 of a squared bound; one step more in X'y shows in its place, and in no other"
    e = Experiment(p=3, k=2)
    b = draw_batch(e, 500, 2, stream(0, "batch"))
    clip = clip_for(e)
    G, Xty, yty = clipped_moments(e, b, stream(0, "clipped"))
    sums = in_steps(clip, G, Xty, yty)
    assert sums.dtype == np.int64 and sums.shape == (2, 4, 4) and (sums == sums.transpose(0, 2, 1)).all()
    B, By = clip.row_bound, clip.response_bound
    parts = (sums[:, :3, :3], G, B**2), (sums[:, 3, :3], Xty, B * By), (sums[:, 3, 3], yty, By**2)
    for found, exact, unit in parts:
        assert np.abs(found * (unit / 2**36) - exact).max() <= unit * 2**-36
    moved = in_steps(clip, G, Xty + np.array([0, 1, 0]) * clip.row_step * clip.response_step, yty) - sums
    assert [tuple(place) for place in np.argwhere(moved)] == [(0, 1, 3), (0, 3, 1), (1, 1, 3), (1, 3, 1)]


def test_exact_moments_of_rows_have_the_law_of_the_simulators():
    "Integer sums of rows that went through the clip, against integer sums that were drawn: means, in steps"
    e, n = Experiment(p=5, k=3, amplitude=1.0), 4000
    clip = clip_for(e)
    b = draw_batch(e, n, 400, stream(0, "batch"))
    drawn = in_steps(clip, *clipped_moments(e, b, stream(0, "clipped")))
    draw = planted(n, 5, 3, 1.0)
    rows = np.array([Moments.from_data(*draw(stream(k, "rows"))[:2], clip=clip).sums for k in range(100)])
    assert rows.dtype == np.int64
    diagonal = range(5)
    assert np.isclose(drawn[:, diagonal, diagonal].mean(), rows[:, diagonal, diagonal].mean(), rtol=.005)
    assert np.isclose(drawn[:, :5, 5].mean(), rows[:, :5, 5].mean(), rtol=.03)
    assert np.isclose(drawn[:, 5, 5].mean(), rows[:, 5, 5].mean(), rtol=.05) # one in eighty is clamped


def test_a_batch_is_its_trials_one_by_one():
    "The same noise and knockoffs, and every trial with matrices of its own"
    e, n, T = Experiment(p=12, k=5, rho=.4, epsilon=1.0, delta=1e-3), 3000, 6
    b = draw_batch(e, n, T, stream(0, "batch"))
    W, rng = run_moments(e, b, stream(1, "noise")), stream(1, "noise")
    mu = analytic_ratio(e.budget(n)) * np.sqrt(1 - CHECK)
    clip = clip_for(e)
    sums = in_steps(clip, *clipped_moments(e, b, rng))
    noisy = noisy_moments(sums, Units(clip, BALANCE), mu, NumpySampler(rng), "moments")
    scales = {name: noisy[name] for name in ("gram_sd", "product_sd", "square_sd")}
    normals = rng.standard_normal((T, 12))

    class Given:
        "A generator that returns what is to be used"
        def __init__(self, values): self.values = values
        def standard_normal(self, shape): return self.values.reshape(shape)

    for t in range(T):
        found = estimate_coefficients(noisy["gram"][t], noisy["products"][t], noisy["square"][t], n, **scales)
        alone = CANONICAL(*canonical(found.beta, found.V, "mvr", Given(normals[t])))
        assert np.allclose(W[t], alone, atol=1e-8)


def test_clipped_law_against_rows():
    "Means of the clipped moments, from fresh rows"
    e, n = Experiment(p=8, k=3, rho=.5, amplitude=1.0), 200_000
    rng = stream(3, "rows")
    X = rng.standard_normal((n, 8)) @ np.linalg.cholesky(e.population).T
    w = np.minimum(1, clip_for(e).row_bound / np.linalg.norm(X, axis=1))[:, None]
    T, root, w2 = clipped_law(8, .5)
    assert np.allclose((X * w).T @ (X * w) / n, T @ e.population @ T.T, atol=.01)
    assert np.allclose((X * w**2).T @ (X * w**2) / n, root @ root.T, atol=.01)
    assert abs((w**2).mean() - w2) < .005
    b = draw_batch(e, n, 4, rng)
    XtX, Xty, yty = clipped_moments(e, b, rng)
    fitted = np.einsum("tij,tj->ti", XtX, b.beta)
    assert np.allclose(Xty / n, fitted / n, atol=.02)
    assert np.allclose(yty / n - (b.beta * fitted).sum(1) / n, w2, atol=.03)


def test_bounds_of_the_simulator_are_those_of_the_trials():
    "Exactly for independent columns; on average over the places of the signals for correlated ones"
    clip = clip_for(Experiment())
    _, _, _, B, By = planted(10)(np.random.default_rng(0))
    assert np.isclose(clip.row_bound, B) and np.isclose(clip.response_bound, By) and not clip.intercept
    squares = [planted(10, rho=.5)(np.random.default_rng(k))[4]**2 for k in range(2000)]
    assert np.isclose(clip_for(Experiment(rho=.5)).response_bound**2, np.mean(squares), rtol=.02)


# ---------------------------------------------------------------- points

def test_numbers_depend_on_the_seed_only():
    runs = [simulate(SMALL, [2000, 5000], trials=2 * CHUNK + 7, seed=3, jobs=jobs) for jobs in (1, 2, 5)]
    assert runs[0] == runs[1] == runs[2] and {pt.trials for pt in runs[0]} == {2 * CHUNK + 7}
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
    simulate(SMALL, [2000, 3000], trials=CHUNK + 1)
    names = [name for name in names if not name.startswith("clipped")] # drawn once, for all
    assert len(names) == len(set(names)) == 2 * 2 * 6                  # sizes x chunks x (data and methods)


def test_points_are_told_as_they_are_finished():
    told = []
    points = simulate(SMALL, [2000, 3000], ["none", "two"], trials=10, done=told.append)
    assert told == [points[:2], points[2:]] and isinstance(points[0], Point)


def test_a_point():
    pt = point("two", 7, np.array([[0, .5, .1, .2], [1., 1, 0, 0]]))
    expected = [.2, .5, .25, np.std([0, .5, .1, .2]) / 2]
    assert np.allclose([pt.fdr, pt.power, pt.power_se, pt.fdr_se], expected) and pt.trials == 4
    assert (pt.method, pt.n) == ("two", 7)


def test_words_and_sizes():
    assert METHODS == tuple(RUNS) == ("none", "one", "two", "moments", "products")
    assert len(SIZES) == 15 and SIZES[0] == 1000 and SIZES[-1] == 3981072


# ---------------------------------------------------------------- on rows

def test_rows_of_any_design():
    def binary(rng): return rng.integers(0, 2, (3000, 8)) - .5
    rates, again = (run_rows(replace(SMALL, k=6), binary, trials=10, seed=1) for _ in range(2))
    assert rates["none"].shape == (2, 10) and rates["none"][1].mean() == 1
    assert set(rates) == set(METHODS) and all((rates[m] == again[m]).all() for m in rates)
    def short(rng): return rng.standard_normal((20, 8))
    assert run_rows(SMALL, short, ["two"], trials=3)["two"].max() == 0 # refused


def test_products_without_rows_are_those_of_rows():
    "Statistics of the products filter from moments and from rows have one law"
    e = replace(SMALL, rho=.5, amplitude=1.0)
    draws = 400
    b = draw_batch(e, 500, draws, stream(0, "designs"))
    W = run_products(e, b, stream(0, "noise"))
    rows = []
    rng = stream(1, "rows")
    root = np.linalg.cholesky(e.population).T
    for beta in b.beta:
        X = rng.standard_normal((500, e.p)) @ root
        y = X @ beta + rng.standard_normal(500)
        rows.append(simulation._row_filters(e, X, y, beta, rng)["products"]().W)
    rows = np.array(rows)
    found = [np.column_stack([(w * (b.beta != 0)).sum(1), (w * (b.beta == 0)).sum(1)]) for w in (W, rows)]
    assert_same_law(*found)
    with pytest.raises(AssertionError): assert_same_law(1.5 * found[0], found[1])
