"""A cache folder with one kernel, filled by a process."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import quadsim as qs

SOLVE = (  # with the kernel of long runs, which is a single file
    "import quadsim as qs; from quadsim.engine.compiled import batching; batching.MAX_SMALL_WORK = 0; "
    "print(float(qs.solve(qs.case(3), qs.GD(), max_steps=100, engine='compiled').loss[-1]).hex())"
)


@pytest.fixture(scope="session")
def expected():
    """The output of SOLVE."""
    return float(qs.solve(qs.case(3), qs.GD(), max_steps=100, engine="compiled").loss[-1]).hex()


@pytest.fixture(scope="session")
def filled(filled_once, expected):
    def fill(folder):
        env = os.environ | {"QUADSIM_CACHE_DIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([sys.executable, "-c", SOLVE], capture_output=True, text=True, env=env, timeout=300)
        assert (done.returncode, done.stdout.strip(), done.stderr.strip()) == (0, expected, "")

    return filled_once("kernel-cache", fill)


@pytest.fixture
def cache(filled, tmp_path):
    """A private copy of it that a test may damage."""
    return Path(shutil.copytree(filled, tmp_path / "cache"))
