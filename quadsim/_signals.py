"""Interrupts and child processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker


@contextmanager
def deaf() -> Iterator[None]:
    """Start threads and processes that never receive SIGINT; this thread receives it when they have been started.

    Ctrl-C reaches every process of a terminal. A child would print a traceback, also while it is still importing.
    """
    resource_tracker.ensure_running()  # which would unblock SIGINT in the thread that starts it
    heard: list[int] = []
    first = threading.current_thread() is threading.main_thread()
    usual = signal.signal(signal.SIGINT, lambda *_: heard.append(1)) if first else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if first:
            signal.signal(signal.SIGINT, usual)
    if heard:
        raise KeyboardInterrupt
