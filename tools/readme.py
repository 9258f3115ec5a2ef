"""Write README.md from nbs/index.ipynb, or, with --check, say whether it is what would be written."""
import argparse
import base64
import os
import sys
from pathlib import Path

import notebooks as nbs

HEADER = "<!-- Written by tools/readme.py from nbs/index.ipynb: edit the notebook, not this file. -->"
IMAGES = "docs/images"


def main():
    "The command line"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebook", nargs="?", type=Path, default=nbs.NBS / "index.ipynb")
    parser.add_argument("--output", type=Path, default=nbs.ROOT / "README.md", help="default: README.md")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if out of date")
    args = parser.parse_args()
    if args.check: sys.exit(differences(args.notebook, args.output))
    for path, content in generated(args.notebook, args.output).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def differences(notebook=nbs.NBS / "index.ipynb", output=nbs.ROOT / "README.md"):
    "A sentence about what is out of date, or None"
    if not notebook.exists(): return f"{notebook.name} is missing, so README.md cannot be checked: write it."
    stale = [path.name for path, content in generated(notebook, output).items()
             if not path.exists() or unix(path.read_bytes()) != unix(content)]
    if not stale: return None
    return f"Not what {notebook.name} gives: {', '.join(stale)}. Run `python tools/readme.py` and commit."


def unix(content: bytes) -> bytes:
    "The same on every system: lines end with a newline"
    return content.replace(b"\r\n", b"\n")


def generated(notebook: Path, output: Path) -> dict:
    "Every file that belongs to the README, with its content"
    parts, images = [HEADER], []
    for cell in nbs.read(notebook)["cells"]:
        if cell["cell_type"] == "markdown": parts.append(nbs.relink(cell["source"].strip(), from_root))
        elif cell["cell_type"] == "code" and nbs.is_shown(cell):
            parts.append(fenced(nbs.code(cell["source"]), "python"))
            parts += shown(cell["outputs"], images, nbs.alt(cell) or "output of the code above")
    files = {output.parent / IMAGES / image_name(k): png for k, png in enumerate(images, 1)}
    return {output: ("\n\n".join(parts) + "\n").encode()} | files


def from_root(path: Path) -> str:
    "A file of the repository, as a link from its root"
    return Path(os.path.relpath(path, nbs.ROOT)).as_posix()


def shown(outputs: list, images: list, alt: str) -> list:
    "The outputs of a cell: text that belongs together as one block, pictures as links, added to `images`"
    parts, text = [], ""
    for output in outputs:
        data = output.get("data", {})
        if "image/png" in data:
            images.append(base64.b64decode(nbs.joined(data["image/png"])))
            picture = f"![{alt}]({IMAGES}/{image_name(len(images))})"
            parts, text = [*parts, *[fenced(text)] * bool(text), picture], ""
        else: text += nbs.joined(output.get("text", data.get("text/plain", "")))
    return parts + [fenced(text)] * bool(text)


def image_name(k: int) -> str:
    "File name of the k-th picture"
    return f"index-{k}.png"


def fenced(text: str, language: str = "") -> str:
    "A code block"
    return f"```{language}\n{text.rstrip()}\n```"


if __name__ == "__main__": main()
