"Agreement with other people's software, where the mathematics says that it must agree."
import numpy as np
import pytest
from statsmodels.stats._knockoff import RegressionFDR, _design_knockoff_equi
from statsmodels.stats.knockoff_regeffects import OLSEffects

from dp_knockoff.core.testing import assert_same_law
from dp_knockoff.data.models import ar1, linear_model
from dp_knockoff.data.moments import Moments
from dp_knockoff.knockoffs.fixed_x import choose_s, gram, knockoff_root, knockoffs_of
from dp_knockoff.knockoffs.statistics import Statistic, lcd, ols
from dp_knockoff.knockoffs.threshold import knockoff_threshold


def statsmodels_run(seed, n=90, p=6):
    X, y, _ = linear_model(n, p, k=3, amplitude=.4, rho=.3, random_state=seed)
    X, y = X - X.mean(0), y - y.mean()  # it centres y but not X
    return X, y, RegressionFDR(y, X, OLSEffects(), rng=np.random.default_rng(seed))


def test_statsmodels_gram_matrix_and_statistic():
    for seed in range(20):
        _, y, other = statsmodels_run(seed)
        Sigma = other.exog1.T @ other.exog1
        assert np.allclose(other.exog.T @ other.exog, gram(Sigma, choose_s(Sigma, "equi")), atol=1e-7)
        singular = np.linalg.eigvalsh(gram(Sigma, choose_s(Sigma, "equi")))[0] < 1e-8
        if singular: continue  # least squares is not unique there
        assert np.allclose(lcd(ols(other.exog.T @ other.exog, other.exog.T @ y)), other.stats, atol=1e-8)


def test_statsmodels_thresholds():
    finite = 0
    for seed in range(40):
        other = statsmodels_run(seed, p=20)[2]
        for q in (.1, .2, .5):
            qualifies = other.stats[(other.fdrp <= q) & (other.stats > 0)]
            T = knockoff_threshold(other.stats, q)
            assert ((other.stats >= T) == (other.stats >= qualifies.min(initial=np.inf))).all()
            finite += np.isfinite(T)
    assert finite > 15


def test_statsmodels_knockoffs_have_the_law_of_ours():
    """Many of its explicit knockoffs of one dataset against moment draws of the same.

    Its basis U spans a Haar-random space, but its columns carry the signs that QR happens to give them and
    are not Haar themselves. So what can be compared is the length of U'y, recovered from the products of its
    knockoffs.
    """
    X, y, _ = linear_model(14, 3, k=1, amplitude=1, random_state=5)
    k = knockoffs_of(Moments.from_data(X, y), "equi", intercept=False)
    rng = np.random.default_rng(0)
    theirs = np.array([_design_knockoff_equi(X, rng)[1].T @ y for _ in range(12_000)])
    ours = k.products(1, (40_000,))[:, 3:]
    m = k.moments
    root = knockoff_root(m.Sigma, k.s)
    assert np.linalg.cond(root) < 1e3
    def length(c): return np.linalg.norm((c - (m.Xty - k.s * m.beta)) @ np.linalg.inv(root), axis=1)
    assert_same_law(length(theirs), length(ours))


knockpy_missing = "knockpy comes with the 'oracles' extra"


@pytest.mark.parametrize("rho", [0., .3, .6])
def test_knockpy_s(rho):
    smatrix = pytest.importorskip("knockpy.smatrix", reason=knockpy_missing)
    Sigma = ar1(8, rho)
    def theirs(method, **more): return np.diag(smatrix.compute_smatrix(Sigma, method=method, **more))
    def inverse_trace(s): return np.trace(np.linalg.inv(gram(Sigma, s)))
    assert np.allclose(choose_s(Sigma, "equi"), theirs("equicorrelated"), rtol=1e-3)
    best = inverse_trace(choose_s(Sigma, "mvr"))  # the exact minimum
    assert best <= inverse_trace(theirs("mvr")) * (1 + 1e-9)
    assert np.allclose(choose_s(Sigma, "mvr"), theirs("mvr"), rtol=.02)
    gain = choose_s(Sigma, "sdp").sum() / theirs("sdp", dsdp_warning=False).sum() - 1
    assert -1e-3 < gain < .02  # ours is within 1e-3 of the best, theirs a little lower


def test_knockpy_thresholds():
    stats = pytest.importorskip("knockpy.knockoff_stats", reason=knockpy_missing)
    W = np.random.default_rng(0).normal(.8, 1, (500, 40))
    for q in (.1, .2):
        for offset in (0, 1):
            theirs = stats.data_dependent_threshhold(W.T, fdr=q, offset=offset)
            assert (knockoff_threshold(W, q, offset) == theirs).all()


def test_knockpy_fixed_x_gram_matrix_and_statistic():
    sampler = pytest.importorskip("knockpy.knockoffs", reason=knockpy_missing).FXSampler
    X, y, _ = linear_model(120, 5, k=2, amplitude=.5, rho=.4, random_state=0)
    X /= np.linalg.norm(X, axis=0)
    S = np.diag(choose_s(X.T @ X, "mvr"))
    Z = np.column_stack([X, sampler(X, S=S).sample_knockoffs()])
    assert np.allclose(Z.T @ Z, gram(X.T @ X, np.diag(S)), atol=1e-6)
    coef = np.linalg.lstsq(Z, y, rcond=None)[0]
    assert np.allclose(Statistic(contrast="lcd")(Z.T @ Z, Z.T @ y), lcd(coef), atol=1e-7)
