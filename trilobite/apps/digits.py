"""The demo: a small convolutional network learns to read handwritten digits.

Enters: MNIST's files where `make data` put them, or scikit-learn's small digits. Leaves: a trained
network, its accuracy on digits it has not seen, and the time it took. Everything happens eagerly, on this
CPU.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

from trilobite.base.errors import ArgumentError, DataError
from trilobite.framework import data, metrics, nn, optim
from trilobite.framework.fit import History, fit
from trilobite.framework.jit import jit
from trilobite.framework.modes import no_grad
from trilobite.framework.nn import functional as F
from trilobite.framework.ops.conversion import asarray
from trilobite.framework.random import manual_seed
from trilobite.framework.tensor import Tensor

Images = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


class Digits(NamedTuple):
    """Where the digits come from, and (images, labels) to learn from and to be tested on."""

    source: str
    train: Images
    test: Images


def load(directory: Path = Path(".data/mnist")) -> Digits:
    """MNIST if its files are there, else scikit-learn's digits."""
    if (directory / "train-images-idx3-ubyte").is_file():
        learn, test = (data.MNIST(directory, split) for split in ("train", "test"))
        return Digits(
            "MNIST", _prepared(learn.images, learn.labels, 255), _prepared(test.images, test.labels, 255)
        )
    try:
        small = data.digits()
    except DataError as error:
        raise DataError(
            "there are no digits to learn from",
            where=directory.absolute(),
            expected="MNIST's four files there, or scikit-learn, which brings a small set",
            remedy="`make data` fetches MNIST, `pip install scikit-learn` the small set",
        ) from error
    images, labels = small.get_batch(np.arange(len(small)))
    held = np.arange(len(small)) % 5 == 0
    parts = (_prepared(images[chosen], labels[chosen]) for chosen in (~held, held))
    return Digits("scikit-learn's digits", *parts)


def _prepared(images: Any, labels: Any, white: int = 1) -> Images:
    """One channel, about mean 0 and variance 1."""
    pixels = (images[:, None] / np.float32(white) - np.float32(0.1307)) / np.float32(0.3081)
    return pixels.astype(np.float32), labels.astype(np.int64)


class Network(nn.Module):
    """Two convolutions, the first with stride 2 on large images, a pooling, and two linear layers."""

    def __init__(self, size: int) -> None:
        stride = 2 if size > 16 else 1
        self.first = nn.Conv2d(1, 8, 5, stride=stride, padding=2)
        self.second = nn.Conv2d(8, 24, 3, padding=1)
        side = (size + stride - 1) // stride // 2
        self.wide, self.out = nn.Linear(24 * side * side, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.first(x))
        x = F.max_pool2d(F.relu(self.second(x)), 2)
        hidden = F.relu(self.wide(nn.Flatten()(x)))
        out: Tensor = self.out(hidden)
        return out


def train(
    digits: Digits, epochs: int | None = None, seed: int = 0, progress: bool = True
) -> tuple[Network, History]:
    """The network after some epochs, and how it went; `validation_accuracy` is on the test digits."""
    large = len(digits.train[1]) > 10_000
    epochs = (2 if large else 8) if epochs is None else epochs
    if epochs < 1:
        raise ArgumentError(f"{epochs} epochs", expected="at least 1")
    manual_seed(seed)
    loader = data.Loader(data.ArrayDataset(*digits.train), 128 if large else 32, shuffle=True, seed=seed)
    model = Network(digits.train[0].shape[-1])
    optimizer = optim.Adam(model.parameters(), lr=1e-3)
    history = fit(
        model,
        optimizer,
        F.cross_entropy,
        loader,
        epochs=epochs,
        validation=data.Loader(data.ArrayDataset(*digits.test), 1000),
        metrics={"accuracy": metrics.Accuracy()},
        schedule=optim.OneCycleLR(optimizer, 8e-3, epochs * len(loader)),
        schedule_every="step",
        progress=progress,
    )
    return model, history


def read(model: Network, images: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The digit that the network sees in each image."""
    was = model.training
    model.eval()
    with no_grad():
        found = model(asarray(images)).numpy().argmax(axis=1)
    model.train(was)
    return np.asarray(found)


def seconds_of_steps(digits: Digits, compiled: bool, count: int = 30) -> float:
    """One training step of 32 digits, the least of some: as Python runs it, or through `tb.jit`."""
    manual_seed(0)
    model = Network(digits.train[0].shape[-1])
    optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def step(images: Tensor, labels: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    take = jit(step) if compiled else step
    images, labels = (asarray(part[:32]) for part in digits.train)
    spent = []
    for _ in range(count):
        began = time.perf_counter()
        float(take(images, labels))
        spent.append(time.perf_counter() - began)
    return min(spent)


def main(
    epochs: Annotated[
        int | None, typer.Option(help="how often over all digits; by the set if not given")
    ] = None,
    seed: Annotated[int, typer.Option(help="of weights and order; the same seed, the same bits")] = 0,
    directory: Annotated[Path, typer.Option(help="where MNIST's four files are")] = Path(".data/mnist"),
) -> None:
    """Train a small convolutional network on handwritten digits and say how well it reads them."""
    digits = load(directory)
    counts = f"{len(digits.train[1])} digits to learn from, {len(digits.test[1])} to be tested on"
    print(f"{digits.source}: {counts}")
    began = time.perf_counter()
    _, history = train(digits, epochs, seed)
    seconds = time.perf_counter() - began
    for number, row in enumerate(history.rows, start=1):
        accuracy = f"{row['validation_accuracy']:.2%}"
        print(f"epoch {number}: loss {row['loss']:.3f}, accuracy {accuracy}, {row['seconds']:.1f} s")
    right = f"{history['validation_accuracy'][-1]:.2%}"
    print(f"{right} of the test digits are read right, after {seconds:.1f} s of training")
