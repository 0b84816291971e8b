"""Build the site: python docs/build.py [--draft] [--without-code]

Executes the code of all pages, renders them to docs/_build/html and checks the links. Warnings are errors, except with
--draft. --without-code does not execute the code: figures and outputs that pages show are left out, with warnings.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS / "_ext"), str(DOCS.parent)]
import check_site  # noqa: E402
import fences  # noqa: E402
import generate  # noqa: E402
import run_pages  # noqa: E402

HTML = DOCS / "_build" / "html"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--draft", action="store_true", help="warnings are no errors")
    parser.add_argument("--without-code", action="store_true", help="do not execute the code of the pages")
    options = parser.parse_args()
    generate.write()
    errors = [] if options.without_code else run_pages.run(fences.pages())
    for error in errors:
        print(error, file=sys.stderr)
    shutil.rmtree(HTML, ignore_errors=True)
    strict = [] if options.draft else ["-W", "--keep-going"]
    # -E: pages quote data files, which Sphinx does not watch, so nothing is taken from an earlier build. One process:
    # a worker of -j would leave the node server that renders its formulas running
    command = [sys.executable, "-m", "sphinx", "-q", "-E", *strict, "-b", "html"]
    failed = subprocess.run([*command, "-d", str(DOCS / "_build/doctrees"), str(DOCS), str(HTML)]).returncode
    faults = check_site.check(HTML) if (HTML / "index.html").is_file() else []
    for fault in faults:
        print(fault, file=sys.stderr)
    print(HTML / "index.html")
    return int(bool(failed or errors or (faults and not options.draft)))


if __name__ == "__main__":
    sys.exit(main())
