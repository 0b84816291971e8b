"""Adam with v fixed at the first squared gradient."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadsim._validation import InputError
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.moments import ema
from quadsim.optimizers.recurrence import Recurrence
from quadsim.optimizers.settings import fraction
from quadsim.problems.block_quadratic import BlockQuadratic


@dataclass(frozen=True)
class FrozenAdam(Optimizer):
    """w ← w − lr·m/|g₀|, m ← β1·m + (1 − β1)·g, from m = 0: the Adam of the quadratic study, β2 = 1.

    v is fixed at the first squared gradient; no bias correction, ε = 0.

    Parameters
    ----------
    lr : float, optional
        By default 2/(s_min + s_max) over the eigenvalues s of D^-½HD^-½, D = diag|g₀| (ledger 2a). With β1 > 0 this is
        heavy ball, whose rate at a mode s depends on |1 + β1 − lr(1 − β1)s| alone, so the same balance of the two ends
        is best: times (1 + β1)/(1 − β1).
    beta1 : float
        The decay rate of m: with v fixed, the momentum of heavy ball.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Zhang et al. (2024), arXiv 2402.16788

    Examples
    --------
    >>> qs.solve(qs.case(3), qs.FrozenAdam()).steps_to_tol
    15
    >>> qs.solve(qs.case(4), qs.FrozenAdam()).steps_to_tol
    88718
    """

    name = "frozen-adam"
    label = "Adam (β2 = 1)"
    colour = "#0072B2"
    list_order = 20
    reference = "Zhang et al. (2024), arXiv 2402.16788"
    homogeneous = True
    invariances = ("signs", "scale")
    state = ("m", "root_v")

    beta1: float = fraction(0.0)

    @staticmethod
    def rule(g: float, m: float, root_v: float, lr: float, beta1: float) -> tuple[float, ...]:
        m = ema(m, g, beta1)
        return lr * m / root_v, m, root_v

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        size = np.abs(problem.hvp(error))
        self._check(size)
        if not size.any():
            return 1.0  # the start is the minimizer: no step will be taken
        scaled = problem.scaled_eigenvalues(size)
        ends = min(values[0] for values in scaled) + max(values[-1] for values in scaled)
        return float(2 / ends * (1 + self.beta1) / (1 - self.beta1))

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        self._check(g)
        return np.zeros_like(g), np.abs(g)

    def recurrence(self, problem: BlockQuadratic, used: FrozenAdam) -> Recurrence:
        assert isinstance(used.lr, float)
        return Recurrence(used.lr * (1 - used.beta1), used.beta1, metric="first-gradient")

    def _check(self, g: np.ndarray) -> None:
        if g.any() and not g.all():
            zero = np.flatnonzero(g == 0)[0]
            raise InputError(
                f"{self.name} divides by the first gradient, which is 0 in coordinate {zero}: start elsewhere"
            )
