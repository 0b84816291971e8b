"""`--help`, generated from the table of keys and the docstrings of the commands, without importing them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadsim.keys import Key

WIDTH, INDENT = 120, 22  # columns; of the texts beside keys
GROUPS = {"problem": "The problem", "measured": "For Cases 1 and 2", "run": "The run"}
SHAPES = {"whole": "N", "real": "R", "flag": "true|false", "pair": "NxN", "words": "a,b", "numbers": "a,b", "text": "…"}


@cache
def commands() -> tuple[str, ...]:
    """The commands: the modules of the folder, `run` first."""
    files = os.listdir(os.path.join(os.path.dirname(__file__), "commands"))
    names = {file.removesuffix(".py") for file in files if file.endswith(".py") and not file.startswith("_")}
    return ("run", *sorted(names - {"run"}))


def flags() -> dict[str, str]:
    """The flags that only one command takes, with this command."""
    from quadsim import _source

    found: dict[str, str] = {}
    for name in commands():
        with suppress(LookupError):
            found |= dict.fromkeys(_source.constant(f"cli.commands.{name}:FLAGS"), name)
    return found


def overview() -> str:
    """The first page of help: examples, commands, where the keys are described."""
    lines = ["quadsim: optimizers on block-diagonal quadratics whose spectra you control", ""]
    lines += ["  python -m quadsim [command] key=value … [--json]", *_docstring("run").splitlines()[2:], ""]
    for name in commands():
        summary = _docstring(name).splitlines()[0]
        lines.append(f"  {name:<11}{summary}{' (without a command)' if name == 'run' else ''}")
    lines += [
        "",
        "python -m quadsim COMMAND --help shows the examples and all keys of a command; run --help those of a problem.",
    ]
    lines.append("  --json   print the result, and nothing else, as JSON      --version      --help")
    return "\n".join(lines) + "\n"


def of_command(name: str, module: Any) -> str:
    """The help of a command: its docstring, its keys by group, its flags."""
    lines = [f"quadsim {name}: {_docstring(name)}", ""]
    keys: Mapping[str, Key] = module.KEYS
    groups = {group: title for group, title in GROUPS.items() if any(key.group == group for key in keys.values())}
    for group, title in groups.items():
        lines += [title, *_key_lines(key for key in keys.values() if key.group == group), ""]
    if others := [key for key in keys.values() if key.group not in groups]:
        lines += ["Other keys" if groups else "Keys", *_key_lines(others)]
    if getattr(module, "SETTINGS", False):
        lines += _SETTING_LINES
    if own := getattr(module, "FLAGS", ()):
        lines.append(f"  {' '.join(own)}")
    return "\n".join(lines).rstrip() + "\n"


_SETTING_LINES = ["  NAME.SETTING=V      an optimizer's own setting: gd.lr=1e-4 adam.beta1=0 block-gd.lr=0.5/0.01/2e-4"]


def _docstring(command: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "commands", f"{command}.py"), encoding="utf-8") as file:
        docstring = file.read().split('"""', 2)[1].strip()
    return docstring.replace("\npython -m ", "\n  python -m ")  # examples are indented


def _key_lines(keys: Iterable[Key]) -> list[str]:
    """A line or more for each key: its values, its help, its default."""
    import textwrap

    from quadsim import _discovery
    from quadsim.keys import text

    lines = []
    optimizers = ", ".join(info.name for info in _discovery.optimizers())
    for key in keys:
        words = "|".join(key.words) if key.kind == "choice" and len(key.words) < 4 else ""
        head = f"  {key.name}={key.shape or words or SHAPES.get(key.kind, key.name[0].upper())}"
        help = key.help.replace("{optimizers}", optimizers)
        if key.kind == "choice" and not words and not all(word in help for word in key.words):
            help += f": {', '.join(key.words)}"
        if key.default_value is not None:
            help += f" ({text(key.default_value)})"
        if len(head) > INDENT - 2:
            lines.append(head)
            head = ""
        body = textwrap.wrap(help, WIDTH - INDENT, break_on_hyphens=False)
        lines += [f"{start:<{INDENT}}{line}" for start, line in zip_longest([head], body, fillvalue="")]
    return lines
