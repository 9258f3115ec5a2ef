"Dictionaries: what they say, what they refuse, and that a row is encoded by itself whatever holds it."
import datetime as dt
import pickle
import re
import subprocess
import sys
import tomllib
import warnings
from decimal import Decimal

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.errors import LARGEST, InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data import rows as rows_module
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.dictionary import Column, Dictionary, as_dictionary, join_groups, template
from dp_knockoff.data.rows import Rows
from same_rows import as_source

open_rows = as_source(rows_module.open_rows)

TOML = """
target = "wage"

[columns.age]
range = [16, 90]

[columns.region]
levels = ["south", "north", "east", "west"]

[columns.married]
levels = [false, true]

[columns.hours]
range = [0, 80]
missing = 40
indicator = true

[columns.grade]
levels = [1, 2, 2.5]
probabilities = [0.5, 0.25, 0.25]

[columns.children]

[columns.wage]
range = [0, 60]
missing = 20
"""
WAGE = {"target": "wage", "columns": {
    "age": {"range": [16, 90]}, "region": {"levels": ["south", "north", "east", "west"]},
    "married": {"levels": [False, True]}, "hours": {"range": [0, 80], "missing": 40, "indicator": True},
    "grade": {"levels": [1, 2, 2.5], "probabilities": [.5, .25, .25]}, "children": {},
    "wage": {"range": [0, 60], "missing": 20}}}
PEOPLE = pl.DataFrame({
    "age": [25, 61, 40, 33], "region": ["north", "south", "abroad", None],
    "married": [True, False, None, True],
    "hours": [38., None, 45, 20], "grade": [1., 2, 7, 2.5], "children": [0, 2, 1, 0],
    "wage": [11.5, None, 15.2, 9.9]})
NAMES = ("age", "region=north", "region=east", "region=west", "married=true", "hours", "hours is missing",
         "grade=2", "grade=2.5", "children")
NUMBERS = [[25, 1, 0, 0, 1, 38, 0, 0, 0, 0], [61, 0, 0, 0, 0, 40, 1, 1, 0, 2],
           [40, 0, 0, 0, 0, 45, 0, 0, 0, 1], [33, 0, 0, 0, 1, 20, 0, 0, 1, 0]]


def of(**keys):
    "A dictionary of one column"
    return {"columns": {"c": keys}}


def block(table, dictionary, y="wage"):
    "All rows of a table"
    rows = Rows(table, y, encoding=as_dictionary(dictionary))
    return rows.block(0, len(rows))


def encoded(values, **keys):
    "What a column of values becomes"
    column = Column("c", **keys)
    series = nw.from_native(values, series_only=True, pass_through=True)
    out = np.full((len(column.encoded), len(values)), np.nan)
    column.encode(series, out)
    return out.tolist()


# what a dictionary says

def test_a_file_and_a_dict_say_the_same(tmp_path):
    (tmp_path / "wage.toml").write_text(TOML)
    from_dict = as_dictionary(WAGE)
    for path in (tmp_path / "wage.toml", str(tmp_path / "wage.toml")):
        d = as_dictionary(path)
        assert (d.target, d.columns, d.groups, d.ranges) == (
            from_dict.target, from_dict.columns, from_dict.groups, from_dict.ranges)
        assert d.where == str(path)
    assert as_dictionary(d) is d


def test_the_facts():
    d = as_dictionary(WAGE)
    assert d.target == "wage" and list(d.columns) == ["age", "region", "married", "hours", "grade",
                                                      "children"]
    assert d.columns["grade"] == Column("grade", None, (1, 2, 2.5), (.5, .25, .25), None, False)
    assert d.column("wage") == Column("wage", range=(0., 60.), missing=20)
    assert d.encoded(d.columns) == NAMES and d.encoded(["grade", "age"]) == ("grade=2", "grade=2.5", "age")
    assert d.ranges == {"age": (16., 90.), "hours": (0., 80.)}
    assert d.groups == {"region": NAMES[1:4], "married": ("married=true",), "hours": NAMES[5:7],
                        "grade": ("grade=2", "grade=2.5")}
    assert as_dictionary({"columns": {"a": {}}, "target": "y"}).column("y") == Column("y")
    assert "did you mean 'region'?" in refusal(d.encoded, ["regoin"])
    assert pickle.loads(pickle.dumps(d)) == d


def test_named_groups():
    d = as_dictionary(WAGE | {"groups": {"place": ["region", "age"], "home": ["children", "married"]}})
    assert d.groups == {"place": (*NAMES[1:4], "age"), "home": ("children", "married=true"),
                        "hours": NAMES[5:7], "grade": ("grade=2", "grade=2.5")}
    assert list(d.groups) == ["place", "home", "hours", "grade"]
    assert d.variables(("children", "age", "region=east")) == {"place": ("region=east", "age"),
                                                              "home": ("children",)}
    assert as_dictionary({"columns": {"a": {}}, "groups": {"a": ["a"]}}).groups == {}


def test_another_response():
    d = as_dictionary(WAGE)
    plain = WAGE["columns"] | {"hours": {"range": [0, 80]}}
    other = as_dictionary(WAGE | {"columns": plain}).with_target("hours")
    assert other.target == "hours" and "wage" in other.columns and "hours" not in other.columns
    assert d.with_target("wage") is d and d.with_target("new").column("new") == Column("new")
    assert "indicator" in refusal(d.with_target, "hours")  # which is for features
    assert "4 levels" in refusal(d.with_target, "region")


# what a value becomes

def test_a_table_becomes_numbers():
    for table in (PEOPLE, PEOPLE.to_pandas(), PEOPLE.to_arrow(), PEOPLE.to_pandas().astype(object),
                  PEOPLE.with_columns(pl.col("region").cast(pl.Categorical)),
                  PEOPLE.with_columns(pl.col("region").cast(pl.Enum(["abroad", "south", "north"]))),
                  PEOPLE.to_pandas().astype({"region": "category", "grade": "category",
                                             "married": "boolean"}),
                  PEOPLE.with_columns(pl.col("region").cast(pl.Categorical)).to_arrow(),
                  PEOPLE.with_columns(pl.col("married", "grade").cast(pl.String))):
        X, y = block(table, WAGE)
        assert X.dtype == y.dtype == np.float64
        assert X.tolist() == NUMBERS and y.tolist() == [11.5, 20, 15.2, 9.9]
    rows = Rows(PEOPLE, "wage", encoding=as_dictionary(WAGE))
    assert rows.names == NAMES and rows.raw == tuple(PEOPLE.columns[:-1])


def test_arrays_become_numbers():
    features = PEOPLE.drop("wage")
    A = features.to_pandas().to_numpy(dtype=object)
    for y in (PEOPLE["wage"], PEOPLE["wage"].to_numpy(), PEOPLE["wage"].to_list()):
        rows = Rows(A, y, features.columns, as_dictionary(WAGE))
        assert rows.block(0, 4)[0].tolist() == NUMBERS and rows.block(0, 4)[1].tolist() == [11.5, 20, 15.2,
                                                                                            9.9]
        assert rows.block(1, 3)[0].tolist() == NUMBERS[1:3]
    assert "pass columns=[...]" in refusal(Rows, A, y, None, as_dictionary(WAGE))


@pytest.mark.parametrize("values", [
    [1, 2, 1], [1.0, 2.0, 1.0], ["1", "2", "1"], ["1.0", "2e0", " 1 "], [Decimal(1), np.int8(2), True],
    [b"1", b"2", b"1"], [np.float32(1), np.str_("2"), "true"],
])
def test_number_levels_meet_anything_that_means_them(values):
    wanted = [[0, 1, 0], [0, 0, 0]]
    assert encoded(np.array(values, dtype=object), levels=[1, 2, 3]) == wanted
    assert encoded(np.array(values), levels=[1, 2, 3]) == wanted
    assert encoded(pd.Series(values, dtype=object), levels=[1.0, 2.0, 3.0]) == wanted


@pytest.mark.parametrize("values", [
    [True, False], [1, 0], [1.0, 0.0], ["true", "false"], ["True", "FALSE"], ["1", "0"],
    [np.True_, np.False_],
])
def test_truth_values(values):
    for levels, wanted in (([False, True], [[1, 0]]), ([True, False], [[0, 1]])):
        for column in (np.array(values), np.array(values, dtype=object), pl.Series(values), pd.Series(values),
                       pa.chunked_array([values]), pd.Series(values, dtype="category")):
            assert encoded(column, levels=levels) == wanted
        assert Column("c", levels=levels).encoded == (("c=true",), ("c=false",))[levels[0]]


def test_what_means_no_level_is_unknown_and_not_missing():
    odd = ["?", "4", "nan", "inf", "1_0", " "]
    for column in (np.array(odd, dtype=object), pl.Series(odd), np.array([4, np.inf, -np.inf, 1e300, 5, 6])):
        assert encoded(column, levels=[1, 10], missing=10, indicator=True) == [[0] * 6, [0] * 6]
    assert encoded(np.array([" true ", "yes"]), levels=[False, True], missing=True) == [[1, 0]]


def test_levels_that_were_rounded_to_single_precision():
    for values in (np.float32([.1, .2, .3]), pl.Series([.1, .2, .3], dtype=pl.Float32),
                   np.array([.1, .2, .3])):
        assert encoded(values, levels=[.1, .2, .3]) == [[0, 1, 0], [0, 0, 1]]
    close = [.1, .1 + 1e-12]  # one number in single precision, two in double
    assert encoded(np.array(close), levels=close) == [[0, 1]] and encoded(np.float32(close),
                                                                          levels=close) == [[0, 0]]
    assert encoded(np.array([1e40, np.inf]), levels=[0, 1e40]) == [[1, 0]]


def test_text_levels_meet_text_in_every_character_and_numbers_by_their_meaning():
    words = ["2", "2 ", " 2", "2.0", "02", "1", "x"]
    for column in (pl.Series(words), pd.Series(words), pd.Series(words, dtype=object), np.array(words),
                   pa.chunked_array([words]), pd.Series(words, dtype="category")):
        assert encoded(column, levels=["1", "2", "x"]) == [[1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1]]
    for column in (pl.Series([2, 1, 5]), np.array([2., 1, 5]), pd.Series([2, 1, None], dtype="Int64")):
        assert encoded(column, levels=["1", "2", "x"]) == [[1, 0, 0], [0, 0, 0]]
    assert encoded(np.array([True, False]), levels=["false", "true"]) == [[1, 0]]
    assert encoded(np.array([1., 2]), levels=["0", "1", "01", "2"]) == [[0, 0], [0, 0],
                                                                        [0, 1]]  # 1: two levels


HOLES = [None, np.nan, pd.NA, pd.NaT, np.float32("nan"), Decimal("nan"), ""]


@pytest.mark.parametrize("hole", HOLES, ids=map(repr, HOLES))
def test_holes_get_the_stand_in(hole):
    values = np.array(["a", hole, "b", "?"], dtype=object)
    assert encoded(values, levels=["a", "b"]) == [[0, 0, 1, 0]]
    assert encoded(values, levels=["a", "b"], missing="b") == [[0, 1, 1, 0]]
    assert encoded(values, levels=["a", "b"], missing="b", indicator=True) == [[0, 1, 1, 0], [0, 1, 0, 0]]
    values = np.array([1, hole, 3], dtype=object)
    assert encoded(values, missing=7, indicator=True) == [[1, 7, 3], [0, 1, 0]]


def test_holes_of_every_library_get_the_stand_in():
    for column in (pl.Series(["a", None, "b"]), pd.Series(["a", None, "b"]),
                   pa.chunked_array([["a", None], ["b"]]),
                   pd.Series(["a", None, "b"], dtype="string"), pl.Series(["a", "", "b"]),
                   pd.Series(["a", None, "b"], dtype="category"),
                   pl.Series(["a", None, "b"], dtype=pl.Categorical),
                   pa.chunked_array([pa.array(["a", None, "b"]).dictionary_encode()])):
        assert encoded(column, levels=["a", "b"], missing="b", indicator=True) == [[0, 1, 1], [0, 1, 0]]
    for column in (pl.Series([1, None]), pd.Series([1, None]), pd.Series([1, None], dtype="Int64"),
                   pa.chunked_array([[1, None]]), np.array([1, np.inf]), np.array([1, "many"], dtype=object),
                   pd.Series([1, pd.NA], dtype=object), np.array([1, {2: 3}], dtype=object),
                   np.array(["1", "?"])):
        assert encoded(column, missing=7, indicator=True) == [[1, 7], [0, 1]]
    for column in (pl.Series([None, None]), pa.chunked_array([pa.nulls(2)]), pd.Series([None, None])):
        assert encoded(column, levels=["a", "b"], missing="b") == [[1, 1]]


def test_no_object_stops_a_factor():
    class Odd:
        def __eq__(self, other): raise ValueError("no")
        def __hash__(self): return hash("a")
    odd = [Odd(), [1], {"a": 1}, np.arange(3), b"\xff", object, 1j, "a" * 10**5, 10**400, Decimal("sNaN")]
    values = np.empty(len(odd) + 1, dtype=object)
    values[:-1], values[-1] = odd, "b"
    assert encoded(values, levels=["a", "b"]) == [[0] * len(odd) + [1]]
    assert encoded(values[1:], levels=[1, 2]) == [[0] * len(odd)]


def test_the_middle_of_the_range_stands_in_where_nothing_else_was_said():
    for column in (np.array([1, "x"], dtype=object), pd.Series([1, "x"], dtype=object), pl.Series([1, None])):
        assert encoded(column) == [[1, 0]] and encoded(column, range=[-2, 10]) == [[1, 4]]
    assert encoded(np.array([1e200, -np.inf, -1.7e308])) == [[LARGEST, 0, -LARGEST]] # squares can be added
    table = PEOPLE.with_columns(age=pl.Series([16, None, 90, 16]))
    ages = open_rows(table, "wage", encoding=as_dictionary(WAGE)).collect(lambda X, y: [X[:, 0]])
    assert ages[0].tolist() == [16, 53, 90, 16]


def test_values_beyond_the_range_stay():
    assert encoded(np.array([-5., 500]), range=[0, 1]) == [[-5, 500]]


def test_a_response_of_two_levels():
    d = {"target": "y", "columns": {"a": {}, "y": {"levels": ["no", "yes"], "missing": "yes"}}}
    table = pl.DataFrame({"a": [1, 2, 3, 4], "y": ["yes", "no", None, "?"]})
    assert block(table, d, "y")[1].tolist() == [1, 0, 1, 0]
    for y in (table["y"], table["y"].cast(pl.Categorical), table["y"].to_pandas(), table["y"].to_list(),
              table["y"].to_pandas().astype("category"), table["y"].to_numpy(),
              pa.chunked_array([table["y"].to_arrow().dictionary_encode()])):
        assert block(table.drop("y"), d, y)[1].tolist() == [1, 0, 1, 0]


# a row is encoded by itself

CELLS = st.one_of(st.sampled_from(["a", "b", " a", "1", "1.0", "true", "True", "", "?", None, True, False, 0,
                                   1,
                                   2, 1.0, 2.5, np.nan, np.inf, 10**400]), st.text(max_size=3), st.floats())
KINDS = [dict(levels=["a", "b", "1"]), dict(levels=["a", "b"], missing="b", indicator=True),
         dict(levels=[0, 1, 2.5]),
         dict(levels=[False, True], missing=True, indicator=True),
         dict(range=[0, 2], missing=1, indicator=True)]


@pytest.mark.parametrize("keys", KINDS)
@given(st.lists(CELLS, min_size=1, max_size=8))
def test_no_cell_matters_to_another(keys, cells):
    def objects(values):
        column = np.empty(len(values), dtype=object)
        column[:] = values
        return column
    together = encoded(objects(cells), **keys)
    alone = [encoded(objects([cell]), **keys) for cell in cells]
    assert together == [[one[j][0] for one in alone] for j in range(len(together))]
    assert together == encoded(pd.Series(objects(cells), dtype=object), **keys)
    assert np.isfinite(together).all()


@pytest.mark.parametrize("keys", KINDS[:4])
@given(st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", " a", "1", "1.0", "true", "?", "", "nan",
                                                      "2.5"]),
                          st.text(st.characters(exclude_categories=["Cs"]), max_size=3)), min_size=1,
                          max_size=8))
def test_text_is_the_same_in_every_library(keys, cells):
    wanted = encoded(np.array([*cells, None], dtype=object)[:-1], **keys)
    for column in (pl.Series(cells, dtype=pl.String), pd.Series(cells, dtype="string"),
                   pd.Series(cells, dtype="category"),
                   pa.chunked_array([pa.array(cells, pa.string())]), pl.Series(cells, dtype=pl.Categorical)):
        assert encoded(column, **keys) == wanted


def test_a_late_value_of_another_type_changes_nothing_above_it():
    values = pd.Series(["1"] * 300 + [1], dtype=object)  # narwhals guesses from a hundred values
    assert encoded(values, levels=["0", "1"]) == [[1] * 301]
    table = pd.DataFrame({"c": values, "y": np.ones(301)})
    d = as_dictionary({"columns": {"c": {"missing": 0}}, "target": "y"})
    assert open_rows(table, "y", encoding=d).names == ("c",)  # objects, not text: some may be numbers
    assert np.concatenate(open_rows(table, "y", encoding=d).collect(lambda X,
                                                                    y: [X])).tolist() == [[1.]] * 301


# which columns

def test_columns_that_nobody_described():
    d = as_dictionary(WAGE)
    table = PEOPLE.with_columns(regoin=pl.lit(1))
    sentence = refusal(open_rows, table, "wage", encoding=d)
    assert "says nothing about column 'regoin' of data: add [columns.regoin], or choose" in sentence
    assert "columns=[...]" in sentence and "entry" not in sentence  # 'region' has its column
    sentence = refusal(open_rows, table.drop("region"), "wage", encoding=d)
    assert "says nothing about column 'regoin' of data (is 'regoin' its entry 'region'?)" in sentence
    assert "says nothing about column 'regoin'" in refusal(open_rows, table, "wage", ["regoin"], encoding=d)
    assert open_rows(table, "wage", ["married", "age"], encoding=d).names == ("married=true", "age")
    assert "among its features" in refusal(open_rows, PEOPLE, np.ones(4), encoding=d)
    assert open_rows(PEOPLE, np.ones(4), ["age"], encoding=d).names == ("age",)
    text = PEOPLE.with_columns(age=pl.lit("old"))
    assert "gives it no levels" in refusal(open_rows, text, "wage", encoding=d)
    day = PEOPLE.with_columns(region=pl.lit(pd.Timestamp(0)))
    assert "'region' of data has type Datetime" in refusal(open_rows, day, "wage", encoding=d)


def test_ranges_fit_the_encoded_columns():
    d = as_dictionary(WAGE)
    moments = open_rows(PEOPLE, "wage", encoding=d)(Clip(3.0, 60.0, ranges=d.ranges))
    assert moments.names[:-1] == NAMES and moments.n == 4


# groups of the user

def test_joining_groups():
    names, own = ("a", "b", "r=1", "r=2", "c"), {"r": ("r=1", "r=2")}
    assert join_groups({"g": ["c", "a"]}, names, own) == {"g": ("c", "a"), "r": ("r=1", "r=2")}
    assert join_groups({"g": ["r", "a"]}, names, own) == {"g": ("r=1", "r=2", "a")}
    assert join_groups({"g": ["r=1", "r=2"]}, names, own) == {"g": ("r=1", "r=2")}
    assert join_groups({"a": ["a", "b"]}, names, {}) == {"a": ("a", "b")}
    assert join_groups({}, names, own) == own
    for groups, words in (
        (3, "groups=3 is not a dict"), ({"g": "a"}, "group 'g' is 'a'"), ({"g": []}, "at least one column"),
        ({"g": ["d"]}, "unknown column 'd'"), ({"g": ["a"], "h": ["a"]}, "'a' stands in two groups"),
        ({"g": ["a", "a"]}, "twice in one"), ({"g": ["a", "r=1"]}, "some columns of 'r'"),
        ({"b": ["a", "c"]}, "name of another column"), ({"r": ["a", "c"]}, "name of another column"),
    ): assert words in refusal(join_groups, groups, names, own)


# refusals

REFUSED = [
    ({}, "columns are missing: describe at least one"),
    ({"colums": {}}, "unknown key 'colums': did you mean 'columns'?"),
    ({"columns": 3}, "columns=3 is not a table"), ({"columns": {"c": 3}}, "column 'c' is 3"),
    ({"columns": {3: {}}}, "write '3'"),
    ({"target": 3}, "target=3 is not a name"), ({"target": ""}, "target='' is not a name"),
    (of(level=[1]), "did you mean 'levels'?"),
    (of(zzz=1), "there is 'range', 'levels'"), (of(range=[]), "empty range"), (of(range=[1]), "range [1]"),
    (of(range=[2, 1]), "the smaller first"), (of(range=[0, True]), "two numbers"),
    (of(range=[0, "1"]), "two numbers"),
    (of(range=[0, np.inf]), "two numbers"), (of(range=3), "range 3"),
    (of(range=[0, 1], levels=[0, 1]), "and levels"),
    (of(levels=[]), "has no levels yet"), (of(levels="ab"), "give a list"), (of(levels=["a"]), "one level"),
    (of(levels=["a", 1]), "different types"), (of(levels=[0, True]), "different types"),
    (of(levels=[0, np.nan]), "not finite"), (of(levels=[0, [1]]), "different types"),
    (of(levels=[1, 1.0]), "level '1' twice"), (of(levels=[2**53, 2**53 + 1]), "twice"),
    (of(levels=["a", "a"]), "twice"),
    (of(levels=["a", ""]), "empty level"),
    (of(probabilities=[1]), "but no levels"), (of(levels=[0, 1], probabilities=3), "probabilities 3"),
    (of(levels=[0, 1, 2, 3], probabilities=[.5, .3, .2]), "has 4 levels and 3 probabilities: give one"),
    (of(levels=[0, 1], probabilities=[1.5, -.5]), "not negative"),
    (of(levels=[0, 1], probabilities=[.5, .4]), "0.9"),
    (of(levels=[0, 1], probabilities=[.5, .5 + 1e-8]), "make it 1"),
    (of(levels=[0, 1], probabilities=[0, 1]), "nothing"),
    (of(missing="a"), "give a number"), (of(missing=True), "give a number"),
    (of(missing=2, range=[0, 1]), "[0, 1]"),
    (of(missing=2, levels=[0, 1]), "none of its levels"), (of(missing=True, levels=[0, 1]),
                                                           "none of its levels"),
    (of(indicator=True), "no stand-in"), (of(indicator=1, missing=0), "true or false"),
    (of(typical=[1, 2], levels=[0, 1]), "say commonest"), (of(typical=3), "has typical 3: give its mean"),
    (of(typical=[5, 1], range=[0, 4]), "nothing in its range"), (of(typical=[1, 0]), "give its mean"),
    (of(typical=[2, 3], range=[0, 4]), "nothing in its range"), (of(zeros=.5), "a range that begins at 0"),
    (of(zeros=.5, range=[1, 2]), "a range that begins at 0"), (of(zeros=1, range=[0, 2]), "between 0 and 1"),
    (of(commonest=.5), "which is for levels"), (of(commonest=80, levels=[0, 1]), "between 0 and 1"),
    (of(levels=[0, 1, 2]) | {"target": "c"}, "response 'c' has 3 levels"),
    (of(levels=[0, 1], probabilities=[.5, .5]) | {"target": "c"}, "which are for features"),
    (of(missing=0, indicator=True) | {"target": "c"}, "which are for features"),
    ({"columns": {"a": {}, "c": {"levels": ["b", "d"]}, "c=d": {}}}, "called 'c=d'"),
    ({"columns": {"a": {"missing": 0, "indicator": True}, "a is missing": {}}}, "called 'a is missing'"),
    ({"columns": {"c": {"levels": ["b", "d"]}}, "target": "c=d"}, "called 'c=d'"),
    (of() | {"groups": 3}, "groups=3 is not a table"), (of() | {"groups": {"g": 3}}, "group 'g' is 3"),
    (of() | {"groups": {"g": ["d"]}}, "unknown column 'd'"), (of() | {"groups": {"g": []}},
                                                              "group 'g' is []"),
    ({"columns": {"a": {}, "b": {}}, "groups": {"a": ["b"]}}, "name of another column"),
    ({"columns": {"a": {}, "b": {}}, "groups": {"g": ["a"], "h": ["a", "b"]}}, "two groups"),
    ({"columns": {"a": {}, "b": {}}, "groups": {"g": ["a", "b"]}, "target": "b"}, "has the response 'b'"),
    ({"columns": {"a": {}}, "groups": {"y": ["a"]}, "target": "y"}, "or its name"),
]


@pytest.mark.parametrize("content, words", REFUSED)
def test_what_is_no_dictionary(content, words):
    sentence = refusal(as_dictionary, content)
    assert words in sentence and sentence.startswith("the dictionary: ") and "\n" not in sentence, sentence


def test_probabilities_may_be_zero_and_round():
    assert as_dictionary(of(levels=[0, 1, 2], probabilities=[.5, 0, .5])).columns["c"].probabilities == (.5,
                                                                                                         0,
                                                                                                         .5)
    assert as_dictionary(of(levels=list("abc"), probabilities=[1 / 3] * 3))


def test_what_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text("target = wage")
    (tmp_path / "latin.toml").write_bytes("target = 'é'".encode("latin-1"))
    facts = "levels = [1, 2, 3, 4]\nprobabilities = [0.5, 0.3, 0.2]"
    (tmp_path / "wage.toml").write_text(f"[columns.region]\n{facts}")
    assert "'absent.toml' cannot be opened" in refusal(as_dictionary, "absent.toml")
    assert "cannot be opened" in refusal(as_dictionary, tmp_path)
    assert re.search(r"not a TOML file .*line 1", refusal(as_dictionary, "bad.toml"))
    assert "not a TOML file" in refusal(as_dictionary, "latin.toml")
    assert "neither a path nor a dict" in refusal(as_dictionary, 7)
    assert refusal(as_dictionary, "wage.toml") == (
        "wage.toml: column 'region' has 4 levels and 3 probabilities: give one per level")


def test_importing_is_light():
    code = "import sys, dp_knockoff.data.dictionary; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"polars", "pyarrow", "dask", "pandas", "narwhals", "tomllib"} & set(run.stdout.split())


# templates

def test_a_template_is_refused_until_it_is_filled_in(tmp_path):
    path = tmp_path / "new.toml"
    path.write_text(template(dict(nw.from_native(PEOPLE).schema), "wage"))
    assert "column 'age' has an empty range" in refusal(as_dictionary, path)
    path.write_text(path.read_text().replace("range = []", "range = [0, 100]"))
    assert "column 'region' has no levels yet" in refusal(as_dictionary, path)
    path.write_text(path.read_text().replace("levels = []", 'levels = ["south", "north"]'))
    d = as_dictionary(path)
    assert d.target == "wage" and list(d.facts) == PEOPLE.columns and d.column("wage").range == (0, 100)
    assert d.column("married").levels == (False, True) and d.column("region").levels == ("south", "north")


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4, unique=True))
def test_a_template_keeps_every_name(names):
    for target in (None, names[0] or None):
        content = tomllib.loads(template({name: nw.Float64() for name in names}, target))
        assert list(content["columns"]) == names and content["target"] == (target or "")
        assert all(table == {"range": []} for table in content["columns"].values())


def test_templates_of_other_types():
    types = {"day": nw.Date(), "kind": nw.Categorical(), "thing": nw.Object()}
    text = template(types)
    assert "[columns.day]\nrange = []  # first and last day" in text and "levels = []" in text
    assert "\"list\" has type List" in template({"list": nw.List(nw.Int64())})
    assert "target='' is not a name" in refusal(as_dictionary, tomllib.loads(text))
    assert "did you mean 'kind'?" in refusal(template, types, "kin")


def test_it_is_a_class_of_its_own():
    d = Dictionary({"a": Column("a")}, "y")
    assert d.groups == {} and d.ranges == {} and d.encoded(["a"]) == ("a",)
    with pytest.raises(InputError): Dictionary({"a": Column("a")}, "y", {"g": ["b"]})


# ---------------------------------------------------------------- sizes, ranges that clip, subsets

def test_sizes_follow_from_ranges_levels_and_probabilities():
    d = as_dictionary(WAGE)
    names = d.encoded(["age", "region", "married", "hours", "grade"])
    sizes = d.sizes(names)
    assert sizes.typical**2 == pytest.approx(1 / 3 + 3 / 4 + 1 / 2 + 1 / 3 + 1 / 2)
    assert sizes.longest**2 == pytest.approx(6)  # hours have an indicator
    assert (sizes.ends, sizes.center, sizes.unknown) == ((0, 60), 30, ())
    assert sizes.farthest(30) == 30 and sizes.farthest(20) == 40 and sizes.farthest(70) == 70
    assert d.sizes((*names, "children")).unknown == ("children",)
    assert d.sizes((*names, "children"), {"children": (0, 9)}).unknown == ()
    assert d.sizes(("age",)).typical == pytest.approx(3**-.5)
    assert d.with_target("married").sizes(("age",)).ends == (0, 1)


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=30))
def test_no_encoded_row_in_range_is_longer_than_the_longest(rows):
    d = as_dictionary(WAGE)
    ages, codes = zip(*rows)
    levels = ["south", "north", "east", "west"]
    table = pl.DataFrame({"age": [16 + 74 * a for a in ages], "region": [levels[k] for k in codes],
                          "hours": [None if a < .3 else 80 * a for a in ages], "wage": [1.0] * len(rows)})
    source = open_rows(table, "wage", encoding=d)
    X = np.concatenate(source.collect(lambda X, y: [X.copy()]))
    ranges = {name: r for name, r in d.ranges.items() if name in source.names}
    Z = Clip(100.0, 1.0, ranges=ranges).bind(source.names)(X, np.ones(len(X)))[0][:, :-1]  # without the ones
    assert np.linalg.norm(Z, axis=1).max() <= d.sizes(source.names).longest * (1 + 1e-12)


def test_what_is_not_told_is_named():
    d = as_dictionary({"target": "y", "columns": {"a b": {}, "c": {"range": [0, 1]}}})
    said = refusal(d.sizes(("a b", "c")).need_norm, "row_bound=...")
    assert "has no range of 'a b': add [columns.\"a b\"] range = [low, high], or pass row_bound=..." in said
    said = refusal(d.sizes(("c",)).need_ends, "response_bound=...")
    assert "has no range of the response 'y': add [columns.y] range = [low, high]" in said
    nameless = as_dictionary({"columns": {"c": {"range": [0, 1]}}})
    said = refusal(nameless.sizes(("c",)).need_ends, "response_bound=...")
    assert "names no target: add target = ... and [columns....] range = [low, high]" in said


def test_centre_and_bound_of_a_response():
    sizes = as_dictionary(WAGE).sizes(("age",))
    assert sizes.response(None, None, "") == (30, 30) and sizes.response(10.0, None, "") == (10, 50)
    assert sizes.response(None, 7.0, "") == (30, 7) and sizes.response("private", None, "") == ("private", 30)
    open_ended = as_dictionary({"target": "y", "columns": {"age": {"range": [0, 1]}}}).sizes(("age",))
    assert open_ended.response(None, 7.0, "") == (0, 7)
    assert "response_bound is missing" in refusal(open_ended.response, None, None, "x")


def test_a_response_beyond_its_range_is_clipped_and_what_is_not_finite_gets_the_middle():
    d = as_dictionary({"target": "y", "columns": {"a": {}, "y": {"range": [0, 10]}}})
    def answers(values):
        table = pd.DataFrame({"a": np.ones(len(values)), "y": values})
        return np.concatenate(open_rows(table, "y", encoding=d).collect(lambda X, y: [y.copy()])).tolist()
    assert answers([-3.0, 0, 4.5, 10, 1e300]) == [0, 0, 4.5, 10, 10]
    for hole in (np.nan, np.inf, -np.inf): assert answers([1.0, hole]) == [1, 5]


@given(st.sets(st.sampled_from(["age", "region", "married", "hours", "grade", "children"]), min_size=1))
def test_one_dictionary_serves_every_subset_of_its_columns(some):
    some = sorted(some)
    own = {"target": "wage", "columns": {name: WAGE["columns"][name] for name in (*some, "wage")}}
    table = PEOPLE.select([*some, "wage"])
    whole, alone = (open_rows(table, "wage", encoding=as_dictionary(facts)) for facts in (WAGE, own))
    assert whole.names == alone.names
    X, Z = (np.concatenate(source.collect(lambda X, y: [X.copy()])) for source in (whole, alone))
    assert np.array_equal(X, Z)
    one, two = (as_dictionary(facts).sizes(whole.names) for facts in (WAGE, own))
    assert one == two


def test_every_column_without_an_entry_is_listed():
    d = as_dictionary(WAGE)
    said = refusal(open_rows, PEOPLE.with_columns(zip=pl.lit(1), tax=pl.lit(2)), "wage", encoding=d)
    assert "says nothing about columns 'zip', 'tax' of data: add [columns.zip], or choose others" in said
    slip = PEOPLE.rename({"hours": "huors"}).with_columns(zip=pl.lit(1))
    said = refusal(open_rows, slip, "wage", encoding=d)
    assert "columns 'huors', 'zip' of data (is 'huors' its entry 'hours'?)" in said
    said = refusal(open_rows, PEOPLE.rename({"age": "wag"}), "wage", encoding=d)  # the response is no guess
    assert "'wage'?" not in said
    said = refusal(open_rows, PEOPLE.drop("wage"), "wage", encoding=d)
    assert said.startswith("the response 'wage' is not a column of data")


def test_a_template_says_what_to_fill_in():
    text = template(dict(nw.from_native(PEOPLE).schema), "wage")
    filled = tomllib.loads(text)
    assert filled["target"] == "wage" and filled["columns"]["married"] == {"levels": [False, True]}
    lines = dict(zip(text.splitlines(), text.splitlines()[1:]))
    assert "its centre and bound follow" in lines["[columns.wage]"]
    assert "a common one first: it is the reference" in lines["[columns.region]"]
    assert "or levels = [...], if the numbers are codes" in lines["[columns.age]"]
    head = text.partition("target =")[0]
    for key in ("missing", "indicator", "probabilities", "[groups]", "typical", "zeros", "commonest"):
        assert key in head


@pytest.mark.skipif(np.finfo(np.longdouble).max <= np.finfo(float).max, reason="there is nothing longer")
def test_a_number_beyond_float64_is_not_warned_of():
    "NumPy's warning about an overflow would tell that such a row is there"
    huge = np.longdouble("1e4000")
    column = Column("a", range=(0, 1), missing=0.5)
    out = np.empty((1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for values in (np.array([huge, 1.0], dtype=object), np.array([huge, 1.0])):
            column.encode(values, out)
            assert out.tolist() == [[.5, 1.0]]


# dates

DAYS = ["2020-01-31", "1969-12-31", "2020-02-29", None]
NUMBERS_OF_DAYS = [18292, -1, 18321]


def date_columns():
    "The same dates in every form that a library has"
    dates = pl.Series(DAYS).str.to_date()
    stamps = pd.to_datetime(pd.Series(DAYS)) + pd.Timedelta(hours=23)
    yield from (dates, pa.chunked_array([dates.to_arrow()]), dates.to_numpy(), dates.cast(pl.Datetime),
                dates.to_pandas(), stamps,
                stamps.dt.tz_localize("UTC"), stamps.to_numpy(), stamps.astype(object), pl.Series(DAYS),
                dates.cast(pl.Datetime).dt.replace_time_zone("UTC"),
                pa.chunked_array([dates.cast(pl.Datetime).to_arrow()]))
    yield from (pd.Series(DAYS), pa.chunked_array([DAYS]), np.array(DAYS, dtype=object), np.array(DAYS[:3]),
                pd.Series(DAYS, dtype="string"), np.array(dates.to_list(), dtype=object))


def test_dates_are_days_and_parts_of_dates_are_levels():
    for column in date_columns():
        n = len(column)
        wanted = [*NUMBERS_OF_DAYS, 14610.0][:n]
        assert encoded(column, range=["1960-01-01", "2020-01-01"], missing="2010-01-01") == [wanted]
        middle = encoded(column, range=[dt.date(1970, 1, 1), dt.datetime(1970, 1, 11)], missing=None)[0]
        assert middle == [*NUMBERS_OF_DAYS, 5.0][:n]
        months = np.array(encoded(column, levels="month", missing="March", indicator=True))
        assert months.shape == (12, n) and months.sum(0).tolist() == [0, 1, 1, 2][:n]
        assert months[10, 1] == 1 and months[0, 2] == 1 and (n == 3 or months[1, 3] == 1)
        weekdays = np.array(encoded(column, levels="weekday"))
        assert [np.flatnonzero(day).tolist() for day in weekdays.T] == [[3], [1], [4], []][:n]
    names = Column("when", levels="weekday", merge={"weekend": ["Saturday", "Sunday"]}).encoded
    assert names == tuple(f"when={day}" for day in ("Tuesday", "Wednesday", "Thursday", "Friday", "weekend"))
    for day in range(-10**4, 10**4, 77):
        date = np.array([day], dtype="M8[D]")
        found = np.flatnonzero(encoded(date, levels="weekday"))
        assert found.tolist() == [date.item().weekday() - 1] * (date.item().weekday() > 0)


@pytest.mark.parametrize("cell", ["", "soon", "2020-13-01", 3, 2.5, b"\xff", None, pd.NaT, [1], "2020-01-01x",
                                  dt.time(1), 10**400, 1j, np.datetime64("NaT"), "9" * 10**5])
def test_what_is_no_date_gets_the_stand_in(cell):
    column = np.empty(2, dtype=object)
    column[:] = [cell, dt.date(1970, 1, 3)]
    keys = dict(range=["1970-01-01", "1970-01-09"], missing="1970-01-02", indicator=True)
    assert encoded(column, **keys) == [[1, 2], [1, 0]]


def test_dates_that_a_table_has_and_types_that_have_none():
    facts = {"target": "y", "columns": {"a": {"range": [dt.date(1970, 1, 1), dt.date(1970, 1, 9)]}}}
    d = as_dictionary(tomllib.loads("target = 'y'\n[columns.a]\nrange = [1970-01-01, 1970-01-09]"))
    assert d == as_dictionary(facts) and d.ranges == {"a": (0.0, 8.0)} and d.column("a").kind == "text"
    table = pl.DataFrame({"a": [dt.date(1970, 1, 5), None], "y": [1.0, 2.0]})
    assert block(table, d, "y")[0].tolist() == [[4.0], [4.0]]
    said = refusal(open_rows, table.with_columns(a=pl.lit(3)), "y", encoding=d)
    assert "'a' of data has type Int" in said and "range of numbers" in said
    said = refusal(open_rows, table, "y", encoding=as_dictionary({"columns": {"a": {"range": [0, 1]}}}))
    assert "has type Date" in said and "range = [2010-01-01, 2020-12-31]" in said
    assert "range = [2010-01-01, 2020-12-31]" in refusal(open_rows, table, "y")


def test_rare_levels_become_one():
    facts = dict(levels=["CA", "TX", "AK", "NV"], merge={"few": ["NV", "AK"]}, missing="NV", indicator=True)
    cells = ["AK", "TX", "NV", None, "CA", "few", "?"]
    wanted = [[0, 1, 0, 0, 0, 0, 0], [1, 0, 1, 1, 0, 0, 0], [0, 0, 0, 1, 0, 0, 0]]
    for column in (np.array(cells, dtype=object), pl.Series(cells), pa.chunked_array([cells]),
                   pd.Series(cells), pl.Series(cells, dtype=pl.Categorical)):
        assert encoded(column, **facts) == wanted
    column = Column("c", levels=[1, 2, 3], merge={"1": [1, 3]}, probabilities=[.2, .5, .3])
    assert column.levels == ("1", 2) and column.probabilities == (.5, .5) and column.kind == "number"
    assert encoded(np.array([1.0, 2, 3, 9]), levels=[1, 2, 3], merge={"odd": [1, 3]}) == [[0, 1, 0, 0]]
    assert Column("c", levels=["a", "b", "c"], merge={"b": ["c"]}).levels == ("a", "b")
    assert Column("c", levels=["a", "b", "c"], merge={"b": ["c"]}, missing="c").encoded == ("c=b",)
    one, two = Column("c", **facts), Column("c", levels=["CA", "TX", "few"])
    assert one.mean_square == two.mean_square and one.levels == two.levels


@pytest.mark.parametrize("keys, words", [
    (dict(range=["2020-01-01", "2010-01-01"]), "the earlier first"),
    (dict(range=["2020-01-01", 3]), "has range"),
    (dict(range=["2020-01-01"]), "give two dates"), (dict(range=["soon", "later"]), "give two numbers"),
    (dict(range=["2010-01-01", "2020-01-01"], missing=3), "give a date"),
    (dict(range=["2010-01-01", "2020-01-01"], missing="2021-01-01"), "its range [2010-01-01, 2020-01-01]"),
    (dict(range=["2010-01-01", "2020-01-01"], levels=["a", "b"]), "a range and levels"),
    (dict(levels="months"), "has levels 'months'"),
    (dict(levels="month", missing="Mar"), "none of its levels"),
    (dict(levels="month", range=[0, 1]), "a range and levels"), (dict(merge={"a": ["b"]}), "no levels"),
    (dict(levels=["a", "b"], merge=["a"]), "has merge ['a']"),
    (dict(levels=["a", "b"], merge={"a": "b"}), "merge"),
    (dict(levels=["a", "b"], merge={"": ["b"]}), "merge"),
    (dict(levels=["a", "b"], merge={"x": ["a", "b"]}), "one level when others are merged"),
    (dict(levels=["alpha", "b"], merge={"x": ["alpa"]}), "did you mean 'alpha'"),
    (dict(levels=["a", "b", "c"], merge={"x": ["a"], "z": ["a"]}), "merges 'a' twice"),
    (dict(levels=["a", "b", "c"], merge={"x": [["a"]]}), "none of its levels"),
])
def test_what_is_said_wrongly_of_dates_and_rare_levels(keys, words):
    assert words in refusal(as_dictionary, of(**keys))
