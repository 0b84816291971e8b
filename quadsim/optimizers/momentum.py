"""The base class of heavy ball and Nesterov's method."""

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.settings import fraction
from quadsim.problems.block_quadratic import BlockQuadratic

BELOW_ONE = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Momentum(Optimizer):
    """A learning rate and a momentum, each filled in where it is None."""

    homogeneous = True
    invariances = ("rotation", "signs")

    momentum: float | None = fraction(None)

    def with_best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> Self:
        filled = super().with_best_lr(problem, error)
        if filled.momentum is None:
            filled = replace(filled, momentum=filled.best_momentum(problem))
        return filled

    def best_momentum(self, problem: BlockQuadratic) -> float:
        """The momentum in [0, 1) with the least spectral radius over [μ, L], for the learning rate.

        Parameters
        ----------
        problem : BlockQuadratic

        Returns
        -------
        float

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 4]])
        >>> qs.HeavyBall(lr=0.25).best_momentum(problem), round(qs.Nesterov(lr=0.25).best_momentum(problem), 6)
        (0.25, 0.333333)
        """
        raise NotImplementedError

    def lr_limit(self, problem: BlockQuadratic) -> float:
        """The least learning rate at which no momentum in [0, 1) is stable.

        Parameters
        ----------
        problem : BlockQuadratic

        Returns
        -------
        float

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 4]])
        >>> qs.HeavyBall().lr_limit(problem), qs.Nesterov().lr_limit(problem)
        (1.0, 0.5)
        """
        raise NotImplementedError
