"""`cases`: the four cases side by side, over many draws: the figure of arXiv 2402.16788, with quartiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.problem import MINIMIZERS
from quadsim.request import CONDITION_KEYS, case_number, read_conditions, read_optimizers, read_steps
from quadsim.verbs.run import command, stem
from quadsim.verbs.screen import console, counter

if TYPE_CHECKING:
    import pandas as pd

KEYS = (
    "case", "seeds", "kappa", "rotation", "minimizer", "optimizers", "rules", "steps", "tol", "engine", "out",
    *CONDITION_KEYS,
)  # fmt: skip


def cases(words: Words) -> None:
    """`cases seeds=100`: medians and quartiles for GD and Adam (β2 = 1) in every case; the figure, the tables."""
    keys = grammar.only(words, KEYS, "cases seeds=100", settings=True)
    tol = checks.real("tol", grammar.real("tol", keys.get("tol", "1e-6")), above=0, below=1)
    steps = read_steps(keys)
    seeds = grammar.seeds("seeds", keys.get("seeds", "30"))
    kappa = grammar.real("kappa", keys["kappa"]) if "kappa" in keys else None
    rotation = grammar.real("rotation", keys.get("rotation", "1"))
    minimizer = checks.choice("minimizer", keys.get("minimizer", "gaussian"), MINIMIZERS)
    numbers = [case_number(text) for text in grammar.several("case", keys.get("case", "1,2,3,4"))]
    if len(set(numbers)) < len(numbers):
        raise InputError(f"case={keys['case']} names a case twice")
    optimizers, conditions = read_optimizers({"optimizers": "gd,frozen-adam", **keys}), read_conditions(keys)
    folder = Path(keys.get("out", "figures"))
    from quadsim import cases as published
    from quadsim import plots, results, solver, table

    changing = conditions["noise"].any or conditions["schedule"].changes
    for optimizer in optimizers:
        solver.engine_for(optimizer, keys.get("engine"), changing)
    results.check_folder(folder)
    runs, names = [], []
    with counter("draws", len(numbers) * len(seeds)) as show:
        for place, number in enumerate(numbers):
            done = solver.solve_draws(
                lambda seed: published.case(
                    number,  # noqa: B023
                    seed=seed,
                    kappa=kappa,
                    rotation=rotation,
                    minimizer=minimizer,
                ),
                optimizers,
                seeds,
                max_steps=steps,
                tol=tol,
                engine=keys.get("engine"),
                **conditions,
                progress=lambda count: show(place * len(seeds) + count),  # noqa: B023
            )
            names.append(done[0].problem)
            runs += list(done)
    told = table.quartiles(runs)
    titles = {name: f"{name.capitalize()}: {_finding(_plain(told[told['problem'] == name]))}" for name in names}
    said = {key: text for key, text in keys.items() if key != "out"}
    caption = f"{command('cases', said)}: median of {len(seeds)} draws, quartiles shaded"
    bands = table.bands(runs)
    figure = plots.panels(bands, titles, caption=caption, tol=tol)
    result: dict[str, Any] = {"seeds": seeds, "cases": _plain(told)}
    settings = {"command": command("cases", said), **result, "versions": results.versions()}
    tables = {"": told, "-draws": table.summary(runs), "-curves": bands}
    result["files"] = [str(path) for path in results.write(folder, stem("cases", said), figure, tables, settings)]
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(told, result["files"])


def _plain(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows with None for what is absent."""
    return [
        {str(key): None if value is None or value != value else value for key, value in row.items()}
        for row in frame.astype(object).where(frame.notna(), None).to_dict("records")
    ]


def _finding(told: list[dict[str, Any]]) -> str:
    """What the medians say of the second optimizer beside the first; a bound, if one of them did not finish."""
    if len(told) < 2:
        return ""
    first, second = told[:2]
    who = {"gd": "GD", "frozen-adam": "Adam"}
    names = [who.get(row["optimizer"], row["optimizer"]) for row in (first, second)]
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
    times = f"{bound}{fold:.2g}" if fold < 10 else f"{bound}{fold:,.0f}"
    return f"{names[1]} {times}× {'faster' if ratio >= 1 else 'slower'} than {names[0]}\n{share}"


def _never(row: dict[str, Any]) -> str:
    """What stands in the place of a quartile among runs that did not arrive."""
    failed = max(("diverged", "underflow"), key=lambda how: row[how])
    stopped = row["diverged"] + row["underflow"]  # before the last step
    late = row["draws"] - row["reached"] - stopped
    return failed if stopped > late else f"> {row['max_steps']:,}"


def _show(told: pd.DataFrame, files: list[str]) -> None:
    from rich import box
    from rich.table import Table

    screen = console()
    shown = Table("problem", "optimizer", box=box.SIMPLE_HEAD)
    for column in ("draws", "reached tol", "lower quartile", "median steps", "upper quartile", "ahead of the first"):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in _plain(told):
        cells = [
            _never(row) if row[f"{q}_steps"] is None else f"{row[f'{q}_steps']:,}" for q in ("lower", "median", "upper")
        ]
        ahead = "" if row["ahead"] is None else f"{row['ahead']:.0%}"
        shown.add_row(row["problem"], row["optimizer"], str(row["draws"]), str(row["reached"]), *cells, ahead)
    screen.print(shown)
    for path in files:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
