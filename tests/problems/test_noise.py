"""Noise: the kernel's random numbers are numpy's own, minibatches are fair, runs depend on their seed alone."""

import itertools

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim.engine.compiled import random as kernel_random
from quadsim.problems import noise
from quadsim.problems.noise import FACTORS, run_key

NOISES = [
    qs.Noise(batch=3),
    qs.Noise(batch=3, factor="rotated"),
    qs.Noise(batch=7),
    qs.Noise(batch=9, factor="rotated"),
    qs.Noise("gaussian", 0.5),
    qs.Noise("labels", scale=0.5),
    qs.Noise("gaussian+labels", scale=(0.1, 0.3), batch=2, factor="rotated"),
]
PROBLEMS = {
    "case 3": qs.case(3, seed=1, minimizer=np.arange(9.0)),
    "blocks of 1, 2, 11": qs.BlockQuadratic.from_spectra([[5], [1, 20], np.geomspace(3, 90, 11)], seed=3),
}


def loop(problem, lr, how, seed, steps):
    """SGD in numpy with `oracles.noisy_gradient`: losses before each step and at the end."""
    e, losses = problem.initial_error(seed), []
    for t in range(1, steps + 2):
        losses.append(problem.loss(e + problem.minimizer))
        e = e - lr * oracles.noisy_gradient(how, problem, e, seed, t)
    return losses


@pytest.mark.parametrize("how", NOISES, ids=str)
@pytest.mark.parametrize("name", PROBLEMS)
def test_gd_under_noise_is_the_numpy_loop(name, how):
    problem, lr = PROBLEMS[name], 1e-5
    run = qs.solve(problem, qs.GD(lr=lr), noise=how, seed=7, max_steps=100, tol=0, record=1)
    assert_allclose(run.loss, loop(problem, lr, how, 7, 100), rtol=1e-12)
    assert run.noise == how
    assert run.seed == 7


@pytest.mark.slow
@pytest.mark.parametrize("count", [6, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("how", NOISES[:2] + NOISES[-1:], ids=str)
def test_the_noise_of_a_run_depends_on_its_seed_alone(how, count, fastest_kernels):
    """Bit for bit the same for 1, 6 and 64 lanes, for 1 and 2 threads, at any position of the lane."""
    problem = PROBLEMS["case 3"]
    alone = [
        qs.solve(problem, kind(lr=1e-4), noise=how, seed=seed, max_steps=150, tol=0)
        for kind in (qs.GD, qs.Adam)
        for seed in range(3)
    ]
    for threads in (1, 2):
        both, seeds = [qs.GD(lr=1e-4), qs.Adam(lr=1e-4)], [k % 3 for k in range(count // 2)]
        lanes = qs.solve(problem, both, seed=seeds, noise=how, max_steps=150, tol=0, threads=threads)
        for k, lane in enumerate(lanes):
            same = alone[3 * (k % 2) + seeds[k // 2]]
            assert_array_equal(lane.loss, same.loss)
            assert_array_equal(lane.w, same.w)


@pytest.mark.slow
def test_the_same_noise_for_every_optimizer():
    """At lr = 0+ the gradient seen is that of the start: two optimizers that record it see the same one."""
    problem, how = qs.case(3), qs.Noise("gaussian", 0.1, batch=3)
    steps = {}
    for kind in (qs.GD, qs.HeavyBall):  # with momentum 0 they are one method, by different kernels
        optimizer = kind(lr=1e-4) if kind is qs.GD else kind(lr=1e-4, momentum=0.0)
        steps[kind] = qs.solve(problem, optimizer, noise=how, seed=3, max_steps=40, tol=0).w
    assert_array_equal(steps[qs.GD], steps[qs.HeavyBall])


def test_a_given_start_keeps_the_noise_of_its_seed():
    problem, how = qs.case(3), qs.Noise(batch=3)
    runs = [
        qs.solve(problem, qs.GD(lr=1e-4), w0=np.ones(9), seed=seed, noise=how, max_steps=50, tol=0) for seed in (1, 2)
    ]
    assert runs[0].loss[0] == runs[1].loss[0]
    assert runs[0].loss[-1] != runs[1].loss[-1]
    assert [run.seed for run in runs] == [1, 2]
    quiet = qs.solve(problem, qs.GD(lr=1e-4), w0=np.ones(9), seed=1, max_steps=5, engine="compiled")
    assert quiet.seed is None  # nothing of it was used


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_factors_multiply_to_the_hessian(name, factor):
    problem = PROBLEMS[name]
    for a, block in zip(qs.Noise(batch=1, factor=factor).examples(problem), problem.blocks, strict=True):
        assert_allclose(a.T @ a, block, atol=1e-12 * np.abs(block).max())
        assert len(a) == 1 or (factor == "root") == np.allclose(a, a.T, atol=1e-9)


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("batch", [1, 4, 6, 9])
def test_minibatches_are_fair_over_all_choices(batch, factor):
    """The mean over every possible minibatch is the full gradient; a mean over the drawn ones comes near it."""
    problem, e = qs.case(4, seed=5), np.linspace(1, 2, 9)
    examples = qs.Noise(batch=batch, factor=factor).examples(problem)
    dense = np.zeros((9, 9))
    for k, a in enumerate(examples):
        dense[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = a
    seen = [9 / batch * dense[list(b)].T @ (dense[list(b)] @ e) for b in itertools.combinations(range(9), batch)]
    assert_allclose(np.mean(seen, axis=0), problem.hvp(e), rtol=1e-10)


def test_every_set_of_rows_is_equally_likely():
    """All 84 choices of 3 of 9 come up equally often, within 5 standard deviations; also 6 of 9, the complements."""
    for batch in (3, 6):
        counts = dict.fromkeys(itertools.combinations(range(9), batch), 0)
        for step in range(1, 20_001):
            counts[tuple(oracles.minibatch_rows(11, step, batch, 9))] += 1
        expected = 20_000 / len(counts)
        assert max(abs(count - expected) for count in counts.values()) < 5 * np.sqrt(expected)


@given(st.integers(0, 2**63 - 1), st.integers(1, 10**12), st.integers(1, 40), st.data())
@settings(max_examples=50)
def test_rows_are_distinct_and_as_many_as_the_batch(seed, step, count, data):
    batch = data.draw(st.integers(1, count))
    found = oracles.minibatch_rows(seed, step, batch, count)
    assert len(set(found)) == batch
    assert set(found) <= set(range(count))


def test_the_kernel_s_words_are_numpy_s():
    key = run_key(5)
    for step, use in ((1, oracles.BATCH), (3, oracles.LABELS), (10**11, oracles.RULE)):
        ours = [int(word) for place in range(3) for word in kernel_random.philox(key, place, step, use)]
        assert ours == [int(word) for word in oracles.random_words(5, step, 12, use)]


def test_gaussian_numbers_are_those_of_the_inverse_distribution():
    """Wichura's polynomials against scipy's ndtri, from the middle to the extreme ends."""
    from scipy.special import ndtri

    inner = np.random.default_rng(0).integers(0, 2**64, size=2000, dtype=np.uint64)
    outer = np.array([0, 1 << 12, 1 << 20, 1 << 40, 1 << 55, 2**64 - 1, 2**64 - 2**40], dtype=np.uint64)
    integers = np.concatenate([inner, outer])
    ours = np.array([kernel_random.gaussian(integer) for integer in integers])
    u = (integers >> np.uint64(12)).astype(float)
    low, high = (u + 0.5) * 2.0**-52, (2.0**52 - 0.5 - u) * 2.0**-52  # u and 1 − u, without rounding
    assert_allclose(ours, np.where(low < 0.5, ndtri(low), -ndtri(high)), rtol=3e-15, atol=1e-16)
    assert abs(ours[:2000].mean()) < 4 / np.sqrt(2000)
    assert abs(ours[:2000].std() - 1) < 4 / np.sqrt(4000)


def test_label_noise_has_the_covariance_of_least_squares():
    """At the minimum the gradient is (σ/n)·Xᵀξ, of covariance σ²H/n."""
    problem, sigma = PROBLEMS["case 3"], 0.7
    how = qs.Noise("labels", sigma)
    seen = np.array([oracles.noisy_gradient(how, problem, np.zeros(9), 1, t) for t in range(1, 4001)])
    scale = np.sqrt(np.diag(problem.hessian()))
    cov = np.cov(seen.T) / np.outer(scale, scale)
    assert_allclose(
        cov, sigma**2 * problem.hessian() / 9 / np.outer(scale, scale), atol=5 * sigma**2 / 9 / np.sqrt(4000)
    )


@pytest.mark.slow
def test_sgd_with_additive_noise_has_its_stationary_loss():
    """On a diagonal problem GD with noise σ has E e_i² = lr·σ²/(λ(2 − lr·λ)) in the end: a textbook constant."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 4.0, 9.0]], rotation=0)
    lr, sigma = 0.1, 0.5
    runs = qs.solve(
        problem, qs.GD(lr=lr), seed=range(400), noise=qs.Noise("gaussian", sigma), max_steps=300, tol=0, record=300
    )
    curvature = np.array([1.0, 4.0, 9.0])
    expected = 0.5 * np.sum(lr * sigma**2 / (2 - lr * curvature))
    found = np.array([run.loss[-1] for run in runs])
    assert abs(found.mean() - expected) < 4 * found.std() / np.sqrt(400)
    assert abs(found.mean() - 1.3 * expected) > 4 * found.std() / np.sqrt(400)  # the control


def test_models_that_act_at_the_same_place_add_up(monkeypatch):
    class Wide(noise.Gaussian):
        def kernel_scale(self, dim):
            return 4 * self.scale

    monkeypatch.setitem(noise.MODELS, "wide", Wide)
    both = qs.Noise("gaussian+wide+labels", scale=(0.3, 0.1, 2.0))
    assert_allclose(both.kernel_scales(4), [0.5, 1.0], rtol=1e-15)
    assert_array_equal(qs.Noise("gaussian", scale=0.3).kernel_scales(4), [0.3, 0.0])


def test_scales_may_be_an_array():
    assert qs.Noise("gaussian+labels", scale=np.array([0.1, 0.2])).scale == (0.1, 0.2)
    assert qs.Noise("gaussian", scale=np.float64(0.1)).scale == 0.1


def test_rows_noise_vanishes_at_the_minimum_and_other_noise_does_not():
    problem = qs.case(4, seed=1)
    for how, ends in ((qs.Noise(batch=3), True), (qs.Noise("labels", 0.1), False), (qs.Noise("gaussian", 0.1), False)):
        run = qs.solve(problem, qs.GD(lr=2e-5), noise=how, w0=problem.minimizer, max_steps=20, tol=0)
        assert (run.loss[-1] == 0) == ends


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: qs.Noise(batch=0), "batch must be a whole number of at least 1, got 0"),
        (lambda: qs.Noise(batch=2.5), "batch must be a whole number"),
        (lambda: qs.Noise("gaussian", -1), "noise.scale must be a finite number at least 0, got -1"),
        (lambda: qs.Noise("labels", float("nan")), "noise.scale must be a finite number"),
        (lambda: qs.Noise(factor="other"), "unknown factor 'other'"),
        (lambda: qs.solve(qs.case(3), qs.GD(), noise=qs.Noise(batch=10)), "at most the number of rows, 9, got 10"),
        (lambda: qs.solve(qs.case(3), qs.GD(), noise=3), "noise must be a Noise, such as Noise(batch=3)"),
        (lambda: qs.solve(qs.case(3), qs.Nesterov(), noise=qs.Noise(batch=3)), "needs gradients without noise"),
        (
            lambda: qs.solve(qs.case, qs.GD(), seed=[3], noise=qs.Noise(batch=3), engine="closed-form"),
            "engine=closed-form allows neither noise nor",
        ),
    ],
)
def test_bad_noise(make, sentence, check_refused):
    check_refused(make, sentence)
