"""SGD with momentum, dampening and weight decay."""

from dataclasses import dataclass

from quadsim._validation import InputError
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import flag, fraction, nonnegative, positive


@dataclass(frozen=True)
class SGD(Optimizer):
    """w ← w − lr·u, u ← momentum·u + (1 − dampening)·g, from u = g: SGD as torch has it.

    Without weight decay, dampening and ``nesterov`` it is heavy ball; without momentum, gradient descent, and dampening
    has no effect. Defaults are those of torch.optim.SGD.

    Parameters
    ----------
    lr : float
        The learning rate.
    momentum, dampening : float
        In [0, 1).
    nesterov : bool
        The step is lr·(g + momentum·u): at a constant lr, w is then the point that Nesterov's method looks ahead to.
    weight_decay : float
        Adds weight_decay·w to the gradient.

    Notes
    -----
    Invariant under rotation and signs.

    References
    ----------
    Robbins & Monro (1951); torch.optim.SGD

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.SGD(lr=1e-5, momentum=0.9), noise=qs.Noise(batch=3), max_steps=500)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('max-steps', True)
    """

    name = "sgd"
    label = "SGD"
    colour = "#9A3E05"
    stroke = "dashed"
    list_order = 14
    reference = "Robbins & Monro (1951); torch.optim.SGD"
    homogeneous = True
    invariances = ("rotation", "signs")
    state = ("velocity",)

    lr: float = positive(1e-3)
    momentum: float = fraction(0.0)
    dampening: float = fraction(0.0)
    nesterov: bool = flag(False)
    weight_decay: float = nonnegative(0.0)

    @staticmethod
    def rule(g, w, t, velocity, lr, momentum, dampening, nesterov, weight_decay):  # type: ignore[no-untyped-def]
        g = g + weight_decay * w
        # the first velocity is the gradient itself, undamped; and without momentum there is nothing to dampen
        share = 1 - dampening if t > 1 and momentum > 0 else 1.0
        velocity = momentum * velocity + share * g
        return lr * (g + momentum * velocity if nesterov > 0 else velocity), velocity

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and (self.momentum == 0 or self.dampening > 0):
            given = f"momentum={self.momentum:g} and dampening={self.dampening:g}"
            raise InputError(f"{self.name}.nesterov requires a momentum above 0 and no dampening, got {given}")
