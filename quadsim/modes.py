"""How one mode of a linear method shrinks: its error after t steps is p_t times its first, p_t in closed form.

A mode is an eigendirection with eigenvalue λ, and p_t solves a recurrence of second order with the roots z₁, z₂ of

    heavy ball   z² − (1 + β − αλ) z + β = 0          Nesterov   z² − (1 + β)(1 − αλ) z + β(1 − αλ) = 0

from p₀ = 1, p₁ = 1 − αλ (gradient descent: β = 0, p_t = (1 − αλ)^t). In y = 1 − z, where y₁y₂ = αλ,

    p_t = (y₂ z₁^(t+1) − y₁ z₂^(t+1)) / (y₂ − y₁).

Everything is in logarithms, so that nothing underflows and t may be 10¹²; every difference that cancels is taken in
`twofold` arithmetic or has a form that does not (ledger 9). Arrays in, arrays out; no loop over steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim import twofold
from quadsim.twofold import Pair, add, multiply, subtract

ONE: Pair = (1.0, 0.0)
MOST_PRODUCT = 1e150


@dataclass(frozen=True)
class Powers:
    """p_t = z^t, given log|z| and whether z is negative; z = 0 is log −∞."""

    log_root: np.ndarray
    negative: np.ndarray

    def size(self, t: np.ndarray) -> np.ndarray:
        with np.errstate(invalid="ignore"):
            size = t * self.log_root[:, None]
        if not t.all():
            size[:, t == 0] = 0.0  # also where the root is 0
        return size

    def at(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.size(t), _alternate(self.negative[:, None], t)

    def floor(self, t: float) -> np.ndarray:
        return t * self.log_root if t > 0 else np.zeros(self.log_root.size)

    def drift(self, t: float, widths: np.ndarray, beside: np.ndarray, rate: float) -> np.ndarray:
        share = np.exp(self.floor(t) - beside)
        return share[:, None] * np.abs(np.expm1(widths * (self.log_root - rate)[:, None]))

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        root = np.where(self.negative, -1, 1) * np.exp(self.log_root)
        return root, np.zeros_like(root)


@dataclass(frozen=True)
class RealRoots:
    """Two real roots apart: p_t = Z^(t+1) B_t, alternating in sign if the larger root is negative.

    ``log_larger`` is log Z, ``log_ratio`` log|smaller/larger|, ``gap`` y₂ − y₁. ``kind``, one for all of them, is +1
    for two positive roots, −1 for two negative ones, 0 for a negative one with a smaller positive beside it. B_t is
    monotone in t, over steps of one parity where kind is 0; where it is not, B_t rises.
    """

    log_larger: np.ndarray
    log_ratio: np.ndarray
    gap: np.ndarray
    y1: np.ndarray
    y2: np.ndarray
    kind: int

    def bracket(self, t: np.ndarray) -> np.ndarray:
        """B_t."""
        y1, y2, gap = self.y1[:, None], self.y2[:, None], self.gap[:, None]
        power = (t + 1) * self.log_ratio[:, None]  # of (smaller/larger)^(t+1)
        if self.kind > 0:
            return 1 - y1 * np.expm1(power) / gap
        left = np.exp(power)
        if self.kind == 0:
            return (y1 + _alternate(True, t) * y2 * left) / gap
        fallen = np.expm1(power)
        return np.where(fallen < -0.5, (y1 - y2 * left) / gap, -y2 * fallen / gap - 1)

    def size(self, t: np.ndarray) -> np.ndarray:
        return self._size(t)[0]

    def _size(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            bracket = self.bracket(t)
            size = (t + 1) * self.log_larger[:, None] + np.log(np.abs(bracket))
        size[np.isneginf(self.log_larger)] = -np.inf  # both roots are zero
        if not t.all():
            size[:, t == 0] = 0.0
        return size, bracket

    def at(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size, bracket = self._size(t)
        sign = np.sign(bracket) * _alternate(self.kind <= 0, t)
        sign[:, t == 0] = 1.0
        return size, sign

    def floor(self, t: float) -> np.ndarray:
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.kind == 0:
                least = (self.y1 - self.y2 * np.exp((t + 1) * self.log_ratio)) / self.gap
            else:
                least = self.bracket(np.array([t]))[:, 0]
            return (t + 1) * self.log_larger + np.log(np.maximum(least, 0.0))

    def drift(self, t: float, widths: np.ndarray, beside: np.ndarray, rate: float) -> np.ndarray:
        bracket = self.bracket(np.append(t, t + widths))
        here, there = bracket[:, :1], bracket[:, 1:]
        change = np.exp(widths * (self.log_larger - rate)[:, None])  # (Z/exp(rate))^width
        most = np.maximum(here, there) * np.maximum(change, 1) - here
        least = here - np.minimum(here, there) * np.minimum(change, 1)
        crossing = (np.abs(here) + np.abs(there)) * np.maximum(change, 1)
        moved = np.where(np.minimum(here, there) < 0, crossing, np.maximum(most, least))
        return np.exp((t + 1) * self.log_larger - beside)[:, None] * moved

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        larger = (1 if self.kind > 0 else -1) * np.exp(self.log_larger)
        smaller = (-1 if self.kind < 0 else 1) * np.exp(self.log_larger + self.log_ratio)
        return larger + smaller, larger * smaller


@dataclass(frozen=True)
class TurningRoots:
    """A conjugate pair m·exp(±iθ), or a double root: p_t = m^t (cos tφ + c·sin(tφ)/φ), which at φ = 0 is m^t (1 + c·t).

    φ (``angle``) is θ, or π − θ beyond a right angle, and then the sign alternates (``negative``); c is ``slope``.
    """

    log_modulus: np.ndarray
    angle: np.ndarray
    slope: np.ndarray
    negative: np.ndarray

    def bracket(self, t: np.ndarray) -> np.ndarray:
        angle = self.angle[:, None]
        turned = t * angle
        with np.errstate(divide="ignore", invalid="ignore"):
            swing = np.where(angle > 0, np.sin(turned) / angle, t)
        return np.cos(turned) + self.slope[:, None] * swing

    def size(self, t: np.ndarray) -> np.ndarray:
        return self._size(t, self.bracket(t))

    def _size(self, t: np.ndarray, bracket: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return t * self.log_modulus[:, None] + np.log(np.abs(bracket))

    def at(self, t: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        bracket = self.bracket(t)
        return self._size(t, bracket), np.sign(bracket) * _alternate(self.negative[:, None], t)

    def floor(self, t: float) -> np.ndarray:
        bracket = 1 + self.slope * t  # of a double root: it stays away from 0 if that is where it came from
        steady = (self.angle == 0) & (bracket * self.slope >= 0)
        with np.errstate(divide="ignore"):
            return np.where(steady, t * self.log_modulus + np.log(np.abs(bracket)), -np.inf)

    def drift(self, t: float, widths: np.ndarray, beside: np.ndarray, rate: float) -> np.ndarray:
        angle, slope = self.angle[:, None], self.slope[:, None]
        speed = np.hypot(angle, slope)  # most that the bracket changes in a step
        with np.errstate(divide="ignore"):
            height = np.minimum(np.hypot(1, slope / angle), 1 + np.abs(slope) * (t + widths))
        change = np.expm1(widths * (self.log_modulus - rate)[:, None])  # (m/exp(rate))^width, less 1
        moved = np.minimum(2 * height, widths * speed) * np.maximum(1 + change, 1) + np.abs(change) * height
        return np.exp(t * self.log_modulus - beside)[:, None] * moved

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        modulus = np.exp(self.log_modulus)
        return np.where(self.negative, -2, 2) * modulus * np.cos(self.angle), modulus**2


@dataclass(frozen=True)
class Modes:
    """Modes of a linear method, sorted into kinds; ``places`` says where each kind's modes stand among all."""

    kinds: tuple[Any, ...]
    places: tuple[np.ndarray, ...]

    @property
    def count(self) -> int:
        return sum(place.size for place in self.places)

    def sizes(self, steps: Any) -> np.ndarray:
        """log|p_t|, (modes, steps)."""
        t = np.asarray(steps, dtype=float)
        if len(self.kinds) == 1:
            return self.kinds[0].size(t)
        size = np.empty((self.count, t.size))
        for kind, place in zip(self.kinds, self.places, strict=True):
            size[place] = kind.size(t)
        return size

    def at(self, steps: Any) -> tuple[np.ndarray, np.ndarray]:
        """log|p_t| and the sign of p_t, each (modes, steps)."""
        t = np.asarray(steps, dtype=float)
        if len(self.kinds) == 1:
            return self.kinds[0].at(t)
        size, sign = np.empty((self.count, t.size)), np.empty((self.count, t.size))
        for kind, place in zip(self.kinds, self.places, strict=True):
            size[place], sign[place] = kind.at(t)
        return size, sign

    def floors(self, t: int) -> np.ndarray:
        """A lower bound on log|p_s| + (t − s)·log rate, over all s from t on, in each mode: −∞ where none is known.

        A mode that does not swing falls no faster than its rate.
        """
        if len(self.kinds) == 1:
            return self.kinds[0].floor(float(t))
        floor = np.empty(self.count)
        for kind, place in zip(self.kinds, self.places, strict=True):
            floor[place] = kind.floor(float(t))
        return floor

    def drift(self, t: int, widths: Any, beside: Any = 0.0, rate: float = 0.0) -> np.ndarray:
        """Upper bound on |p_s·exp((t − s)·rate) − p_t| over all s = t + 2, t + 4, … up to t + width, over exp(beside).

        In each mode, for each width: (modes, widths).
        """
        widths, beside = np.asarray(widths, dtype=float), np.broadcast_to(beside, (self.count,))
        bound = np.empty((self.count, widths.size))
        for kind, place in zip(self.kinds, self.places, strict=True):
            bound[place] = kind.drift(float(t), widths, beside[place], rate)
        return bound

    def recurrence(self) -> tuple[np.ndarray, np.ndarray]:
        """Sum and product of the roots: p₊ = sum·p − product·p₋, in each mode."""
        total, product = np.empty(self.count), np.empty(self.count)
        for kind, place in zip(self.kinds, self.places, strict=True):
            total[place], product[place] = kind.recurrence()
        return total, product

    def log_rates(self) -> np.ndarray:
        """lim log|p_t|/t of each mode: the logarithm of its larger root's size."""
        rates = np.empty(self.count)
        for kind, place in zip(self.kinds, self.places, strict=True):
            rates[place] = next(
                getattr(kind, name) for name in ("log_root", "log_larger", "log_modulus") if hasattr(kind, name)
            )
        return rates


def descent(lr: Any, curvature: np.ndarray) -> Modes:
    """Gradient descent; the learning rate is one for all modes, or one for each."""
    rates = np.broadcast_to(np.asarray(lr, dtype=float), curvature.shape)
    log_product = np.log(np.abs(rates)) + np.log(curvature)
    tame = log_product < 300  # beyond, the 1 of 1 − lr·λ is far below the last digit
    log_root, negative = _log_one_minus(
        twofold.exact_product(np.where(tame, rates, 0.0), np.where(tame, curvature, 0.0))
    )
    if not tame.all():
        log_root = np.where(tame, log_root, log_product)
        negative = np.where(tame, negative, rates > 0)
    return Modes((Powers(log_root, negative),), (np.arange(curvature.size),))


def heavy_ball(lr: float, momentum: float, curvature: np.ndarray) -> Modes:
    """w₊ = w − lr·g + momentum·(w − w₋), for these float64 taken as they are."""
    if momentum == 0:
        return descent(lr, curvature)
    a = _product(lr, curvature)
    root = twofold.root(momentum)
    middle = add(ONE, (momentum, 0.0))  # 1 + β
    below = subtract(a, subtract(middle, _twice(root)))  # αλ − (1 − √β)²
    above = subtract(add(middle, _twice(root)), a)  # (1 + √β)² − αλ
    rest = subtract(ONE, (momentum, 0.0))  # 1 − β
    return _paired(
        a=a[0], total=add(rest, a)[0], lean=subtract(rest, a)[0], below=below[0], above=above[0],
        stable=subtract(_twice(middle), a)[0], trace=subtract(middle, a)[0],
        log_modulus=0.5 * _log(momentum),
    )  # fmt: skip


def tuned_heavy_ball(mu: float, lipschitz: float, curvature: np.ndarray) -> Modes:
    """Heavy ball at its best setting for [mu, lipschitz]: both end modes have double roots, exactly (ledger 4a).

    lr = 4/(√L + √μ)² and momentum = ((√L − √μ)/(√L + √μ))², rounded to float64, would move the double roots apart: one
    unit in the last place of lr changes the loss after 10⁶ steps by 3e-4. In these forms nothing cancels.
    """
    if mu == lipschitz:
        return Modes(
            (Powers(np.full(curvature.shape, -np.inf), np.zeros(curvature.shape, bool)),), (np.arange(curvature.size),)
        )
    size = np.sqrt(lipschitz) + np.sqrt(mu)
    lr, mean = 4 / size**2, np.sqrt(mu) * np.sqrt(lipschitz)
    return _paired(
        a=lr * curvature, total=lr * (mean + curvature), below=lr * (curvature - mu),
        lean=lr * (np.sqrt(mu) * (lipschitz - mu) / size - (curvature - mu)),  # √(μL) − λ, which cancels at κ = 1
        above=lr * (lipschitz - curvature), stable=lr * (mu + (lipschitz - curvature)),
        trace=lr * ((lipschitz + mu) / 2 - curvature),
        log_modulus=_log((lipschitz - mu) / size**2, 2 * np.sqrt(mu) / size),
    )  # fmt: skip


def nesterov(lr: float, momentum: float | None, curvature: np.ndarray, mu: float) -> Modes:
    """w₊ = y − lr·g(y), y = w + momentum·(w − w₋), for these float64 taken as they are.

    Without a momentum, the best one for an lr up to 4/(3L + mu), (1 − √(lr·mu))/(1 + √(lr·mu)), which gives the mode of
    mu a double root, exactly (ledger 4c).
    """
    if momentum == 0:
        return descent(lr, curvature)
    a = _product(lr, curvature)
    q = subtract(ONE, a)
    if momentum is None:
        damping = np.sqrt(lr * mu)
        b: Pair = (subtract(ONE, twofold.exact_product(lr, mu))[0] / (1 + damping) ** 2, 0.0)  # 1 − √x cancels at x = 1
        rest = 2 * damping / (1 + damping)
        log_momentum, apart = _log(b[0], rest), 4 * lr * (mu - curvature) / (1 + damping) ** 2
    else:
        b = (momentum, 0.0)
        log_momentum, slack = _log(momentum), subtract(ONE, b)
        rest, more = slack[0], add(ONE, b)
        apart = subtract(multiply(slack, slack), multiply(multiply(more, more), a))[0]  # (1 − β)² − (1 + β)²αλ
    total, lean = rest + (1 + b[0]) * a[0], rest * q[0]
    log_q, _ = _log_one_minus(a)
    still = q[0] == 0  # both roots are 0
    turning = ~still & (q[0] > 0) & (apart <= 0)
    kinds: list[tuple[Any, np.ndarray]] = [(Powers(np.full(still.sum(), -np.inf), np.zeros(still.sum(), bool)), still)]
    if turning.any():
        width = np.sqrt((q[0] * -apart)[turning])  # twice the roots' imaginary part
        angle = np.arctan2(width, ((1 + b[0]) * q[0])[turning])
        modulus = 0.5 * (log_momentum + log_q[turning])
        slope = _slope(lean[turning], width, angle, modulus)
        kinds.append((TurningRoots(modulus, angle, slope, np.zeros(slope.size, bool)), turning))
    real = ~still & ~turning
    if real.any():
        stable = subtract(_twice(add(ONE, b)), multiply(add(ONE, _twice(b)), a))[0]
        for kind, here in ((1, real & (q[0] > 0)), (0, real & (q[0] < 0))):
            if here.any():
                gap = np.sqrt((q[0] * apart)[here])
                both = log_momentum + log_q[here]  # log of the product of the roots' sizes
                trace = (1 + b[0]) * q[0][here]
                kinds.append((_real_roots(a[0][here], total[here], gap, stable[here], trace, kind, both), here))
    return _sorted(kinds)


def _paired(
    *, a: np.ndarray, total: np.ndarray, lean: np.ndarray, below: np.ndarray, above: np.ndarray, stable: np.ndarray,
    trace: np.ndarray,
    log_modulus: float,
) -> Modes:  # fmt: skip
    """Heavy ball's modes from a = αλ, y₁ + y₂, 1 − β − a, its gaps to the two double roots, and 2(1 + β) − a."""
    turning = (below >= 0) & (above >= 0)
    kinds: list[tuple[Any, np.ndarray]] = []
    if turning.any():
        low, high = np.sqrt(below[turning]), np.sqrt(above[turning])
        folded = low > high
        angle = 2 * np.arctan2(np.minimum(low, high), np.maximum(low, high))
        modulus = np.full(angle.shape, log_modulus)
        slope = _slope(np.where(folded, -1, 1) * lean[turning], low * high, angle, modulus)
        kinds.append((TurningRoots(modulus, angle, slope, folded), turning))
    for kind, here in ((1, ~turning & (below < 0)), (-1, ~turning & ~(below < 0))):
        if here.any():
            gap = np.sqrt(np.abs(below[here])) * np.sqrt(np.abs(above[here]))
            both = np.full(gap.shape, 2 * log_modulus)
            kinds.append((_real_roots(a[here], total[here], gap, stable[here], trace[here], kind, both), here))
    return _sorted(kinds)


def _slope(lean: np.ndarray, width: np.ndarray, angle: np.ndarray, log_modulus: np.ndarray) -> np.ndarray:
    """c of `TurningRoots`: (p₁ − m cos φ)/(m sin φ)·φ, which is finite at φ = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(width > 0, lean / width * angle, lean / (2 * np.exp(log_modulus)))


def _real_roots(
    a: np.ndarray,
    total: np.ndarray,
    gap: np.ndarray,
    stable: np.ndarray,
    trace: np.ndarray,
    kind: int,
    log_both: np.ndarray,
) -> RealRoots:
    """Real roots from y₁y₂ = a, y₁ + y₂, y₂ − y₁, (2 − y₁)(2 − y₂), z₁ + z₂, and the log of |z₁z₂|."""
    y2 = (total + gap) / 2
    y1 = a / y2
    larger = (np.abs(trace) + gap) / 2
    # near ±1 its distance from there is known better: y₁ of two positive roots, otherwise 2 − y₂
    rest = y1 if kind > 0 else stable / (2 - y1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_larger = np.where(np.abs(rest) < 0.5, np.log1p(-np.minimum(rest, 0.5)), np.log(larger))
        part = gap * np.exp(-log_larger)  # 1 − smaller/larger
        close = (kind != 0) & (part < 0.5)
        log_ratio = np.where(close, np.log1p(-np.minimum(part, 0.5)), log_both - 2 * log_larger)
    return RealRoots(log_larger, log_ratio, gap, y1, y2, kind)


def _sorted(kinds: list[tuple[Any, np.ndarray]]) -> Modes:
    there = [(kind, np.flatnonzero(mask)) for kind, mask in kinds if mask.any()]
    return Modes(tuple(kind for kind, _ in there), tuple(place for _, place in there))


def _product(lr: float, curvature: np.ndarray) -> Pair:
    """αλ; what is beyond 10¹⁵⁰ has left float64 after the first step, and is cut there."""
    wild = np.log(lr) + np.log(curvature) > np.log(MOST_PRODUCT)
    high, low = twofold.exact_product(np.where(wild, 0.0, lr), np.where(wild, 0.0, curvature))
    return np.where(wild, MOST_PRODUCT, high), low


def _twice(x: Pair) -> Pair:
    return 2 * x[0], 2 * x[1]


def _log_one_minus(a: Pair) -> tuple[np.ndarray, np.ndarray]:
    """log|1 − a| to the last digits, and whether 1 − a is negative."""
    high, low = a
    with np.errstate(divide="ignore", invalid="ignore"):
        near_zero = np.log1p(-high) - low / (1 - high)
        near_one = np.log(np.abs((1 - high) - low))
        rest = (2 - high) - low
        near_two = np.log1p(-rest)
        size = np.where(high < 0.5, near_zero, np.where(high < 1.5, near_one, near_two))
    return size, (high > 1) | ((high == 1) & (low > 0))


def _log(x: float, rest: float | None = None) -> float:
    """log x of a number up to 1, right to the last digits also near 1; `rest` is 1 − x, where it is known better."""
    return float(np.log1p(-(1 - x if rest is None else rest)) if x > 0.5 else np.log(x))


def _alternate(negative: Any, t: np.ndarray) -> np.ndarray:
    """(−1)^t where negative, else 1."""
    return np.where(negative & (np.mod(t, 2) == 1), -1.0, 1.0)
