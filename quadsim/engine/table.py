"""Tidy tables of trajectories, from which figures are drawn. Column names are the keys of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _columns, _discovery
from quadsim import _quantiles as quantiles
from quadsim._validation import InputError, InputTypeError, shown
from quadsim.engine.trajectory import Status, Trajectory

if TYPE_CHECKING:
    import pandas as pd

    from quadsim._columns import Columns

#: Columns of whole numbers that may be missing.
WHOLE = ("seed", "steps_to_tol", "last_step")
#: The columns of `curves`.
CURVE_COLUMNS = ("lane", "problem", "optimizer", "label", "seed", "step", "loss", "grad_norm", "relative")


def __dir__() -> list[str]:
    return _discovery.public_names(globals())


def read_csv(path: str | Path, **options: Any) -> pd.DataFrame:
    """Read a table from a CSV file; floats are parsed exactly.

    Before pandas 3.1 the default parser rounds two thirds of all doubles wrongly in the last place; since then it is
    exact and ``float_precision`` is deprecated.

    Parameters
    ----------
    path : path
    **options :
        Those of `pandas.read_csv`.

    Returns
    -------
    DataFrame

    Examples
    --------
    >>> qs.solve(qs.case(3), qs.GD()).to_frame().to_csv("run.csv", index=False)
    >>> qs.table.read_csv("run.csv")["optimizer"].unique().tolist()
    ['gd']
    """
    import pandas as pd

    if tuple(int(part) for part in pd.__version__.split(".")[:2]) < (3, 1):
        options = {"float_precision": "round_trip", **options}
    return pd.read_csv(path, **options)


def _listed(runs: Any, at_least: int = 0) -> list[Trajectory]:
    """The runs as a list; a single run is a list of one."""
    if not isinstance(runs, Trajectory | Iterable) or isinstance(runs, str):
        raise InputTypeError(f"runs must be a run, or a list of runs such as qs.solve returns, got {shown(runs)}")
    listed = [runs] if isinstance(runs, Trajectory) else list(runs)
    for run in listed:
        if not isinstance(run, Trajectory):
            raise InputTypeError(f"runs must be runs such as qs.solve returns, got {shown(run)}")
    if len(listed) < at_least:
        raise InputError("runs must hold at least one run")
    return listed


def rows(runs: Trajectory | Iterable[Trajectory]) -> list[dict[str, Any]]:
    """The settings of runs and how they ended, as plain values.

    Parameters
    ----------
    runs : Trajectory, or a list of them

    Returns
    -------
    list of dict
        One for each run. A missing value is None.

    Examples
    --------
    >>> row = qs.table.rows([qs.solve(qs.case(3), qs.FrozenAdam())])[0]
    >>> row["optimizer"], row["steps_to_tol"], row["status"], row["lr_from"]
    ('frozen-adam', 15, 'converged', 'theory')
    """
    return [
        {
            "lane": lane,
            "problem": run.problem,
            "minimizer": run.minimizer,
            "optimizer": run.optimizer.name,
            "seed": run.seed,
            **{key: cell(value) for key, value in run.optimizer.settings().items()},
            "lr_from": run.lr_from,
            "tol": run.tol,
            "max_steps": run.max_steps,
            "steps_to_tol": run.steps_to_tol,
            "last_step": run.last_step,
            "loss": float(run.loss[-1]) if run.loss.size else None,
            "grad_norm": float(run.grad_norm[-1]) if run.grad_norm.size else None,
            "status": str(run.status),
            "engine": run.engine,
            **_conditions(run),
        }
        for lane, run in enumerate(_listed(runs))
    ]


def summary(runs: Trajectory | Iterable[Trajectory]) -> pd.DataFrame:
    """The settings of runs and how they ended, as a table.

    Parameters
    ----------
    runs : Trajectory, or a list of them

    Returns
    -------
    DataFrame
        One row for each run, with the entries of `rows` as columns.

    Examples
    --------
    >>> qs.table.summary([qs.solve(qs.case(3), qs.FrozenAdam())])["steps_to_tol"].tolist()
    [15]
    """
    import pandas as pd

    frame = pd.DataFrame(rows(runs))
    return frame.astype(dict.fromkeys([column for column in WHOLE if column in frame], "Int64"))


def curves(runs: Trajectory | Iterable[Trajectory]) -> pd.DataFrame:
    """The recorded steps of runs, as a table.

    Parameters
    ----------
    runs : Trajectory, or a list of them

    Returns
    -------
    DataFrame
        One row for each recorded step of each run; the columns are `CURVE_COLUMNS`, where ``relative`` is ‖g‖/‖g₀‖.

    Examples
    --------
    >>> curves = qs.table.curves([qs.solve(qs.case(3), qs.FrozenAdam())])
    >>> curves[["step", "relative"]].values.tolist()[0]
    [0.0, 1.0]
    """
    import pandas as pd

    empty = pd.DataFrame(columns=list(CURVE_COLUMNS))
    parts = [pd.DataFrame(_curve(lane, run)) for lane, run in enumerate(_listed(runs))]
    return pd.concat(parts or [empty], ignore_index=True)


def columns(runs: Trajectory | Iterable[Trajectory]) -> dict[str, Columns]:
    """The tables of `summary` and of `curves` for files, made without pandas.

    Parameters
    ----------
    runs : Trajectory, or a list of them

    Returns
    -------
    dict
        The tables as columns, by the suffix of their file: "" and "-curves".

    Examples
    --------
    >>> list(qs.table.columns([qs.solve(qs.case(3), qs.FrozenAdam())]))
    ['', '-curves']
    """
    listed = _listed(runs)
    curves: dict[str, list[Any]] = {name: [] for name in CURVE_COLUMNS}
    for lane, run in enumerate(listed):
        for name, value in _curve(lane, run).items():
            curves[name] += value.tolist() if isinstance(value, np.ndarray) else [value] * run.steps.size
    return {"": _columns.from_rows(rows(listed), WHOLE), "-curves": _columns.Columns(curves)}


def _curve(lane: int, run: Trajectory) -> dict[str, Any]:
    """The columns of `curves` for one run: arrays, and values that are the same in each row."""
    texts = {"problem": run.problem, "optimizer": run.optimizer.name, "label": run.optimizer.label, "seed": run.seed}
    recorded = {"step": run.steps, "loss": run.loss, "grad_norm": run.grad_norm, "relative": run.relative}
    return {"lane": lane, **texts, **recorded}


def quartiles(runs: Trajectory | Iterable[Trajectory]) -> pd.DataFrame:
    """Quartiles of the steps to tol over draws.

    A run that did not reach tol counts as later than all that did; a quartile that falls on such a run is missing: it
    is above the largest `max_steps`.

    Parameters
    ----------
    runs : Trajectory, or a list of them

    Returns
    -------
    DataFrame
        One row for each problem and optimizer. ``ahead`` is the share of draws in which the optimizer needed fewer
        steps than the first optimizer of the same problem, among the draws in which at least one of the two reached
        tol. ``lr`` is absent where it differs between draws.

    Examples
    --------
    >>> runs = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()], seed=range(5))
    >>> qs.table.quartiles(runs)[["optimizer", "median_steps", "ahead"]].values.tolist()
    [['gd', 33069, nan], ['frozen-adam', 72, 1.0]]
    """
    import pandas as pd

    listed = _listed(runs, at_least=1)
    frame = summary(listed)
    if frame.duplicated(["problem", "optimizer", "seed"]).any():
        raise InputError("quartiles are over draws: give each optimizer once for each problem and seed")
    frame["steps"] = frame["steps_to_tol"].astype("Float64").fillna(np.inf).astype(float)
    parts = []
    for problem, of_problem in frame.groupby("problem", sort=False):
        first = of_problem["optimizer"].iloc[0]
        reference = of_problem[of_problem["optimizer"] == first].set_index("seed")["steps"]
        for optimizer, draws in of_problem.groupby("optimizer", sort=False):
            steps = draws.set_index("seed")["steps"]
            known = np.isfinite(steps) | np.isfinite(reference)
            row: dict[str, Any] = {"problem": problem, "minimizer": draws["minimizer"].iloc[0]}
            row |= {"optimizer": optimizer, "draws": len(draws), "reached": int(np.isfinite(steps).sum())}
            for status in (Status.DIVERGED, Status.UNDERFLOW):
                row[str(status)] = int((draws["status"] == status).sum())
            row["lr"] = draws["lr"].iloc[0] if draws["lr"].nunique() == 1 else None
            row["lr_from"] = draws["lr_from"].iloc[0]
            row["max_steps"], row["engine"] = int(draws["max_steps"].max()), draws["engine"].iloc[0]
            for name, value in quantiles.quartiles(steps, "nearest").items():
                row[f"{name}_steps"] = int(value) if np.isfinite(value) else None
            row["ahead"] = None if optimizer == first else float((steps < reference)[known].mean())
            parts.append(row)
    return pd.DataFrame(parts).astype({f"{name}_steps": "Int64" for name in quantiles.QUARTILES})


def bands(runs: Trajectory | Iterable[Trajectory], points: int = 400) -> pd.DataFrame:
    """Quartiles of ‖g‖/‖g₀‖ over draws at common steps; ended runs keep their last value.

    Runs that underflowed are excluded, unless all did: the gradients of Adam outside float64's range are spurious
    (ledger 5i).

    Parameters
    ----------
    runs : Trajectory, or a list of them
    points : int
        The number of evenly spaced steps; half as many log-spaced ones are added.

    Returns
    -------
    DataFrame
        One row for each problem, optimizer and step; the columns are problem, optimizer, label, step, lower, median,
        upper.

    Examples
    --------
    >>> runs = qs.solve(qs.case(3), [qs.GD(), qs.FrozenAdam()], seed=range(5))
    >>> qs.table.bands(runs, points=50).groupby("optimizer")["median"].min().round(7).to_dict()
    {'frozen-adam': 1e-06, 'gd': 1e-06}
    """
    return quantiles.bands(_listed(runs, at_least=1), points)


def _conditions(run: Trajectory) -> dict[str, Any]:
    """Noise and schedule, if the run has them."""
    noise = run.noise.columns() if run.noise.any else {}
    return noise | ({"schedule": str(run.schedule)} if run.schedule.changes else {})


def cell(value: object) -> object:
    """A setting as one cell of a table; learning rates by block are written as on the command line.

    Parameters
    ----------
    value : object

    Returns
    -------
    object
        Text for a tuple, any other value unchanged.

    Examples
    --------
    >>> qs.table.cell((0.5, 0.1)), qs.table.cell(0.5)
    ('0.5/0.1', 0.5)
    """
    return "/".join(repr(item) for item in value) if isinstance(value, tuple) else value
