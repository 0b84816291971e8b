"""The best lr for a given momentum and vice versa, against brute force over the spectral radius."""

import math

import numpy as np
import pytest
from scipy.optimize import differential_evolution

import quadsim as qs

# A float64 momentum splits a double root by up to √(8·eps), so neither side knows the least radius better than this.
ROUNDING = 5e-8


def problem_of(kappa, scale=1.0):
    return qs.BlockQuadratic.from_spectra([[scale, math.sqrt(kappa) * scale], [kappa * scale]], rotation=0)


def spectrum(kappa):
    return np.unique(np.concatenate([np.geomspace(1, kappa, 17), np.linspace(1, kappa, 17)]))


def radius(method, lr, momentum, curvature):
    """The largest root modulus over the spectrum, from the quadratic formula; arrays of settings broadcast."""
    a = np.asarray(lr)[..., None] * curvature
    b = np.asarray(momentum)[..., None]
    total, product = (1 + b - a, b + 0 * a) if method == "heavy-ball" else ((1 + b) * (1 - a), b * (1 - a))
    root = np.sqrt((total**2 - 4 * product).astype(complex))
    return np.maximum(np.abs(total + root), np.abs(total - root)).max(axis=-1) / 2


def least(function, low, high, rounds=8, points=401):
    """The minimum of a function on [low, high], by successively finer grids."""
    best = np.inf
    for _ in range(rounds):
        x = np.linspace(low, high, points)
        y = function(x)
        best, k = min(best, y.min()), int(y.argmin())
        low, high = x[max(k - 2, 0)], x[min(k + 2, points - 1)]
    return best


KINDS = {"heavy-ball": (qs.HeavyBall, 4.0), "nesterov": (qs.Nesterov, 2.0)}


def momentum_regret(method, kappa, share):
    """The excess of the radius at the momentum filled in over the least radius, for lr = share·limit."""
    kind, limit = KINDS[method]
    problem, curvature = problem_of(kappa), spectrum(kappa)
    lr = share * limit / kappa
    used = kind(lr=lr).with_best_lr(problem, np.ones(3))
    lowest = least(lambda b: radius(method, np.full_like(b, lr), b, curvature), 0, 1 - 1e-12)
    return float(radius(method, lr, used.momentum, curvature)) - lowest


def lr_regret(method, kappa, momentum):
    kind, limit = KINDS[method]
    problem, curvature = problem_of(kappa), spectrum(kappa)
    used = kind(momentum=momentum).with_best_lr(problem, np.ones(3))
    lowest = least(lambda lr: radius(method, lr, np.full_like(lr, momentum), curvature), 1e-3 / kappa, limit / kappa)
    return float(radius(method, used.lr, momentum, curvature)) - lowest


def worst(regret, bounds):
    """The largest regret that a global search finds."""
    found = differential_evolution(lambda x: -regret(*x), bounds, maxiter=12, popsize=12, rng=0, polish=False)
    return -found.fun, found.x


@pytest.mark.parametrize("method", KINDS)
def test_no_momentum_beats_the_one_filled_in(method):
    """Over κ up to 10⁶ and every stable lr."""
    regret, where = worst(lambda k, s: momentum_regret(method, 10**k, s), [(0, 6), (1e-3, 1 - 1e-6)])
    assert regret <= ROUNDING, where


@pytest.mark.parametrize("method", KINDS)
def test_no_lr_beats_the_one_filled_in(method):
    regret, where = worst(lambda k, b: lr_regret(method, 10**k, b), [(0, 6), (0, 0.9999)])
    assert regret <= ROUNDING, where


@pytest.mark.parametrize("kappa", [1.0, 1.0 + 1e-12, 1.01, 1.5, 3.0, 10.0, 5000.0, 1e6, 1e10])
def test_at_the_thresholds(kappa):
    """Next to the learning rates where the formula changes, and at the ends."""
    edges = [2 / (3 + 1 / kappa), 1 / (1 + 1 / kappa), 0.5, 1 - 1e-9, 1e-6]
    for share in edges + [edge * (1 + way * size) for edge in edges[:3] for way in (-1, 1) for size in (1e-12, 1e-4)]:
        assert momentum_regret("nesterov", kappa, share) <= ROUNDING, share
        assert momentum_regret("heavy-ball", kappa, share) <= ROUNDING, share
    for momentum in (0.0, 1e-12, 0.3, 0.9, 1 - 1e-9):
        assert lr_regret("nesterov", kappa, momentum) <= ROUNDING, momentum
        assert lr_regret("heavy-ball", kappa, momentum) <= ROUNDING, momentum


def test_the_search_refutes_other_formulas(monkeypatch):
    """The control: the momentum with a double root at μ is not the best beyond 4/(3L + μ), nor one lr for all."""

    def double_root(self, problem):
        damping = math.sqrt(self.lr * problem.mu)
        return max((1 - damping) / (1 + damping), 0.0)

    monkeypatch.setattr(qs.Nesterov, "best_momentum", double_root)
    regret, _ = worst(lambda k, s: momentum_regret("nesterov", 10**k, s), [(0, 6), (1e-3, 1 - 1e-6)])
    assert regret > 0.1
    monkeypatch.setattr(qs.Nesterov, "best_lr", lambda self, problem, error: 4 / (3 * problem.lipschitz + problem.mu))
    regret, _ = worst(lambda k, b: lr_regret("nesterov", 10**k, b), [(0, 6), (0, 0.9999)])
    assert regret > 0.1


def test_nesterov_with_a_large_lr():
    """κ = 5000 and lr = 1.5/L: the momentum 0.966 has radius 1.34, and 0.499 has 0.9994."""
    problem = problem_of(5000.0)
    optimizer = qs.Nesterov(lr=1.5 / 5000)
    used = qs.theory.best(problem, optimizer)
    assert used.momentum == pytest.approx(0.49925, abs=1e-4)
    assert qs.theory.rate(problem, optimizer) == pytest.approx(0.99940072**2, abs=1e-8)
    for run in (qs.solve(problem, optimizer, tol=1e-6, engine="compiled"), qs.exact(problem, optimizer, tol=1e-6)):
        assert run.status == "converged"
    assert qs.exact(problem, qs.Nesterov(lr=1.5 / 5000, momentum=0.966)).status == "diverged"


@pytest.mark.parametrize("share", [0.3, 2 / 3, 0.75, 0.97])
def test_the_closed_form_is_the_iteration_at_every_lr(share):
    problem = problem_of(100.0)
    optimizer = qs.Nesterov(lr=share * 2 / 100)
    looped = qs.solve(problem, optimizer, max_steps=300, tol=0, record=1, engine="compiled")
    exact = qs.exact(problem, optimizer, at=looped.steps)
    np.testing.assert_allclose(exact.loss, looped.loss, rtol=1e-8)


@pytest.mark.parametrize("method", KINDS)
def test_no_momentum_is_stable_from_the_limit_on(method, check_refused):
    kind, limit = KINDS[method]
    problem, curvature = problem_of(50.0), spectrum(50.0)
    below, above = limit / 50 * (1 - 1e-6), limit / 50 * (1 + 1e-12)
    assert radius(method, below, kind(lr=below).with_best_lr(problem, np.ones(3)).momentum, curvature) < 1
    momenta = np.linspace(0, 1, 2001)
    assert radius(method, np.full_like(momenta, above), momenta, curvature).min() >= 1
    assert kind(lr=limit / 50).lr_limit(problem) == limit / 50
    check_refused(
        lambda: qs.theory.best(problem, kind(lr=3 * limit / 50)),
        f"{method}.lr={3 * limit / 50:g} is unstable at every momentum: give an lr below {limit / 50:g}",
    )
    assert (
        qs.solve(problem, kind(lr=3 * limit / 50), max_steps=2000, engine="compiled").status == "diverged"
    )  # a run says so by status


@pytest.mark.parametrize("beta1", [0.0, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("number", [3, 4])
def test_no_lr_of_frozen_adam_beats_the_one_filled_in(number, beta1):
    for seed in range(5):
        problem = qs.case(number, seed=seed)
        start = problem.start(seed)
        scaled = np.concatenate(problem.scaled_eigenvalues(np.abs(problem.hvp(start - problem.minimizer))))
        used = qs.FrozenAdam(beta1=beta1).with_best_lr(problem, start - problem.minimizer)
        top = 2 * (1 + beta1) / scaled.max()

        def at(lr, scaled=scaled):
            return radius("heavy-ball", lr, np.full_like(lr, beta1), scaled)

        assert float(at(np.array([used.lr * (1 - beta1)]))[0]) <= least(at, 1e-6 * top, top) + ROUNDING


def test_no_lr_of_block_gd_beats_those_filled_in():
    problem = qs.case(3)
    used = qs.BlockGD().with_best_lr(problem, np.ones(9))
    for lr, values in zip(used.lr, problem.eigenvalues, strict=True):
        found = least(lambda a, values=values: np.abs(1 - a[:, None] * values).max(axis=1), 0, 4 / values[-1])
        assert np.abs(1 - lr * values).max() <= found + 1e-12
