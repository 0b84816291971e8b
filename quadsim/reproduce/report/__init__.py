"""The HTML report: verdicts, figures, claims, the machine, and an explorer of the four cases.

The page is one self-contained file: style, script, figures and curves are embedded, and a content security policy
forbids the browser to fetch anything else. It is generated from the files in a folder; nothing is run.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from quadsim.reproduce.markdown import verdict_counts
from quadsim.reproduce.records import COMMAND, Record, checked, read_json, read_records

EXPLORER_AXES = ["case", "kappa", "heterogeneity", "rotation", "seed"]
IMAGE_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
BADGES = {"reproduced": "good", "differs": "other", "cannot be checked": "open"}


def page(folder: Path, machine: dict[str, Any], versions: dict[str, str]) -> str:
    """The page for a folder of figures. For a missing file it shows the command that writes it."""
    records = read_records(folder)
    parts = {
        "count": escape(verdict_counts(records)) or "nothing has been reproduced yet",
        "figures": str(len(records)),
        "explorer": _explorer(folder / "explorer.json"),
        "verdicts": _verdicts(records),
        "gallery": "\n".join(_figure(folder, record) for record in records),
        "claims": _claims(folder / "ledger.json"),
        "machine": _facts(machine | {"versions": ", ".join(f"{name} {number}" for name, number in versions.items())}),
        "style": _template("page.css"),
        "script": _template("explorer.js"),
    }
    return Template(_template("page.html")).substitute(parts)


def _template(name: str) -> str:
    return files("quadsim.reproduce.report").joinpath(name).read_text(encoding="utf-8")


def _missing(what: str, command: str) -> str:
    return f'<p class="missing">{what}: <code>{escape(command)}</code></p>'


def _explorer(path: Path) -> str:
    """The curves as JSON for the script; "<" is escaped, so that no text can end the element."""
    command = "python experiments/explorer.py"
    if not path.is_file():
        return _missing("The curves have not been computed", command)
    curves = read_json(path, command)
    with checked(path, command):
        problems = math.prod(len(values) for values in curves["axes"].values()) * len(curves["optimizers"])
        sizes = [len(base64.b64decode(curves[key], validate=True)) for key in ("ends", "curves")]
        if sizes != [4 * problems, curves["points"] * problems] or list(curves["axes"]) != EXPLORER_AXES:
            raise ValueError
        data = json.dumps(curves, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json" id="curves">{data}</script>\n{_template("explorer.html")}'


def _badge(verdict: str, count: str = "") -> str:
    return f'<span class="badge {BADGES[verdict]}">{count}{escape(verdict)}</span>'


def _verdicts(records: list[Record]) -> str:
    """One line per figure: its source and the counts of its verdicts."""
    if not records:
        return _missing("No figure has been reproduced", COMMAND)
    lines = []
    for record in records:
        counts = Counter(check["verdict"] for check in record["checks"])
        badges = " ".join(_badge(verdict, f"{counts[verdict]} ") for verdict in BADGES if counts[verdict])
        lines.append(f'<li><a href="#{escape(record["name"])}">{escape(record["source"])}</a><div>{badges}</div></li>')
    return f'<ul class="index">{"".join(lines)}</ul>'


def _figure(folder: Path, record: Record) -> str:
    """A figure and its checks."""
    rows = "".join(
        f'<div class="check"><div class="what">{escape(check["what"])}</div>'
        f"<div><small>published</small>{escape(check['published'])}</div>"
        f"<div><small>measured</small>{escape(check['measured'])}</div>"
        f"<div>{_badge(check['verdict'])} {escape(check['why'])}</div></div>"
        for check in record["checks"]
    )
    arxiv = escape(record["arxiv"])
    link = f'<a href="https://arxiv.org/abs/{arxiv}">arXiv {arxiv}</a>' if arxiv else ""
    few = " With few draws (fast=true)." if record["fast"] else ""
    return f"""<section class="figure" id="{escape(record["name"])}">
<h3>{escape(record["source"])} <small>{link}</small></h3>
<p class="finding">{escape(record["title"])}</p>
{_picture(folder, record)}
{rows}
<p class="how"><small>{escape(record.get("caption") or record["command"])}{few}</small></p>
</section>"""


def _picture(folder: Path, record: Record) -> str:
    """The smaller of SVG and PNG, embedded."""
    paths = {folder / f"{record['name']}.{suffix}": kind for suffix, kind in IMAGE_TYPES.items()}
    contents = {path.read_bytes(): kind for path, kind in paths.items() if path.is_file()}
    if not contents:
        return _missing("The picture is missing", record["command"])
    content = min(contents, key=len)
    source = f"data:{contents[content]};base64,{base64.b64encode(content).decode()}"
    return f'<div class="scroll" tabindex="0"><img alt="{escape(record["title"])}" src="{source}"></div>'


def _claims(path: Path) -> str:
    """The ledger: each claim with its status, verdict and evidence."""
    command = "python -m quadsim verify out=figures"
    if not path.is_file():
        return _missing("The ledger has not been checked", command)
    with checked(path, command):
        findings = read_json(path, command)["findings"]
        agree = sum(finding["ok"] is True for finding in findings)
        rows = "".join(map(_claim, findings))
    return (
        f"<p>{agree} of {len(findings)} claims have the verdict that the ledger states "
        "(<code>python -m quadsim verify</code>).</p>\n"
        f"<details><summary>All claims</summary>{rows}</details>"
    )


def _claim(found: dict[str, Any]) -> str:
    kind = "good" if found["ok"] else "other"
    return (
        f'<div class="claim"><div><b>{escape(found["claim"])}</b> '
        f'<span class="badge plain">{escape(found["status"])}</span> '
        f'<span class="badge {kind}">{escape(found["verdict"])}</span></div>'
        f"<div>{escape(found['sentence'])} <small>{escape(found['evidence'])}; {found['draws']:,} draws</small></div>"
        "</div>"
    )


def _facts(facts: dict[str, Any]) -> str:
    return "".join(
        f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{escape(_plain(value))}</dd>" for key, value in facts.items()
    )


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value)
