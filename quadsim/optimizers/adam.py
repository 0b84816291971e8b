"""Adam: moving averages of the gradient and of its square."""

from dataclasses import dataclass

import numpy as np

from quadsim._validation import InputError
from quadsim.optimizers.moments import Moments, adam_step, ema
from quadsim.optimizers.settings import choice, number


@dataclass(frozen=True)
class Adam(Moments):
    """w ← w − lr·m̂/(√v̂ + ε), m ← β1·m + (1 − β1)·g, v ← β2·v + (1 − β2)·g²: Adam of Kingma & Ba.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta1, beta2 : float
        The decay rates of m and v.
    eps : float
        ε, outside the root.
    bias_correction : bool
        Divide the moments by the weight they have gathered: m̂ = m/(1 − β1^t), v̂ = v/(1 − β2^t).
    init : "zero" or "gradient"
        Start the moments at zero, or at the first gradient (m = g₀, v = g₀²): they then have full weight from the start
        and need no correction, so ``bias_correction`` is False.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Kingma & Ba (2015), arXiv 1412.6980

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.Adam(lr=0.1), tol=1e-2)
    >>> str(run.status), run.engine
    ('converged', 'compiled')
    """

    name = "adam"
    label = "Adam"
    colour = "#CC79A7"
    stroke = "dashed"
    list_order = 21
    reference = "Kingma & Ba (2015), arXiv 1412.6980"

    beta1: float = number(0.9, at_least=0, at_most=1)
    beta2: float = number(0.999, at_least=0, at_most=1)
    init: str = choice("zero", "zero", "gradient")

    @staticmethod
    def rule(g, m, v, lr, beta1, beta2, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
        m, v = ema(m, g, beta1), ema(v, g * g, beta2)
        return adam_step(m, v, lr, eps, unbias1, unbias2), m, v

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init == "gradient":
            object.__setattr__(self, "bias_correction", False)
        for beta in ("beta1", "beta2"):
            if getattr(self, beta) == 1 and self.init == "zero":
                fix = f"use {self.name}.init=gradient, or frozen-adam"
                raise InputError(f"{self.name}.{beta}=1 keeps a moment at zero forever: {fix}")

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return (g.copy(), g * g) if self.init == "gradient" else (np.zeros_like(g), np.zeros_like(g))
