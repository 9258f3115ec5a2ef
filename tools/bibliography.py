"""The bibliography: every entry is cited, every citation has an entry, and all are in order."""
import re

import notebooks as nbs
import tags

STEM = "a4_bibliography"
ENTRY = re.compile(r'^<a id="([^"]+)"></a>(.*)$', re.MULTILINE)
KEY = re.compile(r"[a-z]+(?:19|20)\d\d[a-z]?")
IDENTIFIED = re.compile(r"\]\(https://(?:doi\.org/10\.|arxiv\.org/abs/)")
LINK = re.compile(rf"\]\((?:[\w.]+/)*{STEM}\.ipynb#([^)\s]+)\)")


def entries(book: dict) -> dict:
    "Key -> text of each entry"
    return {key: text for cell in book["cells"] for key, text in ENTRY.findall(cell["source"])}


def short(key: str, text: str) -> str:
    "An entry as prose names it: `Barber and Candès (2015)`, `Dwork et al. (2006)`"
    names = re.match(r"\*\*(.+?)\.\*\*", text)[1]
    authors = [name.split()[-1] for name in re.split(r", | and ", names)]
    shown = authors[0] if len(authors) == 1 else " and ".join(authors)
    if len(authors) > 2 or authors[-1] == "others": shown = f"{authors[0]} et al."
    return f"{shown} ({re.search(r'[0-9]{4}', key)[0]})"


def citations(books: dict) -> dict:
    "Key -> notebooks that link it or state what it proved, in reading order"
    found, known = {}, tags.read(books)
    for stem, book in books.items():
        cells = [cell["source"] for cell in book["cells"] if cell["cell_type"] == "markdown"]
        links = LINK.findall("\n".join(nbs.CODE.sub("", source) for source in cells))
        links += [key for one in known if one.page == stem for key in one.cite]
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
