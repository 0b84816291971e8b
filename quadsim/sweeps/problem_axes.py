"""The problems of a grid: every combination of the problem's keys, or user-defined problems."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from quadsim import _validation as checks
from quadsim import keys
from quadsim._validation import InputError, InputTypeError
from quadsim.keys import KEYS, PROBLEM_AXES
from quadsim.problems import build
from quadsim.problems.block_quadratic import BlockQuadratic
from quadsim.problems.cases import CASES, KAPPA, UNSHIFTED
from quadsim.sweeps import axes

Values = dict[str, Any]  # of a problem's keys


@dataclass(frozen=True)
class Problems:
    """Problems by their axes. A key without effect on a problem but with effect on others does not multiply it."""

    axes: dict[str, tuple[Any, ...]]

    @cached_property
    def _swept(self) -> set[str]:
        return {key for key, values in self.axes.items() if len(values) > 1}

    @cached_property
    def _may_coincide(self) -> bool:
        """Whether two combinations can be the same problem."""
        left_out = any(None in values and len(values) > 1 for values in self.axes.values())
        conditional = {"blocks", "block_size", "map"} | {key for key in PROBLEM_AXES if KEYS[key].requires}
        return left_out or (bool(self._swept & conditional) and len(self._swept) > 1)

    def __iter__(self) -> Iterator[Values]:
        seen: set[str] = set()
        for values in axes.product(self.axes):
            if self._swept:
                values = self._with_effect(values)
            if self._may_coincide:
                name = axes.definition(with_defaults(values))
                if name in seen:
                    continue
                seen.add(name)
            yield values

    @cached_property
    def count(self) -> int:
        return sum(1 for _ in self) if self._may_coincide else math.prod(len(values) for values in self.axes.values())

    def _with_effect(self, values: Values) -> Values:
        """Drop keys that have no effect because of the value of a swept key."""
        gone = {key for key in values if key in KEYS and not keys.fulfilled(KEYS[key], values) and self._usable(key)}
        if "case" in self._swept and not _measured(values.get("case")) and any(map(_measured, self.axes["case"])):
            gone.add("blocks")
        if "spectrum" in self._swept and not isinstance(values.get("spectrum", ""), str):
            gone |= {"blocks", "block_size"}
        if "kappa" in self._swept and "kappa" not in values and not _measured(values.get("case")):
            gone.add("map")
        return {key: value for key, value in values.items() if key not in gone} if gone & values.keys() else values

    def _usable(self, key: str) -> bool:
        """Whether a key has an effect for some value of a swept key that it requires."""
        names = {one.partition("=")[0] for one in KEYS[key].requires.split("|")} & self._swept
        return any(keys.fulfilled(KEYS[key], {name: value}) for name in names for value in self.axes[name] if value)


def with_defaults(values: Values) -> Values:
    """Fill in defaults, so that equal problems have equal keys."""
    if "problem" in values:
        return values
    accepted = build.keys_of(values.get("case"))
    full = {
        key: KEYS[key].default_value
        for key in PROBLEM_AXES
        if key in accepted and KEYS[key].default_value is not None and keys.fulfilled(KEYS[key], values)
    }
    if "case" in values:
        recipe = CASES[values["case"]]
        full |= {"block_size": recipe.block_size, "map": recipe.map}
        if values.get("map") not in UNSHIFTED:
            full["kappa"] = KAPPA
        if recipe.network is not None:
            full |= {"network": recipe.network} | ({"threshold": 0.1} if values.get("sampling") == "above" else {})
        elif recipe.heterogeneity is not None:
            full["heterogeneity"] = recipe.heterogeneity
    elif isinstance(values.get("spectrum"), str):
        full |= {"blocks": build.LAW_BLOCKS, "block_size": build.LAW_BLOCK_SIZE}
        full |= {"kappa": KAPPA, "heterogeneity": build.LAW_HETEROGENEITY}
    elif "kappa" in values:
        full["map"] = "affine"
    full |= values
    if full["span"] == "whole":
        full.pop("heterogeneity", None)
    return full


def _measured(case: int | None) -> bool:
    return case is not None and CASES[case].network is not None


# ---- user-defined problems


class UserProblem:
    """A user-defined problem for a seed. It is pickled as the problem, not as the function that draws it."""

    def __init__(self, source: Callable[[int], BlockQuadratic] | BlockQuadratic, seed: int = 0) -> None:
        self._source, self._seed = source, seed
        self._by_seed: dict[int, UserProblem] = {}

    def with_seed(self, seed: int) -> UserProblem:
        return self._by_seed.setdefault(seed, UserProblem(self._source, seed))

    def make(self) -> BlockQuadratic:
        drawn = self._source if isinstance(self._source, BlockQuadratic) else self._source(self._seed)
        if not isinstance(drawn, BlockQuadratic):
            raise InputTypeError(f"problem(seed) must return a BlockQuadratic, got {checks.shown(drawn)}")
        return drawn

    def __reduce__(self) -> tuple[Any, ...]:
        return UserProblem, (self.make(), self._seed)

    @cached_property
    def digest(self) -> str:
        """A hash of the problem's data."""
        problem, digest = self.make(), hashlib.sha256()
        for array in (*problem.blocks, *problem.eigenvalues, problem.minimizer):
            digest.update(f"{array.shape}".encode())
            digest.update(array.tobytes())
        return digest.hexdigest()


def user_problems(given: Any, first_seed: int) -> dict[str, UserProblem]:
    """User-defined problems by name; the names must differ."""
    listed = [given] if isinstance(given, BlockQuadratic) or callable(given) else given
    if not isinstance(listed, list | tuple) or not listed:
        raise InputTypeError(
            f"problem must be a BlockQuadratic, a function of the seed, or a list of them, got {checks.shown(given)}"
        )
    found: dict[str, UserProblem] = {}
    for one in listed:
        if not (isinstance(one, BlockQuadratic) or callable(one)):
            raise InputTypeError(f"problem must be a BlockQuadratic or a function, got {checks.shown(one)}")
        problem = UserProblem(one, first_seed)
        name = problem.make().name
        if name in found:
            raise InputError(f"two problems are named {name!r}: give them different names")
        found[name] = problem
    return found
