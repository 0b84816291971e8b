"""The picture of the packages.

An arrow leads from an imported package down to the one that imports it, unless other arrows imply it.
"""

from __future__ import annotations

import ast
import functools
from html import escape
from pathlib import Path

import fences

PACKAGE = fences.ROOT / "quadsim"
LAYOUT = {  # row, first and last column of each package; packages of the root with an underscore are left out
    "keys": (0, 0, 5),
    "plots": (1, 2, 5),
    "spectra": (2, 2, 5),
    "problems": (3, 2, 4),
    "hessian": (3, 5, 5),
    "optimizers": (4, 0, 4),
    "engine": (5, 0, 4),
    "theory": (6, 0, 1),
    "comparison": (6, 2, 2),
    "reproduce": (6, 3, 3),
    "bench": (6, 4, 4),
    "claims": (7, 0, 0),
    "sweeps": (7, 1, 1),
    "cli": (8, 0, 5),
}
PASSED = {  # what flows along an arrow
    ("spectra", "problems"): "eigenvalues",
    ("problems", "optimizers"): "BlockQuadratic",
    ("optimizers", "engine"): "update rules, settings",
    ("engine", "theory"): "Trajectory",
    ("engine", "comparison"): "Runs",
}
COLUMN, ROW, BOX, MARGIN = 124, 74, 40, 8  # pixels
COLOURS = {"box": "#e8f1f8", "line": "#39617f", "text": "#1b2a36"}


def imports(name: str) -> set[str]:
    """The packages of the picture that a package imports, but for type checking."""
    path = PACKAGE / name
    files = sorted(path.rglob("*.py")) if path.is_dir() else [PACKAGE / f"{name}.py"]
    return set().union(*map(_imports_of, files)) & LAYOUT.keys() - {name}


@functools.cache
def _imports_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    for node in list(ast.walk(tree)):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "quadsim":
            parts = (node.module or "").split(".")
            found |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("quadsim.")}
    return frozenset(found)


def arrows() -> list[tuple[str, str]]:
    """Imported package and importing package, where no chain of other imports connects them."""
    direct = {name: imports(name) for name in LAYOUT}
    return [
        (used, name)
        for name in LAYOUT
        for used in LAYOUT
        if used in direct[name] and not any(used in direct[other] for other in direct[name] - {used})
    ]


def free_columns(used: str, name: str) -> list[int]:
    """The columns in which a vertical arrow between two packages meets no other package."""
    (top, *span_a), (bottom, *span_b) = LAYOUT[used], LAYOUT[name]
    columns = range(max(span_a[0], span_b[0]), min(span_a[1], span_b[1]) + 1)
    between = [span for row, *span in LAYOUT.values() if top < row < bottom]
    free = [column for column in columns if not any(first <= column <= last for first, last in between)]
    if not free or top >= bottom:
        raise ValueError(f"{name} imports {used}, which LAYOUT in docs/_ext/pages_architecture.py cannot draw")
    return free


def picture() -> str:
    """The SVG."""
    width = COLUMN * (1 + max(last for _, _, last in LAYOUT.values())) + 2 * MARGIN
    height = ROW * max(row for row, *_ in LAYOUT.values()) + BOX + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" role="img">',
        "<title>The packages of quadsim; arrows point from an imported package to the one that imports it</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'<path d="M0,0 L8,4 L0,8 z" fill="{COLOURS["line"]}"/></marker></defs>',
    ]
    for used, name in arrows():
        columns = free_columns(used, name)
        x = MARGIN + COLUMN * ((columns[0] + columns[-1] + 1) / 2)
        y1, y2 = (MARGIN + ROW * LAYOUT[used][0] + BOX, MARGIN + ROW * LAYOUT[name][0])
        parts.append(
            f'<line x1="{x:g}" y1="{y1}" x2="{x:g}" y2="{y2}" stroke="{COLOURS["line"]}" stroke-width="1.5" '
            'marker-end="url(#head)"/>'
        )
        if label := PASSED.get((used, name)):
            place = f'x="{x + 6:g}" y="{(y1 + y2) / 2 + 4:g}" font-size="12" fill="{COLOURS["text"]}"'
            parts.append(f"<text {place}>{escape(label)}</text>")
    for name, (row, first, last) in LAYOUT.items():
        x, y, wide = MARGIN + COLUMN * first + 6, MARGIN + ROW * row, COLUMN * (last - first + 1) - 12
        parts.append(
            f'<rect x="{x}" y="{y}" width="{wide}" height="{BOX}" rx="5" fill="{COLOURS["box"]}" '
            f'stroke="{COLOURS["line"]}"/>'
            f'<text x="{x + wide / 2:g}" y="{y + BOX / 2 + 6}" font-size="17" text-anchor="middle" '
            f'fill="{COLOURS["text"]}">{name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def pages() -> dict[str, str]:
    return {"architecture/packages.svg": picture()}
