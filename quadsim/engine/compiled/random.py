"""Template 3 of 5 of a kernel: counter-based random numbers.

A run's random numbers depend on its key (drawn from its seed), the step and their use; not on the optimizer, on other
lanes or on threads. They are those of numpy's Philox generator; `quadsim.problems.noise` computes the same numbers in
numpy.
"""

import math

import numpy as np
from numba import njit

from quadsim.engine.compiled.kernel_parameters import JIT, RUNNING, WIDTH
from quadsim.engine.compiled.simd import multiply_high

BATCH, GRADIENT, LABELS, RULE = range(4)  # uses of a stream: the third word of its counter


@njit(**JIT)
def philox(key, index, step, use):
    """Four random words of Philox 4x64-10 (Salmon et al. 2011): number `index` in the stream of this step and use.

    numpy's `Philox(key=key, counter=[0, step, use, 0])` gives the same words in the same order.
    """
    c0, c1, c2, c3 = np.uint64(index + 1), np.uint64(step), np.uint64(use), np.uint64(0)
    k0, k1 = key[0], key[1]
    for _ in range(10):
        high0, low0 = multiply_high(np.uint64(0xD2E7470EE14C6C93), c0), np.uint64(0xD2E7470EE14C6C93) * c0
        high1, low1 = multiply_high(np.uint64(0xCA5A826395121157), c2), np.uint64(0xCA5A826395121157) * c2
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 += np.uint64(0x9E3779B97F4A7C15)
        k1 += np.uint64(0xBB67AE8584CAA73B)
    return c0, c1, c2, c3


@njit(**JIT)
def uniform(word):
    """A uniform number in [0, 1), from the upper 53 bits of a random word."""
    return np.float64(word >> np.uint64(11)) * 2.0**-53


# Coefficients of the numerator and the denominator of AS 241, highest power first: |q| <= 0.425, r <= 5, r > 5.
CENTRE = (
    (2.5090809287301226727e3, 5.2264952788528545610e3),
    (3.3430575583588128105e4, 2.8729085735721942674e4),
    (6.7265770927008700853e4, 3.9307895800092710610e4),
    (4.5921953931549871457e4, 2.1213794301586595867e4),
    (1.3731693765509461125e4, 5.3941960214247511077e3),
    (1.9715909503065514427e3, 6.8718700749205790830e2),
    (1.3314166789178437745e2, 4.2313330701600911252e1),
    (3.3871328727963666080e0, 1.0),
)
TAIL = (
    (7.74545014278341407640e-4, 1.05075007164441684324e-9),
    (2.27238449892691845833e-2, 5.47593808499534494600e-4),
    (2.41780725177450611770e-1, 1.51986665636164571966e-2),
    (1.27045825245236838258e0, 1.48103976427480074590e-1),
    (3.64784832476320460504e0, 6.89767334985100004550e-1),
    (5.76949722146069140550e0, 1.67638483018380384940e0),
    (4.63033784615654529590e0, 2.05319162663775882187e0),
    (1.42343711074968357734e0, 1.0),
)
FAR_TAIL = (
    (2.01033439929228813265e-7, 2.04426310338993978564e-15),
    (2.71155556874348757815e-5, 1.42151175831644588870e-7),
    (1.24266094738807843860e-3, 1.84631831751005468180e-5),
    (2.65321895265761230930e-2, 7.86869131145613259100e-4),
    (2.96560571828504891230e-1, 1.48753612908506148525e-2),
    (1.78482653991729133580e0, 1.36929880922735805310e-1),
    (5.46378491116411436990e0, 5.99832206555887937690e-1),
    (6.65790464350110377720e0, 1.0),
)


@njit(**JIT)
def horner(coefficients, r):
    """The values of two polynomials at r."""
    top, bottom = coefficients[0]
    for a, b in coefficients[1:]:
        top = top * r + a
        bottom = bottom * r + b
    return top, bottom


@njit(**JIT)
def gaussian(word):
    """A standard normal number by inversion of a uniform one: Wichura's AS 241 (1988)."""
    q = (np.float64(word >> np.uint64(12)) + 0.5) * 2.0**-52 - 0.5  # exact, and never ±½
    if abs(q) <= 0.425:
        top, bottom = horner(CENTRE, 0.180625 - q * q)
        return q * top / bottom
    r = math.sqrt(-math.log(0.5 - abs(q)))
    top, bottom = horner(TAIL, r - 1.6) if r <= 5.0 else horner(FAR_TAIL, r - 5.0)
    return math.copysign(top / bottom, q)


@njit(**JIT)
def sample_rows(weights, k, batch_size, key, step):
    """Give the rows of lane k's minibatch the weight n/batch_size and the others 0; sampled by Floyd's algorithm."""
    n = weights.size // WIDTH
    draws = min(batch_size, n - batch_size)  # draw the rows of the minibatch or the others, whichever are fewer
    drawn, other = (n / batch_size, 0.0) if draws == batch_size else (0.0, n / batch_size)
    for row in range(n):
        weights[row * WIDTH + k] = other
    for draw in range(draws):
        if draw % 4 == 0:
            words = philox(key, draw // 4, step, BATCH)
        last = n - draws + draw
        row = np.int64(multiply_high(words[draw % 4], np.uint64(last + 1)))  # uniform on 0 … last
        if weights[row * WIDTH + k] == drawn:
            row = last
        weights[row * WIDTH + k] = drawn


@njit(**JIT)
def add_gaussian(values, k, scale, key, step, use):
    """Add scale times a standard normal vector to lane k."""
    for i in range(values.size // WIDTH):
        if i % 4 == 0:
            words = philox(key, i // 4, step, use)
        values[i * WIDTH + k] += scale * gaussian(words[i % 4])


@njit(**JIT)
def fill_uniform(random, offsets, keys, step, status):
    """A uniform number for each coordinate: the one at its offset in the rule's stream."""
    for k in range(WIDTH):
        if status[k] != RUNNING:
            continue
        block = -1
        for i in range(k, random.size, WIDTH):
            if offsets[i] // 4 != block:
                block = offsets[i] // 4
                words = philox(keys[k], block, step, RULE)
            random[i] = uniform(words[offsets[i] % 4])
