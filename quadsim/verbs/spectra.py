"""`spectra`: the measured spectra there are; one network's densities, sampled eigenvalues and distances."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from quadsim import checks, grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.request import read_sampling
from quadsim.verbs.run import command, stem
from quadsim.verbs.screen import console

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.spectra import Measured, MeasuredBlock

KEYS = (
    "model", "blocks", "scale", "sigma", "block_size", "rule", "sign", "pool", "threshold", "kappa", "map", "seed",
    "out",
)  # fmt: skip
MOST_BLOCKS = 40
CONVERGED = 0.01  # a node whose residual is at most this share of it is called an eigenvalue


def spectra(words: Words) -> None:
    """`spectra` lists what was measured; `spectra model=gpt2` shows, draws and writes one network's blocks."""
    keys = grammar.only(words, KEYS, "spectra model=gpt2")
    if "model" not in keys:
        if keys:
            raise InputError(f"{next(iter(keys))}= has no use without model=: write for example spectra model=gpt2")
        _list(words)
        return
    _draw(words)


def _list(words: Words) -> None:
    from quadsim.spectra import library

    entries = [_entry(name, measured) for name, measured in library().items()]
    if "--json" in words.flags:
        print(json.dumps(entries, indent=2, ensure_ascii=False))
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
    from quadsim.spectra import SMALLEST

    largest = [block.largest for block in blocks]
    return max(largest) / min(largest) if min(largest) > SMALLEST * max(largest) else None


def _draw(words: Words) -> None:
    keys = words.keys
    from quadsim import plots, results
    from quadsim import spectra as room

    measured = room.load(keys["model"])
    sampling = read_sampling(keys)
    names = [measured.block(name).name for name in sampling.pop("blocks", measured.blocks)]
    if len(names) > MOST_BLOCKS:
        raise InputError(f"{keys['model']} has {len(names)} blocks: choose up to {MOST_BLOCKS} of them with blocks=")
    scale = checks.choice("scale", keys.get("scale", "raw"), ("raw", "tenth"))
    sigma = checks.real("sigma", grammar.real("sigma", keys.get("sigma", str(room.SIGMA))), above=0)
    folder = Path(keys.get("out", "figures"))
    results.check_folder(folder)
    asked = {"block_size", "rule", "sign", "pool", "threshold", "kappa", "map", "seed"} & set(keys)
    try:
        sampled = _eigenvalues(keys, measured, names, sampling)
    except InputError:
        if asked:
            raise
        sampled = None  # no problem can be made of these; the rest can be shown
    blocks = [measured.block(name) for name in names]
    tables = {"-blocks": _table(blocks), "-densities": _densities(blocks, scale)}
    facts: dict[str, Any] = {"model": keys["model"], "blocks": tables["-blocks"].to_dict("records")}
    facts["ratio"] = _ratio(blocks)
    said = {key: text for key, text in keys.items() if key != "out"}
    line = command("spectra", said)
    figures = {
        "-densities": plots.densities(
            tables["-densities"],
            title=f"{measured.name}: {_scales(facts['ratio'], len(blocks))}",
            caption=f"{line}: a Gaussian at every node, its width a 200th of the block's range",
        ),
    }
    if sampled is not None:
        tables["-eigenvalues"] = sampled
        title = f"{measured.name}: the eigenvalues that a problem takes from each block"
        figures["-eigenvalues"] = plots.histogram(sampled, title=title, caption=line)
    if len(blocks) > 1:
        facts["js"] = _distances(measured, names, sigma, tables, figures, line, scale)
    settings = {"command": line, **facts, "provenance": dict(measured.provenance), "versions": results.versions()}
    facts["files"] = [str(path) for path in results.write(folder, stem("spectra", said), figures, tables, settings)]
    if "--json" in words.flags:
        print(json.dumps(facts, indent=2, ensure_ascii=False, allow_nan=False))
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
        sure = [
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
                "converged": min(sure),
            }
        )
    return pd.DataFrame(rows)


def _densities(blocks: list[MeasuredBlock], scale: str) -> pd.DataFrame:
    """Each block's density on 800 points of its own range, smoothed by a 200th of it: wide and narrow can be seen."""
    import numpy as np
    import pandas as pd

    from quadsim.spectra import SMALLEST, density, unit_of

    parts = []
    for block in blocks:
        unit = unit_of(block, scale)
        low = min(nodes[0] for nodes in block.nodes) / unit
        high = max(nodes[-1] for nodes in block.nodes) / unit
        width = max((high - low) / 200, 1e-9 * max(abs(high), abs(low)), SMALLEST)
        points = np.linspace(low - 5 * width, high + 5 * width, 800)
        values = density(block, points, sigma=width, scale=scale)
        parts.append(pd.DataFrame({"block": block.name, "eigenvalue": points, "density": values}))
    return pd.concat(parts, ignore_index=True)


def _eigenvalues(keys: dict[str, str], measured: Measured, names: list[str], sampling: dict[str, Any]) -> pd.DataFrame:
    """What a problem would take from the blocks, by the same keys as `case=1`."""
    import numpy as np
    import pandas as pd

    from quadsim import cases

    chosen = names if "blocks" in keys else cases.usual_blocks(measured)
    fewest = min(int(nodes.size) for name in chosen for nodes in measured.block(name).nodes[:1])
    size = grammar.whole("block_size", keys["block_size"]) if "block_size" in keys else min(30, fewest)
    values = cases.case_spectra(
        1,
        seed=grammar.whole("seed", keys.get("seed", "0")),
        kappa=grammar.real("kappa", keys["kappa"]) if "kappa" in keys else None,
        map=keys.get("map"),
        block_size=size,
        network=keys["model"],
        blocks=chosen,
        **sampling,
    )
    return pd.DataFrame(
        {"block": np.repeat(chosen, [part.size for part in values]), "eigenvalue": np.concatenate(values)}
    )


def _distances(
    measured: Measured,
    names: list[str],
    sigma: float,
    tables: dict[str, Any],
    figures: dict[str, Any],
    line: str,
    scale: str,
) -> list[dict[str, Any]]:
    """Both scales' mean distances for the text; the matrix of the scale asked for into tables and figures."""
    import pandas as pd

    from quadsim import plots
    from quadsim.spectra import js_matrix

    told = []
    for kind in ("raw", "tenth"):
        try:
            found = js_matrix(measured, names, sigma=sigma, scale=kind)
        except InputError:
            if kind == scale:
                raise
            continue  # the other scale was not asked for, and does not fit these blocks
        noises = [value for value in found.noise if value is not None]
        noise = sum(noises) / len(noises) if noises else None
        told.append({"scale": kind, "mean": found.mean, "noise": noise})
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
            caption=f"{line}: scale {kind}, Gaussian of width {sigma:.2g}",
        )
    return told


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
        kind = "as they are" if one["scale"] == "raw" else "each block divided by its tenth largest"
        screen.print(
            f"Jensen–Shannon distance, {kind}: mean over pairs (JS⁰) {one['mean']:.3f}{beside}", highlight=False
        )
    for path in facts["files"]:
        screen.print(f"wrote {path}", highlight=False, soft_wrap=True)
