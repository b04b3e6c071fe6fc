"""Operators that only move elements, on elements that tensors cannot have: strings, formats of 2 and 6
bits.

Each distinct element gets a number, the operator runs on the numbers, and the numbers are turned back.
Operators that compare for equality work as well, since equal elements have equal numbers. Lists and absent
optionals pass through Identity alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.base.errors import DTypeError
from trilobite.inference.model import Node
from trilobite.inference.operators import registry
from trilobite.inference.operators.registry import Row
from trilobite.inference.program.apply import call_now
from trilobite.inference.program.values import is_tensor_dtype
from trilobite.inference.tensors import CODES, DTYPES, STRING

_INT2, _UINT2 = np.dtype(ml_dtypes.int2), np.dtype(ml_dtypes.uint2)
_WHOLE = {_INT2: np.dtype(np.int8), _UINT2: np.dtype(np.uint8)}
_RANGES = {_INT2: (-2, 1), _UINT2: (0, 3)}
MOVING = frozenset(
    "Identity Reshape Flatten Squeeze Unsqueeze Transpose Concat Split Slice Gather GatherElements GatherND "
    "Expand Tile Where Pad ScatterElements ScatterND Scatter ReverseSequence Trilu DepthToSpace SpaceToDepth "
    "Equal Shape Size ConstantOfShape OneHot Compress".split()
)


def is_foreign(value: Any) -> bool:
    """A host value that no tensor can hold."""
    if isinstance(value, np.ndarray | np.generic):
        return not is_tensor_dtype(value.dtype)
    return isinstance(value, list | tuple | dict)


def on_codes(node: Node, row: Row, operands: Sequence[Any]) -> list[Any]:
    """The operator on numbers that stand for elements."""
    if node.op == "Identity":
        return [operands[0]]
    if node.op in NUMERIC:
        return [NUMERIC[node.op](node, row, operands)]
    foreign = [v for v in operands if is_foreign(v)]
    if node.op not in MOVING or not all(isinstance(v, np.ndarray) for v in foreign):
        raise DTypeError(
            f"{node.label()} on {', '.join(str(getattr(v, 'dtype', type(v).__name__)) for v in foreign)}",
            expected="an operator that ONNX defines on them",
        )
    flat = np.concatenate([v.reshape(-1) for v in foreign])
    if flat.dtype == STRING:
        table, codes = np.unique(flat.astype(str), return_inverse=True)
        table = table.astype(object)
    else:
        table, codes = _unique_bits(flat)
    coded, at = [], 0
    for v in operands:
        if is_foreign(v):
            coded.append(codes[at : at + v.size].reshape(v.shape).astype(np.int64))
            at += v.size
        else:
            coded.append(v)
    results = call_now(node, row, coded)
    if node.op in ("Equal", "Shape", "Size"):
        return results
    return [table[np.asarray(r)] for r in results]


def _wider(value: Any) -> Any:
    """Numbers of 2 or 6 bits in the smallest format that tensors have and that holds them all."""
    if not isinstance(value, np.ndarray) or is_tensor_dtype(value.dtype) or value.dtype == STRING:
        return value
    if value.dtype in _WHOLE:
        return value.astype(_WHOLE[value.dtype])
    return value.astype(np.float32)


def narrowed(value: Any, dtype: Any) -> Any:
    """Numbers in 2 or 6 bits: whole ones keep their low bits, others are held inside the range."""
    if dtype not in _WHOLE:
        most = float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
        return np.clip(np.asarray(value).astype(np.float32), -most, most).astype(dtype)
    with np.errstate(invalid="ignore"):
        low = np.asarray(value).astype(np.int32) & 3
    return low.astype(np.uint8).astype(dtype) if dtype == _UINT2 else _signed(low)


def _signed(low: Any) -> Any:
    return np.where(low > 1, low - 4, low).astype(np.int8).astype(_INT2)


def _cast(node: Node, row: Row, operands: Sequence[Any]) -> Any:
    """Cast and CastLike from or to what tensors cannot have."""
    x = operands[0]
    dtype = operands[1].dtype if node.op == "CastLike" else DTYPES[node.attributes["to"]]
    if x.dtype == STRING:
        return _parsed(x, dtype)
    if dtype == STRING:
        return _printed(_wider(x))
    if not is_tensor_dtype(dtype):
        return narrowed(_wider(x), dtype)
    cast = replace(node, op="Cast", attributes={**node.attributes, "to": CODES[dtype]})
    found = registry.find("", "Cast", node.version)
    assert found is not None
    return call_now(cast, found, [_wider(x)])[0]


def _parsed(x: Any, dtype: Any) -> Any:
    """Strings as numbers, written as Python or C write them."""
    if dtype == STRING:
        return x
    try:
        numbers = [float(s) for s in x.reshape(-1)]
    except ValueError as error:
        raise DTypeError(
            f"Cast of strings to {dtype}: {error}", expected="strings that are numbers"
        ) from error
    if np.dtype(dtype).kind in "iu":
        return np.asarray(
            [int(float(s)) if not _is_whole(s) else int(s) for s in x.reshape(-1)], dtype
        ).reshape(x.shape)
    return np.asarray(numbers, np.float64).astype(dtype).reshape(x.shape)


def _is_whole(text: str) -> bool:
    return text.strip().lstrip("+-").isdecimal()


def _printed(x: Any) -> Any:
    """Numbers as strings, the shortest that read back as the same number."""
    out = np.empty(x.size, dtype=object)
    out[:] = [_text(v) for v in x.reshape(-1)]
    return out.reshape(x.shape)


def _text(v: Any) -> str:
    if isinstance(v, np.bool_):
        return str(int(v))
    return str(v.item()) if isinstance(v, np.integer) else str(v)


def _quantise(node: Node, row: Row, operands: Sequence[Any]) -> Any:
    """To 2 bits by way of 8."""
    x, scale, zero = (*operands, None)[:3]
    dtype = zero.dtype if zero is not None else DTYPES[node.attribute("output_dtype", 2)]
    if is_tensor_dtype(dtype):
        return call_now(node, row, [_wider(v) for v in operands])[0]
    byte, (low, high) = _WHOLE[dtype], _RANGES[dtype]
    point = np.zeros(scale.shape, byte) if zero is None else zero.astype(byte)
    wide = replace(node, attributes={**node.attributes, "output_dtype": 0})
    coarse = call_now(wide, row, [x, scale, point.astype(np.int32)])[0]
    return np.clip(coarse, low, high).astype(byte).astype(dtype)


def _dequantise(node: Node, row: Row, operands: Sequence[Any]) -> Any:
    return call_now(node, row, [_wider(v) for v in operands])[0]


NUMERIC = {"Cast": _cast, "CastLike": _cast, "QuantizeLinear": _quantise, "DequantizeLinear": _dequantise}
"""Operators that compute with formats that tensors do not have."""


def _unique_bits(flat: Any) -> tuple[Any, Any]:
    """As np.unique, for formats that NumPy cannot sort: one byte holds an element."""
    bits, codes = np.unique(flat.view(np.uint8), return_inverse=True)
    return bits.astype(np.uint8).view(flat.dtype), codes
