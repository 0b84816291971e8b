"""`python -m quadsim`, and the command `quadsim`."""

import gc
import sys

from quadsim.cli import main


def start() -> int:
    """Run the command line of this process."""
    gc.set_threshold(100_000)  # imports make objects by the hundred thousand: collecting after each 700 costs 0.2 s
    return main()


if __name__ == "__main__":
    sys.exit(start())
