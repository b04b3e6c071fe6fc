"""ResNet-50 in int8 as one program: data, cycles and energy of a picture.

Run from the project's directory: `python examples/processor/resnet50.py`. The program is written layer by
layer for a machine whose NRAM holds a whole activation (TPU v1's 24 MiB): filters come through WRAM in tiles
of outputs, in two halves that take turns; every convolution adds its bias, scales, rectifies and rounds on
drain. A shortcut is added in int16 and saturated. Weights are random: the work is the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trilobite.processor import Device, Run
from trilobite.processor.device import Module

BLOCKS = (3, 4, 6, 3)
MIB = 1 << 20
# where in NRAM things lie
X, Y, Z, SHORTCUT, TILE, WIDE, WIDE2, BIAS, SCALE = (n * MIB for n in (0, 2, 4, 6, 8, 10, 13, 16, 17))


@dataclass(frozen=True)
class Conv:
    """A square convolution from one place in NRAM to another; `at` is where its parameters begin."""

    side: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    relu: bool
    at: int

    @property
    def out(self) -> int:
        return (self.side + 2 * (self.kernel // 2) - self.kernel) // self.stride + 1

    @property
    def filter_bytes(self) -> int:
        return self.kernel * self.kernel * self.inputs  # of one output

    @property
    def bytes(self) -> int:
        return -(-self.outputs * (self.filter_bytes + 8) // 64) * 64

    @property
    def macs(self) -> int:
        return self.out**2 * self.outputs * self.filter_bytes


class Writer:
    """Writes the program and keeps the list of its convolutions, whose parameters lie in their order."""

    def __init__(self, wram: int) -> None:
        self.lines = [".entry resnet", "resnet:"]
        self.half = wram // 2
        self.layers: list[Conv] = []
        self.at = 0
        self.turn = 0

    def put(self, *lines: str) -> None:
        self.lines += [f"    {line}" for line in lines]

    def conv(
        self, source: int, target: int, side: int, inputs: int, outputs: int, kernel: int, stride: int,
        relu: bool = True,
    ) -> int:  # fmt: skip
        """A convolution in tiles of outputs; gives the side of its result."""
        layer = Conv(side, inputs, outputs, kernel, stride, relu, self.at)
        self.layers.append(layer)
        self.at += layer.bytes
        filters, pad = layer.at + 8 * outputs, kernel // 2
        run = (side, side, inputs, kernel, kernel, 0, stride, stride, 1, 1, pad, pad, pad, pad, 1)
        self.put(*(f"SMOVE $2{place}, #{value}" if place < 10 else f"SMOVE $3{place - 10}, #{value}"
                   for place, value in enumerate(run)))  # fmt: skip
        self.put(f"SMOVE $1, #{outputs}", f"LI $10, #nram({BIAS})", f"LI $11, #nram({SCALE})",
                 f"VLOAD.i32 $10, $1, $0, #{layer.at}",
                 f"VLOAD.f32 $11, $1, $0, #{layer.at + 4 * outputs}", f"LI $12, #nram({source})")  # fmt: skip
        tile = min(outputs, max(1, self.half // layer.filter_bytes))
        for first in range(0, outputs, tile):
            self._tile(layer, first, min(tile, outputs - first), filters, target)
        return layer.out

    def _tile(self, layer: Conv, first: int, count: int, filters: int, target: int) -> None:
        whole, relu = count == layer.outputs, ".relu" if layer.relu else ""
        self.turn ^= 1
        self.put(f"SMOVE $25, #{count}", f"LI $13, #wram({self.turn * self.half})",
                 f"SMOVE $2, #{count * layer.filter_bytes}",
                 f"MLOAD.i8 $13, $2, $0, #{filters + first * layer.filter_bytes}",
                 f"LI $40, #nram({BIAS + 4 * first})", f"LI $41, #nram({SCALE + 4 * first})",
                 f"LI $14, #nram({target if whole else TILE + self.turn * MIB})",
                 f"CONV.i8.i8.i8.bias.scale{relu} $14, $12, $13, $20, $40")  # fmt: skip
        if not whole:  # a tile's outputs lie together: into their columns
            self.put(f"LI $15, #nram({target + first})", f"SMOVE $3, #{count}",
                     f"SMOVE $42, #{layer.outputs}", f"SMOVE $43, #{count}", f"SMOVE $44, #{layer.out**2}",
                     "COPY2 $15, $14, $3, $42")  # fmt: skip

    def pool(self, side: int, channels: int) -> int:
        """The largest of 3 x 3 with stride 2, from X to Y; the frame is the smallest value."""
        framed = (side, side, channels, 1, 1, 1, 1, 0x80)
        self.put(*(f"SMOVE $2{place}, #{value}" for place, value in enumerate(framed)),
                 f"LI $10, #nram({X})", f"LI $11, #nram({WIDE})", "VPAD.i8 $11, $10, $20",
                 *(f"SMOVE $2{place}, #{value}"
                   for place, value in enumerate((side + 2, side + 2, channels, 3, 3, 2, 2))),
                 f"LI $12, #nram({Y})", "VPOOL.i8.max $12, $11, $20")  # fmt: skip
        return (side - 1) // 2 + 1

    def join(self, a: int, b: int, target: int, count: int) -> None:
        """relu(a + b), saturated."""
        self.put(f"SMOVE $1, #{count}", f"LI $10, #nram({a})", f"LI $11, #nram({b})",
                 f"LI $12, #nram({WIDE})", f"LI $13, #nram({WIDE2})", f"LI $14, #nram({target})",
                 "VCVT.i16.i8 $12, $1, $10", "VCVT.i16.i8 $13, $1, $11", "VAV.i16 $12, $1, $12, $13",
                 "VRELU.i16 $12, $1, $12", "VCVT.i8.i16 $14, $1, $12")  # fmt: skip

    def mean(self, side: int, channels: int) -> None:
        """Over all places, from X to Y."""
        self.put(f"SMOVE $1, #{side * side * channels}", f"SMOVE $2, #{channels}", f"LI $10, #nram({X})",
                 f"LI $11, #nram({WIDE})", f"LI $12, #nram({WIDE2})", f"LI $13, #nram({Y})",
                 "VCVT.i32.i8 $11, $1, $10",
                 *(f"SMOVE $2{place}, #{value}"
                   for place, value in enumerate((side, side, channels, side, side, 1, 1))),
                 "VPOOL.i32.sum $12, $11, $20", "VCVT.f32.i32 $12, $2, $12",
                 f"VDS.f32 $12, $2, $12, #{side * side}.0", "VCVT.i8.f32 $13, $2, $12")  # fmt: skip


def network(
    wram: int, side: int = 224, width: int = 64, blocks: Sequence[int] = BLOCKS, classes: int = 1000
) -> Writer:
    """$0 parameters, $1 the picture [side][side][3], $2 where the results go."""
    writer = Writer(wram)
    writer.put(
        "SMOVE $50, $2", f"LI $10, #nram({Z})", f"SMOVE $3, #{side * side * 3}", "VLOAD.i8 $10, $3, $1, #0"
    )
    size = writer.conv(Z, X, side, 3, width, 7, 2)
    size, inputs = writer.pool(size, width), width
    here, there = Y, X
    for stage, count in enumerate(blocks):
        middle = width << stage
        for block in range(count):
            stride = 2 if stage and not block else 1
            out = writer.conv(here, Z, size, inputs, middle, 1, stride)
            writer.conv(Z, there, out, middle, middle, 3, 1)
            writer.conv(there, Z, out, middle, 4 * middle, 1, 1, relu=False)
            other = here
            if not block:
                writer.conv(here, SHORTCUT, size, inputs, 4 * middle, 1, stride, relu=False)
                other = SHORTCUT
            writer.join(Z, other, there, out * out * 4 * middle)
            here, there = there, here
            size, inputs = out, 4 * middle
    if here != X:
        writer.put(f"LI $10, #nram({X})", f"LI $11, #nram({here})", f"SMOVE $1, #{size * size * inputs}",
                   "VMOVE.i8 $10, $1, $11")  # fmt: skip
    writer.mean(size, inputs)
    writer.conv(Y, X, 1, inputs, classes, 1, 1, relu=False)
    writer.put(f"LI $10, #nram({X})", f"SMOVE $1, #{classes}", "VSTORE.i8 $10, $1, $50, #0", "HALT")
    return writer


Bytes = NDArray[np.int8]


def parameters(layers: Sequence[Conv], seed: int = 7) -> Bytes:
    """Random filters with biases, and scales that keep the results within int8."""
    rng = np.random.default_rng(seed)
    parts = []
    for layer in layers:
        bias = rng.integers(-500, 500, layer.outputs).astype(np.int32)
        scale = np.full(layer.outputs, 1.0 / (60.0 * layer.filter_bytes**0.5), np.float32)
        filters = rng.integers(-64, 64, (layer.outputs, layer.filter_bytes), dtype=np.int8)
        raw = np.concatenate([bias.view(np.int8), scale.view(np.int8), filters.reshape(-1)])
        parts.append(np.concatenate([raw, np.zeros(layer.bytes - raw.size, np.int8)]))
    return np.concatenate(parts)


def split(
    layers: Sequence[Conv], raw: Bytes
) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32], Bytes]]:
    """Bias, scale and filters [outputs][r][s][inputs] of every layer."""
    for layer in layers:
        part, n = raw[layer.at : layer.at + layer.bytes], 4 * layer.outputs
        filters = part[2 * n : 2 * n + layer.outputs * layer.filter_bytes]
        shape = (layer.outputs, layer.kernel, layer.kernel, layer.inputs)
        yield part[:n].view(np.int32), part[n : 2 * n].view(np.float32), filters.reshape(shape)


def launch(
    device: Device, module: Module, raw: Bytes, picture: Bytes, classes: int = 1000
) -> tuple[Bytes, Run]:
    result = device.array(np.zeros(classes, np.int8))
    run = device.launch(module["resnet"], [device.array(raw), device.array(picture), result])
    return result.numpy(), run


def main() -> None:
    device = Device("tpu-v1")
    writer = network(device.machine.core.wram.bytes)
    raw = parameters(writer.layers)
    picture = np.random.default_rng(1).integers(-128, 128, (224, 224, 3), dtype=np.int8)
    module = device.load("\n".join(writer.lines))
    begun = time.perf_counter()
    result, run = launch(device, module, raw, picture)
    cycles, joules = run.cycles, run.energy.total
    took = time.perf_counter() - begun
    macs = sum(layer.macs for layer in writer.layers)
    print(f"{macs / 1e9:.2f} GMAC, class {int(result.argmax())}, {cycles} cycles, {run.seconds * 1e3:.2f} ms")
    print(f"{joules * 1e3:.2f} mJ; simulated in {took:.2f} s")
    print(run.stall_text())


if __name__ == "__main__":
    main()
