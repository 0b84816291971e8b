"""Polyak's heavy ball."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.momentum import BELOW_ONE, Momentum
from quadsim.optimizers.recurrence import Recurrence
from quadsim.problems.block_quadratic import BlockQuadratic


@dataclass(frozen=True)
class HeavyBall(Momentum):
    """w₊ = w − lr·g + momentum·(w − w₋), from w₋ = w: Polyak's heavy ball.

    Parameters
    ----------
    lr, momentum : float, optional
        By default the best of all settings, lr = 4/(√L + √μ)² and momentum = ((√κ − 1)/(√κ + 1))² (ledger 4a, 4b). With
        one of the two given, the other is the best for it, that is, of least spectral radius over [μ, L]:
        lr = 2(1 + momentum)/(μ + L), or momentum = max((1 − √(lr·μ))², (1 − √(lr·L))²), which is below 1 for every lr
        below 4/L; no momentum is stable from there on, and the run diverges.

    Notes
    -----
    Invariant under rotation and signs.

    Proof. The roots of mode x = lr·λ solve z² − (1 + b − x)z + b = 0. Their radius is √b where b ≥ (1 − √x)²; below
    that it falls as b grows (at the larger root the derivative in b is 1 − z > 0, or 1 + |z| if z < 0). So the least b
    that covers both ends, where (1 − √x)² is largest, is best. For given b the radius is a nondecreasing function of
    |1 + b − x|, whose maximum over [μ, L] is least where both ends are equal.

    References
    ----------
    Polyak (1964)

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 9]])
    >>> run = qs.solve(problem, qs.HeavyBall())
    >>> run.optimizer, run.steps_to_tol
    (HeavyBall(lr=0.25, momentum=0.25), 26)
    """

    name = "heavy-ball"
    label = "Heavy ball"
    colour = "#E69F00"
    list_order = 12
    reference = "Polyak (1964)"
    state = ("step",)

    @staticmethod
    def rule(g: float, step: float, lr: float, momentum: float) -> tuple[float, float]:
        step = lr * g + momentum * step
        return step, step

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        if self.momentum is not None:
            return 2 * (1 + self.momentum) / (problem.mu + problem.lipschitz)
        return 4 / (math.sqrt(problem.mu) + math.sqrt(problem.lipschitz)) ** 2

    def best_momentum(self, problem: BlockQuadratic) -> float:
        assert isinstance(self.lr, float)
        roots = [1 - math.sqrt(self.lr * end) for end in (problem.mu, problem.lipschitz)]
        return min(max(root**2 for root in roots), BELOW_ONE)

    def lr_limit(self, problem: BlockQuadratic) -> float:
        return 4 / problem.lipschitz

    def recurrence(self, problem: BlockQuadratic, used: HeavyBall) -> Recurrence:
        assert used.momentum is not None
        return Recurrence(used.lr, used.momentum, double_root=self.lr is None and self.momentum is None)
