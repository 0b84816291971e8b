"""The four cases with the methods people use, all tuned alike: when does block heterogeneity predict the gap?

The published picture (arXiv 2402.16788, figure 3) compares GD without momentum with Adam at β1 = 0 and β2 = 1, both at
best rates: GD falls far behind where the blocks' spectra differ (Cases 1 and 3), and is about as fast where they are
alike (Cases 2 and 4). Here {GD, heavy ball, Nesterov} (under noise SGD with the same momenta) meet Adam with β1 in
{0, 0.9} and β2 in {0.95, 0.999, 1}, and the best of these six. Every method has the same budget of trials, chosen on
draws that are not evaluated; no rate comes from a closed form. Horizons of 100 to 100,000 steps; exact gradients and
minibatches of a third and a ninth of the rows.

    python experiments/four_cases_fairly.py [measure=true] [fast=true]

Fixed before the first run (the only earlier data: medians of ten draws at 1,000 steps, without noise):

- Score: log10 of the largest loss over the steps T to 1.1·T, relative to the first loss, at least −30, the resolution
  of w in float64. A run that diverges or underflows before has failed (ledger 5i: an underflow of Adam is an artefact).
- Search: learning rates from 1e-7 to 10. Round 1, on two draws: 102 trials, 17 rates for each of 6 momenta or 6 pairs
  of β, 102 rates for methods with nothing else to tune. Rounds 2 and 3, on six draws: 16 trials each around the best.
  The trial with the least upper quartile wins.
- The gap is the score of the method without Adam's scaling minus Adam's, draw by draw. Heterogeneity widens it if it is
  larger on Case 1 than on Case 2 (3 than 4): p < 0.05 by Mann-Whitney's test with Holm's correction over all
  comparisons, and medians that differ by more than a factor 2. It narrows it if it is smaller by the same criterion.
- The published picture holds where Adam is ahead by a factor 10 or more if blocks differ, and by less than a factor 10
  in either direction if they are alike.
- Added after a trial with twelve draws, in which rates tuned on other draws let Adam with β2 = 1 diverge on half of
  them: the same search without noise, up to 10,000 steps, on each draw by itself ("own rates", as in the published
  picture).
- A lead is transient if Adam's loss, continued at the same rate to ten times the horizon, grows a hundredfold.

Hypotheses: (1) for GD and Adam (β1 = 0, β2 = 1) without noise, heterogeneity widens the gap up to 10,000 steps; (2)
so it does for GD and Adam with β1 = 0.9, β2 = 0.999 at 1,000 steps, but Adam is ahead in all four cases; (3) momentum
is ahead of the best Adam where blocks are alike, from 1,000 steps on, and not where they differ; (4) with minibatches
heterogeneity widens the gap of SGD with momentum and Adam (0.9, 0.999) at every horizon; (5) at 100,000 steps without
noise GD is not behind Adam with β2 < 1 in any case: a constant rate leaves Adam at its floor.
"""

import hashlib
import sys
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import mannwhitneyu

import quadsim as qs
from quadsim import plots
from quadsim._quantiles import QUARTILES, quantile
from quadsim.cli import main as cli
from quadsim.comparison.statistics import holm, paired_difference
from quadsim.engine.table import read_csv
from quadsim.reproduce import Check, Reproduction

CASES, PAIRS = (1, 2, 3, 4), ((1, 2), (3, 4))  # blocks that differ, and alike
HORIZONS = (100, 1_000, 10_000, 100_000)
ROWS = {1: 120, 2: 120, 3: 9, 4: 9}
SHARES = {"1/3": 3, "1/9": 9}  # of the rows in a minibatch, with their inverses
NOISES = ("none", *SHARES)
DRAWS, TUNING, FIRST = range(50), range(1000, 1006), range(1000, 1002)
FLOOR, WINDOW = -30.0, 1.1
BETAS = tuple(product((0, 0.9), (0.95, 0.999, 1)))
LRS = (-7.0, 1.0)  # exponents
MOMENTA = tuple(0.1 + 0.5 * np.arange(6))  # 1 − momentum = 10^−x
REACH = (0.25, 0.06)  # decades to both sides of the best, in rounds 2 and 3
OWN_HORIZONS = HORIZONS[:3]
FAR, SAME, LEVEL = 1.0, np.log10(2), 0.05
UPPER = 0.75  # what is minimised over the tuning draws: their upper quartile
PARTS = "four-cases-fairly-parts"  # finished parts of a measurement, in the working folder: a killed one continues

BASELINES = {  # without noise, with noise
    "plain": ("GD", "SGD"),
    "momentum": ("heavy ball", "SGD, momentum"),
    "nesterov": ("Nesterov", "SGD, Nesterov"),
}
ADAMS = {f"adam-{beta1:g}-{beta2:g}": f"Adam {beta1:g}, {beta2:g}" for beta1, beta2 in BETAS} | {
    "adam-best": "best Adam"
}
PUBLISHED, USUAL = "adam-0-1", "adam-0.9-0.999"


# ---- methods: the optimizer at a trial's settings


def plain(lr, batch):
    return qs.SGD(lr=lr) if batch else qs.GD(lr=lr)


def momentum(lr, x, batch):
    m = 1 - 10**-x
    return qs.SGD(lr=lr, momentum=m) if batch else qs.HeavyBall(lr=lr, momentum=m)


def nesterov(lr, x, batch):
    m = 1 - 10**-x
    return qs.SGD(lr=lr, momentum=m, nesterov=True) if batch else qs.Nesterov(lr=lr, momentum=m)


def adam(lr, betas, batch):
    beta1, beta2 = betas
    return qs.FrozenAdam(lr=lr, beta1=beta1) if beta2 == 1 else qs.Adam(lr=lr, beta1=beta1, beta2=beta2)


METHODS = {  # the values of the other setting in round 1, and whether it is refined
    "plain": (plain, None, False),
    "momentum": (momentum, MOMENTA, True),
    "nesterov": (nesterov, MOMENTA, True),
    **{f"adam-{beta1:g}-{beta2:g}": (partial(adam, betas=(beta1, beta2)), None, False) for beta1, beta2 in BETAS},
    "adam-best": (adam, BETAS, False),
}


def optimizer(method, trial, batch):
    """The optimizer of a trial (log10 of the learning rate, other setting)."""
    build, others, _ = METHODS[method]
    return build(10 ** trial[0], batch=batch) if others is None else build(10 ** trial[0], trial[1], batch=batch)


def first_trials(method):
    """Round 1: 102 trials over all learning rates."""
    others = METHODS[method][1]
    if others is None:
        return [(x, None) for x in np.linspace(*LRS, 102)]
    return list(product(np.linspace(*LRS, 17), others))


def trials_around(method, best, reach):
    """16 trials around the best: ``reach`` in decades to both sides of the learning rate and of 1 − momentum."""
    lr, other = best
    if METHODS[method][2]:
        offsets = reach * np.array([-1, -1 / 3, 1 / 3, 1])
        return [(lr + a, max(other + b, 0.02)) for a, b in product(offsets, offsets)]
    return [(lr + a, other) for a in np.linspace(-reach, reach, 16)]


# ---- measuring


def measure(fast):
    """The comparisons, the tuned settings, and the scores of every draw."""
    parts = [part(study, f"case-{case}-batch-{noise}", fast, case, noise) for noise, case in product(NOISES, CASES)]
    tuned, draws = (pd.concat(tables, ignore_index=True) for tables in zip(*parts, strict=True))
    own = pd.concat([part(own_rates, f"case-{case}-own", fast, case)[0] for case in CASES], ignore_index=True)
    return {"": compared(draws), "-own": compared(own), "-tuned": tuned, "-draws": draws, "-own-draws": own}


def part(measured, name, fast, *arguments):
    """The tables of one part of the measurement, kept in a folder: a killed measurement continues."""
    code = hashlib.sha256(Path(__file__).read_bytes().partition(b"\n# ---- results")[0]).hexdigest()[:12]
    stem = f"{code}-{qs.__version__}-{'fast' if fast else 'full'}-{name.replace('/', '_')}"
    folder = Path(PARTS)
    if not (folder / f"{stem}.done").is_file():
        began = time.perf_counter()
        folder.mkdir(exist_ok=True)
        for number, table in enumerate(measured(*arguments, fast)):
            table.to_csv(folder / f"{stem}-{number}.csv", index=False)
        (folder / f"{stem}.done").touch()
        print(f"{name}: {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return [read_csv(path) for path in sorted(folder.glob(f"{stem}-?.csv"))]


def study(case, noise, fast):
    """Tune every method at every horizon, then run it on other draws."""
    horizons, tuning, draws = (HORIZONS[:2], TUNING[:3], DRAWS[:12]) if fast else (HORIZONS, TUNING, DRAWS)
    batch = ROWS[case] // SHARES[noise] if noise in SHARES else None
    solve = partial(solved, case, qs.Noise(batch=batch))
    tuned, scores = [], []
    for method in METHODS:
        trials = first_trials(method)
        runs = solve([optimizer(method, trial, batch) for trial in trials], FIRST, max(horizons))
        for horizon in horizons:
            best, found, _ = tune(partial(solve, seeds=tuning, horizon=horizon), method, trials, runs, horizon, batch)
            (of_draws,) = solve([optimizer(method, best, batch)], draws, horizon)
            results = [score(run, horizon) for run in of_draws]
            where = {"case": case, "noise": noise, "horizon": horizon, "method": method}
            settings = {"lr": 10 ** best[0], "other": other_setting(method, best), "trials": len(trials) + found}
            settings["edge"] = abs(best[0] - np.mean(LRS)) > np.ptp(LRS) / 2 - 0.25
            tuned.append({**where, "batch": batch, **settings, **summary(results, of_draws)})
            tuned[-1]["later"] = regrowth(solve, method, best, draws, horizon, of_draws, batch)
            statuses = [str(run.status) for run in of_draws]
            scores += [
                {**where, "seed": seed, "score": result, "status": status}
                for seed, result, status in zip(draws, results, statuses, strict=True)
            ]
    return [pd.DataFrame(tuned), pd.DataFrame(scores)]


def own_rates(case, fast):
    """The same search on each draw by itself, without noise: its best score."""
    horizons, draws = (OWN_HORIZONS[:2], DRAWS[:12]) if fast else (OWN_HORIZONS, DRAWS)
    solve, rows = partial(solved, case, qs.Noise()), []
    for method in METHODS:
        trials = first_trials(method)
        runs = solve([optimizer(method, trial, None) for trial in trials], draws, max(horizons))
        for horizon, (at, seed) in product(horizons, enumerate(draws)):
            alone = partial(solve, seeds=[seed], horizon=horizon)
            best, _, (result,) = tune(alone, method, trials, [[of[at]] for of in runs], horizon, None)
            settings = {"lr": 10 ** best[0], "other": other_setting(method, best)}
            where = {"case": case, "noise": "none", "horizon": horizon, "method": method, "seed": seed}
            rows.append({**where, **settings, "score": result})
    return [pd.DataFrame(rows)]


def solved(case, noise, optimizers, seeds, horizon):
    """For each optimizer its runs, one for each seed."""
    runs = [None] * len(optimizers)
    for linear in (True, False):
        chosen = [k for k, item in enumerate(optimizers) if item.homogeneous == linear]
        if chosen:
            found = qs.solve(
                lambda seed: qs.case(case, seed=seed),
                [optimizers[k] for k in chosen],
                seed=seeds,
                max_steps=round(WINDOW * horizon),
                tol=1e-18 if linear else 0,  # at 1e-18·‖g₀‖ the loss is below the floor; a linear method stays there
                record="log",
                engine="compiled",
                noise=noise,
                progress=False,
            )
            for at, k in enumerate(chosen):
                runs[k] = found[at :: len(chosen)]
    return runs


def tune(solve, method, trials, runs, horizon, batch):
    """The best trial of rounds 2 and 3, the number of trials in them, and the scores of the best."""
    best = trials[least([[score(run, horizon) for run in of] for of in runs])]
    asked, results = [], []
    for reach in REACH:
        more = trials_around(method, best, reach)
        runs = solve([optimizer(method, trial, batch) for trial in more])
        asked, results = asked + more, results + [[score(run, horizon) for run in of] for of in runs]
        best = asked[least(results)]
    return best, len(asked), results[least(results)]


def least(results):
    """The trial with the least upper quartile, ties by the median; of equal ones the middle one."""
    ranks = [(round(upper(values), 9), round(median(values), 9)) for values in results]
    equal = [k for k, rank in enumerate(ranks) if rank == min(ranks)]
    return equal[len(equal) // 2]


def upper(values):
    return float(np.quantile(values, UPPER, method="higher"))


def median(values):
    return float(quantile(values, 0.5, "nearest"))


def score(run, horizon):
    """log10 of the largest loss over the window, relative to the first; infinite if the run ended before in failure."""
    end = round(WINDOW * horizon)
    if run.status in ("diverged", "underflow") and run.last_step <= end:
        return np.inf
    if run.status == "converged" and run.last_step <= horizon:
        return FLOOR
    largest = run.loss[(run.steps >= horizon) & (run.steps <= end)].max() / run.loss[0]
    return max(FLOOR, float(np.log10(largest))) if largest > 0 else FLOOR


def summary(results, runs):
    """Quartiles of the scores, and the shares of runs that failed."""
    shares = {name: np.mean([str(run.status) == name for run in runs]) for name in ("diverged", "underflow")}
    quartiles = {name: float(quantile(results, share, "nearest")) for name, share in QUARTILES.items()}
    return quartiles | shares


def regrowth(solve, method, best, draws, horizon, runs, batch):
    """Decades by which the median loss is larger at ten times the horizon; None for methods without a floor, and noise.

    Runs that underflow on the way count as regrown without limit: in exact arithmetic they return to the floor.
    """
    if batch or runs[0].optimizer.homogeneous:
        return None
    (longer,) = solve([optimizer(method, best, batch)], draws, 10 * horizon)
    pairs = [(before, after) for before, after in zip(runs, longer, strict=True) if score(before, horizon) < np.inf]
    return median([score(after, 10 * horizon) - score(before, horizon) for before, after in pairs]) if pairs else None


def other_setting(method, trial):
    """The momentum, or the pair of β, as text."""
    if trial[1] is None:
        return ""
    return f"momentum={1 - 10 ** -trial[1]:.4g}" if METHODS[method][2] else "beta1={:g} beta2={:g}".format(*trial[1])


# ---- results

INDEX = ["case", "noise", "horizon", "method"]


def compared(draws):
    """One row for each noise, horizon and pair of methods, on each pair of cases."""
    scores = draws.set_index(INDEX).sort_index()["score"]
    rows = []
    for noise, horizon, baseline, name in product(draws["noise"].unique(), draws["horizon"].unique(), BASELINES, ADAMS):
        for cases in PAIRS:
            pair = [gap(scores, case, noise, horizon, baseline, name) for case in cases]
            p = mannwhitneyu(*pair).pvalue if len(np.unique(pair)) > 1 else 1.0
            gaps = {"gap_differ": median(pair[0]), "gap_alike": median(pair[1])}
            where = {"cases": "{} and {}".format(*cases), "noise": noise, "horizon": horizon}
            rows.append({**where, "baseline": baseline, "adam": name, **gaps, "p": p})
    table = pd.DataFrame(rows)
    table["p_holm"] = holm(table["p"])
    table["effect"] = [effect(row) for row in table.itertuples()]
    table["published"] = (table["gap_differ"] >= FAR) & (table["gap_alike"].abs() < FAR)
    return table


def gap(scores, case, noise, horizon, baseline, name):
    """By how many decades Adam ends below the baseline, draw by draw."""
    return paired_difference(scores[case, noise, horizon, baseline], scores[case, noise, horizon, name])


def effect(row):
    """Whether heterogeneity widens the gap."""
    more = paired_difference(row.gap_differ, row.gap_alike)
    if row.p_holm >= LEVEL or abs(more) <= SAME:
        return "none"
    return "wider" if more > 0 else "narrower"


def check(tables):
    table = tables[""]
    rows = table.set_index(["noise", "horizon", "baseline", "adam"]).sort_index()
    horizons, noises = list(table["horizon"].unique()), list(table["noise"].unique())
    short, longest = [horizon for horizon in horizons if horizon <= 10_000], max(horizons)
    published = rows.loc["none", :, "plain", PUBLISHED].reset_index()
    own = tables["-own"].query("baseline == 'plain' and adam == @PUBLISHED")
    usual = rows.loc["none", 1_000, "plain", USUAL].reset_index()
    alike = rows.loc["none", horizons[1] :, "momentum", "adam-best"].reset_index()
    noisy = pd.concat([rows.loc[noise, :, "momentum", USUAL].reset_index() for noise in noises if noise != "none"])
    decaying = rows.loc["none", longest, "plain", [name for name in ADAMS if name not in NEVER_AT_A_FLOOR]]
    decaying = decaying.reset_index()
    return [
        Check(
            "Published picture, GD and Adam (β1 = 0, β2 = 1), each draw at its own best rates",
            "Adam far ahead where blocks differ, about as fast as GD where they are alike",
            gaps(own),
            bool(own["published"].all()),
            "by this criterion (a factor of 10) Adam is behind where blocks are alike, or not ahead where they differ",
        ),
        Check(
            "The same at rates tuned on other draws",
            "the same",
            f"{gaps(published)}; diverged: {diverged(tables['-tuned'])}",
            bool(published["published"].all()),
            "the largest stable rate depends on the draw: one tuned on six draws is too large for others",
        ),
        Check(
            "Hypothesis 1: GD and Adam (β1 = 0, β2 = 1), no noise",
            "heterogeneity widens the gap up to 10,000 steps",
            effects(published[published["horizon"].isin(short)]),
            bool((published[published["horizon"].isin(short)]["effect"] == "wider").all()),
            "where rates tuned on other draws let Adam fail, and after few steps, the gap is not wider",
        ),
        Check(
            "Hypothesis 2: GD and Adam (0.9, 0.999), no noise, 1,000 steps",
            "heterogeneity widens the gap, and Adam is ahead in all four cases",
            f"{effects(usual)}; {gaps(usual)}",
            bool((usual["effect"] == "wider").all() and (usual[["gap_differ", "gap_alike"]] > SAME).all(axis=None)),
            "not in every case",
        ),
        Check(
            "Hypothesis 3: heavy ball and the best Adam, no noise, from 1,000 steps on",
            "heavy ball ahead where blocks are alike, and not where they differ",
            gaps(alike),
            bool((alike["gap_alike"] < -SAME).all() and (alike["gap_differ"] >= -SAME).all()),
            "at long horizons both reach the resolution of float64, or Adam has failed",
        ),
        Check(
            "Hypothesis 4: SGD with momentum and Adam (0.9, 0.999), minibatches",
            "heterogeneity widens the gap at every horizon",
            effects(noisy),
            bool((noisy["effect"] == "wider").all()),
            "it depends on the horizon",
        ),
        Check(
            f"Hypothesis 5: GD and Adam with β2 < 1, no noise, {longest:,} steps",
            "GD not behind in any case",
            gaps(decaying),
            bool((decaying[["gap_differ", "gap_alike"]] <= SAME).all(axis=None)),
            "GD has not converged",
        ),
        # The last two were added when the results were known.
        Check(
            "Does the lead of Adam (0.9, 0.999) at 1,000 steps last? No noise",
            "ledger 5b: no, with β2 < 1 and a constant rate Adam does not converge",
            regrown(tables["-tuned"])[0],
            bool((regrown(tables["-tuned"])[1] >= 2).all()),
            "at ten times the horizon some losses are not a hundred times as large",
        ),
        Check(
            "All pairs of methods, horizons and noise levels",
            "Adam's advantage comes with heterogeneity",
            effects(table),
            bool((table["effect"] == "wider").all()),
            "where both methods have converged, or Adam diverges, there is nothing to predict",
        ),
    ]


NEVER_AT_A_FLOOR = (PUBLISHED, "adam-0.9-1", "adam-best")


def effects(rows):
    """How often heterogeneity widens the gap, narrows it, or has no effect."""
    counts = rows["effect"].value_counts()
    words = {"wider": "wider in", "narrower": "narrower in", "none": "no effect in"}
    return ", ".join(f"{text} {counts.get(name, 0)}" for name, text in words.items()) + f" of {len(rows)}"


def gaps(rows):
    """The range of the median gaps in decades, by case."""
    parts = []
    for differ, alike in PAIRS:
        selected = rows[rows["cases"] == f"{differ} and {alike}"]
        for case, column in ((differ, "gap_differ"), (alike, "gap_alike")):
            low, high = selected[column].min(), selected[column].max()
            ends = decades(low) if decades(low) == decades(high) else f"{decades(low)} to {decades(high)}"
            parts.append((case, f"Case {case} {ends}"))
    return "Adam ahead by, in decades: " + ", ".join(text for _, text in sorted(parts))


def decades(value):
    return ("−∞" if value < 0 else "∞") if np.isinf(value) else f"{value:.1f}".replace("-", "−")


def diverged(tuned):
    rows = tuned[(tuned["noise"] == "none") & (tuned["method"] == PUBLISHED)]
    most = rows.groupby("case")["diverged"].max()
    return ", ".join(f"{share:.0%} of draws in Case {case}" for case, share in most.items())


def regrown(tuned):
    """By how many decades the loss is larger at ten times the horizon, in words and by case."""
    rows = tuned[(tuned["noise"] == "none") & (tuned["method"] == USUAL) & (tuned["horizon"] == 1_000)]
    later = rows.set_index("case")["later"].sort_index()
    text = ", ".join(f"Case {case} {decades(value)}" for case, value in later.items())
    return f"decades by which the loss is larger after 10,000 steps at the same rate: {text}", later


# ---- the figure

COLUMNS = {  # what is compared, by the title of the column
    "GD and Adam (0, 1)": ("plain", PUBLISHED),
    "GD and Adam (0.9, 0.999)": ("plain", USUAL),
    "Heavy ball and the best Adam": ("momentum", "adam-best"),
}
LOOKS = {  # warm: blocks differ; cool: alike; open: measured spectra
    1: ("#D55E00", "s", "white"),
    2: ("#0072B2", "o", "white"),
    3: ("#D55E00", "s", "#D55E00"),
    4: ("#0072B2", "o", "#0072B2"),
}
LINES = {"none": "no noise", **{share: f"minibatches of {share}" for share in SHARES}}
END = 90.0  # decades: where infinite gaps are drawn


def draw(tables):
    table, draws = tables[""], tables["-draws"]
    scores = draws.set_index(INDEX).sort_index()["score"]
    count, horizons = draws["seed"].nunique(), sorted(draws["horizon"].unique())
    noises = list(draws["noise"].unique())
    title = headline(table)
    caption = (
        "python experiments/four_cases_fairly.py. By how many decades Adam ends below the other method (below 0: above "
        f"it), against the horizon; medians and quartiles of {count} draws. All methods tuned alike: 134 trials on "
        "other draws for each horizon. Squares: Cases 1 (open) and 3, whose blocks differ; circles: Cases 2 (open) and "
        "4, whose blocks are alike. Under noise heavy ball is SGD with momentum. ∞: the other method failed, −∞: Adam "
        "failed. Losses below 10⁻³⁰ of the first count as 10⁻³⁰."
    )
    with plots.canvas(
        len(noises), len(COLUMNS), title=title, caption=caption, height=1.55, sharex=True, sharey=True
    ) as (figure, panels):
        for at, (axes, (noise, (head, pair))) in enumerate(zip(panels, product(noises, COLUMNS.items()), strict=True)):
            panel(axes, scores, noise, horizons, *pair)
            row, column = divmod(at, len(COLUMNS))
            axes.set(title=head if row == 0 else "", xlabel="steps" if row == len(noises) - 1 else "")
            if column == 0:
                axes.set_ylabel(f"{LINES[noise]}:\ndecades ahead")
        for text, (x, y, side_of), case in (
            ("blocks differ", (0.04, 0.88, "left"), 3),
            ("alike", (0.98, 0.06, "right"), 4),
        ):
            style = {"transform": panels[0].transAxes, "ha": side_of, "fontweight": "bold", "fontsize": 7.5}
            panels[0].text(x, y, text, color=LOOKS[case][0], **style)
    return figure


def panel(axes, scores, noise, horizons, baseline, adam):
    """The gap of one pair of methods at one noise level, for the four cases."""
    for at, (case, (colour, marker, face)) in enumerate(LOOKS.items()):
        found = [gap(scores, case, noise, horizon, baseline, adam) for horizon in horizons]
        low, middle, high = (
            np.clip([quantile(one, share, "nearest") for one in found], -END, END) for share in QUARTILES.values()
        )
        x = np.array(horizons) * 10 ** (0.07 * (at - 1.5))
        axes.vlines(x, low, high, color=colour, linewidth=1, alpha=0.6)
        axes.plot(x, middle, color=colour, linewidth=1.1, marker=marker, markersize=3.6, markerfacecolor=face)
    axes.axhline(0, color="#222222", linewidth=0.7)
    axes.set(xscale="log", ylim=(-1.5 * END, 1.5 * END))
    axes.set_yscale("symlog", linthresh=1, linscale=0.6)
    axes.set_yticks([-END, -10, -1, 0, 1, 10, END], ["−∞", "−10", "−1", "0", "1", "10", "∞"])
    axes.minorticks_off()
    plots.power_ticks(axes, y=False)


def headline(table):
    """The gaps after 1,000 steps without noise: GD and Adam as people use it; heavy ball and the best Adam."""
    rows = table[(table["noise"] == "none") & (table["horizon"] == 1_000)].set_index(["baseline", "adam"])
    gd, ball = rows.loc[("plain", USUAL)], rows.loc[("momentum", "adam-best")]
    return (
        f"After 1,000 steps, all tuned alike, Adam (0.9, 0.999) is {side(gd['gap_differ'])} GD where blocks differ "
        f"and {side(gd['gap_alike'])} it where they are alike; the best Adam is {side(ball['gap_differ'])} heavy "
        f"ball where they differ and {side(ball['gap_alike'])} it where they are alike"
    )


def side(values):
    """The gaps of two pairs of cases in words."""
    ends = [f"{abs(value):.0f}" for value in values]
    amount = ends[0] if len(set(ends)) == 1 else " and ".join(ends)
    if (values > 0).all():
        return f"{amount} decades ahead of"
    if (values < 0).all():
        return f"{amount} decades behind"
    return f"{' and '.join(decades(value) for value in values)} decades ahead of"


REPRODUCTION = Reproduction(
    "four-cases-fairly",
    "Hypotheses of this project on the four cases with methods people use",
    measure,
    check,
    draw,
    arxiv="2402.16788",
    order=15,
    slow=True,
    on_request=True,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
