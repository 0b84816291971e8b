"""Choosing learning rates honestly: a log grid, extended where its best lies on the edge, refined around the best.

What is minimised has a name, and a run that diverged counts as infinitely bad. Nothing here knows an optimizer's rule,
and nothing here compares optimizers: the seeds that a setting was chosen on say too much good of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import checks
from quadsim.bootstrap import quantile, quartiles
from quadsim.checks import InputError, InputTypeError
from quadsim.optimizers import Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.solver import USUAL_STEPS, solve_draws, solve_lanes
from quadsim.trajectory import MOST_RECORDED, MOST_STEPS, Status, Trajectory

if TYPE_CHECKING:
    import pandas as pd

OBJECTIVES = ("final-loss", "steps-to-tol", "mean-log-loss")
PER_DECADE, DECADES = 2, 2  # the coarse grid: this dense, and this far to both sides of the first guess
REFINE, EXTEND = 3, 4  # rounds of midpoints around the best; decades that a grid may grow on either side
TWICE = float(np.log10(2))
LEAST_LOSS, LEAST_RELATIVE = 1e-300, 1e-12  # losses below these count as these
LEADERS = 8  # as many lanes as run side by side
KEPT = 2_000_000  # recorded points, and entries of drawn Hessians, held at a time

Draw = Callable[[int], BlockQuadratic]
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Terms:
    """How runs are made and judged: everything but the problem, the optimizer and the seeds.

    ``objective`` is in decades, and smaller is better:

    - "final-loss": log10 of the loss after ``steps`` steps;
    - "steps-to-tol": log10 of the first step with ‖g‖/‖g₀‖ ≤ tol, infinite if there is none within ``steps``;
    - "mean-log-loss": mean over steps 1 to ``steps`` of log10 max(L/L₀, 1e-12).

    A run that diverged is infinitely bad. One that left float64's range (status underflow) counts with the loss that it
    had there. Losses below 1e-300 count as 1e-300.
    """

    objective: str = "final-loss"
    steps: int | None = None
    tol: float = 1e-6
    threads: int | None = None
    how: Mapping[str, Any] = field(default_factory=dict)  # noise, schedule, start: for the solver

    def __post_init__(self) -> None:
        checks.choice("objective", self.objective, OBJECTIVES)
        usual = USUAL_STEPS if self.objective == "steps-to-tol" else 500
        steps = usual if self.steps is None else self.steps
        object.__setattr__(self, "steps", checks.whole("steps", steps, at_least=1, at_most=MOST_STEPS))
        object.__setattr__(self, "tol", checks.real("tol", self.tol, above=0, below=1))

    @property
    def every(self) -> int:
        """Which steps are looked at on the way: every one, or every k-th of a long run."""
        assert self.steps is not None
        return self.steps // MOST_RECORDED + 1

    def score(self, run: Trajectory) -> float:
        """The objective of a run."""
        if run.status == Status.DIVERGED:
            return np.inf
        if self.objective == "final-loss":
            return _log_loss(run)
        if self.objective == "steps-to-tol":
            return np.inf if run.steps_to_tol is None else float(np.log10(max(run.steps_to_tol, 1)))
        assert self.steps is not None
        relative = run.loss / run.loss[0] if run.loss[0] else np.zeros_like(run.loss)
        at = np.arange(self.every, self.steps + 1, self.every)  # a run that ended before stays where it was
        return float(np.interp(at, run.steps, np.log10(np.maximum(relative, LEAST_RELATIVE))).mean())

    def runs(
        self, draw: Draw, optimizers: Sequence[Optimizer], seeds: Sequence[int], *, whole: bool, told: Callable
    ) -> Iterator[list[Trajectory]]:
        """The optimizers' runs, seed by seed; recorded on the way, or (not ``whole``) as the objective needs them."""
        assert self.steps is not None
        record = self.every if whole or self.objective == "mean-log-loss" else self.steps
        tol = self.tol if self.objective == "steps-to-tol" else 0.0
        held = max(KEPT // ((self.steps // record + 2) * len(optimizers)), 1)
        for first in range(0, len(seeds), held):
            part = seeds[first : first + held]
            lanes = solve_draws(
                draw, optimizers, part, max_steps=self.steps, tol=tol, record=record, threads=self.threads,
                progress=lambda done: told(first + done), **self.how,  # noqa: B023
            )  # fmt: skip
            for place in range(len(part)):
                yield [lanes[place * len(optimizers) + k] for k in range(len(optimizers))]


@dataclass(frozen=True, eq=False)
class Tuned:
    """An optimizer at the best of the settings tried.

    Attributes
    ----------
    optimizer : Optimizer
        With its best settings.
    settings : dict
        The best settings: "lr", and whatever else was tuned.
    tried : DataFrame
        One row for each setting: its quartiles of the objective over the tuning seeds (lower, median, upper), the share
        of them on which it diverged, the median of log10 final loss, and the level at which it was tried: "coarse" (or
        "given", if the grid was), "extended" or "refined". `best` marks the one chosen: the least median; among equals
        the least upper quartile, then lower quartile, then share diverged, then final loss, then learning rate.
    edge : "lowest", "highest" or None
        Whether the best is still at an end of the learning rates tried: others beyond it may be better.
    failed : "diverged", "not-reached" or None
        Whether, and how, every setting failed on half of the seeds or more.
    given : bool
        Whether there was nothing to tune.
    factor : bool
        Whether "lr" is a factor on the best known learning rates of the blocks (BlockGD).
    leaders : tuple of (Optimizer, array)
        The best settings tried, eight at most, the chosen one first; each with its objective on every tuning seed.
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

    def curve(self) -> pd.DataFrame:
        """The learning rates tried beside the best one, all other settings as chosen, in order."""
        frame = self.tried
        for name, value in self.settings.items():
            if name != "lr":
                frame = frame[frame[name] == value]
        return frame.sort_values("lr")

    @property
    def slack(self) -> float:
        """How much, in decades, a finer grid might still gain: by the parabola through the best and its neighbours.

        Where a neighbour is absent or worse by more than a decade, a cliff, it is what the other one is behind: the
        slope up to the best may go on until the cliff. 0 where nothing is known.
        """
        if self.given or self.failed:
            return 0.0
        curve = self.curve()
        heights, at = curve["median"].to_numpy(), int(np.argmax(curve["best"].to_numpy()))
        if len(heights) < 2:
            return 0.0
        before = heights[at - 1] - heights[at] if at > 0 else np.inf
        after = heights[at + 1] - heights[at] if at + 1 < len(heights) else np.inf
        if max(before, after) > 1:
            return float(min(before, after)) if np.isfinite(min(before, after)) else 0.0
        x = np.log10(curve["lr"].to_numpy()[at - 1 : at + 2])
        left, right = x[1] - x[0], x[2] - x[1]
        # a·x² + b·x through (-left, before), (0, 0) and (right, after) has its least value -b²/4a.
        a = (before / left + after / right) / (left + right)
        b = (after / right * left - before / left * right) / (left + right)
        return float(b * b / (4 * a)) if a > 0 else 0.0

    def sensitivity(self) -> dict[str, Any]:
        """How much the result depends on the learning rate, read off `curve` by straight lines between its points.

        "lr_low" and "lr_high" are the ends of the range around the best where the median objective is within a factor 2
        (0.301 decades) of the best; "lr_range" is their ratio, and "lr_range_open" says that it reaches an end of
        the learning rates tried. "halved" and "doubled": decades lost at half and at twice the best; None where that
        was not tried.
        """
        if self.given or self.failed:
            names = ("lr_low", "lr_high", "lr_range", "lr_range_open", "halved", "doubled")
            return dict.fromkeys(names)
        curve = self.curve()
        x, y = np.log10(curve["lr"].to_numpy()), curve["median"].to_numpy()
        at = int(np.argmax(curve["best"].to_numpy()))
        y = y - y[at]
        low, low_open = _leaves(x[at::-1], y[at::-1])
        high, high_open = _leaves(x[at:], y[at:])
        return {
            "lr_low": float(10**low),
            "lr_high": float(10**high),
            "lr_range": float(10 ** (high - low)),
            "lr_range_open": low_open or high_open,
            "halved": _between(x, y, x[at] - TWICE),
            "doubled": _between(x, y, x[at] + TWICE),
        }


def tune(
    draw: Draw | BlockQuadratic,
    optimizer: Optimizer,
    *,
    seeds: Sequence[int],
    grid: Any = None,
    objective: str = "final-loss",
    steps: int | None = None,
    tol: float = 1e-6,
    refine: int | None = None,
    extend: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Tuned:
    """The best learning rate (and other settings) of an optimizer, over draws of a problem.

    Parameters
    ----------
    draw : callable or BlockQuadratic
        ``draw(seed)`` is the problem; a fixed problem has other starts (and noise) for other seeds.
    seeds : list of int
        The draws to tune on. Results on the same draws are too good to be true: confirm on others.
    grid : list of float, or dict of lists, optional
        Learning rates, or values of any settings by name: ``{"lr": [0.01, 0.1], "beta2": [0.9, 0.99]}``, of which all
        combinations are tried. Without learning rates: two for each decade, two decades to both sides of a first guess
        (1/L for methods whose steps grow with the gradient, 0.01 for others).
    objective, steps, tol :
        What is minimised: see `Terms`. 500 steps by default, 100,000 for "steps-to-tol".
    refine : int
        Rounds of geometric midpoints around the best: 3, which leaves learning rates 10^(1/16) apart; 0 for a grid
        that was given.
    extend : int
        Decades by which the grid may grow beyond either end while the best lies there: 4; 0 for a grid that was given.
    progress : callable, optional
        Told ("what", seeds done, seeds of this round).
    how :
        Noise, schedule, start: as `solve_draws` takes them.

    >>> qs.tune(lambda seed: qs.case(3, seed=seed), qs.Adam(), seeds=range(30)).optimizer.lr
    """
    terms = Terms(objective, steps, tol, threads, how)
    listed = seeds_of("seeds", seeds)
    draw = remembered(draw)
    search = Search(optimizer, draw(listed[0]), grid, refine, extend)
    run_searches(draw, [search], listed, terms, progress)
    return search.outcome(terms)


def run_searches(
    draw: Draw, searches: Sequence[Search], seeds: list[int], terms: Terms, progress: Progress | None = None
) -> None:
    """Run all searches to their ends, round by round: what all of them ask for runs side by side on each draw."""
    told = progress or (lambda what, done, total: None)
    while asked := [(search, trial) for search in searches for trial in search.asks()]:
        levels = {trial["level"] for _, trial in asked}
        what = next(level for level in ("given", "coarse", "extended", "refined") if level in levels)
        optimizers = [search.optimizer_at(trial) for search, trial in asked]
        rows = terms.runs(
            draw, optimizers, seeds, whole=False, told=lambda done: told(f"tuning, {what} grid", done, len(seeds))  # noqa: B023
        )  # fmt: skip
        judged = np.array([[(terms.score(run), _log_loss(run), _gone(run)) for run in runs] for runs in rows])
        for k, (search, trial) in enumerate(asked):
            search.hears(trial, *judged[:, k].T)


class Search:
    """What has been tried of one optimizer, and what to try next: coarse grid, extensions, rounds of refinement."""

    def __init__(
        self, optimizer: Optimizer, problem: BlockQuadratic, grid: Any = None, refine: Any = None, extend: Any = None
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
        settings = _settings(optimizer, grid)
        given = "lr" in settings
        self.refine = checks.whole("refine", (0 if given else REFINE) if refine is None else refine, at_least=0)
        self.extend = checks.whole("extend", (0 if given else EXTEND) if extend is None else extend, at_least=0)
        self.first_level = "given" if given else "coarse"
        self.optimizer, self.rates = optimizer, None if given else _block_rates(optimizer, problem)
        if not given:
            guess = 1.0 if self.rates else _first_guess(optimizer, problem)
            middle = round(np.log10(guess) * PER_DECADE)
            reach = DECADES * PER_DECADE
            settings["lr"] = [10 ** (k / PER_DECADE) for k in range(middle - reach, middle + reach + 1)]
        others = [name for name in settings if name != "lr"]
        combinations = itertools.product(*(settings[name] for name in others))
        self.others = [dict(zip(others, values, strict=True)) for values in combinations]
        self.lrs = sorted(settings["lr"])
        self.rows: list[dict[str, Any]] = []
        self.rounds = 0

    @property
    def given(self) -> bool:
        """Whether there is nothing to tune."""
        return len(self.others) == len(self.lrs) == 1

    def optimizer_at(self, trial: Mapping[str, Any]) -> Optimizer:
        """The optimizer with these settings."""
        settings = {name: trial[name] for name in ("lr", *self.others[0])}
        if self.rates is not None:
            settings["lr"] = tuple(settings["lr"] * rate for rate in self.rates)
        return replace(self.optimizer, **settings)

    def asks(self) -> list[dict[str, Any]]:
        """The settings to try next; none when the search is over."""
        if self.given:
            return []
        if not self.rows:
            level = {"level": self.first_level}
            return [{**other, "lr": lr, **level} for other in self.others for lr in self.lrs]
        if len(self.lrs) == 1:
            return []
        if beyond := [trial for other in self.others for trial in self._beyond(other)]:
            return beyond
        if self.rounds == self.refine or not np.isfinite(min(self.rows, key=_rank)["median"]):
            return []
        self.rounds += 1
        best = min(self.rows, key=_rank)
        lrs = [row["lr"] for row in self._beside(best)]
        at = lrs.index(best["lr"])
        between = [(lrs[k] * lrs[k + 1]) ** 0.5 for k in (at - 1, at) if 0 <= k < len(lrs) - 1]
        return [{**self._other(best), "lr": lr, "level": "refined"} for lr in between]

    def hears(self, trial: dict[str, Any], scores: np.ndarray, losses: np.ndarray, gone: np.ndarray) -> None:
        """What came of a trial, seed by seed."""
        told = {name: float(value) for name, value in quartiles(scores).items()} | {"diverged": float(gone.mean())}
        self.rows.append({**trial, **told, "log_loss": float(quantile(losses, 0.5)), "scores": scores})

    def outcome(self, terms: Terms) -> Tuned:
        """The best of what was tried."""
        import pandas as pd

        names = ["lr", *self.others[0]]
        columns = [*names, "level", "lower", "median", "upper", "diverged", "log_loss", "best"]
        if self.given:
            settings = {"lr": self.lrs[0], **self.others[0]}
            only = self.optimizer_at(settings)
            leaders = ((only, np.zeros(1)),)
            return Tuned(only, settings, pd.DataFrame(columns=columns), terms.objective, given=True, leaders=leaders)
        ranked = sorted(self.rows, key=_rank)
        best = ranked[0]
        frame = pd.DataFrame([{**row, "best": row is best} for row in self.rows], columns=columns)
        beside = [row["lr"] for row in self._beside(best)]
        edge = None
        if len(beside) > 1:
            edge = {beside[0]: "lowest", beside[-1]: "highest"}.get(best["lr"])
        failed = None
        if not np.isfinite(best["median"]):
            failed = "diverged" if best["diverged"] >= 0.5 else "not-reached"
        return Tuned(
            optimizer=self.optimizer_at(best),
            settings={name: best[name] for name in names},
            tried=frame.sort_values([*names[1:], "lr"], ignore_index=True),
            objective=terms.objective,
            edge=edge,
            failed=failed,
            factor=self.rates is not None,
            leaders=tuple((self.optimizer_at(row), row["scores"]) for row in ranked[:LEADERS]),
        )

    def _other(self, row: dict[str, Any]) -> dict[str, Any]:
        return {name: row[name] for name in self.others[0]}

    def _beside(self, row: dict[str, Any]) -> list[dict[str, Any]]:
        """The trials that differ from this one in the learning rate alone, in order."""
        other = self._other(row)
        return sorted((row for row in self.rows if self._other(row) == other), key=lambda row: row["lr"])

    def _beyond(self, other: dict[str, Any]) -> list[dict[str, Any]]:
        """One decade more where the best learning rate beside these settings lies at an end, as far as allowed."""
        rows = [row for row in self.rows if self._other(row) == other]
        best, lrs = min(rows, key=_rank), sorted(row["lr"] for row in rows)
        room = self.extend * (1 - 1e-9)
        if best["lr"] == lrs[0] and np.log10(self.lrs[0] / lrs[0]) < room:
            end, way = lrs[0], -1
        elif best["lr"] == lrs[-1] and np.log10(lrs[-1] / self.lrs[-1]) < room:
            end, way = lrs[-1], 1
        else:
            return []
        more = [end * 10 ** (way * k / PER_DECADE) for k in range(1, PER_DECADE + 1)]
        return [{**other, "lr": lr, "level": "extended"} for lr in more if 1e-300 < lr < 1e300]


def _rank(row: dict[str, Any]) -> list[float]:
    return [row[key] for key in ("median", "upper", "lower", "diverged", "log_loss", "lr")]


def remembered(draw: Draw | BlockQuadratic) -> Draw:
    """The draw, with the problems of earlier rounds at hand as long as they are small; a problem draws itself."""
    if isinstance(draw, BlockQuadratic):
        return lambda seed: draw
    if not callable(draw):
        raise InputTypeError(f"draw must be a function of the seed, or a BlockQuadratic, got {checks.shown(draw)}")
    known: dict[int, BlockQuadratic] = {}

    def drawn(seed: int) -> BlockQuadratic:
        if seed in known:
            return known[seed]
        problem = draw(seed)
        if not isinstance(problem, BlockQuadratic):
            raise InputTypeError(f"draw must return a BlockQuadratic, got {checks.shown(problem)}")
        size = sum(n * n for n in problem.sizes)
        if size * (len(known) + 1) <= KEPT:
            known[seed] = problem
        return problem

    return drawn


def seeds_of(name: str, seeds: Any, at_least: int = 1) -> list[int]:
    """The seeds as a list, each once."""
    if isinstance(seeds, str | Mapping) or not isinstance(seeds, Sequence | np.ndarray | range):
        raise InputTypeError(f"{name} must be a list of whole numbers, got {checks.shown(seeds)}")
    listed = [checks.whole(name, seed, at_least=0) for seed in seeds]
    if len(set(listed)) < len(listed):
        twice = next(seed for seed in listed if listed.count(seed) > 1)
        raise InputError(f"{name} must differ from each other, got {twice} twice")
    if len(listed) < at_least:
        raise InputError(f"{name} must name at least {at_least}, got {len(listed)}")
    return listed


def _settings(optimizer: Optimizer, grid: Any) -> dict[str, list[Any]]:
    """The grid as lists by name of the setting, checked."""
    if grid is None:
        return {}
    by_name = grid if isinstance(grid, Mapping) else {"lr": grid}
    known = optimizer.settings()
    settings = {}
    for name, values in by_name.items():
        checks.choice(f"setting of {optimizer.name}", name, known)
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray):
            raise InputTypeError(f"{optimizer.name}.{name} must be a list of values to try, got {checks.shown(values)}")
        listed = [value.item() if isinstance(value, np.generic) else value for value in values]
        what = f"the grid of {optimizer.name}.{name}"
        if not listed:
            raise InputError(f"{what} is empty: give at least one value")
        if len(set(listed)) < len(listed):
            raise InputError(f"{what} holds a value twice: {checks.shown(listed)}")
        for value in listed:
            replace(optimizer, **{name: value})  # which says what is wrong with a value
        settings[name] = listed
        if name == "lr" and len(listed) > 1:
            settings[name] = [checks.real(f"{optimizer.name}.lr", value, above=0) for value in listed]
    return settings


def _first_guess(optimizer: Optimizer, problem: BlockQuadratic) -> float:
    """1/L for a method whose steps grow with the gradient, as GD's do; 0.01 for one that normalises them, as Adam does.

    It is asked to take a few tiny steps from three errors, the last four times the first.
    """
    error, lr = problem.start(0), 1e-6 / problem.lipschitz
    starts = [problem.minimizer + scale * error for scale in (1.0, 2.0, 4.0)]
    lanes = solve_lanes(problem, [replace(optimizer, lr=lr)], w0=starts, max_steps=8, tol=0, threads=1)
    moved = [float(np.linalg.norm(run.w - start)) for run, start in zip(lanes, starts, strict=True)]
    return 1 / problem.lipschitz if moved[2] > 2 * moved[0] else 0.01


def _block_rates(optimizer: Optimizer, problem: BlockQuadratic) -> tuple[float, ...] | None:
    """One learning rate for each block, where that is what the optimizer has; the grid is then of common factors."""
    lr = optimizer.lr
    if lr is None:
        try:
            lr = optimizer.best_lr(problem, problem.start(0) - problem.minimizer)
        except InputError:
            return None
    return lr if isinstance(lr, tuple) else None


def _leaves(x: np.ndarray, y: np.ndarray) -> tuple[float, bool]:
    """Where y, from 0 at its first place on, first exceeds a factor 2; the last place, and True, if it never does."""
    beyond = np.flatnonzero(~(y <= TWICE))
    if not beyond.size:
        return float(x[-1]), True
    k = int(beyond[0])
    if not np.isfinite(y[k]):  # a cliff: somewhere between the two
        return float(x[k - 1]), False
    return float(x[k - 1] + (x[k] - x[k - 1]) * (TWICE - y[k - 1]) / (y[k] - y[k - 1])), False


def _between(x: np.ndarray, y: np.ndarray, at: float) -> float | None:
    """y at a place between those known; infinite beside an infinite one, None outside."""
    if at < x[0] - 1e-9 or at > x[-1] + 1e-9:
        return None
    k = int(np.clip(np.searchsorted(x, at), 1, len(x) - 1))
    if np.isinf(y[k - 1]) or np.isinf(y[k]):
        near = [y[j] for j in (k - 1, k) if abs(x[j] - at) < 1e-9]
        return float(near[0]) if near else float("inf")
    return float(np.interp(at, x, y))


def _log_loss(run: Trajectory) -> float:
    """log10 of the final loss; infinite if the run diverged."""
    return np.inf if _gone(run) else float(np.log10(max(run.loss[-1], LEAST_LOSS)))


def _gone(run: Trajectory) -> bool:
    return run.status == Status.DIVERGED
