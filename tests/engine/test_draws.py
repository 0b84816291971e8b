"""Many draws: the same runs as one by one; quartiles count runs that did not reach tol."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import quadsim as qs
from quadsim._validation import InputError
from quadsim.cli import main as cli


@pytest.fixture(scope="module")
def runs():
    return qs.solve(
        lambda seed: qs.case(4, seed=seed),
        [qs.GD(), qs.FrozenAdam()],
        seed=range(7),
        max_steps=40_000,
        engine="compiled",
        threads=2,
    )


def test_draws_are_the_runs_one_by_one(runs):
    assert len(runs) == 14
    for index, run in enumerate(runs):
        seed, optimizer = index // 2, (qs.GD(), qs.FrozenAdam())[index % 2]
        alone = qs.solve(qs.case(4, seed=seed), optimizer, seed=seed, max_steps=40_000, engine="compiled")
        assert run.seed == seed
        assert run.last_step == alone.last_step
        assert (run.grad_norm == alone.grad_norm).all()


def test_quartiles_count_runs_that_did_not_reach_tol_as_late(runs):
    quartiles = qs.table.quartiles(runs).set_index("optimizer")
    adam = [run.steps_to_tol for run in runs if run.optimizer.name == "frozen-adam"]
    gd = [run.steps_to_tol for run in runs if run.optimizer.name == "gd"]
    late = sorted(np.inf if steps is None else steps for steps in adam)
    assert None in adam  # some did not reach tol
    assert quartiles.loc["frozen-adam", "reached"] == sum(steps is not None for steps in adam)
    for name, index in (("lower", 2), ("median", 3), ("upper", 4)):  # seven draws: positions 1.5, 3 and 4.5
        value = quartiles.loc["frozen-adam", f"{name}_steps"]
        assert (np.inf if pd.isna(value) else value) == late[index]
    ahead = [a is not None and (g is None or a < g) for a, g in zip(adam, gd, strict=True) if (a, g) != (None, None)]
    assert_allclose(quartiles.loc["frozen-adam", "ahead"], np.mean(ahead))
    assert pd.isna(quartiles.loc["gd", "ahead"])


def test_cases_names_underflow_where_a_run_did_not_take_all_steps(capsys, tmp_path, monkeypatch):
    """Five of eight runs stop near step 5,000, so "> 20,000" would be wrong."""
    monkeypatch.setenv("COLUMNS", "150")
    adam = "adam.eps=0 adam.beta1=0 adam.beta2=0.999 adam.lr=0.01 tol=1e-250 max_steps=20000"
    arguments = f"cases case=3 kappa=10 optimizers=gd,adam {adam} seed=0..7 out={tmp_path}".split()
    assert cli.main(arguments) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if " adam " in line)
    assert line.split()[-4:-1] == ["underflow"] * 3
    assert cli.main([*arguments, "--json"]) == 0
    rows = {row["optimizer"]: row for row in json.loads(capsys.readouterr().out)["cases"]}
    assert rows["adam"]["underflow"] == 5
    assert rows["gd"]["underflow"] == 0


def test_bands_exclude_runs_that_underflowed():
    """Adam at β2 = 0.999 and ε = 0: on some draws all blocks underflow before they reach the floor."""
    adam = qs.Adam(lr=0.01, beta1=0.0, beta2=0.999, eps=0.0)
    runs = qs.solve(lambda seed: qs.case(3, kappa=10, seed=seed), adam, seed=range(6), max_steps=9000, tol=0)
    kept = [run for run in runs if run.status == "max-steps"]
    assert 0 < len(kept) < 6  # some underflow, some do not
    assert_allclose(qs.table.bands(runs)["lower"], qs.table.bands(kept)["lower"])


def test_bands_are_quartiles_at_every_step(runs):
    bands = qs.table.bands(runs)
    gd = bands[bands["optimizer"] == "gd"].set_index("step")
    members = [run for run in runs if run.optimizer.name == "gd"]
    assert (gd["lower"] <= gd["median"]).all()
    assert (gd["median"] <= gd["upper"]).all()
    assert_allclose(gd.loc[0, ["lower", "median", "upper"]], 1)
    step = int(gd.index[gd.index > 10_000][0])
    exact = [
        qs.solve(qs.case(4, seed=run.seed), qs.GD(), seed=run.seed, max_steps=step, tol=0, engine="compiled").grad_norm[
            -1
        ]
        / run.grad_norm[0]
        for run in members
    ]
    # Between recorded steps, half a percent apart, the logarithm is interpolated linearly.
    assert_allclose(gd.loc[step, "median"], np.median(exact), rtol=0.02)


def test_the_same_optimizer_twice_is_refused():
    runs = qs.solve(lambda seed: qs.case(3, seed=seed), [qs.GD(), qs.GD(lr=1e-4)], max_steps=10)
    with pytest.raises(InputError, match="give each optimizer once"):
        qs.table.quartiles(runs)


@pytest.mark.parametrize("seeds", [[], "three", None, [-1], ["a"]], ids=str)
def test_bad_seeds(seeds):
    with pytest.raises(InputError, match="seed"):
        qs.solve(lambda seed: qs.case(3, seed=seed), qs.GD(), seed=seeds)


def test_progress_counts_draws_and_a_failure_cancels_the_rest():
    counts = []
    qs.solve(lambda seed: qs.case(3, seed=seed), qs.GD(), seed=range(4), max_steps=10, progress=counts.append)
    assert counts == [1, 2, 3, 4]

    def draw(seed):
        if seed == 2:
            raise KeyboardInterrupt
        return qs.case(4, seed=seed)

    with pytest.raises(KeyboardInterrupt):  # without running 10^12 steps of the others
        qs.solve(draw, qs.GD(), seed=[5, 2, 3, 4], max_steps=10**12, tol=1e-3, engine="compiled")


def texts(figure):
    return " ".join(text.get_text() for text in figure.findobj(match=lambda artist: hasattr(artist, "get_text")))


def inside(figure):
    """Whether every text lies within the canvas."""
    figure.canvas.draw()
    width, height = figure.canvas.get_width_height()
    boxes = [text.get_window_extent() for text in figure.texts if text.get_text()]
    boxes += [axes.title.get_window_extent() for axes in figure.axes]
    boxes += [axes._left_title.get_window_extent() for axes in figure.axes if axes._left_title.get_text()]
    return all(box.x0 >= -1 and box.x1 <= width + 1 and box.y0 >= -1 and box.y1 <= height + 1 for box in boxes)


def test_figures_contain_the_given_texts_and_data(runs):
    panels = qs.plots.panels(qs.table.bands(runs), {"case 4": "Case 4: a finding"}, caption="a caption", tol=1e-6)
    assert "Case 4: a finding" in texts(panels)
    blocks = pd.DataFrame({"block": ["a"] * 5 + ["b"] * 5, "eigenvalue": np.geomspace(1, 5000, 10)})
    histogram = qs.plots.histogram(blocks, title="a title", caption="python -m quadsim spectra model=gpt2")
    points = np.linspace(0, 1, 50)
    curves = pd.DataFrame({"block": ["a"] * 50, "eigenvalue": points, "density": 1 + points})
    densities = qs.plots.densities(curves, title="a title", caption="a caption")
    pairs = [("a", "a", 0.01), ("a", "b", 0.3), ("b", "a", 0.3), ("b", "b", float("nan"))]
    heat = qs.plots.heat_map(pd.DataFrame(pairs, columns=["block", "other", "distance"]), title="a title", caption="c")
    assert ".30" in texts(heat)
    for figure in (panels, histogram, densities, heat):
        assert inside(figure)
    counts = [sum(bar.get_height() for bar in axes.patches) for axes in histogram.axes]
    assert counts == [5, 5]
