"""Handwritten digits: MNIST from its four IDX files, and the small set that scikit-learn ships.

In: a directory. Out: an `ArrayDataset` of (image, label). Nothing is downloaded here; `make data` fetches
MNIST.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from trilobite.base.errors import ArgumentError, DataError, FileError
from trilobite.base.wrong_use import explain_room
from trilobite.framework.data import idx
from trilobite.framework.data.dataset import ArrayDataset

FILES = {
    "train": ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    "test": ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}


class MNIST(ArrayDataset):
    """60 000 training or 10 000 test images, 28×28 of uint8, with labels 0 to 9 (uint8)."""

    def __init__(self, root: str | os.PathLike[str], split: str = "train") -> None:
        if split not in FILES:
            raise ArgumentError(f"MNIST has no split {split!r}", expected="'train' or 'test'")
        image_file, label_file = (_find(Path(root), name) for name in FILES[split])
        images, labels = idx.read(image_file), idx.read(label_file)
        if images.dtype != np.uint8 or images.ndim != 3 or images.shape[1:] != (28, 28):
            raise FileError(
                f"the images have shape {images.shape} and dtype {images.dtype}",
                where=image_file,
                expected="(n, 28, 28) of uint8",
            )
        if labels.dtype != np.uint8 or labels.shape != images.shape[:1]:
            raise FileError(
                f"the labels have shape {labels.shape} and dtype {labels.dtype}",
                where=label_file,
                expected=f"({images.shape[0]},) of uint8: one label per image",
            )
        if labels.size and labels.max() > 9:
            raise FileError(f"a label is {labels.max()}", where=label_file, expected="0 to 9")
        super().__init__(images, labels)
        self.images, self.labels = images, labels


def _find(root: Path, name: str) -> Path:
    for candidate in (root / name, root / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    wanted = ", ".join(f for pair in FILES.values() for f in pair)
    raise DataError(
        f"MNIST is not complete: {name} is missing",
        where=root,
        expected=f"{wanted} (or each with .gz)",
        remedy="run `make data` to fetch them, or pass the directory that holds them",
    )


def digits() -> ArrayDataset:
    """The 1797 images (8×8, float32 in 0..1) and labels (int64) of scikit-learn, which must be installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise DataError(
            "the digits set needs scikit-learn, which is not installed",
            expected="scikit-learn",
            remedy="pip install scikit-learn, or use MNIST(root)",
        ) from error
    bunch = load_digits()
    return ArrayDataset((bunch.images / 16).astype(np.float32), bunch.target.astype(np.int64))


explain_room(globals())
