"""Batches to measure on: tokens of a text, or labelled images, chosen by seed and described for the provenance."""

from __future__ import annotations

import gzip
import hashlib
import math
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from quadsim import _files
from quadsim._random import stream
from quadsim._validation import InputError

MAX_BYTES = 2**32  # of a file of text or images
_content = partial(_files.read_bytes, "", at_most=MAX_BYTES)


@dataclass(frozen=True)
class Batch:
    """Inputs and targets with their description; targets of −100 are ignored in the loss, as in torch."""

    inputs: Tensor
    targets: Tensor
    facts: dict[str, Any]


def text(
    path: Path,
    shape: tuple[int, int],
    *,
    seed: int,
    vocabulary: int,
    vocab: Path | None = None,
    masked: bool = False,
    number: int | None = None,
) -> Batch:
    """`shape[0]` windows of `shape[1]` tokens; targets are the next tokens, or the masked ones.

    Without `vocab` (a folder with GPT2's encoder.json and vocab.bpe) the tokens are the text's bytes, which are also
    tokens 0 to 255 of GPT2's vocabulary, in another order. `number` selects another batch of the same seed.
    """
    tokens = _tokens(path, vocab)
    count, length = shape
    window = length if masked else length + 1  # the last target is the next token
    if tokens.size < window * count:
        raise InputError(
            f"{path} has {tokens.size} tokens: a batch of {count} x {length} needs at least {window * count}"
        )
    if tokens.max() >= vocabulary:
        raise InputError(f"{path}: token {tokens.max()} is outside the network's vocabulary of {vocabulary}")
    rng = _stream(seed, number)
    # Non-overlapping windows: draw starts in the text without the windows, then insert them.
    free = np.sort(rng.integers(0, tokens.size - window * count + 1, size=count))
    windows = np.stack([tokens[first : first + window] for first in free + window * np.arange(count)])
    if masked:
        hidden = rng.random(windows.shape) < 0.15
        hidden[:, 0] |= ~hidden.any(axis=1)  # at least one in every window
        inputs, targets = np.where(hidden, vocabulary - 1, windows), np.where(hidden, windows, -100)
    else:
        inputs, targets = windows[:, :-1], windows[:, 1:]
    facts = {
        "text": path.name,
        "sha256": _checksum(path),
        "tokens": f"{count}x{length}",
        "tokenizer": "bytes" if vocab is None else "GPT2's byte-level BPE",
    }
    if vocab is not None:
        facts["vocab_sha256"] = _checksum(vocab / "vocab.bpe")
    return Batch(torch.from_numpy(inputs.copy()), torch.from_numpy(targets.copy()), facts)


def _stream(seed: int, number: int | None) -> np.random.Generator:
    return stream(seed, "batch") if number is None else stream(seed, "batch", number)


@cache
def _tokens(path: Path, vocab: Path | None) -> np.ndarray:
    """The tokens of a text, cached for training."""
    content = _content(path)
    if vocab is not None:
        return _encoded(content, vocab, path)
    return np.frombuffer(content, dtype=np.uint8).astype(np.int64)


def _encoded(content: bytes, vocab: Path, path: Path) -> np.ndarray:
    """GPT2's tokens, by the package tokenizers."""
    try:
        from tokenizers import ByteLevelBPETokenizer
    except ImportError:
        raise InputError("vocab= needs the package tokenizers: pip install 'quadsim[torch]'") from None
    files = [vocab / name for name in ("encoder.json", "vocab.bpe")]
    for file in files:
        try:
            _files.check_file("vocab", file, at_most=MAX_BYTES)
        except InputError as error:
            raise InputError(f"vocab must be a folder with encoder.json and vocab.bpe: {error}") from None
    try:
        decoded = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a UTF-8 text") from None
    try:
        tokenizer = ByteLevelBPETokenizer(*map(str, files))
    except Exception as error:  # the package raises bare exceptions
        raise InputError(f"vocab={vocab} cannot be read: {error}") from None
    return np.array(tokenizer.encode(decoded).ids, dtype=np.int64)


def images(
    path: Path,
    count: int,
    *,
    seed: int,
    size: tuple[int, int],
    channels: int,
    classes: int,
    labels: Path | None = None,
    number: int | None = None,
) -> Batch:
    """`count` images, resized to `size`, standardized by the mean and deviation of the batch in each channel.

    The file is an .npz with ``images`` (n, height, width[, 3]) of bytes and ``labels`` (n,), or an IDX file like those
    of MNIST, plain or gzipped, with its labels in another file.
    """
    pixels, targets = _labelled(path, labels)
    if pixels.ndim == 3:
        pixels = np.repeat(pixels[..., None], 3, axis=3)
    if pixels.ndim != 4 or pixels.shape[3] != 3 or min(pixels.shape) == 0:
        raise InputError(
            f"{path}: images must have shape (n, height, width) or (n, height, width, 3), got {pixels.shape}"
        )
    if targets.shape != (len(pixels),):
        raise InputError(f"{path}: {len(pixels)} images need {len(pixels)} labels, got shape {targets.shape}")
    if count > len(pixels):
        raise InputError(f"{path} has {len(pixels)} images, fewer than a batch of {count}")
    if targets.min() < 0 or targets.max() >= classes:
        raise InputError(f"{path}: labels must be from 0 to {classes - 1}, got {targets.min()} to {targets.max()}")
    chosen = np.sort(_stream(seed, number).choice(len(pixels), count, replace=False))
    x = torch.from_numpy(pixels[chosen].astype(np.float32)).permute(0, 3, 1, 2) / 255
    if x.shape[2:] != size:
        x = F.interpolate(x, size, mode="bilinear", antialias=True, align_corners=False)
    if channels == 1:
        x = x.mean(1, keepdim=True)
    deviation = x.std((0, 2, 3), keepdim=True)
    if not (deviation > 1e-6).all():
        raise InputError(f"{path}: a channel of the batch is constant")
    x = (x - x.mean((0, 2, 3), keepdim=True)) / deviation
    facts = {"images": path.name, "sha256": _checksum(path), "batch": count, "size": f"{size[0]}x{size[1]}"}
    if labels is not None:
        facts["labels_sha256"] = _checksum(labels)
    return Batch(x, torch.from_numpy(targets[chosen].astype(np.int64)), facts)


@cache
def _labelled(path: Path, labels: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of the files, cached for training."""
    if path.suffix.lower() == ".npz":
        if labels is not None:
            raise InputError(f"labels={labels} is not needed: {path} contains its labels")
        return _npz_images(path)
    if labels is None:
        raise InputError(f"images={path} is not an .npz: also give labels=FILE, the labels in IDX format")
    return _idx(path, 3), _idx(labels, 1)


@cache
def _checksum(path: Path) -> str:
    return hashlib.sha256(_content(path)).hexdigest()


def _npz_images(path: Path) -> tuple[np.ndarray, np.ndarray]:
    _files.check_file("images", path, at_most=MAX_BYTES)
    try:
        with np.load(path, allow_pickle=False) as content:
            pixels, targets = content["images"], content["labels"]
    except KeyError as error:
        raise InputError(f"{path} must hold arrays images and labels: {error.args[0]}") from None
    except Exception:  # numpy and zipfile raise about ten kinds of exceptions on malformed files
        raise InputError(f"{path} cannot be read: it is truncated, pickled, or not an .npz file") from None
    if pixels.dtype != np.uint8 or targets.dtype.kind not in "iu":
        raise InputError(f"{path}: images must be bytes and labels whole numbers, got {pixels.dtype}, {targets.dtype}")
    return pixels, targets


def _idx(path: Path, dimensions: int) -> np.ndarray:
    """An IDX file of bytes: 0, 0, 8, the number of dimensions, each dimension in four bytes, then the data."""
    content = _content(path)
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except Exception:
            raise InputError(f"{path} cannot be read: it is a damaged gzip file") from None
    head = 4 + 4 * dimensions
    if content[:4] != bytes([0, 0, 8, dimensions]) or len(content) < head:
        raise InputError(f"{path} is not an IDX file of bytes with {dimensions} dimensions")
    shape = tuple(int.from_bytes(content[4 + 4 * k : 8 + 4 * k], "big") for k in range(dimensions))
    if len(content) - head != math.prod(shape):
        raise InputError(f"{path} is damaged: its header has shape {shape}, but it holds {len(content) - head} bytes")
    return np.frombuffer(content, dtype=np.uint8, offset=head).reshape(shape)


def cross_entropy(batch: Batch, logits: Tensor) -> Tensor:
    """The mean over targets that are not ignored; logits are (batch, classes) or (batch, length, vocabulary)."""
    return F.cross_entropy(logits.flatten(0, -2), batch.targets.flatten(), ignore_index=-100)
