"""One page of everything: verdicts, figures, claims, the machine, and an explorer of the four cases.

The page is one HTML file that asks for nothing: style, script, figures and curves are inside it, and a content security
policy forbids the browser to fetch anything else. It is made from the files that a folder holds; nothing is run.
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

from quadsim import reproduction
from quadsim.checks import InputError

EXPLORED = ["case", "kappa", "heterogeneity", "rotation", "seed"]
KINDS = {"reproduced": "good", "differs": "other", "cannot be checked": "open"}


def page(folder: Path, machine: dict[str, Any], versions: dict[str, str]) -> str:
    """The page, from what lies in a folder of figures; what is not there is said to be missing, with its command."""
    made = reproduction.recorded(folder)
    parts = {
        "count": escape(reproduction.count(made)) or "nothing has been reproduced yet",
        "figures": str(len(made)),
        "explorer": _explorer(folder / "explorer.json"),
        "verdicts": _verdicts(made),
        "gallery": "\n".join(_figure(folder, one) for one in made),
        "claims": _claims(folder / "ledger.json"),
        "machine": _facts(machine | {"versions": ", ".join(f"{name} {number}" for name, number in versions.items())}),
        "style": _text("page.css"),
        "script": _text("explorer.js"),
    }
    return Template(_text("page.html")).substitute(parts)


def _text(name: str) -> str:
    return files("quadsim.report").joinpath(name).read_text(encoding="utf-8")


def _missing(what: str, command: str) -> str:
    return f'<p class="missing">{what}: <code>{escape(command)}</code></p>'


def _explorer(path: Path) -> str:
    """The curves as data for the script; what could be a tag is written otherwise."""
    if not path.is_file():
        return _missing("The curves have not been computed", "python experiments/explorer.py")
    told = _read(path, "python experiments/explorer.py")
    try:
        problems = math.prod(len(values) for values in told["axes"].values()) * len(told["optimizers"])
        sizes = [len(base64.b64decode(told[key], validate=True)) for key in ("ends", "curves")]
        right = sizes == [4 * problems, told["points"] * problems] and list(told["axes"]) == EXPLORED
        data = json.dumps(told, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    except (KeyError, TypeError, ValueError, AttributeError):
        right = False
    if not right:
        raise InputError(f"{path} is damaged: make it anew with python experiments/explorer.py")
    return f'<script type="application/json" id="curves">{data}</script>\n{_text("explorer.html")}'


def _read(path: Path, command: str) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise InputError(f"{path} is damaged: make it anew with {command}") from None


def _badge(verdict: str, count: str = "") -> str:
    return f'<span class="badge {KINDS[verdict]}">{count}{escape(verdict)}</span>'


def _verdicts(made: list[dict[str, Any]]) -> str:
    """A line for each figure: its source, and how many checks came out how."""
    if not made:
        return _missing("No figure has been reproduced", "python -m quadsim reproduce")
    lines = []
    for one in made:
        seen = Counter(check["verdict"] for check in one["checks"])
        badges = " ".join(_badge(verdict, f"{seen[verdict]} ") for verdict in KINDS if seen[verdict])
        lines.append(f'<li><a href="#{escape(one["name"])}">{escape(one["source"])}</a><div>{badges}</div></li>')
    return f'<ul class="index">{"".join(lines)}</ul>'


def _figure(folder: Path, made: dict[str, Any]) -> str:
    """A figure with its checks below it."""
    rows = "".join(
        f'<div class="check"><div class="what">{escape(one["what"])}</div>'
        f"<div><small>published</small>{escape(one['published'])}</div>"
        f"<div><small>came out</small>{escape(one['found'])}</div>"
        f"<div>{_badge(one['verdict'])} {escape(one['why'])}</div></div>"
        for one in made["checks"]
    )
    arxiv = escape(made["arxiv"])
    link = f'<a href="https://arxiv.org/abs/{arxiv}">arXiv {arxiv}</a>' if arxiv else ""
    few = " With few draws (fast=true)." if made["fast"] else ""
    return f"""<section class="figure" id="{escape(made["name"])}">
<h3>{escape(made["source"])} <small>{link}</small></h3>
<p class="finding">{escape(made["title"])}</p>
{_picture(folder, made)}
{rows}
<p class="how"><small>{escape(made.get("caption") or made["command"])}{few}</small></p>
</section>"""


def _picture(folder: Path, made: dict[str, Any]) -> str:
    """The smaller one of SVG and PNG, inside the page."""
    paths = [path for path in (folder / f"{made['name']}.svg", folder / f"{made['name']}.png") if path.is_file()]
    if not paths:
        return _missing("The picture is not there", made["command"])
    path = min(paths, key=lambda path: path.stat().st_size)
    kind = {".svg": "image/svg+xml", ".png": "image/png"}[path.suffix]
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<div class="scroll" tabindex="0"><img alt="{escape(made["title"])}" src="data:{kind};base64,{data}"></div>'


def _claims(path: Path) -> str:
    """The ledger: each claim with its status, verdict and evidence."""
    if not path.is_file():
        return _missing("The ledger has not been checked", "python -m quadsim verify out=figures")
    command = "python -m quadsim verify out=figures"
    try:
        findings = _read(path, command)["findings"]
        agree = sum(one["ok"] is True for one in findings)
        rows = "".join(_claim(one) for one in findings)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{path} is damaged: make it anew with {command}") from None
    verify = "<code>python -m quadsim verify</code>"
    return (
        f"<p>{agree} of {len(findings)} claims came out as the ledger says ({verify}).</p>\n"
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
