"""A new optimizer is one file: the registry, exports, `list`, help, figures and both engines find it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels import interpreted_path
from numpy.testing import assert_allclose, assert_array_equal

import quadsim as qs
from quadsim import _discovery, plots
from quadsim.optimizers import OPTIMIZERS
from quadsim.plots.style import STROKES

BUILT_IN = {name: kind for name, kind in OPTIMIZERS.items() if not kind.user_defined}


# ---- a new file

PLANTED = '''
from dataclasses import dataclass

from quadsim.optimizers.base import Optimizer
from quadsim.optimizers.recurrence import Recurrence
from quadsim.optimizers.settings import positive


@dataclass(frozen=True)
class SlowGD(Optimizer):
    """Gradient descent with a brake."""

    name = "slow-gd"
    label = "Slow GD"
    colour = "#123456"
    stroke = "dashed"
    list_order = 12
    homogeneous = True

    lr: float = positive(1e-3)
    brake: float = positive(2.0)

    @staticmethod
    def rule(g, lr, brake):
        return lr * g / brake

    def recurrence(self, problem, used):
        return Recurrence(used.lr / used.brake)
'''
LOOK = """
import json
import quadsim as qs
from quadsim import cli, plots
from quadsim.optimizers import OPTIMIZERS, SlowGD

names = {}
exec("from quadsim import *", names)
runs = [qs.solve(qs.case(3), qs.SlowGD(), max_steps=50, tol=0, engine=engine) for engine in ("closed-form", "compiled")]
line = plots.convergence(qs.table.curves(runs[:1])).axes[0].lines[0]
print(json.dumps({
    "registered": OPTIMIZERS["slow-gd"] is SlowGD is qs.SlowGD is names["SlowGD"], "order": list(OPTIMIZERS)[:4],
    "public": "SlowGD" in qs.__all__, "losses": [run.loss[-1] for run in runs],
    "colour": line.get_color(), "dashed": line.is_dashed(), "label": plots.style_of("slow-gd").label,
}))
"""


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """Run Python in a copy of the package with one more file."""
    folder = tmp_path_factory.mktemp("planted")
    package = folder / "quadsim"
    shutil.copytree(Path(qs.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "optimizers" / "slow_gd.py").write_text(PLANTED)

    def python(*arguments):
        env = {**os.environ, "PYTHONPATH": str(folder)}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return python


@pytest.mark.slow
def test_a_new_file_is_registered_exported_drawn_and_run_by_both_engines(planted):
    seen = json.loads(planted("-c", LOOK))
    assert seen["registered"]
    assert seen["public"]
    assert seen["order"] == ["gd", "block-gd", "heavy-ball", "slow-gd"]
    assert (seen["colour"], seen["dashed"], seen["label"]) == ("#123456", True, "Slow GD")
    assert_allclose(seen["losses"], qs.solve(qs.case(3), qs.GD(lr=5e-4), max_steps=50, tol=0).loss[-1], rtol=1e-9)


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("list optimizers", ["slow-gd", "Slow GD", "brake=2.0"]),
        ("case=3 optimizers=slow-gd slow-gd.brake=4 engine=closed-form out=figures --json", ['"slow-gd"', "4.0"]),
    ],
)
def test_a_new_file_is_on_the_command_line(planted, arguments, shown):
    output = planted("-m", "quadsim", *arguments.split())
    assert [text for text in shown if text not in output] == []


# ---- the existing files


def test_files_are_named_as_on_the_command_line_and_agree_with_their_classes():
    assert [info.name for info in _discovery.optimizers()] == list(BUILT_IN)
    for info in _discovery.optimizers():
        kind = BUILT_IN[info.name]
        assert (info.module, info.class_name) == (kind.__module__, kind.__qualname__)
        assert info.module == f"quadsim.optimizers.{info.name.replace('-', '_')}"
        assert (info.label, info.colour, info.stroke) == (kind.label, kind.colour, kind.stroke)
        assert plots.STYLES[info.name] == plots.Style(kind.label, kind.colour, STROKES[kind.stroke])
        assert info.list_order == kind.list_order
        assert kind.reference
    assert len({(info.colour, info.stroke) for info in _discovery.optimizers()}) == len(BUILT_IN)
    assert len({info.label for info in _discovery.optimizers()}) == len(BUILT_IN)


def test_a_rule_s_label_is_in_figures():
    @qs.rule(label="My own")
    def labelled(g, lr=0.1):
        return lr * g

    try:
        assert plots.style_of("labelled") == plots.Style("My own")
    finally:
        del OPTIMIZERS["labelled"], _discovery.USER_LABELS["labelled"]


# ---- what the classes declare

STEPS = 6
SETTINGS = {"eps": 0.0, "weight_decay": 0.0}


def problem(change=lambda block: block, scale=1.0):
    """Two blocks, rotated or scaled."""
    blocks = qs.BlockQuadratic.from_spectra([[1.0, 7.0, 30.0, 90.0], [2.0, 5.0, 11.0, 40.0]], seed=5).blocks
    turned = [scale * change(block) for block in blocks]
    return qs.BlockQuadratic.from_blocks([(block + block.T) / 2 for block in turned])


def path_of(kind, problem, error):
    allowed = kind().settings()
    optimizer = kind(**{"lr": 1e-3, **{name: value for name, value in SETTINGS.items() if name in allowed}})
    return interpreted_path(problem, optimizer, error, STEPS, seed=3)


@pytest.mark.parametrize("kind", BUILT_IN.values(), ids=BUILT_IN)
def test_each_optimizer_has_exactly_the_invariances_that_it_declares(kind):
    rng = np.random.default_rng(1)
    turn, _ = np.linalg.qr(rng.standard_normal((4, 4)))
    signs = np.array([1.0, -1.0, 1.0, 1.0])
    error = rng.standard_normal(8)
    here = path_of(kind, problem(), error)
    changed = {
        "rotation": (problem(lambda block: turn @ block @ turn.T), np.kron(np.eye(2), turn)),
        "signs": (problem(lambda block: np.outer(signs, signs) * block), np.kron(np.eye(2), np.diag(signs))),
        "scale": (problem(scale=4.0), np.eye(8)),
    }
    found = [
        name
        for name, (other, map_) in changed.items()
        if np.allclose(path_of(kind, other, map_ @ error), here @ map_.T, rtol=1e-9, atol=1e-12)
    ]
    assert tuple(found) == kind.invariances


LINEAR = [
    qs.GD(), qs.BlockGD(), qs.BlockGD(lr=(0.01, 0.02)), qs.HeavyBall(), qs.HeavyBall(lr=0.01, momentum=0.5),
    qs.Nesterov(), qs.Nesterov(lr=0.01, momentum=0.5), qs.FrozenAdam(), qs.FrozenAdam(lr=0.1, beta1=0.6),
]  # fmt: skip


@pytest.mark.parametrize("optimizer", LINEAR, ids=repr)
def test_the_rule_follows_the_recurrence_that_its_class_declares(optimizer):
    some, error = problem(), np.random.default_rng(2).standard_normal(8)
    path = interpreted_path(some, optimizer, error, STEPS, seed=0)
    recurrence = optimizer.recurrence(some, optimizer.with_best_lr(some, error))
    dense = np.zeros((8, 8))
    dense[:4, :4], dense[4:, 4:] = some.blocks
    root = np.sqrt(np.abs(dense @ error)) if recurrence.metric == "first-gradient" else np.ones(8)
    modes, values = [], []
    for part in (slice(0, 4), slice(4, 8)):
        found, vectors = np.linalg.eigh(dense[part, part] / np.outer(root[part], root[part]))
        values.append(found)
        modes.append((path * root)[:, part] @ vectors)
    e = np.hstack(modes)
    shrink, momentum = 1 - recurrence.lr * np.concatenate(values), recurrence.momentum
    a, b = ((1 + momentum) * shrink, -momentum * shrink) if recurrence.nesterov else (momentum + shrink, -momentum)
    before = np.vstack([e[:1], e[:-2]])
    assert_allclose(e[1:], a * e[:-1] + b * before, atol=1e-9 * np.abs(e).max())


def test_all_recurrences_are_tested_and_a_subclass_does_not_inherit_one():
    assert {type(optimizer) for optimizer in LINEAR} == {kind for kind in BUILT_IN.values() if kind.has_closed_form()}

    class Other(qs.GD):
        name = "other"

    assert not Other.has_closed_form()
    assert_array_equal(list(BUILT_IN), [name for name in OPTIMIZERS if name in BUILT_IN])
