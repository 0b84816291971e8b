"""Import times of libraries that quadsim uses, or decided not to use, or imports late.

    python experiments/import_times.py [rounds=7]

Each is the least CPU time over rounds of a fresh `python -c "import NAME"`, minus that of `python -c pass`. Writes
figures/import-times.csv. A library that is not installed is left out.
"""

import importlib.util
import resource
import subprocess
import sys
from pathlib import Path

import pandas as pd

from quadsim import _artifacts

CODE = {
    "pass": "pass",
    "filelock": "import filelock",
    "platformdirs": "import platformdirs",
    "rich": "import rich.console, rich.progress, rich.table",
    "scipy.stats": "import scipy.stats",
    "pandas": "import pandas",
    "matplotlib": "import matplotlib.figure",
    "numba": "import numba",
    "quadsim": "import quadsim",
    "quadsim --help": "import sys\nsys.argv = ['-m', '--help']\nfrom quadsim.cli import main\nmain.main(['--help'])",
}


def cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def seconds(code):
    """The CPU time of a process."""
    before = cpu_of_children()
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
    return cpu_of_children() - before


def main():
    rounds = int(next((text.removeprefix("rounds=") for text in sys.argv[1:] if text.startswith("rounds=")), 7))
    code = {name: text for name, text in CODE.items() if name == "pass" or importlib.util.find_spec(name.split()[0])}
    taken = [{name: seconds(text) for name, text in code.items()} for _ in range(rounds)]
    least = {name: min(turn[name] for turn in taken) for name in code}
    rows = [{"imported": name, "milliseconds": round(1e3 * (least[name] - least["pass"]), 1)} for name in code]
    frame = pd.DataFrame(rows[1:])
    _artifacts.write_text(Path("figures/import-times.csv"), frame.to_csv(index=False))
    print(frame.to_string(index=False))


if __name__ == "__main__":
    main()
