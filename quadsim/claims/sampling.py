"""Random problems, blocks and starts, and short runs, for the checks of claims."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from quadsim.engine.solver import solve
from quadsim.engine.trajectory import Trajectory
from quadsim.optimizers import FrozenAdam, Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.cases import case, case_spectra

EPS = float(np.finfo(float).eps)
MIN_LOSS = 1e-200  # relative to the first loss: smaller squares underflow


def random_problem(
    rng: np.random.Generator, *, max_kappa: float = 1e6, rotation: float | None = None, min_kappa: float = 1.0
) -> BlockQuadratic:
    """A random problem: a published case at a random κ, or random blocks; any rotation, scale and minimizer."""
    problem = _random_problem(rng, max_kappa, rotation)
    while problem.kappa < min_kappa:
        problem = _random_problem(rng, max_kappa, rotation)
    return problem


def _random_problem(rng: np.random.Generator, max_kappa: float, rotation: float | None) -> BlockQuadratic:
    angle = float(rng.choice([0.0, rng.uniform(), 1.0, 1.0])) if rotation is None else rotation
    seed, kind = int(rng.integers(2**31)), rng.uniform()
    if kind < 0.25:
        kappa = float(np.exp(rng.uniform(np.log(30), np.log(max_kappa))))
        return case(int(rng.integers(3, 5)), seed=seed, kappa=kappa, rotation=angle)
    if kind < 0.3:
        return case(int(rng.integers(1, 3)), seed=seed, kappa=min(5000.0, max_kappa), block_size=5, rotation=angle)
    kappa = np.exp(rng.uniform(0, np.log(max_kappa)))
    scale = np.exp(rng.uniform(-5, 5))
    sizes = rng.integers(1, 6, rng.integers(1, 5))
    spectra = [scale * np.exp(rng.uniform(0, np.log(kappa), n)) for n in sizes]
    if rng.uniform() < 0.2:
        spectra[0] = np.full(sizes[0], scale)  # repeated eigenvalues
    minimizer = rng.standard_normal(int(sizes.sum())) if rng.uniform() < 0.5 else None
    return BlockQuadratic.from_spectra(spectra, seed=seed, rotation=angle, minimizer=minimizer)


def random_problem_and_error(rng: np.random.Generator, max_kappa: float = 1e6) -> tuple[BlockQuadratic, np.ndarray]:
    """A random problem, and the error e₀ = w₀ − w⋆ of a random start."""
    problem = random_problem(rng, max_kappa=max_kappa)
    return problem, random_start(rng, problem) - problem.minimizer


_spectra = functools.cache(case_spectra)


def random_case(rng: np.random.Generator, number: int) -> BlockQuadratic:
    """Case 3 or 4 with random bases and minimizer 0."""
    return random_case_and_error(rng, number)[0]


def random_case_and_error(rng: np.random.Generator, number: int) -> tuple[BlockQuadratic, np.ndarray]:
    """Case 3 or 4 with the bases and the initial error of a random seed, and minimizer 0."""
    seed = int(rng.integers(2**31))
    problem = BlockQuadratic.from_spectra(_spectra(number), seed=seed)
    return problem, problem.initial_error(seed)


def rotated_blocks(q: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Blocks Q diag(values) Qᵀ of many bases Q, (bases, n, n)."""
    h = np.einsum("kij,j,klj->kil", q, values, q)
    return (h + h.swapaxes(1, 2)) / 2


def random_start(rng: np.random.Generator, problem: BlockQuadratic) -> np.ndarray:
    """A start around the minimizer: Gaussian, a sign vector, or of very different components. No error is zero."""
    kind, size = rng.integers(3), np.exp(rng.uniform(-3, 3))
    e = rng.standard_normal(problem.dim)
    if kind == 1:
        e = np.sign(e)
    elif kind == 2:
        e = e * np.exp(rng.uniform(-4, 4, problem.dim))
    return problem.minimizer + size * e


def frozen_against_scaled(
    problem: BlockQuadratic, w0: np.ndarray, lr: float, beta1: float, steps: int
) -> tuple[float, float, Trajectory]:
    """Frozen Adam compared with heavy ball on S = D^-½HD^-½, D = diag|g₀|, with lr in units of 1/s_max.

    Returns the relative deviation of the last gradients, the last loss of heavy ball, and the run of frozen Adam.
    """
    g = problem.grad(w0)
    root = np.sqrt(np.abs(g))
    s = problem.hessian() / np.outer(root, root)
    lr = float(lr / np.linalg.eigvalsh(s)[-1])
    z = before = g / root
    for _ in range(steps):
        z, before = z - lr * (1 - beta1) * (s @ z) + beta1 * (z - before), z
    run = run_compiled(problem, FrozenAdam(lr=lr, beta1=beta1), w0, steps)
    # relative to at least a thousandth of the first gradient: smaller ones are mostly rounding
    off = np.linalg.norm(problem.grad(run.w) - root * z) / max(np.linalg.norm(root * z), 1e-3 * np.linalg.norm(g))
    return float(off), 0.5 * (z @ np.linalg.solve(s, z)), run


def run_compiled(problem: BlockQuadratic, optimizer: Optimizer, w0: np.ndarray, steps: int) -> Trajectory:
    """This many steps of the compiled engine, every one recorded."""
    return solve(problem, optimizer, w0=w0, tol=0, max_steps=steps, record=1, engine="compiled")


def loss_ratios(problem: BlockQuadratic, optimizer: Optimizer, w0: np.ndarray, steps: int = 20) -> np.ndarray:
    """loss[t+1]/loss[t] of a compiled run, without losses near underflow."""
    loss = run_compiled(problem, optimizer, w0, steps).loss
    loss = loss[loss > MIN_LOSS * loss[0]]
    return loss[1:] / loss[:-1]


def random_block(rng: np.random.Generator, size: int, max_kappa: float = 1e4) -> np.ndarray:
    """A dense symmetric positive definite matrix with random eigenvalues and a Haar basis."""
    values = np.exp(rng.uniform(0, np.log(np.exp(rng.uniform(0, np.log(max_kappa)))), size))
    q = np.linalg.qr(rng.standard_normal((size, size)))[0]
    block = (q * values) @ q.T
    return (block + block.T) / 2


def one_block(h: Any) -> BlockQuadratic:
    return BlockQuadratic.from_blocks([h])


def diagonal_problem(values: Any) -> BlockQuadratic:
    """One diagonal block with these eigenvalues."""
    return BlockQuadratic.from_spectra([values], rotation=0)


def two_blocks(first: np.ndarray, second: np.ndarray, scale: float) -> BlockQuadratic:
    """A problem of two blocks, the second multiplied by `scale`."""
    return BlockQuadratic.from_blocks([first, scale * second])


def rotation_3d(angles: np.ndarray) -> np.ndarray:
    """The rotation in three dimensions by these angles in the three coordinate planes."""
    rotation = np.eye(3)
    for angle, (i, j) in zip(angles, ((0, 1), (0, 2), (1, 2)), strict=True):
        plane = np.eye(3)
        plane[[i, j, i, j], [i, j, j, i]] = np.cos(angle), np.cos(angle), -np.sin(angle), np.sin(angle)
        rotation = rotation @ plane
    return rotation
