"""Which s, which knockoffs cannot tell, and where e-BH wins: FDR and power. See README.md beside this file.

    python studies/knockoff_choice.py                    # 6 minutes: designs, and e-BH
    python studies/knockoff_choice.py --hiv hiv.npz      # 2 minutes: the HIV data, not part of the project
"""
from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from dp_knockoff import LabelsMethod, Statistic, knockoff_filter, select
from dp_knockoff.core.errors import stream
from dp_knockoff.data.models import ar1
from dp_knockoff.knockoffs.fixed_x import choose_s, gram, knockoff_products
from dp_knockoff.knockoffs.threshold import error_rates, knockoff_threshold

RESULTS = Path(__file__).resolve().parent / "results" / "knockoff_choice.md"
CHOICES = "lam_min", "mvr", "sdp"
P, SIGNALS, TRIALS, FDR = 60, 12, 150, .2
STATISTICS = {"ols": Statistic(), "lasso": Statistic("lasso", "lcd", 2.0)}
PUBLISHED = { # positions that R knockoff 0.3 selects at q = .2, as published with the data: equi, sdp
    "APV": (22, 31), "ATV": (30, 0), "IDV": (31, 22), "LPV": (17, 29), "NFV": (23, 39), "RTV": (27, 30),
    "SQV": (21, None)}


# --- designs ---

def unit(S): return S / np.sqrt(np.outer(np.diag(S), np.diag(S)))

def blocks(rho, size): return np.kron(np.eye(P // size), (1 - rho) * np.eye(size) + rho)

def factors(rng, noise):
    M = rng.standard_normal((P, 3))
    return unit(M @ M.T + noise * np.eye(P))

def short(rng): return unit(np.cov(rng.standard_normal((P, int(2.5 * P)))))

def near_pairs(rng, rho):
    X = rng.standard_normal((800, P)) @ np.linalg.cholesky(ar1(P, .3)).T
    X[:, 1:8:2] = rho * X[:, 0:8:2] + np.sqrt(1 - rho**2) * X[:, 1:8:2]
    return unit(X.T @ X)

def near_sums(rng):
    X = rng.standard_normal((800, P))
    for j in range(0, P, 10): X[:, j] = X[:, j + 1:j + 6].sum(1) + .05 * rng.standard_normal(800)
    return unit(X.T @ X)

def rare_together(rng):
    Z = (rng.random((600, P)) < np.exp(rng.uniform(np.log(.01), np.log(.4), P))).astype(float)
    for j in range(0, P, 3): Z[:, j] = np.where(rng.random(600) < .98, Z[:, j + 1], Z[:, j])
    return unit(np.cov(Z.T + 1e-3 * rng.standard_normal((P, 600))))

DESIGNS = {
    "independent": lambda rng: np.eye(P), "ar .5": lambda rng: ar1(P, .5), "ar .9": lambda rng: ar1(P, .9),
    "ar .98": lambda rng: ar1(P, .98), "equal .5": lambda rng: blocks(.5, P),
    "blocks .9": lambda rng: blocks(.9, 5),
    "factors": lambda rng: factors(rng, 1.0),
    "strong factors": lambda rng: factors(rng, .1), "short": short,
    "near pairs .999": lambda rng: near_pairs(rng, .999),
    "near pairs .9999": lambda rng: near_pairs(rng, .9999),
    "near sums": near_sums, "rare together": rare_together}

def rates(name: str, trials: int = TRIALS) -> dict: # (statistic, s) -> (FDR, power)
    "One design: 12 of 60 variables are signals of 3.5 standard errors"
    rng = stream(list(DESIGNS).index(name), "knockoff choice")
    Sigma = DESIGNS[name](rng)
    size = 3.5 * np.sqrt(np.diag(np.linalg.inv(Sigma)))
    beta = np.array([(rng.permutation(P) < SIGNALS) * rng.choice([-1, 1], P) for _ in range(trials)]) * size
    Xty = beta @ Sigma + rng.standard_normal((trials, P)) @ np.linalg.cholesky(Sigma).T
    u, found = rng.standard_normal((trials, P)), {}
    for s_name in CHOICES:
        s = choose_s(Sigma, s_name)
        for label, statistic in STATISTICS.items():
            W = statistic(gram(Sigma, s), knockoff_products(Sigma, s, Xty, u))
            false, power = error_rates(W >= knockoff_threshold(W, FDR)[:, None], beta)
            found[label, s_name] = float(false.mean()), float(power.mean())
    return found

def designs_table() -> list:
    heads = [f"{label}, {s}" for label in STATISTICS for s in CHOICES]
    lines = [f"| design | {' | '.join(heads)} |", "|---" * (len(heads) + 1) + "|"]
    for name in DESIGNS:
        found = rates(name)
        asked = [found[label, s] for label in STATISTICS for s in CHOICES]
        cells = [f"{false:.2f} / {power:.2f}" for false, power in asked]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


# --- e-BH beside the other rules ---

EBH = [(60, 40, .09, .5, 1), (200, 150, .1, .5, 1), (400, 300, .1, 0, 1), (200, 20, .12, 0, 1),
       (150, 120, .05, .3, 3), (150, 30, .07, .3, 3)] # columns, signals, size, correlation, group

def ebh_rates(p, k, size, rho, group, trials: int = 6) -> dict: # rule -> (FDR, power)
    found = {}
    for trial in range(trials):
        rng = stream(trial, f"e-BH {p} {k}")
        X = rng.standard_normal((4000, p)) @ np.linalg.cholesky(ar1(p, rho)).T
        signal = rng.permutation(p // group) < k // group
        y = X @ (size * np.repeat(signal, group) * rng.choice([-1, 1], p)) + rng.standard_normal(4000)
        groups = {f"g{i}": [f"x{j}" for j in range(i * group, (i + 1) * group)] for i in range(p // group)}
        method = LabelsMethod(epsilon=50.0, delta=1e-3, sigma=1.0, response_bound=float(6 * np.std(y)))
        if group == 1: groups = None
        first = method.select(X, y, groups=groups, simulation=True, random_state=trial)
        for rule in ("bh", "by", "knockoffs", "ebh"):
            false, power = error_rates(select(first.release, rule=rule).support, signal.astype(float))
            found.setdefault(rule, []).append((float(false), float(power)))
    return {rule: np.mean(rows, axis=0) for rule, rows in found.items()}

def ebh_table() -> list:
    lines = ["| columns | of signals | columns of a variable | bh | by | knockoffs | ebh |", "|---" * 7 + "|"]
    for p, k, size, rho, group in EBH:
        cells = [f"{false:.2f} / {power:.2f}" for false, power in ebh_rates(p, k, size, rho, group).values()]
        lines.append(f"| {p} | {k} | {group} | {' | '.join(cells)} |")
    return lines


# --- the HIV data ---

def positions(X, y, names, s, statistic, seeds=4) -> tuple: # mean number of positions, empty runs
    "How many positions are selected, on average over draws of knockoffs"
    place = np.array([str(name).split(".")[0] for name in names])
    runs = (knockoff_filter(X, y, s=s, statistic=statistic, fdr=FDR, random_state=k) for k in range(seeds))
    found = [len(set(place[run.support])) for run in runs]
    return float(np.mean(found)), found.count(0)

def hiv_table(path) -> list:
    data = np.load(path, allow_pickle=True)
    asked = [("lam_min", Statistic()), ("mvr", Statistic()), ("mvr", Statistic("path")),
             ("sdp", Statistic("path"))]
    heads = [f"{statistic.estimate}, {s}" for s, statistic in asked]
    lines = [f"| drug | R knockoff: equi | sdp | {' | '.join(heads)} |", "|---" * (len(heads) + 3) + "|"]
    for drug, published in PUBLISHED.items():
        X, y, names = (data[f"PI-{drug}-{part}"] for part in ("x", "y", "names"))
        cells = [positions(X.astype(float), y, names, s, statistic) for s, statistic in asked]
        shown = [f"{mean:.1f}" + (f" ({empty} of 4 empty)" if empty else "") for mean, empty in cells]
        known = ["-" if n is None else str(n) for n in published]
        lines.append(f"| {' | '.join([drug, *known, *shown])} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hiv", help="a file with the HIV data: print their table only")
    args = parser.parse_args()
    if args.hiv:
        print("\n".join(hiv_table(args.hiv)))
        return
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else "## HIV\n"
    hiv = text[text.index("## HIV"):]
    about = [
        "# Which s, which knockoffs cannot tell, and where e-BH wins", "",
        "Written by `studies/knockoff_choice.py`.", "", "## Designs", "",
        f"FDR / power at q = {FDR}, {TRIALS} responses per design; {SIGNALS} of {P} variables are signals of "
        "3.5 standard errors. Least squares with the paper's contrast, and the Lasso difference.", "",
        *designs_table(), "", "## e-BH", "",
        "FDR / power of the rules for a labels release, 6 datasets each. Where most variables are signals, "
        "e-BH finds more than `by`, the other rule that is proved for groups.", "", *ebh_table(), "", hiv]
    RESULTS.write_text("\n".join(about), encoding="utf-8")


if __name__ == "__main__": main()
