"Private responses, public design: the covariance is exact, and responses show in the products only."
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from dp_knockoff.core.testing import assert_rate_at_most, fires, refusal
from dp_knockoff.data.clip import BITS
from dp_knockoff.data.models import linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.data.source import open_source
from dp_knockoff.filters.labels_method import LabelsMethod
from dp_knockoff.filters.methods import ask
from dp_knockoff.knockoffs.threshold import error_rates
from dp_knockoff.privacy.mechanisms import Budget, analytic_ratio
from dp_knockoff.selection.release import select
from watched import Recorder, Silent, Trusted, Unused, far_apart, unread

PUBLIC = dict(epsilon=1.0, delta=1e-2, response_bound=3.0, sigma=1.5)
X, Y, BETA = linear_model(200, p=4, k=2, amplitude=1.0, random_state=0)


def test_label_privacy_formula():
    sampler = Recorder()
    found = ask("labels", X, Y, **PUBLIC, row_bound=1.5, response_center=.5, sampler=sampler)
    Z = np.column_stack([X, np.ones(200)])
    w = np.minimum(1, np.sqrt(1.5**2 + 1) / np.linalg.norm(Z, axis=1))
    Zw = Z * w[:, None]
    (purpose, value, scale), = sampler.draws
    step = np.sqrt(1.5**2 + 1) * 3.0 / 4**BITS
    assert purpose == "products" and np.allclose(value * step, Zw.T @ np.clip((Y - .5) * w, -3, 3), rtol=1e-4)
    longest = np.linalg.norm(Zw, axis=1).max()
    scale = scale[0] * step
    assert np.isclose(scale, 2 * 3.0 * longest / analytic_ratio(Budget(1.0, 1e-2)), rtol=1e-4)
    S = np.linalg.inv(Zw.T @ Zw)
    noise = (Zw * w[:, None]).T @ (Zw * w[:, None])
    assert np.allclose(found.estimate.V, S @ (1.5**2 * noise + scale**2 * np.eye(5)) @ S, rtol=1e-3)
    assert found.release.simulated and "finite samples" in str(found.guarantee)
    assert np.isclose(found.noise["products"], scale, rtol=1e-12) and found.method == "labels"


def test_the_column_of_ones_holds_ones_whatever_the_row_bound():
    "Its coefficient is the intercept, and rows are not longer than with a 1"
    for row_bound in (1.5, 30.0, 300.0):  # a third of it would be 10, and 100
        sampler = Recorder()
        method = LabelsMethod(**{**PUBLIC, "response_bound": 40.0}, row_bound=row_bound)
        method.release(X, Y + 20, sampler=sampler)
        (_, value, scale), = sampler.draws
        Z = np.column_stack([X, np.ones(200)])
        w = np.minimum(1, np.hypot(row_bound, 1) / np.linalg.norm(Z, axis=1))
        step = np.hypot(row_bound, 1) * 40.0 / 4**BITS
        assert np.isclose(value[-1] * step, (w**2 * (Y + 20)).sum(), rtol=1e-3)
        longest = (w * np.linalg.norm(Z, axis=1)).max()
        wanted = 2 * 40.0 * longest / analytic_ratio(Budget(1.0, 1e-2))
        assert np.isclose(scale[-1] * step, wanted, rtol=1e-3)
        quiet = method.release(X, Y + 20, sampler=Silent())
        exact = np.linalg.lstsq(Z * w[:, None], w * (Y + 20), rcond=None)[0]
        assert np.allclose(quiet.estimates().estimate, exact, atol=5e-3) and abs(exact[-1] - 20) < .2


SETTINGS = [dict(row_bound=.7), dict(row_bound=.7, epsilon=.3), dict(row_bound=.7, intercept=False),
            dict(epsilon=.3)]


@pytest.mark.parametrize("options", SETTINGS, ids=str)
def test_the_covariance_is_that_of_the_estimates(options):
    "Fresh responses, fresh noise, rows scaled or not: whitened by V, errors vary by 1 in every direction"
    rng = np.random.default_rng(0)
    heavy = X * rng.choice([.2, 1, 5], (200, 1))  # weights far from 1 and from each other
    method = LabelsMethod(**{**PUBLIC, "epsilon": 50.0, "response_bound": 60.0, "sigma": 3.0, **options})
    truth = np.append(BETA, 1.0) if method.intercept else BETA
    def release():
        y = heavy @ BETA + method.intercept + 3.0 * rng.standard_normal(200)
        return method.release(heavy, y, simulation=True, random_state=rng)
    releases = [release() for _ in range(600)]
    root = np.linalg.inv(np.linalg.cholesky(releases[0].V))
    errors = np.array([r.beta - truth for r in releases]) @ root.T
    lam = np.linalg.eigvalsh(np.cov(errors.T))
    assert .75 < lam[0] and lam[-1] < 1.3 and np.abs(errors.mean(0)).max() < .2


def test_blocks_and_chunks_add_up():
    method = LabelsMethod(**PUBLIC, row_bound=1.5)
    def chunks(): yield from ((X[a:a + 70], Y[a:a + 70]) for a in range(0, 200, 70))
    whole, parts = (method.release(*data, simulation=True, random_state=0) for data in ((X, Y), (chunks,)))
    assert np.allclose(whole.V, parts.V) and np.allclose(whole.beta, parts.beta) and whole.n == parts.n


def test_the_error_rate_is_kept_in_small_samples():
    "Forty rows of which half are scaled to almost nothing: the signs of nulls are fair, and FDR holds"
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 6)) * rng.choice([.3, 6], (40, 1))
    beta = np.array([2.0, -2, 2, 0, 0, 0])
    fdp, signs = [], []
    for _ in range(400):
        y = Z @ beta + rng.standard_normal(40)
        found = ask("labels", Z, y, epsilon=20.0, delta=.1, response_bound=30.0, sigma=1.0, row_bound=1.0,
                              intercept=False, fdr=.4, rule="knockoffs", simulation=True, random_state=rng)
        fdp.append(error_rates(found.support, beta)[0])
        signs.append(found.W[3:][found.W[3:] != 0] > 0)
    assert_rate_at_most(fdp, .4, alpha=1e-3)
    nulls = np.concatenate(signs)
    assert len(nulls) > 150 and abs(nulls.mean() - .5) < 4 * .5 / np.sqrt(len(nulls))


def test_label_sensitivity_is_reached():
    "Flipping the response of the longest row moves the products by it; no other change moves more"
    X, y, _ = linear_model(50, p=3, k=1, random_state=0)
    longest = float(np.linalg.norm(X, axis=1).max())
    def products(y):
        sampler = Recorder()
        public = dict(epsilon=1.0, delta=1e-2, response_bound=2.0, sigma=1.0, intercept=False)
        ask("labels", X, y, **public, row_bound=longest, sampler=sampler)
        return sampler.draws[0][1], sampler.draws[0][2][0]
    def moved(i):
        a, b = (products(np.where(np.arange(50) == i, value, y)) for value in (1e9, -1e9))
        assert a[1] == b[1]
        return np.linalg.norm(a[0] - b[0]) / a[1]
    most = moved(np.argmax(np.linalg.norm(X, axis=1)))
    assert np.isclose(most, analytic_ratio(Budget(1.0, 1e-2)))
    for i in range(0, 50, 7): assert moved(i) <= most * (1 + 1e-12)


def test_label_privacy_does_not_look_at_the_responses():
    "Constant or huge responses get an answer like any others: a refusal would tell neighbours apart"
    X, y, _ = linear_model(60, p=3, k=1, random_state=0)
    def release(y): return LabelsMethod(**PUBLIC).release(X, y, simulation=True, random_state=0)
    usual = release(y)
    for y in (np.zeros(60), np.eye(60)[0], 1e300 * np.eye(60)[0], X @ np.ones(3)):
        other = release(y)
        assert np.isfinite(select(other).W).all()
        assert other.product_sd == usual.product_sd and (other.V == usual.V).all()


def test_without_noise_and_bounds_labels_are_least_squares():
    method = LabelsMethod(**{**PUBLIC, "response_bound": 20.0}, row_bound=5.0)
    r = method.release(X, Y, sampler=Silent())
    exact = np.linalg.lstsq(np.column_stack([X, np.ones(200)]), Y, rcond=None)[0]
    assert np.allclose(r.beta, exact, atol=1e-5) and r.names == ("x0", "x1", "x2", "x3") and r.n == 200


def test_a_release_says_what_was_spent():
    found = ask("labels", X, Y, **{**PUBLIC, "delta": 1e-3}, intercept=False, sampler=Trusted())
    text = repr(found)
    assert "Spent (epsilon=1, delta=0.001); noise scale: products" in text and "counts as private" in text
    assert "if y = X b with independent normal noise of standard deviation 1.5" in text
    released = str(found.release.guarantee)
    assert "differ in one response" in released and "FDR" not in released
    assert "public and not protected" in str(found.guarantee) and "FDR <= 0.2 by" in str(found.guarantee)
    kinds = [select(found.release, rule=rule).guarantee.control.kind for rule in (None, "dbh", "knockoffs")]
    assert kinds == ["measured", "exact", "exact"] and "in finite samples" in str(found.guarantee)
    assert "if y = a + X b" in repr(ask("labels", X, Y, **PUBLIC, simulation=True, random_state=0))


def test_benjamini_hochberg_on_labels():
    found = ask("labels", X, Y, **{**PUBLIC, "epsilon": 50.0}, rule="bh", simulation=True, random_state=0)
    assert np.allclose(found.W, np.abs(found.estimate.beta / np.sqrt(np.diag(found.estimate.V)))[:4])


EXACT = {**PUBLIC, "epsilon": 50.0, "response_bound": 9.0}


@pytest.mark.parametrize("rule", ["knockoffs", "bh", "dbh", "by", "ebh"])
def test_labels_can_be_asked_by_every_rule(rule):
    found = ask("labels", X, Y, **EXACT, rule=rule, fdr=.4, simulation=True, random_state=0)
    again = select(found.release, rule=rule, fdr=.4)
    assert found.rule.name == rule and repr(found) == repr(again)
    assert "in finite samples" in str(found.guarantee)
    assert ask("labels", X, Y, **EXACT, simulation=True, random_state=0).rule.name == "bh"


def test_groups_are_refused_by_the_dependence_adjusted_rule_before_anything_is_read():
    sentence = refusal(ask, "labels", unread("abcd"), **{**PUBLIC, "sampler": Unused()}, rule="dbh",
                       groups={"g": ["a", "b"]})
    assert "several columns are one variable" in sentence


def dbh_proportions(given, signal, trials=400):
    "False discoveries of correlated columns, for a noise level of 1.5 and one that is given"
    rng = np.random.default_rng(5)
    A = rng.standard_normal((300, 6)) + 1.5 * rng.standard_normal((300, 1))
    method = LabelsMethod(**EXACT | {"response_bound": 8.0, "sigma": given})
    beta = np.array([signal, 0, 0, 0, 0, 0])
    def support():
        y = A @ beta + 1.5 * rng.standard_normal(300)
        return select(method.release(A, y, simulation=True, random_state=rng), rule="dbh").support
    return error_rates(np.array([support() for _ in range(trials)]), beta)[0]


def test_the_dependence_adjusted_rule_is_exact_on_labels():
    assert_rate_at_most(dbh_proportions(1.5, .4), .2 * 5 / 6)
    assert_rate_at_most(dbh_proportions(1.5, 0.0), .2)
    assert fires(assert_rate_at_most, dbh_proportions(.3, 0.0), .2)


def test_the_intercept_is_in_the_units_of_the_response():
    for center in (0.0, 40.0):
        method = LabelsMethod(**EXACT, response_center=center)
        release = method.release(X, Y + center, simulation=True, random_state=0)
        table = release.estimates()
        assert release.response_center == center and table.names[-1] == "(intercept)"
        assert np.allclose(table.estimate[:-1], release.beta[:-1])
        assert np.isclose(table.estimate[-1], release.beta[-1] + center)
        assert np.allclose(table.se, np.sqrt(np.diag(release.V)))
    bare = LabelsMethod(**EXACT, intercept=False).release(X, Y, simulation=True, random_state=0)
    assert bare.estimates().names == ("x0", "x1", "x2", "x3")


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(3)
    method = LabelsMethod(**EXACT | {"response_bound": 12.0}, response_center=7.0)
    truth = np.append(BETA, 7.5)
    def missed(simultaneous):
        y = X @ BETA + 7.5 + 1.5 * rng.standard_normal(200)
        table = method.release(X, y, simulation=True, random_state=rng).estimates(.9, simultaneous)
        return (truth < table.low) | (truth > table.high)
    alone = np.array([missed(False) for _ in range(400)])
    assert .06 < assert_rate_at_most(alone.mean(1), .1) and fires(assert_rate_at_most, alone.any(1), .1)
    assert_rate_at_most([missed(True).any() for _ in range(400)], .1)


# ---------------------------------------------------------------- refusals

BAD = [dict(epsilon=0), dict(epsilon=None), dict(delta=0), dict(sigma=None), dict(sigma=0),
       dict(sigma="estimate"), dict(response_bound=-1), dict(response_bound="private"),
       dict(row_bound=-1), dict(row_bound="private"), dict(response_center=np.nan), dict(intercept="yes"),
       dict(response_center="private"),
       dict(response_center=1.0, intercept=False)]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_the_method_refuses_without_data(bad):
    sentence = refusal(LabelsMethod, **{**PUBLIC, **bad})
    assert "\n" not in sentence and next(iter(bad)) in sentence


def test_without_a_dictionary_the_response_bound_must_be_given():
    asked = {**PUBLIC, "response_bound": None, "sampler": Unused()}
    said = refusal(ask, "labels", unread("abcd"), **asked)
    assert said.startswith("response_bound is missing: pass a public number")


QUESTIONS = [dict(fdr=2), dict(s=[1.0] * 4), dict(s="best"), dict(statistic=3), dict(offset=2),
             dict(rule="bh", offset=0), dict(sampler=3)]


@pytest.mark.parametrize("bad", QUESTIONS, ids=str)
def test_refused_before_anything_is_drawn_or_read(bad):
    refusal(ask, "labels", unread("abcd"), **{**PUBLIC, "sampler": Unused(), **bad})


@pytest.mark.parametrize("bad", [-1, 1.5, "a"])
def test_bad_seeds_are_refused_before_anything_is_read(bad):
    assert "random_state" in refusal(ask, "labels", unread("ab"), **PUBLIC, simulation=True, random_state=bad)


@pytest.mark.parametrize("design, words", [
    (np.column_stack([X, X[:, 0]]), "collinear"), (np.column_stack([X, np.ones(200)]), "constant"),
    (X[:4], "n=4 rows"),
], ids=["collinear", "constant", "few rows"])
def test_designs_that_determine_no_coefficients_are_refused_before_anything_is_drawn(design, words):
    y = Y[:len(design)]
    assert words in refusal(ask, "labels", design, y, **PUBLIC, sampler=Unused())


def test_sums_of_rows_are_not_enough():
    sentence = refusal(ask, "labels", Moments.from_data(X, Y), **PUBLIC, sampler=Unused())
    assert "summed already" in sentence


def test_a_range_of_one_row_is_clipped_by_itself():
    "A row of huge numbers gets a weight of its own, and its response with it"
    wild = X.copy()
    wild[5] = 1e200
    r = LabelsMethod(**PUBLIC, row_bound=2.0).release(wild, Y, simulation=True, random_state=0)
    assert np.isfinite(r.V).all() and np.isfinite(r.beta).all()


# ---------------------------------------------------------------- any k responses together, exactly

@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("options", [dict(), dict(row_bound=1.5), dict(intercept=False)], ids=str)
def test_no_k_responses_are_farther_apart_than_the_budget_allows(k, options):
    "In whole numbers: flipping the responses of k equal longest rows spends the budget, nothing more"
    rng = np.random.default_rng(0)
    method = LabelsMethod(**PUBLIC, **options, rows_per_person=k)
    design = X.copy()
    design[:k] = 1.01 * X[np.argmax(np.linalg.norm(X, axis=1))]
    def run(X, y, sampler): return method.release(X, y, sampler=sampler)
    def far(one, two):
        ys = [np.append(t, Y[k:]) for t in (one, two)]
        return far_apart(run, (design, ys[0]), (design, ys[1]))
    allowed = Fraction(analytic_ratio(Budget(1.0, 1e-2)))**2
    worst = far(np.full(k, 1e300), np.full(k, -1e300))
    assert .9999 * allowed < worst <= allowed * (1 + Fraction(1, 10**15))  # the rounding of the scale
    wild = [0.0, 1e-300, 2.9, -3.1, 1e9, -1e155, 1.7e308]
    assert max(far(*rng.choice(wild, (2, k))) for _ in range(30)) <= worst


def test_the_promise_names_the_responses_that_are_protected():
    one, three = (LabelsMethod(**PUBLIC, rows_per_person=k).release(X, Y, simulation=True) for k in (1, 3))
    assert "differ in one response" in str(one.privacy.lines())
    assert "differ in any 3 responses" in str(three.privacy.lines())
    assert np.isclose(three.product_sd, 3 * one.product_sd, rtol=1e-12)


def test_selecting_again_gives_the_same_answer():
    release = LabelsMethod(**PUBLIC).release(X, Y, simulation=True)
    one, two = (select(release, fdr=.5) for _ in range(2))
    assert (one.W == two.W).all() and repr(one) == repr(two)


def test_knockoffs_do_not_depend_on_how_the_rows_were_cut():
    da = pytest.importorskip("dask.array")
    X, y, _ = linear_model(3000, p=4, k=2, random_state=0)
    parts = da.from_array(X, chunks=(900, 4)), da.from_array(y, chunks=900)
    method = LabelsMethod(**PUBLIC, row_bound=1.5)
    one, two = (method.release(*data, simulation=True, random_state=0) for data in ((X, y), parts))
    assert np.allclose(one.V, two.V, rtol=1e-12) and one.seed == two.seed


# ---------------------------------------------------------------- findings

def findings(X, y, **options):
    given = dict(PUBLIC, epsilon=20.0, sigma=1.0) | options
    r = LabelsMethod(**given).release(X, y, simulation=True, random_state=0)
    return r, {finding.subject: (finding.gain, finding) for finding in r.findings()}


def test_what_a_public_design_tells_is_told():
    X, y, _ = linear_model(2000, p=4, k=2, amplitude=1.0, random_state=0)
    calm, nothing = findings(X, y)
    assert nothing == {} and calm.collinear() == [] and "clamped" in calm.unknown[0]
    for design, subject, names in ((X * [1, 1e3, 1, 1], "units of the columns", "'x0', 'x2', 'x3'"),
                                   (X + [0, 0, 20, 0], "means of the columns", "'x2'")):
        _, found = findings(design, y)
        assert list(found) == [subject] and found[subject][1].found.startswith(names + ": ")
        assert "the design is public" in found[subject][1].change
    close = X.copy()
    close[:, 3] = -close[:, 0] + .1 * close[:, 3]
    assert [pair[:2] for pair in findings(close + 5, y)[0].collinear()] == [("x0", "x3")]
    assert findings(close, y, intercept=False)[0].collinear()[0][2] < -.98


def test_a_response_bound_is_compared_with_what_the_model_explains():
    X, y, _ = linear_model(2000, p=4, k=2, amplitude=1.0, random_state=0)
    size = np.sqrt(np.mean(y**2))
    r, found = findings(X, y, response_bound=12 * size, row_bound=9.0)
    assert "response bound" in found and "response bound" not in findings(X, y, response_bound=5 * size)[1]
    assert size < r._response_size() < 1.5 * size


def test_the_share_of_the_noise_of_privacy_is_exact():
    r, _ = findings(X, Y)
    S = np.linalg.inv(r.gram)
    assert np.isclose(r.noise_share(), np.median((r.product_sd**2 * np.diag(S @ S) / np.diag(r.V))[:4]))
    little, much = (findings(X, Y, epsilon=epsilon)[0].noise_share() for epsilon in (400.0, .01))
    assert little < .01 and much > .99


def test_noise_is_not_taken_for_a_large_response():
    "What noise alone adds to the squared fit, on average, is subtracted"
    r, _ = findings(X, Y, epsilon=.05)
    N = r.gram @ r.V
    left = max(-np.trace(N) + 2 * np.sqrt(2 * np.trace(N @ N)), 0.0)
    assert np.isclose(replace(r, beta=0 * r.beta)._response_size()**2, left / r.n + 1.0)


@pytest.mark.parametrize("wild", [1e30, 1e308])
def test_the_usual_row_is_looked_for_within_the_dictionarys_ranges(wild):
    "One value far outside made the bound so long that the column of ones vanished, or the norm overflow"
    columns = {f"x{j}": {"range": [-2, 2]} for j in range(4)}
    facts = {"target": "y", "columns": columns | {"y": {"range": [-9, 9]}}}
    def release(first):
        A = X.copy()
        A[0, 0] = first
        source = open_source(A, Y, columns=list(columns), dictionary=facts)
        return LabelsMethod(epsilon=1.0, delta=1e-2, sigma=1.5).release(source, sampler=Silent())
    far, at_the_end = release(wild), release(2.0)
    assert np.array_equal(far.products, at_the_end.products) and far.product_sd == at_the_end.product_sd
    assert far.product_sd < 2 * 9 * np.sqrt(4 * 2.0**2 + 1) / analytic_ratio(Budget(1.0, 1e-2))


def test_the_usual_norm_is_the_row_bound_whatever_the_order_of_rows():
    method, order = LabelsMethod(**PUBLIC), np.random.default_rng(0).permutation(200)
    there, back = (method.release(X[rows], Y[rows], sampler=Silent()) for rows in (slice(None), order))
    assert np.array_equal(there.products, back.products) and there.product_sd == back.product_sd
    usual = float(f"{np.sqrt((X**2).sum(1).mean()):.2g}")
    given = LabelsMethod(**PUBLIC, row_bound=usual).release(X, Y, sampler=Silent())
    assert np.array_equal(given.products, there.products)
