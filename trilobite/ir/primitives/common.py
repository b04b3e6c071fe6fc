"""What the rules of several families share: type checks, batching along a new leading axis, costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from trilobite.base.dtypes import DType, float32, int4, int8, is_complex, uint4, uint8
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.transforms.batch import all_mapped
from trilobite.ir.types import Affine, Dim, TensorType


def same_types(name: str, types: Sequence[TensorType], accepts: Collection[DType]) -> TensorType:
    """All operands of one shape and one dtype, and the dtype one that the primitive accepts."""
    first = types[0]
    for i, t in enumerate(types):
        if t.dtype not in accepts:
            raise DTypeError(
                f"{name} does not take {t.dtype} (operand {i})",
                where=user_location(),
                expected=names(accepts),
            )
        if t.shape != first.shape:
            raise ShapeError(
                f"{name}: operands {first} and {t} differ in shape",
                where=user_location(),
                expected="equal shapes; broadcasting is explicit",
            )
        if t.dtype != first.dtype:
            raise DTypeError(
                f"{name}: operands {first} and {t} differ in dtype",
                where=user_location(),
                expected="equal dtypes; casts are explicit",
            )
    return first


def names(dtypes: Collection[DType]) -> str:
    return ", ".join(sorted(d.name for d in dtypes))


def batch_elementwise(primitive: Callable[[], Primitive] | str) -> Callable[..., Value]:
    """Mapped operands line up as they are; the others are repeated along the batch."""

    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attributes: Attributes) -> Value:
        p = table[primitive] if isinstance(primitive, str) else primitive()
        return p(*all_mapped(size, values, mapped), **attributes)

    return rule


def count(dim: Dim) -> float:
    """A size as a number, for costs: the upper bound of a symbolic one."""
    return float(dim.bounds()[1]) if isinstance(dim, Affine) else float(dim)


def elements(types: Sequence[TensorType]) -> float:
    return sum(math.prod(map(count, t.shape)) for t in types)


def flops_per_element(flops: float) -> Callable[..., float]:
    """Cost of an elementwise primitive."""

    def rule(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Any) -> float:
        return flops * elements(outputs)

    return rule


def free(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attributes: Any) -> float:
    """Cost of what only moves or names data."""
    return 0.0


def bytes_moved(inputs: Sequence[TensorType], outputs: Sequence[TensorType]) -> float:
    """Bytes read and written if nothing is fused."""
    from trilobite.base.dtypes import bits

    return sum(count(t.size) * bits(t.dtype) / 8 for t in (*inputs, *outputs))


def normal_axes(name: str, axes: Sequence[int], ndim: int) -> tuple[int, ...]:
    """Axes as distinct numbers within range, sorted."""
    out = []
    for a in axes:
        if not -ndim <= a < ndim:
            raise ShapeError(
                f"{name}: axis {a} is out of range",
                where=user_location(),
                expected=f"{-ndim} <= axis < {ndim}",
            )
        out.append(a % ndim)
    if len(set(out)) != len(out):
        raise ShapeError(f"{name}: the axes {tuple(axes)} name one axis twice", where=user_location())
    return tuple(sorted(out))


# -- formats that NumPy computes in a wider one ------------------------------------------------------------

_BYTES = {int4: int8, uint4: uint8}
OWN = 256  # NumPy numbers dtypes that are not its own, here those of ml_dtypes, from there on


def in_bytes(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` for 4-bit integers too: NumPy has no loops for them, so bytes compute and the result wraps
    around.
    """

    def rule(*xs: Any, **attributes: Any) -> Any:
        dtype = xs[0].dtype
        byte = _BYTES.get(dtype) if dtype.num >= OWN else None
        if byte is None:
            return fn(*xs, **attributes)
        return np.asarray(fn(*(x.astype(byte) for x in xs), **attributes)).astype(dtype)

    rule.for_numpys_dtypes = fn  # type: ignore[attr-defined]
    return rule


_formats: Any = ml_dtypes  # its functions carry no types


def cast_to(x: Value, dtype: DType) -> Value:
    return x if x.dtype == dtype else table["cast"](x, dtype=dtype)


def conj(x: Value) -> Value:
    return table["conj"](x) if is_complex(x.dtype) else x


@cache
def integer_range(dtype: DType) -> tuple[int, int]:
    """The lowest and the highest integer of a dtype."""
    info = _formats.iinfo(dtype)
    return int(info.min), int(info.max)


@cache
def float_range(dtype: DType) -> tuple[float, float]:
    """The lowest and the highest finite number of a dtype."""
    info = _formats.finfo(dtype)
    return float(info.min), float(info.max)


def sortable(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same values in a dtype that NumPy orders with NaN last; ml_dtypes' own order has no place for
    NaN.
    """
    return x.astype(_BYTES.get(x.dtype, float32)) if x.dtype.num >= OWN else x
