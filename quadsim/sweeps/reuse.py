"""Which rows of a store the current code would reproduce, and why not the others.

Nothing that a store names is loaded or run: its fingerprints are compared with those of optimizers already loaded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from quadsim._validation import InputError
from quadsim.keys import DEFAULT_OPTIMIZERS
from quadsim.optimizers import OPTIMIZERS
from quadsim.sweeps import fingerprint
from quadsim.sweeps.grid import Grid, combinations
from quadsim.sweeps.store.database import Store, has_types
from quadsim.sweeps.store.verify import KEY_HALF

MAX_CELLS_COUNTED = 200_000  # one by one, in all sweeps of a store together
MAX_CONFIGS_BUILT = 10_000  # optimizer configurations, likewise
MAX_MODULES_NAMED = 6  # in a reason


@dataclass
class Reuse:
    """The number of rows by the current code, of stale rows by reason, and of rows that only rules= can check."""

    reusable: int = 0
    stale: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


def reuse(store: Store) -> Reuse:
    """The number of rows of a store that a sweep can reuse."""
    found, codes = Reuse(), store.codes()
    if not store.current:
        found.stale["written by an earlier release: sweep into a new store"] = len(store)
        return found
    for code, count in store.rows_by_code().items():
        parts = codes.get(code)
        if parts is None:
            found.stale["its fingerprint is missing"] += count
        elif not _is_parts(parts):
            found.stale["its fingerprint cannot be read"] += count
        elif parts["own"] and not _is_rule(parts["optimizer"]):
            found.unknown[f"the rule {parts['optimizer']} is not loaded: rules=FILE checks it"] += count
        elif reason := _why_stale(code, parts):
            found.stale[reason] += count
        else:
            found.reusable += count
    return found


def _is_parts(parts: dict[str, Any]) -> bool:
    parts = {"data": {}, **parts}
    types = {"optimizer": str, "engine": str, "noisy": bool, "own": bool, "kernel": str}
    if not has_types(parts, **types, modules=dict, versions=dict, data=dict):
        return False
    texts = [text for name in ("modules", "versions", "data") for text in parts[name].values()]
    return parts["engine"] in ("closed-form", "compiled") and all(isinstance(text, str) for text in texts)


def _is_rule(name: str) -> bool:
    """Whether a user-defined optimizer of this name is loaded."""
    return name in OPTIMIZERS and OPTIMIZERS[name].user_defined


def _why_stale(code: bytes, parts: dict[str, Any]) -> str | None:
    """Why rows with this fingerprint would be recomputed; None if they would not."""
    name = parts["optimizer"]
    if name not in OPTIMIZERS or OPTIMIZERS[name].user_defined != parts["own"]:
        return f"there is no optimizer {name} any more"
    try:
        new = fingerprint.of_cell(OPTIMIZERS[name], parts["engine"], parts["noisy"])
    except InputError as error:
        return str(error)
    data = {network: fingerprint.of_network(network) for network in parts.get("data", {})}
    if fingerprint.code_half(new, "".join(data.values())) == code:
        return None
    return "; ".join(differences(parts, {**new.parts(), "data": data})) or "the way code is hashed changed"


def differences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The differences of two fingerprints of one kind of cell."""
    modules, found = list(_changed(old, new, "modules")), []
    if modules:
        more = f" and {len(modules) - MAX_MODULES_NAMED} more" if len(modules) > MAX_MODULES_NAMED else ""
        found.append(f"code of {', '.join(modules[:MAX_MODULES_NAMED])}{more} changed")
    if old["kernel"] != new["kernel"] and (old["own"] or not modules):
        found.append(f"the rule {old['optimizer']} changed" if old["own"] else "the kernel changed")
    found += [f"{name} {before} → {after}" for name, (before, after) in _changed(old, new, "versions").items()]
    return found + [f"the spectra of {name} changed" for name in _changed({"data": {}, **old}, new, "data")]


def _changed(old: dict[str, Any], new: dict[str, Any], part: str) -> dict[str, tuple[str, str]]:
    """The old and new values in which a part of two fingerprints differs, by name."""
    names = sorted({*old[part], *new[part]})
    values = {name: (old[part].get(name, "absent"), new[part].get(name, "absent")) for name in names}
    return {name: (before, after) for name, (before, after) in values.items() if before != after}


class Progress:
    """The number of cells of each stored sweep that have a row, by any code.

    Cells are counted one by one, up to a limit for all sweeps together. Beyond it, or with user-defined rules that are
    not loaded, the count in the sweep's record is used, which misses rows added later by other sweeps.
    """

    def __init__(self, halves: set[bytes]) -> None:
        self._halves = halves
        self._cells_left, self._configs_left = MAX_CELLS_COUNTED, MAX_CONFIGS_BUILT

    def done(self, one: dict[str, Any]) -> tuple[int | None, bool]:
        """The number of cells of a sweep that are done, and whether it is exact or a lower bound."""
        keys = {key: text for key, text in one["keys"].items() if key != "rules"}  # rules are never loaded from a store
        try:
            everything, of_one = combinations(keys, keys.get("optimizers", DEFAULT_OPTIMIZERS).split(","))
            if everything <= self._cells_left and of_one <= self._configs_left:
                self._cells_left, self._configs_left = self._cells_left - everything, self._configs_left - of_one
                grid = Grid.read(keys, limit=MAX_CELLS_COUNTED)
                return sum(key[:KEY_HALF] in self._halves for key in grid.iter_keys()), True
        except Exception:  # a rule that is not loaded, a key that no longer exists
            pass
        return one["done"], one["done"] == one["cells"]
