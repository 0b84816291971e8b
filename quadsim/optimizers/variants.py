"""Variants of Adam that, like it, move every coordinate by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.adam import adam_tick
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import check


@dataclass(frozen=True)
class Moments(Optimizer):
    """What most variants of Adam share: an lr, two decay rates, ε outside the root, and bias correction.

    Defaults are Kingma & Ba's.
    """

    tick = adam_tick
    clock = ("weight1", "weight2", "unbias1", "unbias2")

    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    bias_correction: bool = True

    def __post_init__(self) -> None:
        check(self, fractions=("beta1", "beta2"), sizes=("eps",), flags=("bias_correction",))

    def first_clock(self) -> tuple[float, ...]:
        weight = 0.0 if self.bias_correction else 1.0
        return weight, weight, math.nan, math.nan  # the last two are set by the first tick


def adamw_rule(g, w, m, v, lr, beta1, beta2, eps, weight_decay, unbias1, unbias2):  # type: ignore[no-untyped-def]
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    root = np.sqrt(v) * unbias2 + eps
    return lr * weight_decay * w + (lr * (m * unbias1) / root if root > 0 else 0.0), m, v


@dataclass(frozen=True)
class AdamW(Moments):
    """AdamW of Loshchilov & Hutter (2019): w ← (1 − lr·weight_decay)·w − lr·m̂/(√v̂ + ε), Adam with w shrunk apart.

    The decay is multiplied by the lr, as in torch and optax, and not only by the schedule, as in the paper. Defaults
    are those of torch.optim.AdamW; optax's weight_decay is 1e-4.
    """

    name = "adamw"
    label = "AdamW"
    rule = adamw_rule
    state = ("m", "v")

    weight_decay: float = 1e-2

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, sizes=("weight_decay",))


def amsgrad_rule(g, m, v, v_max, lr, beta1, beta2, eps, unbias1, unbias2):  # type: ignore[no-untyped-def]
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    v_max = v if v > v_max else v_max
    root = np.sqrt(v_max) * unbias2 + eps
    return lr * (m * unbias1) / root if root > 0 else 0.0, m, v, v_max


@dataclass(frozen=True)
class AMSGrad(Moments):
    """AMSGrad of Reddi, Kale & Kumar (2018): Adam divided by the largest v so far, w ← w − lr·m̂/(√(max v/c) + ε).

    As in torch.optim.Adam(amsgrad=True), whose defaults these are, the maximum is taken of v as it stands, and bias is
    corrected after (c = 1 − β2^t). optax corrects first and takes the maximum of v̂: another method while t is of the
    order of 1/(1 − β2), and the same one with ``bias_correction=False``, as in the paper.
    """

    name = "amsgrad"
    label = "AMSGrad"
    rule = amsgrad_rule
    state = ("m", "v", "v_max")


def nadam_rule(g, m, v, lr, beta1, beta2, eps, of_g, of_m, unbias2):  # type: ignore[no-untyped-def]
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * (g * g)
    root = np.sqrt(v) * unbias2 + eps
    return lr * (of_g * g + of_m * m) / root if root > 0 else 0.0, m, v


def nadam_tick(fade, ratio, product, weight2, beta1, beta2):  # type: ignore[no-untyped-def]
    fade = fade * ratio  # 0.96^(t·momentum_decay)
    here, ahead = beta1 * (1 - 0.5 * fade), beta1 * (1 - 0.5 * fade * ratio)
    product = product * here
    weight2 = beta2 * weight2 + (1 - beta2)
    return (
        fade,
        ratio,
        product,
        weight2,
        (1 - here) / (1 - product),
        ahead / (1 - product * ahead),
        1 / np.sqrt(weight2),
    )


@dataclass(frozen=True)
class NAdam(Optimizer):
    """NAdam of Dozat (2016), Adam that looks ahead: w ← w − lr·((1 − μ)·g/(1 − Πμ) + μ₊·m/(1 − μ₊Πμ))/(√v̂ + ε).

    At step t, μ = β1·(1 − ½·0.96^(t·momentum_decay)) grows from about β1/2 to β1, Πμ is the product of those so far and
    μ₊ the next one. Defaults are those of torch.optim.NAdam. optax has μ = β1 throughout: the limit of a large
    ``momentum_decay``.
    """

    name = "nadam"
    label = "NAdam"
    rule = nadam_rule
    state = ("m", "v")
    tick = nadam_tick
    clock = ("fade", "ratio", "product", "weight2", "of_g", "of_m", "unbias2")

    lr: float = 2e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    momentum_decay: float = 4e-3

    def __post_init__(self) -> None:
        check(self, fractions=("beta1", "beta2"), sizes=("eps", "momentum_decay"))

    def first_clock(self) -> tuple[float, ...]:
        return 1.0, 0.96**self.momentum_decay, 1.0, 0.0, math.nan, math.nan, math.nan


def adam_variance_rule(g, m, spread, lr, beta, eps):  # type: ignore[no-untyped-def]
    spread = beta * spread + beta * (1 - beta) * ((m - g) * (m - g))
    m = beta * m + (1 - beta) * g
    root = np.sqrt(m * m + spread) + eps
    return lr * m / root if root > 0 else 0.0, m, spread


@dataclass(frozen=True)
class AdamVariance(Optimizer):
    """Adam with β1 = β2 = β in its variance form, w ← w − lr·m/(√(m² + σ²) + ε), of Orvieto & Gower (2025).

    m ← β·m + (1 − β)·g is the mean of the gradients and σ² ← β·σ² + β(1 − β)(m₋ − g)², with the m before, their
    variance: v − m² of Adam, in a form that has no cancellation. So this is Adam(beta1=β, beta2=β,
    bias_correction=False). β and ε are those of their quadratic study.
    """

    name = "adam-variance"
    label = "Adam (β1 = β2)"
    rule = adam_variance_rule
    state = ("m", "spread")

    lr: float = 1e-3
    beta: float = 0.95
    eps: float = 1e-8

    def __post_init__(self) -> None:
        check(self, fractions=("beta",), sizes=("eps",))
