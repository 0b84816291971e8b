"""The verdicts and the gallery as Markdown, and the parts of the README that are generated from the records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from quadsim._validation import InputError
from quadsim.reproduce.records import VERDICTS, Record


def verdict_counts(records: Iterable[Record]) -> str:
    """`51 reproduced, 9 differ, 4 cannot be checked`."""
    counts = Counter(check["verdict"] for record in records for check in record["checks"])
    plural = {"differs": "differ"} if counts["differs"] != 1 else {}
    return ", ".join(
        f"{counts[verdict]} {plural.get(verdict, verdict)}" for verdict in VERDICTS.values() if counts[verdict]
    )


def verdict_table(records: Sequence[Record]) -> str:
    """One row per check."""
    lines = ["| figure | | published | measured | verdict |", "|---|---|---|---|---|"]
    for record in records:
        source = f"[{record['source']}](figures/{record['name']}.svg)"
        for check in record["checks"]:
            verdict = f"**{check['verdict']}**" + (f": {check['why']}" if check["why"] else "")
            cells = (source, check["what"], check["published"], check["measured"], verdict)
            lines.append("| " + " | ".join(map(_cell, cells)) + " |")
            source = ""
    return "\n".join(lines) + "\n"


def gallery(records: Sequence[Record], others: Sequence[Record] = ()) -> str:
    """The figures: the first one at full width, the others, also those that are no reproductions, in two columns."""
    shown = [*records, *others]
    images = [f"![{_alt_text(record['title'])}](figures/{record['name']}.png)" for record in shown]
    cells = [f"{image}<br>{record['source']}" for image, record in zip(images, shown, strict=True)][1:]
    lines = [f"{image}\n" for image in images[:1]] + ["| | |\n|---|---|"] * bool(cells)
    for left in range(0, len(cells), 2):
        pair = cells[left : left + 2]
        lines.append("| " + " | ".join(pair) + " |" + " |" * (2 - len(pair)))
    return "\n".join(lines) + "\n"


def update_readme(text: str, records: Sequence[Record], others: Sequence[Record] = ()) -> str:
    """The README with its generated parts replaced: those from `<!-- NAME -->` to `<!-- end of NAME -->`."""
    parts = {"verdicts": f"{verdict_counts(records)}.\n\n{verdict_table(records)}", "gallery": gallery(records, others)}
    for name, part in parts.items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if begin not in text and end not in text:
            continue
        head, _, rest = text.partition(begin)
        if text.count(begin) != 1 or text.count(end) != 1 or end not in rest:
            raise InputError(f"{begin} and {end} must each occur once in the README, in this order")
        text = f"{head}{begin}\n\n{part}\n{end}{rest.partition(end)[2]}"
    return text


def _cell(text: str) -> str:
    """Text escaped for a table cell."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _alt_text(title: str) -> str:
    return _cell(title).replace("[", "(").replace("]", ")")
