"""Draw the figure of a sweep from its store: results against what was swept, medians over seeds only.

  python -m quadsim plot sweep.db
  python -m quadsim plot sweep.db x=kappa y=loss optimizers=gd,adam adam.beta2=0.99

KEY=a,b and NAME.SETTING=a,b select rows (none: those without the key); ranges need not be complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import _parsing, keys
from quadsim import _validation as checks
from quadsim._format import counted
from quadsim._validation import InputError
from quadsim.cli import arguments, outputs, stores
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import table as console_table
from quadsim.keys import DEFAULT_OPTIMIZERS, Key
from quadsim.sweeps.store.text import csv_table, printable

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from quadsim.sweeps.store.database import Store

OWN_KEYS = keys.select(
    stores.STORE_KEY,
    Key("x", "text", "the horizontal axis: one that was swept", shape="AXIS", names="axes"),
    Key("y", "text", "the result (steps_to_tol)", shape="steps_to_tol|loss|…", names="results"),
    Key("title", "text", "of the figure", shape="TEXT"),
    keys.KEYS["out"],
)
KEYS = {**keys.select("problem", "measured", "run"), **OWN_KEYS}
SETTINGS = True
NAMES = True
PARSE = False  # the other keys select rows
NOT_DRAWN = ("status", "dim", "max_block_kappa", "arrangement", "arrangements", "error")  # results
MAX_ROWS_SHOWN = 40  # slopes on the screen


def main(line: CommandLine) -> int:
    path = stores.store_path(line)
    arguments.parse(line, OWN_KEYS)
    from quadsim import plots
    from quadsim.plots.aggregate import arrangement_counts, axes_of, fits, seeds
    from quadsim.plots.captions import arrangement_caption
    from quadsim.sweeps.store.database import Store

    outputs.check_folder(line)
    with Store(path) as store:
        frame, varied, sweeps, x, y = _read(store, line.texts)
    chosen = {key: text for key, text in line.texts.items() if key not in ("out", "store")}
    command = outputs.command_line("plot", {"store": path.name, **chosen})
    made_by = [printable(sweep["command"], stores.MAX_LINE_SHOWN) for sweep in sweeps if sweep["command"]]
    if len(made_by) != 1:
        made_by = [command]
    elif chosen:
        made_by.append(command)
    try:
        table = plots.medians(frame, varied, y)
        constant = [name for name in axes_of(table) if name != "optimizer" and table[name].nunique(dropna=False) == 1]
        table = table.drop(columns=constant)
        axes, x = axes_of(table), _horizontal(x, table)
        title, caption = line.texts.get("title"), f"{'; '.join(made_by)}."
        figure: Any = plots.sweep_figure(frame, axes=axes, x=x, y=y, title=title, caption=caption)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from None
    result: dict[str, Any] = {
        "store": str(path),
        "axes": [name for name in axes if name != "optimizer" or table[name].nunique() > 1],
        "rows": len(frame),
        "settings": len(table),
        "aggregated": {"over": "seed", "fewest": int(table["draws"].min()), "most": int(table["draws"].max())},
        **({"heterogeneity": arrangement_counts(frame)} if "heterogeneity" in axes else {}),
    }
    tables = {"": table}
    if "kappa" in result["axes"]:
        tables["-slopes"] = slopes = fits(table, "kappa")
        result["slopes"] = json.loads(slopes.to_json(orient="records"))
    name = f"{path.stem}-{outputs.stem('', chosen)}" if chosen else path.stem
    safe = {mark: csv_table(values) for mark, values in tables.items()}
    outputs.save(line, figure, safe, result, name=name, command=command, store=path.name, sweeps=sweeps)
    settings = f"{counted(len(table), 'setting')}, medians over {seeds(table)}"
    not_drawn = re.findall(r"Not drawn[^.]*\.", str(figure.get_supxlabel()).replace("\n", " "))
    notes = [settings, arrangement_caption(table, frame), *not_drawn]
    outputs.report(line, result, lambda screen: _show(screen, notes, result.get("slopes", [])))
    return stores.print_damage(store)


def _read(store: Store, texts: dict[str, str]) -> tuple[Any, ...]:
    """The selected rows, the swept axes in which they differ, the sweeps of the store, x and y."""
    from quadsim.sweeps.axes import COLUMN_DEFAULTS, RESULTS

    stored, sweeps = store.columns(), store.sweeps()
    if not len(store):
        raise InputError(f"{store.path} has no rows yet")
    selectors = {key: _column(key, stored) for key in texts if key not in OWN_KEYS}
    drawn = [name for name in RESULTS if name in stored and name not in NOT_DRAWN]
    y = checks.choice("y", texts.get("y", "steps_to_tol"), drawn)
    x = _column(texts["x"], stored, "x") if "x" in texts else None
    frame = store.frame(stores.columns_for_medians(store, y, *selectors.values()))
    for name, default in COLUMN_DEFAULTS.items():  # rows of merged stores may leave out defaults
        if name in frame:
            frame[name] = frame[name].where(frame[name].notna(), default)
    for column in set(selectors.values()) - set(frame):  # no row has the key
        frame = frame.assign(**{column: COLUMN_DEFAULTS.get(column)})
    for key, column in selectors.items():
        frame = _select(store.path, frame, key, column, texts[key])
    swept = dict.fromkeys(name for sweep in sweeps for name in sweep["swept"] if name in frame)
    varied = [name for name in swept if name != "optimizer" and frame[name].nunique(dropna=False) > 1]
    return _in_order(frame, varied, sweeps), varied, sweeps, x, y


def _horizontal(name: str | None, table: pd.DataFrame) -> str | None:
    """The axis that x= names, if it was swept."""
    from quadsim.plots.aggregate import axes_of, free_name, numbers

    if name is None:
        return None
    x, allowed = free_name(name), numbers(table)
    if x not in allowed:
        not_numbers, not_swept = f"x must be an axis of numbers, got {name}", f"x={name} was not swept in these rows"
        problem = not_numbers if x in axes_of(table) else not_swept
        raise ValueError(f"{problem}: choose from {', '.join(allowed) or 'none'}")
    return x


def _column(key: str, stored: list[str], what: str = "key") -> str:
    """The column of a key: its name, or for an optimizer's setting the name that it has in the store."""
    from quadsim.sweeps import axes

    owner, dot, setting = key.partition(".")
    column = "optimizer" if key == "optimizers" else key
    if dot and owner and key not in (*keys.AXES, *stored):
        column = axes.column(owner, setting)
        known = [name for name in stored if name == "lr" or name not in (*axes.SETTINGS, *axes.RESULTS)]
        if column not in known:
            checks.choice(f"setting of {owner}", setting, [name.partition(".")[2] or name for name in known])
    settings = [name for name in stored if name not in axes.RESULTS]
    if what == "key":
        return checks.choice(what, column, [*dict.fromkeys([*settings, *keys.AXES, *stored]), *OWN_KEYS])
    return checks.choice(what, column, stored if column in stored else settings)


def _select(path: Path, frame: pd.DataFrame, key: str, column: str, text: str) -> pd.DataFrame:
    """The rows with one of the listed values; NAME.SETTING keeps all rows of other optimizers.

    Each value of a list must be in some row. Ranges (``0..29``, ``1:100:log9``) need not be complete.
    """
    import numpy as np

    owner, dot, _ = key.partition(".")
    is_setting = bool(dot) and key not in keys.AXES
    concerned = frame["optimizer"].eq(owner).to_numpy(dtype=bool) if is_setting else np.ones(len(frame), dtype=bool)
    if not concerned.any():
        raise InputError(f"{path} has no rows of {owner}: it has {', '.join(frame['optimizer'].unique())}")
    values = _values(key, column, text)
    is_range = ":" in text or ".." in text
    chosen = ~concerned
    for some in [values] if is_range else [[value] for value in values]:
        matches = _among(frame, key, column, some) & concerned
        if not matches.any():
            present = frame.loc[concerned, column].drop_duplicates()
            listed = sorted(present.dropna(), key=lambda value: (isinstance(value, str), value))
            allowed = ", ".join(map(_shown, [*listed, *([None] if present.isna().any() else [])]))
            missing = f"{key if is_setting else column} {text if is_range else _shown(some[0])}"
            raise InputError(f"{path} has no row with {missing}: it has {allowed}")
        chosen |= matches
    return frame[chosen].reset_index(drop=True)


def _shown(value: Any) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _values(key: str, column: str, text: str) -> Sequence[Any]:
    """The listed values, written as for a sweep: `none,3`, `0..4`, `1:9:lin3`."""
    from quadsim.sweeps import axes

    if column == "seed" and ".." in text:
        return axes.seeds(text)  # a range, of up to 10⁹ seeds
    if column in keys.AXES:
        return [keys.column(value) for value in axes.values(column, text)]
    return [_stored(item) for item in _parsing.alternatives(key, text)]


def _stored(text: str) -> Any:
    """The value of a setting in a store: None, a number (1 for true) or the text."""
    constants = {"none": None, "true": 1, "false": 0}
    if text.lower() in constants:
        return constants[text.lower()]
    return _parsing.real("value", text) if _parsing.NUMBER.fullmatch(text) else text


def _among(frame: pd.DataFrame, key: str, column: str, values: Sequence[Any]) -> np.ndarray:
    """Where a column has one of the values."""
    import pandas as pd

    from quadsim.plots.aggregate import ORIGINS
    from quadsim.sweeps.axes import COLUMN_DEFAULTS

    given = frame[column]
    if isinstance(values, range):
        return given.between(values[0], values[-1]).to_numpy(dtype=bool, na_value=False)
    absent = given.isna()
    if column in COLUMN_DEFAULTS:
        absent |= given.eq(COLUMN_DEFAULTS[column])
    if ORIGINS.get(column) in frame:
        absent |= frame[ORIGINS[column]].isin(["theory", "default", "spectrum"])
    texts = [str(value).lower().replace("_", "-") if column == "optimizer" else str(value) for value in values]
    numbers = [float(value) for value in values if isinstance(value, int | float)]
    if pd.api.types.is_numeric_dtype(given):
        for value in values:
            if isinstance(value, str):
                _parsing.real(key, value)  # raises
        chosen = given.astype("Float64").isin(numbers)
    else:
        chosen = given.astype(str).isin(texts) | pd.to_numeric(given, errors="coerce").isin(numbers)
    chosen &= given.notna()
    return (chosen | (absent & (None in values))).to_numpy(dtype=bool)


def _in_order(frame: pd.DataFrame, axes: list[str], sweeps: list[dict[str, Any]]) -> pd.DataFrame:
    """Numbers ascending, optimizers in the order of the sweeps: figures keep the order of rows."""
    listed = ",".join(sweep["keys"].get("optimizers", DEFAULT_OPTIMIZERS) for sweep in sweeps).lower().split(",")
    rank = {name: number for number, name in enumerate(dict.fromkeys(listed))}
    numbers = [name for name in axes if frame[name].dtype != object]
    ranked = frame.assign(_rank=frame["optimizer"].map(rank).fillna(len(rank)))
    return ranked.sort_values(["_rank", *numbers], kind="stable", ignore_index=True).drop(columns="_rank")


def _show(screen: Any, notes: list[str], slopes: list[dict[str, Any]]) -> None:
    for note in filter(None, notes):
        stores.print_line(screen, note)
    if slopes:
        names = [*(name for name in slopes[0] if name != "slope"), "slope"]
        headings = [printable(name.replace("_", " ")) for name in [*names[:-1], "slope in κ"]]
        rows = [[_cell(name, row[name]) for name in names] for row in slopes[:MAX_ROWS_SHOWN]]
        screen.print(console_table(headings, rows, left=headings, wrap=headings))
        if len(slopes) > MAX_ROWS_SHOWN:
            screen.print(f"{MAX_ROWS_SHOWN} of {len(slopes):,} slopes: the table has all")


def _cell(name: str, value: Any) -> str:
    from quadsim.plots.aggregate import CONDITIONS

    if value is None:
        return "none" if name in CONDITIONS else "–"
    return f"{value:.4g}" if isinstance(value, float) else printable(value)
