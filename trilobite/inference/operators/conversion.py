"""Other dtypes: by value, and bit by bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import trilobite as tb
from trilobite.base.dtypes import FP8, float4_e2m1fn, is_inexact
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.inference.operators.primitives import primitive
from trilobite.inference.operators.registry import operator
from trilobite.inference.tensors import DTYPES

Array = np.ndarray[Any, Any]


@operator("Cast")
def cast(node: Node, x: Tensor) -> Tensor:
    dtype = DTYPES[_code(node.attributes["to"])]
    return converted(x, dtype, bool(node.attribute("saturate", 1)), node.attribute("round_mode", "up"))


def _code(to: Any) -> int:
    """Operator set 1 names the dtype by a string."""
    if isinstance(to, int):
        return to
    import onnx

    return int(onnx.TensorProto.DataType.Value(to))


def converted(x: Tensor, dtype: np.dtype[Any], saturate: bool, round_mode: str) -> Tensor:
    if x.dtype == dtype:
        return x
    if dtype in FP8 and is_inexact(x.dtype):
        return _to_small(x, dtype, saturate, round_mode)
    if dtype in (tb.int4, tb.uint4):
        whole = x if x.dtype.kind in "iub" else x.astype(tb.int32)
        return whole.astype(dtype)  # out of range the low bits are kept, as of wider integers
    if dtype == float4_e2m1fn:
        return x.astype(tb.float32).astype(dtype)
    return x.astype(dtype)


def _to_small(x: Tensor, dtype: np.dtype[Any], saturate: bool, round_mode: str) -> Tensor:
    """Beyond the range: the largest number if saturating, else infinity or NaN, whichever the format has."""
    wide = x.astype(tb.float32)
    if dtype == np.dtype(ml_dtypes.float8_e8m0fnu):
        return _to_exponent(wide, saturate, round_mode)
    if not saturate:
        return wide.astype(dtype)
    most = float(tb.finfo(dtype).max)
    held = tb.clip(wide, -most, most)
    return tb.where(tb.isnan(wide), wide, held).astype(dtype)


def _to_exponent(x: Tensor, saturate: bool, round_mode: str) -> Tensor:
    """float8e8m0 is an exponent alone: rounded up, down or to the nearest power of two."""
    bits = primitive("bitcast", x, dtype=tb.uint32)
    exponent, rest = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if round_mode == "up":
        more = tb.logical_and(rest > 0, tb.logical_or(exponent > 0, rest > 0x400000))
    elif round_mode == "nearest":
        more = tb.logical_or(rest > 0x400000, tb.logical_and(tb.equal(rest, 0x400000), exponent > 0))
    else:
        more = tb.zeros_like(rest, dtype=tb.bool)
    limit = 0xFE if saturate else 0xFF
    rounded = tb.minimum(exponent + more.astype(tb.uint32), tb.full_like(exponent, limit))
    special = tb.equal(exponent, 0xFF)
    return primitive(
        "bitcast",
        tb.where(special, exponent, rounded).astype(tb.uint8),
        dtype=np.dtype(ml_dtypes.float8_e8m0fnu),
    )


@operator("CastLike", since=15)
def cast_like(node: Node, x: Tensor, like: Tensor) -> Tensor:
    return converted(
        x, like._peek().dtype, bool(node.attribute("saturate", 1)), node.attribute("round_mode", "up")
    )


@operator("BitCast", since=26)
def bit_cast(node: Node, x: Tensor) -> Tensor:
    dtype = DTYPES[node.attributes["to"]]
    if x.dtype == tb.bool:
        x = x.astype(tb.uint8)
    if dtype == np.bool_:
        return tb.not_equal(primitive("bitcast", x, dtype=tb.uint8), 0)
    return primitive("bitcast", x, dtype=dtype)
