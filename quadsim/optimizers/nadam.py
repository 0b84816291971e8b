"""NAdam: Adam with Nesterov's momentum."""

import math
from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.moments import adam_step, ema
from quadsim.optimizers.settings import fraction, nonnegative, positive


@dataclass(frozen=True)
class NAdam(Optimizer):
    """w ← w − lr·((1 − μ)·g/(1 − Πμ) + μ₊·m/(1 − μ₊Πμ))/(√v̂ + ε): Adam with lookahead, of Dozat (2016).

    At step t, μ = β1·(1 − ½·0.96^(t·momentum_decay)) grows from about β1/2 to β1, Πμ is the product of those so far and
    μ₊ the next one. Defaults are those of torch.optim.NAdam. optax has μ = β1 throughout: the limit of a large
    ``momentum_decay``.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta1, beta2 : float
        The decay rates of m and v.
    eps : float
        ε, outside the root.
    momentum_decay : float
        How fast μ grows to β1.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Dozat (2016)

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.NAdam(lr=0.1), tol=1e-2)
    >>> str(run.status)
    'converged'
    """

    name = "nadam"
    label = "NAdam"
    colour = "#DA6994"
    stroke = "dash-dot"
    list_order = 24
    reference = "Dozat (2016)"
    invariances = ("signs", "scale")
    state = ("m", "v")
    shared_state = ("fade", "ratio", "product", "weight2", "of_g", "of_m", "unbias2")

    lr: float = positive(2e-3)
    beta1: float = fraction(0.9)
    beta2: float = fraction(0.999)
    eps: float = nonnegative(1e-8)
    momentum_decay: float = nonnegative(4e-3)

    @staticmethod
    def rule(g, m, v, lr, beta1, beta2, eps, of_g, of_m, unbias2):  # type: ignore[no-untyped-def]
        m, v = ema(m, g, beta1), ema(v, g * g, beta2)
        return adam_step(of_g * g + of_m * m, v, lr, eps, 1.0, unbias2), m, v

    @staticmethod
    def once_per_step(fade, ratio, product, weight2, beta1, beta2):  # type: ignore[no-untyped-def]
        fade = fade * ratio  # 0.96^(t·momentum_decay)
        here, ahead = beta1 * (1 - 0.5 * fade), beta1 * (1 - 0.5 * fade * ratio)
        product = product * here
        weight2 = ema(weight2, 1.0, beta2)
        of_g, of_m = (1 - here) / (1 - product), ahead / (1 - product * ahead)
        return fade, ratio, product, weight2, of_g, of_m, 1 / np.sqrt(weight2)

    def first_shared_state(self) -> tuple[float, ...]:
        return 1.0, 0.96**self.momentum_decay, 1.0, 0.0, math.nan, math.nan, math.nan
