"""The site in a real browser: every page, wide and narrow, light and dark, and the search.

Needs the site (`python tools/build_docs.py`), Playwright (`pip install '.[docs]'`) and the system's Chromium;
it is skipped where one of them is missing. Nothing is loaded from the network.
"""
import os
import re
import shutil
import threading
from functools import cache, partial
from html import unescape
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urldefrag, urljoin

import pytest

import build_docs
import notebooks as nbs
import tags

SITE = build_docs.BUILD / "html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
WIDTHS = (1400, 400)
CONTRAST = 4.5  # the least that the guidelines for accessible pages ask for
GENERATED = {"search.html", "genindex.html", "py-modindex.html"}
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.glob("**/*.html"))

if not PAGES: pytest.skip("the site is not built: run `python tools/build_docs.py`", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is missing: pip install '.[docs]'")
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
if not CHROMIUM: pytest.skip("there is no Chromium on this system", allow_module_level=True)

READY = """() => document.readyState === "complete"
  && (!window.MathJax || MathJax.startup.promise.then(() => true))"""

SETTLED = """() => new Promise(
  done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 20))))"""

# What stays text although it should be mathematics, and mathematics that went wrong
MATHEMATICS = r"""() => {
  const errors = document.querySelectorAll("mjx-merror, [data-mjx-error]");
  const bad = [...errors].map(e => "error: " + e.textContent);
  for (const e of document.querySelectorAll(".math"))
    if (!e.querySelector("mjx-container")) bad.push("not rendered: " + e.textContent.slice(0, 60));
  const walk = document.createTreeWalker(document.querySelector("article"), NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const node = walk.currentNode;
    if (/\$[^$]+\$|\$\$|\\tag\{|\]\{\./.test(node.data)
        && !node.parentElement.closest("pre, code, script, style, mjx-container, .cell_output"))
      bad.push("raw: " + node.data.trim().slice(0, 60));
  }
  return bad;
}"""

# What cannot be seen: the page is wider than the window, something sticks out of the text column without a
# scrollbar of its own, or is cut off
CUT = r"""() => {
  const bad = [], root = document.documentElement, article = document.querySelector("article");
  if (root.scrollWidth > window.innerWidth + 1) bad.push(`the page is ${root.scrollWidth} wide`);
  const scrolls = e => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const edge = article.closest(".content, main").getBoundingClientRect().right + 1;
  const seen = "pre, table, img, svg, div.math, mjx-container, p, li, dt, dd, h1, h2, h3, summary, code";
  for (const e of article.querySelectorAll(seen)) {
    if (e.closest("mjx-assistive-mml, .visually-hidden") || !e.getClientRects().length) continue;
    if (e.matches("mjx-container *")) continue;
    const name = e.tagName.toLowerCase() + ": " + e.textContent.trim().slice(0, 50);
    let box = e;
    while (box !== article && !scrolls(box)) {
      const style = getComputedStyle(box);
      if (["hidden", "clip"].includes(style.overflowX) && box.scrollWidth > box.clientWidth + 1)
        bad.push("cut off: " + name);
      box = box.parentElement;
    }
    if (box === article && e.getBoundingClientRect().right > edge) bad.push("sticks out: " + name);
  }
  return [...new Set(bad)];
}"""

# Boxes whose text is hard to tell from what is behind it
FAINT = r"""least => {
  const rgba = text => (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, k) => sum + v * [.2126, .7152, .0722][k], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const boxes = `.statement .admonition-title, .statement p, .statement a, .mark, .statement-foot, .proof p,
                 .cell-note`;
  for (const e of document.querySelectorAll(boxes)) {
    const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + .05) / (b + .05);
    const name = `${e.className || e.tagName} ${e.textContent.slice(0, 40)}`;
    if (ratio < least) bad.push(`${ratio.toFixed(2)}: ${name}`);
  }
  return [...new Set(bad)];
}"""

BARE_TABLES = """() => [...document.querySelectorAll("article table")]
  .filter(t => getComputedStyle(t.querySelector("td, th")).paddingLeft === "0px"
               || getComputedStyle(t).borderCollapse !== "collapse")
  .map(t => t.textContent.trim().slice(0, 60))"""

# The sidebar shows where one is: one open part, and the page's own line, in sight
LOST = """() => {
  const here = document.querySelector("nav.parts [aria-current]");
  const open = document.querySelectorAll("nav.parts details[open]");
  const bad = open.length === 1 ? [] : [`${open.length} parts are open`];
  if (!here) return location.pathname.includes("/reference/") ? bad : [...bad, "no current page"];
  const box = here.getBoundingClientRect();
  const seen = box.top >= 0 && box.bottom <= window.innerHeight;
  return seen ? bad : [...bad, "the current page is out of sight"];
}"""

# What scrolls sideways says so by fading
NO_CUE = """() => [...document.querySelectorAll("article *")]
  .filter(e => e.clientWidth && e.getClientRects().length
    && ["auto", "scroll"].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth + 2
    && getComputedStyle(e).maskImage === "none")
  .map(e => `no cue: ${e.tagName.toLowerCase()}.${e.className} ${e.textContent.trim().slice(0, 40)}`)"""

# Lines of text that are longer than one reads with ease: in paragraphs of three lines, without mathematics
LONG_LINES = """most => [...document.querySelectorAll("article p")]
  .filter(e => !e.querySelector(".math, br") && !e.closest("td, th, dl, .hero"))
  .map(e => [e, Math.round(e.clientHeight / parseFloat(getComputedStyle(e).lineHeight))])
  .filter(([e, lines]) => lines > 2 && e.textContent.length / lines > most)
  .map(([e, lines]) => [e, e.textContent.length / lines])
  .map(([e, mean]) => `${mean.toFixed(0)} characters a line: ${e.textContent.slice(0, 40)}`)"""

# Large light areas on a dark page
SLABS = r"""() => {
  const light = e => (getComputedStyle(e).backgroundColor.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
  const bad = [];
  for (const e of document.querySelectorAll("body, article, article *:not(img)")) {
    const [r, g, b, a = 1] = light(e), box = e.getBoundingClientRect();
    const large = box.width * box.height > 4000;
    if (a > .5 && r + g + b > 450 && large) bad.push(`light: ${e.tagName} ${e.className}`);
  }
  for (const e of document.querySelectorAll("article img"))
    if (!getComputedStyle(e).filter.includes("invert")) bad.push("a white picture: " + e.alt);
  return bad;
}"""

NO_ALT = """() => [...document.querySelectorAll("img")]
  .filter(e => (e.alt || "").trim().split(" ").length < 3)
  .map(e => e.src)"""

LINE = 80  # characters on average, at most: about 73 are aimed at, and fonts differ
GIVEN_UP = "/favicon.svg", "net::ERR_ABORTED"  # the icon, by a browser that went on to another page


class Quiet(SimpleHTTPRequestHandler):
    "Serves the site, saying nothing"
    def log_message(self, *args): pass


@pytest.fixture(scope="module")
def address():
    "The site on a port of this machine"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=SITE)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser, address):
    "A window whose complaints are collected: `page.complaints`"
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": 1000}, color_scheme="light")
    page.complaints = said = []
    page.on("console", lambda message: message.type in ("error", "warning") and said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda request: not (request.url.endswith(GIVEN_UP[0])
            and request.failure == GIVEN_UP[1]) and said.append(f"failed: {request.url}"))
    page.on("response", lambda response: response.status >= 400 and said.append(f"missing: {response.url}"))
    page.on("request", lambda request: not request.url.startswith((address, "data:", "blob:"))
            and said.append(f"asks the network for {request.url}"))
    yield page
    page.close()


def opened(page, url):
    "A page when its mathematics is there"
    page.goto(url)
    page.wait_for_function(READY)
    return page


@pytest.mark.parametrize("name", [name for name in PAGES if name not in GENERATED])
def test_page(page, address, name):
    opened(page, address + name)
    found = {"mathematics": page.evaluate(MATHEMATICS), "tables": page.evaluate(BARE_TABLES),
             "sidebar": page.evaluate(LOST), "lines": page.evaluate(LONG_LINES, LINE),
             "alternative texts": page.evaluate(NO_ALT)}
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found[scheme] = page.evaluate(FAINT, CONTRAST)
    found["slabs"] = page.evaluate(SLABS)
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 1000})
        page.evaluate(SETTLED)
        found[f"{width} pixels"] = page.evaluate(CUT) + page.evaluate(NO_CUE)
    found["browser"] = page.complaints
    assert not (wrong := {what: texts[:9] for what, texts in found.items() if texts}), wrong


@pytest.mark.parametrize("query", ["Lemma 1", "Theorem 5", "equation (8)", "private_filter"])
def test_the_search_finds_first(page, address, query):
    places = {one.label.lower(): f"{one.page}.html#{one.id}" for one in tags.read(nbs.books())}
    names = {"private_filter": "reference/filters.methods.html#dp_knockoff.filters.methods.private_filter"}
    opened(page, address + "search.html")
    page.locator("input[name=q]").last.fill(query)
    page.keyboard.press("Enter")
    first = page.locator("ul.search li a").first
    first.wait_for()
    assert first.get_attribute("href").split("?")[0].endswith(names.get(query) or places[query.lower()])
    assert not page.complaints


RANK = """([query, page]) => {
  const found = Search._performSearch(...Search._parseQuery(query)).reverse().map(result => result[0]);
  return found.indexOf(page) + 1;
}"""
SUBJECTS = {  # what a reader types -> the page that is about it, by its notebook's name
    "sensitivity": "sensitivity", "threshold": "threshold", "knockoff": "fixed_x", "errata": "errata",
    "moments filter": "moments_method", "products filter": "products_method",
    "privacy budget": "two_promises", "epsilon": "mechanisms", "gaussian mechanism": "mechanisms",
    "ledger": "ledger", "audit": "audit",
    "command line": "cli", "scikit-learn": "selector", "dictionary": "dictionary", "p-value": "inference",
    "confidence interval": "inference", "label privacy": "labels_method", "rivals": "rivals",
    "false discovery rate": "threshold", "real data": "flights", "bibliography": "bibliography",
    "install": "index", "map of the paper": "map"}


def test_the_search_finds_the_page_on_a_subject_first(page, address):
    opened(page, address + "search.html")
    page.wait_for_function("() => typeof Search !== 'undefined' && Search.hasIndex()")
    stems = {nbs.name_of(path.stem): path.stem for path in nbs.paths()}
    ranks = {query: page.evaluate(RANK, [query, stems.get(name, name)]) for query, name in SUBJECTS.items()}
    print(ranks)
    assert len(ranks) >= 20 and set(ranks.values()) == {1}, ranks


def test_the_lines_under_a_result_are_prose(page, address):
    opened(page, address + "search.html?q=threshold")
    page.wait_for_selector("ul.search li p.context")
    texts = page.locator("ul.search li p.context").all_text_contents()[:3]
    assert texts and not [text for text in texts if "import " in text or "def " in text or "\\(" in text]


def test_home_is_one_screen(page, address):
    opened(page, address + "index.html")
    page.set_viewport_size({"width": 1400, "height": 860})
    page.evaluate(SETTLED)
    bottom = page.evaluate("() => Math.max(...[...document.querySelectorAll('.entry')]"
                           ".map(e => e.getBoundingClientRect().bottom))")
    assert page.locator(".entry").count() == 3 and page.locator(".picture img").count() == 1
    assert 300 < bottom <= 860


def test_a_link_to_code_opens_it(page, address):
    opened(page, address + "reference/knockoffs.threshold.html")
    page.locator("article a", has_text="code").first.click()
    page.wait_for_function(READY)
    page.evaluate(SETTLED)
    assert page.evaluate("() => document.querySelectorAll('details.exported[open]').length") == 1


def test_a_link_to_a_statement_leads_there(page, address):
    opened(page, address + "map.html")
    page.locator("article table a[href*='#']").first.click()
    page.wait_for_function(READY)
    assert page.evaluate("() => document.querySelector(':target') !== null")


# The checks fire


@pytest.mark.parametrize("script, html, said", [
    (MATHEMATICS, "<p>so $x$ is</p>", "raw"), (MATHEMATICS, "<span class=math>x</span>", "not rendered"),
    (MATHEMATICS, "<p>x<mjx-merror>bad</mjx-merror></p>", "error"),
    (MATHEMATICS, "<p>costs $5 <code>$x$</code></p>", ""),
    (CUT, "<pre style='width: 3000px'>x</pre>", "wide"),
    (CUT, "<pre style='overflow: auto'><b>x</b></pre>", ""),
    (CUT, "<div style='overflow: auto'><table style='width: 3000px'><td>x</table></div>", ""),
    (CUT, "<div style='overflow: hidden'><p style='width: 3000px'>x</p></div>", "cut off"),
    (BARE_TABLES, "<table><td style='padding: 0'>x</table>", "x"),
    (BARE_TABLES, "<table style='border-collapse: collapse'><td style='padding: 2px'>x</table>", ""),
    (LOST, "<nav class=parts><details open>x</details></nav>", "no current"),
    (LOST, "<nav class=parts><details open><a aria-current=page>x</a></details></nav>", ""),
    (LOST, "<nav class=parts><details><a aria-current=page>x</a></details></nav>", "0 parts"),
    (NO_CUE, "<div style='overflow: auto; width: 9em'><p style='width: 99em'>x</div>", "no cue"),
    (NO_CUE, "<div style='overflow: auto; width: 9em; mask-image: linear-gradient(red, red)'>"
             "<p style='width: 99em'>x</div>", ""),
    (LONG_LINES, f"<p style='font-size: 8px; line-height: 9px'>{'word and ' * 200}</p>", "characters a line"),
    (LONG_LINES, f"<p style='width: 30em; line-height: 1.1'>{'word and ' * 200}</p>", ""),
    (SLABS, "<div style='background: #eee; width: 900px; height: 90px'>x</div>", "light: DIV"),
    (SLABS, "<img alt='x y z'>", "white picture"), (SLABS, "<img style='filter: invert(.9)'>", ""),
    (NO_ALT, "<img src=x.png alt=picture>", "x.png"),
    (NO_ALT, "<img src=x.png alt='a curve that rises'>", ""),
    (FAINT, "<p class=mark style='color: #bbb'>x</p>", "mark"), (FAINT, "<p class=mark>x</p>", ""),
])
def test_the_checks_of_a_page_fire(page, script, html, said):
    page.set_content(f"<!doctype html><main><article>{html}</article></main>")
    wrong = page.evaluate(script, {FAINT: CONTRAST, LONG_LINES: LINE}.get(script))
    assert any(said in text for text in wrong) if said else not wrong


def test_complaints_of_the_browser_are_heard(page, address):
    page.goto(address + "index.html")
    page.evaluate("() => console.error('an error')")
    page.evaluate("() => fetch('nowhere.txt')")
    with page.expect_request("http://192.0.2.1/**"):  # an address for examples: nobody answers
        page.evaluate("() => { fetch('http://192.0.2.1/x').catch(() => 0); }")
    said = " ".join(page.complaints)
    assert "an error" in said and "missing" in said and "asks the network" in said


# Links, without a browser


HREF, ID = re.compile(r'<a\b[^>]*?\bhref="([^"]*)"'), re.compile(r'\bid="([^"]*)"')


@cache
def ids(name):
    "Everything that a link to a page can mean"
    return {unescape(found) for found in ID.findall((SITE / name).read_text(encoding="utf-8"))}


def broken(name, href):
    "Why an internal link of a page leads nowhere, or nothing"
    target, fragment = urldefrag(unescape(href))
    if re.match(r"[a-z]+:", target): return ""
    path = unquote(urljoin(f"/{name}", target)).lstrip("/") if target else name
    if not (SITE / path).is_file(): return f"{name} links {href}, which does not exist"
    missing = fragment and path.endswith(".html") and unquote(fragment) not in ids(path)
    return f"{name} links {href}, which is not there" if missing else ""


def test_links_lead_somewhere():
    texts = {name: (SITE / name).read_text(encoding="utf-8") for name in PAGES}
    links = {(name, href) for name, text in texts.items() for href in HREF.findall(text)}
    wrong = sorted(filter(None, (broken(name, href) for name, href in links)))
    assert len(links) > 1000 and not wrong, "\n".join(wrong[:20])


def test_broken_links_are_seen():
    for href in ("map.html", "https://doi.org/10.1214/15-AOS1337"): assert not broken("index.html", href)
    for name, href in (("index.html", "nowhere.html"), ("reference/index.html", "map.html")):
        assert "not exist" in broken(name, href)
    for href in ("map.html#no", "#no"): assert "not there" in broken("index.html", href)


def test_every_notebook_can_be_downloaded():
    for stem in nbs.books():
        text = (SITE / f"{stem}.html").read_text(encoding="utf-8")
        assert stem == "index" or re.search(rf'href="_downloads/\w+/{stem}\.ipynb"', text), stem


NEXT, TITLE = re.compile(r'<link rel="next"[^>]*href="([^"]+)"'), re.compile(r"<h1>(.*?)<", re.DOTALL)


def test_next_follows_the_book():
    def follows(name): return NEXT.search((SITE / name).read_text(encoding="utf-8"))[1]
    chapters = [path.stem for path in nbs.paths() if re.match(r"\d\d_", path.stem)]
    assert len(chapters) > 20 and follows("index.html") == f"{chapters[0]}.html"
    assert [follows(f"{stem}.html") for stem in chapters[:-1]] == [f"{stem}.html" for stem in chapters[1:]]


def test_titles_have_the_numbers_of_their_chapters():
    for stem in (path.stem for path in nbs.paths() if nbs.number_of(path.stem)):
        title = TITLE.search((SITE / f"{stem}.html").read_text(encoding="utf-8"))[1]
        assert title.startswith(f"{nbs.number_of(stem).lstrip('0').upper()}. "), title


def test_code_of_the_module_is_folded():
    folded = 0
    for stem, book in nbs.books().items():
        if stem == "index": continue
        cells = [cell for cell in book["cells"] if nbs.has(cell, *nbs.EXPORTED) and nbs.is_shown(cell)
                 and not build_docs.only_imports(cell)]
        text = (SITE / f"{stem}.html").read_text(encoding="utf-8")
        folds = text.count('<details class="source exported">') + text.count("Code of the module: show")
        assert folds == len(cells), stem
        folded += folds
    assert folded > 300
