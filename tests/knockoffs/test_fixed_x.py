"Knockoffs: Lemma 1 and the Gram matrix as properties, batches, the moment form, short designs."
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dp_knockoff.core.testing import assert_fair_coin, assert_same_law, refusal
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.knockoffs import fixed_x as module
from dp_knockoff.knockoffs.fixed_x import (
    S_CHOICES,
    _half_inverse,
    _mvr_objective,
    _s_mvr,
    _sdp_objective,
    augment,
    choose_s,
    explicit_knockoffs,
    gram,
    haar_basis,
    knockoff_products,
    knockoff_root,
    knockoffs_of,
    noise_level,
    residual_coordinates,
    s_lam_min,
)

designs = st.integers(1, 7).flatmap(lambda p: arrays(float, (3 * p, p), elements=st.floats(-1, 1, width=16)))


def unit_gram(A):
    "Gram matrix of unit columns, kept away from singularity"
    A = A + 1.5 * np.eye(*A.shape)
    A = A / np.linalg.norm(A, axis=0)
    return A.T @ A


def unlike_grams(trials=30, p=6, seed=0):
    "A batch of Gram matrices of unit columns, from nearly orthogonal to nearly collinear"
    rng = np.random.default_rng(seed)
    common = np.geomspace(.01, 30, trials)[:, None, None] * rng.standard_normal((trials, 4 * p, 1))
    X = rng.standard_normal((trials, 4 * p, p)) + common
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return np.swapaxes(X, 1, 2) @ X


def inverse_trace(Sigma, s): return np.trace(np.linalg.inv(gram(Sigma, s)))


# the Gram matrix and s

@given(designs)
def test_lemma_one(A):
    Sigma = unit_gram(A)
    lam = np.linalg.eigvalsh(Sigma)
    e = np.linalg.eigvalsh(gram(Sigma, np.full(len(Sigma), lam[0])))
    assert np.isclose(e[-1], 2 * lam[-1] - lam[0], atol=1e-12) and np.isclose(e[0], lam[0], atol=1e-12)
    assert lam[0] <= 1 + 1e-12


@given(designs, st.sampled_from(sorted(S_CHOICES)))
def test_every_choice_gives_a_gram_matrix(A, name):
    Sigma = unit_gram(A)
    s = choose_s(Sigma, name)
    assert (s > 0).all() and np.linalg.eigvalsh(gram(Sigma, s))[0] > -1e-10
    assert s.min() <= 2 * np.linalg.eigvalsh(Sigma)[0] + 1e-10


@given(designs)
def test_better_choices_are_better(A):
    Sigma = unit_gram(A)
    best, plain = (inverse_trace(Sigma, choose_s(Sigma, name)) for name in ("mvr", "lam_min"))
    assert best <= plain * (1 + 1e-9)
    assert choose_s(Sigma, "sdp").sum() >= choose_s(Sigma, "equi").sum() * (1 - 2e-3)


@pytest.mark.parametrize("bad, words", [
    ([.5, .5], "3 in all"), ([0, .5, .5], "above 0"), ([.5, 5, .5], "positive"), ("best", "unknown"),
    (None, "3 in all"), ({}, "neither"), ([.5, np.nan, .5], "above 0"), ([1j, 1, 1], "complex")], ids=str)
def test_a_given_s_is_checked(bad, words):
    assert words in refusal(choose_s, unit_gram(np.zeros((9, 3))), bad)


def test_a_given_s_is_used():
    Sigma = unit_gram(np.zeros((9, 3)))
    assert (choose_s(Sigma, [.5, .4, .3]) == [.5, .4, .3]).all()
    assert (choose_s(np.stack([Sigma, Sigma]), [.5, .4, .3]) == [[.5, .4, .3]] * 2).all()


@pytest.mark.parametrize("small", [1e-1, 1e-4, 1e-8])
def test_the_space_for_s_is_measured_by_the_smallest_eigenvalue(small):
    Sigma = small * np.eye(4) + (1 - small)
    allowed = np.linalg.eigvalsh(Sigma)[0] * 2
    assert (choose_s(Sigma, np.full(4, allowed)) == allowed).all()
    assert "positive semidefinite" in refusal(choose_s, Sigma, np.full(4, 1.001 * allowed))


@pytest.mark.parametrize("name", sorted(S_CHOICES))
def test_an_s_that_was_chosen_passes_as_numbers(name):
    for Sigma in unlike_grams(): choose_s(Sigma, choose_s(Sigma, name))


def test_equi_is_twice_the_smallest_eigenvalue_and_at_most_one():
    assert np.allclose(s_lam_min(ar1(2, .7)), .3) and np.allclose(choose_s(ar1(2, .7), "equi"), .6)
    assert np.allclose(s_lam_min(ar1(2, .2)), .8) and (choose_s(ar1(2, .2), "equi") == 1).all()


@pytest.mark.parametrize("rho", [.6, .8, .95])
def test_sdp_comes_within_a_thousandth_of_the_optimum(rho):
    "With all correlations equal, s = 2 (1 - rho) is optimal"
    s = choose_s((1 - rho) * np.eye(12) + rho * np.ones((12, 12)), "sdp")
    assert (1 - 1e-3) * 2 * (1 - rho) <= s.mean() <= 2 * (1 - rho)


def sdp_stage(K, s): return _sdp_objective(K, s, .3)


@pytest.mark.parametrize("objective", [_mvr_objective, sdp_stage])
def test_derivatives_are_those_of_the_objective(objective):
    rng = np.random.default_rng(0)
    Sigma = np.corrcoef(rng.standard_normal((4, 30)))
    K = _half_inverse(Sigma)
    s = rng.uniform(.2, .5, 4)
    h = 1e-5
    _, slope, H = objective(K, s)
    ends = [(objective(K, s + h * e), objective(K, s - h * e)) for e in np.eye(4)]
    assert np.allclose(slope, [(up[0] - down[0]) / (2 * h) for up, down in ends], rtol=1e-5)
    assert np.allclose(H, [(up[1] - down[1]) / (2 * h) for up, down in ends], rtol=1e-5, atol=1e-5)


def test_objectives_are_the_closed_forms():
    Sigma = ar1(4, .4)
    K = _half_inverse(Sigma)
    s = np.array([.3, .4, .5, .6])
    assert np.isclose(_mvr_objective(K, s)[0], inverse_trace(Sigma, s))
    log_det = np.linalg.slogdet(2 * Sigma - np.diag(s))[1] - np.linalg.slogdet(2 * Sigma)[1]
    barriers = log_det + np.log(s).sum() + np.log(1 - s).sum()
    assert np.isclose(_sdp_objective(K, s, .2)[0], -s.sum() / .2 - barriers)


def test_objectives_are_infinite_outside_and_only_there():
    Sigma = np.stack([ar1(3, .5)] * 4)
    s = np.array([[.3, .3, .3], [-.1, .3, .3], [4., .3, .3], [0, .3, .3]])
    K = _half_inverse(Sigma)
    assert np.isinf(_mvr_objective(K, s)[0]).tolist() == [False, True, True, True]
    assert np.isinf(_sdp_objective(K, s, 1.)[0]).tolist() == [False, True, True, True]
    assert np.isinf(_sdp_objective(_half_inverse(np.eye(2)), np.array([1.5, .5]), 1.)[0])


def test_a_search_that_does_not_settle_is_an_error():
    def restless(s, which): return -s.sum(-1), -np.ones_like(s), np.broadcast_to(np.eye(2), (len(s), 2, 2))
    def flat(s, which): return 0 * s.sum(-1), -np.ones_like(s), np.broadcast_to(np.eye(2), (len(s), 2, 2))
    for search in (restless, flat):
        assert "did not settle" in refusal(module._newton, search, np.zeros((1, 2)))


def test_a_singular_design_has_no_knockoffs():
    assert "not positive definite" in refusal(_s_mvr, np.array([[1., 2], [2, 1]]))


def test_a_knockoff_is_on_a_par_with_a_null_and_a_shuffled_copy_is_not():
    "Proposition 04.1: the mean products of a null that is correlated with a signal"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 3)) @ np.linalg.cholesky(ar1(3, .7)).T
    X1, Xk, _ = explicit_knockoffs(X, rng.standard_normal(100), s="mvr", random_state=0)
    mean = X1 @ [0, 5, 0]
    shuffled = np.mean([rng.permutation(X1) for _ in range(2000)], axis=0)
    assert np.allclose((Xk.T @ mean)[[0, 2]], (X1.T @ mean)[[0, 2]]) and (np.abs(X1.T @ mean) > 2).all()
    assert np.abs(shuffled.T @ mean).max() < .3


@pytest.mark.parametrize("name", sorted(S_CHOICES))
def test_s_is_half_the_squared_distance_of_a_knockoff(name):
    X, y, _ = linear_model(60, 4, k=1, rho=.5, random_state=0)
    X1, Xk, _ = explicit_knockoffs(X, y, s=name, random_state=0)
    assert np.allclose(((X1 - Xk)**2).sum(0), 2 * choose_s(X1.T @ X1, name))


# batches

@pytest.mark.parametrize("name", sorted(S_CHOICES))
def test_a_problem_gets_the_same_s_in_a_batch_as_alone(name):
    Sigma = unlike_grams()
    alone = np.array([choose_s(one, name) for one in Sigma])
    assert np.allclose(choose_s(Sigma, name), alone, rtol=1e-12, atol=0)
    assert np.allclose(choose_s(Sigma.reshape(5, 6, 6, 6), name), alone.reshape(5, 6, 6), rtol=1e-12, atol=0)


def test_large_problems_take_another_way_to_the_same_place(monkeypatch):
    Sigma = unlike_grams(8)
    small = _s_mvr(Sigma)
    monkeypatch.setattr(module, "_LARGE", 1)
    assert np.allclose(_s_mvr(Sigma), small, rtol=1e-9)
    assert np.allclose(_s_mvr(Sigma[0]), small[0], rtol=1e-9)


def test_gram_root_and_products_of_a_batch_are_those_of_each():
    rng = np.random.default_rng(1)
    Sigma = unlike_grams(20)
    s = choose_s(Sigma, "mvr")
    Xty, u = rng.standard_normal((2, 20, 6))
    assert (gram(Sigma, s) == [gram(*one) for one in zip(Sigma, s)]).all()
    assert np.allclose(knockoff_root(Sigma, s), [knockoff_root(*one) for one in zip(Sigma, s)], atol=1e-12)
    alone = [knockoff_products(*one) for one in zip(Sigma, s, Xty, u)]
    assert np.allclose(knockoff_products(Sigma, s, Xty, u), alone, atol=1e-10)
    draws = knockoff_products(Sigma[0], s[0], Xty[0], u)
    assert np.allclose(draws, [knockoff_products(Sigma[0], s[0], Xty[0], one) for one in u], atol=1e-12)
    assert knockoff_products(Sigma, s, Xty, rng.standard_normal((3, 20, 6))).shape == (3, 20, 12)


# explicit and in moment form

@pytest.mark.parametrize("n, intercept, sigma", [
    (40, True, None), (40, False, None), (10, False, None), (11, True, None),
    (8, False, 1.), (8, True, "estimate"), (5, False, .3)])
def test_explicit_knockoffs_satisfy_equation_three(n, intercept, sigma):
    X, y, _ = linear_model(n, p=5, k=2, random_state=n)
    X1, Xk, y1 = explicit_knockoffs(X + 2, y, s="mvr", intercept=intercept, sigma=sigma, random_state=0)
    assert len(X1) == len(Xk) == len(y1) == max(n, 10 + intercept)
    Sigma = X1.T @ X1
    Z = np.column_stack([X1, Xk])
    assert np.allclose(np.diag(Sigma), 1)
    assert np.allclose(Z.T @ Z, gram(Sigma, choose_s(Sigma, "mvr")), atol=1e-6)
    if intercept: assert np.abs(Z[:n].sum(0)).max() < 1e-9


def test_seeds_reproduce_and_streams_differ():
    m = Moments.from_data(*linear_model(60, p=5, k=2, random_state=0)[:2])
    k = knockoffs_of(m)
    assert (k.products(1) == k.products(1)).all() and not (k.products(1) == k.products(2))[5:].any()
    rng = np.random.default_rng(0)
    assert not np.allclose(k.products(rng), k.products(rng)) and not np.allclose(k.products(), k.products())
    assert k.products(3, (4, 2)).shape == (4, 2, 10)


def test_residual_coordinates_have_the_length_of_the_residual_when_the_fit_is_tight():
    u = residual_coordinates(np.full(1000, 7.), n=6, p=3, rng=np.random.default_rng(0))
    assert np.allclose((u**2).sum(1), 7)
    u = residual_coordinates(np.full(200_000, 7.), n=10, p=3, rng=np.random.default_rng(0))
    assert np.allclose((u**2).mean(0), 1, atol=.02) and ((u**2).sum(1) < 7).all()


def test_haar_bases_point_either_way():
    U = haar_basis(np.eye(5)[:, 4:], 2, np.random.default_rng(0), size=(2000,))
    assert_fair_coin(U[:, 0, 0] > 0)
    assert_fair_coin(U[:, 1, 1] > 0)


# short designs

def test_augmentation_adds_chi_square_noise():
    u = Moments.from_data(*linear_model(7, p=5, k=2, random_state=0)[:2]).unit(False)
    rng = np.random.default_rng(0)
    extra = np.array([augment(u, 2., rng).yty - u.yty for _ in range(20_000)])
    assert_same_law(extra, 4 * rng.chisquare(3, 20_000))
    assert augment(u, 2., rng).n == 10
    tight = Moments.from_data(*linear_model(5, p=5, k=2, random_state=0)[:2]).unit(False)
    assert "the fit is exact" in refusal(augment, tight, "estimate")
    for bad in ("guess", 0, -1, np.nan): assert "sigma=" in refusal(augment, u, bad)


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
    m = Moments.from_data(*linear_model(30, p=20, k=5, random_state=0)[:2])
    u, v, w = (knockoffs_of(m, sigma=1., random_state=seed).moments.yty for seed in (3, 3, 4))
    assert u == v != w
