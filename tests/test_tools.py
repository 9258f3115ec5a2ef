"The tools: what they refuse, and what they make of a notebook."
import subprocess
import sys
from pathlib import Path

import pytest

import check_drift
import notebooks as nbs
import reference
import versions

TOOLS = Path(__file__).resolve().parent.parent / "tools"


def cell(source, kind="code", name="0123abcd"):
    more = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source} | more


def book(*sources):
    "A notebook of one heading and some exported cells"
    cells = [cell("# Title\n> What it is about.", "markdown"), cell("#| default_exp thing")]
    return {"cells": cells + [cell("#| export\n" + source) for source in sources]}


def test_reading_order():
    stems = ["73_cli", "84_b", "index", "01_errors", "81_a", "notes", "12_moments"]
    assert sorted(stems, key=nbs.reading_order) == [
        "index", "81_a", "84_b", "01_errors", "12_moments", "73_cli", "notes"]
    assert nbs.part_of("73_cli") == 7 and nbs.part_of("index") is None and nbs.part_of("7_cli") is None


@pytest.mark.parametrize("name", ["00-ground-04", "0123ABCD", "0123abc", "0123abcde", "", "contents"])
def test_a_cell_id_that_jupyter_would_not_give_is_refused(name):
    assert check_drift.check_ids({"cells": [cell("1", name=name)]})


def test_cell_ids():
    assert not check_drift.check_ids({"cells": [cell("1"), cell("2", name="0123abce")]})
    assert "twice" in check_drift.check_ids({"cells": [cell("1"), cell("2")]})[0]


def test_a_silent_cell_is_refused():
    assert check_drift.check_executed({"cells": [cell("print(1)")]})
    assert not check_drift.check_executed({"cells": [cell("x = 1"), cell("#| hide\nprint(1)")]})


def test_an_error_or_a_path_of_the_machine_in_an_output_is_refused():
    error = {"output_type": "error", "ename": "ZeroDivisionError", "traceback": []}
    assert check_drift.check_errors({"cells": [cell("1/0") | {"outputs": [error]}]})
    for path, found in (("/home/somebody/x", 1), ("home/somebody", 0)):
        said = cell("f()") | {"outputs": [{"output_type": "stream", "text": [f"saved in {path}\n"]}]}
        assert len(check_drift.check_paths({"cells": [said]})) == found


def test_private_names_stay_out_of_the_reference():
    thing = """
class _Base: pass
@dataclass(frozen=True, kw_only=True)
class Thing(_Base):
    "A thing"
    a: int # how many
    _b: int = 0
    c: float = field(init=False)
    def _hidden(self): pass
    def shown(self): "Seen"
"""
    names = "_LIMIT = 3\nLIMIT = 4 # the most there are\ndef f(): return _helper(1)"
    module = reference.module("10_thing", book("def _helper(x): return x", names, thing))
    assert [entry.name for entry in module.entries] == ["LIMIT", "f", "Thing"]
    text = reference.page(module)
    assert "Thing(*, a: int)" in text and ":param a: how many" in text and "{py:method} shown()" in text
    assert not any(name in text for name in ("_helper", "_LIMIT", "_Base", "_hidden", "_b"))


def test_a_class_without_an_initialiser_has_no_signature():
    module = reference.module("10_thing", book("class Release:\n    'Base'\n    method: str # a word"))
    text = reference.page(module)
    assert "{py:class} Release\n" in text and ":param method: a word" in text


def test_the_overview_starts_with_the_names_of_the_package():
    module = reference.module("10_thing", book("def f():\n    'First'\ndef g():\n    'Second'"))
    first, second = reference.overview([module], ["g"]).split("## dp_knockoff.thing")
    assert "Second" in first and "First" not in first and "First" in second and "Second" in second
    with pytest.raises(KeyError): reference.overview([module], ["h"])


def test_a_module_with_private_names_only_has_a_page():
    module = reference.module("10_thing", book("def _f(): pass"))
    for text in (reference.page(module), reference.overview([module], [])): assert "dp_knockoff.thing" in text


def test_lowest_versions():
    cfg = dict.fromkeys(versions.RUNTIME, "") | {
        "requirements": "numpy>=1.26 tqdm>=4.60;python_version<'3.11'",
        "cluster_requirements": "dask[array,dataframe]>=2024.8"}
    assert versions.lowest(cfg) == ["numpy==1.26", "tqdm==4.60", "dask==2024.8"]
    pinned = {pin.partition("==")[0] for pin in versions.lowest(versions.settings())}
    assert pinned >= {"numpy", "scipy", "opendp"}


@pytest.mark.parametrize("arguments", [["execute.py", "--jobs", "0"], ["versions.py", "middle"]])
def test_bad_arguments_are_a_sentence(arguments):
    script, *rest = arguments
    done = subprocess.run([sys.executable, str(TOOLS / script), *rest], capture_output=True, text=True)
    assert done.returncode == 2 and arguments[-1] in done.stderr and "Traceback" not in done.stderr
