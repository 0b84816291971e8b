"""Kernels against plain numpy; a lane does not depend on other lanes."""

import numpy as np
import oracles
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs

PROBLEMS = {
    "case 3, minimizer not zero": qs.case(3, seed=1, minimizer=np.arange(9.0)),
    "case 4": qs.case(4, seed=1),
    "diagonal": qs.case(3, rotation=0, minimizer=np.ones(9)),
    "blocks of 1, 2, 5": qs.BlockQuadratic.from_spectra(
        [[5], [1, 20], [3, 4, 7, 50, 100]], seed=3, minimizer=np.arange(8.0)
    ),
    "blocks of 30, 17": qs.BlockQuadratic.from_spectra([np.geomspace(1, 100, 30), np.geomspace(9, 900, 17)], seed=2),
    "blocks of 64, 11": qs.BlockQuadratic.from_spectra([np.geomspace(1, 50, 64), np.geomspace(9, 90, 11)], seed=4),
}
OPTIMIZERS = [
    qs.GD(),
    qs.GD(lr=1e-4),
    qs.BlockGD(),
    qs.BlockGD(lr=1e-4),
    qs.FrozenAdam(),
    qs.FrozenAdam(lr=1e-2),
    qs.FrozenAdam(lr=1e-3, beta1=0.9),
    qs.Adam(),
    qs.Adam(bias_correction=False),
    qs.Adam(init="gradient"),
    qs.Adam(init="gradient", bias_correction=False, beta2=0.99),
    qs.Adam(eps=1e-2, beta1=0.5),
    qs.Adam(eps=0.0, beta1=0.0),
    qs.Adam(beta1=0.0, beta2=0.0, eps=1e-1, lr=1e-4),
    qs.Adam(beta2=1.0, init="gradient", beta1=0.5),
]
STEPS = 1000
SLOW = pytest.mark.slow  # its kernels take seconds to compile


def oracle_path(problem, optimizer, error):
    optimizer = optimizer.with_best_lr(problem, error)
    settings = optimizer.settings()
    if isinstance(optimizer, qs.GD | qs.BlockGD):
        lr = np.repeat(np.broadcast_to(settings["lr"], len(problem.sizes)), problem.sizes)
        return oracles.gd(problem.hessian(), error, STEPS, lr)
    oracle = oracles.frozen_adam if isinstance(optimizer, qs.FrozenAdam) else oracles.adam
    return oracle(problem.hessian(), error, STEPS, **settings)


def start(problem):
    """A Gaussian start whose gradient has no tiny component: frozen Adam divides by it, which amplifies rounding."""
    for seed in range(1000):
        gradient = np.abs(problem.hvp(problem.initial_error(seed)))
        if all(part.min() > 0.01 * part.max() for part in problem.split(gradient)):
            return problem.initial_error(seed)
    raise AssertionError("no such start")


@pytest.mark.parametrize("optimizer", OPTIMIZERS, ids=repr)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_kernel_agrees_with_plain_numpy(name, optimizer):
    """Loss and gradient norm to a relative 1e-12 at each of 1,000 steps.

    With these settings rounding errors do not grow; the next test has settings with which they do.
    """
    problem = PROBLEMS[name]
    # At its best lr frozen Adam flips the sign of a mode at each step with little decay, and the rounding errors of
    # |g0|, which depend on the order of summation, add up: in wide blocks to 3e-12 between two correct computations.
    rtol = 1e-11 if optimizer == qs.FrozenAdam() and problem.dim > 20 else 1e-12
    w0 = problem.minimizer + start(problem)
    run = qs.solve(problem, optimizer, w0=w0, tol=0, max_steps=STEPS, record=1, engine="compiled")
    path = oracle_path(problem, optimizer, problem.error(w0))  # w0 - minimizer, rounded as the solver sees it
    loss, norm = oracles.measures(problem.hessian(), path)
    until = min(len(run.steps), np.argmax(np.append(loss, 0) < 1e-280))  # below, squares underflow in the oracle
    assert until > 500 or run.status is qs.Status.UNDERFLOW
    assert_array_equal(run.steps[:until], np.arange(until))
    assert_allclose(run.loss[:until], loss[:until], rtol=rtol)
    assert_allclose(run.grad_norm[:until], norm[:until], rtol=rtol)


@pytest.mark.parametrize("optimizer", [qs.Adam(lr=1e-2, beta1=0, beta2=0.9), qs.Adam(beta1=0.95, beta2=0.95, eps=0)])
@pytest.mark.parametrize("name", PROBLEMS)
def test_where_adam_amplifies_rounding_errors_the_kernel_stays_within_them(name, optimizer):
    """1e-12, or a hundred times the effect of one unit in the last place of the start on the numpy run."""
    problem = qs.BlockQuadratic.from_blocks(PROBLEMS[name].blocks)
    hessian, error = problem.hessian(), start(problem)
    loss, other = (
        oracles.measures(hessian, oracles.adam(hessian, begin, STEPS, **optimizer.settings()))[0]
        for begin in (error, np.nextafter(error, np.inf))
    )
    run = qs.solve(problem, optimizer, e0=error, tol=0, max_steps=STEPS, record=1, engine="compiled")
    apart = np.maximum.accumulate(np.abs(other / loss - 1))
    assert (np.abs(run.loss / loss - 1) <= np.maximum(1e-12, 100 * apart)).all()


def test_the_comparison_can_fail():
    """Negative control: an error of 1e-9 in one setting is detected."""
    problem = PROBLEMS["case 4"]
    error = problem.initial_error(5)
    run = qs.solve(problem, qs.Adam(beta2=0.999 + 1e-9), e0=error, tol=0, max_steps=STEPS, record=1)
    loss, _ = oracles.measures(problem.hessian(), oracle_path(problem, qs.Adam(), error))
    assert np.max(np.abs(run.loss / loss - 1)) > 1e-11


def same(one, other):
    assert_array_equal(one.steps, other.steps)
    assert_array_equal(one.loss, other.loss)
    assert_array_equal(one.grad_norm, other.grad_norm)
    assert_array_equal(one.w, other.w)
    assert (one.status, one.last_step) == (other.status, other.last_step)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize(
    "kind", [qs.Adam, *(pytest.param(kind, marks=SLOW) for kind in (qs.GD, qs.FrozenAdam, qs.BlockGD))]
)
def test_a_lane_is_bit_identical_whatever_runs_beside_it(name, kind, fastest_kernels):
    """Alone, among 5, among 19 at another position, on one thread or two."""
    problem = PROBLEMS[name]
    rates = np.geomspace(1e-5, 1e2, 19)  # some diverge, some converge, some run to the end
    many = [kind(lr=lr) for lr in rates]
    how = {"max_steps": 700, "tol": 1e-3, "engine": "compiled"}
    errors = [problem.initial_error(k) for k in range(19)]
    lanes = qs.solve(problem, many, e0=[errors], **how)
    threaded = qs.solve(problem, many, e0=[errors], threads=2, **how)
    five = qs.solve(problem, many[6:11], e0=[errors[6:11]], **how)
    backwards = qs.solve(problem, many[::-1], e0=[errors[::-1]], threads=1, **how)
    for k in range(19):
        same(lanes[k], threaded[k])
        same(lanes[k], backwards[18 - k])
        same(lanes[k], qs.solve(problem, many[k], seed=k, **how))
    for k in range(5):
        same(lanes[6 + k], five[k])
    assert len({run.status for run in lanes}) > 1  # the lanes ended in different ways


@pytest.mark.slow  # a kernel for each kind of optimizer
def test_lanes_with_different_settings_do_not_mix(fastest_kernels):
    problem = PROBLEMS["blocks of 1, 2, 5"]
    betas = [(0.9, 0.999), (0.0, 0.99), (0.5, 0.9), (0.95, 0.95), (0.3, 0.0)]
    mixed = [qs.Adam(lr=1e-3 * k, beta1=b1, beta2=b2, eps=10.0**-k) for k, (b1, b2) in enumerate(betas, 1)]
    mixed += [qs.Adam(bias_correction=False), qs.Adam(init="gradient"), qs.Adam(init="gradient", beta2=1.0)]
    mixed += [qs.BlockGD(lr=(1e-2 / k, 1e-3 * k, 1e-3 / k)) for k in range(1, 6)] + [qs.BlockGD()]
    mixed += [qs.FrozenAdam(lr=0.01 * k, beta1=0.1 * k) for k in range(1, 6)]
    lanes = qs.solve(problem, mixed, seed=3, max_steps=300, tol=0, engine="compiled")
    assert len(lanes) == 19
    for k, run in enumerate(lanes):
        same(run, qs.solve(problem, mixed[k], seed=3, max_steps=300, tol=0, engine="compiled"))


def test_slices_do_not_change_the_numbers(monkeypatch):
    """A run that is split into slices for progress has the same numbers."""
    problem, seen = qs.case(4), []
    whole = qs.solve(problem, qs.Adam(), tol=0, max_steps=3000)
    monkeypatch.setattr("quadsim.engine.compiled.batching.SLICE_SECONDS", 1e-9)
    monkeypatch.setattr("quadsim.engine.compiled.batching.FIRST_SLICE_WORK", 1)
    sliced = qs.solve(problem, qs.Adam(), tol=0, max_steps=3000, progress=seen.append)
    assert len(seen) > 100
    assert seen[-1] == 3000
    same(whole, sliced)
