"""The networks that can be measured by name: how each is built, its input, and its default blocks."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.parameter import UninitializedParameter

from quadsim import _validation as checks
from quadsim._random import stream
from quadsim._validation import InputError, InputTypeError
from quadsim.hessian.convnets import MLP, VGG16, ResNet18
from quadsim.hessian.transformers import BERT, GPT2, ViT

Size = tuple[int, int]


@dataclass(frozen=True)
class Model:
    """A network by name. `reads` is text, masked text or images; `build` takes the size of the images."""

    title: str
    reads: str
    blocks: tuple[str, ...]
    build: Callable[[Size], nn.Module]
    size: Size = (0, 0)
    least_size: int = 1
    channels: int = 3
    classes: int = 1000


def _layer(number: int) -> tuple[str, ...]:
    parts = ("query", "key", "value", "attention_out", "mlp_in", "mlp_out", "norm1", "norm2")
    return tuple(f"layer{number}.{part}" for part in parts)


#: The networks that `measure_model` builds, by name.
MODELS = {
    "gpt2": Model(
        "GPT2, 124,439,808 parameters: N(0, 0.02²), residual projections divided by √(2·layers), tied embedding",
        "text",
        ("embedding", *_layer(3)),
        lambda size: GPT2(),
    ),
    "gpt2-nano": Model(
        "GPT2 with 6 layers of width 384 and 6 heads, on bytes (vocabulary 256, context 256)",
        "text",
        ("embedding", *_layer(3)),
        lambda size: GPT2(layers=6, width=384, heads=6, vocabulary=256, context=256),
    ),
    "bert-mini": Model(
        "BERT-style encoder with 4 layers of width 256 and 4 heads, masked tokens, truncated N(0, 0.02²)",
        "masked text",
        ("embedding", "positions", "norm", *_layer(2), "head", "head_norm"),
        lambda size: BERT(),
    ),
    "vit-small": Model(
        "ViT with 6 layers of width 192, 3 heads and patches of 8 x 8, initialized as DeiT, 1000 classes",
        "images",
        ("patches", "token", "positions", *_layer(2), "norm", "head"),
        lambda size: ViT(image=size),
        size=(64, 64),
        least_size=8,
    ),
    "resnet18": Model(
        "ResNet18, 11,689,512 parameters: torchvision's layout and initialization, 1000 classes",
        "images",
        ("conv1", *(f"layer{stage}.{block}.conv1" for stage in (1, 2, 3, 4) for block in (0, 1)), "fc"),
        lambda size: ResNet18(),
        size=(64, 64),
    ),
    "vgg16": Model(
        "VGG16 with BatchNorm, 138,365,992 parameters: torchvision's layout and initialization, 1000 classes",
        "images",
        (*(f"features.{number}" for number in (0, 3, 7, 10, 14, 20, 27, 34, 40)), "classifier.6"),
        lambda size: VGG16(),
        size=(32, 32),
        least_size=32,
    ),
    "mlp": Model(
        "MLP with two hidden layers of 128 ReLUs on grey images of 28 x 28, 10 classes, torch's initialization",
        "images",
        ("layer0", "layer1", "layer2"),
        lambda size: MLP(inputs=size[0] * size[1]),
        size=(28, 28),
        channels=1,
        classes=10,
    ),
}


def build(name: str, *, seed: int, size: Size | None = None) -> nn.Module:
    """A network of `MODELS` at initialization, in float32.

    Parameters
    ----------
    name : str
    seed : int
    size : (int, int), optional
        Of the images that it reads.

    Returns
    -------
    torch Module

    Examples
    --------
    >>> from quadsim import hessian
    >>> network = hessian.build("mlp", seed=0)
    >>> sum(parameter.numel() for parameter in network.parameters())
    118282
    """
    model = MODELS[checks.choice("model", name, MODELS)]
    size = size or model.size
    if min(size) < model.least_size and model.reads == "images":
        least = f"{model.least_size} x {model.least_size}"
        raise InputError(f"model={name} needs images of at least {least}, got {size[0]} x {size[1]}")
    if name == "vit-small" and (size[0] % 8 or size[1] % 8):
        raise InputError(f"model={name} needs images whose sides are multiples of 8, got {size[0]} x {size[1]}")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(stream(seed, "initialization").integers(2**62)))
        return model.build(size)


def select_blocks(module: nn.Module, blocks: Sequence[str] | None) -> dict[str, str]:
    """The selected blocks with their parameter names; a block is a parameter, named without a trailing ".weight"."""
    names = {name.removesuffix(".weight"): name for name, _ in module.named_parameters()}
    if isinstance(blocks, str):
        raise InputTypeError(f"blocks must be a list of names, got {checks.shown(blocks)}")
    if blocks is None:
        blocks = [block for block, name in names.items() if name.endswith("weight")] or list(names)
    chosen: dict[str, str] = {}
    for pattern in blocks:
        if not isinstance(pattern, str):
            raise InputTypeError(f"blocks must be names, got {checks.shown(pattern)}")
        name = pattern.removesuffix(".weight")
        matches = [name] if name in names else fnmatch.filter(names, name)
        if not matches:
            checks.choice("block", pattern, names)  # raises
        chosen |= {block: names[block] for block in matches}
    if not chosen:
        raise InputError("blocks must name at least one block")
    for block, name in chosen.items():
        parameter = module.get_parameter(name)
        if isinstance(parameter, UninitializedParameter) or parameter.numel() == 0:
            raise InputError(f"block {block} is empty or uninitialized")
        if parameter.dtype not in (torch.float32, torch.float64) or parameter.layout != torch.strided:
            raise InputError(f"block {block} must be float32 or float64 and dense, got {parameter.dtype}")
    return chosen


def count(module: nn.Module) -> int:
    """The number of parameters."""
    return sum(parameter.numel() for parameter in module.parameters())
