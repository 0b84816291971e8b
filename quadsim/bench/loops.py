"""The contestants: complete runs of many steps, written as efficiently as each package allows.

A contestant turns a task into a function of no arguments that runs it from the start and returns the final weights.
This module has quadsim, numpy and the matrix product (dgemm); `peers` has those that need other packages.

quadsim computes loss and gradient norm at every step and checks for convergence, divergence and underflow; each lane
has its own settings. The others only compute the gradient and the update, with one learning rate for all lanes: the
comparison favours them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quadsim.engine import solver
from quadsim.optimizers import GD, Adam
from quadsim.problems.block_quadratic import BlockQuadratic

MAX_DENSE_DIM = 256  # up to this dimension one dense matrix may be faster than blocks
DGEMM_SIZE = 768  # of the matrices whose product measures the machine's rate

Run = Callable[[], np.ndarray]


@dataclass(frozen=True)
class Task:
    """Runs of one optimizer on one problem whose blocks have one size and whose minimizer is zero."""

    problem: BlockQuadratic
    optimizer: GD | Adam
    lanes: int = 1
    threads: int = 1

    @cached_property
    def blocks(self) -> np.ndarray:
        return np.stack(self.problem.blocks)  # (blocks, n, n)

    @cached_property
    def starts(self) -> np.ndarray:
        """A Gaussian start for each lane: (blocks, n, lanes)."""
        columns = [self.problem.start(seed) for seed in range(self.lanes)]
        return np.stack(columns, axis=1).reshape(*self.blocks.shape[:2], self.lanes)

    @property
    def forms(self) -> list[str]:
        """Forms of the Hessian: stacked blocks, or one dense matrix where that may be faster."""
        return ["stacked", "dense"] if self.problem.dim <= MAX_DENSE_DIM else ["stacked"]

    @property
    def flops(self) -> int:
        """Floating-point operations of the gradients of all lanes, a lower bound on those of a step."""
        return 2 * self.lanes * self.blocks.size


def problem(blocks: int, block_size: int, seed: int = 0) -> BlockQuadratic:
    """Eigenvalues from 1 to 5000, spread over every block, in Haar bases."""
    values = np.geomspace(1, 5000, blocks * block_size)
    return BlockQuadratic.from_spectra([values[block::blocks] for block in range(blocks)], seed=seed)


@dataclass(frozen=True)
class Contestant:
    """``ready(task, variant, steps)`` returns the run; the fastest variant counts.

    ``overhead`` is a first guess of the seconds per step besides arithmetic. A run takes ``longer`` times as long as
    those of other contestants, to amortize its start.
    """

    name: str
    variants: Callable[[Task], list[str]]
    ready: Callable[[Task, str, int], Run]
    overhead: float
    longer: int = 1


def quadsim_run(task: Task, variant: str, steps: int) -> Run:
    """`solve` with tol = 0, which records the first and the last step only."""
    starts = list(task.starts.reshape(-1, task.lanes).T)

    def run() -> np.ndarray:
        how: dict[str, Any] = {"max_steps": steps, "record": max(steps, 1), "tol": 0, "engine": "compiled"}
        runs = solver.solve(task.problem, [task.optimizer], w0=starts, threads=task.threads, **how)
        return np.stack([run.w for run in runs], axis=1).reshape(task.starts.shape)

    return run


def numpy_run(task: Task, variant: str, steps: int) -> Run:
    """A Python loop without allocation."""
    optimizer, hessian = task.optimizer, task.problem.hessian() if variant == "dense" else task.blocks
    lr: Any = optimizer.lr

    def run() -> np.ndarray:
        w, g = task.starts.copy(), np.empty_like(task.starts)
        gradient = gradient_into(g, hessian, w, variant, stacked=np.matmul, single=np.dot)
        if isinstance(optimizer, GD):
            for _ in range(steps):
                gradient()
                np.multiply(g, lr, out=g)
                np.subtract(w, g, out=w)
        else:
            _numpy_adam(optimizer, gradient, w, g, steps)
        return w

    return run


def gradient_into(
    g: Any, hessian: Any, w: Any, form: str, *, stacked: Callable[..., Any], single: Callable[..., Any]
) -> Callable[[], Any]:
    """A function that computes g = H w in place, by a product of stacked matrices or products of single ones."""
    if form == "stacked":
        return lambda: stacked(hessian, w, out=g)
    shape = (-1,) if w.shape[2] == 1 else (-1, w.shape[2])  # one lane is a vector
    if form == "dense":
        flat_w, flat_g = w.reshape(shape), g.reshape(shape)  # views
        return lambda: single(hessian, flat_w, out=flat_g)
    parts = [(h, x.reshape(shape), y.reshape(shape)) for h, x, y in zip(hessian, w, g, strict=True)]

    def gradient() -> None:
        for h, x, y in parts:
            single(h, x, out=y)

    return gradient


def _numpy_adam(adam: Adam, gradient: Callable[[], Any], w: np.ndarray, g: np.ndarray, steps: int) -> None:
    m, v, square = np.zeros_like(w), np.zeros_like(w), np.empty_like(w)
    weight1 = weight2 = 1.0
    for _ in range(steps):
        gradient()
        weight1, weight2 = weight1 * adam.beta1, weight2 * adam.beta2
        np.multiply(g, g, out=square)
        square *= 1 - adam.beta2
        v *= adam.beta2
        v += square
        g *= 1 - adam.beta1
        m *= adam.beta1
        m += g
        np.sqrt(v, out=square)
        square *= (1 - weight2) ** -0.5
        square += adam.eps
        np.divide(m, square, out=g)
        g *= adam.lr / (1 - weight1)
        w -= g


def product_run(task: Task, variant: str, steps: int) -> Run:
    """A product of square matrices per step, by numpy's dgemm: measures the floating-point rate of the machine."""
    a, b = np.random.default_rng(0).standard_normal((2, DGEMM_SIZE, DGEMM_SIZE))
    c = np.empty_like(a)

    def run() -> np.ndarray:
        for _ in range(steps):
            np.matmul(a, b, out=c)
        return c

    return run


# quadsim assigns lanes to threads in Python, in slices that start short: some milliseconds in total.
QUADSIM = Contestant("quadsim", lambda task: ["lanes"], quadsim_run, 2e-7, longer=4)
NUMPY = Contestant("numpy", lambda task: [*task.forms, "block by block"], numpy_run, 1e-5)
DGEMM = Contestant("dgemm", lambda task: ["product"], product_run, 0.015)
