"""TensorFlow's layers over windows and channels: a node says where its channels stand."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.inference.formats import tensor_ops as ops
from trilobite.inference.formats.channels_last import Tensor
from trilobite.inference.formats.tensor_ops import Unknown, static
from trilobite.inference.formats.tensorflow.convert import Converter, Rule
from trilobite.inference.formats.tensorflow.graph import Node


def _is_first(c: Converter, n: Node) -> bool:
    form = c.text(n, "data_format", "NHWC")
    if form not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise Unknown(f"{n.op} with data format {form}")
    return form.startswith("NC")


def image(c: Converter, n: Node, k: int = 0, rank: int = 4) -> Tensor:
    """An input as a channels-last tensor, whatever the graph's own order is."""
    t = c.x(n, k)
    return Tensor(first=c.layers.last(t), rank=rank) if _is_first(c, n) else t


def back(c: Converter, n: Node, t: Tensor) -> Tensor:
    """In the graph's own order."""
    if not _is_first(c, n):
        return t
    return c.layers.made(c.layers.first(t), t.rank)


def _spatial(c: Converter, n: Node, name: str, rank: int = 4) -> list[int]:
    found = c.list_of(n, name) or [1] * rank
    if len(found) != rank:
        raise Unknown(f"{n.op} with {name} {found}")
    return found[2:] if _is_first(c, n) else found[1:-1]


def _padding(c: Converter, n: Node) -> Any:
    kind = c.text(n, "padding", "VALID")
    if kind == "EXPLICIT":
        pads = np.array(c.list_of(n, "explicit_paddings")).reshape(-1, 2)
        return (pads[2:] if _is_first(c, n) else pads[1:-1]).tolist()
    return kind


def conv(c: Converter, n: Node) -> Tensor:
    weight = static(c.x(n, 1), "a kernel")
    rank = weight.ndim
    order = (rank - 1, rank - 2, *range(rank - 2))
    x = image(c, n, 0, rank)
    groups = 1
    t = c.layers.conv(
        x, c.a.constant(weight.transpose(order), hint=n.name), "", weight.shape[:-2],
        strides=_spatial(c, n, "strides", rank), dilations=_spatial(c, n, "dilations", rank),
        padding=_padding(c, n), groups=groups,
    )  # fmt: skip
    return back(c, n, t)


def depthwise(c: Converter, n: Node) -> Tensor:
    w = static(c.x(n, 1), "a kernel")
    height, width, channels, each = w.shape
    weight = w.transpose(2, 3, 0, 1).reshape(channels * each, 1, height, width)
    t = c.layers.conv(
        image(c, n), c.a.constant(weight, hint=n.name), "", (height, width),
        strides=_spatial(c, n, "strides"), dilations=_spatial(c, n, "dilations"), padding=_padding(c, n),
        groups=channels,
    )  # fmt: skip
    return back(c, n, t)


def conv_transposed(c: Converter, n: Node) -> Tensor:
    """Inputs: the shape of the result, the kernel (*space, channels out, channels in), x."""
    w = static(c.x(n, 1), "a kernel")
    sizes, rank = c.x(n, 0), w.ndim
    order = (rank - 1, rank - 2, *range(rank - 2))
    space = None
    if sizes.array is not None:
        space = [int(d) for d in (sizes.array[2:] if _is_first(c, n) else sizes.array[1:-1])]
    t = c.layers.conv_transposed(
        image(c, n, 2, rank), c.a.constant(w.transpose(order), hint=n.name), "", w.shape[:-2],
        strides=_spatial(c, n, "strides", rank), padding=_padding(c, n), space=space,
    )  # fmt: skip
    return back(c, n, t)


def pool(op: str) -> Rule:
    def rule(c: Converter, n: Node) -> Tensor:
        rank = 5 if n.op.endswith("3D") else 4
        size, strides = _spatial(c, n, "ksize", rank), _spatial(c, n, "strides", rank)
        return back(c, n, c.layers.pool(op, image(c, n, 0, rank), size, strides, _padding(c, n)))

    return rule


def bias(c: Converter, n: Node) -> Tensor:
    return biased(c, n, c.x(n, 0), c.x(n, 1))


def biased(c: Converter, n: Node, x: Tensor, bias: Tensor) -> Tensor:
    if _is_first(c, n) and x.rank is not None and x.rank > 2:
        shape = (-1, *[1] * (x.rank - 2))
        bias = c.layers.known(static(bias, "a bias").reshape(shape))
    return c.layers.pointwise("Add", x, bias)


def batch_norm(c: Converter, n: Node) -> list[Tensor]:
    if c.flag(n, "is_training", True):
        raise Unknown(f"{n.op} in training")
    return [normalised(c, n, c.x(n, 0), 1), *(c.x(n, k) for k in (3, 4))]


def normalised(c: Converter, n: Node, x: Tensor, at: int) -> Tensor:
    """By scales, shifts, means and variances, which the inputs from `at` on are."""
    x = Tensor(first=c.layers.last(x), rank=4) if _is_first(c, n) else x
    names = [c.layers.last(c.x(n, k)) for k in range(at, at + 4)]
    out = c.a.node("BatchNormalization", c.layers.first(x), *names, epsilon=c.number(n, "epsilon", 1e-4))
    return back(c, n, c.layers.made_first(out, 4))


def lrn(c: Converter, n: Node) -> Tensor:
    numbers = [c.number(n, name, d) for name, d in (("bias", 1.0), ("alpha", 1.0), ("beta", 0.5))]
    return ops.local_response(c.layers, c.x(n, 0), c.integer(n, "depth_radius", 5), *numbers)


def resize(mode: str) -> Rule:
    def rule(c: Converter, n: Node) -> Tensor:
        size = ops.as_int64(c.layers, c.x(n, 1))
        return c.layers.resize(
            c.x(n, 0),
            size,
            mode,
            align_corners=c.flag(n, "align_corners"),
            half_pixel=c.flag(n, "half_pixel_centers"),
        )

    return rule
