"""The statements of the book: tags are read, each check fires, and the map is what the notebooks say.

The checks are functions from plain data to sentences; each is shown a small book with one mistake.
"""
import os
import re
from pathlib import Path

import pytest

import bibliography
import boxes
import latex
import notebooks as nbs
import paper_map
import reference
import statements
import tags

TEX = r"""
\newtheorem{lemma}{Lemma}
\newtheorem{theorem}{Theorem} % \newtheorem{remark}{Remark}
\begin{document}
\section{One}\label{sec:one} \subsection{Below}
\begin{equation} a \label{first} \end{equation}
\begin{align}
  b &= \begin{bmatrix} 1 \\ 2 \end{bmatrix} \nonumber \\ &= c, \label{second} \\ d &= e
\end{align}
\begin{equation*} f \end{equation*}
\begin{align} \label{bare} g \nonumber \end{align}
\begin{theorem}[Name]\label{thm} \begin{equation} h \end{equation} \label{also} \end{theorem}
\begin{figure} \caption{x} \label{fig} \end{figure}
\textit{\textbf{Property IV}: it is so}, and \textbf{Property IV} again
\appendix \section{Two} \section{Three} \label{app}
\begin{lemma} i % \label{commented}
\end{lemma}
\end{document}
"""
WORKS = """<a id="barber2015"></a>**Rina Foygel Barber and Emmanuel J. Candès.** Knockoffs. LINK

<a id="horn1985"></a>**Roger A. Horn and Charles R. Johnson.** Matrix analysis. 1985.
""".replace("LINK", "[doi:10.1214/15-AOS1337](https://doi.org/10.1214/15-AOS1337)")
TAG = """<!-- statement
id: {id}
name: {name}
title: on things
source: {source}
cite: {cite}
labels: first
code: {code}
attack: {attack}
verdict: {verdict}
-->{anchor}
{text}"""


def tagged(key="lemma-1", name="Lemma 1", source="paper", code="f", attack="aaaaaaaa",
           verdict="holds; always", anchor=None, text=None, cite=""):
    "A tag with what stands under it"
    text = f"> **{name}** (on things). *So it is.*" if text is None else text
    anchor = f'<a id="{key}"></a>' if anchor is None else anchor
    return TAG.format(id=key, name=name, source=source, cite=cite, code=code, attack=attack, verdict=verdict,
                      anchor=anchor, text=text)


def cell(source, kind="markdown", name="00000000"):
    return {"cell_type": kind, "id": name, "metadata": {}, "source": source}


def books(*texts, attack="assert f() == 1", code="def f():\n    'One'\n    return 1"):
    "A book of one notebook, 20_thing, which exports f, and a bibliography"
    cells = [cell("# Title\n> Subtitle"), cell("#| default_exp thing", "code", "dddddddd"),
             cell("#| export\n" + code, "code", "eeeeeeee"), cell(attack, "code", "aaaaaaaa")]
    return {"20_thing": {"cells": cells + [cell(text, name=f"{k:08x}") for k, text in enumerate(texts)]},
            bibliography.STEM: {"cells": [cell(WORKS)]}}


PAPER = [{"id": "lemma-1", "kind": "lemma", "number": "1", "labels": "first"}]


def complaints(book, paper=PAPER):
    return statements.checks(book, paper, reference.public_names(book))


# Reading


def test_a_tag_is_read():
    [one] = tags.read(books(tagged(code="f, g", attack="aaaaaaaa, 21_other#bbbbbbbb")))
    assert (one.id, one.label, one.source, one.page) == ("lemma-1", "Lemma 1", "paper", "20_thing")
    assert one.code == ("f", "g") and one.labels == ("first",) and one.word == "holds"
    assert one.attacks == [("20_thing", "aaaaaaaa"), ("21_other", "bbbbbbbb")]
    assert one.text == "**Lemma 1** (on things). *So it is.*"


def test_equations_are_read_in_text_in_boxes_and_in_lists():
    equation = tagged("eq-21", "", text="$$ a\n= b \\tag{21} $$")
    inside = "> **Lemma 1** (x). *So*\n" + "\n".join("> " + line for line in equation.splitlines())
    indented = "1. First\n\n" + "\n".join("   " + line for line in equation.splitlines())
    for source in (equation, tagged(text=inside), indented):
        *_, one = tags.in_cell(source)
        assert one.id == "eq-21" and one.label == "Equation (21)" and one.text == "$$ a\n= b \\tag{21} $$"
    assert [one.id for one in tags.in_cell(tagged(text=inside))] == ["lemma-1", "eq-21"]


def test_two_tags_can_share_one_display():
    pair = tagged("eq-1", "", text="") + tagged("eq-2", "", text="$$ a \\tag{1} \\tag{2} $$")
    assert [one.id for one in tags.in_cell(pair)] == ["eq-1", "eq-2"]
    assert len({one.text for one in tags.in_cell(pair)}) == 1


def test_a_numbered_display_is_an_equation_on_the_site():
    matrix = "$$ G = \\begin{bmatrix} 1 \\\\ 2 \\end{bmatrix} . \\tag{3} $$"
    text = boxes.rendered("1. So\n\n   " + matrix + "\n\n$$ x $$", "20_thing", {}, {}, {})
    assert "   \\begin{equation*}\n   G = " in text and "\\tag{3}\n   \\end{equation*}" in text
    assert "$$ x $$" in text


def test_a_tag_in_a_code_block_is_an_example():
    assert not tags.in_cell("```\n" + tagged() + "\n```")


def test_a_tag_that_is_never_closed_is_refused():
    with pytest.raises(ValueError, match="never closed"): tags.in_cell("<!-- statement\nid: lemma-1\n")


# The checks


def test_a_correct_book_passes(): assert complaints(books(tagged())) == []


def test_a_known_result_cites_its_source():
    book = books(tagged("prop-thing-1", "Lemma 20.1", "known", cite="barber2015"))
    assert complaints(book, []) == []
    assert bibliography.citations(book) == {"barber2015": ["20_thing"]}
    [one] = tags.read(book)
    assert "[Source](appendix/a4_bibliography.ipynb#barber2015)" in paper_map.row(one, {})


@pytest.mark.parametrize("key, text, short", [
    ("barber2015", "**Rina Foygel Barber and Emmanuel J. Candès.** C", "Barber and Candès (2015)"),
    ("stein1981", "**Charles M. Stein.** Estimation", "Stein (1981)"),
    ("lev2025", "**Omri Lev and others.** The", "Lev et al. (2025)"),
    ("dwork2006", "**Cynthia Dwork, Frank McSherry, Kobbi Nissim and Adam Smith.** C", "Dwork et al. (2006)"),
])
def test_works_are_named_as_in_prose(key, text, short): assert bibliography.short(key, text) == short


@pytest.mark.parametrize("change, said", [
    (dict(key=""), "no id"), (dict(verdict=""), "no verdict"), (dict(source=""), "no source"),
    (dict(source="theirs"), "'theirs'"), (dict(verdict="mostly holds"), "none of the verdicts"),
    (dict(verdict="hold"), "none of the verdicts"),
    (dict(code="f, g"), "has no g"), (dict(code="other.f"), "has no other.f"),
    (dict(attack="bbbbbbbb"), "does not exist"), (dict(attack="99_none#aaaaaaaa"), "does not exist"),
    (dict(attack="00000000"), "is not code"), (dict(attack="eeeeeeee"), "is exported"),
    (dict(attack="dddddddd"), "no assertion"), (dict(anchor=""), "no anchor"),
    (dict(anchor='<a id="lemma-2"></a>'), "no anchor"), (dict(text="Text."), "no blockquote"),
    (dict(text="> **Lemma 2** (x). So."), "does not have"), (dict(key="lemma-2"), "no such statement"),
    (dict(key="prop-thing-1", source="ours"), "is called 'Lemma 1'"),
    (dict(key="prop-other-1", source="ours", name="Lemma 20.1"), "prop-thing-k"),
    (dict(key="prop-other-1", source="known", name="Lemma 20.1"), "prop-thing-k"),
    (dict(source="known"), "has no cite"), (dict(cite="barber2015"), "its source is not known"),
    (dict(source="known", cite="barber2016"), "barber2016 is no entry"),
    (dict(source="known", cite="barber2015, horn1985"), "horn1985 has no DOI"),
])
def test_a_wrong_tag_is_found(change, said):
    assert any(said in text for text in complaints(books(tagged(**change)))), change


@pytest.mark.parametrize("name", ["f", "thing.f"])
def test_names_of_code(name): assert not complaints(books(tagged(code=name)))


def test_names_of_members():
    code = "class C:\n    'Class'\n    def f(self): 'Method'"
    assert not complaints(books(tagged(code="C.f"), code=code))
    assert complaints(books(tagged(code="C.g"), code=code))


@pytest.mark.parametrize("attack, good", [
    ("assert 1", True), ("from x import y\nassert_fair_coin(y)", True), ("print(refusal(f))", True),
    ("def g(x): assert x\ng(1)", True), ("%time g()\nassert 1", True), ("t.assert_same_law(1, 2)", True),
    ("print(1)", False), ("import numpy", False), ("def g(x): return x\ng(1)", False), ("'assert'", False),
])
def test_an_attack_can_fail(attack, good):
    assert bool(complaints(books(tagged(), attack=attack))) != good


def test_ids_are_unique():
    assert any("2 times" in text for text in complaints(books(tagged(), tagged())))


def test_every_statement_of_the_paper_has_a_row():
    paper = [*PAPER, {"id": "eq-7", "kind": "equation", "number": "7", "labels": ""},
             {"id": "", "kind": "figure", "number": "1", "labels": "fig"}]
    assert complaints(books(tagged()), paper) == ["eq-7 of the paper is nowhere in the book"]
    whole = books(tagged(), tagged("eq-7", "", text="$$ x \\tag{7} $$").replace("first", "seven"))
    assert complaints(whole, paper) == []
    no_number = tagged("eq-7", "", text="$$ x $$").replace("first", "seven")
    assert complaints(books(tagged(), no_number), paper)


def test_a_label_stands_with_its_statement():
    paper = [PAPER[0] | {"labels": ""}, {"id": "", "kind": "section", "number": "1", "labels": "first"}]
    assert any("label of section" in text for text in complaints(books(tagged()), paper))


@pytest.mark.parametrize("text, good", [
    ("**Proof.** So. $\\square$", True), ("**Proof.** So.\n\n$$ x \\qquad\\square $$\n\n## Next", True),
    ("**Proof.** So.", False), ("**Proof.** So.\n## Next\n$\\square$", False),
    ("**Proof.** So.\n\n**Proof of it.** Thus. $\\square$", False), ("`**Proof.**`\n\nProofs help.", True),
])
def test_proofs_end(text, good): assert bool(complaints(books(tagged(), text))) != good


def test_a_proof_may_go_on_in_a_later_cell():
    assert not complaints(books(tagged(), "*Proof.* First.", "Second. $\\square$"))


@pytest.mark.parametrize("link, good", [
    ("20_thing.ipynb#lemma-1", True), ("#lemma-1", True), ("20_thing.ipynb#cell-id=aaaaaaaa", True),
    ("#Title", True), ("#title", True), ("20_thing.ipynb#barber2015", True),
    ("21_thing.ipynb#lemma-1", False),
    ("20_thing.ipynb#lemma-2", False), ("#lemma-2", False), ("20_thing.ipynb#cell-id=bbbbbbbb", False),
])
def test_links_to_places(link, good):
    text = f'See [it]({link}).\n\n<a id="barber2015"></a>Barber (2015)'
    assert bool(complaints(books(tagged(), text))) != good


def test_numbers_follow_the_order_of_reading():
    first = tagged("prop-thing-7", "Lemma 20.1", "ours")
    second = tagged("prop-thing-1", "Theorem 20.2", "known", cite="barber2015")
    assert complaints(books(first, second), []) == []
    assert len(complaints(books(second, first), [])) == 2
    names = paper_map.our_names(tags.read(books(second, first)))
    renewed = "\n".join(paper_map.numbered(text, names) for text in (second, first))
    assert "name: Theorem 20.1" in renewed and "> **Theorem 20.1**" in renewed and "**Lemma 20.2**" in renewed


@pytest.mark.parametrize("text, good", [
    ("By Lemma 20.1", True), ("By Lemma 20.2", False), ("By Theorem 20.1", False), ("By Lemma 99", True),
])
def test_statements_are_mentioned_by_their_names(text, good):
    assert bool(complaints(books(tagged("prop-thing-1", "Lemma 20.1", "ours"), text), [])) != good


@pytest.mark.parametrize("text, renewed", [
    ("[10.6](a.ipynb#prop-a-6)", "[10.4](a.ipynb#prop-a-6)"),
    ("[Theorems 10.6](#prop-a-6) and", "[Theorems 10.4](#prop-a-6) and"),
    ("[Section 10.6](#prop-a-6)", "[Section 10.6](#prop-a-6)"), ("[10.6](#prop-b-6)", "[10.6](#prop-b-6)"),
])
def test_links_get_the_numbers_of_what_they_lead_to(text, renewed):
    assert paper_map.numbered(text, {"prop-a-6": "Theorem 10.4"}) == renewed


@pytest.mark.parametrize("formula, good", [
    ("$S = \\mathrm{diag}(s)$", True), ("$S = \\sum_i z_iz_i^\\top$", False), ("$q = .2$", True),
    ("$q = a/b$", False), ("$$ T = [I, m] $$", False), ("$$ T = \\min\\{t\\} $$", True), ("$T_j = a$", True),
    ("$\\kappa = c$", False), ("$\\kappa_k = c$", True), ("$R = T = 2$", True),
])
def test_letters_keep_their_meaning(formula, good):
    assert bool(complaints(books(tagged(), formula))) != good


def test_the_book_is_short():
    "At most 25 chapters and 40,000 words of prose beside formulas, code, tags and targets of links"
    chapters = {stem: book for stem, book in nbs.books().items() if stem[:2].isdigit()}
    beside = re.compile(r"<!--.*?-->|<a id.*?</a>|```.*?```|\$\$.*?\$\$|\$[^$]*\$|\]\([^)]*\)", re.DOTALL)
    prose = [beside.sub(" ", cell["source"]) for book in chapters.values() for cell in book["cells"]
             if cell["cell_type"] == "markdown"]
    words = [word for text in prose for word in text.split() if any(map(str.isalnum, word))]
    assert len(chapters) <= 25 and 10_000 < len(words) < 40_000


# The map


def test_anchors_are_added_once():
    bare = tagged(anchor="")
    for source in (bare, "> " + bare.replace("\n", "\n> "), tagged(anchor='<a id="x"></a>')):
        once = paper_map.anchored("Text\n" + source)
        assert '--><a id="lemma-1"></a>' in once and once.count("<a id") == 1
        assert paper_map.anchored(once) == once


def test_the_map_links_everything():
    book = books(tagged(verdict="loose, by 2 | 3 of $|x|$"), tagged("prop-thing-1", "Theorem 20.1", "ours"),
                 tagged("prop-thing-2", "Lemma 20.2", "ours"),
                 tagged("prop-thing-3", "Lemma 20.3", "known", cite="barber2015"))
    found = tags.read(book)
    row = next(line for line in paper_map.table(found, reference.public_names(book)).splitlines()
               if line.startswith("| [Lemma") and "#lemma-1)" in line)
    assert "1](20_thing.ipynb#lemma-1)" in row and "[`f`](../dp_knockoff/thing.py)" in row
    assert "[1](20_thing.ipynb#cell-id=aaaaaaaa)" in row and r"by 2 \| 3 of $\vert x\vert $" in row
    written = paper_map.summary(found)
    assert "Of 1, 1 holds but is loose." in written and "Of 3 further" in written
    assert "1 are known results, with their sources, and 2 are ours" in written
    table = paper_map.map_csv(tags.read(book), PAPER)
    assert "lemma-1,Lemma 1,on things,paper,,first,nbs/20_thing.ipynb#lemma-1,f," in table


def test_the_map_is_written_into_its_own_cell_only():
    own, other = cell(paper_map.BEGIN + "\nold\n" + paper_map.END), cell("Text")
    for one in (own, other): paper_map.renew(one, f"{paper_map.BEGIN}\nnew", {})
    assert "".join(own["source"]).endswith("new") and other["source"] == "Text"


def test_the_statements_of_this_book():
    assert not (said := statements.wrong()), "\n".join(["", *said])


# The paper


def test_numbers_are_those_of_latex():
    rows = [(row["id"], row["kind"], row["number"], row["labels"]) for row in latex.inventory(TEX)]
    assert rows == [
        ("", "section", "1", "sec:one"), ("eq-1", "equation", "1", "first"),
        ("eq-2", "equation", "2", "second"), ("eq-3", "equation", "3", ""),
        ("eq-bare", "equation", "", "bare"), ("theorem-1", "theorem", "1", "thm also"),
        ("eq-4", "equation", "4", ""), ("", "figure", "1", "fig"), ("property-4", "property", "IV", ""),
        ("", "section", "B", "app"), ("lemma-1", "lemma", "1", "")]


def test_theorems_can_share_a_counter():
    source = TEX.replace(r"\newtheorem{lemma}{Lemma}", r"\newtheorem{lemma}[theorem]{Lemma}")
    assert latex.inventory(source)[-1]["id"] == "lemma-2"


@pytest.mark.skipif("PAPER_LATEX" not in os.environ, reason="PAPER_LATEX does not name the paper's LaTeX")
def test_the_inventory_is_that_of_the_paper():
    source = Path(os.environ["PAPER_LATEX"]).read_text(encoding="utf-8")
    assert latex.inventory(source) == tags.inventory()


def test_the_inventory_has_ids_and_labels_once():
    rows = tags.inventory()
    ids = [row["id"] for row in rows if row["id"]]
    labels = [label for row in rows for label in row["labels"].split()]
    assert len(ids) == len(set(ids)) > 40 and len(labels) == len(set(labels)) > 20


# On the site


LINKS, CELLS = {"f": "dp_knockoff.thing.f"}, {("20_thing", "aaaaaaaa"): "target"}


def test_a_box_has_a_title_a_verdict_and_links():
    text = boxes.rendered("Before\n\n" + tagged(verdict="false; .5 a_b"), "20_thing", LINKS, CELLS, {})
    assert "(lemma-1)=\n::::::::::{admonition} Lemma 1 (on things)\n:class: statement paper" in text
    assert "*So it is.*" in text and "**Lemma 1**" not in text and "<!--" not in text and "> " not in text
    assert "[false]{.mark .verdict .false} [.5 a\\_b](#target)" in text
    assert "Code: {py:obj}`f <dp_knockoff.thing.f>` · Attack: [1](#target)" in text


def test_the_badge_of_a_known_result_leads_to_its_source():
    box = tagged("prop-thing-1", "Lemma 20.1", "known", cite="barber2015")
    text = boxes.rendered(box, "20_thing", LINKS, CELLS, {"barber2015": "Barber and Candès (2015)"})
    assert ":class: statement known" in text and "[[known](#barber2015)]{.mark .known}" in text
    assert "Source: [Barber and Candès (2015)](#barber2015)" in text


@pytest.mark.parametrize("text, title", [
    ("**Lemma 1** (a (b) c). *So.*", "Lemma 1 (a (b) c)"), ("**Lemma 1.** *So.*", "Lemma 1 (on things)"),
    ("**Lemma 1 (x).** *So.*", "Lemma 1 (x)"), ("**Lemma 1**: *So.*", "Lemma 1 (on things)"),
])
def test_titles_of_boxes(text, title):
    [one] = tags.read(books(tagged()))
    assert boxes.headed(one, text) == (title, "*So.*")


def test_proofs_are_set_off_with_their_mark():
    text, still = boxes.with_proofs("Before\n**Proof.** So. $\\square$\n\nAfter")
    assert not still and text.count(boxes.PROOF_FENCE) == 2 and "So. [□]{.qed}" in text
    assert text.index("[□]") < text.rindex(boxes.PROOF_FENCE) < text.index("After")
    text, still = boxes.with_proofs("**Proof.** So\n$$ x\n\\qquad\\square\n$$\nAfter")
    assert not still and text.rindex("$$") < text.rindex(boxes.PROOF_FENCE) < text.index("After")


def test_a_proof_in_two_cells_is_set_off_in_both():
    first, still = boxes.with_proofs("**Proof.** First.")
    second, after = boxes.with_proofs("Second. $\\square$\n\nAfter", still)
    assert still and not after and "{container} proof" in first and "{container} proof" in second
    assert second.rindex(boxes.PROOF_FENCE) < second.index("After")


def test_a_chapter_can_get_another_number():
    box = tagged("prop-thing-1", "Theorem 20.1", "ours")
    text = f"{box}\n\nSee [Theorem 20.1](a/20_thing.ipynb#prop-thing-1) and [it](#prop-thing-1)."
    names = paper_map.our_names([tags.Statement(id="prop-thing-1", name="Theorem 20.1", source="ours",
                                                page="07_thing")])
    assert names == {"prop-thing-1": "Theorem 07.1"}
    assert paper_map.numbered(text, names) == text.replace("Theorem 20.1", "Theorem 07.1")
    assert paper_map.numbered(text, {"prop-thing-1": "Theorem 20.1"}) == text
