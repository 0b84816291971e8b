"""The pages of keys and of commands, from the table of keys and the modules of the commands."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from typing import Any

import markdown

from quadsim import _discovery, keys
from quadsim.cli import arguments, help_text
from quadsim.keys import Key

GROUPS = help_text.GROUPS | {"out": "The output"}
KINDS = {  # what a value of a key is, by the kind of the key
    "whole": "a whole number",
    "real": "a number",
    "choice": "a word",
    "case": "the number of a case",
    "text": "text",
    "words": "words, separated by commas",
    "flag": "`true` or `false`",
    "pair": "two whole numbers, `2x128`",
    "numbers": "numbers, separated by commas, or an axis such as `1e-4:1:log9`",
    "spectrum": "the eigenvalues of each block, blocks separated by `/`, or the name of a law",
    "blocks": "a whole number, or names separated by commas",
    "start": "a word or a number",
    "models": "a word, or words joined by `+`",
    "scales": "a number, or numbers separated by `/`",
}
BOUNDS = {"above": ">", "at_least": "≥", "below": "<", "at_most": "≤"}
CONVENTIONS = """\
A command line is `python -m quadsim [command] key=value …`; without a command it is `run`. Every key is written
`key=value`; settings of one optimizer are written `name.setting=value`, such as `adam.beta2=0.99`.

| value | meaning |
|---|---|
| `5000`, `5e3` | the same number |
| `a,b,c` | several values, where a key takes them; in a sweep, an axis |
| `0..29` | the whole numbers from 0 to 29 |
| `10:1e6:log25` | 25 numbers from 10 to 10⁶, evenly spaced in their logarithm |
| `0:1:lin21` | 21 evenly spaced numbers from 0 to 1 |
| `1,2,3/99,100,101` | eigenvalues, block by block |
| `none` | in a sweep, the value that leaves a key out |

`python -m quadsim help KEY` prints the entry of a key. `seed` fixes problem, start and noise; each has a random stream
of its own, so all optimizers see the same draws.
"""
EXIT_CODES = """\
| exit code | meaning |
|---|---|
| 0 | success |
| 1 | a check or a run failed, or a file is damaged |
| 2 | the command line is wrong: one line on standard error says what would be right |
| 130 | interrupted by SIGINT |
| 141 | the reader of the output has ended, as in `… \\| head` |
"""


def command_modules() -> dict[str, Any]:
    return {name: importlib.import_module(f"quadsim.cli.commands.{name}") for name in help_text.commands()}


def anchor(key: str) -> str:
    return "key-" + re.sub("[^a-z]", "-", key)


def values(key: Key) -> str:
    """Which values a key takes."""
    text = KINDS[key.kind]
    if key.words:
        words = " · ".join(f"`{word}`" for word in key.words)
        text = words if key.kind in ("choice", "case") else f"{text}: {words}"
    if limits := ", ".join(f"{BOUNDS[name]} {_number(bound)}" for name, bound in key.limits.items()):
        text += f", {limits}"
    return text


def _number(bound: Any) -> str:
    return keys.text(bound) if abs(bound) < 1e6 else f"{bound:.3g}".replace("e+", "e")


def requirement(key: Key) -> str:
    """What else must be given for a key to have an effect."""
    return " or ".join(
        f"`{condition}`" if "=" in condition else f"`{condition}=`" for condition in key.requires.split("|")
    )


def help_of(key: Key) -> str:
    names = ", ".join(info.name for info in _discovery.optimizers())
    return markdown.escape(key.help.replace("{optimizers}", names))


def python_argument(key: Key) -> str:
    """The Python argument that takes the value."""
    if not key.used_by:
        return ""
    module, _, function = key.owner.partition(":")
    value = getattr(importlib.import_module(f"quadsim.{module}"), function)
    return f"`{key.parameter}` of {{api}}`quadsim.{value.__name__}`"


def entry(key: Key, users: Iterable[str]) -> str:
    """The section of one key."""
    default = keys.text(key.default_value) if key.default_value is not None else ""
    lines = [
        f"({anchor(key.name)})=",
        f"### {key.name}",
        "",
        f"`{key.name}={help_text.value_shape(key)}`: {help_of(key)}.",
        "",
    ]
    facts = {
        "Values": values(key),
        "Default": f"`{default}`" if default else "",
        "Only with": requirement(key) if key.requires else "",
        "Commands": ", ".join(f"[{name}](#command-{name})" for name in users),
        "Sweep axis": "yes" if key.axis else "no",
        "Python": python_argument(key),
    }
    lines += [f"- {name}: {text}" for name, text in facts.items() if text]
    return "\n".join(lines) + "\n"


def keys_page() -> str:
    modules = command_modules()
    users = {key.name: [name for name, module in modules.items() if key.name in module.KEYS] for key in keys.TABLE}
    parts = ["# Keys\n", CONVENTIONS, "Keys that only one command takes are on the page of [commands](commands.md).\n"]
    for group, title in GROUPS.items():
        parts += [f"## {title}\n", *(entry(key, users[key.name]) for key in keys.TABLE if key.group == group)]
    parts += ["## Settings of optimizers\n", "`name.setting=value`: see [the optimizers](optimizers.md).\n"]
    return "\n".join(parts)


def differs(key: Key) -> bool:
    """Whether a command's key is its own, or differs from that of the table."""
    return keys.KEYS.get(key.name) != key


def command_entry(name: str, module: Any) -> str:
    """The section of one command: summary, examples, its own keys, the keys of the table that it takes."""
    docstring = help_text._docstring(name)
    summary, _, rest = docstring.partition("\n")
    parts = [f"(command-{name})=", f"## {name}\n", markdown.prose(summary) + "\n"]
    for paragraph in re.split(r"\n\s*\n", rest.strip("\n")):
        if paragraph.startswith(" "):
            parts.append(markdown.block("\n".join(line.removeprefix("  ") for line in paragraph.splitlines())))
        elif paragraph.strip():
            parts.append(markdown.prose(paragraph) + "\n")
    own = [key for key in module.KEYS.values() if differs(key)]
    if own:
        rows = []
        for key in own:
            default = f" (`{keys.text(key.default_value)}`)" if key.default_value is not None else ""
            rows.append(
                (f"`{key.name}={help_text.value_shape(key).replace('|', chr(92) + '|')}`", help_of(key) + default)
            )
        parts.append(markdown.table(("own key", "meaning"), rows, "stacked"))
    shared = [key for key in module.KEYS.values() if not differs(key)]
    if shared:
        parts.append("Further keys: " + ", ".join(f"[{key.name}](#{anchor(key.name)})" for key in shared) + ".\n")
    if getattr(module, "SETTINGS", False):
        parts.append("It takes settings of optimizers, such as `adam.lr=0.01`.\n")
    if flags := getattr(module, "FLAGS", ()):
        parts.append(f"Flags: {', '.join(f'`{flag}`' for flag in flags)}.\n")
    return "\n".join(parts)


def commands_page() -> str:
    modules = command_modules()
    rows = [(f"[{name}](#command-{name})", markdown.prose(help_text.summary(name))) for name in modules]
    parts = ["# Commands\n", markdown.table(("command", ""), rows)]
    parts.append(f"Flags of all commands: {', '.join(f'`{flag}`' for flag in arguments.FLAGS)}.\n")
    parts += [EXIT_CODES, *(command_entry(name, module) for name, module in modules.items())]
    return "\n".join(parts)


def pages() -> dict[str, str]:
    return {"reference/keys.md": keys_page(), "reference/commands.md": commands_page()}
