"""A linear method's run as modes: loss and gradient norm at any step, and the first step below a tolerance.

Values are logarithms, so that nothing underflows. The first step below a tolerance is found by cutting an interval into
ever shorter ones where the gradient norm is known to be log-convex; otherwise by leaping over steps that cannot be
below, and by looking at every step where it swings too quickly for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from quadsim.checks import InputError
from quadsim.modes import Modes, Powers
from quadsim.trajectory import EXPLODED

AT_ONCE = 2**21  # modes times steps computed together: 16 MB an array
CUTS = 2**10  # modes times steps at which an interval is cut at once: about what a call costs beside its arithmetic
SCAN = 64  # steps looked at before the search tries to leap
WINDOW = 2048  # steps that a recurrence may run before it starts from the closed form again
NEAR = 1e-6  # what that recurrence is off by, relative to the largest norm of its window, is far less than this
TURN = 4 * 10**4  # what a try to leap costs, in modes times steps: a fifth of a millisecond; a window costs half
MOST_SCANNED = 4 * 10**9  # modes times steps that a search may look at: some twenty seconds
NEVER = 1e200  # steps
EPS = float(np.finfo(float).eps)
GRID, ENDS = np.arange(16) / 16, np.array([0.9, 0.99, 0.999, 0.9999])  # leaps that are tried, least to most


@dataclass(frozen=True)
class Course:
    """A run as modes: block by block, the error is ``bases`` times the modes' p_t (a vector: of a diagonal block).

    ``places`` says where the blocks' modes stand. ``log_weights`` are the logarithms of the modes' shares of the first
    loss, ``log_lengths`` those of the lengths of their first gradients, ``log_floors`` those of the part of these that
    no other mode can cancel. ``directions`` has for each block the unit vectors of these gradients, or is None where
    they are orthogonal.
    """

    modes: Modes
    places: tuple[slice, ...]
    bases: tuple[np.ndarray, ...]
    log_weights: np.ndarray
    log_lengths: np.ndarray
    log_floors: np.ndarray
    directions: tuple[np.ndarray, ...] | None

    @cached_property
    def unstable(self) -> bool:
        """Whether a mode that the start excites grows for ever; by less than rounding in 10¹² steps does not count."""
        return bool((self._rates[np.isfinite(self.log_weights)] > 4 * EPS).any())

    @cached_property
    def _powers(self) -> bool:
        return all(isinstance(kind, Powers) for kind in self.modes.kinds)

    @cached_property
    def _rates(self) -> np.ndarray:
        return self.modes.log_rates()

    def logs(self, steps: Any) -> tuple[np.ndarray, np.ndarray]:
        """log loss and log gradient norm at these steps."""
        found = [self._logs(piece) for piece in self._pieces(steps)]
        return np.concatenate([loss for loss, _ in found]), np.concatenate([norm for _, norm in found])

    def log_norms(self, steps: Any) -> np.ndarray:
        """log gradient norm at these steps."""
        return np.concatenate([self._log_norms(*self._sizes(piece)) for piece in self._pieces(steps)])

    def _pieces(self, steps: Any) -> list[np.ndarray]:
        """The steps, in as many pieces as memory asks for."""
        steps = np.asarray(steps, dtype=float)
        parts = -(-self.modes.count * steps.size // AT_ONCE)
        return [steps] if parts <= 1 else np.array_split(steps, parts)

    def _logs(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size, sign = self._sizes(steps)
        return _log_sum(self.log_weights[:, None] + 2 * size), self._log_norms(size, sign)

    def _sizes(self, steps: np.ndarray) -> tuple[np.ndarray, Any]:
        """The modes' sizes, and signs where the norm depends on them."""
        return (self.modes.sizes(steps), None) if self.directions is None else self.modes.at(steps)

    def _log_norms(self, size: np.ndarray, sign: Any) -> np.ndarray:
        lengths = self.log_lengths[:, None] + size
        if self.directions is None:
            return 0.5 * _log_sum(2 * lengths)
        shift = _finite(lengths.max(axis=0))
        squares = self._squares(sign * np.exp(lengths - shift))
        with np.errstate(divide="ignore"):
            return shift + 0.5 * np.log(squares)

    def _squares(self, lengths: np.ndarray) -> np.ndarray:
        """|g|² in each column, given the signed lengths of the modes' gradients."""
        if self.directions is None:
            return (lengths**2).sum(axis=0)
        parts = zip(self.directions, self.places, strict=True)
        return sum(((unit @ lengths[place]) ** 2).sum(axis=0) for unit, place in parts)

    def error_at(self, step: int) -> np.ndarray:
        """e after this step."""
        size, sign = self.modes.at([step])
        with np.errstate(over="ignore", invalid="ignore"):
            factors = sign[:, 0] * np.exp(size[:, 0])
            factors[np.isneginf(self.log_weights)] = 0.0  # a mode that is not excited may grow, and stays 0
            parts = [
                basis @ factors[place] if basis.ndim == 2 else basis * factors[place]
                for basis, place in zip(self.bases, self.places, strict=True)
            ]
        return np.concatenate(parts)

    def finite_until(self, end: int, scale: float) -> tuple[int, bool]:
        """The step at which the loss has exploded, as `solve` takes it, and True; or `end`, and False."""
        if not self.unstable:
            return end, False
        first = float(self.logs([0])[0][0])
        limit = min(np.log(EXPLODED) + max(first, np.log(scale)), np.log(np.finfo(float).max))

        def beyond(steps: np.ndarray) -> np.ndarray:  # two steps: an alternating mode may pass through zero
            return (self.logs(steps)[0] > limit) & (self.logs(steps + 1)[0] > limit)

        if not beyond(np.array([end]))[0]:
            return end, False
        return self._first(beyond, 0, end), True

    def first_below(self, tol: float, end: int, progress: Callable[[int], None] | None = None) -> int | None:
        """The first step up to `end` at which the gradient norm is at most tol times its first value."""
        log_first = float(self._log_norms(np.zeros((self.modes.count, 1)), 1.0)[0])
        if np.isneginf(log_first):
            return 0
        if tol == 0:
            # only modes that vanish at once ever vanish
            return 1 if end > 0 and np.isneginf(self.log_norms([1])[0]) else None
        target = log_first + float(np.log(tol))
        target += 4 * EPS * (1 + abs(target) + abs(log_first))  # a tie is a tie, whatever rounding says
        if log_first <= target:
            return 0
        if self.directions is None and self._powers:
            return self._bisected(target, end)
        return self._searched(target, end, progress)

    def _bisected(self, target: float, end: int) -> int | None:
        """For powers: the squared norm is a sum of wᵢ qᵢ^t, log-convex in t, so the steps below are an interval."""

        def below(steps: Any) -> np.ndarray:
            return self.log_norms(steps) <= target

        def rising(steps: np.ndarray) -> np.ndarray:
            return self.log_norms(steps) <= self.log_norms(steps + 1)

        low = self._carried(0, target, end) - 1
        if low == end:
            return None
        # all modes together are at most as long as the longest times the root of their number
        surely = self._steps_down(self.log_lengths + 0.5 * np.log(self.modes.count) - target + NEAR) + 1
        surely = np.inf if (self._rates > 0).any() else surely
        high = int(min(surely, end))
        if surely > end and not below([end])[0]:
            if not self.unstable:
                return None  # it falls for ever
            high = self._first(rising, 0, end)  # where it is least
            if not below([high])[0]:
                return None
        return self._first(below, max(low, 0), high)

    def _first(self, passed: Callable[[np.ndarray], np.ndarray], low: int, high: int) -> int:
        """The first step after `low` that has passed, where all later ones have; `high` if none before it has."""
        cuts = max(2, CUTS // self.modes.count)
        while high - low > 1:
            parts = min(cuts, high - low)
            steps = low + (high - low) * np.arange(parts + 1) // parts
            done = passed(steps[1:-1])
            place = 1 + (int(done.argmax()) if done.any() else done.size)  # of the first step that has passed
            low, high = int(steps[place - 1]), int(steps[place])
        return high

    def _searched(self, target: float, end: int, progress: Callable[[int], None] | None) -> int | None:
        """For courses that rise and fall: some steps one by one, then a leap over steps that cannot be below.

        Where no leap is possible, the next steps are looked at in a longer window.
        """
        t, scan, looked = self._carried(0, target, end), SCAN, 0
        leaps, failed, patience = 0, 0, 0  # after every leap that failed, one window more is looked at before a try
        while t <= end:
            if progress is not None:
                progress(t)
            steps = np.arange(t, min(t + scan, end + 1))
            near = steps[self._near(steps, target)] if scan > 4 * SCAN else steps
            below = near[self.log_norms(near) <= target]
            if below.size:
                return int(below[0])
            looked += steps.size * self.modes.count + TURN // 2
            if looked > MOST_SCANNED:
                raise InputError(
                    f"the gradient norm swings, and is not below tol in the first {t:,} steps, "
                    "beyond which the search would take too long: give max_steps (on the command line steps=), or tol 0"
                )
            t = int(steps[-1]) + 1
            patience -= 1
            if t > end or steps.size < 2 or patience > 0:
                continue
            looked += TURN
            least = min(4 * scan + 4 * SCAN * leaps, 4 * WINDOW)  # many shorter ones would gain less than looking
            leap = self._leap(steps[-2:], target, least, end)
            further = self._carried(max(t, int(steps[-2]) + leap + 1), target, end)
            if further - t > least // 2:
                t, scan, leaps, failed = further, SCAN, leaps + 1, 0
            else:
                scan, failed = min(4 * scan, WINDOW), failed + 1
                patience = min(failed, 64)
        return None

    def _carried(self, t: int, target: float, end: int) -> int:
        """The first step from t on at which no steady mode by itself keeps the norm above the target, or end + 1."""
        for _ in range(50):
            gain = self._steps_down(self.log_floors + self.modes.floors(t) - target - NEAR)
            t += int(min(gain, end + 1 - t))
            if gain < max(SCAN, t / 64) or self._powers:  # powers fall at their rates from the first step on
                break
        return t

    def _steps_down(self, excess: np.ndarray) -> float:
        """The steps until every mode has fallen, at its rate, by this excess of its logarithm."""
        return float((np.maximum(excess, 0.0) * self._spans).max())

    @cached_property
    def _spans(self) -> np.ndarray:
        """The steps in which a mode falls by 1/e; of one that does not fall, so many that they are beyond any run."""
        with np.errstate(divide="ignore"):
            return np.where(self._rates < 0, -1 / self._rates, NEVER)

    def _leap(self, pair: np.ndarray, target: float, least: int, end: int) -> int:
        """The steps after the first of two neighbours over which the norm stays above the target; 0 if below `least`.

        All modes are seen beside the one that is longest here, as if that did not fall. How far each can then move
        over the next steps bounds the norm from below.
        """
        size, sign = self._sizes(pair.astype(float))
        norms = self._log_norms(size, sign)
        rate = min(float(self._rates[np.argmax(self.log_lengths + size[:, 0])]), 0.0)
        most = float(end + 1 - pair[0])
        if rate < 0:
            most = min(most, (norms.min() - target) / -rate)
        if most <= least:
            return 0
        widths = np.floor(np.append(least * (most / least) ** GRID, most * ENDS))
        stays = np.ones(widths.size, dtype=bool)
        for t, log_norm, log_size in zip(pair.tolist(), norms.tolist(), size.T, strict=True):
            stays &= self._stays_above(t, log_norm, log_size, widths, target, rate)
        return int(widths[stays].max(initial=0))

    def _stays_above(
        self, t: int, log_norm: float, log_size: np.ndarray, widths: np.ndarray, target: float, rate: float
    ) -> np.ndarray:
        """For each width, whether the norm stays above the target at t + 2, t + 4, … up to t + width."""
        beside = log_norm - self.log_lengths  # what makes a mode as long as the norm at t
        with np.errstate(over="ignore", invalid="ignore"):
            drift = self.modes.drift(t, widths, beside, rate) * (1 + 1e-9)
            if self.directions is None:
                lengths = np.exp(log_size - beside)
                least = np.sqrt((np.maximum(lengths[:, None] - drift, 0) ** 2).sum(axis=0))
            else:
                parts = zip(self._magnitudes, self.places, strict=True)
                least = 1 - np.sqrt(sum(((unit @ drift[place]) ** 2).sum(axis=0) for unit, place in parts))
        # rounding of the difference, which has lost all but nine digits by then, is far from deciding
        return (least > NEAR) & (least * np.exp(rate * widths) > np.exp(target - log_norm + NEAR))

    @cached_property
    def _magnitudes(self) -> list[np.ndarray]:
        """The directions without their signs."""
        return [np.abs(unit) for unit in self.directions or ()]

    def _near(self, steps: np.ndarray, target: float) -> np.ndarray:
        """Where the norm may be below the target: all such steps, and few others.

        Within the window every mode runs by its recurrence, p₊ = sum·p − product·p₋, from its first two values.
        """
        lengths, sign = self.modes.at([steps[0], steps[0] + 1])
        lengths = lengths + self.log_lengths[:, None]
        shift = float(_finite(lengths.max()))
        first = sign * np.exp(lengths - shift)
        one, two = self._solutions[:, :, : steps.size]
        with np.errstate(over="ignore", invalid="ignore"):
            courses = one * first[:, :1] + two * first[:, 1:]
            norms = np.sqrt(self._squares(courses))
            margin = np.exp(target - shift) * (1 + NEAR) + NEAR * norms.max()
            if self.directions is not None:  # modes that cancel each other leave their own rounding
                margin += 0.01 * NEAR * np.abs(courses).sum(axis=0).max()
        return ~(norms > margin)  # what is not a number is looked at

    @cached_property
    def _solutions(self) -> np.ndarray:
        """The solutions of every mode's recurrence that start from (1, 0) and from (0, 1), over a window.

        All that is known serves to go on from its end: p_k+j = p_k·one_j + p_k+1·two_j.
        """
        total, product = self.modes.recurrence()
        paths = np.zeros((2, self.modes.count, WINDOW))
        paths[0, :, 0] = paths[1, :, 1] = 1
        known = 2
        with np.errstate(over="ignore", invalid="ignore"):
            while known < WINDOW:
                last, after = paths[:, :, known - 1], total * paths[:, :, known - 1] - product * paths[:, :, known - 2]
                more = min(known - 1, WINDOW - known)
                one, two = paths[:, :, 1 : more + 1]
                paths[:, :, known : known + more] = last[:, :, None] * one + after[:, :, None] * two
                known += more
        return paths


def _finite(top: Any) -> Any:
    return np.where(np.isfinite(top), top, 0.0)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the first axis."""
    shift = _finite(logs.max(axis=0))
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(logs - shift).sum(axis=0))
