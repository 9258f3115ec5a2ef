"Answers before any data is touched: the planned size is right, and more budget never looks worse."
from dataclasses import replace

import numpy as np
import pytest

from dp_knockoff.clip import Clip
from dp_knockoff.estimate import CANONICAL, canonical
from dp_knockoff.mechanisms import Budget, analytic_ratio
from dp_knockoff.moments import MOST_ROWS
from dp_knockoff.planning import outlook, plan, plan_warnings
from dp_knockoff.private_moments import Units
from dp_knockoff.randomness import stream
from dp_knockoff.rounds import BALANCE, CHECK
from dp_knockoff.simulation import Experiment, simulate
from dp_knockoff.testing import refusal
from dp_knockoff.threshold import error_rates, knockoff_threshold

SMALL = Experiment(p=8, k=4, bounds="corrected", epsilon=1., delta=.01)


def test_plan_finds_the_size():
    e = replace(SMALL, k=6, bounds="coupled")
    found = plan(e, "two", power=.7, trials=200, seed=0)
    assert found.low <= found.n <= found.high
    assert abs(simulate(e, [found.n], ["two"], trials=1500, seed=9)[0].power - .7) < .08
    assert found.point == simulate(e, [found.n], ["two"], trials=200, seed=0)[0]


def test_plan_for_the_moments_filter():
    e = replace(SMALL, k=6, delta=1e-4)
    found = plan(e, "moments", power=.7, trials=100, seed=0)
    assert abs(simulate(e, [found.n], ["moments"], trials=500, seed=9)[0].power - .7) < .12


def test_plan_says_what_is_in_the_way():
    assert "raise fdr" in plan_warnings(Experiment(k=4))[0]
    assert "correlation will cost power" in plan_warnings(Experiment(rho=.9))[0]
    assert plan_warnings(Experiment(k=5)) == plan_warnings(Experiment()) == ()
    assert "is not reached" in refusal(plan, replace(SMALL, k=1), "none", most=1000)


def test_a_plan_for_the_moments_filter_ends_where_its_sums_do():
    "Never asked for more rows than it takes"
    hopeless = replace(SMALL, k=1, fdr=.05, epsilon=1e-3, delta=1e-9)
    assert f"is not reached at n={MOST_ROWS:,}" in refusal(plan, hopeless, "moments", trials=5)


@pytest.mark.parametrize("bad, words", [
    (dict(power=1.2), "power=1.2"), (dict(method="three"), "method='three'"), (dict(trials=0), "trials=0"),
])
def test_plan_refuses(bad, words): assert words in refusal(plan, SMALL, **bad)


def test_outlook_orders_budgets():
    clip = Clip(5.0, 10.0)
    powers = [outlook(20_000, 50, clip, Budget(e, 1e-4), trials=30).power for e in (.02, .3, 3.0)]
    assert powers[0] < .2 and powers[0] <= powers[1] <= powers[2] and powers[2] > .95


def test_outlook_is_the_filter_in_an_orthogonal_world():
    "Trial by trial through the canonical form, with the same random numbers"
    p, k, n = 12, 6, 3000
    clip, budget = Clip(2.0, 5.0, intercept=False), Budget(.2, 1e-3)
    seen = outlook(n, p, clip, budget, signals=k, trials=20, random_state=3)
    w2 = 4 / p
    spread = 5 / 2.5 / np.sqrt(w2)
    size = spread * np.sqrt(.5 / k)
    _, gram_sd, product_sd, _ = Units(clip, BALANCE).noise(analytic_ratio(budget) * np.sqrt(1 - CHECK))
    lam = n * w2
    zeta = p * (gram_sd / lam)**2
    v = spread**2 * .5 / n + (product_sd**2 + gram_sd**2 * k * size**2) / lam**2 / (1 - zeta)
    assert np.allclose([seen.gram_noise, seen.product_noise, seen.zeta, seen.effect],
                       [gram_sd / lam, product_sd / (lam * size), zeta, size / np.sqrt(v)])
    rng, found = stream(3, "outlook"), []
    beta = np.where(np.arange(p) < k, size, 0)
    for _ in range(20):
        W = CANONICAL(*canonical(beta + np.sqrt(v) * rng.standard_normal(p), v * np.eye(p), "mvr", rng))
        found.append(error_rates(W >= knockoff_threshold(W, .2), beta)[1])
    assert 0 < seen.power < 1 and np.isclose(seen.power, np.mean(found))


def test_outlook_is_hopeless_where_the_gram_matrix_is_noise():
    seen = outlook(200, 50, Clip(5.0, 10.0), Budget(.01, 1e-6))
    assert seen.zeta > 1 and seen.power == 0
    wide = outlook(10**6, 300, Clip(10.0, 10.0), Budget(1.0, 1e-6), trials=5)
    assert wide.power > .9
