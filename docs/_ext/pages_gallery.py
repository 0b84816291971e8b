"""The gallery: every figure of figures/ with the command that makes it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import facts
import markdown

from quadsim.reproduce.records import OTHER_FIGURES

MAX_SVG_BYTES = 300_000  # larger ones are shown as PNG
TITLES = {  # of figures whose records have no title
    "bench": "Microseconds per step and run, beside numpy, torch.optim and optax",
    "case-3": "Case 3: GD, Adam (β2 = 1) and block GD",
    "case-4": "Case 4: GD, Adam (β2 = 1) and block GD",
    "cases-seed-0..99": "The four cases, medians and quartiles of 100 draws",
    "compare-case-3_4-batch-3-optimizers-sgd_signum_adam-seed-0..29": "A paired comparison on minibatches",
    "spectra-model-gpt2-densities": "Densities of GPT2's blocks",
    "spectra-model-gpt2-distances": "Distances between the spectra of GPT2's blocks",
    "spectra-model-gpt2-eigenvalues": "Eigenvalues sampled from GPT2's blocks",
    "sweep-heterogeneity": "Steps to tolerance against heterogeneity, and against the distance between spectra",
    "sweep-kappa": "Steps to tolerance against the condition number",
    "theory-bounds": "Losses below their bounds",
    "theory-kappa-eff": "Frozen Adam's effective condition number against the condition number",
}


def figures() -> dict[str, str]:
    """Every figure with the name of its record: the longest name of a JSON file that it begins with."""
    names = [path.stem for path in facts.FIGURES.glob("*.json")]
    found = {}
    for path in sorted(facts.FIGURES.glob("*.svg")):
        owners = [name for name in names if path.stem == name or path.stem.startswith(f"{name}-")]
        if not owners:
            raise ValueError(f"figures/{path.name} has no record, a .json file that says how it was made")
        found[path.stem] = max(owners, key=len)
    return found


def commands(record: dict[str, Any]) -> list[str]:
    """The commands that make a figure, in order."""
    sweeps = [sweep["command"] + f" store={record['store']}" for sweep in record.get("sweeps", ())]
    return [*sweeps, record["command"]]


def image(name: str) -> str:
    svg = facts.FIGURES / f"{name}.svg"
    return f"../figures/{name}.{'svg' if svg.stat().st_size <= MAX_SVG_BYTES else 'png'}"


def data(owner: str, name: str) -> list[Path]:
    """The files of data of a figure."""
    longer = [other for other in set(figures().values()) if other.startswith(f"{owner}-")]
    files = [facts.FIGURES / f"{owner}.json", *sorted(facts.FIGURES.glob(f"{owner}*.csv"))]
    files = [file for file in files if not any(file.stem.startswith(other) for other in longer)]
    if owner != name:  # one record for several figures: each has a table of its own name
        files = [file for file in files if file.stem in (owner, name)]
    return files


def entry(name: str, owner: str) -> str:
    """One figure: title, image, caption, commands, data."""
    record = facts.record(owner)
    title = record.get("title") if owner == name else None
    title = title if title and name not in TITLES else TITLES[name]
    head = record.get("source") or OTHER_FIGURES.get(name) or title
    caption = (
        record.get("caption", "").removeprefix(record["command"] + ".").removeprefix(record["command"] + "; ").strip()
    )
    alt = markdown.escape(title).replace('"', "'")
    parts = [f"(figure-{name})=", f"### {markdown.escape(head)}\n", f"![{alt}]({image(name)})\n"]
    if head != title:
        parts.append(f"{markdown.escape(title)}.\n")
    if caption:
        parts.append(markdown.escape(caption) + "\n")
    parts.append(markdown.block("\n".join(commands(record))))
    parts.append("Data: " + ", ".join(f"`figures/{file.name}`" for file in data(owner, name)) + ".\n")
    return "\n".join(parts)


def pages() -> dict[str, str]:
    found = figures()
    published = [name for name, owner in found.items() if "checks" in facts.record(owner)]
    published.sort(key=lambda name: facts.record(name)["order"])
    others = [name for name in found if name not in published]
    parts = [
        "# Gallery\n",
        "Every figure of the folder `figures/`, with the command that makes it. Each has its data (CSV) and its record "
        "(JSON: settings, versions, command) beside it.\n",
        "## Published figures\n",
        "Measured again; the verdicts are in [a table](explanation/verdicts.md).\n",
        *(entry(name, found[name]) for name in published),
        "## Other figures\n",
        *(entry(name, found[name]) for name in others),
    ]
    return {"gallery.md": "\n".join(parts)}
