"""Quantiles over runs. Values may be infinite: a run that diverged or did not reach the tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from quadsim._validation import InputError

if TYPE_CHECKING:
    import pandas as pd

QUARTILES = {"lower": 0.25, "median": 0.5, "upper": 0.75}
MAX_ROUNDING = 1e-12  # of an index share·(n − 1)

Method = Literal["nearest", "linear", "log10"]


def quantile(values: Any, share: float, method: Method) -> np.ndarray:
    """The quantile at ``share`` along the last axis.

    Parameters
    ----------
    values :
        Real numbers, possibly infinite; at least one along the last axis, and no NaN.
    share :
        From 0 (minimum) to 1 (maximum).
    method :
        - ``"nearest"``: the order statistic nearest to index share·(n − 1), halves to the even index. Always one of the
          values.
        - ``"linear"``: linear interpolation between neighbours in the extended reals. Between a finite and an infinite
          value lies the infinite one, between −∞ and ∞ lies 0. So the quantile of −x at 1 − share is the negative, and
          no NaN arises.
        - ``"log10"``: ``values`` are decimal logarithms, all finite. They are interpolated linearly (by `np.quantile`)
          and 10 is raised to the result.
    """
    if method == "log10":
        return 10 ** np.quantile(np.asarray(values), share, axis=-1)
    ordered = np.sort(np.asarray(values, dtype=float), axis=-1)
    last = ordered.shape[-1] - 1
    index = share * last
    if method == "nearest":
        return ordered[..., round(index)]
    low = math.floor(index + MAX_ROUNDING)
    weight = max(index - low, 0.0)
    below, above = ordered[..., low], ordered[..., min(low + 1, last)]
    if weight < MAX_ROUNDING:
        return below
    with np.errstate(invalid="ignore"):
        between = np.where(below == above, below, below + weight * (above - below))
    between = np.where(np.isneginf(below) & np.isfinite(above), -np.inf, between)
    return np.where(np.isneginf(below) & np.isposinf(above), 0.0, between)


def quartiles(values: Any, method: Method) -> dict[str, np.ndarray]:
    """Lower quartile, median and upper quartile along the last axis, by these names."""
    return {name: quantile(values, share, method) for name, share in QUARTILES.items()}


def bands(runs: Iterable[Any], points: int = 400) -> pd.DataFrame:
    """`quadsim.table.bands`; here because plots use it too. Reads the attributes of runs."""
    import pandas as pd

    groups: dict[tuple[str, str], list[Any]] = {}
    for run in (run for run in runs if run.steps.size):
        groups.setdefault((run.problem, run.optimizer.name), []).append(run)
    parts = []
    for (problem, optimizer), draws in groups.items():
        members = [run for run in draws if run.status != "underflow" or run.optimizer.homogeneous] or draws
        first, last = max(int(run.steps[0]) for run in members), max(run.last_step for run in members)
        linear = np.linspace(first, last, points)
        logarithmic = np.geomspace(max(first, 1), max(last, 1), points // 2)
        steps = np.unique(np.concatenate([linear, logarithmic]).round().astype(np.int64))
        curves = [np.interp(steps, run.steps, _log_relative(run)) for run in members]
        names = {"problem": problem, "optimizer": optimizer, "label": members[0].optimizer.label}
        parts.append(pd.DataFrame({**names, "step": steps, **quartiles(np.transpose(curves), "log10")}))
    if not parts:
        raise InputError("no run has a recorded step: there are no quartiles")
    return pd.concat(parts, ignore_index=True)


def _log_relative(run: Any) -> np.ndarray:
    norms = np.maximum(run.grad_norm, 1e-300)
    first = norms[0] if run.first_grad_norm is None else max(run.first_grad_norm, 1e-300)
    return np.log10(norms / first)
