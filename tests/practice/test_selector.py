"The scikit-learn estimator: its conventions, its bookkeeping, its refusals."
import contextlib
import copy
import inspect
import pickle
import pickletools
import threading
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

from calls import OWN, by, selector
from dp_knockoff.core.errors import InputError
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import ExactMoments
from dp_knockoff.data.source import MomentsSource, moments_of, open_source
from dp_knockoff.filters.methods import METHODS, knockoff_filter, private_filter, takes
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.filters.products_method import ProductsMethod
from dp_knockoff.knockoffs.laws import Blocks, Gaussian, Levels
from dp_knockoff.knockoffs.statistics import Statistic, csm, ols
from dp_knockoff.practice.selector import DPKnockoffSelector, ReleaseSelector
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget
from dp_knockoff.privacy.samplers import NumpySampler
from dp_knockoff.selection.release import select
from dp_knockoff.selection.rules import KnockoffPlus

X, y, BETA = linear_model(3000, 8, 6, random_state=0)
Y = y + 2
NAMES = list("abcdefgh")
TABLE = pd.DataFrame(X, columns=NAMES)
WITH_Y = TABLE.assign(y=Y)
MOMENTS = dict(epsilon=2., delta=1e-5, row_bound=1.7, response_bound=20.)  # beyond it: hardly any
LABELS = dict(epsilon=2., delta=1e-5, response_bound=20., sigma=1.)
LAW = Gaussian(0, np.eye(8))
PRODUCTS = dict(epsilon=2., delta=1e-5, response_bound=8., law=LAW)
PAPER = dict(epsilon=.9, delta=1e-2, row_bound=7., sigma=1., beta_norm=12.)
NO_INTERCEPT = dict(fit_intercept=False)
UNBOUND = dict(epsilon=None, delta=None, row_bound=None, response_bound=None)


SIMULATED = dict(simulation=True, random_state=9)  # a seed with which no other variable comes along
RELEASED = dict(simulation=False, random_state=None)
KNOCKOFFS = dict(rule="knockoffs")                 # not the default of "moments"
ONCE = dict(rounds=1)                              # what partial_fit can have
FIRST = ["moments", "clamped responses", "weights"]  # the draws of the first round
ALL = ["weights", "sizes 0", "moments", "sizes 1", "residuals 1", "sizes 2", "residuals 2", "variances"]


def moments(**change): return selector("moments", **{**MOMENTS, **SIMULATED, **change})


def labels(**change): return selector("labels", **{**LABELS, **SIMULATED, **change})


def products(**change): return selector("products", **{**PRODUCTS, **SIMULATED, **change})


def lawful(**change): return selector("tests", **{**PRODUCTS, **SIMULATED, **change})


def paper(method="two", **change): return selector(method, **{**PAPER, **NO_INTERCEPT, **SIMULATED, **change})


def none(**change): return selector("none", **{"random_state": 0, **change})


def one(**change): return paper("one", **change)


def expected(word, data, response, given, **change):
    "What the method itself selects"
    return by(word)(data, response, **{**given, **change}, **SIMULATED)


MAKE = {"none": none, "one": one, "two": paper, "moments": moments, "labels": labels, "products": products,
        "tests": lawful}
PURPOSES = []  # what NumPy's noise was drawn for


def listed_draw(real):
    def draw(self, value, scale, purpose):
        PURPOSES.append(purpose)
        return real(self, value, scale, purpose)
    return draw


@pytest.fixture(autouse=True)
def watched_noise(monkeypatch):
    for name in ("gaussian", "laplace", "lattice"):
        monkeypatch.setattr(NumpySampler, name, listed_draw(getattr(NumpySampler, name)))


class Recorder:
    "Lists what was drawn since it was made"
    def __init__(self): self.start = len(PURPOSES)

    @property
    def log(self): return PURPOSES[self.start:]


class Untouchable:
    "Data that notices when it is looked at"
    def __getattribute__(self, name): raise AssertionError("the data was touched")


def own_statistic(A, b): return csm(ols(A, b))


def for_eight(A, b):
    "A statistic for eight columns only"
    return np.arange(1., 9.) * own_statistic(A, b) if len(b) == 16 else None


def fragile(A, b):
    "Fails on the release's matrix, whose columns have length 1"
    if np.allclose(np.diag(A), 1): raise ZeroDivisionError
    return csm(ols(A, b))


def spelled(change):
    "The selector's parameters as arguments of a filter"
    return {("intercept" if name == "fit_intercept" else name): value for name, value in change.items()}


def assert_agrees(model, expected):
    "The selector's results are those of the filter"
    assert (model.W_ == expected.W).all() and (model.signs_ == expected.signs).all()
    assert model.threshold_ == expected.threshold and (model.get_support() == expected.support).all()
    assert model.selection_.guarantee == expected.guarantee == model.privacy_.guarantee


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

FINAL = {"check_fit_score_takes_y": "calls partial_fit on a fitted object, which would need a second release "
                                    "and is refused (for every method alike)"}


LAX = KnockoffPlus(offset=0)


@parametrize_with_checks([DPKnockoffSelector(method="none"),
                          DPKnockoffSelector(method="none", fdr=.9, rule=LAX),
                          DPKnockoffSelector(**MOMENTS, simulation=True),
                          DPKnockoffSelector(**MOMENTS, simulation=True, fdr=.9, rule=LAX)],
                         expected_failed_checks=lambda estimator: FINAL)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


def test_every_method_of_fitting_takes_a_response():
    "What check_fit_score_takes_y looks at, on fresh objects"
    for name in ("fit", "fit_transform", "partial_fit"):
        getattr(moments(), name)(X, Y)
        getattr(moments(), name)(X.tolist(), list(Y))
        assert list(inspect.signature(getattr(DPKnockoffSelector, name)).parameters)[2] == "y"


# the same answers as the filters

@pytest.mark.parametrize("change", [
    {}, dict(s="mvr"), dict(s=np.full(8, .1)), dict(statistic=Statistic("lasso", "lcd", 1.)),
    dict(fit_intercept=False), dict(offset=0), dict(fdr=.4)])
def test_none_is_the_knockoff_filter(change):
    assert_agrees(none(**change).fit(X, Y), knockoff_filter(X, Y, random_state=0, **spelled(change)))


def test_none_uses_sigma_when_rows_are_few():
    short = slice(0, 14)
    model = none(sigma=1.).fit(X[short], Y[short])
    assert_agrees(model, knockoff_filter(X[short], Y[short], sigma=1., random_state=0))
    assert "n" in refusal(DPKnockoffSelector(method="none").fit, X[short], Y[short])


@pytest.mark.parametrize("change", [
    {}, dict(bounds="tight"), dict(statistic=Statistic("ridge", "lcd", .1)), dict(fdr=.35), dict(offset=0),
    dict(sigma="estimate", beta_norm="estimate"), dict(repaired=False), dict(epsilon_split=(.2, .4, .4)),
    dict(delta_split=(.2, .4, .4))])
def test_one_is_filter_one(change):
    model = paper("one", **change).fit(X, y)
    assert_agrees(model, expected("one", X, y, PAPER, **change))
    guarantee = model.privacy_.guarantee
    assert guarantee.simulated and not guarantee.privacy.strict


@pytest.mark.parametrize("change", [
    {}, dict(bounds="coupled"), dict(fdr=.35), dict(statistic=Statistic("ols", "lcd")), dict(offset=0),
    dict(bounds="tight", beta_max=5.), dict(ridge_penalty=.1), dict(delta_split=(.2, .8))])
def test_two_is_filter_two(change):
    assert_agrees(paper("two", **change).fit(X, y), expected("two", X, y, PAPER, **change))


@pytest.mark.parametrize("change", [
    {}, dict(fdr=.35), dict(offset=0, **KNOCKOFFS), dict(rounds=1), dict(rounds=2), dict(sigma=1.),
    dict(s="lam_min", **KNOCKOFFS), dict(balance=2.5), dict(response_center=2.), dict(fit_intercept=False),
    dict(statistic=Statistic("ols", "csm"), **KNOCKOFFS), dict(response_center="private"),
    dict(ranges={"x0": (-2, 2), "x5": (-3, 1)}), dict(row_bound="private", response_bound="private"),
    dict(row_bound="private", response_bound="private", response_center="private"),
    dict(epsilon=.3), dict(delta=1e-3), dict(rule="bh"), KNOCKOFFS, dict(rule="dbh"), dict(rule="by"),
    dict(rule="ebh", fdr=.5), dict(rows_per_person=3)])
def test_moments_is_moments_filter(change):
    found = expected("moments", X, Y, MOMENTS, **change)
    model = moments(**change).fit(X, Y)
    assert_agrees(model, found)
    assert model.selection_.rule == found.rule
    assert model.selection_.release.rounds == change.get("rounds", 3)
    assert repr(model.selection_.effects) == repr(found.effects)


def test_a_private_centre_is_drawn_counted_and_used():
    seen = Recorder()
    far = moments(response_center="private").fit(X, Y + 100)
    searched = [purpose for purpose in seen.log if purpose.startswith("centre, probe")]
    assert seen.log == [*searched, *ALL] and len(searched) > 5 and far.privacy_.releases == 1
    found = far.selection_.release.clip.response_center
    assert abs(found - np.median(Y + 100)) < 2 and far.privacy_.spent == Budget(2., 1e-5)
    assert far.get_support()[BETA != 0].all() and far.selection_.release.clamped[-1] < 100
    assert "beyond the response bound" in repr(moments(rounds=1).fit(X, Y + 100).selection_)


def test_estimates_are_in_the_units_of_the_data():
    "Whatever units the columns and the response have: slopes, standard errors and the intercept follow them"
    scale, shift = 10. ** np.arange(-3, 5), np.arange(8.)
    ranges = {name: (a - 3 * b, a + 3 * b) for name, a, b in zip(NAMES, shift, scale)}
    table = pd.DataFrame(X * scale + shift, columns=NAMES)
    truth = np.append(BETA / scale, 2 + 50 - BETA @ (shift / scale))
    plain = moments(ranges=dict.fromkeys(NAMES, (-3, 3)), row_bound=.6).fit(TABLE, Y)
    for center in (50., "private"):
        model = moments(ranges=ranges, row_bound=.6, response_center=center).fit(table, Y + 50)
        every = model.selection_.release.estimates(.999, simultaneous=True)
        assert every.names == (*NAMES, "(intercept)")
        assert (every.low < truth).all() and (truth < every.high).all()
        assert (every.high - every.low < np.append(2 / scale, 60)).all()
        chosen = model.selection_.effects
        assert chosen.names == tuple(model.get_feature_names_out()) == tuple(np.array(NAMES)[BETA != 0])
        assert np.allclose(chosen.estimate, every.estimate[:8][BETA != 0], rtol=1e-12)
        assert model.get_support().sum() == len(chosen) == 6
        if center != "private":  # the same numbers in other units
            same = plain.selection_.release.estimates()
            assert np.allclose(every.estimate[:8] * scale, same.estimate[:8], rtol=1e-3, atol=1e-3)
            assert np.allclose(every.se[:8] * scale, same.se[:8], rtol=1e-3)
    wide = moments(row_bound=9., response_bound=20., response_center=50.).fit(TABLE, Y + 50)
    long = wide.selection_.release
    assert long.clip.one == 3  # the entry of the column of ones is no unit of the user's
    every = long.estimates(.999, simultaneous=True)
    assert (every.low[-1] < 52 < every.high[-1]) and every.high[-1] - every.low[-1] < 2


@pytest.mark.parametrize("change", [
    {}, dict(fdr=.35), dict(offset=0), dict(s="lam_min"), dict(row_bound=2.), dict(response_center=2.),
    dict(statistic=Statistic("ols", "csm")), dict(fit_intercept=False), dict(rule="bh"), dict(rule="dbh"),
    dict(rule="by"), dict(rule="ebh", fdr=.5), dict(rows_per_person=2)])
def test_labels_is_labels_filter(change):
    model = labels(**change).fit(X, Y)
    assert_agrees(model, expected("labels", X, Y, LABELS, **change))
    k = change.get("rows_per_person", 1)
    unit = "one response" if k == 1 else f"any {k} responses"
    assert model.privacy_.unit == f"replace {unit}" and unit in model.selection_.guarantee.privacy.unit


@pytest.mark.parametrize("change", [
    {}, dict(fdr=.35), dict(offset=0), dict(row_bound=1.5), dict(response_center=2.), dict(rounds=1),
    dict(ranges={"x0": (-1, 1)}), dict(statistic=Statistic("ols", "csm")), dict(rows_per_person=2),
    dict(groups={"first": ["x0", "x1"], "last": ["x6", "x7"]}), dict(law=Gaussian(.1, 2 * np.eye(8)))])
def test_products_is_products_filter(change):
    model = products(**change).fit(X, Y)
    found = expected("products", X, Y, PRODUCTS, **change)
    assert (model.W_ == found.W).all() and model.threshold_ == found.threshold
    assert model.selection_.names == found.names and model.selection_.guarantee == found.guarantee
    assert model.privacy_.unit == ("replace any 2 rows" if "rows_per_person" in change else "replace one row")
    if change: assert repr(products().fit(X, Y).selection_) != repr(model.selection_)  # it does something


def test_the_law_draws_the_knockoffs_of_the_plain_filter():
    plain = knockoff_filter(X, Y, law=LAW, random_state=0)
    assert_agrees(none(law=LAW).fit(X, Y), plain)
    assert (plain.W != none().fit(X, Y).W_).any()


def test_it_finds_what_is_there():
    for make in (moments, labels, products):
        model = make().fit(X, Y)
        found = model.get_support()
        assert found[BETA != 0].all() and found[BETA == 0].sum() <= 1 # fdr .2 allows a false one
        assert list(model.get_support(indices=True)) == list(np.flatnonzero(found))
        assert (model.signs_[BETA != 0] == 1).all() and model.threshold_ < model.W_[BETA != 0].min() * 2


def test_a_release_can_be_asked_again():
    release = moments().fit(X, Y).selection_.release
    assert_agrees(moments(fdr=.4).fit(X, Y), select(release, fdr=.4))
    for rule in ("knockoffs", "by", "dbh"):
        assert_agrees(moments(rule=rule).fit(X, Y), select(release, rule=rule))


# conventions

def test_parameters_are_keyword_only_and_survive():
    with pytest.raises(TypeError): DPKnockoffSelector("moments")
    assert len(OWN) == 18
    model = moments(ranges={"x0": (-1, 1)}, statistic=Statistic("ols"), s="sdp", rounds=2)
    fresh = clone(model)
    assert fresh.get_params() == model.get_params() and fresh is not model
    assert DPKnockoffSelector(**model.get_params()).get_params() == model.get_params()


def test_a_method_object_and_its_own_fields_do_not_mix():
    method = MomentsMethod(**MOMENTS, rounds=2)
    assert DPKnockoffSelector(method=method, **SIMULATED).fit(X, Y).selection_.release.rounds == 2
    for name, value in dict(epsilon=1., delta=1e-6, law=LAW, row_bound=2., response_bound=3.,
                            ranges={"x0": (0, 1)}, rows_per_person=2).items():
        text = refusal(DPKnockoffSelector(method=method, **{name: value}).fit, Untouchable(), None)
        assert text.startswith(f"{name}=") and f"pass method=MomentsMethod(..., {name}=...)" in text
    text = refusal(DPKnockoffSelector(method=method, fit_intercept=False).fit, Untouchable(), None)
    assert "MomentsMethod(..., intercept=...)" in text
    plain = MomentsMethod(**MOMENTS, intercept=False)
    assert not DPKnockoffSelector(method=plain, **SIMULATED).fit(X, y).selection_.release.clip.intercept


def test_what_only_a_method_object_has_is_named():
    model = DPKnockoffSelector(method="labels", epsilon=1., delta=1e-6, response_bound=3.)
    text = refusal(model.fit, None, None)
    assert text.startswith("sigma=None") and text.endswith("in method=LabelsMethod(..., sigma=...)")


def test_a_word_is_the_method_with_its_defaults():
    front = private_filter(X, Y, **MOMENTS, **SIMULATED)
    assert_agrees(DPKnockoffSelector(**MOMENTS, **SIMULATED).fit(X, Y), front)
    assert_agrees(DPKnockoffSelector(method=MomentsMethod(**MOMENTS), **SIMULATED).fit(X, Y), front)


def test_tags():
    tags = get_tags(moments())
    assert tags.target_tags.required and not tags.input_tags.sparse and not tags.non_deterministic
    assert tags.transformer_tags.preserves_dtype == ["float64", "float32"]
    assert get_tags(moments(**RELEASED)).non_deterministic and not get_tags(none()).non_deterministic


def test_tables_give_names_and_tables():
    expected = [name for name, b in zip(NAMES, BETA) if b]
    pandas = moments(ranges={"a": (-2, 2)}).set_output(transform="pandas")
    out = silently(pandas.fit_transform, TABLE, pd.Series(Y))
    assert list(out.columns) == expected == list(pandas.get_feature_names_out())
    assert list(pandas.selection_.names) == NAMES and (out.index == TABLE.index).all()
    assert list(pandas.feature_names_in_) == NAMES and pandas.n_features_in_ == 8
    polars = moments(ranges={"a": (-2, 2)}).set_output(transform="polars")
    out = silently(polars.fit_transform, pl.from_pandas(TABLE), pl.Series(Y))
    known = hasattr(polars, "feature_names_in_")  # not every scikit-learn asks polars for names
    assert isinstance(out, pl.DataFrame)
    assert out.columns == (expected if known else [f"x{j}" for j in np.flatnonzero(BETA)])
    assert (polars.W_ == pandas.W_).all() and (out.to_numpy() == X[:, BETA != 0]).all()
    arrow = silently(moments(ranges={"a": (-2, 2)}).fit, pa.Table.from_pandas(TABLE), Y)
    for model in (polars, arrow): assert list(model.selection_.names) == NAMES
    assert (arrow.W_ == pandas.W_).all()
    assert list(moments().fit(X, Y).get_feature_names_out()) == [f"x{j}" for j in np.flatnonzero(BETA)]
    assert moments().fit(X.astype(np.float32), Y).transform(X.astype(np.float32)).dtype == np.float32


def test_a_scikit_learn_that_asks_only_pandas_for_names(monkeypatch):
    def older(estimator, data, response, **options):
        return validate_data(estimator, np.asarray(data), response, **options)

    monkeypatch.setattr("dp_knockoff.practice.selector.validate_data", older)
    for data in (pl.from_pandas(TABLE), pa.Table.from_pandas(TABLE)):
        model = moments(ranges={"a": (-2, 2)}).fit(data, Y)
        assert list(model.selection_.names) == NAMES and not hasattr(model, "feature_names_in_")


def test_names_are_checked():
    model = moments().fit(TABLE, Y)
    with pytest.raises(ValueError, match="feature names"): model.transform(TABLE.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="feature names"):
        moments().partial_fit(TABLE, Y).partial_fit(TABLE[NAMES[::-1]], Y)
    assert "clash" in refusal(moments().fit, TABLE.rename(columns={"a": "b"}), Y)
    assert "clash" in refusal(moments().fit, TABLE.set_axis([0, 0, *range(6)], axis=1), Y)
    assert "different indexes" in refusal(moments().fit, TABLE, pd.Series(Y)[::-1])
    assert "different indexes" in refusal(moments().partial_fit, TABLE, pd.Series(Y)[::-1])
    assert "masked" in refusal(moments().fit, np.ma.masked_greater(X, 2), Y)
    assert "masked" in refusal(moments().fit, X, np.ma.masked_greater(Y, 2))
    numbered = moments().fit(TABLE.set_axis(range(8), axis=1), Y)
    assert numbered.selection_.names[0] == "x0"  # scikit-learn knows names only as strings


def test_the_name_of_the_column_of_ones_is_taken_only_where_there_is_one():
    ones = TABLE.rename(columns={"h": "(intercept)"})
    assert "rename it" in refusal(moments().fit, ones, Y)
    assert "rename it" in refusal(moments(**NO_INTERCEPT).partial_fit, pl.from_pandas(ones), Y)
    for model in (none().fit(ones, Y), none().partial_fit(ones, Y).finish()):
        assert model.W_.shape == (8,) and model.selection_.names[-1] == "(intercept)"
    assert none(statistic=for_eight).partial_fit(ones, Y).finish().W_.shape == (8,)  # and is counted


def test_columns_may_have_the_names_of_attributes():
    odd = ["collect", "dask", "shape", "columns", "method", "pair", "index", "column_names"]
    assert (none().fit(TABLE.set_axis(odd, axis=1), Y).W_ == none().fit(X, Y).W_).all()


def test_in_a_pipeline():
    model = make_pipeline(moments(), LinearRegression()).fit(X, Y)
    assert model.score(X, Y) > .98 and model[-1].n_features_in_ == 6
    assert model[0].privacy_.releases == 1
    assert not warned(model.fit, X, Y)  # a simulation is counted, and not warned of
    assert model[0].privacy_.releases == model[0].privacy_.simulations == 2
    model.set_params(dpknockoffselector__simulation=False, dpknockoffselector__random_state=None)
    assert any("spends again" in text for text in warned(model.fit, X, Y))
    assert model[0].privacy_.releases == 3 and model[0].privacy_.simulations == 2


def test_columns_come_back():
    model = moments().fit(X, Y)
    back = model.inverse_transform(model.transform(X))
    assert (back[:, BETA != 0] == X[:, BETA != 0]).all() and not back[:, BETA == 0].any()


ATTRIBUTES = ("selection_", "W_", "threshold_", "signs_")
ASKED = {"get_support": lambda m: m.get_support(), "transform": lambda m: m.transform(X),
         "inverse_transform": lambda m: m.inverse_transform(X[:, :6]),
         "get_feature_names_out": lambda m: m.get_feature_names_out()}


def test_unfitted():
    for ask in (*ASKED.values(), lambda m: m.privacy_, lambda m: m.finish()):
        with pytest.raises(NotFittedError): ask(moments())
    for name in ATTRIBUTES:
        with pytest.raises(AttributeError): getattr(moments(), name)
    assert not hasattr(moments(), "selection_") and not hasattr(moments(), "no_such_thing")
    with pytest.raises(AttributeError, match="no_such_thing"): moments().no_such_thing


def test_nothing_selected_says_why():
    model = moments(epsilon=.01).fit(X[:100], Y[:100])
    texts = warned(model.transform, X)
    assert model.selection_.explain() in texts
    assert any("No features were selected" in text for text in texts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.transform(X).shape == (3000, 0)
        assert model.set_output(transform="pandas").transform(X).shape == (3000, 0)
    assert model.threshold_ == np.inf and model.privacy_.epsilon == .01
    assert not warned(moments().fit(X, Y).transform, X)


def test_a_pipeline_stops_where_nothing_was_selected():
    "Before the next step's fit, in a sentence; alone, last or in another composition it hands on no columns"
    model = moments(epsilon=.01)
    pipeline = make_pipeline(model, LinearRegression())
    said = refusal(pipeline.fit, X[:100], Y[:100])
    assert "this pipeline stops: nothing was selected, and LinearRegression would get no columns" in said
    assert model.privacy_.releases == 1 and not hasattr(pipeline[1], "coef_")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert make_pipeline(moments(epsilon=.01)).fit_transform(X[:100], Y[:100]).shape == (100, 0)
        columns = make_column_transformer((moments(epsilon=.01), [0, 1]), remainder="passthrough")
        assert make_pipeline(columns, LinearRegression()).fit(X[:100], Y[:100])[1].coef_.shape == (6,)


def test_scaling_that_was_fitted_to_the_same_rows_is_warned_of():
    from sklearn.decomposition import PCA
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler
    scalers = (StandardScaler(), MinMaxScaler(), MaxAbsScaler(), RobustScaler(), SimpleImputer(), PCA(5))
    nested = make_column_transformer((StandardScaler(), [0]), remainder="passthrough")
    for step in (*scalers, nested, make_pipeline(FunctionTransformer(), StandardScaler())):
        name = "StandardScaler" if step is nested or hasattr(step, "steps") else type(step).__name__
        texts = warned(make_pipeline(step, moments(), LinearRegression()).fit, X, Y)
        assert [text for text in texts if text.startswith(f"'{name}' before this selector learned")], name
    public = (FunctionTransformer(np.tanh), "passthrough")
    for step in public: assert not warned(make_pipeline(step, moments(), LinearRegression()).fit, X, Y)
    assert not warned(make_pipeline(moments(), StandardScaler(), LinearRegression()).fit, X, Y)
    assert not warned(make_pipeline(StandardScaler(), none(), LinearRegression()).fit, X, Y)


def test_text_that_the_next_step_would_get_is_warned_of():
    "Before the budget is spent; not where somebody encodes it"
    said = "LinearRegression would get text of 'region'"
    facts = {"columns": {"region": {"levels": ["s", "n"]}, "age": {"range": [0, 9]}}, "target": "y"}
    people = pd.DataFrame({"region": ["s", "n"] * 300, "age": np.arange(600) % 10.0})
    response = 5.0 * (people.region == "n") + np.arange(600) % 3
    def texts(*after, **how):
        model = moments(dictionary=facts, row_bound=1.0, response_bound=9.0, **how)
        def fit():
            with contextlib.suppress(ValueError): make_pipeline(model, *after).fit(people, response)
        return [text for text in warned(fit) if "would get text" in text]
    assert [text[:len(said)] for text in texts(LinearRegression())] == [said]
    assert not texts(LinearRegression(), encoded=True) and not texts(FunctionTransformer()) and not texts()


def test_a_fitted_selector_pickles():
    for make in MAKE.values():
        model = make().fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        assert (again.W_ == model.W_).all() and again.privacy_ == model.privacy_


def numbers_in(x, seen):
    "All numbers that can be reached from an object"
    if id(x) in seen: return
    seen.add(id(x))
    if isinstance(x, (np.ndarray, np.number)) or type(x) in (int, float): yield np.ravel(x)
    elif isinstance(x, dict): yield from (a for v in x.values() for a in numbers_in(v, seen))
    elif isinstance(x, (list, tuple)): yield from (a for v in x for a in numbers_in(v, seen))
    elif hasattr(x, "__dict__"): yield from numbers_in(vars(x), seen)


@pytest.mark.parametrize("draw", [SIMULATED, RELEASED])
def test_exact_sums_do_not_outlive_the_draw(draw):
    "Nothing in a finished selector can tell the exact moments"
    exact = moments().partial_fit(X, Y)._moments
    assert isinstance(exact, ExactMoments)
    sums = exact.sums.ravel().astype(float)
    secrets = np.concatenate([sums, exact.Xty, exact.XtX.ravel(), [exact.yty, exact.longest, exact.row_norm]])
    secrets = np.unique(np.append(secrets, [c for c in exact.cut if c > 100]))  # a small number is nobody's

    def tells(model):
        found = np.concatenate([a for a in numbers_in(vars(model), set()) if a.dtype.kind in "iuf"])
        return np.isclose(found[:, None].astype(float), secrets, rtol=1e-12, atol=0).any()

    for model in (moments(**draw).fit(X, Y), moments(**draw).fit(open_source(X, Y)),
                  moments(**draw).partial_fit(X, Y).finish()):
        assert not tells(model) and not tells(pickle.loads(pickle.dumps(model)))
    assert tells(moments(**draw).partial_fit(X, Y))


SECRET = ("Generator", "PCG64", "MT19937", "RandomState", "SeedSequence", "Sampler", "ExactMoments", "Source")


def secrets_in(pickled):
    "What must not be kept, of what a pickle is made of"
    words = [value for _, value, _ in pickletools.genops(pickled) if isinstance(value, str)]
    return [word for word in words if word == "Moments" or any(name in word for name in SECRET)
            and not word.startswith("DPKnockoff")]


@pytest.mark.parametrize("word", METHODS)
def test_no_pickle_holds_a_generator_or_exact_moments(word):
    draws = [SIMULATED, RELEASED] if word != "none" else [dict(random_state=0), {}]
    for draw in draws:
        fitted = MAKE[word](**draw).fit(X, y)
        for model in (MAKE[word](**draw), fitted, clone(fitted), copy.deepcopy(fitted)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a clone that leaves is warned of
                assert not secrets_in(pickle.dumps(model))


def test_a_pickle_that_holds_them_would_be_noticed():
    exact = moments().partial_fit(X, Y)._moments
    for kept in (exact, none().partial_fit(X, Y)._moments, np.random.default_rng(0), np.random.RandomState(0),
                 NumpySampler(0), MomentsSource(exact)):
        assert secrets_in(pickle.dumps([kept]))


@pytest.mark.parametrize("make", [none, one, moments])
def test_exact_sums_are_not_copied(make):
    response = y if make is one else Y
    model = make().partial_fit(X, response)
    for copies in (pickle.dumps, copy.copy, copy.deepcopy):
        text = refusal(copies, model)
        assert "exact sums" in text and "finish" in text and "\n" not in text
    assert clone(model)._moments is None and "_moments" not in vars(clone(model))
    with pytest.raises(NotFittedError): clone(model).finish()
    model.finish()
    assert (pickle.loads(pickle.dumps(model)).W_ == model.W_).all()


def test_collected_rows_are_released_once_even_if_the_selection_fails():
    seen = Recorder()
    model = moments(statistic=fragile).partial_fit(X, Y)
    with pytest.raises(ZeroDivisionError): model.finish()
    assert seen.log == FIRST and model.privacy_.releases == 1 and model._moments is None
    model.set_params(rule=None)
    with pytest.raises(NotFittedError): model.finish()
    with pytest.raises(NotFittedError): model.get_support()
    assert seen.log == FIRST


def test_collected_rows_are_released_once_by_threads(monkeypatch):
    inside, go_on, seen = threading.Event(), threading.Event(), Recorder()
    real = NumpySampler.lattice
    def slow(self, value, scale, purpose):
        inside.set()
        go_on.wait(10)
        return real(self, value, scale, purpose)
    monkeypatch.setattr(NumpySampler, "lattice", slow)
    model = moments().partial_fit(X, Y)
    first = threading.Thread(target=model.finish)
    first.start()
    assert inside.wait(10)
    with pytest.raises(NotFittedError): model.finish()
    go_on.set()
    first.join()
    assert seen.log == FIRST and model.privacy_.releases == 1


def test_a_refused_finish_keeps_the_rows():
    ledger = Ledger(epsilon=1., delta=1e-5)
    model = moments(ledger=ledger).partial_fit(X, Y)
    for _ in range(2): assert "overspend" in refusal(model.finish)
    assert not ledger.entries and model.privacy_.spent is None
    assert (model.set_params(epsilon=.9).finish().W_ == moments(epsilon=.9, **ONCE).fit(X, Y).W_).all()
    assert len(ledger.entries) == 1


# whatever rows can be read from

def chunked(table=TABLE, response=Y):
    for first in range(0, 3000, 700): yield table[first:first + 700], response[first:first + 700]


def forms(folder):
    "The same rows in many forms: data, response"
    import dask.array as da
    import dask.dataframe as dd
    csv, parquet = folder / "a.csv", folder / "a.parquet"
    halves = [folder / "b0.parquet", folder / "b1.parquet"]
    WITH_Y.to_csv(csv, index=False)
    WITH_Y.to_parquet(parquet)
    WITH_Y[:1000].to_parquet(halves[0])
    WITH_Y[1000:].to_parquet(halves[1])
    np.save(folder / "X.npy", X)
    np.save(folder / "y.npy", Y)
    return {"csv": (csv, "y"), "parquet, its name as a string": (str(parquet), "y"), "several": (halves, "y"),
            "npy": (folder / "X.npy", str(folder / "y.npy")), "npy, array": ([folder / "X.npy"], Y),
            "pandas, column": (WITH_Y, "y"),
            "polars, column": (pl.from_pandas(WITH_Y), "y"), "query": (pl.from_pandas(WITH_Y).lazy(), "y"),
            "arrow, column": (pa.Table.from_pandas(WITH_Y), "y"), "function of chunks": (chunked, None),
            "chunks": (chunked(), None), "list of chunks": (list(chunked()), None),
            "chunks, column": (lambda: iter([WITH_Y[:10], WITH_Y[10:]]), "y"),
            "source": (open_source(X, Y), None),
            "dask array": (da.from_array(X, chunks=(800, 8)), da.from_array(Y, chunks=800)),
            "dask frame": (dd.from_pandas(WITH_Y, npartitions=3), "y")}


FORMS = ("csv", "parquet, its name as a string", "several", "npy", "npy, array", "pandas, column",
         "polars, column", "query", "arrow, column", "function of chunks", "chunks", "list of chunks",
         "chunks, column", "source", "dask array", "dask frame")
NAMELESS = ("npy", "npy, array", "source", "dask array")


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_the_rows_gives_one_answer(form, tmp_path):
    for name in ("fit", "partial_fit"):
        data, response = forms(tmp_path)[form]
        model = getattr(moments(noise="symmetric"), name)(data, response).finish()
        names = [f"x{j}" for j in range(8)] if form in NAMELESS else NAMES
        rounds = 1 if name == "partial_fit" or form == "chunks" else 3  # an iterator is read once
        assert model.selection_.release.rounds == rounds
        assert (model.W_ == moments(rounds=rounds, noise="symmetric").fit(X, Y).W_).all()  # the same bits
        assert list(model.feature_names_in_) == list(model.selection_.names) == names
        assert model.n_features_in_ == 8 and model.privacy_.releases == 1
    assert (silently(model.transform, TABLE.set_axis(names, axis=1)) == X[:, BETA != 0]).all()


def test_all_forms_are_tried(tmp_path): assert tuple(forms(tmp_path)) == FORMS


@pytest.mark.parametrize("word", METHODS)
def test_every_method_reads_a_file(word, tmp_path):
    TABLE.assign(y=y).to_csv(tmp_path / "a.csv", index=False)
    model = MAKE[word]().fit(tmp_path / "a.csv", "y")
    assert np.allclose(model.W_, MAKE[word]().fit(X, y).W_, rtol=1e-6, atol=1e-9)


def test_moments_that_were_collected_before(tmp_path):
    bounds = Clip(1.7, 20., {"b": (-2., 3.)}, 1.)
    halves = [moments_of(part, "y", clip=bounds) for part in (WITH_Y[:1000], WITH_Y[1000:])]
    paths = [part.save(tmp_path / f"{i}.npz") for i, part in enumerate(halves)]
    budget = dict(epsilon=2., delta=1e-5, **SIMULATED)
    before = moments(ranges={"b": (-2, 3)}, response_center=1., **ONCE).fit(TABLE, Y).W_
    for data in (halves[0] + halves[1], paths, tuple(map(str, paths)), open_source(halves[0] + halves[1])):
        model = DPKnockoffSelector(**budget).fit(data)
        assert np.allclose(model.W_, before, rtol=1e-6, atol=1e-9)
        assert list(model.feature_names_in_) == NAMES and model.n_features_in_ == 8
        assert model.selection_.release.rounds == 1
        assert "given along with Moments" in refusal(moments().fit, data)
        assert "response_center given along" in refusal(
            selector("moments", **budget, response_center="private").fit, data)
        assert "rounds=2 needs 2 passes" in refusal(selector("moments", **budget, rounds=2).fit, data)
    plain = moments_of(X, Y)
    assert np.allclose(none().fit(plain).W_, none().fit(X, Y).W_, rtol=1e-6, atol=1e-9)
    assert "without bounds" in refusal(DPKnockoffSelector(**budget).fit, plain)
    assert "without a Clip" in refusal(none().fit, halves[0])
    assert "summed already" in refusal(labels().fit, plain)
    added = moments(ranges={"b": (-2, 3)}, response_center=1.).partial_fit(halves[0]).partial_fit(halves[1])
    assert np.allclose(added.finish().W_, before, rtol=1e-6, atol=1e-9)
    assert "not collected within the bounds" in refusal(moments().partial_fit, halves[0])


def test_a_release_is_not_data():
    release = moments().fit(X, Y).selection_.release
    seen = Recorder()
    assert "select(...)" in refusal(moments().fit, release) and not seen.log


def test_other_columns_are_not_added(tmp_path):
    model = moments().partial_fit(TABLE, Y)
    other = WITH_Y.rename(columns={"a": "z"})
    assert "z" in refusal(model.partial_fit, other, "y")
    assert (model.finish().W_ == moments(**ONCE).fit(X, Y).W_).all()
    mixed = moments().partial_fit(WITH_Y[:1000], "y").partial_fit(TABLE[1000:], Y[1000:]).finish()
    assert np.allclose(mixed.W_, moments(**ONCE).fit(X, Y).W_, rtol=1e-6, atol=1e-9)


def test_a_refit_forgets_the_columns_of_the_fit_before():
    model = none().fit(WITH_Y, "y")
    assert hasattr(model, "feature_names_in_")
    assert not hasattr(model.fit(X[:, :5], Y), "feature_names_in_") and model.n_features_in_ == 5
    assert list(model.fit(WITH_Y, "y").feature_names_in_) == NAMES and model.n_features_in_ == 8


def test_what_has_no_rows_to_hand_on_is_refused_before_it_spends(tmp_path):
    seen = Recorder()
    model = moments()
    for form, (data, response) in forms(tmp_path).items():
        assert "call fit, then transform" in refusal(model.fit_transform, data, response), form
        pipeline = make_pipeline(model, LinearRegression())
        assert "call fit, then transform" in refusal(pipeline.fit, data, response), form
    assert not seen.log and not model._released
    assert "epsilon is missing" in refusal(moments(epsilon=None).fit_transform, Untouchable(), None)
    assert "row_bound is missing" in refusal(moments(row_bound=None).fit_transform, Untouchable(), None)


def test_a_file_that_is_not_there_leaves_everything_as_it_was(tmp_path):
    model = moments().fit(TABLE, Y)
    before = dict(vars(model))
    assert "nowhere.csv" in refusal(lambda: warned(model.fit, tmp_path / "nowhere.csv", "y"))
    (tmp_path / "hole.csv").write_text("z,y\n1,2\n,3\n4,5\n")
    assert "missing" in refusal(lambda: warned(model.fit, tmp_path / "hole.csv", "y"))
    assert vars(model) == before and model.n_features_in_ == 8


def test_what_is_read_once_is_not_passed_over_twice():
    seen = Recorder()
    for change, what in ((dict(rounds=2), "rounds=2"), (dict(row_bound="private"), "a private row_bound"),
                         (dict(response_center="private"), "a private response_center")):
        text = refusal(moments(**change).fit, chunked())
        assert text.startswith(f"{what} needs several passes") and "\n" not in text
    assert not seen.log
    again = moments(rounds=2).fit(lambda: chunked())
    assert (again.W_ == moments(rounds=2).fit(X, Y).W_).all()
    assert (again.W_ != moments().fit(X, Y).W_).any()


def test_rows_without_a_response_are_refused():
    for data in (X, TABLE, X.tolist(), pl.from_pandas(TABLE)):
        with pytest.raises(ValueError, match=r"requires y|yield \(X, y\) pairs"): moments().fit(data)
    assert "yield (X, y) pairs" in refusal(moments().fit, lambda: iter([TABLE]))


# randomness

def test_random_state_reproduces_a_simulation():
    def W(random_state): return moments(random_state=random_state).fit(X, Y).W_
    assert (W(7) == W(7)).all() and (W(np.int64(7)) == W(7)).all()
    assert (W(7) != W(8)).any() and (W(None) != W(None)).any()
    assert (private_filter(X, Y, simulation=True, random_state=7, **MOMENTS).W == W(7)).all()


@pytest.mark.parametrize("word", [word for word in METHODS if word != "none"])
def test_a_release_has_no_seed(word):
    model = MAKE[word](simulation=False)
    for method in (model.fit, model.fit_transform, model.partial_fit):
        if word == "labels" and method == model.partial_fit: continue
        assert "random_state belongs to simulations" in refusal(method, Untouchable(), Untouchable())
    a, b = (MAKE[word](**RELEASED).fit(X, y) for _ in range(2))
    assert (a.W_ != b.W_).any() and not a.selection_.release.simulated
    assert "OpenDP" in a.selection_.notes[-1]


@pytest.mark.parametrize("state", [np.random.default_rng(0), np.random.RandomState(0), np.random.PCG64(0),
                                   np.random.SeedSequence(0), np.random])
@pytest.mark.parametrize("make", [none, moments])
def test_generators_are_refused(state, make):
    text = refusal(make(random_state=state).fit, Untouchable(), Untouchable())
    assert "pass an int" in text and "clones" in text
    if make is moments:
        assert "pass an int" in refusal(make(random_state=state, simulation=False).fit, Untouchable(), None)


def test_none_takes_a_seed():
    assert (none(random_state=3).fit(X, Y).W_ == knockoff_filter(X, Y, random_state=3).W).all()
    assert (none(random_state=None).fit(X, Y).W_ != none(random_state=None).fit(X, Y).W_).any()


def test_clones_keep_their_settings():
    model = moments().set_output(transform="pandas")
    assert list(clone(model).fit_transform(TABLE, Y).columns) == [n for n, b in zip(NAMES, BETA) if b]


# simulations

SAYS = "Simulation: NOT private"


def test_simulations_say_so_everywhere():
    for make in (one, paper, moments, labels):
        model = make()
        assert SAYS in repr(model) and "simulation=True" in repr(model)
        model.fit(X, y)
        for text in (repr(model), repr(model.privacy_), repr(model.selection_), model._repr_html_()):
            assert SAYS in text and "differential privacy for" not in text
        assert model.privacy_.simulations == model.privacy_.releases == 1
        assert "1 simulated" in repr(model.privacy_)
    unfinished = moments().partial_fit(X, Y)
    assert SAYS in repr(unfinished) and SAYS in repr(unfinished.privacy_)
    assert "simulation=True" in repr(make_pipeline(moments(), LinearRegression()))


def test_releases_do_not():
    for make in (one, paper, moments, labels):
        model = make(**RELEASED).fit(X, y)
        shown = repr(model), repr(model.privacy_), repr(model.selection_)
        assert not any("NOT private" in text for text in shown)
        assert model.privacy_.simulations == 0 and not model.privacy_.guarantee.simulated
        model.set_params(simulation=True)  # what was drawn counts, not what would be drawn
        assert "NOT private" not in repr(model) + repr(model.privacy_)
    for model in (none().fit(X, Y), DPKnockoffSelector()): assert SAYS not in repr(model)


# the ledger

def ledgers(folder, epsilon, delta):
    "The same budget in memory, in a file, and by the file's name"
    path = folder / "named.jsonl"
    Ledger(path, epsilon=epsilon, delta=delta)
    memory = Ledger(epsilon=epsilon, delta=delta)
    file = Ledger(folder / "file.jsonl", epsilon=epsilon, delta=delta)
    return (memory, memory), (file, file), (path, Ledger(path)), (str(path.with_name("file.jsonl")), file)


def roomy(folder): return ledgers(folder, 5., 1e-5)[:3]  # three or four releases of (2, 1e-5)


def full_after(ledger, attempt):
    "How often something works before it is refused"
    for count in range(20):
        try: attempt()
        except InputError as error:
            assert "overspend" in str(error)
            assert len(ledger.entries) == count
            return count
    raise AssertionError("it was never refused")


def test_refits_are_seen(tmp_path):
    for given, ledger in roomy(tmp_path):
        model = moments(ledger=given)
        count = full_after(ledger, lambda: model.fit(X, Y))
        assert 2 < count < 6 and model.privacy_.releases == count
        W = model.W_
        assert "overspend" in refusal(model.fit, X, Y) and model.W_ is W  # a refused fit leaves all as it was
        assert all(e.simulated and e.what == "moments" and e.unit == "1 row" for e in ledger.entries)


def test_clones_are_seen(tmp_path):
    for given, ledger in roomy(tmp_path):
        model = moments(ledger=given, **RELEASED)
        assert 2 < full_after(ledger, lambda: clone(model).fit(X, Y)) < 6
        assert not any(entry.simulated for entry in ledger.entries)


def test_partial_fits_are_seen(tmp_path):
    for given, ledger in roomy(tmp_path):
        model = moments(ledger=given)

        def collect_and_finish():
            part = clone(model).partial_fit(X[:100], Y[:100]).partial_fit(X[100:], Y[100:])
            before = len(ledger.entries)
            part.privacy_
            assert len(ledger.entries) == before  # collecting enters nothing
            part.finish().finish().get_support()
            assert len(ledger.entries) == before + 1

        assert 2 < full_after(ledger, collect_and_finish) < 6


def test_cross_validation_is_seen(tmp_path):
    for given, ledger in roomy(tmp_path):
        model = make_pipeline(moments(ledger=given), LinearRegression())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scores = cross_validate(model, X, Y, cv=8, n_jobs=1)["test_score"]
        done = len(ledger.entries)
        assert 2 < done < 6 and np.isfinite(scores[:done]).all() and np.isnan(scores[done:]).all()
        assert any("overspend" in str(w.message) for w in caught)
        assert "overspend" in refusal(lambda: cross_validate(model, X, Y, cv=3, error_score="raise"))
        assert len(ledger.entries) == done


def test_a_grid_search_is_seen(tmp_path):
    grid = dict(dpknockoffselector__fdr=[.2, .3, .4])
    for given, ledger in roomy(tmp_path):
        search = GridSearchCV(make_pipeline(moments(ledger=given), LinearRegression()), grid, cv=3, n_jobs=1,
                              error_score="raise")
        assert "overspend" in refusal(search.fit, X, Y)
        assert 2 < len(ledger.entries) < 6
    ledger = Ledger(epsilon=50., delta=1e-5)
    GridSearchCV(make_pipeline(moments(ledger=ledger), LinearRegression()), grid, cv=3).fit(X, Y)
    assert len(ledger.entries) == 3 * 3 + 1  # every fold of every choice, and the refit


def test_what_overspends_is_refused_before_anything_is_drawn(tmp_path):
    for given, ledger in ledgers(tmp_path, 1., 1e-5)[:3]:
        seen = Recorder()
        for model in (moments(ledger=given), labels(ledger=given)):
            assert "overspend" in refusal(model.fit, X, Y)
            assert not model._released and not hasattr(model, "n_features_in_")
        assert not seen.log and not ledger.entries


def test_a_failure_after_the_draw_is_in_the_ledger():
    ledger = Ledger(epsilon=5., delta=1e-5)
    fails = moments(ledger=ledger, statistic=fragile)
    with pytest.raises(ZeroDivisionError): fails.fit(X, Y)
    assert len(ledger.entries) == 1
    assert "NaN" in str(pytest.raises(ValueError, moments(ledger=ledger).fit, X, np.full(3000, np.nan)).value)
    assert len(ledger.entries) == 1  # refused data costs nothing


def test_units_do_not_mix_in_a_ledger():
    ledger = Ledger(epsilon=50., delta=1e-5)
    moments(ledger=ledger).fit(X, Y)
    for other in (labels(ledger=ledger), moments(ledger=ledger, rows_per_person=2)):
        assert "keep a ledger for each" in refusal(other.fit, X, Y)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("word", ["none", "one", "two"])
def test_what_is_not_private_for_every_pair_enters_no_ledger(word):
    ledger = Ledger(epsilon=50., delta=1e-5)
    model = MAKE[word](ledger=ledger)
    words = f"method={word!r} is not differentially private for every pair, and cannot enter a ledger"
    for method in (model.fit, model.fit_transform, model.partial_fit):
        assert words in refusal(method, Untouchable(), Untouchable())
    assert not ledger.entries


def test_no_ledger_is_not_an_empty_ledger(tmp_path):
    for given, words in ((tmp_path / "none.jsonl", "does not exist"), (3, "is not a ledger")):
        model = moments(ledger=given)
        for method in (model.fit, model.partial_fit):
            assert words in refusal(method, Untouchable(), Untouchable())
    assert not (tmp_path / "none.jsonl").exists()


def test_a_ledger_stays_one_ledger(tmp_path):
    memory = Ledger(epsilon=5., delta=1e-5)
    model = moments(ledger=memory).fit(X, Y)
    assert clone(model).ledger is memory and copy.deepcopy(model).ledger is memory
    assert "ledger in memory" in refusal(pickle.dumps, model)
    file = Ledger(tmp_path / "a.jsonl", epsilon=5., delta=1e-5)
    model = pickle.loads(pickle.dumps(moments(ledger=file).fit(X, Y)))
    model.fit(X, Y)
    assert len(file.entries) == 2


def test_there_is_one_total():
    "The ledger's, or where there is none that of the object and its clones, which adds up alike"
    ledger = Ledger(epsilon=5., delta=1e-5)
    kept = moments(ledger=ledger).fit(X, Y).fit(X, Y)
    assert kept.privacy_.spent == Budget(ledger.spent, 1e-5) and kept.privacy_.releases == 2
    clone(kept).fit(X, Y)
    assert kept.privacy_.releases == len(ledger.entries) == 3
    alone = moments().fit(X, Y)
    clone(alone).fit(X, Y)
    two = Ledger(epsilon=5., delta=1e-5)
    for _ in range(2): moments(ledger=two).fit(X, Y)
    assert np.isclose(alone.privacy_.spent.epsilon, two.spent, rtol=1e-9) and alone.privacy_.releases == 2


# chunks

@pytest.mark.parametrize("make, change, response", [
    (none, {}, Y), (one, {}, y), (paper, {}, y), (moments, {}, Y), (moments, NO_INTERCEPT, y),
    (moments, dict(ranges={"x1": (-2, 2.5)}, response_center=2.), Y), (moments, KNOCKOFFS, Y),
    (moments, dict(rule="bh"), Y), (moments, dict(rule="dbh"), Y), (moments, ONCE, Y),
    (moments, dict(balance=2.), Y), (none, dict(s="sdp", **NO_INTERCEPT), y)])
def test_chunks_give_what_fit_gives(make, change, response):
    once = ONCE if make is moments else {}
    whole, parts = make(**{**change, **once}).fit(X, response), make(**change)
    for rows in np.split(np.arange(3000), [1, 500, 1700]):
        assert parts.partial_fit(X[rows], response[rows]) is parts
    assert parts.finish() is parts and np.allclose(parts.W_, whole.W_, rtol=1e-6, atol=1e-9)
    if make is moments: assert (parts.W_ == whole.W_).all()  # sums in bounds are exact
    assert (parts.get_support() == whole.get_support()).all() and parts.privacy_ == whole.privacy_


@pytest.mark.parametrize("change, words", [
    (dict(rounds=2), "rounds=2 needs 2 passes, "
     "and partial_fit sees every row once: pass rounds=1, or call fit"),
    (dict(response_center="private"), "response_center='private' needs passes of its own, "
     "and partial_fit sees every row once: pass a public number, or call fit"),
    (dict(row_bound="private"), "row_bound='private' needs passes of its own, "
     "and partial_fit sees every row once: pass a public number, or call fit")])
def test_what_needs_several_passes_is_not_collected(change, words):
    model = moments(**change)
    assert refusal(model.partial_fit, Untouchable(), Untouchable()) == words
    assert model._moments is None and not model._released and not hasattr(model, "n_features_in_")
    assert model.fit(X, Y).privacy_.releases == 1  # as it says


def test_what_needs_rows_is_not_collected():
    for model in (products(), products(rounds=1), none(law=LAW)):
        text = refusal(model.partial_fit, Untouchable(), Untouchable())
        assert "looks at every row" in text and "call fit" in text
        assert "\n" not in text
    collected = none().partial_fit(X, Y).set_params(**products().get_params())
    assert "method='products'" in refusal(collected.finish) and not collected._released


def test_labels_are_not_collected():
    text = refusal(labels().partial_fit, Untouchable(), Untouchable())
    assert "method='labels'" in text and "call fit" in text
    collected = none().partial_fit(X, Y).set_params(**labels().get_params())
    assert "method='labels'" in refusal(collected.finish) and not collected._released


@pytest.mark.parametrize("ask", ASKED)
def test_asking_draws_nothing(ask):
    seen = Recorder()
    model = moments(noise="symmetric").partial_fit(X, Y)
    with pytest.raises(NotFittedError, match="finish after partial_fit"): ASKED[ask](model)
    assert not seen.log and model.privacy_.releases == 0 and model.privacy_.spent is None
    model.finish()
    assert seen.log == FIRST
    for _ in range(3):
        for again in (*ASKED.values(), lambda m: m.finish()): again(model)
    assert seen.log == FIRST and model.privacy_.releases == 1


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_looking_for_an_attribute_draws_nothing(name):
    seen, ledger = Recorder(), Ledger(epsilon=5., delta=1e-5)
    model = moments(ledger=ledger).partial_fit(X, Y)
    assert not hasattr(model, name) and getattr(model, name, None) is None
    assert not seen.log and not ledger.entries
    assert hasattr(model.finish(), name) and len(ledger.entries) == 1
    assert not hasattr(moments(ledger="gone.jsonl"), "privacy_")


def test_looking_draws_nothing():
    seen = Recorder()
    model = moments().partial_fit(X, Y)
    for look in (repr, inspect.getmembers, dir): look(model)
    model._repr_html_()
    repr(model.privacy_)
    make_pipeline(model, LinearRegression().fit(X, Y))._repr_html_()
    with pytest.raises(NotFittedError, match="finish"): model.get_feature_names_out()
    assert not seen.log and model.privacy_.releases == 0
    model.fit(X, Y)._repr_html_()
    assert seen.log == ALL


def test_a_result_is_final():
    for model in (moments().fit(X, Y), moments().partial_fit(X, Y).finish()):
        W = model.W_
        text = refusal(model.partial_fit, X, Y)
        assert "second" in text and "spends again" in text
        assert model.W_ is W and model.privacy_.releases == 1
    assert "spends" not in refusal(none().fit(X, Y).partial_fit, X, Y)


def test_fit_starts_anew():
    model = moments().partial_fit(X[:1000], 5 * Y[:1000]).fit(X, Y)
    assert (model.W_ == moments().fit(X, Y).W_).all() and model.privacy_.releases == 1


def test_a_chunk_is_added_whole_or_not_at_all():
    model = moments().partial_fit(X[:1500], Y[:1500])
    bad = np.where(np.arange(1500) == 7, np.nan, Y[1500:])
    names = [f"x{j}" for j in range(8)]
    with pytest.raises(ValueError, match="NaN"): model.partial_fit(X[1500:], bad)
    assert "NaN" in refusal(model.partial_fit, TABLE[1500:].set_axis(names, axis=1).assign(y=bad), "y")
    whole = moments(**ONCE).fit(X, Y)
    assert np.allclose(model.partial_fit(X[1500:], Y[1500:]).finish().W_, whole.W_, rtol=1e-6)


def test_clipping_is_not_forgotten_in_chunks():
    collected = moments(ranges={"x0": (-2, 2)}, response_center=1.).partial_fit(X, Y)._moments
    assert collected.clip == Clip(1.7, 20., {"x0": (-2, 2)}, 1., True)
    far = X.copy()
    far[0] = 1e6
    gone = moments().partial_fit(far, Y)._moments
    assert gone.row_norm <= collected.clip.design_bound + 1e-9 and gone.cut[0] > 0


@pytest.mark.parametrize("change, words", [
    (dict(row_bound=3.), "changed"), (dict(response_bound=9.), "changed"),
    (dict(ranges={"x0": (-2, 2)}), "changed"), (dict(fit_intercept=False), "changed"),
    (dict(method="none", simulation=False, **UNBOUND), "changed"),
    (dict(row_bound="private"), "row_bound='private'"),
    (dict(response_bound="private"), "response_bound='private'"),
    (dict(row_bound=None), "row_bound is missing"), (dict(epsilon=None), "epsilon is missing"),
    (dict(fdr=2), "fdr=2"), (dict(method=MomentsMethod(**MOMENTS, response_center=1.), **UNBOUND), "changed"),
    (dict(method=MomentsMethod(**MOMENTS, rounds=3), **UNBOUND), "3 passes")])
def test_what_changed_between_chunks_and_finish_is_noticed(change, words):
    seen = Recorder()
    model = moments().partial_fit(X, Y)
    model.set_params(**change)
    assert words in refusal(model.finish) and words in refusal(model.partial_fit, X, Y)
    assert not seen.log and model.privacy_.spent is None
    whole = moments(**ONCE).fit(X, Y).W_
    assert (model.set_params(**moments().get_params()).finish().W_ == whole).all()


def test_another_question_may_be_asked_until_the_draw():
    for rule in ("by", "knockoffs"):
        model = moments().partial_fit(X, Y).set_params(fdr=.3, rule=rule).finish()
        assert model.selection_.fdr == .3 and model.selection_.rule.name == rule
        assert np.allclose(model.W_, moments(fdr=.3, rule=rule, **ONCE).fit(X, Y).W_, rtol=1e-6)


# the account

def composed(*epsilons, delta=1e-5):
    "What a ledger says of fits with these budgets"
    ledger = Ledger(epsilon=90., delta=delta)
    for epsilon in epsilons: moments(ledger=ledger, epsilon=epsilon, delta=delta).fit(X, Y)
    return Budget(ledger.spent, delta)


def test_fitting_twice_warns_and_counts():
    model = moments(**RELEASED)
    assert not warned(model.fit, X, Y)
    told = model.privacy_
    assert (told.method, told.epsilon, told.delta, told.releases) == ("moments", 2., 1e-5, 1)
    assert told.spent == Budget(2., 1e-5) and told.guarantee == model.selection_.guarantee
    assert told.unit == "replace one row"
    text, = warned(model.fit, X, Y)
    assert f"spends again: together {composed(2., 2.)} by composition" in text
    assert "everyone whose row is in all of them" in text and "ledger=" in text and "proved" not in text
    assert repr(model.privacy_.spent) == repr(composed(2., 2.)) and model.privacy_.releases == 2
    text, = warned(model.set_params(epsilon=1.).fit, X, Y)
    total = composed(2., 2., 1.)
    assert str(total) in text and f"{total} in 3 releases" in repr(model.privacy_)
    model.set_params(epsilon=9., method="none")  # the account is of the result, not of the parameters
    assert model.privacy_.epsilon == 1. and model.privacy_.method == "moments"
    model.set_params(epsilon=1., method="moments")
    fresh = clone(model)
    assert "k budgets" in warned(fresh.fit, X, Y)[0]
    assert fresh.privacy_.releases == model.privacy_.releases == 4


def test_the_warning_points_at_the_caller():
    model = moments(**RELEASED).fit(X, Y)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, Y)
    assert caught[0].filename == __file__


def test_a_seed_repeats_its_noise():
    "Which is why a release has none"
    other = X.copy()
    other[0] = -other[0]
    a, b = (moments(**ONCE).fit(data, Y).selection_.release.products[0] for data in (X, other))
    x, z = (moments().partial_fit(data, Y)._moments.Xty for data in (X, other))
    assert np.allclose(b - a, z - x, atol=1e-8) and np.abs(z - x).max() > .1
    a, b = (moments(**RELEASED).fit(data, Y).selection_.release.products[0] for data in (X, other))
    assert not np.isclose(b - a, z - x, atol=1e-3).any()


def test_simulations_before_a_release_are_named():
    model = moments().fit(X, Y)
    assert not warned(model.fit, X, Y) and repr(model.privacy_.spent) == repr(composed(2., 2.))
    text, = warned(model.set_params(**RELEASED).fit, X, Y)
    assert "2 of the results before were simulations, which protect nobody" in text
    assert "3 releases (2 simulated: NOT private)" in repr(model.privacy_)
    assert not model.privacy_.guarantee.simulated


def test_a_ledger_is_not_recommended_to_those_who_have_one():
    model = moments(ledger=Ledger(epsilon=9., delta=1e-5), **RELEASED).fit(X, Y)
    text, = warned(model.fit, X, Y)
    assert "spends again" in text and "ledger" not in text
    assert "ledger" not in warned(paper(**RELEASED, delta=1e-5).fit(X, y).fit, X, y)[0]


def test_large_budgets_are_warned_of():
    assert any("epsilon=20" in text for text in warned(moments(epsilon=20., **RELEASED).fit, X, Y))
    assert any("above 1/n" in text for text in warned(moments(delta=1e-3, **RELEASED).fit, X, Y))
    assert not warned(moments(epsilon=20., delta=1e-3).fit, X, Y)  # a simulation protects nobody anyway


def test_persons_with_several_rows():
    model = moments(rows_per_person=3, **RELEASED)
    assert model.partial_fit(X, Y).privacy_.unit == "replace any 3 rows"
    assert model.finish().privacy_.unit == "replace any 3 rows" and "any 3 rows" in str(model.privacy_)
    def noise(**change):
        release = moments(**change).fit(X, Y).selection_.release
        return release.product_sds / release.bounds
    found = model.selection_.release
    assert np.allclose(found.product_sds / found.bounds, 3 * noise(**ONCE), rtol=1e-12)
    assert np.isclose(noise(rows_per_person=3)[0], 3 * noise()[0], rtol=1e-12)


def test_composition_of_the_papers_methods_is_not_claimed():
    for method in ("one", "two"):
        text = warned(paper(method, **RELEASED).fit(X, y).fit, X, y)[0]
        assert f"not for {method!r}" in text and "(epsilon=1.8, delta=0.02)" in text


def test_labels_compose_for_responses():
    text, = warned(labels(**RELEASED).fit(X, Y).fit, X, Y)
    assert "everyone whose response is in all of them" in text and "proved" not in text


def test_the_warning_can_forbid():
    model = moments(**RELEASED).fit(X, Y)
    W = model.W_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="spends again"): model.fit(X, Y)
    assert model.privacy_.releases == 1 and model.privacy_.spent == Budget(2., 1e-5)
    assert model.W_ is W  # what was paid for is still there


def test_none_spends_nothing():
    model = none().fit(X, Y)
    assert not warned(model.fit, X, Y)
    assert model.privacy_.spent is None and model.privacy_.releases == 0 and model.privacy_.epsilon is None
    assert "Not private" in repr(model.privacy_) and "Spent: nothing" in repr(model.privacy_)
    was_private = moments().fit(X, Y).set_params(method="none", simulation=False, **UNBOUND)
    assert not warned(was_private.fit, X, Y)
    assert was_private.privacy_.spent == Budget(2., 1e-5) and was_private.privacy_.epsilon is None


def test_a_failure_after_the_draw_is_paid_for():
    model = moments(statistic=fragile)
    with pytest.raises(ZeroDivisionError): model.fit(X, Y)
    assert model.privacy_.releases == 1 and model.privacy_.spent == Budget(2., 1e-5)
    assert "no result" in repr(model.privacy_)
    with pytest.raises(NotFittedError): model.get_support()
    assert "spends again" in warned(model.set_params(rule=None, **RELEASED).fit, X, Y)[0]
    broken = KnockoffPlus(statistic=fragile)
    with pytest.raises(ZeroDivisionError): warned(model.set_params(rule=broken).fit, X, Y)
    with pytest.raises(NotFittedError): model.get_support()  # the second result must not pass for the third
    assert model.privacy_.releases == 3


def test_a_statistic_that_fails_when_it_is_tried_out_costs_nothing():
    def too_many(A, b):
        if len(A) > 6: raise ZeroDivisionError
        return csm(ols(A, b))
    seen = Recorder()
    model = moments(statistic=too_many)
    with pytest.raises(ZeroDivisionError): model.fit(X, Y)
    assert not seen.log and not model._released
    with pytest.raises(NotFittedError): model.privacy_


def test_a_refused_fit_leaves_everything_as_it_was():
    model = moments().fit(TABLE, Y)
    before = dict(vars(model))
    assert "fdr" in refusal(model.set_params(fdr=7).fit, X, Y)
    model.set_params(fdr=.2)
    with pytest.raises(ValueError, match="NaN"): model.fit(X[:, :3], np.full(3000, np.nan))
    assert vars(model) == before and list(model.get_feature_names_out()) and model.n_features_in_ == 8
    model.set_params(ranges={"z": (0, 1)})
    assert "'z'" in refusal(lambda: warned(model.fit, TABLE, Y))
    assert vars(model) == {**before, "ranges": {"z": (0, 1)}}
    unfinished = moments().partial_fit(X, Y)
    with pytest.raises(ValueError, match="NaN"): unfinished.fit(X[:, :3], np.full(3000, np.nan))
    assert (unfinished.finish().W_ == moments(**ONCE).fit(X, Y).W_).all()


# refusals

REFUSED = [
    (moments(epsilon=None), "epsilon is missing: pass a privacy budget, e.g. epsilon=1.0"),
    (moments(delta=None), "delta is missing"), (moments(delta=0.), "leaves no room"),
    (moments(epsilon=-1), "epsilon=-1"), (moments(delta=2.), "delta=2.0"),
    (moments(row_bound=None), "row_bound is missing: pass a public number"),
    (moments(response_bound=None), "response_bound is missing: pass a public number"),
    (moments(row_bound=0), "row_bound=0"), (moments(response_bound="big"), "response_bound='big'"),
    (moments(ranges=[(0, 1)]), "is not a dict"), (moments(ranges={"x0": (1, 0)}), "column 'x0'"),
    (moments(ranges={"x0": (0, 1)}, fit_intercept=False), "intercept"),
    (moments(s=np.ones(8)), "only after the release"), (moments(fdr=0), "fdr=0"),
    (moments(rule="best"), "rule='best'"), (moments(statistic="lasso"), "statistic='lasso'"),
    (moments(fit_intercept="yes"), "fit_intercept='yes'"), (moments(fit_intercept=None), "fit_intercept="),
    (moments(random_state=-1), "random_state=-1"), (moments(random_state="a"), "random_state='a'"),
    (moments(simulation="yes"), "simulation='yes'"), (moments(simulation=None), "simulation=None"),
    (moments(rows_per_person=0), "rows_per_person=0"),
    (moments(rows_per_person=None), "rows_per_person=None"),
    (moments(ledger=3), "ledger=3"), (moments(simulation=False), "random_state belongs to simulations"),
    (labels(s=np.ones(8)), "only after the release"), (paper(fit_intercept=True), "pass fit_intercept=False"),
    (paper("one", fit_intercept=True), "method='one'"),
    (paper("one", repaired=False, statistic=Statistic("lasso", "lcd", 1.)), "pass repaired=True"),
    (paper(statistic=Statistic("path")), "Statistic('ols', 'lcd')"),
    (paper(statistic=own_statistic), "Statistic('ols', 'lcd')"),
    (DPKnockoffSelector(), "epsilon is missing"), (DPKnockoffSelector(method="three"), "method='three'"),
    (DPKnockoffSelector(method=None), "method=None"), (DPKnockoffSelector(method=MomentsMethod), "method="),
    (products(epsilon=None), "epsilon is missing"), (products(delta=None), "delta is missing"),
    (products(response_bound=None), "response_bound is missing: pass a public number"),
    (products(row_bound=-1), "row_bound=-1"), (products(law=3), "law=3"),
    (products(ranges=[(0, 1)]), "is not a dict"), (products(rows_per_person=0), "rows_per_person=0"),
    (products(fit_intercept=False), "fit_intercept=False has no meaning for method='products'"),
    (products(groups=["a"]), "groups=['a'] is not a dict"), (moments(groups="ab"), "groups='ab'"),
    (products(dictionary=3), "dictionary=3 is neither a path nor a dict"),
    (products(dictionary="no_such.toml"), "'no_such.toml' cannot be opened"),
    (moments(dictionary={"columns": {"a": {"levels": ["x"]}}}), "has one level"),
    (none(law=3), "law=3"),
]


@pytest.mark.parametrize("model, words", REFUSED)
def test_parameters_are_refused_before_data_is_touched(model, words):
    for method in (model.fit, model.fit_transform, model.partial_fit):
        summed = getattr(model.method, "word", model.method) not in ("labels", "products")
        if not summed and method == model.partial_fit and "missing" not in words: continue
        text = refusal(method, Untouchable(), Untouchable())
        assert words in text and "\n" not in text


def test_bounds_are_asked_for_whatever_the_rows_are_in(tmp_path):
    seen = Recorder()
    for data, response in ((X.tolist(), list(Y)), *forms(tmp_path).values()):
        assert "row_bound is missing" in refusal(moments(row_bound=None).fit, data, response)
    assert not seen.log


GIVEN = dict(epsilon=1., delta=1e-3, row_bound=2., response_bound=2., ranges={"x0": (0, 1)}, law=LAW,
             rows_per_person=2, simulation=True)


@pytest.mark.parametrize("word, name", [
    (word, name) for word in METHODS for name in GIVEN
    if name not in takes(word) and (name, word != "none") != ("simulation", True)])
def test_no_parameter_does_nothing(word, name):
    text = refusal(DPKnockoffSelector(method=word, **{name: GIVEN[name]}).fit, Untouchable(), Untouchable())
    assert text.startswith(f"{name}=") and f"has no meaning for method={word!r}" in text
    users = " or ".join(repr(other) for other in METHODS if name in takes(other))
    if name != "simulation": assert text.endswith(f"leave it out, or use method={users}")


@pytest.mark.parametrize("model, data, response, words", [
    (moments(ranges={"z": (0, 1)}), X, Y, "'z'"), (paper("one", row_bound=.1), X, y, "row_bound=0.1"),
    (paper("two"), np.c_[X, X[:, 0]], y, "collinear"), (labels(), np.c_[X, X[:, 0]], Y, "collinear"),
    (moments(statistic=lambda A, b: b[:len(b) // 2]), X, Y, "antisymmetric"),
    (moments(), X, Y[:-1], "inconsistent"), (moments(), X[:1], Y[:1], "1 sample"),
    (moments(), X, np.where(Y > 0, np.inf, Y), "infinity"), (moments(), np.where(X > 3, np.nan, X), Y, "NaN"),
    (moments(), TABLE.assign(a="text"), Y, "column 'a'"), (moments(), X, None, "requires y"),
    (moments(), X[0], Y, "2D"), (moments(), X, np.c_[Y, Y], "1d"), (moments(), WITH_Y, "z", "'z'"),
    (moments(), WITH_Y.assign(a="text"), "y", "text"),
    (moments(), lambda z: z, None, "takes an argument"), (moments(), open_source(X, Y), Y, "y was given"),
    (moments(), 3, None, "requires y"), (moments(), [], None, "empty list")])
def test_nothing_is_spent_on_refused_data(model, data, response, words):
    seen = Recorder()
    with pytest.raises(ValueError, match=words): model.fit(data, response)
    assert not seen.log and not model._released
    with pytest.raises(NotFittedError): model.get_support()


def test_refusals_are_value_errors(): assert issubclass(InputError, ValueError)


def test_a_statistic_of_ones_own():
    own, named = (moments(statistic=statistic).fit(X, Y)
                  for statistic in (own_statistic, Statistic()))
    assert (own.W_ == named.W_).all()
    assert none(statistic=for_eight).fit(X, Y).W_.shape == (8,)  # fine where the number of columns is known
    assert none(statistic=for_eight).partial_fit(X, Y).finish().W_.shape == (8,)


# sentences about columns

def with_a(value, row=1700):
    "The table with another value in a cell of column c"
    table = TABLE.astype(object) if isinstance(value, (str, dict)) else TABLE.copy()
    table["c"] = [value if i == row else old for i, old in enumerate(table["c"])]
    return table


BAD_COLUMNS = {
    "text": TABLE.assign(c="cancer"), "one text": with_a("cancer"),
    "categories": TABLE.assign(c=pd.Categorical(["cancer"] * 3000)),
    "dates": TABLE.assign(c=pd.Timestamp("2020-02-03")), "dict": with_a({}),
    "polars text": pl.from_pandas(TABLE.assign(c="cancer")),
    "hole": with_a(np.nan), "infinite": with_a(-np.inf), "null": pl.from_pandas(with_a(np.nan)),
    "nullable": TABLE.assign(c=pd.array([1., pd.NA] * 1500, dtype="Float64"))}


@pytest.mark.parametrize("kind", BAD_COLUMNS)
def test_a_bad_column_is_named_and_no_cell_is_repeated(kind):
    seen = Recorder()
    table = BAD_COLUMNS[kind]
    for model in (moments(), none(), labels(), products()):
        for method in (model.fit, model.partial_fit):
            if model.method not in ("moments", "none") and method == model.partial_fit: continue
            text = refusal(method, table, Y)
            assert "infinite values in column 'c'" in text and "dictionary" in text, text
            assert "cancer" not in text and "2020" not in text and "1700" not in text and "\n" not in text
            with pytest.raises(InputError) as caught: method(table, Y)
            assert caught.value.__suppress_context__  # scikit-learn's own error would show the cell
    assert not seen.log


def test_columns_of_arrays_are_named_by_number():
    mixed = np.where(np.arange(8) == 5, "cancer", X.astype(object))
    for rows in (mixed, mixed.tolist(), np.where(np.arange(8) == 5, np.nan, X)):
        text = refusal(moments().fit, rows, Y)
        assert "infinite values in column 'x5'" in text and "cancer" not in text


@pytest.mark.parametrize("data, response, words", [
    (X, np.where(Y > 0, "cancer", "none"), "infinite values in column 'y'"),
    (X, np.where(Y > 9, np.nan, Y), "drop those rows from X and y"), (X, Y[:-1], "pass one response in y"),
    (X, np.c_[Y, Y], "pass one response in y"), (X[:1], Y[:1], "pass more rows in X"),
    (X[:, :0], Y, "pass at least one column"), (TABLE[[]], Y, "pass at least one column"),
    (X[:, 0], Y, "X.reshape(-1, 1)"), (TABLE["a"], Y, "pass X.to_frame()"), (X * 1j, Y, "pass real numbers"),
    (X, None, "pass y, the responses, or the name of their column")])
def test_what_is_wrong_with_all_rows_has_a_way_out_and_shows_none_of_them(data, response, words):
    text = refusal(moments().fit, data, response)
    assert words in text and "cancer" not in text and "\n" not in text
    assert f"{X[0, 0]:.4f}"[-4:] not in text


OTHER_COLUMNS = {
    "lost": (NAMES[:-1], "X has no column 'h', which fit had"),
    "new": ([*NAMES, "z"], "X has a column 'z', which fit had not"),
    "order": (["b", "a", *NAMES[2:]], "in another order ('b' where fit had 'a')"),
    "renamed": (["z", *NAMES[1:]], "X has no column 'a', which fit had")}


@pytest.mark.parametrize("kind", OTHER_COLUMNS)
def test_other_columns_than_in_fit_are_named(kind):
    names, words = OTHER_COLUMNS[kind]
    other = TABLE.assign(z=1.)[names]
    started = moments().partial_fit(TABLE, Y)
    for ask in (moments().fit(TABLE, Y).transform, lambda X: started.partial_fit(X, Y)):
        with pytest.raises(InputError, match="The feature names should match") as caught: ask(other)
        first = str(caught.value).splitlines()[0]
        assert words in first and "X[list(selector.feature_names_in_)]" in first


def test_another_number_of_columns_than_in_fit_is_told():
    model = moments().fit(TABLE, Y)
    with pytest.warns(UserWarning, match="valid feature names"): text = refusal(model.transform, X[:, :3])
    assert "X has 3 features" in text and "pass the columns of fit, 'a', 'b', 'c'" in text
    assert "columns that transform returned" in refusal(model.inverse_transform, X)
    assert "column 'c'" in refusal(model.transform, with_a(np.nan))
    with pytest.raises(NotFittedError): moments().transform(TABLE)


def test_a_dictionary_speaks_of_X():
    for table, words in ((TRIAL.assign(extra="x"), "add [columns.extra], or leave it out of X"),
                         (TRIAL.to_numpy(), "set_output(transform='pandas')")):
        text = refusal(designed().fit, table, OUTCOME.to_numpy())
        assert words in text and "columns=[...]" not in text
    steps = make_pipeline(FunctionTransformer(np.asarray), designed())
    assert "set_output(transform='pandas')" in refusal(steps.fit, TRIAL, OUTCOME)


# searches

def search_space(): return dict(dpknockoffselector__row_bound=[1.2, 1.7])


def in_pipeline(**change): return make_pipeline(moments(**change), LinearRegression())


def about_searches(texts): return [text for text in texts if "k budgets" in text]


def test_a_search_without_a_ledger_is_warned_of_once_with_its_total():
    model = in_pipeline(**RELEASED)
    text, = about_searches(warned(cross_val_score, model, X, Y))
    assert "ledger=" in text and "ReleaseSelector" in text and "\n" not in text
    for fits in (2, 10): assert f"{composed(*[2.] * fits)}" in text  # what a ledger says, too
    told = model[0].privacy_
    assert told.releases == 5 and told.spent.delta == 1e-5 and "5 releases" in repr(told)
    assert not about_searches(warned(cross_val_score, model, X, Y)) and model[0].privacy_.releases == 10
    again = in_pipeline(**RELEASED)
    assert len(about_searches(warned(GridSearchCV(again, search_space(), cv=2).fit, X, Y))) == 1


def test_a_search_that_is_warned_of_can_be_forbidden():
    model = in_pipeline(**RELEASED)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(UserWarning, match="k budgets"):
                cross_val_score(model, X, Y, error_score="raise")
    assert model[0].privacy_.releases == 1  # the first fit of all


def test_who_is_not_warned_of_a_search():
    ledger = Ledger(epsilon=50., delta=1e-5)
    for model in (in_pipeline(**RELEASED, ledger=ledger), in_pipeline(), make_pipeline(none())):
        scored = make_pipeline(*model, LinearRegression()) if len(model) == 1 else model
        assert not about_searches(warned(cross_val_score, scored, X, Y))
    assert len(ledger.entries) == 5
    simulated = moments().fit(X, Y)  # spends nothing: a release by its clone is the first
    assert not about_searches(warned(clone(simulated).set_params(**RELEASED).fit, X, Y))
    rehearsed = in_pipeline()
    cross_val_score(rehearsed, X, Y)
    assert rehearsed[0].privacy_.releases == 5 and rehearsed[0].privacy_.spent.epsilon < 10


def test_the_papers_methods_are_added_up_in_a_search():
    model = paper(**RELEASED).fit(X, y)
    text, = warned(clone(model).fit, X, y)
    assert "(epsilon=1.8, delta=0.02)" in text and "not for 'two'" in text and "ledger" not in text


def test_a_family_is_one_account_however_it_is_copied():
    original = moments()
    family = [original, clone(original), clone(clone(original)), copy.deepcopy(clone(original)),
              pickle.loads(pickle.dumps(clone(original)))]
    for model in family: model.fit(X, Y)
    assert [model.privacy_.releases for model in family] == [5] * 5
    assert moments().fit(X, Y).privacy_.releases == 1
    elsewhere = pickle.dumps(family[1])
    import dp_knockoff.practice.selector as module
    module._ACCOUNTS.clear()  # as in another process
    there = pickle.loads(elsewhere)
    there.fit(X, Y)
    assert there.privacy_.releases == 6 and original.privacy_.releases == 5


def test_draws_in_another_process_come_back_once():
    original = moments()
    sent = pickle.dumps(clone(original))
    import dp_knockoff.practice.selector as module
    kept = dict(module._ACCOUNTS)
    module._ACCOUNTS.clear()
    there = pickle.loads(sent).fit(X, Y)
    back = pickle.dumps(there)
    module._ACCOUNTS.clear()
    module._ACCOUNTS.update(kept)
    for _ in range(3): assert pickle.loads(back).privacy_.releases == original.privacy_.releases == 1


def test_clones_that_leave_are_warned_of_before_anything_is_drawn():
    model = clone(moments(**RELEASED))
    text, = warned(pickle.dumps, model)
    assert "another process" in text and "k budgets" in text and not model._released
    assert not warned(pickle.dumps, model)                       # once
    assert not warned(pickle.dumps, moments(**RELEASED))         # no clone
    assert not warned(pickle.dumps, clone(moments()))            # a simulation
    assert not warned(pickle.dumps, clone(moments(epsilon=-1.)))  # cannot be fitted
    fitted = clone(moments(**RELEASED)).fit(X, Y)
    assert not warned(pickle.dumps, fitted) and not warned(copy.deepcopy, fitted)


def test_what_was_told_is_not_told_again_in_another_process():
    import dp_knockoff.practice.selector as module
    original = moments(**RELEASED).fit(X, Y)
    model = clone(original)
    assert about_searches(warned(pickle.dumps, model))
    for told, expected in ((True, 0), (False, 1)):
        original._account.warned = told
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sent = pickle.dumps(original)  # fitted: nobody is warned
        module._ACCOUNTS.clear()  # as in another process
        assert len(about_searches(warned(clone(pickle.loads(sent)).fit, X, Y))) == expected


def test_two_processes_share_a_ledger(tmp_path):
    ledger = Ledger(tmp_path / "study.jsonl", epsilon=50., delta=1e-5)
    search = GridSearchCV(in_pipeline(ledger=str(ledger.path)), search_space(), cv=2, n_jobs=2)
    search.fit(X, Y)
    assert len(ledger.entries) == 2 * 2 + 1 and all(entry.simulated for entry in ledger.entries)
    small = Ledger(tmp_path / "small.jsonl", epsilon=3., delta=1e-5)
    search.set_params(estimator=in_pipeline(ledger=small), error_score="raise")
    assert "overspend" in refusal(search.fit, X, Y) and 1 <= len(small.entries) <= 3
    memory = Ledger(epsilon=50., delta=1e-5)
    search.set_params(estimator=in_pipeline(ledger=memory))
    with pytest.raises(Exception, match="pickle") as caught: search.fit(X, Y)  # joblib's, who tells why
    assert "ledger in memory" in str(caught.value.__cause__) and not memory.entries


def test_what_a_search_costs_is_the_number_of_its_fits():
    for make, fits in ((lambda model: GridSearchCV(model, search_space(), cv=3, refit=False), 6),
                       (lambda model: GridSearchCV(model, search_space(), cv=3), 7),
                       (lambda model: RandomizedSearchCV(model, search_space(), n_iter=1, cv=2), 3)):
        ledger = Ledger(epsilon=90., delta=1e-5)
        model = in_pipeline(ledger=ledger)
        make(model).fit(X, Y)
        assert len(ledger.entries) == fits == model[0].privacy_.releases
        assert np.isclose(model[0].privacy_.spent.epsilon, ledger.spent, rtol=1e-9)


def test_a_refused_refit_is_an_error_whatever_the_error_score():
    ledger = Ledger(epsilon=2.9, delta=1e-5)  # one fit
    search = GridSearchCV(in_pipeline(ledger=ledger), search_space(), cv=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert "overspend" in refusal(search.fit, X, Y)
    assert len(ledger.entries) == 1


# selecting again

QUESTIONS = [dict(fdr=.4), dict(rule="by"), dict(rule="dbh", fdr=.1), dict(rule="knockoffs", fdr=.3),
             dict(rule=KnockoffPlus(offset=0, s="sdp")), dict(rule="ebh", fdr=.5),
             dict(rule=KnockoffPlus(statistic=Statistic("ols", "csm")))]


@pytest.mark.parametrize("question", QUESTIONS)
def test_selecting_again_is_select(question):
    seen = Recorder()
    model = moments().fit(X, Y)
    release, drawn = model.selection_.release, list(seen.log)
    again = select(release, **question)
    assert model.select_again(**question) is model and seen.log == drawn
    assert_agrees(model, again)
    assert model.privacy_.releases == 1 and model.selection_.release is release
    for name, value in question.items(): assert getattr(model, name) == value
    free = ReleaseSelector(release=release, **question).fit(X)
    assert (free.W_ == again.W).all() and (free.get_support() == again.support).all()


def test_selecting_again_keeps_everything_when_refused():
    model = moments(fdr=.3).fit(X, Y)
    before = dict(vars(model))
    for question, words in ((dict(rule="best"), "rule='best'"), (dict(fdr=2), "fdr=2")):
        assert words in refusal(model.select_again, **question)
        assert vars(model) == before
    assert "rule='bh'" in refusal(products().fit(X, Y).select_again, rule="bh")
    with pytest.raises(NotFittedError): moments().select_again(fdr=.1)
    assert (model.select_again().get_support() == model.get_support()).all() and model.selection_.fdr == .3
    for make in MAKE.values(): assert make().fit(X, y).select_again(fdr=.5).selection_.fdr == .5


def test_a_search_over_questions_is_one_release(tmp_path):
    ledger = Ledger(epsilon=2., delta=1e-5)
    release = moments(ledger=ledger).fit(TABLE, Y).selection_.release
    path = release.save(tmp_path / "release.npz")
    for given in (release, path, str(path)):
        steps = make_pipeline(ReleaseSelector(release=given), LinearRegression())
        grid = dict(releaseselector__fdr=[.1, .2], releaseselector__rule=["bh", "by"])
        search = GridSearchCV(steps, grid, cv=3, error_score="raise")
        assert not warned(search.fit, TABLE, Y)
        found = search.best_estimator_[0]
        assert list(found.get_feature_names_out()) == list(select(release, fdr=found.fdr, rule=found.rule))
    assert len(ledger.entries) == 1
    saved = products().fit(X, Y).selection_.release.save(tmp_path / "products.npz")
    assert (ReleaseSelector(release=saved).fit(X).W_ == products().fit(X, Y).W_).all()


def test_a_release_is_asked_without_looking_at_values():
    release = moments().fit(TABLE, Y).selection_.release
    free = ReleaseSelector(release=release).fit(TABLE * np.nan)
    assert (free.get_support() == (BETA != 0)).all() and not get_tags(free).target_tags.required
    turned = clone(free).fit(TABLE[NAMES[::-1]])  # another order than the release's: by name
    assert list(turned.get_feature_names_out()) == list(free.get_feature_names_out())[::-1]
    assert list(turned.set_output(transform="pandas").transform(TABLE[NAMES[::-1]]).columns)[-1] == "a"
    again = pickle.loads(pickle.dumps(free))
    assert (again.get_support() == free.get_support()).all() and SAYS in repr(again)
    with pytest.raises(NotFittedError): clone(free).get_support()


@pytest.mark.parametrize("change, data, words", [
    ({}, TABLE[NAMES[1:]], "X has no column 'a', which the release had"),
    ({}, TABLE.assign(z=1.), "X has a column 'z', which the release had not"),
    ({}, X[:, :3], "X has 3 columns, and the release 8"),
    (dict(release=3), X, "release=3 is not a release"),
    (dict(release=None), X, "release=None is not a release"),
    (dict(fdr=0), X, "fdr=0"), (dict(rule="best"), X, "rule='best'"), ({}, X[:, 0], "X has shape"),
    (dict(release="nowhere.npz"), X, "nowhere.npz")])
def test_what_does_not_fit_a_release_is_refused(change, data, words):
    model = ReleaseSelector(**{"release": moments().fit(TABLE, Y).selection_.release, **change})
    with pytest.raises((InputError, TypeError), match=words): model.fit(data)
    assert not hasattr(model, "selection_")


def test_moments_are_no_release(tmp_path):
    path = moments_of(X, Y, clip=Clip(1.7, 20.)).save(tmp_path / "sums.npz")
    assert "release" in refusal(ReleaseSelector(release=path).fit, X)


def test_a_release_of_factors_selects_columns_of_the_data():
    fitted = designed().fit(TRIAL, OUTCOME)
    free = ReleaseSelector(release=fitted.selection_.release, fdr=.4).fit(TRIAL)
    assert list(free.get_feature_names_out()) == list(fitted.get_feature_names_out())
    joined = designed(groups={"who": ["sex", "site"]}).fit(TRIAL, OUTCOME)
    model = ReleaseSelector(release=joined.selection_.release, fdr=.4)
    assert "the dictionary, if any" in refusal(model.fit, TRIAL)
    model.set_params(dictionary=DESIGN).fit(TRIAL)
    assert list(model.get_feature_names_out()) == list(joined.get_feature_names_out())


# tables, pipelines, displays

def test_numbers_beside_text_stay_numbers_in_every_table():
    mixed = TRIAL.assign(age=np.arange(4000.))
    facts = {**DESIGN, "columns": {**DESIGN["columns"], "age": {"range": [0, 4000]}}}
    outcome = OUTCOME + mixed["age"] / 500
    for table in (mixed, pl.from_pandas(mixed), pa.Table.from_pandas(mixed)):
        for kind, number in (("pandas", "float64"), ("polars", "Float64")):
            model = moments(dictionary=facts, row_bound=1.5).set_output(transform=kind)
            out = model.fit(table, outcome.to_numpy()).transform(table)
            assert type(out).__module__.startswith(kind) and str(out["age"].dtype) == number
            assert list(out.columns) == list(model.get_feature_names_out()) and len(out) == 4000
            assert list(out["arm"]) == list(mixed["arm"]) and out["age"].sum() == mixed["age"].sum()


def transforms_columns_of_polars():
    "Not every scikit-learn's ColumnTransformer gets along with every polars, whatever its steps are"
    plain = make_column_transformer((FunctionTransformer(), ["a"])).set_output(transform="polars")
    try: plain.fit_transform(pl.DataFrame({"a": [1., 2.]}))
    except (AttributeError, ValueError): return False
    return True


def test_names_pass_through_pipelines_and_column_transformers():
    wide = TRIAL.assign(age=40.)
    tables = [("pandas", wide)]
    if transforms_columns_of_polars(): tables += [("polars", wide), ("polars", pl.from_pandas(wide))]
    for kind, table in tables:
        beside = make_column_transformer((designed(), FACTORS), remainder="passthrough")
        steps = make_pipeline(beside, FunctionTransformer(feature_names_out="one-to-one"))
        steps.set_output(transform=kind)
        out = steps.fit_transform(table, OUTCOME.to_numpy())
        chosen = designed().fit(TRIAL, OUTCOME).get_feature_names_out()
        expected = [*(f"dpknockoffselector__{name}" for name in chosen), "remainder__age"]
        assert list(out.columns) == list(steps.get_feature_names_out()) == expected
    named = make_pipeline(designed(groups={"who": ["sex", "site"]})).set_output(transform="pandas")
    assert {"sex", "site"} <= set(named.fit(TRIAL, OUTCOME).get_feature_names_out())


def test_jupyter_shows_the_selection_of_a_fitted_selector():
    fitted = moments().fit(TABLE, Y)
    for model in (fitted, ReleaseSelector(release=fitted.selection_.release).fit(TABLE)):
        shown = model.selection_._repr_html_()
        assert model._repr_html_().endswith(shown) and model._repr_mimebundle_()["text/html"].endswith(shown)
        assert type(model).__name__ in model._repr_html_()
    for model in (moments(), moments().partial_fit(TABLE, Y)):
        assert shown[:20] not in model._repr_html_()[-len(shown):] and "selection_" not in vars(model)


def test_tables_effects_and_diagnosis_are_there():
    found = moments().fit(TABLE, Y).selection_
    assert list(found.to_frame("pandas").columns)[0] and len(found.to_frame("polars")) == 8
    assert len(found.effects) == 6 and repr(found.diagnosis)


# bounds that follow from a dictionary

SIZES = {"target": "y", "columns": {"y": {"range": [-10, 14]}} | {name: {"range": [-3, 3]} for name in NAMES}}


def test_a_dictionary_with_ranges_needs_no_bounds():
    budget = dict(epsilon=2., delta=1e-5, dictionary=SIZES, **SIMULATED)
    plain = private_filter(WITH_Y, **budget)
    for data, response in ((TABLE, Y), (WITH_Y, "y"), (pl.from_pandas(TABLE), Y)):
        assert_agrees(DPKnockoffSelector(**budget).fit(data, response), plain)
    whole = selector("moments", **budget, **ONCE).fit(TABLE, Y)
    parts = DPKnockoffSelector(**budget)
    for rows in (slice(0, 1100), slice(1100, None)): parts.partial_fit(TABLE[rows], Y[rows])
    parts.finish()
    assert (parts.W_ == whole.W_).all() and parts.selection_.release.clip == whole.selection_.release.clip
    less = {"columns": {**SIZES["columns"], "c": {}}, "target": "y"}
    for method in ("fit", "partial_fit"):
        text = refusal(getattr(DPKnockoffSelector(**{**budget, "dictionary": less}), method), TABLE, Y)
        assert "'c'" in text and "row_bound" in text


# dictionaries and groups

ARMS = {"no": .5, "pill": .25, "diet": .25}
FACTORS = ["arm", "site", "sex", "day", "form"]
DESIGN = {"target": "y", "columns": {"y": {"range": [-20, 20]}, **{
    name: {"levels": list(ARMS), "probabilities": list(ARMS.values())} for name in FACTORS}}}
DRAWN = np.random.default_rng(5).choice(list(ARMS), (4000, 5), p=list(ARMS.values()))
TRIAL = pd.DataFrame(DRAWN, columns=FACTORS)
PILLS = (TRIAL[["arm", "sex", "form"]] == "pill").sum(axis=1)
OUTCOME = PILLS + np.random.default_rng(6).standard_normal(4000)
DESIGNED = dict(epsilon=2., delta=1e-5, response_bound=4., fdr=.4, law=None, dictionary=DESIGN)


def designed(**change): return products(**{**DESIGNED, **change})


def text_tables():
    "The trial in the kinds of tables that may hold text"
    categories = TRIAL.astype("category")
    return {"pandas": TRIAL, "categories": categories, "polars": pl.from_pandas(TRIAL),
            "arrow": pa.Table.from_pandas(TRIAL)}


@pytest.mark.parametrize("kind", text_tables())
def test_text_is_encoded_by_the_dictionary_and_columns_of_the_data_are_selected(kind):
    table = text_tables()[kind]
    chosen = ("fdr", "dictionary")
    method = ProductsMethod(**{name: value for name, value in DESIGNED.items() if name not in chosen})
    asked = {name: DESIGNED[name] for name in chosen}
    plain = method.select(TRIAL.assign(y=OUTCOME), **asked, **SIMULATED)
    model = designed().fit(table, OUTCOME.to_numpy())
    assert (model.W_ == plain.W).all() and model.selection_.names == tuple(FACTORS)
    assert list(model.feature_names_in_) == FACTORS and model.n_features_in_ == 5
    assert {"arm", "sex", "form"} <= set(plain.selected) < set(FACTORS)
    assert list(model.get_feature_names_out()) == list(plain.selected)
    assert (model.transform(table) == TRIAL[list(plain.selected)].to_numpy()).all()


@pytest.mark.parametrize("kind", text_tables())
def test_encoded_columns_are_handed_on(kind):
    "Those of the selected variables, by name; columns of the data again without the option"
    table, model = text_tables()[kind], designed(encoded=True).fit(TRIAL, OUTCOME)
    names = [f"{name}={level}" for name in model.selection_.selected for level in ("pill", "diet")]
    wanted = np.column_stack([TRIAL[name.split("=")[0]] == name.split("=")[1] for name in names])
    assert list(model.get_feature_names_out()) == names and 2 * 3 <= len(names) < 10
    assert (model.transform(table) == wanted).all()
    framed = model.set_output(transform="pandas").transform(table)
    assert list(framed.columns) == names and (framed == wanted).all(axis=None)
    assert "encoded=True has no inverse" in refusal(model.inverse_transform, wanted)
    same = dict(release=model.selection_.release, fdr=.4, dictionary=DESIGN)
    again = ReleaseSelector(**same, encoded=True).fit(TRIAL)
    assert (again.transform(table) == wanted).all() and list(again.get_feature_names_out()) == names
    model.set_params(encoded=False).set_output(transform="default")
    assert list(model.get_feature_names_out()) == list(model.selection_.selected)
    assert (model.transform(TRIAL) == TRIAL[list(model.selection_.selected)].to_numpy()).all()


def test_encoded_columns_in_pipelines():
    "A linear model after the selector, alone and inside a ColumnTransformer; what it learns is the truth"
    mixed = TRIAL.assign(dose=np.random.default_rng(8).uniform(0, 3, 4000))
    pipeline = make_pipeline(designed(encoded=True), LinearRegression()).fit(TRIAL, OUTCOME)
    effects = dict(zip(pipeline[0].get_feature_names_out(), pipeline[1].coef_))
    assert all(abs(effects[f"{name}=pill"] - 1) < .2 and abs(effects[f"{name}=diet"]) < .2
               for name in ("arm", "sex", "form"))
    columns = make_column_transformer((designed(encoded=True), FACTORS), (StandardScaler(), ["dose"]))
    both = make_pipeline(columns, LinearRegression()).fit(mixed, OUTCOME + mixed["dose"])
    assert columns.get_feature_names_out()[-1] == "standardscaler__dose"
    assert both.score(mixed, OUTCOME + mixed["dose"]) > pipeline.score(TRIAL, OUTCOME) > .3
    text = make_pipeline(designed(), LinearRegression())
    with pytest.raises(ValueError, match="could not convert string"): text.fit(TRIAL, OUTCOME)


def test_without_a_dictionary_there_is_nothing_to_encode():
    plain, model = moments().fit(TABLE, Y), moments(encoded=True).fit(TABLE, Y)
    assert (model.transform(TABLE) == plain.transform(TABLE)).all()
    assert list(model.get_feature_names_out()) == list(plain.get_feature_names_out())


@pytest.mark.parametrize("data, words", [
    (TRIAL.drop(columns="arm"), "has no column 'arm', which fit had"),
    (TRIAL.to_numpy(), "has no column names"), (TRIAL[FACTORS[::-1]], "in another order"),
    (TRIAL.assign(extra="x"), "says nothing about column 'extra'")])
def test_encoding_refuses_other_columns(data, words):
    model = designed(encoded=True).fit(TRIAL, OUTCOME)
    seen = Recorder()
    assert words in refusal(model.transform, data) and not seen.log


def test_the_levels_of_a_law_are_a_dictionary():
    law = Levels({name: ARMS for name in FACTORS})
    model = designed(dictionary=None, law=law).fit(TRIAL, OUTCOME)
    assert (model.W_ == designed().fit(TRIAL, OUTCOME).W_).all() and list(model.feature_names_in_) == FACTORS
    assert get_tags(model).input_tags.string and not get_tags(products()).input_tags.string
    plain = designed(dictionary=None, law=LAW, fdr=.2)
    assert "infinite values in column 'arm'" in refusal(plain.fit, TRIAL, OUTCOME)


def test_a_law_for_numbers_and_a_dictionary_for_text():
    mixed = TRIAL.assign(age=np.random.default_rng(7).standard_normal(4000))
    facts = {**DESIGN, "columns": {**DESIGN["columns"], "age": {"range": [-5, 5]}}}
    model = designed(dictionary=facts, law=Gaussian([0.], np.eye(1), ["age"])).fit(mixed, OUTCOME)
    assert model.selection_.names == (*FACTORS, "age") and model.get_support().shape == (6,)
    blocks = Blocks(Gaussian([0.], np.eye(1), ["age"]), Levels({name: ARMS for name in FACTORS}))
    assert (designed(dictionary=facts, law=blocks).fit(mixed, OUTCOME).W_ == model.W_).all()
    said = refusal(designed(dictionary=facts).fit, mixed, OUTCOME)
    assert "law says nothing about the columns 'age'" in said


@pytest.mark.parametrize("make", [products, moments, none, labels])
def test_a_group_selects_all_its_columns(make):
    groups = {"even": ["a", "c"], "last": ["g", "h"]}
    model = make(groups=groups, fdr=.3).fit(TABLE, Y)
    assert model.selection_.names == ("even", "b", "d", "e", "f", "last") and model.W_.shape == (6,)
    chosen = {column for name in model.selection_ for column in groups.get(name, [name])}
    assert set(model.get_feature_names_out()) == chosen and {"a", "c"} <= chosen
    assert list(model.transform(TABLE[:3]).T.shape) == [len(chosen), 3]
    assert model.get_support().tolist() == [name in chosen for name in NAMES]
    assert "group 'even' has an unknown column 'z'" in refusal(make(groups={"even": ["z"]}).fit, TABLE, Y)


def test_a_group_of_factors_and_files(tmp_path):
    TRIAL.assign(y=OUTCOME).to_csv(tmp_path / "t.csv", index=False)
    model = designed(groups={"who": ["sex", "site"]}).fit(tmp_path / "t.csv")
    assert model.selection_.names == ("arm", "who", "day", "form")
    assert list(model.feature_names_in_) == FACTORS
    assert ("who" in model.selection_) and {"sex", "site"} <= set(model.get_feature_names_out())
    again = pickle.loads(pickle.dumps(model))
    assert (again.get_support() == model.get_support()).all()
    assert (again.transform(TRIAL) == model.transform(TRIAL)).all()


def test_parameters_that_are_laws_survive():
    law = Blocks(Gaussian([0.], np.eye(1), ["age"]), Levels({"arm": ARMS}))
    for model in (products(law=law), designed(), products(groups={"a": ["x0", "x1"]})):
        for other in (clone(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
            assert set(other.get_params()) == set(model.get_params())
            assert repr(other) == repr(model)
    fresh = clone(products().fit(X, Y))
    assert (fresh.fit(X, Y).W_ == products().fit(X, Y).W_).all() and fresh.law is not LAW


def test_chunks_of_text_are_collected_by_one_dictionary():
    facts = {"columns": DESIGN["columns"], "target": "y"}
    change = dict(dictionary=facts, row_bound=2., response_bound=4., fdr=.4)
    model = moments(**change)
    for part in (slice(0, 1500), slice(1500, None)): model.partial_fit(TRIAL[part], OUTCOME[part])
    whole = moments(**change, **ONCE).fit(TRIAL, OUTCOME)
    other = {"columns": {**facts["columns"], "arm": {"levels": ["diet", "pill", "no"]}}, "target": "y"}
    model.set_params(dictionary=other)
    for ask in (model.finish, lambda: model.partial_fit(TRIAL, OUTCOME)):
        assert "dictionary was changed after rows had been collected" in refusal(ask)
    model.set_params(dictionary=facts).finish()
    assert (model.W_ == whole.W_).all() and (model.get_support() == whole.get_support()).all()
    assert whole.selection_.names == tuple(FACTORS) and whole.get_support().shape == (5,)


def test_facts_that_do_not_fit_the_table_are_refused_before_anything_is_drawn():
    seen = Recorder()
    for model, table, words in (
            (designed(), TRIAL.assign(extra="x"), "says nothing about column 'extra'"),
            (designed(groups={"who": ["sex", "gone"]}), TRIAL, "'gone'"),
            (designed(), TRIAL[:1], "X has 1 rows: pass at least 2"),
            (designed(dictionary=None), TABLE, "law is missing"),
            (products(law=Gaussian(0, np.eye(3))), TABLE, "law has 3 columns")):
        response = (OUTCOME if "arm" in table else pd.Series(Y))[:len(table)]
        text = refusal(model.fit, table, response)
        assert words in text and "\n" not in text
    assert not seen.log
    text = refusal(designed().fit_transform, TRIAL.assign(y=OUTCOME))
    assert "call fit, then transform" in text and not seen.log


def test_asking_again_before_there_is_a_result_draws_nothing():
    "It would have drawn the result of the rows collected so far, and promised to spend nothing"
    ledger = Ledger(epsilon=50., delta=1e-5)
    model = moments(ledger=ledger).partial_fit(X[:1000], Y[:1000])
    for unfitted in (model, moments()):
        with pytest.raises(NotFittedError, match="no result is drawn yet"): unfitted.select_again(fdr=.3)
    assert not ledger.entries and not model._released
    model.partial_fit(X[1000:], Y[1000:]).finish().select_again(fdr=.3)
    assert len(ledger.entries) == 1 and model._released
