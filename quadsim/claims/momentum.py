"""Ledger 4: heavy ball, Nesterov, and frozen Adam with momentum."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from quadsim import theory
from quadsim.claims.adversary import Axis, Search
from quadsim.claims.ledger import exact_result, false, proved, tested
from quadsim.claims.observations import Draw, Observation
from quadsim.claims.sampling import (
    EPS,
    MIN_LOSS,
    diagonal_problem,
    frozen_against_scaled,
    loss_ratios,
    random_problem,
    random_start,
    run_compiled,
)
from quadsim.engine.closed_form import linear_methods
from quadsim.engine.closed_form.exact import exact
from quadsim.optimizers import HeavyBall, Nesterov
from quadsim.optimizers.momentum import Momentum

LATE = np.unique(np.geomspace(1, 10**7, 60).round().astype(np.int64))  # steps to check, in addition to the first ones

# A spectrum from 1 to κ with two more eigenvalues, at these shares of ln κ, and the coefficients of a start.
SPECTRUM_AND_START = (Axis("kappa", 1.1, 1e4, log=True), Axis("shares", 0, 1, 2), Axis("c", -1, 1, 4))
STEPS = 300


def _iterated(kappa: np.ndarray, shares: np.ndarray, c: np.ndarray, nesterov: bool) -> np.ndarray:
    """Least slack of 4a or 4c over 300 steps, with the method iterated mode by mode."""
    values = kappa[:, None] ** np.column_stack([np.zeros(len(kappa)), shares, np.ones(len(kappa))])
    root = np.sqrt(kappa)[:, None]
    rho = (root - 1) / (root + 1)
    lr, momentum = (1 / kappa[:, None], rho) if nesterov else (4 / (root + 1) ** 2, rho**2)
    t, bound_of = np.arange(1, STEPS + 1), theory.nesterov_bound if nesterov else theory.heavy_ball_bound
    e, before, first = c, c, (values * c * c).sum(axis=1)
    slack = np.full(len(kappa), np.inf)
    for bound in np.array([bound_of(float(k), t) for k in kappa]).T:
        push = momentum * (e - before)
        e, before = (1 - lr * values) * (e + push) if nesterov else (1 - lr * values) * e + push, e
        ratio = (values * e * e).sum(axis=1) / first
        slack = np.minimum(slack, np.where(bound > 1e-20, 1 - ratio / bound, np.inf))  # below, rounding dominates
    return np.where(first > 1e-12, slack, np.inf)


HEAVY_BALL_PATH, NESTEROV_PATH = (
    Search(SPECTRUM_AND_START, functools.partial(_iterated, nesterov=nesterov), batch=True)
    for nesterov in (False, True)
)


@proved("4a", draws=300, tight=True, rounding=1e-8, search=HEAVY_BALL_PATH)
def heavy_ball(draw: Draw) -> Observation:
    """Heavy ball at lr = 4/(√L+√μ)², momentum ρ², ρ = (√κ−1)/(√κ+1), has loss[t] ≤ (ρ^t (1+(1+ρ)t))² loss[0] for every
    t, with equality for every t from the eigenvector of L; from that of μ, loss[t] = (ρ^t (1+(1−ρ)t))² loss[0].

    A mode λ obeys e₊ = (1+β−αλ)e − βe₋ with e₋ = e₀, β = ρ². With x = (1+β−αλ)/(2ρ), which decreases from 1 at μ to −1
    at L, the solution is e_t = ρ^t (U_t(x) − ρU_{t−1}(x)) e₀, where U_t are the Chebyshev polynomials of the second
    kind. |U_t| ≤ t+1 and |U_{t−1}| ≤ t on [−1, 1] give |e_t| ≤ ρ^t (t+1+ρt)|e₀|, with equality at x = −1, where U_t =
    (−1)^t (t+1). At x = 1 the same formula is ρ^t (1+(1−ρ)t).
    """
    return _against_bound(draw, theory.heavy_ball_bound, lambda problem: HeavyBall(), -1)


@false("4a-monotone", draws=200)
def heavy_ball_rises(draw: Draw) -> Observation:
    """Heavy ball at its best setting decreases the loss in every step.

    For κ > 3+2√2 the loss from the eigenvector of L increases in the first step: by the equality in 4a the first factor
    is ρ²(2+ρ)², and the envelope peaks near t = √κ/2 at about κ/e² times the first loss. A mode strictly between the
    ends oscillates, so for every κ > 1 its loss passes near zero and increases again. From the eigenvector of μ alone
    the loss decreases. The check draws κ ≥ 100 and examines 30 steps.
    """
    problem = random_problem(draw.rng, min_kappa=100)
    return Observation(1 - loss_ratios(problem, HeavyBall(), random_start(draw.rng, problem), 30).max(initial=0))


def _peak(kappa: float) -> float:
    """Slack of 4a-peak."""
    t = np.floor(theory.heavy_ball_peak(kappa)[0]) + np.arange(2)
    envelope = theory.heavy_ball_bound(kappa, t)
    off = abs(t[envelope.argmax()] / (kappa**0.5 / 2) - 1) / 2.2, abs(envelope.max() / (kappa / np.e**2) - 1) / 0.25
    return 1 - max(off) * kappa**0.5


@tested("4a-peak", draws=300, search=Search([Axis("kappa", 1e2, 1e10, log=True)], _peak))
def heavy_ball_peak(draw: Draw) -> Observation:
    """For κ ≥ 100 the envelope of heavy ball's loss, over whole steps, has its peak within a relative distance of
    2.2/√κ from t = √κ/2, and its height is within a relative distance of 0.25/√κ from κ/e².

    For large κ, ρ^t ≈ exp(−2t/√κ) and 1+(1+ρ)t ≈ 2t: the product 2t·exp(−2t/√κ) peaks at t = √κ/2 with √κ/e. The
    constants are measured, at the two whole steps around the peak of the exact envelope.
    """
    return Observation(_peak(float(np.exp(draw.rng.uniform(np.log(1e2), np.log(1e10))))))


# Logits of lr, in units of the largest lr that is stable for some momentum, and of the momentum.
SETTINGS = (Axis("kappa", 1.1, 1e6, log=True), Axis("shares", 0, 1, 3), Axis("lr", -12, 12), Axis("momentum", -12, 12))


def _other_setting(kind: type[Momentum], kappa: float, shares: np.ndarray, lr: float, momentum: float) -> float:
    """Slack of 4b or 4c-best: the asymptotic factor at this setting above the best one."""
    largest = 4.0 if kind is HeavyBall else 2.0
    lr, momentum = float(largest / kappa / (1 + np.exp(-lr))), float(1 / (1 + np.exp(-momentum)))
    if momentum == 1:
        return np.inf
    values = np.array([1.0, *kappa**shares, kappa])
    decay = (
        linear_methods.heavy_ball(lr, momentum, values)
        if kind is HeavyBall
        else linear_methods.nesterov(lr, momentum, values, 1.0)
    )
    return np.exp(2 * decay.log_rates().max()) / theory.best_rate(float(kappa), kind.name) - 1


@proved("4b", draws=600, tight=True, search=Search(SETTINGS, functools.partial(_other_setting, HeavyBall)))
def heavy_ball_is_best(draw: Draw) -> Observation:
    """From the worst start, no constant lr and momentum give heavy ball a smaller asymptotic factor on the loss per
    step than ((√κ−1)/(√κ+1))².

    Let both roots of z² − (1+β−αλ)z + β lie in |z| ≤ R for all λ in [μ, L], with R < 1. Then β ≤ R², and the polynomial
    is not negative at the real points ±R: at R this is αλ ≥ (1−R)(1−β/R), which is positive, at −R it is αλ ≤
    (1+R)(1+β/R). So αμ > 0, and division gives κ ≤ ((1+R)(1+β/R))/((1−R)(1−β/R)), which is largest at β = R²: κ ≤
    ((1+R)/(1−R))², that is R ≥ (√κ−1)/(√κ+1).
    """
    return _against_best(draw, HeavyBall)


@proved("4c", draws=300, tight=True, rounding=1e-8, search=NESTEROV_PATH)
def nesterov(draw: Draw) -> Observation:
    """Nesterov at lr = 1/L, momentum (√κ−1)/(√κ+1), has loss[t] ≤ ((1−1/√κ)^t (1+t/√κ))² loss[0] for every t, with
    equality for every t from the eigenvector of μ.

    A mode obeys e₊ = q((1+b)e − be₋), q = 1−λ/L. With m = √(bq) and x = (1+b)q/(2m), e_t = m^t (T_t(x) +
    (x−m)U_{t−1}(x)) e₀, where x − m = √q(1−b)/(2√b) ≥ 0. Both m and x − m increase with q, and x = cos θ ≤ 1 on [0,
    1−1/κ] with equality at the upper end; |T_t| ≤ 1 and |U_{t−1}| ≤ t bound the bracket by 1+(x−m)t. At λ = μ: m =
    1−1/√κ, x = 1 and x − m = 1/√κ.
    """
    return _against_bound(draw, theory.nesterov_bound, lambda problem: Nesterov(lr=1 / problem.lipschitz), 0)


@tested("4c-best", draws=600, tight=True, search=Search(SETTINGS, functools.partial(_other_setting, Nesterov)))
def nesterov_is_best(draw: Draw) -> Observation:
    """Nesterov's best constant setting on quadratics is lr = 4/(3L+μ), momentum (√(3κ+1)−2)/(√(3κ+1)+2): from the worst
    start no other setting has a smaller asymptotic factor on the loss per step than (1−2/√(3κ+1))².

    At a given lr = α the momentum (1−√(αμ))/(1+√(αμ)) gives the mode of μ a double root 1−√(αμ), and no other momentum
    is better for this mode. A larger α decreases the root until the mode of L, whose roots are real and of opposite
    sign once αL > 1, is as slow: this is the case at α = 4/(3L+μ). That no other pair is better is tested by search
    only.
    """
    return _against_best(draw, Nesterov)


@exact_result("4d", draws=400, rounding=1e-8, relation="equality")
def frozen_momentum(draw: Draw) -> Observation:
    """Frozen Adam with β1 > 0 is heavy ball on S = D^-½HD^-½ with lr·(1−β1) and momentum β1; its best setting has the
    asymptotic factor ((√κ_eff−1)/(√κ_eff+1))² on the loss per step.

    m ← β1·m + (1−β1)g and w ← w − lr·D⁻¹m: each step is β1 times the previous one plus −lr(1−β1)D⁻¹g, which is heavy
    ball with D⁻¹g in place of g, from rest since m₀ = 0. In terms of z = D^-½g, as in 2a, the Hessian is S. The rest
    follows from 4a and 4b for S.
    """
    problem = random_problem(draw.rng, max_kappa=1e3)
    w0, beta1 = random_start(draw.rng, problem), float(draw.rng.uniform(0, 0.95))
    lr = draw.rng.uniform(0.05, 0.95) * 2 * (1 + beta1) / (1 - beta1)
    off, _, _ = frozen_against_scaled(problem, w0, lr, beta1, int(draw.rng.integers(1, 40)))
    ke = theory.kappa_eff(problem, w0)
    best = theory.rate(problem, theory.best_frozen_momentum(problem, w0), w0)
    # both ends are double roots: an error of eps·κ_eff in S moves them by its square root
    excess = abs(best - theory.best_rate(ke, "heavy-ball")) / (10 * (EPS * ke) ** 0.5) * 1e-8
    return Observation(-max(off, excess))


def _against_bound(draw: Draw, bound: Callable[..., Any], optimizer_for: Callable[..., Any], end: int) -> Observation:
    """Losses against a bound with a transient, in closed form up to 10⁷ steps or in a run; equality at an end."""
    in_closed_form = draw.number % 2 == 1
    limits: dict[str, Any] = {"max_kappa": 1e8, "rotation": 0.0} if in_closed_form else {"max_kappa": 1e4}
    problem = random_problem(draw.rng, **limits, min_kappa=1.1)
    optimizer, w0, kappa = optimizer_for(problem), random_start(draw.rng, problem), problem.kappa
    if in_closed_form:
        run = exact(problem, optimizer, w0=w0, tol=0, at=np.concatenate([np.arange(20), LATE]))
    else:
        run = run_compiled(problem, optimizer, w0, STEPS)
    kept = (run.loss > MIN_LOSS * run.loss[0]) & (bound(kappa, run.steps) > 0)
    slack = (1 - run.loss[kept] / run.loss[0] / bound(kappa, run.steps[kept])).min(initial=np.inf)
    # equality, from an eigenvector of one end of a diagonal problem
    two = diagonal_problem([1.0, kappa])
    attained = exact(two, optimizer_for(two), w0=np.eye(2)[end], tol=0, at=LATE[bound(kappa, LATE) > 1e-250])
    gap = np.abs(attained.loss / (0.5 * (1.0, kappa)[end]) / bound(kappa, attained.steps) - 1).max()
    if end == -1:  # heavy ball from the other end
        rho, t = (kappa**0.5 - 1) / (kappa**0.5 + 1), attained.steps
        other = exact(two, optimizer_for(two), w0=np.eye(2)[0], tol=0, at=t).loss / 0.5
        off = np.abs(other / (rho**t * (1 + (1 - rho) * t)) ** 2 - 1).max()
        slack = min(slack, 1e-9 * kappa**0.5 - off)
    return Observation(slack, gap)


def _against_best(draw: Draw, kind: type[Momentum]) -> Observation:
    """The asymptotic factor of a random setting against the best one."""
    kappa, shares = float(np.exp(draw.rng.uniform(0.1, np.log(1e6)))), draw.rng.uniform(0, 1, 3)
    slack = _other_setting(kind, kappa, shares, *draw.rng.normal(0, 3, 2))
    problem = diagonal_problem([1.0, *kappa**shares, kappa])
    return Observation(slack, abs(theory.rate(problem, kind()) / theory.best_rate(kappa, kind.name) - 1))
