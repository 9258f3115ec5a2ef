"A noisy Gram matrix: an inverse that solves its equation, a better matrix by its risk, a start from it."
from itertools import product

import numpy as np
import pytest
from scipy.optimize import brentq

from dp_knockoff.core.errors import stream
from dp_knockoff.data.models import ar1
from dp_knockoff.filters.estimate import (
    _soft_threshold,
    _unbiased_eigenvalues,
    denoised,
    inverse_bias,
    ridge,
    unbiased_inverse,
)


def noise(rng, d, sd, draws):
    "Symmetric noise: sd off the diagonal, sqrt(2) times that on it"
    E = np.triu(rng.standard_normal((draws, d, d)))
    E[:, range(d), range(d)] /= np.sqrt(2)
    return sd * (E + E.transpose(0, 2, 1))


def symmetric(lam, U): return (U * lam[..., None, :]) @ np.swapaxes(U, -1, -2)


def blocks(p, size, rho): return np.kron(np.eye(p // size), (1 - rho) * np.eye(size) + rho)


# ---------------------------------------------------------------- an inverse without bias

def matrices():
    "Definite, indefinite and negative definite ones of all sizes, with noise of all sizes, and their sds"
    rng = stream(0, "matrices")
    for d, shift, size in product((1, 2, 7, 30), (-3.0, 0.0, 1.0), (1e-8, 1.0, 1e12)):
        G = rng.standard_normal((d, d)) / np.sqrt(d)
        for sd in (1e-4, .1, 1.0, 1e3): yield size * (G + G.T + shift * np.eye(d)), size * sd


def test_the_inverse_solves_its_equation_and_is_positive_definite():
    "Q^-1 = G + sd^2 (tr Q + Q): in the eigenbasis of G, to the last digits of the largest term"
    for G, sd in matrices():
        Q, zeta = unbiased_inverse(G, sd)
        lam, U = np.linalg.eigh(G)
        q = np.einsum("ji,jk,ki->i", U, Q, U)
        assert (q > 0).all() and np.allclose(Q, Q.T, rtol=0, atol=1e-14 * q.max())
        added = sd**2 * (q.sum() + q)
        rounding = 1e-12 * (np.abs(lam) + added) + 1e-14 * q.max() / q**2
        assert (np.abs(1 / q - lam - added) < rounding).all()
        assert np.isclose(zeta, sd**2 * np.sum(Q**2))


def test_eigenvalues_are_the_only_positive_solution():
    "Against a root finder, which knows nothing of Newton's method"
    for G, sd in matrices():
        lam = np.linalg.eigvalsh(G) / sd
        def roots(T, lam=lam): return (np.sqrt((lam + T)**2 + 4) - lam - T) / 2
        total = brentq(lambda T, roots=roots: T - roots(T).sum(), 0, roots(0).sum() + 1, xtol=1e-14)
        assert np.allclose(_unbiased_eigenvalues(lam * sd, sd) * sd, roots(total), rtol=1e-5, atol=0)


def test_one_column_by_hand():
    for g, sd in ((2.0, .5), (-1.0, .5), (0.0, 3.0)):
        Q, zeta = unbiased_inverse(np.array([[g]]), sd)
        q = (np.sqrt(g**2 + 8 * sd**2) - g) / (4 * sd**2)  # of 1/q = g + 2 sd^2 q
        assert np.isclose(Q[0, 0], q, rtol=1e-12) and np.isclose(zeta, sd**2 * q**2, rtol=1e-12)


def test_without_noise_the_inverse_is_the_inverse():
    G = ar1(5, .6)
    Q, zeta = unbiased_inverse(G, 0.0)
    assert np.allclose(Q, np.linalg.inv(G), rtol=1e-12) and zeta == 0
    near = unbiased_inverse(G, 1e-7)[0]
    assert np.allclose(near, Q, rtol=1e-10) and not np.array_equal(near, Q)


def test_a_batch_is_inverted_one_by_one():
    G = 4 * ar1(6, .5) + noise(stream(0, "batch"), 6, 1.0, 10).reshape(2, 5, 6, 6)
    assert np.linalg.eigvalsh(G).min() < 0
    Q, zeta = unbiased_inverse(G, 1.0)
    for i, j in product(range(2), range(5)):
        alone = unbiased_inverse(G[i, j], 1.0)
        assert np.allclose(Q[i, j], alone[0], rtol=1e-9, atol=1e-12) and np.isclose(zeta[i, j], alone[1])


def off(Q, G, bias):
    "Entries of I - E[Q] G less what the formula says they are, in standard errors"
    difference = np.eye(len(G)) - Q @ G - bias
    return np.abs(difference.mean(0) / difference.std(0)).max() * np.sqrt(len(Q))


@pytest.mark.parametrize("ratio", [.3, 3.0])
def test_the_bias_is_what_the_formula_says(ratio):
    "16 entries within 6.7 standard errors: missed by chance in one of 10^9 runs; 10 % less would be seen"
    G = ar1(4, .5)
    sd = np.sqrt(ratio / np.sum(np.linalg.inv(G)**2))
    noisy = G + noise(stream(0, f"bias {ratio}"), 4, sd, 40_000)
    Q, bias = unbiased_inverse(noisy, sd)[0], inverse_bias(noisy, sd)
    assert off(Q, G, bias) < 6.7
    if ratio > 1: assert off(Q, G, .9 * bias) > 6.7
    lam, U = np.linalg.eigh(noisy[:4000])
    scalar = [brentq(lambda w, row=row: w - sd**2 * np.sum(1 / (row + w)),
                     max(0, -row[0]) + 1e-12, 100) for row in lam]
    assert off(symmetric(1 / (lam + np.array(scalar)[:, None]), U), G, bias[:4000]) > 6.7


def test_the_bias_by_hand():
    "Sums over eigenvalues, written out; batches one by one, and nothing without noise"
    noisy = ar1(4, .5) + noise(stream(0, "by hand"), 4, .4, 3)
    found = inverse_bias(noisy, .4)
    for G, bias in zip(noisy, found):
        lam, U = np.linalg.eigh(G)
        q, k = _unbiased_eigenvalues(lam, .4), .16
        c = k * sum(a**2 / (1 + k * a**2) for a in q)
        rho = [a**2 * sum(b**2 / (1 + k * a * b) for b in q) + a**4 / (1 + k * a**2)
               + 2 * a**4 / ((1 + k * a**2)**2 * (1 + c)) for a in q]
        assert np.allclose(bias, k**2 * symmetric(np.array(rho), U))
        assert np.allclose(bias, inverse_bias(G, .4))
    assert (inverse_bias(ar1(3, .5), 0.0) == 0).all()


def test_the_plain_inverse_has_a_bias_that_this_one_has_not():
    G, sd = ar1(20, .5), .04
    noisy = G + noise(stream(0, "plain"), 20, sd, 1000)
    def bias(inverses): return np.linalg.norm(inverses.mean(0) @ G - np.eye(20), 2)
    assert bias(unbiased_inverse(noisy, sd)[0]) < .04 < .2 < bias(np.linalg.inv(noisy))


# ---------------------------------------------------------------- soft thresholds

def risk_at(x, t, sd):
    "Stein's unbiased estimate of the risk of the threshold t"
    return np.sum(sd**2 - 2 * sd**2 * (np.abs(x) <= t) + np.minimum(x**2, t**2))


@pytest.mark.parametrize("nonzero, size", [(0, 0.0), (5, 9.0), (40, 3.0), (100, 8.0)])
def test_no_threshold_has_a_smaller_estimated_risk(nonzero, size):
    sd = 1.7
    rng = stream(0, f"soft {nonzero}")
    truth = np.where(np.arange(100) < nonzero, size, 0.0)
    for x in truth + sd * rng.standard_normal((20, 100)):
        kept, risk = _soft_threshold(x, sd)
        tried = [risk_at(x, t, sd) for t in (0.0, *np.abs(x), *rng.uniform(0, 10, 200))]
        assert np.isclose(risk, min(tried), rtol=1e-12, atol=1e-9)
        alive = kept != 0
        t = (np.abs(x) - np.abs(kept))[alive].max() if alive.any() else np.abs(x).max()
        assert np.allclose(kept, np.sign(x) * np.maximum(np.abs(x) - t, 0))
        assert np.isclose(risk_at(x, t * (1 + 1e-12), sd), risk)


def test_a_batch_is_thresholded_one_by_one():
    x = stream(0, "thresholds").standard_normal((4, 3, 30)) * np.array([.1, 1.0, 4.0])[:, None]
    kept, risk = _soft_threshold(x, 1.0)
    assert (kept[:, 0] == 0).all() and (kept[:, 2] != 0).any()
    for i, j in product(range(4), range(3)):
        alone = _soft_threshold(x[i, j], 1.0)
        assert np.array_equal(kept[i, j], alone[0]) and risk[i, j] == alone[1]


# ---------------------------------------------------------------- a better matrix

def by_hand(G, sd):
    "The better matrix before its eigenvalues are lifted, number of factors, and estimated risk"
    d = len(G)
    above = np.triu_indices(d, 1)
    rest = G - np.diag(np.diag(G))
    lam, U = np.linalg.eigh(rest)
    order = np.argsort(-np.abs(lam))
    edge = 2 * sd * np.sqrt(d)
    tried = {}
    for count in (0, 1, 2, 4):
        which = order[:count]
        if count > d or (np.abs(lam[which]) <= 1.05 * edge).any(): continue
        sizes = np.sign(lam[which]) * np.sqrt(lam[which]**2 - edge**2)
        factors = (U[:, which] * sizes) @ U[:, which].T
        x = (rest - factors)[above]
        t = min((0.0, *np.abs(x)), key=lambda t, x=x: risk_at(x, t, sd))
        soft = np.sign(x) * np.maximum(np.abs(x) - t, 0)
        tried[count] = risk_at(x, t, sd) + 2 * sd**2 * count * d, factors[above] + soft
    best = min(tried, key=lambda count: tried[count][0])
    S = np.zeros((d, d))
    S[above] = tried[best][1]
    level = max(np.diag(G).mean(), sd)
    between = max(((np.diag(G) - level)**2).mean() - 2 * sd**2, 0)
    shrunk = level + between / (between + 2 * sd**2) * (np.diag(G) - level)
    return S + S.T + np.diag(np.maximum(shrunk, .02 * level)), best, tried[best][0]


HALVES = np.kron(1 - np.eye(2), np.ones((15, 15)))  # eigenvalues 15 and -15
TRUTHS = {"independent": (np.eye(30), 0), "AR(.5)": (ar1(30, .5), 0), "equal": (.5 * np.eye(30) + .5, 1),
          "two blocks": (blocks(30, 15, .6), 2), "both signs": (np.eye(30) - .15 * HALVES, 2),
          "four blocks": (blocks(80, 20, .6), 4)}


@pytest.mark.parametrize("name", TRUTHS)
def test_factors_and_threshold_have_the_smallest_risk(name):
    "Against a loop over the numbers of factors; and the number is the one that the truth has"
    truth, factors = TRUTHS[name]
    d, sd = len(truth), .1
    noisy = truth + noise(stream(0, f"denoised {name}"), d, sd, 5)
    lam, U, error = denoised(noisy, sd)
    counts = []
    for G, values, vectors, risk in zip(noisy, lam, U, error):
        S, count, least = by_hand(G, sd)
        counts.append(count)
        own, base = np.linalg.eigh(S)
        lifted = symmetric(np.maximum(own, .02 * np.diag(G).mean()), base)
        assert np.allclose(symmetric(values, vectors), lifted, atol=1e-9)
        assert np.isclose(risk, max(least, 0) / (d * (d - 1) / 2))
    assert np.median(counts) == factors
    left, before = (np.linalg.norm(M - truth, axis=(1, 2)) for M in (symmetric(lam, U), noisy))
    assert (left < .95 * before).all()


def test_the_announced_error_is_that_of_the_entries():
    d, sd = 50, .1
    for truth in (ar1(d, .5), blocks(d, 5, .7)):
        lam, U, error = denoised(truth + noise(stream(0, "error"), d, sd, 60), sd)
        left = (symmetric(lam, U) - truth)[(slice(None), *np.triu_indices(d, 1))]
        assert abs(error.mean() / np.mean(left**2) - 1) < .15 and np.mean(left**2) < .7 * sd**2


def test_a_batch_is_denoised_one_by_one_in_any_order_of_columns():
    noisy = 3 * blocks(12, 6, .5) + noise(stream(0, "one by one"), 12, .3, 6).reshape(3, 2, 12, 12)
    order = np.random.default_rng(0).permutation(12)
    lam, U, error = denoised(noisy, .3)
    for i, j in product(range(3), range(2)):
        G = noisy[i, j]
        for those in (slice(None), order):
            values, vectors, risk = denoised(G[those][:, those], .3)
            S = symmetric(lam[i, j], U[i, j])[those][:, those]
            assert np.allclose(symmetric(values, vectors), S, atol=1e-9) and np.isclose(risk, error[i, j])


def test_the_better_matrix_is_positive_definite_whatever_the_noise():
    rng = stream(0, "definite")
    for d, size in product((1, 2, 3, 20), (0.0, .1, 1.0)):
        noisy = size * np.eye(d) + noise(rng, d, 1.0, 50)
        lam, U, error = denoised(noisy, 1.0)
        level = np.maximum(np.diagonal(noisy, axis1=1, axis2=2).mean(1), 1.0)
        assert (lam >= .02 * level[:, None] * (1 - 1e-12)).all() and (error >= 0).all()
        assert np.isfinite(U).all()


# ---------------------------------------------------------------- a start

def tau2_of(lam, c, noise, variance, error):
    "The root of the weighted sum of c^2 - lam^2 tau^2 - o, or 0"
    def excess(tau2):
        o = noise + variance * lam + error * tau2 * len(lam)
        return np.sum((c**2 - o - lam**2 * tau2) * lam**2 / o**2)
    return brentq(excess, 0, 1e6) if excess(0) > 0 else 0.0


@pytest.mark.parametrize("noise, variance, error", [(40.0, 0.0, 0.0), (1.0, 2.0, 0.0), (40.0, 1.0, 300.0)])
def test_a_ridge_is_a_posterior_mean(noise, variance, error):
    "In matrices instead of eigenvalues, with the tau^2 of a root finder"
    rng = stream(0, f"ridge {noise} {error}")
    S = 50 * ar1(8, .6)
    lam, U = np.linalg.eigh(S)
    b = S @ rng.standard_normal((5, 8, 1))
    b = b[..., 0] + rng.standard_normal((5, 8)) * np.sqrt(noise)
    found, left = ridge((lam, U), b, noise, variance, error)
    for k in range(5):
        tau2 = tau2_of(lam, U.T @ b[k], noise, variance, error)
        O = (noise + error * tau2 * 8) * np.eye(8) + variance * S
        middle = np.linalg.inv(tau2 * S @ S + O)
        assert .01 < tau2 and np.allclose(found[k], tau2 * S @ middle @ b[k], rtol=1e-4, atol=1e-6)
        assert np.isclose(left[k], np.trace(tau2 * np.eye(8) - tau2**2 * S @ middle @ S), rtol=1e-4)


def test_products_that_are_noise_start_nowhere_and_exact_ones_at_least_squares():
    S = 100 * ar1(6, .5)
    eigen = np.linalg.eigh(S)
    quiet, left = ridge(eigen, np.full(6, 1.0), 10.0, 0.0, 0.0)
    assert (quiet == 0).all() and left == 0
    truth = np.array([1.0, -2, 0, 3, 0, .5])
    found, left = ridge(eigen, S @ truth, 1e-10, 0.0, 0.0)
    assert np.allclose(found, truth, rtol=1e-8) and left < 1e-10


@pytest.mark.parametrize("size", [.05, .3, 2.0])
def test_the_error_of_a_start_is_the_one_that_is_announced(size):
    G = 500 * ar1(30, .5)
    rng = stream(0, f"announced {size}")
    theta = size * rng.standard_normal((3000, 30))
    products = theta @ G + rng.standard_normal((3000, 30)) @ np.linalg.cholesky(G + 40 * np.eye(30)).T
    found, left = ridge(np.linalg.eigh(G), products, 40.0, 1.0, 0.0)
    errors = ((found - theta)**2).sum(1)
    assert abs(left.mean() / errors.mean() - 1) < (.1 if size > .1 else .2)
    assert errors.mean() < .9 * (theta**2).sum(1).mean()


def test_a_batch_of_starts_is_found_one_by_one():
    rng = stream(0, "starts")
    G = 50 * ar1(5, .5) + noise(rng, 5, 1.0, 4)
    lam, U = np.linalg.eigh(G)
    b, v, s = rng.standard_normal((4, 5)) * 60, np.array([1.0, 30, 100, 3e5]), np.array([0.0, 1, 2, 3])
    found, left = ridge((lam, U), b, v, s, .1 * v)
    for k in range(4):
        alone = ridge((lam[k], U[k]), b[k], v[k], s[k], .1 * v[k])
        assert np.allclose(found[k], alone[0], rtol=1e-12) and np.isclose(left[k], alone[1], rtol=1e-12)
    assert (found[3] == 0).all() and (found[0] != 0).all()
