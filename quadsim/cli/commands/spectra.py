"""List the measured spectra, or show one network: densities, sampled eigenvalues, distances between blocks.

python -m quadsim spectra
python -m quadsim spectra model=gpt2
python -m quadsim spectra model=mine.npz blocks=fc1,fc2 scale=tenth
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim._validation import InputError
from quadsim.cli import reading
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import console
from quadsim.cli.outputs import command_line, print_files, print_json, stem
from quadsim.keys import Key

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.spectra import Measured, MeasuredBlock

SAMPLE_KEYS = ("block_size", "sampling", "sign", "pool", "threshold", "kappa", "map", "seed")
_DISTANCES = "spectra.distance:js_matrix"
KEYS = {
    "model": Key("model", "text", "a measured network, or a file of your own (.npz, .csv)", shape="NAME"),
    "blocks": Key("blocks", "words", "which of its blocks"),
    "scale": Key("scale", "choice", "raw, or each block divided by its tenth largest eigenvalue", "",
                 f"{_DISTANCES}.scale", ("spectra.distance:SCALES",)),
    "sigma": Key("sigma", "real", "the width of the Gaussian at each node", "", f"{_DISTANCES}.sigma",
                 bounds={"above": 0}),
    **{name: replace(keys.KEYS[name], requires="") for name in SAMPLE_KEYS},
    **keys.select("out"),
}  # fmt: skip
MAX_BLOCKS = 40
CONVERGED = 0.01  # a node whose residual is at most this share of it is called an eigenvalue


def main(line: CommandLine) -> None:
    if "model" in line.values:
        _draw(line)
    elif line.texts:
        raise InputError(f"{next(iter(line.texts))}= requires model=: write for example spectra model=gpt2")
    else:
        _list(line)


def _list(line: CommandLine) -> None:
    from quadsim.spectra import library

    entries = [_entry(name, measured) for name, measured in library().items()]
    if line.json:
        print_json(entries)
        return
    from rich import box
    from rich.table import Table

    shown = Table("model", "data", "mode", box=box.SIMPLE_HEAD)
    for column in ("seed", "trained", "blocks", "steps", "probes", "largest eigenvalue by block"):
        shown.add_column(column, justify="right", no_wrap=True)
    for entry in entries:
        ends = f"{entry['least']:.2g} to {entry['most']:.2g}: × {entry['most'] / entry['least']:.4g}"
        cells = [str(entry[key]) for key in ("seed", "trained", "blocks", "steps", "probes")]
        shown.add_row(entry["model"], entry["data"], entry["mode"], *cells, ends)
    screen = console()
    screen.print(shown)
    screen.print("spectra model=NAME shows one of them, or a file of your own (.npz, .csv)", highlight=False)


def _entry(name: str, measured: Measured) -> dict[str, Any]:
    settings = measured.provenance["settings"]
    data = settings["data"]
    largest = [block.largest for block in measured.blocks.values()]
    return {
        "model": name,
        "architecture": settings["architecture"],
        "data": f"{data['text']}, {data['tokens']} tokens"
        if "text" in data
        else f"{data['images']}, {data['batch']} of {data['size']}",
        "mode": settings["mode"],
        "curvature": settings["curvature"],
        "seed": settings["seed"],
        "trained": settings["trained"],
        "blocks": len(measured.blocks),
        "steps": settings["steps"],
        "probes": settings["probes"],
        "least": min(largest),
        "most": max(largest),
        "ratio": _ratio(measured.blocks.values()),
        "command": measured.provenance["command"],
    }


def _ratio(blocks: Iterable[MeasuredBlock]) -> float | None:
    """Largest over smallest of the blocks' largest magnitudes; None if a block is zero, or as good as."""
    from quadsim.spectra import MIN_EIGENVALUE

    largest = [block.largest for block in blocks]
    return max(largest) / min(largest) if min(largest) > MIN_EIGENVALUE * max(largest) else None


def _draw(line: CommandLine) -> None:
    values, model = line.values, line.values["model"]
    from quadsim import _artifacts, plots
    from quadsim.spectra import load

    measured = load(model)
    names = [measured.block(name).name for name in values.get("blocks", measured.blocks)]
    if len(names) > MAX_BLOCKS:
        raise InputError(f"{model} has {len(names)} blocks: choose up to {MAX_BLOCKS} of them with blocks=")
    scale = values.get("scale", KEYS["scale"].default_value)
    folder = reading.folder(line)
    sampling = {key: value for key, value in values.items() if key in SAMPLE_KEYS}
    try:
        sampled = _eigenvalues(sampling, model, measured, names if "blocks" in values else None)
    except InputError:
        if sampling:
            raise
        sampled = None  # no problem can be made of these; the rest can be shown
    blocks = [measured.block(name) for name in names]
    tables = {"-blocks": _table(blocks), "-densities": _densities(blocks, scale)}
    facts: dict[str, Any] = {"model": model, "blocks": tables["-blocks"].to_dict("records")}
    facts["ratio"] = _ratio(blocks)
    command = command_line("spectra", line.recorded())
    figures = {
        "-densities": plots.densities(
            tables["-densities"],
            title=f"{measured.name}: {_scales(facts['ratio'], len(blocks))}",
            caption=f"{command}: a Gaussian at every node, its width a 200th of the block's range",
        ),
    }
    if sampled is not None:
        tables["-eigenvalues"] = sampled
        title = f"{measured.name}: the eigenvalues that a problem takes from each block"
        figures["-eigenvalues"] = plots.histogram(sampled, title=title, caption=command)
    if len(blocks) > 1:
        sigma = values.get("sigma", KEYS["sigma"].default_value)
        facts["js"] = _distances(measured, names, sigma, tables, figures, command, scale)
    settings = {"command": command, **facts, "provenance": dict(measured.provenance), "versions": _artifacts.versions()}
    name = stem("spectra", line.recorded())
    facts["files"] = [str(path) for path in _artifacts.write(folder, name, figures, tables, settings)]
    if line.json:
        print_json(facts)
    else:
        _show(measured, facts)


def _scales(ratio: float | None, blocks: int) -> str:
    if blocks == 1 or ratio is None:
        return "density of eigenvalues"
    times = f"{ratio:.3g}" if ratio < 1000 else f"{ratio:,.0f}"
    return f"largest magnitudes differ by a factor {times} between blocks"


def _table(blocks: list[MeasuredBlock]) -> pd.DataFrame:
    """One row for each block: its size, the ends of its spectrum by probe, and how many nodes are eigenvalues."""
    import numpy as np
    import pandas as pd

    rows = []
    for block in blocks:
        converged = [
            int((residuals <= CONVERGED * np.abs(nodes)).sum())
            for nodes, residuals in zip(block.nodes, block.residuals, strict=True)
        ]
        tops = [float(np.abs(nodes).max()) for nodes in block.nodes]
        rows.append(
            {
                "block": block.name,
                "size": block.size,
                "smallest": float(min(nodes[0] for nodes in block.nodes)),
                "largest": float(max(nodes[-1] for nodes in block.nodes)),
                "spread": max(tops) / min(tops) - 1 if min(tops) > 0 else 0.0,
                "nodes": int(min(nodes.size for nodes in block.nodes)),
                "converged": min(converged),
            }
        )
    return pd.DataFrame(rows)


def _densities(blocks: list[MeasuredBlock], scale: str) -> pd.DataFrame:
    """Each block's density on 800 points of its own range, smoothed by a 200th of it: wide and narrow can be seen."""
    import numpy as np
    import pandas as pd

    from quadsim.spectra import MIN_EIGENVALUE, density, unit_of

    parts = []
    for block in blocks:
        unit = unit_of(block, scale)
        low = min(nodes[0] for nodes in block.nodes) / unit
        high = max(nodes[-1] for nodes in block.nodes) / unit
        width = max((high - low) / 200, 1e-9 * max(abs(high), abs(low)), MIN_EIGENVALUE)
        points = np.linspace(low - 5 * width, high + 5 * width, 800)
        values = density(block, points, sigma=width, scale=scale)
        parts.append(pd.DataFrame({"block": block.name, "eigenvalue": points, "density": values}))
    return pd.concat(parts, ignore_index=True)


def _eigenvalues(sampling: dict[str, Any], model: str, measured: Measured, names: list[str] | None) -> pd.DataFrame:
    """The eigenvalues that a problem takes from the blocks, by the same keys as `case=1`."""
    import numpy as np
    import pandas as pd

    from quadsim.problems import cases

    chosen = cases.default_blocks(measured) if names is None else names
    fewest = min(int(nodes.size) for name in chosen for nodes in measured.block(name).nodes[:1])
    values = cases.case_spectra(1, network=model, blocks=chosen, **{"block_size": min(30, fewest)} | sampling)
    return pd.DataFrame(
        {"block": np.repeat(chosen, [part.size for part in values]), "eigenvalue": np.concatenate(values)}
    )


def _distances(
    measured: Measured,
    names: list[str],
    sigma: float,
    tables: dict[str, Any],
    figures: dict[str, Any],
    command: str,
    scale: str,
) -> list[dict[str, Any]]:
    """The mean distances at both scales; the matrix of the requested scale goes into tables and figures."""
    import pandas as pd

    from quadsim import plots
    from quadsim.spectra import js_matrix

    means = []
    for kind in ("raw", "tenth"):
        try:
            found = js_matrix(measured, names, sigma=sigma, scale=kind)
        except InputError:
            if kind == scale:
                raise
            continue  # the other scale was not asked for, and does not fit these blocks
        noises = [value for value in found.noise if value is not None]
        noise = sum(noises) / len(noises) if noises else None
        means.append({"scale": kind, "mean": found.mean, "noise": noise})
        if kind != scale:
            continue
        rows = [
            {"block": one, "other": other, "distance": found.noise[i] if i == j else found.matrix[i, j]}
            for i, one in enumerate(found.blocks)
            for j, other in enumerate(found.blocks)
        ]
        tables["-distances"] = pd.DataFrame(rows).astype({"distance": float})
        beside = "" if noise is None else f", between two probes of the same block {noise:.3f} (diagonal)"
        figures["-distances"] = plots.heat_map(
            tables["-distances"],
            title=f"{measured.name}: mean distance between blocks {found.mean:.3f}{beside}",
            caption=f"{command}: scale {kind}, Gaussian of width {sigma:.2g}",
        )
    return means


def _show(measured: Measured, facts: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table

    screen = console()
    settings = measured.provenance.get("settings", {})
    if settings:
        screen.print(f"{measured.name}: {settings.get('architecture', '')}", style="bold", highlight=False)
        screen.print(
            f"{settings.get('curvature')}, {settings.get('mode', 'own')} mode, seed {settings.get('seed')}, "
            f"{settings.get('steps')} steps, {settings.get('probes')} probes, {measured.provenance.get('date', '')}"
            + ("" if measured.finished else " (unfinished)"),
            highlight=False,
        )
        screen.print(f"made by: {measured.provenance.get('command')}", highlight=False, soft_wrap=True)
    shown = Table("block", box=box.SIMPLE_HEAD)
    for column in ("parameters", "smallest", "largest", "spread over probes", "nodes", "converged"):
        shown.add_column(column, justify="right", no_wrap=True)
    for row in facts["blocks"]:
        ends = (f"{row['smallest']:.4g}", f"{row['largest']:.4g}", f"{row['spread']:.1%}")
        shown.add_row(row["block"], f"{row['size']:,}", *ends, str(row["nodes"]), str(row["converged"]))
    screen.print(shown)
    screen.print(_scales(facts["ratio"], len(facts["blocks"])).capitalize(), highlight=False)
    for one in facts.get("js", []):
        beside = "" if one["noise"] is None else f"; between two probes of the same block {one['noise']:.3f}"
        kind = "unscaled" if one["scale"] == "raw" else "each block divided by its tenth largest"
        screen.print(
            f"Jensen–Shannon distance, {kind}: mean over pairs (JS⁰) {one['mean']:.3f}{beside}", highlight=False
        )
    print_files(facts["files"], screen)
