"""Sweeps from Python: the cells of a grid, the content of their rows, and their keys."""

import itertools
import json
import math
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quadsim as qs
from quadsim import keys, theory
from quadsim._validation import InputError
from quadsim.engine import table
from quadsim.engine.compiled import kernel_source
from quadsim.optimizers import OPTIMIZERS, by_name
from quadsim.sweeps import axes, import_graph
from quadsim.sweeps.grid import Grid
from quadsim.sweeps.runner import plan
from quadsim.sweeps.store.database import Store

RULES = """import numpy as np
import quadsim as qs

SLOW = 0.5


def calm(x):
    return SLOW * x


@qs.rule(state="m")
def drag(g, m, lr=1e-4, beta=0.5):
    m = beta * m + g
    return lr * calm(m), m
"""


def grid_of(**given):
    return Grid.of(given)


def keys_of(**given):
    return [key for group in grid_of(**given).iter_groups() for key in group.keys]


def cells_of(**given):
    """The number of cells of a grid by optimizer."""
    grid = grid_of(**given)
    counts = {}
    for cell in grid.deck:
        counts[cell.optimizer.name] = counts.get(cell.optimizer.name, 0) + grid.groups
    assert sum(counts.values()) == grid.cells == len({key for group in grid.iter_groups() for key in group.keys})
    return counts


def has_value(row, key):
    return key in row and row[key] is not None and not pd.isna(row[key])


def absent(frame, column):
    return column not in frame or frame[column].isna().all()


# ---- rows are what one run gives


def problem_of(asked, row):
    """Build the problem of a row with the calls of a single run; values of swept keys come from the row."""
    given = {key: row[key] for key in keys.PROBLEM_AXES if key in asked and has_value(row, key)}
    if "kappa" in given and "none" in str(asked["kappa"]) and keys.text(row["kappa"]) not in asked["kappa"]:
        del given["kappa"]  # it is the problem's own
    seed, how = int(row["seed"]), {key: given[key] for key in ("rotation", "basis", "span") if key in given}
    if "case" in given:
        given = {k: int(v) if k in ("case", "block_size", "pool") else v for k, v in given.items()}
        if "blocks" in given:
            given["blocks"] = given["blocks"].split(",")
        return qs.case(given.pop("case"), seed=seed, **given)
    if given["spectrum"] in qs.spectra.LAWS:
        count, size = int(given.get("blocks", 3)), int(given.get("block_size", 3))
        values = qs.spectra.law(given["spectrum"], count * size, kappa=given.get("kappa", 5000.0), seed=seed)
        parts = qs.partition(values, count, given.get("heterogeneity", 1.0))
    else:
        parts = [[float(x) for x in block.split(",")] for block in given["spectrum"].split("/")]
        if "kappa" in given:
            parts = qs.spectra.rescale(qs.spectra.by_block(parts), given["kappa"], given.get("map", "affine"))
    return qs.BlockQuadratic.from_spectra(parts, seed=seed, **how)


def setting_of(text):
    if isinstance(text, str):
        return (
            text == "true" if text in ("true", "false") else tuple(map(float, text.split("/"))) if "/" in text else text
        )
    return float(text)


def optimizer_of(asked, row):
    name = row["optimizer"]
    names = [key.partition(".")[2] for key in asked if key.startswith(f"{name}.")]
    return by_name(name, **{s: setting_of(row[s]) for s in names if not (s == "lr" and row["lr_from"] == "theory")})


def scales(value):
    return tuple(map(float, value.split("/"))) if isinstance(value, str) and "/" in value else float(value)


def check_row(asked, row):
    """Compare a whole row with the same numbers from other entry points."""
    problem, optimizer, seed = problem_of(asked, row), optimizer_of(asked, row), int(row["seed"])
    start = row.get("start") if has_value(row, "start") else "gaussian"
    e0 = problem.initial_error(seed, float(start) if not isinstance(start, str) else start)
    steps = int(row["max_steps"]) if has_value(row, "max_steps") else None
    if row["engine"] == "closed-form":
        run = qs.exact(problem, optimizer, e0=e0, max_steps=steps, tol=row["tol"])
    else:
        kinds = {
            "batch": ("batch", int),
            "factor": ("factor", str),
            "noise": ("model", str),
            "noise.scale": ("scale", scales),
        }
        noise = qs.Noise(**{name: kind(row[key]) for key, (name, kind) in kinds.items() if has_value(row, key)})
        schedule = row["schedule"] if has_value(row, "schedule") else "constant"
        schedule = qs.Schedule(
            schedule, **{key: row[key] for key in ("warmup", "every", "drop") if has_value(row, key)}
        )
        run = qs.solve(
            problem, optimizer, e0=e0, seed=seed, max_steps=steps, tol=row["tol"], noise=noise, schedule=schedule,
            engine="compiled",
        )  # fmt: skip
    assert row["status"] == str(run.status)
    assert (int(row["steps_to_tol"]) if has_value(row, "steps_to_tol") else None) == run.steps_to_tol
    assert int(row["last_step"]) == run.last_step
    for name, values in (("loss", run.loss), ("grad_norm", run.grad_norm)):
        assert (row[name] if has_value(row, name) else None) == (values[-1] if math.isfinite(values[-1]) else None)
    assert row["lr"] == table.cell(run.lr)
    assert (row["lr_from"] == "theory") == (optimizer.lr is None)
    for name, value in run.optimizer.settings().items():
        assert setting_of(row[name]) == (
            value if not isinstance(value, int) or isinstance(value, bool) else float(value)
        )
    assert row["kappa"] == pytest.approx(problem.kappa, rel=1e-12)
    if "kappa" not in asked:
        assert row["kappa"] == problem.kappa
    assert row["max_block_kappa"] == max(problem.block_kappas)
    assert row["kappa_eff"] == theory.kappa_eff(problem, e0=e0)
    assert row["r"] == theory.r(problem, e0=e0)
    far = qs.spectra.eigenvalue_distance(problem.eigenvalues) if len(problem.eigenvalues) > 1 else None
    assert (row["js_distance"] if has_value(row, "js_distance") else None) == far
    if row["engine"] == "closed-form":
        needs_start = isinstance(optimizer, qs.FrozenAdam)
        assert row["predicted_rate"] == theory.rate(problem, optimizer, e0=e0 if needs_start else None)
    if row["status"] == "converged" and run.last_step > 20 and run.log_loss.size > 4:
        half = int(np.searchsorted(run.steps, run.last_step / 2))
        mean = math.exp((run.log_loss[-1] - run.log_loss[half]) / (run.last_step - run.steps[half]))
        assert math.log(row["measured_rate"]) == pytest.approx(math.log(mean), rel=0.3)
    assert row["seconds"] >= 0


LINEAR = "gd,heavy-ball,nesterov,frozen-adam,block-gd"
GRIDS = {
    "cases 3 and 4": {"case": "3,4", "kappa": "10,5e3", "optimizers": LINEAR, "seed": "0,5"},
    "cases 1 and 2": {
        "case": "1,2", "sampling": "leading,mass", "sign": "magnitude,positive", "map": "none,geometric",
        "optimizers": "gd,frozen-adam",
    },
    "pool": {"case": 1, "pool": [30, 60], "block_size": 15, "kappa": "none,77.7", "optimizers": "gd"},
    "threshold": {
        "case": "2", "sampling": "above", "threshold": "0.01,0.2", "optimizers": "gd", "map": "unshifted,affine",
    },
    "networks": {"case": "1", "network": "gpt2,vit-small", "optimizers": "gd", "kappa": "100"},
    "blocks of a network": {
        "case": "1", "blocks": "embedding,layer3.query;layer3.value,embedding", "optimizers": "gd,block-gd",
    },
    "rotation and basis": {
        "case": 3, "rotation": "0,0.5,1", "span": "blocks,whole", "optimizers": "gd,frozen-adam", "block_size": "2,5",
    },
    "heterogeneity": {"case": 4, "heterogeneity": "none,0,0.5,1", "optimizers": "gd,block-gd"},
    "laws": {
        "spectrum": "log-uniform,power-law", "blocks": "2,4", "block_size": "1,3", "heterogeneity": "0,1",
        "kappa": "20,300", "optimizers": "gd,frozen-adam", "seed": "7",
    },
    "own spectra": {"spectrum": "1,2.5/7.7;3,4,5", "kappa": "none,30", "optimizers": "gd,nesterov"},
    "starts": {"case": 3,
               "start": "ones,gaussian,3.5", "tol": "1e-3,1e-8", "optimizers": "gd,adam", "max_steps": "500"},
    "noise": {
        "case": "3,4", "batch": "none,3", "factor": "root,rotated", "noise": "gaussian", "noise.scale": "0,0.1",
        "optimizers": "gd,adam",
        "max_steps": "80", "seed": "1,2",
    },
    "both kinds of noise": {
        "case": 4, "noise": "none,gaussian+labels", "noise.scale": "0.5/0.25,0/1", "optimizers": "gd",
        "max_steps": "40",
    },
    "label noise": {"case": 4, "noise": "labels", "noise.scale": "0,0.5", "optimizers": "gd,adam", "max_steps": "60"},
    "schedules": {
        "case": 3, "schedule": "constant,cosine,linear,sqrt,step", "warmup": "none,0.2,7", "every": "20,0.3",
        "drop": "0.1,0.5", "optimizers": "adam,gd", "max_steps": "60",
    },
    "settings": {
        "case": 3, "optimizers": "adam,sgd,gd,block-gd", "max_steps": "200", "adam.beta2": "0.9:0.999:lin2",
        "adam.bias_correction": "true,false", "adam.init": "zero,gradient", "sgd.momentum": "0,0.9",
        "sgd.nesterov": "false", "adam.lr": "1e-4:1e-2:log2", "gd.lr": "1e-4,none", "block-gd.lr": "0.5/0.01/2e-4,0.1",
    },
    "engines": {"case": 4, "engine": "closed-form,compiled", "optimizers": "gd,nesterov,adam", "kappa": 50,
                "tol": "0,1e-4", "max_steps": "none,300"},
}  # fmt: skip


@pytest.mark.parametrize("name", GRIDS)
def test_every_row_is_what_one_run_gives(name):
    asked = GRIDS[name]
    frame = qs.sweep(**asked)
    grid = grid_of(**asked)
    assert len(frame) == grid.cells > 1
    rows = frame.to_dict("records")
    for number in np.random.default_rng(0).permutation(len(rows))[:24]:
        check_row(asked, rows[number])


def test_the_check_of_rows_would_notice():
    """The negative control of the test above: another seed, another setting, another last digit."""
    asked = {"case": "3", "kappa": "10", "optimizers": "gd,adam", "max_steps": "30"}
    exact, iterated = qs.sweep(**asked).to_dict("records")
    for row, changes in (
        (exact, {"seed": 1, "kappa": 11.0, "loss": np.nextafter(exact["loss"], 1), "r": exact["r"] * (1 + 1e-15)}),
        (iterated, {"seed": 1, "max_steps": 29, "grad_norm": np.nextafter(iterated["grad_norm"], 1), "beta2": 0.99}),
    ):
        check_row(asked, row)
        for key, value in changes.items():
            with pytest.raises(AssertionError):
                check_row(asked, row | {key: value})


@pytest.mark.slow
def test_a_user_defined_rule_gives_what_one_run_gives(tmp_path, forgotten):
    (tmp_path / "rules.py").write_text(RULES)
    asked = {"case": "3", "rules": str(tmp_path / "rules.py"), "optimizers": "drag,gd", "drag.beta": "0.1,0.9",
             "max_steps": "40", "noise": "none,gaussian", "noise.scale": 0.1}  # fmt: skip
    frame = qs.sweep(**asked)
    assert list(frame["optimizer"]) == ["drag"] * 4 + ["gd"] * 2
    for row in frame.to_dict("records"):
        check_row(asked, row)


def test_rows_have_every_column_whatever_happened():
    wanted = {
        "case", "seed", "optimizer", "status", "steps_to_tol", "loss", "grad_norm", "lr", "lr_from", "kappa",
        "max_block_kappa", "kappa_eff", "r", "js_distance", "predicted_rate", "measured_rate", "engine", "seconds",
    }  # fmt: skip
    for asked in (
        {"case": 3, "optimizers": "gd"},
        {"case": 3, "optimizers": "gd", "tol": 0, "max_steps": 10},  # none gets there
        {"case": 3, "optimizers": "adam", "max_steps": 10},  # no theory
        {"case": 3, "optimizers": "sgd", "max_steps": 10, "batch": 100},  # all fail
        {"case": 3, "optimizers": "gd", "span": "whole"},  # one block has no distance to another
    ):
        assert wanted <= set(qs.sweep(**asked)), (asked, wanted - set(qs.sweep(**asked)))


def test_no_nan_stands_for_a_failure():
    frame = qs.sweep(
        case=3, optimizers="gd,sgd", max_steps=3000, batch="none,100", **{"gd.lr": [1, 1e-4], "sgd.lr": [1e9]}
    )
    assert set(frame["status"]) == {"diverged", "max-steps", "error"}
    assert frame["status"].notna().all()
    failed = frame[frame["status"] == "error"]
    assert failed["loss"].isna().all()
    assert (failed["error"] == "batch must be at most the number of rows, 9, got 100").all()
    assert frame.loc[frame["status"] != "error", "error"].isna().all()
    diverged = frame[frame["status"] == "diverged"]
    assert len(diverged)
    assert absent(diverged, "steps_to_tol")


def test_cells_that_raise_do_not_affect_others(monkeypatch):
    plain = qs.sweep(
        case="3,4",
        kappa="10,100",
        optimizers="gd,adam",
        max_steps=20,
        batch="none,3",
        noise="none,gaussian",
        **{"noise.scale": 0.5},
    )
    from quadsim.engine import solver

    usual = solver.solve

    def moody(problem, optimizers, **how):
        if how["noise"].models and problem.name.startswith("case 4"):
            raise ZeroDivisionError("three lines\nof a\nmessage")
        return usual(problem, optimizers, **how)

    monkeypatch.setattr(solver, "solve", moody)
    frame = qs.sweep(
        case="3,4",
        kappa="10,100",
        optimizers="gd,adam",
        max_steps=20,
        batch="none,3",
        noise="none,gaussian",
        **{"noise.scale": 0.5},
    )
    failed = (frame["case"] == 4) & (frame["noise"] == "gaussian")
    assert set(frame.loc[failed, "status"]) == {"error"}
    assert set(frame.loc[failed, "error"]) == {"ZeroDivisionError: three lines of a message"}
    pd.testing.assert_frame_equal(
        frame[~failed].drop(columns=["seconds", "error"]), plain[~failed].drop(columns=["seconds", "error"])
    )


@pytest.mark.parametrize("error", [MemoryError(), RecursionError(), FloatingPointError(""), KeyError("x\ny")])
def test_errors_of_all_kinds_have_a_message_in_one_line(monkeypatch, error):
    def failing(*_, **__):
        raise error

    grid = grid_of(case=3, optimizers="gd")
    monkeypatch.setattr("quadsim.sweeps.execute.build_problem", failing)
    from quadsim.sweeps.executors import run_chunk

    (row,) = run_chunk(list(grid.iter_groups()), grid.deck).rows
    assert row["status"] == "error"
    assert row["error"].strip()
    assert "\n" not in row["error"]


# ---- a row's settings say how to have it again


def arguments_of(row, asked=None):
    """The command line of one run, from a row alone."""
    derived = {name for name in ("kappa", "lr", "momentum") if row.get(f"{name}_from") in ("theory", "spectrum")}
    texts = [f"{key}={row[key]}" for key in keys.AXES if has_value(row, key) and key not in derived]
    name = row["optimizer"]
    own_settings = [
        f"{name}.{key}={row[key]}"
        for key in OPTIMIZERS[name]().settings()
        if has_value(row, key) and key not in derived
    ]
    return [*texts, f"optimizers={name}", *own_settings]


AGAIN = {
    "by hand": {"case": "3,4", "kappa": "none,77.7", "optimizers": LINEAR, "seed": "0,3"},
    "measured": {"case": "1,2", "kappa": "none,1e5", "sampling": "mass", "optimizers": "gd,frozen-adam", "seed": "2"},
    "their own condition number": {"case": "1", "map": "unshifted", "optimizers": "gd"},
    "laws": {"spectrum": "linear,power-law", "blocks": "2,3", "optimizers": "gd", "start": "ones,2.5"},
    "numbers": {"spectrum": "1,2.5/7.7;3,4/5", "optimizers": "gd,heavy-ball", "rotation": "0,0.5"},
    "momentum": {"case": "3", "optimizers": "heavy-ball,nesterov", "heavy-ball.momentum": "0.3", "nesterov.lr": "1e-4"},
    "noise": {
        "case": "3", "optimizers": "gd,adam", "batch": "none,3", "factor": "rotated", "schedule": "step,cosine",
        "warmup": "0.1", "every": "20,0.2", "max_steps": "60", "seed": "4", "noise": "none,labels",
        "noise.scale": "1e-3",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", AGAIN)
def test_a_row_can_be_reproduced_from_its_columns(name, capsys, tmp_path, monkeypatch):
    from quadsim.cli import main as cli
    from quadsim.cli.commands import run

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "_write", lambda *_: [])
    rows = qs.sweep(**AGAIN[name]).to_dict("records")
    for number in np.random.default_rng(1).permutation(len(rows))[:10]:
        row = rows[number]
        arguments = arguments_of(row)
        code_, out, err = cli.main([*arguments, "--json"]), *capsys.readouterr()
        assert code_ == 0, (arguments, err)
        (again,) = json.loads(out)["runs"]
        assert again["steps_to_tol"] == (int(row["steps_to_tol"]) if has_value(row, "steps_to_tol") else None), (
            arguments
        )
        assert again["loss"] == row["loss"], arguments


# ---- what a grid's cells are


@pytest.mark.parametrize(
    ("asked", "counts"),
    [
        ({"case": [3, 4], "kappa": "10:1e6:log5", "optimizers": "gd", "seed": range(3)}, {"gd": 30}),
        ({"case": 3, "optimizers": "gd,adam", "adam.beta2": [0.9, 0.99, 0.999]}, {"gd": 1, "adam": 3}),
        ({"case": 3, "optimizers": "adam", "adam.bias_correction": [True, False]}, {"adam": 2}),
        (
            {"case": 3, "optimizers": "adam", "adam.init": "gradient", "adam.bias_correction": [True, False]},
            {"adam": 1},
        ),
        (
            {"case": 3, "optimizers": "adam", "adam.init": ["zero", "gradient"], "adam.bias_correction": [True, False]},
            {"adam": 3},
        ),
        ({"case": 3, "optimizers": "gd,adam", "engine": ["closed-form", "compiled"]}, {"gd": 2, "adam": 1}),
        ({"case": 3, "optimizers": "sgd", "batch": [None, 3], "factor": ["root", "rotated"]}, {"sgd": 3}),
        ({"case": 3, "optimizers": "sgd", "noise": [None, "labels"], "factor": ["root", "rotated"]}, {"sgd": 3}),
        (
            {"case": 3, "optimizers": "adam", "schedule": ["constant", "step"], "every": [10, 20], "drop": [0.1, 0.5]},
            {"adam": 5},
        ),
        ({"case": [1, 3], "sampling": ["leading", "mass", "ritz"], "optimizers": "gd"}, {"gd": 4}),
        ({"case": [1, 3], "network": ["gpt2", "vit-small"], "optimizers": "gd", "seed": "0..4"}, {"gd": 15}),
        ({"case": 3, "kappa": [None, 10], "map": ["affine", "geometric"], "optimizers": "gd"}, {"gd": 3}),
        ({"case": 3, "span": ["blocks", "whole"], "heterogeneity": [0, 0.5, 1], "optimizers": "gd"}, {"gd": 4}),
        ({"case": 3, "noise": "gaussian", "noise.scale": [0, 0.1], "optimizers": "gd"}, {"gd": 2}),
        ({"case": 3, "noise": [None, "gaussian"], "noise.scale": 0, "optimizers": "gd"}, {"gd": 1}),
        ({"case": 3, "start": ["gaussian", None, "ones"], "optimizers": "gd"}, {"gd": 2}),
        ({"case": 3, "max_steps": [None, 100000], "optimizers": "adam"}, {"adam": 1}),
        ({"case": 3, "rotation": [None, 1], "optimizers": "gd"}, {"gd": 1}),
        ({"case": 1, "sampling": ["leading", "above"], "threshold": [0.1, 0.2], "optimizers": "gd"}, {"gd": 3}),
        ({"case": 1, "sampling": ["leading", "ritz"], "pool": [40, 50], "optimizers": "gd"}, {"gd": 3}),
        ({"spectrum": "linear;1,2/3,4", "blocks": [2, 3], "optimizers": "gd"}, {"gd": 3}),
    ],
    ids=str,
)
def test_axes_without_effect_do_not_multiply_cells(asked, counts):
    assert cells_of(**asked) == counts
    grid = grid_of(**asked)
    assert plan(grid).row()["cells"] == sum(counts.values())


def test_left_out_combinations_are_reported_and_unusable_keys_refused(check_refused):
    grid = grid_of(case=3, optimizers="gd,adam", engine="closed-form,compiled")
    assert sum(grid.left_out.values()) == 1
    (sentence,) = grid.left_out
    assert "adam" in sentence
    check_refused(lambda: grid_of(case=3, optimizers="gd", factor="root,rotated"), "factor=")
    check_refused(lambda: grid_of(case=3, optimizers="adam", every="10,20"), "requires schedule=step")
    check_refused(lambda: grid_of(case=3, optimizers="adam", engine="closed-form"), "adam")
    check_refused(lambda: qs.sweep(case=3, optimizers="gd", sampling="mass"), "is for Cases 1 and 2")


def test_the_cells_of_a_problem_run_as_lanes(monkeypatch):
    from quadsim.engine import solver

    widths = []
    usual = solver.compiled_runs

    def watched(problem, specs, *rest):
        widths.append(len(specs))
        return usual(problem, specs, *rest)

    monkeypatch.setattr(solver, "compiled_runs", watched)
    frame = qs.sweep(case=3, optimizers="adam,gd", max_steps=10, threads=1, **{"adam.beta2": "0.1:0.9:lin8"})
    assert widths == [8]
    assert set(frame.loc[frame["optimizer"] == "gd", "engine"]) == {"closed-form"}


@given(
    st.lists(st.floats(3, 1e12), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=3, unique=True),
    st.permutations(["kappa", "seed", "case", "optimizers"]),
)
@settings(max_examples=60)
def test_a_grid_is_the_product_of_its_axes_in_any_order(kappas, seeds, order):
    asked = {"kappa": kappas, "seed": seeds, "case": [3, 4], "optimizers": "gd,frozen-adam"}
    grid = grid_of(**{key: asked[key] for key in order})
    assert grid.cells == 4 * len(kappas) * len(seeds)
    found = {
        (group.values["case"], group.values["kappa"], group.seed, grid.deck[number].optimizer.name)
        for group in grid.iter_groups()
        for number in group.cells
    }
    assert found == set(itertools.product((3, 4), kappas, seeds, ("gd", "frozen-adam")))
    assert sorted(keys_of(**asked)) == sorted(key for group in grid.iter_groups() for key in group.keys)


@pytest.mark.parametrize(
    ("key", "text", "values"),
    [
        ("kappa", "10,1e2", [10.0, 100.0]),
        ("kappa", "1:4:log3", [1.0, 2.0, 4.0]),
        ("kappa", "10:20:lin3", [10.0, 15.0, 20.0]),
        ("kappa", "20:10:lin3", [20.0, 15.0, 10.0]),
        ("kappa", "none,5e3", [None, 5000.0]),
        ("case", "1..4", [1, 2, 3, 4]),
        ("block_size", "1:9:log3", [1, 3, 9]),
        ("block_size", "1:4:lin9", [1, 2, 3, 4]),
        ("spectrum", "1,2/3", [((1.0, 2.0), (3.0,))]),
        ("spectrum", "1,2/3;1.0", [((1.0, 2.0), (3.0,)), ((1.0,),)]),
        ("spectrum", "linear,log-uniform", ["linear", "log-uniform"]),
        ("blocks", "2,3", [2, 3]),
        ("blocks", "2..4", [2, 3, 4]),
        ("blocks", "a,b;c", [("a", "b"), ("c",)]),
        ("start", "ones,2,2.5", ["ones", 2.0, 2.5]),
        ("tol", "1e-6,0.000001e2", [1e-6, 1e-4]),
        ("heterogeneity", "-0", [0.0]),
        ("noise", "none,gaussian,gaussian+labels", [None, "gaussian", "gaussian+labels"]),
        ("noise.scale", "0.1,0.1/0.5", [0.1, (0.1, 0.5)]),
        ("map", "none,geometric", [None, "geometric"]),
    ],
)
def test_axes_by_hand(key, text, values):
    found = axes.values(key, text)
    assert list(found) == values
    assert [type(value) for value in found] == [type(value) for value in values]
    assert axes.values(key, axes.axis_text(key, found)) == found  # the text of an axis gives it back
    assert axes.axis(key, list(found)) == found


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("3", [3]), ("0..4", range(5)), ("5,2", [5, 2]), ("1e3", [1000]), ("none", [0]), ("none,3", [0, 3])],
)
def test_seeds_by_hand(text, seeds):
    assert list(axes.seeds(text)) == list(seeds)


@pytest.mark.parametrize("order", [[None, 1e-4], [1e-4, None]])
def test_none_leaves_an_optimizers_setting_out_wherever_it_stands(order):
    frame = qs.sweep(case=3, optimizers="gd", **{"gd.lr": order})
    assert set(frame["lr_from"]) == {"theory", "given"}


# ---- the key of a cell


def test_one_cell_has_one_key_however_it_is_written():
    base = keys_of(case=3, kappa=5000, optimizers=["gd", "adam"], seed=[0, 1, 2], max_steps=100)
    for same in (
        {"kappa": "5e3", "case": "3", "optimizers": "gd,adam", "seed": "0..2", "max_steps": "1e2"},
        {"seed": range(3), "max_steps": 100.0, "kappa": np.float64(5e3), "case": np.int64(3),
         "optimizers": ["gd", "adam"]},
        {"case": 3, "kappa": "5000.0", "optimizers": [qs.GD(), qs.Adam], "seed": "0,1,2", "max_steps": 100,
         "rotation": 1},
        {"case": 3, "kappa": "+5000", "optimizers": "GD,Adam", "seed": np.arange(3), "max_steps": "100",
         "tol": "0.000001",
         "adam.beta2": "0.999", "start": "gaussian", "span": "blocks", "schedule": "constant",
         "noise": "gaussian", "noise.scale": 0.0},
    ):  # fmt: skip
        assert keys_of(**same) == base
    assert set(keys_of(case=3, kappa=5000, optimizers="adam,gd", seed="2,1,0", max_steps=100)) == set(base)
    for other in ({"kappa": 5000.000000001}, {"seed": [0, 1, 3]}, {"tol": 1e-7}, {"max_steps": 101}, {"rotation": 0.5},
                  {"start": "ones"}, {"adam.beta1": 0.8, "gd.lr": 1}, {"noise": "gaussian"}, {"case": 4}):  # fmt: skip
        asked = {"case": 3, "kappa": 5000, "optimizers": ["gd", "adam"], "seed": [0, 1, 2], "max_steps": 100} | other
        assert not set(keys_of(**asked)) >= set(base)


REQUIRED = {  # what keys need beside them to have an effect
    "threshold": {"case": 1, "sampling": "above"},
    "every": {"schedule": "step"},
    "drop": {"schedule": "step"},
    "noise.scale": {"noise": "gaussian"},
}


@pytest.mark.parametrize(
    "name", [key.name for key in keys.TABLE if key.axis and key.kind in ("real", "scales", "start")]
)
def test_neighbouring_floats_are_different_cells(name):
    """All digits of a value count: the next float64 has a key of its own."""
    value = 1234.5678901234567 if name == "kappa" else 0.12345678901234567
    rest = {"case": 3, "optimizers": "adam", "max_steps": 10} | REQUIRED.get(name, {})
    assert len(set(keys_of(**rest, **{name: [value, math.nextafter(value, 2 * value)]}))) == 2


DEFAULTS = [
    ({"case": 3}, {"rotation": 1}),
    ({"case": 3}, {"span": "blocks"}),
    ({"case": 3}, {"tol": 1e-6}),
    ({"case": 3}, {"engine": "closed-form"}),
    ({"case": 3}, {"start": "gaussian"}),
    ({"case": 3}, {"noise": "gaussian", "noise.scale": 0}),
    ({"case": 3}, {"basis": "haar"}),
    ({"case": 3}, {"noise": "labels", "noise.scale": 0}),
    ({"case": 3}, {"schedule": "constant"}),
    ({"case": 3}, {"warmup": 0}),
    ({"case": 3}, {"seed": 0}),
    ({"case": 3}, {"block_size": 3}),
    ({"case": 3}, {"heterogeneity": 1}),
    ({"case": 3, "kappa": 10}, {"map": "clusters"}),
    ({"case": 4}, {"heterogeneity": 0}),
    ({"case": 1}, {"network": "gpt2"}),
    ({"case": 1}, {"sampling": "leading"}),
    ({"case": 1}, {"sign": "magnitude"}),
    ({"case": 1}, {"block_size": 30}),
    ({"case": 1}, {"map": "affine"}),
    ({"case": 1, "sampling": "above"}, {"threshold": 0.1}),
    ({"spectrum": "linear"}, {"blocks": 3}),
    ({"spectrum": "linear"}, {"block_size": 3}),
    ({"spectrum": "linear"}, {"kappa": 5000}),
    ({"spectrum": "linear"}, {"heterogeneity": 1}),
    ({"spectrum": "1,2/3", "kappa": 9}, {"map": "affine"}),
]


@pytest.mark.parametrize(("asked", "default"), DEFAULTS, ids=str)
def test_a_default_that_is_given_changes_no_key(asked, default):
    assert keys_of(optimizers="gd", **asked, **default) == keys_of(optimizers="gd", **asked)


def test_a_default_that_is_given_stands_in_the_table(tmp_path):
    """Rows computed without the key show its default once another sweep uses the key."""
    store = tmp_path / "s.db"
    qs.sweep(case=3, optimizers="gd", store=store)
    asked = {"case": 3, "optimizers": "gd", "rotation": [0, 1], "start": ["gaussian", "ones"], "schedule": "constant"}
    after = qs.sweep(**asked, store=store)
    fresh = qs.sweep(**asked)
    for column in ("rotation", "start", "schedule"):
        assert list(after[column]) == list(fresh[column])


def test_seeds_have_keys_of_their_own_that_do_not_depend_on_the_others():
    everything = keys_of(case=3, optimizers="gd", seed="0..99")
    assert len(set(everything)) == 100
    assert keys_of(case=3, optimizers="gd", seed="42") == everything[42:43]


def test_an_edited_rule_changes_the_key_and_its_comments_do_not(tmp_path, forgotten):
    file = tmp_path / "rules.py"

    def key(text):
        file.write_text(text)
        return keys_of(case=3, optimizers="drag", rules=str(file))

    base = key(RULES)
    assert key("# a comment\n" + RULES.replace("    m = beta", '    """What it does."""\n\n    m = beta')) == base
    for old, new in (
        ("SLOW = 0.5", "SLOW = 0.25"),
        ("SLOW * x", "x * SLOW"),
        ("beta * m + g", "g + beta * m"),
        ("beta=0.5", "beta=0.75"),
        ('@qs.rule(state="m")', '@qs.rule(state="m", homogeneous=False)'),
        ('@qs.rule(state="m")\ndef drag(g,', '@qs.rule(state="m", random_by="block")\ndef drag(g, random,'),
    ):
        assert key(RULES.replace(old, new)) != base, new
    assert key(RULES) == base


def test_who_draws_a_rules_random_numbers_changes_its_key(tmp_path, forgotten):
    def key(by):
        head = f'import quadsim as qs\n@qs.rule(random_by="{by}")\n'
        (tmp_path / "rules.py").write_text(head + "def luck(g, random, lr=1e-4):\n    return lr * g * random\n")
        return keys_of(case=3, optimizers="luck", rules=str(tmp_path / "rules.py"))

    assert key("block") != key("coordinate")


def test_an_edited_kernel_changes_the_keys_of_what_it_runs(monkeypatch):
    exact, iterated = keys_of(case=3, optimizers="gd,adam", max_steps=10)
    usual = kernel_source.kernel_text
    monkeypatch.setattr(kernel_source, "kernel_text", lambda *rest, **how: "# other words\n" + usual(*rest, **how))
    assert keys_of(case=3, optimizers="gd,adam", max_steps=10) == [exact, iterated]
    monkeypatch.setattr(kernel_source, "kernel_text", lambda *rest, **how: usual(*rest, **how) + "\nother = 1\n")
    again = keys_of(case=3, optimizers="gd,adam", max_steps=10)
    assert again[0] == exact
    assert again[1] != iterated


def test_comments_docstrings_and_layout_have_no_part_in_a_fingerprint():
    plain = "def f(a):\n    return a + 1\n"
    assert import_graph.read(
        '"""Words."""\n\n\ndef f(a):  # why\n    "more"\n\n    return (a +\n            1)\n'
    ) == import_graph.read(plain)
    assert import_graph.read(plain.replace("1", "2")) != import_graph.read(plain)


def test_edited_spectra_change_the_key_and_the_rows(tmp_path):
    file, store = tmp_path / "mine.npz", tmp_path / "s.db"
    asked = {"case": 1, "network": str(file), "optimizers": "gd", "store": store}
    np.savez(file, a=np.linspace(1, 50, 40), b=np.linspace(2, 90, 40))
    before, key = qs.sweep(**asked), keys_of(case=1, network=str(file), optimizers="gd")
    assert keys_of(case=1, network=str(file), optimizers="gd") == key
    np.savez(file, a=np.linspace(1, 50, 40) ** 2, b=np.linspace(2, 90, 40))
    after = qs.sweep(**asked)
    assert keys_of(case=1, network=str(file), optimizers="gd") != key
    assert after["loss"][0] != before["loss"][0]
    assert after["loss"][0] == qs.exact(qs.case(1, network=file), qs.GD()).loss[-1]
    assert len(Store(store)) == 1  # the other is of a file that is gone


@pytest.mark.slow
def test_settings_of_user_defined_rules_may_have_the_names_of_columns(tmp_path, forgotten):
    """None of them may replace a column, in upper or lower case."""
    names = ("r", "key", "kappa", "Status", "steps", "Beta", "beta")
    settings_ = ", ".join(f"{name}=0.5" for name in names)
    text = f"def odd(g, lr=1e-4, {settings_}):\n    return lr * g * ({' + '.join(names)})\n"
    (tmp_path / "rules.py").write_text(f"import quadsim as qs\n@qs.rule\n{text}")
    asked = {"case": 3, "optimizers": "odd", "rules": str(tmp_path / "rules.py"), "max_steps": 20}
    row = qs.sweep(**asked).iloc[0]
    problem = qs.case(3)
    run = qs.solve(problem, by_name("odd"), max_steps=20)
    assert (row["status"], row["kappa"], row["max_steps"]) == (str(run.status), 5000, 20)
    assert row["loss"] == run.loss[-1]
    assert row["r"] == theory.r(problem, e0=problem.initial_error(0))


# ---- what is there is not computed again


@pytest.fixture
def counted(monkeypatch):
    """The cells that were run."""
    from quadsim.sweeps import execute

    ran = []
    usual = execute.run

    def run(group, deck, heard=None):
        ran.extend(group.keys)
        return usual(group, deck, heard)

    monkeypatch.setattr(execute, "run", run)
    return ran


def test_the_same_sweep_again_computes_nothing_and_a_larger_one_what_is_missing(tmp_path, counted):
    asked = {
        "case": [3, 4],
        "kappa": [10, 100],
        "optimizers": ["gd", "adam"],
        "max_steps": 20,
        "store": tmp_path / "s.db",
    }
    first = qs.sweep(**asked, seed=range(3))
    assert len(counted) == len(set(counted)) == len(first) == 24
    counted.clear()
    second = qs.sweep(**asked, seed=range(3))
    assert counted == []
    pd.testing.assert_frame_equal(first, second)
    larger = qs.sweep(**asked | {"kappa": "10,50,100", "optimizers": "adam,gd,frozen-adam"}, seed=range(4))
    assert len(counted) == len(larger) - 24 == 72 - 24
    smaller = qs.sweep(**asked | {"kappa": "100", "optimizers": "gd"}, seed="2")
    assert len(counted) == 48
    mine = first[(first["kappa"] == 100) & (first["optimizer"] == "gd") & (first["seed"] == 2)].reset_index(drop=True)
    pd.testing.assert_frame_equal(smaller[list(first)].dropna(axis=1), mine.dropna(axis=1), check_dtype=False)


def test_an_interrupted_sweep_continues(tmp_path, counted):
    asked = {"case": [3, 4], "kappa": "10:1000:log10", "optimizers": ["gd", "heavy-ball"], "seed": range(15),
             "store": tmp_path / "s.db", "threads": 1}  # fmt: skip

    class Enough(Exception):
        pass

    def stop(done, total):
        assert total == 600
        if done >= 100:
            raise Enough

    with pytest.raises(Enough):
        qs.sweep(**asked, progress=stop)
    kept = len(Store(tmp_path / "s.db"))
    assert 100 <= kept < 600
    counted.clear()
    counts = []
    frame = qs.sweep(**asked, progress=lambda done, total: counts.append(done))
    assert len(counted) == 600 - kept
    assert counts == sorted(counts)
    assert counts[0] > kept
    assert counts[-1] == 600
    assert len(frame) == 600
    fresh = qs.sweep(**asked | {"store": None})
    pd.testing.assert_frame_equal(frame.drop(columns="seconds"), fresh.drop(columns="seconds"))


def test_failed_cells_are_run_again_only_when_asked(tmp_path, counted, monkeypatch):
    from quadsim.engine.closed_form import exact as closed_form

    asked = {"case": 3, "kappa": [10, 100], "optimizers": "gd", "store": tmp_path / "s.db"}
    usual = closed_form.run

    def moody(problem, *rest, **how):
        if problem.kappa < 50:
            raise ZeroDivisionError("no")
        return usual(problem, *rest, **how)

    monkeypatch.setattr(closed_form, "run", moody)
    assert list(qs.sweep(**asked)["status"]) == ["error", "converged"]
    monkeypatch.setattr(closed_form, "run", usual)
    counted.clear()
    assert list(qs.sweep(**asked)["status"]) == ["error", "converged"]
    assert counted == []
    done = qs.sweep(**asked, retry=True)
    assert list(done["status"]) == ["converged", "converged"]
    assert absent(done, "error")
    assert len(counted) == 1
    assert len(Store(tmp_path / "s.db")) == 2
    qs.sweep(**asked, retry=True)
    assert len(counted) == 1


# ---- where it runs has no part in the rows


def test_rows_do_not_depend_on_threads_or_workers():
    asked = {"case": [3, 4], "kappa": "10:1000:log4", "optimizers": "gd,adam", "max_steps": 60,
             "seed": "0..4", "batch": "none,3", "adam.beta2": "0.9,0.99"}  # fmt: skip
    base = qs.sweep(**asked, threads=1).drop(columns="seconds")
    assert len(base) == 8 * 5 * 6
    for where in ({"threads": 3}, {"workers": 2}, {}):
        pd.testing.assert_frame_equal(qs.sweep(**asked, **where).drop(columns="seconds"), base, check_exact=True)


@pytest.mark.slow
def test_a_script_without_a_guard_leaves_no_errors_in_its_store(tmp_path):
    """Processes start by rerunning the script; if that fails, no cell is stored as failed."""
    script = tmp_path / "script.py"
    script.write_text(
        "import quadsim as qs\nqs.sweep(case=3, optimizers='gd', kappa=[10, 100], workers=1, store='s.db')\n"
    )
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    with Store(tmp_path / "s.db") as store:
        assert store.tally("status").get("error", 0) == 0, done.stderr[-300:]


# ---- a million cells


def test_a_million_cells_are_planned_in_seconds_and_little_memory():
    keys = {"case": "3", "kappa": "10:1e6:log100", "seed": "0..3332", "optimizers": "gd,frozen-adam,heavy-ball"}
    tracemalloc.start()
    began = time.perf_counter()
    grid = Grid.read(keys)
    row = plan(grid).row()
    seconds, (_, most) = time.perf_counter() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert row["cells"] == 999_900
    assert row["groups"] == 333_300
    assert seconds < 5
    assert most < 20e6


# ---- what people get wrong


class Endless:
    """Values that never end."""

    def __iter__(self):
        for number in itertools.count(1):
            assert number < 3_000_000, "more than three million were taken"
            yield number


def twice():
    yield from (10, 20)


BAD = [
    ({}, "give one of case= and spectrum="),
    ({"case": 5}, "unknown case '5': allowed are 1, 2, 3, 4"),
    ({"case": []}, "case has no values: give at least one"),
    ({"case": 3, "kappa": ()}, "kappa has no values"),
    ({"case": 3, "kappa": np.array([])}, "kappa has no values"),
    ({"case": 3, "seed": range(0)}, "seed has no values"),
    ({"case": 3, "kappa": ""}, "kappa"),
    ({"case": 3, "kappa": " "}, "kappa"),
    ({"case": 3, "kappa": ["10", ""]}, "kappa"),
    ({"case": 3, "kappa": float("nan")}, "kappa"),
    ({"case": 3, "kappa": [10, float("inf")]}, "kappa"),
    ({"case": 3, "kappa": np.array([10, np.nan])}, "kappa"),
    ({"case": 3, "kappa": True}, "kappa"),
    ({"case": 3, "kappa": 1j}, "kappa"),
    ({"case": 3, "kappa": object()}, "kappa"),
    ({"case": 3, "kappa": [[10, 20], [30]]}, "kappa"),
    ({"case": 3, "kappa": np.ones((2, 2))}, "kappa"),
    ({"case": 3, "kappa": b"12"}, "kappa"),
    ({"case": 3, "kappa": {"a": 1}}, "kappa"),
    ({"case": 3, "kappa": pd.DataFrame({"a": [1]})}, "kappa"),
    ({"case": 3, "kappa": [10, 10.0]}, "names 10 twice"),
    ({"case": 3, "kappa": "5e3,5000"}, "names 5000 twice"),
    ({"case": 3, "optimizers": "adam", "adam.beta2": "0.9,0.90"}, "names 0.9 twice"),
    ({"case": 3, "kappa": 10**400}, "kappa"),
    ({"case": 3, "kappa": "9" * 10_000}, "kappa"),
    ({"case": 3, "kappa": "½"}, "kappa must be a number"),
    ({"case": 3, "kappa": "٣"}, "kappa must be a number"),
    ({"case": 3, "kappa": "1\x00"}, "kappa must be a number"),
    ({"case": 3, "kappa": Endless()}, "kappa"),
    ({"case": 3, "seed": -1}, "seed must be a whole number from 0"),
    ({"case": 3, "seed": range(-2, 3)}, "seed must be a whole number from 0"),
    ({"case": 3, "seed": 1.5}, "seed must be a whole number"),
    ({"case": 3, "seed": True}, "seed"),
    ({"case": 3, "seed": range(2**63)}, "cells, and the limit is"),
    ({"case": 3, "seed": "0..9223372036854775807"}, "cells, and the limit is"),
    ({"case": 3, "seed": "0..9223372036854775808"}, "the limit is 1,000,000"),
    ({"case": 3, "seed": "5..0"}, "seed=5..0 is empty"),
    ({"case": 3, "batch": 10**20, "optimizers": "sgd"}, "batch"),
    ({"case": 1, "pool": "1e20"}, "pool"),
    ({"case": 3, "kapa": 10}, "did you mean kappa?"),
    ({"case": 3, "lr": 10}, "write for example gd.lr=10"),
    ({"case": 3, "beta2": 0.9, "optimizers": "gd,adam"}, "write for example adam.beta2=0.9"),
    ({"case": 3, "": 1}, "unknown key ''"),
    ({"case": 3, ".": 1}, "unknown optimizer ''"),
    ({"case": 3, "gd.": 1}, "unknown setting of gd ''"),
    ({"case": 3, "gd.lr.lr": 1}, "unknown setting of gd"),
    ({"case": 3, "gd.lr": 1, "gd": {"lr": 2}}, "gd.lr is given twice"),
    ({"case": 3, "gd.lr": [-1]}, "gd.lr must be a finite number above 0, got -1"),
    ({"case": 3, "gd.lr": [1e-4, -1]}, "gd.lr must be a finite number above 0, got -1"),
    ({"case": 3, "adam.lr": 1}, "requires adam among optimizers"),
    ({"case": 3, "optimizers": []}, "optimizers must name at least one"),
    ({"case": 3, "noise": qs.Noise("gaussian")}, "noise must be one of gaussian, labels, got Noise("),
    ({"case": 3, "schedule": qs.Schedule("cosine")}, "schedule must be one of constant, cosine, "),
    ({"case": 3, "optimizers": "gd,gd"}, "optimizer gd is named twice: a sweep varies its settings"),
    ({"case": 3, "optimizers": ["adm"]}, "did you mean adam?"),
    ({"case": 3, "optimizers": 5}, "optimizers must be a list"),
    ({"case": 3, "optimizers": [5]}, "optimizer must be a name"),
    ({"case": 3, "optimizers": b"gd"}, "optimizer must be a name"),
    ({"case": 3, "optimizers": {"gd": {"lr": 1e-4}}}, "optimizers"),
    ({"case": 3, "optimizers": None}, "optimizers"),
    ({"case": 3, "store": 3}, "store"),
    ({"case": 3, "store": ""}, "store"),
    ({"case": 3, "store": b"s.db"}, "store"),
    ({"case": 3, "store": "a\0b"}, "store"),
    ({"case": 3, "store": "x" * 300}, "store"),
    ({"case": 3, "store": "no/such/folder/s.db"}, "there is no folder"),
    ({"case": 3, "store": ":memory:"}, "store"),
    ({"case": 3, "threads": 0}, "threads must be a whole number from 1"),
    ({"case": 3, "threads": "2"}, "threads must be a whole number from 1"),
    ({"case": 3, "workers": 1.5}, "workers must be a whole number from 1"),
    ({"case": 3, "threads": 1, "workers": 1}, "give one of them"),
    ({"case": 3, "cluster": 5}, "cluster must be local:N or an address"),
    ({"case": 3, "cluster": "nowhere"}, "cluster must be local:N or an address"),
    ({"case": 3, "limit": 0}, "limit must be a whole number of at least 1, got 0"),
    ({"case": 3, "limit": "5"}, "limit must be a whole number"),
    ({"case": 3, "limit": 2, "seed": range(5)}, "the grid has 15 cells, and the limit is 2"),
    ({"case": 3, "kappa": {10: 1}}, "kappa must be a value or a list of values, got {10: 1}"),
    ({"case": 3, "limit": 2}, "the grid has 3 cells, and the limit is 2: use fewer values, or give limit=3"),
    ({"case": 3, "retry": "no"}, "retry"),
    ({"case": 3, "progress": 5}, "progress"),
    ({"case": 3, "rules": "nowhere.py"}, "nowhere.py"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("asked", "sentence"), BAD, ids=[f"{number} {' '.join(asked)}" for number, (asked, _) in enumerate(BAD)]
)
def test_bad_arguments_are_refused_in_one_sentence(check_refused, tmp_path, monkeypatch, asked, sentence):
    monkeypatch.chdir(tmp_path)
    began = time.perf_counter()
    check_refused(lambda: qs.sweep(**{"optimizers": "gd,frozen-adam,block-gd"} | asked), sentence)
    assert time.perf_counter() - began < 5
    assert list(tmp_path.iterdir()) == []


def test_arguments_of_all_kinds_that_are_right():
    base = list(qs.sweep(case=3, optimizers="gd", kappa="10,20")["loss"])
    for kappas in ([10, 20], (10.0, 20), np.array([10, 20]), np.array([10, 20], np.float32), pd.Series([10, 20]),
                   twice(), range(10, 30, 10), ["10", "2e1"], "10:20:lin2", {10: 0, 20: 0}.keys()):  # fmt: skip
        assert list(qs.sweep(case=3, optimizers="gd", kappa=kappas)["loss"]) == base
    for kappa in (np.array(10), np.float64(10), "10", 10):
        assert list(qs.sweep(case=3, optimizers="gd", kappa=kappa)["loss"]) == base[:1]
    spectra = qs.sweep(spectrum=[[[1, 2], [3]], [[4, 5, 6]]], optimizers="gd")
    assert list(spectra["spectrum"]) == ["1,2/3", "4,5,6"]
    assert list(qs.sweep(spectrum=np.array([[1, 2], [3, 4]]), optimizers="gd")["spectrum"]) == ["1,2/3,4"]
    assert list(qs.sweep(spectrum=(part for part in ([1, 2], [3])), optimizers="gd")["spectrum"]) == ["1,2/3"]
    assert list(qs.sweep(spectrum=["linear", "log-uniform"], optimizers="gd")["spectrum"]) == ["linear", "log-uniform"]
    made = qs.sweep(
        case=3,
        optimizers=[qs.GD(lr=1e-4), qs.BlockGD(lr=(0.5, 0.01, 1e-4)), "adam"],
        max_steps=10,
        adam={"beta2": [0.9, 0.99]},
    )
    assert list(made["lr"]) == [1e-4, "0.5/0.01/0.0001", 1e-3, 1e-3]


@pytest.mark.parametrize(
    "keys",
    [
        {"kappa": "10:1e6:log1000", "seed": "0..1e9"},
        {"kappa": "10:1e6:log1000", "tol": "1e-9:1e-3:log1000", "rotation": "0:1:lin1000",
         "heterogeneity": "0:1:lin1000", "noise.scale": "0:1:lin1000", "drop": "0.1:1:lin1000", "start": "1:2:lin1000",
         "threshold": "0:0.9:lin1000", "warmup": "0:0.9:lin1000", "every": "1:2:lin1000", "seed": "0..1e3"},
        {"adam.beta2": "0:0.99:lin1000", "adam.beta1": "0:0.99:lin1000", "adam.eps": "0:1:lin1000", "seed": "0..1e9"},
        {"adam.beta2": "0:0.99:lin9000", "adam.beta1": "0:0.99:lin9000"},
        {"case": "1,3", "sampling": "above", "kappa": "10:1e6:log9000", "threshold": "0:0.9:lin4000"},
        {"noise": "gaussian", "noise.scale": "0:1:lin9000", "tol": "1e-9:1e-3:log9000"},
        dict.fromkeys(("heterogeneity", "rotation", "noise.scale", "threshold", "tol"), "0.1:0.9:lin1000000"),
    ],
    ids=lambda keys: " ".join(keys),
)  # fmt: skip
def test_too_many_cells_are_refused_at_once_without_being_counted_one_by_one(keys):
    message = refusal(f"Grid.read({ {'case': '3', 'optimizers': 'gd,adam'} | keys })")
    assert "cells, and the limit is 1,000,000: use fewer values, or give limit=" in message


@pytest.mark.parametrize("key", ["kappa", "max_steps", "seed"])
def test_a_long_range_from_python_is_refused_at_once(key):
    assert f"{key}" in refusal(f"qs.sweep(case=3, optimizers='gd', {key}=range(10, 10**9, 2))")


def refusal(call):
    """The error message of a call, run in a separate process with thirty seconds and four gigabytes."""
    script = (
        "import resource\nresource.setrlimit(resource.RLIMIT_AS, (4 * 2**30, 4 * 2**30))\n"
        "import quadsim as qs\nfrom quadsim._validation import InputError\nfrom quadsim.sweeps.grid import Grid\n"
        f"try:\n    {call}\nexcept InputError as error:\n    print(error)\n"
    )
    try:
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    except subprocess.TimeoutExpired:
        pytest.fail("thirty seconds were not enough to refuse it")
    assert done.returncode == 0, done.stderr[-300:]
    return done.stdout


NAMES = [
    "kappa",
    "seed",
    "tol",
    "gd.lr",
    "spectrum",
    "blocks",
    "start",
    "map",
    "max_steps",
    "noise",
    "noise.scale",
    "x",
    "engine",
]
TEXTS = ["10:20:lin3", "1..3", "..", "1..", ":", "1:2:log0", "a:b:lin2", ",", "none", ";", "/", "1/2;3", "½..2"]
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.binary(max_size=4))
LISTS = st.lists(st.one_of(st.none(), st.integers(-5, 50), st.floats(), st.text(max_size=4)), max_size=3)
NESTED = st.lists(st.lists(st.integers(0, 5), max_size=3), max_size=3)
ASKED = st.dictionaries(st.sampled_from(NAMES), PLAIN | LISTS | NESTED | st.sampled_from(TEXTS), max_size=3)


@given(ASKED)
@settings(max_examples=300)
def test_whatever_is_given_is_a_grid_or_is_refused_in_one_sentence(asked):
    try:
        grid = grid_of(**{"case": 3, "optimizers": "gd"} | asked)
    except InputError as error:
        sentence = str(error)
    else:
        sentence = grid.name
        assert grid.cells >= 1
    assert sentence.strip()
    assert "\n" not in sentence
