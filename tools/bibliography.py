"""The bibliography: every entry is cited, every citation has an entry, and all are in order."""
import re

import notebooks as nbs

STEM = "a4_bibliography"
ENTRY = re.compile(r'^<a id="([^"]+)"></a>(.*)$', re.MULTILINE)
KEY = re.compile(r"[a-z]+(?:19|20)\d\d[a-z]?")
LINK = re.compile(rf"\]\((?:[\w.]+/)*{STEM}\.ipynb#([^)\s]+)\)")


def entries(book: dict) -> dict:
    "Key -> text of each entry"
    return {key: text for cell in book["cells"] for key, text in ENTRY.findall(cell["source"])}


def citations(books: dict) -> dict:
    "Key -> notebooks that link it, in reading order"
    found = {}
    for stem, book in books.items():
        cells = [cell["source"] for cell in book["cells"] if cell["cell_type"] == "markdown"]
        links = LINK.findall("\n".join(nbs.CODE.sub("", source) for source in cells))
        for key in dict.fromkeys(links): found.setdefault(key, []).append(stem)
    return found


def wrong(books: dict) -> list:
    "Everything that is wrong with the bibliography of these notebooks"
    listed, cited = entries(books[STEM]), citations(books)
    keys = [key for cell in books[STEM]["cells"] for key, _ in ENTRY.findall(cell["source"])]
    return ([f"{key} is cited in {', '.join(cited[key])}, but is no entry of the bibliography"
             for key in sorted(set(cited) - set(listed))]
            + [f"{key} is in the bibliography, but cited nowhere" for key in listed if key not in cited]
            + [f"the bibliography's {key} is not an author and a year"
               for key in keys if not KEY.fullmatch(key)]
            + [f"the bibliography's {b} stands after {a}" for a, b in zip(keys, keys[1:]) if a >= b])
