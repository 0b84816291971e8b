"""Sweeps: a grid of cells, cut into chunks, run anywhere, stored once.

`axes` reads what varies, `grid` makes cells of it, `code` says what computes them, `cells` runs those of one problem,
`places` and `cluster` are where chunks run, `running` brings all of it into a store.
"""

from quadsim.sweeps.grid import LIMIT, Grid
from quadsim.sweeps.running import Plan, place, plan, run, sweep

__all__ = ["LIMIT", "Grid", "Plan", "place", "plan", "run", "sweep"]
