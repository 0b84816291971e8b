"""Schedules: the factor on the learning rate, step by step, against formulas written out and against torch's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim.optimizers.schedules import KINDS


def factors(schedule, steps):
    return schedule.factors(1, steps, steps)


def test_constant_is_one_throughout():
    assert (factors(qs.Schedule(), 50) == 1).all()
    assert not qs.Schedule().changes


def test_cosine_after_a_warm_up():
    found = factors(qs.Schedule("cosine", warmup=0.1), 100)
    assert_allclose(found[:10], np.arange(1, 11) / 10)
    assert_allclose(found[10:], [(1 + np.cos(np.pi * k / 90)) / 2 for k in range(90)])
    assert found[9] == found[10] == 1
    assert 0 < found[-1] < 1e-3


def test_linear_decay():
    assert_allclose(factors(qs.Schedule("linear"), 5), [1, 0.8, 0.6, 0.4, 0.2])


def test_one_over_the_root_of_t():
    assert_allclose(factors(qs.Schedule("sqrt"), 4), [1, 1 / np.sqrt(2), 1 / np.sqrt(3), 0.5])
    warmed = factors(qs.Schedule("sqrt", warmup=4), 16)
    assert_allclose(warmed[[0, 3, 15]], [0.25, 1, 0.5])


def test_step_decay():
    found = factors(qs.Schedule("step", every=10, drop=0.5), 30)
    assert_allclose(found, np.repeat([1, 0.5, 0.25], 10))
    assert_allclose(factors(qs.Schedule("step"), 9), np.repeat([1, 0.1, 0.01], 3))


def test_steps_of_decay_are_counted_from_the_end_of_the_warm_up():
    found = factors(qs.Schedule("step", warmup=10, every=10, drop=0.5), 40)
    assert_allclose(found, [*np.arange(1, 11) / 10, *np.repeat([1, 0.5, 0.25], 10)])
    shares = factors(qs.Schedule("step", warmup=0.1, every=0.3), 100)  # shares of the whole run
    assert_allclose(shares[10:], np.repeat([1, 0.1, 0.01], 30))


@pytest.mark.slow
@pytest.mark.parametrize(("warmup", "steps"), [(1, 30), (7, 30), (10, 11), (25, 100)])
@pytest.mark.parametrize("kind", ["constant", "cosine", "linear", "step"])
def test_warm_up_and_decay_equal_torch_sequentiallr(kind, warmup, steps):
    torch = pytest.importorskip("torch")
    lr_scheduler = torch.optim.lr_scheduler
    optimizer = torch.optim.SGD([torch.zeros(1, dtype=torch.float64, requires_grad=True)], lr=1.0)
    decay = {
        "constant": lambda: lr_scheduler.ConstantLR(optimizer, factor=1.0),
        "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, steps - warmup),
        "linear": lambda: lr_scheduler.LinearLR(optimizer, 1.0, 0.0, steps - warmup),
        "step": lambda: lr_scheduler.StepLR(optimizer, 4, 0.3),
    }[kind]()
    rise = lr_scheduler.LambdaLR(optimizer, lambda k: (k + 1) / warmup)
    theirs = lr_scheduler.SequentialLR(optimizer, [rise, decay], milestones=[warmup])
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        theirs.step()
    assert_allclose(factors(qs.Schedule(kind, warmup=warmup, every=4, drop=0.3), steps), rates, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("warmup", "steps"), [(1, 30), (7, 30), (10, 11), (25, 100)])
@pytest.mark.parametrize("kind", ["constant", "cosine", "linear", "step"])
def test_warm_up_and_decay_equal_optax_join_schedules(kind, warmup, steps):
    optax = pytest.importorskip("optax")
    decay = {
        "constant": lambda: optax.constant_schedule(1.0),
        "cosine": lambda: optax.cosine_decay_schedule(1.0, steps - warmup),
        "linear": lambda: optax.linear_schedule(1.0, 0.0, steps - warmup),
        "step": lambda: optax.exponential_decay(1.0, 4, 0.3, staircase=True),
    }[kind]()
    joined = optax.join_schedules([lambda count: (count + 1) / warmup, decay], [warmup])
    theirs = [float(joined(count)) for count in range(steps)]
    assert_allclose(factors(qs.Schedule(kind, warmup=warmup, every=4, drop=0.3), steps), theirs, rtol=2e-5, atol=1e-6)


@given(st.sampled_from(KINDS), st.integers(2, 400), st.floats(0, 0.9), st.data())
def test_a_slice_is_part_of_the_whole(kind, steps, warmup, data):
    """Runs compute factors slice by slice: the numbers are the same, and within [0, 1]."""
    schedule = qs.Schedule(kind, warmup=warmup)
    whole = factors(schedule, steps)
    first = data.draw(st.integers(1, steps))
    last = data.draw(st.integers(first, steps))
    assert (schedule.factors(first, last, steps) == whole[first - 1 : last]).all()
    assert ((whole >= 0) & (whole <= 1)).all()


@pytest.mark.parametrize("kind", ["cosine", "linear", "sqrt", "step"])
@pytest.mark.parametrize("optimizer", [qs.GD(lr=1e-4), qs.Adam(lr=0.05)], ids=lambda o: o.name)
def test_runs_follow_the_schedule(kind, optimizer, monkeypatch):
    """Against a loop in numpy; the run consists of many slices."""
    monkeypatch.setattr("quadsim.engine.compiled.batching.SLICE_SECONDS", 1e-9)
    monkeypatch.setattr("quadsim.engine.compiled.batching.FIRST_SLICE_WORK", 1)
    problem, schedule = qs.case(3, seed=2), qs.Schedule(kind, warmup=0.05)
    run = qs.solve(problem, optimizer, schedule=schedule, max_steps=120, tol=0, record=1)
    e, m, v, losses = problem.initial_error(0), 0.0, 0.0, []
    for t, factor in enumerate([*factors(schedule, 120), 0.0], start=1):
        losses.append(0.5 * e @ problem.hvp(e))
        g = problem.hvp(e)
        if optimizer.name == "gd":
            e = e - optimizer.lr * factor * g
            continue
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        e = e - optimizer.lr * factor * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    assert_allclose(run.loss, losses, rtol=1e-10)
    assert str(run.schedule).startswith(kind)
    constant = qs.solve(problem, optimizer, max_steps=120, tol=0, record=1, engine="compiled")
    assert abs(constant.loss[-1] / losses[-1] - 1) > 1e-3  # the control: another schedule is another run


def test_a_constant_schedule_changes_no_bit():
    problem = qs.case(4)
    plain = qs.solve(problem, qs.Adam(lr=0.01), max_steps=200, tol=0)
    explicit = qs.solve(problem, qs.Adam(lr=0.01), max_steps=200, tol=0, schedule="constant")
    assert (plain.loss == explicit.loss).all()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: qs.Schedule("cos"), "did you mean cosine?"),
        (lambda: qs.Schedule("cosine", warmup=-1), "warmup must be a finite number at least 0"),
        (lambda: qs.Schedule("step", every=0), "every must be a finite number above 0"),
        (lambda: qs.Schedule("step", drop=1.5), "at most 1"),
        (lambda: qs.solve(qs.case(3), qs.GD(), schedule="cosin"), "did you mean cosine?"),
        (lambda: qs.solve(qs.case(3), qs.GD(), schedule=qs.Schedule(warmup=10), max_steps=10), "before the last step"),
    ],
)
def test_bad_schedules(make, sentence, check_refused):
    check_refused(make, sentence)
