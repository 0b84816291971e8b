"""Template 4 of 5 of a kernel: the step loop.

`kernel_source` joins the texts of `kernel_parameters`, `simd`, `random` and this file, and puts an optimizer's rule in
place of `update` and `once_per_step`, which here are plain gradient descent; `compiler` compiles the result. A kernel
takes arrays; it has no classes, files or defaults. Start reading at `advance`.

Lanes are runs that share a Hessian. WIDTH of them lie side by side in memory, so that the matrix-vector product
becomes a matrix product.
"""

import math

import numpy as np
from numba import boolean, float64, int64, njit, uint64, void

from quadsim.engine.compiled.kernel_parameters import (
    CONVERGED,
    DIVERGED,
    JIT,
    JIT_ENTRY,
    JIT_INLINE,
    MAX_STEPS,
    NOISY,
    RANDOM,
    RUNNING,
    UNDERFLOW,
    WIDTH,
    cube,
    integers,
    matrix,
    vector,
)
from quadsim.engine.compiled.random import GRADIENT, LABELS, add_gaussian, fill_uniform, sample_rows
from quadsim.engine.compiled.simd import any_lane_needs_check, block_product, lane_sums

ZERO, VANISHING, NORMAL = range(3)  # magnitudes of a unit
MIN_SAFE_SQUARE = 1e-250  # below this a sum of squares has begun to lose digits to underflow
MIN_SAFE_VALUE = 1e-290  # below this a coordinate is about to leave float64's range
UNIT_CHECK_INTERVAL = 16  # steps between two checks for units that underflow; from MIN_SAFE_VALUE it takes more


@njit(**JIT_INLINE)
def update(
    e, g, minimizer, random, state, settings, shared_state, groups, lr_scale, t, status, rule_workspace, rule_address
):
    """Apply the rule to every coordinate: e -= step, state = new state."""
    low = 0
    for block in range(groups.size):
        high = low + groups[block] * WIDTH
        for i in range(low, high, WIDTH):
            for k in range(WIDTH):
                e[i + k] -= settings[0, block, k] * lr_scale * g[i + k]
        low = high


@njit(**JIT_INLINE)
def once_per_step(shared_state, settings, lr_scale, t):
    """Update the state that the rule shares between coordinates."""


@njit(**JIT_INLINE)
def gradient(h, sizes, e, g, eg, gg):
    """The gradient g = H e of every lane, with the sums of e*g (twice the loss) and g*g."""
    block_product(h, sizes, e, g)
    lane_sums(e, g, e.size // WIDTH, eg, gg)


@njit(**JIT)
def noisy_gradient(e, g, sizes, sqrt_hessian, sqrt_hessian_t, noise, batch_size, keys, step, status, workspace):
    """Compute the gradient that the rule sees, in workspace[0]: minibatch, noisy labels, additive noise.

    With A = X/√n, AᵀA = H, a minibatch B of k rows has the gradient (n/k) Σ a (aᵀe − noise) over its rows a.
    """
    noisy, residual, weights = workspace[0], workspace[1], workspace[2]
    if batch_size > 0 or noise[1] > 0:
        block_product(sqrt_hessian, sizes, e, residual)
        for k in range(WIDTH):
            if status[k] != RUNNING:
                continue
            if noise[1] > 0:
                add_gaussian(residual, k, noise[1], keys[k], step, LABELS)
            if batch_size > 0:
                sample_rows(weights, k, batch_size, keys[k], step)
        if batch_size > 0:
            for i in range(residual.size):
                residual[i] *= weights[i]
        block_product(sqrt_hessian_t, sizes, residual, noisy)
    else:
        for i in range(g.size):
            noisy[i] = g[i]
    if noise[0] > 0:
        for k in range(WIDTH):
            if status[k] == RUNNING:
                add_gaussian(noisy, k, noise[0], keys[k], step, GRADIENT)


@njit(**JIT)
def lane_norm(gg, g, k):
    """The gradient norm of lane k; scaled before squaring if squares would underflow."""
    if not gg < MIN_SAFE_SQUARE:
        return math.sqrt(gg)
    largest, total = 0.0, 0.0
    for i in range(k, g.size, WIDTH):
        largest = max(largest, abs(g[i]))
    if largest == 0.0:
        return 0.0
    for i in range(k, g.size, WIDTH):
        total += (g[i] / largest) ** 2
    return largest * math.sqrt(total)


@njit(**JIT_ENTRY)
def begin(h: vector, sizes: integers, e: vector, g: vector, sums: matrix) -> void:
    """Compute g at step 0, and the rows of `sums`: e*g, g*g and the gradient norm of each lane."""
    gradient(h, sizes, e, g, sums[0], sums[1])
    for k in range(WIDTH):
        sums[2, k] = lane_norm(sums[1, k], g, k)


@njit(**JIT)
def lane_underflows(e, g, k):
    """Whether every coordinate of lane k, or its gradient, is about to leave float64's range."""
    for i in range(k, e.size, WIDTH):
        if abs(e[i]) >= MIN_SAFE_VALUE and abs(g[i]) >= MIN_SAFE_VALUE:
            return False
    return True


@njit(**JIT)
def lane_is_zero(e, k):
    for i in range(k, e.size, WIDTH):
        if e[i] != 0.0:
            return False
    return True


@njit(**JIT)
def unit_underflows(e, g, k, units, checked_units, magnitudes):
    """Whether a checked unit of lane k underflows. A unit is a set of coordinates coupled only with each other.

    A unit at exactly zero was put there by a step: an underflow would have been detected before it.
    """
    for unit in range(magnitudes.size):
        magnitudes[unit] = ZERO
    for i in range(units.size):
        at = i * WIDTH + k
        if abs(e[at]) >= MIN_SAFE_VALUE and abs(g[at]) >= MIN_SAFE_VALUE:
            magnitudes[units[i]] = NORMAL
        elif e[at] != 0.0 and magnitudes[units[i]] == ZERO:
            magnitudes[units[i]] = VANISHING
    for unit in range(magnitudes.size):
        if checked_units[unit, k] and magnitudes[unit] == VANISHING:
            return True
    return False


@njit(**JIT)
def lane_status(e, g, k, units, checked_units, magnitudes, t, last_step, finite, norm, target_norm, always_noisy):
    """The status of lane k at step t, which does not depend on the lane that caused this check.

    If noise moves a lane even from its minimum (``always_noisy``), zero is not special.
    """
    if not finite:
        return DIVERGED
    if always_noisy:
        if norm <= target_norm and target_norm > 0:
            return CONVERGED
        return MAX_STEPS if t == last_step else RUNNING
    if norm <= target_norm and (norm > 0 or lane_is_zero(e, k)):  # else the gradient has underflowed, not the error
        return CONVERGED
    check_units = t == last_step or t % UNIT_CHECK_INTERVAL == 0
    if lane_underflows(e, g, k) or (check_units and unit_underflows(e, g, k, units, checked_units, magnitudes)):
        return UNDERFLOW
    return MAX_STEPS if t == last_step else RUNNING


@njit(**JIT)
def retire(e, state, final, k):
    """Save the last point of lane k and set the lane to zero, since denormals would be slow."""
    for i in range(k, e.size, WIDTH):  # loops compile in a third of the time of slices
        final[i] = e[i]
        e[i] = 0.0
        for s in range(state.shape[0]):
            state[s, i] = 0.0


@njit(**JIT_ENTRY)
def advance(
    # problem
    h: vector,  # the blocks, row by row, one after the other; for one lane by groups of rows, see `simd.rows_product`
    sizes: integers,  # (blocks,)
    minimizer: vector,  # (d * lanes,)
    # lanes
    e: vector,  # (d * lanes,) w - minimizer, the lanes of a coordinate side by side
    g: vector,  # (d * lanes,) scratch: the gradient at e
    state: matrix,  # (names, d * lanes) the rule's state of each coordinate
    settings: cube,  # (names, groups, ROW_SIZE) the lanes' settings, repeated; for one lane (names, 1, d)
    shared_state: matrix,  # (names, ROW_SIZE) the rule's shared state, repeated; column 0 if settings are shared
    groups: integers,  # the sizes of the groups that share settings: the blocks; for one lane all coordinates
    # steps
    schedule: vector,  # lr_scale: one for all steps, or one for each from step t on
    sqrt_hessian: vector,  # the blocks of A, AᵀA = H, whose rows are the examples of minibatches
    sqrt_hessian_t: vector,  # the blocks of Aᵀ
    noise: vector,  # (2,) scales of the noise: of the gradient, of the labels
    batch_size: int64,  # rows in a minibatch; 0 for all of them
    keys: uint64[:, ::1],  # (lanes, 2) of the runs' random streams
    offsets: integers,  # (d * lanes,) each coordinate's offset in the rule's random stream
    workspace: matrix,  # (4, d * lanes) noisy gradient, residuals, weights of the rows, random numbers
    rule_workspace: matrix,  # (4 + names, largest group) for rules that take whole blocks
    rule_address: int64,  # of the compiled rule if the kernel is generic, see `rule_call`; otherwise not used
    # when to stop
    t: int64,  # the step of e
    until: int64,  # the step to return at
    last_step: int64,  # max_steps
    tol: float64,
    first_norm: vector,  # (lanes,) gradient norm at step 0
    max_loss: vector,  # (lanes,) a larger loss counts as diverged
    units: integers,  # (d,) the unit that a coordinate belongs to
    checked_units: boolean[:, ::1],  # (units, lanes) units that must not underflow
    magnitudes: integers,  # (units,) scratch
    # record
    marks: integers,  # steps to record, increasing; the last one is beyond last_step
    cursor: integers,  # (1,) index of the next mark
    loss_at: matrix,  # (marks, lanes)
    norm_at: matrix,  # (marks, lanes)
    status: integers,  # (lanes,)
    stopped: integers,  # (lanes,) the step at which the lane stopped, -1 before
    final: vector,  # (d * lanes,) e at that step
    final_loss_norm: matrix,  # (2, lanes)
    sums: matrix,  # (4, lanes) scratch
) -> int64:
    """Run every lane from step t to step `until` or until it stops; return the step reached."""
    eg, gg, min_gg, max_eg = sums[0], sums[1], sums[2], sums[3]
    first_step, running, check_units = t, 0, checked_units.any()
    always_noisy = NOISY and noise[0] + noise[1] > 0
    for k in range(WIDTH):
        # A lane with gg > min_gg and eg < max_eg continues without further checks.
        min_gg[k] = max((tol * first_norm[k]) ** 2 * (1 + 1e-12), MIN_SAFE_SQUARE)
        max_eg[k] = 2 * max_loss[k]
        running += status[k] == RUNNING
    while running:
        gradient(h, sizes, e, g, eg, gg)
        check_lanes = t == last_step or (check_units and t % UNIT_CHECK_INTERVAL == 0)
        check_lanes |= any_lane_needs_check(eg, gg, min_gg, max_eg, status)
        if t == marks[cursor[0]]:
            for k in range(WIDTH):
                loss_at[cursor[0], k] = 0.5 * eg[k]
                norm_at[cursor[0], k] = lane_norm(gg[k], g, k)
            cursor[0] += 1
        if check_lanes:
            for k in range(WIDTH):
                if status[k] != RUNNING:
                    continue
                norm = lane_norm(gg[k], g, k)
                finite, target_norm = eg[k] <= max_eg[k] and gg[k] < np.inf, tol * first_norm[k]
                status[k] = lane_status(
                    e, g, k, units, checked_units, magnitudes, t, last_step, finite, norm, target_norm, always_noisy
                )
                if status[k] == RUNNING:
                    continue
                stopped[k] = t
                final_loss_norm[0, k] = 0.5 * eg[k]
                final_loss_norm[1, k] = norm
                retire(e, state, final, k)
                running -= 1
        if t >= until or not running:
            break
        lr_scale = schedule[t - first_step if schedule.size > 1 else 0]
        t += 1
        if NOISY:
            noisy_gradient(e, g, sizes, sqrt_hessian, sqrt_hessian_t, noise, batch_size, keys, t, status, workspace)
        if RANDOM:
            fill_uniform(workspace[3], offsets, keys, t, status)
        seen, random, step = workspace[0] if NOISY else g, workspace[3], float(t)
        once_per_step(shared_state, settings, lr_scale, step)
        update(
            e,
            seen,
            minimizer,
            random,
            state,
            settings,
            shared_state,
            groups,
            lr_scale,
            step,
            status,
            rule_workspace,
            rule_address,
        )
    return t


def signature(function):
    *arguments, result = function.py_func.__annotations__.values()
    return result(*arguments)


# Of the functions that are compiled and called from Python; the others are compiled into these.
SIGNATURES = {"begin": signature(begin), "advance": signature(advance)}
