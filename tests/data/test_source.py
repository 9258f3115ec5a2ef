"Sources: every way in gives the same moments; what is no source, or is one already, gets its sentence."
import gzip
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from dp_knockoff.core.archives import save_arrays
from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.dictionary import template
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import moments_of, open_source, types_of
from same_rows import CLIP, NAMES, TABLE, N, P, X, close, identical, told, y

CLIPS = pytest.mark.parametrize("clip", [None, CLIP], ids=["raw", "clipped"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "The table in every kind of file"
    path = tmp_path_factory.mktemp("files")
    TABLE.write_parquet(path / "rows.parquet", row_group_size=7000)
    pq.write_table(TABLE.to_arrow(), path / "one_group.parquet", row_group_size=10**6)
    TABLE.write_csv(path / "rows.csv")
    (path / "rows.csv.gz").write_bytes(gzip.compress((path / "rows.csv").read_bytes(), 1))
    for i, start in enumerate(range(0, N, 11_000)):
        columns = TABLE.columns[::-1] if i else TABLE.columns
        TABLE[start:start + 11_000].select(columns).write_parquet(path / f"part-{i}.parquet")
    np.save(path / "X.npy", X)
    np.save(path / "XF.npy", np.asfortranarray(X))
    np.save(path / "y.npy", y)
    return path


CHUNKS = [(X[i:i + 777], y[i:i + 777]) for i in range(0, N, 777)]
WAYS = {  # way in -> data and target, of a folder; the second group does not tell the number of rows
    "array": lambda folder: (X, y),
    "fortran": lambda folder: (np.asfortranarray(X), y),
    "map": lambda folder: (np.load(folder / "X.npy", mmap_mode="r"), y),
    "npy": lambda folder: (folder / "X.npy", folder / "y.npy"),
    "npy fortran": lambda folder: (str(folder / "XF.npy"), y),
    "pandas": lambda folder: (TABLE.to_pandas(), "y"),
    "polars": lambda folder: (TABLE, "y"),
    "arrow": lambda folder: (TABLE.to_arrow(), "y"),
    "pandas, array": lambda folder: (TABLE.drop("y").to_pandas(), y),
    "parquet": lambda folder: (folder / "rows.parquet", "y"),
    "one group": lambda folder: (str(folder / "one_group.parquet"), "y"),
    "glob": lambda folder: (str(folder / "part-*.parquet"), "y"),
    "list": lambda folder: ([folder / f"part-{i}.parquet" for i in range(3)], "y"),
}
WAYS_UNCOUNTED = {
    "csv": lambda folder: (folder / "rows.csv", "y"),
    "gz": lambda folder: (folder / "rows.csv.gz", "y"),
    "query": lambda folder: (TABLE.lazy(), "y"),
    "scan": lambda folder: (pl.scan_parquet(folder / "rows.parquet"), "y"),
    "function": lambda folder: (lambda: iter(CHUNKS), None),
    "pairs": lambda folder: (CHUNKS, None),
    "iterator": lambda folder: (iter(CHUNKS), None),
    "tables": lambda folder: ([TABLE[i:i + 5000] for i in range(0, N, 5000)], "y"),
    "pandas chunks": lambda folder: (lambda: (TABLE[i:i + 4321].to_pandas() for i in range(0, N, 4321)), "y"),
}


@CLIPS
@pytest.mark.parametrize("way", [*WAYS, *WAYS_UNCOUNTED])
def test_every_way_in_gives_the_same_bits(folder, way, clip):
    data, target = (WAYS | WAYS_UNCOUNTED)[way](folder)
    seen = []
    source = open_source(data, target, progress=seen.append)
    identical(source(clip), Moments.from_data(X, y, clip=clip))
    assert source.names == tuple(NAMES) and sum(seen) == N and len(seen) > 1
    assert source.rows == (N if way in WAYS else None)
    if way == "iterator": return
    identical(source(clip), Moments.from_data(X, y, clip=clip))
    assert source(clip).ids != source(clip).ids  # each pass has a random one of its own
    assert source.collect(lambda A, b: len(b)) == N


def test_dask_comes_in_too():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    for data, target in (
        (da.from_array(X, chunks=(7000, 6)), da.from_array(y, chunks=7000)),
        (dd.from_pandas(TABLE.to_pandas(), npartitions=3), "y"),
    ): close(moments_of(data, target, clip=CLIP), Moments.from_data(X, y, clip=CLIP))


def test_an_open_source_stays_as_it_is():
    source = open_source(X, y)
    assert open_source(source) is source and moments_of(source).n == N
    assert refusal(open_source, source, y) == ("y was given along with a source, which has its own response: "
                                               "leave it out")
    assert "columns were given along with a source" in refusal(open_source, source, columns=["x1"])
    assert "progress was given along with a source" in refusal(open_source, source, progress=print)


# moments

def test_moments_pass_through():
    m, clipped = Moments.from_data(X, y), Moments.from_data(X, y, clip=CLIP)
    assert moments_of(m) is m and moments_of(clipped, clip=CLIP) is clipped and open_source(m).rows == N
    assert "within the bounds" in refusal(moments_of, m, clip=CLIP)
    assert "of rows in bounds, for the moments filter" in refusal(moments_of, clipped)
    assert refusal(open_source, m, "y") == ("y was given along with Moments, which hold their own response: "
                                            "leave it out")
    assert "columns were given along with Moments" in refusal(open_source, m, columns=["x1"])
    assert "progress=3" in refusal(open_source, m, progress=3)


@CLIPS
def test_saved_moments_are_added_up(tmp_path, clip):
    for i, part in enumerate((slice(0, 9000), slice(9000, 9100), slice(9100, N))):
        Moments.from_data(X[part], y[part], clip=clip).save(tmp_path / f"site-{i}.npz")
    whole = Moments.from_data(X, y, clip=clip)
    for data in (tmp_path / "*.npz", [tmp_path / f"site-{i}.npz" for i in range(3)]):
        source = open_source(data)
        close(source(clip), whole)
        assert source.rows == N and source.names == tuple(NAMES) and "site-0.npz' and 2 more" in repr(source)
    close(moments_of(tmp_path / "site-0.npz", clip=clip), Moments.from_data(X[:9000], y[:9000], clip=clip))
    assert "more than once" in refusal(open_source, [tmp_path / "site-0.npz", tmp_path / "*.npz"])
    assert "y was given along with Moments" in refusal(open_source, tmp_path / "site-0.npz", "y")
    assert "summed already" in refusal(open_source(tmp_path / "site-0.npz").collect, len)


@CLIPS
def test_saved_moments_are_not_added_twice(tmp_path, clip):
    "Finding 4: a copy under another name, or a sum that holds a part already, counted rows twice"
    a, b = (Moments.from_data(X[part], y[part], clip=clip) for part in (slice(0, 9000), slice(9000, N)))
    for name, m in {"a": a, "copy": a, "b": b, "both": a + b}.items(): m.save(tmp_path / f"{name}.npz")
    (tmp_path / "bytes.npz").write_bytes((tmp_path / "a.npz").read_bytes())
    def opened(*names): return open_source([tmp_path / f"{name}.npz" for name in names])
    assert opened("a", "b")(clip).n == N
    for names in ("a copy", "a bytes", "a b copy", "a both", "both b", "both bytes"):
        names = names.split()
        sentence = refusal(opened, *names)
        assert "added twice: add each part once" in sentence and f"{names[-1]}.npz' does not fit" in sentence
    with pytest.raises(InputError, match="added twice"): opened("a")(clip) + opened("both")(clip)


def test_the_limit_on_rows_holds_for_every_way_in(tmp_path, monkeypatch):
    "It looks at n alone, and comes with a sentence"
    dd = pytest.importorskip("dask.dataframe")
    for i, part in enumerate((slice(0, 9000), slice(9000, N))):
        Moments.from_data(X[part], y[part], clip=CLIP).save(tmp_path / f"site-{i}.npz")
    monkeypatch.setattr("dp_knockoff.data.moments.MOST_ROWS", N - 1)
    frame = dd.from_pandas(TABLE.to_pandas(), npartitions=3)
    ways = (X, y), (TABLE.lazy(), "y"), (CHUNKS, None), (frame, "y"), (tmp_path / "*.npz", None)
    with dask_here():
        for data, target in ways:
            assert f"n={N} rows are more than 29,999" in refusal(moments_of, data, target, clip=CLIP)
    assert moments_of(X, y).n == N
    monkeypatch.setattr("dp_knockoff.data.moments.MOST_ROWS", N)
    assert moments_of(X, y, clip=CLIP).n == N


def dask_here():
    import dask
    return dask.config.set(scheduler="synchronous")


SECRET = 73911.0625


def spoiled(value, row=4711):
    "The table with a secret in one row, and something wrong in the same and in another"
    frame = TABLE[:5000].to_pandas()
    frame.loc[[row, row + 9], "x3"] = SECRET, value
    frame.loc[row + 9, "x4"] = SECRET
    return frame


def published(sentence, path):
    "Does a sentence speak of nothing but the file, the chunk and the column?"
    for word in (repr(str(path)), "'x3'", "chunk 0", "0/1"): sentence = sentence.replace(word, "")
    return not re.search(r"\d|nan|inf\b|None|secret", sentence)


@CLIPS
@pytest.mark.parametrize("value", [np.nan, np.inf, None, "secret"], ids=str)
def test_sentences_about_data_may_be_published(tmp_path, value, clip):
    "Finding 7, and the standard: no cell, no count, no row; those are in the details"
    frame, text, parquet = spoiled(np.nan), tmp_path / "rows.csv", tmp_path / "rows.parquet"
    if value is not np.nan: frame = spoiled(value) if value == np.inf else frame.astype(object)
    if value in (None, "secret"): frame.loc[4720, "x3"] = value
    frame.to_csv(text, index=False)
    pairs = [(frame[NAMES].to_numpy(), y[:5000])]
    ways = [(text, "y", text), (frame, "y", ""), ([frame], "y", ""), (pairs, None, "")]
    if value != "secret":
        pl.from_pandas(frame.astype(float)).write_parquet(parquet)
        ways += [(parquet, "y", parquet), (pl.from_pandas(frame.astype(float)).lazy(), "y", "")]
    for data, target, path in ways:
        sentence, details = told(moments_of, data, target, clip=clip)
        assert "'x3'" in sentence or "the query" in sentence, sentence
        assert published(sentence, path), sentence
        if path: assert "4720" in details or "1 in 'x3'" in details, details


def test_archives_of_other_kinds(tmp_path, folder):
    Moments.from_data(X, y).save(tmp_path / "moments.npz")
    Moments.from_data(X[:, 1:], y).save(tmp_path / "fewer.npz")
    Moments.from_data(X, y, clip=Clip(1.0, 1.0, intercept=False)).save(tmp_path / "bounds.npz")
    Moments.from_data(X, y, clip=Clip(.5, 1.0, intercept=False)).save(tmp_path / "narrower.npz")
    save_arrays(tmp_path / "release.npz", "private moments", {}, gram=np.eye(2))
    save_arrays(tmp_path / "else.npz", "something else", {})
    np.savez(tmp_path / "arrays.npz", X=X[:5], y=y[:5])
    (tmp_path / "cut.npz").write_bytes((tmp_path / "moments.npz").read_bytes()[:500])
    release = str(tmp_path / "release.npz")
    way_out = (f"{release!r} is a release, whose rows are not needed any more: "
               f"pass PrivateMoments.load({release!r}) to select(...)")
    save_arrays(tmp_path / "products.npz", "private products", {}, products=np.eye(2))
    for names, words in {
        ("products.npz",): "pass ProductsRelease.load(",
        ("release.npz",): way_out, ("moments.npz", "release.npz"): way_out, ("arrays.npz",): "not a file of",
        ("else.npz",): "holds something else, not moments", ("cut.npz",): "damaged",
        ("moments.npz", "fewer.npz"): "moments.npz': chunks of 20 and 19 columns",
        ("moments.npz", "bounds.npz"): "collect all of them with one and the same Clip, or all without",
        ("bounds.npz", "moments.npz"): "collect all of them with one and the same Clip, or all without",
        ("bounds.npz", "narrower.npz"): "different bounds",
        ("moments.npz", folder / "rows.csv"): "cannot be read with files of saved moments",
    }.items():
        sentence = refusal(open_source, [tmp_path / name for name in names])
        assert words in sentence and "\n" not in sentence, sentence


def test_a_release_is_no_data():
    class Release:
        method = "moments"
        def pair(self): ...
    assert refusal(open_source, Release()) == "data is a release already: pass it to select(...)"
    words = TABLE[:500].select(method="x0", pair="x1", collect_batches="x2", y="y")
    assert moments_of(words.to_pandas(), "y").names == ("method", "pair", "collect_batches")


# chunks

def test_an_iterator_is_read_once_and_a_function_any_number_of_times():
    chunks = [(X[:100], y[:100]), (X[100:], y[100:])]
    source = open_source(iter(chunks))
    source()
    assert source.once and "only once" in refusal(source)
    failing = open_source(iter([(X, y), (X * np.nan, y)]))
    assert "NaN" in refusal(failing) and "only once" in refusal(failing)
    source = open_source(lambda: chunks)
    identical(source(), source())
    fresh = [iter(chunks), iter(chunks)]  # one to look at, one to read
    source = open_source(lambda: fresh.pop() if fresh else iter([]))
    source()
    assert "had no rows left" in refusal(source)


@pytest.mark.parametrize("kind", ["pairs", "tables"])
def test_a_generator_may_use_its_memory_again(kind):
    def chunks():
        A, b = np.empty((1000, P)), np.empty(1000)
        frame = pd.DataFrame(A, columns=NAMES, copy=False)
        for start in range(0, N, 1000):
            A[:], b[:] = X[start:start + 1000], y[start:start + 1000]
            yield (A if kind == "pairs" else frame), b
            A[:], b[:] = 1e6, 1e6
    for _ in range(3): identical(moments_of(chunks), Moments.from_data(X, y))


def test_a_function_of_chunks_takes_no_argument():
    chunks = [(X, y)]
    for function in (lambda clip: chunks, lambda *, size: chunks, len):
        assert refusal(open_source, function).startswith("data is a function that takes an argument: ")
    for function in (lambda size=3: chunks, lambda *args, **options: chunks, chunks.copy, chunks.__iter__):
        assert moments_of(function).n == N


def test_chunks_must_agree():
    assert "chunk 1 has no column 'x19'" in refusal(moments_of, [(X, y), (X[:, 1:], y)])
    assert "chunk 1 has a column 'z'" in refusal(moments_of, [TABLE, TABLE.with_columns(z=1)], "y")
    words = TABLE.with_columns(x3=pl.lit("?"))
    assert "'x3' of chunk 1 holds text" in refusal(moments_of, [TABLE, words], "y")
    assert "chunk 1: y has" in refusal(moments_of, [(X, y), (X, y[1:])])
    assert "chunk 1 is a DataFrame" in refusal(moments_of, [(X, y), TABLE])
    assert "chunk 0 is a tuple" in refusal(moments_of, [(X, y)], "y")
    assert "chunk 0 is a int" in refusal(moments_of, lambda: [1])
    assert "no chunk" in refusal(moments_of, lambda: [])
    assert "returns a int" in refusal(moments_of, lambda: 7)
    late = np.where(np.arange(N)[:, None] == 20_000, np.nan, X)
    sentence, details = told(moments_of, [(X, y), (late, y)])
    assert "chunk 1" in sentence and "first in row 20000" in details
    objects = TABLE[:9].to_pandas().astype(object)
    objects.loc[7, "x3"] = "two"
    assert "chunk 1 has missing, non-numeric" in refusal(moments_of, [TABLE[:9], objects], "y")


def test_chunks_may_have_their_columns_in_another_order():
    swapped = TABLE.select("y", *NAMES[::-1])
    identical(moments_of([TABLE[:9000], swapped[9000:]], "y"), Moments.from_data(X, y))


def test_empty_chunks_and_files_are_skipped(tmp_path):
    whole = Moments.from_data(X, y)
    identical(moments_of([(X[:0], y[:0]), (X, y), (X[:0], y[:0])]), whole)
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.parquet")]
    TABLE[:0].write_csv(paths[0])
    TABLE.write_csv(paths[1])
    TABLE[:0].write_parquet(paths[2])
    identical(moments_of(paths, "y"), whole)
    for data, target in (
        (paths[0], "y"), (paths[2], "y"), (TABLE[:0], "y"), (X[:0], y[:0]), ([(X[:0], y[:0])], None),
        (TABLE[:0].lazy(), "y"),
    ): assert "no rows" in refusal(moments_of, data, target)


# columns and refusals

def test_columns_are_chosen_and_ordered(folder):
    whole = Moments.from_data(X[:, [4, 1]], y, ["x4", "x1"])
    for data in (folder / "rows.parquet", folder / "rows.csv", TABLE, TABLE.lazy(), lambda: [TABLE]):
        identical(moments_of(data, "y", columns=["x4", "x1"]), whole)
    identical(moments_of(TABLE, y, columns=["x4", "x1"]), whole)
    assert open_source(X, y, columns=[f"v{j}" for j in range(P)]).names[3] == "v3"


def test_text_in_columns_that_are_not_used_is_no_matter(tmp_path):
    frame = TABLE.with_columns(name=pl.lit("somebody"), hole=pl.lit(None, dtype=pl.Float64))
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_parquet(tmp_path / "rows.parquet")
    for data in (frame, tmp_path / "rows.csv", tmp_path / "rows.parquet", frame.lazy(), frame.to_pandas()):
        identical(moments_of(data, "y", columns=NAMES), Moments.from_data(X, y))


def test_nullable_integers_and_numbers_for_names():
    values, b = [1, 2, 3, 5], np.array([1., 2, 3, 1])
    A = np.column_stack([values, values[::-1]])
    frame = pd.DataFrame({"a.b": pd.array(values, dtype="Int64"), "a": values[::-1], "y": b})
    identical(moments_of(frame, "y"), Moments.from_data(A, b, ["a.b", "a"]))
    identical(moments_of(pd.DataFrame(A), b), Moments.from_data(A, b, ["0", "1"]))


def test_rows_may_be_lists():
    identical(moments_of(X[:50].tolist(), y[:50].tolist()), Moments.from_data(X[:50], y[:50]))


@pytest.mark.parametrize("column, word", [
    (pl.Series(["red", "blue"] * 2), "text"), (pl.Series(["red"] * 4, dtype=pl.Categorical), "categories"),
    (pl.Series([pd.Timestamp(0)] * 4), "Datetime"), (pl.Series([[1], [2]] * 2), "List"),
])
def test_columns_that_are_no_numbers(column, word):
    table = TABLE[:4].with_columns(c=column)
    ways = [table, table.to_arrow(), table.lazy(), [table]]
    if word != "List": ways.append(table.to_pandas())
    for data in ways:
        sentence = refusal(open_source, data, "y")
        assert "'c'" in sentence and (word in sentence or "text" in sentence) and "columns=" in sentence
        assert ("one 0/1 column per category" in sentence) == (word in ("categories", "text"))


@pytest.mark.parametrize("args, options, words", [
    ((X,), {}, "y is missing"), ((TABLE,), {}, "y is missing"), ((TABLE.lazy(),), {}, "y is missing"),
    ((X, "y"), {}, "names a column"), ((X, y[1:]), {}, "entries but"), ((X[0], y), {}, "shape"),
    (({"x1": X[:, 0]}, y), {}, "is a dict: pass a table"),
    (([{"x1": 1.0, "y": 2.0}], "y"), {}, "is a list of dicts: pass a table"),
    ((TABLE.to_pandas().rename(columns={"x1": None}), "y"), {}, "a column has no name"),
    ((7,), {}, "data=7"), ((TABLE, "price"), {}, "'price' is not a column"),
    ((TABLE, "y"), dict(columns="x1"), "not a list"),
    ((TABLE, "y"), dict(columns=["age"]), "no column 'age'"),
    ((TABLE, "y"), dict(columns=["x1", "x1"]), "clash"), ((TABLE, "y"), dict(columns=["y"]), "leave it out"),
    ((TABLE, y), dict(columns=["age"]), "no column 'age'"), ((TABLE, "y"), dict(columns=[]), "no feature"),
    ((X, y), dict(columns=["a"]), "names has 1"),
    ((X, y), dict(progress=3), "progress=3"), ((X, y), dict(clip=3), "clip=3"),
    ((X, y), dict(clip=Clip(1.0, 1.0, ranges={"age": (0, 9)})), "ranges name columns"),
    ((pd.concat([TABLE.to_pandas()] * 2, axis=1), "y"), {}, "clash"), (([], "y"), {}, "empty list"),
    ((TABLE.lazy().select(pl.col("nothing")), "y"), {}, "the query fails"),
    ((iter([(X, y)]),), dict(clip=Clip(1.0, 1.0, ranges={"age": (0, 9)})), "ranges name columns"),
])
def test_what_is_no_source(args, options, words):
    sentence = refusal(moments_of, *args, **options)
    assert words in sentence and "\n" not in sentence, sentence


def test_what_is_no_file(tmp_path, folder):
    for data, words in {
        tmp_path / "absent.csv": "does not exist", str(tmp_path / "*.csv"): "no file matches",
        tmp_path: "is a folder", __file__: "ends in .csv", (folder / "rows.csv",) * 2: "more than once",
        folder / "rows.csv": "y is missing",
        (folder / "X.npy", folder / "rows.csv"): "with other files", folder / "X.npy": "y is missing",
    }.items(): assert words in refusal(open_source, data)


def test_importing_is_light():
    code = "import sys, dp_knockoff.data.source; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"polars", "pyarrow", "dask", "distributed", "pandas", "narwhals"} & set(run.stdout.split())


def test_repr(folder):
    text = repr(open_source(folder / "rows.parquet", "y"))
    assert "rows.parquet" in text and "30,000 rows" in text and "20 features" in text and "'x0'" in text


# dictionaries and groups

FACTS = {"target": "y", "columns": {
    "age": {"range": [16, 90], "missing": 50, "indicator": True},
    "region": {"levels": ["south", "north", "east"]},
    "grade": {"levels": [1, 2, 2.5], "missing": 2}, "smokes": {"levels": [False, True]},
    "size": {"range": [0, 2]},
    "unused": {}, "y": {"range": [-5, 5], "missing": 0}}}
FEATURES = ["age", "region", "grade", "smokes", "size"]
ENCODED = ("age", "age is missing", "region=north", "region=east", "grade=2", "grade=2.5", "smokes=true",
           "size")
GROUPS = {"age": ENCODED[:2], "region": ENCODED[2:4], "grade": ENCODED[4:6], "smokes": ENCODED[6:7]}


def survey(n=30_000):
    "A table with factors and holes, and what it must become: encoded in the plainest way"
    rng = np.random.default_rng(0)
    age = np.where(rng.random(n) < .1, np.nan, rng.integers(16, 91, n))
    region = rng.choice(["south", "north", "east", "abroad"], n)
    grade = rng.choice([1, 2, 2.5, 9, np.nan], n)
    smokes = rng.random(n) < .3
    size = rng.random(n)
    y = np.where(rng.random(n) < .01, np.nan, rng.standard_normal(n))
    table = pl.DataFrame({"age": age, "region": region, "grade": grade, "smokes": smokes, "size": size,
                          "y": y})
    table = table.with_columns(pl.col("age", "grade", "y").fill_nan(None),
                               region=pl.when(pl.col("size") < .05).then(None).otherwise(pl.col("region")))
    region = np.where(size < .05, "", region)
    filled = np.where(np.isnan(grade), 2, grade)
    A = np.column_stack([np.where(np.isnan(age), 50, age), np.isnan(age), region == "north", region == "east",
                         filled == 2, filled == 2.5, smokes, size]).astype(float)
    return table, A, np.where(np.isnan(y), 0, y)


SURVEY, A, B = survey()


@pytest.fixture(scope="module")
def survey_folder(tmp_path_factory):
    "The survey in every kind of file"
    path = tmp_path_factory.mktemp("survey")
    SURVEY.write_csv(path / "rows.csv")
    (path / "rows.csv.gz").write_bytes(gzip.compress((path / "rows.csv").read_bytes(), 1))
    SURVEY.write_parquet(path / "rows.parquet", row_group_size=7000)
    SURVEY.with_columns(pl.col("region").cast(pl.Categorical)).write_parquet(path / "categories.parquet")
    for i, start in enumerate(range(0, N, 11_000)):
        columns = SURVEY.columns[::-1] if i else SURVEY.columns
        SURVEY[start:start + 11_000].select(columns).write_parquet(path / f"part-{i}.parquet")
    (path / "survey.toml").write_text("\n".join([
        'target = "y"', "[columns.age]", "range = [16, 90]", "missing = 50", "indicator = true",
        "[columns.region]", 'levels = ["south", "north", "east"]', "[columns.grade]", "levels = [1, 2, 2.5]",
        "missing = 2", "[columns.smokes]", "levels = [false, true]", "[columns.size]", "range = [0, 2]",
        "[columns.unused]", "[columns.y]", "range = [-5, 5]", "missing = 0"]))
    return path


def objects_of(table): return table.select(FEATURES).to_pandas().to_numpy(dtype=object)


PANDAS = SURVEY.to_pandas()
SURVEYED = {
    "pandas": lambda f: PANDAS, "polars": lambda f: SURVEY, "arrow": lambda f: SURVEY.to_arrow(),
    "objects": lambda f: PANDAS.astype(object),
    "categories": lambda f: PANDAS.astype({"region": "category", "grade": "category"}),
    "nullable": lambda f: PANDAS.convert_dtypes(),
    "parquet": lambda f: f / "rows.parquet", "categories in parquet": lambda f: f / "categories.parquet",
    "files": lambda f: f / "part-*.parquet", "csv": lambda f: f / "rows.csv",
    "gz": lambda f: f / "rows.csv.gz",
    "query": lambda f: SURVEY.lazy(), "scan": lambda f: pl.scan_csv(f / "rows.csv"),
    "chunks": lambda f: [SURVEY[i:i + 777] for i in range(0, N, 777)],
    "function": lambda f: lambda: (PANDAS[i:i + 7777][PANDAS.columns[::-1] if i else PANDAS.columns]
                                   for i in range(0, N, 7777)),
    "iterator": lambda f: (SURVEY[i:i + 777] for i in range(0, N, 777)),
}


@CLIPS
@pytest.mark.parametrize("way", SURVEYED)
def test_every_way_in_is_encoded_to_the_same_bits(survey_folder, way, clip):
    clip = clip and Clip(4.0, 3.0, ranges={"age": (16, 90), "size": (0, 2)})
    source = open_source(SURVEYED[way](survey_folder), dictionary=survey_folder / "survey.toml")
    assert source.names == ENCODED and source.groups == GROUPS and source.dictionary.target == "y"
    identical(source(clip), Moments.from_data(A, B, ENCODED, clip=clip))


def test_arrays_are_encoded_too(tmp_path):
    whole = Moments.from_data(A, B, ENCODED)
    objects, y = objects_of(SURVEY), SURVEY["y"].to_numpy()
    for data, target in ((objects, y), (objects.tolist(), y.tolist()),
                         ([(objects[:99], y[:99]), (objects[99:], y[99:])], None),
                         (SURVEY.select(FEATURES), y), ([(SURVEY.select(FEATURES), y)], None)):
        columns = None if isinstance(data, pl.DataFrame) or target is None and len(data) == 1 else FEATURES
        source = open_source(data, target, columns=columns, dictionary=FACTS)
        identical(source(), whole)
        assert source.groups == GROUPS
    numeric = SURVEY.select("age", "grade", pl.col("smokes").cast(float), "size").to_numpy()
    names = ["age", "grade", "smokes", "size"]
    np.save(tmp_path / "X.npy", numeric)
    np.save(tmp_path / "y.npy", y)
    kept = [j for j, name in enumerate(ENCODED) if not name.startswith("region")]
    for data, target in ((numeric, y), (tmp_path / "X.npy", tmp_path / "y.npy"),
                         (tmp_path / "X.npy", str(tmp_path / "y.npy"))):
        m = moments_of(data, target, columns=names, dictionary=FACTS)
        identical(m, Moments.from_data(A[:, kept], B, [ENCODED[j] for j in kept]))
    for data in (numeric, tmp_path / "X.npy"):
        assert "pass columns=[...]" in refusal(open_source, data, y, dictionary=FACTS)
        assert "y is missing" in refusal(open_source, data, columns=names, dictionary=FACTS)


def test_dask_is_encoded_where_it_is():
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    clip = Clip(4.0, 3.0)
    whole = Moments.from_data(A, B, ENCODED, clip=clip)
    source = open_source(dd.from_pandas(PANDAS, npartitions=3), dictionary=FACTS)
    identical(source(clip), whole)
    assert source.names == ENCODED and source.groups == GROUPS
    y = da.from_array(SURVEY["y"].to_numpy(), chunks=7000)
    X = da.from_array(objects_of(SURVEY), chunks=(7000, 5))
    identical(moments_of(X, y, columns=FEATURES, dictionary=FACTS, clip=clip), whole)
    assert "pass columns=[...]" in refusal(open_source, X, y, dictionary=FACTS)
    assert "nothing about column 'b'" in refusal(open_source, X[:, :1], y, columns=["b"], dictionary=FACTS)


def test_a_subset_and_another_response():
    source = open_source(SURVEY, columns=["size", "region"], dictionary=FACTS)
    assert source.names == ("size", *ENCODED[2:4]) and source.groups == {"region": ENCODED[2:4]}
    identical(source(), Moments.from_data(A[:, [7, 2, 3]], B, source.names))
    source = open_source(SURVEY, "smokes", columns=["size", "y"], dictionary=FACTS)
    identical(source(), Moments.from_data(np.column_stack([A[:, 7], B]), A[:, 6], ("size", "y")))
    assert source.dictionary.target == "smokes"
    assert "says nothing about column 'more'" in refusal(open_source, SURVEY.with_columns(more=1),
                                                         dictionary=FACTS)
    assert "holds the response 'y'" in refusal(open_source, SURVEY, columns=["y"], dictionary=FACTS)
    assert "nor a dict" in refusal(open_source, SURVEY, dictionary=3)
    late = SURVEY.to_pandas().assign(size=lambda t: t["size"].where(t.index != 20_000))
    known = moments_of(late, dictionary=FACTS)
    assert known.n == N and np.isclose(known.mean[7], (A[:, 7].sum() - A[20_000, 7] + 1) / N)


def test_a_late_odd_line_of_a_csv_file_is_no_matter_but_to_itself(survey_folder, tmp_path):
    lines = (survey_folder / "rows.csv").read_text().splitlines()
    for line, row, response in (
        ("much,nowhere,x,maybe,1,lots", [50, 1, 0, 0, 0, 0, 0, 1], 0),
        (",,,,1,", [50, 1, 0, 0, 1, 0, 0, 1], 0),
        ("1e999, north,2.50,TRUE,1,-3", [50, 1, 0, 0, 0, 1, 1, 1], -3),
        ('"17","north",2,1,"1",inf', [17, 0, 1, 0, 1, 0, 1, 1], 0),
        ('"","","","",1,""', [50, 1, 0, 0, 1, 0, 0, 1], 0), ("true,true,true,true,1,true",
                                                             [1, 0, 0, 0, 0, 0, 1, 1], 1),
    ):
        for place in (1, 29_000):  # the first line decides nothing, a late one neither
            changed, b = A.copy(), B.copy()
            changed[place - 1], b[place - 1] = row, response
            (tmp_path / "rows.csv").write_text("\n".join([*lines[:place], line, *lines[place + 1:]]))
            identical(moments_of(tmp_path / "rows.csv", dictionary=FACTS),
                      Moments.from_data(changed, b, ENCODED))
    for size in ("tall", "", "nan"): # nothing was said of holes in this column
        (tmp_path / "rows.csv").write_text("\n".join([*lines[:29_000], f"17,north,2,1,{size},3"]))
        wanted = np.array([17, 0, 1, 0, 1, 0, 1, 1])
        identical(moments_of(tmp_path / "rows.csv", dictionary=FACTS),
                  Moments.from_data(np.vstack([A[:28_999], wanted]), np.append(B[:28_999], 3), ENCODED))


def test_the_first_lines_of_a_csv_file_decide_nothing(tmp_path):
    facts = {"target": "y", "columns": {"zip": {"levels": ["01", "1", "x"]}, "age": {"missing": 50}}}
    path = tmp_path / "rows.csv"
    path.write_text("zip,age,y\n" + "01,?,1\n1,n/a,2\n2,,3\n" * 10 + "x,17,4\n01,1,5\n")
    source = open_source(path, dictionary=facts)  # without a dictionary zip is a number, and age is text
    Z = np.concatenate(source.collect(lambda X, y: [X]))
    assert source.names == ("zip=1", "zip=x", "age") and "holds text" in refusal(open_source, path, "y")
    assert Z.tolist() == [[0, 0, 50], [1, 0, 50], [0, 0, 50]] * 10 + [[0, 1, 17], [0, 0, 1]]


def test_names_and_types_for_a_template(survey_folder):
    dd = pytest.importorskip("dask.dataframe")
    for data in (SURVEY, PANDAS, SURVEY.to_arrow(), SURVEY.lazy(), survey_folder / "rows.csv",
                 [survey_folder / "rows.parquet"], dd.from_pandas(PANDAS, npartitions=2)):
        types = types_of(data)
        text = template(types, "y")
        assert list(types) == SURVEY.columns and "[columns.region]\nlevels = []" in text
        assert "[columns.smokes]\nlevels = [false, true]" in text and "[columns.y]\nrange = []" in text
    assert "is not a table" in refusal(types_of, X) and "is not a table" in refusal(types_of, [])
    assert "does not exist" in refusal(types_of, "absent.csv")


def test_groups_without_a_dictionary(folder):
    for data, target in ((TABLE, "y"), (folder / "rows.csv", "y"), (X, y), (Moments.from_data(X, y), None)):
        source = open_source(data, target, groups={"pair": ["x3", "x1"], "one": ["x0"]})
        assert source.groups == {"one": ("x0",), "pair": ("x3", "x1")} and source.names == tuple(NAMES)
        assert source.dictionary is None and source().n == N
    source = open_source(X, y)
    grouped = open_source(source, groups={"pair": ["x3", "x1"]})
    assert grouped.groups == {"pair": ("x3", "x1")} and source.groups == {} and grouped().n == N
    assert open_source(grouped) is grouped
    more = open_source(grouped, groups={"all": ["pair", "x2"]})
    assert more.groups == {"all": ("x3", "x1", "x2")}
    assert "some columns of 'pair'" in refusal(open_source, grouped, groups={"g": ["x1"]})
    assert "did you mean 'x1" in refusal(open_source, X, y, groups={"g": ["x 1"]})
    assert "group 'g' is []" in refusal(open_source, X, y, groups={"g": []})


def test_groups_beside_a_dictionary():
    source = open_source(SURVEY, dictionary=FACTS, groups={"body": ["size", "smokes"]})
    kept = {name: GROUPS[name] for name in ("age", "region", "grade")}
    assert source.groups == kept | {"body": ("size", "smokes=true")}
    assert "some columns of 'region'" in refusal(open_source, SURVEY, dictionary=FACTS,
                                                 groups={"g": ["region=east"]})


def test_moments_and_open_sources_of_encoded_columns():
    m = Moments.from_data(A, B, ENCODED)
    for data in (m, open_source(A, B, columns=ENCODED)):
        source = open_source(data, dictionary=FACTS)
        assert source.groups == GROUPS and source.dictionary.target == "y"
        identical(source(), m)
    assert "no encoded column 'x0'" in refusal(open_source, Moments.from_data(X, y), dictionary=FACTS)


def test_copies_of_a_source_share_what_can_be_read_once():
    source = open_source(iter(CHUNKS))
    grouped = open_source(source, groups={"pair": ["x3", "x1"]})
    assert source().n == N
    assert "can be read only once" in refusal(grouped)
