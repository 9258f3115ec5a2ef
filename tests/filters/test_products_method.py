"The products filter: known sensitivity, the same knockoffs in every round, fair signs, nothing exact leaves."
import os
import signal
import threading
import time
from dataclasses import replace
from fractions import Fraction
from operator import add

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dp_knockoff.core.errors import InputError, stream
from dp_knockoff.core.testing import assert_fair_coin, assert_rate_at_most, refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.data import rows
from dp_knockoff.data.clip import BITS, Clip
from dp_knockoff.data.models import ar1
from dp_knockoff.data.source import Source, open_source
from dp_knockoff.filters import products_method as method_products
from dp_knockoff.filters.methods import ask
from dp_knockoff.filters.private_moments import CHECK, free_weight
from dp_knockoff.filters.products_method import (
    FIRST_CLAMP,
    ProductsMethod,
    ProductsRelease,
    _canonical_pair,
    _checksum,
    _mean_weight,
    _Pairs,
    before_clamping,
    best_clamp,
    clamped_normal,
    round_shares,
)
from dp_knockoff.knockoffs import laws
from dp_knockoff.knockoffs.laws import (
    Blocks,
    Gaussian,
    Independent,
    Law,
    Levels,
    law_units,
    open_uniforms,
    row_uniforms,
)
from dp_knockoff.knockoffs.statistics import Statistic, antisymmetry_error, swap
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.privacy.samplers import NumpySampler
from dp_knockoff.selection.release import select
from watched import Dying, Recorder, Silent, Trusted, Unused, far_apart, unread

pytestmark = pytest.mark.filterwarnings("ignore:delta=")
LAW = Gaussian(0, ar1(6, .5))
PUBLIC = dict(law=LAW, epsilon=1.0, delta=1e-3, response_bound=3.0)
FACTORS = Levels({"f": {"a": .5, "b": .3, "c": .2}, "g": {0: .6, 1: .4}})
MIXED = Blocks(Gaussian(0, ar1(3, .5), ["x", "y", "z"]), FACTORS)
GROUPS = {"f": ("f=b", "f=c")}
MU = analytic_ratio(Budget(1.0, 1e-3))


def drawn(law, n, seed=0):
    "Rows of a law, and a response that is not linear"
    rng = np.random.default_rng(seed)
    X = law.draw(open_uniforms(rng, (n, law.p)))
    return X, X[:, 0] + np.exp(X[:, 1] / 2) + rng.standard_t(3, n)


X, Y = drawn(LAW, 2000)


def key_of(seed): return tuple(int(word) for word in stream(seed, "rows' knockoffs").integers(0, 2**63, 2))


def knockoffs_of(law, X, seed): return law(X, row_uniforms(key_of(seed), 0, 0, len(X), law.uniforms))


# ---------------------------------------------------------------- one release

def test_products_formula():
    "What is drawn: products of scaled pairs with clamped responses, the square, and a count"
    B, By = 1.5, 2.0
    sampler = Recorder()
    options = dict(PUBLIC, row_bound=B, response_bound=FIRST_CLAMP * By, response_center=.5, rounds=1)
    found = ask("products", X, Y, **options, ranges={"x1": (-1, 1)}, sampler=sampler, random_state=5)
    both = np.hstack([X, knockoffs_of(LAW, X, 5)])
    both[:, [1, 7]] = np.clip(both[:, [1, 7]], -1, 1)
    w = np.minimum(1, np.sqrt(2) * B / np.linalg.norm(both, axis=1))
    t = (Y - .5) * w
    Z, T = both * w[:, None], np.clip(t, -By, By)
    (_, sums, scales), (_, count, count_scale) = sampler.draws
    x, r = np.sqrt(2) * B / 2**BITS, By / 2**BITS
    assert np.allclose(sums[:-1] * x * r, Z.T @ T, rtol=1e-3, atol=.01)
    assert np.isclose(sums[-1] * r**2, T @ T, rtol=1e-4)
    share = np.sqrt(1 - CHECK)
    assert np.allclose(scales[:-1] * x * r, 2 * np.sqrt(2) * B * By / (MU * share), rtol=1e-9)
    free = 2 * By**2 / np.sqrt(free_weight(0, 1))  # as precise as the square may be for nothing
    assert np.isclose(scales[-1] * r**2, free / (MU * share), rtol=1e-9) and free_weight(0, 1) > 2.77
    assert np.isclose(count / count_scale, (np.abs(t) > By).sum() * MU * np.sqrt(CHECK))
    r = found.release
    assert r.rounds == 1 and r.n == 2000 and np.isclose(r.noise["products"], r.product_sds[0])
    assert np.isclose(r.product_sds[0], 2 * np.sqrt(2) * B * By / (MU * share))


def test_without_noise_a_release_is_what_was_drawn():
    options = {**PUBLIC, "response_bound": 150.0, "row_bound": 20.0}
    r = ProductsMethod(**options, rounds=3).release(X, Y, sampler=Silent(), random_state=1)
    both = np.hstack([X, knockoffs_of(LAW, X, 1)])
    assert np.allclose(r.products[0], both.T @ Y, atol=2) and r.clamped == 0 and r.weight == 1
    assert np.isclose(r.squares[0], Y @ Y, rtol=1e-3)
    for k in (1, 2):
        residuals = Y - both @ r.starts[k]
        assert np.allclose(r.products[k], both.T @ np.clip(residuals, -r.bounds[k], r.bounds[k]), atol=2)
    assert not r.starts[0].any() and r.bounds[0] == 50 and .05 * 50 * .6 <= r.bounds[2] < 12
    assert r.starts[2].any()


def test_shares_add_up():
    for rounds in (1, 2, 3, 4, 9):
        shares = round_shares(rounds)
        assert len(shares) == rounds and min(shares) > 0 and np.isclose(sum(shares) + CHECK, 1, rtol=1e-12)
    for rounds in (1, 2, 3):
        sampler = Recorder()
        ProductsMethod(**PUBLIC, rounds=rounds).release(X, Y, sampler=sampler, random_state=0)
        purposes = [purpose for purpose, *_ in sampler.draws]
        assert purposes == [*(f"products {k}" for k in range(rounds)), "clamped responses"]


def test_rounds_by_default_are_three_or_one():
    assert ProductsMethod(**PUBLIC).release(X, Y, simulation=True).rounds == 3
    assert ProductsMethod(**PUBLIC).release(iter([(X, Y)]), simulation=True).rounds == 1


def test_two_runs_without_a_seed_differ():
    one, two = (ask("products", X, Y, **PUBLIC, simulation=True) for _ in range(2))
    assert not np.array_equal(one.W, two.W) and one.release.ids != two.release.ids


@pytest.mark.parametrize("options", [{}, dict(epsilon=20.0, response_bound=15.0)], ids=["noisy", "quiet"])
def test_combined_rounds_and_where_the_next_one_starts(options):
    r = ProductsMethod(**{**PUBLIC, **options}, rounds=3).release(X, Y, simulation=True, random_state=0)
    A = r.n * r.weight * np.block([[r.S, r.S - r.D], [r.S - r.D, r.S]])
    mean = np.clip(r.squares + r.square_sds, 0, r.n * r.bounds**2) / r.n
    spread, inside = before_clamping(mean / r.bounds**2)
    w = (r.product_sds / inside)**-2.0 / ((r.product_sds / inside)**-2.0).sum()
    products, variance, noise = r.combined()
    assert np.allclose(products, sum(w[k] * (r.products[k] / inside[k] + A @ r.starts[k]) for k in range(3)))
    assert np.isclose(noise, 1 / ((r.product_sds / inside)**-2.0).sum())
    assert np.isclose(variance, w @ (mean / inside**2))
    H, h, size = _canonical_pair(r.S, r.D, products, r.n * r.weight, variance, noise)
    inverse = np.linalg.inv(noise * np.eye(12) + variance * A)
    expected = A @ inverse @ A
    assert np.allclose(size, np.sqrt(np.diag(expected))) and np.allclose(H, expected / np.outer(size, size))
    assert np.allclose(h, A @ inverse @ products / size) and np.allclose(r.pair()[0], H)
    start, bound = r.next_start()
    f = best_clamp(r.product_sds[-1] / r.bounds[-1], np.sqrt(r.n * r.weight))
    assert start.shape == (12,) and .05 * f * r.bounds[0] <= bound <= FIRST_CLAMP * r.bounds[0]
    squares = []
    for k in range(3):
        step = start - r.starts[k]
        explained = 2 * step @ (products - A @ r.starts[k]) - step @ A @ step
        optimism = 2 * np.count_nonzero(start) * noise / (r.n * r.weight)
        squares.append((spread[k] * r.bounds[k])**2 + (optimism - explained) / r.n)
    if options:
        assert .1 * r.bounds[0] < bound < .9 * r.bounds[0]
        assert max(squares) > 1.02 * min(squares)
    assert np.isclose(bound, min(3 * r.bounds[0], f * np.sqrt(max(min(squares), (.05 * r.bounds[0])**2))))


def test_the_clamp_rule():
    "Against a fine grid of its own: the ratio of effect to error of the bound chosen is the largest"
    f = np.linspace(.6, 3, 2001)
    inside, square = clamped_normal(f)
    z = np.random.default_rng(0).standard_normal(400_000)
    assert abs(np.mean(np.clip(z, -1.2, 1.2)**2) - clamped_normal(1.2)[1]) < .005
    assert abs(np.mean(np.abs(z) < 1.2) - clamped_normal(1.2)[0]) < .005
    for noise, sampling in [(1.0, 1e-9), (1.0, .3), (1.0, 1.0), (.3, 1.0), (1e-9, 1.0)]:
        best = f[np.argmax(inside / np.sqrt((noise * f)**2 + sampling**2 * square))]
        assert abs(best_clamp(noise, sampling) - best) <= .026, (noise, sampling)
    assert best_clamp(1.0, 1e-9) == .6 and best_clamp(1e-9, 1.0) == 3
    assert np.allclose(best_clamp(np.ones(2), np.array([.3, 1])), [best_clamp(1.0, .3), best_clamp(1.0, 1.0)])
    for bound in (.7, 1.0, 2.0):  # what was clamped is found again
        spread, kept = before_clamping(clamped_normal(bound)[1] / bound**2)
        assert np.isclose(spread, 1 / bound, rtol=1e-3)
        assert np.isclose(kept, clamped_normal(bound)[0], rtol=1e-3)


def test_the_weight_is_that_of_rows_of_the_law():
    units = law_units(LAW, Variables.single(6))
    wide = np.full(6, 1e150)
    def weight(bound): return _mean_weight(LAW, units, -wide, wide, bound)
    assert weight(100.0) == 1 and np.isclose(weight(.01), 2e-4 / 10, rtol=.5) and .5 < weight(np.sqrt(6)) < 1
    Z, _ = drawn(LAW, 4000, 3)
    norms = np.linalg.norm(np.hstack([Z, knockoffs_of(LAW, Z, 9)]), axis=1)
    assert abs(weight(2.0) - np.mean(np.minimum(1, 2 * np.sqrt(2) / norms)**2)) < .03
    assert (_mean_weight(LAW, units, -.1 * np.ones(6), .1 * np.ones(6), .2)) > .6  # ranges come first


def test_signals_are_found_and_directions_named():
    Z, _ = drawn(Gaussian(0, ar1(20, .3)), 20_000)
    y = (Z[:, ::3] @ np.tile([1, -1], 4)[:7] > .5) * 1.0
    found = ask("products", Z, y, law=Gaussian(0, ar1(20, .3)), epsilon=2.0, delta=1e-5, response_bound=.5,
                            response_center=.5, simulation=True, random_state=0)
    assert set(found.selected) >= {f"x{j}" for j in range(0, 20, 3)}
    assert found.signs[:19:3].tolist() == [1, -1, 1, -1, 1, -1, 1]


# ---------------------------------------------------------------- sensitivity, exactly

ALLOWED = Fraction(MU)**2
WILD = [0.0, 1.0, -1e-300, 5e-324, 1e5, -1e150, 1e155, 1.7e308]


def nearest(X, U): return np.round(X) + stats.norm.ppf(U)
def explodes(X, U): return np.exp(X * X) - np.exp(-X * 20) + U  # infinite, or no number, for large rows
def vanishes(X, U): return U / (X - X)


LAWS = {"normal": LAW, "skewed": Independent([stats.gamma(2)] * 6), "kernel": nearest, "factors": MIXED,
        "small": Gaussian(0, 1e-180 * ar1(6, .5)), "tight": Gaussian(1e100, ar1(6, .999))}


def spent(method, one, two, k=1):
    "Squared distance of what is drawn from two tables that differ in their first k rows"
    law_names = getattr(method.law, "names", None)
    def run(x, t, sampler):
        return method.release(open_source(x, t, columns=law_names), sampler=sampler, random_state=3)
    tables = [(np.vstack([x, X[k:60]]), np.append(t, Y[k:60])) for x, t in (one, two)]
    return far_apart(run, *tables)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("name", LAWS)
def test_one_round_spends_the_budget_on_the_worst_rows_and_never_more(name, k):
    "Long rows with opposite responses: all of mu^2 but for the count, which both leave alone"
    method = ProductsMethod(**{**PUBLIC, "law": LAWS[name], "row_bound": .5}, rounds=1, rows_per_person=k)
    one, two = ((np.full((k, 6), 50.0), np.full(k, t)) for t in (1e305, -1e305))
    far = spent(method, one, two, k)
    assert .995 * (1 - CHECK) * ALLOWED < far <= (1 - Fraction(CHECK)) * ALLOWED


def test_the_count_spends_the_rest():
    method = ProductsMethod(**PUBLIC, rounds=1)
    row = np.zeros((1, 6))
    one, two = ((row, np.array([t])) for t in (1.0, 1.001))
    assert .8 * CHECK * ALLOWED < spent(method, one, two) <= Fraction(CHECK) * ALLOWED * Fraction(1001, 1000)


@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("name", LAWS)
def test_no_k_rows_are_farther_apart_than_the_budget_allows(name, rounds):
    rng = np.random.default_rng(rounds)
    k = rounds
    bounds = dict(ranges={"x0": (-2, 9)}) if name == "normal" else {}
    method = ProductsMethod(**{**PUBLIC, "law": LAWS[name]}, **bounds, rounds=rounds, rows_per_person=k)
    def anything():
        if rng.random() < .5: return rng.choice(WILD, (k, 6)), rng.choice(WILD, k) * rng.choice([-1, 1], k)
        row = rng.standard_normal(6) * 10.0**rng.uniform(-3, 3)
        return np.tile(row, (k, 1)), np.full(k, rng.choice([-1e9, 1e9]))
    far = [spent(method, anything(), anything(), k) for _ in range(5)]
    far.append(spent(method, *((np.full((k, 6), 50.0), np.full(k, t)) for t in (1e305, -1e305)), k))
    assert max(far) <= ALLOWED and max(far) > .3 * ALLOWED


def test_more_rows_than_were_promised_are_farther_apart():
    method = ProductsMethod(**PUBLIC, rounds=1, rows_per_person=2)
    assert spent(method, *((np.full((3, 6), 50.0), np.full(3, t)) for t in (1e9, -1e9)), 3) > 2 * ALLOWED


def test_a_kernel_that_explodes_moves_its_own_row_only(monkeypatch):
    "Knockoffs that are infinite or no numbers belong to one row; if all are, nothing is drawn"
    monkeypatch.setattr(laws, "_check_row_by_row", lambda law: law)
    method = ProductsMethod(**{**PUBLIC, "law": Unchecked(explodes)}, rounds=2)
    with np.errstate(all="ignore"):
        for value in (1e200, 1e100, 40.0, -30.0, -40.0): # the last gives no number
            one, two = (np.full((1, 6), value), [1e9]), (np.full((1, 6), -1e-200), [-1e9])
            assert spent(method, one, two) <= ALLOWED
    method = ProductsMethod(**{**PUBLIC, "law": Unchecked(vanishes)})
    with np.errstate(all="ignore"):
        assert "law has rows" in refusal(method.release, X, Y, sampler=Unused(), random_state=0)


class Unchecked(Law):
    "A kernel that nobody has tried"
    names, p, uniforms, mean, covariance, cross = None, 6, 6, np.zeros(6), np.eye(6), np.zeros((6, 6))
    def __init__(self, f): self.f = f
    def __call__(self, X, U): return self.f(X, U)
    def draw(self, U): return stats.norm.ppf(U)


def test_contributions_of_other_rows_do_not_change_in_a_bit():
    "Row by row, with a start: whatever one row is, the grid values of the others stay"
    clip = Clip(2.0, 1.0, intercept=False, start=tuple(np.linspace(-1, 1, 12)))
    variables = Variables.of([f"x{j}" for j in range(6)], {"g": ["x1", "x4"], "h": ["x0", "x2"]})
    for law in (LAW, Gaussian(0, np.eye(6)), Independent([stats.gamma(2)] * 6)):
        wide = np.full(6, 1e150)
        pairs = _Pairs(law, law_units(law, variables), -wide, wide, .1, (1, 2), clip)
        whole = pairs(X[:300], Y[:300], 0, 0)
        for value in (0.0, 1.7e308, -1e150, 5e-324):
            Z, y = X[:300].copy(), Y[:300].copy()
            Z[7], y[7] = value, value
            assert (np.delete(pairs.rows(Z, 0, 0), 7, 0) == np.delete(pairs.rows(X[:300], 0, 0), 7, 0)).all()
            other = pairs(Z, y, 0, 0)
            assert np.abs(other.sums[-1] - whole.sums[-1]) <= 4**BITS
            assert np.linalg.norm((other.sums - whole.sums)[:-1].astype(float)) <= 2 * 4.0**BITS


def test_how_a_table_is_stored_does_not_reach_the_kernel():
    "One whole number beyond 64 bits makes a column of objects, and another layout, which may round otherwise"
    class Looks(Unchecked):
        def __call__(self, X, U): return np.full(X.shape, float(X.flags.c_contiguous))
    units = law_units(LAW, Variables.single(6))
    wide = np.full(6, 1e150)
    pairs = _Pairs(Looks(None), units, -wide, wide, 0.0, (1, 2), Clip(2.0, 1.0, intercept=False))
    for stored in (X, np.asfortranarray(X), X[::2], X[:, ::-1]):
        assert (pairs.rows(stored, 0, 0)[:, 6:] == 1).all()
    class Largest(Unchecked):
        def __call__(self, X, U): return np.full(X.shape, float(np.abs(X).max() <= 1e150))
    assert (replace(pairs, law=Largest(None)).rows(np.full((3, 6), -1.7e308), 0, 0)[:, 6:] == 1).all()


def test_a_large_mean_cannot_make_units_overflow():
    "With a mean of 1e305 a group's units were NaN, and NaN made whole numbers of all sums"
    law = Gaussian(1e149, 1e-190 * ar1(6, .9))
    variables = Variables.of([f"x{j}" for j in range(6)], {"g": [f"x{j}" for j in range(6)]})
    wide = np.full(6, 1e150)
    clip = Clip(2.0, 1.0, intercept=False)
    pairs = _Pairs(law, law_units(law, variables), -wide, wide, 0.0, (1, 2), clip)
    assert np.isfinite(pairs.rows(np.vstack([X[:5], -wide, wide]), 0, 0)).all()
    assert "huge" in refusal(Gaussian, 1e305, np.eye(6))


# ---------------------------------------------------------------- one set of knockoffs, however rows arrive

ROUNDS = dict(PUBLIC, row_bound=2.0, rounds=3)


def draws_of(data, y=None, **more):
    "What is drawn, in all rounds"
    sampler = Recorder()
    ProductsMethod(**{**ROUNDS, **more}).release(data, y, sampler=sampler, random_state=3)
    return [value for _, value, _ in sampler.draws]


def same(a, b): return all(np.array_equal(u, v) for u, v in zip(a, b, strict=True))


def test_same_draws_for_every_chunking_and_number_of_threads(monkeypatch):
    "Small blocks, so that there are several; one round's knockoffs are those of the others"
    monkeypatch.setattr(rows, "block_rows", lambda p: 300)
    whole = draws_of(X, Y)
    assert len(whole) == 4
    for size in (1, 299, 300, 777, 5000):
        def chunks(size=size): return ((X[i:i + size], Y[i:i + size]) for i in range(0, 2000, size))
        assert same(draws_of(chunks), whole)
    for threads in (1, 2, 7):
        monkeypatch.setattr(rows.os, "cpu_count", lambda threads=threads: threads)
        assert same(draws_of(X, Y), whole)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=Y)
    assert same(draws_of(frame, "y"), whole) and same(draws_of(np.asfortranarray(X), Y), whole)
    assert not same(draws_of(X[::-1], Y[::-1]), whole)


def test_same_draws_from_files(tmp_path):
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=Y)
    frame.to_parquet(tmp_path / "t.parquet")
    for i in range(3): frame[i * 700:(i + 1) * 700].to_parquet(tmp_path / f"part{i}.parquet")
    whole = draws_of(X, Y)
    assert same(draws_of(tmp_path / "t.parquet", "y"), whole)
    assert same(draws_of([tmp_path / f"part{i}.parquet" for i in range(3)], "y"), whole)


def slowed(block):
    "A block that takes a while to come"
    time.sleep(.03)
    return block


def by_parts(X, Y, size, sampler, **more):
    "The rounds of rows in partitions, worked out here"
    def read(summarise, progress):
        parts = [summarise(X[i:i + size], Y[i:i + size], k, 0) for k, i in enumerate(range(0, len(X), size))]
        return sum(parts[1:], parts[0])
    source = Source(rows.Reader("partitions", tuple(f"x{j}" for j in range(6)), read))
    return ProductsMethod(**{**ROUNDS, **more}).release(source, sampler=sampler, random_state=3)


def test_several_workers_one_of_them_killed_draw_the_same_in_every_round():
    da = pytest.importorskip("dask.array")
    from distributed import Client, LocalCluster
    sampler = Recorder()
    by_parts(X, Y, 200, sampler)
    expected = [value for _, value, _ in sampler.draws]
    data, target = da.from_array(X, chunks=(200, 6)), da.from_array(Y, chunks=200)
    assert same(draws_of(data, target), expected)  # threads
    kw = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with LocalCluster(**kw) as cluster, Client(cluster) as client:
        victim, killed = next(iter(client.run(os.getpid).values())), []
        def finished():
            return any("partition_sum" in str(key) for keys in client.has_what().values() for key in keys)
        def kill():
            while not finished(): time.sleep(.02)
            killed.append(victim)
            os.kill(victim, signal.SIGKILL)
        thread = threading.Thread(target=kill)
        thread.start()
        assert same(draws_of(data.map_blocks(slowed, dtype=float), target), expected)
        thread.join()
        assert killed and victim not in client.run(os.getpid).values()


def test_a_block_gets_the_uniforms_of_its_place():
    "Part, first row and key decide; and whole blocks that change places are noticed"
    units, wide = law_units(LAW, Variables.single(6)), np.full(6, 1e150)
    pairs = _Pairs(LAW, units, -wide, wide, 0.0, (1, 2), Clip(2.0, 1.0, intercept=False))
    for part, first in ((0, 0), (0, 40), (3, 0), (3, 40)):
        expected = LAW(X[:50], row_uniforms((1, 2), part, first, 50, 6))
        assert np.allclose(pairs.rows(X[:50], part, first), np.hstack([X[:50], expected]))
    rows = X[:40].copy(), Y[:40].copy()
    sums = [_checksum(*rows, part, first) for part, first in ((0, 0), (0, 40), (3, 0))]
    assert len(set(sums)) == 3 and _checksum(*rows, 0, 0) == sums[0]
    for half in range(2):
        for i in (0, 17, 39):
            other = rows[0].copy(), rows[1].copy()
            other[half][i] += 1e-9
            assert _checksum(*other, 0, 0) != sums[0]
            other = rows[0].copy(), rows[1].copy()
            other[half][[i, 20]] = other[half][[20, i]]
            assert _checksum(*other, 0, 0) != sums[0]


def reordered(orders):
    "A source whose rows come in another order every time"
    orders = iter([orders[0], *orders])  # the first look reads nothing but names
    def chunks():
        order = next(orders)
        return iter([(A[order], b[order])])
    A, b = np.eye(6)[np.arange(40) % 6] * 1.0, np.zeros(40)
    return chunks


def test_rows_in_another_order_are_refused():
    same_order = np.arange(40)
    options = dict(ROUNDS, simulation=True, random_state=0)
    ask("products", reordered([same_order] * 3), **options)
    turned = np.roll(same_order, 1)  # rows whose sums are all the same
    last_two = np.append(same_order[:-2], [39, 38])
    for orders in ([same_order, turned, turned], [same_order, same_order, last_two]):
        assert "another order" in refusal(ask, "products", reordered(orders), **options)
    assert ask("products", reordered([turned]), **{**options, "rounds": 1}).release.rounds == 1


# ---------------------------------------------------------------- both worlds of the proof

class Exchanged(NumpySampler):
    "NumPy's noise, its entries exchanged"
    def __init__(self, seed, order):
        super().__init__(seed)
        self.order = np.append(order, len(order))  # the square stays where it is

    def lattice(self, value, scale, purpose):
        if np.ndim(value) == 0: return super().lattice(value, scale, purpose)
        back = np.argsort(self.order)
        return super().lattice(value[back], scale[back], purpose)[self.order]


class Swapped(Law):
    "The law after columns were exchanged with their knockoffs: rows are knockoffs, knockoffs rows"
    def __init__(self, law, X, F, seed):
        self.p, self.uniforms, self.mean, self.names = law.p, law.uniforms, law.mean, law.names
        self.covariance, self.cross, self.draw, self.law = law.covariance, law.cross, law.draw, law
        self.groups = law.groups
        other = knockoffs_of(law, X, seed)
        self.rows, self.kept = X.copy(), other.copy()
        self.rows[:, F], self.kept[:, F] = other[:, F], X[:, F]

    def __call__(self, X, U): return self.kept if np.array_equal(X, self.rows) else self.law(X, U)


WORLDS = {"groups of a normal law": (Gaussian(0, ar1(6, .6)), {"g": ["x1", "x4"], "h": ["x0", "x2", "x3"]}),
          "factors": (FACTORS, None), "mixed": (MIXED, None),
          "factors with a column": (MIXED, {"k": ["f=b", "f=c", "x"]}),
          "skewed": (Independent([stats.gamma(.5)] * 5), None)}


@pytest.mark.parametrize("statistic", [Statistic("ols", "lcd"), None], ids=["ols", "own"])
@pytest.mark.parametrize("name", WORLDS)
def test_swapped_data_have_swapped_releases_and_flipped_statistics(name, statistic):
    "Three rounds, every clip active; products are exchanged, bounds stay, W flips where it should"
    law, groups = WORLDS[name]
    columns = law.names or tuple(f"x{j}" for j in range(law.p))
    rng = np.random.default_rng(0)
    Z, y = drawn(law, 400, 1)
    options = dict(epsilon=2.0, delta=1e-3, response_bound=1.0, row_bound=.9 * np.sqrt(law.p), rounds=3,
                   ranges={columns[0]: (-1, 1)}, statistic=statistic, groups=groups)
    flipped = 0
    for seed in range(3):
        def run(law, Z, sampler, seed=seed):
            return ask("products", open_source(Z, y, columns=columns), law=law, **options, sampler=sampler,
                                   random_state=seed)
        first = run(law, Z, NumpySampler(seed))
        variables = first.release.variables
        F = np.flatnonzero(rng.random(len(variables)) < .6)
        own = variables.columns(F)
        order = np.arange(2 * law.p)
        order[own], order[own + law.p] = own + law.p, own
        world = Swapped(law, Z, own, seed)
        second = run(world, world.rows, Exchanged(seed, order))
        assert np.allclose(second.release.products, first.release.products[:, order], rtol=1e-6, atol=1e-4)
        assert np.allclose(second.release.starts, first.release.starts[:, order], rtol=1e-6, atol=1e-6)
        assert np.allclose(second.release.bounds, first.release.bounds, rtol=1e-9)
        expected = first.W.copy()
        expected[F] *= -1
        assert np.abs(second.W - expected).max() < 1e-6 * max(1e-300, np.abs(first.W).max())
        flipped += np.count_nonzero(expected[F])
    assert flipped or statistic is None


@pytest.mark.parametrize("name", WORLDS)
def test_the_gram_matrix_of_a_release_does_not_change_when_variables_are_swapped(name):
    law, groups = WORLDS[name]
    source = open_source(*drawn(law, 300), columns=law.names)
    method = ProductsMethod(epsilon=1.0, delta=1e-3, law=law, response_bound=2.0)
    r = method.release(method.open(source, groups=groups), simulation=True, random_state=0)
    H, h = r.pair()
    for j in range(len(r.variables)):
        assert np.allclose(swap(H, h, r.variables.columns([j]))[0], H, atol=1e-12)
        def W(A, b): return Statistic("lasso", "lcd", 2.0)(A, b, r.variables)
        assert antisymmetry_error(W, H, h, [j], r.variables) < 1e-6
    assert np.allclose(np.diag(H), 1) and np.linalg.eigvalsh(H)[0] > -1e-9


# ---------------------------------------------------------------- null signs and the error rate

DESIGN = {"columns": {
    "price": {"levels": ["low", "mid", "high"], "probabilities": [.5, .3, .2]},
    "brand": {"levels": ["a", "b", "c", "d"], "probabilities": [.4, .3, .2, .1]},
    "offer": {"levels": ["no", "yes"], "probabilities": [.8, .2]},
    "colour": {"levels": ["red", "blue", "grey"], "probabilities": [.2, .4, .4]},
    "logo": {"levels": [0, 1], "probabilities": [.5, .5]}}}


def survey(n, rng):
    "A table of randomised factors, and answers that depend on the first two, not linearly, and on each other"
    table = pd.DataFrame({name: rng.choice(np.array(one["levels"], dtype=object), n, p=one["probabilities"])
                          for name, one in DESIGN["columns"].items()})
    table["logo"] = table["logo"].astype(int)
    high = (table.price == "high").to_numpy()
    score = 2.0 * high * (table.brand != "a") + np.cumsum(rng.standard_normal(n)) / np.sqrt(n)
    return table.assign(y=(score + rng.standard_normal(n) > .5) * 1.0)


def test_null_signs_of_factors_from_a_dictionary_are_fair():
    "Levels of unlike probabilities, everything clipped: 3 nulls in 180 surveys, a bias of .17 is seen"
    signs, fdp = [], []
    for seed in range(180):
        rng = np.random.default_rng(seed)
        found = ask("products", survey(150, rng), "y", dictionary=DESIGN, epsilon=5.0, delta=1e-2,
                                rounds=1 + seed % 3, response_bound=.3, response_center=.5, row_bound=1.5,
                                fdr=.5, simulation=True, random_state=seed)
        assert found.names == ("price", "brand", "offer", "colour", "logo")
        W = Statistic("ols", "lcd")(*found.release.pair(), found.release.variables)
        signs.append(W[2:] > 0)
        fdp.append(error_rates(found.support, np.array([1, 1, 0, 0, 0]))[0])
    assert_fair_coin(np.array(signs))
    assert_rate_at_most(fdp, .5)


def test_factors_of_wrong_probabilities_are_unfair():
    "The attack above can see: the law says one half where the table has one in five"
    wrong = {"columns": {**DESIGN["columns"], "offer": {"levels": ["no", "yes"], "probabilities": [.5, .5]}}}
    signs = []
    for seed in range(60):
        found = ask("products", survey(400, np.random.default_rng(seed)), "y", dictionary=wrong, epsilon=50.0,
                                delta=1e-2, response_bound=1.0, rounds=1, simulation=True, random_state=seed)
        signs.append(Statistic("ols", "lcd")(*found.release.pair(), found.release.variables)[2] > 0)
    assert np.mean(signs) > .8


# ---------------------------------------------------------------- kept, added, shown

def test_a_release_is_kept_in_a_file(tmp_path):
    source = open_source(*drawn(MIXED, 500), columns=MIXED.names)
    found = ask("products", source, **{**PUBLIC, "law": MIXED}, simulation=True, random_state=0)
    again = ProductsRelease.load(found.release.save(tmp_path / "r.npz"))
    for name, value in vars(found.release).items():
        assert np.array_equal(value, getattr(again, name)), name
    other = select(again)
    assert (other.W == found.W).all() and other.guarantee == found.guarantee and other.notes == found.notes
    assert again.variables == found.release.variables and again.seed == found.release.seed


def sites(**more):
    method = ProductsMethod(**{**PUBLIC, "rounds": 1, **more})
    return [method.release(X[i::3], Y[i::3], simulation=True, random_state=i) for i in range(3)]


def test_releases_of_three_sites_add_up():
    parts = sites()
    total = sum(parts)
    assert total.n == 2000 and len(total.ids) == 3 and total.budget == parts[0].budget
    assert np.allclose(total.products, sum(part.products for part in parts))
    assert np.allclose(total.squares, sum(part.squares for part in parts))
    assert np.isclose(total.clamped, sum(part.clamped for part in parts))
    for name in ("product_sds", "square_sds", "clamped_sd"):
        assert np.allclose(getattr(total, name), np.sqrt(3) * getattr(parts[0], name))
    assert np.isfinite(select(total).W).all() and total.weight == parts[0].weight
    wider = sites(epsilon=2.0, delta=1e-4)
    assert (parts[0] + wider[1]).budget == Budget(2.0, 1e-3)


def test_what_cannot_be_added():
    one, two, _ = sites()
    assert "twice" in refusal(add, one, one) and "twice" in refusal(add, one + two, one)
    three = sites(rounds=3)
    for pair in ((one, three[0]), (three[0], one)): assert "several rounds" in refusal(add, *pair)
    for other, words in [(sites(row_bound=1.0), "row_bound"),
                         (sites(response_bound=1.0), "response_bound"),
                         (sites(response_center=1.0), "center"), (sites(law=Gaussian(0, ar1(6, .4))), "S"),
                         (sites(law=Gaussian(0, ar1(6, .5), s="equi")), "D"),
                         (sites(rows_per_person=2), "rows_per_person"),
                         (sites(ranges={"x0": (-1, 1)}), "weight")]:
        assert f"different {words}" in refusal(add, one, other[1]), words
    with pytest.raises(TypeError): one + 3


def test_a_selection_holds_nothing_exact_but_n(tmp_path):
    "Everything of a release is noisy or public: the same for every other table, but for what was drawn"
    options = dict(ROUNDS, response_bound=1.5)
    found = ask("products", X, Y, **options, sampler=Trusted())
    exact = draws_of(X, Y, response_bound=1.5)
    step = np.sqrt(2) * 2.0 * .5 / 4**BITS
    assert not np.isclose(found.release.products[0], exact[0][:-1] * step, rtol=1e-9).any()
    assert not np.isclose(found.release.squares[0], exact[0][-1] * .25 / 4**BITS, rtol=1e-9)
    other = ask("products", 2 * X[::-1], Y + 1, **options, sampler=Trusted()).release
    drawn = {"products", "squares", "starts", "bounds", "product_sds", "square_sds", "clamped", "ids"}
    for name, value in vars(found.release).items():
        if name not in drawn: assert np.array_equal(value, getattr(other, name)), name
    text = repr(found) + repr(found.release) + str(found.guarantee) + str(found.notes)
    assert f"{Y.mean():.3f}" not in text and str(key_of(3)[0]) not in text
    assert str(key_of(3)[0]).encode() not in found.release.save(tmp_path / "r").read_bytes()


def test_a_release_says_what_was_spent_and_what_is_promised():
    found = ask("products", X, Y, **{**PUBLIC, "response_bound": .5}, rows_per_person=3, sampler=Trusted())
    text = repr(found)
    assert "Spent (epsilon=1, delta=0.001) in 3 rounds; noise scale: products" in text
    assert "differ in any 3 rows (all rows of a person" in text and "counts as private" in text
    assert "the rows of x are independent draws of the" in text
    calm = ask("products", X, Y, **{**PUBLIC, "response_bound": 50.0}, rounds=1, sampler=Trusted())
    assert "rounds" not in calm.notes[0]
    assert "differ in one row." in str(calm.guarantee) and "FDR" not in str(calm.release.guarantee)


def test_a_ledger_is_charged_once_for_all_rounds(tmp_path):
    ledger = Ledger(tmp_path / "l", epsilon=3.0, delta=1e-2)
    ProductsMethod(**ROUNDS).release(X, Y, sampler=Trusted(), ledger=ledger)
    entry, = ledger.entries
    assert np.isclose(entry.mu, MU) and entry.what == "products" and entry.unit == "1 row"
    with pytest.raises(MemoryError):
        ProductsMethod(**ROUNDS).release(X, Y, sampler=Dying("products 1"), ledger=ledger)
    assert len(ledger.entries) == 2  # what was drawn is spent
    tight = Ledger(tmp_path / "t", epsilon=.5, delta=1e-3)
    names = unread([f"x{j}" for j in range(6)])
    method = ProductsMethod(**ROUNDS)
    assert "epsilon" in refusal(method.release, names, sampler=Unused(), ledger=tight)


def test_without_a_word_a_release_is_drawn_by_opendp():
    found = ask("products", X, Y, **{**PUBLIC, "delta": 1e-4}, rounds=2)
    assert np.isfinite(found.W).all() and "OpenDP" in " ".join(found.notes) and not found.release.simulated
    assert found.guarantee.lines()[0].startswith("Privacy: (epsilon=1, delta=0.0001)-differential privacy")


def test_one_row_and_one_column_get_an_answer():
    one = Gaussian(0, np.eye(1))
    options = {**PUBLIC, "law": one, "simulation": True}
    for n in (1, 2): assert len(ask("products", X[:n, :1], Y[:n], **options).W) == 1
    for y in (np.zeros(50), np.full(50, 1e308), -np.eye(50)[0] * 1e300):
        assert np.isfinite(ask("products", X[:50], y, **PUBLIC, simulation=True, random_state=0).W).all()


def test_statistics_of_ones_own_see_pairs_and_answer_for_variables():
    def largest(A, b):
        assert b.shape == (12,)
        one, two = np.abs(b[:6]), np.abs(b[6:])
        return np.array([one[:3].max() - two[:3].max(), *(one - two)[3:]])
    group = {"g": ["x0", "x1", "x2"]}
    found = ask("products", X, Y, **PUBLIC, groups=group, statistic=largest, simulation=True, random_state=0)
    assert found.names == ("g", "x3", "x4", "x5") and len(found.W) == 4 and found.signs[0] == 0
    def one_sided(A, b): return np.append(np.abs(b[0]) - np.abs(b[6]), (np.abs(b[:6]) - np.abs(b[6:]))[3:])
    assert len(ask("products", X, Y, **PUBLIC, groups=group, statistic=one_sided, simulation=True).W) == 4
    def wrong(A, b): return np.abs(b[2:6])
    source = unread([f"x{j}" for j in range(6)])
    sentence = refusal(ask, "products", source, **PUBLIC, groups=group, statistic=wrong, sampler=Unused())
    assert "antisymmetric" in sentence
    with_offset = ask("products", X, Y, **PUBLIC, offset=0, simulation=True, random_state=0)
    assert "modified" in str(with_offset.guarantee) and len(with_offset) >= len(select(with_offset.release))


# ---------------------------------------------------------------- refusals

def of_all_rows(X, U): return U + X.mean()


BAD = [dict(epsilon=0), dict(epsilon=None), dict(epsilon=9e5), dict(delta=0), dict(delta=None),
       dict(response_bound=None), dict(response_bound=-1), dict(response_bound="private"),
       dict(response_bound=np.inf), dict(row_bound=-1),
       dict(row_bound="max"), dict(response_bound=1e-60), dict(response_bound=1e149), dict(row_bound=1e60),
       dict(row_bound=1e-100), dict(response_center=np.nan), dict(response_center="a"), dict(rounds=0),
       dict(rounds=1.5), dict(rows_per_person=0), dict(ranges={"age": (0, 1)}), dict(ranges={"x0": (1, 0)}),
       dict(ranges=[1]), dict(law=None), dict(law="normal"), dict(law=Gaussian(0, np.eye(2))),
       dict(law=of_all_rows), dict(law=Gaussian), dict(law=PUBLIC), dict(law=FACTORS), dict(fdr=0),
       dict(offset=2), dict(statistic="lasso"), dict(statistic=len), dict(groups={"g": ["x0", "x9"]}),
       dict(groups=3), dict(sampler=3)]


def words(bad): return ", ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in bad.items())


@pytest.mark.parametrize("bad", BAD, ids=words)
def test_refused_before_anything_is_drawn_or_read(bad):
    source = unread([f"x{j}" for j in range(6)])
    sentence = refusal(ask, "products", source, **{**PUBLIC, "sampler": Unused(), **bad})
    assert len(sentence) > 30 and "\n" not in sentence


def test_bounds_far_from_one_get_an_answer():
    for bound in (1e-50, 1e50):
        for row_bound in (1e-50, 1.0, 1e50):
            options = dict(PUBLIC, response_bound=bound, row_bound=row_bound, rounds=3)
            found = ask("products", X, Y, **options, simulation=True, random_state=0)
            assert np.isfinite(found.W).all() and found.W.any()


def test_sources_that_do_not_fit_are_refused_before_anything_is_drawn():
    def sentence(*data, **more):
        return refusal(ask, "products", *data, **{**PUBLIC, **more}, sampler=Unused())
    assert "rounds=2 needs several passes" in sentence(iter([(X, Y)]), rounds=2)
    assert "pass the rows" in sentence(open_source(X, Y)(Clip(2.0, 3.0)))
    facts = {"columns": {"a": {"range": [0, 1], "missing": .5}, "b": {"range": [0, 1]}}}
    table = pd.DataFrame({"a": [.5, None, 1], "b": [0, 1, .5], "y": [1.0, 2, 3]})
    two = Gaussian(0, np.eye(2), ["a", "b"])
    assert "stand-ins for missing values" in sentence(table, "y", law=two, dictionary=facts)
    assert "random_state belongs to simulations" in refusal(ask, "products", X, Y, **PUBLIC, random_state=1)


@pytest.mark.parametrize("y_bad", [np.nan, np.inf])
def test_bad_rows_are_refused_before_anything_is_drawn(y_bad):
    y = np.where(np.arange(len(Y)) == 7, y_bad, Y)
    sentence = refusal(ask, "products", X, y, **PUBLIC, sampler=Unused())
    assert "NaN or infinite values in column 'y'" in sentence and "7" not in sentence


def test_too_many_rows_are_refused(monkeypatch):
    monkeypatch.setattr(method_products, "MOST_ROWS", 1999)
    with pytest.raises(InputError, match="split the data"): ask("products", X, Y, **PUBLIC, sampler=Unused())


def test_ranges_of_the_dictionary_clip_originals_and_knockoffs():
    facts = {"columns": {"a": {"range": [-1, 1]}, "b": {"range": [-9, 9]}}}
    table = pd.DataFrame(X[:, :2], columns=["a", "b"]).assign(y=Y)
    law = Gaussian(0, ar1(2, .5), ["a", "b"])
    method = ProductsMethod(**{**PUBLIC, "law": law}, ranges={"b": (-2, 2)})
    source = method.open(table, "y", facts)
    assert [list(part) for part in method._ranges_of(source)] == [[-1, -2], [1, 2]]
    r = replace(method, row_bound=50.0).release(source, sampler=Silent(), random_state=1)
    both = np.hstack([X[:, :2], knockoffs_of(law, X[:, :2], 1)])
    both = np.clip(both, [-1, -2, -1, -2], [1, 2, 1, 2])
    assert np.allclose(r.products[0], both.T @ np.clip(Y, -1, 1), atol=2)


# ---------------------------------------------------------------- findings

def found_in(**options):
    rng = stream(8, "findings")
    X = rng.standard_normal((4000, 6)) @ np.linalg.cholesky(ar1(6, .5)).T
    y = X @ [.5, 0, .5, 0, .5, 0] + rng.standard_normal(4000)
    given = dict(PUBLIC, epsilon=5.0) | options
    r = ProductsMethod(**given).release(X, y, simulation=True, random_state=0)
    return r, {finding.subject: (finding.gain, finding) for finding in r.findings()}


def test_bounds_that_are_far_off_are_told():
    calm, nothing = found_in()
    assert nothing == {} and "whether the rows follow the distribution" in calm.unknown
    assert "Lower response_bound" in found_in(response_bound=30.0)[1]["response bound"][1].change
    effect, finding = found_in(row_bound=10.0)[1]["row bound"]
    assert "4.1 times the usual norm" in finding.found and "about 2.4;" in finding.change
    assert effect > 1 and "row bound" not in found_in(row_bound=4.0)[1]


def test_the_share_of_the_noise_of_privacy():
    assert found_in(epsilon=.05)[0].noise_share() > .9 > .3 > found_in(epsilon=50.0)[0].noise_share()


def test_pairs_of_the_law_are_named_and_what_is_one_variable_is_not():
    S = np.eye(6)
    S[0, 1] = S[1, 0] = .98
    X = stream(9, "pair").standard_normal((3000, 6)) @ np.linalg.cholesky(S).T
    y = X[:, 0] + stream(9, "noise").standard_normal(3000)
    options = dict(PUBLIC, law=Gaussian(0, S), epsilon=3.0, simulation=True, random_state=0)
    found = ask("products", X, y, **options)
    assert found.release.collinear() == [("x0", "x1", .98)]
    assert "collinear columns" in [finding.subject for finding in found.diagnosis]
    grouped = ask("products", X, y, **options, groups={"g": ["x0", "x1"]})
    assert "collinear columns" not in [finding.subject for finding in grouped.diagnosis]


def test_factors_of_a_law_have_a_diagnosis():
    source = open_source(drawn(MIXED, 500)[0], stream(1, "null").standard_normal(500), columns=MIXED.names)
    found = ask("products", source, **{**PUBLIC, "law": MIXED}, simulation=True, random_state=0)
    assert not len(found) and found.diagnosis[0].subject in ("number of candidates", "signal and noise")


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["x", "y"])
def test_values_that_are_not_finite_are_refused_with_their_column(bad, where):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 6)), rng.standard_normal(300)
    if where == "x": X[200, 3] = bad
    else: y[200] = bad
    column = "'x3'" if where == "x" else "'y'"
    said = refusal(ask, "products", X, y, law=LAW, epsilon=1.0, delta=1e-3, response_bound=1.0)
    assert "NaN or infinite" in said and column in said


def test_finite_values_of_any_size_are_not_refused():
    "Though their checksum overflows"
    X, y = np.zeros((300, 6)), np.full(300, -1.7e308)
    X[::2] = 1.7e308
    found = ask("products", X, y, law=LAW, epsilon=1.0, delta=1e-3, response_bound=1.0, simulation=True)
    assert found.release.n == 300


def test_effects_are_least_squares_on_the_products_of_the_originals():
    "Against the formula with dense matrices; in the units of the columns"
    law = Gaussian([1.0, -2, 3], [[4, 1, 0], [1, 1, 0], [0, 0, 9]])
    rng = np.random.default_rng(0)
    X = law.draw(open_uniforms(rng, (3000, 3)))
    y = X @ [.5, 0, -.2] + rng.standard_normal(3000)
    method = ProductsMethod(law=law, epsilon=3.0, delta=1e-3, response_bound=5.0)
    release = method.release(X, y, simulation=True, random_state=0)
    products, variance, noise = release.combined()
    A = release.n * release.weight * np.block([[release.S, release.S - release.D],
                                               [release.S - release.D, release.S]])
    inverse = np.linalg.inv(noise * np.eye(6) + variance * A)
    V = np.linalg.inv(A[:3] @ inverse @ A[:, :3])
    beta = V @ A[:3] @ inverse @ products
    T = np.linalg.inv(np.diag([2.0, 1, 3])) # of single columns
    found = release.estimates()
    assert np.allclose(found.estimate, T @ beta) and np.allclose(found.se, np.sqrt(np.diag(T @ V @ T)))
    assert np.abs((found.estimate - [.5, 0, -.2]) / found.se).max() < 4.5
    assert select(release).estimate is None # no rule reads them
    assert "has no estimate" in refusal(replace(release, units=np.empty((0, 0))).estimates)
