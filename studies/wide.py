"""One private selection with many columns, against linear algebra that it cannot avoid. See README.md."""
from __future__ import annotations

from dp_knockoff.filters.methods import ask
import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np

from dp_knockoff import linear_model
from dp_knockoff.data.rows import one_blas_thread

from one_selection import setting, table

AIM = 4     # selection over yardstick
EIGEN = 10  # eigendecompositions in the yardstick
HERE = Path(__file__).resolve().parent


def timed(call) -> tuple:
    "Wall and CPU seconds"
    wall, cpu = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(p: int, n: int, repeats: int) -> list:
    "Wall and CPU seconds of the selection, of the yardstick, and of a release, in turns, on one BLAS thread"
    X, y, _ = linear_model(n, p, k=p // 20, amplitude=1.0, random_state=0)
    row_bound, response_bound = .7 * np.sqrt(p), 2.5 * .7 * np.sqrt(p // 20 + 1)
    public = dict(epsilon=10.0, delta=1 / n, row_bound=row_bound, response_bound=response_bound)

    def selection():
        ask("moments", X, y, **public, intercept=False, simulation=True, random_state=0)

    def released(): ask("moments", X, y, **public, intercept=False)

    def yardstick():
        with one_blas_thread():
            G = X.T @ X
            for _ in range(EIGEN): np.linalg.eigh(G)

    return [(*timed(selection), *timed(yardstick), *timed(released)) for _ in range(repeats)]


def row(p: int, n: int, runs: list) -> list:
    "Medians and ratios"
    wall, bare, released = (f"{median(run[k] for run in runs):.1f} s" for k in (0, 2, 4))
    ratio = median(run[0] / run[2] for run in runs)
    cpu_ratio = median(run[1] / run[3] for run in runs)
    met = "met" if max(ratio, cpu_ratio) <= AIM else "NOT met"
    return [p, f"{n:,}", wall, bare, f"{ratio:.2f}x", f"{cpu_ratio:.2f}x", f"{AIM}x", met, released]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--columns", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--rows", type=float, default=2e4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "wide.md")
    args = parser.parse_args()
    n = int(args.rows)
    measure(20, 1000, 1) # imports on first use happen here
    rows = [row(p, n, measure(p, n, args.repeats)) for p in args.columns]
    header = ["p", "n", "selection", "yardstick", "wall ratio", "CPU ratio", "aim", "", "with OpenDP's noise"]
    text = "\n\n".join([
        "# Many columns",
        f"`MomentsMethod` (one round, NumPy's noise) against one X'X and {EIGEN} eigendecompositions of it, "
        f"on one BLAS thread; medians of {args.repeats} interleaved runs. "
        "The last column is a release, whose noise OpenDP draws exactly, number by number: "
        f"there are p (p + 1) / 2 of them in X'X. {setting()}",
        table(header, rows)]) + "\n"
    print(text)
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
