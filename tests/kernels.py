"""Parameters of tests that compile a kernel, and are therefore slow; and a run that needs none."""

import inspect
import itertools

import numpy as np
import oracles
import pytest

from quadsim.optimizers import Optimizer

# The optimizers whose kernels for one run the default tests share. One for each kind of rule: linear (gd, heavy-ball),
# with state shared by all coordinates (adam), with settings by block (frozen-adam), for whole blocks (adam-mini).
DEFAULT_KERNELS = {"gd", "block-gd", "heavy-ball", "frozen-adam", "adam", "adam-mini"}


def compiled(values, default=DEFAULT_KERNELS):
    """Parameters of a test that compiles the optimizer given: slow unless its kernel is a default one."""
    return [
        pytest.param(
            value,
            id=repr(value) if isinstance(value, Optimizer) else value.name,
            marks=() if value.name in default else pytest.mark.slow,
        )
        for value in values
    ]


def slow_except(values, *default):
    """Parameters of a test, all slow except those in ``default``."""
    return slow_among(values, *(value for value in values if value not in default))


def slow_among(values, *slow):
    """Parameters of a test, those in ``slow`` slow; a tuple holds the values of several parameters."""
    several = [value if isinstance(value, tuple) else (value,) for value in values]
    marks = [pytest.mark.slow if value in slow else () for value in values]
    return [pytest.param(*parameters, marks=mark) for parameters, mark in zip(several, marks, strict=True)]


def interpreted_path(problem, optimizer, error, steps, seed):
    """The errors of a run whose update rule is evaluated by Python, coordinate by coordinate: no kernel is compiled."""
    kind, blocks = type(optimizer), np.repeat(np.arange(len(problem.sizes)), problem.sizes)
    optimizer = optimizer.with_best_lr(problem, error)
    ends = {"coordinate": range(problem.dim + 1), "block": np.cumsum([0, *problem.sizes]), "all": [0, problem.dim]}
    state = dict(zip(kind.state, optimizer.first_state(problem.hvp(error)), strict=True))
    shared = dict(zip(kind.shared_state, optimizer.first_shared_state(), strict=True))
    path = [error]
    with np.errstate(all="ignore"):
        for t in range(1, steps + 1):
            error, by_block = path[-1].copy(), optimizer.random_by == "block"
            drawn = oracles.uniforms(seed, t, len(problem.sizes) if by_block else problem.dim)
            given = {
                "g": problem.hvp(error),
                "w": error + problem.minimizer,
                "random": drawn[blocks] if by_block else drawn,
            }
            if kind.once_per_step is not None:
                new = call(kind.once_per_step, optimizer, 0, shared | {"t": float(t)})
                shared = dict(zip(kind.shared_state, np.atleast_1d(new), strict=True))
            for low, high in itertools.pairwise(ends[kind.scope]):
                part = low if kind.scope == "coordinate" else slice(low, high)
                arguments = {name: values[part] for name, values in (given | state).items()} | shared
                arguments |= {"t": float(t)} | ({} if kind.scope == "coordinate" else {"step": np.zeros(high - low)})
                done = call(kind.rule, optimizer, blocks[low], arguments)
                if kind.scope == "coordinate":
                    step, *new = np.atleast_1d(done)
                    for name, value in zip(kind.state, new, strict=True):
                        state[name][part] = value
                error[part] -= step if kind.scope == "coordinate" else arguments["step"]
            path.append(error)
    return np.array(path)


def call(function, optimizer, block, arguments):
    """Call a rule with its arguments by name; all others are settings, some with a value per block."""
    names = inspect.signature(function).parameters
    settings = {name: getattr(optimizer, name) for name in names if name not in arguments}
    settings = {name: value[block] if isinstance(value, tuple) else float(value) for name, value in settings.items()}
    return function(**{name: (arguments | settings)[name] for name in names})
