"""Nesterov's method with constant momentum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from quadsim.optimizers.momentum import BELOW_ONE, Momentum
from quadsim.optimizers.recurrence import Recurrence
from quadsim.problems.block_quadratic import BlockQuadratic


@dataclass(frozen=True)
class Nesterov(Momentum):
    """w₊ = y − lr·g(y), y = w + momentum·(w − w₋), from w₋ = w: Nesterov's method with constant momentum.

    Parameters
    ----------
    lr, momentum : float, optional
        By default the best of all settings on quadratics, lr = 4/(3L + μ) (ledger 4c-best). With one of the two given,
        the other is the best for it, that is, of least spectral radius over [μ, L]. For a given lr the momentum is

        - (1 − √(lr·μ))/(1 + √(lr·μ)) up to lr = 4/(3L + μ), radius 1 − √(lr·μ): ``Nesterov(lr=1/L)`` is the textbook's;
        - z(z − p)/(p(1 + z)) up to 2/(L + μ), where p = lr·L − 1, q = 1 − lr·μ, and the radius z is the smaller root of
          (q − p)z² − (p + q)z + 2pq = 0;
        - 0 beyond, radius lr·L − 1. From lr = 2/L on no momentum is stable, and the run diverges.

        For a given momentum the lr is the one at which the modes of μ and L have equal radii.

    Notes
    -----
    Invariant under rotation and signs. It requires exact gradients; under noise use `SGD` with ``nesterov``.

    Proof. With q = 1 − lr·λ the roots solve z² − (1 + b)qz + bq = 0. Their radius grows with |q| on either side of 0,
    so the ends of the spectrum decide. For q in (0, 1) the larger root falls as b grows (its derivative in b has the
    sign of −q(1 − z)) until both meet at b₀ = (1 − √(1 − q))/(1 + √(1 − q)); beyond, the radius √(bq) grows. For
    q = −p < 0 it grows with b from p at b = 0. The larger of the two is therefore least at b₀ if L's radius is not
    above μ's there (3p ≤ q, i.e. lr ≤ 4/(3L + μ)), at b = 0 if it is already above at 0 (p ≥ q), and where they meet
    otherwise: eliminating b from z² − (1 + b)qz + bq = 0 and z² − (1 + b)pz − bp = 0 gives the quadratic, which is
    positive at z = p and negative at z = q. As lr grows, μ's radius falls and L's, beyond 1/L, rises: they meet once.

    References
    ----------
    Nesterov (1983)

    Examples
    --------
    >>> problem = qs.BlockQuadratic.from_spectra([[1, 9]])
    >>> run = qs.solve(problem, qs.Nesterov())
    >>> round(run.lr * 28, 9), run.steps_to_tol
    (4.0, 30)
    """

    name = "nesterov"
    label = "Nesterov"
    colour = "#56B4E9"
    list_order = 13
    reference = "Nesterov (1983)"
    exact_gradients = True
    state = ("g_before", "step")

    @staticmethod
    def rule(g: float, g_before: float, step: float, lr: float, momentum: float) -> tuple[float, float, float]:
        # On a quadratic this is the gradient at y = w + momentum·(w − w_before): gradients are linear.
        ahead = g + momentum * (g - g_before)
        step = lr * ahead + momentum * step
        return step, g, step

    def best_lr(self, problem: BlockQuadratic, error: np.ndarray) -> float:
        if self.momentum is None:
            return _best_lr(problem)
        return (1 + _balance(problem.kappa, self.momentum)) / problem.lipschitz

    def best_momentum(self, problem: BlockQuadratic) -> float:
        assert isinstance(self.lr, float)
        if self.has_double_root(problem):
            damping = math.sqrt(self.lr * problem.mu)
            return min((1 - damping) / (1 + damping), BELOW_ONE)
        p, q = self.lr * problem.lipschitz - 1, 1 - self.lr * problem.mu
        if p >= q:
            return 0.0
        radius = 4 * p * q / (p + q + math.sqrt(max((p + q) ** 2 - 8 * p * q * (q - p), 0.0)))
        return min(max(radius * (radius - p) / (p * (1 + radius)), 0.0), BELOW_ONE)

    def has_double_root(self, problem: BlockQuadratic) -> bool:
        """Whether the best momentum for the learning rate is the one that gives the mode of μ a double root.

        Parameters
        ----------
        problem : BlockQuadratic

        Returns
        -------
        bool

        Examples
        --------
        >>> problem = qs.BlockQuadratic.from_spectra([[1, 9]])
        >>> qs.Nesterov(lr=0.1).has_double_root(problem), qs.Nesterov(lr=0.2).has_double_root(problem)
        (True, False)
        """
        assert isinstance(self.lr, float)
        return self.lr <= _best_lr(problem) and self.lr * problem.mu < 1

    def lr_limit(self, problem: BlockQuadratic) -> float:
        return 2 / problem.lipschitz

    def first_state(self, g: np.ndarray) -> tuple[np.ndarray, ...]:
        return g.copy(), np.zeros_like(g)

    def recurrence(self, problem: BlockQuadratic, used: Nesterov) -> Recurrence:
        assert used.momentum is not None
        ideal = self.momentum is None and used.has_double_root(problem)
        return Recurrence(used.lr, used.momentum, nesterov=True, double_root=ideal)


def _best_lr(problem: BlockQuadratic) -> float:
    return 4 / (3 * problem.lipschitz + problem.mu)


def _radius(q: float, momentum: float) -> float:
    """The larger |z| of z² − (1 + momentum)qz + momentum·q = 0."""
    trace = (1 + momentum) * abs(q)
    discriminant = q * ((1 + momentum) ** 2 * q - 4 * momentum)
    return math.sqrt(momentum * q) if discriminant < 0 else (trace + math.sqrt(discriminant)) / 2


def _balance(kappa: float, momentum: float) -> float:
    """p = lr·L − 1 at which Nesterov's modes of μ and L have equal radii, by bisection."""
    low, high = 0.0, min(1.0, kappa - 1)
    while low < (middle := (low + high) / 2) < high and high - low > 1e-18:
        if _radius(1 - (1 + middle) / kappa, momentum) > _radius(-middle, momentum):
            low = middle
        else:
            high = middle
    return (low + high) / 2
