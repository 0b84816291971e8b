"""Modes in closed form against mpmath with 50 digits; float inputs are taken as exact."""

import mpmath as mp
import numpy as np
import pytest
from numpy.testing import assert_allclose

from quadsim.engine.closed_form import double_double, linear_methods

EPS = np.finfo(float).eps
DIGITS = 50
HORIZONS = (10**3, 10**5, 10**6, 10**9, 10**12)


def factor(kind, lr, momentum, curvature, t):
    """p_t by squaring the matrix that advances (p_s+1, p_s) by one step: no roots, no cases."""
    a = mp.mpf(lr) * mp.mpf(curvature)
    b = mp.mpf(momentum)
    if kind == "gd":
        return (1 - a) ** t
    trace, product = (1 + b - a, b) if kind == "heavy ball" else ((1 + b) * (1 - a), b * (1 - a))
    power = mp.matrix([[trace, -product], [1, 0]]) ** t
    return power[1, 0] * (1 - a) + power[1, 1]


def log_loss(kind, lr, momentum, curvatures, coefficients, t):
    with mp.workdps(DIGITS + 40):  # squaring up to the power 10^12 loses some digits
        parts = [
            mp.mpf(lam) * mp.mpf(c) ** 2 * factor(kind, lr, momentum, lam, t) ** 2
            for lam, c in zip(curvatures, coefficients, strict=True)
        ]
        return mp.log(mp.fsum(parts) / 2)


def draw(rng, kappa=None):
    """Nine eigenvalues over up to twelve orders of magnitude, and coefficients."""
    kappa = 10 ** rng.uniform(0, 12) if kappa is None else kappa
    curvatures = np.sort(np.concatenate([[1.0, kappa], np.exp(rng.uniform(0, np.log(kappa), 7))]))
    return curvatures * 10 ** rng.uniform(-3, 3), rng.standard_normal(9)


def our_log_loss(closed_form, curvatures, coefficients, t):
    logs = np.log(0.5 * curvatures * coefficients**2) + 2 * closed_form.log_sizes_and_signs([t])[0][:, 0]
    return logs.max() + np.log(np.exp(logs - logs.max()).sum())


@pytest.mark.parametrize("horizon", HORIZONS)
def test_gd_is_accurate_to_the_last_digits(horizon):
    """Ledger 9: relative error of the loss within 1.4 eps (1 + |ln L_t| + |ln L_t/L_0|)."""
    rng = np.random.default_rng(horizon)
    for _ in range(40):
        curvatures, coefficients = draw(rng)
        lr = 2 / (curvatures[0] + curvatures[-1]) if rng.random() < 0.3 else rng.uniform(0.01, 2) / curvatures[-1]
        t = int(horizon * rng.uniform(0.5, 1))
        ours = our_log_loss(linear_methods.descent(lr, curvatures), curvatures, coefficients, t)
        truth = log_loss("gd", lr, 0, curvatures, coefficients, t)
        ratio = truth - log_loss("gd", lr, 0, curvatures, coefficients, 0)
        assert abs(ours - truth) <= 1.4 * EPS * (1 + abs(truth) + abs(ratio))


def test_the_naive_logarithm_is_inaccurate():
    """Negative control: log|1 − lr·λ| evaluated directly loses a million times as much at 10¹² steps."""
    curvatures, lr, t = np.array([1.0, 3.7e11]), 2 / (1 + 3.7e11), 10**12
    naive = 2 * t * np.log(np.abs(1 - lr * curvatures[0]))
    with mp.workdps(DIGITS):
        truth = 2 * t * mp.log(1 - mp.mpf(lr) * mp.mpf(curvatures[0]))
    assert abs(naive - truth) > 1e-5
    assert abs(2 * linear_methods.descent(lr, curvatures).log_sizes_and_signs([t])[0][0, 0] - truth) < 1e-14


@pytest.mark.parametrize("kind", ["heavy ball", "nesterov"])
@pytest.mark.parametrize("horizon", HORIZONS)
def test_momentum_is_accurate_up_to_the_phase(kind, horizon):
    """Ledger 9: the phase of an oscillating mode is off by t·eps, at worst a few times that; all kinds of settings."""
    rng = np.random.default_rng(horizon)
    for _ in range(40):
        curvatures, coefficients = draw(rng)
        momentum = rng.uniform(0, 1) if rng.random() < 0.5 else 1 - 10 ** rng.uniform(-6, 0)
        edge = 2 * (1 + momentum) / (1 if kind == "heavy ball" else 1 + 2 * momentum)  # of stability
        lr = rng.choice([rng.uniform(0.001, 1), 10 ** rng.uniform(-6, 0)]) * edge / curvatures[-1]
        t = int(horizon * rng.uniform(0.5, 1))
        closed_form = (
            linear_methods.heavy_ball(lr, momentum, curvatures)
            if kind == "heavy ball"
            else linear_methods.nesterov(lr, momentum, curvatures, curvatures[0])
        )
        ours = our_log_loss(closed_form, curvatures, coefficients, t)
        truth = log_loss(kind, lr, momentum, curvatures, coefficients, t)
        assert abs(ours - truth) <= 30 * EPS * t + 4 * EPS * abs(float(truth))


@pytest.mark.parametrize("t", HORIZONS)
@pytest.mark.parametrize("kappa", [2.0, 5e3, 1e8, 1e12])
def test_the_end_modes_of_tuned_heavy_ball_and_nesterov_have_double_roots(kappa, t):
    """Ledger 4a, 4c: ρ^t(1 + (1 ∓ ρ)t) and (1 − √(lr·μ))^t(1 + √(lr·μ)·t), at any t, to the last digits."""
    with mp.workdps(DIGITS):
        rho = (mp.sqrt(kappa) - 1) / (mp.sqrt(kappa) + 1)
        truth = [t * mp.log(rho) + mp.log(1 + (1 - rho) * t), t * mp.log(rho) + mp.log(1 + (1 + rho) * t)]
        ours, sign = linear_methods.tuned_heavy_ball(1.0, kappa, np.array([1.0, kappa])).log_sizes_and_signs([t])
        for value, expected in zip(ours[:, 0], truth, strict=True):
            assert abs(value - expected) <= 3 * EPS * (1 + abs(expected))
        assert list(sign[:, 0]) == [1, (-1) ** t]
        lr = 1 / kappa
        damping = mp.sqrt(mp.mpf(lr))
        truth = t * mp.log(1 - damping) + mp.log(1 + damping * t)
        ours, _ = linear_methods.nesterov(lr, None, np.array([1.0]), 1.0).log_sizes_and_signs([t])
        assert abs(ours[0, 0] - truth) <= 3 * EPS * (1 + abs(truth))


def test_rounded_settings_of_heavy_ball_are_used_unchanged():
    """The same settings rounded to float64: the double roots are separated, also in mpmath."""
    kappa, t = 1e8, 10**6
    lr, momentum = 4 / (1 + kappa**0.5) ** 2, ((kappa**0.5 - 1) / (kappa**0.5 + 1)) ** 2
    given = linear_methods.heavy_ball(lr, momentum, np.array([kappa])).log_sizes_and_signs([t])[0][0, 0]
    with mp.workdps(DIGITS + 40):
        truth = mp.log(abs(factor("heavy ball", lr, momentum, kappa, t)))
    assert abs(given - truth) < 1e-9
    ideal = linear_methods.tuned_heavy_ball(1.0, kappa, np.array([kappa])).log_sizes_and_signs([t])[0][0, 0]
    assert 1e-7 < abs(given - ideal) < 1e-2  # one unit in the last place of lr, magnified by t²


@pytest.mark.parametrize("kind", ["heavy ball", "nesterov"])
def test_the_first_steps_match_the_recurrence(kind):
    """All signs and kinds of roots, against the plain recurrence."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        lr, momentum, lam = rng.uniform(0, 4.2), rng.uniform(0, 0.99), np.array([1.0])
        closed_form = (
            linear_methods.heavy_ball(lr, momentum, lam)
            if kind == "heavy ball"
            else linear_methods.nesterov(lr, momentum, lam, 1.0)
        )
        path = [1.0, 1 - lr]
        for _ in range(10):
            if kind == "heavy ball":
                path.append(path[-1] - lr * path[-1] + momentum * (path[-1] - path[-2]))
            else:
                path.append((1 - lr) * (path[-1] + momentum * (path[-1] - path[-2])))
        size, sign = closed_form.log_sizes_and_signs(range(12))
        scale = np.maximum.accumulate(np.abs(path))
        assert_allclose(sign[0] * np.exp(size[0]) / scale, path / scale, atol=1e-12)


def test_drift_bounds_how_far_a_mode_moves():
    rng = np.random.default_rng(2)
    for _ in range(300):
        momentum, lam = rng.choice([0, rng.uniform(0, 1), 1 - 10 ** rng.uniform(-5, 0)]), np.array([1.0])
        lr = rng.uniform(0, 2.02) * (1 + momentum) * rng.choice([1, 1e-3])
        nesterov = rng.choice([0, 1])
        closed_form = (
            linear_methods.nesterov(lr, momentum, lam, 1.0)
            if nesterov
            else linear_methods.heavy_ball(lr, momentum, lam)
        )
        t, width = int(rng.integers(0, 60)), 2 * int(rng.integers(1, 40))
        size, sign = closed_form.log_sizes_and_signs(range(t, t + width + 1, 2))
        path = sign[0] * np.exp(size[0])
        bound = closed_form.drift(t, [width])[0, 0]
        assert np.abs(path - path[0]).max() <= bound * (1 + 1e-9) + 1e-14
    assert closed_form.drift(0, [2])[0, 0] > 0


def modes_of_every_kind(seed, count):
    """Modes of both methods with all kinds of roots, stable and unstable."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        momentum, lam = rng.choice([0, rng.uniform(0, 1), 1 - 10 ** rng.uniform(-5, 0)]), np.array([1.0])
        lr = rng.uniform(0, 2.02) * (1 + momentum) * rng.choice([1, 1e-3])
        if rng.random() < 0.2:  # double roots
            lam = np.array([1.0, 30.0])
            yield (
                rng,
                linear_methods.tuned_heavy_ball(1.0, 30.0, lam)
                if rng.random() < 0.5
                else linear_methods.nesterov(1 / 30, None, lam, 1.0),
            )
        elif rng.random() < 0.5:
            yield rng, linear_methods.nesterov(lr, momentum, lam, 1.0)
        else:
            yield rng, linear_methods.heavy_ball(lr, momentum, lam)


def test_drift_relative_to_a_rate_bounds_how_far_a_mode_moves_relative_to_it():
    for rng, closed_form in modes_of_every_kind(4, 300):
        t, width, rate = int(rng.integers(0, 60)), 2 * int(rng.integers(1, 40)), -rng.uniform(0, 0.1)
        size, sign = closed_form.log_sizes_and_signs(range(t, t + width + 1, 2))
        path = sign * np.exp(size - rate * np.arange(0, width + 1, 2))
        bounds = closed_form.drift(t, [2, width], rate=rate)
        for bound, reach in zip(bounds.T, (2, width + 1), strict=True):
            moved = np.abs(path - path[:, :1])[:, :reach].max(axis=1)
            assert (moved <= bound * (1 + 1e-9) + 1e-13 * np.abs(path).max()).all()


def test_a_mode_that_does_not_oscillate_decays_no_faster_than_its_rate():
    known = 0
    for rng, closed_form in modes_of_every_kind(5, 400):
        t = int(rng.choice([0, rng.integers(0, 60)]))
        later = np.arange(t, t + 200)
        above = closed_form.log_sizes_and_signs(later)[0] - closed_form.log_rates()[:, None] * (later - t)
        floor = closed_form.log_lower_bounds(t)
        assert (above >= floor[:, None] - 1e-9 * (1 + np.abs(above))).all()
        known += np.isfinite(floor).sum()
    assert known > 200


def test_double_double_arithmetic_keeps_what_float64_loses():
    rng = np.random.default_rng(3)
    for _ in range(200):
        a, b, c = 10 ** rng.uniform(-20, 20, 3)
        with mp.workdps(DIGITS):
            product = double_double.exact_product(a, b)
            assert mp.mpf(product[0]) + mp.mpf(product[1]) == mp.mpf(a) * mp.mpf(b)
            total = double_double.exact_sum(a, -b)
            assert mp.mpf(total[0]) + mp.mpf(total[1]) == mp.mpf(a) - mp.mpf(b)
            root = double_double.root(c)
            assert abs((mp.mpf(root[0]) + mp.mpf(root[1])) / mp.sqrt(mp.mpf(c)) - 1) < 1e-30
            gap = double_double.subtract(double_double.multiply(product, root), (a * b * root[0], 0.0))
            truth = mp.mpf(a) * mp.mpf(b) * mp.sqrt(mp.mpf(c)) - mp.mpf(a * b * root[0])
            assert abs(mp.mpf(gap[0]) + mp.mpf(gap[1]) - truth) < 1e-29 * abs(a * b * root[0])
