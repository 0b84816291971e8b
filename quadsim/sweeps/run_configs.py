"""Run configurations: optimizers with their settings, starts, noise, schedules and tolerances."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from quadsim import _parsing, keys
from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.engine import conditions as run_conditions
from quadsim.engine import solver, table
from quadsim.keys import KEYS, RUN_AXES
from quadsim.optimizers import Optimizer, by_name, from_keys
from quadsim.optimizers.lr_origin import lr_origin
from quadsim.optimizers.momentum import Momentum
from quadsim.optimizers.schedules import Schedule
from quadsim.problems.noise import Noise
from quadsim.sweeps import axes, fingerprint
from quadsim.sweeps.axes import Axis
from quadsim.sweeps.fingerprint import Fingerprint

Values = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """A run configuration: an optimizer under conditions.

    ``options`` are the arguments of `solve`. ``row`` has the values of its columns; ``columns`` maps the optimizer's
    settings to columns. ``name`` distinguishes it from all other cells of its problem; ``code`` is the fingerprint of
    the code that runs it.
    """

    optimizer: Optimizer
    options: dict[str, Any]
    row: dict[str, Any]
    columns: dict[str, str]
    name: bytes
    code: Fingerprint

    @property
    def engine(self) -> str:
        return self.options["engine"]


def read(
    given: Mapping[str, Axis], names: Sequence[str], settings: Mapping[str, Axis]
) -> tuple[tuple[Cell, ...], dict[str, int]]:
    """All optimizers with all settings under all conditions, each cell once; the number of others, by error message."""
    conditions = [(values, run_conditions.from_keys(values)) for values in _conditions(given)]
    fingerprint_of = cache(fingerprint.of_cell)
    cells: dict[bytes, Cell] = {}
    left_out = Counter[str]()
    for name in names:
        own, before = _settings_of(name, settings), len(cells)
        refused = InputError(f"{name} has no cells")
        for values in axes.product(own):
            try:
                optimizer = by_name(name, **values)
            except InputError as error:
                if sum(len(axis) > 1 for axis in own.values()) < 2:
                    raise  # the value is wrong by itself
                refused = error
                left_out[str(error)] += len(conditions)
                continue
            for condition in conditions:
                try:
                    cell = _cell(optimizer, "lr" in values, *condition, fingerprint_of)
                    cells.setdefault(cell.name, cell)
                except InputError as error:  # an engine or noise that the optimizer does not support
                    refused = error
                    left_out[str(error)] += 1
        if len(cells) == before:
            raise refused
    return tuple(cells.values()), left_out


def read_settings(names: Sequence[str], given: Mapping[str, Any]) -> dict[str, Axis]:
    """The axes of optimizers' settings; a text is read as on the command line, None (`none`) leaves a setting out."""
    settings: dict[str, Axis] = {}
    for key, value in given.items():
        owner, setting = from_keys.checked_setting(key, names, value)
        text = isinstance(value, str)
        items = _parsing.alternatives(key, value, axes.MAX_VALUES) if text else axes.listed(key, value)
        found = tuple(None if axes.is_none(item) else _setting(owner, setting, item) for item in items)
        settings[f"{owner}.{setting}"] = axes.distinct(key, found, value)
    for name in names:  # report errors before anything runs
        own = _settings_of(name, settings)
        by_name(name, **{key: next(v for v in axis if v is not None) for key, axis in own.items() if axis != (None,)})
    return settings


def _settings_of(name: str, settings: Mapping[str, Axis]) -> dict[str, Axis]:
    """The axes of one optimizer's settings."""
    return {key.removeprefix(f"{name}."): axis for key, axis in settings.items() if key.startswith(f"{name}.")}


def _setting(owner: str, setting: str, item: Any) -> Any:
    if isinstance(item, str):
        return from_keys.read_setting(owner, setting, item)
    plain = item.item() if getattr(item, "ndim", None) == 0 else item
    if isinstance(plain, list) or not isinstance(plain, bool | int | float | tuple):
        raise InputError(f"{owner}.{setting} must be numbers or words, got {checks.shown(item)}")
    return float(plain) if isinstance(plain, int) and not isinstance(plain, bool) else plain


def _conditions(given: Mapping[str, Axis]) -> list[Values]:
    """Every combination of the run's keys, without keys that have an effect only in other combinations.

    A key without effect in all combinations is an error, as in a single run.
    """
    own = {key: axis for key, axis in given.items() if key in RUN_AXES}
    several = any(len(axis) > 1 for axis in own.values())
    found: dict[str, Values] = {}
    for values in axes.product(own):
        if several:
            values = {key: value for key, value in values.items() if keys.fulfilled(KEYS[key], values)}
        found.setdefault(axes.definition(values), values)
    used = set().union(*found.values())
    for key, axis in own.items():
        if key not in used and KEYS[key].requires and axis != (None,):
            required = KEYS[key].requires.replace("|", " or ")
            raise InputError(f"{key}={axes.axis_text(key, axis)} requires {required}")
    return list(found.values())


def _cell(
    optimizer: Optimizer, lr_given: bool, values: Values, conditions: Values, fingerprint_of: Callable[..., Fingerprint]
) -> Cell:
    noise, schedule = conditions["noise"], conditions["schedule"]
    engine = solver.engine_for(optimizer, conditions["engine"], noise.any or schedule.changes)
    solver.check_noise(optimizer, noise)
    max_steps = solver.step_limit(engine, conditions["max_steps"], conditions["tol"])
    options = {**conditions, "engine": engine, "max_steps": max_steps}
    origins = {"lr_from": lr_origin(optimizer, given=lr_given)}
    if isinstance(optimizer, Momentum):
        origins["momentum_from"] = "theory" if optimizer.momentum is None else "given"
    effective = {"noise": noise if noise.any else None, "schedule": schedule if schedule.changes else None}
    stated = (*optimizer.settings().items(), *(options | effective).items())
    identity = [optimizer.name, *(f"{key}={value!r}" for key, value in stated)]
    columns = _columns(optimizer)
    solve_columns = {key.name: options[key.parameter] for key in run_conditions.SOLVE_KEYS}
    row = {
        "optimizer": optimizer.name,
        **{columns[key]: table.cell(value) for key, value in optimizer.settings().items() if value is not None},
        **origins,
        **_condition_columns(values, noise, schedule),
        **{name: keys.column(value) for name, value in solve_columns.items() if value is not None},
    }
    code = fingerprint_of(type(optimizer), engine, noise.any)
    return Cell(optimizer, options, row, columns, "\n".join(identity).encode(), code)


def _condition_columns(values: Values, noise: Noise, schedule: Schedule) -> dict[str, Any]:
    """The columns of the run's keys, with the defaults of related keys."""
    row = {key: keys.column(value) for key, value in values.items()}
    if noise.on_rows:
        row["factor"] = noise.factor
    if noise.model is not None:
        row["noise.scale"] = keys.column(noise.scale)
    if "schedule" in row or "warmup" in row:
        row |= {"schedule": schedule.kind, "warmup": schedule.warmup}
        if schedule.kind == "step":
            row |= {"every": schedule.every, "drop": schedule.drop}
    return row


def _columns(optimizer: Optimizer) -> dict[str, str]:
    """The column of each setting. Settings that differ only in case need different columns: SQLite ignores case."""
    found: dict[str, str] = {}
    for setting in optimizer.settings():
        name = axes.column(optimizer.name, setting)
        twice = name.lower() in {other.lower() for other in found.values()}
        found[setting] = f"{optimizer.name}.{setting}" if twice else name
    return found
