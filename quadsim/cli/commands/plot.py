"""Draw the figure of a sweep from its store: results against what was swept, medians over seeds only.

  python -m quadsim plot sweep.db
  python -m quadsim plot sweep.db x=kappa y=loss optimizers=gd,adam adam.beta2=0.99

KEY=a,b and NAME.SETTING=a,b select rows (none: those without the key); ranges need not be complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quadsim import _parsing, keys
from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.cli import arguments, reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.cli.outputs import command_line, print_files, stem
from quadsim.cli.stores import MAX_LINE_SHOWN, STORE_KEY, print_damage, store_path
from quadsim.keys import DEFAULT_OPTIMIZERS, Key
from quadsim.sweeps.store import csv_table, json_text, printable

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from quadsim.sweeps.store import Store

OWN_KEYS = {
    "store": STORE_KEY,
    "x": Key("x", "text", "the horizontal axis: one that was swept", shape="AXIS"),
    "y": Key("y", "text", "the result (steps_to_tol)", shape="steps_to_tol|loss|…"),
    "title": Key("title", "text", "of the figure", shape="TEXT"),
    **keys.select("out"),
}
KEYS = {**keys.select("problem", "measured", "run"), **OWN_KEYS}
SETTINGS = True
NAMES = True
PARSE = False  # the other keys select rows
RESULTS = (
    "steps_to_tol", "last_step", "loss", "grad_norm", "kappa_eff", "r", "js_distance", "predicted_rate",
    "measured_rate", "seconds",
)  # fmt: skip
MAX_ROWS_SHOWN = 40  # slopes on the screen
MAX_ERROR_LINE = 180  # characters of an error message


def main(line: CommandLine) -> int:
    path = store_path(line)
    arguments.parse(line, OWN_KEYS)
    from quadsim import _artifacts, plots
    from quadsim.plots.aggregate import arrangement_counts, axes_of, fits, seeds
    from quadsim.plots.captions import arrangement_caption
    from quadsim.sweeps.store import Store

    keys = line.texts
    folder = reading.folder(line)
    with Store(path) as store:
        rows = _read(store, keys)
    chosen = {key: text for key, text in keys.items() if key not in ("out", "store")}
    command = command_line("plot", {"store": path.name, **chosen})
    commands = [printable(one["command"], MAX_LINE_SHOWN) for one in rows.sweeps if one["command"]]
    made = "; ".join([*(commands if len(commands) == 1 else []), *([command] if chosen or len(commands) != 1 else [])])
    try:
        table = plots.medians(rows.frame, rows.axes, rows.y)
        alike = [name for name in axes_of(table) if name != "optimizer" and table[name].nunique(dropna=False) == 1]
        table = table.drop(columns=alike)
        axes = axes_of(table)
        x = _horizontal(rows, table)
        figure = plots.sweep_figure(
            rows.frame,
            axes=axes,
            x=x,
            y=rows.y,
            title=keys.get("title"),
            caption=f"{made}.",
        )
        tables = {"": table}
    except ValueError as error:
        raise InputError(_cut(f"{path}: {error}")) from None
    result: dict[str, Any] = {
        "store": str(path),
        "axes": [name for name in axes if name != "optimizer" or table[name].nunique() > 1],
        "rows": len(rows.frame),
        "settings": len(table),
        "aggregated": {"over": "seed", "fewest": int(table["draws"].min()), "most": int(table["draws"].max())},
        **({"heterogeneity": arrangement_counts(rows.frame)} if "heterogeneity" in axes else {}),
    }
    if "kappa" in result["axes"]:
        tables["-slopes"] = slopes = fits(table, "kappa")
        result["slopes"] = json.loads(slopes.to_json(orient="records"))
    settings = {
        "command": command,
        **result,
        "store": path.name,
        "sweeps": rows.sweeps,
        "versions": _artifacts.versions(),
    }
    name = path.stem if not chosen else f"{path.stem}-{stem('', chosen)}"
    safe = {mark: csv_table(table) for mark, table in tables.items()}
    result["files"] = [str(file) for file in _artifacts.write(folder, name, figure, safe, settings)]
    if line.json:
        print(json_text(result, indent=2))
        return print_damage(store)
    counted = f"{len(table):,} setting{'' if len(table) == 1 else 's'}, medians over {seeds(table)}"
    _show(result, [counted, arrangement_caption(table, rows.frame), *re.findall(r"Not drawn[^.]*\.", _caption(figure))])
    return print_damage(store)


@dataclass(frozen=True)
class _Rows:
    """The rows to draw, the axes that were swept, in order, and what is asked for."""

    path: Path
    frame: pd.DataFrame
    axes: list[str]
    x: str | None
    y: str
    sweeps: list[dict[str, Any]]


def _read(store: Store, keys: dict[str, str]) -> _Rows:
    """The rows that are asked for: every setting in which they differ, and the results that a figure needs."""
    from quadsim.plots.aggregate import ORIGINS
    from quadsim.sweeps import axes

    there, sweeps = store.columns(), store.sweeps()
    if not len(store):
        raise InputError(f"{store.path} has no rows yet")
    selectors = {key: _column(key, there) for key in keys if key not in OWN_KEYS}
    x, y = keys.get("x"), checks.choice("y", keys.get("y", "steps_to_tol"), [name for name in RESULTS if name in there])
    if x is not None:
        x = _column(x, there, "x")
    settings = [name for name in store.varying() if name not in axes.RESULTS]
    wanted = [*settings, "optimizer", "seed", "tol", "status", "last_step", "steps_to_tol", "predicted_rate",
              "js_distance", "arrangement", "arrangements", y, *selectors.values()]  # fmt: skip
    frame = store.frame([name for name in dict.fromkeys([*wanted, *ORIGINS.values()]) if name in there])
    for name, usual in axes.COLUMN_DEFAULTS.items():  # rows of merged stores may leave out what is usual
        if name in frame:
            frame[name] = frame[name].where(frame[name].notna(), usual)
    for column in set(selectors.values()) - set(frame):  # no row has the key
        frame = frame.assign(**{column: axes.COLUMN_DEFAULTS.get(column)})
    for key, column in selectors.items():
        frame = _select(store.path, frame, key, column, keys[key])
    swept = dict.fromkeys(name for one in sweeps for name in one["swept"] if name in frame)
    varied = [name for name in swept if name != "optimizer" and frame[name].nunique(dropna=False) > 1]
    return _Rows(store.path, _in_order(frame, varied, sweeps), varied, x, y, sweeps)


def _horizontal(rows: _Rows, table: pd.DataFrame) -> str | None:
    """The axis that x= names, if it was swept."""
    from quadsim.plots.aggregate import axes_of, free_name, numbers

    if rows.x is None:
        return None
    x, swept = free_name(rows.x), axes_of(table)
    allowed = ", ".join(numbers(table, swept)) or "none"
    if x not in swept:
        raise ValueError(f"x={rows.x} was not swept in these rows: choose from {allowed}")
    if x not in numbers(table, swept):
        raise ValueError(f"x must be an axis of numbers, got {rows.x}: choose from {allowed}")
    return x


def _column(key: str, there: list[str], what: str = "key") -> str:
    """The column that a key stands for: its own name, or an optimizer's setting under the name that a store has."""
    from quadsim.sweeps import axes

    owner, dot, setting = key.partition(".")
    column = "optimizer" if key == "optimizers" else key
    if dot and owner and key not in (*keys.AXES, *there):
        column = axes.column(owner, setting)
        known = [name for name in there if name == "lr" or name not in (*axes.SETTINGS, *axes.RESULTS)]
        if column not in known:
            checks.choice(f"setting of {owner}", setting, [name.partition(".")[2] or name for name in known])
    settings = [name for name in there if name not in axes.RESULTS]
    if what == "key":
        return checks.choice(what, column, [*dict.fromkeys([*settings, *keys.AXES, *there]), *OWN_KEYS])
    return checks.choice(what, column, there if column in there else settings)


def _select(path: Path, frame: pd.DataFrame, key: str, column: str, text: str) -> pd.DataFrame:
    """The rows with one of the values that the text lists; NAME.SETTING leaves the rows of other optimizers.

    Each value of a list must be in some row. Ranges (``0..29``, ``1:100:log9``) need not be complete.
    """
    owner, dot, _ = key.partition(".")
    is_setting = bool(dot) and key not in keys.AXES
    mine = frame["optimizer"].eq(owner).to_numpy(dtype=bool) if is_setting else np.ones(len(frame), dtype=bool)
    if not mine.any():
        raise InputError(f"{path} has no rows of {owner}: it has {', '.join(frame['optimizer'].unique())}")
    values = _values(key, column, text)
    is_range = isinstance(values, range) or ":" in text or ".." in text
    chosen = np.zeros(len(frame), dtype=bool)
    for some in [values] if is_range else [[value] for value in values]:
        found = _among(frame, key, column, some) & mine
        if not found.any():
            told = text if is_range else "none" if some[0] is None else _shown(some[0])
            raise _none_left(path, key if is_setting else column, told, frame.loc[mine, column])
        chosen |= found
    return frame[chosen | ~mine].reset_index(drop=True)


def _none_left(path: Path, key: str, told: str, column: pd.Series) -> InputError:
    values = column.drop_duplicates()
    there = sorted(values.dropna(), key=lambda value: (isinstance(value, str), value))
    shown = [*map(_shown, there), *(["none"] if values.isna().any() else [])]
    return InputError(_cut(f"{path} has no row with {key} {told}: it has {', '.join(shown)}"))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _values(key: str, column: str, text: str) -> Sequence[Any]:
    """The values that a text lists, written as for a sweep: `none,3`, `0..4`, `1:9:lin3`."""
    from quadsim.sweeps import axes

    if column == "seed" and ".." in text:
        return axes.seeds(text)  # a range, of up to 10⁹ seeds
    if column in keys.AXES:
        return [keys.column(value) for value in axes.values(column, text)]
    return [_plain(one) for one in _parsing.alternatives(key, text)]


def _among(frame: pd.DataFrame, key: str, column: str, values: Sequence[Any]) -> np.ndarray:
    """Where a column has one of the values."""
    import pandas as pd

    from quadsim.plots.aggregate import ORIGINS
    from quadsim.sweeps import axes

    given = frame[column]
    if isinstance(values, range):
        return given.between(values[0], values[-1]).to_numpy(dtype=bool, na_value=False)
    absent = given.isna()
    if column in axes.COLUMN_DEFAULTS:
        absent |= given.eq(axes.COLUMN_DEFAULTS[column])
    if ORIGINS.get(column) in frame:
        absent |= frame[ORIGINS[column]].isin(["theory", "default", "spectrum"])
    texts = [str(value).lower().replace("_", "-") if column == "optimizer" else str(value) for value in values]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if pd.api.types.is_numeric_dtype(given):
        wrong = [value for value in values if isinstance(value, str)]
        if wrong:
            _parsing.real(key, wrong[0])
        chosen = given.astype("Float64").isin(numbers)
    else:
        chosen = given.astype(str).isin(texts) | pd.to_numeric(given, errors="coerce").isin(numbers)
    chosen &= given.notna()
    return (chosen | (absent & (None in values))).to_numpy(dtype=bool)


def _cut(sentence: str) -> str:
    return sentence if len(sentence) <= MAX_ERROR_LINE else sentence[: MAX_ERROR_LINE - 1] + "…"


def _plain(text: str) -> Any:
    """A setting's text as a store has it: None, a number (1 for true) or the text."""
    words = {"none": None, "true": 1, "false": 0}
    if text.lower() in words:
        return words[text.lower()]
    return _parsing.real("value", text) if _parsing.NUMBER.fullmatch(text) else text


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


def _caption(figure: Figure) -> str:
    return str(figure.get_supxlabel()).replace("\n", " ")


def _show(result: dict[str, Any], notes: list[str]) -> None:
    from rich import box
    from rich.table import Table

    screen = console()
    for note in filter(None, notes):
        screen.print(printable(note, MAX_LINE_SHOWN), highlight=False, soft_wrap=True)
    if result.get("slopes"):
        names = [name for name in result["slopes"][0] if name != "slope"]
        headings = [printable(name.replace("_", " ")) for name in [*names, "slope in κ"]]
        table = Table(*headings, box=box.SIMPLE_HEAD)
        for row in result["slopes"][:MAX_ROWS_SHOWN]:
            table.add_row(*(_cell(name, row[name]) for name in [*names, "slope"]))
        screen.print(table)
        if len(result["slopes"]) > MAX_ROWS_SHOWN:
            screen.print(f"{MAX_ROWS_SHOWN} of {len(result['slopes']):,} slopes: the table has all", highlight=False)
    print_files(result["files"], screen)


def _cell(name: str, value: Any) -> str:
    from quadsim.plots.aggregate import CONDITIONS

    if value is None:
        return "none" if name in CONDITIONS else "–"
    return f"{value:.4g}" if isinstance(value, float) else printable(value)
