"""Trajectories → tidy tables, the only door into figures. Column names are the keys of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from quadsim.trajectory import Trajectory


def rows(runs: Iterable[Trajectory]) -> list[dict[str, Any]]:
    """One plain dictionary for each run: what it was and how it ended. An absent value is None."""
    return [
        {
            "lane": lane,
            "problem": run.problem,
            "optimizer": run.optimizer.name,
            "seed": run.seed,
            **{key: _cell(value) for key, value in run.optimizer.settings().items()},
            "tol": run.tol,
            "max_steps": run.max_steps,
            "steps_to_tol": run.steps_to_tol,
            "last_step": run.last_step,
            "loss": float(run.loss[-1]) if run.loss.size else None,
            "grad_norm": float(run.grad_norm[-1]) if run.grad_norm.size else None,
            "status": str(run.status),
        }
        for lane, run in enumerate(runs)
    ]


def summary(runs: Iterable[Trajectory]) -> pd.DataFrame:
    """One row for each run: what it was and how it ended."""
    frame = pd.DataFrame(rows(runs))
    whole = [column for column in ("seed", "steps_to_tol", "last_step") if column in frame]
    return frame.astype(dict.fromkeys(whole, "Int64"))


def curves(runs: Iterable[Trajectory]) -> pd.DataFrame:
    """One row for each recorded step of each run; `relative` is ‖g‖/‖g₀‖."""
    parts = [
        pd.DataFrame(
            {
                "lane": lane,
                "problem": run.problem,
                "optimizer": run.optimizer.name,
                "label": run.optimizer.label,
                "seed": run.seed,
                "step": run.steps,
                "loss": run.loss,
                "grad_norm": run.grad_norm,
                "relative": run.grad_norm / run.grad_norm[0] if run.grad_norm.size and run.grad_norm[0] else 0.0,
            }
        )
        for lane, run in enumerate(runs)
    ]
    return pd.concat(parts, ignore_index=True)


def _cell(value: object) -> object:
    """A setting as one cell: one learning rate for each block is written as on the command line."""
    return "/".join(repr(item) for item in value) if isinstance(value, tuple) else value
