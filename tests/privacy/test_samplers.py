"Samplers draw the noise they claim, never the same noise twice, and only for what may be released."
import copy
import pickle
import sys

import numpy as np
import pytest

from dp_knockoff.core.testing import assert_same_law, refusal
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio, gaussian_divergence
from dp_knockoff.privacy.samplers import (
    LEAST_STEPS,
    NumpySampler,
    SecureSampler,
    _check_release,
    as_sampler,
    check_lattice,
    noisy_count,
)

BOTH = pytest.mark.parametrize("make", [lambda: NumpySampler(0), SecureSampler], ids=["numpy", "secure"])


@BOTH
def test_samplers_draw_at_their_scale(make):
    sampler = make()
    g = sampler.gaussian(np.zeros(20_000), 3., "a")
    l = sampler.laplace(np.zeros(20_000), 3., "b")
    assert abs(np.std(g) / 3 - 1) < .05 and abs(np.mean(np.abs(l)) / 3 - 1) < .06


@BOTH
def test_noise_is_added_to_the_value_entry_by_entry(make):
    value = np.array([[1e6, -1e6, 0.], [5., 6., 7.]])
    for k, draw in enumerate((make().gaussian, make().laplace)):
        noisy = draw(value, 1e-3, f"purpose {k}")
        assert noisy.shape == value.shape and np.abs(noisy - value).max() < 1 and (noisy != value).all()
        assert np.shape(draw(3., 1., f"number {k}")) == ()


@BOTH
def test_without_noise_the_value_is_returned(make):
    for draw in (make().gaussian, make().laplace): assert (draw(np.ones(3), 0., "a") == 1).all()


@BOTH
def test_a_sampler_can_be_copied_and_pickled(make):
    for other in (copy.deepcopy(make()), pickle.loads(pickle.dumps(make()))):
        assert other.gaussian(np.zeros(2), 1., "a").shape == (2,)


def test_a_seeded_sampler_never_repeats_noise():
    s = NumpySampler(3)
    a = s.gaussian(np.zeros(50), 1., "a")
    b = s.gaussian(np.zeros(50), 1., "b")
    assert not np.isclose(a, b).any()
    for draw in (s.gaussian, s.laplace): assert "before" in refusal(draw, np.zeros(5), 1., "a")
    assert (NumpySampler(3).gaussian(np.zeros(50), 1., "a") == a).all()


@pytest.mark.parametrize("random_state", [None, np.random.default_rng(0)], ids=["fresh", "generator"])
def test_an_unseeded_sampler_draws_anew(random_state):
    s = NumpySampler(random_state)
    assert not np.isclose(s.gaussian(np.zeros(50), 1., "a"), s.gaussian(np.zeros(50), 1., "a")).any()


def test_a_refused_value_leaves_its_purpose_free():
    s = NumpySampler(3)
    refusal(s.gaussian, [np.nan], 1., "a")
    refusal(s.gaussian, [1.], -1., "a")
    assert (s.gaussian(np.zeros(5), 1., "a") == NumpySampler(3).gaussian(np.zeros(5), 1., "a")).all()


def test_secure_noise_is_fresh_and_has_its_law():
    secure = SecureSampler()
    rng = np.random.default_rng(0)
    g = secure.gaussian(np.full(10_000, 3.), 2., "a")
    assert_same_law(g, 3 + 2 * rng.standard_normal(40_000))
    assert_same_law(secure.laplace(np.full(10_000, 3.), 2., "a"), 3 + 2 * rng.laplace(size=40_000))
    assert not np.isclose(g[:50], secure.gaussian(np.full(50, 3.), 2., "a")).any()


def test_without_opendp_there_is_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    for call in (SecureSampler, as_sampler): assert "pip install opendp" in refusal(call)
    assert not as_sampler(simulation=True).private


def test_check_release_returns_floats():
    assert _check_release([1, 2], 0).dtype == float and _check_release(3, 1.).shape == ()


@BOTH
@pytest.mark.parametrize("value, scale, words", [
    ([np.inf], 1., "not finite"), ([0., np.nan], 1., "not finite"), ("x", 1., "not a number"),
    (1., -1., "scale"), (1., np.nan, "scale"), (1., np.inf, "scale"), (1., None, "scale"),
])
def test_only_finite_values_with_a_finite_scale_are_released(make, value, scale, words):
    for draw in (make().gaussian, make().laplace): assert words in refusal(draw, value, scale, "x")


ENDS = np.array([2**63 - 1, -2**63])


@BOTH
def test_integers_get_noise_of_their_own_scale(make):
    scales = np.where(np.arange(20_000) % 2, float(LEAST_STEPS), 1e12)
    values = np.where(np.arange(20_000) % 2, 7, -2**60)
    noisy = make().lattice(values, scales, "a")
    noise = ((noisy - values) / scales).reshape(-1, 2)
    assert noisy.dtype == np.int64 and noisy.shape == values.shape
    assert_same_law(noise, np.random.default_rng(0).standard_normal((20_000, 2)))
    assert abs(np.corrcoef(noise.T)[0, 1]) < .05
    assert len(set(noisy[1::2] % 8)) == 8 # down to the last bits


@BOTH
@pytest.mark.parametrize("value", [
    3, np.int8(3), np.arange(6).reshape(2, 3), np.uint64([1]), np.zeros((0, 2), int),
])
def test_integers_stay_integers_of_their_shape(make, value):
    noisy = make().lattice(value, 1e6, "a")
    assert np.shape(noisy) == np.shape(value) and np.asarray(noisy).dtype == np.int64
    assert (np.abs(noisy - np.asarray(value, np.int64)) < 1e7).all()


@BOTH
def test_integers_stop_at_their_ends_instead_of_wrapping_around(make):
    noisy = make().lattice(np.tile(ENDS, 200), 1e18, "a").reshape(-1, 2)
    assert (noisy[:, 0] > 0).all() and (noisy[:, 1] < 0).all()
    assert .3 < np.mean(noisy[:, 0] == ENDS[0]) < .7 and .3 < np.mean(noisy[:, 1] == ENDS[1]) < .7


@BOTH
def test_noise_beyond_the_integers_stops_at_their_ends(make):
    noisy = make().lattice(np.zeros(200, int), 1e30, "a")
    assert (np.abs(noisy.astype(float)) > 2.0**62).all() and 50 < (noisy > 0).sum() < 150


@BOTH
@pytest.mark.parametrize("value, scale, words", [
    (1.0, 1e5, "not an integer"), ([1.5], 1e5, "not an integer"), (True, 1e5, "not an integer"),
    ("1", 1e5, "not an integer"), (None, 1e5, "not an integer"),
    (2**63, 1e5, "64 bits"), (2**70, 1e5, "64 bits"), (np.uint64([2**63]), 1e5, "64 bits"),
    (1, LEAST_STEPS * .999, "at least"), (1, 0.0, "at least"), (1, -1e5, "at least"), (1, np.nan, "at least"),
    (1, np.inf, "at least"), (1, None, "at least"), ([1, 2], [1e5, 10.0], "at least"),
    (1, "wide", "one for each"), (1, [1e5, 1e5], "one for each"),
    ([1, 2], [1e5] * 3, "one for each"), ([1, 2], [[1e5]] * 2, "one for each"),
])
def test_only_integers_with_wide_noise_go_on_a_lattice(make, value, scale, words):
    assert words in refusal(make().lattice, value, scale, "a")
    assert words in refusal(check_lattice, value, scale)


def test_a_seeded_sampler_never_repeats_noise_on_a_lattice():
    s = NumpySampler(3)
    refusal(s.lattice, 1.5, 1e5, "a")
    first = s.lattice(np.zeros(9, int), 1e9, "a")
    assert "before" in refusal(s.lattice, np.zeros(9, int), 1e9, "a")
    assert (NumpySampler(3).lattice(np.zeros(9, int), 1e9, "a") == first).all()


def test_secure_noise_on_a_lattice_is_fresh():
    s = SecureSampler()
    assert not (s.lattice(np.zeros(9, int), 1e9, "a") == s.lattice(np.zeros(9, int), 1e9, "a")).any()


def discrete_divergence(epsilon, shift, s):
    "Summed over the integers"
    x = np.arange(-int(12 * s), int(12 * s) + shift + 1)
    p, q = np.exp(-x**2 / (2 * s**2)), np.exp(-(x - shift)**2 / (2 * s**2))
    return float(np.maximum(q / q.sum() - np.exp(epsilon) * p / p.sum(), 0).sum())


@pytest.mark.parametrize("epsilon, mu", [(.05, .1), (.2, .2), (1., .5), (1., 1.), (3., 1.), (.1, 2.)])
def test_discrete_noise_is_continuous_noise_at_a_thousand_steps(epsilon, mu):
    def excess(s):
        shift = round(mu * s)
        return abs(discrete_divergence(epsilon, shift, s) / gaussian_divergence(epsilon, shift / s) - 1)
    assert excess(1000) < 3e-6 and excess(10) > 30 * excess(1000)


@pytest.mark.parametrize("epsilon, delta", [
    (.1, 1e-6), (.5, 1e-9), (1., 1e-6), (1., 1e-2), (5., 1e-6), (.01, .5),
])
def test_the_narrowest_noise_keeps_the_promise_of_the_calibration(epsilon, delta):
    "The calibrated ratio, in whole steps: no neighbour is further away than the shift rounded down"
    mu = analytic_ratio(Budget(epsilon, delta))
    for s in (LEAST_STEPS, LEAST_STEPS + 1):
        shift = int(mu * s)
        continuous = gaussian_divergence(epsilon, shift / s)
        assert discrete_divergence(epsilon, shift, shift / mu) <= delta # the scale at which it costs mu
        assert abs(discrete_divergence(epsilon, shift, s) / continuous - 1) < 1e-8


def test_a_shift_of_the_secure_noise_is_what_was_calibrated():
    "Monte Carlo: the best event's probability against e^epsilon times that without the shift"
    epsilon, mu, s, N = .5, 1.0, float(LEAST_STEPS), 30_000
    cut = s * (epsilon / mu + mu / 2)
    moved, still = (SecureSampler().lattice(np.full(N, v), s, "a") for v in (int(mu * s), 0))
    measured = np.mean(moved > cut) - np.exp(epsilon) * np.mean(still > cut)
    assert abs(measured - gaussian_divergence(epsilon, mu)) < 5 * np.sqrt((1 + np.exp(2 * epsilon)) / (4 * N))


@BOTH
def test_counts_get_noise_in_fractions_of_a_row(make):
    sampler = make()
    counts = np.array([noisy_count(500, 3.0, sampler, f"draw {k}") for k in range(1500)])
    assert abs(counts.mean() - 500) < .5 and abs(counts.std() / 3 - 1) < .12
    assert isinstance(noisy_count(5, 1.0, sampler, "one"), float) and (counts % 1 != 0).any()
    assert (counts * 2**20 % 1 == 0).all()
    assert "at least" in refusal(noisy_count, 500, 1e-3, sampler, "two")


def on_the_grid(published):
    "Share of the small numbers published that are multiples of 2^-53"
    small = published[np.abs(published) < 1 / 8]
    return np.mean(small * 2.0**53 % 1 == 0)


def test_numpys_doubles_tell_zero_from_one_and_are_never_called_private():
    "1 plus a double near -1 is a multiple of 2^-53; most doubles near 0 are not"
    claimed = gaussian_divergence(.1, 1 / 50)
    assert claimed < 1e-8 # what noise of this size promises for one entry
    for seed in range(5):
        zero, one = (on_the_grid(NumpySampler(seed).gaussian(np.full(40_000, v), 50., "a")) for v in (0., 1.))
        assert zero < .4 and one == 1
    for sampler in (NumpySampler(), as_sampler(simulation=True), as_sampler(simulation=True, random_state=1)):
        assert sampler.private is False and "not for a release" in sampler.name


def test_opendps_doubles_do_not_tell():
    shares = [on_the_grid(SecureSampler().gaussian(np.full(10_000, v), 2., "a")) for v in (0., 1.)]
    assert max(shares) < .3 and SecureSampler.private is True


def test_a_release_draws_from_opendp_unless_it_is_called_a_simulation():
    assert isinstance(as_sampler(), SecureSampler) and as_sampler().private
    drawn = as_sampler(simulation=True, random_state=2).gaussian(np.zeros(3), 1., "a")
    assert (drawn == NumpySampler(2).gaussian(np.zeros(3), 1., "a")).all()
    for seed in (0, 2, np.random.default_rng(0)):
        assert "random_state belongs to simulations" in refusal(as_sampler, random_state=seed)
    for odd in ("yes", None, 1): assert "simulation=" in refusal(as_sampler, simulation=odd)


def test_as_sampler_takes_samplers_only():
    for mine in (NumpySampler(1), SecureSampler()):
        assert as_sampler(mine) is mine and as_sampler(mine, simulation=True) is mine
    assert not as_sampler(NumpySampler(1), random_state=2).private
    assert "random_state" in refusal(as_sampler, SecureSampler(), simulation=True, random_state=2)
    class Incomplete:
        name, private = "mine", True
        def gaussian(self, value, scale, purpose): return value
    for bad in (3, "secure", NumpySampler, SecureSampler, np.random.default_rng(0), Incomplete()):
        assert "not a sampler" in refusal(as_sampler, bad)
