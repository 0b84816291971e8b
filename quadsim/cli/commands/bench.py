"""Benchmark this machine: microseconds per step beside numpy, torch.optim and optax; threads; start-up.

python -m quadsim bench
python -m quadsim bench sizes=4x30 lanes=1,64 peers=numpy,torch
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import _parsing, keys
from quadsim import _validation as checks
from quadsim._format import significant
from quadsim._validation import InputError
from quadsim.cli import reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console, counter
from quadsim.cli.outputs import command_line, print_files, print_json, stem
from quadsim.keys import Key

if TYPE_CHECKING:
    from rich.table import Table

    from quadsim.bench.workers import Plan

MAX_ENTRIES = 2**25  # of a Hessian's blocks: a quarter of a gigabyte, of which peers may keep copies
MAX_LANES = 1024
KEYS = {
    key.name: key
    for key in (
        Key("sizes", "words", "blocks x block size", default="3x3,4x30,4x256,8x1024", shape="NxN,NxN"),
        Key("optimizers", "words", "which optimizers", default="gd,adam", choices=("bench.measure:OPTIMIZERS",)),
        Key("lanes", "whole", "runs side by side", default="1,64", bounds={"at_least": 1, "at_most": MAX_LANES},
            several=True),
        Key("threads", "whole", "(1,2)", bounds={"at_least": 1}, several=True),
        Key("peers", "words", "the installed ones", choices=("bench.peers:PACKAGES",)),
        Key("parts", "words", "what to measure", choices=("bench.workers:PARTS",)),
        Key("seconds", "real", "of a round", default="0.05", bounds={"at_least": 0.001, "at_most": 60}),
        Key("rounds", "whole", "of which the fastest counts", default="4", bounds={"at_least": 1, "at_most": 1000}),
        keys.KEYS["out"],
    )
}  # fmt: skip
SHORT_LABELS = {
    "threads": "thr.", "of dgemm": "dgemm", "torch.optim": "torch", "optax vmap": "vmap", "optax columns": "columns",
}  # fmt: skip
SETTING = ("optimizer", "lanes", "threads")
MIN_WIDE_COLUMNS = 110  # columns of a screen that have room for times beside ratios
MAX_OTHER_LOAD = 0.05  # the share of the machine that others may take without a note


def main(line: CommandLine) -> None:
    plan = read_plan(line.values)
    folder = reading.folder(line)
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
    result["files"] = [str(path) for path in _write(folder, line.recorded(), plan, result)]
    if line.json:
        print_json(result)
    else:
        _show(plan, result)


def read_plan(values: dict[str, Any]) -> Plan:
    """What to measure, checked."""
    from quadsim.bench import peers, workers
    from quadsim.engine.solver import cores

    installed, max_threads = peers.installed(), cores()
    for name in values.get("peers", ()):
        if name not in installed:
            raise InputError(f"peer {name} is not installed: {peers.INSTALL}, or leave peers= out")
    threads = values.get("threads", [1, 2] if max_threads > 1 else [1])
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


def _write(folder: Path, texts: dict[str, str], plan: Plan, result: dict[str, Any]) -> list[Path]:
    import pandas as pd

    from quadsim import _artifacts, plots
    from quadsim.bench import peers

    line, facts = command_line("bench", texts), result["machine"]
    tables = {"" if part == "steps" else f"-{part}": pd.DataFrame(result[part]) for part in plan.parts if result[part]}
    figures = {}
    if "steps" in plan.parts:
        caption = f"{line}: {facts['cpu']}, {', '.join(facts['vector_units'])}; least of {plan.rounds} rounds"
        figures[""] = plots.speed(tables[""], title=_finding(result["steps"]), caption=caption)
    versions = _artifacts.versions() | peers.versions(list(plan.peers))
    return _artifacts.write(
        folder, stem("bench", texts), figures, tables, {"command": line, **result, "versions": versions}
    )


def _finding(rows: list[dict[str, Any]]) -> str:
    """Where quadsim is nearest to the machine's limit, on the fewest threads."""
    fewest = min(row["threads"] for row in rows)
    ours = [row for row in rows if row["contestant"] == "quadsim" and row["threads"] == fewest]
    best = max(ours, key=lambda row: row["fraction"])
    return (
        f"Microseconds per step and run: {_label(best['optimizer'])} at {best['blocks']}×{best['block_size']} with "
        f"{best['lanes']} lanes runs at {best['fraction']:.0%} of the rate of dgemm"
    )


def _show(plan: Plan, result: dict[str, Any]) -> None:
    screen, facts = console(), result["machine"]
    caches = ", ".join(f"{name} {size}" for name, size in facts["caches"].items())
    screen.print(f"{facts['cpu']}, {facts['cores']} cores, {', '.join(facts['vector_units'])}, {caches}", style="bold")
    if (facts["others"] or 0) > MAX_OTHER_LOAD:
        note = f"Others took {facts['others']:.0%} of the machine meanwhile: what needs several threads is slowed."
        screen.print(note, style="red", highlight=False)
    if result.get("steps"):
        wide = screen.width >= MIN_WIDE_COLUMNS
        screen.print(_steps(plan, result["steps"], wide=wide))
        beside = "beside them how many times quadsim's" if wide else "of the peers how many times quadsim's"
        screen.print(f"Microseconds per step and run, and {beside} (red: quicker than quadsim).", highlight=False)
        note = "dgemm: flops of H·w beside those of numpy's matrix product on as many threads, in the same turns."
        screen.print(note, highlight=False)
    if result.get("problems"):
        screen.print(_problems(result["problems"]))
    if result.get("start"):
        screen.print(_starts(result["start"]))
    print_files(result["files"], screen)


def _steps(plan: Plan, rows: list[dict[str, Any]], *, wide: bool) -> Table:
    """A line for each setting, grouped by size: quadsim, then the peers; on a narrow screen only how they compare."""
    from rich.text import Text

    def column(row: dict[str, Any]) -> str:
        return "optax vmap" if row["contestant"] == "optax" else row["contestant"]  # one run, or a vmap of many

    peers = [name for name in dict.fromkeys(map(column, rows)) if name != "quadsim"]
    columns = ["size", "", "lanes", "threads", "quadsim", "of dgemm", *peers]
    table = _table(*(column if wide else SHORT_LABELS.get(column, column) for column in columns))
    at = {(row["blocks"], row["block_size"], *(row[key] for key in SETTING), column(row)): row for row in rows}
    for size in plan.sizes:
        for setting in product(plan.optimizers, plan.lanes, plan.threads):
            ours = at[(*size, *setting, "quadsim")]
            cells: list[Any] = [f"{size[0]}×{size[1]}", _label(setting[0]), *map(str, setting[1:])]
            cells += [significant(ours["microseconds"]), f"{ours['fraction']:.0%}"]
            for peer in peers:
                theirs = at.get((*size, *setting, peer))
                if theirs is None:
                    cells.append("")
                    continue
                factor = f"{significant(theirs['ratio'], 2)}×"
                ratio = Text(f" {factor:>5}" if wide else factor, style="red" if theirs["ratio"] < 1 else "")
                cells.append(Text(significant(theirs["microseconds"])).append(ratio) if wide else ratio)
            table.add_row(*cells)
        table.add_section()
    return table


def _problems(rows: list[dict[str, Any]]) -> Table:
    threads = rows[0]["threads"]
    table = _table("many problems", "", "one thread", f"{threads} threads", "gain", "the machine's own gain")
    for row in rows:
        table.add_row(
            f"{row['problems']} of {row['blocks']}×{row['block_size']}",
            _label(row["optimizer"]),
            f"{row['seconds_one']:.3f} s",
            f"{row['seconds_several']:.3f} s",
            f"{row['gain']:.2f}×",
            f"{row['machine_gain']:.2f}×",
        )
    return table


def _starts(rows: list[dict[str, Any]]) -> Table:
    table = _table("a new process", "cold", "warm")
    for row in rows:
        table.add_row(row["start"], "" if row["cold"] is None else f"{row['cold']:.2f} s", f"{row['warm']:.2f} s")
    table.columns[0].justify = "left"
    return table


def _table(*columns: str) -> Table:
    """A table of numbers; a column without a name holds words."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, collapse_padding=True)
    for column in columns:
        table.add_column(column, justify="right" if column else "left", no_wrap=True)
    return table


def _label(optimizer: str) -> str:
    from quadsim.optimizers import OPTIMIZERS

    return OPTIMIZERS[optimizer].label
