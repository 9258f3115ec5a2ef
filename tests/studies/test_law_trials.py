"Tests and products in sixty settings are what they say, and the file holds what the code gives."
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.knockoffs.laws import open_uniforms
from law_trials import CELLS, FIELDS, LAWS, RESPONSES, WAYS, law_rates, law_trial
from trials import made_with

FILE = Path(__file__).resolve().parents[2] / "studies" / "results" / "law_trials.npz"


def test_the_cells_are_all_pairs_and_more():
    assert {cell[:2] for cell in CELLS} == {(law, response) for law in LAWS for response in RESPONSES}
    assert len(CELLS) == len(set(CELLS)) >= 60 and min(n for *_, n in CELLS) == 200


@pytest.mark.parametrize("name", LAWS)
def test_laws_draw_rows_with_their_own_moments(name):
    law = LAWS[name]
    X = law.draw(open_uniforms(np.random.default_rng(0), (20_000, law.p)))
    sd = np.sqrt(np.diag(law.covariance))
    assert np.abs((X.mean(0) - law.mean) / sd).max() < .05
    assert np.abs(np.corrcoef(X.T) - law.covariance / np.outer(sd, sd)).max() < .05


@pytest.mark.parametrize("kind", RESPONSES)
def test_responses_fit_their_public_bounds(kind):
    response, bound, center = RESPONSES[kind]
    rng = np.random.default_rng(0)
    y = response(rng.standard_normal((20_000, 8)), rng)
    assert np.mean(np.abs(y - center) > bound) < .1 and len(np.unique(y)) > 1


def test_a_trial_is_a_function_of_its_number_and_its_cell():
    one, again, other = (law_trial(CELLS[3], k) for k in (5, 5, 6))
    assert np.array_equal(one, again, equal_nan=True) and not np.array_equal(one, other, equal_nan=True)
    assert one.shape == (len(WAYS), len(FIELDS)) and np.isnan(one[0, 2:]).all() and one[1, 4] == 22


def test_the_file_is_what_the_code_gives():
    header, file = load_arrays(FILE, "law_trials")
    rates = file["rates"]
    assert rates.shape == (len(CELLS), 20, len(WAYS), len(FIELDS)) and header["ways"] == list(WAYS)
    again = law_rates([CELLS[40]], 2)[0]
    assert np.allclose(again, rates[40, :2], equal_nan=True) or header["made_with"] != made_with()


def test_no_way_is_above_its_rate_and_tests_find_more():
    rates = load_arrays(FILE, "law_trials")[1]["rates"]
    fdr, se = rates[..., 0].mean(1), rates[..., 0].std(1) / np.sqrt(rates.shape[1])
    assert ((fdr - .2) / np.maximum(se, .01)).max() < 3.5 and fdr.mean(0).max() < .2
    power = rates[..., 1].mean((0, 1))
    assert power[1] > power[0] + .1 and abs(power[1] - power[2]) < .02
    square, tail, nulls = rates[:, :, 1:, 2:].sum((0, 1)).T
    assert (.85 < square / nulls).all() and (square / nulls < 1.08).all() and (tail / nulls < .012).all()
