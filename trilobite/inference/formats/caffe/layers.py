"""Caffe's layers as ONNX: one row each. Rows take the converter, the layer's text, names of its bottoms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.inference.formats.caffe.convert import Converter, Rule
from trilobite.inference.formats.caffe.prototxt import Block
from trilobite.inference.formats.tensor_ops import Unknown


def _pair(p: Block, name: str, height: str, width: str, default: int) -> list[int]:
    """A setting of a window: one number, two numbers, or one for each direction."""
    if height in p or width in p:
        return [p.integer(height, default), p.integer(width, default)]
    found = p.integers(name) or [default]
    out = found * 2 if len(found) == 1 else found[:2]
    if any(not 0 <= n < 1 << 16 for n in out):
        raise Unknown(f"windows with {name} {out}")
    return out


def _window(p: Block) -> dict[str, Any]:
    pads = _pair(p, "pad", "pad_h", "pad_w", 0)
    window: dict[str, Any] = {
        "kernel_shape": _pair(p, "kernel_size", "kernel_h", "kernel_w", 1),
        "strides": [max(n, 1) for n in _pair(p, "stride", "stride_h", "stride_w", 1)],
        "pads": [*pads, *pads],
    }
    return window


def _conv(op: str) -> Rule:
    def rule(c: Converter, layer: Block, x: list[str]) -> list[str]:
        p = layer.block("convolution_param")
        window = _window(p)
        dilation = p.integers("dilation") or [1]
        window["dilations"] = dilation * 2 if len(dilation) == 1 else dilation[:2]
        weight = c.blob(layer, 0)
        weight = weight.reshape(weight.shape[-4:])
        inputs = [x[0], c.weight(layer, weight, "weight")]
        if p.flag("bias_term", True):
            inputs.append(c.weight(layer, c.blob(layer, 1).reshape(-1), "bias"))
        return c.made(c.a.node(op, *inputs, group=p.integer("group", 1), **window), 4)

    return rule


def _pool(c: Converter, layer: Block, x: list[str]) -> list[str]:
    """Windows that reach over the end count, unless told otherwise; averages count the padding."""
    p = layer.block("pooling_param")
    kind = p.word("pool", "MAX")
    if kind not in ("MAX", "AVE", "0", "1"):
        raise Unknown(f"Pooling by {kind}")
    largest = kind in ("MAX", "0")
    if p.flag("global_pooling", False):
        return c.made(c.a.node("GlobalMaxPool" if largest else "GlobalAveragePool", x[0]), 4)
    window = _window(p)
    window["ceil_mode"] = int(p.word("round_mode", "CEIL") in ("CEIL", "0") and p.flag("ceil_mode", True))
    if largest:
        return c.made(c.a.node("MaxPool", x[0], **window), 4)
    return c.made(c.a.node("AveragePool", x[0], count_include_pad=1, **window), 4)


def _inner_product(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p = layer.block("inner_product_param")
    axis = p.integer("axis", 1)
    weight = c.blob(layer, 0)
    weight = weight.reshape(weight.shape[-2:])
    name = c.a.node("Flatten", x[0], axis=axis)
    inputs = [name, c.weight(layer, weight, "weight")]
    if p.flag("bias_term", True):
        inputs.append(c.weight(layer, c.blob(layer, 1).reshape(-1), "bias"))
    out = c.a.node("Gemm", *inputs, transB=int(not p.flag("transpose", False)))
    if axis == 1:
        return c.made(out, 2)
    lead = c.a.node("Shape", x[0], start=0, end=axis)
    shape = c.a.node("Concat", lead, c.a.ints(-1), axis=0)
    return c.made(c.a.node("Reshape", out, shape), axis + 1)


def _unary(op: str, **attrs: Any) -> Rule:
    return lambda c, layer, x: c.made(c.a.node(op, x[0], **attrs), c.rank(x[0]))


def _relu(c: Converter, layer: Block, x: list[str]) -> list[str]:
    slope = layer.block("relu_param").number("negative_slope")
    out = c.a.node("LeakyRelu", x[0], alpha=slope) if slope else c.a.node("Relu", x[0])
    return c.made(out, c.rank(x[0]))


def _prelu(c: Converter, layer: Block, x: list[str]) -> list[str]:
    slope = c.blob(layer, 0).reshape(-1, *[1] * (c.rank(x[0]) - 2))
    return c.made(c.a.node("PRelu", x[0], c.weight(layer, slope, "slope")), c.rank(x[0]))


def _elu(c: Converter, layer: Block, x: list[str]) -> list[str]:
    return c.made(c.a.node("Elu", x[0], alpha=layer.block("elu_param").number("alpha", 1.0)), c.rank(x[0]))


def _affine(c: Converter, x: str, scale: float, shift: float) -> str:
    x = x if scale == 1 else c.a.node("Mul", x, c.a.constant(scale, np.float32))
    return x if shift == 0 else c.a.node("Add", x, c.a.constant(shift, np.float32))


def _power(c: Converter, layer: Block, x: list[str]) -> list[str]:
    """(shift + scale·x)^power."""
    p = layer.block("power_param")
    out = _affine(c, x[0], p.number("scale", 1.0), p.number("shift"))
    power = p.number("power", 1.0)
    out = out if power == 1 else c.a.node("Pow", out, c.a.constant(power, np.float32))
    return c.made(c.a.node("Identity", out) if out == x[0] else out, c.rank(x[0]))


def _exp(c: Converter, layer: Block, x: list[str]) -> list[str]:
    """base^(shift + scale·x); a base of -1 stands for e."""
    p = layer.block("exp_param")
    base = p.number("base", -1.0)
    factor = 1.0 if base == -1 else float(np.log(base))
    inner = _affine(c, x[0], p.number("scale", 1.0) * factor, p.number("shift") * factor)
    return c.made(c.a.node("Exp", inner), c.rank(x[0]))


def _log(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p = layer.block("log_param")
    base = p.number("base", -1.0)
    out = c.a.node("Log", _affine(c, x[0], p.number("scale", 1.0), p.number("shift")))
    return c.made(out if base == -1 else _affine(c, out, 1 / float(np.log(base)), 0.0), c.rank(x[0]))


def _lrn(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p = layer.block("lrn_param")
    size = p.integer("local_size", 5)
    alpha, beta, k = p.number("alpha", 1.0), p.number("beta", 0.75), p.number("k", 1.0)
    if p.word("norm_region", "ACROSS_CHANNELS") in ("ACROSS_CHANNELS", "0"):
        return c.made(c.a.node("LRN", x[0], size=size, alpha=alpha, beta=beta, bias=k), 4)
    # within a channel: the mean square of a window, padding counted
    square = c.a.node("Mul", x[0], x[0])
    pads = [size // 2] * 4
    mean = c.a.node("AveragePool", square, kernel_shape=[size, size], pads=pads, count_include_pad=1)
    below = c.a.node("Pow", _affine(c, mean, alpha, 1.0), c.a.constant(beta, np.float32))
    return c.made(c.a.node("Div", x[0], below), 4)


def _batch_norm(c: Converter, layer: Block, x: list[str]) -> list[str]:
    """Sums of statistics, and how many were summed."""
    if layer.block("batch_norm_param").one("use_global_stats") is False:
        raise Unknown("BatchNorm by the statistics of the batch")
    mean, variance = c.blob(layer, 0).reshape(-1), c.blob(layer, 1).reshape(-1)
    count = float(c.blob(layer, 2).reshape(-1)[0]) if c.has_blob(layer, 2) else 1.0
    factor = 0.0 if count == 0 else 1 / count
    eps = layer.block("batch_norm_param").number("eps", 1e-5)
    ones, zeros = np.ones_like(mean), np.zeros_like(mean)
    rows = ((ones, "scale"), (zeros, "shift"), (mean * factor, "mean"), (variance * factor, "variance"))
    names = [c.weight(layer, array, role) for array, role in rows]
    return c.made(c.a.node("BatchNormalization", x[0], *names, epsilon=eps), c.rank(x[0]))


def _scale(op: str, param: str) -> Rule:
    """A weight on some axes, or a second bottom."""

    def rule(c: Converter, layer: Block, x: list[str]) -> list[str]:
        p, rank = layer.block(param), c.rank(x[0])
        axis = p.integer("axis", 1) % rank

        def placed(array: Any, role: str) -> str:
            return c.weight(layer, array.reshape(*array.shape, *[1] * max(rank - axis - array.ndim, 0)), role)

        given = len(x) > 1
        if given:
            behind = rank - axis - c.rank(x[1])
            other = c.a.node("Unsqueeze", x[1], c.a.ints(*range(-behind, 0))) if behind > 0 else x[1]
        else:
            other = placed(c.blob(layer, 0), "weight")
        out = c.a.node(op, x[0], other)
        if op == "Mul" and p.flag("bias_term", False):
            out = c.a.node("Add", out, placed(c.blob(layer, 0 if given else 1), "bias"))
        return c.made(out, rank)

    return rule


def _eltwise(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p = layer.block("eltwise_param")
    kind = p.word("operation", "SUM")
    op = {"PROD": "Mul", "0": "Mul", "SUM": "Add", "1": "Add", "MAX": "Max", "2": "Max"}.get(kind)
    if op is None:
        raise Unknown(f"Eltwise by {kind}")
    factors = [float(v) for v in p.get("coeff", ())]
    terms = list(x)
    if op == "Add" and factors:
        terms = [_affine(c, t, f, 0.0) for t, f in zip(terms, factors, strict=True)]
    out = terms[0]
    for t in terms[1:]:
        out = c.a.node(op, out, t)
    return c.made(out if len(terms) > 1 else c.a.node("Identity", out), c.rank(x[0]))


def _concat(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p = layer.block("concat_param")
    axis = p.integer("axis", p.integer("concat_dim", 1))
    return c.made(c.a.node("Concat", *x, axis=axis), c.rank(x[0]))


def _slice(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p, count = layer.block("slice_param"), len(layer.words("top"))
    axis = p.integer("axis", p.integer("slice_dim", 1))
    points = p.integers("slice_point")
    rank = c.rank(x[0])
    if not points:
        names = c.a.many("Split", [x[0]], count, axis=axis, num_outputs=count)
    else:
        starts, ends = [0, *points], [*points, 2**31 - 1]
        names = [
            c.a.node("Slice", x[0], c.a.ints(s), c.a.ints(e), c.a.ints(axis))
            for s, e in zip(starts, ends, strict=True)
        ]
    for name in names:
        c.ranks[name] = rank
    return names


def _flatten(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p, rank = layer.block("flatten_param"), c.rank(x[0])
    first, last = p.integer("axis", 1) % rank, p.integer("end_axis", -1) % rank
    if (first, last) == (1, rank - 1):
        return c.made(c.a.node("Flatten", x[0], axis=1), 2)
    shape = c.a.node(
        "Concat",
        c.a.node("Shape", x[0], start=0, end=first),
        c.a.ints(-1),
        c.a.node("Shape", x[0], start=last + 1, end=rank),
        axis=0,
    )
    return c.made(c.a.node("Reshape", x[0], shape), rank - (last - first))


def _reshape(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p = layer.block("reshape_param")
    dims = p.block("shape").integers("dim")
    if p.integer("axis", 0) != 0 or p.integer("num_axes", -1) != -1:
        raise Unknown("Reshape of some axes alone")
    return c.made(c.a.node("Reshape", x[0], c.a.ints(*dims)), len(dims))


def _softmax(c: Converter, layer: Block, x: list[str]) -> list[str]:
    return c.made(
        c.a.node("Softmax", x[0], axis=layer.block("softmax_param").integer("axis", 1)), c.rank(x[0])
    )


def _permute(c: Converter, layer: Block, x: list[str]) -> list[str]:
    order = layer.block("permute_param").integers("order")
    order += [i for i in range(c.rank(x[0])) if i not in order]
    return c.made(c.a.node("Transpose", x[0], perm=order), len(order))


def _crop(c: Converter, layer: Block, x: list[str]) -> list[str]:
    """To the extent of the second bottom, from an offset on."""
    p, rank = layer.block("crop_param"), c.rank(x[0])
    axis = p.integer("axis", 2) % rank
    offsets = p.integers("offset") or [0]
    offsets = offsets * (rank - axis) if len(offsets) == 1 else offsets
    starts = c.a.ints(*offsets)
    ends = c.a.node("Add", c.a.node("Shape", x[1], start=axis, end=rank), starts)
    return c.made(c.a.node("Slice", x[0], starts, ends, c.a.ints(*range(axis, rank))), rank)


def _argmax(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p = layer.block("argmax_param")
    if p.integer("top_k", 1) != 1 or p.flag("out_max_val", False) or "axis" not in p:
        raise Unknown("ArgMax of several, with values or over everything")
    found = c.a.node("ArgMax", x[0], axis=p.integer("axis"), keepdims=1)
    return c.made(c.a.cast(found, np.float32), c.rank(x[0]))


def _reduction(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p, rank = layer.block("reduction_param"), c.rank(x[0])
    kinds = {"SUM": "ReduceSum", "ASUM": "ReduceL1", "SUMSQ": "ReduceSumSquare", "MEAN": "ReduceMean"}
    kind = p.word("operation", "SUM")
    if kind not in kinds:
        raise Unknown(f"Reduction by {kind}")
    axis = p.integer("axis", 0) % rank
    out = c.a.node(kinds[kind], x[0], c.a.ints(*range(axis, rank)), keepdims=0)
    return c.made(_affine(c, out, p.number("coeff", 1.0), 0.0), axis)


def _tile(c: Converter, layer: Block, x: list[str]) -> list[str]:
    p, rank = layer.block("tile_param"), c.rank(x[0])
    repeats = [1] * rank
    repeats[p.integer("axis", 1)] = p.integer("tiles", 1)
    return c.made(c.a.node("Tile", x[0], c.a.ints(*repeats)), rank)


def _threshold(c: Converter, layer: Block, x: list[str]) -> list[str]:
    bound = c.a.constant(layer.block("threshold_param").number("threshold"), np.float32)
    return c.made(c.a.cast(c.a.node("Greater", x[0], bound), np.float32), c.rank(x[0]))


def _split(c: Converter, layer: Block, x: list[str]) -> list[str]:
    return [x[0]] * len(layer.words("top"))


def _mean_variance(c: Converter, layer: Block, x: list[str]) -> list[str]:
    """Mean subtracted and deviation divided out, of each channel or of all."""
    p, rank = layer.block("mvn_param"), c.rank(x[0])
    axes = c.a.ints(*range(1 if p.flag("across_channels", False) else 2, rank))
    centred = c.a.node("Sub", x[0], c.a.node("ReduceMean", x[0], axes, keepdims=1))
    if not p.flag("normalize_variance", True):
        return c.made(centred, rank)
    deviation = c.a.node("Sqrt", c.a.node("ReduceMean", c.a.node("Mul", centred, centred), axes, keepdims=1))
    below = _affine(c, deviation, 1.0, p.number("eps", 1e-9))
    return c.made(c.a.node("Div", centred, below), rank)


def _rows(table: str, make: Callable[[str], Rule]) -> dict[str, Rule]:
    return {name: make(op) for name, op in (row.split(":") for row in table.split())}


RULES: dict[str, Rule] = {
    **_rows("Convolution:Conv Deconvolution:ConvTranspose", _conv),
    **_rows("Sigmoid:Sigmoid TanH:Tanh AbsVal:Abs BNLL:Softplus Dropout:Identity", _unary),
    "Pooling": _pool,
    "InnerProduct": _inner_product,
    "ReLU": _relu,
    "ReLU6": lambda c, layer, x: c.made(
        c.a.node("Clip", x[0], c.a.constant(0, np.float32), c.a.constant(6, np.float32)), c.rank(x[0])
    ),
    "PReLU": _prelu,
    "ELU": _elu,
    "Power": _power,
    "Exp": _exp,
    "Log": _log,
    "LRN": _lrn,
    "MVN": _mean_variance,
    "BatchNorm": _batch_norm,
    "Scale": _scale("Mul", "scale_param"),
    "Bias": _scale("Add", "bias_param"),
    "Eltwise": _eltwise,
    "Concat": _concat,
    "Slice": _slice,
    "Split": _split,
    "Flatten": _flatten,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Permute": _permute,
    "Crop": _crop,
    "ArgMax": _argmax,
    "Reduction": _reduction,
    "Tile": _tile,
    "Threshold": _threshold,
}

# layers by the names that older networks have for them
V1 = {
    "CONVOLUTION": "Convolution", "DECONVOLUTION": "Deconvolution", "POOLING": "Pooling", "RELU": "ReLU",
    "INNER_PRODUCT": "InnerProduct", "SIGMOID": "Sigmoid", "TANH": "TanH", "ABSVAL": "AbsVal", "BNLL": "BNLL",
    "DROPOUT": "Dropout", "POWER": "Power", "EXP": "Exp", "LRN": "LRN", "ELTWISE": "Eltwise",
    "CONCAT": "Concat", "SLICE": "Slice", "SPLIT": "Split", "FLATTEN": "Flatten", "SOFTMAX": "Softmax",
    "ARGMAX": "ArgMax", "MVN": "MVN", "THRESHOLD": "Threshold", "DATA": "Data", "ACCURACY": "Accuracy",
    "IMAGE_DATA": "ImageData", "SOFTMAX_LOSS": "SoftmaxWithLoss", "SILENCE": "Silence",
}  # fmt: skip
