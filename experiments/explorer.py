"""The curves of the report's explorer: GD, Adam (β2 = 1) and block GD in the four cases, in closed form.

For each case, condition number, heterogeneity (None: the arrangement of the case), rotation and seed: the relative
gradient norm down to 1e-6 at 48 steps, evenly spaced in their logarithm from 1 to the last one. The five values of
heterogeneity give the five distinct arrangements of Cases 3 and 4.

    python experiments/explorer.py

takes about a minute and writes figures/explorer.json in the working folder (or to the folder given as an argument): the
axes, the last steps (float32) and the curves (one byte per point) in the order of the axes.
"""

import base64
import itertools
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np

import quadsim as qs
from quadsim import _artifacts, plots

AXES = {
    "case": [1, 2, 3, 4],
    "kappa": [50, 500, 5000, 50_000, 500_000],
    "heterogeneity": [None, 0.0, 0.25, 0.6, 0.9, 1.0],
    "rotation": [0.0, 0.03, 0.1, 0.3, 1.0],
    "seed": [0, 1, 2, 3, 4],
}
OPTIMIZERS = (qs.GD(), qs.FrozenAdam(), qs.BlockGD())
POINTS, TOL = 48, 1e-6
TOP, BOTTOM = 1.0, -6.1  # log10 of the gradient norm for the bytes 0 and 255


def curves(number, kappa, heterogeneity, rotation, seed):
    """The last step of each optimizer and its curve in bytes."""
    problem = qs.case(number, kappa=kappa, heterogeneity=heterogeneity, rotation=rotation, seed=seed)
    ends, heights = [], []
    for optimizer in OPTIMIZERS:
        run = qs.exact(problem, optimizer, seed=seed, tol=TOL)
        last = max(run.steps_to_tol, 2)  # an axis needs two ends
        at = np.geomspace(1, last, POINTS)
        height = np.interp(at, run.steps, np.log10(np.maximum(run.grad_norm / run.grad_norm[0], 1e-300)))
        ends.append(last)
        heights.append(np.clip((TOP - height) / (TOP - BOTTOM) * 255, 0, 255).round().astype(np.uint8))
    return ends, heights


def arrangements(number):
    """For each heterogeneity the number of its arrangement, and how many there are."""
    shares = [share for share in AXES["heterogeneity"] if share is not None]
    pairs = [qs.spectra.arrangement(qs.case_spectra(number, heterogeneity=share), share) for share in shares]
    numbers, totals = zip(*pairs, strict=True)
    assert len(set(numbers)) == len(numbers), f"Case {number} has the same problem at two positions: {numbers}"
    return {"numbers": [None, *numbers], "of": totals[0]}


def packed(values):
    return base64.b64encode(values.tobytes()).decode()


def main(folder):
    cells = list(itertools.product(*AXES.values()))
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        results = list(pool.map(curves, *zip(*cells, strict=True), chunksize=50))
    content = {
        "command": "python experiments/explorer.py",
        "axes": AXES,
        "arrangements": {number: arrangements(number) for number in AXES["case"]},
        "optimizers": [
            {"name": optimizer.name, "label": optimizer.label, "colour": plots.style_of(optimizer.name).colour}
            for optimizer in OPTIMIZERS
        ],
        "points": POINTS,
        "tol": TOL,
        "top": TOP,
        "bottom": BOTTOM,
        "ends": packed(np.array([ends for ends, _ in results], dtype="<f4")),
        "curves": packed(np.array([heights for _, heights in results])),
        "versions": _artifacts.versions(),
    }
    path = folder / "explorer.json"
    _artifacts.write_text(path, json.dumps(content, ensure_ascii=False) + "\n")
    print(f"wrote {path}: {len(cells):,} problems, {path.stat().st_size / 1e6:.2g} MB")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "figures"))
