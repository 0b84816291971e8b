"""Find the line of a user-defined rule that gave NaN: repeat the run up to that step, and take the step in Python."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from quadsim.engine.compiled import compiler
from quadsim.engine.compiled.kernel_source import setting_names
from quadsim.engine.compiled.lane_arrays import Job, Lane, LaneArrays
from quadsim.optimizers import rule_errors

MAX_STEPS_BACK = 16  # from the last step of a lane to the step at which the rule gave NaN


def find_nan(job: Job, lane: Lane, last_step: int) -> None:
    """Raise with the line of the rule if it gave NaN in one of the last steps of a lane."""
    arrays = LaneArrays(job, [lane], compiler.single_lane_kernel(type(lane.optimizer), job.noise.any))
    arrays.advance(max(last_step - MAX_STEPS_BACK, 0))
    while arrays.t < last_step:
        e, g, state, shared_state = (array.copy() for array in (arrays.e, arrays.g, arrays.state, arrays.shared_state))
        step = arrays.advance(arrays.t + 1)  # also computes the noise and the shared_state of this step
        if np.isnan(arrays.state).any() or np.isnan(arrays.shared_state).any():
            break
    kind, problem = arrays.kind, job.problem
    lr_scale = job.schedule.factors(step, step, job.max_steps)[0]
    seen = arrays.workspace[0] if job.noise.any else g
    before = {name: shared_state[c, 0] for c, name in enumerate(kind.shared_state)}
    after = {name: arrays.shared_state[c, 0] for c, name in enumerate(kind.shared_state)}
    ends = {"coordinate": np.arange(problem.dim + 1), "block": np.cumsum([0, *problem.sizes])}
    for low, high in itertools.pairwise(ends.get(kind.scope, np.array([0, problem.dim]))):
        part: Any = low if kind.scope == "coordinate" else slice(low, high)
        block = np.searchsorted(np.cumsum(problem.sizes), low, side="right")
        values = {"g": seen[part], "w": (e + problem.minimizer)[part], "random": arrays.workspace[3][part]}
        values |= {"step": np.zeros(high - low), "t": float(step)}
        values |= {name: state[s][part] for s, name in enumerate(kind.state)}
        for name in setting_names(kind):
            value = float(np.broadcast_to(getattr(lane.optimizer, name), len(problem.sizes))[block])
            values[name] = value * lr_scale if name == "lr" else value
        if kind.once_per_step is not None and low == 0:
            rule_errors.find_nan(kind.once_per_step, values | before, (), step)
        changed = () if kind.scope == "coordinate" else ("step", *kind.state)
        rule_errors.find_nan(kind.rule, values | after, changed, step)
