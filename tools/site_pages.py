"""Pages and menus of the site that are in no notebook: home, contents, guarantees, and the sidebar."""
import json
import re

import notebooks as nbs

HOME, EXTENDING = nbs.ROOT / "docs" / "home.md", nbs.ROOT / "docs" / "extending.md"
GUARANTEES = nbs.ROOT / "tests" / "saved" / "guarantees.json"
METHODS = {"none": "No privacy", "one": "Method I", "two": "Method II", "moments": "The moments filter",
           "labels": "The labels filter", "products": "The products filter",
           "tests": "Tests with a public distribution"}
GUIDE = "Developer guide"
OWN = re.compile(r"^(Appendix|Chapter) \w+[:.] ")  # a number that a title has already
NUMBER = re.compile(r"^([aA]?)0*(\d+)$")


def shown_number(stem: str) -> str:
    "The number of a chapter as readers see it: 6 for 06_threshold, A4 for a4_bibliography"
    return NUMBER.sub(lambda m: m[1].upper() + m[2], nbs.number_of(stem))


def numbered(stem: str, name: str) -> str:
    "The title of a chapter with its number"
    number = shown_number(stem)
    return f"{number}. {OWN.sub('', name)}" if number else name


def title(stem: str, book: dict) -> str:
    "A notebook's title with its number"
    return numbered(stem, nbs.title_of(book, stem)[0])


def parts(books: dict, project: list) -> dict:
    "The sidebar {part: pages in order}: the book, examples, appendices, then what only developers need"
    groups = {"Start": ["index", "contents"]}
    for stem in (stem for stem in books if stem != "index"):
        part = GUIDE if nbs.is_guide(stem) else nbs.chapter_of(stem)
        groups.setdefault(part, []).append(stem)
    groups["Appendix"] = [*groups.get("Appendix", []), "map", "guarantees"]
    groups[GUIDE] = [*groups.pop(GUIDE, []), "extending"]
    return groups | {"Reference": ["reference/index", "reference/modules"], "Project": project}


def plain(text: str) -> str:
    "A title without marks, for a menu"
    return re.sub(r"[`*_]", lambda m: "_" if m[0] == "_" else "", text)


def contents(books: dict, groups: dict) -> str:
    "All chapters, examples, appendices and pages of the guide, each with its sentence"
    text = ["# Contents", "The chapters in reading order. Each is a notebook: the idea, the statement, "
            "its proof, the code, and an attack on all of it."]
    for part, stems in groups.items():
        lines = []
        for stem in (stem for stem in stems if stem in books and stem != "index"):
            sentence = nbs.relink(nbs.title_of(books[stem], stem)[1], lambda path: path.name,
                                  nbs.path_of(stem).parent)
            lines.append(f"- [{title(stem, books[stem])}]({stem}.ipynb)  \n  {sentence}")
        if lines: text += [f"## {part}", "\n".join(lines)]
    return "\n\n".join(text) + "\n"


def guarantees() -> str:
    "What every method promises under every rule, in the words that it prints"
    saved = json.loads(GUARANTEES.read_text(encoding="utf-8"))["guarantees"]
    cases = {}
    for name, lines in saved.items():
        case, _, rule = name.rpartition(": ")
        if not case.endswith(", simulated"): cases.setdefault(case, {})[rule] = lines
    text = ["# Guarantees in full",
            "What each method promises, under each rule, in the words of the program; a test compares "
            f"them with the code. [Which method]({nbs.path_of('which_method').name}) helps to choose."]
    for case, rules in cases.items():
        asked = {rule: lines for rule, lines in rules.items() if rule != "release"} or rules
        first, *others = asked.values()
        word, *options = case.split(", ")
        shared = [line for line in first if all(line in lines for lines in others)]
        text += [f"## {', '.join([METHODS[word], *options])}", "\n".join(f"- {line}" for line in shared)]
        own = [(rule, [line for line in lines if line not in shared]) for rule, lines in asked.items()]
        text.append("\n".join(f"- **{rule}**: {' '.join(lines)}" for rule, lines in own if lines))
    return "\n\n".join(filter(None, text)).replace("<=", r"\<=").replace("E[", r"E\[") + "\n"


def home(groups: dict) -> str:
    "The first page, and what comes next on every page: from here to the first chapter, and on"
    late = {"Start": groups["Start"][2:], "Contents": ["contents"]}
    trees = [toctree(part, pages) for part, pages in (groups | late).items() if pages]
    return "\n\n".join([HOME.read_text(encoding="utf-8"), *trees])


def toctree(caption: str, pages: list) -> str:
    "A hidden table of contents: what comes next, and before"
    return f"```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(pages) + "\n```\n"


def sidebar(groups: dict, titles: dict) -> list:
    "The sidebar for its template: captions with pages and their titles"
    return [{"caption": part, "pages": [[page, plain(titles[page])] for page in pages]}
            for part, pages in groups.items() if pages]
