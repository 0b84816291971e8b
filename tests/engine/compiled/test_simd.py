"""The templates as plain modules: products and sums are bit-identical to exact fused multiply-adds."""

from fractions import Fraction

import numpy as np
import pytest
from numba import njit
from numpy.testing import assert_array_equal

from quadsim.engine.compiled import kernel_template, simd
from quadsim.engine.compiled.kernel_parameters import RUNNING, WIDTH


def fma(a, b, c):
    """a * b + c, rounded once."""
    return float(Fraction(a) * Fraction(b) + Fraction(c))


def dot(left, right):
    total = 0.0
    for a, b in zip(left.tolist(), right.tolist(), strict=True):
        total = fma(a, b, total)
    return total


def values(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@njit
def product(a, sizes, e, g):
    simd.block_product(a, sizes, e, g)


@njit
def sums(e, g, eg, gg):
    simd.lane_sums(e, g, e.size // WIDTH, eg, gg)


@njit
def needs_check(eg, gg, min_gg, max_eg, status):
    return simd.any_lane_needs_check(eg, gg, min_gg, max_eg, status)


def test_a_product_adds_the_columns_in_order_with_one_rounding_each():
    """Blocks of 1 to 14 rows: all combinations of rows per call."""
    sizes = np.arange(1, 15)
    blocks, e, g = [values(n, n) for n in sizes], values(sizes.sum(), WIDTH), np.zeros((sizes.sum(), WIDTH))
    product(np.concatenate([block.ravel() for block in blocks]), sizes, e.ravel(), g.ravel())
    parts = zip(blocks, np.split(e, np.cumsum(sizes)[:-1]), strict=True)
    assert_array_equal(g, [[dot(row, part[:, k]) for k in range(WIDTH)] for block, part in parts for row in block])


@pytest.mark.parametrize("dim", [1, 2, 7, 8])
def test_sums_add_even_and_odd_coordinates_separately(dim):
    e, g, eg, gg = values(dim, WIDTH), values(WIDTH, dim).T.copy(), np.zeros(WIDTH), np.zeros(WIDTH)
    sums(e.ravel(), g.ravel(), eg, gg)
    assert_array_equal(eg, [dot(e[::2, k], g[::2, k]) + dot(e[1::2, k], g[1::2, k]) for k in range(WIDTH)])
    assert_array_equal(gg, [dot(g[::2, k], g[::2, k]) + dot(g[1::2, k], g[1::2, k]) for k in range(WIDTH)])


@pytest.mark.parametrize(
    ("eg", "gg", "expected"),
    [(1, 1, False), (1, 0.5, True), (9, 1, True), (np.nan, 1, True), (1, np.nan, True), (1, np.inf, True)],
)
def test_only_running_lanes_can_need_a_check(eg, gg, expected):
    for lane in range(WIDTH):
        numbers = [np.ones(WIDTH), np.ones(WIDTH), np.full(WIDTH, 0.5), np.full(WIDTH, 9.0)]
        numbers[0][lane], numbers[1][lane] = eg, gg
        status = np.full(WIDTH, RUNNING)
        assert needs_check(*numbers, status) == expected
        status[lane] = RUNNING + 1
        assert not needs_check(*numbers, status)


def test_the_step_loop_can_be_imported():
    """The template's `update` is gradient descent."""
    e, g, settings = values(6, WIDTH).ravel(), values(WIDTH, 6).ravel(), np.full((1, 1, WIDTH), 0.5)
    unused = np.zeros((0, 0))
    expected = e - 0.5 * 2.0 * g
    kernel_template.update(e, g, g, g, unused, settings, unused, np.array([6]), 2.0, 1.0, np.zeros(WIDTH), unused, 0)
    assert_array_equal(e, expected)
