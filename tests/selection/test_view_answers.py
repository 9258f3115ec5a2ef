"What a person reads: levels against a reference, lost columns as lost, the response by name, frames in kind."
import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import chi2

import dp_knockoff as dp
from dp_knockoff.core.variables import Variables
from dp_knockoff.practice.plots import plot_effects
from dp_knockoff.practice.report import _report_html
from dp_knockoff.selection.inference import effects_of

rng = np.random.default_rng(0)
n = 20_000
TABLE = pl.DataFrame({
    "age": rng.integers(18, 80, n), "region": rng.choice(list("nsew"), n), "union": rng.random(n) < .4,
    "rare": rng.choice(["a", "b", "zz"], n, p=[.5, .4999, .0001]), "flat": np.full(n, 3.0)})
TABLE = TABLE.with_columns(wage=.1 * pl.col("age") + 2.0 * (pl.col("region") == "s") - 1.0 * pl.col("union")
                           + 4.0 * (pl.col("rare") == "b") + rng.normal(0, 3, n))
FACTS = {"target": "wage", "columns": {
    "age": {"range": [18, 80]}, "region": {"levels": ["n", "s", "e", "w"]},
    "union": {"levels": [False, True]}, "rare": {"levels": ["a", "b", "zz"]},
    "flat": {"range": [0, 6]}, "wage": {"range": [0, 40]}}}
METHOD = dp.MomentsMethod(epsilon=1.0, delta=1e-6)


@pytest.fixture(scope="module")
def found(): return METHOD.select(TABLE, dictionary=FACTS, simulation=True, random_state=0)


def test_levels_are_shown_against_their_reference_everywhere(found):
    words = "region=s (against n)", "region=w (against n)", "union=true (against false)", "rare=b (against a)"
    for text in (str(found), str(found.effects), found._repr_html_(), _report_html(found)):
        for word in words[:2] if text.startswith("<div") else words: assert word.split(" ")[0] in text, word
    for text in (str(found), str(found.effects), str(found.release.estimates()), _report_html(found)):
        for word in words: assert word in text, word
    rows = {row["column"]: row for row in found.to_frame().to_dicts()}
    assert {name: row["reference"] for name, row in rows.items()} == {
        "age": "", "region=s": "n", "region=e": "n", "region=w": "n", "union=true": "false", "rare=b": "a",
        "rare=zz": "a", "flat": ""}
    every = {row.name: row for row in found.all_effects()}
    assert all(rows[name]["estimate"] == every[name].estimate for name in rows if not every[name].lost)
    assert [row["reference"] for row in found.to_dict()["effects"]].count("n") == 3


def test_what_is_lost_is_called_lost_and_has_no_interval(found):
    every = {row.name: row for row in found.release.estimates()}
    assert {name for name, row in every.items() if row.lost} == {"rare=zz", "flat"}
    assert np.isnan([every["flat"].estimate, every["flat"].low, every["flat"].z]).all()
    line = next(line for line in str(found).splitlines() if "rare=zz (" in line)
    assert line.endswith("lost") and "Lost: indistinguishable" in str(found) and "e+0" not in str(found)
    assert "<td class=\"number\">lost</td>" in _report_html(found)
    json.dumps(found.to_dict(), allow_nan=False)
    plot_effects(found)


def test_a_lost_level_leaves_the_test_of_its_factor_as_it_is(found):
    "The p-value of the other levels, in every row; of a lost column it is 1"
    every = {row.name: row for row in found.release.estimates()}
    assert every["rare=b"].pvalue == every["rare=zz"].pvalue < 1e-9 and every["flat"].pvalue == 1
    lost, two = np.diag([0.0, 1, 0]), Variables.of("abc", {"g": ("a", "b", "c")})
    units = np.eye(3), np.zeros(3)
    table = effects_of(np.array([2.0, 7, 1]), np.eye(3), tuple("abc"), two, units, 2.0, .95, "alone", lost)
    assert np.allclose(table.pvalue, chi2.sf(5, 2))
    assert np.isnan(table.estimate).tolist() == [False, True, False]


def test_the_response_is_named(found, tmp_path):
    text = str(found)
    assert "Response: 'wage'." in text and "Change of 'wage' per unit of the column" in text
    assert found.to_dict()["response"] == "wage" and "response" in found.to_csv().splitlines()[0]
    assert "tell something about wage" in _report_html(found)
    assert "<b>response</b>: wage" in found._repr_html_()
    assert "in units of wage" in plot_effects(found).get_xlabel()
    again = dp.load_release(found.release.save(tmp_path / "r.npz"))
    assert (again.target, again.references, again.library) == ("wage", found.release.references, "polars")
    assert str(dp.select(again)) == text
    series = pd.Series(TABLE["wage"].to_numpy(), name="pay")
    other = dp.knockoff_filter(np.column_stack([TABLE["age"], rng.normal(size=n)]), series, random_state=0)
    assert other.release.target == "pay"
    nameless = dp.knockoff_filter(rng.normal(size=(50, 3)), rng.normal(size=50), random_state=0)
    assert nameless.release.target is None and "the response" not in str(nameless)


def test_frames_come_back_in_kind(found):
    for frame in (found.to_frame(), found.effects.to_frame(), found.diagnosis.to_frame()):
        assert isinstance(frame, pl.DataFrame)
    assert isinstance(found.to_frame("pandas"), pd.DataFrame)
    other = METHOD.select(TABLE.to_pandas(), dictionary=FACTS, simulation=True, random_state=0)
    assert isinstance(other.to_frame(), pd.DataFrame) and isinstance(other.effects.to_frame(), pd.DataFrame)


def test_one_sentence_says_what_an_interval_is_for_where_the_model_is_not_linear(found):
    for text in (str(found), found._repr_html_(), _report_html(found)):
        assert text.count("Where the response is not linear in the columns") == 1


def test_effects_of_unlike_units_share_an_axis(found):
    "Drawn per half of the interval that is a column's unit, written per unit of the data"
    ax = plot_effects(found)
    every = {row.label: row for row in found.all_effects()}
    at = {tick.get_text(): k for k, tick in enumerate(ax.get_yticklabels())}
    drawn = {int(y): x for line in ax.lines if line.get_marker() == "o" for x, y in zip(*line.get_data())}
    low, high = found.release.clip.ranges["age"]
    assert 0 < high - low < 62 and np.isclose(drawn[at["age"]], (high - low) / 2 * every["age"].estimate)
    label = "union=true (against false)"
    assert np.isclose(drawn[at[label]], every[label].estimate)
    assert "half the column's interval in the release" in ax.get_xlabel()


def test_the_account_says_why_what_is_left_is_more_than_the_difference(tmp_path):
    ledger = dp.Ledger(tmp_path / "l.jsonl", epsilon=2.0, delta=1e-6)
    assert "squares" not in repr(ledger)
    METHOD.select(TABLE, dictionary=FACTS, simulation=True, random_state=0, ledger=ledger)
    assert "their squares add up, not their epsilons" in repr(ledger)


def test_both_tables_of_intervals_agree_when_nothing_is_selected():
    X, noise = np.random.default_rng(0).standard_normal((2, 2000, 5))
    method = dp.MomentsMethod(epsilon=.5, delta=1e-6, row_bound=2.0, response_bound=3.0)
    none = method.select(dp.open_source(X, noise[:, 0]), simulation=True, random_state=0)
    told, other = (pd.DataFrame(one.to_frame()) for one in (none, none.all_effects()))
    assert len(none) == 0 and len(told) == 5
    for name in ("estimate", "low", "high"): assert told[name].equals(other[name][:5])  # then the intercept
