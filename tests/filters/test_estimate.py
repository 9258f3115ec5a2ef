"Estimates from noisy moments: unbiased, with a covariance that is right, a noise level that is not too low."
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import ndtr

import dp_knockoff.filters.estimate as estimate
from dp_knockoff.core.errors import stream
from dp_knockoff.core.testing import assert_rate_at_most, assert_same_law, fires, refusal
from dp_knockoff.data.clip import INTERCEPT, Clip
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.filters.estimate import (
    CANONICAL,
    MomentRounds,
    PrivateMoments,
    _shrunk_ratios,
    canonical,
    denoised,
    estimate_coefficients,
    inverse_bias,
    ridge,
    spread_of,
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


@pytest.fixture(scope="module")
def data(): return linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


@dataclass(frozen=True, eq=False)
class Drawn(MomentRounds):
    "A batch of releases"
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
    weights: np.ndarray
    weights_sd: float
    variances: np.ndarray
    variance_sd: np.ndarray


def drawn(S, beta, n, N, gram_sd=1e-6, product_sd=1e-6, square_sd=1e-6, sigma=0.0, seed=0, starts=(0.0,),
          variance_noise=1e-6):
    "N releases of data with X'X = S, truth beta and noise level sigma, from these starts, nothing clamped"
    rng = np.random.default_rng(seed)
    d, starts = len(beta), [np.broadcast_to(start, len(beta)) for start in starts]
    E = np.triu(rng.standard_normal((N, d, d)))
    E[:, range(d), range(d)] /= np.sqrt(2)
    gram = S + gram_sd * (E + E.transpose(0, 2, 1))
    Xtw = sigma * rng.standard_normal((N, d)) @ np.linalg.cholesky(S).T
    wtw = (Xtw @ np.linalg.inv(S) * Xtw).sum(1) + sigma**2 * rng.chisquare(n - d, N)
    parts = []
    for start in starts:
        left = beta - start
        products = S @ left + Xtw + product_sd * rng.standard_normal((N, d))
        squares = left @ S @ left + 2 * Xtw @ left + wtw + square_sd * rng.standard_normal(N)
        bound = 5 * np.sqrt((left @ S @ left + n * sigma**2) / n)
        parts.append((products, squares, np.tile(start, (N, 1)), np.full(N, bound), np.full(N, product_sd),
                      np.full(N, square_sd), np.zeros(N)))
    parts = [np.array(part) for part in zip(*parts)]
    Q, _ = unbiased_inverse(gram, gram_sd)
    along = sigma**2 * (Q @ S * Q).sum(-1) / (Q**2).sum(-1)
    variance_sd = variance_noise * along.mean(1)
    variances = along + variance_sd[:, None] * rng.standard_normal(along.shape)
    if len(starts) == 1: variances, variance_sd = np.empty((N, 0)), np.zeros(N)
    return Drawn(n, gram, gram_sd, *parts, 1e-6, np.full(N, float(n)), 1e-6, variances, variance_sd)


def one_of(batch, k):
    "Release k of a batch"
    rounds = {name: getattr(batch, name)[:, k] for name in PER_ROUND}
    own = {name: getattr(batch, name)[k] for name in ("gram", "weights", "variances", "variance_sd")}
    return replace(batch, **rounds, **own)


def standardised(e, beta):
    "Errors over the standard deviations that V claims"
    return (e.beta - beta) / np.sqrt(np.diagonal(e.V, axis1=-2, axis2=-1))


# ---------------------------------------------------------------- clamped residuals

def test_the_spread_before_clamping_follows_from_the_mean_square_after_it():
    "Against integrals: spreads from a thirtieth of the bound to four times it"
    x = np.linspace(-9, 9, 200_001)
    density = np.exp(-x**2 / 2) / np.exp(-x**2 / 2).sum()
    for spread in (.03, .2, .33, .5, 1.0, 4.0):
        found, share = spread_of(density @ np.minimum((spread * x)**2, 1))
        assert np.isclose(found, spread, rtol=2e-3) and np.isclose(share, 2 * ndtr(-1 / spread), atol=2e-4)


def test_mean_squares_that_no_spread_has_are_taken_for_the_nearest():
    found, share = spread_of(np.array([-1.0, 0.0, .3, .97, 1.0, 7.0]))
    assert np.isclose(found[0], .02) and found[0] == found[1] < found[2] < found[3]
    assert found[3] == found[4] == found[5] < 50
    assert share[0] == 0 and .9 < share[5] < 1


def test_residuals_are_those_of_the_bounds_and_the_count():
    n, bounds = 1000, np.array([2.0, 2.0, 2.0])
    r = replace(drawn(np.eye(2), np.ones(2), n, 1, sigma=1.0, starts=(0, 0, 0)), bounds=bounds[:, None],
                squares=n * np.array([[.5], [1.0], [1.0]]), clamped=np.array([[2.0], [200.0], [900.0]]))
    sd, normal, share = r.residuals
    found = [spread_of(v / 4) for v in (.5, 1.0, 1.0)]
    assert np.allclose(sd[:, 0], [2 * spread for spread, _ in found])
    assert np.allclose(normal[:, 0], [least for _, least in found])
    assert np.allclose(share[:, 0], [found[0][1], .2, .5])


def test_responses_that_are_bounded_by_nature_are_not_taken_for_clamped():
    "A yes or no in bounds that just hold it: nothing was clamped, so nothing is corrected"
    n = 1000
    one = drawn(np.eye(2), np.ones(2), n, 1, sigma=1.0, starts=(0,))
    for square, sd in ((1.0, 1.0), (.8, np.sqrt(.8))):
        r = replace(one, bounds=np.array([[1.0]]), squares=np.array([[n * square]]),
                    clamped=np.array([[0.0]]))
        assert np.allclose([r.residuals[0][0, 0], r.residuals[2][0, 0]], [sd, 0.0])
    spread, normal = spread_of(.8)
    clamped = replace(r, clamped=np.array([[n * normal]]))
    least = min(normal, .5)
    assert np.allclose([clamped.residuals[0][0, 0], clamped.residuals[2][0, 0]], [spread, least])



# ---------------------------------------------------------------- rounds as one

def clamped_rounds():
    "A batch of two releases of three rounds in which a tenth was clamped"
    beta = np.array([1.0, -2, .5, 0])
    r = drawn(400 * ar1(4, .4), beta, 500, 2, 15.0, 20.0, 20.0, 1.0, starts=(0.0, .5 * beta, .9 * beta))
    clamped = r.n * np.array([.02, .1, .3])[:, None] * [1.0, 1.2]
    return replace(r, clamped=clamped, product_sds=r.product_sds * [[1.0], [.5], [.2]])


def test_rounds_are_weighted_by_the_precision_of_their_products():
    r = clamped_rounds()
    center, uncertainty, error = np.full((2, 4), .3), np.array([.1, 2.0]), np.array([9.0, 400.0])
    shares = r.shares_for(center, uncertainty, error)
    assert shares.shape == (3, 2) and np.allclose(shares.sum(0), 1, rtol=1e-12)
    for i in range(2):
        g = denoised(r.gram[i], r.gram_sd)[0].mean()
        precision = []
        for k in range(3):
            cut = max(r.clamped[k, i] / r.n, spread_of(r.squares[k, i] / (r.n * r.bounds[k, i]**2))[1])
            left2 = np.sum((center[i] - r.starts[k, i])**2) + uncertainty[i]
            precision.append(1 / (r.product_sds[k, i]**2 + (error[i] + (cut * g)**2 / 4) * left2))
        assert np.allclose(shares[:, i], np.divide(precision, sum(precision)))


def test_combined_rounds_are_their_weighted_sums():
    "Starts as they are; products, and their noise, over the shares inside"
    r = clamped_rounds()
    shares = np.array([[.2, .1], [.3, .3], [.5, .6]])
    start, products, noise = r.combined(shares)
    inside = 1 - r.residuals[2]
    assert np.allclose(inside[2], 1 - np.array([.3, .36]))
    for i in range(2):
        assert np.allclose(start[i], sum(shares[k, i] * r.starts[k, i] for k in range(3)))
        assert np.allclose(products[i], sum(shares[k, i] / inside[k, i] * r.products[k, i] for k in range(3)))
        sds = shares[:, i] / inside[:, i] * r.product_sds[:, i]
        assert np.isclose(noise[i], sds @ sds)


def test_a_guess_comes_from_the_last_round_and_then_from_all():
    r = clamped_rounds()
    found, left = r.guess
    sd, _, cut = r.residuals
    for i in range(2):
        lam, U, error = denoised(r.gram[i], r.gram_sd)
        last = r.products[-1, i] / (1 - cut[-1, i])
        step, uncertainty = ridge((lam, U), last, r.product_sds[-1, i]**2, sd[-1, i]**2, error)
        one = one_of(r, i)
        shares = one.shares_for(r.starts[-1, i] + step, uncertainty, error)
        start, products, noise = one.combined(shares)
        step, uncertainty = ridge((lam, U), products, noise, sd[-1, i]**2, error)
        assert np.allclose(found[i], start + step) and np.isclose(left[i], uncertainty)


def test_without_noise_the_guess_is_the_truth():
    S, beta = 1000 * ar1(5, .5), np.array([1.0, 0, -1, .5, 0])
    for starts in ((0.0,), (0.0, .9 * beta), (3.0, -2.0, 1.0)):
        r = drawn(S, beta, 1000, 3, sigma=1e-3, starts=starts)
        found, left = r.guess
        assert np.allclose(found, beta, atol=.05) and (left < .1).all() and (left >= 0).all()


# ---------------------------------------------------------------- the next bound

AFTER = np.array([1.0, .5, 0, 0, 1, -.5])


def after(product_sd, gram_sd=1e-3, trials=200, **options):
    "Releases of 3000 rows with this much noise on the products, and mean squares of their next residuals"
    S = 3000 * ar1(6, .4)
    options = dict(sigma=1.0, square_sd=1.0) | options
    r = drawn(S, AFTER, 3000, trials, gram_sd, product_sd, **options)
    start, bound = r.next_start()
    left = AFTER - start
    return r, start, bound, (left @ S * left).sum(1) / 3000 + options["sigma"]**2


@pytest.mark.parametrize("product_sd", [1, 300, 1000, 2000, 5000])
def test_the_next_bound_is_three_standard_deviations_of_the_next_residuals(product_sd):
    "Whether little or much of the estimate is noise: hardly below, and not by more than a third above"
    _, _, bound, square = after(product_sd)
    assert 2.9 < np.sqrt(np.mean(bound**2) / np.mean(square)) < (3.5 if product_sd < 500 else 4)


def test_the_next_bound_by_hand():
    settled = after(30, trials=2, starts=(0.0, .95 * AFTER))[0]
    assert (settled.next_start()[1] > 1.1 * settled.bounds[-1] / 4).all()
    for r in (clamped_rounds(), after(500, 100.0, trials=2)[0], settled):
        start, bound = r.next_start()
        sd, _, _ = r.residuals
        for i in range(2):
            lam, U, error = denoised(r.gram[i], r.gram_sd)
            step = start[i] - r.starts[-1, i]
            size2 = step @ step
            explained = step @ (U * lam) @ U.T @ step
            room2 = r.square_sds[-1, i]**2 + 4 * r.product_sds[-1, i]**2 * size2 + 2 * error * size2**2
            square = sd[-1, i]**2 + (np.sqrt(room2) - explained) / r.n
            heavy = r.clamped[:, i] - 2 * r.clamped_sd > (r.residuals[1][:, i] + .01) * r.n
            last = r.bounds[-1, i]
            expected = np.clip(3 * 1.6**heavy.sum() * np.sqrt(max(square, 0)), last / 4, 2 * last)
            assert np.isclose(bound[i], expected)
        assert np.allclose(start, r.guess[0])


def test_a_bound_falls_to_a_quarter_at_most_and_doubles_at_most():
    r, _, bound, _ = after(1.0, sigma=1e-3, trials=3)
    assert np.allclose(bound, r.bounds[-1] / 4)
    small = r.bounds / 100
    tight = replace(r, bounds=small, squares=.97 * r.n * small**2, products=0 * r.products)
    assert np.allclose(tight.next_start()[1], 2 * tight.bounds[-1])


def test_bounds_widen_with_every_round_of_heavy_tails():
    "A count that is two of its standard deviations and a per cent above a normal one's means heavy tails"
    r, _, plain, _ = after(30, trials=2, starts=(.9 * AFTER, .95 * AFTER, AFTER))
    last = replace(r, clamped_sd=5.0)
    tails = {(0, 0, 0): 0, (0, 41, 0): 1, (41, 0, 41): 2, (39, 39, 39): 0, (41, 41, 41): 3}
    for counts, heavy in tails.items():
        clamped = np.array(counts, dtype=float)[:, None] * np.ones(2)
        wide = replace(last, clamped=clamped).next_start()[1]
        assert np.allclose(wide, np.minimum(1.6**heavy * plain, 2 * r.bounds[-1]), rtol=.06), counts
    assert (2.5 * plain < 2 * r.bounds[-1]).all()


@pytest.mark.parametrize("product_sd", [1000, 2000])
def test_a_start_that_is_shrunk_is_closer_to_the_truth(product_sd):
    "Closer than the estimate itself, and than nothing"
    r, start, *_ = after(product_sd)
    found = estimate_coefficients(r, sigma=1.0).beta
    shrunk, whole, nothing = (np.mean(np.sum((b - AFTER)**2, -1)) for b in (start, found, 0 * AFTER))
    assert shrunk < .85 * whole and shrunk < nothing


def test_nothing_but_noise_is_not_subtracted():
    r, start, *_ = after(10**6)
    ratios = np.linalg.norm(start, axis=1) / np.linalg.norm(estimate_coefficients(r, sigma=1.0).beta, axis=1)
    assert np.median(ratios) < .15


# ---------------------------------------------------------------- coefficients

def test_a_batch_is_estimated_one_by_one():
    S, beta = 400 * ar1(5, .5), np.array([1.0, 0, -1, .5, 0])
    for starts in ((0.0,), (0.0, .3, .9 * beta)):
        batch = drawn(S, beta, 10**4, 7, 40.0, 40.0, 40.0, 1.0, starts=starts, variance_noise=.1)
        for sigma in (None, 2.0):
            together = estimate_coefficients(batch, sigma)
            for k in range(7):
                one = estimate_coefficients(one_of(batch, k), sigma)
                for name in ("beta", "V", "theta", "size2", "zeta", "sigma"):
                    assert np.allclose(getattr(one, name), getattr(together, name)[k]), name
                assert np.allclose(one.shares, together.shares[:, k])
                start = (one.shares[:, None] * batch.starts[:, k]).sum(0)
                assert np.allclose(one.beta, start + one.theta)


def test_estimates_are_unbiased_in_spite_of_the_noise_on_the_gram_matrix():
    "Thirty columns, a fifth of whose inverse is noise: without the shift all would come out too large"
    beta = np.zeros(30)
    beta[:3] = 1, -1, .5
    S, kappa = 1000 * np.eye(30), 1000 * np.sqrt(.2 / 30)
    r = drawn(S, beta, 10**6, 1000, gram_sd=kappa)
    e = estimate_coefficients(r, sigma=0.0)
    assert .15 < e.zeta.mean() < .3 and np.abs(e.beta.mean(0) - beta).max() < .03
    plain = np.linalg.solve(r.gram, r.products[0][..., None])[..., 0].mean(0)
    assert plain[0] > 1.15


@pytest.mark.parametrize("starts", [(0.0,), (0.0, 1.0), (2.0, .5, -1.0)], ids=str)
def test_without_noise_any_rounds_give_the_truth(starts):
    S, beta = 1000 * ar1(5, .5), np.array([1.0, 0, -1, .5, 0])
    e = estimate_coefficients(drawn(S, beta, 1000, 2, sigma=1e-6, starts=starts))
    assert np.allclose(e.beta, beta, atol=1e-4) and np.allclose(e.shares.sum(0), 1)


def test_a_start_at_the_truth_carries_the_weight_when_the_gram_matrix_is_noisy():
    S, beta = 1000 * ar1(5, .5), np.array([4.0, 0, -4, 2, 0])
    e = estimate_coefficients(drawn(S, beta, 1000, 50, 60.0, 10.0, sigma=1.0, starts=(0.0, beta)))
    assert (e.shares[1] > .9).all() and np.abs(e.beta - beta).max() < .5
    far = estimate_coefficients(drawn(S, beta, 1000, 50, 60.0, 10.0, sigma=1.0, starts=(0.0,)))
    assert np.mean((far.beta - beta)**2) > 10 * np.mean((e.beta - beta)**2)


# ---------------------------------------------------------------- the covariance

def test_noise_on_the_gram_matrix_counts_twice_along_the_truth():
    "(E beta)_j has variance kappa^2 (|beta|^2 + beta_j^2): an estimate off the direction of beta varies less"
    beta, S = np.array([3.0, 0, 0, 0]), 100 * np.eye(4)
    e = estimate_coefficients(drawn(S, beta, 10**6, 8000, gram_sd=3.0), sigma=0.0)
    z2 = np.mean(standardised(e, beta)**2, axis=0)
    assert np.abs(z2 - 1).max() < .1
    assert 1.8 < np.var(e.beta[:, 0]) / np.var(e.beta[:, 1]) < 2.2


SOURCES = {"regression": dict(sigma=2.0), "products": dict(product_sd=20.0),
           "Gram matrix": dict(gram_sd=12.0), "all": dict(sigma=1.0, product_sd=15.0, gram_sd=8.0)}


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("name", SOURCES)
def test_the_covariance_is_that_of_the_errors(name, rounds):
    "Each source of noise alone, and all: errors whitened by V have variance 1 in every direction"
    beta, S = np.array([1.0, 0, -1, .5, 0]), 400 * ar1(5, .5)
    scales = SOURCES[name]
    starts = ((0.0,), (0.0, .2, -.3))[rounds > 1]
    e = estimate_coefficients(drawn(S, beta, 10**6, 6000, **scales, starts=starts), scales.get("sigma", 0.0))
    root = np.linalg.inv(np.linalg.cholesky(e.V.mean(0)))
    errors = (e.beta - beta) @ root.T
    assert np.abs(errors.mean(0)).max() < .08
    lam = np.linalg.eigvalsh(np.cov(errors.T))
    assert .85 < lam[0] and lam[-1] < 1.15


def test_the_size_of_the_truth_is_estimated_without_the_noise():
    beta, S = np.array([1.0, 0, -1, .5, 0]), 400 * ar1(5, .5)
    scales = dict(sigma=4.0, product_sd=40.0, gram_sd=15.0)
    e = estimate_coefficients(drawn(S, beta, 10**6, 6000, **scales), sigma=4.0)
    assert abs(e.size2.mean() / (beta @ beta) - 1) < .12 and (e.theta**2).sum(-1).mean() > 1.1 * (beta @ beta)
    nothing = estimate_coefficients(drawn(S, 0 * beta, 10**6, 500, **scales), sigma=4.0)
    assert (nothing.size2 >= 0).all() and np.mean(nothing.size2 == 0) > .3


def by_hand(r, shares, sigma):
    "Coefficients, V (but for the bias of Q) and sigma of a release, from the shares of its rounds"
    Q, zeta = unbiased_inverse(r.gram, r.gram_sd)
    d, kappa2 = len(Q), r.gram_sd**2
    spread, normal = spread_of(r.squares / (r.n * r.bounds**2))
    inside = 1 - np.clip(r.clamped / r.n, normal, .5)
    products = (shares / inside) @ r.products
    noise = np.sum((shares / inside * r.product_sds)**2)
    theta = Q @ products
    size2 = theta @ theta
    rss = r.n * (spread[-1] * r.bounds[-1])**2
    if len(shares) == 1:
        explained = theta @ products - noise * np.trace(Q)
        room = np.sqrt(r.square_sds[0]**2 + 4 * noise * size2 + 2 * kappa2 * size2**2)
        rss = np.clip(rss - explained + .25 * room, 0, rss + r.square_sds[0])
    variance = rss / (max(r.weights, r.weights_sd) * (1 - d / r.n)) if sigma is None else sigma**2
    ratios = np.full(d, variance)
    if sigma is None and len(shares) > 1:
        squares = np.maximum(r.squares, r.square_sds)
        longer = np.sum(shares / inside * np.sqrt(np.minimum(squares / squares[-1], 1)))
        scale = np.array([Q[j] @ Q[j] / Q[j, j] for j in range(d)]) * longer**2
        ratios = _shrunk_ratios(r.variances * scale, (r.variance_sd * scale)**2)
    known = np.diag(np.sqrt(ratios)) @ Q @ np.diag(np.sqrt(ratios)) + noise * Q @ Q
    spread2 = np.sum(known**2)
    chance = np.sqrt(2 * spread2 + 4 * max(theta @ known @ theta - spread2, 0))
    left = np.clip(size2 - np.trace(known) + .15 * chance, 0, size2)
    along = np.outer(theta, theta) / size2
    left = left / (1 + zeta + kappa2 * np.trace(Q @ along @ Q))
    V = known + kappa2 * left * Q @ (np.eye(d) + along) @ Q
    return shares @ r.starts + theta, V, np.sqrt(variance)


def plausible(r):
    "Squared sizes of coefficients: columns explain the responses together, the intercept their means"
    d = len(r.columns)
    sizes = r.squares[0] / (d * np.maximum(np.diag(r.gram), np.sqrt(2) * r.gram_sd))
    if not r.clip.intercept: return sizes
    ones = r.clip.one * r.weights
    means, response = r.gram[:-1, -1] / ones, r.products[0][-1] / ones
    center, left = r.guess
    sizes[-1] = (response**2 + np.sum(means**2 * (center[:-1]**2 + left / d))) / r.clip.one**2
    return sizes


@pytest.mark.parametrize("sigma", [None, .8])
@pytest.mark.parametrize("rounds", [1, 2, 4])
def test_estimate_formula(data, rounds, sigma):
    "Step by step; what the bias of Q adds to V is B D B' with the bias B and a diagonal D of squared sizes"
    X, y, _ = data
    for options in (dict(), dict(response_bound=1.0, row_bound=6.0), dict(epsilon=.3, intercept=False)):
        method = MomentsMethod(**{**PUBLIC, **options}, rounds=rounds)
        r = method.release(X, y, simulation=True, random_state=0)
        if sigma is not None: r = r.knowing(sigma)
        e = r.estimate()
        shares = r.shares_for(*r.guess, r.gram_sd**2)
        beta, V, level = by_hand(r, shares, sigma)
        assert np.allclose(e.shares, shares) and np.allclose(e.beta, beta) and np.isclose(e.sigma, level)
        assert (e.V == e.V.T).all()
        size, bias = np.abs(V).max(), inverse_bias(r.gram, r.gram_sd)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(estimate, "inverse_bias", lambda gram, sd: np.zeros_like(gram))
            without = r.estimate().V
            patch.setattr(estimate, "inverse_bias", lambda gram, sd: np.eye(len(gram)))
            sizes = r.estimate().V - without
        assert np.allclose(without, V, rtol=1e-9, atol=1e-12 * size)
        assert np.allclose(sizes, np.diag(plausible(r)), rtol=1e-9, atol=1e-9)
        assert np.allclose(e.V - without, bias @ sizes @ bias.T, rtol=1e-6, atol=1e-10 * size)


# ---------------------------------------------------------------- ratios of variances

def test_ratios_without_noise_stay_and_noisy_ones_go_to_the_safe_side_of_their_mean():
    ratios = np.array([1.0, 2, 4, 8])
    assert np.allclose(_shrunk_ratios(ratios, np.full(4, 1e-12)), ratios, rtol=1e-5)
    rng = np.random.default_rng(0)
    found = _shrunk_ratios(1 + .3 * rng.standard_normal((2000, 40)), np.full((2000, 40), .09))
    assert found.std() < .1 and 1 < found.mean() < 1.1 and np.mean(found > .9) > .99
    spread = np.where(np.arange(40) < 20, 1.0, 3.0)
    found = _shrunk_ratios(spread + .3 * rng.standard_normal((2000, 40)), np.full((2000, 40), .09))
    over = found.mean(0) - spread
    assert (over > .02).all() and (over < .3).all()


def test_ratios_by_hand():
    ratios, noise2 = np.array([1.0, 3, .2, 2, 5]), np.array([.1, .2, .1, .4, 2.0])
    w = 1 / (noise2 + .2)
    w = w / w.sum()
    mean, mean2 = w @ ratios, w**2 @ noise2
    between2 = w @ ((ratios - mean)**2 - noise2) + mean2 - np.sqrt(2 * w**2 @ noise2**2)
    assert between2 > 0
    keep = between2 / (between2 + noise2)
    room = .25 * np.sqrt(keep * noise2 + (1 - keep)**2 * mean2)
    expected = keep * ratios + (1 - keep) * (mean + np.sqrt(between2)) + room
    assert np.allclose(_shrunk_ratios(ratios, noise2), expected)


def test_a_ratio_is_never_below_a_tenth_of_the_mean():
    found = _shrunk_ratios(np.array([-.9, 1.0, 1.0, 1.0, 9.0]), np.full(5, 1e-6))
    assert np.isclose(found[0], .1 * 2.22, rtol=.01) and np.allclose(found[1:], [1, 1, 1, 9], rtol=.01)
    assert (_shrunk_ratios(np.full(3, -1.0), np.full(3, 1e-6)) > 0).all()


# ---------------------------------------------------------------- the noise level

def test_sigma_is_that_of_the_rows_whatever_the_weights():
    "Rows that were scaled have less noise: the square is divided by the sum of squared weights"
    r = drawn(1000 * np.eye(3), np.array([1.0, 0, -1]), 10_000, 500, sigma=2.0)
    names = ("squares", "weights", "products", "gram")
    scaled = replace(r, bounds=.5 * r.bounds, **{name: .25 * getattr(r, name) for name in names})
    one = estimate_coefficients(scaled)
    assert np.allclose(one.sigma, estimate_coefficients(r).sigma, rtol=1e-6)
    assert abs(one.sigma.mean() / 2 - 1) < .01


LEVELS = {"square": dict(square_sd=3000.0), "products": dict(product_sd=300.0),
          "Gram matrix": dict(gram_sd=60.0)}


@pytest.mark.parametrize("name", LEVELS)
def test_sigma_lies_a_quarter_of_a_standard_deviation_above(name):
    "Whatever part of the release is loudest: in three of five cases sigma is not below the truth"
    beta, S, n = np.array([4.0, -3, 0]), 10_000 * np.eye(3), 10_000
    e = estimate_coefficients(drawn(S, beta, n, 4000, sigma=1.0, **LEVELS[name]))
    assert abs(np.mean(e.sigma > 1) - ndtr(.25)) < .05 and np.abs(e.sigma - 1).max() < 1


def test_what_noise_on_the_products_seems_to_explain_is_given_back():
    "Sixty null columns: products that are all noise explain part of y, and sigma would be too small"
    d, n = 60, 10_000
    e = estimate_coefficients(drawn(n * np.eye(d), np.zeros(d), n, 200, sigma=1.0, product_sd=400.0))
    assert abs(e.sigma.mean() - 1) < .01
    assert d * 400.0**2 / n > .08 * n  # what is given back


def test_a_noise_level_is_never_more_than_all_of_y_and_never_imaginary():
    S, beta, n = 100 * np.eye(3), np.array([1.0, 0, 0]), 100
    r = drawn(S, beta, n, 2000, sigma=1.0, gram_sd=80.0, product_sd=80.0, square_sd=80.0)
    e = estimate_coefficients(r)
    sd = r.residuals[0][0]
    assert (e.sigma >= 0).all() and (e.sigma**2 * (n - 3) <= (n * sd**2 + 80) * (1 + 1e-12)).all()


def test_degrees_of_freedom_of_sigma():
    e = estimate_coefficients(drawn(np.eye(20), np.ones(20), 40, 1500, sigma=1.0))
    assert abs(np.mean(e.sigma**2) - 1) < .04


def test_sigma_is_estimated():
    "With a large budget the free third part finds the noise level"
    X, y, _ = linear_model(50_000, p=5, k=2, amplitude=1.0, sigma=2.0, random_state=0)
    for B, rounds in ((20.0, 1), (1.5, 1), (1.5, 4)):
        method = MomentsMethod(epsilon=50.0, delta=1e-2, row_bound=B, response_bound=20.0, rounds=rounds)
        assert abs(method.release(X, y, simulation=True, random_state=0).estimate().sigma - 2.0) < .05


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
        assert (r.starts[0] == 0).all() and r.bounds[0] == 5.0 == r.clip.response_bound
        together = np.sum(r.product_sds**-2.0)**-.5
        assert r.noise == {"Gram matrix": r.gram_sd, "products": together} and isinstance(together, float)
    assert one.variances.shape == (0,) and one.variance_sd == 0 < three.variance_sd
    assert three.variances.shape == (7,) and (three.starts[1:] != 0).all() and len(set(three.bounds)) == 3
    assert one.method == "moments" and one.budget == Budget(1.0, 1e-3) and one.n == 3000
    assert one.rule.name == "bh" and one.rules == tuple(RULES) and one.knowing(2.0).sigma == 2
    assert three.noise["products"] < three.product_sds.min()


@pytest.mark.parametrize("rounds", [1, 4])
def test_saved_releases_are_the_same_and_select_the_same(data, tmp_path, rounds):
    X, y, _ = data
    ranges = {"x1": (-3, 3)}
    method = MomentsMethod(**PUBLIC, rounds=rounds, ranges=ranges, response_center=.5)
    r = method.release(X, y, simulation=True, random_state=0)
    first = sorted(np.load(r.save(tmp_path / "first.npz"), allow_pickle=False).files)
    seed, released = r.seed, dict(vars(r))
    select(r), r.notes(), r.next_start()  # computes what is kept
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
    assert set(names) == {name for name, value in vars(r).items() if isinstance(value, (float, np.ndarray))}
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
    assert notes[0].startswith("Columns 'x1' and 'x3' are nearly collinear (correlation -0.990): ")
    assert len(notes) == 2
    many = twins(r, [(0, 1, .97), (2, 3, .98), (4, 5, .99), (1, 4, .96)])
    assert len([note for note in many.notes() if "collinear" in note]) == 3 and len(many.collinear()) == 4
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
    assert "as the noise on the Gram matrix becomes small; in finite samples measured, not proved" in plain
    assert "(epsilon=1, delta=0.001)" in plain and "counts as private" in plain
    assert "if y = a + X b plus independent noise of one variance." in plain
    for word in ("on average over", "private count", "rounds", "ranges", "sigma", "Lost", "intercept"):
        assert word not in plain, word
    several = text()
    assert "Spent (epsilon=1, delta=0.001) in 4 rounds; noise scales: Gram matrix" in several
    assert "independent noise, whatever its variances." in several
    assert "if y = X b plus" in text(intercept=False)
    assert "if the bounds and ranges were set" in text(ranges={"x0": (-3, 3)})
    assert "if the bounds and sigma were set" in text(sigma=1.0) and "if the bounds were set" in plain
    loud = text(response_bound=.05, epsilon=50.0, rounds=1)
    assert "of the responses were clamped" in loud and "a private count" in loud and "bends the model" in loud
    assert "mostly noise" in text(100, epsilon=.05) and "noise (ratio" not in text(epsilon=50.0)


def test_the_count_that_warns_is_the_last_rounds(data):
    X, y, _ = data
    r = MomentsMethod(**PUBLIC, rounds=3).release(X, y, simulation=True, random_state=0)
    for counts, warns in (((900.0, 900.0, 0.0), False), ((0.0, 0.0, 900.0), True)):
        notes = " ".join(replace(r, clamped=np.array(counts)).notes())
        assert ("of the responses were clamped" in notes) == warns and ("About 30%" in notes) == warns


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
    r = method.release(X * [1, 1e-6, 1, 1, 1e-6, 1], y, simulation=True, random_state=1)
    assert r.lost() == ["x1", "x4"] and "Lost in the noise: 'x1', 'x4'" in " ".join(r.notes())
    G = r.gram.copy()
    G[1, 1] = G[4, 4] = 3.1 * np.sqrt(2) * r.gram_sd
    assert replace(r, gram=G).lost() == []


def test_a_column_without_spread_is_flat_however_far_its_mean_is(data):
    X, y, _ = data
    r = quiet((np.column_stack([X, np.full(len(y), 1.5)]), y, None), row_bound=4.0)
    m = r.gram[6, -1] / r.gram[-1, -1]
    assert list(np.flatnonzero(r._flat())) == [6] and r.gram[6, 6] > 50 * r.gram_sd and r.lost() == []
    for times, flat in ((2.9, [6]), (3.1, [])):
        G = r.gram.copy()
        G[6, 6] = m**2 * G[-1, -1] + times * np.sqrt(2) * r.gram_sd * (1 + m**2)
        G[0, 0] *= 9  # far above the others, whatever the noise
        assert list(np.flatnonzero(replace(r, gram=G)._flat())) == flat


def test_a_constant_column_is_never_selected_where_the_release_can_tell(data):
    "Without the rule, the variance is honest but finite: it is selected as often as any other null"
    X, y, _ = data
    wide, flat, nulls = np.column_stack([X, np.full(len(y), 1.0)]), 0, 0
    method = MomentsMethod(**{**PUBLIC, "epsilon": 40.0})
    for seed in range(40):
        r = method.release(wide, y, simulation=True, random_state=seed)
        plain, told = estimate_coefficients(r), bool(r._flat()[6])
        flat += told
        nulls += abs(plain.beta[6]) > .7 * np.sqrt(plain.V[6, 6])
        assert np.allclose(np.diag(r.estimate().V) / np.diag(plain.V), [1] * 6 + [1e12 if told else 1, 1])
        for rule in ("bh", "by", "dbh"):
            assert not told or "x6" not in select(r, fdr=.9, rule=rule).selected
    assert flat >= 38 and nulls >= 3


def test_columns_of_a_small_table_are_not_taken_for_constants():
    "Where all spreads are within their noise, estimates keep their honest variances, and signals are found"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 3))
    y = X[:, 0] + rng.standard_normal(300)
    method = MomentsMethod(epsilon=1.0, delta=1e-6, row_bound=3.0, response_bound=5.0)
    r = method.release(X, y, simulation=True, random_state=0)
    spread = np.diag(r._adjusted()) / (np.sqrt(2) * r.gram_sd)
    assert (spread < 3).all() and not r._flat().any() and select(r).selected == ("x0",)
    assert np.array_equal(r.estimate().V, estimate_coefficients(r).V)


def test_a_level_that_never_occurs_takes_nothing_from_its_factor(data):
    X, y, _ = data
    r = MomentsMethod(**{**PUBLIC, "epsilon": 40.0}).release(
        np.column_stack([X, np.zeros(len(y))]), y, simulation=True, random_state=0)
    both, plain = replace(r, groups={"f": ("x0", "x6")}), estimate_coefficients(r)
    assert np.array_equal(both.estimate().V, plain.V) and "f" in select(both).selected
    pair = replace(r, gram=np.where(np.eye(8)[5] + np.eye(8)[5][:, None] > 0, 0.0, r.gram),
                   groups={"g": ("x5", "x6")})
    assert list(pair._unknown()) == [False] * 5 + [True, True, False]
    assert "g" not in select(pair, fdr=.9).selected


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
    wide = found_in(quiet((rare, y, None), ranges=ranges | {"x6": (0, 2)}))["means of the columns"][1]
    assert "Narrow the ranges of 'x6'" in wide.change and "levels" not in wide.change


@pytest.mark.filterwarnings("ignore:delta=")
def test_a_guarantee_is_about_privacy_only(data):
    X, y, _ = data
    r = MomentsMethod(**PUBLIC).release(X, y, sampler=Trusted())
    assert str(r.guarantee).startswith("Privacy: (epsilon=1, delta=0.001)-differential privacy for every")
    assert "FDR" not in str(r.guarantee)


def test_nothing_fails_after_the_release():
    "Whatever the design and the noise did: finite estimates, usable knockoffs, a positive next bound"
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
        start, bound = r.next_start()
        assert np.isfinite(e.beta).all() and np.isfinite(e.V).all()
        assert e.sigma >= 0 and (np.diag(e.V) > 0).all()
        assert np.isfinite(start).all() and r.bounds[-1] / 4 <= bound <= 2 * r.bounds[-1]
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


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_response_bound_is_compared_with_the_released_square(data, rounds):
    r = quiet(data, rounds=rounds)
    size = np.sqrt((r.squares[0] + 2 * r.square_sds[0]) / r.n)
    def at(ratio):
        bounds = r.bounds.copy()
        bounds[0] = ratio * size
        return found_in(replace(r, bounds=bounds))
    assert "response bound" not in at(7.9)
    effect, finding = at(8.1)["response bound"]
    assert f"Lower response_bound to {3 * size:.2g} or less." == finding.change
    assert "8.1 times" in finding.found
    assert at(80)["response bound"][0] >= effect >= 1.5


def test_the_effect_of_a_bound_is_that_on_the_noise_of_all_rounds(data):
    "All of it is noise of privacy: with one round, noise falls as the bound does"
    r = quiet(data, rounds=1)
    size = float(np.sqrt((r.squares[0] + 2 * r.square_sds[0]) / r.n))
    found, = diagnosis.response_findings(replace(r, bounds=np.array([30 * size])), 1.0, "harms")
    assert np.isclose(found.gain, 10)
    two = replace(r, bounds=np.array([30 * size, 3 * size]), product_sds=np.array([10.0, 1.0]),
                  **{name: np.repeat(getattr(r, name), 2) for name in ("squares", "square_sds", "clamped")})
    assert np.isclose(diagnosis.gain(np.sqrt(2 / 1.01), 1.0), np.sqrt(2 / 1.01))
    assert np.isclose(diagnosis.response_findings(two, 1.0, "harms")[0].gain, max(np.sqrt(2 / 1.01), 1.5))


@pytest.mark.parametrize("factor, share, wanted", [(10, 1, 10), (10, 0, 1), (.1, 1, 1), (1e9, .75, 2)])
def test_a_gain_is_limited_by_what_is_not_noise_of_privacy(factor, share, wanted):
    assert np.isclose(diagnosis.gain(factor, share), wanted)


def test_the_share_of_the_noise_of_privacy(data):
    "Next to nothing with a large budget, nearly all with a small one; a known sigma says the same"
    assert quiet(data).noise_share() < .1 and quiet(data, epsilon=.1).noise_share() > .9
    r = quiet(data, epsilon=2.0, rounds=1)
    e = r.knowing(1.0).estimate()
    wanted = 1 - np.median(np.diag(r.inverse[0])[:6] / np.diag(e.V)[:6])
    assert np.isclose(r.noise_share(e), wanted)


def test_a_centre_that_is_far_off_is_told_with_a_better_one(data):
    X, y, _ = data
    def found(shift, **options):
        return found_in(quiet((X, y + shift, None), **{"epsilon": 5.0, "response_bound": 200.0, **options}))
    effect, finding = found(60.0)["response centre"]
    center = float(finding.change.split("about ")[1].split(",")[0])
    assert abs(center - 60 - y.mean()) < 3 and "'private'" in finding.change and effect > 1
    assert "response centre" not in found(0.0) and "response centre" not in found(60.0, response_center=60.0)


def test_a_row_bound_far_above_the_rows_and_far_below(data):
    high = found_in(quiet(data, row_bound=30.0))["row bound"][1]
    assert "Set row_bound to about" in high.change
    usual = float(high.change.split("about ")[1].split(";")[0])
    assert abs(usual / np.sqrt((data[0]**2).sum(1).mean()) - 1) < .3
    X, y, _ = data
    low = found_in(quiet((40 * X, y, None), row_bound=1.0, epsilon=90.0))["row bound"][1]
    assert "Raise row_bound" in low.change and "row bound" not in found_in(quiet(data))
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
    narrow = found_in(quiet((wide, y, None), ranges=every))["units of the columns"][1]
    assert narrow.change.startswith("Narrow the ranges")
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
    said = {rule: str(select(release, rule=rule).guarantee) for rule in RULES}
    assert {rule for rule, text in said.items() if "whatever its variances" in text} == {"bh", "by"}
    assert all("of one variance" in said[rule] for rule in ("dbh", "knockoffs", "ebh"))


def test_a_column_at_the_limit_is_lost():
    X, y, _ = linear_model(3000, p=3, k=2, random_state=0)
    method = MomentsMethod(epsilon=2.0, delta=1e-5, row_bound=2.0, response_bound=6.0)
    release = method.release(X, y, simulation=True, random_state=0)
    gram = release.gram.copy()
    gram[1, 1] = 3.0 * np.sqrt(2) * release.gram_sd
    assert replace(release, gram=gram).lost() == ["x1"]
