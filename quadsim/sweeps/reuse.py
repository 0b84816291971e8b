"""Which rows of a store the code that is here now would compute in the same way, and why not the others.

Nothing that a store names is loaded or run: fingerprints are compared with those of optimizers that are known already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from quadsim.checks import InputError
from quadsim.optimizers import OPTIMIZERS
from quadsim.store import HALF, Store
from quadsim.sweeps import code
from quadsim.sweeps.grid import Grid, combinations

MOST_WALKED = 200_000  # cells that are looked up one by one, to count those that are there
MOST_DECK = 10_000  # of one problem
MOST_NAMED = 6  # modules in a reason


@dataclass
class Reuse:
    """How many rows are by the code that is here now; how many are not, by reason; how many need rules= to tell."""

    reusable: int = 0
    stale: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)

    def add(self, reason: str | None, count: int, *, known: bool = True) -> None:
        if reason is None:
            self.reusable += count
        else:
            kind = self.stale if known else self.unknown
            kind[reason] = kind.get(reason, 0) + count


def reuse(store: Store) -> Reuse:
    """What a sweep could reuse of a store."""
    found, codes = Reuse(), store.codes()
    for half, count in store.by_code().items():
        parts = codes.get(half)
        if parts is None:
            found.add("computed by an earlier quadsim, which kept no fingerprints", count)
        elif _is_parts(parts) and parts["own"] and not _loaded(parts["optimizer"]):
            found.add(f"the rule {parts['optimizer']} is not loaded: rules=FILE checks it", count, known=False)
        else:
            found.add(_why_not(half, parts) if _is_parts(parts) else "its fingerprint cannot be read", count)
    return found


def _is_parts(parts: dict[str, Any]) -> bool:
    kinds = {"optimizer": str, "engine": str, "noisy": bool, "own": bool, "modules": dict, "kernel": str,
             "versions": dict}  # fmt: skip
    data = parts.get("data", {})
    return (
        all(isinstance(parts.get(name), kind) for name, kind in kinds.items())
        and parts["engine"] in code.ENTRY_POINTS
        and isinstance(data, dict)
        and all(
            isinstance(text, str) for named in (parts["modules"], parts["versions"], data) for text in named.values()
        )
    )


def _loaded(name: str) -> bool:
    return name in OPTIMIZERS and OPTIMIZERS[name].own


def _why_not(half: bytes, parts: dict[str, Any]) -> str | None:
    """Why rows of this fingerprint would be computed again; None if they would not."""
    name = parts["optimizer"]
    if name not in OPTIMIZERS or OPTIMIZERS[name].own != parts["own"]:
        return f"there is no such optimizer {name} now"
    try:
        now = code.of_cell(OPTIMIZERS[name], parts["engine"], parts["noisy"])
    except InputError as error:
        return str(error)
    data = {network: code.of_network(network) for network in parts.get("data", {})}
    if code.code_half(now, "".join(data.values()), HALF) == half:
        return None
    return "; ".join(differences(parts, {**now.parts(), "data": data})) or "the way in which code is compared changed"


def differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """What differs between two fingerprints of one kind of cell."""
    modules = [name for name in sorted({*then["modules"], *now["modules"]})
               if then["modules"].get(name) != now["modules"].get(name)]  # fmt: skip
    found = []
    if modules:
        more = f" and {len(modules) - MOST_NAMED} more" if len(modules) > MOST_NAMED else ""
        found.append(f"code of {', '.join(modules[:MOST_NAMED])}{more} changed")
    if then["kernel"] != now["kernel"] and (then["own"] or not modules):
        found.append(f"the rule {then['optimizer']} changed" if then["own"] else "the kernel changed")
    for name in sorted({*then["versions"], *now["versions"]}):
        versions = [which["versions"].get(name, "absent") for which in (then, now)]
        if versions[0] != versions[1]:
            found.append(f"{name} {versions[0]} → {versions[1]}")
    found += [f"the spectra of {name} changed" for name, digest in now["data"].items() if then["data"][name] != digest]
    return found


class Progress:
    """How many cells of each stored sweep have a row, by whatever code.

    Cells are counted one by one where they are few in all sweeps together. Otherwise, or with a user's rules that are
    not loaded, the sweep's own count is taken, which misses rows that other sweeps have added since.
    """

    def __init__(self, halves: set[bytes]) -> None:
        self._halves = halves
        self._walks, self._deck = MOST_WALKED, MOST_DECK  # cells that may still be looked up, and be made

    def done(self, one: dict[str, Any]) -> tuple[int | None, bool]:
        """How many cells of a sweep are done; whether that is exact, or at least so many."""
        keys = {key: text for key, text in one["keys"].items() if key != "rules"}  # never loaded from here
        try:
            everything, of_one = combinations(keys)
            if everything <= self._walks and of_one <= self._deck:
                self._walks, self._deck = self._walks - everything, self._deck - of_one
                grid = Grid.read(keys, limit=MOST_WALKED)
                return sum(key[:HALF] in self._halves for group in grid.walk() for key in group.keys), True
        except Exception:  # a rule that is not loaded, a key that is no more
            pass
        return one["done"], one["done"] == one["cells"]
