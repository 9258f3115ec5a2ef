"""The API reference: the package's own names, then those of each module, with their comments."""
import ast
import copy
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
    source: str     # its own lines
    homes: dict     # names of the package that the module knows -> where they are defined
    stated: list = field(default_factory=list)  # statements that it implements

    @property
    def path(self): return f"{PACKAGE}.{self.module}.{self.name}"


@dataclass
class Module:
    "What one notebook exports"
    page: str       # notebook's file name without its suffix
    name: str       # last part of the module's name
    title: str
    subtitle: str
    entries: list = field(default_factory=list)

    @property
    def path(self): return f"{PACKAGE}.{self.name}"


def module(page: str, notebook: dict) -> Module:
    "Everything public that a notebook exports, with the section of each definition"
    name, (title, subtitle) = nbs.module_of(notebook), nbs.title_of(notebook, page)
    found, section, anchor = Module(page, name, title, subtitle), title, f"{page}-top"
    homes = {}  # shared by all entries: complete when the notebook has been read
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] == "markdown":
            for k, heading in enumerate(headings(cell["source"])):
                section, anchor = heading[1], section_anchor(page, index, k)
        elif nbs.has(cell, "export", "exports"):
            homes |= {one: f"{PACKAGE}.{name}.{one}" for one, _ in definitions(cell["source"])}
            homes |= imported(cell["source"])
            notes, place = comments(cell["source"]), (name, page, section, anchor, cell_anchor(page, cell))
            found.entries += [Entry(*one, notes, *place, lines_of(one[1], cell["source"]), homes)
                              for one in definitions(cell["source"])]
    return found


def package_groups(source: str = "") -> dict:
    "The names that the package itself offers, under the comments that group them in `__init__.py`"
    source = source or (nbs.ROOT / PACKAGE / "__init__.py").read_text(encoding="utf-8")
    nodes = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    names = next(node.value.keys for node in nodes if node.targets[0].id == "_modules")
    notes, groups = comments(source), {}
    for name in names:
        heading = notes[max(line for line in notes if line <= name.lineno)]
        groups.setdefault(heading[:1].upper() + heading[1:], []).append(name.value)
    return groups


def headings(markdown: str) -> list:
    "The matches of all headings below the title, outside code"
    blank = nbs.CODE.sub(lambda m: re.sub(r"(?m)^#", " ", m[0]), markdown)
    return list(HEADING.finditer(blank))


def section_anchor(page: str, cell: int, k: int) -> str:
    "Name of the target of the k-th heading of a cell"
    return f"{page}-section-{cell}-{k}"


def cell_anchor(page: str, cell: dict) -> str:
    "Name of the target of a code cell"
    return f"{page}-cell-{cell['id']}"


def definitions(source: str) -> list:
    "Public names defined at the top level of a cell, with their nodes"
    found = []
    for node in ast.parse(source).body:
        if isinstance(node, (*FUNCTION, ast.ClassDef)): found.append((node.name, node))
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            found += [(target.id, node) for target in targets if isinstance(target, ast.Name)]
    return [(name, node) for name, node in found if not name.startswith("_")]


def lines_of(node: ast.AST, source: str) -> str:
    "The lines of a definition, with its decorators"
    first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", []))])
    return "\n".join(source.splitlines()[first - 1:node.end_lineno])


def imported(source: str) -> dict:
    "Names that a source takes from modules of the package -> where they are defined"
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom) and node.module]
    return {alias.asname or alias.name: f"{node.module}.{alias.name}" for node in nodes
            if node.module.startswith(f"{PACKAGE}.") for alias in node.names}


class Qualify(ast.NodeTransformer):
    "Annotations with full names, since two modules may have a class of the same name"
    def __init__(self, homes: dict): self.homes, self.inside = homes, False

    def annotation(self, node):
        "Replace the names in an annotation, and nowhere else"
        self.inside = True
        node = node and self.visit(node)
        self.inside = False
        return node

    def visit_Name(self, node):
        if not self.inside or node.id not in self.homes: return node
        return ast.copy_location(ast.parse(self.homes[node.id], mode="eval").body, node)

    def visit_arg(self, node):
        node.annotation = self.annotation(node.annotation)
        return node

    def visit_AnnAssign(self, node):
        node.annotation = self.annotation(node.annotation)
        return node

    def visit_FunctionDef(self, node):
        node.returns = self.annotation(node.returns)
        return self.generic_visit(node)


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


def public_names(books: dict) -> dict:
    "{module: its public names}, with those of the classes' members"
    modules = [module(stem, book) for stem, book in books.items() if nbs.module_of(book)]
    return {module.name: [name for entry in module.entries for name in names_of(entry)]
            for module in modules}


def page(found: Module) -> str:
    "The reference page of one module, in MyST"
    origin = f"Derived in [{found.title}](../{found.page}.ipynb)."
    head = [f"# {found.path}", f"{{.subtitle}}\n> {found.subtitle}", origin]
    return "\n\n".join([*head, directive("module", found.path), *map(block, found.entries)]) + "\n"


def overview(modules: list, groups: dict) -> str:
    "The first page of the reference: the package's own names, in the groups {heading: names}"
    entries = {entry.name: entry for m in reversed(modules) for entry in m.entries}
    parts = ["# Reference",
             f"What most users need: `from {PACKAGE} import ...`. A name leads to its parameters and its "
             "source, and from there to its derivation. [All modules](modules.md) lists the rest."]
    for heading, names in groups.items():
        parts.append(f"## {heading}\n\n{table([entries[name] for name in names])}")
    return "\n\n".join(parts) + "\n"


def internals(modules: list) -> str:
    "The second page: every public name of each module"
    parts = ["# All modules\n\nEvery public name, module by module, in the order of the notebooks' numbers. "
             "[Reference](index.md) has the names to start with."]
    for m in sorted(modules, key=lambda m: m.page):
        links = f"[Signatures and parameters]({m.name}.md), [derivation](../{m.page}.ipynb)."
        parts.append(f"## {m.path}\n\n{m.subtitle} {links}\n\n{table(m.entries)}")
    return "\n\n".join([*parts, toctree([m.name for m in sorted(modules, key=lambda m: m.page)])]) + "\n"


def table(entries: list) -> str:
    "Names with their sentences"
    sentences = [escape(one_line(e)).replace("|", r"\|") for e in entries]
    rows = [f"| {{py:obj}}`{e.name} <{e.path}>` | {text} |" for e, text in zip(entries, sentences)]
    return "\n".join(["| name | |", "|---|---|", *rows]) if rows else ""


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
    node = Qualify(entry.homes).visit(copy.deepcopy(entry.node))
    origin = f"[{entry.section}](#{entry.anchor}), [code](#{entry.cell})"
    if entry.stated: origin += ". States " + ", ".join(f"[{one.label}](#{one.id})" for one in entry.stated)
    if isinstance(node, ast.ClassDef):
        inner = [member(item, entry.comments) for item in members(node)]
        docs = class_docs(node, entry.comments)
        return described("class", entry.name + signature(node), entry, docs, origin, inner)
    if isinstance(node, FUNCTION):
        docs = documented(node, entry.comments)
        return described("function", entry.name + signature(node), entry, docs, origin)
    value = ast.unparse(node.value) if node.value else ""
    options = f":value: {value}\n" if 0 < len(value) <= 60 else ""
    return described("data", entry.name, entry, [], origin, options=options)


def described(kind, header, entry, docs, origin, inner=(), options="") -> str:
    "Signature, sentence, origin, parameters, members"
    head = [f":module: {PACKAGE}.{entry.module}\n{options}", escape(one_line(entry)), f"Derived in: {origin}"]
    body = "\n\n".join(part for part in [*head, "\n".join(docs), *inner, source(entry)] if part)
    return directive(kind, header, body, ticks=5)


def source(entry: Entry) -> str:
    "The source of an entry, folded"
    code = directive("code-block", "python", entry.source, domain="", ticks=4)
    return f'<details class="source"><summary>Source</summary>\n\n{code}\n\n</details>'


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
    return [m for m in methods if not m.name.startswith("_") or is_operator(m)]


def is_operator(node) -> bool:
    "A method with two underscores on both sides that says what it does"
    special = node.name.startswith("__") and node.name.endswith("__")
    return special and node.name not in ("__init__", "__post_init__") and bool(sentence(node))


def fields(node: ast.ClassDef) -> list:
    "The public fields of a dataclass"
    items = [item for item in node.body if isinstance(item, ast.AnnAssign)]
    return [item for item in items if not item.target.id.startswith("_")]


def initialiser(node: ast.ClassDef):
    "A class's `__init__`, if it is written out"
    return next((item for item in node.body if isinstance(item, FUNCTION) and item.name == "__init__"), None)


def signature(node, bound: bool = False) -> str:
    "Parameters as they are written, without the first one of a bound method"
    if isinstance(node, ast.ClassDef):
        init = initialiser(node)
        return signature(init, bound=True) if init else dataclass_signature(node)
    text = ast.unparse(node.args)
    if bound: text = text.partition(", ")[2]
    return f"({text})" + (f" -> {ast.unparse(node.returns)}" if node.returns else "")


def short(name: str, node) -> str:
    "A name with its parameters and their defaults, without types"
    plain = copy.deepcopy(initialiser(node) or node if isinstance(node, ast.ClassDef) else node)
    if isinstance(plain, ast.ClassDef):
        items = [item for item in fields(plain) if is_passed(item)] if "(" in signature(plain) else []
        return f"{name}({', '.join(item.target.id for item in items)})"
    if not isinstance(plain, FUNCTION): return name
    args = plain.args
    for arg in [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]:
        if arg: arg.annotation = None
    if isinstance(node, ast.ClassDef): args.args = args.args[1:]
    return f"{name}({ast.unparse(args)})"


def dataclass_signature(node: ast.ClassDef) -> str:
    "The fields that the caller of a dataclass passes; nothing for a class that inherits its `__init__`"
    decorators = [ast.unparse(decorator) for decorator in node.decorator_list]
    decorator = next((text for text in decorators if text.startswith("dataclass")), "")
    if not decorator: return ""
    star = ["*"] if "kw_only=True" in decorator else []
    return f"({', '.join(star + [declared(item) for item in fields(node) if is_passed(item)])})"


def is_passed(item: ast.AnnAssign) -> bool:
    "Is this field of a dataclass a parameter?"
    shared = ast.unparse(item.annotation).startswith("ClassVar")
    return not shared and not (item.value and "init=False" in ast.unparse(item.value))


def declared(item: ast.AnnAssign) -> str:
    "A dataclass field as a parameter"
    text = f"{item.target.id}: {ast.unparse(item.annotation)}"
    if item.value is None: return text
    value = ast.unparse(item.value)
    return f"{text} = {'...' if value.startswith('field(') else value}"


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
    shared = last in lines.values()  # then the comment on the last line is about the last parameter
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
    if isinstance(entry.node, (ast.Assign, ast.AnnAssign)): return entry.comments.get(entry.node.lineno, "")
    return sentence(entry.node)


def escape(text: str) -> str:
    "Plain text for Markdown; what stands in back-ticks or dollars stays as it is"
    parts = re.split(r"(`[^`]*`|\$[^$]*\$)", text)
    parts[::2] = [re.sub(r"([\\*_<>\[\]{}])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)
