"Budgets add, divergences are exact, and every noise scale keeps what it promises."
import warnings

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dp_knockoff.core.testing import refusal
from dp_knockoff.privacy.mechanisms import (
    Budget,
    analytic_gaussian_scale,
    analytic_ratio,
    check_budget,
    classical_gaussian_scale,
    gaussian_divergence,
    laplace_divergence,
    laplace_scale,
    warn_budget,
)


def test_budgets_add_up():
    assert Budget(.1, 1e-6) + Budget(.2, 1e-6) == Budget(.1 + .2, 2e-6)
    assert Budget(.4, 1e-5).share(.25, .5) == Budget(.1, 5e-6)
    assert Budget(.4, 1e-5).share(.25) == Budget(.1)
    assert repr(Budget(.2, 1e-5)) == "(epsilon=0.2, delta=1e-05)"


def test_a_budget_and_a_number_do_not_add_up():
    with pytest.raises(TypeError): Budget(1.) + 1


@given(st.floats(1e-3, 50), st.floats(1e-12, .5))
def test_analytic_calibration_is_exact(epsilon, delta):
    scale = analytic_gaussian_scale(3., Budget(epsilon, delta))
    assert delta * .999 < gaussian_divergence(epsilon, 3 / scale) <= delta
    assert gaussian_divergence(epsilon, 3 / (scale * .99)) > delta


@given(st.floats(1e-3, .999), st.floats(1e-12, .5))
def test_classical_calibration_is_valid_and_never_better(epsilon, delta):
    budget = Budget(epsilon, delta)
    scale = classical_gaussian_scale(1., budget)
    assert gaussian_divergence(epsilon, 1 / scale) <= delta
    assert scale >= analytic_gaussian_scale(1., budget) * (1 - 1e-8)


@pytest.mark.parametrize("epsilon, delta", [(.1, 1e-6), (1., 1e-5), (4., 1e-3)])
def test_an_independent_library_agrees_on_the_gaussian_calibration(epsilon, delta):
    "OpenDP's own privacy curve of the Gaussian mechanism, which it only ever rounds up"
    import opendp.prelude as dp
    dp.enable_features("contrib")
    scale = analytic_gaussian_scale(1., Budget(epsilon, delta))
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l2_distance(T=float)
    curve = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*space, scale=scale)).map(1.0)
    assert epsilon <= curve.epsilon(delta) <= epsilon * 1.6


@pytest.mark.parametrize("epsilon", [1e-3, .3, 4.])
@pytest.mark.parametrize("delta", [1e-9, 1e-3, .3])
def test_the_calibration_keeps_its_promise_by_the_law_of_the_loss(epsilon, delta):
    "E(1 - e^(epsilon - loss))_+ with loss ~ N(mu^2/2, mu^2), by quadrature in 30 digits: no formula of ours"
    def spent(mu):
        with mpmath.workdps(30):
            e, m = mpmath.mpf(epsilon), mpmath.mpf(mu)
            def term(loss): return -mpmath.expm1(e - loss) * mpmath.npdf(loss, m**2 / 2, m)
            centre = max(e, m**2 / 2)
            return mpmath.quad(term, [e, *(centre + k * m for k in (1, 3, 8, 20))])
    mu = analytic_ratio(Budget(epsilon, delta))
    assert spent(mu) <= delta < spent(1.0001 * mu)


@pytest.mark.parametrize("shift", [(1., 0.), (.5, .5), (.7, -.3)])
def test_laplace_noise_on_vectors_needs_the_sum_of_absolute_values(shift):
    "The largest log ratio of the densities in the plane: epsilon, and more with the Euclidean distance"
    o = np.linspace(-3, 3, 61)
    def loss(b): return sum((np.abs(o) - np.abs(o - each)).max() for each in shift) / b
    assert np.isclose(loss(laplace_scale(1., Budget(.5))), .5)
    if 0. not in shift: assert loss(laplace_scale(float(np.hypot(*shift)), Budget(.5))) > .55


@given(st.floats(1e-3, .999), st.floats(1e-12, .5))
def test_the_classical_constant_has_room_and_how_much(epsilon, delta):
    "With .825 for 1.25 Theorem 1 is still true (its proof), so no attack can tell 1.25 from 1"
    assert gaussian_divergence(epsilon, epsilon / np.sqrt(2 * np.log(.825 / delta))) <= delta


@given(st.floats(1e-3, 20))
def test_laplace_is_pure(epsilon):
    scale = laplace_scale(1., Budget(epsilon))
    assert laplace_divergence(epsilon, 1 / scale) < 1e-12
    assert laplace_divergence(epsilon, 1.01 / scale) > 0


def eighty_digits(epsilon, ratio):
    "The formula itself, in arithmetic that can afford the cancellation"
    with mpmath.workdps(80):
        e, r = mpmath.mpf(epsilon), mpmath.mpf(ratio)
        return mpmath.ncdf(r / 2 - e / r) - mpmath.exp(e) * mpmath.ncdf(-r / 2 - e / r)


@pytest.mark.parametrize("epsilon, ratio", [
    (3.2e-5, .165), (7e-5, .36), # here an earlier quadrature was off by 1e-5
    (1e-3, 1e-2), (1e-9, 1e-9), (1e-10, 3e-11), (1e-20, 1e-20), (.5, .02), (.5, .999), (2., 1.5), (5., 8.),
    (1e-6, .999999), (1e-6, 1e-7), (50., 1.9), (50., 40.), (10., .3),
])
def test_divergences_have_ten_digits(epsilon, ratio):
    assert abs(gaussian_divergence(epsilon, ratio) / eighty_digits(epsilon, ratio) - 1) < 1e-10


@given(st.floats(-6, np.log10(50)), st.floats(-7, 1.7))
def test_divergences_have_ten_digits_everywhere(log_epsilon, log_ratio):
    epsilon, ratio = 10.0**log_epsilon, 10.0**log_ratio
    exact = eighty_digits(epsilon, ratio)
    if exact > 1e-250: assert abs(gaussian_divergence(epsilon, ratio) / exact - 1) < 1e-10


@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6, 1e-3, .1, .9])
def test_no_promise_is_exceeded_even_in_the_eightieth_digit(delta):
    for epsilon in [3.2e-5, 7e-5, *np.geomspace(1e-6, 50, 30)]:
        spent = eighty_digits(epsilon, analytic_ratio(Budget(float(epsilon), delta))) / mpmath.mpf(delta)
        assert .9999 < spent <= 1


@pytest.mark.parametrize("budget, n, words", [
    (Budget(1., 1e-6), 1000, []), (Budget(10., 1e-3), 1000, []), (Budget(10.1, 1e-6), 1000, ["epsilon=10.1"]),
    (Budget(1., .0011), 1000, ["delta=0.0011"]), (Budget(20., .5), 1000, ["epsilon=20", "delta=0.5"]),
])
def test_budgets_that_protect_little_are_warned_of(budget, n, words):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warn_budget(budget, n)
    assert [str(each.message).split()[0] for each in seen] == words


def test_divergences_take_arrays_and_vanish_without_distance():
    ratios = np.array([[0., .5], [1., 3.]])
    for divergence in (gaussian_divergence, laplace_divergence):
        values = divergence(.3, ratios)
        assert values.shape == (2, 2) and values[0, 0] == 0
        assert np.allclose(values, [[divergence(.3, r) for r in row] for row in ratios])


def test_scales_are_proportional_to_the_sensitivity():
    for scale, budget in [(laplace_scale, Budget(.5)), (classical_gaussian_scale, Budget(.5, 1e-5)),
                          (analytic_gaussian_scale, Budget(2., 1e-5))]:
        assert np.isclose(scale(3., budget), 3 * scale(1., budget)) and scale(0., budget) == 0
    assert np.isclose(analytic_gaussian_scale(3., Budget(2., 1e-5)), 3 / analytic_ratio(Budget(2., 1e-5)))


def test_the_formulas_of_theorems_1_and_2():
    assert np.isclose(laplace_scale(3., Budget(.5)), 6)
    assert np.isclose(classical_gaussian_scale(3., Budget(.5, 1e-5)), 3 * np.sqrt(2 * np.log(1.25e5)) / .5)


@pytest.mark.parametrize("epsilon, ratio", [(.1, .3), (.5, 4.), (2., 2.5)])
def test_the_laplace_divergence_is_that_of_its_best_event(epsilon, ratio):
    "P(x > t) - e^epsilon P'(x > t) for t half way between the ratio and epsilon, from the two tails"
    t = (ratio + epsilon) / 2
    own = 1 - np.exp(t - ratio) / 2
    other = np.exp(-t) / 2
    assert np.isclose(laplace_divergence(epsilon, ratio), own - np.exp(epsilon) * other)


@pytest.mark.parametrize("call, words", [
    (lambda: Budget(float("nan")), "epsilon=nan"),
    (lambda: Budget(1., 1.), "nothing would be protected"),
    (lambda: Budget(1., -.1), "delta=-0.1"),
    (lambda: classical_gaussian_scale(1., Budget(1., 1e-5)), "only proved there"),
    (lambda: classical_gaussian_scale(1., Budget(.5)), "leaves no room"),
    (lambda: analytic_gaussian_scale(1., Budget(.5)), "leaves no room"),
    (lambda: analytic_gaussian_scale(-1., Budget(.5, .1)), "sensitivity"),
    (lambda: analytic_gaussian_scale(1., Budget(1e30, 1e-6)), "double precision"),
    (lambda: analytic_gaussian_scale(1., Budget(1., 1e-320)), "double precision"),
    (lambda: laplace_scale(1., Budget(.5, .1)), "wasted"),
    (lambda: check_budget(None, 1e-6), "epsilon"),
    (lambda: check_budget(1., None), "delta"),
    (lambda: check_budget(1., 0.), "leaves no room"),
])
def test_refusals(call, words):
    assert words in refusal(call)
