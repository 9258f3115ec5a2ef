"The audit: known values, what it must catch, and the package's own releases."
import contextlib
import io
import json
import os
import warnings
from dataclasses import replace
from datetime import datetime
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, laplace, norm

from dp_knockoff.core.errors import InputError, stream
from dp_knockoff.core.testing import fires, refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.data import clip as clip_module
from dp_knockoff.data import dictionary as dictionary_module
from dp_knockoff.data import moments as moments_module
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.evidence.audit import (
    Draw,
    Leak,
    RecordingSampler,
    ReplayingSampler,
    _assert_white,
    _difference,
    _distances,
    _privacy_loss,
    _squared_distance,
    _worst_pair,
    audit_release,
    epsilon_lower_bound,
    record,
    replay,
)
from dp_knockoff.filters import labels_method as method_labels
from dp_knockoff.filters import moments_method as method_moments
from dp_knockoff.filters import private_moments
from dp_knockoff.filters import products_method as products_module
from dp_knockoff.filters.estimate import PrivateMoments
from dp_knockoff.filters.labels_method import LabelsMethod
from dp_knockoff.filters.methods import ask
from dp_knockoff.filters.moments_method import ROUNDS, MomentsMethod
from dp_knockoff.filters.private_moments import (
    BALANCE,
    CHECK,
    SIZES,
    VARIANCES,
    WEIGHTS,
    free_weight,
    moment_shares,
)
from dp_knockoff.filters.products_method import ProductsMethod, _Pairs
from dp_knockoff.knockoffs import laws
from dp_knockoff.knockoffs.laws import Gaussian, Kernel, law_units
from dp_knockoff.practice import cli
from dp_knockoff.practice import selector as selector_module
from dp_knockoff.practice.report import _report_html
from dp_knockoff.practice.selector import DPKnockoffSelector
from dp_knockoff.privacy import ledger as ledger_module
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio, gaussian_divergence
from dp_knockoff.privacy.samplers import NumpySampler, SecureSampler, as_sampler
from dp_knockoff.selection.diagnosis import Finding
from dp_knockoff.selection.release import select

X, Y, _ = linear_model(120, 3, 2, random_state=3)
PUBLIC = dict(epsilon=1.0, delta=.1, row_bound=2.0, response_bound=6.0, intercept=False)
ONE_ROUND = {**PUBLIC, "rounds": 1}
PRIVATE = {**PUBLIC, "row_bound": "private", "response_bound": "private"}
SEARCHED = {**PRIVATE, "response_center": "private", "intercept": True}
LABELS = dict(epsilon=1.0, delta=.1, response_bound=6.0, sigma=1.0, intercept=False)


def first_row(x, t): return np.vstack([x, X[1:]]), np.append(t, Y[1:])


PAIRS = {"worst": _worst_pair(X, Y, 2.0, 6.0),
         "long": (first_row([1e3, 0, 0], 5.0), first_row([0, 1e3, 0], -5.0)),
         "large": (first_row([2, 0, 0], 1e5), first_row([2, 0, 0], -1e5)),
         "all or nothing": (first_row([1e6] * 3, 1e6), first_row([0] * 3, 0.0))}
PAIRS["every draw"] = first_row([1e9, 0, 0], 1e18), first_row([0, 2, 0], 0.0)
PAIRS["whole rows"] = first_row([1.9999, 0, 0], 1e18), first_row([0, 1.9999, 0], 0.0)
PAIRS["two sizes"] = first_row([1.9999, 0, 0], 1e18), first_row([-1.9999, 0, 0], -3.0)
PAIRS["among short rows"] = tuple((np.vstack([x[:1], .01 * x[1:]]), y) for x, y in PAIRS["all or nothing"])


def run_moments(X, y, sampler): return MomentsMethod(**SEARCHED).release(X, y, sampler=sampler)


# ---------------------------------------------------------------- the instruments

def two_draws(sampler, data):
    sampler.laplace(data, 2.0, "a")
    return sampler.gaussian([data, 1.0], 3.0, "b")


def test_losses_are_log_ratios_of_densities():
    first = RecordingSampler(NumpySampler(0))
    two_draws(first, 1.0)
    second = ReplayingSampler(first)
    two_draws(second, 4.0)
    (a, b), (c, d) = first.draws, second.draws
    by_hand = laplace.logpdf(a.output, 1.0, 2.0) - laplace.logpdf(a.output, 4.0, 2.0)
    by_hand += norm.logpdf(b.output[0], 1.0, 3.0) - norm.logpdf(b.output[0], 4.0, 3.0)
    assert np.isclose(_privacy_loss(first.draws, second.draws), by_hand)
    assert (c.output == a.output).all() and (d.output == b.output).all()
    assert np.isclose(a.log_density, laplace.logpdf(a.output, 1.0, 2.0))
    assert np.isclose(b.log_density, norm.logpdf(b.output, [1.0, 1.0], 3.0).sum())
    assert np.allclose(_distances(first.draws, second.draws), [1.5, 1.0])
    assert first.name == second.name == NumpySampler.name
    assert np.allclose(b.noise, (b.output - [1.0, 1.0]) / 3) and as_sampler(first) is first
    assert first.private is second.private is False


def on_lattice(sampler, values): return sampler.lattice(values, [2e6, 5e6, 2e6], "c")


def test_lattice_draws_are_integers_with_a_scale_for_each_entry():
    first = RecordingSampler(NumpySampler(0))
    out = on_lattice(first, np.array([1, 2**60, 3]))
    second = ReplayingSampler(first)
    assert (on_lattice(second, np.array([2_000_001, 2**60 + 5_000_000, 3])) == out).all()
    (a,), (b,) = first.draws, second.draws
    assert a.law == "lattice" and a.value.dtype == a.output.dtype == b.output.dtype == np.int64
    assert np.isclose(a.log_density, norm.logpdf(a.noise).sum() - np.log([2e6, 5e6, 2e6]).sum())
    assert np.isclose(_distances([a], [b]), np.sqrt(2))
    assert _squared_distance([a], [b]) == 2 and isinstance(_squared_distance([a], [b]), Fraction)
    loss = ((b.output - b.value)**2 / b.scale**2).sum() - ((a.output - a.value)**2 / a.scale**2).sum()
    assert np.isclose(_privacy_loss([a], [b]), loss / 2)


def test_squared_distances_do_not_round():
    def draw(value, scale=1e3): return [Draw("a", "lattice", np.array(value), np.array(scale), np.array(0))]
    big = 2**62
    assert _squared_distance(draw([big, 0]), draw([big - 1, 0])) == Fraction(1, 10**6)
    assert _squared_distance(draw(0, .1), draw(1, .1)) == 1 / Fraction(.1)**2 != 100
    assert _squared_distance(draw(5), draw(5)) == 0 and _squared_distance(draw(0), draw(0, 2e3)) == np.inf
    assert _squared_distance(draw(0, [1e3, 0.0]), draw([0, 1], [1e3, 0.0])) == np.inf
    together = _squared_distance(draw(0) + draw([1, 2]), draw(3) + draw([1, 0]))
    assert together == Fraction(9 + 4, 10**6)


def test_one_step_beyond_the_promise_is_too_much():
    def run(X, y, sampler, epsilon, delta, excess):
        scale = 2.0**36 / analytic_ratio(Budget(epsilon, delta)) * (1 + 2.0**-50)
        sampler.lattice(np.int64(X[0, 0] * 2**36) + (X[0, 0] > 0) * excess, scale, "a")
    one, two = ((np.array([[x], [1.0]]), np.zeros(2)) for x in (0.0, 1.0))
    def audited(excess): return audit_release(one, two, epsilon=1.0, delta=1e-6, run=run, excess=excess)
    assert audited(0).ok and audited(-5).ok and not audited(5).ok # of 2^36, that is 7e-11
    assert np.isclose(audited(5).divergence, 1e-6, rtol=1e-6)
    some = replace(audited(0), squares=(*audited(0).squares, *audited(5).squares))
    assert not some.ok # one transcript is enough


def test_scales_that_differ_or_vanish_are_infinitely_far():
    def draw(scale, value):
        recorder = RecordingSampler(NumpySampler(0))
        recorder.gaussian(value, scale, "a")
        return recorder.draws
    assert _distances(draw(1.0, 0.0), draw(2.0, 0.0)) == np.inf
    assert _distances(draw(0.0, 0.0), draw(0.0, 1.0)) == np.inf
    assert _distances(draw(0.0, 1.0), draw(0.0, 1.0)) == 0
    def bare(x, y, sampler): sampler.gaussian(x, 0.0, "a")
    first = record(bare, (1.0, 0), NumpySampler(0))
    assert _privacy_loss(first.draws, replay(bare, (2.0, 0), first).draws) == np.inf


@pytest.mark.parametrize("second, words", [
    (lambda s: s.gaussian(0.0, 1.0, "b"), "'b'"), (lambda s: s.laplace(0.0, 1.0, "a"), "laplace"),
    (lambda s: s.gaussian([0.0, 1.0], 1.0, "a"), r"\(2,\)"), (lambda s: None, "1 draws on one dataset, 0"),
    (lambda s: (s.gaussian(0.0, 1.0, "a"), s.gaussian(0.0, 1.0, "a")), "nothing more"),
    (lambda s: s.gaussian(0.0, 1.0, "a") + 1, "another result"),
], ids=["purpose", "law", "shape", "none", "two", "result"])
def test_whatever_else_differs_is_a_leak(second, words):
    def run(which, _, sampler): return which(sampler)
    first = record(run, (lambda s: s.gaussian(0.0, 1.0, "a"), 0), NumpySampler(0))
    with pytest.raises(Leak, match=words): replay(run, (second, 0), first)


@pytest.mark.parametrize("a, b, same", [
    (1.0, 1.0, True), (np.nan, np.nan, True), (0.0, -0.0, False), (1.0, 1, False), ((1, 2), (1, 2), True),
    ((1, 2), (1,), False), ({"a": 1}, {"b": 1}, False), (np.zeros(2), np.zeros(2), True),
    (np.zeros(2), np.zeros(3), False), (np.array([1.0]), np.array([1.0 + 1e-16 * 3]), False),
    ("a", "a", True), (None, None, True), (Budget(1.0), Budget(1.0), True), (Budget(1.0), Budget(2.0), False),
    ([{"a": np.ones(1)}], [{"a": np.zeros(1)}], False),
])
def test_outcomes_are_compared_bit_by_bit(a, b, same):
    assert (_difference(a, b) == "") == same


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0, .5), st.floats(1e-6, .5))
@settings(max_examples=12)
def test_epsilon_bound_is_made_of_clopper_pearson_ends(a, b, delta, alpha):
    def ends(k): return binomtest(k, 60).proportion_ci(1 - alpha / 2)
    ratios = [1.0]
    for one, two in ((a, b), (b, a), (60 - a, 60 - b), (60 - b, 60 - a)):
        ratios.append((ends(one).low - delta) / ends(two).high)
    assert np.isclose(epsilon_lower_bound(a, b, 60, delta, alpha), np.log(max(ratios)), atol=1e-9)


def test_epsilon_bound_at_the_ends_and_its_refusals():
    assert epsilon_lower_bound(0, 0, 100, .1) == 0 == epsilon_lower_bound(50, 50, 100, 0.0)
    assert epsilon_lower_bound(1000, 0, 1000, .1) == epsilon_lower_bound(0, 1000, 1000, .1) > 3
    assert epsilon_lower_bound(80, 20, 100, 0.0) == epsilon_lower_bound(20, 80, 100, 0.0)
    for bad, words in (((5, 1, 3, .1), "more than trials"), ((-1, 1, 3, .1), "hits_1"),
                       ((1, 1, 0, .1), "trials"), ((1, 1, 3, -1), "delta"), ((1, 1, 3, .1, 0), "alpha")):
        assert words in refusal(epsilon_lower_bound, *bad)


def test_white_noise():
    z = stream(0, "white").standard_normal((200, 8))
    assert 0 < _assert_white(z) < .4
    twice = z.copy()
    twice[:, 3] = z[:, 5]
    for bad in (twice, 1.2 * z, .8 * z, z + .3, np.sign(z), np.cumsum(z, axis=1) / np.sqrt(np.arange(1, 9))):
        assert fires(_assert_white, bad)


def test_audits_refuse_what_is_no_pair():
    def run(one, two, **kw): return refusal(audit_release, one, two, **{**PUBLIC, **kw})
    assert "differ in 0 rows" in run((X, Y), (X, Y)) and "differ in 120" in run((X, Y), (X, Y + 1))
    assert "shapes" in run((X, Y), (X[1:], Y[1:]))
    assert "drew nothing" in run(*PAIRS["worst"], fdr=7, run=partial(ask, "moments"))
    assert "transcripts=0" in run(*PAIRS["worst"], transcripts=0)
    two_rows = np.where(np.arange(120) < 2, Y + 1, Y)
    assert "differ in 2 rows" in run((X, Y), (X, two_rows))
    assert "at most rows_per_person=2" in run((X, Y), (X, Y + 1), rows_per_person=2)
    assert audit_release((X, Y), (X, two_rows), **PUBLIC, rows_per_person=2).ok


def test_tables_can_be_audited():
    import pandas as pd
    one, two = (pd.DataFrame(np.column_stack(pair), columns=list("abcy")) for pair in PAIRS["worst"])
    found = audit_release((one, "y"), (two, "y"), **PUBLIC, transcripts=2)
    assert np.isclose(found.mu, audit_release(*PAIRS["worst"], **PUBLIC, transcripts=2).mu)
    assert "kept" in repr(found) and "sizes 0" in repr(found)


# ---------------------------------------------------------------- the package's releases

ENTRIES = st.lists(st.floats(-1e300, 1e300), min_size=8, max_size=8)


@given(ENTRIES, st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 9))
@settings(max_examples=40)
def test_no_neighbours_are_further_apart_than_allowed(v, rounds, private, intercept, seed):
    one, two = first_row(v[:3], v[3]), first_row(v[4:7], v[7])
    if (one[0] == two[0]).all() and (one[1] == two[1]).all(): return
    bounds = dict(row_bound="private", response_bound="private") if private else {}
    if private and intercept: bounds["response_center"] = "private"
    options = {**PUBLIC, **bounds, "intercept": intercept, "rounds": rounds}
    found = audit_release(one, two, **options, transcripts=1, random_state=seed)
    assert found.ok and max(found.squares) <= Fraction(found.allowed)**2


def test_one_round_is_tight():
    "The worst pair moves moments, count and weights, each by all that it can"
    found = audit_release(*PAIRS["worst"], **{**ONE_ROUND, "delta": 1e-6})
    assert found.ok and .99999 < found.ratio <= 1 and .9998e-6 < found.divergence <= 1e-6
    assert np.allclose(found.losses.mean(), found.mu**2 / 2, atol=5 * found.mu / np.sqrt(10))
    assert found.purposes == ("moments", "clamped responses", "weights")
    assert np.allclose(found.distances**2 / found.allowed**2, [.98, .01, .01], rtol=2e-5)


@pytest.mark.parametrize("balance", [.3, .6, 1.0, BALANCE, 3.0])
def test_a_pair_that_moves_the_square_is_as_far_apart_as_the_worst(balance):
    "As the square is as precise as it may be for free: orthogonal rows at any balance, or the corner"
    corner = first_row([1e9, 0, 0], 1e18), first_row([-2, 0, 0], 6 * (np.sqrt(5) - 2))
    pair = corner if balance == .3 else PAIRS["every draw"]
    found = audit_release(*pair, **ONE_ROUND, balance=balance, transcripts=1)
    assert found.ok and found.ratio > .99999


def most(c, rounds):
    "Share of mu^2 of a pair of full length with cosine c, in all draws but the weights; one t at its bound"
    v = np.linspace(0, 1, 201)
    def part(g, h, bound2): return (2 * g * (1 - c**2) + h * (1 + v**2 + 2 * c * v)
                                    + free_weight(g, h) * (1 - v**2)**2) / bound2
    h = BALANCE**-2
    first, *later, last = moment_shares(rounds)
    residuals = part(0, 1, 4)
    total = SIZES + first * part(1, h, 2 + 2 * h + h**2 / 2).max() + sum(later) * residuals.max()
    return total + (last * residuals + VARIANCES * (1 + v**4 - 2 * c**2 * v**2) / 2).max()


LOWEST = np.full((120, 3), 1e-9), np.zeros(120)  # all probes of a search go down, nothing is ever fitted


def draws_of_every_kind_moved(options):
    "Along a transcript without noise: of a row of full length with a large response, and of another with 0"
    def run(X, y, sampler): return MomentsMethod(**options).release(X, y, sampler=sampler)
    script = record(run, LOWEST, Silent(0))
    bound = script.outcome.clip.row_bound * .99999
    pair = first_row([bound, 0, 0], 1e18), first_row([0, bound, 0], 0.0)
    return [replay(run, data, script).draws for data in pair]


@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_several_rounds_come_close_to_what_one_pair_can_spend(rounds):
    "Whole rows move all draws but the weights, which only scaled rows move, and those have small residuals"
    ceiling = max(most(c, rounds) for c in np.linspace(0, 1, 101))
    first, second = draws_of_every_kind_moved({**PUBLIC, "rounds": rounds})
    spent = _squared_distance(first, second) / Fraction(WHOLE)**2
    assert .94 * ceiling < spent < ceiling < 1
    later = [f"{what} {k}" for k in range(1, rounds) for what in ("sizes", "residuals")]
    assert [d.purpose for d in first] == ["weights", "sizes 0", "moments", *later, "variances"]


def allotted(purpose, rounds):
    "The share of mu^2 that is announced for a draw"
    shares, (what, *number) = moment_shares(rounds), purpose.split()
    return dict(moments=shares[0], residuals=shares[int(number[0])] if what == "residuals" else 0,
                sizes=SIZES / rounds, clamped=CHECK, weights=WEIGHTS, variances=VARIANCES)[what]


def within_shares(audit, rounds):
    "Does every draw keep to its own share? With public bounds"
    shares = np.array([allotted(purpose, rounds) for purpose in audit.purposes])
    return bool((audit.distances**2 <= shares * audit.allowed**2 * (1 + 1e-9)).all())


def test_shares_add_up():
    for rounds in (2, 4, 9):
        draws = ["moments", "weights", "variances", *(f"sizes {k}" for k in range(rounds)),
                 *(f"residuals {k}" for k in range(1, rounds))]
        assert np.isclose(sum(allotted(purpose, rounds) for purpose in draws), 1)
    assert np.isclose(sum(allotted(purpose, 1) for purpose in ("moments", "clamped responses", "weights")), 1)


HARD = [ONE_ROUND, PUBLIC, PRIVATE, SEARCHED,
        {**PRIVATE, "intercept": True, "ranges": {"x1": (-1, 7)}, "response_center": 2.0}]


@pytest.mark.parametrize("options", HARD, ids=["one round", "all rounds", "private", "centre", "ranges"])
@pytest.mark.parametrize("name", PAIRS)
def test_hard_pairs(options, name):
    audit = audit_release(*PAIRS[name], **options, transcripts=4)
    assert audit.ok and (options["row_bound"] == "private" or
                         within_shares(audit, options.get("rounds", ROUNDS)))


def test_all_that_a_selection_knows_was_drawn():
    def run(X, y, sampler): return ask("moments", X, y, **SEARCHED, sampler=sampler)
    rng = np.random.default_rng(0)
    for k in range(10):
        first = record(run, (X, Y), NumpySampler(k))
        second = replay(run, (rng.standard_cauchy(X.shape) * 1e3, rng.integers(0, 2, len(Y))), first)
        assert _difference(first.outcome, second.outcome) == "" and isinstance(first.outcome.W, np.ndarray)
    def labels(y, _, sampler): return ask("labels", X, y, **LABELS, sampler=sampler)
    first = record(labels, (Y, None), NumpySampler(0))
    second = replay(labels, (rng.standard_cauchy(len(Y)), None), first)
    assert second.outcome.selected == first.outcome.selected


UNSCALED = LABELS | {"row_bound": float(np.linalg.norm(X, axis=1).max())}  # no row is scaled


def flipped_longest(size):
    "Two sets of responses that differ as far as they can, in the longest row"
    longest = np.argmax(np.linalg.norm(X, axis=1))
    return tuple((X, np.where(np.arange(len(Y)) == longest, value, Y)) for value in (size, -size))


def test_labels_are_tight_and_safe():
    found = audit_release(*flipped_longest(1e100), run=partial(ask, "labels"), **UNSCALED)
    assert found.ok and .999999 < found.mu / found.allowed < 1 + 1e-12


def test_responses_of_a_person_are_protected_together():
    pair = [tuple(np.concatenate([part, part[longest]]) for part in data)
            for data in flipped_longest(1e9)
            for longest in [[np.argmax(np.linalg.norm(X, axis=1))] * 2]]
    found = audit_release(*pair, run=partial(ask, "labels"), **UNSCALED, rows_per_person=3)
    assert found.ok and found.ratio > .999999
    def alone(X, y, rows_per_person, **options): return ask("labels", X, y, **options)
    assert audit_release(*pair, run=alone, **LABELS, rows_per_person=3).ratio > 2.99


@pytest.mark.parametrize("value", [1.0, 1e200])
def test_labels_refuse_nothing_that_depends_on_responses(value):
    def run(X, y, sampler): return ask("labels", X, y, **LABELS, sampler=sampler)
    for y in (np.zeros(len(Y)), value * np.eye(len(Y))[0]): assert record(run, (X, y), NumpySampler(0)).draws


def test_a_narrow_range_does_not_refuse_large_values():
    pair = first_row([1e300, 0, 0], 1.0), first_row([0, 0, 0], 1.0)
    assert audit_release(*pair, **PUBLIC, ranges={"x0": (-1e-10, 1e-10)}).ok


def test_secure_noise_is_recorded_alike():
    options = {**PUBLIC, "delta": 1e-3}
    def run(X, y, sampler): return ask("moments", X, y, **options, rounds=2, sampler=sampler)
    first = record(run, (X, Y), SecureSampler())
    assert "OpenDP" in first.outcome.notes[-1] and first.outcome.release.sampler == SecureSampler.name
    assert first.private and not first.outcome.release.simulated
    assert (replay(run, PAIRS["worst"][0], first).outcome.W == first.outcome.W).all()


def test_noise_of_rounds_is_fresh(monkeypatch):
    def run(X, y, sampler): return MomentsMethod(**PUBLIC).release(X, y, sampler=sampler)
    def noise():
        recorded = [record(run, (X, Y), NumpySampler(k)).draws for k in range(80)]
        return np.array([np.concatenate([draw.noise for draw in draws]) for draws in recorded])
    _assert_white(noise())
    def shared(self, purpose): return stream(self.random_state, "noise")
    def one_seed(self, purpose): return stream(0, purpose)
    for reused in (shared, one_seed):
        monkeypatch.setattr(NumpySampler, "_rng", reused)
        assert fires(_assert_white, noise())


def test_random_names_are_not_compared_but_counted():
    def run(X, y, sampler): return MomentsMethod(**PUBLIC).release(X, y, sampler=sampler)
    one, two = (record(run, (X, Y), NumpySampler(0)).outcome for _ in range(2))
    assert one.ids != two.ids and _difference(one, two) == ""
    assert "ids" in _difference(one, replace(two, ids=(*two.ids, "another")))


# ---------------------------------------------------------------- mutants of the package: each must be caught

CLIPPED = clip_module.clipped_rows
SENSITIVITY = private_moments.joint_sensitivity
QUANTILE = private_moments.private_quantile
CENTER = private_moments.private_center
NOISY = private_moments.noisy_moments
LATER = private_moments.noisy_products
NOISY_VARIANCES = private_moments.noisy_variances
SIZE_NOISE = private_moments.noisy_sizes
UNIT = private_moments.on_directions
RELEASE_ROUNDS = method_moments.release_rounds
WHOLE = analytic_ratio(Budget(1.0, .1))


class Silent(NumpySampler):
    def lattice(self, value, scale, purpose): return np.asarray(value)


def unscaled(X, y, clip, center, scale, limits=None, rows=True):
    Z = np.column_stack([(X - center) / scale, np.ones((len(y), int(clip.intercept)))])
    t = y - clip.response_center - (Z @ clip.start if clip.start else 0)
    clamped = int((np.abs(t) > clip.response_bound).sum())
    return Z, np.clip(t, -clip.response_bound, clip.response_bound), np.ones(len(y)), (0, clamped)


def unclamped(X, y, clip, *how, **more):
    Z, t, w, cut = CLIPPED(X, y, replace(clip, response_bound=1e140), *how, **more)
    return Z, t, w, (cut[0], int((np.abs(t) > clip.response_bound).sum()))


def y_not_scaled(X, y, clip, *how, **more):
    Z, _, w, cut = CLIPPED(X, y, clip, *how, **more)
    return Z, y - (Z @ clip.start if clip.start else 0), w, cut


def one_clips_all(X, y, clip, *how, **more):
    with np.errstate(over="ignore"): wild = not np.isfinite(np.linalg.norm(X, axis=1)).all()
    return CLIPPED(np.clip(X, -1e150, 1e150) if wild else X, y, clip, *how, **more)


def steps(Z, t, clip): return np.column_stack([Z / clip.row_step, t / clip.response_step])
def unchecked(Z, t, clip): return np.rint(steps(Z, t, clip))
def coarse(Z, t, clip): return 2 * np.rint(steps(Z, t, clip) / 2)
def full_length(self, width): return self.design_bound
def cross_term_forgotten(g, h): return np.sqrt(2 * g + 2 * h) if h <= 2 * g else 2 * np.sqrt(h)
def one_part(g, h): return np.sqrt(2 * g) if g else 2 * np.sqrt(h)
def heavier_square(g, h): return 1.1 * free_weight(g, h)
def not_split(sums, units, mu, *more): return NOISY(sums, units, WHOLE, *more)
def later_not_split(sums, units, mu, *more): return LATER(sums, units, WHOLE, *more)
def leaking(sums, *more): return {**NOISY(sums, *more), "gram_sd": float(np.trace(sums))}
def no_count_noise(count, sd, sampler, purpose): return float(count)
def no_weight_noise(weights, sd, sampler): return float(weights) / 2**18
def no_size_noise(counts, sd, sampler, purpose): return np.array(counts, dtype=float)
def sizes_of_one_bin(counts, sd, *more): return SIZE_NOISE(counts, sd / np.sqrt(2), *more)
def less_variance_noise(sums, clip, q, mu, sampler): return NOISY_VARIANCES(sums, clip, q, 2 * mu, sampler)
def no_longest_sum(directions): return 1.0
def long_directions(Q): return 2 * UNIT(Q)
def largest_entry_1(Q): return np.trunc(Q / np.abs(Q).max(-1, keepdims=True) * 2**24)
def center_past_the_sampler(source, mu, sampler): return CENTER(source, mu, Silent(0))


def residuals_once(rounds):
    "All later rounds share nothing: each takes what is there for all of them"
    first, *later = moment_shares(rounds)
    return [first] + [sum(later)] * len(later)


def sizes_once(counts, sd, sampler, purpose): return SIZE_NOISE(counts, sd / np.sqrt(3), sampler, purpose)


def sums_of(residual):
    "The sums of a round whose scaled residuals are made by another rule"
    def sums(X, y, bound, seen, directions, gram):
        Z, t, w, _ = bound(X, y)
        A = np.rint(steps(Z, residual(t, w, seen), seen.clip))
        products = (A.T @ (A if gram else A[:, -1])).astype(np.int64)
        return private_moments.RoundSums(products, private_moments._variance_sums(A, directions))
    return sums


def clamped_at_four(t, w, seen): return np.clip(t, *(seen.clip.response_bound * np.array([-4, 4])))


def too_late(t, w, seen):
    "w times the clamped residual: too much for whole rows"
    return w * np.clip(t / w, *(seen.clip.response_bound / seen.usual * np.array([-1, 1])))


def scaled_by_data(sums, units, mu, *more):
    return NOISY(sums, units, mu * np.trace(sums[:-1, :-1]) / (120 * 4.0**18), *more)


def bare_diagonal(sums, units, *more):
    out = NOISY(sums, units, *more)
    np.fill_diagonal(out["gram"], np.diag(sums)[:-1] * units.clip.row_step**2)
    return out


def search(mu=None, silent=False):
    "A search that spends this many times what it may, or draws without the sampler"
    def found(count, n, quantile, allowed, sampler, *more):
        return QUANTILE(count, n, quantile, allowed * (mu or 1), Silent(0) if silent else sampler, *more)
    return found


def for_one(source, clip, budget, mu, rounds, balance, sampler, k, *more):
    return RELEASE_ROUNDS(source, clip, budget, mu, rounds, balance, sampler, 1, *more)


def on_grids(f): return [(module, "on_grid", f) for module in (moments_module, private_moments)]


UNGUARDED = on_grids(unchecked)   # bounds are kept twice: by clipping, and on the grid
MUTANTS = {
    "rows not scaled": [(clip_module, "clipped_rows", unscaled), *UNGUARDED],
    "responses not clamped": [(clip_module, "clipped_rows", unclamped), *UNGUARDED],
    "responses neither": [(clip_module, "clipped_rows", y_not_scaled), *UNGUARDED],
    "one wild row clips all": [(clip_module, "clipped_rows", one_clips_all)],
    "rounded beyond the bound": [(Clip, "longest", full_length), *UNGUARDED],
    "grid step doubled": on_grids(coarse),
    "not rounded": on_grids(steps),
    "half the sensitivity": [(private_moments, "joint_sensitivity", lambda g, h: SENSITIVITY(g, h) / 2)],
    "one part's sensitivity": [(private_moments, "joint_sensitivity", one_part)],
    "cross term forgotten": [(private_moments, "joint_sensitivity", cross_term_forgotten)],
    "square too precise": [(private_moments, "free_weight", heavier_square)],
    "budget not split": [(method_moments, "noisy_moments", not_split),
                         (method_moments, "noisy_products", later_not_split)],
    "residuals charged once": [(method_moments, "moment_shares", residuals_once)],
    "histograms charged once": [(method_moments, "noisy_sizes", sizes_once)],
    "histograms with the noise of one bin": [(method_moments, "noisy_sizes", sizes_of_one_bin)],
    "no noise on histograms": [(method_moments, "noisy_sizes", no_size_noise)],
    "residuals not clamped": [(private_moments, "_sums", sums_of(clamped_at_four))],
    "whole rows clamped too late": [(private_moments, "_sums", sums_of(too_late))],
    "search not taken off": [(private_moments, "private_quantile", search(4))],
    "search past the sampler": [(private_moments, "private_quantile", search(silent=True))],
    "centre past the sampler": [(method_moments, "private_center", center_past_the_sampler)],
    "an exact number in the result": [(method_moments, "noisy_moments", leaking)],
    "noise scaled by the data": [(method_moments, "noisy_moments", scaled_by_data)],
    "no noise on the diagonal": [(method_moments, "noisy_moments", bare_diagonal)],
    "no noise on the count": [(method_moments, "noisy_count", no_count_noise)],
    "no noise on the weights": [(method_moments, "noisy_weights", no_weight_noise)],
    "half the noise on variances": [(method_moments, "noisy_variances", less_variance_noise)],
    "variances without Lambda": [(private_moments, "_longest_sum", no_longest_sum)],
    "directions longer than 1": [(method_moments, "on_directions", long_directions)],
    "directions of largest entry 1": [(method_moments, "on_directions", largest_entry_1)],
    "rows_per_person ignored": [(method_moments, "release_rounds", for_one)],
    "ids not checked": [(moments_module, "joined", lambda mine, theirs: (*mine, *theirs))],
}


def turned(excess, fits):
    "The worst pair, turned such that rounding makes its rows as long as it can"
    rng = stream(0, "turned")
    (X1, _), (X2, _) = PAIRS["worst"]
    rows = np.stack([X1[0], 2 * X2[0] / np.linalg.norm(X2[0])])
    rows = rows @ np.linalg.qr(rng.standard_normal((2000, 3, 3)))[0]
    best = rows[np.argmax((excess(rows / 2 * 2**18)**2).sum((-1, -2)))]
    return first_row(best[0], fits), first_row(1e9 * best[1], -12e9)


PAIRS["rounded up"] = turned(np.rint, 6.0)
PAIRS["rounded up to even"] = turned(lambda A: 2 * np.rint(A * (1 - 3.3e-6) / 2), 6 * (1 + 3e-6))
HUGE = np.tile([1e150, 1e153, 1.0], (120, 1)), np.full(120, 1e150)
PAIRS["huge"] = HUGE, (np.vstack([np.full(3, 1e155), HUGE[0][1:]]), HUGE[1])
FLAT = stream(0, "flat").standard_normal((1000, 6))
FLAT = 9 * (FLAT - FLAT.mean(1, keepdims=True))  # in a hyperplane: rows of the inverse are nearly parallel


def in_flat(x, t): return np.vstack([x, FLAT[1:]]), np.append(t, np.resize(Y, 999))


ALIKE = in_flat(np.full(6, .8164), 1e18), in_flat([np.sqrt(2), -np.sqrt(2), 0, 0, 0, 0], 0.0)


def summed(order, parts):
    "The integers handed in by moments of so many parts"
    chunks = np.array_split(stream(0, "order").permutation(120) if order else np.arange(120), parts)
    m = sum(Moments.from_data(X[rows], Y[rows], clip=Clip(2.0, 6.0)) for rows in chunks)
    return record(lambda m, _, s: MomentsMethod(epsilon=1.0, delta=.1).release(m, sampler=s), (m, None),
                  NumpySampler(0)).draws[0].value


def added_to_itself(X, y, sampler, **budget):
    m = Moments.from_data(X, y, clip=Clip(2.0, 6.0, intercept=False))
    return MomentsMethod(**budget).release(m + m, sampler=sampler)


def released(X, y, sampler, **options): return MomentsMethod(**options).release(X, y, sampler=sampler)


def caught():
    "Do replay, distances or sums object?"
    try:
        replay(run_moments, (3 * X, -Y), record(run_moments, (X, Y), NumpySampler(0)))
        for options in (ONE_ROUND, PUBLIC, SEARCHED):
            for pair in (*PAIRS.values(), ALIKE):
                audit = audit_release(*pair, run=released, **options, transcripts=2)
                if not audit.ok: return True
                if options is PUBLIC and not within_shares(audit, ROUNDS): return True
    except Leak: return True
    two_rows = [tuple(np.concatenate([part[:1], part]) for part in data) for data in PAIRS["worst"]]
    if not audit_release(*two_rows, **PUBLIC, rows_per_person=2).ok: return True
    try: return not audit_release(*PAIRS["worst"], run=added_to_itself, epsilon=1.0, delta=.1).ok
    except InputError as error: assert "added twice" in str(error)
    return not np.array_equal(summed(False, 1), summed(True, 120))


def test_the_package_itself_is_not_caught(): assert not caught()


def test_histograms_charged_once_are_seen_in_their_share(monkeypatch):
    monkeypatch.setattr(*MUTANTS["histograms charged once"][0])
    audit = audit_release(*PAIRS["two sizes"], run=released, **PUBLIC, transcripts=4)
    assert not within_shares(audit, ROUNDS)


FIRST, *LATER_SHARES = moment_shares(3)
LATER_SHARE, H = sum(LATER_SHARES), BALANCE**-2
LATER_SPENT = LATER_SHARE * (1 + free_weight(0, 1)) / 4  # by responses 1 and 0, by hand
MORE = {  # what a mutant spends more on this pair, as a share of mu^2
    "square too precise": .1 * FIRST * free_weight(1, H) / SENSITIVITY(1, H)**2
                          + .1 * LATER_SHARE * free_weight(0, 1) / 4,
    "residuals charged once": LATER_SPENT,
    "histograms charged once": 2 * SIZES / 2, # one of the two rows is below all edges
    "half the noise on variances": 3 * VARIANCES / 2,
    "directions longer than 1": 3 * VARIANCES / 2,
    "half the sensitivity": 3 * (FIRST + LATER_SPENT)}


@pytest.mark.parametrize("name", MORE)
def test_mutants_spend_as_much_more_as_they_should(name, monkeypatch):
    def spent(): return float(_squared_distance(*draws_of_every_kind_moved(PUBLIC)) / Fraction(WHOLE)**2)
    right = spent()
    for part in MUTANTS[name]: monkeypatch.setattr(*part)
    assert np.isclose(spent() - right, MORE[name], rtol=1e-4)


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, monkeypatch):
    for part in MUTANTS[name]: monkeypatch.setattr(*part)
    with np.errstate(all="ignore"): assert caught()


def test_bounds_are_guarded_twice(monkeypatch):
    "Either guard alone is enough: in float64 while clipping, in integers on the grid"
    monkeypatch.setattr(Clip, "longest", full_length)
    assert not caught()
    monkeypatch.undo()
    for part in UNGUARDED: monkeypatch.setattr(*part)
    assert not caught()


def test_a_search_without_noise_is_refused_by_the_sampler(monkeypatch):
    monkeypatch.setattr(private_moments, "private_quantile", search(np.inf))
    outcome = record(run_moments, (X, Y), NumpySampler(0)).outcome
    assert "noise on a lattice must have a standard deviation" in outcome


@pytest.mark.parametrize("name", ["rows not scaled", "responses not clamped"])
def test_an_attacker_who_sees_signs_only(name, monkeypatch):
    method = MomentsMethod(**{**ONE_ROUND, "response_bound": 3.0}, balance=.5)
    def positive(response, trials):
        rows, responses = np.array([[1e3], [2.0], [2.0]]), np.array([response, -3.0, -3.0])
        def run(k):
            rng = np.random.default_rng([int(response > 0), k])
            release = method.release(rows, responses, simulation=True, random_state=rng)
            return select(release)
        return sum(int(run(k).signs[0] > 0) for k in range(trials))
    def lower(trials): return epsilon_lower_bound(positive(1e6, trials), positive(-1e6, trials), trials, .1)
    if name == "rows not scaled": assert lower(300) <= 1
    for part in MUTANTS[name]: monkeypatch.setattr(*part)
    assert lower(150) > 1


def test_labels_with_half_the_noise_are_caught(monkeypatch):
    monkeypatch.setattr(method_labels, "strict_mu", lambda budget, k=1: 2 * analytic_ratio(budget))
    found = audit_release(*flipped_longest(1e9), run=partial(ask, "labels"), **LABELS)
    assert not found.ok and "BROKEN" in repr(found)
    assert np.isclose(found.divergence, gaussian_divergence(1.0, 2 * found.allowed))


def test_bounds_from_the_data_are_a_leak():
    def peeking(X, y, sampler, **kw):
        longest = float(np.linalg.norm(X, axis=1).max())
        return MomentsMethod(**{**kw, "row_bound": longest}).release(X, y, sampler=sampler)
    pair = PAIRS["long"][0], first_row([7e3, 0, 0], 5.0)
    with pytest.raises(Leak, match="row_bound"): audit_release(*pair, **PUBLIC, run=peeking)


def test_the_papers_scales_depend_on_the_data():
    X1 = np.vstack([np.eye(5)] * 6)
    X2 = X1.copy()
    X2[0, 0] = .1
    y = X1.sum(1) + np.random.default_rng(0).standard_normal(30)
    paper = dict(epsilon=.5, delta=.05, row_bound=1.0, sigma=1.0, beta_norm=3.0, random_state=0)
    def run(X, y, sampler): return ask("one", X, y, **paper, sampler=sampler)
    one, two = (record(run, (X, y), NumpySampler(0)).draws for X in (X1, X2))
    assert np.isinf(_distances(one, two)).all() and np.allclose(one[0].value, two[0].value)


def test_a_result_that_holds_a_row_norm_is_a_leak():
    def run(X, y, sampler): return sampler.gaussian(0.0, 1.0, "a"), Moments.from_data(X, y).row_norm
    with pytest.raises(Leak, match="outcome.1"): replay(run, (2 * X, Y), record(run, (X, Y), NumpySampler(0)))


# ---------------------------------------------------------------- products

PRODUCTS = partial(partial(ask, "products"), law=Gaussian(0, ar1(3, .5)), response_bound=2.0, random_state=3)


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("name", PAIRS)
def test_products_keep_their_promise(name, rounds):
    audit = audit_release(*PAIRS[name], epsilon=1.0, delta=.1, run=PRODUCTS, rounds=rounds, transcripts=3)
    assert audit.ok and audit.purposes[-1] == "clamped responses" and len(audit.purposes) == rounds + 1


def test_products_are_tight():
    "The longest rows with opposite responses spend what is not kept for the count"
    pair = first_row([50.0] * 3, 1e9), first_row([50.0] * 3, -1e9)
    audit = audit_release(*pair, epsilon=1.0, delta=.1, run=PRODUCTS, rounds=1, transcripts=2)
    assert audit.ok and np.isclose(audit.ratio**2, .99, rtol=1e-4)
    two = partial(PRODUCTS, rounds=1, rows_per_person=2)
    persons = audit_release(*pair, epsilon=1.0, delta=.1, run=two, transcripts=2)
    assert np.isclose(persons.ratio, audit.ratio / 2, rtol=1e-4)


class Unchecked(Kernel):
    "A kernel that nobody has tried on made-up rows"
    def __post_init__(self): pass


def of_two_rows(X, U): return norm.ppf(U) + X[0]


def broken_products(monkeypatch, kind):
    "One mistake each"
    ours = _Pairs.rows
    monkeypatch.setattr(laws, "_check_row_by_row", lambda law: law)
    if kind == "kernel of two rows": return partial(PRODUCTS, law=Unchecked(of_two_rows, 3))
    if kind == "largest row as unit":
        def rows(self, X, *place): return ours(self, X / np.abs(X).max(), *place)
        monkeypatch.setattr(_Pairs, "rows", rows)
    if kind == "refuses large rows":
        def rows(self, X, *place):
            if np.abs(X).max() > 1e4: raise InputError("too large")
            return ours(self, X, *place)
        monkeypatch.setattr(_Pairs, "rows", rows)
    if kind == "half the noise":
        sensitivity = property(lambda self: 1.0)
        monkeypatch.setattr(private_moments.Units, "sensitivity", sensitivity)
    return PRODUCTS


def test_a_square_that_is_too_precise_for_products_is_noticed(monkeypatch):
    "Opposite rows, one response at its bound and one at sqrt(5) - 2 of it: the corner without a Gram matrix"
    def copies(X, U): return X
    run = partial(partial(ask, "products"), law=Unchecked(copies, 3), response_bound=2.0, row_bound=1.0,
                  rounds=1, random_state=3)
    def worst():
        "Of responses of many sizes, as the public units decide which one is the corner"
        pairs = [(first_row([50.0] * 3, 1e9), first_row([-50.0] * 3, t)) for t in np.geomspace(1, 1e4, 120)]
        audits = [audit_release(*pair, epsilon=1.0, delta=.1, run=run, transcripts=1) for pair in pairs]
        return max(audits, key=lambda audit: audit.mu)
    found = worst()
    assert found.ok and found.ratio > .9999
    monkeypatch.setattr(private_moments, "free_weight", heavier_square)
    assert not worst().ok


@pytest.mark.parametrize("kind", ["kernel of two rows", "largest row as unit", "refuses large rows",
                                  "half the noise"])
def test_the_audit_of_products_would_notice(kind, monkeypatch):
    run = broken_products(monkeypatch, kind)
    def with_first(x, t): return np.vstack([np.full(3, x), np.abs(X[1:])]), np.append(t, np.full(119, 2.0))
    pair = with_first(1.0, 1e9), with_first(1e6, -1e9)
    try: audit = audit_release(*pair, epsilon=1.0, delta=.1, run=run, rounds=1, transcripts=2)
    except Leak: return
    assert not audit.ok


def test_correlated_noise_is_judged_by_the_law_of_a_correlation():
    "At the level of the exact test, which SciPy knows as well"
    from scipy.stats import norm, pearsonr
    quantiles = norm.ppf((np.arange(12) + .5) / 12)
    one = np.random.default_rng(3).permutation(quantiles)
    two = np.sort(quantiles)[np.argsort(np.argsort(one + .45 * np.random.default_rng(4).standard_normal(12)))]
    noise = np.column_stack([one, two])
    level = 3 * pearsonr(one, two).pvalue
    assert level < 1e-3
    assert fires(_assert_white, noise, 1.001 * level) and not fires(_assert_white, noise, .999 * level)


# ---------------------------------------------------------------- what follows from a dictionary

FACTS = {"target": "y", "groups": {"g": ["a", "e"]},
         "columns": {"a": {"range": [0, 10]}, "b": {"range": [-5, 5], "missing": 0, "indicator": True},
                     "c": {"levels": ["u", "v", "w"]}, "d": {"levels": [0, 1, 2], "missing": 1},
                     "e": {"range": [-3, 30]}, "y": {"range": [-20, 50]}}}
CORNERS = {"a": [0.0, 10.0, -1e308, 1e308, 5.0], "b": [-5.0, 5.0, 1e300, None, np.inf, "text"],
           "c": ["u", "v", "w", "unheard of", None, ""], "d": [0, 2, 99, None, "text"],
           "e": [-3.0, 30.0, 1e308, 13.5], "y": [-20.0, 50.0, 1e308, -1e308, 15.0]} # ends, and far beyond


def people(rng, n=60):
    "A table whose cells are what a file of people may hold, as objects"
    drawn = dict(a=rng.uniform(0, 10, n), b=rng.standard_normal(n), c=rng.choice(["u", "v", "w"], n),
                 d=rng.integers(0, 3, n), e=rng.standard_normal(n))
    drawn["y"] = 3 * drawn["a"] + 5 * (drawn["c"] == "v") + rng.standard_normal(n)
    return pd.DataFrame({name: pd.Series(list(values), dtype=object) for name, values in drawn.items()})


def with_corners(table, rng, rows=1):
    "The same with other people in its first rows, at the corners and beyond"
    table = table.copy()
    for name, values in CORNERS.items():
        for i in range(rows): table.at[i, name] = values[rng.integers(len(values))]
    return table


PEOPLE = people(stream(0, "people"))
BUDGET = dict(epsilon=1.0, delta=.1)
RANGED = Gaussian(0, ar1(3, .5))
BOXES = {"target": "y", "columns": {name: {"range": [-1, 1]} for name in ("x0", "x1", "x2", "y")}}


def described(method, dictionary=FACTS):
    "A release of a table by its dictionary, as a function of table and sampler"
    def run(table, _, sampler):
        draw = {"random_state": 3} if method.word == "products" else {}
        return method.release(method.open(table, None, dictionary), sampler=sampler, **draw)
    return run


def worst_ratio(run, pairs, transcripts=1):
    "Of all pairs: what is spent, over what is allowed"
    def spent(one, two, seed):
        first = record(run, (one, None), NumpySampler(seed))
        assert first.draws, first.outcome
        return _squared_distance(first.draws, replay(run, (two, None), first).draws)
    worst = max(spent(*pair, k) for pair in pairs for k in range(transcripts))
    if worst == np.inf: return np.inf
    return float(worst / Fraction(analytic_ratio(Budget(**BUDGET)))**2)**.5


def corner_pairs(count, rows=1, table=PEOPLE, public=False):
    "Neighbours whose first rows are corners; with a public design they differ in the response"
    rng = stream(count, "corners")
    for _ in range(count):
        one, two = (with_corners(table, rng, rows) for _ in range(2))
        yield one, (one.assign(y=two.y) if public else two)


def boxed_pairs(count):
    rng = stream(count, "boxes")
    table = pd.DataFrame(np.column_stack([X[:60], Y[:60]]), columns=["x0", "x1", "x2", "y"])
    for _ in range(count):
        pair = table.copy(), table.copy()
        for one in pair: one.loc[0] = rng.choice([-1e308, 1e308, 1.0, -1.0, 0.0, .5], 4)
        yield pair


WITHOUT_INDICATOR = {**FACTS, "columns": FACTS["columns"] | {"b": {"range": [-5, 5], "missing": 0}}}
DESCRIBED = {
    "moments": (described(MomentsMethod(**BUDGET)), partial(corner_pairs, 40)),
    "one round": (described(MomentsMethod(**BUDGET, rounds=1)), partial(corner_pairs, 40)),
    "private bounds": (described(MomentsMethod(**BUDGET, row_bound="private", response_center="private")),
                       partial(corner_pairs, 12)),
    "two rows a person": (described(MomentsMethod(**BUDGET, rows_per_person=2)),
                          partial(corner_pairs, 20, 2)),
    "labels": (described(LabelsMethod(**BUDGET, sigma=1.0), WITHOUT_INDICATOR),
               partial(corner_pairs, 40, public=True)),
    "products in ranges": (described(ProductsMethod(**BUDGET, law=RANGED), BOXES), partial(boxed_pairs, 30))}


@pytest.mark.parametrize("name", DESCRIBED)
def test_bounds_from_a_dictionary_keep_the_promise(name):
    "Values far outside, unknown levels, holes, text, infinities where there is a stand-in: one row, or two"
    run, pairs = DESCRIBED[name]
    ratio = worst_ratio(run, pairs())
    print(f"{name}: worst ratio {ratio:.6f}")
    assert .4 < ratio <= 1


def clipped_by_the_largest(A, low, high):
    x = A[:, :len(low)]
    with np.errstate(all="ignore"): np.clip(x, -np.nanmax(np.abs(x)), np.nanmax(np.abs(x)) / 2, out=x)


def refused_if_outside(A, low, high):
    x = A[:, :len(low)]
    if ((low > x) | (high < x)).any(): raise InputError("a value is outside its range")


def seen(name): return SEEN[name].astype(float).clip(-100, 100)


def data_bound(method, facts, names, ours=method_moments._completed):
    return replace(ours(method, facts, names), row_bound=float(seen("a").abs().max()))


def data_center(self, center, bound, otherwise): return float(seen("y").mean()), 35.0


def told_of_values(self, whole, source):
    if (seen("a").abs() > 10).any(): warnings.warn("a value is outside its range", stacklevel=2)


def counting_findings(self, estimate=None):
    outside = int((seen("a").abs() > 10).sum())
    return [Finding("ranges", f"{outside} values of 'a' are outside.", "Widen its range.", 2.0)]


def exact_yes_or_no(self): return bool(SEEN.y.nunique() == 2)


BESIDE_THE_NOISE = {  # mistakes of the code that follows a dictionary: where, what in its place
    "limits from the block's largest value": (clip_module, "within", clipped_by_the_largest),
    "values outside are refused": (clip_module, "within", refused_if_outside),
    "a default row bound from the data": (method_moments, "_completed", data_bound),
    "a default centre from the data": (dictionary_module.Sizes, "response", data_center),
    "a warning that looks at values": (MomentsMethod, "warn_of", told_of_values),
    "a diagnosis that counts rows": (PrivateMoments, "findings", counting_findings),
    "a note that looks at responses": (PrivateMoments, "lost_intercept", property(exact_yes_or_no))}
SEEN = PEOPLE # what the mistakes look at: set before every run


def all_that_is_shown(table, _, sampler):
    "A selection by a dictionary, and everything that a person or a program is shown of it; warnings, too"
    global SEEN
    SEEN = table
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = ask("moments", table, dictionary=FACTS, **BUDGET, row_bound=None, sampler=sampler)
        shown = (repr(found), found._repr_html_(), found.explain(), repr(found.diagnosis), found.notes,
                 found.diagnosis.to_frame().to_csv(), found.to_frame().to_csv(), repr(found.release),
                 found.release._repr_html_(), cli._as_json(found), found.to_csv(), found.W,
                 _report_html(found).replace(found.release.ids[0], "its random name"))
    return found, shown, [str(warning.message) for warning in told]


def wild(n=60):
    "Nobody of PEOPLE: far outside of every range, at unheard-of levels, with holes"
    rng = stream(1, "wild")
    return with_corners(people(rng, n), rng, n)


def leaks():
    "Is anything shown that the draws do not tell, or is a pair too far apart?"
    first = record(all_that_is_shown, (PEOPLE, None), NumpySampler(0))
    try:
        for other in (wild(), people(stream(2, "people")), PEOPLE.assign(y=[0.0, 1.0] * 30)):
            replay(all_that_is_shown, (other, None), first)
        return worst_ratio(all_that_is_shown, corner_pairs(6)) > 1
    except Leak: return True


def test_a_selection_by_a_dictionary_shows_nothing_but_its_draws(): assert not leaks()


@pytest.mark.parametrize("name", BESIDE_THE_NOISE)
def test_mistakes_beside_the_noise_are_caught(name, monkeypatch):
    monkeypatch.setattr(*BESIDE_THE_NOISE[name])
    assert leaks()


def test_a_response_clipped_after_scaling_is_caught(monkeypatch):
    "Clamped before it is scaled with its row only, it is as long as its range; the grid's guard is off, too"
    def late(X, y, clip, *how, **more):
        Z, _, w, cut = CLIPPED(X, y, clip, *how, **more)
        return Z, np.clip(y - clip.response_center, -70, 70), w, cut
    monkeypatch.setattr(clip_module, "clipped_rows", late)
    for part in UNGUARDED: monkeypatch.setattr(*part)
    run = described(MomentsMethod(**BUDGET, rounds=1, response_bound=5.0))
    assert worst_ratio(run, corner_pairs(10)) > 1


class Given:
    "In place of a law: these knockoffs, whatever the rows"
    uniforms, p = 1, 3
    def __init__(self, knockoffs): self.knockoffs = knockoffs
    def __call__(self, X, U): return self.knockoffs.copy()


def swapped_sums(which, A, B, t):
    "Exact sums of products, of rows and knockoffs that change places in these columns"
    A, B = np.where(which, B, A), np.where(which, A, B)
    units = law_units(RANGED, Variables.of(("x0", "x1", "x2"), {}))
    pairs = _Pairs(Given(B), units, -np.ones(3), np.array([1.0, 2.0, .5]), .25, (1, 2),
                   Clip(1.5, 1.0, intercept=False))
    return pairs(A, t, 0, 0).sums


@pytest.mark.parametrize("mistake", [None, "originals only"])
def test_rows_and_knockoffs_are_clipped_alike(mistake, monkeypatch):
    "Ranges, units, scaling and grid treat both halves alike: whoever changes places takes the products along"
    rng = stream(0, "swap")
    A, B, t = 3 * rng.standard_normal((200, 3)), 3 * rng.standard_normal((200, 3)), rng.standard_normal(200)
    if mistake:
        clip = products_module.within
        def once(A, low, high): clip(A[:, :3], low[:3], high[:3])
        monkeypatch.setattr(products_module, "within", once)
    plain = swapped_sums([False] * 3, A, B, t)
    same = [np.array_equal(swapped_sums(which, A, B, t), np.append(
                np.where(np.r_[which, which], np.roll(plain[:-1], 3), plain[:-1]), plain[-1]))
            for which in np.array(list(product([False, True], repeat=3)))[1:]]
    assert all(same) if mistake is None else not any(same)


# ---------------------------------------------------------------- every way in, every way out

COINS = {"target": "y", "columns": {"c": {"levels": ["u", "v", "w"], "probabilities": [.5, .25, .25]},
                                    "d": {"levels": ["0", "1"], "probabilities": [.5, .5]},
                                    "y": {"range": [-20, 50]}}}


def in_toml(facts):
    "A dictionary as a file"
    lines = [f'target = "{facts["target"]}"']
    for name, column in facts["columns"].items():
        lines += [f"[columns.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in column.items())]
    return "\n".join(lines)


def by_selector(table, facts, **options):
    model = DPKnockoffSelector(**BUDGET, dictionary=facts, **options).fit(table.drop(columns="y"), table["y"])
    first = model.get_support(), repr(model.privacy_), repr(model), model.selection_
    return first, model.select_again(fdr=.5).selection_


def by_command(table, facts, *words):
    "All that a command prints, and all files that it writes"
    Path("facts.toml").write_text(in_toml(facts))
    table.astype(str).replace("None", "").to_csv("t.csv", index=False)
    Ledger("l.jsonl", epsilon=5, delta=.5)
    public = ["--dictionary", "facts.toml", "--epsilon", "1", "--delta", ".1", "--ledger", "l.jsonl"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.main([words[0], "t.csv", *public, *words[1:]])
    files = {path.name: path.read_bytes() for path in sorted(Path().glob("o.*"))}
    for path in (*files, "l.jsonl"): os.remove(path)
    return code, out.getvalue(), err.getvalue(), files


OUTS = [word for ending in ("html", "json", "csv", "png", "pdf", "svg") for word in ("--out", f"o.{ending}")]
WAYS_IN = {
    "selector": (by_selector, WITHOUT_INDICATOR, {}),
    "selector of products": (by_selector, COINS, {"method": "products"}),
    "select": (by_command, FACTS, ["select", *OUTS, "--save-release", "o.npz"]),
    "select as JSON": (by_command, FACTS, ["select", "--json", "--rule", "knockoffs"]),
    "select by a law": (by_command, COINS, ["select", *OUTS]),
    "select by a law, knockoffs": (by_command, COINS, ["select", *OUTS, "--rule", "knockoffs"]),
    "release": (by_command, FACTS, ["release", "--out", "o.npz"])}


@pytest.mark.parametrize("name", WAYS_IN)
def test_every_way_in_shows_nothing_but_its_draws(name, tmp_path, monkeypatch):
    "Exit codes, text, warnings, files in all formats, to the byte: of other people, with the draws of these"
    monkeypatch.chdir(tmp_path)
    way_in, facts, options = WAYS_IN[name]
    facts = {**facts, "groups": {}} if way_in is by_selector else facts
    def one_for_all(sampler=None, simulation=False, random_state=None): return sampler or now[0]
    for module in (method_moments, products_module, selector_module): # tests are begun as products are
        monkeypatch.setattr(module, "as_sampler", one_for_all)
    for module in (method_moments, products_module, moments_module): # names are random
        monkeypatch.setattr(module, "fresh_id", lambda: "its name")
    monkeypatch.setattr(products_module, "stream", lambda _, what: stream(7, what))
    monkeypatch.setattr(ledger_module, "datetime", Midnight)
    now = [None]
    def run(table, _, sampler):
        now[0] = sampler
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            table = table[[*facts["columns"]]]
            if way_in is by_command: shown = way_in(table, facts, *options)
            else: shown = way_in(table, facts, **options)
        return shown, [str(warning.message) for warning in told]
    first = record(run, (PEOPLE, None), Private(0))
    assert first.draws and (way_in is by_selector or first.outcome[0][0] == 0)
    for other in (wild(), PEOPLE.assign(y=0.0)): replay(run, (other, None), first)


class Private(NumpySampler):
    "Counts as private, and can be replayed"
    private = True


class Midnight(datetime):
    "Time stands still"
    @classmethod
    def now(cls, tz=None): return datetime(2026, 1, 1, tzinfo=tz)
