"""Problems and optimizers of a command line, for all commands that run something."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim.cli.arguments import CommandLine

if TYPE_CHECKING:
    from quadsim.optimizers import Optimizer
    from quadsim.problems.block_quadratic import BlockQuadratic


def problem_keys(values: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a problem, without the seed."""
    return {key: value for key, value in values.items() if key in keys.PROBLEM_AXES}


def draws(values: Mapping[str, Any]) -> list[Callable[[int], BlockQuadratic]]:
    """For each case, or for the spectrum, the problem as a function of the seed."""
    from quadsim.problems.build import problem

    def draw(arguments: dict[str, Any]) -> Callable[[int], BlockQuadratic]:
        problem(**arguments)  # errors are raised before anything runs
        return lambda seed: problem(seed=seed, **arguments)

    given = problem_keys(values)
    return [draw({**given, "case": case}) for case in given.get("case", [None])]


def kappa_notes(draws: Iterable[Callable[[int], BlockQuadratic]], seeds: Sequence[int]) -> Iterator[str]:
    """How the eigenvalues of each problem got their condition number, if they were mapped to it."""
    from dataclasses import replace

    for draw in draws:
        first, last = draw(seeds[0]), draw(seeds[-1])
        if made := first.kappa_map:
            same = last.kappa_map == made  # otherwise each draw had its own condition number before
            yield f"{first.name.capitalize()}: {made if same else replace(made, kappa_from=None)}"


def optimizers(line: CommandLine, settings: Mapping[str, str] | None = None) -> list[Optimizer]:
    """The optimizers of optimizers= and rules=, with the settings of the command line or other ones."""
    from quadsim.optimizers import from_keys

    settings = line.settings if settings is None else settings
    return from_keys.read(line.values["optimizers"], settings, line.values.get("rules", ()))


def engines(optimizers: list[Optimizer], options: Mapping[str, Any]) -> list[str]:
    """The engine that runs each optimizer under these arguments of `solve`."""
    from quadsim.engine.solver import engine_for

    changing = options["noise"].any or options["schedule"].changes
    return [engine_for(optimizer, options["engine"], changing) for optimizer in optimizers]
