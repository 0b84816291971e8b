"""Exact trajectories against the compiled engine, against brute force over all steps, and in limiting cases."""

from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernels import compiled
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim import theory
from quadsim.engine.closed_form import exact as closed_form
from quadsim.engine.closed_form.first_passage import FirstPassage, divergence_step

EPS = np.finfo(float).eps
LINEAR = [
    qs.GD(),
    qs.BlockGD(),
    qs.HeavyBall(),
    qs.HeavyBall(momentum=0.9),
    qs.HeavyBall(lr=1e-4, momentum=0.99),
    qs.Nesterov(),
    qs.Nesterov(lr=1e-4),
    qs.Nesterov(lr=1e-4, momentum=0.5),
    qs.FrozenAdam(),
    qs.FrozenAdam(beta1=0.9),
]
PROBLEMS = {number: qs.case(number, seed=number, minimizer=None) for number in (1, 2, 3, 4)}


@pytest.mark.parametrize("number", PROBLEMS, ids=lambda n: f"case {n}")
@pytest.mark.parametrize("optimizer", compiled(LINEAR))
def test_exact_agrees_with_the_compiled_engine(number, optimizer):
    """Up to 10⁶ steps to a relative 1e-8, or until squares underflow.

    Two settings are worse conditioned: the blocks of the compiled engine have rounding errors of eps·L, and one unit in
    the last place moves the loss of best-tuned heavy ball by t²·eps (double roots, ledger 9), and that of frozen Adam
    with momentum at its best lr by t·eps/(1 − β1) (its end modes are near −1).
    """
    problem = PROBLEMS[number]
    run = qs.solve(problem, optimizer, seed=5, tol=0, max_steps=10**6 if number > 2 else 10**5, engine="compiled")
    run_exact = qs.exact(problem, optimizer, seed=5, tol=0, at=run.steps)
    assert_array_equal(run_exact.steps, run.steps)
    kept = run.loss > 1e-250 * run.loss[0]
    t = run.steps[kept]
    tolerance = np.full(t.size, 1e-8)
    if optimizer == qs.HeavyBall():
        tolerance += 20 * t.astype(float) ** 2 * EPS
    elif getattr(optimizer, "beta1", 0):
        tolerance += 1000 * t * EPS / (1 - optimizer.beta1)
    assert (np.abs(run_exact.loss[kept] / run.loss[kept] - 1) <= tolerance).all()
    assert (np.abs(run_exact.grad_norm[kept] / run.grad_norm[kept] - 1) <= tolerance).all()
    assert run_exact.lr == run.lr


@pytest.mark.parametrize("number", PROBLEMS, ids=lambda n: f"case {n}")
@pytest.mark.parametrize("optimizer", compiled(LINEAR))
def test_steps_to_tol_and_the_end_agree_with_the_compiled_engine(number, optimizer):
    problem = qs.case(number, seed=7, minimizer=np.arange(PROBLEMS[number].dim))
    run = qs.solve(problem, optimizer, seed=7, tol=1e-5, max_steps=50_000, engine="compiled")
    run_exact = qs.exact(problem, optimizer, seed=7, tol=1e-5, max_steps=50_000)
    assert run_exact.steps_to_tol == run.steps_to_tol
    assert run_exact.status == run.status
    assert run_exact.last_step == run.last_step
    assert_array_equal(run_exact.steps, run.steps)
    assert_allclose(run_exact.w, run.w, atol=1e-8)
    assert (run.engine, run_exact.engine) == ("compiled", "closed-form")


def brute_force(problem, optimizer, w0, tol, end):
    """The first step below tol, by evaluating all steps."""
    _, trajectory = closed_form.modal_decomposition(problem, optimizer, w0 - problem.minimizer)
    end, _ = divergence_step(trajectory, end, problem.lipschitz)
    norms = trajectory.logs(np.arange(end + 1))[1]
    target = norms[0] + np.log(tol)
    below = np.flatnonzero(
        norms <= target + 4 * EPS * (1 + abs(target) + abs(norms[0]))
    )  # as first_step_below treats equality
    return int(below[0]) if below.size else None


@settings(max_examples=150)
@given(
    spectra=st.lists(st.lists(st.floats(1, 1e5), min_size=1, max_size=4), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
    rotation=st.sampled_from([0.0, 0.3, 1.0]),
    lr=st.one_of(st.none(), st.floats(0.01, 1.2)),
    momentum=st.one_of(st.none(), st.floats(0, 0.9999)),
    kind=st.sampled_from(["gd", "heavy-ball", "nesterov", "frozen-adam"]),
    log_tol=st.one_of(st.floats(-9, -0.1), st.floats(-250, -9)),
)
def test_the_first_step_below_tol_agrees_with_brute_force(spectra, seed, rotation, lr, momentum, kind, log_tol):
    """Also where the gradient norm rises and falls, and where the lr is unstable."""
    problem = qs.BlockQuadratic.from_spectra(spectra, seed=seed, rotation=rotation)
    w0, tol, end = problem.start(seed), 10**log_tol, 20_000
    made = {
        "gd": lambda: qs.GD(lr=None if lr is None else 2 * lr / problem.lipschitz),
        "heavy-ball": lambda: qs.HeavyBall(lr=None if lr is None else 3 * lr / problem.lipschitz, momentum=momentum),
        "nesterov": lambda: qs.Nesterov(lr=None if lr is None else 1.5 * lr / problem.lipschitz, momentum=momentum),
        "frozen-adam": lambda: qs.FrozenAdam(lr=None if lr is None else lr * 0.1, beta1=momentum or 0.0),
    }
    optimizer = made[kind]()
    run = qs.exact(problem, optimizer, w0=w0, tol=tol, max_steps=end)
    assert run.steps_to_tol == brute_force(problem, optimizer, w0, tol, end)


@pytest.mark.parametrize("optimizer", [*LINEAR, qs.HeavyBall(lr=5e-3, momentum=0.5), qs.GD(lr=1e-2)], ids=repr)
def test_solutions_computed_by_doubling_agree_with_the_recurrence(optimizer):
    """The search assumes an error of at most a millionth of the largest norm; it is far smaller."""
    problem = PROBLEMS[4]
    _, trajectory = closed_form.modal_decomposition(problem, optimizer, problem.initial_error(0))
    total, product = trajectory.modes.recurrence()
    solutions = FirstPassage(trajectory, 0.0, 0)._fundamental_solutions
    kept = (np.abs(solutions) < 1e200).all(axis=(0, 1))  # an unstable mode leaves float64's range
    assert kept[:20].all()
    for path, first in zip(solutions, ([1.0, 0.0], [0.0, 1.0]), strict=True):
        steps = [np.full(9, first[0]), np.full(9, first[1])]
        with np.errstate(over="ignore", invalid="ignore"):
            while len(steps) < path.shape[1]:
                steps.append(total * steps[-1] - product * steps[-2])
            expected = np.transpose(steps)
            largest = np.maximum.accumulate(np.abs(expected), axis=1).clip(1)
            error = (np.abs(path - expected) / largest)[:, kept]
        assert error.max() < 1e-9


def test_a_coarse_record_finds_the_same_step():
    for optimizer in LINEAR:
        fine, coarse = (qs.exact(PROBLEMS[4], optimizer, record=record) for record in ("log", "coarse"))
        assert coarse.steps.size <= 66
        assert (coarse.steps_to_tol, coarse.status, coarse.last_step) == (
            fine.steps_to_tol,
            fine.status,
            fine.last_step,
        )
        assert_array_equal(coarse.log_loss[[0, -1]], fine.log_loss[[0, -1]])
        assert_array_equal(coarse.w, fine.w)


@pytest.mark.slow
def test_frozen_adam_s_first_step_below_tol_is_found_where_modes_cancel():
    """Long runs of few modes whose gradients are far from orthogonal; brute force evaluates every step."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        spectra = [10 ** rng.uniform(0, 4, 3) for _ in range(2)]
        problem = qs.BlockQuadratic.from_spectra(spectra, seed=int(rng.integers(100)))
        w0, tol, end = problem.start(int(rng.integers(100))), 10 ** rng.uniform(-8, -1), 200_000
        optimizer = qs.FrozenAdam(beta1=float(rng.choice([0, 0.5, 0.9])))
        run = qs.exact(problem, optimizer, w0=w0, tol=tol, max_steps=end)
        assert run.steps_to_tol == brute_force(problem, optimizer, w0, tol, end)


def test_frozen_adam_s_first_step_below_tol_is_found_on_diagonal_problems():
    """The first gradient spans so many orders of magnitude that rounding hides the components of single modes."""
    problem = diagonal(1e-9, 1.0, 1e9)
    w0 = np.array([1.0, -2.0, 3.0])
    optimizer = qs.FrozenAdam(lr=1e-2)
    assert qs.exact(problem, optimizer, w0=w0, tol=1e-7, max_steps=10**5).steps_to_tol == (
        brute_force(problem, optimizer, w0, 1e-7, 10**5)
    )


def test_frozen_adam_s_gradient_norm_is_not_monotone():
    """So bisection would fail, and the search is needed."""
    risen = 0
    for seed in range(40):
        run = qs.exact(qs.case(4, seed=seed), qs.FrozenAdam(), seed=seed, at=range(200), tol=0)
        risen += bool((np.diff(run.grad_norm) > 0).any())
    assert risen > 5


def test_gd_at_a_large_condition_number():
    """GD at κ = 10⁸ to 1e-8: about 9·10⁸ steps; the step before the one run is not below tol."""
    problem = qs.case(3, kappa=1e8)
    run = qs.exact(problem, qs.GD(), tol=1e-8)
    assert 5e8 < run.steps_to_tol < 1e9
    first, before, at = qs.exact(problem, qs.GD(), at=[0, run.steps_to_tol - 1, run.steps_to_tol]).log_grad_norm
    assert before > first + np.log(1e-8) >= at


def test_log_losses_far_below_float64_s_range_stay_in_order():
    run = qs.exact(qs.case(3), qs.GD(), at=[10**k for k in range(13)], tol=1e-6)
    assert (np.diff(run.log_loss) < 0).all()
    assert run.loss[-1] == 0
    assert run.log_loss[-1] < -1e8
    assert run.status == "converged"
    assert run.last_step == 10**12


@pytest.mark.parametrize("t", [10**3, 10**6, 10**9, 10**12])
def test_frozen_adam_and_block_gd_on_a_diagonal_problem_against_mpmath(t):
    """No rounding of a basis: loss = ½ Σ λe²(1 − lr·s)^2t with s = 1/|e₀| (frozen Adam) and s = λ (block GD)."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 7.0, 3e5], [2.0, 9e11]], rotation=0)
    e0 = np.array([1.5, 0.3, -0.02, 40.0, 0.7])
    values = [1.0, 7.0, 3e5, 2.0, 9e11]
    for optimizer in (qs.FrozenAdam(lr=0.015), qs.BlockGD(lr=(6e-6, 2.1e-12))):
        run = qs.exact(problem, optimizer, w0=e0, at=[t])
        with mp.workdps(50):
            loss = mp.mpf(0)
            for k, (lam, e) in enumerate(zip(values, e0, strict=True)):
                if optimizer.name == "frozen-adam":
                    z = 1 - mp.mpf(0.015) / abs(mp.mpf(e))
                else:
                    z = 1 - mp.mpf(optimizer.lr[k // 3]) * mp.mpf(lam)
                loss += mp.mpf(lam) * mp.mpf(e) ** 2 * z ** (2 * t) / 2
            truth = mp.log(loss)
        # frozen Adam's s = λ/|g₀| is rounded once or twice: t·lr·s·eps in the slowest mode
        slack = 2 * t * 0.015 / 40 * EPS if optimizer.name == "frozen-adam" else 0
        assert abs(run.log_loss[0] - truth) <= 4 * EPS * (1 + abs(float(truth))) + 2 * slack


def test_an_unstable_lr_has_diverged():
    problem = qs.case(3)
    unstable = [
        qs.GD(lr=2.001 / 5000),
        qs.BlockGD(lr=(1.0, 0.01, 1e-4)),
        qs.HeavyBall(lr=4 / 5000, momentum=0.5),
        qs.Nesterov(lr=1.9 / 5000, momentum=0.9),
        qs.FrozenAdam(lr=100.0, beta1=0.3),
    ]
    for optimizer in unstable:
        for run in (qs.exact(problem, optimizer), qs.exact(problem, optimizer, at=[0, 3, 10, 10**12])):
            assert run.status == "diverged", optimizer
            assert run.steps_to_tol is None
            assert np.isfinite(run.loss).all()
            assert np.isfinite(run.w).all()
            assert run.steps[-1] <= run.last_step


def test_divergence_is_detected_at_the_step_of_the_compiled_engine():
    problem = qs.case(4)
    for optimizer in (qs.GD(lr=1e-3), qs.HeavyBall(lr=1e-3, momentum=0.5), qs.FrozenAdam(lr=50.0)):
        assert qs.exact(problem, optimizer).last_step == qs.solve(problem, optimizer, engine="compiled").last_step


def test_an_lr_at_the_stability_limit_has_not_diverged():
    """|1 − lr·L| = 1 neither grows nor decays."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 4.0]], rotation=0)
    run = qs.exact(problem, qs.GD(lr=0.5), w0=[1.0, 1.0], at=[1, 10**12])
    assert run.status == "max-steps"
    assert_allclose(run.loss, [0.5 * (0.25 + 4), 0.5 * 4], rtol=1e-15)


def test_an_unstable_mode_that_is_not_excited_does_not_count():
    problem = qs.BlockQuadratic.from_spectra([[1.0, 4.0]], rotation=0)
    assert qs.exact(problem, qs.GD(lr=1.0), w0=[1.0, 0.0]).steps_to_tol == 1
    assert_array_equal(qs.exact(problem, qs.GD(lr=0.9), w0=[1.0, 0.0], at=[10**4], tol=0).w, [0, 0])


def test_growth_after_tol_was_reached_is_convergence():
    """An unstable mode that starts tiny: the gradient norm falls below tol first."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 4.0]], rotation=0)
    run, compiled = (call(problem, qs.GD(lr=0.6), w0=[1.0, 1e-12], tol=1e-4) for call in (qs.exact, qs.solve))
    assert run.steps_to_tol == compiled.steps_to_tol
    assert run.status == "converged"
    assert qs.exact(problem, qs.GD(lr=0.6), w0=[1.0, 1e-12], tol=1e-9).status == "diverged"


@pytest.mark.parametrize("optimizer", LINEAR, ids=repr)
def test_a_start_at_the_minimizer_has_converged(optimizer):
    problem = qs.case(3, minimizer=np.ones(9))
    run = qs.exact(problem, optimizer, w0=np.ones(9), tol=1e-3)
    assert (run.steps_to_tol, run.status) == (0, "converged")
    assert_array_equal(run.w, np.ones(9))


def test_a_single_eigenvalue_takes_one_step():
    problem = qs.BlockQuadratic.from_spectra([[3.0], [3.0]])
    for optimizer in (qs.GD(), qs.HeavyBall(), qs.Nesterov(lr=1 / 3)):
        assert qs.exact(problem, optimizer, tol=1e-9).steps_to_tol == 1
    assert qs.exact(problem, qs.HeavyBall(), tol=0).steps_to_tol == 1


def test_steps_are_sorted_and_may_be_a_single_number():
    problem = qs.case(3)
    assert_array_equal(qs.exact(problem, qs.GD(), at=[7, 3, 7]).steps, [3, 7])
    assert_array_equal(qs.exact(problem, qs.GD(), at=5).steps, [5])
    assert_array_equal(qs.exact(problem, qs.GD(), at=np.arange(3)).steps, [0, 1, 2])


@pytest.mark.slow
def test_a_large_diagonal_problem():
    """2,048 eigenvalues in each of 16 blocks, 2,000 marks: evaluated in parts, without a dense eigenproblem."""
    values = [np.geomspace(1, 1e4, 2048)] * 16
    problem = qs.BlockQuadratic.from_spectra(values, rotation=0)
    run = qs.exact(problem, qs.GD(), tol=1e-3)
    assert run.status == "converged"
    assert run.steps_to_tol > 1000


def diagonal(*values):
    return qs.BlockQuadratic.from_spectra([list(values)], rotation=0)


@pytest.mark.parametrize(
    ("problem", "optimizer", "tol"),
    [
        (qs.case(3), qs.Nesterov(), 1e-100),
        (qs.case(3), qs.HeavyBall(), 1e-100),
        (qs.case(3), qs.FrozenAdam(beta1=0.5), 1e-100),
        (diagonal(1, 4, 7), qs.FrozenAdam(), 1e-100),
        (diagonal(23.52868793525458, 433.1707761016518), qs.HeavyBall(lr=0.002308558321961523, momentum=1e-40), 1e-6),
        (diagonal(3, 10), qs.HeavyBall(lr=0.1, momentum=1e-300), 1e-6),
        (diagonal(0.114, 0.114), qs.FrozenAdam(lr=0.1, beta1=1e-300), 1e-6),
        (diagonal(1.0), qs.GD(lr=0.5), 2.0**-33),  # reached with equality
        (diagonal(3.0), qs.Nesterov(lr=1e-3, momentum=1e-100), 1e-6),
    ],
)
def test_small_tolerances_and_small_momenta_against_the_compiled_engine(problem, optimizer, tol):
    w0 = np.linspace(1, 2, problem.dim)
    assert qs.exact(problem, optimizer, w0=w0, tol=tol).steps_to_tol == (
        qs.solve(problem, optimizer, w0=w0, tol=tol, max_steps=10**6, engine="compiled").steps_to_tol
    )


def test_a_learning_rate_far_beyond_the_stability_limit_diverges_immediately():
    for problem, optimizer in (
        (diagonal(1, 1e30), qs.HeavyBall(lr=1.0, momentum=0.9)),
        (diagonal(1, 2), qs.FrozenAdam(lr=1e20, beta1=0.9)),
        (diagonal(1, 1e60), qs.GD(lr=1e300)),
        (diagonal(1, 2), qs.HeavyBall(lr=1e300)),
        (diagonal(1, 2), qs.Nesterov(lr=1e160, momentum=0.5)),
        (diagonal(1, 2), qs.BlockGD(lr=1e305)),
    ):
        run = qs.exact(problem, optimizer, w0=[1.0, 1.0])
        assert run.status == "diverged", optimizer
        assert_allclose(run.loss[0], 0.5 * sum(problem.eigenvalues[0]), rtol=1e-12)
        assert np.isfinite(run.w).all()


def test_the_best_lr_is_stable_at_every_condition_number():
    """For κ above 1/eps, lr = 2/(μ + L) rounds so that lr·L is slightly above 2: that is not divergence."""
    for kappa in 10.0 ** np.arange(14, 60, 1.5):
        problem = diagonal(1.0, 0.7 * kappa, kappa)
        for optimizer in (qs.GD(), qs.BlockGD(), qs.HeavyBall(), qs.HeavyBall(momentum=0.9), qs.FrozenAdam()):
            run = qs.exact(problem, optimizer, w0=[1.0, 1.0, 1.0], max_steps=10**6)
            assert run.status != "diverged", (kappa, optimizer)


@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e100])
def test_tiny_and_huge_starts_give_scaled_runs(size):
    """A linear method's loss scales with the square of the start; frozen Adam's lr scales with the start."""
    problem = qs.case(4, seed=2)
    e0 = problem.initial_error(1)
    for optimizer in (qs.GD(), qs.HeavyBall(), qs.Nesterov(), qs.FrozenAdam(), qs.FrozenAdam(beta1=0.5)):
        reference = qs.exact(problem, optimizer, e0=e0, at=[0, 10, 1000])
        scaled = qs.exact(problem, optimizer, e0=size * e0, at=[0, 10, 1000])
        assert_allclose(scaled.log_loss - reference.log_loss, 2 * np.log(size), rtol=1e-9)
        assert_allclose(scaled.log_grad_norm - reference.log_grad_norm, np.log(size), rtol=1e-9)
        assert scaled.steps_to_tol == reference.steps_to_tol


def test_an_unstable_mode_that_starts_far_below_the_others_is_detected():
    problem = diagonal(1, 4)
    for call in (qs.exact, qs.solve):
        assert call(problem, qs.GD(lr=0.6), w0=[1.0, 1e-170], tol=1e-300, max_steps=10**5).status == "diverged"


@pytest.mark.parametrize("small", [1e-4, 1e-8, 1e-12, 1e-16])
def test_frozen_adam_with_a_tiny_first_gradient_in_one_coordinate(small):
    """S spans as many orders of magnitude as the first gradient; its small eigenvalues are accurate nevertheless."""
    h = np.array([[2, 1, 0.5], [1, 3, 0.2], [0.5, 0.2, 1]])
    problem = qs.BlockQuadratic.from_blocks([h])
    w0 = np.linalg.solve(h, [1, -2, small])
    g = problem.grad(w0)  # in float64
    with mp.workdps(60):
        hessian, e = mp.matrix(h.tolist()), mp.matrix([mp.mpf(x) for x in w0])
        size = [abs(mp.mpf(x)) for x in g]
        lr, path = mp.mpf(0.9 * small), [e]
        for _ in range(20):
            step = hessian * path[-1]
            path.append(path[-1] - mp.matrix([lr * step[i] / size[i] for i in range(3)]))
        losses = [(p.T * hessian * p)[0] / 2 for p in path]
    run = qs.exact(problem, qs.FrozenAdam(lr=0.9 * small), w0=w0, at=range(21), tol=0)
    assert_allclose(run.loss, [float(loss) for loss in losses], rtol=1e-13)


def test_a_passage_where_two_modes_cancel_is_not_missed():
    """Frozen Adam with two modes of nearly the same frequency, whose gradients cancel for thousands of steps."""
    small, angle, apart, rest = (
        3.5598172934813546e-10,
        0.004303121038182614,
        6.352426671552254e-05,
        8.87755424727743e-11,
    )
    d = np.array([1, small])
    h = np.sqrt(np.outer(d, d)) * np.array([[1, apart], [apart, 1]])
    problem, beta1 = qs.BlockQuadratic.from_blocks([h]), 1 - rest
    optimizer = qs.FrozenAdam(lr=angle**2 / (1 - beta1), beta1=beta1)
    w0 = np.linalg.solve(h, d)
    step = qs.exact(problem, optimizer, tol=3.0231485859157353e-07, max_steps=11_700_000, w0=w0).steps_to_tol
    assert step is not None
    assert step <= 11492797


def test_a_search_that_would_take_too_long_is_refused_and_can_be_interrupted(check_refused, monkeypatch):
    """Momentum so close to 1 that the norm oscillates 10⁸ times: the work is bounded, and progress is reported."""
    optimizer = qs.HeavyBall(momentum=1 - 1e-9)
    monkeypatch.setattr("quadsim.engine.closed_form.first_passage.MAX_WORK", 10**6)
    check_refused(
        lambda: qs.exact(qs.case(3), optimizer), "the gradient norm oscillates and is not below tol in the first"
    )
    assert qs.exact(qs.case(3), optimizer, at=[10**12], tol=0).steps[-1] == 10**12

    def stop(step):
        if step > 10_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        qs.exact(qs.case(3), optimizer, progress=stop)


OSCILLATING = [
    qs.GD(lr=1e-12), qs.BlockGD(lr=1e-12), qs.HeavyBall(), qs.HeavyBall(momentum=1 - 1e-9),
    qs.HeavyBall(lr=1e-9, momentum=1 - 1e-12), qs.HeavyBall(lr=7.9e-4), qs.Nesterov(), qs.Nesterov(momentum=1 - 1e-9),
    qs.Nesterov(lr=3.9e-4), qs.Nesterov(lr=1e-9, momentum=1 - 1e-12), qs.FrozenAdam(beta1=1 - 1e-9),
    qs.FrozenAdam(lr=1e-6, beta1=1 - 1e-9),
]  # fmt: skip


@pytest.mark.parametrize("optimizer", OSCILLATING, ids=str)
def test_values_at_given_steps_need_no_search(optimizer, monkeypatch):
    """With ``at`` and no tol, the first passage is not searched for, even if the norm oscillates."""
    steps = [0, 1, 10, 10**6, 10**12]
    for name in ("search", "bisect"):
        monkeypatch.setattr(
            f"quadsim.engine.closed_form.first_passage.FirstPassage.{name}", lambda *rest: pytest.fail("searched")
        )
    run = qs.exact(qs.case(3), optimizer, at=steps)
    assert (list(run.steps), run.tol, run.steps_to_tol) == (steps, 0, None)
    assert run.status == "max-steps"
    for step in (1, 10):
        compiled = qs.solve(qs.case(3), optimizer, max_steps=step, tol=0, engine="compiled")
        assert_allclose(run.log_loss[steps.index(step)], compiled.log_loss[-1], rtol=1e-9)
    with pytest.raises(pytest.fail.Exception, match="searched"):  # negative control: with a tol there is a search
        qs.exact(qs.case(3), optimizer, at=steps, tol=1e-6)


def test_values_at_given_steps_of_a_diverging_run():
    for optimizer in (qs.GD(lr=1.0), qs.HeavyBall(lr=5e-3, momentum=0.9), qs.Nesterov(lr=5e-4)):
        run = qs.exact(qs.case(3), optimizer, at=[0, 3, 10**12])
        assert (run.status, list(run.steps), run.last_step) == ("diverged", [0, 3], 3)


def test_a_subclass_has_no_closed_form(check_refused):
    @dataclass(frozen=True)
    class Slower(qs.GD):
        name = "slower"

    assert closed_form.has_closed_form(qs.GD())
    assert not closed_form.has_closed_form(Slower())
    check_refused(lambda: qs.exact(qs.case(3), Slower()), "slower has no closed form")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: qs.exact(p, qs.Adam()), "adam has no closed form: use solve"),
        (lambda p: qs.exact(p, qs.GD(), at=[-1]), "at must be whole numbers from 0 to 1000000000000, got -1"),
        (lambda p: qs.exact(p, qs.GD(), at=[1.5]), "at must be whole numbers from 0 to 1000000000000, got 1.5"),
        (lambda p: qs.exact(p, qs.GD(), at=[10**12 + 1]), "got 1000000000001"),
        (lambda p: qs.exact(p, qs.GD(), at=[10**30]), "got 10000000000000000000000"),
        (lambda p: qs.exact(p, qs.GD(), at=np.array([3, -2])), "got -2"),
        (lambda p: qs.exact(p, qs.GD(), at=np.array([0.5, 2])), "got 0.5"),
        (lambda p: qs.exact(p, qs.GD(), at="12"), "at must be whole numbers from 0 to 1000000000000, got '12'"),
        (lambda p: qs.exact(p, qs.GD(), at=np.ones((2, 2), dtype=int)), "at must be whole numbers"),
        (lambda p: qs.exact(p, qs.GD(), at=[[1, 2], [3, 4]]), "at must be whole numbers"),
        (lambda p: qs.exact(p, qs.GD(), at=[1], record="lin"), "record must be 'log', 'coarse' or a whole number"),
        (lambda p: theory.bound(p, qs.GD(), [-1]), "must be whole numbers from 0 to 1000000000000, got -1"),
        (lambda p: theory.bound(p, qs.GD(), "a"), "must be whole numbers from 0 to 1000000000000, got 'a'"),
        (lambda p: theory.rate(None, qs.GD()), "problem must be a BlockQuadratic, got None"),
        (lambda p: qs.solve(lambda seed: p, []), "optimizer must name at least one"),
        (lambda p: qs.exact(p, qs.GD(), at=[True]), "got True"),
        (lambda p: qs.exact(p, qs.GD(), at=[]), "at least one, got none"),
        (lambda p: qs.exact(p, qs.GD(), at=[1], max_steps=3), "give at or max_steps, not both"),
        (lambda p: qs.exact(p, qs.GD(), max_steps=-3), "max_steps must be a whole number"),
        (lambda p: qs.exact(p, qs.GD(), max_steps=10**13), "max_steps must be a whole number from 0 to 1000000000000"),
        (lambda p: qs.exact(p, qs.GD(), tol=-1.0), "tol must be a finite number at least 0"),
        (lambda p: qs.exact(p, qs.GD(), w0=[1.0]), "w0 must have shape (9,)"),
        (lambda p: qs.exact(p, "gd"), "optimizer must be one such as GD() or Adam(), got 'gd'"),
        (lambda p: qs.exact(None, qs.GD()), "problem must be a BlockQuadratic, got None"),
        (lambda p: qs.exact(p, qs.HeavyBall(momentum=1.0)), "heavy-ball.momentum must be a finite number at least 0"),
        (lambda p: qs.exact(p, qs.Nesterov(lr=-1.0)), "nesterov.lr must be a finite number above 0"),
        (
            lambda p: qs.exact(qs.case(3, rotation=0), qs.FrozenAdam(), e0=[0.0] + [1.0] * 8),
            "frozen-adam divides by the first gradient, which is 0 in coordinate 0",
        ),
    ],
)
def test_errors_name_the_bad_input(call, message, check_refused):
    check_refused(lambda: call(PROBLEMS[3]), message)


@pytest.mark.slow
def test_a_missing_momentum_or_lr_is_the_best_one_for_the_other():
    """By grid search: no other momentum for that lr, or lr for that momentum, has a smaller asymptotic rate."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 5.0, 30.0]], rotation=0)
    for kind in (qs.HeavyBall, qs.Nesterov):
        given = [{"lr": 1 / 30}, {"lr": 1 / 50}, *([{"momentum": 0.3}, {"momentum": 0.8}] * (kind is qs.HeavyBall))]
        for setting in given:
            best = theory.rate(problem, kind(**setting))
            other = "momentum" if "lr" in setting else "lr"
            grid = np.linspace(0, 0.999, 2000) if other == "momentum" else np.geomspace(1e-4, 0.2, 2000)
            rates = [theory.rate(problem, kind(**setting, **{other: value})) for value in grid]
            assert best <= min(rates) * (1 + 1e-9)
            assert best >= min(rates) * (1 - 0.01)
