"""A linear method's run as modes: loss and gradient norm at any step, and the first step below a tolerance.

Values are logarithms, so that nothing underflows. The first step below a tolerance is found by bisection where the
gradient norm is known to be log-convex, and otherwise by leaping over steps that cannot be below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim.modes import Modes, Powers
from quadsim.trajectory import EXPLODED

AT_ONCE = 2**21  # modes times steps computed together: 16 MB an array
SCAN = 256  # steps looked at one by one before the search tries to leap


@dataclass(frozen=True)
class Course:
    """A run as modes: block by block, the error is ``bases`` times the modes' p_t (a vector: of a diagonal block).

    ``loss_weights`` are the modes' shares of the first loss. ``gradients`` has for each block the matrix that takes p_t
    to the gradient, or None where the modes' gradients are orthogonal, of lengths ``lengths``.
    """

    modes: Modes
    sizes: tuple[int, ...]
    bases: tuple[np.ndarray, ...]
    loss_weights: np.ndarray
    lengths: np.ndarray
    gradients: tuple[np.ndarray, ...] | None

    @property
    def unstable(self) -> bool:
        """Whether a mode that the start excites grows for ever."""
        return bool((self.modes.log_rates()[self.loss_weights > 0] > 0).any())

    def logs(self, steps: Any) -> tuple[np.ndarray, np.ndarray]:
        """log loss and log gradient norm at these steps."""
        steps = np.asarray(steps, dtype=float)
        parts = max(1, -(-self.modes.count * steps.size // AT_ONCE))
        pieces = [self._logs(piece) for piece in np.array_split(steps, parts)]
        return np.concatenate([loss for loss, _ in pieces]), np.concatenate([norm for _, norm in pieces])

    def _logs(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            log_weights, log_lengths = np.log(self.loss_weights)[:, None], np.log(self.lengths)[:, None]
        if self.gradients is None:
            size = self.modes.sizes(steps)
            return _log_sum(log_weights + 2 * size), 0.5 * _log_sum(2 * (log_lengths + size))
        size, sign = self.modes.at(steps)
        log_loss = _log_sum(log_weights + 2 * size)
        ends = np.cumsum(self.sizes)[:-1]
        squares = [
            _log_square_norm(matrix, part, signs)
            for matrix, part, signs in zip(self.gradients, np.split(size, ends), np.split(sign, ends), strict=True)
        ]
        return log_loss, 0.5 * _log_sum(np.stack(squares))

    def error_at(self, step: int) -> np.ndarray:
        """e after this step."""
        size, sign = self.modes.at([step])
        factors = np.split(sign[:, 0] * np.exp(size[:, 0]), np.cumsum(self.sizes)[:-1])
        return np.concatenate([_expanded(*pair) for pair in zip(self.bases, factors, strict=True)])

    def finite_until(self, end: int, scale: float) -> tuple[int, bool]:
        """The step at which the loss has exploded, as `solve` takes it, and True; or `end`, and False."""
        if not self.unstable:
            return end, False
        first = float(self.logs([0])[0][0])
        limit = np.log(EXPLODED) + max(first, np.log(scale))

        def beyond(t: int) -> bool:  # two steps: an alternating mode may pass through zero
            return bool((self.logs([t, t + 1])[0] > limit).all())

        if not beyond(end):
            return end, False
        low, high = 0, end
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if beyond(middle) else (middle, high)
        return high, True

    def first_below(self, tol: float, end: int) -> int | None:
        """The first step up to `end` at which the gradient norm is at most tol times its first value."""
        log_first = float(self.logs([0])[1][0])
        with np.errstate(divide="ignore"):
            target = log_first + float(np.log(tol))
        if np.isneginf(log_first):
            return 0
        if tol == 0:
            end = min(end, 1)  # only modes that vanish at once ever vanish
        if self.gradients is None and all(isinstance(kind, Powers) for kind in self.modes.kinds):
            return self._bisected(target, end)
        return self._searched(target, end)

    def _bisected(self, target: float, end: int) -> int | None:
        """For powers: the squared norm is a sum of wᵢ qᵢ^t, log-convex in t, so the steps below are an interval."""

        def norm(t: int) -> float:
            return float(self.logs([t])[1][0])

        if norm(0) <= target:
            return 0
        low, high = 0, end  # where is it least?
        if norm(end) > target:
            if not self.unstable:
                return None  # it falls for ever
            while high - low > 2:
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

    def _searched(self, target: float, end: int) -> int | None:
        """For courses that rise and fall: some steps one by one, then a leap over steps that cannot be below.

        From two neighbouring steps, how far each mode can move over the next ones bounds the norm from below there.
        """
        t, leap, scan = 0, SCAN, SCAN
        while t <= end:
            steps = np.arange(t, min(t + scan, end + 1))
            norms = self.logs(steps)[1]
            below = np.flatnonzero(norms <= target)
            if below.size:
                return int(steps[below[0]])
            t = int(steps[-1]) + 1
            if t > end or steps.size < 2:
                continue
            leap *= 4
            while leap > scan and not all(self._stays_above(int(steps[k]), norms[k], leap, target) for k in (-2, -1)):
                leap //= 2
            if leap > scan:
                t = int(steps[-2]) + leap + 1
                scan = SCAN
            else:
                leap, scan = scan, min(2 * scan, AT_ONCE // self.modes.count + SCAN)
        return None

    def _stays_above(self, t: int, log_norm: float, width: int, target: float) -> bool:
        """Whether the norm stays above the target at t + 2, t + 4, … up to t + width, where it is log_norm at t."""
        with np.errstate(over="ignore"):
            drift = self.modes.drift(t, width) * np.exp(-log_norm)  # beside the norm at t
        if not np.isfinite(drift).all():
            return False
        if self.gradients is None:
            sizes = np.exp(self.modes.sizes([t])[:, 0] - log_norm)
            least = np.linalg.norm(self.lengths * np.maximum(sizes - drift, 0))
        else:
            ends = np.cumsum(self.sizes)[:-1]
            moved = [
                np.linalg.norm(np.abs(matrix) @ part)
                for matrix, part in zip(self.gradients, np.split(drift, ends), strict=True)
            ]
            least = 1 - np.linalg.norm(moved)
        return bool(least * (1 - 1e-9) > np.exp(target - log_norm))


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the first axis."""
    top = logs.max(axis=0)
    with np.errstate(divide="ignore"):
        shift = np.where(np.isfinite(top), top, 0.0)
        return shift + np.log(np.exp(logs - shift).sum(axis=0))


def _log_square_norm(matrix: np.ndarray, size: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """log|matrix · (sign · exp size)|² in each column."""
    top = size.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    product = matrix @ (sign * np.exp(size - shift))
    with np.errstate(divide="ignore"):
        return 2 * shift + np.log((product**2).sum(axis=0))


def _expanded(basis: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return basis @ factor if basis.ndim == 2 else basis * factor
