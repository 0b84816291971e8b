"""The page of optimizers, from their classes."""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, Field, fields
from typing import Any

import markdown

from quadsim import keys
from quadsim.optimizers import OPTIMIZERS, Optimizer

SCOPES = {"coordinate": "one coordinate at a time", "block": "a whole block at once", "all": "all coordinates at once"}
BOUNDS = {"above": "> {}", "at_least": "≥ {}", "below": "< {}", "at_most": "≤ {}"}
GROUPS = {10: "Linear", 20: "Scaled by coordinate", 30: "By sign", 40: "By block", 50: "Random"}  # by list_order
INVARIANCES = """\
Invariances, with ε and weight decay at 0. *rotation*: rotating the coordinates of a block rotates the path of the
iterates. *signs*: likewise for changes of signs. *scale*: multiplying the loss by a positive number changes nothing.
"""


def group_of(kind: type[Optimizer]) -> str:
    return GROUPS[kind.list_order // 10 * 10]


def default(field: Field[Any]) -> str:
    if field.default is None:
        return "best"
    return "" if field.default is MISSING else f"`{keys.text(field.default)}`"


def allowed(field: Field[Any]) -> str:
    """The values that a setting takes."""
    bounds = dict(field.metadata.get("bounds", {}))
    if words := bounds.pop("allowed", ()):
        return ", ".join(f"`{word}`" for word in words)
    if field.type in (bool, "bool"):
        return "`true`, `false`"
    kind = "whole, " if field.type in (int, "int") else ""
    return kind + ", ".join(BOUNDS[name].format(keys.text(bound)) for name, bound in bounds.items())


def descriptions(kind: type[Optimizer]) -> dict[str, str]:
    """The first sentence on each setting in the Parameters section of the docstring; names may share an entry."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(vars(base).get("__doc__") or "")
        section = re.search(r"^Parameters\n-+\n(.*?)(?=\n\n\S[^\n]*\n-{3,}|\Z)", text, re.DOTALL | re.MULTILINE)
        names: list[str] = []
        for line in section[1].splitlines() if section else ():
            if line and not line[0].isspace():
                names = [name.strip() for name in line.partition(":")[0].split(",")]
                found |= dict.fromkeys(names, "")
            else:
                found |= {name: f"{found[name]} {line.strip()}".strip() for name in names}
    return {name: re.split(r"(?<=[.!)])\s+(?=[A-Z])", text)[0] for name, text in found.items()}


def overview() -> str:
    rows = [
        (
            f"[{name}](#optimizer-{name})",
            group_of(kind),
            "yes" if kind.has_closed_form() else "no",
            ", ".join(kind.invariances),
            markdown.escape(kind.reference),
        )
        for name, kind in OPTIMIZERS.items()
        if not kind.user_defined
    ]
    columns = ("name", "kind", "closed form", "invariances", "reference")
    return markdown.table(columns, rows, "sortable stacked")


def entry(name: str, kind: type[Optimizer]) -> str:
    """The section of one optimizer."""
    formula = inspect.cleandoc(vars(kind)["__doc__"]).partition("\n\n")[0]
    described = descriptions(kind)
    facts = {
        "Class": f"{{api}}`quadsim.{kind.__name__}`, in figures “{kind.label}”",
        "Kind": f"{group_of(kind).lower()}; the rule sees {SCOPES[kind.scope]}",
        "State": ", ".join(f"`{item}`" for item in kind.state) + " for each coordinate" if kind.state else "none",
        "Closed form": "yes, up to 10¹² steps" if kind.has_closed_form() else "no",
        "Invariances": ", ".join(kind.invariances),
        "Gradients": "exact ones only; refused under noise" if kind.exact_gradients else "",
        "Reference": markdown.escape(kind.reference),
    }
    rows = [
        [f"`{name}.{field.name}`", default(field), allowed(field), markdown.prose(described.get(field.name, ""))]
        for field in fields(kind)
    ]
    columns = ["setting", "default", "values", "meaning"]
    parts = [f"(optimizer-{name})=", f"### {name}\n", markdown.prose(formula) + "\n"]
    parts.append("\n".join(f"- {title}: {text}" for title, text in facts.items() if text) + "\n")
    return "\n".join([*parts, markdown.table(columns, rows, "stacked")])


def pages() -> dict[str, str]:
    built_in = {name: kind for name, kind in OPTIMIZERS.items() if not kind.user_defined}
    parts = ["# Optimizers\n", overview(), INVARIANCES]
    parts.append(
        "A learning rate whose default is *best* is the best constant one for the problem, known in closed form. Other "
        "defaults do not depend on the problem: tune them, for example with [compare](#command-compare).\n"
    )
    for title in GROUPS.values():
        own = [entry(name, kind) for name, kind in built_in.items() if group_of(kind) == title]
        parts += [f"## {title}\n", *own] if own else []
    return {"reference/optimizers.md": "\n".join(parts)}
