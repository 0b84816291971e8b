"""`measure`: block spectra of a real network, saved after every probe. Needs torch; nothing else does."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from quadsim import grammar
from quadsim.checks import InputError
from quadsim.grammar import Words
from quadsim.verbs.run import command

if TYPE_CHECKING:
    from quadsim.hessian.measure import Stage
    from quadsim.spectra.files import Measured

KEYS = (
    "model", "blocks", "text", "vocab", "tokens", "images", "labels", "batch", "size", "source", "train", "mode",
    "dtype", "curvature", "steps", "probes", "seed", "out", "overwrite",
)  # fmt: skip
PLAIN = ("text", "vocab", "images", "labels", "source", "mode", "dtype", "curvature")


def measure(words: Words) -> None:
    """`measure model=gpt2 text=FILE`: print what is found as it is found, and write it."""
    keys = grammar.only(words, KEYS, "measure model=gpt2 text=FILE")
    try:
        from quadsim import hessian
    except ImportError as error:
        if error.name != "torch":
            raise InputError(f"measure needs torch, which cannot be imported: {error}") from None
        raise InputError("measure needs torch, which is not installed: pip install 'quadsim[torch]'") from None
    if "model" not in keys:
        raise InputError(f"measure needs model=, one of {', '.join(hessian.MODELS)}")
    settings: dict[str, Any] = {key: keys[key] for key in PLAIN if key in keys}
    for key in ("batch", "steps", "probes", "seed", "train"):
        if key in keys:
            settings["train_steps" if key == "train" else key] = grammar.whole(key, keys[key])
    for key in ("tokens", "size"):
        if key in keys:
            settings[key] = grammar.pair(key, keys[key])
    if "blocks" in keys:
        settings["blocks"] = grammar.several("blocks", keys["blocks"])
    out = keys.get("out", f"{keys['model']}.npz")
    said = {key: text for key, text in keys.items() if key not in ("out", "overwrite")}
    overwrite = grammar.flag("overwrite", keys.get("overwrite", "false"))
    how: dict[str, Any] = {"out": out, "overwrite": overwrite, "command": command("measure", said), "state": say}
    try:
        with _progress() as show:
            measured = hessian.measure_model(keys["model"], progress=show, **how, **settings)
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        raise MemoryError from None
    result = summary(measured) | {"file": out}
    if "--json" in words.flags:
        print(json.dumps(result, indent=2, ensure_ascii=False))
    else:
        print(f"wrote {result['file']}: {len(measured.blocks)} blocks of {measured.name}")


def summary(measured: Measured) -> dict[str, Any]:
    """What was measured, in short: for each block, its size and the ends of its spectrum by probe."""
    blocks = [
        {
            "block": name,
            "size": block.size,
            "smallest": [float(nodes[0]) for nodes in block.nodes],
            "largest": [float(nodes[-1]) for nodes in block.nodes],
        }
        for name, block in measured.blocks.items()
    ]
    return {"model": measured.name, "finished": measured.finished, "blocks": blocks}


def say(sentence: str) -> None:
    """One line for people; a bar that is on the terminal stays below it."""
    print(sentence, file=sys.stderr, flush=True)


def _progress() -> AbstractContextManager[Callable[[Stage], None] | None]:
    """A bar with the time left on a terminal; in a pipe, the line after every probe says it."""
    if not sys.stderr.isatty():
        return nullcontext()
    return _Bar()


class _Bar:
    """The bar of a whole measurement."""

    def __enter__(self) -> Callable[[Stage], None]:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}"),
        )
        self.bar = Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False)
        self.task = self.bar.add_task("building the network", total=1.0, left="")
        self.bar.start()
        return self.show

    def show(self, stage: Stage) -> None:
        left = stage.seconds_left
        told = "" if left is None else f"{left:.0f} s left" if left < 100 else f"{left / 60:.0f} min left"
        where = f"{stage.block}, probe {stage.probe + 1}/{stage.probes}, product {stage.step}/{stage.steps}"
        self.bar.update(self.task, description=where, completed=stage.done, left=told)

    def __exit__(self, *failure: object) -> None:
        self.bar.stop()
