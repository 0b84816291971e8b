"""The compiled loop: arrays in, arrays out.

`compiler` reads this file as text, puts an optimizer's rule between the two marks below, and compiles
the whole; what stands between them here is plain gradient descent. A kernel knows blocks, lanes and
steps. It knows no classes, no files and no defaults.

Lanes are runs that share a Hessian, WIDTH of them side by side in memory, so that a matrix-vector
product becomes a matrix product. Every sum runs over the coordinates in one fixed order of fused
multiply-adds, whether one lane is computed or eight: a lane's numbers are the same to the last bit
whatever runs beside it, and on every machine whose arithmetic is IEEE 754.
"""

import math

import numpy as np
from llvmlite import ir
from numba import carray, int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 8  # lanes side by side: 8 or 1
ROW = 32  # how many numbers a rule moves together: a few coordinates of all lanes, or many of one
CACHE = False  # whether numba keeps the machine code beside this file
FLAGS = {"nogil": True, "error_model": "numpy"}  # numpy: 1/0 is inf, not an exception

RUNNING, CONVERGED, MAX_STEPS, DIVERGED, UNDERFLOW = range(5)
ZERO, VANISHING, NORMAL = range(3)
TINY_SQUARE = 1e-250  # below this a sum of squares has begun to lose digits to underflow
TINY = 1e-290  # below this a coordinate is about to leave float64's range
WATCH = 16  # steps between two looks for units that vanish; to leave float64's range below TINY takes some more


@intrinsic
def stack_row(typingctx):
    """A pointer to ROW floats on the stack: LLVM knows that nothing else points there, and vectorises."""

    def codegen(context, builder, signature, args):
        return cgutils.alloca_once(builder, ir.DoubleType(), size=ROW)

    return types.CPointer(types.float64)(), codegen


# <rule>
@njit(**FLAGS)
def update(e, g, state, settings, clock, groups):
    low = 0
    for block in range(groups.size):
        high = low + groups[block] * WIDTH
        for i in range(low, high, WIDTH):
            for k in range(WIDTH):
                e[i + k] -= settings[0, block, k] * g[i + k]
        low = high


@njit(**FLAGS)
def tick(clock, settings):
    pass


# </rule>


def _vector(width):
    return ir.VectorType(ir.DoubleType(), width)


def _load(builder, data, index, width):
    """The `width` floats that begin at data[index]."""
    pointer = builder.bitcast(builder.gep(data, [index]), _vector(width).as_pointer())
    return builder.load(pointer, align=8)


def _store(builder, vector, data, index):
    pointer = builder.bitcast(builder.gep(data, [index]), vector.type.as_pointer())
    builder.store(vector, pointer, align=8)


def _splat(builder, data, index, width):
    """`width` copies of data[index]."""
    nothing = ir.Constant(_vector(width), ir.Undefined)
    first = builder.insert_element(nothing, builder.load(builder.gep(data, [index])), ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(first, nothing, zeros)


def _fma(builder, a, b, accumulator):
    """accumulator += a * b, rounded once."""
    kind = a.type
    signature = ir.FunctionType(kind, [kind] * 3)
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.fma.v{kind.count}f64")
    builder.store(builder.call(function, [a, b, builder.load(accumulator)]), accumulator)


def _zeros(builder, count, width):
    """`count` accumulators; LLVM keeps them in registers."""
    accumulators = [cgutils.alloca_once(builder, _vector(width)) for _ in range(count)]
    for accumulator in accumulators:
        builder.store(ir.Constant(_vector(width), [0.0] * width), accumulator)
    return accumulators


def _data(context, builder, signature, args, which):
    return [context.make_array(signature.args[q])(context, builder, args[q]).data for q in which]


def rows_times(vectors, width, holds):
    """g = H e in some rows of a block, from row i on, as many `vectors` at once.

    A vector holds the `width` "lanes" of one row; or, where there is one lane only, `width` "rows" of it, for which the
    symmetric block is read down its columns.
    """

    @intrinsic
    def product(typingctx, h, e, g, base, low, i, n):
        def codegen(context, builder, signature, args):
            h, e, g = _data(context, builder, signature, args, range(3))
            base, low, i, n = args[3:]
            integer = n.type
            rows = [builder.add(i, integer(v if holds == "lanes" else v * width)) for v in range(vectors)]
            sums = _zeros(builder, vectors, width)
            with cgutils.for_range(builder, n, intp=integer) as loop:
                here = builder.add(low, loop.index)
                if holds == "lanes":
                    errors = _load(builder, e, builder.mul(here, integer(width)), width)
                else:
                    errors = _splat(builder, e, here, width)
                for row, total in zip(rows, sums, strict=True):
                    if holds == "lanes":
                        entry = builder.add(base, builder.add(builder.mul(row, n), loop.index))
                        entries = _splat(builder, h, entry, width)
                    else:
                        entry = builder.add(base, builder.add(builder.mul(loop.index, n), row))
                        entries = _load(builder, h, entry, width)
                    _fma(builder, entries, errors, total)
            for row, total in zip(rows, sums, strict=True):
                there = builder.add(low, row)
                at = builder.mul(there, integer(width)) if holds == "lanes" else there
                _store(builder, builder.load(total), g, at)
            return context.get_dummy_value()

        return types.void(h, e, g, int64, int64, int64, int64), codegen

    return product


def lane_sums(width):
    """eg = sum of e*g and gg = sum of g*g in each lane, even and odd coordinates apart, then added."""

    @intrinsic
    def sums(typingctx, e, g, d, eg, gg):
        def codegen(context, builder, signature, args):
            e, g, eg, gg = _data(context, builder, signature, args, (0, 1, 3, 4))
            integer = args[2].type
            eg_even, eg_odd, gg_even, gg_odd = _zeros(builder, 4, width)

            def add(row, eg_part, gg_part):
                at = builder.mul(row, integer(width))
                errors, gradients = _load(builder, e, at, width), _load(builder, g, at, width)
                _fma(builder, errors, gradients, eg_part)
                _fma(builder, gradients, gradients, gg_part)

            with cgutils.for_range(builder, builder.ashr(args[2], integer(1)), intp=integer) as loop:
                even = builder.shl(loop.index, integer(1))
                add(even, eg_even, gg_even)
                add(builder.add(even, integer(1)), eg_odd, gg_odd)
            with builder.if_then(builder.trunc(args[2], ir.IntType(1))):
                add(builder.sub(args[2], integer(1)), eg_even, gg_even)
            for data, one, other in ((eg, eg_even, eg_odd), (gg, gg_even, gg_odd)):
                _store(builder, builder.fadd(builder.load(one), builder.load(other)), data, integer(0))
            return context.get_dummy_value()

        return types.void(e, g, int64, eg, gg), codegen

    return sums


# Six rows of lanes (or 24 of one lane) in flight hide the latency of the multiply-add and fill the registers.
if WIDTH == 1:
    MANY, SOME, FEW = 24, 8, 3
    many, some = rows_times(3, 8, "rows"), rows_times(1, 8, "rows")
    few, one = rows_times(3, 1, "lanes"), rows_times(1, 1, "lanes")
else:
    MANY, SOME, FEW = 6, 3, 2
    many, some, few, one = (rows_times(rows, WIDTH, "lanes") for rows in (MANY, SOME, FEW, 1))
sums = lane_sums(WIDTH)


@njit(**FLAGS)
def measure(h, sizes, e, g, eg, gg):
    """The gradient g = H e of every lane, with the sums of e*g (twice the loss) and g*g."""
    base, low = 0, 0
    for block in range(sizes.size):
        n, i = sizes[block], 0
        while i + MANY <= n:
            many(h, e, g, base, low, i, n)
            i += MANY
        while i + SOME <= n:
            some(h, e, g, base, low, i, n)
            i += SOME
        while i + FEW <= n:
            few(h, e, g, base, low, i, n)
            i += FEW
        while i < n:
            one(h, e, g, base, low, i, n)
            i += 1
        base += n * n
        low += n
    sums(e, g, low, eg, gg)


@njit(**FLAGS)
def norm(gg, g, k):
    """The gradient norm of lane k; scaled first where the squares underflow."""
    if not gg < TINY_SQUARE:
        return math.sqrt(gg)
    largest, total = 0.0, 0.0
    for i in range(k, g.size, WIDTH):
        largest = max(largest, abs(g[i]))
    if largest == 0.0:
        return 0.0
    for i in range(k, g.size, WIDTH):
        total += (g[i] / largest) ** 2
    return largest * math.sqrt(total)


@njit("void(float64[::1], int64[::1], float64[::1], float64[::1], float64[:,::1])", cache=CACHE, **FLAGS)
def begin(h, sizes, e, g, sums):
    """What is needed before the first step: g, and the rows of `sums`: e*g, g*g and the gradient norm of each lane."""
    measure(h, sizes, e, g, sums[0], sums[1])
    for k in range(WIDTH):
        sums[2, k] = norm(sums[1, k], g, k)


@njit(**FLAGS)
def vanished(e, g, k):
    """Whether every coordinate of lane k has left float64's range, or its gradient has."""
    for i in range(k, e.size, WIDTH):
        if abs(e[i]) >= TINY and abs(g[i]) >= TINY:
            return False
    return True


@njit(**FLAGS)
def unit_vanished(e, g, k, units, watched, largest):
    """Whether a watched unit of lane k has: coordinates that are coupled with each other, and with no others.

    A unit that stands at zero exactly has landed there: on its way out of range it would have been seen.
    """
    for unit in range(largest.size):
        largest[unit] = ZERO
    for i in range(units.size):
        at = i * WIDTH + k
        if abs(e[at]) >= TINY and abs(g[at]) >= TINY:
            largest[units[i]] = NORMAL
        elif e[at] != 0.0 and largest[units[i]] == ZERO:
            largest[units[i]] = VANISHING
    for unit in range(largest.size):
        if watched[unit, k] and largest[unit] == VANISHING:
            return True
    return False


@njit(**FLAGS)
def at_zero(e, k):
    for i in range(k, e.size, WIDTH):
        if e[i] != 0.0:
            return False
    return True


@njit(**FLAGS)
def ending(e, g, k, units, watched, largest, t, end, finite, size, target):
    """How lane k ends at step t, or that it runs on. Its own numbers decide, not which lane made us look."""
    if not finite:
        return DIVERGED
    if size <= target and (size > 0 or at_zero(e, k)):  # else the gradient has underflowed, not the error
        return CONVERGED
    due = t == end or t % WATCH == 0
    if vanished(e, g, k) or (due and unit_vanished(e, g, k, units, watched, largest)):
        return UNDERFLOW
    return MAX_STEPS if t == end else RUNNING


@njit(**FLAGS)
def retire(e, state, final, k):
    """Keep where lane k ended, and let it idle at zero (or NaN) from here on: denormals would be slow."""
    for i in range(k, e.size, WIDTH):
        final[i] = e[i]
        e[i] = 0.0
        for s in range(state.shape[0]):
            state[s, i] = 0.0


ADVANCE = (
    "int64(float64[::1], int64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,:,::1], float64[:,::1],"
    " int64[::1], int64, int64, int64, float64, float64[::1], float64[::1], int64[::1], boolean[:,::1], int64[::1],"
    " int64[::1], int64[::1], float64[:,::1], float64[:,::1], int64[::1], int64[::1], float64[::1], float64[:,::1],"
    " float64[:,::1])"
)


@njit(ADVANCE, cache=CACHE, **FLAGS)
def advance(
    # the problem
    h,  # the blocks, row after row, one after the other
    sizes,  # (blocks,)
    # where the lanes stand
    e,  # (d * lanes,) w - minimizer, the lanes of a coordinate side by side
    g,  # (d * lanes,) scratch: the gradient at e
    state,  # (names, d * lanes) what the rule remembers of each coordinate
    settings,  # (names, groups, ROW) the lanes' settings, repeated; for one lane (names, 1, d)
    clock,  # (names, ROW) what the rule needs once a step, repeated; for one lane (names, 1)
    groups,  # the sizes of the groups that share settings: the blocks; for one lane all coordinates
    # how far, and until when
    t,  # the step that e stands at
    until,  # the step to return at
    end,  # the last step of all
    tol,
    first_norm,  # (lanes,) gradient norm at step 0
    limit,  # (lanes,) a loss above it has exploded
    units,  # (d,) the unit that a coordinate belongs to
    watched,  # (units, lanes) units that must not vanish
    largest,  # (units,) scratch
    # the record
    marks,  # steps to record at, increasing, the last one beyond reach
    cursor,  # (1,) index of the next mark
    loss_at,  # (marks, lanes)
    norm_at,  # (marks, lanes)
    status,  # (lanes,)
    stopped,  # (lanes,) the step at which the lane stopped, -1 before
    final,  # (d * lanes,) e at that step
    final_loss_norm,  # (2, lanes)
    scratch,  # (4, lanes)
):
    """Run every lane from step t to step `until` or to its own end; the step reached."""
    eg, gg, stop, explode = scratch[0], scratch[1], scratch[2], scratch[3]
    running, watching = 0, False
    for k in range(WIDTH):
        # A lane whose g*g is above `stop` and whose e*g is below `explode` needs no further look.
        stop[k] = max((tol * first_norm[k]) ** 2 * (1 + 1e-12), TINY_SQUARE)
        explode[k] = 2 * limit[k]
        running += status[k] == RUNNING
        for unit in range(largest.size):
            watching |= watched[unit, k]
    while running:
        measure(h, sizes, e, g, eg, gg)
        look = t == end or (watching and t % WATCH == 0)
        for k in range(WIDTH):
            if status[k] == RUNNING and not (gg[k] > stop[k] and eg[k] < explode[k] and gg[k] < np.inf):
                look = True
        if t == marks[cursor[0]]:
            for k in range(WIDTH):
                loss_at[cursor[0], k] = 0.5 * eg[k]
                norm_at[cursor[0], k] = norm(gg[k], g, k)
            cursor[0] += 1
        if look:
            for k in range(WIDTH):
                if status[k] != RUNNING:
                    continue
                size = norm(gg[k], g, k)
                finite, target = eg[k] <= explode[k] and gg[k] < np.inf, tol * first_norm[k]
                status[k] = ending(e, g, k, units, watched, largest, t, end, finite, size, target)
                if status[k] == RUNNING:
                    continue
                stopped[k] = t
                final_loss_norm[0, k] = 0.5 * eg[k]
                final_loss_norm[1, k] = size
                retire(e, state, final, k)
                running -= 1
        if t >= until or not running:
            break
        tick(clock, settings)
        update(e, g, state, settings, clock, groups)
        t += 1
    return t
