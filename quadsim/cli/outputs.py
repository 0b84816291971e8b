"""The files of a result and the command line that is recorded with them; printing of results."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import _progress
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.sweeps.store.text import json_text

if TYPE_CHECKING:
    import pandas as pd

MAX_STEM = 80  # characters of a file's name


def check_folder(line: CommandLine) -> None:
    """Raise unless files can be written to the folder of out=."""
    from quadsim import _artifacts

    _artifacts.check_folder(Path(line.values["out"]))


def command_line(command: str, texts: Mapping[str, str]) -> str:
    """The command line with these keys; `run` is the command if none is named."""
    return shlex.join(["python", "-m", "quadsim", *_named(command), *map("=".join, texts.items())])


def recorded_command(line: CommandLine) -> str:
    """The command line of a result, as its files record it."""
    return command_line(line.command, line.recorded())


def stem(command: str, texts: Mapping[str, str]) -> str:
    """The name of the files, without suffix: the keys in order, shortened by a hash where that is too long."""
    import hashlib

    text = "-".join([*_named(command), *map("-".join, texts.items())])
    name = text.lower().replace(",", "_").replace("/", "~")
    plain = re.sub(r"[^a-z0-9.+~_-]", "_", name)
    if plain == name and len(name) <= MAX_STEM:
        return name
    return plain[:60] + "-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def _named(command: str) -> list[str]:
    return [command] if command not in ("", "run") else []


def save(
    line: CommandLine,
    figures: Any,
    tables: dict[str, Any],
    result: dict[str, Any],
    *,
    name: str = "",
    texts: dict[str, str] | None = None,
    **settings: Any,
) -> None:
    """Write figures, tables and settings to the folder of out=, and add the paths to the result, as "files".

    ``texts`` are further files by suffix. The settings are the command line, the result, those that are given, and the
    versions of packages.
    """
    from quadsim import _artifacts

    settings = {"command": recorded_command(line), **result, **settings}
    settings.setdefault("versions", _artifacts.versions())
    name = name or stem(line.command, line.recorded())
    files = _artifacts.write(Path(line.values["out"]), name, figures, tables, settings, texts)
    result["files"] = [str(path) for path in files]


def to_json(result: Any) -> str:
    """Indented JSON in which control and invisible characters are escaped."""
    return json_text(result, indent=2)


def report(line: CommandLine, result: Any, show: Callable[[Any], None], files: Any = ()) -> None:
    """Print the result: as JSON with --json, otherwise by `show`, which takes the console, and the paths of files.

    The files are those given, or those that `save` added to the result.
    """
    if line.json:
        text = to_json(result)
        with _progress.hidden():
            print(text)
        return
    screen = console()
    show(screen)
    for path in files or (result.get("files", ()) if isinstance(result, dict) else ()):
        screen.print(f"wrote {path}", soft_wrap=True)


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table for JSON."""
    return [plain(row) for row in table.to_dict("records")]


def plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row for JSON: Python numbers for numpy's, None for missing values and infinities."""
    import pandas as pd

    values = {str(key): value.item() if hasattr(value, "item") else value for key, value in row.items()}
    absent = [key for key, v in values.items() if v is pd.NA or (isinstance(v, float) and not math.isfinite(v))]
    return values | dict.fromkeys(absent)


def seeds_text(seeds: list[int]) -> str:
    """`0–29`, or the seeds one by one."""
    if len(seeds) > 1 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]}–{seeds[-1]}"
    return ", ".join(map(str, seeds[:12])) + (", …" if len(seeds) > 12 else "")
