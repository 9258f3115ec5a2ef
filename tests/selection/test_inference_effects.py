"Tables of effects: widths, units, groups, frames, and intervals of selected variables."
import builtins

import numpy as np
import pytest
from scipy.stats import chi2, norm

from dp_knockoff.core.testing import assert_rate_at_most, fires, refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.selection.inference import (
    Effect,
    Effects,
    bh_threshold,
    effects_of,
    interval_width,
    rows_of,
    selected_level,
)

V = np.array([[1.0, .5, 0, 0], [.5, 2, .3, 0], [0, .3, .5, 0], [0, 0, 0, 4]])
BETA = np.array([1.0, -2, 3, 10])
GROUPED = Variables.of("abc", {"g": "bc"})


def table(variables=GROUPED, units=None, width=2.0):
    units = units or (np.eye(4), np.zeros(4))
    return effects_of(BETA, V, ("a", "b", "c", "(intercept)"), variables, units, width, .95, "each by itself")


def test_widths_are_normal_quantiles():
    assert np.isclose(interval_width(.95), norm.isf(.025)) and np.isclose(interval_width(.5), norm.isf(.25))
    assert np.isclose(norm.cdf(interval_width(.95, 7)) * 2 - 1, .95**(1 / 7), rtol=1e-12)
    assert np.isfinite(interval_width(1 - 1e-12, 10**6))


def test_selected_levels():
    assert np.isclose(selected_level(.95, 3, 20), 1 - .05 * 3 / 20) and selected_level(.9, 20, 20) == .9
    assert np.isclose(selected_level(.95, 0, 20), 1 - .05 / 20)


@pytest.mark.parametrize("level", [0, 1, 95, "a", None, np.nan])
def test_levels_are_fractions(level):
    assert refusal(interval_width, level).startswith("level=")
    assert refusal(selected_level, level, 1, 2).startswith("level=")


def test_a_row_is_a_column_and_the_intercept_is_last():
    effects = table()
    assert len(effects) == 4 and effects.names == ("a", "b", "c", "(intercept)")
    assert effects.variables == ("a", "g", "g", "(intercept)")
    assert np.allclose(effects.se, np.sqrt([1, 2, .5, 4])) and np.allclose(effects.z, BETA / effects.se)
    assert np.allclose(effects.low, BETA - 2 * effects.se)
    assert np.allclose(effects.high, BETA + 2 * effects.se)
    square = BETA[1:3] @ np.linalg.inv(V[1:3, 1:3]) @ BETA[1:3]
    wanted = [2 * norm.sf(1), chi2.sf(square, 2), chi2.sf(square, 2), 2 * norm.sf(5)]
    assert np.allclose(effects.pvalue, wanted, rtol=1e-9)
    single = table(Variables.of("abc"))
    assert np.allclose(single.pvalue, 2 * norm.sf(np.abs(single.z))) and single.variables == single.names


def test_units_move_estimates_and_intervals():
    A = np.diag([2.0, 1, 1, 1])
    A[3, 0] = -1.0  # the zero of the first column is moved
    effects = table(units=(A, np.array([0, 0, 0, 7.0])))
    assert np.allclose(effects.estimate, [2, -2, 3, 16])
    assert np.allclose(effects.se, np.sqrt([4, 2, .5, 5]))
    assert np.allclose(effects.z[:3], table().z[:3]) and np.allclose(effects.pvalue[:3], table().pvalue[:3])


def test_rows_are_named():
    first, *_, last = table()
    assert isinstance(first, Effect) and first.name == "a" and first.low == -1 and last.estimate == 10
    some = rows_of(table(), [2, 3])
    assert some.names == ("c", "(intercept)") and some.estimate.tolist() == [3, 10] and some.level == .95
    assert len(rows_of(table(), [])) == 0 and list(rows_of(table(), [])) == []


def test_the_text_is_a_table():
    lines = repr(table()).split("\n")
    assert lines[0].split() == ["column", "variable", "estimate", "se", "low", "high", "z", "p-value"]
    assert lines[2].split()[:3] == ["b", "g", "-2"]
    assert lines[-1].endswith("unchanged. 95 % intervals, each by itself.")
    assert len({len(line) for line in lines[:-1]}) == 1
    assert "variable" not in repr(table(Variables.of("abc"))).split("\n")[0]
    assert repr(rows_of(table(), [])).startswith("column")


def test_frames():
    frame = table().to_frame()
    assert type(frame).__module__.startswith("pandas") and list(frame.columns) == list(Effect._fields)
    assert frame["estimate"].tolist() == BETA.tolist() and len(rows_of(table(), []).to_frame()) == 0
    assert list(rows_of(table(), []).to_frame().columns) == list(Effect._fields)


def test_frames_without_pandas_are_those_of_polars_or_a_sentence(monkeypatch):
    real = builtins.__import__
    def without(*missing):
        def load(name, *args, **kwargs):
            if name.split(".")[0] in missing: raise ImportError(name)
            return real(name, *args, **kwargs)
        return load
    pytest.importorskip("polars")
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without("pandas"))
        assert type(table().to_frame()).__module__.startswith("polars")
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "__import__", without("pandas", "polars"))
        assert "pandas or polars" in refusal(table().to_frame)


def test_nothing_of_it_can_be_set():
    with pytest.raises(AttributeError): table().level = .5
    assert isinstance(table(), Effects)


def test_simultaneous_intervals_cover_together():
    rng = np.random.default_rng(0)
    for rho in (-.2, .9):
        root = np.linalg.cholesky((1 - rho) * np.eye(5) + rho)
        largest = np.abs(rng.standard_normal((10_000, 5)) @ root.T).max(1)
        assert_rate_at_most(largest > interval_width(.9, 5), .1)
        assert fires(assert_rate_at_most, largest > interval_width(.9), .1)


def test_intervals_of_selected_variables_miss_rarely_enough():
    rng = np.random.default_rng(1)
    truth = np.where(np.arange(20) < 6, 1.5, 0.0)
    def missed(row, adjusted):
        chosen = np.abs(row) >= bh_threshold(row, .2)
        level = selected_level(.95, chosen.sum(), 20) if adjusted else .95
        return (np.abs(row - truth)[chosen] > interval_width(level)).sum() / max(chosen.sum(), 1)
    z = truth + rng.standard_normal((3000, 20))
    assert .03 < assert_rate_at_most([missed(row, True) for row in z], .05)
    assert fires(assert_rate_at_most, [missed(row, False) for row in z], .05)


def test_effects_are_shown_as_html_and_names_are_escaped():
    effects = effects_of(BETA, V, ("<b>", "b", "c", "(intercept)"), Variables.of(("<b>", "b", "c")),
                         (np.eye(4), np.zeros(4)), 2.0, .95, "each by itself")
    page = effects._repr_html_()
    assert "&lt;b&gt;" in page and "<b>" not in page and "p-value" in page and "each by itself" in page
    assert effects.to_frame("polars")["name"].to_list()[0] == "<b>" and page.count("<tr>") == 5
