"The settings of the moments filter's trials are what they say, and the file holds what the code gives."
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.core.errors import stream
from moments_trials import (
    _FIELDS,
    SETTINGS,
    _coefficients,
    _pilot,
    _rejects,
    _response,
    moments_rates,
    moments_trial,
)
from trials import made_with, of_rounds

FILE = Path(__file__).resolve().parents[2] / "studies" / "results" / "moments_trials.npz"
NAMES = list(SETTINGS)
HEADER, _ = load_arrays(FILE, "moments_trials")


def rows_of(name, n=20_000):
    s = SETTINGS[name]
    return s.design(stream(1, f"rows of {name}"), n, **dict(s.options))


def test_settings_are_ninety_and_more_and_all_different():
    assert len(SETTINGS) >= 94 and len(set(SETTINGS.values())) == len(SETTINGS)
    assert {s.q for s in SETTINGS.values()} == {.05, .1, .2}
    assert sum(not s.alike for s in SETTINGS.values()) > 30


@pytest.mark.parametrize("name", NAMES)
def test_a_setting_has_the_signals_and_the_share_that_it_says(name):
    "Signals where they may be, of one size in standard deviations; and bounds of the size of the rows"
    s = SETTINGS[name]
    B, By, C = _pilot(name)
    beta = _coefficients(s, stream(2, "beta"), C)
    sizes = (np.abs(beta) * np.sqrt(np.diag(C)))[beta != 0]
    assert (beta != 0).sum() == (s.k if s.explained else 0) and (s.signs or (beta >= 0).all())
    assert not s.explained or np.allclose(sizes, sizes[0])
    assert np.isclose(beta @ C @ beta / (beta @ C @ beta + 1), s.explained)
    first, last, _ = slice(*s.where).indices(len(beta))
    assert set(np.flatnonzero(beta)) <= set(range(first, last))
    X = rows_of(name, 4000)
    assert X.shape == (4000, len(beta)) and np.isfinite(X).all()
    norms = np.linalg.norm(X, axis=1)
    below = [np.mean(norms <= factor * B / .7) for factor in (.99, 1.01)]
    assert below[0] < s.quantile + .05 and below[1] > s.quantile - .05
    assert B > 0 and By > 0 and (B, By) == _pilot(name)[:2]


KINDS = ("independent, q 0.05", "noise by first column, R2 0.2", "noise at random", "noise by norm")


@pytest.mark.parametrize("name", KINDS)
def test_noise_has_variance_one_on_average(name):
    s, X = SETTINGS[name], rows_of(name)
    noise = _response(s, stream(3, "noise"), X, np.zeros(X.shape[1]))
    assert abs(np.mean(noise**2) - 1) < .1
    if "first" in name: assert np.corrcoef(noise**2, X[:, 0]**2)[0, 1] > .3


def test_designs_are_what_they_say():
    def corr(name): return np.corrcoef(rows_of(name).T)
    assert np.isclose(corr("AR(.8), epsilon 3")[3, 5], .64, atol=.03)
    assert np.isclose(corr("AR(-.8)")[3, 4], -.8, atol=.03)
    assert np.isclose(corr("equicorrelated .9")[3, 40], .9, atol=.02)
    assert np.isclose(corr("blocks .7")[0, 4], .7, atol=.03) and abs(corr("blocks .7")[4, 5]) < .05
    long = rows_of("two kinds, 100 times, R2 0.2")
    assert np.isclose(long[:, 50].std() / long[:, 3].std(), 100, rtol=.05)
    assert not (long[:, :40].any(1) & long[:, 40:].any(1)).any()
    assert np.isclose(rows_of("mean 10").mean(), 10, atol=.1)
    dummies = rows_of("rarer levels")[:, :5]
    assert set(np.unique(dummies)) == {0, 1} and dummies.sum(1).max() == 1
    assert 0 < dummies[:, -1].mean() < .1 * dummies[:, 0].mean()


def test_a_group_of_nulls_is_rejected_where_it_is_large():
    V = np.array([[2.0, .5], [.5, 1.0]])
    b = np.array([1.5, -1.5])
    size = b @ np.linalg.inv(V) @ b
    limit = np.sqrt(5.991464547 / size)  # of chi-square with two degrees of freedom, at 5 %
    assert _rejects(1.001 * limit * b, V, [0, 1]) == 1 and _rejects(.999 * limit * b, V, [0, 1]) == 0


def test_a_trial_is_a_function_of_its_number_and_its_options():
    name = "10 columns"
    one, again, other = (moments_trial(name, k, **options) for k, options in ((5, {}), (5, {}), (6, {})))
    assert np.array_equal(one, again, equal_nan=True) and one != other
    assert len(one) == len(_FIELDS) and moments_trial(name, 5, rounds=1) != one
    found = dict(zip(_FIELDS, one))
    assert 0 <= min(found[key] for key in _FIELDS if key != "zeta") and 0 < found["zeta"] < .3
    assert found["covered"] > .6 and found["power"] > .3
    assert np.array_equal(moments_rates([name], 2)[0, 1], moments_trial(name, 1))


def test_without_signals_there_is_no_power_to_measure():
    found = dict(zip(_FIELDS, moments_trial("no signals", 0)))
    assert found["covered"] > .8 and found["fdp"] in (0.0, 1.0) and np.isnan(found["signals covered"])


# ---------------------------------------------------------------- on file

def test_the_file_has_every_setting_with_three_rounds_and_with_one():
    file = load_arrays(FILE, "moments_trials")[1]
    assert HEADER["names"] == NAMES and HEADER["fields"] == list(_FIELDS)
    for rounds, least in (("three", 40), ("one", 40)):
        settings, trials, width = file[rounds].shape
        assert (settings, width) == (len(NAMES), len(_FIELDS)) and trials >= least


def test_the_file_is_what_the_code_gives():
    "But for one draw of knockoffs, which is a function of the release to its last bit"
    _, file = load_arrays(FILE, "moments_trials")
    if HEADER["made_with"] != made_with(): pytest.skip("made with other libraries")
    exact = [k for k, name in enumerate(_FIELDS) if not name.startswith("knockoffs")]
    name, last = "10 columns", file["three"].shape[1] - 1
    for rounds, k, options in (("three", last, {}), ("one", 3, of_rounds(1))):
        again = np.array(moments_trial(name, k, **options))
        assert np.allclose(again[exact], file[rounds][NAMES.index(name), k][exact], equal_nan=True)


@pytest.mark.parametrize("rounds", ["three", "one"])
def test_no_setting_is_above_its_rate_by_more_than_chance_and_a_little(rounds):
    "FDR within three and a half standard errors of q and a little; on average below it"
    cells = load_arrays(FILE, "moments_trials")[1][rounds]
    q = np.array([s.q for s in SETTINGS.values()])
    fdp = cells[:, :, _FIELDS.index("fdp")]
    excess = fdp.mean(1) - q
    se = fdp.std(1) / np.sqrt(fdp.shape[1])
    assert ((excess - .02) / np.maximum(se, .01)).max() < 3.5 and excess.mean() < 0


def test_intervals_on_file_cover():
    cells = load_arrays(FILE, "moments_trials")[1]["three"]
    covered = cells[:, :, _FIELDS.index("covered")].mean(1)
    assert covered.min() > .9 and covered.mean() > .94
