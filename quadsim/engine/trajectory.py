"""The result of a run, `Trajectory`, and of several, `Runs`: frozen records that tables and figures read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.optimizers import LearningRate, Optimizer
from quadsim.optimizers.schedules import Schedule
from quadsim.problems.noise import Noise

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_STEPS = 10**12
NO_NOISE, CONSTANT_SCHEDULE = Noise(), Schedule()
MAX_RECORDED = 4096
LOG_POINTS = {"log": 2000, "coarse": 64}
DIVERGENCE_FACTOR = 1e100  # a loss above this times the first one (or the largest eigenvalue) counts as diverged


class Status(StrEnum):
    """How a run ended. A failure is a status, never a NaN.

    Attributes
    ----------
    CONVERGED : "converged"
        The gradient norm fell to tol times its first value.
    MAX_STEPS : "max-steps"
        max_steps was reached first.
    DIVERGED : "diverged"
        A value was not finite, the loss exceeded 1e100 times its first value, or a mode grows.
    UNDERFLOW : "underflow"
        A block left float64's range, where Adam's "convergence" is spurious (ledger 5i).

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.GD(lr=1.0))
    >>> run.status == qs.Status.DIVERGED, str(run.status)
    (True, 'diverged')
    """

    CONVERGED = "converged"  # the gradient norm fell to tol times its first value
    MAX_STEPS = "max-steps"  # max_steps was reached first
    DIVERGED = "diverged"  # a value was not finite, the loss exceeded DIVERGENCE_FACTOR, or a mode grows
    UNDERFLOW = "underflow"  # a block left float64's range, where Adam's "convergence" is spurious (ledger 5i)


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """One run: the recorded steps, and how it ended.

    Attributes
    ----------
    steps, loss, grad_norm : arrays
        The recorded steps with the loss gap and the gradient norm. All finite; the last entry is the last step, unless
        its values were not finite.
    log_loss, log_grad_norm : arrays
        Their natural logarithms. Those of closed forms stay accurate where the values underflow to 0.
    status : Status
    steps_to_tol : int or None
        The first step with ‖g‖/‖g₀‖ ≤ tol, whether or not it was recorded; None if there was none.
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
        The seed of problem, start and noise; None if the start was given and nothing else is random.
    tol, max_steps :
        The tolerance and the last step allowed.
    engine : str
        The engine that computed it: "compiled" or "closed-form".
    noise : Noise
    schedule : Schedule
    first_grad_norm : float or None
        ‖g₀‖ where step 0 is not among the recorded steps, as in `exact` with ``at``.
    lr_from : str
        The origin of the learning rate: "theory", "default", "given" or "tuned" (`optimizers.lr_origin`).

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.FrozenAdam(), tol=1e-8)
    >>> str(run.status), run.steps_to_tol, run.engine
    ('converged', 20, 'closed-form')
    >>> bool(run.relative[-1] <= 1e-8)
    True
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
    noise: Noise = NO_NOISE
    schedule: Schedule = CONSTANT_SCHEDULE
    first_grad_norm: float | None = None
    lr_from: str = "given"

    def __repr__(self) -> str:
        from quadsim._display import runs

        return runs.run_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import runs

        return runs.run_html(self)

    @property
    def lr(self) -> LearningRate:
        """The learning rate used; one for each block in BlockGD."""
        return self.optimizer.lr

    @property
    def relative(self) -> np.ndarray:
        """‖g‖/‖g₀‖ at the recorded steps; 0 where the start is the minimizer."""
        first = self.first_grad_norm
        if first is None:
            first = float(self.grad_norm[0]) if self.grad_norm.size else 0.0
        return self.grad_norm / first if first else np.zeros_like(self.grad_norm)

    def to_frame(self) -> pd.DataFrame:
        """The recorded steps as a tidy table.

        Returns
        -------
        DataFrame
            One row for each recorded step; the columns are lane (0), problem, optimizer, label, seed, step, loss,
            grad_norm and relative, which is ‖g‖/‖g₀‖.

        Examples
        --------
        >>> qs.solve(qs.case(3), qs.FrozenAdam()).to_frame()["step"].tolist()[-3:]
        [13, 14, 15]
        """
        return Runs((self,)).to_frame()

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the gradient norm against steps, on log axes.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.convergence`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.solve(qs.case(3), qs.FrozenAdam()).plot()
        """
        from quadsim import plots

        return plots.convergence(self, ax=ax, **options)


@dataclass(frozen=True, eq=False, repr=False)
class Runs(Sequence[Trajectory]):
    """The runs of one call of `solve`: a sequence of `Trajectory`, and a table of them.

    Attributes
    ----------
    trajectories : tuple of Trajectory

    Examples
    --------
    >>> runs = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()], seed=range(3))
    >>> len(runs), runs[1].optimizer.name, len(runs[2:])
    (6, 'frozen-adam', 4)
    """

    trajectories: tuple[Trajectory, ...]

    def __len__(self) -> int:
        return len(self.trajectories)

    def __getitem__(self, number: Any) -> Any:
        """A run, or for a slice the `Runs` in it."""
        selected = self.trajectories[number]
        return Runs(selected) if isinstance(number, slice) else selected

    def __repr__(self) -> str:
        from quadsim._display import runs

        return runs.runs_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import runs

        return runs.runs_html(self)

    def table(self) -> pd.DataFrame:
        """The settings of the runs and how they ended.

        Returns
        -------
        DataFrame
            One row for each run.

        Examples
        --------
        >>> table = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()]).table()
        >>> table[["optimizer", "steps_to_tol", "status"]].values.tolist()
        [['gd', 31657, 'converged'], ['frozen-adam', 15, 'converged']]
        """
        from quadsim.engine import table

        return table.summary(self.trajectories)

    def to_frame(self) -> pd.DataFrame:
        """The recorded steps of all runs as a tidy table, a lane for each run.

        Returns
        -------
        DataFrame
            One row for each recorded step; the columns are those of `Trajectory.to_frame`.

        Examples
        --------
        >>> qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()]).to_frame().groupby("optimizer")["step"].max().to_dict()
        {'frozen-adam': 15, 'gd': 31657}
        """
        from quadsim.engine import table

        return table.curves(self.trajectories)

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the gradient norms against steps, on log axes: a curve for each run.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.convergence`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()]).plot()
        """
        from quadsim import plots

        return plots.convergence(self, ax=ax, **options)


def checked_limits(max_steps: Any, tol: Any, record: str | int) -> tuple[int | None, float]:
    """max_steps and tol, if they and record are valid."""
    if max_steps is not None:
        max_steps = checks.whole("max_steps", max_steps, at_least=0, at_most=MAX_STEPS)
    tol = checks.real("tol", tol, at_least=0)
    record_marks(record, 0)  # raises if record is invalid
    return max_steps, tol


def record_marks(record: str | int, max_steps: int) -> np.ndarray:
    """The steps to record, 0 first: at most MAX_RECORDED."""
    if isinstance(record, str):
        if record not in LOG_POINTS:
            names = ", ".join(repr(name) for name in LOG_POINTS)
            raise InputError(f"record must be {names} or a whole number of at least 1, got {checks.shown(record)}")
        return _log_marks(record, max_steps)
    every = checks.whole("record", record, at_least=1)
    if max_steps // every >= MAX_RECORDED:
        raise InputError(
            f"record={every} would keep {max_steps // every + 1} points of {max_steps} steps: "
            f"use record={max_steps // MAX_RECORDED + 1} or more, or record='log'"
        )
    return np.arange(0, max_steps + 1, every, dtype=np.int64)


@lru_cache(maxsize=1024)
def _log_marks(record: str, max_steps: int) -> np.ndarray:
    """0, and steps evenly spaced on a log scale; read-only, as the cached array is shared."""
    points = LOG_POINTS[record]
    spaced = 10.0 ** (np.arange(points) * (np.log10(max(max_steps, 1)) / (points - 1)))
    spaced[-1] = max_steps
    marks = np.append(0, np.minimum(spaced.round(), max_steps).astype(np.int64))
    marks = marks[np.append(True, marks[1:] > marks[:-1])]
    marks.flags.writeable = False
    return marks
