"""The command line: `[command] [name …] key=value … [--flag]`, split and checked against the keys of the command.

Written by hand: argparse has no `key=value`, no dotted settings and no ranges, and adds 10 ms to every start.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from quadsim import _validation as checks
from quadsim._validation import InputError

if TYPE_CHECKING:
    from quadsim.keys import Key

FLAGS = ("--help", "--version", "--json")  # of all commands
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # all but tab and line breaks


class CommandLine:
    """A command line.

    ``has_command`` is whether the command is named; without one it is `run`. ``texts`` are the texts of all keys,
    ``values`` the parsed values, ``settings`` the texts of NAME.SETTING keys, and ``names`` the words that are not
    key=value.
    """

    def __init__(self) -> None:  # no dataclass, whose import takes milliseconds
        self.command, self.has_command = "run", False
        self.names: list[str] = []
        self.texts: dict[str, str] = {}
        self.flags: set[str] = set()
        self.values: dict[str, Any] = {}
        self.settings: dict[str, str] = {}

    @property
    def json(self) -> bool:
        return "--json" in self.flags

    def recorded(self) -> dict[str, str]:
        """The keys in the names of a result's files and in its recorded command line: all but out."""
        return {key: text for key, text in self.texts.items() if key != "out"}


def read(arguments: Iterable[str], commands: Iterable[str]) -> CommandLine:
    """Split a command line; the first word that is not key=value is the command, by default `run`.

    `help` is --help, before the command and after it, and may be followed by a key. Flags are not checked.
    """
    line = CommandLine()
    for argument in arguments:
        if any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise InputError(f"{checks.shown(argument)} is not UTF-8")
        if control := CONTROL.search(argument):
            raise InputError(f"{checks.shown(argument)} holds the control character {control[0]!r}: remove it")
        if argument.startswith("-") and "=" not in argument:
            line.flags.add("--help" if argument == "-h" else argument)
        elif "=" in argument:
            key, text = argument.split("=", 1)
            owner, dot, setting = key.strip().lstrip("-").lower().partition(".")
            key = owner.replace("_", "-") + dot + setting if dot else owner
            if not key or not text.strip():
                raise InputError(f"{checks.shown(argument)} is not key=value: write for example case=3")
            if key in line.texts:
                values = (checks.shown(value) for value in (line.texts[key], text))
                raise InputError(f"{key} is given twice: {' and '.join(values)}")
            line.texts[key] = text.strip()
        elif argument == "help":
            line.flags.add("--help")
        elif not line.has_command:
            line.command, line.has_command = argument, True
            if "--help" not in line.flags:
                checks.choice("command", argument, commands)
        else:
            line.names.append(argument)
    return line


def check(line: CommandLine, module: Any) -> None:
    """Check a line against the module of its command, whose attributes `cli.main` describes, and parse its values."""
    for flag in sorted(line.flags - {*FLAGS, *getattr(module, "FLAGS", ())}):
        from quadsim.cli import help_text

        raise InputError(f"{flag} is for {help_text.flags().get(flag, 'no command')}, not for {line.command}")
    if line.names and not getattr(module, "NAMES", False):
        raise InputError(f"{checks.shown(line.names[0])} is not key=value: see python -m quadsim {line.command} --help")
    if getattr(module, "PARSE", True):
        check_keys(line, module.KEYS, settings=getattr(module, "SETTINGS", False))
        parse(line, module.KEYS)


def check_keys(line: CommandLine, keys: Mapping[str, Key], *, settings: bool = False) -> None:
    """Refuse keys that the command does not take; settings of optimizers are checked where they are parsed."""
    for key, text in line.texts.items():
        if key in keys:
            continue
        if settings and "." in key:
            line.settings[key] = text
            continue
        from quadsim.keys import check_renamed

        check_renamed(key, text, keys, several="seed" in keys and keys["seed"].several)
        if not keys:
            raise InputError(f"{line.command} takes no keys, got {checks.shown(key)}: see {line.command} --help")
        checks.choice("key", key, keys)


def parse(line: CommandLine, keys: Mapping[str, Key]) -> None:
    """Parse the texts of the keys, or their defaults on the command line, into `line.values`."""
    for name, key in keys.items():
        text = line.texts.get(name, key.default)
        if text:
            line.values[name] = key.read(text)
