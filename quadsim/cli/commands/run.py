"""Run optimizers on one problem: a table, a figure, the data.

python -m quadsim case=1                    GD, Adam (β2 = 1) and block GD on Case 1
python -m quadsim case=4 kappa=100 seed=7   another condition number, another draw
python -m quadsim spectrum=1,2,3/99,100,101 optimizers=gd,adam adam.lr=0.01 adam.beta2=0.99
python -m quadsim spectrum=log-uniform blocks=4 block_size=30 kappa=1e4 heterogeneity=0
python -m quadsim case=3 optimizers=gd,adam tune=true                 learning rates tuned on other draws, then the run
python -m quadsim case=3 optimizers=sgd,adam noise=gaussian noise.scale=0.1 max_steps=1000
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim.cli import fair, outputs, reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter, table

if TYPE_CHECKING:
    import numpy as np

    from quadsim.engine.trajectory import Trajectory
    from quadsim.optimizers import Optimizer
    from quadsim.problems.block_quadratic import BlockQuadratic

KEYS = keys.select("problem", "measured", "run", "out", *fair.KEYS)
SETTINGS = True


def main(line: CommandLine) -> None:
    from quadsim.engine import conditions

    choice, options = fair.read(line), conditions.from_keys(line.values)
    seed = line.values.get("seed", KEYS["seed"].default_value)
    from quadsim.engine.table import rows
    from quadsim.problems import published
    from quadsim.problems.build import problem as build_problem

    problem_keys = reading.problem_keys(line.values)
    problem = build_problem(seed=seed, **problem_keys)
    reading.engines(choice.optimizers, options)  # raises if an optimizer cannot run
    outputs.check_folder(line)
    (tuned,) = fair.tune_all([lambda draw: build_problem(seed=draw, **problem_keys)], choice, options)
    runs = fair.with_origins(_solve_all(problem, tuned.optimizers, seed=seed, **options), tuned)
    constants = _constants(problem, seed, problem.initial_error(seed, options["start"]))
    result: dict[str, Any] = {"problem": constants | _arrangement(problem, line.values), "runs": rows(runs)}
    result |= fair.result([tuned], choice)
    by_origin = fair.labels_by_origin((run.optimizer.label, run.lr_from) for run in runs)
    _write(line, problem, runs, result, fair.caption(by_origin, choice), fair.tried([tuned]))
    notes = [*published.notes([problem.name]), *fair.notes([tuned], options["tol"])]
    if sentence := fair.offer(line, by_origin):
        notes.append(sentence)
    outputs.report(line, result, lambda screen: _show(screen, result["problem"], runs, notes))


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
        **(
            {"kappa_map": str(problem.kappa_map), "kappa_from": problem.kappa_map.kappa_from}
            if problem.kappa_map
            else {}
        ),
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
    line: CommandLine,
    problem: BlockQuadratic,
    runs: list[Trajectory],
    result: dict[str, Any],
    rates: str,
    tables: dict[str, Any],
) -> None:
    from quadsim import plots
    from quadsim.engine.table import columns

    outcomes = ", ".join(outcome.replace(" ", "\u00a0") for outcome in _outcomes(runs))
    kappa = "" if "kappa" in problem.name else f", κ = {problem.kappa:.6g}"
    title = f"{problem.name.capitalize()}{kappa}. Steps: {outcomes}"
    mapped = f"; {problem.kappa_map}" if problem.kappa_map else ""
    caption = f"{outputs.recorded_command(line)}: {rates}{mapped}"
    figure = plots.convergence(runs, title=title, caption=caption, tol=runs[0].tol)
    outputs.save(line, figure, {**columns(runs), **tables}, result)


def _outcomes(runs: list[Trajectory]) -> list[str]:
    """`GD 37,977`, and `Adam 2,193 at its default lr` beside a best one."""
    from quadsim.optimizers.lr_origin import is_unfair

    unfair = is_unfair(run.lr_from for run in runs)
    marks = [" at its default lr" if unfair and run.lr_from == "default" else "" for run in runs]
    return [f"{run.optimizer.label} {_outcome(run)}{mark}" for run, mark in zip(runs, marks, strict=True)]


def _outcome(run: Trajectory) -> str:
    if run.steps_to_tol is not None:
        return f"{run.steps_to_tol:,}"
    return f"> {run.last_step:,}" if run.status == "max-steps" else str(run.status)


def _show(screen: Any, facts: dict[str, Any], runs: list[Trajectory], notes: list[str]) -> None:
    """Print the constants of the problem, a table of the optimizers and notes."""
    minimizer = "" if "minimizer" in facts["problem"] else f", {facts['minimizer']} minimizer"
    heading = f"{facts['problem'].capitalize()}, seed {facts['seed']}, {facts['dim']} dimensions{minimizer}"
    screen.print(heading, style="bold")
    if "arrangement" in facts:
        line = "heterogeneity {from:.3g} to {to:.3g} gives these blocks: arrangement {number} of {of}"
        screen.print(line.format(**facts["arrangement"]))
    blocks = _listed([f"{kappa:.5g}" for kappa in facts["block_kappas"]], ", ", 8)
    screen.print(f"κ = {facts['kappa']:.6g}   κ_l = {blocks}")
    if "kappa_map" in facts:
        screen.print(facts["kappa_map"])
    line = "κ_eff of frozen Adam = {kappa_eff:.4g}   r = {r:.4g} (within blocks {r_within_blocks:.4g})"
    screen.print(line.format(**facts))
    rows = [_cells(run) for run in runs]
    hidden = ("lr", "final ‖g‖") if screen.width < 90 else ()  # the files have all columns
    columns = [column for column in rows[0] if column not in hidden]
    cells = [[row[column] for column in columns] for row in rows]
    screen.print(table(columns, cells, left=("optimizer", "lr from", "status", "engine")))
    decayed = [run.optimizer.label for run in runs if not run.optimizer.translation_invariant]
    if decayed:
        screen.print(f"depends on the minimizer: {', '.join(decayed)}", soft_wrap=True)
    for note in notes:
        screen.print(note, soft_wrap=True)


def _cells(run: Trajectory) -> dict[str, str]:
    last = run.grad_norm[-1] if run.grad_norm.size else float("nan")
    first = run.grad_norm[0] if run.grad_norm.size and run.grad_norm[0] else 1.0
    rates = run.lr if isinstance(run.lr, tuple) else (run.lr,)
    return {
        "optimizer": run.optimizer.label,
        "lr": _listed([f"{rate:.4g}" for rate in rates], " ", 4),
        "lr from": run.lr_from,
        "steps to tol": "–" if run.steps_to_tol is None else f"{run.steps_to_tol:,}",
        "final ‖g‖": f"{last:.3g}",
        "‖g‖/‖g₀‖": f"{last / first:.2g}",
        "status": str(run.status),
        "engine": run.engine,
    }


def _listed(texts: list[str], separator: str, most: int) -> str:
    return separator.join([*texts[:most], *(["…"] if len(texts) > most else [])])
