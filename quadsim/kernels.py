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
from llvmlite import binding, ir
from numba import carray, int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

WIDTH = 8  # lanes side by side: 8, 32 or 1
VECTOR = 8  # floats that are moved together: arrays have room for whole vectors
ROW = 32  # how many numbers a rule moves together: a few coordinates of all lanes, or many of one
NOISY = False  # whether the rule sees gradients with noise
RANDOM = False  # whether the rule asks for random numbers of its own
FLAGS = {"nogil": True, "error_model": "numpy"}  # numpy: 1/0 is inf, not an exception
HOT = {**FLAGS, "forceinline": True}  # what is called at every step: a call with a dozen arrays has its price

FEATURES = [name for name, there in binding.get_host_cpu_features().items() if there]

RUNNING, CONVERGED, MAX_STEPS, DIVERGED, UNDERFLOW = range(5)
ZERO, VANISHING, NORMAL = range(3)
TINY_SQUARE = 1e-250  # below this a sum of squares has begun to lose digits to underflow
TINY = 1e-290  # below this a coordinate is about to leave float64's range
WATCH = 16  # steps between two looks for units that vanish; to leave float64's range below TINY takes some more


@intrinsic
def stack_row(typingctx):
    """A pointer to ROW floats on the stack: LLVM knows that nothing else points there, and vectorises."""

    def codegen(context, builder, signature, args):
        with builder.goto_entry_block():  # once in a call, and not filled with zeros as numba's own way would do
            row = builder.alloca(ir.ArrayType(ir.DoubleType(), ROW))
        row.align = 64  # a vector that straddles two cache lines is moved twice
        return builder.bitcast(row, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(), codegen


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


def _data(context, builder, signature, args, which):
    return [context.make_array(signature.args[q])(context, builder, args[q]).data for q in which]


def row_moves(put):
    """Moves `count` floats, rounded up to whole vectors, from a row on the stack into an array from `at` on.

    Written out: LLVM would make a loop of copies a call of memcpy. Arrays have room for whole vectors.
    """

    @intrinsic
    def move(typingctx, array, at, row, count):
        def codegen(context, builder, signature, args):
            [data] = _data(context, builder, signature, args, [0])
            _, at, row, count = args
            integer = count.type
            for first in range(0, ROW, VECTOR):
                with builder.if_then(builder.icmp_signed(">", count, integer(first))):
                    there = builder.add(at, integer(first))
                    put(builder, data, there, row, integer(first))
            return context.get_dummy_value()

        return types.void(array, int64, row, int64), codegen

    return move


def _keep(builder, data, there, row, here):
    _store(builder, _load(builder, row, here, VECTOR), data, there)


def _subtract(builder, data, there, row, here):
    _store(builder, builder.fsub(_load(builder, data, there, VECTOR), _load(builder, row, here, VECTOR)), data, there)


def _repeat(builder, data, there, row, here):
    lanes = here.type(here.constant % max(WIDTH, VECTOR))  # a row on the stack has a number for each lane
    _store(builder, _load(builder, row, lanes, VECTOR), data, there)


keep_row, subtract_row, repeat_row = (row_moves(put) for put in (_keep, _subtract, _repeat))


# <rule>
@njit(**HOT)
def update(e, g, minimizer, random, state, settings, clock, groups, factor, number, status, room):
    low = 0
    for block in range(groups.size):
        high = low + groups[block] * WIDTH
        for i in range(low, high, WIDTH):
            for k in range(WIDTH):
                e[i + k] -= settings[0, block, k] * factor * g[i + k]
        low = high


@njit(**HOT)
def tick(clock, settings, factor, number):
    pass


# </rule>


def _fma(builder, a, b, accumulator):
    """accumulator += a * b, rounded once."""
    kind = a.type
    signature = ir.FunctionType(kind, [kind] * 3)
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.fma.v{kind.count}f64")
    builder.store(builder.call(function, [a, b, builder.load(accumulator)]), accumulator)


def _zeros(builder, count, width):
    """`count` accumulators; LLVM keeps them in registers."""
    with builder.goto_entry_block():
        accumulators = [builder.alloca(_vector(width)) for _ in range(count)]
    for accumulator in accumulators:
        builder.store(ir.Constant(_vector(width), [0.0] * width), accumulator)
    return accumulators


def rows_times(vectors, width, holds):
    """g = H e in some rows of a block, from row i on, as many `vectors` at once.

    A vector holds the `width` "lanes" of one row; or, where there is one lane only, `width` "rows" of it, and then the
    rows that are computed together are stored together, column after column: memory is read from one end to the other.
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
                        group = builder.add(base, builder.mul(i, n))  # the rows of one call, one after the other
                        place = builder.mul(loop.index, integer(vectors * width))
                        entry = builder.add(builder.add(group, place), builder.sub(row, i))
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


@intrinsic
def unusual(typingctx, eg, gg, stop, explode, status):
    """Whether some lane that runs has a g*g that is not above `stop` or not finite, or an e*g not below `explode`."""

    def codegen(context, builder, signature, args):
        *floats, whole = _data(context, builder, signature, args, range(5))
        zero = ir.IntType(64)(0)
        eg, gg, stop, explode = (_load(builder, data, zero, WIDTH) for data in floats)
        lanes = ir.VectorType(ir.IntType(64), WIDTH)
        status = builder.load(builder.bitcast(whole, lanes.as_pointer()), align=8)
        running = builder.icmp_signed("==", status, ir.Constant(lanes, [RUNNING] * WIDTH))
        usual = builder.and_(builder.fcmp_ordered(">", gg, stop), builder.fcmp_ordered("<", eg, explode))
        usual = builder.and_(usual, builder.fcmp_ordered("<", gg, ir.Constant(_vector(WIDTH), [float("inf")] * WIDTH)))
        bits = builder.bitcast(builder.and_(running, builder.not_(usual)), ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", bits, ir.IntType(WIDTH)(0))

    return types.boolean(eg, gg, stop, explode, status), codegen


# Six rows of lanes (or 24 of one lane) in flight hide the latency of the multiply-add and fill the registers.
if WIDTH == 1:  # the last rows of a block are filled up to 8 with zeros
    MANY, SOME, FEW, FILLED = 24, 8, 8, VECTOR
    many, some = rows_times(3, 8, "rows"), rows_times(1, 8, "rows")
    few, one = some, some
else:
    MANY, SOME, FEW, FILLED = (6 if WIDTH == 8 else 4 if "avx512f" in FEATURES else 1), 3, 2, 1
    many, some, few, one = (rows_times(rows, WIDTH, "lanes") for rows in (MANY, SOME, FEW, 1))
sums = lane_sums(WIDTH)


@njit(**HOT)
def times(a, sizes, e, g):
    """g = A e in every lane, for A of square blocks."""
    base, low = 0, 0
    for block in range(sizes.size):
        n, i = sizes[block], 0
        while i + MANY <= n:
            many(a, e, g, base, low, i, n)
            i += MANY
        while i + SOME <= n:
            some(a, e, g, base, low, i, n)
            i += SOME
        while i + FEW <= n:
            few(a, e, g, base, low, i, n)
            i += FEW
        while i < n:
            one(a, e, g, base, low, i, n)  # what it writes beyond the block's end, the next block overwrites
            i += FILLED
        base += n * i
        low += n


@njit(**HOT)
def measure(h, sizes, e, g, eg, gg):
    """The gradient g = H e of every lane, with the sums of e*g (twice the loss) and g*g."""
    times(h, sizes, e, g)
    sums(e, g, e.size // WIDTH, eg, gg)


@intrinsic
def high_word(typingctx, a, b):
    """The upper 64 bits of the product of two uint64."""

    def codegen(context, builder, signature, args):
        wide = [builder.zext(arg, ir.IntType(128)) for arg in args]
        return builder.trunc(builder.lshr(builder.mul(*wide), ir.IntType(128)(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


# What a stream of random numbers is for: the third word of its counter.
BATCH, GRADIENT, LABELS, RULE = range(4)


@njit(**FLAGS)
def philox(key, place, number, use):
    """Four random words of Philox 4x64-10 (Salmon et al. 2011): `place` in the stream of step `number` for this `use`.

    numpy's `Philox(key=key, counter=[0, number, use, 0])` gives the same words, place after place.
    """
    c0, c1, c2, c3 = np.uint64(place + 1), np.uint64(number), np.uint64(use), np.uint64(0)
    k0, k1 = key[0], key[1]
    for _ in range(10):
        high0, low0 = high_word(np.uint64(0xD2E7470EE14C6C93), c0), np.uint64(0xD2E7470EE14C6C93) * c0
        high1, low1 = high_word(np.uint64(0xCA5A826395121157), c2), np.uint64(0xCA5A826395121157) * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 += np.uint64(0x9E3779B97F4A7C15)
        k1 += np.uint64(0xBB67AE8584CAA73B)
    return c0, c1, c2, c3


@njit(**FLAGS)
def uniform(word):
    """A number in [0, 1), from the upper 53 bits."""
    return np.float64(word >> np.uint64(11)) * 2.0**-53


@njit(**FLAGS)
def gaussian(word):
    """The standard normal number whose distribution function is at a uniform one: Wichura's AS 241 (1988)."""
    q = (np.float64(word >> np.uint64(12)) + 0.5) * 2.0**-52 - 0.5  # without rounding, and never ±½
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = ((((((2.5090809287301226727e3 * r + 3.3430575583588128105e4) * r + 6.7265770927008700853e4) * r
            + 4.5921953931549871457e4) * r + 1.3731693765509461125e4) * r + 1.9715909503065514427e3) * r
            + 1.3314166789178437745e2) * r + 3.3871328727963666080e0  # fmt: skip
        bottom = ((((((5.2264952788528545610e3 * r + 2.8729085735721942674e4) * r + 3.9307895800092710610e4) * r
            + 2.1213794301586595867e4) * r + 5.3941960214247511077e3) * r + 6.8718700749205790830e2) * r
            + 4.2313330701600911252e1) * r + 1.0  # fmt: skip
        return q * top / bottom
    r = math.sqrt(-math.log(0.5 - abs(q)))
    if r <= 5.0:
        r -= 1.6
        top = ((((((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r
            + 1.27045825245236838258e0) * r + 3.64784832476320460504e0) * r + 5.76949722146069140550e0) * r
            + 4.63033784615654529590e0) * r + 1.42343711074968357734e0  # fmt: skip
        bottom = ((((((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r
            + 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940e0) * r
            + 2.05319162663775882187e0) * r + 1.0  # fmt: skip
    else:
        r -= 5.0
        top = ((((((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r
            + 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580e0) * r
            + 5.46378491116411436990e0) * r + 6.65790464350110377720e0  # fmt: skip
        bottom = ((((((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r
            + 7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r
            + 5.99832206555887937690e-1) * r + 1.0  # fmt: skip
    return math.copysign(top / bottom, q)


@njit(**FLAGS)
def sample(weight, k, batch, key, number):
    """Give the rows of lane k's minibatch the weight n/batch and the others 0; drawn in Floyd's way."""
    n = weight.size // WIDTH
    few = min(batch, n - batch)  # draw whichever is fewer: those taken, or those left out
    drawn, other = (n / batch, 0.0) if few == batch else (0.0, n / batch)
    for row in range(n):
        weight[row * WIDTH + k] = other
    for pick in range(few):
        if pick % 4 == 0:
            words = philox(key, pick // 4, number, BATCH)
        last = n - few + pick
        row = np.int64(high_word(words[pick % 4], np.uint64(last + 1)))  # even among 0 … last
        if weight[row * WIDTH + k] == drawn:
            row = last
        weight[row * WIDTH + k] = drawn


@njit(**FLAGS)
def add_gaussian(values, k, scale, key, number, use):
    """Add scale times a standard normal vector to lane k."""
    for i in range(values.size // WIDTH):
        if i % 4 == 0:
            words = philox(key, i // 4, number, use)
        values[i * WIDTH + k] += scale * gaussian(words[i % 4])


@njit(**FLAGS)
def disturb(e, g, sizes, factor, across, noise, batch, keys, number, status, work):
    """The gradient that the rule sees, in work[0]: of a minibatch, with noisy labels, with noise of its own.

    With A = X/√n, AᵀA = H, a minibatch B of k rows has the gradient (n/k) Σ a (aᵀe − noise) over its rows a.
    """
    noisy, residual, weight = work[0], work[1], work[2]
    if batch > 0 or noise[1] > 0:
        times(factor, sizes, e, residual)
        for k in range(WIDTH):
            if status[k] != RUNNING:
                continue
            if noise[1] > 0:
                add_gaussian(residual, k, noise[1], keys[k], number, LABELS)
            if batch > 0:
                sample(weight, k, batch, keys[k], number)
        if batch > 0:
            for i in range(residual.size):
                residual[i] *= weight[i]
        times(across, sizes, residual, noisy)
    else:
        for i in range(g.size):
            noisy[i] = g[i]
    if noise[0] > 0:
        for k in range(WIDTH):
            if status[k] == RUNNING:
                add_gaussian(noisy, k, noise[0], keys[k], number, GRADIENT)


@njit(**FLAGS)
def throw(random, places, keys, number, status):
    """A uniform number for each coordinate: the one at its place in the rule's own stream."""
    for k in range(WIDTH):
        if status[k] != RUNNING:
            continue
        block = -1
        for i in range(k, random.size, WIDTH):
            if places[i] // 4 != block:
                block = places[i] // 4
                words = philox(keys[k], block, number, RULE)
            random[i] = uniform(words[places[i] % 4])


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


@njit(**FLAGS)
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
def ending(e, g, k, units, watched, largest, t, end, finite, size, target, restless):
    """How lane k ends at step t, or that it runs on. Its own numbers decide, not which lane made us look.

    Where noise moves a lane even from its minimum, zero is a point like any other.
    """
    if not finite:
        return DIVERGED
    if restless:
        if size <= target and target > 0:
            return CONVERGED
        return MAX_STEPS if t == end else RUNNING
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


@njit(**FLAGS)
def advance(
    # the problem
    h,  # the blocks, row after row, one after the other; for one lane MANY, then 8 rows together by columns
    sizes,  # (blocks,)
    minimizer,  # (d * lanes,)
    # where the lanes stand
    e,  # (d * lanes,) w - minimizer, the lanes of a coordinate side by side
    g,  # (d * lanes,) scratch: the gradient at e
    state,  # (names, d * lanes) what the rule remembers of each coordinate
    settings,  # (names, groups, ROW) the lanes' settings, repeated; for one lane by coordinate: (names, 1, d)
    clock,  # (names, ROW) what the rule needs once a step, repeated, or in its first column if lanes are alike
    groups,  # the sizes of the groups that share settings: the blocks; for one lane all coordinates
    # what the steps are like
    schedule,  # factors on the learning rate: one for all steps, or one for each from step t on
    factor,  # the blocks of A, AᵀA = H, whose rows are the examples of minibatches
    across,  # the blocks of Aᵀ
    noise,  # (2,) scales of the noise: of the gradient, of the labels
    batch,  # rows in a minibatch; 0 for all of them
    keys,  # (lanes, 2) of the runs' random streams
    places,  # (d * lanes,) each coordinate's place in the rule's own stream
    work,  # (4, d * lanes) scratch: noisy gradient, residuals, weights of the rows, random numbers
    room,  # (4 + names, largest group) scratch: a rule for whole blocks works here
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
    running, watching, began, restless = 0, False, t, NOISY and noise[0] + noise[1] > 0
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
        look |= unusual(eg, gg, stop, explode, status)
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
                status[k] = ending(e, g, k, units, watched, largest, t, end, finite, size, target, restless)
                if status[k] == RUNNING:
                    continue
                stopped[k] = t
                final_loss_norm[0, k] = 0.5 * eg[k]
                final_loss_norm[1, k] = size
                retire(e, state, final, k)
                running -= 1
        if t >= until or not running:
            break
        rate = schedule[t - began if schedule.size > 1 else 0]
        t += 1
        if NOISY:
            disturb(e, g, sizes, factor, across, noise, batch, keys, t, status, work)
        if RANDOM:
            throw(work[3], places, keys, t, status)
        tick(clock, settings, rate, float(t))
        seen = work[0] if NOISY else g
        update(e, seen, minimizer, work[3], state, settings, clock, groups, rate, float(t), status, room)
    return t


SIGNATURES = {  # of the functions that `compiler` compiles and calls; the others are compiled into these
    "begin": "void(float64[::1], int64[::1], float64[::1], float64[::1], float64[:,::1])",
    "advance": (
        "int64(float64[::1], int64[::1], float64[::1], float64[::1], float64[::1], float64[:,::1], float64[:,:,::1],"
        " float64[:,::1], int64[::1], float64[::1], float64[::1], float64[::1], float64[::1], int64, uint64[:,::1],"
        " int64[::1], float64[:,::1], float64[:,::1], int64, int64, int64, float64, float64[::1], float64[::1],"
        " int64[::1], boolean[:,::1], int64[::1], int64[::1], int64[::1], float64[:,::1], float64[:,::1], int64[::1],"
        " int64[::1], float64[::1], float64[:,::1], float64[:,::1])"
    ),
}
