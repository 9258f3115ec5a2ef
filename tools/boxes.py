"""Statements and proofs as the site shows them: boxes with anchors, verdicts, links to code and attacks."""
import re
from dataclasses import replace

import reference
import tags

HEADING = re.compile(r"#{1,6} ")
INLINE_QED = re.compile(r"\s*\$\s*\\(?:square|blacksquare|Box)\s*\$")
EQUATION_FENCE, BOX_FENCE, PROOF_FENCE = ":" * 4, ":" * 10, ":" * 20  # outer ones are longer
DISPLAY = re.compile(r"^([ ]*)\$\$(.+?)\$\$[ ]*$", re.MULTILINE | re.DOTALL)
ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>', re.MULTILINE)


def rendered(source: str, stem: str, links: dict, cells: dict, works: dict) -> str:
    """A markdown cell of a notebook in MyST, with its tagged statements as boxes

    `links` {name of code: object}, `cells` {(notebook, cell id): target},
    `works` {key of the bibliography: authors and year}
    """
    parts = []
    for piece in tags.pieces(source):
        piece = replace(piece, tags=tuple(replace(tag, page=stem) for tag in piece.tags))
        if piece.kind == "box": parts.append(box(piece, links, cells, works))
        elif piece.kind == "equation": parts.append(equation(piece, links, cells, works))
        else: parts.append(ANCHOR.sub(r"(\1)=\n", piece.text))
    return DISPLAY.sub(numbered, "\n\n".join(parts))


def numbered(match) -> str:
    "A display with a number of its own as an equation: Sphinx would put `split` around it, which allows none"
    if r"\tag{" not in match[2]: return match[0]
    lines = ["", r"\begin{equation*}", *match[2].strip().split("\n"), r"\end{equation*}", ""]
    return "\n".join(match[1] + line.strip() if line else "" for line in lines)


def box(piece, links: dict, cells: dict, works: dict) -> str:
    "A statement as an admonition: its name and what is in brackets behind it are the title"
    first = piece.tags[0]
    title, text = headed(first, piece.text)
    body = [f":class: statement {first.source}", "", rendered(text, first.page, links, cells, works), ""]
    body += feet(piece, links, cells, works)
    return fenced(piece, f"{{admonition}} {title}", "\n".join(body), BOX_FENCE)


def equation(piece, links: dict, cells: dict, works: dict) -> str:
    "A displayed equation with its number, and a line on what came of it"
    body = ["", piece.text, "", *feet(piece, links, cells, works)]
    return fenced(piece, "{container} statement-equation", "\n".join(body), EQUATION_FENCE)


def fenced(piece, head: str, body: str, fence: str) -> str:
    """A directive with a target above it

    Further tags get a container each: the search shows what stands inside a target.
    """
    text = f"({piece.tags[0].id})=\n{fence}{head}\n{body}\n{fence}"
    for tag in piece.tags[1:]:
        fence += ":"
        text = f"({tag.id})=\n{fence}{{container}} place\n\n{text}\n{fence}"
    return "\n".join(piece.indent + line if line else line for line in text.split("\n"))


def headed(one, text: str) -> tuple:
    "The title of a box, and the text below it: `**Lemma 1** (on this). If` is `Lemma 1 (on this)` and `If`"
    match = re.match(r"\*\*(.+?)\*\*\s*", text, re.DOTALL)
    if not match: return f"{one.label} ({one.title})" if one.title else one.label, text
    name, rest = match[1].strip().rstrip(".:"), text[match.end():]
    bracket = bracketed(rest)
    rest = re.sub(r"\A[.:]?\s*", "", rest[len(bracket):])
    title = bracket or (f"({one.title})" if one.title and "(" not in name else "")
    return " ".join(f"{name} {title}".split()), rest


def bracketed(text: str) -> str:
    "The bracket that a text starts with, or nothing"
    depth = 0
    for k, letter in enumerate(text if text.startswith("(") else ""):
        depth += (letter == "(") - (letter == ")")
        if not depth: return text[:k + 1]
    return ""


def feet(piece, links: dict, cells: dict, works: dict) -> list:
    "The last lines of a box, one for each tag; all but the first say what they are about"
    return ["{.statement-foot}\n" + f"{tag.label}: " * (k > 0) + foot(tag, links, cells, works) + "\n"
            for k, tag in enumerate(piece.tags)]


def foot(one, links: dict, cells: dict, works: dict) -> str:
    "Whose a statement is, the verdict, the code, the attacks"
    rest = reference.escape(one.verdict[len(one.word):].lstrip(" ;,:").rstrip())
    source = f"[{one.source}](#{one.cite[0]})" if one.cite else one.source
    marks = f"[{source}]{{.mark .{one.source}}} [{one.word}]{{.mark .verdict .{one.word}}}"
    parts = [f"{marks} {rest}".rstrip()]
    if one.cite: parts.append("Source: " + ", ".join(f"[{works.get(key, key)}](#{key})" for key in one.cite))
    code = [f"{{py:obj}}`{name} <{links[name]}>`" for name in one.code if name in links]
    if code: parts.append("Code: " + ", ".join(code))
    attacks = [f"[{k}](#{cells[cell]})" for k, cell in enumerate(one.attacks, 1) if cell in cells]
    if attacks: parts.append(f"Attack{'s' * (len(attacks) > 1)}: " + ", ".join(attacks))
    return " · ".join(parts)


def with_proofs(text: str, inside: bool = False) -> tuple:
    """Proofs set off, each with an end mark: the text, and whether a proof is still open at its end

    A proof starts in a line that opens with "Proof" and ends with its mark, perhaps some cells later.
    """
    done, proof = [], [] if inside else None
    display = False  # inside $$ ... $$
    ended = False
    for line in text.split("\n"):
        if proof is None and tags.PROOF.match(line): proof = []
        elif proof is not None and HEADING.match(line): done, proof = [*done, set_off(proof)], None
        if proof is None:
            done.append(line)
            continue
        proof.append(INLINE_QED.sub(" [□]{.qed}", line))
        display ^= line.count("$$") % 2 == 1
        ended = ended or bool(tags.QED.search(line))
        if ended and not display: done, proof, ended = [*done, set_off(proof)], None, False
    if proof is None: return "\n".join(done), False
    return "\n".join([*done, set_off(proof)]), True


def set_off(lines: list) -> str:
    "A proof, or the part of it that stands in one cell"
    return "\n".join(["", f"{PROOF_FENCE}{{container}} proof", "", *lines, PROOF_FENCE, ""])
