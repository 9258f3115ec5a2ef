"Files: any row groups, types and headers give the same moments; what is wrong with a file gets one sentence."
import bz2
import gzip
import lzma
import os
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_knockoff.core.testing import refusal
from dp_knockoff.data import files
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.files import find_files
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import open_source, types_of
from same_rows import CLIP, NAMES, TABLE, N, X, as_source, identical, told, y

open_npy, open_query, open_tables = map(as_source, (files.open_npy, files.open_query, files.open_tables))


def moments_of(path, clip=None, columns=None):
    "Moments of a file whose response is y"
    return open_tables([str(path)], "y", columns)(clip)


def write(folder, name, *lines, header="a,b,y"):
    "A CSV file of these lines"
    (folder / name).write_text("\n".join([header, *lines]) + "\n")
    return str(folder / name)


# which files

def test_paths_patterns_and_lists(tmp_path):
    for name in ("b.csv", "a.csv", "c.parquet", "odd[1].csv"): (tmp_path / name).write_text("")
    a, b, c, odd = (str(tmp_path / name) for name in ("a.csv", "b.csv", "c.parquet", "odd[1].csv"))
    assert find_files(tmp_path / "b.csv") == [b] and find_files([c, tmp_path / "[ab].csv"]) == [c, a, b]
    assert find_files(odd) == [odd]  # a file of that name is no pattern
    assert "more than once" in refusal(find_files, [a, tmp_path / "*.csv"])
    assert "more than once" in refusal(find_files, [a, tmp_path / ".." / tmp_path.name / "a.csv"])
    for data, words in {
        a + "x": "does not exist", str(tmp_path / "x*.csv"): "no file matches", str(tmp_path): "is a folder",
        (): "empty list", __file__: "ends in .csv",
    }.items(): assert words in refusal(find_files, data)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="everybody may read everything here")
def test_a_file_that_may_not_be_read(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    (tmp_path / "a.csv").chmod(0)
    assert "check its permissions" in refusal(find_files, tmp_path / "a.csv")


@pytest.mark.parametrize("module, ending", [("polars", "csv"), ("pyarrow", "parquet")])
def test_what_to_install(tmp_path, module, ending):
    path = str(tmp_path / f"rows.{ending}")
    getattr(TABLE[:9], f"write_{ending}")(path)
    code = (f"import sys; sys.modules[{module!r}] = None\nfrom dp_knockoff.core.testing import refusal\n"
            f"from dp_knockoff.data.files import open_tables\nprint(refusal(open_tables, [{path!r}], 'y'))")
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert "pip install 'dp-knockoff[files]'" in out


def test_old_polars_is_refused(tmp_path, monkeypatch):
    "Before 1.37 an error while reading in batches ended the file early, and nobody heard of it"
    TABLE[:9].write_csv(tmp_path / "rows.csv")
    monkeypatch.setattr(pl, "__version__", "1.36.1")
    assert "polars>=1.37" in refusal(moments_of, tmp_path / "rows.csv")
    assert "polars>=1.37" in refusal(open_query, TABLE.lazy(), "y")
    monkeypatch.setattr(pl, "__version__", "2.0.0rc1")
    moments_of(tmp_path / "rows.csv")


# types and columns

@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "int64", "bool"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_types(tmp_path, dtype, ending):
    A = (np.abs(X[:900, :3]) * 3).astype(dtype)
    frame = pd.DataFrame(A, columns=list("abc")).assign(y=y[:900])
    path = tmp_path / f"rows.{ending}"
    if ending == "parquet": frame.to_parquet(path)
    else: frame.astype({c: float for c in frame if frame[c].dtype == np.float32}).to_csv(path, index=False)
    identical(moments_of(path), Moments.from_data(A.astype(float), y[:900], list("abc")))


def test_decimals_and_dotted_names(tmp_path):
    values = [1, 2, 3, 5]
    decimals = pa.array(values, pa.decimal128(5, 2))
    table = pa.table({"a.b": decimals, "a": pa.array(values[::-1]), "y": [1., 2., 3., 1.]})
    pq.write_table(table, tmp_path / "rows.parquet")
    A = np.column_stack([values, values[::-1]])
    whole = Moments.from_data(A, table["y"].to_numpy(), ["a.b", "a"])
    identical(moments_of(tmp_path / "rows.parquet"), whole)


@pytest.mark.parametrize("column, word", [
    (pl.Series(["red", "blue"] * 2), "text"), (pl.Series(["red"] * 4, dtype=pl.Categorical), "categories"),
    (pl.Series([pd.Timestamp(0)] * 4), "Datetime"), (pl.Series([[1], [2]] * 2), "List"),
])
def test_columns_that_are_no_numbers(tmp_path, column, word):
    table = TABLE[:4].with_columns(c=column)
    table.write_parquet(tmp_path / "rows.parquet")
    for sentence in (refusal(moments_of, tmp_path / "rows.parquet"), refusal(open_query, table.lazy(), "y")):
        assert "'c'" in sentence and word in sentence and "columns=" in sentence
        assert ("one 0/1 column per category" in sentence) == (word in ("categories", "text"))
    identical(moments_of(tmp_path / "rows.parquet", columns=NAMES), Moments.from_data(X[:4], y[:4]))


def test_columns_are_chosen_and_ordered(tmp_path):
    TABLE.write_csv(tmp_path / "rows.csv")
    TABLE.write_parquet(tmp_path / "rows.parquet")
    whole = Moments.from_data(X[:, [4, 1]], y, ["x4", "x1"])
    for name in ("rows.csv", "rows.parquet"):
        identical(moments_of(tmp_path / name, columns=["x4", "x1"]), whole)
    identical(open_query(TABLE.lazy(), "y", ["x4", "x1"])(), whole)


def test_files_must_agree(tmp_path):
    first = write(tmp_path, "a.csv", "1,2,3")
    def sentence(name, table):
        table.write_parquet(tmp_path / name)
        return refusal(open_tables, [first, str(tmp_path / name)], "y")
    assert "has no column 'b'" in sentence("lost.parquet", pl.DataFrame({"a": [1.], "y": [2.]}))
    assert "has a column 'c'" in sentence("new.parquet", pl.DataFrame({name: [1.] for name in "abcy"}))
    assert "holds text" in sentence("text.parquet", pl.DataFrame({"a": ["1"], "b": [1.], "y": [2.]}))
    source = open_tables([first, str(tmp_path / "new.parquet")], "y", ["b", "a"])
    assert source().n == 2 and source.rows is None and "and 1 more" in repr(source)


# Parquet

@pytest.mark.parametrize("rows", [1, 100, 2000, 10_000])
def test_row_groups_of_any_size(tmp_path, rows, monkeypatch):
    path = tmp_path / "rows.parquet"
    TABLE[:2000].write_parquet(path, row_group_size=rows)
    meta = pq.ParquetFile(path).metadata
    for least in (1, 150, 10**6):
        runs = files._runs_of_groups(meta, least)
        assert sum(runs, []) == list(range(meta.num_row_groups))
        assert all(sum(meta.row_group(i).num_rows for i in run) >= least for run in runs[:-1])
    told = []
    def advise(file, start, length, advice): told.append((start, length))
    monkeypatch.setattr(files, "batch_rows", lambda p: 150)
    monkeypatch.setattr(os, "posix_fadvise", advise, raising=False)
    identical(moments_of(path), Moments.from_data(X[:2000], y[:2000]))
    assert told and all(0 < start < start + length < path.stat().st_size for start, length in told)
    groups = [meta.row_group(i) for i in range(meta.num_row_groups)]
    size = sum(group.column(j).total_compressed_size for group in groups for j in range(meta.num_columns))
    assert sum(length for _, length in set(told)) > .9 * size


def test_missing_values_in_parquet(tmp_path, monkeypatch):
    nulls = pl.DataFrame({"a": [1, None, None], "b": [True, None, False], "c": [.5, 1, 2], "y": [1., 2., 3.]})
    nulls.write_parquet(tmp_path / "nulls.parquet")
    sentence, details = told(moments_of, tmp_path / "nulls.parquet")
    assert sentence.endswith("nulls.parquet' has missing, non-numeric, NaN or infinite values in "
                             "columns 'a', 'b': drop or impute those rows, "
                             "or give a dictionary with missing = ...")
    assert "2 in 'a', 1 in 'b'" in details
    nan = pl.when(pl.col("x3") > 3.5).then(float("nan")).otherwise("x3")
    TABLE.with_columns(x3=nan).write_parquet(tmp_path / "nan.parquet")
    sentence = refusal(moments_of, tmp_path / "nan.parquet")
    assert "NaN" in sentence and "'x3'" in sentence
    late = pl.when(pl.int_range(N) == 29_990).then(None).otherwise("x3")
    TABLE.with_columns(x3=late).write_parquet(tmp_path / "late.parquet", row_group_size=1000)
    monkeypatch.setattr(files, "batch_rows", lambda p: 1000)
    _, details = told(moments_of, tmp_path / "late.parquet")
    assert details == "In rows 29000 to 29999 there are 1 in 'x3'; the first in row 29990."


def test_rows_of_a_later_batch_have_the_numbers_of_the_file(tmp_path, monkeypatch):
    nan = pl.when(pl.int_range(N) == 29_990).then(float("nan")).otherwise("x3")
    monkeypatch.setattr(files, "batch_rows", lambda p: 1000)
    TABLE.with_columns(x3=nan).write_parquet(tmp_path / "rows.parquet", row_group_size=1000)
    TABLE.with_columns(x3=nan).write_csv(tmp_path / "rows.csv")
    for name in ("rows.parquet", "rows.csv"):
        assert "first in row 29990" in told(moments_of, tmp_path / name)[1]


def test_damaged_parquet(tmp_path):
    TABLE.write_parquet(tmp_path / "rows.parquet", row_group_size=7000)
    content = (tmp_path / "rows.parquet").read_bytes()
    hurt = content[:10_000] + bytes(5000) + content[15_000:]
    for name, damaged in {"cut": content[:len(content) // 2], "hurt": hurt, "no": b"hello, world"}.items():
        (tmp_path / f"{name}.parquet").write_bytes(damaged)
        sentence = refusal(moments_of, tmp_path / f"{name}.parquet")
        assert f"{name}.parquet" in sentence and "damaged" in sentence and "\n" not in sentence
    huge = tmp_path / "huge.parquet"
    TABLE.with_columns(x3=pl.col("x3") * 1e200).write_parquet(huge)
    overflows = "column 'x3' is so large that its squares overflow: rescale it"
    assert refusal(moments_of, huge) == f"{str(huge)!r}: {overflows}"
    twice = pa.table([pa.array([1.]), pa.array([2.]), pa.array([3.])], names=["a", "a", "y"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    assert "twice.parquet': column names clash" in refusal(moments_of, tmp_path / "twice.parquet")


# CSV

GOOD = ["1,2,3", "4,5,7", "2,9,1"] * 1000


@pytest.mark.parametrize("lines, words", [
    (["1,,3"], ["infinite values", "1 in 'b'", "row 3000"]),
    (["1"], ["1 in 'b', 1 in 'y'", "row 3000"]),
    ([""], ["row 3000", "blank line"]),
    (["1,2,3,4"], ["more fields"]),
    (["1,red,3"], ["'b'", "1 in 'b'", "row 3000", "non-numeric"]),
    (["1,1e400,3"], ["NaN or infinite", "1 in 'b'", "row 3000"]),
    (["1,inf,3", "nan,2,3", "nan,2,3"], ["2 in 'a', 1 in 'b'", "row 3000"]),
    (["1,2,-Infinity"], ["1 in 'y'"]),
], ids=["hole", "early", "blank", "long", "text", "overflow", "infinite", "response"])
@pytest.mark.parametrize("packed, batch", [(False, None), (True, None), (False, 700)])
def test_bad_lines_of_csv(tmp_path, monkeypatch, lines, words, packed, batch):
    if batch: monkeypatch.setattr(files, "batch_rows", lambda p: batch)
    path = write(tmp_path, "rows.csv", *GOOD, *lines, *GOOD)
    if packed:
        (tmp_path / "rows.csv.gz").write_bytes(gzip.compress((tmp_path / "rows.csv").read_bytes()))
        path += ".gz"
    for clip in (None, Clip(1.0, 1.0)):
        sentence, details = told(moments_of, path, clip)
        assert repr(path) in sentence and "\n" not in sentence + details
        assert all(word in f"{sentence} {details}" for word in words)
        assert not re.search(r"\d|red", sentence.replace(repr(path), "")), sentence


def test_bad_headers_of_csv(tmp_path):
    for header, words in {
        "a,a,y": ["clash", "'a'"], "a;b;y": ["pass sep="], "y": ["no feature"],
        "a,b": ["'y' is not a column", "'a', 'b'"],
    }.items():
        line = ",".join("1" * (header.count(",") + 1))
        sentence = refusal(moments_of, write(tmp_path, "rows.csv", line, line, header=header))
        assert all(word in sentence for word in words) and "rows.csv" in sentence, sentence
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in refusal(moments_of, tmp_path / "empty.csv")
    assert "holds text" in refusal(moments_of, write(tmp_path, "text.csv", "1,red,2", "3,blue,4"))
    sentence, details = told(moments_of, write(tmp_path, "stray.csv", "1,2,3", "1,n/a,3", "1,2,3"))
    assert "'b'" in sentence and "n/a" not in sentence
    assert details == "In rows 0 to 2 there are 1 in 'b'; the first in row 1."
    assert "infinite values" in refusal(moments_of, write(tmp_path, "never.csv", "1,,2", "3,,4"))


def test_names_in_quotes_and_lines_above_them(tmp_path):
    "polars alone leaves the doubled quotes in a name as they are"
    (tmp_path / "rows.csv").write_text('\n"dose, ""mg""",b,y\n1,2,3\n4,x,7\n2,9,1\n')
    whole = Moments.from_data([[1], [4], [2]], [3, 7, 1], ['dose, "mg"'])
    identical(moments_of(tmp_path / "rows.csv", columns=['dose, "mg"']), whole)
    assert "infinite values in column 'b'" in refusal(moments_of, tmp_path / "rows.csv")


def test_a_csv_column_may_begin_with_whole_numbers_and_a_file_with_a_mark(tmp_path):
    rows = ["1,2,3"] * 30_000 + ["1.5,2,1e3", "-7,4,.5"]
    (tmp_path / "rows.csv").write_text("\ufeffa,b,y\r\n" + "\r\n".join(rows), encoding="utf-8")
    A = np.array([row.split(",") for row in rows], dtype=float)
    identical(moments_of(tmp_path / "rows.csv"), Moments.from_data(A[:, :2], A[:, 2], ["a", "b"]))


LATE = {
    "3": ["3.5", "-.5", "1e308", "1e-400", "9" * 300, "+7", " 7", "007"],
    "true": ["false", "0", "2.5", "FALSE"],
    "2.5": ["7", "-1e300"],
}


@pytest.mark.parametrize("first, cell", [(first, cell) for first, cells in LATE.items() for cell in cells])
@pytest.mark.parametrize("early", [False, True])
def test_no_finite_number_in_one_row_decides_whether_there_is_an_answer(tmp_path, first, cell, early):
    "Finding 7: types were guessed from the first lines, and a row that was not like them was refused"
    n, clip = 80_000, Clip(2.0, 9.0)  # more than the guess sees
    at = 3 if early else n - 1
    lines = [f"{first},1"] * n
    lines[at] = f"{cell},2"
    path = write(tmp_path, "rows.csv", *lines, header="a,y")
    def number(cell): return float({"true": 1, "false": 0}.get(cell.lower(), cell))
    A, b = np.full((n, 1), number(first)), np.ones(n)
    A[at], b[at] = number(cell), 2
    identical(moments_of(path, clip), Moments.from_data(A, b, ["a"], clip))


@pytest.mark.parametrize("words, kind", [
    (["1", "n/a", "2"], "number"), (["n/a", "x", "2"], "text"), ([None, None], "number"),
    (["1", "x"], "number"), (["true", "false"], "truth"), (["true", "2"], "truth"), (["true", "x"], "truth"),
    (["9" * 400, "1e400"], "number"),
    ([" 3", "3 ", "+3"], "number"), (["2020-01-01"], "date"), (["2020-01-01", "x"], "text"),
    (["inf", "NaN"], "number"),
])
def test_a_column_that_is_mostly_numbers_is_not_called_text(words, kind):
    assert files._kind_of_text(pl.Series(words, dtype=pl.String)) == kind


def test_truth_among_numbers_is_one_where_the_first_lines_say_so(tmp_path):
    numbers = ["3,1"] * 80_000
    assert moments_of(write(tmp_path, "rows.csv", "true,1", *numbers, header="a,y")).n == 80_001
    sentence, details = told(moments_of, write(tmp_path, "rows.csv", *numbers, "true,1", header="a,y"))
    assert "column 'a'" in sentence and "true" not in sentence
    assert details.endswith("; the first in row 80000.")


def test_the_guess_only_chooses_the_sentence(tmp_path):
    "Whatever is called text by its first lines would be refused in the pass all the same"
    for lines in (["x,1", "y,2", "3,4"], ["1,1", "y,2", "3,4"]):
        assert "column 'a'" in refusal(moments_of, write(tmp_path, "rows.csv", *lines, header="a,y"))


def test_what_a_file_is_opened_with(tmp_path):
    "Of Parquet the last bytes are read, of CSV the first lines: damage elsewhere is found in the pass"
    parquet, text = tmp_path / "rows.parquet", tmp_path / "rows.csv"
    TABLE.write_parquet(parquet)
    TABLE.write_csv(text)
    content = parquet.read_bytes()
    parquet.write_bytes(content[:4] + bytes(len(content) - 50_000) + content[len(content) - 50_000 + 4:])
    content = text.read_bytes()
    head = content[:content.index(b"\n") + 1 + files._HEAD]
    assert len(head) < len(content)
    text.write_bytes(head + b"\n" + b"x,y\n" * 1000)
    for path in (parquet, text):
        source = open_tables([str(path)], "y")
        assert source.names == tuple(NAMES)
        assert refusal(source, CLIP)


def test_polars_quotes_a_cell_and_we_do_not(tmp_path):
    path = write(tmp_path, "rows.csv", *GOOD, "1,3.25,3")
    query = pl.scan_csv(path)
    sentence, details = told(lambda: open_query(query, "y")())
    assert sentence == "the query fails: run it on its own to see why" and "3.25" in details
    words = pl.LazyFrame({"a": ["1", "secret"], "y": [1., 2.]}).with_columns(a=pl.col("a").cast(pl.Float64))
    sentence, details = told(lambda: open_query(words, "y")())
    assert "secret" not in sentence and "secret" in details


def test_a_cut_gzip(tmp_path):
    TABLE.write_csv(tmp_path / "rows.csv")
    content = gzip.compress((tmp_path / "rows.csv").read_bytes(), 1)
    for size in (300, len(content) // 2, len(content) - 20):
        (tmp_path / "cut.csv.gz").write_bytes(content[:size])
        sentence = refusal(moments_of, tmp_path / "cut.csv.gz")
        assert "cut.csv.gz" in sentence and "damaged" in sentence and "\n" not in sentence


# text files that are written otherwise

ROWS = [(1.5, -2.0, 3.0), (4.0, 1234.25, 7.5), (2.0, 0.0, 1.0)]


@pytest.mark.parametrize("ending, opener", [("", open), (".gz", gzip.open), (".bz2", bz2.open),
                                            (".xz", lzma.open)])
@pytest.mark.parametrize("sep, decimal, kind", [(None, ".", "csv"), (None, ".", "tsv"), (None, ",", "csv"),
                                                (";", ",", "csv"), ("|", ",", "tsv"), ("\t", ",", "csv")])
def test_separators_commas_in_numbers_and_packed_files(tmp_path, ending, opener, sep, decimal, kind):
    path = tmp_path / f"rows.{kind}{ending}"
    between = sep or {"tsv": "\t"}.get(kind, ";" if decimal == "," else ",")
    lines = [between.join(str(v).replace(".", decimal) for v in row) for row in ROWS * 500]
    with opener(path, "wb") as file: file.write("\n".join([between.join("aby"), *lines]).encode())
    known = Moments.from_data(np.array(ROWS * 500)[:, :2], np.array(ROWS * 500)[:, 2], ["a", "b"])
    for facts in (None, {"target": "y", "columns": {"a": {}, "b": {}}}):
        identical(open_source(path, "y", dictionary=facts, sep=sep, decimal=decimal)(), known)
    assert {str(kind) for kind in types_of(path, sep=sep, decimal=decimal).values()} == {"Float64"}


def test_a_point_in_a_file_with_commas_is_no_number(tmp_path):
    "1.234 would be a thousand times less than what was meant by it"
    path = write(tmp_path, "rows.csv", "1,5;2;3", "1.234;2;3", "1.234,5;2;3", header="a;b;y")
    assert "'a'" in refusal(open_source(path, "y", decimal=","))
    facts = {"target": "y", "columns": {"a": {"missing": 7}, "b": {}}}
    A = open_source(path, decimal=",", dictionary=facts).collect(lambda X, y: [X[:, 0].tolist()])
    assert A == [[1.5, 7, 7]]


@pytest.mark.parametrize("options, words", [
    (dict(sep=";;"), "pass a character"), (dict(sep="a"), "sep='a'"), (dict(sep=""), "sep=''"),
    (dict(sep='"'), "separate"), (dict(sep=3), "sep=3"), (dict(sep="\n"), "separate"),
    (dict(sep="é"), "sep="),
    (dict(decimal=";"), "choose one of '.', ','"), (dict(sep=",", decimal=","), "sep=','"),
    (dict(decimal=None), "decimal=None"), (dict(sep="."), "sep='.'")])
def test_what_does_not_separate(tmp_path, options, words):
    path = write(tmp_path, "rows.csv", "1,2,3")
    for call in (open_source, types_of): assert words in refusal(call, path, **options)


def test_separators_are_for_text_files(tmp_path):
    TABLE[:9].write_parquet(tmp_path / "rows.parquet")
    for data in (TABLE, tmp_path / "rows.parquet", X):
        assert "sep and decimal were given without a text file" in refusal(open_source, data, "y", sep=";")


def test_a_packed_file_that_is_cut(tmp_path):
    for ending, pack in ((".bz2", bz2.compress), (".xz", lzma.compress)):
        content = pack("\n".join(["a,y", *["1.5,2"] * 90_000]).encode())
        for size in (20, len(content) // 2, len(content) - 5):
            (tmp_path / f"cut.csv{ending}").write_bytes(content[:size])
            sentence = refusal(lambda path=tmp_path / f"cut.csv{ending}": open_source(path, "y")())
            assert "cut.csv" in sentence and "damaged" in sentence and "\n" not in sentence


# streams of Arrow batches

class Relation:
    "What DuckDB's relations have: columns, and a fresh stream whenever it is asked for"
    columns, shape = TABLE.columns, TABLE.shape
    def __arrow_c_stream__(self, schema=None): return TABLE.to_arrow().__arrow_c_stream__(schema)


def test_streams_of_arrow_batches():
    whole = Moments.from_data(X, y, NAMES)
    identical(open_source(Relation(), "y")(), whole)
    source = open_source(Relation(), "y", columns=["x4", "x1"])
    for _ in range(2): identical(source(), Moments.from_data(X[:, [4, 1]], y, ["x4", "x1"]))
    def reader(): return pa.RecordBatchReader.from_stream(TABLE.to_arrow())
    source = open_source(reader(), "y")
    assert source().n == N and "can be read only once" in refusal(source)
    batch = TABLE[:99].to_arrow().to_batches()[0]
    for data in (batch, [batch], iter([batch]), lambda: iter([batch])):
        found = open_source(data, "y")()
        assert found.n == 99 and found.names == tuple(NAMES)
    assert "'z' is not a column of the stream" in refusal(open_source, Relation(), "z")
    assert "y is missing" in refusal(open_source, Relation())
    assert list(types_of(Relation())) == TABLE.columns
    class Fails(Relation):
        def __arrow_c_stream__(self, schema=None): raise RuntimeError("SECRET")
    assert "SECRET" not in refusal(open_source, Fails(), "y")
    for series in (TABLE["x0"], TABLE["x0"].to_arrow()): refusal(open_source, series, "y")


def test_relations_of_duckdb(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    TABLE.write_parquet(tmp_path / "rows.parquet")
    with duckdb.connect() as base:
        rows = base.sql(f"select * from '{tmp_path / 'rows.parquet'}'")
        for data in (lambda: rows, rows.arrow): # one open result at a time
            identical(open_source(data(), "y")(), Moments.from_data(X, y, NAMES))
        assert list(types_of(rows)) == TABLE.columns
        text = base.sql("select '2020-02-03'::date as a, null as b, 1.5 as y")
        facts = {"target": "y", "columns": {"a": {"levels": "month"}, "b": {"range": [0, 4]}}}
        assert open_source(text, dictionary=facts).collect(lambda X, y: [X.tolist()])[0][0][0] == 1
        failing = base.sql("select error('SECRET') as a, 1.0 as y")
        assert "SECRET" not in refusal(lambda: open_source(failing, "y")())


# queries and NumPy files

def test_queries_that_fail():
    assert "the query fails" in refusal(open_query, TABLE.lazy().select(pl.col("nothing")), "y")
    late = TABLE.lazy().with_columns(x0=(pl.col("x0").cast(pl.String) + "?").cast(pl.Float64))
    assert "the query fails" in refusal(open_query(late, "y"))
    holes = TABLE.lazy().with_columns(x3=pl.when(pl.col("x3") < 3.5).then("x3"))
    assert "the query has missing, non-numeric, NaN or infinite values" in refusal(open_query(holes, "y"))


def test_npy_is_mapped_and_stands_alone(tmp_path):
    path = str(tmp_path / "X.npy")
    np.save(path, X)
    np.save(tmp_path / "objects.npy", np.array([[1, "a"]], dtype=object))
    assert isinstance(files._load_npy(path), np.memmap)
    assert "with other files" in refusal(open_npy, [path, "rows.csv"], "y")
    assert "y is missing" in refusal(open_npy, [path], None)
    assert "objects.npy" in refusal(open_npy, [str(tmp_path / "objects.npy")], y[:1])
    assert "does not exist" in refusal(open_npy, [path], tmp_path / "y.npy")
    assert open_npy([path], y, [f"v{j}" for j in range(20)]).names[3] == "v3"
    for size in (10, 1000):
        (tmp_path / "cut.npy").write_bytes((tmp_path / "X.npy").read_bytes()[:size])
        assert "damaged" in refusal(open_npy, [str(tmp_path / "cut.npy")], y)


@pytest.mark.parametrize("ending, reader, needs", [
    (".xlsx", "pandas.read_excel", "pip install pandas openpyxl"),
    (".feather", "polars.read_ipc", "pip install polars"),
    (".JSON", "polars.read_ndjson", "pip install polars"),
    (".sav", "read_spss", "pip install pandas pyreadstat")])
def test_files_of_other_programs_say_who_reads_them(tmp_path, ending, reader, needs):
    (tmp_path / f"rows{ending}").touch()
    said = refusal(find_files, tmp_path / f"rows{ending}")
    assert "save it as .csv or .parquet" in said and reader in said and needs in said
