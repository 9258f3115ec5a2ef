"""What the tests provoke: every refusal as a sentence, with placeholders for names and numbers.

    REFUSALS=folder pytest                 # the tests write what was refused, a file for each worker
    python tools/refusals.py folder        # tests/saved/refusals.txt becomes what they wrote
    python tools/refusals.py folder --check

A change of the file is a change of what users read: look at the difference before you commit it.
"""
import argparse
import os
import re
import sys
from pathlib import Path

import notebooks as nbs

SAVED = nbs.ROOT / "tests" / "saved" / "refusals.txt"
LEAST = 300  # shapes: a record that is nearly empty was not a run of the whole suite
SHAPES = ((r"0x[0-9a-f]+", "..."), (r"'[^']*'(, '[^']*')*( and \d+ more)?", "'...'"),
          (r"[-+]?\d[\d,_]*\.?\d*(e[-+]?\d+)?", "0"), (r"\s+", " "))


def shape(sentence: str) -> str:
    "A sentence without what differs from call to call"
    for pattern, instead in SHAPES: sentence = re.sub(pattern, instead, sentence)
    return sentence.strip()


def record(folder: str, error_class: type):
    "Write the shape of every error of this class that is made from now on"
    path, seen, made = Path(folder) / f"{os.getpid()}.txt", set(), error_class.__init__

    def remembered(self, *args, **kwargs):
        made(self, *args, **kwargs)
        if (text := shape(str(self))) in seen: return
        seen.add(text)
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file: file.write(text + "\n")

    error_class.__init__ = remembered


def provoked(folder: Path) -> list:
    "All shapes that a run of the tests left in a folder"
    return sorted({line for path in folder.glob("*.txt") for line in path.read_text("utf-8").splitlines()})


def main():
    "The command line"
    verbatim = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=verbatim)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--check", action="store_true", help="write nothing; say what differs")
    args = parser.parse_args()
    found, saved = provoked(args.folder), SAVED.read_text("utf-8").splitlines() if SAVED.exists() else []
    if len(found) < LEAST: sys.exit(f"only {len(found)} refusals in {args.folder}: run all tests first")
    if not args.check: return SAVED.write_text("\n".join(found) + "\n", encoding="utf-8")
    gone = [f"- {text}" for text in saved if text not in set(found)]
    new = [f"+ {text}" for text in found if text not in set(saved)]
    if gone or new: sys.exit("\n".join(["Refusals differ from tests/saved/refusals.txt:", *gone, *new]))


if __name__ == "__main__": main()
