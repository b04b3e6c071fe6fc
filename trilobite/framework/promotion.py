"""Which dtype two operands meet in. One table, printed in docs/promotion.md.

Within a kind the wider wins; signed with unsigned give the next wider signed; across kinds the higher kind
wins with the width it has (int64 with float32 is float32). Python scalars are weak: they take the tensor's
dtype unless their kind is higher.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType
from trilobite.base.errors import DTypeError

_RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}
_SIGNED: list[DType] = [dt.int4, dt.int8, dt.int16, dt.int32, dt.int64]
_UNSIGNED: list[DType] = [dt.uint4, dt.uint8, dt.uint16, dt.uint32, dt.uint64]
_FLOAT_WIDTH = {dt.float16: 2, dt.bfloat16: 2, dt.float32: 3, dt.float64: 4}
Scalar = (bool, int, float, complex)


@cache
def promote(a: DType, b: DType) -> DType:
    """The common dtype of two tensors."""
    if a == b:
        return a
    ka, kb = dt.kind(a), dt.kind(b)
    if _RANK[ka] > _RANK[kb]:
        a, b, ka, kb = b, a, kb, ka
    if kb == "complex":
        return dt.complex128 if dt.complex128 in (a, b) or a == dt.float64 else dt.complex64
    if ka != kb:
        return b
    return _wider_int(a, b) if ka == "int" else _wider_float(a, b)


def _wider_int(a: DType, b: DType) -> DType:
    for family in (_SIGNED, _UNSIGNED):
        if a in family and b in family:
            return family[max(family.index(a), family.index(b))]
    signed, unsigned = (a, b) if a in _SIGNED else (b, a)
    at = max(_SIGNED.index(signed), _UNSIGNED.index(unsigned) + 1)
    if at >= len(_SIGNED):
        raise _no_common(a, b, "x.astype(tb.int64) or x.astype(tb.float64)")
    return _SIGNED[at]


def _wider_float(a: DType, b: DType) -> DType:
    wa, wb = _FLOAT_WIDTH.get(a, 1), _FLOAT_WIDTH.get(b, 1)
    if wa != wb:
        return a if wa > wb else b
    if wa == 2:
        return dt.float32
    raise _no_common(a, b, "x.astype(tb.float32) first")


def _no_common(a: DType, b: DType, remedy: str) -> DTypeError:
    return DTypeError(
        f"{a.name} and {b.name} have no common dtype", expected="a dtype that holds both", remedy=remedy
    )


@cache
def promote_scalar(tensor: DType, kind: Any) -> DType:
    """The dtype of an operation between a tensor and a Python scalar of this type."""
    if kind is bool:
        return tensor
    held = dt.kind(tensor)
    if kind is int:
        return dt.default_int if held == "bool" else tensor
    if kind is float:
        return tensor if held in ("float", "complex") else dt.default_float
    return tensor if held == "complex" else dt.complex_of(tensor)


def scalar_dtype(kind: type) -> DType:
    """The dtype of a Python scalar on its own."""
    return {bool: dt.bool_, int: dt.default_int, float: dt.default_float, complex: dt.default_complex}[kind]


def plain_kind(number: Any) -> Any:
    """bool, int, float or complex: the kind of Python number that this is."""
    return next(kind for kind in (bool, int, float, complex) if isinstance(number, kind))


def result_type(*operands: Any) -> DType:
    """The dtype that tensors, dtypes and Python scalars meet in."""
    strong = [d for d in (_strong(o) for o in operands) if d is not None]
    if not strong:
        kinds = [k for k in (complex, float, int, bool) if any(isinstance(o, k) for o in operands)]
        if not kinds:
            raise DTypeError("result_type needs at least one tensor, dtype or number")
        return scalar_dtype(kinds[0])
    out = strong[0]
    for d in strong[1:]:
        out = promote(out, d)
    for o in operands:
        if isinstance(o, Scalar):
            out = promote_scalar(out, plain_kind(o))
    return out


def _strong(o: Any) -> DType | None:
    if isinstance(o, Scalar):
        return None
    return o.dtype if hasattr(o, "dtype") else dt.as_dtype(o)
