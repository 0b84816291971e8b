"""The site builds without a warning."""

import subprocess
import sys

import fences
import pytest


@pytest.mark.slow
def test_the_site_builds(tmp_path):
    pytest.importorskip("sphinx")
    done = subprocess.run([sys.executable, fences.DOCS / "build.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
