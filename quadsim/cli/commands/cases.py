"""The four cases side by side over many draws: medians and quartiles, as in the figure of arXiv 2402.16788.

python -m quadsim cases seed=0..99
python -m quadsim cases case=3,4 kappa=100 optimizers=gd,adam max_steps=1e4
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim._format import compact
from quadsim.cli import reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console, counter
from quadsim.cli.outputs import command_line, print_files, print_json, stem

if TYPE_CHECKING:
    import pandas as pd

KEYS = {
    **keys.select("kappa", "rotation", "minimizer", "run", "out"),
    "case": replace(keys.KEYS["case"], several=True, default="1,2,3,4"),
    "seed": replace(keys.KEYS["seed"], several=True, default="0..29"),
    "optimizers": replace(keys.KEYS["optimizers"], default="gd,frozen-adam"),
    "tol": replace(keys.KEYS["tol"], bounds={"above": 0, "below": 1}),
}
SETTINGS = True


def main(line: CommandLine) -> None:
    from quadsim.engine import conditions

    optimizers, options = reading.optimizers(line), conditions.from_keys(line.values)
    draws, seeds = reading.draws(line.values), line.values["seed"]
    from quadsim import _artifacts, plots
    from quadsim.engine import solver, table

    changing = options["noise"].any or options["schedule"].changes
    for optimizer in optimizers:
        solver.engine_for(optimizer, options["engine"], changing)
    folder = reading.folder(line)
    runs, names = [], []
    with counter("draws", len(draws) * len(seeds)) as show:
        for number, draw in enumerate(draws):
            done = solver.solve(
                draw,
                optimizers,
                seed=seeds,
                progress=lambda count: show(number * len(seeds) + count),  # noqa: B023
                **options,
            )
            names.append(done[0].problem)
            runs += list(done)
    quartiles = table.quartiles(runs)
    titles = {
        name: f"{name.capitalize()}: {_finding(_plain(quartiles[quartiles['problem'] == name]))}" for name in names
    }
    texts = line.recorded()
    caption = f"{command_line('cases', texts)}: median of {len(seeds)} draws, quartiles shaded"
    bands = table.bands(runs)
    figure = plots.panels(bands, titles, caption=caption, tol=runs[0].tol)
    result: dict[str, Any] = {"seed": seeds, "cases": _plain(quartiles)}
    settings = {"command": command_line("cases", texts), **result, "versions": _artifacts.versions()}
    tables = {"": quartiles, "-draws": table.summary(runs), "-curves": bands}
    result["files"] = [str(path) for path in _artifacts.write(folder, stem("cases", texts), figure, tables, settings)]
    if line.json:
        print_json(result)
    else:
        _show(quartiles, result["files"])


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows, with None for missing values."""
    return [
        {str(key): None if value is None or value != value else value for key, value in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


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


def _not_reached(row: dict[str, Any]) -> str:
    """In place of a quartile that falls among runs that did not reach tol."""
    failed = max(("diverged", "underflow"), key=lambda how: row[how])
    stopped = row["diverged"] + row["underflow"]  # before the last step
    late = row["draws"] - row["reached"] - stopped
    return failed if stopped > late else f"> {row['max_steps']:,}"


def _show(quartiles: pd.DataFrame, files: list[str]) -> None:
    from rich import box
    from rich.table import Table

    screen = console()
    shown = Table("problem", "optimizer", box=box.SIMPLE_HEAD)
    for column in ("draws", "reached tol", "lower quartile", "median steps", "upper quartile", "ahead of the first"):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in _plain(quartiles):
        cells = [
            _not_reached(row) if row[f"{q}_steps"] is None else f"{row[f'{q}_steps']:,}"
            for q in ("lower", "median", "upper")
        ]
        ahead = "" if row["ahead"] is None else f"{row['ahead']:.0%}"
        shown.add_row(row["problem"], row["optimizer"], str(row["draws"]), str(row["reached"]), *cells, ahead)
    screen.print(shown)
    print_files(files, screen)
