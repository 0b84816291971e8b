"""Where the learning rate of a run comes from: the column `lr_from` of every table.

"theory"   none was given: the best constant one, in closed form, for this problem and start
"default"  the default of the optimizer's class, which fits no problem in particular
"given"    any other value
"tuned"    the best of a search on other seeds
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from quadsim.optimizers.base import Optimizer

LR_ORIGINS = ("theory", "default", "given", "tuned")
BEST_ORIGINS = ("theory", "tuned")  # chosen for the problem


def lr_origin(optimizer: Optimizer, *, given: bool = False) -> str:
    """The origin of an optimizer's learning rate before it is filled in.

    A rate that equals the default counts as the default, also if it was written out; ``given`` overrides this.
    """
    if optimizer.lr is None:
        return "theory"
    default = next(item.default for item in fields(optimizer) if item.name == "lr")
    return "default" if optimizer.lr == default and not given else "given"


def is_unfair(origins: Iterable[str]) -> bool:
    """Whether a rate chosen for the problem stands beside a library default."""
    found = set(origins)
    return "default" in found and not found.isdisjoint(BEST_ORIGINS)


def is_fair(origins: Iterable[str]) -> bool:
    """Whether all rates were chosen for the problem in the same way, so that a winner may be named.

    The best rate in closed form is that of the asymptotic rate: tuned rates may need fewer steps to a tolerance.
    """
    found = set(origins)
    return len(found) == 1 and found <= set(BEST_ORIGINS)
