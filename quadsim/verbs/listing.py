"""`list`: the cases, optimizers, laws, measured networks and claims there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from quadsim import checks, grammar
from quadsim.grammar import Words

if TYPE_CHECKING:
    from quadsim.spectra import Measured


def show_list(words: Words) -> None:
    """`list`, `list optimizers`: what there is."""
    from quadsim import cases, claims, optimizers, own, spectra

    kinds, words.bare = words.bare, []
    keys = grammar.only(words, ("rules",), "list optimizers rules=mine.py")
    for path in grammar.several("rules", keys["rules"]) if "rules" in keys else []:
        own.load(path)
    there = {
        "cases": [{"case": number, "title": recipe.title} for number, recipe in cases.CASES.items()],
        "optimizers": [
            {"optimizer": name, "label": kind.label, **kind().settings()}
            for name, kind in optimizers.OPTIMIZERS.items()
        ],
        "spectra": [
            {"law": name, "title": draw.__doc__, **(draw.__kwdefaults__ or {})} for name, draw in spectra.LAWS.items()
        ],
        "networks": [{"network": name, "title": _title(measured)} for name, measured in spectra.library().items()],
        "claims": [{"claim": one.id, "title": one.sentence, "status": one.status} for one in claims.chosen()],
    }
    kinds = [checks.choice("list", kind, there) for kind in kinds] or list(there)
    if "--json" in words.flags:
        print(json.dumps({kind: there[kind] for kind in kinds}, indent=2, ensure_ascii=False))
        return
    for kind in kinds:
        print(kind)
        for entry in there[kind]:
            first, second, *rest = entry.items()
            options = rest if kind == "optimizers" else []
            settings = "  ".join(f"{key}={'best' if value is None else value}" for key, value in options)
            print(f"  {first[1]!s:<18}{second[1]}{'   ' + settings if settings else ''}")


def _title(measured: Measured) -> str:
    told = measured.provenance["settings"]
    trained = f", after {told['trained']} steps of training" if told["trained"] else ""
    return f"{len(measured.blocks)} blocks, {told['mode']} mode, seed {told['seed']}{trained}: {told['architecture']}"
