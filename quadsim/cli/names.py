"""Names of cases, optimizers, laws, networks and claims, read without importing what they name.

`list` and completion show them. They come from the constants, decorators and files that define them, so there is no
list to maintain; importing the modules instead would load numpy, which takes longer than a shell waits at a TAB.
"""

from __future__ import annotations

import os
import re
from functools import cache

from quadsim import _discovery, _source, keys

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
CLAIM = re.compile(r'^@[a-z_]+\("([^"]+)"', re.M)  # @proved("2b", …)


def cases() -> tuple[str, ...]:
    return keys.KEYS["case"].words


def optimizers() -> tuple[str, ...]:
    return tuple(info.name for info in _discovery.optimizers())


def spectra() -> tuple[str, ...]:
    """The laws."""
    return keys.KEYS["spectrum"].words


def networks() -> tuple[str, ...]:
    """The measured networks."""
    return tuple(sorted(_stems(os.path.join(_PACKAGE, "spectra", "data"), ".npz")))


def models() -> tuple[str, ...]:
    """The networks that `measure` can build."""
    return tuple(re.findall(r'^    "([^"]+)": Model\(', _source.text("hessian.models"), re.M))


@cache
def claims() -> tuple[str, ...]:
    """The claims, in the order of their sections."""
    modules = _stems(os.path.join(_PACKAGE, "claims"), ".py")
    found = [claim for module in modules for claim in CLAIM.findall(_source.text(f"claims.{module}"))]
    return tuple(sorted(found, key=lambda claim: (int(re.match(r"\d+", claim)[0]), claim)))  # type: ignore[index]


def axes() -> tuple[str, ...]:
    """The keys that a sweep may vary."""
    return keys.AXES


def results() -> tuple[str, ...]:
    """The columns of results of a sweep."""
    return _source.constant("sweeps.axes:RESULTS")


LISTS = {  # of the command `list`, in its order
    "cases": cases,
    "optimizers": optimizers,
    "spectra": spectra,
    "networks": networks,
    "claims": claims,
}


def _stems(folder: str, suffix: str) -> list[str]:
    return [file.removesuffix(suffix) for file in os.listdir(folder) if file.endswith(suffix) and file[0] != "_"]
