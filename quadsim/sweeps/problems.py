"""The problems of a grid: every combination of the keys that say what a problem is, seeds apart."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from quadsim.cases import CASES, KAPPA
from quadsim.sweeps.axes import Value, is_word, number

MEASURED_KEYS = ("network", "rule", "sign", "pool", "threshold")  # for cases whose spectra are measured

Said = dict[str, str]


@dataclass(frozen=True)
class Problems:
    """Problems by their axes. What has no effect on a problem, but has on others, does not multiply it."""

    axes: dict[str, tuple[Value, ...]]

    @cached_property
    def _several(self) -> set[str]:
        return {key for key, values in self.axes.items() if len(values) > 1}

    @cached_property
    def _may_meet(self) -> bool:
        """Whether two combinations can be the same problem."""
        left_out = any(None in values and len(values) > 1 for values in self.axes.values())
        without_effect = self._several & {*MEASURED_KEYS, "blocks", "block_size", "map", "heterogeneity"}
        return left_out or (bool(without_effect) and len(self._several) > 1)

    def __iter__(self) -> Iterator[Said]:
        seen: set[str] = set()
        for chosen in itertools.product(*self.axes.values()):
            said = {key: text for key, text in zip(self.axes, chosen, strict=True) if text is not None}
            if self._several:
                said = self._with_effect(said)
            if self._may_meet:
                name = json.dumps(in_full(said), sort_keys=True)
                if name in seen:
                    continue
                seen.add(name)
            yield said

    @cached_property
    def count(self) -> int:
        return sum(1 for _ in self) if self._may_meet else math.prod(len(values) for values in self.axes.values())

    def _with_effect(self, said: Said) -> Said:
        gone: set[str] = set()
        if "case" in self._several and not _measured(said.get("case")) and any(map(_measured, self.axes["case"])):
            gone |= {*MEASURED_KEYS, "blocks"}
        if "rule" in self._several:
            gone |= {"threshold"} if said.get("rule") != "above" else set()
            gone |= {"pool"} if said.get("rule", "leading") != "leading" else set()
        if "spectrum" in self._several and not is_word(said.get("spectrum", "law")):
            gone |= {"blocks", "block_size"}
        if "kappa" in self._several and "kappa" not in said and not _measured(said.get("case")):
            gone.add("map")
        if "basis" in self._several and said.get("basis") == "whole":
            gone.add("heterogeneity")
        return {key: text for key, text in said.items() if key not in gone} if gone & said.keys() else said


def in_full(said: Said) -> Said:
    """What a problem's keys say, with what is usual where they are silent: one problem, one set of keys."""
    usual: Said = {"rotation": "1", "basis": "blocks", "minimizer": "gaussian"}
    if "case" in said:
        recipe = CASES[int(said["case"])]
        usual |= {"block_size": str(recipe.block_size), "map": recipe.map}
        if said.get("map") != "unshifted":
            usual["kappa"] = number(KAPPA)
        if recipe.network is not None:
            usual |= {"network": recipe.network, "rule": "leading", "sign": "magnitude"}
            usual |= {"threshold": "0.1"} if said.get("rule") == "above" else {}
        elif recipe.heterogeneity is not None:
            usual["heterogeneity"] = number(recipe.heterogeneity)
    elif is_word(said.get("spectrum", "")):
        usual |= {"blocks": "3", "block_size": "3", "kappa": number(KAPPA), "heterogeneity": "1"}
    elif "kappa" in said:
        usual["map"] = "affine"
    full = usual | said
    if full["basis"] == "whole":
        full.pop("heterogeneity", None)
    return full


def _measured(case: Value) -> bool:
    return case is not None and CASES[int(case)].network is not None
