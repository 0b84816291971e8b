"""Methods that step by signs: of the gradient, of its moving average, of a mixture of the two."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import check


def signgd_rule(g, lr):  # type: ignore[no-untyped-def]
    return lr * np.sign(g)


@dataclass(frozen=True)
class SignGD(Optimizer):
    """Sign descent, w ← w − lr·sign(g): signSGD of Bernstein et al. (2018) without its noise. sign(0) = 0."""

    name = "signgd"
    label = "SignGD"
    rule = signgd_rule

    lr: float = 1e-3

    def __post_init__(self) -> None:
        check(self)


def signum_rule(g, m, lr, beta, eps):  # type: ignore[no-untyped-def]
    m = beta * m + (1 - beta) * g
    size = abs(m) + eps
    return lr * m / size if size > 0 else 0.0, m


@dataclass(frozen=True)
class Signum(Optimizer):
    """Signum, w ← w − lr·m/(|m| + ε) with m ← β·m + (1 − β)·g; with ε = 0 the step is lr·sign(m).

    Bernstein et al. (2018); β is optax's. A large ``eps`` is the mollifier of Orvieto & Gower (2025), figure 7: 0.01,
    0.1, 1 or 10 where `AdamVariance` has the variance. Their code adds it to |m|, as here, with β = 0.95 and lr = 0.01.
    """

    name = "signum"
    label = "Signum"
    rule = signum_rule
    state = ("m",)

    lr: float = 1e-3
    beta: float = 0.9
    eps: float = 0.0

    def __post_init__(self) -> None:
        check(self, fractions=("beta",), sizes=("eps",))


def lion_rule(g, w, m, lr, beta1, beta2, weight_decay):  # type: ignore[no-untyped-def]
    sign = np.sign(beta1 * m + (1 - beta1) * g)
    return lr * (sign + weight_decay * w), beta2 * m + (1 - beta2) * g


@dataclass(frozen=True)
class Lion(Optimizer):
    """Lion of Chen et al. (2023): w ← w − lr·(sign(β1·m + (1 − β1)·g) + weight_decay·w), then m ← β2·m + (1 − β2)·g.

    β1, β2 and weight_decay are those of optax.lion, and the lr is of the paper's order.
    """

    name = "lion"
    label = "Lion"
    rule = lion_rule
    state = ("m",)

    lr: float = 1e-4
    beta1: float = 0.9
    beta2: float = 0.99
    weight_decay: float = 1e-3

    def __post_init__(self) -> None:
        check(self, fractions=("beta1", "beta2"), sizes=("weight_decay",))
