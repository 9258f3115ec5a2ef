"Moments with noise: the sensitivity is reached and never exceeded, and bounds are found with noisy counts."
from fractions import Fraction

import numpy as np
import pytest

from dp_knockoff.core.errors import stream
from dp_knockoff.core.testing import assert_same_law
from dp_knockoff.data.clip import BITS, Clip
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.private_moments import (
    BALANCE,
    CHECK,
    SEARCH,
    SIZES,
    VARIANCES,
    WEIGHTS,
    Residuals,
    Units,
    free_weight,
    joint_sensitivity,
    moment_shares,
    noisy_moments,
    noisy_products,
    noisy_sizes,
    noisy_variances,
    noisy_weights,
    on_directions,
    private_center,
    private_clip,
    private_quantile,
    private_units,
    unit_of,
    weight_sums,
)
from dp_knockoff.privacy.samplers import NumpySampler
from watched import Recorder, Silent

GRID = 2.0 ** (np.arange(-80, 81) / 4)  # the bounds that a search can find


@pytest.fixture(scope="module")
def data(): return linear_model(3000, p=6, k=3, amplitude=1.0, rho=.4, random_state=0)


# ---------------------------------------------------------------- sensitivity

PARTS = [(1, .1), (1, 1), (1, 1.99), (1, 2.01), (1, 9), (0, 1), (3, 2), (.01, 1), (.1, 1), (.13, 1)]


def distance2(g, h, k, u1, u2, v1, v2):
    "Squared distance of the contributions of two rows of these weights"
    far = g * np.sum((np.outer(u1, u1) - np.outer(u2, u2))**2)
    return far + h * np.sum((u1 * v1 - u2 * v2)**2) + k * (v1**2 - v2**2)**2


def worst_pairs(g, h):
    "Opposite responses at the best angle; one response zero; a small one at the end of the opposite row"
    c = min(1, h / (2 * g)) if g else 1.0
    e, turned, across = np.array([1.0, 0]), np.array([c, np.sqrt(1 - c**2)]), np.array([0.0, 1])
    return (e, turned, 1, -1), (e, across, 1, 0), (e, -e, 1, np.sqrt(5) - 2)


@pytest.mark.parametrize("g, h", PARTS)
def test_joint_sensitivity_is_reached_and_not_exceeded(g, h):
    "With the third part as precise as it may be for free: random rows, and a grid over rows of full length"
    rng = stream(0, f"sensitivity {g} {h}")
    claimed, k = joint_sensitivity(g, h)**2, free_weight(g, h)
    assert np.isclose(distance2(g, h, 0, *worst_pairs(g, h)[0]), claimed)
    assert np.isclose(max(distance2(g, h, k, *pair) for pair in worst_pairs(g, h)), claimed)
    for _ in range(1000):
        rows = rng.standard_normal((2, 2)) * rng.choice([.5, 3])
        u1, u2 = (u / max(1, np.linalg.norm(u)) for u in rows)
        responses = np.clip(rng.standard_normal(2) * 2, -1, 1)
        assert distance2(g, h, k, u1, u2, *responses) <= claimed * (1 + 1e-12)
    c, v = np.meshgrid(np.linspace(0, 1, 201), np.linspace(0, 1, 201))
    grid = 2 * g * (1 - c**2) + h * (1 + v**2 + 2 * c * v) + k * (1 - v**2)**2
    assert grid.max() <= claimed * (1 + 1e-12)


@pytest.mark.parametrize("g, h", PARTS)
def test_the_free_weight_is_sharp(g, h):
    "Three per cent more of it, and some pair is farther apart than the sensitivity; with it, none is"
    claimed, k = joint_sensitivity(g, h)**2, free_weight(g, h)
    second = sorted(distance2(g, h, k, *pair) for pair in worst_pairs(g, h)[1:])
    assert np.isclose(second[-1], claimed, rtol=1e-12)
    assert max(distance2(g, h, 1.03 * k, *pair) for pair in worst_pairs(g, h)) > claimed * 1.001
    assert np.isclose(free_weight(7 * g, 7 * h), 7 * k)
    assert np.isclose(joint_sensitivity(7 * g, 7 * h)**2, 7 * claimed)


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
    found += [far((a, 1e5), (-a, t)) for a, b in pairs[:100] for t in (0.0, b[0])]
    assert max(found) <= 1 + 1e-9 and max(found) > (.9 if intercept or gram else .99)


def test_units_and_noise():
    clip, r = Clip(3.0, 7.0, intercept=False), 1.7
    units = Units(clip, r)
    free = r**-2 + r**-4 / 2
    assert np.allclose(units.abc, (9.0, r * 21, 49 / np.sqrt(free)))
    tau = np.sqrt(2 + 2 / r**2 + r**-4 / 2) / .3
    assert np.allclose(units.noise(.3), (tau, tau * 9 / np.sqrt(2), tau * r * 21, tau * 49 / np.sqrt(free)))
    for balance in (r, 1.0):  # without X'X it plays no part
        _, gram, products, square = Units(clip, balance, gram=False).noise(.3)
        assert gram == 0 and np.isclose(products, 2 * 21 / .3)
        assert np.isclose(square, 2 * 49 / .3 / np.sqrt((11 + 5 * np.sqrt(5)) / 8))


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
    assert np.isclose(scale[-1], tau / np.sqrt(free_weight(0, 1 / 4)) * 4**BITS)
    again = noisy_products(m.sums[-1], units, .5, Silent(), "residuals 1")
    assert (again["products"] == m.Xty).all() and again["square"] == m.yty
    assert (again["product_sd"], again["square_sd"]) == (out["product_sd"], out["square_sd"])


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


# ---------------------------------------------------------------- weights

def test_weights_are_drawn_as_a_sum_that_one_row_moves_by_at_most_one(data):
    X, y, _ = data
    m = Moments.from_data(X, y, clip=Clip(1.5, 5.0))
    sampler = Recorder()
    found = noisy_weights(m.weights, 3.0, sampler)
    (purpose, value, scale), = sampler.draws
    assert purpose == "weights" and value == m.weights and np.isclose(scale, 3.0 * 2**18, rtol=1e-12)
    assert scale > 3.0 * 2**18 and 0 < abs(found - m.weights / 2**18) < 20
    _, _, w, _ = m.clip.bind(("x0", "x1", "x2", "x3", "x4", "x5"))(X, y)
    assert abs(noisy_weights(m.weights, 3.0, Silent()) - np.sum(w**2)) < 3000 / 2**18 and np.mean(w**2) < .6
    source = open_source(X, y)
    assert source.collect(weight_sums(source.names, m.clip)).tolist() == [3000, m.weights]


# ---------------------------------------------------------------- variances

NAMES = ("a", "b", "c")


def sums_of(rows, responses, clip, directions=None, usual=1.0):
    block = np.array(rows, dtype=float), np.array(responses, dtype=float)
    return Residuals(NAMES, clip, usual).sums(directions)(*block)


def test_directions_are_whole_numbers_of_norm_at_most_one():
    Q = np.vstack([np.eye(4), stream(0, "directions").standard_normal((200, 4)) * 10.0**np.arange(4)])
    q = on_directions(Q)
    assert (q == np.trunc(q)).all() and max(sum(int(v)**2 for v in row) for row in q) <= 2**48
    assert np.abs(q / 2**24 - Q / np.linalg.norm(Q, axis=1, keepdims=True)).max() < 2**-23
    assert (on_directions(1e100 * Q) == q).all() and (on_directions(-Q) == -q).all()


def seen_by_hand(X, y, clip, usual):
    "Rows of the design, residuals of whole rows (those with a large weight longer), and clamped ones"
    Z, _, w, _ = clip.bind(tuple(f"x{j}" for j in range(X.shape[1])))(X, y)
    e = y - clip.response_center - (Z @ clip.start if clip.start else 0) / w
    r, most = e * np.maximum(1, w / usual), clip.response_bound / usual
    return Z, r, np.minimum(w, usual) * np.clip(r, -most, most), w * e


@pytest.mark.parametrize("usual", [1.0, .6, .2])
def test_a_round_sums_products_with_residuals_that_are_clamped_as_whole_rows(data, usual):
    "By hand; where nothing is clamped, these are the sums of clipped rows"
    X, y, _ = data
    clip = Clip(1.5, 1.2 * usual, {"x1": (-1, 4)}, response_center=.3, start=np.linspace(-1, 1, 7))
    source = open_source(X, y)
    Z, _, t, whole = seen_by_hand(X, y, clip, usual)
    assert np.abs(t).max() <= clip.response_bound and (np.abs(t - whole) > .1).mean() > .05
    sums = source.collect(Residuals(source.names, clip, usual).sums())
    x, step = clip.row_step, clip.response_step
    assert sums.products.dtype == np.int64 and sums.variances.shape == (0,)
    assert np.allclose(sums.products * [*[x * step] * 7, step**2], [*Z.T @ t, t @ t], rtol=1e-3, atol=.05)
    wide = Clip(1.5, 900.0, {"x1": (-1, 4)}, response_center=.3, start=clip.start)
    everything = source.collect(Residuals(source.names, wide, usual).sums(gram=True))
    m = source(wide)
    assert np.abs(everything.products - m.sums).max() <= 3000 * 2**18 * 2 # of rounding
    assert np.allclose(everything.products, m.sums, rtol=1e-6, atol=3000 * 2**18)


def test_what_clamping_removes_does_not_depend_on_the_norm_of_a_row():
    "Two rows with the same error, one twice as long: the share of the error that is kept is the same"
    clip, rows = Clip(1.0, .5, intercept=False), np.array([[2.0, 0, 0], [4.0, 0, 0]])
    kept = [sums_of(rows[[k]], [3.0], clip, usual=.5).products[0] * clip.row_step * clip.response_step
            for k in (0, 1)]
    assert np.allclose(kept, [.5 * 1.0, .25 * 1.0], rtol=1e-3) # w times e clamped to C = 1
    assert sums_of(rows[[0]] / 2, [3.0], clip, usual=.5).products[0] == sums_of(
        rows[[0]] / 2, [-3.0], clip, usual=.5).products[0] * -1


@pytest.mark.parametrize("usual", [1.0, .5])
def test_histograms_count_each_row_once_on_its_side(data, usual):
    X, y, _ = data
    clip, edges = Clip(1.5, 9.0, start=np.linspace(-1, 1, 7)), np.array([.1, .5, 1.0, 2.0])
    source = open_source(X, y)
    counts = source.collect(Residuals(source.names, clip, usual).sizes(edges))
    _, r, _, _ = seen_by_hand(X, y, clip, usual)
    for side, sign in enumerate((1, -1)):
        assert counts[side].tolist() == np.histogram(sign * r, [*edges, np.inf])[0].tolist()
    sampler = Recorder()
    found = noisy_sizes(counts, 4.0, sampler, "sizes 0")
    (_, value, scale), = sampler.draws
    assert (value == counts * 2**18).all() and np.allclose(scale, 4.0 * 2**18) and np.min(scale) > 4 * 2**18
    assert np.abs(found - counts).max() < 30
    assert (noisy_sizes(counts, 4.0, Silent(), "sizes 1") == counts).all()


def test_two_rows_move_a_histogram_by_at_most_the_square_root_of_two():
    rng, clip, edges = stream(0, "histograms"), Clip(1.5, 2.0), 2.0**np.arange(-3, 4)
    sizes = Residuals(NAMES, clip, .5).sizes(edges)
    far = []
    for _ in range(400):
        one, two = (sizes(rng.standard_normal((1, 3)) * 10.0**rng.uniform(-9, 150),
                          rng.standard_cauchy(1) * 10.0**rng.uniform(-9, 150)) for _ in range(2))
        far.append(((one - two)**2).sum())
    assert max(far) == 2


@pytest.mark.parametrize("intercept", [True, False])
def test_variances_are_sums_of_squares_along_directions(data, intercept):
    "t^2 (q'z)^2 over rows, in the user's units, never more, and less by no more than a step a row"
    X, y, _ = data
    X = X[:, :3]
    clip = Clip(1.5, 2.5, intercept=intercept, start=np.linspace(.5, 1, 3 + intercept))
    Q = stream(0, "variances").standard_normal((5, 3 + intercept))
    directions = on_directions(Q)
    sums = sums_of(X, y, clip, directions)
    assert sums.variances.dtype == np.int64
    out = noisy_variances(sums.variances, clip, directions, .5, Silent())
    Z, _, w, _ = clip.bind(NAMES)(X, y)
    t = w * np.clip((y - Z @ clip.start / w), -2.5, 2.5)
    q = Q / np.linalg.norm(Q, axis=1, keepdims=True)
    exact = t**2 @ (Z @ q.T)**2
    unit = (clip.design_bound * clip.response_bound)**2
    assert np.allclose(out["variances"], exact, rtol=1e-4, atol=unit * len(y) / 2**26)
    longest = np.linalg.eigvalsh(q.T @ q)[-1]
    assert np.isclose(out["variance_sd"], np.sqrt(2 * longest) * unit / .5, rtol=1e-6)
    assert out["variance_sd"] > np.sqrt(2 * longest) * unit / .5 * (1 - 1e-7)


def test_a_row_is_rounded_down():
    "Its share of the bound, in exact fractions, to a whole number of 2^-26 below"
    clip = Clip(2.0, 3.0, intercept=False)
    rng = stream(0, "floor")
    directions = on_directions(rng.standard_normal((6, 3)))
    for x, t in zip(rng.standard_normal((200, 3)) * 2, rng.standard_normal(200) * 3):
        Z = np.rint(np.array(clip.bind(NAMES)(x[None], np.array([t]))[0][0]) / clip.row_step)
        r = int(np.rint(np.clip(t, -3, 3) * min(1, clip.longest(3) / np.linalg.norm(x)) / clip.response_step))
        assert r**2 == sums_of(x[None], [t], clip).products[-1]
        found = sums_of(x[None], [t], clip, directions).variances
        for q, v in zip(directions, found):
            along = sum(int(a) * int(b) for a, b in zip(q, Z)) * r
            share = Fraction(along, 2**60)**2 * 2**26
            assert share * (1 - Fraction(1, 2**29)) - 1 <= int(v) <= share


def test_sums_of_residuals_depend_on_neither_order_nor_chunks_to_the_bit(data):
    X, y, _ = data
    X, clip = X[:, :3], Clip(1.5, 1.0, start=(.5, 0, -.5, .2))
    directions = on_directions(stream(0, "order").standard_normal((4, 4)))
    whole = sums_of(X, y, clip, directions)
    order = np.random.default_rng(0).permutation(3000)
    for cuts in ([], [1], [1000, 1001, 2500], range(7, 3000, 7)):
        parts = [sums_of(X[part], y[part], clip, directions) for part in np.split(order, cuts)]
        total = parts[0]
        for part in parts[1:]: total = total + part
        assert (total.products == whole.products).all() and (total.variances == whole.variances).all()


@pytest.mark.parametrize("kind", ["clusters", "random", "alike"])
def test_no_pair_of_rows_moves_variances_by_more_than_the_noise_covers(kind):
    "In integers; directions in two orthogonal clusters, with a row along each, reach the bound"
    rng, far = stream(0, f"pairs {kind}"), []
    for _ in range(100):
        clip = Clip(*(10.0 ** rng.uniform(-3, 3, 2)), intercept=False)
        base = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        Q = {"clusters": np.repeat(base[:2], 4, axis=0), "random": rng.standard_normal((7, 3)),
             "alike": base[0] + .3 * rng.standard_normal((7, 3))}[kind]
        directions = on_directions(Q)
        ends = base if kind == "clusters" else np.linalg.eigh(directions.T @ directions)[1][:, [2, 0]].T
        rows = clip.row_bound * rng.choice([.99999, 1.5]) * ends[:2] # whole rows reach it, scaled ones do not
        responses = clip.response_bound * 10.0 ** rng.uniform(0, 9, 2) * rng.choice([-1, 1], 2)
        one, two = (sums_of([x], [t], clip, directions).variances for x, t in zip(rows, responses))
        sampler = Recorder()
        noisy_variances(one, clip, directions, .5, sampler)
        (purpose, value, scale), = sampler.draws
        assert purpose == "variances" and (value == one).all() and min(one.min(), two.min()) >= 0
        far.append(sum((Fraction(int(v)) / Fraction(s))**2 for v, s in zip(one - two, scale.tolist())) * 4)
    assert max(far) <= 1 and max(far) > {"clusters": .999, "random": .3, "alike": .3}[kind]


def test_variances_have_the_noise_that_is_told():
    directions = on_directions(ar_rows(4, .6))
    clip = Clip(2.0, 3.0, intercept=False)
    out = noisy_variances(np.zeros((3000, 4), np.int64), clip, directions, .7, NumpySampler(0))
    normal = np.random.default_rng(0).standard_normal((3000, 4))
    assert_same_law(out["variances"] / out["variance_sd"], normal)


def ar_rows(p, rho): return np.linalg.inv(rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p))))


# ---------------------------------------------------------------- shares

def test_shares_add_up():
    assert moment_shares(1) == [1 - CHECK - WEIGHTS]
    for rounds in (2, 3, 4, 9):
        shares = moment_shares(rounds)
        assert len(shares) == rounds and np.isclose(sum(shares) + SIZES + WEIGHTS + VARIANCES, 1, rtol=1e-12)
        assert np.isclose(shares[0], .6 * sum(shares)) and len(set(shares[1:-1])) <= 1
        assert np.isclose(sum(shares[1:-1]), .1 * sum(shares) * (rounds > 2))
    assert (CHECK, WEIGHTS, SIZES, VARIANCES, SEARCH, BALANCE) == (.01, .01, .08, .05, .1, 1.4)


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


# ---------------------------------------------------------------- a private centre

CENTERS = 2.0 ** (np.arange(-20 * 64, 40 * 64) / 64)
CENTERS = np.concatenate([-CENTERS[::-1], [0.0], CENTERS])


def test_a_quantile_of_any_grid():
    x, grid = np.arange(1000.0), np.array([-5.0, 10, 400, 600, 2000])
    def count(bound): return int((x > bound).sum())
    assert [private_quantile(count, 1000, q, 1.0, Silent(), "x", grid) for q in (.005, .3, .5, .99)] == [
        10, 400, 600, 2000]
    sampler = Recorder()
    private_quantile(count, 1000, .5, 2.0, sampler, "x", grid)
    assert all(np.isclose(scale, 2**20 * np.sqrt(3) / 2) for *_, scale in sampler.draws)


MIDDLES = [(0, 1), (1e3, 20), (-3e-4, 1e-5), (7e6, 1), (-1e9, 1e9), (.5, 1e-3)]


@pytest.mark.parametrize("middle, spread", MIDDLES)
def test_a_centre_without_noise_is_the_median_on_its_grid(middle, spread):
    y = middle + spread * stream(0, "centre").standard_normal(2001)
    found = private_center(open_source(np.zeros((2001, 1)), y), 1.0, Silent())
    assert found == CENTERS[np.searchsorted(CENTERS, np.median(y))]
    assert abs(found - np.median(y)) < .011 * abs(np.median(y)) + 1e-6


def test_a_centre_is_near_the_median_in_spite_of_noise():
    y = 1e3 + 17 * stream(0, "near").standard_normal(10_000)
    source = open_source(np.zeros((10_000, 1)), y)
    found = [private_center(source, .3, NumpySampler(seed)) for seed in range(20)]
    assert np.abs(np.array(found) - np.median(y)).max() < .25 * 17 + 11


def test_extreme_responses_find_the_ends_of_the_grid():
    for y, end in ((1e300, CENTERS[-1]), (-1e300, CENTERS[0]), (0.0, 0.0), (1e-300, 2.0**-20)):
        assert private_center(open_source(np.zeros((50, 1)), np.full(50, y)), 1.0, Silent()) == end


def test_a_search_of_a_centre_spends_what_it_may_and_one_row_moves_a_count_by_one():
    "The counts at every probe, before and after any response is replaced"
    rng = stream(0, "probes")
    y = 5 + rng.standard_normal(101)
    def counts(y):
        sampler = Recorder()
        def same(value, scale, purpose, draw=sampler.lattice): return draw(value, scale, purpose) * 0
        sampler.lattice = same  # the same answers for all: the same probes
        private_center(open_source(np.zeros((101, 1)), y), .8, sampler)
        assert 12 <= len(sampler.draws) <= 13
        assert all(np.isclose(scale, 2**20 * np.sqrt(13) / .8) for *_, scale in sampler.draws)
        return np.array([int(value) for _, value, _ in sampler.draws])
    before = counts(y)
    for value in (-1e300, 0.0, 5.0, 1e300, CENTERS[4000]):
        for i in (0, 50):
            moved = np.abs(counts(np.where(np.arange(101) == i, value, y)) - before)
            assert moved.max() <= 2**20
    assert (counts(np.full(101, -1e300)) == 0).all() and before.max() == 101 * 2**20


def test_a_centre_does_not_depend_on_chunks():
    y = 40 + stream(0, "chunks").standard_normal(500)
    def chunks(): return ((np.zeros((100, 1)), y[i:i + 100]) for i in range(0, 500, 100))
    sources = open_source(np.zeros((500, 1)), y), open_source(chunks)
    one, two = (private_center(source, .5, NumpySampler(0)) for source in sources)
    assert one == two != 40


# ---------------------------------------------------------------- units of columns

RANGES = {f"x{j}": (-50.0, 50.0) for j in range(3)}


def units_of(X, mu=1.0, seed=0, ranges=None):
    sampler = Recorder(seed)
    return private_units(open_source(X, np.zeros(len(X))), ranges or RANGES, mu, sampler), sampler


@pytest.mark.parametrize("scale", [1e-3, .5, 5.0])
@pytest.mark.parametrize("place", [-50, 0, 17, 50])
def test_a_unit_holds_most_values_and_is_as_wide_as_they_are(place, scale):
    "At the ends, in the middle, anywhere: up to the length of a cell"
    rng = stream(1, f"units {place} {scale}")
    x = np.clip(place + scale * rng.standard_normal((20_000, 3)), -50, 50)
    for low, high in units_of(x)[0].values():
        assert np.mean((x >= low) & (x <= high)) > .7
        cell = 100 / 64 if place == 17 else 100 / 1024
        assert high - low <= max(6 * scale, 2.1 * cell) and high - low < 100


def test_an_even_column_and_one_that_counts_say_nothing_of_keep_their_ranges():
    rng = stream(2, "units")
    for low, high in units_of(rng.uniform(-50, 50, (50_000, 3)))[0].values():
        assert 88 < high - low <= 100
    counts = rng.standard_normal(80) * 1e4
    assert unit_of(counts, 1e4, 10_000) == (0.0, 1.0)
    found, sampler = units_of(rng.standard_normal((40, 3)), mu=.1)
    assert found == {} and not sampler.draws  # nothing is drawn where noise would hide everything


def test_tails_that_are_not_evidently_there_do_not_widen_a_unit():
    "Noise in empty cells, over and over"
    rng, x = stream(3, "units"), np.zeros((3000, 3))
    x += rng.standard_normal(x.shape)
    widths = [high - low for seed in range(60) for low, high in units_of(x, .5, seed)[0].values()]
    assert np.quantile(widths, .95) < 10 and max(widths) < 50 and np.median(widths) < 8


@pytest.mark.parametrize("ends", [(0.0, 1e-130), (-1e140, 1e140), (1e15, 1e15 + 8), (-5e-324 * 2**60, 1.0)])
def test_a_unit_is_a_range_that_a_clip_takes(ends):
    rng = stream(4, f"units {ends}")
    for spot in (0.0, .3, 1.0):
        x = np.full((2000, 1), ends[0] + spot * (ends[1] - ends[0]))
        x[:20] = rng.uniform(*ends, (20, 1))
        found = units_of(x, ranges={"x0": ends})[0]
        clip = Clip(1.0, 1.0, ranges=found, limits={"x0": ends})
        rows, _, w, _ = clip.bind(("x0",))(x, np.zeros(2000))
        assert np.isfinite(rows).all() and np.isfinite(w).all() and clip.ends["x0"] == ends


def test_the_noise_on_units_is_that_of_all_columns_together():
    "One count per column moves, up and down; values of any size are in a cell"
    x = stream(5, "units").standard_normal((2000, 3))
    other = np.vstack([[[1e300, -1e300, 49.0]], x[1:]])
    (one,), (two,) = (units_of(rows, mu=.7)[1].draws for rows in (x, other))
    far = sum(int(v)**2 for v in (np.asarray(one[1]) - np.asarray(two[1])).ravel())
    assert far == 2 * 3 * 4**BITS and (one[1].sum(1) == 2000 * 2**BITS).all()
    assert np.isclose(np.sqrt(far) / one[2], .7).all() and (np.sqrt(far) / one[2] <= .7).all()
