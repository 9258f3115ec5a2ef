"Pictures draw what a selection holds, each release its own noise, and are written whole or not at all."
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from dp_knockoff.filter import knockoff_filter
from dp_knockoff.laws import Gaussian
from dp_knockoff.method_labels import labels_filter
from dp_knockoff.method_moments import moments_filter
from dp_knockoff.method_one import filter_one
from dp_knockoff.method_products import products_filter
from dp_knockoff.method_two import filter_two
from dp_knockoff.methods import METHODS
from dp_knockoff.models import linear_model
from dp_knockoff.moments import Moments
from dp_knockoff.plots import STYLES, check_picture, plot_curves, plot_noise, plot_selection, save_figure
from dp_knockoff.selection import select
from dp_knockoff.simulation import Point
from dp_knockoff.testing import refusal

matplotlib.use("agg")
BUDGET = dict(epsilon=.9, delta=.05, simulation=True, random_state=0)
PAPER = dict(**BUDGET, row_bound=8.0, sigma=1.0, beta_norm=3.0)
X, Y, BETA = linear_model(4000, p=12, k=6, amplitude=1.0, random_signs=True, random_state=0)


def axes(): return Figure().subplots()


def dashed(ax): return [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]


def markers(ax): return [line for line in ax.lines if line.get_marker() in ("^", "v", "o")]


def heights(ax): return np.sort(np.concatenate([line.get_ydata() for line in markers(ax)]))


@pytest.fixture(scope="module")
def private(): return moments_filter(X, Y, **BUDGET, row_bound=2.5, response_bound=6.0, intercept=False)


def test_a_selection_is_drawn_as_it_is():
    selection = knockoff_filter(X, Y, random_state=0)
    ax = axes()
    assert plot_selection(selection, ax) is ax
    assert np.array_equal(heights(ax), np.sort(selection.W))
    assert dashed(ax) == [selection.threshold, -selection.threshold]
    assert ax.get_title() == f"{len(selection)} of 12 selected at FDR 0.2"
    shape = {(line.get_marker(), line.get_markerfacecolor()): len(line.get_ydata()) for line in markers(ax)}
    for sign, marker in ((1, "^"), (-1, "v")):
        for chosen, color in ((True, "black"), (False, "white")):
            here = int(((selection.signs == sign) & (selection.support == chosen)).sum())
            assert shape.get((marker, color), 0) == here


def test_largest_first_and_at_most_so_many():
    selection = knockoff_filter(X, Y, random_state=0)
    ax = plot_selection(selection, axes(), most=5)
    order = np.argsort(-np.abs(selection.W), kind="stable")[:5]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [selection.names[j] for j in order]
    assert len(heights(ax)) == 5


def test_groups_are_drawn_by_their_names():
    groups = {"pair": ["x0", "x1"], "rest": ["x9", "x10", "x11"]}
    law = Gaussian(0, np.eye(12))
    private = products_filter(X, Y, law=law, **BUDGET, response_bound=6.0, groups=groups)
    for selection in (knockoff_filter(X, Y, groups=groups, random_state=0), private):
        ax = plot_selection(selection, axes())
        assert {tick.get_text() for tick in ax.get_xticklabels()} == set(selection.names)
        assert {"pair", "rest", "x2"} <= set(selection.names) and len(heights(ax)) == 9


def test_an_empty_selection_says_so():
    nothing = knockoff_filter(X[:, :3], Y, random_state=0)
    ax = plot_selection(nothing, axes())
    assert not len(nothing) and not dashed(ax) and "no threshold qualifies" in ax.get_title()


def test_a_variable_without_direction_has_a_round_marker():
    selection = replace(knockoff_filter(X, Y, random_state=0), signs=np.zeros(12, dtype=int))
    assert {line.get_marker() for line in markers(plot_selection(selection, axes()))} == {"o"}


def test_titles_of_simulations_say_that_they_are_not_private(private):
    said = "\nsimulation: NOT private"
    release = replace(private.release, simulated=False, sampler="OpenDP")  # as if it had been drawn by it
    for draw in (plot_selection, plot_noise):
        simulated = draw(private, axes()).get_title()
        assert simulated.endswith(said) and "sim" not in simulated[:-len(said)]
        assert draw(replace(private, release=release), axes()).get_title() == simulated[:-len(said)]
    paper = filter_one(X, Y, **PAPER)
    assert plot_selection(paper, axes()).get_title().endswith(said)
    assert "simulation" not in plot_selection(knockoff_filter(X, Y, random_state=0), axes()).get_title()


def test_tests_have_no_mirror_image(private):
    for tested in (private, select(private.release, rule="bh")):
        ax = plot_selection(tested, axes())
        assert len(tested) and dashed(ax) == [tested.threshold] and heights(ax).min() >= 0
        assert np.array_equal(heights(ax), np.sort(private.W)) and private.rule == "bh"
        assert ax.get_ylabel().startswith("|z|") and axes().get_ylabel() == ""
    mirrored = select(private.release, rule="knockoffs", fdr=.4)
    ax = plot_selection(mirrored, axes())
    assert len(mirrored) and dashed(ax) == [mirrored.threshold, -mirrored.threshold]
    assert ax.get_ylabel().startswith("W")


@pytest.mark.parametrize("rule, label", [("by", "|z|"), ("dbh", "|z|"), ("ebh", "e-value")])
@pytest.mark.parametrize("run, more", [(labels_filter, dict(sigma=1.0)),
                                       (moments_filter, dict(row_bound=3.0))])
def test_other_rules_have_a_label_and_at_most_one_line(run, more, rule, label):
    release = run(X, Y, epsilon=50.0, delta=.1, response_bound=9.0, **more,
                  simulation=True, random_state=0).release
    found = select(release, rule=rule, fdr=.4)
    ax = plot_selection(found, axes())
    assert len(found) and dashed(ax) == ([] if rule == "dbh" else [found.threshold])
    assert ax.get_ylabel().startswith(label) and ax.get_title().startswith(f"{len(found)} of 12 selected")


def test_noise_of_groups_is_that_of_all_their_columns():
    found = labels_filter(X, Y, epsilon=50.0, delta=.1, response_bound=9.0, sigma=1.0,
                          simulation=True, random_state=0, groups={"g": ["x0", "x1"], "h": ["x5", "x9"]})
    ax = plot_noise(found, axes())
    sizes = np.concatenate([line.get_ydata() for line in ax.lines if line.get_marker() == "o"])
    beta = found.estimate.beta[:12]
    wanted = [np.hypot(*beta[[0, 1]]), np.hypot(*beta[[5, 9]]), *np.abs(beta[[2, 3, 4, 6, 7, 8, 10, 11]])]
    assert np.allclose(np.sort(sizes), np.sort(wanted))


def test_names_with_dollars_are_no_formulas(tmp_path):
    names = [f"cost ${j}$" for j in range(12)]
    ax = plot_selection(knockoff_filter(Moments.from_data(X, Y, names), random_state=0), axes())
    assert all(r"\$" in tick.get_text() for tick in ax.get_xticklabels())
    save_figure(ax.figure, tmp_path / "a.png")


def test_too_many_names_are_left_out():
    wide, y, _ = linear_model(300, p=45, k=10, random_state=0)
    ax = plot_selection(knockoff_filter(wide, y, random_state=0), axes())
    assert not ax.get_xticklabels() and ax.get_xlabel() == "variables, by |W|" and len(heights(ax)) == 45


@pytest.mark.parametrize("estimating", ["moments", "labels"])
def test_noise_of_estimates_is_their_standard_deviation(private, estimating):
    selection = private
    if estimating == "labels":
        selection = labels_filter(X, Y, **BUDGET, response_bound=6.0, sigma=1.0)  # its intercept is not drawn
    e = selection.estimate
    size, sd = np.abs(e.beta[:12]), np.sqrt(np.diag(e.V)[:12])
    ax = plot_noise(selection, axes())
    assert np.allclose(heights(ax), np.sort(size))
    bars = sorted(bar.get_height() for bar in ax.patches)
    assert np.allclose(bars, np.sort(np.concatenate([sd, 2 * sd])))
    order = np.argsort(-size / sd, kind="stable")
    assert [tick.get_text() for tick in ax.get_xticklabels()] == [selection.names[j] for j in order]
    assert ax.get_title().startswith(f"{(size > 2 * sd).sum()} of 12 estimates")


def test_noise_of_method_two_is_that_of_its_coefficients():
    selection = filter_two(X, Y, **PAPER, bounds="coupled")
    ax = plot_noise(selection, axes())
    scale = selection.noise["coefficients"]
    assert {round(bar.get_height() / scale, 9) for bar in ax.patches} == {1.0, 2.0}
    assert np.allclose(heights(ax), np.sort(np.abs(selection.W)))


def test_where_there_is_no_estimate_there_is_a_sentence():
    for selection in (knockoff_filter(X, Y, random_state=0), filter_one(X, Y, **PAPER)):
        said = refusal(plot_noise, selection)
        assert f"method {selection.method!r}" in said and "'moments' or 'labels'" in said


def test_every_method_has_its_style():
    assert set(STYLES) == set(METHODS)
    for part in zip(*STYLES.values()): assert len(set(part)) == len(STYLES)
    assert [STYLES[word][0] for word in ("none", "one", "two", "moments", "labels", "products")] == [
        "no privacy", "Method I", "Method II", "moments filter", "labels filter", "products filter"]


@pytest.mark.parametrize("fdr, top", [(.1, .3), (.4, .6)])
def test_curves_and_their_bands(fdr, top):
    points = [Point(method, n, 10, .1 * k, .04, .05, .04) for method in STYLES
              for k, n in ((9, 10**5), (1, 10**4))]
    left, right = plot_curves(points, fdr, Figure().subplots(1, 2))
    for line, (label, _, marker) in zip(left.lines, STYLES.values()):
        assert line.get_label() == label and line.get_marker() == marker
        assert np.allclose(line.get_xydata(), [[10**4, .1], [10**5, .9]])       # sorted by size
    band = right.collections[0].get_paths()[0].vertices[:, 1]
    assert np.isclose(band.max(), .13) and band.min() == 0                      # never below 0
    assert right.get_ylim() == pytest.approx((0, top)) and right.lines[-1].get_ydata()[0] == fdr
    assert left.get_xscale() == right.get_xscale() == "log"


def test_new_axes_if_none_are_given(private):
    from matplotlib import pyplot as plt
    points = [Point("two", 10**4, 10, .5, .1, .1, .02)]
    drawn = [plot_selection(private), plot_noise(private), *plot_curves(points, .2)]
    assert len({id(ax) for ax in drawn}) == 4
    plt.close("all")


@pytest.mark.parametrize("name, start", [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")])
def test_pictures_are_written_whole(tmp_path, name, start):
    written = save_figure(Figure(), tmp_path / name)
    assert written.read_bytes().startswith(start) and [path.name for path in tmp_path.iterdir()] == [name]


def test_an_interrupted_picture_leaves_the_old_one(tmp_path):
    class Unfinished:
        def savefig(self, part, **how):
            part.write_bytes(b"half")
            raise KeyboardInterrupt
    place = tmp_path / "a.png"
    place.write_bytes(b"whole")
    with pytest.raises(KeyboardInterrupt): save_figure(Unfinished(), place)
    assert place.read_bytes() == b"whole" and list(tmp_path.iterdir()) == [place]


def test_refused_places(tmp_path):
    assert "no picture format" in refusal(check_picture, tmp_path / "a.docx")
    assert "does not exist" in refusal(save_figure, Figure(), tmp_path / "no" / "a.png")
    (tmp_path / "b.png").mkdir()
    assert "is a folder" in refusal(check_picture, tmp_path / "b.png")
