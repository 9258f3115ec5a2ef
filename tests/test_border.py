"The border: what the attack on version 0.2 found, finding by finding, each with a test of its own."

import io
import os
import traceback
import zipfile
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dp_knockoff.core.errors import LARGEST, InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.files import find_files
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import ExactMoments, Moments
from dp_knockoff.data.source import open_source, types_of
from dp_knockoff.filters.estimate import PrivateMoments
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.filters.products_method import ProductsMethod, ProductsRelease
from dp_knockoff.knockoffs.laws import Blocks, Gaussian, Independent
from dp_knockoff.practice.selector import DPKnockoffSelector
from dp_knockoff.privacy.samplers import SecureSampler, as_sampler
from dp_knockoff.selection.release import select

STAND_IN = {
    "target": "y",
    "columns": {"a": {"range": [0, 10], "missing": 5}, "y": {"range": [0, 10], "missing": 1}},
}
CODES = {"target": "y", "columns": {"a": {"levels": [1, 2, 3]}, "y": {"range": [0, 10]}}}


def rows_of(data, target=None, dictionary=None, **options):
    "All rows as they are encoded, X and y, whatever they hold"
    source = open_source(data, target, dictionary=dictionary, **options)

    def keep(X, y):
        return [np.column_stack([X, y])]

    return np.concatenate(source._reader.read(keep))


def bits(rows):
    return np.ascontiguousarray(rows).view(np.int64)


def everything_said(call):
    "The whole traceback of a refusal, as Python prints it"
    with pytest.raises(InputError) as caught:
        call()
    return "".join(traceback.format_exception(caught.value))


# 1 and 2: what Arrow cannot convert


def test_1_an_integer_beyond_two_to_the_53_is_a_number(tmp_path):
    table = pa.table({"a": pa.array([1, 2**53 + 1, None]), "y": [1.0, 2.0, 3.0]})
    pq.write_table(table, tmp_path / "t.parquet")
    for data in (table, tmp_path / "t.parquet"):
        assert rows_of(data, dictionary=STAND_IN)[:, 0].tolist() == [1, 2.0**53, 5]


def test_2_text_that_is_not_utf_8_is_an_unknown_level(tmp_path):
    offsets, cells = pa.array([0, 1, 8, 9], pa.int32()).buffers()[1], pa.py_buffer(b"1\xffSECRET3")
    for levels in ([1, 2, 3], ["1", "2", "3"]):
        text = pa.StringArray.from_buffers(3, offsets, cells)
        table = pa.table({"a": text, "y": [1.0, 2.0, 3.0]})
        pq.write_table(table, tmp_path / "t.parquet")
        facts = {"target": "y", "columns": {"a": {"levels": levels}, "y": {}}}
        for data in (table, tmp_path / "t.parquet"):
            assert rows_of(data, dictionary=facts)[:, :2].tolist() == [[0, 0], [0, 0], [0, 1]]


# 3 and 4: one cell changes the type of all


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_3_a_list_is_read_cell_by_cell(kind):
    rng = np.random.default_rng(0)
    X = [[kind(x)] for x in rng.standard_normal(50)]
    other = [*X[:7], ["7"], *X[8:]]
    y = rng.standard_normal(50).tolist()
    one, two = (np.delete(rows_of(data, y), 7, axis=0) for data in (X, other))
    assert (bits(one) == bits(two)).all()


@pytest.mark.parametrize("dictionary", [STAND_IN, None], ids=["stand-in", "no dictionary"])
def test_4_a_complex_cell_speaks_for_itself(dictionary):
    def chunk(cell):
        return pd.DataFrame({"a": [3.0, cell, 4.0], "y": [1.0, 2.0, 3.0]})

    one, two = (rows_of([chunk(cell)], "y", dictionary)[[0, 2]] for cell in (1.0, 1 + 2j))
    assert (bits(one) == bits(two)).all()


# 5: a law that looks at other rows


class Centred(Gaussian):
    def __call__(self, X, U):
        return super().__call__(X - X.mean(0), U)


class Looks:
    "A marginal whose quantiles depend on the other rows"

    def mean(self):
        return 0.0

    def var(self):
        return 1.0

    def ppf(self, u):
        return u - u.mean()


@pytest.mark.parametrize(
    "law",
    [Centred(0, ar1(2, 0.5)), Blocks(Centred(0, ar1(2, 0.5))), Independent([Looks(), Looks()])],
    ids=["subclass", "in blocks", "marginal"],
)
def test_5_every_law_is_tried_on_made_up_rows(law):
    X, y, _ = linear_model(60, 2, 1, random_state=0)
    method = ProductsMethod(epsilon=1.0, delta=1e-5, law=law, response_bound=3.0)
    assert "does not treat every row by itself" in refusal(method.release, X, y, simulation=True)


# 6: tracebacks


def test_6_no_traceback_of_a_cluster_shows_a_cell():
    dask = pytest.importorskip("dask")
    import dask.dataframe as dd

    frame = dd.from_pandas(pd.DataFrame({"a": ["1", "SECRET"], "y": [1.0, 2.0]}), npartitions=1)
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        broken = frame.assign(a=frame["a"].astype(object).map(float, meta=("a", float)))
        said = everything_said(lambda: open_source(broken, "y")())
    assert "SECRET" not in said


@pytest.mark.parametrize("cell", [10**400, -(10**400), 1 + 2j, np.complex64(1 + 2j), np.ma.masked])
@pytest.mark.parametrize("where", ["X", "y"])
def test_the_selector_says_nothing_of_one_cell(cell, where, recwarn):
    "scikit-learn converts objects with a warning, or lets an OverflowError through"
    data = {name: [float(i % 7) for i in range(40)] for name in "ay"}
    data["a" if where == "X" else "y"][5] = cell
    table = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in data.items()})
    s = DPKnockoffSelector(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=3.0)
    try:
        s.partial_fit(table[["a"]], table["y"])
    except InputError as error:
        assert error.one_row and "SECRET" not in str(error)
    assert not [str(warning.message) for warning in recwarn]


# 7: sums of releases

X, Y, _ = linear_model(400, 3, 2, random_state=0)
DRAW = dict(simulation=True, random_state=0)
METHODS = {
    "moments": MomentsMethod(epsilon=1.0, delta=1e-5, row_bound=2.0, response_bound=3.0, rounds=1),
    "products": ProductsMethod(
        epsilon=1.0, delta=1e-5, law=Gaussian(0, np.eye(3)), response_bound=3.0, rounds=1
    ),
}


@pytest.mark.parametrize("word", METHODS)
def test_7_a_sum_of_releases_says_when_its_promise_holds(word):
    release = METHODS[word].release
    one, two = (
        replace(release(X[part], Y[part], **DRAW), simulated=False) for part in (slice(200), slice(200, 400))
    )
    condition = "nobody is in two of the 2 parts"
    assert condition in str((one + two).guarantee) and condition in str(select(one + two))
    assert condition not in str(one.guarantee)


# 8 to 11: cells, lines and types that decided whether there was an answer


def test_8_a_quoted_cell_may_stand_anywhere(tmp_path):
    path, line = tmp_path / "t.csv", "1.25,2.5,word\n"
    text = "a,y,b\n" + line * (2**18 // len(line) - 2) + '1.0,2.0,"' + "two lines\n" * 20 + '"\n' + line * 9
    assert text.index('"') < 2**18 < text.rindex('"')
    path.write_text(text)
    assert open_source(path, "y", columns=["a"])().n == text.count("1.25") + 1


@pytest.mark.parametrize("line", ["1,2,3", '"1,2', '"1"2,"3', "", "\0"])
def test_9_a_dry_run_does_not_look_at_lines(tmp_path, line):
    (tmp_path / "t.csv").write_text(f"a,y\n1,2\n{line}\n1,2\n")
    for dictionary in (None, STAND_IN):
        assert open_source(tmp_path / "t.csv", "y", dictionary=dictionary).names == ("a",)
    assert list(types_of(tmp_path / "t.csv")) == ["a", "y"]


@pytest.mark.parametrize("sign", [1, -1])
def test_10_a_whole_number_of_any_size_is_a_number(sign):
    mixed = [[1.0], [sign * 10**400], ["4"]]
    for dictionary in (None, STAND_IN):
        for data in (mixed, np.array(mixed, dtype=object), pd.DataFrame(mixed, columns=["a"])):
            options = {} if isinstance(data, pd.DataFrame) else {"columns": ["a"]}
            found = rows_of(data, [1, 2, 3], dictionary, **options)[:, 0]
            assert found.tolist() == [1, sign * (LARGEST if dictionary else np.finfo(float).max), 4]


def test_11_types_of_chunks_are_compared_with_the_first():
    one, two = pl.DataFrame({"a": [1.5], "y": [1]}), pl.DataFrame({"a": ["SECRET"], "y": [1.5]})
    for dictionary in (None, STAND_IN):
        said = refusal(lambda: open_source([one, two], "y", dictionary=dictionary)())
        assert "chunk 1" in said and "'a'" in said and "text" in said and "SECRET" not in said
    for chunk in (
        np.array([["1.5"]]),
        np.array([["1.5"]], dtype="S"),
        np.array([["2020-01-01"]], dtype="M8[D]"),
    ):
        pairs = [(np.ones((1, 1)), np.ones(1)), (chunk, np.ones(1))]
        assert "type" in refusal(lambda: open_source(pairs)())
    for other in (pl.Series("a", [2]), pl.Series("a", [True]), pl.Series("a", [2.0], dtype=pl.Float32)):
        assert rows_of([one, two.with_columns(a=other)], "y")[:, 0].tolist() == [1.5, float(other[0])]


# 12 and 13: levels and links


def test_12_levels_are_numbers_that_every_type_holds():
    for level in (2**53 + 1, -(2**53) - 1, 10**30):
        facts = {"columns": {"a": {"levels": [1, level]}}}
        assert "2^53" in refusal(open_source, pd.DataFrame({"a": [1], "y": [1]}), "y", dictionary=facts)
    level = 2**53
    facts = {"columns": {"a": {"levels": [1, level]}}}
    for cell in (level - 1, level, level + 1, level + 2):  # the last but one is the level in float64
        kinds = [np.array([cell]), np.array([cell], dtype=object), np.array([float(cell)])]
        tables = [pd.DataFrame({"a": kind, "y": 1.0}) for kind in kinds] + [
            pl.DataFrame({"a": [cell], "y": 1.0})
        ]
        assert {rows_of(table, "y", facts)[0, 0] for table in tables} == {float(float(cell) == level)}


@pytest.mark.skipif(not hasattr(os, "link"), reason="no hard links here")
def test_13_a_hard_link_is_the_same_file(tmp_path):
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    os.link(tmp_path / "a.csv", tmp_path / "b.csv")
    assert "more than once" in refusal(find_files, [tmp_path / "a.csv", tmp_path / "b.csv"])


# 14 to 16: archives, files and names from strangers


def forged(path, **changed):
    "An archive with some fields changed"
    with np.load(path) as file:
        arrays = dict(file)
    import json

    header = json.loads(str(arrays.pop("header")))
    for name, value in changed.items():
        if name in arrays:
            arrays[name] = value(arrays[name]) if callable(value) else value
        else:
            header[name] = value(header[name]) if callable(value) else value
    np.savez(path, header=json.dumps(header), **arrays)
    return path


ARCHIVES = {
    "moments": (Moments.from_data(X, Y), Moments),
    "exact moments": (Moments.from_data(X, Y, clip=Clip(2.0, 3.0)), ExactMoments),
    "private moments": (METHODS["moments"].release(X, Y, **DRAW), PrivateMoments),
    "products": (METHODS["products"].release(X, Y, **DRAW), ProductsRelease),
}
BAD_COUNT, BAD_SIZE = (
    (-5, 0, 1.5, "many", None, True, [3]),
    (-1.0, float("nan"), float("inf"), "1", None, [1.0]),
)


def forgeries(name):
    "Fields and values that nobody could have saved"
    kept, _ = ARCHIVES[name]
    for field in fields(kept):
        value = getattr(kept, field.name)
        if isinstance(value, bool):
            yield from ((field.name, bad) for bad in ("no", None, 2))
        elif isinstance(value, (int, np.integer)):
            yield from ((field.name, bad) for bad in BAD_COUNT if bad != 0 or field.name == "n")
        elif isinstance(value, float):
            yield from ((field.name, bad) for bad in BAD_SIZE[1:])
        elif isinstance(value, np.ndarray):
            for bad in (
                value[:-1],
                value[..., None],
                value.astype(str),
                value * np.nan,
                value.astype(complex),
            ):
                if bad.dtype.kind in "fc" and value.dtype.kind == "i" and not np.isnan(bad).any():
                    continue
                if bad.size:
                    yield field.name, bad
            if field.name.endswith(("_sd", "_sds", "bounds")):
                yield from ((field.name, bad * value) for bad in (0, -1))
        elif isinstance(value, (tuple, dict, str)):
            yield from ((field.name, bad) for bad in (3, None, [None]))
        if field.name.endswith("_sd"):
            yield from ((field.name, bad) for bad in (0.0, -1.0) if bad != value)
    if hasattr(kept, "budget"):
        yield "budget", {"epsilon": -1.0, "delta": 1e-5}
    yield (
        "clip" if hasattr(kept, "clip") else "names" if hasattr(kept, "names") else "columns",
        {"row_bound": -1},
    )


@pytest.mark.parametrize("name", ARCHIVES)
def test_14_archives_are_checked_like_arguments(name, tmp_path):
    kept, kind = ARCHIVES[name]
    count = 0
    for field, value in forgeries(name):
        kept.save(tmp_path / "a.npz")
        assert kind.load(tmp_path / "a.npz")
        try:
            kind.load(forged(tmp_path / "a.npz", **{field: value}))
        except InputError:
            pass
        else:
            pytest.fail(f"{field} may be {value!r:.60}")
        count += 1
    assert count > 15


def test_14_a_small_file_takes_little_memory(tmp_path):
    import tracemalloc

    path = tmp_path / "a.npz"
    ARCHIVES["moments"][0].save(path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez_compressed(path, **arrays, zeros=np.zeros(3 * 10**7))
    huge = tmp_path / "b.npz"
    whole = io.BytesIO()
    np.lib.format.write_array_header_1_0(whole, {"descr": "<f8", "fortran_order": False, "shape": (10**11,)})
    with zipfile.ZipFile(huge, "w") as file:
        for name, array in arrays.items():
            part = io.BytesIO()
            np.lib.format.write_array(part, array)
            file.writestr(f"{name}.npy", part.getvalue() if name != "scatter" else whole.getvalue())
    for file in (path, huge):
        assert file.stat().st_size < 10**6
        tracemalloc.start()
        assert "damaged" in refusal(Moments.load, file)
        assert tracemalloc.get_traced_memory()[1] < 2 * 10**7
        tracemalloc.stop()


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 5000 + "]" * 5000,
        "a = " + "{b=" * 5000 + "1" + "}" * 5000,
        "[" + "a." * 5000 + "b]\nc=1",
    ],
    ids=["lists", "tables", "names"],
)
def test_15_depth_is_no_reason_to_break(tmp_path, text):
    (tmp_path / "d.toml").write_text(text)
    said = refusal(open_source, pd.DataFrame({"a": [1], "y": [1]}), "y", dictionary=tmp_path / "d.toml")
    assert "d.toml" in said and len(said) < 500


def test_16_no_name_is_a_formula():
    import csv

    names = ["=1+1", "+cmd", "@sum", "-2", "\tx"][:3]
    release = METHODS["moments"].release(pd.DataFrame(X, columns=names).assign(y=Y), "y", **DRAW)
    lines = list(csv.reader(io.StringIO(select(release).to_csv())))
    cells = [cell for line in lines for cell in line]

    def number(cell):
        try:
            return float(cell) == float(cell)
        except ValueError:
            return False

    assert [line[0][1:] for line in lines[1:]] == names
    assert not [cell for cell in cells if cell[:1] in tuple("=+@-\t\r") and not number(cell)]


# 17: drawing is explicit


def test_17_looking_draws_nothing():
    import pickle

    s = DPKnockoffSelector(epsilon=1.0, delta=1e-5, row_bound=2.0, response_bound=3.0)
    s.partial_fit(X, Y)
    for name in ("threshold_", "selection_", "W_", "signs_", "support_", "anything"):
        assert not hasattr(s, name)
    s.__dir__(), repr(s), s._repr_html_(), str(s.privacy_)
    with pytest.raises(InputError):
        pickle.dumps(s)
    assert s.privacy_.releases == 0
    assert s.finish().privacy_.releases == 1


# 18: keys


def test_18_no_secure_sampler_has_a_predictable_key():
    for sampler in (SecureSampler(), None):
        assert "random_state" in refusal(as_sampler, sampler, random_state=3)
    with pytest.raises(InputError):
        METHODS["products"].release(X, Y, sampler=SecureSampler(), random_state=3)
