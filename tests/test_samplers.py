"Samplers draw the noise they claim, never the same noise twice, and only for what may be released."
import copy
import pickle
import sys

import numpy as np
import pytest

from dp_knockoff.samplers import NumpySampler, SecureSampler, as_sampler, check_release
from dp_knockoff.testing import assert_same_law, refusal

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
    assert "pip install 'dp-knockoff[secure]'" in refusal(SecureSampler)


def test_check_release_returns_floats():
    assert check_release([1, 2], 0).dtype == float and check_release(3, 1.).shape == ()


@BOTH
@pytest.mark.parametrize("value, scale, words", [
    ([np.inf], 1., "not finite"), ([0., np.nan], 1., "not finite"), ("x", 1., "not a number"),
    (1., -1., "scale"), (1., np.nan, "scale"), (1., np.inf, "scale"), (1., None, "scale"),
])
def test_only_finite_values_with_a_finite_scale_are_released(make, value, scale, words):
    for draw in (make().gaussian, make().laplace): assert words in refusal(draw, value, scale, "x")


def test_as_sampler_takes_samplers_only():
    mine = NumpySampler(1)
    assert as_sampler(mine, random_state=2) is mine
    drawn = as_sampler(random_state=2).gaussian(np.zeros(3), 1., "a")
    assert (drawn == NumpySampler(2).gaussian(np.zeros(3), 1., "a")).all()
    for bad in (3, "secure", NumpySampler, SecureSampler, np.random.default_rng(0)):
        assert "not a sampler" in refusal(as_sampler, bad)
