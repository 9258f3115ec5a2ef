"""FDR, intervals and power of the moments filter in ninety settings, with four rounds and with one.

Makes results/moments_trials.npz, which the page moments_trials shows.
"""
import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dp_knockoff.core.archives import check_place, write_whole
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.evidence.moments_trials import SETTINGS, moments_cell
from dp_knockoff.evidence.trials import made_with

RESULTS = Path(__file__).resolve().parent / "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="datasets in each setting, with four rounds")
    parser.add_argument("--one-round", type=int, default=40, help="datasets in each setting, with one round")
    parser.add_argument("--jobs", type=int, default=2, help="threads (default: 2)")
    parser.add_argument("--out", type=Path, default=RESULTS / "moments_trials.npz")
    args = parser.parse_args()
    check_place(args.out)
    with one_blas_thread(), ThreadPoolExecutor(args.jobs) as pool:
        four = pool.map(lambda name: moments_cell(name, args.trials), SETTINGS)
        four = np.array(list(tqdm(four, "four rounds", total=len(SETTINGS))))
        one = pool.map(lambda name: moments_cell(name, args.one_round, rounds=1), SETTINGS)
        one = np.array(list(tqdm(one, "one round", total=len(SETTINGS))))

    def write(part):
        with open(part, "wb") as file:
            np.savez_compressed(file, four=four, one=one, names=list(SETTINGS), made_with=made_with())

    write_whole(args.out, write)
    print(f"{len(SETTINGS)} settings; written: {args.out.name}")


if __name__ == "__main__": main()
