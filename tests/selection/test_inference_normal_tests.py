"Tests of normal estimates: sizes of groups, three step-up rules, and what makes the third of them exact."
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri
from scipy.stats import chi2, norm

from dp_knockoff.core.testing import assert_rate_at_most, fires, refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.selection import inference as normal_tests
from dp_knockoff.selection.inference import (
    _contribution,
    _log_chi2_tail,
    _pruned,
    bh_adjusted,
    bh_threshold,
    by_threshold,
    dbh_support,
    normal_sizes,
    two_sided,
)

GROUPED = Variables.of("abcd", {"g": "bd"})


def test_the_size_of_a_group_has_the_p_value_of_its_chi_square_test():
    rng = np.random.default_rng(2)
    variables = Variables.of("abcdef", {"g": "ab", "h": "cef"})
    for scale in (1.0, 3.0, 30.0):
        root = rng.standard_normal((6, 6))
        V, beta = root @ root.T + np.eye(6), scale * rng.standard_normal(6)
        sizes = normal_sizes(beta, V, variables)
        for j, columns in enumerate(([0, 1], [2, 4, 5], [3])):
            square = beta[columns] @ np.linalg.solve(V[np.ix_(columns, columns)], beta[columns])
            logs = np.log(2) + norm.logsf(sizes[j]), chi2.logsf(square, len(columns))
            assert variables.names[j] == "ghd"[j] and np.isclose(*logs, rtol=1e-6, atol=1e-9)
    alone = Variables.of("abcdef")
    assert np.allclose(normal_sizes(beta, V, alone), np.abs(beta) / np.sqrt(np.diag(V)))


def covariance(seed, p=4):
    A = np.random.default_rng(seed).standard_normal((2 * p, p))
    return A.T @ A / 5


@pytest.mark.parametrize("size", [0.0, .1, 1.0, 3.0, 30.0])
def test_a_group_has_the_size_of_its_chi_square_test(size):
    V, beta = covariance(0), size * np.array([1.0, -2, .5, 1])
    found = normal_sizes(beta, V, GROUPED)
    own = np.ix_([1, 3], [1, 3])
    p = chi2.sf(beta[[1, 3]] @ np.linalg.inv(V[own]) @ beta[[1, 3]], 2)
    assert np.allclose(found[[0, 2]], np.abs(beta[[0, 2]]) / np.sqrt(np.diag(V)[[0, 2]]))
    assert found.shape == (3,) and found[1] >= 0
    if p > 0: assert np.isclose(2 * norm.sf(found[1]), p, rtol=1e-9)


def test_sizes_of_huge_effects_are_finite_and_grow():
    "Far beyond where p-values underflow, one column and two agree to first order"
    V = np.eye(4)
    effects = np.array([[0, t, 0, 0] for t in (10, 30, 37, 38, 39, 100, 1e4, 1e6)])
    sizes = [normal_sizes(effect, V, GROUPED)[1] for effect in effects]
    assert np.isfinite(sizes).all() and (np.diff(sizes) > 0).all() and np.isclose(sizes[-1], 1e6, rtol=1e-4)
    for df in (2, 3, 5, 40):  # just before and after the asymptotic series takes over
        many = Variables.of(range(df), {"g": range(df)})
        def at(t, df=df, many=many): return normal_sizes(np.eye(df)[0] * t, np.eye(df), many)[0]
        steps = np.diff([at(t) for t in np.arange(30, 45, .25)])
        assert np.abs(np.diff(steps)).max() < 2e-3 and np.isclose(steps[-1], .25, rtol=.05)


def test_null_groups_have_uniform_p_values():
    rng = np.random.default_rng(0)
    V = covariance(1)
    z = np.array([normal_sizes(beta, V, GROUPED) for beta in rng.multivariate_normal(np.zeros(4), V, 3000)])
    for alpha in (.5, .1, .01):
        share = (2 * norm.sf(z) < alpha).mean(0)
        assert np.abs(share - alpha).max() < 6 * np.sqrt(alpha * (1 - alpha) / 3000)


def test_without_groups_sizes_are_ratios():
    V, beta = covariance(2), np.array([1.0, -2, .5, 1e9])
    assert np.allclose(normal_sizes(beta, V, Variables.single(4)), np.abs(beta) / np.sqrt(np.diag(V)))


@pytest.mark.parametrize("x", [1.0, 30.0, 660.0, 680.0, 2e3, 1e6])
def test_logarithms_of_tails_are_those_of_closed_forms(x):
    "Degrees of freedom 2, 4 and 6 have finite sums, 3 an error function; the series takes over above 660"
    sums = {2: 1.0, 4: 1 + x, 6: 1 + x + x**2 / 2}
    for df, value in sums.items(): assert np.isclose(_log_chi2_tail(2 * x, df), np.log(value) - x, rtol=1e-13)
    three = np.logaddexp(np.log(2) + norm.logsf(np.sqrt(2 * x)), np.log(2) + np.log(x / np.pi) / 2 - x)
    assert np.isclose(_log_chi2_tail(2 * x, 3), three, rtol=1e-13)


# ---------------------------------------------------------------- the rules

def literal_bh(pvalues, q):
    "The step-up rule as Benjamini and Hochberg print it"
    order = np.argsort(pvalues, kind="stable")
    k = max([i for i in range(1, len(order) + 1) if pvalues[order[i - 1]] <= i * q / len(order)], default=0)
    return np.isin(np.arange(len(order)), order[:k])


@given(st.integers(0, 2**32 - 1), st.sampled_from([.05, .2, .5]), st.integers(1, 25))
def test_the_step_up_rules_are_what_they_say(seed, q, p):
    z = np.random.default_rng(seed).normal(1, 1.5, p)
    pvalues = 2 * norm.sf(np.abs(z))
    assert np.allclose(two_sided(z), pvalues, rtol=1e-12)
    harmonic = sum(1 / k for k in range(1, p + 1))
    assert ((np.abs(z) >= bh_threshold(z, q)) == literal_bh(pvalues, q)).all()
    assert ((np.abs(z) >= by_threshold(z, q)) == literal_bh(pvalues, q / harmonic)).all()
    adjusted = bh_adjusted(z)
    for level in (.01, q, .9): assert ((adjusted <= level) == literal_bh(pvalues, level)).all()
    assert (adjusted <= 1).all() and (adjusted >= pvalues * (1 - 1e-12)).all()


def correlations(p, factors, rng):
    M = rng.standard_normal((p, factors))
    V = M @ M.T + .02 * np.eye(p)
    return V / np.sqrt(np.outer(np.diag(V), np.diag(V)))


def literal_term(z, j, q, level):
    "1{q_j <= level} / R_j, one z at a time and read literally"
    pvalues = 2 * ndtr(-np.abs(z))
    if not literal_bh(pvalues, level)[j]: return 0.0
    found = literal_bh(pvalues, q)
    return 1 / (found.sum() + (not found[j]))


@pytest.mark.parametrize("seed", range(6))
def test_contributions_are_those_of_all_places_where_the_rule_could_change(seed):
    rng = np.random.default_rng(seed)
    p, q = 5, (.05, .2, .5)[seed % 3]
    C = correlations(p, (1, 3, 9)[seed % 3], rng)
    if seed == 5: C = np.kron(np.eye(p), [[1.0]])  # slopes of zero
    z = np.linalg.cholesky(C) @ rng.standard_normal(p) + 3 * (rng.random(p) < .4)
    for j, level in enumerate(bh_adjusted(z)):
        cuts = np.append(*(-ndtri(np.minimum(a * np.arange(1, p + 1) / p, 1) / 2)
                           for a in (q, level * (1 + 1e-9))))
        rest = z - C[j] * z[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            ends = np.concatenate([(s * cuts[:, None] - rest) / C[j] for s in (1, -1)]).ravel()
        ends = np.unique(np.append(ends[np.abs(ends) < 9], [-9, 9]))
        middle = (ends[1:] + ends[:-1]) / 2
        terms = [literal_term(rest + C[j] * t, j, q, level * (1 + 1e-9)) for t in middle]
        assert np.isclose(_contribution(z, C, j, q, level), np.array(terms) @ np.diff(ndtr(ends)), atol=1e-13)


def test_a_contribution_is_the_mean_over_fresh_draws():
    "Monte Carlo that knows nothing of slopes: null estimates given the others' residuals"
    rng = np.random.default_rng(0)
    C = np.array([[1, .8, -.5], [.8, 1, -.3], [-.5, -.3, 1]])
    z = np.array([1.9, 2.4, .2])
    level = bh_adjusted(z)[0]
    t = rng.standard_normal(40_000)
    draws = z + C[0] * (t - z[0])[:, None]
    terms = [literal_term(row, 0, .3, level * (1 + 1e-9)) for row in draws]
    error = np.std(terms) / np.sqrt(len(terms))
    assert abs(np.mean(terms) - _contribution(z, C, 0, .3, level)) < 6 * error


@given(st.integers(0, 2**32 - 1), st.integers(1, 9), st.sampled_from([.05, .2, .5]))
def test_independent_estimates_are_selected_as_by_benjamini_and_hochberg(seed, p, q):
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 2, p)
    chosen = dbh_support(z, np.eye(p), q, rng.random(p))
    assert (chosen == (np.abs(z) >= bh_threshold(z, q))).all()


def test_ties_zeros_and_huge_estimates():
    C = np.full((4, 4), .9) + .1 * np.eye(4)
    assert not dbh_support(np.zeros(4), C, .2, np.ones(4)).any()
    assert dbh_support(np.full(4, 60.0), C, .2, np.ones(4)).all()
    two = dbh_support(np.array([60.0, -60, 0, 0]), np.eye(4), .2, np.ones(4))
    assert two.tolist() == [True, True, False, False]
    assert dbh_support(np.array([3.0]), np.ones((1, 1)), .2, np.ones(1)).all()


def rates(C, truth, trials, seed, select=dbh_support):
    rng = np.random.default_rng(seed)
    z = truth + rng.standard_normal((trials, len(C))) @ np.linalg.cholesky(C).T
    chosen = np.array([select(row, C, .2, u) for row, u in zip(z, rng.random(z.shape))])
    return error_rates(chosen, truth)[0]


PAIRS = np.kron(np.eye(4), [[1, -.9], [-.9, 1]])


BLOCKS = np.kron(np.eye(2), np.full((4, 4), .9) + .1 * np.eye(4))


@pytest.mark.parametrize("C", [PAIRS, BLOCKS], ids=["pairs", "blocks"])
def test_the_rate_is_kept_for_correlated_estimates(C):
    assert_rate_at_most(rates(C, np.zeros(8), 800, 0), .2)
    assert_rate_at_most(rates(C, np.where(np.arange(8) < 2, 2.0, 0), 800, 1), .15)


def test_contributions_that_are_too_small_break_the_rate(monkeypatch):
    "Here: those of a third of the adjusted p-value"
    right = normal_tests._contribution
    def small(z, C, j, fdr, level): return right(z, C, j, fdr, level / 3)
    monkeypatch.setattr(normal_tests, "_contribution", small)
    monkeypatch.setattr(normal_tests, "_REACH", 5.0)
    assert fires(assert_rate_at_most, rates(PAIRS, np.zeros(8), 800, 0), .2)


def test_correlations_matter():
    "With the correlations taken for zero the rule is Benjamini-Hochberg, and differs somewhere"
    rng = np.random.default_rng(3)
    C = np.full((8, 8), .9) + .1 * np.eye(8)
    z = 1.5 * (np.arange(8) < 3) + rng.standard_normal((200, 8)) @ np.linalg.cholesky(C).T
    u = rng.random(z.shape)
    known, ignored = (np.array([dbh_support(row, c, .2, v) for row, v in zip(z, u)]) for c in (C, np.eye(8)))
    assert (ignored == [np.abs(row) >= bh_threshold(row, .2) for row in z]).all()
    assert .02 < (known != ignored).any(1).mean() < .5


# ---------------------------------------------------------------- pruning

def literal_pruned(candidates, guesses, uniforms):
    "The largest r such that at least r candidates have u <= r / R"
    best = np.zeros(len(candidates), bool)
    for r in range(1, len(candidates) + 1):
        kept = candidates & (uniforms <= r / guesses)
        if kept.sum() >= r: best = kept
    return best


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_pruning_is_what_it_says(seed, p):
    rng = np.random.default_rng(seed)
    candidates, guesses, u = rng.random(p) < .7, rng.integers(1, p + 1, p), rng.random(p)
    kept = _pruned(candidates, guesses, u)
    assert (kept == literal_pruned(candidates, guesses, u)).all()
    enough = np.minimum(guesses, max(candidates.sum(), 1))
    assert (_pruned(candidates, enough, u) == candidates).all()


def test_the_selection_is_pruned(monkeypatch):
    "Candidates whose guess is too high are dropped by large uniforms, and kept by small ones"
    z, C = np.array([2.2, 2.2, .1, 0]), np.eye(4)
    def harmless(z, C, j, fdr, level): return 0.0 if j == 1 else 1.0
    monkeypatch.setattr(normal_tests, "_contribution", harmless)
    assert bh_adjusted(z)[1] <= .2  # two are expected, one is a candidate
    assert dbh_support(z, C, .2, np.full(4, .4)).tolist() == [False, True, False, False]
    assert not dbh_support(z, C, .2, np.full(4, .6)).any()


def test_a_candidate_that_the_rule_does_not_select_counts_itself(monkeypatch):
    z = np.array([3.0, 1.5, 0, 0])
    def harmless(z, C, j, fdr, level): return 0.0 if j == 1 else 1.0
    monkeypatch.setattr(normal_tests, "_contribution", harmless)
    assert bh_adjusted(z)[0] <= .2 < bh_adjusted(z)[1] < .4  # one is selected, so with the candidate two
    assert dbh_support(z, np.eye(4), .2, np.full(4, .4)).tolist() == [False, True, False, False]
    assert not dbh_support(z, np.eye(4), .2, np.full(4, .6)).any()


def test_what_is_kept_counts_no_more_than_guessed():
    rng = np.random.default_rng(0)
    candidates, guesses = np.array([True, True, True]), np.array([6, 6, 3])
    kept = np.array([_pruned(candidates, guesses, u) for u in rng.random((6000, 3))])
    shares = kept / np.maximum(kept.sum(1), 1)[:, None]
    for j in range(3): assert_rate_at_most(shares[:, j], 1 / guesses[j])
    assert fires(assert_rate_at_most, np.full(6000, 1 / 3), 1 / 6)


@pytest.mark.parametrize("draws, rank", [(18, 1), (19, 2), (28, 2), (29, 3)])
def test_the_data_are_one_more_draw_of_the_noise(draws, rank):
    "Theorem 10.7 for one variable at 90 %: of draws + 1 numbers, a tenth may be as small as the cut"
    null = np.random.default_rng(draws).random((draws, 1))
    cuts, most = normal_tests.noise_bounds(np.zeros(1), null, .9)
    assert -cuts[0] == np.sort(null[:, 0])[rank - 1] and most.tolist() == [0]
    assert "too close to 1 for 8 draws" in refusal(normal_tests.noise_bounds, np.zeros(1), null[:8], .9)
