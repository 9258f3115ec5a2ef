"Statistics: antisymmetry as a property, the Lasso against its optimality conditions, batches."
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

from dp_knockoff.core.testing import refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.knockoffs import statistics as module
from dp_knockoff.knockoffs.fixed_x import choose_s, gram, knockoff_products, knockoffs_of
from dp_knockoff.knockoffs.statistics import (
    _PENALISED,
    ESTIMATES,
    Statistic,
    _entry_points,
    _time_to_event,
    antisymmetry_error,
    check_statistic,
    csm,
    effect_signs,
    evaluate,
    lasso,
    lcd,
    ols,
    ridge,
    swap,
)

STATISTICS = [Statistic(e, c, .4 if e in _PENALISED else None) for e in ESTIMATES for c in ("csm", "lcd")]


def gram_and_products(seed, n=60, p=5):
    X, y, _ = linear_model(n, p, k=2, amplitude=.5, rho=.4, random_state=seed)
    k = knockoffs_of(Moments.from_data(X, y), "mvr")
    return k.G, k.products(seed)


def problems(trials, p=10, rho=.5, size=10., seed=0):
    "Gram matrices and products of originals and knockoffs, a batch"
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((trials, 4 * p, p)) @ np.linalg.cholesky(ar1(p, rho)).T
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Sigma = np.swapaxes(X, 1, 2) @ X
    s = choose_s(Sigma, "mvr")
    beta = size * rng.standard_normal((trials, p)) * (rng.random((trials, p)) < .4)
    Xty = (Sigma @ beta[..., None])[..., 0] + rng.standard_normal((trials, p))
    return gram(Sigma, s), knockoff_products(Sigma, s, Xty, rng.standard_normal((trials, p)))


def violation(A, b, penalty, x):
    "Of the optimality conditions: 2 (b - Ax)_j = penalty sign(x_j), or of at most that size where x_j = 0"
    slope = 2 * (b - (A @ x[..., None])[..., 0])
    inside = np.maximum(np.abs(slope) - penalty, 0)
    return np.where(x != 0, np.abs(slope - penalty * np.sign(x)), inside).max()


# antisymmetry

@given(st.sampled_from(STATISTICS), st.integers(1, 6), st.integers(0, 2**32 - 1), st.sets(st.integers(0, 5)))
def test_antisymmetry(f, p, seed, F):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((4 * p, 2 * p))
    assert antisymmetry_error(f, Z.T @ Z / p, rng.standard_normal(2 * p), [j for j in F if j < p]) < 1e-8


@pytest.mark.parametrize("penalty", [.01, .3, 1.])
def test_the_lasso_of_a_singular_and_symmetric_design_is_antisymmetric(penalty):
    "Without the ridge, and without an order of the equations that swaps do not change, it is not"
    rng = np.random.default_rng(0)
    dummies = np.eye(5)[np.arange(40) % 5][:, :4]
    for _ in range(20):
        k = knockoffs_of(Moments.from_data(dummies, rng.standard_normal(40)), s="equi")
        A, b = k.G, k.products(rng)
        for F in ([0], [1, 3], [0, 1, 2, 3]):
            assert antisymmetry_error(Statistic("lasso", "lcd", penalty), A, b, F) < 1e-8


def test_sums_and_differences_of_products_are_independent():
    "Proposition 05.5: d has mean s beta, variance 2 s and nothing to do with the sums"
    rng = np.random.default_rng(0)
    Sigma, beta = ar1(3, .6), np.array([1.0, 0, -.5])
    s = choose_s(Sigma, "mvr")
    Xty = Sigma @ beta + rng.standard_normal((200_000, 3)) @ np.linalg.cholesky(Sigma).T
    c = knockoff_products(Sigma, s, Xty, rng.standard_normal((200_000, 3)))
    d, total = c[:, :3] - c[:, 3:], c[:, :3] + c[:, 3:]
    assert np.allclose(d.mean(0), s * beta, atol=.02) and np.allclose(np.cov(d.T), 2 * np.diag(s), atol=.02)
    assert np.abs(np.corrcoef(d.T, total.T)[:3, 3:]).max() < .02
    likely = 1 / (1 + np.exp(-np.abs(d) * beta))
    for j in range(3): assert abs(np.mean((d[:, j] > 0) - likely[:, j])) < 6 * .5 / np.sqrt(200_000)


def test_swapping_twice_is_nothing():
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((6, 6)), rng.standard_normal(6)
    A2, b2 = swap(*swap(A, b, [0, 2]), [0, 2])
    assert (A == A2).all() and (b == b2).all() and (swap(A, b, [])[0] == A).all()
    assert swap(A, b, [1])[1].tolist() == b[[0, 4, 2, 3, 1, 5]].tolist()


def test_contrasts():
    b = np.array([3., -1, 2, -4, 1, 0])
    assert lcd(b).tolist() == [-1, 0, 2] and csm(b).tolist() == [-4, 0, 2]


def test_effect_signs_are_those_of_the_model_not_of_the_correlations():
    rng = np.random.default_rng(0)
    x, z, w = rng.standard_normal((3, 2000))
    X = np.column_stack([x, .8 * x + .6 * z])
    y = X @ [3, -1] + w
    assert (X.T @ y > 0).all()
    c = knockoffs_of(Moments.from_data(X, y)).products(0, size=(200,))
    assert (effect_signs(c) == [1, -1]).all()


# the Lasso

@pytest.mark.parametrize("penalty", [.1, .5, 1.])
def test_lasso_meets_its_optimality_conditions(penalty):
    "Equation (5) has lambda, not lambda / 2, times the sum of magnitudes, and no half before the square"
    A, b = gram_and_products(0)
    beta = lasso(A, b, penalty)
    slope, active = 2 * (b - A @ beta), beta != 0
    assert active.any() and np.allclose(slope[active], penalty * np.sign(beta[active]))
    assert (np.abs(slope) <= penalty * (1 + 1e-6)).all()


@pytest.mark.parametrize("rho", [0., .5, .9, .99])
@pytest.mark.parametrize("size", [1., 30., 1000.])
def test_a_batch_of_lassos_meets_its_optimality_conditions(rho, size):
    A, b = problems(60, rho=rho, size=size)
    x = lasso(A, b, 2.)
    assert violation(A + 1e-10 * np.eye(20), b, 2., x) < 1e-12 * np.abs(b).max()
    assert violation(A, b, 2., x) <= 3e-10 * np.abs(x).max()  # the price of the ridge


def test_a_lasso_that_does_not_settle_is_an_error(monkeypatch):
    A, b = problems(5, rho=.9)
    monkeypatch.setattr(module, "_OPTIMAL", 0)
    assert "did not settle" in refusal(lasso, A, b, 2.)
    monkeypatch.setattr(module, "_EVENTS", 0)
    assert "did not settle" in refusal(module._walk, A, b, 1., 0 * b)


def test_hard_problems_are_walked_to_and_easy_ones_are_guessed():
    easy, hard = (module._guess(*problems(60, rho=rho, size=30.), 1.)[1].mean() for rho in (0., .99))
    assert easy > .5 and hard < .1


def test_a_walk_ends_at_the_solution_wherever_it_starts():
    A, b = problems(20, rho=.9)
    x = lasso(A, b, 2.)
    rng = np.random.default_rng(0)
    for start in (np.zeros_like(b), x, -x, rng.standard_normal(b.shape)):
        signs = module._walk(A, b, 1., start)
        assert (signs == np.sign(x)).all()


def test_lasso_agrees_with_coordinate_descent_on_rows():
    A, b = problems(5, rho=.5)
    for G, c in zip(A, b):
        Z = np.linalg.cholesky(G + 1e-12 * np.eye(len(G))).T
        z = np.linalg.solve(Z.T, c)
        fit = Lasso(alpha=1 / len(Z), fit_intercept=False, tol=1e-12, max_iter=100_000).fit(Z, z)
        assert np.allclose(lasso(G, c, 2.), fit.coef_, atol=1e-5)


@pytest.mark.parametrize("rho", [0., .9])
def test_a_lasso_is_the_same_in_a_batch_as_alone(rho):
    A, b = problems(24, rho=rho)
    x = lasso(A, b, 2.)
    alone = np.array([lasso(*problem, 2.) for problem in zip(A, b)])
    assert np.allclose(x, alone, atol=1e-9) and ((x != 0) == (alone != 0)).all()
    assert (lasso(A.reshape(4, 6, 20, 20), b.reshape(4, 6, 20), 2.) == x.reshape(4, 6, 20)).all()
    assert np.allclose(lasso(A[0], b, 2.), [lasso(A[0], one, 2.) for one in b], atol=1e-9)
    assert np.allclose(lasso(A, b[0], 2.), [lasso(one, b[0], 2.) for one in A], atol=1e-9)


def test_blocks_do_not_show(monkeypatch):
    A, b = problems(24)
    whole = lasso(A, b, 2.)
    monkeypatch.setattr(module, "_BLOCK", 5 * 20**2)
    assert np.allclose(lasso(A, b, 2.), whole, atol=1e-12)
    assert np.allclose(lasso(A[0], b, 2.), [lasso(A[0], one, 2.) for one in b], atol=1e-12)


def test_a_large_penalty_leaves_nothing():
    A, b = problems(3)
    assert not lasso(A, b, 2 * np.abs(b).max()).any() and lasso(A, b, 1.99 * np.abs(b).max()).any()
    assert not lasso(A, 0 * b, 1.).any()


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_lasso_and_path_scale_with_the_products(unit):
    A, b = gram_and_products(0)
    assert np.allclose(lasso(A, b * unit, .5 * unit), unit * lasso(A, b, .5), rtol=1e-9)
    assert np.allclose(_entry_points(A, b * unit), unit * _entry_points(A, b), rtol=1e-6)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_lasso_scales_with_the_gram_matrix(unit):
    A, b = problems(20, rho=.9)
    assert np.allclose(lasso(A * unit, b, 2.) * unit, lasso(A, b, 2.), rtol=1e-6, atol=1e-8)


def test_entry_points_of_orthogonal_columns():
    b = np.array([3., -1., .5, -2.])
    assert np.allclose(_entry_points(np.eye(4), b), 2 * np.abs(b))
    assert not _entry_points(np.eye(4), 0 * b).any()


def test_entry_points_are_where_the_lasso_begins_to_be_nonzero():
    A, b = gram_and_products(1)
    points = _entry_points(A, b)
    assert (points > 0).all()
    for j, point in enumerate(points):
        assert lasso(A, b, 1.0001 * point)[j] == 0 != lasso(A, b, .9999 * point)[j]


def indefinite(A, b): return lasso(A, b, .1)


@pytest.mark.parametrize("estimate", [indefinite, _entry_points], ids=["lasso", "path"])
def test_the_lasso_refuses_an_indefinite_matrix(estimate):
    A, b = np.array([[1., 2.], [2., 1.]]), np.array([1., .5])
    assert "negative eigenvalue (-1)" in refusal(estimate, A, b)
    assert "negative eigenvalue (-1)" in refusal(estimate, np.stack([np.eye(2), A]), np.stack([b, b]))


def test_rounding_below_zero_is_not_indefinite():
    "An eigenvalue may be negative by a billionth of the largest"
    ones = np.ones((4, 4))
    module._check_convex(ones - 3e-9 * np.eye(4))
    assert "negative" in refusal(module._check_convex, ones - 5e-9 * np.eye(4))


# batches and objects

@pytest.mark.parametrize("f", STATISTICS, ids=str)
def test_a_statistic_of_a_batch_is_that_of_each(f):
    A, b = problems(6, p=4, rho=.3)
    assert np.allclose(f(A, b), [f(*one) for one in zip(A, b)], atol=1e-9)
    assert np.allclose(f(A[0], b), [f(A[0], one) for one in b], atol=1e-9)
    assert f(A[0], b[0]).shape == (4,)


def test_least_squares_and_ridge_are_the_closed_forms():
    A, b = problems(6, p=4)
    assert np.allclose(ols(A, b), [np.linalg.inv(G) @ c for G, c in zip(A, b)])
    assert np.allclose(ridge(A, b, .7), [np.linalg.inv(G + .7 * np.eye(8)) @ c for G, c in zip(A, b)])
    A[3] = 1
    assert "singular" in refusal(ols, A, b)


# a person's own

def test_a_statistic_of_ones_own_is_tried_at_several_sizes():
    def late(A, b): return np.where(np.abs(b[:4]) > 1000, np.abs(b[:4]), lcd(b))
    def early(A, b): return np.where(np.abs(b[:4]) < .001, np.abs(b[:4]), lcd(b))
    def far_out(A, b): return np.where(np.abs(b[:4]) > 1e9, np.abs(b[:4]), lcd(b))
    def between(A, b): return np.where((np.abs(b[:4]) > 2e5) & (np.abs(b[:4]) < 2e6), np.abs(b[:4]), lcd(b))
    for unfair in (late, early, far_out, between):
        assert "not antisymmetric" in refusal(check_statistic, unfair, 4)
    for j in range(4):
        def one(A, b, j=j):
            size = np.abs(b[:4])
            return np.where((np.arange(4) == j) & (size > 1e11), size, lcd(b))
        assert "not antisymmetric" in refusal(check_statistic, one, 4)
    def alone(A, b): return np.where(np.abs(b[:1]) > 1e11, np.abs(b[:1]), lcd(b))
    assert "not antisymmetric" in refusal(check_statistic, alone, 1)
    def fair(A, b): return np.sign(lcd(b)) * np.minimum(np.abs(lcd(b)), 100)
    assert check_statistic(fair, 4) is fair


def test_a_statistic_gets_copies():
    def vandal(A, b):
        W = lcd(b)
        A[:] = b[:] = 0
        return W
    A, b = gram_and_products(0)
    before = A.copy(), b.copy()
    assert (evaluate(vandal, A, b) == lcd(b)).all()
    assert (A == before[0]).all() and (b == before[1]).all()


@pytest.mark.parametrize("answer, words", [
    (np.ones(3), "5 in all"), (np.ones(5) * 1j, "complex"), (["high"] * 5, "real number"),
    (np.full(5, np.nan), "not finite")], ids=str)
def test_an_answer_that_cannot_be_used_is_refused(answer, words):
    A, b = gram_and_products(0)
    def f(A, b): return answer
    assert words in refusal(evaluate, f, A, b)


# ---------------------------------------------------------------- variables of several columns

GROUPED = Variables.of("abcde", {"g": "bd", "h": ["c"]})


@pytest.mark.parametrize("f", STATISTICS, ids=str)
@given(seed=st.integers(0, 10**6), chosen=st.sets(st.integers(0, 3)))
def test_groups_are_swapped_as_a_whole(f, seed, chosen):
    "A Gram matrix of anything: whole variables flip, and nothing else changes"
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((40, 10))
    A, b = Z.T @ Z, rng.standard_normal(10) * 5
    def W(A, b): return f(A, b, GROUPED)
    assert antisymmetry_error(W, A, b, sorted(chosen), GROUPED) < 1e-6
    assert W(A, b).shape == (4,)


def test_a_group_swapped_in_part_is_noticed():
    G, c = gram_and_products(0)
    def W(A, b): return Statistic("ols", "lcd")(A, b, GROUPED)
    flipped = W(*swap(G, c, [1]))
    assert abs(flipped[1] + W(G, c)[1]) > 1e-3 and antisymmetry_error(W, G, c, [1], GROUPED) < 1e-9


def test_a_groups_statistic_compares_norms():
    b = np.array([3.0, 4, 0, 0, 0, 0, 6, 0, 8, -2])
    pairs = Variables.of("abcde", {"g": "ab", "h": "cd"})
    assert np.allclose(Statistic("ols", "lcd")(np.eye(10), b, pairs), [5 - 6, 0 - 8, -2])
    assert np.allclose(Statistic()(np.eye(10), b, pairs), [-6, -8, -2])
    batch = Statistic("ols", "lcd")(np.eye(10), np.stack([b, -2 * b]), GROUPED)
    assert batch.shape == (2, 4) and np.allclose(batch[1], 2 * batch[0])
    alone = Statistic("ols", "lcd")(np.eye(10), b)
    assert np.allclose(alone, Statistic("ols", "lcd")(np.eye(10), b, Variables.single(5)))


def test_directions_are_those_of_single_columns():
    b = np.array([1.0, 2, -3, 4, -5, 2, 0, 0, 9, 0])
    assert effect_signs(b, GROUPED).tolist() == [-1, 0, -1, -1]
    assert effect_signs(np.stack([b, -b]), GROUPED).tolist() == [[-1, 0, -1, -1], [1, 0, 1, 1]]
    assert effect_signs(b, Variables.single(5)).tolist() == effect_signs(b).tolist() == [-1, 1, -1, -1, -1]


def test_statistics_of_ones_own_are_tried_on_whole_groups():
    def norms(A, b): return lcd(np.concatenate([GROUPED.norms(half) for half in np.split(b, 2)]))
    assert check_statistic(norms, GROUPED) is norms
    def columns(A, b): return lcd(b)
    said = refusal(check_statistic, columns, GROUPED)
    assert "it must return one real number per variable, 4 in all" in said
    def mixes(A, b): return lcd(b)[[0, 1, 2, 4]] + np.abs(b[8])
    assert "antisymmetric" in refusal(check_statistic, mixes, GROUPED)
    def largest(A, b):
        one, two = np.abs(b[:5]), np.abs(b[5:])
        group = max(one[1], one[3]) - max(two[1], two[3])
        return np.array([one[0] - two[0], group, one[2] - two[2], one[4] - two[4]])
    assert check_statistic(largest, GROUPED) is largest
    assert "antisymmetric" in refusal(check_statistic, largest, Variables.of("abcde", {"g": "bc"}))


def test_a_coefficient_that_does_not_move_never_leaves():
    zero, one = np.zeros(1), np.ones(1)
    assert _time_to_event(one, zero, zero, zero, one, 1.0) == np.inf
    assert _time_to_event(one, zero, -2 * one, zero, one, 1.0) == .5
