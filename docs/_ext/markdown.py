"""Parts of generated Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_MARKUP = re.compile(r"([\\`*_{}\[\]<>$|#~^@])")


def escape(text: str) -> str:
    """Plain text on one line: nothing in it is markup."""
    return _escape(" ".join(text.split()))


def prose(text: str) -> str:
    """Text whose only markup is code between backticks, single or double."""
    parts = re.split(r"(``[^`]+``|`[^`\n]+`)", " ".join(text.split()))
    return "".join(f"`{part.strip('`')}`" if part.startswith("`") else _escape(part) for part in parts)


def _escape(text: str) -> str:
    return _MARKUP.sub(r"\\\1", text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], classes: str = "") -> str:
    """A table; the cells are Markdown. Class "sortable" adds buttons and filters, "stacked" folds rows on phones."""
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    lines += [f"| {' | '.join(cell.replace(chr(10), ' ') for cell in row)} |" for row in rows]
    text = "\n".join(lines)
    return f"```{{table}}\n:class: {classes}\n\n{text}\n```\n" if classes else text + "\n"


def block(code: str, language: str = "text") -> str:
    """A block of text that is shown and not executed."""
    return f"```{language}\n{code.rstrip()}\n```\n"


def toctree(names: Iterable[str], **options: str) -> str:
    """A toctree."""
    lines = [f":{name}: {value}".rstrip() for name, value in options.items()]
    return "\n".join(["```{toctree}", *lines, "", *names, "```"]) + "\n"
