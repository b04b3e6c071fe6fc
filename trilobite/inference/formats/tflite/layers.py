"""TFLite's convolutions, pooling, products, normalisations and LSTM as ONNX: one row an operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trilobite.inference.formats import tensor_ops as ops
from trilobite.inference.formats.tensor_ops import Unknown
from trilobite.inference.formats.tflite.convert import Converter, Rule
from trilobite.inference.formats.tflite.file import Operator


def _padding(c: Converter, o: Operator, slot: int = 0) -> str:
    return "VALID" if int(c.option(o, slot, "b")) else "SAME"


def _numbers(c: Converter, o: Operator, slots: Sequence[int], default: int = 1) -> list[int]:
    found = [int(c.option(o, slot, "i", default)) for slot in slots]
    if any(not 0 < n < 1 << 20 for n in found):
        raise Unknown(f"{o.name} with steps {found}")
    return found


def _conv(c: Converter, o: Operator) -> None:
    shape = c.info(o, 1).shape
    channels = c.info(o, 0).shape[-1]
    groups = channels // shape[-1] if channels > 0 else 1
    t = c.layers.conv(
        c.x(o, 0), c.weight(o, 1, (0, 3, 1, 2)), c.bias(o, 2), shape[1:3],
        strides=_numbers(c, o, (2, 1)), dilations=_numbers(c, o, (5, 4)), padding=_padding(c, o),
        groups=groups,
    )  # fmt: skip
    c.out(o, t, fused=3)


def _depthwise(c: Converter, o: Operator) -> None:
    shape = c.info(o, 1).shape
    groups = c.info(o, 0).shape[-1]
    if groups <= 0:
        groups = shape[-1] // max(int(c.option(o, 3, "i", 1)), 1)
    t = c.layers.conv(
        c.x(o, 0), c.weight(o, 1, (3, 0, 1, 2)), c.bias(o, 2), shape[1:3],
        strides=_numbers(c, o, (2, 1)), dilations=_numbers(c, o, (6, 5)), padding=_padding(c, o),
        groups=groups,
    )  # fmt: skip
    c.out(o, t, fused=4)


def _conv_3d(c: Converter, o: Operator) -> None:
    """The weight is (*kernel, channels, filters)."""
    shape = c.info(o, 1).shape
    t = c.layers.conv(
        c.x(o, 0), c.weight(o, 1, (4, 3, 0, 1, 2)), c.bias(o, 2), shape[:3],
        strides=_numbers(c, o, (1, 3, 2)), dilations=_numbers(c, o, (5, 7, 6)), padding=_padding(c, o),
        groups=max(c.info(o, 0).shape[-1], 1) // max(shape[3], 1),
    )  # fmt: skip
    c.out(o, t, fused=4)


def _conv_transposed(c: Converter, o: Operator) -> None:
    """Inputs: the shape of the result, the weight (filters, *kernel, channels), x, perhaps a bias."""
    out = c.ints(o, 0, "a shape")[1:3]
    kernel, space = c.info(o, 1).shape[1:3], c.info(o, 2).shape[1:3]
    strides = _numbers(c, o, (2, 1))
    pads, extra = [], []
    for n, k, s, d in zip(space, kernel, strides, out, strict=True):
        if n < 0:
            raise Unknown(f"{o.name} of a size that a run decides")
        over = (n - 1) * s + k - d
        pads.append((max(over, 0) // 2, max(over, 0) - max(over, 0) // 2))
        extra.append(max(-over, 0))
    t = c.layers.conv_transposed(
        c.x(o, 2),
        c.weight(o, 1, (3, 0, 1, 2)),
        c.bias(o, 3),
        kernel,
        strides=strides,
        padding=pads,
        space=None,
    )
    if any(extra):
        ends = [0, 0, 0, 0, 0, 0, *extra]
        t = c.layers.made_first(c.a.node("Pad", t.first, c.a.ints(*ends)), 4)
    c.out(o, t, fused=3)


def _pool(op: str) -> Rule:
    def rule(c: Converter, o: Operator) -> None:
        size, strides = _numbers(c, o, (4, 3)), _numbers(c, o, (2, 1))
        c.out(o, c.layers.pool(op, c.x(o, 0), size, strides, _padding(c, o)), fused=5)

    return rule


def _l2_pool(c: Converter, o: Operator) -> None:
    size, strides = _numbers(c, o, (4, 3)), _numbers(c, o, (2, 1))
    x = c.x(o, 0)
    mean = c.layers.pool("AveragePool", c.layers.pointwise("Mul", x, x), size, strides, _padding(c, o))
    c.out(o, c.layers.unary("Sqrt", mean), fused=5)


def _fully_connected(c: Converter, o: Operator) -> None:
    if int(c.option(o, 1, "b")):
        raise Unknown("FULLY_CONNECTED with shuffled weights")
    a, columns = c.a, c.info(o, 1).shape[1]
    name = c.layers.last(c.x(o, 0))
    keeps = bool(c.option(o, 2, "?", False)) and len(c.info(o, 0).shape) > 2
    if not keeps:
        name = a.node("Reshape", name, a.ints(-1, columns))
    out = a.node("MatMul", name, c.weight(o, 1, (1, 0)))
    if c.given(o, 2):
        out = a.node("Add", out, c.bias(o, 2))
    rank = len(c.out_info(o).shape)
    if not keeps and rank != 2:
        out = a.node("Reshape", out, a.ints(*(max(d, -1) for d in c.out_info(o).shape)))
    c.out(o, c.layers.made(out, rank), fused=0)


def _matmul(c: Converter, o: Operator) -> None:
    turns = [bool(c.option(o, slot, "?", False)) for slot in (0, 1)]
    c.out(o, ops.matmul(c.layers, c.x(o, 0), c.x(o, 1), *turns))


def _resize(mode: str, slot: int) -> Rule:
    def rule(c: Converter, o: Operator) -> None:
        size = ops.as_int64(c.layers, c.stored(o.inputs[1]))
        aligned, half = (bool(c.option(o, slot + i, "?", False)) for i in (0, 1))
        c.out(o, c.layers.resize(c.x(o, 0), size, mode, align_corners=aligned, half_pixel=half))

    return rule


def _prelu(c: Converter, o: Operator) -> None:
    c.out(o, c.layers.pointwise("PRelu", c.x(o, 0), c.x(o, 1)))


def _softmax(c: Converter, o: Operator) -> None:
    c.out(o, ops.softmax(c.layers, c.x(o, 0), float(c.option(o, 0, "f", 1.0))))


def _lrn(c: Converter, o: Operator) -> None:
    bias, alpha, beta = (float(c.option(o, slot, "f")) for slot in (1, 2, 3))
    c.out(o, ops.local_response(c.layers, c.x(o, 0), int(c.option(o, 0, "i")), bias, alpha, beta))


def _lstm(c: Converter, o: Operator) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM without peepholes, projection and layer norm: the LSTM of Keras."""
    if any(c.given(o, k) for k in (9, 10, 11, 16, 17, 20, 21, 22, 23)) or not c.given(o, 1):
        raise Unknown(f"{o.name} with peepholes, projection, norms or coupled gates")
    if int(c.option(o, 0, "b")) != 4:
        raise Unknown(f"{o.name} with another activation than tanh")
    a, last = c.a, c.layers.last

    def gates(places: Sequence[int]) -> str:
        """TFLite's order is input, forget, cell, output; ONNX's input, output, forget, cell."""
        i, f, g, out = (last(c.x(o, k)) for k in places)
        return a.node("Unsqueeze", a.node("Concat", i, out, f, g, axis=0), a.ints(0))

    rows = c.info(o, 5).shape[0]
    bias = gates((12, 13, 14, 15))
    zeros = a.constant(np.zeros((1, 4 * rows), np.float32))
    x = last(c.x(o, 0))
    by_time = bool(c.option(o, 3, "?", False))
    x = x if by_time else a.node("Transpose", x, perm=[1, 0, 2])
    states = [a.node("Unsqueeze", last(c.x(o, k)), a.ints(0)) for k in (18, 19)]
    clip = float(c.option(o, 1, "f"))
    y = a.many(
        "LSTM",
        [x, gates((1, 2, 3, 4)), gates((5, 6, 7, 8)), a.node("Concat", bias, zeros, axis=1), "", *states],
        1, hidden_size=rows, **({"clip": clip} if clip > 0 else {}),
    )[0]  # fmt: skip
    out = a.node("Squeeze", y, a.ints(1))
    c.out(o, c.layers.made(out if by_time else a.node("Transpose", out, perm=[1, 0, 2]), 3))


ROWS: dict[str, Rule] = {
    "CONV_2D": _conv,
    "DEPTHWISE_CONV_2D": _depthwise,
    "CONV_3D": _conv_3d,
    "TRANSPOSE_CONV": _conv_transposed,
    "AVERAGE_POOL_2D": _pool("AveragePool"),
    "MAX_POOL_2D": _pool("MaxPool"),
    "L2_POOL_2D": _l2_pool,
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _matmul,
    "RESIZE_BILINEAR": _resize("linear", 2),
    "RESIZE_NEAREST_NEIGHBOR": _resize("nearest", 0),
    "PRELU": _prelu,
    "SOFTMAX": _softmax,
    "LOG_SOFTMAX": lambda c, o: c.out(o, ops.softmax(c.layers, c.x(o, 0), op="LogSoftmax")),
    "L2_NORMALIZATION": lambda c, o: c.out(o, ops.l2_normalised(c.layers, c.x(o, 0), 1e-12), fused=0),
    "LOCAL_RESPONSE_NORMALIZATION": _lrn,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
