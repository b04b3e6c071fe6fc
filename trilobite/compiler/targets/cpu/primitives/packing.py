"""Matrices in panels, in half bytes, and products with them: what a target makes of a weight.

Made by the compiler after derivatives and batching. A panel is `width` columns side by side, k by k, so that
a product reads memory in one direction; the last panel is filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, DType, bool_, int4, uint4, uint8
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.quiet import array_rule
from trilobite.compiler.targets.cpu.primitives.conv_last import from_panels
from trilobite.ir.primitive import TargetPrimitive
from trilobite.ir.primitives.common import count, same_types
from trilobite.ir.primitives.dot import dot
from trilobite.ir.primitives.quantise import dequantise
from trilobite.ir.types import TensorType

Array = np.ndarray[Any, Any]


def _panels(columns: int, width: int) -> int:
    return -(-columns // width)


def _pack_type(y: TensorType, contract: int, width: int) -> TensorType:
    if y.ndim != 2 or contract not in (0, 1) or width < 1 or not isinstance(y.shape[1 - contract], int):
        raise ShapeError(
            f"gemm_pack of {y} along axis {contract} in panels of {width}",
            expected="a matrix with a fixed number of columns, axis 0 or 1, at least one column a panel",
        )
    columns = y.shape[1 - contract]
    assert isinstance(columns, int)
    return TensorType((_panels(columns, width), y.shape[contract], width), y.dtype)


def _pack(y: Array, contract: int, width: int) -> Array:
    rows = y if contract == 0 else y.T
    k, n = rows.shape
    panels = _panels(n, width)
    filled = np.zeros((k, panels * width), y.dtype)
    filled[:, :n] = rows
    return np.ascontiguousarray(filled.reshape(k, panels, width).transpose(1, 0, 2))


def unpacked(panels: Array, columns: int, contract: int = 0) -> Array:
    """The matrix of which `gemm_pack` made these panels; a view where that is possible."""
    matrix = panels.transpose(1, 0, 2).reshape(panels.shape[1], panels.shape[0] * panels.shape[2])
    return matrix[:, :columns] if contract == 0 else matrix[:, :columns].T


def _from_panels(panels: Array, shape: Sequence[int], contract: int, width: int) -> Array:
    return unpacked(panels, shape[1 - contract], contract)


gemm_pack = TargetPrimitive(
    "gemm_pack", "y", type=_pack_type, evaluate=array_rule(_pack),
    cost=lambda i, o, a: count(o[0].size),
    doc="a matrix, contracted along axis `contract`, as (panels, K, width), filled up with zeros",
)  # fmt: skip


PACKERS: dict[str, Callable[..., Array]] = {"gemm_pack": _from_panels, "conv_panels": from_panels}
"""What only moves a weight's elements, with its way back: `f(packed, shape, **attributes)`."""


def _dot_type(x: TensorType, y: TensorType, columns: int, dtype: DType) -> TensorType:
    same_types("dot_packed", (x,), ALL - {bool_})
    if x.dtype != y.dtype:
        raise DTypeError(f"dot_packed of {x} and {y}", expected="equal dtypes; casts are explicit")
    width = y.shape[-1] if y.ndim == 3 else None
    fits = isinstance(width, int) and y.shape[0] == _panels(columns, width)
    if x.ndim < 1 or not fits or x.shape[-1] != y.shape[1]:
        raise ShapeError(
            f"dot_packed of {x} and {y} with {columns} columns",
            expected="x[..., K] and panels [ceil(columns/width), K, width]",
        )
    return TensorType((*x.shape[:-1], columns), dtype)


def _dot(x: Array, y: Array, columns: int, dtype: DType) -> Array:
    matrix = unpacked(y, columns)
    out: Array = dot.evaluate(x, matrix, contract=((x.ndim - 1,), (0,)), batch=((), ()), dtype=dtype)
    return out


def _dot_cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
    return 2.0 * count(outputs[0].size) * count(inputs[0].shape[-1])


dot_packed = TargetPrimitive(
    "dot_packed", "x y", type=_dot_type, evaluate=array_rule(_dot),
    cost=_dot_cost,
    doc="x[..., K] times a matrix in panels, of which `columns` are columns",
)  # fmt: skip

# -- 4-bit numbers, two to a byte ----------------------------------------------------------------------------

GROUP = 16
"""Elements that a row of 4-bit numbers is filled up to."""


def _bytes(columns: int) -> int:
    return -(-columns // GROUP) * GROUP // 2


def _nibble_type(q: TensorType) -> TensorType:
    if q.dtype not in (int4, uint4) or q.ndim < 1 or not isinstance(q.shape[-1], int):
        raise DTypeError(f"nibble_pack of {q}", expected="int4 or uint4 with a last axis of fixed size")
    return TensorType((*q.shape[:-1], _bytes(q.shape[-1])), uint8)


def _nibble_pack(q: Array) -> Array:
    codes = np.zeros((*q.shape[:-1], 2 * _bytes(q.shape[-1])), np.uint8)
    codes[..., : q.shape[-1]] = q.astype(np.int8).view(np.uint8) & 15
    out: Array = codes[..., ::2] | (codes[..., 1::2] << 4)
    return out


nibble_pack = TargetPrimitive(
    "nibble_pack", "q", type=_nibble_type, evaluate=array_rule(_nibble_pack),
    cost=lambda i, o, a: count(o[0].size),
    doc="4-bit integers two to a byte, the even one in the low half; rows filled up to 16 with zeros",
)  # fmt: skip


def _unpack_type(p: TensorType, columns: int, dtype: DType) -> TensorType:
    if p.dtype != uint8 or dtype not in (int4, uint4) or p.ndim < 1 or p.shape[-1] != _bytes(columns):
        raise ShapeError(
            f"nibble_unpack of {p} to {columns} columns of {dtype}",
            expected=f"uint8 with {_bytes(columns)} bytes a row, and int4 or uint4",
        )
    return TensorType((*p.shape[:-1], columns), dtype)


def _nibble_unpack(p: Array, columns: int, dtype: DType) -> Array:
    codes = np.stack([p & 15, p >> 4], axis=-1).reshape(*p.shape[:-1], 2 * p.shape[-1])[..., :columns]
    signed = (codes ^ 8).astype(np.int8) - np.int8(8) if dtype == int4 else codes
    return np.ascontiguousarray(signed).astype(dtype)


nibble_unpack = TargetPrimitive(
    "nibble_unpack", "p", type=_unpack_type, evaluate=array_rule(_nibble_unpack),
    cost=lambda i, o, a: count(o[0].size),
    doc="the 4-bit integers that nibble_pack made of rows of `columns`",
)  # fmt: skip


# -- products with a quantised matrix ------------------------------------------------------------------------


def _matrix_type(q: TensorType, columns: int | None, grid: DType) -> TensorType:
    """The type of the matrix that is multiplied, before it is dequantised."""
    return q if columns is None else _unpack_type(q, columns, grid)


def _quantised_type(
    x: TensorType, q: TensorType, scale: TensorType, zero_point: TensorType, contract: int,
    axis: int | None, columns: int | None, dtype: DType,
) -> TensorType:  # fmt: skip
    matrix = _matrix_type(q, columns, zero_point.dtype)
    w = dequantise.type(matrix, scale, zero_point, axis=axis)
    if w.ndim != 2 or x.ndim < 1:
        raise ShapeError(f"dot_quantised of {x} and {w}", expected="x[..., K] and a matrix")
    found: TensorType = dot.type(x, w, contract=((x.ndim - 1,), (contract,)), batch=((), ()), dtype=dtype)
    return found


def _quantised(
    x: Array, q: Array, scale: Array, zero_point: Array, contract: int, axis: int | None,
    columns: int | None, dtype: DType,
) -> Array:  # fmt: skip
    matrix = q if columns is None else _nibble_unpack(q, columns, zero_point.dtype)
    w = dequantise.evaluate(matrix, scale, zero_point, axis=axis)
    out: Array = dot.evaluate(x, w, contract=((x.ndim - 1,), (contract,)), batch=((), ()), dtype=dtype)
    return out


dot_quantised = TargetPrimitive(
    "dot_quantised", "x q scale zero_point", type=_quantised_type, evaluate=array_rule(_quantised),
    cost=_dot_cost,
    doc="x[..., K] times dequantise(q) along its axis `contract`; with `columns`, q is what nibble_pack made",
)  # fmt: skip
