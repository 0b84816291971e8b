"""Write the generated pages: python docs/_ext/generate.py

Each module ``pages_*.py`` of this folder has a function ``pages()`` that returns texts by path in docs/. Generated
files are listed in .gitignore; nothing else may be written there.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

DOCS = Path(__file__).parents[1]
FOLDERS = ("reference/api", "explanation/ledger")  # hold nothing but generated files


def pages(without: Sequence[str] = ()) -> dict[str, str]:
    """The text of every generated file, by its path in docs/; ``without`` the files of some modules."""
    found: dict[str, str] = {}
    for file in sorted(Path(__file__).parent.glob("pages_*.py")):
        if file.stem in without:
            continue
        made = importlib.import_module(file.stem).pages()
        if twice := found.keys() & made.keys():
            raise ValueError(f"{file.name} writes {', '.join(twice)}, which another module writes")
        found |= made
    return found


def write() -> list[Path]:
    """Write all pages, and remove those that are no longer generated. Unchanged files keep their time."""
    made = pages()
    for folder in FOLDERS:
        for path in (DOCS / folder).rglob("*"):
            if path.is_file() and path.relative_to(DOCS).as_posix() not in made:
                path.unlink()
    for name, text in made.items():
        path = DOCS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    return [DOCS / name for name in made]


def ignored(paths: list[Path]) -> set[str]:
    """Those of the paths that git ignores."""
    command = ["git", "-C", str(DOCS), "check-ignore", *map(str, paths)]
    return set(subprocess.run(command, capture_output=True, text=True).stdout.splitlines())


if __name__ == "__main__":
    sys.path.insert(0, str(DOCS.parent))
    print(f"{len(write())} pages")
