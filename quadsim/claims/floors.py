"""Ledger 5a, 5b and 5f: Adam at a constant learning rate does not converge; the energy of its oscillation.

ε = 0 and β1 = 0. The 2-cycles are in `cycles`, measured floors in `attractors`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from quadsim.claims.adversary import BLOCK, Axis, Search
from quadsim.claims.ledger import exact_result, proved
from quadsim.claims.observations import Draw, Observation
from quadsim.claims.orbits import long_run
from quadsim.claims.sampling import one_block, random_block, random_problem, random_start, run_compiled
from quadsim.engine.solver import solve
from quadsim.optimizers import GD, Adam, BlockGD, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory import floors, sdp


@exact_result("5a", draws=400, relation="equality")
def two_losses(draw: Draw) -> Observation:
    """For any algorithm, the mean of two consecutive losses is ⅛ΔᵀHΔ + ½cᵀHc, where Δ is the step between the two
    points and c the error of their midpoint.

    Put e = c + Δ/2 and e′ = c − Δ/2. In the sum of eᵀHe and e′ᵀHe′ the mixed terms cancel (parallelogram law): ½(½eᵀHe
    + ½e′ᵀHe′) = ½cᵀHc + ⅛ΔᵀHΔ. The step is arbitrary. So for a method with steps of a fixed size the mean loss of every
    pair of steps is at least ⅛ΔᵀHΔ, wherever the midpoints are.
    """
    rng = draw.rng
    problem, beta2 = random_problem(rng, max_kappa=1e4), rng.uniform(0, 0.999)
    optimizers: list[Optimizer] = [GD(), BlockGD(), HeavyBall(), Nesterov(), FrozenAdam()]
    optimizers += [Adam(lr=0.1, beta1=0.0, beta2=0.0, eps=0.0), Adam(lr=0.1, beta2=beta2)]
    optimizers += [Adam(lr=0.1, beta1=0.0, beta2=beta2, eps=0.0, init="gradient")]
    optimizer, t = optimizers[int(rng.integers(len(optimizers)))], int(rng.integers(8))
    start = random_start(rng, problem)
    runs = [run_compiled(problem, optimizer, start, steps) for steps in (t, t + 1)]
    if [run.last_step for run in runs] != [t, t + 1]:  # the minimizer is reached
        return Observation()
    e, after = (run.w - problem.minimizer for run in runs)
    step, middle = e - after, (e + after) / 2
    formula = step @ problem.hvp(step) / 8 + middle @ problem.hvp(middle) / 2
    # The error is the rounded final point minus the minimizer, which limits the accuracy of the formula.
    size = np.abs(problem.minimizer).max() / max(np.abs(e).max(), np.abs(after).max())
    mean = (runs[0].loss[-1] + runs[1].loss[-1]) / 2
    return Observation(-max(0.0, abs(formula / mean - 1) - 1e-13 * size * problem.kappa))


WIDE_ERROR = Axis("e", -2, 2, 3)


def _sign_descent(h: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Slack of 5a-sign over 60 steps at lr = 1; infinite if a gradient is exactly zero."""
    bound = h.shape[1] * np.linalg.eigvalsh(h)[:, 0] / 8
    slack, before = np.full(len(e), np.inf), np.full(len(e), np.nan)
    for _ in range(60):
        g = np.einsum("kij,kj->ki", h, e)
        loss, zero = (e * g).sum(axis=1) / 2, (g == 0).any(axis=1)
        slack = np.where(zero, np.inf, np.fmin(slack, (loss + before) / 2 / bound - 1))
        e, before = e - np.sign(g), np.where(zero, np.nan, loss)
    return slack


@proved("5a-sign", draws=300, tight=True, search=Search([BLOCK, WIDE_ERROR], _sign_descent, batch=True))
def sign_descent(draw: Draw) -> Observation:
    """For sign descent, which is Adam with β1 = β2 = 0 and ε = 0, the mean of any two consecutive losses is at least
    (lr²/8) Σ n_l μ_l, as long as no coordinate of the gradient is exactly zero.

    A step is Δ = lr·s with s the signs of the gradient, so by 5a the mean of two losses is at least (lr²/8) sᵀHs, and
    in block l sᵀHs ≥ n_l μ_l. Equality: a block whose lowest eigenvector is a sign vector s, from e = (lr/2)s, where
    the midpoint is the minimizer.

    A coordinate whose gradient is exactly zero does not move and contributes nothing; an earlier statement lacked this
    exception. Example: H = I in two dimensions, lr = 0.5 and e₀ = (1, 0.25). The first coordinate is 0 after two steps,
    the second alternates between ±0.25, and the mean of two losses is 0.03125, where the bound is 0.0625.
    """
    rng = draw.rng
    problem, lr = random_problem(rng, max_kappa=1e4), float(np.exp(rng.uniform(-4, 1)))

    def ratios(problem: BlockQuadratic, start: np.ndarray, steps: int) -> np.ndarray:
        descent = Adam(lr=lr, beta1=0.0, beta2=0.0, eps=0.0)
        loss = solve(problem, descent, w0=start, tol=0, max_steps=steps, record=1).loss
        return (loss[1:] + loss[:-1]) / 2 / _sign_floor(problem, lr)

    slack = ratios(problem, problem.minimizer + lr * rng.standard_normal(problem.dim), 100).min() - 1
    s = rng.choice([-1.0, 1.0], int(rng.integers(1, 6)))
    lowest, block = s / np.sqrt(s.size), random_block(rng, s.size, 100)
    projection = np.outer(lowest, lowest)
    rest = np.eye(s.size) - projection
    low = np.linalg.eigvalsh(block)[0]  # the eigenvalues on the complement of s are not lower
    tight = one_block(rest @ block @ rest + low * projection)
    return Observation(slack, np.abs(ratios(tight, lr / 2 * s, 5) - 1).max())


def _sign_floor(problem: BlockQuadratic, lr: float) -> float:
    """The bound of 5a-sign."""
    return lr**2 / 8 * sum(values.size * float(values[0]) for values in problem.eigenvalues)


def _gradients_stay(h: np.ndarray, e: np.ndarray, v0: np.ndarray, gap: np.ndarray, steps: int = 1500) -> np.ndarray:
    """Slack of 5b, for the largest gradient of `steps` steps after as many others."""
    run = long_run(h, e, 1 - gap, v0=v0, before=steps, counted=steps)
    bounds = np.array([floors.nonconvergence(one_block(block), 1.0)[0] for block in h])
    slack = run.gradient.max(axis=1) / bounds - 1
    return np.where(np.isfinite(run.loss) & (run.loss > 0), slack, np.inf)  # 0/0 at the optimum, or underflow


# v₀ in units of g₀², and 1 − β2. The start influences runs for up to about 1/(1−β2) steps.
GRADIENTS = Search(
    [BLOCK, WIDE_ERROR, Axis("v0", 1e-2, 1e2, log=True), Axis("gap", 0.05, 1, log=True)],
    _gradients_stay,
    functools.partial(_gradients_stay, steps=30_000),
    batch=True,
)


@proved("5b", draws=300, tight=True, batch=True, search=GRADIENTS)
def no_convergence(draws: Sequence[Draw]) -> list[Observation]:
    """Adam with β1 = 0, ε = 0 and any β2 < 1 does not converge: limsup |g_l|_∞ ≥ lr·μ_l/2 for each block that is never
    exactly at its optimum, so limsup loss ≥ (lr²/8) μ_l²/max H_ii for any such block. Equality holds in one dimension
    for 0 < β2 < 1, on the cycle e = ±lr/2.

    For one block, let V = diag(v), y = H^½e and M = lr·H^½V^(−½)H^½, so that y ← (I − M)y. Suppose that from some step
    on all √v_i ≤ lr·μ_l/(2 + δ) with δ > 0. Then M ⪰ (2 + δ)I, each step multiplies |y| by at least 1 + δ, and the loss
    ½|y|² grows without bound unless it is 0; but v ≥ (1 − β2)g² bounds the gradients, a contradiction. So limsup max_i
    √v_i ≥ lr·μ_l/2. And v_i is a moving average of g_i², so limsup v_i ≤ limsup g_i². For the loss: g_i = (He)_i is the
    inner product of the i-th unit vector and e in the metric of H, so by Cauchy and Schwarz g_i² ≤ H_ii·eᵀHe, and the
    loss is at least g_i²/(2H_ii).

    In one dimension, on e = ±lr/2, |g| = lr·λ/2. This cycle exists (5c) and is stable for 0 < β2 < 1 (5d); that runs
    from other starts end on it is measured, not proved. At β2 = 0 they end on {a, a−lr}, with limsup |e| ≥ lr/2 and
    equality only for a = lr/2. Runs are finite: the largest |g_l|_∞ of the last 300 steps represents the limit.
    """
    steps, tail = 3000, 300
    problems = [_random_blocks(draw.rng, single=True) for draw in draws]
    lr = np.array([[np.exp(draw.rng.uniform(-4, 1))] for draw in draws])
    # one sixth of the draws is sign descent; for β2 > 0.95 runs would have to be longer (5i)
    beta2 = np.array([[0.0 if draw.number % 6 == 5 else draw.rng.uniform(0.05, 0.95)] for draw in draws])
    start = lr * np.array([draw.rng.standard_normal(6) for draw in draws])
    largest, highest = np.zeros_like(start), np.zeros(len(draws))
    for t, (e, g, _) in enumerate(orbit(_stack(problems), start, lr, beta2, steps)):
        if t > steps - tail:
            largest = np.maximum(largest, np.abs(g))
            highest = np.maximum(highest, (e * g).sum(axis=1) / 2)
    observations = []
    for k, problem in enumerate(problems):
        ratios = np.array([part.max() for part in problem.split(largest[k])]) / floors.nonconvergence(problem, lr[k, 0])
        limsup = floors.floor_bounds(problem, lr[k, 0], 0.5).limsup
        slack = min(ratios.min(), highest[k] / limsup) - 1
        observations.append(Observation(slack, abs(ratios[-1] - 1) if beta2[k, 0] > 0 else None))
    return observations


def _slack_5f(h: np.ndarray, e: np.ndarray, v0: np.ndarray, gap: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Slack of 5f at lr = 1."""
    multipliers = np.array([sdp.sdp_value(block).multipliers for block in h])
    lr, nonzero = np.ones((len(e), 1)), np.einsum("kij,kj->ki", h, e).all(axis=1)
    slack = _energy_slack(h, e, lr, 1 - gap[:, None], multipliers, steps.astype(int), v0[:, None]).min(axis=1)
    return np.where(nonzero, slack, np.inf)


# T = 1 is an equality, with a rounding error of eps·v₀/((1−β2)g₀²), which limits the range of v₀
SETTINGS = (Axis("v0", 1e-3, 1e3, log=True), Axis("gap", 1e-3, 0.99, log=True), Axis("steps", 1, 200, log=True))
OSCILLATION = Search([BLOCK, Axis("e", -3, 3, 3), *SETTINGS], _slack_5f, batch=True)


@proved("5f", draws=400, tight=True, batch=True, search=OSCILLATION)
def oscillation(draws: Sequence[Draw]) -> list[Observation]:
    """On a bounded orbit of Adam (β1 = 0, ε = 0, β2 < 1) the limsup of the average oscillation energy ⅛ΔᵀHΔ is at most
    (lr²/8) SDP(H); over T steps of any orbit the mean of each Δ_i² is at most lr²(1 − β2(v₀/v_T)^(1/T))/(1−β2).

    For one coordinate, g² = (v_t − β2v_{t−1})/(1−β2), so Δ² = lr²g²/v_t = lr²(1 − β2x_t)/(1−β2) with x_t = v_{t−1}/v_t.
    The mean of x_1..x_T is at least their geometric mean (v₀/v_T)^(1/T): that is the bound for T steps. On a bounded
    orbit v_T is bounded, the root tends to 1 or more, and limsup of the mean of Δ_i² is at most lr².

    Let Λ with diag(Λ) ⪰ H and ΣΛ_i = SDP(H) be a solution of the dual. Then ΔᵀHΔ ≤ ΣΛ_iΔ_i², whose mean is at most
    lr²·SDP(H) in the limit; and Λ = L_l in each block is feasible, so SDP(H) ≤ Σ n_l L_l. (Orbits are expected to be
    bounded, since a step is at most lr/√(1−β2) in each coordinate, and far from the minimum v follows the largest
    gradients; this is not proved here.)

    Equality: on the cycle of an s with sᵀHs = SDP(H), such as any s if H is diagonal.
    """
    problems = [_random_blocks(draw.rng) for draw in draws]
    h, lr = _stack(problems), np.array([[np.exp(draw.rng.uniform(-4, 1))] for draw in draws])
    beta2 = np.array([[draw.rng.uniform(0.01, 0.999)] for draw in draws])
    start = np.array([np.exp(draw.rng.uniform(-3, 3)) * draw.rng.standard_normal(6) for draw in draws])
    multipliers = np.array([sdp.sdp_value(problem).multipliers for problem in problems])
    steps = np.array([int(draw.rng.choice([1, 10, 200, 400])) for draw in draws])
    slack = _energy_slack(h, lr * start, lr, beta2, multipliers, steps).min(axis=1)
    bounds = [floors.floor_bounds(problem, 1.0, 0.5) for problem in problems]
    slack = np.minimum(slack, [bound.looser / bound.upper - 1 for bound in bounds])
    diagonal = h * np.eye(6)
    multipliers = np.array([sdp.sdp_value(one_block(block)).multipliers for block in diagonal])
    signs = np.array([draw.rng.choice([-1.0, 1.0], 6) for draw in draws])
    gap = np.abs(_energy_slack(diagonal, lr / 2 * signs, lr, beta2, multipliers, np.full(len(draws), 10))).max(axis=1)
    return [Observation(*pair) for pair in zip(slack, gap, strict=True)]


def _energy_slack(
    h: np.ndarray,
    e: np.ndarray,
    lr: np.ndarray,
    beta2: np.ndarray,
    multipliers: np.ndarray,
    steps: np.ndarray,
    v0: Any = 1.0,
) -> np.ndarray:
    """Slack of the two bounds of 5f, for coordinates and for the energy: (draws, 2).

    Draws may have different numbers of steps. v begins at `v0` times the first squared gradient.
    """
    begin = v0 * np.einsum("kij,kj->ki", h, e) ** 2
    squares, energy, end = np.zeros_like(e), np.zeros(len(e)), begin
    for t, (_, g, v) in enumerate(orbit(h, e, lr, beta2, int(steps.max()), v0)):
        counted = t < steps
        step = np.where(counted[:, None], lr * g / np.sqrt(v), 0.0)
        squares += step**2
        energy += np.einsum("ki,kij,kj->k", step, h, step)
        end = np.where(counted[:, None], v, end)
    count = steps[:, None]
    bound = count * lr**2 * (1 - beta2 * (begin / end) ** (1 / count)) / (1 - beta2)
    return np.stack([1 - (squares / bound).max(axis=1), 1 - energy / (multipliers * bound).sum(axis=1)], axis=1)


def orbit(
    h: np.ndarray, e: np.ndarray, lr: Any, beta2: Any, steps: int, v0: Any = 1.0
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Adam on many draws at once: yields e, g = He, and v after its update by g, before each step and at the end.

    h is (draws, n, n), e is (draws, n); settings are numbers or columns. v starts at v0 times the first squared
    gradient; β1 = 0.
    """
    v = v0 * np.einsum("kij,kj->ki", h, e) ** 2
    for _ in range(steps + 1):
        g = np.matmul(h, e[:, :, None])[:, :, 0]
        v = beta2 * v + (1 - beta2) * (g * g)
        yield e, g, v
        e = e - lr * g / np.sqrt(v)


def _random_blocks(rng: np.random.Generator, single: bool = False) -> BlockQuadratic:
    """Six coordinates in dense blocks; with `single`, the last block has one coordinate."""
    sizes: list[int] = [1] if single else []
    while sum(sizes) < 6:
        sizes.insert(0, int(rng.integers(1, 7 - sum(sizes))))
    scales = np.exp(rng.uniform(-3, 3, len(sizes)))
    return BlockQuadratic.from_blocks([scale * random_block(rng, n) for scale, n in zip(scales, sizes, strict=True)])


def _stack(problems: list[BlockQuadratic]) -> np.ndarray:
    return np.array([problem.hessian() for problem in problems])  # (draws, n, n)
