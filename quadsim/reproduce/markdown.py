"""The count of verdicts as text, for the terminal and for Markdown and HTML pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from quadsim.reproduce.records import VERDICTS, Record


def verdict_counts(records: Iterable[Record]) -> str:
    """`51 reproduced, 9 differ, 4 cannot be checked`."""
    counts = Counter(check["verdict"] for record in records for check in record["checks"])
    plural = {"differs": "differ"} if counts["differs"] != 1 else {}
    return ", ".join(
        f"{counts[verdict]} {plural.get(verdict, verdict)}" for verdict in VERDICTS.values() if counts[verdict]
    )
