"""The law of κ_eff of a diagonal Hessian, against 25 digits, draws, and its own tail."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from quadsim.theory.diagonal import (
    diagonal_kappa_eff_cdf,
    diagonal_kappa_eff_median,
    diagonal_kappa_eff_median_formula,
    diagonal_kappa_eff_tail,
)


def by_quadrature(x, dim):
    """The integral of the cdf and its complement, in 25 digits, over ln m from -75 to 3."""
    x, half = mpmath.mpf(x), mpmath.sqrt(2)

    def density(u):
        m = mpmath.exp(u)
        return dim * mpmath.sqrt(2 / mpmath.pi) * mpmath.exp(-m * m / 2) * m

    def inside(u):
        m = mpmath.exp(u)
        return (mpmath.erf(x * m / half) - mpmath.erf(m / half)) ** (dim - 1)

    points = mpmath.linspace(-75, 3, 70)
    cdf = mpmath.quad(lambda u: density(u) * inside(u), points, maxdegree=5)
    tail = mpmath.quad(
        lambda u: density(u) * (mpmath.erfc(mpmath.exp(u) / half) ** (dim - 1) - inside(u)), points, maxdegree=5
    )
    return float(cdf), float(tail)


@pytest.mark.parametrize(("x", "dim"), [(1 + 1e-8, 3), (4.0, 9), (500.0, 100), (1e5, 2000), (1e12, 10_000)])
def test_both_integrals_to_many_digits(x, dim):
    with mpmath.workdps(25):
        cdf, tail = by_quadrature(x, dim)
    assert_allclose(diagonal_kappa_eff_cdf(x, dim), cdf, rtol=1e-12)
    assert_allclose(diagonal_kappa_eff_tail(x, dim), tail, rtol=1e-12)


@given(st.floats(-12, 12).map(lambda power: 1 + 10**power), st.integers(2, 10_000))
def test_the_two_sides_add_up(x, dim):
    assert_allclose(diagonal_kappa_eff_cdf(x, dim) + diagonal_kappa_eff_tail(x, dim), 1, rtol=1e-12)


@pytest.mark.parametrize("x", [1 + 1e-9, 1.7, 30.0, 1e12])
def test_the_integral_meets_the_closed_form_of_two_dimensions(x):
    from quadsim.theory import diagonal

    integral = diagonal._integral(lambda m: diagonal._log_between(m, x), x, 2)
    assert_allclose(diagonal_kappa_eff_cdf(x, 2), integral, rtol=1e-14)
    if x < 100:
        assert_allclose(integral, 4 / np.pi * np.arctan(x) - 1, atol=4e-16)


@pytest.mark.parametrize("dim", [3, 50, 10_000])
def test_the_tail_falls_like_one_over_x(dim):
    """Accurate where the cdf rounds to 1; halving x doubles it."""
    tails = [diagonal_kappa_eff_tail(x, dim) for x in (5e11, 1e12)]
    assert_allclose(tails[0] / tails[1], 2, rtol=1e-6)
    # P(min < max/x) is near d E[max] f(0)/x, the maximum being that of the others
    rng = np.random.default_rng(1)
    others = np.abs(rng.standard_normal((2_000_000 // dim, dim - 1))).max(axis=1).mean()
    assert_allclose(tails[1], dim * others * np.sqrt(2 / np.pi) * 1e-12, rtol=0.02)


@pytest.mark.parametrize("dim", [2, 9, 100])
def test_draws_follow_the_law(dim):
    e = np.abs(np.random.default_rng(dim).standard_normal((20_000, dim)))
    kappa_eff = e.max(axis=1) / e.min(axis=1)
    for x in np.quantile(kappa_eff, [0.1, 0.5, 0.9]):
        assert_allclose(diagonal_kappa_eff_cdf(x, dim), (kappa_eff <= x).mean(), atol=0.015)
    assert_allclose(np.median(kappa_eff), diagonal_kappa_eff_median(dim), rtol=0.05)


def test_the_median_and_its_leading_order():
    assert_allclose(diagonal_kappa_eff_median(2), np.tan(3 * np.pi / 8), rtol=1e-12)
    ratios = [diagonal_kappa_eff_median(dim) / diagonal_kappa_eff_median_formula(dim) for dim in (9, 100, 10**3, 10**4)]
    assert_allclose(ratios, [0.8755, 0.9014, 0.9216, 0.9347], atol=1e-4)
    assert diagonal_kappa_eff_cdf(1.0, 5) == 0
    assert diagonal_kappa_eff_tail(1.0, 5) == 1


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: diagonal_kappa_eff_cdf(0.9, 3), "x must be a finite number at least 1"),
        (lambda: diagonal_kappa_eff_tail(2.0, 1), "dim must be a whole number from 2"),
        (lambda: diagonal_kappa_eff_median(2.5), "dim must be a whole number from 2"),
        (lambda: diagonal_kappa_eff_median_formula(1), "dim must be a whole number from 2"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)
