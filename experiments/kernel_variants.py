"""Speedup of each part of a kernel: the part is replaced by plain numba and timed against the original.

    python experiments/kernel_variants.py

Adam on block sizes 3x3, 4x30 and 4x256 with 1 and 64 lanes. A later definition in a kernel's text replaces an earlier
one, so a variant is the kernel's text followed by other definitions. Kernel and variant are timed in turns; the
smallest CPU time of the rounds counts. "same bits" says whether a lane ends with the same numbers alone and in a batch
of 32. Writes figures/kernel-variants.csv; docs/architecture/decisions.md discusses it.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported

import time
from pathlib import Path
from threading import Event
from unittest import mock

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import _artifacts
from quadsim.engine.compiled import compiler, kernel_source
from quadsim.engine.compiled.batching import cut
from quadsim.engine.compiled.lane_arrays import Job, Lane, LaneArrays
from quadsim.optimizers.schedules import Schedule

SIZES, LANES, SECONDS, ROUNDS = ((3, 3), (4, 30), (4, 256)), (1, 64), 0.05, 7

PRODUCT = """
@njit(**JIT_INLINE)
def block_product(a, sizes, e, g):
    base, low = 0, 0
    for block in range(sizes.size):
        n = sizes[block]
        for i in range(low, low + n):
            for k in range(WIDTH):
                g[i * WIDTH + k] = 0.0
            for j in range(low, low + n):
                entry = a[base + (i - low) * n + j - low]
                for k in range(WIDTH):
                    g[i * WIDTH + k] += entry * e[j * WIDTH + k]
        base += n * n
        low += n
"""
BLAS = """
@njit(**JIT_INLINE)
def block_product(a, sizes, e, g):
    base, low = 0, 0
    for block in range(sizes.size):
        n = sizes[block]
        h = a[base : base + n * n].reshape((n, n))
        rows = slice(low * WIDTH, (low + n) * WIDTH)
        np.dot(h, e[rows].reshape((n, WIDTH)), g[rows].reshape((n, WIDTH)))
        base += n * n
        low += n
"""
SUMS = """
@njit(**JIT_INLINE)
def lane_sums(e, g, d, eg, gg):
    for k in range(WIDTH):
        eg[k] = gg[k] = 0.0
    for i in range(d):
        for k in range(WIDTH):
            eg[k] += e[i * WIDTH + k] * g[i * WIDTH + k]
            gg[k] += g[i * WIDTH + k] * g[i * WIDTH + k]
"""
CHECK = """
@njit(**JIT_INLINE)
def any_lane_needs_check(eg, gg, min_gg, max_eg, status):
    for k in range(WIDTH):
        if status[k] == RUNNING and not (gg[k] > min_gg[k] and eg[k] < max_eg[k] and gg[k] < np.inf):
            return True
    return False
"""
RANDOM = """
@njit(**JIT)
def add_gaussian(values, k, scale, key, step, use):
    for i in range(values.size // WIDTH):
        values[i * WIDTH + k] += scale * np.random.normal()


@njit(**JIT)
def sample_rows(weights, k, batch_size, key, step):
    n = weights.size // WIDTH
    rows = np.random.permutation(n)
    for i in range(n):
        weights[rows[i] * WIDTH + k] = n / batch_size if i < batch_size else 0.0
"""
NOISES = {"": qs.Noise(), "gaussian noise": qs.Noise("gaussian", 0.1), "minibatch": qs.Noise(batch=3)}


def plain_moves(call, targets):
    """`kernel_source._through_stack` without the stack: results are written to the arrays directly."""
    rows = [f"row{n}" for n in range(len(targets))]
    writes = ["e[i + k] -= row0", *(f"state[{s}, i + k] = row{s + 1}" for s in range(len(targets) - 1))]
    return ["for k in range(count):", f"    {', '.join(rows)} = {call}", *(f"    {write}" for write in writes)]


def text(width, noisy, replacements="", direct_moves=False):
    with mock.patch.dict(kernel_source._texts, clear=True):
        moves = plain_moves if direct_moves else kernel_source._through_stack
        with mock.patch.object(kernel_source, "_through_stack", moves):
            return kernel_source.kernel_text(qs.Adam, width, noisy) + replacements


VARIANTS = {  # name: replacements of functions, whether rows are written without the stack, kinds of noise
    "row product: loops": (PRODUCT, False, [""]),
    "row product: BLAS (np.dot)": (BLAS, False, [""]),
    "lane sums: loops": (SUMS, False, [""]),
    "row moves: direct": ("", True, [""]),
    "check of lanes: loop": (CHECK, False, [""]),
    "all of these with loops": (PRODUCT + SUMS + CHECK, True, [""]),
    "Philox: np.random": (RANDOM, False, ["gaussian noise", "minibatch"]),
}


def packed(problem, lanes, kernel, noise, row_major):
    """The arrays of the first batch of these lanes."""
    options = {"seeded": True, "threads": 1, "progress": print, "cancelled": Event()}  # which arrays do not use
    job = Job(problem, 10**12, 0.0, "coarse", noise, Schedule(), **options)
    runs = [Lane(qs.Adam(lr=1e-5 * (k + 1)), problem.initial_error(k), k) for k in range(lanes)]
    arrays = LaneArrays(job, cut(runs)[0], kernel)
    if row_major:
        arrays.h = np.concatenate([block.ravel() for block in problem.blocks])
    return arrays


def seconds(arrays, steps):
    started = time.process_time()
    arrays.advance(arrays.t + steps)
    return time.process_time() - started


def same_bits(problem, kernels, noise, row_major):
    """Whether lane 0 ends with the same numbers in the kernels for 1 and 32 lanes."""
    ends = []
    for width, kernel in kernels.items():
        arrays = packed(problem, width, kernel, noise, row_major)
        arrays.advance(100)
        ends.append(arrays.e[::width].copy())
    return np.array_equal(*ends)


def main():
    rows = []
    for name, (replacements, direct_moves, noises) in VARIANTS.items():
        for noise in noises:
            noisy, row_major = NOISES[noise].any, "def block_product" in replacements
            kernels = {width: compiler._kernel(text(width, noisy)) for width in (1, 32)}
            variants = {width: compiler._kernel(text(width, noisy, replacements, direct_moves)) for width in (1, 32)}
            for blocks, size in SIZES:
                problem = qs.BlockQuadratic.from_spectra([np.geomspace(1, 100, size)] * blocks, seed=0)
                same = same_bits(problem, variants, NOISES[noise], row_major)
                for lanes in LANES:
                    width = 1 if lanes == 1 else 32
                    arrays = packed(problem, lanes, kernels[width], NOISES[noise], False)
                    others = packed(problem, lanes, variants[width], NOISES[noise], row_major)
                    steps = max(20, int(SECONDS * 100 / seconds(arrays, 100)))
                    rounds = [(seconds(arrays, steps), seconds(others, steps)) for _ in range(ROUNDS)]
                    kernel_ns, variant_ns = (min(times) / steps * 1e9 for times in zip(*rounds, strict=True))
                    row = {"variant": name, "noise": noise, "blocks": blocks, "block_size": size, "lanes": lanes}
                    row |= {"kernel_ns": round(kernel_ns, 1), "variant_ns": round(variant_ns, 1)}
                    rows.append({**row, "ratio": round(variant_ns / kernel_ns, 3), "same_bits": same})
                    print(*rows[-1].values(), sep="  ", flush=True)
    _artifacts.write_text(Path("figures/kernel-variants.csv"), pd.DataFrame(rows).to_csv(index=False))


if __name__ == "__main__":
    main()
