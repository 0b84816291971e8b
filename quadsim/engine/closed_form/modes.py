"""The modes of a linear method in closed form: after t steps the error of a mode is p_t times its first error.

A mode is an eigendirection with eigenvalue λ, and p_t solves a second-order recurrence with characteristic equation

    heavy ball   z² − (1 + β − αλ) z + β = 0          Nesterov   z² − (1 + β)(1 − αλ) z + β(1 − αλ) = 0

from p₀ = 1, p₁ = 1 − αλ (gradient descent: β = 0, p_t = (1 − αλ)^t). In y = 1 − z, where y₁y₂ = αλ,

    p_t = (y₂ z₁^(t+1) − y₁ z₂^(t+1)) / (y₂ − y₁).

Everything is in logarithms, so that nothing underflows and t may be 10¹². Arrays in, arrays out; no loop over steps.

Powers, RealRoots and ComplexRoots hold the modes of one kind and have the same methods; `Modes` documents them.
`linear_methods` finds the roots of each method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np


@dataclass(frozen=True)
class _Group:
    """Modes of one kind: p_t = (±1)^t exp((t + shift)·log_rate) B_t, where the sign alternates if ``negative``."""

    log_rate: np.ndarray
    negative: np.ndarray | bool
    shift: ClassVar[int] = 0

    def bracket(self, t: np.ndarray) -> np.ndarray:
        """B_t, (modes, steps) or anything that broadcasts to it."""
        raise NotImplementedError

    def log_size(self, t: np.ndarray) -> np.ndarray:
        return self._log_size(t, self.bracket(t))

    def log_size_and_sign(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bracket = self.bracket(t)
        sign = np.sign(bracket) * _alternate(np.reshape(self.negative, (-1, 1)), t)
        sign[:, t == 0] = 1.0
        return self._log_size(t, bracket), sign

    def _log_size(self, t: np.ndarray, bracket: np.ndarray | None = None) -> np.ndarray:
        """log|p_t|, given B_t where it is not 1."""
        with np.errstate(divide="ignore", invalid="ignore"):
            log_size = (t + self.shift) * self.log_rate[:, None]
            if bracket is not None:
                log_size += np.log(np.abs(bracket))
        if not t.all():
            log_size[:, t == 0] = 0.0  # also where the root is 0
        return log_size


@dataclass(frozen=True)
class Powers(_Group):
    """p_t = z^t, given ``log_rate`` = log|z| and whether z is negative; z = 0 has the logarithm −∞."""

    def log_size(self, t: np.ndarray) -> np.ndarray:
        return self._log_size(t)

    def log_size_and_sign(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.log_size(t), _alternate(np.reshape(self.negative, (-1, 1)), t)

    def log_lower_bound(self, t: float) -> np.ndarray:
        return t * self.log_rate if t > 0 else np.zeros(self.log_rate.size)

    def drift(self, t: float, widths: np.ndarray, log_scale: np.ndarray, rate: float) -> np.ndarray:
        relative = np.exp(self.log_lower_bound(t) - log_scale)
        return relative[:, None] * np.abs(np.expm1(widths * (self.log_rate - rate)[:, None]))

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        root = np.where(self.negative, -1, 1) * np.exp(self.log_rate)
        return root, np.zeros_like(root)


@dataclass(frozen=True)
class RealRoots(_Group):
    """Two distinct real roots: p_t = Z^(t+1) B_t, alternating in sign if the larger root is negative.

    ``log_rate`` is log Z, Z the larger |z|; ``log_ratio`` is log|smaller/larger|, ``gap`` y₂ − y₁. ``signs``, one for
    all modes, is +1 for two positive roots, −1 for two negative ones, 0 for a negative and a smaller positive one. B_t
    is monotone in t; where ``signs`` is 0, over the even and over the odd steps.
    """

    log_ratio: np.ndarray
    gap: np.ndarray
    y1: np.ndarray
    y2: np.ndarray
    signs: int
    shift = 1

    def bracket(self, t: np.ndarray) -> np.ndarray:
        y1, y2, gap = self.y1[:, None], self.y2[:, None], self.gap[:, None]
        power = (t + 1) * self.log_ratio[:, None]  # log (smaller/larger)^(t+1)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.signs > 0:
                return 1 - y1 * np.expm1(power) / gap
            ratio_power = np.exp(power)
            if self.signs == 0:
                return (y1 + _alternate(True, t) * y2 * ratio_power) / gap
            minus_one = np.expm1(power)
            return np.where(minus_one < -0.5, (y1 - y2 * ratio_power) / gap, -y2 * minus_one / gap - 1)

    def log_lower_bound(self, t: float) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.signs == 0:
                least = (self.y1 - self.y2 * np.exp((t + 1) * self.log_ratio)) / self.gap
            else:
                least = self.bracket(np.array([t]))[:, 0]
            return (t + 1) * self.log_rate + np.log(np.maximum(least, 0.0))

    def drift(self, t: float, widths: np.ndarray, log_scale: np.ndarray, rate: float) -> np.ndarray:
        bracket = self.bracket(np.append(t, t + widths))
        now, later = bracket[:, :1], bracket[:, 1:]
        change = np.exp(widths * (self.log_rate - rate)[:, None])  # (Z/exp(rate))^width
        most = np.maximum(now, later) * np.maximum(change, 1) - now
        least = now - np.minimum(now, later) * np.minimum(change, 1)
        crossing = (np.abs(now) + np.abs(later)) * np.maximum(change, 1)
        moved = np.where(np.minimum(now, later) < 0, crossing, np.maximum(most, least))
        return np.exp((t + 1) * self.log_rate - log_scale)[:, None] * moved

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        larger = (1 if self.signs > 0 else -1) * np.exp(self.log_rate)
        smaller = (-1 if self.signs < 0 else 1) * np.exp(self.log_rate + self.log_ratio)
        return larger + smaller, larger * smaller


@dataclass(frozen=True)
class ComplexRoots(_Group):
    """A conjugate pair m·exp(±iθ), or a double root: p_t = m^t (cos tφ + c·sin(tφ)/φ), which at φ = 0 is m^t (1 + c·t).

    ``log_rate`` is log m, ``slope`` is c. φ (``angle``) is θ, or π − θ beyond a right angle: the sign then alternates
    (``negative``).
    """

    angle: np.ndarray
    slope: np.ndarray

    def bracket(self, t: np.ndarray) -> np.ndarray:
        angle = self.angle[:, None]
        phase = t * angle
        with np.errstate(divide="ignore", invalid="ignore"):
            sine = np.where(angle > 0, np.sin(phase) / angle, t)
        return np.cos(phase) + self.slope[:, None] * sine

    def log_lower_bound(self, t: float) -> np.ndarray:
        bracket = 1 + self.slope * t  # of a double root; it has no zero later if it moves away from 0
        steady = (self.angle == 0) & (bracket * self.slope >= 0)
        with np.errstate(divide="ignore"):
            return np.where(steady, t * self.log_rate + np.log(np.abs(bracket)), -np.inf)

    def drift(self, t: float, widths: np.ndarray, log_scale: np.ndarray, rate: float) -> np.ndarray:
        angle, slope = self.angle[:, None], self.slope[:, None]
        speed = np.hypot(angle, slope)  # bound on the change of the bracket in a step
        with np.errstate(divide="ignore"):
            height = np.minimum(np.hypot(1, slope / angle), 1 + np.abs(slope) * (t + widths))
        change = np.expm1(widths * (self.log_rate - rate)[:, None])  # (m/exp(rate))^width, less 1
        moved = np.minimum(2 * height, widths * speed) * np.maximum(1 + change, 1) + np.abs(change) * height
        return np.exp(t * self.log_rate - log_scale)[:, None] * moved

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        modulus = np.exp(self.log_rate)
        return np.where(self.negative, -2, 2) * modulus * np.cos(self.angle), modulus**2


@dataclass(frozen=True)
class Modes:
    """All modes of a linear method, in groups of one kind; ``indices`` are the modes of each group."""

    groups: tuple[Any, ...]
    indices: tuple[np.ndarray, ...]

    @property
    def count(self) -> int:
        return sum(index.size for index in self.indices)

    def log_sizes(self, steps: Any) -> np.ndarray:
        """log|p_t|, (modes, steps)."""
        t = np.asarray(steps, dtype=float)
        return self._gather([group.log_size(t) for group in self.groups])

    def log_sizes_and_signs(self, steps: Any) -> tuple[np.ndarray, np.ndarray]:
        """log|p_t| and the sign of p_t, each (modes, steps)."""
        t = np.asarray(steps, dtype=float)
        return self._gather_pairs([group.log_size_and_sign(t) for group in self.groups])

    def log_lower_bounds(self, t: int) -> np.ndarray:
        """A lower bound on log|p_s| + (t − s)·log rate over all s ≥ t, in each mode; −∞ where none is known.

        A mode that does not oscillate decays no faster than its rate.
        """
        return self._gather([group.log_lower_bound(float(t)) for group in self.groups])

    def drift(self, t: int, widths: Any, log_scale: Any = 0.0, rate: float = 0.0) -> np.ndarray:
        """Upper bound on |p_s·exp((t − s)·rate) − p_t|/exp(log_scale) over s = t + 2, t + 4, … up to t + width.

        In each mode, for each width: (modes, widths).
        """
        widths, log_scale = np.asarray(widths, dtype=float), np.broadcast_to(log_scale, (self.count,))
        each = zip(self.groups, self.indices, strict=True)
        return self._gather([group.drift(float(t), widths, log_scale[index], rate) for group, index in each])

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        """Sum and product of the roots: p₊ = sum·p − product·p₋, in each mode."""
        return self._gather_pairs([group.recurrence() for group in self.groups])

    def log_rates(self) -> np.ndarray:
        """lim log|p_t|/t of each mode: the logarithm of its larger root's size."""
        return self._gather([group.log_rate for group in self.groups])

    def _gather(self, parts: list[np.ndarray]) -> np.ndarray:
        """The rows of all groups, in the order of the modes."""
        if len(parts) == 1:
            return parts[0]
        rows = np.empty((self.count, *parts[0].shape[1:]))
        for part, index in zip(parts, self.indices, strict=True):
            rows[index] = part
        return rows

    def _gather_pairs(self, pairs: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
        return self._gather([first for first, _ in pairs]), self._gather([second for _, second in pairs])


def _alternate(negative: Any, t: np.ndarray) -> np.ndarray:
    """(−1)^t where negative, else 1."""
    return np.where(negative & (np.mod(t, 2) == 1), -1.0, 1.0)
