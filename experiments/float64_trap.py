"""Why Adam with β2 near 1 appears to converge in float64 but does not: ledger 5i.

On a parabola Adam with β1 = 0, ε = 0 and a constant learning rate η ends at ±η/2. From a distant start w first
contracts: v lags behind, so that each step multiplies w by |1 − η/√v| until √v has decreased to η/2, down to about
η·exp(−π²/(2 ln(1/β2))). For β2 above about 0.9934 this underflows in float64: w is rounded to 0 and stays there,
instead of growing back. The same iteration runs here in plain float64, in logarithms, which do not underflow, and in
quadsim, which reports the status "underflow".

    python experiments/float64_trap.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, theory
from quadsim.cli import main as cli
from quadsim.reproduce import Check, Reproduction

LR = 0.01
PARABOLA = qs.BlockQuadratic.from_blocks([[[1.0]]])
SMALLEST = 5e-324  # of float64
ZERO_SHARES = {0.993: 0.0, 0.994: 0.64, 0.999: 0.945}  # ledger 5i, one-dimensional runs
LEFT = {"textcoords": "offset points", "ha": "right"}
DASHED = {"color": "#222222", "linewidth": 0.9, "linestyle": (0, (4, 2.5))}


def adam(beta2):
    return qs.Adam(lr=LR, beta1=0.0, beta2=beta2, eps=0.0)


def measure(fast):
    """Shares of runs at 0 in float64 and of runs that quadsim flags; depths and ends in logarithms; two runs."""
    betas = tuple(ZERO_SHARES) if fast else (0.99, 0.992, 0.993, 0.9935, 0.994, 0.995, 0.997, 0.999, 0.9995)
    deep = (0.9, 0.99, 0.999) if fast else (0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
    shares = [vanished(beta2, 400 if fast else 1000) for beta2 in betas] + case_3(100 if fast else 200)
    shares.append(vanished(0.999, 400 if fast else 1000, early=True))
    starts, depths = np.repeat(LR * np.geomspace(30, 300, 21), 2), []
    corrected = np.arange(starts.size) % 2 == 1
    for beta2 in deep:
        lowest, last = in_logarithms(starts, beta2, 2000 + round(40 / (1 - beta2)), corrected)
        ends = {"depth": np.log(LR) - lowest, "end": np.exp(last) / theory.amplitude_1d(LR, 0, 1)}
        depths.append(pd.DataFrame({"beta2": beta2, "start": starts / LR, "corrected": corrected, **ends}))
    paths, runs = zip(*(single_run(beta2) for beta2 in (0.99, 0.999)), strict=True)
    return {
        "": pd.DataFrame(shares),
        "-depth": pd.concat(depths, ignore_index=True).round({"start": 2, "depth": 3, "end": 8}),
        "-paths": pd.concat(paths, ignore_index=True).round({"logarithms": 2, "float64": 2}),
        "-runs": pd.DataFrame(runs).round({"end": 8}),
    }


def in_float64(hessians, e, beta2, steps, *, early=False):
    """Adam in its common form, for many blocks (…, n, n) at once; yields the errors (…, n) after each step.

    ``early``: multiply g by η before dividing by √v.
    """
    v, power = np.zeros_like(e), 1.0
    with np.errstate(under="ignore", invalid="ignore"):
        for _ in range(steps):
            g = (hessians @ e[..., None])[..., 0]
            v, power = beta2 * v + (1 - beta2) * g * g, power * beta2
            root = np.sqrt(v / (1 - power))
            e = e - np.where(g == 0, 0, LR * g / root if early else LR * (g / root))
            yield e


def in_logarithms(start, beta2, steps, corrected, path=None):
    """The minimum and the final value of ln|w|, from x = ln|w| and y = ln v alone; ``path`` collects the first run.

    v starts at 0 with bias correction (``corrected``), or at the square of the first gradient.
    """
    x = np.log(start)
    y, lowest = np.where(corrected, -np.inf, 2 * x), x
    for step in range(1, steps + 1):
        y = np.logaddexp(np.log(beta2) + y, np.log1p(-beta2) + 2 * x)
        bias = np.log1p(-(beta2**step)) * corrected
        x = x + np.log(np.abs(1 - LR * np.exp((bias - y) / 2)))
        lowest = np.minimum(lowest, x)
        if path is not None:
            path.append(float(x[0]))
    return lowest, x


def vanished(beta2, count, *, early=False):
    """The share of runs from Gaussian starts that end at exactly 0 in float64, and the status that quadsim reports."""
    starts = [PARABOLA.start(seed) for seed in range(count)]
    steps = round(20 / (1 - beta2))
    *_, last = in_float64(np.ones((1, 1)), np.array(starts), beta2, steps, early=early)
    runs = qs.solve(PARABOLA, adam(beta2), w0=starts, tol=0, max_steps=steps, record="coarse", threads=1)
    return share("1-D, (η·g)/√v" if early else "1-D", beta2, last, runs)


def share(problem, beta2, last, runs=()):
    """Shares of final points (count, …) that are 0 and that have a loss of 0, with the statuses of quadsim's runs."""
    zero = (last == 0).reshape(len(last), -1).all(axis=1)
    lost = (last**2 == 0).reshape(len(last), -1).all(axis=1)
    row = {"problem": problem, "beta2": beta2, "runs": len(last), "zero": zero.mean(), "lost": lost.mean()}
    if not runs:
        return row
    statuses = np.array([str(run.status) for run in runs])
    missed = (lost & (statuses != "underflow")).sum()
    return {
        **row,
        "flagged": (statuses == "underflow").mean(),
        "missed": missed,
        "converged": (statuses == "converged").sum(),
    }


def case_3(count, beta2=0.999):
    """The same for the blocks of Case 3. A status is that of a whole run, so it is compared with any block at 0."""
    problems = [qs.case(3, seed=seed) for seed in range(count)]
    errors = [problem.initial_error(seed) for seed, problem in enumerate(problems)]
    hessians = np.array([problem.blocks for problem in problems])  # (count, 3, 3, 3)
    *_, last = in_float64(hessians, np.array(errors).reshape(count, 3, 3), beta2, 24_000)
    rows = [share(f"Case 3, block {block + 1}", beta2, last[:, block]) for block in range(3)]
    least = np.abs(last).max(axis=2).min(axis=1, keepdims=True)  # 0 where any block is
    how = {"tol": 0, "max_steps": 24_000, "record": "coarse"}
    runs = [qs.solve(problem, adam(beta2), e0=e0, **how) for problem, e0 in zip(problems, errors, strict=True)]
    return [*rows, share("Case 3, any block", beta2, least, runs)]


def single_run(beta2, start=1.0):
    """log10(|w|/η) in logarithms and in float64 at about 300 steps, and a summary of the run."""
    steps, logs = round(30 / (1 - beta2)), []
    in_logarithms(np.array([start]), beta2, steps, True, logs)
    plain = np.array([abs(e[0]) for e in in_float64(np.ones((1, 1)), np.array([start]), beta2, steps)])
    logs = (np.array(logs) - np.log(LR)) / np.log(10)
    run = qs.solve(PARABOLA, adam(beta2), w0=[start], tol=0, max_steps=steps)
    at = np.unique(np.geomspace(1, steps, 300).round().astype(int)) - 1
    with np.errstate(divide="ignore"):
        floats = np.where(plain > 0, np.log10(plain / LR), np.nan)
    shown = {"beta2": beta2, "step": at + 1, "logarithms": logs[at], "float64": floats[at]}
    zero = int(np.argmax(plain == 0)) + 1 if (plain == 0).any() else None
    summary = {
        "beta2": beta2,
        "steps": steps,
        "zero_from": zero,
        "end": 10 ** logs[-1] * 2,
        "status": str(run.status),
        "stopped": run.last_step,
    }
    return pd.DataFrame(shown), summary


def check(tables):
    shares, depths, runs = tables[""], tables["-depth"], tables["-runs"]
    selected = shares[shares["problem"] == "1-D"].set_index("beta2")
    near = {beta2: selected["zero"][beta2] for beta2 in ZERO_SHARES}
    blocks = shares[shares["problem"].str.contains(r"block \d")]["zero"]
    lines = [-depths["depth"][(depths["beta2"] == beta2) & ~depths["corrected"]] for beta2 in (0.99, 0.999)]
    laws = [theory.contraction_depth(beta2) for beta2 in (0.99, 0.999)]
    off = [abs(line.mean() / law - 1) for line, law in zip(lines, laws, strict=True)]
    back = (depths["end"] - 1).abs()
    summary = shares.dropna(subset=["flagged"])
    lost = (summary["lost"] * summary["runs"]).round().sum()
    missed, converged = summary["missed"].sum(), summary["converged"].sum()
    return [
        Check(
            "ln(min|w|/η) at β2 = 0.99 and 0.999",
            f"−π²/(2 ln(1/β2)) = {laws[0]:.0f} and {laws[1]:.0f}",
            f"{' and '.join(f'{line.min():.0f} to {line.max():.0f}' for line in lines)}; means within {max(off):.1%}",
            max(off) <= 0.04,
        ),
        Check(
            "runs that end at exactly 0 in float64, at β2 = 0.993, 0.994, 0.999",
            "0%, 64% and 94.5%",
            f"{', '.join(f'{one:.1%}' for one in near.values())} of {selected['runs'].max():,} runs",
            near[0.993] == 0 and all(abs(near[beta2] - stated) <= 0.1 for beta2, stated in ZERO_SHARES.items()),
        ),
        Check(
            "blocks of Case 3 that end at 0, β2 = 0.999",
            "12 to 33%",
            f"{blocks.min():.1%} to {blocks.max():.1%}",
            abs(blocks.min() - 0.12) <= 0.08 and abs(blocks.max() - 0.33) <= 0.08,
        ),
        Check(
            "the status of runs that end at a loss of 0",
            "underflow, never converged",
            f"underflow in {lost - missed:,.0f} of {lost:,.0f}; {converged:.0f} converged",
            missed == 0 and converged == 0 and lost > 0,
        ),
        Check(
            "the same iteration in logarithms",
            "back to ±η/2 from every start (5b, 5i)",
            f"{(back < 0.01).sum()} of {len(back)} runs, β2 = {min(depths['beta2']):g} to {max(depths['beta2']):g}",
            back.max() < 0.01 and (runs["end"] - 1).abs().max() < 0.01,
        ),
    ]


def draw(tables):
    shares, depths, paths, runs = (tables[part] for part in ("", "-depth", "-paths", "-runs"))
    selected = shares[shares["problem"] == "1-D"].sort_values("beta2")
    known, count, stuck = selected.set_index("beta2")["zero"], selected["runs"].max(), runs.iloc[-1]
    title = (
        f"At β2 = 0.999 float64 takes {known[0.999]:.0%} of Adam's runs to exactly 0, as if they had converged; in "
        f"logarithms {((depths['end'] - 1).abs() < 0.01).sum()} of {len(depths)} return to ±η/2"
    )
    early = shares[shares["problem"].str.contains("η·g")].iloc[0]
    caption = (
        f"python experiments/float64_trap.py. Ledger 5i. Adam on w²/2, β1 = 0, ε = 0, η = {LR:g}. Left: from w = 1; "
        f"quadsim stops with the status “{stuck['status']}” at step {stuck['stopped']:,}. Middle: "
        f"{depths['start'].nunique()} starts from 30η to 300η, in logarithms; v starts at the first g², as the law "
        f"assumes, or at 0 with bias correction. Right: {count:,} Gaussian starts (seeds 0 to {count - 1:,}), bias "
        f"correction. Float64 is coded as w − η·(g/√v); with (η·g)/√v, {early['zero']:.1%} are at 0 at β2 = 0.999, but "
        f"{early['lost']:.0%} have a loss of 0: they stop at a few times 10⁻³²²."
    )
    with plots.canvas(1, 3, title=title, caption=caption, height=2.3) as (figure, (left, middle, right)):
        show_paths(left, paths, stuck)
        show_depths(middle, depths)
        for column, colour, style in (("flagged", plots.CASE_COLOURS[1], "-"), ("zero", "#222222", (0, (4, 2.5)))):
            line = {"color": colour, "linewidth": 1.2, "linestyle": style, "marker": "o", "markersize": 3}
            right.plot(1 - selected["beta2"], 100 * selected[column], **line)
        right.set(xscale="log", xlim=(0.0125, 4e-4), ylim=(-4, 104))
        right.set(xlabel="1 − β2", ylabel="runs in %", title="share of runs")
        right.text(0.005, 30, "float64:\nexactly 0", fontsize=7, color="#222222", va="center")
        right.text(0.004, 68, "quadsim:\nunderflow", fontsize=7, color=plots.CASE_COLOURS[1], va="center")
        plots.power_ticks(right, y=False)
    return figure


def show_paths(axes, paths, stuck):
    """log10(|w|/η) against steps: coloured in logarithms, dashed in float64."""
    for beta2, colour in ((0.99, plots.CASE_COLOURS[0]), (0.999, plots.CASE_COLOURS[1])):
        selected = paths[paths["beta2"] == beta2]
        axes.plot(selected["step"], selected["logarithms"], color=colour, linewidth=1.6)
        axes.plot(selected["step"], selected["float64"], **DASHED)
        low = selected.loc[selected["logarithms"].idxmin()]
        bold = {"color": colour, "fontsize": 7.5, "fontweight": "bold"}
        axes.annotate(f"β2 = {beta2:g}", (low["step"], low["logarithms"]), xytext=(-4, 0), **LEFT, **bold)
    least = np.log10(SMALLEST / LR)
    axes.plot(stuck["zero_from"], least, "x", color="#222222", markersize=5)
    plain = {"va": "center", "fontsize": 7, "color": "#222222"}
    axes.annotate("float64:\nstays 0", (stuck["zero_from"], least), xytext=(-6, -12), **LEFT, **plain)
    axes.set(xscale="log", xlim=(10, 4e4), title="one run", xlabel="steps", ylabel="log10(|w|/η)")
    plots.power_ticks(axes, y=False)


def show_depths(axes, depths):
    """The depth of the contraction against 1 − β2, with the law and the smallest number of float64."""
    rest = np.geomspace(0.15, 7e-5, 60)
    axes.plot(rest, [-theory.contraction_depth(1 - one) for one in rest], **DASHED)
    for corrected, colour in ((True, plots.PALETTE[7]), (False, plots.CASE_COLOURS[2])):
        selected = depths[depths["corrected"] == corrected].groupby("beta2")["depth"]
        axes.vlines(1 - selected.min().index, selected.min(), selected.max(), color=colour, linewidth=1.2)
        axes.plot(1 - selected.mean().index, selected.mean(), "o", color=colour, markersize=3.2)
    axes.axhline(np.log(LR) - np.log(SMALLEST), color="#555555", linewidth=0.9, linestyle=":")
    axes.text(8e-5, 0.68 * (np.log(LR) - np.log(SMALLEST)), "float64 minimum", fontsize=7, color="#555555", ha="right")
    axes.text(1.6e-3, 60, "v from g²", fontsize=7, color=plots.CASE_COLOURS[2], fontweight="bold")
    axes.text(1.6e-3, 36, "corrected", fontsize=7, color=plots.PALETTE[7], fontweight="bold")
    axes.text(0.045, 5500, "π²/(2 ln(1/β2))", fontsize=7, color="#222222")
    axes.set(xscale="log", yscale="log", xlim=(0.15, 7e-5), xlabel="1 − β2", ylabel="−ln(min|w|/η)", title="depth")
    plots.power_ticks(axes)


REPRODUCTION = Reproduction("float64-trap", "Ledger 5i, the float64 trap", measure, check, draw, order=130)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
