"dp-knockoff select and moments: what they print, what they write, what they refuse, and that nothing is half done."
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dp_knockoff.cli import as_json, main, quoted
from dp_knockoff.filter import knockoff_filter
from dp_knockoff.ground import linear_model
from dp_knockoff.method_three import filter_three
from dp_knockoff.moments import Clip, Moments

BUDGET = ["--epsilon", "2", "--delta", "1e-4"]
BOUNDS = ["--row-bound", "2", "--response-bound", "4"]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    "Every test in a folder of its own, with a small table in it"
    monkeypatch.chdir(tmp_path)
    X, y, beta = linear_model(4000, p=8, k=5, amplitude=1.0, random_state=0)
    table = pl.DataFrame({**{f"{'signal' if b else 'null'}{j}": X[:, j] for j, b in enumerate(beta)}, "y": y})
    table.write_parquet("t.parquet"); table.write_csv("t.csv")
    return table


def run(capsys, *argv):
    "Exit code, standard output, standard error"
    capsys.readouterr()
    code = main(list(argv))
    out = capsys.readouterr()
    return code, out.out, out.err


SELECT = ["select", "t.parquet", "--target", "y", *BUDGET, *BOUNDS, "--seed", "1"]


def test_command_is_the_function(capsys, folder):
    code, out, _ = run(capsys, *SELECT, "--json", "--fdr", ".3")
    names = [c for c in folder.columns if c != "y"]
    expected = filter_three(folder.select(names).to_numpy(), folder["y"].to_numpy(), epsilon=2.0, delta=1e-4, row_bound=2.0, response_bound=4.0,
                            fdr=.3, random_state=1)
    result = json.loads(out)
    assert code == 0 and np.allclose(result["W"], expected.W) and result["features"] == names
    assert result["selected"] == [names[j] for j in np.flatnonzero(expected.support)] and result["threshold"] == pytest.approx(expected.threshold)
    assert (result["method"], result["epsilon"], result["delta"], result["fdr"]) == ("three", 2.0, 1e-4, .3)
    assert "every pair of datasets" in result["guarantee"]


def test_csv_parquet_and_several_files_agree(capsys, folder):
    folder[:1500].write_csv("a.csv"); folder[1500:].write_csv("b.csv")
    W = [json.loads(run(capsys, "select", *files, *SELECT[2:], "--json")[1])["W"] for files in (["t.parquet"], ["t.csv"], ["a.csv", "b.csv"])]
    assert np.allclose(W[0], W[1]) and np.allclose(W[0], W[2])


def test_table_report_and_files(capsys):
    code, out, _ = run(capsys, *SELECT, "--out", "r.json", "--out", "r.csv", "--out", "r.png")
    assert code == 0 and out.splitlines()[0].split() == ["feature", "W", "sign", "selected"] and "Guarantee:" in out and "Spent" in out
    result = json.loads(Path("r.json").read_text())
    table = pl.read_csv("r.csv")
    assert table.columns == ["feature", "W", "sign", "selected"] and table["feature"].to_list() == result["features"]
    assert table.filter(pl.col("selected") == 1)["feature"].to_list() == result["selected"]
    assert Path("r.png").read_bytes()[:4] == b"\x89PNG"
    assert sorted(os.listdir(".")) == ["r.csv", "r.json", "r.png", "t.csv", "t.parquet"]     # no leftovers


def test_nothing_selected_is_valid_json(capsys):
    result = json.loads(run(capsys, *SELECT, "--fdr", ".01", "--json")[1])
    assert result["selected"] == [] and result["threshold"] is None and "Nothing selected" in result["explanation"]


def test_moments_across_machines_and_reuse_of_a_release(capsys, folder):
    folder[:1000].write_parquet("a.parquet"); folder[1000:].write_csv("b.csv")
    for part in ("a.parquet", "b.csv"): assert run(capsys, "moments", part, "--target", "y", *BOUNDS, "--out", part[0] + ".npz")[0] == 0
    assert run(capsys, "moments", "a.npz", "b.npz", "--out", "total.npz")[0] == 0
    whole = json.loads(run(capsys, *SELECT, "--json", "--save-release", "release.npz")[1])
    added = json.loads(run(capsys, "select", "total.npz", *BUDGET, "--seed", "1", "--json")[1])
    again = json.loads(run(capsys, "select", "release.npz", "--seed", "1", "--json")[1])
    assert np.allclose(whole["W"], added["W"], atol=1e-7) and whole["W"] == again["W"] and again["epsilon"] == 2.0
    m = Moments.load("total.npz")
    assert m.clip == Clip(2.0, 4.0) and m.n == 4000
    assert run(capsys, "moments", "t.csv", "--target", "y", "--out", "raw.npz")[0] == 0 and Moments.load("raw.npz").clip is None
    plain = json.loads(run(capsys, "select", "raw.npz", "--method", "none", "--seed", "1", "--json")[1])
    names = [c for c in folder.columns if c != "y"]
    assert np.allclose(plain["W"], knockoff_filter(folder.select(names).to_numpy(), folder["y"].to_numpy(), random_state=1).W)


def test_ranges_center_rounds_columns(capsys):
    Path("ranges.json").write_text(json.dumps({"signal0" if "signal0" in pl.read_csv("t.csv", n_rows=1).columns else "null0": [-2, 2]}))
    some = [c for c in pl.read_csv("t.csv", n_rows=1).columns if c != "y"][:6]
    code, out, _ = run(capsys, *SELECT, "--columns", ",".join(some), "--ranges", "ranges.json", "--response-center", "1", "--rounds", "2", "--json")
    result = json.loads(out)
    assert code == 0 and result["features"] == some and "in 2 rounds" in " ".join(result["notes"]) and "ranges" in result["guarantee"]


@pytest.mark.parametrize("method", ["one", "two"])
def test_methods_of_the_paper(capsys, method):
    code, out, _ = run(capsys, "select", "t.parquet", "--target", "y", "--method", method, "--epsilon", ".9", "--delta", ".1", "--row-bound", "8",
                       "--sigma", "1", "--beta-norm", "3", "--seed", "1", "--json", *(["--bounds", "coupled"] if method == "two" else []))
    result = json.loads(out)
    assert code == 0 and result["method"] == method and "not differential privacy for every pair" in result["guarantee"]


def test_dry_run_reads_no_rows_and_draws_nothing(capsys, monkeypatch):
    import dp_knockoff.mechanisms as mechanisms
    import dp_knockoff.sources as sources
    def never(*args, **kwargs): raise AssertionError("touched")
    monkeypatch.setattr(sources.Source, "__call__", never)
    monkeypatch.setattr(mechanisms.NumpySampler, "gaussian", never)
    code, out, _ = run(capsys, *SELECT[:-2], "--dry-run")
    assert code == 0 and "4,000 rows and 8 columns" in out and "expected power" in out and "nothing was spent" in out
    code, out, _ = run(capsys, "select", "t.csv", *SELECT[2:-2], "--dry-run", "--rows", "1e6")
    assert code == 0 and "1,000,000 rows" in out


def test_private_bounds(capsys):
    code, out, _ = run(capsys, "select", "t.parquet", "--target", "y", *BUDGET, "--row-bound", "private", "--response-bound", "private", "--seed", "1")
    assert code == 0 and "row bound" in out


BAD = {
    "missing target": ["select", "t.csv", *BUDGET, *BOUNDS],
    "no such target": ["select", "t.csv", "--target", "z", *BUDGET, *BOUNDS],
    "no such file": ["select", "u.csv", "--target", "y", *BUDGET, *BOUNDS],
    "other ending": ["select", "t.xlsx", "--target", "y", *BUDGET, *BOUNDS],
    "no epsilon": ["select", "t.csv", "--target", "y", "--delta", "1e-6", *BOUNDS],
    "epsilon 0": ["select", "t.csv", "--target", "y", "--epsilon", "0", "--delta", "1e-6", *BOUNDS],
    "no delta": ["select", "t.csv", "--target", "y", "--epsilon", "1", *BOUNDS],
    "no row bound": ["select", "t.csv", "--target", "y", *BUDGET, "--response-bound", "1"],
    "no response bound": ["select", "t.csv", "--target", "y", *BUDGET, "--row-bound", "1"],
    "bound is text": ["select", "t.csv", "--target", "y", *BUDGET, "--row-bound", "long", "--response-bound", "1"],
    "negative bound": ["select", "t.csv", "--target", "y", *BUDGET, "--row-bound", "-1", "--response-bound", "1"],
    "fdr": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--fdr", "2"],
    "method": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--method", "four"],
    "option of another method": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--beta-norm", "1"],
    "budget without privacy": ["select", "t.csv", "--target", "y", "--method", "none", "--epsilon", "1"],
    "no sigma": ["select", "t.csv", "--target", "y", "--method", "two", *BUDGET, "--row-bound", "9", "--beta-norm", "3"],
    "picture format": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--out", "a.docx"],
    "no such folder": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--out", "no/a.json"],
    "release into no folder": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--save-release", "no/a.npz"],
    "unknown column": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--columns", "nobody"],
    "ranges": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--ranges", "none.json"],
    "dry run without rows": ["select", "t.csv", "--target", "y", *BUDGET, *BOUNDS, "--dry-run"],
    "too many signals": ["select", "t.parquet", "--target", "y", *BUDGET, *BOUNDS, "--dry-run", "--signals", "9"],
    "moments out": ["moments", "t.csv", "--target", "y", "--out", "m.csv"],
    "one bound": ["moments", "t.csv", "--target", "y", "--row-bound", "1", "--out", "m.npz"],
    "two archives": ["select", "a.npz", "b.npz", *BUDGET],
    "no archive": ["select", "a.npz", *BUDGET],
}


@pytest.mark.parametrize("argv", BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(capsys, monkeypatch, argv):
    import dp_knockoff.mechanisms as mechanisms
    def never(*args, **kwargs): raise AssertionError("noise was drawn")
    monkeypatch.setattr(mechanisms.NumpySampler, "gaussian", never)
    before = sorted(os.listdir("."))
    code, out, err = run(capsys, *argv, *(["--seed", "1"] if argv[0] == "select" else []))
    assert code == 2 and out == "" and err.startswith("dp-knockoff: ") and len(err.strip().splitlines()) == 1
    assert sorted(os.listdir(".")) == before


@pytest.mark.parametrize("column,value,says", [("null", None, "missing"), ("null", "red", "number"), ("y", None, "missing")])
def test_bad_columns_are_named(capsys, folder, column, value, says):
    name = next(c for c in folder.columns if c.startswith(column))
    rows = folder[name].to_list()
    rows[17] = value if value is None else str(value)
    folder.with_columns(pl.Series(name, [r if r is None else str(r) for r in rows])).write_csv("bad.csv")
    code, _, err = run(capsys, "select", "bad.csv", *SELECT[2:])
    assert code == 2 and repr(name) in err and says in err


def test_interrupted_run_writes_nothing(capsys, monkeypatch):
    import dp_knockoff.sources as sources
    Path("r.json").write_text("before")
    monkeypatch.setattr(sources.Source, "__call__", lambda *args, **kwargs: (_ for _ in ()).throw(KeyboardInterrupt))
    code, out, err = run(capsys, *SELECT, "--out", "r.json")
    assert code == 130 and out == "" and Path("r.json").read_text() == "before" and sorted(os.listdir(".")) == ["r.json", "t.csv", "t.parquet"]


def test_as_a_process():
    "The installed command, its progress on standard error, its exit code"
    done = subprocess.run([sys.executable, "-c", "import sys; from dp_knockoff.cli import main; sys.exit(main())", *SELECT, "--json"],
                          capture_output=True, text=True)
    assert done.returncode == 0 and len(json.loads(done.stdout)["W"]) == 8 and "Traceback" not in done.stderr


def test_names_in_csv_are_quoted(): assert [quoted(n) for n in ("a", "a,b", 'a"b')] == ["a", '"a,b"', '"a""b"']


def test_json_of_the_plain_filter(folder):
    names = [c for c in folder.columns if c != "y"]
    result = json.loads(as_json(knockoff_filter(folder.select(names).to_numpy(), folder["y"].to_numpy(), random_state=0)))
    assert result["epsilon"] is None and result["method"] == "none" and "Not private" in result["guarantee"]
