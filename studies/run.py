"""Make a file of results/ anew: `python studies/run.py trials`. README.md says which there are."""
import argparse
from importlib import import_module
from pathlib import Path

from dp_knockoff.core.archives import check_place, load_arrays, save_arrays
from trials import made_with

RESULTS = Path(__file__).resolve().parent / "results"
STUDIES = ("trials", "moments_trials", "ordinary", "links", "products_trials", "law_trials", "rivals",
           "wrong_laws")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", choices=STUDIES)
    parser.add_argument("--jobs", type=int, default=2, help="threads (default: 2)")
    parser.add_argument("--trials", type=int, help="datasets of a setting, where a study lets you choose")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only rivals whose names begin so; "
                        "the others stay as they are in the file")
    parser.add_argument("--out", type=Path, help="default: the study's file in results/")
    args = parser.parse_args()
    if args.only and args.study != "rivals": parser.error(f"--only: {args.study} has no rivals")
    out = check_place(args.out or RESULTS / f"{args.study}.npz")
    options = {"jobs": args.jobs} | ({"trials": args.trials} if args.trials else {})
    if args.only:
        old = load_arrays(out, "rivals")
        if old[0]["made_with"] != made_with(): parser.error("--only: the file was made with other libraries")
        options |= {"only": args.only, "old": old, "trials": old[1]["rates"].shape[-1]}
    header, arrays = import_module(args.study).make(**options)
    save_arrays(out, args.study, header | {"made_with": made_with()}, **arrays)
    print(f"written: {out.name}")


if __name__ == "__main__": main()
