"""Values from nothing: constants, fills, counters; and identities that mean something to transforms or the
compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, DType
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Attributes, Primitive, Value
from trilobite.ir.primitives.cast import by_value
from trilobite.ir.primitives.common import OWN, batch_elementwise, free
from trilobite.ir.types import Dim, Shape, TensorType

_NO_OPERANDS = Absent("it has no operands, so there is nothing to map over")

constant: Primitive = Primitive(
    "constant", "",
    type=lambda value: TensorType(value.array.shape, value.array.dtype),
    evaluate=lambda value: value.array,
    jvp=(), vjp=(), batch=_NO_OPERANDS, cost=free, doc="an array that stands in the graph",
)  # fmt: skip


def _full(shape: Sequence[int], dtype: DType, value: complex) -> np.ndarray[Any, Any]:
    # One element repeated by stride 0: no memory, no time. Whoever wants to write makes a copy first.
    plain = type(value) is float and dtype.num < OWN and dtype.kind == "f"
    element = np.array(value, dtype) if plain else by_value(np.asarray(value), dtype)
    if dtype.num >= OWN:  # such arrays are no buffers
        return np.broadcast_to(element, shape)
    out = np.ndarray(shape, dtype, element, 0, (0,) * len(shape))
    out.flags.writeable = False
    return out


def _sized(name: str, shape: Shape, dtype: DType) -> TensorType:
    if any(d < 0 for d in shape) or dtype not in ALL:
        raise ShapeError(
            f"{name} of {dtype}{list(shape)}",
            where=user_location(),
            expected="sizes of at least 0 and a dtype of tensors",
        )
    return TensorType(shape, dtype)


full: Primitive = Primitive(
    "full", "", type=lambda shape, dtype, value: _sized("full", shape, dtype), evaluate=array_rule(_full),
    jvp=(), vjp=(), batch=_NO_OPERANDS, cost=free, doc="one number everywhere",
)  # fmt: skip


def _iota(shape: Sequence[int], dtype: DType, axis: int) -> np.ndarray[Any, Any]:
    line = np.arange(shape[axis]).astype(dtype).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.broadcast_to(line, shape)


def _iota_type(shape: Shape, dtype: DType, axis: int) -> TensorType:
    if not 0 <= axis < len(shape):
        raise ShapeError(
            f"iota of shape {list(shape)} along axis {axis}",
            where=user_location(),
            expected=f"0 <= axis < {len(shape)}",
        )
    return _sized("iota", shape, dtype)


iota: Primitive = Primitive(
    "iota", "", type=_iota_type, evaluate=array_rule(_iota),
    jvp=(), vjp=(), batch=_NO_OPERANDS, cost=free, doc="0, 1, 2, ... along one axis",
)  # fmt: skip

stop_gradient: Primitive = Primitive(
    "stop_gradient", "x", type=lambda x: x, evaluate=lambda x: x, jvp=(None,), vjp=(None,),
    batch=batch_elementwise("stop_gradient"), cost=free, doc="the value, as a constant to every derivative",
)  # fmt: skip


def _barrier_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attributes: Attributes
) -> Value:
    return barrier(*values)


barrier: Primitive = Primitive(
    "barrier", "x", type=lambda x: x, evaluate=lambda x: x, jvp=(lambda t: barrier(t),),
    vjp=(lambda t: barrier(t),),
    batch=_barrier_batch, cost=free,
    doc="the value, recomputed rather than shared: common subexpressions are not merged across it",
)  # fmt: skip
