"Variables: which columns belong together, and how large each variable is."
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.variables import Variables

FACTORS = {"colour": ("c=green", "c=blue"), "age": ("age", "age^2")}
COLUMNS = ("x", "c=green", "age", "c=blue", "age^2")


def test_variables_stand_in_the_order_of_their_first_columns():
    v = Variables.of(COLUMNS, FACTORS)
    assert v.names == ("x", "colour", "age") and v.index == (0, 1, 2, 1, 2) and len(v) == 3
    assert v.sizes.tolist() == [1, 2, 2] and v.grouped
    assert v.columns([1]).tolist() == [1, 3] and v.columns([2, 0]).tolist() == [0, 2, 4]
    assert v.columns([]).tolist() == [] and v.columns({1, 2}).tolist() == [1, 2, 3, 4]


def test_without_groups_every_column_is_a_variable():
    for groups in (None, {}, {"a": ("a",)}):
        v = Variables.of("abc", groups)
        assert v == Variables(("a", "b", "c"), (0, 1, 2)) and not v.grouped and v.sizes.tolist() == [1] * 3
    assert Variables.single(3) == Variables(("x0", "x1", "x2"), (0, 1, 2))


def test_a_group_of_one_column_has_the_name_of_the_group():
    v = Variables.of("ab", {"A": ["a"]})
    assert v.names == ("A", "b") and not v.grouped


def test_groups_of_columns_that_are_not_there_are_not_there():
    assert Variables.of("ab", {"other": ["c", "d"], "half": ["b", "e"]}).names == ("a", "half")


@given(st.lists(st.integers(0, 4), min_size=1, max_size=9), st.integers(0, 10**6))
def test_norms_are_those_of_the_columns_of_each_variable(owners, seed):
    groups = {f"g{k}": [f"c{j}" for j, owner in enumerate(owners) if owner == k] for k in set(owners)}
    v = Variables.of([f"c{j}" for j in range(len(owners))], groups)
    x = np.random.default_rng(seed).standard_normal((3, 2, len(owners)))
    expected = [np.linalg.norm(x[..., v.columns([j])], axis=-1) for j in range(len(v))]
    assert v.norms(x).shape == (3, 2, len(v)) and np.allclose(v.norms(x), np.stack(expected, -1))
    assert sorted(v.columns(range(len(v)))) == list(range(len(owners))) and v.sizes.sum() == len(owners)
    assert v.grouped == (max(v.sizes) > 1)


def test_norms_do_not_write_into_their_argument():
    x = np.array([[3.0, -4.0, -1.0]])
    assert Variables.of("abc", {"g": "ab"}).norms(x).tolist() == [[5.0, 1.0]]
    assert Variables.single(3).norms(x).tolist() == [[3.0, 4.0, 1.0]] and x.tolist() == [[3.0, -4.0, -1.0]]


def test_variables_cannot_be_changed():
    with pytest.raises(AttributeError): Variables.single(2).names = ("a", "b")
