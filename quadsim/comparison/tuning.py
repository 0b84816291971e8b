"""Tuning learning rates: a log grid, extended where its best lies on the edge, refined around the best.

`paired` compares optimizers on other seeds: scores on the tuning seeds are optimistically biased.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _progress
from quadsim import _validation as checks
from quadsim._progress import Task
from quadsim._random import refuse_seeds, seed_list
from quadsim.comparison.evaluation import (
    Draw,
    EvaluationProtocol,
    Progress,
    cached_draw,
    diverged,
    log_loss,
    of_rounds,
    underflowed,
)
from quadsim.comparison.search import Search
from quadsim.optimizers import Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LOG10_2 = float(np.log10(2))
FAILED_SHARE = {"median": 0.5, "upper": 0.25}  # of the draws, by the statistic that then is infinite
MAX_LEADERS = 8  # as many as the compiled engine runs in one batch


@dataclass(frozen=True, eq=False, repr=False)
class Tuned:
    """An optimizer at the best of the settings tried.

    Attributes
    ----------
    optimizer : Optimizer
        With its best settings.
    settings : dict
        The best settings: "lr" and any others that were tuned.
    tried : DataFrame
        One row for each setting: its quartiles of the objective over the tuning seeds (lower, median, upper), the
        shares of them on which it diverged and underflowed (both have an infinite objective), the median of log10 final
        loss, and the level of the search: "coarse" (or "given" for a user's grid), "extended" or "refined".
        ``best`` marks the chosen one: the least median; ties are broken by upper quartile, lower quartile, share
        diverged, share underflowed, final loss, learning rate.
    edge : "lowest", "highest" or None
        Whether the best lies at an end of the learning rates tried: others beyond it may be better.
    failed : "diverged", "underflow", "not-reached" or None
        How the best setting failed, if every setting failed on at least half of the seeds (a quarter, if upper
        quartiles were minimised).
    given : bool
        Whether there was nothing to tune.
    factor : bool
        Whether "lr" is a factor on the best known learning rates of the blocks (BlockGD).
    leaders : tuple of (Optimizer, array)
        The best settings tried, eight at most, the chosen one first; each with its objective on every tuning seed.
    problem : str
        The problem's name.
    objective : str
        What was minimised.

    Examples
    --------
    >>> tuned = qs.tune(qs.case(3), qs.GD(), seed=range(3), grid=[1e-5, 1e-4], max_steps=50)
    >>> tuned.optimizer, tuned.edge
    (GD(lr=0.0001), 'highest')
    """

    optimizer: Optimizer
    settings: dict[str, Any]
    tried: pd.DataFrame
    objective: str
    edge: str | None = None
    failed: str | None = None
    given: bool = False
    factor: bool = False
    leaders: tuple[tuple[Optimizer, np.ndarray], ...] = ()
    problem: str = ""

    def __repr__(self) -> str:
        from quadsim._display import comparisons

        return comparisons.tuned_text(self)

    def _repr_html_(self) -> str:
        from quadsim._display import comparisons

        return comparisons.tuned_html(self)

    def to_frame(self) -> pd.DataFrame:
        """The trials as a tidy table.

        Returns
        -------
        DataFrame
            ``tried``, one row for each setting, with the columns problem, optimizer and label before the others.

        Examples
        --------
        >>> tuned = qs.tune(qs.case(3), qs.GD(), seed=range(3), grid=[1e-5, 1e-4], max_steps=50)
        >>> tuned.to_frame()["lr"].tolist()
        [1e-05, 0.0001]
        """
        names = {"problem": self.problem, "optimizer": self.optimizer.name, "label": self.optimizer.label}
        return self.tried.assign(**names)[[*names, *self.tried]]

    def plot(self, ax: Axes | None = None, **options: Any) -> Figure | Axes:
        """Draw the objective against the learning rate.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default a new figure is made.
        options :
            As in `quadsim.plots.sensitivity`.

        Returns
        -------
        Figure or Axes
            The new figure, or ``ax``.

        Examples
        --------
        >>> figure = qs.tune(qs.case(3), qs.GD(), seed=range(3), max_steps=50).plot()
        """
        from quadsim import plots

        if self.given:
            raise checks.InputError(f"nothing to draw: the settings of {self.optimizer.name} were given, not tuned")
        return plots.sensitivity(self, ax=ax, **options)

    def curve(self) -> pd.DataFrame:
        """The trials with the chosen other settings, by learning rate.

        Returns
        -------
        DataFrame
            The rows of ``tried``, sorted.

        Examples
        --------
        >>> tuned = qs.tune(qs.case(3), qs.GD(), seed=range(3), grid=[1e-4, 1e-5], max_steps=50)
        >>> tuned.curve()["lr"].tolist()
        [1e-05, 0.0001]
        """
        frame = self.tried
        for name, value in self.settings.items():
            if name != "lr":
                frame = frame[frame[name] == value]
        return frame.sort_values("lr")

    def _profile(self) -> tuple[np.ndarray, np.ndarray, int]:
        """The curve as log10 of learning rates and decades above the best, and the index of the best."""
        curve = self.curve()
        heights, best = curve["median"].to_numpy(), int(np.argmax(curve["best"].to_numpy()))
        return np.log10(curve["lr"].to_numpy()), heights - heights[best], best

    @property
    def slack(self) -> float:
        """Decades that a finer grid might gain: by the parabola through the best trial and its neighbours.

        If a neighbour is missing, or worse by more than a decade (a cliff), it is the other one's difference to the
        best: the slope may continue up to the cliff. 0 if nothing is known.
        """
        if self.given or self.failed:
            return 0.0
        x, y, best = self._profile()
        before = y[best - 1] if best > 0 else np.inf
        after = y[best + 1] if best + 1 < len(y) else np.inf
        if max(before, after) > 1:
            return float(min(before, after)) if np.isfinite(min(before, after)) else 0.0
        left, right = x[best] - x[best - 1], x[best + 1] - x[best]
        # a·x² + b·x through (-left, before), (0, 0) and (right, after) has its least value -b²/4a.
        a = (before / left + after / right) / (left + right)
        b = (after / right * left - before / left * right) / (left + right)
        return float(b * b / (4 * a)) if a > 0 else 0.0

    def sensitivity(self) -> dict[str, Any]:
        """The sensitivity to the learning rate, by linear interpolation of `curve`.

        Returns
        -------
        dict
            "lr_low" and "lr_high" are the ends of the range around the best where the median objective is within a
            factor 2 (0.301 decades) of the best; "lr_range" is their ratio, and "lr_range_open" is true if the range
            reaches an end of the learning rates tried. "halved" and "doubled" are the decades lost at half and at twice
            the best learning rate; None if that lies outside the learning rates tried.

        Examples
        --------
        >>> tuned = qs.tune(qs.case(3), qs.GD(), seed=range(3), grid=[1e-5, 1e-4, 3e-4], max_steps=50)
        >>> tuned.sensitivity()["lr_range_open"]
        True
        """
        if self.given or self.failed:
            return dict.fromkeys(("lr_low", "lr_high", "lr_range", "lr_range_open", "halved", "doubled"))
        x, y, best = self._profile()
        low, low_open = _crossing(x[best::-1], y[best::-1])
        high, high_open = _crossing(x[best:], y[best:])
        return {
            "lr_low": float(10**low),
            "lr_high": float(10**high),
            "lr_range": float(10 ** (high - low)),
            "lr_range_open": low_open or high_open,
            "halved": _interpolated(x, y, x[best] - LOG10_2),
            "doubled": _interpolated(x, y, x[best] + LOG10_2),
        }


def tune(
    problem: Draw | BlockQuadratic,
    optimizer: Optimizer,
    *,
    seed: int | Sequence[int] | str,
    grid: Any = None,
    objective: str = "final-loss",
    max_steps: int | None = None,
    tol: float = 1e-6,
    refine: int | None = None,
    extend: int | None = None,
    statistic: str = "median",
    engine: str = "compiled",
    threads: int | None = None,
    progress: Progress | bool | None = None,
    **how: Any,
) -> Tuned:
    """The best learning rate (and other settings) of an optimizer, over draws of a problem.

    Parameters
    ----------
    problem : BlockQuadratic, or a function of the seed that returns one
        A function draws a problem for each seed; a fixed problem has a new start (and noise) for each seed.
    optimizer : Optimizer
    seed : int, a list or range of them, or text such as "0..29"
        The draws to tune on. Scores on them are optimistically biased: confirm on others.
    grid : list of float, or dict of lists, optional
        Learning rates, or values of any settings by name: ``{"lr": [0.01, 0.1], "beta2": [0.9, 0.99]}``, of which all
        combinations are tried. Without learning rates: two for each decade, two decades to both sides of a first guess
        (1/L for methods whose steps grow with the gradient, 0.01 for others).
    objective, max_steps, tol :
        What is minimised: see `EvaluationProtocol`. 500 steps by default, 100,000 for "steps-to-tol".
    refine : int, optional
        Rounds of geometric midpoints around the best. By default 3, after which learning rates are 10^(1/16) apart; 0
        if learning rates are given.
    extend : int, optional
        Decades by which the grid may grow beyond either end while the best lies there. By default 4; 0 if learning
        rates are given.
    statistic : "median" or "upper"
        What is minimised over the draws: the median of the objective, or its upper quartile, which rules out settings
        that fail on more than a quarter of the draws.
    engine : str
        As in `solve`: "auto" evaluates methods with a closed form without running steps.
    threads : int, optional
        As in `solve`.
    progress : bool or callable, optional
        By default a call of more than two seconds shows its progress on standard error; False shows nothing. A function
        is called with (label of the round, seeds done, seeds in the round).
    how :
        noise, schedule, start: as in `solve`.

    Returns
    -------
    Tuned

    Examples
    --------
    >>> tuned = qs.tune(lambda seed: qs.case(3, seed=seed), qs.GD(), seed="0..2", max_steps=50)
    >>> tuned.edge, tuned.failed, tuned.objective
    (None, None, 'final-loss')
    >>> 2e-4 < tuned.optimizer.lr < 8e-4
    True
    """
    refuse_seeds(how)
    protocol = EvaluationProtocol(objective, max_steps, tol, threads, how, engine)
    seeds = seed_list("seed", seed)
    checks.choice("statistic", statistic, FAILED_SHARE)
    draw = cached_draw(problem)
    with _progress.of_call(progress, "tune", 1.0, takes="a label and two counts") as task:
        search = Search(optimizer, draw(seeds[0]), grid, refine, extend, how.get("noise"), statistic)
        task.label = f"tune {optimizer.name}"
        run_searches(draw, [search], seeds, protocol, reporter(progress, task))
    return outcome(search, protocol)


def reporter(progress: Any, task: Task) -> Progress:
    """The function that the rounds of a call report to: the caller's, or one that fills the task."""
    call = task.label
    return progress if callable(progress) else of_rounds(lambda share, label: task.advance(share, f"{call}: {label}"))


def run_searches(
    draw: Draw, searches: list[Search], seeds: list[int], protocol: EvaluationProtocol, progress: Progress
) -> None:
    """Run all searches to the end, round by round; the trials of all of them run in one batch on each draw."""
    while asked := [(search, trial) for search in searches for trial in search.ask()]:
        levels = {trial["level"] for _, trial in asked}
        first = next(level for level in ("given", "coarse", "extended", "refined") if level in levels)
        optimizers = [search.optimizer_at(trial) for search, trial in asked]
        rows = protocol.runs(draw, optimizers, seeds, progress, f"tuning, {first} grid")
        results = np.array(
            [[(protocol.score(run), log_loss(run), diverged(run), underflowed(run)) for run in runs] for runs in rows]
        )
        for k, (search, trial) in enumerate(asked):
            search.tell(trial, *results[:, k].T)


def outcome(search: Search, protocol: EvaluationProtocol) -> Tuned:
    """The best of the trials."""
    import pandas as pd

    names = ["lr", *search.others[0]]
    columns = [*names, "level", "lower", "median", "upper", "diverged", "underflow", "log_loss", "best"]
    given = {"lr": search.lrs[0], **search.others[0], "median": 0.0, "scores": np.zeros(1)}
    ranked = [given] if search.given else search.ranked()
    best = ranked[0]
    frame = pd.DataFrame([{**row, "best": row is best} for row in search.rows], columns=columns)
    lrs = [row["lr"] for row in search.neighbours(best)]
    edge = {lrs[0]: "lowest", lrs[-1]: "highest"}.get(best["lr"]) if len(lrs) > 1 else None
    failed = None
    if not search.given and not np.isfinite(best[search.statistic]):
        failed = max(("diverged", "underflow"), key=lambda how: best[how])
        if protocol.objective == "steps-to-tol" and best[failed] < FAILED_SHARE[search.statistic]:
            failed = "not-reached"
    return Tuned(
        optimizer=search.optimizer_at(best),
        settings={name: best[name] for name in names},
        tried=frame.sort_values([*names[1:], "lr"], ignore_index=True),
        objective=protocol.objective,
        edge=edge,
        failed=failed,
        given=search.given,
        factor=search.rates is not None,
        problem=search.problem,
        leaders=tuple((search.optimizer_at(row), row["scores"]) for row in ranked[:MAX_LEADERS]),
    )


def _crossing(x: np.ndarray, y: np.ndarray) -> tuple[float, bool]:
    """The x at which y, which starts at 0, first exceeds a factor 2; the last x, and True, if it never does."""
    beyond = np.flatnonzero(~(y <= LOG10_2))
    if not beyond.size:
        return float(x[-1]), True
    k = int(beyond[0])
    if not np.isfinite(y[k]):  # the crossing lies between the two, at an unknown x
        return float(x[k - 1]), False
    return float(x[k - 1] + (x[k] - x[k - 1]) * (LOG10_2 - y[k - 1]) / (y[k] - y[k - 1])), False


def _interpolated(x: np.ndarray, y: np.ndarray, at: float) -> float | None:
    """y at ``at`` by linear interpolation; infinite next to an infinite value, None outside the range."""
    if at < x[0] - 1e-9 or at > x[-1] + 1e-9:
        return None
    k = int(np.clip(np.searchsorted(x, at), 1, len(x) - 1))
    if np.isinf(y[k - 1]) or np.isinf(y[k]):
        exact = [y[j] for j in (k - 1, k) if abs(x[j] - at) < 1e-9]
        return float(exact[0]) if exact else float("inf")
    return float(np.interp(at, x, y))
