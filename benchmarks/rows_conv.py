"""Convolutions of ResNet-50.

Ten of its shapes, with bias, for one image; inputs × outputs, kernel, stride and the size of the map that
enters. The weights do not change between calls, so they may be packed beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks import ours
from benchmarks.peers import weights
from benchmarks.row import Job, Row, both_thread_counts


class Shape(NamedTuple):
    inputs: int
    outputs: int
    kernel: int
    stride: int
    size: int

    @property
    def name(self) -> str:
        stride = f" stride {self.stride}" if self.stride > 1 else ""
        return f"{self.inputs} × {self.outputs}, {self.kernel}×{self.kernel}{stride}, {self.size}²"

    @property
    def flops(self) -> float:
        return 2.0 * (self.size // self.stride) ** 2 * self.inputs * self.outputs * self.kernel**2

    def arrays(self) -> tuple[Any, Any, Any]:
        x = weights.images(1, self.inputs, self.size, self.size)
        w = weights.drawn("row.weight", (self.outputs, self.inputs, self.kernel, self.kernel))
        return x, w, weights.drawn("row.bias", (self.outputs,))


SHAPES = (
    Shape(3, 64, 7, 2, 224),
    Shape(64, 64, 1, 1, 56),
    Shape(64, 64, 3, 1, 56),
    Shape(64, 256, 1, 1, 56),
    Shape(128, 128, 3, 2, 56),
    Shape(128, 128, 3, 1, 28),
    Shape(256, 512, 1, 2, 56),
    Shape(256, 256, 3, 1, 14),
    Shape(1024, 256, 1, 1, 14),
    Shape(512, 512, 3, 1, 7),
)


def on_trilobite(s: Shape) -> Job:
    import trilobite as tb

    x, w, b = s.arrays()
    kernel, bias = tb.tensor(w), tb.tensor(b)
    pad = s.kernel // 2
    return ours.job(lambda x: tb.nn.functional.conv2d(x, kernel, bias, s.stride, pad), x)


def on_torch(s: Shape, last: bool) -> Job:
    import torch
    import torch.nn.functional as F

    from benchmarks.peers import on_torch

    x, w, b = map(torch.from_numpy, s.arrays())
    if last:
        x, w = on_torch.channels_last(x), on_torch.channels_last(w)
    return on_torch.job(lambda x: F.conv2d(x, w, b, s.stride, s.kernel // 2), x)


def on_onnxruntime(s: Shape) -> Job:
    from benchmarks.peers import on_onnxruntime

    x, w, b = s.arrays()

    def build(ops: Any, given: Any) -> Any:
        return ops.conv(given[0], ops.constant(w), ops.constant(b), s.stride, s.kernel // 2, 1)

    return on_onnxruntime.job(build, {"x": x})


def on_jax(s: Shape) -> Job:
    from benchmarks.peers import on_jax

    x, w, b = s.arrays()
    return on_jax.job(lambda x, w, b: on_jax.Ops.conv(x, w, b, s.stride, s.kernel // 2, 1), x, w, b)


def row(s: Shape) -> Row:
    systems: dict[str, Callable[[], Job]] = {
        "trilobite": partial(on_trilobite, s),
        "torch": partial(on_torch, s, False),
        "torch channels last": partial(on_torch, s, True),
        "onnxruntime": partial(on_onnxruntime, s),
        "jax": partial(on_jax, s),
    }
    aim = 1 / 1.2 if (s.kernel, s.stride) == (3, 1) else 1.0
    quick = s in (SHAPES[1], SHAPES[2])
    return Row(s.name, systems, unit="ms", flops=s.flops, aim_ratio=float(np.round(aim, 2)), quick=quick)


ROWS = both_thread_counts([row(s) for s in SHAPES])
