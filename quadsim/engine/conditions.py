"""The arguments of `solve` from the keys of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from quadsim import keys
from quadsim._validation import InputError
from quadsim.optimizers.schedules import Schedule
from quadsim.problems.noise import Noise

SOLVE_KEYS = tuple(key for key in keys.TABLE if key.owner == "engine.solver:solve")


def from_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """All arguments of `solve` that have keys, defaults included; raises if a key has no effect."""
    noise = Noise(**keys.arguments_of("problems.noise:Noise", values))
    schedule = Schedule(**keys.arguments_of("optimizers.schedules:Schedule", values))
    for name, value in values.items():
        if name in keys.RUN_AXES and not keys.fulfilled(keys.KEYS[name], values):
            raise InputError(f"{name}={keys.text(value)} requires {keys.KEYS[name].requires.replace('|', ' or ')}")
    options = {key.parameter: values.get(key.name, key.default_value) for key in SOLVE_KEYS}
    return {**options, "noise": noise, "schedule": schedule}
