"""Figures of sweeps: medians and slopes match plain recomputation, the kind of figure, readable text."""

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from kernels import slow_except
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import QuadMesh
from numpy.testing import assert_allclose

from quadsim import optimizers, plots
from quadsim._format import in_words
from quadsim.plots.layout import spread
from quadsim.plots.scales import Scale

KAPPAS = (10.0, 100.0, 1000.0, 1e4)


def sweep(seeds=4, law=None, tol=1e-6, limit=200_000, **axes):
    """A table with a row for each combination; `law` gives the steps of a row, None where tol is not reached."""
    law = law or (lambda row: 3 * row["kappa"])
    rows = []
    for values in itertools.product(*axes.values(), range(seeds)):
        row = {"kappa": 100.0, "optimizer": "gd", **dict(zip([*axes, "seed"], values, strict=True))}
        steps = law(row)
        steps = None if steps is None or steps > limit else round(steps * (1 + 0.05 * row["seed"]))
        ended = {
            "status": "max-steps" if steps is None else "converged",
            "last_step": limit if steps is None else steps,
        }
        rate = np.exp(2 * np.log(tol) / steps) if steps else 1 - 1e-9
        rows.append({**row, "tol": tol, "steps_to_tol": steps, **ended, "loss": 1e-9, "predicted_rate": rate})
    table = pd.DataFrame(rows).assign(js_distance=lambda t: t.get("heterogeneity", 0.3) * np.log(2), error=None)
    return table.astype({"steps_to_tol": "Int64"})


def two_laws(row):
    return 3 * row["kappa"] if row["optimizer"] == "gd" or row.get("case") == 4 else 90


@pytest.fixture
def random_table():
    rng = np.random.default_rng(7)
    size = 3000
    frame = pd.DataFrame(
        {
            "case": rng.choice([4, 3], size),
            "kappa": rng.choice(KAPPAS, size),
            "beta2": rng.choice([0.9, 0.99, np.nan], size),
            "optimizer": rng.choice(["gd", "adam"], size),
            "tol": 1e-6,
            "status": rng.choice(["converged", "max-steps", "diverged", "error"], size, p=[0.5, 0.3, 0.1, 0.1]),
            "last_step": rng.integers(1, 10**6, size),
            "loss": np.where(rng.random(size) < 0.2, np.nan, rng.exponential(size=size)),
            "predicted_rate": np.where(rng.random(size) < 0.3, np.nan, rng.uniform(0.1, 1.1, size)),
            "js_distance": np.where(rng.random(size) < 0.1, np.nan, rng.random(size)),
        }
    )
    steps = pd.Series(rng.integers(1, 10**6, size), dtype="Int64")
    frame["steps_to_tol"] = steps.where(frame["status"] == "converged")
    return frame.sample(frac=1, random_state=0)


@pytest.mark.parametrize("y", ["steps_to_tol", "loss"])
def test_medians_match_a_plain_loop(random_table, y):
    axes = ["case", "kappa", "beta2"]
    table = plots.medians(random_table, axes, y)
    ours = random_table[random_table["status"] != "error"]
    groups = dict(list(ours.groupby([*axes, "optimizer"], dropna=False)))
    assert len(table) == len(groups) == 2 * 4 * 3 * 2
    for row in table.to_dict("records"):
        here = [None if pd.isna(row[name]) else row[name] for name in [*axes, "optimizer"]]
        (key,) = [key for key in groups if [None if pd.isna(value) else value for value in key] == here]
        group = groups[key]
        values = group[y].astype("Float64").to_numpy(dtype=float, na_value=np.nan)
        values = np.nan_to_num(values, nan=np.inf) if y == "steps_to_tol" else values[~np.isnan(values)]
        assert row["draws"] == len(group)
        assert row["reached"] == np.isfinite(values).sum()
        assert row["diverged"] == (group["status"] == "diverged").sum()
        for name, share in (("lower", 0.25), ("median", 0.5), ("upper", 0.75)):
            expected = np.quantile(values, share, method="nearest")
            assert (expected == row[name]) if np.isfinite(expected) else pd.isna(row[name])
        assert_allclose(row["js_distance"], group["js_distance"].mean())
        if y == "steps_to_tol":
            rate = group["predicted_rate"].dropna().to_numpy()
            below = np.minimum(rate, 0.5)
            predicted = np.where(rate < 1, np.log(1e-12) / np.log(np.where(rate < 1, rate, below)), np.inf)
            assert_allclose(row["predicted"], np.quantile(predicted, 0.5, method="nearest"))
            stopped = group.loc[group["status"] == "max-steps", "last_step"]
            assert row["limit"] == stopped.max() if len(stopped) else pd.isna(row["limit"])


@pytest.mark.parametrize("draws", range(1, 13))
def test_quartiles_match_numpy_for_every_number_of_draws(draws):
    values = np.random.default_rng(draws).permutation(np.arange(float(draws)) ** 2)
    values[values > 50] = np.inf
    steps = pd.array([None if np.isinf(value) else int(value) for value in values], dtype="Int64")
    table = plots.medians(pd.DataFrame({"optimizer": "gd", "steps_to_tol": steps}), [])
    found = table[["lower", "median", "upper"]].astype(float).fillna(np.inf).to_numpy()[0]
    assert_allclose(found, np.quantile(values, [0.25, 0.5, 0.75], method="nearest"))


def test_the_columns_and_the_order_of_medians():
    frame = sweep(case=(4, 3), kappa=KAPPAS[::-1], optimizer=("heavy-ball", "gd"))
    table = plots.medians(frame, ["case", "seed", "kappa", "optimizer"])
    names = "case kappa optimizer draws reached diverged underflow lower median upper limit predicted js_distance"
    assert list(table) == names.split()
    assert list(table["case"].unique()) == [4, 3]  # names in order of appearance
    assert list(table["kappa"].unique()) == sorted(KAPPAS)  # numbers ascending
    assert list(plots.medians(frame, ["kappa"]))[:3] == ["kappa", "case", "optimizer"]  # cases are not pooled
    assert list(plots.medians(frame[frame["case"] == 3], ["kappa"]))[:2] == ["kappa", "optimizer"]


def test_runs_that_did_not_reach_tol_count_as_infinite():
    frame = sweep(seeds=5, kappa=(10.0,), law=lambda row: None if row["seed"] < 3 else 7)
    row = plots.medians(frame, ["kappa"]).iloc[0]
    assert (row["draws"], row["reached"], row["limit"]) == (5, 2, 200_000)
    assert row["lower"] == 8
    assert row[["median", "upper"]].isna().all()


def test_a_prediction_from_the_rate():
    frame = sweep(seeds=1, kappa=KAPPAS)
    table = plots.medians(frame, ["kappa"])
    assert_allclose(table["predicted"], table["median"].astype(float), rtol=1e-9)
    never = plots.medians(frame.assign(predicted_rate=1.0), ["kappa"])
    assert np.isinf(never["predicted"]).all()
    assert plots.medians(frame.assign(predicted_rate=np.nan), ["kappa"])["predicted"].isna().all()


@pytest.mark.parametrize("power", [-0.5, 0.0, 0.5, 1.0, 2.0])
def test_slopes_of_exact_powers(power):
    frame = sweep(seeds=1, case=(3, 4), kappa=KAPPAS)
    frame["loss"] = 5.0 * frame["kappa"] ** (power * (frame["case"] - 3))
    found = plots.slopes(frame, ["case", "kappa", "optimizer"], y="loss")
    assert list(found) == ["optimizer", "case", "slope", "standard_error", "points"]
    assert_allclose(found["slope"], [0, power], atol=1e-12)
    assert_allclose(found["standard_error"], 0, atol=1e-12)


def test_slopes_match_scipy(random_table):
    from scipy.stats import linregress

    frame = random_table.assign(loss=random_table["loss"] * random_table["kappa"] ** 0.7)
    found = plots.slopes(frame, ["case", "kappa", "beta2"], y="loss")
    table = plots.medians(frame, ["case", "kappa", "beta2"], "loss")
    assert len(found) == 12
    for row in found.to_dict("records"):
        same = (table["case"] == row["case"]) & (table["optimizer"] == row["optimizer"])
        same &= table["beta2"].isna() if pd.isna(row["beta2"]) else table["beta2"] == row["beta2"]
        fit = linregress(np.log10(table.loc[same, "kappa"]), np.log10(table.loc[same, "median"]))
        assert_allclose([row["slope"], row["standard_error"]], [fit.slope, fit.stderr])
        assert row["points"] == 4
    shuffled = frame.assign(kappa=np.random.default_rng(0).permutation(frame["kappa"]))  # negative control
    assert abs(plots.slopes(shuffled, ["case", "kappa", "beta2"], y="loss")["slope"] - found["slope"]).max() > 0.1


def test_a_slope_needs_three_points():
    frame = sweep(kappa=KAPPAS, law=lambda row: None if row["kappa"] > 100 else 3 * row["kappa"])
    assert plots.slopes(frame, ["kappa"])[["slope", "points"]].to_numpy().tolist()[0][1] == 2
    assert plots.slopes(frame, ["kappa"])["slope"].isna().all()
    whole = plots.slopes(sweep(kappa=KAPPAS), ["kappa"])
    assert_allclose(whole["slope"], 1, atol=0.01)


@pytest.mark.slow
def test_a_million_rows_take_seconds():
    import time

    rng = np.random.default_rng(0)
    size = 10**6
    frame = pd.DataFrame({"kappa": rng.choice(np.geomspace(10, 1e6, 50), size), "tol": 1e-6, "error": None})
    frame["seed"] = np.arange(size)
    frame["case"], frame["optimizer"] = rng.integers(1, 5, size), rng.choice(["gd", "adam", "sgd"], size)
    frame["steps_to_tol"] = pd.array(rng.integers(1, 10**6, size), dtype="Int64")
    frame["status"], frame["predicted_rate"] = "converged", 0.9
    start = time.perf_counter()
    assert len(plots.medians(frame, ["case", "kappa", "optimizer"])) == 600
    assert len(plots.slopes(frame, ["case", "kappa", "optimizer"])) == 12
    assert time.perf_counter() - start < 20


HALVES = (0.0, 0.5, 1.0)
KINDS = {
    "kappa": ({"kappa": KAPPAS}, "lines"),
    "case x kappa x optimizer": ({"case": (3, 4), "kappa": KAPPAS, "optimizer": ("gd", "frozen-adam")}, "lines"),
    "heterogeneity": ({"heterogeneity": HALVES, "optimizer": ("gd", "adam")}, "lines"),
    "kappa x heterogeneity": ({"kappa": KAPPAS, "heterogeneity": HALVES}, "maps"),
    "lr x beta2": ({"lr": (1e-3, 1e-2, 1e-1), "beta2": (0.9, 0.99, 0.999), "optimizer": ("adam",)}, "maps"),
    "two of one axis": ({"kappa": KAPPAS, "rotation": (0.0, 1.0)}, "lines"),
    "three of numbers": ({"kappa": KAPPAS, "rotation": HALVES, "batch": (1, 2, 3)}, "lines"),
    "optimizer": ({"optimizer": ("gd", "adam")}, "dots"),
    "case x optimizer": ({"case": (1, 2, 3), "optimizer": ("gd", "adam")}, "dots"),
    "span": ({"span": ("blocks", "whole")}, "dots"),
}


def kind(figure):
    if any(isinstance(part, QuadMesh) for part in figure.axes[0].collections):
        return "maps"
    return "dots" if not figure.axes[0].get_ylabel() and figure.axes[0].yaxis_inverted() else "lines"


@pytest.mark.parametrize("name", KINDS)
def test_the_kind_of_figure_follows_from_the_axes(name):
    axes, expected = KINDS[name]
    frame = sweep(**axes, law=lambda row: 3 * row["kappa"] + 5)
    assert kind(plots.sweep_figure(frame, axes=list(axes))) == expected


def test_lines_are_against_the_longer_of_two_axes():
    frame = sweep(kappa=(10.0, 100.0), rotation=(0.0, 0.25, 0.5, 1.0))
    figure = plots.sweep_figure(frame, axes=["kappa", "rotation"])
    assert figure.axes[0].get_xlabel().startswith("rotation")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["κ = 10", "κ = 100"]
    other = plots.sweep_figure(frame, axes=["kappa", "rotation"], x="kappa")
    assert [axes.get_xlabel() for axes in other.axes] == ["", "", "condition number κ", "condition number κ"]


def test_x_chooses_the_horizontal_axis_of_a_map():
    frame = sweep(kappa=KAPPAS, heterogeneity=HALVES)
    names = ["kappa", "heterogeneity"]
    assert plots.sweep_figure(frame, axes=names).axes[0].get_xlabel() == "condition number κ"
    assert plots.sweep_figure(frame, axes=names, x="heterogeneity").axes[0].get_ylabel() == "condition number κ"


def test_colours_labels_and_scales_against_kappa(monkeypatch):
    monkeypatch.setitem(plots.STYLES, "mine", plots.Style("My own"))
    frame = sweep(case=(3, 4), kappa=KAPPAS, optimizer=("gd", "frozen-adam", "mine"), law=two_laws)
    figure = plots.sweep_figure(frame, axes=["case", "kappa", "optimizer"])
    for axes in figure.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        colours = {text.get_text().split("\n")[0]: text.get_color() for text in axes.texts if text.get_text()}
        assert colours["GD"] == plots.style_of("gd").colour
        assert colours["Adam (β2 = 1)"] == plots.style_of("frozen-adam").colour
        assert colours["My own"] not in {style.colour for style in plots.STYLES.values()}
        drawn = {line.get_color() for line in axes.lines}
        assert drawn == set(colours.values())
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert "GD\nslope 1.00" in texts
    assert "Adam (β2 = 1)\nslope 0.00" in texts


def test_with_one_panel_the_slope_follows_the_name():
    figure = plots.sweep_figure(sweep(kappa=KAPPAS), axes=["kappa"])
    assert "GD, slope 1.00" in [text.get_text() for text in figure.axes[0].texts]
    assert figure.get_figwidth() == 5.6


def test_the_title_names_y_and_the_axes():
    frame = sweep(case=(3, 4), kappa=KAPPAS, optimizer=("gd", "frozen-adam"), law=two_laws)
    options = {"axes": ["case", "kappa", "optimizer"]}
    assert title_text(plots.sweep_figure(frame, **options)) == "Steps to tolerance against κ"
    assert title_text(plots.sweep_figure(frame, **options, title="Mine")) == "Mine"
    assert title_text(plots.sweep_figure(frame, **options, title="")) == ""
    assert title_text(plots.dots(frame[frame["kappa"] == 10])) == "Steps to tolerance by optimizer"
    assert title_text(plots.heat_maps(frame, "kappa", "tol")) == ("Steps to tolerance by κ and tolerance")


def title_text(figure):
    return figure.get_suptitle().replace("\n", " ")


def test_heterogeneity_has_a_second_panel_against_the_distance():
    frame = sweep(heterogeneity=HALVES, optimizer=("gd", "adam"))
    left, right = plots.sweep_figure(frame, axes=["heterogeneity", "optimizer"]).axes
    assert left.get_xlabel().replace("\n", " ") == "heterogeneity of the blocks' spectra (0: alike, 1: sorted)"
    assert right.get_xlabel().replace("\n", " ") == "Jensen–Shannon distance between the blocks' spectra"
    assert left.get_ylim() == right.get_ylim()
    assert_allclose(right.lines[0].get_xdata(), np.array(HALVES) * np.log(2))
    assert_allclose(right.lines[0].get_ydata(), left.lines[0].get_ydata())
    assert len(plots.sweep_figure(frame.assign(js_distance=np.nan), axes=["heterogeneity"]).axes) == 1


def test_medians_quartiles_and_theory_are_drawn():
    frame = sweep(seeds=5, kappa=KAPPAS)
    (axes,) = plots.sweep_figure(frame, axes=["kappa"]).axes
    table = plots.medians(frame, ["kappa"])
    measured, theory = axes.lines[:2]
    assert_allclose(measured.get_ydata(), table["median"].astype(float))
    assert_allclose(theory.get_ydata(), table["predicted"])
    assert theory.get_linewidth() < measured.get_linewidth()
    corners = axes.collections[0].get_paths()[0].vertices
    assert_allclose([corners[:, 1].min(), corners[:, 1].max()], [table["lower"].min(), table["upper"].max()])


def test_a_median_that_was_not_reached_breaks_the_line_and_has_a_mark():
    frame = sweep(kappa=KAPPAS, law=lambda row: None if row["kappa"] == 1000 else row["kappa"])
    figure = plots.sweep_figure(frame.assign(predicted_rate=np.nan), axes=["kappa"])
    line, *marks = figure.axes[0].lines
    assert list(np.isnan(line.get_ydata())) == [False, False, True, False]
    (triangle,) = [mark for mark in marks if len(mark.get_xdata())]
    assert (triangle.get_marker(), list(triangle.get_xdata())) == ("^", [1000])
    assert list(triangle.get_ydata()) == [200_000]
    assert "Open triangles" in figure.get_supxlabel()
    whole = plots.sweep_figure(sweep(kappa=KAPPAS), axes=["kappa"])
    assert "triangles" not in whole.get_supxlabel()
    assert not any(line.get_marker() == "^" for line in whole.axes[0].lines)


def test_failed_cells_are_excluded_and_counted():
    frame = sweep(seeds=6, kappa=KAPPAS)
    frame.loc[frame["seed"] >= 3, ["status", "error"]] = "error", "no memory"
    assert set(plots.medians(frame, ["kappa"])["draws"]) == {3}
    assert "12 cells failed." in plots.sweep_figure(frame, axes=["kappa"]).get_supxlabel()
    assert "failed" not in plots.sweep_figure(sweep(kappa=KAPPAS), axes=["kappa"]).get_supxlabel()


def test_cell_edges_of_a_map_are_between_the_values():
    frame = sweep(
        seeds=1, kappa=KAPPAS, heterogeneity=HALVES, law=lambda row: row["kappa"] * (1 + row["heterogeneity"])
    )
    figure = plots.sweep_figure(frame, axes=["kappa", "heterogeneity"])
    axes, bar = figure.axes
    mesh = next(part for part in axes.collections if isinstance(part, QuadMesh))
    assert_allclose(mesh.get_coordinates()[0, :, 0], 10 ** np.arange(0.5, 5), rtol=1e-12)
    assert_allclose(mesh.get_coordinates()[:, 0, 1], [-0.25, 0.25, 0.75, 1.25])
    expected = np.outer(1 + np.array(HALVES), KAPPAS)
    assert_allclose(mesh.get_array().reshape(expected.shape), expected)
    assert mesh.get_cmap().name.startswith(("viridis", "cividis"))
    assert bar.get_ylabel() == "steps to tolerance 10⁻⁶"
    assert (axes.get_xscale(), axes.get_yscale(), bar.get_yscale()) == ("log", "linear", "log")


def test_a_map_hatches_unreached_medians_and_crosses_diverged_ones():
    law = lambda row: None if row["lr"] > 0.05 else 1 / row["lr"]  # noqa: E731
    frame = sweep(lr=(1e-3, 1e-2, 1e-1), momentum=HALVES, optimizer=("heavy-ball", "gd"), law=law)
    frame.loc[(frame["lr"] > 0.05) & (frame["momentum"] == 1), "status"] = "diverged"
    frame = frame[(frame["optimizer"] != "gd") | (frame["momentum"] == 0)]
    frame.loc[frame["optimizer"] == "gd", "momentum"] = np.nan
    figure = plots.heat_maps(frame, "lr", "momentum", axes=["optimizer"])
    axes, _ = figure.axes
    assert axes.get_title(loc="left") == "Heavy ball"
    (hatched,) = [part for part in axes.collections if part.get_hatch()]
    assert len(hatched.get_paths()) == 3
    (crosses,) = [line for line in axes.lines if line.get_marker() == "x"]
    assert (list(crosses.get_xdata()), list(crosses.get_ydata())) == ([0.1], [1.0])
    caption = figure.get_supxlabel().replace("\n", " ")
    assert "Hatched: tolerance not reached within 200,000 steps. Crosses: diverged." in caption
    assert "Not drawn, without learning rate or momentum: GD." in caption


def test_an_optimizer_without_the_axis_is_a_horizontal_line():
    frame = sweep(lr=(1e-3, 1e-2, 1e-1), optimizer=("adam", "gd"), law=lambda row: 1 / row["lr"])
    frame.loc[frame["optimizer"] == "gd", ["lr", "steps_to_tol"]] = np.nan, 77
    figure = plots.sweep_figure(frame, axes=["lr", "optimizer"])
    (flat,) = [line for line in figure.axes[0].lines if line.get_color() == plots.style_of("gd").colour
               and len(line.get_xdata())]  # fmt: skip
    assert list(flat.get_ydata()) == [77, 77]
    assert "GD" in [text.get_text() for text in figure.axes[0].texts]


def test_an_optimizer_without_a_setting_is_in_all_its_panels():
    frame = sweep(kappa=KAPPAS, beta2=(0.9, 0.99), optimizer=("adam", "gd"))
    frame.loc[frame["optimizer"] == "gd", "beta2"] = np.nan
    figure = plots.sweep_figure(frame, axes=["kappa", "beta2", "optimizer"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["β2 = 0.9", "β2 = 0.99"]
    for axes in figure.axes:
        assert {line.get_color() for line in axes.lines} == {plots.style_of("gd").colour, plots.style_of("adam").colour}


def test_a_learning_rate_determined_by_the_problem_is_not_an_axis():
    frame = sweep(lr=(1e-3, 1e-2, 1e-1), optimizer=("adam", "gd", "block-gd"), law=lambda row: 50)
    given = frame["optimizer"] == "adam"
    frame["lr_from"] = np.where(given, "given", "default")
    frame["lr"] = frame["lr"].where(given, frame["seed"] + 0.5).astype(object)
    frame.loc[frame["optimizer"] == "block-gd", "lr"] = "0.5/0.01/2e-4"
    table = plots.medians(frame, ["lr", "optimizer"])
    assert dict(table.groupby("optimizer")["lr"].count()) == {"adam": 3, "gd": 0, "block-gd": 0}
    assert kind(plots.sweep_figure(frame, axes=["lr", "optimizer"])) == "lines"
    texts_alone = plots.medians(frame.drop(columns="lr_from"), ["lr", "optimizer"])
    assert dict(texts_alone.groupby("optimizer")["lr"].count()) == {"adam": 3, "gd": 4, "block-gd": 0}
    several = frame[~given].drop(columns="lr_from").assign(lr=["1/2", "3/4"] * (len(frame) // 3))
    assert kind(plots.sweep_figure(several, axes=["lr", "optimizer"])) == "dots"  # texts are names


def test_every_panel_is_drawn_or_the_figure_is_refused():
    frame = sweep(seeds=1, kappa=KAPPAS, rotation=np.linspace(0, 1, 5), batch=range(1, 6))
    axes = ["kappa", "rotation", "batch"]
    figure = plots.sweep_figure(frame, axes=axes)
    titles = {one.get_title(loc="left").replace("\n", " ") for one in figure.axes}
    assert titles == {f"rotation = {r:g}, batch = {b}" for r in np.linspace(0, 1, 5) for b in range(1, 6)}
    many = sweep(seeds=1, kappa=KAPPAS, span=[f"b{k}" for k in range(8)], map=[f"m{k}" for k in range(8)])
    with pytest.raises(ValueError, match="the figure would have 64 panels, for span, map, and 60 is the most: select"):
        plots.sweep_figure(many, axes=["kappa", "span", "map"])


def test_maps_replace_too_many_panels():
    frame = sweep(seeds=1, kappa=KAPPAS, rotation=np.linspace(0, 1, 9), batch=range(1, 9), optimizer=("gd", "adam"))
    figure = plots.sweep_figure(frame, axes=["kappa", "rotation", "batch", "optimizer"])
    assert kind(figure) == "maps"
    assert len(figure.axes) == 2 * len(KAPPAS) + 1  # a map for each κ and optimizer, and the bar


def test_dots_and_bars_are_medians_and_quartiles():
    frame = sweep(seeds=5, optimizer=("gd", "adam"), law=lambda row: 100 if row["optimizer"] == "gd" else None)
    figure = plots.sweep_figure(frame, axes=["optimizer"])
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["GD", "Adam"]
    (dot,) = [line for line in axes.lines if line.get_marker() == "o"]
    assert (list(dot.get_xdata()), list(dot.get_ydata())) == ([110], [0])
    (bar,) = [line for line in axes.lines if list(line.get_ydata()) == [0, 0]]
    assert list(bar.get_xdata()) == [105, 115]
    (late,) = [line for line in axes.lines if line.get_marker() == ">"]
    assert late.get_color() == plots.style_of("adam").colour
    assert [text.get_text() for text in axes.texts] == ["110", "> 200,000"]


@pytest.mark.parametrize("y", ["loss", "kappa_eff", "measured_rate", "balance"])
def test_another_result_on_the_vertical_axis(y):
    frame = sweep(kappa=KAPPAS)
    frame[y] = {"loss": frame["kappa"], "kappa_eff": frame["kappa"], "measured_rate": 0.9, "balance": -1.0}[y]
    frame.loc[frame.index[:5], y] = np.nan
    figure = plots.sweep_figure(frame, axes=["kappa"], y=y)
    assert figure.axes[0].get_yscale() == ("log" if y in ("loss", "kappa_eff") else "linear")
    assert plots.medians(frame, ["kappa"], y)["reached"].tolist() == [0, 3, 4, 4]
    assert "κ" in figure.get_suptitle()


def test_a_diverged_run_does_not_stretch_the_axis():
    frame = sweep(lr=(1e-3, 1e-2, 1e-1))
    frame["loss"] = frame["lr"]
    frame.loc[frame["lr"] == 0.1, ["loss", "status"]] = 1e200, "diverged"
    (axes,) = plots.sweep_figure(frame, axes=["lr"], y="loss").axes
    assert axes.get_ylim()[1] < 1
    (crosses,) = [line for line in axes.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert list(crosses.get_xdata()) == [0.1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((1e-4, 1e-3, 1e-2), "log"), ((0.0, 0.5, 1.0), "linear"), ((3, 10, 20, 30), "linear"), ((5.0,), "linear"),
        ((0.9, 0.95, 0.99, 0.995, 0.999), "even"), ((0.0, 1e-4, 1e-3, 1e-2), "even"), ((-1.0, 0.0, 1.0), "linear"),
    ],
)  # fmt: skip
def test_the_scale_of_an_axis(values, expected):
    scale = Scale(pd.Series(values, dtype=float))
    assert scale.kind == expected
    edges, at = scale.edges(), scale.positions(np.array(values, dtype=float))
    assert ((edges[:-1] < at) & (at < edges[1:])).all()


def test_labels_are_moved_apart_no_further_than_needed():
    assert_allclose(spread(np.array([10.0, 50.0]), 10, 100), [10, 50])
    assert_allclose(spread(np.array([50.0, 50.0, 50.0]), 10, 100), [40, 50, 60])
    assert_allclose(spread(np.array([99.0, 99.0]), 10, 100), [90, 100])
    crowded = np.sort(np.random.default_rng(0).uniform(0, 100, 8))
    assert np.diff(spread(crowded, 9, 100)).min() >= 9 - 1e-9


def text_boxes(figure):
    """The bounding boxes of all visible texts."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [figure._suptitle, figure._supxlabel]
    texts += [text for legend in figure.legends for text in legend.get_texts()]
    for axes in figure.axes:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label]
        texts += [part for part in axes.get_children() if getattr(part, "get_text", lambda: "")() and part not in texts]
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            low, high = min(low, high), max(low, high)
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [tick.label1 for tick in ticks if tick.label1.get_visible()]
    texts = [text for text in texts if text and text.get_visible() and text.get_text().strip()]
    return [(text.get_text(), text.get_window_extent(canvas.get_renderer())) for text in texts]


def assert_readable(figure):
    boxes = text_boxes(figure)
    assert len(boxes) > 5
    for text, box in boxes:
        assert figure.bbox.x0 <= box.x0, text
        assert box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0, text
        assert box.y1 <= figure.bbox.y1, text
    for (text, box), (other, beside) in itertools.combinations(boxes, 2):
        apart = box.x1 - 1 <= beside.x0 or beside.x1 - 1 <= box.x0 or box.y1 - 1 <= beside.y0 or beside.y1 - 1 <= box.y0
        assert apart, (text, other)


ALL = list(optimizers.OPTIMIZERS)
READABLE = {
    "kappa": {"kappa": KAPPAS, "optimizer": ALL[:5]},
    "case x kappa": {"case": (3, 4), "kappa": KAPPAS, "optimizer": ALL[:6]},
    "all optimizers": {"case": (3, 4), "kappa": KAPPAS, "optimizer": ALL},
    "three cases": {"case": (1, 3, 4), "kappa": KAPPAS, "optimizer": ALL[:4]},
    "four cases": {"case": (1, 2, 3, 4), "kappa": KAPPAS, "optimizer": ALL[:4]},
    "twelve panels": {"batch": range(1, 13), "kappa": KAPPAS, "span": ("blocks",), "rotation": (0.5,)},
    "heterogeneity": {"heterogeneity": np.linspace(0, 1, 5), "optimizer": ALL[:5]},
    "heterogeneity by case": {"case": (3, 4), "heterogeneity": np.linspace(0, 1, 5), "optimizer": ALL[:2]},
    "maps": {"kappa": KAPPAS, "heterogeneity": HALVES, "optimizer": ALL[:2]},
    "five maps": {"kappa": KAPPAS, "rotation": HALVES, "optimizer": ALL[:5]},
    "map of lr and beta2": {"lr": np.geomspace(1e-4, 1, 5), "beta2": (0.9, 0.95, 0.99, 0.995, 0.999)},
    "narrow": {"kappa": (100.0, 200.0, 300.0)},
    "dots": {"optimizer": ALL},
    "dots by case": {"case": (1, 2, 3, 4), "optimizer": ALL[:5]},
}


@pytest.mark.parametrize("name", READABLE)
@pytest.mark.parametrize("reached", slow_except(["all", "some", "none"], "some"))
def test_texts_do_not_touch_and_stay_inside(name, reached):
    def law(row):
        late = reached == "none" or (reached == "some" and row["kappa"] >= 1000)
        return None if late else 20 * (1 + ALL.index(row["optimizer"])) + row["kappa"] ** 0.8

    axes = READABLE[name]
    figure = plots.sweep_figure(sweep(seeds=3, **axes, law=law), axes=list(axes), caption="A long caption. " * 9)
    assert_readable(figure)


def test_the_readability_check_can_fail():
    figure = plots.sweep_figure(sweep(kappa=KAPPAS), axes=["kappa"])
    assert_readable(figure)
    figure.axes[0].text(0.5, -0.1, "overlaps the axis label", transform=figure.axes[0].transAxes, ha="center")
    with pytest.raises(AssertionError):
        assert_readable(figure)


def exploded(frame):
    return frame.assign(status="diverged", steps_to_tol=pd.array([None] * len(frame), dtype="Int64"), last_step=9)


DEGENERATE = {
    "one seed": lambda frame: frame[frame["seed"] == 0],
    "one kappa": lambda frame: frame[frame["kappa"] == 100],
    "one row": lambda frame: frame.head(1),
    "all diverged": exploded,
    "not reached": lambda frame: exploded(frame).assign(status="max-steps"),
    "no theory": lambda frame: frame.assign(predicted_rate=np.nan),
    "required columns only": lambda frame: frame[["kappa", "case", "heterogeneity", "optimizer", "steps_to_tol"]],
    "zero steps": lambda frame: frame.assign(steps_to_tol=pd.array([0] * len(frame), dtype="Int64")),
    "equal values": lambda frame: frame.assign(steps_to_tol=pd.array([40] * len(frame), dtype="Int64")),
    "steps as floats": lambda frame: frame.assign(steps_to_tol=frame["steps_to_tol"].astype(float)),
    "duplicate index": lambda frame: frame.set_index(np.zeros(len(frame), dtype=int)),
}  # fmt: skip


@pytest.mark.parametrize(
    "axes",
    [pytest.param(axes, marks=pytest.mark.slow) for axes in [("kappa",), ("heterogeneity",), ("case",)]]
    + [("kappa", "heterogeneity")],
    ids=str,
)
@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_tables_are_drawn(name, axes, tmp_path):
    frame = sweep(case=(3, 4), kappa=(10.0, 100.0, 1e6), heterogeneity=HALVES, optimizer=("gd", "adam"))
    figure = plots.sweep_figure(DEGENERATE[name](frame), axes=[*axes, "optimizer"])
    for kind_of_file in ("png", "svg"):
        figure.savefig(tmp_path / f"figure.{kind_of_file}")
    assert (tmp_path / "figure.svg").stat().st_size > 3000
    if "heterogeneity" not in axes or "kappa" not in axes:
        plots.heat_maps(DEGENERATE[name](frame), "kappa", "heterogeneity").savefig(tmp_path / "map.png")


@pytest.mark.parametrize(
    ("frame", "given", "message"),
    [
        (sweep(kappa=KAPPAS).head(0), {"axes": ["kappa"]}, "nothing to draw: the table is empty"),
        (sweep(kappa=KAPPAS).assign(status="error"), {"axes": ["kappa"]}, "nothing to draw: all cells failed"),
        (sweep(kappa=KAPPAS), {"axes": ["lr"]}, "no column lr"),
        (sweep(kappa=KAPPAS), {"axes": ["kappa"], "y": "speed"}, "no column speed"),
        (sweep(kappa=KAPPAS), {"axes": ["kappa"], "y": "status"}, "y must be a column of numbers, got status"),
        (sweep(kappa=KAPPAS), {"axes": ["kappa"], "x": "optimizer"}, "x must be an axis of numbers, got optimizer"),
    ],
    ids=["empty", "failed", "axis", "y", "names", "x"],
)
def test_invalid_arguments_raise(frame, given, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        plots.sweep_figure(frame, **given)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(33_227, "33,000"), (15, "15"), (1_240_000, "1.2 million"), (0.0031, "0.0031"), (1e-9, "1e-09"), (996, "1,000"),
     (2.5e12, "2.5 trillion"), (7, "7"), (0, "0")],
)  # fmt: skip
def test_numbers_in_words(value, expected):
    assert in_words(value) == expected
