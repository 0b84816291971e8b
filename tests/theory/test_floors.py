"""The floor of Adam, against slow runs of Adam, its differentiated two-step map, and enumeration."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import linear_sum_assignment

import quadsim as qs
from quadsim.theory import floors
from quadsim.theory.sdp import largest_sign_sum, sdp_value

FRUSTRATED = 1.3 * np.eye(3) - 0.3


def wishart(n, seed):
    a = np.random.default_rng(seed).standard_normal((n, n + 1))
    return a @ a.T


def on_cycle(h, s, lr, beta1):
    """The state (e, m, v) of Adam before a step on the cycle of s."""
    share = (1 - beta1) / (1 + beta1)
    e = lr / 2 * share * s
    return np.concatenate([e, -share * (h @ e), (h @ e) ** 2])


def two_steps(h, state, lr, beta1, beta2):
    """Adam with eps = 0 and no bias correction; complex states go through."""
    e, m, v = np.split(state, 3)
    for _ in range(2):
        g = h @ e
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        e = e - lr * m / np.sqrt(v)
    return np.concatenate([e, m, v])


def map_multipliers(h, s, lr, beta1, beta2):
    """Eigenvalues of the two-step map's Jacobian, by complex steps, which do not cancel."""
    state = on_cycle(h, s, lr, beta1).astype(complex)
    columns = [two_steps(h, state + 1e-40j * unit, lr, beta1, beta2).imag / 1e-40 for unit in np.eye(state.size)]
    return np.linalg.eigvals(np.array(columns).T)


def settled_losses(h, lr, beta1, beta2, steps, keep, seed=0):
    """Losses at the end of a run that starts within a few lr."""
    start = lr * np.random.default_rng(seed).standard_normal(len(h))
    path = oracles.adam(h, start, steps, lr, beta1, beta2, 0.0, bias_correction=False, init="gradient")
    return oracles.measures(h, path)[0][-keep:], path


@given(st.integers(1, 8), st.integers(0, 10**6))
def test_cycles_are_complete(n, seed):
    h = wishart(n, seed)
    signs, sums = floors.cycles(h)
    expected = {s for s in itertools.product((1.0, -1.0), repeat=n) if s[0] == 1 and (np.sign(h @ s) == s).all()}
    assert {tuple(s) for s in signs} == expected
    assert len(signs) == len(expected) >= 1
    assert (np.diff(sums) <= 0).all()
    assert_allclose(sums, [s @ h @ s for s in signs])
    assert_allclose(sums[0], largest_sign_sum(h)[0])


@pytest.mark.parametrize("beta1", [0.0, 0.15, 0.9])
def test_a_cycle_has_period_two(beta1):
    h, lr = wishart(4, 5), 0.3
    for s in floors.cycles(h)[0]:
        state = on_cycle(h, s, lr, beta1)
        assert_allclose(two_steps(h, state, lr, beta1, 0.9), state, rtol=1e-10)
        loss = 0.5 * state[:4] @ h @ state[:4]
        assert_allclose(floors.cycle_loss(h, s, lr, beta1), loss)


@given(st.integers(1, 6), st.integers(0, 10**6), st.floats(0.05, 0.999), st.sampled_from([0.0, 0.05, 0.3, 0.9]))
def test_multipliers_are_those_of_the_two_step_map(n, seed, beta2, beta1):
    h = wishart(n, seed) + 0.01 * np.eye(n)
    for s in floors.cycles(h)[0][:3]:
        computed = map_multipliers(h, s, 0.7, beta1, beta2)
        claimed = floors.cycle_multipliers(h, s, beta2, beta1).ravel() ** 2
        claimed = np.concatenate([claimed, np.zeros(3 * n - claimed.size)])  # without β1, m remembers nothing
        distance = np.abs(computed[:, None] - claimed)
        # a double root is only known to the square root of rounding
        assert distance[linear_sum_assignment(distance)].max() < 1e-6 * (1 + np.abs(computed).max())
        largest = np.abs(computed).max()
        if abs(largest - 1) > 1e-6:
            assert floors.is_stable_cycle(h, s, beta2, beta1) == (largest < 1)


@given(st.floats(0.01, 0.999), st.floats(0, 0.99), st.floats(-2, 2))
def test_the_limit_of_stability_is_where_multipliers_leave_the_circle(beta2, beta1, log):
    limit = floors.stability_limit(beta2, beta1)
    p = limit * np.exp(log)
    polynomial = np.poly([-1, -beta1, beta2]) - 2 * p * (beta1 + beta2) * np.array([0, 1, -1, 0])
    if abs(log) > 1e-3:
        assert (np.abs(np.roots(polynomial)).max() < 1) == (p < limit)


def test_the_limit_of_stability_in_numbers():
    assert_allclose(floors.stability_limit(0.9), 1.9 / 1.8)
    edge = 3 - 2 * np.sqrt(2)  # as β2 → 1 no cycle is stable from there on
    assert floors.stability_limit(0.9999, edge - 1e-3) > 1 > floors.stability_limit(0.9999, edge + 1e-3)


@given(st.integers(2, 7), st.integers(0, 10**6), st.floats(0.3, 0.999))
def test_a_stable_cycle_is_nearly_the_highest(n, seed, beta2):
    """Ledger 5e; unstable ones need not be (the control)."""
    h = wishart(n, seed)
    problem = qs.BlockQuadratic.from_blocks([h])
    bounds = floors.floor_bounds(problem, 0.1, beta2)
    for s in floors.cycles(h)[0]:
        loss = floors.cycle_loss(h, s, 0.1)
        assert loss <= bounds.upper * (1 + 1e-12)
        if floors.is_stable_cycle(h, s, beta2):
            assert loss >= bounds.stable_cycle * (1 - 1e-9)


def test_unstable_cycles_may_be_low():
    lows = []
    for seed in range(100):
        signs, sums = floors.cycles(wishart(6, seed))
        lows += [(seed, s) for s, value in zip(signs, sums, strict=True) if value < 0.5 * np.trace(wishart(6, seed))]
    assert lows
    assert not any(floors.is_stable_cycle(wishart(6, seed), s, 0.9) for seed, s in lows)


@pytest.mark.parametrize("seed", range(4))
def test_a_run_ends_on_a_stable_cycle(seed):
    h = wishart(3, seed + 20)
    signs, _ = floors.cycles(h)
    stable = [s for s in signs if floors.is_stable_cycle(h, s, 0.9)]
    assert stable
    losses, path = settled_losses(h, 0.1, 0.0, 0.9, 4000, 2)
    s = np.sign(path[-1]) * np.sign(path[-1][0])
    assert any((s == t).all() for t in stable)
    assert_allclose(losses, floors.cycle_loss(h, s, 0.1), rtol=1e-6)


@pytest.mark.parametrize(("beta2", "seed"), [(0.5, 1), (0.9, 2), (0.99, 3), (0.9, 4), (0.99, 5)])
def test_the_floor_is_the_law(beta2, seed):
    """Ledger 5g on random blocks, with the bounds around it."""
    problem = qs.BlockQuadratic.from_blocks([wishart(4, seed), wishart(2, seed + 50)])
    lr = 0.2
    average = settled_losses(problem.hessian(), lr, 0.0, beta2, 20_000, 10_000, seed)[0].mean()
    law, bounds = floors.floor(problem, lr), floors.floor_bounds(problem, lr, beta2)
    assert 1 - np.sqrt(1 - beta2) <= average / law <= 1 + 1e-9
    assert bounds.limsup <= average <= bounds.upper * (1 + 1e-9)
    assert bounds.stable_cycle <= bounds.upper <= bounds.looser
    assert_allclose(bounds.upper, law, rtol=1e-9)


@pytest.mark.parametrize(
    ("beta2", "b", "start", "q"),
    [(0.6, 0.162, (0.4825, 0.4989), 0.335), (0.7, 0.102, (0.513, 0.487), 0.228), (0.8, 0.06, (0.467, 0.4675), 0.146)],
)
def test_orbits_around_a_cycle_that_lost_its_stability_are_low(beta2, b, start, q):
    """Counterexamples to q ≤ max(0.26√(1−β2), (1−β2)/(1+β2)): confirmed by the slow oracle."""
    h = np.array([[1, -b], [-b, 1]])
    assert b > (1 - beta2) / (1 + 3 * beta2)
    assert not floors.is_stable_cycle(h, [1, 1], beta2)
    path = oracles.adam(h, np.array(start), 20_000, 1.0, 0.0, beta2, 0.0, bias_correction=False, init="gradient")
    average = oracles.measures(h, path)[0][-12_000:].mean()
    assert_allclose(1 - average / floors.floor(h, 1.0), q, atol=2e-3)
    assert q > 1.2 * max(0.26 * np.sqrt(1 - beta2), (1 - beta2) / (1 + beta2))


@pytest.mark.parametrize(
    ("beta2", "h", "start", "ratio"),
    [
        (0.93, [[1, -0.02105951], [-0.02105951, 1.00922427]], (0.473, 0.572), 0.9982),
        (0.919, [[1, 0.02278], [0.02278, 0.8515]], (0.579, -0.463), 0.9943),
    ],
)
def test_the_mean_loss_may_be_below_the_trace_bound(beta2, h, start, ratio):
    """Counterexamples to ⟨loss⟩ ≥ (2β2/(1+β2)) (lr²/8) tr H; so there is no such bound."""
    h = np.array(h)
    path = oracles.adam(h, np.array(start), 40_000, 1.0, 0.0, beta2, 0.0, bias_correction=False, init="gradient")
    average = oracles.measures(h, path)[0][-30_000:].mean()
    assert_allclose(average / (beta2 / (1 + beta2) / 4 * np.trace(h)), ratio, atol=2e-4)
    bounds = floors.floor_bounds(qs.BlockQuadratic.from_blocks([h]), 1.0, beta2)
    assert not hasattr(bounds, "lower")
    assert average >= bounds.limsup


def test_the_bound_on_the_limit_superior_of_the_loss():
    """Ledger 5b: attained in one dimension; the worst block counts."""
    one = floors.floor_bounds(qs.BlockQuadratic.from_blocks([[[2.0]]]), 0.1, 0.9)
    path = oracles.adam(np.array([[2.0]]), np.array([0.3]), 4000, 0.1, 0.0, 0.9, 0.0, bias_correction=False)
    assert_allclose(one.limsup, 0.1**2 / 8 * 2.0)
    assert_allclose((path[-100:, 0] ** 2).max(), one.limsup, rtol=1e-9)  # ½·2·e²
    two = floors.floor_bounds(qs.BlockQuadratic.from_blocks([[[2.0]], [[3.0, 1.0], [1.0, 3.0]]]), 0.1, 0.9)
    assert_allclose(two.limsup, 0.1**2 / 8 * max(2.0, 2.0**2 / 3.0))


@pytest.mark.parametrize(("beta2", "measured"), [(0.9, 3.7839), (0.99, 3.8891)])
def test_the_floor_where_no_cycle_is_stable(beta2, measured):
    """Not the best cycle's 3.6 but nearly SDP = 3.9: this distinguishes the trace, the cycle and the law."""
    assert not any(floors.is_stable_cycle(FRUSTRATED, s, beta2) for s in floors.cycles(FRUSTRATED)[0])
    average = settled_losses(FRUSTRATED, 1.0, 0.0, beta2, 30_000, 20_000)[0].mean()
    assert_allclose(8 * average, measured, rtol=2e-3)
    assert_allclose(8 * floors.floor(FRUSTRATED, 1.0), 3.9)


def test_the_floor_with_momentum():
    h = wishart(3, 0)
    average = settled_losses(h, 0.1, 0.9, 0.99, 30_000, 20_000)[0].mean()
    assert 1 <= average / floors.floor(h, 0.1, beta1=0.9) <= 1.2
    assert_allclose(floors.floor(h, 0.1, beta1=0.9), 0.1**2 / 8 * (0.1 / 1.9) ** 2 * sdp_value(h).value)


@pytest.mark.parametrize("seed", range(5))
def test_gradients_do_not_vanish(seed):
    """Ledger 5b; in one dimension it is attained."""
    problem = qs.BlockQuadratic.from_blocks([wishart(3, seed), [[2.0]]])
    bound = floors.nonconvergence(problem, 0.1)
    assert_allclose(bound, [0.05 * problem.eigenvalues[0][0], 0.1])
    _, path = settled_losses(problem.hessian(), 0.1, 0.0, 0.9, 4000, 1, seed)
    gradients = np.abs(path[-500:] @ problem.hessian())
    assert gradients[:, :3].max() >= bound[0] * (1 - 1e-9)
    assert_allclose(gradients[:, 3].max(), bound[1], rtol=1e-9)


@pytest.mark.parametrize("eps", [0.0, 0.01, 0.04, 0.1, 0.2])
def test_epsilon_shrinks_the_cycle_and_ends_it(eps):
    """Ledger 5j with lr λ/2 = 0.1."""
    path = oracles.adam(np.array([[2.0]]), np.array([0.3]), 6000, 0.1, 0.0, 0.9, eps, bias_correction=False)
    expected = floors.amplitude_1d(0.1, eps, 2.0)
    assert (expected == 0) == (eps >= 0.1)
    assert_allclose(np.abs(path[-2:, 0]), expected, rtol=1e-9, atol=1e-3 if eps == 0.1 else 1e-12)


def test_depth_of_the_contraction():
    """Ledger 5i, on a run that stays within float64."""
    assert_allclose(floors.contraction_depth(0.99), -491, rtol=1e-3)
    assert_allclose(floors.contraction_depth(0.999), -4932, rtol=1e-3)
    path = oracles.adam(np.array([[1.0]]), np.array([3.0]), 20_000, 0.01, 0.0, 0.99, 0.0, bias_correction=False)
    assert_allclose(np.log(np.abs(path).min() / 0.01), floors.contraction_depth(0.99), rtol=0.04)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: floors.floor(FRUSTRATED, 0.0), "lr must be a finite number above 0"),
        (lambda: floors.floor(FRUSTRATED, 0.1, beta1=1.0), "beta1 must be a finite number at least 0 and below 1"),
        (lambda: floors.floor_bounds(qs.case(3), 0.1, 1.0), "beta2 must be a finite number above 0 and below 1"),
        (lambda: floors.nonconvergence(qs.case(3), -1), "lr must be a finite number above 0"),
        (lambda: floors.cycles(np.eye(21)), "enumerated up to n = 20"),
        (lambda: floors.cycle_loss(FRUSTRATED, [1, 1, 0.5], 0.1), "s must hold 1 and -1 only, got 0.5 in it"),
        (lambda: floors.cycle_loss(FRUSTRATED, [1, 1], 0.1), "s must have shape (3,), got shape (2,)"),
        (lambda: floors.is_stable_cycle(np.ones((2, 2)), [1, -1], 0.9), "s is not a cycle: s_i (Hs)_i"),
        (lambda: floors.cycle_multipliers(FRUSTRATED, [1, 1, -1], 0.0), "beta2 must be a finite number above 0"),
        (lambda: floors.stability_limit(0.9, -0.1), "beta1 must be a finite number at least 0"),
        (lambda: floors.contraction_depth(1), "beta2 must be a finite number above 0 and below 1"),
        (lambda: floors.amplitude_1d(0.1, -1e-8, 1.0), "eps must be a finite number at least 0"),
        (lambda: floors.amplitude_1d(0.1, 0, 0), "curvature must be a finite number above 0"),
    ],
)
def test_bad_input_is_refused(call, sentence, check_refused):
    check_refused(call, sentence)
