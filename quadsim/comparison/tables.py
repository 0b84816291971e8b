"""The tables of a comparison: one row for each optimizer, for each run, for each step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim._quantiles import quartiles
from quadsim.comparison.evaluation import MIN_LOSS, MIN_RELATIVE_LOSS, EvaluationProtocol, underflowed
from quadsim.comparison.statistics import paired_difference
from quadsim.comparison.tuning import Tuned
from quadsim.engine.trajectory import Status, Trajectory

if TYPE_CHECKING:
    import pandas as pd


POINTS = 400  # of a curve with its quartiles
MEASURES = {  # the quantity whose bands are recorded, and its least value
    "final-loss": ("loss", MIN_LOSS),
    "steps-to-tol": ("relative gradient norm", MIN_LOSS),
    "mean-log-loss": ("relative loss", MIN_RELATIVE_LOSS),
}


class Results:
    """The confirmation runs of an optimizer at each of its leading settings: scores, and which of them underflowed."""

    def __init__(self, settings: int, seeds: int) -> None:
        self.scores = np.zeros((settings, seeds))
        self.underflow = np.zeros((settings, seeds), dtype=bool)
        self.runs: list[Trajectory] = []  # at the chosen setting

    def add(self, setting: int, index: int, run: Trajectory, protocol: EvaluationProtocol) -> None:
        self.scores[setting, index], self.underflow[setting, index] = protocol.score(run), underflowed(run)
        if setting == 0:
            self.runs.append(run)

    def without_underflow(self) -> list[Trajectory]:
        """The runs that did not underflow; all runs if every one did."""
        return [run for run in self.runs if not underflowed(run)] or self.runs

    def differences(self, other: Results) -> np.ndarray:
        """Paired differences (settings, settings of the other, seeds); NaN where one of the two underflowed."""
        difference = paired_difference(self.scores[:, None], other.scores[None])
        return np.where(self.underflow[:, None] | other.underflow[None], np.nan, difference)


def summary(
    ids: dict[str, dict[str, str]],
    tuned: dict[str, Tuned],
    results: dict[str, Results],
    against: dict[str, dict[str, Any]],
    protocol: EvaluationProtocol,
) -> pd.DataFrame:
    import pandas as pd

    from quadsim.engine.table import cell

    rows = []
    for name, best in tuned.items():
        scores = results[name].scores[0][~results[name].underflow[0]]
        result = dict.fromkeys(("lower", "median", "upper"), np.nan)
        if scores.size:
            result = {key: float(value) for key, value in quartiles(scores, "linear").items()}
        if protocol.objective != "mean-log-loss":
            result = {key: 10**value for key, value in result.items()}
        rows.append(
            {
                **ids[name],
                "lr": cell(best.settings["lr"]),
                "settings": ", ".join(f"{key}={value}" for key, value in best.settings.items() if key != "lr"),
                **{key: getattr(best, key) for key in ("edge", "failed", "given", "factor")},
                **result,
                **against[name],
                "slack": best.slack,
                **best.sensitivity(),
                "seeds": results[name].scores.shape[1],
            }
        )
    return pd.DataFrame(rows)


def records(ids: dict[str, dict[str, str]], results: dict[str, Results], reference: str) -> pd.DataFrame:
    from quadsim.engine import table

    frames = []
    for name, mine in results.items():
        scores = np.where(mine.underflow[0], np.nan, mine.scores[0])
        differences = mine.differences(results[reference])[0, 0]
        frame = table.summary(mine.runs).assign(**ids[name], score=scores, difference=differences)
        columns = [*ids[name], "seed", "score", "difference", "loss", "steps_to_tol", "last_step", "status"]
        frames.append(frame[columns].astype({"seed": np.int64, "last_step": np.int64}))
    return joined(frames)


def joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([frame for frame in frames if len(frame)] or frames[:1], ignore_index=True)


def band(runs: list[Trajectory], protocol: EvaluationProtocol, ids: dict[str, str]) -> pd.DataFrame:
    """Quartiles at common steps. A run that diverged is infinite from then on; any other keeps its last value."""
    import pandas as pd

    last = max(run.last_step for run in runs)
    even, close = np.linspace(0, last, POINTS), np.geomspace(1, max(last, 1), POINTS)
    steps = np.unique(np.concatenate([even, close]).round().astype(np.int64))
    measure, least = MEASURES[protocol.objective]
    curves = []
    for run in runs:
        values = run.grad_norm if measure == "relative gradient norm" else run.loss
        scale = 1.0 if measure == "loss" else values[0] or 1.0
        curve = np.interp(steps, run.steps, np.log10(np.maximum(values / scale, least)))
        if run.status == Status.DIVERGED:
            curve[steps >= run.last_step] = np.inf
        curves.append(curve)
    bands = {name: 10**values for name, values in quartiles(np.transpose(curves), "linear").items()}
    return pd.DataFrame({**ids, "measure": measure, "step": steps, **bands})
