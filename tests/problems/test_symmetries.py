"""Invariances (ledger 6): transformations that do, and that do not, change an optimizer's path."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim._random import stream
from quadsim.problems.bases import haar_basis

STEPS = 60
ADAMS = [
    qs.Adam(lr=0.005, eps=0.0),
    qs.Adam(lr=0.005, eps=0.0, beta1=0.0, beta2=0.9),
    qs.FrozenAdam(lr=0.1),
    qs.FrozenAdam(lr=0.1, beta1=0.5),
]
SEEDS = range(5)


def path(blocks, error, optimizer, steps=STEPS):
    """The error after some steps."""
    problem = qs.BlockQuadratic.from_blocks(blocks)
    return qs.solve(problem, optimizer, w0=error, tol=0, max_steps=steps, engine="compiled").w


def draw(seed, n=4):
    problem = qs.BlockQuadratic.from_spectra([np.geomspace(1, 50, n), np.geomspace(20, 400, n)], seed=seed)
    return problem.blocks, problem.start(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_gd_commutes_with_rotations(seed):
    blocks, e = draw(seed)
    q = [haar_basis(4, stream(seed, "turn", b)) for b in range(2)]
    turned = [t @ block @ t.T for t, block in zip(q, blocks, strict=True)]
    for optimizer in (qs.GD(lr=1e-3), qs.BlockGD(lr=1e-3)):
        straight = path(blocks, e, optimizer)
        rotated_path = path(turned, np.concatenate([q[0] @ e[:4], q[1] @ e[4:]]), optimizer)
        back = np.concatenate([q[0].T @ rotated_path[:4], q[1].T @ rotated_path[4:]])
        assert_allclose(back, straight, atol=1e-13)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimizer", ADAMS, ids=repr)
def test_adam_does_not_commute_with_rotations(seed, optimizer):
    blocks, e = draw(seed)
    q = haar_basis(4, stream(seed, "turn", 0))
    rotated_path = path([q @ blocks[0] @ q.T, blocks[1]], np.concatenate([q @ e[:4], e[4:]]), optimizer)
    back = np.concatenate([q.T @ rotated_path[:4], rotated_path[4:]])
    assert np.linalg.norm(back - path(blocks, e, optimizer)) > 0.01


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimizer", [*ADAMS, qs.GD(lr=1e-3)], ids=repr)
def test_permutations_inside_a_block(seed, optimizer):
    blocks, e = draw(seed)
    order = stream(seed, "order").permutation(4)
    moved = path([blocks[0][np.ix_(order, order)], blocks[1]], np.concatenate([e[:4][order], e[4:]]), optimizer)
    straight = path(blocks, e, optimizer)
    # another order of summation: rounding, magnified by Adam's normalisation
    assert_allclose(moved, np.concatenate([straight[:4][order], straight[4:]]), atol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimizer", [*ADAMS, qs.GD(lr=1e-3)], ids=repr)
def test_sign_flips_are_exact_to_the_bit(seed, optimizer):
    blocks, e = draw(seed)
    sign = np.where(stream(seed, "sign").uniform(size=8) < 0.5, -1.0, 1.0)
    flipped = [blocks[0] * np.outer(sign[:4], sign[:4]), blocks[1] * np.outer(sign[4:], sign[4:])]
    assert_array_equal(path(flipped, sign * e, optimizer), sign * path(blocks, e, optimizer))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimizer", ADAMS, ids=repr)
def test_adam_does_not_see_the_scale_of_a_block(seed, optimizer):
    """Powers of two leave every bit in place; GD, the control, changes a lot."""
    blocks, e = draw(seed)
    scaled = [blocks[0] * 2.0**-7, blocks[1] * 2.0**5]
    assert_array_equal(path(scaled, e, optimizer), path(blocks, e, optimizer))
    assert_allclose(path([blocks[0] * 0.3, blocks[1] * 7.7], e, optimizer), path(blocks, e, optimizer), atol=1e-10)
    assert np.abs(path(scaled, e, qs.GD(lr=1e-4)) - path(blocks, e, qs.GD(lr=1e-4))).max() > 0.1


@pytest.mark.parametrize("seed", SEEDS)
def test_adam_scales_with_start_and_lr_together(seed):
    """So every floor is proportional to lr²."""
    blocks, e = draw(seed)
    settings = {"eps": 0.0, "beta1": 0.3, "beta2": 0.9}
    small, large = qs.Adam(lr=0.01, **settings), qs.Adam(lr=0.04, **settings)
    assert_array_equal(path(blocks, 4 * e, large), 4 * path(blocks, e, small))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("optimizer", [*ADAMS, qs.GD(lr=1e-3), qs.Adam()], ids=repr)
def test_the_minimizer_is_only_a_shift(seed, optimizer):
    blocks, e = draw(seed)
    shift = np.round(stream(seed, "shift").normal(size=8) * 64)  # whole numbers: the shift is exact
    e = np.round(e * 2**20) / 2**20
    problem = qs.BlockQuadratic.from_blocks(blocks, minimizer=shift)
    moved = qs.solve(problem, optimizer, w0=e + shift, tol=0, max_steps=STEPS, engine="compiled")
    still = qs.solve(qs.BlockQuadratic.from_blocks(blocks), optimizer, w0=e, tol=0, max_steps=STEPS, engine="compiled")
    assert_array_equal(moved.loss, still.loss)
    assert_array_equal(moved.w, still.w + shift)


def test_under_gd_cases_3_and_4_have_the_same_distribution():
    """The spectrum alone decides if the start is isotropic; 300 draws of each, a two-sample Kolmogorov–Smirnov test.

    At the 1 % level the distance of two samples of 300 stays below 1.63·sqrt(2/300) = 0.133.
    """
    samples = {}
    for number in (3, 4):
        losses = [
            qs.solve(
                qs.case(number, seed=s), qs.GD(), seed=s + 1000 * number, tol=0, max_steps=300, engine="compiled"
            ).loss[-1]
            for s in range(300)
        ]
        samples[number] = np.sort(losses)
    grid = np.concatenate(list(samples.values()))
    shares = [np.searchsorted(samples[number], grid, side="right") / 300 for number in (3, 4)]
    assert np.abs(shares[0] - shares[1]).max() < 0.133


def test_frozen_adam_distinguishes_case_3_from_case_4():
    """The control for the test above."""
    ke = {n: [qs.theory.kappa_eff(qs.case(n, seed=s), qs.case(n).start(s)) for s in range(300)] for n in (3, 4)}
    assert np.median(ke[4]) > 50 * np.median(ke[3])
