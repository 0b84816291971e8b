"""Two dimensions, H = R(θ) diag(1, κ) R(θ)ᵀ: the best diagonal scaling, and κ_eff of frozen Adam (ledger 8).

Formulas use sinh of half the log of a condition number, which is accurate near κ = 1, where cosh is not.
Angles are in radians; they and the ratios may be arrays.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.theory.constants import checked_block


def best_scaling_kappa(kappa: Any, angle: Any) -> Any:
    """The least condition number of DHD over diagonal D, attained by the unit-diagonal scaling (exact, 8).

    sinh(½ ln κ_b) = |sin 2θ| sinh(½ ln κ): 1 at θ = 0, κ at 45°.

    Parameters
    ----------
    kappa : float or array
    angle : float or array
        θ in radians.

    Returns
    -------
    float or array

    Examples
    --------
    >>> qs.theory.best_scaling_kappa(1000.0, 0.0), round(qs.theory.best_scaling_kappa(1000.0, np.pi / 4), 6)
    (1.0, 1000.0)
    >>> round(qs.theory.best_scaling_kappa(1000.0, np.radians(5)), 2)
    32.06
    """
    return _from_sinh(_scaled_sinh(kappa, angle))


def kappa_eff_2d(kappa: Any, angle: Any, ratio: Any) -> Any:
    """κ_eff of frozen Adam in two dimensions (exact, 8).

    cosh(½ ln κ_eff) = cosh(½ ln κ_b) cosh(½ ln ratio). So κ_eff ≥ κ_b always, and ≥ κ at 45°.

    Parameters
    ----------
    kappa : float or array
    angle : float or array
        θ in radians.
    ratio : float or array
        a₁/a₂ with a_i = H_ii/|g₀,i|.

    Returns
    -------
    float or array

    Examples
    --------
    >>> round(qs.theory.kappa_eff_2d(1000.0, np.radians(5), ratio=1.0), 2)
    32.06
    >>> round(qs.theory.kappa_eff_2d(1000.0, np.radians(5), ratio=4.0), 2)
    51.25
    """
    best, ratio = _scaled_sinh(kappa, angle), _numbers("ratio", ratio, above=0)
    # cosh²A cosh²B - 1 = sinh²A + cosh²A sinh²B, a sum of squares
    return _from_sinh(np.hypot(best, np.hypot(1, best) * _half_log_sinh(ratio)))


def gradient_ratio_law(block: Any) -> tuple[float, float]:
    """The Cauchy law of g₀,₂/g₀,₁ with g₀ = He₀, e₀ ~ N(0, I), for a 2 x 2 block (exact, 8).

    Parameters
    ----------
    block : (2, 2) array

    Returns
    -------
    location, scale : float
        (H²)₁₂/(H²)₁₁ and det H/(H²)₁₁.

    Examples
    --------
    >>> qs.theory.gradient_ratio_law([[2.0, 1.0], [1.0, 2.0]])
    (0.8, 0.6)
    """
    h = checked_block(block, size=2)
    a, b, c = (Fraction(float(entry)) for entry in (h[0, 0], h[0, 1], h[1, 1]))
    first = a * a + b * b
    if a * c - b * b <= 0:  # in fractions, since the determinant cancels when κ is large
        raise InputError(f"the block must be positive definite, got the determinant {float(a * c - b * b):.3g}")
    return float(b * (a + c) / first), float((a * c - b * b) / first)


def _scaled_sinh(kappa: Any, angle: Any) -> np.ndarray:
    """sinh(½ ln κ_b)."""
    return np.abs(np.sin(2 * _numbers("angle", angle))) * _half_log_sinh(_numbers("kappa", kappa, at_least=1))


def _half_log_sinh(x: np.ndarray) -> np.ndarray:
    """sinh(½ ln x)."""
    return (x - 1) / (2 * np.sqrt(x))


def _from_sinh(half: np.ndarray) -> Any:
    """κ from sinh(½ ln κ): κ - 1 comes out to all its digits, before the 1 is added."""
    kappa = 1 + 2 * np.abs(half) * (np.abs(half) + np.hypot(1, half))
    return float(kappa) if np.ndim(kappa) == 0 else kappa


def _numbers(name: str, value: Any, above: float = -math.inf, at_least: float = -math.inf) -> np.ndarray:
    if np.ndim(value) == 0:
        bounds = {"above": above, "at_least": at_least}
        return np.array(checks.real(name, value, **{key: bound for key, bound in bounds.items() if bound > -math.inf}))
    array = checks.numbers_of(f"{name} must be numbers", value)
    for entry in array[~(np.isfinite(array) & (array > above) & (array >= at_least))][:1]:
        return _numbers(name, float(entry), above, at_least)  # raises, with the value
    return array
