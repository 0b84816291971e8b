"""`python -m quadsim`: the command line."""

import sys

from quadsim.cli import main

if __name__ == "__main__":
    sys.exit(main())
