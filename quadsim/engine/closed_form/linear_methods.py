"""The modes of each linear method: the roots of its characteristic equation, from its settings and the eigenvalues.

Every difference that cancels is taken in double-double arithmetic or has a form that does not cancel (ledger 9).
`modes` has the equations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim.engine.closed_form import double_double
from quadsim.engine.closed_form.double_double import Pair, add, multiply, subtract
from quadsim.engine.closed_form.modes import ComplexRoots, Modes, Powers, RealRoots

ONE: Pair = (1.0, 0.0)
MAX_PRODUCT = 1e150  # of lr and λ: beyond it the error overflows after a few steps
COMPLEX, ZERO = 2, 3  # kinds of roots; the kinds 1, 0 and −1 are the signs of `RealRoots`


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
) -> Powers | RealRoots | ComplexRoots:
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
