"""Every kind of figure with awkward contents: texts apart and inside, panels not empty, no data beyond the limits."""

import itertools

import numpy as np
import pandas as pd
import pytest
from figure_checks import faults, visible_colours
from matplotlib.backends.backend_agg import FigureCanvasAgg

import quadsim as qs
from quadsim import plots
from quadsim.plots.style import styles_of

LONG = "an-optimizer-whose-name-has-40-letters-{:02d}"  # 40 characters
BLOCK = "transformer.block.{:02d}.attention.out.weight"
TWELVE = ["gd", "adam", "frozen-adam", "block-gd", "muon", "adam-mini", "lion", "heavy-ball", "nesterov", "rmsprop",
          "adagrad", "sgd"]  # fmt: skip
STEPS = np.unique(np.geomspace(1, 3000, 300).round())
EVERY = np.arange(4001.0)


# ---- tables of curves


def curves(heights, *, steps=STEPS, labels=None):
    """A table of runs: the relative gradient norms by optimizer."""
    parts = []
    for lane, (name, values) in enumerate(heights.items()):
        at = np.append(0.0, steps)
        norms = np.append(1.0, np.broadcast_to(values, steps.shape))
        label = (labels or {}).get(name, plots.style_of(name).label)
        parts.append(pd.DataFrame({"optimizer": name, "label": label, "lane": lane, "step": at, "relative": norms}))
    return pd.concat(parts)


def decay(rate, steps=STEPS):
    return np.exp(-rate * steps)


def swinging(steps=EVERY[1:], low=1e-6):
    return np.maximum(np.exp(-0.001 * steps) * np.abs(np.sin(0.7 * steps)), low)


CURVES = {
    "one run of one step": lambda: curves({"gd": [0.5]}, steps=np.array([1.0])),
    "two optimizers": lambda: curves({"gd": decay(1e-3), "adam": decay(3e-3)}),
    "12 optimizers": lambda: curves({name: decay(1e-3 * (k + 1)) for k, name in enumerate(TWELVE)}),
    "8 equal ends": lambda: curves({name: decay(4e-3) * STEPS ** (k / 90) for k, name in enumerate(TWELVE[:8])}),
    "12 equal curves": lambda: curves(dict.fromkeys(TWELVE, decay(2e-3))),
    "names of 40 characters": lambda: curves({LONG.format(k): decay(1e-3 * k + 1e-3) for k in range(4)}),
    "12 names of 40 characters": lambda: curves({LONG.format(k): decay(1e-3 * k + 1e-3) for k in range(12)}),
    "names of 90 characters": lambda: curves({f"{k:02d}-{'w' * 80}-{k:05d}": decay(1e-3 * k + 1e-3) for k in range(3)}),
    "names that differ in the middle": lambda: curves(
        {f"{'a' * 40}-{k}-{'b' * 40}": decay(1e-3 * k + 1e-3) for k in range(3)}
    ),
    "all diverged": lambda: curves({name: np.full(STEPS.size, np.inf) for name in TWELVE}),
    "diverged after 100 steps": lambda: curves({"gd": 1.03**STEPS, "adam": np.where(STEPS > 100, np.nan, 0.5)}),
    "oscillation": lambda: curves({"gd": swinging(), "adam": decay(0.002, EVERY[1:])}, steps=EVERY[1:]),
    "two equal oscillations": lambda: curves({"gd": swinging(), "adam": swinging()}, steps=EVERY[1:]),
    "oscillation over 200 decades": lambda: curves({"gd": swinging(low=1e-200) ** 40}, steps=EVERY[1:]),
    "constant": lambda: curves({"gd": 1.0}),
    "a range of 1e-9": lambda: curves({"gd": 1 - 1e-12 * STEPS}),
    "underflow": lambda: curves({"gd": decay(1.0), "adam": decay(0.5)}),
    "zero from the second step": lambda: curves({"gd": np.where(STEPS > 1, 0.0, 0.3), "adam": 0.0}),
    "one lane of 1e9 steps": lambda: pd.concat(
        [curves({"gd": decay(0.01)}), curves({"adam": [0.9, 0.1]}, steps=np.array([1.0, 1e9])).assign(lane=7)]
    ),
    "40 lanes": lambda: pd.concat([curves({"gd": decay(1e-4 * (k + 1))}).assign(lane=k) for k in range(40)]),
    "growing by 1e2": lambda: curves({"gd": STEPS**0.5}),
    "dollars, CJK and a script": lambda: curves({"$x$_y": decay(1e-3), "漢字": decay(2e-3), "<b>": decay(3e-3)}),
}
TOLS = {"two optimizers": 1e-6, "all diverged": 1e-300, "constant": 1e-12, "8 equal ends": 1e-5, "underflow": 1e-290}


def convergence(name):
    return plots.convergence(CURVES[name](), title="A title " * 30, caption="A caption " * 60, tol=TOLS.get(name))


def bands(name, problems=1, *, equal=True):
    """Quartiles of the same curves, for some problems."""
    frame = CURVES[name]()
    parts = []
    for k in range(problems):
        middle = frame["relative"].to_numpy() * (1 if equal else 10.0**-k)
        wide = np.where(frame["step"] > 0, 1.5, 1.0)
        part = frame.assign(problem=f"case {k + 1}", lower=middle / wide, median=middle, upper=middle * wide)
        parts.append(part.drop_duplicates(["optimizer", "step"]))
    return pd.concat(parts)


def panels(name, *, problems=4, xscale="linear", tol=1e-6):
    titles = {f"case {k + 1}": f"Case {k + 1}: {'a finding in some words ' * (k + 1)}" for k in range(problems)}
    return plots.panels(bands(name, problems), titles, caption="A caption " * 40, tol=tol, xscale=xscale)


# ---- sweeps


def sweep(optimizers, law=lambda row: 50 * row.get("kappa", 1.0), seeds=1, **axes):
    rows = []
    for *values, name, seed in itertools.product(*axes.values(), optimizers, range(seeds)):
        row = {**dict(zip(axes, values, strict=True)), "optimizer": name, "seed": seed}
        steps = law(row)
        status = {None: "max-steps", np.inf: "diverged"}.get(steps, "converged")
        row |= {"status": status, "steps_to_tol": steps if status == "converged" else None, "tol": 1e-6}
        rows.append({**row, "last_step": 100_000 if status == "max-steps" else 7, "loss": 1e-8})
    return pd.DataFrame(rows).astype({"steps_to_tol": "Int64"})


KAPPAS = [10.0, 100.0, 1000.0]
LONGS = [LONG.format(k) for k in range(12)]
SWEEPS = {
    "lines, 1 seed": lambda: sweep(["gd", "adam"], kappa=KAPPAS),
    "lines, 12 names of 40 characters": lambda: sweep(LONGS, kappa=KAPPAS),
    "lines, 4 names of 40 characters": lambda: sweep(LONGS[:4], kappa=KAPPAS, case=[1, 2, 3, 4]),
    "lines, 12 equal": lambda: sweep(TWELVE, kappa=KAPPAS, seeds=3),
    "lines, all diverged": lambda: sweep(TWELVE, lambda row: np.inf, kappa=KAPPAS),
    "lines, one value": lambda: sweep(["gd"], kappa=[10.0], seeds=2),
    "lines, none reached": lambda: sweep(TWELVE[:3], lambda row: None, kappa=KAPPAS, seeds=2),
    "dots, 12 optimizers": lambda: sweep(TWELVE, lambda row: 10 + len(row["optimizer"]), seeds=2),
    "dots, 12 names of 40 characters": lambda: sweep(LONGS, lambda row: 10, case=[1, 2, 3]),
    "dots, all diverged": lambda: sweep(TWELVE, lambda row: np.inf),
    "dots, one": lambda: sweep(["gd"], lambda row: 1),
    "maps": lambda: sweep(["gd", *LONGS[:2]], kappa=KAPPAS, rotation=[0.0, 0.5, 1.0]),
    "maps, all diverged": lambda: sweep(["gd"], lambda row: np.inf, kappa=KAPPAS, rotation=[0.0, 0.5, 1.0]),
    "maps, all equal": lambda: sweep(["gd"], lambda row: 9, kappa=KAPPAS, rotation=[0.0, 0.5, 1.0]),
    "60 panels": lambda: sweep(["gd", "adam"], kappa=KAPPAS, batch=list(range(1, 61))),
}


def sweep_figure(name):
    frame = SWEEPS[name]()
    results = ("optimizer", "seed", "status", "steps_to_tol", "tol", "last_step", "loss")
    return plots.sweep_figure(frame, axes=[key for key in frame if key not in results], caption="A caption " * 40)


# ---- spectra


def eigenvalues(blocks, size=9, low=-3.0, high=3.0, name=BLOCK):
    rng = np.random.default_rng(blocks)
    values = 10 ** rng.uniform(low, high, (blocks, size))
    return pd.DataFrame(
        {"block": np.repeat([name.format(k) for k in range(blocks)], size), "eigenvalue": values.ravel(), "weight": 1.0}
    )


def distances(blocks, name=BLOCK, scale=0.6):
    names = [name.format(k) for k in range(blocks)]
    rng = np.random.default_rng(blocks)
    rows = [(one, other, scale * rng.random()) for one in names for other in names]
    return pd.DataFrame(rows, columns=["block", "other", "distance"])


SPECTRA = {
    "histogram of 1 block": lambda: plots.histogram(eigenvalues(1), title="A title " * 30),
    "histogram of 60 blocks": lambda: plots.histogram(eigenvalues(60), title="A title " * 30),
    "histogram of equal eigenvalues": lambda: plots.histogram(eigenvalues(3, low=0.0, high=0.0)),
    "histogram over 500 decades": lambda: plots.histogram(eigenvalues(2, low=-250, high=250)),
    "histogram of one eigenvalue each": lambda: plots.histogram(eigenvalues(12, size=1)),
    "densities of 1 block": lambda: plots.densities(eigenvalues(1), title="A title " * 30),
    "densities of 60 blocks": lambda: plots.densities(eigenvalues(60)),
    "densities of equal eigenvalues": lambda: plots.densities(eigenvalues(5, low=1.0, high=1.0)),
    "densities of zeros": lambda: plots.densities(eigenvalues(2).assign(eigenvalue=0.0)),
    "densities of 1e-200": lambda: plots.densities(eigenvalues(7, low=-201.0, high=-200.0)),
    "densities of CJK names": lambda: plots.densities(eigenvalues(2, name="漢字のブロック{}$a$")),
    "distances of 2 blocks": lambda: plots.heat_map(distances(2), title="A title " * 12),
    "distances of 2 short names": lambda: plots.heat_map(distances(2, name="b{}"), title="A title", caption="c " * 99),
    "distances of 3 blocks": lambda: plots.heat_map(distances(3)),
    "distances of 16 blocks": lambda: plots.heat_map(distances(16)),
    "distances of 17 blocks": lambda: plots.heat_map(distances(17)),
    "distances of 60 blocks": lambda: plots.heat_map(distances(60), title="A title " * 30),
    "distances of 0": lambda: plots.heat_map(distances(4, scale=0.0)),
}


# ---- comparisons: measured, with optimizers that are GD at several learning rates


def comparison(optimizers=("gd",), seeds=3, *, lrs=(1e-4, 1e-3), names=(3,), **options):
    made = [
        qs.compare(
            qs.case(number, block_size=3),
            {name: qs.GD() for name in optimizers},
            seed=range(seeds),
            max_steps=20,
            lrs=list(lrs),
            **options,
        )
        for number in names
    ]
    return made if len(made) > 1 else made[0]


COMPARISONS = {
    "2 seeds": lambda: plots.comparison(comparison(["gd", "b"], 2)),
    "1 optimizer": lambda: plots.comparison(comparison(["gd"])),
    "12 names of 40 characters, all equal": lambda: plots.comparison(comparison(LONGS)),
    "4 problems": lambda: plots.comparison(comparison(["gd", *LONGS[:3]], names=(1, 2, 3, 4))),
    "all diverged": lambda: plots.comparison(comparison(["gd", "b"], lrs=(1e4, 1e5))),
    "steps to tol, none reached": lambda: plots.comparison(comparison(["gd", "b"], objective="steps-to-tol")),
    "one learning rate": lambda: plots.comparison(comparison(["gd", "b"], lrs=(1e-4,))),
    "curves of 4 problems": lambda: plots.curves(comparison(["gd", "b"], names=(1, 2, 3, 4))),
    "differences of 12": lambda: plots.differences(comparison(LONGS)),
    "sensitivity, all diverged": lambda: plots.sensitivity(comparison(["gd", "b"], lrs=(1e4, 1e5))),
    "sensitivity of 12": lambda: plots.sensitivity(comparison(LONGS)),
}


# ---- theory, profiles, timings


def bound_curves(names):
    parts = []
    for k, name in enumerate(names):
        loss = decay(1e-2 * (k + 1))
        part = {"optimizer": name, "label": plots.style_of(name).label, "step": STEPS, "loss": loss}
        for seed in range(2):
            parts.append(pd.DataFrame({**part, "seed": seed, "bound": 3 * loss, "rate": loss**0.5}))
    return pd.concat(parts)


def kappa_quartiles(names):
    kappa = np.geomspace(10, 1e6, 9)
    parts = [{"problem": n, "kappa": kappa, "lower": kappa / 2, "median": kappa, "upper": 2 * kappa} for n in names]
    return pd.concat([pd.DataFrame(part) for part in parts])


def profile_of(names, last=50.0, *, equal=False):
    factor = np.geomspace(1, last, 7)
    parts = [
        {"optimizer": name, "label": plots.style_of(name).label, "factor": factor,
         "share": np.linspace(0.1, 1 if equal else 1 / (k + 1), 7)}
        for k, name in enumerate(names)
    ]  # fmt: skip
    return pd.concat([pd.DataFrame(part) for part in parts])


def timings(optimizers, lanes=(1,), sizes=((3, 3),), threads=(1,)):
    libraries = ["quadsim", "numpy", "torch.optim", "optax"]
    keys = ["optimizer", "lanes", "size", "threads", "contestant"]
    rows = [dict(zip(keys, row, strict=True))
            for row in itertools.product(optimizers, lanes, sizes, threads, libraries)]  # fmt: skip
    table = pd.DataFrame(rows).assign(microseconds=np.geomspace(0.1, 900, len(rows)), fraction=0.3)
    return table.assign(blocks=[row[0] for row in table["size"]], block_size=[row[1] for row in table["size"]])


OTHERS = {
    "bounds of 1": lambda: plots.bounds(bound_curves(["gd"]), title="A title " * 20),
    "bounds of 6 names of 40 characters": lambda: plots.bounds(bound_curves(LONGS[:6])),
    "kappa_eff of 12 equal problems": lambda: plots.kappa_eff(kappa_quartiles(LONGS), title="A title " * 20),
    "kappa_eff of 1": lambda: plots.kappa_eff(kappa_quartiles(["case 3"])),
    "profile of 12 equal": lambda: plots.profile(profile_of(TWELVE, equal=True), title="A title " * 20),
    "profile of 12 names of 40 characters": lambda: plots.profile(profile_of(LONGS, 1e9)),
    "profile of 1 without a factor": lambda: plots.profile(profile_of(["gd"], last=1.0)),
    "timings of 1": lambda: plots.speed(timings(["gd"])),
    "timings of 8": lambda: plots.speed(timings(TWELVE[:8], (1, 64), ((3, 3), (4, 30), (8, 1024)), (1, 2))),
    "timings of names of 40 characters": lambda: plots.speed(timings(LONGS[:3], sizes=((3, 3), (4, 30)))),
}

FIGURES = {
    **{f"convergence: {name}": lambda name=name: convergence(name) for name in CURVES},
    **{f"panels: {name}": lambda name=name: panels(name) for name in CURVES},
    **{
        f"panels, log, {count}: {name}": lambda name=name, count=count: panels(
            name, xscale="log", tol=None, problems=count
        )
        for name, count in (("12 optimizers", 1), ("oscillation", 2), ("all diverged", 3), ("underflow", 7))
    },
    **{f"sweep: {name}": lambda name=name: sweep_figure(name) for name in SWEEPS},
    **SPECTRA,
    **{f"comparison: {name}": make for name, make in COMPARISONS.items()},
    **OTHERS,
}


def test_there_are_at_least_40_inputs():
    assert len(FIGURES) >= 40


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_awkward_contents_can_be_read(name):
    assert faults(FIGURES[name]()) == []


# ---- what must be in the figure


def peak(height):
    """A run that overshoots for a while and converges."""
    return np.where(STEPS < 50, height, decay(0.01))


@pytest.mark.parametrize("height", [1e4, 1e90])
def test_a_curve_that_overshoots_and_converges_is_drawn_to_its_end(height):
    frame = curves({"gd": decay(0.001), "adam": peak(height)})
    (axes,) = plots.convergence(frame).axes
    assert max(line.get_ydata().max() for line in axes.lines) == pytest.approx(height)
    assert axes.get_ylim()[1] > height
    quartiles = frame.assign(problem="p", **dict.fromkeys(("lower", "median", "upper"), frame["relative"]))
    for xscale in ("linear", "log"):
        (axes,) = plots.panels(quartiles, xscale=xscale).axes
        line = next(line for line in axes.lines if line.get_color() == plots.style_of("adam").colour)
        assert line.get_xdata()[-1] == STEPS[-1]
        assert line.get_ydata().max() == pytest.approx(height)
        assert axes.get_ylim()[1] > height


def test_a_curve_that_diverges_is_cut_where_it_leaves_the_panel():
    (axes,) = plots.convergence(curves({"gd": decay(0.001), "adam": np.exp(0.2 * STEPS)})).axes
    assert axes.get_ylim()[1] < 1e5
    assert any(line.get_marker() == "^" for line in axes.lines)


def test_titles_of_many_lines_do_not_flatten_the_panels():
    quartiles = bands("two optimizers", 4)
    heights = []
    for lines in (1, 3, 9):
        titles = {f"case {k}": "\n".join(["a finding"] * lines) for k in range(1, 5)}
        figure = plots.panels(quartiles, titles)
        figure.draw_without_rendering()
        heights.append(figure.axes[0].get_window_extent().height / figure.dpi)
    assert min(heights) > 0.9 * heights[1]


def test_small_distances_have_a_significant_digit():
    figure = plots.heat_map(distances(2, name="b{}", scale=1e-4))
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert len(texts) == 4
    assert all(float(text) > 0 for text in texts)
    assert figure.axes[0].images[0].get_clim()[1] < 1.1e-4


def test_the_axis_with_more_values_is_horizontal_if_kappa_has_two():
    frame = sweep(["gd"], lambda row: 9, kappa=[10.0, 100.0], lr=[0.1, 0.2, 0.3, 0.4], momentum=[0.8, 0.9])
    figure = plots.sweep_figure(frame, axes=["kappa", "lr", "momentum"])
    assert len(figure.axes) == 4
    assert figure.axes[-1].get_xlabel() == "learning rate"


def test_names_of_blocks_are_above_the_bars():
    for count in (2, 30):
        figure = plots.histogram(eigenvalues(count))
        FigureCanvasAgg(figure).draw()
        for axes in figure.axes:
            top = max(patch.get_height() for patch in axes.patches)
            assert axes.texts[0].get_window_extent().y0 > axes.transData.transform((1, top))[1] - 1


@pytest.mark.parametrize("count", [2, 5, 8])
def test_labels_of_differences_name_the_optimizer(count):
    """ "Adam (β2 = 1): no difference found" is wider than the panel."""
    names = ["frozen-adam", "gd", "adam", "muon", "lion", "nesterov", "adagrad", "rmsprop"][:count]
    result = comparison(names, 6, lrs=(1e-4,))
    figure = plots.differences(result)
    found = [text.get_text() for text in figure.axes[0].texts]
    labels = [str(label) for label in result.summary.loc[result.summary["against"].notna(), "label"]]
    assert all(any(text.startswith(f"{label}:") for text in found) for label in labels), found
    assert faults(figure) == []


EQUAL = {
    "convergence": lambda names: plots.convergence(curves(dict.fromkeys(names, decay(2e-3)))),
    "panels": lambda names: plots.panels(
        curves(dict.fromkeys(names, decay(2e-3))).assign(
            problem="p", **{q: lambda t: t["relative"] for q in ("lower", "median", "upper")}
        )
    ),
    "sweep": lambda names: plots.sweep_figure(sweep(names, kappa=KAPPAS), axes=["kappa"], title=""),
    "profile": lambda names: plots.profile(profile_of(names, equal=True)),
    "sensitivity": lambda names: plots.sensitivity(comparison(names, lrs=np.geomspace(1e-5, 1e-3, 9))),
    "curves": lambda names: plots.curves(comparison(names)),
}


def without_names(figure):
    """The figure without its texts and legends."""
    for legend in [*figure.legends, *(axes.get_legend() for axes in figure.axes)]:
        if legend:
            legend.remove()
    for axes in figure.axes:
        for text in list(axes.texts):
            text.remove()
    return figure


@pytest.mark.parametrize("kind", EQUAL)
@pytest.mark.parametrize("names", [["gd", "adam"], ["gd", "frozen-adam", "heavy-ball", "muon"], LONGS[:5]], ids=len)
def test_every_one_of_several_equal_curves_is_visible(kind, names):
    colours = {name: style.colour for name, style in styles_of(names).items()}
    figure = without_names(EQUAL[kind](names))
    assert visible_colours(figure, set(colours.values())) == set(colours.values())


# ---- the checks can fail


def usual():
    return plots.convergence(CURVES["two optimizers"](), title="A title")


def planted(change):
    figure = usual()
    change(figure, figure.axes[0])
    return faults(figure)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda f, a: a.text(0.5, -0.13, "over the label", transform=a.transAxes, ha="center"), "touches 'steps'"),
        (lambda f, a: [a.text(0.4, 0.5, "two texts", transform=a.transAxes) for _ in "12"], "touches 'two texts'"),
        (lambda f, a: a.text(0.5, 0.1, "cut " * 30, transform=a.transAxes), "leaves the figure"),
        (lambda f, a: f.suptitle("too long for one line " * 9, x=0.01, ha="left"), "leaves the figure"),
        (lambda f, a: f.text(0.4, 0.6, "of the figure"), "is over a panel"),
        (lambda f, a: [line.remove() for line in list(a.lines)] + [t.remove() for t in list(a.texts)], "is empty"),
        (lambda f, a: a.set_xlim(1, 100), "beyond the limits"),
        (lambda f, a: a.set_ylim(bottom=1e-2), "beyond the limits"),
        (lambda f, a: a.plot([2, 3], [0, 0.1]), "beyond the limits"),
        (lambda f, a: a.set_ylim(bottom=1e-200), "decades of a y axis"),
        (lambda f, a: a.set_yticks([0.1], ["0.1"]), "the y axis has 1 numbers"),
        (lambda f, a: a.legend([*a.lines[:2]], ["same", "same"], loc="center"), "equal entries"),
    ],
)  # fmt: skip
def test_planted_faults_are_found(change, expected):
    found = planted(change)
    assert any(expected in fault for fault in found), found


def test_a_usual_figure_has_no_faults():
    assert planted(lambda figure, axes: None) == []


def test_texts_that_are_turned_are_compared_by_their_own_boxes():
    figure = usual()
    axes = figure.axes[0]
    for text in list(axes.texts):
        text.remove()
    turned = {"rotation": 40, "rotation_mode": "anchor", "transform": axes.transAxes, "fontsize": 7}
    for at in (0.2, 0.3):
        axes.text(at, 0.2, "beside each other", **turned)
    assert faults(figure) == []  # although the boxes with upright sides overlap
    axes.text(0.21, 0.2, "over the first", **turned)
    assert "touches" in "".join(faults(figure))


def test_a_covered_curve_is_not_visible():
    figure = plots.convergence(curves({"gd": decay(1e-3)}))
    (axes,) = figure.axes
    without_names(figure)
    colours = {plots.style_of(name).colour for name in ("gd", "heavy-ball")}
    steps, norms = axes.lines[0].get_data()
    axes.plot(steps, norms, color=plots.style_of("heavy-ball").colour, linewidth=5, zorder=9)
    axes.lines[1].remove()  # the mark at the end
    assert visible_colours(figure, colours) == {plots.style_of("heavy-ball").colour}
