"The tools: what they refuse, and what they make of a notebook."
import re
import subprocess
import sys
from pathlib import Path

import pytest

import bibliography
import build_docs
import check_drift
import dp_knockoff
import notebooks as nbs
import reference
import tags
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
    pages = [("", "index"), ("1_start", "01_a"), ("2_knockoffs", "04_b"), ("2_knockoffs", "05_c"),
             ("3_privacy", "08_d"), ("examples", "flights"), ("appendix", "a4_z"), ("3_privacy", "samplers"),
             ("core", "errors"), ("data", "rows")]
    assert sorted(reversed(pages), key=lambda page: nbs.reading_order(*page)) == pages
    stems = [path.stem for path in nbs.paths()]
    captions = list(dict.fromkeys(map(nbs.chapter_of, stems)))
    assert captions[:3] == ["Home", "Start", "Knockoffs"] and captions[-2:] == ["Guide: core", "Guide: data"]
    assert [stem for stem in stems if nbs.number_of(stem).isdigit()] == sorted(
        stem for stem in stems if nbs.number_of(stem).isdigit())
    assert [nbs.name_of(stem) for stem in ("05_c", "a4_z", "samplers")] == ["c", "z", "samplers"]
    assert [nbs.number_of(stem) for stem in ("05_c", "a4_z", "samplers")] == ["05", "a4", ""]


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
    described = re.sub(r"(?s)<details.*?</details>", "", text)  # public source stays as it is
    assert not any(name in described for name in ("_helper", "_LIMIT", "_Base", "_hidden", "_b"))


def test_a_class_without_an_initialiser_has_no_signature():
    module = reference.module("10_thing", book("class Release:\n    'Base'\n    method: str # a word"))
    text = reference.page(module)
    assert "{py:class} Release\n" in text and ":param method: a word" in text


def test_the_reference_starts_with_the_names_of_the_package():
    module = reference.module("10_thing", book("def f():\n    'First'\ndef g():\n    'Second'"))
    first, second = reference.overview([module], {"For all": ["g"]}), reference.internals([module])
    assert "## For all" in first and "Second" in first and "First" not in first
    assert "First" in second and "Second" in second
    with pytest.raises(KeyError): reference.overview([module], {"For all": ["h"]})


def test_the_names_of_the_package_are_in_groups():
    source = "_modules = {\n    # for all\n    'f': 'a', 'g': 'b',\n    # the rest\n    'h': 'a',\n}"
    assert reference.package_groups(source) == {"For all": ["f", "g"], "The rest": ["h"]}
    assert sum(reference.package_groups().values(), []) == dp_knockoff.__all__


def test_a_module_with_private_names_only_has_a_page():
    module = reference.module("10_thing", book("def _f(): pass"))
    for text in (reference.page(module), reference.internals([module])): assert "dp_knockoff.thing" in text


def test_the_reference_shows_the_source_with_its_decorators():
    function = "@cache\ndef f():\n    'First'\n    return 1"
    module = reference.module("10_thing", book(function + "\nLIMIT = 3"))
    assert [entry.source for entry in module.entries] == [function, "LIMIT = 3"]
    assert "@cache\ndef f():" in reference.page(module)


def test_annotations_mean_the_class_that_the_module_knows():
    code = """from dp_knockoff.core.tables import Table as T
class Own: 'Own'
def f(x: T | None, *, y: Own = Own()) -> list[T]: 'First'
class C:
    'Class'
    t: T # field
    def g(self, o: Own) -> T: 'Method'"""
    text = reference.page(reference.module("10_thing", book(code)))
    own, table = "dp_knockoff.thing.Own", "dp_knockoff.core.tables.Table"
    assert f"f(x: {table} | None, *, y: {own}=Own()) -> list[{table}]" in text
    assert f"g(o: {own}) -> {table}" in text and "def f(x: T | None" in text


def test_imports_and_long_code_of_the_appendix_are_folded():
    def summary(stem, source):
        shown = build_docs.folded(stem, cell(source))["metadata"]
        return shown["mystnb"]["code_prompt_show"] if "hide-input" in shown.get("tags", []) else None

    long = "#| export\ndef f():\n" + "    f()\n" * 30
    assert summary("06_threshold", "#| export\nimport a\nfrom b import c") == "Imports: show"
    assert summary("errors", long) == "Code of f (31 lines): show"
    for stem, source in (("06_threshold", long), ("01_two_promises", long),
                         ("errors", "#| export\ndef f(): pass"),
                         ("errors", long.replace("#| export\n", "")), ("06_threshold", "import a\nprint(a)")):
        assert summary(stem, source) is None


def test_links_of_a_notebook_work_on_the_site():
    text = ("[L](04_fixed_x.ipynb#lemma-1) [A](../2_knockoffs/04_fixed_x.ipynb#cell-id=0123abcd) "
            "[`f`](../../dp_knockoff/a/thing.py) [K](05_statistics.ipynb#the-lasso)")
    text = build_docs.prose("06_threshold", 1, text, {"f": "dp_knockoff.thing.f"})
    assert text == ("[L](#lemma-1) [A](#04_fixed_x-cell-0123abcd) {py:obj}`f <dp_knockoff.thing.f>` "
                    "[K](05_statistics.ipynb#the-lasso)")
    code = "`[L](04_fixed_x.ipynb#lemma-1)`"
    assert build_docs.prose("06_threshold", 1, code, {}) == code
    top = build_docs.prose("06_threshold", 0, "# T\n> S", {})
    assert "<../../nbs/2_knockoffs/06_threshold.ipynb>" in top


def test_mathematics_has_no_links():
    for text in ("$E[x](1 + y)$", "$$ E[x](1 +\ny) $$", "so $a [b](c)\n+ d$ is", "`[b](c)`"):
        assert nbs.relink(text, lambda path: "moved") == text
    assert nbs.relink("$a$ [b](c.md) $d$", lambda path: "moved") == "$a$ [b](moved) $d$"


def test_the_search_knows_statements(tmp_path):
    path = tmp_path / "searchindex.js"
    before = 'Search.setIndex({"alltitles":{},"docnames":["a","20_k"]})'
    path.write_text(before)
    build_docs.name_statements(path, [tags.Statement(id="eq-3", page="20_k")])
    assert path.read_text() == before.replace("{}", '{"Equation (3)":[[1,"eq-3"]]}')


def test_lowest_versions():
    cfg = dict.fromkeys(versions.RUNTIME, "") | {
        "requirements": "numpy>=1.26 tqdm>=4.60;python_version<'3.11'",
        "cluster_requirements": "dask[array,dataframe]>=2024.8"}
    assert versions.lowest(cfg) == ["numpy==1.26", "tqdm==4.60", "dask==2024.8"]
    pinned = {pin.partition("==")[0] for pin in versions.lowest(versions.settings())}
    assert pinned >= {"numpy", "scipy", "opendp"}


@pytest.mark.parametrize("text, entries, said", [
    ("[A](a4_bibliography.ipynb#abel1990)", ["abel1990"], ""),
    ("[A](a4_bibliography.ipynb#abel1990)", [], "no entry"), ("", ["abel1990"], "cited nowhere"),
    ("`[A](a4_bibliography.ipynb#abel1990)`", ["abel1990"], "cited nowhere"),
    ("[A](a4_bibliography.ipynb#Abel)", ["Abel"], "author and a year"),
    ("[A](a4_bibliography.ipynb#abel1990) [B](a4_bibliography.ipynb#bell1980)", ["bell1980", "abel1990"],
     "after"),
    ("[A](a4_bibliography.ipynb#abel1990)", ["abel1990", "abel1990"], "after"),
])
def test_bibliography(text, entries, said):
    listed = "\n\n".join(f'<a id="{key}"></a>**Somebody.** Something.' for key in entries)
    sources = {"20_k": text, bibliography.STEM: listed}
    books = {stem: {"cells": [cell(source, "markdown")]} for stem, source in sources.items()}
    wrong = bibliography.wrong(books)
    assert any(said in sentence for sentence in wrong) if said else not wrong


@pytest.mark.parametrize("arguments", [["execute.py", "--jobs", "0"], ["versions.py", "middle"]])
def test_bad_arguments_are_a_sentence(arguments):
    script, *rest = arguments
    done = subprocess.run([sys.executable, str(TOOLS / script), *rest], capture_output=True, text=True)
    assert done.returncode == 2 and arguments[-1] in done.stderr and "Traceback" not in done.stderr
