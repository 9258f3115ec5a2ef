"The moments filter: one release, everything else for free, and nothing drawn on refused input."
from fractions import Fraction

import numpy as np
import pytest

from dp_knockoff.clip import INTERCEPT, Clip
from dp_knockoff.errors import InputError
from dp_knockoff.mechanisms import Budget, analytic_ratio
from dp_knockoff.method_moments import MomentsMethod, check_bound, moments_filter
from dp_knockoff.models import linear_model
from dp_knockoff.moments import Moments
from dp_knockoff.selection import select
from dp_knockoff.sources import open_source
from dp_knockoff.statistics import Statistic
from dp_knockoff.testing import refusal
from watched import Recorder, Trusted, Unused, far_apart, unread

PUBLIC = dict(epsilon=1.0, delta=1e-3, row_bound=2.0, response_bound=5.0)
BUDGET = dict(epsilon=1.0, delta=1e-3)
LARGE = dict(epsilon=20.0, delta=1e-2)
X, Y, BETA = linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


# ---------------------------------------------------------------- one release

def test_same_release_from_data_chunks_source_and_moments():
    one = moments_filter(X, Y, **PUBLIC, simulation=True, random_state=3)
    def chunks(): yield from ((X[a:a + 700], Y[a:a + 700]) for a in range(0, 3000, 700))
    moments = Moments.from_data(X, Y, clip=Clip(2.0, 5.0))
    others = [moments_filter(chunks, **PUBLIC, simulation=True, random_state=3),
              moments_filter(open_source(X, Y), **PUBLIC, simulation=True, random_state=3),
              moments_filter(moments, **BUDGET, simulation=True, random_state=3),
              select(one.release)]
    for other in others: assert np.allclose(one.W, other.W, rtol=1e-9) and one.selected == other.selected
    assert (one.W == others[2].W).all() and (one.W == others[3].W).all()
    assert moments_filter(X, Y, **PUBLIC, simulation=True, random_state=4).W.tolist() != one.W.tolist()
    assert one.method == "moments" and one.budget == Budget(1.0, 1e-3)


def test_two_runs_without_a_seed_differ():
    one, two = (moments_filter(X, Y, **PUBLIC, simulation=True) for _ in range(2))
    assert not np.array_equal(one.W, two.W)


def test_a_sampler_draws_and_the_release_decides_the_knockoffs():
    def run(seed): return moments_filter(X, Y, **PUBLIC, statistic=Statistic(), sampler=Recorder(seed))
    a, b, c = run(0), run(0), run(1)
    assert (a.release.gram == b.release.gram).all() and (a.W == b.W).all()
    assert (a.release.gram != c.release.gram).all() and a.release.seed != c.release.seed


def test_intercept_is_fitted_and_never_tested():
    X, y, _ = linear_model(40_000, p=4, k=2, amplitude=2.0, random_state=1)
    public = dict(**LARGE, row_bound=2.0, response_bound=10.0, fdr=.5, simulation=True, random_state=0)
    found = moments_filter(X, y + 3, **public)
    assert found.names == ("x0", "x1", "x2", "x3") and INTERCEPT not in found.names and len(found.W) == 4
    e = found.estimate
    assert abs(e.beta[-1] - 3) < 6 * np.sqrt(e.V[-1, -1]) and np.sqrt(e.V[-1, -1]) < .1
    assert len(moments_filter(X, y + 3, **public, intercept=False).estimate.beta) == 4


def test_every_statistic_and_every_s():
    method = MomentsMethod(**LARGE, row_bound=3.0, response_bound=6.0)
    r = method.release(X, Y, simulation=True, random_state=0)
    smooth = [Statistic(), Statistic("ridge", "lcd", .1)]
    sparse = [Statistic("lasso", "csm", 1.0), Statistic("path")]
    for s in ("lam_min", "mvr", "equi", "sdp"):
        nearly_singular = s in ("equi", "sdp")  # not for least squares
        for statistic in sparse if nearly_singular else smooth + sparse:
            W = select(r, s=s, statistic=statistic).W
            assert W[BETA != 0].min() > np.abs(W[BETA == 0]).max()


def test_benjamini_hochberg_on_the_same_release():
    found = moments_filter(X, Y, **PUBLIC | LARGE, rule="bh", fdr=.1, simulation=True, random_state=0)
    e = found.estimate
    assert np.allclose(found.W, np.abs(e.beta / np.sqrt(np.diag(e.V)))[:6]) and found.rule == "bh"
    assert set(np.flatnonzero(BETA)) <= set(np.flatnonzero(found.support))


@pytest.mark.filterwarnings("ignore:delta=")
def test_a_public_sigma_is_used():
    one, two = (moments_filter(X, Y, **PUBLIC, sigma=sigma, sampler=Trusted()) for sigma in (None, 30.0))
    assert two.estimate.sigma == 30 and np.trace(two.estimate.V) > 2 * np.trace(one.estimate.V)
    assert (one.release.gram == two.release.gram).all() and "sigma" in two.guarantee


def test_selection_holds_no_rows_and_no_exact_moments():
    "Everything in a selection is noisy or public"
    m = Moments.from_data(X, Y, clip=Clip(2.0, 5.0))
    r = moments_filter(X, Y, **PUBLIC, simulation=True, random_state=0).release
    assert not np.isclose(r.gram, m.XtX, rtol=1e-6).any()
    assert not np.isclose(r.products, m.Xty, rtol=1e-6).any()
    assert r.square != m.yty and r.clamped != m.cut[1] and not hasattr(r, "row_norm")


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
    for name in ("gram_sd", "product_sd", "square_sd"):
        assert np.isclose(getattr(with_ones, name), getattr(without, name))


def test_own_statistics_are_probed_at_their_width():
    def fixed(A, b):
        assert b.shape == (12,)
        return np.abs(b[:6]) - np.abs(b[6:])
    found = moments_filter(X, Y, **PUBLIC, statistic=fixed, simulation=True, random_state=0)
    assert np.isfinite(found.W).all()


def test_without_a_word_a_release_is_drawn_by_opendp():
    found = moments_filter(X[:, :3], Y, **{**PUBLIC, "delta": 1e-4}, rounds=2)
    assert np.isfinite(found.W).all() and "OpenDP" in " ".join(found.notes) and not found.release.simulated
    assert found.guarantee.startswith("Guarantee: (epsilon=1, delta=0.0001)-differential privacy")


# ---------------------------------------------------------------- refusals

def short(A, b): return b[:3]


BAD = [dict(epsilon=0), dict(epsilon=-1), dict(epsilon=None), dict(delta=0), dict(delta=1), dict(delta=None),
       dict(row_bound=None), dict(response_bound=None), dict(row_bound=-1), dict(row_bound="max"),
       dict(response_bound=np.inf), dict(fdr=0), dict(fdr=1.5), dict(offset=2), dict(rounds=0),
       dict(rounds=1.5), dict(balance=0), dict(sigma=0), dict(s="best"), dict(s=[.5] * 6),
       dict(statistic="lasso"), dict(statistic=short), dict(intercept="yes"), dict(ranges={"age": (0, 1)}),
       dict(ranges={"x0": (1, 0)}), dict(ranges=[1]), dict(response_center=np.nan), dict(rule="ebh"),
       dict(rule="bh", s="mvr"), dict(sampler=3)]


def words(bad): return ", ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in bad.items())


@pytest.mark.parametrize("bad", BAD, ids=words)
def test_refused_before_anything_is_drawn_or_read(bad):
    source = unread([f"x{j}" for j in range(6)])
    sentence = refusal(moments_filter, source, **{**PUBLIC, "sampler": Unused(), **bad})
    assert len(sentence) > 30 and "\n" not in sentence


@pytest.mark.parametrize("bad", [-1, 1.5, "a"])
def test_bad_seeds_are_refused_before_anything_is_drawn(bad):
    sentence = refusal(moments_filter, unread("abc"), **PUBLIC, simulation=True, random_state=bad)
    assert "random_state" in sentence


@pytest.mark.parametrize("y_bad", [np.nan, np.inf])
def test_bad_rows_are_refused_before_anything_is_drawn(y_bad):
    y = np.where(np.arange(len(Y)) == 7, y_bad, Y)
    sentence = refusal(moments_filter, X, y, **PUBLIC, sampler=Unused())
    assert "NaN or infinite values in column 'y'" in sentence and "7" not in sentence


METHOD = [dict(epsilon=0), dict(delta=None), dict(row_bound=-1), dict(row_bound="max"),
          dict(response_bound=0), dict(rounds=0), dict(balance=-1), dict(intercept=1),
          dict(ranges={"x": (1, 0)}), dict(response_center="a"), dict(response_center=1.0, intercept=False)]


@pytest.mark.parametrize("bad", METHOD, ids=str)
def test_the_method_refuses_without_data(bad):
    assert "\n" not in refusal(MomentsMethod, **{**PUBLIC, **bad})


def test_moments_that_were_collected_hold_their_own_bounds():
    collected = Moments.from_data(X, Y, clip=Clip(2.0, 5.0))
    def sentence(**more): return refusal(moments_filter, collected, **BUDGET, **more, sampler=Unused())
    assert "without bounds" in refusal(moments_filter, Moments.from_data(X, Y), **BUDGET, sampler=Unused())
    given = dict(row_bound=2.0, response_bound="private", ranges={}, response_center=1.0)
    for name, value in given.items(): assert f"{name} given along with Moments" in sentence(**{name: value})
    assert "row_bound and response_bound given along" in sentence(row_bound=2.0, response_bound=5.0)
    assert "intercept given along with Moments" in sentence(intercept=False)
    assert "rounds=2 needs 2 passes" in sentence(rounds=2)


def test_one_pass_is_not_enough_for_rounds_and_private_bounds():
    def once(**more): return refusal(moments_filter, iter([(X, Y)]), **{**PUBLIC, **more}, sampler=Unused())
    assert once(rounds=2).startswith("rounds=2 need several passes")
    assert once(row_bound="private").startswith("rounds=1 and private bounds need several passes")
    assert len(moments_filter(iter([(X, Y)]), **PUBLIC, simulation=True, random_state=0).W) == 6


def test_a_reserved_name_is_refused():
    names = [INTERCEPT, *"abcde"]
    with pytest.raises(InputError, match="rename"): Moments.from_data(X, Y, names, clip=Clip(2.0, 5.0))
    assert "rename" in refusal(moments_filter, unread(names), **PUBLIC, sampler=Unused())


def test_unknown_arguments_are_errors():
    with pytest.raises(TypeError, match="unexpected"): moments_filter(X, Y, **PUBLIC, epsilom=1)


def test_bounds_are_numbers_or_private():
    assert check_bound("row_bound", 2) == 2.0 and check_bound("row_bound", "private") == "private"
    missing = refusal(check_bound, "row_bound", None, "--row-bound")
    assert missing.startswith("--row-bound is missing: pass a public number that says how long a row of x")
    assert refusal(check_bound, "row_bound", -1).startswith("row_bound=-1 is not a finite number > 0")
    assert "two to three standard deviations" in refusal(check_bound, "response_bound", None)


# ---------------------------------------------------------------- any k rows together, exactly

ALLOWED = Fraction(analytic_ratio(Budget(1.0, 1e-3)))**2
WAYS = [dict(), dict(rounds=3), dict(row_bound="private", response_bound="private"),
        dict(rounds=3, response_bound="private", intercept=False)]
WILD = [0.0, 1.0, -1e-300, 5e-324, 1e5, -1e150, 1e155, 1.7e308]


def replaced(rows, responses):
    "The data with its first rows replaced"
    k = len(responses)
    return np.vstack([rows, X[k:400]]), np.append(responses, Y[k:400])


def worst_rows(k, balance, intercept):
    "Two times k equal rows, as far apart as one round lets them be"
    c = min(1.0, balance**-2 / 2)
    if intercept: c = max((c * 5 - 1) / 4, -1.0)  # with the ones, rows of norm 2 have the angle wanted
    one, two = np.zeros((2, 6))
    one[0], two[:2] = 2.0, (2.0 * c, 2.0 * np.sqrt(1 - c**2))
    return [(np.tile(row, (k, 1)), np.full(k, t)) for row, t in ((one, 5.0), (two, -11.0))]


def spent(method, one, two):
    def run(X, y, sampler): return method.release(X, y, sampler=sampler)
    return far_apart(run, replaced(*one), replaced(*two))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("intercept", [False, True])
def test_one_round_spends_the_budget_on_the_worst_rows_and_never_more(k, intercept):
    "In whole numbers: the squared distance of the drawn values, over the squared deviations, against mu^2"
    method = MomentsMethod(**PUBLIC, intercept=intercept, rows_per_person=k)
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
    far.append(spent(method, *worst_rows(k, 2.0 if method.rounds > 1 else 1.4, method.intercept)))
    assert max(far) <= ALLOWED and max(far) > .3 * ALLOWED


def test_more_rows_than_were_promised_are_farther_apart():
    method = MomentsMethod(**PUBLIC, intercept=False, rows_per_person=2)
    assert spent(method, *worst_rows(3, 1.4, False)) > 2 * ALLOWED


def test_the_promise_names_the_rows_that_are_protected():
    def promise(k): return MomentsMethod(**PUBLIC, rows_per_person=k).release(X, Y, simulation=True).promise()
    assert "differ in one row," in promise(1) and "differ in any 3 rows (all rows of a person" in promise(3)
    one, three = (MomentsMethod(**PUBLIC, rows_per_person=k).release(X, Y, simulation=True) for k in (1, 3))
    for name in ("gram_sd", "product_sd", "square_sd", "clamped_sd"):
        assert np.isclose(getattr(three, name), 3 * getattr(one, name), rtol=1e-12)


def test_a_budget_that_no_lattice_is_fine_enough_for_is_refused_before_anything_is_drawn():
    sentence = refusal(moments_filter, unread("abc"), **{**PUBLIC, "epsilon": 9e5}, simulation=True)
    assert "epsilon" in sentence
