"""Magma: SkipUpdate with steps scaled by the alignment of gradient and momentum."""

import math
from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.masked import Masked
from quadsim.optimizers.moments import adam_step, ema
from quadsim.optimizers.settings import fraction, nonnegative, positive


@dataclass(frozen=True)
class Magma(Masked):
    """w ← w − s·z·Δ, s ← 0.9·s + 0.1·sigmoid(cos(μ, g)/τ), z ~ Bernoulli(keep): Magma of Joo et al. (2026).

    By blocks, Δ the step of Adam: those whose gradient opposes its moving average μ take smaller steps. Not divided by
    ``keep``: with τ = 2 the steps are 0.19 to 0.31 of the base's on average.

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
        The probability that a step is applied.
    mask : "block" or "element"
        The unit that is applied or skipped as a whole. The moments are always updated.
    momentum : float
        The decay rate of μ, which is separate so that RMSProp can be the base too; where it is β1, μ is Adam's m.
    tau : float
        τ.
    smoothing : float
        The weight 0.9 of the previous s.
    first_scale : float
        The initial s, which the paper does not give and reproductions choose differently.

    Notes
    -----
    Invariant under signs and scale.

    References
    ----------
    Joo et al. (2026), arXiv 2602.15322

    Examples
    --------
    >>> run = qs.solve(qs.case(3), qs.Magma(lr=0.1), max_steps=1000)
    >>> str(run.status), bool(run.loss[-1] < run.loss[0])
    ('converged', True)
    """

    name = "magma"
    label = "Magma"
    colour = "#2A2E69"
    stroke = "dash-dot"
    list_order = 51
    reference = "Joo et al. (2026), arXiv 2602.15322"
    scope = "block"
    state = ("m", "v", "mean", "scale")

    momentum: float = fraction(0.9)
    tau: float = positive(2.0)
    smoothing: float = fraction(0.9)
    first_scale: float = nonnegative(1.0)

    @staticmethod
    def rule(  # type: ignore[no-untyped-def]
        g, random, m, v, mean, scale, step, lr, beta1, beta2, eps, keep, momentum, tau, smoothing, unbias1, unbias2
    ):
        dot, mean_square, g_square = 0.0, 0.0, 0.0
        for i in range(g.size):
            mean[i] = ema(mean[i], g[i], momentum)
            dot += mean[i] * g[i]
            mean_square += mean[i] * mean[i]
            g_square += g[i] * g[i]
        norms = np.sqrt(mean_square) * np.sqrt(g_square)
        cosine = dot / norms if norms > 0 else 0.0
        shared = smoothing * scale[0] + (1 - smoothing) / (1 + math.exp(-cosine / tau))
        for i in range(g.size):
            scale[i] = shared  # stored in every coordinate
            m[i], v[i] = ema(m[i], g[i], beta1), ema(v[i], g[i] * g[i], beta2)
            step[i] = shared * adam_step(m[i], v[i], lr, eps, unbias1, unbias2) if random[i] < keep else 0.0

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.zeros_like(g), np.zeros_like(g), np.zeros_like(g), np.full_like(g, self.first_scale)
