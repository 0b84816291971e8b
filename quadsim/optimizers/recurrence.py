"""The linear recurrence of a method on a quadratic, as data. `engine.closed_form` solves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class Recurrence:
    """The linear recurrence e₊ = a(λ)·e + b(λ)·e₋ of the error in an eigendirection with eigenvalue λ, from e₋ = e.

    With α = lr and β = momentum,

        a = 1 + β − αλ             b = −β             heavy ball; with β = 0 gradient descent
        a = (1 + β)(1 − αλ)        b = −β(1 − αλ)     with ``nesterov``

    Parameters
    ----------
    lr : float or array
        One for all modes, or one for each.
    momentum : float
    nesterov : bool
    metric : "hessian" or "first-gradient"
        What the λ are the eigenvalues of: H, or D^-½HD^-½ with D = diag|g₀|, in which case the recurrence holds for
        D^½e.
    double_root : bool
        The setting is the one at which the end modes (of μ and L; with ``nesterov``, of μ) have double roots. ``lr``
        and ``momentum`` are its values rounded to float64, and the closed form takes the unrounded ones: rounding would
        separate the roots (ledger 9).

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 3]])
    >>> qs.GD().recurrence(problem, qs.GD(lr=0.5))
    Recurrence(lr=0.5)
    """

    lr: Any
    momentum: float = 0.0
    nesterov: bool = False
    metric: str = "hessian"
    double_root: bool = False

    def __repr__(self) -> str:
        from quadsim._display import text

        return text.call(
            self, text.changed(self) | {"lr": tuple(self.lr.tolist()) if hasattr(self.lr, "tolist") else self.lr}
        )
