"Every notebook runs from top to bottom: the proofs are tests."
import pytest
from nbdev.test import test_nb as run_notebook

import notebooks as nbs

NOTEBOOKS = [*nbs.paths(), *nbs.studies()]


def test_there_are_notebooks():
    "A scanner that finds nothing must not be green"
    assert len(NOTEBOOKS) >= 50


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(path.parent)
    ok, _ = run_notebook(path, do_print=False)
    assert ok, f"{path.name} failed: its traceback is above"
