"""Golden numbers: what every filter answered before the package was rebuilt, to nine digits.

CASES says in terms of no particular interface what is asked; `run` asks this package, and is all that knows
its interface. saved/golden.json holds the answers. The first ones are those of version 0.1. A change that is
meant to change numbers writes them anew, and shows in the diff of that file which ones, by

    OPENBLAS_NUM_THREADS=1 python tests/test_golden.py --write

which renews only what is off. Renewed so far: all cases of `moments` and `labels`, since 0.2 sums rows that
are rounded to a grid (2^-18 of a bound) and rounds the noise to its lattice. Released numbers, estimates and
statistics moved by at most 3e-5 of the largest entry, and no selection changed; `none`, `one` and `two` did
not move. Then all cases of `moments`, which got steered rounds, a covariance that is right and another rule
of its own (cases that ask for a statistic, s or offset now ask for knockoffs, which was the rule before), and
those of `products`, whose squares have less noise. Then the three cases of `moments` with ranges, since
values beyond a range count as its ends there too, as they did everywhere else; no selection changed. Then
the cases of `none` that leave s to the method, whose default became mvr; those with s="sdp" where knockoffs
that are next to their originals can no longer be selected; and the case of `labels` without a row bound and
a rule, whose defaults became the usual norm of a row and bh. Then all cases of `products`, which clamps
residuals closer, at the bound that is best for power. Then all cases of `moments`: rounds choose residual
bounds from released histograms, columns are centred privately, and the estimate is new, since the old one
selected too many nulls where noise is skewed. Then the two cases of `moments` with ranges and several rounds,
which find units for these columns first (and a private bound in them), so that a range that is too wide hides
nothing.

All noise is that of simulations, with the seeds of the cases. Knockoffs that a selection draws from a release
get their seed from the bytes of its numbers, of which the last depend on the machine's linear algebra: here
they get the case's seed instead.

A case's row_bound is for the row of x; a column of ones that an intercept appends is not counted.
"""
import contextlib
import gzip
import io
import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from calls import selector

GOLDEN = Path(__file__).parent / "saved" / "golden.json"
DIGITS = 1e-9  # allowed, as a share of the largest entry of an array
EQUI = 1e-6    # with s="equi" the Gram matrix is singular, and the root of its zero turns 1e-16 into 1e-8


# ---------------------------------------------------------------- the data

SIZES = {"plain": (300, 8), "short": (14, 8), "people": (9000, 8), "units": (9000, 7), "blocks": (80_000, 6),
         "bounded": (20_000, 6), "wide": (20_000, 12)}


def rows(dataset):
    "X, y and the names that the columns have in tables"
    n, p = SIZES[dataset]
    rng = np.random.default_rng([17, n, p])
    X = rng.standard_normal((n, p))
    X[:, 1:] = .8 * X[:, 1:] + .6 * X[:, :-1]
    bounded = dataset in ("bounded", "wide")  # no row is longer than 1
    if bounded: X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    beta = np.resize([1.0, -.7, 0, .8, 0, -1.2, .5], p) * (.35 if dataset == "plain" else 1)
    y = X @ beta + (0 if bounded else .6) + rng.standard_normal(n)
    if dataset == "units": X, y = X * 10.0 ** np.arange(-2, p - 2) + np.arange(p), y + 20
    return X, y, [f"c{j}" for j in range(p)]


def law_of_rows(p):
    "The law of the rows of the datasets without bounds"
    from dp_knockoff.knockoffs.laws import Gaussian
    root = np.diag([1.0, *[.8] * (p - 1)]) + np.diag([.6] * (p - 1), -1)
    return Gaussian(0, root @ root.T)


LEVELS = ["low", "middle", "high"]
FACTS = {"target": "y", "columns": {f"c{j}": {"levels": LEVELS, "probabilities": [.3, .4, .3]}
                                    for j in range(8)}}
UNITS = {f"c{j}": (j - 3 * 10.0 ** (j - 2), j + 2.5 * 10.0 ** (j - 2)) for j in range(7)}  # public ranges


def opened(data, folder):
    "The data in the form asked for, and its response: what one passes to a filter"
    dataset, kind = data.split("/")
    X, y, names = rows(dataset)
    n, columns = len(y), {**dict(zip(names, X.T)), "y": y}
    lines = [[*names, "y"], *np.column_stack([X, y]).tolist()]
    text = "".join(",".join(map(str, line)) + "\n" for line in lines)
    if kind == "array": return X, y
    if kind == "text":  # each column in three levels
        import pandas as pd
        text_columns = {name: np.take(LEVELS, np.digitize(x, [-.5, .5])) for name, x in zip(names, X.T)}
        pd.DataFrame({**text_columns, "y": y}).to_csv(folder / "text.csv", index=False)
        return str(folder / "text.csv"), "y"
    if kind == "pandas":
        import pandas as pd
        return pd.DataFrame(columns), "y"
    if kind in ("polars", "query"):
        import polars as pl
        return pl.DataFrame(columns) if kind == "polars" else pl.LazyFrame(columns), "y"
    if kind == "arrow":
        import pyarrow as pa
        return pa.table(columns), "y"
    if kind == "csv":
        (folder / "t.csv").write_text(text)
        return str(folder / "t.csv"), "y"
    if kind == "csv.gz":
        with gzip.open(folder / "t.csv.gz", "wt") as file: file.write(text)
        return folder / "t.csv.gz", "y"
    if kind == "parquet":  # three files
        import pyarrow as pa
        import pyarrow.parquet as pq
        for k, part in enumerate(np.array_split(np.arange(n), [n // 5, n // 2])):
            pq.write_table(pa.table(columns).take(part), folder / f"{k}.parquet", row_group_size=n // 7)
        return [str(folder / f"{k}.parquet") for k in range(3)], "y"
    if kind == "npy":
        np.save(folder / "x.npy", X)
        np.save(folder / "y.npy", y)
        return str(folder / "x.npy"), str(folder / "y.npy")
    cuts = [0, n // 10, n // 3, n]
    if kind == "chunks": return lambda: ((X[a:b], y[a:b]) for a, b in zip(cuts, cuts[1:])), None
    if kind == "tables":
        import pandas as pd
        return lambda: (pd.DataFrame(columns)[a:b] for a, b in zip(cuts, cuts[1:])), "y"
    if kind == "dask array":
        import dask.array as da
        return da.from_array(X, chunks=(n // 3, 3)), da.from_array(y, chunks=n // 4)
    if kind == "dask frame":
        import dask.dataframe as dd
        import pandas as pd
        return dd.from_pandas(pd.DataFrame(columns), npartitions=3), "y"
    raise ValueError(kind)


def own(A, b):
    "A statistic of our own: what is left of the products after a step of gradient descent, cubed"
    original, knockoff = np.split(np.abs(b - .1 * A @ b)**3, 2)
    return original - knockoff


# ---------------------------------------------------------------- the questions

def case(method, data, via="filter", keep=None, **options):
    """One question: the method, "dataset/form", the way in, what open_source keeps, and the method's options

    Ways in: "filter" passes data and response; "source" opens a source first, with columns `keep` only;
    "saved" collects moments, in the method's bounds, and saves them; "release" saves a release and selects
    from it with the options in `again`; "fit" and "partial_fit" are the selector's; "command" is the command
    line, "command on moments" and "command on release" on what was saved like that.
    """
    return dict(method=method, data=data, via=via, keep=keep, options=options)


PAPER = dict(epsilon=20.0, delta=1e-2, row_bound=1.0, sigma=1.0, beta_norm=2.5)
PRINTED = dict(epsilon=.9, delta=.03, row_bound=1.0, sigma=1.0, beta_norm=3.5) # where the printed bounds hold
PLUG_INS = {**PAPER, "sigma": "estimate", "beta_norm": "estimate"}
MOMENTS = dict(epsilon=3.0, delta=1e-3, row_bound=2.5, response_bound=3.0)
KNOCKOFFS = MOMENTS | dict(rule="knockoffs")
UNLIKE = dict(epsilon=4.0, delta=1e-4, row_bound=1.5, ranges=UNITS, response_center=20.5)
LABELS = dict(epsilon=1.0, delta=1e-3, sigma=1.0)
PRODUCTS = dict(epsilon=3.0, delta=1e-3, response_bound=5.0)

# Seeds above 100 were sought: there another default (fdr=.3, offset=0), and another search for bounds, shows.
CASES = {
    "none": case("none", "plain/array", random_state=110),
    "none, lcd, no intercept": case(
        "none", "plain/pandas", statistic=("ols", "lcd"), intercept=False, fdr=.5, random_state=2),
    "none, ridge, equi": case(
        "none", "plain/polars", statistic=("ridge", "lcd", .3), s="equi", random_state=3),
    "none, lasso, sdp, offset 0": case(
        "none", "plain/arrow", statistic=("lasso", "csm", 1.5), s="sdp", offset=0, fdr=.1, random_state=4),
    "none, path, mvr": case("none", "plain/csv", statistic=("path", "csm"), s="mvr", random_state=5),
    "none, own, s in numbers": case(
        "none", "plain/chunks", statistic="own", s=[.1, .06, .08, .1, .05, .1, .07, .08], fdr=.5,
        random_state=6),
    "none, few rows, sigma": case("none", "short/array", sigma=1.2, fdr=.5, random_state=7),
    "none, few rows, estimate": case(
        "none", "short/array", sigma="estimate", statistic=("lasso", "lcd", .2), intercept=False, fdr=.5,
        offset=0, random_state=8),
    "none, saved moments": case(
        "none", "plain/dask frame", "saved", s="mvr", statistic=("ols", "lcd"), random_state=9),
    "none, some columns": case(
        "none", "plain/parquet", "source", keep=["c5", "c0", "c1", "c3", "c7", "c2"],
        statistic=("lasso", "lcd", .5), random_state=10),

    "one": case("one", "bounded/array", **PAPER, random_state=102),
    "one, paper, not repaired": case(
        "one", "wide/pandas", **PRINTED, bounds="paper", repaired=False, statistic=("ols", "lcd"), fdr=.5,
        random_state=12),
    "one, tight, ridge, splits": case(
        "one", "bounded/npy", "source", **PAPER, bounds="tight", statistic=("ridge", "csm", .4),
        epsilon_split=[.6, .1, .3], delta_split=[.2, .5, .3], offset=0, random_state=13),
    "one, estimates, lasso": case(
        "one", "bounded/polars", **PLUG_INS, statistic=("lasso", "lcd", 1.0), random_state=14),
    "one, path, saved moments": case(
        "one", "bounded/parquet", "saved", **{**PAPER, "epsilon": .002}, statistic=("path", "lcd"), fdr=.5,
        sampler=44, random_state=15),  # the released lam_min is negative

    "two": case("two", "bounded/array", **PAPER, random_state=101),
    "two, paper, lcd": case(
        "two", "wide/arrow", **PRINTED, bounds="paper", statistic=("ols", "lcd"), offset=0, fdr=.1,
        random_state=17),
    "two, tight, beta_max": case(
        "two", "bounded/dask array", **PAPER, bounds="tight", beta_max=1.2, fdr=.5, delta_split=[.7, .3],
        random_state=18),
    "two, coupled": case(
        "two", "bounded/chunks", **PAPER, bounds="coupled", beta_max=1.2, statistic=("ols", "lcd"),
        random_state=19),
    "two, ridge": case(
        "two", "bounded/pandas", **PAPER, bounds="corrected", ridge_penalty=.5, random_state=20),
    "two, estimates": case("two", "bounded/csv.gz", **PLUG_INS, bounds="tight", random_state=21),

    "moments": case("moments", "people/array", **MOMENTS, random_state=105),
    "moments, no intercept": case(
        "moments", "people/pandas", **MOMENTS, intercept=False, fdr=.5, random_state=23),
    "moments, ranges, centre": case("moments", "units/csv.gz", **UNLIKE, response_bound=2.0, random_state=24),
    "moments, three rounds": case("moments", "people/parquet", **MOMENTS, rounds=3, fdr=.1, random_state=25),
    "moments, private centre, groups": case(
        "moments", "people/csv", **MOMENTS, response_center="private", groups={"g": ["c1", "c2"]}, rule="by",
        random_state=26),
    "moments, dbh, one round": case(
        "moments", "people/array", **MOMENTS, rounds=1, rule="dbh", random_state=63),
    "moments, ebh": case("moments", "people/pandas", **MOMENTS, rule="ebh", fdr=.5, random_state=64),
    "moments, private bounds": case(
        "moments", "people/chunks", epsilon=.05, delta=1e-3, row_bound="private", response_bound="private",
        intercept=False, fdr=.5, random_state=240),
    "moments, private response bound": case(
        "moments", "people/dask array", epsilon=1.0, delta=1e-3, row_bound=2.5, response_bound="private",
        rounds=3, random_state=27),
    "moments, balance, sigma": case(
        "moments", "people/csv", **KNOCKOFFS, balance=2.2, sigma=1.0, s="lam_min", random_state=28),
    "moments, ridge, equi": case(
        "moments", "people/polars", **KNOCKOFFS, statistic=("ridge", "csm", 1.0), s="equi", fdr=.5,
        random_state=29),
    "moments, path, sdp": case(
        "moments", "people/arrow", **KNOCKOFFS, statistic=("path", "lcd"), s="sdp", offset=0,
        random_state=30),
    "moments, own, sampler": case(
        "moments", "people/query", **KNOCKOFFS, statistic="own", sampler=41, fdr=.5, random_state=31),
    "moments, ols, two blocks": case(
        "moments", "blocks/npy", "source", **KNOCKOFFS, statistic=("ols", "csm"), fdr=.5, random_state=32),
    "moments, saved moments": case(
        "moments", "people/tables", "saved", **MOMENTS, response_center=.5, balance=1.8, sampler=42,
        random_state=33),
    "moments, saved, no intercept": case(
        "moments", "people/dask frame", "saved", **MOMENTS, intercept=False, random_state=34),
    "moments, again": case(
        "moments", "people/array", "release", **MOMENTS, random_state=35,
        again=dict(fdr=.5, rule="knockoffs", statistic=("ols", "lcd"), s="lam_min", random_state=36)),
    "moments, again, s in numbers": case(
        "moments", "people/dask frame", "release", **MOMENTS, rounds=3, balance=1.6, random_state=37,
        again=dict(rule="knockoffs", s=[.04, .02, .05, .03, .02, .04, .02, .05], sigma=1.1, offset=0,
                   statistic=("lasso", "csm", 1.0), random_state=38)),

    "labels": case("labels", "people/array", **LABELS, response_bound=6.0, random_state=164),
    "labels, row bound, centre": case(
        "labels", "people/pandas", **LABELS, response_bound=3.0, row_bound=2.0, response_center=.6,
        rule="knockoffs", s="sdp", statistic=("path", "csm"), offset=0, fdr=.1, random_state=40),
    "labels, row bound, no intercept": case(
        "labels", "people/arrow", **LABELS, response_bound=6.0, row_bound=2.0, intercept=False,
        rule="knockoffs", s="lam_min", statistic=("ols", "csm"), fdr=.5, sampler=43, random_state=41),

    "products": case("products", "people/array", **PRODUCTS, law="rows", random_state=110),
    "products, one round, ranges, centre": case(
        "products", "people/csv", **PRODUCTS, law="rows", rounds=1, ranges={"c2": (-2.0, 3.0)}, row_bound=2.0,
        response_center=.6, fdr=.5, random_state=52),
    "products, groups, ols": case(
        "products", "people/chunks", **PRODUCTS, law="rows", rounds=2, groups={"g": ["x1", "x2"]}, fdr=.5,
        statistic=("ols", "csm"), offset=0, sampler=45, random_state=53),
    "products, text": case(
        "products", "people/text", **PRODUCTS, dictionary="facts", groups={"last": ["c6", "c7"]}, fdr=.3,
        rows_per_person=2, random_state=54),
    "products, again": case(
        "products", "people/parquet", "release", **PRODUCTS, law="rows", random_state=55,
        again=dict(fdr=.5, statistic=("lasso", "lcd", 1.0), offset=0, random_state=56)),

    "selector, none, chunks": case(
        "none", "plain/array", "partial_fit", s="sdp", statistic=("lasso", "lcd", .4), random_state=42),
    "selector, two": case(
        "two", "bounded/pandas", "fit", **PAPER, statistic=("ols", "lcd"), intercept=False, fdr=.5,
        random_state=43),
    "selector, moments": case(
        "moments", "people/pandas", "fit", **MOMENTS, rounds=2, sampler=340, random_state=339),
    "selector, moments, chunks": case(
        "moments", "people/array", "partial_fit", **MOMENTS, ranges={"x2": (-2.0, 3.0)}, random_state=45),

    "selector, products": case(
        "products", "people/pandas", "fit", **PRODUCTS, law="rows", groups={"g": ["c0", "c3"]}, fdr=.3,
        random_state=57),
    "selector, products, text": case(
        "products", "people/text", "fit", **PRODUCTS, dictionary="facts", rounds=2, fdr=.3, random_state=58),

    "command, none": case("none", "plain/csv", "command", intercept=False, random_state=100),
    "command, two": case("two", "bounded/parquet", "command", **PAPER, bounds="tight", random_state=47),
    "command, moments": case(
        "moments", "units/parquet", "command", **UNLIKE, response_bound="private", rounds=2, random_state=48),
    "command on moments": case(
        "moments", "people/csv.gz", "command on moments", **MOMENTS, intercept=False, random_state=49),
    "command on release": case(
        "moments", "people/csv", "command on release", **MOMENTS, random_state=50,
        again=dict(fdr=.5, sigma=1.1, random_state=51)),
    "command, products": case(
        "products", "people/parquet", "command", **PRODUCTS, law="table", rounds=1, fdr=.3, random_state=59),
    "command, products, text": case(
        "products", "people/text", "command", **PRODUCTS, dictionary="facts", groups={"g": ["c1", "c4"]},
        fdr=.3, random_state=60),
    "command on release, products": case(
        "products", "people/csv", "command on release", **PRODUCTS, law="rows", random_state=61,
        again=dict(fdr=.5, random_state=62)),
}


# ---------------------------------------------------------------- the answers

def numbers(selected, W, signs, threshold, noise, release=None, estimate=None):
    "An answer as lists and numbers: of a p x p matrix its diagonal and one weighted sum of all its entries"
    def matrix(M):
        i, j = np.indices(np.shape(M))
        return [*np.diag(M).tolist(), float(np.sum(M * np.cos(1 + 2 * i + 5 * j)))]
    out = dict(selected=list(selected), signs=np.asarray(signs).tolist(), W=np.asarray(W).tolist(),
               threshold=threshold if threshold is not None and np.isfinite(threshold) else None)
    out |= {f"noise on {name}": float(scale) for name, scale in noise.items()}
    if release is not None:
        rounds = "products", "squares", "starts", "bounds", "product_sds", "square_sds", "clamped"
        out |= {f"released {name}": np.ravel(getattr(release, name)).tolist() for name in rounds}
    if hasattr(release, "gram"):
        out["released gram"] = matrix(release.gram)
        if release.rounds > 1: out["released variances"] = release.variances.tolist()
        for name in ("gram_sd", "weights", "variance_sd"):
            out[f"released {name}"] = float(getattr(release, name))
    if estimate is not None: out |= {"beta": estimate.beta.tolist(), "V": matrix(estimate.V)}
    return out


def deviations(found, golden):
    "How far each field is off, as a share of its largest entry; infinitely far if it is not even comparable"
    out = {}
    for field, wanted in golden.items():
        have = found.get(field)
        if field in ("selected", "signs") or wanted is None or have is None:
            out[field] = 0.0 if have == wanted else np.inf
        elif np.shape(have) != np.shape(wanted): out[field] = np.inf
        else:
            gap, size = np.abs(np.subtract(have, wanted)).max(), np.abs(wanted).max()
            out[field] = float(gap / size) if size else np.inf if gap else 0.0
            if np.isnan(out[field]): out[field] = np.inf
    return out


def complaint(name, found, golden, allowed=DIGITS):
    "Empty if all is as it was; else the case, the field that is off most, and the others"
    off = {field: gap for field, gap in deviations(found, golden).items() if gap > allowed}
    if not off: return ""
    worst = max(off, key=off.get)
    others = ", ".join(f"{field} ({gap:.1e})" for field, gap in off.items() if field != worst)
    return (f"case {name!r}: {worst!r} is off by {off[worst]:.2e} of its size ({allowed:g} is allowed)\n"
            f"  golden: {golden[worst]}\n  found:  {found.get(worst)}\n  also off: {others or 'nothing'}")


def compare(name, found):
    "The complaint about an answer to a case"
    golden = json.loads(GOLDEN.read_text())
    if name not in golden: return f"case {name!r} is not in {GOLDEN.name}: write it anew"
    return complaint(name, found, golden[name], EQUI if CASES[name]["options"].get("s") == "equi" else DIGITS)


def write(run, path=GOLDEN):
    "All answers, a line each; those that are what they were keep every digit"
    golden, lines = json.loads(path.read_text()), []
    for name, question in CASES.items():
        with tempfile.TemporaryDirectory() as folder: found = run(question, Path(folder))
        kept = golden[name] if name in golden and not compare(name, found) else found
        if kept is found: print("renewed:", name)
        lines.append(f"{json.dumps(name)}: {json.dumps(kept, allow_nan=False)}")
    path.write_text("{" + ",\n".join(lines) + "}\n")


def arguments_of_command(method, options, folder):
    "The options as arguments of `select`"
    out = ["--method", method]
    for name, value in options.items():
        if name == "ranges":
            (folder / "ranges.json").write_text(json.dumps(value))
            value = folder / "ranges.json"
        if name == "groups":
            (folder / "groups.json").write_text(json.dumps(value))
            value = folder / "groups.json"
        if name == "dictionary":
            (folder / "facts.toml").write_text(as_toml(value))
            value = folder / "facts.toml"
        if name == "law":  # of a public table
            X, _, names = rows("people")
            np.savetxt(folder / "law.csv", X[:500], "%.6f", ",", header=",".join(names), comments="")
            value = folder / "law.csv"
        option = "--seed" if name == "random_state" else "--" + name.replace("_", "-")
        if name == "simulation": out += ["--simulate"]
        elif name != "intercept": out += [option, str(value)]
        elif value is False: out += ["--no-intercept"]
    return out


def as_toml(facts):
    "A dictionary as a file"
    lines = [f'target = "{facts["target"]}"']
    for name, column in facts["columns"].items():
        lines += [f"[columns.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in column.items())]
    return "\n".join(lines)


# ---------------------------------------------------------------- this package

def run(question, folder):
    "Ask this package: all that knows its interface is here"
    from dp_knockoff.selection.release import Release
    options = question["options"]
    seed = options.get("again", options)["random_state"]
    with mock.patch.object(Release, "seed", seed): return ask_package(question, folder)


def ask_package(question, folder):
    "The same, with knockoffs from whatever seed a release has"
    import dp_knockoff as dp
    from dp_knockoff.filters.methods import METHODS, load_release, question_of
    from dp_knockoff.filters.methods import ask as by_name
    from dp_knockoff.practice.cli import main
    from dp_knockoff.privacy.samplers import NumpySampler

    method, via = question["method"], question["via"]
    ask = partial(by_name, method)
    bounds = "row_bound", "response_bound", "ranges", "response_center", "intercept"

    def spelled(options):
        out = dict(options)
        if isinstance(out.get("statistic"), tuple): out["statistic"] = dp.Statistic(*out["statistic"])
        if out.get("statistic") == "own": out["statistic"] = own
        if out.get("law") == "rows": out["law"] = law_of_rows(8)
        if "dictionary" in out: out["dictionary"] = FACTS
        if "sampler" in out: out["sampler"] = NumpySampler(out["sampler"])
        if method != "none": out["simulation"] = True
        return out

    def answer(selection):
        released = selection.release if method in ("moments", "products") else None
        return numbers(selection.selected, selection.W, selection.signs, selection.threshold,
                       getattr(selection.release, "noise", {}), released,
                       selection.estimate if method in ("moments", "labels") else None)

    def command(data, target, options):
        files = map(str, data if isinstance(data, list) else [data])
        target = ["--target", target] if target else []
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            code = main(["select", *files, *target, *arguments_of_command(method, options, folder), "--json"])
        assert code == 0, "the command refused"
        out = json.loads(printed.getvalue())
        return numbers(out["selected"], out["W"], out["signs"], out["threshold"], out["noise"])

    def release(options):
        draw = {name: options.pop(name) for name in ("random_state", "simulation")}
        METHODS[method](**options).release(data, y, **draw).save(folder / "release.npz")
        return folder / "release.npz"

    def collect(options):
        clip = {name: options.pop(name) for name in bounds if name in options} if method == "moments" else {}
        dp.moments_of(data, y, clip=dp.Clip(**clip) if clip else None).save(folder / "moments.npz")
        return folder / "moments.npz"

    def again_from(release): return dp.select(release, **question_of(release.rule, again))

    (data, y), options = opened(question["data"], folder), spelled(question["options"])
    again = spelled(options.pop("again", {}))
    for name in ("random_state", "simulation"): again.pop(name, None)
    if via == "filter": return answer(ask(data, y, **options))
    if via == "source": return answer(ask(dp.open_source(data, y, columns=question["keep"]), **options))
    if via == "saved": return answer(ask(collect(options), **options))
    if via == "release": return answer(again_from(load_release(release(options))))
    if via == "command": return command(data, y, options)
    if via == "command on moments": return command(collect(options), None, options)
    if via == "command on release": return command(release(options), None, again)
    sampler = options.pop("sampler", None) # a selector has none: it gets this one behind its back
    model = selector(method, fit_intercept=options.pop("intercept", True), **options)
    if sampler:
        with mock.patch("dp_knockoff.filters.moments_method.as_sampler", lambda *said: sampler):
            return answer(model.fit(*table_and_response(data, y)).selection_)
    if via == "fit": return answer(model.fit(*table_and_response(data, y)).selection_)
    for part in np.array_split(np.arange(len(y)), 3): model.partial_fit(data[part], y[part])
    return answer(model.finish().selection_)


def table_and_response(data, y):
    "Features and response apart, as scikit-learn wants them"
    return (data.drop(columns=y), data[y]) if isinstance(y, str) and not isinstance(data, str) else (data, y)


# ---------------------------------------------------------------- the tests

@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_what_it_was(name, tmp_path):
    if "dask" in CASES[name]["data"]: pytest.importorskip("dask")
    text = compare(name, run(CASES[name], tmp_path))
    assert not text, text


def test_every_golden_answer_has_its_question():
    golden = json.loads(GOLDEN.read_text())
    assert list(golden) == list(CASES)
    assert all({"selected", "signs", "W", "threshold"} <= set(answer) for answer in golden.values())


def test_what_is_off_is_noticed():
    golden = dict(selected=["a"], signs=[1, 0], W=[2.0, -1.0], threshold=None)
    assert complaint("c", {**golden, "more": 1}, golden) == ""
    assert complaint("c", {**golden, "W": [2.0, -1.0 + 1e-9]}, golden) == ""
    text = complaint("c", {**golden, "W": [2.0, -1.0 + 1e-8]}, golden)
    assert "case 'c': 'W' is off by 5.00e-09" in text and "also off: nothing" in text
    for wrong in (dict(selected=[]), dict(signs=[1, 1]), dict(W=[2.0]), dict(W=[2.0, np.nan]), dict(W=None),
                  dict(threshold=1.0)):
        assert f"{next(iter(wrong))!r} is off by inf" in complaint("c", {**golden, **wrong}, golden)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]: sys.exit("python tests/test_golden.py --write")
    write(run)
