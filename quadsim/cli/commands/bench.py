"""Benchmark this machine: microseconds per step beside numpy, torch.optim and optax; threads; start-up.

python -m quadsim bench
python -m quadsim bench sizes=4x30 lanes=1,64 peers=numpy,torch
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import TYPE_CHECKING, Any

from quadsim import _parsing, keys
from quadsim import _validation as checks
from quadsim._format import significant
from quadsim._validation import InputError
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter, table
from quadsim.keys import Key

if TYPE_CHECKING:
    from rich.table import Table

    from quadsim.bench.workers import Plan

MAX_ENTRIES = 2**25  # of a Hessian's blocks: 256 MiB, of which peers may keep copies
MAX_LANES = 1024
KEYS = keys.select(
    Key("sizes", "words", "blocks x block size", default="3x3,4x30,4x256,8x1024", shape="NxN,NxN"),
    Key("optimizers", "words", "which optimizers", ("bench.measure:OPTIMIZERS",), default="gd,adam"),
    Key("lanes", "whole", "runs side by side", (), {"at_least": 1, "at_most": MAX_LANES}, default="1,64", several=True),
    Key("threads", "whole", "(1,2)", bounds={"at_least": 1}, several=True),
    Key("peers", "words", "the installed ones", ("bench.peers:PACKAGES",)),
    Key("parts", "words", "what to measure", ("bench.workers:PARTS",)),
    Key("seconds", "real", "of a round", bounds={"at_least": 0.001, "at_most": 60}, default="0.05"),
    Key("rounds", "whole", "of which the fastest counts", bounds={"at_least": 1, "at_most": 1000}, default="4"),
    keys.KEYS["out"],
)
SHORT_LABELS = {
    "threads": "thr.",
    "of dgemm": "dgemm",
    "torch.optim": "torch",
    "optax vmap": "vmap",
    "optax columns": "columns",
}
SETTING = ("optimizer", "lanes", "threads")
MIN_WIDE_COLUMNS = 110  # columns of a screen that have room for times beside ratios
MAX_OTHER_LOAD = 0.05  # share of the machine that other processes may take without a note


def main(line: CommandLine) -> None:
    plan = read_plan(line.values)
    outputs.check_folder(line)
    from quadsim.bench import machine, measure, workers

    result: dict[str, Any] = {"machine": machine.facts(), **{part: [] for part in plan.parts}}
    others = machine.others()
    with counter("measurements", plan.total(), tenths=True) as show:
        for done, (part, label, rows) in enumerate(workers.measured(plan), start=1):
            result[part] += rows
            show(done, label)
    result["machine"]["others"] = others()
    if "steps" in plan.parts:
        result["steps"] = measure.beside_dgemm(result["steps"])
    _write(line, plan, result)
    outputs.report(line, result, lambda screen: _show(screen, plan, result))


def read_plan(values: dict[str, Any]) -> Plan:
    """Parse and check what to measure."""
    from quadsim.bench import peers, workers
    from quadsim.engine.solver import cores

    installed, max_threads = peers.installed(), cores()
    threads = values.get("threads", [1, 2] if max_threads > 1 else [1])
    for name in values.get("peers", ()):
        if name not in installed:
            raise InputError(f"peer {name} is not installed: {peers.INSTALL}, or leave peers= out")
    for count in threads:
        checks.whole("threads", count, at_least=1, at_most=max_threads)
    return workers.Plan(
        parts=tuple(values.get("parts", workers.PARTS)),
        sizes=tuple(_size(text) for text in values["sizes"]),
        optimizers=tuple(values["optimizers"]),
        lanes=tuple(values["lanes"]),
        threads=tuple(threads),
        peers=tuple(values.get("peers", installed)),
        seconds=values["seconds"],
        rounds=values["rounds"],
    )


def _size(text: str) -> tuple[int, int]:
    from quadsim.problems.block_quadratic import LARGEST_BLOCK

    blocks, size = _parsing.pair("sizes", text.replace("×", "x"))
    checks.whole("block size", size, at_least=1, at_most=LARGEST_BLOCK)
    if blocks * size**2 > MAX_ENTRIES:
        raise InputError(f"sizes={blocks}x{size} has {blocks * size**2} entries, and {MAX_ENTRIES} are the most")
    return blocks, size


def _write(line: CommandLine, plan: Plan, result: dict[str, Any]) -> None:
    import pandas as pd

    from quadsim import _artifacts, plots
    from quadsim.bench import peers

    facts = result["machine"]
    tables = {"" if part == "steps" else f"-{part}": pd.DataFrame(result[part]) for part in plan.parts if result[part]}
    figures = {}
    if "steps" in plan.parts:
        machine = f"{facts['cpu']}, {', '.join(facts['vector_units'])}"
        caption = f"{outputs.recorded_command(line)}: {machine}; least of {plan.rounds} rounds"
        figures[""] = plots.speed(tables[""], title=_finding(result["steps"]), caption=caption)
    versions = _artifacts.versions() | peers.versions(list(plan.peers))
    outputs.save(line, figures, tables, result, versions=versions)


def _finding(rows: list[dict[str, Any]]) -> str:
    """Where quadsim is nearest to the machine's limit, on the fewest threads."""
    fewest = min(row["threads"] for row in rows)
    ours = [row for row in rows if row["contestant"] == "quadsim" and row["threads"] == fewest]
    best = max(ours, key=lambda row: row["fraction"])
    return (
        f"Microseconds per step and run: {_label(best['optimizer'])} at {best['blocks']}×{best['block_size']} with "
        f"{best['lanes']} lanes runs at {best['fraction']:.0%} of the rate of dgemm"
    )


def _show(screen: Any, plan: Plan, result: dict[str, Any]) -> None:
    facts = result["machine"]
    caches = ", ".join(f"{name} {size}" for name, size in facts["caches"].items())
    screen.print(f"{facts['cpu']}, {facts['cores']} cores, {', '.join(facts['vector_units'])}, {caches}", style="bold")
    if (facts["others"] or 0) > MAX_OTHER_LOAD:
        took = f"Other processes took {facts['others']:.0%} of the machine"
        screen.print(f"{took}: measurements on several threads are slowed.", style="red")
    if result.get("steps"):
        wide = screen.width >= MIN_WIDE_COLUMNS
        screen.print(_steps(plan, result["steps"], wide=wide))
        ratios = "beside them how many times quadsim's" if wide else "of the peers how many times quadsim's"
        screen.print(f"Microseconds per step and run, and {ratios} (red: quicker than quadsim).")
        screen.print(
            "dgemm: flops of H·w beside those of numpy's matrix product on as many threads, in the same turns."
        )
    if result.get("problems"):
        screen.print(_problems(result["problems"]))
    if result.get("start"):
        cells = [
            [row["start"], *("" if row[key] is None else f"{row[key]:.2f} s" for key in ("cold", "warm"))]
            for row in result["start"]
        ]
        screen.print(_table(("a new process", "cold", "warm"), cells))


def _steps(plan: Plan, rows: list[dict[str, Any]], *, wide: bool) -> Table:
    """A line for each setting, grouped by size: quadsim, then the peers; on a narrow screen only their ratios."""
    from rich.text import Text

    def column(row: dict[str, Any]) -> str:
        return "optax vmap" if row["contestant"] == "optax" else row["contestant"]  # one run, or a vmap of many

    peers = [name for name in dict.fromkeys(map(column, rows)) if name != "quadsim"]
    columns = ["size", "", "lanes", "threads", "quadsim", "of dgemm", *peers]
    shown = _table(column if wide else SHORT_LABELS.get(column, column) for column in columns)
    row_of = {(row["blocks"], row["block_size"], *(row[key] for key in SETTING), column(row)): row for row in rows}
    for size in plan.sizes:
        for setting in product(plan.optimizers, plan.lanes, plan.threads):
            ours = row_of[(*size, *setting, "quadsim")]
            cells: list[Any] = [f"{size[0]}×{size[1]}", _label(setting[0]), *map(str, setting[1:])]
            cells += [significant(ours["microseconds"]), f"{ours['fraction']:.0%}"]
            for peer in peers:
                theirs = row_of.get((*size, *setting, peer))
                if theirs is None:
                    cells.append("")
                    continue
                factor = f"{significant(theirs['ratio'], 2)}×"
                ratio = Text(f" {factor:>5}" if wide else factor, style="red" if theirs["ratio"] < 1 else "")
                cells.append(Text(significant(theirs["microseconds"])).append(ratio) if wide else ratio)
            shown.add_row(*cells)
        shown.add_section()
    return shown


def _problems(rows: list[dict[str, Any]]) -> Table:
    columns = "many problems", "", "one thread", f"{rows[0]['threads']} threads", "gain", "the machine's own gain"
    cells = [
        [
            f"{row['problems']} of {row['blocks']}×{row['block_size']}",
            _label(row["optimizer"]),
            *(f"{row[key]:.3f} s" for key in ("seconds_one", "seconds_several")),
            *(f"{row[key]:.2f}×" for key in ("gain", "machine_gain")),
        ]
        for row in rows
    ]
    return _table(columns, cells)


def _table(columns: Iterable[str], rows: Iterable[list[str]] = ()) -> Table:
    return table(columns, rows, left=("", "a new process"), collapse_padding=True)


def _label(optimizer: str) -> str:
    from quadsim.optimizers import OPTIMIZERS

    return OPTIMIZERS[optimizer].label
