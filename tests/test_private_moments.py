"Moments with noise: the sensitivity is reached and never exceeded, and bounds are found with noisy counts."
import numpy as np
import pytest

from dp_knockoff.clip import BITS, Clip
from dp_knockoff.models import linear_model
from dp_knockoff.moments import Moments
from dp_knockoff.private_moments import (
    Units,
    joint_sensitivity,
    noisy_moments,
    private_clip,
    private_quantile,
)
from dp_knockoff.randomness import stream
from dp_knockoff.samplers import NumpySampler
from watched import Recorder, Silent

GRID = 2.0 ** (np.arange(-80, 81) / 4)  # the bounds that a search can find


@pytest.fixture(scope="module")
def data(): return linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


# ---------------------------------------------------------------- sensitivity

@pytest.mark.parametrize("g, h", [(1, .1), (1, 1), (1, 1.99), (1, 2.01), (1, 9), (0, 1), (3, 2)])
def test_joint_sensitivity_is_reached_and_not_exceeded(g, h):
    rng = stream(0, f"sensitivity {g} {h}")
    claimed = joint_sensitivity(g, h)**2
    def distance2(u1, u2, v1, v2):
        far = g * np.sum((np.outer(u1, u1) - np.outer(u2, u2))**2)
        return far + h * np.sum((u1 * v1 - u2 * v2)**2) + h / 2 * (v1**2 - v2**2)**2
    angle = np.arccos(min(1, h / (2 * g)) if g else 1)
    worst = np.array([1.0, 0]), np.array([np.cos(angle), np.sin(angle)])
    assert np.isclose(distance2(*worst, 1, -1), claimed)
    for _ in range(2000):
        rows = rng.standard_normal((2, 2)) * rng.choice([.5, 3])
        u1, u2 = (u / max(1, np.linalg.norm(u)) for u in rows)
        responses = np.clip(rng.standard_normal(2) * 2, -1, 1)
        assert distance2(u1, u2, *responses) <= claimed * (1 + 1e-12)


@pytest.mark.parametrize("balance", [.5, .8, 1.4, 3.0])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("gram", [False, True])
def test_packed_moments_of_neighbours_are_within_the_sensitivity(balance, intercept, gram):
    "Replacing a row by any other: clipped, summed and stacked as a release does; almost reached"
    rng = np.random.default_rng(0)
    units = Units(Clip(1.5, 2.5, intercept=intercept), balance, gram)
    X, y = rng.standard_normal((2, 3)), rng.standard_normal(2)
    def packed(x, t):
        m = Moments.from_data(np.vstack([x, X[1:]]), np.append(t, y[1:]), clip=units.clip)
        return units.pack(m.XtX, m.Xty, m.yty)
    def far(a, b): return np.linalg.norm(packed(*a) - packed(*b)) / units.sensitivity
    pairs = rng.standard_normal((300, 2, 3)) * 10.0 ** rng.uniform(-1, 3, (300, 2, 1))
    found = [far((a, 1e5), (b, -1e5)) for a, b in pairs] + [far((a, 1e5), (a, -1e5)) for a, _ in pairs]
    assert max(found) <= 1 + 1e-9 and max(found) > (.9 if intercept or gram else .99)


def test_units_and_noise():
    clip, r = Clip(3.0, 7.0, intercept=False), 1.7
    units = Units(clip, r)
    assert units.abc == (9.0, r * 21, np.sqrt(2) * r * 49)
    tau = np.sqrt(2 + 2 / r**2 + r**-4 / 2) / .3
    assert np.allclose(units.noise(.3), (tau, tau * 9 / np.sqrt(2), tau * r * 21, tau * np.sqrt(2) * r * 49))
    tau, gram, products, _ = Units(clip, r, gram=False).noise(.3)
    assert gram == 0 and np.isclose(products, 2 * 21 / .3)  # X'y alone, whatever the balance


def test_units_are_those_of_the_design_with_its_ones():
    with_ones, without = Units(Clip(3.0, 7.0), 1.4), Units(Clip(np.sqrt(10), 7.0, intercept=False), 1.4)
    assert np.allclose(with_ones.abc, without.abc) and np.allclose(with_ones.noise(.3), without.noise(.3))


# ---------------------------------------------------------------- one vector

def test_pack_is_an_isometry(data):
    "Distances of packed moments are Frobenius and Euclidean distances in the units"
    X, y, _ = data
    units = Units(Clip(2.0, 5.0), 1.4)
    parts = slice(0, 1000), slice(1000, 2000)
    one, two = (Moments.from_data(X[part], y[part], clip=units.clip) for part in parts)
    a, b, c = units.abc
    expected = (np.linalg.norm(one.XtX - two.XtX) / a)**2 + (np.linalg.norm(one.Xty - two.Xty) / b)**2
    expected += ((one.yty - two.yty) / c)**2
    packed = units.pack(one.XtX, one.Xty, one.yty)
    assert np.isclose(np.sum((packed - units.pack(two.XtX, two.Xty, two.yty))**2), expected)
    G, products, square = units.unpack(packed, one.p)
    assert np.allclose(G, one.XtX) and np.allclose(products, one.Xty) and np.isclose(square, one.yty)


def test_batches_are_packed_one_by_one():
    rng = np.random.default_rng(0)
    G = rng.standard_normal((4, 3, 3))
    G, b, q = G + G.transpose(0, 2, 1), rng.standard_normal((4, 3)), rng.standard_normal(4)
    for gram in (True, False):
        units = Units(Clip(2.0, 5.0), 1.4, gram)
        packed = units.pack(G, b, q)
        assert (packed == [units.pack(*one) for one in zip(G, b, q)]).all()
        again = units.unpack(packed, 3)
        assert np.allclose(again[1], b) and np.allclose(again[2], q)
        assert np.allclose(again[0], G) if gram else again[0] is None and packed.shape == (4, 4)


def test_the_noise_has_the_deviations_that_are_told():
    "4000 draws at once: off the diagonal, on it (sqrt(2) more), on the products and on the square"
    units = Units(Clip(2.0, 5.0), 1.4)
    zeros = np.zeros((4000, 4, 4), dtype=np.int64)
    out = noisy_moments(zeros, units, .5, NumpySampler(0), "moments")
    told = out["gram_sd"], np.sqrt(2) * out["gram_sd"], out["product_sd"], out["square_sd"]
    found = out["gram"][:, 0, 1], out["gram"][:, 1, 1], out["products"][:, 2], out["square"]
    assert np.allclose([np.std(x) for x in found], told, rtol=.06)
    assert (out["gram"] == out["gram"].transpose(0, 2, 1)).all()
    assert np.abs(np.corrcoef(np.array([*found, out["gram"][:, 0, 2]]))[np.triu_indices(5, 1)]).max() < .1


def test_later_rounds_release_no_gram_matrix(data):
    X, y, _ = data
    m = Moments.from_data(X, y, clip=Clip(2.0, 5.0))
    units = Units(m.clip, 2.0, gram=False)
    sampler = Recorder()
    out = noisy_moments(m.sums, units, .5, sampler, "residuals 1")
    (purpose, value, scale), = sampler.draws
    assert set(out) == {"products", "square", "product_sd", "square_sd"} and purpose == "residuals 1"
    tau = units.sensitivity / .5
    assert (value == m.sums[:, -1]).all() and np.allclose(scale[:-1], tau * 2.0 * 4**BITS)
    assert np.isclose(scale[-1], tau * 2.0 * np.sqrt(2) * 4**BITS)


@pytest.mark.parametrize("gram", [True, False])
def test_what_is_drawn_are_the_exact_sums_and_the_deviations_are_those_of_the_units(data, gram):
    "Entries above the diagonal, the diagonal, products, square: in whole steps, each once"
    X, y, _ = data
    m = Moments.from_data(X, y, clip=Clip(2.0, 5.0))
    units, sampler = Units(m.clip, 1.4, gram), Silent()
    recorder = Recorder()
    noisy_moments(m.sums, units, .5, recorder, "moments")
    out = noisy_moments(m.sums, units, .5, sampler, "moments")
    assert (out["products"] == m.Xty).all() and out["square"] == m.yty
    if gram: assert (out["gram"] == m.XtX).all()
    (_, value, scale), = recorder.draws
    packed = units.pack(m.XtX, m.Xty, m.yty)
    tau = units.noise(.5)[0]
    assert len(value) == len(packed) == 28 * gram + 8 and np.allclose(value / scale, packed / tau, rtol=1e-12)
    assert value.dtype == np.int64 and scale.min() > 1e6


def test_a_batch_of_sums_gets_noise_of_its_own():
    sums = np.arange(3 * 16).reshape(3, 4, 4)
    sums = sums + sums.transpose(0, 2, 1)
    out = noisy_moments(sums, Units(Clip(2.0, 5.0), 1.4), .5, Silent(), "moments")
    x, t = Clip(2.0, 5.0).row_step, Clip(2.0, 5.0).response_step
    assert (out["gram"] == sums[:, :3, :3] * x**2).all() and (out["square"] == sums[:, 3, 3] * t**2).all()
    assert (out["products"] == sums[:, :3, 3] * (x * t)).all()


# ---------------------------------------------------------------- private bounds

def test_private_quantile_without_noise_is_the_quantile():
    x = np.exp(np.linspace(-3, 3, 10_001))
    def count(bound): return int((x > bound).sum())
    for q in (.1, .5, .95):
        i = GRID.tolist().index(private_quantile(count, len(x), q, 1.0, Silent(), "x"))
        assert np.mean(x <= GRID[i]) >= q - 1e-9 and np.mean(x <= GRID[i - 1]) < q


def test_a_search_spends_what_it_may():
    "Eight probes at most, of one sensitivity each; the ends of the grid are found, too"
    for count, end in ((lambda bound: 0, GRID[0]), (lambda bound: 100, GRID[-1])):
        sampler = Recorder()
        assert private_quantile(count, 100, .5, 20.0, sampler, "x") == end
        scales = [scale for _, _, scale in sampler.draws]
        assert len(scales) <= 8 and np.allclose(scales, 2**20 * np.sqrt(8) / 20)
        assert len({purpose for purpose, *_ in sampler.draws}) == len(scales) and 2**8 >= len(GRID) > 2**7


def test_private_clip_leaves_given_bounds_alone(data):
    X, y, _ = data
    def source(clip): return Moments.from_data(X, y, clip=clip)
    found = private_clip(source, Clip(2.0, 1.0), 50.0, NumpySampler(0), which=("response_bound",))
    assert found.row_bound == 2.0 and found.response_bound in GRID
    assert abs(np.mean(source(found).cut[1] / 3000) - .05) < .04


@pytest.mark.parametrize("intercept", [True, False])
def test_private_bounds_are_quantiles_of_rows_and_of_scaled_responses(data, intercept):
    X, y, _ = data
    def source(clip): return Moments.from_data(X, y, clip=clip)
    found = private_clip(source, Clip(1.0, 1.0, intercept=intercept), 1e6, Silent())
    def above(share, values): return GRID[np.searchsorted(GRID, np.quantile(values, share))]
    assert found.row_bound == above(.1, np.linalg.norm(X, axis=1))
    design = np.column_stack([X, np.ones(3000)]) if intercept else X
    w = np.minimum(1, found.design_bound / np.linalg.norm(design, axis=1))
    assert found.response_bound == above(.95, np.abs(w * y)) and found.intercept == intercept


def test_two_searches_share_what_may_be_spent(data):
    X, y, _ = data
    def scales(which):
        sampler = Recorder()
        private_clip(lambda clip: Moments.from_data(X, y, clip=clip), Clip(1.0, 1.0), 3.0, sampler, which)
        return {float(scale) for _, _, scale in sampler.draws}
    assert np.isclose(*scales(("row_bound",)), 2**20 * np.sqrt(8) / 3)
    assert np.isclose(*scales(("row_bound", "response_bound")), 2**20 * np.sqrt(16) / 3)
