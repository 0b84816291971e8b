"""`run`: optimizers on one problem; what came out is printed, drawn and written."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.verbs.screen import console, counter

if TYPE_CHECKING:
    import numpy as np

    from quadsim.optimizers import Optimizer
    from quadsim.problem import BlockQuadratic
    from quadsim.trajectory import Trajectory

RUN_KEYS = (
    "case", "spectrum", "network", "blocks", "block_size", "rule", "sign", "pool", "threshold", "kappa", "map",
    "heterogeneity", "rotation", "basis", "seed", "optimizers", "rules", "steps", "tol", "engine",
    "out",
)  # fmt: skip
CONDITION_KEYS = ("start", "batch", "factor", "noise", "label_noise", "schedule", "warmup", "every", "drop")
DEFAULT_OPTIMIZERS = "gd,frozen-adam,block-gd"


def run(words: Words) -> None:
    """`case=3`: run optimizers on one problem; print, draw and write what came out."""
    keys = grammar.only(words, (*RUN_KEYS, *CONDITION_KEYS), "case=3")
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
    result = {"problem": _constants(problem, seed, problem.start(seed, start)), "runs": table.rows(runs)}
    result["files"] = [str(path) for path in _write(folder, keys, problem, runs, result)]
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(result, runs)


def read_problem(keys: dict[str, str], seed: int) -> BlockQuadratic:
    """The problem that the keys describe."""
    if ("case" in keys) == ("spectrum" in keys):
        raise InputError("give one of case= and spectrum=: for example case=3, or spectrum=1,2,3/99,100,101")
    from quadsim import cases, spectra
    from quadsim.problem import BlockQuadratic

    kappa = grammar.real("kappa", keys["kappa"]) if "kappa" in keys else None
    rotation = grammar.real("rotation", keys.get("rotation", "1"))
    basis = keys.get("basis", "blocks")
    heterogeneity = grammar.real("heterogeneity", keys["heterogeneity"]) if "heterogeneity" in keys else None
    size = grammar.whole("block_size", keys["block_size"]) if "block_size" in keys else None
    if "case" in keys:
        number = case_number(keys["case"])
        measured = number in cases.CASES and cases.CASES[number].network is not None
        if "map" in keys and kappa is None and not measured:
            raise InputError(f"map={keys['map']} has no use without kappa=")
        if "blocks" in keys and not measured:
            raise InputError(
                f"blocks={keys['blocks']} is for a law, or for Cases 1 and 2: this case has three blocks; "
                "block_size= changes their size"
            )
        return cases.case(
            number,
            seed=seed,
            kappa=kappa,
            map=keys.get("map"),
            block_size=size,
            heterogeneity=heterogeneity,
            rotation=rotation,
            basis=basis,
            **read_sampling(keys),
        )
    for key in ("network", "rule", "sign", "pool", "threshold"):
        if key in keys:
            raise InputError(f"{key}={keys[key]} is for Cases 1 and 2, whose eigenvalues are measured")
    if "map" in keys and kappa is None:
        raise InputError(f"map={keys['map']} has no use without kappa=")
    size = 3 if size is None else size
    text, map = keys["spectrum"], checks.choice("map", keys.get("map", "affine"), spectra.MAPS)
    if re.fullmatch("[a-z-]+", text.lower()) and text.lower() not in ("nan", "inf", "infinity"):
        if "map" in keys:
            raise InputError(f"map={map} has no use: a law spans 1 to kappa by itself")
        most = spectra.MOST
        count = checks.whole("blocks", grammar.whole("blocks", keys.get("blocks", "3")), at_least=1, at_most=most)
        dim = count * checks.whole("block_size", size, at_least=1, at_most=most)
        if dim > most:
            raise InputError(f"blocks times block_size must be at most {most}, got {dim}")
        values = spectra.law(text.lower(), dim, kappa=5000.0 if kappa is None else kappa, seed=seed)
        parts = spectra.deal(values, count, 1.0 if heterogeneity is None else heterogeneity)
    else:
        for key in ("blocks", "block_size"):
            if key in keys:
                raise InputError(f"{key}={keys[key]} is for a law: spectrum={text} says the blocks itself")
        parts = spectra.by_block(grammar.blocks_of_numbers("spectrum", text))
        if heterogeneity is not None:
            pack, sizes = [value for part in parts for value in part], [part.size for part in parts]
            parts = spectra.deal(pack, sizes, heterogeneity)
        if kappa is not None:
            parts = spectra.rescale(parts, kappa, map)
    return BlockQuadratic.from_spectra(parts, seed=seed, rotation=rotation, basis=basis, name="own spectrum")


def read_sampling(keys: dict[str, str]) -> dict[str, Any]:
    """How eigenvalues are taken from measured spectra, as far as the keys say."""
    how: dict[str, Any] = {key: keys[key] for key in ("network", "rule", "sign") if key in keys}
    if "blocks" in keys:
        how["blocks"] = grammar.several("blocks", keys["blocks"])
    if "pool" in keys:
        how["pool"] = grammar.whole("pool", keys["pool"])
    if "threshold" in keys:
        how["threshold"] = grammar.real("threshold", keys["threshold"])
    return how


def case_number(text: str) -> int:
    from quadsim import cases

    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"case must be one of {', '.join(map(str, cases.CASES))}, got {checks.shown(text)}")
    return int(text)


def read_optimizers(keys: dict[str, str]) -> list[Optimizer]:
    """The optimizers that the keys name, with their dotted settings."""
    from quadsim import optimizers, own

    known: dict[str, str] = {}
    for path in grammar.several("rules", keys["rules"]) if "rules" in keys else []:
        for name in own.load(path):
            if known.setdefault(name, path) != path:
                raise InputError(f"optimizer {name} is in {known[name]} and in {path}: give one of them another name")
    names = [
        name.lower().replace("_", "-")
        for name in grammar.several("optimizers", keys.get("optimizers", DEFAULT_OPTIMIZERS))
    ]
    for name in names:
        checks.choice("optimizer", name, optimizers.OPTIMIZERS)
        if names.count(name) > 1:
            raise InputError(f"optimizer {name} is named twice")
    settings: dict[str, dict[str, Any]] = {name: {} for name in names}
    for key, text in keys.items():
        if "." in key:
            owner, setting = key.split(".", 1)
            owner = checks.choice("optimizer", owner.replace("_", "-"), optimizers.OPTIMIZERS)
            if owner not in settings:
                raise InputError(f"{key}={text} has no use: {owner} is not among optimizers={','.join(names)}")
            setting, value = _setting(owner, setting, key, text)
            settings[owner][setting] = value
    return [optimizers.by_name(name, **settings[name]) for name in names]


def _setting(owner: str, setting: str, key: str, text: str) -> tuple[str, Any]:
    """The name of an optimizer's setting, and its value, read as its default's kind."""
    from quadsim import optimizers

    defaults = optimizers.OPTIMIZERS[owner]().settings()
    setting = {name.lower(): name for name in defaults}.get(setting.lower(), setting)  # keys are read without case
    default = defaults[checks.choice(f"setting of {owner}", setting, defaults)]
    if isinstance(default, bool):
        return setting, grammar.flag(key, text)
    if isinstance(default, str):
        return setting, text
    if owner == "block-gd" and "/" in text:
        return setting, tuple(grammar.real(key, item) for item in grammar.several(key, text, "/"))
    return setting, grammar.real(key, text)


def read_conditions(keys: dict[str, str]) -> dict[str, Any]:
    """Under what conditions to run: the start, the noise of gradients, the schedule of the learning rate."""
    from quadsim.noise import Noise
    from quadsim.problem import STARTS
    from quadsim.schedules import Schedule

    scales = {key: grammar.real(key, keys[key]) for key in ("noise", "label_noise") if key in keys}
    batch = grammar.whole("batch", keys["batch"]) if "batch" in keys else None
    noise = Noise(batch=batch, factor=keys.get("factor", "root"), **scales)
    if "factor" in keys and batch is None and not noise.label_noise:
        raise InputError(f"factor={keys['factor']} has no use without batch= or label_noise=")
    numbers = {key: grammar.real(key, keys[key]) for key in ("warmup", "every", "drop") if key in keys}
    schedule = Schedule(keys.get("schedule", "constant"), **numbers)
    for key in ("every", "drop"):
        if key in keys and schedule.kind != "step":
            raise InputError(f"{key}={keys[key]} has no use without schedule=step")
    start: str | float = keys.get("start", "gaussian")
    if grammar.NUMBER.fullmatch(str(start)):
        start = checks.real("start", grammar.real("start", str(start)), at_least=1e-100, at_most=1e100)
    elif start not in STARTS:
        words = f"{', '.join(STARTS)}, or a number: the Gaussian start scaled to this norm"
        raise InputError(f"start must be one of {words}, got {checks.shown(start)}")
    return {"start": start, "noise": noise, "schedule": schedule}


def read_steps(keys: dict[str, str]) -> int | None:
    """The last step to take; None where it is not said."""
    from quadsim.trajectory import MOST_STEPS

    if "steps" not in keys:
        return None
    return checks.whole("steps", grammar.whole("steps", keys["steps"]), at_least=1, at_most=MOST_STEPS)


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
        how["w0"] = problem.start(seed, conditions["start"])
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


def _constants(problem: BlockQuadratic, seed: int, w0: np.ndarray) -> dict[str, Any]:
    """What theory needs to know of the problem and its start."""
    from quadsim import theory

    return {
        "problem": problem.name,
        "seed": seed,
        "dim": problem.dim,
        "kappa": problem.kappa,
        "block_kappas": list(problem.block_kappas),
        "kappa_eff": theory.kappa_eff(problem, w0),
        "r": theory.r(problem, w0),
        "r_within_blocks": theory.r(problem, w0, within_blocks=True),
        "eigenvalues": [values.tolist() for values in problem.eigenvalues],
    }


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
    screen.print(f"{facts['problem'].capitalize()}, seed {facts['seed']}, {facts['dim']} dimensions", style="bold")
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
    for path in result["files"]:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
