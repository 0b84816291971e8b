"""Trajectories without iterating: a linear method's loss and gradient norm at any step up to 10¹², in closed form.

In the eigenbasis of the Hessian (of D^-½HD^-½ for frozen Adam) every coordinate is a mode of its own, whose course
`modes` knows. Here a problem is taken apart into modes, and what they say is put together again, in logarithms. The
first step below a tolerance is found without visiting every step. No loop over steps but that search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from quadsim import checks, modes
from quadsim.checks import InputError, InputTypeError
from quadsim.modes import Modes
from quadsim.optimizers import GD, BlockGD, FrozenAdam, HeavyBall, Nesterov, Optimizer
from quadsim.problem import BlockQuadratic
from quadsim.trajectory import EXPLODED, MOST_STEPS, Status, Trajectory, record_marks

AT_ONCE = 2**21  # modes times steps computed together: 16 MB an array
SCAN = 256  # steps looked at one by one before the search tries to leap


def exact(
    problem: BlockQuadratic,
    optimizer: Optimizer,
    *,
    steps: Any = None,
    w0: Any = None,
    seed: int = 0,
    max_steps: int | None = None,
    tol: float = 1e-6,
    record: str | int = "log",
) -> Trajectory:
    """The trajectory that `solve` would give, in closed form: for GD, BlockGD, HeavyBall, Nesterov and FrozenAdam.

    Parameters
    ----------
    steps : list of int, optional
        The steps to report, up to 10¹². `last_step` is then the last of them, whether or not tol was reached before.
    w0, seed, tol, record :
        As in `solve`.
    max_steps : int, optional
        The last step to take; as many as it takes by default, up to 10¹².

    Values below float64's range are 0 in `loss` and `grad_norm`, and stay in order in `log_loss` and `log_grad_norm`.
    A learning rate beyond stability ends `diverged` if tol is not reached first, also where the loss has not exploded
    yet. Eigenvalues are the problem's own, free of the rounding of its dense blocks. Settings that are left to the
    optimizer are its ideal ones, free of rounding too: heavy ball's end modes have double roots exactly (ledger 9).

    >>> qs.exact(qs.case(3, kappa=1e8), qs.GD(), tol=1e-8).steps_to_tol
    >>> qs.exact(qs.case(3), qs.GD(), steps=[1, 10**6, 10**12]).log_loss
    """
    asked = None if steps is None else _steps(steps)
    if asked is not None and max_steps is not None:
        raise InputError("give steps or max_steps, not both: the last of the steps is the end")
    tol = checks.real("tol", tol, at_least=0)
    if max_steps is not None:
        max_steps = checks.whole("max_steps", max_steps, at_least=0, at_most=MOST_STEPS)
    end = MOST_STEPS if max_steps is None else max_steps
    end = int(asked[-1]) if asked is not None else end
    if not isinstance(problem, BlockQuadratic):
        raise InputTypeError(f"problem must be a BlockQuadratic, got {checks.shown(problem)}")
    start = problem.start(seed) if w0 is None else checks.vector("w0", w0, problem.dim)
    error = start - problem.minimizer
    resolved, course = take_apart(problem, optimizer, error)

    last, exploded = course.finite_until(end, problem.lipschitz)
    reached = course.first_below(tol, last)
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
    if asked is not None and finite.any():
        last = int(asked[finite][-1])
    return Trajectory(
        steps=marks[finite],
        loss=loss[finite],
        grad_norm=norm[finite],
        log_loss=log_loss[finite],
        log_grad_norm=log_norm[finite],
        status=status,
        steps_to_tol=reached,
        last_step=last,
        w=problem.minimizer + course.error_at(last),
        optimizer=resolved,
        problem=problem.name,
        seed=None if w0 is not None else seed,
        tol=tol,
        max_steps=end,
        engine="exact",
    )


def has_closed_form(optimizer: Any) -> bool:
    """Whether `exact` knows this optimizer; a kind derived from one that it knows may move otherwise, and does not."""
    return type(optimizer) in _FORMS


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
    scaled = problem.scaled_eigenvalues(np.abs(problem.curvature(error)))
    return _frozen_modes(resolved, np.concatenate(scaled))


@dataclass(frozen=True)
class Course:
    """A run as modes: block by block, the error is ``bases`` times the modes' p_t (a vector: of a diagonal block).

    ``loss_weights`` are the modes' shares of the first loss. ``gradients`` has for each block the matrix that takes p_t
    to the gradient, or None where the modes' gradients are orthogonal, of lengths ``lengths``.
    """

    modes: Modes
    sizes: tuple[int, ...]
    bases: tuple[np.ndarray, ...]
    loss_weights: np.ndarray
    lengths: np.ndarray
    gradients: tuple[np.ndarray, ...] | None

    @property
    def unstable(self) -> bool:
        """Whether a mode that the start excites grows for ever."""
        return bool((self.modes.log_rates()[self.loss_weights > 0] > 0).any())

    def logs(self, steps: Any) -> tuple[np.ndarray, np.ndarray]:
        """log loss and log gradient norm at these steps."""
        steps = np.asarray(steps, dtype=float)
        parts = max(1, -(-self.modes.count * steps.size // AT_ONCE))
        pieces = [self._logs(piece) for piece in np.array_split(steps, parts)]
        return np.concatenate([loss for loss, _ in pieces]), np.concatenate([norm for _, norm in pieces])

    def _logs(self, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(divide="ignore"):
            log_weights, log_lengths = np.log(self.loss_weights)[:, None], np.log(self.lengths)[:, None]
        if self.gradients is None:
            size = self.modes.sizes(steps)
            return _log_sum(log_weights + 2 * size), 0.5 * _log_sum(2 * (log_lengths + size))
        size, sign = self.modes.at(steps)
        log_loss = _log_sum(log_weights + 2 * size)
        ends = np.cumsum(self.sizes)[:-1]
        squares = [
            _log_square_norm(matrix, part, signs)
            for matrix, part, signs in zip(self.gradients, np.split(size, ends), np.split(sign, ends), strict=True)
        ]
        return log_loss, 0.5 * _log_sum(np.stack(squares))

    def error_at(self, step: int) -> np.ndarray:
        """e after this step."""
        size, sign = self.modes.at([step])
        factors = np.split(sign[:, 0] * np.exp(size[:, 0]), np.cumsum(self.sizes)[:-1])
        return np.concatenate([_expanded(*pair) for pair in zip(self.bases, factors, strict=True)])

    def finite_until(self, end: int, scale: float) -> tuple[int, bool]:
        """The step at which the loss has exploded, as `solve` takes it, and True; or `end`, and False."""
        if not self.unstable:
            return end, False
        first = float(self.logs([0])[0][0])
        limit = np.log(EXPLODED) + max(first, np.log(scale))

        def beyond(t: int) -> bool:  # two steps: an alternating mode may pass through zero
            return bool((self.logs([t, t + 1])[0] > limit).all())

        if not beyond(end):
            return end, False
        low, high = 0, end
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if beyond(middle) else (middle, high)
        return high, True

    def first_below(self, tol: float, end: int) -> int | None:
        """The first step up to `end` at which the gradient norm is at most tol times its first value."""
        log_first = float(self.logs([0])[1][0])
        with np.errstate(divide="ignore"):
            target = log_first + float(np.log(tol))
        if np.isneginf(log_first):
            return 0
        if tol == 0:
            end = min(end, 1)  # only modes that vanish at once ever vanish
        if self.gradients is None and all(isinstance(kind, modes.Powers) for kind in self.modes.kinds):
            return self._bisected(target, end)
        return self._searched(target, end)

    def _bisected(self, target: float, end: int) -> int | None:
        """For powers: the squared norm is a sum of wᵢ qᵢ^t, log-convex in t, so the steps below are an interval."""

        def norm(t: int) -> float:
            return float(self.logs([t])[1][0])

        if norm(0) <= target:
            return 0
        low, high = 0, end  # where is it least?
        if norm(end) > target:
            if not self.unstable:
                return None  # it falls for ever
            while high - low > 2:
                middle = (low + high) // 2
                low, high = (low, middle + 1) if norm(middle) <= norm(middle + 1) else (middle, high)
            high = min(range(low, high + 1), key=norm)
            if norm(high) > target:
                return None
        low = 0
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if norm(middle) <= target else (middle, high)
        return high

    def _searched(self, target: float, end: int) -> int | None:
        """For courses that rise and fall: some steps one by one, then a leap over steps that cannot be below.

        From two neighbouring steps, how far each mode can move over the next ones bounds the norm from below there.
        """
        t, leap, scan = 0, SCAN, SCAN
        while t <= end:
            steps = np.arange(t, min(t + scan, end + 1))
            norms = self.logs(steps)[1]
            below = np.flatnonzero(norms <= target)
            if below.size:
                return int(steps[below[0]])
            t = int(steps[-1]) + 1
            if t > end or steps.size < 2:
                continue
            leap *= 4
            while leap > scan and not all(self._stays_above(int(steps[k]), norms[k], leap, target) for k in (-2, -1)):
                leap //= 2
            if leap > scan:
                t = int(steps[-2]) + leap + 1
                scan = SCAN
            else:
                leap, scan = scan, min(2 * scan, AT_ONCE // self.modes.count + SCAN)
        return None

    def _stays_above(self, t: int, log_norm: float, width: int, target: float) -> bool:
        """Whether the norm stays above the target at t + 2, t + 4, … up to t + width, where it is log_norm at t."""
        with np.errstate(over="ignore"):
            drift = self.modes.drift(t, width) * np.exp(-log_norm)  # beside the norm at t
        if not np.isfinite(drift).all():
            return False
        if self.gradients is None:
            sizes = np.exp(self.modes.sizes([t])[:, 0] - log_norm)
            least = np.linalg.norm(self.lengths * np.maximum(sizes - drift, 0))
        else:
            ends = np.cumsum(self.sizes)[:-1]
            moved = [
                np.linalg.norm(np.abs(matrix) @ part)
                for matrix, part in zip(self.gradients, np.split(drift, ends), strict=True)
            ]
            least = 1 - np.linalg.norm(moved)
        return bool(least * (1 - 1e-9) > np.exp(target - log_norm))


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log Σ exp over the first axis."""
    top = logs.max(axis=0)
    with np.errstate(divide="ignore"):
        shift = np.where(np.isfinite(top), top, 0.0)
        return shift + np.log(np.exp(logs - shift).sum(axis=0))


def _log_square_norm(matrix: np.ndarray, size: np.ndarray, sign: np.ndarray) -> np.ndarray:
    """log|matrix · (sign · exp size)|² in each column."""
    top = size.max(axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    product = matrix @ (sign * np.exp(size - shift))
    with np.errstate(divide="ignore"):
        return 2 * shift + np.log((product**2).sum(axis=0))


def _plain(problem: BlockQuadratic, error: np.ndarray, course: Modes) -> Course:
    """A method whose modes are those of the Hessian itself."""
    bases, parts = [], []
    for block, values, part in zip(problem.blocks, problem.eigenvalues, problem.split(error), strict=True):
        diagonal = _diagonal(block)
        if diagonal is not None and (np.diff(diagonal) >= 0).all():
            coefficients = part
            bases.append(part)
        else:
            vectors = np.linalg.eigh(block)[1]
            coefficients = vectors.T @ part
            bases.append(vectors * coefficients)
        parts.append((0.5 * values * coefficients**2, values * np.abs(coefficients)))
    weights, lengths = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Course(course, problem.sizes, tuple(bases), weights, lengths, None)


def _diagonal(block: np.ndarray) -> np.ndarray | None:
    """The diagonal of a diagonal block."""
    diagonal = np.diagonal(block)
    return diagonal if np.count_nonzero(block) == np.count_nonzero(diagonal) else None


def _expanded(basis: np.ndarray, factor: np.ndarray) -> np.ndarray:
    return basis @ factor if basis.ndim == 2 else basis * factor


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
    ideal = given.momentum is None and used.lr * problem.mu < 1
    momentum = None if ideal else used.momentum
    return modes.nesterov(used.lr, momentum, np.concatenate(problem.eigenvalues), problem.mu)


def _frozen_modes(used: FrozenAdam, scaled: np.ndarray) -> Modes:
    assert isinstance(used.lr, float)
    return modes.heavy_ball(used.lr * (1 - used.beta1), used.beta1, scaled)


def _frozen_adam(problem: BlockQuadratic, used: FrozenAdam, error: np.ndarray) -> Course:
    """Heavy ball on S = D^-½HD^-½, D = diag|g₀|, from z = D^-½g₀ (ledger 2a, 4d)."""
    gradient = problem.curvature(error)
    size = np.abs(gradient) if gradient.any() else np.ones(problem.dim)  # at the minimizer no step is taken
    used.first_state(gradient)  # refuses a zero among others
    bases, gradients, weights, curvature = [], [], [], []
    for block, g, d in zip(problem.blocks, problem.split(gradient), problem.split(size), strict=True):
        root = np.sqrt(d)
        diagonal = _diagonal(block)
        if diagonal is not None:
            s, vectors = diagonal / d, np.eye(d.size)
        else:
            s, vectors = np.linalg.eigh(block / np.outer(root, root))
        z = vectors.T @ (g / root)
        bases.append(vectors * (z / s) / root[:, None])
        gradients.append(vectors * z * root[:, None])
        weights.append(0.5 * z**2 / s)
        curvature.append(s)
    course = _frozen_modes(used, np.concatenate(curvature))
    lengths = np.concatenate([np.linalg.norm(matrix, axis=0) for matrix in gradients])
    return Course(course, problem.sizes, tuple(bases), np.concatenate(weights), lengths, tuple(gradients))


# FrozenAdam's modes are not the Hessian's own, so it takes another way.
_FORMS: dict[type[Optimizer], Callable[..., Modes]] = {
    GD: _gd, BlockGD: _block_gd, HeavyBall: _heavy_ball, Nesterov: _nesterov, FrozenAdam: _frozen_modes,
}  # fmt: skip


def _steps(steps: Any) -> np.ndarray:
    """The steps asked for, in order, each once."""
    wanted = "steps must be whole numbers from 0 to 10^12"
    array = np.atleast_1d(np.asarray(steps, dtype=object)).ravel()
    if array.size == 0:
        raise InputError(f"{wanted}, at least one, got {checks.shown(steps)}")
    if isinstance(steps, np.ndarray) and steps.dtype.kind in "iu":
        bad = [int(step) for step in (steps.min(), steps.max()) if not 0 <= step <= MOST_STEPS]
        if bad:
            raise InputError(f"{wanted}, got {bad[0]}")
        return np.unique(steps).astype(np.int64)
    return np.unique([checks.whole("a step", step, at_least=0, at_most=MOST_STEPS) for step in array]).astype(np.int64)
