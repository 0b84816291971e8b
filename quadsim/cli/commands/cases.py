"""The four cases side by side over many draws: medians and quartiles, as in the figure of arXiv 2402.16788.

python -m quadsim cases seed=0..99
python -m quadsim cases optimizers=gd,frozen-adam,adam tune=true     rates tuned on other draws
python -m quadsim cases case=3,4 kappa=100 optimizers=gd,adam max_steps=1e4
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim._format import compact
from quadsim.cli import fair, outputs, reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter, table

if TYPE_CHECKING:
    from quadsim.engine.trajectory import Trajectory

_SHARED = keys.select("kappa", "rotation", "minimizer", "run", "out")
KEYS = keys.select(
    *_SHARED.values(),
    keys.KEYS["case"]._replace(several=True, default="1,2,3,4"),
    keys.KEYS["seed"]._replace(several=True, default="0..29"),
    keys.KEYS["optimizers"]._replace(default="gd,frozen-adam"),
    keys.KEYS["tol"]._replace(bounds={"above": 0, "below": 1}),
    *fair.KEYS,
)
SETTINGS = True
PANEL_WIDTH = 3.0  # inches, of a title


def main(line: CommandLine) -> None:
    from quadsim.engine import conditions

    choice, options = fair.read(line), conditions.from_keys(line.values)
    draws, seeds = reading.draws(line.values), line.values["seed"]
    from quadsim import plots
    from quadsim.engine import solver
    from quadsim.engine.table import bands, quartiles, summary
    from quadsim.problems import published

    reading.engines(choice.optimizers, options)  # raises if an optimizer cannot run
    outputs.check_folder(line)
    found = fair.tune_all(draws, choice, options)
    runs: list[Trajectory] = []
    with counter("draws", len(draws) * len(seeds)) as show_count:
        for number, (draw, tuned) in enumerate(zip(draws, found, strict=True)):

            def progress(count: int, before: int = number * len(seeds)) -> None:
                show_count(before + count)

            made = solver.solve(draw, tuned.optimizers, seed=seeds, progress=progress, **options)
            runs += fair.with_origins(made, tuned)
    tables = {"": quartiles(runs), "-draws": summary(runs), "-curves": bands(runs), **fair.tried(found)}
    rows = outputs.records(tables[""])
    titles = {
        name: f"{name.capitalize()}: {_finding([row for row in rows if row['problem'] == name])}"
        for name in dict.fromkeys(row["problem"] for row in rows)
    }
    by_origin = fair.labels_by_origin((run.optimizer.label, run.lr_from) for run in runs)
    medians = f"median of {len(seeds)} draws, quartiles shaded" if len(seeds) > 1 else "one draw"
    parts = [medians, fair.caption(by_origin, choice), *_diverged(rows)]
    caption = f"{outputs.recorded_command(line)}: {'; '.join(parts)}"
    figures = {  # linear steps, as published, and log-log
        mark: plots.panels(tables["-curves"], titles, caption=caption, tol=runs[0].tol, xscale=xscale)
        for mark, xscale in (("", "linear"), ("-log", "log"))
    }
    title = "; ".join(" ".join(text.split()) for text in titles.values())
    result: dict[str, Any] = {"title": title, "seed": seeds, "cases": rows, **fair.result(found, choice)}
    result["kappa_maps"] = list(reading.kappa_notes(draws, seeds))
    outputs.save(line, figures, tables, result)
    notes = [
        *result["kappa_maps"],
        *published.notes(list(titles)),
        *fair.notes(found, options["tol"]),
        fair.offer(line, by_origin),
    ]

    def show(screen: Any) -> None:
        screen.print(_table(rows))
        for note in filter(None, notes):
            screen.print(note, soft_wrap=True)

    outputs.report(line, result, show)


def _finding(rows: list[dict[str, Any]]) -> str:
    """The ratio of two medians, a bound if one of the optimizers did not reach tol.

    All medians, without a winner, of more optimizers, and where learning rates were not all chosen for the problem.
    """
    from quadsim.optimizers.lr_origin import is_fair

    if len(rows) < 2:
        return ""
    if len(rows) > 2 or not is_fair(row["lr_from"] for row in rows):
        return _medians(rows)
    first, second = rows
    names = [_name(row, rows) for row in rows]
    share = "" if second["ahead"] is None else f"{names[1]} ahead in {second['ahead']:.0%} of draws"
    for how, word in (("diverged", "diverged"), ("underflow", "underflowed")):
        gone = [name for name, row in zip(names, (first, second), strict=True) if row[how] > row["draws"] / 2]
        if gone:
            return f"{' and '.join(gone)} {word}\n{share}"
    if first["median_steps"] is None and second["median_steps"] is None:
        return f"neither within {min(row['max_steps'] for row in (first, second)):,} steps\n{share}"
    taken = [row["median_steps"] or row["max_steps"] for row in (first, second)]
    ratio = taken[0] / max(taken[1], 1)
    fold = max(ratio, 1 / ratio)
    bound = "" if first["median_steps"] and second["median_steps"] else "> "
    times = bound + compact(fold, math.inf)
    return f"{names[1]} {times}× {'faster' if ratio >= 1 else 'slower'} than {names[0]}\n{share}"


def _diverged(rows: list[dict[str, Any]]) -> list[str]:
    """`Adam (β2 = 1) diverged on 7 to 12 draws`, over the cases."""
    texts = []
    for name in dict.fromkeys(row["optimizer"] for row in rows):
        of = [row for row in rows if row["optimizer"] == name]
        low, high = (end(row["diverged"] for row in of) for end in (min, max))
        if high:
            count = f"{low} to {high}" if low < high else f"{high}"
            texts.append(f"{_name(of[0], rows)} diverged on {count} of {of[0]['draws']} draws")
    return texts


def _name(row: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    """The label in a title; frozen Adam is "Adam" where it is the only one."""
    from quadsim.optimizers import OPTIMIZERS

    alone = row["optimizer"] == "frozen-adam" and all(other["optimizer"] != "adam" for other in rows)
    return "Adam" if alone else OPTIMIZERS[row["optimizer"]].label


def _medians(rows: list[dict[str, Any]]) -> str:
    """`GD 31,657, Adam 5,169 at its default lr`, in lines as wide as a panel."""
    from quadsim.plots.text import wrapped

    parts = []
    for row in rows:
        median = row["median_steps"]
        mark = " at its default lr" if row["lr_from"] == "default" else ""
        steps = _not_reached(row) if median is None else f"{median:,}"
        parts.append(f"{_name(row, rows)} {steps}{mark}".replace(" ", "\u00a0"))
    return "\n".join(["median steps", *wrapped(", ".join(parts), PANEL_WIDTH, 9)])


def _table(rows: list[dict[str, Any]]) -> Any:
    names = ("problem", "optimizer")
    numbers = (
        "lr",
        "draws",
        "reached tol",
        "lower quartile",
        "median steps",
        "upper quartile",
        "ahead of the first",
    )
    cells = []
    for row in rows:
        steps = [row[f"{quartile}_steps"] for quartile in ("lower", "median", "upper")]
        texts = [_not_reached(row) if count is None else f"{count:,}" for count in steps]
        ahead = "" if row["ahead"] is None else f"{row['ahead']:.0%}"
        cells.append(
            [row["problem"], row["optimizer"], _lr(row), str(row["draws"]), str(row["reached"]), *texts, ahead]
        )
    return table((*names, *numbers), cells, left=names, wrap=names)


def _lr(row: dict[str, Any]) -> str:
    """The origin of the learning rate, and the rate if all draws have the same."""
    return f"{row['lr']:.3g} {row['lr_from']}" if isinstance(row["lr"], float) else str(row["lr_from"])


def _not_reached(row: dict[str, Any]) -> str:
    """The cell of a quartile that falls among runs that did not reach tol."""
    failed = max(("diverged", "underflow"), key=lambda status: row[status])
    stopped = row["diverged"] + row["underflow"]  # before the last step
    late = row["draws"] - row["reached"] - stopped
    return failed if stopped > late else f"> {row['max_steps']:,}"
