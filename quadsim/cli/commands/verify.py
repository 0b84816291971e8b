"""Check every claim of the ledger, or some in depth: statement, evidence, verdict.

  python -m quadsim verify
  python -m quadsim verify claim=2b,5 draws=100000 seed=7
  python -m quadsim verify out=FOLDER         write the ledger as a document

The exit code is 1 if a verdict is not the one that the ledger's status stands for.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console, counter
from quadsim.cli.outputs import command_line, print_files, print_json
from quadsim.keys import Key

if TYPE_CHECKING:
    from rich.table import Table

    from quadsim.claims import Claim, Finding

KEYS = {
    "claim": Key("claim", "words", "ids or sections of the ledger (all)", shape="2b,5"),
    "draws": Key("draws", "whole", "random problems for each claim; scales the adversarial search too",
                 bounds={"at_least": 1, "at_most": "claims.verification:MAX_DRAWS"}),
    "seed": keys.KEYS["seed"],
    "out": Key("out", "text", "write the ledger as a document here", shape="FOLDER"),
}  # fmt: skip
MAX_PROOFS = 6  # up to so many claims are shown with their proofs


def main(line: CommandLine) -> int:
    ids = [one.lower() for one in line.values["claim"]] if "claim" in line.values else None
    draws, seed = line.values.get("draws"), line.values.get("seed", 0)
    from quadsim import _artifacts, claims

    chosen = claims.select(ids)
    if "out" in line.values:
        _artifacts.check_folder(Path(line.values["out"]))
    began, done = time.perf_counter(), {one.id: 0.0 for one in chosen}
    with counter("claims", len(chosen), tenths=True) as show:

        def update(one: Claim, share: float) -> None:
            done[one.id] = share
            show(sum(done.values()), one.id)

        findings = claims.verify(chosen, draws=draws, seed=seed, workers=_workers(chosen, draws), progress=update)
    seconds = time.perf_counter() - began
    files = (
        [str(path) for path in _write(Path(line.values["out"]), line.recorded(), findings, seed)]
        if "out" in line.values
        else []
    )
    if line.json:
        print_json([finding.row() for finding in findings])
    else:
        _show(chosen, findings, files, seconds)
    return 0 if all(finding.ok for finding in findings) else 1


def _workers(chosen: list[Claim], draws: int | None) -> int:
    """One process for each core if there is enough work for the seconds that they take to start."""
    from quadsim.engine.solver import cores

    total_effort = sum((draws or one.draws) / one.draws for one in chosen)  # each takes about a second
    return cores() if total_effort > 8 else 1


def _write(folder: Path, texts: dict[str, str], findings: list[Finding], seed: int) -> list[Path]:
    import pandas as pd

    from quadsim import _artifacts
    from quadsim.claims import document

    rows = [{key: value for key, value in finding.row().items() if key != "seconds"} for finding in findings]
    made = {"command": command_line("verify", texts), "seed": seed, "versions": _artifacts.versions()}
    text = document.render(rows, made)
    table = pd.DataFrame(rows).drop(columns="sentence")
    tables = {"": table.assign(worst_at=[json.dumps(at) if at else "" for at in table["worst_at"]])}
    return _artifacts.write(folder, "ledger", {}, tables, {**made, "findings": rows}, {".md": text})


def _show(chosen: list[Claim], findings: list[Finding], files: list[str], seconds: float) -> None:
    screen = console()
    if len(chosen) <= MAX_PROOFS:
        for one in chosen:
            screen.print(f"{one.id}  {one.sentence}", style="bold", highlight=False)
            screen.print(one.proof + "\n", highlight=False)
    if screen.width < 100:
        _list(screen, findings, full=len(chosen) > MAX_PROOFS)
    else:
        screen.print(_table(findings, full=len(chosen) > MAX_PROOFS))
    wrong = [finding for finding in findings if not finding.ok]
    as_expected = f"{len(findings) - len(wrong)} of {len(findings)} verdicts are as the ledger says, in {seconds:.0f} s"
    screen.print(as_expected, highlight=False)
    for finding in wrong:
        more = ": more draws are needed" if finding.verdict == "undecided" else ""
        screen.print(f"{finding.claim} ({finding.status}): {finding.verdict}{more}", style="red", highlight=False)
    print_files(files, screen)


def _table(findings: list[Finding], *, full: bool) -> Table:
    """A row for each claim, with its statement too where `full`."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD)
    for column in ("claim", "status", "verdict"):
        table.add_column(column, no_wrap=True)
    for column in ("draws", "margin", "equality to", "worst found"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("statement" if full else "evidence")
    for finding in findings:
        statement = Text(finding.sentence + " ").append(Text(f"[{finding.evidence}]", style="cyan"))
        table.add_row(
            finding.claim,
            finding.status,
            Text(finding.verdict, style="green" if finding.ok else "bold red"),
            f"{finding.draws:,}",
            "" if finding.margin is None else f"{finding.margin:.1e}",
            "" if finding.closeness is None else f"{finding.closeness:.0e}",
            "" if finding.worst is None else f"{finding.worst:.1e}",
            statement if full else finding.evidence,
        )
    return table


def _list(screen: Any, findings: list[Finding], *, full: bool) -> None:
    """For a narrow screen: a line for each claim, its statement or evidence below."""
    for finding in findings:
        margin = "" if finding.margin is None else f", margin {finding.margin:.1e}"
        worst = "" if finding.worst is None else f", worst found {finding.worst:.1e} ({finding.searched:,} searched)"
        line = f"{finding.claim} ({finding.status}) {finding.verdict}: {finding.draws:,} draws{margin}{worst}"
        screen.print(line, style="green" if finding.ok else "bold red", highlight=False)
        text = f"{finding.sentence} [{finding.evidence}]" if full else finding.evidence
        screen.print(f"  {text}", highlight=False)
