"""The scripts of the published figures: all experiments/*.py with a `REPRODUCTION`."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from pathlib import Path

from quadsim import _files
from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.reproduce.reproduction import Reproduction

MAX_SCRIPT_BYTES = 2**20
CLONE = Path(__file__).parents[2]


def find(names: Iterable[str] = ()) -> list[Path]:
    """The scripts with these names or paths; without any, all scripts in their order.

    Names are looked up in experiments/ of the working folder, then of the clone that this package is imported from. An
    installed package has no scripts.
    """
    known = _scripts_in(Path("experiments")) or _scripts_in(CLONE / "experiments")
    chosen = []
    for name in names or known or [""]:
        if not name.endswith(".py"):
            if not known:
                raise InputError(
                    "the scripts (experiments/) are not installed with the package: work in a clone of quadsim, or "
                    "give the path of a script"
                )
            name = str(known[checks.choice("figure", name.replace("-", "_"), known)])
        chosen.append(_files.check_file("", name, at_most=MAX_SCRIPT_BYTES))
    return list({path.resolve(): path for path in chosen}.values())


def is_slow(path: Path) -> bool:
    """Whether the script is declared ``slow=True``."""
    return "slow=True" in _declaration(path)


def load(path: Path) -> Reproduction:
    """Run the script and return its REPRODUCTION."""
    spec = importlib.util.spec_from_file_location(f"quadsim_experiment_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"{path} is not a Python script: give one such as experiments/zhang_four_cases.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    spec.loader.exec_module(module)
    reproduction = getattr(module, "REPRODUCTION", None)
    if not isinstance(reproduction, Reproduction):
        raise InputError(f"{path} has no REPRODUCTION: end the script with REPRODUCTION = Reproduction(…)")
    return reproduction


def _scripts_in(folder: Path) -> dict[str, Path]:
    """The scripts in a folder by name, in the order that they declare."""
    orders = {}
    for path in sorted(path for path in folder.glob("*.py") if path.is_file()):
        declaration = _declaration(path)
        if declaration:
            order = re.search(r"\border=(\d+)", declaration)
            orders[path] = int(order[1]) if order else Reproduction.order
    return {path.stem: path for path in sorted(orders, key=orders.__getitem__)}


def _declaration(path: Path) -> str:
    """The text of a script from `REPRODUCTION = ` on. The script is not run: it may be slow to import, or broken."""
    return path.read_text(encoding="utf-8", errors="replace").partition("\nREPRODUCTION = ")[2]
