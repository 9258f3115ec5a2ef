"Formulas by hand, noise against its budget, mistakes that must be seen, and the file is what the code gives."
from dataclasses import astuple, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

import rivals
from dp_knockoff.core.archives import load_arrays
from dp_knockoff.core.testing import assert_rate_at_most
from dp_knockoff.data.models import ar1
from dp_knockoff.evidence.audit import epsilon_lower_bound
from dp_knockoff.knockoffs.laws import Gaussian
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.privacy.samplers import NumpySampler
from dp_knockoff.selection.rules import RULES
from rivals import (
    CELLS,
    HOMES,
    RIVALS,
    TABLES,
    Cell,
    Public,
    Rival,
    adassp,
    adassp_z,
    audited_mu,
    bh,
    bhq_scale,
    bounded_rows,
    erratum_scale,
    found_rates,
    gaussian_peel,
    home_rates,
    knockoff_gaps,
    laplace_peel,
    laplace_rho,
    noisy_max_mu,
    noisy_products,
    peel,
    peel_rho,
    printed_adassp_mu,
    private_bhq,
    products_z,
    projected_moments,
    projected_selection,
    projection_divergence,
    projection_epsilon,
    projection_renyi,
    projection_share,
    published_ridge,
    renyi_epsilon,
    rivals_cell,
    rivals_trial,
    scores,
    table,
    trials_of,
    zcdp_epsilon,
    zcdp_rho,
)
from trials import made_with

FILE = Path(__file__).resolve().parents[2] / "studies" / "results" / "rivals.npz"
BUDGETS = (Budget(.2, .025), Budget(1.0, 1e-6), Budget(3.0, 1e-4))
P = 8


def told(budget=BUDGETS[1], p=P, rho=0.0, peels=6):
    "Public facts about a small table"
    return Public(budget, Gaussian(0, ar1(p, rho)), 2.0, 5.0, 1.0, 1.7, peels, np.ones(p))


def rows(n=400, p=P, seed=0, size=0.0):
    "Normal rows, and a response with this effect of each of the first half of the columns"
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, size * X[:, :p // 2].sum(1) + rng.standard_normal(n)


# Every rival


@pytest.mark.parametrize("word", RIVALS)
def test_a_rival_is_a_function_of_rows_facts_and_a_stream(word):
    X, y = rows(2000, size=.8)
    one, two = (RIVALS[word].run(X, y, told(), np.random.default_rng(3)) for _ in range(2))
    assert one.shape == (P,) and one.dtype == bool and (one == two).all()


def test_the_moments_filter_competes_with_all_its_rules():
    assert [word for word in RIVALS if word.startswith("moments")] == \
        [f"moments, {rule}" for rule in RULES if rule != "exact"]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("word", [word for word, rival in RIVALS.items() if rival.spends])
def test_what_is_said_to_keep_its_budget_does(word, budget):
    public, rival = told(budget, 20, peels=10), RIVALS[word]
    spent = rival.spends(public, 5_000)
    ends, starts = ("repaired", "tight", "+ BH"), ("moments", "products", "mirror statistics")
    repaired = word.endswith(ends) or word.startswith(starts)
    if repaired: assert .3 * budget.epsilon < spent <= budget.epsilon * (1 + 1e-6)
    assert (rival.status(public, 5_000) == "kept") == (spent <= budget.epsilon * (1 + 1e-6))


def test_those_that_fall_short_are_marked():
    public = told(BUDGETS[1], 50, peels=25)
    status = {word: rival.status(public, 5_000) for word, rival in RIVALS.items()}
    assert status["mirror peeling"] == "NOT kept"
    assert status["DP-AdaPT"] == status["DP-BHq, its code"] == "not shown"
    assert status["Method I"] == status["Method II"] == "NOT for every pair"
    assert status["knockoffs"] == status["OLS + BH"] == "not private"
    assert Rival(None, "", "", lambda public, n: 0.0, at_least=True).status(public, 1) == "no breach seen"


# Bounds, tests, accounts


def test_bounded_rows():
    X, y = np.array([[3.0, 4.0], [.3, .4], [0.0, 0.0]]), np.array([10.0, 10.0, -1.0])
    Z, t = bounded_rows(X, y, 1.0, 4.0)
    assert np.allclose(Z, [[.6, .8], [.3, .4], [0, 0]]) and np.allclose(t, [2, 4, -1])


def test_bh_by_hand():
    p = np.array([.001, .03, .04, .5, .9])       # thresholds .04, .08, .12, ...
    z = norm.isf(p / 2) * np.array([1, -1, 1, 1, -1])
    assert bh(z, .2).tolist() == [True, True, True, False, False]
    assert bh(z[:3], .2, tests=50).tolist() == [True, False, False]
    assert not bh(np.zeros(4), .2).any()


def test_accounts():
    for budget in BUDGETS:
        rho = zcdp_rho(budget)
        assert np.isclose(zcdp_epsilon(rho, budget.delta), budget.epsilon, rtol=1e-6)
        assert rho < analytic_ratio(budget)**2 / 2      # Gaussian noise alone may spend more
        assert zcdp_epsilon(rho, budget.delta) < rho + 2 * np.sqrt(rho * np.log(1 / budget.delta))
    assert np.isclose(peel_rho(5, 2.0, 4.0, 8.0), 5 * (1 / 8 + 1 / 32))
    assert np.isclose(laplace_rho(3, .1), 3 * (.04 + .01) / 2)


# Marginal screening


@pytest.mark.parametrize("rho", [0.0, .5])
def test_products_z_knows_sampling_and_noise(rho):
    "Standard normal for nulls: without the variance of the noise it would be far wider"
    S, rng = ar1(6, rho), np.random.default_rng(0)
    c = rng.standard_normal((4000, 6)) @ np.linalg.cholesky(9 * S + 100 * np.eye(6)).T
    z = np.array([products_z(row, 10.0, 9.0, S) for row in c])
    assert np.abs(z.std(0) - 1).max() < .06 and np.abs(z.mean(0)).max() < .08


def test_screening_keeps_its_rate_when_all_is_noise():
    public, run = told(), RIVALS["X'y + BH"].run
    false = [run(*rows(seed=k), public, np.random.default_rng(k)).any() for k in range(300)]
    assert_rate_at_most(false, .2)


@pytest.mark.parametrize("word", ["X'y + BH", "AdaSSP + BH", "products", "moments, knockoffs"])
def test_audits_of_gaussian_noise(word):
    public = told(p=20)
    found = audited_mu(RIVALS[word].run, public)
    assert .6 * public.mu < found <= public.mu


@pytest.mark.parametrize("word", ["X'y + BH", "AdaSSP + BH"])
def test_an_audit_sees_a_sensitivity_that_is_halved(word):
    class Half:
        name, private = "half", False
        def __init__(self, sampler): self.sampler = sampler
        def gaussian(self, value, scale, purpose): return self.sampler.gaussian(value, scale / 2, purpose)

    def broken(X, y, public, rng, sampler): return RIVALS[word].run(X, y, public, rng, Half(sampler))
    assert audited_mu(broken, told()) > told().mu


def test_noisy_products_by_hand():
    X, y = rows(50)
    public = told(Budget(1e5, 1e-6))
    c, sd, square = noisy_products(X, y, public, NumpySampler(0))
    clamp = .7 * .75 * public.response_sd
    Z, t = bounded_rows(X, y, .7 * np.sqrt(P), clamp)
    assert np.allclose(c, Z.T @ t, atol=6 * sd) and np.isclose(square, t @ t / 50, atol=.2)
    assert np.isclose(sd, 2 * .7 * np.sqrt(P) * clamp / (public.mu * np.sqrt(.95)))


# Peeling


@pytest.mark.parametrize("measure", [scores, partial(knockoff_gaps, rng=None)], ids=["scores", "gaps"])
def test_no_row_moves_a_score_by_more(measure):
    public, rng, worst = told(rho=.5), np.random.default_rng(1), 0.0

    def of(X, y):
        if measure is scores: return scores(X, y, public)
        return knockoff_gaps(X, y, public, np.random.default_rng(5)) # the same uniforms for the same rows

    X, y = rows(30)
    y = 100 * np.sign(y)
    before, limit = of(X, y)
    for _ in range(300):
        Z, t = X.copy(), y.copy()
        Z[0], t[0] = 50 * rng.standard_normal(P), -y[0] * rng.choice([1, .5, -1])
        worst = max(worst, np.abs(of(Z, t)[0] - before).max())
    assert .3 * limit < worst <= limit * (1 + 1e-12)


def test_peel_draws_with_the_scales_it_is_charged_for():
    rng, rho = np.random.default_rng(0), .5
    first, noise = [], []
    for _ in range(4000):
        places, values, sd = peel(np.array([0.0, 1.5, -99.0]), np.array([3.0, 4.0, 5.0]), 1, .4, rho, rng)
        first.append(places[0] == 1)
        noise.append(values[0] - np.array([3.0, 4.0, 5.0])[places[0]])
    scale = .4 * np.sqrt(1 / rho)
    assert np.isclose(sd, scale) and np.isclose(peel_rho(1, .4, scale, scale), rho)
    assert abs(np.std(noise) / scale - 1) < .07
    assert abs(np.mean(first) - 1 / (1 + np.exp(-1.5 / scale))) < .04
    places, values, _ = peel(np.arange(9.0), np.arange(9.0), 4, 1e-9, rho, rng)
    assert places.tolist() == [8, 7, 6, 5] and np.allclose(values, [8, 7, 6, 5], atol=1e-6)


def test_laplace_peeling_and_its_scales():
    rng, z = np.random.default_rng(0), np.array([1.0, -5.0, 3.0, .1])
    places, values = laplace_peel(lambda noise: np.abs(z + noise), z, 3, 1e-9, rng)
    assert places.tolist() == [1, 2, 0] and np.allclose(values, [-5, 3, 1])
    assert np.isclose(bhq_scale(Budget(.5, 1e-3), 1e-4, 500), 1e-4 * np.sqrt(5000 * np.log(1000)) / .5)
    u = 2.0 / (2 * np.sqrt(2 * 7))
    assert np.isclose(erratum_scale(2.0, 7, .3), .3 / np.log(norm.cdf(u) / norm.cdf(-u)))


def test_no_score_moves_log_p_faster_than_its_slope():
    z = np.linspace(-6, 6, 40_001)
    log_p, slope = rivals._log_p(z, .2 * len(z) / 50) # the cut-off of 50 tests
    steps = np.abs(np.diff(log_p) / np.diff(z)).max()
    assert .99 * slope < steps <= slope * (1 + 1e-6)


def test_no_row_moves_a_gradient_by_more(monkeypatch):
    "The first step of hard thresholding, on neighbours whose rows are clipped"
    seen = []

    def recorded(score, value, rounds, sensitivity, rho, rng):
        seen.append((value, sensitivity))
        return peel(score, value, rounds, sensitivity, rho, rng)
    monkeypatch.setattr(rivals, "peel", recorded)
    X, y = rows(40)
    Z, t = X.copy(), y.copy()
    row = np.random.default_rng(0).permutation(40)[0] # one of the first half
    X[row], y[row], Z[row], t[row] = 99, 99, 99, -99
    limits, firsts = [], []
    for data in ((X, y), (Z, t)):
        seen.clear()
        RIVALS["mirror statistics"].run(*data, told(), np.random.default_rng(0))
        firsts.append(seen[0][0])
        limits.append(seen[0][1])
    assert np.isclose(np.abs(firsts[0] - firsts[1]).max(), limits[0]) and limits[0] == limits[1]


def test_bhq_without_noise_is_bh_with_a_margin():
    log_p, rng = np.log([1e-9, 1e-6, .02, .5]), np.random.default_rng(0)
    assert private_bhq(log_p, 4, 1e-12, 0.0, .2, rng).tolist() == [True, True, True, False]
    assert private_bhq(log_p, 4, 1e-12, .5, .2, rng).tolist() == [True, True, False, False]
    assert not private_bhq(log_p, 4, 1e-12, 9.0, .2, rng).any()


@pytest.mark.parametrize("word", ["mirror peeling", "mirror peeling, repaired", "DP-AdaPT, repaired"])
def test_fewer_than_five_discoveries_are_none(word):
    "At q = .2 the added one asks for five; without it four clear effects would be selected"
    X, y = rows(100_000, size=1.0)
    few, enough = (replace(told(Budget(50.0, 1e-3)), peels=peels) for peels in (4, 8))
    assert not RIVALS[word].run(X, y, few, np.random.default_rng(0)).any()
    y = y + X[:, 4:6].sum(1)
    assert RIVALS[word].run(X, y, enough, np.random.default_rng(0)).sum() >= 5


def test_gaussian_peeling():
    W = np.array([1.0, -9.0, 4.0])
    places, values = gaussian_peel(W, 2, 1e-9, np.random.default_rng(0))
    assert places.tolist() == [1, 2] and np.allclose(values, [-9, 4])


def test_what_a_noisy_maximum_shows():
    p, sd, runs = 12, 8.0, 200_000
    noise = sd * np.random.default_rng(0).standard_normal((runs, p))
    side = np.where(np.arange(p) < p // 2, 1.0, -1.0)
    gain = np.mean(side[(noise + side).argmax(1)] > 0) - .5
    assert abs(2 * gain - noisy_max_mu(p, sd)) < 6 / np.sqrt(runs)
    assert np.isclose(noisy_max_mu(2, 1.0), 4 / np.sqrt(4 * np.pi), rtol=1e-6)
    assert noisy_max_mu(50, 1.0) > 2 > noisy_max_mu(2, 1.0)


def test_counting_sees_the_gaussian_maximum_and_not_the_gumbel_one():
    budget, p, rounds, runs = Budget(1.0, .01), 400, 20, 4000
    mu, rho = analytic_ratio(budget), zcdp_rho(budget)
    sd, side = np.sqrt(2 * rounds) / mu, np.where(np.arange(p) < p // 2, 1.0, -1.0)
    weights = np.array([noisy_max_mu(p - k, sd) for k in range(rounds)])
    cut = 1.4 * np.sqrt(weights @ weights + rounds / sd**2)

    def hits(release, shift):
        rng, found = np.random.default_rng([7, int(shift)]), 0
        for _ in range(runs):
            places, values = release(99 + shift * side, rng)
            found += weights @ side[places] + side[places] @ (values - 99) / sd**2 > cut
        return int(found)

    def gaussian(W, rng): return gaussian_peel(W, rounds, sd, rng)
    def gumbel(W, rng): return peel(W, W, rounds, 1.0, rho, rng)[:2]
    least = [epsilon_lower_bound(hits(f, 1.0), hits(f, 0.0), runs, budget.delta) for f in (gaussian, gumbel)]
    assert least[0] > 1 > least[1]


# Projection


def test_the_printed_ridge():
    L = np.log(400)
    assert np.isclose(published_ridge(Budget(.2, .01), 100.0, 10_000),
                      100 * (1 + (10 + 2 / L) * (np.sqrt(20_000 * L) + L)))


def test_renyi_divergences_of_replacing_a_row_are_those_of_both_directions():
    "The printed formula for a row that is zeroed, and the same with the roles exchanged"
    s, r, a = .02, 300, np.array([1.5, 4.0, 20.0])
    g = (1 + s) / s
    zeroed = r * a / (2 * (a - 1)) * np.log(1 - 1 / g) - r / (2 * (a - 1)) * np.log(1 - a / g)
    back = r / 2 * np.log(1 + s) + r / (2 * (a - 1)) * np.log((1 + s) / (1 + a * s))
    assert np.allclose(projection_renyi(a, s, r), zeroed + back)
    assert projection_renyi(np.array([100.0]), s, r) == np.inf


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_projections_are_calibrated(budget):
    share = projection_share(budget, 20_000)
    exact = projection_epsilon(share, 20_000, budget.delta)
    assert budget.epsilon * (1 - 1e-4) < exact <= budget.epsilon
    assert renyi_epsilon(partial(projection_renyi, share=share, rows=20_000), budget.delta) > exact
    assert np.isclose(share * np.sqrt(20_000), analytic_ratio(budget), rtol=.03) # many rows: Gaussian noise


def test_the_divergence_of_a_projection_against_draws():
    chi, other = np.random.default_rng(0).chisquare(50, (2, 400_000))
    loss = .5 * .2 / 1.2 * (1.2 * chi - other)
    drawn = np.maximum(1 - np.exp(1 - loss), 0)
    assert abs(projection_divergence(1.0, .2, 50) - drawn.mean()) < 6.5 * drawn.std() / np.sqrt(400_000)


def test_projected_moments_are_those_of_projected_rows():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 3)) * [1, 2, 3]
    drawn = np.array([projected_moments(A.T @ A, 4.0, 20, rng) for _ in range(4000)])
    R = rng.standard_normal((4000, 20, 30)) / np.sqrt(20)
    M = R @ A + 2 * rng.standard_normal((4000, 20, 3)) / np.sqrt(20)
    rowwise = M.transpose(0, 2, 1) @ M
    assert np.allclose(drawn.mean(0), A.T @ A + 4 * np.eye(3), rtol=.05, atol=4)
    assert np.allclose(drawn.std(0), rowwise.std(0), rtol=.1)


def test_projected_selection_finds_what_is_clear():
    A = np.random.default_rng(0).standard_normal((5000, 17))
    A[:, -1] += A[:, :6].sum(1)
    assert projected_selection(A.T @ A, 500.0, .2).tolist() == [True] * 6 + [False] * 2


# AdaSSP


def test_adassp_without_noise_is_least_squares():
    X, y = rows(size=1.0)
    beta, _, gram_sd, product_sd = adassp(X, y, 1.0, 1.0, 1e9, 3.0, NumpySampler(0))
    assert np.allclose(beta, np.linalg.lstsq(X, y, rcond=None)[0], atol=1e-5)
    assert np.isclose(gram_sd, np.sqrt(6) / 1e9) and np.isclose(product_sd, 2 * np.sqrt(3) / 1e9)
    assert np.isclose(printed_adassp_mu(Budget(1.0, 1e-6)), .1461, atol=1e-4)


def test_adassp_z_knows_the_noise():
    X, y = rows(3000)
    found = []
    for k in range(400):
        beta, *scales = adassp(X, 0 * y, 3.0, 3.0, .5, 3.0, NumpySampler(np.random.default_rng(k)))
        found.append(adassp_z(beta, *scales, 0.0))
    assert .8 < np.std(found) < 1.1


# Tables, cells, the file


def test_rates_leave_out_what_nobody_knows():
    support, truth = np.array([1, 1, 1, 0, 1], bool), np.array([1, 0, np.nan, 1, np.nan])
    assert found_rates(support, truth) == (.5, .5)
    assert found_rates(np.zeros(5, bool), truth) == (0, 0)


@pytest.mark.parametrize("name", [name for name in TABLES if not name.startswith("wide")])
def test_tables_are_in_public_units(name):
    population = table(name)
    X, y, truth = population.draw(20_000, np.random.default_rng(0))
    public = population.public(Budget(1.0, 1e-6))
    limit = .6 if name in ("heavy", "flights") else .05
    assert np.abs(X.mean(0)).max() < limit and np.abs(X.std(0) - 1).max() < limit
    assert abs(y.mean()) < .1 * y.std() and abs(y.std() / public.response_sd - 1) < .15
    assert np.mean(np.abs(y) > public.response_bound) < .05
    assert X.shape[1] == len(truth) == public.p and set(truth[np.isfinite(truth)]) == {0, 1}
    X[0, 0] += 1 # a dataset of its own: nothing is shared
    assert population.draw(10, np.random.default_rng(0))[0].shape == (10, public.p)


def test_the_cells_cover_what_they_should():
    assert len(CELLS) == len(set(CELLS)) >= 25 and {cell.table for cell in CELLS} == set(TABLES)
    sizes = [cell.n for cell in CELLS if cell.table == "paper" and cell.delta > 1e-6]
    assert max(sizes) >= 100 * min(sizes)
    assert {cell.epsilon for cell in CELLS} == {.2, 1.0} and min(cell.delta for cell in CELLS) == 1e-6
    assert trials_of(Cell("wide", 1, 1.0, 1e-6), 60) == 12 and trials_of(CELLS[0], 60) == 60


def test_a_trial_is_a_function_of_its_number():
    cell = Cell("factors", 500, 1.0, 1e-6)
    one, two, other = (rivals_trial(cell, k)[:, :2] for k in (3, 3, 4))
    assert (one == two).all() and (one != other).any()
    alone = rivals_trial(cell, 3, ["products"])[0, :2]
    assert (alone == one[list(RIVALS).index("products")]).all() # nobody takes another's noise


def test_a_refusal_selects_nothing(monkeypatch):
    from dp_knockoff.core.errors import InputError

    def refuse(X, y, public, rng): raise InputError("no")
    monkeypatch.setitem(rivals.RIVALS, "refuses", Rival(refuse, "", ""))
    assert (rivals_trial(Cell("factors", 100, 1.0, 1e-6), 0, ["refuses"])[0, :2] == 0).all()


def loaded():
    header, arrays = load_arrays(FILE, "rivals")
    return header, arrays["rates"], arrays["homes"]


def test_the_file_is_about_this_code():
    header, rates, homes = loaded()
    assert header["rivals"] == list(RIVALS) and list(header["homes"]) == list(HOMES)
    assert [tuple(cell) for cell in header["cells"]] == [astuple(cell) for cell in CELLS]
    assert rates.shape[:3] == (len(CELLS), len(RIVALS), 3) and rates.shape[3] >= 20
    assert homes.shape == (len(HOMES), 2, rates.shape[3])


@pytest.mark.parametrize("k", [1, 9, 14, 28, 30, CELLS.index(Cell("flights", 10_000, 1.0, 1e-6))])
def test_the_file_is_what_the_code_gives(k):
    header, rates, _ = loaded()
    again = rivals_cell(CELLS[k], 1)[:, :2, 0]
    assert np.isfinite(again).all()
    if header["made_with"] != made_with(): pytest.skip("made with other libraries")
    other = [word for word, one, two in zip(RIVALS, again, rates[k, :, :2, 0]) if not np.allclose(one, two)]
    assert not other, f"python studies/run.py rivals --only {' '.join(other)}"


def test_the_homes_in_the_file_are_what_the_code_gives():
    header, _, homes = loaded()
    again = home_rates(next(iter(HOMES)), 2)
    assert np.allclose(again, homes[0, :, :2]) or header["made_with"] != made_with()


def test_each_rival_shows_its_own_number():
    _, _, homes = loaded()
    for (_, power, fdr), found in zip(HOMES.values(), homes):
        assert abs(found[1].mean() - power) < .08
        assert np.isnan(fdr) or abs(found[0].mean() - fdr) < .04


def test_exact_methods_keep_their_rate_in_the_file_and_screening_does_not():
    "Flights are left out: their law is not the one that was told"
    _, rates, _ = loaded()
    where = {word: j for j, word in enumerate(RIVALS)}
    known = [i for i, cell in enumerate(CELLS) if cell.table != "flights"]
    for word in ("products", "mirror peeling", "mirror peeling, repaired"):
        for i in known:
            fdp = rates[i, where[word], 0]
            assert_rate_at_most(fdp[np.isfinite(fdp)], .2)
        assert np.nanmean(rates[known, where[word], 0]) < .2
    related = [i for i, cell in enumerate(CELLS) if cell.table == "rho .5" and cell.n >= 8_000]
    assert rates[related, where["X'y + BH"], 0].mean() > .5
