"What mutation testing found untested: each test here fails on a small change of the code that every other test lets pass."
import warnings

import numpy as np
import pytest
from scipy.stats import ks_2samp, norm

from dp_knockoff.filter import Selection, explain, knockoff_filter
from dp_knockoff.ground import assert_fair_coin, assert_rate_at_most, assert_same_law, check_count, fires, linear_model, refusal
from dp_knockoff.knockoffs import explicit_knockoffs, haar_basis, half_inverse, knockoffs, mvr_objective, noise_level, s_sdp
from dp_knockoff.moments import Moments
from dp_knockoff.statistics import Statistic, csm, effect_signs, entry_points, lasso


def gram_and_products(seed, p=4):
    "A well-conditioned 2p x 2p Gram matrix and 2p products"
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((8 * p, 2 * p))
    return Z.T @ Z / (8 * p), rng.standard_normal(2 * p)


def selection(W, q=.2, offset=1, signs=None):
    W = np.asarray(W, float)
    signs = np.sign(W).astype(int) if signs is None else np.array(signs)
    return Selection(tuple(f"v{j}" for j in range(len(W))), W, signs, q, offset, "none", "Guarantee.")


# ground

@pytest.mark.parametrize("share, unfair", [(.49, True), (.51, True), (.5, False)])
def test_a_coin_may_be_unfair_either_way(share, unfair):
    assert fires(assert_fair_coin, np.arange(200_000) < share * 200_000) == unfair


def test_a_rate_is_compared_with_the_bound_itself():
    x = np.arange(40_000) / 40_000
    assert fires(assert_rate_at_most, x < .215, .2) and not fires(assert_rate_at_most, x < .2, .2)


def test_same_law_corrects_for_the_number_of_comparisons():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 500, 40))
    b[:, 7] += .3
    z = [(np.mean(u**2) - np.mean(v**2)) / np.sqrt(np.var(u**2) / 500 + np.var(v**2) / 500) for u, v in zip(a.T, b.T)]
    raw = min(*(2 * norm.sf(np.abs(z))), *(ks_2samp(u, v, method="asymp").pvalue for u, v in zip(a.T, b.T)))
    assert 80 * raw < 1 and np.isclose(assert_same_law(a, b), 80 * raw)
    assert assert_same_law(a, a) == 1


def test_same_law_sees_what_only_the_scale_shows():
    a = np.random.default_rng(0).standard_normal(20_000)
    assert ks_2samp(a, 1.1 * a, method="asymp").pvalue > 1e-6 and fires(assert_same_law, a, 1.1 * a)


def test_same_law_sees_what_the_scale_does_not_show():
    a = np.random.default_rng(0).standard_normal(2000) + 1
    assert fires(assert_same_law, a, -a)


def test_true_is_not_a_count():
    assert "n=True is not a whole number" in refusal(check_count, "n", True)


def test_linear_model_random_signs():
    beta = linear_model(10, p=60, k=30, amplitude=2.5, random_signs=True, random_state=0)[2]
    assert set(beta) == {-2.5, 0, 2.5} and np.count_nonzero(beta) == 30
    assert set(linear_model(10, p=60, k=30, amplitude=2.5, random_state=0)[2]) == {0, 2.5}


def test_linear_model_sigma():
    X, y, beta = linear_model(20_000, p=3, k=2, sigma=3, random_state=0)
    assert np.isclose(np.std(y - X @ beta), 3, rtol=.03)


def test_linear_model_rho():
    X = linear_model(50_000, p=4, k=0, rho=.7, random_state=0)[0]
    d = np.subtract.outer(np.arange(4), np.arange(4))
    assert np.allclose(X.T @ X / 50_000, .7**np.abs(d), atol=.03)


# moments

def test_row_norm_is_a_norm():
    assert Moments.from_data([[3., 4.], [0., 1.]], [1., 2.]).row_norm == 5


@pytest.mark.parametrize("sizes", [(7, 11), (7, 11, 30, 1000), (1000, 30, 11, 7)], ids=str)
def test_a_constant_column_is_constant_in_spite_of_rounding(sizes):
    rng = np.random.default_rng(0)
    chunks = [(np.column_stack([rng.standard_normal(n), np.full(n, .1)]), rng.standard_normal(n)) for n in sizes]
    assert "constant columns ('x1')" in refusal(Moments.from_chunks(chunks).unit)


def test_an_intercept_costs_a_row():
    X, y, _ = linear_model(6, p=6, k=2, random_state=0)
    m = Moments.from_data(X, y)
    assert "n=6 rows for p=6 columns and an intercept" in refusal(m.unit)
    assert m.unit(intercept=False).n == 6


def nearly_equal_columns(cond):
    "A design of two unit columns with this condition number"
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 3)))[0]
    return Q[:, :2] @ np.diag([1, 1 / cond]) @ [[1, 1], [1, -1]], Q[:, 2]


def test_condition_numbers_are_refused_from_1e5():
    assert Moments.from_data(*nearly_equal_columns(3e4)).unit(False).p == 2
    assert "collinear" in refusal(Moments.from_data(*nearly_equal_columns(3e5)).unit, False)


@pytest.mark.parametrize("seed", range(8))
def test_an_exact_response_leaves_no_negative_residual(seed):
    X, y, _ = linear_model(15, p=10, k=5, sigma=0, random_state=seed)
    m = Moments.from_data(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert m.unit().rss >= 0
        assert "exact linear function" in refusal(knockoffs, m, sigma="estimate", random_state=seed)


# knockoffs

def test_sigma_is_estimated_without_bias():
    X, y, _ = linear_model(30, p=20, k=5, sigma=2, random_state=0)
    Z = np.column_stack([np.ones(30), X])
    rss = np.linalg.lstsq(Z, y, rcond=None)[1][0]
    assert np.isclose(noise_level(Moments.from_data(X, y).unit(), "estimate"), np.sqrt(rss / (30 - 20 - 1)))


def test_appended_rows_have_the_given_noise():
    X, y, _ = linear_model(45, p=40, k=5, random_state=0)
    Xu, Xk, extended = explicit_knockoffs(X, y, intercept=False, sigma=1e3, random_state=0)
    assert Xu.shape == Xk.shape == (80, 40) and not Xu[45:].any() and (extended[:45] == y).all()
    assert 500 < extended[45:].std() < 2000


def test_appended_noise_follows_the_seed():
    X, y, _ = linear_model(30, p=20, k=5, random_state=0)
    a, b, c = (knockoff_filter(X, y, sigma=1., random_state=seed).W for seed in (3, 3, 4))
    assert (a == b).all() and (a != c).any()
    u, v, w = (knockoffs(Moments.from_data(X, y), sigma=1., random_state=seed).moments.yty for seed in (3, 3, 4))
    assert u == v != w


def test_haar_bases_point_either_way():
    U = haar_basis(np.eye(5)[:, 4:], 2, np.random.default_rng(0), size=(2000,))
    assert_fair_coin(U[:, 0, 0] > 0)
    assert_fair_coin(U[:, 1, 1] > 0)


@pytest.mark.parametrize("rho", [.6, .8, .95])
def test_sdp_comes_within_a_thousandth_of_the_optimum(rho):
    "With all correlations equal, s = 2 (1 - rho) is optimal"
    s = s_sdp((1 - rho) * np.eye(12) + rho * np.ones((12, 12)))
    assert (1 - 1e-3) * 2 * (1 - rho) <= s.mean() <= 2 * (1 - rho)


def test_mvr_derivatives_are_those_of_the_objective():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((30, 4))
    Sigma = np.corrcoef(Z.T)
    K, s, h = half_inverse(Sigma), rng.uniform(.2, .5, 4), 1e-5
    _, slope, H = mvr_objective(K, s)
    ends = [(mvr_objective(K, s + h * e), mvr_objective(K, s - h * e)) for e in np.eye(4)]
    assert np.allclose(slope, [(up[0] - down[0]) / (2 * h) for up, down in ends], rtol=1e-5)
    assert np.allclose(H, [(up[1] - down[1]) / (2 * h) for up, down in ends], rtol=1e-5, atol=1e-5)


# statistics

def test_effect_signs_are_those_of_the_model_not_of_the_correlations():
    rng = np.random.default_rng(0)
    x, z, w = rng.standard_normal((3, 2000))
    X = np.column_stack([x, .8 * x + .6 * z])
    y = X @ [3, -1] + w
    assert (X.T @ y > 0).all()
    c = knockoffs(Moments.from_data(X, y)).products(0, size=(200,))
    assert (effect_signs(c) == [1, -1]).all()


@pytest.mark.parametrize("penalty", [.1, .5, 1.])
def test_lasso_meets_its_optimality_conditions(penalty):
    "Equation (5) has lambda, not lambda / 2, times the sum of magnitudes, and no half before the square"
    A, b = gram_and_products(0)
    beta = lasso(A, b, penalty)
    slope, active = 2 * (b - A @ beta), beta != 0
    assert active.any() and np.allclose(slope[active], penalty * np.sign(beta[active]))
    assert (np.abs(slope) <= penalty * (1 + 1e-6)).all()


def test_entry_points_of_orthogonal_columns():
    b = np.array([3., -1., .5, -2.])
    assert np.allclose(entry_points(np.eye(4), b), 2 * np.abs(b))


def test_entry_points_are_where_the_lasso_begins_to_be_nonzero():
    A, b = gram_and_products(1)
    points = entry_points(A, b)
    assert (points > 0).all()
    for j, point in enumerate(points):
        assert lasso(A, b, 1.0001 * point)[j] == 0 != lasso(A, b, .9999 * point)[j]


@pytest.mark.parametrize("estimate", [lambda A, b: lasso(A, b, .1), entry_points], ids=["lasso", "path"])
def test_the_lasso_refuses_an_indefinite_matrix(estimate):
    assert "negative eigenvalue (-1)" in refusal(estimate, np.array([[1., 2.], [2., 1.]]), np.array([1., .5]))


@pytest.mark.parametrize("contrast", ["csm", "lcd"])
def test_lasso_statistics_scale_with_the_response(contrast):
    X, y, _ = linear_model(100, p=10, k=4, random_state=0)
    for estimate, penalty in [("path", None), ("lasso", .5)]:
        W, tiny = (knockoff_filter(X, y * unit, statistic=Statistic(estimate, contrast, penalty and penalty * unit), random_state=0).W
                   for unit in (1., 1e-9))
        assert W.all() and np.allclose(tiny * 1e9, W, rtol=1e-6)


# filter

def test_without_an_intercept_the_origin_matters():
    X, y, _ = linear_model(100, p=5, k=2, random_state=0)
    def W(X, y, intercept): return knockoff_filter(X, y, intercept=intercept, random_state=0).W
    assert not np.allclose(W(X + 5, y + 9, False), W(X, y, False), rtol=.01)
    assert np.allclose(W(X + 5, y + 9, True), W(X, y, True))


def test_without_an_intercept_2p_rows_are_enough():
    X, y, _ = linear_model(20, p=10, k=2, random_state=0)
    assert len(knockoff_filter(X, y, intercept=False, random_state=0).W) == 10
    assert "knockoffs need n >= 2p + 1 = 21" in refusal(knockoff_filter, X, y, intercept=True)


def test_a_statistic_that_fails_on_the_real_data_only_is_refused():
    "The matrices made up to check a statistic do not have a unit diagonal"
    def f(A, b): return csm(b) * (np.nan if A[0, 0] == 1 else 1.)
    X, y, _ = linear_model(100, p=5, k=2, random_state=0)
    assert "not finite" in refusal(knockoff_filter, X, y, statistic=f, random_state=0)


def test_explain_counts_with_the_offset_in_use():
    W = [9, 8, 7, 6, 5]
    assert "about 0 of them may be false (0/5 <= 0.2)" in explain(selection(W, offset=0))
    assert "about 1 of them may be false (1/5 <= 0.2)" in explain(selection(W, offset=1))


def test_explain_does_not_round_the_least_number_of_discoveries_up():
    q = 1 / 49
    assert 1 / q > 49 and len(selection(np.ones(49), q)) == 49
    assert "at least 49 discoveries" in explain(selection(np.ones(48), q))


def test_the_table_is_sorted_and_says_up_or_down():
    lines = repr(selection([5, 9, 7, -1, 6, 8], signs=[-1, 1, -1, 1, 0, 1])).split("\n")
    assert [line.split() for line in lines[1:-1]] == [
        ["v1", "W", "=", "9", "up"], ["v5", "W", "=", "8", "up"], ["v2", "W", "=", "7", "down"],
        ["v4", "W", "=", "6", "-"], ["v0", "W", "=", "5", "down"]]
