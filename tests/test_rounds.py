"Rounds: the budget counted draw by draw, residuals that are residuals, and bounds that fit them."
import numpy as np
import pytest

from dp_knockoff.clip import BITS, Clip
from dp_knockoff.estimate import PrivateMoments
from dp_knockoff.mechanisms import Budget, analytic_ratio
from dp_knockoff.method_moments import MomentsMethod
from dp_knockoff.models import linear_model
from dp_knockoff.moments import Moments
from dp_knockoff.private_moments import Units, joint_sensitivity
from dp_knockoff.rounds import BALANCE, CHECK, FIRST, SEARCH, next_clip, release_rounds
from watched import Recorder, Silent

PUBLIC = dict(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=5.0)
BALANCE_ROUNDS = 2.0  # the default of several rounds
X, Y, BETA = linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


# ---------------------------------------------------------------- the budget

STEPS = 2.0**BITS  # in a bound
ROW = 2**20        # steps in a count of one


def vector_scale(purpose, scale, balance):
    "Standard deviation of a draw in the units of its sensitivity, from the deviations in steps"
    if purpose == "moments": return np.sqrt(2) * scale[0] / STEPS**2
    if "residuals" in purpose: return scale[0] / STEPS**2 / balance
    return scale / ROW

@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("private", [False, True])
def test_the_budget_is_spent_exactly_once(rounds, private):
    "The squares of sensitivity over noise add up to mu^2, draw by draw"
    sampler = Recorder()
    bounds = dict(row_bound="private", response_bound="private") if private else {}
    r = MomentsMethod(**PUBLIC | bounds, rounds=rounds).release(X, Y, sampler=sampler)
    balance = BALANCE if rounds == 1 else BALANCE_ROUNDS
    first = Units(r.clip, balance).sensitivity
    later = Units(r.clip, BALANCE_ROUNDS, gram=False).sensitivity
    sensitivity = {"moments": first, "clamped responses": 1.0}
    def moved(purpose): return 1.0 if "probe" in purpose else sensitivity.get(purpose, later)
    ratios = [moved(purpose) / vector_scale(purpose, scale, balance) for purpose, _, scale in sampler.draws]
    spent = np.sum(np.square(ratios))
    allowed = analytic_ratio(Budget(1.0, 1e-3))**2
    least = .8 if private else 1 - 1e-9  # a search may stop early
    assert least * allowed < spent <= allowed * (1 + 1e-9)
    assert len({purpose for purpose, *_ in sampler.draws}) == len(sampler.draws)
    assert r.rounds == rounds and (np.any(r.start) == (rounds > 1))


def test_shares():
    sampler = Recorder()
    method = MomentsMethod(epsilon=.7, delta=1e-4, rounds=3, row_bound="private", response_bound=5.0)
    method.release(X, Y, sampler=sampler)
    mu2 = analytic_ratio(Budget(.7, 1e-4))**2
    scales = {purpose: vector_scale(purpose, scale, BALANCE_ROUNDS) for purpose, _, scale in sampler.draws}
    probes = [scale for purpose, scale in scales.items() if "probe" in purpose]
    assert all(np.isclose(scale, np.sqrt(8 / (mu2 * SEARCH))) for scale in probes) and len(probes) <= 8
    main = mu2 * (1 - SEARCH)
    assert np.isclose(scales["clamped responses"], 1 / np.sqrt(main * CHECK))
    assert np.isclose(scales["moments"], joint_sensitivity(1, 1 / 4) / np.sqrt(main * FIRST))
    assert np.isclose(scales["residuals 1"], 1.0 / np.sqrt(main * (1 - FIRST - CHECK) / 2))
    assert scales["residuals 2"] == scales["residuals 1"] and (CHECK, FIRST, SEARCH) == (.01, .7, .1)


@pytest.mark.parametrize("rounds, expected", [(1, BALANCE), (3, BALANCE_ROUNDS)])
def test_balances(rounds, expected):
    def scales(balance):
        method = MomentsMethod(**PUBLIC, rounds=rounds, balance=balance)
        r = method.release(X, Y, simulation=True, random_state=0)
        return r.gram_sd, r.product_sd, r.square_sd
    assert scales(None) == scales(expected) and scales(1.1) != scales(expected)
    assert scales(1.1)[0] > scales(expected)[0]


# ---------------------------------------------------------------- what is released

def test_residual_round_sees_residuals():
    "What leaves in the second round are products with clamped residuals of scaled rows"
    sampler = Recorder()
    r = MomentsMethod(**PUBLIC, rounds=2, intercept=False).release(X, Y, sampler=sampler)
    w = np.minimum(1, 2.0 / np.linalg.norm(X, axis=1))
    bound = r.clip.response_bound
    residual = np.clip(w * Y - (X * w[:, None]) @ r.start, -bound, bound)
    packed = {purpose: value for purpose, value, _ in sampler.draws}["residuals 1"]
    step = 2.0 * bound / STEPS**2
    assert np.allclose(packed[:-1] * step, (X * w[:, None]).T @ residual, rtol=1e-4) and bound < 5.0


def test_the_count_is_that_of_the_last_round():
    for rounds in (1, 3):
        sampler = Recorder()
        r = MomentsMethod(**PUBLIC, rounds=rounds).release(X, Y, sampler=sampler)
        purpose, value, scale = sampler.draws[-1]
        assert purpose == "clamped responses" and value == ROW * Moments.from_data(X, Y, clip=r.clip).cut[1]
        assert np.isclose(r.clamped_sd * ROW, scale) and r.clamped != value / ROW
        assert abs(r.clamped - value / ROW) < 6 * r.clamped_sd


def test_without_noise_any_number_of_rounds_finds_least_squares():
    def source(clip): return Moments.from_data(X, Y, clip=clip)
    exact = np.linalg.lstsq(X, Y, rcond=None)[0]
    for rounds in (1, 2, 3):
        clip = Clip(100.0, 100.0, intercept=False)
        r = release_rounds(source, clip, Budget(1.0, .1), 1e9, rounds, None, Silent())
        assert np.allclose(r.estimate().beta, exact, rtol=1e-3, atol=1e-3) and r.clamped < 60


def test_rounds_bring_the_noise_down_where_signals_explain_most():
    X, y, _ = linear_model(4000, p=6, k=3, amplitude=8.0, random_state=0)
    public = dict(epsilon=2.0, delta=1e-3, row_bound=2.0, response_bound=25.0)
    sds = []
    for rounds in (1, 3):
        release = MomentsMethod(**public, rounds=rounds).release(X, y, simulation=True, random_state=0)
        e = release.estimate(sigma=1.0)
        sds.append(np.sqrt(np.trace(e.V)))
    assert sds[1] < .6 * sds[0]


# ---------------------------------------------------------------- the next bound

def after(product_sd, trials=200, response_bound=100.0, start=()):
    "Releases with this much noise on the products and none elsewhere, their estimates and next clips"
    rng = np.random.default_rng(0)
    clip = Clip(1e6, response_bound, intercept=False, start=start)
    rest = Y - X @ start if start else Y
    for _ in range(trials):
        products = X.T @ rest + product_sd * rng.standard_normal(6)
        moments = X.T @ X, products, float(rest @ rest), 1e-6, product_sd, 1.0
        r = PrivateMoments(3000, tuple("abcdef"), clip, Budget(1, .1), *moments, 0, 1, 1, "", True, 1, ())
        e = r.estimate(sigma=1.0)
        yield r, e, next_clip(r, e)


@pytest.mark.parametrize("product_sd", [1, 300, 1000, 2000, 5000, 15_000])
def test_the_next_bound_is_three_standard_deviations_of_the_next_residuals(product_sd):
    "Whether little or much of the estimate is noise: never below, and not by more than a sixth above"
    found = [(c.response_bound**2, np.mean((Y - X @ c.start)**2)) for _, _, c in after(product_sd)]
    bound2, residual2 = np.mean(found, axis=0)
    assert 2.95 < np.sqrt(bound2 / residual2) < 3.5


@pytest.mark.parametrize("product_sd", [1000, 2000])
def test_a_start_that_is_shrunk_is_closer_to_the_truth(product_sd):
    "Closer than the estimate itself, and than nothing"
    errors = [[np.sum((b - BETA)**2) for b in (c.start, e.beta, 0 * BETA)] for _, e, c in after(product_sd)]
    shrunk, whole, nothing = np.mean(errors, axis=0)
    assert shrunk < .85 * whole and shrunk < nothing


def test_nothing_but_noise_is_not_subtracted():
    starts = [np.linalg.norm(c.start) / np.linalg.norm(e.beta) for _, e, c in after(10**6)]
    assert np.median(starts) < .15
    (_, _, precise), = after(1e-3, 1)
    assert np.allclose(precise.start, np.linalg.lstsq(X, Y, rcond=None)[0], rtol=.01)


def test_a_start_is_added_to_the_start_before():
    first = (.5, .5, 0.0, 0.0, .5, 0.0)
    (_, e, c), = after(1e-3, 1, start=first)
    kept = e.size2 / (e.size2 + np.trace(e.V))
    assert np.allclose(c.start, np.add(first, kept * e.theta)) and np.allclose(c.start, BETA, atol=.1)


def test_bounds_only_come_down_and_not_to_nothing():
    assert {c.response_bound for _, _, c in after(5000, 20, response_bound=2.0)} == {2.0}
    assert {c.response_bound for _, _, c in after(1, 5, response_bound=1e4)} == {.01 * 1e4}
    for _, _, c in after(1, 1): assert (c.row_bound, c.intercept) == (1e6, False)
