"""Figures and tables of sweeps aggregate over seeds only: runs with different settings are never pooled."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import quadsim as qs
from quadsim import plots
from quadsim.cli import main as cli
from quadsim.engine.table import read_csv
from quadsim.plots.aggregate import RESULTS, axes_of
from quadsim.sweeps import axes as sweep_axes
from quadsim.sweeps.store.database import Store


def test_result_columns_are_those_of_sweeps():
    assert RESULTS == sweep_axes.RESULTS


# ---- from Python


def table_of(**columns):
    """Runs of every combination of these values, 5 seeds each, whose steps depend on all of them."""
    rows = []
    for values in itertools.product(*columns.values()):
        row = dict(zip(columns, values, strict=True))
        steps = 100 * sum((k + 1) * (list(columns[name]).index(row[name]) + 1) for k, name in enumerate(columns))
        rows += [{"optimizer": "adam", **row, "seed": seed, "status": "converged", "steps_to_tol": steps + seed,
                  "tol": 1e-6, "last_step": steps + seed} for seed in range(5)]  # fmt: skip
    return pd.DataFrame(rows)


def same(value, other):
    return (pd.isna(value) and pd.isna(other)) or value == other


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_runs_with_different_settings_are_in_different_rows(data):
    """Random settings, given as axes or not, present or absent, complete grids or not."""
    names = data.draw(st.lists(st.sampled_from(["kappa", "batch", "noise", "beta2", "alpha", "start"]), unique=True))
    values = {"kappa": [10.0, 100.0], "batch": [None, 1, 3], "noise": [0.0, 0.1], "beta2": [None, 0.9, 0.99],
              "alpha": [1, 2], "start": ["ones", "gaussian", None]}  # fmt: skip
    frame = table_of(**{name: values[name] for name in names})
    frame["optimizer"] = np.where(np.arange(len(frame)) // 5 % 2, "adam", "lion")
    keep = np.array(data.draw(st.lists(st.booleans(), min_size=len(frame), max_size=len(frame))))
    frame = frame[keep]
    if frame.empty:
        return
    table = plots.medians(frame, data.draw(st.lists(st.sampled_from(names), unique=True)) if names else [])
    groups = list(frame.groupby([*names, "optimizer"], dropna=False, sort=False))
    assert len(table) == len(groups)
    assert table["draws"].sum() == len(frame)
    expected = sorted((len(group), np.quantile(group["steps_to_tol"], 0.5, method="nearest")) for _, group in groups)
    assert sorted(zip(table["draws"], table["median"], strict=True)) == expected


def test_an_absent_batch_size_is_a_separate_line():
    frame = table_of(kappa=[10.0, 100.0, 1000.0], batch=[None, 3])
    for axes in ([], ["kappa"], ["kappa", "batch"], ["kappa", "batch", "optimizer"]):
        table = plots.medians(frame, axes)
        assert set(table["draws"]) == {5}
        assert len(table) == 6
        assert len(plots.slopes(frame, axes)) == 2
        figure = plots.sweep_figure(frame, axes=axes)
        assert [one.get_title(loc="left") for one in figure.axes] == ["batch = 3", "batch = none"]
        assert "medians over 5 seeds" in caption(figure)
    drawn = [list(one.lines[0].get_ydata()) for one in figure.axes]
    for line, batch in zip(drawn, (3, None), strict=True):
        ours = frame[[same(value, batch) for value in frame["batch"]]]
        assert line == list(ours.groupby("kappa")["steps_to_tol"].median())


def caption(figure):
    return figure.get_supxlabel().replace("\n", " ")


def test_a_setting_not_among_the_axes_gets_panels_and_maps():
    frame = table_of(kappa=[10.0, 100.0, 1000.0], rotation=[0.0, 0.5, 1.0], span=["blocks", "whole"])
    maps = plots.heat_maps(frame, "kappa", "rotation")
    assert [one.get_title(loc="left") for one in maps.axes[:2]] == ["Adam, span = blocks", "Adam, span = whole"]
    lines = plots.against(frame, "kappa")
    assert len(lines.axes) == 6
    dots = plots.dots(frame[frame["kappa"] == 10])
    assert len(dots.axes) == 6


def test_the_caption_states_unequal_numbers_of_seeds():
    frame = table_of(kappa=[10.0, 100.0])
    figure = plots.sweep_figure(frame[(frame["kappa"] > 10) | (frame["seed"] < 3)], axes=["kappa"])
    assert "medians over 3 to 5 seeds" in caption(figure)


def test_duplicate_runs_count_once_and_conflicting_results_raise():
    frame = table_of(kappa=[10.0, 100.0])
    table = plots.medians(pd.concat([frame, frame]), ["kappa"])
    assert set(table["draws"]) == {5}
    other = frame.assign(steps_to_tol=frame["steps_to_tol"] + 1)
    with pytest.raises(ValueError, match="seed 0 of adam occurs twice with the same settings and another steps_to_tol"):
        plots.medians(pd.concat([frame, other]), ["kappa"])
    table = plots.medians(pd.concat([frame.assign(version=1), other.assign(version=2)]), ["kappa"])
    assert (len(table), set(table["draws"])) == (4, {5})


def test_settings_determined_by_others_are_not_axes():
    """Engine, step limit and theoretical learning rate follow from the optimizer."""
    names = ["gd", "adam", "heavy-ball"]
    rows = qs.sweep(case=3, kappa=[10, 100], optimizers=names, adam={"lr": [0.01, 0.1]}, seed=range(3), tol=0.1)
    table = plots.medians(rows)
    assert axes_of(table) == ["kappa", "lr", "optimizer"]
    assert dict(table.groupby("optimizer")["lr"].nunique()) == {"adam": 2, "gd": 0, "heavy-ball": 0}
    assert set(table["draws"]) == {3}
    figure = plots.sweep_figure(rows, axes=["kappa", "lr", "optimizer"])
    assert [one.get_title(loc="left") for one in figure.axes] == ["lr = 0.01", "lr = 0.1"]
    for one in figure.axes:  # GD and heavy ball are in both
        assert {plots.style_of(name).colour for name in ("gd", "adam", "heavy-ball")} <= {
            line.get_color() for line in one.lines
        }


def test_a_default_setting_is_not_an_axis_if_another_optimizer_sweeps_it():
    rows = qs.sweep(case=3, optimizers=["adam", "adam-mini"], adam={"beta2": [0.9, 0.99]}, seed=range(2), max_steps=20)
    table = plots.medians(rows)
    assert dict(table.groupby("optimizer")["beta2"].nunique()) == {"adam": 2, "adam-mini": 0}
    assert "Horizontal lines: β2 not swept (Adam-mini)." in caption(
        plots.sweep_figure(rows, axes=["beta2", "optimizer"])
    )


def test_the_automatic_learning_rate_beside_a_given_one():
    rows = qs.sweep(case=3, kappa=[10, 20], optimizers="gd", gd={"lr": [None, 0.01]}, seed=range(2))
    table = plots.medians(rows)
    assert len(table) == 4
    assert set(table["draws"]) == {2}
    titles = [one.get_title(loc="left") for one in plots.sweep_figure(rows, axes=["kappa", "lr"]).axes]
    assert titles == ["lr = 0.01", "lr = automatic"]


def test_a_setting_with_the_name_of_a_column_of_the_table():
    frame = table_of(kappa=[10.0, 100.0, 1000.0], limit=[1.0, 2.0], draws=[1, 2])
    table = plots.medians(frame, ["kappa", "limit"])
    assert axes_of(table) == ["kappa", "limit_setting", "draws_setting", "optimizer"]
    assert (len(table), set(table["draws"])) == (12, {5})
    for x in ("kappa", "limit"):
        assert len(plots.sweep_figure(frame, axes=["kappa", "limit", "draws"], x=x).axes) == (4 if x == "kappa" else 6)


def test_a_condition_number_determined_by_the_spectrum_is_not_an_axis():
    rows = qs.sweep(case=1, map="unshifted", block_size=3, optimizers="gd", seed=range(3), tol=0.1)
    assert rows["kappa"].nunique() > 1
    table = plots.medians(rows)
    assert (len(table), list(table["draws"])) == (1, [3])


def marks(axes, mark):
    return [(x, y) for line in axes.lines if line.get_marker() == mark for x, y in line.get_xydata()]


@pytest.mark.parametrize("y", ["loss", "grad_norm", "measured_rate"])
def test_runs_that_underflowed_are_excluded_from_medians(y):
    """Three of five runs left float64's range with tiny values: the medians are those of the other two."""
    frame = table_of(kappa=[10.0, 100.0], beta2=[0.9, 0.999]).assign(status="max-steps", steps_to_tol=np.nan)
    frame[y] = np.where(frame["kappa"] == 10, 0.1, 0.2) * (1 + 0.01 * frame["seed"])
    lost = (frame["beta2"] == 0.999) & (frame["seed"] < 3)
    frame.loc[lost, y], frame.loc[lost, "status"] = 1e-250, "underflow"
    if y == "loss":  # the last step of a run, in the middle of the contraction of ledger 5i
        frame.loc[lost & (frame["seed"] == 0), ["loss", "status"]] = 0.0, "max-steps"
    table = plots.medians(frame, ["kappa", "beta2"], y).set_index(["kappa", "beta2"])
    assert table.loc[(10, 0.999), ["draws", "reached", "underflow"]].tolist() == [5, 2, 3]
    assert table.loc[(10, 0.9), ["draws", "reached", "underflow"]].tolist() == [5, 5, 0]
    assert table["lower"].min() >= 0.1
    figure = plots.sweep_figure(frame, axes=["kappa", "beta2"], x="kappa", y=y)
    assert "Left out: 6 of 20 runs, which left float64's range." in figure.get_supxlabel().replace("\n", " ")


def test_triangles_mark_unreached_medians_and_crosses_diverged_ones():
    frame = table_of(kappa=[10.0, 100.0, 1000.0], batch=[None, 3])
    late, gone = frame["kappa"] == 100, frame["kappa"] == 1000
    frame["steps_to_tol"] = frame["steps_to_tol"].where(~(late | gone)).astype("Int64")
    frame.loc[late, ["status", "last_step"]] = "max-steps", 5000
    frame.loc[gone, ["status", "last_step"]] = "diverged", 7
    figure = plots.sweep_figure(frame, axes=["kappa", "batch"])
    for one in figure.axes:
        assert marks(one, "^") == [(100, 5000)]
        assert [x for x, _ in marks(one, "x")] == [1000]
    assert "Open triangles: the median is above the limit" in caption(figure)
    assert "Crosses: diverged." in caption(figure)
    without = plots.sweep_figure(frame.drop(columns="last_step"), axes=["kappa", "batch"])  # marked at the top
    assert [x for x, _ in marks(without.axes[0], "^")] == [100]
    flat = plots.sweep_figure(frame[frame["kappa"] == 100], x="batch")
    assert [y for _, y in marks(flat.axes[0], "^")] == [5000, 5000]  # batch 3, and none as a horizontal line


def test_unreached_medians_are_marked_against_the_distance_too():
    frame = table_of(heterogeneity=[0.0, 0.5, 1.0]).assign(js_distance=lambda rows: 0.6 * rows["heterogeneity"])
    frame[["steps_to_tol", "last_step", "status"]] = np.nan, 200, "max-steps"
    frame.loc[frame["heterogeneity"] == 1, "status"] = "diverged"
    _, distance = plots.against(frame, "heterogeneity").axes
    marks = {line.get_marker(): list(line.get_xdata()) for line in distance.lines if line.get_marker() in ("^", "x")}
    assert marks == {"^": [0.0, 0.3], "x": [0.6]}
    assert "Jensen" in distance.get_xlabel()


def test_axis_labels_are_inside_the_figure(monkeypatch):
    monkeypatch.setitem(plots.STYLES, "adam", plots.Style("an optimizer with a long name", "#CC79A7"))
    frame = table_of(heterogeneity=[0.0, 0.5, 1.0]).assign(js_distance=lambda rows: 0.6 * rows["heterogeneity"])
    figure = plots.against(frame, "heterogeneity")
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.xaxis.label.get_window_extent().x1 <= figure.bbox.x1


def test_the_caption_names_settings_that_only_some_optimizers_have():
    heavy_ball = table_of(kappa=[10.0, 100.0, 1000.0], momentum=[0.5, 0.9]).assign(optimizer="heavy-ball")
    others = table_of(kappa=[10.0, 100.0, 1000.0]).assign(optimizer="nesterov", momentum=0.8)
    figure = plots.sweep_figure(pd.concat([heavy_ball, others]), axes=["kappa", "momentum"])
    assert [one.get_title(loc="left") for one in figure.axes] == ["momentum = 0.5", "momentum = 0.9"]
    assert "Swept for some optimizers only, the others are repeated: momentum (Heavy ball)." in caption(figure)
    assert "alone" not in caption(plots.sweep_figure(heavy_ball, axes=["kappa", "momentum"]))


# ---- from the command line


@pytest.fixture
def command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = cli.main([part for word in arguments for part in word.split(" ")])
        return code, *capsys.readouterr()

    return run


SWEEP = "sweep case=3 kappa=10,100 optimizers=adam adam.lr=0.1 batch=none,3 seed=0..4 store=s.db"


def test_the_figure_the_table_and_the_summary_of_two_batch_sizes(command):
    code, out, _ = command(SWEEP)
    assert code == 0
    assert "median steps are over 5 seeds, one row for each setting" in out
    with Store("s.db") as store:
        frame = store.frame(["kappa", "batch", "seed", "steps_to_tol"])
    by_hand = {(k, b): np.quantile(part["steps_to_tol"].astype(float), 0.5, method="nearest")
               for (k, b), part in frame.fillna({"batch": 0}).groupby(["kappa", "batch"])}  # fmt: skip
    assert len(by_hand) == len(set(by_hand.values())) == 4
    for (kappa, batch), steps in by_hand.items():
        line = next(line for line in out.splitlines() if re.match(rf"\s*{kappa:g}\s+{int(batch) or 'none'}\s", line))
        assert line.split()[-3:] == ["5", "5", f"{steps:,.0f}"]
    rows = json.loads(command(SWEEP, "--json")[1])["rows"]
    assert {(row["kappa"], row["batch"] or 0): row["median_steps"] for row in rows} == by_hand
    code, out, _ = command("plot s.db --json")
    result = json.loads(out)
    assert (result["axes"], result["settings"]) == (["kappa", "batch"], 4)
    assert result["aggregated"] == {"over": "seed", "fewest": 5, "most": 5}
    table = read_csv("figures/s.csv").fillna({"batch": 0})
    assert dict(zip(zip(table["kappa"], table["batch"], strict=True), table["median"], strict=True)) == by_hand
    assert set(table["draws"]) == {5}
    svg = Path("figures/s.svg").read_text(encoding="utf-8")
    assert "medians over 5 seeds" in svg
    assert "batch = none" in svg
    assert "4 settings, medians over 5 seeds" in command("plot s.db")[1]


def test_none_selects_rows_without_the_key(command):
    command(SWEEP)
    for arguments, batches in (("batch=none", [0]), ("batch=none,3", [0, 3]), ("batch=3", [3]), ("batch=NONE", [0])):
        code, out, err = command("plot s.db", arguments, "--json")
        assert (code, err) == (0, ""), arguments
        result = json.loads(out)
        assert result["settings"] == 2 * len(batches)
        table = next(name for name in result["files"] if name.endswith(".csv"))
        assert sorted(read_csv(table).get("batch", pd.Series(batches)).fillna(0).unique()) == batches


def test_every_listed_value_must_be_in_a_row(command):
    command(
        "sweep case=3 kappa=10,100 optimizers=gd,adam adam.lr=0.1,0.2 noise=none,gaussian noise.scale=0.1 "
        "seed=0..1 max_steps=5 store=s.db"
    )
    for arguments, reason in {
        "optimizers=gd,adamm": "no row with optimizer adamm: it has adam, gd",
        "kappa=10,11": "no row with kappa 11: it has 10, 100",
        "adam.lr=0.1,0.5": "no row with adam.lr 0.5: it has 0.1, 0.2",
        "seed=0,7": "no row with seed 7: it has 0, 1",
        "seed=none": "no row with seed none: it has 0, 1",
        "seed=5..9": "no row with seed 5..9: it has 0, 1",
        "batch=none,3": "no row with batch 3: it has none",
    }.items():
        code, _, err = command("plot s.db", arguments)
        assert (code, err) == (2, f"quadsim: s.db has {reason}\n"), arguments
    for arguments, count in {
        "batch=none": 12,
        "noise=none": 6,
        "kappa=1:100:log3": 12,
        "seed=0..999999999": 12,
    }.items():
        code, out, err = command("plot s.db", arguments, "--json")
        assert (code, err, json.loads(out)["settings"]) == (0, "", count), arguments


def test_default_learning_rates_are_not_an_axis(command):
    command("sweep case=3 kappa=10,100,1000 optimizers=gd,adam adam.lr=0.05,0.1 seed=0..2 max_steps=900 store=s.db")
    assert json.loads(command("plot s.db --json")[1])["settings"] == 3 * 3
    slopes = read_csv("figures/s-slopes.csv")
    assert list(slopes["optimizer"].value_counts().sort_index().items()) == [("adam", 2), ("gd", 1)]
    assert json.loads(command("plot s.db lr=none --json")[1])["settings"] == 3
    assert json.loads(command("plot s.db gd.lr=none adam.lr=0.1 --json")[1])["settings"] == 6
    assert json.loads(command("plot s.db adam.lr=0.1 seed=0..1 --json")[1])["aggregated"]["most"] == 2


def test_rows_of_several_sweeps_in_one_store_are_not_pooled(command):
    command("sweep case=3 kappa=10,100 optimizers=gd seed=0..4 tol=1e-3 store=s.db")
    _, out, _ = command("sweep case=3 kappa=10,100 optimizers=gd seed=5..9 tol=1e-6 store=s.db")
    assert len(re.findall(r"(?m)^ +\d+ +gd +5 +5 ", out)) == 2  # of this sweep alone
    result = json.loads(command("plot s.db --json")[1])
    assert (result["axes"], result["settings"], result["aggregated"]["most"]) == (["kappa", "tol"], 4, 5)
    assert command("plot s.db x=tol")[0] == 0


def test_columns_missing_in_a_merged_store_have_their_defaults(command):
    command("sweep case=3 kappa=10,100 optimizers=gd seed=0..4 store=a.db")
    command(
        "sweep case=3 kappa=10,100 optimizers=gd noise=gaussian noise.scale=0,0.1 seed=5..9 max_steps=50 store=b.db"
    )
    command("merge a.db b.db store=all.db")
    result = json.loads(command("plot all.db noise=none,gaussian noise.scale=none,0 kappa=10 --json")[1])
    assert result["aggregated"]["over"] == "seed"
    assert "noise" not in result["axes"]


REFUSED = [
    ("x=tol", "x=tol was not swept in these rows: choose from kappa, batch"),
    ("x=js_distance", "x=js_distance was not swept in these rows: choose from kappa, batch"),
    ("x=seed", "was not swept in these rows: choose from kappa, batch"),
    ("x=batch batch=3", "x=batch was not swept in these rows: choose from kappa"),
    ("x=kapa", "did you mean kappa?"),
    ("x=adam.kappa", "unknown setting of adam 'kappa'"),
    ("batch=7", "has no row with batch 7: it has 3, none"),
    ("tol=none", "has no row with tol none: it has 1e-06"),
    ("case=none", "has no row with case none: it has 3"),
    ("adam.kappa=10", "unknown setting of adam 'kappa'"),
    ("lion.lr=0.1", "has no rows of lion: it has adam"),
    ("adam.lr=7", "has no row with adam.lr 7: it has 0.1"),
    ("adam.lr=x", "adam.lr must be a number"),
    (".lr=3", "unknown key '.lr'"),
    ("optimizers=none", "has no row with optimizer none: it has adam"),
    ("kappa=1:2:log900", "has no row with kappa 1:2:log900: it has 10, 100"),
    ("seed=7..9", "has no row with seed 7..9"),
]


def test_refusals_are_one_line(command):
    command(SWEEP)
    for arguments, sentence in REFUSED:
        code, out, err = command("plot s.db", arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (arguments, err)
        assert sentence in err, err
    assert not Path("figures").exists()


def test_every_panel_is_drawn(command):
    arguments = "case=3 kappa=10,100,1000 optimizers=gd tol=0.1,0.01 rotation=0,0.5,1 block_size=2,3,4,5 seed=0"
    command(f"sweep {arguments} store=s.db")
    assert command("plot s.db")[0] == 0
    svg = Path("figures/s.svg").read_text(encoding="utf-8")
    for name, values in (("tol", ("0.1", "0.01")), ("rotation", ("0", "0.5", "1")), ("size", "2345")):
        for value in values:  # in the title of its share of the 24 panels
            assert len(re.findall(rf"{name} = {re.escape(value)}(?![.\d])", svg)) == 24 / len(values)


def test_a_large_sweep_shows_counts_and_no_pooled_medians(command):
    _, out, _ = command("sweep case=3,4 kappa=10:1000:log15 optimizers=gd,heavy-ball seed=0..1 store=s.db")
    assert "60 settings of 2 seeds: plot and export show the medians of each" in out
    assert "median steps" not in out
    assert re.search(r"slope in κ", out)
