"Moments: every door gives the same numbers, any split gives the same selection, bad data gets one sentence."
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.filter import knockoff_filter
from dp_knockoff.ground import InputError, linear_model, refusal
from dp_knockoff.knockoffs import knockoffs
from dp_knockoff.moments import Moments, block_moments
from dp_knockoff.statistics import Statistic

X, y, _ = linear_model(120, p=4, k=2, random_state=0)
NAMES = list("abcd")
FRAME = pd.DataFrame(X, columns=NAMES).assign(y=y)


def same(m, reference, tol=1e-12):
    assert m.n == reference.n
    assert np.allclose(m.mean, reference.mean, rtol=tol, atol=tol) and np.isclose(m.row_norm, reference.row_norm)
    assert np.allclose(m.scatter, reference.scatter, rtol=tol, atol=tol * np.abs(reference.scatter).max())


@pytest.mark.parametrize("table", [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)], ids=["pandas", "polars", "arrow"])
def test_tables(table):
    m = Moments.from_data(table, "y")
    assert m.names == tuple(NAMES)
    same(m, Moments.from_data(X, y))


@pytest.mark.parametrize("response", [FRAME["y"], pl.Series("y", y), pa.chunked_array([y]), y[:, None], list(y), FRAME[["y"]]],
                         ids=["pandas", "polars", "arrow", "column", "list", "one-column frame"])
def test_responses(response):
    same(Moments.from_data(X, response), Moments.from_data(X, y))


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.uint8, bool, object])
def test_dtypes_are_summed_in_float64(dtype):
    A = (np.abs(X) * 3).astype(dtype)
    same(Moments.from_data(A, y), Moments.from_data(A.astype(np.float64), y), 1e-14)


def test_float32_is_not_summed_in_float32():
    A = (linear_model(50_000, p=2, k=1, random_state=0)[0] + 100).astype(np.float32)
    m = Moments.from_data(A, A[:, 0])
    exact = np.cov(A.astype(np.float64).T, bias=True) * len(A)
    assert np.allclose(m.scatter[:2, :2], exact, rtol=1e-12, atol=1e-12 * exact.max())


def test_nullable_integers_without_nulls_and_mixed_types():
    table = pd.DataFrame({"a": pd.array([1, 2, 3, 5], dtype="Int64"), "b": [True, False, True, True], "c": [.5, 1, 2, 8], "y": [1., 2., 3., 1.]})
    same(Moments.from_data(table, "y"), Moments.from_data(np.array([[1, 1, .5], [2, 0, 1], [3, 1, 2], [5, 1, 8]]), [1., 2, 3, 1]))


@pytest.mark.parametrize("order", ["C", "F"])
def test_many_blocks_and_memory_orders(order):
    A, b, _ = linear_model(30_000, p=40, k=2, random_state=1)
    m = Moments.from_data(np.asarray(A, order=order), b)
    assert np.allclose(m.XtX, A.T @ A) and np.allclose(m.Xty, A.T @ b) and np.isclose(m.yty, b @ b)
    assert np.allclose(m.column_sums, A.sum(0)) and np.isclose(m.y_sum, b.sum())


def test_the_number_of_threads_changes_no_digit(monkeypatch):
    A, b, _ = linear_model(60_000, p=40, k=2, random_state=1)
    many = Moments.from_data(A, b)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    one = Moments.from_data(A, b)
    assert (one.scatter == many.scatter).all() and (one.mean == many.mean).all()


def test_a_stream_holds_one_chunk_at_a_time():
    import tracemalloc

    def chunks():
        for k in range(50):
            yield linear_model(2000, p=20, k=2, random_state=k)[:2]

    Moments.from_chunks([next(chunks())])  # import what is needed
    tracemalloc.start()
    m = Moments.from_chunks(chunks())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert m.n == 100_000 and peak < 8 * 2000 * 20 * 8, peak  # eight chunks' worth, not fifty


def test_streams_of_tables():
    parts = (pl.from_pandas(FRAME[i:i + 50]) for i in (0, 50, 100))
    same(Moments.from_chunks(parts, y="y"), Moments.from_data(FRAME, "y"))


@given(cuts=st.sets(st.integers(1, 119), max_size=12), shift=st.sampled_from([0, 10, 1e4]), order=st.randoms(use_true_random=False))
def test_any_split_gives_the_same_selection(cuts, shift, order):
    A, b, _ = linear_model(120, p=12, k=6, amplitude=.6, rho=.4, random_state=7)
    A = A + shift
    cuts = sorted(cuts)
    parts = [Moments.from_data(u, v) for u, v in zip(np.split(A, cuts), np.split(b, cuts))]
    order.shuffle(parts)
    whole, split = (knockoff_filter(m, random_state=0) for m in (Moments.from_data(A, b), sum(parts)))
    assert whole.selected == split.selected and (whole.signs == split.signs).all()
    assert np.allclose(whole.W, split.W, rtol=1e-7, atol=1e-7)


def test_addition_commutes_and_single_rows_add_up():
    rows = [Moments.from_data(X[i:i + 1], y[i:i + 1]) for i in range(120)]
    same(sum(rows), Moments.from_data(X, y))
    assert (rows[0] + rows[1]).scatter.tolist() == (rows[1] + rows[0]).scatter.tolist()
    with pytest.raises(TypeError): rows[0] + 1


def test_centring_keeps_its_digits():
    base = linear_model(500, p=3, k=1, random_state=0)[0]
    for shift in (1e3, 1e6, 1e9):
        _, M, _ = block_moments(base + shift, base[:, 0] + shift)
        centred = base - base.mean(0)
        expected = centred.T @ centred
        assert np.allclose(M[:3, :3], expected, rtol=0, atol=3e-16 * shift * 500 + 1e-11), shift


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


def with_value(value, dtype=float):
    A = X.astype(dtype)
    A[17, 1] = value
    return A


frame_with = lambda **columns: FRAME.assign(**columns)  # noqa: E731

BAD = {
    "NaN": (lambda: Moments.from_data(with_value(np.nan), y), "column 'x1' has nan in row 17"),
    "inf": (lambda: Moments.from_data(with_value(-np.inf), y), "column 'x1' has -inf in row 17"),
    "NaN in y": (lambda: Moments.from_data(X, np.where(np.arange(120) == 3, np.nan, y)), "column 'y' has nan in row 3"),
    "NaN in a later chunk": (lambda: Moments.from_chunks([(X, y), (with_value(np.nan), y)]), "in row 137"),
    "NaN in a later block": (lambda: Moments.from_data(np.vstack([np.tile(X, (2000, 1)), with_value(np.nan)]), np.tile(y, 2001)), "in row 240017"),
    "null in a table": (lambda: Moments.from_data(pl.DataFrame({"a": [1, None, 3], "y": [1., 2., 3.]}), "y"), "column 'a' has nan in row 1"),
    "null in pandas": (lambda: Moments.from_data(pd.DataFrame({"a": pd.array([1, None, 3], dtype="Int64"), "y": [1., 2., 3.]}), "y"), "column 'a'"),
    "overflow": (lambda: Moments.from_data(X * 1e200, y), "squares overflow"),
    "length of y": (lambda: Moments.from_data(X, y[:-1]), "y has 119 entries but X has 120 rows"),
    "y is a matrix": (lambda: Moments.from_data(X, X), "y has shape (120, 4)"),
    "X is a vector": (lambda: Moments.from_data(y, y), "X has shape (120,)"),
    "ragged X": (lambda: Moments.from_data([[1, 2], [3]], [1, 2]), "rows of different lengths"),
    "no rows": (lambda: Moments.from_data(X[:0], y[:0]), "X has no rows"),
    "no columns": (lambda: Moments.from_data(X[:, :0], y), "X has no columns"),
    "only the target": (lambda: Moments.from_data(FRAME[["y"]], "y"), "X has no columns"),
    "text": (lambda: Moments.from_data(with_value("red", object), y), "column 'x1' of type str"),
    "text table": (lambda: Moments.from_data(frame_with(b="red"), "y"), "column 'b'"),
    "polars text": (lambda: Moments.from_data(pl.from_pandas(frame_with(b="red")), "y"), "column 'b'"),
    "arrow text": (lambda: Moments.from_data(pa.Table.from_pandas(frame_with(b="red")), "y"), "column 'b'"),
    "category": (lambda: Moments.from_data(frame_with(b=pd.Categorical(["u", "v"] * 60)), "y"), "column 'b'"),
    "dates": (lambda: Moments.from_data(frame_with(b=pd.date_range("2020-01-01", periods=120)), "y"), "column 'b'"),
    "polars dates": (lambda: Moments.from_data(pl.from_pandas(frame_with(b=pd.date_range("2020-01-01", periods=120))), "y"), "column 'b' of type Datetime"),
    "polars categories": (lambda: Moments.from_data(pl.DataFrame({"a": [1., 2.], "b": pl.Series(["1", "2"], dtype=pl.Categorical), "y": [1., 2.]}), "y"), "column 'b' of type Categorical"),
    "arrow dates": (lambda: Moments.from_data(pa.Table.from_pandas(frame_with(b=pd.date_range("2020-01-01", periods=120))), "y"), "column 'b' of type Datetime"),
    "text target": (lambda: Moments.from_data(frame_with(y="red"), "y"), "column 'y'"),
    "masked X": (lambda: Moments.from_data(np.ma.masked_array(X, X > 2), y), "masked array"),
    "masked y": (lambda: Moments.from_data(X, np.ma.masked_array(y, y > 2)), "masked array"),
    "other index": (lambda: Moments.from_data(FRAME[NAMES], FRAME["y"].sort_values()), "different indexes"),
    "duplicate names in pandas": (lambda: Moments.from_data(pd.DataFrame(X, columns=list("aabc")), y), "'a' stands more than once"),
    "ragged y": (lambda: Moments.from_data(X[:2], [[1], [2, 3]]), "y has entries of different lengths"),
    "huge integer": (lambda: Moments.from_data(with_value(10**400, object), y), "column 'x1'"),
    "arrow y with a null": (lambda: Moments.from_data(X[:3], pa.array([1., None, 2.])), "column 'y' has nan in row 1"),
    "names is a number": (lambda: Moments.from_data(X, y, names=5), "names=5"),
    "chunks is nothing": (lambda: Moments.from_chunks(None), "chunks is a NoneType"),
    "intercept is a word": (lambda: Moments.from_data(X, y).unit("no"), "intercept='no'"),
    "tiny": (lambda: Moments.from_data(X * 1e-160, y).unit(), "to twelve digits"),
    "n = p with intercept": (lambda: Moments.from_data(X[:4], y[:4]).unit(), "coefficients need n >= 5"),
    "complex": (lambda: Moments.from_data(X + 1j, y), "column 'x0' of type complex128"),
    "sparse": (lambda: Moments.from_data(__import__("scipy.sparse").sparse.csr_matrix(X), y), "X.toarray()"),
    "lazy": (lambda: Moments.from_data(pl.from_pandas(FRAME).lazy(), "y"), "X.collect()"),
    "unknown target": (lambda: Moments.from_data(FRAME, "z"), "y='z' is not a column"),
    "target of an array": (lambda: Moments.from_data(X, "y"), "X is not a table"),
    "names twice": (lambda: Moments.from_data(X, y, names=["a", "b", "a", "c"]), "'a' stands more than once"),
    "names of a table": (lambda: Moments.from_data(FRAME, "y", names=NAMES), "rename the table's columns"),
    "too few names": (lambda: Moments.from_data(X, y, names=["a"]), "names has 1 entries but X has 4 columns"),
    "clash of a frame": (lambda: Moments.from_data(pd.DataFrame(X, columns=[1, "1", 2, 3]), y), "'1' stands more than once"),
    "empty iterator": (lambda: Moments.from_chunks(iter(())), "the iterator yielded nothing"),
    "not pairs": (lambda: Moments.from_chunks([X, X]), "yield (X, y) pairs"),
    "chunk widths": (lambda: Moments.from_chunks([(X, y), (X[:, :3], y)]), "chunks of 4 and 3 columns"),
    "chunk names": (lambda: Moments.from_chunks([FRAME, FRAME.rename(columns={"b": "B"})], y="y"), "called 'b' in one chunk and 'B' in another"),
    "constant": (lambda: Moments.from_data(np.column_stack([X, np.full(120, .1)]), y).unit(), "constant columns ('x4')"),
    "zero without intercept": (lambda: Moments.from_data(np.column_stack([X, np.zeros(120)]), y).unit(False), "zero columns ('x4')"),
    "duplicate": (lambda: Moments.from_data(np.column_stack([X, X[:, 2]]), y).unit(), "columns 'x2', 'x4' are collinear"),
    "combination": (lambda: Moments.from_data(np.column_stack([X, X[:, 0] - 2 * X[:, 3]]), y).unit(), "columns 'x0', 'x3', 'x4' are collinear"),
    "constant y": (lambda: Moments.from_data(X, np.full(120, 3.3)).unit(), "y is constant"),
    "n < p": (lambda: Moments.from_data(X[:3], y[:3]).unit(), "n=3 rows for p=4 columns"),
    "n < 2p": (lambda: knockoffs(Moments.from_data(X[:8], y[:8])), "knockoffs need n >= 2p + 1 = 9"),
    "n < 2p, no intercept": (lambda: knockoffs(Moments.from_data(X[:7], y[:7]), intercept=False), "knockoffs need n >= 2p = 8"),
    "exact fit": (lambda: knockoffs(Moments.from_data(X, X[:, 1] + 2)), "exact linear function"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_sentence(case):
    call, words = BAD[case]
    sentence = refusal(call)
    assert words in sentence and "\n" not in sentence, sentence


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


def test_refusals_do_not_depend_on_the_statistic():
    with pytest.raises(InputError): knockoff_filter(np.column_stack([X, X]), y, statistic=Statistic("ridge", penalty=1.))
