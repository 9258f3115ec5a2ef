"""FDR and power of the products filter in 48 settings.

Makes results/products_trials.npz, which the page products_trials shows.
"""
import argparse
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dp_knockoff.core.archives import check_place, write_whole
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.evidence.products_trials import CELLS, products_cell
from dp_knockoff.evidence.trials import made_with

RESULTS = Path(__file__).resolve().parent / "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=200, help="datasets in each setting")
    parser.add_argument("--jobs", type=int, default=2, help="threads (default: 2)")
    parser.add_argument("--out", type=Path, default=RESULTS / "products_trials.npz")
    args = parser.parse_args()
    check_place(args.out)
    with one_blas_thread(), ThreadPoolExecutor(args.jobs) as pool:
        cells = pool.map(lambda cell: products_cell(cell, args.trials), CELLS)
        rates = np.array(list(tqdm(cells, total=len(CELLS))))

    def write(part):
        with open(part, "wb") as file: np.savez_compressed(file, rates=rates, made_with=made_with())

    write_whole(args.out, write)
    print(f"FDR at most {rates[:, :, 0].mean(1).max():.3f}; written: {args.out.name}")


if __name__ == "__main__": main()
