"""`BlockQuadratic`."""

from __future__ import annotations

from typing import Any

from quadsim._display import html, text
from quadsim._format import counted

MAX_BLOCKS = 16  # that a figure shows


def problem_text(problem: Any) -> str:
    """<BlockQuadratic 'case 3': 3 blocks of size 3, eigenvalues 1 to 5000, kappa 5000, …>"""
    kappas, count = problem.block_kappas, len(problem.sizes)
    blocks = f"{counted(count, 'block')} of size {text.sizes(problem.sizes)}"
    ends = f"eigenvalues {text.number(problem.mu)} to {text.number(problem.lipschitz)}"
    inner = f"block kappas {_range(kappas)}, " if count > 1 else ""
    kappa = f"kappa {text.number(problem.kappa)}"
    name, minimizer = text.name(problem.name), problem.minimizer_kind
    mapped = f", {problem.kappa_map}" if problem.kappa_map else ""
    return (
        f"<BlockQuadratic {name}: dim {problem.dim}, {blocks}, {ends}, {kappa}, {inner}minimizer {minimizer}{mapped}>"
    )


def problem_html(problem: Any) -> str:
    """Constants and a small figure of the eigenvalues."""
    count = len(problem.sizes)
    shown = problem.eigenvalues[:MAX_BLOCKS]
    rows: dict[str, object] = {
        "dimension": f"{problem.dim:,}",
        "blocks": f"{count:,} of size {text.sizes(problem.sizes)}",
        "smallest eigenvalue μ": text.number(problem.mu),
        "largest eigenvalue L": text.number(problem.lipschitz),
        "condition number κ": text.number(problem.kappa),
        "κ of the blocks": _range(problem.block_kappas) if count > 1 else None,
        "map to κ": None if problem.kappa_map is None else str(problem.kappa_map),
        "minimizer": problem.minimizer_kind,
    }
    labels = [f"block {number}" for number in range(len(shown))]
    left_out = f"the first {len(shown)} of {count:,} blocks" if count > len(shown) else ""
    figure = html.spectra(shown, labels)
    return html.card(html.escape(problem.name), html.facts(rows), figure, html.note(left_out) if left_out else "")


def _range(kappas: tuple[float, ...]) -> str:
    """All of up to four numbers, or the smallest and the largest."""
    if len(kappas) <= 4:
        return ", ".join(map(text.number, kappas))
    return f"{text.number(min(kappas))} to {text.number(max(kappas))}"
