"""What a run leaves behind: a frozen record that tables and figures read, and nothing reaches back from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from quadsim.optimizers import LearningRate, Optimizer


class Status(StrEnum):
    """How a run ended. A failure is a status, never a NaN."""

    CONVERGED = "converged"  # the gradient norm fell to tol times its first value
    MAX_STEPS = "max-steps"  # it had not by the last step
    DIVERGED = "diverged"  # a value was not finite, or the loss exploded
    UNDERFLOW = "underflow"  # a block left float64's range, where Adam's "convergence" is spurious (ledger 5i)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run: what was recorded on the way, and how it ended.

    Attributes
    ----------
    steps, loss, grad_norm : arrays
        The recorded steps with the loss gap and the gradient norm there. All finite; the last entry is the run's end,
        unless the values there were not finite.
    status : Status
    steps_to_tol : int or None
        The first step with ‖g‖/‖g₀‖ ≤ tol, exact whatever was recorded; None if there was none.
    last_step : int
        The step at which the run stopped.
    w : array
        The final point.
    optimizer : Optimizer
        The optimizer with its learning rate filled in.
    problem : str
        The problem's name.
    seed : int or None
        The seed of the start; None if the start was given.
    tol, max_steps :
        As asked for.
    """

    steps: np.ndarray
    loss: np.ndarray
    grad_norm: np.ndarray
    status: Status
    last_step: int
    w: np.ndarray
    optimizer: Optimizer
    problem: str
    seed: int | None
    tol: float
    max_steps: int

    @property
    def steps_to_tol(self) -> int | None:
        return self.last_step if self.status is Status.CONVERGED else None

    @property
    def lr(self) -> LearningRate:
        """The learning rate used; one for each block in BlockGD."""
        return self.optimizer.lr
