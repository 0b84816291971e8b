"""Constants of a problem and its start, against dense definitions and the bounds between them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim.theory import constants

ROUNDING = 1 + 1e-9
PROBLEM = qs.BlockQuadratic.from_spectra([[1, 2, 3], [10, 40], [7.0]], seed=2, minimizer=np.arange(6.0))
W0 = PROBLEM.minimizer + PROBLEM.start(4)


@st.composite
def problems(draw):
    """A block problem of random spectra and bases, and a start."""
    seed = draw(st.integers(0, 10**6))
    rng = np.random.default_rng(seed)
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    spread = draw(st.floats(0, 4))
    spectra = [np.exp(rng.uniform(-spread, spread, n)) for n in sizes]
    problem = qs.BlockQuadratic.from_spectra(spectra, seed=seed)
    return problem, rng.standard_normal(problem.dim)


def dense(problem, w0):
    """H, |g0|, and κ_eff by its definition."""
    h = problem.hessian()
    g = np.abs(h @ (w0 - problem.minimizer))
    return h, g, np.linalg.cond(h / np.sqrt(np.outer(g, g)))


def test_the_bounds_written_out():
    h, g, _ = dense(PROBLEM, W0)
    a = np.diag(h) / g
    jacobi = [np.linalg.eigvalsh(b / np.sqrt(np.outer(np.diag(b), np.diag(b)))) for b in PROBLEM.blocks]
    parts = [a[:3], a[3:5], a[5:]]
    top = max(part.max() * values[-1] for part, values in zip(parts, jacobi, strict=True))
    bottom = min(part.min() * values[0] for part, values in zip(parts, jacobi, strict=True))
    assert_allclose(constants.scaling_bounds(PROBLEM, W0), (a.max() / a.min(), top / bottom))
    assert_allclose(constants.jacobi_kappas(PROBLEM), [values[-1] / values[0] for values in jacobi])
    ends = [(part.min() / lam, part.max() / lam) for part, lam in zip((g[:3], g[3:5], g[5:]), (3, 40, 7), strict=True)]
    sharper = max(k * c2 for k, (_, c2) in zip((3, 4, 1), ends, strict=True)) / min(c1 for c1, _ in ends)
    assert_allclose(constants.block_scaling_bound(PROBLEM, W0), (sharper, np.sqrt(constants.r(PROBLEM, W0)) * 4))
    assert_allclose(constants.norm_11(PROBLEM), np.abs(h).sum())


@given(problems())
def test_kappa_eff_lies_between_its_bounds(drawn):
    """Ledger 2d and 2e, each with its chain of looser ones."""
    problem, w0 = drawn
    _, _, kappa_eff = dense(problem, w0)
    lower, upper = constants.scaling_bounds(problem, w0)
    sharper, looser = constants.block_scaling_bound(problem, w0)
    assert lower <= kappa_eff * ROUNDING
    assert kappa_eff <= upper * ROUNDING
    assert kappa_eff <= sharper * ROUNDING
    assert sharper <= looser * ROUNDING
    assert_allclose(looser, np.sqrt(constants.r(problem, w0)) * max(problem.block_kappas))


def test_half_a_bound_would_be_caught():
    """The control: on a diagonal Hessian both sides of 2e are attained, and 2d by the tight example."""
    problem, w0 = qs.BlockQuadratic.from_spectra([[1, 5], [2, 9]], rotation=0), np.array([1.0, -2, 0.5, 3])
    assert_allclose(constants.scaling_bounds(problem, w0), [6, 6])
    tight = qs.BlockQuadratic.from_blocks([np.diag([1.0, 50.0])])
    w0 = np.array([7.0, 2 / 50])  # |g0| = (7, 2)
    assert_allclose(constants.block_scaling_bound(tight, w0), [50 * 7 / 2] * 2)
    assert_allclose(constants.kappa_eff(tight, w0), 50 * 7 / 2)


@given(problems())
def test_cosines_are_at_least_their_bound(drawn):
    problem, _ = drawn
    h = problem.hessian()
    cosines, lower = constants.cosines(problem)
    assert_allclose(cosines, np.diag(h) / np.linalg.norm(h, axis=0))
    assert (lower <= cosines * ROUNDING).all()
    assert (cosines <= ROUNDING).all()


def test_the_bound_on_cosines_is_attained():
    kappa = 30.0
    u = np.array([np.sqrt(kappa), 1]) / np.sqrt(kappa + 1)  # e_1 in the eigenbasis of 1 and κ
    q = np.array([u, [-u[1], u[0]]])
    cosines, lower = constants.cosines(qs.BlockQuadratic.from_blocks([(q * [1, kappa]) @ q.T]))
    assert_allclose(cosines[0], lower[0])
    assert cosines[1] > 1.5 * lower[1]


def test_gradients_of_a_gaussian_start_have_the_law_of_the_cosines():
    """Ledger 2f: H_ii/|g0_i| is cos_i/|N_i|, so its median is cos_i/0.6745."""
    rng = np.random.default_rng(0)
    h = PROBLEM.hessian()
    a = np.diag(h) / np.abs(rng.standard_normal((20_000, 6)) @ h)
    assert_allclose(np.median(a, axis=0), constants.cosines(PROBLEM)[0] / 0.674490, rtol=0.03)


def test_unit_diagonal_scaling_may_be_worse_than_none():
    """Ledger 2e: κ(J_l) ≤ κ_l is not always true."""
    draws = [qs.BlockQuadratic.from_spectra([[1, 10, 100]], seed=seed) for seed in range(300)]
    worse = [draw for draw in draws if constants.jacobi_kappas(draw)[0] > draw.kappa * 1.001]
    assert worse


@pytest.mark.parametrize(
    ("block", "sentence"),
    [
        (np.ones((2, 3)), "the block must be a square matrix, got shape (2, 3)"),
        ([1.0, 2.0], "the block must be a square matrix, got shape (2,)"),
        ([[1.0, 2.0], [0.0, 1.0]], "the block must be symmetric, got entries that differ by 2"),
        ([[1.0, 2.0], [2.0, 1.0]], "the block must be positive semidefinite, got the eigenvalue -1"),
        ([[np.nan]], "the block must be finite, got nan in it"),
        ("H", "the block must be a square matrix of numbers, got 'H'"),
    ],
)
def test_bad_blocks_are_refused(block, sentence, check_refused):
    check_refused(lambda: constants.checked_block(block), sentence)


def test_bad_starts_are_refused(check_refused):
    check_refused(lambda: constants.scaling_bounds(PROBLEM, PROBLEM.minimizer), "the first gradient is 0")
    check_refused(lambda: constants.block_scaling_bound(PROBLEM, None), "give w0")
    check_refused(lambda: constants.checked_block(np.eye(3), size=2), "the block must be 2 x 2, got 3 x 3")
