"Threshold (8): the definition, and the error rates it bounds."
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.testing import assert_rate_at_most, refusal
from dp_knockoff.knockoffs.threshold import (
    _any_fails,
    _most_heads,
    check_fdr,
    e_values,
    ebh_threshold,
    error_rates,
    knockoff_threshold,
    open_threshold,
    sign_bounds,
    true_discoveries,
)

RATES = st.sampled_from([.05, .1, .2, .3, .5])


@given(st.lists(st.integers(-4, 8), min_size=1, max_size=30), RATES, st.sampled_from([0, 1]))
def test_threshold_is_the_definition(W, q, offset):
    W = np.array(W, float)
    def proportion(t): return (offset + (W <= -t).sum()) / max((W >= t).sum(), 1)
    allowed = [t for t in set(np.abs(W)) - {0} if proportion(t) <= q]
    assert knockoff_threshold(W, q, offset) == min(allowed, default=np.inf)


@given(st.integers(0, 2**32 - 1), RATES, st.sampled_from([0, 1]))
def test_a_batch_is_its_rows(seed, q, offset):
    W = np.random.default_rng(seed).integers(-3, 9, (2, 3, 12)).astype(float)
    T = knockoff_threshold(W, q, offset)
    assert T.shape == (2, 3)
    assert (T == [[knockoff_threshold(w, q, offset) for w in row] for row in W]).all()


def test_nothing_qualifies_without_statistics_above_zero():
    assert knockoff_threshold(np.zeros(5), .2) == knockoff_threshold(-np.ones(5), .9, 0) == np.inf


@pytest.mark.parametrize("q", [.1, .2, .35])
def test_fair_null_signs_keep_the_rate_whatever_the_magnitudes(q):
    "All 2^10 signs of ten nulls among fifteen signals, so that expectations are exact"
    rng = np.random.default_rng(0)
    signs = np.array(list(product([-1, 1], repeat=10)))
    worst = {0: 0.0, 1: 0.0}
    for _ in range(30):
        size = rng.permutation(25) + 1.0
        W = np.hstack([size[:10] * signs, np.tile(size[10:], (1024, 1))])
        for offset in (0, 1):
            chosen = W >= knockoff_threshold(W, q, offset)[:, None]
            false, found = chosen[:, :10].sum(1), chosen.sum(1)
            rate = np.mean(false / np.maximum(found, 1) if offset else false / (found + 1 / q))
            worst[offset] = max(worst[offset], rate)
    assert max(worst.values()) <= q and min(worst.values()) > .6 * q


def situations(p, kinds):
    "All words over signal, null up, null down, signal the wrong way; and the number of each one's situation"
    word = np.indices((kinds,) * p).reshape(p, -1).T
    return word, np.where(word == 3, 2, np.minimum(word, 1)) @ 3 ** np.arange(p)


def exact_means(x, word, situation):
    "Means over all null signs, one for each situation"
    nulls = ((word == 1) | (word == 2)).sum(1)
    return [np.bincount(situation, y * .5**nulls, 3 ** word.shape[1]) for y in (x, nulls)]


@pytest.mark.parametrize("size", [[1, 2, 3, 4, 5, 6], [1, 1, 2, 2, 3, 3], [1] * 6, [1, 1, 1, 2, 2, 2]])
@pytest.mark.parametrize("q", [.17, .34, .5, .8])
def test_the_rate_is_kept_in_every_situation_of_six_variables(size, q):
    "Signals of either sign anywhere, ties: exact, with the mean of the ratio that the proof follows"
    word, situation = situations(6, 4)
    W = np.where(word < 2, 1.0, -1.0) * size
    T = knockoff_threshold(W, q)[:, None]
    above, below = ((word == 1) & (W >= T)).sum(1), ((word == 2) & (W <= -T)).sum(1)
    rates, nulls = exact_means(above / np.maximum((W >= T).sum(1), 1), word, situation)
    ratios, _ = exact_means(above / (1 + below), word, situation)
    most = 1 - 2.0**-nulls
    assert (rates <= q * most + 1e-12).all() and (ratios <= most + 1e-12).all() and ratios.max() > .4
    T = knockoff_threshold(W, q, offset=0)[:, None]
    false, found = ((word == 1) & (W >= T)).sum(1), (W >= T).sum(1)
    assert exact_means(false / (found + 1 / q), word, situation)[0].max() <= q + 1e-12


@pytest.mark.parametrize("q", [.2, .5])
def test_wrong_directions_are_no_more_than_nulls(q):
    "Coins of at most one half, unlike each other: exactly"
    rng = np.random.default_rng(0)
    signs = np.array(list(product([1.0, -1.0], repeat=8)))
    fair, tilted = [], []
    for _ in range(40):
        size, chance = rng.permutation(12) + 1.0, .5 * rng.random(8)
        W = np.hstack([signs * size[:8], np.tile(size[8:], (256, 1))])
        chosen = W >= knockoff_threshold(W, q)[:, None]
        share = chosen[:, :8].sum(1) / np.maximum(chosen.sum(1), 1)
        for chances, rates in ((np.full(8, .5), fair), (chance, tilted)):
            rates.append(np.where(signs > 0, chances, 1 - chances).prod(1) @ share)
    assert max(fair) <= q and max(tilted) <= q and max(fair) > .5 * q


def test_without_the_offset_the_rate_itself_is_not_kept():
    W = np.array(list(product([-1, 1], repeat=3))) * np.arange(1, 4.0)
    chosen = W >= knockoff_threshold(W, .2, 0)[:, None]
    assert np.mean(chosen.any(1)) > .4 and not (W >= knockoff_threshold(W, .2, 1)[:, None]).any()


@pytest.mark.parametrize("W", [[], [np.nan, 1], 3.0, np.zeros((2, 0))], ids=str)
def test_what_is_no_list_of_statistics(W):
    assert "pass one number per variable" in refusal(knockoff_threshold, W, .2)


def test_bad_rates_and_offsets():
    assert "fdr=0" in refusal(knockoff_threshold, [1.0], 0) and "fdr=2" in refusal(check_fdr, 2)
    assert "offset=2" in refusal(knockoff_threshold, [1.0], .2, 2) and check_fdr(.1) == .1


def test_error_rates():
    support, beta = np.array([[1, 1, 0, 0], [0, 0, 0, 0]], bool), np.array([1, 0, 2, 0])
    fdp, power = error_rates(support, beta)
    assert fdp.tolist() == [.5, 0] and power.tolist() == [.5, 0]
    fdp, power = error_rates(support, np.array([[0, 0, 0, 0], beta]))
    assert fdp.tolist() == [1, 0] and power.tolist() == [0, 0]


# ---------------------------------------------------------------- e-values

@given(st.integers(0, 2**32 - 1), st.integers(1, 30), RATES)
def test_e_values_are_the_definition(seed, p, q):
    W = np.random.default_rng(seed).normal(.7, 1, (3, p))
    for row, e in zip(W, e_values(W, q)):
        T = knockoff_threshold(row, q)
        assert np.allclose(e, [p * (w >= T) / (1 + (row <= -T).sum()) for w in row])
        chosen = e >= ebh_threshold(e, q)
        assert (chosen == (row >= T)).all()  # one draw at q: the filter itself


@given(st.lists(st.floats(0, 50), min_size=1, max_size=15), RATES)
def test_ebh_is_the_definition(e, q):
    e = np.array(e)
    p = len(e)
    k = max([k for k in range(1, p + 1) if np.sort(e)[-k] >= p / (q * k)], default=0)
    T = ebh_threshold(e, q)
    assert (T == np.inf) if k == 0 else np.isclose(T, p / (q * k), rtol=1e-9)


def test_a_mean_that_rounds_down_still_counts():
    e = np.full(10, 10 / (.1 * 10)) * (1 - 1e-15)
    assert (e < 10).all() and (e >= ebh_threshold(e, .1)).all()


def test_means_of_null_e_values_add_up_to_at_most_their_number():
    W = np.random.default_rng(0).standard_normal((4000, 30)) + np.where(np.arange(30) < 10, 3, 0)
    totals = e_values(W, .2)[:, 10:].sum(1) / 30
    assert_rate_at_most(totals / totals.max(), 1 / totals.max())


@given(st.lists(st.integers(-4, 8), min_size=1, max_size=30))
def test_a_rate_chosen_afterwards_is_its_definition_and_never_loses(W):
    W = np.array(W, float)
    def estimate(t): return (1 + (W <= -t).sum()) / max((W >= t).sum(), 1)
    stops = [t for t in set(np.abs(W)) - {0} if estimate(t) <= .2 or not (W <= -t).any()]
    T, level = open_threshold(W)
    if not stops or estimate(min(stops)) >= 1: assert (T, level) == (np.inf, 1)
    else: assert T == min(stops) and level == estimate(T)
    if knockoff_threshold(W, .2) < np.inf: assert T == knockoff_threshold(W, .2) and level <= .2


@pytest.mark.parametrize("p, alpha", [(1, .05), (7, .3), (40, .05), (300, .01)])
def test_bounds_from_signs_fail_as_seldom_as_promised(p, alpha):
    "Nulls only: the exact probability that too many heads come before some tail, and nothing left to gain"
    most = _most_heads(p, alpha)
    assert (np.diff(most) >= 0).all()
    assert _any_fails(most, p) <= alpha
    if p > 30: assert _any_fails(most - 1, p) > alpha


@given(st.lists(st.integers(-3, 9), min_size=1, max_size=25), st.integers(0, 2**25 - 1))
def test_true_discoveries_in_any_set(W, subset):
    W = np.array(W, float)
    inside = np.array([subset >> j & 1 for j in range(len(W))], bool)
    cuts, most = sign_bounds(W, .7)
    found = true_discoveries(W[inside], cuts, most)
    assert 0 <= found <= (W[inside] > 0).sum()
    assert found == max([0, *((W[inside] > cut).sum() - k for cut, k in zip(cuts, most))])
    assert found <= true_discoveries(W, cuts, most) <= found + (~inside).sum()
