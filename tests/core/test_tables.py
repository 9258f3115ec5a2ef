"Tables: text, HTML, frames and pictures, whatever the names of columns are."
import builtins
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from dp_knockoff.core.tables import Table, one_line, svg_rows
from dp_knockoff.core.testing import refusal

ODD = ["<b>", "</td><td>", '" onload="x', "'", "&lt;", "<!--", "a\nb", "\x1b[31m", "\x00", "年収", "e\u0301",
       "]]>"]


class Page(HTMLParser):
    "The tags of a page, with their attributes, and its text"

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs): self.tags.append((tag, dict(attrs)))
    def handle_comment(self, data): self.tags.append(("comment", {}))
    def handle_data(self, data): self.text += data


def test_the_text_is_aligned_numbers_to_the_right():
    table = Table(["name", "size", "ok"], [("a", 1.23456, True), ("long", -2.0, False)], note="A note.")
    assert repr(table).split("\n") == ["name   size  ok", "a     1.235  yes", "long     -2", "A note."]
    assert repr(Table(["a"], [])) == "a" and len(table) == 2 and list(table)[0][0] == "a"


def test_formats_are_those_of_a_column():
    table = Table(["z", "p"], [(1.0, 1e-9)], formats={"z": ".2f"})
    assert repr(table).split("\n")[1].split() == ["1.00", "1e-09"]


def test_missing_values_are_empty_and_whole_numbers_whole():
    text = repr(Table(["a", "b", "c"], [(None, np.nan, 12345678), ("x", 1.5, np.int64(3))])).split("\n")
    assert text[1].split() == ["12345678"] and text[2].split() == ["x", "1.5", "3"]
    assert repr(Table(["ok"], [(np.True_,), (np.False_,)])).split("\n") == ["ok", "yes", ""]


def test_wide_letters_and_accents_are_aligned_by_places():
    lines = repr(Table(["n", "x"], [("年収", 1), ("e\u0301", 2), ("abcd", 3)])).split("\n")
    assert lines == ["n     x", "年収  1", "e\u0301     2", "abcd  3"]


def test_a_row_has_a_cell_a_column():
    assert "2 cells for 1 columns" in refusal(Table, ["a"], [(1, 2)])


@pytest.mark.parametrize("name", ODD)
def test_no_name_leaves_its_cell(name):
    odd, plain = (Page(Table([n, "x"], [(n, 1.0)], note=n)._repr_html_()) for n in (name, "harmless"))
    assert odd.tags == plain.tags and odd.text == f"{one_line(name)}x{one_line(name)}1{one_line(name)}"
    text = repr(Table([name], [(name,)], note=name))
    assert len(text.split("\n")) == 3 and text.replace("\n", "").isprintable()


def test_html_has_numbers_to_the_right_and_no_colours_of_its_own():
    page = Page(Table(["name", "x"], [("a", 1.0)])._repr_html_())
    sides = [tag[1]["style"].rpartition(":")[2] for tag in page.tags if tag[0] in ("th", "td")]
    assert sides == ["left", "right"] * 2
    assert not any(word in tag[1].get("style", "") for tag in page.tags for word in ("color:", "background"))


def test_frames_keep_numbers():
    table = Table(["name", "x"], [("a", 1 / 3), ("b", None)])
    pandas, polars = table.to_frame(), table.to_frame("polars")
    assert type(pandas).__module__.startswith("pandas") and type(polars).__module__.startswith("polars")
    assert pandas["x"][0] == polars["x"][0] == 1 / 3 and np.isnan(pandas["x"][1]) and polars["x"][1] is None
    assert list(Table(["a", "b"], []).to_frame().columns) == ["a", "b"]


def test_frames_without_the_library_are_a_sentence(monkeypatch):
    real = builtins.__import__
    def without(*missing):
        def load(name, *args, **kwargs):
            if name.split(".")[0] in missing: raise ImportError(name)
            return real(name, *args, **kwargs)
        return load
    table = Table(["a"], [(1,)])
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without("pandas"))
        assert type(table.to_frame()).__module__.startswith("polars")
        assert refusal(table.to_frame, "pandas").startswith("a frame needs pandas, which is not installed")
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without("pandas", "polars"))
        assert "pandas or polars, and neither is installed" in refusal(table.to_frame)
    assert "library='excel'" in refusal(table.to_frame, "excel")


def parts(svg, kind):
    "The parts of a picture of one kind"
    return [part for part in ElementTree.fromstring(svg).iter() if part.tag.endswith("}" + kind)]


def test_a_forest_has_a_line_and_a_dot_a_row_at_their_places():
    svg = svg_rows(["a", "b"], [-1.0, 2.0], [1.0, 6.0], [0.0, 4.0], "effects")
    lines, dots = parts(svg, "rect"), parts(svg, "circle")
    zero = float(parts(svg, "line")[0].get("x1"))
    assert len(lines) == len(dots) == 2 and float(dots[0].get("cx")) == pytest.approx(zero, abs=.1)
    unit = float(lines[0].get("width")) / 2
    assert float(dots[1].get("cx")) == pytest.approx(zero + 4 * unit, abs=.2)
    assert float(lines[1].get("x")) == pytest.approx(zero + 2 * unit, abs=.2)
    assert {part.text for part in parts(svg, "text")} >= {"a", "b", "-1", "0", "6", "effects"}


def test_bars_below_zero_are_lighter():
    svg = svg_rows(["a", "b"], [0, -3.0], [2.0, 0])
    assert not parts(svg, "circle")
    up, down = (float(part.get("fill-opacity")) for part in parts(svg, "rect"))
    assert down < up and "currentColor" in svg


@pytest.mark.parametrize("name", ODD)
def test_no_name_breaks_a_picture(name):
    texts = [part.text for part in parts(svg_rows([name], [0], [1], title=name), "text")]
    assert texts[0] == one_line(name) and len(texts) == 4
    assert len(parts(svg_rows(["x" * 99], [0], [0]), "text")[0].text) == 24  # and a picture of nothing
