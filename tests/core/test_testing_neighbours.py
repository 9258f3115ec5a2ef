"The neighbour search reaches known worst cases, breaks what is false, and its finds are real designs."
import numpy as np
import pytest

from dp_knockoff.core.testing import neighbour_search, rows_with_gram

SHORT = dict(starts=200, climbs=2, steps=200)


def moved(S1, S2, order=None):
    "Norm of the difference of two Gram matrices, unless they are so large that it is rounding"
    return np.linalg.norm(S1 - S2, order) if np.trace(S1) < 1e5 else np.nan


@pytest.mark.parametrize("p", [1, 3, 6])
def test_rows_with_gram(p):
    S = np.random.default_rng(p).standard_normal((p, p))
    S = S @ S.T * 7
    rows = rows_with_gram(S)
    assert np.allclose(rows.T @ rows, S) and (np.linalg.norm(rows, axis=1) <= 1 + 1e-12).all()


def test_rows_with_a_singular_gram_matrix():
    S = np.outer([3., 4.], [3., 4.])
    rows = rows_with_gram(S)
    assert np.allclose(rows.T @ rows, S) and (np.linalg.norm(rows, axis=1) <= 1 + 1e-12).all()


@pytest.mark.parametrize("seed", range(3))
def test_known_worst_cases_are_reached_and_not_exceeded(seed):
    def frobenius(S1, S2): return moved(S1, S2) / np.sqrt(2)
    def spectral(S1, S2): return moved(S1, S2, 2)
    for ratio in (frobenius, spectral):
        assert .9999 < neighbour_search(ratio, np.random.default_rng(seed), **SHORT)[0] <= 1 + 1e-9


def test_a_bound_one_per_cent_too_small_is_broken():
    def ratio(S1, S2): return moved(S1, S2) / (.99 * np.sqrt(2))
    assert neighbour_search(ratio, np.random.default_rng(0), **SHORT)[0] > 1.01


@pytest.mark.parametrize("seed", range(3))
def test_what_is_found_are_neighbours_with_that_ratio(seed):
    def ratio(S1, S2): return moved(S1, S2)
    worst, S0, x1, x2 = neighbour_search(ratio, np.random.default_rng(seed), starts=50, climbs=1, steps=50)
    S1, S2 = (S0 + np.outer(x, x) for x in (x1, x2))
    assert np.isclose(ratio(S1, S2), worst)
    assert max(np.linalg.norm(x1), np.linalg.norm(x2)) <= 1 + 1e-12
    assert min(np.diag(S1).min(), np.diag(S2).min()) > 1 and np.linalg.eigvalsh(S0)[0] > -1e-9 * np.trace(S0)


def test_pairs_to_which_an_inequality_does_not_apply_are_left_out():
    def ratio(S1, S2): return np.linalg.norm(S1 - S2) if np.trace(S1) < 20 else np.nan
    _, S0, x1, _ = neighbour_search(ratio, np.random.default_rng(0), **SHORT)
    assert np.trace(S0) + x1 @ x1 < 20


def test_every_column_is_longer_than_a_row_can_be():
    "Assumption 3: a ratio is asked for such pairs only"
    def ratio(S1, S2):
        assert min(np.diag(S1).min(), np.diag(S2).min()) > 1
        return 1 / np.trace(S1)
    assert .4 < neighbour_search(ratio, np.random.default_rng(0), **SHORT)[0] < .5


def test_sizes_are_those_asked_for():
    seen = set()
    def ratio(S1, S2):
        seen.add(len(S1))
        return 0.
    neighbour_search(ratio, np.random.default_rng(0), starts=60, climbs=1, steps=5, sizes=(2, 5))
    assert seen == {2, 5}


def test_one_seed_one_result():
    def ratio(S1, S2): return abs(np.linalg.eigvalsh(S1)[0] - np.linalg.eigvalsh(S2)[0])
    options = dict(starts=50, climbs=1, steps=20)
    a, b, c = (neighbour_search(ratio, np.random.default_rng(seed), **options)[0] for seed in (1, 1, 2))
    assert a == b != c
