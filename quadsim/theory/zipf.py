"""The Zipf bigram model: GD against sign descent where frequencies fall like 1/k (ledger 10).

Row k of a d x d table W is drawn with probability π_k = 1/(k H_d); its targets p_kj are some permutation of π itself.
The loss is ½Σ_k π_k Σ_j (W_kj − p_kj)², W starts at 0, and every loss here is relative to the initial one.
Sign descent moves each entry by lr towards its target, so all rows are equal up to permutation; errors start at π_j.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim import _validation as checks
from quadsim._validation import InputError, InputTypeError

MAX_DIM = 10**7  # one float for each k
MAX_STEPS = 10**15
PARITIES = ("pair", "odd", "even")


def zipf_gd_loss(dim: int, at: Any, alpha: float = 1.0) -> Any:
    """loss[t]/loss[0] = Σ π_k (1 − k^-α)^2t of GD with lr = 1/π_1, π_k ∝ k^-α (exact, 10).

    Parameters
    ----------
    dim : int
    at : int or array of int
        Steps.
    alpha : float
        The exponent of the law.

    Returns
    -------
    float or array
        In the shape of ``at``.

    Examples
    --------
    >>> qs.theory.zipf_gd_loss(1000, [0, 10, 1000]).round(4).tolist()
    [1.0, 0.4449, 0.0065]
    """
    frequency, log_factor = _modes(dim, alpha)
    return _at_steps(at, lambda t: _gd_loss(frequency, log_factor, t))


def zipf_gd_time(dim: int, eps: float, alpha: float = 1.0) -> int:
    """The first step at which `zipf_gd_loss` is at most eps (exact, by bisection: the loss decreases; 10).

    Parameters
    ----------
    dim : int
    eps : float
        Between 0 and 1.
    alpha : float
        The exponent of the law.

    Returns
    -------
    int

    Examples
    --------
    >>> qs.theory.zipf_gd_time(1000, 0.1)
    187
    """
    eps = checks.real("eps", eps, above=0, below=1)
    frequency, log_factor = _modes(dim, alpha)
    return _first(lambda t: _gd_loss(frequency, log_factor, t) <= eps)


def zipf_gd_time_formula(dim: int, eps: float) -> float:
    """(d/2)x with E_1(x) = eps (ln d + γ), the limit of `zipf_gd_time` as d → ∞ for α = 1 (asymptotic, 10).

    Roughly d^(1−eps), but only where d^-eps is small: at d ≤ 10⁶ compare with this, not with the exponent.

    Parameters
    ----------
    dim : int
    eps : float
        Between 0 and 1.

    Returns
    -------
    float

    Examples
    --------
    >>> round(qs.theory.zipf_gd_time_formula(1000, 0.1), 1)
    186.9
    """
    from scipy.optimize import brentq
    from scipy.special import exp1

    dim, eps = _dim(dim), checks.real("eps", eps, at_least=1e-100, below=1)
    target = eps * (math.log(dim) + np.euler_gamma)
    u = brentq(lambda u: math.log(exp1(math.exp(u)) / target), -target - 5, math.log(600), xtol=1e-14)
    return dim / 2 * math.exp(u)


def zipf_sign_loss(dim: int, at: Any, lr: float) -> Any:
    """loss[n]/loss[0] of sign descent with a constant lr (exact, 10).

    An error that starts at δ is δ − n·lr before step k = ⌈δ/lr⌉, then k·lr − δ and δ − (k−1)lr in turn. One that
    hits 0 exactly moves on like any other, so that the loss is continuous in lr.

    Parameters
    ----------
    dim : int
    at : int or array of int
        Steps.
    lr : float

    Returns
    -------
    float or array
        In the shape of ``at``.

    Examples
    --------
    >>> qs.theory.zipf_sign_loss(1000, [0, 10, 20], lr=0.005).round(4).tolist()
    [1.0, 0.2785, 0.0696]
    """
    targets, rates = _Targets.of(dim), np.array([checks.real("lr", lr, above=0)])
    return _at_steps(at, lambda t: targets.losses(t, rates)[0])


def zipf_sign_best_lr(dim: int, at: int, parity: str = "pair") -> tuple[float, float]:
    """The constant lr with the smallest loss of sign descent at a step, by search (10).

    For d ≥ 1000 no lr on a grid of 20,000 did better; for small d the loss has many near-equal minima.

    Parameters
    ----------
    dim, at : int
        The dimension and the step.
    parity : "pair", "odd" or "even"
        "pair" takes the mean over this step and the next; "odd" and "even" take steps of that parity, and are different
        questions: at even steps small errors are at their initial values, whatever the lr.

    Returns
    -------
    lr, loss : float

    Examples
    --------
    >>> lr, loss = qs.theory.zipf_sign_best_lr(1000, 50)
    >>> round(lr, 5), round(loss, 4)
    (0.00228, 0.0787)
    """
    parity = checks.choice("parity", parity, PARITIES)
    at = checks.whole("at", at, at_least=1, at_most=10**6)
    if parity != "pair" and at % 2 != PARITIES.index(parity) % 2:
        raise InputError(f"at must be {parity} to be measured at {parity} steps, got {at}")
    return _best_lr(_Targets.of(dim), at, parity)


def zipf_sign_time(dim: int, eps: float, parity: str = "pair") -> int:
    """The first step at which sign descent, its lr chosen for that step, has a loss of at most eps (exact, 10).

    Pairs and odd steps by bisection, since there the loss at the best lr decreases with the steps (tested); even steps
    one by one.

    Parameters
    ----------
    dim : int
        At least 1000: below that the step depends on how the targets divide each other.
    eps : float
        Between 0 and 1.
    parity : "pair", "odd" or "even"
        As in `zipf_sign_best_lr`.

    Returns
    -------
    int

    Examples
    --------
    >>> qs.theory.zipf_sign_time(1000, 0.1)
    44
    """
    eps = checks.real("eps", eps, at_least=1e-4, below=1)
    parity = checks.choice("parity", parity, PARITIES)
    targets = _Targets.of(checks.whole("dim", dim, at_least=1000, at_most=MAX_DIM))
    if parity == "even":
        return next(n for n in itertools.count(2, 2) if _best_lr(targets, n, parity)[1] <= eps)
    guess = int(zipf_sign_time_formula(dim, min(eps, 0.3), parity))
    if parity == "pair":
        return _first(lambda n: _best_lr(targets, n, parity)[1] <= eps, guess)
    return 2 * _first(lambda n: _best_lr(targets, 2 * n - 1, parity)[1] <= eps, guess // 2) - 1


def zipf_sign_time_formula(dim: int, eps: float, parity: str = "pair") -> float:
    """√(d(1−B)/(2B)) for pairs, √(d(1−B)/B) at odd steps, with B = eps·π²/6 (asymptotic, for eps ≤ 0.3; 10).

    The first error against a tail of d errors of size lr. At even steps there is no such law: the tail costs nothing.

    Parameters
    ----------
    dim : int
    eps : float
        At most 0.3.
    parity : "pair" or "odd"

    Returns
    -------
    float

    Examples
    --------
    >>> round(qs.theory.zipf_sign_time_formula(1000, 0.1), 1)
    50.4
    """
    dim, eps = _dim(dim), checks.real("eps", eps, above=0, at_most=0.3)
    share = eps * math.pi**2 / 6
    return math.sqrt(_tail_weight(dim, checks.choice("parity", parity, PARITIES[:2])) * (1 - share) / share)


def _tail_weight(dim: int, parity: str) -> float:
    """The loss of the small errors, in units of lr²."""
    return {"pair": dim / 2, "odd": dim, "even": 0}[parity]


@dataclass(frozen=True)
class _Targets:
    """The errors at the start, decreasing, with their running sums and those of their squares."""

    delta: np.ndarray  # (d,)
    sums: np.ndarray  # (d + 1,)
    squares: np.ndarray  # (d + 1,)

    @classmethod
    def of(cls, dim: int) -> _Targets:
        delta = 1 / np.arange(1, _dim(dim) + 1)
        delta /= delta.sum()
        return cls(delta, *(np.concatenate([[0], np.cumsum(part)]) for part in (delta, delta**2)))

    def losses(self, steps: float, rates: np.ndarray) -> np.ndarray:
        """loss/loss[0] after `steps`, one for each lr."""
        head = int(np.searchsorted(-self.delta, -rates.min(), side="right"))  # beyond it, δ is below every lr
        delta, lr = self.delta[:head], rates[:, None]
        arrival = np.maximum(np.ceil(delta / lr), 1)  # (rates, head)
        over = arrival * lr - delta
        turned = np.where((steps - arrival) % 2 == 0, over, lr - over)
        error = np.where(steps < arrival, delta - steps * lr, turned)
        tail = self.squares[-1] - self.squares[head]
        if steps % 2 == 1:
            tail = tail + (self.delta.size - head) * rates**2 - 2 * rates * (self.sums[-1] - self.sums[head])
        return ((error**2).sum(axis=1) + tail) / self.squares[-1]


def _best_lr(targets: _Targets, steps: int, parity: str) -> tuple[float, float]:
    """Grid search upwards from the lr that balances the first error and the tail, refined around the best."""
    first = targets.delta[0]
    middle = first * steps / (steps**2 + _tail_weight(targets.delta.size, parity))
    low, high, count = middle / 1.5, 1.5 * min(middle / first, first), 4000 if parity == "even" else 250
    for _ in range(3):
        rates = np.geomspace(low, high, count)
        parts = np.array_split(rates, 1 + count // 100)
        at = (steps, steps + 1) if parity == "pair" else (steps,)
        losses = np.mean([np.concatenate([targets.losses(t, part) for part in parts]) for t in at], axis=0)
        best = int(np.argmin(losses))
        low, high, count = rates[max(best - 2, 0)], rates[min(best + 2, count - 1)], 50
    return float(rates[best]), float(losses[best])


def _modes(dim: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """π_k of k = 1, …, d, and ln(1 − k^-α) of k = 2, …, d."""
    alpha = checks.real("alpha", alpha, at_least=0.01, at_most=100)
    weight = np.arange(1, _dim(dim) + 1) ** -alpha
    return weight / weight.sum(), np.log1p(-weight[1:])


def _gd_loss(frequency: np.ndarray, log_factor: np.ndarray, steps: float) -> float:
    first = frequency[0] if steps == 0 else 0.0  # the first mode is gone after one step
    with np.errstate(under="ignore"):
        return float(first + (frequency[1:] * np.exp(2 * steps * log_factor)).sum())


def _first(holds: Callable[[int], bool], guess: int = 1) -> int:
    """The first whole number from 1 on for which `holds`, which stays true once it is."""
    high = max(guess, 1)
    while high > 1 and holds(high):
        high //= 2
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _dim(dim: Any) -> int:
    return checks.whole("dim", dim, at_least=2, at_most=MAX_DIM)


def _at_steps(at: Any, loss: Callable[[float], float]) -> Any:
    """The loss at each step of ``at``, in its shape."""
    message = f"at must be whole numbers from 0 to {MAX_STEPS:g}"
    steps = checks.numbers_of(message, at)
    for entry in steps[~((steps >= 0) & (steps <= MAX_STEPS) & (steps == np.floor(steps)))][:1]:
        raise InputError(f"{message}, got {entry:g}")
    if steps.size == 0:
        raise InputTypeError(f"{message}, got none")
    losses = np.array([loss(t) for t in steps.ravel()]).reshape(steps.shape)
    return float(losses) if losses.ndim == 0 else losses
