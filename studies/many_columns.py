"""Tests of thousands of columns: power, FDR, seconds and memory. Writes results/many_columns.md."""
import argparse
import resource
from pathlib import Path
from time import perf_counter

import numpy as np

from dp_knockoff.core.errors import stream
from dp_knockoff.filters import law_tests
from dp_knockoff.filters.law_tests import LawTestsMethod
from dp_knockoff.knockoffs.laws import Independent
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.selection.release import select

RESULTS = Path(__file__).resolve().parent / "results" / "many_columns.md"
SIGNALS, BLOCK = 20, 500
CELLS = ((500, 5_000, 20), (2_000, 8_000, 4), (10_000, 20_000, 1)) # columns, rows, datasets
FIRST_TRIAL = 1000 # datasets below it were used to choose the constants


class Normal:
    "A standard normal column: one object for all of them"
    def ppf(self, u):
        from scipy.special import ndtri
        return ndtri(u)

    def mean(self): return 0.0
    def var(self): return 1.0


def rows(p, n, k):
    "A function that draws the same rows again for every pass, and the truth: signals explain half"
    which = stream(k, f"signals {p} {n}").choice(p, SIGNALS, replace=False)

    def chunks():
        for i in range(0, n, BLOCK):
            rng = stream(k, f"rows {p} {n} {i}")
            X = rng.standard_normal((min(BLOCK, n - i), p))
            yield X, X[:, which].sum(1) + np.sqrt(SIGNALS) * rng.standard_normal(len(X))
    return chunks, np.isin(np.arange(p), which)


def trial(p, n, k):
    "False discovery proportion, power, variables measured, seconds"
    chunks, truth = rows(p, n, k)
    method = LawTestsMethod(law=Independent([Normal()] * p), epsilon=1.0, delta=1e-6,
                            response_bound=2.5 * np.sqrt(2 * SIGNALS))
    start = perf_counter()
    release = method.release(chunks, simulation=True, random_state=k)
    found = np.isin([f"x{j}" for j in range(p)], select(release).selected)
    return *error_rates(found, truth), len(release.names), perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, help="of each setting; default: 20, 4 and 1")
    args = parser.parse_args()
    lines = [f"""# Thousands of columns

Independent normal columns, {SIGNALS} signals that explain half of the variance, epsilon = 1, delta = 1e-6,
q = .2; rows are drawn again for every pass. Seconds are those of a busy machine.

| columns | rows | datasets | power | FDR | no choice: power | FDR | measured | seconds | peak memory, GB |
|---|---|---|---|---|---|---|---|---|---|"""]
    for p, n, datasets in CELLS:
        datasets, many = args.datasets or datasets, law_tests.MANY
        found = np.mean([trial(p, n, FIRST_TRIAL + k) for k in range(datasets)], axis=0)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        without = "- | -"
        if p < 5000:
            law_tests.MANY = 10**9
            fdr, power, *_ = np.mean([trial(p, n, FIRST_TRIAL + k) for k in range(datasets)], axis=0)
            law_tests.MANY, without = many, f"{power:.2f} | {fdr:.2f}"
        fdr, power, measured, seconds = found
        lines.append(f"| {p:,} | {n:,} | {datasets} | {power:.3f} | {fdr:.3f} | {without} | {measured:.0f} | "
                     f"{seconds:.0f} | {memory:.1f} |")
        print(lines[-1], flush=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__": main()
