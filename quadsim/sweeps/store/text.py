"""Text from a store, escaped for display and export: a store may come from an untrusted source.

Control characters (terminal escape sequences among them) and invisible ones (such as those that reverse the direction
of text) are written as Python escapes. In CSV, text that a spreadsheet would evaluate as a formula gets a leading
apostrophe.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

HIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # control, format, surrogate, private, unassigned, …
FORMULA_SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # and their full-width forms
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def printable(text: object, most: int | None = None) -> str:
    """`text` on one line without control or invisible characters; cut to `most` characters."""
    plain = str(text)
    if most is not None and len(plain) > most:
        plain = plain[: most - 1] + "…"
    return _escaped(plain, lambda sign: sign.encode("unicode_escape").decode("ascii"))


def _escaped(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(escape(sign) if unicodedata.category(sign) in HIDDEN_CATEGORIES else sign for sign in text)


def csv_cell(value: Any) -> Any:
    """A value for a CSV file: numbers unchanged, formulas with a leading apostrophe."""
    if not isinstance(value, str | bytes):
        return value
    text = printable(value.hex() if isinstance(value, bytes) else value)
    return f"'{text}" if text.lstrip().startswith(FORMULA_SIGNS) and not NUMBER.fullmatch(text) else text


def csv_table(frame: pd.DataFrame) -> pd.DataFrame:
    """`csv_cell` of all values and column names of a table."""
    safe = frame.copy(deep=False)
    for name in frame:
        if frame[name].dtype.kind not in "iufb":
            safe[name] = frame[name].map(csv_cell)
    return safe.rename(columns=csv_cell)


def json_text(value: Any, **options: Any) -> str:
    """JSON with all control and invisible characters escaped, also those that JSON allows."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **options)
    return _escaped(text, lambda sign: sign if sign == "\n" else json.dumps(sign)[1:-1])
