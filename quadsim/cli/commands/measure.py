"""Measure the block spectra of a network, saved after every probe (needs quadsim[torch]).

python -m quadsim measure model=gpt2 text=FILE
python -m quadsim measure model=gpt2 blocks=layer3.query,layer3.value text=FILE tokens=2x128 lanczos_steps=60
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from quadsim import _progress, keys
from quadsim._validation import InputError
from quadsim.cli import outputs
from quadsim.cli.arguments import CommandLine
from quadsim.cli.console import counter, duration
from quadsim.keys import Key

if TYPE_CHECKING:
    from quadsim.hessian.measure import Stage
    from quadsim.spectra.files import Measured

_MEASURE = "hessian.measure:measure"
KEYS = keys.select(
    Key("model", "text", "gpt2, gpt2-nano, bert-mini, vit-small, resnet18, vgg16 or mlp", shape="NAME", names="models"),
    Key("blocks", "words", "which blocks; * stands for anything"),
    Key("text", "text", "a text file", shape="FILE"),
    Key("vocab", "text", "the folder of GPT2's vocabulary", shape="FOLDER"),
    Key("tokens", "pair", "sequences x length", shape="2x128"),
    Key("images", "text", "an .npz or .npy file", shape="FILE"),
    Key("labels", "text", "their labels", shape="FILE"),
    Key("batch", "whole", "how many images", bounds={"at_least": 1}),
    Key("size", "pair", "of an image", shape="64x64"),
    Key("source", "text", "where the data come from, for the record"),
    Key("train", "whole", "steps of training before"),
    Key("mode", "text", "evaluation or training"),
    Key("dtype", "text", "float32 or float64"),
    Key("curvature", "text", "hessian or gauss-newton"),
    Key("lanczos_steps", "whole", "steps for each probe", used_by=_MEASURE),
    Key("probes", "whole", "for each block", used_by=_MEASURE),
    keys.KEYS["seed"],
    Key("out", "text", "the file (MODEL.npz)", shape="FILE.npz"),
    Key("overwrite", "flag", "replace a finished file", used_by=_MEASURE),
)


def main(line: CommandLine) -> None:
    try:
        from quadsim import hessian
    except ImportError as error:
        if error.name != "torch":
            raise InputError(f"measure needs torch, which cannot be imported: {error}") from None
        raise InputError("measure needs torch, which is not installed: pip install 'quadsim[torch]'") from None
    settings = dict(line.values)
    if "model" not in settings:
        raise InputError(f"measure needs model=, one of {', '.join(hessian.MODELS)}")
    model = settings.pop("model")
    settings.setdefault("out", f"{model}.npz")
    if "train" in settings:
        settings["train_steps"] = settings.pop("train")
    recorded = {key: text for key, text in line.recorded().items() if key != "overwrite"}
    settings |= {"command": outputs.command_line("measure", recorded), "state": print_line}
    try:
        with counter("%", 100, "building the network", clock=False) as show:

            def progress(stage: Stage) -> None:
                left = "" if stage.seconds_left is None else f", {duration(stage.seconds_left)} left"
                product = f"probe {stage.probe + 1}/{stage.probes}, product {stage.step}/{stage.steps}"
                show(round(100 * stage.done), f"{stage.block}, {product}{left}")

            measured = hessian.measure_model(model, progress=progress, **settings)
    except RuntimeError as error:
        if "allocate memory" not in str(error):
            raise
        raise MemoryError from None
    result = _facts(measured) | {"file": settings["out"]}
    summary = f"wrote {result['file']}: {len(measured.blocks)} blocks of {measured.name}"
    outputs.report(line, result, lambda screen: screen.print(summary, soft_wrap=True))


def _facts(measured: Measured) -> dict[str, Any]:
    """The size and the ends of the spectrum of each block, by probe."""
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


def print_line(sentence: str) -> None:
    """Print one line to standard error, above the progress bar."""
    with _progress.hidden():
        print(sentence, file=sys.stderr, flush=True)
