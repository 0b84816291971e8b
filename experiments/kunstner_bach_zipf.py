"""Kunstner & Bach's bigram model under Zipf's law (arXiv 2505.19227): GD needs almost d steps, sign descent √d.

Word k of d has frequency π_k ∝ 1/k^α (α = 1: Zipf), and so has the word that follows it. Both methods have closed forms
(ledger 10), evaluated here up to d = 10⁶; simulated runs go up to d = 10⁴, those of sign descent with the learning rate
tuned for each horizon. Losses of sign descent are means of two successive steps, because errors below its learning rate
repeat every two steps, so that odd and even steps differ.

    python experiments/kunstner_bach_zipf.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd
from matplotlib.colors import to_rgb

import quadsim as qs
from quadsim import plots, theory
from quadsim._format import power_of_ten
from quadsim.cli import main as cli
from quadsim.reproduce import Check, Reproduction

GD_STEPS = {0.5: 67, 0.2: 2635, 0.1: 10168, 0.05: 23253, 0.01: 68701}  # ledger 10: at d = 10⁵, to loss ε
SIGN_STEPS = {0.2: 313, 0.05: 723, 0.01: 1632}  # the same, means of two steps
EVEN_STEPS = {0.2: 4, 0.05: 16, 0.01: 84}  # the same, at even steps
DECADES = (10**2, 10**3, 10**4, 10**5, 10**6)


def measure(fast):
    """The first steps with a loss of at most ε, in closed form, by the law for large d and in runs; and the curves."""
    dims = DECADES if fast else [round(10**power) for power in np.arange(2, 6.1, 0.5)]
    run_until, sign_until = (10**3, 10**5) if fast else (10**4, 10**6)
    rows, curves = [], []
    for dim in dims:
        run = gd_run(dim) if dim in DECADES and dim <= run_until else None
        for eps in GD_STEPS:
            law, seen = theory.zipf_gd_time_formula(dim, eps), first_below(run, eps)
            rows.append(("gd", 1.0, "every", dim, eps, theory.zipf_gd_time(dim, eps), law, seen))
        for alpha in (0.5, 2.0):
            rows.append(("gd", alpha, "every", dim, 0.1, theory.zipf_gd_time(dim, 0.1, alpha), np.nan, np.nan))
        if dim in DECADES:
            steps = np.unique(np.geomspace(1, dim, 20 if fast else 50).round())
            curves.append(curve("gd", dim, steps, theory.zipf_gd_loss(dim, steps), run))
    for dim in [dim for dim in dims if 1000 <= dim <= sign_until]:
        run = sign_runs(dim) if dim in DECADES and dim <= run_until else None
        for parity in ("pair", "odd", "even") if dim in (10**4, 10**5) else ("pair",):
            for eps in SIGN_STEPS:
                law = theory.zipf_sign_time_formula(dim, eps, parity) if parity != "even" else np.nan
                seen = first_below(run, eps) if parity == "pair" else np.nan
                rows.append(("signgd", 1.0, parity, dim, eps, theory.zipf_sign_time(dim, eps, parity), law, seen))
        if dim in DECADES:
            steps = np.unique(np.geomspace(dim**0.5 / 30, 8 * dim**0.5, 12 if fast else 40).round())
            losses = [theory.zipf_sign_best_lr(dim, int(step))[1] for step in steps]
            curves.append(curve("signgd", dim, steps, losses, run))
    columns = ["optimizer", "alpha", "parity", "dim", "eps", "steps", "law", "run"]
    times = pd.DataFrame(rows, columns=columns).round({"law": 3})
    return {"": times, "-curves": pd.concat(curves, ignore_index=True).round({"loss": 7, "run": 7})}


def zipf(dim):
    pi = 1 / np.arange(1, dim + 1)
    return pi / pi.sum()


def gd_run(dim):
    """GD's losses with lr = 1/π_1, relative to the first: for the whole table at d = 100, else for one entry per row.

    All entries of row k have the eigenvalue π_k, and the errors of all rows have the same sum of squares.
    """
    pi, rng = zipf(dim), np.random.default_rng(0)
    eigenvalues, start = pi, np.ones(dim)
    if dim == 100:
        eigenvalues, start = np.repeat(pi, dim), np.concatenate([rng.permutation(pi) for _ in pi])
    problem = qs.BlockQuadratic.from_spectra([[one] for one in eigenvalues], rotation=0)
    run = qs.solve(
        problem, qs.GD(lr=1 / pi[0]), w0=start, tol=0, max_steps=dim, record=1 + dim // 4096, engine="compiled"
    )
    return pd.Series(run.loss / run.loss[0], index=run.steps)


def sign_runs(dim):
    """The least loss of sign descent at each horizon, over 60 learning rates.

    One row suffices: the sign does not depend on π_k, so all rows are equal.
    """
    pi = zipf(dim)
    last = round(theory.zipf_sign_time_formula(dim, min(SIGN_STEPS)))
    balanced = [pi[0] * steps / (steps**2 + dim / 2) for steps in (dim**0.5 / 3, dim**0.5, last)]
    row = qs.BlockQuadratic.from_spectra([[1.0]] * dim, rotation=0)
    tried = [qs.SignGD(lr=lr) for lr in np.geomspace(0.7 * min(balanced), 1.5 * max(balanced), 60)]
    runs = qs.solve(row, tried, w0=pi, tol=0, max_steps=last + 1, record=1, threads=1)
    losses = np.array([run.loss / run.loss[0] for run in runs])  # (rates, steps)
    return pd.Series(((losses[:, :-1] + losses[:, 1:]) / 2).min(axis=0))


def first_below(losses, eps):
    """The first step with a loss of at most ε, interpolated log-linearly between recorded steps."""
    if losses is None or losses.iloc[-1] > eps:
        return np.nan
    after = int(np.argmax(losses.to_numpy() <= eps))
    two = losses.iloc[after - 1 : after + 1]
    return int(np.ceil(np.interp(-np.log(eps), -np.log(two), two.index) - 1e-9))


def curve(name, dim, steps, loss, run):
    """A curve in closed form, with the losses of a run at the same steps."""
    seen = np.nan if run is None else run.reindex(steps).to_numpy()
    return pd.DataFrame({"optimizer": name, "dim": dim, "step": steps.astype(int), "loss": loss, "run": seen})


def steps_of(times, name, *, alpha=1.0, parity=None, column="steps"):
    """One row per ε, the largest first, and one column per d."""
    parity = parity or {"gd": "every", "signgd": "pair"}[name]
    selected = times[(times["optimizer"] == name) & (times["alpha"] == alpha) & (times["parity"] == parity)]
    return selected.pivot(index="eps", columns="dim", values=column).sort_index(ascending=False)


def growth(steps, until=None):
    """The exponent of d in the steps for each ε, over the last decade or the decade that ends at ``until``."""
    until = until or steps.columns[-1]
    return np.log10(steps[until] / steps[until // 10])


def check(tables):
    times = tables[""]
    gd, sign = steps_of(times, "gd"), steps_of(times, "signgd")
    odd, even = growth(steps_of(times, "signgd", parity="odd")), steps_of(times, "signgd", parity="even")
    rise, before, limit = (
        values[list(SIGN_STEPS)] for values in (growth(gd), growth(gd, 10**5), 1 - gd.index.to_series())
    )
    alphas = [growth(steps_of(times, "gd", alpha=alpha))[0.1] for alpha in (0.5, 1.0, 2.0)]
    law = (gd - steps_of(times, "gd", column="law")).abs().to_numpy().max()
    off = (times["run"] / times["steps"] - 1).abs().groupby(times["optimizer"]).max()
    return [
        Check(
            "GD's steps to ε = 0.2/0.05/0.01",
            f"almost linear in d: d^(1−ε), exponents {listed(limit, 2)}",
            f"{listed(rise)} from d = 10⁵ to 10⁶: below the limit and approaching it",
            (before < rise).all() and (rise < limit).all() and (limit - rise).max() <= 0.05,
        ),
        Check(
            "sign descent's steps to ε = 0.2/0.05/0.01",
            "√d",
            f"exponents {listed(growth(sign))} from d = {power(sign.columns[-1] / 10)} on, means of two steps",
            (growth(sign) - 0.5).abs().max() <= 0.05,
        ),
        Check(
            "GD with frequencies like 1/kᵅ, α = 0.5/1/2",
            "α = 1 is the worst; √d at 0.5, no growth at 2",
            f"exponents {listed(alphas, 2)} in the last decade (ε = 0.1)",
            abs(alphas[0] - 0.5) <= 0.05 and alphas[1] == max(alphas) and abs(alphas[2]) <= 0.05,
        ),
        Check(
            "GD at d = 10⁵, ε = 0.5 to 0.01 (ledger 10)",
            f"{listed(GD_STEPS.values())}; the law with E₁",
            f"{listed(gd[10**5])}; at all d within {law:.2f} steps of the law, runs differ by {off['gd']:.1%}",
            gd[10**5].to_dict() == GD_STEPS and law < 1 and off["gd"] < 0.001,
        ),
        Check(
            "sign descent at d = 10⁵, and its parity (ledger 10)",
            f"{listed(SIGN_STEPS.values())}; √d at odd steps, {listed(EVEN_STEPS.values())} at even ones for all d",
            f"{listed(sign[10**5])} (runs differ by {off['signgd']:.1%}); d^{listed(odd, 2)}, {listed(even[10**5])}",
            sign[10**5].to_dict() == SIGN_STEPS
            and off["signgd"] <= 0.03
            and (odd - 0.5).abs().max() <= 0.1
            and all(even[dim].to_dict() == EVEN_STEPS for dim in even),
        ),
    ]


def listed(values, digits=3):
    return "/".join(f"{one:.{digits}f}" if isinstance(one, float) else str(one) for one in values)


def power(dim):
    return power_of_ten(round(np.log10(dim)))


def draw(tables):
    times, curves = tables[""], tables["-curves"]
    gd, sign = steps_of(times, "gd"), steps_of(times, "signgd")
    far, even = sign.columns[-1], steps_of(times, "signgd", parity="even")
    title = (
        f"Under Zipf's law GD's steps grow like d^{growth(gd)[0.05]:.2f} and sign descent's like "
        f"d^{growth(sign)[0.05]:.2f}: {gd.loc[0.05, far]:,.0f} against {sign.loc[0.05, far]:,.0f} to a loss of 0.05 at "
        f"d = {power(far)}"
    )
    ran = times.dropna(subset=["run"]).groupby("optimizer")["dim"].max()
    caption = (
        "python experiments/kunstner_bach_zipf.py. After arXiv 2505.19227. Lines: closed forms; circles: runs of GD up "
        f"to d = {power(ran['gd'])} (the whole 100 × 100 table at d = 10², rows permuted by seed 0), and SignGD up to "
        f"d = {power(ran['signgd'])}, the best of 60 learning rates at each horizon, means of two steps. Dashed: "
        "(d/2)x with E₁(x) = ε(ln d + γ) for GD, √(d(1 − B)/(2B)) with B = επ²/6 for sign descent. GD's limiting "
        "exponent 1 − ε is not yet reached at d = 10⁶. At even steps alone sign descent would take "
        f"{listed(even[10**5])} steps to 0.2/0.05/0.01, at d = 10⁵ as at 10⁴: small errors are then back at "
        "their initial values."
    )
    with plots.canvas(2, 2, title=title, caption=caption, height=1.75) as (figure, panels):
        for axes, name, level in zip(panels, ("gd", "signgd"), (0.17, 0.3), strict=False):
            show_curves(axes, curves[curves["optimizer"] == name], plots.style_of(name).colour, level)
        panels[0].set(title="GD", xlabel="steps", ylabel="loss / initial value")
        panels[1].set(title="sign descent, lr tuned for each horizon", xlabel="horizon in steps")
        ends = [show_times(panels[2], times, name, eps) for name in ("gd", "signgd") for eps in SIGN_STEPS]
        panels[2].set(title="steps to a loss of ε", ylabel="steps")
        others = []
        for colour, alpha in ((plots.PALETTE[1], 0.5), (plots.style_of("gd").colour, 1.0), (plots.PALETTE[2], 2.0)):
            steps = steps_of(times, "gd", alpha=alpha).loc[0.1]
            panels[3].plot(steps.index, steps, color=colour, linewidth=1.3)
            exponent = growth(steps_of(times, "gd", alpha=alpha))[0.1]
            others.append((steps.iloc[-1], f"α = {alpha:g}:\nd^{abs(exponent):.2f}", colour))
        panels[3].set(title="GD's steps to 0.1, frequencies like 1/kᵅ", ylim=(3, 4e5))
        for axes, labels in zip(panels[2:], (ends, others), strict=True):
            axes.set(xscale="log", yscale="log", xlim=(80, 1.2e6), xlabel="dimension d")
            plots.power_ticks(axes)
            plots.label_right(axes, labels, size=6.8)
    return figure


def show_curves(axes, curves, colour, level):
    """Losses against steps, darker for larger d, with labels at this level."""
    for number, (dim, selected) in enumerate(curves.groupby("dim")):
        shade = 1 - (0.4 + 0.15 * number) * (1 - np.array(to_rgb(colour)))
        axes.plot(selected["step"], selected["loss"], color=shade, linewidth=1.3)
        seen = selected.dropna(subset=["run"]).iloc[::3]
        axes.plot(seen["step"], seen["run"], "o", color=shade, markersize=3.2, markerfacecolor="white")
        step = np.exp(np.interp(-level, -selected["loss"], np.log(selected["step"])))
        label = power(dim) if dim < curves["dim"].max() else f"d = {power(dim)}"
        text = {"color": colour, "fontsize": 7, "fontweight": "bold", "va": "center"}
        box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8}
        axes.annotate(label, (step, level), xytext=(-9, 0), textcoords="offset points", bbox=box, **text)
    axes.set(xscale="log", ylim=(0, 1.03))
    plots.power_ticks(axes, y=False)


def show_times(axes, times, name, eps):
    """Draw closed form, law and runs against d; returns the label with its height and colour."""
    steps, law, run = (steps_of(times, name, column=column).loc[eps] for column in ("steps", "law", "run"))
    colour = plots.style_of(name).colour
    axes.plot(steps.index, steps, color=colour, linewidth=1.3)
    axes.plot(law.index, law, color="#222222", linewidth=0.9, linestyle=(0, (4, 2.5)))
    axes.plot(run.index, run, "o", color=colour, markersize=3.2, markerfacecolor="white")
    height = steps.iloc[-1] * np.sqrt(1e6 / steps.index[-1])  # with fast=true, sign descent ends at a smaller d
    return height, f"{'GD' if name == 'gd' else 'sign'}, ε = {eps:g}", colour


REPRODUCTION = Reproduction(
    "kunstner-bach-zipf",
    "Kunstner & Bach, GD and sign descent under Zipf's law",
    measure,
    check,
    draw,
    arxiv="2505.19227",
    order=110,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
