"""What `compare` and `tune` share: keys, the settings to try of each optimizer, progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
_UP_TO_12 = {"at_least": 0, "at_most": 12}
_LRS = "learning rates to try for all; NAME.lr=a,b and NAME.beta2=a,b for one"
_STEPS = "steps of each run (500; to tol: at most 100000)"
_SHARED = [
    key for key in keys.select("problem", "measured", "run", "out").values() if key.name not in ("seed", "engine")
]
KEYS = keys.select(
    *_SHARED,
    keys.KEYS["case"]._replace(several=True),
    keys.KEYS["seed"]._replace(several=True, default="0..29", help="the draws"),
    keys.KEYS["optimizers"]._replace(default="gd,adam"),
    keys.KEYS["tol"]._replace(used_by=_TUNE, bounds={"above": 0, "below": 1}),
    keys.KEYS["max_steps"]._replace(used_by=_TUNE, help=_STEPS),
    Key("objective", "choice", "what is minimised", ("comparison.evaluation:OBJECTIVES",), used_by=_TUNE),
    Key("lrs", "numbers", _LRS, bounds={"above": 0}, shape="1e-4:1:log9"),
    Key("refine", "whole", "rounds of midpoints around the best learning rate (3)", (), _UP_TO_12, used_by=_TUNE),
    Key("extend", "whole", "decades beyond the edge of the grid (4)", (), _UP_TO_12, used_by=_TUNE),
)


def tuning_arguments(values: dict[str, Any]) -> dict[str, Any]:
    """The arguments that `compare` and `tune` share, except problem, optimizers, seeds and grids."""
    if "tol" in values and values.get("objective") != "steps-to-tol":
        raise InputError(f"tol={values['tol']:g} requires objective=steps-to-tol: other runs take all steps")
    from quadsim.engine import conditions

    options = conditions.from_keys(values)
    for name in ("engine", "tol", "max_steps"):  # the evaluation protocol sets them
        options.pop(name)
    return options | keys.arguments_of(_TUNE, values, KEYS)


def read_grids(line: CommandLine) -> tuple[dict[str, Optimizer], dict[str, dict[str, list[Any]]]]:
    """The optimizers by name, and the values to try of each: of settings with several values, and of a given lr."""
    alternatives = {key: _parsing.alternatives(key, text) for key, text in line.settings.items()}
    single = {key: line.settings[key] for key, texts in alternatives.items() if len(texts) == 1}
    optimizers = {optimizer.name: optimizer for optimizer in reading.optimizers(line, single)}
    grids: dict[str, dict[str, list[Any]]] = {}
    if "lrs" in line.values:
        grids = {name: {"lr": line.values["lrs"]} for name in optimizers}
    for key, texts in alternatives.items():
        owner, _, setting = key.partition(".")
        if len(texts) > 1 or setting == "lr":
            variants = [optimizer for text in texts for optimizer in reading.optimizers(line, {**single, key: text})]
            values = [optimizer.settings()[setting] for optimizer in variants if optimizer.name == owner]
            grids.setdefault(owner, {})[setting] = values
    return optimizers, grids


@contextmanager
def progress(count: int) -> Iterator[Callable[[int], Callable[[str, int, int], None]]]:
    """A bar over the rounds of all problems, whose number is not known in advance."""
    with counter("%", 100, "tuning") as show:

        def of(number: int) -> Callable[[str, int, int], None]:
            from quadsim.comparison.evaluation import of_rounds

            return of_rounds(lambda share, label: show(round(100 * (number + share) / count), label))

        yield of
