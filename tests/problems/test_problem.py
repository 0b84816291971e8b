"""The problem: matrices, bases, the gap, and refused input."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim._random import stream
from quadsim.problems.bases import _basis, haar_basis, partial_rotation
from quadsim.problems.linear_algebra import SMALL_BLOCK

SPECTRA = [[5.0], [1.0, 20.0], [3.0, 4.0, 7.0, 50.0, 100.0]]
MINIMIZER = np.linspace(-1, 2, 8)


@pytest.fixture
def problem():
    return qs.BlockQuadratic.from_spectra(SPECTRA, seed=3, minimizer=MINIMIZER)


def test_constants(problem):
    assert problem.dim == 8
    assert problem.sizes == (1, 2, 5)
    assert problem.mu == 1
    assert problem.lipschitz == 100
    assert problem.kappa == 100
    assert problem.block_kappas == (1.0, 20.0, 100 / 3)


def test_the_hessian_has_the_given_eigenvalues_block_by_block(problem):
    for block, values in zip(problem.blocks, SPECTRA, strict=True):
        assert_array_equal(block, block.T)
        assert_allclose(np.linalg.eigvalsh(block), values, rtol=1e-12)
    dense = problem.hessian()
    assert_array_equal(dense[1:3, 1:3], problem.blocks[1])
    assert np.count_nonzero(dense[:1, 1:]) == np.count_nonzero(dense[1:3, 3:]) == 0


def test_loss_and_gradient_against_the_dense_hessian(problem):
    w = np.random.default_rng(0).normal(size=8)
    e = w - MINIMIZER
    assert_allclose(problem.loss(w), 0.5 * e @ problem.hessian() @ e, rtol=1e-14)
    assert_allclose(problem.grad(w), problem.hessian() @ e, rtol=1e-13)
    assert problem.loss(MINIMIZER) == 0
    assert not problem.grad(MINIMIZER).any()


def test_the_gap_does_not_cancel_near_the_minimizer():
    """A difference of two losses would be lost in rounding: close to a minimizer of size 1000 it is noise."""
    problem = qs.case(3, minimizer=np.full(9, 1000.0))
    w = problem.minimizer + 2.0**-36  # exact in float64 beside 1000
    expected = 0.5 * 2.0**-72 * problem.hessian().sum()
    assert_allclose(problem.loss(w), expected, rtol=1e-12)
    naive = [0.5 * x @ problem.hessian() @ x - problem.grad(np.zeros(9)) @ -x for x in (w, problem.minimizer)]
    assert abs((naive[0] - naive[1]) / expected - 1) > 1e-3  # the control: the difference is off


def test_h_means_the_linear_term():
    h = np.arange(1.0, 9.0)
    problem = qs.BlockQuadratic.from_spectra(SPECTRA, h=h)
    assert_allclose(problem.hessian() @ problem.minimizer, h, rtol=1e-12)


def test_a_problem_is_frozen(problem):
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.minimizer = np.zeros(8)
    for array in (problem.minimizer, problem.blocks[2], problem.eigenvalues[1]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_the_seed_fixes_the_bases():
    one, same, other = (qs.case(4, seed=seed).hessian() for seed in (1, 1, 2))
    assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1


@pytest.mark.parametrize("n", [3, 40], ids=["kept", "not kept"])
@pytest.mark.parametrize("rotation", [0.5, 1])
def test_a_cached_basis_equals_a_new_one_and_is_read_only(n, rotation):
    """A cached basis is the one that would be drawn, and it is read-only."""
    values = np.linspace(1, 2, n)
    for _ in range(2):
        q = partial_rotation(haar_basis(n, stream(5, "basis", 0)), rotation)
        block = (q * values) @ q.T
        problem = qs.BlockQuadratic.from_spectra([values], seed=5, rotation=rotation)
        assert_array_equal(problem.blocks[0], (block + block.T) / 2)
        if n <= SMALL_BLOCK:
            with pytest.raises(ValueError, match="read-only"):
                _basis(n, 5, 0, rotation)[0] = 1


def test_a_start_is_a_copy(problem):
    start = problem.initial_error(4)
    start[:] = 0
    assert_array_equal(problem.initial_error(4), stream(4, "start").standard_normal(8))
    assert_array_equal(problem.start(4), problem.minimizer + problem.initial_error(4))


@pytest.mark.parametrize("seed", [True, 1.0, "1", [1]], ids=repr)
def test_a_seed_is_checked_even_if_its_draw_is_cached(problem, seed, check_refused):
    qs.BlockQuadratic.from_spectra(SPECTRA, seed=1)
    problem.start(1)
    check_refused(lambda: qs.BlockQuadratic.from_spectra(SPECTRA, seed=seed), "seed must be a whole number")
    check_refused(lambda: problem.start(seed), "seed must be a whole number")


@pytest.mark.parametrize("spectra", [[[1, 2, 3], [4, 5, 60]], SPECTRA], ids=["one size", "sizes"])
@pytest.mark.parametrize("rotation", [0, 1])
def test_eigenvectors_of_each_block(spectra, rotation):
    """Bit-identical whether or not LAPACK gets all blocks in one call; None stands for the unit vectors."""
    problem = qs.BlockQuadratic.from_spectra(spectra, seed=1, rotation=rotation)
    size = np.linspace(1, 2, problem.dim)
    for block, found in zip(problem.blocks, problem.eigenvectors, strict=True):
        expected = np.linalg.eigh(block)[1]
        assert_array_equal(np.eye(len(block)) if found is None else found, expected)
    for block, part, (values, vectors) in zip(
        problem.blocks, problem.split(size), problem.scaled_eigen(size), strict=True
    ):
        scaled = block / np.sqrt(np.outer(part, part))
        assert_allclose(scaled @ vectors, vectors * values, atol=1e-13 * values.max())


def test_a_block_without_a_cholesky_factor_does_not_affect_the_others():
    """A barely positive definite block falls back to `eigh`, and only this one."""
    good, bad = np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[1.0, 2.0], [2.0, 1.0]])
    problem = qs.BlockQuadratic((good, bad), (np.array([1.0, 3.0]), np.array([1.0, 3.0])), np.zeros(4))
    (values, _), (others, _) = problem.scaled_eigen(np.ones(4))
    assert_allclose(np.sort(values), [1, 3], rtol=1e-14)
    assert_allclose(others, [-1, 3], rtol=1e-14)


def test_each_block_draws_its_basis_from_its_own_stream():
    """Adding a block changes no other block."""
    two = qs.BlockQuadratic.from_spectra(SPECTRA[1:], seed=3)
    three = qs.BlockQuadratic.from_spectra([*SPECTRA[1:], [1.0, 2.0]], seed=3)
    assert_array_equal(two.blocks[1], three.blocks[1])


@given(st.integers(1, 12), st.integers(0, 50), st.floats(0, 1))
def test_every_basis_is_orthogonal_to_rounding(n, seed, fraction):
    q = partial_rotation(haar_basis(n, stream(seed, "basis", 0)), fraction)
    assert_allclose(q.T @ q, np.eye(n), atol=1e-14 * n)
    assert np.linalg.det(q) > 0


@pytest.mark.parametrize("n", [2, 3, 4, 7])
@pytest.mark.parametrize("seed", range(5))
def test_the_rotation_is_a_geodesic(n, seed):
    """From the identity to the basis at constant speed: Q(1/3)³ = Q(1), and no jump at either end."""
    q = haar_basis(n, stream(seed, "basis", 0))
    third = partial_rotation(q, 1 / 3)
    assert_allclose(third @ third @ third, q, atol=1e-13)
    assert_allclose(partial_rotation(q, 1e-9), np.eye(n), atol=1e-8)
    assert_allclose(partial_rotation(q, 1 - 1e-9), q, atol=1e-8)
    assert_array_equal(partial_rotation(q, 0), np.eye(n))
    assert_array_equal(partial_rotation(q, 1), q)


@pytest.mark.parametrize("n", [2, 4])
def test_half_turns_come_in_pairs(n):
    """An eigenvalue -1 has no real logarithm; a pair of them is a rotation by pi."""
    half = partial_rotation(-np.eye(n), 0.5)
    assert_allclose(half @ half, -np.eye(n), atol=1e-15)
    assert_allclose(half.T @ half, np.eye(n), atol=1e-15)


def test_haar_bases_have_haar_moments():
    """E q_ij = 0, E q_11² = 1/n, E q_11⁴ = 3/(n(n+2)) on the sphere; 4,000 draws, bounds at five standard errors."""
    n, draws = 3, 4000
    corner = np.array([haar_basis(n, stream(seed, "basis", 0)) for seed in range(draws)])[:, :, 0]
    for power, expected in ((1, 0), (2, 1 / n), (4, 3 / (n * (n + 2)))):
        sample = corner**power
        assert (np.abs(sample.mean(axis=0) - expected) < 5 * sample.std(axis=0) / draws**0.5).all()
    unfixed = np.array([np.linalg.qr(stream(s, "basis", 0).standard_normal((n, n)))[0][0, 0] for s in range(200)])
    assert abs(unfixed.mean()) > 0.2  # the control: QR as LAPACK leaves it has one sign only, and is not Haar


def test_rotation_0_is_diagonal_and_1_is_the_default():
    assert_array_equal(
        qs.case(3, rotation=0).hessian(), np.diag(np.concatenate([[1, 2, 3], [99, 100, 101], [4998, 4999, 5000]]))
    )
    assert_array_equal(qs.case(3, rotation=1.0).hessian(), qs.case(3).hessian())


def test_a_basis_of_the_whole_space_makes_one_block():
    problem = qs.case(3, span="whole")
    assert problem.sizes == (9,)
    assert problem.kappa == 5000
    assert_allclose(np.linalg.eigvalsh(problem.hessian()), np.concatenate(qs.case_spectra(3)), rtol=1e-11)


def test_from_blocks_finds_the_eigenvalues():
    given = qs.BlockQuadratic.from_spectra(SPECTRA, seed=1)
    found = qs.BlockQuadratic.from_blocks(given.blocks, minimizer=MINIMIZER)
    assert_array_equal(found.hessian(), given.hessian())
    for values, expected in zip(found.eigenvalues, SPECTRA, strict=True):
        assert_allclose(values, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda b: b.from_blocks([[[1, 2], [0, 1]]]), "block 0 must be symmetric, got entries that differ by 2"),
        (
            lambda b: b.from_blocks([np.eye(2), [[1, 2], [2, 1]]]),
            "block 1 must be positive definite, got the eigenvalue -1",
        ),
        (lambda b: b.from_blocks([[[1, 1], [1, 1]]]), "block 0"),
        (lambda b: b.from_blocks([[[1, 2, 3]]]), "block 0 must be a square matrix, got shape (1, 3)"),
        (lambda b: b.from_blocks([[[float("nan")]]]), "block 0 must be finite, got nan"),
        (lambda b: b.from_blocks([[["1"]]]), "block 0 must be a square matrix of numbers, got [['1']]"),
        (lambda b: b.from_blocks([[[1j]]]), "block 0 must be a square matrix of numbers, got"),
        (lambda b: b.from_blocks([[[1e200]]]), "block 0 must have entries of at most 1e+60, got 1e+200"),
        (lambda b: b.from_spectra([[1e-10]], h=[1e308]), "h is too large: the minimizer H^-1 h would hold inf"),
        (lambda b: b.from_spectra([np.arange(1, 3000)]), "block 0 must have at most 2048 eigenvalues, got 2999"),
        (lambda b: b.from_spectra([np.ones(2000)] * 20), "at most 32768 eigenvalues, got 40000"),
        (lambda b: b.from_blocks([]), "blocks must be a list of square matrices"),
        (lambda b: b.from_blocks("eye"), "blocks must be a list of square matrices, got 'eye'"),
        (
            lambda b: b.from_spectra([[1, 2]], rotation=2),
            "rotation must be a finite number at least 0 and at most 1, got 2",
        ),
        (lambda b: b.from_spectra([[1, 2]], span="hole"), "did you mean whole?"),
        (
            lambda b: b.from_spectra([[1, 2]], seed=-1),
            "seed must be a whole number from 0 to 9223372036854775807, got -1",
        ),
        (lambda b: b.from_spectra([[1, 2]], seed=0.5), "seed must be a whole number"),
        (lambda b: b.from_spectra([[1, 2]], minimizer=[1, 2, 3]), "minimizer must have shape (2,), got shape (3,)"),
        (lambda b: b.from_spectra([[1, 2]], minimizer=[1, np.inf]), "minimizer must be finite, got inf"),
        (lambda b: b.from_spectra([[1, 2]], minimizer=[0, 0], h=[0, 0]), "give minimizer or h, not both"),
        (lambda b: b.from_spectra([[1e-9, 1e9]]), "block 0 has condition number 1e+18"),
        (lambda b: b.from_spectra([[1, 2]]).loss([1]), "w must have shape (2,), got shape (1,)"),
        (lambda b: b.from_spectra([[1, 2]]).grad("ab"), "w must be 2 numbers, got 'ab'"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(lambda: call(qs.BlockQuadratic), sentence)


def test_a_value_of_the_wrong_kind_is_a_type_error_too():
    with pytest.raises(TypeError, match="rotation must be a finite number"):
        qs.case(3, rotation="much")


def test_a_basis_may_be_diagonal_or_given():
    spectra = [[1, 2, 3], [4, 5]]
    diagonal = qs.BlockQuadratic.from_spectra(spectra, basis="diagonal")
    for block, values in zip(diagonal.blocks, spectra, strict=True):
        np.testing.assert_array_equal(block, np.diag(values))
    drawn = qs.BlockQuadratic.from_spectra(spectra, seed=3)
    vectors = [haar_basis(n, stream(3, "basis", number)) for number, n in enumerate((3, 2))]
    given = qs.BlockQuadratic.from_spectra(spectra, basis=vectors)
    for one, other in zip(drawn.blocks, given.blocks, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ({"basis": "fast"}, "unknown basis 'fast': allowed are haar, diagonal"),
        ({"basis": "diagonal", "rotation": 0.5}, "rotation=0.5 requires basis=haar"),
        ({"basis": [np.eye(2)], "rotation": 0.5}, "rotation=0.5 requires basis=haar"),
        ({"basis": [np.eye(2), np.eye(2)]}, "a list of 1 orthogonal matrices"),
        ({"basis": [np.eye(3)]}, r"must have shape \(2, 2\), got \(3, 3\)"),
        ({"basis": [2 * np.eye(2)]}, "must be orthogonal"),
        ({"basis": [np.full((2, 2), np.nan)]}, "must be orthogonal"),
        ({"basis": 3}, "a list of 1 orthogonal matrices"),
    ],
)
def test_a_wrong_basis_is_refused(how, sentence):
    with pytest.raises(ValueError, match=sentence):
        qs.BlockQuadratic.from_spectra([[1, 2]], **how)
