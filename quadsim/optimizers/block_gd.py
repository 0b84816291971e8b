"""Gradient descent with one learning rate for each block."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.gd import GD
from quadsim.optimizers.recurrence import Recurrence
from quadsim.problems.block_quadratic import BlockQuadratic


@dataclass(frozen=True)
class BlockGD(Optimizer):
    """w_l ← w_l − lr_l·g_l in block l: gradient descent with one learning rate for each block.

    Parameters
    ----------
    lr : float or sequence of float, optional
        One for all blocks, or one for each. By default 2/(μ_l + L_l) (ledger 3).

    Notes
    -----
    Invariant under rotation and signs.

    References
    ----------
    Zhang et al. (2024), arXiv 2402.16788

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 3], [100, 300]])
    >>> run = qs.solve(problem, qs.BlockGD())
    >>> run.lr, run.steps_to_tol
    ((0.5, 0.005), 20)
    """

    name = "block-gd"
    label = "Block GD"
    colour = "#009E73"
    list_order = 11
    reference = "Zhang et al. (2024), arXiv 2402.16788"
    homogeneous = True
    invariances = ("rotation", "signs")
    rule = staticmethod(GD.rule)

    def __post_init__(self) -> None:
        rates: Any = self.lr
        if isinstance(rates, str | bytes) or not isinstance(rates, Sequence | np.ndarray) or np.ndim(rates) == 0:
            super().__post_init__()
            return
        if len(rates) == 0:
            raise InputError(f"{self.name}.lr must be one number, or one for each block, got {checks.shown(rates)}")
        object.__setattr__(self, "lr", tuple(checks.real(f"{self.name}.lr", rate, above=0) for rate in rates))

    def with_best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        lr, count = self.lr, len(problem.blocks)
        if isinstance(lr, tuple) and len(lr) != count:
            raise InputError(f"{self.name}.lr must be one number, or one for each of {count} blocks, got {len(lr)}")
        return super().with_best_lr(problem, error)

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> tuple[float, ...]:
        return tuple(float(2 / (values[0] + values[-1])) for values in problem.eigenvalues)

    def recurrence(self, problem: BlockQuadratic, used: BlockGD) -> Recurrence:
        rates = np.broadcast_to(np.asarray(used.lr, dtype=float), (len(problem.sizes),))
        return Recurrence(np.repeat(rates, problem.sizes))
