"""Adam with some of its steps left out at random, by block or by coordinate: SkipUpdate and Magma."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quadsim import checks
from quadsim.optimizers.settings import check
from quadsim.optimizers.variants import Moments


@dataclass(frozen=True)
class Masked(Moments):
    """What SkipUpdate and Magma share: Adam as a base, and a mask that lets a step through with probability ``keep``.

    ``mask`` says what is let through or left out together: every "block" or every "element". The moments are always
    updated. The base with β1 = 0 is RMSProp, corrected for bias or not.
    """

    keep: float = 0.5
    mask: str = "block"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "keep", checks.real(f"{self.name}.keep", self.keep, above=0, at_most=1))
        checks.choice(f"{self.name}.mask", self.mask, ("block", "element"))

    @property
    def random_by(self) -> str:
        return "block" if self.mask == "block" else "coordinate"


def skip_update_rule(g, random, m, v, lr, beta1, beta2, eps, keep, rescale, unbias1, unbias2):  # type: ignore[no-untyped-def]
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    root = np.sqrt(v) * unbias2 + eps
    step = lr * (m * unbias1) / root if root > 0 else 0.0
    through = (1 / keep if rescale > 0 else 1.0) if random < keep else 0.0
    return through * step, m, v


@dataclass(frozen=True)
class SkipUpdate(Masked):
    """SkipUpdate of Joo et al. (2026, arXiv 2602.15322): w ← w − (z/keep)·Δ, Δ the base's step and z ~ Bernoulli(keep).

    Divided by ``keep`` the steps are right on average; ``rescale=False`` leaves that out. With ``keep=1`` it is the
    base. The paper's own base is RMSProp (``beta1=0``).
    """

    name = "skip-update"
    label = "SkipUpdate"
    rule = skip_update_rule
    state = ("m", "v")

    rescale: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, flags=("rescale",))


def magma_rule(  # type: ignore[no-untyped-def]
    g, random, m, v, mean, scale, step, lr, beta1, beta2, eps, keep, momentum, tau, smoothing, unbias1, unbias2
):
    dot, mean_square, g_square = 0.0, 0.0, 0.0
    for i in range(g.size):
        mean[i] = momentum * mean[i] + (1 - momentum) * g[i]
        dot += mean[i] * g[i]
        mean_square += mean[i] * mean[i]
        g_square += g[i] * g[i]
    norms = np.sqrt(mean_square) * np.sqrt(g_square)
    cosine = dot / norms if norms > 0 else 0.0
    shared = smoothing * scale[0] + (1 - smoothing) / (1 + math.exp(-cosine / tau))
    for i in range(g.size):
        scale[i] = shared  # every coordinate remembers the same scale
        m[i] = beta1 * m[i] + (1 - beta1) * g[i]
        v[i] = beta2 * v[i] + (1 - beta2) * (g[i] * g[i])
        root = np.sqrt(v[i]) * unbias2 + eps
        step[i] = shared * (lr * (m[i] * unbias1) / root) if random[i] < keep and root > 0 else 0.0


@dataclass(frozen=True)
class Magma(Masked):
    """Magma of Joo et al. (2026, arXiv 2602.15322): w ← w − s·z·Δ by blocks, Δ the base's step and z ~ Bernoulli(keep).

    s ← 0.9·s + 0.1·sigmoid(cos(μ, g)/τ): blocks whose gradient turns against its moving average μ are held back. Not
    divided by ``keep``: with τ = 2 the steps are 0.19 to 0.31 of the base's on average. μ has a decay rate of its own,
    ``momentum``, so that RMSProp (``beta1=0``) can be the base too; where it is β1, μ is Adam's m. ``first_scale`` is
    where s begins, which the paper does not say and reproductions do differently.
    """

    name = "magma"
    label = "Magma"
    scope = "block"
    rule = magma_rule
    state = ("m", "v", "mean", "scale")

    momentum: float = 0.9
    tau: float = 2.0
    smoothing: float = 0.9
    first_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, positive=("tau",), fractions=("momentum", "smoothing"), sizes=("first_scale",))

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return np.zeros_like(g), np.zeros_like(g), np.zeros_like(g), np.full_like(g, self.first_scale)
