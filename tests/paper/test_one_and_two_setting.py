"The paper's setting: plug-ins, splits, what Methods I and II refuse, and what their releases say."
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from dp_knockoff.core.testing import refusal
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.evidence.simulation import simulated_moments
from dp_knockoff.filters.methods import ask
from dp_knockoff.knockoffs.fixed_x import knockoffs_of
from dp_knockoff.knockoffs.statistics import swap
from dp_knockoff.paper.one_and_two import (
    MethodOne,
    MethodTwo,
    PaperRelease,
    check_split,
    gaussian_scale,
    plug_ins,
)
from dp_knockoff.privacy.mechanisms import Budget, analytic_gaussian_scale, classical_gaussian_scale
from dp_knockoff.privacy.samplers import NumpySampler
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import KnockoffPlus
from watched import Trusted, Unused

BETA = np.where(np.arange(12) < 6, 4.5, 0.0)
BIG = simulated_moments(200_000, BETA, random_state=0)
CONSTANTS = dict(sigma=1.0, beta_norm=float(np.linalg.norm(BETA)))
PUBLIC = dict(epsilon=.5, delta=1e-3, row_bound=BIG.row_norm, **CONSTANTS)


# ---------------------------------------------------------------- plug-ins

def test_plug_ins_are_invariant_and_consistent():
    X, y, beta = linear_model(3000, 5, k=2, sigma=2.0, amplitude=1.0, random_state=0)
    k = knockoffs_of(Moments.from_data(X, y), intercept=False)
    c = k.products(0)
    sigma, norm = plug_ins(k, c)
    assert abs(sigma - 2) < .1 and abs(norm - np.linalg.norm(beta)) < .2
    assert np.allclose(plug_ins(k, swap(k.G, c, [0, 3])[1]), (sigma, norm))


def test_plug_ins_are_in_the_units_of_the_columns():
    X, y, beta = linear_model(3000, 5, k=2, sigma=2.0, amplitude=1.0, random_state=0)
    units = np.array([1e3, 1, 1e-3, 10, 1])
    k = knockoffs_of(Moments.from_data(X * units, y), intercept=False)
    assert np.isclose(plug_ins(k, k.products(0))[1], np.linalg.norm(beta / units), rtol=.3)


def test_plug_ins_have_the_right_degrees_of_freedom():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 3))
    def estimate():
        k = knockoffs_of(Moments.from_data(X, rng.standard_normal(9)), intercept=False)
        return plug_ins(k, k.products(rng))[0]**2
    assert abs(np.mean([estimate() for _ in range(4000)]) - 1) < .08


@pytest.mark.parametrize("run", [partial(ask, "one"), partial(ask, "two")])
def test_estimates_take_the_place_of_constants(run):
    "The scale with an estimate is the scale with that number, and only what is asked for is estimated"
    def scales(**constants): return run(BIG, **{**PUBLIC, **constants}, simulation=True, random_state=0).noise
    k = knockoffs_of(BIG, intercept=False)
    sigma, norm = (float(x) for x in plug_ins(k, k.products(0)))
    assert scales(sigma="estimate") == scales(sigma=sigma) != scales()
    assert scales(beta_norm="estimate") == scales(beta_norm=norm) != scales()
    assert scales(sigma="estimate", beta_norm="estimate") == scales(sigma=sigma, beta_norm=norm)


def test_what_was_estimated_is_said():
    def words(**constants):
        return str(ask("two", BIG, **{**PUBLIC, **constants}, sampler=Trusted()).guarantee)
    assert "without noise" not in words()
    alone = words(sigma="estimate")
    assert "sigma came from the data without noise, which no privacy statement covers" in alone
    assert "sigma and |beta| came from" in words(sigma="estimate", beta_norm="estimate")


# ---------------------------------------------------------------- scales and splits

def test_printed_bounds_get_the_printed_calibration():
    budget = Budget(.3, 1e-4)
    assert gaussian_scale(2.0, budget, "paper") == classical_gaussian_scale(2.0, budget)
    for bounds in ("corrected", "tight", "coupled"):
        assert gaussian_scale(2.0, budget, bounds) == analytic_gaussian_scale(2.0, budget)
    for bad in (0.0, -1.0, np.nan, np.inf, 1e200):
        assert "with which no noise can be scaled" in refusal(gaussian_scale, bad, budget, "tight")


@pytest.mark.parametrize("split", [(.5, .5), [.2, .3], np.array([.4, .6]), (1/3, 2/3)], ids=str)
def test_splits_are_shares(split): assert check_split("split", split, 2) == tuple(split)


NO_SPLITS = [(.5,), (.5, .6), (0, .5), (-.1, .5), .5, "ab", (.5, "a"), (.5, np.nan), ()]


@pytest.mark.parametrize("split", NO_SPLITS, ids=str)
def test_what_is_no_split(split):
    sentence = refusal(check_split, "split", split, 2)
    assert "is not 2 positive shares with sum at most 1: e.g. (0.5, 0.5)" in sentence


# ---------------------------------------------------------------- refusals

BAD = [dict(epsilon=-1), dict(epsilon=None), dict(delta=0), dict(delta=1), dict(delta=None), dict(sigma=-1),
       dict(sigma=np.nan), dict(sigma=0), dict(sigma=1e160), dict(sigma="guess"), dict(beta_norm=-1),
       dict(beta_norm="x"), dict(beta_norm=1e308), dict(beta_norm=None), dict(bounds="loose"),
       dict(delta_split=(2,)), dict(row_bound=0), dict(row_bound=None), dict(epsilon=1e30),
       dict(delta=1e-320)]


@pytest.mark.parametrize("bad", BAD, ids=str)
@pytest.mark.parametrize("method", [MethodOne, MethodTwo])
def test_bad_constants_are_refused_without_data(method, bad):
    sentence = refusal(method, **{**PUBLIC, **bad})
    assert "\n" not in sentence and next(iter(bad)).split("_split")[0] in sentence


@pytest.mark.parametrize("bad, words", [
    (dict(sigma=0), "sigma=0"), (dict(sigma=1e160), "sigma"), (dict(beta_norm=1e308), "beta_norm"),
    (dict(sampler=NumpySampler), "not a sampler"), (dict(epsilon=1e30), "double precision"),
    (dict(delta=1e-320), "double precision"),
])
def test_extreme_constants_get_a_sentence(bad, words):
    for word in ("one", "two"): assert words in refusal(ask, word, BIG, **{**PUBLIC, **bad})


X, Y, _ = linear_model(2000, 4, k=2, random_state=0)
ROWS = dict(data=X, y=Y, epsilon=.5, delta=1e-3, row_bound=float(np.linalg.norm(X, axis=1).max()), sigma=1.0,
            beta_norm=9.0)
REFUSED = [dict(epsilon=-1), dict(delta=0), dict(delta=1), dict(row_bound=1.0), dict(row_bound=60.0),
           dict(sigma=-1), dict(beta_norm=-1), dict(fdr=0), dict(offset=3), dict(bounds="loose"),
           dict(bounds="paper"), dict(delta_split=(2,)), dict(sigma=np.nan), dict(beta_norm="x"),
           dict(data=X[:7], y=Y[:7]), dict(data=X[:8], y=Y[:8], sigma="estimate", row_bound=3.0),
           dict(data=np.c_[X[:, :3], X[:, 0]]), dict(y=X @ [1, 2, 3, 4]),
           dict(y=np.where(Y == Y[9], np.nan, Y)), dict(random_state=-1)]


@pytest.mark.parametrize("bad", REFUSED, ids=lambda bad: ", ".join(f"{k}={v!s:.9}" for k, v in bad.items()))
@pytest.mark.parametrize("run", [partial(ask, "one"), partial(ask, "two")])
def test_nothing_is_drawn_before_all_checks_pass(run, bad):
    "Neither noise nor knockoffs"
    rng = np.random.default_rng(0)
    before = rng.bit_generator.state
    assert "\n" not in refusal(run, **{**ROWS, "sampler": Unused(), "random_state": rng, **bad})
    assert rng.bit_generator.state == before


@pytest.mark.parametrize("run", [partial(ask, "one"), partial(ask, "two")])
def test_what_passes_all_checks_is_drawn(run):
    with pytest.raises(AssertionError, match="drawn"): run(**ROWS, sampler=Unused(), random_state=0)


def test_estimates_need_a_residual():
    X = np.vstack([np.eye(4), np.eye(4)[::-1], -np.eye(4)])
    public = {**PUBLIC, "row_bound": 1.0, "sampler": Unused()}
    for name in ("sigma", "beta_norm"):
        sentence = refusal(ask, "two", X[:8], Y[:8], **{**public, name: "estimate"})
        assert "n=8 rows leave none beside 2p=8 columns" in sentence
    assert "leave none" not in refusal(ask, "two", X[:9], Y[:9], **{**public, "sigma": "estimate"})


# ---------------------------------------------------------------- releases

def test_results_tell_what_was_done():
    for run in (partial(ask, "one"), partial(ask, "two")):
        chosen = run(BIG, **PUBLIC, sampler=Trusted())
        text = repr(chosen)
        assert "not differential privacy for every pair" in text and "counts as private" in text
        assert "Spent (epsilon=0.5, delta=0.001)" in text
        assert chosen.budget == Budget(.5, 1e-3) and all(v > 0 for v in chosen.noise.values())
        for name, scale in chosen.noise.items(): assert f"{name} {scale:.4g}" in text
    assert "OpenDP" in repr(ask("two", BIG, **PUBLIC))


def test_printed_bounds_are_proved_and_keep_their_caveats():
    "The printed total (10) is valid, Theorem 41.9: what is left is the scale that depends on the data"
    m = simulated_moments(10**6, BETA, random_state=0)
    paper = PUBLIC | dict(delta=.5, row_bound=m.row_norm, bounds="paper")
    def words(run, **options): return str(run(m, **paper, **options, sampler=Trusted()).guarantee)
    for run in (partial(ask, "one"), partial(ask, "two")):
        assert "not proved" not in words(run) and "computed from this dataset" in words(run)
    assert "modified FDR" in words(partial(ask, "two"), offset=0)
    assert "modified" not in words(partial(ask, "two"))


@pytest.mark.parametrize("method, run", [(MethodOne, partial(ask, "one")), (MethodTwo, partial(ask, "two"))])
def test_a_release_is_what_the_filter_selects_from(method, run):
    release = method(**PUBLIC).release(BIG, simulation=True, random_state=3)
    chosen = run(BIG, **PUBLIC, fdr=.4, offset=0, simulation=True, random_state=3)
    assert isinstance(release, PaperRelease) and release.method == method.word and release.n == 200_000
    again = select(release, fdr=.4, rule=KnockoffPlus(offset=0))
    assert (again.W == chosen.W).all() and release.noise == chosen.noise
    assert release.estimate() is None and release.sampler == NumpySampler.name
    assert "cannot be chosen" in refusal(select, release, rule=KnockoffPlus(s="mvr"))
    assert "needs estimates" in refusal(select, release, rule="bh")


def test_seeds_reproduce():
    for run in (partial(ask, "one"), partial(ask, "two")):
        a, b, c = (run(BIG, **PUBLIC, simulation=True, random_state=seed).W for seed in (1, 1, 2))
        assert (a == b).all() and not np.isclose(a, c).any()


def test_the_users_constants_are_used():
    def noise(**kw): return ask("two", BIG, **{**PUBLIC, **kw}, simulation=True).noise["coefficients"]
    assert noise(sigma=2.0) > 1.3 * noise() and noise(beta_norm=1000.0) > noise()
    for bounds in ("coupled", "tight"): assert noise(bounds=bounds, beta_max=.1) < noise(bounds=bounds)
    assert noise(ridge_penalty=.5) != noise() and noise(row_bound=2 * BIG.row_norm) > noise()


def test_what_a_pair_tells_and_what_it_does_not():
    options = dict(PUBLIC, simulation=True, random_state=0)
    one, two = (run(BIG, **options).release for run in (partial(ask, "one"), partial(ask, "two")))
    assert len(one.unknown) == 1 and "whether columns are collinear" in two.unknown and two.collinear() == []
    assert one.findings() == two.findings() == [] and one.collinear() == []
    assert one.noise_share() is None
    noisy = replace(one, noise={**one.noise, "Gram matrix": .2})
    finding, = noisy.findings()
    assert finding.subject == "Gram matrix" and "reach 1.4." in finding.found
    A = one.A.copy()
    A[0, 1] = A[1, 0] = -.99
    (a, b, r), = replace(one, A=A, noise={**one.noise, "Gram matrix": .001}).collinear()
    assert (a, b) == ("x0", "x1") and -1 < r < -.95


@pytest.mark.parametrize("run", [partial(ask, "one"), partial(ask, "two")])
def test_too_much_noise_is_diagnosed(run):
    found = run(BIG, **{**PUBLIC, "epsilon": 1e-3}, simulation=True, random_state=0)
    assert not len(found) and found.diagnosis[0].subject in ("Gram matrix", "signal and noise")
    assert "rows" in found.explain()
