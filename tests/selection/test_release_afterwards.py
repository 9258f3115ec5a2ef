"A second question: a rate chosen afterwards, bounds for any set, effects that matter, other accountants."
import json

import numpy as np
import pytest

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.models import linear_model
from dp_knockoff.filters.labels_method import LabelsMethod
from dp_knockoff.filters.methods import NonPrivate, ask
from dp_knockoff.knockoffs.threshold import open_threshold
from dp_knockoff.practice.cli import main
from dp_knockoff.privacy.ledger import epsilon_at
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import BH, BenjaminiYekutieli, KnockoffPlus, Privacy

X, Y, BETA = linear_model(3000, p=12, k=4, amplitude=.3, random_state=0)
METHOD = LabelsMethod(epsilon=20.0, delta=1e-3, response_bound=6.0, sigma=1.0)
LABELS = METHOD.release(X, Y, simulation=True, random_state=0)
EXACT = NonPrivate().release(X, Y, random_state=0)


def test_four_signals_are_found_at_a_level_of_their_own():
    "At .2 the filter makes five discoveries or none"
    assert len(select(EXACT)) == 0
    found = select(EXACT, fdr="any")
    T, level = open_threshold(found.W)
    assert found.threshold == T and found.level == found.fdr == level == .25
    assert set(found.selected) == {f"x{j}" for j in np.flatnonzero(BETA)}
    assert "4 of 12 variables at level 0.25" in repr(found)
    control = found.guarantee.control
    assert (control.rate, control.bound, control.kind) == ("FDP / level", 1.0, "exact")


def test_a_rate_that_is_fixed_is_no_level_of_its_own():
    found = select(LABELS, rule="by")
    assert not found.any_rate and found.level == found.fdr == .2 and "level" not in repr(found)
    afterwards = select(LABELS, fdr="any")  # the rule by default, bh, cannot: by can
    assert afterwards.rule == BenjaminiYekutieli() and afterwards.any_rate and afterwards.level <= .2
    assert (afterwards.support == found.support).all()


def test_what_is_promised_is_known_before_noise_is_drawn():
    for rule in (None, "by", "knockoffs"):
        promise = METHOD.guarantee("any", rule)
        assert promise.control.rate == "FDP / level" and promise.control.kind == "exact"
        assert promise.control == select(LABELS, fdr="any", rule=rule).guarantee.control
    found = METHOD.select(X, Y, fdr="any", simulation=True, random_state=0)
    assert (found.W == select(LABELS, fdr="any").W).all()
    assert ask("none", X, Y, fdr="any", random_state=0).level == .25


@pytest.mark.parametrize("question, words", [
    (dict(fdr="all"), "fdr='all' is not a number"), (dict(fdr=1.0), "fdr=1.0 is not a number"),
    (dict(fdr="any", rule="bh"), "which keeps one rate, fixed beforehand"),
    (dict(fdr="any", rule="dbh"), "which keeps one rate"), (dict(fdr="any", rule="ebh"), "keeps one rate"),
    (dict(fdr="any", rule=KnockoffPlus(offset=0)), "rule='knockoffs' with offset=0"),
    (dict(smallest_effect=-.1), "smallest_effect=-0.1 is not a finite number >= 0"),
    (dict(smallest_effect=np.inf), "is not a finite number"),
    (dict(smallest_effect="big"), "is not a finite number"),
    (dict(smallest_effect={"x0": 1, "z": 1}), "smallest_effect='z' is unknown"),
    (dict(smallest_effect=1, rule="knockoffs"), "asks for any effect at all"),
    (dict(smallest_effect=1, rule="dbh"), "pass rule='bh' or 'by'"),
])
def test_what_makes_no_sense_gets_a_sentence(question, words):
    assert words in refusal(select, LABELS, **question)


def test_a_release_without_estimates_has_no_smallest_effect():
    assert "asks for any effect at all" in refusal(select, EXACT, smallest_effect=1)
    grouped = METHOD.select(X, Y, groups={"g": ["x0", "x1"]}, simulation=True, random_state=0).release
    assert "size of one coefficient" in refusal(select, grouped, smallest_effect=1)


def test_bounds_are_for_any_set_and_monotone():
    for release, rule in ((EXACT, "knockoffs"), (LABELS, "bh"), (LABELS, "ebh"), (LABELS, "knockoffs")):
        found = select(release, rule=rule)
        every = found.at_least(found.names)
        assert 0 <= found.at_least() <= min(every, len(found)) and found.at_least([]) == 0
        assert every <= 4 or release is not EXACT
        assert found.at_least("x0") in (0, 1) and found.at_least(found.names, level=.5) >= every
        assert found.at_least(found.names) == select(release, rule=rule, fdr=.01).at_least(found.names)
    assert select(LABELS).at_least([f"x{j}" for j in np.flatnonzero(BETA)]) == 4
    assert select(LABELS).at_least([f"x{j}" for j in np.flatnonzero(BETA == 0)]) == 0


def test_bounds_refuse_names_and_levels():
    found = select(LABELS)
    assert "names='zz' is unknown" in refusal(found.at_least, ["x0", "zz"])
    assert "level=1.5" in refusal(found.at_least, level=1.5)
    assert "level=0.9999 is too close to 1" in refusal(found.at_least, level=.9999)


def test_the_bound_is_said_once_everywhere():
    found = select(LABELS)
    sentence = f"At least {found.at_least()} of these {len(found)} are true discoveries"
    assert repr(found).count(sentence) == 1 and sentence in found._repr_html_()
    note = found.to_frame("pandas").attrs["note"]
    assert found.table().note == note and note.startswith(sentence)
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["at_least"] == found.at_least() and plain["any_rate"] is False
    nothing = select(EXACT)
    assert "At least" not in repr(nothing) and nothing.at_least() == 0


def test_effects_that_matter_are_in_the_units_of_the_data():
    release = METHOD.release(X, Y, simulation=True, random_state=0)
    assert len(select(release)) >= 4
    for least, expected in ((.2, 4), (.4, 0), ({"x0": .9}, None)):
        found = select(release, smallest_effect=least)
        assert found.rule == BH(least) and (expected is None or len(found) == expected)
        assert "A discovery is false if" in str(found.guarantee)
    sizes = select(release).W
    for zero in (0, 0.0, {"x1": 0.0}): assert np.allclose(select(release, smallest_effect=zero).W, sizes)
    border = np.abs(release.estimate().beta[0])
    assert select(release, smallest_effect=float(border)).W[0] < .7


def test_effects_that_matter_follow_the_units():
    "A column in other units has a coefficient in other units, and the same question has the same answer"
    Z = X * np.where(np.arange(12) == 1, 1000.0, 1.0)
    kind = dict(epsilon=20.0, delta=1e-3, response_bound=6.0, row_bound=4.0, simulation=True, random_state=0)
    both = [ask("moments", D, Y, **kind, ranges={f"x{j}": (-4 * u[j], 4 * u[j]) for j in range(12)}).release
            for D, u in ((X, np.ones(12)), (Z, np.where(np.arange(12) == 1, 1000.0, 1.0)))]
    W = [select(r, smallest_effect={"x1": size}).W for r, size in zip(both, (.2, .0002))]
    assert np.allclose(*W, rtol=1e-6, atol=1e-6)


def test_the_command_line_asks_for_any_rate(tmp_path, capsys):
    table = tmp_path / "t.csv"
    names = ",".join([*(f"x{j}" for j in range(12)), "y"])
    np.savetxt(table, np.c_[X, Y], delimiter=",", comments="", header=names)
    argv = ["select", str(table), "--target", "y", "--method", "none", "--seed", "0", "--fdr"]
    assert main([*argv, "any"]) == 0 and "at level 0.25" in capsys.readouterr().out
    assert main([*argv, "some"]) == 2 and "--fdr='some' is not a number" in capsys.readouterr().err


def test_privacy_is_an_event_of_another_accountant():
    from_them = pytest.importorskip("dp_accounting", reason="the package dp_accounting is not installed")
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import PLDAccountant
    for epsilon, delta in ((.1, 1e-6), (1.0, 1e-6), (4.0, 1e-9)):
        event = Privacy(epsilon, delta, "one row").event()
        assert isinstance(event, from_them.GaussianDpEvent)
        accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event)
        assert abs(accountant.get_epsilon(delta) - epsilon) < 1e-4
        mu = analytic_ratio(Budget(epsilon, delta))
        twice = accountant.compose(event)
        assert abs(twice.get_epsilon(delta) - epsilon_at(2**.5 * mu, delta)) < 1e-4
        replaced = PLDAccountant(NeighboringRelation.REPLACE_ONE).compose(event)  # doubles the sensitivity
        assert abs(replaced.get_epsilon(delta) - epsilon_at(2 * mu, delta)) < 1e-3


def test_without_the_package_an_event_is_refused(monkeypatch):
    import sys
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(InputError, match="dp_accounting is not installed: pip install dp-accounting"):
        LABELS.privacy.event()


def test_a_selector_asks_for_any_rate():
    from dp_knockoff.practice.selector import DPKnockoffSelector
    public = dict(epsilon=20.0, delta=1e-3, row_bound=4.0, response_bound=6.0)
    model = DPKnockoffSelector(**public, fdr="any", simulation=True, random_state=0).fit(X, Y)
    assert model.selection_.any_rate and model.selection_.rule == BenjaminiYekutieli()


def test_a_diagnosis_knows_what_does_not_matter():
    found = select(LABELS, smallest_effect=2.0)
    assert len(found) == 0 and "The largest |z| of 12 variables is 0" in found.explain()
