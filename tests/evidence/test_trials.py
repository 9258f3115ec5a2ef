"Datasets with a known truth: drawn and counted as they should be, and the files hold what the code gives."
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from dp_knockoff.core.archives import load_arrays
from dp_knockoff.core.testing import assert_fair_coin, assert_rate_at_most, assert_same_law, refusal
from dp_knockoff.data.models import ar1
from dp_knockoff.evidence.trials import (
    RESPONSE_SDS,
    ROW_SHARE,
    STUDIES,
    Study,
    made_with,
    measure,
    planted,
    simulated_moments,
)
from dp_knockoff.filters.moments_method import moments_filter
from dp_knockoff.knockoffs.fixed_x import knockoffs_of
from dp_knockoff.knockoffs.statistics import Statistic
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.selection.release import ESTIMATE_RULES

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"


def test_moments_without_rows_are_moments_of_rows_in_law():
    rng = np.random.default_rng(0)
    beta = np.array([1.0, -.5])
    direct, rows = [], []
    for _ in range(4000):
        m = simulated_moments(12, beta, 1.5, rng)
        direct.append([m.XtX[0, 0], m.XtX[0, 1], *m.Xty, m.yty, *m.mean, m.scatter[0, 1], m.scatter[2, 2]])
        X = rng.standard_normal((12, 2))
        y = X @ beta + 1.5 * rng.standard_normal(12)
        scatter = 11 * np.cov(np.column_stack([X, y]).T)
        rows.append([X[:, 0] @ X[:, 0], X[:, 0] @ X[:, 1], *X.T @ y, y @ y, *X.mean(0), y.mean(),
                     scatter[0, 1], scatter[2, 2]])
    assert_same_law(np.array(direct), np.array(rows))


@pytest.mark.parametrize("intercept", [True, False])
def test_a_null_of_moments_without_rows_is_a_fair_coin(intercept):
    "With means of zero and an intercept it won .29 of the time"
    rng = np.random.default_rng(0)
    def wins():
        k = knockoffs_of(simulated_moments(3, np.zeros(1), 1.0, rng), intercept=intercept)
        return Statistic()(k.G, k.products(rng))[0] > 0
    assert_fair_coin([wins() for _ in range(3000)])


def test_moments_without_rows_refuse():
    assert "not above p=2" in refusal(simulated_moments, 2, np.ones(2))
    assert "sigma=-1" in refusal(simulated_moments, 20, np.ones(2), -1)
    m = simulated_moments(20, np.ones(2), 0.0, random_state=0)
    assert np.allclose(m.Xty, m.XtX @ np.ones(2))


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


def test_measure_is_the_filter_as_a_user_calls_it():
    draw = planted(2000, p=8, k=4)
    rates = measure(draw, 3, seed=5, epsilon=1.0, delta=.01)
    for k in range(3):
        rng = np.random.default_rng([5, k])
        X, y, beta, B, By = draw(rng)
        chosen = moments_filter(X, y, epsilon=1.0, delta=.01, row_bound=B, response_bound=By, intercept=False,
                                simulation=True, random_state=rng)
        assert np.array_equal(rates[:, k], error_rates(chosen.support, beta))
    assert np.array_equal(rates, measure(draw, 3, seed=5, jobs=1, epsilon=1.0, delta=.01))
    assert not np.array_equal(rates, measure(draw, 3, seed=6, epsilon=.1, delta=.01))


def test_a_study_measures_its_cells_in_order():
    def cell(k, c): return 10 * c + k, k
    study = Study(3, {"a": partial(cell, c=1), "b": partial(cell, c=2)})
    assert study.rates().tolist() == [[[10, 11, 12], [0, 1, 2]], [[20, 21, 22], [0, 1, 2]]]
    assert study.rates(1, cells=["b"]).tolist() == [[[20], [0]]]


@pytest.mark.parametrize("name", list(STUDIES))
def test_a_study_on_file_is_what_the_code_gives(name):
    "The last dataset of the first setting; the notebook runs the first datasets of all of them"
    header, files = load_arrays(RESULTS / "studies.npz", "studies")
    study = STUDIES[name]()
    assert header["labels"][name] == list(study.cells)
    assert files[name].shape == (len(study.cells), 2, study.trials)
    first = next(iter(study.cells.values()))
    again = first(study.trials - 1)
    if header["made_with"] == made_with(): assert np.allclose(again, files[name][0, :, -1])
    else: assert np.shape(again) == (2,) and 0 <= np.min(again) <= np.max(again) <= 1


@pytest.mark.parametrize("rounds, size, least", [(None, 10**3.8, .95), (1, 10_000, .6)])
def test_target_of_the_paper_setting(rounds, size, least):
    "Power .95 at n = 10^3.8 with FDR at most .2, where Method II finds next to nothing; less with one round"
    n = int(size)
    fdp, power = measure(planted(n), 20, seed=11, epsilon=.2, delta=100 / n, rounds=rounds)
    assert power.mean() > least and assert_rate_at_most(fdp, .2) < .25


def test_cells_of_the_studies_are_the_settings_that_their_labels_say():
    "Every round and rule that is compared, side by side; trials are functions of their number"
    studies = {name: study() for name, study in STUDIES.items()}
    paper, rules = studies["paper"].cells, studies["rules"].cells
    assert {cell.keywords["rounds"] for cell in paper.values()} == {1, 4} and len(paper) == 32
    for label, cell in paper.items():
        rounds = cell.keywords["rounds"]
        assert label.endswith(f", {rounds} round{'s' * (rounds > 1)}")
        assert ("1e-6" in label) == (cell.keywords["delta"] == 1e-6) and cell.keywords["epsilon"] == .2
    assert {cell.keywords["rule"] for cell in rules.values()} == set(ESTIMATE_RULES) and len(rules) == 30
    for label, cell in rules.items():
        assert label == f"{cell.keywords['setting']}: {cell.keywords['rule']}"
    assert list(studies["ignoring"].cells) == ["all noise known", "Gram noise ignored", "all noise ignored"]
    sizes = {"derived": 2, "bounds": 30, "private bounds": 1, "rounds": 11}
    assert {name: len(studies[name].cells) for name in sizes} == sizes


def test_who_ignores_the_noise_pays_for_it():
    "Six trials of the study: without the noise on the Gram matrix, several times as many are false"
    cells = STUDIES["ignoring"]().cells
    known, gram, every = (np.mean([cell(k)[0] for k in range(6)]) for cell in cells.values())
    assert known < .2 and 2 * known < min(gram, every) > .25
