"""The map of the paper: every statement with its box, its code, its attacks and the verdict."""
import csv
import io
import json
import re
from collections import Counter

import notebooks as nbs
import reference
import tags

MAP, INDEX = nbs.ROOT / "docs" / "statements.csv", nbs.NBS / "index.ipynb"
BEGIN = "<!-- the map of the paper: written by tools/statements.py, do not edit -->"
END = "<!-- end of the map -->"
SOURCES = "a4_bibliography"
NO_BREAK = "\N{NO-BREAK SPACE}"
SAID = {  # what a verdict starts with -> how it is said of many, and of one
    "holds": ("hold", "holds"), "loose": ("hold but are loose", "holds but is loose"),
    "false": ("are false as printed", "is false as printed"),
    "repaired": ("hold after a repair", "holds after a repair"),
    "definition": ("are definitions", "is a definition"),
    "assumption": ("are assumptions", "is an assumption"),
}


def anchored(source: str) -> str:
    "A markdown cell with a link target behind every tag"
    lines, name = source.split("\n"), None
    for k, line in enumerate(lines):
        bare = tags.QUOTE.sub("", line).strip()
        if tags.OPEN.match(bare): name = ""
        elif name is not None and bare.startswith("id:"): name = bare[3:].strip()
        elif name is not None and tags.SHUT.match(bare):
            lines[k], name = line[:line.index("-->")] + f'--><a id="{name}"></a>', None
    return "\n".join(lines)


def numbered(source: str, names: dict) -> str:
    "A markdown cell whose boxes and links call our statements by their names {id: name}"
    called = dict(re.findall(r"(?m)^(?:> ?)?id: (prop-[\w-]+)\n(?:> ?)?name: (.+)$", source))
    renamed = {old: names.get(key, old) for key, old in called.items()}
    def box(match): return f"{match[1]}{renamed.get(match[2], match[2])}{match[3]}"
    source = re.sub(r"(?m)^((?:> ?)?name: )(.+)($)", box, source)
    source = re.sub(r"(\*\*)([A-Z][a-z]+ \w+\.\d+)(\*\*)", box, source)
    def link(match):
        kind, _, number = names.get(match[3], "").partition(" ")
        fits = kind and match[1].rstrip("s ") in ("", kind)
        return f"[{match[1]}{number}]({match[2]}#{match[3]})" if fits else match[0]
    return re.sub(r"\[((?:[A-Z][a-z]+ )?)\w+\.\d+\]\(([^)#\s]*)#(prop-[\w-]+)\)", link, source)


def our_names(found: list) -> dict:
    "What statements that are not the paper's are called: the second on page 12 is Theorem 12.2"
    seen, names = Counter(), {}
    for one in found:
        if one.source not in ("known", "ours"): continue
        seen[one.page] += 1
        page = (nbs.number_of(one.page) or nbs.name_of(one.page)).upper()
        names[one.id] = f"{one.name.partition(' ')[0]} {page}.{seen[one.page]}"
    return names


def box_link(one: tags.Statement) -> str: return f"{nbs.file_of(one.page)}#{one.id}"


def attack_link(page: str, cell: str) -> str: return f"{nbs.file_of(page)}#cell-id={cell}"


def table_cell(text: str) -> str:
    "Text inside a table: no bar may stand in it"
    parts = re.split(r"(\$[^$]*\$)", text)
    return "".join(re.sub(r"\\\||\|", lambda m: r"\Vert " if m[0] == r"\|" else r"\vert ", part) if k % 2
                   else part.replace("|", r"\|") for k, part in enumerate(parts))


def code_links(one: tags.Statement, names: dict) -> str:
    "Names of code, each a link to its module"
    home = {name: module for module, public in names.items() for name in public}
    own = next((m for m in names if m.rpartition(".")[2] == nbs.name_of(one.page)), "")
    home |= {name: own for name in names.get(own, ())}  # its own notebook comes first
    shown = [(name, home.get(name, name.rpartition(".")[0])) for name in one.code]
    return ", ".join(f"[`{name}`](../dp_knockoff/{module.replace('.', '/')}.py)" for name, module in shown)


def row(one: tags.Statement, names: dict) -> str:
    "A row of the map"
    attacks = ", ".join(f"[{k}]({attack_link(*cell)})" for k, cell in enumerate(one.attacks, 1))
    title, verdict = reference.escape(one.title), reference.escape(one.verdict)
    title += "".join(f" [Source]({nbs.file_of(SOURCES)}#{key})" for key in one.cite)
    name = one.label.replace(" ", NO_BREAK)
    cells = [f"[{name}]({box_link(one)})", title, code_links(one, names), attacks, verdict]
    return "| " + " | ".join(map(table_cell, cells)) + " |"


def table(found: list, names: dict) -> str:
    "Statements as a table"
    head = "| statement | what it says | code | attacks | verdict |\n|---|---|---|---|---|\n"
    return head + "\n".join(row(one, names) for one in found)


def by_paper(found: list, paper: list) -> list:
    "The paper's statements in its order, then ours in the order of the book"
    place = {row["id"]: k for k, row in enumerate(paper) if row["id"]}
    return sorted(found, key=lambda one: place.get(one.id, len(paper)))


def summary(found: list) -> str:
    "The README's section on the paper: how its statements fared, and where to look them up"
    printed = [one for one in found if one.source == "paper"]
    count = Counter(one.word for one in printed)
    sources = Counter(one.source for one in found)
    numbers = ", ".join(f"{count[word]} {said[count[word] == 1]}"
                        for word, said in SAID.items() if count[word])
    text = ("Every statement of the paper stands in a box with its proof, its code, the cells that attack "
            f"it, and a verdict. Of {len(printed)}, {numbers}. Of {len(found) - len(printed)} further ones "
            f"{sources['known']} are known results, with their sources, and {sources['ours']} are ours. "
            "[statements.csv](../docs/statements.csv) lists them all.")
    return f"{BEGIN}\n\n## The paper\n\n{text}\n\n{END}"


def as_csv(rows: list) -> str:
    "Rows as a CSV"
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]) if rows else ["id"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def map_csv(found: list, paper: list) -> str:
    "docs/statements.csv: one row for each statement"
    labels = {row["id"]: row["labels"] for row in paper}
    return as_csv([{
        "id": one.id, "statement": one.label, "title": one.title, "source": one.source,
        "cite": " ".join(one.cite), "labels": labels.get(one.id) or " ".join(one.labels),
        "box": "nbs/" + box_link(one),
        "code": " ".join(one.code), "attacks": " ".join(f"nbs/{attack_link(*cell)}" for cell in one.attacks),
        "verdict": one.verdict} for one in by_paper(found, paper)])


def saved(notebook: dict) -> str:
    "A notebook as nbdev_clean writes it"
    return json.dumps(notebook, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def generated() -> dict:
    "Every file that this tool writes, with its content (README.md follows from index.ipynb)"
    books, paper, files = nbs.books(), tags.inventory(), {}
    found = tags.read(books)
    written, names = summary(found), our_names(found)
    for stem in books:
        path = nbs.path_of(stem)
        book = json.loads(path.read_text(encoding="utf-8"))
        before = saved(book)
        for cell in book["cells"]: renew(cell, written, names)
        if saved(book) != before: files[path] = saved(book)
    return files | {MAP: map_csv(found, paper)}


def renew(cell: dict, written: str, names: dict):
    "Put the map where it belongs, a link target behind every tag, and numbers into names"
    if cell["cell_type"] != "markdown": return
    source = nbs.joined(cell["source"])
    new = written if source.startswith(BEGIN) else numbered(anchored(source), names)
    if new != source: cell["source"] = new.splitlines(keepends=True)


def stale() -> list:
    "A sentence for each file that is not what this tool would write"
    return [f"{path.relative_to(nbs.ROOT).as_posix()} is not up to date: run `python tools/statements.py`."
            for path, text in generated().items()
            if not path.exists() or path.read_text(encoding="utf-8") != text]
