"A report holds what the selection holds, escapes every name, loads nothing, and is the same every time."
import base64
import os
import re
import stat
from dataclasses import replace
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dp_knockoff
from calls import filter_one, filter_two, labels_filter, moments_filter, products_filter
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.models import linear_model
from dp_knockoff.filters.estimate import PrivateMoments
from dp_knockoff.filters.methods import knockoff_filter
from dp_knockoff.knockoffs.laws import Gaussian, Levels
from dp_knockoff.knockoffs.statistics import Statistic
from dp_knockoff.practice.cli import main
from dp_knockoff.practice.plots import interval_in_words
from dp_knockoff.practice.report import _check_report, _report_html, write_report
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import SIMULATION, KnockoffPlus

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = ["What was asked", "What was found", "Why not more", "What is guaranteed", "What was spent",
            "What is not promised", "How to read the numbers", "How to repeat it", "How to cite it"]
VOID = {"meta", "img"}
PICTURE = "data:image/svg+xml;base64,"
X, Y, BETA = linear_model(4000, p=12, k=6, amplitude=1.0, random_signs=True, random_state=0)
NAMES = [f"column {j}" for j in range(12)]
TABLE = pd.DataFrame(X, columns=NAMES)
TRIAL = dict(simulation=True, random_state=0)
BUDGET = dict(epsilon=2.0, delta=1e-5)
MOMENTS = dict(**BUDGET, row_bound=2.5, response_bound=6.0)
PAPER = dict(epsilon=.9, delta=.05, row_bound=8.0, sigma=1.0, beta_norm=3.0)
EVIL = [(f"<script>alert({j})</script>", f"\"'><img src=x onerror=y({j})>&amp;")[j % 2] for j in range(12)]


def factors(n=3000):
    "An experiment with two factors of several levels and five of two"
    rng = np.random.default_rng(0)
    law = Levels({"price": dict(low=.4, mid=.3, high=.3), "colour": dict(red=.5, blue=.25, grey=.25),
                  **{f"extra {j}": dict(no=.5, yes=.5) for j in range(5)}})
    rows = pd.DataFrame({name: rng.choice(list(levels), n, p=list(levels.values()))
                         for name, levels in law.factors.items()})
    y = 2.0 * (rows.price == "low") + sum(1.0 * (rows[f"extra {j}"] == "yes") for j in range(5))
    return products_filter(rows, y - y.mean(), law=law, epsilon=9.0, delta=1e-5, response_bound=4.0, **TRIAL)


MAKE = {"moments": lambda: moments_filter(TABLE, Y, **MOMENTS),
        "simulated": lambda: moments_filter(TABLE, Y, **MOMENTS, **TRIAL),
        "knockoffs": lambda: select(made("simulated").release, rule="knockoffs", fdr=.4),
        "e-values": lambda: select(made("simulated").release, rule="ebh", fdr=.4),
        "labels": lambda: labels_filter(TABLE, Y, **BUDGET, response_bound=6.0, sigma=1.0),
        "groups": lambda: labels_filter(TABLE, Y, **BUDGET, response_bound=6.0, sigma=1.0, **TRIAL,
                                        groups={"pair": NAMES[:2], "three": NAMES[5:8]}),
        "products": factors,
        "none": lambda: knockoff_filter(TABLE, Y, random_state=0),
        "one": lambda: filter_one(TABLE, Y, **PAPER), "two": lambda: filter_two(TABLE, Y, **PAPER),
        "nothing": lambda: moments_filter(TABLE[NAMES[6:9]], np.sin(np.arange(4000.0)), **MOMENTS, **TRIAL)}


@cache
def made(kind): return MAKE[kind]()


class Reader(HTMLParser):
    "What a browser sees of a page"
    def __init__(self, page):
        super().__init__()
        self.open, self.tags, self.ids, self.loads, self.attributes = [], [], [], [], set()
        self.text, self.headings, self.pictures = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}
        if tag not in VOID: self.open.append(tag)
        for name, value in attrs:
            if name == "id": self.ids.append(value)
            if name in ("src", "href", "srcset", "data", "action", "poster", "background"):
                self.loads.append(value)

    def handle_endtag(self, tag): assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("style", "title"): self.text.append(data)
        if self.open and self.open[-1] == "h2": self.headings.append(data)

    @property
    def svgs(self):
        found = [value[len(PICTURE):] for value in self.loads if value.startswith(PICTURE)]
        return [base64.b64decode(value).decode() for value in found]

    @property
    def words(self): return " ".join(" ".join(self.text).split())


def checked(page):
    "A page that was found to be one: tags that close, ids used once, nothing loaded"
    found = Reader(page)
    assert page.startswith("<!DOCTYPE html>\n<html lang=\"en\">") and not found.open
    assert len(set(found.ids)) == len(found.ids)
    for value in found.loads:
        assert value.startswith(PICTURE) or value[0] == "#" and value[1:] in found.ids, value
    assert not set(found.tags) & {"script", "link", "iframe", "object", "embed", "base", "form", "svg"}
    assert not any(name.startswith("on") for name in found.attributes)
    assert "url(" not in page and "@import" not in page and "http:" not in page and "https:" not in page
    for svg in found.svgs: assert not re.search(r"<script|<image|xlink:href=\"(?!#)", svg)
    assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page
    return found


def read(selection, **words): return checked(_report_html(selection, **words))


@cache
def page_of(kind): return _report_html(made(kind), title="A title", target="wage")


@cache
def read_of(kind): return checked(page_of(kind))


@pytest.mark.parametrize("kind", MAKE)
def test_every_section_is_there_for_every_kind_of_selection(kind):
    selection = made(kind)
    page = read_of(kind)
    wanted = [heading if len(selection) or heading != "Why not more" else "Why nothing was found"
              for heading in SECTIONS]
    assert page.headings == wanted
    for sentence in (*selection.guarantee.lines(), "tell something about wage", f"{selection.release.n:,}",
                     f"{len(selection)} of {len(selection.names)} variables selected",
                     f"at most {selection.fdr:g}"):
        assert " ".join(sentence.split()) in page.words, sentence
    assert len(page.svgs) == 1 + (selection.estimate is not None)


@pytest.mark.parametrize("kind", ["moments", "groups", "products", "none", "nothing", "knockoffs"])
def test_the_table_is_what_the_selection_holds(kind):
    selection = made(kind)
    rows = re.findall(r'<tr class="(selected|other|part)">(.*?)</tr>', page_of(kind))
    cells = [(row, re.findall(r"<td[^>]*>(.*?)</td>", inside)) for row, inside in rows]
    variables = {words[0]: (row, words) for row, words in cells if row != "part"}
    assert set(variables) == set(selection.names)
    assert {name for name, (row, _) in variables.items() if row == "selected"} == set(selection)
    for j, name in enumerate(selection.names):
        direction = {1: "up", -1: "down", 0: ""}[int(selection.signs[j])]
        assert variables[name][1][1:3] == [f"{selection.W[j]:.4g}", direction]
    if selection.estimate is None: return
    shown = {words[0]: words[-1] for _, words in cells}
    for row in selection.effects:
        assert shown[row.name] == interval_in_words(row.estimate, row.low, row.high)
    parts = {words[0] for row, words in cells if row == "part"}
    assert parts == {name for names in selection.release.groups.values() for name in names}


def test_selected_variables_come_first_and_the_rest_is_counted():
    wide, y, _ = linear_model(3000, p=120, k=20, amplitude=.5, random_state=0)
    selection = labels_filter(wide, y, epsilon=9.0, delta=1e-5, response_bound=7.0, sigma=1.0, **TRIAL)
    page = _report_html(selection)
    rows = re.findall(r'<tr class="(selected|other)">', page)
    assert len(rows) == 40 and rows == sorted(rows, reverse=True) and rows.count("selected") == len(selection)
    assert "80 more are not shown" in page and "and 60 more" in page  # of the table, and of the names
    assert "The 30 largest of 120" in page and "and 80 more, with larger" in checked(page).svgs[0]


def test_the_pictures_name_what_is_drawn():
    effects, statistics = read_of("groups").svgs
    for label in ("pair: column 0", "three: column 7", "column 11"): assert f">{label}</text>" in effects
    for label in made("groups").names: assert f">{label}</text>" in statistics
    assert all("simulation: NOT private" in svg for svg in (effects, statistics))
    assert not any("simulation" in svg for svg in read_of("moments").svgs)


@pytest.mark.parametrize("kind", MAKE)
def test_a_simulation_cannot_be_overlooked(kind):
    selection, page = made(kind), page_of(kind)
    banners = re.findall(r'<p class="banner[^"]*"[^>]*>(.*?)</p>', page)
    body = page[page.index("<body>") + 6:].lstrip()
    title = re.search("<title>(.*?)</title>", page)[1]
    if selection.release.simulated:
        assert len(banners) == 2 and all(SIMULATION.replace("'", "&#x27;") in banner for banner in banners)
        assert body.startswith('<p class="banner"') and title == "Simulation, NOT private: A title"
        assert "@top-center" in page and "nothing was, for this is a simulation" in page
    else:
        assert title == "A title" and "Simulation" not in page and "@top-center" not in page
        said = {"none": "Not private: this page reveals the data.", "one": "Not differentially private",
                "two": "Not differentially private"}.get(kind)
        assert len(banners) == 2 * bool(said) and all(banner.startswith(said) for banner in banners)
        assert ("In plain words" in page) == (said is None)


def test_what_was_spent_and_what_must_be_public():
    words = read_of("moments").words
    release = made("moments").release
    for fact in ("Epsilon 2", "Delta 1e-05", f"Rounds {release.rounds}", "Rows per person 1",
                 release.sampler, release.ids[0],
                 f"Noise on products {release.noise['products']:.4g}",
                 f"Noise on Gram matrix {release.noise['Gram matrix']:.4g}",
                 "row bound 2.5", "response bound 6", "centre of the response 0",
                 "everybody who has one row"):
        assert fact in words, fact
    several = moments_filter(TABLE, Y, **MOMENTS, rows_per_person=3, **TRIAL,
                             ranges={name: (-2, 3) for name in NAMES[:2]})
    words = read(several).words
    assert "Rows per person 3" in words and "everybody who has at most 3 rows" in words
    assert "ranges column 0 -2 to 3, column 1 -2 to 3" in words
    ridge = Statistic("ridge", "lcd", 1.0)
    known = read(select(several.release, sigma=1.25, rule=KnockoffPlus(statistic=ridge)))
    assert "noise level sigma 1.25" in known.words
    assert "sigma=1.25, " in known.words and "statistic=Statistic(" in known.words
    labels = read_of("labels").words
    assert "noise level sigma 1" in labels and "response bound not kept in the release" in labels
    assert "all columns but the response not protected" in labels and "one response in the data" in labels
    assert "distribution of the rows Levels(" in read_of("products").words
    exact = read_of("none").words
    assert "no noise was added" in exact and "must be public" not in exact


def test_the_diagnosis_is_told():
    nothing, page = made("nothing"), read_of("nothing")
    assert not len(nothing) and len(nothing.diagnosis)
    for finding in nothing.diagnosis:
        for part in finding[:3]: assert " ".join(part.split()) in page.words
    assert "That does not mean that no variable matters" in page.words
    assert "each by itself" in page.words and "misses the truth in 5 % of repetitions" in page.words
    assert "a promise for the selected alone" not in page.words


def test_the_ledger_entry_is_that_of_the_release(tmp_path):
    ledger = Ledger(tmp_path / "l.jsonl", epsilon=9.0, delta=1e-3)
    counted = moments_filter(TABLE, Y, **MOMENTS, **TRIAL, ledger=ledger)
    moments_filter(TABLE, Y, **MOMENTS | dict(epsilon=1.5), **TRIAL, ledger=ledger)
    first = ledger.entries[0]
    words = read(counted, ledger=str(ledger.path)).words
    assert first.time in words and "epsilon 2, delta 1e-05" in words and "epsilon 1.5" not in words
    assert f"mu {first.mu:.4g}" in words
    other = read(made("simulated"), ledger=ledger).words
    assert "the ledger has no entry with the number of this release" in other
    assert "Ledger" not in read(counted).words
    assert "is not a ledger" in refusal(_report_html, counted, ledger=3)


def code_of(kind):
    "The two blocks of code of a page"
    blocks = re.findall("<pre><code>(.*?)</code></pre>", page_of(kind), re.DOTALL)
    return [unescape(block) for block in blocks]


@pytest.mark.parametrize("kind", MAKE)
def test_the_call_that_is_shown_makes_such_a_selection(kind):
    "What is not kept is filled in; noise is another, question and constants are the same"
    selection, code = made(kind), code_of(kind)
    unkept = {"labels": dict(response_bound=6.0), "groups": dict(response_bound=6.0),
              "one": PAPER, "two": PAPER}.get(kind, {})
    call = code[0].replace("data, 'wage'", "data, y")
    for name, value in unkept.items(): call = call.replace(f"{name}=...", f"{name}={value!r}")
    assert ("=..." in call) == (kind == "products") and "..." not in call.replace("law=...", "")
    if kind == "products": return
    data = TABLE if kind != "nothing" else TABLE[NAMES[6:9]]
    space = {"data": data, "y": Y, "random_state": 0}
    exec(call, space)
    again = space["selection"]
    assert (again.method, again.rule, again.fdr) == (selection.method, selection.rule, selection.fdr)
    scale = next(iter(selection.release.noise), None)  # later ones may depend on the noise of a first round
    assert again.release.noise.get(scale) == pytest.approx(selection.release.noise.get(scale))
    assert again.names == selection.names
    assert again.release.simulated == selection.release.simulated and again.budget == selection.budget
    exec(code[1].split("selection.release.save")[0], {"selection": selection})


def test_selecting_again_is_shown_as_it_is_done(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in ("moments", "products", "labels"):
        python, _, shell = code_of(kind)[1].partition("# or, without Python:")
        exec(python, {"selection": made(kind)})
        assert bool(shell) == (tmp_path / "release.npz").exists() == (kind != "labels")
        (tmp_path / "release.npz").unlink(missing_ok=True)


def test_names_are_text_wherever_they_come_from():
    table = pd.DataFrame(X, columns=EVIL)
    groups = {"<script>g</script>": EVIL[:2]}
    ranges = {name: (-3.0, 3.0) for name in EVIL}
    selections = [moments_filter(table, Y, **MOMENTS, ranges=ranges, groups=groups, **TRIAL),
                  labels_filter(table, Y, **BUDGET, response_bound=6.0, sigma=1.0, groups=groups, **TRIAL),
                  products_filter(table, Y, **BUDGET, response_bound=6.0, **TRIAL,
                                  law=Gaussian(0, np.eye(12), names=EVIL)),
                  knockoff_filter(table, Y, random_state=0)]
    for selection in selections:
        page = read(selection, title="<script>t</script>", target="</title><script>r")
        for name in (*selection.names, "<script>t</script>", "</title><script>r"): assert name in page.words
        assert page.tags.count("img") == len(page.svgs) and page.tags.count("title") == 1


def test_line_breaks_in_names_stay_in_their_line():
    table = pd.DataFrame(X, columns=["a\nb", "tab\there", *NAMES[2:]])
    page = read(knockoff_filter(table, Y, random_state=0))
    assert "a\\nb" in page.words and "tab\\there" in page.words


@pytest.mark.parametrize("kind", ["moments", "groups", "products", "none"])
def test_the_same_bytes_every_time(kind, tmp_path):
    selection = made(kind)
    again = select(selection.release, fdr=selection.fdr, rule=selection.rule)
    written = write_report(again, tmp_path / "b.HTM", title="A title", target="wage").read_bytes()
    assert written.decode("utf-8") == page_of(kind) and b"\r" not in written


def test_a_report_reads_nothing_but_release_rule_and_rate():
    selection = made("simulated")
    loud = select(replace(selection.release, products=selection.release.products * 1.5))
    assert re.findall("<table>.*?</table>", _report_html(loud), re.DOTALL) != re.findall(
        "<table>.*?</table>", page_of("simulated"), re.DOTALL)  # the release is seen
    told = select(selection.release, fdr=.1)
    assert "at most 0.1" in read(told).words            # and the question


def test_a_report_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    place = tmp_path / "r.html"
    place.write_text("the old one")
    def fails(*args, **kwargs): raise KeyboardInterrupt
    with monkeypatch.context() as patch:
        patch.setattr("dp_knockoff.practice.report.plots.plot_selection", fails)
        with pytest.raises(KeyboardInterrupt): write_report(made("none"), place)
    assert place.read_text() == "the old one" and [path.name for path in tmp_path.iterdir()] == ["r.html"]
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fails)
        with pytest.raises(KeyboardInterrupt): write_report(made("none"), place)
    assert place.read_text() == "the old one" and [path.name for path in tmp_path.iterdir()] == ["r.html"]
    assert write_report(made("none"), place) == place and place.read_text().startswith("<!DOCTYPE html>")
    assert stat.S_ISREG(place.stat().st_mode)


def test_the_command_line_writes_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    TABLE.assign(wage=Y).to_csv("t.csv", index=False)
    facts = [f'[columns."{name}"]\nrange = [-6, 6]\n' for name in NAMES]
    Path("d.toml").write_text('target = "wage"\n' + "".join(facts))
    ledger = Ledger("l.jsonl", epsilon=9.0, delta=1e-3)
    asked = ["--epsilon", "2", "--delta", "1e-5", "--row-bound", "2.5", "--response-bound", "6"]
    for told in (["--target", "wage"], ["--dictionary", "d.toml"]):
        assert main(["select", "t.csv", *told, *asked, "--ledger", "l.jsonl", "--out", "r.HTML",
                     "--save-release", "r.npz"]) == 0
        page = checked(Path("r.HTML").read_text(encoding="utf-8"))
        assert "Target wage" in page.words and ledger.entries[-1].time in page.words
    assert main(["select", "r.npz", "--fdr", "0.1", "--out", "again.html"]) == 0
    again = _report_html(select(PrivateMoments.load("r.npz"), fdr=.1))
    assert Path("again.html").read_text(encoding="utf-8") == again
    assert main(["select", "r.npz", "--out", "no/r.html"]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_refused(tmp_path):
    for name in ("r.txt", "r", "r.html.gz"):
        assert "does not end in .html" in refusal(write_report, made("none"), tmp_path / name)
    assert "does not exist" in refusal(_check_report, tmp_path / "no" / "r.html")
    release = made("moments").release
    assert "selection is a PrivateMoments" in refusal(write_report, release, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_citations_are_those_of_the_citation_file():
    words = read_of("none").words
    facts = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    for field in ("title", "version", "license", "name", "family-names", "given-names", "year"):
        values = re.findall(rf"(?m)^\s*(?:- )?{field}: \"?(.*?)\"?$", facts)
        assert values
        for value in values: assert value in words, value
    assert f"Version {dp_knockoff.__version__}." in words


def test_a_method_of_ones_own_gets_a_report():
    selection = made("none")
    class Own(type(selection.release)): method = "own"
    own = replace(selection, release=Own(**vars(selection.release)))
    words = read(own).words
    assert "Method own" in words and "select(method.release(data, y), fdr=0.2)" in words
