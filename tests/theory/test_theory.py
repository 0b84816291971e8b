"""The constants of theory, against their definitions written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import quadsim as qs

PROBLEM = qs.BlockQuadratic.from_spectra([[1, 2, 3], [10, 40], [7.0]], seed=2, minimizer=np.arange(6.0))
W0 = PROBLEM.start(4)


def test_kappa_eff_is_the_condition_number_of_the_scaled_hessian():
    d = np.abs(PROBLEM.hessian() @ (W0 - PROBLEM.minimizer))
    scaled = PROBLEM.hessian() / np.sqrt(np.outer(d, d))
    assert_allclose(qs.theory.kappa_eff(PROBLEM, W0), np.linalg.cond(scaled), rtol=1e-10)


def test_kappa_eff_of_a_diagonal_hessian_depends_on_the_start_alone():
    """Ledger 7: max|e0| / min|e0|."""
    problem, e = qs.case(3, rotation=0), PROBLEM.start(1)[:1].repeat(9) * np.arange(1, 10)
    assert_allclose(qs.theory.kappa_eff(problem, e0=e), 9, rtol=1e-12)


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
        (lambda: qs.theory.rate(PROBLEM, qs.FrozenAdam(lr=1.0), PROBLEM.minimizer), "the first gradient is 0"),
        (lambda: qs.theory.rate(PROBLEM, qs.FrozenAdam()), "this depends on the start: give w0"),
        (lambda: qs.theory.kappa_eff(PROBLEM, PROBLEM.minimizer), "the first gradient is 0 in coordinate 0"),
        (lambda: qs.theory.r(PROBLEM, [1.0]), "w0 must have shape (6,), got shape (1,)"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)


def test_rates_with_momentum_written_out():
    """The spectral radius of each mode's companion matrix, squared."""
    lr, momentum = 0.04, 0.7
    for optimizer, values in (
        (qs.HeavyBall(lr=lr, momentum=momentum), np.concatenate(PROBLEM.eigenvalues)),
        (qs.FrozenAdam(lr=lr / (1 - momentum), beta1=momentum), None),
        (qs.Nesterov(lr=lr, momentum=momentum), np.concatenate(PROBLEM.eigenvalues)),
    ):
        if values is None:
            d = np.abs(PROBLEM.grad(W0))
            values = np.linalg.eigvalsh(PROBLEM.hessian() / np.sqrt(np.outer(d, d)))
        radii = []
        for a in lr * values:
            trace, product = (
                ((1 + momentum) * (1 - a), momentum * (1 - a))
                if optimizer.name == "nesterov"
                else (1 + momentum - a, momentum)
            )
            radii.append(np.abs(np.roots([1, -trace, product])).max())
        assert_allclose(qs.theory.rate(PROBLEM, optimizer, W0), max(radii) ** 2, rtol=1e-9)


def test_best_settings_and_rates():
    """At the best settings `rate` is `best_rate`, and bounds with transients start at 1 and end at that rate."""
    for name, optimizer in (("gd", qs.GD()), ("heavy-ball", qs.HeavyBall()), ("nesterov", qs.Nesterov())):
        assert_allclose(qs.theory.rate(PROBLEM, optimizer), qs.theory.best_rate(PROBLEM.kappa, name), rtol=1e-12)
        assert qs.theory.best(PROBLEM, optimizer).lr is not None
    momentum = qs.theory.best_frozen_momentum(PROBLEM, W0)
    ke = qs.theory.kappa_eff(PROBLEM, W0)
    # both end modes are double roots, which rounding moves by √eps
    assert_allclose(qs.theory.rate(PROBLEM, momentum, W0), qs.theory.best_rate(ke, "heavy-ball"), rtol=1e-6)
    for bound, power in ((qs.theory.heavy_ball_bound, "heavy-ball"), (qs.theory.nesterov_bound, None)):
        assert_allclose(bound(1e4, 0), 1)
        late = bound(1e4, [10_000, 10_001])
        expected = qs.theory.best_rate(1e4, power) if power else (1 - 1e-2) ** 2
        assert_allclose(late[1] / late[0], expected, rtol=1e-3)


def test_the_bound_at_any_step_is_attained_at_some_eigenvector():
    problem = qs.BlockQuadratic.from_spectra([[1, 5, 30]], rotation=0)
    for optimizer in (
        qs.GD(),
        qs.HeavyBall(),
        qs.HeavyBall(lr=0.05, momentum=0.6),
        qs.Nesterov(),
        qs.Nesterov(lr=1 / 30),
    ):
        paths = [
            np.exp(run.log_loss) / (0.5 * lam)
            for lam, e in zip((1, 5, 30), np.eye(3), strict=True)
            for run in [qs.exact(problem, optimizer, w0=e, at=range(12), tol=0)]
        ]
        assert_allclose(qs.theory.bound(problem, optimizer, range(12)), np.max(paths, axis=0), rtol=1e-10)


def test_heavy_ball_s_peak():
    """Ledger 4a: at κ = 10⁴ the envelope rises to 1353.5, about κ/e², at t near √κ/2."""
    t, height = qs.theory.heavy_ball_peak(1e4)
    assert_allclose(height, np.max(qs.theory.heavy_ball_bound(1e4, np.linspace(0, 400, 100_001))), rtol=1e-9)
    assert_allclose([t, height], [50, 1e4 / np.e**2], rtol=0.02)
    assert qs.theory.heavy_ball_peak(1.0) == (0.0, 1.0)
