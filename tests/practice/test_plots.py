"Pictures draw what a selection holds, each release its own noise, and are written whole or not at all."
import re
import warnings
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from calls import filter_one, filter_two, labels_filter, moments_filter, products_filter
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.clip import INTERCEPT
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.evidence.simulation import Point
from dp_knockoff.filters.methods import knockoff_filter
from dp_knockoff.knockoffs.laws import Gaussian
from dp_knockoff.practice.plots import (
    STYLES,
    _plain_name,
    check_picture,
    figure_svg,
    interval_in_words,
    plot_curves,
    plot_effects,
    plot_noise,
    plot_selection,
    save_figure,
)
from dp_knockoff.selection.release import select

matplotlib.use("agg")
BUDGET = dict(epsilon=.9, delta=.05, simulation=True, random_state=0)
PAPER = dict(**BUDGET, row_bound=8.0, sigma=1.0, beta_norm=3.0)
X, Y, BETA = linear_model(4000, p=12, k=6, amplitude=1.0, random_signs=True, random_state=0)


def axes(): return Figure().subplots()


def decided(selection, **change):
    "The same selection with another decision"
    return replace(selection, decision=replace(selection.decision, **change))


def dashed(ax): return [line.get_ydata()[0] for line in ax.lines if line.get_linestyle() == "--"]


def markers(ax): return [line for line in ax.lines if line.get_marker() in ("^", "v", "o")]


def heights(ax): return np.sort(np.concatenate([line.get_ydata() for line in markers(ax)]))


@pytest.fixture(scope="module")
def private(): return moments_filter(X, Y, **BUDGET, row_bound=2.5, response_bound=6.0, intercept=False)


def test_a_rate_that_was_chosen_afterwards_is_called_a_level(private):
    found = select(private.release, fdr="any")
    said = f"{len(found)} of 12 selected at level {found.level:.3g}"
    for draw in (plot_selection, plot_effects): assert said in draw(found, axes()).get_title()


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
    selection = decided(knockoff_filter(X, Y, random_state=0), signs=np.zeros(12, dtype=int))
    assert {line.get_marker() for line in markers(plot_selection(selection, axes()))} == {"o"}


def test_titles_of_simulations_say_that_they_are_not_private(private):
    said = "\nsimulation: NOT private"
    release = replace(private.release, simulated=False, sampler="OpenDP")  # as if it had been drawn by it
    for draw in (plot_selection, plot_noise, plot_effects):
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
        assert np.array_equal(heights(ax), np.sort(private.W)) and private.rule.name == "bh"
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


def test_names_with_dollars_are_no_formulas(tmp_path):
    names = [f"cost ${j}$" for j in range(12)]
    ax = plot_selection(knockoff_filter(Moments.from_data(X, Y, names), random_state=0), axes())
    assert all(r"\$" in tick.get_text() for tick in ax.get_xticklabels())
    save_figure(ax.figure, tmp_path / "a.png")


def test_too_many_names_are_left_out():
    wide, y, _ = linear_model(300, p=45, k=10, random_state=0)
    ax = plot_selection(knockoff_filter(wide, y, random_state=0), axes())
    assert not ax.get_xticklabels() and ax.get_xlabel() == "variables, by |W|" and len(heights(ax)) == 45


def curve_points(methods):
    return [Point(method, n, 10, .1 * k, .04, .05, .04) for method in methods
            for k, n in ((9, 10**5), (1, 10**4))]


@pytest.mark.parametrize("fdr, top", [(.1, .3), (.4, .6)])
def test_curves_and_their_bands(fdr, top):
    left, right = plot_curves(curve_points(STYLES), fdr, Figure().subplots(1, 2))
    assert [line.get_label() for line in left.lines] == [style.label for style in STYLES.values()]
    for line, style in zip(left.lines, STYLES.values()):
        assert (line.get_marker(), line.get_color()) == (style.marker, style.color)
        assert np.allclose(line.get_xydata(), [[10**4, .1], [10**5, .9]])       # sorted by size
    band = right.collections[0].get_paths()[0].vertices[:, 1]
    assert np.isclose(band.max(), .13) and band.min() == 0                      # never below 0
    assert right.get_ylim() == pytest.approx((0, top)) and right.lines[-1].get_ydata()[0] == fdr
    assert left.get_xscale() == right.get_xscale() == "log" and right.texts[0].get_text() == f" q = {fdr:g}"


# Scales


@pytest.mark.parametrize("largest, scale", [(14.9, "linear"), (15.1, "symlog")])
@pytest.mark.parametrize("chosen", [True, False])
def test_one_large_statistic_does_not_flatten_the_threshold(largest, scale, chosen):
    selection = knockoff_filter(X, Y, random_state=0)
    W = np.array([largest, 2, 1, 1, -1, 1, 1, 1, -1, -1, -1, 0])
    T = 1.0 if chosen else np.inf    # without a threshold it is the median, which is 1, too
    bent = decided(selection, W=W, threshold=T, support=W >= T)
    assert plot_selection(bent, axes()).get_yscale() == scale
    assert plot_selection(bent, axes(), scale="linear").get_yscale() == "linear"
    forced = plot_selection(bent, axes(), scale="symlog")
    assert forced.get_yscale() == "symlog" and "log scale beyond 1" in forced.get_ylabel()
    assert forced.yaxis.get_transform().linthresh == 1
    assert np.array_equal(heights(forced), np.sort(W))


def test_ticks_of_a_logarithmic_axis_can_be_read():
    W = np.array([400, 30, 2.5, 2, -3, -2, 1, 1, 1, 1, 1, 0])
    bent = decided(knockoff_filter(X, Y, random_state=0), W=W, threshold=2.0, support=W >= 2)
    ax = plot_selection(bent, axes())
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["-3", "0", "3", "10", "30", "100", "300"]
    assert not len(ax.yaxis.get_minorticklocs())
    for far in (1e4, 1e9, 1e-9):
        ax = plot_selection(decided(bent, W=W * far, threshold=2.0 * far), axes())
        labels = [tick.get_text() for tick in ax.get_yticklabels()]
        assert "0" in labels and 4 <= len(labels) <= 11 and len(set(labels)) == len(labels)
    near = decided(bent, W=np.full(12, 2.25), threshold=2.25, support=W > 0)  # no round number in between
    ax = plot_selection(near, axes(), scale="symlog")
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0", "2.25"]


def test_scales_that_cannot_be():
    selection = knockoff_filter(X, Y, random_state=0)
    assert "scale='log' is unknown" in refusal(plot_selection, selection, axes(), scale="log")
    zero = decided(selection, W=np.zeros(12), threshold=np.inf, support=np.zeros(12, dtype=bool))
    assert plot_selection(zero, axes(), scale="symlog").get_yscale() == "linear"
    for draw in (plot_selection, plot_noise, plot_effects):
        assert "most=0" in refusal(draw, labels_filter(X, Y, **BUDGET, response_bound=6.0, sigma=1.0), most=0)


# Effects


def rows(ax):
    "What a forest plot shows: label -> (value, filled?)"
    names = [tick.get_text() for tick in ax.get_yticklabels()]
    return {names[int(at)]: (float(x), line.get_mfc() == "black") for line in ax.lines
            if line.get_marker() == "o" for x, at in zip(line.get_xdata(), line.get_ydata())}


def ends(ax):
    "The ends of the intervals, from the top row on"
    return np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])


def test_effects_are_drawn_as_they_are(private):
    ax = plot_effects(private, axes())
    effects = private.effects
    assert 0 < len(private) < 12 and INTERCEPT not in rows(ax)
    assert {name for name, (_, filled) in rows(ax).items() if filled} == set(private)
    drawn = dict(zip([tick.get_text() for tick in ax.get_yticklabels()], ends(ax)))
    for row in effects:
        assert np.isclose(rows(ax)[row.name][0], row.estimate)
        assert np.allclose(drawn[row.name], (row.low, row.high))
    every = private.release.estimates()
    se = every.se[[every.names.index(name) for name in rows_in_order(ax)]]
    assert np.ptp(np.diff(ends(ax))[:, 0] / se) < 1e-9  # one width for all, in standard errors
    assert [every.pvalue[every.names.index(name)] for name in rows_in_order(ax)] == sorted(every.pvalue)
    assert "false coverage rate" in ax.get_xlabel() and "for the selected alone" in ax.get_xlabel()
    assert "in units of the response" in ax.get_xlabel() and ax.lines[0].get_xdata()[0] == 0


def rows_in_order(ax): return [tick.get_text() for tick in ax.get_yticklabels()]


def test_intervals_say_what_they_promise(private):
    nothing = decided(private, support=np.zeros(12, dtype=bool), threshold=np.inf)
    ax = plot_effects(nothing, axes())
    assert "each by itself" in ax.get_xlabel() and "selected alone" not in ax.get_xlabel()
    assert not any(filled for _, filled in rows(ax).values())
    each = private.release.estimates()
    assert np.allclose(np.sort(ends(ax).ravel()), np.sort(np.append(each.low, each.high)))
    together = private.release.estimates(level=.9, simultaneous=True)
    ax = plot_effects(together, axes())
    assert "90 % intervals, all of them together" in ax.get_xlabel() and ax.get_title() == "Estimates"
    assert np.allclose(np.sort(ends(ax).ravel()), np.sort(np.append(together.low, together.high)))
    assert all(filled for _, filled in rows(ax).values())  # nothing to tell apart
    everything = decided(private, support=np.ones(12, dtype=bool))
    assert "selected alone" not in plot_effects(everything, axes()).get_xlabel()


def test_columns_of_a_variable_stay_together():
    groups = {"pair": ["x0", "x9"], "x1x": ["x3", "x4", "x11"]}
    found = labels_filter(X, Y, epsilon=50.0, delta=.1, response_bound=9.0, sigma=1.0,
                          simulation=True, random_state=0, groups=groups)
    for draw in (plot_effects, plot_noise):
        ax = draw(found, axes())
        names = rows_in_order(ax)
        for word, members in groups.items():
            at = sorted(names.index(f"{word}: {name}") for name in members)
            assert at == list(range(at[0], at[0] + len(at)))
            assert {rows(ax)[names[k]][1] for k in at} == {word in found}
            shaded = [patch.get_extents().transformed(ax.transData.inverted()) for patch in ax.patches]
            assert any(np.allclose(sorted((box.y0, box.y1)), (at[0] - .5, at[-1] + .5)) for box in shaded)


def test_the_rest_is_counted():
    wide, y, _ = linear_model(2000, p=100, k=10, random_state=0)
    found = labels_filter(wide, y, **BUDGET, response_bound=6.0, sigma=1.0)
    ax = plot_effects(found)
    assert len(rows(ax)) == 60 and "and 40 more, with larger p-values" in ax.get_xlabel()
    assert 5 < ax.figure.get_figheight() < 14
    low = plot_effects(found, most=5)
    assert "and 95 more" in low.get_xlabel() and 1.5 < low.figure.get_figheight() < 3
    assert "and 90 more" in plot_noise(found, axes(), most=10).get_xlabel()
    for members, fits in ((12, 6), (8, 2)):  # a variable alone is cut; one that does not fit is left out
        groups = {"many": [f"x{j}" for j in range(members)]}
        grouped = labels_filter(X, Y, epsilon=50.0, delta=.1, response_bound=9.0, sigma=1.0, groups=groups,
                                simulation=True, random_state=0)
        ax = plot_effects(grouped, axes(), most=6)
        assert len(rows(ax)) == fits and f"and {12 - fits} more" in ax.get_xlabel()
    matplotlib.pyplot.close("all")


def test_an_interval_that_says_nothing_does_not_flatten_the_others():
    "A constant column is lost, and its row says so"
    X, y, _ = linear_model(4000, p=4, k=2, amplitude=1.0, random_state=0)
    wide = np.column_stack([X, np.ones(len(y))])
    found = moments_filter(wide, y, epsilon=20.0, delta=1e-5, row_bound=3.0, response_bound=5.0,
                           simulation=True, random_state=0)
    effects = found.release.estimates()
    assert [row.name for row in effects if row.lost] == ["x4"]
    ax = plot_effects(effects)
    assert ax.get_xscale() == "linear" and ax.get_xlim()[1] < 2 * np.abs(effects.high[:4]).max()
    assert [text.get_text() for text in ax.texts].count("lost") == 1
    assert effects.low[0] in {path[0, 0] for path in ax.collections[-1].get_segments() if len(path)}


def test_effects_of_what_has_none():
    said = refusal(plot_effects, knockoff_filter(X, Y, random_state=0))
    assert "has no estimate" in said and said.endswith("plot_selection")
    assert "found is a list" in refusal(plot_effects, [1, 2])


def test_numbers_have_the_digits_that_intervals_are_worth():
    assert interval_in_words(.5312, .4622, .6001) == "0.531 (0.462 to 0.600)"
    assert interval_in_words(.5, -.4, 1.4) == "0.50 (-0.40 to 1.40)"
    assert interval_in_words(-5.3, -10.61, -.001) == "-5.3 (-10.6 to 0.0)"
    assert interval_in_words(-3983.2, -4429.4, -3538.1) == "-3983 (-4429 to -3538)"
    assert interval_in_words(1e-9, 0, 2e-9) == "1e-09 (0 to 2e-09)"
    assert interval_in_words(1.5e7, 1.4e7, 1.6e7) == "1.5e+07 (1.4e+07 to 1.6e+07)"
    assert interval_in_words(2, 2, 2) == "2 (2 to 2)"


# Noise


def bars(ax):
    "The bars of noise: (middle, half width), the wide ones first"
    found = [patch for patch in ax.patches if patch.get_height() == pytest.approx(.8)]
    return [(patch.get_x() + patch.get_width() / 2, patch.get_width() / 2) for patch in found]


@pytest.mark.parametrize("estimating", ["moments", "labels"])
def test_noise_of_estimates_is_their_standard_deviation(private, estimating):
    selection = private
    if estimating == "labels":
        selection = labels_filter(X, Y, **BUDGET, response_bound=6.0, sigma=1.0)  # its intercept is not drawn
    e = selection.estimate
    value, sd = e.beta[:12], np.sqrt(np.diag(e.V)[:12])
    ax = plot_noise(selection, axes())
    order = np.argsort(-np.abs(value) / sd, kind="stable")
    assert rows_in_order(ax) == [selection.names[j] for j in order]
    assert np.allclose([rows(ax)[selection.names[j]][0] for j in range(12)], value)  # with its sign
    assert value.min() < 0 < value.max()
    assert [rows(ax)[name][1] for name in selection.names] == selection.support.tolist()
    assert np.allclose(bars(ax), [*((0, 2 * sd[j]) for j in order), *((0, sd[j]) for j in order)])
    assert ax.get_title().startswith(f"{(np.abs(value) > 2 * sd).sum()} of 12 columns beyond two")


@pytest.mark.parametrize("word, what", [("one", "products"), ("two", "coefficients"),
                                        ("products", "products")])
def test_noise_of_a_pair_is_that_of_its_scale_and_knockoffs_are_ticks(word, what):
    if word == "products":
        selection = products_filter(X, Y, law=Gaussian(0, np.eye(12)), **BUDGET, response_bound=6.0)
        both = selection.release.combined()[0]
    else:
        run = {"one": filter_one, "two": filter_two}[word]
        selection = run(X, Y, **PAPER, bounds="tight")
        both = selection.release.b
    ax = plot_noise(selection, axes())
    scale = selection.noise[what]
    assert np.allclose(bars(ax), [(0, 2 * scale)] * 12 + [(0, scale)] * 12)
    assert np.allclose([rows(ax)[name][0] for name in selection.names], both[:12])
    ticks = next(line for line in ax.lines if line.get_marker() == "|")
    order = [selection.names.index(name) for name in rows_in_order(ax)]
    assert np.allclose(ticks.get_xdata(), both[12:][order]) and "knockoff" in ax.get_xlabel()
    assert what[:-1] in ax.get_xlabel() and "added for privacy" in ax.get_xlabel()


def test_where_there_is_no_noise_there_is_a_sentence():
    said = refusal(plot_noise, knockoff_filter(X, Y, random_state=0))
    assert "method 'none'" in said and said.endswith("plot_selection")


# Names


ODD = ("cost $a$", "a_b^c_{d}", r"\\alpha$", "größe_Å_μ", "日本語の列", "عمود", "🙂", "line\nbreak\tand tab",
       "x" * 30, "a_very_long_name_that_goes_on_and_on_1", "<b>&amp;</b>", "$")


def test_odd_names_do_not_break_a_picture(tmp_path):
    moments = Moments.from_data(X, Y, list(ODD))
    found = labels_filter(X, Y, **BUDGET, response_bound=6.0, sigma=1.0)
    named = replace(found, release=replace(found.release, columns=ODD))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for draw, selection in ((plot_selection, knockoff_filter(moments, random_state=0)),
                                (plot_effects, named), (plot_noise, named)):
            fig = Figure(figsize=(7, 5), layout="constrained")
            ax = draw(selection, fig.subplots())
            labels = ax.get_xticklabels() if draw is plot_selection else ax.get_yticklabels()
            assert {label.get_text() for label in labels} == {_plain_name(name) for name in ODD}
            save_figure(fig, tmp_path / "a.png")
            text = figure_svg(fig)
            escaped = "&lt;b&gt;&amp;amp;&lt;/b&gt;"
            for part in ("cost $a$", "日本語の列", "🙂", "x" * 30, escaped, "line break and tab"):
                assert f">{part}</text>" in text, part


def test_long_names_lose_their_middle():
    assert _plain_name("x" * 32) == "x" * 32
    long = _plain_name("start" + "x" * 60 + "_end_7")
    assert len(long) == 32 and long.startswith("start") and long.endswith("_end_7") and "…" in long


def test_new_axes_if_none_are_given(private):
    from matplotlib import pyplot as plt
    drawn = [*(draw(private) for draw in (plot_selection, plot_noise, plot_effects)),
             *plot_curves(curve_points(["two"]), .2)]
    assert len({id(ax) for ax in drawn}) == 5
    plt.close("all")


@pytest.mark.parametrize("name, start", [("a.png", b"\x89PNG"), ("a.PDF", b"%PDF"), ("a.svg", b"<?xml")])
def test_pictures_are_written_whole_and_always_alike(private, tmp_path, name, start):
    def drawn():
        fig = Figure(figsize=(6, 4), layout="constrained")
        return plot_effects(private, fig.subplots()).figure
    written = save_figure(drawn(), tmp_path / name).read_bytes()
    assert written.startswith(start) and [path.name for path in tmp_path.iterdir()] == [name]
    assert save_figure(drawn(), tmp_path / name).read_bytes() == written
    assert not re.search(rb"20\d\d-\d\d-\d\d|CreationDate", written)


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
    assert "is not the name of a picture" in refusal(check_picture, tmp_path / "a.docx")
    assert "does not exist" in refusal(save_figure, Figure(), tmp_path / "no" / "a.png")
    (tmp_path / "b.png").mkdir()
    assert "is a folder" in refusal(check_picture, tmp_path / "b.png")
