"""The command line: words → calls. No logic of its own: what can be said here can be called from Python.

Modules that take long to import are imported where they are used.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words

if TYPE_CHECKING:
    from quadsim.optimizers import Optimizer
    from quadsim.problem import BlockQuadratic
    from quadsim.trajectory import Trajectory

HELP = """\
quadsim: optimizers on block-diagonal quadratics whose spectra you control

  python -m quadsim case=3                    GD, Adam (β2 = 1) and block GD on Case 3: table, figure, data
  python -m quadsim case=4 kappa=100 seed=7   another condition number, another draw
  python -m quadsim spectrum=1,2,3/99,100,101 optimizers=gd,adam adam.lr=0.01 adam.beta2=0.99
  python -m quadsim spectrum=log-uniform blocks=4 block_size=30 kappa=1e4 heterogeneity=0
  python -m quadsim list                      the cases, optimizers and laws there are

The problem
  case=N              3 or 4: the cases of arXiv 2402.16788
  spectrum=a,b/c,d    or your own: each block's eigenvalues, or a law's name (see list)
  blocks=N block_size=N   for a law: how many blocks, of what size (3 and 3); block_size also for a case
  kappa=K             take the eigenvalues to condition number K
  map=M               by clusters (cases), affine (own spectra) or geometric
  heterogeneity=H     deal the same eigenvalues to blocks: 1 sorted chunks, 0 round-robin
  rotation=R          0 diagonal blocks, 1 Haar bases (1)
  basis=B             blocks, or whole: one basis that dissolves the blocks (blocks)
  seed=N              fixes problem and start (0)

The run
  optimizers=a,b      of gd, block-gd, frozen-adam, adam (gd,frozen-adam,block-gd)
  NAME.SETTING=V      an optimizer's own setting: gd.lr=1e-4 adam.beta1=0 block-gd.lr=0.5/0.01/2e-4
  steps=N             the last step to take (100000)
  tol=T               stop at gradient norm T times its first value (1e-6); 0 runs on
  out=FOLDER          where figure, tables and settings go (figures)

  --json   print the result, and nothing else, as JSON      --version      --help
"""

RUN_KEYS = (
    "case", "spectrum", "blocks", "block_size", "kappa", "map", "heterogeneity", "rotation", "basis", "seed",
    "optimizers", "steps", "tol", "out",
)  # fmt: skip
DEFAULT_OPTIMIZERS = "gd,frozen-adam,block-gd"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; the exit code: 0, 1 for what failed on the way, 2 for usage."""
    _settle_streams()
    try:
        return _main(sys.argv[1:] if arguments is None else arguments)
    except InputError as error:
        _complain(str(error))
        return 2
    except KeyboardInterrupt:
        _complain("interrupted")
        return 130
    except BrokenPipeError:  # the reader of our output has gone, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError:
        _complain("there is not enough memory for a problem of this size")
        return 1
    except OSError as error:
        _complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return 1


def _main(arguments: Sequence[str]) -> int:
    words = grammar.read(arguments, VERBS)
    if "--help" in words.flags or (not arguments):
        print(HELP, end="")
    elif "--version" in words.flags:
        import importlib.metadata

        print(f"quadsim {importlib.metadata.version('quadsim')}")
    else:
        VERBS[words.verb](words)
    sys.stdout.flush()
    return 0


def _settle_streams() -> None:
    """Let a terminal that knows no Greek show question marks, and a closed output swallow what is printed."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")


def _complain(sentence: str) -> None:
    print("quadsim: " + " ".join(sentence.split()), file=sys.stderr)


def run(words: Words) -> None:
    """`case=3`: run optimizers on one problem; print, draw and write what came out."""
    keys = words.keys
    if words.bare:
        raise InputError(f"{words.bare[0]!r} is not key=value: write for example case=3")
    for key in keys:
        if "." not in key and key not in RUN_KEYS:
            checks.choice("key", key, RUN_KEYS)
    tol = checks.real("tol", grammar.real("tol", keys.get("tol", "1e-6")), at_least=0)
    steps = grammar.whole("steps", keys.get("steps", "100000"))
    seed = grammar.whole("seed", keys.get("seed", "0"))
    optimizers = read_optimizers(keys)
    problem = read_problem(keys, seed)
    folder = Path(keys.get("out", "figures"))
    from quadsim import results, solver, table

    checks.whole("steps", steps, at_least=1, at_most=solver.MOST_STEPS)
    results.check_folder(folder)
    runs = _solve_all(problem, optimizers, seed=seed, max_steps=steps, tol=tol)
    result = {"problem": _constants(problem, seed), "runs": table.rows(runs)}
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

    if "map" in keys and "kappa" not in keys:
        raise InputError(f"map={keys['map']} has no use without kappa=")
    kappa = grammar.real("kappa", keys["kappa"]) if "kappa" in keys else None
    rotation = grammar.real("rotation", keys.get("rotation", "1"))
    basis = keys.get("basis", "blocks")
    heterogeneity = grammar.real("heterogeneity", keys["heterogeneity"]) if "heterogeneity" in keys else None
    size = grammar.whole("block_size", keys.get("block_size", "3"))
    if "case" in keys:
        if "blocks" in keys:
            raise InputError(
                f"blocks={keys['blocks']} is for a law: a case has three blocks; block_size= changes their size"
            )
        number, map = _case_number(keys["case"]), keys.get("map", "clusters")
        return cases.case(
            number,
            seed=seed,
            kappa=kappa,
            map=map,
            block_size=size,
            heterogeneity=heterogeneity,
            rotation=rotation,
            basis=basis,
        )
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


def _case_number(text: str) -> int:
    from quadsim import cases

    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InputError(f"case must be one of {', '.join(map(str, cases.CASES))}, got {checks.shown(text)}")
    return int(text)


def read_optimizers(keys: dict[str, str]) -> list[Optimizer]:
    """The optimizers that the keys name, with their dotted settings."""
    from quadsim import optimizers

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
            settings[owner][setting] = _setting(owner, setting, key, text)
    return [optimizers.by_name(name, **settings[name]) for name in names]


def _setting(owner: str, setting: str, key: str, text: str) -> Any:
    """An optimizer's setting, read as its default's kind."""
    from quadsim import optimizers

    defaults = optimizers.OPTIMIZERS[owner]().settings()
    default = defaults[checks.choice(f"setting of {owner}", setting, defaults)]
    if isinstance(default, bool):
        return grammar.flag(key, text)
    if isinstance(default, str):
        return text
    if owner == "block-gd" and "/" in text:
        return tuple(grammar.real(key, item) for item in grammar.several(key, text, "/"))
    return grammar.real(key, text)


def _solve_all(problem: BlockQuadratic, optimizers: list[Optimizer], **how: Any) -> list[Trajectory]:
    """Solve one after the other, with a bar on a terminal."""
    from quadsim import solver

    if not sys.stderr.isatty():
        return [solver.solve(problem, optimizer, **how) for optimizer in optimizers]
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("steps"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        runs = []
        for optimizer in optimizers:
            task = bar.add_task(optimizer.label, total=how["max_steps"])
            runs.append(solver.solve(problem, optimizer, progress=lambda step: bar.update(task, completed=step), **how))  # noqa: B023
        return runs


def _constants(problem: BlockQuadratic, seed: int) -> dict[str, Any]:
    """What theory needs to know of the problem and its start."""
    from quadsim import theory

    w0 = problem.start(seed)
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
    command = "python -m quadsim " + shlex.join(f"{key}={text}" for key, text in said.items())
    figure = plots.convergence(table.curves(runs), title=title, caption=command, tol=tol)
    settings = {"command": command, **{key: result[key] for key in ("problem", "runs")}, "versions": results.versions()}
    tables = {"": table.summary(runs), "-curves": table.curves(runs)}
    return results.write(folder, _stem(said), figure, tables, settings)


def _outcome(run: Trajectory) -> str:
    if run.steps_to_tol is not None:
        return f"{run.steps_to_tol:,}"
    return f"> {run.last_step:,}" if run.status == "max-steps" else str(run.status)


def _stem(said: dict[str, str]) -> str:
    """The files' name: what was asked for, in order; shortened to a fingerprint where it is too long for a name."""
    import hashlib

    text = "-".join(f"{key}-{value}" for key, value in said.items())
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
    console = _console()
    blocks = ", ".join(f"{kappa:.5g}" for kappa in facts["block_kappas"][:8]) + (
        ", …" if len(facts["block_kappas"]) > 8 else ""
    )
    console.print(f"{facts['problem'].capitalize()}, seed {facts['seed']}, {facts['dim']} dimensions", style="bold")
    console.print(f"κ = {facts['kappa']:.6g}   κ_l = {blocks}", highlight=False)
    console.print(
        f"κ_eff of frozen Adam = {facts['kappa_eff']:.4g}   "
        f"r = {facts['r']:.4g} (within blocks {facts['r_within_blocks']:.4g})",
        highlight=False,
    )
    table = Table("optimizer", box=box.SIMPLE_HEAD)
    for column in ("lr", "steps to tol", "final ‖g‖", "‖g‖/‖g₀‖", "status"):
        table.add_column(column, justify="left" if column == "status" else "right", no_wrap=True)
    for run in runs:
        rates = run.lr if isinstance(run.lr, tuple) else (run.lr,)
        lr = " ".join(f"{rate:.4g}" for rate in rates[:4]) + (" …" if len(rates) > 4 else "")
        reached = "–" if run.steps_to_tol is None else f"{run.steps_to_tol:,}"
        last = run.grad_norm[-1] if run.grad_norm.size else float("nan")
        first = run.grad_norm[0] if run.grad_norm.size and run.grad_norm[0] else 1.0
        table.add_row(run.optimizer.label, lr, reached, f"{last:.3g}", f"{last / first:.2g}", str(run.status))
    console.print(table)
    for path in result["files"]:
        console.print(f"wrote {path}", highlight=False, soft_wrap=True)


def show_list(words: Words) -> None:
    """`list`, `list optimizers`: what there is."""
    from quadsim import cases, optimizers, spectra

    there = {
        "cases": [{"case": number, "title": recipe.title} for number, recipe in cases.CASES.items()],
        "optimizers": [
            {"optimizer": name, "label": kind.label, **kind().settings()}
            for name, kind in optimizers.OPTIMIZERS.items()
        ],
        "spectra": [
            {"law": name, "title": draw.__doc__, **(draw.__kwdefaults__ or {})} for name, draw in spectra.LAWS.items()
        ],
    }
    for key in words.keys:
        raise InputError(f"list takes no {key}=: write list, or list {' or list '.join(there)}")
    kinds = [checks.choice("list", kind, there) for kind in words.bare] or list(there)
    if "--json" in words.flags:
        print(json.dumps({kind: there[kind] for kind in kinds}, indent=2, ensure_ascii=False))
        return
    for kind in kinds:
        print(kind)
        for entry in there[kind]:
            first, second, *rest = entry.items()
            options = rest if kind == "optimizers" else []
            settings = "  ".join(f"{key}={'best' if value is None else value}" for key, value in options)
            print(f"  {first[1]!s:<18}{second[1]}{'   ' + settings if settings else ''}")


def _console() -> Any:
    from rich.console import Console

    return Console(markup=False, width=None if sys.stdout.isatty() else 140)


VERBS: dict[str, Callable[[Words], None]] = {"run": run, "list": show_list}
