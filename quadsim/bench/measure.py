"""Timing in rounds: each round runs every contestant once, so that a busy machine affects all of them alike.

The minimum over the rounds counts. A run of no steps (packing, allocation, dispatch) is timed in the same rounds and
subtracted, so that the time of the steps remains. Compilation and warm-up are not timed. A process pinned to one core
is timed by CPU time, which other processes do not affect; one with several cores, by wall-clock time.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from quadsim.bench import loops
from quadsim.bench.loops import DGEMM, QUADSIM, Contestant, Run, Task
from quadsim.engine import solver
from quadsim.engine.compiled.batching import fastest_kernels
from quadsim.optimizers import GD, Adam, Optimizer

TINY_LR = 1e-15  # so small that no run converges, diverges or underflows
OPTIMIZERS: dict[str, GD | Adam] = {"gd": GD(lr=TINY_LR), "adam": Adam(lr=TINY_LR)}
MIN_STEPS = 6  # of a run
TRIES = 2  # of every variant, before the fastest is chosen
MAX_SPIN_MS = 300
PROBLEMS = 64  # of `many_problems`
MANY_PROBLEMS_TIME = 5  # `many_problems` runs this many times as long as a round


@fastest_kernels()
def steps(task: Task, peers: Iterable[Contestant], *, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """A row for quadsim and each peer: microseconds per step and run, and the fraction of the machine's dgemm rate."""
    entries = [_entry(peer, task, seconds) for peer in (DGEMM, QUADSIM, *peers) if peer.variants(task)]
    turns = [_turn(entry) for _ in range(rounds) for entry in entries]
    rows: list[dict[str, Any]] = []
    for index, entry in enumerate(entries):
        setup, whole = (min(times) for times in zip(*turns[index :: len(entries)], strict=True))
        step = max(whole - setup, whole / 2) / entry.steps  # a setup longer than half of the run was disturbed
        if entry.contestant is DGEMM:
            rate = 2 * loops.DGEMM_SIZE**3 / step
            continue
        rows.append(
            {
                "blocks": len(task.problem.blocks),
                "block_size": task.problem.sizes[0],
                "optimizer": task.optimizer.name,
                "lanes": task.lanes,
                "threads": task.threads,
                "contestant": entry.contestant.name,
                "microseconds": 1e6 * step / task.lanes,
                "ratio": 0.0,
                "gflops": 1e-9 * task.flops / step,
                "dgemm_gflops": 1e-9 * rate,
                "fraction": task.flops / step / rate,  # replaced by `beside_dgemm`
                "variant": entry.variant,
                "steps": entry.steps,
                "setup_ms": 1e3 * setup,
                "clock": "cpu" if pinned() else "wall",
            }
        )
    for row in rows:
        row["ratio"] = row["microseconds"] / rows[0]["microseconds"]
    return rows


def beside_dgemm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with their fraction of the best dgemm rate in the whole benchmark, with as many threads.

    A disturbed dgemm would favour the others, so its best rate over all rounds counts.
    """
    best: dict[int, float] = {}
    for row in rows:
        best[row["threads"]] = max(best.get(row["threads"], 0.0), row["dgemm_gflops"])
    rates = (best[row["threads"]] for row in rows)
    return [
        row | {"dgemm_gflops": rate, "fraction": row["gflops"] / rate} for row, rate in zip(rows, rates, strict=True)
    ]


@dataclass(frozen=True)
class _Entry:
    """A contestant ready to be timed: its fastest variant, a run of `steps`, and one of no steps."""

    contestant: Contestant
    variant: str
    steps: int
    run: Run
    blank: Run


def _entry(contestant: Contestant, task: Task, seconds: float) -> _Entry:
    """The fastest variant of a contestant, with enough steps to fill the seconds, warmed up."""
    _settle()
    guess = max(2, round(seconds / 8 / (contestant.overhead + task.flops / 2e10)))

    def warmed_up(variant: str, steps: int) -> tuple[float, Run]:
        run = contestant.ready(task, variant, steps)
        run()
        return min(_seconds(run) for _ in range(TRIES)), run

    took, variant = min((warmed_up(variant, guess)[0], variant) for variant in contestant.variants(task))
    setup, blank = warmed_up(variant, 0)
    count = _fill(seconds * contestant.longer, max(took - setup, took / 8) / guess)
    run = contestant.ready(task, variant, count)
    run()
    return _Entry(contestant, variant, count, run, blank)


def _turn(entry: _Entry) -> tuple[float, float]:
    """Seconds without steps, and with all steps."""
    _settle()
    return _seconds(entry.blank), _seconds(entry.run)


def _settle() -> None:
    """Wait until the threads of the previous contestant sleep.

    Idle threads spin for some time (OpenBLAS: 30 ms) and would take a core from the next contestant.
    """
    for _ in range(MAX_SPIN_MS // 5):
        began = time.process_time()
        time.sleep(0.005)
        if time.process_time() - began < 0.001:
            return


def _fill(seconds: float, step: float) -> int:
    """The number of steps that fill the seconds; at least MIN_STEPS, so that the setup is small in comparison."""
    return max(MIN_STEPS, round(seconds / step))


def _seconds(run: Callable[[], Any]) -> float:
    clock = time.process_time if pinned() else time.perf_counter
    began = clock()
    run()
    return clock() - began


def pinned() -> bool:
    """Whether this process is pinned to one core."""
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == 1


@fastest_kernels()
def many_problems(
    blocks: int, block_size: int, optimizer: Optimizer, threads: int, *, seconds: float, rounds: int
) -> dict[str, Any]:
    """The speed-up of `solve` over many problems by threads, and that of the machine.

    The problems are built in advance. The speed-up of the machine is that of matrix products, one on each thread.
    """
    problems = [loops.problem(blocks, block_size, seed) for seed in range(PROBLEMS)]

    def solve(threads: int) -> Callable[[], Any]:
        how: dict[str, Any] = {"max_steps": count, "tol": 0, "record": count, "engine": "compiled", "threads": threads}
        return lambda: solver.solve(problems.__getitem__, optimizer, seed=range(PROBLEMS), **how)

    count, took = 25, 0.0
    solve(1)()  # compiles
    while took < MANY_PROBLEMS_TIME * seconds:
        count *= 4
        took = _seconds(solve(1))
    task = Task(problems[0], OPTIMIZERS["gd"])
    few = _fill(seconds, _seconds(loops.product_run(task, "", 3)) / 3)
    products = [loops.product_run(task, "", few) for _ in range(threads)]

    def together() -> None:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda product: product(), products))

    runs = (solve(1), solve(threads), products[0], together)
    turns = [[_seconds(run) for run in runs] for _ in range(rounds)]
    one, several, alone, side_by_side = (min(times) for times in zip(*turns, strict=True))
    return {
        "blocks": blocks,
        "block_size": block_size,
        "optimizer": optimizer.name,
        "problems": PROBLEMS,
        "steps": count,
        "threads": threads,
        "seconds_one": one,
        "seconds_several": several,
        "gain": one / several,
        "machine_gain": threads * alone / side_by_side,
    }
