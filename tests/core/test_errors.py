"Checks of arguments: what passes comes back as a plain number, what does not gets one sentence."
import copy
import pickle

import numpy as np
import pytest

from dp_knockoff.core.errors import (
    LARGEST,
    InputError,
    check_count,
    check_fraction,
    check_given,
    check_option,
    check_positive,
    listed,
    shown,
)
from dp_knockoff.core.testing import refusal


def test_what_is_wrong_is_shown_on_one_short_line():
    assert shown("a") == "'a'" and shown(np.eye(2)).count("\n") == 0
    assert len(shown("x" * 78)) == 80 and shown("x" * 79) == "'" + "x" * 76 + "..."


def test_long_lists_are_cut():
    assert listed("ab") == "'a', 'b'" and listed([]) == ""
    assert listed("abcdef") == "'a', 'b', 'c', 'd', 'e', 'f'"
    assert listed("abcdefgh") == "'a', 'b', 'c', 'd', 'e', 'f' and 2 more"
    assert listed("abc", 1) == "'a' and 2 more"


@pytest.mark.parametrize("value", [.5, np.float32(.25), 1e-9, 1 - 1e-12])
def test_fractions_come_back_as_floats(value):
    assert check_fraction("q", value, "w") == value and type(check_fraction("q", value, "w")) is float


@pytest.mark.parametrize("value", [0, 1, -.1, 1.5, 1e-13, np.nan, np.inf, True, "a", None, [.5], 1j], ids=str)
def test_what_is_no_fraction(value):
    sentence = refusal(check_fraction, "q", value, "pass this")
    assert sentence == f"q={shown(value)} is not a number strictly between 0 and 1: pass this"


@pytest.mark.parametrize("value", [1e-300, 3, np.float32(2), np.int64(7), 1e149])
def test_positive_numbers_come_back_as_floats(value):
    assert check_positive("x", value, "w") == value and type(check_positive("x", value, "w")) is float


NOT_POSITIVE = [0, -1, np.nan, np.inf, LARGEST, 1e308, True, "1", None, [1.0], np.ones(2)]


@pytest.mark.parametrize("value", NOT_POSITIVE, ids=str)
def test_what_is_not_positive(value):
    sentence = refusal(check_positive, "x", value, "pass this")
    assert sentence == f"x={shown(value)} is not a finite number > 0: pass this"


def test_zero_may_be_allowed():
    assert check_positive("x", 0, "w", zero=True) == 0
    assert "number >= 0" in refusal(check_positive, "x", -1, "w", zero=True)


def test_squares_of_what_passes_are_finite():
    assert np.isfinite(np.nextafter(LARGEST, 0)**2)


@pytest.mark.parametrize("value", [1, np.int32(5)])
def test_counts_come_back_as_ints(value):
    assert check_count("n", value) == value and type(check_count("n", value)) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, np.nan], ids=str)
def test_what_is_no_count(value):
    assert refusal(check_count, "n", value) == f"n={value!r} is not a whole number of at least 1: pass an int"


def test_the_least_count_can_be_chosen():
    assert check_count("n", 0, least=0) == 0 and "at least 3" in refusal(check_count, "n", 2, least=3)


def test_true_is_not_a_count():
    assert "n=True is not a whole number" in refusal(check_count, "n", True)


def test_what_is_missing_is_asked_for():
    assert check_given("x", 0, "pass it") == 0
    assert refusal(check_given, "x", None, "pass it") == "x is missing: pass it"


@pytest.mark.parametrize("value, options, fits", [
    ("a", ["a", "b"], True), ("c", ["a", "b"], False), (1, [0, 1], True), (np.int64(1), [0, 1], True),
    (True, [0, 1], False), (1, [True, False], False), (True, [True, False], True), (1.0, [0, 1], False),
    (None, ["a", None], True), (np.array(["a"]), ["a"], False), (["a"], ["a"], False),
], ids=str)
def test_options(value, options, fits):
    words = f"is unknown: choose one of {', '.join(map(repr, options))}"
    if fits: assert check_option("x", value, options) is value
    else: assert words in refusal(check_option, "x", value, options)


def test_an_input_error_is_a_value_error(): assert issubclass(InputError, ValueError)


def test_details_are_there_for_who_asks_and_nowhere_else():
    error = InputError("column 'age' is no number", details="Row 17 holds 'n/a'.")
    assert error.details == "Row 17 holds 'n/a'." and InputError("no").details == ""
    for shown_to_all in (str(error), repr(error), str(error.args)): assert "17" not in shown_to_all
    there = error.at("a file")
    assert (str(there), there.details) == ("a file: column 'age' is no number", error.details)


def test_details_travel_between_processes():
    error = InputError("no", details="Row 17.")
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (str(copied), copied.details) == ("no", "Row 17.")
