"""The JSON record of a reproduced figure: its title, checks and verdicts, the command and the versions behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from quadsim._validation import InputError

VERDICTS = {True: "reproduced", False: "differs", None: "cannot be checked"}
Record = dict[str, Any]


def damaged(path: Path, command: str = "python -m quadsim reproduce") -> InputError:
    return InputError(f"{path} is damaged: delete it, or recompute it with {command}")


def read_json(path: Path, command: str) -> Record:
    """The JSON object in a file that a command wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise damaged(path, command)
    return content


def read_record(path: Path) -> Record:
    """The record in a file; raises unless it has the form that `Reproduction.make` writes."""
    if not path.is_file():
        raise InputError(f"{path} does not exist: run once without redraw=true")
    record = read_json(path, "python -m quadsim reproduce")
    if not _is_valid(record):
        raise damaged(path)
    return record


def read_records(folder: Path, *, skip_damaged: bool = False) -> list[Record]:
    """All records in a folder, sorted by their ``order``. Damaged ones raise, or are skipped."""
    records = []
    for path in sorted(folder.glob("*.json")):
        try:
            if "checks" in read_json(path, "the command that wrote it"):  # other commands write JSON too
                records.append(read_record(path))
        except InputError:
            if not skip_damaged:
                raise
    return sorted(records, key=lambda record: record["order"])


def _is_valid(record: Record) -> bool:
    try:
        texts = [record[key] for key in ("name", "source", "arxiv", "title", "command")]
        texts += [row[key] for row in record["checks"] for key in ("what", "published", "measured", "why", "verdict")]
        return (
            all(isinstance(text, str) for text in [*texts, *record["tables"]])
            and isinstance(record["fast"], bool)
            and isinstance(record["order"], int)
            and bool(record["checks"])
            and all(row["verdict"] in VERDICTS.values() for row in record["checks"])
        )
    except (KeyError, TypeError):
        return False
