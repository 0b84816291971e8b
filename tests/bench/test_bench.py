"""Benchmarks: the timed loops compute the right steps, and their tables are complete. No times are tested."""

import itertools
import json
import os

import numpy as np
import pandas as pd
import pytest
from kernels import slow_among
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim import plots
from quadsim.bench import loops, machine, measure, peers, starts, workers
from quadsim.engine.table import read_csv

FAST = {"seconds": 0.001, "rounds": 1}
# Unlike the optimizers that are timed, these move.
OPTIMIZERS = {"gd": qs.GD(lr=1.5e-4), "adam": qs.Adam(lr=0.02, beta1=0.8, beta2=0.97)}
PEERS = list(itertools.chain(*peers.CONTESTANTS.values()))
COLUMNS = [
    "blocks", "block_size", "optimizer", "lanes", "threads", "contestant", "microseconds", "ratio", "gflops",
    "dgemm_gflops", "fraction", "variant", "steps", "setup_ms", "clock",
]  # fmt: skip


def task(optimizer="adam", lanes=3, size=(4, 5)):
    return loops.Task(loops.problem(*size), OPTIMIZERS[optimizer], lanes)


EXTRAS = [one for name, contestants in peers.CONTESTANTS.items() if name != "numpy" for one in contestants]


def need(contestant):
    """Skip the test if a package of the contestant is not installed."""
    name = next(name for name, contestants in peers.CONTESTANTS.items() if contestant in contestants)
    for package in peers.PACKAGES[name]:
        pytest.importorskip(package, reason=f"{package} is not installed")


def solved(task, steps):
    """The final weights of `solve`, lane by lane: (blocks, n, lanes)."""
    runs = [
        qs.solve(task.problem, task.optimizer, seed=lane, tol=0, max_steps=steps, engine="compiled").w
        for lane in range(task.lanes)
    ]
    return np.stack(runs, axis=1).reshape(task.starts.shape)


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("contestant", slow_among([loops.QUADSIM, *PEERS], *EXTRAS), ids=lambda one: one.name)
def test_every_variant_runs_the_same_steps_as_solve(contestant, optimizer, lanes):
    if contestant is not loops.QUADSIM:
        need(contestant)
    here = task(optimizer, lanes)
    before, expected = here.starts.copy(), solved(here, 50)
    assert np.abs(expected - before).max() > 0.1
    for variant in contestant.variants(here):
        run = contestant.ready(here, variant, 50)
        for _ in range(2):  # every call begins at the start
            assert_allclose(run(), expected, rtol=1e-9, atol=1e-12)
        assert_allclose(contestant.ready(here, variant, 0)(), before)
    assert_allclose(here.starts, before, rtol=0)
    assert contestant.variants(here) or contestant.name.startswith("optax")


def test_the_comparison_can_fail():
    """Control: one step fewer, or another β2, differs by more than the tolerance."""
    here = task()
    expected = solved(here, 50)
    shorter = loops.numpy_run(here, "stacked", 49)()
    other = loops.numpy_run(loops.Task(here.problem, qs.Adam(lr=0.02, beta1=0.8), 3), "stacked", 50)()
    for wrong in (shorter, other):
        assert np.abs(wrong - expected).max() > 1e-6


def test_lanes_of_optax_are_a_vmap_or_columns():
    names = [one.name for one in peers.CONTESTANTS["optax"] if one.variants(task(lanes=64))]
    assert names == ["optax vmap", "optax columns"]
    assert [one.name for one in peers.CONTESTANTS["optax"] if one.variants(task(lanes=1))] == ["optax"]


def test_a_large_hessian_is_not_made_dense():
    assert task(size=(4, 64)).forms == ["stacked", "dense"]
    assert task(size=(4, 65)).forms == ["stacked"]


@pytest.mark.parametrize("optimizer", slow_among(measure.OPTIMIZERS, "gd"))
def test_rows_have_their_fields(optimizer):
    here = loops.Task(loops.problem(2, 3), measure.OPTIMIZERS[optimizer], 9)
    rows = measure.steps(here, [loops.NUMPY], **FAST)
    assert [row["contestant"] for row in rows] == ["quadsim", "numpy"]
    for row in rows:
        assert list(row) == COLUMNS
        assert (row["blocks"], row["block_size"], row["optimizer"], row["lanes"]) == (2, 3, optimizer, 9)
        assert row["steps"] >= measure.MIN_STEPS
        flops_per_second = 2 * 2 * 3**2 / (1e-6 * row["microseconds"])
        assert row["gflops"] == pytest.approx(1e-9 * flops_per_second)
        assert row["fraction"] == pytest.approx(row["gflops"] / row["dgemm_gflops"])
        assert row["ratio"] == pytest.approx(row["microseconds"] / rows[0]["microseconds"])


def test_timed_runs_do_not_move():
    """No run may converge, diverge or underflow while it is timed."""
    for optimizer in measure.OPTIMIZERS.values():
        run = qs.solve(qs.case(3), optimizer, tol=0, max_steps=1_000_000, record=1_000_000, engine="compiled")
        assert run.status == "max-steps"
        assert run.loss[-1] == pytest.approx(run.loss[0], rel=1e-4)


def test_the_best_dgemm_of_the_run_counts():
    rows = [
        {"threads": threads, "gflops": 10.0, "dgemm_gflops": rate, "fraction": 10 / rate}
        for threads, rate in ((1, 40.0), (1, 20.0), (2, 80.0))
    ]
    assert [row["fraction"] for row in measure.beside_dgemm(rows)] == [0.25, 0.25, 0.125]


def test_many_problems_have_their_fields():
    row = measure.many_problems(2, 2, measure.OPTIMIZERS["adam"], 2, **FAST)
    assert row["gain"] == row["seconds_one"] / row["seconds_several"]
    assert row["machine_gain"] > 0
    assert (row["problems"], row["threads"]) == (measure.PROBLEMS, 2)


def test_facts_do_not_identify_the_machine():
    facts = machine.facts()
    json.dumps(facts, allow_nan=False)
    assert facts["cores"] >= 1
    assert facts["cpu"]
    assert os.uname().nodename not in json.dumps(facts)


def test_the_load_of_others_is_a_share(monkeypatch):
    share = machine.others()()
    assert share is None or 0 <= share <= 1
    used = iter([(100.0, 50.0, 10.0), (120.0, 65.0, 15.0), None])
    monkeypatch.setattr(machine, "_used", lambda: next(used))
    share = machine.others()
    assert share() == 0.5
    assert share() is None


def test_a_start_is_cold_only_if_kernels_are_compiled(monkeypatch):
    assert starts.times(["-c", "pass"], rounds=1)["cold"] is None
    fills_cache = "import os; os.makedirs(os.environ['QUADSIM_CACHE_DIR'], exist_ok=True)"
    assert starts.times(["-c", fills_cache], rounds=1)["cold"] > 0
    with pytest.raises(ChildProcessError, match="failed: ZeroDivisionError"):
        starts.times(["-c", "1/0"], rounds=1)


def test_a_plan_is_split_into_jobs():
    plan = workers.Plan(
        parts=workers.PARTS, sizes=((3, 3), (4, 256)), optimizers=("gd", "adam"), lanes=(1, 64), threads=(1, 2),
        peers=("numpy",), seconds=0.1, rounds=2,
    )  # fmt: skip
    assert [(job.parts, job.threads) for job in plan.jobs()] == [
        (("steps",), (1,)), (("steps",), (2,)), (("problems",), (2,)), (("start",), (1,)),
    ]  # fmt: skip
    assert plan.total() == 2 * 8 + 2 + len(starts.plan(["numpy"]))


@pytest.mark.slow
def test_the_command_prints_draws_and_writes(command, tmp_path):
    words = "sizes=2x2,3×1 lanes=1,3 threads=1 peers=numpy seconds=0.001 rounds=1 parts=steps out=there"
    code, out, err = command(f"bench {words}")
    assert code == 0, err
    for word in ("2×2", "3×1", "GD", "Adam", "numpy", "of dgemm"):
        assert word in out
    (path,) = tmp_path.glob("there/*.csv")
    table = read_csv(path)
    assert list(table) == COLUMNS
    assert len(table) == 2 * 2 * 2 * 2
    (path,) = tmp_path.glob("there/*.json")
    settings = json.loads(path.read_text(encoding="utf-8"))
    assert settings["versions"]["numpy"] == np.__version__
    assert settings["machine"]["cores"] >= 1
    assert settings["command"].startswith("python -m quadsim bench ")
    assert sorted(one.suffix for one in tmp_path.glob("there/*")) == [".csv", ".json", ".png", ".svg"]


def test_json_is_the_only_thing_on_standard_output(command, tmp_path):
    words = "sizes=2x2 optimizers=gd lanes=1 peers=numpy seconds=0.001 rounds=1 parts=steps,problems threads=1 --json"
    code, out, err = command(f"bench {words}")
    result = json.loads(out)
    assert code == 0, err
    assert [row["contestant"] for row in result["steps"]] == ["quadsim", "numpy"]
    assert result["problems"] == []  # it needs a second thread
    assert all((tmp_path / name).exists() for name in result["files"])


BAD = [
    ("sizes=3", "sizes must be two whole numbers such as 2x128, got '3'"),
    ("sizes=3x0", "sizes must be a whole number of at least 1, got 0"),
    ("sizes=1x4096", "block size must be a whole number from 1 to 2048, got 4096"),
    ("sizes=999999999x9", "sizes=999999999x9 has 80999999919 entries, and 33554432 are the most"),
    ("sizes=3x3,3x3", "sizes names 3x3 twice"),
    ("sizes=3x3,", "a list is written a,b: write python -m quadsim bench sizes=3x3"),
    ("optimizers=sgd", "unknown optimizer 'sgd': did you mean gd? allowed are gd, adam"),
    ("lanes=0", "lanes must be a whole number from 1 to 1024, got 0"),
    ("lanes=1.5", "lanes must be a whole number, got '1.5'"),
    ("lanes=8,8", "lanes names 8 twice"),
    ("threads=100000", "threads must be a whole number from 1 to"),
    ("peers=jax", "unknown peer 'jax': allowed are numpy, torch, optax"),
    ("parts=step", "unknown part 'step': did you mean steps? allowed are steps, problems, start"),
    ("seconds=0", "seconds must be a finite number at least 0.001 and at most 60, got 0.0"),
    ("rounds=0", "rounds must be a whole number from 1 to 1000, got 0"),
    ("adam.lr=1", "unknown key 'adam.lr': allowed are sizes, optimizers"),
    ("size=3x3", "the key is sizes, not size: write python -m quadsim bench sizes=3x3"),
    ("3x3", "'3x3' is not key=value: see python -m quadsim bench --help"),
    ("out=/dev/null/x", "out='/dev/null/x' cannot be written"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[words for words, _ in BAD])
def test_bad_input_is_one_line_and_exit_code_2(command, tmp_path, words, message):
    code, out, err = command(f"bench {words}")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_missing_peer_is_reported_with_the_command_that_installs_it(command, monkeypatch):
    monkeypatch.setattr(peers, "installed", lambda: ["numpy"])
    code, _, err = command("bench peers=numpy,torch")
    assert code == 2
    assert err == "quadsim: peer torch is not installed: pip install 'quadsim[peers]', or leave peers= out\n"


def test_a_worker_that_fails_is_one_line_and_exit_code_1(command, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/numba.py").write_text("raise RuntimeError('no numba today')")
    code, out, err = command("bench sizes=2x2 lanes=1 threads=1 peers=numpy parts=steps seconds=0.001")
    assert (code, out) == (1, "")
    assert err == "quadsim: measuring steps with threads=1 failed: RuntimeError: no numba today\n"
    assert not (tmp_path / "figures").exists()


@pytest.fixture
def frame():
    rows = []
    for size, name, lanes, threads in itertools.product((3, 30), ("gd", "adam"), (1, 64), (1, 2)):
        for index, contestant in enumerate(("quadsim", "numpy", "optax" if lanes == 1 else "optax vmap")):
            row = {"blocks": 4, "block_size": size, "optimizer": name, "lanes": lanes, "threads": threads}
            rows.append(
                {**row, "contestant": contestant, "microseconds": size**2 * (1 + index) / threads, "fraction": 0.5}
            )
    return pd.DataFrame(rows)


def test_the_figure_has_a_panel_for_each_size_and_number_of_lanes(frame):
    figure = plots.speed(frame, title="A finding", caption="how it was made")
    assert len(figure.axes) == 4
    assert figure.get_suptitle() == "A finding"
    assert figure.get_figwidth() == 7
    for axes in figure.axes:
        assert axes.get_xscale() == "log"
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["GD  quadsim", "numpy", "optax", "Adam  quadsim", "numpy", "optax"]
    dots = [line for line in figure.axes[0].lines if line.get_marker() == "o"]
    assert sorted(dot.get_xdata()[0] for dot in dots[:2]) == [4.5, 9.0]
    limits = [line.get_xdata()[0] for line in figure.axes[0].lines if line.get_marker() != "o"]
    assert limits[:2] == [4.5, 2.25]


def test_the_figure_of_one_setting(frame):
    one = frame[(frame["lanes"] == 64) & (frame["threads"] == 1) & (frame["block_size"] == 3)]
    (axes,) = plots.speed(one).axes
    assert axes.get_title(loc="left") == "64 lanes"
    assert axes.get_title(loc="right") == "4 × 3"
