"""The program that the kill tests kill: a real training on digits, with everything that resuming could
get wrong.

`python kill_trainer.py DIGITS DIRECTORY KEEP` trains on the digits of a .npz file with checkpoints in
DIRECTORY, of which the newest KEEP are kept (0: all). It goes on from the newest one, and says `done
<step>` after every checkpoint.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework import data, metrics, nn, optim
from trilobite.framework.checkpoint import Checkpointer
from trilobite.framework.fit import EarlyStopping, fit

EPOCHS, BATCH = 4, 16


class Announcing(Checkpointer):
    """Says so when a checkpoint is on the disk."""

    def save(self, step: int, tree: Any, *, metadata: Any = None) -> str:
        out = super().save(step, tree, metadata=metadata)
        print("done", step, flush=True)
        return out


def noisy(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return image + rng.normal(0.0, 0.05, image.shape).astype(np.float32)


def train(images: np.ndarray, labels: np.ndarray, place: Checkpointer) -> None:
    tb.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.25), nn.Linear(96, 10),
    )  # fmt: skip
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    random = data.transforms.Lambda(noisy, random=True)
    parts = (slice(0, 320), slice(320, 420))
    train_set, test_set = (data.ArrayDataset(images[part], labels[part]) for part in parts)
    loader = data.Loader(train_set, BATCH, shuffle=True, seed=3, transform=random)
    fit(
        model,
        optimizer,
        nn.functional.cross_entropy,
        loader,
        epochs=EPOCHS,
        validation=data.Loader(test_set, 50),
        metrics={"accuracy": metrics.Accuracy()},
        schedule=optim.CosineAnnealingLR(optimizer, EPOCHS * len(loader)),
        schedule_every="step",
        clip_norm=1.0,
        average=optim.ExponentialMovingAverage(model, 0.9),
        early_stopping=EarlyStopping(patience=EPOCHS),
        checkpoint=place,
        save_every=2,
        progress=False,
    )


def main(digits: str, directory: str, keep: int) -> None:
    with np.load(digits) as found:
        images, labels = found["images"], found["labels"]
    print("ready", flush=True)
    train(images, labels, Announcing(directory, keep or None))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
