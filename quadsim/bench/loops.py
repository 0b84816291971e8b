"""What is timed: whole runs of many steps, written as well as each package lets one write them.

A contestant is handed a task and makes a function of no arguments that runs it from the start, and returns where the
runs ended. Here are quadsim, numpy, and the machine's own matrix product; `peers` has those that need other packages.

quadsim computes loss and gradient norm of every step and looks after convergence, divergence and underflow; each
lane has settings of its own. The others do the least that makes a step, the gradient and the update, with one learning
rate for all: that favours them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quadsim import solver
from quadsim.optimizers import GD, Adam
from quadsim.problem import BlockQuadratic

DENSE = 256  # up to this dimension, the Hessian as one dense matrix may be quicker than its blocks
PRODUCT = 768  # size of the matrix product that the machine is measured by

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
        """The Hessian as stacked blocks, or as one dense matrix where that may be quicker."""
        return ["stacked", "dense"] if self.problem.dim <= DENSE else ["stacked"]

    @property
    def flops(self) -> int:
        """Of the gradients of all lanes, which are what a step of GD costs at least."""
        return 2 * self.lanes * self.blocks.size


def problem(blocks: int, block_size: int, seed: int = 0) -> BlockQuadratic:
    """Eigenvalues from 1 to 5000, spread over every block, in Haar bases."""
    values = np.geomspace(1, 5000, blocks * block_size)
    return BlockQuadratic.from_spectra([values[block::blocks] for block in range(blocks)], seed=seed)


@dataclass(frozen=True)
class Contestant:
    """``ready(task, variant, steps)`` makes the run; the quickest of its variants for the task counts.

    ``overhead`` is a guess at the seconds that a step takes beside its arithmetic, to begin with; ``longer``, how many
    times as long as others it runs to come to its pace.
    """

    name: str
    variants: Callable[[Task], list[str]]
    ready: Callable[[Task, str, int], Run]
    overhead: float
    longer: int = 1


def quadsim_run(task: Task, variant: str, steps: int) -> Run:
    """`solve_lanes` with tol = 0, which records the first and the last step only."""
    starts = list(task.starts.reshape(-1, task.lanes).T)
    optimizers = [task.optimizer] * task.lanes

    def run() -> np.ndarray:
        done = solver.solve_lanes(
            task.problem, optimizers, w0=starts, max_steps=steps, tol=0, record=max(steps, 1), threads=task.threads
        )
        return np.stack([one.w for one in done], axis=1).reshape(task.starts.shape)

    return run


def numpy_forms(task: Task) -> list[str]:
    return [*task.forms, "block by block"]


def numpy_run(task: Task, variant: str, steps: int) -> Run:
    """A loop in Python that makes no new arrays."""
    optimizer, hessian = task.optimizer, task.problem.hessian() if variant == "dense" else task.blocks
    lr: Any = optimizer.lr

    def run() -> np.ndarray:
        w, g = task.starts.copy(), np.empty_like(task.starts)
        gradient = _numpy_gradient(hessian, variant, w, g)
        if isinstance(optimizer, GD):
            for _ in range(steps):
                gradient()
                np.multiply(g, lr, out=g)
                np.subtract(w, g, out=w)
        else:
            _numpy_adam(optimizer, gradient, w, g, steps)
        return w

    return run


def _numpy_gradient(hessian: np.ndarray, variant: str, w: np.ndarray, g: np.ndarray) -> Callable[[], Any]:
    """A function that puts H w into g."""
    if variant == "stacked":
        return lambda: np.matmul(hessian, w, out=g)
    lanes = () if w.shape[2] == 1 else (w.shape[2],)  # one lane is a vector
    if variant == "dense":
        flat_w, flat_g = w.reshape(-1, *lanes), g.reshape(-1, *lanes)  # views
        return lambda: np.dot(hessian, flat_w, out=flat_g)
    parts = [(h, x.reshape(-1, *lanes), y.reshape(-1, *lanes)) for h, x, y in zip(hessian, w, g, strict=True)]

    def gradient() -> None:
        for h, x, y in parts:
            np.dot(h, x, out=y)

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
    """As many products of square matrices as there are steps: what the machine can do, by numpy's own dgemm."""
    a, b = np.random.default_rng(0).standard_normal((2, PRODUCT, PRODUCT))
    c = np.empty_like(a)

    def run() -> np.ndarray:
        for _ in range(steps):
            np.matmul(a, b, out=c)
        return c

    return run


# Lanes are dealt to threads by the interpreter, and run in slices that begin short: some milliseconds in all.
QUADSIM = Contestant("quadsim", lambda task: ["lanes"], quadsim_run, 2e-7, longer=4)
NUMPY = Contestant("numpy", numpy_forms, numpy_run, 1e-5)
DGEMM = Contestant("dgemm", lambda task: ["product"], product_run, 0.015)
