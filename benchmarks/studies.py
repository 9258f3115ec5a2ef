"""The moments filter in many settings: makes results/studies.npz, which the page trials shows."""
import argparse
from pathlib import Path

from tqdm import tqdm

from dp_knockoff.core.archives import check_place, save_arrays
from dp_knockoff.evidence.trials import STUDIES, made_with

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="threads (default: 2)")
    parser.add_argument("--out", type=Path, default=RESULTS / "studies.npz")
    args = parser.parse_args()
    check_place(args.out)
    studies = {name: make() for name, make in STUDIES.items()}
    labels = {name: list(study.cells) for name, study in studies.items()}
    rates = {}
    for name, study in studies.items():
        rates[name] = study.rates(jobs=args.jobs, cells=tqdm(study.cells, desc=name))
    save_arrays(args.out, "studies", {"labels": labels, "made_with": made_with()}, **rates)
    print(f"{sum(map(len, labels.values()))} settings; written: {args.out.name}")


if __name__ == "__main__": main()
