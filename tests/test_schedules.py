"""Schedules: the factor on the learning rate, step by step, against formulas written out and against torch's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim.schedules import KINDS


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


def test_drops():
    found = factors(qs.Schedule("step", every=10, drop=0.5), 30)
    assert_allclose(found, np.repeat([1, 0.5, 0.25], 10))
    assert_allclose(factors(qs.Schedule("step"), 9), np.repeat([1, 0.1, 0.01], 3))


@given(st.sampled_from(KINDS), st.integers(2, 400), st.floats(0, 0.9), st.data())
def test_a_slice_is_part_of_the_whole(kind, steps, warmup, data):
    """Factors are computed slice by slice on the way: the same numbers, within [0, 1]."""
    schedule = qs.Schedule(kind, warmup=warmup)
    whole = factors(schedule, steps)
    first = data.draw(st.integers(1, steps))
    last = data.draw(st.integers(first, steps))
    assert (schedule.factors(first, last, steps) == whole[first - 1 : last]).all()
    assert ((whole >= 0) & (whole <= 1)).all()


@pytest.mark.parametrize("kind", ["cosine", "linear", "sqrt", "step"])
@pytest.mark.parametrize("optimizer", [qs.GD(lr=1e-4), qs.Adam(lr=0.05)], ids=lambda o: o.name)
def test_runs_follow_the_schedule(kind, optimizer, monkeypatch):
    """Against a loop in numpy; the run is cut into many slices on the way."""
    monkeypatch.setattr("quadsim.tiles.SLICE_SECONDS", 1e-9)
    monkeypatch.setattr("quadsim.tiles.FIRST_SLICE", 1)
    problem, schedule = qs.case(3, seed=2), qs.Schedule(kind, warmup=0.05)
    run = qs.solve(problem, optimizer, schedule=schedule, max_steps=120, tol=0, record=1)
    e, m, v, losses = problem.start(0), 0.0, 0.0, []
    for t, factor in enumerate([*factors(schedule, 120), 0.0], start=1):
        losses.append(problem.loss(e))
        g = problem.curvature(e)
        if optimizer.name == "gd":
            e = e - optimizer.lr * factor * g
            continue
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        e = e - optimizer.lr * factor * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    assert_allclose(run.loss, losses, rtol=1e-10)
    assert str(run.schedule).startswith(kind)
    constant = qs.solve(problem, optimizer, max_steps=120, tol=0, record=1)
    assert abs(constant.loss[-1] / losses[-1] - 1) > 1e-3  # the control: another schedule is another run


def test_a_constant_schedule_changes_no_bit():
    problem = qs.case(4)
    plain = qs.solve(problem, qs.Adam(lr=0.01), max_steps=200, tol=0)
    said = qs.solve(problem, qs.Adam(lr=0.01), max_steps=200, tol=0, schedule="constant")
    assert (plain.loss == said.loss).all()


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
