"""Completion in bash, zsh and fish: the words that may stand at the cursor.

The scripts beside this file call `python -m quadsim completion --complete WORD…` at each TAB with the words up to the
cursor, and get an `Answer` as text. The candidates come from the table of keys, the modules of commands and the names
of `cli.names`; nothing is imported that loads numpy, and no text of the user is evaluated.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from quadsim import _discovery
from quadsim.cli import arguments, help_text, names
from quadsim.keys import Key

SHELLS = ("bash", "zsh", "fish")
MAX_DESCRIPTION = 60  # characters
STORES, SPECTRA = (".db",), (".npz", ".csv")  # suffixes of files
FILES = re.compile(r"\.(\w+)")
SCRIPT = re.compile(r"[\w-]+\.py", re.ASCII)


class Answer(NamedTuple):
    """Candidates with descriptions, and whether files with these suffixes ("/": folders only, "": all) count too.

    ``open``: more may follow a candidate, so that no space is added to it.
    """

    words: tuple[tuple[str, str], ...] = ()
    files: tuple[str, ...] = ()
    open: bool = False

    def text(self) -> str:
        """A line of settings, then a line for each candidate: the word, a tab, its description."""
        lines = [" ".join(["open" if self.open else "closed", *(suffix or "*" for suffix in self.files)])]
        lines += [f"{word}\t{about}" for word, about in self.words if (word + about).isprintable()]
        return "\n".join(lines) + "\n"


def script(shell: str) -> str:
    """The script that a shell reads."""
    with open(os.path.join(os.path.dirname(__file__), f"quadsim.{shell}"), encoding="utf-8") as file:
        return file.read()


def answer(words: Sequence[str]) -> str:
    """The answer to the words up to the cursor, the last one incomplete, as text for the scripts."""
    *before, current = words or [""]
    try:
        found = complete(before, current)
    except (OSError, ValueError, LookupError):  # the line is incomplete, so anything may be wrong in it
        found = Answer()
    return found.text()


def complete(before: Sequence[str], current: str) -> Answer:
    """The candidates for the current word after the words before it."""
    bare = [word for word in before if "=" not in word and not word.startswith("-")]
    if bare[:1] == ["help"]:
        every = _summaries() | {
            key: _about(entry) for name in help_text.commands() for key, entry in _keys(name).items()
        }
        return _matching(every, current)
    command = bare[0] if bare and bare[0] in help_text.commands() else "run"
    module = importlib.import_module(f"quadsim.cli.commands.{command}")
    given = dict(word.split("=", 1) for word in before if "=" in word)
    if "=" in current:
        name, _, value = current.partition("=")
        return _prefixed(f"{name}=", _values(module, name, value, given))
    if current.startswith("-"):
        return _matching(dict.fromkeys((*arguments.FLAGS, *getattr(module, "FLAGS", ())), ""), current)
    return _words(module, bare, current, given)


def _words(module: Any, bare: Sequence[str], current: str, given: Mapping[str, str]) -> Answer:
    """Commands, words that the command takes, keys and settings."""
    positional, files = _positional(module) if bare else ({}, ())
    if not bare and not given:
        positional = _summaries()
    candidates = {**positional}
    candidates |= {f"{key}=": _about(entry) for key, entry in module.KEYS.items() if key not in given}
    owner, dot, _ = current.partition(".")
    used = _used(module, given)
    if dot and owner in used and getattr(module, "SETTINGS", False):
        settings = {f"{owner}.{setting}=": "" for setting in _discovery.settings(owner)}
        return _matching(
            {name: about for name, about in settings.items() if name[:-1] not in given}, current, open=True
        )
    if getattr(module, "SETTINGS", False) and current:
        candidates |= {f"{name}.": "settings" for name in used}
    found = _matching(candidates, current)
    is_open = bool(found.words) and all(word.endswith(("=", ".")) for word, _ in found.words)
    return found._replace(files=files, open=is_open)


def _positional(module: Any) -> tuple[dict[str, str], tuple[str, ...]]:
    """The words that are not key=value: candidates, and suffixes of files."""
    command = module.__name__.rpartition(".")[2]
    if command == "list":
        return dict.fromkeys(names.LISTS, ""), ()
    if command == "completion":
        return dict.fromkeys(SHELLS, ""), ()
    if command == "reproduce":
        folder = "experiments"
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return {file.removesuffix(".py"): "" for file in files if _is_reproduction(os.path.join(folder, file))}, ()
    return {}, STORES if getattr(module, "NAMES", False) else ()


def _is_reproduction(path: str) -> bool:
    """Whether a file is a script of a figure. A shell would evaluate `$(…)` in other names; a pipe would block."""
    if not SCRIPT.fullmatch(os.path.basename(path)) or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return b"\nREPRODUCTION = " in file.read()


# ---- values of a key


def _values(module: Any, name: str, value: str, given: Mapping[str, str]) -> Answer:
    """The values of a key, with the part of a list that is already there."""
    name = name.lstrip("-")
    entry = module.KEYS.get(name)
    if entry is None:
        return _setting_values(module, name, value)
    listed = _allowed(entry, module, given)
    if entry.names == "axes":
        listed = names.axes()
    separator = "+" if entry.kind == "models" else "," if _is_list(module, entry) else ""
    head, tail = (
        (value[: -len(value.split(separator)[-1]) or None], value.split(separator)[-1]) if separator else ("", value)
    )
    taken = head.split(separator) if separator else []
    found = _matching({word: "" for word in listed if word not in taken}, tail)
    answer = _prefixed(head, found)._replace(open=bool(separator))
    return answer if head else answer._replace(files=_suffixes(entry))


def _allowed(entry: Key, module: Any, given: Mapping[str, str]) -> Iterable[str]:
    """The names that a key takes."""
    if entry.kind == "flag":
        return ("true", "false")
    if entry.names == "optimizers" and entry.name == "reference":
        return _used(module, given)
    return getattr(names, entry.names)() if entry.names else entry.words


def _is_list(module: Any, entry: Key) -> bool:
    """Whether several values may be given, separated by commas."""
    sweeps = not getattr(module, "PARSE", True) and entry.axis
    return entry.kind == "words" or entry.several or (sweeps and entry.kind in ("case", "choice", "models"))


def _suffixes(entry: Key) -> tuple[str, ...]:
    """Suffixes of the files that a key names, read from the shape of its value: FILE.db, FOLDER."""
    if entry.shape.startswith("FOLDER"):
        return ("/",)
    if entry.names in ("networks", "models"):
        return SPECTRA if entry.names == "networks" else ()
    if entry.kind not in ("text", "words") or entry.names:
        return ()
    if "." in entry.shape and not entry.shape.startswith("local"):
        return tuple(f".{suffix}" for suffix in FILES.findall(entry.shape))
    return ("",) if entry.shape == "FILE" else ()


def _setting_values(module: Any, name: str, value: str) -> Answer:
    """The values of an optimizer's setting that is a word."""
    owner, _, setting = name.partition(".")
    if not getattr(module, "SETTINGS", False) or setting not in _discovery.settings(owner):
        return Answer()
    return _matching(dict.fromkeys(_discovery.setting_words(owner, setting), ""), value)


# ---- what is known of commands and keys


def _used(module: Any, given: Mapping[str, str]) -> list[str]:
    """The optimizers of the line, by default those of the command."""
    default = module.KEYS["optimizers"].default if "optimizers" in module.KEYS else ""
    return [name for name in given.get("optimizers", default).lower().replace("_", "-").split(",") if name]


def _keys(command: str) -> Mapping[str, Key]:
    return importlib.import_module(f"quadsim.cli.commands.{command}").KEYS


def _summaries() -> dict[str, str]:
    return {name: _cut(help_text.summary(name)) for name in help_text.commands()} | {"help": "of a command or a key"}


def _about(entry: Key) -> str:
    return _cut(entry.help.replace("{optimizers}", "gd, adam, …"))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_DESCRIPTION else f"{text[: MAX_DESCRIPTION - 1].rstrip()}…"


def _matching(candidates: Mapping[str, str], start: str, *, open: bool = False) -> Answer:
    return Answer(tuple(item for item in candidates.items() if item[0].startswith(start)), open=open)


def _prefixed(prefix: str, found: Answer) -> Answer:
    return found._replace(words=tuple((prefix + word, about) for word, about in found.words))
