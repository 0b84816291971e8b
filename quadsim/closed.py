"""Trajectories without iterating: a linear method's loss and gradient norm at any step up to 10¹², in closed form.

In the eigenbasis of the Hessian (of D^-½HD^-½ for frozen Adam) every coordinate is a mode of its own, and `modes` knows
how each shrinks. Here a problem and an optimizer are taken apart into modes; `course` puts together what they say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from quadsim import checks, modes
from quadsim.blas import on_one_thread
from quadsim.checks import InputError, InputTypeError
from quadsim.course import Course
from quadsim.modes import Modes
from quadsim.noise import Noise
from quadsim.optimizers import GD, BlockGD, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.schedules import Schedule
from quadsim.trajectory import MOST_STEPS, Status, Trajectory, record_marks

USUAL_TOL = 1e-6
WIDEST = (
    1e4  # the root of a block's range of first gradients up to which rounding leaves a mode's own part eight digits
)


@on_one_thread
def exact(
    problem: BlockQuadratic,
    optimizer: Optimizer,
    *,
    steps: Any = None,
    w0: Any = None,
    e0: Any = None,
    seed: int = 0,
    max_steps: int | None = None,
    tol: float | None = None,
    record: str | int = "log",
    progress: Callable[[int], None] | None = None,
) -> Trajectory:
    """The trajectory that `solve` would give, in closed form: for GD, BlockGD, HeavyBall, Nesterov and FrozenAdam.

    Parameters
    ----------
    steps : list of int, optional
        The steps to report, up to 10¹², in order and each once. `last_step` is then the last of them whose values
        float64 can hold, whether or not tol was reached before.
    tol : float, optional
        Find the first step with ‖g‖/‖g₀‖ ≤ tol: 1e-6 by default. With ``steps`` the default is 0, and nothing is
        searched for.
    w0, e0, seed, record :
        As in `solve`.
    max_steps : int, optional
        The last step to take; as many as it takes by default, up to 10¹².
    progress : callable, optional
        Called with the step that the search for the first passage has reached, if there is a search.

    Values below float64's range are 0 in `loss` and `grad_norm`, and stay in order in `log_loss` and `log_grad_norm`.
    A learning rate beyond stability ends `diverged` if tol is not reached first, also where the loss has not exploded
    yet. Eigenvalues are the problem's own, free of the rounding of its dense blocks. A setting that is given, or that
    is filled in for GD, block GD and frozen Adam, is the float64 that it is. Heavy ball at its best setting, and the
    best momentum for Nesterov's lr up to 4/(3L + μ), are the ideal ones: their end modes have double roots exactly,
    which rounding would part (ledger 9).

    >>> qs.exact(qs.case(3, kappa=1e8), qs.GD(), tol=1e-8).steps_to_tol
    >>> qs.exact(qs.case(3), qs.GD(), steps=[1, 10**6, 10**12]).log_loss
    """
    asked = None if steps is None else np.unique(checks.steps("steps", steps, at_most=MOST_STEPS))
    if asked is not None and max_steps is not None:
        raise InputError("give steps or max_steps, not both: the last of the steps is the end")
    if tol is None:
        tol = USUAL_TOL if asked is None else 0.0
    tol = checks.real("tol", tol, at_least=0)
    if max_steps is not None:
        max_steps = checks.whole("max_steps", max_steps, at_least=0, at_most=MOST_STEPS)
    end = MOST_STEPS if max_steps is None else max_steps
    end = int(asked[-1]) if asked is not None else end
    record_marks(record, 0)  # refuses what is no record, also where it is not used
    if not isinstance(problem, BlockQuadratic):
        raise InputTypeError(f"problem must be a BlockQuadratic, got {checks.shown(problem)}")
    drawn = w0 is None and e0 is None
    error = problem.initial_error(seed) if drawn else problem.error_of(w0, e0)
    resolved, course = take_apart(problem, optimizer, error)

    last, exploded = course.finite_until(end, problem.lipschitz)
    reached = course.first_below(tol, last, progress)
    if reached is not None:
        status = Status.CONVERGED
    else:
        status = Status.DIVERGED if exploded or course.unstable else Status.MAX_STEPS
    if asked is not None:
        marks = asked
    else:
        last = last if reached is None else reached
        marks = record_marks(record, last if max_steps is None else max_steps)
        marks = np.append(marks[marks < last], last)
    log_loss, log_norm = course.logs(marks)
    with np.errstate(over="ignore"):
        loss, norm = np.exp(log_loss), np.exp(log_norm)
    finite = np.isfinite(loss) & np.isfinite(norm)
    held = int(marks[finite][-1]) if finite.any() else 0  # the last step that float64 can hold
    if asked is not None and finite.any():
        last = held
    final = course.error_at(held)
    return Trajectory(
        steps=marks[finite],
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
        seed=seed if drawn else None,
        tol=tol,
        max_steps=end,
        engine="exact",
        noise=_NO_NOISE,
        schedule=_CONSTANT,
    )


def has_closed_form(optimizer: Any) -> bool:
    """Whether `exact` knows this optimizer; a kind derived from one that it knows may move otherwise, and does not."""
    return type(optimizer) in _FORMS


@on_one_thread
def take_apart(problem: BlockQuadratic, optimizer: Optimizer, error: np.ndarray) -> tuple[Optimizer, Course]:
    """The optimizer with its settings filled in, and its course from this error."""
    if not isinstance(optimizer, Optimizer):
        raise InputTypeError(f"optimizer must be one such as GD() or Adam(), got {checks.shown(optimizer)}")
    if not has_closed_form(optimizer):
        known = ", ".join(kind.name for kind in _FORMS)
        raise InputError(f"{optimizer.name} has no closed form: iterate it, or take one of {known}")
    resolved: Any = optimizer.resolved(problem, error)
    if isinstance(resolved, FrozenAdam):
        return resolved, _frozen_adam(problem, resolved, error)
    return resolved, _plain(problem, error, _FORMS[type(optimizer)](problem, optimizer, resolved))


def modes_of(problem: BlockQuadratic, optimizer: Optimizer, error: np.ndarray) -> Modes:
    """The modes of this optimizer, whether or not the start excites them."""
    resolved: Any = optimizer.resolved(problem, error)
    if not isinstance(resolved, FrozenAdam):
        return _FORMS[type(optimizer)](problem, optimizer, resolved)
    return _frozen_modes(resolved, np.concatenate(problem.scaled_eigenvalues(np.abs(problem.curvature(error)))))


def _plain(problem: BlockQuadratic, error: np.ndarray, course: Modes) -> Course:
    """A method whose modes are those of the Hessian itself."""
    bases, coefficients = [], []
    for vectors, part in zip(problem.eigenvectors, problem.split(error), strict=True):
        if vectors is None:
            bases.append(part)
            coefficients.append(part)
        else:
            coefficients.append(vectors.T @ part)
            bases.append(vectors * coefficients[-1])
    values, c = np.concatenate(problem.eigenvalues), np.abs(np.concatenate(coefficients))
    lengths = _log_product(values, c)
    return Course(
        course,
        problem.places,
        tuple(bases),
        _log_product(0.5 * values, c, c),
        lengths,
        log_floors=lengths,
        directions=None,
    )


def _log_product(*factors: np.ndarray) -> np.ndarray:
    """The logarithm of a product: right to its last digits, and right also where the product leaves float64's range."""
    with np.errstate(divide="ignore", over="ignore", under="ignore"):
        product = reduce(np.multiply, factors)
        tame = (product > 1e-290) & (product < 1e290)
        return np.log(product) if tame.all() else np.where(tame, np.log(product), np.log(factors).sum(axis=0))


def _gd(problem: BlockQuadratic, given: GD, used: GD) -> Modes:
    return modes.descent(used.lr, np.concatenate(problem.eigenvalues))


def _block_gd(problem: BlockQuadratic, given: BlockGD, used: BlockGD) -> Modes:
    rates = np.repeat(np.broadcast_to(np.asarray(used.lr, dtype=float), (len(problem.sizes),)), problem.sizes)
    return modes.descent(rates, np.concatenate(problem.eigenvalues))


def _heavy_ball(problem: BlockQuadratic, given: HeavyBall, used: HeavyBall) -> Modes:
    values = np.concatenate(problem.eigenvalues)
    if given.lr is None and given.momentum is None:
        return modes.tuned_heavy_ball(problem.mu, problem.lipschitz, values)
    assert isinstance(used.lr, float)
    assert used.momentum is not None
    return modes.heavy_ball(used.lr, used.momentum, values)


def _nesterov(problem: BlockQuadratic, given: Nesterov, used: Nesterov) -> Modes:
    assert isinstance(used.lr, float)
    ideal = given.momentum is None and used.has_double_root(problem)
    momentum = None if ideal else used.momentum
    return modes.nesterov(used.lr, momentum, np.concatenate(problem.eigenvalues), problem.mu)


def _frozen_modes(used: FrozenAdam, scaled: np.ndarray) -> Modes:
    assert isinstance(used.lr, float)
    return modes.heavy_ball(used.lr * (1 - used.beta1), used.beta1, scaled)


def _frozen_adam(problem: BlockQuadratic, used: FrozenAdam, error: np.ndarray) -> Course:
    """Heavy ball on S = D^-½HD^-½, D = diag|g₀|, from z = D^-½g₀ (ledger 2a, 4d)."""
    gradient = problem.curvature(error)
    used.first_state(gradient)  # refuses a zero among others
    size = np.abs(gradient) if gradient.any() else np.ones(problem.dim)  # at the minimizer no step is taken
    bases, directions, parts = [], [], []
    scaled, roots = problem.scaled_eigen(size), np.sqrt(size)
    for (s, vectors), e, root in zip(scaled, problem.split(error), problem.split(roots), strict=True):
        c = vectors.T @ (root * e)  # D^½e = S⁻¹z in the basis of S
        bases.append(vectors * c / root[:, None])
        shape, least = vectors * root[:, None], root.min()
        long = np.sqrt((shape * shape).sum(axis=0))
        directions.append(np.sign(c) * shape / long)
        # D^-½v is orthogonal to all other modes, up to rounding, which the range of the first gradient multiplies
        dual = vectors * (least / root)[:, None]
        near = root.max() * np.sqrt(s.size) < WIDEST * least
        alone = least / np.sqrt((dual * dual).sum(axis=0)) if near else np.zeros(s.size)
        parts.append((s, np.abs(c), long, alone))
    s, c, long, alone = (np.concatenate(part) for part in zip(*parts, strict=True))
    return Course(
        _frozen_modes(used, s), problem.places, tuple(bases),
        log_weights=_log_product(0.5 * s, c, c), log_lengths=_log_product(long, s, c),
        log_floors=_log_product(alone, s, c), directions=tuple(directions),
    )  # fmt: skip


_NO_NOISE, _CONSTANT = Noise(), Schedule()  # checked once

# FrozenAdam's modes are not the Hessian's own, so it takes another way.
_FORMS: dict[type[Optimizer], Callable[..., Modes]] = {
    GD: _gd, BlockGD: _block_gd, HeavyBall: _heavy_ball, Nesterov: _nesterov, FrozenAdam: _frozen_modes,
}  # fmt: skip
