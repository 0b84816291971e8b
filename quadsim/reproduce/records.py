"""The JSON record of a reproduced figure: its title, checks and verdicts, the command and the versions behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from quadsim._validation import InputError

COMMAND = "python -m quadsim reproduce"
VERDICTS = {True: "reproduced", False: "differs", None: "cannot be checked"}
Record = dict[str, Any]
OTHER_FIGURES = {  # in the gallery, but no reproductions: the name of the files, what the figure shows
    "cases-optimizers-gd_frozen-adam_adam-tune-true": "The four cases at tuned learning rates, with Adam also as "
    "people use it (β1 = 0.9, β2 = 0.999)",
}


@contextmanager
def checked(path: Path, command: str) -> Iterator[None]:
    """Report errors about the content of a file that a command wrote as damage of the file."""
    try:
        yield
    except (OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        raise InputError(f"{path} is damaged: delete it, or recompute it with {command}") from None


def read_json(path: Path, command: str) -> Record:
    """The JSON object in a file that a command wrote."""
    with checked(path, command):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError
        json.dumps(content, ensure_ascii=False).encode()  # raises for lone surrogates, which no page can hold
    return content


def read_record(path: Path) -> Record:
    """The record in a file; raises unless it has the form that `Reproduction.make` writes."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: run once without redraw=true")
    record = read_json(path, COMMAND)
    with checked(path, COMMAND):
        _check(record)
        if record["name"] != path.stem:  # the name is that of the picture too
            raise ValueError
    return record


def read_results(folder: Path) -> list[Record]:
    """The results of other commands in a folder: their files' ``name`` and their ``command``, sorted by name."""
    results = []
    for path in _json_files(folder):
        with suppress(InputError):  # damaged, or not of quadsim
            content = read_json(path, "the command that wrote it")
            command = content.get("command")
            if "checks" not in content and isinstance(command, str) and _has_picture(path):
                results.append({"name": path.stem, "title": path.stem, "command": command})
    return results


def _json_files(folder: Path) -> list[Path]:
    """The regular files, sorted: to open a pipe would block."""
    return [path for path in sorted(folder.glob("*.json")) if path.is_file()]


def _has_picture(path: Path) -> bool:
    return any(path.with_name(f"{path.stem}.{suffix}").is_file() for suffix in ("svg", "png"))


def read_records(folder: Path, *, skip_damaged: bool = False) -> list[Record]:
    """All records in a folder, sorted by their ``order``. Damaged ones raise, or are skipped."""
    records = []
    for path in _json_files(folder):
        try:
            if "checks" in read_json(path, "the command that wrote it"):  # other commands write JSON too
                records.append(read_record(path))
        except InputError:
            if not skip_damaged:
                raise
    return sorted(records, key=lambda record: record["order"])


def _check(record: Record) -> None:
    """Raise unless the record has all entries, of the right types."""
    texts = [record[key] for key in ("name", "source", "arxiv", "title", "command")] + [record.get("caption", "")]
    texts += [row[key] for row in record["checks"] for key in ("what", "published", "measured", "why", "verdict")]
    valid = all(isinstance(text, str) for text in [*texts, *record["tables"]])
    valid &= isinstance(record["fast"], bool) and isinstance(record["order"], int) and bool(record["checks"])
    if not valid or {row["verdict"] for row in record["checks"]} - set(VERDICTS.values()):
        raise ValueError
