"""`run`: optimizers on one problem; what came out is printed, drawn and written."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.grammar import Words
from quadsim.request import CONDITION_KEYS, RUN_KEYS, read_conditions, read_optimizers, read_problem, read_steps
from quadsim.verbs.screen import console, counter

if TYPE_CHECKING:
    import numpy as np

    from quadsim.optimizers import Optimizer
    from quadsim.problem import BlockQuadratic
    from quadsim.trajectory import Trajectory


def run(words: Words) -> None:
    """`case=3`: run optimizers on one problem; print, draw and write what came out."""
    keys = grammar.only(words, (*RUN_KEYS, *CONDITION_KEYS), "case=3", settings=True)
    tol = checks.real("tol", grammar.real("tol", keys.get("tol", "1e-6")), at_least=0)
    steps = read_steps(keys)
    seed = grammar.whole("seed", keys.get("seed", "0"))
    optimizers, conditions = read_optimizers(keys), read_conditions(keys)
    problem = read_problem(keys, seed)
    folder = Path(keys.get("out", "figures"))
    from quadsim import results, solver, table

    changing = conditions["noise"].any or conditions["schedule"].changes
    engines = [solver.engine_for(optimizer, keys.get("engine"), changing) for optimizer in optimizers]
    results.check_folder(folder)
    runs = _solve_all(problem, optimizers, engines, conditions, seed=seed, max_steps=steps, tol=tol)
    start = conditions["start"]
    facts = _constants(problem, seed, problem.initial_error(seed, start)) | _arrangement(problem, keys)
    result = {"problem": facts, "runs": table.rows(runs)}
    result["files"] = [str(path) for path in _write(folder, keys, problem, runs, result)]
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(result, runs)


def _solve_all(
    problem: BlockQuadratic,
    optimizers: list[Optimizer],
    engines: list[str],
    conditions: dict[str, Any],
    *,
    seed: int,
    max_steps: int | None,
    tol: float,
) -> list[Trajectory]:
    """Run one after the other, with a bar on a terminal for those that iterate."""
    from quadsim import closed, solver
    from quadsim.trajectory import MOST_STEPS

    runs = []
    how: dict[str, Any] = {"seed": seed, "tol": tol}
    if conditions["start"] != "gaussian":
        how["e0"] = problem.initial_error(seed, conditions["start"])
    changes = {key: conditions[key] for key in ("noise", "schedule")}
    for optimizer, engine in zip(optimizers, engines, strict=True):
        if engine == "exact":
            steps = solver.USUAL_STEPS if max_steps is None and tol == 0 else max_steps
            with counter("steps searched", steps or MOST_STEPS, optimizer.label) as show:
                runs.append(closed.exact(problem, optimizer, max_steps=steps, progress=show, **how))
            continue
        steps = solver.USUAL_STEPS if max_steps is None else max_steps
        with counter("steps", steps, optimizer.label) as show:
            runs.append(solver.solve(problem, optimizer, max_steps=steps, progress=show, **how, **changes))
    return runs


def _constants(problem: BlockQuadratic, seed: int, e0: np.ndarray) -> dict[str, Any]:
    """What theory needs to know of the problem and its start."""
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


def _arrangement(problem: BlockQuadratic, keys: dict[str, str]) -> dict[str, Any]:
    """Which of the distinct arrangements heterogeneity= selects, and the range of values that select the same one."""
    if "heterogeneity" not in keys or keys.get("basis") == "whole":
        return {}
    import numpy as np

    from quadsim import spectra

    share = grammar.real("heterogeneity", keys["heterogeneity"])
    every = spectra.arrangements(np.concatenate(problem.eigenvalues), [part.size for part in problem.eigenvalues])
    low, high = every.range(share)
    return {"arrangement": {"number": every.index(share) + 1, "of": len(every), "from": low, "to": high}}


def _write(
    folder: Path, keys: dict[str, str], problem: BlockQuadratic, runs: list[Trajectory], result: dict
) -> list[Path]:
    from quadsim import plots, results, table

    tol = runs[0].tol
    told = ", ".join(f"{run.optimizer.label} {_outcome(run)}".replace(" ", "\u00a0") for run in runs)
    kappa = "" if "kappa" in problem.name else f", κ = {problem.kappa:.6g}"
    title = f"{problem.name.capitalize()}{kappa}. Steps: {told}"
    said = {key: text for key, text in keys.items() if key != "out"}
    line = command("", said)
    figure = plots.convergence(table.curves(runs), title=title, caption=line, tol=tol)
    settings = {"command": line, **{key: result[key] for key in ("problem", "runs")}, "versions": results.versions()}
    tables = {"": table.summary(runs), "-curves": table.curves(runs)}
    return results.write(folder, stem("", said), figure, tables, settings)


def _outcome(run: Trajectory) -> str:
    if run.steps_to_tol is not None:
        return f"{run.steps_to_tol:,}"
    return f"> {run.last_step:,}" if run.status == "max-steps" else str(run.status)


def command(verb: str, said: dict[str, str]) -> str:
    """The command line that says this."""
    return shlex.join(["python", "-m", "quadsim", *([verb] if verb else []), *(f"{k}={v}" for k, v in said.items())])


def stem(verb: str, said: dict[str, str]) -> str:
    """The files' name: what was asked for, in order; shortened to a fingerprint where it is too long for a name."""
    import hashlib

    text = "-".join([*([verb] if verb else []), *(f"{key}-{value}" for key, value in said.items())])
    name = text.lower().replace(",", "_").replace("/", "~")
    plain = re.sub(r"[^a-z0-9.+~_-]", "_", name)
    if plain == name and len(name) <= 80:
        return name
    return plain[:60] + "-" + hashlib.sha256(text.encode()).hexdigest()[:12]


def _show(result: dict[str, Any], runs: list[Trajectory]) -> None:
    """The result for people: the constants in two lines, the optimizers in a table, the files."""
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
        told = "heterogeneity {from:.3g} to {to:.3g} gives these blocks: arrangement {number} of {of}"
        screen.print(told.format(**facts["arrangement"]), highlight=False)
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
    for path in result["files"]:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
