"""How many rows a table needs for its columns and its budget: makes results/rows.md.

Real designs with planted truths. One column per number and one per level beyond the first, p in all.
Epsilon is chosen so that n epsilon / p^1.5 takes a few values; a third of the variables matter and explain
a fifth of the response.
"""
from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from tqdm import tqdm

from outlook import TABLES, achieved, design
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.practice.planning import Scenario
from outlook import RESPONSE_SD, Table

RESULTS = Path(__file__).resolve().parent / "results" / "rows.md"
RATIOS = (10, 20, 40, 80, 160, 320)  # n epsilon / p^1.5
SMALLEST, LARGEST = .05, 20.0        # epsilon; beyond, a table has no cell
RELEASES = 12                        # of each table at each ratio
QUANTILES = (.25, .5, .75)           # over tables


def cell(name: str, facts: list, X: np.ndarray, epsilon: float, releases: int) -> np.ndarray: # FDR, power
    "What the default filter finds in one table with one budget"
    told = Scenario(len(X), tuple(facts), share=.2)
    told = replace(told, signals=max(2, round(len(told.variables) / 3)))
    method = MomentsMethod(epsilon=epsilon, delta=1e-6, response_bound=2.5 * RESPONSE_SD,
                           row_bound=.5 * len(facts)**.5)
    return achieved(Table(name, X, told, method, .2), releases).mean(1)


def measure(names, releases: int) -> dict: # ratio -> (tables, 2)
    "Every table at every ratio that a sensible epsilon reaches"
    found = {ratio: [] for ratio in RATIOS}
    for name in tqdm(names, disable=None):
        facts, parts = design(name)
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
    with one_blas_thread(): text = report(measure(TABLES, args.releases))
    RESULTS.write_text(text)
    print(text)


if __name__ == "__main__": main()
