"The study of mutants: what is on file, and a sample of it again."
import ast
import shutil
from pathlib import Path

import pytest

import mutants
import notebooks

ROOT = Path(__file__).resolve().parents[2]
FILE = mutants.read_results(ROOT / "studies" / "results" / "mutants.csv")


def test_the_file_holds_the_whole_sample_and_explains_its_survivors():
    alive = [m for m in FILE if not m.killed_by]
    assert len(FILE) == mutants.SAMPLE and len(alive) <= .05 * mutants.SAMPLE
    assert all(len(m.why) > 20 for m in alive)
    page = (ROOT / "studies" / "results" / "mutants.md").read_text(encoding="utf-8")
    assert page == mutants.page(FILE)


def changed(formula):
    "All that a mutant makes of a formula"
    tree = ast.parse(formula)
    return {new for node in ast.walk(tree) for new in mutants.changes(node, formula)}


@pytest.mark.parametrize("formula, some", [
    ("a + b", {"(a) - (b)", "(a)"}), ("a ** b", {"(a) * (b)"}), ("x <= y", {"x < y"}),
    ("f(2, .5)", {"3", "0.55"}), ("-x", {"(x)"}), ("np.sqrt(x)", {"np.abs(x)"}), ("x.min()", {"x.max()"}),
    ("1e-300", set()), ("'a' + b", set())])
def test_formulas_are_changed_in_every_way(formula, some): assert changed(formula) == some


def test_sentences_and_checks_are_left_alone():
    source = ("def check_x(x):\n    if x < 1: return 2\n"
              "def f(x):\n    if x > 0: raise ValueError(f'{x + 1}')\n    return x * 2\n")
    assert {name for _, name in mutants.formulas(ast.parse(source))} == {"f"}
    found = [new for node, _ in mutants.formulas(ast.parse(source)) for new in mutants.changes(node, source)]
    assert set(found) == {"x >= 0", "1", "(x) / (2)", "3"}


def test_every_mutant_is_another_program_in_notebook_and_module(tmp_path):
    mutant = next(m for m in mutants.mutants_of("knockoffs.threshold") if ">=" in m.line)
    for name in ("dp_knockoff/knockoffs/threshold.py", "nbs/2_knockoffs/06_threshold.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    mutants.plant(mutant, tmp_path)
    assert mutant.change in (tmp_path / "dp_knockoff/knockoffs/threshold.py").read_text(encoding="utf-8")
    notebook = notebooks.read(tmp_path / "nbs/2_knockoffs/06_threshold.ipynb")
    cell = next(cell for cell in notebook["cells"] if cell["id"] == mutant.cell)
    assert mutant.change in cell["source"].split("\n")


def test_a_mutant_that_was_killed_is_killed_again(tmp_path):
    module = "knockoffs.threshold"
    (own,) = mutants.tests_of(module)
    killed = [m for m in FILE if m.module == module and m.killed_by == own]
    tree = mutants.copied(tmp_path)
    assert mutants.passes(own, tree)
    mutants.plant(killed[0], tree)
    assert not mutants.passes(own, tree)
