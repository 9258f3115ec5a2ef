"Every notebook runs from top to bottom: the proofs are tests."
from pathlib import Path

import pytest
from nbdev.test import test_nb as run_notebook

NOTEBOOKS = sorted((Path(__file__).parent.parent / "nbs").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(path, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(path.parent)
    ok, _ = run_notebook(path, do_print=False)
    assert ok, f"{path.name} failed: its traceback is above"
