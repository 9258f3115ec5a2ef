"The audit: known values, what it must catch, and the package's own releases."
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, laplace, norm

from dp_knockoff import clip as clip_module
from dp_knockoff import method_labels, private_moments, rounds
from dp_knockoff.audit import (
    Leak,
    RecordingSampler,
    ReplayingSampler,
    assert_white,
    audit_release,
    difference,
    distances,
    epsilon_lower_bound,
    privacy_loss,
    record,
    replay,
    worst_pair,
)
from dp_knockoff.mechanisms import Budget, analytic_ratio, gaussian_divergence
from dp_knockoff.method_labels import labels_filter
from dp_knockoff.method_moments import MomentsMethod, moments_filter
from dp_knockoff.method_one import filter_one
from dp_knockoff.models import linear_model
from dp_knockoff.moments import Moments
from dp_knockoff.randomness import stream
from dp_knockoff.samplers import NumpySampler, SecureSampler, as_sampler
from dp_knockoff.selection import select
from dp_knockoff.statistics import Statistic
from dp_knockoff.testing import fires, refusal
from watched import Silent

X, Y, _ = linear_model(120, 3, 2, random_state=3)
PUBLIC = dict(epsilon=1.0, delta=.1, row_bound=2.0, response_bound=6.0, intercept=False)
PRIVATE = {**PUBLIC, "row_bound": "private", "response_bound": "private", "rounds": 3}
LABELS = dict(epsilon=1.0, delta=.1, response_bound=6.0, sigma=1.0, intercept=False)


def first_row(x, t): return np.vstack([x, X[1:]]), np.append(t, Y[1:])


PAIRS = {"worst": worst_pair(X, Y, 2.0, 6.0),
         "long": (first_row([1e3, 0, 0], 5.0), first_row([0, 1e3, 0], -5.0)),
         "large": (first_row([2, 0, 0], 1e5), first_row([2, 0, 0], -1e5)),
         "all or nothing": (first_row([1e6] * 3, 1e6), first_row([0] * 3, 0.0))}
PAIRS["among short rows"] = tuple((np.vstack([x[:1], .01 * x[1:]]), y) for x, y in PAIRS["all or nothing"])


def run_moments(X, y, sampler): return MomentsMethod(**PRIVATE).release(X, y, sampler=sampler)


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
    assert np.isclose(privacy_loss(first.draws, second.draws), by_hand)
    assert (c.output == a.output).all() and (d.output == b.output).all()
    assert np.isclose(a.log_density, laplace.logpdf(a.output, 1.0, 2.0))
    assert np.isclose(b.log_density, norm.logpdf(b.output, [1.0, 1.0], 3.0).sum())
    assert np.allclose(distances(first.draws, second.draws), [1.5, 1.0])
    assert first.name == second.name == NumpySampler.name
    assert np.allclose(b.noise, (b.output - [1.0, 1.0]) / 3) and as_sampler(first) is first


def test_scales_that_differ_or_vanish_are_infinitely_far():
    def draw(scale, value):
        recorder = RecordingSampler(NumpySampler(0))
        recorder.gaussian(value, scale, "a")
        return recorder.draws
    assert distances(draw(1.0, 0.0), draw(2.0, 0.0)) == np.inf
    assert distances(draw(0.0, 0.0), draw(0.0, 1.0)) == np.inf
    assert distances(draw(0.0, 1.0), draw(0.0, 1.0)) == 0
    def bare(x, y, sampler): sampler.gaussian(x, 0.0, "a")
    first = record(bare, (1.0, 0), NumpySampler(0))
    assert privacy_loss(first.draws, replay(bare, (2.0, 0), first).draws) == np.inf


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
    assert (difference(a, b) == "") == same


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
    assert 0 < assert_white(z) < .4
    twice = z.copy()
    twice[:, 3] = z[:, 5]
    for bad in (twice, 1.2 * z, .8 * z, z + .3, np.sign(z), np.cumsum(z, axis=1) / np.sqrt(np.arange(1, 9))):
        assert fires(assert_white, bad)


def test_audits_refuse_what_is_no_pair():
    def run(one, two, **kw): return refusal(audit_release, one, two, **{**PUBLIC, **kw})
    assert "differ in 0 rows" in run((X, Y), (X, Y)) and "differ in 120" in run((X, Y), (X, Y + 1))
    assert "shapes" in run((X, Y), (X[1:], Y[1:]))
    assert "nothing was drawn" in run(*PAIRS["worst"], fdr=7, run=moments_filter)
    assert "transcripts=0" in run(*PAIRS["worst"], transcripts=0)


def test_tables_can_be_audited():
    import pandas as pd
    one, two = (pd.DataFrame(np.column_stack(pair), columns=list("abcy")) for pair in PAIRS["worst"])
    found = audit_release((one, "y"), (two, "y"), **PUBLIC)
    assert np.isclose(found.mu, audit_release(*PAIRS["worst"], **PUBLIC).mu)
    assert "kept" in repr(found) and "clamped responses" in repr(found)


# ---------------------------------------------------------------- the package's releases

ENTRIES = st.lists(st.floats(-1e300, 1e300), min_size=8, max_size=8)


@given(ENTRIES, st.sampled_from([1, 2]), st.booleans(), st.booleans(), st.integers(0, 9))
@settings(max_examples=30)
def test_no_neighbours_are_further_apart_than_allowed(v, rounds, private, intercept, seed):
    one, two = first_row(v[:3], v[3]), first_row(v[4:7], v[7])
    if (one[0] == two[0]).all() and (one[1] == two[1]).all(): return
    bounds = dict(row_bound="private", response_bound="private") if private else {}
    options = {**PUBLIC, **bounds, "intercept": intercept, "rounds": rounds}
    found = audit_release(one, two, **options, transcripts=1, random_state=seed)
    assert found.ok and found.mu <= found.allowed * (1 + 1e-12)


def test_one_round_is_tight():
    found = audit_release(*PAIRS["worst"], **{**PUBLIC, "delta": 1e-6})
    assert found.ok and .999999 < found.mu / found.allowed < 1 + 1e-12 and .9999e-6 < found.divergence <= 1e-6
    assert np.allclose(found.losses.mean(), found.mu**2 / 2, atol=5 * found.mu / np.sqrt(10))
    assert found.purposes == ("moments", "clamped responses")


HARD = [PUBLIC, {**PUBLIC, "rounds": 3}, {**PRIVATE},
        {**PRIVATE, "intercept": True, "ranges": {"x1": (-1, 7)}, "response_center": 2.0}]


@pytest.mark.parametrize("options", HARD, ids=["one round", "three rounds", "private", "private, ranges"])
@pytest.mark.parametrize("name", PAIRS)
def test_hard_pairs(options, name): assert audit_release(*PAIRS[name], **options, transcripts=4).ok


def test_all_that_a_selection_knows_was_drawn():
    def run(X, y, sampler): return moments_filter(X, y, **PRIVATE, sampler=sampler, random_state=1)
    rng = np.random.default_rng(0)
    for k in range(10):
        first = record(run, (X, Y), NumpySampler(k))
        second = replay(run, (rng.standard_cauchy(X.shape) * 1e3, rng.integers(0, 2, len(Y))), first)
        assert difference(first.outcome, second.outcome) == "" and isinstance(first.outcome.W, np.ndarray)
    def labels(y, _, sampler): return labels_filter(X, y, **LABELS, sampler=sampler, random_state=1)
    first = record(labels, (Y, None), NumpySampler(0))
    second = replay(labels, (rng.standard_cauchy(len(Y)), None), first)
    assert second.outcome.selected == first.outcome.selected


def flipped_longest(size):
    "Two sets of responses that differ as far as they can, in the longest row"
    longest = np.argmax(np.linalg.norm(X, axis=1))
    return tuple((X, np.where(np.arange(len(Y)) == longest, value, Y)) for value in (size, -size))


def test_labels_are_tight_and_safe():
    found = audit_release(*flipped_longest(1e100), run=labels_filter, **LABELS)
    assert found.ok and .999999 < found.mu / found.allowed < 1 + 1e-12


@pytest.mark.parametrize("value", [1.0, 1e200])
def test_labels_refuse_nothing_that_depends_on_responses(value):
    def run(X, y, sampler): return labels_filter(X, y, **LABELS, sampler=sampler, random_state=0)
    for y in (np.zeros(len(Y)), value * np.eye(len(Y))[0]): assert record(run, (X, y), NumpySampler(0)).draws


def test_a_narrow_range_does_not_refuse_large_values():
    pair = first_row([1e300, 0, 0], 1.0), first_row([0, 0, 0], 1.0)
    assert audit_release(*pair, **PUBLIC, ranges={"x0": (-1e-10, 1e-10)}).ok


def test_secure_noise_is_recorded_alike():
    def run(X, y, sampler): return moments_filter(X, y, **PUBLIC, rounds=2, sampler=sampler, random_state=0)
    first = record(run, (X, Y), SecureSampler())
    assert "OpenDP" in first.outcome.notes[-1] and first.outcome.release.sampler == SecureSampler.name
    assert (replay(run, PAIRS["worst"][0], first).outcome.W == first.outcome.W).all()


def test_noise_of_rounds_is_fresh(monkeypatch):
    def run(X, y, sampler): return MomentsMethod(**PUBLIC, rounds=3).release(X, y, sampler=sampler)
    def noise():
        recorded = [record(run, (X, Y), NumpySampler(k)).draws for k in range(80)]
        return np.array([np.concatenate([draw.noise for draw in draws]) for draws in recorded])
    assert_white(noise())
    monkeypatch.setattr(NumpySampler, "_rng", lambda self, purpose: stream(self.random_state, "noise"))
    assert fires(assert_white, noise())


# ---------------------------------------------------------------- mutants of the package: each must be caught

CLIPPED = clip_module.clipped_rows
SENSITIVITY = private_moments.joint_sensitivity
SEARCH = private_moments.private_quantile
NOISY = rounds.noisy_moments
WHOLE = analytic_ratio(Budget(1.0, .1))


def unscaled(X, y, clip, center, scale):
    Z = np.column_stack([(X - center) / scale, np.ones((len(y), int(clip.intercept)))])
    t = y - clip.response_center - (Z @ clip.start if clip.start else 0)
    clamped = int((np.abs(t) > clip.response_bound).sum())
    return Z, np.clip(t, -clip.response_bound, clip.response_bound), np.ones(len(y)), (0, clamped)


def unclamped(X, y, clip, center, scale):
    Z, t, w, cut = CLIPPED(X, y, replace(clip, response_bound=1e140), center, scale)
    return Z, t, w, (cut[0], int((np.abs(t) > clip.response_bound).sum()))


def y_not_scaled(X, y, clip, center, scale):
    Z, _, w, cut = CLIPPED(X, y, clip, center, scale)
    return Z, y - (Z @ clip.start if clip.start else 0), w, cut


def cross_term_forgotten(g, h): return np.sqrt(2 * g + 2 * h) if h <= 2 * g else 2 * np.sqrt(h)
def one_part(g, h): return np.sqrt(2 * g) if g else 2 * np.sqrt(h)
def not_split(XtX, Xty, yty, n, units, mu, *more): return NOISY(XtX, Xty, yty, n, units, WHOLE, *more)
def leaking(XtX, *more): return {**NOISY(XtX, *more), "gram_sd": float(np.trace(XtX))}
def scaled_by_data(XtX, Xty, yty, n, units, mu, *more):
    return NOISY(XtX, Xty, yty, n, units, mu * np.trace(XtX) / (n * units.abc[0]), *more)


def search(mu=None, silent=False):
    "A search that spends this many times what it may, or draws without the sampler"
    def found(count, n, quantile, allowed, sampler, purpose):
        return SEARCH(count, n, quantile, allowed * (mu or 1), Silent(0) if silent else sampler, purpose)
    return found


MUTANTS = {
    "rows not scaled": (clip_module, "clipped_rows", unscaled),
    "responses not clamped": (clip_module, "clipped_rows", unclamped),
    "responses neither": (clip_module, "clipped_rows", y_not_scaled),
    "half the sensitivity": (private_moments, "joint_sensitivity", lambda g, h: SENSITIVITY(g, h) / 2),
    "one part's sensitivity": (private_moments, "joint_sensitivity", one_part),
    "cross term forgotten": (private_moments, "joint_sensitivity", cross_term_forgotten),
    "budget not split": (rounds, "noisy_moments", not_split),
    "search not taken off": (private_moments, "private_quantile", search(4)),
    "search with scale 0": (private_moments, "private_quantile", search(np.inf)),
    "search past the sampler": (private_moments, "private_quantile", search(silent=True)),
    "an exact number in the result": (rounds, "noisy_moments", leaking),
    "noise scaled by the data": (rounds, "noisy_moments", scaled_by_data),
}


def caught():
    "Do replay or distances object?"
    try:
        replay(run_moments, (3 * X, -Y), record(run_moments, (X, Y), NumpySampler(0)))
        settings = PUBLIC, {**PUBLIC, "rounds": 3}, PRIVATE
        questions = ((pair, options) for pair in PAIRS.values() for options in settings)
        return any(not audit_release(*pair, **options, transcripts=2).ok for pair, options in questions)
    except Leak: return True


def test_the_package_itself_is_not_caught(): assert not caught()


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, monkeypatch):
    monkeypatch.setattr(*MUTANTS[name])
    assert caught()


@pytest.mark.parametrize("name", ["rows not scaled", "responses not clamped"])
def test_an_attacker_who_sees_signs_only(name, monkeypatch):
    method = MomentsMethod(**{**PUBLIC, "response_bound": 3.0}, balance=.5)
    def positive(response, trials):
        rows, responses = np.array([[1e3], [2.0], [2.0]]), np.array([response, -3.0, -3.0])
        def run(k):
            rng = np.random.default_rng([int(response > 0), k])
            release = method.release(rows, responses, random_state=rng)
            ridge = Statistic("ridge", "lcd", .1)
            return select(release, sigma=1e-3, s=[1.99], statistic=ridge, random_state=rng)
        return sum(int(run(k).signs[0] > 0) for k in range(trials))
    def lower(trials): return epsilon_lower_bound(positive(1e6, trials), positive(-1e6, trials), trials, .1)
    if name == "rows not scaled": assert lower(300) <= 1
    monkeypatch.setattr(*MUTANTS[name])
    assert lower(150) > 1


def test_labels_with_half_the_noise_are_caught(monkeypatch):
    monkeypatch.setattr(method_labels, "analytic_ratio", lambda budget: 2 * analytic_ratio(budget))
    found = audit_release(*flipped_longest(1e9), run=labels_filter, **LABELS)
    assert not found.ok and "BROKEN" in repr(found)
    assert np.isclose(found.divergence, gaussian_divergence(1.0, 2 * found.allowed))


def test_bounds_from_the_data_are_a_leak():
    def peeking(X, y, sampler, random_state, **kw):
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
    def run(X, y, sampler): return filter_one(X, y, **paper, sampler=sampler)
    one, two = (record(run, (X, y), NumpySampler(0)).draws for X in (X1, X2))
    assert np.isinf(distances(one, two)).all() and np.allclose(one[0].value, two[0].value)


def test_a_result_that_holds_a_row_norm_is_a_leak():
    def run(X, y, sampler): return sampler.gaussian(0.0, 1.0, "a"), Moments.from_data(X, y).row_norm
    with pytest.raises(Leak, match="outcome.1"): replay(run, (2 * X, Y), record(run, (X, Y), NumpySampler(0)))
