"The tools: what they refuse, and what they make of a notebook."
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import bibliography
import build_docs
import check_drift
import dp_knockoff
import notebooks as nbs
import reference
import site_pages
import site_search
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


def test_imports_and_the_code_of_pictures_are_folded():
    def summary(source, picture=False):
        one = cell(source) | {"outputs": [{"data": {"image/png": ""}}] * picture}
        shown = build_docs.folded(one)["metadata"]
        return shown["mystnb"]["code_prompt_show"] if "hide-input" in shown.get("tags", []) else None

    assert summary("import a\nfrom b import c") == "Imports: show"
    assert summary("#| fig-alt: a curve\n" + "plot()\n" * 5, picture=True) == "Code of the picture: show"
    assert summary("plot()\n" * 3, picture=True) is None and summary("f()\n" * 30) is None
    assert summary("import a\nprint(a)") is None


def test_exported_code_is_one_line_with_its_signatures():
    source = ("#| export\ndef f(x: int, # this\n    y=1) -> int:\n    'Sentence'\n    return x < y\n"
              "@dataclass\nclass C:\n    a: int\n    b: str = ''\nLIMIT = 3")
    text = build_docs.exported(cell(source), {"f": "dp_knockoff.a.b.f"})
    summary = text.partition("<summary>")[2].partition("</summary>")[0]
    assert summary == ('<code><a href="reference/a.b.html#dp_knockoff.a.b.f">f</a>(x, y=1)</code><br>'
                       "<code>C(a, b)</code><br><code>LIMIT</code>")
    assert "return x < y" in text and text.count("details") == 2
    assert "Code of the module, 2 lines" in build_docs.exported(cell("#| export\n_a = 1\n_b = 2"), {})
    assert "and 1 more" in build_docs.exported(cell("#| export\nA = 1\nB = 1\nC = 1\nD = 1"), {})


def test_signatures_without_types():
    code = "class A:\n    def __init__(self, x: int, *, k: str = 'a'): pass\nclass B(A): pass\n"
    names = dict(reference.definitions(code + "async def g(*args: int, **kw): pass"))
    assert [reference.short(name, node) for name, node in names.items()] == [
        "A(x, *, k='a')", "B()", "g(*args, **kw)"]


def test_every_picture_says_what_it_shows():
    cells = [(stem, one) for stem, one_book in nbs.books().items() for one in one_book["cells"]
             if one["cell_type"] == "code" and nbs.draws(one) and nbs.is_shown(one)]
    missing = [f"{stem} {one['id']}" for stem, one in cells if len(nbs.alt(one).split()) < 5]
    assert len(cells) > 30 and not missing, f"a line `#| fig-alt: ...` is missing in {missing}"
    assert nbs.alt(cell("#| fig-alt: A curve: it rises.\nplot()")) == "A curve: it rises."


def test_links_of_a_notebook_work_on_the_site():
    text = ("[L](04_fixed_x.ipynb#lemma-1) [A](../2_knockoffs/04_fixed_x.ipynb#cell-id=0123abcd) "
            "[`f`](../../dp_knockoff/a/thing.py) [K](05_statistics.ipynb#the-lasso)")
    text = build_docs.prose("06_threshold", 1, text, {"f": "dp_knockoff.thing.f"})
    assert text == ("[L](#lemma-1) [A](#04_fixed_x-cell-0123abcd) {py:obj}`f <dp_knockoff.thing.f>` "
                    "[K](05_statistics.ipynb#the-lasso)")
    own = build_docs.prose("06_threshold", 1, "[A](#cell-id=0123abcd) [B](#Who's-it?) [C](#lemma-1)", {})
    assert own == "[A](#06_threshold-cell-0123abcd) [B](#whos-it) [C](#lemma-1)"
    code = "`[L](04_fixed_x.ipynb#lemma-1)`"
    assert build_docs.prose("06_threshold", 1, code, {}) == code
    top = build_docs.prose("06_threshold", 0, "# T\n> S", {})
    assert "<../../nbs/2_knockoffs/06_threshold.ipynb>" in top


def test_mathematics_has_no_links():
    for text in ("$E[x](1 + y)$", "$$ E[x](1 +\ny) $$", "so $a [b](c)\n+ d$ is", "`[b](c)`"):
        assert nbs.relink(text, lambda path: "moved") == text
    assert nbs.relink("$a$ [b](c.md) $d$", lambda path: "moved") == "$a$ [b](moved) $d$"


def test_the_search_knows_statements():
    pytest.importorskip("sphinx", reason="Sphinx is missing: pip install '.[docs]'")
    index = {"alltitles": {}, "docnames": ["a", "20_k"]}
    index = site_search.added(index, {"20_k": ("chapter", "# Coins\n> On tails")}, [
        tags.Statement(id="eq-3", page="20_k")])
    assert index["alltitles"] == {"Equation (3)": [[1, "eq-3"]]}
    assert index["leads"] == ["", "coins. on tails"] and list(index["weights"]["coin"]) == ["1"]


def test_the_search_weighs_where_a_word_stands():
    pytest.importorskip("sphinx", reason="Sphinx is missing: pip install '.[docs]'")
    filler = " ".join(f"word{k}" for k in range(40))
    page = {"titled": ("chapter", f"# The coin\n{filler}"), "told": ("chapter", f"# A\n{filler} coins coin"),
            "guide": ("guide", f"# The coin\n{filler}"),
            "code": ("chapter", f"# B\n{filler}\n```\ncoin\n```"),
            "headed": ("chapter", f"# C\n{filler}\n## Fair coins\n$\\varepsilon$")}
    weights = site_search.weights(page)
    assert sorted(weights["coin"], key=weights["coin"].get)[::-1] == ["titled", "guide", "headed", "told"]
    assert list(weights["epsilon"]) == list(weights["fair coin"]) == ["headed"]


def test_chapters_are_linked_by_their_numbers():
    number = site_pages.shown_number("06_threshold")
    link = build_docs.prose("05_statistics", 1, f"See chapter {number}, `chapter {number}`.", {})
    assert link == f"See [chapter {number}](06_threshold.ipynb), `chapter {number}`."
    assert build_docs.prose("05_statistics", 1, "chapter 99", {}) == "chapter 99"
    assert build_docs.prose("06_threshold", 0, "# T\n> S", {}).startswith("(06_threshold-top)=\n# 6. T\n")
    assert site_pages.numbered("a4_bibliography", "Appendix A4: Works") == "A4. Works"
    assert site_pages.shown_number("a4_bibliography") == "A4" and not site_pages.shown_number("flights")


@pytest.mark.parametrize("text, shown", [
    ("[Theorem 06.1](x)", "[Theorem 6.1](x)"), ("Lemma 06.2 and 06.3", "Lemma 6.2 and 6.3"),
    ("[06.2](#x)", "[6.2](#x)"),
    ("so (06.2)", "so (6.2)"), ("f(0.25)", "f(0.25)"), ("Theorem 16.2", "Theorem 16.2"), ("at 0.5", "at 0.5"),
])
def test_statements_have_no_leading_zero_on_the_site(text, shown): assert tags.shown(text) == shown


def test_the_sidebar_has_every_page_once():
    books = nbs.books()
    groups = site_pages.parts(books, ["CHANGELOG"])
    pages = [page for part in groups.values() for page in part]
    assert len(pages) == len(set(pages)) and set(books) < set(pages)
    assert list(groups)[0] == "Start" and groups["Start"][0] == "index"
    assert set(groups[site_pages.GUIDE]) >= {stem for stem in books if nbs.is_guide(stem)}


def test_guarantees_are_on_the_site_in_full():
    text = site_pages.guarantees().replace("\\", "")
    saved = json.loads(site_pages.GUARANTEES.read_text(encoding="utf-8"))["guarantees"]
    lines = {line for case, lines in saved.items() if ", simulated" not in case for line in lines}
    said = [line for line in lines if line not in text]
    assert len(lines) > 40 and not said, said


def test_the_first_page_runs(tmp_path, monkeypatch, capsys):
    rng, n = np.random.default_rng(0), 5_000
    people = pd.DataFrame({"age": rng.integers(18, 67, n), "region": rng.choice(["south", "east"], n)})
    people["wage"] = 10 + .2 * people.age + rng.normal(0, 5, n)
    people.to_csv(tmp_path / "wages.csv", index=False)
    monkeypatch.chdir(tmp_path)
    code = re.search(r"(?ms)^```python\n(.*?)^```", site_pages.HOME.read_text(encoding="utf-8"))[1]
    assert len([line for line in code.splitlines() if line.strip()]) == 6
    exec(code, {})
    said = capsys.readouterr().out
    assert "(epsilon=1, delta=1e-06)-differential privacy" in said and "age" in said


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
