"""`plot`: what the axes of a sweep call for, drawn from its store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.request import DEFAULT_OPTIMIZERS
from quadsim.verbs.run import command, stem
from quadsim.verbs.screen import console
from quadsim.verbs.store import read_store

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.store import Store

OWN_KEYS = ("store", "x", "y", "out", "title")
RESULTS = (
    "steps_to_tol", "last_step", "loss", "grad_norm", "kappa_eff", "r", "js_distance", "predicted_rate",
    "measured_rate", "seconds",
)  # fmt: skip


def plot(words: Words) -> None:
    """`plot sweep.db`: steps to tolerance against what was swept; the figure, its medians and slopes."""
    path = read_store(words, (), "plot sweep.db", others=True)
    from quadsim import optimizers, plots, results
    from quadsim.store import Store

    keys = words.keys
    folder = Path(keys.get("out", "figures"))
    results.check_folder(folder)
    with Store(path) as store:
        frame, axes, sweeps = _read(store, keys)
    labels = {name: kind.label for name, kind in optimizers.OPTIMIZERS.items()}
    said = {key: text for key, text in keys.items() if key not in ("out", "store")}
    line = command("plot", {"store": path.name, **said})
    commands = [one["command"] for one in sweeps if one["command"]]
    how: dict[str, Any] = {"x": keys.get("x"), "y": keys.get("y", "steps_to_tol"), "labels": labels}
    try:
        figure = plots.sweep_figure(
            frame, axes=axes, title=keys.get("title"), caption=f"{commands[0] if len(commands) == 1 else line}.", **how
        )
        tables = {"": plots.medians(frame, axes, how["y"])}
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    result: dict[str, Any] = {"store": str(path), "axes": axes, "rows": len(frame)}
    if "kappa" in axes:
        slopes = plots.slopes(frame, axes, y=how["y"])
        tables["-slopes"] = slopes
        result["slopes"] = json.loads(slopes.to_json(orient="records"))
    settings = {"command": line, **result, "store": path.name, "sweeps": sweeps, "versions": results.versions()}
    name = path.stem if not said else f"{path.stem}-{stem('', said)}"
    result["files"] = [str(file) for file in results.write(folder, name, figure, tables, settings)]
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
        return
    _show(result)


def _read(store: Store, keys: dict[str, str]) -> tuple[pd.DataFrame, list[str], list[dict[str, Any]]]:
    """The rows that are asked for, in the columns that a figure needs; what varies among them."""
    there = store.columns()
    sweeps = store.sweeps()
    if not len(store):
        raise InputError(f"{store.path} has no rows yet")
    chosen = {}
    for key, text in keys.items():
        if key not in OWN_KEYS:
            column = {"optimizers": "optimizer"}.get(key, key.partition(".")[2] or key)
            chosen[checks.choice("key", column, [*there, *OWN_KEYS])] = grammar.alternatives(key, text)
    x, y = keys.get("x"), checks.choice("y", keys.get("y", "steps_to_tol"), [name for name in RESULTS if name in there])
    if x is not None:
        checks.choice("x", x, there)
    swept = list(dict.fromkeys(name for one in sweeps for name in one["swept"] if name in there))
    wanted = [*swept, "optimizer", "status", "tol", "kappa", "js_distance", "predicted_rate", "steps", "steps_to_tol",
              "seed", y, *([x] if x else []), *chosen]  # fmt: skip
    frame = store.frame([name for name in dict.fromkeys(wanted) if name in there])
    for column, texts in chosen.items():
        frame = frame[_among(frame[column], texts)]
        if frame.empty:
            raise InputError(f"{store.path} has no row with {column} {' or '.join(texts)}")
    if "optimizer" not in swept:
        swept.append("optimizer")
    axes = [name for name in swept if frame[name].nunique(dropna=True) > 1]
    return _in_order(frame, axes, sweeps), [*axes, *([x] if x and x not in axes else [])], sweeps


def _in_order(frame: pd.DataFrame, axes: list[str], sweeps: list[dict[str, Any]]) -> pd.DataFrame:
    """Numbers ascending, optimizers as they were named: figures keep the order in which things appear."""
    named = [name for one in sweeps for name in one["keys"].get("optimizers", DEFAULT_OPTIMIZERS).lower().split(",")]
    rank = {name: place for place, name in enumerate(dict.fromkeys(named))}
    numbers = [name for name in axes if frame[name].dtype != object]
    places = frame["optimizer"].map(rank).fillna(len(rank))
    return (
        frame.assign(_place=places)
        .sort_values(["_place", *numbers], kind="stable")
        .drop(columns="_place")
        .reset_index(drop=True)
    )


def _among(column: pd.Series, texts: list[str]) -> Any:
    if column.dtype == object:
        return column.isin(texts)
    return column.astype(float).isin([grammar.real(str(column.name), text) for text in texts])


def _show(result: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    screen = console()
    if result.get("slopes"):
        names = [name for name in result["slopes"][0] if name != "slope"]
        table = Table(*(name.replace("_", " ") for name in [*names, "slope in κ"]), box=box.SIMPLE_HEAD)
        for row in result["slopes"]:
            cells = [*(row[name] for name in names), row["slope"]]
            table.add_row(*("" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
                            for cell in cells))  # fmt: skip
        screen.print(table)
    for file in result["files"]:
        screen.print(f"wrote {file}", highlight=False, soft_wrap=True)
