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
PROP = re.compile(r"prop-([a-z0-9-]+)-\d+")
INSISTS = re.compile(r"_?(assert|attack|refus|fires|neighbour_search|audit|raises)")  # calls that can fail
MENTION = re.compile(r"(?:Theorem|Lemma|Proposition|Corollary|Definition) (?:\d\d|A\d)\.\d+")
MATH = re.compile(r"\$\$(.+?)\$\$|\$([^$]+)\$", re.DOTALL)
MEANS = {  # letters of appendix A3 -> what may stand behind "letter =": a value of that meaning, or a number
    "S": r"\\mathrm\{diag\}|\\lambda", "s": r"\\lambda", "T": r"\\min|\\infty|t_", "W": r"\\mathbf f",
    "B": "", "q": "", r"\\kappa": "", r"\\mu": r"\\sqrt",
}
OTHERWISE = {"estimate": "TW"}  # to be renamed, in its code too
FRAGMENT = re.compile(r"\]\((?:[\w.]+/)*(\w+\.ipynb)?#([^)\s]+)\)")


def checks(books: dict, paper: list, names: dict) -> list:
    "Everything that is wrong; `names` {module: its public names}"
    found = tags.read(books)
    return [*wrong_tags(found), *wrong_names(found), *wrong_text(found), *repeated(found),
            *wrong_sources(found, books), *unknown_code(found, names), *wrong_attacks(found, books),
            *missing(found, paper), *wrong_labels(found, paper), *wrong_anchors(found), *open_proofs(books),
            *wrong_links(books, found), *wrong_mentions(books, found), *wrong_letters(books)]


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
        wrong += [f"{where(one)}: {text}" for text in [*said, *wrong_ids(one)]]
    return wrong


def wrong_ids(one: tags.Statement) -> list:
    "What is not the paper's is prop-name-k in the notebook of that name, or in its appendix, name_proofs"
    if one.source not in ("known", "ours"): return []
    page, named = nbs.name_of(one.page).removesuffix("_proofs").replace("_", "-"), PROP.fullmatch(one.id)
    return [] if named and named[1] == page else [f"the id is not prop-{page}-k"]


def wrong_names(found: list) -> list:
    "What is not the paper's is called NN.k, the k-th on the page NN: numbers follow the order of reading"
    names = paper_map.our_names(found)
    return [f"{where(one)}: it is called {one.name!r}, not {names[one.id]!r}" for one in found
            if one.name != names.get(one.id, one.name)]


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


def wrong_mentions(books: dict, found: list) -> list:
    "Text, code and docstrings speak of statements by names that these have"
    named = {one.name for one in found}
    return [f"nbs/{nbs.file_of(stem)}, cell {cell['id']}: there is no {name}" for stem, book in books.items()
            for cell in book["cells"] for name in MENTION.findall(cell["source"]) if name not in named]


def wrong_letters(books: dict) -> list:
    'A letter of appendix A3 gets no other meaning: no formula begins with "letter = something else"'
    wrong = []
    for stem, book in books.items():
        kept = [letter for letter in MEANS if letter not in OTHERWISE.get(nbs.name_of(stem), "")]
        for name, source in ((cell["id"], cell["source"]) for cell in book["cells"]
                             if cell["cell_type"] == "markdown"):
            formulas = [(display or inline).strip() for display, inline in MATH.findall(source)]
            wrong += [f"nbs/{nbs.file_of(stem)}, cell {name}: {letter} has another meaning in {formula[:30]}"
                      for formula in formulas for letter in kept if redefines(formula, letter)]
    return wrong


def redefines(formula: str, letter: str) -> bool:
    "Does it begin with the letter, made equal to neither a number nor a value of its meaning?"
    meaning = "|".join(filter(None, (r"[-.\d]", MEANS[letter])))
    return bool(re.match(rf"{letter}\s*=(?!\s*(?:{meaning}))", formula))


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
