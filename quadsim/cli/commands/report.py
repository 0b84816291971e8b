"""Put your results, published figures with verdicts, and claims on one HTML page.

python -m quadsim report
python -m quadsim report figures=FOLDER out=page.html
"""

from __future__ import annotations

import os
from pathlib import Path

from quadsim._format import counted
from quadsim._validation import InputError, shown
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.keys import Key, select

KEYS = select(
    Key("figures", "text", "the folder of results: out= of other commands", default="figures", shape="FOLDER"),
    Key("out", "text", "the page (report.html in that folder)", shape="FILE.html"),
)


def main(line: CommandLine) -> None:
    folder = Path(line.values["figures"])
    path = Path(line.values["out"]) if "out" in line.values else folder / "report.html"
    if not os.path.isdir(folder):
        raise InputError(f"figures={shown(str(folder))} is not a folder: give the one that results are in")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"out={shown(str(path))} must end in .html: write for example out=report.html")
    if os.path.isdir(path):
        raise InputError(f"out={shown(str(path))} is a folder: write for example out=report.html")
    from quadsim import _artifacts
    from quadsim.bench import machine
    from quadsim.reproduce import report as pages
    from quadsim.reproduce.markdown import verdict_counts
    from quadsim.reproduce.records import read_records, read_results

    _artifacts.check_file(path)
    text = pages.page(folder, machine.facts(), _artifacts.versions())
    _artifacts.write_text(path, text)
    figures, size, own = read_records(folder), path.stat().st_size, len(read_results(folder))
    result = {
        "file": str(path),
        "bytes": size,
        "figures": len(figures),
        "results": own,
        "verdicts": verdict_counts(figures),
    }
    counts = f"{counted(own, 'result')} of yours, {counted(len(figures), 'published figure')}"
    summary = f"{counts}, {result['verdicts'] or 'no verdicts yet'}; {size / 1e6:.2g} MB"
    outputs.report(line, result, lambda screen: screen.print(f"wrote {path}: {summary}", soft_wrap=True))
