"""The products filter with laws that are wrong: makes results/wrong_laws.npz, which chapter 23 shows."""
import argparse
from pathlib import Path

from tqdm import tqdm

from dp_knockoff.core.archives import check_place, save_arrays
from dp_knockoff.evidence.trials import made_with
from dp_knockoff.evidence.wrong_laws import WRONG_LAWS

RESULTS = Path(__file__).resolve().parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="threads (default: 2)")
    parser.add_argument("--out", type=Path, default=RESULTS / "wrong_laws.npz")
    args = parser.parse_args()
    check_place(args.out)
    studies = {name: make() for name, make in WRONG_LAWS.items()}
    labels = {name: list(study.cells) for name, study in studies.items()}
    rates = {}
    for name, study in studies.items():
        rates[name] = study.rates(jobs=args.jobs, cells=tqdm(study.cells, desc=name))
    save_arrays(args.out, "wrong laws", {"labels": labels, "made_with": made_with()}, **rates)
    print(f"{sum(map(len, labels.values()))} settings; written: {args.out.name}")


if __name__ == "__main__": main()
