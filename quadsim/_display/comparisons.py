"""`Comparison` and `Tuned`."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim._display import html, text
from quadsim._format import compact, counted, signed_decades, tuned_or_given

MAX_ROWS = 30  # of a table
OBJECTIVES = {"final-loss": "final loss", "steps-to-tol": "steps to tol", "mean-log-loss": "mean of log10 loss"}


def comparison_text(comparison: Any) -> str:
    """The protocol, and a line for each optimizer: its learning rate, its result and the verdict."""
    protocol = comparison.protocol
    seeds = counted(len(comparison.seeds), "seed")
    first = (
        f"Comparison on {text.name(comparison.problem)}: {protocol.objective}, {seeds}, max_steps {protocol.max_steps}"
    )
    if _all_failed(comparison):
        first += "; no run has a result, so there is nothing to compare"
    rows = []
    for row in comparison.summary.to_dict("records"):
        verdict = "reference" if row["optimizer"] == comparison.reference else row["verdict"]
        given = ", lr given" if row["given"] else ""
        rows.append(f"{text.one_line(row['optimizer'], 24)}: {text.number(row['median'])}, {verdict}{given}")
    return text.lines(first, rows)


def comparison_html(comparison: Any) -> str:
    """The table of verdicts."""
    protocol = comparison.protocol
    columns = [
        "optimizer",
        "lr",
        OBJECTIVES[protocol.objective],
        "quartiles",
        "difference",
        "interval",
        "p",
        "wins",
        "verdict",
    ]
    rows, frame = [], comparison.summary
    for row in frame.head(MAX_ROWS).to_dict("records"):
        is_reference = row["optimizer"] == comparison.reference
        lr = text.number(row["lr"]) if isinstance(row["lr"], float) else "by block"
        lr += " × best" if row["factor"] else ""
        lr += " (given)" if row["given"] else ""
        settings = f", {row['settings']}" if row["settings"] else ""
        result = [compact(row["median"]), f"{compact(row['lower'])} to {compact(row['upper'])}"]
        versus = ["", "", "", ""]
        if not is_reference and not _all_failed(comparison):
            known = np.isfinite([row["low"], row["high"]]).any()
            interval = f"{signed_decades(row['low'])} to {signed_decades(row['high'])}" if known else "–"
            versus = [signed_decades(row["difference"]), interval, compact(row["p_adjusted"]), f"{row['wins']:.0%}"]
        edge = f" ({row['edge']} tried)" if row["edge"] else ""
        rows.append(
            [row["label"], lr + edge + settings, *result, *versus, "reference" if is_reference else row["verdict"]]
        )
    level, comparisons = f"{comparison.level:.0%}", counted(comparison.comparisons, "comparison")
    origins = tuned_or_given(f"tuned on {len(comparison.tuning_seeds)} others", comparison.given, len(frame))
    footer = (
        f"Medians over {len(comparison.seeds)} seeds; {origins}. "
        f"Difference: median of the paired differences to {comparison.reference} in decades, negative where better, "
        f"with its {level} interval; p of a sign test, corrected for {comparisons}."
    )
    if _all_failed(comparison):
        footer = "No run has a result, so there is nothing to compare."
    limit = f"max_steps = {protocol.max_steps:,}"
    title = html.escape(f"{comparison.problem}: {OBJECTIVES[protocol.objective]}, {limit}", 160)
    colours = _colours(comparison)
    table = html.table(columns, rows, more=max(len(frame) - MAX_ROWS, 0), colours=colours)
    return html.card(title, table, html.note(footer))


def _all_failed(comparison: Any) -> bool:
    return not np.isfinite(comparison.runs["score"].to_numpy(dtype=float)).any()


def _colours(comparison: Any) -> list[str]:
    tuned = comparison.tuned
    return [html.colour(tuned[name].optimizer.colour) for name in comparison.summary["optimizer"]]


def tuned_text(tuned: Any) -> str:
    """<Tuned adam on 'case 3': lr 0.37, median final-loss 10^0.9; 23 settings tried>"""
    settings = ", ".join(f"{name} {value}" for name, value in _settings(tuned).items())
    where = f" on {text.name(tuned.problem)}" if tuned.problem else ""
    return f"<Tuned {tuned.optimizer.name}{where}: {settings}; {_result(tuned)}>"


def _settings(tuned: Any) -> dict[str, str]:
    """The best settings as text."""
    names = {"lr": "factor on the best lr"} if tuned.factor else {}
    return {names.get(name, name): text.setting(value) for name, value in tuned.settings.items()}


def _result(tuned: Any) -> str:
    """How good the best setting is, and what limits the choice."""
    if tuned.given:
        return "given, not tuned"
    best = tuned.tried.loc[tuned.tried["best"].astype(bool), "median"]
    median = float(best.iloc[0])
    value = text.number(median) if tuned.objective == "mean-log-loss" else text.from_log(median * text.LN_10)
    parts = [f"median {tuned.objective} {value}", f"{counted(len(tuned.tried), 'setting')} tried"]
    if tuned.edge:
        parts.append(f"{tuned.edge} learning rate tried")
    if tuned.failed:
        parts[0] = f"all settings failed ({tuned.failed})"
    return ", ".join(parts)


def tuned_html(tuned: Any) -> str:
    """The best settings, and the objective against the learning rate."""
    rows: dict[str, object] = {**_settings(tuned)}
    rows |= {"objective": OBJECTIVES[tuned.objective], "result": _result(tuned)}
    figure = "" if tuned.given else _sensitivity(tuned)
    title = f"{tuned.optimizer.label}, tuned{f' on {tuned.problem}' if tuned.problem else ''}"
    return html.card(html.escape(title, 160), html.facts(rows), figure)


def _sensitivity(tuned: Any) -> str:
    curve = tuned.curve()
    x, y = np.log10(curve["lr"].to_numpy(dtype=float)), curve["median"].to_numpy(dtype=float)
    finite = y[np.isfinite(y)]
    if not finite.size:
        return ""
    y = np.where(y <= finite.min() + 30, y, np.nan)  # a learning rate slightly too large may end 100 decades higher
    mark = int(np.argmax(curve["best"].to_numpy(dtype=bool)))
    colour = html.colour(tuned.optimizer.colour)
    xlabel = "factor on the best learning rates" if tuned.factor else "learning rate"
    return html.curves([html.Curve(x, y, colour, mark=mark)], xlabel, OBJECTIVES[tuned.objective])
