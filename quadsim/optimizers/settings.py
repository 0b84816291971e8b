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
    """A setting of an optimizer class: a number above 0.

    Parameters
    ----------
    default : float or None

    Returns
    -------
    dataclass field

    Examples
    --------
    >>> from quadsim.optimizers.settings import positive
    >>> positive(1e-3).default
    0.001
    >>> qs.Adam(lr=-1.0)
    Traceback (most recent call last):
        ...
    quadsim._validation.InputError: adam.lr must be a finite number above 0, got -1.0
    """
    return number(default, above=0)


def nonnegative(default: float) -> Any:
    """A setting of an optimizer class: a number of at least 0.

    Parameters
    ----------
    default : float

    Returns
    -------
    dataclass field

    Examples
    --------
    >>> from quadsim.optimizers.settings import nonnegative
    >>> nonnegative(1e-8).default
    1e-08
    """
    return number(default, at_least=0)


def fraction(default: float | None) -> Any:
    """A setting of an optimizer class: a number in [0, 1).

    Parameters
    ----------
    default : float or None

    Returns
    -------
    dataclass field

    Examples
    --------
    >>> from quadsim.optimizers.settings import fraction
    >>> fraction(0.9).metadata["bounds"]
    {'at_least': 0, 'below': 1}
    """
    return number(default, at_least=0, below=1)


def number(default: float | None, **bounds: float) -> Any:
    """A setting of an optimizer class: a finite number within bounds.

    Parameters
    ----------
    default : float or None
    **bounds : float
        above, at_least, below, at_most.

    Returns
    -------
    dataclass field

    Examples
    --------
    >>> from quadsim.optimizers.settings import number
    >>> number(0.5, above=0, at_most=1).metadata["bounds"]
    {'above': 0, 'at_most': 1}
    """
    return _setting(default, checks.real, bounds)


def whole(default: int, *, at_least: int) -> Any:
    """A setting of an optimizer class: a whole number.

    Parameters
    ----------
    default, at_least : int

    Returns
    -------
    dataclass field

    Examples
    --------
    >>> from quadsim.optimizers.settings import whole
    >>> whole(5, at_least=1).metadata["bounds"]
    {'at_least': 1}
    """
    return _setting(default, _whole, {"at_least": at_least})


def flag(default: bool) -> Any:
    """A setting of an optimizer class: true or false.

    Parameters
    ----------
    default : bool

    Returns
    -------
    dataclass field

    Examples
    --------
    >>> from quadsim.optimizers.settings import flag
    >>> flag(True).default
    True
    """
    return _setting(default, checks.flag, {})


def choice(default: str, *allowed: str) -> Any:
    """A setting of an optimizer class: one of a few words.

    Parameters
    ----------
    default : str
    *allowed : str

    Returns
    -------
    dataclass field

    Examples
    --------
    >>> from quadsim.optimizers.settings import choice
    >>> choice("zero", "zero", "gradient").metadata["bounds"]
    {'allowed': ('zero', 'gradient')}
    """
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
