"""The search over an optimizer's settings: a coarse grid, extended where its best lies on the edge, then midpoints.

Ask/tell interface: `ask` returns the trials to run next, `tell` records their results. The search itself runs only a
few steps, to estimate the scale of the learning rate.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._quantiles import quantile, quartiles
from quadsim._validation import InputError, InputTypeError
from quadsim.engine.solver import check_noise, solve
from quadsim.optimizers import Optimizer
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.noise import Noise

PER_DECADE, DECADES = 2, 2  # the coarse grid: its density, and its extent to both sides of the first guess
REFINE, EXTEND = 3, 4  # rounds of midpoints around the best; decades by which a grid may grow on either side


class Search:
    """The trials of one optimizer so far, and the next ones: coarse grid, extensions, rounds of refinement."""

    def __init__(
        self,
        optimizer: Optimizer,
        problem: BlockQuadratic,
        grid: Any = None,
        refine: int | None = None,
        extend: int | None = None,
        noise: Noise | None = None,
        statistic: str = "median",
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
        check_noise(optimizer, noise)
        settings = _settings(optimizer, grid)
        given = "lr" in settings
        self.refine = checks.whole("refine", (0 if given else REFINE) if refine is None else refine, at_least=0)
        self.extend = checks.whole("extend", (0 if given else EXTEND) if extend is None else extend, at_least=0)
        self.problem = problem.name
        self.first_level = "given" if given else "coarse"
        self.optimizer, self.rates = optimizer, None if given else _block_rates(optimizer, problem)
        if not given:
            guess = 1.0 if self.rates else _first_guess(optimizer, problem, noise)
            middle = round(np.log10(guess) * PER_DECADE)
            reach = DECADES * PER_DECADE
            settings["lr"] = [10 ** (k / PER_DECADE) for k in range(middle - reach, middle + reach + 1)]
        others = [name for name in settings if name != "lr"]
        combinations = itertools.product(*(settings[name] for name in others))
        self.others = [dict(zip(others, values, strict=True)) for values in combinations]
        self.lrs = sorted(settings["lr"])
        self.rows: list[dict[str, Any]] = []
        self.rounds = 0
        self.statistic = statistic

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

    def ask(self) -> list[dict[str, Any]]:
        """The trials to run next; none when the search has ended."""
        if self.given:
            return []
        if not self.rows:
            return [{**other, "lr": lr, "level": self.first_level} for other in self.others for lr in self.lrs]
        if len(self.lrs) == 1:
            return []
        if beyond := [trial for other in self.others for trial in self._beyond(other)]:
            return beyond
        best = self.ranked()[0]
        if self.rounds == self.refine or not np.isfinite(best[self.statistic]):
            return []
        self.rounds += 1
        lrs = [row["lr"] for row in self.neighbours(best)]
        at = lrs.index(best["lr"])
        between = [lrs[k] ** 0.5 * lrs[k + 1] ** 0.5 for k in (at - 1, at) if 0 <= k < len(lrs) - 1]
        return [{**self._other(best), "lr": lr, "level": "refined"} for lr in between]

    def tell(
        self, trial: dict[str, Any], scores: np.ndarray, losses: np.ndarray, diverged: np.ndarray, underflow: np.ndarray
    ) -> None:
        """Record the results of a trial, seed by seed."""
        summary = {
            **{name: float(value) for name, value in quartiles(scores, "linear").items()},
            "diverged": float(diverged.mean()),
            "underflow": float(underflow.mean()),
            "log_loss": float(quantile(losses, 0.5, "linear")),
        }
        self.rows.append({**trial, **summary, "scores": scores})

    def ranked(self) -> list[dict[str, Any]]:
        """All trials, the best first: by `statistic`, then median, upper and lower quartiles, and so on."""
        return sorted(self.rows, key=self._rank)

    def _rank(self, row: dict[str, Any]) -> list[float]:
        names = (self.statistic, "median", "upper", "lower", "diverged", "underflow", "log_loss", "lr")
        return [row[name] for name in names]

    def _other(self, trial: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of a trial but for the learning rate."""
        return {name: trial[name] for name in self.others[0]}

    def neighbours(self, trial: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The trials that differ from this one at most in the learning rate, by learning rate."""
        other = self._other(trial)
        return sorted((row for row in self.rows if self._other(row) == other), key=lambda row: row["lr"])

    def _beyond(self, other: dict[str, Any]) -> list[dict[str, Any]]:
        """One decade more if the best learning rate at these settings lies at an end of the grid, up to the limit."""
        rows = self.neighbours(other)
        best, lrs = min(rows, key=self._rank), [row["lr"] for row in rows]
        limit = self.extend * (1 - 1e-9)
        if best["lr"] == lrs[0] and np.log10(self.lrs[0] / lrs[0]) < limit:
            end, sign = lrs[0], -1
        elif best["lr"] == lrs[-1] and np.log10(lrs[-1] / self.lrs[-1]) < limit:
            end, sign = lrs[-1], 1
        else:
            return []
        more = [end * 10 ** (sign * k / PER_DECADE) for k in range(1, PER_DECADE + 1)]
        return [{**other, "lr": lr, "level": "extended"} for lr in more if 1e-300 < lr < 1e300]


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
        label = f"the grid of {optimizer.name}.{name}"
        if not listed:
            raise InputError(f"{label} is empty: give at least one value")
        if any(not isinstance(value, int | float | str | tuple) for value in listed):
            raise InputTypeError(f"{label} must be a plain list of values, got {checks.shown(listed)}")
        if len(set(listed)) < len(listed):
            raise InputError(f"{label} holds a value twice: {checks.shown(listed)}")
        for value in listed:
            replace(optimizer, **{name: value})  # raises if the value is not valid
        if name == "lr" and len(listed) > 1:
            listed = [checks.real(f"{optimizer.name}.lr", value, above=0) for value in listed]
        settings[name] = listed
    return settings


def _first_guess(optimizer: Optimizer, problem: BlockQuadratic, noise: Noise | None) -> float:
    """1/L for a method whose steps grow with the gradient, as GD's do; 0.01 for one that normalises them, as Adam does.

    Measured by a few tiny steps from three initial errors, the last four times the first. Batch noise is included: it
    scales with the error, and the search needs its kernel anyway. Other noise does not scale and is omitted.
    """
    tiny = replace(optimizer, lr=1e-6 / problem.lipschitz)
    errors = [scale * problem.initial_error(0) for scale in (1.0, 2.0, 4.0)]
    batches = Noise() if noise is None else Noise(batch=noise.batch, factor=noise.factor)
    runs = solve(problem, [tiny], e0=errors, max_steps=8, tol=0, engine="compiled", noise=batches, threads=1)
    moved = [float(np.linalg.norm(run.w - run.w0)) for run in runs]
    return 1 / problem.lipschitz if moved[2] > 2 * moved[0] else 0.01


def _block_rates(optimizer: Optimizer, problem: BlockQuadratic) -> tuple[float, ...] | None:
    """The learning rates by block, if the optimizer has one per block; the grid then holds common factors."""
    lr = optimizer.lr
    if lr is None:
        try:
            lr = optimizer.best_lr(problem, problem.initial_error(0))
        except InputError:
            return None
    return lr if isinstance(lr, tuple) else None
