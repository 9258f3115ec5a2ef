"Sources: every door gives the same moments, a killed worker changes nothing, bad data gets one sentence."
import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff import sources
from dp_knockoff.ground import InputError, linear_model, refusal
from dp_knockoff.moments import Clip, Moments
from dp_knockoff.sources import Piece, added, block_rows, in_blocks, moments_of, open_source, tree_sum

dask = pytest.importorskip("dask")
import dask.array as da
import dask.dataframe as dd

N, P = 30_000, 20
X, y, _ = linear_model(N, p=P, k=5, rho=.3, random_state=0)
NAMES = [f"x{j}" for j in range(P)]
TABLE = pl.DataFrame(X, schema=NAMES).with_columns(y=y)
CLIP = Clip(4.0, 3.0, ranges={"x1": (-2, 6)}, response_center=.5)
CLIPS = pytest.mark.parametrize("clip", [None, CLIP], ids=["raw", "clipped"])


def identical(a, b):
    "Every field the same, to the last bit (the largest norm to the last but one)"
    for field in fields(Moments):
        mine, other = getattr(a, field.name), getattr(b, field.name)
        assert np.isclose(mine, other, rtol=1e-15, atol=0) if field.name == "row_norm" else np.array_equal(mine, other), field.name


def close(a, b, tol=1e-12):
    "Every field the same, sums up to rounding"
    for field in fields(Moments):
        mine, other = getattr(a, field.name), getattr(b, field.name)
        if field.name in ("mean", "scatter", "row_norm"): assert np.allclose(mine, other, rtol=tol, atol=tol * np.abs(other).max()), field.name
        else: assert mine == other, field.name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    "The table in every kind of file"
    path = tmp_path_factory.mktemp("files")
    TABLE.write_parquet(path / "rows.parquet", row_group_size=7000)
    pq.write_table(TABLE.to_arrow(), path / "one_group.parquet", row_group_size=10**6)
    TABLE.write_csv(path / "rows.csv")
    (path / "rows.csv.gz").write_bytes(gzip.compress((path / "rows.csv").read_bytes(), 1))
    for i, start in enumerate(range(0, N, 11_000)):
        TABLE[start:start + 11_000].select(*reversed(TABLE.columns) if i else TABLE.columns).write_parquet(path / f"part-{i}.parquet")
    np.save(path / "X.npy", X)
    np.save(path / "XF.npy", np.asfortranarray(X))
    np.save(path / "y.npy", y)
    return path


def doors(folder):
    chunks = [(X[i:i + 777], y[i:i + 777]) for i in range(0, N, 777)]
    return {
        "array": (X, y), "fortran": (np.asfortranarray(X), y), "map": (np.load(folder / "X.npy", mmap_mode="r"), y),
        "npy": (folder / "X.npy", folder / "y.npy"), "npy fortran": (str(folder / "XF.npy"), y),
        "pandas": (TABLE.to_pandas(), "y"), "polars": (TABLE, "y"), "arrow": (TABLE.to_arrow(), "y"), "pandas, array": (TABLE.drop("y").to_pandas(), y),
        "parquet": (folder / "rows.parquet", "y"), "one group": (str(folder / "one_group.parquet"), "y"), "glob": (str(folder / "part-*.parquet"), "y"),
        "list": ([folder / f"part-{i}.parquet" for i in range(3)], "y"), "csv": (folder / "rows.csv", "y"), "gz": (folder / "rows.csv.gz", "y"),
        "query": (TABLE.lazy(), "y"), "scan": (pl.scan_parquet(folder / "rows.parquet"), "y"),
        "function": (lambda: iter(chunks), None), "pairs": (chunks, None), "iterator": (iter(chunks), None),
        "tables": ([TABLE[i:i + 5000] for i in range(0, N, 5000)], "y"),
        "pandas chunks": (lambda: (TABLE[i:i + 4321].to_pandas() for i in range(0, N, 4321)), "y")}


DOORS = ["array", "fortran", "map", "npy", "npy fortran", "pandas", "polars", "arrow", "pandas, array", "parquet", "one group", "glob", "list", "csv", "gz",
         "query", "scan", "function", "pairs", "iterator", "tables", "pandas chunks"]


@CLIPS
@pytest.mark.parametrize("door", DOORS)
def test_every_door_gives_the_same_bits(folder, door, clip):
    seen, (data, target) = [], doors(folder)[door]
    source = open_source(data, target, progress=seen.append)
    identical(source(clip), Moments.from_data(X, y, clip=clip))
    assert source.names == tuple(NAMES) and sum(seen) == N and len(seen) > 1
    assert source.rows in (N, None)
    assert (source.rows is None) == (door in ("csv", "gz", "query", "scan", "function", "pairs", "iterator", "tables", "pandas chunks"))
    if door != "iterator": identical(source(clip), Moments.from_data(X, y, clip=clip))


@CLIPS
@pytest.mark.parametrize("columns", [None, ["x3", "x0", "x1"]])
def test_dask(clip, columns):
    seen, frame = [], TABLE.to_pandas()
    names = columns or NAMES
    whole = Moments.from_data(frame[names].to_numpy(), y, names, clip)
    for partitions in (1, 2, 7):
        m = moments_of(dd.from_pandas(frame, npartitions=partitions), "y", columns=columns, clip=clip, progress=seen.append)
        close(m, whole)
    assert seen == [N] * 3
    if columns: return
    for chunks, y_chunks in (((N, P), N), ((7000, P), 7000), ((4000, 6), 5000), (((0, 9000, 0, 0, 21_000), P), 700)):
        data, target = da.from_array(X, chunks=chunks), da.from_array(y, chunks=y_chunks)
        source = open_source(data, target)
        close(source(clip), whole)
        close(open_source(data, target[:, None])(clip), whole)
        assert source.rows == N


def test_dask_chunks_of_unknown_length():
    data, target = da.from_array(X, chunks=(4000, P)), da.from_array(y, chunks=4000)
    keep = target > 0
    m = open_source(data[keep], target[keep])
    assert m.rows is None
    close(m(), Moments.from_data(X[y > 0], y[y > 0]))
    assert "compute_chunk_sizes" in refusal(open_source, data[keep], da.from_array(y, chunks=9000))


def test_dask_adds_as_a_tree_on_the_cluster():
    assert tree_sum(list("abcde"), lambda a, b="": f"({a}{b})") == "(((ab)(cd))((e)))"
    m = Moments.from_data(X[:50], y[:50])
    assert added(m) is m and added(None, m) is m and added(m, None) is m and added(None, None) is None


def slowed(block):
    "A block that takes a while to come"
    time.sleep(.05)
    return block


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_a_killed_worker_changes_nothing(kind):
    from distributed import Client, LocalCluster
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster, Client(cluster) as client:
        if kind == "array": data, target = da.from_array(X, chunks=(500, P)).map_blocks(slowed, dtype=float), da.from_array(y, chunks=500)
        else: data, target = dd.from_pandas(TABLE.to_pandas(), npartitions=40).map_partitions(slowed), "y"
        source = open_source(data, target)
        undisturbed = source(CLIP)
        close(undisturbed, Moments.from_data(X, y, clip=CLIP))
        workers, killed = client.run(os.getpid), []
        def kill():
            while not finished_some(client): time.sleep(.02)
            killed.append(next(iter(workers.values())))
            os.kill(killed[0], signal.SIGKILL)
        thread = threading.Thread(target=kill)
        thread.start()
        disturbed = source(CLIP)
        thread.join()
        assert killed[0] not in client.run(os.getpid).values()
        identical(disturbed, undisturbed)


def finished_some(client):
    "Has any worker got partial moments by now?"
    return any("partition_moments" in str(key) for keys in client.has_what().values() for key in keys)


def test_a_worker_that_refuses_is_heard():
    from distributed import Client, LocalCluster
    frame = TABLE.to_pandas().assign(x3=lambda t: t.x3.where(t.x3 < 3.5))
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster, Client(cluster):
        assert "missing values" in refusal(moments_of, dd.from_pandas(frame, npartitions=3), "y")
        fails = dd.from_pandas(frame, npartitions=3).map_partitions(lambda part: 1 / 0, meta=frame[:0])
        with pytest.raises(InputError, match="ZeroDivisionError") as error: moments_of(fails, "y")
        assert error.value.__cause__ is not None


@given(st.lists(st.integers(0, 40), max_size=12), st.integers(1, 30))
def test_blocks_are_the_same_rows(lengths, size):
    stops = np.cumsum([0, *lengths])
    rows = type("Numbers", (), dict(names=("a",), block=staticmethod(lambda a, b: (np.arange(a, b)[:, None], np.arange(a, b)))))()
    blocks = list(in_blocks((Piece(rows, int(a), int(b), "") for a, b in zip(stops, stops[1:])), size))
    assert [len(block) for block in blocks] == [size] * (stops[-1] // size) + [stops[-1] % size] * int(stops[-1] % size > 0)
    found = [value for block in blocks for value in block.block(0, size)[1]]
    assert found == list(range(stops[-1]))


@given(st.data())
def test_any_split_gives_the_same_bits(data):
    n = data.draw(st.integers(1, 900))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), max_size=8)))
    clip = data.draw(st.sampled_from([None, Clip(1.5, 2.0, intercept=False)]))
    A, b = X[:n].repeat(3, axis=1), y[:n]  # sixty columns: several blocks of 256 rows would need p > 2000, so the size is patched
    parts = [(A[i:j], b[i:j]) for i, j in zip([0, *cuts], [*cuts, n])]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "block_rows", lambda p: 100)
        identical(moments_of(parts, clip=clip), moments_of(A, b, clip=clip))
    identical(moments_of(parts, clip=clip), Moments.from_data(A, b, clip=clip))


@pytest.mark.parametrize("p", [1, 7, 50, 3000])
def test_blocks_are_those_of_gather(p, monkeypatch):
    "The digits agree only if a block here is a block there"
    lengths, right = [], Moments.__add__
    monkeypatch.setattr(Moments, "__add__", lambda a, b: lengths.append(b.n) or right(a, b))
    n = 2 * block_rows(p) + 1
    Moments.from_data(np.broadcast_to(np.linspace(0, 1, n)[:, None], (n, p)), np.zeros(n))
    assert lengths == [block_rows(p), 1]


def test_many_blocks_are_added_in_the_order_and_groups_of_gather():
    rng, n = np.random.default_rng(0), 67 * block_rows(1) + 5
    A, b = rng.integers(-99, 99, (n, 1), dtype=np.int8), rng.integers(-99, 99, n, dtype=np.int8)
    identical(moments_of(A, b), Moments.from_data(A, b))


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "int64", "bool"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_types(tmp_path, dtype, ending):
    A = (np.abs(X[:900, :3]) * 3).astype(dtype)
    frame = pd.DataFrame(A, columns=list("abc")).assign(y=y[:900])
    path = tmp_path / f"rows.{ending}"
    if ending == "csv": frame.astype({c: float for c in frame if frame[c].dtype == np.float32}).to_csv(path, index=False)
    else: frame.to_parquet(path)
    identical(moments_of(path, "y"), Moments.from_data(A.astype(float), y[:900], list("abc")))
    close(moments_of(dd.from_pandas(frame, npartitions=3), "y"), Moments.from_data(A.astype(float), y[:900], list("abc")))


@pytest.mark.parametrize("rows", [1, 100, 2000, 10_000])
def test_row_groups_of_any_size(tmp_path, rows, monkeypatch):
    TABLE[:2000].write_parquet(tmp_path / "rows.parquet", row_group_size=rows)
    meta = pq.ParquetFile(tmp_path / "rows.parquet").metadata
    for least in (1, 150, 10**6):
        runs = sources.runs_of_groups(meta, least)
        assert sum(runs, []) == list(range(meta.num_row_groups))
        assert all(sum(meta.row_group(i).num_rows for i in run) >= least for run in runs[:-1])
    monkeypatch.setattr(sources, "batch_rows", lambda p: 150)
    told = []
    monkeypatch.setattr(os, "posix_fadvise", lambda file, start, length, advice: told.append((start, length)), raising=False)
    identical(moments_of(tmp_path / "rows.parquet", "y"), Moments.from_data(X[:2000], y[:2000]))
    size = (tmp_path / "rows.parquet").stat().st_size
    assert told and all(0 < start < start + length < size for start, length in told)
    assert sum(length for _, length in set(told)) > .9 * sum(meta.row_group(i).column(j).total_compressed_size
                                                             for i in range(meta.num_row_groups) for j in range(meta.num_columns))


def test_decimals_nullable_integers_and_dotted_names(tmp_path):
    values = [1, 2, 3, 5]
    table = pa.table({"a.b": pa.array(values, pa.decimal128(5, 2)), "a": pa.array(values[::-1]), "y": [1., 2., 3., 1.]})
    pq.write_table(table, tmp_path / "rows.parquet")
    whole = Moments.from_data(np.column_stack([values, values[::-1]]), table["y"].to_numpy(), ["a.b", "a"])
    identical(moments_of(tmp_path / "rows.parquet", "y"), whole)
    frame = pd.DataFrame({"a.b": pd.array(values, dtype="Int64"), "a": values[::-1], "y": [1., 2., 3., 1.]})
    identical(moments_of(frame, "y"), whole)
    identical(moments_of(pd.DataFrame({0: values, 1: values[::-1]}), table["y"].to_numpy(), ), Moments.from_data(np.column_stack([values, values[::-1]]), table["y"].to_numpy(), ["0", "1"]))


def test_a_csv_column_may_begin_with_whole_numbers_and_a_file_with_a_mark(tmp_path):
    rows = ["1,2,3"] * 30_000 + ["1.5,2,1e3", "-7,4,.5"]
    (tmp_path / "rows.csv").write_text("\ufeffa,b,y\r\n" + "\r\n".join(rows), encoding="utf-8")
    A = np.array([row.split(",") for row in rows], dtype=float)
    identical(moments_of(tmp_path / "rows.csv", "y"), Moments.from_data(A[:, :2], A[:, 2], ["a", "b"]))


def test_columns_are_chosen_and_ordered(folder):
    whole = Moments.from_data(X[:, [4, 1]], y, ["x4", "x1"])
    for data in (folder / "rows.parquet", folder / "rows.csv", TABLE, TABLE.lazy(), lambda: [TABLE]):
        identical(moments_of(data, "y", columns=["x4", "x1"]), whole)
    identical(moments_of(TABLE, y, columns=["x4", "x1"]), whole)
    assert open_source(X, y, columns=[f"v{j}" for j in range(P)]).names[3] == "v3"
    swapped = TABLE.select("y", *NAMES[::-1])
    identical(moments_of([TABLE[:9000], swapped[9000:]], "y"), Moments.from_data(X, y))


def test_text_in_columns_that_are_not_used_is_no_matter(tmp_path):
    frame = TABLE.with_columns(name=pl.lit("somebody"), hole=pl.lit(None, dtype=pl.Float64))
    frame.write_csv(tmp_path / "rows.csv"); frame.write_parquet(tmp_path / "rows.parquet")
    for data in (frame, tmp_path / "rows.csv", tmp_path / "rows.parquet", frame.lazy(), dd.from_pandas(frame.to_pandas(), npartitions=2)):
        close(moments_of(data, "y", columns=NAMES), Moments.from_data(X, y))


def test_moments_pass_through():
    m = Moments.from_data(X, y, clip=CLIP)
    assert moments_of(m) is m and moments_of(m, clip=CLIP) is m and open_source(m).rows == N
    assert "within the bounds" in refusal(moments_of, Moments.from_data(X, y), clip=CLIP)
    assert "leave target" in refusal(moments_of, m, "y")


def test_an_iterator_is_read_once_and_a_function_any_number_of_times():
    chunks = [(X[:100], y[:100]), (X[100:], y[100:])]
    source = open_source(iter(chunks))
    source()
    assert "only once" in refusal(source)
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


def test_empty_chunks_files_and_partitions_are_skipped(tmp_path):
    identical(moments_of([(X[:0], y[:0]), (X, y), (X[:0], y[:0])]), Moments.from_data(X, y))
    TABLE[:0].write_csv(tmp_path / "a.csv"); TABLE.write_csv(tmp_path / "b.csv"); TABLE[:0].write_parquet(tmp_path / "c.parquet")
    identical(moments_of([tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.parquet"], "y"), Moments.from_data(X, y))
    for data, target in ((tmp_path / "a.csv", "y"), (tmp_path / "c.parquet", "y"), (TABLE[:0], "y"), (X[:0], y[:0]), ([(X[:0], y[:0])], None),
                         (TABLE[:0].lazy(), "y"), (dd.from_pandas(TABLE[:0].to_pandas(), npartitions=1), "y"),
                         (da.from_array(X)[:0], da.from_array(y)[:0])):
        assert "no rows" in refusal(moments_of, data, target)


def test_a_memory_map_is_not_loaded(tmp_path, folder):
    "Ten times the memory that the pass may use"
    code = f"""
import numpy as np, re
from dp_knockoff.sources import moments_of
def memory(what): return int(re.search(what + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
n, p = 2_000_000, 20
np.lib.format.open_memmap({str(tmp_path / 'X.npy')!r}, "w+", float, (n, p)).flush(); np.save({str(tmp_path / 'y.npy')!r}, np.arange(n) % 7)
X = np.load({str(tmp_path / 'X.npy')!r}, mmap_mode="r")
moments_of(X[:1000], np.arange(1000))
before, seen = memory("VmRSS"), []
m = moments_of(X, {str(tmp_path / 'y.npy')!r} and np.load({str(tmp_path / 'y.npy')!r}, mmap_mode="r"), progress=lambda rows: seen.append(memory("VmRSS")))
print(m.n, max(seen) - before)
"""
    assert isinstance(sources.load_npy(str(folder / "X.npy")), np.memmap)
    if not os.path.exists("/proc/self/status"): pytest.skip("needs /proc")
    n, grown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert int(n) == 2_000_000 and float(grown) < 120, f"{grown} MB of a file of 320"


def test_a_changed_copy_on_write_map_keeps_its_changes(folder):
    A = np.load(folder / "X.npy", mmap_mode="c")
    A[:] += 1
    identical(moments_of(A, y), Moments.from_data(X + 1, y))
    identical(moments_of(A, y), Moments.from_data(X + 1, y))


def write(folder, name, *lines, header="a,b,y"):
    (folder / name).write_text("\n".join([header, *lines]) + "\n")
    return str(folder / name)


GOOD = ["1,2,3", "4,5,7", "2,9,1"] * 1000


@pytest.mark.parametrize("lines, words", [
    (["1,,3"], ["missing values", "1 in 'b'", "row 3000"]),
    (["1"], ["1 in 'b', 1 in 'y'", "row 3000", "may end early"]),
    ([""], ["row 3000", "blank line"]),
    (["1,2,3,4"], ["more fields"]),
    (["1,red,3"], ["'b'", "'red'", "row 3000", "no number"]),
    (["1,inf,3", "nan,2,3", "nan,2,3"], ["2 in 'a', 1 in 'b'", "row 3000"]),
    (["1,2,-Infinity"], ["1 in 'y'"]),
], ids=["hole", "early", "blank", "long", "text", "infinite", "response"])
@pytest.mark.parametrize("packed, batch", [(False, None), (True, None), (False, 700)])
def test_bad_lines_of_csv(tmp_path, monkeypatch, lines, words, packed, batch):
    if batch: monkeypatch.setattr(sources, "batch_rows", lambda p: batch)
    path = write(tmp_path, "rows.csv", *GOOD, *lines, *GOOD)
    if packed:
        (tmp_path / "rows.csv.gz").write_bytes(gzip.compress((tmp_path / "rows.csv").read_bytes()))
        path += ".gz"
    for clip in (None, Clip(1.0, 1.0)):
        sentence = refusal(moments_of, path, "y", clip=clip)
        assert all(word in sentence for word in [repr(path), *words]) and "\n" not in sentence


def test_bad_headers_of_csv(tmp_path):
    for header, words in {"a,a,y": ["clash", "'a'"], "a;b;y": ["separated by commas"], "a,b": ["'y' is not a column", "'a', 'b'"], "y": ["no feature"]}.items():
        line = ",".join("1" * (header.count(",") + 1))
        sentence = refusal(open_source, write(tmp_path, "rows.csv", line, line, header=header), "y")
        assert all(word in sentence for word in words) and "rows.csv" in sentence, sentence
    (tmp_path / "empty.csv").write_text("")
    assert "is empty" in refusal(open_source, tmp_path / "empty.csv", "y")
    assert "holds text" in refusal(open_source, write(tmp_path, "text.csv", "1,red,2", "3,blue,4"), "y")
    assert "'n/a' in row 1" in refusal(moments_of, write(tmp_path, "stray.csv", "1,2,3", "1,n/a,3", "1,2,3"), "y")
    assert "missing values" in refusal(moments_of, write(tmp_path, "never.csv", "1,,2", "3,,4"), "y")


def test_bad_parquet(tmp_path, folder, monkeypatch):
    nulls = pl.DataFrame({"a": [1, None, None], "b": [True, None, False], "c": [.5, 1, 2], "y": [1., 2., 3.]})
    nulls.write_parquet(tmp_path / "nulls.parquet")
    assert "(2 in 'a', 1 in 'b')" in refusal(moments_of, tmp_path / "nulls.parquet", "y")
    TABLE.with_columns(x3=pl.when(pl.col("x3") > 3.5).then(float("nan")).otherwise("x3")).write_parquet(tmp_path / "nan.parquet")
    assert "NaN" in refusal(moments_of, tmp_path / "nan.parquet", "y") and "'x3'" in refusal(moments_of, tmp_path / "nan.parquet", "y")
    TABLE.with_columns(x3=pl.when(pl.int_range(N) == 29_990).then(None).otherwise("x3")).write_parquet(tmp_path / "late.parquet", row_group_size=1000)
    with monkeypatch.context() as patch:
        patch.setattr(sources, "batch_rows", lambda p: 1000)
        assert "in rows 29000 to 29999 (1 in 'x3')" in refusal(moments_of, tmp_path / "late.parquet", "y")
    TABLE.with_columns(x3=pl.col("x3") * 1e200).write_parquet(tmp_path / "huge.parquet")
    sentence = refusal(moments_of, tmp_path / "huge.parquet", "y")
    assert sentence.startswith(repr(str(tmp_path / "huge.parquet"))) and "'x3' is so large" in sentence
    content = (folder / "rows.parquet").read_bytes()
    for name, damaged in {"cut": content[:len(content) // 2], "hurt": content[:10_000] + bytes(5000) + content[15_000:], "no": b"hello, world"}.items():
        (tmp_path / f"{name}.parquet").write_bytes(damaged)
        sentence = refusal(moments_of, tmp_path / f"{name}.parquet", "y")
        assert f"{name}.parquet" in sentence and "damaged" in sentence and "\n" not in sentence
    twice = pa.table([pa.array([1.]), pa.array([2.]), pa.array([3.])], names=["a", "a", "y"])
    pq.write_table(twice, tmp_path / "twice.parquet")
    assert "clash" in refusal(open_source, tmp_path / "twice.parquet", "y")


def test_a_cut_gzip_and_a_cut_npy(tmp_path, folder):
    content = (folder / "rows.csv.gz").read_bytes()
    for size in (300, len(content) // 2, len(content) - 20):
        (tmp_path / "cut.csv.gz").write_bytes(content[:size])
        sentence = refusal(moments_of, tmp_path / "cut.csv.gz", "y")
        assert "cut.csv.gz" in sentence and "damaged" in sentence and "\n" not in sentence
    for size in (10, 1000):
        (tmp_path / "cut.npy").write_bytes((folder / "X.npy").read_bytes()[:size])
        assert "damaged" in refusal(open_source, tmp_path / "cut.npy", y)


@pytest.mark.parametrize("column, word", [
    (pl.Series(["red", "blue"] * 2, dtype=pl.Categorical), "categories"), (pl.Series(["red", "blue"] * 2), "text"),
    (pl.Series([pd.Timestamp(0)] * 4), "Datetime"), (pl.Series([[1], [2]] * 2), "List"),
])
def test_columns_that_are_no_numbers(tmp_path, column, word):
    table = TABLE[:4].with_columns(c=column)
    table.write_parquet(tmp_path / "rows.parquet")
    ways = [table, table.to_arrow(), table.lazy(), tmp_path / "rows.parquet", [table]]
    if word != "List": ways += [table.to_pandas(), dd.from_pandas(table.to_pandas(), npartitions=1)]
    for data in ways:
        sentence = refusal(open_source, data, "y")
        assert "'c'" in sentence and (word in sentence or "text" in sentence) and "columns=" in sentence
        assert ("one 0/1 column per category" in sentence) == (word in ("categories", "text"))


def test_files_must_agree(tmp_path):
    first = write(tmp_path, "a.csv", "1,2,3")
    def sentence(name, table, **kwargs):
        table.write_parquet(tmp_path / name)
        return refusal(open_source, [first, tmp_path / name], "y", **kwargs)
    assert "has no column 'b'" in sentence("lost.parquet", pl.DataFrame({"a": [1.], "y": [2.]}))
    assert "has a column 'c'" in sentence("new.parquet", pl.DataFrame({"a": [1.], "b": [1.], "c": [1.], "y": [2.]}))
    assert "holds text" in sentence("text.parquet", pl.DataFrame({"a": ["1"], "b": [1.], "y": [2.]}))
    assert moments_of([first, tmp_path / "new.parquet"], "y", columns=["b", "a"]).n == 2


def test_chunks_must_agree():
    assert "chunk 1 has no column 'x19'" in refusal(moments_of, [(X, y), (X[:, 1:], y)])
    assert "chunk 1 has a column 'z'" in refusal(moments_of, [TABLE, TABLE.with_columns(z=1)], "y")
    assert "'x3' of chunk 1 holds text" in refusal(moments_of, [TABLE, TABLE.with_columns(x3=pl.lit("?"))], "y")
    assert "chunk 1" in refusal(moments_of, [(X, y), (X, y[1:])])
    assert "chunk 1 is a DataFrame" in refusal(moments_of, [(X, y), TABLE])
    assert "chunk 0 is a tuple" in refusal(moments_of, [(X, y)], "y")
    assert "chunk 0 is a int" in refusal(moments_of, lambda: [1])
    assert "no chunk" in refusal(moments_of, lambda: [])
    assert "returns 7" in refusal(moments_of, lambda: 7)
    sentence = refusal(moments_of, [(X, y), (np.where(np.arange(N)[:, None] == 20_000, np.nan, X), y)])
    assert "chunk 1" in sentence and "first in row 20000" in sentence


def test_missing_values_in_memory():
    frame = TABLE.to_pandas()
    for table in (frame.assign(x3=frame.x3.where(frame.x3 < 3.5)), frame.assign(x3=pd.array([1, None] * (N // 2), dtype="Int64")),
                  TABLE.with_columns(x3=pl.when(pl.col("x3") < 3.5).then("x3")), TABLE.with_columns(x3=pl.Series([True, None] * (N // 2)))):
        sentence = refusal(moments_of, table, "y")
        assert "missing values" in sentence and "'x3'" in sentence and "drop or impute" in sentence
        assert "missing values" in refusal(moments_of, table, "y", clip=CLIP)
    assert "1 in 'price'" in refusal(moments_of, frame.rename(columns={"y": "price"}).assign(price=lambda t: t.price.replace(t.price[5], np.inf)), "price")
    assert "'y'" in refusal(moments_of, X, np.where(np.arange(N) == 29_999, np.nan, y)) and "row 29999" in refusal(moments_of, X, np.where(np.arange(N) == 29_999, np.nan, y))


def test_what_is_no_source(tmp_path):
    for call, words in {
        (lambda: open_source(tmp_path / "absent.csv", "y")): "does not exist", (lambda: open_source(str(tmp_path / "*.csv"), "y")): "no file matches",
        (lambda: open_source(tmp_path, "y")): "is a folder", (lambda: open_source([], "y")): "empty list", (lambda: open_source(7)): "data=7",
        (lambda: open_source(__file__, "y")): "ends in .csv", (lambda: open_source(X)): "target is missing", (lambda: open_source(TABLE)): "target is missing",
        (lambda: open_source(X, "y")): "names a column", (lambda: open_source(X, y[1:])): "entries but", (lambda: open_source(X[0], y)): "shape",
        (lambda: open_source(TABLE, "price")): "'price' is not a column", (lambda: open_source(TABLE, "y", columns="x1")): "not a list",
        (lambda: open_source(TABLE, "y", columns=["x1", "x1"])): "clash", (lambda: open_source(TABLE, "y", columns=["y"])): "leave it out",
        (lambda: open_source(TABLE, "y", columns=["age"])): "no column 'age'", (lambda: open_source(TABLE, y, columns=["age"])): "no column 'age'",
        (lambda: open_source(TABLE, "y", columns=[])): "no feature", (lambda: open_source(X, y, columns=["a"])): "names has 1",
        (lambda: open_source(X, y, progress=3)): "progress=3", (lambda: open_source(X, y)(3)): "clip=3",
        (lambda: open_source(X, y)(Clip(1.0, 1.0, ranges={"age": (0, 9)}))): "ranges name columns",
        (lambda: open_source(pd.concat([TABLE.to_pandas()] * 2, axis=1), "y")): "clash",
        (lambda: open_source(TABLE.lazy().select(pl.col("nothing")), "y")): "the query fails",
        (lambda: moments_of(TABLE.lazy().with_columns(x0=pl.lit("a").cast(pl.Float64)), "y")): "the query fails",
        (lambda: open_source(da.from_array(X), y)): "not a Dask array", (lambda: open_source(da.from_array(X), da.from_array(y[1:]))): "entries but",
        (lambda: open_source(da.from_array(y), da.from_array(y))): "1 dimensions", (lambda: open_source(da.from_array(X), da.from_array(X))): "2 dimensions",
        (lambda: open_source(da.from_array(X.astype(str)), da.from_array(y))): "type <U", (lambda: open_source(dd.from_pandas(TABLE.to_pandas()["y"], npartitions=1), "y")): "pass a Dask array or data frame",
        (lambda: open_source(dd.from_pandas(TABLE.to_pandas(), npartitions=2))): "not the name of a column",
        (lambda: open_source([tmp_path / "a.npy"] * 2, y)): "does not exist",
    }.items():
        sentence = refusal(call)
        assert words in sentence and "\n" not in sentence, sentence


def test_bounds_that_do_not_fit_are_refused_before_a_row_is_read():
    unfit = Clip(1.0, 1.0, ranges={"age": (0, 9)})
    for data, target in ((X, y), (iter([(X, y)]), None), (dd.from_pandas(TABLE.to_pandas(), npartitions=2), "y")):
        assert refusal(moments_of, data, target, clip=unfit).startswith("ranges name columns")


def test_a_file_twice_and_npy_among_others(tmp_path, folder):
    assert "more than once" in refusal(open_source, [folder / "rows.csv"] * 2, "y")
    assert "more than once" in refusal(open_source, [folder / "rows.csv", folder / ".." / folder.name / "rows.csv"], "y")
    assert "with other files" in refusal(open_source, [folder / "X.npy", folder / "rows.csv"], "y")
    assert "target is missing" in refusal(open_source, folder / "X.npy")
    np.save(tmp_path / "objects.npy", np.array([[1, "a"]], dtype=object))
    assert "objects.npy" in refusal(open_source, tmp_path / "objects.npy", y[:1])


@pytest.mark.parametrize("module, name, extra", [("polars", "rows.csv", "files"), ("pyarrow", "rows.parquet", "files")])
def test_what_to_install(folder, module, name, extra):
    code = (f"import sys; sys.modules[{module!r}] = None\nfrom dp_knockoff.ground import refusal\nfrom dp_knockoff.sources import open_source\n"
            f"print(refusal(open_source, {str(folder / name)!r}, 'y'))")
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert f"pip install 'dp-knockoff[{extra}]'" in out


def test_old_polars_is_refused(folder, monkeypatch):
    "Before 1.37 an error while reading in batches ended the file early, and nobody heard of it"
    monkeypatch.setattr(pl, "__version__", "1.36.1")
    assert "polars>=1.37" in refusal(open_source, folder / "rows.csv", "y") and "polars>=1.37" in refusal(open_source, TABLE.lazy(), "y")
    monkeypatch.setattr(pl, "__version__", "2.0.0rc1")
    open_source(folder / "rows.csv", "y")


def test_importing_is_light():
    code = "import sys, dp_knockoff.sources; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert not {"polars", "pyarrow", "dask", "distributed", "pandas", "narwhals"} & set(loaded)


def test_few_batches_are_under_way():
    "The reader is never far ahead of the sums"
    read, done, most = [0], [0], 0
    def chunks():
        for _ in range(200):
            read[0] += 1
            yield X[:block_rows(P)], y[:block_rows(P)]
    lead = []
    source = open_source(chunks, progress=lambda rows: (done.__setitem__(0, done[0] + 1), lead.append(read[0] - done[0])))
    read[0] = 0
    assert source().n == 200 * block_rows(P)
    assert max(lead) <= 4 * (os.cpu_count() or 1) + 3


def test_repr(folder):
    text = repr(open_source(folder / "rows.parquet", "y"))
    assert "rows.parquet" in text and "30,000 rows" in text and "20 features" in text and "'x0'" in text
