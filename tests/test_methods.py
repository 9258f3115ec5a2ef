"All methods in one table: functions and classes agree, and every kind of data gives the same selection."
import inspect
from dataclasses import MISSING, FrozenInstanceError, fields, replace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dp_knockoff
from dp_knockoff.clip import Clip
from dp_knockoff.filter import knockoff_filter
from dp_knockoff.method_labels import labels_filter
from dp_knockoff.method_moments import moments_filter
from dp_knockoff.method_one import filter_one
from dp_knockoff.method_two import filter_two
from dp_knockoff.methods import METHODS, chooses, private_filter, takes
from dp_knockoff.moments import Moments
from dp_knockoff.selection import Method, Question, Release, Selection, select
from dp_knockoff.sources import open_source
from dp_knockoff.statistics import Statistic
from dp_knockoff.testing import refusal
from watched import Unused, unread

FILTERS = {"none": knockoff_filter, "one": filter_one, "two": filter_two, "moments": moments_filter,
           "labels": labels_filter}
PAPER = dict(epsilon=20.0, delta=1e-2, row_bound=1.0, sigma=1.0, beta_norm=2.0)
OPTIONS = {"none": {}, "one": PAPER, "two": PAPER,
           "moments": dict(epsilon=3.0, delta=1e-3, row_bound=.8, response_bound=3.0, intercept=False),
           "labels": dict(epsilon=3.0, delta=1e-3, response_bound=4.0, sigma=1.0, row_bound=.9)}


def bounded_rows(n=3000, p=4):
    "Rows of norm at most 1, and responses of them"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, X @ np.resize([2.0, 0, -2.0, 0], p) + rng.standard_normal(n)


X, Y = bounded_rows()
COLUMNS = {**{f"x{j}": X[:, j] for j in range(4)}, "y": Y}


# ---------------------------------------------------------------- one table

@pytest.mark.parametrize("word", METHODS)
def test_a_method_has_its_word_its_release_and_its_filter(word):
    method = METHODS[word]
    assert method.word == word and issubclass(method, Method) and issubclass(method.releases, Release)
    assert getattr(dp_knockoff, FILTERS[word].__name__) is FILTERS[word]
    assert getattr(dp_knockoff, method.__name__) is method and list(FILTERS) == list(METHODS)


@pytest.mark.parametrize("word", METHODS)
def test_functions_spell_out_what_methods_take_and_selections_choose(word):
    arguments = inspect.signature(FILTERS[word]).parameters
    taken, chosen = takes(word), chooses(word)
    noise = ("sampler",) if word != "none" else ()
    assert set(arguments) == {"data", "y", *taken, *chosen, *noise, "random_state"}
    assert all(a.kind is a.KEYWORD_ONLY for name, a in arguments.items() if name not in ("data", "y"))
    for name, default in taken.items():
        missing = inspect.Parameter.empty if default is MISSING else default
        assert arguments[name].default == missing, name


@pytest.mark.parametrize("word", METHODS)
def test_defaults_of_functions_are_those_of_selections(word):
    arguments = inspect.signature(FILTERS[word]).parameters
    asked = inspect.signature(select).parameters
    for name in chooses(word):
        if name in takes(word) and name in ("s", "sigma"): continue  # the method's own
        own = METHODS[word].releases.statistic if name == "statistic" else None
        assert arguments[name].default in (asked[name].default, own), name


def test_what_can_be_chosen_is_what_select_takes():
    names = {field.name for field in fields(Question)}
    assert names == set(inspect.signature(select).parameters) - {"release", "random_state"}
    for word in METHODS: assert set(chooses(word)) <= names
    assert "rule" in chooses("moments") and "rule" not in chooses("one") and "sigma" in chooses("moments")


def test_private_filter_is_the_moments_filter_with_fewer_choices():
    mine, whole = (inspect.signature(f).parameters for f in (private_filter, moments_filter))
    assert set(mine) < set(whole) and all(mine[name].default == whole[name].default for name in mine)
    def both(**changed):
        options = {**OPTIONS["moments"], **changed, "random_state": 3}
        one, two = (f(X, Y, **options) for f in (private_filter, moments_filter))
        assert (one.W == two.W).all() and repr(one) == repr(two)
        return one
    assert both(fdr=.4).fdr == .4
    assert both(ranges={"x0": (-2, 2)}, rounds=2, response_bound="private").release.rounds == 2
    assert both(intercept=True, response_center=.3).release.clip.response_center == .3


@pytest.mark.parametrize("word", METHODS)
def test_functions_are_a_release_and_a_selection(word):
    options = OPTIONS[word]
    release = METHODS[word](**options).release(X, Y, random_state=5)
    statistic = Statistic("ols", "lcd")
    found = FILTERS[word](X, Y, **options, statistic=statistic, offset=0, fdr=.3, random_state=5)
    again = select(release, statistic=statistic, offset=0, fdr=.3, random_state=5)
    assert isinstance(found, Selection) and type(release) is METHODS[word].releases is type(found.release)
    assert (found.W == again.W).all() and (found.signs == again.signs).all()
    assert found.threshold == again.threshold and repr(found) == repr(again)
    assert release.n == 3000 and release.names == ("x0", "x1", "x2", "x3") and release.method == word
    assert (release.budget is None) == (word == "none") == (release.sampler is None)


# ---------------------------------------------------------------- every kind of data

def sources(folder):
    "The same rows in all forms: data and response"
    frame = pd.DataFrame(COLUMNS)
    frame.to_csv(folder / "t.csv", index=False)
    pl.DataFrame(COLUMNS).write_parquet(folder / "t.parquet")
    np.save(folder / "x.npy", X)
    np.save(folder / "y.npy", Y)
    def chunks(): return ((X[a:a + 800], Y[a:a + 800]) for a in range(0, 3000, 800))
    return {"lists": (X.tolist(), Y.tolist()), "pandas": (frame, "y"),
            "polars": (pl.DataFrame(COLUMNS), "y"), "query": (pl.LazyFrame(COLUMNS), "y"),
            "csv": (folder / "t.csv", "y"), "parquet": (str(folder / "t.parquet"), "y"),
            "npy": (str(folder / "x.npy"), str(folder / "y.npy")), "function": (chunks, None),
            "iterator": (chunks(), None), "source": (open_source(X, Y), None)}


KINDS = ["lists", "pandas", "polars", "query", "csv", "parquet", "npy", "function", "iterator", "source",
         "dask"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", METHODS)
def test_every_filter_takes_every_kind_of_data(word, kind, tmp_path):
    wanted = FILTERS[word](X, Y, **OPTIONS[word], fdr=.5, random_state=5)
    if kind == "dask":
        da = pytest.importorskip("dask.array")
        data, y = da.from_array(X, chunks=(900, 4)), da.from_array(Y, chunks=900)
    else: data, y = sources(tmp_path)[kind]
    found = FILTERS[word](data, y, **OPTIONS[word], fdr=.5, random_state=5)
    assert found.selected == wanted.selected and found.names == wanted.names and len(wanted) >= 2
    assert np.allclose(found.W, wanted.W, rtol=1e-8, atol=1e-8 * np.abs(wanted.W).max())


@pytest.mark.parametrize("word", ["none", "one", "two", "moments"])
def test_filters_take_moments_that_were_saved(word, tmp_path):
    options, clip = dict(OPTIONS[word]), None
    if word == "moments":
        clip = Clip(**{name: options.pop(name) for name in ("row_bound", "response_bound", "intercept")})
    wanted = FILTERS[word](X, Y, **OPTIONS[word], random_state=5)
    whole = Moments.from_data(X, Y, clip=clip)
    whole.save(tmp_path / "m.npz")
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for path, part in zip(paths, (slice(0, 1000), slice(1000, None))):
        Moments.from_data(X[part], Y[part], clip=clip).save(path)
    for data in (whole, tmp_path / "m.npz", paths):
        found = FILTERS[word](data, **options, random_state=5)
        assert np.allclose(found.W, wanted.W, rtol=1e-8) and found.selected == wanted.selected


@pytest.mark.parametrize("word", METHODS)
def test_a_function_of_chunks_takes_no_argument(word):
    def of_clip(clip): return Moments.from_data(X, Y, clip=clip)
    assert "data is a function that takes an argument" in refusal(FILTERS[word], of_clip, **OPTIONS[word])
    assert len(FILTERS[word](lambda: [(X, Y)], **OPTIONS[word], random_state=0).W) == 4


@pytest.mark.parametrize("word", METHODS)
def test_a_release_is_not_data(word):
    release = METHODS[word](**OPTIONS[word]).release(X, Y, random_state=5)
    assert "pass it to select(...)" in refusal(FILTERS[word], release, **OPTIONS[word])


# ---------------------------------------------------------------- parameters and refusals

@pytest.mark.parametrize("word", METHODS)
def test_methods_are_frozen_keywords_that_can_be_compared_and_replaced(word):
    method = METHODS[word](**OPTIONS[word])
    for name in takes(word):
        with pytest.raises(FrozenInstanceError): setattr(method, name, None)
    with pytest.raises(TypeError): METHODS[word](1.0)
    assert method == METHODS[word](**OPTIONS[word])
    if word == "none": return
    other = replace(method, epsilon=2.0)
    assert other.budget.epsilon == 2 and method != other


BAD = {
    "none": [dict(s="best")],
    "one": [dict(epsilon=0), dict(delta=2), dict(row_bound=-1), dict(sigma=None), dict(beta_norm="x"),
            dict(bounds="coupled"), dict(repaired=2), dict(epsilon_split=3), dict(delta_split=(1, 1, 1))],
    "two": [dict(epsilon=0), dict(delta=2), dict(row_bound=-1), dict(sigma=None), dict(beta_norm="x"),
            dict(bounds="loose"), dict(beta_max=-1), dict(ridge_penalty="a"), dict(delta_split=(1, 1))],
    "moments": [dict(epsilon=0), dict(delta=2), dict(row_bound="a"), dict(response_bound=-1), dict(ranges=3),
                dict(response_center="a"), dict(intercept=None), dict(rounds="two"), dict(balance=np.inf)],
    "labels": [dict(epsilon=0), dict(delta=2), dict(row_bound="a"), dict(response_bound=-1), dict(sigma=0),
               dict(response_center="a"), dict(intercept=None)],
}
CASES = [(word, bad) for word in BAD for bad in BAD[word]]


@pytest.mark.parametrize("word, bad", CASES, ids=str)
def test_bad_parameters_are_refused_before_anything_is_read_or_drawn(word, bad):
    "By the method itself, and by the function that makes it, with the same sentence"
    options = {**OPTIONS[word], **bad}
    sentence = refusal(METHODS[word], **options)
    noise = {} if word == "none" else dict(sampler=Unused())
    assert refusal(FILTERS[word], unread(["x0", "x1"]), **options, **noise) == sentence
    assert next(iter(bad)).split("_split")[0] in sentence and "\n" not in sentence


def test_every_parameter_of_a_private_method_is_checked():
    for word in BAD:
        if word != "none": assert {name for bad in BAD[word] for name in bad} == set(takes(word))


@pytest.mark.xfail(strict=True, reason="intercept and sigma are looked at only when the data has been read")
@pytest.mark.parametrize("bad", [dict(intercept="yes"), dict(sigma=-1), dict(sigma="x"), dict(s=3)], ids=str)
def test_the_plain_filter_refuses_all_parameters_without_data(bad):
    assert next(iter(bad)) in refusal(METHODS["none"], **bad)


QUESTIONS = [dict(fdr=0), dict(fdr="a"), dict(offset=2), dict(statistic=3), dict(statistic="lasso")]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
@pytest.mark.parametrize("word", METHODS)
def test_bad_questions_are_refused_before_anything_is_read_or_drawn(word, question):
    noise = {} if word == "none" else dict(sampler=Unused())
    sentence = refusal(FILTERS[word], unread(["x0", "x1"]), **{**OPTIONS[word], **question}, **noise)
    assert next(iter(question)) in sentence


@pytest.mark.parametrize("word", ["one", "two", "moments", "labels"])
def test_a_bad_sampler_is_refused_before_anything_is_read(word):
    assert "is not a sampler" in refusal(FILTERS[word], unread(["x0", "x1"]), **OPTIONS[word], sampler=Unused)


@pytest.mark.parametrize("word", METHODS)
def test_holes_in_the_data_are_refused_before_anything_is_drawn(word):
    hole = X.copy()
    hole[7, 2] = np.nan
    noise = {} if word == "none" else dict(sampler=Unused())
    assert "row 7" in refusal(FILTERS[word], hole, Y, **OPTIONS[word], **noise)
