"""Times, taken in turns: a round gives every contestant its turn, so that a busy machine disturbs all alike.

The least time over the rounds counts. A run of no steps (packing, allocation, dispatch) is timed in the same turns and
taken off, so what remains is steps. Compilation and warm-up are never timed. A process that is held to one core is
timed by the CPU time of all its threads, which others on that core do not lengthen; one that has several, by the clock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from quadsim import solver
from quadsim.bench import loops
from quadsim.bench.loops import DGEMM, QUADSIM, Contestant, Run, Task
from quadsim.optimizers import GD, Adam, Optimizer

# So small that the start is where every run remains: nothing converges, diverges or leaves float64's range.
RATE = 1e-15
OPTIMIZERS: dict[str, GD | Adam] = {"gd": GD(lr=RATE), "adam": Adam(lr=RATE)}
LEAST = 6  # steps of a run
TRIES = 2  # of every variant, before the quickest is chosen
LONGEST_SPIN = 300  # milliseconds
PROBLEMS = 64  # how many make "many problems"
LONGER = 5  # many problems are run for so many times the seconds of a round


def steps(task: Task, peers: Iterable[Contestant], *, seconds: float, rounds: int) -> list[dict[str, Any]]:
    """A row for quadsim and for each peer: microseconds per step and run, and the fraction of the machine's dgemm."""
    entries = [_entry(one, task, seconds) for one in (DGEMM, QUADSIM, *peers) if one.variants(task)]
    turns = [_turn(one) for _ in range(rounds) for one in entries]
    rows: list[dict[str, Any]] = []
    for place, one in enumerate(entries):
        setup, whole = (min(times) for times in zip(*turns[place :: len(entries)], strict=True))
        step = max(whole - setup, whole / 2) / one.steps  # a setup of more than half has been disturbed
        if one.contestant is DGEMM:
            rate = 2 * loops.PRODUCT**3 / step
            continue
        rows.append(
            {
                "blocks": len(task.problem.blocks),
                "block_size": task.problem.sizes[0],
                "optimizer": task.optimizer.name,
                "lanes": task.lanes,
                "threads": task.threads,
                "contestant": one.contestant.name,
                "microseconds": 1e6 * step / task.lanes,
                "ratio": 0.0,
                "gflops": 1e-9 * task.flops / step,
                "dgemm_gflops": 1e-9 * rate,
                "fraction": task.flops / step / rate,  # until `beside_dgemm` knows better
                "variant": one.variant,
                "steps": one.steps,
                "setup_ms": 1e3 * setup,
                "clock": "cpu" if held() else "wall",
            }
        )
    for row in rows:
        row["ratio"] = row["microseconds"] / rows[0]["microseconds"]
    return rows


def beside_dgemm(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a whole run with their fraction of dgemm's best rate in it, on as many threads.

    A disturbed dgemm would flatter the rest: its best rate of all turns is the one that counts.
    """
    best: dict[int, float] = {}
    for row in rows:
        best[row["threads"]] = max(best.get(row["threads"], 0.0), row["dgemm_gflops"])
    rates = [best[row["threads"]] for row in rows]
    return [
        {**row, "dgemm_gflops": rate, "fraction": row["gflops"] / rate} for row, rate in zip(rows, rates, strict=True)
    ]


@dataclass(frozen=True)
class _Entry:
    """A contestant ready for its turns: its quickest variant, a run of `steps`, and one of none."""

    contestant: Contestant
    variant: str
    steps: int
    run: Run
    blank: Run


def _entry(contestant: Contestant, task: Task, seconds: float) -> _Entry:
    """The quickest variant of a contestant, with as many steps as fill the seconds, warmed up."""
    _settle()
    guess = max(2, round(seconds / 8 / (contestant.overhead + task.flops / 2e10)))
    took = {}
    for variant in contestant.variants(task):
        run = contestant.ready(task, variant, guess)
        run()
        took[variant] = min(_seconds(run) for _ in range(TRIES))
    variant = min(took, key=lambda name: took[name])
    blank = contestant.ready(task, variant, 0)
    blank()
    setup = min(_seconds(blank) for _ in range(TRIES))
    count = _fill(seconds * contestant.longer, max(took[variant] - setup, took[variant] / 8) / guess)
    run = contestant.ready(task, variant, count)
    run()
    return _Entry(contestant, variant, count, run, blank)


def _turn(entry: _Entry) -> tuple[float, float]:
    """Seconds of no steps, and of all."""
    _settle()
    return _seconds(entry.blank), _seconds(entry.run)


def _settle() -> None:
    """Wait till the threads of whoever ran before have gone to sleep.

    They spin for some time in the hope of more work, OpenBLAS's for 30 ms, and would take a core from the next one.
    """
    for _ in range(LONGEST_SPIN // 5):
        began = time.process_time()
        time.sleep(0.005)
        if time.process_time() - began < 0.001:
            return


def _fill(seconds: float, step: float) -> int:
    """How many steps of this length fill the seconds; not too few, for what is taken off must be small beside them."""
    return max(LEAST, round(seconds / step))


def _seconds(run: Callable[[], Any]) -> float:
    clock = time.process_time if held() else time.perf_counter
    began = clock()
    run()
    return clock() - began


def held() -> bool:
    """Whether this process is held to one core, where its CPU time is what it would take if it were alone."""
    return hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) == 1


def many_problems(
    blocks: int, block_size: int, optimizer: Optimizer, threads: int, *, seconds: float, rounds: int
) -> dict[str, Any]:
    """`solve_draws` over many problems on one thread and on several, beside what the machine itself gains by them.

    The problems are made beforehand. The machine's own gain is that of matrix products, one on each thread.
    """
    made = [loops.problem(blocks, block_size, seed) for seed in range(PROBLEMS)]

    def solve(threads: int) -> Callable[[], Any]:
        how: dict[str, Any] = {"max_steps": count, "tol": 0, "record": count, "threads": threads}
        return lambda: solver.solve_draws(made.__getitem__, [optimizer], range(PROBLEMS), **how)

    count, took = 25, 0.0
    solve(1)()  # compiles
    while took < LONGER * seconds:
        count *= 4
        took = _seconds(solve(1))
    task = Task(made[0], OPTIMIZERS["gd"])
    few = _fill(seconds, _seconds(loops.product_run(task, "", 3)) / 3)
    products = [loops.product_run(task, "", few) for _ in range(threads)]

    def together() -> None:
        with ThreadPoolExecutor(threads) as pool:
            for done in [pool.submit(product) for product in products]:
                done.result()

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
