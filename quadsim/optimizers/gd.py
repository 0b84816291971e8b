"""Gradient descent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.recurrence import Recurrence
from quadsim.problems.block_quadratic import BlockQuadratic


@dataclass(frozen=True)
class GD(Optimizer):
    """w ← w − lr·g: gradient descent.

    Parameters
    ----------
    lr : float, optional
        By default 2/(μ + L), the best constant (ledger 1a).

    Notes
    -----
    Invariant under rotation and signs.

    References
    ----------
    Cauchy (1847)

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 3]])
    >>> run = qs.solve(problem, qs.GD())
    >>> run.lr, run.steps_to_tol
    (0.5, 20)
    """

    name = "gd"
    label = "GD"
    colour = "#D55E00"
    list_order = 10
    reference = "Cauchy (1847)"
    homogeneous = True
    invariances = ("rotation", "signs")

    @staticmethod
    def rule(g: float, lr: float) -> float:
        return lr * g

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        return 2 / (problem.mu + problem.lipschitz)

    def recurrence(self, problem: BlockQuadratic, used: GD) -> Recurrence:
        return Recurrence(used.lr)
