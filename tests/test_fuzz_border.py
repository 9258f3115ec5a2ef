"Row locality of everything that comes in: one cell is replaced by anything that fits, and no other row moves a bit."
import numpy as np
import pytest
from ways_in import CELLS, MODES, WAYS, Fuzz, Leak, cases

SLOW = {"Dask": 6, "CSV": 3, "packed": 3, "query": 3, "Parquet": 2, "three": 3} # every how many cells, by first word
OTHER_TYPES = "chunks"    # with stand-ins everywhere nothing else can be refused


@pytest.fixture(autouse=True)
def in_this_thread():
    try: import dask
    except ImportError: yield
    else:
        with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}): yield


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_no_cell_speaks_for_another_row(way, mode, tmp_path, capfd):
    if way.startswith("Dask"): pytest.importorskip("dask")
    rng = np.random.default_rng([*way.encode(), len(mode)])
    fuzz = Fuzz(way, mode, tmp_path)
    for name, row, cell in cases(fuzz, rng, every=SLOW.get(way.split()[0], 1) * 2):
        try: fuzz.try_cell(name, row, cell)
        except Leak as leak: pytest.fail(f"{way}, {mode}: {cell!r:.60} in row {row} of {name!r}: {leak}")
    assert capfd.readouterr() == ("", "")
    assert fuzz.counts["cases"] >= 10, fuzz.counts
    if mode == "stand-ins": assert all(OTHER_TYPES in when for _, when in fuzz.sentences), fuzz.sentences


def test_there_are_enough_ways_and_cells():
    assert len(WAYS) >= 26 and min(map(len, CELLS.values())) >= 60
