"""The shape of the package: what may import what, what is public, and how it is written.

Every check is a function from plain data to a list of sentences; the second half of this file shows each of
them a small tree with a mistake that it must find, and one without.
"""
import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

import dp_knockoff
import notebooks as nbs

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "dp_knockoff"
LONGEST = 110
MEASURING = 6                # first digit of the notebooks that measure
PRODUCT = range(MEASURING)   # first digits of the notebooks that never do
MEASURES = re.compile(r"_?(planted|measured?|simulate|simulation|Experiment|[Tt]rials?|grid)(_\w+)?")
METAPHORS = re.compile(
    r"\b(rooms|room \d+|(?:this|each|every|the|other|later|next)\s+room|doors?|houses?)\b",
    re.IGNORECASE)


# What is there


def notebook_code(path):
    "The code cells of a notebook as one module, without magics and shell commands"
    cells = [cell["source"] for cell in nbs.read(path)["cells"] if cell["cell_type"] == "code"]
    python = [cell for cell in cells if not cell.startswith("%%")]
    return "\n\n".join(re.sub(r"(?m)^(\s*)[%!].*", r"\1pass", cell) for cell in python)


def module_name(stem):
    "What a notebook's file name says that its module is called"
    return stem.partition("_")[2]


NOTEBOOKS = {path.stem: path for path in sorted((ROOT / "nbs").glob("*.ipynb"))}
CODE = {stem: notebook_code(path) for stem, path in NOTEBOOKS.items()}
MODULES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((ROOT / PACKAGE).glob("*.py"))
           if not path.stem.startswith("_")}
NUMBERED = {stem: MODULES[module_name(stem)] for stem in NOTEBOOKS if module_name(stem) in MODULES}
FOLDERS = [ROOT / name for name in ("tests", "tools", "benchmarks", "docs")]
SCRIPTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
           for folder in FOLDERS for path in sorted(folder.glob("*.py"))}
WRITTEN = {f"nbs/{stem}.ipynb": code for stem, code in CODE.items()} | SCRIPTS
EXAMPLES = "\n".join(re.findall(r"(?ms)^```python\n(.*?)^```",
                              (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")))
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("*.md"))}


# The checks


def wrong_numbers(stems):
    "No number twice, every notebook but the index numbered"
    numbers = Counter(stem[:2] for stem in stems if stem != "index")
    return ([f"{number} is the number of {times} notebooks" for number, times in numbers.items() if times > 1]
            + [f"{stem}: not index and not NN_name" for stem in stems
               if stem != "index" and not re.fullmatch(r"\d\d_[a-z_]+", stem)])


def wrong_modules(exported, modules):
    "A notebook exports the module of its name, and every module comes from a notebook; {stem: default_exp}"
    other = {stem: name for stem, name in exported.items() if name not in (None, module_name(stem))}
    return ([f"{stem} exports {name}" for stem, name in other.items()]
            + [f"{name}.py comes from no notebook" for name in sorted(set(modules) - set(exported.values()))])


@cache
def nodes(source):
    "All nodes of a source"
    return list(ast.walk(ast.parse(source)))


def imports(source):
    "Names taken from the package anywhere in a source: pairs (module, name), with None for a whole module"
    taken = set()
    for node in nodes(source):
        if isinstance(node, ast.Import):
            words = [alias.name.split(".") for alias in node.names]
            taken |= {(word[1], None) for word in words if word[0] == PACKAGE and len(word) > 1}
        elif isinstance(node, ast.ImportFrom):
            module = f"{PACKAGE}.{node.module or ''}".rstrip(".") if node.level else node.module
            names = [alias.name for alias in node.names]
            if module == PACKAGE: taken |= {(name, None) for name in names}
            elif module.startswith(PACKAGE + "."): taken |= {(module.split(".")[1], name) for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # import_module("dp_knockoff.x")
            if match := re.fullmatch(rf"{PACKAGE}\.(\w+)(?:\.(\w+))?", node.value): taken.add(match.groups())
    return taken


def aliases(source):
    "Names under which a source knows whole modules of the package"
    found = {}
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name.split(".")[1] for alias in node.names
                      if alias.asname and alias.name.startswith(PACKAGE + ".")}
        elif isinstance(node, ast.ImportFrom) and node.module == (None if node.level else PACKAGE):
            found |= {alias.asname or alias.name: alias.name for alias in node.names}
    return found


def used(source):
    "Pairs (module, name) that a source uses: imported, or written as an attribute of a module"
    modules = aliases(source)
    taken = imports(source)
    for node in nodes(source):
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            owner = ast.unparse(node.value)
            module = owner.partition(".")[2] if owner.startswith(PACKAGE + ".") else modules.get(owner)
            if module: taken.add((module, node.attr))
    return {(module, name) for module, name in taken if name}


def upward_imports(sources, package=None, allowed=None):
    """Every import goes to a lower number, at the top of a module or inside a function

    `sources` {stem: source}; `package` {name: its module}; `allowed`: a first digit that all may import
    """
    number = {module_name(stem): stem[:2] for stem in sources}
    wrong = []
    for stem, source in sources.items():
        for name in sorted({(package or {}).get(module, module) for module, _ in imports(source)}):
            other = number.get(name, "")
            if other >= stem[:2] and name != module_name(stem) and other[:1] != str(allowed):
                wrong.append(f"{stem} imports {other}_{name}")
    return wrong


@cache
def exports(source):
    "The names in a module's __all__"
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return ast.literal_eval(node.value)
    return []


def answers(source):
    "Classes of which users get instances: in the annotations of public results and of public classes' fields"
    public, found = set(exports(source)), []
    for node in ast.parse(source).body:
        if getattr(node, "name", None) not in public: continue
        for item in [node, *(node.body if isinstance(node, ast.ClassDef) else [])]:
            if isinstance(item, ast.FunctionDef) and item.returns: found.append(item.returns)
            if isinstance(item, ast.AnnAssign): found.append(item.annotation)
    names = {name.id for annotation in found for name in ast.walk(annotation) if isinstance(name, ast.Name)}
    return names & {node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}


def unused_exports(modules, offered, sources, entry_points=frozenset()):
    """A public name is offered by the package, used outside its own file, or the class of an answer

    `modules` {name: source}; `offered` {(module, name)}; `sources` {file: source} (nbs/NN_name.ipynb)
    """
    users = {f"{PACKAGE}/{name}.py": used(source) for name, source in modules.items()}
    users |= {origin: used(source) for origin, source in sources.items()}
    wrong = []
    for module, source in modules.items():
        own = re.compile(rf"{PACKAGE}/{module}\.py|nbs/\d\d_{module}\.ipynb")
        elsewhere = {*entry_points, *offered, *((module, name) for name in answers(source))}
        for origin, names in users.items():
            if not own.fullmatch(origin): elsewhere |= names
        wrong += [f"{module}.{name} is used only in its own file: call it _{name}"
                  for name in exports(source) if (module, name) not in elsewhere]
    return wrong


def definitions(source):
    "Functions, classes and constants at the top level of a module"
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)): yield node.name
        elif isinstance(node, ast.Assign): yield from (t.id for t in node.targets if isinstance(t, ast.Name))


def measuring_code(sources):
    "Names that measure are defined only where measuring is the subject; {stem: source}"
    return [f"{stem} defines {name}" for stem, source in sources.items() if nbs.part_of(stem) in PRODUCT
            for name in definitions(source) if MEASURES.fullmatch(name)]


def modules_also_names(modules):
    "No module has the name of a function, class or constant"
    return [f"{name} is a module and a name in {module}" for module, source in modules.items()
            for name in definitions(source) if name in modules]


def table_of_notebooks(markdown):
    "The notebooks linked in the first cell of each row, in the tables whose first heading is `notebook`"
    found, inside = [], False
    for line in markdown.splitlines():
        first = line.split("|")[1].strip() if line.startswith("|") else None
        if first is None: inside = False
        elif first.lower() in ("notebook", "notebooks"): inside = True
        elif inside: found += re.findall(r"\((?:nbs/)?(\w+)\.ipynb\)", first)
    return found


def wrong_table(markdown, stems):
    "The README's table lists every notebook once, in order; tutorials may be linked elsewhere on the page"
    rows, linked = table_of_notebooks(markdown), set(re.findall(r"(\w+)\.ipynb", markdown))
    tutorials = {stem for stem in stems if nbs.part_of(stem) == nbs.TUTORIALS}
    wanted = [stem for stem in sorted(stems) if stem != "index" and (stem not in tutorials or stem in rows)]
    wrong = [f"{stem} is not in the table" for stem in wanted if stem not in rows]
    wrong += [f"{stem} is in the table, but no notebook" for stem in rows if stem not in stems]
    wrong += [f"{stem} is linked nowhere" for stem in sorted(tutorials - linked)]
    return wrong or ([] if rows == wanted else [f"the table is not in order: {rows}"])


def long_lines(sources):
    "Lines above the limit, but for the lists that nbdev wraps itself"
    wrong = []
    for origin, source in sources.items():
        text = re.sub(r"(?ms)^__all__ = \[.*?\]$", lambda match: "\n" * match[0].count("\n"), source)
        wrong += [f"{origin}:{k} has {len(line)} characters" for k, line in enumerate(text.splitlines(), 1)
                  if len(line) > LONGEST]
    return wrong


def named_lambdas(sources):
    "A lambda that gets a name should have been a function"
    wrong = []
    for origin, source in sources.items():
        for node in nodes(source):
            named = values(node) if isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) else []
            if any(isinstance(value, ast.Lambda) for value in named):
                wrong.append(f"{origin}:{node.lineno} gives a lambda a name")
    return wrong


def values(node):
    "What an assignment assigns to plain names: `f, g = a, b` gives a and b"
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    pairs = [(target, node.value) for target in targets]
    if isinstance(node.value, ast.Tuple):
        pairs = [pair for t, v in pairs if isinstance(t, ast.Tuple) for pair in zip(t.elts, v.elts)]
    return [value for target, value in pairs if isinstance(target, ast.Name)]


def metaphors(texts):
    "Words that stand for something else"
    return [f"{origin}:{text.count(chr(10), 0, match.start()) + 1} says {match[0]!r}"
            for origin, text in texts.items() for match in METAPHORS.finditer(text)]


# The package passes them


@cache
def offered():
    "Pairs (module, name) that the package offers by itself"
    pairs = set()
    for name in dp_knockoff.__all__:
        pairs |= {(module, name) for module, source in MODULES.items() if name in exports(source)}
    return pairs


def ok(wrong): assert not wrong, "\n".join(["", *wrong])


def test_numbers(): ok(wrong_numbers(NOTEBOOKS))


def test_modules_come_from_the_notebook_of_their_name():
    ok(wrong_modules({stem: nbs.module_of(nbs.read(path)) for stem, path in NOTEBOOKS.items()}, MODULES))


def test_no_import_goes_up(): ok(upward_imports(NUMBERED, {name: module for module, name in offered()}))


def test_no_cell_of_a_notebook_imports_a_later_one_except_to_measure():
    sources = {stem: code for stem, code in CODE.items() if stem in NUMBERED}
    ok(upward_imports(sources, {name: module for module, name in offered()}, allowed=MEASURING))


def test_public_names_are_used():
    settings = (ROOT / "settings.ini").read_text(encoding="utf-8")
    commands = set(re.findall(rf"{PACKAGE}\.(\w+):(\w+)", settings))
    ok(unused_exports(MODULES, offered(), WRITTEN | {"CONTRIBUTING.md": EXAMPLES}, commands))


def test_no_measuring_in_the_product(): ok(measuring_code(NUMBERED))


def test_no_module_is_also_a_name(): ok(modules_also_names(MODULES))


def test_the_readme_lists_the_notebooks(): ok(wrong_table(PAGES["README.md"], NOTEBOOKS))


@pytest.mark.parametrize("name", dp_knockoff.__all__)
def test_the_package_offers(name):
    assert getattr(dp_knockoff, name) is not None
    assert any(pair[1] == name for pair in offered()), f"{name} is not public in any module"


def test_no_long_lines():
    ok(long_lines({f"{name}.py": source for name, source in MODULES.items()} | WRITTEN))


def test_no_lambda_has_a_name(): ok(named_lambdas(WRITTEN))


def test_the_site_can_render_every_formula():
    "MathJax has no mathtools: its environments would stand on the page as errors"
    pages = {path.name: path.read_text(encoding="utf-8") for path in NOTEBOOKS.values()}
    unknown = re.compile(r"\\{1,2}begin\{(psmallmatrix|bsmallmatrix|dcases|multlined)\}|\\{1,2}coloneqq")
    assert unknown.search(r"$\begin{psmallmatrix}1\end{psmallmatrix}$")
    ok([f"{name}: {found[0]}" for name, text in pages.items() if (found := unknown.search(text))])


def test_plain_words():
    here = Path(__file__).name
    prose = {f"nbs/{stem}.ipynb": "\n".join(cell["source"] for cell in nbs.read(path)["cells"])
             for stem, path in NOTEBOOKS.items()}
    scripts = {origin: source for origin, source in SCRIPTS.items() if not origin.endswith(here)}
    package = {"__init__.py": (ROOT / PACKAGE / "__init__.py").read_text(encoding="utf-8")}
    ok(metaphors(prose | scripts | PAGES | package))


# Each of them can fail


def test_wrong_numbers_sees():
    assert not wrong_numbers(["index", "00_a", "01_b", "81_c"])
    assert wrong_numbers(["00_a", "00_b"]) and wrong_numbers(["errata"])


def test_wrong_modules_sees():
    assert not wrong_modules({"00_a": "a", "45_errata": None}, {"a": ""})
    assert wrong_modules({"00_a": "b"}, {"b": ""}) == ["00_a exports b"]
    assert wrong_modules({"00_a": "a"}, {"a": "", "left_over": ""}) == ["left_over.py comes from no notebook"]


@pytest.mark.parametrize("line", [
    "from .high import f", "from . import high", "from dp_knockoff.high import f", "import dp_knockoff.high",
    "from dp_knockoff import high", "from dp_knockoff import f", "import_module('dp_knockoff.high')",
    "def g():\n    from .high import f", "class C:\n    def m(self):\n        import dp_knockoff.high as h",
    "try: from .high import f\nexcept ImportError: pass",
])
def test_upward_imports_sees(line):
    assert upward_imports({"10_low": line, "11_high": ""}, {"f": "high"}) == ["10_low imports 11_high"]
    assert upward_imports({"10_low": line, "20_high": ""}, {"f": "high"})
    assert not upward_imports({"21_low": line, "20_high": ""}, {"f": "high"})
    assert not upward_imports({"10_low": "from .low import f\nimport numpy", "11_high": ""})
    assert not upward_imports({"10_low": line, "61_high": ""}, {"f": "high"}, allowed=6)
    assert upward_imports({"10_low": line, "71_high": ""}, {"f": "high"}, allowed=6)


@pytest.mark.parametrize("user", [
    "from dp_knockoff.a import f", "def g():\n    from .a import f", "from dp_knockoff import a\na.f()",
    "import dp_knockoff.a\ndp_knockoff.a.f()", "import dp_knockoff.a as short\nshort.f()",
    "patch('dp_knockoff.a.f')",
])
def test_unused_exports_sees(user):
    modules = {"a": "__all__ = ['f']\ndef f(): pass"}
    assert unused_exports(modules, set(), {}) == ["a.f is used only in its own file: call it _f"]
    assert unused_exports(modules, set(), {"nbs/10_a.ipynb": user})                # its own notebook and
    assert unused_exports(modules, set(), {"tests/test_a.py": "f = 1; print(f)"})  # a namesake do not count
    for origin in ("nbs/11_b.ipynb", "tests/test_a.py", "benchmarks/a.py"):
        assert not unused_exports(modules, set(), {origin: user})
    assert not unused_exports(modules | {"b": user}, set(), {})
    assert not unused_exports(modules, {("a", "f")}, {})
    assert not unused_exports(modules, set(), {}, {("a", "f")})


def test_the_class_of_an_answer_is_public():
    audit = "__all__ = ['f', 'A']\nclass A: pass\n"
    for used in ("def f() -> A: pass", "class f:\n    def g(self) -> A | None: pass", "class f:\n    a: A"):
        assert unused_exports({"a": audit + used}, {("a", "f")}, {}) == []
    for unused in ("def f(): return A()", "def f(x: A): pass", "class f:\n    def g(self, a: A): pass",
                   "def _f() -> A: pass\ndef f(): pass"):
        assert unused_exports({"a": audit + unused}, {("a", "f")}, {})


def test_measuring_code_sees():
    for source in ("def planted(): pass", "class Experiment: pass", "def _measure_one(): pass", "grid = 1"):
        assert measuring_code({"50_a": source}) and measuring_code({"00_a": source})
        assert not measuring_code({"61_a": source}) and not measuring_code({"71_a": source})
    assert not measuring_code({"50_a": "def plan(): pass\nGRID = 1"})  # a grid of numbers is fine


def test_modules_also_names_sees():
    assert modules_also_names({"audit": "def audit(): pass"}) and modules_also_names({"a": "b = 1", "b": ""})
    assert not modules_also_names({"a": "def f(a): b = a", "b": ""})


def test_wrong_table_sees():
    head = "| notebook | what |\n|---|---|\n"
    a, b, c = (f"[{stem}](nbs/{stem}.ipynb)" for stem in ("00_a", "01_b", "02_c"))
    table = head + f"| {a} | |\n| {b}, {c} | see {a} |\n"
    assert not wrong_table(table, ["index", "00_a", "01_b", "02_c"])
    assert not wrong_table(table + "\n[T](nbs/81_t.ipynb)", ["00_a", "01_b", "02_c", "81_t"])
    assert wrong_table(table, ["00_a", "01_b"]) and wrong_table(table, ["00_a", "01_b", "02_c", "03_d"])
    assert wrong_table(table, ["00_a", "01_b", "02_c", "81_t"])
    assert wrong_table(head + f"| {b} | |\n| {a} | |\n", ["00_a", "01_b"])
    assert wrong_table(f"| filter | |\n| {a} | |\n", ["00_a"])


def test_long_lines_sees():
    assert long_lines({"a": "x" * 111}) and not long_lines({"a": "x" * 110})
    wrapped = "__all__ = ['" + "x" * 120 + "',\n           'b']\n"
    assert not long_lines({"a": wrapped})
    assert long_lines({"a": wrapped + "y" * 111}) == ["a:3 has 111 characters"]


def test_named_lambdas_sees():
    for source in ("f = lambda: 1", "def g():\n    f = lambda x: x", "f: object = lambda: 1",
                   "f, g = 1, lambda: 1", "print(f := lambda: 1)"):
        assert named_lambdas({"a": source}), source
    for source in ("sorted(x, key=lambda k: -k)", "d = {'f': lambda: 1}", "a.f = lambda: 1",
                   "f = sorted(x, key=lambda k: k)"):
        assert not named_lambdas({"a": source}), source


def test_metaphors_sees():
    assert metaphors({"a": "a\nthe Front door"}) == ["a:2 says 'door'"] and metaphors({"a": "every room"})
    assert metaphors({"a": "This\n room"}) and metaphors({"a": "(room 2)"}) and metaphors({"a": "the rooms"})
    assert not metaphors({"a": "np.floor(x); indoors; classroom; no room for noise; -room"})
