"""The process pool: results, workers that die, interrupts and orphans."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_processes import in_group, until

from quadsim._processes import ProcessPool, WorkerDiedError, exit_on_sigterm, sigint_blocked

ROOT = Path(__file__).parent.parent


def test_results_and_errors_are_returned():
    with ProcessPool(2) as pool:
        futures = [pool.submit(divmod, 7, divisor) for divisor in (2, 0)]
        assert pool.result(futures[0]) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            pool.result(futures[1])


def test_a_worker_that_dies_is_reported_and_replaced():
    with ProcessPool(1) as pool:
        with pytest.raises(WorkerDiedError):
            pool.result(pool.submit(os._exit, 3))
        assert pool.result(pool.submit(abs, -1)) == 1


def test_an_exception_ends_the_workers_at_once():
    def submit_and_fail():
        with ProcessPool(1) as pool:
            pool.submit(time.sleep, 60)
            raise KeyError

    began = time.perf_counter()
    with pytest.raises(KeyError):
        submit_and_fail()
    assert time.perf_counter() - began < 20


def test_sigint_is_deferred_to_the_end_of_the_block():
    reached = []

    def interrupt():
        with sigint_blocked():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("end of the block")

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert reached


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_sighup_ends_a_command_unless_it_is_ignored_as_under_nohup():
    def hang_up(handler):
        before = signal.signal(signal.SIGHUP, handler)
        try:
            with exit_on_sigterm():
                os.kill(os.getpid(), signal.SIGHUP)
                return "survived"
        finally:
            signal.signal(signal.SIGHUP, before)

    assert hang_up(signal.SIG_IGN) == "survived"
    with pytest.raises(SystemExit):
        hang_up(signal.SIG_DFL)


GROUP = """
import sys, time
sys.path.insert(0, {root!r})
from quadsim._processes import ProcessPool

if __name__ == "__main__":
    with ProcessPool(2) as pool:
        futures = [pool.submit(time.sleep, 0.2) for _ in range(2)]
        [pool.result(future) for future in futures]
        print("running", flush=True)
        pool.result(pool.submit(time.sleep, 60))
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_no_worker_survives_and_none_prints_a_traceback(tmp_path, number):
    """SIGINT goes to the whole process group, as from a terminal; SIGKILL to the parent alone."""
    (tmp_path / "main.py").write_text(GROUP.format(root=str(ROOT)))
    parent = subprocess.Popen(
        [sys.executable, "main.py"], cwd=tmp_path, start_new_session=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert parent.stdout.readline() == "running\n"
    (os.killpg if number == signal.SIGINT else os.kill)(parent.pid, number)
    _, errors = parent.communicate(timeout=60)  # ends when no process has its standard error open
    assert errors.count("Traceback") == (1 if number == signal.SIGINT else 0)  # of the parent
    until(lambda: not in_group(parent.pid))
