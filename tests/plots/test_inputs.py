"""Plot functions take the objects that users have, and refuse others with one sentence."""

import functools

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import quadsim as qs
from quadsim import plots
from quadsim._validation import InputError

SPECTRA = [[1, 2, 3], [100, 1000.0]]


@functools.cache
def objects():
    problem = qs.BlockQuadratic.from_spectra(SPECTRA, seed=1, name="own")
    runs = qs.solve(problem, [qs.GD(), qs.Adam(lr=0.1)], seed=range(3), max_steps=200)
    short = {"seed": range(6), "max_steps": 50}
    first = qs.compare(problem, [qs.GD(), qs.HeavyBall()], **short)
    second = qs.compare(qs.case(4), [qs.GD(), qs.HeavyBall()], **short)
    sweep = qs.sweep(case=3, kappa=[10, 100], optimizers=["gd", "frozen-adam"], seed=range(2), max_steps=200)
    network = qs.spectra.load("gpt2")
    names = list(network.blocks)[:2]
    return {
        "problem": problem,
        "run": runs[0],
        "runs": runs,
        "list of runs": list(runs),
        "list of results": [runs[:3], runs[3:]],
        "comparison": first,
        "comparisons": [first, second],
        "comparisons by name": {"a": first, "b": second},
        "tuned": first.tuned["gd"],
        "sweep": sweep,
        "profile": qs.performance_profile([first, second]),
        "block": network.blocks[names[0]],
        "distances": qs.spectra.js_matrix(network, names),
    }


RUNS = ("run", "runs", "list of runs", "list of results")
COMPARISONS = ("comparison", "comparisons", "comparisons by name")
ACCEPTED = {
    "convergence": RUNS,
    "panels": (*RUNS, *COMPARISONS),
    "comparison": COMPARISONS,
    "profile": (*COMPARISONS, "profile"),
    "sensitivity": (*COMPARISONS, "tuned"),
    "against": ("sweep",),
    "sweep_figure": ("sweep",),
    "medians": ("sweep",),
    "slopes": ("sweep",),
    "histogram": ("problem",),
    "densities": ("block",),
    "heat_map": ("distances",),
}
ALWAYS_REFUSED = {"None": None, "empty list": [], "text": "case 3", "number": 3, "optimizer": qs.Adam()}


@pytest.mark.parametrize(("function", "name"), [(f, name) for f, names in ACCEPTED.items() for name in names])
def test_accepted_objects(function, name):
    made = getattr(plots, function)(objects()[name])
    if isinstance(made, pd.DataFrame):
        assert len(made) > 0
    else:
        made.draw_without_rendering()
        assert made.axes


@pytest.mark.parametrize("function", [*ACCEPTED, "dots", "bounds", "speed", "kappa_eff", "curves", "differences"])
def test_all_others_are_refused_with_one_sentence(function):
    refused = {**objects(), **ALWAYS_REFUSED}
    if function in ("curves", "differences"):
        accepted = COMPARISONS
    else:
        accepted = ("sweep",) if function == "dots" else ACCEPTED.get(function, ())
    for name, given in refused.items():
        if name not in accepted:
            with pytest.raises(InputError) as caught:
                getattr(plots, function)(given)
            assert "\n" not in str(caught.value), name
            assert 20 < len(str(caught.value)) < 400, name


@pytest.mark.parametrize("name", ["run", "runs", "comparison"])
def test_a_run_is_no_sweep(name):
    with pytest.raises(InputError, match=r"qs\.sweep"):
        plots.against(objects()[name])


def test_panels_of_runs_are_those_of_their_table():
    runs = objects()["runs"]
    lines = [
        [line.get_ydata().tolist() for line in plots.panels(given).axes[0].get_lines()]
        for given in (runs, list(runs), qs.table.bands(runs))
    ]
    assert lines[0] == lines[1] == lines[2]
    assert len(lines[0]) >= 2


def test_the_y_axis_of_panels_names_what_a_comparison_recorded():
    assert plots.panels(objects()["comparison"]).axes[0].get_ylabel() == "loss"
    assert "gradient norm" in plots.panels(objects()["runs"]).axes[0].get_ylabel().replace("\n", " ")
    other = qs.compare(qs.case(3), [qs.GD()], seed=range(2), max_steps=20, objective="mean-log-loss")
    with pytest.raises(InputError, match="one quantity, got loss and relative loss"):
        plots.panels([objects()["comparison"], other])


def test_the_profile_of_comparisons_is_that_of_their_table():
    first, second = objects()["comparisons"]
    pd.testing.assert_frame_equal(first.profile(second), objects()["profile"])
    shown = plots.profile([first, second])
    assert shown.axes[0].get_xlabel() == "loss / the best loss"
    alone = plots.profile(objects()["profile"])
    assert alone.axes[0].get_xlabel() == "result / the best result"
    for one, other in zip(shown.axes[0].get_lines(), alone.axes[0].get_lines(), strict=True):
        np.testing.assert_array_equal(one.get_ydata(), other.get_ydata())


def test_the_profile_checks_its_axes():
    profile = objects()["profile"]
    for ax, words in (
        (plt.figure(), "got a figure"),
        (plt.figure().add_subplot(projection="3d"), "3-D"),
        (plt.subplots(1, 2)[1], "got 2 of them"),
    ):
        with pytest.raises(InputError, match=words):
            plots.profile(profile, ax=ax)
    _, ax = plt.subplots()
    assert plots.profile(profile, ax=ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["GD", "Heavy ball"]
    plt.close("all")


def test_blocks_of_a_problem_are_named():
    _, ax = plt.subplots()
    plots.histogram(objects()["problem"], ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["block 0", "block 1"]
    plt.close("all")


def test_names_of_axes():
    sweep = objects()["sweep"]
    pd.testing.assert_frame_equal(plots.medians(sweep, "kappa"), plots.medians(sweep, ["kappa"]))
    with pytest.raises(InputError, match="axes must be names of columns, got 3"):
        plots.medians(sweep, 3)


# ---- learning rates: a library default beside the best in closed form


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


@pytest.mark.parametrize("function", [plots.convergence, plots.panels])
def test_a_default_rate_beside_the_best_one_is_named(function):
    options = {"seed": range(2), "max_steps": 50}
    unfair = qs.solve(qs.case(3), [qs.GD(), qs.Adam()], **options)
    fair = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()], **options)
    given = qs.solve(qs.case(3), [qs.GD(), qs.Adam(lr=0.1)], **options)
    texts = [" ".join(function(runs).get_supxlabel().split()) for runs in (unfair, fair, given)]
    assert "Learning rates: library default of Adam, best in closed form of GD." in texts[0]
    assert not any("Learning rates" in text for text in texts[1:])
    _, (left, right) = plt.subplots(1, 2)
    assert legend(function(unfair, ax=left)) == ["GD", "Adam, default lr"]
    assert legend(function(given, ax=right)) == ["GD", "Adam"]
    plt.close("all")


# ---- runs that fail at once


def test_ticks_of_few_steps_are_different_whole_numbers():
    runs = qs.solve(qs.case(3), [qs.GD(lr=1e6), qs.HeavyBall(lr=1e5)], seed=range(3))
    figure = plots.panels(runs)
    figure.draw_without_rendering()
    axes = figure.axes[0]
    low, high = axes.get_xlim()
    texts = [
        label.get_text()
        for at, label in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if low <= at <= high
    ]
    assert len(texts) == len(set(texts)) >= 2


def test_no_differences_are_drawn_if_every_run_failed():
    failed = qs.compare(qs.case(3), [qs.GD(), qs.HeavyBall()], seed=range(6), max_steps=400, lrs=[1e6, 1e7])
    _, ax = plt.subplots()
    plots.differences(failed, ax=ax)
    assert [text.get_text() for text in ax.texts] == ["no run has a result"]
    assert ax.get_lines() == []
    _, ax = plt.subplots()
    plots.differences(objects()["comparison"], ax=ax)
    assert "no run has a result" not in [text.get_text() for text in ax.texts]
    plt.close("all")


def test_given_settings_have_no_sensitivity():
    tuned = qs.tune(qs.case(3), qs.GD(), seed=range(2), max_steps=10, grid=[1e-4])
    with pytest.raises(InputError, match="the settings of gd were given, not tuned"):
        tuned.plot()
