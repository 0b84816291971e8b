"""The deck: what runs on every problem of a grid. Optimizers with their settings, under starts, noise, tolerances."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from typing import Any

from quadsim import checks, grammar, request, solver
from quadsim.checks import InputError
from quadsim.noise import Noise
from quadsim.optimizers import Momentum, Optimizer, by_name
from quadsim.schedules import Schedule
from quadsim.sweeps import axes, code
from quadsim.sweeps.axes import CELL_KEYS, Value
from quadsim.sweeps.code import Fingerprint

TOL = "1e-6"


@dataclass(frozen=True)
class Cell:
    """What runs on a problem: an optimizer under conditions.

    ``said`` are the keys of its conditions. ``name`` distinguishes it from all other cells of its problem; ``code`` is
    the fingerprint of what runs it.
    """

    optimizer: Optimizer
    origins: dict[str, str]  # where lr and momentum come from
    engine: str
    tol: float
    steps: int | None
    start: str | float
    noise: Noise
    schedule: Schedule
    said: dict[str, str]
    name: bytes
    code: Fingerprint


def read(
    given: dict[str, tuple[Value, ...]], names: list[str], dotted: dict[str, tuple[Value, ...]]
) -> tuple[tuple[Cell, ...], dict[str, int]]:
    """Every optimizer with all its settings under all conditions, each cell once; and why others are left out."""
    conditions = [(said, request.read_conditions(said)) for said in _conditions(given)]
    values = {
        key: [None if text is None else request.read_setting(key, text) for text in dotted[key]] for key in dotted
    }
    cells: dict[bytes, Cell] = {}
    fingerprints: dict[Any, Fingerprint] = {}
    left_out: dict[str, int] = {}
    for name in names:
        mine = [each for key, each in values.items() if key.partition(".")[0] == name]
        there = len(cells)
        refused = InputError(f"{name} has no cells")
        for chosen in itertools.product(*mine):
            settings = dict(pair for pair in chosen if pair is not None)
            try:
                optimizer = by_name(name, **settings)
            except InputError as error:
                if sum(len(each) > 1 for each in mine) < 2:
                    raise  # the value is wrong by itself
                refused = error
                left_out[str(error)] = left_out.get(str(error), 0) + len(conditions)
                continue
            for said, how in conditions:
                try:
                    cell = _cell(optimizer, "lr" in settings, said, how, fingerprints)
                except InputError as error:  # an engine that the optimizer does not have, noise that it cannot take
                    refused = error
                    left_out[str(error)] = left_out.get(str(error), 0) + 1
                else:
                    cells.setdefault(cell.name, cell)
        if len(cells) == there:
            raise refused
    return tuple(cells.values()), left_out


def read_optimizers(keys: dict[str, str]) -> tuple[list[str], dict[str, tuple[Value, ...]]]:
    """The optimizers' names, and the texts of the settings that are given; `none` leaves one as it usually is."""
    dotted: dict[str, tuple[Value, ...]] = {}
    for key, text in keys.items():
        if "." in key:
            items = grammar.alternatives(key, text, axes.MOST_VALUES)
            dotted[key] = tuple(None if item.lower() == "none" else item for item in items)
    said = {key: text for key, text in keys.items() if key in ("optimizers", "rules")}
    first = {key: next((text for text in texts if text is not None), None) for key, texts in dotted.items()}
    made = request.read_optimizers(said | {key: text for key, text in first.items() if text is not None})
    names = [optimizer.name for optimizer in made]
    for key, texts in dotted.items():
        if key.partition(".")[0] not in names:
            raise InputError(f"{key}={keys[key]} has no use: it is not among optimizers={','.join(names)}")
        read = [None if text is None else request.read_setting(key, text)[1] for text in texts]
        if len(set(read)) < len(read):
            twice = next(text for text, value in zip(texts, read, strict=True) if read.count(value) > 1)
            raise InputError(f"{key}={checks.shown(keys[key])} names {twice or 'none'} twice")
    return names, dotted


def _conditions(given: dict[str, tuple[Value, ...]]) -> list[dict[str, str]]:
    """Every combination of the keys that are not the problem's; without what has no effect in it, if it has in others.

    What none of them can use is refused, as one run would refuse it.
    """
    mine = {key: values for key, values in given.items() if key in CELL_KEYS}
    several = any(len(values) > 1 for values in mine.values())
    found: dict[str, dict[str, str]] = {}
    for chosen in itertools.product(*mine.values()):
        said = {key: text for key, text in zip(mine, chosen, strict=True) if text is not None}
        if several and "batch" not in said and float(said.get("label_noise", 0)) == 0:
            said.pop("factor", None)
        if several and said.get("schedule") != "step":
            said = {key: text for key, text in said.items() if key not in ("every", "drop")}
        request.read_conditions(said)  # refuses what makes no sense
        found.setdefault(json.dumps(said, sort_keys=True), said)
    used = set().union(*found.values())
    needs = {"factor": "batch= or label_noise=", "every": "schedule=step", "drop": "schedule=step"}
    for key, values in mine.items():
        if key not in used and key in needs:
            raise InputError(f"{key}={','.join(map(str, values))} has no use without {needs[key]}")
    return list(found.values())


def _cell(
    optimizer: Optimizer,
    lr_given: bool,
    said: dict[str, str],
    how: dict[str, Any],
    fingerprints: dict[Any, Fingerprint],
) -> Cell:
    noise, schedule = how["noise"], how["schedule"]
    engine = solver.engine_for(optimizer, said.get("engine"), noise.any or schedule.changes)
    solver.check_noise(optimizer, noise)
    tol, steps = float(said.get("tol", TOL)), int(said["steps"]) if "steps" in said else None
    if steps is None and (engine == "iterate" or tol == 0):
        steps = solver.USUAL_STEPS
    origins = {"lr_from": "theory" if optimizer.lr is None else "given" if lr_given else "default"}
    if isinstance(optimizer, Momentum):
        origins["momentum_from"] = "theory" if optimizer.momentum is None else "given"
    told = [
        optimizer.name, *(f"{key}={value!r}" for key, value in optimizer.settings().items()), engine, repr(tol),
        repr(steps), repr(how["start"]), repr(noise if noise.any else None), str(schedule),
    ]  # fmt: skip
    kind = type(optimizer), engine, noise.any
    if kind not in fingerprints:
        fingerprints[kind] = code.of_cell(*kind)
    name = "\n".join(told).encode()
    return Cell(optimizer, origins, engine, tol, steps, said=said, name=name, code=fingerprints[kind], **how)
