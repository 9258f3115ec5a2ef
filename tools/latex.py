"""What a LaTeX source states: theorems, equations and labels, with the numbers that LaTeX gives them."""
import re
from collections import Counter
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"\\\\|\\(?P<edge>begin|end)\s*\{(?P<name>[^}]*)\}|\\label\s*\{(?P<label>[^}]*)\}"
    r"|\\(?P<section>(?:sub)*section)\*?\s*\{|\\(?P<word>appendix|nonumber|notag)\b"
    r"|\\textit\s*\{\s*\\textbf\s*\{\s*(?P<kind>[A-Z][a-z]+)\s+(?P<roman>[IVX]+)\s*\}")
NEW_THEOREM = re.compile(r"\\newtheorem\s*\{(\w+)\}\s*(?:\[(\w+)\])?\s*\{[^}]*\}")
MANY_LINES = {"align", "gather", "eqnarray"}  # each of their lines has a number of its own
EQUATIONS = MANY_LINES | {"equation", "multline"}
ROMAN = {"I": 1, "V": 5, "X": 10}
STATEMENTS = ("assumption", "definition", "lemma", "property", "remark", "theorem", "equation")


@dataclass
class Item:
    "Something with a number or a label"
    kind: str
    number: str = ""  # as it is printed; nothing for what has a label only
    labels: list = field(default_factory=list)
    counted: bool = True  # an equation's line gets its number at its end, unless it says \nonumber

    @property
    def id(self) -> str:
        "Its name in the book; nothing for what is not a statement"
        if self.kind not in STATEMENTS: return ""
        number = str(arabic(self.number)) if self.kind == "property" else self.number
        return f"{'eq' if self.kind == 'equation' else self.kind}-{number or self.labels[0]}"


def arabic(roman: str) -> int:
    "IV is 4"
    values = [ROMAN[letter] for letter in roman]
    return sum(-a if a < b else a for a, b in zip(values, [*values[1:], 0]))


class Reader:
    "Goes through a source once, counting as LaTeX does"
    def __init__(self, source: str):
        preamble, _, self.body = re.sub(r"(?<!\\)%.*", "", source).partition(r"\begin{document}")
        self.counter_of = {name: shared or name for name, shared in NEW_THEOREM.findall(preamble)}
        self.counters, self.open, self.items, self.letters = Counter(), [], [], False
        self.section = None

    def read(self) -> list:
        "All items, in the order of the source"
        for token in TOKEN.finditer(self.body):
            if token["edge"] == "begin": self.begin(token["name"])
            elif token["edge"] == "end": self.end()
            elif token["label"]: self.label(token["label"])
            elif token["section"]: self.begin_section(token["section"].count("sub"))
            elif token["roman"]: self.items.append(Item(token["kind"].lower(), token["roman"]))
            elif token["word"] == "appendix": self.letters, self.counters["0"] = True, 0
            elif token["word"]: self.equation().counted = False
            elif self.open and self.open[-1][0] in MANY_LINES: self.end_line()
        return [item for item in self.items if item.number or item.labels]

    def begin(self, name: str):
        "An environment opens: perhaps a statement, a figure, or the first line of equations"
        item = None
        if name in self.counter_of or name in ("figure", "table"):
            item = Item(name, self.next(self.counter_of.get(name, name)))
            self.items.append(item)
        elif name in EQUATIONS: item = Item("equation")
        self.open.append([name, item])

    def end(self):
        "The innermost environment closes"
        if self.open and self.open[-1][0] in EQUATIONS: self.end_line()
        if self.open: self.open.pop()

    def end_line(self):
        "A line of equations is complete: now it is known whether it has a number"
        line = self.open[-1][1]
        if line.counted: line.number = self.next("equation")
        self.items.append(line)
        self.open[-1][1] = Item("equation")

    def equation(self) -> Item:
        "The line of equations that is being read"
        return next((item for name, item in reversed(self.open) if name in EQUATIONS), Item("equation"))

    def label(self, name: str):
        "A label belongs to the innermost thing that can have one, else to the section"
        item = next((item for _, item in reversed(self.open) if item), self.section)
        if item: item.labels.append(name)

    def begin_section(self, depth: int):
        "A section counts and restarts the counters below; it is listed if it gets a label"
        self.next(str(depth))
        for deeper in range(depth + 1, 4): self.counters[str(deeper)] = 0
        numbers = [self.counters[str(k)] for k in range(depth + 1)]
        if self.letters: numbers[0] = chr(ord("A") + numbers[0] - 1)
        self.section = Item("section", ".".join(map(str, numbers)))
        self.items.append(self.section)

    def next(self, counter: str) -> str:
        "One further"
        self.counters[counter] += 1
        return str(self.counters[counter])


def inventory(source: str) -> list:
    "What a source states, and the sections and figures that it refers to: rows (id, kind, number, labels)"
    items = [item for item in Reader(source).read() if item.kind != "section" or item.labels]
    return [{"id": item.id, "kind": item.kind, "number": item.number, "labels": " ".join(item.labels)}
            for item in items]
