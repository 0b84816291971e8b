"""Text from a store, made safe to show and to export: a store may come from anybody.

Control characters (terminal escape sequences among them) and invisible ones (such as those that reverse the direction
of text) are written as Python escapes. In CSV, text that a spreadsheet would run as a formula gets an apostrophe.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

HIDDEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # categories: control, format, surrogate, private, unassigned, …
FORMULA = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and their full-width forms
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
MOST_SHOWN = 300  # characters of a text on a terminal


def printable(text: object, most: int | None = None) -> str:
    """`text` on one line without control or invisible characters; cut to `most` characters."""
    plain = str(text)
    if most is not None and len(plain) > most:
        plain = plain[: most - 1] + "…"
    if plain.isprintable():
        return plain
    return "".join(_escaped(sign) if unicodedata.category(sign) in HIDDEN else sign for sign in plain)


def _escaped(sign: str) -> str:
    return sign.encode("unicode_escape").decode("ascii")


def csv_cell(value: Any) -> Any:
    """A value for a CSV file: numbers unchanged, text that would be a formula with an apostrophe before it."""
    if not isinstance(value, str | bytes):
        return value
    text = printable(value.hex() if isinstance(value, bytes) else value)
    return f"'{text}" if text.lstrip().startswith(FORMULA) and not NUMBER.fullmatch(text) else text


def csv_table(frame: pd.DataFrame) -> pd.DataFrame:
    """The same for a whole table and the names of its columns."""
    safe = frame.copy(deep=False)
    for name in frame:
        if frame[name].dtype.kind not in "iufb":
            safe[name] = frame[name].map(csv_cell)
    return safe.rename(columns=csv_cell)


def json_text(value: Any, **options: Any) -> str:
    """JSON without a control or invisible character, also of those that JSON allows: they are escaped."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    if text.isprintable():
        return text
    return "".join(
        _json_escaped(sign) if sign != "\n" and unicodedata.category(sign) in HIDDEN else sign for sign in text
    )


def _json_escaped(sign: str) -> str:
    return json.dumps(sign)[1:-1]
