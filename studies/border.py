"""The border, at length: every cell at every way in, and what a pass over a million rows costs.

    python studies/border.py           # makes results/border.md; some minutes
    python studies/border.py --fuzz    # the fuzz only, with another seed: --seed 7
    python studies/border.py --fuzz --every 9 --ways Dask chunks  # one cell in nine, some ways

The suite tries one cell in nine, or fewer. A ratio compares a way with the plain array, in processor time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))

from ways_in import MODES, WAYS, Fuzz, Leak, cases  # noqa: E402

from dp_knockoff.data.clip import Clip  # noqa: E402
from dp_knockoff.data.source import open_source  # noqa: E402

ROWS, FEATURES, REPEATS = 10**6, 20, 3


def fuzz(seed: int, every: int, ways: list) -> list:
    "One line a way: cases, refusals, leaks"
    lines = []
    for way in (way for way in WAYS if not ways or any(word in way for word in ways)):
        counts, leaks = Counter(), []
        for mode in MODES:
            with tempfile.TemporaryDirectory() as folder:
                trial = Fuzz(way, mode, Path(folder))
                rng = np.random.default_rng([seed, *way.encode(), len(mode)])
                for name, row, cell in cases(trial, rng, every=every):
                    try: trial.try_cell(name, row, cell)
                    except Leak as leak: leaks.append(f"{mode}, {name!r}, {cell!r:.40}: {leak}")
            counts.update(trial.counts)
        numbers = counts["cases"], counts["refused"], counts["does not fit"], len(leaks)
        lines.append(f"| {way} | {' | '.join(map(str, numbers))} |")
        print(lines[-1], *leaks[:3], sep="\n  ", flush=True)
    return lines


def tables(folder: Path) -> dict:
    "The same rows in several forms: (data, response, dictionary)"
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((ROWS, FEATURES)), rng.standard_normal(ROWS)
    names = [f"x{j}" for j in range(FEATURES)]
    table = pl.DataFrame(X, schema=names).with_columns(y=y)
    table.write_parquet(folder / "t.parquet")
    table.write_csv(folder / "t.csv")
    facts = {"target": "y", "columns": {name: {"range": [-5, 5], "missing": 0} for name in (*names, "y")}}
    frame = pd.DataFrame(X, columns=names).assign(y=y)
    return {"array": (X, y, None), "pandas": (frame, "y", None), "polars": (table, "y", None),
            "Arrow": (table.to_arrow(), "y", None), "Parquet": (folder / "t.parquet", "y", None),
            "CSV": (folder / "t.csv", "y", None), "polars, dictionary": (table, "y", facts),
            "Parquet, dictionary": (folder / "t.parquet", "y", facts)}


def cost() -> list:
    "One line a form: seconds of a pass, in units of the array's"
    seconds, clip = {}, Clip(6.0, 3.0)
    with tempfile.TemporaryDirectory() as folder:
        for name, (data, target, facts) in tables(Path(folder)).items():
            times = []
            for _ in range(REPEATS):
                start = time.process_time()
                open_source(data, target, dictionary=facts)(clip)
                times.append(time.process_time() - start)
            seconds[name] = min(times)
    return [f"| {name} | {spent / seconds['array']:.2f} |" for name, spent in seconds.items()]


def main():
    "The command line"
    verbatim = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=verbatim)
    parser.add_argument("--fuzz", action="store_true", help="the fuzz only; writes nothing")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one cell in N")
    parser.add_argument("--ways", nargs="*", default=[], metavar="WORD", help="names that have one of these")
    args = parser.parse_args()
    import dask
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        found = fuzz(args.seed, args.every, args.ways)
    if args.fuzz: return
    head = ["| way | cases | refused as registered | does not fit | leaks |", "|---|---|---|---|---|"]
    text = [
        "# The border", "",
        f"Replaced cells by way in, in {len(MODES)} modes (`python studies/border.py`).", "",
        *head, *found, "",
        f"A pass over {ROWS:,} rows and {FEATURES} columns, in units of the array's processor time:", "",
        "| way | ratio |", "|---|---|", *cost()]
    (ROOT / "studies" / "results" / "border.md").write_text("\n".join(text) + "\n", encoding="utf-8")


if __name__ == "__main__": main()
