"""The list in SECURITY.md of what one row of the data can have refused, written from the code that refuses.

    python tools/security.py            # writes the list
    python tools/security.py --check    # writes nothing; says if it is out of date
"""
import sys
import textwrap
from importlib import import_module
from pkgutil import walk_packages

import notebooks as nbs

SECURITY = nbs.ROOT / "SECURITY.md"
BEGIN, END = "<!-- refusals -->\n", "<!-- /refusals -->"
LEAST = 5  # a register that is nearly empty was not filled


def listed() -> str:
    "Everything that is registered, a line each"
    package = import_module("dp_knockoff")
    for module in walk_packages(package.__path__, "dp_knockoff."): import_module(module.name)
    found = sorted(set(import_module("dp_knockoff.core.errors").ONE_ROW.values()))
    if len(found) < LEAST: sys.exit(f"only {len(found)} refusals are registered")
    return "".join(textwrap.fill(f"- {when};", 110, initial_indent="  ", subsequent_indent="    ") + "\n"
                   for when in found)


def written() -> str:
    "SECURITY.md with the list"
    text = SECURITY.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    return before + BEGIN + listed() + END + rest.split(END)[1]


def differences() -> str:
    "What is wrong with the list, if anything is"
    same = written() == SECURITY.read_text(encoding="utf-8")
    return "" if same else "SECURITY.md lists other refusals than the code: run tools/security.py and commit."


if __name__ == "__main__":
    if "--check" in sys.argv: sys.exit(differences() or None)
    SECURITY.write_text(written(), encoding="utf-8")
