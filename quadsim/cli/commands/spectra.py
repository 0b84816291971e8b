"""List the measured spectra, or show one network: densities, sampled eigenvalues, distances between blocks.

python -m quadsim spectra
python -m quadsim spectra model=gpt2
python -m quadsim spectra model=mine.npz blocks=fc1,fc2 scale=tenth
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quadsim import keys
from quadsim._validation import InputError
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import table
from quadsim.keys import Key

if TYPE_CHECKING:
    import pandas as pd

    from quadsim.spectra import Measured, MeasuredBlock

SAMPLE_KEYS = ("block_size", "sampling", "sign", "pool", "threshold", "kappa", "map", "seed")
MAX_BLOCKS = 40
CONVERGED = 0.01  # a node whose residual is at most this share of it is called an eigenvalue
_DISTANCES = "spectra.distance:js_matrix"
_SCALES = "raw, or each block divided by its tenth largest eigenvalue"
KEYS = keys.select(
    Key("model", "text", "a measured network, or a file of your own (.npz, .csv)", shape="NAME", names="networks"),
    Key("blocks", "words", "which of its blocks"),
    Key("scale", "choice", _SCALES, ("spectra.distance:SCALES",), used_by=_DISTANCES),
    Key("sigma", "real", "the width of the Gaussian at each node", bounds={"above": 0}, used_by=_DISTANCES),
    *keys.select(*SAMPLE_KEYS, "out").values(),
)


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
    texts, numbers = ("model", "data", "mode"), ("seed", "trained", "blocks", "steps", "probes")
    rows = []
    for entry in entries:
        ends = f"{entry['least']:.2g} to {entry['most']:.2g}: × {entry['most'] / entry['least']:.4g}"
        rows.append([*(str(entry[key]) for key in (*texts, *numbers)), ends])

    def show(screen: Any) -> None:
        screen.print(table((*texts, *numbers, "largest eigenvalue by block"), rows, left=texts, wrap=texts))
        screen.print("spectra model=NAME shows one of them, or a file of your own (.npz, .csv)")

    outputs.report(line, entries, show)


def _entry(name: str, measured: Measured) -> dict[str, Any]:
    settings = measured.provenance["settings"]
    data = settings["data"]
    images = "text" not in data
    largest = [block.largest for block in measured.blocks.values()]
    return {
        "model": name,
        "architecture": settings["architecture"],
        "data": "{images}, {batch} of {size}".format(**data) if images else "{text}, {tokens} tokens".format(**data),
        **{key: settings[key] for key in ("mode", "curvature", "seed", "trained")},
        "blocks": len(measured.blocks),
        **{key: settings[key] for key in ("steps", "probes")},
        "least": min(largest),
        "most": max(largest),
        "ratio": _ratio(list(measured.blocks.values())),
        "command": measured.provenance["command"],
    }


def _ratio(blocks: list[MeasuredBlock]) -> float | None:
    """Largest over smallest of the blocks' largest magnitudes; None if that of a block is zero or negligible."""
    from quadsim.spectra import MIN_EIGENVALUE

    largest = [block.largest for block in blocks]
    return max(largest) / min(largest) if min(largest) > MIN_EIGENVALUE * max(largest) else None


def _draw(line: CommandLine) -> None:
    values, model = line.values, line.values["model"]
    from quadsim import plots
    from quadsim.spectra import load
    from quadsim.spectra.distance import density_table

    measured = load(model)
    blocks = [measured.block(name) for name in values.get("blocks", measured.blocks)]
    if len(blocks) > MAX_BLOCKS:
        raise InputError(f"{model} has {len(blocks)} blocks: choose up to {MAX_BLOCKS} of them with blocks=")
    names, scale = [block.name for block in blocks], values.get("scale", KEYS["scale"].default_value)
    outputs.check_folder(line)
    sampling = {key: value for key, value in values.items() if key in SAMPLE_KEYS}
    try:
        sampled = _eigenvalues(sampling, model, measured, names if "blocks" in values else None)
    except InputError:
        if sampling:
            raise
        sampled = None  # these blocks make no problem; their densities can still be shown
    tables = {"-blocks": _table(blocks), "-densities": density_table(blocks, scale)}
    facts: dict[str, Any] = {"model": model, "blocks": tables["-blocks"].to_dict("records"), "ratio": _ratio(blocks)}
    command = outputs.recorded_command(line)
    title = f"{measured.name}: {_scales(facts['ratio'], len(blocks))}"
    caption = f"{command}: a Gaussian at every node, its width a 200th of the block's range"
    figures = {"-densities": plots.densities(tables["-densities"], title=title, caption=caption)}
    if sampled is not None:
        tables["-eigenvalues"] = sampled
        title = f"{measured.name}: the eigenvalues that a problem takes from each block"
        figures["-eigenvalues"] = plots.histogram(sampled, title=title, caption=command)
    if len(blocks) > 1:
        sigma = values.get("sigma", KEYS["sigma"].default_value)
        facts["js"], distances, title = _distances(measured, names, sigma, scale)
        caption = f"{command}: scale {scale}, Gaussian of width {sigma:.2g}"
        tables["-distances"] = distances
        figures["-distances"] = plots.heat_map(distances, title=title, caption=caption)
    outputs.save(line, figures, tables, facts, provenance=dict(measured.provenance))
    outputs.report(line, facts, lambda screen: _show(screen, measured, facts))


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
        probes = list(zip(block.nodes, block.residuals, strict=True))
        tops = [float(np.abs(nodes).max()) for nodes in block.nodes]
        low, high = _ends(block)
        rows.append(
            {
                "block": block.name,
                "size": block.size,
                "smallest": low,
                "largest": high,
                "spread": max(tops) / min(tops) - 1 if min(tops) > 0 else 0.0,
                "nodes": int(min(nodes.size for nodes in block.nodes)),
                "converged": min(int((residuals <= CONVERGED * np.abs(nodes)).sum()) for nodes, residuals in probes),
            }
        )
    return pd.DataFrame(rows)


def _ends(block: MeasuredBlock) -> tuple[float, float]:
    """The smallest and the largest node of all probes."""
    return float(min(nodes[0] for nodes in block.nodes)), float(max(nodes[-1] for nodes in block.nodes))


def _eigenvalues(sampling: dict[str, Any], model: str, measured: Measured, names: list[str] | None) -> pd.DataFrame:
    """The eigenvalues that a problem takes from the blocks, by the keys of `case=1`."""
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
    measured: Measured, names: list[str], sigma: float, scale: str
) -> tuple[list[dict[str, Any]], pd.DataFrame, str]:
    """The mean distances at both scales; the matrix of the requested scale and the title of its figure."""
    from quadsim.spectra import js_matrix

    means: dict[str, dict[str, Any]] = {}
    for kind in ("raw", "tenth"):
        try:
            found = js_matrix(measured, names, sigma=sigma, scale=kind)
        except InputError:
            if kind == scale:
                raise
            continue  # the other scale was not requested and does not fit these blocks
        noises = [value for value in found.noise if value is not None]
        means[kind] = {"scale": kind, "mean": found.mean, "noise": sum(noises) / len(noises) if noises else None}
        if kind == scale:
            pairs = found.to_frame()
    mean, noise = means[scale]["mean"], means[scale]["noise"]
    diagonal = "" if noise is None else f", between two probes of the same block {_distance(noise)} (diagonal)"
    return list(means.values()), pairs, f"{measured.name}: mean distance between blocks {_distance(mean)}{diagonal}"


def _distance(value: float) -> str:
    """A distance, at most ln 2, with three digits after the point or one significant one: 0.412, 0.003, 4e-05."""
    return f"{value:.3f}" if value >= 1e-3 or value == 0 else f"{value:.0e}"


def _show(screen: Any, measured: Measured, facts: dict[str, Any]) -> None:
    settings = measured.provenance.get("settings", {})
    if settings:
        screen.print(f"{measured.name}: {settings.get('architecture', '')}", style="bold")
        screen.print(
            f"{settings.get('curvature')}, {settings.get('mode', 'own')} mode, seed {settings.get('seed')}, "
            f"{settings.get('steps')} steps, {settings.get('probes')} probes, {measured.provenance.get('date', '')}"
            + ("" if measured.finished else " (unfinished)")
        )
        screen.print(f"made by: {measured.provenance.get('command')}", soft_wrap=True)
    columns = ("block", "parameters", "smallest", "largest", "spread over probes", "nodes", "converged")
    rows = []
    for row in facts["blocks"]:
        ends = (f"{row['smallest']:.4g}", f"{row['largest']:.4g}", f"{row['spread']:.1%}")
        rows.append([row["block"], f"{row['size']:,}", *ends, str(row["nodes"]), str(row["converged"])])
    screen.print(table(columns, rows, left=("block",), wrap=("block",)))
    screen.print(_scales(facts["ratio"], len(facts["blocks"])).capitalize())
    for distance in facts.get("js", []):
        noise = (
            ""
            if distance["noise"] is None
            else f"; between two probes of the same block {_distance(distance['noise'])}"
        )
        kind = "unscaled" if distance["scale"] == "raw" else "each block divided by its tenth largest"
        screen.print(f"Jensen–Shannon distance, {kind}: mean over pairs (JS⁰) {_distance(distance['mean'])}{noise}")
