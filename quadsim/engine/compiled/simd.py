"""Template 2 of 5 of a kernel: SIMD intrinsics in LLVM IR, and the block product that uses them.

Every sum runs over the coordinates in one fixed order of fused multiply-adds, whether one lane is computed or 32. So a
lane's numbers are bit-identical whatever lanes run beside it, and on every machine with IEEE 754 arithmetic.
docs/architecture/decisions.md has the speedup of each intrinsic.

Arrays hold the lanes of a coordinate side by side: coordinate i of lane k is at ``i * WIDTH + k``.
"""

from llvmlite import binding, ir
from numba import int64, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from quadsim.engine.compiled.kernel_parameters import JIT_INLINE, ROW_SIZE, RUNNING, VECTOR_SIZE, WIDTH

HAS_AVX512 = binding.get_host_cpu_features().get("avx512f", False)


# ---- LLVM IR: vectors of float64


def _vector(width):
    return ir.VectorType(ir.DoubleType(), width)


def _load(builder, data, index, width):
    """The `width` floats from data[index] on."""
    pointer = builder.bitcast(builder.gep(data, [index]), _vector(width).as_pointer())
    return builder.load(pointer, align=8)


def _store(builder, vector, data, index):
    pointer = builder.bitcast(builder.gep(data, [index]), vector.type.as_pointer())
    builder.store(vector, pointer, align=8)


def _broadcast(builder, data, index, width):
    """`width` copies of data[index]."""
    undefined = ir.Constant(_vector(width), ir.Undefined)
    first = builder.insert_element(undefined, builder.load(builder.gep(data, [index])), ir.IntType(32)(0))
    zeros = ir.Constant(ir.VectorType(ir.IntType(32), width), [0] * width)
    return builder.shuffle_vector(first, undefined, zeros)


def _fma(builder, a, b, accumulator):
    """accumulator += a * b, rounded once."""
    kind = a.type
    signature = ir.FunctionType(kind, [kind] * 3)
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.fma.v{kind.count}f64")
    builder.store(builder.call(function, [a, b, builder.load(accumulator)]), accumulator)


def _accumulators(builder, count, width):
    """`count` vectors of zeros; LLVM keeps them in registers."""
    with builder.goto_entry_block():
        accumulators = [builder.alloca(_vector(width)) for _ in range(count)]
    for accumulator in accumulators:
        builder.store(ir.Constant(_vector(width), [0.0] * width), accumulator)
    return accumulators


def _data(context, builder, signature, args, which):
    """Pointers to the data of some of the arguments, which are arrays."""
    return [context.make_array(signature.args[q])(context, builder, args[q]).data for q in which]


# ---- rows: the results of a rule go to the stack first, then to an array


@intrinsic
def stack_row(typingctx):
    """A pointer to ROW_SIZE floats on the stack: LLVM knows that nothing else points there, and vectorises."""

    def codegen(context, builder, signature, args):
        with builder.goto_entry_block():  # once per call, and uninitialized: numba would write zeros
            row = builder.alloca(ir.ArrayType(ir.DoubleType(), ROW_SIZE))
        row.align = 64  # a vector that straddles two cache lines is loaded twice
        return builder.bitcast(row, ir.DoubleType().as_pointer())

    return types.CPointer(types.float64)(), codegen


def row_move(write):
    """An intrinsic that moves `count` floats, rounded up to whole vectors, from a stack row to array[start:].

    LLVM would turn a loop of copies into a call of memcpy. Arrays are padded to whole vectors.
    """

    @intrinsic
    def move(typingctx, array, start, row, count):
        def codegen(context, builder, signature, args):
            [data] = _data(context, builder, signature, args, [0])
            _, start, row, count = args
            integer = count.type
            for offset in range(0, ROW_SIZE, VECTOR_SIZE):
                with builder.if_then(builder.icmp_signed(">", count, integer(offset))):
                    target = builder.add(start, integer(offset))
                    write(builder, data, target, row, integer(offset))
            return context.get_dummy_value()

        return types.void(array, int64, row, int64), codegen

    return move


def _copy(builder, data, target, row, offset):
    _store(builder, _load(builder, row, offset, VECTOR_SIZE), data, target)


def _subtract(builder, data, target, row, offset):
    old, step = _load(builder, data, target, VECTOR_SIZE), _load(builder, row, offset, VECTOR_SIZE)
    _store(builder, builder.fsub(old, step), data, target)


def _repeat(builder, data, target, row, offset):
    lanes = offset.type(offset.constant % max(WIDTH, VECTOR_SIZE))  # the stack row has one number per lane
    _store(builder, _load(builder, row, lanes, VECTOR_SIZE), data, target)


copy_row, subtract_row, repeat_row = (row_move(write) for write in (_copy, _subtract, _repeat))


# ---- g = H e


def rows_product(vectors, width, holds):
    """An intrinsic for g = H e in some rows of a block, from row i on, `vectors` vectors at once.

    A vector holds the `width` "lanes" of one row. With a single lane it holds `width` "rows" of it; then H has the rows
    that are computed together stored column by column, so that memory is read sequentially.
    """

    @intrinsic
    def product(typingctx, h, e, g, base, low, i, n):
        def codegen(context, builder, signature, args):
            h, e, g = _data(context, builder, signature, args, range(3))
            base, low, i, n = args[3:]
            integer = n.type
            rows = [builder.add(i, integer(v if holds == "lanes" else v * width)) for v in range(vectors)]
            sums = _accumulators(builder, vectors, width)
            with cgutils.for_range(builder, n, intp=integer) as loop:
                column = builder.add(low, loop.index)
                if holds == "lanes":
                    errors = _load(builder, e, builder.mul(column, integer(width)), width)
                else:
                    errors = _broadcast(builder, e, column, width)
                for row, total in zip(rows, sums, strict=True):
                    if holds == "lanes":
                        entry = builder.add(base, builder.add(builder.mul(row, n), loop.index))
                        entries = _broadcast(builder, h, entry, width)
                    else:
                        group = builder.add(base, builder.mul(i, n))  # the rows of one call are contiguous
                        offset = builder.mul(loop.index, integer(vectors * width))
                        entry = builder.add(builder.add(group, offset), builder.sub(row, i))
                        entries = _load(builder, h, entry, width)
                    _fma(builder, entries, errors, total)
            for row, total in zip(rows, sums, strict=True):
                coordinate = builder.add(low, row)
                target = builder.mul(coordinate, integer(width)) if holds == "lanes" else coordinate
                _store(builder, builder.load(total), g, target)
            return context.get_dummy_value()

        return types.void(h, e, g, int64, int64, int64, int64), codegen

    return product


# Rows per call: six rows of lanes (or 24 of one lane) in flight hide the latency of the multiply-add and fill the
# registers; the smaller calls take the rows that are left.
if WIDTH == 1:  # the last rows of a block are padded to 8 with zeros
    MANY_ROWS, SOME_ROWS, FEW_ROWS, LAST_ROWS = 24, 8, 8, VECTOR_SIZE
    many_rows, some_rows = rows_product(3, 8, "rows"), rows_product(1, 8, "rows")
    few_rows, last_rows = some_rows, some_rows
else:
    MANY_ROWS, SOME_ROWS, FEW_ROWS, LAST_ROWS = (6 if WIDTH == 8 else 4 if HAS_AVX512 else 1), 3, 2, 1
    many_rows, some_rows, few_rows, last_rows = (
        rows_product(rows, WIDTH, "lanes") for rows in (MANY_ROWS, SOME_ROWS, FEW_ROWS, LAST_ROWS)
    )


@njit(**JIT_INLINE)
def block_product(a, sizes, e, g):
    """g = A e in every lane, for A of square blocks."""
    base, low = 0, 0
    for block in range(sizes.size):
        n, i = sizes[block], 0
        while i + MANY_ROWS <= n:
            many_rows(a, e, g, base, low, i, n)
            i += MANY_ROWS
        while i + SOME_ROWS <= n:
            some_rows(a, e, g, base, low, i, n)
            i += SOME_ROWS
        while i + FEW_ROWS <= n:
            few_rows(a, e, g, base, low, i, n)
            i += FEW_ROWS
        while i < n:
            last_rows(a, e, g, base, low, i, n)  # the next block overwrites what this writes beyond the block's end
            i += LAST_ROWS
        base += n * i
        low += n


# ---- sums and comparisons over lanes


@intrinsic
def lane_sums(typingctx, e, g, d, eg, gg):
    """eg = sum of e*g and gg = sum of g*g in each lane; even and odd coordinates separately, then added."""

    def codegen(context, builder, signature, args):
        e, g, eg, gg = _data(context, builder, signature, args, (0, 1, 3, 4))
        integer = args[2].type
        eg_even, eg_odd, gg_even, gg_odd = _accumulators(builder, 4, WIDTH)

        def add(row, eg_part, gg_part):
            start = builder.mul(row, integer(WIDTH))
            errors, gradients = _load(builder, e, start, WIDTH), _load(builder, g, start, WIDTH)
            _fma(builder, errors, gradients, eg_part)
            _fma(builder, gradients, gradients, gg_part)

        with cgutils.for_range(builder, builder.ashr(args[2], integer(1)), intp=integer) as loop:
            even = builder.shl(loop.index, integer(1))
            add(even, eg_even, gg_even)
            add(builder.add(even, integer(1)), eg_odd, gg_odd)
        with builder.if_then(builder.trunc(args[2], ir.IntType(1))):
            add(builder.sub(args[2], integer(1)), eg_even, gg_even)
        for data, even, odd in ((eg, eg_even, eg_odd), (gg, gg_even, gg_odd)):
            _store(builder, builder.fadd(builder.load(even), builder.load(odd)), data, integer(0))
        return context.get_dummy_value()

    return types.void(e, g, int64, eg, gg), codegen


@intrinsic
def any_lane_needs_check(typingctx, eg, gg, min_gg, max_eg, status):
    """Whether a running lane has a gg that is not above `min_gg` or not finite, or an eg that is not below `max_eg`."""

    def codegen(context, builder, signature, args):
        *floats, status_data = _data(context, builder, signature, args, range(5))
        zero = ir.IntType(64)(0)
        eg, gg, min_gg, max_eg = (_load(builder, data, zero, WIDTH) for data in floats)
        lanes = ir.VectorType(ir.IntType(64), WIDTH)
        status = builder.load(builder.bitcast(status_data, lanes.as_pointer()), align=8)
        running = builder.icmp_signed("==", status, ir.Constant(lanes, [RUNNING] * WIDTH))
        infinity = ir.Constant(_vector(WIDTH), [float("inf")] * WIDTH)
        ordinary = builder.and_(builder.fcmp_ordered(">", gg, min_gg), builder.fcmp_ordered("<", eg, max_eg))
        ordinary = builder.and_(ordinary, builder.fcmp_ordered("<", gg, infinity))
        bits = builder.bitcast(builder.and_(running, builder.not_(ordinary)), ir.IntType(WIDTH))
        return builder.icmp_unsigned("!=", bits, ir.IntType(WIDTH)(0))

    return types.boolean(eg, gg, min_gg, max_eg, status), codegen


@intrinsic
def multiply_high(typingctx, a, b):
    """The upper 64 bits of the product of two uint64."""

    def codegen(context, builder, signature, args):
        wide = [builder.zext(arg, ir.IntType(128)) for arg in args]
        return builder.trunc(builder.lshr(builder.mul(*wide), ir.IntType(128)(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen
