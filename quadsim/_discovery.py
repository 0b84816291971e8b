"""The built-in optimizers, read from the source files of `quadsim.optimizers` without importing them.

A file that defines an optimizer is found by its class attribute ``name``, a plain string. Exports, ``--help``, the
registry and the styles of figures all come from here, so a new optimizer is one new file. Importing the classes instead
would load numpy, which ``import quadsim`` and ``--help`` do without.
"""

import functools
import os
from typing import NamedTuple

_ATTRIBUTES = ("name", "label", "colour", "stroke", "list_order")  # written as `    name = "gd"`, one to a line
_FOLDER = os.path.join(os.path.dirname(__file__), "optimizers")
USER_LABELS: dict[str, str] = {}  # of users' rules, by name; `optimizers.user_rules` fills it


class OptimizerInfo(NamedTuple):
    """What a class of `quadsim.optimizers` says of itself."""

    name: str
    class_name: str
    module: str
    label: str
    colour: str | None
    stroke: str
    list_order: int


@functools.cache
def optimizers() -> tuple[OptimizerInfo, ...]:
    """The built-in optimizers in the order in which lists and legends show them."""
    files = [file for file in os.listdir(_FOLDER) if file.endswith(".py")]
    return tuple(
        sorted((info for file in files for info in _read(file)), key=lambda info: (info.list_order, info.name))
    )


def _read(file: str) -> list[OptimizerInfo]:
    """The optimizers that a file defines."""
    classes: dict[str, dict[str, str]] = {}
    found: dict[str, str] = {}
    with open(os.path.join(_FOLDER, file), encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("class "):
                found = classes.setdefault(line[len("class ") :].partition("(")[0], {})
            elif not line[0].isspace():
                found = {}  # after the class
            attribute, _, value = line.rstrip().partition(" = ")
            if attribute.startswith("    ") and attribute[4:] in _ATTRIBUTES:
                found.setdefault(attribute[4:], value.strip("\"'"))
    module = f"quadsim.optimizers.{file.removesuffix('.py')}"
    return [
        OptimizerInfo(
            attributes["name"], class_name, module, attributes.get("label", attributes["name"]),
            attributes.get("colour"), attributes.get("stroke", "solid"), int(attributes.get("list_order", 99)),
        )
        for class_name, attributes in classes.items()
        if "name" in attributes
    ]  # fmt: skip
