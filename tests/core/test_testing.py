"Assertions with a known rate of false alarms: they hold where they must and fire where they must."
import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import (
    assert_fair_coin,
    assert_rate_at_most,
    assert_same_law,
    detected_rate,
    detected_scale,
    fires,
    refusal,
    sample,
    smallest_bias,
    smallest_rate,
)


@pytest.mark.parametrize("share, unfair", [(.49, True), (.51, True), (.5, False)])
def test_a_coin_may_be_unfair_either_way(share, unfair):
    assert fires(assert_fair_coin, np.arange(200_000) < share * 200_000) == unfair


def test_a_coin_returns_its_share(): assert assert_fair_coin([1, 0, 1, 1]) == .75


def test_a_rate_is_compared_with_the_bound_itself():
    x = np.arange(40_000) / 40_000
    assert fires(assert_rate_at_most, x < .215, .2) and not fires(assert_rate_at_most, x < .2, .2)


def test_a_rate_below_its_bound_is_never_an_alarm(): assert assert_rate_at_most(np.zeros(10**6), .2) == 0


def test_a_rate_is_judged_at_the_level_asked_for():
    x = np.arange(100) < 35
    assert not fires(assert_rate_at_most, x, .2) and fires(assert_rate_at_most, x, .2, alpha=.01)
    assert fires(assert_rate_at_most, [2.0], .9)


def test_same_law_corrects_for_the_number_of_comparisons():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 500, 40))
    b[:, 7] += .3
    squares = list(zip(a.T**2, b.T**2))
    z = [(np.mean(u) - np.mean(v)) / np.sqrt(np.var(u) / 500 + np.var(v) / 500) for u, v in squares]
    raw = min(*(2 * norm.sf(np.abs(z))), *(ks_2samp(u, v, method="asymp").pvalue for u, v in zip(a.T, b.T)))
    assert 80 * raw < 1 and np.isclose(assert_same_law(a, b), 80 * raw)
    assert assert_same_law(a, a) == 1


def test_same_law_sees_what_only_the_scale_shows():
    a = np.random.default_rng(0).standard_normal(20_000)
    assert ks_2samp(a, 1.1 * a, method="asymp").pvalue > 1e-6 and fires(assert_same_law, a, 1.1 * a)


def test_same_law_sees_what_the_scale_does_not_show():
    a = np.random.default_rng(0).standard_normal(2000) + 1
    assert fires(assert_same_law, a, -a)


@pytest.mark.parametrize("x", [[], [np.nan], [1, np.inf]], ids=str)
def test_nothing_and_nan_are_no_evidence(x):
    assert fires(sample, x) and fires(assert_fair_coin, x)
    assert fires(assert_rate_at_most, x, .5) and fires(assert_same_law, x, x)


def test_a_refusal_is_a_sentence_and_its_absence_an_alarm():
    def refuse(): raise InputError("no")
    def fail(): raise KeyError("x")
    assert refusal(refuse) == "no" and fires(refusal, int)
    with pytest.raises(KeyError): refusal(fail)
    assert not fires(int)


@pytest.mark.parametrize("trials, bound", [(50, .2), (3000, .05), (10**6, .5)])
def test_the_smallest_rate_is_where_the_alarm_begins(trials, bound):
    rate = smallest_rate(trials, bound)
    assert fires(assert_rate_at_most, np.full(trials, rate), bound)
    assert not fires(assert_rate_at_most, np.full(trials, rate - 1e-6), bound)


@pytest.mark.parametrize("trials, bound", [(100, .2), (5000, .05)])
def test_a_detected_rate_is_caught_with_the_promised_probability(trials, bound):
    "Whatever the law of the observations: zeros and ones, or all alike"
    from scipy.stats import binom
    rate = detected_rate(trials, bound)
    alarm = smallest_rate(trials, bound)
    assert rate > alarm and binom.sf(np.ceil(trials * alarm) - 1, trials, rate) >= .99
    assert binom.sf(np.ceil(trials * alarm) - 1, trials, (rate + 3 * alarm) / 4) < .99  # and not far above
    assert fires(assert_rate_at_most, np.full(trials, rate), bound)
    assert detected_rate(trials, bound, power=.5) < rate


def test_a_smallest_bias_is_caught_with_the_promised_probability():
    from scipy.stats import binom
    bias, heads = smallest_bias(2000), np.arange(1000, 2001)
    alarm = next(h for h in heads if fires(assert_fair_coin, np.arange(2000) < h))
    assert .985 < binom.sf(alarm - 1, 2000, .5 + bias) < .995


@pytest.mark.parametrize("size, columns", [(400, 1), (20_000, 5)])
def test_the_detected_scale_is_caught_almost_always_and_a_smaller_one_is_not(size, columns):
    rng, factor = np.random.default_rng(0), detected_scale(size, size, columns)
    def share(f):
        scales = np.append(np.ones(columns - 1), f)
        pairs = (rng.standard_normal((2, size, columns)) for _ in range(60))
        return np.mean([fires(assert_same_law, scales * a, b) for a, b in pairs])
    assert share(factor) > .9 and share(1 + (factor - 1) / 2) < .5
