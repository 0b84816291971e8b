"""Run optimizers on one problem: a table, a figure, the data.

python -m quadsim case=1                    GD, Adam (β2 = 1) and block GD on Case 1
python -m quadsim case=4 kappa=100 seed=7   another condition number, another draw
python -m quadsim spectrum=1,2,3/99,100,101 optimizers=gd,adam adam.lr=0.01 adam.beta2=0.99
python -m quadsim spectrum=log-uniform blocks=4 block_size=30 kappa=1e4 heterogeneity=0
python -m quadsim case=3 optimizers=sgd,adam noise=gaussian noise.scale=0.1 max_steps=1000
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim.cli import reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console, counter
from quadsim.cli.outputs import command_line, print_files, print_json, stem

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
    from quadsim.engine import table
    from quadsim.problems.build import problem as build_problem

    problem = build_problem(seed=seed, **reading.problem_keys(line.values))
    folder = reading.folder(line)
    runs = _solve_all(problem, optimizers, seed=seed, **options)
    constants = _constants(problem, seed, problem.initial_error(seed, options["start"]))
    result = {"problem": constants | _arrangement(problem, line.values), "runs": table.rows(runs)}
    result["files"] = [str(path) for path in _write(folder, line.recorded(), problem, runs, result)]
    if line.json:
        print_json(result)
    else:
        _show(result, runs)


def _solve_all(problem: BlockQuadratic, optimizers: list[Optimizer], **options: Any) -> list[Trajectory]:
    """Run one after the other, each with a progress bar on a terminal."""
    from quadsim.engine import solver
    from quadsim.engine.trajectory import MAX_STEPS

    changing = options["noise"].any or options["schedule"].changes
    engines = [solver.engine_for(one, options["engine"], changing) for one in optimizers]
    runs = []
    for optimizer, engine in zip(optimizers, engines, strict=True):
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


def _write(
    folder: Path, texts: dict[str, str], problem: BlockQuadratic, runs: list[Trajectory], result: dict[str, Any]
) -> list[Path]:
    from quadsim import _artifacts, plots
    from quadsim.engine import table

    outcomes = ", ".join(f"{run.optimizer.label} {_outcome(run)}".replace(" ", "\u00a0") for run in runs)
    kappa = "" if "kappa" in problem.name else f", κ = {problem.kappa:.6g}"
    title = f"{problem.name.capitalize()}{kappa}. Steps: {outcomes}"
    line = command_line("", texts)
    figure = plots.convergence(table.curves(runs), title=title, caption=line, tol=runs[0].tol)
    settings = {"command": line, **{key: result[key] for key in ("problem", "runs")}, "versions": _artifacts.versions()}
    tables = {"": table.summary(runs), "-curves": table.curves(runs)}
    return _artifacts.write(folder, stem("", texts), figure, tables, settings)


def _outcome(run: Trajectory) -> str:
    if run.steps_to_tol is not None:
        return f"{run.steps_to_tol:,}"
    return f"> {run.last_step:,}" if run.status == "max-steps" else str(run.status)


def _show(result: dict[str, Any], runs: list[Trajectory]) -> None:
    """Print the constants in two lines, the optimizers in a table, the files."""
    from rich import box
    from rich.table import Table

    facts = result["problem"]
    screen = console()
    blocks = ", ".join(f"{kappa:.5g}" for kappa in facts["block_kappas"][:8]) + (
        ", …" if len(facts["block_kappas"]) > 8 else ""
    )
    screen.print(
        f"{facts['problem'].capitalize()}, seed {facts['seed']}, {facts['dim']} dimensions"
        + ("" if "minimizer" in facts["problem"] else f", {facts['minimizer']} minimizer"),
        style="bold",
    )
    if "arrangement" in facts:
        line = "heterogeneity {from:.3g} to {to:.3g} gives these blocks: arrangement {number} of {of}"
        screen.print(line.format(**facts["arrangement"]), highlight=False)
    screen.print(f"κ = {facts['kappa']:.6g}   κ_l = {blocks}", highlight=False)
    screen.print(
        f"κ_eff of frozen Adam = {facts['kappa_eff']:.4g}   "
        f"r = {facts['r']:.4g} (within blocks {facts['r_within_blocks']:.4g})",
        highlight=False,
    )
    table = Table(box=box.SIMPLE_HEAD)
    columns = ["optimizer", "lr", "steps to tol", "final ‖g‖", "‖g‖/‖g₀‖", "status", "engine"]
    if screen.width < 90:  # the files have them all
        columns = [column for column in columns if column not in ("lr", "final ‖g‖")]
    for column in columns:
        left = column in ("optimizer", "status", "engine")
        table.add_column(column, justify="left" if left else "right", no_wrap=True)
    for run in runs:
        rates = run.lr if isinstance(run.lr, tuple) else (run.lr,)
        lr = " ".join(f"{rate:.4g}" for rate in rates[:4]) + (" …" if len(rates) > 4 else "")
        reached = "–" if run.steps_to_tol is None else f"{run.steps_to_tol:,}"
        last = run.grad_norm[-1] if run.grad_norm.size else float("nan")
        first = run.grad_norm[0] if run.grad_norm.size and run.grad_norm[0] else 1.0
        cells = {
            "optimizer": run.optimizer.label,
            "lr": lr,
            "steps to tol": reached,
            "final ‖g‖": f"{last:.3g}",
            "‖g‖/‖g₀‖": f"{last / first:.2g}",
            "status": str(run.status),
            "engine": run.engine,
        }
        table.add_row(*(cells[column] for column in columns))
    screen.print(table)
    decayed = [run.optimizer.label for run in runs if not run.optimizer.translation_invariant]
    if decayed:
        screen.print(f"depends on the minimizer: {', '.join(decayed)}", highlight=False, soft_wrap=True)
    print_files(result["files"], screen)
