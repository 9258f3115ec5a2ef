"The plain filter: what it finds, what it guarantees, what it refuses."
import numpy as np
import pytest

from dp_knockoff.clip import Clip
from dp_knockoff.filter import ExactRelease, NonPrivate, knockoff_filter
from dp_knockoff.knockoffs import knockoffs_of
from dp_knockoff.models import linear_model
from dp_knockoff.moments import Moments
from dp_knockoff.selection import select
from dp_knockoff.statistics import ESTIMATES, PENALISED, Statistic, csm, lcd
from dp_knockoff.testing import assert_rate_at_most, refusal
from dp_knockoff.threshold import error_rates

STATISTICS = [Statistic(e, c, .4 if e in PENALISED else None) for e in ESTIMATES for c in ("csm", "lcd")]


@pytest.fixture(scope="module")
def data(): return linear_model(100, p=5, k=2, random_state=0)


@pytest.mark.parametrize("s", ["lam_min", "equi", "sdp", "mvr"])
@pytest.mark.parametrize("f", STATISTICS, ids=str)
def test_strong_signals_are_found_by_every_combination(s, f):
    X, y, beta = linear_model(400, p=12, k=6, amplitude=2, rho=.3, random_state=1)
    m = Moments.from_data(X, y)
    singular = np.linalg.eigvalsh(knockoffs_of(m, s).G)[0] < 1e-10
    if singular and f.estimate == "ols":
        assert "singular" in refusal(knockoff_filter, m, s=s, statistic=f)
        return
    chosen = knockoff_filter(m, s=s, statistic=f, random_state=0)
    if (s, f.estimate) == ("sdp", "ols"): return  # valid, but so close to singular least squares has no power
    assert set(np.flatnonzero(beta)) <= set(np.flatnonzero(chosen.support))
    assert (chosen.signs[beta > 0] == 1).all()


def test_fdr_with_appended_rows():
    "n = 1.4 p with known sigma: 400 datasets, all null but ten strong signals"
    fdp, statistic = [], Statistic("lasso", "lcd", 2.0)
    for seed in range(400):
        X, y, beta = linear_model(28, p=20, k=10, amplitude=6, random_state=seed)
        chosen = knockoff_filter(X, y, intercept=False, sigma=1.0, random_state=seed, statistic=statistic)
        fdp.append(error_rates(chosen.support, beta)[0])
        assert "Approximate" not in chosen.guarantee
    assert_rate_at_most(fdp, .2)


def test_the_guarantee_says_what_was_done(data):
    X, y, _ = data
    plain = knockoff_filter(X, y).guarantee
    assert "a + X b" in plain and "a + X b" not in knockoff_filter(X, y, intercept=False).guarantee
    assert "modified" in knockoff_filter(X, y, offset=0).guarantee
    assert "Not private" in plain and "standard deviation" not in plain
    assert "Approximate" in knockoff_filter(X[:8], y[:8], sigma="estimate").guarantee
    assert "standard deviation is 2" in knockoff_filter(X[:8], y[:8], sigma=2).guarantee


def test_a_release_is_exact_and_can_be_selected_from_again(data):
    X, y, _ = data
    release = NonPrivate().release(X, y, random_state=3)
    k = knockoffs_of(Moments.from_data(X, y))
    assert isinstance(release, ExactRelease) and release.n == 100 and release.method == "none"
    assert (release.pair()[0] == k.G).all() and (release.pair()[1] == k.products(3)).all()
    assert release.budget is None and release.estimate() is None and (release.s == k.s).all()
    for statistic in STATISTICS:
        again = knockoff_filter(X, y, statistic=statistic, fdr=.5, random_state=3)
        assert (select(release, statistic=statistic, fdr=.5).W == again.W).all()


def test_an_own_statistic_gets_the_gram_matrix_and_the_products_only(data):
    X, y, _ = data
    seen = []
    def own(*args):
        seen.append([np.shape(a) for a in args])
        return lcd(args[1])
    knockoff_filter(X, y, statistic=own, random_state=0)
    assert all(shapes == [(10, 10), (10,)] for shapes in seen)


def test_random_state_decides_the_knockoffs_and_nothing_else(data):
    X, y, _ = data
    a, b, c = (knockoff_filter(X, y, random_state=seed).W for seed in (0, 0, 1))
    assert (a == b).all() and not np.allclose(a, c)


BAD = [dict(fdr=0), dict(fdr=1), dict(fdr=-.1), dict(fdr="a"), dict(fdr=np.nan), dict(offset=.5),
       dict(offset=True), dict(s=1), dict(s="best"), dict(random_state=1.5), dict(statistic=3),
       dict(intercept="yes"), dict(sigma=1.0)]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_bad_arguments(data, bad):
    X, y, _ = data
    sentence = refusal(knockoff_filter, X, y, **bad)
    assert next(iter(bad)) in sentence and "\n" not in sentence


def test_without_an_intercept_the_origin_matters(data):
    X, y, _ = data
    def W(X, y, intercept): return knockoff_filter(X, y, intercept=intercept, random_state=0).W
    assert not np.allclose(W(X + 5, y + 9, False), W(X, y, False), rtol=.01)
    assert np.allclose(W(X + 5, y + 9, True), W(X, y, True))


def test_without_an_intercept_2p_rows_are_enough():
    X, y, _ = linear_model(20, p=10, k=2, random_state=0)
    assert len(knockoff_filter(X, y, intercept=False, random_state=0).W) == 10
    assert "knockoffs need n >= 2p + 1 = 21" in refusal(knockoff_filter, X, y, intercept=True)


def test_a_statistic_that_fails_on_the_real_data_only_is_refused(data):
    "The matrices made up to check a statistic do not have a unit diagonal"
    def f(A, b): return csm(b) * (np.nan if A[0, 0] == 1 else 1.0)
    X, y, _ = data
    assert "not finite" in refusal(knockoff_filter, X, y, statistic=f, random_state=0)


def test_appended_noise_follows_the_seed():
    X, y, _ = linear_model(30, p=20, k=5, random_state=0)
    a, b, c = (knockoff_filter(X, y, sigma=1.0, random_state=seed).W for seed in (3, 3, 4))
    assert (a == b).all() and (a != c).any()


def test_clipped_moments_are_for_another_filter(data):
    X, y, _ = data
    assert "in bounds" in refusal(knockoff_filter, Moments.from_data(X, y, clip=Clip(2.0, 5.0)))
