"""First passage of a modal trajectory: the first step with the gradient norm below a tolerance, or the loss diverged.

Where all modes are powers with orthogonal gradients, the gradient norm is log-convex in t and bisection finds the step.
Otherwise the norm may oscillate: the search skips steps over which a bound keeps the norm above the target, and
evaluates every step where it oscillates too fast for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quadsim._validation import InputError
from quadsim.engine.closed_form.modal_trajectory import EPS, ModalTrajectory, finite_or_zero
from quadsim.engine.trajectory import DIVERGENCE_FACTOR

BISECTION_ENTRIES = 2**10  # modes times steps in one round of bisection: costs about as much as the call itself
MIN_WINDOW = 64  # steps evaluated before the search tries to skip
MAX_WINDOW = 2048  # steps that a recurrence runs before it restarts from the closed form
LOG_MARGIN = 1e-6  # far above the error of that recurrence, relative to the largest norm of its window
SKIP_COST = 4 * 10**4  # of an attempt to skip, in modes times steps: 0.2 ms; the overhead of a window is half of it
MAX_WORK = 4 * 10**9  # modes times steps that a search may evaluate: about twenty seconds
NO_DECAY_SPAN = 1e200  # steps: the time constant of a mode that does not decay
SKIP_GRID, SKIP_ENDS = np.arange(16) / 16, np.array([0.9, 0.99, 0.999, 0.9999])  # relative lengths of skips to try

Progress = Callable[[int], None]


def divergence_step(trajectory: ModalTrajectory, end: int, scale: float) -> tuple[int, bool]:
    """The step at which the loss has diverged, by the criterion of the compiled engine, and True; or `end`, False."""
    if not trajectory.unstable:
        return end, False
    first = float(trajectory.logs([0])[0][0])
    limit = min(np.log(DIVERGENCE_FACTOR) + max(first, np.log(scale)), np.log(np.finfo(float).max))

    def beyond(steps: np.ndarray) -> np.ndarray:  # two steps: an alternating mode may pass through zero
        return (trajectory.logs(steps)[0] > limit) & (trajectory.logs(steps + 1)[0] > limit)

    if not beyond(np.array([end]))[0]:
        return end, False
    return _bisect(trajectory, beyond, 0, end), True


def first_step_below(trajectory: ModalTrajectory, tol: float, end: int, progress: Progress | None = None) -> int | None:
    """The first step up to `end` at which the gradient norm is at most tol times its first value."""
    log_first = float(trajectory.log_norms_of(np.zeros((trajectory.modes.count, 1)), 1.0)[0])
    if np.isneginf(log_first):
        return 0
    if tol == 0:  # only modes with both roots zero vanish, and they do at step 1
        return 1 if end > 0 and np.isneginf(trajectory.log_norms([1])[0]) else None
    target = log_first + float(np.log(tol))
    target += 4 * EPS * (1 + abs(target) + abs(log_first))  # so that rounding does not break equality
    if log_first <= target:
        return 0
    passage = FirstPassage(trajectory, target, end)
    if trajectory.directions is None and trajectory.only_powers:
        return passage.bisect()
    return passage.search(progress)


def _bisect(trajectory: ModalTrajectory, passed: Callable[[np.ndarray], np.ndarray], low: int, high: int) -> int:
    """The first step after `low` at which `passed` holds, given that it holds at all later ones; at most `high`."""
    cuts = max(2, BISECTION_ENTRIES // trajectory.modes.count)
    while high - low > 1:
        parts = min(cuts, high - low)
        steps = low + (high - low) * np.arange(parts + 1) // parts
        done = passed(steps[1:-1])
        index = 1 + (int(done.argmax()) if done.any() else done.size)  # of the first step that has passed
        low, high = int(steps[index - 1]), int(steps[index])
    return high


@dataclass(frozen=True)
class FirstPassage:
    """The search for the first step up to ``end`` whose log gradient norm is at most ``target``."""

    trajectory: ModalTrajectory
    target: float
    end: int

    def bisect(self) -> int | None:
        """For powers: the squared norm is a sum of wᵢ qᵢ^t, log-convex in t, so the steps below are an interval."""
        trajectory, target, end = self.trajectory, self.target, self.end

        def below(steps: Any) -> np.ndarray:
            return trajectory.log_norms(steps) <= target

        def rising(steps: np.ndarray) -> np.ndarray:
            return trajectory.log_norms(steps) <= trajectory.log_norms(steps + 1)

        low = self._bounded_until(0) - 1
        if low == end:
            return None
        # the gradient norm is at most the longest mode times the square root of the number of modes
        longest = trajectory.log_lengths + 0.5 * np.log(trajectory.modes.count)
        latest = self._decay_steps(longest - target + LOG_MARGIN) + 1
        latest = np.inf if (trajectory.log_rates > 0).any() else latest
        high = int(min(latest, end))
        if latest > end and not below([end])[0]:
            if not trajectory.unstable:
                return None  # it decreases forever
            high = _bisect(trajectory, rising, 0, end)  # where it is smallest
            if not below([high])[0]:
                return None
        return _bisect(trajectory, below, max(low, 0), high)

    def search(self, progress: Progress | None) -> int | None:
        """For norms that oscillate: evaluate a window of steps, then skip steps that cannot be below.

        Where no skip is possible, the next window is longer.
        """
        trajectory, target, end = self.trajectory, self.target, self.end
        t, window, work = self._bounded_until(0), MIN_WINDOW, 0
        skips, failures, wait = 0, 0, 0  # each failed attempt adds one window before the next attempt
        while t <= end:
            if progress is not None:
                progress(t)
            steps = np.arange(t, min(t + window, end + 1))
            candidates = steps[self._may_be_below(steps)] if window > 4 * MIN_WINDOW else steps
            below = candidates[trajectory.log_norms(candidates) <= target]
            if below.size:
                return int(below[0])
            work += steps.size * trajectory.modes.count + SKIP_COST // 2
            if work > MAX_WORK:
                raise InputError(
                    f"the gradient norm oscillates and is not below tol in the first {t:,} steps; "
                    "a longer search would take too long: give max_steps, or tol=0"
                )
            t = int(steps[-1]) + 1
            wait -= 1
            if t > end or steps.size < 2 or wait > 0:
                continue
            work += SKIP_COST
            # shorter skips cost more than they save
            min_skip = min(4 * window + 4 * MIN_WINDOW * skips, 4 * MAX_WINDOW)
            skip = self._skip(steps[-2:], min_skip)
            next_t = self._bounded_until(max(t, int(steps[-2]) + skip + 1))
            if next_t - t > min_skip // 2:
                t, window, skips, failures = next_t, MIN_WINDOW, skips + 1, 0
            else:
                window, failures = min(4 * window, MAX_WINDOW), failures + 1
                wait = min(failures, 64)
        return None

    def _bounded_until(self, t: int) -> int:
        """The first step from t on at which no single mode keeps the norm above the target, or end + 1."""
        trajectory, end = self.trajectory, self.end
        for _ in range(50):
            bounds = trajectory.log_floors + trajectory.modes.log_lower_bounds(t)
            gain = self._decay_steps(bounds - self.target - LOG_MARGIN)
            t += int(min(gain, end + 1 - t))
            if gain < max(MIN_WINDOW, t / 64) or trajectory.only_powers:  # powers decay at their rates from step 0 on
                break
        return t

    def _decay_steps(self, excess: np.ndarray) -> float:
        """The steps until every mode has decayed, at its rate, by this excess of its logarithm."""
        return float((np.maximum(excess, 0.0) * self._time_constants).max())

    @cached_property
    def _time_constants(self) -> np.ndarray:
        """The steps in which a mode decays by 1/e; NO_DECAY_SPAN, longer than any run, if it does not."""
        rates = self.trajectory.log_rates
        with np.errstate(divide="ignore"):
            return np.where(rates < 0, -1 / rates, NO_DECAY_SPAN)

    def _skip(self, pair: np.ndarray, min_skip: int) -> int:
        """How many steps after the first of two consecutive ones the norm stays above the target; 0 if too few.

        Modes are taken relative to the decay of the mode that is longest at the first step. How far each can move over
        the next steps bounds the norm from below.
        """
        trajectory = self.trajectory
        log_sizes, signs = trajectory.sizes_and_signs(pair.astype(float))
        norms = trajectory.log_norms_of(log_sizes, signs)
        rate = min(float(trajectory.log_rates[np.argmax(trajectory.log_lengths + log_sizes[:, 0])]), 0.0)
        max_skip = float(self.end + 1 - pair[0])
        if rate < 0:
            max_skip = min(max_skip, (norms.min() - self.target) / -rate)
        if max_skip <= min_skip:
            return 0
        widths = np.floor(np.append(min_skip * (max_skip / min_skip) ** SKIP_GRID, max_skip * SKIP_ENDS))
        stays = np.ones(widths.size, dtype=bool)
        for t, log_norm, log_size in zip(pair.tolist(), norms.tolist(), log_sizes.T, strict=True):
            stays &= self._stays_above(t, log_norm, log_size, widths, rate)
        return int(widths[stays].max(initial=0))

    def _stays_above(
        self, t: int, log_norm: float, log_size: np.ndarray, widths: np.ndarray, rate: float
    ) -> np.ndarray:
        """For each width, whether the norm stays above the target at t + 2, t + 4, … up to t + width."""
        trajectory = self.trajectory
        log_scale = log_norm - trajectory.log_lengths  # makes a mode as long as the norm at t
        with np.errstate(over="ignore", invalid="ignore"):
            drift = trajectory.modes.drift(t, widths, log_scale, rate) * (1 + 1e-9)
            if trajectory.directions is None:
                lengths = np.exp(log_size - log_scale)
                lower = np.sqrt((np.maximum(lengths[:, None] - drift, 0) ** 2).sum(axis=0))
            else:
                parts = zip(trajectory.directions, trajectory.blocks, strict=True)
                lower = 1 - np.sqrt(sum(((np.abs(unit) @ drift[block]) ** 2).sum(axis=0) for unit, block in parts))
        # the margin covers the rounding of the difference, even if only nine of its digits are significant
        return (lower > LOG_MARGIN) & (lower * np.exp(rate * widths) > np.exp(self.target - log_norm + LOG_MARGIN))

    def _may_be_below(self, steps: np.ndarray) -> np.ndarray:
        """A mask of the steps of a window that includes all steps whose norm is below the target, and few others.

        Within the window every mode follows its recurrence, p₊ = sum·p − product·p₋, from its first two values.
        """
        trajectory = self.trajectory
        lengths, sign = trajectory.modes.log_sizes_and_signs([steps[0], steps[0] + 1])
        lengths = lengths + trajectory.log_lengths[:, None]
        shift = float(finite_or_zero(lengths.max()))
        first = sign * np.exp(lengths - shift)
        from_one_zero, from_zero_one = self._fundamental_solutions[:, :, : steps.size]
        with np.errstate(over="ignore", invalid="ignore"):
            paths = from_one_zero * first[:, :1] + from_zero_one * first[:, 1:]
            norms = np.sqrt(trajectory.squared_norms(paths))
            margin = np.exp(self.target - shift) * (1 + LOG_MARGIN) + LOG_MARGIN * norms.max()
            if trajectory.directions is not None:  # where modes cancel each other, their rounding errors remain
                margin += 0.01 * LOG_MARGIN * np.abs(paths).sum(axis=0).max()
        return ~(norms > margin)  # NaN counts as below

    @cached_property
    def _fundamental_solutions(self) -> np.ndarray:
        """The solutions of every mode's recurrence from (1, 0) and from (0, 1), over a window.

        Computed by doubling: p_k+j = p_k·one_j + p_k+1·two_j.
        """
        total, product = self.trajectory.modes.recurrence()
        paths = np.zeros((2, self.trajectory.modes.count, MAX_WINDOW))
        paths[0, :, 0] = paths[1, :, 1] = 1
        known = 2
        with np.errstate(over="ignore", invalid="ignore"):
            while known < MAX_WINDOW:
                last, after = paths[:, :, known - 1], total * paths[:, :, known - 1] - product * paths[:, :, known - 2]
                more = min(known - 1, MAX_WINDOW - known)
                one, two = paths[:, :, 1 : more + 1]
                paths[:, :, known : known + more] = last[:, :, None] * one + after[:, :, None] * two
                known += more
        return paths
