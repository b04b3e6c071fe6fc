"""Convolution of images as they are written, x[N, C, *space] to y[N, K, *out], with a packed weight.

The layout pass makes it from a `conv` that stands alone between values whose channels are planes: no value
is moved. The weight is the value of `gemm_pack` of the matrix (K, C·taps), whose lanes are filters; `filters`
is how many of them are real. What it computes is defined by `conv`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.errors import ShapeError
from trilobite.base.quiet import array_rule
from trilobite.compiler.targets.cpu.primitives.packing import unpacked
from trilobite.ir.primitive import TargetPrimitive, table
from trilobite.ir.primitives import conv as _first  # noqa: F401 (the meaning is its rule)
from trilobite.ir.primitives.common import count
from trilobite.ir.primitives.conv_geometry import Ints
from trilobite.ir.types import TensorType, size_of

Array = np.ndarray[Any, Any]


def _type(x: TensorType, w: TensorType, kernel: Ints, filters: int, **attrs: Any) -> TensorType:
    fits = x.ndim >= 2 and w.ndim == 3 and w.shape[1] == x.shape[1] * size_of(kernel)
    if not fits or w.shape[0] != -(-filters // int(w.shape[2])):
        raise ShapeError(
            f"conv_planes of {x} with {w}, a kernel of {kernel} and {filters} filters",
            expected="(panels, channels * taps, lanes), with panels for all filters",
        )
    weight = TensorType((filters, x.shape[1], *kernel), w.dtype)
    found: TensorType = table["conv"].type(x, weight, **attrs, groups=1)
    return found


def _conv(x: Array, w: Array, kernel: Ints, filters: int, **attrs: Any) -> Array:
    weight = unpacked(w, filters, 1).reshape(filters, x.shape[1], *kernel)
    found: Array = table["conv"].evaluate(x, weight, **attrs, groups=1)
    return found


conv_planes = TargetPrimitive(
    "conv_planes", "x w", type=_type, evaluate=one_thread(array_rule(_conv)),
    cost=lambda i, o, a: 2.0 * count(o[0].size) * count(i[1].shape[1]),
    doc="conv of x[N, C, *space] to [N, K, *out]; w is the value of gemm_pack of the matrix (K, C * taps)",
)  # fmt: skip
