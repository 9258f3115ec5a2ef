"The command line: what it prints, what it writes, what it refuses, and that nothing is half done."
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dp_knockoff import cli
from dp_knockoff.cli import main, parser
from dp_knockoff.clip import Clip
from dp_knockoff.estimate import PrivateMoments
from dp_knockoff.filter import knockoff_filter
from dp_knockoff.ledger import Ledger
from dp_knockoff.method_labels import labels_filter
from dp_knockoff.method_moments import moments_filter
from dp_knockoff.method_one import filter_one
from dp_knockoff.method_two import filter_two
from dp_knockoff.methods import METHODS, chooses, takes
from dp_knockoff.models import linear_model
from dp_knockoff.moments import ExactMoments, Moments
from dp_knockoff.passes import Source
from dp_knockoff.samplers import NumpySampler, SecureSampler
from dp_knockoff.selection import SIMULATION, select
from dp_knockoff.statistics import Statistic

COMMAND = str(Path(sys.executable).parent / "dp-knockoff")
BUDGET = ["--epsilon", "2", "--delta", "1e-4"]
BOUNDS = ["--row-bound", "2", "--response-bound", "4"]
PAPER = ["--epsilon", ".9", "--delta", ".1", "--row-bound", "8", "--sigma", "1", "--beta-norm", "3"]
LABELS = ["--method", "labels", *BUDGET, "--response-bound", "6", "--sigma", "1"]
ON_TABLE = ["select", "t.parquet", "--target", "y"]
ON_CSV = ["select", "t.csv", "--target", "y"]
COLLECT = ["moments", "t.csv", "--target", "y"]
CREATE = ["ledger", "l.jsonl", "--create"]
GOOD = [*ON_CSV, *BUDGET, *BOUNDS]
ONE, TWO = ([*ON_CSV, "--method", word, *PAPER] for word in ("one", "two"))
SEED = ["--simulate", "--seed", "1"]
SELECT = [*ON_TABLE, *BUDGET, *BOUNDS, *SEED]
RELEASE = SELECT[:-len(SEED)]
MOMENTS = dict(epsilon=2.0, delta=1e-4, row_bound=2.0, response_bound=4.0)  # BUDGET and BOUNDS
SIMULATED = dict(simulation=True, random_state=1)  # SEED


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    "Every test in a folder of its own, with a small table in it"
    monkeypatch.chdir(tmp_path)
    X, y, beta = linear_model(4000, p=8, k=5, amplitude=1.0, random_state=0)
    columns = {f"{'signal' if b else 'null'}{j}": X[:, j] for j, b in enumerate(beta)}
    table = pl.DataFrame({**columns, "y": y})
    table.write_parquet("t.parquet")
    table.write_csv("t.csv")
    return table


def data(table): return table.drop("y").to_numpy(), table["y"].to_numpy()


def run(capsys, *argv):
    "Exit code, standard output, standard error"
    capsys.readouterr()
    code = main(list(argv))
    out = capsys.readouterr()
    return code, out.out, out.err


def result(capsys, *argv):
    "What a command that must succeed prints, as JSON"
    code, out, err = run(capsys, *argv, "--json")
    assert code == 0, err
    return json.loads(out)


def never(*args, **kwargs): raise AssertionError("touched")


def draw_nothing(monkeypatch):
    "From here on no noise is drawn, by anybody"
    for sampler in (NumpySampler, SecureSampler):
        for how in ("gaussian", "laplace", "lattice"): monkeypatch.setattr(sampler, how, never)


# select


def test_command_is_the_function(capsys, folder):
    found = result(capsys, *SELECT, "--fdr", ".3")
    names = [name for name in folder.columns if name != "y"]
    expected = moments_filter(*data(folder), **MOMENTS, fdr=.3, **SIMULATED)
    assert np.allclose(found["W"], expected.W) and found["features"] == names
    assert found["selected"] == [names[j] for j in np.flatnonzero(expected.support)]
    assert found["threshold"] == pytest.approx(expected.threshold)
    assert (found["method"], found["rule"]) == ("moments", "knockoffs")
    assert (found["epsilon"], found["delta"], found["fdr"]) == (2.0, 1e-4, .3)
    assert found["noise"] == pytest.approx(expected.noise) and found["guarantee"] == expected.guarantee
    assert found["simulation"] is True and found["guarantee"].startswith(SIMULATION)
    assert set(found) == {"selected", "features", "W", "signs", "threshold", "method", "rule", "epsilon",
                          "delta", "fdr", "rows_per_person", "simulation", "noise", "guarantee",
                          "explanation", "notes"}


def budgeted(**more): return dict(epsilon=.9, delta=.1, row_bound=8.0, sigma=1.0, beta_norm=3.0) | more


SPLITS = ["--epsilon-split", ".5,.3,.2", "--delta-split", ".4,.3,.3"]
EVERY = {
    "none": (knockoff_filter, ["--s", "mvr", "--statistic", "lasso,lcd,2", "--offset", "0"],
             dict(s="mvr", statistic=Statistic("lasso", "lcd", 2.0), offset=0)),
    "none, no intercept": (knockoff_filter, ["--no-intercept"], dict(intercept=False)),
    "one": (filter_one, PAPER, budgeted()),
    "one, shares": (filter_one, [*PAPER, "--no-repaired", *SPLITS],
                    budgeted(repaired=False, epsilon_split=(.5, .3, .2), delta_split=(.4, .3, .3))),
    "two": (filter_two, [*PAPER, "--bounds", "coupled", "--beta-max", "1", "--statistic", "ols,lcd"],
            budgeted(bounds="coupled", beta_max=1.0, statistic=Statistic("ols", "lcd"))),
    "two, ridge": (filter_two, [*PAPER, "--ridge-penalty", ".1", "--no-intercept"],
                   budgeted(ridge_penalty=.1)),
    "two, estimates": (filter_two, [*PAPER, "--sigma", "estimate", "--beta-norm", "estimate"],
                       budgeted(sigma="estimate", beta_norm="estimate")),
    "moments": (moments_filter,
                [*BUDGET, *BOUNDS, "--balance", "2", "--rounds", "2", "--sigma", "1.1", "--s", "sdp"],
                dict(**MOMENTS, balance=2.0, rounds=2, sigma=1.1, s="sdp")),
    "moments, private": (moments_filter,
                         [*BUDGET, "--row-bound", "private", "--response-bound", "private"],
                         dict(epsilon=2.0, delta=1e-4, row_bound="private", response_bound="private")),
    "moments, rows": (moments_filter, [*BUDGET, *BOUNDS, "--rows-per-person", "2"],
                      dict(**MOMENTS, rows_per_person=2)),
    "moments, bh": (moments_filter, [*BUDGET, *BOUNDS, "--rule", "bh", "--response-center", ".5"],
                    dict(**MOMENTS, rule="bh", response_center=.5)),
    "labels": (labels_filter, [*LABELS[2:], "--row-bound", "3"],
               dict(epsilon=2.0, delta=1e-4, response_bound=6.0, sigma=1.0, row_bound=3.0)),
    "labels, bh": (labels_filter, [*LABELS[2:], "--rule", "bh", "--fdr", ".1", "--intercept"],
                   dict(epsilon=2.0, delta=1e-4, response_bound=6.0, sigma=1.0, rule="bh", fdr=.1)),
}


@pytest.mark.parametrize("case", EVERY)
def test_every_method_and_its_options(capsys, folder, case):
    function, options, arguments = EVERY[case]
    word = case.partition(",")[0]
    private = word != "none"
    found = result(capsys, *ON_TABLE, "--method", word, *options, *(SEED if private else SEED[1:]))
    expected = function(*data(folder), **arguments, **(SIMULATED if private else {"random_state": 1}))
    assert found["method"] == word and np.allclose(found["W"], expected.W)
    assert found["signs"] == expected.signs.tolist() and found["noise"] == pytest.approx(expected.noise)
    assert len(found["selected"]) == len(expected) and found["guarantee"] == expected.guarantee
    assert found["explanation"] == expected.explain() and found["notes"] == list(expected.notes)
    assert found["simulation"] is private
    unit = arguments.get("rows_per_person", 1) if word in ("moments", "labels") else None
    assert found["rows_per_person"] == unit


def test_methods_of_the_paper_say_what_they_do_not_protect(capsys):
    for word in ("one", "two"):
        guarantee = result(capsys, *ON_TABLE, "--method", word, *PAPER)["guarantee"]
        assert "not differential privacy for every pair" in guarantee


def test_csv_parquet_and_several_files_agree(capsys, folder):
    folder[:1500].write_csv("a.csv")
    folder[1500:].write_csv("b.csv")
    files = (["t.parquet"], ["t.csv"], ["a.csv", "b.csv"], ["[ab].csv"])
    W = [result(capsys, "select", *names, *SELECT[2:])["W"] for names in files]
    for other in W[1:]: assert np.allclose(W[0], other)


def test_table_report_and_files(capsys):
    code, out, _ = run(capsys, *SELECT, "--out", "r.json", "--out", "r.csv", "--out", "r.png")
    assert code == 0 and out.splitlines()[0].split() == ["feature", "W", "sign", "selected"]
    assert "Simulation: NOT private" in out and "Guarantee" not in out
    found = json.loads(Path("r.json").read_text())
    table = pl.read_csv("r.csv")
    assert table.columns == ["feature", "W", "sign", "selected", "simulation"]
    assert set(table["simulation"]) == {"NOT private"}
    assert table["feature"].to_list() == found["features"]
    assert table["W"].to_list() == found["W"] and table["sign"].to_list() == found["signs"]
    assert table.filter(pl.col("selected") == 1)["feature"].to_list() == found["selected"]
    assert Path("r.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(os.listdir(".")) == ["r.csv", "r.json", "r.png", "t.csv", "t.parquet"]  # no leftovers


def test_the_printed_table_is_in_order_and_cut_short(capsys, monkeypatch):
    lines = run(capsys, *SELECT)[1].splitlines()
    W = [float(line.split()[1]) for line in lines[1:9]]
    assert W == sorted(W, reverse=True) and lines[9] == ""
    tested = run(capsys, *SELECT, "--rule", "bh")[1].splitlines()
    assert tested[0].split() == ["feature", "|z|", "sign", "selected"]
    monkeypatch.setattr(cli, "_MOST", 3)
    lines = run(capsys, *SELECT)[1].splitlines()
    assert lines[4] == "... and 5 more, with smaller W"


def test_names_of_any_kind_survive_a_csv_file(capsys, folder):
    names = ["plain", "with, comma", 'with "quotes"', "with\nnewline", "ünïcode", "=1+1", " spaces ", "a'b"]
    folder.rename(dict(zip(folder.columns, [*names, "y"]))).write_parquet("odd.parquet")
    assert run(capsys, "select", "odd.parquet", *SELECT[2:], "--out", "r.csv", "--out", "r.json")[0] == 0
    with open("r.csv", encoding="utf-8", newline="") as file: rows = list(csv.DictReader(file))
    assert [row["feature"] for row in rows] == names
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["features"] == names


def test_nothing_selected_is_valid_json(capsys):
    found = result(capsys, *SELECT, "--fdr", ".01")
    assert found["selected"] == [] and found["threshold"] is None
    assert "Nothing selected" in found["explanation"]


def test_json_of_the_plain_filter(capsys):
    found = result(capsys, *ON_TABLE, "--method", "none", "--seed", "1")
    assert found["simulation"] is False and found["rows_per_person"] is None
    assert found["epsilon"] is None and found["delta"] is None and found["noise"] == {}
    assert found["method"] == "none" and "Not private" in found["guarantee"]


def test_moments_across_machines_and_reuse_of_a_release(capsys, folder):
    folder[:1000].write_parquet("a.parquet")
    folder[1000:].write_csv("b.csv")
    for part in ("a.parquet", "b.csv"):
        assert run(capsys, "moments", part, "--target", "y", *BOUNDS, "--out", part[0] + ".npz")[0] == 0
    assert run(capsys, "moments", "a.npz", "b.npz", "--out", "total.npz")[0] == 0
    whole = result(capsys, *SELECT, "--save-release", "release.npz")
    for files in (["total.npz"], ["a.npz", "b.npz"]):
        assert whole == result(capsys, "select", *files, *BUDGET, *SEED)  # bit by bit
    again = result(capsys, "select", "release.npz")
    assert whole["W"] == again["W"] and again["epsilon"] == 2.0 and again["notes"] == whole["notes"]
    m = ExactMoments.load("total.npz")
    assert m.clip == Clip(2.0, 4.0) and m.n == 4000
    if os.name == "posix": assert os.stat("total.npz").st_mode & 0o777 == 0o600
    code, out, _ = run(capsys, *COLLECT, "--out", "raw.npz")
    assert code == 0 and Moments.load("raw.npz").n == 4000 and "method moments needs both" in out
    plain = result(capsys, "select", "raw.npz", "--method", "none", "--seed", "1")
    assert np.allclose(plain["W"], knockoff_filter(*data(folder), random_state=1).W)


def test_a_release_is_asked_again_without_the_data(capsys, monkeypatch):
    assert run(capsys, *SELECT, "--save-release", "release.npz")[0] == 0
    os.remove("t.parquet")
    draw_nothing(monkeypatch)
    monkeypatch.setattr(Source, "_pass", never)
    again = ["select", "release.npz"]
    loose, strict = (result(capsys, *again, "--fdr", q) for q in (".5", ".05"))
    assert set(strict["selected"]) <= set(loose["selected"]) and loose["W"] == strict["W"]
    assert result(capsys, "select", "release.npz", "--rule", "bh", "--sigma", "1.1")["rule"] == "bh"
    assert "spends nothing" in run(capsys, "select", "release.npz", "--dry-run")[1]


def test_moments_keep_all_their_bounds(capsys, folder):
    name = folder.columns[0]
    Path("ranges.json").write_text(json.dumps({name: [-2, 3]}))
    argv = [*COLLECT, *BOUNDS, "--ranges", "ranges.json", "--out", "m.npz"]
    assert run(capsys, *argv, "--response-center", ".5")[0] == 0
    assert ExactMoments.load("m.npz").clip == Clip(2.0, 4.0, {name: (-2, 3)}, .5)
    Path("ranges.json").write_text(json.dumps({name: [-2, 2]}))
    some = ",".join(folder.columns[:3])
    assert run(capsys, *argv, "--no-intercept", "--columns", some)[0] == 0
    m = ExactMoments.load("m.npz")
    assert m.clip == Clip(2.0, 4.0, {name: (-2, 2)}, intercept=False) and m.names == tuple(folder.columns[:3])


def test_ranges_center_rounds_columns(capsys, folder):
    Path("ranges.json").write_text(json.dumps({folder.columns[0]: [-2, 2]}))
    some = folder.columns[:6]
    bounds = ["--ranges", "ranges.json", "--response-center", "1"]
    found = result(capsys, *SELECT, "--columns", ", ".join(some), *bounds, "--rounds", "2")
    assert found["features"] == some and "in 2 rounds" in " ".join(found["notes"])

# a release, and a simulation of one


def test_a_release_is_exact_noise_and_a_guarantee(capsys, folder):
    Path("ranges.json").write_text(json.dumps({folder.columns[0]: [-2, 2]}))
    argv = [*RELEASE, "--rows-per-person", "3", "--ranges", "ranges.json", "--out", "r.png"]
    one, two = (result(capsys, *argv, "--save-release", name) for name in ("a.npz", "b.npz"))
    for found in (one, two):
        assert found["simulation"] is False and found["rows_per_person"] == 3
        assert found["guarantee"].startswith("Guarantee:") and "any 3 rows" in found["guarantee"]
        assert "every pair of datasets" in found["guarantee"] and "ranges" in found["guarantee"]
        assert "OpenDP" in found["notes"][-1] and "NumPy" not in json.dumps(found)
    assert one["W"] != two["W"]  # nothing decides the noise
    out = run(capsys, "select", "a.npz")[1]
    assert "Guarantee:" in out and "Simulation" not in out


def test_without_opendp_there_is_no_release(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    monkeypatch.setattr(Source, "_pass", never)
    code, out, err = run(capsys, *RELEASE, "--json", "--out", "r.json")
    assert code == 2 and out == "" and "OpenDP" in err and not Path("r.json").exists()


def test_a_simulation_says_so_everywhere(capsys):
    out = run(capsys, *SELECT, "--save-release", "s.npz", "--out", "r.svg", "--out", "r.json")[1]
    assert SIMULATION in out and SIMULATION in json.loads(Path("r.json").read_text())["guarantee"]
    assert SIMULATION in run(capsys, "select", "s.npz", "--fdr", ".3")[1]
    assert PrivateMoments.load("s.npz").simulated
    one, two = (result(capsys, *RELEASE, "--simulate")["W"] for _ in range(2))
    assert one != two  # without a seed, another simulation every time
    for word in ("one", "two"):
        found = result(capsys, *ON_TABLE, "--method", word, *PAPER, *SEED)
        assert found["guarantee"].startswith(SIMULATION) and found["simulation"] is True


@pytest.mark.parametrize("word", METHODS)
def test_who_may_have_a_seed_and_a_ledger(capsys, monkeypatch, word):
    options = {"none": [], "moments": [*BUDGET, *BOUNDS], "labels": LABELS[2:]}.get(word, PAPER)
    argv = [*ON_TABLE, "--method", word, *options]
    Ledger("ledger.jsonl", epsilon=3, delta=1e-3)
    if word == "none":
        assert run(capsys, *argv, "--seed", "0")[0] == 0
        assert "--simulate has no meaning for --method none" in run(capsys, *argv, "--simulate")[2]
    draw_nothing(monkeypatch)
    monkeypatch.setattr(Source, "_pass", never)
    if word != "none":
        code, out, err = run(capsys, *argv, "--seed", "0")
        assert code == 2 and out == "" and "--seed belongs to simulations" in err and "--simulate" in err
    if word in ("moments", "labels"): return
    code, _, err = run(capsys, *argv, "--ledger", "ledger.jsonl")
    assert code == 2 and f"--ledger has no meaning for --method {word}, which is not differentially" in err


def test_a_weak_budget_is_warned_of_in_one_line(capsys):
    code, _, err = run(capsys, *RELEASE, "--delta", ".1")
    assert code == 0 and "Warning: delta=0.1 is above 1/n" in err
    assert "UserWarning" not in err and ".py" not in err


# a ledger


def test_a_ledger_is_created_shown_and_charged(capsys):
    code, out, _ = run(capsys, *CREATE, "--epsilon", "3", "--delta", "1e-4")
    assert code == 0 and out.startswith("Ledger l.jsonl: total (epsilon=3, delta=0.0001), 0 releases")
    charged = [*RELEASE, "--ledger", "l.jsonl"]
    assert run(capsys, *charged)[0] == 0
    assert run(capsys, *charged, "--simulate", "--seed", "1", "--epsilon", "1")[0] == 0
    entries = Ledger("l.jsonl").entries
    assert [(e.what, e.unit, e.epsilon, e.simulated) for e in entries] == [
        ("moments", "1 row", 2.0, False), ("moments", "1 row", 1.0, True)]
    before = Path("l.jsonl").read_bytes()
    lines = run(capsys, "ledger", "l.jsonl")[1].splitlines()
    assert len(lines) == 3 and "2 releases" in lines[0] and "simulation: NOT private" in lines[2]
    dry = run(capsys, *charged, "--dry-run")[1].splitlines()
    assert dry[-1] == lines[0] and Path("l.jsonl").read_bytes() == before


def test_a_ledger_is_not_overspent(capsys, monkeypatch):
    assert run(capsys, *CREATE, "--epsilon", "1", "--delta", "1e-4")[0] == 0
    draw_nothing(monkeypatch)
    monkeypatch.setattr(Source, "_pass", never)  # refused before a pass
    before = sorted(os.listdir("."))
    places = ["--out", "r.json", "--save-release", "r.npz"]
    code, out, err = run(capsys, *RELEASE, "--ledger", "l.jsonl", *places)
    assert code == 2 and out == "" and "would overspend" in err and sorted(os.listdir(".")) == before
    assert not Ledger("l.jsonl").entries


def test_labels_have_a_ledger_of_their_own(capsys):
    Ledger("l.jsonl", epsilon=9, delta=1e-3)
    assert run(capsys, *ON_TABLE, *LABELS, *SEED, "--rows-per-person", "2", "--ledger", "l.jsonl")[0] == 0
    assert Ledger("l.jsonl").entries[0].unit == "any 2 responses"
    code, _, err = run(capsys, *SELECT, "--ledger", "l.jsonl")
    assert code == 2 and "keep a ledger for each" in err


# releases add up


def test_releases_of_parts_are_added(capsys, folder):
    folder[:1500].write_parquet("a.parquet")
    folder[1500:].write_csv("b.csv")
    for part, seed in (("a.parquet", "1"), ("b.csv", "2")):
        argv = ["select", part, "--target", "y", *BUDGET, *BOUNDS, "--simulate", "--seed", seed]
        assert run(capsys, *argv, "--save-release", part[0] + ".npz")[0] == 0
    found = result(capsys, "select", "a.npz", "b.npz", "--fdr", ".3", "--save-release", "both.npz")
    a, b = (PrivateMoments.load(name) for name in ("a.npz", "b.npz"))
    expected = select(a + b, fdr=.3)
    assert found["W"] == expected.W.tolist() and found["epsilon"] == 2.0 and found["simulation"] is True
    assert found["noise"]["products"] == pytest.approx(np.hypot(a.product_sd, b.product_sd))
    assert result(capsys, "select", "both.npz", "--fdr", ".3") == found
    Path("copy.npz").write_bytes(Path("a.npz").read_bytes())
    for files in (["a.npz", "copy.npz"], ["both.npz", "b.npz"]):
        code, out, err = run(capsys, "select", *files)
        assert code == 2 and out == "" and "added twice" in err
        assert f"{files[1]!r} does not fit {files[0]!r}" in err
    assert "more than once" in run(capsys, "select", "a.npz", "a.npz")[2]
    assert run(capsys, *SELECT, "--row-bound", "3", "--save-release", "other.npz")[0] == 0
    assert "'other.npz' does not fit 'a.npz'" in run(capsys, "select", "a.npz", "other.npz")[2]


def test_moments_are_not_added_twice(capsys):
    for name in ("m.npz", "n.npz"): assert run(capsys, *COLLECT, *BOUNDS, "--out", name)[0] == 0
    Path("copy.npz").write_bytes(Path("m.npz").read_bytes())
    assert run(capsys, "moments", "m.npz", "n.npz", "--out", "sum.npz")[0] == 0
    for command, more in (("moments", ["--out", "x.npz"]), ("select", [*BUDGET, *SEED])):
        for files in (["m.npz", "copy.npz"], ["sum.npz", "n.npz"]):
            code, _, err = run(capsys, command, *files, *more)
            assert code == 2 and "added twice" in err
        assert "more than once" in run(capsys, command, "m.npz", "m.npz", *more)[2]
    assert not Path("x.npz").exists()


# details


@pytest.mark.parametrize("command", ["select", "moments"])
def test_details_only_where_they_are_asked_for(capsys, folder, command):
    rows = [str(number) for number in folder["y"]]
    rows[17] = "secret"
    folder.with_columns(pl.Series("y", rows)).write_csv("bad.csv")
    more = [*BUDGET, *BOUNDS, *SEED] if command == "select" else [*BOUNDS, "--out", "m.npz"]
    code, out, short = run(capsys, command, "bad.csv", "--target", "y", *more)
    assert code == 2 and out == "" and "'y'" in short and "secret" not in short and "17" not in short
    code, out, long = run(capsys, command, "bad.csv", "--target", "y", *more, "--verbose")
    assert code == 2 and out == "" and long.startswith(short) and "'secret', in row 17" in long
    assert len(short.splitlines()) == 1 and len(long.splitlines()) == 2


# a dry run


@pytest.mark.parametrize("options, says", [
    ([*BUDGET, *BOUNDS], "expected power"),
    ([*BUDGET, "--row-bound", "private", "--response-bound", "private"], "a typical value was taken"),
    (["--method", "two", *PAPER, "--bounds", "coupled"], "Expected power"),
    (["--method", "one", *PAPER], "as large as --beta-norm allows"),
    (LABELS, "without privacy"),
    (["--method", "none"], "there is no plan to make"),
])
def test_dry_run_reads_no_rows_and_draws_nothing(capsys, monkeypatch, options, says):
    monkeypatch.setattr(Source, "_pass", never)
    draw_nothing(monkeypatch)
    code, out, _ = run(capsys, *ON_TABLE, *options, "--dry-run")
    assert "No row was read" in out
    assert code == 0 and says in out
    if "none" not in options: assert "4,000 rows and 8 columns" in out and "nothing was spent" in out


def test_dry_run_of_a_file_that_does_not_tell_its_rows(capsys):
    code, out, _ = run(capsys, *ON_CSV, *BUDGET, *BOUNDS, "--dry-run", "--rows", "1e6")
    assert code == 0 and "1,000,000 rows" in out and "No row was read" not in out
    assert "Of CSV files the header and the first lines were looked at" in out and "nothing was spent" in out


def test_dry_run_of_collected_moments_takes_their_bounds(capsys):
    assert run(capsys, *COLLECT, *BOUNDS, "--out", "m.npz")[0] == 0
    on_moments = run(capsys, "select", "m.npz", *BUDGET, "--dry-run")[1]
    assert on_moments == run(capsys, *ON_TABLE, *BUDGET, *BOUNDS, "--dry-run")[1]


def test_dry_run_says_when_there_are_too_few_signals(capsys):
    out = run(capsys, *ON_TABLE, *BUDGET, *BOUNDS, "--dry-run", "--signals", "3")[1]
    assert "at least 5 columns or none" in out
    assert "or none" not in run(capsys, *ON_TABLE, *BUDGET, *BOUNDS, "--dry-run", "--signals", "5")[1]


def test_the_noise_foretold_for_labels_is_the_noise_drawn(capsys):
    out = run(capsys, *ON_TABLE, *LABELS, "--row-bound", "1", "--dry-run")[1]
    drawn = result(capsys, *ON_TABLE, *LABELS, "--row-bound", "1", *SEED)["noise"]["products"]
    assert f"standard deviation {drawn:.4g}, for rows of norm at most 1." in out


@pytest.mark.parametrize("options", [[*BUDGET, *BOUNDS], [*LABELS, "--row-bound", "1"]])
def test_noise_foretold_grows_with_the_rows_of_a_person(capsys, options):
    def number(out):
        line = next(line for line in out.splitlines() if line.startswith("Noise on X'y"))
        return float(re.search(r"[\d.]+", line.partition(":")[2])[0])
    argv = [*ON_TABLE, *options, "--dry-run", "--rows-per-person"]
    one, three = (number(run(capsys, *argv, k)[1]) for k in "13")
    assert three == pytest.approx(3 * one, rel=2e-3)


# refusals

BAD = {
    "missing target": (["select", "t.csv", *BUDGET, *BOUNDS], "--target is missing"),
    "no such target": (["select", "t.csv", "--target", "z", *BUDGET, *BOUNDS], "'z' is not a column"),
    "no such file": (["select", "u.csv", "--target", "y", *BUDGET, *BOUNDS], "'u.csv' does not exist"),
    "other ending": (["select", "t.xlsx", "--target", "y", *BUDGET, *BOUNDS], "t.xlsx"),
    "no epsilon": ([*ON_CSV, "--delta", "1e-6", *BOUNDS], "--epsilon is missing: pass a privacy budget"),
    "epsilon 0": ([*ON_CSV, "--epsilon", "0", "--delta", "1e-6", *BOUNDS],
                  "epsilon=0.0 is not a finite number > 0"),
    "epsilon in words": ([*ON_CSV, "--epsilon", "small", "--delta", "1e-6", *BOUNDS],
                         "--epsilon='small' is not a number"),
    "no delta": ([*ON_CSV, "--epsilon", "1", *BOUNDS], "--delta is missing: pass a privacy budget"),
    "no row bound": ([*ON_CSV, *BUDGET, *BOUNDS[2:]], "--row-bound is missing: pass a public number"),
    "no response bound": ([*ON_CSV, *BUDGET, *BOUNDS[:2]], "--response-bound is missing: pass a public"),
    "bound is text": ([*GOOD, "--row-bound", "long"], "--row-bound='long' is not a number"),
    "negative bound": ([*GOOD, "--row-bound", "-1"], "--row-bound=-1.0 is not a finite number > 0"),
    "bound of another method": ([*GOOD, "--row-bound", "estimate"], "or 'private'"),
    "fdr": ([*GOOD, "--fdr", "2"], "fdr=2.0 is not a number strictly between 0 and 1"),
    "method": ([*GOOD, "--method", "four"], "--method='four' is unknown: choose one of 'none', 'one'"),
    "method of old": ([*GOOD, "--method", "three"], "--method='three' is unknown"),
    "option of another method": ([*GOOD, "--beta-norm", "1"],
                                 "--beta-norm has no meaning for --method moments: leave it out"),
    "flag of another method": ([*TWO, "--no-repaired"],
                               "--no-repaired has no meaning for --method two: leave it out"),
    "an intercept that there is not": ([*TWO, "--intercept"],
                                       "--intercept has no meaning for --method two: leave it out"),
    "budget without privacy": ([*ON_CSV, "--method", "none", "--epsilon", "1"],
                               "--epsilon has no meaning for --method none: leave it out"),
    "no sigma": ([*ON_CSV, "--method", "two", *BUDGET, "--row-bound", "9", "--beta-norm", "3"],
                 "--sigma is missing: method two needs a public number"),
    "no beta norm": ([*ON_CSV, "--method", "one", *BUDGET, "--row-bound", "9", "--sigma", "3"],
                     "--beta-norm is missing: method one needs a public number"),
    "no sigma for labels": ([*ON_CSV, "--method", "labels", *BUDGET, "--response-bound", "9"],
                            "--sigma is missing: pass the public noise level"),
    "no bound for labels": ([*ON_CSV, "--method", "labels", *BUDGET, "--sigma", "1"],
                            "--response-bound is missing"),
    "bounds": ([*ONE, "--bounds", "coupled"], "bounds='coupled' is unknown"),
    "rule": ([*GOOD, "--rule", "holm"], "rule='holm' is unknown: choose one of 'knockoffs'"),
    "rule without estimates": ([*TWO, "--rule", "bh"], "--rule has no meaning"),
    "statistic with a rule": ([*GOOD, "--rule", "bh", "--s", "mvr"], "draws no knockoffs"),
    "statistic": ([*GOOD, "--statistic", "forest"], "estimate='forest' is unknown"),
    "statistic without penalty": ([*GOOD, "--statistic", "lasso,lcd"], "needs its weight"),
    "too many words": ([*GOOD, "--statistic", "lasso,lcd,1,2"], "--statistic='lasso,lcd,1,2'"),
    "statistic of method two": ([*TWO, "--statistic", "path"], "least-squares"),
    "s": ([*GOOD, "--s", "best"], "s='best' is unknown"),
    "offset": ([*GOOD, "--offset", "2"], "offset=2 is unknown"),
    "rounds": ([*GOOD, "--rounds", "1.5"], "--rounds='1.5' is not a whole number"),
    "no rounds": ([*GOOD, "--rounds", "0"], "rounds=0 is not a whole number of at least 1"),
    "shares": ([*ONE, "--epsilon-split", ".5,.5"], "is not 3 positive shares"),
    "picture format": ([*GOOD, "--out", "a.docx"], "no picture format"),
    "no such folder": ([*GOOD, "--out", "no/a.json"], "folder that does not exist"),
    "release into no folder": ([*GOOD, "--save-release", "no/a.npz"], "does not exist"),
    "release no archive": ([*GOOD, "--save-release", "a.csv"], "does not end in .npz"),
    "release of method two": ([*TWO, "--save-release", "a.npz"],
                              "--save-release has no meaning for --method two: leave it out"),
    "unknown column": ([*GOOD, "--columns", "nobody"], "no column 'nobody'"),
    "ranges": ([*GOOD, "--ranges", "none.json"], "--ranges 'none.json' cannot be read"),
    "ranges of nothing": ([*GOOD, "--ranges", "t.csv"], "is not a JSON object"),
    "dry run without rows": ([*GOOD, "--dry-run"], "--rows is missing"),
    "dry run without bounds": ([*ON_TABLE, *BUDGET, "--dry-run"], "--row-bound is missing"),
    "dry run of estimates": ([*ON_TABLE, "--method", "two", *PAPER, "--sigma", "estimate", "--dry-run"],
                             "--sigma estimate takes the data"),
    "part of a row": ([*GOOD, "--dry-run", "--rows", "10.5"], "not a whole number"),
    "too many signals": ([*ON_TABLE, *BUDGET, *BOUNDS, "--dry-run", "--signals", "9"],
                         "--signals 9 is more than the 8 columns"),
    "moments out": ([*COLLECT, "--out", "m.csv"], "--out 'm.csv' does not end in .npz"),
    "moments without target": (["moments", "t.csv", "--out", "m.npz"], "--target is missing"),
    "one bound": ([*COLLECT, "--row-bound", "1", "--out", "m.npz"], "belong together"),
    "centre alone": ([*COLLECT, "--response-center", "1", "--out", "m.npz"], "belong together"),
    "private moments": ([*COLLECT, *BOUNDS, "--row-bound", "private", "--out", "m.npz"],
                        "'private' bounds take passes"),
    "two archives": (["select", "a.npz", "b.npz", *BUDGET], "'a.npz' does not exist"),
    "no archive": (["select", "a.npz", *BUDGET], "'a.npz' does not exist"),
    "no ledger": ([*GOOD, "--ledger", "l.jsonl"], "ledger 'l.jsonl' does not exist: create it"),
    "ledger that is none": ([*GOOD, "--ledger", "t.csv"], "is damaged, or is none"),
    "nobody's rows": ([*GOOD, "--rows-per-person", "0"], "--rows-per-person=0 is not a whole number"),
    "half a row": ([*GOOD, "--rows-per-person", "1.5"], "--rows-per-person='1.5' is not a whole number"),
    "rows of a person in the paper": ([*TWO, "--rows-per-person", "2"], "--rows-per-person has no meaning"),
    "no ledger to show": (["ledger", "l.jsonl"], "ledger 'l.jsonl' does not exist: create it"),
    "no total epsilon": ([*CREATE, "--delta", "1e-6"], "--epsilon is missing: pass the total"),
    "no total delta": ([*CREATE, "--epsilon", "1"], "--delta is missing: pass the total"),
    "total in words": ([*CREATE, "--epsilon", "all", "--delta", "0"], "--epsilon='all' is not a number"),
    "total of nothing": ([*CREATE, "--epsilon", "0", "--delta", "1e-6"], "epsilon=0.0"),
    "total, not created": (["ledger", "t.csv", "--delta", "1"], "--delta has no meaning without --create"),
    "ledger over another file": (["ledger", "t.csv", "--create", *BUDGET], "exists already"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, monkeypatch, name):
    argv, says = BAD[name]
    draw_nothing(monkeypatch)
    before = sorted(os.listdir("."))
    code, out, err = run(capsys, *argv, *(SEED if argv[0] == "select" else []))
    assert code == 2 and out == "" and err.startswith("dp-knockoff: ") and len(err.strip().splitlines()) == 1
    assert says in err and sorted(os.listdir(".")) == before


def test_a_release_cannot_be_changed(capsys):
    assert run(capsys, *SELECT, "--save-release", "release.npz")[0] == 0
    for more in (BUDGET, BOUNDS, ["--rounds", "2"], ["--no-intercept"], ["--target", "y"], ["--columns", "a"],
                 ["--method", "two"]):
        code, out, err = run(capsys, "select", "release.npz", *more)
        assert code == 2 and out == "" and "cannot be changed for a release that exists: leave it out" in err
        assert more[0] in err
    for more in (["--save-release", "b.npz"], ["--seed", "1"], ["--simulate"], ["--ledger", "l.jsonl"],
                 ["--beta-norm", "1"]):
        code, out, err = run(capsys, "select", "release.npz", *more)
        assert code == 2 and out == "" and f"{more[0]} has no meaning for" in err
    assert "'t.csv' is none" in run(capsys, "select", "release.npz", "t.csv", "--target", "y")[2]
    said = run(capsys, "moments", "release.npz", "--out", "m.npz")[2]
    assert "'release.npz' is a release, not moments" in said


def test_moments_that_were_collected_hold_their_own(capsys):
    assert run(capsys, *COLLECT, *BOUNDS, "--out", "m.npz")[0] == 0
    assert run(capsys, *COLLECT, "--out", "raw.npz")[0] == 0
    for more in (BOUNDS, ["--target", "y"], ["--columns", "a"], ["--no-intercept"]):
        code, _, err = run(capsys, "moments", "m.npz", *more, "--out", "n.npz")
        assert code == 2 and f"{more[0]} has no meaning for moments that were collected: leave it out" in err
    for argv, says in ((["m.npz", *BUDGET, *BOUNDS], "which hold their own"),
                       (["m.npz", *BUDGET, "--no-intercept"], "intercept given along with Moments"),
                       (["m.npz", *BUDGET, "--target", "y"], "leave it out"),
                       (["m.npz", *BUDGET, "--rounds", "2"], "these rows are summed already"),
                       (["m.npz", *LABELS], "cannot be read again"),
                       (["m.npz", "--method", "none"], "in bounds"),
                       (["raw.npz", *BUDGET], "without bounds"),
                       (["raw.npz", *BUDGET, "--dry-run"], "--row-bound"),
                       (["m.npz", "t.csv", *BUDGET, "--target", "y"], "'t.csv' cannot be read with")):
        code, out, err = run(capsys, "select", *argv)
        assert code == 2 and out == "" and says in err, argv


def test_a_damaged_archive_is_named(capsys):
    Path("broken.npz").write_bytes(b"PK nothing")
    np.savez("other.npz", x=np.ones(3))
    for name in ("broken.npz", "other.npz"):
        code, _, err = run(capsys, "select", name, *BUDGET)
        assert code == 2 and name in err and "damaged" in err


@pytest.mark.parametrize("column, value, says", [("null", None, "missing"), ("null", "red", "number"),
                                                 ("y", None, "missing")])
def test_bad_columns_are_named(capsys, folder, column, value, says):
    name = next(label for label in folder.columns if label.startswith(column))
    rows = [str(number) for number in folder[name]]
    rows[17] = value
    folder.with_columns(pl.Series(name, rows)).write_csv("bad.csv")
    code, _, err = run(capsys, "select", "bad.csv", *SELECT[2:])
    assert code == 2 and repr(name) in err and says in err


def test_interrupted_run_writes_nothing(capsys, monkeypatch):
    def interrupted(*args): raise KeyboardInterrupt
    Path("r.json").write_text("before")
    monkeypatch.setattr(Source, "_pass", interrupted)
    code, out, err = run(capsys, *SELECT, "--out", "r.json", "--save-release", "release.npz")
    assert code == 130 and out == "" and "interrupted" in err
    assert Path("r.json").read_text() == "before"
    assert sorted(os.listdir(".")) == ["r.json", "t.csv", "t.parquet"]


def test_too_little_memory_is_a_sentence(capsys, monkeypatch):
    def full(*args): raise MemoryError
    monkeypatch.setattr(Source, "_pass", full)
    code, _, err = run(capsys, *SELECT)
    assert code == 2 and "not enough memory" in err


# what the methods take is what the command takes


def test_options_are_the_parameters_of_the_methods():
    args = parser().parse_args(["select", "t.csv"])
    for word in METHODS:
        for name in (*takes(word), *chooses(word)): assert getattr(args, name) is None


def test_help_tells_what_the_comments_say(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit): main(["select", "--help"])
    lines = capsys.readouterr().out.splitlines()

    def says(option):
        line = next(line for line in lines if line.lstrip().startswith(option + " "))
        return line.split("  ")[-1].strip()

    assert says("--rounds") == "[moments] passes with noise; more than one work on residuals (default 1)"
    assert says("--beta-max").startswith("[two] public bound on the largest |beta_j|")
    assert "[one, two] public bound" in says("--row-bound") and "[labels]" in says("--row-bound")
    assert says("--offset") == "1: knockoff+; 0: modified rate only (default 1)"  # for all methods: no list
    assert lines[-1].startswith("Methods. none:") and "labels:" in lines[-1]


@pytest.mark.parametrize("command", ["ledger", "moments", "plan", "figure", "demo"])
def test_every_command_has_help(capsys, command):
    with pytest.raises(SystemExit) as done: main([command, "--help"])
    assert done.value.code == 0 and f"usage: dp-knockoff {command}" in capsys.readouterr().out


def test_a_parser_can_be_used_twice():
    top = parser()
    for seed in (1, 2): assert top.parse_args(["select", "t.csv", "--seed", str(seed)]).seed == seed


# as a process


def test_as_a_process():
    "The installed command, its progress on standard error, its exit code"
    done = subprocess.run([COMMAND, *SELECT, "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and len(json.loads(done.stdout)["W"]) == 8 and "Traceback" not in done.stderr


def test_a_reader_that_stops_reading_is_no_error():
    process = subprocess.Popen([COMMAND, "demo", "--n", "300", "--p", "20"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0 and err == b""


# figure, plan, demo

SMALL = ["--p", "12", "--k", "6"]
FIGURE = ["figure", "--sizes", "1e4,1e5,1e6", "--trials", "50", "--methods", "two", *SMALL, "--delta", ".5"]


def test_figure_writes_its_interface(tmp_path, capsys):
    assert main([*FIGURE, "--out", "out"]) == 0
    rows = Path("out/figure.csv").read_text().splitlines()
    assert rows[0] == "method,n,trials,power,power_se,fdr,fdr_se"
    assert [row.split(",")[:3] for row in rows[1:]] == [["two", str(n), "50"] for n in (10**4, 10**5, 10**6)]
    assert Path("out/figure.png").stat().st_size > 10_000 and "Method II" in capsys.readouterr().out
    assert sorted(os.listdir("out")) == ["figure.csv", "figure.json", "figure.png"]
    asked = json.loads(Path("out/figure.json").read_text())
    assert (asked["p"], asked["k"], asked["delta"], asked["bounds"]) == (12, 6, .5, "paper")
    assert (asked["methods"], asked["trials"], asked["seed"]) == (["two"], 50, 0)


def test_figure_knows_all_methods_that_can_be_simulated(capsys):
    assert main(["figure", "--sizes", "3e4", "--trials", "4", *SMALL]) == 0
    out = capsys.readouterr().out
    for label in ("no privacy", "Method I", "Method II", "moments filter"): assert label in out
    rows = Path("figure/figure.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["none", "one", "two", "moments"]


def test_figure_resumes_only_the_same_question(capsys):
    file = Path("out/figure.csv")
    assert main([*FIGURE, "--out", "out"]) == 0
    lines = file.read_text().splitlines()
    lines[1] = lines[1].replace(lines[1].split(",")[3], "0.123456")  # must not be computed again
    file.write_text("\n".join(lines[:2]) + "\n")
    assert main([*FIGURE, "--out", "out", "--resume"]) == 0
    assert file.read_text().splitlines() == lines
    assert main([*FIGURE, "--out", "out", "--resume", "--seed", "1"]) == 2
    assert "other settings (seed)" in capsys.readouterr().err
    file.write_text("method,n\ntwo,many\n")
    assert main([*FIGURE, "--out", "out", "--resume"]) == 2 and "cannot be read" in capsys.readouterr().err
    assert main([*FIGURE, "--out", "new", "--resume"]) == 0  # nothing to resume is fine


def test_an_interrupted_figure_leaves_what_is_done():
    "Ctrl-C in the middle, then --resume: the same file as an undisturbed run"
    def sizes(count): return ",".join(str(10**4 + i) for i in range(count))
    how = ["--trials", "400", "--methods", "two", "--jobs", "1", "--out"]
    process = subprocess.Popen([COMMAND, "figure", "--sizes", sizes(60), *how, "a"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    file = Path("a/figure.csv")
    while not file.exists() and process.poll() is None: time.sleep(.05)
    time.sleep(.3)
    process.send_signal(signal.SIGINT)
    err = process.communicate(timeout=60)[1]
    assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    done = file.read_text().splitlines()
    assert 2 <= len(done) < 61
    full = ["figure", "--sizes", sizes(len(done)), *how]
    assert main([*full, "a", "--resume"]) == 0 and main([*full, "b"]) == 0
    resumed, fresh = (Path(name, "figure.csv").read_text().splitlines() for name in "ab")
    assert resumed == fresh and set(done) <= set(resumed)


@pytest.mark.parametrize("argv, words", [
    (["figure", "--methods", "nine"], "--methods='nine'"), (["figure", "--sizes", "1e4,x"], "--sizes='x'"),
    (["figure", "--methods", "labels"], "--methods='labels'"),
    (["figure", "--sizes", "1234.5"], "whole number"),
    (["figure", "--trials", "0"], "trials=0"), (["figure", "--epsilon", "-1"], "epsilon=-1"),
    (["figure", "--jobs", "0"], "jobs=0"), (["figure", "--k", "99"], "k=99"),
    (["figure", "--sizes", "60"], "n=60"),
    (["figure", "--bounds", "loose"], "bounds='loose'"), (["figure", "--delta", "small"], "--delta='small'"),
    (["figure", "--out", "t.csv"], "cannot be a folder"), (["plan", "--power", "0"], "power=0"),
    (["plan", "--method", "x"], "method='x'"), (["plan", "--method", "labels"], "method='labels'"),
    (["plan", "--fdr", "1"], "fdr=1"), (["demo", "--fdr", "7"], "fdr=7"), (["demo", "--n", "60"], "n=60"),
    (["demo", "--s", "best"], "s='best'"), (["demo", "--k", "51"], "k=51"),
    (["demo", "--out", "a.txt"], "a.txt"),
    (["plan", "--k", "2", "--fdr", ".05", "--method", "none", "--trials", "20"], "is not reached"),
])
def test_commands_refuse(argv, words, capsys):
    assert main(argv) == 2
    err = capsys.readouterr().err.strip().splitlines()[-1]
    assert err.startswith("dp-knockoff: ") and words in err


@pytest.mark.parametrize("method, head", [("two", "Method two, bounds coupled: power"),
                                          ("moments", "Method moments: power")])
def test_plan_prints_an_answer(capsys, method, head):
    assert main(["plan", "--method", method, *SMALL, "--bounds", "coupled", "--trials", "60"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(head) and "needs about n =" in out and "nothing was spent" in out


def test_plan_warns(capsys):
    assert main(["plan", "--method", "none", *SMALL, "--rho", ".9", "--trials", "20"]) == 0
    assert "Warning: correlation will cost power" in capsys.readouterr().err


def test_demo_tells_the_truth(capsys):
    assert main(["demo", "--n", "300", "--p", "20", "--k", "0", "--out", "a.svg"]) == 0
    out = capsys.readouterr().out
    assert "there are no signals" in out and "Picture: a.svg" in out and Path("a.svg").exists()


def test_a_table_of_a_simulation_says_so_in_every_line(tmp_path):
    from dp_knockoff import knockoff_filter, linear_model, moments_filter
    from dp_knockoff.cli import _write_selection
    X, y, _ = linear_model(300, p=6, k=3, random_state=0)
    public = dict(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=9.0)
    simulated = moments_filter(X, y, **public, simulation=True, random_state=0)
    for selection, marks in ((simulated, 6), (knockoff_filter(X, y, random_state=0), 0)):
        _write_selection(selection, str(tmp_path / "table.csv"))
        head, *lines = (tmp_path / "table.csv").read_text().splitlines()
        assert head.endswith(",simulation") == bool(marks)
        assert len(lines) == 6 and sum(line.endswith(",NOT private") for line in lines) == marks
