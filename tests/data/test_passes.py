"Passes: blocks are the same rows however they arrive, summaries see finite numbers only, holes are located."
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data import moments, passes
from dp_knockoff.data.clip import INTERCEPT, Clip
from dp_knockoff.data.moments import Moments, summariser
from dp_knockoff.data.passes import Header, MomentsSource, Piece, Source, open_rows, open_table, sum_pieces
from dp_knockoff.data.rows import Rows, block_rows
from same_rows import CLIP, NAMES, TABLE, N, P, X, identical, told, y


def numbers(n):
    "Rows whose response counts them"
    return Rows(np.zeros((n, 1)), np.arange(n))


def cut(rows, lengths):
    "Pieces of these lengths"
    stops = np.cumsum([0, *lengths])
    return [Piece(rows, int(a), int(b), f"piece {i}") for i, (a, b) in enumerate(zip(stops, stops[1:]))]


# pieces and blocks

@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30))
def test_blocks_are_the_same_rows(lengths, size):
    n = sum(lengths)
    blocks = list(passes._in_blocks(cut(numbers(n), lengths), size))
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
        patch.setattr(passes, "block_rows", lambda p: 100)
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


# summaries

def test_any_summary_is_added_up_in_order():
    source = Source.from_pieces("numbers", ["a"], lambda: cut(numbers(1000), [300, 0, 450, 250]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "block_rows", lambda p: 7)
        assert source.collect(lambda A, b: b.tolist()) == list(range(1000))
        assert source.collect(lambda A, b: np.array([len(b), b.sum()])).tolist() == [1000, 499500]
    assert source.collect(lambda A, b: 0) == 0  # a sum of nothing but zeros is not a pass over nothing


def test_a_summary_gets_float64_blocks_of_the_usual_length():
    seen, n = [], 2 * block_rows(3) + 9
    source = open_rows(np.ones((n, 3), dtype=np.int8), np.ones(n, dtype=bool))
    source.collect(lambda A, b: seen.append((A.dtype, b.dtype, len(b))) or 0)
    assert sorted(seen, key=lambda s: -s[2]) == [(float, float, k) for k in (block_rows(3), block_rows(3), 9)]


def with_value(table, name, row, value):
    "The table with one value changed"
    here = pl.int_range(len(table)) == row
    return table.with_columns(pl.when(here).then(value).otherwise(name).alias(name))


def count(A, b): return len(b)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["x0", "y"])
def test_collect_hands_over_finite_rows_only(value, name):
    table = with_value(TABLE[:500], name, 321, value)
    sentence, details = told(open_rows(table, "y").collect, count)
    assert f"data has NaN or infinite values in column {name!r}: " in sentence
    assert f"1 in {name!r}; the first in row 321" in details
    both = with_value(table, "x1", 7, -value)  # they must not cancel
    assert "first in row 7" in told(open_rows(both, "y").collect, count)[1]


def test_collect_takes_numbers_of_any_size():
    table = with_value(with_value(TABLE[:500], "x0", 3, 1.7e308), "y", 5, 1.7e308)
    assert open_rows(table, "y").collect(count) == 500


def test_an_error_of_a_summary_is_its_own():
    source = open_rows(X, y)
    with pytest.raises(ZeroDivisionError): source.collect(lambda A, b: 1 / 0)
    def refuses(A, b): raise InputError("no")
    assert refusal(source.collect, refuses) == "no"
    def gives_up(A, b): raise FloatingPointError
    assert "so large" in refusal(source.collect, gives_up)  # all values are finite
    assert "summarise=3" in refusal(source.collect, 3)


def test_moments_and_summaries_take_passes_alike():
    source = Source.from_pieces("rows", NAMES, lambda: [Piece(Rows(X, y), 0, N, "rows")], once=True)
    assert source.collect(lambda A, b: len(b)) == N
    assert "only once" in refusal(source)


def test_a_pass_in_bounds_does_the_same_whatever_the_numbers_are(monkeypatch):
    "Finding 9: the branch that centres a block again, which one row flips, is not on its way"
    def never(*args): raise AssertionError("moments without bounds")
    monkeypatch.setattr(moments, "block_moments", never)
    for shift in (0, 1e6): assert open_rows(X + shift, y)(CLIP).n == N
    with pytest.raises(AssertionError): open_rows(X, y)()
    looked, isfinite = [], np.isfinite
    def watch(values):
        looked.append(values.shape)
        return isfinite(values)
    monkeypatch.setattr(np, "isfinite", watch)
    for value in (1.0, 1.7e308):  # the second overflows in a sum
        A = np.full((50, 2), value)
        passes._OfFinite(count, False)(A, y[:50])
    assert looked == [(50, 2), (50,)] * 2


# sources

def test_bounds_that_do_not_fit_are_refused_before_a_row_is_read():
    def never(): raise AssertionError("read")
    source = Source.from_pieces("rows", ["a"], never, once=True)
    assert refusal(source, Clip(1.0, 1.0, ranges={"age": (0, 9)})).startswith("ranges name columns")
    assert "clip=3" in refusal(source, 3)
    with pytest.raises(AssertionError): source()  # the one pass was not used up


def test_progress_hears_of_every_block():
    seen = []
    source = open_rows(X, y, progress=seen.append)
    assert source().n == N and seen == [block_rows(P), N - block_rows(P)]
    source.collect(lambda A, b: 0)
    assert sum(seen) == 2 * N
    assert "progress=3" in refusal(open_rows, X, y, progress=3)


def test_a_pass_over_nothing_is_refused():
    left = [[Piece(Rows(X, y), 0, N, "rows")], []]
    source = Source.from_pieces("the stream", NAMES, lambda: left.pop(0))
    source()
    assert refusal(source).startswith("the stream had no rows left for another pass: return a fresh iterator")
    assert refusal(Source.from_pieces("it", NAMES, list)) == "it has no rows: pass at least one"


def test_few_blocks_are_under_way():
    "The reader is never far ahead of the sums"
    read, done, lead = [0], [0], []
    def pieces():
        for i in range(200):
            read[0] += 1
            yield Piece(Rows(X[:block_rows(P)], y[:block_rows(P)]), 0, block_rows(P), f"piece {i}")
    def progress(rows):
        done[0] += 1
        lead.append(read[0] - done[0])
    assert Source.from_pieces("rows", NAMES, pieces, progress=progress)().n == 200 * block_rows(P)
    assert max(lead) <= 4 * (os.cpu_count() or 1) + 3


def test_moments_are_a_source_of_themselves():
    m, clipped = Moments.from_data(X, y), Moments.from_data(X, y, clip=CLIP)
    assert MomentsSource(m)() is m and MomentsSource(clipped)(CLIP) is clipped
    assert MomentsSource(m).rows == N
    assert MomentsSource(m).names == MomentsSource(clipped).names == tuple(NAMES)
    assert INTERCEPT in clipped.names and MomentsSource(clipped).moments is clipped
    assert refusal(MomentsSource(clipped)) == ("these Moments are of rows in bounds, for the moments filter: "
                                               "collect them without a Clip for this filter")
    for other in (m, Moments.from_data(X, y, clip=Clip(4.0, 3.0))):
        assert "within the bounds" in refusal(MomentsSource(other), CLIP)
    assert "summed already and cannot be read again" in refusal(MomentsSource(m).collect, len)
    assert "clip=2" in refusal(MomentsSource(m), 2)


# tables

def test_a_header_says_what_is_wrong_with_the_first_column_that_is():
    header = Header.of("the table", TABLE.with_columns(ward=pl.lit("A")))
    assert header.features("y", NAMES[:2]) == NAMES[:2] and header.labels[-1] == "ward"
    for args, words in {
        ("price",): "'price' is not a column of the table", (None,): "y is missing: name the response's",
        (3,): "the response 3 is not the name", ("y",): "column 'ward' of the table holds text",
        ("ward", ("x1",)): "column 'ward'", ("y", "x1"): "not a list", ("y", ("x1", "x1")): "clash",
        ("y", ("y",)): "leave it out", ("y", ("age",)): "no column 'age'", ("y", ()): "no feature",
    }.items(): assert words in refusal(header.features, *args)
    assert "the table: column names clash" in refusal(Header, "the table", ["a", "a"], {})


def test_a_table_is_opened_with_its_columns_in_the_order_asked_for():
    for table in (TABLE, TABLE.to_pandas(), TABLE.to_arrow()):
        rows = open_table("the table", table, "y", ["x4", "x1"])
        assert rows.names == ("x4", "x1") and np.array_equal(rows.block(0, N)[0], X[:, [4, 1]])
        assert open_table("the table", table, y, ["x4"]).names == ("x4",)
        assert "no column 'age'" in refusal(open_table, "the table", table, y, ["age"])
    twice = pd.concat([TABLE.to_pandas()] * 2, axis=1)
    assert "clash" in refusal(open_table, "the table", twice, "y")


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
            assert "missing values" in sentence and "'x3'" in sentence and "drop or impute" in sentence
    prices = frame.rename(columns={"y": "price"})
    prices.loc[5, "price"] = np.inf
    sentence, details = told(open_rows(prices, "price"))
    assert sentence == "data has NaN or infinite values in column 'price': drop or impute those rows"
    assert "1 in 'price'" in details and "the first in row 5." in details
    sentence, details = told(open_rows(X, np.where(np.arange(N) == 29_999, np.nan, y)))
    assert "'y'" in sentence and "row 29999" in details
    objects = frame.astype(object)
    objects.loc[20_000, "x3"] = "two"
    assert refusal(open_rows(objects, "y")).startswith("data: column 'x3' of type str holds values")


def test_the_counts_of_the_details_are_those_of_a_piece_and_rows_are_those_of_the_file():
    rows = Rows(np.where(np.arange(60)[:, None] % 20 == 19, np.nan, np.ones((60, 8))), np.ones(60))
    piece = Piece(rows, 30, 60, "a file", first=1000)
    columns = ", ".join(f"2 in 'x{j}'" for j in range(6)) + " and more in 2 other columns"
    six = ", ".join(f"'x{j}'" for j in range(6))
    assert str(piece.fault()) == (f"a file has NaN or infinite values in columns {six} and 2 more: "
                                  "drop or impute those rows")
    assert piece.fault().details == f"In rows 1030 to 1059 there are {columns}; the first in row 1039."
    assert Piece(rows, 0, 19, "a file").fault() is None


# memory maps

def test_a_memory_map_is_not_loaded(tmp_path):
    "Ten times the memory that the pass may use"
    if not os.path.exists("/proc/self/status"): pytest.skip("needs /proc")
    code = """
import re, sys
import numpy as np
from dp_knockoff.data.passes import open_rows
def memory(): return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
n, p, (X, y) = 2_000_000, 20, sys.argv[1:]
np.lib.format.open_memmap(X, "w+", float, (n, p)).flush()
np.save(y, np.arange(n) % 7)
X, y = (np.load(path, mmap_mode="r") for path in (X, y))
open_rows(X[:1000], np.arange(1000))()
before, seen = memory(), []
print(open_rows(X, y, progress=lambda rows: seen.append(memory()))().n, max(seen) - before)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "X.npy"), str(tmp_path / "y.npy")]
    n, grown = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert int(n) == 2_000_000 and float(grown) < 120, f"{grown} MB of a file of 320"


def test_a_changed_copy_on_write_map_keeps_its_changes(tmp_path):
    np.save(tmp_path / "X.npy", X)
    A = np.load(tmp_path / "X.npy", mmap_mode="c")
    A[:] += 1
    for _ in range(2): identical(open_rows(A, y)(), Moments.from_data(X + 1, y))


def test_repr():
    text = repr(Source("rows", NAMES, None, rows=30_000))
    assert text == "Source(rows, 30,000 rows, 20 features: 'x0', 'x1', 'x2', 'x3' and 16 more)"
    assert repr(Source("rows", ["a"], None)) == "Source(rows, 1 features: 'a')"


# numbered passes

def places(X, y, part, first): return [(part, first, len(y), y[0], y[-1])]


def test_numbered_summaries_are_told_where_their_rows_stand(monkeypatch):
    "Whatever the pieces: blocks are numbered from the first row of the source"
    monkeypatch.setattr(passes, "block_rows", lambda p: 7)
    expected = [(0, a, min(7, 30 - a), a, min(a + 7, 30) - 1) for a in range(0, 30, 7)]
    for lengths in ([30], [1] * 30, [3, 0, 20, 7]):
        source = Source.from_pieces("rows", ["x"], lambda lengths=lengths: cut(numbers(30), lengths))
        assert source.collect(places, numbered=True) == expected
        assert source.collect(places, numbered=True) == expected  # in every pass
    with pytest.raises(TypeError): source.collect(places)
    found = sum_pieces(cut(numbers(8), [8]), 1, passes._OfFinite(places, True), part=5)
    assert found == [(5, 0, 7, 0, 6), (5, 7, 1, 7, 7)]


def test_numbered_passes_of_arrays_and_plain_summaries(monkeypatch):
    monkeypatch.setattr(passes, "block_rows", lambda p: 10)
    source = open_rows(np.zeros((25, 2)), np.arange(25.0))
    found = [place[:3] for place in source.collect(places, numbered=True)]
    assert found == [(0, 0, 10), (0, 10, 10), (0, 20, 5)]
    assert source.collect(lambda X, y: len(y)) == 25
    holes = open_rows(np.zeros((25, 2)), np.where(np.arange(25) == 3, np.nan, 1.0))
    assert "NaN or infinite" in refusal(holes.collect, places, numbered=True)


def test_blocks_of_rows_know_their_place():
    rows = Rows(np.zeros((600_000, 1)), np.zeros(600_000))
    assert [block.place for block in rows.blocks()] == [(0, 0), (0, 2**18), (0, 2**19)]
