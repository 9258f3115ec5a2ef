"All methods in one table: functions and classes agree, and every kind of data gives the same selection."
import inspect
import warnings
from dataclasses import FrozenInstanceError, fields, replace
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import stats

import dp_knockoff
from dp_knockoff.core.testing import refusal
from dp_knockoff.data.clip import Clip
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.labels_method import LabelsMethod
from dp_knockoff.filters.link import LinkMethod
from dp_knockoff.filters.methods import (
    METHODS,
    NonPrivate,
    ProductsMethod,
    ask,
    chooses,
    knockoff_filter,
    law_word,
    private_filter,
    question_of,
    takes,
)
from dp_knockoff.filters.moments_method import MomentsMethod
from dp_knockoff.knockoffs.laws import Blocks, Gaussian, Independent, Kernel, Levels
from dp_knockoff.knockoffs.statistics import Statistic
from dp_knockoff.privacy.ledger import Ledger
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.selection.release import Method, Release, Selection, select
from dp_knockoff.selection.rules import BH, SIMULATION, KnockoffPlus
from watched import Dying, Trusted, Unused, unread

FILTERS = {"none": knockoff_filter} | {word: partial(ask, word) for word in METHODS if word != "none"}
PAPER = dict(epsilon=20.0, delta=1e-2, row_bound=1.0, sigma=1.0, beta_norm=2.0)
OPTIONS = {"none": {}, "one": PAPER, "two": PAPER,
           "moments": dict(epsilon=3.0, delta=1e-3, row_bound=.8, response_bound=9.0, intercept=False),
           "labels": dict(epsilon=3.0, delta=1e-3, response_bound=4.0, sigma=1.0, row_bound=.9),
           "products": dict(epsilon=3.0, delta=1e-3, response_bound=3.0, law=Gaussian(0, .25 * np.eye(4)))}
OPTIONS["tests"] = OPTIONS["products"]
NOISE = ("simulation", "random_state", "sampler")
DRAWS = {"none": ("random_state",), "one": NOISE, "two": NOISE, "moments": (*NOISE, "ledger"),
         "labels": (*NOISE, "ledger"), "products": (*NOISE, "ledger"), "tests": (*NOISE, "ledger")}
PRIVATE = [word for word in FILTERS if word != "none"]


def seeded(word, seed):
    "How a method draws the same again"
    return dict(random_state=seed) if word == "none" else dict(simulation=True, random_state=seed)


def bounded_rows(n=3000, p=4):
    "Rows of norm at most 1, and responses of them"
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X /= np.maximum(1, np.linalg.norm(X, axis=1))[:, None]
    return X, X @ np.resize([2.0, 0, -2.0, 0], p) + rng.standard_normal(n)


X, Y = bounded_rows()
NAMES = ["x0", "x1", "x2", "x3"]
COLUMNS = {**dict(zip(NAMES, X.T)), "y": Y}


# ---------------------------------------------------------------- one table

@pytest.mark.parametrize("word", METHODS)
def test_a_method_has_its_word_its_release_and_its_filter(word):
    method = METHODS[word]
    assert method.word == word and issubclass(method, Method) and issubclass(method.releases, Release)
    assert list(FILTERS) == list(METHODS) and set(method.draws) == set(DRAWS[word])
    assert getattr(dp_knockoff, method.__name__) is method


@pytest.mark.parametrize("word", METHODS)
def test_every_field_of_a_method_and_of_a_rule_says_what_it_means(word):
    for cls in (METHODS[word], KnockoffPlus):
        for field in fields(cls): assert len(field.metadata["help"]) > 10, field.name


@pytest.mark.parametrize("front", [private_filter, knockoff_filter])
def test_fronts_have_the_defaults_of_methods_and_rules(front):
    classes = [NonPrivate, KnockoffPlus] if front is knockoff_filter else [LinkMethod, ProductsMethod]
    arguments = inspect.signature(front).parameters
    assert all(a.kind is a.KEYWORD_ONLY for name, a in arguments.items() if name not in ("data", "y"))
    known = inspect.signature(Method.select).parameters
    for name, argument in list(arguments.items())[2:]:
        defaults = [f.default for cls in classes for f in fields(cls) if f.name == name]
        if name in known: defaults.append(known[name].default)
        assert defaults and argument.default in defaults, name
    if front is private_filter: assert len(arguments) == 16


def test_what_can_be_chosen_is_what_rules_and_select_take():
    names = {"fdr", "rule", "sigma", *(field.name for field in fields(KnockoffPlus))}
    for word in METHODS: assert set(chooses(word)) <= names
    assert "rule" in chooses("moments") and "rule" not in chooses("one") and "sigma" in chooses("moments")
    assert "s" not in chooses("products") and "sigma" not in chooses("labels")


@pytest.mark.parametrize("word", METHODS)
def test_the_guarantee_is_known_before_anything_is_drawn(word):
    method = METHODS[word](**OPTIONS[word])
    found = method.select(X, Y, fdr=.3, **seeded(word, 1))
    before = method.guarantee(fdr=.3)
    assert before.control == found.guarantee.control and before.privacy == found.guarantee.privacy
    assert (before.privacy is None) == (word == "none") and before.control.bound == .3


ROWS = {name: value for name, value in OPTIONS["moments"].items() if name != "intercept"}


def test_private_filter_is_the_moments_filter_with_fewer_choices():
    def both(**changed):
        options = {**ROWS, **changed, **seeded("moments", 3)}
        one, two = (f(X, Y, **options) for f in (private_filter, partial(ask, "moments")))
        assert (one.W == two.W).all() and repr(one) == repr(two)
        return one
    assert both(fdr=.4).fdr == .4 and both().rule.name == "bh" and both().release.rounds == 3
    for rule in ("bh", "by", "dbh", "knockoffs"): assert both(rule=rule).rule.name == rule
    assert both(ranges={"x0": (-2, 2)}, response_bound="private").release.rounds == 3


@pytest.mark.parametrize("word, more", [
    ("tests", {}), ("tests", dict(rule="bh")), ("tests", dict(rule=BH())),
    ("products", dict(rule="knockoffs")), ("products", dict(rule=KnockoffPlus())),
    ("products", dict(row_bound=2.0)), ("products", dict(ranges={"x0": (-3, 3)}))])
def test_private_filter_tests_where_the_law_is_public_unless_something_asks_for_products(word, more):
    options = OPTIONS[word] | seeded(word, 3) | dict(fdr=.4) | more
    source = open_source(X, Y, groups={"a": ["x0", "x1"]})
    one, two = (f(source, **options) for f in (private_filter, partial(ask, word)))
    assert repr(one) == repr(two) and (one.W == two.W).all() and one.names == ("a", "x2", "x3")
    assert one.method == word and (one.guarantee.control.kind == "exact") == (word == "products")


def normal(p): return Gaussian(0, np.eye(p))


@pytest.mark.parametrize("word, law", [
    ("tests", Blocks(normal(2), Independent([stats.norm()] * 2))), ("tests", None),
    ("tests", Levels({"a": {"u": .5, "v": .5}})), ("products", Kernel(lambda X, U: X, 4)),
    ("products", lambda X, U: X), ("products", Blocks(normal(2), Kernel(lambda X, U: X, 2)))])
def test_laws_without_residuals_go_to_products(word, law):
    assert law_word(law) == word
    assert law_word(law, rule="bh") == "tests" and law_word(law, rule="knockoffs") == "products"


def test_private_filter_with_a_law_refuses_and_reads_dictionaries():
    options = OPTIONS["products"] | seeded("products", 3)
    assert "rule='dbh' needs estimates" in refusal(private_filter, X, Y, rule="dbh", **options)
    assert refusal(private_filter, X, Y, rule="holm", **options).startswith("rule='holm' is unknown")
    trial, facts = text_trial()
    asked = dict(epsilon=3.0, delta=1e-3, response_bound=4.0, **seeded("products", 3))
    for word, more in (("tests", {}), ("products", dict(rule="knockoffs"))):
        chosen = private_filter(trial, dictionary=facts, **asked, **more)
        assert chosen.method == word
        assert (chosen.W == ask(word, trial, dictionary=facts, **asked, **more).W).all()
    del facts["columns"]["b"]["probabilities"]
    assert private_filter(trial, dictionary=facts, row_bound=2.0, **asked).method == "moments"


@pytest.mark.parametrize("rule", ["bh", "by", "exact"])
def test_private_filter_tests_where_the_law_is_public_and_the_rule_is_one_of_tests(rule):
    options = OPTIONS["tests"] | seeded("tests", 3)
    found = private_filter(X, Y, rule=rule, **options)
    more = dict(rounds=1) if rule == "exact" else {}
    assert repr(found) == repr(ask("tests", X, Y, rule=rule, **options, **more)) and len(found) >= 2
    for name, value in (("row_bound", 2.0), ("ranges", {"x0": (-1, 1)})):
        sentence = refusal(private_filter, unread(NAMES), rule=rule, **options | {name: value})
        assert sentence.startswith(name) and "residuals bound themselves" in sentence
    assert "'knockoffs'" in refusal(private_filter, X, Y, rule=rule, **options | dict(law=lambda X, U: U))


@pytest.mark.parametrize("word", METHODS)
def test_functions_are_a_release_and_a_selection(word):
    options = OPTIONS[word]
    release = METHODS[word](**options).release(X, Y, **seeded(word, 5))
    rule = dict(rule="knockoffs") if "rule" in chooses(word) else {}
    statistic = dict(**rule, statistic=Statistic("ols", "lcd"), offset=0)
    questions = [statistic, {}, *(dict(rule=other) for other in ("bh", "dbh", "by", "ebh") if rule)]
    if word == "tests": questions = [{}, dict(rule="bh"), dict(rule="by")]
    for question in questions:
        found = FILTERS[word](X, Y, **options, **question, fdr=.3, **seeded(word, 5))
        again = select(release, **question_of(release.rule, question | dict(fdr=.3)))
        assert (found.W == again.W).all() and (found.signs == again.signs).all()
        assert found.threshold == again.threshold and repr(found) == repr(again)
        assert found.rule.name == question.get("rule", METHODS[word].releases.rule.name)
    assert isinstance(found, Selection) and type(release) is METHODS[word].releases is type(found.release)
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


def assert_other_knockoffs(found, wanted, signals):
    "Parts of a cluster's data have uniforms of their own: the same filter, with other knockoffs"
    assert found.names == wanted.names and found.release.n == wanted.release.n
    assert set(signals) <= set(found.selected) & set(wanted.selected)
    assert (found.release.product_sds == wanted.release.product_sds).all()
    p = len(found.release.columns)
    originals = np.array([one.release.products[0][:p] for one in (found, wanted)])
    assert np.allclose(*originals, atol=.02 * np.abs(originals).max())  # the same rows, and the same noise


LAWFUL = "products", "tests"
KINDS = ["lists", "pandas", "polars", "query", "csv", "parquet", "npy", "function", "iterator", "source",
         "dask"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("word", METHODS)
def test_every_filter_takes_every_kind_of_data(word, kind, tmp_path, monkeypatch):
    if word == "labels":  # its covariance is a sum of floats: the last bits say how the rows were cut
        monkeypatch.setattr(Release, "seed", 7)
    options = {**OPTIONS[word], **(dict(rounds=1) if word in LAWFUL else {})}  # an iterator is read once
    once = dict(rounds=1) if word == "moments" and kind == "iterator" else {}  # which it finds out by itself
    wanted = FILTERS[word](X, Y, **options, **once, fdr=.5, **seeded(word, 5))
    if kind == "dask":
        da = pytest.importorskip("dask.array")
        data, y = da.from_array(X, chunks=(900, 4)), da.from_array(Y, chunks=900)
    else: data, y = sources(tmp_path)[kind]
    found = FILTERS[word](data, y, **options, fdr=.5, **seeded(word, 5))
    if word == "products" and kind == "dask": return assert_other_knockoffs(found, wanted, ["x0", "x2"])
    assert found.selected == wanted.selected and found.names == wanted.names and len(wanted) >= 2
    assert np.allclose(found.W, wanted.W, rtol=1e-8, atol=1e-8 * np.abs(wanted.W).max())
    if word not in ("moments", *LAWFUL): return
    assert (found.W == wanted.W).all() and found.release.seed == wanted.release.seed
    if word == "moments": assert found.release.rounds == once.get("rounds", 3)


LEVELS = {"no": .5, "pill": .25, "diet": .25}


def text_trial(n=3000):
    "A table of text, and the public facts about it"
    rng = np.random.default_rng(1)
    drawn = rng.choice(list(LEVELS), (n, 4), p=list(LEVELS.values()))
    y = (drawn[:, [0, 2]] == "pill").sum(axis=1) + rng.standard_normal(n)
    column = {"levels": list(LEVELS), "probabilities": list(LEVELS.values())}
    facts = {"target": "y", "columns": {name: dict(column) for name in "abcd"} | {"y": {"range": [-9, 9]}}}
    return pd.DataFrame(dict(zip("abcd", drawn.T)) | {"y": y}), facts


def text_tables(folder):
    "The same text in all forms that may hold some"
    trial, _ = text_trial()
    trial.to_csv(folder / "t.csv", index=False)
    pl.from_pandas(trial).write_parquet(folder / "t.parquet")
    def chunks(): return (trial[a:a + 800] for a in range(0, 3000, 800))
    categories = trial.astype(dict.fromkeys("abcd", "category"))
    dd = pytest.importorskip("dask.dataframe")
    return {"pandas": trial, "categories": categories, "polars": pl.from_pandas(trial),
            "query": pl.from_pandas(trial).lazy(), "csv": folder / "t.csv", "parquet": folder / "t.parquet",
            "function": chunks, "iterator": chunks(), "dask": dd.from_pandas(trial, npartitions=3)}


TEXTS = ["pandas", "categories", "polars", "query", "csv", "parquet", "function", "iterator", "dask"]
ON_TEXT = {"none": {}, "moments": dict(epsilon=3.0, delta=1e-3, row_bound=2.0, response_bound=4.0),
           "labels": dict(epsilon=3.0, delta=1e-3, response_bound=4.0, sigma=1.0, row_bound=2.0),
           "products": dict(epsilon=3.0, delta=1e-3, response_bound=4.0),
           "tests": dict(epsilon=3.0, delta=1e-3, response_bound=4.0)}


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("word", ON_TEXT)
def test_filters_take_text_of_every_kind_with_a_dictionary(word, kind, tmp_path, monkeypatch):
    if word == "labels": monkeypatch.setattr(Release, "seed", 7)
    trial, facts = text_trial()
    asked = dict(dictionary=facts, groups={"rest": ["b", "d"]}, fdr=.5, **ON_TEXT[word], **seeded(word, 5))
    if word in LAWFUL: asked["rounds"] = 1  # an iterator is read once
    if word == "tests": asked["response_center"] = 0.0  # which would be looked for in the range otherwise
    once = dict(rounds=1) if word == "moments" and kind == "iterator" else {}  # which it finds out by itself
    wanted = FILTERS[word](trial, **asked, **once)
    target = "y" if kind in ("function", "iterator") else None
    found = FILTERS[word](text_tables(tmp_path)[kind], target, **asked)
    if word == "products" and kind == "dask": return assert_other_knockoffs(found, wanted, ["a", "c"])
    assert found.names == ("a", "rest", "c") == wanted.names and {"a", "c"} <= set(found.selected)
    assert found.selected == wanted.selected and np.allclose(found.W, wanted.W, rtol=1e-8)
    assert "a  " in repr(found) and "a=pill" not in found.names and len(found.release.columns) >= 8


def test_every_text_is_tried(tmp_path): assert list(text_tables(tmp_path)) == TEXTS


def test_the_law_is_the_dictionary():
    "Levels are encoded as the dictionary says, and drawn with its probabilities"
    trial, facts = text_trial()
    asked = dict(**ON_TEXT["products"], **seeded("products", 5))
    by_facts = ask("products", trial, dictionary=facts, **asked)
    by_law = ask("products", trial, "y", law=Levels({name: LEVELS for name in "abcd"}), **asked)
    assert (by_facts.W == by_law.W).all() and by_facts.names == by_law.names == tuple("abcd")
    other = ask("products", trial, "y", law=Levels({name: {**LEVELS, "no": .7, "pill": .05}
                                                    for name in "abcd"}), **asked)
    assert (other.W != by_law.W).any()


@pytest.mark.parametrize("word", ["none", "one", "two", "moments"])
def test_filters_take_moments_that_were_saved(word, tmp_path):
    options, clip = dict(OPTIONS[word]), None
    if word == "moments":
        clip = Clip(**{name: options.pop(name) for name in ("row_bound", "response_bound", "intercept")})
    once = dict(rounds=1) if word == "moments" else {}  # rows that are summed cannot be read again
    wanted = FILTERS[word](X, Y, **OPTIONS[word], **once, **seeded(word, 5))
    whole = Moments.from_data(X, Y, clip=clip)
    whole.save(tmp_path / "m.npz")
    paths = [tmp_path / "a.npz", tmp_path / "b.npz"]
    for path, part in zip(paths, (slice(0, 1000), slice(1000, None))):
        Moments.from_data(X[part], Y[part], clip=clip).save(path)
    for data in (whole, tmp_path / "m.npz", paths):
        found = FILTERS[word](data, **options, **seeded(word, 5))
        assert np.allclose(found.W, wanted.W, rtol=1e-8) and found.selected == wanted.selected
        if not once: continue
        assert found.release.rounds == 1
        refused = refusal(FILTERS[word], data, **options, rounds=4, sampler=Unused())
        assert "rounds=4 needs 4 passes" in refused


@pytest.mark.parametrize("word", METHODS)
def test_a_function_of_chunks_takes_no_argument(word):
    def of_clip(clip): return Moments.from_data(X, Y, clip=clip)
    assert "data is a function that takes an argument" in refusal(FILTERS[word], of_clip, **OPTIONS[word])
    assert len(FILTERS[word](lambda: [(X, Y)], **OPTIONS[word], **seeded(word, 0)).W) == 4


@pytest.mark.parametrize("word", METHODS)
def test_a_release_is_not_data(word):
    release = METHODS[word](**OPTIONS[word]).release(X, Y, **seeded(word, 5))
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
    "none": [dict(s="best"), dict(intercept="yes"), dict(sigma=-1), dict(law="normal")],
    "one": [dict(epsilon=0), dict(delta=2), dict(row_bound=-1), dict(sigma=None), dict(beta_norm="x"),
            dict(bounds="coupled"), dict(repaired=2), dict(epsilon_split=3), dict(delta_split=(1, 1, 1))],
    "two": [dict(epsilon=0), dict(delta=2), dict(row_bound=-1), dict(sigma=None), dict(beta_norm="x"),
            dict(bounds="loose"), dict(beta_max=-1), dict(ridge_penalty="a"), dict(delta_split=(1, 1))],
    "moments": [dict(epsilon=0), dict(delta=2), dict(row_bound="a"), dict(response_bound=-1), dict(ranges=3),
                dict(response_center="a"), dict(response_center="private"), dict(intercept=None),
                dict(rounds="two"), dict(rounds=0), dict(balance=np.inf), dict(rows_per_person=0),
                dict(sigma=0), dict(noise="normal"), dict(link="probit")],
    "labels": [dict(epsilon=0), dict(delta=2), dict(row_bound="a"), dict(response_bound=-1), dict(sigma=0),
               dict(response_center="a"), dict(response_center="private"), dict(intercept=None),
               dict(rows_per_person=1.5)],
    "products": [dict(epsilon=0), dict(delta=2), dict(law=3), dict(law=Gaussian), dict(response_bound=-1),
                 dict(row_bound="a"), dict(ranges=3), dict(response_center="a"), dict(rounds=1.5),
                 dict(response_center="private"), dict(rows_per_person=0)],
    "tests": [dict(epsilon=0), dict(delta=2), dict(law=3), dict(law=Gaussian), dict(response_bound=-1),
              dict(response_center="a"), dict(rounds=1.5), dict(rows_per_person=0)],
}
CASES = [(word, bad) for word in BAD for bad in BAD[word]]


@pytest.mark.parametrize("word, bad", CASES, ids=str)
def test_bad_parameters_are_refused_before_anything_is_read_or_drawn(word, bad):
    "By the method itself, and by the function that makes it, with the same sentence"
    options = {**OPTIONS[word], **bad}
    sentence = refusal(METHODS[word], **options)
    noise = {} if word == "none" else dict(sampler=Unused())
    assert refusal(FILTERS[word], unread(NAMES), **options, **noise) == sentence
    assert next(iter(bad)).split("_split")[0] in sentence and "\n" not in sentence


def test_every_parameter_of_a_method_is_checked():
    for word in BAD: assert {name for bad in BAD[word] for name in bad} == set(takes(word))


@pytest.mark.parametrize("bad", [dict(intercept="yes"), dict(sigma=-1), dict(sigma="x")], ids=str)
def test_the_plain_filter_refuses_all_parameters_without_data(bad):
    assert next(iter(bad)) in refusal(METHODS["none"], **bad)


QUESTIONS = [dict(fdr=0), dict(fdr="a"), dict(offset=2), dict(statistic=3), dict(statistic="lasso")]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
@pytest.mark.parametrize("word", METHODS)
def test_bad_questions_are_refused_before_anything_is_read_or_drawn(word, question):
    noise = {} if word == "none" else dict(sampler=Unused())
    sentence = refusal(FILTERS[word], unread(NAMES), **{**OPTIONS[word], **question}, **noise)
    assert next(iter(question)) in sentence


@pytest.mark.parametrize("idle", [dict(s="mvr"), dict(offset=0), dict(statistic=Statistic("ols"))], ids=str)
def test_what_belongs_to_knockoffs_is_refused_where_none_are_drawn(idle):
    "By the rule that was asked for, and by the method's own, with the same sentence"
    def told(**rule):
        return refusal(ask, "moments", unread(NAMES), **OPTIONS["moments"], **idle, **rule, sampler=Unused())
    name, = idle
    assert told() == told(rule="bh") and told().startswith(f"{name}=")
    assert told().endswith("has no meaning for rule='bh', which draws no knockoffs: leave it out, "
                           "or pass rule='knockoffs'")
    for rule in ("dbh", "by"): assert f"rule={rule!r}, which draws no knockoffs" in told(rule=rule)
    assert "rule='ebh', which has its own" in told(rule="ebh")
    release = METHODS["moments"](**OPTIONS["moments"]).release(X, Y, **seeded("moments", 0))
    assert refusal(question_of, release.rule, idle) == told()


@pytest.mark.parametrize("word", PRIVATE)
def test_a_bad_sampler_is_refused_before_anything_is_read(word):
    assert "is not a sampler" in refusal(FILTERS[word], unread(NAMES), **OPTIONS[word], sampler=Unused)


@pytest.mark.parametrize("word", METHODS)
def test_holes_in_the_data_are_refused_before_anything_is_drawn(word):
    hole = X.copy()
    hole[7, 2] = np.nan
    noise = {} if word == "none" else dict(sampler=Unused())
    sentence = refusal(FILTERS[word], hole, Y, **OPTIONS[word], **noise)
    assert "NaN or infinite values in column 'x2'" in sentence and "7" not in sentence


# ---------------------------------------------------------------- releases and simulations

@pytest.mark.parametrize("word", PRIVATE)
def test_seeds_belong_to_simulations(word):
    "Refused before anything is read: a seed would let everybody subtract the noise"
    for run in (FILTERS[word], *[private_filter] * (word == "moments")):
        options = ROWS if run is private_filter else OPTIONS[word]
        sentence = refusal(run, unread(NAMES), **options, random_state=0)
        assert "random_state belongs to simulations" in sentence
    release = METHODS[word](**OPTIONS[word]).release
    assert "belongs to simulations" in refusal(release, unread(NAMES), random_state=0)


@pytest.mark.parametrize("word", PRIVATE)
@pytest.mark.parametrize("bad", [-1, 1.5, "a"])
def test_bad_seeds_of_simulations_are_refused_before_anything_is_read(word, bad):
    draw = dict(simulation=True, random_state=bad)
    assert "random_state" in refusal(FILTERS[word], unread(NAMES), **OPTIONS[word], **draw)


@pytest.mark.parametrize("word", PRIVATE)
def test_simulation_is_true_or_false(word):
    for bad in (1, "yes", None):
        assert "simulation" in refusal(FILTERS[word], unread(NAMES), **OPTIONS[word], simulation=bad)


@pytest.mark.parametrize("word", PRIVATE)
def test_a_simulation_says_so_wherever_it_is_looked_at(word):
    found = FILTERS[word](X, Y, **OPTIONS[word], **seeded(word, 1))
    release = found.release
    assert release.simulated is True and str(release.guarantee) == SIMULATION
    assert found.guarantee.lines()[0] == SIMULATION and "simulation: NOT private" in repr(release)
    for text in (repr(found), repr(release)):
        assert "NOT private" in text and "differential privacy" not in text
    assert "for simulation, not for a release" in found.notes[-1]


@pytest.mark.parametrize("word", PRIVATE)
@pytest.mark.filterwarnings("ignore:delta=")
def test_a_release_does_not_look_like_a_simulation(word):
    found = FILTERS[word](X, Y, **OPTIONS[word], sampler=Trusted())
    assert found.release.simulated is False and "imulation" not in repr(found) + repr(found.release)
    assert "differential privacy" in str(found.guarantee) and found.guarantee.lines()[0].startswith("Privacy")


@pytest.mark.parametrize("word", ["moments", "labels", "products", "tests"])
def test_budgets_that_protect_little_are_said_of_releases_only(word):
    def run(epsilon, delta, **draw):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            FILTERS[word](X, Y, **{**OPTIONS[word], "epsilon": epsilon, "delta": delta}, **draw)
        return [str(warning.message) for warning in caught]
    assert run(20.0, 1e-2, simulation=True) == run(10.0, 1 / 3000, sampler=Trusted()) == []
    large, = run(20.0, 1e-5, sampler=Trusted())
    likely, = run(1.0, 1e-3, sampler=Trusted())
    assert large.startswith("epsilon=20 protects little") and likely.startswith("delta=0.001 is above 1/n")
    assert len(run(20.0, 1e-3, sampler=Trusted())) == 2


# ---------------------------------------------------------------- ledgers

class Auditor(Trusted):
    "Notes at every draw what the ledger holds"
    def __init__(self, ledger):
        super().__init__(0)
        self.ledger, self.seen = ledger, []

    def lattice(self, value, scale, purpose):
        self.seen.append(len(self.ledger.entries))
        return super().lattice(value, scale, purpose)


STRICT = {"moments": dict(rounds=2, response_bound="private"), "labels": {}, "products": dict(rounds=2),
          "tests": dict(rounds=2, response_center="private")}
FAILS = [("moments", "response bound, probe 0"), ("moments", "moments"), ("moments", "sizes 0"),
         ("moments", "weights"), ("moments", "residuals 1"), ("moments", "sizes 1"),
         ("moments", "variances"), ("labels", "products"), ("products", "products 0"),
         ("products", "products 1"), ("products", "clamped responses"), ("tests", "centre, probe 0"),
         *(("tests", f"{what} 0") for what in ("products", "square", "total", "clamped residuals")),
         ("tests", "products 1"), ("tests", "clamped residuals 1")]


def strict(word, **changed):
    "Options of a release in several draws, if the method has any"
    return {**OPTIONS[word], "delta": 1e-4, **STRICT[word], **changed}


@pytest.mark.parametrize("word", STRICT)
def test_a_ledger_is_told_once_and_before_the_first_draw(word, tmp_path):
    for ledger in (Ledger(epsilon=7.0, delta=1e-4), Ledger(tmp_path / "l.jsonl", epsilon=7.0, delta=1e-4)):
        sampler = Auditor(ledger)
        release = FILTERS[word](X, Y, **strict(word), ledger=ledger, sampler=sampler).release
        assert sampler.seen and set(sampler.seen) == {1}
        entry, = ledger.entries
        assert entry.mu == analytic_ratio(Budget(3.0, 1e-4)) and (entry.epsilon, entry.delta) == (3.0, 1e-4)
        assert entry.what == word and not entry.simulated
        assert entry.unit == ("1 response" if word == "labels" else "1 row")
        if word != "labels": assert entry.id in release.ids
    FILTERS[word](X, Y, **strict(word), ledger=str(tmp_path / "l.jsonl"), simulation=True)
    assert [entry.simulated for entry in ledger.entries] == [False, True]


@pytest.mark.parametrize("word, purpose", FAILS, ids=str)
def test_what_was_entered_stays_entered_if_the_sampler_dies(word, purpose):
    ledger = Ledger(epsilon=5.0, delta=1e-4)
    with pytest.raises(MemoryError):
        FILTERS[word](X, Y, **strict(word), ledger=ledger, sampler=Dying(purpose))
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("word", STRICT)
def test_nothing_is_entered_if_the_data_is_refused(word):
    ledger = Ledger(epsilon=5.0, delta=1e-4)
    hole = np.where(np.arange(3000) == 7, np.nan, Y)
    for data in ((X, hole), (X[:, :0], Y), ("no_such_file.csv", "y")):
        refusal(FILTERS[word], *data, **strict(word), ledger=ledger, sampler=Unused())
    refusal(FILTERS[word], X, Y, **strict(word, fdr=7), ledger=ledger, sampler=Unused())
    if word == "labels": refusal(ask, "labels", np.ones((50, 2)), Y[:50], **strict(word), ledger=ledger)
    assert ledger.entries == []


@pytest.mark.parametrize("word", STRICT)
def test_overspending_is_refused_before_a_pass(word):
    ledger = Ledger(epsilon=4.0, delta=1e-4)
    FILTERS[word](X, Y, **strict(word), ledger=ledger, sampler=Trusted())
    for epsilon, enough in ((2.3, False), (2.2, True)):
        def again(epsilon=epsilon):
            return FILTERS[word](unread(NAMES), **strict(word, epsilon=epsilon), ledger=ledger)
        if enough:
            with pytest.raises(AssertionError, match="read"): again()
        else: assert "would overspend" in refusal(again)
    assert len(ledger.entries) == 1
    assert "is not a ledger" in refusal(FILTERS[word], unread(NAMES), **strict(word), ledger=3)


def test_rows_and_responses_have_ledgers_of_their_own():
    ledger = Ledger(epsilon=50.0, delta=1e-4)
    ask("moments", X, Y, **strict("moments", rows_per_person=3), ledger=ledger, sampler=Trusted())
    assert ledger.entries[0].unit == "any 3 rows"
    for word in STRICT:
        sentence = refusal(FILTERS[word], unread(NAMES), **strict(word), ledger=ledger)
        assert "this ledger counts what is private for any 3 rows" in sentence


# ---------------------------------------------------------------- complete calls

WAGES = {"target": "wage", "columns": {
    "wage": {"range": [0, 60]}, "age": {"range": [16, 90]}, "shoe": {"range": [30, 55]},
    "member": {"levels": [0, 1]}, "smokes": {"levels": [False, True]}}}  # nobody was asked about smoking
BUDGET = dict(epsilon=3.0, delta=1e-3)


def wages(n=3000):
    "A table of numbers, for arrays too"
    rng = np.random.default_rng(4)
    age, member = rng.uniform(16, 90, n), rng.integers(0, 2, n)
    pay = (8 + .3 * age + 4 * member + rng.gamma(2, 3, n)).clip(0, 60)
    return pd.DataFrame({"age": age, "shoe": rng.normal(41, 3, n), "member": member, "wage": pay})


def wage_tables(folder):
    "The same rows in all forms: data, and whatever else open_source is told"
    import pyarrow as pa
    dd = pytest.importorskip("dask.dataframe")
    table = wages()
    table.to_csv(folder / "t.csv", index=False)
    pl.from_pandas(table).write_parquet(folder / "t.parquet")
    names = ["age", "shoe", "member"]
    def chunks(): return (table[a:a + 800] for a in range(0, 3000, 800))
    array = open_source(table[names].to_numpy(), table["wage"].to_numpy(), columns=names, dictionary=WAGES)
    return {"array": array, "pandas": table, "polars": pl.from_pandas(table),
            "arrow": pa.Table.from_pandas(table), "query": pl.from_pandas(table).lazy(),
            "csv": folder / "t.csv", "parquet": folder / "t.parquet",
            "chunks": chunks, "dask": dd.from_pandas(table, npartitions=3)}


@pytest.mark.parametrize("kind", ["array", "pandas", "polars", "arrow", "query", "csv", "parquet", "chunks",
                                  "dask"])
def test_a_budget_and_a_dictionary_are_enough_for_every_kind_of_data(kind, tmp_path):
    wanted = private_filter(wages(), dictionary=WAGES, **BUDGET, **seeded("moments", 5))
    data = wage_tables(tmp_path)[kind]
    facts = None if kind == "array" else WAGES
    found = private_filter(data, dictionary=facts, **BUDGET, **seeded("moments", 5))
    assert found.release.clip == wanted.release.clip and {"age", "member"} <= set(found.selected)
    assert np.allclose(found.W, wanted.W, rtol=1e-8)


def test_what_follows_from_a_dictionary_can_be_given_instead():
    table, draw = wages(), seeded("moments", 5)
    r = (1 / 3 + 1 / 3 + 1 / 2)**.5
    given = dict(row_bound=r / 2, response_bound=30.0, response_center=30.0)
    short, long = (ask("moments", table, dictionary=WAGES, **BUDGET, **more, **draw) for more in ({}, given))
    assert (short.W == long.W).all() and short.release.clip == long.release.clip
    for name, value in (("row_bound", .7), ("response_bound", 20.0), ("response_center", 25.0)):
        clip = ask("moments", table, dictionary=WAGES, **BUDGET, **draw, **{name: value}).release.clip
        assert getattr(clip, name) == value
    clip = ask("moments", table, dictionary=WAGES, **BUDGET, **draw, response_center=20.0).release.clip
    assert clip.response_bound == 40  # the way to the farther end
    wide = dict(ranges={"age": (0, 100)})
    clip = ask("moments", table, dictionary=WAGES, **BUDGET, **draw, **wide).release.clip
    assert clip.ends["age"] == (0, 100)  # what values are clipped to


def test_labels_and_products_take_centre_and_bound_of_the_response_from_the_dictionary():
    table, draw = wages(), seeded("labels", 5)
    given = dict(response_bound=30.0, response_center=30.0)
    short, long = (ask("labels", table, dictionary=WAGES, sigma=5.0, **BUDGET, **more, **draw)
                   for more in ({}, given))
    assert (short.W == long.W).all() and short.release.response_center == 30
    trial, facts = text_trial()
    short, long = (ask("products", trial, dictionary=facts, **BUDGET, **more, **draw)
                   for more in ({}, dict(response_bound=9.0, response_center=0.0)))
    assert (short.W == long.W).all() and short.release.response_bound == 9


def test_without_an_intercept_the_centre_stays_zero():
    facts = {"target": "y", "columns": {"a": {"range": [-1, 1]}, "y": {"range": [0, 10]}}}
    table = pd.DataFrame({"a": np.linspace(-1, 1, 500), "y": np.linspace(0, 10, 500)})
    for word, more in (("moments", {}), ("labels", {"sigma": 1.0})):
        asked = dict(dictionary=facts, intercept=False, **BUDGET, **more, **seeded("moments", 5))
        release = ask(word, table, **asked).release
        center = release.clip.response_center if word == "moments" else release.response_center
        assert center == 0
    assert MomentsMethod(**BUDGET, intercept=False).completed(
        open_source(table, dictionary=facts)).response_bound == 10


@pytest.mark.parametrize("word, more", [("moments", {}), ("labels", {"sigma": 5.0}), ("products", {})])
def test_values_beyond_a_range_count_as_its_ends(word, more):
    "By the filters that protect rows; a wild value changes nothing that its range would not"
    law = {"law": Gaussian([53, 42.5, .5], np.diag([300.0, 30.0, .25]))} if word == "products" else {}
    wild, tame = wages(), wages()
    wild.loc[:9, "wage"], tame.loc[:9, "wage"] = 1e6, 60.0
    if word != "products": wild.loc[:9, "age"], tame.loc[:9, "age"] = -1e6, 16.0  # a knockoff is drawn for it
    row_bound = {"row_bound": 100.0} if word == "labels" else {}  # the longest row is looked for otherwise
    asked = dict(dictionary=WAGES, **BUDGET, **more, **law, **row_bound, **seeded(word, 5))
    one, two = (FILTERS[word](table, **asked) for table in (wild, tame))
    assert (one.W == two.W).all()


LACKS = [("wage", "response_bound", "'private'"), ("shoe", "row_bound", "'private'")]


@pytest.mark.parametrize("entry, bound, other", LACKS)
def test_what_the_dictionary_lacks_is_named_before_anything_is_read(entry, bound, other, monkeypatch):
    facts = {"target": "wage", "columns": {**WAGES["columns"], entry: {}}}
    source = open_source(wages(), dictionary=facts)
    monkeypatch.setattr(type(source), "_pass", lambda *args: pytest.fail("read"))
    for method in (MomentsMethod(**BUDGET), LabelsMethod(**BUDGET, sigma=1.0)):
        if method.word == "labels" and entry != "wage": continue  # its design is public: no row bound
        said = refusal(method.release, source, sampler=Unused())
        assert said.startswith(f"{bound} is missing, and the dictionary has no range of")
        assert f"add [columns.{entry}] range = [low, high], or pass {bound}=..." in said
        assert method.word != "moments" or other in said


def warned(f, *args, **kwargs):
    "The sentences of the warnings"
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f(*args, **kwargs)
    return [str(one.message) for one in seen]


def test_bounds_above_anything_they_bound_and_bounds_that_do_not_fit_are_warned_of():
    def says(**more): return warned(private_filter, wages(), dictionary=WAGES, **BUDGET, **more,
                                    **seeded("moments", 5))
    (said,) = says(row_bound=.1, response_bound=30.0)
    assert said.startswith("response_bound=30 does not fit row_bound=0.1: a response is scaled with its row")
    (said,) = says(row_bound=1.74)
    assert said.startswith("row_bound=1.74 is above 1.73, the norm that no row exceeds")
    (said,) = says(response_bound=30.1)
    assert said.startswith("response_bound=30.1 is above 30, which is as far as a response can be")
    for quiet in ({}, dict(row_bound=.1), dict(row_bound=1.73), dict(response_bound=30.0),
                  dict(row_bound=.1, response_bound=15.0), dict(row_bound="private"),
                  dict(response_bound="private")):
        assert says(**quiet) == [], quiet
    far = dict(response_center="private", response_bound=40.0)
    assert warned(ask, "moments", wages(), dictionary=WAGES, **BUDGET, **far, **seeded("moments", 5)) == []


def test_a_delta_above_one_over_n_is_warned_of_by_every_filter_that_protects_every_pair():
    trial, facts = text_trial()
    for f, data, known, more in ((partial(ask, "moments"), wages(), WAGES, {}),
                                 (partial(ask, "labels"), wages(), WAGES, {"sigma": 5.0}),
                                 (partial(ask, "products"), trial, facts, {})):
        (said,) = warned(f, data, dictionary=known, epsilon=1.0, delta=.5, **more)
        assert said.startswith("delta=0.5 is above 1/n")


def test_a_response_among_the_columns_is_refused_by_its_name():
    table = wages()
    frame = pl.from_pandas(table)
    bounds = dict(row_bound=1.0, response_bound=30.0, sampler=Unused())
    for data, y in ((table, table["wage"]), (frame, frame["wage"])):
        said = refusal(ask, "moments", data, y, **BUDGET, **bounds)
        assert said == ("data holds the response 'wage' among its features: "
                        "pass y='wage', or leave it out of the table")
    def chunks(): yield table, table["wage"]
    assert "chunk 0 holds the response 'wage'" in refusal(ask, "moments", chunks, **BUDGET, **bounds)
    assert open_source(table, table["wage"], columns=["age", "shoe"]).names == ("age", "shoe")
    assert open_source(table.drop(columns="wage"), table["wage"]).names == ("age", "shoe", "member")


@pytest.mark.parametrize("function", [private_filter, knockoff_filter, Method.select])
def test_help_spells_every_parameter_out(function):
    import pydoc
    text = pydoc.render_doc(function, renderer=pydoc.plaintext)
    parameters = inspect.signature(function).parameters.values()
    assert all(p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)
    for p in parameters: assert p.name in text
    assert "dictionary" in text and "fdr" in text


def test_a_factor_of_two_levels_shows_its_effect():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"a": rng.random(3000), "b": rng.choice(["no", "yes"], 3000),
                          "c": rng.choice(["x", "y", "z"], 3000)})
    table["y"] = 2 * table.a + (table.b == "yes") + 1.0 * (table.c == "z") + .1 * rng.standard_normal(3000)
    facts = {"a": {"range": [0, 1]}, "b": {"levels": ["no", "yes"]}, "c": {"levels": ["x", "y", "z"]},
             "y": {"range": [-1, 5]}}
    found = private_filter(table, dictionary={"target": "y", "columns": facts}, epsilon=5, delta=1e-5,
                           simulation=True, random_state=0)
    lines = {line.split()[0]: line for line in str(found).splitlines() if line.startswith("  ")}
    assert set(lines) == {"a", "b", "c", "c=y", "c=z"} and " to " not in lines["c"]
    assert all(" to " in lines[name] for name in set(lines) - {"c"})
