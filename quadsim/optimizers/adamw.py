"""AdamW: Adam with decoupled weight decay."""

from dataclasses import dataclass

from quadsim.optimizers.moments import Moments, adam_step, ema
from quadsim.optimizers.settings import nonnegative


@dataclass(frozen=True)
class AdamW(Moments):
    """w ← (1 − lr·weight_decay)·w − lr·m̂/(√v̂ + ε): Adam with decoupled weight decay.

    m̂ and v̂ are those of `Adam`. The weight decay is multiplied by the lr, as in torch and optax, and not only by
    the schedule, as in the paper. Defaults are those of torch.optim.AdamW; optax's weight_decay is 1e-4.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta1, beta2 : float
        The decay rates of m and v.
    eps : float
        ε, outside the root.
    bias_correction : bool
        Divide the moments by the weight they have gathered.
    weight_decay : float
        Each step also multiplies w by 1 − lr·weight_decay.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Loshchilov & Hutter (2019), arXiv 1711.05101

    Examples
    --------
    >>> run = qs.solve(qs.case(3, minimizer="zero"), qs.AdamW(lr=0.1), tol=1e-2)
    >>> str(run.status), run.minimizer
    ('converged', 'zero')
    """

    name = "adamw"
    label = "AdamW"
    colour = "#AD3A8D"
    stroke = "dash-dot"
    list_order = 22
    reference = "Loshchilov & Hutter (2019), arXiv 1711.05101"

    weight_decay: float = nonnegative(1e-2)

    @staticmethod
    def rule(g, w, m, v, lr, beta1, beta2, eps, weight_decay, unbias1, unbias2):  # type: ignore[no-untyped-def]
        m, v = ema(m, g, beta1), ema(v, g * g, beta2)
        return lr * weight_decay * w + adam_step(m, v, lr, eps, unbias1, unbias2), m, v
