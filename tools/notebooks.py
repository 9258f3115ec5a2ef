"""What all tools need to know about the notebooks: their order, cells, directives and links."""
import json
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NBS = ROOT / "nbs"
TUTORIALS = 8
PARTS = {  # first digit of a notebook's number -> what these notebooks are about
    0: "Ground", 1: "Data", 2: "Knockoffs", 3: "Privacy", 4: "The paper", 5: "Beyond the paper",
    6: "Measuring", 7: "Using", TUTORIALS: "Tutorials", 9: "Bibliography",
}
OPENING = "00_"                    # the book opens with this notebook,
BOOK = (TUTORIALS, 2, 3, 4, 5, 6)  # goes on with these parts in this order; the others are its appendix

DIRECTIVE = re.compile(r"^\s*#\s*\|\s*(.*?)\s*$")
CODE = re.compile(r"(^```.*?^```[^\n]*$|``.+?``|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
VERBATIM = re.compile(  # code and mathematics, where a bracket before a bracket is no link
    CODE.pattern[:-1] + r"|\$\$.+?\$\$|\$[^$\n]+(?:\n[^$\n]+)*\$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()(?![a-z]+:|[#/])([^)\s]+)")


def paths(folder: Path = NBS) -> list:
    "All notebooks in reading order: the index, the opening, the parts of the book, the appendix"
    return sorted(folder.glob("*.ipynb"), key=lambda path: reading_order(path.stem))


def reading_order(stem: str) -> tuple:
    "What notebooks are sorted by"
    if stem == "index" or stem.startswith(OPENING): return (-2 if stem == "index" else -1), stem
    part = part_of(stem)
    if part in BOOK: return BOOK.index(part), stem
    return len(BOOK) + (part is None), stem


def is_appendix(stem: str) -> bool:
    "Does the book end with this notebook: validators, file formats, tools, the bibliography?"
    return part_of(stem) is not None and part_of(stem) not in BOOK and not stem.startswith(OPENING)


def chapter_of(stem: str) -> str:
    "The caption over a notebook in the table of contents"
    if stem.startswith(OPENING): return "Opening"
    part = part_of(stem)
    name = PARTS.get(part, "Further")
    return f"Appendix: {name.lower()}" if is_appendix(stem) else name


def part_of(stem: str):
    "The first digit of a notebook's number, or None where it has none"
    return int(stem[0]) if re.match(r"\d\d_", stem) else None


def copied(target: Path) -> Path:
    "The files of the repository that git does not ignore, as they are now, in another folder"
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8").stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target / name)
    return target


def read(path) -> dict:
    "A notebook, with every source as one string"
    notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    for cell in notebook["cells"]: cell["source"] = joined(cell["source"])
    return notebook


def books() -> dict:
    "Every notebook by its file name without the suffix, in reading order"
    return {path.stem: read(path) for path in paths()}


def joined(text) -> str:
    "Text that a notebook stores as a string or as a list of lines"
    return text if isinstance(text, str) else "".join(text)


def directives(source: str) -> list:
    "The directives of a code cell, each as a list of words: `#| default_exp x` is ['default_exp', 'x']"
    found = [DIRECTIVE.match(line) for line in source.splitlines()]
    return [match[1].replace(":", " ").split() for match in found if match and match[1]]


def has(cell: dict, *names) -> bool:
    "Is this a code cell with one of these directives?"
    return cell["cell_type"] == "code" and any(words[0] in names for words in directives(cell["source"]))


def is_shown(cell: dict) -> bool:
    "Is there anything in this cell for a reader?"
    return bool(code(cell["source"])) and not has(cell, "hide", "default_exp")


def code(source: str) -> str:
    "A cell's source without its directives"
    return "\n".join(line for line in source.splitlines() if not DIRECTIVE.match(line)).strip("\n")


def module_of(notebook: dict):
    "The name after `default_exp`, or None for a notebook that exports nothing"
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    words = [words for cell in cells for words in directives(cell["source"])]
    return next((w[1] for w in words if w[0] == "default_exp"), None)


def title_of(notebook: dict, default: str) -> tuple:
    "Title and subtitle, from the `# title` and `> subtitle` of the first cell"
    lines = notebook["cells"][0]["source"].splitlines() if notebook["cells"] else []
    title = next((line[2:].strip() for line in lines if line.startswith("# ")), default)
    return title, " ".join(line[1:].strip() for line in lines if line.startswith(">"))


def relink(markdown: str, move) -> str:
    "Replace the target of every relative link in prose by what `move` makes of the file it means"
    def link(match):
        target, mark, fragment = match[2].partition("#")
        return match[1] + move(meant(target)) + mark + fragment

    parts = VERBATIM.split(markdown)
    parts[::2] = [LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def meant(target: str) -> Path:
    "The file a link means: one beside the notebook, or else, as in README.md, one at the repository's root"
    beside, below_root = (NBS / target).resolve(), (ROOT / target).resolve()
    if beside.exists(): return beside
    return beside if beside.suffix == ".ipynb" and not below_root.exists() else below_root
