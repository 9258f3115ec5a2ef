"Method I: scales by their definition, a Gram matrix that is swapped into itself, and its repair."

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.testing import neighbour_search, refusal
from dp_knockoff.data.models import ar1
from dp_knockoff.evidence.simulation import simulated_moments
from dp_knockoff.filters.methods import ask, knockoff_filter
from dp_knockoff.knockoffs.fixed_x import gram, knockoffs_of
from dp_knockoff.knockoffs.statistics import Statistic, swap
from dp_knockoff.paper.one_and_two import FLOOR, MethodOne, noisy_pair_gram, repair
from dp_knockoff.paper.sensitivity import (
    BOUNDS,
    facts,
    facts_of_gram,
    lam_min_shift,
    product_noise_shift,
    product_signal_shift,
    unit_gram_shift,
    zeta,
)
from dp_knockoff.privacy.mechanisms import (
    Budget,
    analytic_gaussian_scale,
    gaussian_divergence,
    laplace_divergence,
)
from dp_knockoff.privacy.samplers import NumpySampler
from watched import Recorder, Silent

BETA = np.where(np.arange(12) < 6, 4.5, 0.0)
BIG = simulated_moments(200_000, BETA, random_state=0)
BETA_NORM = float(np.linalg.norm(BETA))
PUBLIC = dict(epsilon=.5, delta=1e-3, row_bound=BIG.row_norm, sigma=1.0, beta_norm=BETA_NORM)


@pytest.mark.parametrize("bounds", BOUNDS)
def test_method_one_finds_signals(bounds):
    delta = .5 if bounds == "paper" else 1e-3
    m = simulated_moments(10**7, BETA, random_state=0)
    public = PUBLIC | dict(delta=delta, row_bound=m.row_norm)
    chosen = ask("one", m, **public, bounds=bounds, simulation=True, random_state=0)
    assert set(range(6)) <= set(np.flatnonzero(chosen.support)) and (chosen.signs[:6] == 1).all()


# ---------------------------------------------------------------- scales

def test_the_papers_budget_split():
    "The paper: epsilon .1 for the products and .05 for each part of the Gram matrix; delta in thirds"
    m = simulated_moments(10**5, np.zeros(50), random_state=0)
    delta = 2 * 50 / 10**5
    f = facts(m, m.row_norm)
    public = dict(epsilon=.2, delta=delta, row_bound=m.row_norm, sigma=1.0, beta_norm=2.0)
    method = MethodOne(**public, bounds="paper")
    scale = method.scales(f, 1.0, 2.0)
    classical = np.sqrt(2 * np.log(1.25 / (delta / 3)))
    assert np.isclose(scale["lam_min"], f.eta2 * (1 + f.lam_min) / .05)
    assert np.isclose(scale["Gram matrix"], classical / .05 * f.eta2 * (np.sqrt(2) + f.frob))
    tail = zeta(50, 1.0, delta / 3, "paper")
    products = product_noise_shift(f, tail, "paper") + 2 * product_signal_shift(f, "paper")
    assert np.isclose(scale["products"], classical / .1 * products)


def test_shares_of_the_budget_go_where_they_should():
    m = simulated_moments(10**6, BETA, random_state=0)
    f = facts(m, m.row_norm)
    method = MethodOne(epsilon=.8, delta=.01, row_bound=m.row_norm, sigma=2.0, beta_norm=3.0, bounds="tight",
                       epsilon_split=(.2, .3, .5), delta_split=(.1, .6, .3))
    got = method.scales(f, 2.0, 3.0)
    assert np.isclose(got["lam_min"], lam_min_shift(f, "tight") / (.8 * .3))
    gram_scale = analytic_gaussian_scale(unit_gram_shift(f, "tight"), Budget(.8 * .5, .01 * .1))
    assert np.isclose(got["Gram matrix"], gram_scale)
    products = product_noise_shift(f, zeta(12, 2.0, .003), "tight") + 3 * product_signal_shift(f, "tight")
    assert np.isclose(got["products"], analytic_gaussian_scale(products, Budget(.8 * .2, .006)))


def test_all_of_the_budget_is_used_and_no_more():
    method = MethodOne(**PUBLIC)
    assert np.isclose(sum(method.epsilon_split), 1) and np.isclose(sum(method.delta_split), 1)


def test_noise_is_drawn_once_for_each_purpose_and_with_its_scale():
    sampler = Recorder()
    chosen = ask("one", BIG, **PUBLIC, sampler=sampler, random_state=0)
    drawn = {purpose: (value.shape, scale) for purpose, value, scale in sampler.draws}
    shapes = {"Gram matrix": (66,), "lam_min": (), "products": (24,)}
    assert len(sampler.draws) == 3 and drawn == {name: (shapes[name], chosen.noise[name]) for name in shapes}


def test_what_is_drawn_is_noise_on_the_exact_values():
    sampler = Recorder()
    ask("one", BIG, **PUBLIC, sampler=sampler, random_state=4)
    k = knockoffs_of(BIG, intercept=False)
    drawn = {purpose: value for purpose, value, _ in sampler.draws}
    assert (drawn["Gram matrix"] == k.moments.Sigma[np.triu_indices(12, 1)]).all()
    assert drawn["lam_min"] == k.moments.lam_min and (drawn["products"] == k.products(4)).all()


# ---------------------------------------------------------------- without noise, and with it

@pytest.mark.parametrize("repaired", [True, False])
def test_without_noise_method_one_is_the_plain_filter(repaired):
    plain = knockoff_filter(BIG, s="lam_min", intercept=False, random_state=4)
    private = ask("one", BIG, **PUBLIC, sampler=Silent(), repaired=repaired, random_state=4)
    assert np.allclose(private.W, plain.W, rtol=1e-8) and (private.signs == plain.signs).all()


def test_an_own_statistic_in_method_one_sees_noisy_things_only():
    seen = []
    def own(A, b):
        seen.append((A.copy(), b.copy()))
        return Statistic()(A, b)
    ask("one", BIG, **PUBLIC, statistic=own, repaired=False, simulation=True, random_state=0)
    A, b = seen[-1]
    k = knockoffs_of(BIG, intercept=False)
    assert not np.isclose(A, k.G).all() and not np.isclose(b, k.products(0)).any()


@given(st.integers(2, 6), st.integers(0, 2**32 - 1), st.sets(st.integers(0, 5)))
def test_the_noisy_gram_matrix_is_exactly_invariant(p, seed, F):
    A = noisy_pair_gram(np.eye(p), 1.0, .7, .3, NumpySampler(seed))
    F = [j for j in F if j < p]
    assert (swap(A, np.zeros(2 * p), F)[0] == A).all() and (np.diag(A) == 1).all() and (A == A.T).all()
    fixed = repair(A)
    assert np.allclose(swap(fixed, np.zeros(2 * p), F)[0], fixed, atol=1e-10)
    assert np.linalg.eigvalsh(fixed)[0] > 0


def test_the_noise_of_the_gram_matrix_has_its_scales():
    Sigma = ar1(40, .5)
    A = noisy_pair_gram(Sigma, .3, .7, 0.0, NumpySampler(0))
    noise = (A[:40, :40] - Sigma)[np.triu_indices(40, 1)]
    assert abs(noise.std() / .7 - 1) < .1 and np.allclose(np.diag(A) - np.diag(A, 40)[0], .3)
    lams = [1 - noisy_pair_gram(np.eye(2), .3, 0.0, .2, NumpySampler(seed))[0, 2] for seed in range(1000)]
    assert abs(np.mean(np.abs(np.array(lams) - .3)) / .2 - 1) < .15 and abs(np.mean(lams) - .3) < .05


# ---------------------------------------------------------------- the repair

def test_repair_leaves_a_good_gram_matrix_alone():
    Sigma = ar1(5, .3)
    G = gram(Sigma, np.full(5, np.linalg.eigvalsh(Sigma)[0]))
    assert np.allclose(repair(G), G)


def test_repair_lifts_to_the_released_eigenvalue():
    A = noisy_pair_gram(np.eye(6), .8, 1.5, .01, NumpySampler(0))
    released = A[0, 0] - A[0, 6]
    assert .7 < released < .9 and np.isclose(np.linalg.eigvalsh(repair(A))[0], released)


def test_repair_changes_only_what_is_below_the_floor():
    A = noisy_pair_gram(np.eye(6), .8, 1.5, .01, NumpySampler(0))
    lam, V = np.linalg.eigh(A)
    fixed = V.T @ repair(A) @ V
    assert (lam < .7).any() and np.allclose(fixed, np.diag(np.maximum(lam, A[0, 0] - A[0, 6])))


def test_a_released_eigenvalue_below_zero_gets_the_floor():
    A = noisy_pair_gram(np.eye(6), -5.0, 1.5, 0.0, NumpySampler(0))
    assert np.isclose(np.linalg.eigvalsh(repair(A))[0], FLOOR)


def test_a_release_is_repaired_or_left_as_it_was_drawn():
    def matrix(repaired):
        method = MethodOne(**PUBLIC | dict(epsilon=.01), repaired=repaired)
        return method.release(BIG, simulation=True, random_state=0).A
    fixed, raw = matrix(True), matrix(False)
    assert np.linalg.eigvalsh(raw)[0] < 0 and (np.diag(raw) == 1).all() and np.allclose(fixed, repair(raw))


# ---------------------------------------------------------------- refusals

@pytest.mark.parametrize("bad", [dict(repaired="no"), dict(repaired=1), dict(epsilon_split=(.5, .5)),
                                 dict(epsilon_split=(.5, .5, .5)), dict(delta_split=(.5, .5)),
                                 dict(bounds="coupled")], ids=str)
def test_method_one_refuses_without_data(bad):
    assert refusal(MethodOne, **PUBLIC, **bad).startswith(next(iter(bad)))


def test_a_lasso_needs_a_repaired_matrix():
    for statistic in (Statistic("lasso", "lcd", 1.0), Statistic("path")):
        assert "pass repaired=True" in refusal(ask, "one", BIG, **PUBLIC, repaired=False, statistic=statistic)
        assert len(ask("one", BIG, **PUBLIC, statistic=statistic, simulation=True, random_state=0).W) == 12


# ---------------------------------------------------------------- attacks on the scales

@pytest.mark.parametrize("name", ["lam_min", "Gram matrix"])
def test_a_share_of_the_gram_matrix_is_kept_and_used_up(name):
    "On the worst neighbours that a search finds: allowed with the scale of the method, not with .98 of it"
    def moved(S1, S2):
        one, two = (S / np.sqrt(np.outer(np.diag(S), np.diag(S))) for S in (S1, S2))
        if name == "lam_min": return abs(np.linalg.eigvalsh(one)[0] - np.linalg.eigvalsh(two)[0])
        return np.linalg.norm((one - two)[np.triu_indices(len(S1), 1)])
    shift, divergence, allowed = {"lam_min": (lam_min_shift, laplace_divergence, 0.0),
                                  "Gram matrix": (unit_gram_shift, gaussian_divergence, .02)}[name]
    def ratio(S1, S2): return moved(S1, S2) / shift(facts_of_gram(S1, 1000), "tight")
    _, S0, x1, x2 = neighbour_search(ratio, np.random.default_rng(3), starts=400, climbs=3, steps=400)
    S1, S2 = S0 + np.outer(x1, x1), S0 + np.outer(x2, x2)
    method = MethodOne(epsilon=.8, delta=.06, row_bound=1.0, sigma=1.0, beta_norm=1.0, bounds="tight")
    scale = method.scales(facts_of_gram(S1, 1000), 1.0, 1.0)[name]
    spent = [divergence(.2, moved(S1, S2) / (scale * less)) for less in (1, .98)]
    assert spent[0] <= allowed < spent[1]
