"Whole releases on arbitrary neighbouring tables; damaged files; the noise of real releases."
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import fires
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import moments_of
from dp_knockoff.evidence.audit import Leak, _assert_white, _squared_distance, record, replay
from dp_knockoff.filters.estimate import PrivateMoments
from dp_knockoff.filters.labels_method import LabelsMethod
from dp_knockoff.filters.law_tests import LawTestsMethod
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.filters.private_moments import BALANCE, Residuals, on_directions
from dp_knockoff.filters.products_method import FIRST_CLAMP, ProductsMethod
from dp_knockoff.knockoffs.laws import Blocks, Gaussian, Independent, Levels
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.privacy.samplers import NumpySampler

BUDGET = Budget(1.0, 1e-3)
ALLOWED = Fraction(analytic_ratio(BUDGET))**2
PROMISE = dict(epsilon=1.0, delta=1e-3)
LARGEST = 1.7e308

# ---------------------------------------------------------------- tables of anything finite

EXTREMES = [0.0, -0.0, 1.0, -1.0, .1, 3.5, 5e-324, -5e-324, 2.3e-308, 1e-160, 1e-30,
            1e9, 1e149, -1e153, 1e155, -1e300, LARGEST, -LARGEST]
ANY = st.one_of(st.floats(-LARGEST, LARGEST), st.sampled_from(EXTREMES), st.integers(-4, 4).map(float))
TAME = st.one_of(st.floats(-4, 4), st.integers(-3, 3).map(float))
DTYPES = {"float64": np.float64, "float32": np.float32, "int64": np.int64, "uint8": np.uint8, "bool": bool,
          "object": object}


@st.composite
def tables(draw, numbers):
    "Rows [x, y]: drawn one by one, constant, or few values repeated"
    n, p = draw(st.integers(3, 8)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["all", "constant", "repeated"]))
    many = {"all": n, "constant": 1, "repeated": 2}[kind]
    rows = draw(st.lists(st.lists(numbers, min_size=p + 1, max_size=p + 1), min_size=many, max_size=many))
    return np.array([rows[i % many] for i in range(n)])


@st.composite
def neighbours(draw, numbers=ANY):
    "Two tables that differ in one row"
    one = draw(tables(numbers))
    two = one.copy()
    width = one.shape[1]
    two[draw(st.integers(0, len(one) - 1))] = draw(st.lists(numbers, min_size=width, max_size=width))
    assume(one.tobytes() != two.tobytes())
    return one, two


def of_type(table, dtype):
    "The numbers as far as this type has them"
    limits = {"float32": 3e38, "int64": 2.0**53, "uint8": 255.0}
    if dtype in limits: table = np.clip(table, 0 if dtype == "uint8" else -limits[dtype], limits[dtype])
    if dtype == "object": return np.array([[int(v) if abs(v) < 2**60 and v % 1 == 0 else v for v in row]
                                           for row in table.tolist()], dtype=object)
    return table.astype(DTYPES[dtype])


# ---------------------------------------------------------------- every way in

def names(table): return [*(f"x{j}" for j in range(table.shape[1] - 1)), "y"]


def as_frame(table): return pd.DataFrame({name: table[:, j] for j, name in enumerate(names(table))})


def as_text(v): return str(int(v)) if abs(v) < 2**53 and v == int(v) else repr(float(v))


def in_csv(table, folder):
    lines = [",".join(names(table)), *(",".join(map(as_text, row)) for row in table.tolist())]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return folder / "t.csv", "y"


def in_parquet(table, folder):
    pl.from_pandas(as_frame(table.astype(float))).write_parquet(folder / "t.parquet")
    return folder / "t.parquet", "y"


def in_npy(table, folder):
    np.save(folder / "X.npy", table[:, :-1])
    np.save(folder / "y.npy", table[:, -1])
    return folder / "X.npy", str(folder / "y.npy")


def in_chunks(table, _):
    def chunks(): return ((table[i:i + 2, :-1], table[i:i + 2, -1]) for i in range(0, len(table), 2))
    return chunks, None


WAYS = {"array": lambda t, _: (t[:, :-1], t[:, -1]),
        "pandas": lambda t, _: (as_frame(t), "y"),
        "polars": lambda t, _: (pl.from_pandas(as_frame(t.astype(float))), "y"),
        "arrow": lambda t, _: (pa.Table.from_pandas(as_frame(t.astype(float))), "y"),
        "csv": in_csv, "parquet": in_parquet, "npy": in_npy, "chunks": in_chunks}
TYPED = ("array", "pandas", "npy", "chunks")


def compared(run, one, two, seed=0):
    "Squared distance along one transcript; a Leak if anything but values differs, a refusal included"
    first = record(run, (one, None), NumpySampler(seed))
    second = replay(run, (two, None), first)
    for a, b in zip(first.draws, second.draws): assert a.law == "lattice" and np.array_equal(a.scale, b.scale)
    return first, _squared_distance(first.draws, second.draws)


CONFIGURATIONS = st.fixed_dictionaries(dict(
    row_bound=st.sampled_from([1e-20, .1, 1.0, 3.0, 1e20, "private"]),
    response_bound=st.sampled_from([1e-20, 1.0, 7.0, 1e20, "private"]),
    rounds=st.sampled_from([1, 2, 3, 4, None]),
    intercept=st.booleans(),
    balance=st.sampled_from([BALANCE, .3, .6, 3.0]),
    shifted=st.sampled_from(["", "fixed", "private"])))


def release_of(method, way, folder, dtype="float64"):
    def run(table, _, sampler):
        return method.release(*WAYS[way](of_type(table, dtype), folder), sampler=sampler)
    return run


def moments_method(shifted, intercept, **options):
    "The method; `shifted` with a range and a centre, fixed or private, as far as the intercept allows"
    ranges = {"x0": (-1.0, 9.0) if intercept else (-1e-10, 1e-10)} if shifted else None
    center = {"": 0.0, "fixed": 2.5, "private": "private"}[shifted] if intercept else 0.0
    return MomentsMethod(**PROMISE, ranges=ranges, response_center=center, intercept=intercept, **options)


FUZZ = settings(suppress_health_check=list(HealthCheck))


@given(neighbours(), CONFIGURATIONS, st.integers(0, 5))
@settings(FUZZ, max_examples=700)
def test_no_two_neighbours_are_further_apart_than_promised(pair, options, seed):
    first, square = compared(release_of(moments_method(**options), "array", None), *pair, seed)
    assert first.draws, first.outcome
    assert square <= ALLOWED


@pytest.mark.parametrize("way", WAYS)
@given(pair=neighbours(), options=CONFIGURATIONS, dtype=st.sampled_from(list(DTYPES)))
@settings(FUZZ, max_examples=80)
def test_nor_by_any_way_in_nor_type(pair, options, dtype, way, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp()
    dtype = dtype if way in TYPED and (way, dtype) != ("npy", "object") else "float64"
    first, square = compared(release_of(moments_method(**options), way, folder, dtype), *pair)
    assert first.draws, first.outcome
    assert square <= ALLOWED


@given(pair=neighbours(), started=st.booleans(), start=st.lists(TAME, min_size=4, max_size=4))
@settings(FUZZ, max_examples=120)
def test_nor_when_their_moments_were_saved(pair, started, start, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / "m.npz"
    width = pair[0].shape[1]
    clip = Clip(2.0, 3.0, start=tuple(start[:width]) if started else ())
    def run(table, _, sampler):
        halves = np.array_split(table, 2)
        sum(moments_of(t[:, :-1], t[:, -1], clip=clip) for t in halves).save(path)
        return MomentsMethod(**PROMISE).release(path, sampler=sampler)
    first, square = compared(run, *pair)
    assert first.draws and square <= ALLOWED


@given(neighbours(), st.integers(2, 4), st.booleans(), st.booleans(), st.integers(1, 4))
@settings(FUZZ, max_examples=120)
def test_nor_the_rows_of_a_person(pair, k, private, intercept, rounds):
    one, two = (np.vstack([table] + [row] * (k - 1)) for table, row in zip(pair, (pair[0][0], pair[1][0])))
    changed = (one.view(np.int64) != two.view(np.int64)).any(axis=1).sum()
    assume(changed <= k)
    bound = "private" if private else 2.0
    method = MomentsMethod(**PROMISE, row_bound=bound, response_bound=bound, rounds=rounds,
                           response_center="private" if private and intercept else 0.0,
                           intercept=intercept, rows_per_person=k)
    first, square = compared(release_of(method, "array", None), one, two)
    assert first.draws and square <= ALLOWED


@st.composite
def other_responses(draw):
    "A public design that can be estimated (or not), and responses of which one differs"
    table = draw(tables(TAME))
    table = np.vstack([table, np.eye(table.shape[1])])
    one, two = table.copy(), table.copy()
    i = draw(st.integers(0, len(table) - 1))
    one[i, -1], two[i, -1] = draw(ANY), draw(ANY)
    return one, two


@given(pair=other_responses(), row_bound=st.sampled_from([None, .5, 2.0]), intercept=st.booleans(),
       response_bound=st.sampled_from([1e-20, 1.0, 1e20]), way=st.sampled_from(list(WAYS)))
@settings(FUZZ, max_examples=400)
def test_no_two_sets_of_responses_are_further_apart_than_promised(pair, way, tmp_path_factory, **options):
    method = LabelsMethod(**PROMISE, sigma=1.0, **options)
    _, square = compared(release_of(method, way, tmp_path_factory.getbasetemp()), *pair)
    assert square <= ALLOWED


def rounded(X, U): return np.round(X) + stats.norm.ppf(U)
def overflows(X, U):
    with np.errstate(all="ignore"): return np.exp(X**2) * X - np.exp(X**4) + U


@lru_cache
def law_for(kind, p):
    "A public law of p columns"
    if kind == "two sides":
        return Blocks(Gaussian(0, np.eye(p - p // 2)), *[Independent([stats.poisson(2)])] * (p // 2))
    if kind == "skewed": return Independent([stats.gamma(.3)] * p)
    kernels = {"rounded": rounded, "overflows": overflows}
    if kind in kernels: return kernels[kind]
    mean, size, rho = {"normal": (.5, 1.0, .5), "tiny": (0, 1e-180, -.5), "huge": (-1e100, 1e180, .9),
                       "near singular": (0, 1.0, .99999)}[kind]
    return Gaussian(mean, size * ar1(p, rho))


PRODUCTS = st.fixed_dictionaries(dict(
    row_bound=st.sampled_from([None, 1e-20, 1.0, 1e20]),
    response_bound=st.sampled_from([1e-20, 1.0, 7.0, 1e20]),
    rounds=st.sampled_from([1, 2, 3, 4]), response_center=st.sampled_from([0.0, -2.5]),
    ranges=st.sampled_from([None, {"x0": (-1.0, 9.0)}, {"x0": (1e-10, 2e-10)}])))
KINDS = st.sampled_from(["normal", "tiny", "huge", "near singular", "skewed", "rounded", "overflows",
                         "two sides"])


def products_of(kind, way, folder, dtype, grouped, k=1, **options):
    "Rows to a release of products, the same knockoffs' randomness for both tables"
    def run(table, _, sampler):
        p = table.shape[1] - 1
        method = ProductsMethod(**PROMISE, law=law_for(kind, p), rows_per_person=k, **options)
        source = method.open(*WAYS[way](of_type(table, dtype), folder),
                             groups={"g": ["x0", f"x{p - 1}"]} if grouped and p > 1 else None)
        return method.release(source, sampler=sampler, random_state=5)
    return run


@given(pair=neighbours(), kind=KINDS, options=PRODUCTS, seed=st.integers(0, 5), grouped=st.booleans())
@settings(FUZZ, max_examples=150)
def test_no_two_neighbours_have_products_further_apart_than_promised(pair, kind, options, seed, grouped):
    first, square = compared(products_of(kind, "array", None, "float64", grouped, **options), *pair, seed)
    assert square <= ALLOWED
    assert first.draws or "check its mean and covariance" in first.outcome  # no row is left


@pytest.mark.parametrize("way", WAYS)
@given(pair=neighbours(), kind=KINDS, options=PRODUCTS, dtype=st.sampled_from(list(DTYPES)))
@settings(FUZZ, max_examples=15)
def test_nor_products_by_any_way_in_nor_type(pair, kind, options, dtype, way, tmp_path_factory):
    dtype = dtype if way in TYPED and (way, dtype) != ("npy", "object") else "float64"
    folder = tmp_path_factory.getbasetemp()
    first, square = compared(products_of(kind, way, folder, dtype, True, **options), *pair)
    assert square <= ALLOWED and (first.draws or "check its mean and covariance" in first.outcome)


@given(neighbours(), st.integers(2, 4), KINDS, st.integers(1, 3))
@settings(FUZZ, max_examples=40)
def test_nor_products_of_the_rows_of_a_person(pair, k, kind, rounds):
    one, two = (np.vstack([table] + [row] * (k - 1)) for table, row in zip(pair, (pair[0][0], pair[1][0])))
    assume((one.view(np.int64) != two.view(np.int64)).any(axis=1).sum() <= k)
    run = products_of(kind, "array", None, "float64", False, k, response_bound=1.0, rounds=rounds)
    first, square = compared(run, one, two)
    assert first.draws and square <= ALLOWED


@given(st.lists(st.sampled_from(["u", "v", "w", "none of them", ""]), min_size=4, max_size=9),
       st.sampled_from(["u", "w", "other"]), ANY, st.integers(0, 3))
@settings(FUZZ, max_examples=40)
def test_nor_products_of_factors_whatever_their_levels(levels, other, response, i):
    "A level that nobody knows is no reason to refuse"
    law = Levels({"a": {"u": .5, "v": .3, "w": .2}})
    one = pd.DataFrame({"a": levels, "y": np.arange(len(levels)) * 1.0})
    two = one.copy()
    two.loc[i, "a"], two.loc[i, "y"] = other, response
    method = ProductsMethod(**PROMISE, law=law, response_bound=2.0)
    def run(table, _, sampler): return method.release(table, "y", sampler=sampler, random_state=5)
    first, square = compared(run, one, two)
    assert first.draws and square <= ALLOWED


@pytest.mark.parametrize("value", ["3.5", "-0", "1e5", "1e308", "1" * 23, "1" * 300, "5e-324", ".5"])
@pytest.mark.parametrize("row", [0, 29_999], ids=["first", "last"])
@pytest.mark.parametrize("way", ["file", "query"])
def test_a_number_that_is_written_in_another_way_is_no_reason_to_refuse(value, row, way, tmp_path):
    "Among whole numbers, and far behind the rows that a reader guesses types from"
    rng = np.random.default_rng(0)
    rows = [",".join(map(str, values)) for values in rng.integers(0, 5, (30_000, 3))]
    other = [*rows[:row], f"{value},1,2", *rows[row + 1:]]
    path = tmp_path / "t.csv"
    def run(lines, _, sampler):
        path.write_text("\n".join(["a,b,y", *lines]) + "\n")
        data = path if way == "file" else pl.scan_csv(path, schema_overrides={"a": pl.Float64})
        method = MomentsMethod(**PROMISE, row_bound=2.0, response_bound=3.0, rounds=2)
        return method.release(data, "y", sampler=sampler)
    first, square = compared(run, rows, other)
    assert first.draws and square <= ALLOWED


def test_the_fuzz_would_notice():
    def refuses(table, _, sampler):
        if np.abs(table).max() > 1e3: raise InputError("too large")
        return sampler.lattice(0, 1e6, "a")
    with pytest.raises(Leak): compared(refuses, np.ones((3, 2)), np.full((3, 2), 1e4))
    with pytest.raises(Leak): compared(refuses, np.full((3, 2), 1e4), np.ones((3, 2)))
    def half(table, _, sampler): return sampler.lattice(np.int64(table.sum()), 1e6, "a")
    assert compared(half, np.zeros((1, 1)), np.full((1, 1), 1e6))[1] == 1


# ---------------------------------------------------------------- damaged files

X, Y, _ = linear_model(60, 3, 2, random_state=0)
WIDE, WIDE_Y, _ = linear_model(60, 59, 2, random_state=0) # 61 x 61 sums: a 1 in their shape becomes a 0
SIMULATED = dict(simulation=True, random_state=0)
RELEASE = MomentsMethod(**PROMISE, row_bound=2.0, response_bound=6.0)
KEPT = {"moments": Moments.from_data(X, Y),
        "exact moments": Moments.from_data(X, Y, clip=Clip(2.0, 6.0)),
        "many columns": Moments.from_data(WIDE, WIDE_Y, clip=Clip(2.0, 6.0)),
        "release": RELEASE.release(X, Y, **SIMULATED),
        "products": ProductsMethod(**PROMISE, law=Gaussian(0, np.eye(3)), response_bound=6.0)
                    .release(X, Y, **SIMULATED),
        "tests": LawTestsMethod(**PROMISE, law=Independent([stats.norm(), stats.t(5), stats.gamma(2)]),
                                response_bound=6.0).release(X, Y, **SIMULATED)}


def written(name, folder):
    "The bytes of a file, where it is, and what reads it"
    path = folder / "kept"
    path.unlink(missing_ok=True)
    if name == "ledger":
        ledger = Ledger(path, epsilon=3.0, delta=1e-2)
        for _ in range(2): RELEASE.release(X, Y, **SIMULATED, ledger=ledger)
        def load():
            again = Ledger(path)
            return again.total, again.entries
        return path, (ledger.total, ledger.entries), load
    thing = KEPT[name]
    thing.save(path)
    return path, thing, lambda: type(thing).load(path)


def same(a, b):
    if isinstance(a, tuple): return a == b
    parts = [(value, vars(b)[name]) for name, value in vars(a).items()]
    def alike(u, v):
        if not isinstance(v, np.ndarray): return u == v
        return u.dtype == v.dtype and np.array_equal(u, v)
    return all(alike(u, v) for u, v in parts)


@st.composite
def damages(draw):
    "f(bytes) -> other bytes"
    kind = draw(st.sampled_from(["flip", "flip", "flip near the end", "cut", "insert", "zeros"]))
    where, bits = draw(st.floats(0, .999999)), draw(st.integers(1, 255))
    def damage(raw):
        i = int(where * len(raw))
        if kind == "flip near the end": i = len(raw) - 1 - int(where * min(len(raw), 400))
        if kind == "cut": return raw[:i]
        if kind == "insert": return raw[:i] + bytes([bits]) + raw[i:]
        if kind == "zeros": return raw[:i] + bytes(min(40, len(raw) - i)) + raw[i + 40:]
        return raw[:i] + bytes([raw[i] ^ bits]) + raw[i + 1:]
    return damage


@pytest.mark.parametrize("name", [*KEPT, "ledger"])
@given(damage=damages())
@settings(FUZZ, max_examples=100)
def test_damaged_files_are_refused_or_harmless(damage, name, tmp_path_factory):
    if name not in FILES:
        FILES[name] = written(name, tmp_path_factory.mktemp("kept"))
        RAW[name] = FILES[name][0].read_bytes()
    path, kept, load = FILES[name]
    path.write_bytes(damage(RAW[name]))
    try: found = load()
    except InputError: return
    assert same(kept, found), "read, and not what was written"


FILES, RAW = {}, {}


@pytest.mark.parametrize("name", KEPT)
def test_no_digit_of_a_shape_is_taken_on_trust(name, tmp_path):
    path, kept, load = written(name, tmp_path)
    raw = path.read_bytes()
    starts = [i for i in range(len(raw)) if raw[i:i + 10] == b"'shape': ("]
    for start in starts:
        for i in range(start + 10, raw.index(b")", start)):
            path.write_bytes(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1:])
            try: found = load()
            except InputError: continue
            assert same(kept, found)


@pytest.mark.parametrize("name", sorted(set(KEPT) - {"products", "tests"}))  # like the others
def test_every_byte_of_the_directory_matters_or_not(name, tmp_path):
    path, kept, load = written(name, tmp_path)
    raw = path.read_bytes()
    for i in range(raw.index(b"PK\x01\x02"), len(raw)):
        for bit in (0, 3, 5):
            path.write_bytes(raw[:i] + bytes([raw[i] ^ 1 << bit]) + raw[i + 1:])
            try: found = load()
            except InputError: continue
            assert same(kept, found)


# ---------------------------------------------------------------- the noise of real releases

def standardised(r: PrivateMoments):
    "What a release differs by from the exact sums of every round, in announced standard deviations"
    m = Moments.from_data(X, Y, clip=r.clip)
    above = np.triu_indices(m.p, 1)
    G = r.gram - m.XtX
    parts = [G[above] / r.gram_sd, np.diag(G) / (np.sqrt(2) * r.gram_sd),
             (r.weights - m.weights / 2**18) / r.weights_sd]
    if r.rounds == 1:
        parts += [(r.products[0] - m.Xty) / r.product_sds[0], (r.squares - m.yty) / r.square_sds,
                  (r.clamped - m.cut[1]) / r.clamped_sd]
    usual = float(np.sqrt(np.clip(r.weights, r.weights_sd, r.n) / r.n))
    for k in range(r.rounds if r.rounds > 1 else 0):
        clip = replace(r.clip, start=tuple(r.starts[k]), response_bound=r.bounds[k])
        sums = Residuals(("x0", "x1", "x2"), clip, usual).sums(on_directions(r.design.Q))(X, Y)
        steps = np.append(np.full(m.p, clip.row_step), clip.response_step) * clip.response_step
        *products, square = sums.products * steps
        parts += [(r.products[k] - products) / r.product_sds[k], (r.squares[k] - square) / r.square_sds[k]]
    if r.rounds > 1:
        unit = (clip.design_bound * clip.response_bound)**2 / 2**26
        parts.append((r.variances - sums.variances * unit) / r.variance_sd)
    return np.concatenate([np.ravel(part) for part in parts])


@pytest.mark.parametrize("rounds, entries", [(1, 17), (3, 29)])
def test_real_releases_have_the_noise_that_they_announce(rounds, entries):
    method = MomentsMethod(epsilon=.7, delta=1e-3, row_bound=1.0, response_bound=4.0, rounds=rounds)
    releases = [method.release(X, Y) for _ in range(200)]
    assert not any(r.simulated for r in releases) and len({r.ids for r in releases}) == 200
    noise = np.array([standardised(r) for r in releases])
    assert noise.shape == (200, entries)
    _assert_white(noise)
    for wrong in (1.4 * noise, np.column_stack([noise, noise[:, 0]])): assert fires(_assert_white, wrong)
    shared = noise.copy()
    shared[:, 4] = (noise[:, 4] + noise[:, -1]) / np.sqrt(2)
    assert fires(_assert_white, shared)


def test_real_releases_of_labels_have_the_noise_that_they_announce():
    method = LabelsMethod(epsilon=.7, delta=1e-3, response_bound=4.0, sigma=1.0, row_bound=1.0)
    m = Moments.from_data(X, Y, clip=Clip(1.0, 4.0))
    releases = [method.release(X, Y) for _ in range(250)]
    noise = np.array([(m.XtX @ r.beta - m.Xty) / r.product_sd for r in releases])
    _assert_white(noise)
    assert fires(_assert_white, 1.5 * noise)


def test_real_releases_of_products_have_the_noise_that_they_announce():
    "With copies for knockoffs, which are of no use, the exact products are known"
    def copies(X, U): return X
    method = ProductsMethod(epsilon=.7, delta=1e-3, law=copies, response_bound=4.0, row_bound=50.0, rounds=1)
    releases = [method.release(X, Y) for _ in range(250)]
    bound = 4 / FIRST_CLAMP
    exact = np.tile(X.T @ np.clip(Y, -bound, bound), 2)
    square, clamped = np.sum(np.clip(Y, -bound, bound)**2), (np.abs(Y) > bound).sum()
    def standard(r):
        rest = [(r.squares[0] - square) / r.square_sds[0], (r.clamped - clamped) / r.clamped_sd]
        return np.append((r.products[0] - exact) / r.product_sds[0], rest)
    noise = np.array([standard(r) for r in releases])
    _assert_white(noise)
    assert fires(_assert_white, 1.4 * noise)
