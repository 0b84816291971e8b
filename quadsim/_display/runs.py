"""`Trajectory` and `Runs`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from quadsim._display import html, text
from quadsim._format import counted

MAX_ROWS = 10  # of a table, and curves of its figure


def run_text(run: Any) -> str:
    """<Trajectory of GD(lr=0.0004) on 'case 3', seed 0: converged at step 31657, …>"""
    seed = "" if run.seed is None else f", seed {run.seed}"
    values = [f"{name} {shown}" for name, shown in _values(run).items()]
    what = ", ".join([f"{run.status} at step {run.last_step}", *values])
    optimizer = repr(run.optimizer)
    if len(optimizer) > 120:
        optimizer = f"{run.optimizer.name}, lr {text.rate(run.lr)}"
    return f"<Trajectory of {optimizer} on {text.name(run.problem)}{seed}: {what} ({run.engine})>"


def _values(run: Any) -> dict[str, str]:
    """The last recorded gradient norm, relative to the first, and loss; also where they underflow."""
    if not run.steps.size:
        return {}
    decades = _decades(run)
    relative = text.from_log(decades[-1] * text.LN_10)
    return {"relative gradient": relative, "loss": text.from_log(float(run.log_loss[-1]))}


def _decades(run: Any) -> np.ndarray:
    """log10 of the gradient norm relative to the first."""
    first = run.log_grad_norm[0] if run.first_grad_norm is None else np.log(run.first_grad_norm)
    return np.asarray((run.log_grad_norm - first if np.isfinite(first) else run.log_grad_norm) / text.LN_10)


def run_html(run: Any) -> str:
    """Facts and the curve of a run."""
    noise, schedule = run.noise, run.schedule
    rows: dict[str, object] = {
        "optimizer": repr(run.optimizer),
        "learning rate": _rate(run),
        "seed": run.seed,
        "status": run.status,
        "last step": f"{run.last_step:,}",
        f"steps to tol = {run.tol:g}": "not reached" if run.steps_to_tol is None else f"{run.steps_to_tol:,}",
        **_values(run),
        "noise": repr(noise) if noise.any else None,
        "schedule": schedule if schedule.changes else None,
        "engine": run.engine,
    }
    if not run.tol:
        del rows[f"steps to tol = {run.tol:g}"]
    return html.card(html.escape(f"{run.optimizer.label} on {run.problem}"), html.facts(rows), _figure([run]))


def runs_text(runs: Sequence[Any]) -> str:
    """<Runs: 18 of gd, adam on 'case 3', seeds 0..8: 15 converged, 3 max-steps>"""
    if not runs:
        return "<Runs: none>"
    optimizers = text.listed(dict.fromkeys(run.optimizer.name for run in runs))
    problems = list(dict.fromkeys(run.problem for run in runs))
    where = text.name(problems[0]) if len(problems) == 1 else counted(len(problems), "problem")
    return f"<Runs: {len(runs)} of {optimizers} on {where}{_seeds(runs)}: {_statuses(runs)}>"


def _seeds(runs: Sequence[Any]) -> str:
    seeds = list(dict.fromkeys(run.seed for run in runs if run.seed is not None))
    return f", seed{'s' if len(seeds) > 1 else ''} {text.span(seeds)}" if seeds else ""


def _statuses(runs: Sequence[Any]) -> str:
    return ", ".join(f"{count} {status}" for status, count in Counter(str(run.status) for run in runs).items())


def runs_html(runs: Sequence[Any]) -> str:
    """A table of the first runs and their curves."""
    if not runs:
        return html.card("Runs: none")
    shown = runs[:MAX_ROWS]
    several = len({run.problem for run in runs}) > 1
    columns = ["optimizer", *(["problem"] if several else []), "seed", "lr", "status", "steps to tol", "last step"]
    rows = []
    for run in shown:
        steps = "" if run.steps_to_tol is None else f"{run.steps_to_tol:,}"
        seed = "" if run.seed is None else run.seed
        cells = [*([run.problem] if several else []), seed, _rate(run), run.status, steps, f"{run.last_step:,}"]
        values = _values(run)
        rows.append([run.optimizer.label, *cells, values.get("relative gradient", ""), values.get("loss", "")])
    table = html.table(
        [*columns, "rel. gradient", "loss"],
        rows,
        more=len(runs) - len(shown),
        colours=[html.colour(run.optimizer.colour) for run in shown],
    )
    where = "" if several else f" on {runs[0].problem}"
    title = html.escape(f"{counted(len(runs), 'run')}{where}: {_statuses(runs)}", 160)
    return html.card(title, table, _figure(shown))


def _rate(run: Any) -> str:
    """The learning rate, with its origin where it was not given."""
    origin = getattr(run, "lr_from", "given")
    return text.rate(run.lr) + (f" ({origin})" if origin != "given" else "")


def _figure(runs: Sequence[Any]) -> str:
    """Relative gradient norms against steps."""
    curves = []
    for run in runs:
        later = run.steps > 0  # a log axis has no zero
        x, y = np.log10(run.steps[later]), _decades(run)[later]
        kind = run.optimizer
        curves.append(html.Curve(x, y, html.colour(kind.colour), kind.stroke) if x.size else None)
    return html.curves([curve for curve in curves if curve is not None], "steps", "relative gradient")
