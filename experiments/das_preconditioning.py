"""How Adam's effective condition number grows with the dimension d and with κ, after Das et al. (arXiv 2402.07114).

Published, for Adam without momentum: O(min(d, κ)) where H is diagonal, O(min(d√(dκ), κ)) where it is diagonally
dominant, and worse than GD's κ where it is far from diagonal, even if d ≪ κ^⅓. Here v is frozen at the squares of the
first gradient, and κ_eff determines Adam's rate exactly. Three families of H with diagonals or eigenvalues evenly
spaced in their logarithm from 1 to κ: diagonal; dense, in a Haar basis; and diagonally dominant, with off-diagonal
entries ±s min(h_ii, h_jj)/(d − 1), so that the sum of their magnitudes in a row is at most s = 0.9 of the diagonal
entry. Then, with e₀ Gaussian, κ_eff ≤ (1 + s)²/(1 − s) max|N_i|/min|N_i| with standard normals N_i (ledger 2e and 2f),
a bound without κ.

    python experiments/das_preconditioning.py [fast=true]
"""

import sys

import numpy as np
import pandas as pd

import quadsim as qs
from quadsim import plots, theory
from quadsim._random import stream
from quadsim.cli import main as cli
from quadsim.reproduce import Check, Reproduction

DIMS, KAPPAS = (4, 8, 16, 32, 64), (1.0, 10.0, 1e2, 1e3, 1e4, 1e6, 1e8)
DIM, KAPPA = 32, 1e8  # fixed while the other one is swept
SHARE = 0.9
FAMILIES = {"diagonal": plots.PALETTE[2], "dominant": plots.PALETTE[1], "dense": plots.PALETTE[0]}


def hessian(family, dim, kappa, seed):
    values = np.geomspace(1, kappa, dim)
    if family != "dominant":
        return qs.BlockQuadratic.from_spectra([values], seed=seed, rotation=0 if family == "diagonal" else 1)
    signs = np.triu(stream(seed, "couplings").choice((-1.0, 1.0), (dim, dim)), 1)
    couplings = (signs + signs.T) * np.minimum.outer(values, values) * SHARE / (dim - 1)
    return qs.BlockQuadratic.from_blocks([np.diag(values) + couplings])


def measure(fast):
    """κ_eff of each draw of H and of a Gaussian start; every cell has different seeds."""
    cells = sorted({(dim, kappa) for dim in DIMS for kappa in (1.0, KAPPA)} | {(DIM, kappa) for kappa in KAPPAS})
    rows = []
    for number, (dim, kappa) in enumerate(cells):
        for family in FAMILIES if dim == DIM or kappa > 1 else ("diagonal",):
            for seed in range(1000 * number, 1000 * number + (30 if fast else 150)):
                problem = hessian(family, dim, kappa, seed)
                value = theory.kappa_eff(problem, e0=problem.initial_error(seed))
                rows.append(
                    {"family": family, "dim": dim, "kappa": kappa, "seed": seed, "kappa_eff": float(f"{value:.5g}")}
                )
    return {"": pd.DataFrame(rows)}


def exponent(draws, axis, kappa=KAPPA, without=np.ones_like):
    """The slope of log median κ_eff against log d, or against log κ for κ ≥ 1000, and its 95 % bootstrap interval.

    ``without`` is a factor to divide out."""
    selected = draws[(draws["kappa"] == kappa) if axis == "dim" else (draws["dim"] == DIM) & (draws["kappa"] >= 1000)]
    groups = [(at, np.log(group.to_numpy())) for at, group in selected.groupby(axis)["kappa_eff"]]
    at = np.array([value for value, _ in groups], dtype=float)
    rng = stream(0, "bootstrap", axis)
    resampled = [np.median(rng.choice(logs, (400, logs.size)), axis=1) for _, logs in groups]
    heights = np.array([[np.median(logs), *row] for (_, logs), row in zip(groups, resampled, strict=True)])
    slope, *others = np.polyfit(np.log(at), heights - np.log(without(at))[:, None], 1)[0]
    return slope, *np.quantile(others, (0.025, 0.975))


def check(tables):
    """Exponents may exceed the published ones by 0.1."""
    draws = dict(list(tables[""].groupby("family")))
    diagonal, dominant = draws["diagonal"], draws["dominant"]
    by_dim_log, by_kappa = exponent(diagonal, "dim", without=root_log), exponent(diagonal, "kappa")
    unit = exponent(diagonal, "dim", kappa=1.0)
    largest = diagonal[(diagonal["kappa"] == 1) & (diagonal["dim"] == DIMS[-1])]["kappa_eff"].median()
    dominant_dim, dominant_kappa = exponent(dominant, "dim"), exponent(dominant, "kappa")
    dense = draws["dense"][draws["dense"]["kappa"] == KAPPA].groupby("dim")["kappa_eff"].median() / KAPPA
    return [
        Check(
            "diagonal H, growth with d",
            "O(d), up to logarithms",
            f"{power('d', *exponent(diagonal, 'dim'))}; divided by √(ln d), {power('d', *by_dim_log)}",
            by_dim_log[0] <= 1.1,
        ),
        Check("diagonal H, growth with κ", "none once κ is above d", power("κ", *by_kappa), abs(by_kappa[0]) <= 0.1),
        Check(
            "diagonal H with κ = 1",
            "O(min(d, κ)): no growth with d",
            f"{power('d', *unit)}; κ_eff = {largest:.0f} at d = {DIMS[-1]}",
            unit[0] <= 0.1,
            "with v frozen, κ_eff = max|e₀|/min|e₀| for every spectrum, including H = I" if unit[1] > 0.5 else "",
        ),
        Check(
            "diagonally dominant H",
            "O(d√(dκ)): at most d^1.5 and κ^0.5",
            f"{power('d', *dominant_dim)} and {power('κ', *dominant_kappa)}",
            dominant_dim[0] <= 1.6 and dominant_kappa[0] <= 0.6,
        ),
        Check(
            f"dense H, κ = {KAPPA:.0e}, d ≪ κ^⅓ = {KAPPA ** (1 / 3):.0f}",
            "Adam can be worse than GD",
            "κ_eff/κ = " + ", ".join(f"{ratio:.2g} (d = {dim})" for dim, ratio in dense.items()),
            dense.max() > 1,
        ),
    ]


def root_log(dims):
    return np.sqrt(np.log(dims))


def power(name, slope, low, high):
    return f"{name}^{slope:.2f} [{low:.2f}, {high:.2f}]"


def draw(tables):
    draws = dict(list(tables[""].groupby("family")))
    count = int(tables[""].groupby(["family", "dim", "kappa"]).size().max())
    slopes = {(family, axis): exponent(draws[family], axis)[0] for family in FAMILIES for axis in ("dim", "kappa")}
    title = (
        f"Adam's condition number grows like d^{slopes['diagonal', 'dim']:.1f} and not with κ where H is diagonal or "
        f"diagonally dominant, and like d^{slopes['dense', 'dim']:.1f} κ^{slopes['dense', 'kappa']:.1f} in a "
        "random basis"
    )
    caption = (
        "python experiments/das_preconditioning.py. After arXiv 2402.07114; Adam with β1 = 0 and v frozen. Diagonals "
        "or eigenvalues evenly spaced in their logarithm from 1 to κ; dominant: off-diagonal "
        f"entries ±{SHARE:g} min(h_ii, h_jj)/(d − 1); dense: Haar bases. Medians and quartiles over {count} draws of H "
        "and of a Gaussian start per point. Exponents: fitted to medians against d, and against κ ≥ 1000. Dashed: GD's "
        "κ, and the exact median for diagonal H. Dotted: the published growth rates d√(dκ) and d."
    )
    with plots.canvas(1, 2, title=title, caption=caption, height=2.6, sharey=True) as (figure, panels):
        for axes, axis, fixed in ((panels[0], "dim", ("kappa", KAPPA)), (panels[1], "kappa", ("dim", DIM))):
            points = np.array(DIMS if axis == "dim" else KAPPAS, dtype=float)
            for family, colour in FAMILIES.items():
                selected = draws[family][draws[family][fixed[0]] == fixed[1]]
                bands = selected.groupby(axis)["kappa_eff"].quantile([0.25, 0.5, 0.75]).unstack()
                axes.fill_between(bands.index, bands[0.25], bands[0.75], color=colour, alpha=0.18, linewidth=0)
                axes.plot(bands.index, bands[0.5], color=colour, marker="o", markersize=3)
            dim, kappa = (points, KAPPA) if axis == "dim" else (DIM, points)
            law = [theory.diagonal_kappa_eff_median(int(d)) for d in np.broadcast_to(dim, points.shape)]
            for line, stroke in (
                (law, (0, (4, 2.5))),
                (np.broadcast_to(kappa, points.shape), (0, (4, 2.5))),
                (np.broadcast_to(dim * np.sqrt(dim * kappa), points.shape), (0, (1, 1.8))),
                (np.broadcast_to(dim, points.shape), (0, (1, 1.8))),
            ):
                axes.plot(points, line, color="#555555", linewidth=0.9, linestyle=stroke, zorder=0)
            axes.set(xscale="log", yscale="log", ylim=(0.8, 1e10))
            plots.power_ticks(axes)
        left, right = panels
        left.set(ylabel="κ_eff", xlabel="dimension d", title="κ = 10⁸", xlim=(3.6, 72))
        left.set_xticks(DIMS, [str(dim) for dim in DIMS])
        right.set(xlabel="condition number κ", title=f"d = {DIM}")
        grey = "#555555"
        for axes, x, y, label, colour in (
            (left, 4, 4e8, "dense", FAMILIES["dense"]), (left, 40, 3e7, "GD: κ", grey),
            (left, 17, 2.5e6, "d√(dκ)", grey), (left, 20, 9, "d", grey),
            (left, 4, 500, "diagonal", FAMILIES["diagonal"]), (left, 4, 120, "dominant", FAMILIES["dominant"]),
            (right, 2e5, 3e7, "dense", FAMILIES["dense"]), (right, 7e6, 3.2e6, "GD: κ", grey),
            (right, 3e6, 8e4, "d√(dκ)", grey), (right, 3e6, 15, "d", grey),
        ):  # fmt: skip
            axes.text(x, y, label, color=colour, fontsize=7.5, fontweight="bold", va="center")
    return figure


REPRODUCTION = Reproduction(
    "das-preconditioning",
    "Das et al., effective condition numbers",
    measure,
    check,
    draw,
    arxiv="2402.07114",
    order=100,
)


if __name__ == "__main__":
    sys.exit(cli.main(["reproduce", __file__, *sys.argv[1:]]))
