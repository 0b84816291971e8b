"""Measured spectra, and distances between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from quadsim._display import html, text
from quadsim._format import counted

MAX_BLOCKS = 16  # rows of a table or a figure
MAX_MATRIX = 10  # rows of a matrix


def block_text(block: Any) -> str:
    """<MeasuredBlock 'layer3.query': 16384 eigenvalues, 120 nodes of 2 probes from -0.01 to 12>"""
    low, high = _ends(block)
    nodes = f"{_nodes(block)} nodes of {counted(block.probes, 'probe')} from {text.number(low)} to {text.number(high)}"
    return f"<MeasuredBlock {text.name(block.name)}: {counted(block.size, 'eigenvalue')}, {nodes}>"


def measured_text(measured: Any) -> str:
    """<Measured 'gpt2': 9 blocks (embedding, layer3.query, layer3.key and 6 more), 1080 nodes>"""
    blocks = measured.blocks
    nodes = sum(_nodes(block) for block in blocks.values())
    unfinished = "" if measured.finished else ", unfinished"
    what = f"{counted(len(blocks), 'block')} ({text.listed(blocks)}), {counted(nodes, 'node')}{unfinished}"
    return f"<Measured {text.name(measured.name)}: {what}>"


def block_html(block: Any) -> str:
    return _html(block.name, [block], 1)


def measured_html(measured: Any) -> str:
    return _html(measured.name, list(measured.blocks.values())[:MAX_BLOCKS], len(measured.blocks))


def _html(name: str, blocks: list[Any], count: int) -> str:
    """A table of the blocks and a small figure of the magnitudes of their nodes."""
    rows = [
        [block.name, f"{block.size:,}", f"{_nodes(block):,}", block.probes, *map(text.number, _ends(block))]
        for block in blocks
    ]
    columns = ["block", "eigenvalues", "nodes", "probes", "smallest", "largest"]
    magnitudes = [np.abs(np.concatenate(block.nodes)) for block in blocks]
    drawn = [(values[values > 0], block.name) for values, block in zip(magnitudes, blocks, strict=True) if values.any()]
    figure = html.spectra([values for values, _ in drawn], [name for _, name in drawn]) if drawn else ""
    note = html.note("The figure shows magnitudes of nodes." if figure else "")
    return html.card(html.escape(name), html.table(columns, rows, more=count - len(blocks)), figure, note)


def _nodes(block: Any) -> int:
    return sum(nodes.size for nodes in block.nodes)


def _ends(block: Any) -> tuple[float, float]:
    return min(float(nodes.min()) for nodes in block.nodes), max(float(nodes.max()) for nodes in block.nodes)


def distances_text(distances: Any) -> str:
    """<Distances of 3 blocks (…): mean 0.42 nats, between two probes of a block 0.01>"""
    known = [noise for noise in distances.noise if noise is not None]
    noise = f", between two probes of a block {text.number(sum(known) / len(known))}" if known else ""
    count = counted(len(distances.blocks), "block")
    return f"<Distances of {count} ({text.listed(distances.blocks)}): mean {text.number(distances.mean)} nats{noise}>"


def distances_html(distances: Any) -> str:
    """The matrix of distances, with the noise of each block on the diagonal."""
    names = distances.blocks[:MAX_MATRIX]
    rows = []
    for row, name in enumerate(names):
        cells = [f"{distances.matrix[row, column]:.3g}" for column in range(len(names))]
        noise = distances.noise[row]
        cells[row] = "" if noise is None else f"({noise:.3g})"
        rows.append([name, *cells])
    table = html.table(["", *names], rows, more=len(distances.blocks) - len(names))
    title = html.escape(f"Jensen–Shannon distances in nats, mean {text.number(distances.mean)}")
    return html.card(title, table, html.note("In brackets: the distance between two probes of the same block."))
