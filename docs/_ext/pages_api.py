"""The pages of the API: one for each name of `quadsim.__all__`, one for each public module."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import markdown

import quadsim

GROUPS = {  # title of a group by the package that defines a name
    "problems": "Problems",
    "optimizers": "Optimizers",
    "engine": "Runs",
    "comparison": "Comparisons",
    "sweeps": "Sweeps",
    "spectra": "Spectra",
}
TOP_LEVEL_MODULES = ("theory", "spectra", "plots", "table")  # attributes of quadsim that are modules
OTHER_MODULES = ("optimizers", "claims", "reproduce", "hessian")  # imported by their names
EXTENDED = {  # what contributors call or subclass, by module
    "optimizers": (
        "recurrence:Recurrence",
        *(f"settings:{name}" for name in ("positive", "nonnegative", "fraction", "number", "whole", "flag", "choice")),
    ),
    "problems": ("noise:NoiseModel", "noise:Gaussian", "noise:Labels"),
    "comparison": ("evaluation:EvaluationProtocol",),
    "claims": ("ledger:claim", "ledger:Verdict", "observations:Draw", "observations:Observation"),
}
FOLDER = "reference/api"


def module_of(name: str) -> ModuleType:
    """A public module by the name that users write after `quadsim.`"""
    return getattr(quadsim, name) if name in TOP_LEVEL_MODULES else importlib.import_module(f"quadsim.{name}")


def names_of(module: ModuleType) -> list[str]:
    """The public names of a module; classes and functions of `quadsim` itself are documented there."""
    names = getattr(module, "__all__", None) or dir(module)
    found = [name for name in names if not name.startswith("_")]
    return sorted(name for name in found if not inspect.ismodule(getattr(module, name)))


def is_documented(value: Any) -> bool:
    """Whether a value has a docstring of its own: a function or a class. Others are constants."""
    return inspect.isclass(value) or inspect.isroutine(value)


@functools.cache
def documented() -> dict[str, Any]:
    """All functions and classes of the reference by the name under which they are documented, each value once."""
    found: dict[str, Any] = {}
    seen: set[int] = set()

    def add(path: str, value: Any) -> None:
        if is_documented(value) and id(value) not in seen:
            seen.add(id(value))
            found[path] = value

    for name in quadsim.__all__:
        add(f"quadsim.{name}", getattr(quadsim, name))
    for name in (*TOP_LEVEL_MODULES, *OTHER_MODULES):
        module = module_of(name)
        for member in names_of(module):
            add(f"quadsim.{name}.{member}", getattr(module, member))
    for package, entries in EXTENDED.items():
        for entry in entries:
            module_name, _, member = entry.partition(":")
            path = f"quadsim.{package}.{module_name}"
            add(f"{path}.{member}", getattr(importlib.import_module(path), member))
    return found


def directive(path: str, value: Any) -> str:
    """The directive that documents a function or a class."""
    if inspect.isclass(value):
        return f".. autoclass:: {path}\n   :members:\n"
    return f".. autofunction:: {path}\n"


def page(title: str, body: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n{body}"


def module_page(name: str, objects: dict[str, Any]) -> str:
    """A module: what its docstring says, its functions and classes, its constants."""
    module = module_of(name)
    path = f"quadsim.{name}"
    own = {key: value for key, value in objects.items() if key.startswith(f"{path}.")}
    import_line = f"import quadsim as qs  # qs.{name}" if name in TOP_LEVEL_MODULES else f"from quadsim import {name}"
    summary = (inspect.getdoc(module) or "").partition("\n\n")[0]
    parts = [f".. py:module:: {path}\n", summary + "\n", f".. code-block:: text\n\n   {import_line}\n"]
    parts.append(autosummary([key.removeprefix(f"{path}.") for key in own]))
    elsewhere = [
        f"`{key}`"
        for member in names_of(module)
        for key, value in objects.items()
        if value is getattr(module, member) and key not in own
    ]
    if elsewhere:
        parts.append(f"Also in this module: {', '.join(elsewhere)}.\n")
    constants = [(member, getattr(module, member)) for member in names_of(module)]
    constants = [(member, value) for member, value in constants if not is_documented(value)]
    if constants:
        parts.append("Constants: " + ", ".join(f"``{member}``" for member, _ in constants) + ".\n")
    parts += [directive(key, value) for key, value in own.items()]
    return page(f"quadsim.{name}", "\n".join(parts))


def autosummary(names: Iterable[str]) -> str:
    """A table of names with summaries; names are relative to the current module."""
    return "\n".join([".. autosummary::", "   :nosignatures:", "", *(f"   {name}" for name in names)]) + "\n"


def pages() -> dict[str, str]:
    objects = documented()
    top = {path: value for path, value in objects.items() if path.count(".") == 1}
    made = {f"{FOLDER}/{path}.rst": page(path, directive(path, value)) for path, value in top.items()}
    made |= {
        f"{FOLDER}/quadsim.{name}.rst": module_page(name, objects) for name in (*TOP_LEVEL_MODULES, *OTHER_MODULES)
    }
    documented_in_modules = tuple(f"quadsim.{name}." for name in (*TOP_LEVEL_MODULES, *OTHER_MODULES))
    extended = {
        path: value for path, value in objects.items() if path not in top and not path.startswith(documented_in_modules)
    }
    body = "What contributors call or subclass beside the public names of the packages.\n\n"
    body += autosummary(extended) + "\n" + "\n".join(directive(path, value) for path, value in extended.items())
    made[f"{FOLDER}/extending.rst"] = page("Extending quadsim", body)
    return made | {"reference/api.md": index(top)}


def _titled(path: str) -> str:
    """The entry of a page in a toctree: in the sidebar names have no prefix."""
    return f"{path.removeprefix('quadsim.')} <api/{path}>"


def index(top: dict[str, Any]) -> str:
    """The table of contents of the API."""
    homes = quadsim._HOMES  # type: ignore[attr-defined]
    parts = ["# API\n", "`import quadsim as qs`. Names of `quadsim` itself, by topic:\n"]
    for package, title in GROUPS.items():
        own = [path for path in top if homes.get(path.partition(".")[2], "optimizers").split(".")[0] == package]
        parts += [f"## {title}\n", "```{eval-rst}\n" + autosummary(own) + "```\n"]
        parts.append(markdown.toctree((_titled(path) for path in own), hidden=""))
    parts.append("## Modules\n")
    for name in (*TOP_LEVEL_MODULES, *OTHER_MODULES):
        summary = " ".join((inspect.getdoc(module_of(name)) or "").partition("\n\n")[0].split())
        parts.append(f"- {{doc}}`quadsim.{name} <api/quadsim.{name}>`: {markdown.prose(summary)}")
    parts.append("- {doc}`api/extending`: what contributors call or subclass\n")
    modules = [_titled(f"quadsim.{name}") for name in (*TOP_LEVEL_MODULES, *OTHER_MODULES)]
    parts.append(markdown.toctree([*modules, "api/extending"], hidden=""))
    return "\n".join(parts)
