"""SDP(H) and its certificate, against closed forms, brute force and a general-purpose optimizer."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import quadsim as qs
from quadsim.theory import sdp
from quadsim.theory.sdp import largest_sign_sum, sdp_value


def wishart(n, seed, extra=0):
    a = np.random.default_rng(seed).standard_normal((n, n + extra))
    return a @ a.T


def frustrated(a=0.3):
    """(1 + a)I − a 11ᵀ in three dimensions: SDP 3(1 + a) with the simplex as X, but 3 + a at most for sign vectors."""
    return (1 + a) * np.eye(3) - a


def check_certificate(h, solved, gap=1e-9):
    """X is feasible below, Λ is feasible above, and they meet."""
    (x,) = solved.x
    assert_allclose(np.diag(x), 1, rtol=1e-12)
    assert np.linalg.eigvalsh(x)[0] > -1e-12
    assert_allclose(solved.value, (h * x).sum(), rtol=1e-13)
    assert_allclose(solved.upper, solved.multipliers.sum(), rtol=1e-13)
    assert np.linalg.eigvalsh(np.diag(solved.multipliers) - h)[0] >= -1e-12 * solved.upper
    assert solved.value <= solved.upper * (1 + 1e-13)
    assert solved.gap < gap


@given(st.integers(1, 12), st.integers(0, 10**6), st.integers(-3, 3))
def test_every_value_carries_its_certificate(n, seed, extra):
    h = wishart(n, seed, max(extra, 1 - n))
    check_certificate(h, sdp_value(h))


@pytest.mark.parametrize("n", [30, 100])
def test_larger_blocks(n):
    h = wishart(n, n)
    check_certificate(h, sdp_value(h), gap=1e-11)


@pytest.mark.parametrize(
    "h",
    [
        np.diag([1.0, 2.0, 0.0]),
        np.zeros((2, 2)),
        np.ones((4, 4)),
        np.array([[2.0, -1, -1], [-1, 2, -1], [-1, -1, 2]]),
        wishart(5, 0) * np.outer(10.0 ** np.arange(5), 10.0 ** np.arange(5)),
        np.array(
            [[55.389, 15.105, 16.37], [15.105, 65.418, -158.323], [16.37, -158.323, 4939.066]]
        ),  # gap rises midway
        1e-200 * wishart(3, 0),
        1e200 * wishart(3, 0),
    ],
    ids=["diagonal", "zero", "rank one", "triangle", "scales", "uneven", "tiny", "huge"],
)
def test_degenerate_blocks(h):
    check_certificate(h, sdp_value(h))


def test_a_wrong_certificate_is_caught():
    """The control: a millionth off, on either side, does not pass."""
    h = wishart(4, 1)
    solved = sdp_value(h)
    low = sdp.SDPValue(solved.value, (1 - 1e-6) * solved.upper, solved.x, (1 - 1e-6) * solved.multipliers)
    with pytest.raises(AssertionError):
        check_certificate(h, low)
    with pytest.raises(AssertionError):
        check_certificate(h, sdp.SDPValue(np.trace(h), solved.upper, (np.eye(4),), solved.multipliers))


@pytest.mark.parametrize("seed", range(8))
def test_a_general_optimizer_finds_the_same(seed):
    """Unit vectors v_i in n dimensions, ⟨v_i, v_j⟩ = X_ij; the best of a few starts."""
    n = 3 + seed % 3
    h = wishart(n, seed)

    def negative(flat):
        v = flat.reshape(n, n)
        v = v / np.linalg.norm(v, axis=1, keepdims=True)
        return -np.sum(h * (v @ v.T))

    rng = np.random.default_rng(seed)
    found = max(-minimize(negative, rng.standard_normal(n * n), options={"gtol": 1e-9}).fun for _ in range(3))
    assert_allclose(sdp_value(h).value, found, rtol=1e-7)


def test_three_dimensions_in_closed_form():
    """With one negative product of the off-diagonal entries, and a triangle inequality, Λ − H has rank one."""
    tested = 0
    for seed in range(200):
        h = wishart(3, seed)
        a, b, c = h[1, 2], h[0, 2], h[0, 1]
        sides = sorted(1 / abs(x) for x in (a, b, c))
        if a * b * c < 0 and sides[2] < sides[0] + sides[1]:
            assert_allclose(sdp_value(h).value, np.trace(h) - b * c / a - a * c / b - a * b / c, rtol=1e-11)
            tested += 1
        else:
            assert_allclose(sdp_value(h).value, largest_sign_sum(h)[0], rtol=1e-11)
    assert tested > 10


def test_where_sign_vectors_fall_short():
    assert_allclose(sdp_value(frustrated()).value, 3.9, rtol=1e-12)
    assert_allclose(largest_sign_sum(frustrated())[0], 3.6)


@given(st.integers(1, 9), st.integers(0, 10**6))
def test_the_chain_of_bounds(n, seed):
    """Ledger 5h: tr H, max sᵀHs ≤ SDP(H) ≤ n λmax."""
    h = wishart(n, seed)
    solved, (best, _) = sdp_value(h), largest_sign_sum(h)
    assert np.trace(h) <= best * (1 + 1e-12)
    assert best <= solved.upper * (1 + 1e-12)
    assert solved.value <= n * np.linalg.eigvalsh(h)[-1] * (1 + 1e-12)


def test_a_problem_is_the_sum_of_its_blocks():
    problem = qs.BlockQuadratic.from_blocks([frustrated(), wishart(4, 3), [[5.0]]])
    solved = sdp_value(problem)
    assert_allclose(solved.value, sum(sdp_value(block).value for block in problem.blocks))
    assert solved.multipliers.shape == (8,)
    assert [x.shape for x in solved.x] == [(3, 3), (4, 4), (1, 1)]
    assert solved.gap < 1e-10


@given(st.integers(1, 10), st.integers(0, 10**6))
def test_the_largest_sign_sum_is_the_largest(n, seed):
    h = wishart(n, seed)
    value, s = largest_sign_sum(h)
    assert_allclose(value, s @ h @ s)
    assert_allclose(value, max(np.array(t) @ h @ np.array(t) for t in itertools.product((-1, 1), repeat=n)))


def test_twenty_signs_are_tried_and_no_more(check_refused):
    h = np.outer(np.arange(1.0, 21), np.arange(1.0, 21))
    value, s = largest_sign_sum(h * np.outer(np.tile([1, -1], 10), np.tile([1, -1], 10)))
    assert_allclose(value, 210**2)
    assert_allclose(np.abs(s.sum()), 0)
    check_refused(lambda: largest_sign_sum(np.eye(21)), "enumerated up to n = 20, got n = 21")


def test_bad_input_is_refused(check_refused):
    check_refused(lambda: sdp_value(np.ones((2, 3))), "the block must be a square matrix, got shape (2, 3)")
    check_refused(lambda: sdp_value([[1.0, 2.0], [2.0, 1.0]]), "positive semidefinite, got the eigenvalue -1")
    check_refused(lambda: largest_sign_sum([[1.0, 0.5], [0.4, 1.0]]), "the block must be symmetric")
