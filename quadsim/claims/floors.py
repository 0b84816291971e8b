"""Ledger 5a, 5b and 5f: Adam at a constant learning rate does not converge, and how much its orbits oscillate.

Here ε = 0 and β1 = 0. Its 2-cycles are in `cycles`, measured floors in `attractors`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from quadsim.claims.adversary import Axis, Matrix, Search
from quadsim.claims.ledger import Draw, Observation, exact_result, proved
from quadsim.claims.orbits import long_run
from quadsim.claims.sampling import one_block, random_block, random_problem, random_start
from quadsim.engine.solver import solve
from quadsim.optimizers import GD, Adam, BlockGD, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.theory import floors, sdp


@exact_result("5a", draws=400, relation="equality")
def two_losses(draw: Draw) -> Observation:
    """For any algorithm, two consecutive losses average ⅛ΔᵀHΔ + ½cᵀHc, with Δ the step between the two points and c
    their midpoint's error.

    Put e = c + Δ/2 and e′ = c − Δ/2. In the sum of eᵀHe and e′ᵀHe′ the mixed terms cancel, which is the parallelogram
    law: ½(½eᵀHe + ½e′ᵀHe′) = ½cᵀHc + ⅛ΔᵀHΔ. Nothing is asked of the step. So a method with steps of a fixed size has at
    least ⅛ΔᵀHΔ of average loss in every pair of steps, wherever its midpoints are.
    """
    rng = draw.rng
    problem, beta2 = random_problem(rng, max_kappa=1e4), float(rng.uniform(0, 0.999))
    kinds: list[Optimizer] = [
        GD(), BlockGD(), HeavyBall(), Nesterov(), FrozenAdam(), Adam(lr=0.1, beta1=0.0, beta2=0.0, eps=0.0),
        Adam(lr=0.1, beta2=beta2), Adam(lr=0.1, beta1=0.0, beta2=beta2, eps=0.0, init="gradient"),
    ]  # fmt: skip
    kind, t, start = kinds[int(rng.integers(len(kinds)))], int(rng.integers(8)), random_start(rng, problem)
    here, there = (solve(problem, kind, w0=start, tol=0, max_steps=steps, engine="compiled") for steps in (t, t + 1))
    if here.last_step != t or there.last_step != t + 1:  # it has reached the minimizer
        return Observation()
    e, after = here.w - problem.minimizer, there.w - problem.minimizer
    step, middle = e - after, (e + after) / 2
    split = step @ problem.hvp(step) / 8 + middle @ problem.hvp(middle) / 2
    # The final point is the error plus the minimizer, rounded: losses are known to that only.
    size = float(np.abs(problem.minimizer).max() / max(np.abs(e).max(), np.abs(after).max()))
    average = (here.loss[-1] + there.loss[-1]) / 2
    return Observation(-max(0.0, abs(split / average - 1) - 1e-13 * size * problem.kappa))


def _sign_descent(h: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Slack above 5a-sign's bound in any of 60 steps at lr = 1; infinite where a gradient is exactly zero."""
    bound = h.shape[1] * np.linalg.eigvalsh(h)[:, 0] / 8
    room, before = np.full(len(e), np.inf), np.full(len(e), np.nan)
    for _ in range(60):
        g = np.einsum("kij,kj->ki", h, e)
        loss = (e * g).sum(axis=1) / 2
        room = np.fmin(room, (loss + before) / 2 / bound - 1)
        room = np.where((g == 0).any(axis=1), np.inf, room)
        e, before = e - np.sign(g), np.where((g == 0).any(axis=1), np.nan, loss)
    return room


@proved(
    "5a-sign", draws=300, tight=True, search=Search([Matrix("h", 3), Axis("e", -2, 2, 3)], _sign_descent, batch=True)
)
def sign_descent(draw: Draw) -> Observation:
    """Sign descent, which is Adam with β1 = β2 = 0 and ε = 0, averages a loss of at least (lr²/8) Σ n_l μ_l over any
    two consecutive steps, as long as no coordinate of the gradient is exactly zero.

    A step is Δ = lr·s with s the signs of the gradient, so by 5a two losses average at least (lr²/8) sᵀHs, and in block
    l sᵀHs ≥ n_l μ_l. Equality: a block whose lowest eigenvector is a sign vector s, from e = (lr/2)s, where the
    midpoint is the minimizer.

    A coordinate whose gradient is exactly zero does not move and contributes nothing; an earlier statement lacked this
    exception. H = I in two dimensions, lr = 0.5 and e₀ = (1, 0.25): the first coordinate is at 0 after two steps, the
    second alternates between ±0.25, and two losses average 0.03125, where the bound is 0.0625.
    """
    rng = draw.rng
    problem, lr = random_problem(rng, max_kappa=1e4), float(np.exp(rng.uniform(-4, 1)))
    signs = Adam(lr=lr, beta1=0.0, beta2=0.0, eps=0.0)
    start = problem.minimizer + lr * rng.standard_normal(problem.dim)
    loss = solve(problem, signs, w0=start, tol=0, max_steps=100, record=1).loss
    slack = float(((loss[1:] + loss[:-1]) / 2).min() / _sign_floor(problem, lr) - 1)
    s = rng.choice([-1.0, 1.0], int(rng.integers(1, 6)))
    lowest = s / np.sqrt(s.size)
    block = random_block(rng, s.size, 100)
    rest = np.eye(s.size) - np.outer(lowest, lowest)
    low = float(np.linalg.eigvalsh(block)[0])  # the others, restricted to the complement of s, are not lower
    met = BlockQuadratic.from_blocks([rest @ block @ rest + low * np.outer(lowest, lowest)])
    loss = solve(met, signs, w0=lr / 2 * s, tol=0, max_steps=5, record=1).loss
    return Observation(slack, float(np.abs((loss[1:] + loss[:-1]) / 2 / _sign_floor(met, lr) - 1).max()))


def _sign_floor(problem: BlockQuadratic, lr: float) -> float:
    return lr**2 / 8 * sum(values.size * float(values[0]) for values in problem.eigenvalues)


# A start at lr = 1, v₀ in units of g₀², and 1 − β2. Runs take up to about 1/(1−β2) steps to forget their start.
START_AND_BETA2 = (Axis("v0", 1e-2, 1e2, log=True), Axis("gap", 0.05, 1, log=True))


def _gradients_stay(h: np.ndarray, e: np.ndarray, v0: np.ndarray, gap: np.ndarray, steps: int = 1500) -> np.ndarray:
    """Slack of 5b, for the largest gradient of `steps` steps after as many others."""
    g = np.einsum("kij,kj->ki", h, e)
    run = long_run(h, e, 1 - gap, v=v0[:, None] * g * g, before=steps, counted=steps)
    bounds = np.array([floors.nonconvergence(one_block(block), 1.0)[0] for block in h])
    slack = run.gradient.max(axis=1) / bounds - 1
    return np.where(np.isfinite(run.loss) & (run.loss > 0), slack, np.inf)  # 0/0 at the optimum, or underflow


@proved(
    "5b",
    draws=300,
    tight=True,
    batch=True,
    search=Search(
        [Matrix("h", 3), Axis("e", -2, 2, 3), *START_AND_BETA2],
        _gradients_stay,
        lambda **chosen: _gradients_stay(**chosen, steps=30_000),
        batch=True,
    ),
)
def no_convergence(draws: Sequence[Draw]) -> list[Observation]:
    """Adam with β1 = 0, ε = 0 and any β2 < 1 does not converge: limsup |g_l|_∞ ≥ lr·μ_l/2 in each block that is never
    exactly at its optimum, so limsup loss ≥ (lr²/8) μ_l²/max H_ii of any such block; attained in one dimension for 0 <
    β2 < 1, on the cycle e = ±lr/2.

    Let V = diag(v) of the block, y = H^½e and M = lr·H^½V^(−½)H^½, so that y ← (I − M)y. Suppose that from some step on
    all √v_i ≤ lr·μ_l/(2 + δ) with δ > 0. Then M ⪰ (2 + δ)I, each step multiplies |y| by at least 1 + δ, and the loss
    ½|y|² grows without bound unless it is 0; but v ≥ (1 − β2)g² keeps gradients bounded. So limsup max_i √v_i ≥
    lr·μ_l/2. And v_i is a moving average of g_i², so limsup v_i ≤ limsup g_i². For the loss: g_i = (He)_i is the
    product of e_i and e in the metric of H, so by Cauchy and Schwarz g_i² ≤ H_ii·eᵀHe, and the loss is at least
    g_i²/(2H_ii).

    In one dimension, on e = ±lr/2, |g| = lr·λ/2. That cycle exists (5c) and is stable for 0 < β2 < 1 (5d); that runs
    from other starts end there is measured, not proved. At β2 = 0 they end on {a, a−lr}, with limsup |e| ≥ lr/2 and
    equality for a = lr/2 only. A run is finite: the largest |g_l|_∞ of its last 300 steps stands for the limit.
    """
    steps, tail = 3000, 300
    problems = [_random_blocks(draw.rng, alone=True) for draw in draws]
    lr = np.array([[np.exp(draw.rng.uniform(-4, 1))] for draw in draws])
    # a sixth is sign descent; beyond 0.95 runs would have to be longer (5i)
    beta2 = np.array([[0.0 if draw.number % 6 == 5 else draw.rng.uniform(0.05, 0.95)] for draw in draws])
    start = lr * np.array([draw.rng.standard_normal(6) for draw in draws])
    largest, highest = np.zeros_like(start), np.zeros(len(draws))
    for t, (e, g, _) in enumerate(orbit(_stack(problems), start, lr, 0.0, beta2, steps)):
        if t > steps - tail:
            largest = np.maximum(largest, np.abs(g))
            highest = np.maximum(highest, (e * g).sum(axis=1) / 2)
    observations = []
    for k, problem in enumerate(problems):
        bound = floors.nonconvergence(problem, float(lr[k, 0]))
        ratios = np.array([part.max() for part in problem.split(largest[k])]) / bound
        limsup = floors.floor_bounds(problem, float(lr[k, 0]), 0.5).limsup
        slack = min(float(ratios.min()), float(highest[k]) / limsup) - 1
        observations.append(Observation(slack, abs(float(ratios[-1]) - 1) if beta2[k, 0] > 0 else None))
    return observations


# T = 1 is an equality, to eps·v₀/((1−β2)g₀²)
@proved(
    "5f",
    draws=400,
    tight=True,
    batch=True,
    search=Search(
        [
            Matrix("h", 3),
            Axis("e", -3, 3, 3),
            Axis("v0", 1e-3, 1e3, log=True),
            Axis("gap", 1e-3, 0.99, log=True),
            Axis("steps", 1, 200, log=True),
        ],
        lambda **chosen: _slack_5f(**chosen),
        batch=True,
    ),
)
def oscillation(draws: Sequence[Draw]) -> list[Observation]:
    """On a bounded orbit of Adam (β1 = 0, ε = 0, β2 < 1) the limsup of the average oscillation energy ⅛ΔᵀHΔ is at most
    (lr²/8) SDP(H); over T steps of any orbit each Δ_i² averages at most lr²(1 − β2(v₀/v_T)^(1/T))/(1−β2).

    Of one coordinate: g² = (v_t − β2v_{t−1})/(1−β2), so Δ² = lr²g²/v_t = lr²(1 − β2x_t)/(1−β2) with x_t = v_{t−1}/v_t.
    The mean of x_1..x_T is at least their geometric mean (v₀/v_T)^(1/T): that is the bound for T steps. On a bounded
    orbit v_T is bounded, the root tends to 1 or more, and limsup of the mean of Δ_i² is at most lr².

    Let diag(Λ) ⪰ H with ΣΛ_i = SDP(H), a solution of the dual. Then ΔᵀHΔ ≤ ΣΛ_iΔ_i², whose mean is at most lr²·SDP(H)
    in the limit; and Λ = L_l in each block is feasible, so SDP(H) ≤ Σ n_l L_l. (Orbits are expected to be bounded: a
    step is at most lr/√(1−β2) in each coordinate, and far out v follows the largest gradients; not proved here.)

    Equality: on the cycle of an s with sᵀHs = SDP(H), such as any s where H is diagonal.
    """
    problems = [_random_blocks(draw.rng) for draw in draws]
    h, lr = _stack(problems), np.array([[np.exp(draw.rng.uniform(-4, 1))] for draw in draws])
    beta2 = np.array([[draw.rng.uniform(0.01, 0.999)] for draw in draws])
    far = np.array([np.exp(draw.rng.uniform(-3, 3)) * draw.rng.standard_normal(6) for draw in draws])
    multipliers = np.array([sdp.sdp_value(problem).multipliers for problem in problems])
    steps = np.array([int(draw.rng.choice([1, 10, 200, 400])) for draw in draws])
    slack = _energy_slack(h, lr * far, lr, beta2, multipliers, steps).min(axis=1)
    wide = [floors.floor_bounds(problem, 1.0, 0.5) for problem in problems]
    slack = np.minimum(slack, [bounds.looser / bounds.upper - 1 for bounds in wide])
    diagonal = h * np.eye(6)
    own = np.array([sdp.sdp_value(BlockQuadratic.from_blocks([block])).multipliers for block in diagonal])
    signs = np.array([draw.rng.choice([-1.0, 1.0], 6) for draw in draws])
    gap = np.abs(_energy_slack(diagonal, lr / 2 * signs, lr, beta2, own, np.full(len(draws), 10))).max(axis=1)
    return [Observation(float(room), float(near)) for room, near in zip(slack, gap, strict=True)]


def _slack_5f(h: np.ndarray, e: np.ndarray, v0: np.ndarray, gap: np.ndarray, steps: np.ndarray) -> np.ndarray:
    multipliers = np.array([sdp.sdp_value(block).multipliers for block in h])
    ones, begin = np.ones((len(e), 1)), v0[:, None] * np.einsum("kij,kj->ki", h, e) ** 2
    room = _energy_slack(h, e, ones, 1 - gap[:, None], multipliers, steps.astype(int), begin).min(axis=1)
    return np.where((begin > 0).all(axis=1), room, np.inf)


def _energy_slack(
    h: np.ndarray,
    e: np.ndarray,
    lr: np.ndarray,
    beta2: np.ndarray,
    multipliers: np.ndarray,
    steps: np.ndarray,
    begin: np.ndarray | None = None,
) -> np.ndarray:
    """Slack below 5f's bounds over each draw's own number of steps: (draws, 2), of the coordinates and of the energy.

    v begins at `begin`, by default at the first squared gradient.
    """
    begin = np.einsum("kij,kj->ki", h, e) ** 2 if begin is None else begin
    squares, energy, end = np.zeros_like(e), np.zeros(len(e)), begin
    for t, (_, g, v) in enumerate(orbit(h, e, lr, 0.0, beta2, int(steps.max()), begin)):
        counted = t < steps
        step = np.where(counted[:, None], lr * g / np.sqrt(v), 0.0)
        squares += step**2
        energy += np.einsum("ki,kij,kj->k", step, h, step)
        end = np.where(counted[:, None], v, end)
    count = steps[:, None]
    bound = count * lr**2 * (1 - beta2 * (begin / end) ** (1 / count)) / (1 - beta2)
    return np.stack([1 - (squares / bound).max(axis=1), 1 - energy / (multipliers * bound).sum(axis=1)], axis=1)


def orbit(
    h: np.ndarray, e: np.ndarray, lr: Any, beta1: Any, beta2: Any, steps: int, v: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Adam on many draws at once: e, g = He, and v after its update by g. m starts at the first gradient, and v at its
    square unless given.

    h is (draws, n, n), e is (draws, n); settings are numbers or columns. Before each step and at the end: steps + 1
    times.
    """
    m = np.einsum("kij,kj->ki", h, e)
    v = m * m if v is None else v
    for _ in range(steps + 1):
        g = np.matmul(h, e[:, :, None])[:, :, 0]
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * (g * g)
        yield e, g, v
        e = e - lr * m / np.sqrt(v)


def _random_blocks(rng: np.random.Generator, alone: bool = False) -> BlockQuadratic:
    """Six coordinates in dense blocks; with `alone`, the last is a block of its own."""
    sizes: list[int] = [1] if alone else []
    while sum(sizes) < 6:
        sizes.insert(0, int(rng.integers(1, 7 - sum(sizes))))
    scales = np.exp(rng.uniform(-3, 3, len(sizes)))
    return BlockQuadratic.from_blocks([scale * random_block(rng, n) for scale, n in zip(scales, sizes, strict=True)])


def _stack(problems: list[BlockQuadratic]) -> np.ndarray:
    return np.array([problem.hessian() for problem in problems])  # (draws, n, n)
