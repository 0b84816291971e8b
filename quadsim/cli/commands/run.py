"""Run optimizers on one problem: a table, a figure, the data.

python -m quadsim case=1                    GD, Adam (β2 = 1) and block GD on Case 1
python -m quadsim case=4 kappa=100 seed=7   another condition number, another draw
python -m quadsim spectrum=1,2,3/99,100,101 optimizers=gd,adam adam.lr=0.01 adam.beta2=0.99
python -m quadsim spectrum=log-uniform blocks=4 block_size=30 kappa=1e4 heterogeneity=0
python -m quadsim case=3 optimizers=sgd,adam noise=gaussian noise.scale=0.1 max_steps=1000
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim.cli import outputs, reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter, table

if TYPE_CHECKING:
    import numpy as np

    from quadsim.engine.trajectory import Trajectory
    from quadsim.optimizers import Optimizer
    from quadsim.problems.block_quadratic import BlockQuadratic

KEYS = keys.select("problem", "measured", "run", "out")
SETTINGS = True


def main(line: CommandLine) -> None:
    from quadsim.engine import conditions

    optimizers, options = reading.optimizers(line), conditions.from_keys(line.values)
    seed = line.values.get("seed", KEYS["seed"].default_value)
    from quadsim.engine.table import rows
    from quadsim.problems.build import problem as build_problem

    problem = build_problem(seed=seed, **reading.problem_keys(line.values))
    outputs.check_folder(line)
    runs = _solve_all(problem, optimizers, seed=seed, **options)
    constants = _constants(problem, seed, problem.initial_error(seed, options["start"]))
    result: dict[str, Any] = {"problem": constants | _arrangement(problem, line.values), "runs": rows(runs)}
    _write(line, problem, runs, result)
    outputs.report(line, result, lambda screen: _show(screen, result["problem"], runs))


def _solve_all(problem: BlockQuadratic, optimizers: list[Optimizer], **options: Any) -> list[Trajectory]:
    """Run one after the other, each with a progress bar on a terminal."""
    from quadsim.engine import solver
    from quadsim.engine.trajectory import MAX_STEPS

    runs = []
    for optimizer, engine in zip(optimizers, reading.engines(optimizers, options), strict=True):
        total = solver.step_limit(engine, options["max_steps"], options["tol"]) or MAX_STEPS
        unit = "steps" if engine == "compiled" else "steps searched"
        with counter(unit, total, optimizer.label) as show:
            runs.append(solver.solve(problem, optimizer, progress=show, **{**options, "engine": engine}))
    return runs


def _constants(problem: BlockQuadratic, seed: int, e0: np.ndarray) -> dict[str, Any]:
    """The constants of the problem and its start that theory uses."""
    from quadsim import theory

    return {
        "problem": problem.name,
        "seed": seed,
        "dim": problem.dim,
        "kappa": problem.kappa,
        "block_kappas": list(problem.block_kappas),
        "kappa_eff": theory.kappa_eff(problem, e0=e0),
        "r": theory.r(problem, e0=e0),
        "r_within_blocks": theory.r(problem, e0=e0, within_blocks=True),
        "eigenvalues": [values.tolist() for values in problem.eigenvalues],
        "minimizer": problem.minimizer_kind,
        "w_star": problem.minimizer.tolist(),
        "w0": (problem.minimizer + e0).tolist(),
    }


def _arrangement(problem: BlockQuadratic, values: dict[str, Any]) -> dict[str, Any]:
    """Which of the distinct arrangements heterogeneity= selects, and the range of values that select the same one."""
    if "heterogeneity" not in values or values.get("span") == "whole":
        return {}
    import numpy as np

    from quadsim import spectra

    share = values["heterogeneity"]
    every = spectra.arrangements(np.concatenate(problem.eigenvalues), [part.size for part in problem.eigenvalues])
    low, high = every.range(share)
    return {"arrangement": {"number": every.index(share) + 1, "of": len(every), "from": low, "to": high}}


def _write(line: CommandLine, problem: BlockQuadratic, runs: list[Trajectory], result: dict[str, Any]) -> None:
    from quadsim import plots
    from quadsim.engine.table import curves, summary

    outcomes = ", ".join(f"{run.optimizer.label} {_outcome(run)}".replace(" ", "\u00a0") for run in runs)
    kappa = "" if "kappa" in problem.name else f", κ = {problem.kappa:.6g}"
    title = f"{problem.name.capitalize()}{kappa}. Steps: {outcomes}"
    tables = {"": summary(runs), "-curves": curves(runs)}
    figure = plots.convergence(tables["-curves"], title=title, caption=outputs.recorded_command(line), tol=runs[0].tol)
    outputs.save(line, figure, tables, result)


def _outcome(run: Trajectory) -> str:
    if run.steps_to_tol is not None:
        return f"{run.steps_to_tol:,}"
    return f"> {run.last_step:,}" if run.status == "max-steps" else str(run.status)


def _show(screen: Any, facts: dict[str, Any], runs: list[Trajectory]) -> None:
    """Print the constants of the problem and a table of the optimizers."""
    minimizer = "" if "minimizer" in facts["problem"] else f", {facts['minimizer']} minimizer"
    heading = f"{facts['problem'].capitalize()}, seed {facts['seed']}, {facts['dim']} dimensions{minimizer}"
    screen.print(heading, style="bold")
    if "arrangement" in facts:
        line = "heterogeneity {from:.3g} to {to:.3g} gives these blocks: arrangement {number} of {of}"
        screen.print(line.format(**facts["arrangement"]))
    blocks = _listed([f"{kappa:.5g}" for kappa in facts["block_kappas"]], ", ", 8)
    screen.print(f"κ = {facts['kappa']:.6g}   κ_l = {blocks}")
    line = "κ_eff of frozen Adam = {kappa_eff:.4g}   r = {r:.4g} (within blocks {r_within_blocks:.4g})"
    screen.print(line.format(**facts))
    rows = [_cells(run) for run in runs]
    hidden = ("lr", "final ‖g‖") if screen.width < 90 else ()  # the files have all columns
    columns = [column for column in rows[0] if column not in hidden]
    cells = [[row[column] for column in columns] for row in rows]
    screen.print(table(columns, cells, left=("optimizer", "status", "engine")))
    decayed = [run.optimizer.label for run in runs if not run.optimizer.translation_invariant]
    if decayed:
        screen.print(f"depends on the minimizer: {', '.join(decayed)}", soft_wrap=True)


def _cells(run: Trajectory) -> dict[str, str]:
    last = run.grad_norm[-1] if run.grad_norm.size else float("nan")
    first = run.grad_norm[0] if run.grad_norm.size and run.grad_norm[0] else 1.0
    rates = run.lr if isinstance(run.lr, tuple) else (run.lr,)
    return {
        "optimizer": run.optimizer.label,
        "lr": _listed([f"{rate:.4g}" for rate in rates], " ", 4),
        "steps to tol": "–" if run.steps_to_tol is None else f"{run.steps_to_tol:,}",
        "final ‖g‖": f"{last:.3g}",
        "‖g‖/‖g₀‖": f"{last / first:.2g}",
        "status": str(run.status),
        "engine": run.engine,
    }


def _listed(texts: list[str], separator: str, most: int) -> str:
    return separator.join([*texts[:most], *(["…"] if len(texts) > most else [])])
