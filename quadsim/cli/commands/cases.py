"""The four cases side by side over many draws: medians and quartiles, as in the figure of arXiv 2402.16788.

python -m quadsim cases seed=0..99
python -m quadsim cases case=3,4 kappa=100 optimizers=gd,adam max_steps=1e4
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim._format import compact
from quadsim.cli import outputs, reading
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
)
SETTINGS = True


def main(line: CommandLine) -> None:
    from quadsim.engine import conditions

    optimizers, options = reading.optimizers(line), conditions.from_keys(line.values)
    draws, seeds = reading.draws(line.values), line.values["seed"]
    from quadsim import plots
    from quadsim.engine import solver
    from quadsim.engine.table import bands, quartiles, summary

    reading.engines(optimizers, options)  # raises if an optimizer cannot run
    outputs.check_folder(line)
    runs: list[Trajectory] = []
    with counter("draws", len(draws) * len(seeds)) as show:
        for number, draw in enumerate(draws):

            def progress(count: int, before: int = number * len(seeds)) -> None:
                show(before + count)

            runs += solver.solve(draw, optimizers, seed=seeds, progress=progress, **options)
    tables = {"": quartiles(runs), "-draws": summary(runs), "-curves": bands(runs)}
    rows = outputs.records(tables[""])
    titles = {
        name: f"{name.capitalize()}: {_finding([row for row in rows if row['problem'] == name])}"
        for name in dict.fromkeys(row["problem"] for row in rows)
    }
    caption = f"{outputs.recorded_command(line)}: median of {len(seeds)} draws, quartiles shaded"
    figures = {  # linear steps, as published, and log-log
        mark: plots.panels(tables["-curves"], titles, caption=caption, tol=runs[0].tol, xscale=xscale)
        for mark, xscale in (("", "linear"), ("-log", "log"))
    }
    result: dict[str, Any] = {"seed": seeds, "cases": rows}
    outputs.save(line, figures, tables, result)
    outputs.report(line, result, lambda screen: screen.print(_table(rows)))


def _finding(rows: list[dict[str, Any]]) -> str:
    """The ratio of the first two medians; a bound if one of the optimizers did not reach tol."""
    if len(rows) < 2:
        return ""
    first, second = rows[:2]
    labels = {"gd": "GD", "frozen-adam": "Adam"}
    names = [labels.get(row["optimizer"], row["optimizer"]) for row in (first, second)]
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


def _table(rows: list[dict[str, Any]]) -> Any:
    names = ("problem", "optimizer")
    numbers = ("draws", "reached tol", "lower quartile", "median steps", "upper quartile", "ahead of the first")
    cells = []
    for row in rows:
        steps = [row[f"{quartile}_steps"] for quartile in ("lower", "median", "upper")]
        texts = [_not_reached(row) if count is None else f"{count:,}" for count in steps]
        ahead = "" if row["ahead"] is None else f"{row['ahead']:.0%}"
        cells.append([row["problem"], row["optimizer"], str(row["draws"]), str(row["reached"]), *texts, ahead])
    return table((*names, *numbers), cells, left=names, wrap=names)


def _not_reached(row: dict[str, Any]) -> str:
    """The cell of a quartile that falls among runs that did not reach tol."""
    failed = max(("diverged", "underflow"), key=lambda status: row[status])
    stopped = row["diverged"] + row["underflow"]  # before the last step
    late = row["draws"] - row["reached"] - stopped
    return failed if stopped > late else f"> {row['max_steps']:,}"
