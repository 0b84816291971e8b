"""A process for each number of threads: packages read their thread count from the environment when imported.

So each part needs an interpreter of its own rather than a worker of `_processes.ProcessPool`.

With one thread the process is pinned to one core where the system supports it; with two threads it has two cores, which
libraries use as they do by default. A worker reads its job from standard input and answers with one line per
measurement, both in JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from quadsim._processes import sigint_blocked

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
        return sum(len(job.labels()) for job in self.jobs())

    def jobs(self) -> list[Plan]:
        """One for each process: a part, on one number of threads."""
        jobs = []
        for part in self.parts:
            counts = {"steps": self.threads, "problems": (max(self.threads),), "start": (1,)}[part]
            jobs += [replace(self, parts=(part,), threads=(count,)) for count in counts]
        return [job for job in jobs if job.labels()]

    def labels(self) -> list[str]:
        """The labels of the measurements of one job."""
        (part,), (threads,) = self.parts, self.threads
        if part == "start":
            from quadsim.bench import starts

            return list(starts.plan(list(self.peers)))
        kinds = [(size, name) for size in self.sizes for name in self.optimizers]
        if part == "problems":
            return [
                f"{_size(size)} {name}" for size, name in kinds if threads > 1 and size[0] * size[1] <= MAX_DIM_OF_MANY
            ]
        return [f"{_size(size)} {name}, lanes {lanes}" for size, name in kinds for lanes in self.lanes]


def _size(size: tuple[int, int]) -> str:
    return f"{size[0]}×{size[1]}"


def measured(plan: Plan) -> Iterator[tuple[str, str, list[dict[str, Any]]]]:
    """All measurements of the plan, as they finish: (part, label, rows)."""
    for job in plan.jobs():
        for label, rows in zip(job.labels(), _answers(job), strict=True):
            yield job.parts[0], label, rows


def _answers(job: Plan) -> Iterator[list[dict[str, Any]]]:
    """The answers of a worker process to the job, line by line."""
    (part,), (threads,) = job.parts, job.threads
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    env = os.environ | dict.fromkeys(names, str(threads if part == "steps" else 1))
    if threads == 1 and not hasattr(os, "sched_setaffinity"):
        env["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as complaints:
        with sigint_blocked():
            worker = subprocess.Popen(
                [sys.executable, "-m", "quadsim.bench"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=complaints, env=env, text=True, encoding="utf-8",
            )  # fmt: skip
        assert worker.stdin is not None
        assert worker.stdout is not None
        try:
            worker.stdin.write(json.dumps(asdict(job)))
            worker.stdin.close()
            for line in worker.stdout:
                yield json.loads(line)
            if worker.wait():
                complaints.seek(0)
                last = (complaints.read().strip().splitlines() or [f"exit code {worker.returncode}"])[-1]
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
    """The rows of each line, in the order of the labels."""
    from quadsim.bench import loops, measure, peers, starts

    (part,), (threads,) = job.parts, job.threads
    how: dict[str, Any] = {"seconds": job.seconds, "rounds": job.rounds}
    if part == "start":
        for what, words in starts.plan(list(job.peers)).items():
            yield [{"start": what, **starts.times(words, rounds=WARM_STARTS)}]
        return
    contestants = [one for name in job.peers for one in peers.CONTESTANTS[name]]
    for size in job.sizes:
        if part == "problems" and size[0] * size[1] > MAX_DIM_OF_MANY:
            continue
        problem = loops.problem(*size)
        for name in job.optimizers:
            optimizer = measure.OPTIMIZERS[name]
            if part == "problems":
                yield [measure.many_problems(*size, optimizer, threads, **how)]
                continue
            for lanes in job.lanes:
                yield measure.steps(loops.Task(problem, optimizer, lanes, threads), contestants, **how)
