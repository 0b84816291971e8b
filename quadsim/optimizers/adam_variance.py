"""Adam with β1 = β2 in its variance form."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.moments import ema
from quadsim.optimizers.settings import fraction, nonnegative, positive


@dataclass(frozen=True)
class AdamVariance(Optimizer):
    """w ← w − lr·m/(√(m² + σ²) + ε), m ← β·m + (1 − β)·g, σ² ← β·σ² + β(1 − β)(m₋ − g)²: Adam with β1 = β2 = β.

    The variance form of Orvieto & Gower (2025): m is the mean of the gradients and σ², with the previous m₋, their
    variance: v − m² of Adam, in a form without cancellation. So this is Adam(beta1=β, beta2=β, bias_correction=False).
    β and ε are those of their quadratic study.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta : float
        β, the decay rate of both.
    eps : float
        ε, outside the root.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Orvieto & Gower (2025), arXiv 2505.21829

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.AdamVariance(lr=0.1), tol=1e-2)
    >>> str(run.status)
    'converged'
    """

    name = "adam-variance"
    label = "Adam (β1 = β2)"
    colour = "#35238A"
    stroke = "dashed"
    list_order = 25
    reference = "Orvieto & Gower (2025), arXiv 2505.21829"
    invariances = ("signs", "scale")
    state = ("m", "spread")

    lr: float = positive(1e-3)
    beta: float = fraction(0.95)
    eps: float = nonnegative(1e-8)

    @staticmethod
    def rule(g, m, spread, lr, beta, eps):  # type: ignore[no-untyped-def]
        spread = beta * spread + beta * (1 - beta) * ((m - g) * (m - g))
        m = ema(m, g, beta)
        root = np.sqrt(m * m + spread) + eps
        return lr * m / root if root > 0 else 0.0, m, spread
