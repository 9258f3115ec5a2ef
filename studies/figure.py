"""What the paper's figure costs, and one trial of it against the textbook route on rows. See README.md."""
from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from dp_knockoff import linear_model
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.evidence.simulation import METHODS, Experiment, run_chunk
from one_selection import orthonormal_complement, table, textbook_selection, textbook_statistics

PAPER = "none,one,two"         # the paper's methods
ALL = ",".join(METHODS)        # the default of the command
SECONDS = 10                   # aim for the whole figure, imports included
MEMORY = 1000                  # aim, in MB
FASTER = 1000                  # aim for one trial against the textbook route
HERE = Path(__file__).resolve().parent


def whole_figure(jobs: int, methods: str) -> tuple:
    "Wall and CPU seconds of `dp-knockoff figure` in a fresh process, and the peak of its processes in MB"
    command = Path(sys.executable).parent / "dp-knockoff"
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["figure", "--jobs", str(jobs), "--methods", methods, "--out", folder]
        start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([str(command), *arguments], check=True, capture_output=True)
        seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, used.ru_maxrss / 1024


def textbook_trial(n: int, seed: int) -> float:
    "Seconds for one trial on rows: data, knockoffs, least squares on [X Xk], noise, threshold"
    start = time.perf_counter()
    X, y, _ = linear_model(n, random_state=seed)
    rng = np.random.default_rng(seed)
    W = textbook_statistics(X, y, orthonormal_complement(X, rng))
    textbook_selection(W + rng.standard_normal(W.shape))
    return time.perf_counter() - start


def moment_trial(n: int, seed: int, trials: int = 200) -> float:
    "Seconds a trial at moment level, the paper's three methods on one thread"
    start = time.perf_counter()
    with one_blas_thread(): run_chunk(Experiment(), PAPER.split(","), n, 0, trials, seed)
    return (time.perf_counter() - start) / trials


def report(n: int, runs: list) -> str:
    "The aims, and whether they are met"
    paper, (all_methods, cpu, _), textbook, moment = (np.median([run[k] for run in runs], axis=0)
                                                      for k in range(4))
    ratio = median(run[2] / run[3] for run in runs)
    peak = max(run[1][2] for run in runs)
    def met(ok): return "met" if ok else "NOT met"
    rows = [[f"`dp-knockoff figure`, 15 sizes, 250 trials, {ALL}, two processes, imports included",
             f"{all_methods:.1f} s ({cpu:.0f} s of CPU)", f"{SECONDS} s", met(all_methods <= SECONDS)],
            [f"the same, {PAPER}", f"{paper:.1f} s", f"{SECONDS} s", met(paper <= SECONDS)],
            ["its peak memory, of one process", f"{peak:.0f} MB", f"{MEMORY} MB", met(peak < MEMORY)],
            [f"one trial at n = {n:,}: textbook route on rows (one method) over moment level (three)",
             f"{ratio:,.0f}x", f"{FASTER}x", met(ratio >= FASTER)]]
    return "\n\n".join([
        "# The paper's figure", table(["what", "measured", "aim", ""], rows),
        f"Median of {len(runs)} interleaved runs; the textbook trial took {textbook:.1f} s, "
        f"a moment-level trial {1e3 * moment:.2f} ms."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=float, default=1e5, help="rows of a trial")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "figure.md")
    args = parser.parse_args()
    n = int(args.n)
    whole_figure(2, ALL) # warm up
    moment_trial(n, 0)
    runs = []
    for k in range(args.repeats):
        paper, whole = whole_figure(2, PAPER)[0], whole_figure(2, ALL)
        runs.append((paper, whole, textbook_trial(n, k), moment_trial(n, k)))
    text = report(n, runs)
    print(text)
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
