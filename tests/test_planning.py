"Answers before any data is touched: the planned size is right, and more budget never looks worse."
from dataclasses import replace

import numpy as np
import pytest

from dp_knockoff.clip import Clip
from dp_knockoff.mechanisms import Budget, analytic_ratio
from dp_knockoff.method_moments import moments_filter
from dp_knockoff.moments import MOST_ROWS
from dp_knockoff.normal_tests import bh_threshold
from dp_knockoff.planning import outlook, plan, plan_warnings
from dp_knockoff.private_moments import BALANCE, Units, moment_shares
from dp_knockoff.randomness import stream
from dp_knockoff.simulation import Experiment, World, normal_scores, release_worlds, simulate
from dp_knockoff.testing import refusal
from dp_knockoff.threshold import error_rates

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
    hopeless = replace(SMALL, k=1, amplitude=1e-4, epsilon=1e-3, delta=1e-9)
    assert f"is not reached at n={MOST_ROWS:,}" in refusal(plan, hopeless, "moments", trials=5)


@pytest.mark.parametrize("bad, words", [
    (dict(power=1.2), "power=1.2"), (dict(method="three"), "method='three'"), (dict(trials=0), "trials=0"),
])
def test_plan_refuses(bad, words): assert words in refusal(plan, SMALL, **bad)


def test_outlook_orders_budgets():
    clip = Clip(5.0, 10.0)
    powers = [outlook(20_000, 50, clip, Budget(e, 1e-4), trials=30).power for e in (.02, .3, 3.0)]
    assert powers[0] < .2 and powers[0] <= powers[1] <= powers[2] and powers[2] > .95


@pytest.mark.parametrize("rounds", [1, 4])
def test_outlook_is_the_filter_in_an_orthogonal_world(rounds):
    "Its releases, with the same random numbers, read by the Benjamini-Hochberg rule one by one"
    p, k, n = 12, 6, 3000
    clip, budget = Clip(2.0, 5.0, intercept=False), Budget(.2, 1e-3)
    seen = outlook(n, p, clip, budget, signals=k, rounds=rounds, trials=20, random_state=3)
    w2 = 4 / p
    spread = 5 / 2.5 / np.sqrt(w2)
    size = spread * np.sqrt(.5 / k)
    first = analytic_ratio(budget) * np.sqrt(moment_shares(rounds)[0])
    _, gram_sd, product_sd, _ = Units(clip, BALANCE).noise(first)
    lam = n * w2
    assert np.allclose([seen.gram_noise, seen.product_noise, seen.zeta],
                       [gram_sd / lam, product_sd / (lam * size), p * (gram_sd / lam)**2])
    beta = np.tile(np.where(np.arange(p) < k, size, 0), (20, 1))
    gram = np.tile(lam * np.eye(p), (20, 1, 1))
    world = World(n, gram, beta, spread * np.sqrt(.5), w2, w2 * np.eye(p))
    z = np.abs(normal_scores(release_worlds(world, clip, budget, stream(3, "outlook"), rounds)))
    found = [error_rates(one >= bh_threshold(one, .2), beta[0])[1] for one in z]
    assert 0 < seen.power < 1 and np.isclose(seen.power, np.mean(found))
    assert np.isclose(seen.effect, z[:, :k].mean())


@pytest.mark.parametrize("rounds", [1, 4])
def test_outlook_is_what_a_user_gets(rounds):
    "Power and sizes of effects of the filter on rows of the world that was promised"
    n, p, k = 1500, 12, 6
    clip, budget = Clip(2.5, 4.0), Budget(.7, 1e-4)
    seen = outlook(n, p, clip, budget, signals=k, rounds=rounds, trials=100)
    w2 = clip.design_bound**2 / (p + clip.one**2)
    spread = 4 / 2.5 / np.sqrt(w2)
    beta = np.where(np.arange(p) < k, spread * np.sqrt(.5 / k), 0)
    powers, sizes = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, p))
        y = X @ beta + spread * np.sqrt(.5) * rng.standard_normal(n)
        found = moments_filter(X, y, epsilon=.7, delta=1e-4, row_bound=2.5, response_bound=4.0, rounds=rounds,
                               simulation=True, random_state=rng)
        powers.append(error_rates(found.support, beta)[1])
        sizes.append(found.W[:k].mean())
    assert abs(seen.power - np.mean(powers)) < .1 and .2 < seen.power < .99
    assert abs(seen.effect / np.mean(sizes) - 1) < .12


def test_more_rounds_promise_more_where_signals_explain_most():
    clip, budget = Clip(5.0, 10.0), Budget(.3, 1e-4)
    one, four = (outlook(20_000, 50, clip, budget, share=.95, rounds=rounds, trials=20) for rounds in (1, 4))
    assert four.effect > 1.5 * one.effect and four.power >= one.power
    assert four == outlook(20_000, 50, clip, budget, share=.95, trials=20)


def test_outlook_is_hopeless_where_the_gram_matrix_is_noise():
    seen = outlook(200, 50, Clip(5.0, 10.0), Budget(.01, 1e-6))
    assert seen.zeta > 1 and seen.power == 0
    wide = outlook(10**6, 300, Clip(10.0, 10.0), Budget(1.0, 1e-6), trials=5)
    assert wide.power > .9
