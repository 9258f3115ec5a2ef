"The paper's figure from Python: its own setting, whatever stands beside it."
import csv
from dataclasses import replace

import numpy as np
import pytest

from dp_knockoff.core.testing import refusal
from dp_knockoff.evidence.simulation import Experiment, simulate
from dp_knockoff.practice.figure import figure_settings, paper_figure, processes

QUICK = dict(sizes=[10**4], methods=["none", "two"], trials=6)


@pytest.mark.parametrize("delta, deltas", [(1e-6, ["2p/n", "1e-6"]), ("1/n", ["2p/n", "1/n"]),
                                           ("2p/n", ["2p/n"])])
def test_the_left_half_is_the_papers_own(tmp_path, delta, deltas):
    "Its delta, its constants and its number of datasets; asked for alone, it stands alone"
    said = paper_figure(tmp_path, Experiment(delta=delta), **QUICK)
    rows = list(csv.DictReader((tmp_path / "figure.csv").read_text().splitlines()))
    assert [row["delta"] for row in rows] == [delta for delta in deltas for _ in range(2)]
    assert said.count("datasets per size") == len(deltas) and "delta = 2p/n, 6 datasets" in said
    settings = {"2p/n": (Experiment(), 6)}
    settings.setdefault(deltas[-1], (Experiment(delta=delta), 2))
    assert figure_settings(Experiment(delta=delta), 6) == settings
    expected = [point for e, trials in settings.values()
                for point in simulate(e, QUICK["sizes"], QUICK["methods"], trials)]
    for row, point in zip(rows, expected):
        found = [float(row[name]) for name in ("power", "power_se", "fdr", "fdr_se")]
        assert np.allclose(found, [point.power, point.power_se, point.fdr, point.fdr_se], atol=1e-5)
        assert int(row["trials"]) == point.trials
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_progress_counts_sizes_of_both_halves(tmp_path):
    counted, e = [], Experiment(delta=1e-6)
    paper_figure(tmp_path, e, **QUICK, progress=counted.append)
    assert sum(counted) == 2
    paper_figure(tmp_path, e, **QUICK, resume=True, progress=counted.append)
    assert sum(counted) == 4 and counted[-2:] == [1, 1]  # nothing was left to simulate


def test_it_refuses(tmp_path):
    e = Experiment(delta=1e-6)
    paper_figure(tmp_path, e, **QUICK)
    assert "other settings (p)" in refusal(paper_figure, tmp_path, replace(e, p=40), **QUICK, resume=True)
    assert "methods='nine' is unknown" in refusal(paper_figure, tmp_path, e, **{**QUICK, "methods": ["nine"]})
    assert "cannot be a folder" in refusal(paper_figure, tmp_path / "figure.csv", e, **QUICK)


def test_processes_change_nothing():
    with processes(1, 10**6) as none: assert none is None
    with processes(2, 999) as none: assert none is None # not worth a start
    e = Experiment(p=8, k=4, delta=.01)
    with processes(2, 1000) as workers:
        found = simulate(e, [1000, 2000], ["two", "tests"], 60, workers=workers)
        with pytest.raises(ZeroDivisionError): # nothing is left behind for those who come next
            simulate(e, [1000], ["two"], 60, done=lambda points: 1 / 0, workers=workers)
        assert found == simulate(e, [1000, 2000], ["two", "tests"], 60)
        assert found[:2] == simulate(e, [1000], ["two", "tests"], 60, workers=workers)
