"""What a run leaves behind: a frozen record that tables and figures read, and nothing reaches back from."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache

import numpy as np

from quadsim import checks
from quadsim.checks import InputError
from quadsim.noise import Noise
from quadsim.optimizers import LearningRate, Optimizer
from quadsim.schedules import Schedule

MOST_STEPS = 10**12
MOST_RECORDED = 4096
LOG_POINTS = {"log": 2000, "coarse": 64}
EXPLODED = 1e100  # a loss this many times the first one (or the largest eigenvalue) will not come back


class Status(StrEnum):
    """How a run ended. A failure is a status, never a NaN."""

    CONVERGED = "converged"  # the gradient norm fell to tol times its first value
    MAX_STEPS = "max-steps"  # it had not by the last step
    DIVERGED = "diverged"  # a value was not finite, or the loss exploded, or is known to
    UNDERFLOW = "underflow"  # a block left float64's range, where Adam's "convergence" is spurious (ledger 5i)


@dataclass(frozen=True, eq=False)
class Trajectory:
    """One run: what was recorded on the way, and how it ended.

    Attributes
    ----------
    steps, loss, grad_norm : arrays
        The recorded steps with the loss gap and the gradient norm there. All finite; the last entry is the run's end,
        unless the values there were not finite.
    log_loss, log_grad_norm : arrays
        Their natural logarithms. Those of `exact` stay in order where the values themselves underflow to 0.
    status : Status
    steps_to_tol : int or None
        The first step with ‖g‖/‖g₀‖ ≤ tol, exact whatever was recorded; None if there was none.
    last_step : int
        The step at which the run stopped.
    w, w0 : array
        The final point, and the start w₀ = w* + e₀.
    error : array
        The final error e = w − w*, without the rounding of w.
    optimizer : Optimizer
        The optimizer with its learning rate filled in.
    problem : str
        The problem's name.
    minimizer : str
        Where the problem's minimizer comes from: "gaussian", "zero" or "given".
    seed : int or None
        The seed of the start and of the noise; None if the start was given and nothing else is random.
    tol, max_steps :
        As asked for.
    engine : str
        What made it: "iterate" (`solve`), or "exact".
    noise : Noise
    schedule : Schedule
    """

    steps: np.ndarray
    loss: np.ndarray
    grad_norm: np.ndarray
    log_loss: np.ndarray
    log_grad_norm: np.ndarray
    status: Status
    steps_to_tol: int | None
    last_step: int
    w: np.ndarray
    w0: np.ndarray
    error: np.ndarray
    optimizer: Optimizer
    problem: str
    minimizer: str
    seed: int | None
    tol: float
    max_steps: int
    engine: str
    noise: Noise = field(default_factory=Noise)
    schedule: Schedule = field(default_factory=Schedule)

    @property
    def lr(self) -> LearningRate:
        """The learning rate used; one for each block in BlockGD."""
        return self.optimizer.lr


def record_marks(record: str | int, max_steps: int) -> np.ndarray:
    """The steps to record, 0 first: at most a few thousand however long the run."""
    if isinstance(record, str):
        if record not in LOG_POINTS:
            words = ", ".join(repr(word) for word in LOG_POINTS)
            raise InputError(f"record must be {words} or a whole number of at least 1, got {checks.shown(record)}")
        return _log_marks(record, max_steps)
    every = checks.whole("record", record, at_least=1)
    if max_steps // every >= MOST_RECORDED:
        raise InputError(
            f"record={every} would keep {max_steps // every + 1} points of {max_steps} steps: "
            f"use record={max_steps // MOST_RECORDED + 1} or more, or record='log'"
        )
    return np.arange(0, max_steps + 1, every, dtype=np.int64)


@lru_cache(maxsize=1024)
def _log_marks(record: str, max_steps: int) -> np.ndarray:
    """0, and steps evenly spaced on a log scale; read-only, as it is shared."""
    points = LOG_POINTS[record]
    spaced = 10.0 ** (np.arange(points) * (np.log10(max(max_steps, 1)) / (points - 1)))
    spaced[-1] = max_steps
    marks = np.append(0, np.minimum(spaced.round(), max_steps).astype(np.int64))
    marks = marks[np.append(True, marks[1:] > marks[:-1])]
    marks.flags.writeable = False
    return marks
