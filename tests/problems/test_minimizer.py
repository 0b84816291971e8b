"""The minimizer: drawn by default for published problems, and without effect on translation-invariant optimizers."""

import json
import subprocess
import sys

import numpy as np
import pytest
from kernels import compiled
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim._random import stream
from quadsim.optimizers import OPTIMIZERS
from quadsim.problems.noise import Noise

DECAYING = [name for name, kind in OPTIMIZERS.items() if "weight_decay" in kind().settings()]


def settings_of(name):
    """Each optimizer with a suitable learning rate, with and without weight decay where it has one."""
    made = OPTIMIZERS[name](lr=1e-3) if OPTIMIZERS[name]().lr is None else OPTIMIZERS[name]()
    if name not in DECAYING:
        return [made]
    return [OPTIMIZERS[name](lr=made.lr, weight_decay=decay) for decay in (0.0, 1.0)]


def both(optimizer, **how):
    zero, gaussian = (qs.case(4, seed=3, kappa=50, minimizer=kind) for kind in ("zero", "gaussian"))
    how = {"max_steps": 200, "tol": 0, "record": 1, "seed": 5} | how
    return qs.solve(zero, optimizer, **how, engine="compiled"), qs.solve(gaussian, optimizer, **how, engine="compiled")


@pytest.mark.parametrize("optimizer", compiled(one for name in OPTIMIZERS for one in settings_of(name)))
def test_translation_invariance_is_as_declared(optimizer):
    """Bit-identical paths of the error for two minimizers, or different ones, as the optimizer says."""
    zero, gaussian = both(optimizer)
    if optimizer.translation_invariant:
        for name in ("loss", "grad_norm", "error", "steps"):
            assert_array_equal(getattr(zero, name), getattr(gaussian, name))
    else:
        assert optimizer.weight_decay > 0
        assert np.abs(zero.loss / gaussian.loss - 1).max() > 1e-4  # rounding makes 1e-13


def test_weight_decay_alone_decides():
    """Computed for all built-in optimizers: only weight decay makes one depend on the minimizer."""
    for name in OPTIMIZERS:
        if OPTIMIZERS[name].user_defined:
            continue
        for optimizer in settings_of(name):
            assert optimizer.translation_invariant == (getattr(optimizer, "weight_decay", 0) == 0)
    assert {"adamw", "sgd", "lion", "muon", "rmsprop", "adagrad"} <= set(DECAYING)


def test_a_user_s_rule_that_reads_w_depends_on_the_minimizer():
    def reader(g, w, lr=0.1):
        return lr * g + 0 * w

    def plain(g, lr=0.1):
        return lr * g

    for function, invariant in ((reader, False), (plain, True)):
        kind = qs.rule(function, name=f"minimizer-{function.__name__}")
        try:
            assert kind().translation_invariant is invariant
        finally:
            del OPTIMIZERS[kind.name]


@pytest.mark.parametrize("noise", [Noise(batch=2), Noise("gaussian", 0.1), Noise("labels", 0.1)], ids=repr)
def test_noise_does_not_see_the_minimizer(noise):
    zero, gaussian = both(qs.Adam(lr=0.01), noise=noise)
    assert_array_equal(zero.loss, gaussian.loss)


@pytest.mark.parametrize("optimizer", [qs.GD(), qs.BlockGD(), qs.HeavyBall(), qs.Nesterov(), qs.FrozenAdam()], ids=repr)
@pytest.mark.parametrize("start", ["gaussian", "ones", 3.0])
def test_closed_forms_do_not_see_the_minimizer(optimizer, start):
    runs = []
    for kind in ("zero", "gaussian"):
        problem = qs.case(3, seed=1, minimizer=kind)
        e0 = None if start == "gaussian" else problem.initial_error(1, start)
        runs.append(qs.exact(problem, optimizer, seed=1, e0=e0))
    assert_array_equal(runs[0].log_loss, runs[1].log_loss)
    assert runs[0].steps_to_tol == runs[1].steps_to_tol


def test_the_minimizer_has_its_own_stream():
    problem = qs.case(3, seed=11)
    assert problem.minimizer_kind == "gaussian"
    assert_array_equal(problem.minimizer, stream(11, "minimizer").standard_normal(9))
    assert not np.isin(problem.minimizer, problem.initial_error(11)).any()
    with pytest.raises(ValueError, match="read-only"):
        problem.minimizer[0] = 1
    again = qs.case(3, seed=11)
    assert_array_equal(again.minimizer, problem.minimizer)
    assert np.abs(qs.case(3, seed=12).minimizer - problem.minimizer).min() > 1e-6


def test_user_defined_problems_have_their_minimizer_at_zero():
    for problem in (qs.BlockQuadratic.from_spectra([[1, 2]]), qs.BlockQuadratic.from_blocks([np.eye(2)])):
        assert_array_equal(problem.minimizer, [0, 0])
        assert problem.minimizer_kind == "zero"
    given = qs.BlockQuadratic.from_spectra([[1, 2]], minimizer=[1.0, 2.0])
    assert given.minimizer_kind == "given"
    by_h = qs.case(3, h=np.ones(9))
    assert by_h.minimizer_kind == "given"
    assert_allclose(by_h.hessian() @ by_h.minimizer, np.ones(9), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: qs.case(3, minimizer="gausian"), "unknown minimizer 'gausian': did you mean gaussian?"),
        (lambda: qs.BlockQuadratic.from_blocks([np.eye(2)], minimizer="gaussian"), "allowed are zero"),
        (lambda: qs.solve(qs.case(3), qs.GD(), w0=np.ones(9), e0=np.ones(9)), "give w0 or e0, not both"),
        (lambda: qs.solve(qs.case(3), qs.GD(), w0=np.ones(9), start="ones"), "give w0 or start, not both"),
        (lambda: qs.solve(qs.case(3), qs.GD(), e0=np.ones(9), start=3.0), "give e0 or start, not both"),
        (lambda: qs.exact(qs.case(3), qs.GD(), w0=np.ones(9), e0=np.ones(9)), "give one of w0 and e0"),
        (lambda: qs.solve(qs.case(3), qs.GD(), e0=np.ones(8)), "e0 must have shape (9,), got shape (8,)"),
        (lambda: qs.case(3, minimizer=np.ones(9), h=np.ones(9)), "give minimizer or h, not both"),
    ],
)
def test_bad_input_is_refused(call, message, check_refused):
    check_refused(call, message)


def test_a_run_reports_where_it_started():
    problem = qs.case(3, seed=2)
    for run in (qs.solve(problem, qs.Adam(), seed=4, max_steps=3, tol=0), qs.exact(problem, qs.GD(), seed=4)):
        assert_array_equal(run.w0, problem.minimizer + problem.initial_error(4))
        assert_array_equal(run.w, problem.minimizer + run.error)
        assert run.minimizer == "gaussian"
    assert qs.solve(problem, [qs.GD()], max_steps=1).table()["minimizer"].tolist() == ["gaussian"]


def run_json(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "quadsim", *arguments, "--json", f"out={folder}"],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_command_line_draws_it_and_names_it(tmp_path):
    """Frozen Adam and GD take the same steps for either minimizer; ones is the initial error, not the point."""
    arguments = ("case=3", "optimizers=gd,frozen-adam", "kappa=50", "start=ones")
    drawn, zero = run_json(tmp_path, *arguments), run_json(tmp_path, *arguments, "minimizer=zero")
    assert drawn["problem"]["minimizer"] == "gaussian"
    assert zero["problem"]["minimizer"] == "zero"
    assert [run["steps_to_tol"] for run in drawn["runs"]] == [run["steps_to_tol"] for run in zero["runs"]]
    assert [run["minimizer"] for run in drawn["runs"]] == ["gaussian"] * 2
    assert_array_equal(zero["problem"]["w0"], np.ones(9))
    assert_array_equal(drawn["problem"]["w0"], np.array(drawn["problem"]["w_star"]) + 1)
    own = run_json(tmp_path, "spectrum=1,2/3,4", "optimizers=gd")
    assert own["problem"]["minimizer"] == "gaussian"
    assert np.abs(own["problem"]["w_star"]).min() > 0


@pytest.mark.slow
def test_weight_decay_does_not_win_by_pulling_to_the_minimizer():
    """Case 4, the settings of a comparison that a minimizer at zero decides by 32 decades."""
    rates = {"lr": [0.03, 0.1, 0.3], "weight_decay": [0.0, 0.1, 1.0]}
    how = {
        "seed": range(6),
        "max_steps": 300,
        "refine": 0,
        "extend": 0,
        "grids": {"adamw": rates, "adam": {"lr": rates["lr"]}},
    }
    adams = {"adam": qs.Adam(), "adamw": qs.AdamW()}
    difference = {}
    for kind in ("zero", "gaussian"):
        made = qs.compare(lambda seed: qs.case(4, seed=seed, minimizer=kind), adams, **how)  # noqa: B023
        difference[kind] = made.summary.set_index("optimizer").loc["adamw", "difference"]
    assert abs(difference["zero"]) > 20 * max(abs(difference["gaussian"]), 0.05)
