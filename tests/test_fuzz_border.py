"Row locality: one cell is replaced by anything that fits, and no other row moves a bit, whatever the way in."

import warnings
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

from dp_knockoff.core.errors import InputError
from dp_knockoff.data import dictionary, rows
from ways_in import CELLS, MODES, WAYS, Fuzz, Leak, cases

EVERY = 9  # cells, in the suite; all of them in studies/border.py
SLOW = {"Dask": 6, "CSV": 3, "packed": 3, "query": 3, "Parquet": 2, "three": 3}  # by the first word of a way


@pytest.fixture(autouse=True)
def in_this_thread():
    try:
        import dask
    except ImportError:
        yield
    else:
        with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
            yield


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", WAYS)
def test_no_cell_speaks_for_another_row(way, mode, tmp_path, capfd):
    if way.startswith("Dask"):
        pytest.importorskip("dask")
    rng = np.random.default_rng([*way.encode(), len(mode)])
    fuzz = Fuzz(way, mode, tmp_path)
    for name, row, cell in cases(fuzz, rng, every=SLOW.get(way.split()[0], 1) * EVERY):
        try:
            fuzz.try_cell(name, row, cell)
        except Leak as leak:
            pytest.fail(f"{way}, {mode}: {cell!r:.60} in row {row} of {name!r}: {leak}")
    assert capfd.readouterr() == ("", "")
    assert fuzz.counts["cases"] >= 3, fuzz.counts


def test_there_are_enough_ways_and_cells():
    assert len(WAYS) >= 26 and min(map(len, CELLS.values())) >= 60


# ---------------------------------------------------------------- mistakes that it must see


def plant(mistake, monkeypatch):
    "Make a mistake in the border; the ways and the mode in which it can be seen"
    floats_of, bad = rows.floats_of, rows.bad_values
    if mistake in ("means of a chunk", "quantiles", "a type for all", "a warning", "complex for all"):

        def other(column, name):
            found = floats_of(column, name).copy()
            if mistake == "means of a chunk":
                found -= np.mean(found[np.isfinite(found)])
            if mistake == "quantiles":
                found = np.clip(found, *np.nanquantile(found, [0, 0.9]))
            if mistake == "a type for all" and np.isinf(found).any():
                found = found.astype("f4").astype("f8")
            if mistake == "complex for all" and np.iscomplexobj(np.array(list(column))):
                found[:] = np.inf
            if mistake == "a warning" and np.isinf(found).any():
                warnings.warn("a value is infinite", stacklevel=2)
            return found

        for module in (rows, dictionary):
            monkeypatch.setattr(module, "floats_of", other)
        return ["pandas, objects"], "stand-ins"
    if mistake == "lists as NumPy reads them":
        monkeypatch.setattr(rows, "_as_array", lambda data, ragged: np.asarray(data))
        return ["lists of float32", "lists of float16"], "no dictionary"
    if mistake == "a cell in a sentence":

        def speaks(where, columns, details):
            return bad(where, columns, details).at(details)

        monkeypatch.setattr(rows, "bad_values", speaks)
        return ["pandas, floats"], "no dictionary"
    if mistake == "a refusal that nobody registered":
        monkeypatch.setattr(
            rows, "bad_values", lambda where, columns, details: InputError(where, problem="is bad")
        )
        return ["array of objects"], "no dictionary"
    if mistake == "Arrow checks":

        def checked(column, native, library):
            return native.cast("float64").to_numpy()

        monkeypatch.setattr(rows, "_numbers_of", checked)
        return ["Arrow, integers"], "stand-ins"
    if mistake == "no border":
        monkeypatch.setattr(rows, "as_number", lambda value: float(value))
        for module in (rows, dictionary):
            monkeypatch.setattr(module, "border", lambda explain: nullcontext())
        return ["lists"], "stand-ins"
    if mistake == "a traceback of two errors":

        @contextmanager
        def chained(explain):
            try:
                yield
            except Exception as error:
                raise explain(error) from error

        monkeypatch.setattr(rows, "as_number", lambda value: float(value))
        for module in (rows, dictionary):
            monkeypatch.setattr(module, "border", chained)
        return ["lists"], "ranges"
    if mistake == "levels as they come":
        codes_of = dictionary._codes_of

        def by_appearance(values, codes):
            found = codes_of(values, codes)
            return found if (found >= 0).all() else np.unique(found, return_inverse=True)[1]

        monkeypatch.setattr(dictionary, "_codes_of", by_appearance)
        return ["pandas, objects"], "ranges"
    raise AssertionError(mistake)


MISTAKES = [
    "means of a chunk",
    "quantiles",
    "a type for all",
    "complex for all",
    "a warning",
    "lists as NumPy reads them",
    "a cell in a sentence",
    "a refusal that nobody registered",
    "Arrow checks",
    "no border",
    "a traceback of two errors",
    "levels as they come",
]


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_fuzz_would_notice(mistake, tmp_path, monkeypatch):
    ways, mode = plant(mistake, monkeypatch)
    for way in ways:
        fuzz = Fuzz(way, mode, tmp_path)
        with pytest.raises(Leak):
            for name, row, cell in cases(fuzz, np.random.default_rng(0)):
                fuzz.try_cell(name, row, cell)


def test_every_registered_refusal_is_listed():
    import subprocess
    import sys
    from pathlib import Path

    root = Path(__file__).parent.parent
    assert not subprocess.run(
        [sys.executable, root / "tools" / "security.py", "--check"], capture_output=True
    ).stderr
