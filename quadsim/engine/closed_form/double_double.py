"""Double-double arithmetic: a number as the unevaluated sum of two float64, with about 31 digits (Dekker, Knuth).

For differences that cancel: 1 − lr·λ at the stability limit, the gap between two nearly equal roots. Functions take
arrays and return pairs of arrays. Implemented here because no maintained library has double-double numpy arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Pair = tuple[Any, Any]
SPLITTER = 2.0**27 + 1  # splits a float64 into two halves whose products are exact (Veltkamp)


def exact_sum(a: Any, b: Any) -> Pair:
    """a + b, and its rounding error (Knuth's TwoSum)."""
    total = a + b
    b_part = total - a
    return total, (a - (total - b_part)) + (b - b_part)


def exact_product(a: Any, b: Any) -> Pair:
    """a·b, and its rounding error (Dekker's TwoProduct)."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def add(x: Pair, y: Pair) -> Pair:
    total, rest = exact_sum(x[0], y[0])
    rest_total, rest_rest = exact_sum(x[1], y[1])
    total, rest = exact_sum(total, rest + rest_total)
    return exact_sum(total, rest + rest_rest)


def subtract(x: Pair, y: Pair) -> Pair:
    return add(x, (-y[0], -y[1]))


def multiply(x: Pair, y: Pair) -> Pair:
    product, rest = exact_product(x[0], y[0])
    return exact_sum(product, rest + (x[0] * y[1] + x[1] * y[0]))


def root(a: Any) -> Pair:
    """√a of a float64."""
    estimate = np.sqrt(a)
    square, rest = exact_product(estimate, estimate)
    with np.errstate(invalid="ignore", divide="ignore"):
        return exact_sum(estimate, np.where(a > 0, ((a - square) - rest) / (2 * estimate), 0.0))


def _halves(a: Any) -> Pair:
    stretched = SPLITTER * a
    high = stretched - (stretched - a)
    return high, a - high
