"""FDR and power of Method III on a grid of 48 settings, with one round and with three: writes results/grid_three.npz, which notebook 09 shows."""
import argparse
from pathlib import Path

import numpy as np
from tqdm import tqdm

from dp_knockoff.ground import write_whole
from dp_knockoff.method_three import DESIGNS, SIGNALS, grid_cell

ROUNDS = (1, 3)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100, help="datasets in each cell")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "grid_three.npz")
    args = parser.parse_args()
    cells = [(rounds, design, signal) for rounds in ROUNDS for design in DESIGNS for signal in SIGNALS]
    rates = np.array([grid_cell(design, signal, args.trials, rounds=rounds) for rounds, design, signal in tqdm(cells)])
    rates = rates.reshape(len(ROUNDS), len(DESIGNS), len(SIGNALS), 2, args.trials)

    def write(part):
        with open(part, "wb") as file: np.savez_compressed(file, rates=rates)
    write_whole(args.out, write)
    print(f"highest FDR {rates[:, :, :, 0].mean(-1).max():.3f} in {len(cells)} cells; written: {args.out.name}")


if __name__ == "__main__": main()
