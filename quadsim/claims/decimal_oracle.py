"""The loss of GD, heavy ball and Nesterov's method after t steps in 90-digit arithmetic: the oracle of `accuracy`.

Float64 settings are converted exactly, and the companion matrix of each mode is raised to its power by repeated
squaring, without roots or case distinctions.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from typing import Any

import numpy as np

from quadsim.claims.sampling import diagonal_problem
from quadsim.engine.closed_form.exact import modal_decomposition
from quadsim.optimizers import GD, Nesterov

# Squaring forty times loses 12 digits at t = 10¹², and more by cancellation near double roots; GD needs only 60 digits.
MANY_DIGITS = Context(prec=90, Emin=MIN_EMIN, Emax=MAX_EMAX)


def against_decimal(values: np.ndarray, e: np.ndarray, optimizer: Any, t: int) -> tuple[float, float, float, float]:
    """The error of the closed form of ln loss[t]; ln loss[t], ln loss[t]/loss[0], and loss[t] over its envelope."""
    ours = modal_decomposition(diagonal_problem(values), optimizer, e)[1].logs([t])[0][0]
    truth, envelope = decimal_loss(values, e, optimizer, t)
    first, _ = decimal_loss(values, e, optimizer, 0)
    with localcontext(MANY_DIGITS):
        log = truth.ln()
        return abs(float(Decimal(float(ours)) - log)), float(log), float(log - first.ln()), float(truth / envelope)


def decimal_loss(values: np.ndarray, e: np.ndarray, optimizer: Any, t: int) -> tuple[Decimal, Decimal]:
    """loss[t] of GD, heavy ball or Nesterov's method, and its value with every oscillating mode at its largest."""
    with localcontext(MANY_DIGITS):
        loss, envelope = Decimal(0), Decimal(0)
        for lam, c in zip(values.tolist(), e.tolist(), strict=True):
            first = 1 - Decimal(optimizer.lr) * Decimal(lam)
            if isinstance(optimizer, GD):
                square = largest = first ** (2 * t)
            else:
                b = Decimal(optimizer.momentum)
                total, product = ((1 + b) * first, b * first) if isinstance(optimizer, Nesterov) else (first + b, b)
                square = largest = _solution(total, product, first, t) ** 2
                gap, offset = product - total**2 / 4, (first - total / 2) ** 2
                if gap > 0:
                    height = min(1 + offset / gap, (1 + t * (offset / product).sqrt()) ** 2)
                    largest = max(square, product**t * height)
            loss += Decimal(lam) * Decimal(c) ** 2 * square / 2
            envelope += Decimal(lam) * Decimal(c) ** 2 * largest / 2
        return loss, envelope


def _solution(total: Decimal, product: Decimal, first: Decimal, t: int) -> Decimal:
    """p_t of p_(s+1) = total·p_s − product·p_(s−1) from p_0 = 1, p_1 = first, by squaring the companion matrix."""
    a, b, c, d = total, -product, Decimal(1), Decimal(0)
    p, q, r, s = Decimal(1), Decimal(0), Decimal(0), Decimal(1)
    while t:
        if t & 1:
            p, q, r, s = p * a + q * c, p * b + q * d, r * a + s * c, r * b + s * d
        a, b, c, d = a * a + b * c, a * b + b * d, c * a + d * c, c * b + d * d
        t >>= 1
    return r * first + s
