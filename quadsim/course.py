"""A linear method's run as modes: loss and gradient norm at any step, and the first step below a tolerance.

Values are logarithms, so that nothing underflows. The first step below a tolerance is found by bisection where the
gradient norm is known to be log-convex; otherwise by leaping over steps that cannot be below, and by looking at every
step where it swings too quickly for that.
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
SCAN = 256  # steps looked at before the search tries to leap
WINDOW = 2048  # steps that a recurrence may run before it starts from the closed form again
NEAR = 1e-6  # what that recurrence is off by, relative to the largest norm of its window, is far less than this
TURN = 2 * 10**5  # what a try to leap costs, in modes times steps: about a millisecond; a window costs a tenth
MOST_SCANNED = 4 * 10**9  # modes times steps that a search may look at: some twenty seconds
EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Course:
    """A run as modes: block by block, the error is ``bases`` times the modes' p_t (a vector: of a diagonal block).

    ``log_weights`` are the logarithms of the modes' shares of the first loss, ``log_lengths`` those of the lengths of
    their first gradients. ``directions`` has for each block the unit vectors of these gradients, or is None where they
    are orthogonal.
    """

    modes: Modes
    sizes: tuple[int, ...]
    bases: tuple[np.ndarray, ...]
    log_weights: np.ndarray
    log_lengths: np.ndarray
    directions: tuple[np.ndarray, ...] | None

    @cached_property
    def unstable(self) -> bool:
        """Whether a mode that the start excites grows for ever; by less than rounding in 10¹² steps does not count."""
        return bool((self.modes.log_rates()[np.isfinite(self.log_weights)] > 4 * EPS).any())

    def logs(self, steps: Any) -> tuple[np.ndarray, np.ndarray]:
        """log loss and log gradient norm at these steps."""
        steps = np.asarray(steps, dtype=float)
        parts = max(1, -(-self.modes.count * steps.size // AT_ONCE))
        pieces = [self._logs(piece) for piece in np.array_split(steps, parts)]
        return np.concatenate([loss for loss, _ in pieces]), np.concatenate([norm for _, norm in pieces])

    def _logs(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if self.directions is None:
            size = self.modes.sizes(steps)
            log_norm = 0.5 * _log_sum(2 * (self.log_lengths[:, None] + size))
            return _log_sum(self.log_weights[:, None] + 2 * size), log_norm
        size, sign = self.modes.at(steps)
        log_loss = _log_sum(self.log_weights[:, None] + 2 * size)
        lengths = self.log_lengths[:, None] + size
        shift = _finite(lengths.max(axis=0))
        squares = self._squares(sign * np.exp(lengths - shift))
        with np.errstate(divide="ignore"):
            return log_loss, shift + 0.5 * np.log(squares)

    def _squares(self, lengths: np.ndarray) -> np.ndarray:
        """|g|² in each column, given the signed lengths of the modes' gradients."""
        if self.directions is None:
            return (lengths**2).sum(axis=0)
        parts = np.split(lengths, np.cumsum(self.sizes)[:-1])
        return sum(((unit @ part) ** 2).sum(axis=0) for unit, part in zip(self.directions, parts, strict=True))

    def error_at(self, step: int) -> np.ndarray:
        """e after this step."""
        size, sign = self.modes.at([step])
        with np.errstate(over="ignore", invalid="ignore"):
            factors = np.split(sign[:, 0] * np.exp(size[:, 0]), np.cumsum(self.sizes)[:-1])
            parts = [
                basis @ factor if basis.ndim == 2 else basis * factor
                for basis, factor in zip(self.bases, factors, strict=True)
            ]
        return np.concatenate(parts)

    def finite_until(self, end: int, scale: float) -> tuple[int, bool]:
        """The step at which the loss has exploded, as `solve` takes it, and True; or `end`, and False."""
        if not self.unstable:
            return end, False
        first = float(self.logs([0])[0][0])
        limit = min(np.log(EXPLODED) + max(first, np.log(scale)), np.log(np.finfo(float).max))

        def beyond(t: int) -> bool:  # two steps: an alternating mode may pass through zero
            return bool((self.logs([t, t + 1])[0] > limit).all())

        if not beyond(end):
            return end, False
        low, high = 0, end
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if beyond(middle) else (middle, high)
        return high, True

    def first_below(self, tol: float, end: int, progress: Callable[[int], None] | None = None) -> int | None:
        """The first step up to `end` at which the gradient norm is at most tol times its first value."""
        log_first = float(self.logs([0])[1][0])
        if np.isneginf(log_first):
            return 0
        if tol == 0:
            # only modes that vanish at once ever vanish
            return next((t for t in range(min(end, 1) + 1) if np.isneginf(self.logs([t])[1][0])), None)
        target = log_first + float(np.log(tol))
        target += 4 * EPS * (1 + abs(target) + abs(log_first))  # a tie is a tie, whatever rounding says
        if self.directions is None and all(isinstance(kind, Powers) for kind in self.modes.kinds):
            return self._bisected(target, end)
        return self._searched(target, end, progress)

    def _bisected(self, target: float, end: int) -> int | None:
        """For powers: the squared norm is a sum of wᵢ qᵢ^t, log-convex in t, so the steps below are an interval."""

        def norm(t: int) -> float:
            return float(self.logs([t])[1][0])

        if norm(0) <= target:
            return 0
        low, high = 0, end
        if norm(end) > target:
            if not self.unstable:
                return None  # it falls for ever
            while high - low > 2:  # where is it least?
                middle = (low + high) // 2
                low, high = (low, middle + 1) if norm(middle) <= norm(middle + 1) else (middle, high)
            high = min(range(low, high + 1), key=norm)
            if norm(high) > target:
                return None
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if norm(middle) <= target else (middle, high)
        return high

    def _searched(self, target: float, end: int, progress: Callable[[int], None] | None) -> int | None:
        """For courses that rise and fall: some steps one by one, then a leap over steps that cannot be below.

        From two neighbouring steps, how far each mode can move over the next ones bounds the norm from below there.
        Where that does not allow a leap, the next steps are looked at in a longer window.
        """
        t, leap, scan, looked = 0, SCAN, SCAN, 0
        failed, patience = 0, 0  # after every leap that failed, one window more is looked at before the next try
        while t <= end:
            if progress is not None:
                progress(t)
            steps = np.arange(t, min(t + scan, end + 1))
            near = steps[self._near(steps, target)] if scan > SCAN else steps
            below = near[self.logs(near)[1] <= target]
            if below.size:
                return int(below[0])
            looked += steps.size * self.modes.count + TURN // 10
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
            pair = steps[-2:]
            norms = self.logs(pair)[1]
            least = scan if t < 100 * SCAN else max(scan, 4 * WINDOW)  # a shorter leap gains less than looking
            leap = max(4 * leap, 4 * least)
            while leap > least and not all(
                self._stays_above(int(step), norm, leap, target) for step, norm in zip(pair, norms, strict=True)
            ):
                leap //= 2
            if leap > least:
                t, scan, failed = int(pair[0]) + leap + 1, SCAN, 0
            else:
                leap, scan, failed = scan, WINDOW, failed + 1
                patience = min(failed, 64)
        return None

    def _near(self, steps: np.ndarray, target: float) -> np.ndarray:
        """Where the norm may be below the target: all such steps, and few others.

        Within the window every mode runs by its recurrence, p₊ = sum·p − product·p₋, from its first two values.
        """
        lengths, sign = self.modes.at([steps[0], steps[0] + 1])
        lengths = lengths + self.log_lengths[:, None]
        shift = float(_finite(lengths.max()))
        first = sign * np.exp(lengths - shift)
        one, two = (path[:, : steps.size] for path in self._solutions)
        with np.errstate(over="ignore", invalid="ignore"):
            courses = one * first[:, :1] + two * first[:, 1:]
            norms = np.sqrt(self._squares(courses))
            margin = np.exp(target - shift) * (1 + NEAR) + NEAR * norms.max()
            if self.directions is not None:  # modes that cancel each other leave their own rounding
                margin += 0.01 * NEAR * np.abs(courses).sum(axis=0).max()
        return ~(norms > margin)  # what is not a number is looked at

    @cached_property
    def _solutions(self) -> tuple[np.ndarray, np.ndarray]:
        """The solutions of every mode's recurrence that start from (1, 0) and from (0, 1), over a window."""
        total, product = self.modes.recurrence()
        one, two = np.zeros((self.modes.count, WINDOW)), np.zeros((self.modes.count, WINDOW))
        one[:, 0] = two[:, 1] = 1
        with np.errstate(over="ignore", invalid="ignore"):
            for path in (one, two):
                for j in range(2, WINDOW):
                    path[:, j] = total * path[:, j - 1] - product * path[:, j - 2]
        return one, two

    def _stays_above(self, t: int, log_norm: float, width: int, target: float) -> bool:
        """Whether the norm stays above the target at t + 2, t + 4, … up to t + width, where it is log_norm at t."""
        beside = log_norm - self.log_lengths  # what makes a mode as long as the norm at t
        with np.errstate(over="ignore", invalid="ignore"):
            drift = self.modes.drift(t, width, beside) * (1 + 1e-9)
            if not np.isfinite(drift).all():
                return False
            if self.directions is None:
                lengths = np.exp(self.modes.sizes([t])[:, 0] - beside)
                least = np.linalg.norm(np.maximum(lengths - drift, 0))
            else:
                parts = zip(self.directions, np.split(drift, np.cumsum(self.sizes)[:-1]), strict=True)
                least = 1 - np.linalg.norm([np.linalg.norm(np.abs(unit) @ part) for unit, part in parts])
        # rounding of the difference, which has lost all but nine digits by then, is far from deciding
        return bool(least > max(np.exp(target - log_norm), NEAR))


def _finite(top: Any) -> Any:
    return np.where(np.isfinite(top), top, 0.0)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the first axis."""
    shift = _finite(logs.max(axis=0))
    with np.errstate(divide="ignore"):
        return shift + np.log(np.exp(logs - shift).sum(axis=0))
