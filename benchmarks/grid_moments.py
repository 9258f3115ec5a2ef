"""FDR and power of the moments filter on a grid of 48 settings, with one round and with three.

Writes results/grid_moments.npz, which notebook 61 shows.
"""
import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dp_knockoff.archives import check_place, write_whole
from dp_knockoff.trials import DESIGNS, SIGNALS, grid_cell, made_with

ROUNDS = (1, 3)
RESULTS = Path(__file__).resolve().parent / "results"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="datasets in each cell")
    parser.add_argument("--out", type=Path, default=RESULTS / "grid_moments.npz")
    args = parser.parse_args()
    check_place(args.out)
    cells = [(design, signal, rounds) for rounds in ROUNDS for design in DESIGNS for signal in SIGNALS]
    rates = [grid_cell(design, signal, args.trials, rounds=rounds) for design, signal, rounds in tqdm(cells)]
    rates = np.reshape(rates, (len(ROUNDS), len(DESIGNS), len(SIGNALS), 2, args.trials))

    def write(part):
        with open(part, "wb") as file: np.savez_compressed(file, rates=rates, made_with=made_with())

    write_whole(args.out, write)
    highest = rates[:, :, :, 0].mean(-1).max()
    print(f"highest FDR {highest:.3f} in {len(cells)} cells; written: {args.out.name}")


if __name__ == "__main__": main()
