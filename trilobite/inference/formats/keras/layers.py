"""Keras's layers as ONNX: one row each. Channels come last, as Keras has them unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.inference.formats import tensor_ops as ops
from trilobite.inference.formats.channels_last import Tensor
from trilobite.inference.formats.keras.convert import Call, Rule
from trilobite.inference.formats.keras.recurrent import ROWS as RECURRENT
from trilobite.inference.formats.tensor_ops import Unknown


def _last(c: Call) -> None:
    if c.get("data_format", "channels_last") not in (None, "channels_last"):
        raise Unknown(f"{c.kind} with channels first")


def _active(c: Call, t: Tensor, name: str = "activation") -> Tensor:
    return ops.activation(c.layers, t, c.word(name, "linear"))


def _padding(c: Call) -> str:
    found = str(c.get("padding", "valid")).upper()
    if found not in ("SAME", "VALID"):
        raise Unknown(f"{c.kind} with padding {found.lower()}")
    return found


# -- dense and windows ---------------------------------------------------------------------------------------


def _dense(c: Call) -> Tensor:
    a = c.layers.a
    out = a.node("MatMul", c.layers.last(c.x), a.constant(c.weight(0), hint=f"{c.get('name')}.kernel"))
    if c.get("use_bias", True):
        out = a.node("Add", out, a.constant(c.weight(1), hint=f"{c.get('name')}.bias"))
    return _active(c, c.layers.made(out, c.x.rank))


def _conv(rank: int) -> Rule:
    """The kernel is (*window, channels, filters)."""

    def rule(c: Call) -> Tensor:
        _last(c)
        a, kernel = c.layers.a, c.weight(0)
        order = (rank + 1, rank, *range(rank))
        weight = a.constant(kernel.transpose(order), hint=f"{c.get('name')}.kernel")
        bias = a.constant(c.weight(1), hint=f"{c.get('name')}.bias") if c.get("use_bias", True) else ""
        t = c.layers.conv(
            _spaced(c, c.x, rank), weight, bias, kernel.shape[:rank], strides=c.numbers("strides", rank),
            dilations=c.numbers("dilation_rate", rank), padding=_conv_padding(c),
            groups=int(c.get("groups", 1)),
        )  # fmt: skip
        return _active(c, t)

    return rule


def _conv_padding(c: Call) -> str:
    return "VALID" if c.get("padding") == "causal" else _padding(c)


def _spaced(c: Call, x: Tensor, rank: int) -> Tensor:
    """Causal convolutions see nothing that comes later."""
    if c.get("padding") != "causal" or rank != 1:
        return x
    before = (c.weight(0).shape[0] - 1) * c.numbers("dilation_rate", 1)[0]
    return ops.pad(c.layers, x, c.layers.known(np.array([[0, 0], [before, 0], [0, 0]])))


def _depthwise(c: Call) -> Tensor:
    _last(c)
    t = _depthwise_of(c, c.x, c.weight(0), c.weight(1) if c.get("use_bias", True) else None)
    return _active(c, t)


def _depthwise_of(c: Call, x: Tensor, kernel: Any, bias: Any) -> Tensor:
    a = c.layers.a
    height, width, channels, each = kernel.shape
    weight = a.constant(kernel.transpose(2, 3, 0, 1).reshape(channels * each, 1, height, width))
    return c.layers.conv(
        x, weight, "" if bias is None else a.constant(bias), (height, width), strides=c.numbers("strides", 2),
        dilations=c.numbers("dilation_rate", 2), padding=_padding(c), groups=channels,
    )  # fmt: skip


def _separable(c: Call) -> Tensor:
    _last(c)
    a = c.layers.a
    inner = _depthwise_of(c, c.x, c.weight(0), None)
    weight = a.constant(c.weight(1).transpose(3, 2, 0, 1))
    bias = a.constant(c.weight(2)) if c.get("use_bias", True) else ""
    ones = [1, 1]
    t = c.layers.conv(inner, weight, bias, ones, strides=ones, dilations=ones, padding="VALID", groups=1)
    return _active(c, t)


def _conv_transposed(c: Call) -> Tensor:
    """The kernel is (*window, filters, channels); SAME gives input times stride."""
    _last(c)
    if c.get("output_padding") is not None:
        raise Unknown(f"{c.kind} with output padding")
    a, kernel = c.layers.a, c.weight(0)
    size, strides = kernel.shape[:2], c.numbers("strides", 2)
    extra = [max(s - k, 0) for s, k in zip(strides, size, strict=True)]
    bias = a.constant(c.weight(1)) if c.get("use_bias", True) else ""
    crop = [max(k - s, 0) if _padding(c) == "SAME" else 0 for k, s in zip(size, strides, strict=True)]
    padding = [(n // 2, n - n // 2) for n in crop]
    t = c.layers.conv_transposed(
        c.x, a.constant(kernel.transpose(3, 2, 0, 1)), bias, size,
        strides=strides, padding=padding, space=None,
        dilations=c.numbers("dilation_rate", 2),
    )  # fmt: skip
    if any(extra):
        if bias:
            raise Unknown(f"{c.kind} whose strides are wider than its window")
        t = c.layers.made_first(a.node("Pad", t.first, a.ints(0, 0, 0, 0, 0, 0, *extra)), 4)
    return _active(c, t)


def _pool(op: str, rank: int) -> Rule:
    def rule(c: Call) -> Tensor:
        _last(c)
        size = c.numbers("pool_size", rank, 2)
        strides = size if c.get("strides") is None else c.numbers("strides", rank)
        return c.layers.pool(op, c.x, size, strides, _padding(c))

    return rule


def _global_pool(op: str, rank: int) -> Rule:
    def rule(c: Call) -> Tensor:
        _last(c)
        return c.layers.reduce(op, c.x, list(range(1, rank + 1)), bool(c.get("keepdims", False)))

    return rule


def _upsample(c: Call) -> Tensor:
    _last(c)
    a = c.layers.a
    how = str(c.get("interpolation", "nearest"))
    if how not in ("nearest", "bilinear"):
        raise Unknown(f"UpSampling2D by {how}")
    name = c.layers.first(c.x)
    scales = a.constant(np.array([1, 1, *c.numbers("size", 2, 2)], np.float32))
    attrs = (
        {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
        if how == "nearest"
        else {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}
    )
    return c.layers.made_first(a.node("Resize", name, "", scales, **attrs), 4)


def _upsample_1d(c: Call) -> Tensor:
    a, size = c.layers.a, int(c.get("size", 2))
    how = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    scales = a.constant(np.array([1, 1, size], np.float32))
    name = a.node("Resize", c.layers.first(c.x, 3), "", scales, **how)
    return c.layers.made_first(name, 3)


def _amounts(c: Call, name: str, rank: int) -> list[list[int]]:
    found = c.get(name, 1)
    if isinstance(found, int):
        return [[found, found]] * rank
    if rank == 1 and all(isinstance(n, int) for n in found):
        return [list(found)]
    return [[n, n] if isinstance(n, int) else list(n) for n in found]


def _zero_padding(rank: int) -> Rule:
    def rule(c: Call) -> Tensor:
        _last(c)
        pads = np.array([[0, 0], *_amounts(c, "padding", rank), [0, 0]])
        return ops.pad(c.layers, c.x, c.layers.known(pads))

    return rule


def _cropping(rank: int) -> Rule:
    def rule(c: Call) -> Tensor:
        _last(c)
        pads = -np.array([[0, 0], *_amounts(c, "cropping", rank), [0, 0]])
        return ops.pad(c.layers, c.x, c.layers.known(pads))

    return rule


# -- normalisations ------------------------------------------------------------------------------------------


def _axis(c: Call) -> int:
    axis = c.get("axis", -1)
    axis = axis[0] if isinstance(axis, list) and len(axis) == 1 else axis
    if not isinstance(axis, int) or (axis != -1 and axis != (c.x.rank or 0) - 1):
        raise Unknown(f"{c.kind} along axis {axis}")
    return axis


def _batch_norm(c: Call) -> Tensor:
    """x·scale + shift, with the statistics that training left."""
    _axis(c)
    rest = [w.astype(np.float64) for w in c.weights]
    gamma = rest.pop(0) if c.get("scale", True) else 1.0
    beta = rest.pop(0) if c.get("center", True) else 0.0
    if len(rest) < 2:
        raise Unknown("BatchNormalization without statistics")
    factor = gamma / np.sqrt(rest[1] + float(c.get("epsilon", 1e-3)))
    scale, shift = (factor).astype(np.float32), (beta - rest[0] * factor).astype(np.float32)
    scaled = c.layers.pointwise("Mul", c.x, Tensor(array=np.asarray(scale)))
    return c.layers.pointwise("Add", scaled, Tensor(array=np.asarray(shift)))


def _layer_norm(c: Call) -> Tensor:
    _axis(c)
    a, x = c.layers.a, c.x
    rest = list(c.weights)
    width = rest[0].shape[-1] if rest else 0
    if not width:
        raise Unknown("LayerNormalization without weights")
    scale = rest.pop(0) if c.get("scale", True) else np.ones(width, np.float32)
    shift = [a.constant(rest.pop(0))] if c.get("center", True) else []
    out = a.node(
        "LayerNormalization", c.layers.last(x), a.constant(scale), *shift, axis=-1,
        epsilon=float(c.get("epsilon", 1e-3)),
    )  # fmt: skip
    return c.layers.made(out, x.rank)


def _rescaling(c: Call) -> Tensor:
    out = c.layers.pointwise("Mul", c.x, c.layers.number(float(c.get("scale", 1.0))))
    offset = float(c.get("offset", 0.0))
    return c.layers.pointwise("Add", out, c.layers.number(offset)) if offset else out


# -- activations ---------------------------------------------------------------------------------------------


def _relu(c: Call) -> Tensor:
    slope, bound = float(c.get("negative_slope", 0.0) or 0.0), c.get("max_value")
    if float(c.get("threshold", 0.0) or 0.0) != 0.0:
        raise Unknown("ReLU with a threshold")
    if slope:
        x = c.layers.unary("LeakyRelu", c.x, alpha=slope)
        return x if bound is None else c.layers.clip(x, None, float(bound))
    return c.layers.unary("Relu", c.x) if bound is None else c.layers.clip(c.x, 0.0, float(bound))


def _leaky(c: Call) -> Tensor:
    slope = c.get("negative_slope", c.get("alpha", 0.3))
    return c.layers.unary("LeakyRelu", c.x, alpha=float(slope))


def _prelu(c: Call) -> Tensor:
    return c.layers.pointwise("PRelu", c.x, Tensor(array=c.weight(0)))


def _softmax(c: Call) -> Tensor:
    if c.get("axis", -1) not in (-1, [-1]):
        raise Unknown("Softmax along another axis than the last")
    return ops.softmax(c.layers, c.x)


# -- shapes and joining --------------------------------------------------------------------------------------


def _flatten(c: Call) -> Tensor:
    return c.layers.made(c.layers.a.node("Flatten", c.layers.last(c.x), axis=1), 2)


def _reshape(c: Call) -> Tensor:
    """The batch stays."""
    shape = [0, *(int(d) for d in c.get("target_shape", []))]
    return c.layers.made(c.layers.a.node("Reshape", c.layers.last(c.x), c.layers.a.ints(*shape)), len(shape))


def _permute(c: Call) -> Tensor:
    return ops.transpose(c.layers, c.x, [0, *(int(d) for d in c.get("dims", []))])


def _repeat(c: Call) -> Tensor:
    a = c.layers.a
    out = a.node("Unsqueeze", c.layers.last(c.x), a.ints(1))
    return c.layers.made(a.node("Tile", out, a.ints(1, int(c.get("n", 1)), 1)), 3)


def _merge(op: str) -> Rule:
    def rule(c: Call) -> Tensor:
        out = c.x
        for t in c.xs[1:]:
            out = c.layers.pointwise(op, out, t)
        return out

    return rule


def _average(c: Call) -> Tensor:
    return c.layers.pointwise("Mul", _merge("Add")(c), c.layers.number(1 / len(c.xs)))


def _concat(c: Call) -> Tensor:
    return ops.concat(c.layers, c.xs, int(c.get("axis", -1)))


def _embedding(c: Call) -> Tensor:
    a = c.layers.a
    places = a.cast(c.layers.last(c.x), np.int64)
    rank = None if c.x.rank is None else c.x.rank + 1
    return c.layers.made(a.node("Gather", a.constant(c.weight(0)), places, axis=0), rank)


def _time_distributed(c: Call) -> Tensor:
    """A layer that looks at the last axis alone does so at each step anyway."""
    inner = c.get("layer", {})
    kind = inner.get("class_name", "")
    if kind not in ("Dense", "Activation", "Dropout", "ReLU", "LeakyReLU", "LayerNormalization"):
        raise Unknown(f"TimeDistributed of {kind}")
    return RULES[kind](Call(c.layers, kind, inner.get("config", {}), c.weights, c.xs))


def _same(c: Call) -> Tensor:
    return c.x


def _rows(names: str, rule: Rule) -> dict[str, Rule]:
    return dict.fromkeys(names.split(), rule)


def _ranks(name: str, make: Callable[[int], Rule], ranks: tuple[int, ...]) -> dict[str, Rule]:
    return {f"{name}{n}D": make(n) for n in ranks}


RULES: dict[str, Rule] = {
    **RECURRENT,
    **_rows("Dropout SpatialDropout1D SpatialDropout2D GaussianNoise GaussianDropout AlphaDropout", _same),
    **_rows("ActivityRegularization Masking", _same),
    **_ranks("Conv", _conv, (1, 2, 3)),
    **_ranks("MaxPooling", lambda n: _pool("MaxPool", n), (1, 2, 3)),
    **_ranks("AveragePooling", lambda n: _pool("AveragePool", n), (1, 2, 3)),
    **_ranks("GlobalMaxPooling", lambda n: _global_pool("ReduceMax", n), (1, 2, 3)),
    **_ranks("GlobalAveragePooling", lambda n: _global_pool("ReduceMean", n), (1, 2, 3)),
    **_ranks("ZeroPadding", _zero_padding, (1, 2, 3)),
    **_ranks("Cropping", _cropping, (1, 2, 3)),
    "Dense": _dense,
    "DepthwiseConv2D": _depthwise,
    "SeparableConv2D": _separable,
    "Conv2DTranspose": _conv_transposed,
    "UpSampling2D": _upsample,
    "UpSampling1D": _upsample_1d,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "Rescaling": _rescaling,
    "Activation": lambda c: _active(c, c.x),
    "ReLU": _relu,
    "LeakyReLU": _leaky,
    "PReLU": _prelu,
    "ELU": lambda c: c.layers.unary("Elu", c.x, alpha=float(c.get("alpha", 1.0))),
    "Softmax": _softmax,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Permute": _permute,
    "RepeatVector": _repeat,
    "Add": _merge("Add"),
    "Subtract": _merge("Sub"),
    "Multiply": _merge("Mul"),
    "Maximum": _merge("Max"),
    "Minimum": _merge("Min"),
    "Average": _average,
    "Concatenate": _concat,
    "Embedding": _embedding,
    "TimeDistributed": _time_distributed,
}
