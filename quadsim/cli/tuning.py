"""What `compare` and `tune` share: their keys, what they try of each optimizer, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quadsim import _parsing, keys
from quadsim._validation import InputError
from quadsim.cli import reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter
from quadsim.keys import Key

if TYPE_CHECKING:
    from quadsim.optimizers import Optimizer

_TUNE = "comparison.tuning:tune"
_SHARED = keys.select("problem", "measured", "run", "out")
KEYS = {
    **{name: key for name, key in _SHARED.items() if name not in ("seed", "engine")},
    "case": replace(keys.KEYS["case"], several=True),
    "seed": replace(keys.KEYS["seed"], several=True, default="0..29", help="the draws"),
    "optimizers": replace(keys.KEYS["optimizers"], default="gd,adam"),
    "tol": replace(keys.KEYS["tol"], default=f"{_TUNE}.tol", bounds={"above": 0, "below": 1}),
    "max_steps": replace(
        keys.KEYS["max_steps"], default=f"{_TUNE}.max_steps", help="steps of each run (500; to tol: at most 100000)"
    ),
    "objective": Key("objective", "choice", "what is minimised", "", f"{_TUNE}.objective",
                     ("comparison.evaluation:OBJECTIVES",)),
    "lrs": Key("lrs", "numbers", "learning rates to try for all; NAME.lr=a,b and NAME.beta2=a,b for one", "",
               "comparison.paired:compare.lrs", bounds={"above": 0}, shape="1e-4:1:log9"),
    "refine": Key("refine", "whole", "rounds of midpoints around the best learning rate (3)", "", f"{_TUNE}.refine",
                  bounds={"at_least": 0, "at_most": 12}),
    "extend": Key("extend", "whole", "decades beyond the edge of the grid (4)", "", f"{_TUNE}.extend",
                  bounds={"at_least": 0, "at_most": 12}),
}  # fmt: skip


def tuning_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments that `compare` and `tune` share, but for problem, optimizers, seeds and grids."""
    if "tol" in values and values.get("objective") != "steps-to-tol":
        raise InputError(f"tol={values['tol']:g} requires objective=steps-to-tol: other runs take all steps")
    from quadsim.engine import conditions

    options = conditions.from_keys(values)
    for name in ("engine", "tol", "max_steps"):  # the evaluation protocol sets them
        options.pop(name)
    return options | keys.arguments_of(_TUNE, values, KEYS)


def read_grids(line: CommandLine) -> tuple[dict[str, Optimizer], dict[str, dict[str, list[Any]]]]:
    """The optimizers by name, and what to try of each: settings with several values, and a given lr."""
    several = {key: _parsing.alternatives(key, text) for key, text in line.settings.items()}
    single = {key: line.settings[key] for key, texts in several.items() if len(texts) == 1}
    optimizers = {optimizer.name: optimizer for optimizer in reading.optimizers(line, single)}
    grids: dict[str, dict[str, list[Any]]] = {}
    if "lrs" in line.values:
        grids = {name: {"lr": line.values["lrs"]} for name in optimizers}
    for key, texts in several.items():
        owner, _, setting = key.partition(".")
        if len(texts) > 1 or setting == "lr":
            made = [reading.optimizers(line, {**single, key: text}) for text in texts]
            values = [one.settings()[setting] for listed in made for one in listed if one.name == owner]
            grids.setdefault(owner, {})[setting] = values
    return optimizers, grids


@contextmanager
def progress(count: int) -> Iterator[Callable[[int], Callable[[str, int, int], None]]]:
    """A bar over the rounds of all problems; the number of rounds is known only as they come."""
    with counter("%", 100) as show:

        def of(number: int) -> Callable[[str, int, int], None]:
            reached = [0.0]

            def update(phase: str, done: int, total: int) -> None:
                share = 1.0 if phase == "confirming" else 0.25  # of the rest: each round a quarter, the last one all
                now = reached[0] + (1 - reached[0]) * share * done / total
                show(round(100 * (number + now) / count), phase)
                if done == total:
                    reached[0] = now

            return update

        yield of


def lr_scale_note(rows: list[dict[Any, Any]]) -> str:
    names = dict.fromkeys(row["label"] for row in rows if row["factor"])
    return f"; the lr of {', '.join(names)} is a factor on its best known ones" if names else ""
