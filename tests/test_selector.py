"The scikit-learn estimator: its conventions, its bookkeeping, its refusals."
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dp_knockoff.filter import knockoff_filter
from dp_knockoff.ground import InputError, linear_model, refusal
from dp_knockoff.mechanisms import Budget, NumpySampler, SecureSampler
from dp_knockoff.method_one import filter_one
from dp_knockoff.method_three import filter_three
from dp_knockoff.method_two import filter_two
from dp_knockoff.moments import Clip
from dp_knockoff.selector import DPKnockoffSelector, Meter, Privacy, add_up
from dp_knockoff.statistics import Statistic, csm, ols

X, y, BETA = linear_model(3000, 8, 6, random_state=0)
Y = y + 2
TABLE = pd.DataFrame(X, columns=list("abcdefgh"))
THREE = dict(epsilon=2., delta=1e-5, row_bound=2., response_bound=8.)
PAPER = dict(epsilon=.9, delta=1e-2, row_bound=7., sigma=1., beta_norm=12.)
NO_INTERCEPT = dict(fit_intercept=False)


def three(**change): return DPKnockoffSelector(**{**THREE, "random_state": 0, **change})
def paper(method="two", **change): return DPKnockoffSelector(**{**PAPER, **NO_INTERCEPT, "method": method, "random_state": 0, **change})


class Recorder(NumpySampler):
    "A sampler that lists what it drew"
    def __init__(self, random_state=0): super().__init__(random_state); self.log = []
    def gaussian(self, value, scale, purpose): self.log.append(purpose); return super().gaussian(value, scale, purpose)
    def laplace(self, value, scale, purpose): self.log.append(purpose); return super().laplace(value, scale, purpose)


def silently(f, *args):
    "Run f, every warning an error"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return f(*args)


def warned(f, *args):
    "What f warns of"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(*args)
    return [str(w.message) for w in caught]


# scikit-learn's own checks; at fdr=.9 and offset=0 something is selected even from noise

FINAL = {"check_fit_score_takes_y": "calls partial_fit on a fitted object, which would need a second release, and is refused (for every method alike)"}

@parametrize_with_checks([DPKnockoffSelector(method="none"), DPKnockoffSelector(method="none", fdr=.9, offset=0),
                          DPKnockoffSelector(**THREE), DPKnockoffSelector(**THREE, fdr=.9, offset=0, rounds=1)],
                         expected_failed_checks=lambda estimator: FINAL)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


def test_every_entry_point_takes_a_response():
    "What check_fit_score_takes_y looks at, on fresh objects"
    for name in ("fit", "fit_transform", "partial_fit"):
        getattr(three(), name)(X, Y)
        getattr(three(), name)(X.tolist(), list(Y))


# the same answers as the filters

def test_none_is_the_knockoff_filter():
    for change in ({}, dict(s="mvr"), dict(statistic=Statistic("lasso", "lcd", 1.)), dict(fit_intercept=False), dict(offset=0), dict(fdr=.4)):
        model = DPKnockoffSelector(method="none", random_state=3, **change).fit(X, Y)
        arguments = {("intercept" if name == "fit_intercept" else name): value for name, value in change.items()}
        expected = knockoff_filter(X, Y, random_state=3, **arguments)
        assert (model.W_ == expected.W).all() and model.threshold_ == expected.threshold and model.selection_.guarantee == expected.guarantee


def test_none_uses_sigma_when_rows_are_few():
    short = slice(0, 14)
    W = DPKnockoffSelector(method="none", sigma=1., random_state=0).fit(X[short], Y[short]).W_
    assert (W == knockoff_filter(X[short], Y[short], sigma=1., random_state=0).W).all()
    assert "n" in refusal(DPKnockoffSelector(method="none").fit, X[short], Y[short])


@pytest.mark.parametrize("change", [{}, dict(bounds="tight"), dict(statistic=Statistic("ridge", "lcd", .1)), dict(fdr=.35), dict(offset=0),
                                    dict(sigma="estimate", beta_norm="estimate")])
def test_one_is_filter_one(change):
    model, expected = paper("one", **change).fit(X, y), filter_one(X, y, random_state=0, **{**PAPER, **change})
    assert (model.W_ == expected.W).all() and model.threshold_ == expected.threshold and (model.signs_ == expected.signs).all()
    assert model.selection_.guarantee == expected.guarantee == model.privacy_.guarantee and "not differential privacy for every pair" in expected.guarantee


@pytest.mark.parametrize("change, arguments", [({}, {}), (dict(bounds="coupled"), dict(bounds="coupled")), (dict(fdr=.35), dict(fdr=.35)),
                                               (dict(statistic=Statistic("ols", "lcd")), dict(contrast="lcd")), (dict(offset=0), dict(offset=0))])
def test_two_is_filter_two(change, arguments):
    model, expected = paper("two", **change).fit(X, y), filter_two(X, y, random_state=0, **{**PAPER, **arguments})
    assert (model.W_ == expected.W).all() and model.threshold_ == expected.threshold and (model.signs_ == expected.signs).all()


@pytest.mark.parametrize("change", [{}, dict(fdr=.35), dict(offset=0), dict(rounds=2), dict(s="lam_min"), dict(sigma=1.), dict(response_center=2.),
                                    dict(statistic=Statistic("ols", "csm")), dict(ranges={"x0": (-2, 2), "x5": (-3, 1)}), dict(fit_intercept=False),
                                    dict(row_bound="private", response_bound="private"), dict(epsilon=.3), dict(delta=1e-3)])
def test_three_is_filter_three(change):
    model = three(**change).fit(X, Y)
    arguments = {("intercept" if name == "fit_intercept" else name): value for name, value in change.items()}
    expected = filter_three(X, Y, random_state=0, **{**THREE, **arguments})
    assert (model.W_ == expected.W).all() and model.threshold_ == expected.threshold and (model.signs_ == expected.signs).all()
    assert (model.get_support() == expected.support).all() and model.selection_.guarantee == expected.guarantee


def test_it_finds_what_is_there():
    model = three().fit(X, Y)
    assert (model.get_support() == (BETA != 0)).all() and list(model.get_support(indices=True)) == list(np.flatnonzero(BETA))
    assert (model.signs_[BETA != 0] == 1).all() and model.threshold_ < model.W_[BETA != 0].min() * 2


# conventions

def test_parameters_are_keyword_only_and_survive():
    with pytest.raises(TypeError): DPKnockoffSelector("three")
    model = three(ranges={"x0": (-1, 1)}, statistic=Statistic("ols"), s="sdp")
    copy = clone(model)
    assert copy.get_params() == model.get_params() and copy is not model
    assert DPKnockoffSelector(**model.get_params()).get_params() == model.get_params()
    assert set(model.get_params()) == {"method", "epsilon", "delta", "fdr", "row_bound", "response_bound", "ranges", "response_center", "sigma", "beta_norm",
                                       "bounds", "statistic", "s", "fit_intercept", "rounds", "offset", "sampler", "random_state"}


def test_tags():
    from sklearn.utils import get_tags
    tags = get_tags(three())
    assert tags.target_tags.required and tags.transformer_tags.preserves_dtype == ["float64", "float32"] and not tags.input_tags.sparse
    assert not tags.non_deterministic and get_tags(three(sampler=NumpySampler(0))).non_deterministic   # a sampler has a state of its own


def test_tables_give_names_and_tables():
    expected = [name for name, b in zip("abcdefgh", BETA) if b]
    pandas = three(ranges={"a": (-2, 2)}).set_output(transform="pandas")
    out = silently(pandas.fit_transform, TABLE, pd.Series(Y))
    assert list(out.columns) == expected == list(pandas.get_feature_names_out()) and list(pandas.selection_.names) == list("abcdefgh")
    assert list(pandas.feature_names_in_) == list("abcdefgh") and pandas.n_features_in_ == 8 and (out.index == TABLE.index).all()
    polars = three(ranges={"a": (-2, 2)}).set_output(transform="polars")
    out = silently(polars.fit_transform, pl.from_pandas(TABLE), pl.Series(Y))
    known = hasattr(polars, "feature_names_in_")   # not on Python 3.10, whose scikit-learn does not ask polars for names
    assert isinstance(out, pl.DataFrame) and out.columns == (expected if known else [f"x{j}" for j in np.flatnonzero(BETA)])
    assert list(polars.selection_.names) == list("abcdefgh")
    assert (polars.W_ == pandas.W_).all() and (out.to_numpy() == X[:, BETA != 0]).all()
    assert list(three().fit(X, Y).get_feature_names_out()) == [f"x{j}" for j in np.flatnonzero(BETA)]
    assert three().fit(X.astype(np.float32), Y).transform(X.astype(np.float32)).dtype == np.float32


def test_names_are_checked():
    model = three().fit(TABLE, Y)
    with pytest.raises(ValueError, match="feature names"): model.transform(TABLE.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="feature names"): three().partial_fit(TABLE, Y).partial_fit(TABLE[list("hgfedcba")], Y)
    assert "clash" in refusal(three().fit, TABLE.rename(columns={"a": "b"}), Y)
    assert "different indexes" in refusal(three().fit, TABLE, pd.Series(Y)[::-1])
    assert "different indexes" in refusal(three().partial_fit, TABLE, pd.Series(Y)[::-1])
    ones = TABLE.rename(columns={"h": "(intercept)"})
    assert "rename it" in refusal(three().fit, ones, Y) and "rename it" in refusal(three(**NO_INTERCEPT).partial_fit, pl.from_pandas(ones), Y)
    assert DPKnockoffSelector(method="none").fit(ones, Y).W_.shape == (8,)
    assert "masked" in refusal(three().fit, np.ma.masked_greater(X, 2), Y) and "masked" in refusal(three().fit, X, np.ma.masked_greater(Y, 2))
    assert three().fit(TABLE.set_axis(range(8), axis=1), Y).selection_.names[0] == "x0"   # scikit-learn knows names only as strings


def test_in_a_pipeline():
    model = make_pipeline(three(), LinearRegression()).fit(X, Y)
    assert model.score(X, Y) > .98 and model[-1].n_features_in_ == 6
    assert model[0].privacy_.releases == 1
    assert any("spends again" in text for text in warned(model.fit, X, Y)) and model[0].privacy_.releases == 2


def test_columns_come_back():
    model = three().fit(X, Y)
    back = model.inverse_transform(model.transform(X))
    assert (back[:, BETA != 0] == X[:, BETA != 0]).all() and not back[:, BETA == 0].any()


def test_unfitted():
    for ask in (lambda m: m.get_support(), lambda m: m.transform(X), lambda m: m.selection_, lambda m: m.W_, lambda m: m.threshold_, lambda m: m.privacy_,
                lambda m: m.finish(), lambda m: m.get_feature_names_out()):
        with pytest.raises(NotFittedError): ask(three())
    assert not hasattr(three(), "selection_") and not hasattr(three(), "no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"): three().no_such_thing


def test_nothing_selected_says_why():
    model = three(epsilon=.01).fit(X[:100], Y[:100])
    texts = warned(model.transform, X)
    assert model.selection_.explain() in texts and any("No features were selected" in text for text in texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.transform(X).shape == (3000, 0)
        assert model.set_output(transform="pandas").transform(X).shape == (3000, 0)
    assert model.threshold_ == np.inf and model.privacy_.epsilon == .01
    assert not warned(three().fit(X, Y).transform, X)


def test_a_fitted_selector_pickles():
    model = three().fit(X, Y)
    copy = pickle.loads(pickle.dumps(model))
    assert (copy.W_ == model.W_).all() and copy.privacy_ == model.privacy_
    unfinished = pickle.loads(pickle.dumps(three().partial_fit(X, Y)))
    assert "selection_" not in vars(unfinished) and (unfinished.W_ == model.W_).all()


def test_exact_sums_do_not_outlive_the_draw():
    "Nothing in a finished selector can tell the exact moments"
    def arrays(x, seen):
        if id(x) in seen: return
        seen.add(id(x))
        if isinstance(x, np.ndarray): yield x
        elif isinstance(x, dict): yield from (a for v in x.values() for a in arrays(v, seen))
        elif isinstance(x, (list, tuple)): yield from (a for v in x for a in arrays(v, seen))
        elif hasattr(x, "__dict__"): yield from arrays(vars(x), seen)
    exact = three().partial_fit(X, Y)._moments
    secrets = np.concatenate([exact.Xty, exact.XtX.ravel(), exact.mean, exact.scatter.ravel()])
    secrets = secrets[np.abs(secrets - np.round(secrets)) > 1e-9]
    for model in (three().fit(X, Y), three().partial_fit(X, Y).finish()):
        values = np.concatenate([a.ravel().astype(float) for a in arrays(vars(model), set()) if a.dtype.kind == "f"])
        assert not np.isclose(values[:, None], secrets, rtol=1e-12, atol=0).any()
    unfinished = three().partial_fit(X, Y)
    assert any(np.isclose(a.ravel()[:, None], secrets, rtol=1e-12).any() for a in arrays(vars(unfinished), set()) if a.dtype.kind == "f")


# randomness

def test_random_state_reproduces():
    assert (three(random_state=7).fit(X, Y).W_ == three(random_state=7).fit(X, Y).W_).all()
    assert (three(random_state=7).fit(X, Y).W_ != three(random_state=8).fit(X, Y).W_).any()
    assert (three(random_state=None).fit(X, Y).W_ != three(random_state=None).fit(X, Y).W_).any()
    assert (three(random_state=np.int64(7)).fit(X, Y).W_ == three(random_state=7).fit(X, Y).W_).all()
    a, b = (three(random_state=np.random.default_rng(7)).fit(X, Y) for _ in range(2))
    assert (a.W_ == b.W_).all() and (filter_three(X, Y, random_state=np.random.default_rng(7), **THREE).W == a.W_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (a.W_ != a.fit(X, Y).W_).any() or (b.W_ != a.W_).any()


def test_a_random_state_of_numpy_is_taken_and_moves_on():
    a, b = (three(random_state=np.random.RandomState(7)).fit(X, Y) for _ in range(2))
    first = a.W_
    assert (first == b.W_).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert (a.fit(X, Y).W_ != first).any()
    state = np.random.RandomState(7)
    three(random_state=state).partial_fit(X, Y)
    assert state.bytes(4) == np.random.RandomState(7).bytes(4)   # collecting draws nothing, not even a seed


def test_a_sampler_draws_and_random_state_decides_the_knockoffs():
    sampler = Recorder(5)
    model = three(sampler=sampler).fit(X, Y)
    assert sampler.log == ["moments", "clamped responses"]
    assert (model.W_ == filter_three(X, Y, random_state=0, sampler=NumpySampler(5), **THREE).W).all()
    assert "drawn before" in refusal(lambda: warned(model.fit, X, Y)) and model.privacy_.releases == 1   # a used sampler refuses; nothing was spent
    assert "OpenDP" in three(sampler=SecureSampler()).fit(X, Y).selection_.notes[-1]


# chunks

@pytest.mark.parametrize("make, response", [(lambda: DPKnockoffSelector(method="none", random_state=0), Y), (lambda: paper("one"), y), (lambda: paper("two"), y),
                                            (three, Y), (lambda: three(ranges={"x1": (-2, 2.5)}, response_center=2.), Y), (lambda: three(**NO_INTERCEPT), y)])
def test_chunks_give_what_fit_gives(make, response):
    whole, parts = make().fit(X, response), make()
    for rows in np.split(np.arange(3000), [1, 500, 1700]): assert parts.partial_fit(X[rows], response[rows]) is parts
    assert parts.finish() is parts and np.allclose(parts.W_, whole.W_, rtol=1e-6, atol=1e-9)
    assert (parts.get_support() == whole.get_support()).all() and parts.privacy_ == whole.privacy_


@pytest.mark.parametrize("ask", [lambda m: m.get_support(), lambda m: m.transform(X), lambda m: m.selection_, lambda m: m.W_, lambda m: m.threshold_,
                                 lambda m: m.signs_, lambda m: m.finish()])
def test_asking_draws_once(ask):
    sampler = Recorder()
    model = three(sampler=sampler).partial_fit(X, Y)
    assert not sampler.log and model.privacy_.releases == 0 and model.privacy_.spent is None
    ask(model)
    assert sampler.log == ["moments", "clamped responses"]
    W = model.W_.copy()
    for _ in range(3): model.get_support(); model.transform(X); model.finish(); model.get_feature_names_out(); model.selection_
    assert len(sampler.log) == 2 and (model.W_ == W).all() and model.privacy_.releases == 1


def test_looking_draws_nothing():
    import inspect
    sampler = Recorder()
    model = three(sampler=sampler).partial_fit(X, Y)
    repr(model), model._repr_html_(), inspect.getmembers(model), dir(model), repr(model.privacy_)
    make_pipeline(model, LinearRegression().fit(X, Y))._repr_html_()
    with pytest.raises(NotFittedError, match="finish"): model.get_feature_names_out()
    assert not sampler.log and model.privacy_.releases == 0
    model.fit(X, Y)._repr_html_()
    assert len(sampler.log) == 2


def test_a_result_is_final():
    for model in (three().fit(X, Y), three().partial_fit(X, Y).finish()):
        W = model.W_
        assert "second" in refusal(model.partial_fit, X, Y) and "spends again" in refusal(model.partial_fit, X, Y)
        assert model.W_ is W and model.privacy_.releases == 1
    assert "spends" not in refusal(DPKnockoffSelector(method="none").fit(X, Y).partial_fit, X, Y)


def test_fit_starts_anew():
    model = three().partial_fit(X[:1000], 5 * Y[:1000]).fit(X, Y)
    assert (model.W_ == three().fit(X, Y).W_).all() and model.privacy_.releases == 1


def test_a_chunk_is_added_whole_or_not_at_all():
    model = three().partial_fit(X[:1500], Y[:1500])
    bad = np.where(np.arange(1500) == 7, np.nan, Y[1500:])
    with pytest.raises(ValueError, match="NaN"): model.partial_fit(X[1500:], bad)
    assert np.allclose(model.partial_fit(X[1500:], Y[1500:]).W_, three().fit(X, Y).W_, rtol=1e-6)


def test_clipping_is_not_forgotten_in_chunks():
    assert three(ranges={"x0": (-2, 2)}, response_center=1.).partial_fit(X, Y)._moments.clip == Clip(2., 8., {"x0": (-2, 2)}, 1., True)
    far = X.copy(); far[0] = 1e6
    gone = three().partial_fit(far, Y)._moments
    assert gone.row_norm <= 2. + 1e-9 and gone.cut[0] > 0


@pytest.mark.parametrize("change, words", [
    (dict(row_bound=3.), "changed"), (dict(response_bound=9.), "changed"), (dict(ranges={"x0": (-2, 2)}), "changed"), (dict(fit_intercept=False), "changed"),
    (dict(response_center=1.), "changed"), (dict(method="none", epsilon=None, delta=None, row_bound=None, response_bound=None), "changed"),
    (dict(rounds=3), "3 passes"), (dict(row_bound="private"), "row_bound='private'"), (dict(response_bound="private"), "response_bound='private'"),
    (dict(epsilon=None), "epsilon is missing"), (dict(fdr=2), "fdr=2")])
def test_what_changed_between_chunks_and_finish_is_noticed(change, words):
    sampler = Recorder()
    model = three(sampler=sampler).partial_fit(X, Y)
    model.set_params(**({"sampler": None} if change.get("method") == "none" else {}), **change)
    assert words in refusal(model.finish) and words in refusal(model.partial_fit, X, Y) and words in refusal(model.get_support)
    assert not sampler.log and model.privacy_.spent is None
    assert (model.set_params(**three(sampler=sampler).get_params()).W_ == three(sampler=NumpySampler(0)).fit(X, Y).W_).all()


def test_another_fdr_may_be_chosen_until_the_draw():
    model = three().partial_fit(X, Y).set_params(fdr=.3)
    assert model.selection_.fdr == .3


# the ledger

def test_fitting_twice_warns_and_counts():
    model = three(random_state=None)
    assert not warned(model.fit, X, Y)
    assert model.privacy_ == Privacy("three", 2., 1e-5, Budget(2., 1e-5), 1, model.selection_.guarantee, "replace one row")
    text, = warned(model.fit, X, Y)
    assert "spends again: together (epsilon=4, delta=2e-05) by composition" in text and "same noise" not in text
    assert model.privacy_.spent == Budget(4., 2e-5) and model.privacy_.releases == 2 and model.privacy_.epsilon == 2.
    text, = warned(model.set_params(epsilon=1.).fit, X, Y)
    assert "(epsilon=5, delta=3e-05)" in text and model.privacy_.spent.epsilon == 5. and "(epsilon=5, delta=3e-05) in 3 releases" in repr(model.privacy_)
    assert model.set_params(epsilon=9., method="none").privacy_.epsilon == 1. and model.privacy_.method == "three"   # of the result, not of the parameters
    model.set_params(epsilon=1., method="three")
    assert not warned(clone(model).fit, X, Y) and clone(model).fit(X, Y).privacy_.spent == Budget(1., 1e-5)


def test_a_seed_repeats_its_noise_and_says_so():
    text, = warned(three().fit(X, Y).fit, X, Y)
    assert "random_state=0 repeats the same noise" in text and "SecureSampler" in text
    other = X.copy(); other[0] = -other[0]
    a, b = (three().fit(data, Y).selection_.details["release"].products for data in (X, other))
    x, z = (three().partial_fit(data, Y)._moments.Xty for data in (X, other))
    assert np.allclose(b - a, z - x, atol=1e-8)   # which is why


def test_composition_of_the_papers_methods_is_not_claimed():
    for method in ("one", "two"):
        text, = warned(paper(method).fit(X, y).fit, X, y)
        assert f"not for '{method}'" in text and "(epsilon=1.8, delta=0.02)" in text


def test_the_warning_can_forbid():
    model = three().fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="spends again"): model.fit(X, Y)
    assert model.privacy_.releases == 1 and model.privacy_.spent == Budget(2., 1e-5)
    assert (model.W_ == three().fit(X, Y).W_).all()   # what was paid for is still there


def test_deltas_that_protect_nobody():
    model = three(delta=.6).fit(X, Y)
    assert "protects nobody" in refusal(model.fit, X, Y) and model.privacy_.releases == 1 and model.privacy_.delta == .6
    assert add_up(None, Budget(1.)) == Budget(1.)


def test_none_spends_nothing():
    model = DPKnockoffSelector(method="none", random_state=0).fit(X, Y)
    assert not warned(model.fit, X, Y)
    assert model.privacy_.spent is None and model.privacy_.releases == 0 and model.privacy_.epsilon is None
    assert "Not private" in repr(model.privacy_) and "nothing" in repr(model.privacy_)
    was_private = three().fit(X, Y).set_params(method="none", epsilon=None, delta=None, row_bound=None, response_bound=None)
    assert not warned(was_private.fit, X, Y) and was_private.privacy_.spent == Budget(2., 1e-5) and was_private.privacy_.epsilon is None


def test_a_failure_after_the_draw_is_paid_for():
    def fragile(A, b):
        if len(A) > 6: raise ZeroDivisionError
        return csm(ols(A, b))
    model = three(statistic=fragile)
    with pytest.raises(ZeroDivisionError): model.fit(X, Y)
    assert model.privacy_.releases == 1 and model.privacy_.spent == Budget(2., 1e-5) and "no result" in repr(model.privacy_)
    with pytest.raises(NotFittedError): model.get_support()
    assert "spends again" in warned(model.set_params(statistic=None).fit, X, Y)[0]
    with pytest.raises(ZeroDivisionError): warned(model.set_params(statistic=fragile).fit, X, Y)
    with pytest.raises(NotFittedError): model.get_support()   # the second result must not pass for the third
    assert model.privacy_.releases == 3


def test_the_meter_sees_both_kinds_of_noise():
    for draw in ("gaussian", "laplace"):
        meter = Meter(NumpySampler(0))
        assert not meter.drawn and getattr(meter, draw)(1., 2., "a") == getattr(NumpySampler(0), draw)(1., 2., "a") and meter.drawn


def test_a_refused_fit_leaves_everything_as_it_was():
    model = three().fit(TABLE, Y)
    before = dict(vars(model))
    assert "fdr" in refusal(model.set_params(fdr=7).fit, X, Y)
    model.set_params(fdr=.2)
    with pytest.raises(ValueError, match="NaN"): model.fit(X[:, :3], np.full(3000, np.nan))
    assert vars(model) == before and list(model.get_feature_names_out()) and model.n_features_in_ == 8
    assert "'z'" in refusal(lambda: warned(model.set_params(ranges={"z": (0, 1)}).fit, TABLE, Y)) and vars(model) == {**before, "ranges": {"z": (0, 1)}}
    unfinished = three().partial_fit(X, Y)
    with pytest.raises(ValueError, match="NaN"): unfinished.fit(X[:, :3], np.full(3000, np.nan))
    assert (unfinished.W_ == three().fit(X, Y).W_).all()


# refusals

REFUSED = [
    (three(epsilon=None), "epsilon is missing: pass a privacy budget, e.g. epsilon=1.0"), (three(delta=None), "delta is missing"), (three(delta=0.), "leaves no room"),
    (three(epsilon=-1), "epsilon=-1"), (three(delta=2.), "delta=2.0"), (three(row_bound=None), "row_bound is missing: pass a public number"),
    (three(response_bound=None), "response_bound is missing: pass a public number"), (three(row_bound=0), "row_bound=0"), (three(response_bound="big"), "response_bound='big'"),
    (three(ranges=[(0, 1)]), "is not a dict"), (three(ranges={"x0": (1, 0)}), "column 'x0'"), (three(ranges={"x0": (0, 1)}, fit_intercept=False), "intercept"),
    (three(response_center="a"), "response_center='a'"), (three(sigma=-1), "sigma=-1"), (three(sigma="estimate"), "sigma='estimate'"), (three(s="best"), "s='best'"),
    (three(s=np.ones(8)), "only after the release"), (three(rounds=0), "rounds=0"), (three(fdr=0), "fdr=0"), (three(offset=2), "offset=2"), (three(method="four"), "method='four'"),
    (three(fit_intercept="yes"), "fit_intercept='yes'"), (three(statistic="lasso"), "statistic='lasso'"), (three(sampler=3), "sampler=3"), (three(random_state=-1), "random_state=-1"),
    (three(random_state="a"), "random_state='a'"), (paper(epsilon=None), "epsilon is missing"), (paper("one", delta=None), "delta is missing"),
    (paper(row_bound=None), "row_bound is missing: pass a public bound on the Euclidean norm of every row"), (paper("one", row_bound=None), "row_bound is missing"),
    (paper(sigma=None), "sigma is missing: pass a public bound"), (paper("one", beta_norm=None), "beta_norm is missing: pass a public bound"), (paper(sigma=0), "sigma=0"),
    (paper(row_bound="estimate"), "row_bound='estimate'"), (paper(sigma="guess"), "sigma='guess'"), (paper(beta_norm=-1), "beta_norm=-1"),
    (paper(fit_intercept=True), "pass fit_intercept=False"), (paper("one", fit_intercept=True), "method='one'"), (paper(bounds="good"), "bounds='good'"),
    (paper("one", bounds="coupled"), "bounds='coupled'"), (paper(statistic=Statistic("path")), "Statistic('ols', 'lcd')"), (paper(statistic=lambda A, b: csm(ols(A, b))), "Statistic('ols', 'lcd')"),
    (DPKnockoffSelector(), "epsilon is missing"),
]

@pytest.mark.parametrize("model, words", REFUSED)
def test_parameters_are_refused_before_data_is_touched(model, words):
    class Untouchable:
        def __getattribute__(self, name): raise AssertionError("the data was touched")
    for method in (model.fit, model.partial_fit):
        text = refusal(method, Untouchable(), Untouchable())
        assert words in text and "\n" not in text


GIVEN = dict(epsilon=1., delta=1e-3, row_bound=2., response_bound=2., ranges={"x0": (0, 1)}, response_center=1., beta_norm=1., bounds="tight", s="sdp", rounds=2, sampler=NumpySampler(0))
UNUSED = {"none": ("epsilon", "delta", "row_bound", "response_bound", "ranges", "response_center", "beta_norm", "bounds", "rounds", "sampler"),
          "one": ("response_bound", "ranges", "response_center", "s", "rounds"), "two": ("response_bound", "ranges", "response_center", "s", "rounds"),
          "three": ("beta_norm", "bounds")}

@pytest.mark.parametrize("method, name", [(method, name) for method, names in UNUSED.items() for name in names])
def test_no_parameter_does_nothing(method, name):
    model = {"none": lambda: DPKnockoffSelector(method="none"), "one": lambda: paper("one"), "two": paper, "three": three}[method]()
    assert f"{name}=" in (text := refusal(model.set_params(**{name: GIVEN[name]}).fit, X, y)) and f"has no meaning for method={method!r}: leave it out" in text


def test_nothing_is_spent_on_refused_data():
    sampler = Recorder()
    for model, data, response, words in [
            (three(sampler=sampler, ranges={"z": (0, 1)}), X, Y, "'z'"), (paper("one", sampler=sampler, row_bound=.1), X, y, "row_bound=0.1"),
            (paper("two", sampler=sampler), np.c_[X, X[:, 0]], y, "collinear"), (three(sampler=sampler, statistic=lambda A, b: b[:len(b) // 2]), X, Y, "antisymmetric"),
            (three(sampler=sampler), X, Y[:-1], "inconsistent"), (three(sampler=sampler), X[:1], Y[:1], "1 sample"), (three(sampler=sampler), X, np.where(Y > 0, np.inf, Y), "infinity"),
            (three(sampler=sampler), np.where(X > 3, np.nan, X), Y, "NaN"), (three(sampler=sampler), TABLE.assign(a="text"), Y, "text"), (three(sampler=sampler), X, None, "requires y"),
            (three(sampler=sampler), X[0], Y, "2D"), (three(sampler=sampler), X, np.c_[Y, Y], "1d")]:
        with pytest.raises(ValueError, match=words): model.fit(data, response)
        assert not sampler.log and model._spent is None and model._releases == 0
        with pytest.raises(NotFittedError): model.get_support()
    assert issubclass(InputError, ValueError)


def test_a_statistic_of_ones_own():
    f = lambda A, b: csm(ols(A, b))
    assert (three(statistic=f).fit(X, Y).W_ == three(statistic=Statistic()).fit(X, Y).W_).all()
    weights = np.arange(1., 9.)   # a function for eight columns only is fine where the filter knows p
    assert DPKnockoffSelector(method="none", statistic=lambda A, b: weights * f(A, b) if len(b) == 16 else None).fit(X, Y).W_.shape == (8,)
