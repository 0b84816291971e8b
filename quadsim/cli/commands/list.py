"""List the cases, optimizers, laws, measured networks and claims.

python -m quadsim list                           the names
python -m quadsim list claims                    what each claim says
python -m quadsim list optimizers rules=mine.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim import _validation as checks
from quadsim import keys
from quadsim.cli.arguments import CommandLine
from quadsim.cli.outputs import to_json

if TYPE_CHECKING:
    from quadsim.spectra import Measured

KEYS = keys.select("rules")
NAMES = True


def main(line: CommandLine) -> None:
    from quadsim import claims, optimizers, spectra
    from quadsim.optimizers import from_keys
    from quadsim.problems import cases

    from_keys.load_rules(line.values.get("rules", ()))
    listed = {
        "cases": [{"case": number, "title": recipe.title} for number, recipe in cases.CASES.items()],
        "optimizers": [
            {"optimizer": name, "label": kind.label, **kind().settings()}
            for name, kind in optimizers.OPTIMIZERS.items()
        ],
        "spectra": [
            {"law": name, "title": draw.__doc__, **(draw.__kwdefaults__ or {})} for name, draw in spectra.LAWS.items()
        ],
        "networks": [{"network": name, "title": _title(measured)} for name, measured in spectra.library().items()],
        "claims": [{"claim": claim.id, "title": claim.sentence, "status": claim.status} for claim in claims.select()],
    }
    kinds = [checks.choice("list", kind, listed) for kind in line.names] or [*listed]
    if line.json:
        print(to_json({kind: listed[kind] for kind in kinds}))
        return
    if not line.names and not line.texts:
        _print_names(listed)
        return
    for kind in kinds:
        print(kind)
        for entry in listed[kind]:
            first, second, *rest = entry.items()
            options = rest if kind == "optimizers" else []
            settings = "  ".join(f"{key}={'best' if value is None else value}" for key, value in options)
            print(f"  {first[1]!s:<18}{second[1]}{'   ' + settings if settings else ''}")


def _print_names(listed: dict[str, list[dict[str, Any]]]) -> None:
    """The names of each list, with what the cases are; of the claims, which are many, the number."""
    import textwrap

    for kind, entries in listed.items():
        if kind == "cases":
            print(kind, *(f"  {entry['case']}  {entry['title']}" for entry in entries), sep="\n")
            continue
        named = [str(next(iter(entry.values()))) for entry in entries]
        text = f"{len(named)} of the ledger" if kind == "claims" else ", ".join(named)
        start = f"{kind:<12}"
        print(textwrap.fill(text, 110, initial_indent=start, subsequent_indent=" " * 12, break_on_hyphens=False))
    print("python -m quadsim list claims (or another of these): what each is")


def _title(measured: Measured) -> str:
    settings = measured.provenance["settings"]
    trained = f", after {settings['trained']} steps of training" if settings["trained"] else ""
    where = f"{settings['mode']} mode, seed {settings['seed']}{trained}"
    return f"{len(measured.blocks)} blocks, {where}: {settings['architecture']}"
