"""Weights for the site's search: which pages a word is about, not only which pages have it.

Sphinx's own index knows where a word occurs. Here every page gets, for each of its words, a weight in the
manner of BM25: occurrences in titles, headings and statements count more than those in text, words of few
pages more than words of many, and chapters more than pages of the guide. `docs/static/scorer.js` adds up.
"""
import math
import re
from collections import Counter, defaultdict
from functools import cache

import notebooks as nbs
import tags

FIELDS = {"title": 12, "subtitle": 5, "heading": 4, "statement": 3, "text": 1}
PRIOR = {"home": 1, "chapter": 1, "example": .8, "guide": .75, "appendix": .3, "project": .4}
SATURATION, LENGTH = 6, .6  # of many occurrences; how much long pages are held against them
OFTEN = 4  # two words that follow each other in a text count from here on
PAGES = 8  # the most that are kept for a word
LETTERS = {"varepsilon": "epsilon"}
WORD = re.compile(r"\w+(?:-\w+)*")


@cache
def stem(word: str) -> str:
    "A word as the index has it"
    from sphinx.search.en import SearchEnglish  # only where a site is built
    return SearchEnglish({"type": "default"}).stem(word)


def words(text: str) -> list:
    "The stems of a text; a word with a hyphen is one word"
    return [stem(LETTERS.get(word, word)) for word in WORD.findall(text.lower())]


def fields(markdown: str) -> dict:
    "The text of a page by where it stands, without code"
    prose = nbs.CODE.sub(lambda m: m[0].strip("`") if m[0].count("\n") == 0 else " ", markdown)
    prose = re.sub(r"<!--.*?-->|\]\([^)]*\)", " ", prose, flags=re.DOTALL)
    heads = {"title": r"(?m)\A# (.*)$", "subtitle": r"(?m)\A# .*\n+> (.*)$", "heading": r"(?m)^##+ (.*)$",
             "statement": r"(?m)^> \*\*\w+ [\w.]+\*\* \((.*?)\)"}
    return {name: " ".join(re.findall(pattern, prose)) for name, pattern in heads.items()} | {"text": prose}


def kind_of(stem: str) -> str:
    "What a notebook is to a reader who searches"
    if nbs.is_guide(stem): return "guide"
    folder = nbs.folder_of(nbs.path_of(stem))
    return {"examples": "example", "appendix": "appendix"}.get(folder, "chapter")


def pages(books: dict, others: dict) -> dict:
    "{page: (kind, markdown)} of all notebooks, and of further pages as they are given"
    found = {stem: (kind_of(stem), "\n\n".join(cell["source"] for cell in book["cells"]
             if cell["cell_type"] == "markdown")) for stem, book in books.items() if stem != "index"}
    return found | others


def weights(texts: dict) -> dict:
    "{stem of a word, or of two: {page: weight}}, the heaviest pages only"
    counts, lengths = {}, {}
    for page, (_, markdown) in texts.items():
        total = Counter()
        for name, text in fields(markdown).items():
            stems = words(text)
            for word in stems: total[word] += FIELDS[name]
            lengths[page] = lengths.get(page, 0) + FIELDS[name] * len(stems)
            for pair, count in Counter(zip(stems, stems[1:])).items():
                if count >= OFTEN or name != "text": total[" ".join(pair)] += FIELDS[name] * count
        counts[page] = total
    mean = sum(lengths.values()) / max(len(lengths), 1)
    found = defaultdict(dict)
    for page, total in counts.items():
        shrink = 1 - LENGTH + LENGTH * lengths[page] / mean
        for word, count in total.items(): found[word][page] = count / shrink
    result = {}
    for word, where in found.items():
        rare = math.log(1 + len(texts) / len(where))
        scored = {page: PRIOR[texts[page][0]] * rare * tf / (tf + SATURATION) for page, tf in where.items()}
        best = sorted(scored, key=scored.get, reverse=True)[:PAGES]
        result[word] = {page: round(scored[page], 2) for page in best}
    return result


def lead(kind: str, markdown: str) -> str:
    "What a page says of itself first"
    found = fields(markdown)
    return f"{found['title']}. {found['subtitle']}".lower()


def added(index: dict, texts: dict, found: list) -> dict:
    "Sphinx's index with weights, first lines of pages, and names of statements among its titles"
    number = {name: k for k, name in enumerate(index["docnames"])}
    for one in found:
        index["alltitles"].setdefault(tags.shown(one.label), []).append([number[one.page], one.id])
    table = {word: {str(number[page]): weight for page, weight in where.items() if page in number}
             for word, where in weights(texts).items()}
    leads = [lead(*texts[name]) if name in texts else "" for name in index["docnames"]]
    return index | {"weights": table, "leads": leads}
