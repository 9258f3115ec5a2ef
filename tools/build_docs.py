"""Build the HTML site in docs/_build/html from the notebooks and their saved outputs: nothing is executed.

Each notebook becomes a page, with the code of its export cells beside the derivation and its statements as
boxes; each module gets a reference page; names of the package in prose link to it. Warnings are errors, and
so is a page that would load anything from the network.
"""
import ast
import html
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import bibliography
import boxes
import notebooks as nbs
import paper_map
import reference
import site_pages
import site_search
import tags

DOCS = nbs.ROOT / "docs"
SOURCE, BUILD = DOCS / "_source", DOCS / "_build"
PROJECT = [nbs.ROOT / name for name in ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = [path for path in PROJECT if path.exists()]
PROSE = re.compile(nbs.CODE.pattern + r"|(^#[^\n]*$)|(!?\[[^\]]*\]\([^)]*\))", re.MULTILINE | re.DOTALL)
MODULE = re.compile(r"\[`([\w.]+)`\]\([^)\s]*dp_knockoff/[\w/]+\.py\)")   # in the map: a name with its module
CELL = re.compile(r"\]\((?:(?:[\w.]+/)*(\w+)\.ipynb)?#cell-id=([0-9a-f]+)\)")  # a cell, as Jupyter names it
KINDS = "assumption|definition|eq|lemma|prop|property|remark|theorem"
PLACE = re.compile(  # a statement, or a work that is cited
    rf"\]\((?:[\w.]+/)*\w+\.ipynb#((?:{KINDS})-[a-z0-9-]+|[a-z]+\d{{4}}[a-z]?)\)")
CHAPTER = re.compile(PROSE.pattern + r"|\b[Cc]hapter (\d{1,2})\b", re.MULTILINE | re.DOTALL)
SECTION = re.compile(r"(\]\((?:(?:[\w.]+/)*\w+\.ipynb)?#)([^)\s]+)(?=\))")  # a heading, as Jupyter names it
CAPTION = re.compile(r"^(\*\*Figure \d+\.\*\*)", re.MULTILINE)
SHORT = 4  # lines of code above a picture that are shown without being asked for
SIGNATURES = 3  # the most that a folded cell shows
LOADS = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["'](?:https?:)?//[^"']*["']""")


def main():
    "Write the pages, build the site, look for anything it would load from elsewhere"
    books = nbs.books()
    found = tags.read(books)
    for folder in (SOURCE, BUILD): shutil.rmtree(folder, ignore_errors=True)
    write_pages(books, found)
    copy_mathjax()
    options = ["-q", "-W", "--keep-going", "-c", DOCS, "-d", BUILD / "doctrees"]
    command = [sys.executable, "-m", "sphinx", *options, SOURCE, BUILD / "html"]
    code = subprocess.run([str(word) for word in command]).returncode
    if (index := BUILD / "html" / "searchindex.js").exists(): weigh(index, books, found)
    sys.exit(code or offline())


def write_pages(books: dict, found: list):
    "Write the Sphinx source: notebooks, the map, the reference, the project's own pages"
    modules = [reference.module(stem, book) for stem, book in books.items() if nbs.module_of(book)]
    cited, entries = bibliography.citations(books), bibliography.entries(books[bibliography.STEM])
    works = {key: bibliography.short(key, text) for key, text in entries.items()}
    credit(modules, found)
    meant = linked_cells(books)
    for stem, book in books.items():
        if stem == "index": continue  # the README; the site has a first page of its own
        shown = page(stem, book, modules, found, cited, works, meant)
        write(f"{stem}.ipynb", json.dumps(shown, indent=1))
    for module in modules: write(f"reference/{module.name}.md", reference.page(module))
    write("reference/index.md", reference.overview(modules, reference.package_groups()))
    write("reference/modules.md", reference.internals(modules))
    groups = site_pages.parts(books, [path.stem for path in PAGES])
    texts = written_pages(books, found, modules, groups)
    for name, text in texts.items(): write(f"{name}.md", text)
    titles = {stem: site_pages.title(stem, book) for stem, book in books.items()}
    titles |= {name: re.search(r"(?m)^# (.*)$", text)[1] for name, text in texts.items()}
    titles |= {"index": "Home", "reference/index": "Reference", "reference/modules": "All modules"}
    write("sidebar.json", json.dumps(site_pages.sidebar(groups, titles)))


def written_pages(books: dict, found: list, modules: list, groups: dict) -> dict:
    "{name: text} of the pages that are neither a notebook nor of the reference"
    links, docs = lookup(modules, ""), {"index": site_pages.home(groups)}
    docs["extending"] = site_pages.EXTENDING.read_text(encoding="utf-8")
    docs = {name: nbs.relink(text, moved, DOCS) for name, text in docs.items()}
    docs["extending"] = linked(docs["extending"], links)
    for path in PAGES: docs[path.stem] = nbs.relink(path.read_text(encoding="utf-8"), moved)
    return docs | {"map": prose("map", 1, full_map(found, books), links),
                   "contents": site_pages.contents(books, groups), "guarantees": site_pages.guarantees()}


def write(name: str, text: str):
    "Write one file of the Sphinx source"
    path = SOURCE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(tags.shown(text), encoding="utf-8")


def credit(modules: list, found: list):
    "Tell every entry of the reference which statements it implements"
    for one in found:
        links = lookup(modules, one.page)
        paths = [links[name] + "." for name in one.code if name in links]
        for entry in (entry for module in modules for entry in module.entries):
            if any(path.startswith(entry.path + ".") for path in paths): entry.stated.append(one)


def full_map(found: list, books: dict) -> str:
    "The page with every row of the map"
    paper, names = tags.inventory(), reference.public_names(books)
    ordered = paper_map.by_paper(found, paper)
    parts = ["# The map of the paper",
             "Every statement of the paper, in its order, and of this book: its box, the code that "
             "implements it, the cells that attack it, and the verdict."]
    for source, heading in (("paper", "The paper"), ("known", "What is known"), ("ours", "What we add")):
        rows = [one for one in ordered if one.source == source]
        if rows: parts.append(f"## {heading}\n\n{paper_map.table(rows, names)}")
    others = ", ".join(f"{row['kind']} {row['number']} (`{row['labels']}`)" for row in paper if not row["id"])
    return "\n\n".join([*parts, f"The paper labels these as well, which state nothing: {others}."]) + "\n"


def weigh(path: Path, books: dict, found: list):
    "Let the search find statements by their names, and first the pages that are about a word"
    text = path.read_text(encoding="utf-8")
    index = json.loads(text.removeprefix("Search.setIndex(").removesuffix(")"))
    others = {name: (SOURCE / f"{name}.md").read_text(encoding="utf-8")
              for name in ("index", "guarantees", "extending", "map", *(path.stem for path in PAGES))}
    others["map"] = "\n\n".join(line for line in others["map"].splitlines() if not line.startswith("|"))
    kinds = {name: ("home" if name == "index" else "project", text) for name, text in others.items()}
    index = site_search.added(index, site_search.pages(books, kinds), found)
    path.write_text(f"Search.setIndex({json.dumps(index, separators=(',', ':'))})", encoding="utf-8")


def page(stem: str, book: dict, modules: list, found: list, cited: dict, works: dict,
         meant: set) -> dict:
    "A notebook as the reader of the site sees it"
    links, cells, notes, open_proof = lookup(modules, stem), [], notes_on(stem, book, found, meant), False
    targets = {cell: f"{cell[0]}-cell-{cell[1]}" for one in found for cell in one.attacks}
    for index, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "markdown":
            text = boxes.rendered(with_targets(stem, index, cell["source"]), stem, links, targets, works)
            text, open_proof = boxes.with_proofs(text, open_proof)
            if stem == bibliography.STEM: text = with_citations(text, cited)
            cells.append(cell | {"source": prose(stem, index, text, links)})
        elif cell["cell_type"] == "code" and nbs.is_shown(cell):
            note = notes.get(cell["id"])
            above = f"({reference.cell_anchor(stem, cell)})=\n" + (f"{{.cell-note}}\n{note}" if note else "")
            if nbs.has(cell, *nbs.EXPORTED) and not cell["outputs"]:
                if only_imports(cell): continue  # what the module needs, not the reader
                cells.append(markdown(f"{cell['id']}-code", f"{above}\n\n{exported(cell, links)}"))
                continue
            shown = described(folded(cell)) | {"source": nbs.code(cell["source"])}
            cells += [markdown(f"{cell['id']}-note", above)] * (cell["id"] in notes) + [shown]
    return book | {"cells": cells}


def linked_cells(books: dict) -> set:
    "The cells (notebook, id) that prose links to"
    return {(link[1] or stem, link[2]) for stem, book in books.items() for cell in book["cells"]
            if cell["cell_type"] == "markdown" for link in CELL.finditer(cell["source"])}


def with_citations(text: str, cited: dict) -> str:
    "The bibliography with the notebooks that cite each entry"
    def entry(match):
        stems = [stem for stem in cited.get(match[1], []) if stem != "index"]
        pages = {stem: site_pages.shown_number(stem) or nbs.name_of(stem) for stem in stems}
        links = ", ".join(f"[{shown}]({stem}.ipynb)" for stem, shown in pages.items())
        return match[0] + f" [Cited in {links}.]{{.cited}}" * bool(links)
    return re.sub(r"^\((\w+)\)=\n.+$", entry, text, flags=re.MULTILINE)


def notes_on(stem: str, book: dict, found: list, meant: set) -> dict:
    "{cell: a line above it}: which statements a cell attacks; nothing for code that is only linked"
    attacked = {}
    for one in found:
        for cell in (cell for page, cell in one.attacks if page == stem):
            attacked.setdefault(cell, []).append(f"[{one.label}](#{one.id})")
    notes = {cell["id"]: "" for cell in book["cells"]
             if nbs.has(cell, *nbs.EXPORTED) or (stem, cell["id"]) in meant}
    return notes | {cell: "Attacks " + ", ".join(names) for cell, names in attacked.items()}


def exported(cell: dict, links: dict) -> str:
    "A cell of the module as its signatures, which open to show the code; names lead to the reference"
    found = [(name, reference.short(name, node)) for name, node in reference.definitions(cell["source"])]
    shown = "<br>".join(f"<code>{signature(name, text, links)}</code>" for name, text in found[:SIGNATURES])
    if len(found) > SIGNATURES: shown += f" and {len(found) - SIGNATURES} more"
    count = nbs.code(cell["source"]).count("\n") + 1
    shown = shown or f"Code of the module, {count} lines"
    code = reference.directive("code-block", "python", nbs.code(cell["source"]), domain="", ticks=4)
    fold = f'<details class="source exported"><summary>{shown}</summary>\n\n{code}\n\n</details>'
    return f"::::::{{container}} fold\n\n{fold}\n\n::::::"


def only_imports(cell: dict) -> bool:
    "Does a cell do nothing but import?"
    tree = ast.parse(re.sub(r"(?m)^\s*[%!].*", "pass", nbs.code(cell["source"])))
    return all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in tree.body)


def signature(name: str, text: str, links: dict) -> str:
    "A signature in HTML whose name leads to its place in the reference"
    if not (path := links.get(name)): return html.escape(text)
    page = f"reference/{path.removeprefix(reference.PACKAGE + '.').removesuffix('.' + name)}.html#{path}"
    return f'<a href="{page}">{name}</a>{html.escape(text.removeprefix(name))}'


def folded(cell: dict) -> dict:
    "A cell that only imports, or draws with many lines, behind a line that opens it"
    if only_imports(cell): summary = "Imports"
    elif nbs.has(cell, *nbs.EXPORTED): summary = "Code of the module"
    elif nbs.draws(cell) and nbs.code(cell["source"]).count("\n") >= SHORT: summary = "Code of the picture"
    else: return cell
    prompts = {"code_prompt_show": f"{summary}: show", "code_prompt_hide": f"{summary}: hide"}
    tags = [*cell["metadata"].get("tags", []), "hide-input"]
    return cell | {"metadata": cell["metadata"] | {"tags": tags, "mystnb": prompts}}


def described(cell: dict) -> dict:
    "A cell whose picture has the alternative text of its line `#| fig-alt: ...`"
    if not nbs.draws(cell): return cell
    known = cell["metadata"].get("mystnb", {})
    return cell | {"metadata": cell["metadata"] | {"mystnb": known | {"image": {"alt": nbs.alt(cell)}}}}


def with_targets(stem: str, index: int, source: str) -> str:
    "A markdown cell with a target before each heading"
    for k, heading in reversed(list(enumerate(reference.headings(source)))):
        target, start = f"({reference.section_anchor(stem, index, k)})=\n", heading.start()
        source = source[:start] + target + source[start:]
    return source


def prose(stem: str, index: int, source: str, links: dict) -> str:
    "A markdown cell with a styled subtitle, a download, and links that work on the site"
    if index == 0:
        download = f"{{.download}}\n{{download}}`This page as a notebook <../../{where(stem)}>`\n"
        source = re.sub(r"\A# [^\n]*", lambda m: f"# {site_pages.numbered(stem, m[0][2:])}", source)
        source = re.sub(r"\A(# [^\n]*\n)\s*>", rf"({stem}-top)=\n\1\n{{.subtitle}}\n>", source)
        source = source.rstrip("\n") + "\n\n" + download
    parts = nbs.VERBATIM.split(MODULE.sub(r"`\1`", source))
    parts[::2] = [placed(CAPTION.sub(r"{.caption}\n\1", part), stem) for part in parts[::2]]
    return nbs.relink(chaptered(linked("".join(parts), links)), moved, folder(stem))


def placed(text: str, stem: str) -> str:
    "Links to cells, statements, works and headings, as the site names them"
    text = CELL.sub(lambda m: f"](#{m[1] or stem}-cell-{m[2]})", text)
    return SECTION.sub(lambda m: m[1] + re.sub(r"[^\w-]", "", m[2]).lower(), PLACE.sub(r"](#\1)", text))


def where(stem: str) -> str:
    "The file of a notebook, from the root"
    return f"nbs/{nbs.file_of(stem)}"


def folder(stem: str) -> Path:
    "Where a page's relative links start"
    return (nbs.NBS / nbs.file_of(stem)).parent


def linked(source: str, links: dict) -> str:
    "Turn the package's names in back-ticks into links, but not in headings, other links or code blocks"
    def link(match):
        name = match[0].strip("`").removesuffix("()")
        return f"{{py:obj}}`{match[0].strip('`')} <{links[name]}>`" if name in links else match[0]
    return PROSE.sub(link, source)


def moved(path: Path) -> str:
    "A file of the repository, seen from the Sphinx source: a page of the site, or else a download"
    if path in (nbs.ROOT / "README.md", nbs.NBS / "index.ipynb"): return "index.md"
    if path.suffix == ".md" and DOCS in path.parents: return path.relative_to(DOCS).as_posix()
    if nbs.NBS in path.parents or path in PAGES: return path.name
    return "path:" + Path(os.path.relpath(path, SOURCE)).as_posix()


def chaptered(source: str) -> str:
    "Link \"chapter 7\" to that chapter, but not in headings, other links or code"
    chapters = {site_pages.shown_number(path.stem): path for path in nbs.paths() if nbs.number_of(path.stem)}
    def link(match):
        path = chapters.get(str(int(match[match.lastindex]))) if match[0][1:].startswith("hapter") else None
        return f"[{match[0]}]({path.name})" if path else match[0]
    return CHAPTER.sub(link, source)


def lookup(modules: list, stem: str) -> dict:
    "Name in prose -> object; where two modules share a name, the notebook's own wins, then the first"
    links = {}
    for module in sorted(modules, key=lambda module: module.page != stem):
        short = {name: path for entry in module.entries for name, path in reference.names_of(entry).items()}
        full = {path: path for path in short.values()}
        links = full | short | {module.path: module.path} | links
    return links


def markdown(name: str, source: str) -> dict:
    "A new markdown cell"
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": source}


def copy_mathjax():
    "The part of MathJax that the pages need: the program, its fonts, the TeX extensions it loads on demand"
    bundle = Path(find_spec("sphinx-mathjax-offline").origin).parent / "static" / "mathjax"
    target = SOURCE / "_static" / "mathjax"
    for folder in ("output/chtml/fonts/woff-v2", "input/tex/extensions"):
        shutil.copytree(bundle / folder, target / folder)
    shutil.copy(bundle / "tex-chtml.js", target)


def offline() -> int:
    "1, with a sentence for each, if some page loads anything from elsewhere"
    found = [(path.relative_to(BUILD), tag[0]) for path in sorted(BUILD.glob("html/**/*.html"))
             for tag in LOADS.finditer(path.read_text(encoding="utf-8"))]
    for path, tag in found: print(f"{path} loads something from the network: {tag}", file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__": main()
