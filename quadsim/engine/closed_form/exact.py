"""`exact`: loss and gradient norm of a linear method at any step up to 10¹², in closed form.

In the eigenbasis of the Hessian (of D^-½HD^-½ for frozen Adam) the modes decouple, and `modes` has each in closed form.
This module decomposes a problem and an optimizer's `Recurrence` into modes; `modal_trajectory` evaluates their sum and
`first_passage` finds the first step below a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from quadsim import _progress
from quadsim import _validation as checks
from quadsim._blas import on_one_thread
from quadsim._validation import InputError, InputTypeError
from quadsim.engine.closed_form import first_passage, linear_methods
from quadsim.engine.closed_form.modal_trajectory import ModalTrajectory
from quadsim.engine.closed_form.modes import Modes
from quadsim.engine.trajectory import MAX_STEPS, Status, Trajectory, checked_limits, record_marks
from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.lr_origin import lr_origin
from quadsim.optimizers.recurrence import Recurrence
from quadsim.problems.block_quadratic import BlockQuadratic

DEFAULT_TOL = 1e-6
MAX_ROOT_RANGE = 1e4  # of √|g₀| within a block: up to it, eight digits of a mode's component below are significant


def exact(
    problem: BlockQuadratic,
    optimizer: Optimizer,
    *,
    at: Any = None,
    w0: Any = None,
    e0: Any = None,
    seed: int = 0,
    max_steps: int | None = None,
    tol: float | None = None,
    record: str | int = "log",
    progress: Callable[[int], None] | bool | None = None,
) -> Trajectory:
    """The trajectory of `solve`, in closed form, at any steps: for GD, BlockGD, HeavyBall, Nesterov and FrozenAdam.

    Parameters
    ----------
    problem : BlockQuadratic
    optimizer : Optimizer
        One that has a closed form, without noise and at a constant learning rate.
    at : list of int, optional
        The steps to evaluate, up to 10¹²; returned sorted and without duplicates. `last_step` is then the last of them
        whose values float64 can represent, whether or not tol was reached before.
    tol : float, optional
        Find the first step with ‖g‖/‖g₀‖ ≤ tol: 1e-6 by default. With ``at`` the default is 0: no search.
    w0, e0, seed, record :
        As in `solve`.
    max_steps : int, optional
        The last step to take; as many as needed by default, up to 10¹².
    progress : bool or callable, optional
        By default a call of more than two seconds shows its progress on standard error; False shows nothing. A function
        is called with the step that the search for the first passage has reached; not called without a search.

    Returns
    -------
    Trajectory

    Notes
    -----
    Values below float64's range are 0 in `loss` and `grad_norm`, and stay in order in `log_loss` and `log_grad_norm`.
    A learning rate beyond the stability limit gives `diverged` if tol is not reached first, even if the loss has not
    exceeded its limit yet. Eigenvalues are those of the problem, without the rounding of its dense blocks. A setting
    that is given, or that is filled in for GD, block GD and frozen Adam, is used as its float64 value. Heavy ball at
    its best setting, and Nesterov's best momentum for an lr up to 4/(3L + μ), use the unrounded values: their end
    modes have exact double roots, which rounding would separate (ledger 9).

    Examples
    --------
    >>> qs.exact(qs.case(3, kappa=1e8), qs.GD(), tol=1e-8).steps_to_tol
    863403771
    >>> qs.exact(qs.case(3), qs.GD(), at=[1, 10**6, 10**12]).log_loss.round(3).tolist()
    [10.043, -792.272, -800000002.939]
    """
    at = None if at is None else np.unique(checks.steps("at", at, at_most=MAX_STEPS))
    if at is not None and max_steps is not None:
        raise InputError("give at or max_steps, not both: the last step of at is the end")
    if tol is None:
        tol = DEFAULT_TOL if at is None else 0.0
    max_steps, tol = checked_limits(max_steps, tol, record)
    if not isinstance(problem, BlockQuadratic):
        raise InputTypeError(f"problem must be a BlockQuadratic, got {checks.shown(problem)}")
    drawn = w0 is None and e0 is None
    error = problem.initial_error(seed) if drawn else problem.error_of(w0, e0)
    used = seed if drawn else None
    label = f"exact: {getattr(optimizer, 'label', 'an optimizer')}"
    with _progress.of_call(progress, label, unit="steps searched", takes="one whole number") as task:
        report: Any = progress if callable(progress) else task.advance
        return run(problem, optimizer, error, used, at=at, max_steps=max_steps, tol=tol, record=record, progress=report)


@on_one_thread
def run(
    problem: BlockQuadratic,
    optimizer: Optimizer,
    error: np.ndarray,
    seed: int | None,
    *,
    at: np.ndarray | None = None,
    max_steps: int | None,
    tol: float,
    record: str | int,
    progress: Callable[[int], None] | None,
) -> Trajectory:
    """The trajectory from this initial error. Arguments are checked by the caller; ``at`` is sorted."""
    resolved, modal = modal_decomposition(problem, optimizer, error)
    end = int(at[-1]) if at is not None else MAX_STEPS if max_steps is None else max_steps
    last, exploded = first_passage.divergence_step(modal, end, problem.lipschitz)
    reached = first_passage.first_step_below(modal, tol, last, progress)
    if reached is not None:
        status = Status.CONVERGED
    else:
        status = Status.DIVERGED if exploded or modal.unstable else Status.MAX_STEPS
    if at is not None:
        steps = at
    else:
        last = last if reached is None else reached
        steps = record_marks(record, last if max_steps is None else max_steps)
        steps = np.append(steps[steps < last], last)
    log_loss, log_norm = modal.logs(steps)
    with np.errstate(over="ignore"):
        loss, norm = np.exp(log_loss), np.exp(log_norm)
    finite = np.isfinite(loss) & np.isfinite(norm)
    last_finite = int(steps[finite][-1]) if finite.any() else 0
    if at is not None and finite.any():
        last = last_finite
    final = modal.error_at(last_finite)
    first = None if steps[0] == 0 else float(np.exp(modal.logs(np.zeros(1, dtype=np.int64))[1][0]))
    return Trajectory(
        steps=steps[finite],
        loss=loss[finite],
        grad_norm=norm[finite],
        log_loss=log_loss[finite],
        log_grad_norm=log_norm[finite],
        status=status,
        steps_to_tol=reached,
        last_step=last,
        w=problem.minimizer + final,
        error=final,
        optimizer=resolved,
        problem=problem.name,
        w0=problem.minimizer + error,
        minimizer=problem.minimizer_kind,
        first_grad_norm=first,
        seed=seed,
        tol=tol,
        max_steps=end,
        engine="closed-form",
        lr_from=lr_origin(optimizer),
    )


def has_closed_form(optimizer: Any) -> bool:
    """Whether the optimizer's own class declares a linear recurrence."""
    return isinstance(optimizer, Optimizer) and optimizer.has_closed_form()


@on_one_thread
def modal_decomposition(
    problem: BlockQuadratic, optimizer: Optimizer, error: np.ndarray
) -> tuple[Optimizer, ModalTrajectory]:
    """The optimizer with its settings filled in, and its trajectory from this error."""
    if not isinstance(optimizer, Optimizer):
        raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
    if not has_closed_form(optimizer):
        raise InputError(f"{optimizer.name} has no closed form: use solve, which runs it step by step")
    resolved: Any = optimizer.with_best_lr(problem, error)
    recurrence = optimizer.recurrence(problem, resolved)
    if recurrence.metric == "first-gradient":
        resolved.first_state(problem.hvp(error))  # raises if some components of the first gradient are zero
        return resolved, _scaled(problem, error, recurrence)
    return resolved, _plain(problem, error, recurrence)


def modes_of(problem: BlockQuadratic, optimizer: Optimizer, error: np.ndarray) -> Modes:
    """All modes of this optimizer, including those that the start does not excite."""
    recurrence = optimizer.recurrence(problem, optimizer.with_best_lr(problem, error))
    if recurrence.metric == "first-gradient":
        values = problem.scaled_eigenvalues(np.abs(problem.hvp(error)))
    else:
        values = problem.eigenvalues
    return _modes(recurrence, problem, np.concatenate(values))


def _modes(recurrence: Recurrence, problem: BlockQuadratic, values: np.ndarray) -> Modes:
    """The modes of a recurrence at some eigenvalues."""
    lr, momentum, ideal = recurrence.lr, recurrence.momentum, recurrence.double_root
    if recurrence.nesterov:
        return linear_methods.nesterov(lr, None if ideal else momentum, values, problem.mu)
    if ideal:
        return linear_methods.tuned_heavy_ball(problem.mu, problem.lipschitz, values)
    return linear_methods.heavy_ball(lr, momentum, values)


def _plain(problem: BlockQuadratic, error: np.ndarray, recurrence: Recurrence) -> ModalTrajectory:
    """The trajectory of a method whose modes are those of H."""
    bases, coefficients = [], []
    for vectors, part in zip(problem.eigenvectors, problem.split(error), strict=True):
        coefficients.append(part if vectors is None else vectors.T @ part)
        bases.append(part if vectors is None else vectors * coefficients[-1])
    values, c = np.concatenate(problem.eigenvalues), np.abs(np.concatenate(coefficients))
    weights, lengths = _log_product(0.5 * values, c, c), _log_product(values, c)
    of_hessian = _modes(recurrence, problem, values)
    return ModalTrajectory(of_hessian, problem.slices, tuple(bases), weights, lengths, lengths, directions=None)


def _log_product(*factors: np.ndarray) -> np.ndarray:
    """The logarithm of a product, accurate also where the product is outside float64's range."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        product = reduce(np.multiply, factors)
        in_range = (product > 1e-290) & (product < 1e290)
        return np.log(product) if in_range.all() else np.where(in_range, np.log(product), np.log(factors).sum(axis=0))


def _scaled(problem: BlockQuadratic, error: np.ndarray, recurrence: Recurrence) -> ModalTrajectory:
    """The trajectory of a method whose modes are those of S = D^-½HD^-½, D = diag|g₀|, z = D^-½g₀ (ledger 2a, 4d)."""
    gradient = problem.hvp(error)
    size = np.abs(gradient) if gradient.any() else np.ones(problem.dim)  # at the minimizer no step is taken
    bases, directions, parts = [], [], []
    scaled, roots = problem.scaled_eigen(size), np.sqrt(size)
    for (s, vectors), e, root in zip(scaled, problem.split(error), problem.split(roots), strict=True):
        c = vectors.T @ (root * e)  # D^½e = S⁻¹z in the basis of S
        bases.append(vectors * c / root[:, None])
        gradients, smallest = vectors * root[:, None], root.min()
        norms = np.sqrt((gradients * gradients).sum(axis=0))
        directions.append(np.sign(c) * gradients / norms)
        # D^-½v is orthogonal to the gradients of all other modes; the range of √|g₀| multiplies its rounding error
        dual = vectors * (smallest / root)[:, None]
        accurate = root.max() * np.sqrt(s.size) < MAX_ROOT_RANGE * smallest
        components = smallest / np.sqrt((dual * dual).sum(axis=0)) if accurate else np.zeros(s.size)
        parts.append((s, np.abs(c), norms, components))
    s, c, norms, components = (np.concatenate(part) for part in zip(*parts, strict=True))
    weights, lengths, floors = _log_product(0.5 * s, c, c), _log_product(norms, s, c), _log_product(components, s, c)
    of_scaled = _modes(recurrence, problem, s)
    return ModalTrajectory(of_scaled, problem.slices, tuple(bases), weights, lengths, floors, tuple(directions))
