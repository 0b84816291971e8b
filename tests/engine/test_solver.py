"""`solve`: stopping, statuses, recording, lanes, bad input."""

import numpy as np
import oracles
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim.engine.trajectory import MAX_RECORDED, record_marks

PROBLEM = qs.case(3, seed=0)
E0 = PROBLEM.initial_error(0)
ONE = qs.BlockQuadratic.from_spectra([[2.0]])


def test_steps_to_tol_is_the_first_step_whatever_is_recorded():
    path = oracles.gd(PROBLEM.hessian(), E0, 40_000, qs.GD().with_best_lr(PROBLEM, E0).lr)
    _, norms = oracles.measures(PROBLEM.hessian(), path)
    for tol in (0.5, 1e-2, 1e-6):
        expected = int(np.argmax(norms <= tol * norms[0]))
        for record in ("log", 25, 10_000):
            run = qs.solve(PROBLEM, qs.GD(), tol=tol, record=record, engine="compiled")
            assert run.steps_to_tol == run.last_step == run.steps[-1] == expected
            assert run.status is qs.Status.CONVERGED


def test_the_last_recorded_values_belong_to_the_last_point():
    run = qs.solve(PROBLEM, qs.FrozenAdam(), engine="compiled")
    assert_allclose(PROBLEM.loss(run.w), run.loss[-1], rtol=1e-9)
    assert_allclose(np.linalg.norm(PROBLEM.grad(run.w)), run.grad_norm[-1], rtol=1e-9)
    assert run.grad_norm[-1] <= 1e-6 * run.grad_norm[0]


def test_max_steps():
    run = qs.solve(PROBLEM, qs.GD(), max_steps=123, engine="compiled")
    assert (run.status, run.last_step, run.steps_to_tol) == (qs.Status.MAX_STEPS, 123, None)
    none = qs.solve(PROBLEM, qs.GD(), max_steps=0, engine="compiled")
    assert (none.status, none.last_step) == (qs.Status.MAX_STEPS, 0)
    assert_array_equal(none.w, PROBLEM.start(0))


def test_divergence_is_a_status_and_its_record_is_finite():
    run = qs.solve(PROBLEM, qs.GD(lr=1e-2), tol=0, engine="compiled")
    assert run.status is qs.Status.DIVERGED
    assert run.steps_to_tol is None
    assert np.isfinite(run.loss).all()
    assert run.loss[-1] > 1e80 * run.loss[0]
    wild = qs.solve(PROBLEM, qs.GD(lr=1e300), tol=0, engine="compiled")
    assert (wild.status, wild.last_step) == (qs.Status.DIVERGED, 1)
    assert np.isfinite(wild.loss).all()


def test_bounded_growth_is_no_divergence():
    """From a start at distance 1e-12, Adam first moves away by its own step size: a factor 1e18 in the loss."""
    run = qs.solve(PROBLEM, qs.Adam(lr=1e-2, beta2=0.9), e0=np.full(9, 1e-12), tol=0, max_steps=2000)
    assert run.status is qs.Status.MAX_STEPS
    assert run.loss.max() > 1e15 * run.loss[0]


def test_a_start_at_the_minimizer_has_converged():
    for optimizer in (qs.GD(), qs.FrozenAdam(), qs.Adam()):
        run = qs.solve(PROBLEM, optimizer, w0=PROBLEM.minimizer, engine="compiled")
        assert (run.status, run.steps_to_tol) == (qs.Status.CONVERGED, 0)


def test_adam_underflows_at_beta2_of_0_999():
    """β2 = 0.999 in one dimension: v lags, w underflows, and would stay at 0 (ledger 5i)."""
    ended = [
        qs.solve(ONE, qs.Adam(lr=1e-2, beta1=0, eps=0), seed=seed, tol=0, max_steps=100_000).status
        for seed in range(12)
    ]
    assert ended.count(qs.Status.UNDERFLOW) >= 8  # 94.5 % of runs, by the ledger
    assert qs.Status.CONVERGED not in ended
    safe = [
        qs.solve(ONE, qs.Adam(lr=1e-2, beta1=0, beta2=0.99, eps=0), seed=s, tol=0, max_steps=20_000) for s in range(12)
    ]
    assert {run.status for run in safe} == {qs.Status.MAX_STEPS}
    for run in safe:  # it returns to the 2-cycle ±lr/2 (5c) from as low as 1e-213, where a square would be 0
        assert_allclose(np.abs(run.w), 5e-3, rtol=1e-9)
        assert run.grad_norm.min() > 0
    assert min(run.grad_norm.min() for run in safe) < 1e-170


def test_one_block_that_underflows_ends_adam_but_not_gd():
    problem = qs.BlockQuadratic.from_spectra([[1.0], [1.0, 1.5]], rotation=0)
    assert qs.solve(problem, qs.Adam(lr=1e-2, beta1=0, eps=0), tol=0, max_steps=100_000).status is qs.Status.UNDERFLOW
    # GD at lr = 1 puts the first block exactly on its minimum, which is correct
    run = qs.solve(problem, qs.GD(lr=1.0), tol=1e-8, engine="compiled")
    assert run.status is qs.Status.CONVERGED
    # a block that starts at its minimum has not underflowed
    run = qs.solve(problem, qs.Adam(lr=1e-2, beta2=0.9), w0=[0, 1, 1], tol=0, max_steps=500)
    assert run.status is qs.Status.MAX_STEPS


def test_one_coordinate_of_a_diagonal_block_that_underflows_is_enough():
    """Its coordinates are independent: the block as a whole never underflows, each coordinate does."""
    problem = qs.BlockQuadratic.from_spectra([[1, 2, 3]], rotation=0)
    assert list(problem.units()) == [0, 1, 2]
    assert list(qs.case(3).units()) == [0] * 3 + [1] * 3 + [2] * 3
    adam = qs.Adam(lr=0.01, beta1=0, beta2=0.999, eps=0)
    ended = {qs.solve(problem, adam, seed=seed, tol=0, max_steps=60_000).status for seed in range(12)}
    assert ended == {qs.Status.UNDERFLOW}


def test_a_gradient_that_underflows_first_is_no_convergence():
    problem = qs.BlockQuadratic.from_spectra([[1e-40]])
    run = qs.solve(problem, qs.GD(lr=0.5e40), tol=0, engine="compiled")
    assert run.status is qs.Status.UNDERFLOW
    assert run.w[0] != 0


def test_adam_without_eps_does_not_move_a_coordinate_without_gradient():
    problem = qs.BlockQuadratic.from_spectra([[1, 2, 3]], rotation=0)
    run = qs.solve(problem, qs.Adam(lr=1e-3, eps=0), w0=[0, 1, 1], tol=0, max_steps=200)
    assert run.status is qs.Status.MAX_STEPS
    assert run.w[0] == 0
    lands = qs.solve(problem, qs.Adam(lr=0.5, beta1=0, beta2=0, eps=0), w0=[1, 0.7, 0.3], tol=0, max_steps=50)
    assert lands.status is qs.Status.MAX_STEPS


def test_gd_without_tol_ends_in_underflow():
    run = qs.solve(PROBLEM, qs.BlockGD(), tol=0, engine="compiled")
    assert run.status is qs.Status.UNDERFLOW
    assert run.last_step < 2000


def test_tiny_tolerances_do_not_underflow():
    """1e-200 squared is 0, but the first step at or below it is found: GD on one eigenvalue contracts by ½."""
    problem = qs.BlockQuadratic.from_spectra([[1.0, 1.0]], rotation=0)
    run = qs.solve(problem, qs.GD(lr=0.5), w0=[1, 1], tol=1e-200, engine="compiled")
    assert run.steps_to_tol == int(np.ceil(200 * np.log2(10)))


@given(st.integers(0, 10**12), st.one_of(st.sampled_from(["log", "coarse"]), st.integers(1, 10**12)))
def test_recording_is_bounded(max_steps, record):
    if isinstance(record, int) and max_steps // record >= MAX_RECORDED:
        with pytest.raises(ValueError, match="or record='log'"):
            record_marks(record, max_steps)
        return
    marks = record_marks(record, max_steps)
    assert marks.size <= MAX_RECORDED
    assert marks[0] == 0
    assert (np.diff(marks) > 0).all()
    assert marks[-1] <= max_steps


@pytest.mark.parametrize(("record", "points"), [("log", 2000), ("coarse", 64)])
def test_marks_are_those_of_geomspace(record, points):
    for max_steps in (0, 1, 2, 63, 1000, 123_456, 10**9, 10**12):
        spaced = np.geomspace(1, max(max_steps, 1), points).round().astype(np.int64)
        marks = record_marks(record, max_steps)
        assert_array_equal(marks, np.unique([0, *spaced[spaced <= max_steps]]))
        with pytest.raises(ValueError, match="read-only"):
            marks[0] = 1  # the cached array is shared


def test_a_coarse_record_changes_only_the_recorded_steps():
    fine, coarse = (
        qs.solve(PROBLEM, qs.GD(), record=record, max_steps=10**5, engine="compiled") for record in ("log", "coarse")
    )
    assert coarse.steps.size <= 66
    assert coarse.steps[0] == 0
    assert (coarse.steps_to_tol, coarse.last_step) == (fine.steps_to_tol, fine.last_step)
    assert (coarse.loss[-1], coarse.grad_norm[-1]) == (fine.loss[-1], fine.grad_norm[-1])


def test_a_long_run_records_a_few_thousand_points():
    run = qs.solve(PROBLEM, qs.GD(lr=1e-9), tol=0, max_steps=1_000_000, engine="compiled")
    assert run.last_step == 1_000_000
    assert len(run.steps) < 2100
    assert_array_equal(run.steps[:100], np.arange(100))


def same(one, other):
    """Bit-identical runs."""
    for name in ("steps", "loss", "grad_norm", "log_loss", "w", "w0", "error"):
        assert_array_equal(getattr(one, name), getattr(other, name))
    names = ("status", "steps_to_tol", "last_step", "optimizer", "problem", "seed", "tol", "max_steps", "engine")
    assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]


OPTIMIZERS = [qs.GD(), qs.Adam(lr=0.01), qs.FrozenAdam(), qs.Magma(lr=0.01)]  # both engines, and a random rule


@pytest.mark.parametrize("problem", [PROBLEM, lambda seed: qs.case(4, seed=seed)], ids=["fixed", "drawn"])
@pytest.mark.parametrize("engine", ["auto", "compiled"])
def test_lists_give_the_same_runs_as_single_calls(problem, engine):
    """In the order of the seeds, and of the optimizers within each; bit-identical."""
    how = {"engine": engine, "max_steps": 300, "start": 2.0}
    runs = qs.solve(problem, OPTIMIZERS, seed=[3, 1], **how)
    assert isinstance(runs, qs.Runs)
    assert [(run.seed, run.optimizer.name) for run in runs] == [
        (seed, optimizer.name) for seed in (3, 1) for optimizer in OPTIMIZERS
    ]
    alone = [qs.solve(problem, optimizer, seed=seed, **how) for seed in (3, 1) for optimizer in OPTIMIZERS]
    for one, other in zip(runs, alone, strict=True):
        assert isinstance(other, qs.Trajectory)
        same(one, other)


def test_any_list_gives_runs():
    for how in ({"seed": [0]}, {"seed": range(1)}, {"seed": np.array([0])}, {"w0": np.ones((1, 9))}):
        for run in (qs.solve(PROBLEM, qs.GD(), max_steps=3, **how), qs.solve(PROBLEM, [qs.GD()], max_steps=3, **how)):
            assert isinstance(run, qs.Runs)
            assert (len(run), len(run[:1])) == (1, 1)
    assert isinstance(qs.solve(PROBLEM, [qs.GD()], max_steps=3), qs.Runs)
    assert isinstance(qs.solve(PROBLEM, qs.GD(), max_steps=3, w0=np.ones(9), seed=np.int64(2)), qs.Trajectory)


@pytest.mark.parametrize("name", ["w0", "e0"])
def test_starts_by_seed_and_by_optimizer(name):
    starts = np.random.default_rng(0).standard_normal((2, 3, 9))
    optimizers = [qs.GD(), qs.Adam(), qs.Magma(lr=0.1)]
    how = {"max_steps": 50, "tol": 0}
    by_seed, one = np.repeat(starts[:, :1], 3, axis=1), np.broadcast_to(starts[0, 0], starts.shape)
    for passed, expected in (
        (starts, starts),
        (starts.tolist(), starts),
        (list(starts[:, 0]), by_seed),
        (one[0, 0], one),
    ):
        runs = qs.solve(PROBLEM, optimizers, seed=[5, 6], **{name: passed}, **how)
        for index, run in enumerate(runs):
            row, k = divmod(index, 3)
            same(run, qs.solve(PROBLEM, optimizers[k], seed=5 + row, **{name: expected[row, k]}, **how))
    runs = qs.solve(PROBLEM, optimizers[2], seed=5, **{name: starts[:, 0]}, **how)  # one seed for all starts
    assert [run.seed for run in runs] == [5, 5]
    drawn = qs.solve(lambda seed: PROBLEM, optimizers[1], seed=[5, 6], **{name: starts[:, 0]}, **how)
    assert [run.seed for run in drawn] == [5, 6]  # the seed drew the problem
    assert_array_equal(drawn[1].w, qs.solve(PROBLEM, optimizers[1], **{name: starts[1, 0]}, **how).w)


def test_the_engine_depends_on_the_optimizer_noise_and_schedule():
    def engine(optimizer, **how):
        return qs.solve(PROBLEM, optimizer, max_steps=20, **how).engine

    for optimizer in (qs.GD(), qs.BlockGD(), qs.HeavyBall(), qs.FrozenAdam()):
        assert engine(optimizer) == engine(optimizer, engine="closed-form") == "closed-form"
        assert engine(optimizer, engine="compiled") == engine(optimizer, schedule="cosine") == "compiled"
    assert engine(qs.GD(), noise=qs.Noise(batch=3)) == "compiled"
    assert engine(qs.Adam()) == "compiled"
    derived = type("Derived", (qs.GD,), {"name": "derived"})  # which may have another rule
    assert engine(derived(lr=1e-4)) == "compiled"


def test_the_default_limit_on_steps():
    slow = qs.GD(lr=1e-9)
    assert qs.solve(PROBLEM, slow).steps_to_tol > 10**8  # no limit
    assert qs.solve(PROBLEM, slow, engine="compiled").last_step == 100_000
    for engine in ("auto", "closed-form", "compiled"):
        assert qs.solve(PROBLEM, slow, tol=0, engine=engine).last_step == 100_000
        assert qs.solve(PROBLEM, slow, max_steps=70, engine=engine).last_step == 70


def test_solve_and_exact_give_the_same_closed_forms():
    for how in ({}, {"max_steps": 500}, {"tol": 1e-9, "record": "coarse"}):
        same(qs.solve(PROBLEM, qs.HeavyBall(), seed=4, **how), qs.exact(PROBLEM, qs.HeavyBall(), seed=4, **how))


def test_progress_reports_the_step_for_a_fixed_problem():
    steps = []
    qs.solve(PROBLEM, [qs.GD(), qs.Adam()], max_steps=50, tol=0, threads=1, progress=steps.append)
    assert steps == [0, 50]  # the closed form has no search at tol=0


def test_the_table_of_several_runs():
    rates = [1e-4, 1e-3, 1e-1]
    optimizers = [*(qs.GD(lr=lr) for lr in rates), qs.Adam()]
    lanes = qs.solve(PROBLEM, optimizers, seed=7, max_steps=500, engine="compiled")
    table = lanes.table()
    assert list(table["optimizer"]) == ["gd", "gd", "gd", "adam"]
    assert list(table["lr"]) == [*rates, 1e-3]
    assert list(table["status"]) == ["max-steps", "diverged", "diverged", "max-steps"]
    assert table["steps_to_tol"].isna().all()
    assert list(table["seed"]) == [7] * 4
    assert len(lanes) == 4
    assert [run.lr for run in lanes][:3] == rates


def test_each_start_gets_the_best_lr_for_it():
    lanes = qs.solve(PROBLEM, qs.FrozenAdam(), seed=range(10), engine="compiled")
    assert len({run.lr for run in lanes}) == 10
    for seed, run in enumerate(lanes):
        assert run.lr == qs.solve(PROBLEM, qs.FrozenAdam(), seed=seed, engine="compiled").lr


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=6), min_size=1, max_size=4),
    st.integers(0, 10**6),
    st.sampled_from([qs.GD(), qs.BlockGD(), qs.FrozenAdam(), qs.Adam(lr=0.1)]),
)
def test_every_run_ends_in_a_status_with_a_finite_record(spectra, seed, optimizer):
    problem = qs.BlockQuadratic.from_spectra(spectra, seed=seed)
    run = qs.solve(problem, optimizer, seed=seed, max_steps=500, engine="compiled")
    assert isinstance(run.status, qs.Status)
    assert np.isfinite(run.loss).all()
    assert np.isfinite(run.grad_norm).all()
    assert (np.diff(run.steps) > 0).all()
    assert run.steps[0] == 0
    assert (run.status is qs.Status.CONVERGED) == (run.grad_norm[-1] <= 1e-6 * run.grad_norm[0])


def test_tol_1_is_reached_at_step_0():
    """The kernel computes the first norm too: another order of summation would break equality by rounding."""
    for seed in range(40):
        assert qs.solve(PROBLEM, qs.GD(), seed=seed, tol=1.0, engine="compiled").steps_to_tol == 0


@pytest.mark.parametrize("size", [1e150, 1e200, 1e308])
def test_a_start_whose_loss_overflows_has_diverged(size):
    run = qs.solve(PROBLEM, qs.GD(), e0=np.full(9, size), max_steps=10, engine="compiled")
    assert run.status in (qs.Status.DIVERGED, qs.Status.MAX_STEPS)
    assert (run.status is qs.Status.DIVERGED) == (size > 1e150)
    assert np.isfinite(run.loss).all()


def test_a_lane_s_underflow_does_not_depend_on_when_other_lanes_are_checked(fastest_kernels):
    problem = qs.BlockQuadratic.from_spectra([[1.0], [1e-3]], rotation=0)

    def adam(lr):
        return qs.Adam(lr=lr, beta1=0, beta2=0, eps=1.0, bias_correction=False)

    alone = qs.solve(problem, adam(0.01), w0=[5e-290, 1.0], tol=1e-3, max_steps=5000)
    starts = [[[5e-290, 1.0], [0, 1.0], [0, 1.0], [0, 1.0]]]  # one for each optimizer
    beside = qs.solve(problem, [adam(lr) for lr in (0.01, 40, 41, 42.5)], w0=starts, tol=1e-3, max_steps=5000)[0]
    assert (alone.status, alone.last_step) == (beside.status, beside.last_step)
    assert_array_equal(alone.w, beside.w)
    assert alone.status is qs.Status.UNDERFLOW


def test_ctrl_c_reaches_every_thread():
    """KeyboardInterrupt while the pool is running ends the call within a few slices, not after 10¹¹ steps."""
    calls = []

    def interrupt(step):
        calls.append(step)
        raise KeyboardInterrupt

    lanes = [qs.GD(lr=1e-9 * k) for k in range(1, 65)]
    with pytest.raises(KeyboardInterrupt):
        qs.solve(PROBLEM, lanes, tol=0, max_steps=10**11, engine="compiled", threads=2, progress=interrupt)
    assert len(calls) <= 8  # at most one for each batch


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=[1, 2]), "w0 must have shape (9,), got shape (2,)"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=np.full(9, np.nan)), "w0 must be finite, got nan"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=np.ones(9) * 1j), "w0 must be 9 numbers, got"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=["1"] * 9), "w0 must be 9 numbers, got"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=[None] * 9), "w0 must be 9 numbers, got"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=[10**400] * 9), "w0 must be 9 numbers, got"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=np.ma.array(np.ones(9), mask=[1, *[0] * 8])), "w0 must be 9 numbers"),
        (lambda: qs.solve(PROBLEM, qs.GD(), progress=5), "progress must be a function"),
        (lambda: qs.solve(PROBLEM, None), "optimizer must be one such as GD() or Adam(), got None"),
        (lambda: qs.solve(PROBLEM, qs.GD), "optimizer must be one such as GD() or Adam(), got"),
        (lambda: qs.solve(PROBLEM, [qs.GD(), "gd"]), "optimizer must be one such as GD() or Adam(), got 'gd'"),
        (lambda: qs.solve(PROBLEM, qs.GD(), seed="x"), "seed must be whole numbers such as 7, 0..29 or 3,5,8"),
        (lambda: qs.solve(PROBLEM, qs.GD(), seed=[1, 2.5]), "seed must be a whole number"),
        (lambda: qs.solve(PROBLEM, qs.GD(), seed=[]), "seed must hold at least 1 seed, got 0"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=5), "w0 must have shape (9,)"),
        (lambda: qs.solve(PROBLEM, qs.GD(), w0=[]), "w0 must have shape (9,)"),
        (lambda: qs.solve(PROBLEM, qs.GD(), e0=np.ones((0, 9))), "e0 must hold at least one start"),
        (lambda: qs.solve(PROBLEM, qs.GD(), e0=np.ones((2, 8))), "e0 must have shape (9,), got shape (8,)"),
        (lambda: qs.solve(PROBLEM, qs.GD(), record=np.array([1, 2])), "record must be a whole number"),
        (lambda: qs.solve(PROBLEM, qs.GD(), tol=-1), "tol must be a finite number at least 0, got -1"),
        (lambda: qs.solve(PROBLEM, qs.GD(), max_steps=-1), "max_steps must be a whole number from 0 to"),
        (lambda: qs.solve(PROBLEM, qs.GD(), max_steps=1.5), "max_steps must be a whole number"),
        (lambda: qs.solve(PROBLEM, qs.GD(), record=10, engine="compiled"), "use record=25 or more"),
        (lambda: qs.solve(PROBLEM, qs.GD(), record="all"), "record must be 'log', 'coarse' or a whole number"),
        (lambda: qs.solve(PROBLEM, "gd"), "optimizer must be one such as GD() or Adam(), got 'gd'"),
        (lambda: qs.solve(3, qs.GD()), "problem must be a BlockQuadratic or a function of the seed, got 3"),
        (
            lambda: qs.solve(PROBLEM, qs.GD(), seed=-3),
            "seed must be a whole number from 0 to 9223372036854775807, got -3",
        ),
        (lambda: qs.solve(lambda seed: 3, qs.GD()), "problem(seed) must return a BlockQuadratic, got 3"),
        (lambda: qs.solve(PROBLEM, []), "optimizer must name at least one"),
        (lambda: qs.solve(PROBLEM, qs.GD(), e0=np.ones((3, 9)), seed=[1, 2]), "3 starts and 2 seeds do not match"),
        (lambda: qs.solve(PROBLEM, qs.GD(), e0=np.ones((1, 2, 9))), "one start for each of 1 optimizers in each row"),
        (lambda: qs.solve(PROBLEM, qs.GD(), engine="exact"), "unknown engine 'exact'"),
        (lambda: qs.solve(PROBLEM, qs.Adam(), engine="closed-form"), "adam has no closed form: use engine=compiled"),
        (lambda: qs.solve(PROBLEM, qs.GD(), schedule="cosine", engine="closed-form"), "neither noise nor a changing"),
        (lambda: qs.solve(PROBLEM, qs.GD(), start="elsewhere"), "unknown start 'elsewhere'"),
        (lambda: qs.solve(qs.case(3, rotation=0), qs.FrozenAdam(), e0=[0, *[1] * 8]), "which is 0 in coordinate 0"),
        (lambda: qs.solve(PROBLEM, qs.BlockGD(lr=[1, 2])), "one for each of 3 blocks, got 2"),
    ],
)
def test_errors_name_the_bad_input(call, message, check_refused):
    check_refused(call, message)
