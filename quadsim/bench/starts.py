"""The time of whole processes, with a cold and with a warm kernel cache.

With a cold cache quadsim compiles its kernels, with a warm one it loads them. Other libraries have no cache: the time
is that of the import and the first steps.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_SOLVE = "import quadsim as qs; qs.solve(qs.case(3), qs.Adam(), max_steps=100)"
_PEER = """
from quadsim.bench import loops, measure, peers
task = loops.Task(loops.problem(3, 3), measure.OPTIMIZERS["adam"])
contestant = peers.CONTESTANTS[{peer!r}][0]
contestant.ready(task, contestant.variants(task)[0], 100)()
"""


def plan(peers: list[str]) -> dict[str, list[str]]:
    """The arguments of `python` to time, by label."""
    return {
        "python alone": ["-c", "pass"],
        "quadsim --help": ["-m", "quadsim", "--help"],
        "quadsim case=3": ["-m", "quadsim", "case=3"],
        "quadsim case=3 optimizers=gd,adam": ["-m", "quadsim", "case=3", "optimizers=gd,adam"],
        "100 steps of Adam by quadsim": ["-c", _SOLVE],
        **{f"100 steps of Adam by {peer}": ["-c", _PEER.format(peer=peer)] for peer in peers},
    }


def times(arguments: list[str], *, rounds: int) -> dict[str, float | None]:
    """Seconds of `python arguments…`: with an empty kernel cache, and the minimum of `rounds` with the filled one.

    If no kernel was compiled, cold is None.
    """
    with tempfile.TemporaryDirectory() as folder:
        cold, compiled = _seconds(arguments, folder), (Path(folder) / "cache").is_dir()
        return {"cold": cold if compiled else None, "warm": min(_seconds(arguments, folder) for _ in range(rounds))}


def _seconds(arguments: list[str], folder: str) -> float:
    paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]  # the quadsim that is running
    env = {"QUADSIM_CACHE_DIR": str(Path(folder) / "cache"), "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, *arguments]
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=os.environ | env, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    took = time.perf_counter() - began
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ChildProcessError(f"python {' '.join(' '.join(arguments).split())[:40]}… failed: {last}")
    return took
