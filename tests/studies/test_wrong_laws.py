"Laws that are wrong: log-likelihood ratios, and the file holds what the code gives."
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.data.models import ar1
from dp_knockoff.knockoffs.laws import Gaussian, open_uniforms
from trials import made_with
from wrong_laws import WRONG_LAWS, log_ratios

RESULTS = Path(__file__).resolve().parents[2] / "studies" / "results"


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


@pytest.mark.parametrize("name", list(WRONG_LAWS))
def test_the_file_is_what_the_code_gives(name):
    "The last dataset of the first setting; the notebook runs the first dataset of all of them"
    header, files = load_arrays(RESULTS / "wrong_laws.npz", "wrong_laws")
    study = WRONG_LAWS[name]()
    assert header["labels"][name] == list(study.cells)
    cells, rates, trials = files[name].shape
    assert (cells, rates) == (len(study.cells), 3) and trials >= 15
    again = next(iter(study.cells.values()))(trials - 1)
    assert np.shape(again) == (3,) and 0 <= min(again[:2]) <= max(again[:2]) <= 1
    if header["made_with"] == made_with():
        assert np.allclose(again, files[name][0, :, -1], equal_nan=True)
