"""What all tools need to know about the notebooks: their order, cells, directives and links."""
import json
import re
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NBS = ROOT / "nbs"
STUDIES = ROOT / "studies"  # notebooks of their own, which measure the installed package
BOOK = {  # folders of notebooks in reading order -> captions
    "": "Home", "1_start": "Start", "2_knockoffs": "Knockoffs", "3_privacy": "Privacy",
    "4_selection": "Selection", "5_paper": "The paper", "6_filters": "Our filters", "7_evidence": "Evidence",
    "8_practice": "Practice", "examples": "Examples", "appendix": "Appendix",
    "core": "Core", "data": "Data",
}
NUMBER = re.compile(r"(\d\d|a\d)_")  # of a chapter or an appendix; pages of the developer guide have none

EXPORTED = ("export", "exports", "exporti")  # the last: for other modules, not for users
DIRECTIVE = re.compile(r"^\s*#\s*\|\s*(.*?)\s*$")
CODE = re.compile(r"(^```.*?^```[^\n]*$|``.+?``|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
VERBATIM = re.compile(  # code and mathematics, where a bracket before a bracket is no link
    CODE.pattern[:-1] + r"|\$\$.+?\$\$|\$[^$\n]+(?:\n[^$\n]+)*\$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()(?![a-z]+:|[#/])([^)\s]+)")


def paths(folder: Path = NBS) -> list:
    "All notebooks in reading order"
    found = (path for path in folder.rglob("*.ipynb") if not path.parent.name.startswith((".", "_")))
    return sorted(found, key=lambda path: reading_order(folder_of(path), path.stem))


def studies() -> list:
    "The notebooks of the studies, which are not part of the book"
    return sorted(STUDIES.glob("*.ipynb"))


def reading_order(folder: str, stem: str) -> tuple:
    "What notebooks are sorted by: chapters and examples first, then the pages of the guide"
    place, guide = list(BOOK).index(folder), folder not in ("", "examples") and not number_of(stem)
    return guide, place, stem


def folder_of(path: Path) -> str:
    "The folder of a notebook, below nbs"
    return path.parent.relative_to(NBS).as_posix().removeprefix(".")


def path_of(name: str) -> Path:
    "The file of a notebook, by its stem or by its name: both are unique in the whole book"
    return next(path for path in paths() if name in (path.stem, name_of(path.stem)))


def file_of(stem: str) -> str:
    "The file of a notebook below nbs, as a link from the index names it"
    found = (path.relative_to(NBS).as_posix() for path in paths() if path.stem == stem)
    return next(found, f"{stem}.ipynb")


def name_of(stem: str) -> str:
    "A notebook's name: its stem without the number"
    return NUMBER.sub("", stem, count=1)


def number_of(stem: str) -> str:
    "The number of a chapter or an appendix, or nothing"
    match = NUMBER.match(stem)
    return match[1] if match else ""


def is_guide(stem: str) -> bool:
    "Is this a page of the developer guide: validators, file formats, tools?"
    return reading_order(folder_of(path_of(stem)), stem)[0]


def chapter_of(stem: str) -> str:
    "The caption over a notebook in the table of contents"
    caption = BOOK[folder_of(path_of(stem))]
    return f"Guide: {caption.lower()}" if is_guide(stem) else caption


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


def draws(cell: dict) -> bool:
    "Does a code cell show a picture?"
    outputs = cell.get("outputs", [])
    return any(kind.startswith("image/") for output in outputs for kind in output.get("data", {}))


def alt(cell: dict) -> str:
    "What a picture shows, for whoever cannot see it: the line `#| fig-alt: ...` of its cell"
    found = re.search(r"(?m)^\s*#\s*\|\s*fig-alt:\s*(.+?)\s*$", cell["source"])
    return found[1] if found else ""


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


def relink(markdown: str, move, folder: Path = NBS) -> str:
    "Replace the target of every relative link in prose by what `move` makes of the file it means"
    def link(match):
        target, mark, fragment = match[2].partition("#")
        return match[1] + move(meant(target, folder)) + mark + fragment

    parts = VERBATIM.split(markdown)
    parts[::2] = [LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def meant(target: str, folder: Path = NBS) -> Path:
    "The file a link means: one beside the notebook, or else, as in README.md, one at the repository's root"
    beside, below_root = (folder / target).resolve(), (ROOT / target).resolve()
    if beside.exists(): return beside
    return beside if beside.suffix == ".ipynb" and not below_root.exists() else below_root
