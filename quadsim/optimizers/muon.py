"""Muon: momentum orthogonalized by Newton–Schulz iterations."""

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from quadsim._validation import InputError
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.moments import ema
from quadsim.optimizers.settings import flag, fraction, nonnegative, positive, whole
from quadsim.problems.block_quadratic import BlockQuadratic

# The quintic of Jordan (2024): x, x³ and x⁵ of each singular value; its slope at 0 is as steep as possible.
LINEAR, CUBIC, QUINTIC = 3.4445, -4.7750, 2.0315


def rows_of(size, rows):  # type: ignore[no-untyped-def]
    """The number of rows of a block's matrix: the setting, or for 0 as nearly square as possible, and not tall."""
    rows = int(rows) if rows > 0 else int(math.sqrt(size) + 1e-9)
    while size % rows > 0:
        rows -= 1
    return rows


def newton_schulz(x, gram, polynomial, updated, rows, columns, rounds):  # type: ignore[no-untyped-def]
    """Bring the singular values of the matrix x (row after row) towards 1: each round, x ← c₁x + c₃(xxᵀ)x + c₅(xxᵀ)²x.

    A tall matrix is read as its transpose, so that the smaller of xxᵀ and xᵀx is formed.
    """
    short, long = min(rows, columns), max(rows, columns)
    down, along = (columns, 1) if rows <= columns else (1, columns)
    for _ in range(rounds):
        for i in range(short):
            for j in range(short):
                total = 0.0
                for k in range(long):
                    total += x[i * down + k * along] * x[j * down + k * along]
                gram[i, j] = total
        for i in range(short):
            for j in range(short):
                total = 0.0
                for k in range(short):
                    total += gram[i, k] * gram[k, j]
                polynomial[i, j] = CUBIC * gram[i, j] + QUINTIC * total
        for i in range(short):
            for k in range(long):
                total = 0.0
                for j in range(short):
                    total += polynomial[i, j] * x[j * down + k * along]
                updated[i * down + k * along] = LINEAR * x[i * down + k * along] + total
        for i in range(x.size):
            x[i] = updated[i]


@dataclass(frozen=True)
class Muon(Optimizer):
    """w ← w − lr·√max(1, columns/rows)·O, O the momentum with singular values brought near 1: Muon of Jordan (2024).

    The momentum m ← β·m + (1 − β)·g is corrected for bias. O comes from ``ns_steps`` Newton–Schulz iterations on it,
    after division by its Frobenius norm + ε. All as in optax.contrib.muon, in float64; torch's iterates in bfloat16,
    does not correct for bias, and stretches tall matrices, not wide ones. The lr is Jordan's.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta : float
        β, the decay rate of m.
    eps : float
        ε, added to the norm.
    nesterov : bool
        Look ahead.
    weight_decay : float
        Shrinks w by lr·weight_decay.
    rows : int
        A block's coordinates are a matrix of this many rows, one after the other; 0 makes it as nearly square as
        its size allows, and not tall: 9 is 3×3, 12 is 3×4, and 3 is 1×3, where O is the normalized momentum.
    ns_steps : int
        Newton–Schulz iterations.

    Notes
    -----
    Invariant under scale.

    References
    ----------
    Jordan et al. (2024), kellerjordan.github.io/posts/muon

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.Muon(), max_steps=200)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('max-steps', True)
    """

    name = "muon"
    label = "Muon"
    colour = "#1B6142"
    stroke = "dash-dot"
    list_order = 42
    reference = "Jordan et al. (2024), kellerjordan.github.io/posts/muon"
    invariances = ("scale",)
    scope = "block"
    state = ("m",)
    shared_state = ("weight", "of_m", "of_g")

    lr: float = positive(0.02)
    beta: float = fraction(0.95)
    eps: float = nonnegative(1e-8)
    nesterov: bool = flag(True)
    weight_decay: float = nonnegative(0.0)
    rows: int = whole(0, at_least=0)
    ns_steps: int = whole(5, at_least=1)

    @staticmethod
    def rule(g, w, m, step, lr, beta, eps, weight_decay, rows, ns_steps, of_m, of_g):  # type: ignore[no-untyped-def]
        height = rows_of(g.size, rows)
        width = g.size // height
        short = min(height, width)
        x, updated = np.empty(g.size), np.empty(g.size)
        gram, polynomial = np.empty((short, short)), np.empty((short, short))
        total = 0.0
        for i in range(g.size):
            m[i] = ema(m[i], g[i], beta)
            x[i] = of_m * m[i] + of_g * g[i]
            total += x[i] * x[i]
        size = np.sqrt(total) + eps
        for i in range(g.size):
            x[i] = x[i] / size if size > 0 else 0.0
        newton_schulz(x, gram, polynomial, updated, height, width, int(ns_steps))
        stretch = np.sqrt(max(1.0, width / height))
        for i in range(g.size):
            step[i] = lr * (stretch * x[i] + weight_decay * w[i])

    @staticmethod
    def once_per_step(weight, beta, nesterov):  # type: ignore[no-untyped-def]
        weight = ema(weight, 1.0, beta)
        ahead = ema(weight, 1.0, beta)
        if nesterov > 0:
            return weight, beta / ahead, (1 - beta) / weight
        return weight, 1 / weight, 0.0

    def with_best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        for size in problem.sizes:
            if self.rows > 0 and size % self.rows > 0:
                raise InputError(f"{self.name}.rows must divide every block's size, got {self.rows} for one of {size}")
        return super().with_best_lr(problem, error)

    def first_shared_state(self) -> tuple[float, ...]:
        return 0.0, math.nan, math.nan
