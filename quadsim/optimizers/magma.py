"""Magma: SkipUpdate with steps scaled by the alignment of gradient and momentum."""

import math
from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.masked import Masked
from quadsim.optimizers.moments import adam_step, ema
from quadsim.optimizers.settings import fraction, nonnegative, positive


@dataclass(frozen=True)
class Magma(Masked):
    """Magma of Joo et al. (2026, arXiv 2602.15322): w ← w − s·z·Δ by blocks, Δ the base's step and z ~ Bernoulli(keep).

    s ← 0.9·s + 0.1·sigmoid(cos(μ, g)/τ): blocks whose gradient opposes its moving average μ take smaller steps. Not
    divided by ``keep``: with τ = 2 the steps are 0.19 to 0.31 of the base's on average. μ has a decay rate of its own,
    ``momentum``, so that RMSProp (``beta1=0``) can be the base too; where it is β1, μ is Adam's m. ``first_scale`` is
    the initial s, which the paper does not give and reproductions choose differently.
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
