"""`python -m quadsim bench` with all other libraries, in a temporary virtual environment.

    python experiments/bench_peers.py [venv=FOLDER] [arguments of bench: sizes=4x30 out=figures …]

The environment is created in a temporary folder and deleted afterwards, or in the given folder and kept.
"""

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The exact release of torch first: this selects its CPU build; a version range would not.
INSTALLS = (["torch==2.13.0"], ["optax>=0.2"], [str(ROOT)])


def main(arguments):
    folders = [argument.partition("=")[2] for argument in arguments if argument.startswith("venv=")]
    arguments = [argument for argument in arguments if not argument.startswith("venv=")]
    if len(folders) > 1 or folders == [""]:
        sys.exit("write venv=FOLDER once")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(folders[0] if folders else temporary).absolute()
        venv.create(folder, with_pip=True)
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        for packages in INSTALLS:
            print("installing", packages[0] if packages != [str(ROOT)] else "quadsim", file=sys.stderr, flush=True)
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
        env = os.environ | {"PYTHONSAFEPATH": "1"}  # import the installed quadsim, not the one in this folder
        return subprocess.run([python, "-m", "quadsim", "bench", *arguments], env=env).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
