"""One process per part and number of threads: packages read their thread count from the environment when imported.

So each job needs a new interpreter rather than a worker of `_processes.ProcessPool`.

With one thread the process is pinned to one core where the system supports it; with two threads it has two cores, which
libraries use as they do by default. A worker reads its job from standard input and writes one line per measurement to
standard output, both in JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

from quadsim._processes import sigint_blocked
from quadsim.bench import starts

PARTS = ("steps", "problems", "start")
MAX_DIM_OF_MANY = 256  # the dimension up to which many problems are timed
WARM_STARTS = 3  # the minimum counts


@dataclass(frozen=True)
class Plan:
    """What to measure: the parts, and what they run. Sizes are (blocks, block_size)."""

    parts: tuple[str, ...]
    sizes: tuple[tuple[int, int], ...]
    optimizers: tuple[str, ...]
    lanes: tuple[int, ...]
    threads: tuple[int, ...]
    peers: tuple[str, ...]
    seconds: float
    rounds: int

    def total(self) -> int:
        """The number of measurements."""
        return sum(len(job.measurements()) for job in self.jobs())

    def jobs(self) -> list[Plan]:
        """One plan per process: a part with one number of threads."""
        jobs = []
        for part in self.parts:
            counts = {"steps": self.threads, "problems": (max(self.threads),), "start": (1,)}[part]
            jobs += [replace(self, parts=(part,), threads=(count,)) for count in counts]
        return [job for job in jobs if job.measurements()]

    def measurements(self) -> dict[str, Any]:
        """The measurements of one job by label: the arguments of `python`, or (size, optimizer, lanes)."""
        (part,), (threads,) = self.parts, self.threads
        if part == "start":
            return starts.plan(list(self.peers))
        if part == "problems":
            sizes = [(n, k) for n, k in self.sizes if threads > 1 and n * k <= MAX_DIM_OF_MANY]
            return {f"{n}×{k} {name}": ((n, k), name, 1) for (n, k), name in product(sizes, self.optimizers)}
        settings = product(self.sizes, self.optimizers, self.lanes)
        return {f"{n}×{k} {name}, lanes {lanes}": ((n, k), name, lanes) for (n, k), name, lanes in settings}


def measured(plan: Plan) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """All measurements of the plan, as they finish: (part, label, rows)."""
    for job in plan.jobs():
        for label, rows in zip(job.measurements(), _answers(job), strict=True):
            yield job.parts[0], label, rows


def _answers(job: Plan) -> Iterator[list[dict[str, Any]]]:
    """Run the job in a worker process; yields the rows of each measurement."""
    (part,), (threads,) = job.parts, job.threads
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    env = os.environ | dict.fromkeys(names, str(threads if part == "steps" else 1))
    if threads == 1 and not hasattr(os, "sched_setaffinity"):
        env["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
        with sigint_blocked():
            worker = subprocess.Popen([sys.executable, "-m", "quadsim.bench"], env=env, encoding="utf-8", **pipes)
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(asdict(job)))
            worker.stdin.close()
            for line in worker.stdout:
                yield json.loads(line)
            if worker.wait():
                errors.seek(0)
                last = (errors.read().strip().splitlines() or [f"exit code {worker.returncode}"])[-1]
                raise ChildProcessError(f"measuring {part} with threads={threads} failed: {last}")
        finally:
            worker.kill()
            worker.wait()
            worker.stdout.close()


def serve() -> None:
    """The worker: pin the process to the cores of the job, then measure."""
    job = Plan(**json.load(sys.stdin))
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # output of packages goes to standard error
    if job.parts[0] != "start" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-job.threads[0] :])
    for rows in _measure(job):
        print(json.dumps(rows), file=answers, flush=True)


def _measure(job: Plan) -> Iterator[list[dict[str, Any]]]:
    """The rows of each measurement, in the order of `Plan.measurements`."""
    if job.parts[0] == "start":
        for label, arguments in job.measurements().items():
            yield [{"start": label, **starts.times(arguments, rounds=WARM_STARTS)}]
        return
    from quadsim.bench import loops, measure, peers

    how: dict[str, Any] = {"seconds": job.seconds, "rounds": job.rounds}
    contestants = [contestant for name in job.peers for contestant in peers.CONTESTANTS[name]]
    problem = lru_cache(maxsize=1)(loops.problem)
    for (blocks, block_size), name, lanes in job.measurements().values():
        optimizer, (threads,) = measure.OPTIMIZERS[name], job.threads
        if job.parts[0] == "problems":
            yield [measure.many_problems(blocks, block_size, optimizer, threads, **how)]
        else:
            yield measure.steps(loops.Task(problem(blocks, block_size), optimizer, lanes, threads), contestants, **how)
