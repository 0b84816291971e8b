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
from quadsim._format import scientific
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter, table
from quadsim.keys import Key

if TYPE_CHECKING:
    from rich.table import Table

    from quadsim.claims import Claim, Finding

MAX_PROOFS = 6  # up to so many claims are shown with their proofs
DRAWS_BOUNDS = {"at_least": 1, "at_most": "claims.verification:MAX_DRAWS"}
KEYS = keys.select(
    Key("claim", "words", "ids or sections of the ledger (all)", shape="2b,5", names="claims"),
    Key("draws", "whole", "random problems for each claim; scales the adversarial search too", bounds=DRAWS_BOUNDS),
    keys.KEYS["seed"],
    Key("out", "text", "write the ledger as a document here", shape="FOLDER"),
)


def main(line: CommandLine) -> int:
    ids = [name.lower() for name in line.values["claim"]] if "claim" in line.values else None
    draws, seed = line.values.get("draws"), line.values.get("seed", 0)
    from quadsim import claims

    chosen = claims.select(ids)
    if "out" in line.values:
        outputs.check_folder(line)
    began, done = time.perf_counter(), {claim.id: 0.0 for claim in chosen}
    with counter("claims", len(chosen), tenths=True) as show:

        def update(claim: Claim, share: float) -> None:
            done[claim.id] = share
            show(sum(done.values()), claim.id)

        findings = claims.verify(chosen, draws=draws, seed=seed, workers=_workers(chosen, draws), progress=update)
    seconds = time.perf_counter() - began
    files = _write(line, findings, seed) if "out" in line.values else []
    rows = [finding.row() for finding in findings]
    outputs.report(line, rows, lambda screen: _show(screen, chosen, findings, seconds), files=files)
    return 0 if all(finding.ok for finding in findings) else 1


def _workers(chosen: list[Claim], draws: int | None) -> int:
    """One process for each core if the work outweighs the seconds that they take to start."""
    from quadsim.engine.solver import cores

    total_effort = sum((draws or claim.draws) / claim.draws for claim in chosen)  # each takes about a second
    return cores() if total_effort > 8 else 1


def _write(line: CommandLine, findings: list[Finding], seed: int) -> list[Path]:
    import pandas as pd

    from quadsim import _artifacts
    from quadsim.claims import document

    rows = [{key: value for key, value in finding.row().items() if key != "seconds"} for finding in findings]
    made = {"command": outputs.recorded_command(line), "seed": seed, "versions": _artifacts.versions()}
    text = document.render(rows, made)
    table = pd.DataFrame(rows).drop(columns="sentence")
    tables = {"": table.assign(worst_at=[json.dumps(at) if at else "" for at in table["worst_at"]])}
    return _artifacts.write(Path(line.values["out"]), "ledger", {}, tables, {**made, "findings": rows}, {".md": text})


def _show(screen: Any, chosen: list[Claim], findings: list[Finding], seconds: float) -> None:
    full = len(chosen) > MAX_PROOFS
    if not full:
        for claim in chosen:
            screen.print(f"{claim.id}  {claim.sentence}", style="bold")
            screen.print(claim.proof + "\n")
    if screen.width < 100:
        _list(screen, findings, full=full)
    else:
        screen.print(_table(findings, full=full))
    wrong = [finding for finding in findings if not finding.ok]
    right = len(findings) - len(wrong)
    screen.print(f"{right} of {len(findings)} verdicts are as the ledger says, in {seconds:.0f} s")
    for finding in wrong:
        more = ": more draws are needed" if finding.verdict == "undecided" else ""
        screen.print(f"{finding.claim} ({finding.status}): {finding.verdict}{more}", style="red")


def _table(findings: list[Finding], *, full: bool) -> Table:
    """A row for each claim, with its statement if `full`."""
    from rich.text import Text

    rows = [
        [
            finding.claim,
            finding.status,
            Text(finding.verdict, style="green" if finding.ok else "bold red"),
            f"{finding.draws:,}",
            scientific(finding.margin),
            "" if finding.closeness is None else f"{finding.closeness:.0e}",
            scientific(finding.worst),
            Text(f"{finding.sentence} ").append(f"[{finding.evidence}]", style="cyan") if full else finding.evidence,
        ]
        for finding in findings
    ]
    last = "statement" if full else "evidence"
    columns = ("claim", "status", "verdict", "draws", "margin", "equality to", "worst found", last)
    return table(columns, rows, left=("claim", "status", "verdict", last), wrap=(last,))


def _list(screen: Any, findings: list[Finding], *, full: bool) -> None:
    """For a narrow screen: a line for each claim, its statement or evidence below."""
    for finding in findings:
        margin = "" if finding.margin is None else f", margin {finding.margin:.1e}"
        worst = "" if finding.worst is None else f", worst found {finding.worst:.1e} ({finding.searched:,} searched)"
        line = f"{finding.claim} ({finding.status}) {finding.verdict}: {finding.draws:,} draws{margin}{worst}"
        screen.print(line, style="green" if finding.ok else "bold red")
        screen.print(f"  {finding.sentence} [{finding.evidence}]" if full else f"  {finding.evidence}")
