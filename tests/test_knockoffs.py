"Knockoffs: Lemma 1 and the Gram matrix as properties, the moment form, short designs."
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dp_knockoff.ground import assert_same_law, linear_model, refusal
from dp_knockoff.knockoffs import S_CHOICES, augment, choose_s, explicit_knockoffs, gram, knockoffs, residual_coordinates
from dp_knockoff.moments import Moments

designs = st.integers(1, 7).flatmap(lambda p: arrays(float, (3 * p, p), elements=st.floats(-1, 1, width=16)))


def unit_gram(A):
    "Gram matrix of unit columns, kept away from singularity"
    A = A + 1.5 * np.eye(*A.shape)
    A = A / np.linalg.norm(A, axis=0)
    return A.T @ A


@given(designs)
def test_lemma_one(A):
    Sigma = unit_gram(A)
    lam, e = np.linalg.eigvalsh(Sigma), np.linalg.eigvalsh(gram(Sigma, np.full(len(Sigma), np.linalg.eigvalsh(Sigma)[0])))
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
    inverse_trace = lambda s: np.trace(np.linalg.inv(gram(Sigma, s)))  # noqa: E731
    assert inverse_trace(choose_s(Sigma, "mvr")) <= inverse_trace(choose_s(Sigma, "lam_min")) * (1 + 1e-9)
    assert choose_s(Sigma, "sdp").sum() >= choose_s(Sigma, "equi").sum() * (1 - 2e-3)


def test_a_given_s_is_used_and_checked():
    Sigma = unit_gram(np.zeros((9, 3)))
    assert (choose_s(Sigma, [.5, .4, .3]) == [.5, .4, .3]).all()
    for bad, words in [([.5, .5], "3 in all"), ([0, .5, .5], "above 0"), ([.5, 5, .5], "positive"), ("best", "unknown"), (None, "3 in all"), ({}, "neither"),
                       ([.5, np.nan, .5], "above 0")]:
        assert words in refusal(choose_s, Sigma, bad)


def test_explicit_knockoffs_satisfy_equation_three():
    for n, intercept, sigma in [(40, True, None), (40, False, None), (10, False, None), (11, True, None), (8, False, 1.), (8, True, "estimate"), (5, False, .3)]:
        X, y, _ = linear_model(n, p=5, k=2, random_state=n)
        X1, Xk, y1 = explicit_knockoffs(X + 2, y, s="mvr", intercept=intercept, sigma=sigma, random_state=0)
        assert len(X1) == len(Xk) == len(y1) == max(n, 10 + intercept)
        Sigma = X1.T @ X1
        Z = np.column_stack([X1, Xk])
        assert np.allclose(np.diag(Sigma), 1) and np.allclose(Z.T @ Z, gram(Sigma, choose_s(Sigma, "mvr")), atol=1e-6)
        if intercept: assert np.abs(Z[:n].sum(0)).max() < 1e-9


def test_seeds_reproduce_and_streams_differ():
    m = Moments.from_data(*linear_model(60, p=5, k=2, random_state=0)[:2])
    k = knockoffs(m)
    assert (k.products(1) == k.products(1)).all() and not (k.products(1) == k.products(2))[5:].any()
    rng = np.random.default_rng(0)
    assert not np.allclose(k.products(rng), k.products(rng)) and not np.allclose(k.products(), k.products())
    assert k.products(3, (4, 2)).shape == (4, 2, 10)


def test_residual_coordinates_have_the_length_of_the_residual_when_the_fit_is_tight():
    u = residual_coordinates(np.full(1000, 7.), n=6, p=3, rng=np.random.default_rng(0))
    assert np.allclose((u**2).sum(1), 7)
    u = residual_coordinates(np.full(200_000, 7.), n=10, p=3, rng=np.random.default_rng(0))
    assert np.allclose((u**2).mean(0), 1, atol=.02) and ((u**2).sum(1) < 7).all()


def test_augmentation_adds_chi_square_noise():
    u = Moments.from_data(*linear_model(7, p=5, k=2, random_state=0)[:2]).unit(False)
    rng = np.random.default_rng(0)
    extra = np.array([augment(u, 2., rng).yty - u.yty for _ in range(20_000)])
    assert_same_law(extra, 4 * rng.chisquare(3, 20_000))
    assert augment(u, 2., rng).n == 10
    tight = Moments.from_data(*linear_model(5, p=5, k=2, random_state=0)[:2]).unit(False)
    assert "the fit is exact" in refusal(augment, tight, "estimate")
    for bad in ("guess", 0, -1, np.nan): assert "sigma=" in refusal(augment, u, bad)
