"Method II: noise on coefficients, its scale, and what it refuses."

import numpy as np
import pytest

from dp_knockoff.core.testing import refusal
from dp_knockoff.evidence.simulation import simulated_moments
from dp_knockoff.filters.methods import ask, knockoff_filter
from dp_knockoff.knockoffs.fixed_x import knockoffs_of
from dp_knockoff.knockoffs.statistics import Statistic, csm, lcd, ols, ridge
from dp_knockoff.paper.one_and_two import BOUNDS_TWO, MethodTwo
from dp_knockoff.paper.sensitivity import Facts, coefficients_shift, coupled_shift, facts, ridge_shift, zeta
from dp_knockoff.privacy.mechanisms import Budget, analytic_gaussian_scale, gaussian_divergence
from watched import Recorder, Silent

BETA = np.where(np.arange(12) < 6, 4.5, 0.0)
BIG = simulated_moments(200_000, BETA, random_state=0)
BETA_NORM = float(np.linalg.norm(BETA))
PUBLIC = dict(epsilon=.5, delta=1e-3, row_bound=BIG.row_norm, sigma=1.0, beta_norm=BETA_NORM)


@pytest.mark.parametrize("bounds", BOUNDS_TWO)
def test_method_two_finds_signals(bounds):
    public = PUBLIC | dict(delta=.5 if bounds == "paper" else 1e-3)
    chosen = ask("two", BIG, **public, bounds=bounds, simulation=True, random_state=0)
    assert set(range(6)) <= set(np.flatnonzero(chosen.support)) and (chosen.signs[:6] == 1).all()


def test_the_papers_budget_split():
    "The paper: all of epsilon for the coefficients; delta in halves"
    m = simulated_moments(10**5, np.zeros(50), random_state=0)
    f, half = facts(m, m.row_norm), 50 / 10**5
    public = dict(epsilon=.2, delta=2 * half, row_bound=m.row_norm, sigma=1.0, beta_norm=2.0)
    scale = MethodTwo(**public, bounds="paper").scales(f, 1.0, 2.0)["coefficients"]
    shift = coefficients_shift(f, zeta(50, 1.0, half, "paper"), 2.0, "paper")
    assert np.isclose(scale, np.sqrt(2 * np.log(1.25 / half)) / .2 * shift)


def test_shares_of_the_budget_go_where_they_should():
    m = simulated_moments(10**6, BETA, random_state=0)
    f = facts(m, m.row_norm)
    def scale(**options):
        method = MethodTwo(epsilon=.8, delta=.01, row_bound=m.row_norm, sigma=2.0, beta_norm=3.0,
                           delta_split=(.2, .8), **options)
        return method.scales(f, 2.0, 3.0)["coefficients"]
    budget, tail = Budget(.8, .002), zeta(12, 2.0, .008)
    shifts = {
        "coupled": (dict(bounds="coupled", beta_max=1.0), coupled_shift(f, 2.0, .008, 3.0, 1.0)),
        "tight": (dict(bounds="tight", beta_max=1.0), coefficients_shift(f, tail, 3.0, "tight", 1.0)),
        "corrected": (dict(), coefficients_shift(f, tail, 3.0, "corrected")),
        "ridge": (dict(ridge_penalty=.3), ridge_shift(f, tail, 3.0, .3)),
        "tight ridge": (dict(ridge_penalty=.3, bounds="tight"), ridge_shift(f, tail, 3.0, .3, "tight")),
    }
    for name, (options, shift) in shifts.items():
        assert np.isclose(scale(**options), analytic_gaussian_scale(shift, budget)), name


def test_noise_is_drawn_once_and_with_its_scale():
    sampler = Recorder(1)
    chosen = ask("two", BIG, **PUBLIC, sampler=sampler, random_state=4)
    (purpose, value, scale), = sampler.draws
    assert purpose == "coefficients" and scale == chosen.noise["coefficients"]
    k = knockoffs_of(BIG, intercept=False)
    assert np.allclose(value, ols(k.G, k.products(4)))


def test_the_pair_is_the_identity_and_noisy_coefficients():
    release = MethodTwo(**PUBLIC).release(BIG, simulation=True, random_state=3)
    A, b = release.pair()
    assert (A == np.eye(24)).all()
    for contrast in (csm, lcd):
        statistic = Statistic("ols", contrast.__name__)
        W = ask("two", BIG, **PUBLIC, statistic=statistic, simulation=True, random_state=3).W
        assert np.allclose(W, contrast(b))


def test_without_noise_method_two_is_the_plain_filter():
    plain = knockoff_filter(BIG, s="lam_min", intercept=False, random_state=4)
    private = ask("two", BIG, **PUBLIC, sampler=Silent(), random_state=4)
    assert np.allclose(private.W, plain.W, rtol=1e-8) and (private.signs == plain.signs).all()


def test_the_ridge_version_releases_ridge_coefficients():
    k = knockoffs_of(BIG, intercept=False)
    W = ask("two", BIG, **PUBLIC, ridge_penalty=.3, sampler=Silent(), random_state=4).W
    assert np.allclose(W, csm(ridge(k.G, k.products(4), .3)))


# ---------------------------------------------------------------- refusals

@pytest.mark.parametrize("bad, words", [
    (dict(bounds="paper", ridge_penalty=.1), "omits the bias"),
    (dict(bounds="coupled", ridge_penalty=.1), "no coupled"),
    (dict(ridge_penalty=-1), "ridge_penalty=-1"), (dict(beta_max=-1, bounds="tight"), "beta_max=-1"),
    (dict(beta_max=1.0), "is not used by bounds='corrected'"),
    (dict(beta_max=1.0, bounds="paper"), "is not used by bounds='paper'"),
    (dict(beta_max=1.0, bounds="tight", ridge_penalty=.1), "not used by the ridge version"),
    (dict(delta_split=(1/3, 1/3, 1/3)), "2 positive shares"), (dict(bounds="loose"), "bounds='loose'"),
], ids=str)
def test_method_two_refuses_without_data(bad, words): assert words in refusal(MethodTwo, **PUBLIC, **bad)


def own(A, b): return csm(b)


OTHERS = [Statistic("lasso", "lcd", 1.0), Statistic("ridge", "csm", 1.0), Statistic("path"), own]


@pytest.mark.parametrize("statistic", OTHERS, ids=["lasso", "ridge", "path", "own"])
def test_only_least_squares_has_a_meaning(statistic):
    assert "least-squares coefficients" in refusal(ask, "two", BIG, **PUBLIC, statistic=statistic)


@pytest.mark.parametrize("bounds", BOUNDS_TWO)
def test_where_the_signal_decides_the_mechanisms_share_is_used_up(bounds):
    "One long coefficient in the shortest column, whose norm moves as far as it can"
    C, beta = 40.0, 1e7
    f = Facts(10**5, 10, 1.0, C, C, .9, 1.1, np.sqrt(10.2), 1e4, 2e3)
    method = MethodTwo(epsilon=.5, delta=.4, row_bound=1.0, sigma=1.0, beta_norm=beta, bounds=bounds)
    kappa = method.scales(f, 1.0, beta)["coefficients"]
    spent = [gaussian_divergence(.5, beta * (C - np.sqrt(C**2 - 1)) / (kappa * less)) for less in (1, .99)]
    assert spent[0] <= .2
    if bounds != "paper": assert .2 * .99 < spent[0] and .2 < spent[1]
