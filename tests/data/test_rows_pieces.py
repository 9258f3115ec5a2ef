"Pieces: blocks are the same rows however they arrive, headers find what is wrong, bad values are located."
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.testing import refusal
from dp_knockoff.data import rows as rows_module
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.moments import Moments, summariser
from dp_knockoff.data.rows import Header, Piece, Rows, block_rows, sum_pieces
from same_rows import CLIP, NAMES, TABLE, N, X, as_source, identical, told, y

open_rows = as_source(rows_module.open_rows)


def count(A, b): return len(b)


def numbers(n):
    "Rows whose response counts them"
    return Rows(np.zeros((n, 1)), np.arange(n))


def cut(rows, lengths):
    "Pieces of these lengths"
    stops = np.cumsum([0, *lengths])
    return [Piece(rows, int(a), int(b), f"piece {i}") for i, (a, b) in enumerate(zip(stops, stops[1:]))]


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30))
def test_blocks_are_the_same_rows(lengths, size):
    n = sum(lengths)
    blocks = list(rows_module._in_blocks(cut(numbers(n), lengths), size))
    assert [len(block) for block in blocks] == [size] * (n // size) + [n % size] * (n % size > 0)
    assert [value for block in blocks for value in block.read()[1]] == list(range(n))


def test_a_part_of_a_part_stands_where_it_stood():
    piece = Piece(numbers(50), 10, 40, "a file", first=1000).part(5, 25).part(3, 9)
    assert (piece.start, piece.stop, len(piece), piece.where, piece.first) == (18, 24, 6, "a file", 1000)
    assert piece.read()[1].tolist() == list(range(18, 24))


@given(st.data())
def test_any_split_gives_the_same_bits(data):
    n = data.draw(st.integers(1, 900))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
    clip = data.draw(st.sampled_from([None, Clip(1.5, 2.0, intercept=False)]))
    A, b = X[:n].repeat(3, axis=1), y[:n]  # blocks of 256 rows would need p > 2000, so the size is patched
    rows = Rows(A, b)
    pieces = cut(rows, np.diff([0, *cuts, n]))
    summarise = summariser(rows.names, clip)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "block_rows", lambda p: 100)
        whole = sum_pieces([Piece(rows, 0, n, "")], 60, summarise)
        identical(sum_pieces(pieces, 60, summarise), whole)
    identical(sum_pieces(pieces, 60, summarise), Moments.from_data(A, b, clip=clip))


@pytest.mark.parametrize("p", [1, 7, 50, 3000])
def test_blocks_are_those_of_from_data(p, monkeypatch):
    "The digits agree only if a block here is a block there"
    lengths, right = [], Moments.__add__
    monkeypatch.setattr(Moments, "__add__", lambda a, b: lengths.append(b.n) or right(a, b))
    n = 2 * block_rows(p) + 1
    A, b = np.broadcast_to(np.linspace(0, 1, n)[:, None], (n, p)), np.zeros(n)
    Moments.from_data(A, b)
    assert lengths == [block_rows(p), 1]
    lengths.clear()
    open_rows(A, b)()
    assert lengths == [block_rows(p), 1]


def test_many_blocks_are_added_in_the_order_and_groups_of_from_data():
    rng, n = np.random.default_rng(0), 67 * block_rows(1) + 5
    A, b = rng.integers(-99, 99, (n, 1), dtype=np.int8), rng.integers(-99, 99, n, dtype=np.int8)
    identical(open_rows(A, b)(), Moments.from_data(A, b))


# tables


def test_a_header_says_what_is_wrong_with_the_first_column_that_is():
    header = Header.of("the table", TABLE.with_columns(ward=pl.lit("A")))
    assert header.features("y", NAMES[:2]) == NAMES[:2] and header.labels[-1] == "ward"
    for args, words in {
        ("price",): "'price' is not a column of the table", (None,): "y is missing: name the response's",
        (3,): "y=3 is not the name", ("y",): "column 'ward' of the table holds text",
        ("ward", ("x1",)): "column 'ward'", ("y", "x1"): "not a list", ("y", ("x1", "x1")): "clash",
        ("y", ("y",)): "leave it out", ("y", ("age",)): "no column 'age'", ("y", ()): "no feature",
    }.items(): assert words in refusal(header.features, *args)
    assert "the table: column names clash" in refusal(Header, "the table", ["a", "a"], {})


def test_a_table_is_opened_with_its_columns_in_the_order_asked_for():
    for table in (TABLE, TABLE.to_pandas(), TABLE.to_arrow()):
        rows = Rows(table, "y", ["x4", "x1"])
        assert rows.names == ("x4", "x1") and np.array_equal(rows.block(0, N)[0], X[:, [4, 1]])
        assert Rows(table, y, ["x4"]).names == ("x4",)
        assert "no column 'age'" in refusal(Rows, table, y, ["age"])
    twice = pd.concat([TABLE.to_pandas()] * 2, axis=1)
    assert "clash" in refusal(Rows, twice, "y")


def test_missing_values_in_memory():
    frame = TABLE.to_pandas()
    for table in (
        frame.assign(x3=frame.x3.where(frame.x3 < 3.5)),
        frame.assign(x3=pd.array([1, None] * (N // 2), dtype="Int64")),
        TABLE.with_columns(x3=pl.when(pl.col("x3") < 3.5).then("x3")),
        TABLE.with_columns(x3=pl.Series([True, None] * (N // 2))),
    ):
        source = open_rows(table, "y")
        for sentence in (refusal(source), refusal(source, CLIP), refusal(source.collect, count)):
            assert "infinite values" in sentence and "'x3'" in sentence and "drop or impute" in sentence
    prices = frame.rename(columns={"y": "price"})
    prices.loc[5, "price"] = np.inf
    sentence, details = told(open_rows(prices, "price"))
    assert sentence == "data has missing, non-numeric, NaN or infinite values in column 'price': " \
                       "drop or impute those rows, or give a dictionary with missing = ..."
    assert "1 in 'price'" in details and "the first in row 5." in details
    sentence, details = told(open_rows(X, np.where(np.arange(N) == 29_999, np.nan, y)))
    assert "'y'" in sentence and "row 29999" in details
    objects = frame.astype(object)
    objects.loc[20_000, "x3"] = "two"
    assert "in column 'x3'" in refusal(open_rows(objects, "y"))


def test_the_counts_of_the_details_are_those_of_a_piece_and_rows_are_those_of_the_file():
    rows = Rows(np.where(np.arange(60)[:, None] % 20 == 19, np.nan, np.ones((60, 8))), np.ones(60))
    piece = Piece(rows, 30, 60, "a file", first=1000)
    columns = ", ".join(f"2 in 'x{j}'" for j in range(6)) + " and more in 2 other columns"
    six = ", ".join(f"'x{j}'" for j in range(6))
    bad = f"a file has missing, non-numeric, NaN or infinite values in columns {six} and 2 more"
    assert str(piece.fault()) == f"{bad}: drop or impute those rows, or give a dictionary with missing = ..."
    assert piece.fault().details == f"In rows 1030 to 1059 there are {columns}; the first in row 1039."
    assert Piece(rows, 0, 19, "a file").fault() is None


# memory maps


def test_a_memory_map_is_not_loaded(tmp_path):
    "Ten times the memory that the pass may use"
    if not os.path.exists("/proc/self/status"): pytest.skip("needs /proc")
    code = """
import re, sys
import numpy as np
from dp_knockoff.data.rows import open_rows
from dp_knockoff.data.source import Source
def memory(): return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
n, p, (X, y) = 2_000_000, 20, sys.argv[1:]
np.lib.format.open_memmap(X, "w+", float, (n, p)).flush()
np.save(y, np.arange(n) % 7)
X, y = (np.load(path, mmap_mode="r") for path in (X, y))
Source(open_rows(X[:1000], np.arange(1000)))()
before, seen = memory(), []
print(Source(open_rows(X, y), lambda rows: seen.append(memory()))().n, max(seen) - before)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "X.npy"), str(tmp_path / "y.npy")]
    n, grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(n) == 2_000_000 and float(grown) < 120, f"{grown} MB of a file of 320"


def test_a_changed_copy_on_write_map_keeps_its_changes(tmp_path):
    np.save(tmp_path / "X.npy", X)
    A = np.load(tmp_path / "X.npy", mmap_mode="c")
    A[:] += 1
    for _ in range(2): identical(open_rows(A, y)(), Moments.from_data(X + 1, y))
