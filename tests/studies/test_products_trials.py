"The settings of the products filter's trials are what they say, and the file holds what the code gives."
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.knockoffs.laws import open_uniforms
from products_trials import CELLS, LAWS, RATES, RESPONSES, products_rates, products_trial
from trials import made_with

FILE = Path(__file__).resolve().parents[2] / "studies" / "results" / "products_trials.npz"


def test_the_cells_are_all_combinations():
    assert set(CELLS) == {(law, response, q) for law in LAWS for response in RESPONSES for q in RATES}
    assert len(CELLS) == len(set(CELLS)) >= 40


@pytest.mark.parametrize("name", LAWS)
def test_laws_draw_rows_with_their_own_moments(name):
    law = LAWS[name]
    X = law.draw(open_uniforms(np.random.default_rng(0), (20_000, law.p)))
    sd = np.sqrt(np.diag(law.covariance))
    assert np.abs((X.mean(0) - law.mean) / sd).max() < .05
    assert np.abs(np.cov(X.T) / np.outer(sd, sd) - law.covariance / np.outer(sd, sd)).max() < .3


@pytest.mark.parametrize("kind", RESPONSES)
def test_responses_fit_their_public_bounds(kind):
    "Centre and bound are of the size of the response, without clamping most of it"
    response, bound, center = RESPONSES[kind]
    rng = np.random.default_rng(0)
    y = response(rng.standard_normal((20_000, 10)), rng)
    clamped = np.mean(np.abs(y - center) > bound)
    assert clamped < .1 and bound < 5 * y.std() and abs(y.mean() - center) < y.std()


def test_a_trial_is_a_function_of_its_number_and_its_cell():
    cell = ("factors", "binary", .2)
    assert products_trial(cell, 5) == products_trial(cell, 5) != products_trial(cell, 6)
    assert products_trial(cell, 5) != products_trial(("factors", "binary", .1), 5)


def test_the_file_is_what_the_code_gives():
    header, file = load_arrays(FILE, "products_trials")
    rates = file["rates"]
    assert rates.shape == (len(CELLS), 60, 4)
    again = products_rates([CELLS[9]], 2)[0]
    assert np.allclose(again, rates[9, :2]) or header["made_with"] != made_with()


def test_no_cell_is_above_its_rate():
    rates = load_arrays(FILE, "products_trials")[1]["rates"]
    q = np.array([q for _, _, q in CELLS])
    fdr = rates[:, :, 0].mean(1)
    se = rates[:, :, 0].std(1) / np.sqrt(rates.shape[1])
    assert ((fdr - q) / np.maximum(se, 1e-3)).max() < 3.5 and (fdr - q).mean() <= 0
