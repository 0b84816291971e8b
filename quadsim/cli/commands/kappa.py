"""Print the condition numbers of a problem: κ, of each block, and after Adam's preconditioning.

python -m quadsim kappa case=3 seed=7
"""

from quadsim import keys
from quadsim.cli import reading
from quadsim.cli.arguments import CommandLine

KEYS = keys.select("problem", "measured")


def main(line: CommandLine) -> None:
    from quadsim import theory
    from quadsim.problems.build import problem as build_problem

    seed = line.values.get("seed", KEYS["seed"].default_value)
    problem = build_problem(seed=seed, **reading.problem_keys(line.values))
    kappa_eff = theory.kappa_eff(problem, e0=problem.initial_error(seed))
    print(f"κ = {problem.kappa:g}, of the blocks {', '.join(f'{k:g}' for k in problem.block_kappas)}, κ_eff = {kappa_eff:g}")
