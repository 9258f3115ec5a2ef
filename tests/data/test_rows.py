"Rows: every form of a table gives the same blocks, blocks add up in one order, bad data gets one sentence."
import threading
import time
from functools import reduce
from operator import add

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.rows import (
    _AHEAD,
    _GROUP,
    Piece,
    Rows,
    block_rows,
    check_unique,
    column_names,
    sum_blocks,
    sum_pieces,
)
from same_rows import told

X, y, _ = linear_model(120, p=4, k=2, random_state=0)
NAMES = list("abcd")
FRAME = pd.DataFrame(X, columns=NAMES).assign(y=y)
ARROW = pa.Table.from_pandas(FRAME)


def all_of(rows):
    return rows.block(0, len(rows))


def holds(rows, A=X, b=y):
    "Does it hold these rows, in float64?"
    U, v = all_of(rows)
    return U.dtype == v.dtype == np.float64 and np.array_equal(U, A) and np.array_equal(v, b)


# forms of tables

@pytest.mark.parametrize("table", [FRAME, pl.from_pandas(FRAME), ARROW], ids=["pandas", "polars", "arrow"])
def test_tables_of_all_kinds_are_read(table):
    rows = Rows(table, "y")
    assert rows.names == tuple(NAMES) and rows.response == "y" and len(rows) == 120 and holds(rows)


RESPONSES = {
    "pandas": FRAME["y"],
    "polars": pl.Series("y", y),
    "arrow": pa.chunked_array([y]),
    "column": y[:, None],
    "list": list(y),
    "one-column frame": FRAME[["y"]],
}


@pytest.mark.parametrize("form", RESPONSES)
def test_responses_of_all_kinds_are_read(form):
    assert holds(Rows(X, RESPONSES[form]))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool, object])
def test_all_types_of_numbers_become_float64(dtype):
    A = (np.abs(X) * 3).astype(dtype)
    assert holds(Rows(A, y), A.astype(np.float64))


def test_nullable_integers_without_nulls_and_mixed_types():
    table = pd.DataFrame({"a": pd.array([1, 2, 3], dtype="Int64"), "b": [True, False, True], "c": [.5, 1, 2]})
    assert holds(Rows(table, [1., 2, 3]), [[1, 1, .5], [2, 0, 1], [3, 1, 2]], [1, 2, 3])


def test_float64_is_not_copied():
    A, b = all_of(Rows(X, y))
    assert np.shares_memory(A, X) and np.shares_memory(b, y)


def test_names_are_strings_and_unique():
    assert column_names(2) == ("x0", "x1") and column_names(2, [1, "b"]) == ("1", "b")
    check_unique(["a", "A", 1])
    assert "'b', 'c' stands more than once" in refusal(check_unique, list("abccbc"))
    for nothing in (None, np.nan): assert "a column has no name" in refusal(check_unique, ["a", nothing])


# refusals

def with_value(value, dtype=float):
    A = X.astype(dtype)
    A[17, 1] = value
    return A


def frame_with(**columns): return FRAME.assign(**columns)


DATES = pd.date_range("2020-01-01", periods=120)
CATEGORIES = pl.DataFrame({"a": [1., 2.], "b": pl.Series(["1", "2"], dtype=pl.Categorical), "y": [1., 2.]})
BAD = {
    "length of y": ((X, y[:-1]), "y has 119 entries but X has 120 rows"),
    "y is a matrix": ((X, X), "y has shape (120, 4)"),
    "X is a vector": ((y, y), "X has shape (120,)"),
    "ragged X": (([[1, 2], [3]], [1, 2]), "rows of different lengths"),
    "ragged y": ((X[:2], [[1], [2, 3]]), "y has entries of different lengths"),
    "no columns": ((X[:, :0], y), "X has no columns"),
    "only the target": ((FRAME[["y"]], "y"), "X has no column besides the response 'y'"),
    "text": ((with_value("red", object), y), "infinite values in column 'x1'"),
    "text y": ((X, ["red"] * 120), "infinite values in column 'y'"),
    "text table": ((frame_with(b="red"), "y"), "column 'b'"),
    "polars text": ((pl.from_pandas(frame_with(b="red")), "y"), "column 'b'"),
    "arrow text": ((pa.Table.from_pandas(frame_with(b="red")), "y"), "column 'b'"),
    "category": ((frame_with(b=pd.Categorical(["u", "v"] * 60)), "y"), "column 'b'"),
    "dates": ((frame_with(b=DATES), "y"), "column 'b'"),
    "polars dates": ((pl.from_pandas(frame_with(b=DATES)), "y"), "column 'b' of X has type Datetime"),
    "polars categories": ((CATEGORIES, "y"), "column 'b' of X holds categories"),
    "arrow dates": ((pa.Table.from_pandas(frame_with(b=DATES)), "y"), "column 'b' of X has type Datetime"),
    "text target": ((frame_with(y="red"), "y"), "column 'y'"),
    "masked X": ((np.ma.masked_array(X, X > 2), y), "X is a masked array"),
    "masked y": ((X, np.ma.masked_array(y, y > 2)), "y is a masked array"),
    "other index": ((FRAME[NAMES], FRAME["y"].sort_values()), "different indexes"),
    "duplicate names in pandas": ((pd.DataFrame(X, columns=list("aabc")), y), "'a' stands more than once"),
    "clash of a frame": ((pd.DataFrame(X, columns=[1, "1", 2, 3]), y), "'1' stands more than once"),
    "missing value": ((with_value(pd.NA, object), y), "infinite values in column 'x1'"),
    "complex": ((X + 1j, y), "infinite values in columns 'x0'"),
    "sparse": ((scipy.sparse.csr_matrix(X), y), "X.toarray()"),
    "lazy": ((pl.from_pandas(FRAME).lazy(), "y"), "X.collect()"),
    "path": (("rows.csv", "y"), "X is a path: open it with dp_knockoff.open_source"),
    "unknown target": ((FRAME, "z"), "the response 'z' is not a column of X"),
    "target of an array": ((X, "y"), "X is not a table"),
    "names is a number": ((X, y, 5), "names=5"),
    "names twice": ((X, y, ["a", "b", "a", "c"]), "'a' stands more than once"),
    "columns of a table": ((FRAME, "y", ["a", "e"]), "X has no column 'e'"),
    "too few names": ((X, y, ["a"]), "names has 1 entries but X has 4 columns"),
}


def read(*data):
    "All rows, if they can be summed"
    rows = Rows(*data)
    fault = Piece(rows, 0, len(rows), "X").fault()
    if fault: raise fault


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    data, words = BAD[case]
    sentence = refusal(read, *data)
    assert words in sentence and "\n" not in sentence, sentence


@pytest.mark.parametrize("value", [10**400, -10**400, 10**309])
def test_a_whole_number_of_any_size_is_a_number(value):
    "Finding 7: a finite value decided whether there was an answer"
    largest = np.sign(value) * np.finfo(float).max
    for table in (with_value(value, object), pd.DataFrame(with_value(value, object), columns=NAMES)):
        A, b = all_of(Rows(table, y))
        assert A[17, 1] == largest and (np.delete(A, 17, axis=0) == np.delete(X, 17, axis=0)).all()
        assert (A[17, [0, 2, 3]] == X[17, [0, 2, 3]]).all() and (b == y).all()
    assert all_of(Rows(X, np.array([*y[1:], value], dtype=object)))[1][-1] == largest
    beside = with_value(value, object)
    beside[3, 1] = None
    assert np.isnan(all_of(Rows(beside, y))[0][3, 1])
    beside[3, 1] = "red"
    assert np.isinf(all_of(Rows(beside, y))[0][3, 1])


def test_a_fault_is_called_by_its_name_and_its_row_is_a_detail():
    def never(A, b): raise FloatingPointError
    def fault(A, b):
        rows = Rows(pd.DataFrame(A, columns=NAMES).assign(dose=b), "dose")
        return told(sum_pieces, [Piece(rows, 100, 120, "X")], 4, never)
    A, b = X.copy(), y.copy()
    b[119] = -np.inf
    remedy = "drop or impute those rows, or give a dictionary with missing = ..."
    assert fault(A, b) == (f"X has missing, non-numeric, NaN or infinite values in column 'dose': {remedy}",
                           "In rows 100 to 119 there are 1 in 'dose'; the first in row 119.")
    A[103, 2] = np.inf
    both = "X has missing, non-numeric, NaN or infinite values in columns 'c', 'dose'"
    assert fault(A, b)[0] == f"{both}: {remedy}"
    assert fault(A, b)[1].endswith("1 in 'c', 1 in 'dose'; the first in row 103.")
    assert "column 'b' is so large that its squares overflow" in fault(X * [1, 1e200, 1e199, 1], y)[0]
    assert fault(X, y * 1e200) == ("X: column 'dose' is so large that its squares overflow: rescale it", "")


# the pass

class Number:
    "A block of a single number, which takes its time"
    def __init__(self, value, seconds=0.0, rows=1): self.value, self.seconds, self.rows = value, seconds, rows

    def __len__(self): return self.rows

    def read(self):
        time.sleep(self.seconds)
        return np.array([[self.value]]), np.ones(1)

    def fault(self, A, b): return InputError("one is no number", details=f"It is {self.value}.")


def first_number(A, b):
    if not np.isfinite(A[0, 0]): raise FloatingPointError
    return A[0, 0]


def in_groups(values):
    "The sum as it is defined: groups from left to right, then the groups' sums"
    return reduce(add, [reduce(add, values[i:i + _GROUP]) for i in range(0, len(values), _GROUP)])


def test_the_size_of_blocks_and_groups():
    "Changing either changes the digits of every sum"
    assert [block_rows(p) for p in (1, 50, 1000, 2**20)] == [262_144, 10_280, 523, 256] and _GROUP == 64


NUMBERS = st.lists(st.sampled_from([1.0, 1e16, -1e16, .1]), min_size=1, max_size=200)


@given(values=NUMBERS, threads=st.sampled_from([1, 2, 5]))
def test_any_number_of_blocks_is_added_in_the_order_of_the_rows(values, threads):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: threads)
        assert sum_blocks(map(Number, values), first_number) == in_groups(values)


def test_threads_that_finish_in_any_order_change_no_digit(monkeypatch):
    rng = np.random.default_rng(0)
    values = rng.permutation([1.0, 1e16, -1e16] * 50)
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    for _ in range(3):
        blocks = [Number(v, s) for v, s in zip(values, rng.exponential(3e-4, len(values)))]
        assert sum_blocks(blocks, first_number) == in_groups(values)


def test_the_cpu_count_may_be_unknown(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert sum_blocks(map(Number, range(9)), first_number) == 36


def test_no_block_is_nothing_and_one_block_needs_no_thread():
    def where(A, b): return [threading.current_thread()]
    assert sum_blocks([], where) is None
    assert sum_blocks([Number(1.0)], where) == [threading.current_thread()]
    assert threading.current_thread() not in sum_blocks([Number(1.0)] * 8, where)


def test_a_bounded_number_of_blocks_is_under_way(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    finished, waiting = [], []
    def blocks():
        for i in range(300):
            waiting.append(i + 1 - len(finished))
            yield Number(float(i))
    sum_blocks(blocks(), first_number, finished.append)
    assert 2 * _AHEAD <= max(waiting) <= 2 * _AHEAD + 2


def test_progress_counts_rows_in_order_on_the_callers_thread():
    seen = []
    def progress(rows): seen.append((rows, threading.current_thread()))
    for k in (1, 200):
        seen.clear()
        sum_blocks([Number(1.0, rows=i + 1) for i in range(k)], first_number, progress)
        assert seen == [(i + 1, threading.current_thread()) for i in range(k)]


@pytest.mark.parametrize("count", [1, 100])
def test_what_is_not_finite_is_explained_by_its_block(count):
    blocks = [*map(Number, range(count - 1)), Number(np.inf)]
    assert told(sum_blocks, blocks, first_number) == ("one is no number", "It is inf.")


@pytest.mark.parametrize("count", [1, 100])
def test_other_errors_pass(count):
    def summarise(A, b): raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"): sum_blocks([Number(1.0)] * count, summarise)
    def blocks():
        yield from map(Number, range(count))
        raise OSError("the disk")
    with pytest.raises(OSError, match="the disk"): sum_blocks(blocks(), first_number)
