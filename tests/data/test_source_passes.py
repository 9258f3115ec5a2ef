"Passes of a source: summaries see finite numbers only, rows are read as often as they can be, moments stay."
import os

import numpy as np
import polars as pl
import pytest

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data import moments
from dp_knockoff.data import rows as rows_module
from dp_knockoff.data.clip import INTERCEPT, Clip
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.rows import Piece, Reader, Rows, block_rows, sum_pieces
from dp_knockoff.data.source import MomentsSource, Source, _OfFinite
from same_rows import CLIP, NAMES, TABLE, N, P, X, as_source, told, y

open_rows = as_source(rows_module.open_rows)
of_pieces = as_source(Reader.of_pieces)


def numbers(n):
    "Rows whose response counts them"
    return Rows(np.zeros((n, 1)), np.arange(n))


def cut(rows, lengths):
    "Pieces of these lengths"
    stops = np.cumsum([0, *lengths])
    return [Piece(rows, int(a), int(b), f"piece {i}") for i, (a, b) in enumerate(zip(stops, stops[1:]))]


def test_any_summary_is_added_up_in_order():
    source = of_pieces("numbers", ["a"], lambda: cut(numbers(1000), [300, 0, 450, 250]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows_module, "block_rows", lambda p: 7)
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
    assert f"data has missing, non-numeric, NaN or infinite values in column {name!r}: " in sentence
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
    source = of_pieces("rows", NAMES, lambda: [Piece(Rows(X, y), 0, N, "rows")], once=True)
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
        _OfFinite(count, False)(A, y[:50])
    assert looked == [(50, 2), (50,)] * 2


# passes

def test_bounds_that_do_not_fit_are_refused_before_a_row_is_read():
    def never(): raise AssertionError("read")
    source = of_pieces("rows", ["a"], never, once=True)
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
    source = of_pieces("the stream", NAMES, lambda: left.pop(0))
    source()
    assert refusal(source).startswith("the stream had no rows left for another pass: return a fresh iterator")
    assert refusal(of_pieces("it", NAMES, list)) == "it has no rows: pass at least one"


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
    assert of_pieces("rows", NAMES, pieces, progress=progress)().n == 200 * block_rows(P)
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


def test_repr():
    text = repr(Source(Reader("rows", NAMES, None, rows=30_000)))
    assert text == "Source(rows, 30,000 rows, 20 features: 'x0', 'x1', 'x2', 'x3' and 16 more)"
    assert repr(Source(Reader("rows", ["a"], None))) == "Source(rows, 1 features: 'a')"


# numbered passes

def places(X, y, part, first): return [(part, first, len(y), y[0], y[-1])]


def test_numbered_summaries_are_told_where_their_rows_stand(monkeypatch):
    "Whatever the pieces: blocks are numbered from the first row of the source"
    monkeypatch.setattr(rows_module, "block_rows", lambda p: 7)
    expected = [(0, a, min(7, 30 - a), a, min(a + 7, 30) - 1) for a in range(0, 30, 7)]
    for lengths in ([30], [1] * 30, [3, 0, 20, 7]):
        source = of_pieces("rows", ["x"], lambda lengths=lengths: cut(numbers(30), lengths))
        assert source.collect(places, numbered=True) == expected
        assert source.collect(places, numbered=True) == expected  # in every pass
    with pytest.raises(TypeError): source.collect(places)
    found = sum_pieces(cut(numbers(8), [8]), 1, _OfFinite(places, True), part=5)
    assert found == [(5, 0, 7, 0, 6), (5, 7, 1, 7, 7)]


def test_numbered_passes_of_arrays_and_plain_summaries(monkeypatch):
    monkeypatch.setattr(rows_module, "block_rows", lambda p: 10)
    source = open_rows(np.zeros((25, 2)), np.arange(25.0))
    found = [place[:3] for place in source.collect(places, numbered=True)]
    assert found == [(0, 0, 10), (0, 10, 10), (0, 20, 5)]
    assert source.collect(lambda X, y: len(y)) == 25
    holes = open_rows(np.zeros((25, 2)), np.where(np.arange(25) == 3, np.nan, 1.0))
    assert "NaN or infinite" in refusal(holes.collect, places, numbered=True)
