"""Yogi: Adam whose second moment moves by at most (1 − β2)·g² a step."""

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.moments import Moments, adam_step, ema


@dataclass(frozen=True)
class Yogi(Moments):
    """Yogi of Zaheer et al.: Adam with v ← v − (1 − β2)·sign(v − g²)·g²."""

    name = "yogi"
    label = "Yogi"
    colour = "#7A5195"
    stroke = "dotted"
    list_order = 24
    reference = "Zaheer et al. (2018)"

    @staticmethod
    def rule(g, m, v, lr, beta1, beta2, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
        m, v = ema(m, g, beta1), v - (1 - beta2) * np.sign(v - g * g) * g * g
        return adam_step(m, v, lr, eps, unbias1, unbias2), m, v
