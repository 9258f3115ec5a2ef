"Data to draw: the linear model has the coefficients, noise and correlations asked for."
import numpy as np
import pytest

from dp_knockoff.core.testing import assert_same_law, refusal
from dp_knockoff.data.models import (
    RESPONSE_SDS,
    ROW_SHARE,
    ar1,
    bartlett,
    check_correlation,
    linear_model,
    planted,
    row_norm_bound,
)


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
    assert np.allclose(X.T @ X / 50_000, .7**np.abs(d), atol=.03) and np.allclose(ar1(4, .7), .7**np.abs(d))


BAD = [dict(n=0), dict(p=0), dict(k=5), dict(k=-1), dict(sigma=-1), dict(rho=1), dict(rho=-1.0),
       dict(amplitude=np.inf), dict(amplitude="a"), dict(random_state=-1)]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_linear_model_refuses(bad):
    assert refusal(linear_model, **{"n": 10, "p": 4, "k": 1, **bad}).startswith(f"{next(iter(bad))}=")


def test_correlations():
    assert check_correlation("rho", -.5) == -.5
    assert "between -1 and 1" in refusal(check_correlation, "rho", np.nan)
    assert (ar1(3, 0) == np.eye(3)).all() and ar1(2, -.5)[0, 1] == -.5


def test_bartletts_roots_have_the_law_of_gram_matrices():
    rng = np.random.default_rng(0)
    L = bartlett(5, 3, rng, (20_000,))
    X = rng.standard_normal((20_000, 5, 3))
    def entries(S):
        return np.column_stack([S[:, 0, 0], S[:, 2, 2], S[:, 0, 1], S[:, 1, 2], np.log(np.linalg.det(S))])
    assert (np.triu(L, 1) == 0).all()
    assert_same_law(entries(L @ L.transpose(0, 2, 1)), entries(X.transpose(0, 2, 1) @ X))


@pytest.mark.parametrize("rho, most", [(0.0, .93), (.7, 1.0)])
def test_row_bounds_cover(rho, most):
    "With probability .9 or more; without correlations not with much more"
    rng = np.random.default_rng(0)
    L = np.linalg.cholesky(ar1(10, rho))
    longest = [np.linalg.norm(rng.standard_normal((200, 10)) @ L.T, axis=1).max() for _ in range(1000)]
    assert .87 < np.mean(np.array(longest) <= row_norm_bound(200, 10, .1, rho)) <= most
    assert np.max(longest) < 1.5 * row_norm_bound(200, 10, .1, rho)


@pytest.mark.parametrize("kind, middle", [("normal", .6745), ("t(3)", .7649 / 3**.5), ("binary", 1.0)])
def test_planted_designs_are_what_they_say(kind, middle):
    "Covariance (whose estimate is poor for three degrees of freedom), and the median size before correlation"
    X = planted(100_000, p=4, k=2, rho=.6, kind=kind)(np.random.default_rng(0))[0]
    assert np.allclose(X.T @ X / len(X), ar1(4, .6), atol=.5 if kind == "t(3)" else .02)
    independent = np.linalg.solve(np.linalg.cholesky(ar1(4, .6)), X.T)
    assert np.allclose(np.median(np.abs(independent), axis=1), middle, atol=.01)


def test_planted_signals_and_bounds():
    X, y, beta, B, By = planted(4000, p=10, k=4, amplitude=2.0, random_signs=True)(np.random.default_rng(0))
    assert np.isclose(B, ROW_SHARE * np.sqrt(10)) and np.isclose(By, RESPONSE_SDS * ROW_SHARE * np.sqrt(17))
    assert sorted(np.abs(beta)) == [0] * 6 + [2] * 4 and len(set(beta)) == 3
    assert abs((y - X @ beta).std() - 1) < .05
    _, _, _, B, By = planted(10, p=10, k=4, amplitude=2.0, B=9.0, sds=1.0)(np.random.default_rng(0))
    assert B == 9 and np.isclose(By, np.sqrt(17)) # rows shorter than the bound are not scaled
    assert "kind='cauchy'" in refusal(planted, 10, kind="cauchy")
