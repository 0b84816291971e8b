"""The Zipf bigram model, against a loop over the whole table, thirty digits, and the numbers of the ledger."""

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from quadsim.theory.zipf import (
    zipf_gd_loss,
    zipf_gd_time,
    zipf_gd_time_formula,
    zipf_sign_best_lr,
    zipf_sign_loss,
    zipf_sign_time,
    zipf_sign_time_formula,
)


def run_table(dim, steps, direction):
    """Losses of the whole d x d table relative to the first; the step is direction(gradient, π)."""
    pi = 1 / np.arange(1, dim + 1)
    pi /= pi.sum()
    rng = np.random.default_rng(dim)
    targets = np.array([rng.permutation(pi) for _ in range(dim)])
    w, losses = np.zeros((dim, dim)), []
    for _ in range(steps + 1):
        losses.append(0.5 * (pi[:, None] * (w - targets) ** 2).sum())
        w = w - direction(pi[:, None] * (w - targets), pi)
    return np.array(losses) / losses[0]


def test_gd_equals_a_loop():
    losses = run_table(20, 50, lambda gradient, pi: gradient / pi[0])
    assert_allclose(zipf_gd_loss(20, np.arange(51)), losses, rtol=1e-12)
    assert zipf_gd_time(20, 0.1) == np.argmax(losses <= 0.1)
    assert isinstance(zipf_gd_loss(20, 3), float)


@given(st.integers(2, 40), st.floats(-4, 0).map(lambda power: 10**power), st.integers(1, 60))
def test_sign_descent_equals_a_loop(dim, lr, steps):
    losses = run_table(dim, steps, lambda gradient, _: lr * np.sign(gradient))
    assert_allclose(zipf_sign_loss(dim, np.arange(steps + 1), lr), losses, rtol=1e-9, atol=1e-12)


def test_an_error_that_hits_zero_moves_on():
    """d = 2: the targets are 2/3 and 1/3, and lr divides both; nearby learning rates give nearly the same."""
    assert_allclose(zipf_sign_loss(2, [1, 2, 3, 4], 1 / 3), 0.2)
    assert_allclose(zipf_sign_loss(2, [1, 2, 3, 4], 1 / 3 - 1e-9), 0.2, rtol=1e-7)


@pytest.mark.parametrize(("dim", "steps"), [(1000, 10**4), (10**4, 10**5), (10**4, 12345)])
def test_gd_to_many_digits(dim, steps):
    with mpmath.workdps(30):
        total = mpmath.fsum(mpmath.mpf(1) / k for k in range(1, dim + 1))
        exact = mpmath.fsum((1 - mpmath.mpf(1) / k) ** (2 * steps) / k for k in range(2, dim + 1)) / total
    assert_allclose(zipf_gd_loss(dim, steps), float(exact), rtol=1e-12)


def test_gd_at_the_ends():
    assert_allclose(zipf_gd_loss(10**6, 0), 1, rtol=1e-13)
    assert zipf_gd_loss(10**6, 10**12) == 0  # about exp(-2e6)
    assert zipf_gd_loss(10**5, 3 * 10**7) > 0


@pytest.mark.parametrize(
    ("eps", "steps", "ratio"),
    [(0.5, 67, 1.006), (0.2, 2635, 1.0001), (0.1, 10168, 1), (0.05, 23253, 1), (0.01, 68701, 1)],
)
def test_gd_times_of_the_ledger(eps, steps, ratio):
    assert zipf_gd_time(10**5, eps) == steps
    assert zipf_gd_loss(10**5, steps) <= eps < zipf_gd_loss(10**5, steps - 1)
    assert_allclose(steps / zipf_gd_time_formula(10**5, eps), ratio, atol=2e-4)


def test_other_exponents():
    assert [zipf_gd_time(10**k, 0.1, alpha=0.5) for k in (2, 3, 4, 5)] == [7, 20, 64, 202]
    assert {zipf_gd_time(10**k, 0.1, alpha=2.0) for k in (2, 3, 4, 5)} <= {13, 14, 15}


@pytest.mark.parametrize(("eps", "steps", "ratio"), [(0.2, 313, 0.98), (0.05, 723, 0.97), (0.01, 1632, 0.94)])
def test_sign_times_of_the_ledger(eps, steps, ratio):
    assert zipf_sign_time(10**5, eps) == steps
    assert_allclose(steps / zipf_sign_time_formula(10**5, eps), ratio, atol=0.005)


def test_odd_steps_cost_a_root_of_two_more():
    times = [zipf_sign_time(10**5, eps, "odd") for eps in (0.2, 0.05, 0.01)]
    assert times == [437, 1005, 2235]
    formula = [zipf_sign_time_formula(10**5, eps, "odd") for eps in (0.2, 0.05, 0.01)]
    assert_allclose(np.array(times) / formula, [0.968, 0.951, 0.914], atol=1e-3)


def test_even_steps_do_not_see_the_tail():
    """The anomaly: a time that does not depend on d."""
    for dim in (10**4, 10**5):
        assert [zipf_sign_time(dim, eps, "even") for eps in (0.2, 0.05, 0.01)] == [4, 16, 84]


@pytest.mark.parametrize(
    ("steps", "parity"), [(40, "pair"), (41, "odd"), (40, "even"), (3, "pair"), (1, "odd"), (2, "even")]
)
def test_the_best_lr_is_the_best_of_a_grid(steps, parity):
    lr, loss = zipf_sign_best_lr(1000, steps, parity)
    last = steps + 1 if parity == "pair" else steps
    assert_allclose(loss, zipf_sign_loss(1000, [steps, last], lr).mean(), rtol=1e-12)
    grid = [zipf_sign_loss(1000, [steps, last], rate).mean() for rate in np.geomspace(1e-5, 0.2, 1500)]
    assert loss <= min(grid) * (1 + 1e-6)
    assert loss >= min(grid) * 0.99


@pytest.mark.parametrize("parity", ["pair", "odd"])
def test_the_loss_at_the_best_lr_decreases(parity):
    """The bisection requires this."""
    step = 1 if parity == "pair" else 2
    losses = [zipf_sign_best_lr(1000, steps, parity)[1] for steps in range(1, 80, step)]
    assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: zipf_gd_loss(1, 3), "dim must be a whole number from 2"),
        (lambda: zipf_gd_loss(10, [1, 2.5]), "at must be whole numbers from 0 to 1e+15, got 2.5"),
        (lambda: zipf_gd_loss(10, -1), "at must be whole numbers from 0 to 1e+15, got -1"),
        (lambda: zipf_gd_loss(10, "many"), "at must be whole numbers from 0 to 1e+15, got 'many'"),
        (lambda: zipf_gd_loss(10, 1, alpha=0), "alpha must be a finite number at least 0.01 and at most 100"),
        (lambda: zipf_gd_time(10, 1.0), "eps must be a finite number above 0 and below 1"),
        (lambda: zipf_gd_time_formula(10, 0), "eps must be a finite number at least 1e-100 and below 1"),
        (lambda: zipf_sign_loss(10, 3, 0.0), "lr must be a finite number above 0"),
        (lambda: zipf_sign_best_lr(10, 3, "even"), "at must be even to be measured at even steps, got 3"),
        (lambda: zipf_sign_best_lr(10, 3, "od"), "unknown parity 'od': did you mean odd?"),
        (lambda: zipf_sign_time(10, 0.1), "dim must be a whole number from 1000"),
        (lambda: zipf_sign_time_formula(1000, 0.5), "eps must be a finite number above 0 and at most 0.3"),
        (lambda: zipf_sign_time_formula(1000, 0.1, "even"), "allowed are pair, odd"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)
