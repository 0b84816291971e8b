"""Draws, the results of checks on them, and statistics of these results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np


class Draw(NamedTuple):
    """One draw: its number and its random stream.

    Attributes
    ----------
    number : int
    rng : numpy Generator

    Examples
    --------
    >>> from quadsim.claims.observations import Draw
    >>> Draw(0, np.random.default_rng(7)).rng.integers(10, size=3).size
    3
    """

    number: int
    rng: np.random.Generator


class Observation(NamedTuple):
    """The result of a check on one draw.

    Attributes
    ----------
    slack : float
        Relative to the bound; negative is a violation; for an identity, minus the relative deviation.
    gap : float, optional
        The distance from equality, where the draw is constructed to attain a tight bound.
    value : object, optional
        Data for the judge.

    Examples
    --------
    >>> from quadsim.claims.observations import Observation
    >>> Observation(slack=-0.5).slack < 0
    True
    """

    slack: float = np.inf
    gap: float | None = None
    value: Any = None


def values_of(observations: Sequence[Observation]) -> np.ndarray:
    """The values of the observations: (draws, ...)."""
    return np.array([one.value for one in observations])


def standard_error(sample: np.ndarray) -> Any:
    """The standard error of the mean over the first axis; infinite for a single draw."""
    return sample.std(axis=0, ddof=1) / np.sqrt(len(sample)) if len(sample) > 1 else np.inf


def least_slack(observations: Sequence[Observation]) -> float:
    """The smallest slack; NaN counts as a violation, −∞."""
    slacks = np.array([one.slack for one in observations], dtype=float)
    return float(np.where(np.isnan(slacks), -np.inf, slacks).min())
