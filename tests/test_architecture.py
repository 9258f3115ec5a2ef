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
README = 8_000  # bytes
LAYERS = "core data knockoffs privacy selection paper filters evidence practice".split()  # low to high
EVIDENCE = "evidence"        # the layer that measures
SHOWN = (EVIDENCE, "practice.plots", "filters.methods")  # what cells that are not exported may use anywhere
# at least: a scanner that finds nothing is not green
SEEN = {"notebooks": 50, "modules": 35, "scripts": 70, "studies": 5}
MEASURES = re.compile(r"_?(measured?|simulate|simulation|Experiment|[Tt]rials?|grid)(_\w+)?")
METAPHORS = re.compile(
    r"\b(rooms|room \d+|(?:this|each|every|the|other|later|next)\s+room|doors?|houses?)\b",
    re.IGNORECASE)


# What is there


def notebook_code(path):
    "The code cells of a notebook as one module, without magics and shell commands"
    cells = [cell["source"] for cell in nbs.read(path)["cells"] if cell["cell_type"] == "code"]
    python = [cell for cell in cells if not cell.startswith("%%")]
    return "\n\n".join(re.sub(r"(?m)^(\s*)[%!].*", r"\1pass", cell) for cell in python)


def layer_of(folder):
    "The layer that a folder of notebooks exports to: 2_knockoffs is the layer knockoffs"
    return re.sub(r"^\d_", "", folder)


NOTEBOOKS = {path.stem: path for path in nbs.paths()}
STUDIES = {f"studies/{path.name}": notebook_code(path) for path in nbs.studies()}
PLACES = {stem: nbs.folder_of(path) for stem, path in NOTEBOOKS.items()}
CODE = {stem: notebook_code(path) for stem, path in NOTEBOOKS.items()}
MODULES = {".".join(path.relative_to(ROOT / PACKAGE).with_suffix("").parts): path.read_text(encoding="utf-8")
           for path in sorted((ROOT / PACKAGE).rglob("*.py")) if not path.stem.startswith("_")}
EXPORTED = {stem: nbs.module_of(nbs.read(path)) for stem, path in NOTEBOOKS.items()}
FOLDERS = [ROOT / name for name in ("tests", "tools", "studies", "docs")]
SCRIPTS = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
           for folder in FOLDERS for path in sorted(folder.rglob("*.py"))
           if not {"_source", "_build"} & set(path.parts) and not path.name.startswith("_")}
WRITTEN = {f"nbs/{nbs.file_of(stem)}": code for stem, code in CODE.items()} | STUDIES | SCRIPTS
EXAMPLES = "\n".join(re.findall(r"(?ms)^```python\n(.*?)^```",
                              (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")))
PAGES = {path.name: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("*.md"))}


# The checks


def wrong_numbers(stems):
    "Names are unique without their numbers; chapters are numbered 01, 02, ... without a gap"
    names = Counter(map(nbs.name_of, stems))
    numbers = sorted(nbs.number_of(stem) for stem in stems if nbs.number_of(stem).isdigit())
    wrong = [f"{name} is the name of {times} notebooks" for name, times in names.items() if times > 1]
    wrong += [f"{stem}: not NN_name, aN_name or name" for stem in stems
              if not re.fullmatch(r"((\d\d|a\d)_)?[a-z][a-z_]*", stem)]
    if numbers == [f"{k:02d}" for k in range(1, len(numbers) + 1)]: return wrong
    return [*wrong, f"chapters have the numbers {numbers}"]


def wrong_modules(exported, places, modules):
    """A notebook exports the module of its name into the layer of its folder, and modules come from notebooks

    `exported` {stem: default_exp}; `places` {stem: folder}
    """
    meant = {stem: f"{layer_of(places[stem])}.{nbs.name_of(stem)}" for stem in exported}
    other = {stem: name for stem, name in exported.items() if name not in (None, meant[stem])}
    return ([f"{stem} exports {name}, not {meant[stem]}" for stem, name in other.items()]
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
            taken |= {(".".join(word[1:]), None) for word in words if word[0] == PACKAGE and len(word) > 1}
        elif isinstance(node, ast.ImportFrom):
            module = written_out(node)
            names = [alias.name for alias in node.names]
            if module == PACKAGE: taken |= {(name, None) for name in names}
            elif module.startswith(PACKAGE + "."):
                inside = module.removeprefix(PACKAGE + ".")
                if inside in LAYERS: taken |= {(f"{inside}.{name}", None) for name in names}
                else: taken |= {(inside, name) for name in names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):  # "dp_knockoff.a.b"
            match = re.fullmatch(rf"{PACKAGE}\.(\w+\.\w+)(?:\.(\w+))?", node.value)
            if match: taken.add(match.groups())
    return taken


def written_out(node):
    "The module that `from ... import` means; modules stand two levels deep, so `..` is the package"
    return f"{PACKAGE}.{node.module or ''}".rstrip(".") if node.level == 2 else (node.module or "")


def aliases(source):
    "Names under which a source knows whole modules of the package"
    found = {}
    for node in nodes(source):
        if isinstance(node, ast.Import):
            found |= {alias.asname: alias.name.removeprefix(PACKAGE + ".") for alias in node.names
                      if alias.asname and alias.name.startswith(PACKAGE + ".")}
        elif isinstance(node, ast.ImportFrom) and written_out(node).removeprefix(PACKAGE + ".") in LAYERS:
            layer = written_out(node).removeprefix(PACKAGE + ".")
            found |= {alias.asname or alias.name: f"{layer}.{alias.name}" for alias in node.names}
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


def upward_imports(sources, package=None, allowed=()):
    """Every import stays in its layer or goes to a lower one, at the top of a module or inside a function

    `sources` {module: source}; `package` {name: its module}; `allowed`: layers or modules that all may import
    """
    rank, wrong = {layer: k for k, layer in enumerate(LAYERS)}, []
    for module, source in sources.items():
        own = rank[module.partition(".")[0]]
        for name in sorted({(package or {}).get(other, other) for other, _ in imports(source)}):
            layer = name.partition(".")[0]
            if rank.get(layer, -1) > own and not {layer, name} & set(allowed):
                wrong.append(f"{module} imports {name}")
    return wrong


def circles(sources):
    "No module imports itself by way of others when it is loaded; {module: source}"
    top = {module: {name for name, _ in imports(at_the_top(source))} & set(sources)
           for module, source in sources.items()}
    left = dict(top)
    while free := [module for module, needs in left.items() if not needs & set(left)]:
        for module in free: del left[module]
    return [f"{module} imports itself by way of {', '.join(sorted(needs & set(left)))}"
            for module, needs in left.items()]


@cache
def at_the_top(source):
    "The imports of a module that run when it is loaded"
    body = [node for node in ast.parse(source).body if isinstance(node, (ast.Import, ast.ImportFrom))]
    return "\n".join(map(ast.unparse, body))


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

    `modules` {layer.name: source}; `offered` {(module, name)}; `sources` {file: source}
    """
    users = {f"{PACKAGE}/{name.replace('.', '/')}.py": used(source) for name, source in modules.items()}
    users |= {origin: used(source) for origin, source in sources.items()}
    wrong = []
    for module, source in modules.items():
        layer, _, name = module.rpartition(".")
        own = re.compile(rf"{PACKAGE}/{layer}/{name}\.py|nbs/(\d_)?{layer}/(\d\d_)?{name}\.ipynb")
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
    "Names that measure are defined only in the layers that measure or plan; {module: source}"
    product = LAYERS[:LAYERS.index(EVIDENCE)]
    return [f"{module} defines {name}" for module, source in sources.items()
            if module.partition(".")[0] in product
            for name in definitions(source) if MEASURES.fullmatch(name)]


def modules_also_names(modules):
    "No module and no layer has the name of a function, class or constant: after an import it would hide it"
    taken = {word for module in modules for word in module.split(".")}
    return [f"{name} is a module and a name in {module}" for module, source in modules.items()
            for name in definitions(source) if name in taken]


def wrong_readme(markdown, stems):
    "The README is short, and links only notebooks that exist"
    wrong = [f"{stem} is linked, but no notebook" for stem in re.findall(r"(\w+)\.ipynb", markdown)
             if stem not in stems]
    size = len(markdown.encode())
    return wrong + ([f"README.md has {size:,} bytes"] if size > README else [])


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


def test_the_scanners_see_something():
    assert len(NOTEBOOKS) >= SEEN["notebooks"] and len(MODULES) >= SEEN["modules"]
    assert len(SCRIPTS) >= SEEN["scripts"] and len(CODE) == len(NOTEBOOKS)
    assert len(STUDIES) >= SEEN["studies"]
    assert {module.partition(".")[0] for module in MODULES} == set(LAYERS)


def test_numbers(): ok(wrong_numbers(NOTEBOOKS))


def test_modules_come_from_the_notebook_of_their_name(): ok(wrong_modules(EXPORTED, PLACES, MODULES))


def test_no_import_goes_up(): ok(upward_imports(MODULES, {name: module for module, name in offered()}))


def test_no_import_goes_round(): ok(circles(MODULES))


def test_no_cell_of_a_notebook_imports_a_higher_layer_except_to_measure():
    sources = {EXPORTED[stem]: code for stem, code in CODE.items() if EXPORTED[stem]}
    ok(upward_imports(sources, {name: module for module, name in offered()}, allowed=SHOWN))


def test_tests_mirror_the_package():
    there = {path.relative_to(ROOT / "tests").as_posix() for path in (ROOT / "tests").glob("*/test_*.py")}
    places = {module.replace(".", "/test_") for module in MODULES}
    places |= {f"studies/test_{path.stem}" for path in nbs.STUDIES.glob("*.py")}
    ok([f"tests/{path} belongs to no module" for path in sorted(there)
        if not any(path == f"{place}.py" or path.startswith(f"{place}_") for place in places)])


def test_public_names_are_used():
    settings = (ROOT / "settings.ini").read_text(encoding="utf-8")
    commands = set(re.findall(rf"{PACKAGE}\.([\w.]+):(\w+)", settings))
    ok(unused_exports(MODULES, offered(), WRITTEN | {"extending.md": EXAMPLES}, commands))


def test_no_measuring_in_the_product(): ok(measuring_code(MODULES))


def test_no_module_is_also_a_name(): ok(modules_also_names(MODULES))


def test_the_readme():
    ok(wrong_readme(PAGES["README.md"], [*NOTEBOOKS, *(path.stem for path in nbs.studies())]))


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
    prose = {f"nbs/{nbs.file_of(stem)}": "\n".join(cell["source"] for cell in nbs.read(path)["cells"])
             for stem, path in NOTEBOOKS.items()}
    scripts = {origin: source for origin, source in SCRIPTS.items() if not origin.endswith(here)}
    package = {"__init__.py": (ROOT / PACKAGE / "__init__.py").read_text(encoding="utf-8")}
    ok(metaphors(prose | scripts | PAGES | package))


# Each of them can fail


def test_wrong_numbers_sees():
    assert not wrong_numbers(["index", "01_a", "02_b", "c", "a1_d"])
    for wrong in (["01_a", "02_a"], ["01_a", "03_b"], ["01_a", "a"], ["1_a"], ["01_a", "01_b"]):
        assert wrong_numbers(wrong)


def test_wrong_modules_sees():
    places = {"04_a": "2_knockoffs", "b": "core"}
    assert not wrong_modules({"04_a": "knockoffs.a", "b": None}, places, {"knockoffs.a": ""})
    other = wrong_modules({"04_a": "core.a"}, places, {"core.a": ""})
    assert other == ["04_a exports core.a, not knockoffs.a"]
    left = wrong_modules({"b": "core.b"}, places, {"core.b": "", "core.c": ""})
    assert left == ["core.c.py comes from no notebook"]


@pytest.mark.parametrize("line", [
    "from ..filters.high import f", "from ..filters import high", "from dp_knockoff.filters.high import f",
    "import dp_knockoff.filters.high", "from dp_knockoff.filters import high", "from dp_knockoff import f",
    "import_module('dp_knockoff.filters.high')", "def g():\n    from ..filters.high import f",
    "class C:\n    def m(self):\n        import dp_knockoff.filters.high as h",
    "try: from ..filters.high import f\nexcept ImportError: pass",
])
def test_upward_imports_sees(line):
    package = {"f": "filters.high"}
    found = upward_imports({"data.low": line, "filters.high": ""}, package)
    assert found == ["data.low imports filters.high"]
    assert not upward_imports({"practice.low": line, "filters.high": ""}, package)
    assert not upward_imports({"filters.low": line, "filters.high": ""}, package)
    for allowed in ("filters", "filters.high"):
        assert not upward_imports({"data.low": line}, package, allowed=[allowed])
    assert upward_imports({"data.low": line}, package, allowed=SHOWN)


def test_circles_sees():
    there, back = "from dp_knockoff.core.b import f", "from dp_knockoff.core.a import g"
    assert circles({"core.a": there, "core.b": back})
    assert not circles({"core.a": there, "core.b": "def f():\n    " + back})


@pytest.mark.parametrize("user", [
    "from dp_knockoff.core.a import f", "def g():\n    from ..core.a import f",
    "from dp_knockoff.core import a\na.f()", "import dp_knockoff.core.a\ndp_knockoff.core.a.f()",
    "import dp_knockoff.core.a as short\nshort.f()", "patch('dp_knockoff.core.a.f')",
])
def test_unused_exports_sees(user):
    modules = {"core.a": "__all__ = ['f']\ndef f(): pass"}
    assert unused_exports(modules, set(), {}) == ["core.a.f is used only in its own file: call it _f"]
    assert unused_exports(modules, set(), {"nbs/core/a.ipynb": user})        # its own notebook and
    assert unused_exports(modules, set(), {"tests/a.py": "f = 1; print(f)"})  # a namesake do not count
    for origin in ("nbs/core/b.ipynb", "tests/core/test_a.py", "studies/a.py"):
        assert not unused_exports(modules, set(), {origin: user})
    assert not unused_exports(modules | {"core.b": user}, set(), {})
    assert not unused_exports(modules, {("core.a", "f")}, {})
    assert not unused_exports(modules, set(), {}, {("core.a", "f")})


def test_the_class_of_an_answer_is_public():
    audit = "__all__ = ['f', 'A']\nclass A: pass\n"
    for used in ("def f() -> A: pass", "class f:\n    def g(self) -> A | None: pass", "class f:\n    a: A"):
        assert unused_exports({"core.a": audit + used}, {("core.a", "f")}, {}) == []
    for unused in ("def f(): return A()", "def f(x: A): pass", "class f:\n    def g(self, a: A): pass",
                   "def _f() -> A: pass\ndef f(): pass"):
        assert unused_exports({"core.a": audit + unused}, {("core.a", "f")}, {})


def test_measuring_code_sees():
    for source in ("def measure(): pass", "class Experiment: pass", "def _measure_one(): pass", "grid = 1"):
        assert measuring_code({"filters.a": source}) and measuring_code({"core.a": source})
        assert not measuring_code({"evidence.a": source}) and not measuring_code({"practice.a": source})
    assert not measuring_code({"filters.a": "def plan(): pass\nGRID = 1"})  # a grid of numbers is fine


def test_modules_also_names_sees():
    assert modules_also_names({"core.audit": "def audit(): pass"})
    assert modules_also_names({"core.a": "core = 1"})
    assert not modules_also_names({"core.a": "def f(a): b = a", "core.b": ""})


def test_wrong_readme_sees():
    page = "[A](nbs/2_knockoffs/01_a.ipynb) [B](nbs/core/b.ipynb)"
    assert not wrong_readme(page, ["index", "01_a", "b", "c"])
    assert wrong_readme(page, ["01_a"]) == ["b is linked, but no notebook"]
    assert wrong_readme("x" * (README + 1), [])


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
