"""Measure a network by its name: network and batch are built from settings that are stored in the provenance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from quadsim import _validation as checks
from quadsim._validation import InputError
from quadsim.hessian import batches, checkpoint, memory, models
from quadsim.hessian.batches import Batch
from quadsim.hessian.measure import measure
from quadsim.hessian.models import MODELS, select_blocks
from quadsim.hessian.training import train
from quadsim.spectra.files import Measured

MODES = ("evaluation", "training")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def measure_model(
    model: str,
    *,
    blocks: Sequence[str] | None = None,
    text: str | Path | None = None,
    vocab: str | Path | None = None,
    tokens: tuple[int, int] | None = None,
    images: str | Path | None = None,
    labels: str | Path | None = None,
    batch: int | None = None,
    size: tuple[int, int] | None = None,
    source: str | None = None,
    train_steps: int = 0,
    mode: str = "evaluation",
    dtype: str = "float32",
    lanczos_steps: int = 60,
    probes: int = 2,
    seed: int = 0,
    **how: Any,
) -> Measured:
    """Spectra of the blocks of a network in `MODELS`, on a batch of a text or of images.

    Parameters
    ----------
    blocks : list of str, optional
        By default those listed in `MODELS`.
    text, vocab, tokens :
        For GPT2 and BERT: a text file, the folder of GPT2's vocabulary (bytes without it), windows and their tokens
        (2 of 128).
    images, labels, batch, size :
        For the others: an .npz with images and labels, or two IDX files; the batch size (64); the size to resize to.
    source : str, optional
        The origin of the data, for the provenance.
    train_steps : int
        Training steps before the measurement, on other batches of the same data.
    mode : "evaluation" or "training"
        The mode of BatchNorm.
    how :
        curvature, out, overwrite, command, state, progress: as in `measure`.
    """
    described = MODELS[checks.choice("model", model, MODELS)]
    checks.choice("mode", mode, MODES)
    checks.choice("dtype", dtype, DTYPES)
    checks.whole("train", train_steps, at_least=0)
    if how.get("out") is not None:
        path = checkpoint.check_out(how["out"])
        if path.exists() and any(
            file and Path(file).exists() and path.samefile(file) for file in (text, images, labels)
        ):
            raise InputError(f"out={path} is also an input file")
    network = models.build(model, seed=seed, size=size)
    asked = list(described.blocks if blocks is None else blocks)
    names = select_blocks(network, asked)

    def draw(number: int | None) -> Batch:
        return _batch(
            model,
            network,
            number=number,
            seed=seed,
            text=text,
            vocab=vocab,
            tokens=tokens,
            images=images,
            labels=labels,
            batch=batch,
            size=size,
            normalising=mode == "training" or train_steps > 0,
        )

    data = draw(None)
    if train_steps:
        say = how.get("state") or (lambda sentence: None)
        first = dict(list(names.items())[:1])  # training needs at most one block's graph and a few gradients
        memory.check(
            network, lambda: network(data.inputs), partial(batches.cross_entropy, data), "hessian", first, 2, say
        )
        train(network, draw, train_steps, say)
    network.train(mode == "training").to(DTYPES[dtype])
    inputs = data.inputs if data.inputs.dtype == torch.int64 else data.inputs.to(DTYPES[dtype])
    settings = {
        "model": model,
        "architecture": described.title,
        "parameters": models.count(network),
        "trained": train_steps,
        "mode": mode,
        "data": {**data.facts, **({"source": source} if source else {})},
    }
    return measure(
        network,
        lambda: network(inputs),
        partial(batches.cross_entropy, data),
        blocks=asked,
        lanczos_steps=lanczos_steps,
        probes=probes,
        seed=seed,
        name=model,
        settings=settings,
        **how,
    )


def _batch(model: str, network: Any, *, number: int | None, seed: int, **data: Any) -> Batch:
    """The batch to measure on (number None), or one to train on."""
    described = MODELS[model]
    least = 2 if data.pop("normalising") else 1  # BatchNorm in training mode is undefined for one image
    if described.reads == "images":
        for key in ("text", "vocab", "tokens"):
            if data[key] is not None:
                raise InputError(f"model={model} reads images, not text: give images=FILE, not {key}=")
        if data["images"] is None:
            raise InputError(f"model={model} needs images=FILE: an .npz with images and labels, or an IDX file")
        return batches.images(
            Path(data["images"]),
            checks.whole("batch", 64 if data["batch"] is None else data["batch"], at_least=least),
            seed=seed,
            number=number,
            size=data["size"] or described.size,
            channels=described.channels,
            classes=described.classes,
            labels=None if data["labels"] is None else Path(data["labels"]),
        )
    for key in ("images", "labels", "size", "batch"):
        if data[key] is not None:
            raise InputError(f"model={model} reads text, not images: give text=FILE, not {key}=")
    if data["text"] is None:
        raise InputError(f"model={model} needs text=FILE: a plain text to take a batch of tokens from")
    tokens = data["tokens"] or (2, 128)
    if tokens[1] > network.context:
        raise InputError(f"model={model} reads at most {network.context} tokens at a time, got {tokens[1]}")
    return batches.text(
        Path(data["text"]),
        tokens,
        seed=seed,
        number=number,
        vocabulary=network.vocabulary,
        vocab=None if data["vocab"] is None else Path(data["vocab"]),
        masked=described.reads == "masked text",
    )
