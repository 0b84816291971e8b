"""Figures of tables: curves, bands, labels and limits."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim import optimizers, plots
from quadsim.engine import table
from quadsim.plots.convergence import EMPTY


@pytest.fixture(scope="module")
def runs():
    problem = qs.case(3)
    return [
        qs.solve(problem, optimizer, engine="compiled")
        for optimizer in (qs.GD(), qs.FrozenAdam(), qs.BlockGD(), qs.Adam(lr=1e-2))
    ]


def test_each_optimizer_has_a_curve_a_label_and_a_colour(runs):
    figure = plots.convergence(table.curves(runs), title="A finding", tol=1e-6)
    (axes,) = figure.axes
    labels = {text.get_text(): text.get_color() for text in axes.texts}
    for run in runs:
        assert labels[run.optimizer.label] == plots.style_of(run.optimizer.name).colour
    assert figure.get_suptitle() == "A finding"
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    gd = next(line for line in axes.lines if line.get_color() == plots.style_of("gd").colour)
    assert gd.get_xdata()[-1] == runs[0].steps_to_tol
    assert gd.get_ydata()[-1] == pytest.approx(1e-6, rel=1e-3)


def test_lanes_of_one_optimizer_are_separate_curves_with_one_label():
    lanes = qs.solve(qs.case(3), [qs.GD(lr=lr) for lr in (1e-4, 2e-4, 3e-4)], max_steps=1000, engine="compiled")
    (axes,) = plots.convergence(table.curves(lanes)).axes
    assert sum(len(line.get_xdata()) > 1 for line in axes.lines) == 3
    assert [text.get_text() for text in axes.texts] == ["GD"]


@pytest.mark.parametrize("number", [3, 4])
def test_labels_do_not_touch_and_stay_inside(number):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    optimizers = qs.GD(), qs.FrozenAdam(), qs.BlockGD(), qs.Adam(lr=1e-3)
    runs = [qs.solve(qs.case(number), optimizer, engine="compiled") for optimizer in optimizers]
    figure = plots.convergence(table.curves(runs), tol=1e-6)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # places the axes
    renderer = canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts if text.get_fontweight() == "bold"]
    assert len(boxes) == 4
    inside = figure.axes[0].get_window_extent(renderer)
    for i, box in enumerate(boxes):
        assert inside.x0 <= box.x0
        assert box.x1 <= figure.bbox.x1
        assert inside.y0 <= box.y0
        assert not any(box.overlaps(other) for other in boxes[:i])


def test_a_run_without_a_curve_is_explained():
    runs = [
        qs.solve(qs.case(3), qs.GD(), max_steps=0, engine="compiled"),
        qs.solve(qs.case(3), qs.GD(lr=1e300), tol=0, engine="compiled"),
    ]
    (axes,) = plots.convergence(table.curves(runs), tol=1e-6).axes
    said = [text.get_text().replace("\n", " ") for text in axes.texts]
    assert said == [EMPTY, "tol = 1e-06"]
    assert axes.get_ylim()[0] < 1e-6 < axes.get_ylim()[1]


@pytest.mark.parametrize("optimizer", [qs.BlockGD(), qs.Adam(eps=0.0), qs.GD(lr=3e-4)], ids=repr)
def test_a_run_that_underflows_is_drawn(optimizer, tmp_path):
    run = qs.solve(qs.case(3), optimizer, tol=0, engine="compiled")
    plots.convergence(table.curves([run]), tol=0).savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 1000


def test_no_nan_reaches_a_table():
    runs = [qs.solve(qs.case(3), qs.GD(lr=lr), tol=0, engine="compiled") for lr in (1e-2, 1e300)]
    curves = table.curves(runs)
    assert np.isfinite(curves[["loss", "grad_norm", "relative"]]).all(axis=None)
    assert list(table.summary(runs)["status"]) == ["diverged", "diverged"]


def test_bounds_are_above_the_losses():
    rows = []
    problem = qs.case(3)
    for optimizer in (qs.GD(), qs.HeavyBall()):
        run = qs.exact(problem, optimizer, tol=0, at=range(300))
        bound = qs.theory.bound(problem, optimizer, run.steps)
        assert (run.loss / run.loss[0] <= bound * (1 + 1e-12)).all()
        columns = {"step": run.steps, "loss": run.loss / run.loss[0], "bound": bound, "rate": 0.9**run.steps}
        rows.append(pd.DataFrame({"optimizer": optimizer.name, "label": optimizer.label, "seed": 0, **columns}))
    figure = plots.bounds(pd.concat(rows), title="A finding", caption="made so")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["GD", "Heavy ball"]
    for axes in figure.axes:
        assert [text.get_text() for text in axes.get_legend().get_texts()] == [
            "measured, step by step", "bound", "exact rate",
        ]  # fmt: skip
        assert axes.get_ylim()[1] > max(line.get_ydata().max() for line in axes.lines)


def test_kappa_eff_against_kappa_has_a_curve_and_a_band_for_each_problem():
    kappa = np.geomspace(10, 1e6, 20)
    rows = [
        pd.DataFrame({"problem": name, "kappa": kappa, "lower": by / 2, "median": by, "upper": by * 2})
        for name, by in (("Case 3", np.full(20, 20.0)), ("Case 4", 1.6 * kappa))
    ]
    (axes,) = plots.kappa_eff(pd.concat(rows)).axes
    assert {"Case 3", "Case 4", "κ_eff = κ"} <= {text.get_text() for text in axes.texts}
    assert len(axes.collections) == 2
    assert_allclose(axes.lines[-1].get_xdata(), axes.lines[-1].get_ydata())  # the diagonal


def test_every_registered_optimizer_can_be_drawn():
    names = list(optimizers.OPTIMIZERS)
    parts = [{"optimizer": name, "label": name, "lane": lane, "problem": "p"} for lane, name in enumerate(names)]
    curves = pd.DataFrame([{**part, "step": step, "relative": 1 / (1 + step)} for part in parts for step in (0, 1, 2)])
    lines = plots.convergence(curves).axes[0].lines
    assert sum(line.get_gid() != "coincident" for line in lines) == 2 * len(names)
    assert sum(line.get_gid() == "coincident" for line in lines) == len(names)  # all curves are equal
    bands = curves.assign(lower=curves["relative"], median=curves["relative"], upper=curves["relative"])
    lines = plots.panels(bands, {"p": "title"}).axes[0].lines
    assert sum(line.get_gid() != "coincident" for line in lines) == len(names)
