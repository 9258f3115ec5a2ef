"The simulator and the commands on top of it: same numbers whatever the jobs, resumable, refusing."
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.cli import main
from dp_knockoff.filter import knockoff_threshold
from dp_knockoff.ground import assert_same_law, refusal, stream
from dp_knockoff.knockoffs import gram
from dp_knockoff.method_one import filter_one, repair
from dp_knockoff.method_two import filter_two
from dp_knockoff.moments import Moments
from dp_knockoff.simulation import (CHUNK, Experiment, draw_batch, pair_transform, plan, plan_warnings, row_bound_for, run_chunk, run_one, simulate,
                                    solve_blocks, trials_of)
from dp_knockoff.statistics import ols

COMMAND = str(Path(sys.executable).parent / "dp-knockoff")
SMALL = Experiment(p=8, k=4, bounds="corrected", epsilon=1., delta=.01)


def test_numbers_depend_on_the_seed_only():
    runs = [simulate(SMALL, [2000, 5000], trials=2 * CHUNK + 7, seed=3, jobs=jobs) for jobs in (1, 2, 5)]
    assert runs[0] == runs[1] == runs[2] and {pt.trials for pt in runs[0]} == {2 * CHUNK + 7}
    assert simulate(SMALL, [5000], ["two"], trials=20, seed=3)[0] == simulate(SMALL, [2000, 5000], ["none", "two"], trials=20, seed=3)[3]
    assert simulate(SMALL, [5000], ["none"], trials=200, seed=4) != simulate(SMALL, [5000], ["none"], trials=200, seed=3)


def test_the_coefficients_of_a_batch_solve_the_normal_equations_in_law():
    "Mean C beta and covariance sigma^2 G^-1, given the design"
    e, rng = replace(SMALL, sigma=1.5, rho=.4), np.random.default_rng(0)
    b = draw_batch(e, 50, 20_000, rng)
    Z = []
    for t in range(20_000):
        error = b.coef[t] - np.append(b.C[t] * b.beta[t], np.zeros(8))
        L = np.linalg.cholesky(gram(b.Sigma[t], np.full(8, b.lam[t, 0])))
        Z.append(L.T @ error / 1.5)
    Z = np.array(Z)
    assert_same_law(np.column_stack([Z, Z[:, :8] * Z[:, 8:]]), (lambda g: np.column_stack([g, g[:, :8] * g[:, 8:]]))(rng.standard_normal(Z.shape)))


@pytest.mark.parametrize("repaired", [False, True])
def test_blocks_solve_what_the_full_matrix_solves(repaired):
    rng = np.random.default_rng(0)
    for _ in range(20):
        E = rng.standard_normal((5, 5)) * .4
        Sigma, s, c = np.eye(5) + E + E.T - 2 * np.diag(np.diag(E)), rng.uniform(.2, .9), rng.standard_normal(10)
        A = gram(Sigma, np.full(5, s))
        full = ols(repair(A) if repaired else A, c)
        blocks = pair_transform(solve_blocks((2 * Sigma - s * np.eye(5))[None], np.array([[s]]), pair_transform(c)[None], repaired))[0]
        assert np.allclose(full, blocks)


def test_scales_are_those_of_a_real_run():
    b = draw_batch(SMALL, 5000, 1, np.random.default_rng(0))
    b = replace(b, B=10.)
    scatter = np.block([[b.XtX[0], np.ones((8, 1))], [np.ones((1, 8)), np.array([[9e3]])]])
    m = Moments(5000, np.zeros(9), scatter, 9.9, tuple("abcdefgh"))
    public = dict(epsilon=1., delta=.01, row_bound=10., sigma=1., beta_norm=4.5 * 2, random_state=0)
    trial = next(trials_of(SMALL, b))
    real = filter_two(m, **public)
    assert np.isclose(trial.facts.eta2, real.details["facts"].eta2)
    for name in ("C_min", "C_max", "lam_min", "lam_max", "frob", "raw_frob"): assert np.isclose(getattr(trial.facts, name), getattr(real.details["facts"], name))
    one = filter_one(m, **public)
    from dp_knockoff.method_one import scales_one
    from dp_knockoff.method_two import scale_two
    assert np.isclose(scale_two(trial, 1., 9., (.5, .5)), real.details["noise"]["coefficients"])
    assert np.allclose(list(scales_one(trial, 1., 9., (.5, .25, .25), (1/3,) * 3).values()), list(one.details["noise"].values()))


def test_a_method_that_refuses_selects_nothing():
    e = Experiment(p=40, k=20)
    rates = run_chunk(e, ["none", "one", "two"], 90, 0, 30, 0)
    assert rates["two"].max() == 0 and rates["none"][1].mean() > .1
    bounded_away = replace(draw_batch(e, 90, 3, np.random.default_rng(0)), B=50.)
    assert np.isnan(run_one(e, bounded_away, np.random.default_rng(0))).all()
    assert knockoff_threshold(np.zeros(5), .2) == np.inf


def test_row_bounds_cover():
    rng = np.random.default_rng(0)
    for rho in (0., .7):
        e = Experiment(p=10, k=1, rho=rho, risk=.1)
        L = np.linalg.cholesky(e.population)
        inside = [np.linalg.norm(rng.standard_normal((200, 10)) @ L.T, axis=1).max() <= row_bound_for(e, 200) for _ in range(1000)]
        assert np.mean(inside) > .87


def test_plan_finds_the_size():
    e = replace(SMALL, k=6, bounds="coupled")
    found = plan(e, "two", power=.7, trials=200, seed=0)
    assert found.low <= found.n <= found.high and abs(simulate(e, [found.n], ["two"], trials=1500, seed=9)[0].power - .7) < .08
    assert plan_warnings(Experiment(k=4)) and plan_warnings(Experiment(rho=.9)) and not plan_warnings(Experiment())
    assert "is not reached" in refusal(plan, replace(SMALL, k=1), "none", most=1000)


FIGURE = ["figure", "--sizes", "1e4,1e5,1e6", "--trials", "50", "--methods", "two", "--p", "12", "--k", "6", "--delta", ".5"]


def test_figure_writes_its_interface(tmp_path, capsys):
    assert main([*FIGURE, "--out", str(tmp_path)]) == 0
    rows = (tmp_path / "figure.csv").read_text().splitlines()
    assert rows[0] == "method,n,trials,power,power_se,fdr,fdr_se" and [r.split(",")[:3] for r in rows[1:]] == [["two", str(n), "50"] for n in (10**4, 10**5, 10**6)]
    assert (tmp_path / "figure.png").stat().st_size > 10_000 and "Method II" in capsys.readouterr().out
    assert sorted(f.name for f in tmp_path.iterdir()) == ["figure.csv", "figure.json", "figure.png"]


def test_figure_resumes_only_the_same_question(tmp_path, capsys):
    assert main([*FIGURE, "--out", str(tmp_path)]) == 0
    whole = (tmp_path / "figure.csv").read_text()
    lines = whole.splitlines()
    lines[1] = lines[1].replace(lines[1].split(",")[3], "0.123456")          # a mark: a resumed run must not compute this point again
    (tmp_path / "figure.csv").write_text("\n".join(lines[:2]) + "\n")
    assert main([*FIGURE, "--out", str(tmp_path), "--resume"]) == 0
    assert (tmp_path / "figure.csv").read_text().splitlines() == lines
    assert main([*FIGURE, "--out", str(tmp_path), "--resume", "--seed", "1"]) == 2 and "other settings (seed)" in capsys.readouterr().err
    (tmp_path / "figure.csv").write_text("method,n\ntwo,many\n")
    assert main([*FIGURE, "--out", str(tmp_path), "--resume"]) == 2 and "cannot be read" in capsys.readouterr().err
    assert main([*FIGURE, "--out", str(tmp_path / "new"), "--resume"]) == 0   # nothing to resume is fine


def test_an_interrupted_figure_leaves_what_is_done(tmp_path):
    "Ctrl-C in the middle, then --resume: the same file as an undisturbed run"
    slow = ["figure", "--sizes", ",".join(str(10**4 + i) for i in range(60)), "--trials", "400", "--methods", "two", "--jobs", "1", "--out"]
    run = subprocess.Popen([COMMAND, *slow, str(tmp_path / "a")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    csv = tmp_path / "a" / "figure.csv"
    while not csv.exists() and run.poll() is None: time.sleep(.05)
    time.sleep(.3)
    run.send_signal(signal.SIGINT)
    err = run.communicate(timeout=60)[1]
    assert run.returncode == 130 and "interrupted" in err and "Traceback" not in err
    done = csv.read_text().splitlines()
    assert 2 <= len(done) < 61
    full = ["figure", "--sizes", ",".join(str(10**4 + i) for i in range(len(done))), *slow[3:]]
    assert main([*full, str(tmp_path / "a"), "--resume"]) == 0 and main([*full, str(tmp_path / "b")]) == 0
    resumed, fresh = ((tmp_path / x / "figure.csv").read_text().splitlines() for x in "ab")
    assert resumed == fresh and set(done) <= set(resumed)


@pytest.mark.parametrize("argv, words", [
    (["figure", "--methods", "nine"], "--methods='nine'"), (["figure", "--sizes", "1e4,x"], "--sizes='x'"), (["figure", "--sizes", "1234.5"], "whole number"),
    (["figure", "--trials", "0"], "trials=0"), (["figure", "--epsilon", "-1"], "epsilon=-1"), (["figure", "--jobs", "0"], "jobs=0"), (["figure", "--k", "99"], "k=99"),
    (["plan", "--power", "0"], "power=0"), (["plan", "--method", "x"], "method='x'"), (["plan", "--fdr", "1"], "fdr=1"),
])
def test_commands_refuse(argv, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.startswith("dp-knockoff: ") and words in err


def test_plan_prints_an_answer(capsys):
    assert main(["plan", "--p", "12", "--k", "6", "--bounds", "coupled", "--trials", "60"]) == 0
    out = capsys.readouterr().out
    assert "needs about n =" in out and "nothing was spent" in out


def test_rows_of_any_design():
    from dp_knockoff.simulation import run_rows
    rates = run_rows(replace(SMALL, k=6), lambda rng: rng.integers(0, 2, (3000, 8)) - .5, ["none", "two"], trials=10, seed=1)
    again = run_rows(replace(SMALL, k=6), lambda rng: rng.integers(0, 2, (3000, 8)) - .5, ["none", "two"], trials=10, seed=1)
    assert rates["none"].shape == (2, 10) and rates["none"][1].mean() == 1 and all((rates[m] == again[m]).all() for m in rates)
    assert run_rows(SMALL, lambda rng: rng.standard_normal((20, 8)), ["two"], trials=3)["two"].max() == 0      # refused


def test_gram_matrices_are_wishart():
    "Against Gram matrices of rows, for correlated columns"
    e, rng = Experiment(p=3, k=1, rho=.6), np.random.default_rng(0)
    X = rng.standard_normal((20_000, 8, 3)) @ np.linalg.cholesky(e.population).T
    entries = lambda S: np.column_stack([S[:, 0, 0], S[:, 2, 2], S[:, 0, 1], S[:, 0, 2], np.log(np.linalg.det(S))])  # noqa: E731
    assert_same_law(entries(draw_batch(e, 8, 20_000, rng).XtX), entries(X.transpose(0, 2, 1) @ X))


@pytest.mark.parametrize("repaired", [False, True])
def test_the_methods_on_a_batch_are_the_methods(repaired):
    "The same noise, written out with the full 2p x 2p matrices"
    from dp_knockoff.method_one import scales_one
    from dp_knockoff.method_two import scale_two
    from dp_knockoff.simulation import run_two
    from dp_knockoff.statistics import Statistic, csm
    e, T, p = replace(SMALL, repaired=repaired), 6, 8
    b = draw_batch(e, 5000, T, np.random.default_rng(0))
    one, two, trials = run_one(e, b, np.random.default_rng(5)), run_two(e, b, np.random.default_rng(6)), list(trials_of(e, b))
    rng, above = np.random.default_rng(5), np.triu_indices(p, 1)
    upper, lap, white = rng.standard_normal((T, len(above[0]))), rng.laplace(size=(T, 1)), rng.standard_normal((T, 2 * p))
    white2 = np.random.default_rng(6).standard_normal((T, 2 * p))
    for t in range(T):
        scale = scales_one(trials[t], 1., 9., (.5, .25, .25), (1/3,) * 3)
        theta = np.zeros((p, p)); theta[above] = scale["Gram matrix"] * upper[t]
        A = gram(b.Sigma[t] + theta + theta.T, np.full(p, b.lam[t, 0] + scale["lam_min"] * lap[t, 0]))
        c = gram(b.Sigma[t], np.full(p, b.lam[t, 0])) @ b.coef[t] + scale["products"] * pair_transform(white[t])
        assert np.allclose(one[t], Statistic()(repair(A) if repaired else A, c))
        assert np.allclose(two[t], csm(b.coef[t] + scale_two(trials[t], 1., 9., (.5, .5)) * white2[t]))


def test_every_draw_has_a_stream_of_its_own(monkeypatch):
    import dp_knockoff.simulation as simulation
    names, stream = [], simulation.stream
    monkeypatch.setattr(simulation, "stream", lambda seed, name: names.append(name) or stream(seed, name))
    simulate(SMALL, [2000, 3000], trials=CHUNK + 1)
    names = [name for name in names if name != "clipped law"]          # drawn once, for all
    assert len(names) == len(set(names)) == 2 * 2 * 5                 # sizes x chunks x (data and four methods)


def test_points_and_budgets():
    from dp_knockoff.mechanisms import Budget
    from dp_knockoff.simulation import point
    pt = point("two", 7, np.array([[0, .5, .1, .2], [1., 1, 0, 0]]))
    assert np.allclose([pt.fdr, pt.power, pt.power_se, pt.fdr_se], [.2, .5, .25, np.std([0, .5, .1, .2]) / 2]) and pt.trials == 4
    assert Experiment().budget(10**5) == Budget(.2, 1e-3) and Experiment(delta="1/n").budget(10**4) == Budget(.2, 1e-4) and Experiment(delta=.3).budget(9) == Budget(.2, .3)


def test_method_three_on_a_batch_is_the_filter_trial_by_trial():
    "Same release, same estimate, same knockoffs, and the Lasso of the room of statistics"
    from dp_knockoff.mechanisms import NumpySampler, analytic_ratio
    from dp_knockoff.method_three import CHECK, DEFAULT, canonical, estimate
    from dp_knockoff.private_moments import PrivateMoments, release
    from dp_knockoff.simulation import clip_for, clipped_moments, run_three
    e, n = Experiment(p=12, k=5, rho=.4, epsilon=1.0, delta=1e-3), 3000
    b = draw_batch(e, n, 6, stream(0, "batch"))
    W, rng = run_three(e, b, stream(1, "noise")), stream(1, "noise")
    problems = []
    for t in range(6):
        m = clipped_moments(e, b, t, rng)
        parts = release(m, analytic_ratio(e.budget(n)) * np.sqrt(1 - CHECK), 1.4, NumpySampler(rng), "moments")
        found = estimate(PrivateMoments(n, m.names, budget=e.budget(n), clamped=0., clamped_sd=0., rounds=1, sampler="", **parts))
        problems.append(canonical(found.beta, found.V, "mvr", rng))
    assert np.allclose(W, [DEFAULT(A, c) for A, c in problems], atol=5e-3)
    assert m.clip == clip_for(e) and m.row_norm == clip_for(e).row_bound


def test_clipped_law_against_rows():
    "Means of the clipped moments, from fresh rows"
    from dp_knockoff.simulation import clip_for, clipped_law, clipped_moments
    e, n = Experiment(p=8, k=3, rho=.5, amplitude=1.0), 200_000
    rng = stream(3, "rows")
    X = rng.standard_normal((n, 8)) @ np.linalg.cholesky(e.population).T
    w = np.minimum(1, clip_for(e).row_bound / np.linalg.norm(X, axis=1))[:, None]
    T, root, w2 = clipped_law(8, .5)
    assert np.allclose((X * w).T @ (X * w) / n, T @ e.population @ T.T, atol=.01)
    assert np.allclose((X * w**2).T @ (X * w**2) / n, root @ root.T, atol=.01) and abs((w**2).mean() - w2) < .005
    b = draw_batch(e, n, 1, rng)
    m = clipped_moments(e, b, 0, rng)
    assert np.allclose(m.Xty / n, m.XtX @ b.beta[0] / n, atol=.02)
    assert abs(m.yty / n - b.beta[0] @ m.XtX @ b.beta[0] / n - w2) < .03
