"The command line: what it prints, what it writes, what it refuses, and that nothing is half done."
import compileall
import csv
import gzip
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import fields
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calls import filter_one, filter_two, labels_filter, moments_filter, products_filter
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.dictionary import Column
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import ExactMoments, Moments
from dp_knockoff.data.source import Source
from dp_knockoff.evidence.simulation import Experiment
from dp_knockoff.filters.estimate import PrivateMoments
from dp_knockoff.filters.methods import METHODS, ask, knockoff_filter, load_release, private_filter, takes
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.filters.products_method import ProductsRelease
from dp_knockoff.knockoffs.laws import Gaussian
from dp_knockoff.knockoffs.statistics import Statistic
from dp_knockoff.practice import cli, planning
from dp_knockoff.practice.cli import _parser, main
from dp_knockoff.practice.planning import outlook
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.samplers import NumpySampler, SecureSampler
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import RULES, SIMULATION, KnockoffPlus

COMMAND = str(Path(sys.executable).parent / "dp-knockoff")
BUDGET = ["--epsilon", "2", "--delta", "1e-4"]
BOUNDS = ["--row-bound", "2", "--response-bound", "4"]
PAPER = ["--epsilon", ".9", "--delta", ".1", "--row-bound", "8", "--sigma", "1", "--beta-norm", "3"]
PRODUCTS = ["--method", "products", *BUDGET, "--law", "public.csv", "--response-bound", "6"]
LABELS = ["--method", "labels", *BUDGET, "--response-bound", "6", "--sigma", "1"]
ON_TABLE = ["select", "t.parquet", "--target", "y"]
ON_CSV = ["select", "t.csv", "--target", "y"]
COLLECT = ["moments", "t.csv", "--target", "y"]
CREATE = ["ledger", "l.jsonl", "--create"]
GOOD = [*ON_CSV, *BUDGET, *BOUNDS]
ONE, TWO = ([*ON_CSV, "--method", word, *PAPER] for word in ("one", "two"))
KNOCKOFFS = ["--rule", "knockoffs"]
ONCE = ["--rounds", "1"]
SEED = ["--simulation", "--seed", "1"]
SELECT = [*ON_TABLE, *BUDGET, *BOUNDS, *SEED]
RELEASE = SELECT[:-len(SEED)]
MOMENTS = dict(epsilon=2.0, delta=1e-4, row_bound=2.0, response_bound=4.0)  # BUDGET and BOUNDS
SIMULATED = dict(simulation=True, random_state=1)  # SEED

PUBLIC = np.random.default_rng(3).standard_normal((500, 8))  # other people, of the same law


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    "Every test in a folder of its own, with a small table in it"
    monkeypatch.chdir(tmp_path)
    X, y, beta = linear_model(4000, p=8, k=5, amplitude=1.0, random_state=0)
    columns = {f"{'signal' if b else 'null'}{j}": X[:, j] for j, b in enumerate(beta)}
    table = pl.DataFrame({**columns, "y": y})
    table.write_parquet("t.parquet")
    table.write_csv("t.csv")
    pl.DataFrame(PUBLIC, schema=list(columns)).write_csv("public.csv")
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


def plain(guarantee):
    "A guarantee as JSON has it"
    return json.loads(json.dumps(guarantee.to_dict()))


def said(found): return " ".join(found["guarantee"]["lines"])


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
    assert np.allclose(found["W"], expected.W) and found["variables"] == names
    assert found["selected"] == [names[j] for j in np.flatnonzero(expected.support)]
    assert found["threshold"] == pytest.approx(expected.threshold)
    assert (found["method"], found["rule"], expected.rule.name) == ("moments", "bh", "bh")
    assert (found["epsilon"], found["delta"], found["fdr"]) == (2.0, 1e-4, .3)
    assert found["noise"] == pytest.approx(expected.noise) and found["guarantee"] == plain(expected.guarantee)
    assert found["simulation"] is True and said(found).startswith(SIMULATION)
    assert set(found) == {"selected", "variables", "W", "signs", "threshold", "method", "rule", "epsilon",
                          "delta", "fdr", "rows_per_person", "simulation", "noise", "guarantee",
                          "explanation", "notes", "effects", "diagnosis", "any_rate", "at_least", "response"}
    assert found["response"] == "y"
    assert [row["name"] for row in found["effects"]] == found["selected"]
    assert [row["low"] for row in found["effects"]] == pytest.approx(list(expected.effects.low))
    assert set(found["effects"][0]) == {"name", "variable", "estimate", "se", "low", "high", "z", "pvalue",
                                       "reference"}


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
                [*BUDGET, *BOUNDS, "--balance", "2", "--rounds", "2", "--sigma", "1.1"],
                dict(**MOMENTS, balance=2.0, rounds=2, sigma=1.1)),
    "moments, knockoffs": (moments_filter, [*BUDGET, *BOUNDS, *KNOCKOFFS, "--s", "sdp", "--offset", "0",
                                            "--statistic", "ols,csm"],
                           dict(**MOMENTS, rule="knockoffs", s="sdp", offset=0,
                                statistic=Statistic("ols", "csm"))),
    "moments, private": (moments_filter,
                         [*BUDGET, "--row-bound", "private", "--response-bound", "private"],
                         dict(epsilon=2.0, delta=1e-4, row_bound="private", response_bound="private")),
    "moments, centre": (moments_filter, [*BUDGET, *BOUNDS, "--response-center", "private"],
                        dict(**MOMENTS, response_center="private")),
    "moments, all private": (moments_filter, [*BUDGET, "--row-bound", "private", "--response-bound",
                                              "private", "--response-center", "private", *ONCE],
                             dict(epsilon=2.0, delta=1e-4, row_bound="private", response_bound="private",
                                  response_center="private", rounds=1)),
    "moments, rows": (moments_filter, [*BUDGET, *BOUNDS, "--rows-per-person", "2"],
                      dict(**MOMENTS, rows_per_person=2)),
    "moments, bh": (moments_filter, [*BUDGET, *BOUNDS, "--rule", "bh", "--response-center", ".5"],
                    dict(**MOMENTS, rule="bh", response_center=.5)),
    **{f"moments, {rule}": (moments_filter, [*BUDGET, *BOUNDS, "--rule", rule, "--fdr", ".4"],
                            dict(**MOMENTS, rule=rule, fdr=.4)) for rule in ("dbh", "by", "ebh")},
    "labels": (labels_filter, [*LABELS[2:], "--row-bound", "3"],
               dict(epsilon=2.0, delta=1e-4, response_bound=6.0, sigma=1.0, row_bound=3.0)),
    "products": (products_filter, [*PRODUCTS[2:], "--rounds", "2", "--response-center", ".5"],
                 dict(epsilon=2.0, delta=1e-4, response_bound=6.0, rounds=2, response_center=.5,
                      law=Gaussian.from_public(PUBLIC))),
    "products, rows": (products_filter, [*PRODUCTS[2:], "--rows-per-person", "2", "--row-bound", "2"],
                       dict(epsilon=2.0, delta=1e-4, response_bound=6.0, rows_per_person=2, row_bound=2.0,
                            law=Gaussian.from_public(PUBLIC))),
    "labels, bh": (labels_filter, [*LABELS[2:], "--rule", "bh", "--fdr", ".1", "--intercept"],
                   dict(epsilon=2.0, delta=1e-4, response_bound=6.0, sigma=1.0, rule="bh", fdr=.1)),
}


@pytest.mark.parametrize("case", EVERY)
def test_every_method_and_its_options(capsys, folder, case):
    function, options, arguments = EVERY[case]
    word = case.partition(",")[0]
    private = word != "none"
    found = result(capsys, *ON_TABLE, "--method", word, *options, *(SEED if private else SEED[1:]))
    expected = function(folder, "y", **arguments, **(SIMULATED if private else {"random_state": 1}))
    assert found["method"] == word and np.allclose(found["W"], expected.W)
    assert found["signs"] == expected.signs.tolist() and found["noise"] == pytest.approx(expected.noise)
    assert len(found["selected"]) == len(expected)
    if word != "products": assert found["guarantee"] == plain(expected.guarantee)  # a file's law has names
    assert found["explanation"] == expected.explain() and found["notes"] == list(expected.notes)
    assert found["simulation"] is private
    usual = "bh" if word in ("moments", "labels") else "knockoffs"
    assert found["rule"] == expected.rule.name == arguments.get("rule", usual)
    if expected.estimate is None: assert found["effects"] is None
    else:
        for column in ("estimate", "se", "low", "high", "z"):
            told = [row[column] for row in found["effects"]]
            assert told == pytest.approx(list(getattr(expected.effects, column)))
    unit = arguments.get("rows_per_person", 1) if word in ("moments", "labels", "products") else None
    assert found["rows_per_person"] == unit


def test_methods_of_the_paper_say_what_they_do_not_protect(capsys):
    for word in ("one", "two"):
        guarantee = result(capsys, *ON_TABLE, "--method", word, *PAPER)["guarantee"]
        assert guarantee["privacy"]["strict"] is False


def test_csv_parquet_and_several_files_agree(capsys, folder):
    folder[:1500].write_csv("a.csv")
    folder[1500:].write_csv("b.csv")
    files = (["t.parquet"], ["t.csv"], ["a.csv", "b.csv"], ["[ab].csv"])
    W = [result(capsys, "select", *names, *SELECT[2:])["W"] for names in files]
    for other in W[1:]: assert np.allclose(W[0], other)


def test_table_report_and_files(capsys):
    code, out, _ = run(capsys, *SELECT, "--out", "r.json", "--out", "r.csv", "--out", "r.png")
    assert code == 0 and "Simulation: NOT private" in out
    found = json.loads(Path("r.json").read_text())
    table = pl.read_csv("r.csv")
    assert table.columns == ["variable", "W", "sign", "selected", "estimate", "se", "low", "high", "pvalue",
                             "guarantee", "diagnosis", "simulation", "response"]
    assert set(table["simulation"]) == {"NOT private"} and set(table["guarantee"]) == {said(found)}
    chosen = table.filter(pl.col("selected") == 1)
    for name in ("estimate", "se", "low", "high", "pvalue"):
        assert chosen[name].to_list() == [row[name] for row in found["effects"]]
    assert table["variable"].to_list() == found["variables"]
    assert table["W"].to_list() == found["W"] and table["sign"].to_list() == found["signs"]
    assert table.filter(pl.col("selected") == 1)["variable"].to_list() == found["selected"]
    assert Path("r.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(os.listdir(".")) == ["public.csv", "r.csv", "r.json", "r.png", "t.csv", "t.parquet"]


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "exact"])
def test_what_is_printed_is_the_selection(capsys, folder, rule):
    out = run(capsys, *SELECT, "--rule", rule, "--fdr", ".4")[1]
    expected = moments_filter(folder, "y", **MOMENTS, rule=rule, fdr=.4, **SIMULATED)
    assert out.startswith(repr(expected))


def test_names_of_any_kind_survive_a_csv_file(capsys, folder):
    names = ["plain", "with, comma", 'with "quotes"', "with\nnewline", "ünïcode", "=1+1", " spaces ", "a'b"]
    folder.rename(dict(zip(folder.columns, [*names, "y"]))).write_parquet("odd.parquet")
    assert run(capsys, "select", "odd.parquet", *SELECT[2:], "--out", "r.csv", "--out", "r.json")[0] == 0
    with open("r.csv", encoding="utf-8", newline="") as file: rows = list(csv.DictReader(file))
    assert [row["variable"] for row in rows] == [f"'{name}" if name == "=1+1" else name for name in names]
    assert json.loads(Path("r.json").read_text(encoding="utf-8"))["variables"] == names


def test_nothing_selected_is_valid_json(capsys):
    for more in ([*KNOCKOFFS, "--fdr", ".01"], ["--epsilon", ".001"], ["--epsilon", ".001", *ONCE]):
        found = result(capsys, *SELECT, *more)
        assert found["selected"] == found["effects"] == [] and found["threshold"] is None
        assert "Nothing selected" in found["explanation"]


def test_json_of_the_plain_filter(capsys):
    found = result(capsys, *ON_TABLE, "--method", "none", "--seed", "1")
    assert found["simulation"] is False and found["rows_per_person"] is None
    assert found["epsilon"] is None and found["delta"] is None and found["noise"] == {}
    assert found["method"] == "none" and "Not private" in said(found) and found["effects"] is None


def test_moments_across_machines_and_reuse_of_a_release(capsys, folder):
    folder[:1000].write_parquet("a.parquet")
    folder[1000:].write_csv("b.csv")
    for part in ("a.parquet", "b.csv"):
        assert run(capsys, "moments", part, "--target", "y", *BOUNDS, "--out", part[0] + ".npz")[0] == 0
    assert run(capsys, "moments", "a.npz", "b.npz", "--out", "total.npz")[0] == 0
    whole = result(capsys, *SELECT, *ONCE, "--save-release", "release.npz")
    for files in (["total.npz"], ["a.npz", "b.npz"]):
        for more in ([], ONCE):
            summed = result(capsys, "select", *files, *BUDGET, *SEED, *more)
            assert whole == summed | {"response": "y"}  # bit by bit; sums do not know what y was called
    again = result(capsys, "select", "release.npz")
    assert whole["W"] == again["W"] and again["epsilon"] == 2.0 and again["notes"] == whole["notes"]
    rounds = result(capsys, *SELECT, "--save-release", "rounds.npz")
    assert result(capsys, "select", "rounds.npz") == rounds != whole
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
    assert loose["rule"] == "bh" and result(capsys, *again, "--rule", "bh", "--fdr", ".5") == loose
    release = PrivateMoments.load("release.npz")
    for rule in ("knockoffs", "dbh", "by"):
        found = result(capsys, *again, "--rule", rule, "--sigma", "1.1")
        assert found["rule"] == rule and found["W"] == select(release, rule=rule, sigma=1.1).W.tolist()
    found = result(capsys, *again, *KNOCKOFFS, "--s", "equi", "--offset", "0")
    assert found["W"] == select(release, rule=KnockoffPlus(s="equi", offset=0)).W.tolist()
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
    assert found["variables"] == some and "in 2 rounds" in " ".join(found["notes"])

# a release, and a simulation of one


def test_a_release_is_exact_noise_and_a_guarantee(capsys, folder):
    Path("ranges.json").write_text(json.dumps({folder.columns[0]: [-2, 2]}))
    argv = [*RELEASE, "--rows-per-person", "3", "--ranges", "ranges.json", "--out", "r.png"]
    one, two = (result(capsys, *argv, "--save-release", name) for name in ("a.npz", "b.npz"))
    for found in (one, two):
        assert found["simulation"] is False and found["rows_per_person"] == 3
        assert found["guarantee"]["privacy"]["strict"]
        assert "any 3 rows" in said(found) and "ranges" in said(found)
        assert "OpenDP" in found["notes"][-1] and "NumPy" not in json.dumps(found)
    assert one["W"] != two["W"]  # nothing decides the noise
    out = run(capsys, "select", "a.npz")[1]
    assert "differential privacy" in out and "Simulation" not in out


def test_without_opendp_there_is_no_release(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    monkeypatch.setattr(Source, "_pass", never)
    code, out, err = run(capsys, *RELEASE, "--json", "--out", "r.json")
    assert code == 2 and out == "" and "OpenDP" in err and not Path("r.json").exists()


def test_a_simulation_says_so_everywhere(capsys):
    out = run(capsys, *SELECT, "--save-release", "s.npz", "--out", "r.svg", "--out", "r.json")[1]
    assert SIMULATION in out and SIMULATION in said(json.loads(Path("r.json").read_text()))
    assert SIMULATION in run(capsys, "select", "s.npz", "--fdr", ".3")[1]
    assert PrivateMoments.load("s.npz").simulated
    one, two = (result(capsys, *RELEASE, "--simulation")["W"] for _ in range(2))
    assert one != two  # without a seed, another simulation every time
    for word in ("one", "two"):
        found = result(capsys, *ON_TABLE, "--method", word, *PAPER, *SEED)
        assert said(found).startswith(SIMULATION) and found["simulation"] is True


@pytest.mark.parametrize("word", METHODS)
def test_who_may_have_a_seed_and_a_ledger(capsys, monkeypatch, word):
    options = {"none": [], "moments": [*BUDGET, *BOUNDS], "labels": LABELS[2:],
               "products": PRODUCTS[2:], "tests": PRODUCTS[2:]}.get(word, PAPER)
    argv = [*ON_TABLE, "--method", word, *options]
    Ledger("ledger.jsonl", epsilon=3, delta=1e-3)
    if word == "none":
        assert run(capsys, *argv, "--seed", "0")[0] == 0
        assert "--simulation has no meaning for --method none" in run(capsys, *argv, "--simulation")[2]
    draw_nothing(monkeypatch)
    monkeypatch.setattr(Source, "_pass", never)
    if word != "none":
        code, out, err = run(capsys, *argv, "--seed", "0")
        assert code == 2 and out == "" and "--seed belongs to simulations" in err and "--simulation" in err
    if word in ("moments", "labels", "products", "tests"): return
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
    assert run(capsys, *charged, "--simulation", "--seed", "1", "--epsilon", "1")[0] == 0
    entries = Ledger("l.jsonl").entries
    assert [(e.what, e.unit, e.epsilon, e.simulated) for e in entries] == [
        ("moments", "1 row", 2.0, False), ("moments", "1 row", 1.0, True)]
    before = Path("l.jsonl").read_bytes()
    lines = run(capsys, "ledger", "l.jsonl")[1].splitlines()
    assert len(lines) == 4 and "2 releases" in lines[0] and "simulation: NOT private" in lines[2]
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
        argv = ["select", part, "--target", "y", *BUDGET, *BOUNDS, *ONCE, "--simulation", "--seed", seed]
        assert run(capsys, *argv, "--save-release", part[0] + ".npz")[0] == 0
    found = result(capsys, "select", "a.npz", "b.npz", "--fdr", ".3", "--save-release", "both.npz")
    a, b = (PrivateMoments.load(name) for name in ("a.npz", "b.npz"))
    expected = select(a + b, fdr=.3)
    assert found["W"] == expected.W.tolist() and found["epsilon"] == 2.0 and found["simulation"] is True
    assert found["noise"]["products"] == pytest.approx(np.hypot(a.product_sds, b.product_sds)[0])
    assert result(capsys, "select", "both.npz", "--fdr", ".3") == found
    Path("copy.npz").write_bytes(Path("a.npz").read_bytes())
    for files in (["a.npz", "copy.npz"], ["both.npz", "b.npz"]):
        code, out, err = run(capsys, "select", *files)
        assert code == 2 and out == "" and "added twice" in err
        assert f"{files[1]!r} does not fit {files[0]!r}" in err
    assert "more than once" in run(capsys, "select", "a.npz", "a.npz")[2]
    assert run(capsys, *SELECT, *ONCE, "--row-bound", "3", "--save-release", "other.npz")[0] == 0
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
    assert code == 2 and out == "" and long.startswith(short) and "the first in row 17" in long
    assert len(short.splitlines()) == 1 and len(long.splitlines()) == 2


def test_text_files_that_are_written_otherwise(capsys, folder):
    "A separator and commas in numbers, for reading and for a template"
    folder.write_csv("rows.csv")
    rows = Path("rows.csv").read_text()
    Path("other.csv").write_text(rows.replace(",", ";").replace(".", ","))
    more = ["--target", "y", *BUDGET, *BOUNDS, *SEED]
    wanted = run(capsys, "select", "rows.csv", *more)
    assert wanted[0] == 0
    for words in (["--sep", ";"], []): # semicolons are the default where numbers have commas
        assert run(capsys, "select", "other.csv", *more, "--decimal", ",", *words) == wanted
    Path("tabs.csv").write_text(rows.replace(",", "\t"))
    assert run(capsys, "select", "tabs.csv", *more, "--sep", "\\t") == wanted
    text = run(capsys, "dictionary", "rows.csv", "--target", "y")
    assert run(capsys, "dictionary", "other.csv", "--target", "y", "--decimal", ",") == text
    for words in (("--sep", "ab"), ("--decimal", "x"), ("--sep", ",", "--decimal", ",")):
        code, out, said = run(capsys, "select", "rows.csv", *more, *words)
        assert code == 2 and out == "" and words[0] in said and len(said.splitlines()) == 1


# a dry run


@pytest.fixture
def quick(monkeypatch):
    "Few plausible tables: what they are like is tested elsewhere"
    monkeypatch.setattr(planning, "_TABLES", 6)
    monkeypatch.setattr(planning, "_RELEASES", 2)


def release_nothing(monkeypatch):
    "From here on no noise is drawn for a release, and no row of a file is read"
    for how in ("gaussian", "laplace", "lattice"): monkeypatch.setattr(SecureSampler, how, never)
    monkeypatch.setattr(Source, "_pass", never)


@pytest.mark.parametrize("options, says", [
    ([*BUDGET, *BOUNDS], "mean "),
    ([*BUDGET, "--row-bound", "private", "--response-bound", "private"],
     "\nrow_bound and response_bound would be found privately with a tenth of the budget"),
    ([*BUDGET, *BOUNDS, "--response-center", "private"],
     "\nresponse_center would be found privately with a tenth of the budget"),
    (["--method", "two", *PAPER, "--bounds", "coupled"], "Expected power"),
    (["--method", "one", *PAPER], "as large as --beta-norm allows"),
    (LABELS, "noise scales"),
    (["--method", "none"], "there is no plan to make"),
])
def test_dry_run_reads_no_rows_and_draws_nothing(capsys, monkeypatch, quick, options, says):
    release_nothing(monkeypatch)
    code, out, _ = run(capsys, *ON_TABLE, *options, "--dry-run")
    assert "No row was read" in out
    assert code == 0 and says in out
    if "none" not in options: assert "4,000 rows and 8 columns" in out and "nothing was spent" in out
    if not {"none", "one", "two"} & set(options): assert re.search(r"\n  power +\d.\d\d to \d.\d\d ", out)


def test_dry_run_of_a_file_that_does_not_tell_its_rows(capsys, quick):
    code, out, _ = run(capsys, *ON_CSV, *BUDGET, *BOUNDS, "--dry-run", "--rows", "1e6")
    assert code == 0 and "1,000,000 rows" in out and "No row was read" not in out
    assert "Of CSV files the header and the first lines were looked at" in out and "nothing was spent" in out


def test_dry_run_of_collected_moments_takes_their_bounds(capsys, quick):
    assert run(capsys, *COLLECT, *BOUNDS, "--out", "m.npz")[0] == 0
    on_moments = run(capsys, "select", "m.npz", *BUDGET, "--dry-run")[1]
    assert on_moments == run(capsys, *ON_TABLE, *BUDGET, *BOUNDS, "--dry-run", *ONCE)[1]
    assert on_moments == run(capsys, "select", "m.npz", *BUDGET, "--dry-run", *ONCE)[1]
    assert on_moments != run(capsys, *ON_TABLE, *BUDGET, *BOUNDS, "--dry-run")[1]


def foretold(capsys, *argv):
    "A dry run as JSON"
    return result(capsys, *argv, "--dry-run", "--standardized")


@pytest.mark.parametrize("data, more, rounds", [
    ("t.parquet", [], 3), ("t.csv", ["--rows", "4000"], 3), ("t.parquet", ["--rounds", "2"], 2),
    ("t.parquet", ONCE, 1), ("m.npz", [], 1), ("m.npz", ONCE, 1)])
def test_a_dry_run_simulates_the_release_that_would_be_made(capsys, quick, data, more, rounds):
    if data == "m.npz":
        assert run(capsys, *COLLECT, *BOUNDS, "--out", "m.npz")[0] == 0
        argv = ["select", data, *BUDGET]
    else: argv = ["select", data, "--target", "y", *BUDGET, *BOUNDS]
    told = foretold(capsys, *argv, *more)
    names = tuple(name for name in pl.read_parquet("t.parquet").columns if name != "y")
    scenario = planning.Scenario(4000, tuple(Column(name) for name in names), standardized=True)
    o = outlook(scenario, MomentsMethod(**MOMENTS, rounds=rounds))
    expected = json.loads(json.dumps(o.to_dict()))
    assert o.rounds == rounds and {name: told[name] for name in expected} == expected
    assert (told["rows"], told["columns"], told["epsilon"], told["delta"]) == (4000, 8, 2.0, 1e-4)


def test_a_dry_run_takes_the_rule_the_rate_and_what_is_assumed(capsys, quick):
    argv = [*ON_TABLE, *BUDGET, *BOUNDS]
    assumed = ["--signals", "3", "--share", ".1", "--correlation", ".3", "--response-sd", "2"]
    told = foretold(capsys, *argv, "--rule", "by", "--fdr", ".1", *assumed)
    names = tuple(name for name in pl.read_parquet("t.parquet").columns if name != "y")
    scenario = planning.Scenario(4000, tuple(Column(name) for name in names), standardized=True, signals=3,
                                 share=.1, correlation=.3, response_sd=2.0)
    o = outlook(scenario, MomentsMethod(**MOMENTS), fdr=.1, rule="by")
    assert told["rule"] == "by" and (told["power"], told["low"], told["high"]) == (o.power, o.low, o.high)
    ranges = {name: [-3, 3] for name in names}
    Path("r.json").write_text(json.dumps(ranges))
    in_ranges = ["--ranges", "r.json", "--spread", ".3"]
    bare, ranged = (result(capsys, *argv, "--dry-run", *more) for more in ([], in_ranges))
    assert "no range" in bare["warnings"][0] and not ranged["warnings"] and bare["power"] < ranged["power"]
    assert "spreads by 0.3 of half its range" in ranged["assumed"]


def test_more_rounds_are_worth_it_and_the_dry_run_says_so(capsys):
    argv = [*ON_TABLE, *BUDGET, *BOUNDS, "--share", ".9", "--rounds"]
    effects = [foretold(capsys, *argv, k)["effect"] for k in "14"]
    assert effects[0] < .9 * effects[1]


def test_dry_run_says_when_there_are_too_few_signals(capsys, quick):
    argv = [*ON_TABLE, *BUDGET, *BOUNDS, *KNOCKOFFS, "--dry-run"]
    assert "at least 5 variables or none" in run(capsys, *argv, "--signals", "3")[1]
    assert "or none" not in run(capsys, *argv, "--signals", "5")[1]


def test_tests_of_estimates_may_find_one_column(capsys, quick):
    argv = [*ON_TABLE, *BUDGET, *BOUNDS, "--dry-run", "--signals", "3"]
    for more in ([], ["--rule", "bh"], ["--rule", "by"]): assert "or none" not in run(capsys, *argv, *more)[1]


def test_the_noise_foretold_for_labels_is_the_noise_drawn(capsys, quick):
    out = run(capsys, *ON_TABLE, *LABELS, "--row-bound", "1", "--dry-run")[1]
    drawn = result(capsys, *ON_TABLE, *LABELS, "--row-bound", "1", *SEED)["noise"]["products"]
    assert re.search(rf"noise scales +products {drawn:.4g}\n", out)


@pytest.mark.parametrize("options", [[*BUDGET, *BOUNDS, *ONCE], [*LABELS, "--row-bound", "1"]])
def test_noise_foretold_grows_with_the_rows_of_a_person(capsys, quick, options):
    def number(out):
        return float(re.search(r"noise scales .*products ([\d.]+)", out)[1])
    argv = [*ON_TABLE, *options, "--dry-run", "--standardized", "--rows-per-person"]
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
    "no row bound": ([*ON_CSV, *BUDGET, *BOUNDS[2:]], "is missing: pass a public number"),
    "no response bound": ([*ON_CSV, *BUDGET, *BOUNDS[:2]], "is missing: pass a public"),
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
    "rule without estimates": ([*TWO, "--rule", "bh"], "--rule='bh' needs estimates"),
    "statistic with a rule": ([*GOOD, "--rule", "bh", "--s", "mvr"], "draws no knockoffs"),
    "s without knockoffs": ([*GOOD, "--s", "mvr"], "--s='mvr' has no meaning for --rule bh, which draws no"),
    "offset without knockoffs": ([*GOOD, "--offset", "0"], "--offset=0 has no meaning for --rule bh"),
    "statistic without knockoffs": ([*GOOD, "--statistic", "ols"], "has no meaning for --rule bh"),
    "e-values have their own": ([*GOOD, "--rule", "ebh", "--s", "mvr"], "which has its own"),
    "centre is text": ([*GOOD, "--response-center", "middle"], "--response-center='middle' is not a number"),
    "private centre, no intercept": ([*GOOD, "--response-center", "private", "--no-intercept"],
                                     "='private' needs an intercept to take it up"),
    "private centre of labels": ([*ON_CSV, *LABELS, "--response-center", "private"],
                                 "='private' is not a finite number"),
    "private centre of moments": ([*COLLECT, *BOUNDS, "--response-center", "private", "--out", "m.npz"],
                                  "'private' bounds take passes"),
    "statistic": ([*GOOD, "--statistic", "forest"], "--statistic 'forest': estimate='forest' is unknown"),
    "statistic without penalty": ([*GOOD, "--statistic", "lasso,lcd"], "needs its weight"),
    "too many words": ([*GOOD, "--statistic", "lasso,lcd,1,2"], "--statistic='lasso,lcd,1,2'"),
    "statistic of method two": ([*TWO, "--statistic", "path"], "least-squares"),
    "s": ([*GOOD, *KNOCKOFFS, "--s", "best"], "s='best' is unknown"),
    "offset": ([*GOOD, *KNOCKOFFS, "--offset", "2"], "offset=2 is unknown"),
    "rounds": ([*GOOD, "--rounds", "1.5"], "--rounds='1.5' is not a whole number"),
    "no rounds": ([*GOOD, "--rounds", "0"], "rounds=0 is not a whole number of at least 1"),
    "shares": ([*ONE, "--epsilon-split", ".5,.5"], "is not 3 positive shares"),
    "other result": ([*GOOD, "--out", "a.txt"], "one of '.html', '.json', '.csv', '.png', '.pdf', '.svg'"),
    "result that is a release": ([*GOOD, "--out", "a.npz"], "to keep the release, pass --save-release"),
    "no such folder": ([*GOOD, "--out", "no/a.json"], "folder that does not exist"),
    "release into no folder": ([*GOOD, "--save-release", "no/a.npz"], "does not exist"),
    "release no archive": ([*GOOD, "--save-release", "a.csv"], "does not end in .npz"),
    "release of method two": ([*TWO, "--save-release", "a.npz"],
                              "--save-release has no meaning for --method two: leave it out"),
    "unknown column": ([*GOOD, "--columns", "nobody"], "no column 'nobody'"),
    "ranges": ([*GOOD, "--ranges", "none.json"], "--ranges 'none.json' cannot be read"),
    "ranges of nothing": ([*GOOD, "--ranges", "t.csv"], "is not a JSON object"),
    "dry run without rows": ([*GOOD, "--dry-run"], "--rows is missing"),
    "dry run without bounds": ([*ON_TABLE, *BUDGET, "--dry-run"], "bound is missing"),
    "dry run of estimates": ([*ON_TABLE, "--method", "two", *PAPER, "--sigma", "estimate", "--dry-run"],
                             "--sigma estimate takes the data"),
    "part of a row": ([*GOOD, "--dry-run", "--rows", "10.5"], "not a whole number"),
    "too many signals": ([*ON_TABLE, *BUDGET, *BOUNDS, "--dry-run", "--signals", "9"],
                         "--signals=9 is more than the 8 variables"),
    "moments out": ([*COLLECT, "--out", "m.csv"], "--out 'm.csv' does not end in .npz"),
    "moments without target": (["moments", "t.csv", "--out", "m.npz"], "--target is missing"),
    "one bound": ([*COLLECT, "--row-bound", "1", "--out", "m.npz"], "belong together"),
    "centre alone": ([*COLLECT, "--response-center", "1", "--out", "m.npz"], "belong together"),
    "private moments": ([*COLLECT, *BOUNDS, "--row-bound", "private", "--out", "m.npz"],
                        "'private' bounds take passes"),
    "two archives": (["select", "a.npz", "b.npz", *BUDGET], "'a.npz' does not exist"),
    "no archive": (["select", "a.npz", *BUDGET], "'a.npz' does not exist"),
    "no ledger": ([*GOOD, "--ledger", "l.jsonl"], "ledger 'l.jsonl' does not exist: create it"),
    "ledger that is none": ([*GOOD, "--ledger", "t.csv"], "is damaged, or is not a ledger"),
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
    for more in (["--save-release", "b.npz"], ["--seed", "1"], ["--simulation"], ["--ledger", "l.jsonl"],
                 ["--beta-norm", "1"]):
        code, out, err = run(capsys, "select", "release.npz", *more)
        assert code == 2 and out == "" and f"{more[0]} has no meaning for" in err
    assert "'t.csv' is not" in run(capsys, "select", "release.npz", "t.csv", "--target", "y")[2]
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
                       (["m.npz", *BUDGET, "--rounds", "2", "--dry-run"], "these rows are summed already"),
                       (["m.npz", *BUDGET, "--response-center", "private"],
                        "response_center given along with Moments"),
                       (["m.npz", *LABELS], "cannot be read again"),
                       (["m.npz", "--method", "none"], "in bounds"),
                       (["raw.npz", *BUDGET], "without bounds"),
                       (["raw.npz", *BUDGET, "--dry-run"], "without bounds"),
                       (["m.npz", "t.csv", *BUDGET, "--target", "y"], "'t.csv' cannot be read with")):
        code, out, err = run(capsys, "select", *argv)
        assert code == 2 and out == "" and says in err, argv


@pytest.mark.parametrize("more", [["--response-center", "private"], BOUNDS, ["--no-intercept"]], ids=str)
def test_a_dry_run_refuses_what_a_release_of_collected_moments_refuses(capsys, more):
    assert run(capsys, *COLLECT, *BOUNDS, "--out", "m.npz")[0] == 0
    code, out, err = run(capsys, "select", "m.npz", *BUDGET, *more, "--dry-run")
    assert code == 2 and out == "" and "given along with Moments" in err


def test_a_damaged_archive_is_named(capsys):
    Path("broken.npz").write_bytes(b"PK nothing")
    np.savez("other.npz", x=np.ones(3))
    for name in ("broken.npz", "other.npz"):
        code, _, err = run(capsys, "select", name, *BUDGET)
        assert code == 2 and name in err and "damaged" in err


@pytest.mark.parametrize("column, value, says", [("null", None, "missing"), ("null", "red", "numeric"),
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
    assert sorted(os.listdir(".")) == ["public.csv", "r.json", "t.csv", "t.parquet"]


def test_too_little_memory_is_a_sentence(capsys, monkeypatch):
    def full(*args): raise MemoryError
    monkeypatch.setattr(Source, "_pass", full)
    code, _, err = run(capsys, *SELECT)
    assert code == 2 and "not enough memory" in err


# what the methods take is what the command takes


def parameters():
    "All that methods, rules and selections take"
    rules = [field.name for field in fields(KnockoffPlus)]
    return {"fdr", "rule", *rules, *(name for word in METHODS for name in takes(word))}


def test_options_are_the_parameters_of_methods_and_rules():
    args = _parser().parse_args(["select", "t.csv"])
    for name in parameters(): assert getattr(args, name) is None


def test_every_parameter_has_its_help():
    for cls in (*METHODS.values(), KnockoffPlus, planning.Scenario, Experiment):
        for field in fields(cls):
            offered = cls is not planning.Scenario or field.name in cli._TOLD
            assert not offered or field.metadata["help"], (cls, field.name)


@pytest.mark.parametrize("how", ["-O", "-OO"])
def test_help_needs_no_source(tmp_path, how):
    "A copy of the package without its sources, or without docstrings"
    copy = tmp_path / "copy" / "dp_knockoff"
    shutil.copytree(Path(cli.__file__).parents[1], copy, ignore=shutil.ignore_patterns("__pycache__"))
    if how == "-O":
        compileall.compile_dir(copy, quiet=2, legacy=True, optimize=1)
        for path in copy.rglob("*.py"): path.unlink()
    code = "import sys; from dp_knockoff.practice.cli import main; main(['select', '--help'])"
    done = subprocess.run([sys.executable, how, "-c", code], capture_output=True, text=True,
                          cwd=tmp_path / "copy", env={**os.environ, "PYTHONPATH": str(tmp_path / "copy")})
    assert done.returncode == 0 and "--rows-per-person" in done.stdout, done.stderr
    assert "rounds with noise" in done.stdout


def test_help_is_that_of_the_fields(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit): main(["select", "--help"])
    lines = capsys.readouterr().out.splitlines()

    def says(option):
        at = next(at for at, line in enumerate(lines) if line.lstrip().startswith(option + " "))
        told = lines[at].strip().split("  ", 1)[1:]  # a long option has its help in the next line
        return (told or [lines[at + 1]])[0].strip()

    assert says("--rounds") == (
        "[moments] rounds with noise; default: 3, or 1 where rows are read only once; "
        "[products, tests] passes with noise; default: 3, or 1 where rows are read only once")
    assert says("--response-center") == (
        "[moments] public centre of the response, or 'private'; default: the dictionary's, or 0; "
        "[labels, products] public centre of the response; default: the dictionary's, or 0; "
        "[tests] public centre of the response, or 'private'; default: 0, or found in its public "
        "range")
    assert says("--balance") == (
        "[moments] how much more precisely X'X is released than X'y in the first round (default 1.4)")
    for rule in RULES: assert re.search(rf"\b{rule}\b", says("--rule"))
    assert says("--law").startswith("[none, products, tests] public table")
    assert "TOML file" in says("--dictionary")
    assert says("--ledger").startswith("[moments, labels, products, tests] enter the release")
    assert says("--save-release").startswith("[moments, products, tests] keep the release")
    assert says("--beta-max").startswith("[two] public bound on the largest |beta_j|")
    assert "[one, two] public bound" in says("--row-bound") and "[labels]" in says("--row-bound")
    assert says("--offset") == "1: knockoff+; 0: modified rate only (default 1)"  # for all methods: no list
    told = "\n".join(lines[lines.index("methods:"):lines.index("examples:")])
    assert re.findall(r"(?m)^  (\w+)  +\w", told) == list(METHODS)


@pytest.mark.parametrize("command", cli._COMMANDS)
def test_every_command_has_help_of_80_columns_with_examples(capsys, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit) as done: main([command, "--help"])
    out = capsys.readouterr().out
    assert done.value.code == 0 and f"usage: dp-knockoff {command}" in out
    assert max(map(len, out.splitlines())) <= 80
    told = out.partition("\nexamples:\n")[2].splitlines()
    assert len([line for line in told if line.startswith("  dp-knockoff ")]) == len(cli._LINES[command]) >= 2


@pytest.mark.parametrize("line", [line for lines in cli._LINES.values() for line in lines])
def test_every_example_parses(line):
    words = shlex.split(line.replace("\\\n", " "))
    assert words[0] in cli._COMMANDS and _parser().parse_args(words).command == words[0]


def test_examples_of_the_first_help_run_as_they_stand(capsys, monkeypatch, folder):
    folder.rename({"y": "wage"}).write_csv("wage.csv")
    first, second, _ = (shlex.split(line) for line in cli._LINES[""])
    assert run(capsys, *first)[0] == 0
    Path("wage.toml").write_text(Path("wage.toml").read_text().replace("[]", "[-5, 5]"))
    code, out, err = run(capsys, *second)
    assert code == 0 and "(epsilon=1, delta=1e-06)-differential privacy" in out, err


def test_options_stand_in_groups(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    groups = ["data", "privacy", "bounds and other public facts (from the dictionary, unless given)",
              "selection", "method", "output", "trying out"]
    with pytest.raises(SystemExit): main(["select", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert [line[:-1] for line in lines if line.rstrip(":") in groups] == groups
    with pytest.raises(SystemExit): main(["release", "--help"])
    lines = capsys.readouterr().out.splitlines()
    assert "selection:" not in lines and not any("--fdr" in line for line in lines[:-4])


# exit codes, and what may have been meant

def test_exit_codes_are_those_of_the_help(capsys, monkeypatch):
    with pytest.raises(SystemExit) as done: main(["--help"])
    out = capsys.readouterr().out
    assert done.value.code == 0
    assert re.findall(r"(?m)^  (\d+) ", out.partition("exit codes:")[2]) == ["0", "1", "2", "130"]
    assert run(capsys, *SELECT)[0] == 0 and run(capsys, *SELECT, "--fdr", "2")[0] == 2
    def interrupted(*args): raise KeyboardInterrupt
    monkeypatch.setattr(Source, "_pass", interrupted)
    assert run(capsys, *SELECT)[0] == 130


def test_a_fault_of_our_own_is_exit_code_1_and_a_traceback():
    code = ("import sys\nfrom dp_knockoff.practice import cli\ndef fail(args): 1 / 0\n"
            "cli._COMMANDS['fail'] = ('fail', lambda command: None, fail)\nsys.exit(cli.main(['fail']))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and "ZeroDivisionError" in done.stderr


MEANT = {
    "command": (["selct", "t.csv"], "'selct' is not a command (did you mean 'select'?)"),
    "no command": (["analyse", "t.csv"], "'analyse' is not a command; see `dp-knockoff --help`"),
    "option": ([*ON_CSV, "--epsilonn", "1"], "--epsilonn is not an option (did you mean '--epsilon'?)"),
    "option with =": ([*ON_CSV, "--epsilonn=1"], "--epsilonn is not an option (did you mean '--epsilon'?)"),
    "abbreviation": ([*ON_CSV, "--eps", "1"], "--eps is not an option (did you mean '--epsilon'?)"),
    "of select": (["release", "t.csv", "--fdr", ".1"], "--fdr is not an option; see `dp-knockoff release"),
    "of the first parser": (["--versoin"], "--versoin is not an option (did you mean '--version'?)"),
    "method": ([*GOOD, "--method", "momments"], "--method='momments' is unknown (did you mean 'moments'?)"),
    "rule": ([*GOOD, "--rule", "knockof"], "--rule='knockof' is unknown (did you mean 'knockoffs'?)"),
    "target": (["select", "trial.csv", "--target", "wgae", *BUDGET, *BOUNDS],
               "'wgae' is not a column of 'trial.csv' (did you mean 'wage'?)"),
    "column": (["select", "trial.csv", "--target", "wage", *BUDGET, *BOUNDS, "--columns", "hieght"],
               "has no column 'hieght' (did you mean 'height'?)"),
    "nothing": (["select"], "the following arguments are required: FILE"),
    "value": ([*ON_CSV, "--seed", "x"], "invalid int value: 'x'"),
    "no value": ([*ON_CSV, "--epsilon"], "expected one argument"),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_may_have_been_meant_is_said_in_one_sentence(capsys, name):
    argv, says = MEANT[name]
    Path("trial.csv").write_text("height,age,wage\n1,2,3\n2,4,1\n")
    try: code = main(argv)
    except SystemExit as done: code = done.code
    out, err = capsys.readouterr()
    assert code == 2 and out == "" and err.startswith("dp-knockoff: ") and err.count("\n") == 1
    assert says in err


# one vocabulary

def test_options_are_words_of_python():
    "But for what only a command line has, and the older name of --simulation"
    args = vars(_parser().parse_args(["select", "t.csv"]))
    python = {"data", "columns", "dictionary", "groups", "method", "ledger", "simulation", "target",
              *parameters()}
    own = {"command", "run", "verbose", "seed", "json", "out", "save_release", "dry_run", "rows",
           "sep", "decimal", *cli._TOLD} # how a text file is written is for `open_source` to know
    assert set(args) - own == python
    for other, more in (("release", ["--out", "r.npz"]), ("moments", ["--out", "m.npz"])):
        theirs = vars(_parser().parse_args([other, "t.csv", *more]))
        assert set(theirs) - {"raw"} <= set(args)
    old, new = (_parser().parse_args(["select", "t.csv", word]) for word in ("--simulate", "--simulation"))
    assert old == new and old.simulation is True


def test_a_parser_can_be_used_twice():
    top = _parser()
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
    assert rows[0] == "delta,method,n,trials,power,power_se,fdr,fdr_se"
    assert [row.split(",")[:4] for row in rows[1:]] == [
        [delta, "two", str(n), trials] for delta, trials in (("2p/n", "50"), ("0.5", "10"))
        for n in (10**4, 10**5, 10**6)]
    said = capsys.readouterr().out
    assert "Method II" in said and "delta = 2p/n, 50 datasets" in said and "delta = 0.5, 10 datasets" in said
    assert Path("out/figure.png").stat().st_size > 10_000
    assert sorted(os.listdir("out")) == ["figure.csv", "figure.json", "figure.png"]
    asked = json.loads(Path("out/figure.json").read_text())
    assert (asked["p"], asked["k"], asked["delta"], asked["bounds"]) == (12, 6, .5, "paper")
    assert (asked["methods"], asked["trials"], asked["seed"]) == (["two"], 50, 0)


def test_figure_knows_all_methods_that_can_be_simulated(capsys):
    assert main(["figure", "--sizes", "3e4", "--trials", "4", *SMALL]) == 0
    out = capsys.readouterr().out
    for label in ("no privacy", "Method I", "Method II", "moments filter", "products filter", "tests"):
        assert label in out
    rows = Path("figure/figure.csv").read_text().splitlines()[1:]
    words = ["none", "one", "two", "moments", "products", "tests"]
    assert [row.split(",")[:2] for row in rows] == [
        [delta, word] for delta in ("2p/n", "1e-6") for word in words]
    assert json.loads(Path("figure/figure.json").read_text())["delta"] == 1e-6


@pytest.mark.parametrize("command", ["figure", "plan"])
def test_simulations_have_a_delta_that_protects(command, capsys, monkeypatch):
    "Not the paper's 2p/n, which can be asked for"
    assert _parser().parse_args([command]).delta == "1e-6"
    assert _parser().parse_args([command, "--delta", "2p/n"]).delta == "2p/n"
    monkeypatch.setenv("COLUMNS", "1000")
    with pytest.raises(SystemExit): main([command, "--help"])
    said = capsys.readouterr().out
    assert "privacy budget: a number, '2p/n' (the paper's) or '1/n' (default 1e-6)" in said


def test_figure_resumes_only_the_same_question(capsys):
    file = Path("out/figure.csv")
    assert main([*FIGURE, "--out", "out"]) == 0
    lines = file.read_text().splitlines()
    fields = lines[1].split(",")
    lines[1] = ",".join([*fields[:4], "0.123456", *fields[5:]])  # must not be computed again
    file.write_text("\n".join(lines[:2]) + "\n")
    assert main([*FIGURE, "--out", "out", "--resume"]) == 0
    assert file.read_text().splitlines() == lines
    assert main([*FIGURE, "--out", "out", "--resume", "--seed", "1"]) == 2
    assert "other settings (seed)" in capsys.readouterr().err
    file.write_text("delta,method,n\n2p/n,two,many\n")
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
    (["plan", "--fdr", "1"], "fdr=1"), (["demo", "--fdr", "7"], "fdr=7"), (["demo", "--n", "0"], "n=0"),
    (["demo", "--epsilon", "0"], "epsilon=0"), (["demo", "--k", "51"], "k=51"),
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


def test_plan_for_a_table_prints_an_answer(capsys, quick, trial):
    argv = ["plan", "--dictionary", "design.toml", "--epsilon", "2", "--response-bound", "8", "--fdr", ".4",
            "--share", ".3", "--signals", "3", "--power", ".6"]
    code, out, err = run(capsys, *argv)
    assert (code, err) == (0, "") and out.startswith("Method tests: power 0.6 needs about n = ")
    assert "Nothing was read, nothing was spent" in out and "rows drawn from the public distribution" in out
    assert run(capsys, *argv, "--rule", "knockoffs")[1].startswith("Method products: power 0.6 needs")
    moments = [*argv, "--method", "moments", "--row-bound", "1.5", "--rule", "bh", "--power", ".5"]
    assert run(capsys, *moments)[1].startswith("Method moments: power 0.5 needs")


@pytest.mark.parametrize("more, says", [
    (["--amplitude", "2"], "--amplitude has no meaning with --dictionary"),
    (["--trials", "7"], "--trials has no meaning with --dictionary"),
    (["--method", "two"], "--method='two' is unknown: choose one of 'moments', 'products', 'tests'"),
    (["--row-bound", "2", "--rule", "bh"], "--row-bound has no meaning for --method tests"),
    (["--signals", "9"], "--signals=9 is more than the 5 variables"),
    (["--response-bound", "8", "--delta", "1/n"], "--delta='1/n' is not a number")])
def test_plan_for_a_table_refuses(capsys, trial, more, says):
    code, out, err = run(capsys, "plan", "--dictionary", "design.toml", *more)
    assert code == 2 and out == "" and says in err


def test_plan_for_a_table_needs_a_bound_or_a_range_of_the_response(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    facts = 'levels = ["u", "v"]\nprobabilities = [0.5, 0.5]\n'
    columns = "".join(f"[columns.{name}]\n{facts}" for name in "abcdef")
    Path("bare.toml").write_text(f'target = "y"\n{columns}')
    code, out, err = run(capsys, "plan", "--dictionary", "bare.toml")
    assert code == 2 and out == "" and "bound is missing" in err


@pytest.mark.parametrize("option", [["--share", ".1"], ["--row-bound", "2"], ["--standardized"]])
def test_plan_for_an_experiment_has_no_table(capsys, option):
    assert f"{option[0]} has no meaning without --dictionary" in run(capsys, "plan", *option)[2]


def test_plan_warns(capsys):
    assert main(["plan", "--method", "none", *SMALL, "--rho", ".9", "--trials", "20"]) == 0
    assert "Warning: correlation will cost power" in capsys.readouterr().err


def test_demo_tells_the_truth(capsys):
    assert main(["demo", "--n", "300", "--p", "20", "--k", "0", "--out", "a.svg"]) == 0
    out = capsys.readouterr().out
    assert "there are no signals" in out and "Picture: a.svg" in out and Path("a.svg").exists()
    assert main(["demo"]) == 0
    out = capsys.readouterr().out
    assert "Simulation: NOT private" in out and "(epsilon=1, delta=1e-06)" in out
    assert "100% of the signals found" in out


def test_a_table_of_a_simulation_says_so_in_every_line(tmp_path):
    from dp_knockoff.practice.cli import _write_selection
    X, y, _ = linear_model(300, p=6, k=3, random_state=0)
    public = dict(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=9.0)
    simulated = moments_filter(X, y, **public, simulation=True, random_state=0)
    for selection, marks in ((simulated, 6), (knockoff_filter(X, y, random_state=0), 0)):
        _write_selection(selection, str(tmp_path / "table.csv"))
        head, *lines = (tmp_path / "table.csv").read_text().splitlines()
        assert head.endswith(",simulation") == bool(marks)
        assert len(lines) == 6 and sum(line.endswith(",NOT private") for line in lines) == marks


# a public law, dictionaries, groups

FACTORS = ("arm", "site", "sex", "day", "form")
COLUMN = """
[columns.{name}]
levels = ["no", "pill", "diet"]
"""
CHANCES = "probabilities = [0.5, 0.25, 0.25]\n"
ON_TRIAL = ["select", "trial.csv", "--dictionary", "design.toml", *BUDGET, "--response-bound", "4",
            "--fdr", ".4"]


@pytest.fixture
def trial():
    "A table of text, and what is public about it: with the chances of all columns, and without those of one"
    rng = np.random.default_rng(5)
    drawn = rng.choice(["no", "pill", "diet"], (4000, 5), p=[.5, .25, .25])
    y = (drawn[:, [0, 2, 4]] == "pill").sum(axis=1) + rng.standard_normal(4000)
    table = pl.DataFrame({**dict(zip(FACTORS, drawn.T)), "y": y})
    table.write_csv("trial.csv")
    table.write_parquet("trial.parquet")
    columns = [COLUMN.format(name=name) + CHANCES for name in FACTORS]
    Path("design.toml").write_text('target = "y"\n' + "".join(columns) + "\n[columns.y]\nrange = [-9, 9]\n")
    columns[1] = columns[1].replace(CHANCES, "")
    Path("facts.toml").write_text('target = "y"\n' + "".join(columns))
    return table


CHOSEN = "Method {} was chosen, as the distribution of the rows is public"
BY_KNOCKOFFS = [*ON_TRIAL, "--rule", "knockoffs"]


@pytest.mark.parametrize("word, more, own", [
    ("tests", [], {}), ("tests", ["--rule", "by"], dict(rule="by")),
    ("products", ["--rule", "knockoffs"], {}), ("products", ["--row-bound", "2"], dict(row_bound=2.0)),
    ("products", ["--offset", "1"], {})])
def test_a_design_with_probabilities_chooses_as_private_filter_and_says_so(capsys, trial, word, more, own):
    expected = ask(word, trial, dictionary="design.toml", epsilon=2.0, delta=1e-4, response_bound=4.0,
                   fdr=.4, **own, **SIMULATED)
    found, chosen = result(capsys, *ON_TRIAL, *more, *SEED), CHOSEN.format(word)
    assert found["method"] == word and found["W"] == pytest.approx(list(expected.W))
    assert found["variables"] == list(FACTORS) and {"arm", "sex", "form"} <= set(found["selected"])
    assert found["notes"][:-1] == list(expected.notes) and found["notes"][-1].startswith(chosen)
    assert chosen in run(capsys, *ON_TRIAL, *more, *SEED)[1]
    named = result(capsys, *ON_TRIAL, *more, *SEED, "--method", word)
    assert named["W"] == found["W"] and not any(chosen in note for note in named["notes"])


def test_a_design_gives_the_same_for_every_file(capsys, trial):
    found = result(capsys, *ON_TRIAL, *SEED)
    assert result(capsys, *ON_TRIAL, *SEED, "--target", "y")["W"] == found["W"]
    parquet = [word.replace(".csv", ".parquet") for word in ON_TRIAL]
    assert result(capsys, *parquet, *SEED)["W"] == pytest.approx(found["W"], rel=1e-9)


def test_a_public_table_chooses_tests_too(capsys, folder):
    named = result(capsys, *ON_TABLE, *PRODUCTS, *SEED, "--method", "tests")
    assert result(capsys, *ON_TABLE, *PRODUCTS[2:], *SEED)["W"] == named["W"]


def test_moments_are_chosen_without_the_chances_of_all_columns(capsys, trial):
    argv = [word.replace("design", "facts") for word in ON_TRIAL]
    found = result(capsys, *argv, "--row-bound", "2", *SEED)
    assert found["method"] == "moments" and found["variables"] == list(FACTORS)
    expected = moments_filter(trial, dictionary="facts.toml", **MOMENTS, fdr=.4, **SIMULATED)
    assert found["W"] == pytest.approx(list(expected.W))
    some = result(capsys, *argv, *SEED, "--columns", "arm,sex,form")  # what is left has its chances
    assert some["method"] == "tests" and some["variables"] == ["arm", "sex", "form"]
    said = run(capsys, *argv, "--method", "products")[2]
    assert "law says nothing about the columns 'site=pill', 'site=diet'" in said
    collect = ["moments", "trial.csv", "--dictionary", "design.toml", *BOUNDS, "--out", "m.npz"]
    assert run(capsys, *collect)[0] == 0
    summed = result(capsys, "select", "m.npz", "--dictionary", "design.toml", *BUDGET, *SEED)
    assert summed["method"] == "moments" and summed["variables"] == list(FACTORS)


@pytest.mark.parametrize("name, text", [
    ("g.json", '{"who": ["sex", "site"]}'), ("g.toml", 'who = ["sex", "site"]'),
    ("h.toml", '[groups]\nwho = ["sex", "site"]')])
def test_groups_from_files_have_their_names_everywhere(capsys, trial, name, text):
    Path(name).write_text(text)
    outs = ["--out", "r.json", "--out", "r.csv", "--out", "r.svg"]
    code, out, _ = run(capsys, *ON_TRIAL, *SEED, "--groups", name, *outs)
    names = ["arm", "who", "day", "form"]
    assert code == 0 and re.search(r"(?m)^  who +\|z\| = ", out) and not re.search(r"(?m)^  (sex|site) ", out)
    found = json.loads(Path("r.json").read_text())
    assert found["variables"] == names and "who" in found["selected"] and len(found["W"]) == 4
    assert [row["variable"] for row in csv.DictReader(Path("r.csv").read_text().splitlines())] == names
    drawn = Path("r.svg").read_text()
    assert ">who</text>" in drawn and ">sex</text>" not in drawn


def test_groups_work_for_every_method(capsys, folder):
    Path("g.json").write_text(json.dumps({"pair": folder.columns[:2]}))
    for options in ([*BUDGET, *BOUNDS, *SEED], [*LABELS, *SEED], [*PRODUCTS, *SEED], ["--method", "none"],
                    ["--method", "two", *PAPER, *SEED]):
        found = result(capsys, *ON_TABLE, *options, "--groups", "g.json")
        assert found["variables"] == ["pair", *folder.columns[2:-1]]


def test_a_law_of_more_columns_than_are_used(capsys, folder):
    some = folder.columns[2:6]
    found = result(capsys, *ON_TABLE, *PRODUCTS, *SEED, "--columns", ",".join(some))
    law = Gaussian.from_public(PUBLIC[:, 2:6])
    expected = products_filter(folder.select(some).to_numpy(), folder["y"].to_numpy(), law=law, epsilon=2.0,
                               delta=1e-4, response_bound=6.0, **SIMULATED)
    assert found["variables"] == some and found["W"] == pytest.approx(list(expected.W))


def test_releases_of_products_are_saved_asked_again_and_added(capsys, trial):
    parts = ["a.npz", "b.npz"]
    for k, path in enumerate(parts):
        trial[2000 * k:2000 * (k + 1)].write_csv("part.csv")
        argv = [word.replace("trial.csv", "part.csv") for word in ON_TRIAL]
        saved = result(capsys, *argv, "--method", "products", "--rounds", "1", *SEED[:1], "--seed", str(k),
                       "--save-release", path)
    again = result(capsys, "select", "b.npz", "--fdr", ".4")
    assert again["W"] == saved["W"] and again["method"] == "products" and again["variables"] == list(FACTORS)
    both = result(capsys, "select", *parts, "--fdr", ".4", "--save-release", "c.npz")
    total = ProductsRelease.load("a.npz") + ProductsRelease.load("b.npz")
    assert both["W"] == pytest.approx(list(select(total, fdr=.4).W)) and both["epsilon"] == 2.0
    assert ProductsRelease.load("c.npz").n == 4000
    assert run(capsys, *SELECT, "--save-release", "m.npz")[0] == 0
    said = run(capsys, "select", "a.npz", "m.npz")[2]
    assert "'a.npz' is a release of method products, and 'm.npz' of moments: they cannot be added" in said
    shutil.copy("a.npz", "copy.npz")
    assert "these hold some of the same rows" in run(capsys, "select", "a.npz", "copy.npz")[2]
    for more in (["--dictionary", "design.toml"], ["--groups", "g.json"], ["--law", "public.csv"], BUDGET):
        said = run(capsys, "select", "a.npz", *more)[2]
        assert f"{more[0]} cannot be changed for a release that exists: leave it out" in said
    said = run(capsys, "moments", "a.npz", "--out", "n.npz")[2]
    assert "'a.npz' is a release, not moments" in said
    assert "This release exists already" in run(capsys, "select", "a.npz", "--dry-run")[1]


def test_releases_of_several_rounds_are_not_added(capsys, trial):
    for argv, kind, rounds in ((BY_KNOCKOFFS, ProductsRelease, 3), (RELEASE, PrivateMoments, 3)):
        for path in ("a.npz", "b.npz"): assert run(capsys, *argv, *SEED, "--save-release", path)[0] == 0
        assert kind.load("a.npz").rounds == rounds
        said = run(capsys, "select", "a.npz", "b.npz")[2]
        assert "releases of several rounds cannot be added" in said and "rounds=1" in said


def test_dry_run_of_products_tells_rounds_and_noise_and_reads_no_rows(capsys, monkeypatch, quick, trial):
    def noise(*more):
        code, out, err = run(capsys, *argv, *more, "--dry-run")
        assert code == 0, err
        return out, float(re.search(r"noise scales +products ([\d.]+)", out)[1])
    argv = [word.replace(".csv", ".parquet") for word in BY_KNOCKOFFS]
    drawn = result(capsys, *argv, "--rounds", "1", *SEED)["noise"]["products"]
    release_nothing(monkeypatch)
    out, one = noise("--rounds", "1")
    assert re.search(r"\n  power +\d.\d\d to", out)
    assert one == pytest.approx(drawn, rel=1e-3) and "(1 round, rule knockoffs)" in out
    assert CHOSEN.format("products") in out
    assert "4,000 rows" in out and "nothing was spent" in out and "Levels(10 columns" in out
    assert "(3 rounds, rule knockoffs)" in noise()[0]
    for k, factor in ((("--rows-per-person", "3"), 3), (("--row-bound", "1"), 10**-.5)):
        assert noise("--rounds", "1", *k)[1] == pytest.approx(factor * one, rel=2e-3)


def test_dry_run_of_tests_is_their_own(capsys, monkeypatch, quick, trial):
    drawn = result(capsys, *ON_TRIAL, "--rounds", "1", *SEED)["noise"]["products"]
    release_nothing(monkeypatch)
    def told(*more):
        code, out, err = run(capsys, *ON_TRIAL, *more, "--dry-run", "--rows", "4000")
        assert (code, err) == (0, ""), err
        return out, float(re.search(r"noise scales +products ([\d.]+)", out)[1])
    out, _ = told()
    assert out.startswith("Plan: method tests on 4,000 rows") and "(3 rounds, rule bh)" in out
    assert re.search(r"\n  power +\d.\d\d to", out) and CHOSEN.format("tests") in out
    assert CHOSEN.format("tests") not in told("--method", "tests")[0]
    out, noise = told("--rounds", "1", "--rule", "exact")
    assert "(1 round, rule exact)" in out and noise == pytest.approx(drawn, rel=1e-3)
    for more in (["--rule", "knockoffs"], ["--row-bound", "2"], ["--method", "products"]):
        assert told(*more)[0].startswith("Plan: method products")


WRONG_FACTS = {
    "no dictionary": (["--dictionary", "gone.toml"], "'gone.toml' cannot be opened"),
    "no groups": (["--groups", "gone.json"], "--groups 'gone.json' cannot be read"),
    "a list of groups": (["--groups", "list.json"], "is not a JSON object like"),
    "a group of nothing": (["--groups", "wrong.json"], "'gone'"),
    "a law for moments": (["--method", "moments", "--law", "public.csv"], "--law has no meaning for --method "
                          "moments: leave it out, or pass --method none or products"),
    "a law in no table": (["--method", "products", "--law", "law.json"], "is not a public table"),
    "a law that is not there": (["--method", "products", "--law", "gone.csv"], "'gone.csv'"),
    "a law of few rows": (["--method", "products", "--law", "few.csv"], "3 rows for 8 columns"),
    "no law": (["--method", "products"], "--law is missing"),
    "an intercept for products": (["--method", "products", "--law", "public.csv", "--no-intercept"],
                                  "--no-intercept has no meaning for --method products"),
}


@pytest.mark.parametrize("name", WRONG_FACTS)
def test_wrong_facts_are_one_sentence(capsys, monkeypatch, folder, name):
    options, says = WRONG_FACTS[name]
    Path("list.json").write_text("[1]")
    Path("wrong.json").write_text('{"pair": ["gone", "y"]}')
    folder[:3, :8].write_csv("few.csv")
    draw_nothing(monkeypatch)
    bounds = BOUNDS if "products" not in options else BOUNDS[2:]
    code, out, err = run(capsys, *ON_TABLE, *BUDGET, *bounds, *options)
    assert code == 2 and out == "" and err.count("\n") == 1 and says in err


# ---------------------------------------------------------------- dictionary

def test_a_dictionary_is_written_from_names_and_types_alone(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("age,region,wage\n31,north,7.5\n44,south,8.5\n")
    assert main(["dictionary", "a.csv", "--target", "wage"]) == 0
    printed = capsys.readouterr().out
    assert 'target = "wage"' in printed and "[columns.region]\nlevels = []" in printed
    for value in ("31", "44", "north", "south", "7.5"): assert value not in printed
    Path("b.csv").write_text("age,region,wage\n90,east,1.5\n12,west,2.5\n")
    assert main(["dictionary", "b.csv", "--target", "wage"]) == 0
    assert capsys.readouterr().out == printed
    assert main(["dictionary", "a.csv", "--target", "wage", "--out", "a.toml"]) == 0
    assert Path("a.toml").read_text() == printed
    capsys.readouterr()
    empty = ["select", "a.csv", "--dictionary", "a.toml", "--epsilon", "1", "--delta", "1e-6",
             "--row-bound", "2", "--response-bound", "9"]
    assert main(empty) == 2 and "a.toml" in capsys.readouterr().err


@pytest.mark.parametrize("arguments, words", [
    (["a.csv", "--target", "wages"], "did you mean 'wage'"), (["nowhere.csv"], "nowhere.csv"),
    (["a.csv", "--out", "a.json"], ".toml"), (["a.csv", "--out", "kept.toml"], "there already")])
def test_dictionaries_that_cannot_be_written(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text("age,wage\n31,7.5\n")
    Path("kept.toml").write_text("mine")
    assert main(["dictionary", *arguments]) == 2 and words in capsys.readouterr().err
    assert Path("kept.toml").read_text() == "mine" and not Path("a.json").exists()


# ---------------------------------------------------------------- complete calls, and the release alone

WAGE = """target = "wage"
[columns.wage]
range = [0, 60]
[columns.age]
range = [16, 90]
[columns.school]
levels = ["some", "none", "much"]
[columns.shoe]
range = [30, 55]
[columns.smokes]
levels = [false, true]
"""
ON_WAGE = ["wage.csv", "--dictionary", "wage.toml", *BUDGET]


@pytest.fixture
def wage():
    "A table of people, and a dictionary that describes one column more"
    rng = np.random.default_rng(3)
    school = rng.choice(["some", "none", "much"], 8000, p=[.5, .3, .2])
    age, shoe = rng.uniform(16, 90, 8000), rng.normal(41, 3, 8000)
    pay = (.2 * age + 6 * (school == "much") + rng.gamma(2, 4, 8000)).clip(0, 60)
    table = pl.DataFrame({"age": age, "school": school, "shoe": shoe, "wage": pay})
    table.write_csv("wage.csv")
    table.write_parquet("wage.parquet")
    Path("wage.toml").write_text(WAGE)
    return table


def test_a_budget_and_a_dictionary_are_a_complete_call(capsys, wage):
    found = result(capsys, "select", *ON_WAGE, *SEED)
    expected = private_filter(wage, dictionary="wage.toml", epsilon=2.0, delta=1e-4, **SIMULATED)
    assert found["W"] == pytest.approx(list(expected.W)) and {"age", "school"} <= set(found["selected"])
    assert found["W"] == result(capsys, "select", "wage.parquet", *ON_WAGE[1:], *SEED)["W"]
    clip = expected.release.clip
    r = (1 / 3 + 2 / 3 + 1 / 3)**.5
    assert (clip.row_bound, clip.response_bound) == (pytest.approx(r / 2), 30.0)
    assert clip.response_center == 30 and set(clip.ranges) == {"age", "shoe"}
    assert clip.ends == {"age": (16, 90), "shoe": (30, 55)}
    given = result(capsys, "select", *ON_WAGE, *SEED, "--row-bound", "1", "--response-bound", "25",
                   "--response-center", "20")
    assert given["W"] != found["W"] and "row bound 1, response bound 25" in given["notes"][0]
    some = result(capsys, "select", *ON_WAGE, *SEED, "--columns", "age,school")
    assert some["variables"] == ["age", "school"]


def test_labels_follow_from_the_dictionary(capsys, wage):
    found = result(capsys, "select", *ON_WAGE, *SEED, "--method", "labels", "--sigma", "6")
    expected = labels_filter(wage, dictionary="wage.toml", epsilon=2.0, delta=1e-4, sigma=6.0,
                             response_bound=30.0, response_center=30.0, **SIMULATED)
    assert found["W"] == pytest.approx(list(expected.W))


def test_what_a_dictionary_lacks_is_named_with_the_ways_out(capsys, monkeypatch, wage):
    monkeypatch.setattr(Source, "_pass", never)
    draw_nothing(monkeypatch)
    for entry, option in (("wage", "--response-bound"), ("age", "--row-bound")):
        lines = WAGE.splitlines()
        del lines[lines.index(f"[columns.{entry}]") + 1]
        Path("wage.toml").write_text("\n".join(lines))
        for command in (["select"], ["select", "--dry-run", "--rows", "8000"], ["release", "--out", "r.npz"],
                        ["moments", "--out", "m.npz"]):
            words = ON_WAGE[:3] if command[0] == "moments" else ON_WAGE
            code, out, err = run(capsys, command[0], *words, *command[1:])
            name = option.strip("-").replace("-", "_")
            assert code == 2 and out == "" and f"{name.partition('_')[2]} is missing" in err
            assert f"add [columns.{entry}] range = [low, high], or pass {name}=..." in err
            assert "(a public number, or 'private')" in err


def test_a_release_is_made_kept_and_selected_from(capsys, wage):
    Ledger("l.jsonl", epsilon=3, delta=1e-3)
    code, out, err = run(capsys, "release", *ON_WAGE, *SEED, "--ledger", "l.jsonl", "--out", "r.npz")
    assert code == 0 and err == ""
    head, guarantee, spent, *_, line = out.splitlines()
    assert head == "Release by method moments: 8,000 rows, 3 variables, written to r.npz."
    assert guarantee == SIMULATION and spent.startswith("A release would spend (epsilon=2, delta=0.0001)")
    assert line.strip() == "dp-knockoff select r.npz --fdr 0.2"
    assert [(e.epsilon, e.simulated) for e in Ledger("l.jsonl").entries] == [(2.0, True)]
    assert run(capsys, *shlex.split(line)[1:])[0] == 0
    assert result(capsys, "select", "r.npz") == result(capsys, "select", *ON_WAGE, *SEED)
    out = run(capsys, "release", *ON_WAGE, "--out", "s.npz")[1]
    assert "(epsilon=2, delta=0.0001)-differential privacy" in out and "Spent (epsilon=2" in out
    assert not PrivateMoments.load("s.npz").simulated


def test_releases_of_trials_and_of_moments(capsys, trial):
    code, out, _ = run(capsys, "release", "trial.csv", "--dictionary", "design.toml", *BUDGET, *SEED,
                       "--out", "p.npz")
    release = load_release("p.npz")
    assert code == 0 and CHOSEN.format("tests") in out and release.method == "tests"
    assert release.response_bound == 9.0  # from its range
    found = result(capsys, "select", "p.npz")
    wanted = result(capsys, *ON_TRIAL[:4], *BUDGET, *SEED)
    assert found["W"] == wanted["W"]
    assert run(capsys, *COLLECT, *BOUNDS, "--out", "m.npz")[0] == 0
    assert run(capsys, "release", "m.npz", *BUDGET, *SEED, "--out", "q.npz")[0] == 0
    assert result(capsys, "select", "q.npz") | {"response": "y"} == result(capsys, *SELECT, *ONCE)


@pytest.mark.parametrize("more, says", [
    (["--method", "two"], "--method two has no release that can be kept: choose moments or products"),
    (["--method", "momment"], "did you mean 'moments'?"), (["--out", "a.csv"], "does not end in .npz"),
    (["--out", "no/a.npz"], "does not exist"), (["--target", "shoes"], "did you mean 'shoe'?"),
    (["--seed", "1"], "--seed belongs to simulations"), (["--ledger", "no.jsonl"], "does not exist")])
def test_a_release_is_refused_before_anything_is_read(capsys, monkeypatch, wage, more, says):
    draw_nothing(monkeypatch)
    monkeypatch.setattr(Source, "_pass", never)
    code, out, err = run(capsys, "release", *ON_WAGE, "--out", "r.npz", *more)
    assert code == 2 and out == "" and says in err and err.count("\n") == 1 and not Path("r.npz").exists()


def test_a_release_is_not_released_again(capsys, wage):
    assert run(capsys, "release", *ON_WAGE, *SEED, "--out", "r.npz")[0] == 0
    said = run(capsys, "release", "r.npz", *BUDGET, "--out", "s.npz")[2]
    assert "'r.npz' is a release already: select from it with `dp-knockoff select r.npz`" in said


def test_bounds_that_are_too_high_are_said_before_anything_is_spent(capsys, monkeypatch, wage):
    high = ["--row-bound", ".1", "--response-bound", "30"]
    err = run(capsys, "select", "wage.parquet", *ON_WAGE[1:], *high, "--dry-run")[2]
    assert err.count("Warning: response_bound=30") == 1
    def stop(*args): raise KeyboardInterrupt
    monkeypatch.setattr(Source, "_pass", stop)
    draw_nothing(monkeypatch)
    for command, more in ((["select", *ON_WAGE], []), (["release", *ON_WAGE], ["--out", "r.npz"]),
                          (["moments", *ON_WAGE[:3]], ["--out", "m.npz"])):
        err = run(capsys, *command, *high, *more)[2]
        assert err.startswith("Warning: response_bound=30 does not fit row_bound=0.1: a response is scaled")
        assert err.count("Warning") == 1
    err = run(capsys, "select", *ON_WAGE, "--response-bound", "31")[2]
    assert err.startswith("Warning: response_bound=31 is above 30, which is as far as a response can be")
    err = run(capsys, "select", *ON_WAGE, "--row-bound", "9")[2]
    assert err.startswith("Warning: row_bound=9 is above 1.73, the norm that no row exceeds")
    for more in ([], ["--row-bound", ".1"], ["--response-bound", "30"]):
        assert "Warning" not in run(capsys, "select", *ON_WAGE, *more)[2]


def test_a_delta_of_one_half_is_warned_of_by_every_private_method(capsys, wage, trial):
    for argv in (ON_WAGE, [*ON_WAGE, "--method", "labels", "--sigma", "6"],
                 ["trial.csv", "--dictionary", "design.toml", *BUDGET]):
        assert "Warning: delta=0.5 is above 1/n" in run(capsys, "select", *argv, "--delta", ".5")[2]


def test_the_response_is_no_column(capsys, wage):
    said = run(capsys, "select", *ON_WAGE, "--columns", "age,wage")[2]
    assert "holds the response 'wage': leave it out" in said


def test_moments_in_the_bounds_of_a_dictionary_are_those_of_a_selection(capsys, wage):
    for k, part in enumerate((wage[:3000], wage[3000:])):
        part.write_csv("part.csv")
        code, out, _ = run(capsys, "moments", "part.csv", *ON_WAGE[1:3], "--out", f"{k}.npz")
        assert code == 0 and "response centre 30: what is to be added must have the same" in out
    found = result(capsys, "select", "0.npz", "1.npz", *ON_WAGE[1:], *SEED)
    wanted = result(capsys, "select", *ON_WAGE, *SEED, *ONCE)
    assert found == wanted  # bit by bit
    assert run(capsys, "moments", *ON_WAGE[:3], "--raw", "--out", "raw.npz")[0] == 0
    assert Moments.load("raw.npz").n == 8000
    said = run(capsys, "moments", *ON_WAGE[:3], "--raw", "--row-bound", "1", "--out", "x.npz")[2]
    assert "--row-bound has no meaning for --raw moments" in said


def test_the_diagnosis_is_printed_and_written(capsys, wage):
    outs = ["--out", "r.json", "--out", "r.csv"]
    code, out, _ = run(capsys, "select", *ON_WAGE, *SEED, "--epsilon", ".01", "--seed", "5", *outs)
    found = json.loads(Path("r.json").read_text())
    assert code == 0 and "To find more:" in out
    assert found["diagnosis"] and set(found["diagnosis"][0]) == {"subject", "found", "change"}
    assert found["diagnosis"][0]["change"] in out
    lines = list(csv.DictReader(Path("r.csv").read_text().splitlines()))
    assert all(found["diagnosis"][0]["found"] in line["diagnosis"] for line in lines)
    assert all(line["guarantee"] == said(found) for line in lines)
    assert {line["variable"]: line["estimate"] == "" for line in lines} == {
        "age": False, "school": True, "shoe": False}  # a factor has several


# what a dry run and a failure leave behind


def without_rows(path):
    "The same Parquet file, every page of its rows overwritten: only its last bytes are what they were"
    raw = bytearray(Path(path).read_bytes())
    footer = int.from_bytes(raw[-8:-4], "little") + 8
    raw[4:-footer] = b"\xff" * (len(raw) - footer - 4)
    Path(path).write_bytes(raw)


def other_people(path):
    "The same CSV file with other rows: other numbers, other levels, values beyond every range"
    head, *rows = Path(path).read_text().splitlines()
    count = head.count(",") + 1
    Path(path).write_text("\n".join([head, *(",".join(["7e9"] * count) for _ in rows)]) + "\n")


WAGE_LABELS = ["--method", "labels", "--sigma", "6"]
DRY_RUNS = {"moments": [], "private": ["--row-bound", "private", "--response-center", "private"],
            "labels": WAGE_LABELS, "knockoffs": KNOCKOFFS}


@pytest.mark.parametrize("more", DRY_RUNS.values(), ids=DRY_RUNS)
def test_a_dry_run_says_the_same_of_a_file_without_rows(capsys, quick, wage, more):
    "Not only is no pass begun: with all pages destroyed, nothing that is said changes"
    argv = ["select", "wage.parquet", *ON_WAGE[1:], *more, "--dry-run", "--json"]
    before = run(capsys, *argv)
    without_rows("wage.parquet")
    assert before[0] == 0 and run(capsys, *argv) == before
    code, out, err = run(capsys, *argv[:-2], "--simulation")
    assert code == 2 and out == "" and "damaged" in err  # so there was something to be read


@pytest.mark.parametrize("more", DRY_RUNS.values(), ids=DRY_RUNS)
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_a_dry_run_says_the_same_of_other_rows(capsys, quick, wage, ending, more):
    "With a dictionary the first lines of a CSV file do not tell types, and nothing else is read"
    def dry():
        if ending == "csv.gz": Path("wage.csv.gz").write_bytes(gzip.compress(Path("wage.csv").read_bytes()))
        return run(capsys, "select", f"wage.{ending}", *ON_WAGE[1:], *more, "--rows", "8000", "--dry-run")
    before = dry()
    other_people("wage.csv")
    assert before[0] == 0 and dry() == before


def test_a_dry_run_says_the_same_of_other_trials_and_of_other_moments(capsys, quick, wage, trial):
    plan = [*ON_TRIAL[:4], *BUDGET, "--rows", "3000", "--dry-run"]
    collect = ["moments", *ON_WAGE[:3], "--out", "m.npz"]
    def both():
        assert run(capsys, *collect)[0] == 0
        return run(capsys, *plan), run(capsys, "select", "m.npz", *BUDGET, "--dry-run")
    before = both()
    for path in ("wage.csv", "trial.csv"): other_people(path)
    assert [code for code, *_ in before] == [0, 0] and both() == before


def test_collecting_moments_prints_nothing_of_the_rows_but_their_number(capsys, wage):
    "It printed the norm of the longest row, exactly"
    collect = ["moments", *ON_WAGE[:3], "--out", "m.npz"]
    before = run(capsys, *collect)
    other_people("wage.csv")
    assert before[0] == 0 and run(capsys, *collect) == before and "8,000 rows" in before[1]


@pytest.fixture
def full(monkeypatch):
    "From here on nothing can be written into this folder"
    from dp_knockoff.core import archives
    replace, here = os.replace, os.getcwd()
    def fails(part, path):
        if os.path.dirname(os.path.abspath(path)) == here: raise OSError(28, "No space left on device")
        replace(part, path)
    monkeypatch.setattr(archives.os, "replace", fails)


def test_a_release_that_was_paid_for_is_not_lost_with_the_disk(capsys, wage, full, tmp_path, monkeypatch):
    Ledger("l.jsonl", epsilon=9, delta=1e-3)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(elsewhere))
    kept = []
    for k, argv in enumerate((["release", *ON_WAGE, "--out", "r.npz"],
                              ["select", *ON_WAGE, "--save-release", "r.npz", "--out", "s.csv"])):
        code, out, err = run(capsys, *argv, *SEED, "--ledger", "l.jsonl")
        path = re.search(r"its budget is spent, so the release is in '([^']+)': move it", err)[1]
        assert code == 2 and "'r.npz' cannot be written (No space left on device)" in err
        assert len(Ledger("l.jsonl").entries) == k + 1
        kept.append(result(capsys, "select", path))
    assert kept[0] == kept[1] and "'s.csv' cannot be written" in err
    assert "school" in out # what was selected is shown all the same
    assert not Path("r.npz").exists() and not [name for name in os.listdir() if name.startswith(".part")]
    (tmp_path / "gone").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    (tmp_path / "gone").rmdir() # there is no place for temporary files either
    err = run(capsys, "release", *ON_WAGE, *SEED, "--out", "r.npz")[2]
    assert "its budget is spent" in err and "the release is lost" in err


def test_an_interrupted_release_is_entered_and_writes_nothing(capsys, monkeypatch, wage):
    "Between entry and draw, and amid the draws: never less in the ledger than was drawn"
    Ledger("l.jsonl", epsilon=9, delta=1e-3)
    lattice = NumpySampler.lattice
    for k, purpose in enumerate(("moments", "residuals 2", "variances")):
        def draw(self, value, scale, what, purpose=purpose):
            if what == purpose: raise KeyboardInterrupt
            return lattice(self, value, scale, what)
        monkeypatch.setattr(NumpySampler, "lattice", draw)
        code, out, err = run(capsys, "release", *ON_WAGE, *SEED, "--ledger", "l.jsonl", "--out", "r.npz")
        assert code == 130 and out == "" and "interrupted" in err and not Path("r.npz").exists()
        assert len(Ledger("l.jsonl").entries) == k + 1


@pytest.mark.parametrize("argv", [
    ["select", "wage.csv", "--out", "wage.csv"], ["select", "wage.csv", "--out", "./wage.csv"],
    ["select", "wage.csv", "--ledger", "l.json", "--out", "l.json"],
    ["select", "wage.csv", "--out", "link.csv"],
    ["release", "m.npz", "--out", "m.npz"], ["select", "m.npz", "--save-release", "m.npz"]])
def test_no_result_is_written_over_data_or_a_ledger(capsys, monkeypatch, wage, argv):
    "A ledger that is gone counts nothing"
    Ledger("l.json", epsilon=9, delta=1e-3)
    os.symlink("wage.csv", "link.csv")
    assert run(capsys, "moments", *ON_WAGE[:3], "--out", "m.npz")[0] == 0
    before = {path: Path(path).read_bytes() for path in os.listdir()}
    monkeypatch.setattr(Source, "_pass", never)
    more = [] if "m.npz" in argv else ON_WAGE[1:3]
    code, out, err = run(capsys, *argv, *more, *BUDGET, *SEED)
    assert code == 2 and out == "" and "would be written over a file that is read: choose another" in err
    assert {path: Path(path).read_bytes() for path in os.listdir()} == before


def test_moments_without_bounds_are_refused(tmp_path, capsys):
    rows = np.arange(60.0).reshape(20, 3) % 7
    np.savetxt(tmp_path / "a.csv", rows, delimiter=",", header="a,b,y", comments="")
    assert main(["moments", str(tmp_path / "a.csv"), "--target", "y", "--out", str(tmp_path / "a.npz")]) == 0
    capsys.readouterr()
    assert main(["select", str(tmp_path / "a.npz"), "--epsilon", "1", "--delta", "1e-6"]) == 2
    assert "are sums of rows without bounds" in capsys.readouterr().err
