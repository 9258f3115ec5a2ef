"""The statements of the book, as the notebooks tag them: a box or an equation under a comment."""
import csv
import re
from dataclasses import dataclass, replace
from pathlib import Path

import notebooks as nbs

PAPER = nbs.ROOT / "docs" / "paper.csv"
FIELDS = ("id", "name", "title", "source", "cite", "labels", "code", "attack", "verdict")
LISTS = ("cite", "labels", "code", "attack")
OPEN, SHUT = re.compile(r"<!--\s*statement\s*$"), re.compile(r'-->(?:<a id="([^"]*)"></a>)?\s*$')
FIELD = re.compile(rf"({'|'.join(FIELDS)}):\s*(.*)")
QUOTE = re.compile(r"^> ?")
PROOF = re.compile(r"^(?:> ?)?\s*(?:\*\*|\*|_)Proof\b")
NUMBERED = re.compile(r"(?<=\[)0(?=\d\.\d+\]\()|(?<=\()0(?=\d\.\d+\))"
                      r"|(?<=[a-z][ \N{NO-BREAK SPACE}])0(?=\d\.\d)")
QED = re.compile(r"\$?\\(?:square|blacksquare|Box)\s*\$?")


@dataclass(frozen=True)
class Statement:
    "One tag"
    id: str = ""
    name: str = ""
    title: str = ""
    source: str = ""   # the paper, known, or ours
    cite: tuple = ()   # for what is known: keys of the bibliography
    labels: tuple = ()
    code: tuple = ()
    attack: tuple = ()
    verdict: str = ""
    anchor: str = ""   # id of the invisible link target behind the tag
    unknown: tuple = ()  # lines that are no field
    page: str = ""     # notebook's file name without its suffix
    cell: str = ""     # id of the cell that holds it
    text: str = ""     # what stands under the tag: a box or an equation, without quote marks

    @property
    def is_equation(self) -> bool: return self.id.startswith("eq-")

    @property
    def label(self) -> str:
        "What it is called"
        return f"Equation ({self.id.removeprefix('eq-')})" if self.is_equation else self.name

    @property
    def word(self) -> str:
        "The first word of the verdict"
        return re.match(r"\w*", self.verdict)[0]

    @property
    def attacks(self) -> list:
        "Pairs (notebook, cell) that attack it"
        parts = [text.rpartition("#") for text in self.attack]
        return [(page or self.page, cell) for page, _, cell in parts]


@dataclass(frozen=True)
class Piece:
    "A part of a markdown cell: plain text, or what stands under one or more tags"
    kind: str         # text, box, equation, or nothing where the tag stands alone
    text: str         # without the tags and, in a box, without the quote marks
    tags: tuple = ()  # statements
    indent: str = ""  # of an equation inside a list


def pieces(source: str) -> list:
    "A markdown cell in parts"
    lines, plain, found, k = source.split("\n"), [], [], 0
    fenced = False
    while k < len(lines):
        fenced ^= lines[k].lstrip().startswith("```")
        if fenced or not OPEN.match(lines[k].strip()):
            plain, k = [*plain, lines[k]], k + 1
            continue
        tags, start = [], lines[k]
        while k < len(lines) and OPEN.match(lines[k].strip()):
            tag, k = read_tag(lines, k)
            tags.append(tag)
            while k < len(lines) and not lines[k].strip(): k += 1
        kind, text, k = under(lines, k)
        indent = start[:len(start) - len(start.lstrip())]
        found += [Piece("text", "\n".join(plain)), Piece(kind, text, tuple(tags), indent)]
        plain = []
    return [piece for piece in [*found, Piece("text", "\n".join(plain))] if piece.tags or piece.text.strip()]


def read_tag(lines: list, k: int) -> tuple:
    "The tag that opens in line k, and the number of the line after it"
    values, last, odd = {}, None, []
    for end in range(k + 1, len(lines)):
        line = lines[end].strip()
        if shut := SHUT.match(line): break
        if match := FIELD.match(line): values[last := match[1]] = match[2]
        elif last and line: values[last] += " " + line  # a long value goes on
        elif line: odd.append(line)
    else: raise ValueError(f"a tag is never closed: {lines[k:k + 2]}")
    for name in LISTS: values[name] = tuple(re.findall(r"[^\s,]+", values.get(name, "")))
    return Statement(**values, anchor=shut[1] or "", unknown=tuple(odd)), end + 1


def under(lines: list, k: int) -> tuple:
    "What stands under a tag: its kind, its text, and the number of the line after it"
    rest = lines[k:]
    if rest and rest[0].startswith(">"):
        count = next((i for i, line in enumerate(rest) if not line.startswith(">")), len(rest))
        return "box", "\n".join(QUOTE.sub("", line) for line in rest[:count]), k + count
    if rest and rest[0].lstrip().startswith("$$"):
        seen = 0
        for count, line in enumerate(rest, 1):
            if (seen := seen + line.count("$$")) >= 2:
                return "equation", "\n".join(line.strip() for line in rest[:count]), k + count
    return "nothing", "", k


def in_cell(source: str) -> list:
    "All statements of a markdown cell, also the equations inside boxes"
    found = []
    for piece in pieces(source):
        found += [replace(tag, text=piece.text) for tag in piece.tags]
        if piece.kind == "box": found += in_cell(piece.text)
    return found


def read(books: dict) -> list:
    "All statements of the notebooks {stem: notebook}; the attacks name notebooks without their numbers"
    stems = {nbs.name_of(stem): stem for stem in books}
    def place(attack):
        page, mark, cell = attack.rpartition("#")
        return f"{stems.get(page, page)}{mark}{cell}"
    return [replace(found, page=stem, cell=cell["id"], attack=tuple(map(place, found.attack)))
            for stem, book in books.items() for cell in book["cells"] if cell["cell_type"] == "markdown"
            for found in in_cell(cell["source"])]


def shown(text: str) -> str:
    "A text with the names of statements as the site has them: Theorem 6.1 for Theorem 06.1"
    return NUMBERED.sub("", text)


def inventory(path: Path = PAPER) -> list:
    "What the paper states: rows (id, kind, number, labels)"
    with path.open(encoding="utf-8", newline="") as file: return list(csv.DictReader(file))
