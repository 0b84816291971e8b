"""SkipUpdate: Adam with steps skipped at random."""

from dataclasses import dataclass

from quadsim.optimizers.masked import Masked
from quadsim.optimizers.moments import adam_step, ema
from quadsim.optimizers.settings import flag


@dataclass(frozen=True)
class SkipUpdate(Masked):
    """SkipUpdate of Joo et al. (2026, arXiv 2602.15322): w ← w − (z/keep)·Δ, Δ the base's step and z ~ Bernoulli(keep).

    Divided by ``keep``, the steps are unbiased; ``rescale=False`` omits the division. With ``keep=1`` it is the base.
    The paper's base is RMSProp (``beta1=0``).
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
