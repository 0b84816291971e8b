"""Execute the fences of several pages, two at a time."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import fences
import run_page

MAX_SECONDS = 20  # of CPU for a page whose kernels are in the cache


def run(pages: Sequence[Path]) -> list[str]:
    """Execute pages; returns a message for each that failed, and removes what deleted pages showed."""
    shutil.rmtree(fences.SHOWN, ignore_errors=True)
    busy = [page for page in pages if any(fence.executed for fence in fences.of(page))]
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        results = dict(zip(busy, pool.map(run_page.in_process, busy), strict=True))
    for page, (_, seconds) in results.items():
        if seconds > MAX_SECONDS:
            print(f"{fences.name_of(page)} takes {seconds:.0f} s of CPU, more than {MAX_SECONDS} s")
    return [message for message, _ in results.values() if message]
