"""All ways in, and cells that try to speak of other rows: for the fuzz test and the long run in studies.

A way turns columns (lists of cells) into data and what `open_source` needs beside it. One cell is replaced by
anything that fits: no other row changes, nothing else is said, and where cells can be refused at all it is by
a registered refusal, whose sentence is the same whatever the cell.
"""

import bz2
import contextlib
import datetime as dt
import gzip
import io
import lzma
import os
import re
import struct
import traceback
import warnings
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from dp_knockoff.core.errors import ONE_ROW, InputError
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.practice.selector import DPKnockoffSelector

# ---------------------------------------------------------------- cells


class Hostile:
    "A cell whose own code fails, or lies"

    def __float__(self):
        raise RuntimeError("SECRET")

    def __eq__(self, other):
        raise KeyError("SECRET")

    def __hash__(self):
        return hash(1.0)


class Three(float):
    "A number of a class of its own"

    def __float__(self):
        return 3.0


def payload(bits):
    return struct.unpack("<d", struct.pack("<Q", bits))[0]


FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.1,
    2.5,
    3.0,
    5e-324,
    -5e-324,
    2.2e-308,
    1e-160,
    1e-30,
    1e9,
    2.0**53,
    2.0**53 + 2,
    1e16,
    1e149,
    1e151,
    -1e153,
    1e155,
    -1e300,
    1.7e308,
    -1.7e308,
    np.nextafter(1, 2),
    1 / 3,
    np.pi,
    float("nan"),
    float("inf"),
    -float("inf"),
    payload(0x7FF8DEAD00000001),
    payload(0xFFF8000000000000),
    payload(0x7FF0000000000001),
    *(s * 10.0**k for k in range(-300, 301, 40) for s in (1, -1.5)),
]
INTEGERS = [
    0,
    1,
    -1,
    2,
    3,
    4,
    7,
    10**6,
    *(s * 2**k + d for k in (7, 8, 15, 16, 24, 31, 32, 52, 53, 62) for d in (-1, 0, 1) for s in (1, -1)),
]
TEXTS = [
    "",
    " ",
    "u",
    "v",
    "U",
    " u",
    "u ",
    "1",
    "1.0",
    " 1",
    "01",
    "2",
    "3.5",
    "-0",
    "+7",
    "1e400",
    "-1e400",
    "1e-400",
    "9" * 400,
    "nan",
    "NaN",
    "-nan",
    "inf",
    "Infinity",
    "true",
    "FALSE",
    "None",
    "NA",
    "null",
    "n/a",
    "1_000",
    "0x10",
    "1,5",
    "a,b",
    '"',
    '""',
    '"1"',
    "'",
    "a\nb",
    "\r\n",
    "\t",
    "\0",
    "\x1b[31m",
    "\ufeff1",
    "\u202e1",
    "é",
    "e\u0301",
    "１",
    "٣",
    "½",
    "𝟙",
    "漢字",
    "😀",
    "=1+1",
    "@x",
    "<b>",
    "%s{0}",
    "SECRET",
    "s" * 10_000,
    "1" * 200_000,
    "1;2",
    "1 2",
    "2020-01-01",
    "12:30",
    "\\N",
    "$1",
    "1%",
    "(1)",
    "--1",
    "e5",
    ".",
    "-",
    "1e",
    "infinity and beyond",
]
BYTES = [b"", b"u", b"1", b"\xff", b"\xffSECRET", b"1\x00", b"\xc3\x28", b"\xed\xa0\x80", b"\xfe\xffu"]
OBJECTS = [
    10**400,
    -(10**400),
    10**309,
    2**53 + 1,
    2**64,
    1 + 2j,
    3 + 0j,
    complex("nan"),
    complex(1, float("nan")),
    None,
    ...,
    NotImplemented,
    pd.NA,
    pd.NaT,
    pd.Timestamp(0),
    dt.date(1, 1, 1),
    dt.datetime(9999, 12, 31),
    dt.time(1),
    dt.timedelta(1),
    np.datetime64("NaT"),
    np.datetime64("2262-04-12"),
    np.timedelta64(1, "s"),
    np.timedelta64(5),
    Decimal("1.5"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("1e400"),
    Decimal("0.1"),
    Fraction(1, 3),
    Fraction(10**400),
    True,
    np.True_,
    np.float16(0.1),
    np.float32(0.1),
    np.longdouble("1e400"),
    np.int8(-1),
    np.uint64(2**64 - 1),
    np.complex64(1 + 2j),
    np.complex128(2),
    np.str_("u"),
    np.bytes_(b"1"),
    np.ma.masked,
    np.array(5.0),
    np.array([5.0]),
    np.array([1, 2]),
    np.array([]),
    [],
    [1],
    [1, [2, [3]]],
    (1, 2),
    {"a": 1},
    {1},
    range(3),
    object(),
    object,
    len,
    Hostile(),
    Three(2),
    bytearray(b"1"),
    memoryview(b"1"),
    "\ud800",
    b"\xff",
    *(np.dtype(t).type(3) for t in ("f2", "f4", "i1", "u8", "b")),
]
DATES = [
    *(f"{year:04}-{month:02}-28" for year in (1, 1582, 1969, 1970, 2015, 2262, 9999) for month in (1, 2, 12)),
    *("2015-02-29", "2016-02-29", "2015-13-01", "15-01-01", "2015-1-1", "20150101", "2015-W01-1"),
    *("2015-01-01T23:59", "2015-01-01 23:59:59.999999", "2015-01-01T00:00+14:00", " 2015-01-01 "),
    *("2015-01-01Z", "2015-001"),
    *("01.02.2015", "1/2/2015", "2015", "-2015-01-01", "12015-01-01", "2015-01-01x", "today", "0000-00-00"),
    *(dt.date(2015, month, 5) for month in range(1, 9)),
    *(dt.datetime(2015, 1, 1, hour, tzinfo=zone) for hour in (0, 23) for zone in (None, dt.UTC)),
    *(pd.Timestamp(2015, 1, 1, 12), pd.Timestamp.min, pd.Timestamp.max, dt.date.min, dt.date.max),
    *(np.datetime64("2015-01-01"), np.datetime64(2**62, "s"), np.datetime64("300000-01-01")),
    np.datetime64(5, "Y"),
]
CELLS = {
    "date": DATES,
    "number": FLOATS,
    "integer": INTEGERS,
    "text": TEXTS,
    "anything": [*OBJECTS, *BYTES, *FLOATS[::4], *INTEGERS[::6], *TEXTS[::4]],
}
assert min(map(len, CELLS.values())) >= 60

# ---------------------------------------------------------------- tables

ROWS = 9
# a and b are numbers, f has levels that are text, k levels that are numbers, d is a date, m its month
COLUMNS = {
    "a": [1.5, 2.0, 0.1, 1 / 3, -4.0, 1e-7, 2.0**53, 7.25, 0.0],
    "b": [float(i) for i in range(1, 10)],
    "f": list("uvwuvwuvw"),
    "k": [1.0, 2.0, 2.5, 1.0, 1.0, 2.5, 2.0, 9.0, 1.0],
    "d": [f"201{i}-0{i + 1}-15" for i in range(9)],
    "m": [f"201{i}-0{i + 1}-15" for i in range(9)],
    "y": [float(i % 4) for i in range(9)],
}
RANGE, STANDS_IN = {"range": [-5, 9]}, {"missing": 2}


def dictionary(stand_in):
    numeric = RANGE | (STANDS_IN if stand_in else {})
    return {
        "target": "y",
        "columns": {
            "a": numeric | ({"indicator": True} if stand_in else {}),
            "b": numeric,
            "y": numeric,
            "f": {"levels": [*"tuvw"], "merge": {"few": ["t", "w"]}}
            | ({"missing": "v"} if stand_in else {}),
            "d": {"range": ["2011-01-01", "2020-12-31"], **({"missing": "2015-01-01"} if stand_in else {})},
            "m": {"levels": "month", **({"missing": "May", "indicator": True} if stand_in else {})},
            "k": {"levels": [1, 2, 2.5]},
        },
    }


INFERS = "inferred", "NumPy's", "text"  # ways whose types depend on cells: there a type may be refused
MODES = {"stand-ins": dictionary(True), "ranges": dictionary(False), "no dictionary": None}
CLIP = Clip(3.0, 2.0)


class DoesNotFit(Exception):
    "This cell cannot be in this column"


def typed(values, dtype):
    "An array of this type, if every value is one of its values"
    try:
        with warnings.catch_warnings():  # a cell that is not a number of this type
            warnings.simplefilter("error")
            found = np.array(values, dtype=dtype)
    except Exception:
        raise DoesNotFit from None
    if found.shape != (len(values),):
        raise DoesNotFit
    return found


def anything(values):
    "An array of objects"
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        found[i] = value
    return found


@contextlib.contextmanager
def silent():
    "Context in which nothing is printed, not even by a panic of polars while it makes the data"
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def made(build, *args, **kwargs):
    "What somebody else's constructor makes of cells, if it makes anything"
    try:
        with warnings.catch_warnings(), silent():
            warnings.simplefilter("ignore")
            return build(*args, **kwargs)
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise DoesNotFit from None


def is_text(name):
    return name in ("f", "d", "m")


def is_date(name):
    return name in ("d", "m")


def moments_in_time(values):
    "Dates as NumPy has them"
    return typed([np.datetime64(value) if isinstance(value, str) else value for value in values], "M8[us]")


# ------------------------------------------------------- ways: f(columns, folder) -> data, target, options


def matrix(columns, dtype=None, order="C"):
    names = [name for name in columns if name != "y"]
    if dtype is object:
        X = np.column_stack([anything(columns[name]) for name in names])
    else:
        X = np.column_stack([typed(columns[name], dtype) for name in names])
    return np.asarray(X, order=order), names


def arrays(columns, folder, dtype, order="C"):
    X, names = matrix(columns, dtype, order)
    y = (
        anything(columns["y"])
        if dtype is object
        else typed(columns["y"], "U" if X.dtype.kind == "U" else "f8")
    )
    return X, y, dict(columns=names)


def text_arrays(columns, folder):
    "NumPy's arrays of text, made cell by cell"
    text = {name: [str(value) for value in values] for name, values in columns.items()}
    return arrays(text, folder, "U")


def lists(columns, folder, kind=list, cell=lambda value: value):
    names = [name for name in columns if name != "y"]
    X = kind(kind(cell(value) for value in row) for row in zip(*(columns[name] for name in names)))
    return X, kind(columns["y"]), dict(columns=names)


def singles(value):
    return np.float32(value) if type(value) is float and abs(value) < 1e30 else value


def halves(value):
    return np.float16(value) if type(value) is float and abs(value) < 1e4 else value


def pandas_of(columns, how):
    def column(name, values):
        if how == "objects":
            return pd.Series(anything(values), dtype=object)
        if how == "inferred":
            return made(pd.Series, values)
        if how == "dates" and is_date(name):
            return made(pd.Series, made(moments_in_time, values))
        if how == "categories" and is_text(name):
            return made(pd.Series, values, dtype="str").astype("category")
        if is_text(name):
            return made(pd.Series, values, dtype={"nullable": "string"}.get(how, "str"))
        dtype = {"nullable": "Float64", "arrow": "double[pyarrow]"}.get(how, "float64")
        return made(pd.Series, typed(values, "f8"), dtype=dtype)

    return pd.DataFrame({name: column(name, values) for name, values in columns.items()})


def polars_of(columns, how="typed"):
    def column(name, values):
        if how == "objects":
            return made(pl.Series, name, list(values), dtype=pl.Object)
        if how == "inferred":
            found = made(pl.Series, name, values, strict=False)
            pairs = zip(values, found.to_list())  # where polars itself took the first cell's type for all
            if any(type(v) is float and isinstance(w, (int, float)) and v == v != w for v, w in pairs):
                raise DoesNotFit
            return found
        if how == "dates" and is_date(name):
            return made(pl.Series, name, made(moments_in_time, values))
        if is_text(name):
            return made(pl.Series, name, values, dtype=pl.Categorical if how == "categories" else pl.String)
        return made(pl.Series, name, typed(values, "f8"))

    return pl.DataFrame([column(name, values) for name, values in columns.items()])


def arrow_text(values):
    "Text of Arrow that may be any bytes"
    raw = made(lambda: [v if isinstance(v, bytes) else v.encode() for v in values])
    ends = pa.array(np.cumsum([0, *map(len, raw)]), pa.int32()).buffers()[1]
    return pa.StringArray.from_buffers(len(raw), ends, pa.py_buffer(b"".join(raw)))


def arrow_of(columns, how="typed"):
    def column(name, values):
        if how == "dates" and is_date(name):
            return made(pa.array, made(moments_in_time, values).astype("M8[D]"))
        if is_text(name):
            found = arrow_text(values)
            return made(found.dictionary_encode) if how == "dictionaries" else found
        if how == "integers":
            return made(pa.array, values, pa.int64())
        return pa.array(typed(values, "f8"))

    return pa.table({name: column(name, values) for name, values in columns.items()})


def integers_too(columns):
    "The numeric columns as whole numbers"

    def whole(value):
        return int(value) if type(value) is float and abs(value) < 2**63 else value

    return {name: values if is_text(name) else [*map(whole, values)] for name, values in columns.items()}


def table(columns, folder, make, *args):
    return make(columns, *args), "y", {}


def lazy(columns, folder):
    return polars_of(columns).lazy(), "y", {}


def parquet(columns, folder, parts=1, make=arrow_of):
    whole, paths = make(columns), []
    for i, start in enumerate(range(0, ROWS, -(-ROWS // parts))):
        paths.append(folder / f"part-{i}.parquet")
        pq.write_table(whole.slice(start, -(-ROWS // parts)), paths[-1])
    return paths, "y", {}


def csv_cell(value, decimal):
    raw = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")
    if isinstance(value, float):
        raw = raw.replace(b".", decimal.encode())
    return b'"' + raw.replace(b'"', b'""') + b'"'


def csv_lines(columns, sep, decimal):
    rows = ([csv_cell(cell, decimal) for cell in row] for row in zip(*columns.values()))
    return b"\n".join([sep.join(columns).encode(), *map(sep.encode().join, rows)]) + b"\n"


PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}


def csv_file(columns, folder, packed="", kind="csv", sep=",", decimal=".", **options):
    path = folder / f"t.{kind}{packed}"
    path.write_bytes(PACKERS[packed](csv_lines(columns, sep, decimal)))
    return path, "y", options


class Relation:
    "Hands its rows over as DuckDB does"

    def __init__(self, table):
        self.table = table

    @property
    def columns(self):
        return self.table.column_names

    def __arrow_c_stream__(self, schema=None):
        return self.table.__arrow_c_stream__(schema)


def npy(columns, folder, mapped=False):
    X, names = matrix(columns, "f8")
    np.save(folder / "X.npy", X)
    data = np.load(folder / "X.npy", mmap_mode="r") if mapped else folder / "X.npy"
    return data, typed(columns["y"], "f8"), dict(columns=names)


def chunks(columns, folder, make, pairs=False, once=False):
    "Three rows at a time, each chunk with the types that its own cells have"
    parts = [{name: values[i : i + 3] for name, values in columns.items()} for i in range(0, ROWS, 3)]
    found = [make(part, folder) for part in parts]
    if not pairs:
        tables = [data for data, _, _ in found]
        return iter(tables) if once else (lambda: iter(tables)), "y", {}
    options = found[0][2]
    pieces = [(X, y) for X, y, _ in found]
    return iter(pieces) if once else (lambda: iter(pieces)), None, options


def dask_frame(columns, folder, how):
    import dask.dataframe as dd

    return made(dd.from_pandas, pandas_of(columns, how), npartitions=3), "y", {}


def dask_array(columns, folder):
    import dask.array as da

    X, names = matrix(columns, "f8")
    return (
        da.from_array(X, chunks=(3, X.shape[1])),
        da.from_array(typed(columns["y"], "f8"), chunks=3),
        dict(columns=names),
    )


def dask_csv(columns, folder):
    import dask.dataframe as dd

    types = {name: "float64" if not is_text(name) else "object" for name in columns}
    path, *rest = csv_file(columns, folder)
    return made(dd.read_csv, path, dtype=types, blocksize=64), *rest


def of_numpy_records(columns, folder):
    "A column of a pandas table with a complex or a text type that NumPy infers"
    found = {
        name: made(np.array, values) if not is_text(name) else anything(values)
        for name, values in columns.items()
    }
    return made(pd.DataFrame, found), "y", {}


WAYS = {
    "array of float64": partial(arrays, dtype="f8"),
    "array in Fortran order": partial(arrays, dtype="f8", order="F"),
    "array of float32": partial(arrays, dtype="f4"),
    "array of int64": lambda c, f: arrays(integers_too(c), f, "i8"),
    "array of complex numbers": partial(arrays, dtype="c16"),
    "array of objects": partial(arrays, dtype=object),
    "array of text": text_arrays,
    "lists": lists,
    "tuples": partial(lists, kind=tuple),
    "lists of float32": partial(lists, cell=singles),
    "lists of float16": partial(lists, cell=halves),
    **{
        f"pandas, {how}": partial(table, make=lambda c, how=how: pandas_of(c, how))
        for how in ("floats", "objects", "inferred", "nullable", "arrow", "categories", "dates")
    },
    "pandas of NumPy's types": of_numpy_records,
    **{
        f"polars, {how}": partial(table, make=lambda c, how=how: polars_of(c, how))
        for how in ("typed", "objects", "inferred", "categories", "dates")
    },
    **{
        f"Arrow, {how}": partial(table, make=lambda c, how=how: arrow_of(c, how))
        for how in ("typed", "dictionaries", "dates")
    },
    "Arrow, integers": lambda c, f: (arrow_of(integers_too(c), "integers"), "y", {}),
    "query": lazy,
    "Parquet": parquet,
    "three Parquet files": partial(parquet, parts=3),
    "Parquet of integers": lambda c, f: parquet(integers_too(c), f, make=lambda c: arrow_of(c, "integers")),
    "CSV": csv_file,
    "packed CSV": partial(csv_file, packed=".gz"),
    "packed CSV, bz2": partial(csv_file, packed=".bz2"),
    "CSV of tabs, xz": partial(csv_file, packed=".xz", kind="tsv", sep="\t"),
    "CSV of semicolons": lambda c, f: csv_file(c, f, sep=";", decimal=",")[:2] + ({"decimal": ","},),
    "relation": lambda c, f: (Relation(arrow_of(c)), "y", {}),
    "relation with dates": lambda c, f: (Relation(arrow_of(c, "dates")), "y", {}),
    "NumPy file": npy,
    "memory map": partial(npy, mapped=True),
    **{
        f"chunks of pandas, {how}": partial(
            chunks, make=partial(table, make=lambda c, how=how: pandas_of(c, how))
        )
        for how in ("objects", "inferred")
    },
    "chunks of polars, inferred": partial(
        chunks, make=partial(table, make=lambda c: polars_of(c, "inferred"))
    ),
    "chunks of Arrow": partial(chunks, make=partial(table, make=arrow_of)),
    "chunks of NumPy's types": partial(chunks, make=of_numpy_records),
    "pairs of arrays": partial(chunks, make=partial(arrays, dtype="f8"), pairs=True),
    "pairs of lists": partial(chunks, make=partial(lists, cell=singles), pairs=True),
    "an iterator of pairs": partial(chunks, make=partial(arrays, dtype=object), pairs=True, once=True),
    "Dask frame of floats": partial(dask_frame, how="floats"),
    "Dask frame of objects": partial(dask_frame, how="objects"),
    "Dask array": dask_array,
    "Dask CSV": dask_csv,
    "selector, pandas": partial(table, make=lambda c: pandas_of(c, "floats")),
    "selector, objects": partial(table, make=lambda c: pandas_of(c, "objects")),
    "selector, array": partial(arrays, dtype=object),
}
NO_TEXT = {
    "array of float64",
    "array in Fortran order",
    "array of float32",
    "array of int64",
    "array of complex numbers",
    "NumPy file",
    "memory map",
    "pairs of arrays",
    "Dask array",
}  # matrices of one numeric type have no text and no dates


def opened(way, columns, folder, facts):
    "The source that a way opens"
    data, target, options = WAYS[way](columns, folder)
    if way.startswith("selector"):
        return of_selector(data, target, facts, options)
    if facts is None:
        options.pop("columns", None)
    if isinstance(data, list) and isinstance(data[0], list):
        data = list(data)
    return open_source(data, target, dictionary=facts, **options)


def of_selector(data, target, facts, options):
    "As `DPKnockoffSelector.fit` opens it"
    if options:
        data, target = (pd.DataFrame(data, columns=options["columns"]) if facts else data), target
    else:
        data, target = data.drop(columns="y"), data["y"]
    given = dict(row_bound=3.0, response_bound=2.0)
    selector = DPKnockoffSelector(epsilon=1.0, delta=1e-3, dictionary=facts, **given)
    return selector._open(MomentsMethod(epsilon=1.0, delta=1e-3, **given), data, target, True, 1)


def columns_for(way, mode):
    "The columns that a way can have"
    left_out = ({*"fdm"} if way in NO_TEXT else set()) if MODES[mode] else {*"fkdm"}
    return {name: list(values) for name, values in COLUMNS.items() if name not in left_out}


# ---------------------------------------------------------------- what is seen


class Seen:
    "Everything that a reader of the data can see: rows as encoded, what a pass says, warnings, output"

    def __init__(self, way, columns, folder, facts):
        self.rows, self.refusal, self.second, out = None, None, None, io.StringIO()
        with (
            warnings.catch_warnings(record=True) as heard,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(out),
        ):
            warnings.simplefilter("always")
            try:
                source = opened(way, columns, folder, facts)
                self.rows = np.concatenate(source._reader.read(keep))
                if not source.once:
                    source(CLIP)
            except InputError as error:
                self.refusal = error
        self.said = out.getvalue(), tuple(str(warning.message) for warning in heard)


def keep(X, y):
    return [np.column_stack([X, y])]


class Leak(AssertionError):
    "A cell that speaks of another row, or is spoken of"


class Fuzz:
    "Cases of one way in one mode, and what they found"

    def __init__(self, way, mode, folder):
        self.way, self.mode, self.folder = way, mode, folder
        self.columns = columns_for(way, mode)
        self.base = Seen(way, self.columns, folder, MODES[mode])
        self.counts, self.sentences = Counter(), {}
        if self.base.refusal is not None:
            raise self.base.refusal

    def try_cell(self, name, row, cell):
        "Replace one cell"
        other = self.columns | {name: [*self.columns[name]]}
        other[name][row] = cell
        try:
            seen = Seen(self.way, other, self.folder, MODES[self.mode])
        except DoesNotFit:
            return self.counts.update(["does not fit"])
        except Exception as error:
            raise Leak(f"{type(error).__name__} came through: {error}"[:300]) from None
        self.counts.update(["cases"])
        if seen.said != self.base.said:
            raise Leak(f"said {seen.said}, not {self.base.said}"[:300])
        if seen.rows is not None:
            self._compare(seen.rows, row)
        if seen.refusal is not None:
            self._refused(seen.refusal, name)

    def _compare(self, rows, row):
        if rows.shape != self.base.rows.shape:
            raise Leak(f"{rows.shape}, not {self.base.rows.shape}")
        others = np.arange(ROWS) != row
        mine, theirs = (np.ascontiguousarray(r[others]).view(np.int64) for r in (rows, self.base.rows))
        if not (mine == theirs).all():
            raise Leak("another row changed")

    def _refused(self, error, name):
        self.counts.update(["refused"])
        if MODES[self.mode] and not any(word in self.way for word in INFERS):
            raise Leak(f"refused: {error}")
        if error.one_row not in ONE_ROW.values():
            raise Leak(f"a refusal that is not registered: {error}")
        sentence = re.sub(
            r"(chunk|partition|part)([ -])\d", r"\1\2#", str(error)
        )  # where a row stands is public
        known = self.sentences.setdefault((name, error.one_row), sentence)
        if sentence != known and not any(word in self.way for word in INFERS):  # a type that cells decide
            raise Leak(f"two sentences: {sentence} | {known}")
        if not error.__suppress_context__ and error.__context__ is not None:
            raise Leak("a traceback of two errors")
        if "SECRET" in "".join(traceback.format_exception(error)):
            raise Leak("a traceback that shows a cell")


def cases(fuzz, rng, kinds=tuple(CELLS), every=1):
    "Columns, rows and cells to try: each cell once, in a place by chance"
    names = list(fuzz.columns)
    for kind in kinds:
        for cell in CELLS[kind][int(rng.integers(every)) :: every]:
            yield names[rng.integers(len(names))], int(rng.integers(ROWS)), cell
