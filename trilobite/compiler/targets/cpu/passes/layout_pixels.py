"""Convolutions of bytes with few filters: several neighbours along the last axis are made as one pixel.

Enters: a convolution whose filters fill few of the lanes that a panel has. Leaves: how many neighbours share
the lanes, and the weight and attributes of the convolution that makes them at once: filter f of neighbour i
is f moved i strides to the right, so the kernel is wider by zeros and strides are longer. Its result
[..., W/n, n·F] is the one that was asked for, [..., W, F]: the same integers in the same places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilobite.compiler.targets.cpu.passes.bytes import Emit
from trilobite.compiler.targets.cpu.primitives.conv_integer import quads
from trilobite.ir.graph import Equation, Var

_MOVED = 8  # words of a panel that are multiplied in the time in which a sum is stored and read once more


def pixels_at_once(e: Equation, lanes: int) -> int:
    """How many neighbours make a convolution quickest; 1: each alone."""
    w, a = e.inputs[1].type, e.attributes
    width = e.outputs[0].type.shape[-1]
    if w.ndim < 3 or a["groups"] != 1 or a["w_dilation"][-1] != 1 or not isinstance(width, int):
        return 1
    filters, depth, *kernel = (int(n) for n in w.shape)
    rows, stride = quads(depth), int(a["stride"][-1])
    for n in kernel[:-1]:
        rows *= n

    def words(count: int) -> float:
        """Of a panel, multiplied for each pixel."""
        taken = -(-filters * count // lanes) * lanes
        return rows * taken * (kernel[-1] + (count - 1) * stride) / count

    fitting = [n for n in range(2, lanes // max(filters, 1) + 1) if width % n == 0]
    best = min(fitting, key=words, default=1)
    return best if words(1) - words(best) > _MOVED * filters else 1


def wide_weight(emit: Emit, w: Var, count: int, stride: int) -> Var:
    """The filters of all neighbours, each where its own pixels are."""
    none = (0,) * (w.type.ndim - 1)
    last = (count - 1) * stride
    moved = tuple(
        emit("pad", (w,), {
            "low": (*none, i * stride), "high": (*none, last - i * stride), "between": (*none, 0), "value": 0,
        })
        for i in range(count)
    )  # fmt: skip
    return emit("concatenate", moved, {"axis": 0})


def wide_attributes(attributes: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Of `conv_integer`, for so many neighbours."""
    a = dict(attributes)
    *before, stride = a["stride"]
    *others, kernel = a["kernel"]
    wider = kernel + (count - 1) * stride
    return {
        **a, "stride": (*before, stride * count), "kernel": (*others, wider), "columns": a["columns"] * count,
    }  # fmt: skip
