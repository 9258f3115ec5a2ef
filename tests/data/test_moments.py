"Moments: every form of data gives the same numbers, any split the same selection, bad data one sentence."
import os
import re
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.archives import save_arrays
from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.clip import BITS, Clip, on_grid
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import (
    MOST_ROWS,
    ExactMoments,
    Moments,
    UnitMoments,
    block_moments,
    exact_products,
    fresh_id,
    joined,
    named,
    summariser,
)
from dp_knockoff.data.rows import block_rows
from dp_knockoff.filters.methods import knockoff_filter
from dp_knockoff.knockoffs.fixed_x import knockoffs_of
from dp_knockoff.knockoffs.statistics import Statistic
from same_rows import identical, told

X, y, _ = linear_model(120, p=4, k=2, random_state=0)
NAMES = list("abcd")
FRAME = pd.DataFrame(X, columns=NAMES).assign(y=y)


def same(m, reference, tol=1e-12):
    assert m.n == reference.n
    assert np.allclose(m.mean, reference.mean, rtol=tol, atol=tol)
    assert np.isclose(m.row_norm, reference.row_norm)
    assert np.allclose(m.scatter, reference.scatter, rtol=tol, atol=tol * np.abs(reference.scatter).max())


# collecting

def test_tables():
    for table in (FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)):
        identical(Moments.from_data(table, "y"), Moments.from_data(X, y, NAMES))


def test_float32_is_not_summed_in_float32():
    A = (linear_model(50_000, p=2, k=1, random_state=0)[0] + 100).astype(np.float32)
    m = Moments.from_data(A, A[:, 0])
    exact = np.cov(A.astype(np.float64).T, bias=True) * len(A)
    assert np.allclose(m.scatter[:2, :2], exact, rtol=1e-12, atol=1e-12 * exact.max())


@pytest.mark.parametrize("order", ["C", "F"])
def test_many_blocks_and_memory_orders(order):
    A, b, _ = linear_model(30_000, p=40, k=2, random_state=1)
    m = Moments.from_data(np.asarray(A, order=order), b)
    assert np.allclose(m.XtX, A.T @ A) and np.allclose(m.Xty, A.T @ b) and np.isclose(m.yty, b @ b)
    assert np.allclose(m.n * m.mean, np.append(A.sum(0), b.sum()))


@pytest.mark.parametrize("clip", [None, Clip(3.0, 2.0)], ids=["as they are", "clipped"])
def test_the_number_of_threads_changes_no_digit(monkeypatch, clip):
    A, b, _ = linear_model(60_000, p=40, k=2, random_state=1)
    many = Moments.from_data(A, b, clip=clip)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    identical(Moments.from_data(A, b, clip=clip), many)


@pytest.mark.parametrize("p", [1, 7, 50, 3000])
def test_blocks_are_added_one_by_one(p, monkeypatch):
    lengths, right = [], Moments.__add__
    monkeypatch.setattr(Moments, "__add__", lambda a, b: lengths.append(b.n) or right(a, b))
    n = 2 * block_rows(p) + 1
    Moments.from_data(np.broadcast_to(np.linspace(0, 1, n)[:, None], (n, p)), np.zeros(n))
    assert lengths == [block_rows(p), 1]


def test_a_summariser_can_be_sent_to_another_process():
    import pickle
    for clip in (None, Clip(1.0, 2.0, {"b": (0, 4)}, start=range(5))):
        f = pickle.loads(pickle.dumps(summariser(NAMES, clip)))
        identical(f(X, y), Moments.from_data(X, y, NAMES, clip=clip))


def test_a_summariser_says_at_once_what_does_not_fit():
    assert "ranges name columns" in refusal(summariser, NAMES, Clip(1.0, 1.0, {"age": (0, 9)}))


def test_row_norm_is_a_norm():
    assert Moments.from_data([[3., 4.], [0., 1.]], [1., 2.]).row_norm == 5


def test_centring_keeps_its_digits():
    base = linear_model(500, p=3, k=1, random_state=0)[0]
    for shift in (1e3, 1e6, 1e9):
        M = block_moments(base + shift, base[:, 0] + shift)[1]
        centred = base - base.mean(0)
        expected = centred.T @ centred
        assert np.allclose(M[:3, :3], expected, rtol=0, atol=3e-16 * shift * 500 + 1e-11), shift


# adding

def split(A, b, cuts, **kwargs):
    "Moments of the parts between the cuts"
    return [Moments.from_data(u, v, **kwargs) for u, v in zip(np.split(A, cuts), np.split(b, cuts))]


def test_streams_of_tables():
    parts = (Moments.from_data(pl.from_pandas(FRAME[i:i + 50]), "y") for i in (0, 50, 100))
    same(sum(parts), Moments.from_data(FRAME, "y"))


CUTS = st.sets(st.integers(1, 119), max_size=12)


@given(cuts=CUTS, shift=st.sampled_from([0, 10, 1e4]), order=st.randoms(use_true_random=False))
def test_any_split_gives_the_same_selection(cuts, shift, order):
    A, b, _ = linear_model(120, p=12, k=6, amplitude=.6, rho=.4, random_state=7)
    A = A + shift
    parts = split(A, b, sorted(cuts))
    order.shuffle(parts)
    whole, parted = (knockoff_filter(m, random_state=0) for m in (Moments.from_data(A, b), sum(parts)))
    assert whole.selected == parted.selected and (whole.signs == parted.signs).all()
    assert np.allclose(whole.W, parted.W, rtol=1e-7, atol=1e-7)


@given(cuts=CUTS)
def test_any_split_of_clipped_rows_gives_the_same_moments(cuts):
    whole, total = Moments.from_data(X, y, clip=CLIP), sum(split(X, y, sorted(cuts), clip=CLIP))
    identical(total, whole)
    assert min(whole.cut) > 0 and len(set(total.ids)) == len(cuts) + 1


# exact sums

CLIP = Clip(1.5, 1.0, {"x1": (-1, 4)}, response_center=.5, start=range(5))


def by_hand(A, b, clip):
    "The sums in Python's integers, which know no rounding"
    Z, t, _, _ = clip.bind(tuple(f"x{j}" for j in range(A.shape[1])))(A, b)
    rows = on_grid(Z, t, clip).astype(int).astype(object)
    return rows.T @ rows


def test_exact_sums_are_sums_of_integers():
    m = Moments.from_data(X, y, clip=CLIP)
    assert m.sums.dtype == np.int64 and (m.sums == by_hand(X, y, CLIP)).all()
    Z, t, _, cut = CLIP.bind(("x0", "x1", "x2", "x3"))(X, y)
    assert m.cut == cut and m.n == 120 and m.p == 5 and m.longest <= 4**BITS
    scale = CLIP.design_bound**2 * 120 / 2**17
    assert np.allclose(m.XtX, Z.T @ Z, rtol=0, atol=scale) and np.allclose(m.Xty, Z.T @ t, rtol=0, atol=scale)
    assert np.isclose(m.yty, t @ t, rtol=1e-4)
    assert np.isclose(m.row_norm, np.linalg.norm(Z, axis=1).max(), rtol=1e-4)


@given(order=st.permutations(range(120)), chunk=st.integers(1, 120), threads=st.sampled_from([1, 2, 7]))
def test_exact_sums_depend_on_neither_order_nor_chunks_nor_threads(order, chunk, threads):
    A, b = X[order], y[order]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.cpu_count", lambda: threads)
        patch.setattr("dp_knockoff.data.rows.block_rows", lambda p: 9)
        parts = split(A, b, range(chunk, 120, chunk), clip=CLIP)
    identical(sum(parts), Moments.from_data(X, y, clip=CLIP))
    identical(sum(parts[::-1]), Moments.from_data(X, y, clip=CLIP))


def test_one_row_at_a_time_rounds_nothing():
    "Finding 5: merging chunks of one row drifted with n^2, beyond what was left for rounding"
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((5000, 2)) + 3, rng.standard_normal(5000)
    clip = Clip(1.0, 1.0)
    f = summariser(("x0", "x1"), clip)
    total = sum(f(A[i:i + 1], b[i:i + 1]) for i in range(5000))
    assert (total.sums == Moments.from_data(A, b, clip=clip).sums).all()


def test_one_row_moves_the_sums_by_its_own_products_and_nothing_else():
    "Findings 1 and 5: the distance of neighbours is that of two rows, in exact arithmetic"
    rng = np.random.default_rng(0)
    for value in (1e155, -1.7e308, 5e-324, 3.0):
        A, b = np.tile([1e150, 1e153], (1000, 1)), np.full(1000, 1e150)
        A[500:] = rng.standard_normal((500, 2))
        B, c = A.copy(), b.copy()
        B[7], c[7] = value, -value
        for clip in (Clip(1.0, 1.0), Clip(1.0, 1.0, intercept=False)):
            moved = Moments.from_data(A, b, clip=clip).sums - Moments.from_data(B, c, clip=clip).sums
            rows = by_hand(A[7:8], b[7:8], clip) - by_hand(B[7:8], c[7:8], clip)
            assert (moved == rows).all()
            assert sum(int(v)**2 for v in moved[:-1, :-1].ravel()) <= 2 * 2**72


def test_blocks_of_more_rows_than_add_up_exactly_are_split():
    n = 2**17 + 1
    full = np.full((n, 1), 1.0)  # the longest row there is, and the largest response
    f = summariser(("x0",), Clip(1.0, 1.0, intercept=False))
    one = f(full[:1], full[:1, 0]).sums
    assert (f(full, full[:, 0]).sums == n * one).all() and one[-1, -1] == 2**36
    assert one[0, 0] > 2**36 - 2**19


def test_too_many_rows_are_refused_by_their_number_alone():
    names, clip = ("x0",), Clip(1.0, 1.0, intercept=False)
    def of_rows(n, *ids): return ExactMoments(n, np.zeros((2, 2), np.int64), names, clip, (0, 0), 0, 0, ids)
    assert MOST_ROWS == 2**26 and of_rows(2**26).n == 2**26 and (of_rows(2**25) + of_rows(2**25)).n == 2**26
    for call in (lambda: of_rows(2**26 + 1), lambda: of_rows(2**26) + of_rows(1)):
        assert refusal(call) == (
            "n=67108865 rows are more than 67,108,864, "
            "which is what exact sums have room for: split the data into several releases")
    most = np.full((2, 2), 2**26 * 2**36)  # that many of the longest rows
    assert most.dtype == np.int64 and (most == 2**62).all()


def test_exact_products_are_those_of_python():
    "Of matrices and of vectors, also where more rows are summed than float64 holds exactly"
    rng = np.random.default_rng(0)
    A, B = rng.integers(-2**18, 2**18 + 1, (2, 300, 3)).astype(float)
    found = exact_products(A, B)
    assert found.dtype == np.int64 and (found == A.astype(int).astype(object).T @ B.astype(int)).all()
    assert (exact_products(A, B[:, 1]) == found[:, 1]).all()
    n = 2**18 + 3
    ones = np.full((n, 1), 2.0**18)
    ones[0] = 2.0**18 - 1  # 2^36 n - 2^18 is not a float64
    assert exact_products(ones, np.full(n, 2.0**18)).tolist() == [n * 2**36 - 2**18]


# weights

def weights_of(A, clip):
    "Squared weights of rows, from their norms; the responses do not matter"
    design = np.column_stack([A, np.ones(len(A))]) if clip.intercept else A
    return np.minimum(1, clip.longest(design.shape[1]) / np.linalg.norm(design, axis=1))**2


@pytest.mark.parametrize("clip", [Clip(1.5, 1.0), Clip(1.0, 5.0, intercept=False), Clip(50.0, 1.0)], ids=str)
def test_weights_are_the_sum_of_the_squared_weights_of_the_rows(clip):
    m = Moments.from_data(X, y, clip=clip)
    assert isinstance(m.weights, int) and m.weights == np.rint(weights_of(X, clip) * 2**18).sum()
    parts = split(X, y, [7, 50], clip=clip)
    assert sum(parts).weights == m.weights == sum(part.weights for part in parts)
    assert m.weights == Moments.from_data(X, 100 * y, clip=clip).weights
    assert (m.weights == 120 * 2**18) == (clip.row_bound == 50)


def test_weights_follow_from_rows_in_public_units():
    "Ranges come first: the weight is that of the row as it is summed"
    ranges = {"x1": (-10, 30), "x2": (0, 1)}
    m = Moments.from_data(X, y, clip=Clip(1.5, 1.0, ranges))
    inside = np.clip(X, [-np.inf, -10, 0, -np.inf], [np.inf, 30, 1, np.inf])
    units = (inside - [0, 10, .5, 0]) / [1, 20, .5, 1]
    assert m.weights == np.rint(weights_of(units, m.clip) * 2**18).sum()


def test_one_row_moves_the_weights_by_at_most_one():
    clip, moved = Clip(1.0, 1.0, intercept=False), []
    def weights(row): return Moments.from_data(np.vstack([X, row]), np.append(y, 0.0), clip=clip).weights
    for far in (0.0, 1e-300, .5, 3.0, 1e9, 1e155, 1.7e308): moved.append(weights(np.full(4, far)))
    assert max(moved) - min(moved) == 2**18


# ids

@pytest.mark.parametrize("clip", [None, CLIP], ids=["as they are", "clipped"])
def test_nothing_is_added_twice(tmp_path, clip):
    "Finding 4"
    a, b, c = split(X, y, [40, 80], clip=clip)
    for left, right in ((a, a), (a + b, a), (a, b + a), (a + b, b + c), (sum([a, b, c]), c)):
        assert refusal(lambda: left + right) == (
            "these hold some of the same rows, which would be added twice: add each part once")
    assert (a + b + c).n == 120 and (a + b + c).ids == (*a.ids, *b.ids, *c.ids)
    (a + b).save(tmp_path / "m.npz")
    loaded = type(a).load(tmp_path / "m.npz")
    identical(loaded, a + b)
    assert loaded.ids == (a + b).ids and (loaded + c).n == 120
    assert "added twice" in refusal(lambda: loaded + b)
    assert "added twice" in refusal(sum, [a, a])


@pytest.mark.parametrize("clip", [None, CLIP], ids=["as they are", "clipped"])
def test_ids_are_random_and_say_nothing_about_rows(clip):
    ids = [Moments.from_data(X, y, clip=clip).ids for _ in range(50)]
    assert len(set(ids)) == 50 and all(len(one) == 1 for one in ids)
    assert all(re.fullmatch("[0-9a-f]{16}", one[0]) for one in ids)
    np.random.seed(0)
    first = fresh_id()
    np.random.seed(0)
    assert fresh_id() != first
    part = summariser(("x0", "x1", "x2", "x3"), clip)(X, y)
    assert part.ids == ()  # the pass names its sum
    assert joined(("a",), ("b", "c")) == ("a", "b", "c") and named(Moments.from_data(X, y)).n == 120


@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
@pytest.mark.parametrize("clip", [None, CLIP], ids=["as they are", "clipped"])
def test_saved_moments_are_for_their_owner(tmp_path, clip):
    "Finding 4: whoever can read them, can read the data"
    path = tmp_path / "m.npz"
    path.write_text("old")
    path.chmod(0o644)
    Moments.from_data(X, y, clip=clip).save(path)
    assert path.stat().st_mode & 0o777 == 0o600


def test_archives_of_another_version_get_a_sentence(tmp_path):
    m, path = Moments.from_data(X, y), tmp_path / "m.npz"
    header = dict(n=120, row_norm=m.row_norm, names=m.names, cut=(0, 0), clip=None)  # as 0.1 wrote them
    save_arrays(path, "moments", header, mean=m.mean, scatter=m.scatter)
    sentence = (f"{str(path)!r} was written by another version of this package: "
                "read it with that, or make it again")
    assert refusal(Moments.load, path) == sentence
    exact = dict(n=120, names=m.names, cut=(0, 0), longest=1, weights=1, ids=[])
    good, sums = {"row_bound": 1.0, "response_bound": 1.0}, np.zeros((len(m.names) + 1,) * 2, np.int64)
    without = {name: value for name, value in exact.items() if name != "weights"} # as 0.2 wrote them
    for header in (exact | {"clip": good | {"colour": 3}}, exact | {"clip": None}, without | {"clip": good}):
        save_arrays(path, "clipped moments", header, sums=sums)
        assert refusal(ExactMoments.load, path).endswith(("make it again", "ask for a new copy"))
    save_arrays(path, "clipped moments", exact | {"clip": good}, sums=sums)
    assert ExactMoments.load(path).weights == 1
    save_arrays(path, "clipped moments", exact | {"clip": None}, sums=sums)
    assert "holds clipped moments, not moments" in refusal(Moments.load, path)


def test_addition_commutes_and_single_rows_add_up():
    rows = [Moments.from_data(X[i:i + 1], y[i:i + 1]) for i in range(120)]
    same(sum(rows), Moments.from_data(X, y))
    assert (rows[0] + rows[1]).scatter.tolist() == (rows[1] + rows[0]).scatter.tolist()
    with pytest.raises(TypeError): rows[0] + 1
    with pytest.raises(TypeError): 1 + rows[0]


def test_saved_moments_are_the_same(tmp_path):
    for clip in (None, Clip(2.0, 3.0, {"a": (-1, 2)}, start=range(5))):
        m = Moments.from_data(FRAME, "y", clip=clip)
        m.save(tmp_path / "m.npz")
        loaded = type(m).load(tmp_path / "m.npz")
        identical(loaded, m)
        assert loaded.ids == m.ids and (loaded + Moments.from_data(FRAME, "y", clip=clip)).n == 240


# unit columns

def test_an_intercept_is_invisible():
    "Adding constants to columns and response changes neither the unit moments nor the selection"
    a = knockoff_filter(X + [0, 5, -300, 2], y + 77, random_state=0)
    b = knockoff_filter(X, y, random_state=0)
    assert np.allclose(a.W, b.W, rtol=1e-9)
    assert Moments.from_data(X, y).unit().n == 119 and Moments.from_data(X, y).unit(False).n == 120


def test_scale_does_not_matter():
    a = knockoff_filter(X * [1e-8, 1, 1e5, 3], y, random_state=0)
    assert np.allclose(a.W, knockoff_filter(X, y, random_state=0).W, rtol=1e-9)


def test_unit_moments_agree_with_least_squares():
    u = Moments.from_data(X + 4, y).unit()
    Z = np.column_stack([np.ones(120), X + 4])
    coef, rss = np.linalg.lstsq(Z, y, rcond=None)[:2]
    assert np.allclose(u.beta / u.C, coef[1:]) and np.isclose(u.rss, rss[0])
    lam, V = u.eigen
    assert np.allclose(V * lam @ V.T, u.Sigma) and (u.lam_min, u.lam_max) == (lam[0], lam[-1])


RESPONSES = {
    "constant": np.full(120, 3.3),
    "zero": np.zeros(120),
    "one row": np.eye(120)[7],
    "huge": y * 1e140,
    "far from zero": y + 1000,
    "ordinary": y,
}
DESIGNS = {
    "good": (X, ""),
    "constant": (np.column_stack([X, np.full(120, .1)]), "constant columns ('x4')"),
    "collinear": (np.column_stack([X, X[:, 2]]), "columns 'x2', 'x4' are collinear"),
    "too few rows": (X[:3], "n=3 rows for p=4 columns"),
}


@pytest.mark.parametrize("clip", [None, Clip(1.5, 2.0)], ids=["as they are", "clipped"])
@pytest.mark.parametrize("shift", [0, 100])
def test_no_digit_of_the_design_depends_on_the_response(clip, shift):
    A = np.tile(X, (3, 1)) + shift
    def design(response):
        m = sum(split(A, np.tile(response, 3), [100, 250], clip=clip))
        if clip: return m.sums[:-1, :-1].tobytes()
        return m.mean[:-1].tobytes() + m.scatter[:-1, :-1].tobytes()
    assert len({design(response) for response in RESPONSES.values()}) == 1


@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("intercept", [True, False])
def test_the_design_is_checked_without_a_look_at_the_response(design, intercept):
    A, words = DESIGNS[design]
    if design == "constant" and not intercept:
        A, words = np.column_stack([X, np.zeros(120)]), "zero columns ('x4')"
    found = set()
    for response in RESPONSES.values():
        m = Moments.from_data(A, response[:len(A)])
        blind = Moments(m.n, np.append(m.mean[:-1], np.nan), m.scatter.copy(), m.row_norm, m.names)
        blind.scatter[-1], blind.scatter[:, -1] = np.nan, np.nan
        for moments in (m, blind):
            if not words: assert moments.check_design(intercept) is None
            else: found.add(refusal(moments.check_design, intercept))
    assert len(found) == bool(words) and all(words in sentence for sentence in found)


def test_unit_refuses_what_check_design_refuses_and_an_empty_response():
    twins = Moments.from_data(np.column_stack([X, X[:, 2]]), y)
    assert refusal(twins.unit) == refusal(twins.check_design)
    flat = Moments.from_data(X, RESPONSES["constant"])
    assert flat.check_design() is None and "y is constant" in refusal(flat.unit)
    assert isinstance(flat.unit(False), UnitMoments)
    assert "y is zero" in refusal(Moments.from_data(X, np.zeros(120)).unit, False)
    assert "intercept='no'" in refusal(flat.check_design, "no")


@pytest.mark.parametrize("sizes", [(7, 11), (7, 11, 30, 1000), (1000, 30, 11, 7)], ids=str)
def test_a_constant_column_is_constant_in_spite_of_rounding(sizes):
    rng = np.random.default_rng(0)
    def chunk(n): return np.column_stack([rng.standard_normal(n), np.full(n, .1)]), rng.standard_normal(n)
    total = sum(Moments.from_data(*chunk(n)) for n in sizes)
    assert "constant columns ('x1')" in refusal(total.unit)


def test_a_scatter_below_zero_by_rounding_is_a_constant():
    m = Moments.from_data(X, y)
    scatter = m.scatter.copy()
    scatter[1], scatter[:, 1], scatter[1, 1] = 0, 0, -1e-20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "constant columns ('x1')" in refusal(Moments(120, m.mean, scatter, m.row_norm, m.names).unit)
        scatter = m.scatter.copy()
        scatter[-1, -1] = -1e-20
        assert "y is constant" in refusal(Moments(120, m.mean, scatter, m.row_norm, m.names).unit)


def test_an_intercept_costs_a_row():
    A, b, _ = linear_model(6, p=6, k=2, random_state=0)
    m = Moments.from_data(A, b)
    assert "n=6 rows for p=6 columns and an intercept" in refusal(m.unit)
    assert m.unit(intercept=False).n == 6


def nearly_equal_columns(cond):
    "A design of two unit columns with this condition number"
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((50, 3)))[0]
    return Q[:, :2] @ np.diag([1, 1 / cond]) @ [[1, 1], [1, -1]], Q[:, 2]


def test_condition_numbers_are_refused_from_1e5():
    assert Moments.from_data(*nearly_equal_columns(3e4)).unit(False).p == 2
    assert "collinear" in refusal(Moments.from_data(*nearly_equal_columns(3e5)).unit, False)


@pytest.mark.parametrize("seed", range(8))
def test_an_exact_response_leaves_no_negative_residual(seed):
    A, b, _ = linear_model(15, p=10, k=5, sigma=0, random_state=seed)
    m = Moments.from_data(A, b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert m.unit().rss >= 0
        assert "exact linear function" in refusal(knockoffs_of, m, sigma="estimate", random_state=seed)


def test_a_constant_column_is_fine_without_an_intercept():
    u = Moments.from_data(np.column_stack([X, np.ones(120)]), y).unit(intercept=False)
    assert u.p == 5


def test_collinear_columns_are_the_only_ones_named():
    rng = np.random.default_rng(0)
    for _ in range(30):
        A = rng.standard_normal((200, 12)) @ rng.standard_normal((12, 12))
        j, k = rng.choice(12, 2, replace=False)
        A[:, j] = A[:, k] * rng.choice([-2, .1, 30]) + 1e-9 * rng.standard_normal(200)
        sentence = refusal(lambda: Moments.from_data(A, A[:, 0]).unit())
        named = {name for name in (f"x{i}" for i in range(12)) if repr(name) in sentence}
        assert named == {f"x{j}", f"x{k}"}


# refusals

def with_value(value):
    A = X.copy()
    A[17, 1] = value
    return A


def of(*data, **kwargs):
    return lambda: Moments.from_data(*data, **kwargs)


def unit_of(*columns, response=y, intercept=True):
    "Unit moments of the design with more columns"
    return lambda: Moments.from_data(np.column_stack([X, *columns]), response).unit(intercept)


def added(*parts):
    return lambda: sum(part() for part in parts)


LONG = np.vstack([np.tile(X, (2000, 1)), with_value(np.nan)]), np.tile(y, 2001)
HOLES = pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "dose": [1., 2., 3.]})
BAD = {
    "NaN": (of(with_value(np.nan), y), "NaN or infinite values in column 'x1'", "the first in row 17."),
    "inf": (of(with_value(-np.inf), y), "NaN or infinite values in column 'x1'", "in row 17."),
    "NaN in y": (of(X, np.where(np.arange(120) == 3, np.nan, y)), "values in column 'y'", "in row 3."),
    "NaN in a named y": (of(HOLES.assign(dose=np.nan, a=1), "dose"), "values in column 'dose'", "3 in"),
    "NaN in a later block": (of(*LONG), "infinite values in column 'x1'", "in row 240017."),
    "null in a table": (of(pl.from_pandas(HOLES), "dose"), "infinite values in column 'a'", "1 in"),
    "null in pandas": (of(HOLES, "dose"), "column 'a'"),
    "arrow y with a null": (of(X[:3], pa.array([1., None, 2.])), "values in column 'y'", "in row 1."),
    "overflow": (of(X * 1e200, y), "squares overflow"),
    "names of a table": (of(pd.DataFrame(X), y, NAMES), "rename the table's columns"),
    "no rows": (of(X[:0], y[:0]), "X has no rows"),
    "widths": (added(of(X, y), of(X[:, :3], y)), "chunks of 4 and 3 columns"),
    "names": (added(of(X, y, NAMES), of(X, y, list("aBcd"))), "called 'b' in one chunk and 'B' in another"),
    "bounds": (added(of(X, y, clip=Clip(1., 1.)), of(X, y, clip=Clip(1., 2.))), "one and the same Clip"),
    "no bounds": (added(of(X, y, clip=Clip(1., 1., intercept=False)), of(X, y)), "one and the same Clip"),
    "intercept is a word": (unit_of(intercept="no"), "intercept='no'"),
    "tiny": (unit_of(X[:, 0] * 1e-160), "constant columns ('x4'), to twelve digits"),
    "constant": (unit_of(np.full(120, .1)), "constant columns ('x4')"),
    "zero without intercept": (unit_of(np.zeros(120), intercept=False), "zero columns ('x4')"),
    "duplicate": (unit_of(X[:, 2]), "columns 'x2', 'x4' are collinear"),
    "combination": (unit_of(X[:, 0] - 2 * X[:, 3]), "columns 'x0', 'x3', 'x4' are collinear"),
    "constant y": (unit_of(response=np.full(120, 3.3)), "y is constant"),
    "n < p": (lambda: Moments.from_data(X[:3], y[:3]).unit(), "n=3 rows for p=4 columns"),
    "n = p with intercept": (lambda: Moments.from_data(X[:4], y[:4]).unit(), "coefficients need n >= 5"),
    "n < 2p": (lambda: knockoffs_of(Moments.from_data(X[:8], y[:8])), "knockoffs need n >= 2p + 1 = 9"),
    "exact fit": (lambda: knockoffs_of(Moments.from_data(X, X[:, 1] + 2)), "exact linear function"),
}


def test_without_an_intercept_knockoffs_need_one_row_less():
    sentence = refusal(knockoffs_of, Moments.from_data(X[:7], y[:7]), intercept=False)
    assert "knockoffs need n >= 2p = 8" in sentence


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    call, words, *more = BAD[case]
    sentence, details = told(call)
    assert words in sentence and "\n" not in sentence + details, sentence
    assert all(part in details and part not in sentence for part in more), details


def test_refusals_do_not_depend_on_the_statistic():
    with pytest.raises(InputError):
        knockoff_filter(np.column_stack([X, X]), y, statistic=Statistic("ridge", penalty=1.))


def test_a_response_is_constant_by_its_own_size_not_that_of_a_column():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 3))
    X -= X.mean(0)
    y = 1e6 + 1e-9 * rng.standard_normal(50)
    assert "constant" in refusal(Moments.from_data(X, y).unit)
    assert Moments.from_data(X, y - 1e6 + 1e-3 * X[:, 0]).unit().rss > 0
