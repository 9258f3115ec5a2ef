"""Build the HTML site in docs/_build/html from the notebooks and their saved outputs: nothing is executed.

Each notebook becomes a page, with the code of its export cells beside the derivation; each module gets a
reference page; names of the package in prose link to it. Warnings are errors, and so is a page that would
load anything from the network.
"""
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import notebooks as nbs
import reference

DOCS = nbs.ROOT / "docs"
SOURCE, BUILD = DOCS / "_source", DOCS / "_build"
PROJECT = [nbs.ROOT / name for name in ("SECURITY.md", "CHANGELOG.md", "CONTRIBUTING.md")]
PAGES = [path for path in PROJECT if path.exists()]
PROSE = re.compile(nbs.CODE.pattern + r"|(^#[^\n]*$)|(!?\[[^\]]*\]\([^)]*\))", re.MULTILINE | re.DOTALL)
LOADS = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=["'](?:https?:)?//[^"']*["']""")


def main():
    "Write the pages, build the site, look for anything it would load from elsewhere"
    books = {path.stem: nbs.read(path) for path in nbs.paths()}
    modules = [reference.module(stem, book) for stem, book in books.items() if nbs.module_of(book)]
    for folder in (SOURCE, BUILD): shutil.rmtree(folder, ignore_errors=True)
    for stem, book in books.items():
        write(f"{stem}.ipynb", json.dumps(page(stem, book, modules, list(books)), indent=1))
    if "index" not in books: write("index.md", landing(modules, list(books)))
    for module in modules: write(f"reference/{module.name}.md", reference.page(module))
    for path in PAGES: write(path.name, nbs.relink(path.read_text(encoding="utf-8"), moved))
    write("reference/index.md", reference.overview(modules, reference.package_names()))
    copy_mathjax()
    options = ["-q", "-W", "--keep-going", "-c", DOCS, "-d", BUILD / "doctrees"]
    command = [sys.executable, "-m", "sphinx", *options, SOURCE, BUILD / "html"]
    sys.exit(subprocess.run([str(word) for word in command]).returncode or offline())


def write(name: str, text: str):
    "Write one file of the Sphinx source"
    path = SOURCE / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def page(stem: str, book: dict, modules: list, stems: list) -> dict:
    "A notebook as the reader of the site sees it"
    links, cells = lookup(modules, stem), []
    for index, cell in enumerate(book["cells"]):
        if cell["cell_type"] == "markdown":
            cells.append(cell | {"source": prose(stem, index, cell["source"], links)})
        elif cell["cell_type"] == "code" and nbs.is_shown(cell):
            target = markdown(f"{cell['id']}-target", f"({reference.cell_anchor(stem, cell)})=")
            exported = nbs.has(cell, "export", "exports")
            cells += [target] * exported + [cell | {"source": nbs.code(cell["source"])}]
    if stem == "index": cells.append(markdown("contents", contents(stems)))
    return book | {"cells": cells}


def prose(stem: str, index: int, source: str, links: dict) -> str:
    "A markdown cell with a target before each heading, a styled subtitle, and links that work on the site"
    for k, heading in reversed(list(enumerate(reference.headings(source)))):
        target, start = f"({reference.section_anchor(stem, index, k)})=\n", heading.start()
        source = source[:start] + target + source[start:]
    if index == 0:
        source = re.sub(r"\A(# [^\n]*\n)\s*>", rf"({stem}-top)=\n\1\n{{.subtitle}}\n>", source)
    return nbs.relink(linked(source, links), moved)


def linked(source: str, links: dict) -> str:
    "Turn the package's names in back-ticks into links, but not in headings, other links or code blocks"
    def link(match):
        name = match[0].strip("`").removesuffix("()")
        return f"{{py:obj}}`{match[0].strip('`')} <{links[name]}>`" if name in links else match[0]
    return PROSE.sub(link, source)


def moved(path: Path) -> str:
    "A file of the repository, seen from the Sphinx source: a page of the site, or else a download"
    if path == nbs.ROOT / "README.md": return "index"
    if path.parent == nbs.NBS or path in PAGES: return path.name
    return "path:" + Path(os.path.relpath(path, SOURCE)).as_posix()


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


def contents(stems: list) -> str:
    "The sidebar: the notebooks in reading order under the names of their parts, the reference, the project"
    groups = {"Start": ["Home <self>"]}
    for stem in stems:
        if stem != "index": groups.setdefault(nbs.PARTS.get(nbs.part_of(stem), "Further"), []).append(stem)
    groups |= {"Code": ["reference/index"], "Project": [path.stem for path in PAGES]}
    return "\n\n".join(reference.toctree(pages, caption) for caption, pages in groups.items() if pages)


def landing(modules: list, stems: list) -> str:
    "A landing page for a package that has no index notebook"
    lines = [f"{k}. [{m.title}]({m.page}.ipynb): {m.subtitle}" for k, m in enumerate(modules, 1)]
    return "\n".join([f"# {reference.PACKAGE}\n", *lines, "", contents(stems)]) + "\n"


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
