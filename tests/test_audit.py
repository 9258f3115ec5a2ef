"The audit: known values, what it must catch, and the package's own releases at the door."
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, laplace, norm

from dp_knockoff import method_three, private_moments
from dp_knockoff import moments as moments_room
from dp_knockoff.audit import (Leak, RecordingSampler, ReplayingSampler, assert_white, audit_release, difference, distances, epsilon_lower_bound,
                               privacy_loss, record, replay, worst_pair)
from dp_knockoff.ground import fires, linear_model, refusal, stream
from dp_knockoff.mechanisms import Budget, NumpySampler, SecureSampler, analytic_ratio, as_sampler, gaussian_divergence
from dp_knockoff.method_one import filter_one
from dp_knockoff.method_three import filter_labels, filter_three
from dp_knockoff.moments import Moments
from dp_knockoff.statistics import Statistic

X, Y, _ = linear_model(120, 3, 2, random_state=3)
PUBLIC = dict(epsilon=1., delta=.1, row_bound=2., response_bound=6., intercept=False)
PRIVATE = {**PUBLIC, "row_bound": "private", "response_bound": "private", "rounds": 3}
LABELS = dict(epsilon=1., delta=.1, response_bound=6., sigma=1., intercept=False)


def first_row(x, t): return np.vstack([x, X[1:]]), np.append(t, Y[1:])


PAIRS = {"worst": worst_pair(X, Y, 2., 6.), "long": (first_row([1e3, 0, 0], 5.), first_row([0, 1e3, 0], -5.)),
         "large": (first_row([2, 0, 0], 1e5), first_row([2, 0, 0], -1e5)), "all or nothing": (first_row([1e6] * 3, 1e6), first_row([0] * 3, 0.))}
PAIRS["among short rows"] = tuple((np.vstack([x[:1], .01 * x[1:]]), y) for x, y in PAIRS["all or nothing"])


# the instruments

def two_draws(sampler, data):
    sampler.laplace(data, 2., "a")
    return sampler.gaussian([data, 1.], 3., "b")


def test_losses_are_log_ratios_of_densities():
    first = RecordingSampler(NumpySampler(0)); two_draws(first, 1.)
    second = ReplayingSampler(first); two_draws(second, 4.)
    (a, b), (c, d) = first.draws, second.draws
    by_hand = laplace.logpdf(a.output, 1., 2.) - laplace.logpdf(a.output, 4., 2.) + norm.logpdf(b.output[0], 1., 3.) - norm.logpdf(b.output[0], 4., 3.)
    assert np.isclose(privacy_loss(first.draws, second.draws), by_hand) and (c.output == a.output).all() and (d.output == b.output).all()
    assert np.isclose(a.log_density, laplace.logpdf(a.output, 1., 2.)) and np.isclose(b.log_density, norm.logpdf(b.output, [1., 1.], 3.).sum())
    assert np.allclose(distances(first.draws, second.draws), [1.5, 1.]) and first.name == second.name == NumpySampler.name
    assert np.allclose(b.noise, (b.output - [1., 1.]) / 3) and as_sampler(first) is first


def test_scales_that_differ_or_vanish_are_infinitely_far():
    def draw(scale, value):
        door = RecordingSampler(NumpySampler(0)); door.gaussian(value, scale, "a")
        return door.draws
    assert distances(draw(1., 0.), draw(2., 0.)) == np.inf and distances(draw(0., 0.), draw(0., 1.)) == np.inf
    assert distances(draw(0., 1.), draw(0., 1.)) == 0
    def bare(x, y, sampler): sampler.gaussian(x, 0., "a")
    first = record(bare, (1., 0), NumpySampler(0))
    assert privacy_loss(first.draws, replay(bare, (2., 0), first).draws) == np.inf


@pytest.mark.parametrize("second, words", [
    (lambda s: s.gaussian(0., 1., "b"), "'b'"), (lambda s: s.laplace(0., 1., "a"), "laplace"), (lambda s: s.gaussian([0., 1.], 1., "a"), "(2,)"),
    (lambda s: None, "1 draws on one dataset, 0"), (lambda s: (s.gaussian(0., 1., "a"), s.gaussian(0., 1., "a")), "nothing more"),
    (lambda s: s.gaussian(0., 1., "a") + 1, "another result"),
])
def test_whatever_else_differs_is_a_leak(second, words):
    run = lambda which, _, sampler: which(sampler)  # noqa: E731
    first = record(run, (lambda s: s.gaussian(0., 1., "a"), 0), NumpySampler(0))
    with pytest.raises(Leak, match=words.replace("(", r"\(").replace(")", r"\)")): replay(run, (second, 0), first)


@pytest.mark.parametrize("a, b, same", [
    (1., 1., True), (np.nan, np.nan, True), (0., -0., False), (1., 1, False), ((1, 2), (1, 2), True), ((1, 2), (1,), False), ({"a": 1}, {"b": 1}, False),
    (np.zeros(2), np.zeros(2), True), (np.zeros(2), np.zeros(3), False), (np.array([1.]), np.array([1. + 1e-16 * 3]), False), ("a", "a", True), (None, None, True),
    (Budget(1.), Budget(1.), True), (Budget(1.), Budget(2.), False), ([{"a": np.ones(1)}], [{"a": np.zeros(1)}], False),
])
def test_outcomes_are_compared_bit_by_bit(a, b, same):
    assert (difference(a, b) == "") == same


@given(st.integers(0, 60), st.integers(0, 60), st.floats(0, .5), st.floats(1e-6, .5))
@settings(max_examples=12)
def test_epsilon_bound_is_made_of_clopper_pearson_ends(a, b, delta, alpha):
    ends = lambda k: binomtest(k, 60).proportion_ci(1 - alpha / 2)  # noqa: E731
    ratios = [1.]
    for one, two in ((a, b), (b, a), (60 - a, 60 - b), (60 - b, 60 - a)): ratios.append((ends(one).low - delta) / ends(two).high)
    assert np.isclose(epsilon_lower_bound(a, b, 60, delta, alpha), np.log(max(ratios)), atol=1e-9)


def test_epsilon_bound_at_the_ends_and_its_refusals():
    assert epsilon_lower_bound(0, 0, 100, .1) == 0 == epsilon_lower_bound(50, 50, 100, 0.)
    assert epsilon_lower_bound(1000, 0, 1000, .1) == epsilon_lower_bound(0, 1000, 1000, .1) > 3
    assert epsilon_lower_bound(80, 20, 100, .0) == epsilon_lower_bound(20, 80, 100, .0)
    for bad, words in (((5, 1, 3, .1), "more than trials"), ((-1, 1, 3, .1), "hits_1"), ((1, 1, 0, .1), "trials"), ((1, 1, 3, -1), "delta"), ((1, 1, 3, .1, 0), "alpha")):
        assert words in refusal(epsilon_lower_bound, *bad)


def test_white_noise():
    z = stream(0, "white").standard_normal((200, 8))
    assert 0 < assert_white(z) < .4
    twice = z.copy(); twice[:, 3] = z[:, 5]
    for bad in (twice, 1.2 * z, .8 * z, z + .3, np.sign(z), np.cumsum(z, axis=1) / np.sqrt(np.arange(1, 9))): assert fires(assert_white, bad)


def test_audits_refuse_what_is_no_pair():
    run = lambda one, two, **kw: refusal(audit_release, one, two, **{**PUBLIC, **kw})  # noqa: E731
    assert "differ in 0 rows" in run((X, Y), (X, Y)) and "differ in 120" in run((X, Y), (X, Y + 1)) and "shapes" in run((X, Y), (X[1:], Y[1:]))
    assert "nothing was drawn" in run(*PAIRS["worst"], fdr=7, run=filter_three) and "transcripts=0" in run(*PAIRS["worst"], transcripts=0)


def test_tables_can_be_audited():
    import pandas as pd
    one, two = (pd.DataFrame(np.column_stack(pair), columns=list("abcy")) for pair in PAIRS["worst"])
    found, plain = audit_release((one, "y"), (two, "y"), **PUBLIC), audit_release(*PAIRS["worst"], **PUBLIC)
    assert np.isclose(found.mu, plain.mu) and "kept" in repr(found) and "clamped responses" in repr(found)


# the package's releases

@given(st.lists(st.floats(-1e300, 1e300), min_size=8, max_size=8), st.sampled_from([1, 2]), st.booleans(), st.booleans(), st.integers(0, 9))
@settings(max_examples=30)
def test_no_neighbours_are_further_apart_than_allowed(v, rounds, private, intercept, seed):
    one, two = first_row(v[:3], v[3]), first_row(v[4:7], v[7])
    bounds = dict(row_bound="private", response_bound="private") if private else {}
    if (one[0] == two[0]).all() and (one[1] == two[1]).all(): return
    found = audit_release(one, two, **{**PUBLIC, **bounds, "intercept": intercept, "rounds": rounds}, transcripts=1, random_state=seed)
    assert found.ok and found.mu <= found.allowed * (1 + 1e-12)


def test_one_round_is_tight():
    found = audit_release(*PAIRS["worst"], **{**PUBLIC, "delta": 1e-6})
    assert found.ok and .999999 < found.mu / found.allowed < 1 + 1e-12 and .9999e-6 < found.divergence <= 1e-6
    assert np.allclose(found.losses.mean(), found.mu**2 / 2, atol=5 * found.mu / np.sqrt(10)) and found.purposes == ("moments", "clamped responses")


@pytest.mark.parametrize("options", [PUBLIC, {**PUBLIC, "rounds": 3}, {**PRIVATE}, {**PRIVATE, "intercept": True, "ranges": {"x1": (-1, 7)}, "response_center": 2.}])
@pytest.mark.parametrize("name", PAIRS)
def test_hard_pairs(options, name):
    assert audit_release(*PAIRS[name], **options, transcripts=4).ok


def test_all_the_selection_knows_came_through_the_door():
    run = lambda X, y, sampler: filter_three(X, y, **PRIVATE, sampler=sampler, random_state=1)  # noqa: E731
    rng = np.random.default_rng(0)
    for k in range(10):
        first = record(run, (X, Y), NumpySampler(k))
        second = replay(run, (rng.standard_cauchy(X.shape) * 1e3, rng.integers(0, 2, len(Y))), first)
        assert difference(first.outcome, second.outcome) == "" and isinstance(first.outcome.W, np.ndarray)
    run = lambda y, _, sampler: filter_labels(X, y, **LABELS, sampler=sampler, random_state=1)  # noqa: E731
    first = record(run, (Y, None), NumpySampler(0))
    assert replay(run, (rng.standard_cauchy(len(Y)), None), first).outcome.selected == first.outcome.selected


def test_labels_are_tight_and_safe():
    longest = np.argmax(np.linalg.norm(X, axis=1))
    one, two = Y.copy(), Y.copy()
    one[longest], two[longest] = 1e100, -1e100
    found = audit_release((X, one), (X, two), run=filter_labels, **LABELS)
    assert found.ok and .999999 < found.mu / found.allowed < 1 + 1e-12


@pytest.mark.parametrize("value", [1., 1e200])
def test_labels_refuse_nothing_that_depends_on_responses(value):
    constant = np.zeros(len(Y)); other = constant.copy(); other[0] = value
    record_of = lambda y: record(lambda X, y, sampler: filter_labels(X, y, **LABELS, sampler=sampler, random_state=0), (X, y), NumpySampler(0))  # noqa: E731
    assert [bool(record_of(y).draws) for y in (constant, other)] == [True, True]


def test_a_narrow_range_does_not_refuse_large_values():
    assert audit_release(first_row([1e300, 0, 0], 1.), first_row([0, 0, 0], 1.), **PUBLIC, ranges={"x0": (-1e-10, 1e-10)}).ok


def test_secure_noise_goes_through_the_same_door():
    run = lambda X, y, sampler: filter_three(X, y, **{**PUBLIC, "rounds": 2}, sampler=sampler, random_state=0)  # noqa: E731
    first = record(run, (X, Y), SecureSampler())
    assert "OpenDP" in first.outcome.notes[-1] and first.outcome.details["sampler"] == SecureSampler.name
    assert (replay(run, PAIRS["worst"][0], first).outcome.W == first.outcome.W).all()


def test_noise_of_rounds_is_fresh(monkeypatch):
    run = lambda X, y, sampler: method_three.private_moments(X, y, **{**PUBLIC, "rounds": 3}, sampler=sampler)  # noqa: E731
    noise = lambda: np.array([np.concatenate([d.noise for d in record(run, (X, Y), NumpySampler(k)).draws]) for k in range(80)])  # noqa: E731
    assert_white(noise())
    monkeypatch.setattr(NumpySampler, "_rng", lambda self, purpose: stream(self.random_state, "noise"))
    assert fires(assert_white, noise())


# mutants of the package: each must be caught

def unscaled(X, y, clip, center, scale):
    Z = np.column_stack([(X - center) / scale, np.ones((len(y), int(clip.intercept)))])
    t = y - clip.response_center - (Z @ clip.start if clip.start else 0)
    return Z, np.clip(t, -clip.response_bound, clip.response_bound), (0, int((np.abs(t) > clip.response_bound).sum()))


def unclamped(X, y, clip, center, scale, real=moments_room.clipped_rows):
    Z, t, cut = real(X, y, replace(clip, response_bound=1e140), center, scale)
    return Z, t, (cut[0], int((np.abs(t) > clip.response_bound).sum()))


def y_not_scaled(X, y, clip, center, scale, real=moments_room.clipped_rows):
    Z, _, cut = real(X, y, clip, center, scale)
    return Z, y - (Z @ clip.start if clip.start else 0), cut


class Silent(NumpySampler):
    def gaussian(self, value, scale, purpose): return np.asarray(value, dtype=float)


REAL, SEARCH, WHOLE = method_three.release, private_moments.private_quantile, analytic_ratio(Budget(1., .1))
SENSITIVITY = private_moments.joint_sensitivity
MUTANTS = {
    "rows not scaled": (moments_room, "clipped_rows", unscaled),
    "responses not clamped": (moments_room, "clipped_rows", unclamped),
    "responses neither": (moments_room, "clipped_rows", y_not_scaled),
    "half the sensitivity": (private_moments, "joint_sensitivity", lambda g, h: SENSITIVITY(g, h) / 2),
    "one part's sensitivity": (private_moments, "joint_sensitivity", lambda g, h: np.sqrt(2 * g) if g else 2 * np.sqrt(h)),
    "cross term forgotten": (private_moments, "joint_sensitivity", lambda g, h: np.sqrt(2 * g + 2 * h) if h <= 2 * g else 2 * np.sqrt(h)),
    "budget not split": (method_three, "release", lambda m, mu, *more, **kw: REAL(m, WHOLE, *more, **kw)),
    "search not taken off": (private_moments, "private_quantile", lambda count, n, q, mu, *more: SEARCH(count, n, q, 4 * mu, *more)),
    "search with scale 0": (private_moments, "private_quantile", lambda count, n, q, mu, *more: SEARCH(count, n, q, np.inf, *more)),
    "search past the sampler": (private_moments, "private_quantile", lambda count, n, q, mu, s, name: SEARCH(count, n, q, mu, Silent(0), name)),
    "the largest norm in the result": (method_three, "release", lambda m, *more, **kw: {**REAL(m, *more, **kw), "gram_sd": m.row_norm}),
    "noise scaled by the data": (method_three, "release", lambda m, mu, *more, **kw: REAL(m, mu * m.row_norm / 2, *more, **kw)),
}


def caught():
    "Do the door or the distances object?"
    run = lambda X, y, sampler: method_three.private_moments(X, y, **PRIVATE, sampler=sampler)  # noqa: E731
    try:
        replay(run, (3 * X, -Y), record(run, (X, Y), NumpySampler(0)))
        return any(not audit_release(*pair, **options, transcripts=2).ok for pair in PAIRS.values() for options in (PUBLIC, {**PUBLIC, "rounds": 3}, PRIVATE))
    except Leak: return True


def test_the_package_itself_is_not_caught(): assert not caught()


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name, monkeypatch):
    monkeypatch.setattr(*MUTANTS[name])
    assert caught()


@pytest.mark.parametrize("name", ["rows not scaled", "responses not clamped"])
def test_an_attacker_who_sees_signs_only(name, monkeypatch):
    def positive(response, trials):
        rows, responses = np.array([[1e3], [2.], [2.]]), np.array([response, -3., -3.])
        options = dict(epsilon=1., delta=.1, row_bound=2., response_bound=3., balance=.5, intercept=False)
        def run(k):
            rng = np.random.default_rng([int(response > 0), k])
            release = method_three.private_moments(rows, responses, **options, random_state=rng)
            return filter_three(release, sigma=1e-3, s=[1.99], statistic=Statistic("ridge", "lcd", .1), random_state=rng)
        return sum(int(run(k).signs[0] > 0) for k in range(trials))
    lower = lambda trials: epsilon_lower_bound(positive(1e6, trials), positive(-1e6, trials), trials, .1)  # noqa: E731
    if name == "rows not scaled": assert lower(300) <= 1
    monkeypatch.setattr(*MUTANTS[name])
    assert lower(150) > 1


def test_labels_with_half_the_noise_are_caught(monkeypatch):
    monkeypatch.setattr(method_three, "analytic_ratio", lambda budget: 2 * analytic_ratio(budget))
    longest = np.argmax(np.linalg.norm(X, axis=1))
    one, two = Y.copy(), Y.copy()
    one[longest], two[longest] = 1e9, -1e9
    found = audit_release((X, one), (X, two), run=filter_labels, **LABELS)
    assert not found.ok and "BROKEN" in repr(found) and np.isclose(found.divergence, gaussian_divergence(1., 2 * found.allowed))


def test_bounds_from_the_data_are_a_leak():
    def peeking(X, y, **kw): return method_three.private_moments(X, y, **{**kw, "row_bound": float(np.linalg.norm(X, axis=1).max())})
    with pytest.raises(Leak, match="row_bound"): audit_release(*PAIRS["long"][:1], first_row([7e3, 0, 0], 5.), **PUBLIC, run=peeking)


def test_the_papers_scales_depend_on_the_data():
    X1 = np.vstack([np.eye(5)] * 6); X2 = X1.copy(); X2[0, 0] = .1
    y = X1.sum(1) + np.random.default_rng(0).standard_normal(30)
    run = lambda X, y, sampler: filter_one(X, y, epsilon=.5, delta=.05, row_bound=1., sigma=1., beta_norm=3., sampler=sampler, random_state=0)  # noqa: E731
    one, two = (record(run, (X, y), NumpySampler(0)).draws for X in (X1, X2))
    assert np.isinf(distances(one, two)).all() and np.allclose(one[0].value, two[0].value)


def test_a_result_that_holds_a_row_norm_is_a_leak():
    run = lambda X, y, sampler: (sampler.gaussian(0., 1., "a"), Moments.from_data(X, y).row_norm)  # noqa: E731
    with pytest.raises(Leak, match="outcome.1"): replay(run, (2 * X, Y), record(run, (X, Y), NumpySampler(0)))
