"""The expected time of a sweep: which kernels it will compile, what that takes, and how fast the machine is."""

import numpy as np
import pytest

from quadsim.engine.compiled import batching, compiler
from quadsim.engine.compiled.kernel_source import Form
from quadsim.optimizers import GD, Adam, Muon
from quadsim.sweeps import pilot
from quadsim.sweeps.grid import Grid


@pytest.fixture
def nothing_compiled(monkeypatch):
    monkeypatch.setattr(compiler, "is_compiled", lambda kind, *form: False)


LONG, SHORT = 10**9, 100


def test_cold_forms_are_those_of_the_batches(nothing_compiled):
    """14 lanes run as 8 and 6: with two values of beta1 these are two kernels."""
    optimizers = [Adam(lr=lr, beta1=beta1) for beta1 in (0.0, 0.9) for lr in np.geomspace(1e-3, 1, 7)]
    found = batching.cold_forms(optimizers, False, LONG, (6, 18), 0.0)
    lanes = [batching.Lane(one, np.zeros(6), 0) for one in optimizers]
    used = {Form(8, False, batching._share_settings(batch)) for batch in batching.cut(lanes)}
    assert found == used == {Form(8, False, False), Form(8, False, True)}


def test_short_runs_compile_the_generic_kernel_and_others_if_there_are_many(nothing_compiled):
    generic = Form(1, False, generic=True)
    assert batching.cold_forms([Adam()], False, SHORT, (9, 27), 0.1) == {generic}
    assert batching.cold_forms([Adam()], False, SHORT, (9, 27), 1.0) == {generic, Form(1, False, True)}
    assert batching.cold_forms([Adam()], False, LONG, (9, 27), 0.0) == {Form(1, False, True)}


def test_a_compiled_form_is_not_cold(monkeypatch):
    monkeypatch.setattr(compiler, "is_compiled", lambda kind, *form: True)
    assert batching.cold_forms([Adam()], False, LONG, (9, 27), 10.0) == set()


def test_longer_rules_and_noise_take_longer_to_compile():
    form = Form(8, False, True)
    assert pilot.compile_seconds(GD, form) < pilot.compile_seconds(Adam, form) < pilot.compile_seconds(Muon, form)
    for one in (form, Form(1, generic=True)):
        assert pilot.compile_seconds(GD, one) < pilot.compile_seconds(GD, one._replace(noisy=True))


@pytest.mark.parametrize("share", [1, 4])
def test_calibration_counts_the_processor_time_that_others_use(monkeypatch, share):
    class Clock:
        used = 0.0

        def thread_time(self):
            self.used += 0.001
            return self.used

        def perf_counter(self):
            return share * self.used

    monkeypatch.setattr(pilot, "time", Clock())
    assert pilot._calibrate() == pytest.approx(0.001 * share, rel=0.2)


def test_a_sweep_is_never_expected_to_take_no_time(monkeypatch):
    """Loading pandas and the table of results take a part of a second."""
    monkeypatch.setattr(pilot, "_calibrate", lambda: pilot.REFERENCE_SECONDS)
    grid = Grid.read({"case": "3", "optimizers": "gd", "seed": "0"}, 10)
    assert pilot.END_SECONDS <= pilot.expected_seconds(grid, grid.cells, 1) < 5
    assert pilot.expected_seconds(grid, 0, 1) == 0


def test_processes_and_a_local_cluster_take_time_to_start(monkeypatch):
    monkeypatch.setattr(pilot, "_calibrate", lambda: pilot.REFERENCE_SECONDS)
    monkeypatch.setattr(pilot, "cores", lambda: 2)
    monkeypatch.setattr(pilot, "time", type("Stopped", (), {"perf_counter": staticmethod(lambda: 0.0)}))
    monkeypatch.setattr(pilot, "_add", lambda *_: None)  # no sample: the model alone
    grid = Grid.read({"case": "3", "optimizers": "gd", "seed": "0"}, 10)
    for starts, seconds in pilot.START_SECONDS.items():
        for workers, rounds in ((2, 1), (4, 2)):
            without = pilot.expected_seconds(grid, 1, workers, threads=False)
            taken = pilot.expected_seconds(grid, 1, workers, threads=False, starts=starts)
            assert taken - without == pytest.approx(rounds * seconds)
