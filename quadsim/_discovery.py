"""The built-in optimizers, read from the source files of `quadsim.optimizers` without importing them; public names.

A class with the attribute ``name``, a plain string, is an optimizer. Exports, ``--help``, the registry and the styles
of figures are derived from this list, so a new optimizer is one new file. Importing the classes instead would load
numpy, which ``import quadsim`` and ``--help`` avoid.
"""

import functools
import os
from types import ModuleType
from typing import Any, NamedTuple

_ATTRIBUTES = ("name", "label", "colour", "stroke", "list_order")  # written as `    name = "gd"`, one to a line
_FOLDER = os.path.join(os.path.dirname(__file__), "optimizers")
USER_LABELS: dict[str, str] = {}  # of user-defined rules, by name; `optimizers.user_rules` fills it


class OptimizerInfo(NamedTuple):
    """The class attributes of a built-in optimizer that lists, legends and exports need."""

    name: str
    class_name: str
    module: str
    label: str
    colour: str | None = None
    stroke: str = "solid"
    list_order: int = 99


@functools.cache
def optimizers() -> tuple[OptimizerInfo, ...]:
    """The built-in optimizers in the order of lists and legends."""
    infos = [info for file in os.listdir(_FOLDER) if file.endswith(".py") for info in _read(file)]
    return tuple(sorted(infos, key=lambda info: (info.list_order, info.name)))


@functools.cache
def settings(name: str) -> tuple[str, ...]:
    """The settings of a built-in optimizer, those of its base classes first; empty for an unknown name."""
    bases, own = _fields()

    def of(class_name: str) -> list[str]:
        return [*(of(bases[class_name]) if class_name in bases else []), *own.get(class_name, ())]

    return tuple(
        dict.fromkeys(setting for info in optimizers() if info.name == name for setting in of(info.class_name))
    )


@functools.cache
def setting_words(name: str, setting: str) -> tuple[str, ...]:
    """The allowed words of a setting that is declared by `choice` or `flag`; empty for numbers and unknown names."""
    bases, own = _fields()
    class_name = next((info.class_name for info in optimizers() if info.name == name), "")
    while class_name in own and setting not in own[class_name]:
        class_name = bases[class_name]
    declared = own.get(class_name, {}).get(setting, "")
    if declared.startswith("flag("):
        return ("true", "false")
    return tuple(declared.split('"')[3::2]) if declared.startswith("choice(") else ()  # the default comes first


@functools.cache
def _fields() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The base class of each class of the folder, and the fields that it declares: `    lr: float = positive(1e-3)`."""
    bases: dict[str, str] = {}
    own: dict[str, dict[str, str]] = {}
    for file in os.listdir(_FOLDER):
        if not file.endswith(".py"):
            continue
        fields: dict[str, str] = {}
        with open(os.path.join(_FOLDER, file), encoding="utf-8") as lines:
            for line in lines:
                if line.startswith("class "):
                    class_name, _, base = line[len("class ") :].rstrip().rstrip(":").partition("(")
                    bases[class_name] = base.rstrip(")")
                    fields = own.setdefault(class_name, {})
                elif not line[0].isspace():
                    fields = {}  # after the class
                name, colon, declared = line.partition(": ")
                kind, equals, value = declared.partition(" = ")
                is_field = colon and equals and name[:4].isspace() and name[4:].isidentifier()
                if is_field and " " not in kind.replace(" | ", "") and not kind.startswith("ClassVar"):
                    fields[name[4:]] = value
    return bases, own


def _read(file: str) -> list[OptimizerInfo]:
    """The optimizers that a file defines."""
    classes: dict[str, dict[str, Any]] = {}
    attributes: dict[str, Any] = {}
    with open(os.path.join(_FOLDER, file), encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("class "):
                attributes = classes.setdefault(line[len("class ") :].partition("(")[0], {})
            elif not line[0].isspace():
                attributes = {}  # after the class
            name, _, value = line.rstrip().partition(" = ")
            if name.startswith("    ") and name[4:] in _ATTRIBUTES:
                attributes.setdefault(name[4:], int(value) if value.isdigit() else value.strip("\"'"))
    module = f"quadsim.optimizers.{file.removesuffix('.py')}"
    return [
        OptimizerInfo(class_name=class_name, module=module, **{"label": attributes["name"], **attributes})
        for class_name, attributes in classes.items()
        if "name" in attributes
    ]


def public_names(namespace: dict[str, Any]) -> list[str]:
    """What `dir` lists of a module: its ``__all__``, or what it or its submodules define; without imported modules.

    ``namespace`` is the module's ``globals()``.
    """
    home, given = namespace["__name__"], namespace.get("__all__")
    names = [name for name, value in namespace.items() if _is_public(name, value, home)] if given is None else given
    return sorted({*names, *(name for name in namespace if name.startswith("__") and name.endswith("__"))})


def _is_public(name: str, value: Any, home: str) -> bool:
    """Whether a name is neither private, nor a module, nor imported from elsewhere (TYPE_CHECKING is a bool)."""
    if name.startswith("_") or isinstance(value, ModuleType | bool):
        return False
    return str(getattr(value, "__module__", home)).startswith((home, "builtins"))
