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
from trilobite.base.locations import user_location

_RANK = {"bool": 0, "int": 1, "float": 2, "complex": 3}
_SIGNED: list[DType] = [dt.int4, dt.int8, dt.int16, dt.int32, dt.int64]
_UNSIGNED: list[DType] = [dt.uint4, dt.uint8, dt.uint16, dt.uint32, dt.uint64]
_FLOAT_WIDTH = {dt.float16: 2, dt.bfloat16: 2, dt.float32: 3, dt.float64: 4}
Scalar = (bool, int, float, complex)


@cache
def promote(a: DType, b: DType) -> DType:
    """The common dtype of two tensors."""
    a, b = dt.as_dtype(a), dt.as_dtype(b)
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
    if {a, b} == {dt.float8_e8m0fnu, dt.float16}:
        return dt.float32  # powers of two up to 2^127, beyond what float16 reaches
    if wa != wb:
        return a if wa > wb else b
    if wa == 2:
        return dt.float32
    raise _no_common(a, b, "x.astype(tb.float32) first")


def _no_common(a: DType, b: DType, remedy: str) -> DTypeError:
    return DTypeError(
        f"{a.name} and {b.name} have no common dtype",
        where=user_location(),
        expected="a dtype that holds both",
        remedy=remedy,
    )


@cache
def promote_scalar(tensor: DType, kind: Any) -> DType:
    """The dtype of an operation between a tensor and a Python scalar of this type."""
    tensor = dt.as_dtype(tensor)
    if kind is bool:
        return tensor
    held = dt.kind(tensor)
    if kind is int:
        return dt.default_int if held == "bool" else tensor
    if kind is float:
        return tensor if held in ("float", "complex") else dt.default_float
    if held == "complex":
        return tensor
    return dt.complex_of(tensor) if held == "float" else dt.default_complex


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
        kinds = {plain_kind(o) for o in operands}
        if not kinds:
            raise DTypeError(
                "result_type of nothing",
                where=user_location(),
                expected="at least one tensor, dtype or number",
            )
        return scalar_dtype(next(k for k in (complex, float, int, bool) if k in kinds))
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
    return dt.as_dtype(getattr(o, "dtype", o))


# -- the page ----------------------------------------------------------------------------------------------

_COMMON: tuple[DType, ...] = (
    dt.bool_, dt.int8, dt.int16, dt.int32, dt.int64, dt.uint8, dt.uint16, dt.uint32, dt.uint64, dt.float16,
    dt.bfloat16, dt.float32, dt.float64, dt.complex64, dt.complex128,
)  # fmt: skip
_SMALL: tuple[DType, ...] = (dt.int4, dt.uint4, dt.float4_e2m1fn, *dt.FP8)
_PARTNERS: tuple[DType, ...] = (dt.bool_, dt.int8, dt.uint8, dt.int64, dt.float16, dt.float32, dt.complex64)


def _met(a: DType, b: DType) -> str:
    try:
        return promote(a, b).name
    except DTypeError:
        return "error"


def _grid(rows: tuple[DType, ...], columns: tuple[DType, ...]) -> list[str]:
    lines = ["| | " + " | ".join(f"`{c.name}`" for c in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return lines + [f"| `{r.name}` | " + " | ".join(_met(r, c) for c in columns) + " |" for r in rows]


def page() -> str:
    """The table as a page."""
    kinds = ("bool", "int", "float", "complex")
    scalars = [
        f"| `{d.name}` | " + " | ".join(promote_scalar(d, k).name for k in Scalar) + " |"
        for d in (*_COMMON, *_SMALL)
    ]
    alone = ", ".join(f"`{k.__name__}` `{scalar_dtype(k).name}`" for k in Scalar)
    return "\n".join([
        "# Which dtype two operands meet in",
        "",
        "Generated from `trilobite/framework/promotion.py` by `python -m tools.reference`.",
        "",
        "Within a kind the wider dtype wins, and where no dtype holds both there is an error: nothing is cut",
        "off silently. Signed and unsigned integers meet in the next wider signed one. Across kinds (bool,",
        "integer, float, complex) the higher kind wins with the width it has, so `int64` with `float32` is",
        "`float32`. The Python array API standard fixes the results within a kind and leaves others open.",
        "",
        "## Two tensors",
        "",
        *_grid(_COMMON, _COMMON),
        "",
        "## 4- and 8-bit formats",
        "",
        "They meet wider floats of their kind there, integers in themselves, and each other not at all.",
        "",
        *_grid(_SMALL, _PARTNERS),
        "",
        "## A tensor and a Python number",
        "",
        "A number takes the tensor's dtype unless its kind is higher; then the default of its kind wins.",
        f"Alone, numbers become {alone}. An integer that does not fit into the tensor's dtype is an error.",
        "",
        "| | " + " | ".join(f"`{k}`" for k in kinds) + " |",
        "|---" * 5 + "|",
        *scalars,
        "",
    ])  # fmt: skip
