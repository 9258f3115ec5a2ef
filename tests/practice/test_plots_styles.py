"One line, one marker and one shade a method, of which a grey printer leaves enough."
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from dp_knockoff.filters.methods import METHODS
from dp_knockoff.practice.plots import RIVAL_STYLES, STYLES, draw_curve, mark_rate, variants_of


def grey(color): return float(np.dot(to_rgb(color), (.299, .587, .114)))


def test_every_method_has_its_style():
    assert set(STYLES) == set(METHODS)
    for part in zip(*STYLES.values()): assert len(set(part)) == len(STYLES)
    assert [style.label for style in STYLES.values()] == [
        "no privacy", "Method I", "Method II", "moments filter", "labels filter", "products filter",
        "tests with a public distribution"]


def test_rivals_are_lighter_and_have_markers_of_their_own():
    ours, theirs = ([grey(s.color) for s in styles.values()] for styles in (STYLES, RIVAL_STYLES))
    assert max(ours) < min(theirs) and max(theirs) < .75
    markers = [style.marker for style in (*STYLES.values(), *RIVAL_STYLES.values())]
    assert len(set(markers)) == len(markers)
    assert all(len(set(to_rgb(style.color))) == 1 for style in RIVAL_STYLES.values())  # grey
    assert sum(len(set(to_rgb(style.color))) == 1 for style in STYLES.values()) == 1


@pytest.mark.parametrize("label, shown", [("", "moments filter"), ("p = 5", "p = 5")])
def test_a_curve_has_a_band_of_two_standard_errors_within_shares(label, shown):
    ax = Figure().subplots()
    draw_curve(ax, [1, 2, 3], [.5, .01, .99], [.1, .1, .1], STYLES["moments"], label)
    line, band = ax.lines[0], ax.collections[0].get_paths()[0].vertices
    assert line.get_label() == shown and line.get_marker() == "D" and line.get_color() == "#0072b2"
    assert np.allclose(line.get_xydata(), [[1, .5], [2, .01], [3, .99]])
    for x, low, high in ((1, .3, .7), (2, 0, .21), (3, .79, 1)):
        at = band[band[:, 0] == x, 1]
        assert np.isclose(at.min(), low) and np.isclose(at.max(), high)


def test_the_rate_is_marked():
    ax = Figure().subplots()
    mark_rate(ax, .1)
    assert ax.lines[0].get_ydata()[0] == .1 and ax.texts[0].get_text() == " q = 0.1"


def test_variants_of_a_method_share_its_colour_and_nothing_else():
    styles = variants_of("products", "abcde")
    assert [style.label for style in styles] == list("abcde")
    assert {style.color for style in styles} == {STYLES["products"].color}
    assert len({style.line for style in styles}) == len({style.marker for style in styles}) == 5
    with pytest.raises(AssertionError): variants_of("products", "abcdef")
