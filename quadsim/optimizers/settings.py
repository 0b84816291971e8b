"""Fields of optimizer classes: each carries its default and its bounds, and is checked when an optimizer is created.

``lr: float = positive(1e-3)`` declares a setting. Where the default is None, None is allowed and means the best value,
filled in for the problem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields
from typing import Any

from quadsim import _validation as checks


def positive(default: Any) -> Any:
    """A number above 0."""
    return number(default, above=0)


def nonnegative(default: float) -> Any:
    """A number of at least 0."""
    return number(default, at_least=0)


def fraction(default: float | None) -> Any:
    """A number in [0, 1)."""
    return number(default, at_least=0, below=1)


def number(default: float | None, **bounds: float) -> Any:
    """A finite number within bounds: above, at_least, below, at_most."""
    return _setting(default, checks.real, bounds)


def whole(default: int, *, at_least: int) -> Any:
    """A whole number of at least ``at_least``."""
    return _setting(default, _whole, {"at_least": at_least})


def flag(default: bool) -> Any:
    """True or False."""
    return _setting(default, checks.flag, {})


def choice(default: str, *allowed: str) -> Any:
    """One of the allowed strings."""
    return _setting(default, checks.choice, {"allowed": allowed})


def _setting(default: Any, check: Callable[..., Any], bounds: dict[str, Any]) -> Any:
    return field(default=default, metadata={"check": check, "bounds": bounds})


def _whole(name: str, value: Any, *, at_least: int) -> int:
    if isinstance(value, float) and value.is_integer():  # the command line reads all numbers as floats
        value = int(value)
    return checks.whole(name, value, at_least=at_least)


def check(optimizer: Any) -> None:
    """Check every setting of an optimizer, and convert it to a plain float, int or bool."""
    for item in fields(optimizer):
        value = getattr(optimizer, item.name)
        if item.metadata and not (value is None and item.default is None):
            value = item.metadata["check"](f"{optimizer.name}.{item.name}", value, **item.metadata["bounds"])
            object.__setattr__(optimizer, item.name, value)
