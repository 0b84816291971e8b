"""What must happen: constants, rates and bounds. Each says what it assumes, and whether it is tight or upper.

Nothing here runs a solver. The numbers in brackets, here and elsewhere, are those of the ledger of claims:

1a  GD with lr = 2/(μ + L): loss[t+1] ≤ ((κ−1)/(κ+1))² loss[t], the best guarantee of any constant lr.
1b  From one start, which does not depend on the lr, no constant lr does better than that in any step.
2a  Frozen Adam is GD on D^-½HD^-½, D = diag|g₀|, whose condition number is κ_eff.
2b  Frozen Adam with lr = min C_{k,1}: loss[t+1] ≤ max (1 − lr/(C_{l,2} κ_l))² loss[t]; implies the paper's Theorem 1.
3   Block GD with lr_l = 2/(μ_l + L_l): as 1a, with the worst block's κ_l.
5   Adam with β2 < 1 and constant lr does not converge: it ends on cycles of size lr (5c); on the way there its
    iterates may shrink below float64's range, and then seem to have converged (5i).
6   GD commutes with rotations; Adam with permutations, sign flips and, without ε, the scale of each block.
7   For a diagonal Hessian κ_eff = max|e₀|/min|e₀|, whatever the spectrum.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim.checks import InputError, shown
from quadsim.optimizers import GD, BlockGD, FrozenAdam, Optimizer
from quadsim.problem import BlockQuadratic


def rate(problem: BlockQuadratic, optimizer: Optimizer, w0: Any = None) -> float:
    """Upper bound on loss[t+1]/loss[t], for every start (GD, BlockGD) or from the start w0 (FrozenAdam).

    GD at any lr: max((1−lr·μ)², (1−lr·L)²), attained in the eigenspace of the larger one, at lr = 2/(μ + L) in the span
    of both (1a). BlockGD: the worst of its blocks, attained (3). FrozenAdam with β1 = 0: the same over the eigenvalues
    of D^-½HD^-½, attained (2a).
    """
    if isinstance(optimizer, FrozenAdam):
        if optimizer.beta1 > 0:
            raise InputError(f"no factor on the loss per step is known for frozen-adam with beta1={optimizer.beta1:g}")
        spectrum = problem.scaled_eigenvalues(np.abs(_first_gradient(problem, w0)))
        optimizer = optimizer.resolved(problem, _error(problem, w0))
    elif isinstance(optimizer, GD | BlockGD):
        optimizer = optimizer.resolved(problem, np.zeros(problem.dim))  # their lr does not depend on the start
        spectrum = problem.eigenvalues
    else:
        raise InputError(f"no factor on the loss per step is known for {getattr(optimizer, 'name', shown(optimizer))}")
    rates = np.broadcast_to(np.asarray(optimizer.lr, dtype=float), (len(spectrum),))
    factors = [np.abs(1 - lr * values[[0, -1]]).max() for lr, values in zip(rates, spectrum, strict=True)]
    return float(max(factors) ** 2)


def kappa_eff(problem: BlockQuadratic, w0: Any) -> float:
    """The condition number that frozen Adam sees: of D^-½HD^-½ with D = diag|g₀| (exact, 2a)."""
    scaled = problem.scaled_eigenvalues(np.abs(_first_gradient(problem, w0)))
    return float(max(values[-1] for values in scaled) / min(values[0] for values in scaled))


def r(problem: BlockQuadratic, w0: Any, *, within_blocks: bool = False) -> float:
    """The paper's r = max C_{l,2}² / min C_{l,1}², C_{l,1} and C_{l,2} the least and largest |g₀| over λ_l,max.

    ``within_blocks`` takes the ratio inside each block and then the largest: the other reading of the definition.
    """
    least, largest = _constants(problem, w0)
    ratios = largest / least if within_blocks else largest.max() / least.min()
    return float(np.max(ratios) ** 2)


def block_rate(problem: BlockQuadratic, w0: Any) -> tuple[float, float]:
    """(lr, bound): with this lr, frozen Adam (β1 = 0) has loss[t+1]/loss[t] ≤ bound. Upper, attained (2b).

    lr = min_k C_{k,1}; bound = max_l (1 − lr/(C_{l,2} κ_l))². The sharp form of the paper's Theorem 1.
    """
    least, largest = _constants(problem, w0)
    lr = least.min()
    return float(lr), float(np.max((1 - lr / (largest * np.array(problem.block_kappas))) ** 2))


def slowest_start(problem: BlockQuadratic) -> np.ndarray:
    """A start from which GD with *any* constant lr keeps loss[t+1]/loss[t] ≥ ((κ−1)/(κ+1))² for every t (tight, 1b).

    e₀ = u_μ/μ + u_L/L with unit eigenvectors of the two extreme eigenvalues; it does not depend on the lr.
    """
    error = np.zeros(problem.dim)
    parts = problem.split(error)
    for extreme, pick, end in ((problem.mu, np.argmin, 0), (problem.lipschitz, np.argmax, -1)):
        block = int(pick([values[end] for values in problem.eigenvalues]))
        parts[block] += np.linalg.eigh(problem.blocks[block])[1][:, end] / extreme
    return problem.minimizer + np.concatenate(parts)


def _constants(problem: BlockQuadratic, w0: Any) -> tuple[np.ndarray, np.ndarray]:
    """C_{l,1} and C_{l,2} of every block."""
    parts = problem.split(np.abs(_first_gradient(problem, w0)))
    largest = [values[-1] for values in problem.eigenvalues]
    return (
        np.array([part.min() / top for part, top in zip(parts, largest, strict=True)]),
        np.array([part.max() / top for part, top in zip(parts, largest, strict=True)]),
    )


def _first_gradient(problem: BlockQuadratic, w0: Any) -> np.ndarray:
    gradient = problem.curvature(_error(problem, w0))
    if not gradient.all():
        raise InputError(
            f"the first gradient is 0 in coordinate {np.flatnonzero(gradient == 0)[0]}: frozen Adam divides by it"
        )
    return gradient


def _error(problem: BlockQuadratic, w0: Any) -> np.ndarray:
    if w0 is None:
        raise InputError(f"this rate depends on the start: give w0, got {shown(w0)}")
    return problem.error(w0)
