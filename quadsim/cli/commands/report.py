"""Put verdicts, figures, claims and facts of the machine on one HTML page, with an explorer of the cases.

python -m quadsim report
python -m quadsim report figures=FOLDER out=page.html
"""

from __future__ import annotations

import os
from pathlib import Path

from quadsim._validation import InputError, shown
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.cli.outputs import print_json
from quadsim.keys import Key

KEYS = {
    "figures": Key("figures", "text", "the folder that reproduce writes to", default="figures", shape="FOLDER"),
    "out": Key("out", "text", "the page (report.html in that folder)", shape="FILE.html"),
}


def main(line: CommandLine) -> None:
    folder = Path(line.values["figures"])
    path = Path(line.values["out"]) if "out" in line.values else folder / "report.html"
    if not os.path.isdir(folder):
        raise InputError(f"figures={shown(str(folder))} is not a folder: give the one that reproduce writes to")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"out={shown(str(path))} must end in .html: write for example out=report.html")
    if os.path.isdir(path):
        raise InputError(f"out={shown(str(path))} is a folder: write for example out=report.html")
    from quadsim import _artifacts
    from quadsim.bench import machine
    from quadsim.reproduce import report as pages
    from quadsim.reproduce.markdown import verdict_counts
    from quadsim.reproduce.records import read_records

    _artifacts.check_file(path)
    text = pages.page(folder, machine.facts(), _artifacts.versions())
    _artifacts.write_text(path, text)
    made, size = read_records(folder), path.stat().st_size
    result = {"file": str(path), "bytes": size, "figures": len(made), "verdicts": verdict_counts(made)}
    if line.json:
        print_json(result)
        return
    summary = f"{len(made)} figures, {result['verdicts'] or 'no verdicts yet'}; {size / 1e6:.2g} MB"
    console().print(f"wrote {path}: {summary}", highlight=False, soft_wrap=True)
