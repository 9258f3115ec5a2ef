"""What one knockoff selection costs, as ratios measured in one run. See README.md beside this file."""
from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from dp_knockoff import Statistic, knockoff_filter, linear_model
from dp_knockoff.knockoffs.fixed_x import gram, knockoff_products

P = 50             # columns
FDR = 0.2
PATIENCE = 20      # seconds after which a slow route at one size gets no further repetition
SETTLE = 0.1       # seconds of rest before a measurement: BLAS threads spin for a while after their work
CALL_ROWS = 500_000  # a fast route is called until it has seen so many rows: CPU clocks tick in milliseconds
HERE = Path(__file__).resolve().parent
START = time.perf_counter()
# numpy's BLAS: nothing else has been imported yet
BLAS = ", ".join(f"{b['internal_api']} {b['version']} with {b['num_threads']} threads by default"
                 for b in threadpool_info() if b["user_api"] == "blas")


# --- the routes: every one takes (X, y) and makes one selection (or, for the yardstick, one product) ---

def ours(X, y, intercept):
    return knockoff_filter(X, y, fdr=FDR, intercept=intercept, random_state=0)

def bare_product(X, y):
    return X.T @ X

def textbook(X, y):
    rng = np.random.default_rng(0)
    return textbook_selection(textbook_statistics(X, y, orthonormal_complement(X, rng)))

def statsmodels(X, y):
    from statsmodels.stats._knockoff import RegressionFDR
    from statsmodels.stats.knockoff_regeffects import OLSEffects
    result = RegressionFDR(y, X, OLSEffects(), rng=0)
    return result.stats >= result.threshold(FDR)

def knockpy(X, y):
    from knockpy.knockoff_filter import KnockoffFilter
    kfilter = KnockoffFilter("ols", "fx", fstat_kwargs={"antisym": "sm"},
                             knockoff_kwargs={"method": "equicorrelated"})
    return kfilter.forward(X=X, y=y, fdr=FDR)


# --- the textbook route, written from the paper and not from the package ---

def orthonormal_complement(X, rng):
    "n x p orthonormal columns orthogonal to X: the second half of a QR factorisation of [X Z], with Z random"
    p = X.shape[1]
    return np.linalg.qr(np.hstack([X, rng.standard_normal(X.shape)]))[0][:, p:]

def textbook_statistics(X, y, U):
    "Knockoff matrix by equation (4), least squares on [X Xk], correlation-sign-max statistics (7)"
    p = X.shape[1]
    X = X / np.linalg.norm(X, axis=0)
    Sigma = X.T @ X
    S = np.linalg.eigvalsh(Sigma)[0] * np.eye(p)
    lam, V = np.linalg.eigh(2 * S - S @ np.linalg.solve(Sigma, S))
    C = V @ np.diag(np.sqrt(lam)) @ V.T
    Xk = X @ (np.eye(p) - np.linalg.solve(Sigma, S)) + U @ C
    beta = np.linalg.lstsq(np.hstack([X, Xk]), y, rcond=None)[0]
    Z, Zk = np.abs(beta[:p]), np.abs(beta[p:])
    return np.maximum(Z, Zk) * np.sign(Z - Zk)

def textbook_selection(W):
    "Equation (8): the smallest threshold whose estimated false discovery proportion is at most q"
    for t in np.sort(np.abs(W[W != 0])):
        if (1 + (W <= -t).sum()) / max((W >= t).sum(), 1) <= FDR: return W >= t
    return np.zeros(len(W), dtype=bool)

def agreement(n=10_000):
    "Largest difference of the package's statistics from the textbook's for one U, relative to the largest"
    X, y = data(n)
    U = orthonormal_complement(X, np.random.default_rng(1))
    W = textbook_statistics(X, y, U)
    X = X / np.linalg.norm(X, axis=0)
    Sigma = X.T @ X
    s = np.full(P, np.linalg.eigvalsh(Sigma)[0])
    mine = Statistic()(gram(Sigma, s), knockoff_products(Sigma, s, X.T @ y, U.T @ y))
    return float(np.abs(mine - W).max() / np.abs(W).max())


# --- which routes run, how often, and why some do not ---

FAST = {
    "selection": partial(ours, intercept=False),
    "selection, intercept": partial(ours, intercept=True),
    "X'X, default threads": bare_product,
    "X'X, one thread": bare_product,
}
LIMITED = {"X'X, one thread"}  # measured with BLAS limited to one thread
SLOW = {"textbook": textbook, "statsmodels": statsmodels, "knockpy": knockpy}
NEEDS = {  # bytes of memory, roughly
    "textbook": lambda n: 12 * 8 * n * P,
    "statsmodels": lambda n: 16 * 8 * n * P,
    "knockpy": lambda n: 8 * n**2,
}

def reason_to_skip(route, n):
    "Why a route cannot run at this size, or None"
    if NEEDS[route](n) > physical_memory() / 2:
        what = "an n x n matrix" if route == "knockpy" else "n x p copies"
        return f"needs about {NEEDS[route](n) / 2**30:,.0f} GiB for {what}"
    try: SLOW[route](*data(1000))
    except ImportError as error: return f"not installed ({error.name})"

def physical_memory():
    try: return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError): return float("inf")

def data(n):
    return linear_model(n, P, amplitude=4.5 / np.sqrt(n), random_state=0)[:2]


# --- measuring ---

def say(text):
    print(f"[{time.perf_counter() - START:6.1f} s] {text}", file=sys.stderr, flush=True)

def timed(route, X, y, calls=1, threads=None):
    "Wall and CPU seconds of one call, averaged over some; `threads` limits BLAS"
    with threadpool_limits(threads, user_api="blas") if threads else nullcontext():
        time.sleep(SETTLE)
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(calls): route(X, y)
        return (time.perf_counter() - wall) / calls, (time.process_time() - cpu) / calls

def timed_slow(route, X, y):
    "Wall and CPU seconds of a slow route, then of our selection just before and after it"
    before = [timed(FAST["selection"], X, y) for _ in range(3)]
    slow = timed(route, X, y)
    after = [timed(FAST["selection"], X, y) for _ in range(3)]
    return *slow, *medians(before + after)

def measure(n, repeats):
    "Interleaved repetitions at one size: {route: [(wall, CPU, ...), ...]}, {route: reason for its absence}"
    reasons = {route: reason_to_skip(route, n) for route in SLOW}
    X, y = data(n)
    times = {route: [] for route in [*FAST, *SLOW] if not reasons.get(route)}
    for route in FAST.values(): route(X[:1000], y[:1000])  # lazy imports happen here
    for r in range(repeats):
        say(f"n = {n:,}: round {r + 1} of {repeats}")
        for route, seen in times.items():
            if route in FAST:
                threads = 1 if route in LIMITED else None
                seen.append(timed(FAST[route], X, y, max(1, CALL_ROWS // n), threads))
            elif sum(wall for wall, *_ in seen) < PATIENCE:
                say(f"n = {n:,}:   {route}")
                seen.append(timed_slow(SLOW[route], X, y))
    return times, {route: why for route, why in reasons.items() if why}

def medians(seen):
    return median(wall for wall, *_ in seen), median(cpu for _, cpu, *_ in seen)

def ratio(top, bottom, clock):
    "Median of the rounds' ratios of two fast routes (clock 0: wall, 1: CPU)"
    return median(a[clock] / b[clock] for a, b in zip(top, bottom))

def slow_ratio(seen, clock):
    "Median ratio of a slow route to the selections around it"
    return median(times[clock] / times[2 + clock] for times in seen)

def quartiles(top, bottom):
    "Quartiles of the rounds' ratios of wall times"
    low, high = np.quantile([a[0] / b[0] for a, b in zip(top, bottom)], [.25, .75])
    return f"{low:.2f}-{high:.2f}"


# --- memory and imports, in fresh interpreters ---

def child(*args):
    return subprocess.run([sys.executable, *args], check=True, capture_output=True, text=True).stdout

def peak_memory(n):
    """Megabytes beyond the input that a selection reaches.

    To be run before this process grows: on Linux a child's ru_maxrss starts from its parent's memory."""
    say(f"peak memory at n = {n:,}")
    try: return float(child(__file__, "--peak", str(n)))
    except (subprocess.CalledProcessError, ValueError): return None

def print_peak(n):
    "In the child: fill the input in place, so that only the input is in the high-water mark, then select"
    rng, X, y = np.random.default_rng(0), np.empty((n, P)), np.empty(n)
    rng.standard_normal(out=X)
    rng.standard_normal(out=y)
    y += X[:, 0]
    before = max_rss()
    ours(X, y, intercept=True)
    print((max_rss() - before) / 1e6)

def max_rss():
    import resource
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

def import_time(statement, repeats=7):
    "Seconds that a statement takes in a fresh interpreter; the first, which may read from disk, is left out"
    say(f"time of `{statement}`")
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    return median([float(child("-c", code)) for _ in range(repeats + 1)][1:])


# --- reporting ---

def table(header, rows):
    "A Markdown table with aligned columns"
    rows = [[str(cell) for cell in row] for row in [header, *rows]]
    widths = [max(len(row[j]) for row in rows) for j in range(len(header))]
    lines = ["| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths)) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])

def seconds(t):
    return f"{t:.1f} s" if t >= 1 else f"{1e3 * t:.1f} ms"

def times_(r):
    return f"{r:,.0f}x" if r >= 10 else f"{r:.2f}x"

def product_rows(n, times):
    "How much more than a bare X'X our selection costs"
    for mine in list(FAST)[:2]:
        wall, cpu = medians(times[mine])
        cells = []
        for bare in list(FAST)[2:]:
            pair = times[mine], times[bare]
            cells += [f"{times_(ratio(*pair, 0))} ({quartiles(*pair)})", times_(ratio(*pair, 1))]
        yield [f"{n:,}", mine, seconds(wall), seconds(cpu), *cells]

def route_rows(n, times, reasons):
    "How much more than our selection the other routes cost"
    for route in SLOW:
        if route in reasons: yield [f"{n:,}", route, "-", "-", "-", "-", f"not run: {reasons[route]}"]
        else:
            seen = times[route]
            ratios = [times_(slow_ratio(seen, clock)) for clock in (0, 1)]
            yield [f"{n:,}", route, *map(seconds, medians(seen)), *ratios, len(seen)]

def aim(what, value, shown, met):
    if value is None: return [what, "not measured", "-"]
    return [what, shown(value), "met" if met(value) else "NOT met"]

def aim_rows(times, peak, imports):
    "The aims, at the largest size"
    for bare in list(FAST)[2:]:
        for clock, name in enumerate(["wall", "CPU"]):
            value = ratio(times["selection"], times[bare], clock)
            yield aim(f"<= 1.5x {bare} ({name})", value, times_, lambda r: r <= 1.5)
    for route, least in [("textbook", 200), ("statsmodels", 300)]:
        for clock, name in enumerate(["wall", "CPU"]):
            value = slow_ratio(times[route], clock) if route in times else None
            label = f">= {least}x faster than {route} ({name})"
            yield aim(label, value, times_, lambda r, least=least: r >= least)
    yield aim("peak memory <= input + 100 MB", peak, lambda m: f"input + {m:.0f} MB", lambda m: m <= 100)
    for statement, t in imports.items():
        yield aim(f"`{statement}` < 0.5 s", t, seconds, lambda t: t < .5)

def setting():
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, numpy {np.__version__}, {BLAS}."

def report(results, error, peak, imports):
    last = max(results)
    return "\n\n".join([
        "# One selection",
        f"p = {P}, {setting()} Medians over interleaved repetitions in one run; "
        "quartiles of the rounds in brackets. "
        "The selection is `knockoff_filter(X, y, random_state=0)`, without and with an intercept.",
        "## Against a bare X'X\n\nSelection's time as a multiple of the product's: BLAS with its default "
        "threads, and with one thread. The selection reads more than about 10,000 rows with one BLAS thread "
        "on every core.",
        table(["n", "", "wall", "CPU", "wall / X'X default", "CPU", "wall / X'X one thread", "CPU"],
              [row for n, (times, _) in results.items() for row in product_rows(n, times)]),
        "## Against other routes\n\nTheir time as a multiple of that of the selections (without intercept) "
        "just before and after. With the same U, the textbook's statistics and ours differ by "
        f"{error:.0e} of the largest.",
        table(["n", "route", "wall", "CPU", "wall ratio", "CPU ratio", "repetitions"],
              [row for n, (times, reasons) in results.items() for row in route_rows(n, times, reasons)]),
        f"## Aims, at n = {last:,}" + ("" if last == 10**6 else " (they are meant for n = 1,000,000)"),
        table(["aim", "measured", ""], aim_rows(results[last][0], peak, imports)),
    ]) + "\n"


# --- the command ---

def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=lambda n: int(float(n)), nargs="+", metavar="N",
                        help="numbers of rows (default 1e4 1e5 1e6)")
    parser.add_argument("--repeats", type=int, help="interleaved repetitions (default 15)")
    parser.add_argument("--quick", action="store_true",
                        help="1e4 and 1e5 rows, 3 repetitions, results printed only")
    parser.add_argument("--output", type=Path,
                        help="Markdown file (default results/one_selection.md; none with --quick)")
    parser.add_argument("--peak", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.sizes = sorted(args.sizes or ([10**4, 10**5] if args.quick else [10**4, 10**5, 10**6]))
    args.repeats = args.repeats or (3 if args.quick else 15)
    args.output = args.output or (None if args.quick else HERE / "results" / "one_selection.md")
    return args

def main():
    args = arguments()
    if args.peak: return print_peak(args.peak)
    peak = peak_memory(args.sizes[-1])
    imports = {s: import_time(s) for s in ["import dp_knockoff", "from dp_knockoff import knockoff_filter"]}
    error = agreement()
    assert error < 1e-9, f"textbook and package disagree by {error:.1e} with the same U"
    results = {n: measure(n, args.repeats) for n in args.sizes}
    text = report(results, error, peak, imports)
    print(text)
    if args.output:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(text, encoding="utf-8")
        say(f"written to {args.output.name}")


if __name__ == "__main__":
    main()
