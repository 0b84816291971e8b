"""quadsim: a simulator and theory testbed for optimizers on block-diagonal quadratics.

    import quadsim as qs

    problem = qs.case(3, seed=0)
    run = qs.solve(problem, qs.FrozenAdam())
    run.steps_to_tol, run.status, run.loss

Names are imported when they are first used, so that `import quadsim` is fast. The examples in docstrings assume
``import numpy as np`` and ``import quadsim as qs``.
"""

# No `from __future__ import`: it is an import, during which SIGINT would print a traceback. Until the handler
# is installed, only modules that are already loaded may be imported.
import os
import sys


def _is_entry_point() -> bool:
    """Whether this is `python -m quadsim` or the script `quadsim`, and not a program that imports quadsim."""
    if sys.argv[:1] == ["-m"]:
        return sys.orig_argv[-len(sys.argv)] in ("quadsim", "-mquadsim")
    return os.path.basename(sys.argv[0] if sys.argv else "") in ("quadsim", "quadsim.exe")


def _end_interrupted(*_: object) -> None:
    try:
        os.write(2, b"quadsim: interrupted\n")
    finally:
        os._exit(130)


try:  # end on Ctrl-C without a traceback from here on; `quadsim.__main__` replaces this handler
    if _is_entry_point():
        import _signal  # type: ignore[import-not-found]  # built in; `signal` imports enum, which takes milliseconds

        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _end_interrupted)
except KeyboardInterrupt:
    if not _is_entry_point():
        raise
    _end_interrupted()

import importlib  # noqa: E402
import time  # noqa: E402
from typing import Any  # noqa: E402

_LOAD_TIME = time.time_ns()  # source files edited later differ from the code that runs here

_EXPORTS = {  # the public names, by the module that defines them
    "problems.block_quadratic": ("BlockQuadratic",),
    "problems.build": ("problem",),
    "problems.cases": ("case", "case_spectra"),
    "problems.noise": ("Noise",),
    "spectra": ("partition",),
    "optimizers": ("Optimizer",),  # and the class of every built-in optimizer, found by `_discovery`
    "optimizers.user_rules": ("rule",),
    "optimizers.schedules": ("Schedule",),
    "engine.solver": ("solve",),
    "engine.closed_form.exact": ("exact",),
    "engine.trajectory": ("Runs", "Status", "Trajectory"),
    "comparison.paired": ("Comparison", "compare"),
    "comparison.profiles": ("performance_profile",),
    "comparison.tuning": ("Tuned", "tune"),
    "sweeps.runner": ("sweep",),
    "engine": ("table",),
    "": ("optimizers", "plots", "spectra", "theory"),
}
_HOMES = {name: module for module, names in _EXPORTS.items() for name in names}


def _homes() -> dict[str, str]:
    """Every public name with its module; reading the files of optimizers takes a millisecond, so not on import."""
    infos = importlib.import_module("quadsim._discovery").optimizers()
    return {**_HOMES, **{info.class_name: "optimizers" for info in infos}}


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return sorted(_homes())
    home = _HOMES.get(name, _homes().get(name) if name[0].isupper() else None)
    if home is not None:
        if home in ("", "engine"):
            return importlib.import_module(".".join(filter(None, ("quadsim", home, name))))
        return getattr(importlib.import_module(f"quadsim.{home}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("quadsim")
    raise AttributeError(f"module 'quadsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*_homes(), "__version__", *(name for name in globals() if name.startswith("__"))})
