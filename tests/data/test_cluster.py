"Dask: partitions give the same moments, a killed worker changes nothing, a worker that refuses is heard."
import os
import signal
import threading
import time
from functools import partial
from operator import add

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data import cluster
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.cluster import _added, partition_sum, tree_sum
from dp_knockoff.data.moments import Moments
from same_rows import CLIP, NAMES, TABLE, N, P, X, as_source, close, identical, told, y

dask = pytest.importorskip("dask")
import dask.array as da
import dask.dataframe as dd

open_dask = as_source(cluster.open_dask)

FRAME = TABLE.to_pandas()
CLIPS = pytest.mark.parametrize("clip", [None, CLIP], ids=["raw", "clipped"])


def frame_of(table, partitions=3): return dd.from_pandas(table, npartitions=partitions)


def count_above(A, b, bound):
    "A summary that can travel: rows, and responses above a bound"
    return np.array([len(b), (b > bound).sum()])


@CLIPS
@pytest.mark.parametrize("columns", [None, ["x3", "x0", "x1"]])
def test_frames_of_any_number_of_partitions(clip, columns):
    seen, names = [], columns or NAMES
    whole = Moments.from_data(FRAME[names].to_numpy(), y, names, clip)
    for partitions in (1, 2, 7):
        close(open_dask(frame_of(FRAME, partitions), "y", columns, progress=seen.append)(clip), whole)
    assert seen == [N] * 3


@CLIPS
def test_arrays_of_any_chunks(clip):
    whole = Moments.from_data(X, y, clip=clip)
    uneven = (0, 9000, 0, 0, 21_000)
    for chunks, y_chunks in (((N, P), N), ((7000, P), 7000), ((4000, 6), 5000), ((uneven, P), 700)):
        data, target = da.from_array(X, chunks=chunks), da.from_array(y, chunks=y_chunks)
        source = open_dask(data, target)
        close(source(clip), whole)
        close(open_dask(data, target[:, None])(clip), whole)
        assert source.rows == N


def test_chunks_of_unknown_length():
    data, target = da.from_array(X, chunks=(4000, P)), da.from_array(y, chunks=4000)
    keep = target > 0
    source = open_dask(data[keep], target[keep])
    assert source.rows is None
    close(source(), Moments.from_data(X[y > 0], y[y > 0]))
    assert "compute_chunk_sizes" in refusal(open_dask, data[keep], da.from_array(y, chunks=9000))


def test_any_summary_is_collected():
    summarise = partial(count_above, bound=1.0)
    arrays = da.from_array(X, chunks=(7000, 5)), da.from_array(y, chunks=900)
    for data, target in ((frame_of(FRAME), "y"), arrays):
        assert open_dask(data, target).collect(summarise).tolist() == [N, (y > 1).sum()]
    holes = FRAME.assign(x3=FRAME.x3.where(FRAME.x3 < 3.5))
    assert "infinite values" in refusal(open_dask(frame_of(holes), "y").collect, summarise)


def test_partitions_are_added_as_a_tree():
    def brackets(a, b): return f"({a}{b})"
    assert tree_sum(list("abcde"), brackets) == "(((ab)(cd))e)"
    assert [tree_sum(list(range(k)), add) for k in (1, 2, 3, 10)] == [0, 1, 3, 45]
    m = Moments.from_data(X[:50], y[:50])
    assert _added((50, m), (0, None)) == (50, m) == _added((0, None), (50, m))
    other = Moments.from_data(X[:50], y[:50])
    assert _added((0, None), (0, None)) == (0, None) and _added((50, m), (50, other))[1].n == 100
    assert "added twice" in refusal(_added, (50, m), (50, m))
    zero = np.zeros(2)
    assert _added((5, zero), (0, None))[1] is zero  # nothing but zeros is not nothing


def test_empty_partitions_are_skipped_and_nothing_at_all_is_refused():
    parts = [dask.delayed(part) for part in (FRAME[:0], FRAME[:100], FRAME[:0], FRAME[100:], FRAME[:0])]
    close(open_dask(dd.from_delayed(parts, meta=FRAME[:0]), "y")(), Moments.from_data(X, y))
    assert partition_sum(FRAME[:0], "y", NAMES, 0, None) == (0, None)
    for data, target in ((frame_of(FRAME[:0], 1), "y"), (da.from_array(X)[:0], da.from_array(y)[:0])):
        assert "no rows" in refusal(open_dask(data, target))


@pytest.mark.parametrize("dtype", ["float32", "int16", "uint8", "int64", "bool"])
def test_types(dtype):
    A = (np.abs(X[:900, :3]) * 3).astype(dtype)
    frame = pd.DataFrame(A, columns=list("abc")).assign(y=y[:900])
    close(open_dask(frame_of(frame), "y")(), Moments.from_data(A.astype(float), y[:900], list("abc")))


def test_text_in_columns_that_are_not_used_is_no_matter():
    frame = FRAME.assign(name="somebody", hole=None)
    close(open_dask(frame_of(frame), "y", NAMES)(), Moments.from_data(X, y))


# workers

def slowed(block):
    "A block that takes a while to come"
    time.sleep(.05)
    return block


def finished_some(client):
    "Has any worker got partial sums by now?"
    return any("partition_sum" in str(key) for keys in client.has_what().values() for key in keys)


def local_cluster(workers):
    from distributed import LocalCluster
    return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")


def test_a_killed_worker_changes_nothing():
    from distributed import Client
    arrays = (da.from_array(X, chunks=(500, P)).map_blocks(slowed, dtype=float), da.from_array(y, chunks=500))
    with local_cluster(2) as cluster, Client(cluster) as client:
        for data, target in (arrays, (frame_of(FRAME, 40).map_partitions(slowed), "y")):
            client.wait_for_workers(2) # the one that is killed comes back
            source = open_dask(data, target)
            undisturbed = source(CLIP)
            identical(undisturbed, Moments.from_data(X, y, clip=CLIP))
            disturbed = with_a_worker_killed(client, partial(source, CLIP))
            identical(disturbed, undisturbed)  # integers: bit for bit
            assert disturbed.ids != undisturbed.ids


def with_a_worker_killed(client, run):
    "What a pass returns while which a worker dies that has done some of it"
    while finished_some(client): time.sleep(.02) # what is left of the pass before
    workers, killed = client.run(os.getpid), []
    def kill():
        while not finished_some(client): time.sleep(.02)
        killed.append(next(iter(workers.values())))
        os.kill(killed[0], signal.SIGKILL)
    thread = threading.Thread(target=kill)
    thread.start()
    found = run()
    thread.join()
    assert killed[0] not in client.run(os.getpid).values()
    return found


def test_a_worker_that_refuses_is_heard():
    from distributed import Client
    holes = FRAME.assign(x3=FRAME.x3.where(FRAME.x3 < 3.5))
    with local_cluster(1) as cluster, Client(cluster):
        sentence, details = told(open_dask(frame_of(holes), "y"))
        assert sentence.endswith("infinite values in column 'x3': "
                                 "drop or impute those rows, or give a dictionary with missing = ...")
        assert "rows 0 to" in details
        fails = frame_of(FRAME).map_partitions(lambda part: 1 / 0, meta=FRAME[:0])
        with pytest.raises(InputError, match="the Dask data frame fails") as error: open_dask(fails, "y")()
        assert "ZeroDivisionError" in error.value.details
        assert error.value.__cause__ is None and "division by zero" in error.value.details
        words = frame_of(FRAME.assign(x0="secret"))
        words = words.map_partitions(lambda part: part.astype({"x0": float}), meta=FRAME[:0])
        sentence, details = told(open_dask(words, "y"))
        assert "secret" not in sentence and "secret" in details


# refusals

def test_what_is_no_collection_of_rows():
    rows, responses, frame = da.from_array(X), da.from_array(y), frame_of(FRAME)
    for data, target, words in (
        (rows, y, "y is not a Dask array"), (rows, None, "y is not a Dask array"),
        (rows, responses[1:], "entries but"), (responses, responses, "1 dimensions"),
        (rows, rows, "2 dimensions"),
        (da.from_array(X.astype(str)), responses, "type <U"), (rows[:, :0], responses, "no columns"),
        (frame_of(FRAME["y"]), "y", "pass a Dask array or data frame"), (frame, None, "y is missing"),
        (frame, "price", "'price' is not a column"), (frame, y, "not the name of a column"),
        (frame_of(FRAME.assign(ward="A")), "y", "'ward' of the Dask data frame holds text"),
        (frame_of(TABLE[:4].with_columns(c=pl.Series([pd.Timestamp(0)] * 4)).to_pandas()), "y", "Datetime"),
    ):
        sentence = refusal(open_dask, data, target)
        assert words in sentence and "\n" not in sentence, sentence


def test_bounds_that_do_not_fit_are_refused_before_a_row_is_read():
    fails = frame_of(FRAME).map_partitions(lambda part: 1 / 0, meta=FRAME[:0])
    unfit = Clip(1.0, 1.0, ranges={"age": (0, 9)})
    assert refusal(open_dask(fails, "y"), unfit).startswith("ranges name columns")


def places(X, y, part, first): return [(part, first, len(y), float(y[0]))]


def test_numbered_summaries_are_told_partition_and_row():
    arrays = da.from_array(X, chunks=(7000, P)), da.from_array(y, chunks=7000)
    found = open_dask(*arrays).collect(places, numbered=True)
    assert found == [(i, 0, min(7000, N - i * 7000), y[i * 7000]) for i in range(5)]
    parts = [dask.delayed(part) for part in (FRAME[:0], FRAME[:100], FRAME[:0], FRAME[100:300])]
    found = open_dask(dd.from_delayed(parts, meta=FRAME[:0]), "y").collect(places, numbered=True)
    assert found == [(1, 0, 100, y[0]), (3, 0, 200, y[100])]
