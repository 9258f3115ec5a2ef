"The tests with a public distribution: known sensitivity, weights that see nothing, all sources, exact sums."
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dp_knockoff.core.testing import refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.data import rows
from dp_knockoff.data.clip import BITS
from dp_knockoff.data.models import ar1
from dp_knockoff.data.source import open_source
from dp_knockoff.evidence.audit import audit_release
from dp_knockoff.filters import law_tests
from dp_knockoff.filters.law_tests import (
    LawTestsMethod,
    LawTestsRelease,
    _Pass,
    _shrunk,
    choice_epsilon,
    chosen_number,
    residuals_of,
)
from dp_knockoff.filters.methods import load_release, private_filter
from dp_knockoff.filters.products_method import FIRST_CLAMP
from dp_knockoff.knockoffs.laws import Blocks, Gaussian, Independent, Levels, open_uniforms
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.privacy.samplers import NumpySampler, SecureSampler
from dp_knockoff.selection.release import select
from watched import Recorder, Silent, Unused, far_apart, unread

pytestmark = pytest.mark.filterwarnings("ignore:delta=")
FACTORS = Levels({"f": {"a": .5, "b": .3, "c": .2}, "g": {0: .6, 1: .4}})
LAWS = {"normal": (Gaussian(0, ar1(6, .5)), {}), "plain": (Gaussian(1, 4 * np.eye(6)), {}),
        "grouped": (Gaussian(0, ar1(6, .8)), {"a": ["x0", "x2"]}),
        "skewed": (Independent([stats.gamma(2)] * 6), {}), "heavy": (Independent([stats.t(5)] * 6), {}),
        "pairs": (Independent([stats.uniform(0, 1)] * 6), {"a": ["x1", "x5"]}),
        "mixed": (Blocks(Gaussian(0, ar1(2, .7)), FACTORS, Independent([stats.expon()])),
                  {"f": ["x2", "x3"]})}
PUBLIC = dict(epsilon=1.0, delta=1e-3, response_bound=3.0)
MU = analytic_ratio(Budget(1.0, 1e-3))
ALLOWED = Fraction(MU)**2
WILD = [0.0, 1.0, -1e-300, 5e-324, 1e5, -1e150, 1e155, 1.7e308]


def drawn(name, n, seed=0):
    "Rows of a law and a response that is not linear"
    law, rng = LAWS[name][0], np.random.default_rng(seed)
    X = law.draw(open_uniforms(rng, (n, law.p)))
    return X, X[:, 0] + np.abs(X[:, 1]) + rng.standard_t(3, n)


def source(name, X, y): return open_source(X, y, groups=LAWS[name][1] or None)


def method(name, **more): return LawTestsMethod(**PUBLIC | dict(law=LAWS[name][0]) | more)


def known(name):
    law, groups = LAWS[name]
    return residuals_of(law, Variables.of([f"x{j}" for j in range(law.p)], groups))


@pytest.mark.parametrize("name", LAWS)
def test_products_formula(name):
    "What is drawn in the first round: sums of truncated residuals times clamped responses, and three more"
    X, y = drawn(name, 500)
    sampler, r = Recorder(), known(name)
    method(name, rounds=1, response_center=.5).release(source(name, X, y), sampler=sampler)
    (what, sums, scales), (_, square, square_scale), (_, count, count_scale) = sampler.draws
    b = PUBLIC["response_bound"] / FIRST_CLAMP
    _, U = r.units(X)
    psi, row = r.weighted(U)
    t = np.clip(y - .5, -b, b)
    unit = r.R * b / 4**BITS
    assert what == "products 0" and np.allclose(sums * unit, t @ psi, atol=500 * r.R * b / 2**BITS)
    assert np.isclose(square * b**2 / 4**BITS, (t * row)**2 @ np.ones(500), rtol=1e-4)
    assert np.allclose(scales * unit, 2 * r.R * b / (MU * np.sqrt(1 - .04 - .02)), rtol=1e-6)
    assert np.isclose(square_scale * b**2 / 4**BITS, b**2 / (MU * np.sqrt(.04)))
    assert np.isclose(count / count_scale, (np.abs(y - .5) > b).sum() * MU * np.sqrt(.02))


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("name", LAWS)
def test_no_k_rows_are_farther_apart_than_the_budget_allows(name, rounds):
    rng = np.random.default_rng(rounds)
    X, y = drawn(name, 60)
    p, k = X.shape[1], rounds
    way = method(name, rounds=rounds, rows_per_person=k)
    def run(X, y, sampler): return way.release(source(name, X, y), sampler=sampler)
    def table(x, t): return np.vstack([x, X[k:]]), np.append(t, y[k:])
    def anything():
        if rng.random() < .5: return rng.choice(WILD, (k, p)), rng.choice(WILD, k) * rng.choice([-1, 1], k)
        return np.tile(5 * rng.standard_normal(p), (k, 1)), np.full(k, rng.choice([-1e9, 1e9]))
    row = np.tile(rng.standard_normal(p) * 9, (k, 1))
    pairs = [(anything(), anything()) for _ in range(5)] + [((row, np.full(k, 9e9)), (row, np.full(k, -9e9)))]
    far = [far_apart(run, table(*one), table(*two)) for one, two in pairs]
    assert max(far) <= ALLOWED and max(far) > .3 * ALLOWED


def test_without_noise_a_release_is_what_was_drawn():
    X, y = drawn("normal", 2000)
    r = method("normal", rounds=3, response_bound=150.0).release(X, y, sampler=Silent())
    k = known("normal")
    Z, U = k.units(X)
    psi, _ = k.weighted(U)
    for start, center, bound, products in zip(r.starts, r.centers, r.bounds, r.products):
        t = np.clip((y - center - Z @ k.fit(start))[:, None] + k.own(U, start), -bound, bound)
        assert np.allclose(products, (psi * t).sum(0), atol=2000 * k.R * bound / 2**BITS)
    assert r.starts[2].any() and not r.starts[0].any() and r.bounds[2] < r.bounds[0] == 50
    assert np.allclose(r.estimates().estimate[:1], 1, atol=.15)


def test_same_draws_for_every_chunking(monkeypatch):
    X, y = drawn("mixed", 2000)
    def draws_of(data, t=None):
        sampler = Recorder()
        method("mixed", rounds=3).release(open_source(data, t, groups=LAWS["mixed"][1]), sampler=sampler)
        return [value for _, value, _ in sampler.draws]
    whole = draws_of(X, y)
    for size in (1, 299, 777):
        monkeypatch.setattr(rows, "block_rows", lambda p, size=size: max(size, 100))
        def chunks(size=size): return ((X[i:i + size], y[i:i + size]) for i in range(0, 2000, size))
        again = draws_of(chunks)
        assert len(again) == len(whole) == 11
        assert all(np.array_equal(a, b) for a, b in zip(whole, again))


def test_a_release_is_a_file_and_sites_add_up(tmp_path):
    X, y = drawn("normal", 3000)
    parts = [method("normal").release(X[k::3], y[k::3], simulation=True, random_state=k) for k in range(3)]
    whole = sum(parts)
    again = load_release(whole.save(tmp_path / "r"))
    assert isinstance(again, LawTestsRelease) and again.n == 3000 and again.rounds == 3 == parts[0].rounds
    for name, value in vars(whole).items(): assert np.array_equal(getattr(again, name), value), name
    assert (select(again).W == select(whole).W).all() and len(whole.products) == 9
    each = [np.array(part.tests()) for part in parts]
    weights = np.array([1 / v for _, v in each])
    assert np.allclose(whole.tests()[0], (weights * [e for e, _ in each]).sum(0) / weights.sum(0))
    assert np.allclose(whole.tests()[1], 1 / weights.sum(0))
    other = method("normal", rows_per_person=2).release(X, y, simulation=True)
    assert "different row" in refusal(lambda: whole + other)
    assert "added twice" in refusal(lambda: whole + parts[0])


def test_rounds_of_a_site_are_combined_as_if_their_sampling_errors_were_one():
    X, y = drawn("normal", 800)
    r = method("normal").release(X, y, simulation=True, random_state=0)
    e, s, v = r._each()
    w = 1 / (s**2 + v**2) / (1 / (s**2 + v**2)).sum(0)
    assert np.allclose(r.tests()[0], (w * e).sum(0))
    assert np.allclose(r.tests()[1], ((w * s)**2).sum(0) + (w * v).sum(0)**2)


def test_starts_are_even():
    b, v = np.array([5.0, -.1, .2, -4, .3, 0]), np.full(6, .04)
    mean, left = _shrunk(b, v)
    assert np.allclose(_shrunk(-b, v)[0], -mean) and (left > 0).all()
    assert abs(mean[0]) > 4.5 and np.abs(mean[[1, 2, 4, 5]]).max() < .1


def test_the_centre_of_a_range_is_found_and_that_of_a_yes_or_no_is_known():
    X, y = drawn("plain", 3000)
    import pandas as pd
    names = [f"x{j}" for j in range(6)]
    table = pd.DataFrame(X, columns=names).assign(y=np.clip(y + 30, 0, 200), yes=y > 3)
    facts = {"target": "y", "columns": {"y": {"range": [0, 200]}, "yes": {"levels": [False, True]}}}
    for name in names: facts["columns"][name] = {}
    plain = Gaussian(1, 4 * np.eye(6), names)
    way = LawTestsMethod(**{**PUBLIC, "response_bound": None}, law=plain)
    r = way.release(way.open(table[[*names, "y"]], "y", facts), simulation=True, random_state=0)
    assert abs(r.centers[-1] - np.median(y + 30)) < 3 and r.response_bound == 100
    r = way.release(way.open(table[[*names, "yes"]], "yes", facts), simulation=True, random_state=0)
    assert r.centers[0] == .5 and r.response_bound == .5


@pytest.mark.parametrize("wrong, says", [
    (dict(law=lambda X, U: U), "rule='knockoffs'"),
    (dict(law=Blocks(Gaussian(0, np.eye(2)), Levels({"f": {"a": .5, "b": .25, "c": .25}}))), "in groups="),
    (dict(response_bound=None), "response_bound is missing")])
def test_refusals_before_a_row_is_read(wrong, says):
    law = wrong.get("law")
    names = [f"x{j}" for j in range(getattr(law, "p", 6) or 6)]
    given = dict(law=Gaussian(0, np.eye(6)), **PUBLIC) | wrong
    assert says in refusal(LawTestsMethod(**given).release, unread(names), sampler=Unused())


def test_groups_of_several_kinds_are_refused():
    law = Blocks(Gaussian(0, ar1(2, .5)), Gaussian(0, ar1(2, .5)))
    variables = Variables.of(["x0", "x1", "x2", "x3"], {"a": ["x1", "x2"]})
    assert "rule='knockoffs'" in refusal(residuals_of, law, variables)


def test_e_values_are_those_of_the_formula():
    X, y = drawn("normal", 900)
    r = method("normal", rounds=1).release(X, y, simulation=True, random_state=1)
    s = np.sqrt(900 * r.bounds[0]**2 + r.product_sds[0]**2)
    bet = np.sqrt(2 * np.log(12))
    moved = 900 * r.bounds[0] * r.row_bound / 2**18
    pays = np.exp(-bet**2 / 2 - bet * moved / s)
    assert np.allclose(r.e_values(), np.cosh(bet * r.products[0] / s) * pays)
    n = 1e14  # so many rows that what truncation alone may do is seen
    moved = n * r.bounds[:, None] * r.row_bound / 2**18 * np.ones((1, 6))
    assert (replace(r, ns=np.array([n]), products=moved).e_values() <= 1).all()
    found = private_filter(X, y, law=LAWS["normal"][0], **PUBLIC, rule="exact", simulation=True,
                           random_state=1)
    assert np.allclose(found.W, r.e_values()) and found.guarantee.control.kind == "exact"
    assert "needs e-values" in refusal(select, method("normal").release(X, y, simulation=True), rule="exact")
    assert "needs e-values" in refusal(method("heavy", rounds=1).select, unread([f"x{j}" for j in range(6)]),
                                       rule="exact")


def test_residuals_of_rows_that_no_law_has_are_finite():
    for name in LAWS:
        k = known(name)
        X = np.array([[value] * k.p for value in WILD] + [[1e308, -1e308] * (k.p // 2) + [0.0] * (k.p % 2)])
        psi, _ = k.weighted(k.units(X)[1])
        assert np.isfinite(psi).all() and (np.linalg.norm(psi, axis=1) <= k.R * (1 + 1e-12)).all()
        sums = _Pass(k, 0.0, np.ones(k.p), 1.0)(X, np.resize(WILD, len(X)))
        assert np.abs(sums.products).max() <= len(X) * 4**BITS


def test_the_last_check_of_rows_on_the_grid():
    A = np.array([[2.0**BITS, 0], [2.0**BITS, 1], [3, 4]])
    assert law_tests._within(A).tolist() == [[2.0**BITS, 0], [0, 0], [3, 4]]


# Many columns


MANY = 210


def wide(n=600, seed=0, correlated=False):
    "Rows with 210 columns, five of which matter"
    law = Gaussian(0, ar1(MANY, .5) if correlated else np.eye(MANY))
    X = law.draw(open_uniforms(np.random.default_rng(seed), (n, MANY)))
    return law, X, 3 * X[:, 100:105].sum(1) + np.random.default_rng(seed + 1).standard_normal(n)


def many(law, **more):
    return LawTestsMethod(**dict(law=law, epsilon=3.0, delta=1e-3, response_bound=17.0) | more)


class Watched(Silent):
    "Remembers a choice"
    def top(self, value, scale, k, purpose):
        self.seen = np.array(value), scale, k
        return super().top(value, scale, k, purpose)


@pytest.mark.parametrize("correlated", [False, True])
def test_scores_formula(correlated):
    "Sums of residuals cut to half a standard deviation times clamped responses; the range of what a row adds"
    law, X, y = wide(correlated=correlated)
    sampler = Watched()
    release = many(law, response_center=.5).release(X, y, sampler=sampler)
    value, scale, k = sampler.seen
    b = 17 / FIRST_CLAMP
    U = residuals_of(law, Variables.single(MANY)).units(X)[1]
    found = np.abs(np.clip(U, -.5, .5).T @ np.clip(y - .5, -b, b))
    assert np.allclose(value / 4**BITS * .5 * b, found, atol=600 * b / 2**BITS)
    mu = analytic_ratio(Budget(3.0, 1e-3))
    assert k == 52 == chosen_number(MANY, 600, mu) == len(release.names)
    assert np.isclose(scale, 4 * 4**BITS / choice_epsilon(mu * np.sqrt(.75 / 52)), rtol=1e-6)
    assert set(release.names) == {f"x{j}" for j in np.argsort(-value, kind="stable")[:52]}
    spent = np.sum((2 * release.row_bound * release.bounds / release.product_sds)**2)
    assert .2 * mu**2 < spent < .25 * mu**2 and release.rounds == 2 and release.hypotheses == MANY


@pytest.mark.parametrize("variables, n, mu, k", [
    (200, 100, .2, 20), (1000, 20_000, .2, 100), (300, 10**6, .2, 75), (200, 10**6, .2, 50)])
def test_how_many_are_chosen(variables, n, mu, k): assert chosen_number(variables, n, mu) == k


def test_those_that_were_not_chosen_count_as_tests():
    law, X, y = wide()
    release = many(law).release(X, y, simulation=True, random_state=0)
    found = select(release, rule="bh")
    p = np.append(2 * stats.norm.sf(found.W), np.ones(MANY - len(found.W)))
    below = np.flatnonzero(np.sort(p) <= .2 * np.arange(1, MANY + 1) / MANY)
    assert found.support.sum() == below[-1] + 1 and {f"x{j}" for j in range(100, 105)} <= set(found)
    assert f"of {MANY} variables" in found.explain() and "p-value of 1" in str(found)
    effects = found.effects
    width = 2 * stats.norm.isf(.025 * len(found) / MANY)
    assert np.allclose((effects.high - effects.low) / effects.se, width)
    assert found.at_least() >= 4


@pytest.mark.parametrize("columns", [MANY, 70]) # in one piece, and in three
def test_a_choice_on_dask_is_that_in_memory(columns):
    da = pytest.importorskip("dask.array")
    law, X, y = wide(correlated=True)
    there = da.from_array(X, chunks=(150, columns)), da.from_array(y, chunks=150)
    one, two = (many(law).release(*data, simulation=True, random_state=0) for data in ((X, y), there))
    assert one.names == two.names and len(one.names) == 52
    assert (one.products == two.products).all() and (one.bounds == two.bounds).all()


def test_no_choice_below_two_hundred_variables_nor_in_one_round():
    law, X, y = wide()
    assert len(many(law, rounds=1).release(X, y, simulation=True).names) == MANY
    groups = {"g": [f"x{j}" for j in range(20)]} # 191 variables
    release = many(law).release(open_source(X, y, groups=groups), simulation=True)
    assert release.hypotheses == len(release.names) == 191


def test_groups_are_chosen_together_and_releases_of_other_columns_do_not_add_up(tmp_path):
    law, X, y = wide()
    source = open_source(X, y, groups={"g": ["x100", "x7"], "h": ["x1", "x2"]})
    release = many(law).release(source, sampler=Silent())
    assert "g" in release.names and {"x100", "x7"} <= set(release.columns) and "h" not in release.groups
    assert load_release(release.save(tmp_path / "r")).hypotheses == MANY - 2
    other = many(law).release(X[::-1], y, simulation=True, random_state=5)
    assert "different columns" in refusal(lambda: release + other)


@pytest.mark.parametrize("correlated", [False, True])
def test_residuals_of_some_variables_are_those_of_all(correlated):
    law, X, _ = wide(correlated=correlated)
    whole, which = residuals_of(law, Variables.single(MANY)), np.array([3, 4, 90])
    some = whole.only(which, law)
    (Z, U), (Z2, U2) = whole.units(X), some.units(X)
    assert np.allclose(U[:, which], U2) and np.allclose(Z[:, which], Z2) and some.R == some.B < whole.R
    gamma = np.array([1.0, -2, .5])
    assert np.allclose(Z @ whole.fit(np.bincount(which, gamma, MANY)), Z2 @ some.fit(gamma))
    if correlated: assert np.allclose(some.H, whole.H[np.ix_(which, which)])


@pytest.mark.parametrize("rounds", [2, 3])
def test_no_row_moves_a_choice_and_its_rounds_beyond_the_budget(rounds):
    law, X, y = wide(60)
    rng = np.random.default_rng(rounds)
    def run(X, y, sampler, **budget):
        way = LawTestsMethod(law=law, response_bound=3.0, rounds=rounds, **budget)
        return way.release(X, y, sampler=sampler)
    def neighbour(row, t): return np.vstack([row[None], X[1:]]), np.append(t, y[1:])
    far = 1e3 * rng.choice([-1, 1], MANY)
    found = []
    usual = rng.standard_normal(MANY), 1.0
    for one, two in [((far, 99), (far, -99)), ((far, 99), usual), ((far, 9), (-far, 9))]:
        pair = neighbour(*one), neighbour(*two)
        audit = audit_release(*pair, epsilon=1.0, delta=1e-6, run=run, transcripts=2)
        assert audit.ok
        found.append(audit.ratio)
    assert max(found) > .85


def test_the_audit_sees_a_choice_with_less_noise(monkeypatch):
    law, X, y = wide(60)
    X[0] = 1e3
    monkeypatch.setattr(law_tests, "choice_epsilon", lambda mu: 1.3 * choice_epsilon(mu))
    def run(X, y, sampler, **budget):
        return LawTestsMethod(law=law, response_bound=3.0, **budget).release(X, y, sampler=sampler)
    pair = [(X, np.append(t, 50 * np.sign(y[1:]))) for t in (99, -99)]
    assert not audit_release(*pair, epsilon=1.0, delta=1e-6, run=run, transcripts=2).ok


@pytest.mark.parametrize("sampler", [NumpySampler, SecureSampler])
def test_samplers_choose_with_gumbel_noise(sampler):
    "Ordered pairs of three, against the probabilities of successive choices"
    scores, scale, runs = np.array([0, 60_000, 90_000]), 60_000.0, 3000
    draw, w = sampler(), np.exp(scores / scale)
    seen = np.zeros((3, 3))
    for _ in range(runs):
        i, j = draw.top(scores, scale, 2, "choice")
        seen[i, j] += 1
    p = w / w.sum()
    expected = runs * p[:, None] * p / (1 - p[:, None]) * (1 - np.eye(3))
    off = ~np.eye(3, dtype=bool)
    assert seen.sum() == runs and stats.chisquare(seen[off], expected[off]).pvalue > 1e-9
    assert not np.allclose(seen / runs, np.outer(p, p), atol=.02) # drawn without replacement


def test_what_a_choice_may_spend():
    for mu in (1e-3, .1, 1.0):
        epsilon = choice_epsilon(mu)
        assert np.isclose(2 * stats.norm.ppf(stats.logistic.cdf(epsilon / 2)), mu) and epsilon < mu / .57


@pytest.mark.parametrize("center", [(1, 2, 3), (2, -2), (0, np.inf), (np.nan, 1), ()])
def test_a_range_of_centres_that_cannot_be(center):
    words = "is not a range (low, high): pass a public number, 'private', or the response's public range"
    assert words in refusal(LawTestsMethod, epsilon=1, delta=1e-6, response_center=center)


def test_effects_are_shrunk_to_their_posterior_means_and_variances():
    "Against integrals under the prior, of those tried, that explains all estimates best"
    rng = np.random.default_rng(0)
    v = rng.uniform(.5, 2, 30)
    b = np.where(rng.random(30) < .3, 4 * rng.standard_normal(30), 0) + np.sqrt(v) * rng.standard_normal(30)
    widths = np.mean(b**2) * np.array(law_tests._SCALES)
    priors = [(chance, wide) for chance in law_tests._CHANCES for wide in widths]
    def seen(chance, wide): # the densities of the estimates without an effect, and with one
        def density(variance): return stats.norm.pdf(b, 0, np.sqrt(variance))
        return (1 - chance) * density(v), chance * density(v + wide)
    chance, wide = max(priors, key=lambda prior: np.log(sum(seen(*prior))).sum())
    t = np.linspace(-60, 60, 200_001)
    some = chance * stats.norm.pdf(t, 0, np.sqrt(wide)) * stats.norm.pdf(b[:, None], t, np.sqrt(v)[:, None])
    first, second = ((some * t**k).sum(-1) * (t[1] - t[0]) / sum(seen(chance, wide)) for k in (1, 2))
    mean, variance = _shrunk(b, v)
    assert np.allclose(mean, first, atol=1e-6) and np.allclose(variance, second - first**2, atol=1e-6)
