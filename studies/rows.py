"""How many rows a table needs for its columns and its budget: makes results/rows.md.

Real designs with planted truths. One column per number and one per level beyond the first, p in all.
Epsilon is chosen so that n epsilon / p^1.5 takes a few values; a third of the variables matter and explain
a fifth of the response.
"""
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dp_knockoff.core.errors import stream
from dp_knockoff.data.models import RESPONSE_SDS
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.practice.planning import Copies, Scenario, plant
from dp_knockoff.selection.release import select
from outlook import FIRST, TABLES, design

RESULTS = Path(__file__).resolve().parent / "results" / "rows.md"
RATIOS = (10, 20, 40, 80, 160, 320)  # n epsilon / p^1.5
SMALLEST, LARGEST = .05, 20.0        # epsilon; beyond, a table has no cell
RELEASES = 12                        # of each table at each ratio
QUANTILES = (.25, .5, .75)           # over tables


def cell(name: str, facts: list, X: np.ndarray, epsilon: float, releases: int) -> np.ndarray: # FDR, power
    "What the default filter finds in one table with one budget"
    told, out = Scenario(len(X), tuple(facts)), []
    signals = max(2, round(len(told.variables) / 3))
    method = MomentsMethod(epsilon=epsilon, delta=1e-6, response_bound=RESPONSE_SDS, response_center=0.0,
                           row_bound=.5 * len(facts)**.5)
    for k in range(releases):
        rng = stream(k, f"rows {name}")
        planted = plant(X, told.variables, signals, .2, rng)
        release = method.release(Copies(X, planted.y, told), simulation=True, random_state=rng)
        out.append(error_rates(select(release).support, planted.support))
    return np.mean(out, axis=0)


def measure(names, releases: int) -> dict: # ratio -> (tables, 2)
    "Every table at every ratio that a sensible epsilon reaches"
    found = {ratio: [] for ratio in RATIOS}
    for name in tqdm(names, disable=None):
        facts, parts, _ = design(name, *names[name])
        X = np.column_stack(parts)
        for ratio in RATIOS:
            epsilon = ratio * X.shape[1]**1.5 / len(X)
            if not SMALLEST <= epsilon <= LARGEST: continue
            found[ratio].append(cell(name, facts, X, epsilon, releases))
    return {ratio: np.array(rows) for ratio, rows in found.items()}


def report(found: dict) -> str:
    "Quartiles of the tables' mean powers at each ratio"
    lines = ["# Rows for columns and budget", "",
             "| n epsilon / p^1.5 | tables | power: quartiles over tables | mean FDR (q = .2) |",
             "|--|--|--|--|"]
    for ratio, rows in found.items():
        low, middle, high = np.quantile(rows[:, 1], QUANTILES)
        powers = f"{low:.2f}, {middle:.2f}, {high:.2f}"
        lines.append(f"| {ratio} | {len(rows)} | {powers} | {rows[:, 0].mean():.2f} |")
    return "\n".join([*lines, "", __doc__.strip().split("\n\n")[1].replace("\n", " "), ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=RELEASES)
    args = parser.parse_args()
    with one_blas_thread(): text = report(measure(FIRST | TABLES, args.releases))
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__": main()
