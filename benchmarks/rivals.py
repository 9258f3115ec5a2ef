"""Published ways to select variables privately, and ours: makes results/rivals.npz for chapter 22."""
import argparse
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dp_knockoff.core.archives import check_place, load_arrays, save_arrays
from dp_knockoff.core.errors import InputError
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.evidence.rivals import CELLS, HOMES, RIVALS, home_rates, rivals_cell, trials_of
from dp_knockoff.evidence.trials import made_with

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=60, help="datasets a setting (wide: a fifth)")
    parser.add_argument("--jobs", type=int, default=2, help="threads (default: 2)")
    parser.add_argument("--only", nargs="+", metavar="NAME",
                        help="only rivals whose names begin so; the rest stay as they are in the file")
    parser.add_argument("--out", type=Path, default=RESULTS / "rivals.npz")
    args = parser.parse_args()
    check_place(args.out)
    words = [word for word in RIVALS if not args.only or word.startswith(tuple(args.only))]
    old = kept(args) if args.only else None
    start, cpu = time.perf_counter(), time.process_time()
    datasets = sum(trials_of(cell, args.trials) for cell in CELLS) + (0 if old else len(HOMES) * args.trials)
    bar = tqdm(total=datasets, unit="dataset")

    def counted(result):
        bar.update()
        return result

    with one_blas_thread(), ThreadPoolExecutor(args.jobs) as pool, bar:
        def over(f, numbers): return map(counted, pool.map(f, numbers))
        homes = old["homes"] if old else np.array([home_rates(name, args.trials, over) for name in HOMES])
        new = np.array([rivals_cell(cell, args.trials, over, words) for cell in CELLS])
    found = {word: new[:, j] for j, word in enumerate(words)}
    if old: found = old["rivals"] | found
    spent = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    header = {"cells": [astuple(cell) for cell in CELLS], "rivals": list(RIVALS), "homes": list(HOMES),
              **{name: old[name] if old else round(value) for name, value in spent.items()},
              "made_with": made_with()}
    rates = np.stack([found[word] for word in RIVALS], axis=1).astype(np.float32)  # half of the file
    save_arrays(args.out, "rivals", header, rates=rates, homes=homes)
    print(f"{len(CELLS)} settings, {len(words)} of {len(RIVALS)} rivals in {spent['seconds']:.0f} s "
          f"({spent['cpu']:.0f} s of CPU); written: {args.out.name}")


def kept(args) -> dict:
    "What the file holds, if it is about the same settings, datasets and libraries"
    header, arrays = load_arrays(args.out, "rivals")
    same = ([tuple(cell) for cell in header["cells"]] == [astuple(cell) for cell in CELLS]
            and header["homes"] == list(HOMES) and header["made_with"] == made_with()
            and arrays["rates"].shape[-1] == args.trials)
    if not same:
        raise InputError(f"--only: {args.out.name} has other settings, datasets or libraries: run all rivals")
    rivals = {word: arrays["rates"][:, j] for j, word in enumerate(header["rivals"])}
    return {"rivals": rivals, "homes": arrays["homes"], "seconds": header["seconds"], "cpu": header["cpu"]}


if __name__ == "__main__": main()
