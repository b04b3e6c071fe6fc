"""Arrays out of nothing but sizes: constants, ranges, windows, random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import trilobite as tb
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.registry import operator
from trilobite.inference.operators.shaping import fixed, ints
from trilobite.inference.program.symbolic import as_number
from trilobite.inference.tensors import DTYPES

Array = np.ndarray[Any, Any]


@operator("Constant")
def constant(node: Node) -> Array:
    """Exactly one of the attributes is there."""
    given = node.attributes
    for name in ("value", "sparse_value"):
        if name in given:
            return np.asarray(given[name])
    kinds = {"float": np.float32, "int": np.int64, "string": object}
    name, value = next((k, v) for k, v in given.items() if k.startswith("value_"))
    return np.asarray(value, dtype=kinds[name.removeprefix("value_").removesuffix("s")])


@operator("ConstantOfShape", since=9, known=(0,), makes=True)
def constant_of_shape(node: Node, shape: Array) -> Any:
    value = node.attribute("value", np.zeros(1, np.float32)).reshape(())
    if value.dtype == object:
        return np.full(ints(shape), value.item(), dtype=object)
    return tb.broadcast_to(tb.asarray(value), ints(shape))


@operator("Range", since=11, known=(0, 1, 2))
def arange(node: Node, start: Array, limit: Array, step: Array) -> Any:
    first, end, by = (v.reshape(()) for v in (start, limit, step))
    if any(v.dtype == np.dtype(object) for v in (first, end, by)):
        return _counted(node, first, end, by)
    count = max(int(np.ceil((end.astype(np.float64) - first.astype(np.float64)) / by.astype(np.float64))), 0)
    if count > 2**31:
        raise ArgumentError(f"{node.label()} has {count} elements", expected="at most 2 to the 31")
    if first.dtype.kind in "iuf":
        return (first + np.arange(count).astype(first.dtype) * by).astype(first.dtype)
    wide = first.astype(np.float32) + np.arange(count, dtype=np.float32) * by.astype(np.float32)
    return wide.astype(first.dtype)


def _counted(node: Node, first: Array, end: Array, by: Array) -> Tensor:
    """Up to a size that a run decides, or from one on, in steps of 1."""
    if by.dtype == np.dtype(object) or by != 1 or (first.dtype.kind == "f" and first % 1):
        raise ShapeError(f"{node.label()} in steps of {by} from {first} to a size that a run decides")
    begin, stop = (v.item() if v.dtype == np.dtype(object) else int(v) for v in (first, end))
    return (tb.arange(stop - begin) + as_number(begin)).astype(by.dtype)


@operator("EyeLike", since=9)
def eye_like(node: Node, x: Tensor) -> Tensor:
    dtype = DTYPES[node.attributes["dtype"]] if "dtype" in node.attributes else x.dtype
    rows, columns = fixed(x.shape)
    return tb.eye(rows, columns, k=node.attribute("k", 0), dtype=tb.float32).astype(dtype)


_WINDOWS = {
    "HannWindow": (0.5, 0.5, 0.0),
    "HammingWindow": (25 / 46, 21 / 46, 0.0),
    "BlackmanWindow": (0.42, 0.5, 0.08),
}


@operator("HannWindow", "HammingWindow", "BlackmanWindow", since=17, known=(0,))
def window(node: Node, size: Array) -> Array:
    n = int(size.reshape(()))
    period = n if node.attribute("periodic", 1) else n - 1
    a, b, c = _WINDOWS[node.op]
    t = np.arange(n, dtype=np.float64) / period
    out = a - b * np.cos(2 * np.pi * t) + c * np.cos(4 * np.pi * t)
    return out.astype(DTYPES[node.attribute("output_datatype", 1)])


@operator("MelWeightMatrix", since=17, known=(0, 1, 2, 3, 4))
def mel_weight_matrix(node: Node, bins: Array, size: Array, rate: Array, low: Array, high: Array) -> Array:
    """Triangles of equal width on the mel scale, as columns over the frequencies of a transform."""
    count, length = int(bins.reshape(())), int(size.reshape(()))
    ends = [2595 * np.log10(1 + float(v.reshape(())) / 700) for v in (low, high)]
    mel = ends[0] + np.arange(count + 2) * (ends[1] - ends[0]) / (count + 2)
    hertz = 700 * (10 ** (mel / 2595) - 1)
    at = ((length + 1) * hertz // int(rate.reshape(()))).astype(np.int64)
    out = np.zeros((length // 2 + 1, count))
    for i in range(count):
        lower, middle, upper = at[i : i + 3]
        if lower == middle:
            out[middle, i] = 1
        for j in range(lower, middle + 1):
            if lower != middle:
                out[j, i] = (j - lower) / (middle - lower)
        for j in range(middle, upper):
            if upper != middle:
                out[j, i] = (upper - j) / (upper - middle)
    return out.astype(DTYPES[node.attribute("output_datatype", 1)])


def _key(node: Node) -> Any:
    """A seed in the model gives the same numbers at every run; without one they come from the generator."""
    seed = node.attribute("seed")
    return None if seed is None else tb.random.key(int(np.float32(seed).view(np.int32)) & 0x7FFFFFFF)


def _drawn(node: Node, shape: Any, dtype: Any) -> Tensor:
    wide = tb.float64 if dtype == np.float64 else tb.float32
    if "Normal" in node.op:
        mean, scale = node.attribute("mean", 0.0), node.attribute("scale", 1.0)
        return (tb.random.normal(shape, dtype=wide, key=_key(node)) * scale + mean).astype(dtype)
    low, high = node.attribute("low", 0.0), node.attribute("high", 1.0)
    return tb.random.uniform(shape, low, high, dtype=wide, key=_key(node)).astype(dtype)


@operator("RandomNormal", "RandomUniform", pure=False)
def random(node: Node) -> Tensor:
    return _drawn(node, node.attributes["shape"], DTYPES[node.attribute("dtype", 1)])


@operator("RandomNormalLike", "RandomUniformLike", pure=False)
def random_like(node: Node, x: Tensor) -> Tensor:
    dtype = DTYPES[node.attributes["dtype"]] if "dtype" in node.attributes else x.dtype
    return _drawn(node, tuple(x.shape), dtype)


@operator("Bernoulli", since=15, pure=False)
def bernoulli(node: Node, x: Tensor) -> Tensor:
    dtype = DTYPES[node.attributes["dtype"]] if "dtype" in node.attributes else x.dtype
    drawn = tb.random.uniform(tuple(x.shape), dtype=tb.float32, key=_key(node))
    return (drawn < x.astype(tb.float32)).astype(dtype)


@operator("Multinomial", since=7, pure=False)
def multinomial(node: Node, x: Tensor) -> Tensor:
    """Classes drawn by logits, `sample_size` per row."""
    n, dtype = node.attribute("sample_size", 1), DTYPES[node.attribute("dtype", 6)]
    shape = (x.shape[0], n, x.shape[1])
    noise = -tb.log(-tb.log(tb.random.uniform(shape, 1e-20, 1.0, dtype=tb.float32, key=_key(node))))
    return tb.argmax(tb.expand_dims(x.astype(tb.float32), axis=1) + noise, -1).astype(dtype)


@operator("Dropout")
def dropout_always(node: Node, x: Tensor) -> tuple[Any, ...]:
    return x, tb.ones(tuple(x.shape), dtype=tb.bool if node.version >= 10 else x.dtype)


@operator("Dropout", since=12, known=(2,), pure=False)
def dropout(
    node: Node, x: Tensor, ratio: Tensor | None = None, training: Array | None = None
) -> tuple[Any, ...]:
    if training is None or not training.reshape(()):
        return x, tb.ones(tuple(x.shape), dtype=tb.bool)
    p = tb.asarray(np.float32(0.5)) if ratio is None else ratio.astype(tb.float32)
    kept = tb.random.uniform(tuple(x.shape), dtype=tb.float32, key=_key(node)) >= p
    scaled = x.astype(tb.float32) / (1 - p)
    return tb.where(kept, scaled, 0.0).astype(x.dtype), kept
