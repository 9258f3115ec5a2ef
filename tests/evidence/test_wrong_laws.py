"Laws that are wrong: log-likelihood ratios and their bound, and the file holds what the code gives."
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.core.testing import assert_rate_at_most, fires
from dp_knockoff.data.models import ar1
from dp_knockoff.evidence.trials import made_with
from dp_knockoff.evidence.wrong_laws import WRONG_LAWS, kl_bound, log_ratios
from dp_knockoff.knockoffs.laws import Gaussian, open_uniforms

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def test_log_ratios_are_those_of_whole_rows():
    "A conditional density is the joint one up to a factor that does not look at the column"
    rng = np.random.default_rng(0)
    truth, given = Gaussian([0, 1, 2, 3], 2 * ar1(4, .6)), Gaussian(.5, ar1(4, .2))
    X = truth.draw(open_uniforms(rng, (7, 4)))
    K = given(X, open_uniforms(rng, (7, 4)))
    found = log_ratios(X, K, truth, given)
    for j in range(4):
        swapped = X.copy()
        swapped[:, j] = K[:, j]
        P, Q = (multivariate_normal(law.mean, law.covariance).logpdf for law in (truth, given))
        assert np.isclose(found[j], np.sum(P(X) - Q(X) - P(swapped) + Q(swapped)))


def test_log_ratios_of_the_right_law_are_zero_and_of_a_wrong_one_positive_on_average():
    rng = np.random.default_rng(1)
    truth, given = Gaussian(0.0, ar1(5, .5)), Gaussian(0.0, ar1(5, .1))
    X = truth.draw(open_uniforms(rng, (2000, 5)))
    assert np.allclose(log_ratios(X, truth(X, open_uniforms(rng, X.shape)), truth, truth), 0)
    assert (log_ratios(X, given(X, open_uniforms(rng, X.shape)), truth, given) > 50).all()


def test_the_bound_by_hand():
    assert kl_bound(np.zeros(10)) == .2                                   # the right law: q
    assert kl_bound(np.full(10, -1.0), fdr=.1) == .1                      # no credit for luck
    assert kl_bound(np.full(10, 99.0)) == 1 and kl_bound(np.full(10, 1e6)) == 1
    assert np.isclose(kl_bound(np.full(10, .5)), .2 * np.exp(.5))
    one_in_ten = np.append(np.zeros(9), 50.0)
    assert np.isclose(kl_bound(one_in_ten), .3)                           # q + 1/10


@pytest.mark.parametrize("name", list(WRONG_LAWS))
def test_the_file_is_what_the_code_gives(name):
    "The last dataset of the first setting; the notebook runs the first dataset of all of them"
    header, files = load_arrays(RESULTS / "wrong_laws.npz", "wrong laws")
    study = WRONG_LAWS[name]()
    assert header["labels"][name] == list(study.cells)
    assert files[name].shape == (len(study.cells), 3, study.trials)
    again = next(iter(study.cells.values()))(study.trials - 1)
    assert np.shape(again) == (3,) and 0 <= min(again[:2]) <= max(again[:2]) <= 1
    if header["made_with"] == made_with():
        assert np.allclose(again, files[name][0, :, -1], equal_nan=True)


def test_the_file_agrees_with_the_theorem():
    "No setting with known ratios contradicts its bound, and the worst law contradicts q"
    _, files = load_arrays(RESULTS / "wrong_laws.npz", "wrong laws")
    known = [cell for cells in files.values() for cell in cells if np.isfinite(cell[2]).all()]
    assert len(known) >= 20
    for fdp, _, largest in known: assert_rate_at_most(fdp, kl_bound(largest))
    right, worst = files["covariance"][0], files["covariance"][-1]
    assert np.allclose(right[2], 0) and kl_bound(right[2]) < .2001
    assert fires(assert_rate_at_most, worst[0], .2)
