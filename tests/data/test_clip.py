"Clip: every row within its bounds, whatever the numbers are, and no row depends on another."
import json
import warnings
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.testing import refusal
from dp_knockoff.data import clip as clip_module
from dp_knockoff.data.clip import BITS, INTERCEPT, Clip, on_grid, squared_norms
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import ExactMoments, Moments
from same_rows import told

ANY = st.floats(allow_nan=False, allow_infinity=False)
EDGES = st.sampled_from([1e150, 1e153, 1e154, -1e155, 1.7e308])
HUGE = st.floats(1e149, 1e308) | st.floats(-1e308, -1e149) | EDGES


@st.composite
def tables(draw):
    "Rows of all magnitudes, and bounds for them"
    n, p = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    number = draw(st.sampled_from([ANY, HUGE, ANY | HUGE, st.floats(-9, 9)]))
    cells = draw(st.lists(number, min_size=n * (p + 1), max_size=n * (p + 1)))
    Z = np.array(cells).reshape(n, p + 1)
    intercept = draw(st.booleans())
    half = st.floats(1e-140, 1e140)
    ranges = {f"x{j}": (-a, a) for j in range(p) if draw(st.booleans()) for a in [draw(half)]}
    start = draw(st.just(()) | st.lists(st.floats(-1e3, 1e3), min_size=p + intercept, max_size=p + intercept))
    bound = st.floats(1e-3, 1e3) | st.sampled_from([1e-90, 1e140])
    ones = draw(st.none() | st.floats(1e-3, 1e3))
    clip = Clip(draw(bound), draw(bound), ranges, intercept=intercept, start=start, ones=ones)
    return Z[:, :p], Z[:, p], clip


def results(X, y, clip):
    "Row, response and weight of each row, side by side"
    return np.column_stack(clip.bind(tuple(f"x{j}" for j in range(X.shape[1])))(X, y)[:3])


def dependent(X, y, clip) -> list:
    "Numbers of the rows that come out differently when clipped alone: bit for bit"
    together = results(X, y, clip)
    assert np.isfinite(together).all()
    alone = [results(X[i:i + 1], y[i:i + 1], clip)[0] for i in range(len(y))]
    return [i for i, row in enumerate(alone) if row.tobytes() != together[i].tobytes()]


@given(tables())
def test_each_row_alone_gives_the_same_bits(table):
    assert not dependent(*table)


@given(tables())
def test_every_finite_row_is_in_bounds(table):
    X, y, clip = table
    Z, t, w, cut = clip.bind(tuple(f"x{j}" for j in range(X.shape[1])))(X, y)
    assert Z.shape == (len(y), X.shape[1] + clip.intercept)
    assert (np.linalg.norm(Z / clip.design_bound, axis=1) <= 1 + 1e-14).all()
    assert (np.abs(t) <= clip.response_bound).all() and ((0 < w) & (w <= 1)).all()
    assert cut[0] == (w < 1).sum() and 0 <= cut[1] <= len(y)


# the grid

def steps(X, y, clip):
    "Rows and responses in whole steps"
    return on_grid(*clip.bind(tuple(f"x{j}" for j in range(X.shape[1])))(X, y)[:2], clip)


def exact_norms(A):
    "Squared norms in Python's integers"
    return [sum(int(v)**2 for v in row[:-1]) for row in A]


@given(tables())
def test_no_row_is_beyond_its_bound_in_integers(table):
    X, y, clip = table
    A = steps(X, y, clip)
    assert np.array_equal(A, np.rint(A)) and (np.abs(A[:, -1]) <= 2**BITS).all()
    assert max(exact_norms(A)) <= 2**36 == 4**BITS
    assert squared_norms(A).tolist() == exact_norms(A)


WIDTHS = st.sampled_from([1, 2, 3, 17, 300, 5000])


@given(st.integers(0, 2**32 - 1), WIDTHS, st.floats(-300, 300), st.booleans())
def test_no_long_row_is_beyond_its_bound_in_any_direction(seed, width, magnitude, intercept):
    "Rows at the bound, where rounding could carry them beyond it; the bound is nearly reached, too"
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((9, width))
    X[0], X[1], X[2] = np.sign(X[0]), 0, np.exp(3 * X[2])
    X[1, 0] = 1
    clip = Clip(float(10 ** rng.uniform(-3, 3)), 1.0, intercept=intercept)
    A = steps(X * 10.0**magnitude, np.ones(9), clip)
    assert max(exact_norms(A)) <= 2**36
    assert width > 300 or max(exact_norms(A)) > (2**18 - 2 * np.sqrt(width + 1) - 2)**2 or magnitude < 4


@given(tables())
def test_rounding_moves_an_entry_by_half_a_step(table):
    "Unless the row had to be shortened once more, by one part in 2^18 and less than a step"
    X, y, clip = table
    Z, t, _, _ = clip.bind(tuple(f"x{j}" for j in range(X.shape[1])))(X, y)
    A = on_grid(Z, t, clip)
    with np.errstate(over="ignore"):
        assert (np.abs(A[:, :-1] - Z / clip.row_step) <= .5 + 1e-6).all()
        assert (np.abs(A[:, -1] - t / clip.response_step) <= .5 + 1e-6).all()


def test_rows_that_float_error_left_too_long_are_shortened_by_themselves():
    clip = Clip(1.0, 1.0, intercept=False)
    Z = np.array([[1.0, 0.0], [.8, .6], [np.nextafter(1, 2), 3e-6], [.70711, .70711], [.1, .1]])
    A = on_grid(Z, np.array([1.0, -1.0, np.nextafter(1, 2), 0, 0]), clip)
    assert max(exact_norms(A)) <= 2**36 and A[:, -1].tolist() == [2**18, -2**18, 2**18, 0, 0]
    assert A[0].tolist() == [2**18, 0, 2**18] and A[4, :-1].tolist() == [26214, 26214]  # others stay
    alone = np.vstack([on_grid(Z[i:i + 1], np.zeros(1), clip) for i in range(5)])
    assert (alone[:, :-1] == A[:, :-1]).all()


def test_truncating_instead_would_shrink_every_row():
    "Rounding to nearest leaves no bias: the mean error of an entry is far below that of rounding toward zero"
    X = np.abs(np.random.default_rng(0).standard_normal((20_000, 3)))
    clip = Clip(10.0, 1.0)
    Z, t, _, _ = clip.bind(("x0", "x1", "x2"))(X, np.zeros(20_000))
    error = on_grid(Z, t, clip)[:, :3] - Z[:, :3] / clip.row_step
    assert abs(error.mean()) < .01 and np.isclose(error.std(), 1 / np.sqrt(12), rtol=.02)


WILD = np.tile([1e150, 1e153], (1000, 1)), np.full(1000, 1e150)


def test_replacing_a_row_changes_one_row():
    "Once, a row that overflowed made all rows of its block be clamped at 1e150"
    X1, y = WILD
    X2 = X1.copy()
    X2[0] = 1e155
    for intercept in (True, False):
        clip = Clip(1.0, 1.0, intercept=intercept)
        changed = (results(X1, y, clip) != results(X2, y, clip)).any(axis=1)
        assert changed.tolist() == [True] + [False] * 999
        moved = Moments.from_data(X1, y, clip=clip).XtX - Moments.from_data(X2, y, clip=clip).XtX
        assert np.linalg.norm(moved) <= np.sqrt(2) * clip.design_bound**2


def test_clamping_all_rows_of_a_block_is_noticed(monkeypatch):
    def all_rows(Z, X, wild):
        p = X.shape[1]
        Z[:, :p] = np.clip(Z[:, :p], -1e150, 1e150)
        return np.sqrt(np.einsum("ij,ij->i", Z[wild], Z[wild]))
    monkeypatch.setattr(clip_module, "_tame", all_rows)
    X, y = WILD[0][:5].copy(), WILD[1][:5]
    X[0] = 1e155
    assert dependent(X, y, Clip(1.0, 1.0)) == [1, 2, 3, 4]


@pytest.mark.parametrize("p", [50, 4096, 9000])
@pytest.mark.parametrize("order", ["C", "F"])
def test_wide_rows_do_not_depend_on_their_place(p, order):
    rng = np.random.default_rng(0)
    X, y = np.asarray(rng.standard_normal((7, p)), order=order), np.ones(7)
    clip = Clip(2.0, 1.0, start=rng.standard_normal(p + 1))
    assert not dependent(X, y, clip)
    Z = np.column_stack([X, np.ones(7)])
    weights = clip.longest(p + 1) / np.linalg.norm(Z, axis=1)
    assert np.allclose(results(X, y, clip)[:, -1], weights, rtol=1e-12)


def test_place_in_a_long_block_does_not_matter():
    X, y, _ = linear_model(20_000, p=7, k=2, random_state=0)
    clip = Clip(2.0, 1.0, start=np.arange(8.0))
    together = results(X, y, clip)
    for i in range(0, 20_000, 997): assert (results(X[i:i + 1], y[i:i + 1], clip) == together[i]).all()
    half = np.vstack([results(X[:9_999], y[:9_999], clip), results(X[9_999:], y[9_999:], clip)])
    assert (half == together).all()


def test_the_three_steps():
    X, y, _ = linear_model(500, p=3, k=2, amplitude=3, random_state=0)
    for intercept, low in ((True, -1.0), (False, -5.0)):
        start = np.arange(3.0 + intercept)
        center = .5 * intercept
        clip = Clip(1.5, 1.2, {"x1": (low, 5.0)}, center, intercept, start)
        Z, t, w, cut = clip.bind(("x0", "x1", "x2"))(X, y)
        z = np.column_stack([X, *[np.ones(500)] * intercept])
        z[:, 1] = (np.clip(X[:, 1], low, 5) - (low + 5) / 2) / ((5 - low) / 2)
        longest = np.sqrt(1.5**2 + intercept) * (1 - np.sqrt(3 + intercept) / 2**19)
        assert np.allclose(w, np.minimum(1, longest / np.linalg.norm(z, axis=1)), rtol=1e-13)
        residual = (y - center) * w - w * (z @ start)
        assert np.allclose(Z, w[:, None] * z) and np.allclose(t, np.clip(residual, -1.2, 1.2))
        assert cut == ((w < 1).sum(), (np.abs(residual) > 1.2).sum()) and min(cut) > 50


def test_row_bound_bounds_rows_of_x():
    "A row of x within the bound is left alone, a longer one is not: with an intercept or without"
    for intercept in (True, False):
        f = Clip(5.0, 100.0, intercept=intercept).bind(("x0", "x1"))
        inside, outside = np.array([[3.0, 3.999]]), np.array([[3.0, 4.001]])
        Z, t, w, cut = f(inside, np.ones(1))
        assert w[0] == 1 and t[0] == 1 and Z[0, :2].tolist() == [3.0, 3.999] and cut == (0, 0)
        assert f(outside, np.ones(1))[2][0] < 1
    assert Clip(3.0, 1.0).design_bound == np.sqrt(10) and Clip(3.0, 1.0, intercept=False).design_bound == 3


def test_the_column_of_ones_is_a_third_of_the_row_bound():
    "At least 1, and what is given wins; the design's bound is that of a row of x with it"
    for row_bound, one in ((1e-90, 1.0), (.5, 1.0), (3.0, 1.0), (3.3, 1.1), (30.0, 10.0), (3e140, 1e140)):
        clip = Clip(row_bound, 1.0)
        assert clip.one == pytest.approx(one, rel=1e-15) and clip.ones is None
        assert clip.design_bound == np.hypot(row_bound, clip.one)
        for ones in (1.0, .25, 7.0):
            given = replace(clip, ones=ones)
            assert given.one == ones and given.design_bound == np.hypot(row_bound, ones) and given != clip
            without = replace(given, intercept=False)
            assert without.one == 0 and without.design_bound == row_bound  # there is no such column
    assert replace(Clip(30.0, 1.0), row_bound=60.0).one == 20.0  # follows its bound, unless it was given
    assert replace(Clip(30.0, 1.0, ones=5.0), row_bound=60.0).one == 5.0


@pytest.mark.parametrize("row_bound, ones, one", [(2.0, None, 1.0), (30.0, None, 10.0), (30.0, 1.0, 1.0),
                                                  (2.0, 4.0, 4.0)])
def test_rows_are_scaled_with_their_entry_of_the_column_of_ones(row_bound, ones, one):
    clip = Clip(row_bound, 1e6, ones=ones)
    limit = np.hypot(row_bound, one)
    X = np.array([[0.0, 0.0], [.6, .8], [.6 * row_bound, .7999 * row_bound],
                  [3.0 * row_bound, 4.0 * row_bound], [1e200, 1e200]])
    Z, t, w, cut = clip.bind(("x0", "x1"))(X, np.full(5, 7.0))
    assert Z[:3].tolist() == np.column_stack([X[:3], np.full(3, one)]).tolist() and cut == (2, 0)
    assert w[:3].tolist() == [1, 1, 1] and t[:3].tolist() == [7, 7, 7]
    longest = clip.longest(3)
    assert limit * (1 - 1e-5) < longest < limit
    assert np.allclose(w[3], longest / np.hypot(5 * row_bound, one), rtol=1e-13) and w[4] < 1e-140
    assert np.allclose(Z[3:, 2], w[3:] * one, rtol=1e-13) and np.allclose(t, 7 * w, rtol=1e-13)
    assert np.allclose(np.linalg.norm(Z[3:], axis=1), longest, rtol=1e-13)
    m = Moments.from_data(X, np.full(5, 7.0), clip=clip)
    assert np.isclose(m.XtX[-1, -1], one**2 * (w**2).sum(), rtol=1e-4)
    assert np.allclose(m.XtX, Z.T @ Z, atol=2e-5 * limit**2)


def test_the_entry_of_the_ones_is_a_unit_of_the_intercept_only():
    "Whatever it is, slopes are the same and the intercept is the coefficient times it"
    X, y, beta = linear_model(5000, p=3, k=2, amplitude=2.0, random_state=0)
    found = [np.linalg.solve(m.XtX, m.Xty) for m in
             (Moments.from_data(X, y + 5, clip=Clip(30.0, 100.0, ones=ones)) for ones in (None, 1.0, 4.0))]
    for one, b in zip((10.0, 1.0, 4.0), found):
        assert np.abs(b[:3] - beta).max() < .1 and abs(one * b[3] - 5) < .1
        assert np.allclose(b * [1, 1, 1, one], found[1], atol=1e-3)


def test_rows_of_zeros_keep_their_weight():
    X = np.array([[0.0], [-0.0], [5e-324]])
    Z, t, w, cut = Clip(1.0, 1.0, intercept=False).bind(("x0",))(X, np.ones(3))
    assert w.tolist() == [1, 1, 1] and t.tolist() == [1, 1, 1] and np.isfinite(Z).all() and cut == (0, 0)


def test_no_warning_for_huge_numbers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        results(*WILD, Clip(1.0, 1.0, {"x0": (-1e-200, 1e-200)}))


def test_extreme_rows_are_scaled_not_refused():
    "Finite values never decide whether there is an answer: huge ones, and ones that overflow in public units"
    X, y, _ = linear_model(60, p=3, k=1, random_state=0)
    for value, unit in ((1e200, 1.0), (1e300, 1e-10), (-1e308, 1e-300)):
        Z = X.copy()
        Z[5, 0] = value
        clip = Clip(2.0, 5.0, {"x0": (-unit, unit)})
        m = Moments.from_data(Z, y, clip=clip)
        assert m.longest <= 4**BITS and np.isfinite(m.XtX).all() and np.isfinite(m.Xty).all()
    wild = Moments.from_data(X, y * 1e305, clip=Clip(2.0, 5.0, start=[1e140] * 4))
    assert wild.longest <= 4**BITS and wild.sums[-1, -1] == 60 * 4**BITS  # every response is at its bound


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_not_clamped(bad):
    X, y, _ = linear_model(60, p=3, k=1, random_state=0)
    X[7] = 1e200  # a wild row beside it hides nothing
    for clip in (Clip(2.0, 5.0), Clip(2.0, 5.0, {"x0": (-3, 3)}, intercept=False, start=[1, 2, 3])):
        A, b = X.copy(), y.copy()
        A[5, 0], b[9] = bad, bad
        for data, name, row in (((A, y), "x0", 5), ((X, b), "y", 9)):
            sentence, details = told(Moments.from_data, *data, clip=clip)
            assert sentence == (f"X has missing, non-numeric, NaN or infinite values in column {name!r}: "
                                "drop or impute those rows, or give a dictionary with missing = ...")
            assert details == f"In rows 0 to 59 there are 1 in {name!r}; the first in row {row}."
        good = results(X, y, clip)
        for i, found in ((5, results(A, y, clip)), (9, results(X, b, clip))):
            others = np.arange(60) != i
            assert np.isnan(found[i]).any() and (found[others] == good[others]).all()


def test_scaling_keeps_the_coefficients():
    X, y, beta = linear_model(100_000, p=5, k=2, amplitude=2.0, rho=.5, random_state=0)
    m = Moments.from_data(X, y, clip=Clip(.8, 100., intercept=False))
    assert np.abs(np.linalg.solve(m.XtX, m.Xty) - beta).max() < .05 and m.row_norm <= .8 * (1 + 1e-12)


def test_a_clip_survives_an_archive(tmp_path):
    X, y, _ = linear_model(60, p=2, k=1, random_state=0)
    clip = Clip(np.int64(2), np.float32(5), {"x1": [np.float32(-3), 4]}, np.float32(.5), start=np.arange(3))
    assert Clip(**json.loads(json.dumps(asdict(clip)))) == clip
    m = Moments.from_data(X, y, clip=clip)
    m.save(tmp_path / "m.npz")
    loaded = ExactMoments.load(tmp_path / "m.npz")
    assert loaded.clip == clip and loaded.cut == m.cut and (loaded.sums == m.sums).all()
    assert replace(clip, row_bound=3.0) != clip and replace(clip, row_bound=2.0) == clip
    own = replace(clip, ones=4.0)
    Moments.from_data(X, y, clip=own).save(tmp_path / "own.npz")
    assert ExactMoments.load(tmp_path / "own.npz").clip == own != clip


def test_the_ones_of_a_clip_are_a_plain_number():
    clip = Clip(2.0, 5.0, ones=np.float32(1.5))
    assert type(clip.ones) is float and Clip(**json.loads(json.dumps(asdict(clip)))) == clip


def test_names_of_the_design():
    assert Clip(1.0, 1.0).names(("a", "b")) == ("a", "b", INTERCEPT)
    assert Clip(1.0, 1.0, intercept=False).names(("a", "b")) == ("a", "b")


def made(*args, **kwargs): return lambda: Clip(*args, **kwargs)


def bound(names, **kwargs): return lambda: Clip(1.0, 1.0, **kwargs).bind(names)


BAD = {
    "no row bound": (made(0, 1.0), "row_bound=0 is not a finite number > 0"),
    "endless row bound": (made(np.inf, 1.0), "row_bound=inf"),
    "no response bound": (made(1.0, -1), "response_bound=-1"),
    "no ones": (made(1.0, 1.0, ones=0), "ones=0 is not a finite number > 0"),
    "negative ones": (made(1.0, 1.0, ones=-1.0), "ones=-1.0"),
    "endless ones": (made(1.0, 1.0, ones=np.inf), "ones=inf"),
    "ones in words": (made(1.0, 1.0, ones="1"), "ones='1'"),
    "tiny ones": (made(1.0, 1.0, ones=1e-101), "ones=1e-101 is so small"),
    "tiny": (made(1.0, 1e-101), "response_bound=1e-101 is so small"),
    "intercept": (made(1.0, 1.0, intercept="yes"), "intercept='yes'"),
    "centre": (made(1.0, 1.0, response_center="3"), "response_center='3'"),
    "centre without intercept": (made(1.0, 1.0, None, 1.0, False), "no intercept to take it up"),
    "ranges": (made(1.0, 1.0, [(0, 1)]), "is not a dict"),
    "range": (made(1.0, 1.0, {"a": 3}), "the range 3 of column 'a'"),
    "turned range": (made(1.0, 1.0, {"a": (2, 1)}), "low first"),
    "range without width": (made(1.0, 1.0, {"a": (0, 5e-324)}), "not a pair (low, high)"),
    "range off zero": (made(1.0, 1.0, {"a": (0, 1)}, intercept=False), "use a range (-a, a)"),
    "start": (made(1.0, 1.0, start=[1.0, np.inf]), "start=(1.0, inf)"),
    "unknown column": (bound(("a",), ranges={"b": (0, 1)}), "ranges name columns that X does not have ('b')"),
    "reserved name": (bound(("a", INTERCEPT)), "rename it"),
    "length of start": (bound(("a",), start=[1]), "start has 1 coefficients for 2 columns"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_bounds_get_one_sentence(case):
    call, words = BAD[case]
    sentence = refusal(call)
    assert words in sentence and "\n" not in sentence, sentence


# ---------------------------------------------------------------- ranges and limits

X_OUTSIDE = np.array([[25.0, 1], [-25, 1], [5, 1], [10, 1]])


def test_ranges_clip_single_values_and_become_units():
    "A range means the same everywhere: values beyond it count as its ends"
    Z = Clip(9.0, 9.0, ranges={"a": (0, 10)}).bind(("a", "b"))(X_OUTSIDE, np.ones(4))[0]
    assert Z[:, :2].tolist() == [[1, 1], [-1, 1], [0, 1], [1, 1]] and X_OUTSIDE[0, 0] == 25


def test_limits_clip_single_values_and_keep_units():
    clip = Clip(20.0, 9.0, limits={"a": (0, 10)})
    Z = clip.bind(("a", "b"))(X_OUTSIDE, np.ones(4))[0]
    assert Z[:, :2].tolist() == [[10, 1], [0, 1], [5, 1], [10, 1]]


def test_limits_of_a_column_with_a_range_say_nothing_more():
    "As 0.2 saved the bounds of a dictionary: the range alone says the same now"
    with_both = Clip(9.0, 9.0, ranges={"a": (0, 10)}, limits={"a": (0, 10), "b": (0, 1)})
    assert with_both == Clip(9.0, 9.0, ranges={"a": (0, 10)}, limits={"b": (0, 1)})


def test_a_column_with_a_range_and_limits_is_clipped_to_these_in_units_of_that():
    clip = Clip(90.0, 9.0, ranges={"a": (0, 10)}, limits={"a": (-20, 20), "b": (0, 1)})
    Z = clip.bind(("a", "b"))(X_OUTSIDE, np.ones(4))[0]
    assert Z[:, :2].tolist() == [[3, 1], [-5, 1], [0, 1], [1, 1]]
    assert clip.ends == {"a": (-20, 20), "b": (0, 1)} and clip.largest(("a", "c")).tolist() == [5, 1]


def test_limits_leave_what_is_not_finite_to_be_found():
    bound = Clip(9.0, 9.0, limits={"a": (0, 10)}).bind(("a",))
    for bad in (np.nan, np.inf, -np.inf): assert np.isnan(bound(np.array([[bad]]), np.ones(1))[0]).all()


def test_limits_are_checked_compared_and_kept():
    clip = Clip(1.0, 1.0, limits={"a": [0, 1]})
    assert clip.limits == {"a": (0, 1)} and Clip(**asdict(clip)) == clip != Clip(1.0, 1.0)
    assert Clip(1.0, 1.0).limits == {}
    assert "limits name columns that X does not have ('a')" in refusal(clip.bind, ("b",))
    for bad in ({"a": (1, 0)}, {"a": 3}, [1]): refusal(Clip, 1.0, 1.0, limits=bad)
    assert Clip(1.0, 1.0, limits={"a": (3, 5)}, intercept=False).limits  # they move no zero


# ---------------------------------------------------------------- a few rows at a time

@pytest.mark.parametrize("p", [1, 50, 1000, 5000])
def test_parts_are_all_rows_once_and_few_enough_for_exact_sums(p):
    n, parts = 3 * 2**18 // (p + 1) + 5, []
    def some(rows):
        parts.append(np.arange(n)[rows])
        return len(parts[-1])
    assert clip_module.sum_parts(some, n, p) == n and np.array_equal(np.concatenate(parts), np.arange(n))
    assert len(parts) > 1 or n <= 512
    assert max(map(len, parts)) <= min(2**17, max(512, 2**18 // p))


def test_memory_is_used_again_only_inside_sum_parts():
    def both(rows): return [scratch("a", 3, 4), scratch("a", 2, 5), scratch("b", 3, 4)]
    scratch = clip_module.scratch
    one, two, other = clip_module.sum_parts(both, 1, 1)
    assert np.shares_memory(one, two) and not np.shares_memory(one, other) and two.shape == (2, 5)
    assert not np.shares_memory(scratch("a", 3, 4), one)
    def fails(rows): raise KeyError
    with pytest.raises(KeyError): clip_module.sum_parts(fails, 1, 1)
    assert not np.shares_memory(scratch("a", 3, 4), one)  # an error ends it, too


def test_rows_brought_into_bounds_by_hand_stay_as_they_are():
    "What `bind` returns outside a pass is not written over by a pass"
    X, y, _ = linear_model(3000, p=4, k=1, random_state=0)
    clip = Clip(1.0, 1.0, ranges={"x0": (-1, 1)})
    Z = clip.bind(("x0", "x1", "x2", "x3"))(X, y)[0]
    kept = Z.copy()
    Moments.from_data(X + 1, y, clip=clip)
    assert np.array_equal(Z, kept)


SHAPES = [(1, 1), (3, 5), (700, 6), (100, 51), (4, 5000)]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", SHAPES)
def test_many_rows_at_once_are_as_row_by_row(shape, order):
    rng = np.random.default_rng(0)
    A = np.array(rng.standard_normal(shape), order=order)
    numbers = rng.standard_normal(max(1, shape[1] - 2))
    expected, wide = A.copy(), slice(len(numbers))
    expected[:, wide] -= numbers
    clip_module.by_column(np.subtract, A, numbers)
    assert np.array_equal(A, expected)
    clip_module.within(A, numbers - .1, numbers + .1)
    expected[:, wide] = np.clip(expected[:, wide], numbers - .1, numbers + .1)
    assert np.array_equal(A, expected)


def test_rows_go_onto_the_grid_in_their_place_only_inside_sum_parts():
    X, y, _ = linear_model(3000, p=4, k=1, random_state=0)
    clip = Clip(1.0, 1.0)
    bound, places = clip.bind(("x0", "x1", "x2", "x3")), []
    def some(rows):
        Z, t, _, _ = bound(X[rows], y[rows])
        A = on_grid(Z, t, clip)
        places.append(np.shares_memory(Z, A))
        return [A.copy()]
    parts = np.concatenate(clip_module.sum_parts(some, *X.shape))
    Z, t, _, _ = bound(X, y)
    before = Z.copy()
    assert np.array_equal(on_grid(Z, t, clip), parts) and np.array_equal(Z, before) and all(places)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["x", "y"])
def test_the_grid_refuses_what_is_not_finite(bad, where):
    X, y = np.ones((3, 2)), np.ones(3)
    if where == "x": X[1, 0] = bad
    else: y[1] = bad
    for clip in (Clip(1.0, 1.0), Clip(1.0, 1.0, ranges={"a": (0, 2)}), Clip(1.0, 1.0, limits={"a": (0, 2)})):
        Z, t, _, _ = clip.bind(("a", "b"))(X, y)
        with pytest.raises(FloatingPointError): on_grid(Z, t, clip)
