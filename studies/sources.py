"""What a pass over a file larger than memory costs, against reading it and doing nothing. See README.md."""
from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path
from statistics import median

import numpy as np

P = 50
NAMES = [f"x{j}" for j in range(P)]
START = time.perf_counter()
CSV_SHARE = 10        # the CSV files have a tenth of the rows: they are read at a tenth of the speed
BATCH = 65_536        # rows that polars is asked for at once
WRITE = 2**20         # rows that are drawn and written at once


# --- the files ---

def write_files(folder, n):
    "The same kind of rows as Parquet with small and with large row groups, npy, and CSV (fewer rows)"
    import polars as pl
    import pyarrow as pa
    import pyarrow.parquet as pq
    rng = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in [*NAMES, "y"]])
    X = np.lib.format.open_memmap(folder / "X.npy", "w+", float, (n, P))
    y = np.lib.format.open_memmap(folder / "y.npy", "w+", float, (n,))
    in_csv = n // CSV_SHARE
    with (pq.ParquetWriter(folder / "small.parquet", schema) as small,
          pq.ParquetWriter(folder / "large.parquet", schema) as large,
          open(folder / "rows.csv", "wb") as csv):
        for start in range(0, n, WRITE):
            stop = min(n, start + WRITE)
            Z = rng.standard_normal((P + 1, stop - start))
            table = pa.table(list(Z), schema=schema)
            small.write_table(table, row_group_size=2**18)
            large.write_table(table, row_group_size=2**20)
            X[start:stop] = Z[:-1].T
            y[start:stop] = Z[-1]
            if start < in_csv: pl.from_arrow(table)[:in_csv - start].write_csv(csv, include_header=start == 0)
    X.flush()
    y.flush()

def forget(folder):
    "Drop the files from the system's cache, so that they come from the disk"
    for path in folder.iterdir():
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# --- the routes: each reads a file in a process of its own ---

def read_arrow(path):
    "Parquet by Arrow, page by page: the reader that we use"
    from dp_knockoff.data.files import parquet_batches
    return sum(batch.num_rows for batch in parquet_batches(str(path), [*NAMES, "y"]))

def read_polars(path):
    "By polars, in streaming batches"
    import polars as pl
    query = pl.scan_parquet(path) if path.suffix == ".parquet" else pl.scan_csv(path)
    return sum(batch.height for batch in query.collect_batches(chunk_size=BATCH, engine="streaming"))

def read_bytes(path):
    "The bytes of the file, one after the other"
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(2**22)
        while file.readinto(buffer): pass

def ours(path):
    "Moments of all rows"
    from dp_knockoff.data.source import moments_of
    target = path.with_name("y.npy") if path.suffix == ".npy" else "y"
    return moments_of(path, target).n

def count(X, y): return len(y)

def collected(path):
    "The cheapest summary there is: what is left is the pass itself, and its look for values not finite"
    from dp_knockoff.data.source import open_source
    target = path.with_name("y.npy") if path.suffix == ".npy" else "y"
    return open_source(path, target).collect(count)

ARROW = ("raw: Arrow, page by page", read_arrow)
POLARS = ("raw: polars batches", read_polars)
PASSES = [("pass: moments", ours), ("pass: count of rows", collected)]
ROUTES = {
    "large.parquet": [ARROW, POLARS, *PASSES],
    "small.parquet": [ARROW, POLARS, *PASSES],
    "rows.csv": [POLARS, *PASSES],
    "X.npy": [("raw: bytes", read_bytes), *PASSES],
}
WHAT = {
    "large.parquet": "Parquet, row groups of 1,048,576 (Arrow's default)",
    "small.parquet": "Parquet, row groups of 262,144 (polars' default)",
    "rows.csv": f"CSV, 1/{CSV_SHARE} of the rows",
    "X.npy": "npy, by memory map",
}


# --- measuring ---

def say(text): print(f"[{time.perf_counter() - START:6.1f} s] {text}", file=sys.stderr, flush=True)

def child(path, route):
    "Wall and CPU seconds and peak memory (GiB) of one route on one file, in a fresh process"
    command = [sys.executable, __file__, "--child", str(path), str(route)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    out = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(out)

def measure_here(path, route):
    "In the child: import what is needed (imports take no time but memory), then measure"
    _, function = ROUTES[path.name][route]
    for module in ("narwhals", "polars", "pyarrow.parquet", "dp_knockoff.data.source"): import_module(module)
    wall, cpu = time.perf_counter(), time.process_time()
    function(path)
    print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, peak_memory()]))

def peak_memory():
    "GiB of the largest resident set of this process (ru_maxrss would start from the parent's)"
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 2**20

def measure(folder, repeats):
    "Every route on every file, taking turns: {(file, route, cold): [(wall, CPU, peak), ...]}"
    seen = {}
    for r in range(repeats):
        for file, routes in ROUTES.items():
            for cold in (True, False):
                for i, (route, _) in enumerate(routes):
                    forget(folder) if cold else read_bytes(folder / file)
                    times = seen.setdefault((file, route, cold), [])
                    times.append(child(folder / file, i))
                    origin = "disk" if cold else "cache"
                    say(f"round {r + 1}: {file} from {origin}: {route} {times[-1][0]:.1f} s")
    return seen


# --- reporting ---

def ratio(mine, other):
    "Median over the rounds of the ratio of wall times"
    return median(a[0] / b[0] for a, b in zip(mine, other))

def rows(seen):
    "A line a route: times, ratios to the raw reads in the same round, memory"
    for (file, route, cold), times in seen.items():
        raw = [seen[file, name, cold] for name, _ in ROUTES[file] if name.startswith("raw")]
        ratios = [f"{ratio(times, other):.2f}x" for other in raw] if route.startswith("pass") else []
        wall, cpu = (median(t[k] for t in times) for k in (0, 1))
        peak = max(t[2] for t in times)
        yield [WHAT[file], "disk" if cold else "cache", route, f"{wall:.1f} s", f"{cpu:.1f} s",
               " / ".join(ratios), f"{peak:.2f} GiB"]

def aims(seen):
    "The aims, for each Parquet file: against the raw read by the same reader"
    for file in ("large.parquet", "small.parquet"):
        raw, mine = (seen[file, route, True] for route in (ARROW[0], PASSES[0][0]))
        times, peak = ratio(mine, raw), max(t[2] for t in mine)
        yield [f"{WHAT[file]}: <= 1.3x the raw read, from disk", f"{times:.2f}x", met(times <= 1.3)]
        yield [f"{WHAT[file]}: peak memory < 1 GiB", f"{peak:.2f} GiB", met(peak < 1)]

def met(holds): return "met" if holds else "NOT met"

def table(header, lines):
    lines = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)

def report(seen, n, repeats):
    import polars
    import pyarrow
    setting = (
        f"n = {n:,} rows (CSV: {n // CSV_SHARE:,}), p = {P}, float64, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, polars {polars.__version__}, pyarrow {pyarrow.__version__}. "
        f"Median of {repeats} rounds; each measurement in a process of its own; "
        "peak memory is the largest resident set, with interpreter and libraries. "
        "\"Disk\": the files were dropped from the system's cache just before. "
        "Ratios are those of the pass to the raw reads of the same round, in the order of the table.")
    columns = ["file", "from", "route", "wall", "CPU", "pass / raw", "peak memory"]
    parts = ["# Sources", setting, table(columns, list(rows(seen))), "## Aims (meant for 20,000,000 rows)",
             table(["aim", "measured", ""], list(aims(seen)))]
    return "\n\n".join(parts) + "\n"


# --- the command ---

def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=lambda n: int(float(n)), default=2_000_000,
                        help="rows of the Parquet and npy files")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path,
                        help="where to put the files (default: a temporary folder); needs 25 bytes a value")
    parser.add_argument("--output", type=Path, help="Markdown file (default: printed only)")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child: return measure_here(Path(args.child[0]), int(args.child[1]))
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        say(f"writing {args.rows:,} rows")
        write_files(Path(folder), args.rows)
        text = report(measure(Path(folder), args.repeats), args.rows, args.repeats)
    print(text)
    if args.output: args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
