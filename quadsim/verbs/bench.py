"""`bench`: this machine: what a step costs here, quadsim beside its peers; many problems on threads; starts."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.verbs.run import command, stem
from quadsim.verbs.screen import console, counter

if TYPE_CHECKING:
    from rich.table import Table

    from quadsim.bench.workers import Plan

KEYS = ("parts", "sizes", "optimizers", "lanes", "threads", "peers", "seconds", "rounds", "out")
SIZES = "3x3,4x30,4x256,8x1024"
MOST_ENTRIES = 2**25  # of a Hessian's blocks: a quarter of a gigabyte, of which peers may keep copies
MOST_LANES = 1024
SHORT = {
    "threads": "thr.", "of dgemm": "dgemm", "torch.optim": "torch", "optax vmap": "vmap", "optax columns": "columns",
}  # fmt: skip
SETTING = ("optimizer", "lanes", "threads")
WIDE = 110  # columns of a screen that have room for times beside ratios
BUSY = 0.05  # the share of the machine that others may take without a word


def bench(words: Words) -> None:
    """`bench sizes=4x30 lanes=1,64`: microseconds per step and run, beside peers; the table, the figure, the data."""
    keys = grammar.only(words, KEYS, "bench sizes=4x30")
    plan = read_plan(keys)
    folder = Path(keys.get("out", "figures"))
    from quadsim import results
    from quadsim.bench import machine, measure, workers

    results.check_folder(folder)
    result: dict[str, Any] = {"machine": machine.facts(), **{part: [] for part in plan.parts}}
    others = machine.others()
    with counter("measurements", plan.total(), tenths=True) as show:
        for done, (part, label, rows) in enumerate(workers.measured(plan), start=1):
            result[part] += rows
            show(done, label)
    result["machine"]["others"] = others()
    if "steps" in plan.parts:
        result["steps"] = measure.beside_dgemm(result["steps"])
    result["files"] = [str(path) for path in _write(folder, keys, plan, result)]
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _show(plan, result)


def read_plan(keys: dict[str, str]) -> Plan:
    """What the keys ask to be measured, checked."""
    from quadsim.bench import measure, peers, workers
    from quadsim.solver import cores

    seconds = grammar.real("seconds", keys.get("seconds", "0.05"))
    rounds = grammar.whole("rounds", keys.get("rounds", "4"))
    there, most = peers.installed(), cores()
    named = _words("peers", keys.get("peers", ",".join(there)), tuple(peers.PACKAGES))
    for name in named:
        if name not in there:
            raise InputError(f"peer {name} is not installed: {peers.INSTALL}, or leave peers= out")
    return workers.Plan(
        parts=_words("parts", keys.get("parts", ",".join(workers.PARTS)), workers.PARTS),
        sizes=_distinct("sizes", [_size(item) for item in grammar.several("sizes", keys.get("sizes", SIZES))]),
        optimizers=_words("optimizers", keys.get("optimizers", "gd,adam"), tuple(measure.OPTIMIZERS)),
        lanes=_counts("lanes", keys.get("lanes", "1,64"), MOST_LANES),
        threads=_counts("threads", keys.get("threads", "1,2" if most > 1 else "1"), most),
        peers=named,
        seconds=checks.real("seconds", seconds, at_least=0.001, at_most=60),
        rounds=checks.whole("rounds", rounds, at_least=1, at_most=1000),
    )


def _words(key: str, text: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    items = [checks.choice(key.removesuffix("s"), item, allowed) for item in grammar.several(key, text.lower())]
    return _distinct(key, items)


def _counts(key: str, text: str, most: int) -> tuple[int, ...]:
    items = [grammar.whole(key, item) for item in grammar.several(key, text)]
    return _distinct(key, [checks.whole(key, item, at_least=1, at_most=most) for item in items])


def _distinct(key: str, items: list[Any]) -> tuple[Any, ...]:
    for item in items:
        if items.count(item) > 1:
            named = "x".join(map(str, item)) if isinstance(item, tuple) else item
            raise InputError(f"{key} names {named} twice")
    return tuple(items)


def _size(text: str) -> tuple[int, int]:
    from quadsim.problem import LARGEST_BLOCK

    blocks, size = grammar.pair("sizes", text.replace("×", "x"))
    checks.whole("block size", size, at_least=1, at_most=LARGEST_BLOCK)
    if blocks * size**2 > MOST_ENTRIES:
        raise InputError(f"sizes={blocks}x{size} has {blocks * size**2} entries, and {MOST_ENTRIES} are the most")
    return blocks, size


def _write(folder: Path, keys: dict[str, str], plan: Plan, result: dict[str, Any]) -> list[Path]:
    import pandas as pd

    from quadsim import plots, results
    from quadsim.bench import peers

    said = {key: text for key, text in keys.items() if key != "out"}
    line, facts = command("bench", said), result["machine"]
    tables = {"" if part == "steps" else f"-{part}": pd.DataFrame(result[part]) for part in plan.parts if result[part]}
    figures = {}
    if "steps" in plan.parts:
        caption = f"{line}: {facts['cpu']}, {', '.join(facts['vector_units'])}; least of {plan.rounds} rounds"
        figures[""] = plots.speed(tables[""], title=_finding(result["steps"]), caption=caption)
    versions = results.versions() | peers.versions(list(plan.peers))
    return results.write(
        folder, stem("bench", said), figures, tables, {"command": line, **result, "versions": versions}
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
    if (facts["others"] or 0) > BUSY:
        words = f"Others took {facts['others']:.0%} of the machine meanwhile: what needs several threads is slowed."
        screen.print(words, style="red", highlight=False)
    if result.get("steps"):
        wide = screen.width >= WIDE
        screen.print(_steps(plan, result["steps"], wide=wide))
        beside = "beside them how many times quadsim's" if wide else "of the peers how many times quadsim's"
        screen.print(f"Microseconds per step and run, and {beside} (red: quicker than quadsim).", highlight=False)
        words = "dgemm: flops of H·w beside those of numpy's matrix product on as many threads, in the same turns."
        screen.print(words, highlight=False)
    if result.get("problems"):
        screen.print(_problems(result["problems"]))
    if result.get("start"):
        screen.print(_starts(result["start"]))
    for path in result["files"]:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)


def _steps(plan: Plan, rows: list[dict[str, Any]], *, wide: bool) -> Table:
    """A line for each setting, grouped by size: quadsim, then the peers; on a narrow screen only how they compare."""
    from rich.text import Text

    def column(row: dict[str, Any]) -> str:
        return "optax vmap" if row["contestant"] == "optax" else row["contestant"]  # one run, or a vmap of many

    peers = [name for name in dict.fromkeys(map(column, rows)) if name != "quadsim"]
    columns = ["size", "", "lanes", "threads", "quadsim", "of dgemm", *peers]
    table = _table(*(column if wide else SHORT.get(column, column) for column in columns))
    at = {(row["blocks"], row["block_size"], *(row[key] for key in SETTING), column(row)): row for row in rows}
    for size in plan.sizes:
        for setting in product(plan.optimizers, plan.lanes, plan.threads):
            ours = at[(*size, *setting, "quadsim")]
            cells: list[Any] = [f"{size[0]}×{size[1]}", _label(setting[0]), *map(str, setting[1:])]
            cells += [_digits(ours["microseconds"]), f"{ours['fraction']:.0%}"]
            for peer in peers:
                theirs = at.get((*size, *setting, peer))
                if theirs is None:
                    cells.append("")
                    continue
                told = f"{_digits(theirs['ratio'], 2)}×"
                ratio = Text(f" {told:>5}" if wide else told, style="red" if theirs["ratio"] < 1 else "")
                cells.append(Text(_digits(theirs["microseconds"])).append(ratio) if wide else ratio)
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


def _digits(value: float, digits: int = 3) -> str:
    """So many digits that matter, written out: 0.0119, 1.57, 5,118."""
    return f"{value:,.{max(0, digits - 1 - math.floor(math.log10(value)))}f}"
