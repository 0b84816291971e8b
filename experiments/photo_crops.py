"""A labelled set of natural images from a folder of photographs: square crops, each labelled by its photograph.

The image networks of quadsim/spectra/data were measured on crops of the twelve photographs in
usr/share/backgrounds/mate/nature of Debian's package mate-backgrounds 1.26.0-1, produced by

    python experiments/photo_crops.py nature photos.npz

The photographs are not part of the repository; the measured files contain the checksum of photos.npz.
"""

import sys
from pathlib import Path

import numpy as np
from PIL import Image

EACH, SIDE, SEED = 40, 64, 0


def crops(photograph: Path, rng: np.random.Generator) -> np.ndarray:
    """Squares at random positions, with sides of an eighth to half the height, resized to 64 × 64."""
    image = Image.open(photograph).convert("RGB")
    cut = []
    for _ in range(EACH):
        side = int(rng.integers(image.height // 8, image.height // 2))
        left, top = rng.integers(image.width - side), rng.integers(image.height - side)
        square = image.crop((int(left), int(top), int(left) + side, int(top) + side))
        cut.append(np.asarray(square.resize((SIDE, SIDE), Image.Resampling.BOX)))
    return np.stack(cut)


def main(folder: str, out: str) -> None:
    photographs = sorted(Path(folder).glob("*.jpg"))
    rng = np.random.default_rng(SEED)
    images = np.concatenate([crops(photograph, rng) for photograph in photographs])
    labels = np.repeat(np.arange(len(photographs)), EACH)
    np.savez(out, images=images, labels=labels)
    print(f"{len(images)} crops of {len(photographs)} photographs in {out}")


if __name__ == "__main__":
    main(*sys.argv[1:])
