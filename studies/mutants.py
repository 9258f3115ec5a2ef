"""What the tests would not notice: a seeded sample of mutants of exported formulas, and who kills each.

    python studies/mutants.py                # makes results/mutants.csv and mutants.md; takes hours
    python studies/mutants.py --resume       # goes on where an interrupted run stopped
    python studies/mutants.py --survivors    # only those that survived the last time, for new tests

A mutant is the package with one formula changed, in the notebook and in its module: an operator, a
comparison, a number, a function taken for another, a term left out. It is killed by the first of these that
fails on it, and passes without it: the module's own tests, its notebook, the tests and notebooks of modules
that use it. Sentences, checks of input and drawing are left alone: they are no formulas.
"""
from __future__ import annotations

import argparse
import ast
import csv
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from tqdm import tqdm

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "studies" / "results"
SEED, SAMPLE = 2026, 300
PATIENCE = 900  # seconds for a file of tests or a notebook; a mutant that takes longer counts as killed
PLAIN = {"core.archives", "core.errors", "core.tables", "data.cluster", "data.dictionary", "data.files",
         "data.rows", "data.source"}  # checks, files and text: no formulas
MODULES = [".".join(path.relative_to(ROOT / "dp_knockoff").with_suffix("").parts)
           for path in sorted((ROOT / "dp_knockoff").glob("*/*.py"))
           if path.stem != "__init__" and path.parent.name != "practice"]
MODULES = [name for name in MODULES if name not in PLAIN]
ROUNDING = 1e-6  # numbers below it guard against rounding: no part of a formula

OPERATORS = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.Pow: "*"}
COMPARISONS = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
TWINS = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum", "sqrt": "abs",
         "sum": "mean", "mean": "sum", "ceil": "floor", "floor": "ceil", "expm1": "exp", "log1p": "log",
         "eigvalsh": "diagonal", "cumsum": "cumprod", "hypot": "maximum", "ndtr": "ndtri"}
SPOKEN = re.compile(r"^(_?check|_?warn|_?say|.*_in_words$|explain$|statement$|promise$|control$|notes$"
                    r"|__repr__$|guarantee$|_repr_html_$|.*_text$|save$|load$|to_frame$)")


@dataclass(frozen=True)
class Mutant:
    "One change of one formula"
    module: str
    cell: str         # id of the notebook's cell
    function: str     # that the formula stands in
    line: str         # as it is
    change: str       # the line as the mutant has it
    where: int        # line of the module's file
    killed_by: str = ""
    why: str = ""     # explanation of a survivor


def formulas(tree: ast.AST):
    "The nodes of functions in which something is computed, with the names of their functions"
    def walk(node, inside):
        if isinstance(node, (ast.Raise, ast.JoinedStr, ast.Assert)): return
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            if isinstance(node, ast.FunctionDef) and SPOKEN.match(node.name): return
            for child in node.body: yield from walk(child, (*inside, node.name))
            return
        if inside: yield node, ".".join(inside)
        for child in ast.iter_child_nodes(node): yield from walk(child, inside)
    return walk(tree, ())


def changes(node: ast.AST, source: str):
    "What can be written in place of a node"
    def text(part): return ast.get_source_segment(source, part)
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        if isinstance(node.left, ast.Constant) and isinstance(node.left.value, str): return
        left, right = text(node.left), text(node.right)
        yield f"({left}) {OPERATORS[type(node.op)]} ({right})"
        if isinstance(node.op, (ast.Add, ast.Sub)): yield f"({left})"
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
        yield f"{text(node.left)} {COMPARISONS[type(node.ops[0])]} {text(node.comparators[0])}"
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        if isinstance(node.value, float) and abs(node.value) < ROUNDING: return
        yield repr(node.value + 1) if isinstance(node.value, int) else repr(node.value * 1.1)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if not isinstance(node.operand, ast.Constant): yield f"({text(node.operand)})"
    if isinstance(node, ast.Call) and isinstance(node.func, (ast.Name, ast.Attribute)):
        name = text(node.func)
        head, dot, last = name.rpartition(".")
        if last in TWINS: yield text(node).replace(name, head + dot + TWINS[last], 1)


def mutants_of(module: str) -> list:
    "All mutants of a module whose change fits in a line"
    source = (ROOT / file_of(module)).read_text(encoding="utf-8")
    lines, found = source.splitlines(), []
    for node, function in formulas(ast.parse(source)):
        if node.lineno != getattr(node, "end_lineno", None) if hasattr(node, "lineno") else True: continue
        line = lines[node.lineno - 1]
        start, end = (len(line.encode()[:at].decode()) for at in (node.col_offset, node.end_col_offset))
        for new in changes(node, source):
            change = line[:start] + new + line[end:]
            if "\n" in new or change == line or not compiles(lines, node.lineno, change): continue
            found.append(Mutant(module, cell_above(lines, node.lineno), function, line, change, node.lineno))
    return list(dict.fromkeys(found))


def compiles(lines: list, number: int, change: str) -> bool:
    "Is the mutant a program? Its cell says so: a cell holds whole statements"
    ends = [k for k, line in enumerate(lines) if line.startswith("# %% ")]
    first = max((k for k in ends if k < number), default=0)
    last = min((k for k in ends if k >= number), default=len(lines))
    try: ast.parse("\n".join([*lines[first:number - 1], change, *lines[number:last]]))
    except SyntaxError: return False
    return True


def cell_above(lines: list, number: int) -> str:
    "The id of the notebook's cell that a line comes from"
    marks = (re.match(r"# %% .*#([0-9a-f]{8})$", line) for line in reversed(lines[:number]))
    return next((mark[1] for mark in marks if mark), "")


def sample(seed: int = SEED, size: int = SAMPLE) -> list:
    "Mutants of all modules, drawn without regard to their number in each"
    every = [mutant for module in MODULES for mutant in mutants_of(module) if mutant.cell]
    return random.Random(seed).sample(every, size)


def file_of(module: str) -> str:
    "The file of a module, from the root"
    return f"dp_knockoff/{module.replace('.', '/')}.py"


def notebook_of(module: str) -> str:
    "The notebook that exports a module, from the root"
    name = module.rpartition(".")[2]
    return next(path.relative_to(ROOT).as_posix() for path in (ROOT / "nbs").glob("*/*.ipynb")
                if re.sub(r"^\d\d_", "", path.stem) == name)


def tests_of(module: str) -> list:
    "The files of a module's own tests"
    layer, _, name = module.partition(".")
    found = (ROOT / "tests" / layer).glob(f"test_{name}*.py")
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def users_of(module: str) -> list:
    "Modules that import this one, those with formulas"
    layer, _, name = module.partition(".")
    imports = re.compile(rf"^\s*from (dp_knockoff\.{layer}|\.\.{layer}|)\.{name} import", re.MULTILINE)
    sources = {name: (ROOT / file_of(name)).read_text("utf-8") for name in MODULES}
    return [name for name, source in sources.items() if name != module and imports.search(source)]


def plant(mutant: Mutant, tree: Path) -> None:
    "Write the mutant into a copy of the repository: module and notebook"
    path = tree / file_of(mutant.module)
    lines = path.read_text(encoding="utf-8").split("\n")
    where = located(mutant, lines)
    first = next(n for n in range(where, -1, -1) if lines[n].startswith("# %% "))
    before = lines[first:where].count(mutant.line)
    lines[where] = mutant.change
    path.write_text("\n".join(lines), encoding="utf-8")
    book = tree / notebook_of(mutant.module)
    notebook = json.loads(book.read_text(encoding="utf-8"))
    cell = next(cell for cell in notebook["cells"] if lines[first].endswith(f"#{cell['id']}"))
    here = "".join(cell["source"]).split("\n")
    here[[k for k, line in enumerate(here) if line == mutant.line][before]] = mutant.change
    cell["source"] = "\n".join(here).splitlines(keepends=True)
    book.write_text(json.dumps(notebook, ensure_ascii=False), encoding="utf-8")


def located(mutant: Mutant, lines: list) -> int:
    "Where the formula stands by now: the nearest line that reads the same"
    found = [k for k, line in enumerate(lines) if line == mutant.line]
    if not found: raise LookupError(f"{file_of(mutant.module)} no longer holds {mutant.line.strip()!r}")
    return min(found, key=lambda k: abs(k - mutant.where + 1))


def restore(mutant: Mutant, tree: Path) -> None:
    "Undo it"
    for name in (file_of(mutant.module), notebook_of(mutant.module)):
        shutil.copy(ROOT / name, tree / name)


def suspects(module: str, own: bool = False) -> list:
    "What is run against a mutant, in order: names of test files, and of notebooks as test cases"
    def book(name): return f"tests/test_notebooks.py::test_notebook[{Path(notebook_of(name)).stem}]"
    first, users = [*tests_of(module), book(module)], users_of(module)
    if own: return first
    return [*first, "tests/test_golden.py", *(test for name in users for test in tests_of(name)),
            *map(book, users)]


def killer(mutant: Mutant, tree: Path, own: bool = False) -> str:
    "The first that fails on a mutant; nothing if it survives"
    plant(mutant, tree)
    try: return next((name for name in suspects(mutant.module, own) if not passes(name, tree)), "")
    finally: restore(mutant, tree)


def passes(name: str, tree: Path) -> bool:
    "Does a file of tests, or a notebook, pass in a copy of the repository, and does it end?"
    settings = {"PYTHONPATH": str(tree), "OPENBLAS_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-n0", "-p", "no:cacheprovider", "--no-header"]
    command = [sys.executable, "-m", "pytest", *options, name]
    quiet = dict(cwd=tree, env=os.environ | settings, capture_output=True, timeout=PATIENCE)
    try: return subprocess.run(command, **quiet).returncode == 0
    except subprocess.TimeoutExpired: return False


def check_sound(names: list, tree: Path) -> None:
    "What kills a mutant must pass without one"
    wrong = [name for name in tqdm(names, desc="without mutants") if not passes(name, tree)]
    if wrong: sys.exit(f"These fail without any mutant: {', '.join(wrong)}")


def copied(folder: Path) -> Path:
    "A copy of the repository to be mutated"
    left_out = shutil.ignore_patterns("_build", "_source", "__pycache__")
    for name in ("dp_knockoff", "nbs", "tests", "tools", "studies", "docs"):
        shutil.copytree(ROOT / name, folder / name, ignore=left_out)
    for path in ROOT.iterdir():
        if path.is_file(): shutil.copy(path, folder / path.name)
    return folder


def read_results(path: Path) -> list:
    "Mutants on file"
    with path.open(encoding="utf-8", newline="") as file:
        return [Mutant(**{**row, "where": int(row["where"])}) for row in csv.DictReader(file)]


def write_results(mutants: list, folder: Path = RESULTS) -> None:
    "All mutants as a table, and a page with the survivors"
    with (folder / "mutants.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(Mutant.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(map(asdict, mutants))
    (folder / "mutants.md").write_text(page(mutants), encoding="utf-8")


def page(mutants: list) -> str:
    "How many were killed, by what, and which were not"
    alive = [m for m in mutants if not m.killed_by]
    kinds = Counter(kind_of(m) for m in mutants if m.killed_by)
    modules = Counter(m.module for m in mutants)
    lost = Counter(m.module for m in alive)
    rows = [f"| {name} | {modules[name]} | {lost[name]} |" for name in sorted(modules)]
    share = 1 - len(alive) / len(mutants)
    head = ["# Mutants of exported formulas", "",
            f"{len(mutants)} mutants, drawn with seed {SEED} from the formulas of version 0.2: "
            f"{len(mutants) - len(alive)} killed ({share:.1%}), {len(alive)} survived. Killed by "
            + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common()) + ".", "",
            "| module | mutants | survivors |", "|---|---|---|", *rows, "", "## Survivors", "",
            "| module, function | formula | mutant | why it survives |", "|---|---|---|---|"]
    def code(text): return "`" + text.strip().replace("|", "\\|") + "`"
    return "\n".join(head + [f"| {m.module}, `{m.function}` | {code(m.line)} | {code(m.change)} | {m.why} |"
                             for m in alive]) + "\n"


def kind_of(mutant: Mutant) -> str:
    "What killed it, in words"
    if mutant.killed_by in tests_of(mutant.module): return "the module's tests"
    if f"[{Path(notebook_of(mutant.module)).stem}]" in mutant.killed_by: return "its notebook"
    return "notebooks of its users" if "notebooks" in mutant.killed_by else "tests of its users"


def same(a: Mutant, b: Mutant) -> bool:
    "The same change of the same formula, wherever it stands by now?"
    return (a.module, a.function, a.line, a.change) == (b.module, b.function, b.line, b.change)


def main() -> None:
    "Try every mutant of the sample, several at a time, keeping what is done"
    verbatim = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=verbatim)
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: 2)")
    parser.add_argument("--resume", action="store_true", help="keep what an interrupted run has on file")
    parser.add_argument("--survivors", action="store_true", help="only those that survived the last time")
    parser.add_argument("--own", action="store_true", help="run the module's own tests and notebook only")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of mutants.csv and mutants.md")
    args = parser.parse_args()
    known = read_results(args.out / "mutants.csv") if (args.out / "mutants.csv").exists() else []
    done = [m for m in known if m.killed_by or args.resume] if args.resume or args.survivors else []
    todo = [m for m in known if not m.killed_by] if args.survivors else sample()
    todo = [m for m in todo if not any(same(m, old) for old in done)]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(args.jobs) as pool:
        free = [copied(Path(folder) / str(k)) for k in range(args.jobs)]
        check_sound(sorted({name for m in todo for name in suspects(m.module, args.own)}), free[0])
        bar = tqdm(total=len(todo), unit="mutant")

        def judge(mutant):
            tree = free.pop()
            try: found = replace(mutant, killed_by=killer(mutant, tree, args.own))
            finally: free.append(tree)
            why = next((old.why for old in known if same(old, found)), "") if not found.killed_by else ""
            done.append(replace(found, why=why))
            bar.update()
            write_results(sorted(done, key=lambda m: (m.module, m.where, m.change)), args.out)

        list(pool.map(judge, todo))
    alive = sum(not m.killed_by for m in done)
    print(f"{len(done) - alive} of {len(done)} killed; written: mutants.csv, mutants.md")


if __name__ == "__main__": main()
