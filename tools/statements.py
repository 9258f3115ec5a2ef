"""Check the statements and the bibliography of the book, and write the map of the paper.

    python tools/statements.py                     # anchors, docs/statements.csv, the map in index and README
    python tools/statements.py --check             # write nothing; say what is wrong or out of date
    python tools/statements.py --paper source.tex  # renew docs/paper.csv, the list of what the paper states

A statement is a blockquote, or a displayed equation, under a comment that names it: see CONTRIBUTING.md.
"""
import argparse
import ast
import re
import sys
from collections import Counter
from pathlib import Path

import bibliography
import latex
import notebooks as nbs
import paper_map
import readme
import reference
import tags

SOURCES = ("paper", "known", "ours")
VERDICTS = tuple(paper_map.SAID)  # what a verdict starts with
PROP = re.compile(r"prop-([a-z0-9-]+)-(\d+)")
INSISTS = re.compile(r"_?(assert|attack|refus|fires|neighbour_search|audit|raises)")  # calls that can fail
FRAGMENT = re.compile(r"\]\((?:[\w.]+/)*(\w+\.ipynb)?#([^)\s]+)\)")


def checks(books: dict, paper: list, names: dict) -> list:
    "Everything that is wrong; `names` {module: its public names}"
    found = tags.read(books)
    return [*wrong_tags(found), *wrong_text(found), *repeated(found), *wrong_sources(found, books),
            *unknown_code(found, names), *wrong_attacks(found, books), *missing(found, paper),
            *wrong_labels(found, paper), *wrong_anchors(found), *open_proofs(books),
            *wrong_links(books, found)]


def where(one: tags.Statement) -> str:
    "For the start of a sentence"
    return f"nbs/{nbs.file_of(one.page)}, cell {one.cell}, {one.id or 'a statement without id'}"


def wrong_tags(found: list) -> list:
    "The fields are those that are known, and say what they may say"
    wrong = []
    for one in found:
        needed = ["id", "source", "verdict"] + ["name"] * (not one.is_equation)
        said = [f"it has no {name}" for name in needed if not getattr(one, name)]
        said += [f"{line!r} is no field" for line in one.unknown]
        if one.source not in ("", *SOURCES): said.append(f"the source {one.source!r} is none of {SOURCES}")
        if one.verdict and one.word not in VERDICTS: said.append(f"it is none of the verdicts {VERDICTS}")
        wrong += [f"{where(one)}: {text}" for text in [*said, *wrong_number(one)]]
    return wrong


def wrong_number(one: tags.Statement) -> list:
    "What is not the paper's is prop-name-k in the notebook of that name, and called NN.k in chapter NN"
    if one.source not in ("known", "ours"): return []
    home = nbs.chapter_page(one.page)
    page, number = nbs.name_of(home).replace("_", "-"), PROP.fullmatch(one.id)
    if not number or number[1] != page: return [f"the id is not prop-{page}-k"]
    chapter = nbs.number_of(home) or nbs.name_of(home)
    return [] if one.name.endswith(f" {chapter}.{number[2]}") else [f"it is called {one.name!r}"]


def wrong_text(found: list) -> list:
    "Under a tag stands its box, which opens with its name, or its equation, with its number"
    wrong = []
    for one in found:
        number = one.id.removeprefix("eq-")
        opens = rf"\tag{{{number}}}" if one.is_equation and number.isdigit() else f"**{one.name}"
        if not one.text: wrong.append(f"{where(one)}: no blockquote and no displayed equation under the tag")
        elif one.is_equation and not number.isdigit(): continue
        elif opens not in (one.text if one.is_equation else one.text[:len(opens)]):
            wrong.append(f"{where(one)}: its text does not have {opens}")
    return wrong


def repeated(found: list) -> list:
    "Ids are unique in the whole book"
    times = Counter(one.id for one in found)
    return [f"{where(one)}: the id is used {times[one.id]} times" for one in found if times[one.id] > 1]


def unknown_code(found: list, names: dict) -> list:
    "Names of code exist in the package: `name`, `module.name` or `Class.method`"
    known = {name for public in names.values() for name in public}
    known |= {f"{module}.{name}" for module, public in names.items() for name in public}
    return [f"{where(one)}: the package has no {name}"
            for one in found for name in one.code if name not in known]


def wrong_sources(found: list, books: dict) -> list:
    "What is known cites works of the bibliography that have a DOI or an arXiv number, and nothing else cites"
    works, wrong = bibliography.entries(books.get(bibliography.STEM, {"cells": []})), []
    for one in found:
        said = [f"{key} is no entry of the bibliography" for key in one.cite if key not in works]
        said += [f"{key} has no DOI or arXiv number" for key in one.cite
                 if key in works and not bibliography.IDENTIFIED.search(works[key])]
        if one.source == "known" and not one.cite: said.append("it is known, but has no cite")
        if one.source != "known" and one.cite: said.append("it has a cite, but its source is not known")
        wrong += [f"{where(one)}: {text}" for text in said]
    return wrong


def wrong_attacks(found: list, books: dict) -> list:
    "Attacks are code cells that are not exported and that can fail"
    attacked = {page for one in found for page, _ in one.attacks if page in books}
    wrong, helpers = [], {page: insisting(books[page]) for page in attacked}
    for one in found:
        for page, name in one.attacks:
            cells = books.get(page, {"cells": []})["cells"]
            cell = next((cell for cell in cells if cell["id"] == name), None)
            if text := no_attack(cell, helpers.get(page)):
                wrong.append(f"{where(one)}: the attack {page}#{name} {text}")
    return wrong


def no_attack(cell, helpers) -> str:
    "Why a cell attacks nothing, or nothing if it does"
    if cell is None: return "does not exist"
    if cell["cell_type"] != "code": return "is not code"
    if nbs.has(cell, *nbs.EXPORTED): return "is exported: it defines, it does not attack"
    return "" if insists(cell["source"], helpers) else "holds no assertion and no attack"


def insists(source: str, helpers=frozenset()) -> bool:
    "Can this code fail on purpose: an assertion, or a call of something that asserts?"
    for node in ast.walk(ast.parse(re.sub(r"(?m)^\s*[%!].*", "pass", source))):
        if isinstance(node, ast.Assert): return True
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).rpartition(".")[2]
            if INSISTS.match(called) or called in helpers: return True
    return False


def insisting(book: dict) -> set:
    "The functions that a notebook defines for itself, outside the module, and that assert"
    helpers = set()
    for cell in book["cells"]:
        if cell["cell_type"] != "code" or nbs.has(cell, *nbs.EXPORTED, "hide"): continue
        tree = ast.parse(re.sub(r"(?m)^\s*[%!].*", "pass", cell["source"]))
        helpers |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
                    and insists(ast.unparse(node), helpers)}
    return helpers


def missing(found: list, paper: list) -> list:
    "Every statement of the paper has a row, and every row of the paper is stated there"
    stated, tagged = {row["id"] for row in paper if row["id"]}, {one.id for one in found}
    wrong = [f"{row['id']} of the paper is nowhere in the book" for row in paper
             if row["id"] and row["id"] not in tagged]
    return wrong + [f"{where(one)}: the paper has no such statement" for one in found
                    if one.source == "paper" and one.id not in stated]


def wrong_labels(found: list, paper: list) -> list:
    "A label of the paper stands with the statement that has it there"
    owner = {label: row["id"] or row["kind"] for row in paper for label in row["labels"].split()}
    return [f"{where(one)}: {label} is the label of {owner[label]}" for one in found for label in one.labels
            if owner.get(label, one.id) != one.id]


def wrong_anchors(found: list) -> list:
    "Behind a tag stands a link target with its id"
    return [f"{where(one)}: no anchor behind the tag: run `python tools/statements.py`" for one in found
            if one.anchor != one.id]


def open_proofs(books: dict) -> list:
    "A proof ends with its mark before the next heading, statement or proof"
    wrong = []
    for stem, book in books.items():
        begun = None  # the cell in which a proof began that has not ended
        for name, line in [*prose_lines(book), ("", "# the end")]:
            starts = tags.PROOF.match(line)
            other = re.match(r"#+ ", line) or tags.OPEN.match(line.strip())
            if begun and (starts or other):
                wrong.append(f"nbs/{nbs.file_of(stem)}, cell {begun}: a proof does not end with $\\square$")
                begun = None
            if starts: begun = name
            if tags.QED.search(line): begun = None
    return wrong


def prose_lines(book: dict) -> list:
    "The lines of all markdown cells outside code, each with the id of its cell"
    return [(cell["id"], line) for cell in book["cells"] if cell["cell_type"] == "markdown"
            for line in nbs.CODE.sub("", cell["source"]).split("\n")]


def wrong_links(books: dict, found: list) -> list:
    "A link to a place in a notebook means something that is there"
    there, wrong = {stem: places(book) for stem, book in books.items()}, []
    for one in found: there[one.page].add(one.id)
    for stem, book in books.items():
        for name, line in prose_lines(book):
            for link in FRAGMENT.finditer(line):
                page = (link[1] or stem).removesuffix(".ipynb")
                if link[2] not in there.get(page, ()):
                    wrong.append(f"nbs/{nbs.file_of(stem)}, cell {name}: {page}.ipynb has no #{link[2]}")
    return wrong


def places(book: dict) -> set:
    "What a link can lead to: targets that are written out, headings and cells"
    text = "\n".join(line for _, line in prose_lines(book))
    headings = {heading.replace(" ", "-") for heading in re.findall(r"(?m)^#+ +(.*?)\s*$", text)}
    headings |= {re.sub(r"[^\w-]", "", heading).lower() for heading in headings}  # as the site names them
    cells = {f"cell-id={cell['id']}" for cell in book["cells"]}
    return headings | cells | set(re.findall(r'<a id="([^"]+)"></a>', text))


def wrong() -> list:
    "Everything that is wrong with the statements of this repository"
    books = nbs.books()
    said = checks(books, tags.inventory(), reference.public_names(books))
    return paper_map.stale() + said + bibliography.wrong(books)


def main():
    "The command line"
    verbatim = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=verbatim)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--paper", type=Path, metavar="TEX", help="renew docs/paper.csv from this LaTeX")
    args = parser.parse_args()
    if args.paper: return print(renewed(args.paper), end="")
    if not args.check:
        for path, text in paper_map.generated().items(): path.write_text(text, encoding="utf-8")
        files = readme.generated(paper_map.INDEX, nbs.ROOT / "README.md")
        for path, content in files.items(): path.write_bytes(content)
    sys.exit("\n".join(wrong()) or 0)


def renewed(source: Path) -> str:
    "Write the list of what the paper states, and return it"
    text = paper_map.as_csv(latex.inventory(source.read_text(encoding="utf-8")))
    tags.PAPER.write_text(text, encoding="utf-8")
    return text


if __name__ == "__main__": main()
