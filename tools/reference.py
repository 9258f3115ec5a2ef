"""The API reference: what the export cells define, with the comments beside the parameters."""
import ast
import io
import re
import tokenize
from dataclasses import dataclass, field

import notebooks as nbs

PACKAGE = "dp_knockoff"
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
HEADING = re.compile(r"^#{2,6} +(.*?)\s*$", re.MULTILINE)


@dataclass
class Entry:
    "One public name"
    name: str
    node: ast.AST   # its definition
    comments: dict  # line of the cell -> comment on it
    module: str     # last part of the module's name
    page: str       # notebook's file name without its suffix
    section: str    # heading under which it is defined
    anchor: str     # target of that heading
    cell: str       # target of the code cell

    @property
    def path(self): return f"{PACKAGE}.{self.module}.{self.name}"


@dataclass
class Room:
    "One notebook that exports a module"
    page: str
    module: str
    title: str
    subtitle: str
    entries: list = field(default_factory=list)


def room(page: str, notebook: dict) -> Room:
    "Everything that a notebook exports, with the section of each definition"
    module, (title, subtitle) = nbs.module_of(notebook), nbs.title_of(notebook, page)
    found, section, anchor = Room(page, module, title, subtitle), title, f"{page}-top"
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "markdown":
            for k, heading in enumerate(headings(cell["source"])):
                section, anchor = heading[1], section_anchor(page, index, k)
        elif nbs.has(cell, "export", "exports"):
            found.entries += [Entry(name, node, comments(cell["source"]), module, page, section, anchor, cell_anchor(cell))
                              for name, node in definitions(cell["source"])]
    return found


def headings(markdown: str) -> list:
    "The matches of all headings below the title, outside code"
    blank = nbs.CODE.sub(lambda m: re.sub(r"(?m)^#", " ", m[0]), markdown)
    return list(HEADING.finditer(blank))


def section_anchor(page: str, cell: int, k: int) -> str:
    "Name of the target of the k-th heading of a cell"
    return f"{page}-section-{cell}-{k}"


def cell_anchor(cell: dict) -> str:
    "Name of the target of a code cell"
    return f"cell-{cell['id']}"


def definitions(source: str) -> list:
    "Public names defined at the top level of a cell, with their nodes"
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, (*FUNCTION, ast.ClassDef)): found.append((node.name, node))
        if isinstance(node, ast.Assign): found += [(t.id, node) for t in node.targets if isinstance(t, ast.Name)]
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name): found.append((node.target.id, node))
    return [(name, node) for name, node in found if not name.startswith("_")]


def comments(source: str) -> dict:
    "Line number -> comment"
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ") for t in tokens if t.type == tokenize.COMMENT}


def names_of(entry: Entry) -> dict:
    "Every way to write the entry and its members in prose -> the object it means"
    names = {entry.name: entry.path}
    if isinstance(entry.node, ast.ClassDef):
        names |= {f"{entry.name}.{item.target.id}": entry.path for item in fields(entry.node)}
        names |= {f"{entry.name}.{item.name}": f"{entry.path}.{item.name}" for item in members(entry.node)}
    return names


def page(found: Room) -> str:
    "The reference page of one module, in MyST"
    head = f"# {PACKAGE}.{found.module}\n\n{{.subtitle}}\n> {found.subtitle}\n\nDerived in [{found.title}](../{found.page}.ipynb)."
    return "\n\n".join([head, directive("module", f"{PACKAGE}.{found.module}"), *map(block, found.entries)]) + "\n"


def overview(rooms: list) -> str:
    "The first page of the reference: every public name with its sentence"
    parts = ["# Reference\n\nEvery public name, module by module. The mathematics behind it is one link further, in the notebook it comes from."]
    for r in rooms:
        rows = [f"| {{py:obj}}`{e.name} <{e.path}>` | {escape(one_line(e)).replace('|', chr(92) + '|')} |" for e in r.entries]
        head = f"## {PACKAGE}.{r.module}\n\n{r.subtitle} [Signatures and parameters]({r.module}.md), [derivation](../{r.page}.ipynb).\n"
        parts.append("\n".join([head, "| name | |", "|---|---|", *rows]))
    return "\n\n".join(parts + [toctree([r.module for r in rooms])]) + "\n"


def toctree(pages, caption: str = "") -> str:
    "A hidden table of contents: it fills the sidebar"
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return directive("toctree", "", options + "\n" + "\n".join(pages), domain="")


def directive(kind: str, argument: str, body: str = "", domain: str = "py:", ticks: int = 3) -> str:
    "A MyST directive"
    fence = "`" * ticks
    return f"{fence}{{{domain}{kind}}} {argument}".rstrip() + f"\n{body}\n{fence}"


def block(entry: Entry) -> str:
    "The description of one name"
    node, origin = entry.node, f"[{entry.section}](#{entry.anchor}), [code](#{entry.cell})"
    if isinstance(node, ast.ClassDef):
        inner = [member(item, entry.comments) for item in members(node)]
        return described("class", entry.name + signature(node), entry, class_docs(node, entry.comments), origin, inner)
    if isinstance(node, FUNCTION):
        return described("function", entry.name + signature(node), entry, documented(node, entry.comments), origin)
    value = ast.unparse(node.value)
    options = f":value: {value}\n" if len(value) <= 60 else ""
    return described("data", entry.name, entry, [], origin, options=options)


def described(kind, header, entry, docs, origin, inner=(), options="") -> str:
    "Signature, sentence, origin, parameters, members"
    body = [f":module: {PACKAGE}.{entry.module}\n{options}", escape(one_line(entry)), f"Derived in: {origin}", "\n".join(docs), *inner]
    return directive(kind, header, "\n\n".join(part for part in body if part), ticks=4)


def member(node, notes: dict) -> str:
    "A method or property of a class"
    decorators = {ast.unparse(d).split(".")[-1] for d in node.decorator_list}
    if decorators & {"property", "cached_property"}:
        return directive("property", node.name, "\n" + escape(sentence(node)))
    options = "".join(f":{d}:\n" for d in ("classmethod", "staticmethod") if d in decorators)
    return directive("method", node.name + signature(node, bound="staticmethod" not in decorators),
                     options + "\n" + escape(sentence(node)) + "\n\n" + "\n".join(documented(node, notes)))


def members(node: ast.ClassDef) -> list:
    "The methods worth listing: public ones, and operators that have a docstring"
    methods = [item for item in node.body if isinstance(item, FUNCTION)]
    return [m for m in methods if not m.name.startswith("_") or (m.name.endswith("__") and m.name != "__init__" and sentence(m))]


def fields(node: ast.ClassDef) -> list:
    "The fields of a dataclass"
    return [item for item in node.body if isinstance(item, ast.AnnAssign)]


def initialiser(node: ast.ClassDef):
    "A class's `__init__`, if it is written out"
    return next((item for item in node.body if isinstance(item, FUNCTION) and item.name == "__init__"), None)


def signature(node, bound: bool = False) -> str:
    "Parameters as they are written, without the first one of a bound method"
    if isinstance(node, ast.ClassDef):
        init = initialiser(node)
        return signature(init, bound=True) if init else f"({', '.join(map(declared, fields(node)))})"
    text = ast.unparse(node.args)
    if bound: text = text.partition(", ")[2]
    return f"({text})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def declared(item: ast.AnnAssign) -> str:
    "A dataclass field as a parameter"
    text = f"{item.target.id}: {ast.unparse(item.annotation)}"
    if item.value is None: return text
    return text + " = " + ("..." if ast.unparse(item.value).startswith("field(") else ast.unparse(item.value))


def class_docs(node: ast.ClassDef, notes: dict) -> list:
    "The commented fields of a class, or parameters of its `__init__`"
    init = initialiser(node)
    if init: return documented(init, notes)
    return [param(item.target.id, notes[item.lineno]) for item in fields(node) if item.lineno in notes]


def documented(node, notes: dict) -> list:
    "The commented parameters and result of a function, as a field list"
    args = node.args
    every = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    lines = {arg.arg: arg.end_lineno for arg in every if arg}
    last = node.returns.end_lineno if node.returns else max(node.lineno, node.body[0].lineno - 1)
    shared = last in lines.values()  # then the comment on the last line is about the last parameter, not the result
    found = [param(name, notes[line]) for name, line in lines.items()
             if line in notes and (line != last or name == list(lines)[-1])]
    return found + ([f":returns: {escape(notes[last])}"] if last in notes and not shared else [])


def param(name: str, text: str) -> str:
    "One line of a field list"
    return f":param {name}: {escape(text)}"


def sentence(node) -> str:
    "The first paragraph of a docstring, on one line"
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


def one_line(entry: Entry) -> str:
    "What the entry is: its docstring, or the comment beside a constant"
    return entry.comments.get(entry.node.lineno, "") if isinstance(entry.node, (ast.Assign, ast.AnnAssign)) else sentence(entry.node)


def escape(text: str) -> str:
    "Plain text for Markdown; what stands in back-ticks or dollars stays as it is"
    parts = re.split(r"(`[^`]*`|\$[^$]*\$)", text)
    parts[::2] = [re.sub(r"([\\*_<>\[\]{}])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
