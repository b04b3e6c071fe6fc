"""Arithmetic over values for the bodies of composites; numbers and smaller shapes join as in `tb.add`.

Enter: arrays, traced values, Python numbers. Leave: values. Tensors do not come here.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.meeting import as_value, astype, broadcast_to, scalar, together
from trilobite.framework.promotion import promote_scalar
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.types import Dim, Shape, size_of

NUMBERS = (int, float)
_PLAIN = frozenset({bool, int, float})
ndarray = np.ndarray


def _eager() -> bool:
    """Are operations on arrays just computed: nothing records, nobody watches?"""
    ctx = entry.threads.context
    return ctx.recorder is None and ctx.watch is None


def _beside(x: Any, dtype: dt.DType) -> Any:
    """x as an array that meets arrays of this dtype as it is, or None if it has to be promoted first."""
    if type(x) is ndarray:
        return x if x.dtype is dtype else None
    kind: Any = type(x)
    return scalar(x, dtype) if kind in _PLAIN and promote_scalar(dtype, kind) is dtype else None


def _binary(name: str, plain: Callable[[Any, Any], Any] | None = None) -> Callable[[Any, Any], Value]:
    """A primitive of two operands; `plain` keeps two Python numbers Python numbers, in full precision.

    Arrays of one dtype take a short way: NumPy broadcasts them itself.
    """
    primitive = table[name]
    evaluate = primitive.evaluate

    def apply(x: Any, y: Any) -> Value:
        if plain is not None and isinstance(x, NUMBERS) and isinstance(y, NUMBERS):
            return plain(x, y)
        if type(x) is ndarray and (b := _beside(y, x.dtype)) is not None and _eager():
            return evaluate(x, b)
        if type(y) is ndarray and (a := _beside(x, y.dtype)) is not None and _eager():
            return evaluate(a, y)
        return primitive(*together(x, y))

    apply.__name__ = name
    return apply


def _ordered(name: str) -> Callable[[Any, Any], Value]:
    """A comparison: complex numbers have no order, though NumPy gives them one."""
    compare = _binary(name)

    def apply(x: Any, y: Any) -> Value:
        check_real(f"a comparison ({name})", x, y)
        return compare(x, y)

    apply.__name__ = name
    return apply


def check_real(what: str, *operands: Any) -> None:
    """Raises if an operand is complex."""
    for x in operands:
        if isinstance(dtype := getattr(x, "dtype", None), np.dtype) and dtype.kind == "c":
            raise DTypeError(
                f"{what} of {dtype} numbers",
                where=user_location(),
                expected="real numbers",
                remedy="take x.abs(), x.real or x.imag, or tb.view_as_real(x)",
            )


add, sub = _binary("add", operator.add), _binary("sub", operator.sub)
mul, div = _binary("mul", operator.mul), _binary("div", operator.truediv)
power = _binary("pow")
eq, ne = map(_binary, ("eq", "ne"))
maximum, minimum, lt, le, gt, ge = map(_ordered, ("maximum", "minimum", "lt", "le", "gt", "ge"))
both, either = map(_binary, ("and", "or"))
neg, exp, log, sqrt, rsqrt, tanh = (table[n] for n in ("neg", "exp", "log", "sqrt", "rsqrt", "tanh"))
absolute, expm1, log1p = (table[n] for n in ("abs", "expm1", "log1p"))
stop_gradient, reshape, transpose = table["stop_gradient"], table["reshape"], table["transpose"]


def where(p: Value, x: Any, y: Any) -> Value:
    """x where p, else y, all in one shape."""
    if type(p) is ndarray and _eager():
        dtype = x.dtype if type(x) is ndarray else y.dtype if type(y) is ndarray else None
        if dtype is not None:
            a, b = _beside(x, dtype), _beside(y, dtype)
            if a is not None and b is not None:
                return table["select"].evaluate(p, a, b)
    x, y = together(x, y)
    shape = together(p, table["full"](shape=x.shape, dtype=p.dtype, value=0))[0].shape
    return table["select"](*(broadcast_to(v, shape) for v in (p, x, y)))


def erf(x: Value) -> Value:
    check_real("erf", x)
    return table["erf"](x)


def floating(x: Any) -> Value:
    """x as it is if it has fractions, else in the default float dtype."""
    x = as_value(x)
    return x if dt.is_inexact(x.dtype) else astype(x, dt.default_float)


def wide(x: Value) -> Value:
    """x in the dtype that sums and long formulas of it are computed in."""
    return astype(x, dt.accumulator(x.dtype))


def full_like(x: Value, value: Any) -> Value:
    return table["full"](shape=x.shape, dtype=x.dtype, value=value)


def total(x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """Sum over axes."""
    out = table["reduce_sum"](x, axes=tuple(axes))
    return reshape(out, shape=_kept(x.shape, axes)) if keepdims else out


def largest(x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    out = table["reduce_max"](x, axes=tuple(axes))
    return reshape(out, shape=_kept(x.shape, axes)) if keepdims else out


def average(x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
    """Mean over axes."""
    return div(total(x, axes, keepdims), number(size_of([x.shape[a] for a in axes]), x.dtype))


def number(n: Dim, dtype: dt.DType) -> Any:
    """A size as an operand: a float, or for a symbolic size the value that only a run knows."""
    if isinstance(n, int):
        return float(n)
    ones = table["full"](shape=(n,), dtype=dtype, value=1)
    return table["reduce_sum"](ones, axes=(0,))


def _kept(shape: Shape, axes: Sequence[int]) -> Shape:
    return tuple(1 if i in axes else d for i, d in enumerate(shape))


def along(x: Value, axes: Sequence[int], ndim: int) -> Value:
    """x with its axes at `axes` of a shape of ndim axes, the others of size 1, so that it broadcasts."""
    shape: list[Dim] = [1] * ndim
    for a, d in zip(axes, x.shape, strict=True):
        shape[a] = d
    return reshape(x, shape=tuple(shape))


def window(x: Value, axis: int, start: Dim, stop: Dim, step: int = 1) -> Value:
    """A slice along one axis."""
    at: tuple[list[Dim], list[Dim], list[int]] = [0] * x.ndim, list(x.shape), [1] * x.ndim
    at[0][axis], at[1][axis], at[2][axis] = start, stop, step
    return table["slice"](x, start=tuple(at[0]), stop=tuple(at[1]), step=tuple(at[2]))


def join(values: Sequence[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else table["concatenate"](*values, axis=axis)
