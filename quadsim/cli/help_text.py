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

PROGRAM = "python -m quadsim"
FIRST_PAGE = ("cases", "compare", "sweep", "plot")  # commands whose first examples the first page shows
MAX_SUMMARY = 84  # characters beside the name of a command
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
    lines += [f"  {line}" for line in (*_examples("run")[:2], *(_examples(name)[0] for name in FIRST_PAGE))] + [""]
    lines += [f"  {name:<11}{summary(name)}{' (without a command)' * (name == 'run')}" for name in commands()]
    lines += [
        "",
        f"{PROGRAM} help COMMAND (or COMMAND --help): examples and keys; help run: keys of a problem",
        f"{PROGRAM} help KEY: one key; list: optimizers, networks, claims; --json: results as JSON",
    ]
    return "\n".join(lines) + "\n"


def of_word(word: str) -> str:
    """The help of `help WORD`: of a command, a key, an optimizer or one of its settings."""
    import difflib
    import importlib

    from quadsim import _discovery
    from quadsim import _validation as checks
    from quadsim._validation import InputError

    if word in commands():
        return of_command(word, importlib.import_module(f"quadsim.cli.commands.{word}"))
    name = word.partition("=")[0].lower().replace("-", "_")
    tables = {command: importlib.import_module(f"quadsim.cli.commands.{command}").KEYS for command in commands()}
    every = dict.fromkeys(key for keys in tables.values() for key in keys)
    owner = name.replace("_", "-").partition(".")[0]
    if name not in every and (settings := _discovery.settings(owner)):
        listed = _wrapped(f"{owner}.{setting}=V" for setting in settings)
        return "\n".join([f"{owner}: an optimizer", *listed, f"defaults: {PROGRAM} list optimizers"]) + "\n"
    if owners := [info.name for info in _discovery.optimizers() if name in _discovery.settings(info.name)]:
        listed = _wrapped(f"{owner}.{name}=V" for owner in owners)
        return "\n".join([f"{name}: a setting of optimizers, each with its own key", *listed]) + "\n"
    if name not in every:
        if close := difflib.get_close_matches(word, [*commands(), *every], n=1):
            raise InputError(f"unknown command or key {checks.shown(word)}: did you mean {PROGRAM} help {close[0]}?")
        raise InputError(f"unknown command or key {checks.shown(word)}: {PROGRAM} help lists the commands")
    users: dict[str, list[str]] = {}  # commands by the text of the key
    for command, keys in tables.items():
        if name in keys:
            users.setdefault("\n".join(_key_lines([keys[name]])), []).append(command)
    return "\n".join(f"{', '.join(names)}:\n{text}" for text, names in users.items()) + "\n"


def _wrapped(words: Iterable[str]) -> list[str]:
    """Words on indented lines."""
    import textwrap

    return textwrap.wrap("  ".join(words), WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)


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


def summary(command: str) -> str:
    """The first line of the docstring; of a long one the part before its colon or semicolon."""
    line = _docstring(command).splitlines()[0].rstrip(".")
    return line if len(line) <= MAX_SUMMARY else line.partition(":")[0].partition(";")[0]


def _examples(command: str) -> list[str]:
    """The lines of examples in the docstring."""
    lines = map(str.strip, _docstring(command).splitlines())
    return [line for line in lines if line.startswith(PROGRAM)]


def _docstring(command: str) -> str:
    with open(os.path.join(os.path.dirname(__file__), "commands", f"{command}.py"), encoding="utf-8") as file:
        docstring = file.read().split('"""', 2)[1].strip()
    return docstring.replace("\npython -m ", "\n  python -m ")  # examples are indented


def value_shape(key: Key) -> str:
    """How a value looks: `N or i..j`, `a,b`, `haar|diagonal`, `R`."""
    several = "N or i..j" if key.several and key.kind == "whole" else ""
    return several or key.shape or _listed_words(key) or SHAPES.get(key.kind, key.name[0].upper())


def _listed_words(key: Key) -> str:
    return "|".join(key.words) if key.kind == "choice" and len(key.words) < 4 else ""


def _key_lines(keys: Iterable[Key]) -> list[str]:
    """A line or more for each key: its values, its help, its default."""
    import textwrap

    from quadsim import _discovery
    from quadsim.keys import text

    lines = []
    optimizers = ", ".join(info.name for info in _discovery.optimizers())
    for key in keys:
        words = _listed_words(key)
        head = f"  {key.name}={value_shape(key)}"
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
