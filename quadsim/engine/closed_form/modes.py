"""The modes of a linear method in closed form: after t steps the error of a mode is p_t times its first error.

A mode is an eigendirection with eigenvalue λ, and p_t solves a second-order recurrence with characteristic equation

    heavy ball   z² − (1 + β − αλ) z + β = 0          Nesterov   z² − (1 + β)(1 − αλ) z + β(1 − αλ) = 0

from p₀ = 1, p₁ = 1 − αλ (gradient descent: β = 0, p_t = (1 − αλ)^t). In y = 1 − z, where y₁y₂ = αλ,

    p_t = (y₂ z₁^(t+1) − y₁ z₂^(t+1)) / (y₂ − y₁).

Everything is in logarithms, so that nothing underflows and t may be 10¹². Every difference that cancels is taken in
double-double arithmetic or has a form that does not cancel (ledger 9). Arrays in, arrays out; no loop over steps.

Powers, RealRoots and ComplexRoots hold the modes of one kind and have the same methods; `Modes` documents them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from quadsim.engine.closed_form import double_double
from quadsim.engine.closed_form.double_double import Pair, add, multiply, subtract

ONE: Pair = (1.0, 0.0)
MAX_PRODUCT = 1e150  # of lr and λ: beyond it the error overflows after a few steps
COMPLEX, ZERO = 2, 3  # kinds of roots; the kinds 1, 0 and −1 are the signs of `RealRoots`


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


def descent(lr: Any, curvature: np.ndarray) -> Modes:
    """Gradient descent; the learning rate is one for all modes, or one for each."""
    rates = np.broadcast_to(np.asarray(lr, dtype=float), curvature.shape)
    log_product = np.log(np.abs(rates)) + np.log(curvature)
    moderate = log_product < 300  # beyond it, 1 − lr·λ rounds to −lr·λ
    product = double_double.exact_product(np.where(moderate, rates, 0.0), np.where(moderate, curvature, 0.0))
    log_root, negative = _log_one_minus(product)
    if not moderate.all():
        log_root, negative = np.where(moderate, log_root, log_product), np.where(moderate, negative, rates > 0)
    return _powers(log_root, negative)


def heavy_ball(lr: float, momentum: float, curvature: np.ndarray) -> Modes:
    """w₊ = w − lr·g + momentum·(w − w₋), with these float64 values as given."""
    if momentum == 0:
        return descent(lr, curvature)
    a, twice_root = _product(lr, curvature), _twice(double_double.root(momentum))
    one_plus, one_minus = add(ONE, (momentum, 0.0)), subtract(ONE, (momentum, 0.0))
    return _heavy_ball(
        a[0],
        total=add(one_minus, a)[0],
        offset=subtract(one_minus, a)[0],
        stability=subtract(_twice(one_plus), a)[0],
        trace=subtract(one_plus, a)[0],
        below=subtract(a, subtract(one_plus, twice_root))[0],
        above=subtract(add(one_plus, twice_root), a)[0],
        log_momentum=_log(momentum),
    )


def tuned_heavy_ball(mu: float, lipschitz: float, curvature: np.ndarray) -> Modes:
    """Heavy ball at its best setting for [mu, lipschitz]: both end modes have double roots, exactly (ledger 4a).

    lr = 4/(√L + √μ)² and momentum = ((√L − √μ)/(√L + √μ))², rounded to float64, would move the double roots apart: one
    unit in the last place of lr changes the loss after 10⁶ steps by 3e-4. In these forms nothing cancels.
    """
    if mu == lipschitz:
        return _powers(np.full(curvature.shape, -np.inf), np.zeros(curvature.shape, bool))
    size = np.sqrt(lipschitz) + np.sqrt(mu)
    lr, mean = 4 / size**2, np.sqrt(mu) * np.sqrt(lipschitz)
    return _heavy_ball(
        lr * curvature,
        total=lr * (mean + curvature),
        offset=lr * (np.sqrt(mu) * (lipschitz - mu) / size - (curvature - mu)),  # √(μL) − λ, which cancels at κ = 1
        stability=lr * (mu + (lipschitz - curvature)),
        trace=lr * ((lipschitz + mu) / 2 - curvature),
        below=lr * (curvature - mu),
        above=lr * (lipschitz - curvature),
        log_momentum=2 * _log((lipschitz - mu) / size**2, 2 * np.sqrt(mu) / size),
    )


def _heavy_ball(a: np.ndarray, *, below: np.ndarray, above: np.ndarray, log_momentum: float, **columns: Any) -> Modes:
    """Heavy ball's modes from its distances to the two double roots, αλ − (1 − √β)² and (1 + √β)² − αλ."""
    low, high = np.sqrt(np.abs(below)), np.sqrt(np.abs(above))
    kinds = np.where((below >= 0) & (above >= 0), COMPLEX, np.where(below < 0, 1, -1))
    angle = 2 * np.arctan2(np.minimum(low, high), np.maximum(low, high))
    log_product = np.full(a.shape, log_momentum)
    return _grouped(kinds, low > high, a=a, gap=low * high, angle=angle, log_product=log_product, **columns)


def nesterov(lr: float, momentum: float | None, curvature: np.ndarray, mu: float) -> Modes:
    """w₊ = y − lr·g(y), y = w + momentum·(w − w₋), with these float64 values as given.

    Without a momentum, the best one for an lr up to 4/(3L + mu), (1 − √(lr·mu))/(1 + √(lr·mu)), which gives the mode of
    mu a double root, exactly (ledger 4c).
    """
    if momentum == 0:
        return descent(lr, curvature)
    a = _product(lr, curvature)
    q, (log_q, _) = subtract(ONE, a)[0], _log_one_minus(a)
    b: Pair
    if momentum is None:
        damping = np.sqrt(lr * mu)
        b = subtract(ONE, double_double.exact_product(lr, mu))[0] / (1 + damping) ** 2, 0.0  # 1 − √x cancels at x = 1
        one_minus = 2 * damping / (1 + damping)
        log_momentum, discriminant = _log(b[0], one_minus), 4 * lr * (mu - curvature) / (1 + damping) ** 2
    else:
        b = (momentum, 0.0)
        minus, plus = subtract(ONE, b), add(ONE, b)
        one_minus, log_momentum = minus[0], _log(momentum)
        discriminant = subtract(multiply(minus, minus), multiply(multiply(plus, plus), a))[0]  # (z₁ − z₂)²/q
    gap, trace = np.sqrt(np.abs(q * discriminant)), (1 + b[0]) * q
    return _grouped(
        np.select([q == 0, (q > 0) & (discriminant <= 0), q > 0], [ZERO, COMPLEX, 1], 0),
        np.zeros(q.shape, dtype=bool),
        a=a[0],
        total=one_minus + (1 + b[0]) * a[0],
        offset=one_minus * q,
        stability=subtract(_twice(add(ONE, b)), multiply(add(ONE, _twice(b)), a))[0],
        trace=trace,
        gap=gap,
        angle=np.arctan2(gap, trace),
        log_product=log_momentum + log_q,
    )


def _powers(log_rate: np.ndarray, negative: np.ndarray) -> Modes:
    return Modes((Powers(log_rate, negative),), (np.arange(log_rate.size),))


def _grouped(kinds: np.ndarray, negative: np.ndarray, **columns: np.ndarray) -> Modes:
    """The modes, grouped by kind. `_group` documents the columns; ``negative`` is used for complex roots."""
    by_kind = {kind: np.flatnonzero(kinds == kind) for kind in sorted(set(kinds.tolist()))}
    groups = []
    for kind, index in by_kind.items():
        groups.append(_group(kind, negative[index], **{name: column[index] for name, column in columns.items()}))
    return Modes(tuple(groups), tuple(by_kind.values()))


def _group(
    kind: int,
    negative: np.ndarray,
    *,
    a: np.ndarray,  # y₁y₂ = αλ
    total: np.ndarray,  # y₁ + y₂
    offset: np.ndarray,  # 2p₁ − z₁ − z₂
    stability: np.ndarray,  # (2 − y₁)(2 − y₂)
    trace: np.ndarray,  # z₁ + z₂
    gap: np.ndarray,  # |z₁ − z₂|
    angle: np.ndarray,  # of complex roots
    log_product: np.ndarray,  # log|z₁z₂|
) -> _Group:
    """The modes of one kind. Every argument is computed without cancellation."""
    if kind == ZERO:
        return Powers(np.full(a.size, -np.inf), negative)
    if kind == COMPLEX:
        log_modulus = 0.5 * log_product
        slope = _slope(np.where(negative, -1, 1) * offset, gap, angle, log_modulus)
        return ComplexRoots(log_modulus, negative, angle, slope)
    y2 = (total + gap) / 2
    y1 = a / y2
    larger = (np.abs(trace) + gap) / 2
    # near ±1 the distance from ±1 is more accurate: y₁ for two positive roots, otherwise 2 − y₂
    distance = y1 if kind > 0 else stability / (2 - y1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_larger = np.where(np.abs(distance) < 0.5, np.log1p(-np.minimum(distance, 0.5)), np.log(larger))
        relative_gap = gap * np.exp(-log_larger)  # 1 − smaller/larger
        close = (kind != 0) & (relative_gap < 0.5)
        log_ratio = np.where(close, np.log1p(-np.minimum(relative_gap, 0.5)), log_product - 2 * log_larger)
    return RealRoots(log_larger, kind <= 0, log_ratio, gap, y1, y2, kind)


def _slope(offset: np.ndarray, gap: np.ndarray, angle: np.ndarray, log_modulus: np.ndarray) -> np.ndarray:
    """c of `ComplexRoots`: (p₁ − m cos φ)/(m sin φ)·φ, which is finite at φ = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(gap > 0, offset / gap * angle, offset / (2 * np.exp(log_modulus)))


def _product(lr: float, curvature: np.ndarray) -> Pair:
    """αλ in double-double, clipped at MAX_PRODUCT."""
    clipped = np.log(lr) + np.log(curvature) > np.log(MAX_PRODUCT)
    high, low = double_double.exact_product(np.where(clipped, 0.0, lr), np.where(clipped, 0.0, curvature))
    return np.where(clipped, MAX_PRODUCT, high), low


def _twice(x: Pair) -> Pair:
    return 2 * x[0], 2 * x[1]


def _log_one_minus(a: Pair) -> tuple[np.ndarray, np.ndarray]:
    """log|1 − a|, accurate to the last digits, and whether 1 − a is negative."""
    high, low = a
    with np.errstate(divide="ignore", invalid="ignore"):
        near_zero = np.log1p(-high) - low / (1 - high)
        near_one = np.log(np.abs((1 - high) - low))
        rest = (2 - high) - low
        near_two = np.log1p(-rest)
        size = np.where(high < 0.5, near_zero, np.where(high < 1.5, near_one, near_two))
    return size, (high > 1) | ((high == 1) & (low > 0))


def _log(x: float, rest: float | None = None) -> float:
    """log x for x ≤ 1, accurate to the last digits also near 1; `rest` is 1 − x, where it is known more accurately."""
    return float(np.log1p(-(1 - x if rest is None else rest)) if x > 0.5 else np.log(x))


def _alternate(negative: Any, t: np.ndarray) -> np.ndarray:
    """(−1)^t where negative, else 1."""
    return np.where(negative & (np.mod(t, 2) == 1), -1.0, 1.0)
