"""quadsim: the lab bench on which optimizer theory is tested.

    import quadsim as qs

    problem = qs.case(3, seed=0)
    run = qs.solve(problem, qs.FrozenAdam())
    run.steps_to_tol, run.status, run.loss

Names are imported when they are first used, so that `import quadsim` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quadsim import optimizers, plots, spectra, table, theory
    from quadsim.cases import case, case_spectra
    from quadsim.closed import exact
    from quadsim.optimizers import GD, Adam, BlockGD, FrozenAdam, HeavyBall, Nesterov, Optimizer
    from quadsim.problem import BlockQuadratic
    from quadsim.solver import Lanes, solve, solve_draws, solve_lanes
    from quadsim.spectra import deal
    from quadsim.trajectory import Status, Trajectory

__all__ = [  # noqa: RUF022
    # problems
    "BlockQuadratic", "case", "case_spectra", "deal", "spectra",
    # optimizers
    "GD", "Adam", "BlockGD", "FrozenAdam", "HeavyBall", "Nesterov", "Optimizer", "optimizers",
    # running them
    "Lanes", "Status", "Trajectory", "exact", "solve", "solve_draws", "solve_lanes",
    # what must happen, and what did
    "plots", "table", "theory",
]  # fmt: skip

_HOMES = {
    "BlockQuadratic": "problem", "case": "cases", "case_spectra": "cases", "deal": "spectra",
    "GD": "optimizers", "Adam": "optimizers", "BlockGD": "optimizers", "FrozenAdam": "optimizers",
    "HeavyBall": "optimizers", "Nesterov": "optimizers", "Optimizer": "optimizers",
    "Lanes": "solver", "Status": "trajectory", "Trajectory": "trajectory", "exact": "closed",
    "solve": "solver", "solve_draws": "solver", "solve_lanes": "solver",
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
