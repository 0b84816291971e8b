"""`verify`: every claim of the ledger, or some in depth: statement, evidence, verdict."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.grammar import Words
from quadsim.verbs.run import command
from quadsim.verbs.screen import console, counter

if TYPE_CHECKING:
    from rich.table import Table

    from quadsim.claims import Claim, Finding

KEYS = ("claim", "draws", "seed", "out")
IN_FULL = 6  # up to so many claims are shown with their proofs


def verify(words: Words) -> int:
    """`verify claim=2b draws=100000 seed=7`: the verdicts, and exit code 1 if one is not the ledger's.

    ``draws`` scales the adversarial search too.
    """
    keys = grammar.only(words, KEYS, "verify claim=2b")
    ids = grammar.several("claim", keys["claim"].lower()) if "claim" in keys else None
    draws = grammar.whole("draws", keys["draws"]) if "draws" in keys else None
    seed = grammar.whole("seed", keys.get("seed", "0"))
    from quadsim import claims, results

    chosen = claims.chosen(ids)
    if draws is not None:
        checks.whole("draws", draws, at_least=1, at_most=claims.MOST_DRAWS)
    if "out" in keys:
        results.check_folder(Path(keys["out"]))
    began, done = time.perf_counter(), {one.id: 0.0 for one in chosen}
    with counter("claims", len(chosen), tenths=True) as show:

        def tell(one: Claim, share: float) -> None:
            done[one.id] = share
            show(sum(done.values()), one.id)

        findings = claims.verify(chosen, draws=draws, seed=seed, workers=_workers(chosen, draws), progress=tell)
    seconds = time.perf_counter() - began
    files = [str(path) for path in _write(Path(keys["out"]), keys, findings, seed)] if "out" in keys else []
    if "--json" in words.flags:
        rows = [finding.row() for finding in findings]
        print(json.dumps(rows, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(chosen, findings, files, seconds)
    return 0 if all(finding.ok for finding in findings) else 1


def _workers(chosen: list[Claim], draws: int | None) -> int:
    """As many processes as there are cores, where it is worth the seconds that they take to start."""
    from quadsim.solver import cores

    usual_efforts = sum((draws or one.draws) / one.draws for one in chosen)  # each takes about a second
    return cores() if usual_efforts > 8 else 1


def _write(folder: Path, keys: dict[str, str], findings: list[Finding], seed: int) -> list[Path]:
    import pandas as pd

    from quadsim import results
    from quadsim.claims import document

    said = {key: text for key, text in keys.items() if key != "out"}
    rows = [{key: value for key, value in finding.row().items() if key != "seconds"} for finding in findings]
    made = {"command": command("verify", said), "seed": seed, "versions": results.versions()}
    text = document.render(rows, made)
    table = pd.DataFrame(rows).drop(columns="sentence")
    tables = {"": table.assign(worst_at=[json.dumps(at) if at else "" for at in table["worst_at"]])}
    return results.write(folder, "ledger", {}, tables, {**made, "findings": rows}, {".md": text})


def _show(chosen: list[Claim], findings: list[Finding], files: list[str], seconds: float) -> None:
    screen = console()
    if len(chosen) <= IN_FULL:
        for one in chosen:
            screen.print(f"{one.id}  {one.sentence}", style="bold", highlight=False)
            screen.print(one.proof + "\n", highlight=False)
    if screen.width < 100:
        _list(screen, findings, full=len(chosen) > IN_FULL)
    else:
        screen.print(_table(findings, full=len(chosen) > IN_FULL))
    wrong = [finding for finding in findings if not finding.ok]
    as_expected = f"{len(findings) - len(wrong)} of {len(findings)} verdicts are as the ledger says, in {seconds:.0f} s"
    screen.print(as_expected, highlight=False)
    for finding in wrong:
        more = ": more draws are needed" if finding.verdict == "undecided" else ""
        screen.print(f"{finding.claim} ({finding.status}): {finding.verdict}{more}", style="red", highlight=False)
    for path in files:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)


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
        told = Text(finding.sentence + " ").append(Text(f"[{finding.evidence}]", style="cyan"))
        table.add_row(
            finding.claim,
            finding.status,
            Text(finding.verdict, style="green" if finding.ok else "bold red"),
            f"{finding.draws:,}",
            "" if finding.margin is None else f"{finding.margin:.1e}",
            "" if finding.closeness is None else f"{finding.closeness:.0e}",
            "" if finding.worst is None else f"{finding.worst:.1e}",
            told if full else finding.evidence,
        )
    return table


def _list(screen: Any, findings: list[Finding], *, full: bool) -> None:
    """The same for a narrow screen: a line for each claim, its words below."""
    for finding in findings:
        margin = "" if finding.margin is None else f", margin {finding.margin:.1e}"
        worst = "" if finding.worst is None else f", worst found {finding.worst:.1e} ({finding.searched:,} searched)"
        line = f"{finding.claim} ({finding.status}) {finding.verdict}: {finding.draws:,} draws{margin}{worst}"
        screen.print(line, style="green" if finding.ok else "bold red", highlight=False)
        words = f"{finding.sentence} [{finding.evidence}]" if full else finding.evidence
        screen.print(f"  {words}", highlight=False)
