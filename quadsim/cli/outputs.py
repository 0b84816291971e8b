"""The names of a result's files, and the command line that is recorded with it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from quadsim.cli.console import console

MAX_STEM = 80  # characters of a file's name


def command_line(command: str, texts: Mapping[str, str]) -> str:
    """The command line with these keys."""
    return shlex.join(["python", "-m", "quadsim", *([command] if command else []), *map("=".join, texts.items())])


def stem(command: str, texts: Mapping[str, str]) -> str:
    """The name of the files, without suffix: the keys in order, shortened by a hash where that is too long."""
    import hashlib

    text = "-".join([*([command] if command else []), *map("-".join, texts.items())])
    name = text.lower().replace(",", "_").replace("/", "~")
    plain = re.sub(r"[^a-z0-9.+~_-]", "_", name)
    if plain == name and len(name) <= MAX_STEM:
        return name
    return plain[:60] + "-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def print_json(result: Any) -> None:
    import json

    print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))


def print_files(files: Iterable[str], screen: Any = None) -> None:
    screen = screen or console()
    for path in files:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
