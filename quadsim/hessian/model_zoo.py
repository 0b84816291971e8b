"""Measure a network by its name: network and batch are built from settings that are stored in the provenance."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    seed: int = 0,
    **how: Any,
) -> Measured:
    """Spectra of the blocks of a network in `MODELS`, on a batch of a text or of images.

    Parameters
    ----------
    model : str
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
    dtype : "float32" or "float64"
    seed : int
        Fixes initialization, batch and probes.
    **how :
        lanczos_steps, probes, curvature, out, overwrite, command, state, progress: as in `measure`.

    Returns
    -------
    Measured

    Examples
    --------
    >>> from quadsim import hessian
    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 256, (20, 28, 28), dtype=np.uint8)
    >>> np.savez("digits.npz", images=images, labels=np.arange(20) % 10)
    >>> measured = hessian.measure_model("mlp", images="digits.npz", batch=10, blocks=["layer2"], lanczos_steps=5)
    >>> list(measured.blocks), measured.block("layer2").size
    (['layer2'], 1280)
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
    blocks = list(described.blocks if blocks is None else blocks)
    names = select_blocks(network, blocks)
    min_batch = 2 if mode == "training" or train_steps else 1  # BatchNorm in training mode is undefined for one image
    if described.reads == "images":
        _refuse(model, "images", text=text, vocab=vocab, tokens=tokens)
        draw = _image_batches(model, images, labels, batch, size, min_batch)
    else:
        _refuse(model, "text", images=images, labels=labels, size=size, batch=batch)
        draw = _text_batches(model, network, text, vocab, tokens)
    draw = partial(draw, seed=seed)
    data = draw()
    loss = partial(batches.cross_entropy, data)
    if train_steps:
        log = how.get("state") or (lambda message: None)
        first = dict(list(names.items())[:1])  # training needs at most one block's graph and a few gradients
        memory.check(network, lambda: network(data.inputs), loss, "hessian", first, 2, log)
        train(network, draw, train_steps, log)
    network.train(mode == "training").to(DTYPES[dtype])
    inputs = data.inputs if data.inputs.dtype == torch.int64 else data.inputs.to(DTYPES[dtype])
    settings = {
        "model": model,
        "architecture": described.title,
        "parameters": models.count(network),
        "trained": train_steps,
        "mode": mode,
        "data": data.facts | ({"source": source} if source else {}),
    }
    return measure(
        network, lambda: network(inputs), loss, blocks=blocks, seed=seed, name=model, settings=settings, **how
    )


def _refuse(model: str, kind: str, **data: Any) -> None:
    """Raise if data of the other kind are given."""
    other = "text" if kind == "images" else "images"
    for key, value in data.items():
        if value is not None:
            raise InputError(f"model={model} reads {kind}, not {other}: give {kind}=FILE, not {key}=")


def _image_batches(
    model: str, images: Any, labels: Any, batch: int | None, size: tuple[int, int] | None, min_batch: int
) -> Callable[..., Batch]:
    """`batches.images` for this network: a function of seed and number."""
    if images is None:
        raise InputError(f"model={model} needs images=FILE: an .npz with images and labels, or an IDX file")
    described = MODELS[model]
    return partial(
        batches.images,
        Path(images),
        checks.whole("batch", 64 if batch is None else batch, at_least=min_batch),
        size=size or described.size,
        channels=described.channels,
        classes=described.classes,
        labels=None if labels is None else Path(labels),
    )


def _text_batches(
    model: str, network: Any, text: Any, vocab: Any, tokens: tuple[int, int] | None
) -> Callable[..., Batch]:
    """`batches.text` for this network: a function of seed and number."""
    if text is None:
        raise InputError(f"model={model} needs text=FILE: a plain text to take a batch of tokens from")
    tokens = tokens or (2, 128)
    if tokens[1] > network.context:
        raise InputError(f"model={model} reads at most {network.context} tokens at a time, got {tokens[1]}")
    return partial(
        batches.text,
        Path(text),
        tokens,
        vocabulary=network.vocabulary,
        vocab=None if vocab is None else Path(vocab),
        masked=MODELS[model].reads == "masked text",
    )
