"""List the cases, optimizers, laws, measured networks and claims.

python -m quadsim list
python -m quadsim list optimizers rules=mine.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    for kind in kinds:
        print(kind)
        for entry in listed[kind]:
            first, second, *rest = entry.items()
            options = rest if kind == "optimizers" else []
            settings = "  ".join(f"{key}={'best' if value is None else value}" for key, value in options)
            print(f"  {first[1]!s:<18}{second[1]}{'   ' + settings if settings else ''}")


def _title(measured: Measured) -> str:
    settings = measured.provenance["settings"]
    trained = f", after {settings['trained']} steps of training" if settings["trained"] else ""
    where = f"{settings['mode']} mode, seed {settings['seed']}{trained}"
    return f"{len(measured.blocks)} blocks, {where}: {settings['architecture']}"
