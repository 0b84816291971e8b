"""The constants of theory, against their definitions written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadsim as qs

PROBLEM = qs.BlockQuadratic.from_spectra([[1, 2, 3], [10, 40], [7.0]], seed=2, minimizer=np.arange(6.0))
W0 = PROBLEM.minimizer + PROBLEM.start(4)


def test_kappa_eff_is_the_condition_number_of_the_scaled_hessian():
    d = np.abs(PROBLEM.hessian() @ (W0 - PROBLEM.minimizer))
    scaled = PROBLEM.hessian() / np.sqrt(np.outer(d, d))
    assert_allclose(qs.theory.kappa_eff(PROBLEM, W0), np.linalg.cond(scaled), rtol=1e-10)


def test_kappa_eff_of_a_diagonal_hessian_depends_on_the_start_alone():
    """Ledger 7: max|e0| / min|e0|."""
    problem, e = qs.case(3, rotation=0), PROBLEM.start(1)[:1].repeat(9) * np.arange(1, 10)
    assert_allclose(qs.theory.kappa_eff(problem, e), 9, rtol=1e-12)


def test_r_by_both_readings():
    g = np.abs(PROBLEM.grad(W0))
    parts, tops = [g[:3], g[3:5], g[5:]], (3, 40, 7)
    least = np.array([part.min() / top for part, top in zip(parts, tops, strict=True)])
    largest = np.array([part.max() / top for part, top in zip(parts, tops, strict=True)])
    assert_allclose(qs.theory.r(PROBLEM, W0), largest.max() ** 2 / least.min() ** 2)
    assert_allclose(qs.theory.r(PROBLEM, W0, within_blocks=True), np.max(largest**2 / least**2))


def test_rates_written_out():
    assert_allclose(qs.theory.rate(PROBLEM, qs.GD(lr=0.01)), (1 - 0.01) ** 2)
    assert_allclose(qs.theory.rate(PROBLEM, qs.GD(lr=0.06)), (1 - 0.06 * 40) ** 2)
    assert_allclose(qs.theory.rate(PROBLEM, qs.BlockGD(lr=[0.5, 0.01, 0.1])), 0.9**2)
    assert_allclose(qs.theory.rate(PROBLEM, qs.BlockGD(lr=0.01)), (1 - 0.01) ** 2)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: qs.theory.rate(PROBLEM, qs.Adam()), "no factor on the loss per step is known for adam"),
        (lambda: qs.theory.rate(PROBLEM, qs.FrozenAdam(beta1=0.5), W0), "frozen-adam with beta1=0.5"),
        (lambda: qs.theory.rate(PROBLEM, qs.FrozenAdam(lr=1.0), PROBLEM.minimizer), "the first gradient is 0"),
        (lambda: qs.theory.rate(PROBLEM, qs.FrozenAdam()), "this rate depends on the start: give w0"),
        (lambda: qs.theory.kappa_eff(PROBLEM, PROBLEM.minimizer), "the first gradient is 0 in coordinate 0"),
        (lambda: qs.theory.r(PROBLEM, [1.0]), "w must have shape (6,), got shape (1,)"),
    ],
)
def test_bad_input_says_what_was_wrong(call, sentence, check_refused):
    check_refused(call, sentence)
