"""What passes over the rows cost, in multiples of one X'X. See README.md."""
from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from dp_knockoff import Gaussian, linear_model
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import ar1
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.filters.methods import ask
from dp_knockoff.knockoffs.laws import row_uniforms
from one_selection import ratio, setting, table

P = 50
SLICE = 2**16 // P # rows that fit into the cache
AIMS = {"moments filter": 6, "products filter": 10}
PUBLIC = dict(epsilon=1.0, delta=1e-6)
BOUNDS = dict(row_bound=.7 * P**.5, response_bound=5.0)
RANGES = {f"x{j}": (-3, 3) for j in range(P)}
LAW = Gaussian(0, ar1(P, .5))
HERE = Path(__file__).resolve().parent


def knockoffs(X: np.ndarray) -> None:
    "Draw the knockoffs of all rows, and do nothing with them"
    for i in range(0, len(X), SLICE):
        rows = X[i:i + SLICE]
        LAW(rows, row_uniforms((1, 2), 0, i, len(rows), P))


def routes(n: int, folder: str) -> dict: # {name: function}
    "What is measured, the yardstick first: whole selections with real noise, and parts of them"
    X, y, _ = linear_model(n, P, rho=.5, random_state=0)
    y /= y.std()
    single, path = X.astype(np.float32), f"{folder}/rows.parquet"
    pl.DataFrame(X, schema=list(RANGES)).with_columns(y=y).write_parquet(path)
    clip = Clip(**BOUNDS)
    products = dict(law=LAW, response_bound=3.0, **PUBLIC)
    return {
        "X'X": lambda: X.T @ X,
        "one exact pass": lambda: Moments.from_data(X, y, clip=clip),
        "moments filter": lambda: ask("moments", X, y, **PUBLIC, **BOUNDS),
        "moments filter, with ranges": lambda: ask("moments", X, y, **PUBLIC, **BOUNDS, ranges=RANGES),
        "moments filter, float32": lambda: ask("moments", single, y, **PUBLIC, **BOUNDS),
        "moments filter, Parquet": lambda: ask("moments", path, "y", **PUBLIC, **BOUNDS),
        "knockoffs of all rows": lambda: knockoffs(X),
        "products filter, one round": lambda: ask("products", X, y, **products, rounds=1),
        "products filter": lambda: ask("products", X, y, **products),
    }


def timed(route) -> tuple:
    "Wall and CPU seconds"
    wall, cpu = time.perf_counter(), time.process_time()
    with one_blas_thread(): route()
    return time.perf_counter() - wall, time.process_time() - cpu


def rows(times: dict):
    "A line for each route"
    for name, runs in times.items():
        wall, cpu = (ratio(runs, times["X'X"], clock) for clock in (0, 1))
        aim = AIMS.get(name)
        met = "" if aim is None else "met" if cpu <= aim else "NOT met"
        yield [name, *(f"{median(run[clock] for run in runs):.2f} s" for clock in (0, 1)),
               f"{wall:.1f}x", f"{cpu:.1f}x", "" if aim is None else f"{aim}x", met]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, default=1e6)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "passes.md")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for route in routes(1000, folder).values(): route() # imports on first use happen here
        ways = routes(int(args.rows), folder)
        times = {name: [] for name in ways}
        for _ in range(args.repeats):
            for name, route in ways.items(): times[name].append(timed(route))
    text = "\n\n".join([
        "# Passes over the rows",
        f"n = {int(args.rows):,}, p = {P}, rows in memory as float64 unless another kind is named. "
        "Selections with real noise and all defaults. Multiples of one X'X on one BLAS thread; the filters "
        "use one such thread per core, so that the ratio of CPU seconds compares equal numbers of threads. "
        f"Medians of {args.repeats} interleaved runs. {setting()}",
        "No copy of the rows is kept, so the products filter draws all knockoffs in every round: three times "
        "their line is the least that three rounds can take with the same bits.",
        table(["", "wall", "CPU", "wall / X'X", "CPU / X'X", "aim (CPU)", ""], list(rows(times)))]) + "\n"
    print(text)
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
