"""What exact sums of clipped rows cost, against sums in floats as version 0.1 made them. See README.md."""
from __future__ import annotations

import argparse
import time
from pathlib import Path
from statistics import median

import numpy as np

from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import Moments, block_moments
from dp_knockoff.data.rows import open_rows
from one_selection import quartiles, ratio, setting, table

AIM = 1.3  # exact over float
P = 50
HERE = Path(__file__).resolve().parent


def float_sums(X: np.ndarray, y: np.ndarray, clip: Clip) -> Moments:
    "One pass of version 0.1: clip, then means and centred sums of products in floats"
    rows = open_rows(X, y)
    center, scale = np.zeros(P), np.ones(P) # no ranges: public units are the data's
    cut = [0, 0]                            # rows scaled, responses clamped

    def summarise(X, y):
        Z = np.ones((len(y), P + clip.intercept))
        np.divide(X - center, scale, out=Z[:, :P])
        norms = np.sqrt(np.einsum("ij,ij->i", Z, Z))
        if not np.isfinite(norms).all(): raise FloatingPointError
        w = np.minimum(1.0, clip.design_bound / np.maximum(norms, 1e-300))
        Z *= w[:, None]
        t = (y - clip.response_center) * w
        t[~np.isfinite(y)] = np.nan
        cut[0] += int((w < 1).sum())
        cut[1] += int((np.abs(t) > clip.response_bound).sum())
        t = np.clip(t, -clip.response_bound, clip.response_bound)
        mean, scatter, norm2 = block_moments(Z, t)
        if not np.isfinite(scatter).all(): raise FloatingPointError
        return Moments(len(y), mean, scatter, float(np.sqrt(norm2)), clip.names(rows.names))

    return rows.read(summarise)


def exact_sums(X: np.ndarray, y: np.ndarray, clip: Clip):
    "The same pass in whole numbers: clip, bring onto the grid, integer sums"
    return Moments.from_data(X, y, clip=clip)


def timed(route, *data) -> tuple:
    "Wall and CPU seconds"
    wall, cpu = time.perf_counter(), time.process_time()
    route(*data)
    return time.perf_counter() - wall, time.process_time() - cpu


def measure(n: int, repeats: int) -> tuple:
    "Wall and CPU seconds of both routes, in turns, and by how much their results differ"
    X, y, _ = linear_model(n, P, random_state=0)
    clip = Clip(.7 * np.sqrt(P), 2.5 * .7 * np.sqrt(15 * 4.5**2 + 1), intercept=False)
    exact, floats = (route(X, y, clip) for route in (exact_sums, float_sums)) # warm up
    gap = np.abs(exact.XtX - floats.XtX).max() / np.abs(floats.XtX).max()
    runs = [(timed(exact_sums, X, y, clip), timed(float_sums, X, y, clip)) for _ in range(repeats)]
    return *zip(*runs), gap


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=float, nargs="+", default=[1e6])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--output", type=Path, default=HERE / "results" / "exact_sums.md")
    args = parser.parse_args()
    lines = []
    for n in map(int, args.rows):
        exact, floats, gap = measure(n, args.repeats)
        assert gap < 1e-4, f"the two passes disagree by {gap:.1e}"
        wall, cpu = (ratio(exact, floats, clock) for clock in (0, 1))
        met = "met" if max(wall, cpu) <= AIM else "NOT met"
        times = (f"{1e3 * median(run[0] for run in runs):.0f} ms" for runs in (exact, floats))
        ratios = f"{wall:.2f}x ({quartiles(exact, floats)})", f"{cpu:.2f}x"
        lines.append([f"{n:,}", *times, *ratios, f"{gap:.0e}", f"{AIM}x", met])
    header = ["n", "exact", "floats", "wall ratio (quartiles)", "CPU ratio", "difference", "aim", ""]
    text = "\n\n".join([
        "# Exact sums",
        f"One pass over rows in memory, p = {P}, clipped to public bounds: integer sums on the grid "
        "(`Moments.from_data(X, y, clip=...)`) against sums in floats, as version 0.1 made them. "
        f"Medians of {args.repeats} interleaved runs; difference: of the two X'X, "
        f"over the largest entry. {setting()}",
        table(header, lines)]) + "\n"
    print(text)
    args.output.parent.mkdir(exist_ok=True)
    args.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
