"""Parsing of Python source from several threads."""

import ast
import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import quadsim
from quadsim import _source

TEXT = Path(quadsim.__file__).with_name("keys.py").read_text()
FIXED_IN_PYTHON = sys.version_info >= (3, 11, 8) and sys.version_info[:3] not in ((3, 12, 0), (3, 12, 1))


def failures(parse):
    """How many of 200 calls from 8 threads fail, while the garbage collector runs Python code all the time."""

    def one(_):
        try:
            parse(TEXT)
        except SystemError:
            return 1
        return 0

    def callback(*_):
        sum(range(50))

    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.callbacks.append(callback)
    gc.set_threshold(50)
    try:
        with ThreadPoolExecutor(8) as pool:
            return sum(pool.map(one, range(200)))
    finally:
        gc.set_threshold(*thresholds)
        gc.callbacks.remove(callback)
        sys.setswitchinterval(interval)


@pytest.mark.slow
def test_threads_may_parse_at_the_same_time():
    assert failures(_source.parse) == 0


@pytest.mark.slow
@pytest.mark.skipif(FIXED_IN_PYTHON, reason="this Python has the fix of python/cpython#106905")
def test_the_lock_is_needed():
    assert any(failures(ast.parse) for _ in range(10))
