"""The checks that records of settings share: each setting is checked once, when its record is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from quadsim import checks
from quadsim.optimizers.base import Optimizer


def check(
    optimizer: Optimizer,
    *,
    positive: Sequence[str] = ("lr",),
    fractions: Sequence[str] = (),
    sizes: Sequence[str] = (),
    flags: Sequence[str] = (),
    wholes: Mapping[str, int] | None = None,
) -> None:
    """Check the settings named and keep them as plain numbers: fractions in [0, 1), sizes at least 0, wholes at least
    the number given with them."""

    def keep(name: str, value: float | bool) -> None:
        object.__setattr__(optimizer, name, value)

    for name in positive:
        keep(name, checks.real(f"{optimizer.name}.{name}", getattr(optimizer, name), above=0))
    for name in fractions:
        keep(name, checks.real(f"{optimizer.name}.{name}", getattr(optimizer, name), at_least=0, below=1))
    for name in sizes:
        keep(name, checks.real(f"{optimizer.name}.{name}", getattr(optimizer, name), at_least=0))
    for name in flags:
        keep(name, checks.flag(f"{optimizer.name}.{name}", getattr(optimizer, name)))
    for name, least in (wholes or {}).items():
        value = getattr(optimizer, name)
        if isinstance(value, float) and value.is_integer():  # the command line reads all numbers as floats
            value = int(value)
        keep(name, checks.whole(f"{optimizer.name}.{name}", value, at_least=least))
