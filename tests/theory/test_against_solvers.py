"""Bounds of the ledger against runs: upper bounds hold at every step, tight ones are attained, half of each fails."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import quadsim as qs

STEPS = 60
SLACK = 1e-9  # rounding of a loss ratio: the gradient is off by eps·L|e|, up to eps·kappa of the smallest mode's part
seeds = st.integers(0, 10**6)
spectra = st.lists(st.lists(st.floats(1, 1e4), min_size=1, max_size=5), min_size=1, max_size=4)


def loss_ratios(problem, optimizer, w0, steps=STEPS):
    run = qs.solve(problem, optimizer, w0=w0, tol=0, max_steps=steps, record=1, engine="compiled")
    loss = run.loss[run.loss > 1e-200 * run.loss[0]]
    return loss[1:] / loss[:-1]


def check_upper(ratios, bound):
    assert (ratios <= bound * (1 + SLACK) + 1e-15).all(), f"{ratios.max()} > {bound}"


def check_lower(ratios, bound):
    assert (ratios >= bound * (1 - SLACK)).all(), f"{ratios.min()} < {bound}"


@settings(max_examples=40)
@given(spectra, seeds, st.floats(0.02, 1.2))
def test_1a_gd_contracts_by_its_rate_at_any_lr(values, seed, factor):
    problem = qs.BlockQuadratic.from_spectra(values, seed=seed)
    for optimizer in (qs.GD(), qs.GD(lr=2 * factor / problem.lipschitz)):
        ratios = loss_ratios(problem, optimizer, problem.start(seed))
        check_upper(ratios, qs.theory.rate(problem, optimizer))


@pytest.mark.parametrize("number", [3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_1a_is_tight_on_the_extreme_eigenvectors_and_half_of_it_fails(number, seed):
    problem = qs.case(number, seed=seed)
    ratios = loss_ratios(problem, qs.GD(), qs.theory.slowest_start(problem), 1000)
    rate = qs.theory.rate(problem, qs.GD())
    assert_allclose(rate, ((5000 - 1) / (5000 + 1)) ** 2, rtol=1e-12)
    assert_allclose(ratios, rate, rtol=SLACK)
    with pytest.raises(AssertionError):
        check_upper(ratios, rate / 2)


@settings(max_examples=40)
@given(spectra, seeds, st.floats(1e-3, 2.5))
def test_1b_no_constant_lr_beats_the_slowest_start(values, seed, factor):
    problem = qs.BlockQuadratic.from_spectra(values, seed=seed)
    bound = ((problem.kappa - 1) / (problem.kappa + 1)) ** 2
    start = qs.theory.slowest_start(problem)
    if bound > 1e-6:  # kappa = 1: every lr may end in one step, and the bound says nothing
        check_lower(loss_ratios(problem, qs.GD(lr=factor / problem.lipschitz), start), bound)


def test_1b_control_a_bound_larger_by_a_thousandth_fails():
    problem = qs.case(4)
    bound = ((problem.kappa - 1) / (problem.kappa + 1)) ** 2
    with pytest.raises(AssertionError):
        check_lower(loss_ratios(problem, qs.GD(), qs.theory.slowest_start(problem)), bound * 1.001)


def test_1c_the_unsquared_bound_is_false():
    """(1 − 2/(κ+1)) as a lower bound on the loss ratio, as it has been printed: refuted by the best lr itself."""
    problem = qs.BlockQuadratic.from_spectra([[1, 10]], rotation=0)
    with pytest.raises(AssertionError):
        check_lower(loss_ratios(problem, qs.GD(), qs.theory.slowest_start(problem)), 1 - 2 / (10 + 1))


@settings(max_examples=40)
@given(spectra, seeds, st.floats(0.05, 1.2))
def test_2a_frozen_adam_contracts_by_kappa_eff(values, seed, factor):
    problem = qs.BlockQuadratic.from_spectra(values, seed=seed)
    w0 = problem.start(seed)
    ke = qs.theory.kappa_eff(problem, w0)
    if ke > 1e6:  # rounding of the smallest mode would show
        return
    best = qs.FrozenAdam().with_best_lr(problem, problem.error(w0))
    assert_allclose(qs.theory.rate(problem, best, w0), ((ke - 1) / (ke + 1)) ** 2, rtol=1e-9, atol=1e-15)
    for optimizer in (best, qs.FrozenAdam(lr=best.lr * factor)):
        check_upper(loss_ratios(problem, optimizer, w0), qs.theory.rate(problem, optimizer, w0))


@pytest.mark.parametrize("seed", range(5))
def test_2a_is_the_exact_asymptotic_rate_and_half_of_it_fails(seed):
    problem = qs.case(3, seed=seed)
    w0 = problem.start(seed)
    rate = qs.theory.rate(problem, qs.FrozenAdam(), w0)
    ratios = loss_ratios(problem, qs.FrozenAdam(), w0, 4000)
    # the modes between the two ends die out, at a pace set by how close to an end they lie
    assert 0.99 * rate < ratios[-1] <= rate * (1 + SLACK)
    assert rate - ratios[-1] < 0.5 * (rate - ratios[len(ratios) // 10])
    with pytest.raises(AssertionError):
        check_upper(ratios, rate / 2)


@settings(max_examples=40)
@given(spectra, seeds)
def test_2b_the_sharp_form_of_the_theorem(values, seed):
    problem = qs.BlockQuadratic.from_spectra(values, seed=seed)
    w0 = problem.start(seed)
    if qs.theory.r(problem, w0) > 1e12:
        return
    lr, bound = qs.theory.block_rate(problem, w0)
    check_upper(loss_ratios(problem, qs.FrozenAdam(lr=lr), w0), bound)
    kappas = np.array(problem.block_kappas)
    r = qs.theory.r(problem, w0)
    # 2c: the paper's own bound is right, and loose twice
    assert bound <= np.max(1 - 1 / (r**0.5 * kappas)) ** 2 * (1 + 1e-12) <= np.max(1 - 1 / (r * kappas)) * (1 + 1e-12)
    # 2d
    assert qs.theory.kappa_eff(problem, w0) <= r**0.5 * kappas.max() * (1 + 1e-6)


def test_2b_is_attained_and_half_of_it_fails():
    """H = diag(1, k), |g0| = (G, g) with G ≥ g: one step removes mode 2, mode 1 contracts by the bound (2d)."""
    problem = qs.BlockQuadratic.from_spectra([[1, 50]], rotation=0)
    w0 = np.array([3.0, 2.0 / 50])
    lr, bound = qs.theory.block_rate(problem, w0)
    ratios = loss_ratios(problem, qs.FrozenAdam(lr=lr), w0)[1:]
    assert_allclose(ratios, bound, rtol=1e-12)
    assert_allclose(qs.theory.kappa_eff(problem, w0), qs.theory.r(problem, w0) ** 0.5 * 50, rtol=1e-12)
    with pytest.raises(AssertionError):
        check_upper(ratios, bound / 2)


@settings(max_examples=40)
@given(spectra, seeds)
def test_3_block_gd_contracts_by_its_worst_block(values, seed):
    problem = qs.BlockQuadratic.from_spectra(values, seed=seed)
    worst = max(problem.block_kappas)
    bound = ((worst - 1) / (worst + 1)) ** 2
    assert_allclose(qs.theory.rate(problem, qs.BlockGD()), bound, rtol=1e-9, atol=1e-15)
    check_upper(loss_ratios(problem, qs.BlockGD(), problem.start(seed)), bound)


def test_3_is_tight_and_half_of_it_fails():
    problem = qs.BlockQuadratic.from_spectra([[100, 101], [1, 7]], seed=1)
    start = np.concatenate([np.zeros(2), qs.theory.slowest_start(qs.BlockQuadratic.from_blocks([problem.blocks[1]]))])
    ratios = loss_ratios(problem, qs.BlockGD(), start)
    assert_allclose(ratios, (6 / 8) ** 2, rtol=SLACK)
    with pytest.raises(AssertionError):
        check_upper(ratios, (6 / 8) ** 2 / 2)


def test_the_study_s_four_numbers():
    """Medians over 200 seeds to 1e-6: GD 33,000 steps in both cases, frozen Adam 108 and 58,800, block GD 9 and 33,000.

    Those figures are this project's own earlier medians of 200 other draws: GD within 5 %, the others within 25 %.
    """
    earlier = {
        (3, qs.GD()): (33_000, 0.05), (3, qs.FrozenAdam()): (108, 0.25), (3, qs.BlockGD()): (9, 0.25),
        (4, qs.GD()): (32_500, 0.05), (4, qs.FrozenAdam()): (58_800, 0.25), (4, qs.BlockGD()): (33_000, 0.25),
    }  # fmt: skip
    for (number, optimizer), (expected, within) in earlier.items():
        taken = [
            qs.solve(qs.case(number, seed=seed), optimizer, seed=seed, max_steps=200_000, engine="compiled").last_step
            for seed in range(200)
        ]
        assert abs(np.median(taken) / expected - 1) < within, (number, optimizer, np.median(taken))


def test_seed_0_agrees_with_the_study():
    steps = {
        number: [
            qs.solve(qs.case(number), o, engine="compiled").steps_to_tol
            for o in (qs.GD(), qs.FrozenAdam(), qs.BlockGD())
        ]
        for number in (3, 4)
    }
    gd, adam, blockwise = steps[3]
    assert 10_000 < gd < 100_000
    assert adam < 400
    assert blockwise < 20
    assert_allclose(steps[4][0], gd, rtol=0.1)
    assert steps[4][1] > steps[4][0]  # frozen Adam no better than GD
