"""The two-dimensional formulas, against matrices held to sixty digits, an optimizer, and draws."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from quadsim.theory.rotation import best_scaling_kappa, gradient_ratio_law, kappa_eff_2d

kappas = st.floats(0, 12).map(lambda power: 10**power)
angles = st.floats(0, np.pi / 2)


def hessian(kappa, angle):
    c, s = mpmath.cos(angle), mpmath.sin(angle)
    turn = mpmath.matrix([[c, -s], [s, c]])
    return turn * mpmath.diag([1, mpmath.mpf(kappa)]) * turn.T


def condition(a, b, c):
    """κ of the matrix [[a, b], [b, c]], from its determinant, which is given enough digits."""
    middle, root = (a + c) / 2, mpmath.sqrt(((a - c) / 2) ** 2 + b * b)
    return (middle + root) ** 2 / (a * c - b * b)


@given(kappas, angles, st.floats(-6, 6).map(lambda power: 10**power))
def test_kappa_eff_in_two_dimensions(kappa, angle, ratio):
    with mpmath.workdps(60):
        h = hessian(kappa, angle)
        # S = D^-½HD^-½ with S_ii = a_i and a_1/a_2 = ratio
        d = [h[0, 0] / ratio, h[1, 1]]
        by_definition = condition(h[0, 0] / d[0], h[0, 1] / mpmath.sqrt(d[0] * d[1]), h[1, 1] / d[1])
        jacobi = condition(mpmath.mpf(1), h[0, 1] / mpmath.sqrt(h[0, 0] * h[1, 1]), mpmath.mpf(1))
        assert abs(kappa_eff_2d(kappa, angle, ratio) / by_definition - 1) < 4e-15
        assert abs(best_scaling_kappa(kappa, angle) / jacobi - 1) < 4e-15


@pytest.mark.parametrize(("degrees", "printed"), [(1, 2.867), (5, 32.06), (15, 251.5), (30, 750.5), (45, 1000)])
def test_no_diagonal_scaling_does_better(degrees, printed):
    angle = np.radians(degrees)
    h = np.array(hessian(1000.0, angle).tolist(), dtype=float)

    def scaled(log):
        d = np.array([1, np.exp(log)])
        return np.linalg.cond(h * np.outer(d, d))

    found = minimize_scalar(scaled, bounds=(-8, 8), method="bounded", options={"xatol": 1e-10}).fun
    assert_allclose(best_scaling_kappa(1000.0, angle), found, rtol=1e-8)
    assert_allclose(found, printed, rtol=5e-4)


def test_digits_near_one():
    """κ_eff − 1 is accurate to the rounding of κ_eff; computed with cosh, half of the digits would be lost."""
    with mpmath.workdps(50):
        half = mpmath.asinh(mpmath.sin(mpmath.mpf(2e-6)) * (mpmath.mpf(1.5) - 1) / (2 * mpmath.sqrt(1.5)))
        excess = float(mpmath.expm1(2 * half))
    assert_allclose(best_scaling_kappa(1.5, 1e-6) - 1, excess, atol=2.3e-16)
    by_cosh = np.exp(2 * np.arccosh(np.cosh(float(half))))
    assert abs(by_cosh - 1 - excess) > 1e-10


def test_arrays_and_the_ends():
    assert_allclose(best_scaling_kappa(50.0, [0, np.pi / 4, np.pi / 2]), [1, 50, 1])
    assert_allclose(kappa_eff_2d(50.0, 0.3, [2.0, 0.5]), kappa_eff_2d(50.0, 0.3, 2.0))  # a swap of the axes
    assert (kappa_eff_2d(50.0, np.pi / 4, np.geomspace(1e-3, 1e3, 99)) >= 50 * (1 - 1e-14)).all()
    assert_allclose(kappa_eff_2d(1.0, 0.3, 7.0), 7)


def test_the_ratio_of_gradients_is_cauchy():
    block = np.array([[2.0, 1.2], [1.2, 1.5]])
    location, scale = gradient_ratio_law(block)
    square = block @ block
    r = square[0, 1] / np.sqrt(square[0, 0] * square[1, 1])
    sigma = np.sqrt(square[1, 1] / square[0, 0])
    assert_allclose([location, scale], [r * sigma, sigma * np.sqrt(1 - r**2)])
    g = block @ np.random.default_rng(0).standard_normal((2, 200_000))
    quartiles = np.quantile(g[1] / g[0], [0.25, 0.5, 0.75])
    assert_allclose(quartiles, [location - scale, location, location + scale], atol=0.01)


def test_the_law_keeps_its_digits_when_the_determinant_cancels():
    block = np.array([[1.0, 1 - 2.0**-40], [1 - 2.0**-40, 1.0]])
    _, scale = gradient_ratio_law(block)
    determinant = 2.0**-39 - 2.0**-80
    assert_allclose(scale, determinant / (1 + block[0, 1] ** 2), rtol=1e-15)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: best_scaling_kappa(0.5, 0.1), "kappa must be a finite number at least 1, got 0.5"),
        (lambda: best_scaling_kappa(2.0, "steep"), "angle must be a finite number, got 'steep'"),
        (lambda: best_scaling_kappa(2.0, [0.1, np.nan]), "angle must be a finite number, got nan"),
        (lambda: kappa_eff_2d(2.0, 0.1, [1.0, 0.0]), "ratio must be a finite number above 0, got 0.0"),
        (lambda: gradient_ratio_law(np.eye(3)), "the block must be 2 x 2, got 3 x 3"),
        (lambda: gradient_ratio_law(np.ones((2, 2))), "the block must be positive definite, got the determinant 0"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)
