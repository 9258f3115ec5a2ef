"Releases, questions, selections: what is refused before a release, and what a selection says."
import json
import warnings
from copy import copy
from dataclasses import FrozenInstanceError, fields
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from dp_knockoff import knockoff_filter
from dp_knockoff.core.errors import InputError, check_positive, stream
from dp_knockoff.core.testing import assert_rate_at_most, refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.data.clip import Clip
from dp_knockoff.filters.methods import ask, question_of
from dp_knockoff.knockoffs.fixed_x import gram
from dp_knockoff.knockoffs.statistics import Statistic
from dp_knockoff.knockoffs.threshold import ebh_threshold, error_rates, knockoff_threshold
from dp_knockoff.privacy.mechanisms import Budget
from dp_knockoff.selection.diagnosis import Diagnosis, Finding, _center, _rough_estimate, collinear_pairs
from dp_knockoff.selection.inference import dbh_support
from dp_knockoff.selection.release import Estimate, Method, Release, Selection, select
from dp_knockoff.selection.rules import (
    BH,
    EBH,
    RULES,
    SIMULATION,
    Conditions,
    Decision,
    KnockoffPlus,
    as_rule,
)
from dp_knockoff.selection.view import in_words
from watched import unread


class Plain(Release):
    "A release that has its pair"
    method, n, budget, noise, sampler, simulated = "plain", 100, None, {}, None, False
    conditions = Conditions(signs="exact")

    def __init__(self, W):
        self.columns = tuple(f"v{j}" for j in range(len(W)))
        self.A, self.b = np.eye(2 * len(W)), np.append(W, np.zeros(len(W)))


class Estimated(Plain):
    "A release that has estimates, and draws its pair when it is asked"
    conditions, statistic, sigma = Conditions("exact", "exact", redraws=True), Statistic("ols", "lcd"), 1.0

    def pair(self, s=None, random_state=None, estimate=None):
        self.asked = s, random_state, estimate
        return self.A, self.b

    def knowing(self, sigma):
        known = copy(self)
        known.sigma, known.asked = check_positive("sigma", sigma, "pass it"), None
        return known

    def estimate(self):
        p = len(self.names)
        return Estimate(np.append(self.b[:p], 9.0), self.sigma**2 * np.eye(p + 1))

    def notes(self, estimate=None): return (f"{len(estimate.beta)} coefficients.",)


def selection(W, q=.2, offset=1, signs=None):
    "A selection with these statistics"
    W = np.asarray(W, float)
    signs = np.sign(W).astype(int) if signs is None else np.array(signs)
    T = float(knockoff_threshold(W, q, offset))
    return Selection(Plain(W), KnockoffPlus(offset=offset), q, Decision(W, signs, T, W >= T))


def choose(release, **values):
    "A selection with options by their names"
    return select(release, **question_of(release.rule, values))


# ---------------------------------------------------------------- the Benjamini-Hochberg rule

def literal_bh(pvalues, q):
    "The step-up rule as Benjamini and Hochberg print it: indices of what is rejected"
    order = np.argsort(pvalues, kind="stable")
    k = max([i for i in range(1, len(order) + 1) if pvalues[order[i - 1]] <= i * q / len(order)], default=0)
    return sorted(order[:k])


@given(st.integers(0, 2**32 - 1), st.sampled_from([.05, .2, .5]), st.integers(1, 25))
def test_bh_is_the_step_up_rule(seed, q, p):
    z = np.random.default_rng(seed).normal(1, 1.5, p)
    chosen = np.flatnonzero(select(Estimated(z), rule="bh", fdr=q).support)
    assert chosen.tolist() == literal_bh(2 * norm.sf(np.abs(z)), q)


def test_bh_keeps_the_rate_of_independent_nulls():
    "Its rate is exactly the share of nulls times q"
    rng = np.random.default_rng(0)
    signals = np.where(np.arange(10) < 4, 3.0, 0)
    z = rng.standard_normal((3000, 10)) + signals
    supports = np.array([select(Estimated(row), rule="bh", fdr=.25).support for row in z])
    assert assert_rate_at_most(error_rates(supports, signals)[0], .15) > .135


def test_bh_takes_zeros_and_single_variables():
    assert select(Estimated(np.zeros(3)), rule="bh").threshold == np.inf
    assert select(Estimated([9.0]), rule="bh").threshold == 9


# ---------------------------------------------------------------- the other rules

class Drawn(Estimated):
    "Correlated estimates, and knockoffs that are drawn with the randomness that is asked for"
    conditions, rule = Conditions("exact", "exact", redraws=True), BH()
    C = np.full((12, 12), .6) + .4 * np.eye(12)

    def pair(self, s=None, random_state=None, estimate=None):
        self.draws = getattr(self, "draws", 0) + 1
        noise = stream(self.seed if random_state is None else random_state, "x").standard_normal(12)
        return np.eye(24), np.append(self.b[:12], noise)

    def estimate(self): return Estimate(self.b[:12], self.C)


Z = np.array([4.0, 3.5, 3, -3, 2.5, 2, 1, .5, 0, -.3, .2, .1])


def test_by_is_bh_at_a_smaller_rate():
    harmonic = sum(1 / k for k in range(1, 13))
    found = select(Drawn(Z), rule="by", fdr=.2)
    assert (found.support == select(Drawn(Z), rule="bh", fdr=.2 / harmonic).support).all()
    assert found.rule.name == "by" and "for estimates of any dependence" in str(found.guarantee)
    assert "proved only" not in str(found.guarantee)
    assert "the threshold of the Benjamini-Yekutieli rule at 0.2" in found.explain()


def test_dbh_knows_the_correlations_and_is_a_function_of_the_release():
    release = Drawn(Z)
    found = select(release, rule="dbh")
    uniforms = stream(release.seed, "dbh").random(12)
    assert (found.support == dbh_support(Z, Drawn.C, .2, uniforms)).all() and len(found) > 2
    assert (found.W == np.abs(Z)).all() and found.threshold == found.W[found.support].min()
    assert (select(release, rule="dbh").support == found.support).all()
    assert "dependence-adjusted Benjamini-Hochberg rule at 0.2" in found.explain()
    assert "normal estimates of any known covariance" in str(found.guarantee) and "|z| = 4" in repr(found)
    nothing = select(Drawn(Z / 9), rule="dbh")
    assert nothing.threshold == np.inf
    assert nothing.explain().startswith("Nothing selected (T = inf). The largest |z|")


def test_dbh_differs_from_bh_where_correlations_matter():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((150, 12)) @ np.linalg.cholesky(Drawn.C).T + 2 * (np.arange(12) < 4)
    found = [[select(Drawn(row), rule=rule).selected for rule in ("dbh", "bh")] for row in z]
    assert 0 < sum(one != two for one, two in found) < 75


def test_dbh_scales_estimates_by_their_standard_deviations():
    class Scaled(Drawn):
        sd = np.arange(1.0, 13)
        def estimate(self): return Estimate(Z * self.sd, self.C * np.outer(self.sd, self.sd))
    assert (select(Scaled(Z), rule="dbh").support == select(Drawn(Z), rule="dbh").support).all()


def test_dbh_refuses_groups():
    class Grouped(InGroups): conditions = Conditions("exact", "exact", redraws=True)
    sentence = refusal(select, Grouped(), rule="dbh")
    assert "several columns are one variable" in sentence and "rule='by'" in sentence
    assert select(Grouped(), rule="by").selected == ("a", "g", "c")


def test_ebh_averages_e_values_over_forty_draws():
    release = Drawn(Z)
    found = select(release, rule="ebh", fdr=.5)
    assert release.draws == 40
    rng, e = stream(release.seed, "ebh"), np.zeros(12)
    for _ in range(40):
        W = np.abs(Z) - np.abs(rng.standard_normal(12))
        T = knockoff_threshold(W, .25)
        e += 12 * (W >= T) / (1 + (W <= -T).sum()) / 40
    assert np.allclose(found.W, e) and found.label == "e" and len(found) >= 4
    k = max(k for k in range(1, 13) if np.sort(e)[-k] >= 12 / (.5 * k))
    assert np.isclose(found.threshold, 12 / (.5 * k)) and len(found) == (e >= found.threshold).sum()
    assert "on average over 40 draws of knockoffs" in found.explain() and "e-BH" in str(found.guarantee)
    assert found.signs[3] == -1 and (select(release, rule="ebh", fdr=.5).W == found.W).all()
    nothing = select(Drawn(Z / 9), rule="ebh").explain()
    assert nothing.startswith("Nothing selected (T = inf).") and nothing.endswith("selection.diagnosis.")


def test_a_release_has_a_rule_of_its_own():
    release = Drawn(Z)
    assert select(release).rule == BH()
    assert (select(release).W == np.abs(Z)).all() and not hasattr(release, "draws")
    assert select(release, rule="knockoffs").rule.name == "knockoffs"
    assert select(Plain(Z)).rule.name == "knockoffs"
    assert "statistic" in refusal(choose, release, statistic=Statistic())
    assert "or pass rule='knockoffs'" in refusal(choose, release, offset=0)
    assert refusal(choose, release, offset=0).startswith("offset=0 has no meaning for rule='bh'")
    assert len(choose(release, rule="knockoffs", statistic=Statistic(), offset=0).W) == 12


def test_only_the_rules_of_a_release_are_possible():
    class Fixed(Estimated): conditions = Conditions("exact", "exact")
    assert "choose one of 'knockoffs', 'bh', 'dbh', 'by'" in refusal(select, Fixed([1.0, 2]), rule="ebh")
    assert "needs estimates" in refusal(select, Plain([1.0, 2]), rule="ebh")


# ---------------------------------------------------------------- effects

def test_estimates_are_all_coefficients():
    release = Estimated(np.array([3.0, -4, .5]))
    every = release.estimates(level=.9)
    assert every.names == ("v0", "v1", "v2", "(intercept)") and every.estimate.tolist() == [3, -4, .5, 9]
    assert np.allclose(every.high - every.estimate, norm.isf(.05)) and every.level == .9
    together = release.knowing(2.0).estimates(simultaneous=True)
    assert np.allclose(together.high - together.estimate, 2 * norm.isf((1 - .95**.25) / 2))
    assert "all of them together" in repr(together) and "each by itself" in repr(every)


def test_estimates_refuse():
    assert "has no estimate with a covariance" in refusal(Plain([1.0, 2]).estimates)
    release = Estimated([1.0, 2])
    assert refusal(release.estimates, level=95).startswith("level=95")
    assert refusal(release.estimates, simultaneous="yes").startswith("simultaneous='yes'")
    assert refusal(release.knowing, 0).startswith("sigma=0")
    assert "cannot be chosen" in refusal(InGroups().knowing, 1.0)
    assert "has no estimate" in refusal(lambda: select(Plain([9.0, 8, 7, 6, 5])).effects)


def test_effects_are_those_of_selected_variables_with_wider_intervals():
    found = select(Drawn(Z), rule="bh")
    R = len(found)
    table = found.effects
    assert table.names == found.selected and 0 < R < 12
    assert np.allclose(table.high - table.estimate, norm.isf(.05 * R / 12 / 2))
    assert np.allclose(found.effects_at(.8).high - table.estimate, norm.isf(.2 * R / 12 / 2))
    assert refusal(found.effects_at, 2).startswith("level=2") and "false coverage rate" in repr(table)
    assert len(select(Drawn(Z / 9)).effects) == 0


def test_effects_use_the_noise_level_that_was_asked_for():
    found = select(Estimated([30.0, -4, .5]), rule="bh", sigma=2.0)
    assert found.effects.se.tolist() == [2] * len(found)


def test_effects_of_a_group_are_those_of_its_columns():
    table = select(InGroups(), rule="bh").effects
    assert table.names == ("a", "b", "c", "d") and table.variables == ("a", "g", "c", "g")
    assert np.isclose(table.pvalue[1], chi2.sf(25, 2)) and table.pvalue[1] == table.pvalue[3]


def test_effects_are_in_the_units_of_the_data():
    class Scaled(Drawn):
        def in_units(self): return 10 * np.eye(12), np.zeros(12)
    found = select(Scaled(Z))
    assert np.allclose(found.effects.estimate, 10 * Z[found.support]) and "40 (" in repr(found)


def test_the_text_shows_estimates_with_intervals():
    found = select(Drawn(Z))
    first = found.effects.high[0] - 4
    assert f"v0  |z| = 4         up    4 ({4 - first:.4g} to {4 + first:.4g})" in repr(found)
    assert "of the column, others unchanged. 95 % intervals, adjusted for the selection." in repr(found)
    assert "intervals" not in repr(select(Drawn(Z / 9))) and "intervals" not in repr(select(Plain(Z)))
    grouped = repr(select(InGroups(), rule="bh")).split("\n")
    assert any(line.split()[0] == "g" and line.endswith(" -") for line in grouped)


# ---------------------------------------------------------------- questions

BAD = [dict(fdr=0), dict(fdr=1), dict(fdr="a"), dict(fdr=True), dict(fdr=np.nan), dict(rule="holm"),
       dict(rule=0), dict(offset=2), dict(offset=True), dict(offset=.5), dict(s="best"), dict(sigma=0),
       dict(sigma=-1), dict(sigma="estimate"), dict(sigma=np.inf)]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_questions_refuse_by_themselves(bad):
    release = Estimated([1.0, 2])
    rule = {} if "fdr" in bad or "sigma" in bad or "rule" in bad else dict(rule="knockoffs")
    sentence = refusal(choose, release, **bad, **rule)
    assert sentence.startswith(f"{next(iter(bad))}=") and "\n" not in sentence


IDLE = [dict(statistic=Statistic()), dict(s="mvr"), dict(s=[.5]), dict(offset=0)]


@pytest.mark.parametrize("idle", IDLE, ids=str)
def test_tests_have_no_use_for_what_knockoffs_need(idle):
    for rule in ("bh", "by", "dbh"):
        words = f"has no meaning for rule='{rule}', which draws no knockoffs: leave it out"
        assert words in refusal(as_rule, rule, BH(), **idle)
    assert "for rule='ebh', which has its own" in refusal(as_rule, "ebh", BH(), **idle)
    assert as_rule("bh", KnockoffPlus(), offset=np.int64(1)) == BH()
    assert KnockoffPlus(offset=np.int64(0)).offset == 0


def test_rules_do_not_change_and_are_compared_by_their_options():
    with pytest.raises(FrozenInstanceError): KnockoffPlus().offset = 0
    assert KnockoffPlus(offset=0) == KnockoffPlus(offset=0) != KnockoffPlus() and BH() != EBH()
    assert "is unknown" in refusal(as_rule, 3, BH()) and as_rule(EBH(), BH()) == EBH()


@pytest.mark.parametrize("question, words", [
    (dict(rule="bh"), "needs estimates"), (dict(s="mvr"), "s='mvr' cannot be chosen"),
    (dict(sigma=1.0), "sigma=1.0 cannot be chosen"), (dict(statistic="lasso"), "statistic"),
    (dict(statistic=lambda A, b: b[:3]), "statistic"), (dict(statistic=lambda A, b: b[:4]), "antisymmetric"),
], ids=["bh", "s", "sigma", "a word", "too few", "not antisymmetric"])
def test_a_release_without_estimates_refuses(question, words):
    assert words in refusal(choose, Plain([1.0, 2, 3, 4]), **question)


def test_numbers_for_s_need_a_release_that_is_there():
    rule = KnockoffPlus(s=[.5, .5])
    assert "known only after the release" in refusal(rule.check, Estimated.conditions, 2, made=False)
    rule.check(Estimated.conditions, 2)
    KnockoffPlus(s="sdp").check(Estimated.conditions, 2, made=False)


def test_a_statistic_is_probed_at_the_width_of_the_release():
    widths = []
    def own(A, b):
        widths.append(len(b))
        return np.abs(b[..., :3]) - np.abs(b[..., 3:])
    KnockoffPlus(own).check(Plain.conditions, 3)
    assert set(widths) == {6}


# ---------------------------------------------------------------- before anything is drawn

class Watchful(Method):
    "A method that must not get as far as releasing"
    word, releases = "watchful", Plain

    conditions = Plain.conditions

    def check_rule(self, rule, variables):
        super().check_rule(rule, variables)
        if rule.offset == 0: raise InputError("offset", rule.offset, "is not for this one")

    def _release(self, source, **draw): raise AssertionError("released")


@pytest.mark.parametrize("question, words", [
    (dict(rule="bh"), "estimates"), (dict(rule=KnockoffPlus(s="mvr")), "cannot be chosen"),
    (dict(rule=KnockoffPlus(3)), "statistic"), (dict(rule=KnockoffPlus(offset=0)), "not for this one"),
    (dict(fdr=7), "fdr=7"), (dict(rule="holm"), "unknown"),
], ids=str)
def test_questions_are_refused_before_the_data_is_read(question, words):
    source = unread("abcd")
    assert words in refusal(Watchful().select, source, **question)
    with pytest.raises(AssertionError, match="released"): Watchful().select(source)


def test_what_a_method_cannot_draw_is_refused():
    class Quiet(Watchful): draws = ("random_state",)
    for name, value in dict(simulation=True, ledger="l.json", sampler=3).items():
        words = f"{name}={value!r} has no meaning for method 'watchful': leave it out"
        assert refusal(Quiet().release, unread("ab"), **{name: value}) == words
        assert refusal(Quiet().select, unread("ab"), **{name: value}) == words


def test_data_is_refused_before_questions_and_releases():
    assert "holds no rows" in refusal(Watchful().select, 3, rule="bh")
    assert "y was given along" in refusal(Watchful().select, unread("ab"), "y")


def test_a_method_that_says_nothing_fails():
    with pytest.raises(AssertionError, match="does not say"): Method().release(unread("ab"))


# ---------------------------------------------------------------- selecting

def test_selecting_from_something_else():
    for other in (np.zeros((3, 2)), "file.npz", None, Plain):
        assert "call a filter with the data" in refusal(select, other)


def test_a_selection_has_what_was_asked_and_what_was_found():
    release = Plain([9.0, 8, 7, 6, 5, -10])
    found = choose(release, fdr=.3, offset=0, statistic=Statistic("ols", "lcd"))
    assert found.release is release and found.method == "plain" and found.names == release.names
    assert (found.fdr, found.offset, found.rule.name) == (.3, 0, "knockoffs")
    assert found.statistic == Statistic("ols", "lcd")
    assert found.W.tolist() == [9, 8, 7, 6, 5, 10] and found.signs.tolist() == [1] * 5 + [-1]
    assert found.threshold == 5 and found.support.all() and found.selected == release.names
    assert found.estimate is None and found.notes == ()
    assert found.budget is None and found.noise == {} and "Not private" in str(found.guarantee)
    assert "E[V / (R + 3.33333)] <= 0.3" in str(found.guarantee)


def test_the_methods_own_statistic_is_the_default():
    found = select(Estimated([3.0, -4, 5]), fdr=.5)
    assert found.statistic == Statistic("ols", "lcd") and found.W.tolist() == [3, 4, 5]
    assert select(Plain([3.0])).statistic == Statistic()


def test_choices_reach_the_release_and_seeds_do_not():
    found = choose(Estimated([3.0, -4, 5]), s="sdp", sigma=2.0)
    assert found.release.asked == ("sdp", None, found.estimate) and found.estimate.V[0, 0] == 4
    assert found.notes == ("4 coefficients.",)


def test_the_rule_bh_tests_the_variables_and_not_the_intercept():
    found = select(Estimated([3.0, -4, .5]), rule="bh", fdr=.1)
    assert found.W.tolist() == [3, 4, .5] and found.signs.tolist() == [1, -1, 1]
    assert found.selected == ("v0", "v1") and found.threshold == 3
    assert "Benjamini-Hochberg rule" in str(found.guarantee) and "FDR <= 0.1" in str(found.guarantee)
    halved = select(Estimated([3.0, -4, .5]), rule="bh", sigma=2.0)
    assert halved.W.tolist() == [1.5, 2, .25] and halved.selected == ("v1",)


def test_selecting_does_not_change_the_release():
    release = Estimated([9.0, 8, 7, 6, 5, -10])
    before = release.A.copy(), release.b.copy()
    for question in (dict(), dict(rule="bh"), dict(statistic=Statistic("lasso", "csm", 1.0)), dict(offset=0)):
        choose(release, **question)
        assert all((now == then).all() for now, then in zip(release.pair(), before))


def test_a_statistic_that_writes_into_its_arguments_does_not_change_the_release():
    release = Plain([9.0, 8, 7, 6, 5, -10])
    def spoil(A, b):
        out = np.abs(b[:len(b) // 2]) - np.abs(b[len(b) // 2:])
        b *= 0
        return out
    first = choose(release, statistic=spoil).W
    assert (choose(release, statistic=spoil).W == first).all()


def test_nothing_of_a_selection_can_be_set():
    found = selection([1.0, 2])
    for field in fields(found):
        with pytest.raises(FrozenInstanceError): setattr(found, field.name, None)


def test_a_simulation_says_so_instead_of_a_guarantee():
    release = Plain([9.0, 8, 7, 6, 5])
    release.budget, release.noise, release.simulated = Budget(.2, 1e-5), {"products": 2.5}, True
    found = select(release)
    assert str(release.guarantee) == SIMULATION and found.guarantee.simulated
    assert str(found.guarantee).startswith(f"{SIMULATION}\nError rate: FDR <= 0.2")
    assert "NOT private" in repr(found) and "Privacy:" not in repr(found)
    assert repr(release) == "Plain(n=100, p=5, simulation: NOT private, noise on products 2.5)"


def test_the_seed_is_a_function_of_the_released_numbers():
    one, two = Plain([1.0, 2]), Plain([1.0, 2])
    assert one.seed == two.seed and 0 <= one.seed < 2**128
    two.b = np.nextafter(two.b, 9)
    assert one.seed != two.seed
    two.b, two.columns = one.b, ("other", "names")
    assert one.seed == two.seed


def test_all_bits_of_the_seed_count():
    "Cut to a few bits, seeds of different releases would meet, and some bits would never change"
    seeds = [Plain([float(i), 2.0]).seed for i in range(400)]
    assert len(set(seeds)) == 400
    ones = np.mean([[seed >> bit & 1 for bit in range(128)] for seed in seeds], axis=0)
    assert np.abs(ones - .5).max() < .5 * 6.5 / np.sqrt(400)  # false alarm below 1e-8


def test_a_selection_knows_its_s():
    release = Estimated([3.0, -4, 5])
    assert choose(release, s="sdp").s == "sdp" and select(release).s is None
    release.s = np.full(3, .5)
    assert select(release).s is release.s


def test_a_release_shows_what_was_spent():
    release = Plain([1.0, 2])
    assert repr(release) == "Plain(n=100, p=2, not private)"
    release.budget, release.noise = Budget(.2, 1e-5), {"products": 2.5, "Gram matrix": 3.14159}
    assert "spent (epsilon=0.2, delta=1e-05), noise on products 2.5, Gram matrix 3.142)" in repr(release)
    assert in_words({}) == ""


# ---------------------------------------------------------------- what a selection says

@pytest.mark.parametrize("W, offset, words", [
    (np.zeros(9), 1, "The largest |z| of 9 variables is 0 ('v0')"), ([1, 2, 3], 1, "Ask for fdr=0.34"),
    ([1], 1, "nothing to filter"),
    ([5, 5, 5, 5, 5, -6, -6], 1, "W is large with both signs (5, and -6 of 'v5')"),
    (-np.ones(9), 0, "both signs (0, and -1"), ([9, 8, 7, 6, 5, -1], 1, "5 of 6 variables have W >= T = 5"),
])
def test_a_selection_explains_itself(W, offset, words):
    chosen = selection(W, offset=offset)
    assert words in chosen.explain() and words in repr(chosen) and "Not private" in repr(chosen)


def test_tests_explain_themselves():
    some, none = (select(Estimated(W), rule="bh") for W in ([3.0, -4, .5], [1.0, .5]))
    assert some.explain() == (
        "2 of 3 variables have |z| >= T = 3, the threshold of the Benjamini-Hochberg rule at 0.2.")
    assert none.explain() == (
        "Nothing selected (T = inf). The largest |z| of 2 variables is 1 ('v0'); none of them exceeds "
        "2 (0.091 expected by chance); at fdr=0.2 a single variable should reach about 1.6, an effect of "
        "1.64 of 'v0'. About 2.7 times the rows would show effects "
        "as large as these estimates, if they are more than chance; fewer columns help, too. More: "
        "selection.diagnosis.")
    assert "|z| = 4" in repr(some) and "W =" not in repr(some)


def test_the_rate_that_is_recommended_is_enough():
    for p in (1, 2, 3, 6, 33):
        sentence = selection(np.ones(p), .02).explain()
        if p == 1: assert "With one variable there is nothing to filter" in sentence
        else:
            enough = float(sentence.partition("Ask for fdr=")[2].partition(" the next")[0])
            assert len(selection(np.ones(p), enough)) == p > len(selection(np.ones(p), enough - .011))


def test_a_selection_is_a_collection_of_names():
    chosen = selection([9, 8, 7, 6, 5, -1])
    assert len(chosen) == 5 and list(chosen) == ["v0", "v1", "v2", "v3", "v4"]
    assert "v0" in chosen and "v5" not in chosen and "... and 5 more" in repr(selection(np.arange(1, 26)))


def test_a_selection_can_be_used_at_another_rate():
    release = Plain(np.append(np.arange(2, 12), -1.0))
    assert len(select(release, fdr=.2)) == 11 and len(select(release, fdr=.05)) == 0


def test_explain_counts_with_the_offset_in_use():
    W = [9, 8, 7, 6, 5]
    assert "about 0 of them may be false (0/5 <= 0.2)" in selection(W, offset=0).explain()
    assert "about 1 of them may be false (1/5 <= 0.2)" in selection(W, offset=1).explain()


def test_explain_counts_what_is_as_far_below_zero_as_the_threshold():
    W = [9, 8, 7, 6, 5, 5, 5, 5, -5, -2]
    assert "about 2 of them may be false (2/8 <= 0.3)" in selection(W, .3).explain()


def test_explain_does_not_round_the_least_number_of_discoveries_up():
    q = 1 / 49
    assert 1 / q > 49 and len(selection(np.ones(49), q)) == 49
    assert "at least 49 discoveries" in selection(np.ones(48), q).explain()


def test_the_table_is_sorted_and_says_up_or_down():
    lines = repr(selection([5, 9, 7, -1, 6, 8], signs=[-1, 1, -1, 1, 0, 1])).split("\n")
    assert [line.split() for line in lines[1:6]] == [
        ["v1", "W", "=", "9", "up"], ["v5", "W", "=", "8", "up"], ["v2", "W", "=", "7", "down"],
        ["v4", "W", "=", "6", "-"], ["v0", "W", "=", "5", "down"]]


# ---------------------------------------------------------------- tests of groups

GROUPED = Variables.of("abcd", {"g": "bd"})


class InGroups(Release):
    "Estimates of four columns, two of them one variable, and of an intercept"
    method, n, budget, noise, sampler, simulated = "grouped", 100, None, {}, None, False
    columns, groups = ("a", "b", "c", "d"), {"g": ("b", "d")}
    conditions = Conditions("exact", "exact")
    A, b = np.eye(8), np.array([5.0, 3, -4, 4, 0, 0, 0, 0])

    def estimate(self): return Estimate(np.array([5.0, 3, -4, 4, 99]), np.eye(5))


def test_groups_are_selected_as_one_variable():
    release = InGroups()
    assert release.names == ("a", "g", "c") and release.variables == GROUPED
    tests = select(release, rule="bh", fdr=.1)
    assert tests.selected == ("a", "g", "c") and tests.signs.tolist() == [1, 0, -1] and len(tests.W) == 3
    assert np.isclose(tests.W[1], norm.isf(chi2.sf(25, 2) / 2))
    knockoffs = select(release, fdr=.5)
    assert knockoffs.W.tolist() == [5, 5, 4] and knockoffs.signs.tolist() == [1, 0, -1] and "g" in knockoffs
    assert " -" in repr(knockoffs)
    def short(A, b): return np.abs(b[:4]) - np.abs(b[4:])
    assert "3 in all" in refusal(choose, release, statistic=short)


# ---------------------------------------------------------------- tables for programs and for Jupyter

ODD = ("<b>x</b>", '"y" & \'z\'', "年収", "a\nb")


def named(release, *names):
    "The release with other names"
    release.columns = names
    return release


def test_a_frame_has_a_row_a_variable():
    found = select(named(Estimated([3.0, -4, .5]), "a", "b", "c"), rule="bh")
    frame = found.to_frame()
    wanted = "name statistic selected direction estimate se low high pvalue"
    assert list(frame.columns) == wanted.split()
    assert frame["name"].tolist() == ["a", "b", "c"] and frame["direction"].tolist() == ["up", "down", "up"]
    assert frame["selected"].tolist() == [True, True, False] and frame["statistic"].tolist() == [3, 4, .5]
    effects = found.effects
    assert np.allclose(frame["low"][:2], effects.low) and np.allclose(frame["high"][:2], effects.high)
    assert np.allclose(frame["pvalue"], 2 * norm.sf([3, 4, .5])) and (frame["se"] == 1).all()
    width = norm.isf(.05 * 2 / 3 / 2)
    assert np.allclose(frame["high"] - frame["estimate"], width)
    assert found.to_frame("polars")["name"].to_list() == ["a", "b", "c"]


def test_a_frame_without_estimates_has_statistics_only():
    frame = selection([9, 8, -7]).to_frame()
    assert list(frame.columns) == ["name", "statistic", "selected", "direction"]
    assert frame["statistic"].tolist() == [9, 8, -7] and not frame["selected"].any()


def test_a_group_has_a_row_per_column_in_a_frame():
    found = select(InGroups(), rule="bh", fdr=.1)
    frame = found.to_frame().set_index("column")
    own = list(found.release.groups["g"])
    every = {row.name: row for row in found.all_effects()}
    assert (frame.loc[own, "name"] == "g").all() and np.allclose(frame.loc[own, "pvalue"], chi2.sf(25, 2))
    assert frame.loc[own, "low"].tolist() == [every[name].low for name in own]
    assert frame.loc["a", "estimate"] == 5
    assert frame["statistic"].nunique() == len(found.names) and (frame["reference"] == "").all()


def test_html_says_what_was_asked_found_guaranteed_and_spent():
    found = select(named(Estimated([3.0, -4, .5]), "a", "b", "c"), rule="bh", fdr=.1)
    page = found._repr_html_()
    for words in ("2 of 3 variables selected", "FDR of at most 0.1, rule &#x27;bh&#x27;", "Not private: the",
                  "4 coefficients.", "<circle", ">a</td>", "-6."): assert words in page, words
    assert ">c</td>" not in page and "Simulation" not in page
    bars = selection([9, 8, 7, 6, 5, -1])._repr_html_()
    assert "<rect" in bars and "<circle" not in bars and "estimate" not in bars
    nothing = select(Estimated([1.0, .5]), rule="bh")
    assert "0 of 2" in nothing._repr_html_() and "signal and noise" in nothing._repr_html_()
    assert nothing._repr_html_().count("<circle") == 2


def test_html_of_many_names_twenty_and_counts_the_rest():
    page = selection(np.arange(1.0, 31))._repr_html_()
    assert page.count("</tr>") == 21 and "... and 10 more" in page and page.count("<rect") == 20


def test_html_of_groups_is_drawn_too():
    assert select(InGroups(), rule="bh", fdr=.1)._repr_html_().count("<circle") == 2
    everything = InGroups()
    everything.groups = {"g": ("a", "b", "c", "d")}
    assert select(everything, rule="bh")._repr_html_().count("<rect") == 1


def test_odd_names_are_escaped_everywhere():
    found = select(named(Estimated([5.0, -4, 4, 4]), *ODD), rule="bh")
    for page in (found._repr_html_(), found.release._repr_html_(), found.effects._repr_html_()):
        assert "<b>x" not in page and "&lt;b&gt;x" in page and "a\nb" not in page
    nothing = select(named(Estimated([1.0, .4, .4, .4]), *ODD), rule="bh")
    assert "<b>x" not in nothing._repr_html_() + nothing.diagnosis._repr_html_()


def test_a_release_is_shown_briefly_and_a_simulation_says_so():
    release = Estimated([5.0, 4])
    release.budget, release.noise = Budget(.2, 1e-5), {"products": 2.5}
    page = release._repr_html_()
    for words in ("&#x27;plain&#x27;", "100", "v0", "Spent (epsilon=0.2, delta=1e-05)", "products 2.5"):
        assert words in page, words
    assert "Simulation" not in page
    release.simulated = True
    assert SIMULATION.split("(")[0] in release._repr_html_()
    assert "selected. Simulation: NOT private" in select(release, rule="bh")._repr_html_()


# ---------------------------------------------------------------- diagnoses

def subjects(found): return [finding.subject for finding in found.diagnosis]


class Spent(Estimated):
    "A private release whose variance is to a share noise of privacy"
    budget, noise, share = Budget(1.0, 1e-6), {"products": 1.0}, .5

    def noise_share(self, estimate=None): return self.share


def test_a_diagnosis_is_a_list_of_findings_and_plain_data():
    two = Finding("a", "A found.", "Change a."), Finding("<b>", "B found.", "Change b.")
    d = Diagnosis(two, ("the wind",))
    assert len(d) == 2 and list(d) == list(two) and d[0] is two[0]
    assert [list(f.values()) for f in d.to_dicts()] == [list(f[:3]) for f in two]
    assert json.loads(json.dumps(d.to_dicts())) == d.to_dicts()
    assert d.to_frame().columns.tolist() == ["subject", "found", "change"] and len(d.to_frame("polars")) == 2
    assert repr(d).split("\n") == ["1. A: A found. Change a.", "2. <b>: B found. Change b.",
                                   "Not known from this release: the wind."]
    assert "&lt;b&gt;" in d._repr_html_() and "the wind" in d._repr_html_()
    assert repr(Diagnosis(())) == "Nothing stands in the way, as far as the release can tell."
    assert "the wind" in repr(Diagnosis((), ("the wind",))) and not Diagnosis(())


def test_findings_are_ordered_by_their_effect_and_a_release_has_its_say():
    class Told(Estimated):
        unknown = ("the rest",)
        def findings(self, estimate=None):
            assert len(estimate.beta) == 3
            return [Finding("small", "S.", "S.", 1.1), Finding("large", "L.", "L.", 9.0)]
    nothing = select(Told([1.0, .5]), rule="bh")
    assert subjects(nothing) == ["large", "small"]  # nine times |z| = 1 is enough: no more is said
    assert nothing.explain() == "Nothing selected (T = inf). L. L. More: selection.diagnosis."
    assert nothing.diagnosis.unknown == ("the rest",)
    weaker = select(Told([.1, .05]), rule="bh")
    assert subjects(weaker) == ["large", "signal and noise", "small"]
    some = select(Told([9.0, .5]), rule="bh")
    assert subjects(some) == ["large", "small"] and some.explain().startswith("1 of 2")


def test_a_diagnosis_is_a_function_of_the_release():
    release = Estimated([1.0, .5, 2.0, .1])
    texts = {repr(select(release, rule="bh").diagnosis) for _ in range(5)}
    assert len(texts) == 1


@pytest.mark.parametrize("rule, fdr, least", [("knockoffs", .2, 5), ("ebh", .5, 4), ("knockoffs", .1, 10)])
def test_fewer_candidates_than_a_rule_selects(rule, fdr, least):
    class Few(Estimated): conditions = Conditions("exact", "exact", redraws=True)
    def first(p): return select(Few(np.full(p, 9.0)), rule=rule, fdr=fdr).diagnosis
    finding = first(least - 1)[0]
    assert finding.subject == "number of candidates" and "Whatever the data" in finding.found
    assert f"at least {least} discoveries or none, and p={least - 1}." in finding.found
    assert "rule='bh'" in finding.change
    assert not any(f.found.startswith("Whatever") for f in first(least))


def test_few_that_stand_out_are_named_and_the_way_out_works():
    W = np.append([9.0, 8, 7], np.full(20, .1) * (-1)**np.arange(20))
    class Noisy(Plain):
        def __init__(self, W):
            super().__init__(W)
            self.b = np.append(W, stream(0, "noise").standard_normal(len(W)) * .3)
    found = select(Noisy(W))
    (first, *_), rest = found.diagnosis, subjects(found)[1:]
    assert first.found.startswith("Only 3 of 23 variables stand out ('v0', 'v1', 'v2')") and rest == []
    assert first.change == "Ask for fdr=0.34 the next time; after looking, with fdr='any'."
    assert len(select(Noisy(W), fdr=.34)) == len(select(Noisy(W), fdr="any")) == 3
    assert "number of candidates" not in subjects(select(Noisy(W), fdr=.34))
    assert choose(Noisy(W), offset=0).diagnosis.findings == ()


def test_a_penalty_that_leaves_nothing_is_named_only_where_there_is_something():
    rng = stream(1, "penalty")
    class Noisy(Plain):
        statistic = Statistic("lasso", "lcd", 100.0)
        def __init__(self, W):
            super().__init__(W)
            self.b = self.b + rng.standard_normal(2 * len(W))
    strong, weak = Noisy(np.full(10, 9.0)), Noisy(np.zeros(10))
    assert subjects(select(strong)) == ["penalty"] and subjects(select(weak)) == ["signal and noise"]
    assert subjects(choose(strong, statistic=Statistic("lasso", "lcd", 1.0))) == []


def test_knockoffs_that_are_copies_are_told():
    Sigma, rng = .93 + .07 * np.eye(12), stream(2, "copies")
    class Close(Plain):
        def __init__(self, s):
            super().__init__(np.zeros(12))
            self.A = gram(Sigma, np.full(12, s))
            self.b = np.linalg.cholesky(self.A + 1e-9 * np.eye(24)) @ rng.standard_normal(24)
    assert "knockoffs" in subjects(select(Close(.02))) and "knockoffs" not in subjects(select(Close(.07)))
    assert "s='mvr'" in select(Close(.02)).diagnosis[0].change


def test_a_small_rate_is_named_if_a_usual_one_would_do():
    class Noisy(Estimated): conditions = Conditions("exact", "exact", redraws=True)
    z = np.append([2.6, 2.4, 2.3], np.zeros(7))
    assert subjects(select(Noisy(z), rule="bh", fdr=.001))[0] == "error rate"
    assert "something from fdr=0.071 on" in select(Noisy(z), rule="bh", fdr=.001).diagnosis[0].found
    assert "error rate" not in subjects(select(Noisy(z / 5), rule="bh", fdr=.001))
    assert "error rate" not in subjects(select(Noisy(z), rule="bh", fdr=.2))
    assert len(select(Noisy(z), rule="bh", fdr=.072)) == 3


def test_a_pair_that_hides_an_effect_is_the_first_finding_and_one_that_hides_none_is_not():
    class Pair(Release):
        method, n, budget, noise, sampler, simulated = "pair", 100, None, {}, None, False
        columns, conditions, rule = tuple("abcd"), Conditions(normal="exact"), BH()
        def __init__(self, beta): self.beta = np.array(beta)
        def collinear(self): return [("a", "b", -.987)]
        def estimate(self):
            V = np.eye(4)
            V[:2, :2] = np.linalg.inv([[1, -.987], [-.987, 1]])
            return Estimate(self.beta, V)
    hidden = select(Pair([3.0, -3.0, .1, 0]))
    assert subjects(hidden) == ["collinear columns"]
    assert "'a', 'b' are nearly collinear (correlation -0.987)" in hidden.explain()
    assert "together" in hidden.explain() and "group" in hidden.explain()
    absent = select(Pair([.1, -.1, .1, 0]))
    assert subjects(absent) == ["signal and noise", "collinear columns"]
    together = Pair([3.0, -3.0, .1, 0])
    together.groups = {"g": ("a", "b")}
    assert select(together).selected == ("g",) and subjects(select(together)) == []


@pytest.mark.parametrize("share, rows, epsilon", [(1.0, 2.0, 2.0), (0.0, 4.0, None), (.5, 2.73, None)])
def test_the_factors_by_which_rows_and_budget_must_grow(share, rows, epsilon):
    "Half the |z| that is needed: sampling noise wants four times the rows, noise of privacy twice"
    need = norm.isf(.2 / 2 / 2)
    release = Spent([need / 2, 0])
    release.share = share
    finding = select(release, rule="bh").diagnosis[0]
    assert f"About {rows:.2g} times the rows" in finding.change
    assert ("times epsilon" in finding.change) == (epsilon is not None)
    if epsilon: assert f"or {epsilon:.2g} times epsilon" in finding.change
    left = (1 - share) / rows + share / rows**2
    assert np.isclose(left, .25, atol=.01)


def test_rough_estimates_are_those_of_least_squares_and_their_noise_is_seen():
    rng = stream(3, "rough")
    Sigma = .4 + .6 * np.eye(40)
    A = gram(Sigma, np.full(40, .5))
    root = np.linalg.cholesky(A)
    beta = np.append(rng.standard_normal(40), np.zeros(40))
    levels = []
    for _ in range(40):
        b = A @ beta + 3 * root @ rng.standard_normal(80)
        found, V = _rough_estimate(A, b)
        assert np.allclose(found, np.linalg.solve(Sigma, b[:40]))
        levels.append(V[0, 0] / np.linalg.inv(Sigma)[0, 0])
    assert abs(np.mean(levels) / 9 - 1) < 6 * np.sqrt(2 / 40 / 40)


def test_pairs_are_those_above_the_limit_the_closest_first():
    G = np.eye(4)
    for i, j, r in ((0, 1, .96), (2, 3, -.99), (0, 2, .94)): G[i, j] = G[j, i] = r
    found = collinear_pairs(tuple("abcd"), G)
    assert [pair[:2] for pair in found] == [("c", "d"), ("a", "b")] and found[0][2] == -.99
    assert collinear_pairs(tuple("abcd"), G, .03) == []


# ---------------------------------------------------------------- what used to hurt

def people(n=20_000):
    "Age, pay and a constant column, in their own units; an effect of age and of pay"
    rng = stream(4, "people")
    age, pay = rng.uniform(20, 60, n), rng.uniform(0, 80_000, n)
    y = 30 + .5 * age + 2e-4 * pay + rng.normal(0, 5, n)
    noise, same = rng.uniform(0, 1, n), np.full(n, 4.0)
    return pd.DataFrame({"age": age, "pay": pay, "noise": noise, "same": same, "y": y})


BOUNDS = {"epsilon": 2.0, "delta": 1e-6, "row_bound": 1.5, "response_bound": 30.0, "response_center": 60.0,
          "simulation": True, "random_state": 0}
RANGES = {"age": (20, 60), "pay": (0, 80_000), "noise": (0, 1), "same": (0, 5)}


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "exact"])
def test_fifty_selections_from_one_release_are_one_answer(rule):
    release = ask("moments", people(4000), "y", ranges=RANGES, **BOUNDS).release
    answers = {(found.selected, found.W.tobytes(), found.explain())
               for found in (select(release, rule=rule) for _ in range(50 if rule != "ebh" else 5))}
    assert len(answers) == 1


def test_coefficients_are_named_and_in_the_units_of_the_data():
    found = ask("moments", people(), "y", ranges=RANGES, **BOUNDS)
    frame = found.to_frame().set_index("name")
    assert found.selected == ("age", "pay") and found.effects.names == ("age", "pay")
    for name, truth in (("age", .5), ("pay", 2e-4)):
        row = frame.loc[name]
        assert row["low"] < truth < row["high"] and row["se"] < truth / 5
    assert abs(frame.loc["age", "estimate"] / .5 - 1) < .1


@pytest.mark.parametrize("seed", range(4))
def test_a_constant_column_is_never_selected_and_is_named(seed):
    options = {**BOUNDS, "random_state": seed}
    found = ask("moments", people(), "y", ranges=RANGES, **options)
    assert "same" not in found
    assert found.diagnosis[0].subject == "constant columns"
    assert found.diagnosis[0].change.startswith("Delete 'same' if constant")
    assert "'same'" in refusal(knockoff_filter, people(), "y")


def test_a_large_delta_is_warned_of():
    options = {**BOUNDS, "delta": .5, "simulation": False, "random_state": None}
    with pytest.warns(UserWarning, match="delta=0.5 is above 1/n"):
        ask("moments", people(4000), "y", ranges=RANGES, **options)


@pytest.mark.parametrize("rule, factor", [("bh", 1), ("by", 1), ("knockoffs", 2**.5), ("ebh", 2**.5)])
def test_what_a_rule_asks_of_a_variable(rule, factor):
    "A p-value of q / p, for BY less; a knockoff doubles the variance"
    class Weak(Estimated): conditions = Conditions("exact", "exact", redraws=True)
    q = .2 / (1 + 1 / 2 + 1 / 3) if rule == "by" else .2
    release = Weak(np.full(3 if rule == "by" else 30, .1))
    release.b[len(release.columns):] = .2  # no knockoff is beaten
    found = select(release, rule=rule)
    need = factor * norm.isf(q / len(found.W) / 2)
    assert f"should reach about {need:.2g}" in found.diagnosis[0].found


def test_a_release_that_shows_nothing_at_all_has_a_diagnosis():
    class Empty(Plain):
        def __init__(self, p):
            super().__init__(np.zeros(p))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert subjects(select(Empty(4))) == ["number of candidates"]
        assert subjects(select(Empty(9))) == ["signal and noise"] and select(Empty(9))._repr_html_()


def test_a_factor_of_two_levels_shows_its_effect():
    "It is one column, whatever its name; a factor of three has no single effect"
    rng = stream(0, "two levels")
    table = pd.DataFrame({"sex": rng.choice(["m", "f"], 4000), "place": rng.choice(["a", "b", "c"], 4000)})
    table["wage"] = 2.0 * (table.sex == "m") + 1.0 * (table.place == "b") + rng.standard_normal(4000)
    columns = {"sex": {"levels": ["f", "m"]}, "place": {"levels": list("abc")}, "wage": {"range": [-4, 6]}}
    found = ask("moments", table, dictionary={"target": "wage", "columns": columns}, epsilon=5.0, delta=1e-5,
                           simulation=True, random_state=0)
    assert set(found.selected) == {"sex", "place"}
    lines = {line.split()[0]: line for line in str(found).splitlines() if "|z| =" in line}
    assert lines["sex"].endswith("), sex=m (against f)") and " to " not in lines["place"]


def test_the_best_rate_of_e_values_is_the_smallest_that_selects_anything():
    rng = np.random.default_rng(0)
    for _ in range(50):
        e = np.exp(rng.normal(0, 2, rng.integers(1, 12)))
        best = EBH().best_rate(e)
        assert ebh_threshold(e, best * 1.0001) < np.inf == ebh_threshold(e, best * .9999)


@pytest.mark.parametrize("noise, told", [(.6, False), (.01, True)])
def test_a_mean_that_noise_explains_is_no_wrong_centre(noise, told):
    "Responses 1 from their centre that spread by .1, as a release sees them"
    clip, n = Clip(1.0, 1.0), 100.0
    seen = dict(products=np.array([[0, clip.one * n]]), product_sds=np.array([noise * clip.one * n]),
                squares=np.array([1.01 * n]), square_sds=np.zeros(1), starts=np.zeros((1, 2)))
    release = SimpleNamespace(clip=clip, weights=n, lost_intercept=False, yes_or_no=False, **seen)
    assert bool(_center(release, .5)) == told
