"Random streams: one seed, one purpose, one stream."
import numpy as np
import pytest

from dp_knockoff.core.errors import stream
from dp_knockoff.core.testing import refusal


def draw(random_state, purpose): return stream(random_state, purpose).standard_normal(4).tolist()


def test_a_seed_and_a_purpose_decide_a_stream():
    assert draw(3, "noise") == draw(3, "noise") == draw(np.int64(3), "noise")


@pytest.mark.parametrize("other", [(4, "noise"), (3, "noises"), (3, "Noise"), (3, "nois"), (3, "")], ids=str)
def test_other_seeds_and_other_purposes_have_other_streams(other): assert draw(3, "noise") != draw(*other)


def test_streams_stay_what_they_are_from_version_to_version():
    assert np.isclose(stream(0, "linear_model").standard_normal(), -.9447689343419906, rtol=1e-12)


def test_a_generator_is_used_and_moves_on():
    rng = np.random.default_rng(0)
    assert stream(rng, "a") is rng and draw(rng, "a") != draw(rng, "a")


def test_without_a_seed_every_stream_is_fresh(): assert draw(None, "a") != draw(None, "a")


@pytest.mark.parametrize("bad", [-1, 1.5, "1", True], ids=str)
def test_what_is_no_seed(bad): assert "random_state=" in refusal(stream, bad, "a")
