"""The optimizers: for each, one small frozen record of settings and one update rule. Nothing here loops over steps."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from quadsim import checks
from quadsim.optimizers.adam import Adam, FrozenAdam
from quadsim.optimizers.adaptive import AdaGrad, RMSProp
from quadsim.optimizers.base import LearningRate, Optimizer
from quadsim.optimizers.blockwise import AdamMini, AdaSGD, Muon
from quadsim.optimizers.descent import GD, SGD, BlockGD, HeavyBall, Momentum, Nesterov
from quadsim.optimizers.masked import Magma, SkipUpdate
from quadsim.optimizers.signs import Lion, SignGD, Signum
from quadsim.optimizers.variants import AdamVariance, AdamW, AMSGrad, NAdam

_ALL = (
    # linear in the gradients
    GD, BlockGD, HeavyBall, Nesterov, SGD,
    # each coordinate by a scale of its own
    FrozenAdam, Adam, AdamW, AMSGrad, NAdam, AdamVariance, RMSProp, AdaGrad,
    # by signs
    SignGD, Signum, Lion,
    # by block
    AdamMini, AdaSGD, Muon,
    # at random
    SkipUpdate, Magma,
)  # fmt: skip
OPTIMIZERS: dict[str, type[Optimizer]] = {cls.name: cls for cls in _ALL}


def by_name(name: str, **settings: Any) -> Optimizer:
    """An optimizer by the word of the command line: ``by_name("adam", beta2=0.99)``."""
    word = name.lower().replace("_", "-") if isinstance(name, str) else name
    cls = OPTIMIZERS[checks.choice("optimizer", word, OPTIMIZERS)]
    allowed = [item.name for item in fields(cls)]
    for key in settings:
        if key not in allowed:
            checks.choice(f"setting of {cls.name}", key, allowed)
    return cls(**settings)


__all__ = [
    "GD",
    "OPTIMIZERS",
    "SGD",
    "AMSGrad",
    "AdaGrad",
    "AdaSGD",
    "Adam",
    "AdamMini",
    "AdamVariance",
    "AdamW",
    "BlockGD",
    "FrozenAdam",
    "HeavyBall",
    "LearningRate",
    "Lion",
    "Magma",
    "Momentum",
    "Muon",
    "NAdam",
    "Nesterov",
    "Optimizer",
    "RMSProp",
    "SignGD",
    "Signum",
    "SkipUpdate",
    "by_name",
]
