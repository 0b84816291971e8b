"""Signum: the sign of a moving average of gradients."""

from dataclasses import dataclass

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.moments import ema
from quadsim.optimizers.settings import fraction, nonnegative, positive


@dataclass(frozen=True)
class Signum(Optimizer):
    """w ← w − lr·m/(|m| + ε), m ← β·m + (1 − β)·g: the sign of a moving average of gradients.

    With ε = 0 the step is lr·sign(m). β is optax's.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta : float
        β, the decay rate of m.
    eps : float
        ε. A large one is the mollifier of Orvieto & Gower (2025), figure 7: 0.01, 0.1, 1 or 10 where `AdamVariance` has
        the variance. Their code adds it to |m|, as here, with β = 0.95 and lr = 0.01.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Bernstein et al. (2018), arXiv 1802.04434

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.Signum(lr=0.01), max_steps=1000)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('max-steps', True)
    """

    name = "signum"
    label = "Signum"
    colour = "#84943C"
    stroke = "dashed"
    list_order = 31
    reference = "Bernstein et al. (2018), arXiv 1802.04434"
    invariances = ("signs", "scale")
    state = ("m",)

    lr: float = positive(1e-3)
    beta: float = fraction(0.9)
    eps: float = nonnegative(0.0)

    @staticmethod
    def rule(g, m, lr, beta, eps):  # type: ignore[no-untyped-def]
        m = ema(m, g, beta)
        size = abs(m) + eps
        return lr * m / size if size > 0 else 0.0, m
