"""The ledger of claims by section and by status, from figures/ledger.json, and the table of verdicts."""

from __future__ import annotations

from collections import Counter
from typing import Any

import facts
import markdown

from quadsim._format import scientific
from quadsim.claims import document
from quadsim.claims.ledger import LEDGER, section
from quadsim.reproduce import records

PROOF_LABELS = {"FALSE": "Counterexample", "TESTED": "Reason", "PAPER": "Result"}
STATUSES = {
    "PROVED": "A proof is given.",
    "EXACT": "An identity or a law, with proof.",
    "TESTED": "No proof, only evidence.",
    "FALSE": "Refuted: the check found a counterexample.",
    "PAPER": "A sentence of *Why Transformers Need Adam* (arXiv 2402.16788), with a verdict on a stated reading of it.",
}


def findings() -> list[dict[str, Any]]:
    return facts.record("ledger")["findings"]


def introduction() -> str:
    """The introduction of the ledger document, without its heading."""
    return document.INTRODUCTION.partition("\n")[2].strip() + "\n"


def link(claim: str) -> str:
    return f"[{claim}](#claim-{claim})"


def section_name(number: int) -> str:
    return f"{number}. {document.SECTIONS[str(number)]}"


def overview(rows: list[dict[str, Any]]) -> str:
    cells = [
        (
            link(row["claim"]),
            str(section(LEDGER[row["claim"]])),
            row["status"],
            row["verdict"],
            markdown.escape(row["sentence"]),
            scientific(row["margin"]),
            scientific(row["worst"]),
        )
        for row in rows
    ]
    columns = ("claim", "section", "status", "verdict", "statement", "margin", "worst found")
    return markdown.table(columns, cells, "sortable stacked")


def entry(row: dict[str, Any]) -> str:
    """One claim: statement, proof, evidence."""
    claim = LEDGER[row["claim"]]
    numbers = [f"{row['draws']:,} draws"]
    if row["margin"] is not None:
        numbers.append(f"margin {scientific(row['margin'])}")
    if row["closeness"] is not None:
        numbers.append(f"equality to {scientific(row['closeness'])}")
    if row["searched"]:
        worst = "no admissible point" if row["worst"] is None else f"worst margin {scientific(row['worst'])}"
        numbers.append(f"{row['searched']:,} evaluations of the search, {worst}")
    proof = [markdown.prose(paragraph) for paragraph in claim.proof.split("\n\n")]
    return (
        f"(claim-{claim.id})=\n## {claim.id} ({claim.status})\n\n**{markdown.escape(claim.sentence)}**\n\n"
        f"*{PROOF_LABELS.get(claim.status, 'Proof')}.* " + "\n\n".join(proof) + "\n\n"
        f"*Evidence.* {row['verdict'].capitalize()}: {markdown.escape(row['evidence'])} ({', '.join(numbers)}).\n\n"
        f"*Check it:* `python -m quadsim verify claim={claim.id}`\n"
    )


def index(rows: list[dict[str, Any]]) -> str:
    counts = Counter(row["status"] for row in rows)
    made = facts.record("ledger")
    parts = [
        "# The ledger of claims\n",
        introduction(),
        "## By status\n",
        markdown.table(
            ("status", "claims", ""),
            [(f"[{name}](#status-{name.lower()})", str(counts[name]), text) for name, text in STATUSES.items()],
        ),
        "## By section\n",
        markdown.toctree(
            [f"ledger/section-{number}" for number in document.SECTIONS] + ["ledger/status"], maxdepth="1"
        ),
        "## All claims\n",
        f"From a run of `{made['command']}`, seed {made['seed']}, quadsim {made['versions']['quadsim']}.\n",
        overview(rows),
    ]
    return "\n".join(parts)


def by_status(rows: list[dict[str, Any]]) -> str:
    parts = ["# The ledger by status\n"]
    for status, meaning in STATUSES.items():
        parts += [f"(status-{status.lower()})=", f"## {status}\n", meaning + "\n"]
        parts += [
            f"- {link(row['claim'])} ({row['verdict']}): {markdown.escape(row['sentence'])}"
            for row in rows
            if row["status"] == status
        ]
        parts.append("")
    return "\n".join(parts)


def verdicts() -> str:
    """The table of verdicts on published figures."""
    found = records.read_records(facts.FIGURES)
    rows = [
        (
            f"[{markdown.escape(record['source'])}](#figure-{record['name']})",
            markdown.escape(check["what"]),
            markdown.escape(check["published"]),
            markdown.escape(check["measured"]),
            markdown.escape(check["verdict"]),
            markdown.escape(check["why"]),
        )
        for record in found
        for check in record["checks"]
    ]
    columns = ("figure", "what", "published", "measured", "verdict", "why")
    return "\n".join(
        [
            "# Verdicts on published figures\n",
            "Each row compares a published statement with a measurement. Rows that cite the ledger, and hypotheses, "
            "are about this project's own claims. The verdicts are computed from the data stored with each figure "
            "([gallery](../gallery.md)) by the script that draws it.\n",
            "Click on the head of a column to sort by it.\n",
            markdown.table(columns, rows, "sortable stacked"),
        ]
    )


def pages() -> dict[str, str]:
    rows = findings()
    made = {"explanation/ledger.md": index(rows), "explanation/ledger/status.md": by_status(rows)}
    for number in map(int, document.SECTIONS):
        own = [row for row in rows if section(LEDGER[row["claim"]]) == number]
        made[f"explanation/ledger/section-{number}.md"] = f"# {section_name(number)}\n\n" + "\n".join(map(entry, own))
    return made | {"explanation/verdicts.md": verdicts()}
