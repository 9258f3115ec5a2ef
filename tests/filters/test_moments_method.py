"The moments filter: rounds that spend the budget once, everything else for free, nothing drawn on bad input."
import re
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from dp_knockoff.core.errors import InputError, stream
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.clip import INTERCEPT, Clip
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.estimate import BIAS
from dp_knockoff.filters.methods import ask
from dp_knockoff.filters.moments_method import (
    EDGES,
    ROUNDS,
    MomentsMethod,
    Tails,
    check_bound,
    choose_bound,
    release_rounds,
)
from dp_knockoff.filters.private_moments import (
    BALANCE,
    CHECK,
    SEARCH,
    SIZES,
    UNITS,
    VARIANCES,
    WEIGHTS,
    Units,
    joint_sensitivity,
    moment_shares,
    on_directions,
)
from dp_knockoff.knockoffs.statistics import Statistic
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import KnockoffPlus
from watched import Echo, Recorder, Silent, Taped, Trusted, Unused, far_apart, unread

PUBLIC = dict(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=5.0)
BUDGET = dict(epsilon=1.0, delta=1e-3)
LARGE = dict(epsilon=20.0, delta=1e-2)
X, Y, BETA = linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


# ---------------------------------------------------------------- one release

def test_same_release_from_data_chunks_source_and_moments():
    seeded = dict(rounds=1, rule="knockoffs", simulation=True, random_state=3)
    one = ask("moments", X, Y, **PUBLIC, **seeded)
    def chunks(): yield from ((X[a:a + 700], Y[a:a + 700]) for a in range(0, 3000, 700))
    moments = Moments.from_data(X, Y, clip=Clip(2.0, 5.0))
    others = [ask("moments", chunks, **PUBLIC, **seeded),
              ask("moments", open_source(X, Y), **PUBLIC, **seeded),
              ask("moments", moments, **BUDGET, **seeded), select(one.release, rule="knockoffs"),
              ask("moments", moments, **BUDGET, **seeded | dict(rounds=None))]
    for other in others: assert (one.W == other.W).all() and one.selected == other.selected
    assert ask("moments", X, Y, **PUBLIC, **seeded | dict(random_state=4)).W.tolist() != one.W.tolist()
    assert one.method == "moments" and one.budget == Budget(1.0, 1e-3)


def test_several_rounds_are_the_same_from_data_chunks_and_a_source():
    "To the bit: every round's sums are whole numbers, whatever the chunks"
    def chunks(): yield from ((X[a:a + 700], Y[a:a + 700]) for a in range(0, 3000, 700))
    def released(*data): return MomentsMethod(**PUBLIC).release(*data, simulation=True, random_state=3)
    one = released(X, Y)
    for other in (released(chunks), released(open_source(X, Y)), released(np.asfortranarray(X), Y)):
        assert same_fields(one, other)
    assert not same_fields(one, MomentsMethod(**PUBLIC).release(X, Y, simulation=True, random_state=4))


def same_fields(one, two):
    "Are all fields of two releases the same but their ids?"
    names = [field.name for field in fields(one) if field.name != "ids"]
    return all(np.array_equal(getattr(one, name), getattr(two, name)) for name in names)


def test_two_runs_without_a_seed_differ():
    one, two = (ask("moments", X, Y, **PUBLIC, simulation=True) for _ in range(2))
    assert not np.array_equal(one.W, two.W)


def test_a_sampler_draws_and_the_release_decides_the_knockoffs():
    options = dict(PUBLIC, rule="knockoffs", statistic=Statistic())
    def run(seed): return ask("moments", X, Y, **options, sampler=Recorder(seed))
    a, b, c = run(0), run(0), run(1)
    assert (a.release.gram == b.release.gram).all() and (a.W == b.W).all()
    assert (a.release.gram != c.release.gram).all() and a.release.seed != c.release.seed


def test_intercept_is_fitted_and_never_tested():
    X, y, _ = linear_model(40_000, p=4, k=2, amplitude=2.0, random_state=1)
    public = dict(**LARGE, row_bound=2.0, response_bound=10.0, fdr=.5, simulation=True, random_state=0)
    found = ask("moments", X, y + 3, **public)
    assert found.names == ("x0", "x1", "x2", "x3") and INTERCEPT not in found.names and len(found.W) == 4
    *_, last = found.release.estimates()
    assert last.name == INTERCEPT and abs(last.estimate - 3) < 6 * last.se and last.se < .1
    assert len(ask("moments", X, y + 3, **public, intercept=False).estimate.beta) == 4


def test_every_statistic_and_every_s():
    method = MomentsMethod(**LARGE, row_bound=3.0, response_bound=6.0)
    r = method.release(X, Y, simulation=True, random_state=0)
    smooth = [Statistic(), Statistic("ridge", "lcd", .1)]
    sparse = [Statistic("lasso", "csm", 1.0), Statistic("path")]
    for s in ("lam_min", "mvr", "equi", "sdp"):
        nearly_singular = s in ("equi", "sdp")  # not for least squares
        for statistic in sparse if nearly_singular else smooth + sparse:
            W = select(r, rule=KnockoffPlus(statistic, s)).W
            assert W[BETA != 0].min() > np.abs(W[BETA == 0]).max()


def test_benjamini_hochberg_on_the_same_release():
    found, own = (ask("moments", X, Y, **PUBLIC | LARGE, rule=rule, fdr=.1, simulation=True, random_state=0)
                  for rule in ("bh", None))
    assert (own.W == found.W).all() and own.rule.name == "bh" and own.selected == found.selected
    e = found.estimate
    assert np.allclose(found.W, np.abs(e.beta / np.sqrt(np.diag(e.V)))[:6]) and found.rule.name == "bh"
    assert set(np.flatnonzero(BETA)) <= set(np.flatnonzero(found.support))


@pytest.mark.filterwarnings("ignore:delta=")
def test_a_public_sigma_is_used():
    one, two = (ask("moments", X, Y, **PUBLIC, sigma=sigma, sampler=Trusted()) for sigma in (None, 30.0))
    assert two.estimate.sigma == 30 and np.trace(two.estimate.V) > 2 * np.trace(one.estimate.V)
    assert (one.release.gram == two.release.gram).all() and "sigma" in str(two.guarantee)


def test_selection_holds_no_rows_and_no_exact_moments():
    "Everything in a selection is noisy or public"
    m = Moments.from_data(X, Y, clip=Clip(2.0, 5.0))
    r = ask("moments", X, Y, **PUBLIC, simulation=True, random_state=0).release
    assert not np.isclose(r.gram, m.XtX, rtol=1e-6).any()
    assert not np.isclose(r.products, m.Xty, rtol=1e-6).any()
    assert r.squares[0] != m.yty and r.clamped[0] != m.cut[1] and not hasattr(r, "row_norm")
    assert r.weights != m.weights / 2**18 and (r.clamped % 1 != 0).all()


ALL_PRIVATE = dict.fromkeys(("row_bound", "response_bound", "response_center"), "private")


@pytest.mark.parametrize("options", [dict(rounds=1), dict(), ALL_PRIVATE], ids=str)
def test_a_release_is_a_function_of_what_the_sampler_returned(options):
    "Other rows, the same draws: every field is the same, so nothing but noisy numbers tells of the data"
    method = MomentsMethod(**{**PUBLIC, **options})
    tape = Taped()
    one = method.release(X, Y, sampler=tape)
    rng = np.random.default_rng(0)
    wild = 100 * rng.standard_normal((3000, 6)) + 7, rng.standard_cauchy(3000)
    for other in (wild, (np.zeros((3000, 6)), np.ones(3000))):
        echo = Echo(tape.outputs)
        two = method.release(*other, sampler=echo)
        assert same_fields(one, two) and one.seed == two.seed and len(echo.draws) == len(tape.draws)
        given = [[value for _, value, _ in run.draws] for run in (tape, echo)]
        assert not any(np.array_equal(a, b) for a, b in zip(*given) if a.ndim)


def test_private_bounds_are_looked_for_where_they_are_asked_for():
    for which in (["row_bound"], ["response_bound"], ["row_bound", "response_bound"]):
        sampler = Recorder()
        bounds = dict.fromkeys(which, "private")
        r = MomentsMethod(**{**PUBLIC, **LARGE, **bounds}).release(X, Y, sampler=sampler)
        sought = {purpose.split(",")[0] for purpose, *_ in sampler.draws if "probe" in purpose}
        assert sought == {name.replace("_", " ") for name in which}
        assert (r.clip.row_bound == 2.0) == ("row_bound" not in which)
        assert (r.clip.response_bound == 5.0) == ("response_bound" not in which)


def test_row_bounds_are_for_rows_of_x_and_the_noise_covers_the_ones():
    "With an intercept the noise is that of a design whose rows have norm sqrt(B^2 + 1)"
    with_ones = MomentsMethod(**PUBLIC).release(X, Y, simulation=True, random_state=0)
    public = PUBLIC | dict(row_bound=float(np.sqrt(5)), intercept=False)
    without = MomentsMethod(**public).release(X, Y, simulation=True, random_state=0)
    def scales(r): return r.gram_sd, r.product_sds[0] / r.bounds[0], r.square_sds[0] / r.bounds[0]**2
    assert np.allclose(scales(with_ones), scales(without))


def test_own_statistics_are_probed_at_their_width():
    def fixed(A, b):
        assert b.shape == (12,)
        return np.abs(b[:6]) - np.abs(b[6:])
    found = ask("moments", X, Y, **PUBLIC, rule="knockoffs", statistic=fixed, simulation=True,
                           random_state=0)
    assert np.isfinite(found.W).all()


def test_without_a_word_a_release_is_drawn_by_opendp():
    found = ask("moments", X[:, :3], Y, **{**PUBLIC, "delta": 1e-4}, rounds=2)
    assert np.isfinite(found.W).all() and "OpenDP" in " ".join(found.notes) and not found.release.simulated
    assert found.guarantee.lines()[0].startswith("Privacy: (epsilon=1, delta=0.0001)-differential privacy")


# ---------------------------------------------------------------- the budget, draw by draw

MU2 = analytic_ratio(Budget(1.0, 1e-3))**2


def share_of(purpose, scale, r, balance):
    "What a draw of a release spends: its squared sensitivity in steps over its variance, over mu^2"
    if purpose == "moments": far = Units(r.clip, balance).sensitivity * 2**36 / np.sqrt(2)
    elif purpose.startswith("residuals"): far = 2.0 * 2**36  # of products alone
    elif purpose == "weights": far = 2.0**18
    elif purpose == "units": far = 2.0**18 * np.sqrt(2 * len(r.clip.ranges))
    elif purpose.startswith("sizes"): far = 2.0**18 * np.sqrt(2)
    elif purpose == "variances":
        q = on_directions(r.design.Q) / 2.0**24
        far = np.sqrt(2 * np.linalg.eigvalsh(q.T @ q)[-1]) * 2**26
    else: far = 2.0**20  # a count
    return (far / np.ravel(scale)[0])**2 / MU2


@pytest.mark.parametrize("balance", [BALANCE, 1.0])
@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("search", [(), ("row_bound", "response_bound"), ("response_center",),
                                    ("row_bound", "response_center")], ids=str)
def test_the_budget_is_spent_exactly_once(rounds, search, balance):
    "The squares of sensitivity over noise add up to mu^2, draw by draw; each draw has a name of its own"
    sampler = Recorder()
    options = dict.fromkeys(search, "private")
    r = MomentsMethod(**PUBLIC | options, rounds=rounds, balance=balance).release(X, Y, sampler=sampler)
    shares = {purpose: share_of(purpose, scale, r, balance) for purpose, _, scale in sampler.draws}
    assert len(shares) == len(sampler.draws) and r.rounds == rounds
    main = 1 - SEARCH * bool(search)
    probes = {purpose: share for purpose, share in shares.items() if "probe" in purpose}
    counts = [share for purpose, share in shares.items() if purpose.startswith(("clamped", "sizes"))]
    assert len(counts) == rounds and np.isclose(sum(counts), (CHECK if rounds == 1 else SIZES) * main)
    assert np.allclose(counts, counts[0])
    assert np.isclose(shares["weights"], WEIGHTS * main)
    assert np.isclose(sum(shares.values()) - sum(probes.values()), main, rtol=1e-6)
    expected = np.array(moment_shares(rounds)) * main
    found = [shares["moments"], *(shares[f"residuals {k}"] for k in range(1, rounds))]
    assert np.allclose(found, expected) and ("variances" in shares) == (rounds > 1)
    if rounds > 1: assert np.isclose(shares["variances"], VARIANCES * main)
    each = {"row bound": 8, "response bound": 8, "centre": 13}  # probes at most
    for name, most in each.items():
        own = [share for purpose, share in probes.items() if purpose.startswith(name)]
        assert len(own) <= most and np.allclose(own, SEARCH / max(len(search), 1) / most)
    searched = sum(probes.values())  # a search may stop early
    assert searched <= SEARCH * (1 + 1e-9) and (searched > .8 * SEARCH) == bool(search)


RANGES = {"x0": (-60.0, 20.0), "x3": (-4.0, 4.0), "x5": (-4.0, 4.0)}


@pytest.mark.parametrize("k", [1, 3])
def test_units_of_columns_are_paid_for_by_all_other_draws(k):
    sampler, whole = Recorder(), (X.repeat(3, 0), Y.repeat(3))
    r = MomentsMethod(**PUBLIC, ranges=RANGES, rows_per_person=k).release(*whole, sampler=sampler)
    shares = {purpose: share_of(purpose, scale, r, BALANCE) * k**2 for purpose, _, scale in sampler.draws}
    assert sampler.draws[0][0] == "units" and np.isclose(shares.pop("units"), UNITS)
    assert np.isclose(sum(shares.values()), 1 - UNITS, rtol=1e-6)


def test_units_are_where_the_values_are_and_coefficients_are_in_those_of_the_data():
    ranges = RANGES | {"x1": (-40.0, 400.0)}
    r = MomentsMethod(**LARGE | dict(row_bound=2.0, response_bound=5.0), ranges=ranges).release(
        X, Y, simulation=True, random_state=0)
    assert r.clip.ends == ranges and set(r.clip.ranges) == set(ranges)
    assert all(r.clip.ranges[name][1] - r.clip.ranges[name][0] < 20 for name in ("x0", "x3"))
    e = r.estimates()
    ols = np.linalg.lstsq(np.column_stack([X, np.ones(len(Y))]), Y, rcond=None)[0]
    assert np.abs((e.estimate - ols) / e.se).max() < 4 and e.se[1] < .2


@pytest.mark.parametrize("options", [dict(rounds=1), dict(intercept=False), dict(ranges=None)], ids=str)
def test_one_round_no_intercept_and_no_ranges_leave_units_as_they_are(options):
    sampler, ranges = Recorder(), {"x0": (-4.0, 4.0)}
    r = MomentsMethod(**PUBLIC | dict(ranges=ranges) | options).release(X, Y, sampler=sampler)
    assert r.clip.ranges == (options.get("ranges", ranges) or {}) and not r.clip.limits
    assert "units" not in {purpose for purpose, *_ in sampler.draws}


def test_a_range_that_is_ten_times_too_wide_hides_nothing():
    "The null x1 follows the signal x0; without units it takes over its effect"
    rng, wide = stream(0, "wide"), {f"x{j}": (-4.0, 4.0) for j in range(4)} | {"x0": (-24.0, 56.0)}
    rows = rng.standard_normal((20_000, 4))
    rows[:, 1] = .7 * rows[:, 0] + np.sqrt(.51) * rows[:, 1]
    y = rows[:, 0] + rng.standard_normal(20_000)
    z = [MomentsMethod(epsilon=1.0, delta=1e-6, row_bound=.5, response_bound=4.0, ranges=wide).release(
        rows, y, simulation=True, random_state=seed).estimates().z[:2] for seed in range(6)]
    assert np.min(z, axis=0)[0] > 6 and np.mean(np.square(z), axis=0)[1] < 5


def test_a_private_row_bound_is_one_in_the_units_of_the_release():
    bounds = {wide: MomentsMethod(epsilon=8.0, delta=1e-6, row_bound="private", response_bound=4.0,
                                  ranges={name: (-wide, wide) for name in ("x0", "x1", "x2")}).release(
        X, Y, simulation=True, random_state=0).clip.row_bound for wide in (4.0, 128.0)}
    assert bounds[128.0] > .5 * bounds[4.0]  # in public units: about a thirtieth


def test_scales_and_sensitivities_are_those_of_the_units():
    "By hand, for products, squares, counts and weights"
    r = MomentsMethod(**PUBLIC, intercept=False, rounds=3).release(X, Y, simulation=True, random_state=0)
    shares, h = moment_shares(3), 1.4**-2
    first = joint_sensitivity(1, h) / np.sqrt(MU2 * shares[0])
    assert np.isclose(r.gram_sd, first * 4 / np.sqrt(2))
    assert np.isclose(r.product_sds[0], first * 1.4 * 2 * r.bounds[0])
    assert np.isclose(r.square_sds[0], first * r.bounds[0]**2 / np.sqrt(h + h**2 / 2))
    later = 2 / np.sqrt(MU2 * np.array(shares[1:]))
    assert np.allclose(r.product_sds[1:], later * 2 * r.bounds[1:])
    assert np.allclose(r.square_sds[1:], later * r.bounds[1:]**2 / np.sqrt((11 + 5 * np.sqrt(5)) / 8))
    assert np.isclose(r.clamped_sd, np.sqrt(2 * 3 * len(EDGES) / (SIZES * MU2)))
    assert np.isclose(r.weights_sd, 1 / np.sqrt(WEIGHTS * MU2))
    q = r.design.Q / np.linalg.norm(r.design.Q, axis=1, keepdims=True)
    longest = np.linalg.eigvalsh(q.T @ q)[-1]
    expected = np.sqrt(2 * longest / (VARIANCES * MU2)) * (2 * r.bounds[-1])**2
    assert np.isclose(r.variance_sd, expected, rtol=1e-6)


def test_a_larger_balance_is_for_the_gram_matrix():
    def scales(**options):
        r = MomentsMethod(**PUBLIC, **options).release(X, Y, simulation=True, random_state=0)
        return r.gram_sd, r.product_sds[0]
    assert scales() == scales(balance=1.4) != scales(balance=1.1)
    assert scales()[0] < scales(balance=1.1)[0] and scales()[1] > scales(balance=1.1)[1]


# ---------------------------------------------------------------- what the rounds see

@pytest.mark.parametrize("intercept", [True, False])
def test_rounds_see_clamped_residuals_of_whole_rows(intercept):
    "What is handed to the sampler, round by round: histogram, products, square, and variances in the last"
    sampler = Recorder()
    r = MomentsMethod(**PUBLIC, intercept=intercept).release(X, Y, sampler=sampler)
    given = {purpose: value for purpose, value, _ in sampler.draws}
    clip, usual = r.clip, np.sqrt(r.weights / 3000)
    design = np.column_stack([X, np.full(3000, clip.one)]) if intercept else X
    w = np.minimum(1, clip.design_bound / np.linalg.norm(design, axis=1))
    Z, last = design * w[:, None], clip.response_bound
    for k in range(ROUNDS):
        lengthened = (Y - design @ r.starts[k]) * np.maximum(1, w / usual)
        cut = np.minimum(w, usual) * np.clip(lengthened, -r.bounds[k] / usual, r.bounds[k] / usual)
        products = given["moments"][-len(Z[0]) - 1:] if k == 0 else given[f"residuals {k}"]
        step = r.bounds[k] / 2**18
        size = clip.row_step * step
        assert np.allclose(products[:-1] * size, Z.T @ cut, rtol=1e-3, atol=.1)
        assert np.isclose(products[-1] * step**2, cut @ cut, rtol=1e-4)
        edges = [*last / usual * EDGES, np.inf]
        sizes = [np.histogram(side * lengthened, edges)[0] for side in (1, -1)]
        assert np.abs(given[f"sizes {k}"] / 2**18 - sizes).max() <= 1
        assert abs(r.clamped[k] - (np.abs(lengthened) > r.bounds[k] / usual).sum()) < 6 * r.clamped_sd
        last = r.bounds[k]
    assert np.isclose(given["weights"] / 2**18, np.sum(w**2), rtol=1e-4)
    q = r.design.Q / np.linalg.norm(r.design.Q, axis=1, keepdims=True)
    unit = (clip.design_bound * r.bounds[-1])**2 / 2**26
    assert np.allclose(given["variances"] * unit, cut**2 @ (Z @ q.T)**2, rtol=1e-3)
    assert (np.abs(r.variances - given["variances"] * unit) < 6 * r.variance_sd).all()


PER_ROUND = "products", "squares", "starts", "bounds", "product_sds", "square_sds", "clamped", "excess"


def test_every_round_starts_where_the_rounds_before_say():
    r = MomentsMethod(**PUBLIC, rounds=4).release(X, Y, simulation=True, random_state=0)
    for k in (1, 2, 3):
        so_far = replace(r, **{name: getattr(r, name)[:k] for name in PER_ROUND}, variances=np.empty(0))
        assert np.allclose(r.starts[k], so_far.guess[0], rtol=1e-12)


@pytest.mark.parametrize("row_bound", [.5, 2.0, 9.0])
def test_the_two_releases_of_the_squared_ones_are_taken_by_precision(row_bound):
    "Never one in place of the other: with short rows the weights are the noisier of the two"
    r = MomentsMethod(**PUBLIC | dict(row_bound=row_bound)).release(X, Y, simulation=True, random_state=0)
    own, other = 1 / (2 * r.gram_sd**2), 1 / (r.one**2 * r.weights_sd)**2
    found = (own * r.gram[-1, -1] + other * r.one**2 * r.weights) / (own + other)
    assert np.isclose(r.design.gram[-1, -1], found) and r.gram[-1, -1] != r.one**2 * r.weights
    without = MomentsMethod(**PUBLIC, intercept=False).release(X, Y, simulation=True, random_state=0)
    assert (without.design.gram == without.gram).all()


# ---------------------------------------------------------------- the bound of a round

def tails_of(residuals, sd=0.0, base=None, seed=0):
    "The tails of residuals, from a histogram with this noise"
    edges = (base or 4 * np.std(residuals)) * EDGES
    counts = np.array([np.histogram(side * residuals, [*edges, np.inf])[0] for side in (1, -1)])
    return Tails(edges, counts + sd * stream(seed, "tails").standard_normal(counts.shape), sd, len(residuals))


SHAPES = {"normal": lambda rng, n: rng.standard_normal(n), "Laplace": lambda rng, n: rng.laplace(size=n),
          "exponential": lambda rng, n: rng.exponential(size=n) - 1,
          "lognormal": lambda rng, n: np.exp(1.2 * rng.standard_normal(n)) - np.exp(.72),
          "yes or no": lambda rng, n: (rng.random(n) < .02) - .02 + .01 * rng.standard_normal(n),
          "Student, 3": lambda rng, n: rng.standard_t(3, n)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("sd", [.1, 30.0])
def test_the_excess_is_not_far_below_what_clamping_removes(shape, sd):
    "In all of the sizes that a bound is chosen from: at least half, where it matters"
    r = SHAPES[shape](stream(0, shape), 100_000)
    tails = tails_of(r, sd)
    for bound in tails.spread * 1.5 * 2.0**np.arange(0, 4, .5):
        removed = max(np.maximum(r - bound, 0).sum(), np.maximum(-r - bound, 0).sum())
        assert tails.excess(bound) > .5 * removed - 4 * sd * bound
    assert tails.excess(100 * r.max()) < 1e-3 * len(r)


def test_the_spread_and_the_shares_are_those_of_the_residuals():
    r = stream(0, "spread").standard_normal(200_000)
    tails = tails_of(r)
    off = [tails.share(b) - np.mean(np.abs(r) > b) for b in (.5, 1, 2, 3)]
    assert .9 < tails.spread < 1.15 and np.abs(off).max() < .03


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "yes or no"])
def test_a_chosen_bound_removes_less_than_it_may(shape):
    "Against the residuals themselves: what is removed on either side, over its limit"
    for n, noise in ((20_000, 300.0), (100_000, 300.0), (100_000, 1.0)):
        r = SHAPES[shape](stream(1, shape), n)
        tails = tails_of(r, 20.0)
        bound, ratio = choose_bound(tails, 4.0, np.inf, 1.0, noise, "any")
        removed = max(np.maximum(r - bound, 0).sum(), np.maximum(-r - bound, 0).sum())
        if ratio > 1: assert shape == "lognormal" and bound == tails.edges[-1] # nothing on the grid will do
        else: assert removed <= 2 * BIAS * np.hypot(tails.spread * np.sqrt(n), noise * bound)


def test_a_bound_stops_at_what_is_possible_and_stays_where_nothing_is_seen():
    r = stream(0, "rare").standard_normal(5000)
    assert choose_bound(tails_of(r, 20.0), 4.0, 1.7, 1.0, .1, "any") == (1.7, 0.0)
    assert choose_bound(tails_of(r, 1e4), 4.0, np.inf, 1.0, 1.0, "any") == (4.0, 0.0)
    far = tails_of(r, 20.0, base=1e4)  # a bound that is absurdly high
    assert far.low and choose_bound(far, 1e4, np.inf, 1.0, 1.0, "any") == (far.edges[0], 0.0)
    low = tails_of(r, 20.0, base=1e-3) # and one that is absurdly low: the round is not used
    assert choose_bound(low, 1e-3, np.inf, 1.0, 1.0, "any")[1] > 1


@pytest.mark.parametrize("bound", [.02, .2, 300.0])
def test_an_absurd_response_bound_is_survived(bound):
    "A hundred times too low or too high"
    public = {**PUBLIC, **LARGE, "response_bound": bound}
    found = MomentsMethod(**public).select(X, Y, simulation=True, random_state=0)
    assert set(np.flatnonzero(BETA)) <= set(np.flatnonzero(found.support)) and found.release.kept[-1]
    if bound == .02: assert not found.release.kept[0] and any("rounds are not used" in n for n in found.notes)


@pytest.mark.parametrize("noise", ["symmetric", "independent"])
def test_a_stated_assumption_is_in_the_guarantee_and_clamps_more(noise):
    public = {**PUBLIC, **BUDGET}
    free, stated = (MomentsMethod(**public, **more) for more in ({}, dict(noise=noise)))
    said = f"noise is {noise}"
    assert said in str(stated.guarantee()) and said not in str(free.guarantee())
    a, b = (method.release(X, Y, simulation=True, random_state=0) for method in (free, stated))
    assert b.assumes == noise and (b.ratios == 0).all() and said in str(select(b).guarantee)
    assert b.clamped[-1] > a.clamped[-1] and b.product_sds[-1] < a.product_sds[-1]


def test_a_round_that_clamps_too_much_has_no_weight_and_if_all_do_nothing_is_selected():
    r = MomentsMethod(**{**PUBLIC, **LARGE}).release(X, Y, simulation=True, random_state=0)
    assert r.kept.all() and len(select(r)) >= 3
    some, none = replace(r, excess=np.array([2.0, .5, .5])), replace(r, excess=np.full(3, 1.5))
    assert some.estimate().shares[0] == 0 and np.isclose(some.estimate().shares.sum(), 1)
    found = select(none)
    assert not len(found) and "nothing is selected" in found.explain() and (np.array(found.W) < 1e-3).all()
    assert len(select(replace(none, assumes="symmetric"))) >= 3


def test_one_round_is_not_trusted_where_its_bound_evidently_clamps():
    public = {**PUBLIC, **LARGE, "rounds": 1}
    wide = MomentsMethod(**public).select(X, Y, simulation=True, random_state=0)
    low = {**public, "response_bound": .4}
    narrow = MomentsMethod(**low).select(X, Y, simulation=True, random_state=0)
    stated = MomentsMethod(**low, noise="symmetric").select(X, Y, simulation=True, random_state=0)
    assert len(wide) >= 3 and not len(narrow) and len(stated) >= 3
    assert "beyond the response bound" in narrow.explain()


def test_without_noise_any_number_of_rounds_finds_least_squares():
    "Bounded noise, which no bound clamps: exactly the fit of the rows in bounds, scaled or not"
    rng = np.random.default_rng(0)
    y = X @ BETA + rng.uniform(-1, 1, 3000)
    source = open_source(X, y)
    for B, rounds in ((100.0, 1), (100.0, 2), (2.0, 1), (2.0, 4), (100.0, 4)):
        clip = Clip(B, 20.0, intercept=False)
        r = release_rounds(source, clip, Budget(1.0, .1), 1e7, rounds, BALANCE, Silent())
        m = source(clip)
        e = r.estimate()
        off = e.beta - np.linalg.solve(m.XtX, m.Xty)
        assert np.abs(off).max() < 2e-4 if rounds == 1 else (np.abs(off) < BIAS * np.sqrt(np.diag(e.V))).all()
        assert np.isclose(e.shares.sum(), 1) and r.n == 3000 and np.isclose(r.weights, m.weights / 2**18)
        assert np.isclose(e.sigma, np.sqrt(1 / 3), rtol=.06)


def test_a_start_is_where_the_first_round_starts():
    "Public coefficients in a Clip: subtracted in the first round, and added to what is found"
    start = (.9, .8, 0.0, -.1, .7, .2, .003)
    clip = Clip(100.0, 20.0, start=start)
    method = MomentsMethod(**BUDGET)
    r = method.release(Moments.from_data(X, Y, clip=clip), sampler=Silent())
    assert r.starts.tolist() == [list(start)] and r.bounds.tolist() == [20.0] and r.clip == clip
    m = Moments.from_data(X, Y, clip=clip)
    assert np.allclose(r.products[0], m.Xty) and np.isclose(r.squares[0], m.yty)
    precise = release_rounds(open_source(X, Y), clip, Budget(1.0, .1), 1e7, 1, BALANCE, Silent())
    exact = np.linalg.solve(m.XtX, m.Xty)
    assert np.allclose(precise.estimate().beta, start + exact, atol=1e-3) and np.abs(exact).max() > .2
    two = release_rounds(open_source(X, Y), clip, Budget(1.0, .1), 1e7, 2, BALANCE, Silent())
    e = two.estimate()
    off = (e.beta - start - exact) / np.sqrt(np.diag(e.V))
    assert (two.starts[0] == start).all() and np.abs(off).max() < 2 * BIAS


def test_rounds_bring_the_noise_down_where_signals_explain_most():
    X, y, _ = linear_model(4000, p=6, k=3, amplitude=8.0, random_state=0)
    public = dict(epsilon=2.0, delta=1e-3, row_bound=2.0, response_bound=25.0)
    sds = []
    for rounds in (1, 4):
        release = MomentsMethod(**public, rounds=rounds).release(X, y, simulation=True, random_state=0)
        e = release.knowing(1.0).estimate()
        sds.append(np.sqrt(np.trace(e.V)))
    assert sds[1] < .4 * sds[0] and release.bounds[-1] < .3 * release.bounds[0]


def test_a_private_centre_is_found_and_used():
    method = MomentsMethod(**PUBLIC | LARGE, response_center="private")
    r = method.release(X, Y + 500, simulation=True, random_state=0)
    assert abs(r.clip.response_center - np.median(Y + 500)) < 6 and r.clip.response_bound == 5.0
    names, values = zip(*((row.name, row.estimate) for row in r.estimates()))
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(3000)]), Y + 500, rcond=None)[0]
    assert names[-1] == INTERCEPT and np.allclose(values, exact, atol=.3)


@pytest.mark.parametrize("rounds", [1, 4])
def test_a_bounded_response_that_no_bound_clamps_is_not_taken_for_clamped(rounds):
    "Zeros and ones, in the bounds that everybody would choose: coefficients are those of least squares"
    rng = np.random.default_rng(0)
    design = rng.standard_normal((20_000, 4))
    y = (rng.random(20_000) < .5 + .1 * design[:, 0] - .1 * design[:, 2]) * 1.0
    public = dict(epsilon=5.0, delta=1e-5, row_bound=2.0, response_bound=.5, response_center=.5)
    r = MomentsMethod(**public, rounds=rounds).release(design, y, simulation=True, random_state=0)
    assert r.clamped[0] < 3 * r.clamped_sd
    exact = np.linalg.lstsq(np.column_stack([design, np.ones(20_000)]), y, rcond=None)[0]
    rows = list(r.estimates())
    off = [abs(row.estimate - truth) / row.se for row, truth in zip(rows, exact)]
    assert max(off) < 3 and abs(rows[0].estimate / exact[0] - 1) < .2


def test_one_column_is_enough():
    for intercept in (True, False):
        for rounds in (1, 4):
            options = dict(PUBLIC, intercept=intercept, rounds=rounds, simulation=True, random_state=0)
            assert ask("moments", X[:, :1], X[:, 0] + .1 * Y, **options).selected == ("x0",)


# ---------------------------------------------------------------- refusals

def short(A, b): return b[:3]


BAD = [dict(epsilon=0), dict(epsilon=-1), dict(epsilon=None), dict(delta=0), dict(delta=1), dict(delta=None),
       dict(row_bound=None), dict(response_bound=None), dict(row_bound=-1), dict(row_bound="max"),
       dict(response_bound=np.inf), dict(fdr=0), dict(fdr=1.5), dict(offset=2), dict(rounds=0),
       dict(rounds=1.5), dict(balance=0), dict(sigma=0), dict(s="best"), dict(s=[.5] * 6),
       dict(statistic="lasso"), dict(statistic=short), dict(intercept="yes"), dict(ranges={"age": (0, 1)}),
       dict(ranges={"x0": (1, 0)}), dict(ranges=[1]), dict(response_center=np.nan), dict(rule="best"),
       dict(rule="bh", s="mvr"), dict(s="mvr"), dict(statistic=Statistic()), dict(rule="ebh", offset=0),
       dict(response_center="private", intercept=False), dict(rows_per_person=0), dict(sampler=3)]


def words(bad): return ", ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in bad.items())


@pytest.mark.parametrize("bad", BAD, ids=words)
def test_refused_before_anything_is_drawn_or_read(bad):
    source = unread([f"x{j}" for j in range(6)])
    sentence = refusal(ask, "moments", source, **{**PUBLIC, "sampler": Unused(), **bad})
    assert len(sentence) > 30 and "\n" not in sentence


@pytest.mark.parametrize("bad", [-1, 1.5, "a"])
def test_bad_seeds_are_refused_before_anything_is_drawn(bad):
    sentence = refusal(ask, "moments", unread("abc"), **PUBLIC, simulation=True, random_state=bad)
    assert "random_state" in sentence


@pytest.mark.parametrize("y_bad", [np.nan, np.inf])
def test_bad_rows_are_refused_before_anything_is_drawn(y_bad):
    y = np.where(np.arange(len(Y)) == 7, y_bad, Y)
    for options in (dict(), dict(rounds=1), dict(row_bound="private"), dict(response_center="private")):
        sentence = refusal(ask, "moments", X, y, **{**PUBLIC, **options}, sampler=Unused())
        assert "NaN or infinite values in column 'y'" in sentence and "7" not in sentence


METHOD = [dict(epsilon=0), dict(delta=None), dict(row_bound=-1), dict(row_bound="max"),
          dict(response_bound=0), dict(rounds=0), dict(balance=-1), dict(intercept=1),
          dict(ranges={"x": (1, 0)}), dict(response_center="a"), dict(response_center=1.0, intercept=False)]


@pytest.mark.parametrize("bad", METHOD, ids=str)
def test_the_method_refuses_without_data(bad):
    assert "\n" not in refusal(MomentsMethod, **{**PUBLIC, **bad})


def test_moments_that_were_collected_hold_their_own_bounds():
    collected = Moments.from_data(X, Y, clip=Clip(2.0, 5.0))
    def sentence(**more): return refusal(ask, "moments", collected, **BUDGET, **more, sampler=Unused())
    assert "without bounds" in refusal(ask, "moments", Moments.from_data(X, Y), **BUDGET, sampler=Unused())
    given = dict(row_bound=2.0, response_bound="private", ranges={}, response_center=1.0)
    for name, value in given.items(): assert f"{name} given along with Moments" in sentence(**{name: value})
    assert "row_bound and response_bound given along" in sentence(row_bound=2.0, response_bound=5.0)
    assert "intercept given along with Moments" in sentence(intercept=False)
    assert "rounds=2 needs 2 passes" in sentence(rounds=2)


def test_one_pass_is_not_enough_for_rounds_and_private_bounds():
    def once(**more): return refusal(ask, "moments", iter([(X, Y)]), **{**PUBLIC, **more}, sampler=Unused())
    assert once(rounds=2).startswith("rounds=2 needs several passes, and this source can be read only once")
    for name in ("row_bound", "response_bound", "response_center"):
        assert once(**{name: "private"}).startswith(f"a private {name} needs several passes")
    assert ask("moments", iter([(X, Y)]), **PUBLIC, simulation=True, random_state=0).release.rounds == 1


def test_rounds_are_three_where_rows_can_be_read_again():
    def of(source, **options): return MomentsMethod(**BUDGET, **options).rounds_of(source)
    rows, once = open_source(X, Y), open_source(iter([(X, Y)]))
    collected = open_source(Moments.from_data(X, Y, clip=Clip(2.0, 5.0)))
    assert of(rows) == ROUNDS == 3 and of(once) == of(collected) == 1
    assert [of(source, rounds=1) for source in (rows, once, collected)] == [1, 1, 1]
    assert of(rows, rounds=7) == 7
    assert MomentsMethod(**PUBLIC).release(X, Y, simulation=True).rounds == 3


def test_a_private_centre_needs_an_intercept():
    sentence = refusal(MomentsMethod, **PUBLIC, response_center="private", intercept=False)
    assert sentence.startswith("response_center='private' needs an intercept to take it up")


def test_a_reserved_name_is_refused():
    names = [INTERCEPT, *"abcde"]
    with pytest.raises(InputError, match="rename"): Moments.from_data(X, Y, names, clip=Clip(2.0, 5.0))
    assert "rename" in refusal(ask, "moments", unread(names), **PUBLIC, sampler=Unused())


def test_unknown_arguments_are_errors():
    with pytest.raises(TypeError, match="unexpected"): ask("moments", X, Y, **PUBLIC, epsilom=1)


def test_bounds_are_numbers_or_private():
    assert check_bound("row_bound", 2) == 2.0 and check_bound("row_bound", "private") == "private"
    missing = refusal(check_bound, "row_bound", None, "--row-bound")
    assert missing.startswith("--row-bound is missing: pass a public number that says how long a row of x")
    assert refusal(check_bound, "row_bound", -1).startswith("row_bound=-1 is not a finite number > 0")
    assert "two to three standard deviations" in refusal(check_bound, "response_bound", None)


# ---------------------------------------------------------------- any k rows together, exactly

ALLOWED = Fraction(analytic_ratio(Budget(1.0, 1e-3)))**2
WAYS = [dict(rounds=1), dict(), dict(row_bound="private", response_bound="private", rounds=1),
        dict(rounds=3, response_bound="private", intercept=False), dict(response_center="private", rounds=2),
        dict(ranges={f"x{j}": (-1e3, 4e3) for j in range(6)})]
WILD = [0.0, 1.0, -1e-300, 5e-324, 1e5, -1e150, 1e155, 1.7e308]


def replaced(rows, responses):
    "The data with its first rows replaced"
    k = len(responses)
    return np.vstack([rows, X[k:400]]), np.append(responses, Y[k:400])


def worst_rows(k, balance, intercept):
    "Two times k equal rows, as far apart as one round lets them be: one as it is, one scaled to nothing"
    c = min(1.0, balance**-2 / 2)
    if intercept: c = min(1.0, c * np.sqrt(5) / 2)  # the long row has no ones left
    one, two = np.zeros((2, 6))
    one[0], two[:2] = 2.0, (1e9 * c, 1e9 * np.sqrt(1 - c**2))
    return [(np.tile(row, (k, 1)), np.full(k, t)) for row, t in ((one, 5.0), (two, -1e30))]


def spent(method, one, two):
    def run(X, y, sampler): return method.release(X, y, sampler=sampler)
    return far_apart(run, replaced(*one), replaced(*two))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_round_spends_the_budget_on_the_worst_rows_and_never_more(k, intercept):
    "In whole numbers: the squared distance of the drawn values, over the squared deviations, against mu^2"
    method = MomentsMethod(**PUBLIC, intercept=intercept, rows_per_person=k, rounds=1)
    far = spent(method, *worst_rows(k, 1.4, intercept))
    assert .999 * ALLOWED < far <= ALLOWED


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("options", WAYS, ids=str)
def test_no_k_rows_are_farther_apart_than_the_budget_allows(k, options):
    "Random, wild and worst rows, through searches and rounds, each round after the same outputs"
    rng = np.random.default_rng(0)
    method = MomentsMethod(**{**PUBLIC, **options}, rows_per_person=k)
    def rows():
        if rng.random() < .5: return rng.choice(WILD, (k, 6)), rng.choice(WILD, k) * rng.choice([-1, 1], k)
        row = rng.standard_normal(6) * 10.0 ** rng.uniform(-3, 3)
        return np.tile(row, (k, 1)), np.full(k, rng.choice([-1e9, 1e9]))
    far = [spent(method, rows(), rows()) for _ in range(8)]
    far.append(spent(method, *worst_rows(k, 1.4, method.intercept)))
    assert max(far) <= ALLOWED and max(far) > .4 * ALLOWED


def test_more_rows_than_were_promised_are_farther_apart():
    method = MomentsMethod(**PUBLIC, intercept=False, rows_per_person=2, rounds=1)
    assert spent(method, *worst_rows(3, 1.4, False)) > 2 * ALLOWED


def test_the_promise_names_the_rows_that_are_protected():
    def promise(k): return str(MomentsMethod(**PUBLIC, rows_per_person=k).guarantee())
    assert "differ in one row." in promise(1) and "differ in any 3 rows (all rows of a person" in promise(3)
    one, three = (MomentsMethod(**PUBLIC, rows_per_person=k).release(X, Y, simulation=True) for k in (1, 3))
    for name in ("gram_sd", "clamped_sd", "weights_sd"):
        assert np.isclose(getattr(three, name), 3 * getattr(one, name), rtol=1e-12)
    for r, k in ((one, 1), (three, 3)):  # of later rounds, in their own bounds
        assert np.allclose(r.product_sds / r.bounds, k * one.product_sds / one.bounds)
        assert np.allclose(r.square_sds / r.bounds**2, k * one.square_sds / one.bounds**2)


def test_a_budget_that_no_lattice_is_fine_enough_for_is_refused_before_anything_is_drawn():
    sentence = refusal(ask, "moments", unread("abc"), **{**PUBLIC, "epsilon": 9e5}, simulation=True)
    assert "epsilon" in sentence


# ---------------------------------------------------------------- why nothing was selected

CAUSES = {"collinear pair": {"collinear columns"}, "response bound": {"response bound"},
          "units": {"units of the columns"}, "means": {"means of the columns"},
          "candidates": {"number of candidates"},
          "little data": {"Gram matrix", "signal and noise", "response bound"}}


def planted(cause, seed, there):
    "A selection from data in which this is the reason to select nothing; or from the same data without it"
    rng, even = stream(seed, f"planted {cause}"), np.arange(12) % 2 == 0
    n = {"response bound": 4000, "little data": 500 if there else 20_000}.get(cause, 20_000)
    X, beta = rng.standard_normal((n, 12)), np.where(even & (np.arange(12) < 6), .15, 0.0)
    options = dict(epsilon=1.0, delta=1e-6, row_bound=3.0, response_bound=3.0)
    if cause == "collinear pair": beta = .2 * np.eye(12)[0]
    if cause == "collinear pair" and there: X[:, 1] = -.987 * X[:, 0] + np.sqrt(1 - .987**2) * X[:, 1]
    if cause == "candidates": beta, options["rule"] = 3 * beta, "knockoffs" if there else "bh"
    if cause == "response bound": options |= dict(rounds=1, noise="symmetric") # several rounds find their own
    if cause == "response bound" and there: options["response_bound"] = 30.0
    y = X @ beta + rng.standard_normal(n)
    unit = np.where(even, 1.0, 1000.0) if cause == "units" else np.ones(12)
    mean = 8.0 if cause == "means" else 0.0
    if there: options["row_bound"] = float(np.linalg.norm(unit * np.hypot(1, mean)))
    else: options |= dict(row_bound=1.0, ranges={f"x{j}": (mean - 3 * u, mean + 3 * u)
                                                 for j, u in enumerate(unit)})
    return ask("moments", X * unit + mean, y, **options, simulation=True, random_state=seed)


@pytest.mark.parametrize("cause", CAUSES)
def test_the_first_finding_names_the_cause_and_without_it_there_is_none(cause):
    for seed in range(4):
        found, calm = planted(cause, seed, True), planted(cause, seed, False)
        subjects = [finding.subject for finding in found.diagnosis]
        if cause != "candidates" or not len(found): assert subjects[0] in CAUSES[cause]
        causes = set().union(*(names for name, names in CAUSES.items() if name != "little data"))
        assert {name for name in subjects if name in causes} <= CAUSES[cause]
        assert len(calm) and not calm.diagnosis
        if not len(found): assert found.diagnosis[0].found in found.explain()
        assert "too weak" not in found.explain()


def test_a_remedy_that_is_named_works():
    "The response bound that a diagnosis asks for finds what the other one lost"
    for seed in range(8):
        found = planted("response bound", seed, True)
        if not len(found): break
    bound = float(re.search(r"response_bound to ([\d.e+-]+)", found.diagnosis[0].change)[1])
    rng = stream(seed, "planted response bound")
    X = rng.standard_normal((4000, 12))
    y = X[:, [0, 2, 4]].sum(1) * .15 + rng.standard_normal(4000)
    better = ask("moments", X, y, epsilon=1.0, delta=1e-6, row_bound=3.0, response_bound=bound,
                            rounds=1, noise="symmetric", simulation=True, random_state=seed)
    assert not len(found) and len(better) and bound < 10


FACTS = {f"x{j}": {"range": [-4, 4]} for j in range(6)}


@pytest.mark.parametrize("kind", ["yes or no", "number", "clamped"])
def test_a_yes_or_no_is_seen_in_the_release_and_said(kind):
    "The rate is one of a linear model then, and every result tells so; a function of the release"
    A, score, _ = linear_model(20_000, p=6, k=3, amplitude=.5, random_state=5)
    if kind == "yes or no": y, target = np.where(score > 0, "yes", "no"), {"levels": ["no", "yes"]}
    else: y, target = score, {"range": [-5, 5] if kind == "number" else [-.01, .01]}
    table = pd.DataFrame(A, columns=list(FACTS)).assign(y=y)
    bound = {"response_bound": .001} if kind == "clamped" else {}
    found = ask("moments", table, dictionary={"target": "y", "columns": FACTS | {"y": target}}, epsilon=1.0,
                           delta=1e-6, simulation=True, random_state=0, **bound)
    said = [note for note in found.notes if "linear model of its probability" in note]
    assert found.release.yes_or_no == bool(said) == (kind == "yes or no")
