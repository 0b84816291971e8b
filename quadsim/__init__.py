"""quadsim: the lab bench on which optimizer theory is tested.

    import quadsim as qs

    problem = qs.case(3, seed=0)
    run = qs.solve(problem, qs.FrozenAdam())
    run.steps_to_tol, run.status, run.loss

Names are imported when they are first used, so that `import quadsim` costs nothing.
"""

# No `from __future__ import`, which is an import like any other: SIGINT during it would print a traceback. Until the
# handler is installed, only modules that are already loaded may be imported.
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
from typing import TYPE_CHECKING, Any  # noqa: E402

_LOAD_TIME = time.time_ns()  # source that is edited later is not the code that runs here

if TYPE_CHECKING:
    from quadsim import optimizers, plots, spectra, table, theory
    from quadsim.cases import case, case_spectra
    from quadsim.closed import exact
    from quadsim.comparison import Comparison, compare
    from quadsim.noise import Noise
    from quadsim.optimizers import (
        GD,
        SGD,
        AdaGrad,
        Adam,
        AdamMini,
        AdamVariance,
        AdamW,
        AdaSGD,
        AMSGrad,
        BlockGD,
        FrozenAdam,
        HeavyBall,
        Lion,
        Magma,
        Muon,
        NAdam,
        Nesterov,
        Optimizer,
        RMSProp,
        SignGD,
        Signum,
        SkipUpdate,
    )
    from quadsim.own import rule
    from quadsim.problem import BlockQuadratic
    from quadsim.schedules import Schedule
    from quadsim.solver import Lanes, solve, solve_draws, solve_lanes
    from quadsim.spectra import deal
    from quadsim.sweeps import sweep
    from quadsim.trajectory import Status, Trajectory
    from quadsim.tuning import Tuned, tune

__all__ = [  # noqa: RUF022
    # problems
    "BlockQuadratic", "case", "case_spectra", "deal", "spectra",
    # optimizers
    "GD", "SGD", "AMSGrad", "AdaGrad", "AdaSGD", "Adam", "AdamMini", "AdamVariance", "AdamW", "BlockGD", "FrozenAdam",
    "HeavyBall", "Lion", "Magma", "Muon", "NAdam", "Nesterov", "Optimizer", "RMSProp", "SignGD", "Signum", "SkipUpdate",
    "optimizers", "rule",
    # running them
    "Lanes", "Noise", "Schedule", "Status", "Trajectory", "exact", "solve", "solve_draws", "solve_lanes",
    # comparing them
    "Comparison", "Tuned", "compare", "tune",
    # many of them
    "sweep",
    # what must happen, and what did
    "plots", "table", "theory",
]  # fmt: skip

_HOMES = {
    "BlockQuadratic": "problem", "case": "cases", "case_spectra": "cases", "deal": "spectra",
    "GD": "optimizers", "SGD": "optimizers", "AMSGrad": "optimizers", "AdaGrad": "optimizers", "AdaSGD": "optimizers",
    "Adam": "optimizers", "AdamMini": "optimizers", "AdamVariance": "optimizers", "AdamW": "optimizers",
    "BlockGD": "optimizers", "FrozenAdam": "optimizers", "HeavyBall": "optimizers", "Lion": "optimizers",
    "Magma": "optimizers", "Muon": "optimizers", "NAdam": "optimizers", "Nesterov": "optimizers",
    "Optimizer": "optimizers", "RMSProp": "optimizers", "SignGD": "optimizers", "Signum": "optimizers",
    "SkipUpdate": "optimizers",
    "rule": "own", "Noise": "noise", "Schedule": "schedules",
    "Lanes": "solver", "Status": "trajectory", "Trajectory": "trajectory", "exact": "closed",
    "solve": "solver", "solve_draws": "solver", "solve_lanes": "solver",
    "Comparison": "comparison", "compare": "comparison", "Tuned": "tuning", "tune": "tuning",
    "sweep": "sweeps",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"quadsim.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"quadsim.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("quadsim")
    raise AttributeError(f"module 'quadsim' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
