"""A transform network on pictures larger than memory: layer by layer, each in strips of rows, without seams.

Enters: pixels (H, W, 3) and the network as a row of layers. Leaves: pixels of the same size, as one run over
the whole picture gives them: every strip is computed with the rows around it that its convolution reads, and
instance norms take mean and variance over the whole picture. What a layer gives is kept in memory, or in
files of a temporary directory where it is larger than what it may take.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

import trilobite as tb
from trilobite.apps.style.pictures import Pixels
from trilobite.base.errors import ArgumentError
from trilobite.framework.nn import functional as F
from trilobite.framework.progress import Progress

Array = np.ndarray[Any, np.dtype[np.float32]]
LEAST = 1 << 20  # bytes of one strip; smaller ones cost more than they save


@dataclass(frozen=True)
class Layer:
    """Enlarge, frame, convolve, normalise, activate, add: in this order, whichever of them there are."""

    weight: Array  # (outputs, inputs, k, k), k odd
    bias: Array | None = None
    stride: int = 1
    enlarge: Literal["", "repeat", "zeros"] = ""  # to twice the sides: each value again, or zeros in between
    frame: Literal["reflect", "zeros"] = "reflect"
    scale: Array | None = None  # of an instance norm
    shift: Array | None = None
    epsilon: float = 1e-5
    activation: Literal["", "relu", "sigmoid"] = ""
    adds: int | None = None  # the layer whose result is added at the end

    @property
    def reach(self) -> int:
        return int(self.weight.shape[2]) // 2

    def extent(self, size: int) -> int:
        """Of a side of `size`, how long it is behind the layer."""
        framed = (2 * size if self.enlarge else size) + 2 * self.reach
        return (framed - int(self.weight.shape[2])) // self.stride + 1


def paint(pixels: Pixels, layers: Sequence[Layer], memory: int, target: Any = "cpu") -> Pixels:
    """`memory`: bytes that a strip, and what is kept of a layer outside files, may take together."""
    if memory < LEAST:
        raise ArgumentError(f"{memory} bytes for strips", expected=f"at least {LEAST}")
    kept = {layer.adds for layer in layers if layer.adds is not None}
    with tempfile.TemporaryDirectory(prefix="trilobite-strips-") as directory, Progress() as bar:
        store = _Store(Path(directory), memory // 4)
        x: Array = np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)
        results: dict[int, Array] = {}
        bar.start("painting in strips, layer by layer", len(layers))
        for number, layer in enumerate(layers):
            added = None if layer.adds is None else results[layer.adds]
            x = _run(layer, x, added, store, memory // 4, target)
            if number in kept:
                results[number] = x
            for done in [n for n in results if not _is_read_later(n, number, layers)]:
                del results[done]
            bar.advance({})
        return np.ascontiguousarray(x.transpose(1, 2, 0))


def _is_read_later(result: int, now: int, layers: Sequence[Layer]) -> bool:
    return any(layer.adds == result for layer in layers[now + 1 :])


class _Store:
    """Arrays for results: in memory while they are small, else in files, which go when nobody reads them."""

    def __init__(self, directory: Path, most: int) -> None:
        self.directory, self.most, self.count = directory, most, 0

    def empty(self, shape: tuple[int, int, int]) -> Array:
        if 4 * int(np.prod(shape)) <= self.most:
            return np.empty(shape, np.float32)
        path = self.directory / f"{self.count}"
        self.count += 1
        found: Array = np.memmap(path, np.float32, "w+", shape=shape)
        path.unlink()  # the memory map keeps it until it is let go
        return found


def _run(layer: Layer, x: Array, added: Array | None, store: _Store, memory: int, target: Any) -> Array:
    height, width = (layer.extent(n) for n in x.shape[1:])
    out = store.empty((layer.weight.shape[0], height, width))
    total = np.zeros((2, out.shape[0]), np.float64)
    convolve = _convolution(layer, target)
    done = 0
    for first, last in _strips(layer, height, width, x.shape[0], memory):
        strip = convolve(_read(layer, x, first, last))
        out[:, first:last] = strip
        fresh = strip[:, done - first :].astype(np.float64)  # the last strip begins inside the one before
        total += [fresh.sum((1, 2)), (fresh * fresh).sum((1, 2))]
        done = last
    factor, offset = _norm(layer, total, height * width)
    for first, last in _strips(layer, height, width, x.shape[0], memory, overlap=False):
        part = (
            out[:, first:last] * factor + offset if layer.scale is not None else np.array(out[:, first:last])
        )
        part = _activated(layer, part)
        out[:, first:last] = part if added is None else part + added[:, first:last]
    return out


def _strips(
    layer: Layer, height: int, width: int, inputs: int, memory: int, overlap: bool = True
) -> Iterator[tuple[int, int]]:
    """Rows of the result, equally many in all strips so that one program computes them."""
    wide = (width * layer.stride + 2 * layer.reach) * inputs * layer.stride + width * layer.weight.shape[0]
    rows = int(max(1, min(height, max(memory, LEAST) // (4 * wide) - 2 * layer.reach)))
    for first in range(0, height, rows):
        start = min(first, height - rows) if overlap else first
        yield start, min(first + rows, height)


def _read(layer: Layer, x: Array, first: int, last: int) -> Array:
    """What the convolution reads for these rows of its result, with the frame around the picture."""
    reach, stride = layer.reach, layer.stride
    rows, row_there = _places(layer, x.shape[1], first * stride - reach, (last - 1) * stride + reach + 1)
    columns, column_there = _places(layer, x.shape[2], -reach, _enlarged(layer, x.shape[2]) + reach)
    low = int(rows.min())
    near = np.asarray(x[:, low : int(rows.max()) + 1])
    strip = near[:, rows - low][:, :, columns]
    if not (row_there.all() and column_there.all()):
        strip *= (row_there[:, None] & column_there[None, :]).astype(np.float32)
    return strip


def _enlarged(layer: Layer, size: int) -> int:
    return 2 * size if layer.enlarge else size


def _places(layer: Layer, size: int, start: int, stop: int) -> tuple[Any, Any]:
    """Of places along a side, framed and enlarged: which of its values each is, and whether it is one."""
    whole = _enlarged(layer, size)
    at = np.arange(start, stop)
    there = np.ones(at.shape, bool)
    if layer.frame == "reflect":
        period = max(2 * (whole - 1), 1)
        at = np.abs(at) % period
        at = np.where(at >= whole, period - at, at)
    else:
        there = (at >= 0) & (at < whole)
        at = np.clip(at, 0, whole - 1)
    if layer.enlarge == "zeros":
        there = there & (at % 2 == 0)
    return (at // 2 if layer.enlarge else at), there


def _convolution(layer: Layer, target: Any) -> Callable[[Array], Array]:
    weight = tb.tensor(np.ascontiguousarray(layer.weight))
    bias = None if layer.bias is None else tb.tensor(np.ascontiguousarray(layer.bias))

    def convolve(x: tb.Tensor) -> tb.Tensor:
        out: tb.Tensor = F.conv2d(x, weight, bias, stride=layer.stride)
        return out

    compiled = tb.jit(convolve, target=target)

    def run(strip: Array) -> Array:
        with tb.no_grad():
            found: Array = np.asarray(compiled(tb.tensor(strip[None])).numpy())[0]
            return found

    return run


def _norm(layer: Layer, total: Any, count: int) -> tuple[Array, Array]:
    """Factor and offset of every channel, from sums over the whole picture."""
    if layer.scale is None or layer.shift is None:
        return np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    mean = total[0] / count
    variance = np.maximum(total[1] / count - mean * mean, 0.0)
    factor = layer.scale / np.sqrt(variance + layer.epsilon)
    offset = layer.shift - mean * factor
    return factor.astype(np.float32)[:, None, None], offset.astype(np.float32)[:, None, None]


def _activated(layer: Layer, values: Array) -> Array:
    if layer.activation == "relu":
        return np.maximum(values, 0)
    if layer.activation == "sigmoid":
        return np.asarray(1 / (1 + np.exp(-values)), np.float32)
    return values
