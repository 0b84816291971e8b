"""`report`: verdicts, figures, claims and the machine in one HTML file that opens from disk and asks for nothing."""

from __future__ import annotations

import json
from pathlib import Path

from quadsim import _files, grammar
from quadsim.checks import InputError, shown
from quadsim.grammar import Words
from quadsim.verbs.screen import console

KEYS = ("figures", "out")


def report(words: Words) -> None:
    """`report`, `report figures=FOLDER out=page.html`: the page, from what the folder holds."""
    keys = grammar.only(words, KEYS, "report out=report.html")
    folder = Path(keys.get("figures", "figures"))
    path = Path(keys["out"]) if "out" in keys else folder / "report.html"
    if not _files.is_folder(folder):
        raise InputError(f"figures={shown(str(folder))} is not a folder: give the one that reproduce writes to")
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(f"out={shown(str(path))} must end in .html: write for example out=report.html")
    if _files.is_folder(path):
        raise InputError(f"out={shown(str(path))} is a folder: write for example out=report.html")
    from quadsim import report as pages
    from quadsim import reproduction, results
    from quadsim.bench import machine

    results.check_file(path)
    text = pages.page(folder, machine.facts(), results.versions())
    results.write_text(path, text)
    made, size = reproduction.recorded(folder), path.stat().st_size
    told = {"file": str(path), "bytes": size, "figures": len(made), "verdicts": reproduction.count(made)}
    if "--json" in words.flags:
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return
    told_of = f"{len(made)} figures, {told['verdicts'] or 'no verdicts yet'}; {size / 1e6:.2g} MB"
    console().print(f"wrote {path}: {told_of}", highlight=False, soft_wrap=True)
