"Laws: exchangeable knockoffs, cut and ordered laws, kernels row by row, units, a row's own randomness."
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import assert_same_law, fires, refusal
from dp_knockoff.core.variables import Variables
from dp_knockoff.data.models import ar1
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.law_tests import LawTestsMethod
from dp_knockoff.filters.methods import NonPrivate, knockoff_filter
from dp_knockoff.filters.products_method import ProductsMethod
from dp_knockoff.knockoffs.laws import (
    Blocks,
    Gaussian,
    Independent,
    Kernel,
    Law,
    LawUnits,
    Levels,
    _as_law,
    check_law,
    dictionary_law,
    law_of,
    law_units,
    open_uniforms,
    open_with_law,
    row_uniforms,
)
from watched import unread

FACTORS = Levels({"colour": {"red": .5, "green": .3, "blue": .2}, "price": {"low": .9, "high": .1}})
PEOPLE = Gaussian([170, 70, 3], [[80, 60, 0], [60, 120, .5], [0, .5, 1]], ["height", "weight", "age"])
SKEWED = Independent({"visits": stats.poisson(3), "income": stats.gamma(2, scale=20)})
MIXED = Blocks(PEOPLE, FACTORS, SKEWED)
LAWS = {"normal": PEOPLE, "sdp": Gaussian(1, ar1(4, -.6), s="sdp"), "factors": FACTORS, "skewed": SKEWED,
        "mixed": MIXED, "ordered": MIXED.take([6, 3, 0, 5, 4, 2, 1, 7]), "half": MIXED.take([2, 7, 0, 5]),
        "redraw": Gaussian(0, np.diag([1.0, 9]))}


def variables_of(law): return Variables.of(law.names or range(law.p), law.groups)


def drawn(law, n, seed=0):
    "Rows of a law and their knockoffs"
    rng = np.random.default_rng(seed)
    X = law.draw(open_uniforms(rng, (n, law.p)))
    return X, law(X, open_uniforms(rng, (n, law.uniforms)))


# ---------------------------------------------------------------- the definition

@pytest.mark.parametrize("name", LAWS)
def test_moments_of_rows_and_knockoffs_are_those_that_are_said(name):
    "Means and covariances of 20,000 pairs, each within 7 standard errors"
    law = LAWS[name]
    X, K = drawn(law, 20_000)
    assert X.shape == K.shape == (20_000, law.p) and law.mean.shape == (law.p,)
    sd = np.sqrt(np.diag(law.covariance))
    both = np.hstack([(X - law.mean) / sd, (K - law.mean) / sd])
    S, C = (M / np.outer(sd, sd) for M in (law.covariance, law.cross))
    assert np.abs(both.mean(0)).max() < 7 / np.sqrt(20_000)
    products = both[:, :, None] * both[:, None, :]
    error = np.abs(products.mean(0) - np.block([[S, C], [C.T, S]]))
    assert (error < 7 * products.std(0) / np.sqrt(20_000) + 1e-9).all()


@pytest.mark.parametrize("name", LAWS)
def test_swapped_variables_have_the_same_law(name):
    law = LAWS[name]
    variables = variables_of(law)
    (X, K), (Y, L) = drawn(law, 4000, 1), drawn(law, 4000, 2)
    F = variables.columns(range(0, len(variables), 2))
    Y[:, F], L[:, F] = L[:, F], Y[:, F].copy()
    weights = np.random.default_rng(0).standard_normal((2 * law.p, 2 * law.p))
    scale = np.tile(np.sqrt(np.diag(law.covariance)), 2)
    one, two = ((np.hstack(pair) - np.tile(law.mean, 2)) / scale for pair in ((X, K), (Y, L)))
    assert_same_law(np.hstack([one, one @ weights]), np.hstack([two, two @ weights]))


def test_a_factor_swapped_in_part_is_noticed():
    (X, _), (Y, L) = drawn(FACTORS, 4000, 1), drawn(FACTORS, 4000, 2)
    Y[:, 0], L[:, 0] = L[:, 0], Y[:, 0].copy()
    assert fires(assert_same_law, X[:, :1] + X[:, 1:2], Y[:, :1] + Y[:, 1:2])


@pytest.mark.parametrize("name", LAWS)
def test_a_knockoff_is_a_function_of_its_row_and_its_uniforms(name):
    law = LAWS[name]
    rng = np.random.default_rng(0)
    X, U = law.draw(open_uniforms(rng, (30, law.p))), open_uniforms(rng, (30, law.uniforms))
    whole = law(X, U)
    with np.errstate(all="ignore"):
        for value in (1e150, -1e150, np.nan, np.inf):  # whatever one row holds, the others stay, to the bit
            other, V = X.copy(), U.copy()
            other[7], V[7] = value, .999
            assert (np.delete(law(other, V), 7, 0) == np.delete(whole, 7, 0)).all()
    order = rng.permutation(30)
    assert np.allclose(law(X[order], U[order]), whole[order], rtol=1e-12, atol=1e-12 * np.abs(whole).max())


def test_formulas_of_the_normal_kernel():
    S = 4 * ar1(3, .5)
    law = Gaussian([1, 2, 3], S, s=[.5, .6, .7])
    D = np.diag([2.0, 2.4, 2.8])
    assert np.allclose(law.cross, S - D) and law.p == law.uniforms == 3
    X = np.random.default_rng(0).standard_normal((5, 3)) * 3
    middle = law(X, np.full((5, 3), .5))
    assert np.allclose(middle, X - (X - law.mean) @ np.linalg.inv(S) @ D)
    with np.errstate(all="ignore"): assert not np.isfinite(law(X, np.ones((5, 3)))).any()
    U = open_uniforms(np.random.default_rng(1), (200_000, 3))
    own = np.cov(law(np.zeros((200_000, 3)), U).T)
    assert np.abs(own - (2 * D - D @ np.linalg.inv(S) @ D)).max() < .1


def test_independent_normal_columns_are_redrawn():
    law = Gaussian(0, np.diag([1.0, 100.0]))
    U = open_uniforms(np.random.default_rng(0), (6, 2))
    assert (law(np.zeros((6, 2)), U) == law(np.full((6, 2), 9.9), U)).all() and not law.cross.any()
    kept = Gaussian(0, np.eye(2), s=[.5, 1.0])
    assert np.allclose(np.diag(kept.cross), [.5, 0]) and np.allclose(kept.take([1, 0]).s, [1.0, .5])


def test_probabilities_of_levels():
    U = (np.arange(1000)[:, None] + .5) / 1000
    K = FACTORS(None, np.hstack([U, U]))
    assert K.mean(0).tolist() == [.3, .2, .1] and (K[:, :2].sum(1) <= 1).all()
    assert FACTORS.mean.tolist() == [.3, .2, .1] and FACTORS.uniforms == 2 and FACTORS.p == 3
    expected = [[.21, -.06, 0], [-.06, .16, 0], [0, 0, .09]]
    assert np.allclose(FACTORS.covariance, expected) and not FACTORS.cross.any()
    assert FACTORS.groups == {"colour": ("colour=green", "colour=blue"), "price": ("price=high",)}
    assert FACTORS.names == ("colour=green", "colour=blue", "price=high")
    flags = Levels({"on": {False: .5, True: .5}, "k": {1: .5, 2: .25, 3: .25}})
    assert flags.names == ("on=true", "k=2", "k=3")


def test_marginals():
    U = np.array([[.5, .5], [.1, .9]])
    assert np.allclose(SKEWED(None, U).T, [[3, 1], stats.gamma(2, scale=20).ppf([.5, .9])])
    assert SKEWED.mean.tolist() == [3, 40] and np.allclose(np.diag(SKEWED.covariance), [3, 800])
    assert Independent([stats.norm()]).names is None and SKEWED.take([1]).names == ("income",)


def test_uniforms_are_never_zero_or_one():
    class Edge:
        def __init__(self, value): self.value = value
        def random(self, shape): return np.full(shape, self.value)
    for value in (0.0, .5, 1 - 2.0**-53):
        u = open_uniforms(Edge(value), (2, 2))
        assert ((0 < u) & (u < 1)).all() and np.isfinite(stats.norm.ppf(u)).all() and u.shape == (2, 2)


# ---------------------------------------------------------------- cut, ordered, side by side

@given(st.permutations(range(8)), st.integers(0, 100))
@settings(max_examples=30)
def test_columns_in_any_order_have_the_same_knockoffs(order, seed):
    rng = np.random.default_rng(seed)
    X, U = MIXED.draw(open_uniforms(rng, (3, 8))), open_uniforms(rng, (3, MIXED.uniforms))
    ordered = MIXED.take(order)
    assert ordered.names == tuple(MIXED.names[j] for j in order) and ordered.groups == MIXED.groups
    assert np.allclose(ordered(X[:, order], U), MIXED(X, U)[:, order])
    assert np.allclose(ordered.mean, MIXED.mean[order])
    for name in ("covariance", "cross"):
        assert np.allclose(getattr(ordered, name), getattr(MIXED, name)[np.ix_(order, order)])
    for law, own in ordered.parts(): assert law.names == tuple(ordered.names[j] for j in own)
    again = ordered.take(np.argsort(order))
    assert again.names == MIXED.names and np.allclose(again(X, U), MIXED(X, U))
    assert np.allclose(again.covariance, MIXED.covariance)
    U = open_uniforms(rng, (3, 8))
    assert np.allclose(ordered.draw(U), MIXED.draw(U)[:, order])


def test_factors_in_another_order():
    turned = FACTORS.take([2, 1, 0])
    U = open_uniforms(np.random.default_rng(0), (50, 3))
    assert turned.names == ("price=high", "colour=blue", "colour=green")
    X = turned.draw(U)
    assert (X[:, 1:].sum(1) <= 1).all() and np.allclose(turned.mean, [.1, .2, .3])
    assert np.allclose(turned.covariance, FACTORS.covariance[::-1, ::-1])
    assert FACTORS.take([2]).names == ("price=high",) and FACTORS.take([0, 1]).p == 2


def test_part_of_a_normal_law_is_normal():
    part = PEOPLE.take([2, 0])
    assert part.names == ("age", "height") and part.mean.tolist() == [3, 170]
    assert np.allclose(part.covariance, [[1, 0], [0, 80]]) and not part.cross.any()


@pytest.mark.parametrize("wrong, words", [
    (lambda: FACTORS.take([0]), "in part only"), (lambda: MIXED.take([3, 0]), "in part only"),
    (lambda: Kernel(redraw, 3).take([0]), "cannot be cut"), (lambda: Blocks(), "laws is empty"),
    (lambda: Blocks(PEOPLE, redraw), "is not a law"), (lambda: Blocks(PEOPLE, PEOPLE), "clash"),
    (lambda: Gaussian(0, [[1, 2], [2, 1]]), "positive definite"),
    (lambda: Gaussian(0, np.ones((2, 3))), "shape"),
    (lambda: Gaussian(0, [[1, .5], [.4, 1]]), "symmetric"),
    (lambda: Gaussian(0, np.diag([1, 0])), "variance"),
    (lambda: Gaussian(0, np.diag([1, 1e210])), "variance"), (lambda: Gaussian(0, "a"), "not a matrix"),
    (lambda: Gaussian([0, 0, 0], np.eye(2)), "mean has shape"), (lambda: Gaussian("a", np.eye(2)), "mean"),
    (lambda: Gaussian(np.nan, np.eye(2)), "mean"), (lambda: Gaussian(1e200, np.eye(2)), "huge"),
    (lambda: Gaussian(0, np.eye(2), ["a"]), "names has 1"), (lambda: Gaussian(0, np.eye(2), s=[3, 3]), "s"),
    (lambda: Gaussian.from_public(np.ones((3, 4))), "more rows"),
    (lambda: Gaussian.from_public(np.full((9, 2), np.nan)), "missing"),
    (lambda: Gaussian.from_public([["a", "b"]] * 9), "not numbers"),
    (lambda: Levels({}), "not a dict"), (lambda: Levels([1]), "not a dict"),
    (lambda: Levels({"a": {1: 1.0}}), "two levels"),
    (lambda: Levels({"a": {1: .5, 2: .6}}), "sum is 1.1"), (lambda: Levels({"a": {1: 0, 2: 1}}), "positive"),
    (lambda: Levels({"a": {1: "x", 2: 1}}), "positive"), (lambda: Levels({"a": {"1": .5, 1: .5}}), "clash"),
    (lambda: Levels({1: {"a": .5, "b": .5}, "1": {"a": .5, "c": .5}}), "clash"),
    (lambda: Levels({"a": {"x": .5, "1": .25, 1: .25}}), "clash"),
    (lambda: Independent([]), "empty"), (lambda: Independent([3]), "ppf"),
    (lambda: Independent([stats.cauchy()]), "no finite mean"),
    (lambda: Independent([stats.norm(1e200)]), "mean"),
])
def test_what_is_no_law_is_refused_in_one_sentence(wrong, words):
    sentence = refusal(wrong)
    assert words in sentence and "\n" not in sentence, sentence


def test_public_tables_have_names_and_moments():
    X = PEOPLE.draw(open_uniforms(np.random.default_rng(0), (50, 3)))
    law = Gaussian.from_public(pd.DataFrame(X, columns=list("abc")))
    assert law.names == ("a", "b", "c") and np.allclose(law.mean, X.mean(0))
    assert np.allclose(law.covariance, np.cov(X.T))
    assert Gaussian.from_public(X).names is None and "3 columns:" in repr(law)


def test_laws_can_travel():
    for law in LAWS.values():
        assert (drawn(pickle.loads(pickle.dumps(law)), 4)[1] == drawn(law, 4)[1]).all()


# ---------------------------------------------------------------- kernels

def redraw(X, U): return stats.norm.ppf(U)
def of_two_rows(X, U): return stats.norm.ppf(U) + .1 * np.roll(X, 1, axis=0)
def centred(X, U): return X - X.mean(0) + stats.norm.ppf(U)
def centred_noise(X, U): return U - U.mean(0)
def by_place(X, U): return U + np.arange(len(U))[:, None]
def restless(X, U): return np.random.default_rng().standard_normal(X.shape)
def too_narrow(X, U): return U[:, :2]
def text(X, U): return U.astype(str)
def nothing(X, U): return U + np.nan
def sorts(X, U): return np.sort(U, axis=0)
def by_length(X, U): return U + (len(U) == 1)


BAD = (of_two_rows, centred, centred_noise, by_place, restless, too_narrow, text, nothing, sorts, by_length)


@pytest.mark.parametrize("kernel", BAD, ids=lambda f: f.__name__)
def test_kernels_that_do_not_treat_every_row_by_itself_are_refused(kernel):
    assert "kernel" in refusal(Kernel, kernel, 4)


class Odd(Gaussian):
    "A law of somebody else, of which one thing is not what it should be"
    def __call__(self, X, U): return ODD[self.names[0]][1](super().__call__(X, U))
    def draw(self, U): return ODD[self.names[0]][0](super().draw(U))


def same(X): return X
def fails(X): raise KeyError("secret")


ODD = {"draws fewer": (lambda X: X[1:], same), "draws a vector": (lambda X: X[:, 0], same),
       "draws text": (lambda X: X.astype(str), same), "draws NaN": (lambda X: X * np.nan, same),
       "draws nothing": (lambda X: None, same), "draw fails": (fails, same),
       "fewer": (same, lambda X: X[1:]), "wide": (same, lambda X: np.hstack([X, X])),
       "NaN": (same, lambda X: X * np.nan), "objects": (same, lambda X: X.astype(object)),
       "fails": (same, fails), "more than were asked for": (same, lambda X: np.vstack([X, X[:1]]))}


@pytest.mark.parametrize("method", [ProductsMethod, LawTestsMethod, NonPrivate])
@pytest.mark.parametrize("what", ODD)
def test_a_law_that_returns_something_else_is_refused_by_name(what, method):
    "Before a row is read, whatever wraps it"
    budget = {} if method is NonPrivate else dict(epsilon=1.0, delta=1e-3, response_bound=3.0)
    odd = Odd(0, ar1(3, .5), [what, "b", "c"])
    for law in (odd, Blocks(odd, Gaussian(0, np.eye(1), ["d"]))):
        with pytest.raises(InputError) as caught:
            method(law=law, **budget).release(unread(law.names))
        assert caught.value.argument == "law" and "secret" not in str(caught.value)


def test_a_law_that_only_fails_on_many_rows_is_refused_by_name():
    class Late(Gaussian):
        def draw(self, U): return super().draw(U)[:50]
        def __call__(self, X, U): return super().__call__(X, U)[:50]
    law = Late(0, ar1(2, .5))
    X, y = np.ones((60, 2)), np.ones(60)
    for method in (ProductsMethod, LawTestsMethod):
        way = method(law=law, epsilon=1.0, delta=1e-3, response_bound=3.0)
        with pytest.raises(InputError) as caught: way.release(X, y, simulation=True)
        assert caught.value.argument == "law"
    with pytest.raises(InputError) as caught: knockoff_filter(X, y, law=law)
    assert caught.value.argument == "law"


def test_kernels_that_write_into_their_arguments_do_no_harm():
    def writes(X, U):
        X[:] = 0
        U *= 2
        return U
    X, U = np.ones((3, 2)), np.full((3, 2), .25)
    assert (Kernel(writes, 2)(X, U) == .5).all() and (X == 1).all() and (U == .25).all()


def test_a_kernel_may_say_more():
    def own(X, U): return 3 * stats.norm.ppf(U[:, :2]) + (U[:, 2:] > .5)
    own.uniforms, own.mean, own.scale, own.names = 3, [1.0, 2.0], [3.0, 4.0], ("b", "a")
    law = Kernel(own, 2)
    assert law.uniforms == 3 and law.mean.tolist() == [1, 2] and np.allclose(law.covariance, np.diag([9, 16]))
    assert not law.cross.any() and law.names == ("b", "a") and law.groups == {}
    own.covariance, own.cross = 9 * ar1(2, .5), 4.5 * (np.ones((2, 2)) - np.eye(2))
    assert np.allclose(law.covariance, own.covariance) and np.allclose(law.cross, own.cross)
    own.covariance = np.eye(3)
    assert "3 columns, and the data 2" in refusal(lambda: law.covariance)


# ---------------------------------------------------------------- the law for some data

def test_a_law_is_cut_to_the_columns_of_the_data():
    group = {"colour": ("colour=green", "colour=blue")}
    law = _as_law(MIXED, ("weight", "colour=green", "income", "colour=blue"), group)
    assert law.names == ("weight", "colour=green", "income", "colour=blue")
    assert _as_law(PEOPLE, PEOPLE.names) is PEOPLE and isinstance(_as_law(redraw, "ab"), Kernel)
    for wrong, words in [((MIXED, ("weight", "colour=green", "colour=blue")), "only be tested together"),
                         ((MIXED, ("age", "colour=green"), {"g": ("age", "colour=green")}), "in part only"),
                         ((FACTORS, FACTORS.names, {"g": ("colour=green", "price=high")}), "tested together"),
                         ((PEOPLE, ("weight", "shoe")), "says nothing about the columns"),
                         ((Gaussian(0, np.eye(3)), ("a", "b")), "3 columns and the data 2"),
                         (("normal", ("a",)), "neither a law nor"),
                         ((Gaussian, ("a",)), "neither a law nor")]:
        assert words in refusal(_as_law, *wrong), words


def test_a_factor_may_be_joined_with_other_columns():
    group = {"both": ("colour=green", "colour=blue", "price=high")}
    assert _as_law(FACTORS, FACTORS.names, group) is FACTORS
    u = law_units(FACTORS, Variables.of(FACTORS.names, group))
    assert np.allclose(u.S, np.eye(3)) and np.allclose(u.D, np.eye(3))


def test_factors_without_names_are_stopped_by_their_covariances():
    "A law without names can't say which columns belong together; half a factor is refused all the same"
    unnamed = Blocks(Gaussian(0, np.eye(1)), FACTORS)
    assert unnamed.names is None and "change when a variable is swapped" in refusal(
        law_units, _as_law(unnamed, "abcd"), Variables.single(4))


FACTS = {"columns": {"a": {"levels": ["u", "v", "w"], "probabilities": [.5, .25, .25]},
                     "c": {"range": [0, 1]}}}
TABLE = pd.DataFrame({"a": ["u", "v", "w", "x"], "c": [0, .5, 1, .25], "y": [1.0, 2, 3, 4]})


def test_a_dictionary_says_the_law_of_its_factors():
    source = open_with_law(None, TABLE, "y", FACTS)
    assert dictionary_law(source.dictionary, source.names).names == ("a=v", "a=w")
    assert dictionary_law(source.dictionary, ["c"]) is None and dictionary_law(None, ["c"]) is None
    law = law_of(Gaussian(0, np.eye(1), ["c"]), source)
    assert law.names == source.names and source.groups == {"a": ("a=v", "a=w")}
    def uniform(X, U): return U
    uniform.names = ("c",)
    assert law_of(uniform, source).names == source.names
    assert "says nothing about the columns" in refusal(law_of, None, source)
    assert "law is missing" in refusal(law_of, None, open_source(TABLE[["c", "y"]], "y"))


def test_levels_encode_a_table_and_an_unknown_level_is_the_reference():
    law = Levels({"a": {"u": .5, "v": .25, "w": .25}})
    source = open_with_law(law, TABLE[["a", "y"]], "y")
    assert source.collect(lambda X, y: [X])[0].tolist() == [[0, 0], [1, 0], [0, 1], [0, 0]]
    assert source.groups == {"a": ("a=v", "a=w")}
    encoded = open_with_law(law, open_source(np.eye(2), np.zeros(2), columns=["a=v", "a=w"]))
    assert encoded.groups == {"a": ("a=v", "a=w")}


# ---------------------------------------------------------------- units

@pytest.mark.parametrize("name", LAWS)
def test_in_units_every_variable_has_covariance_one_and_swaps_change_nothing(name):
    law = LAWS[name]
    variables = variables_of(law)
    u = law_units(law, variables)
    inside = np.equal.outer(variables.index, variables.index)
    assert np.allclose(np.where(inside, u.S, 0), np.eye(law.p)) and (u.D[~inside] == 0).all()
    assert (u.S == u.S.T).all() and (u.D == u.D.T).all() and (u.T[~inside] == 0).all()
    A = np.block([[u.S, u.S - u.D], [u.S - u.D, u.S]])
    assert np.linalg.eigvalsh(A)[0] > -1e-9
    for j in range(len(variables)):
        order = np.arange(2 * law.p)
        F = variables.columns([j])
        order[F], order[F + law.p] = F + law.p, F
        assert (A[np.ix_(order, order)] == A).all()  # to the bit
    X = drawn(law, 5)[0]
    assert np.allclose(u(X), (X - law.mean) @ u.T)


def test_units_of_a_group_are_a_symmetric_root():
    S = np.array([[4.0, 2.4, .5], [2.4, 9.0, 0], [.5, 0, 1]])
    u = law_units(Gaussian([1, 2, 3], S), Variables.of("abc", {"g": "ab"}))
    S[2, 0] = S[0, 2] = 0
    assert np.allclose(u.T, u.T.T) and np.allclose(u.T @ u.T, np.linalg.inv(S))
    two = law_units(Gaussian(5, 4 * np.eye(2)), Variables.single(2))
    assert np.allclose(two(np.array([[7.0, 1]])), [[1, -2]])


def test_covariances_that_a_swap_changes_are_refused():
    def given(cross):
        def kernel(X, U): return U
        kernel.covariance, kernel.cross = ar1(3, .5), cross
        return law_units(Kernel(kernel, 3), Variables.single(3))
    right = ar1(3, .5) - np.diag([.3, .3, .3])
    assert isinstance(given(right), LawUnits)
    for off in (np.eye(3)[[1, 0, 2]], np.triu(np.ones((3, 3)), 1), -2 * np.eye(3), 1.5 * np.eye(3)):
        assert "cross" in refusal(given, right + off)


def test_covariances_within_a_group_must_be_symmetric_and_between_variables_they_are_made_exact():
    pair = Variables.of("abc", {"g": "ab"})
    def given(off, variables=pair):
        def kernel(X, U): return U
        kernel.covariance, kernel.cross = ar1(3, .5), ar1(3, .5) - .3 * np.eye(3) + off
        return law_units(Kernel(kernel, 3), variables)
    lopsided = np.zeros((3, 3))
    lopsided[0, 1] = .1
    assert "symmetric within each" in refusal(given, lopsided)
    whole = given(-(lopsided + lopsided.T))
    assert (whole.D[:2, 2] == 0).all() and whole.D[0, 1] == whole.D[1, 0] != 0
    almost = given(1e-8 * np.ones((3, 3)), Variables.single(3)) # rounding of somebody's covariances
    assert (almost.D == np.diag(np.diag(almost.D))).all() and np.allclose(np.diag(almost.D), .3)


# ---------------------------------------------------------------- a row's own uniforms

@given(st.integers(1, 9), st.lists(st.integers(1, 20), min_size=1, max_size=5), st.integers(0, 2**63 - 1))
@settings(max_examples=30)
def test_rows_have_the_same_uniforms_in_all_blocks(size, lengths, word):
    whole = row_uniforms((word, 2), 3, 0, sum(lengths), size)
    starts = np.cumsum([0, *lengths])
    parts = [row_uniforms((word, 2), 3, int(a), n, size) for a, n in zip(starts, lengths)]
    assert (np.concatenate(parts) == whole).all() and ((0 < whole) & (whole < 1)).all()
    assert len(np.unique(whole)) == whole.size


def test_keys_parts_and_rows_have_uniforms_of_their_own():
    places = [((1, 2), 0, 0), ((1, 2), 1, 0), ((1, 3), 0, 0), ((2, 2), 0, 0), ((1, 2), 0, 500),
              ((1, 2), 2**20, 0)]
    U = np.concatenate([row_uniforms(*place, 500, 5) for place in places])
    assert len(np.unique(U)) == U.size
    assert np.abs(np.corrcoef(U.reshape(6, -1)) - np.eye(6)).max() < 7 / np.sqrt(2500)
    assert stats.kstest(U.ravel(), "uniform").pvalue > 1e-9


# ---------------------------------------------------------------- a check of public rows

@pytest.mark.parametrize("n", [2, 3, 8, 40])
def test_the_check_has_its_alarm_rate_however_few_the_rows(n):
    "Without the right scale, three rows of the right law were rejected more often than not"
    law = Gaussian(0, ar1(4, .5))
    found = [check_law(law, drawn(law, n, seed)[0], random_state=seed) for seed in range(150)]
    assert all(one.passed for one in found) and max(one.z for one in found) <= np.sqrt(n) + 1e-9
    count = 2 * 4 + 2 * 12
    assert np.isclose(2 * count * np.exp(-found[0].limit**2 / 2), 1e-6) and found[0].rows == n


def test_the_check_of_heavy_tails_and_rare_levels_has_it_too():
    rare = Levels({"a": {0: .99, 1: .005, 2: .005}, "b": {0: .999, 1: .001}})
    for law in (Independent([stats.lognorm(2.0)] * 3), rare):
        tables = [pd.DataFrame(drawn(law, 200, seed)[0], columns=law.names) for seed in range(100)]
        assert all(check_law(law, table, random_state=i).passed for i, table in enumerate(tables))


def test_the_check_sees_wrong_laws():
    law = Gaussian(0, ar1(5, .5))
    X = drawn(law, 3000)[0]
    assert check_law(law, X).passed
    wrong = {"products": Gaussian(0, np.eye(5)), "squares": Gaussian(0, 1.5 * ar1(5, .5)),
             "means": Gaussian(.4, ar1(5, .5))}
    for what, other in wrong.items():
        found = check_law(other, X)
        assert not found.passed and what in repr(found) and "does not fit" in repr(found)
    def one_for_all(X, U): return stats.norm.ppf(U[:, :1]) * np.ones(X.shape[1])
    assert "knockoffs with knockoffs" in check_law(one_for_all, drawn(Gaussian(0, np.eye(3)), 500)[0]).what
    def copies(X, U): return X
    assert check_law(copies, X).z < 1e-6  # exchangeable, and of no use


def test_the_check_knows_the_factors_of_a_law():
    X = pd.DataFrame(drawn(FACTORS, 500)[0], columns=FACTORS.names)
    assert check_law(FACTORS, X).passed and check_law(FACTORS, X, groups=FACTORS.groups).passed
    assert "tested together" in refusal(check_law, FACTORS, X, groups={"g": ["colour=green", "price=high"]})
    swapped = Levels({"colour": {"red": .2, "green": .3, "blue": .5}, "price": {"low": .9, "high": .1}})
    assert not check_law(swapped, X).passed


def test_a_law_that_says_nothing_fails():
    for part in (lambda: Law()(None, None), lambda: Law().draw(None)):
        with pytest.raises(AssertionError, match="does not say"): part()
