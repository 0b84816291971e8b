"""SkipUpdate: Adam with steps skipped at random."""

from dataclasses import dataclass

from quadsim.optimizers.masked import Masked
from quadsim.optimizers.moments import adam_step, ema
from quadsim.optimizers.settings import flag


@dataclass(frozen=True)
class SkipUpdate(Masked):
    """w ← w − (z/keep)·Δ, Δ Adam's step and z ~ Bernoulli(keep): steps skipped at random.

    Parameters
    ----------
    lr : float
        The learning rate.
    beta1, beta2 : float
        The decay rates of Adam's m and v. The paper's base is RMSProp, ``beta1=0``.
    eps : float
        ε, outside the root.
    bias_correction : bool
        Divide the moments by the weight they have gathered.
    keep : float
        The probability that a step is applied; with 1 it is the base.
    mask : "block" or "element"
        The unit that is applied or skipped as a whole. The moments are always updated.
    rescale : bool
        Divide by ``keep``, so that the steps are unbiased.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Joo et al. (2026), arXiv 2602.15322

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.SkipUpdate(lr=0.1), max_steps=1000)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('converged', True)
    """

    name = "skip-update"
    label = "SkipUpdate"
    colour = "#60A3F3"
    stroke = "dashed"
    list_order = 50
    reference = "Joo et al. (2026), arXiv 2602.15322"

    rescale: bool = flag(True)

    @staticmethod
    def rule(g, random, m, v, lr, beta1, beta2, eps, keep, rescale, unbias1, unbias2):  # type: ignore[no-untyped-def]
        m, v = ema(m, g, beta1), ema(v, g * g, beta2)
        weight = (1 / keep if rescale > 0 else 1.0) if random < keep else 0.0
        return weight * adam_step(m, v, lr, eps, unbias1, unbias2), m, v
