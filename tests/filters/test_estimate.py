"Estimates from noisy moments: unbiased, with a covariance that is right, a noise level that is not too low."
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest

from dp_knockoff.core.errors import stream
from dp_knockoff.core.testing import assert_rate_at_most, assert_same_law, fires, refusal
from dp_knockoff.data.clip import INTERCEPT, Clip
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.estimate import (
    BIAS,
    CANONICAL,
    Design,
    MomentRounds,
    PrivateMoments,
    canonical,
    estimate_coefficients,
    sampling_sds,
    unbiased_inverse,
)
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.knockoffs.fixed_x import choose_s
from dp_knockoff.knockoffs.statistics import Statistic
from dp_knockoff.privacy.mechanisms import Budget
from dp_knockoff.selection import diagnosis
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import RULES, SIMULATION, KnockoffPlus
from watched import Trusted

PUBLIC = dict(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=5.0)
PER_ROUND = ("products", "squares", "starts", "bounds", "product_sds", "square_sds", "clamped")
ANY_RELEASE = tuple(rule for rule in RULES if rule != "exact")  # which needs e-values


@pytest.fixture(scope="module")
def data(): return linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


@dataclass(frozen=True, eq=False)
class Drawn(MomentRounds):
    "A release that was drawn without rows and without an intercept"
    n: int
    gram: np.ndarray
    gram_sd: float
    products: np.ndarray
    squares: np.ndarray
    starts: np.ndarray
    bounds: np.ndarray
    product_sds: np.ndarray
    square_sds: np.ndarray
    clamped: np.ndarray
    clamped_sd: float
    excess: np.ndarray
    weights: float
    weights_sd: float
    variances: np.ndarray
    variance_sd: float
    assumes: str = "any"
    one: float = 0.0


def noise_on_gram(rng, d, sd):
    "Symmetric, sd off the diagonal and sqrt(2) of it on it"
    E = np.triu(rng.standard_normal((d, d)), 1)
    return sd * (E + E.T + np.sqrt(2) * np.diag(rng.standard_normal(d)))


def drawn(S, beta, n, rng, gram_sd=1e-6, product_sd=1e-6, square_sd=1e-6, sigma=0.0, starts=(0.0,),
          variance_noise=1e-6):
    "A release of data with X'X = S, truth beta and noise level sigma, from these starts, nothing clamped"
    d, starts = len(beta), [np.broadcast_to(start, len(beta)) for start in starts]
    gram = S + noise_on_gram(rng, d, gram_sd)
    u = sigma * np.linalg.cholesky(S) @ rng.standard_normal(d)
    uu = u @ np.linalg.solve(S, u) + sigma**2 * rng.chisquare(n - d)
    left = [beta - start for start in starts]
    products = np.array([S @ one + u + product_sd * rng.standard_normal(d) for one in left])
    squares = np.array([one @ S @ one + 2 * u @ one + uu + square_sd * rng.standard_normal() for one in left])
    some, k = np.ones(len(starts)), len(starts)
    Q, _ = unbiased_inverse(gram, gram_sd)
    along = sigma**2 * (Q @ S * Q).sum(-1) / (Q**2).sum(-1)
    variance_sd = variance_noise * along.mean()
    variances = along + variance_sd * rng.standard_normal(d) if k > 1 else np.empty(0)
    return Drawn(n, gram, gram_sd, products, squares, np.array(starts), 5 * some, product_sd * some,
                 square_sd * some, 0 * some, 1e-6, 0 * some, float(n), 1e-6, variances, variance_sd)


def standardised(e, beta):
    "Errors over the standard deviations that V claims"
    return (e.beta - beta) / np.sqrt(np.diagonal(e.V, axis1=-2, axis2=-1))


# ---------------------------------------------------------------- the design

def test_the_noise_of_a_centred_and_whitened_matrix_is_that_of_the_release():
    "Whatever the means: sd off the diagonal, sqrt(2) of it on it, all entries uncorrelated"
    rng, d = stream(0, "white"), 5
    truth = 1000 * np.eye(d)
    truth[-1, :-1] = truth[:-1, -1] = [800, -300, 0, 2000]
    truth[:-1, :-1] += np.outer(truth[-1, :-1], truth[-1, :-1]) / 1000
    exact = Design(truth, 1e-9, d - 1)
    to_white = exact.centring @ exact.whitening
    noise = np.array([to_white.T @ noise_on_gram(rng, d, 3.0) @ to_white for _ in range(4000)])
    rows, columns = np.triu_indices(d - 1)
    entries = noise[:, rows, columns] / np.where(rows == columns, 3 * np.sqrt(2), 3)
    assert_same_law(entries, rng.standard_normal(entries.shape))
    assert np.allclose(exact.white, 1000 * exact.whitening @ exact.whitening)


def test_without_noise_a_design_gives_least_squares_with_an_intercept():
    rng = stream(0, "design")
    X = np.column_stack([rng.standard_normal((500, 3)) + [5, 0, -2], np.full(500, 2.0)])
    y = X @ [1.0, 0, .5, 30] + rng.standard_normal(500)
    D = Design(X.T @ X, 1e-9, 3)
    step = D.Q @ (X.T @ y)
    assert np.allclose(D.with_intercept(step, X.T @ y), np.linalg.lstsq(X, y, rcond=None)[0])
    assert np.allclose(D.inverse, np.linalg.inv(X.T @ X)[:3, :3])
    assert np.isclose(D.size(500)**2, np.trace(D.white) / 1500)


def test_the_intercept_of_a_start_is_not_shrunk():
    "A response far from its centre that no column explains: the start is its mean, in full"
    rng = stream(0, "intercept")
    X = rng.standard_normal((4000, 8))
    public = dict(epsilon=1.0, delta=1e-5, row_bound=2.8, response_bound=40.0)
    r = MomentsMethod(**public).release(X, 20 + rng.standard_normal(4000), simulation=True, random_state=0)
    assert np.allclose(r.starts[1:, -1], 20, atol=2) and abs(r.starts[2, -1] - 20) < .5


# ---------------------------------------------------------------- rounds as one

def three_rounds():
    beta = np.array([1.0, -2, .5, 0])
    starts = (0.0, .5 * beta, .9 * beta)
    r = drawn(400 * ar1(4, .4), beta, 500, stream(0, "rounds"), 15.0, 20.0, 20.0, 1.0, starts)
    return replace(r, clamped=500 * np.array([.02, .1, .7]), product_sds=r.product_sds * [1.0, .5, .2])


def test_rounds_are_weighted_by_the_precision_of_their_products_and_not_used_if_clamping_biases():
    r, center = three_rounds(), np.full(4, .3)
    inside = np.array([.98, .9, .5]) # shares beyond one half are not believed
    left2 = ((center - r.starts)**2).sum(1) + .1
    precision = 1 / ((r.product_sds / inside)**2 + 9.0 * left2)
    assert np.allclose(r.inside, inside)
    assert np.allclose(r.shares_for(center, .1, 9.0), precision / precision.sum(), rtol=1e-12)
    some = replace(r, excess=np.array([.5, 1.01, 1.0]))
    used = precision * [1, 0, 1]
    assert np.allclose(some.shares_for(center, .1, 9.0), used / used.sum())
    assert replace(r, excess=np.full(3, 2.0)).shares_for(center, .1, 9.0).tolist() == [0, 0, 1]
    assert not replace(r, excess=np.full(3, 2.0)).kept.any()
    assert replace(r, excess=np.full(3, 2.0), assumes="symmetric").kept.all()


def test_combined_rounds_are_their_weighted_sums():
    "Starts as they are; products, and their noise, over the shares inside"
    r, shares = three_rounds(), np.array([.2, .3, .5])
    start, products, noise = r.combined(shares)
    assert np.allclose(start, sum(a * one for a, one in zip(shares, r.starts)))
    assert np.allclose(products, sum(a / i * one for a, i, one in zip(shares, r.inside, r.products)))
    assert np.isclose(noise, ((shares / r.inside * r.product_sds)**2).sum())


def test_without_noise_any_rounds_give_the_truth():
    S, beta = 1000 * ar1(5, .5), np.array([1.0, 0, -1, .5, 0])
    for starts in ((0.0,), (0.0, .9 * beta), (3.0, -2.0, 1.0)):
        r = drawn(S, beta, 1000, stream(0, "truth"), sigma=1e-6, starts=starts)
        e = estimate_coefficients(r)
        assert np.allclose(r.guess[0], beta, atol=.05) and r.guess[1] >= 0
        assert np.allclose(e.beta, beta, atol=1e-4) and np.isclose(e.shares.sum(), 1)


def test_a_start_at_the_truth_carries_the_weight_when_the_gram_matrix_is_noisy():
    S, beta = 1000 * ar1(5, .5), np.array([4.0, 0, -4, 2, 0])
    rng = stream(0, "weight")
    near, far = ([estimate_coefficients(drawn(S, beta, 1000, rng, 60.0, 10.0, sigma=1.0, starts=starts))
                  for _ in range(50)] for starts in ((0.0, beta), (0.0,)))
    assert min(e.shares[1] for e in near) > .9
    errors = [np.mean([(e.beta - beta)**2 for e in some]) for some in (near, far)]
    assert errors[1] > 10 * errors[0]


def test_a_start_that_is_shrunk_is_closer_to_the_truth_and_noise_is_not_subtracted():
    S, beta, rng = 3000 * ar1(6, .4), np.array([1.0, .5, 0, 0, 1, -.5]), stream(0, "start")
    some = [drawn(S, beta, 3000, rng, 1e-3, 2000.0, 1.0, 1.0) for _ in range(200)]
    starts = np.array([r.guess[0] for r in some])
    found = np.array([estimate_coefficients(r).beta for r in some])
    shrunk, whole = (((b - beta)**2).sum(1).mean() for b in (starts, found))
    assert shrunk < .85 * whole and shrunk < beta @ beta
    noise = [drawn(S, beta, 3000, rng, 1e-3, 1e6, 1.0, 1.0) for _ in range(100)]
    sizes = [np.linalg.norm(r.guess[0]) / np.linalg.norm(estimate_coefficients(r).beta) for r in noise]
    assert np.median(sizes) < .15


# ---------------------------------------------------------------- coefficients and their covariance

def test_estimates_are_unbiased_in_spite_of_the_noise_on_the_gram_matrix():
    "Thirty columns, a fifth of whose inverse is noise: without the shift all would come out too large"
    beta = np.append([1, -1, .5], np.zeros(27))
    kappa, rng = 1000 * np.sqrt(.2 / 30), stream(0, "unbiased")
    some = [drawn(1000 * np.eye(30), beta, 10**6, rng, kappa) for _ in range(800)]
    found = [estimate_coefficients(r, 0.0) for r in some]
    assert .15 < np.mean([e.zeta for e in found]) < .3
    assert np.abs(np.mean([e.beta for e in found], 0) - beta).max() < .04
    assert np.mean([np.linalg.solve(r.gram, r.products[0])[0] for r in some]) > 1.15


SOURCES = {"regression": dict(sigma=2.0), "products": dict(product_sd=20.0),
           "Gram matrix": dict(gram_sd=12.0), "all": dict(sigma=1.0, product_sd=15.0, gram_sd=8.0)}


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("name", SOURCES)
def test_the_covariance_is_that_of_the_errors(name, rounds):
    "Each source of noise alone, and all: errors whitened by V have variance 1 in every direction"
    beta, S = np.array([1.0, 0, -1, .5, 0]), 400 * ar1(5, .5)
    scales, rng = SOURCES[name], stream(0, f"{name} {rounds}")
    starts = ((0.0,), (0.0, .2, -.3))[rounds > 1]
    drawings = (drawn(S, beta, 10**6, rng, **scales, starts=starts) for _ in range(2000))
    some = [estimate_coefficients(r, scales.get("sigma", 0.0)) for r in drawings]
    root = np.linalg.inv(np.linalg.cholesky(np.mean([e.V for e in some], 0)))
    errors = np.array([root @ (e.beta - beta) for e in some])
    assert np.abs(errors.mean(0)).max() < .12
    lam = np.linalg.eigvalsh(np.cov(errors.T))
    assert .8 < lam[0] and lam[-1] < 1.2


def test_the_size_of_the_truth_is_estimated_without_the_noise():
    beta, S, rng = np.array([1.0, 0, -1, .5, 0]), 400 * ar1(5, .5), stream(0, "size")
    scales = dict(sigma=4.0, product_sd=40.0, gram_sd=15.0)
    e = [estimate_coefficients(drawn(S, beta, 400, rng, **scales), 4.0) for _ in range(2000)]
    assert abs(np.mean([one.size2 for one in e]) / (beta @ beta) - 1) < .15
    assert np.mean([one.theta @ one.theta for one in e]) > 1.1 * (beta @ beta)


def test_variances_are_those_released_as_far_as_noise_lets_and_never_near_zero():
    "A released variance of zero, or below, by chance: that of even noise takes its place"
    S, beta = 1000 * np.eye(4), np.zeros(4)
    r = drawn(S, beta, 1000, stream(0, "variances"), sigma=1.0, starts=(0.0, 0.0))
    exact = replace(r, variances=1000 * np.array([1.0, 4, .25, 9]), variance_sd=1e-6)
    assert np.allclose(sampling_sds(exact, 1.0), [1, 2, .5, 3], rtol=1e-3)
    noisy = replace(r, variances=np.array([-900.0, 0, 100, 5000]), variance_sd=2000.0)
    assert np.allclose(sampling_sds(noisy, 1.0), 1, atol=.15) and sampling_sds(noisy, 1.0).min() > .9


def test_clamping_widens_intervals_by_what_it_may_bias():
    r = drawn(1000 * np.eye(4), np.ones(4), 1000, stream(0, "wider"), 5.0, 5.0, 5.0, 1.0, (0.0, .9))
    some, most = (estimate_coefficients(replace(r, excess=np.array(e))) for e in ([0.0, 0], [.2, .9]))
    assert np.allclose(most.V, some.V * (1 + (BIAS * .9)**2), rtol=1e-12)
    lost = estimate_coefficients(replace(r, excess=np.array([5.0, .9])))
    assert lost.shares[0] == 0 and np.isfinite(lost.V).all()


# ---------------------------------------------------------------- what is not identified

def nearly_collinear(n=20_000, r=.9999):
    "Columns a and b are nearly the same, c is a constant, d and e are plain"
    rng = stream(0, "twins")
    X = rng.standard_normal((n, 5))
    X[:, 1], X[:, 2] = r * X[:, 0] + np.sqrt(1 - r**2) * X[:, 1], 1.0
    return X, rng


def asked_of_twins(effects, groups=None, seed=0):
    X, rng = nearly_collinear()
    public = dict(epsilon=2.0, delta=1e-6, row_bound=2.5, response_bound=3.0)
    data = open_source(X, X @ effects + rng.standard_normal(len(X)), columns=list("abcde"), groups=groups)
    return MomentsMethod(**public).select(data, simulation=True, random_state=seed)


def test_columns_that_are_not_identified_are_named_and_not_selected():
    "The constant always, the twins where the noise lets one see it; the plain one is found beside them"
    named = []
    for seed in range(12):
        found = asked_of_twins([.5, .5, 3.0, .3, 0], seed=seed)
        assert "c" in found.release.lost() and found.selected == ("d",)
        assert any("Not identified: " in note and "'c'" in note for note in found.notes)
        named += [found.release.lost() == ["a", "b", "c"]]
        assert found.estimate.V[0, 0] > (100 if named[-1] else .1) and found.estimate.V[3, 3] < .02
    assert np.mean(named) > .4


def test_a_collinear_group_is_tested_by_what_is_identified_of_it():
    "Together the twins are found if they matter; and a null's size has its law, whatever is left out"
    groups, kept = {"twins": ["a", "b"]}, []
    for seed in range(12):
        found = asked_of_twins([.15, .15, 0, .3, 0], groups, seed)
        assert found.selected == ("twins", "d")
        kept += [2 - np.trace(found.estimate.lost[:2, :2])]
    assert set(np.round(kept)) == {1, 2} and np.allclose(kept, np.round(kept))
    null = np.array([asked_of_twins([0, 0, 0, .3, 0], groups, seed).W[0] for seed in range(60)])
    assert np.mean(null > 1.96) <= .15 and null.max() > .5


def test_a_factor_keeps_its_test_when_a_level_is_too_rare():
    "The rare level is dropped from the chi-square; the others are tested"
    rng, n = stream(0, "levels"), 20_000
    codes = np.where(np.arange(n) < 3, 3, rng.integers(0, 3, n))
    X = np.column_stack([codes == k for k in (1, 2, 3)] + [rng.standard_normal(n)]).astype(float)
    y = .3 * (codes == 1) + rng.standard_normal(n)
    data = open_source(X, y, columns=list("pqrx"), groups={"f": list("pqr")})
    found = MomentsMethod(epsilon=1.0, delta=1e-6, row_bound=1.0, response_bound=3.0).select(
        data, simulation=True, random_state=0)
    assert found.release.lost() == ["r"] and found.selected == ("f",)


# ---------------------------------------------------------------- on rows

def even(rng, n): return 1.0


def two_kinds(rng, n):
    "A fifth of the rows is short, in the first columns; the others are thirty times as long, in the last"
    X = np.zeros((n, 12))
    m = n // 5
    X[:m, :8] = rng.standard_normal((m, 8))
    X[m:, 8:] = 30 * rng.standard_normal((n - m, 4))
    return X, np.ones(n), np.array([1.0] * 8 + [1 / 30] * 4)


def by_first(rng, n):
    "Noise that grows with the first column"
    X = rng.standard_normal((n, 12))
    return X, 1.7 * np.abs(X[:, 0]), np.ones(12)


def stretched(rng, n):
    "A fifth of the rows is ten times as long in all columns, and noisier"
    X = rng.standard_normal((n, 12))
    far = np.where(np.arange(n) < n // 5, 10.0, 1.0)
    return X * far[:, None], .3 * far, np.ones(12)


def misses(design, rounds, trials=50, change=None, n=4000):
    "z of all coefficients of many datasets, six of them null: how far the intervals miss"
    z = []
    for k in range(trials):
        rng = np.random.default_rng([1, k])
        X, noise, units = design(rng, n)
        beta = np.where(np.arange(12) % 2, 0.0, .2) * units
        y = X @ beta + noise * rng.standard_normal(n)
        method = MomentsMethod(epsilon=20.0, delta=1e-3, row_bound=2.5, response_bound=5.0, rounds=rounds,
                               intercept=False)
        r = method.release(X, y, simulation=True, random_state=rng)
        z.append(standardised((r if change is None else change(r)).estimate(), beta))
    return np.array(z)


def weights_are_rows(r): return replace(r, weights=float(r.n))
def even_noise(r): return replace(r, variances=np.full(12, np.median(r.variances)), variance_sd=1e-6)


DESIGNS = {"two kinds": two_kinds, "by first": by_first, "stretched": stretched}


@pytest.mark.parametrize("name, rounds", [("two kinds", 1), ("stretched", 1), ("two kinds", 4),
                                          ("by first", 4), ("stretched", 4)])
def test_intervals_cover_and_nulls_are_standard_normal_at_most(name, rounds):
    "Rows of unlike norms, and noise of unlike size: one in twenty intervals misses, z^2 of nulls is about 1"
    z = misses(DESIGNS[name], rounds)
    assert assert_rate_at_most(np.abs(z) > 1.96, .06) < .08
    assert .4 < np.mean(z[:, 1::2]**2) < 1.2


def test_the_noise_level_of_scaled_rows_is_not_that_of_n_rows():
    "The fault of an earlier version: had nothing been scaled, short rows would be that precise"
    wrong = misses(two_kinds, 1, change=weights_are_rows)
    assert fires(assert_rate_at_most, np.abs(wrong[:, :8]) > 1.96, .06) and np.mean(wrong[:, 1:8:2]**2) > 2


def test_one_variance_for_all_is_not_enough_where_noise_grows_with_a_column():
    "What several rounds release the variances for: the first coefficient varies more"
    right, wrong = (misses(by_first, 4, change=change)[:, 0]**2 for change in (None, even_noise))
    assert np.mean(wrong) > 1.6 > 1.5 > np.mean(right)


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
    assert (select(r, rule="knockoffs").W == CANONICAL(*r.pair(random_state=r.seed))).all()
    for other in (r.pair("lam_min", 3), r.pair(random_state=3, estimate=r.knowing(5.0).estimate())):
        assert not np.allclose(other[0], A) and not np.allclose(other[1], b)
    assert (r.pair("lam_min", 3)[1][:6] == b[:6]).all() and (r.pair(random_state=4)[1][6:] != b[6:]).all()


# ---------------------------------------------------------------- releases

def test_a_release_has_names_starts_and_noise(data):
    X, y, _ = data
    methods = (MomentsMethod(**PUBLIC, rounds=k) for k in (1, 3))
    one, three = (method.release(X, y, simulation=True, random_state=0) for method in methods)
    assert one.columns == ("x0", "x1", "x2", "x3", "x4", "x5", INTERCEPT) and one.names == one.columns[:-1]
    for r, rounds in ((one, 1), (three, 3)):
        assert r.rounds == rounds and r.products.shape == r.starts.shape == (rounds, 7)
        for name in ("squares", "bounds", "product_sds", "square_sds", "clamped"):
            assert getattr(r, name).shape == (rounds,), name
        assert (r.starts[0] == 0).all() and r.clip.response_bound == 5.0
        together = np.sum(r.product_sds**-2.0)**-.5
        assert r.noise == {"Gram matrix": r.gram_sd, "products": together} and isinstance(together, float)
    assert one.variances.shape == (0,) and one.variance_sd == 0 < three.variance_sd
    assert one.bounds.tolist() == [5.0] and one.excess.shape == (0,) and three.excess.shape == (3,)
    assert three.variances.shape == (6,) and (three.starts[1:] != 0).all() and len(set(three.bounds)) == 3
    assert one.method == "moments" and one.budget == Budget(1.0, 1e-3) and one.n == 3000
    assert one.rule.name == "bh" and one.rules == ANY_RELEASE and one.knowing(2.0).sigma == 2
    assert three.noise["products"] < three.product_sds.min()


@pytest.mark.parametrize("rounds", [1, 4])
def test_saved_releases_are_the_same_and_select_the_same(data, tmp_path, rounds):
    X, y, _ = data
    ranges = {"x1": (-3, 3)}
    method = MomentsMethod(**PUBLIC, rounds=rounds, ranges=ranges, response_center=.5)
    r = method.release(X, y, simulation=True, random_state=0)
    first = sorted(np.load(r.save(tmp_path / "first.npz"), allow_pickle=False).files)
    seed, released = r.seed, dict(vars(r))
    select(r), r.notes(), r.guess  # computes what is kept
    assert r.seed == seed and len(vars(r)) > len(released)
    assert sorted(np.load(r.save(tmp_path / "r.npz"), allow_pickle=False).files) == first
    again = PrivateMoments.load(tmp_path / "r.npz")
    for name, value in released.items(): assert np.array_equal(getattr(again, name), value), name
    assert again.seed == seed and vars(again).keys() == released.keys()
    assert type(again.budget) is Budget and type(again.clip) is Clip and type(again.columns) is tuple
    one, two = (select(x) for x in (r, again))
    assert (one.W == two.W).all() and one.guarantee == two.guarantee and one.notes == two.notes


def test_the_seed_depends_on_every_released_number(data):
    X, y, _ = data
    r = MomentsMethod(**PUBLIC, rounds=2).release(X, y, simulation=True, random_state=0)
    names = [*PER_ROUND, "gram", "gram_sd", "clamped_sd", "weights", "weights_sd", "variances", "variance_sd"]
    assert set(names) == {name for name, value in vars(r).items() if isinstance(value, (float, np.ndarray))
                          and name != "excess"}  # which follows from the histograms
    seeds = {replace(r, **{name: getattr(r, name) * (1 + 1e-12) + 1e-12}).seed for name in names}
    assert len(seeds | {r.seed}) == len(names) + 1


NUMBERS = [dict(rounds=np.int64(2)), dict(row_bound=np.int64(2)), dict(epsilon=np.float32(1.0)),
           dict(epsilon=1)]


@pytest.mark.parametrize("numbers", NUMBERS, ids=["int64 rounds", "int64 bound", "float32", "int"])
def test_releases_of_all_kinds_of_numbers_can_be_saved(data, tmp_path, numbers):
    X, y, _ = data
    r = MomentsMethod(**{**PUBLIC, **numbers}).release(X, y, simulation=True, random_state=0)
    assert PrivateMoments.load(r.save(tmp_path / "r.npz")).rounds == r.rounds


def test_other_files_are_no_release(data, tmp_path):
    from dp_knockoff.core.archives import load_arrays, save_arrays
    X, y, _ = data
    path = MomentsMethod(**PUBLIC).release(X, y, simulation=True, random_state=0).save(tmp_path / "r.npz")
    header, arrays = load_arrays(path, "private moments")
    old = {name: value for name, value in arrays.items() if name != "bounds"}
    for change, kept in ((dict(weights=None), arrays), (dict(more=1), arrays), ({}, old)):
        changed = {**header, **change}
        changed = {key: value for key, value in changed.items() if value is not None and key != "kind"}
        save_arrays(path, "private moments", changed, **kept)
        assert "another version" in refusal(PrivateMoments.load, path)
    save_arrays(path, "moments", {})
    assert "holds moments, not private moments" in refusal(PrivateMoments.load, path)


# ---------------------------------------------------------------- the units of the data

def test_coefficients_in_units_predict_the_same(data):
    "Explicit arithmetic: fits of clipped units, and of the data's own"
    X, y, _ = data
    ranges = {"x0": (0.0, 200.0), "x2": (-3.0, 1.0)}
    for B in (2.0, 12.0):
        options = dict(ranges=ranges, response_center=40.0, rounds=1, row_bound=B)
        r = MomentsMethod(**PUBLIC | options).release(X, y, simulation=True, random_state=0)
        beta = np.arange(1.0, 8.0)
        A, offset = r.in_units()
        own = A @ beta + offset
        units = (X - [100, 0, -1, 0, 0, 0]) / [100, 1, 2, 1, 1, 1]
        assert np.allclose(units @ beta[:6] + r.clip.one * beta[6] + 40, X @ own[:6] + own[6])
        assert np.allclose(own[:6], beta[:6] / [100, 1, 2, 1, 1, 1])
        assert np.isclose(own[6], 7 * r.clip.one + 40 - 100 / 100 + 3 / 2)
        assert (offset[:-1] == 0).all() and offset[-1] == 40


def test_units_without_an_intercept(data):
    X, y, _ = data
    options = dict(ranges={"x1": (-4.0, 4.0)}, intercept=False, rounds=1)
    A, offset = MomentsMethod(**PUBLIC, **options).release(X, y, simulation=True, random_state=0).in_units()
    assert (A == np.diag([1, .25, 1, 1, 1, 1])).all() and (offset == np.zeros(6)).all()


@pytest.mark.parametrize("rounds", [1, 4])
def test_estimates_are_shown_in_the_units_of_the_data(data, rounds):
    "With nearly no noise they are least squares on the data as they are"
    X, y, _ = data
    Z, far = X * [1, 100, 1, 1, 1, .01] + [0, 50, 0, 3, 0, 0], y + 40
    ranges = {"x1": (-350.0, 450.0), "x3": (-1.0, 7.0), "x5": (-.04, .04)}
    bounds = dict(row_bound=6.0, response_bound=8.0, ranges=ranges)
    options = dict(epsilon=3000.0, delta=.1, **bounds, rounds=rounds)
    r = MomentsMethod(**options, response_center=38.0).release(Z, far, simulation=True, random_state=0)
    table = r.estimates()
    exact = np.linalg.lstsq(np.column_stack([Z, np.ones(3000)]), far, rcond=None)[0]
    assert [row.name for row in table] == [*(f"x{j}" for j in range(6)), INTERCEPT]
    off = np.array([(row.estimate - truth) / row.se for row, truth in zip(table, exact)])
    assert np.abs(off).max() < .5


# ---------------------------------------------------------------- sentences

def twins(r, pairs):
    "The release with these correlations"
    G = r.gram.copy()
    for i, j, rho in pairs: G[i, j] = G[j, i] = rho * np.sqrt(G[i, i] * G[j, j])
    return replace(r, gram=G)


def test_collinear_pairs_are_named_the_closest_first(data):
    X, y, _ = data
    options = dict(epsilon=20.0, intercept=False)
    r = MomentsMethod(**{**PUBLIC, **options}).release(X, y, simulation=True, random_state=0)
    assert r.collinear() == [] and "collinear" not in " ".join(r.notes())
    close = twins(r, [(0, 4, .96), (1, 3, -.99), (2, 5, .94)])
    (a, b, one), (c, d, two) = close.collinear()
    assert (a, b, c, d) == ("x1", "x3", "x0", "x4") and np.isclose(one, -.99) and np.isclose(two, .96)
    notes = [note for note in close.notes() if "collinear" in note]
    assert notes[0].startswith("Columns 'x1', 'x3' are nearly collinear (correlation -0.990): ")
    assert len(notes) == 2
    many = twins(r, [(0, 1, .97), (2, 3, .98), (4, 5, .99), (1, 4, .96)])
    notes = [note for note in many.notes() if "collinear" in note]
    assert len(many.collinear()) == 4 and len(notes) == 2  # one for each cluster
    assert any("Drop all but one of 'x4', 'x5', 'x0', 'x1', or group them." in note for note in notes)
    beyond = twins(r, [(0, 1, 1.2)]).collinear()
    assert beyond[0][2] == 1.0
    alike = replace(close, gram=close.gram / np.sqrt(np.outer(np.diag(close.gram), np.diag(close.gram))))
    assert len(replace(alike, gram_sd=.019).collinear()) == 2
    assert replace(alike, gram_sd=.021).collinear() == []


def test_what_columns_have_in_common_with_the_ones_is_no_collinearity(data):
    "Columns with the same large mean are alike, and are told apart by what is left after the intercept"
    X, y, _ = data
    options = dict(epsilon=300.0, row_bound=20.0, rounds=1)
    def found(X): return MomentsMethod(**{**PUBLIC, **options}).release(X, y, simulation=True, random_state=0)
    r = found(X + 6.0)
    raw = r.gram[0, 5] / np.sqrt(r.gram[0, 0] * r.gram[5, 5])
    assert raw > .95 and r.collinear() == []
    close = X.copy()
    close[:, 5] = close[:, 0] + .05 * stream(0, "twin").standard_normal(3000)
    assert [pair[:2] for pair in found(close + 6.0).collinear()] == [("x0", "x5")]


def test_collinear_pairs_are_not_guessed_from_noise(data):
    X, y, _ = data
    close = X.copy()
    close[:, 5] = close[:, 0]
    def pairs(epsilon):
        method = MomentsMethod(**{**PUBLIC, "epsilon": epsilon}, rounds=1)
        return method.release(close, y, simulation=True, random_state=0).collinear()
    assert [pair[:2] for pair in pairs(20.0)] == [("x0", "x5")] and pairs(.1) == []


@pytest.mark.filterwarnings("ignore:delta=", "ignore:epsilon=")
def test_statement_and_notes(data):
    X, y, _ = data
    def text(rows=3000, sigma=None, **options):
        release = MomentsMethod(**{**PUBLIC, **options}).release(X[:rows], y[:rows], sampler=Trusted())
        found = select(release, sigma=sigma)
        return " ".join([*found.guarantee.lines(), *found.notes])
    plain = text(rounds=1)
    assert "every pair of datasets that differ in one row" in plain
    assert "by the Benjamini-Hochberg rule (measured, not proved)" in plain
    assert "(epsilon=1, delta=0.001)" in plain and "counts as private" in plain
    assert "if rows are independent with E[y | x] = a + X b, and one variance of the noise for all" in plain
    assert "hardly any response is beyond its bound." in plain
    for word in ("on average over", "private count", "rounds", "ranges", "sigma", "Not identified",
                 "intercept"):
        assert word not in plain, word
    several = text()
    assert "Spent (epsilon=1, delta=0.001) in 3 rounds; noise scales: Gram matrix" in several
    assert "whatever the variances and the skewness of the noise." in several
    assert "Clamping may bias" in several
    assert "E[y | x] = X b," in text(intercept=False)
    assert "if the bounds and ranges were set" in text(ranges={"x0": (-3, 3)})
    assert "if the bounds and sigma were set" in text(sigma=1.0) and "if the bounds were set" in plain
    loud = text(response_bound=.05, epsilon=50.0, rounds=1)
    assert "beyond the response bound" in loud and "nothing is selected" in loud
    assert "mostly noise" in text(100, epsilon=.05) and "noise (ratio" not in text(epsilon=50.0)


def test_an_intercept_that_scaling_left_nothing_of_is_told_and_nothing_is_selected(data):
    "Ones that are smaller than the noise on the Gram matrix: no effect can be told from an offset"
    X, y, _ = data
    def release(X): return MomentsMethod(**PUBLIC, rounds=1).release(X, y, simulation=True, random_state=0)
    r = release(1e4 * X)
    assert r.lost_intercept and len(select(r, fdr=.5)) == 0
    assert "nothing of the intercept" in " ".join(r.notes())
    kept = release(X)
    limit = np.sqrt(2) * kept.gram_sd / kept.clip.one**2
    assert not kept.lost_intercept and not replace(kept, weights=1.01 * limit).lost_intercept
    assert replace(kept, weights=.99 * limit).lost_intercept
    without = replace(kept, clip=replace(kept.clip, intercept=False), weights=0.0)
    assert not without.lost_intercept


def test_columns_that_are_lost_in_the_noise_are_named(data):
    X, y, _ = data
    method = MomentsMethod(**{**PUBLIC, "epsilon": 5.0})
    r = method.release(X * [1, 1e-6, 1, 1, 1, 1], y, simulation=True, random_state=1)
    assert r.lost() == ["x1"] and "Not identified: 'x1'." in " ".join(r.notes())
    G = r.gram.copy()
    G[1, 1] = 8 * np.sqrt(2) * r.gram_sd
    assert replace(r, gram=G).lost() == []


def test_constants_and_levels_that_never_occur_are_never_selected(data):
    "However far from zero, whatever the rule; named as a rule, and others are found all the same"
    X, y, _ = data
    method = MomentsMethod(**{**PUBLIC, "epsilon": 40.0, "row_bound": 3.0})
    for column in (np.full(len(y), 1.5), np.zeros(len(y))):
        named = 0 # by its spread or, where that is no evidence, by the bias of Q
        for seed in range(12):
            r = method.release(np.column_stack([X, column]), y, simulation=True, random_state=seed)
            named += r.lost() == ["x6"]
            for rule in ("bh", "by", "dbh"): assert "x6" not in select(r, rule=rule).selected
            assert {"x0", "x1", "x4"} & set(select(r).selected)
        assert named >= 11


def test_columns_of_a_small_table_are_not_taken_for_constants():
    "Where all spreads are within their noise, estimates keep their honest variances, and signals are found"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = X[:, 0] + rng.standard_normal(300)
    method = MomentsMethod(epsilon=1.0, delta=1e-6, row_bound=3.0, response_bound=5.0)
    r = method.release(X, y, simulation=True, random_state=0)
    spread = np.diag(r.design.white) / (np.sqrt(2) * r.gram_sd)
    assert (spread < 4).all() and r.lost() == []
    assert np.array_equal(r.estimate().V, estimate_coefficients(r).V)


def test_few_rows_are_not_taken_for_long_ones(data):
    X, y, _ = data
    few = MomentsMethod(**PUBLIC).release(X[:3], y[:3], simulation=True, random_state=0)
    assert few.lost_intercept and "Rows are so few that noise" in select(few).explain()
    assert "Use more rows" in select(few).explain()


def test_a_rare_truth_value_is_told_to_be_a_factor(data):
    X, y, _ = data
    rare = np.column_stack([X, np.arange(len(y)) % 100 == 0])
    ranges = {f"x{j}": (-3, 3) for j in range(6)} | {"x6": (0, 1)}
    finding = found_in(quiet((rare, y, None), ranges=ranges))["means of the columns"][1]
    assert "'x6'" in finding.found and "give the levels, a common one first" in finding.change
    wide = quiet((rare, y, None), ranges=ranges | {"x6": (0, 2)}, rounds=1)
    wide = found_in(wide)["means of the columns"][1]
    assert wide.change.startswith("Set the range of 'x6' to [0, ") and "levels" not in wide.change


@pytest.mark.filterwarnings("ignore:delta=")
def test_a_guarantee_is_about_privacy_only(data):
    X, y, _ = data
    r = MomentsMethod(**PUBLIC).release(X, y, sampler=Trusted())
    assert str(r.guarantee).startswith("Privacy: (epsilon=1, delta=0.001)-differential privacy for every")
    assert "FDR" not in str(r.guarantee)


def test_nothing_fails_after_the_release():
    "Whatever the design and the noise did: finite estimates, usable knockoffs, a next start"
    rng = stream(0, "next start")
    for trial in range(100):
        p, n, rounds = int(rng.integers(1, 6)), 10.0 ** rng.uniform(1, 9), int(rng.integers(1, 4))
        Z = rng.standard_normal((p, int(rng.integers(1, p + 1))))  # often singular
        kappa = 10.0 ** rng.uniform(-3, 5)
        E = np.triu(rng.standard_normal((p, p))) * kappa
        G, truth = n * Z @ Z.T, rng.standard_normal(p) * 10.0 ** rng.uniform(-4, 3)
        starts = np.vstack([np.zeros(p), *rng.standard_normal((rounds - 1, p))])
        products = (truth - starts) @ G + kappa * rng.standard_normal((rounds, p))
        squares = kappa * rng.standard_normal(rounds) + truth @ G @ truth
        variances = kappa * rng.standard_normal(p) if rounds > 1 else np.empty(0)
        counts = n * rng.uniform(-.1, 1, rounds)
        r = PrivateMoments(
            n=int(n), columns=tuple(map(str, range(p))), clip=Clip(1, 2.5, intercept=False),
            budget=Budget(1, .1), gram=G + E + E.T, gram_sd=kappa, products=products, squares=squares,
            starts=starts, bounds=2.5 ** rng.uniform(-3, 3, rounds), product_sds=np.full(rounds, kappa),
            square_sds=np.full(rounds, kappa), clamped=counts, clamped_sd=1.0,
            weights=n * rng.uniform(-.1, 1), weights_sd=1.0, variances=variances,
            variance_sd=kappa * (rounds > 1), sampler="", simulated=True, rows_per_person=1, ids=())
        e = r.estimate()
        start = r.guess[0]
        assert np.isfinite(e.beta).all() and np.isfinite(e.V).all()
        assert e.sigma >= 0 and (np.diag(e.V) > 0).all()
        assert np.isfinite(start).all()
        rule = list(RULES)[trial % 5]
        assert np.isfinite(select(r, rule=rule).W).all()


# ---------------------------------------------------------------- simulations, and the same answer every time

def test_a_file_keeps_whether_it_was_simulated(data, tmp_path):
    X, y, _ = data
    for draw, simulated in ((dict(simulation=True), True), (dict(sampler=Trusted()), False)):
        r = MomentsMethod(**{**PUBLIC, "delta": 1e-4}, rows_per_person=2).release(X, y, **draw)
        again = PrivateMoments.load(r.save(tmp_path / "r.npz"))
        assert again.simulated is simulated is r.simulated and again.guarantee == r.guarantee
        assert (str(again.guarantee) == SIMULATION) == simulated and repr(again) == repr(r)
        assert again.ids == r.ids and again.rows_per_person == 2


def test_selecting_again_gives_the_same_answer(data, tmp_path):
    X, y, _ = data
    questions = (dict(), dict(rule="ebh"), dict(rule=KnockoffPlus(s="sdp"), fdr=.5),
                 dict(rule=KnockoffPlus(Statistic("ols", "csm"), offset=0)))
    for rounds in (1, 3):
        r = MomentsMethod(**PUBLIC, rounds=rounds).release(X, y, simulation=True)
        again = PrivateMoments.load(r.save(tmp_path / "r.npz"))
        for question in questions:
            first, *others = (select(x, **question) for x in (r, r, again))
            assert all((found.W == first.W).all() and repr(found) == repr(first) for found in others)
        assert again.seed == r.seed and (again.pair()[1] == r.pair()[1]).all()


AGAIN = """
import sys
from dp_knockoff.filters.estimate import PrivateMoments
from dp_knockoff.selection.release import select
print(*(w.hex() for w in select(PrivateMoments.load(sys.argv[1]), rule="knockoffs").W))
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
    assert found("1") == found("4") == [w.hex() for w in select(r, rule="knockoffs").W]


# ---------------------------------------------------------------- releases add

def sites(data, count=3, **options):
    "Releases of disjoint rows, each by itself, with budgets of their own"
    X, y, _ = data
    budgets = [dict(epsilon=1.0 + k, delta=1e-3 / (k + 1)) for k in range(count)]
    methods = [MomentsMethod(**{**PUBLIC, "rounds": 1, **budget, **options}) for budget in budgets]
    parts = np.array_split(np.arange(len(y)), count)
    return [m.release(X[part], y[part], simulation=True) for m, part in zip(methods, parts)]


def test_the_sum_of_releases_is_a_release_of_all_rows(data, tmp_path):
    a, b, c = sites(data)
    total = a + b + c
    for name in ("n", "gram", "products", "squares", "clamped", "weights"):
        assert np.allclose(getattr(total, name), sum(getattr(r, name) for r in (a, b, c)), rtol=1e-14), name
    for name in ("gram_sd", "product_sds", "square_sds", "clamped_sd", "weights_sd"):
        assert np.allclose(getattr(total, name)**2, sum(getattr(r, name)**2 for r in (a, b, c))), name
    assert isinstance(total.gram_sd, float) and isinstance(total.weights_sd, float)
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
                               np.diag(r.gram - exact.XtX)[:-1] / r.gram_sd / np.sqrt(2),
                               (r.products[0] - exact.Xty) / r.product_sds,
                               (r.squares - exact.yty) / r.square_sds,
                               (r.clamped - exact.cut[1]) / r.clamped_sd,
                               [(r.weights - exact.weights / 2**18) / r.weights_sd]])
    noise = np.array([standardised() for _ in range(150)])
    assert_same_law(noise.ravel(), np.random.default_rng(0).standard_normal(40_000))
    assert np.abs(np.mean(noise**2, axis=0) - 1).max() < .8


def test_a_sum_is_as_private_as_its_parts_say(data):
    X, y, _ = data
    method = MomentsMethod(**{**PUBLIC, "delta": 1e-4}, rounds=1)
    parts = slice(1000), slice(1000, None)
    real, other = (method.release(X[part], y[part], sampler=Trusted()) for part in parts)
    simulated = method.release(X, y, simulation=True)
    assert not (real + other).simulated and "differential privacy" in str((real + other).guarantee)
    for total in (real + simulated, simulated + real):
        assert total.simulated and str(total.guarantee) == SIMULATION
        assert "counts as private" in total.sampler and "NumPy" in total.sampler
    assert (real + other).sampler == Trusted.name


def test_what_cannot_be_added_is_refused(data):
    X, y, _ = data
    def release(data=(X, y), **options):
        return MomentsMethod(**{**PUBLIC, "rounds": 1, **options}).release(*data, simulation=True)
    one = release()
    for options, words in ((dict(row_bound=2.5), "bounds"), (dict(response_bound=4.0), "bounds"),
                           (dict(intercept=False), "columns"), (dict(data=(X[:, :5], y)), "columns"),
                           (dict(rows_per_person=2), "rows_per_person"), (dict(response_center=.1), "bounds"),
                           (dict(ranges={"x0": (-1, 1)}), None), (dict(rounds=2), None)):
        other = release(**options)
        for sentence in (refusal(one.__add__, other), refusal(other.__add__, one)):
            assert words is None or f"different {words}" in sentence
    rounds = release(rounds=2)
    same = replace(rounds, ids=("another",))
    for pair in ((rounds, same), (rounds, one), (one, rounds)):
        assert "several rounds" in refusal(pair[0].__add__, pair[1])
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


# ---------------------------------------------------------------- findings

def found_in(r): return {finding.subject: (finding.gain, finding) for finding in r.findings()}


def quiet(data, **options):
    "A release with little noise"
    X, y, _ = data
    method = MomentsMethod(**{**PUBLIC, "epsilon": 50.0, "delta": 1e-9, **options})
    return method.release(X, y, simulation=True, random_state=0)


def test_a_calm_release_has_no_findings(data):
    assert quiet(data).findings() == [] and quiet(data, rounds=1).findings() == []
    assert quiet(data).unknown == () and "means" in quiet(data, intercept=False).unknown[0]


def test_a_response_bound_is_compared_with_the_released_square(data):
    r = quiet(data, rounds=1)
    size = np.sqrt((r.squares[0] + 2 * r.square_sds[0]) / r.n)
    def at(ratio):
        bounds = r.bounds.copy()
        bounds[0] = ratio * size
        return found_in(replace(r, bounds=bounds))
    assert "response bound" not in at(7.9)
    effect, finding = at(8.1)["response bound"]
    edit = "Set rounds=3, which find the bound, or response_bound to {:.2g} or less."
    assert finding.change == edit.format(3 * size)
    assert "8.1 times" in finding.found
    assert at(80)["response bound"][0] >= effect >= 1.5


@pytest.mark.parametrize("factor, share, wanted", [(10, 1, 10), (10, 0, 1), (.1, 1, 1), (1e9, .75, 2)])
def test_a_gain_is_limited_by_what_is_not_noise_of_privacy(factor, share, wanted):
    assert np.isclose(diagnosis.gain(factor, share), wanted)


def test_the_share_of_the_noise_of_privacy(data):
    "Next to nothing with a large budget, nearly all with a small one; a known sigma says the same"
    assert quiet(data).noise_share() < .1 and quiet(data, epsilon=.1).noise_share() > .9
    r = quiet(data, epsilon=2.0, rounds=1)
    e = r.knowing(1.0).estimate()
    wanted = 1 - np.median(np.diag(r.design.inverse) / np.diag(e.V)[:6])
    assert np.isclose(r.noise_share(e), wanted)


def test_a_centre_that_is_far_off_is_told_with_a_better_one(data):
    X, y, _ = data
    def found(shift, **options):
        return found_in(quiet((X, y + shift, None), **{"epsilon": 5.0, "response_bound": 200.0, **options}))
    effect, finding = found(60.0)["response centre"]
    center, bound = (float(words.split()[0].rstrip(".")) for words in finding.change.split("about ")[1:])
    assert abs(center - 60 - y.mean()) < 3 and effect > 1 and 2 * y.std() < bound < 200
    assert "response centre" not in found(0.0) and "response centre" not in found(60.0, response_center=60.0)


def test_a_row_bound_far_above_the_rows_and_far_below(data):
    high = found_in(quiet(data, row_bound=30.0))["row bound"][1]
    assert "Set row_bound to about" in high.change
    usual = float(high.change.split("about ")[1].split(";")[0])
    assert abs(usual / np.sqrt((data[0]**2).sum(1).mean()) - 1) < .3
    X, y, _ = data
    low = found_in(quiet((40 * X, y, None), row_bound=1.0, epsilon=90.0))["row bound"][1]
    assert "half the usual norm" in low.change and "row bound" not in found_in(quiet(data))
    below = replace(quiet(data), gram=-1e9 * np.eye(7)) # noise below all that rows could make up for
    assert "row bound" not in found_in(below)


def test_columns_of_unlike_units_are_named_until_they_have_ranges(data):
    X, y, _ = data
    wide = X * [1, 1, 1, 1, 1e3, 1]
    effect, finding = found_in(quiet((wide, y, None), row_bound=1e3))["units of the columns"]
    assert "'x0', 'x1', 'x2', 'x3', 'x5'" in finding.found and "'x4'" in finding.found and effect >= 1.5
    assert finding.change.startswith("Pass public ranges")
    ranged = quiet((wide, y, None), ranges={"x4": (-3e3, 3e3)})
    assert "units of the columns" not in found_in(ranged)
    every = {f"x{j}": (-3e3, 3e3) for j in range(6)}
    assert "constant columns" not in found_in(quiet((wide, y, None), ranges=every)) # units are found
    narrow = found_in(quiet((wide, y, None), ranges=every, rounds=1))
    assert narrow["constant columns"][1].about == ("x0", "x1", "x2", "x3", "x5")
    assert "units of the columns" not in narrow
    assert "units of the columns" not in found_in(quiet((X * [1, 1, 1, 1, 5, 1], y, None), row_bound=5.0))


def test_means_far_from_zero_are_named_until_they_have_ranges(data):
    X, y, _ = data
    far = X + [0, 0, 9.0, 0, 0, 0]
    finding = found_in(quiet((far, y, None), row_bound=9.0))["means of the columns"][1]
    assert finding.found.startswith("'x2': means are far from zero") and "ranges" in finding.change
    ranged = quiet((far, y, None), row_bound=9.0, ranges={"x2": (6, 12)})
    assert "means of the columns" not in found_in(ranged)
    assert "means of the columns" not in found_in(quiet((X + 1.5, y, None), row_bound=5.0))
    assert "means of the columns" not in found_in(quiet((far, y, None), row_bound=9.0, epsilon=.02))


def test_a_lost_intercept_comes_after_the_units_that_lost_it(data):
    X, y, _ = data
    found = select(quiet((X * [1, 1, 1, 1, 1e6, 1], y, None), epsilon=1.0))
    subjects = [finding.subject for finding in found.diagnosis]
    assert found.release.lost_intercept and subjects[:2] == ["units of the columns", "intercept"]
    alone = select(quiet((1e5 * X, y, None), epsilon=1.0))
    assert alone.diagnosis[0].subject == "intercept" and "a higher row bound" in alone.explain()
    higher = quiet((1e5 * X, y, None), epsilon=1.0, row_bound=1e5)
    assert not higher.lost_intercept


def test_notes_are_made_of_the_same_sentences(data):
    X, y, _ = data
    r = quiet((X * [1, 1e-6, 1, 1, 1, 1], y, None), epsilon=1.0)
    for finding in diagnosis._faults(r): assert str(finding) in r.notes()
    assert diagnosis._faults(r)


def test_a_mean_is_not_guessed_from_noise():
    "A column that may be all mean, or all spread, as far as the noise tells"
    def subjects(size):
        G = np.array([[size, np.sqrt(1000 * size)], [np.sqrt(1000 * size), 1000]])
        return [finding.subject for finding in diagnosis.column_findings(("a",), G, 1.0, .5, str)]
    assert subjects(8.0) == [] and subjects(12.0) == ["means of the columns"]


def test_rules_that_use_correlations_do_not_promise_for_all_variances():
    "Only variances along the coefficients are released, so correlations are right for one variance only"
    X, y, _ = linear_model(3000, p=6, k=2, random_state=0)
    method = MomentsMethod(epsilon=2.0, delta=1e-5, row_bound=2.0, response_bound=6.0)
    release = method.release(X, y, simulation=True, random_state=0)
    said = {rule: str(select(release, rule=rule).guarantee) for rule in ANY_RELEASE}
    assert {rule for rule, text in said.items() if "whatever the variances" in text} == {"bh", "by"}
    assert all("one variance of the noise" in said[rule] for rule in ("dbh", "knockoffs", "ebh"))


def test_a_column_at_the_limit_is_lost():
    X, y, _ = linear_model(3000, p=3, k=2, random_state=0)
    method = MomentsMethod(epsilon=2.0, delta=1e-5, row_bound=2.0, response_bound=6.0)
    release = method.release(X, y, simulation=True, random_state=0)
    gram = release.gram.copy()
    gram[1, 1] = 0.0
    assert replace(release, gram=gram).lost() == ["x1"] and release.lost() == []
