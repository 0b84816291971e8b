"""Methods that see a whole block, or all coordinates, at once: one second moment for them, or their matrix."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from quadsim.checks import InputError
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import check
from quadsim.optimizers.variants import Moments
from quadsim.problem import BlockQuadratic


def shared_v_rule(g, m, v, step, lr, beta1, beta2, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
    total = 0.0
    for i in range(g.size):
        total += g[i] * g[i]
    shared = beta2 * v[0] + (1 - beta2) * (total / g.size)  # every coordinate remembers the same v
    root = np.sqrt(shared) * unbias2 + eps
    for i in range(g.size):
        m[i] = beta1 * m[i] + (1 - beta1) * g[i]
        v[i] = shared
        step[i] = lr * (m[i] * unbias1) / root if root > 0 else 0.0


@dataclass(frozen=True)
class AdamMini(Moments):
    """Adam-mini of Zhang et al. (2024): Adam with one v for each block, the moving average of the block's mean of g².

    The blocks are the problem's. On blocks of size 1 it is Adam. Defaults are the paper's.
    """

    name = "adam-mini"
    label = "Adam-mini"
    scope = "block"
    rule = shared_v_rule
    state = ("m", "v")


@dataclass(frozen=True)
class AdaSGD(Moments):
    """AdaSGD of Wang & Wiens (2020): Adam with one v for all coordinates, the moving average of the mean of g².

    The momentum is Adam's, so that only v differs. The paper's own, m ← β1·m + g without bias correction, makes steps
    that are 1/(1 − β1) times as long once it has filled.
    """

    name = "adasgd"
    label = "AdaSGD"
    scope = "all"
    rule = shared_v_rule
    state = ("m", "v")


# The quintic of Jordan (2024): x, x³ and x⁵ of each singular value; its slope at 0 is as steep as can be.
LINEAR, CUBIC, QUINTIC = 3.4445, -4.7750, 2.0315


def rows_of(size, rows):  # type: ignore[no-untyped-def]
    """How many rows a block's matrix has: those asked for, or as many as make it most nearly square, and not tall."""
    rows = int(rows) if rows > 0 else int(math.sqrt(size) + 1e-9)
    while size % rows > 0:
        rows -= 1
    return rows


def newton_schulz(x, gram, bent, moved, rows, columns, rounds):  # type: ignore[no-untyped-def]
    """Bring the singular values of the matrix x (row after row) towards 1: each round, x ← c₁x + c₃(xxᵀ)x + c₅(xxᵀ)²x.

    A tall matrix is transposed in thought, so that the square one is the smaller of xxᵀ and xᵀx.
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
                bent[i, j] = CUBIC * gram[i, j] + QUINTIC * total
        for i in range(short):
            for k in range(long):
                total = 0.0
                for j in range(short):
                    total += bent[i, j] * x[j * down + k * along]
                moved[i * down + k * along] = LINEAR * x[i * down + k * along] + total
        for i in range(x.size):
            x[i] = moved[i]


def muon_rule(g, w, m, step, lr, beta, eps, weight_decay, rows, ns_steps, of_m, of_g):  # type: ignore[no-untyped-def]
    height = rows_of(g.size, rows)
    width = g.size // height
    short = min(height, width)
    x, moved = np.empty(g.size), np.empty(g.size)
    gram, bent = np.empty((short, short)), np.empty((short, short))
    total = 0.0
    for i in range(g.size):
        m[i] = beta * m[i] + (1 - beta) * g[i]
        x[i] = of_m * m[i] + of_g * g[i]
        total += x[i] * x[i]
    size = np.sqrt(total) + eps
    for i in range(g.size):
        x[i] = x[i] / size if size > 0 else 0.0
    newton_schulz(x, gram, bent, moved, height, width, int(ns_steps))
    stretch = np.sqrt(max(1.0, width / height))
    for i in range(g.size):
        step[i] = lr * (stretch * x[i] + weight_decay * w[i])


def muon_tick(weight, beta, nesterov):  # type: ignore[no-untyped-def]
    weight = beta * weight + (1 - beta)
    ahead = beta * weight + (1 - beta)
    if nesterov > 0:
        return weight, beta / ahead, (1 - beta) / weight
    return weight, 1 / weight, 0.0


@dataclass(frozen=True)
class Muon(Optimizer):
    """Muon of Jordan (2024): w ← w − lr·√max(1, columns/rows)·O, O the momentum with singular values brought near 1.

    A block's coordinates are a matrix of ``rows`` rows, one after the other; ``rows=0`` makes it as nearly square as
    its size allows, and not tall: 9 is 3×3, 12 is 3×4, and 3 is 1×3, of which all that is left is the direction. The
    momentum m ← β·m + (1 − β)·g is corrected for bias, and looks ahead as Nesterov's does unless told not to. O comes
    from ``ns_steps`` rounds of Newton & Schulz's iteration on it, divided by its Frobenius norm + ε first.
    ``weight_decay`` shrinks w by lr·weight_decay. All as in optax.contrib.muon, in float64; torch's iterates in
    bfloat16, does not correct for bias, and stretches tall matrices, not wide ones. The lr is Jordan's.
    """

    name = "muon"
    label = "Muon"
    scope = "block"
    rule = muon_rule
    state = ("m",)
    tick = muon_tick
    clock = ("weight", "of_m", "of_g")

    lr: float = 0.02
    beta: float = 0.95
    eps: float = 1e-8
    nesterov: bool = True
    weight_decay: float = 0.0
    rows: int = 0
    ns_steps: int = 5

    def __post_init__(self) -> None:
        check(self, fractions=("beta",), sizes=("eps", "weight_decay"), flags=("nesterov",))
        check(self, wholes={"rows": 0, "ns_steps": 1})

    def resolved(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        for size in problem.sizes:
            if self.rows > 0 and size % self.rows > 0:
                raise InputError(f"{self.name}.rows must divide every block's size, got {self.rows} for one of {size}")
        return super().resolved(problem, error)

    def first_clock(self) -> tuple[float, ...]:
        return 0.0, math.nan, math.nan
