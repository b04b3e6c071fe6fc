"""Elementwise operations made of several primitives."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError
from trilobite.base.locations import user_location
from trilobite.framework.autocast import nobody_looks
from trilobite.framework.ops.dtypes import finfo, iinfo
from trilobite.framework.ops.meeting import (
    INEXACTS,
    NUMERIC,
    ORDERED,
    REAL,
    REAL_FLOATS,
    Accepts,
    accepted,
    as_value,
    astype,
    broadcast_shapes,
    broadcast_to,
    plain,
    together,
)  # fmt: skip
from trilobite.framework.ops.registry import Weak, alias, op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.transforms.composite import composite
from trilobite.ir.types import Shape

G = "elementwise"
p = table


def full(shape: Shape, dtype: dt.DType, value: Any) -> Value:
    return p["full"](shape=tuple(shape), dtype=dtype, value=value)


def like(x: Value, value: Any) -> Value:
    """One number in the shape and dtype of x."""
    return full(x.shape, x.dtype, value)


def in_dtype(x: Any, name: str, accepts: Accepts) -> Value:
    """An operand in a dtype that the operation takes."""
    x = as_value(x)
    return astype(x, accepted(name, accepts, x.dtype))


# -- numbers ---------------------------------------------------------------------------------------------


@op(G, methods=("positive", "__pos__"), plan=True)
def positive(x: Any, /) -> Value:
    """+x."""
    return in_dtype(x, "positive", NUMERIC)


@op(G, plan=True)
def square(x: Any, /) -> Value:
    """x * x."""
    x = in_dtype(x, "square", NUMERIC)
    return p["mul"](x, x)


@op(G, plan=True)
def reciprocal(x: Any, /) -> Value:
    """1 / x."""
    x = in_dtype(x, "reciprocal", INEXACTS)
    return p["div"](like(x, 1), x)


@op(G, plan=True)
def round(x: Any, /, *, decimals: int = 0) -> Value:
    """Rounded to the nearest whole number (or to `decimals` places), halves to even."""
    x = in_dtype(x, "round", NUMERIC)
    if decimals == 0 or x.dtype in dt.INTEGERS:
        return p["round"](x)
    scale = like(x, 10.0 ** builtins.abs(decimals))
    if decimals < 0:
        return p["mul"](p["round"](p["div"](x, scale)), scale)
    return p["div"](p["round"](p["mul"](x, scale)), scale)


def _bound(number: Any, dtype: dt.DType) -> Any:
    """A bound as clip takes it: an integer beyond what the dtype holds bounds nothing more than the dtype
    itself.
    """
    if isinstance(number, (Traced, np.ndarray, Weak)):
        return number
    number = plain(number)
    if type(number) is int and dtype in dt.INTEGERS:
        info = iinfo(dtype)
        return builtins.max(info.min, builtins.min(info.max, number))
    return number


@op(G, methods=("clip", "clamp"), plan=True)
def clip(x: Any, /, min: Any = None, max: Any = None) -> Value:
    """x, but not below `min` and not above `max` (which wins); NaN if any of them is. The slope at a bound is
    1.
    """
    x = in_dtype(x, "clip", ORDERED)
    dtype = x.dtype
    low, high = (None if b is None else _bound(b, dtype) for b in (min, max))
    x, *bounds = together(x, *(b for b in (low, high) if b is not None))
    if low is not None:
        x = _limited(x, bounds[0], low, "lt", "maximum")
    if high is not None:
        x = _limited(x, bounds[-1], high, "gt", "minimum")
    return _back(x, dtype)


def _limited(x: Value, bound: Value, given: Any, beyond: str, extreme: str) -> Value:
    """The bound where x is beyond it. Where slopes may be asked for, a choice: on the bound `maximum` would
    share them.
    """
    if x.dtype not in dt.FLOATS or type(x) is type(bound) is np.ndarray:
        return p[extreme](x, bound)
    outside = p[beyond](x, bound)
    if isinstance(given, (Traced, np.ndarray, Weak)) or given != given:
        outside = p["or"](outside, p["ne"](bound, bound))
    return p["select"](outside, bound, x)


def _back(x: Value, dtype: dt.DType) -> Value:
    """Bounds of a wider dtype do not widen the result, of a higher kind they do. What the dtype does not hold
    becomes its own limit.
    """
    if x.dtype == dtype or dt.kind(x.dtype) != dt.kind(dtype):
        return x
    if dtype in dt.INTEGERS:
        least, most = iinfo(dtype).min, iinfo(dtype).max
        held = iinfo(x.dtype)
        if held.min < least:
            x = p["maximum"](x, like(x, least))
        if held.max > most:
            x = p["minimum"](x, like(x, most))
    return astype(x, dtype)


@op(G, plan=True)
def lerp(start: Any, end: Any, weight: Any) -> Value:
    """start + weight * (end - start)."""
    start, end, weight = together(start, end, weight)
    return p["add"](start, p["mul"](weight, p["sub"](end, start)))


@op(G, plan=True)
def fmod(x1: Any, x2: Any, /) -> Value:
    """The remainder of division rounded towards zero: it has the sign of x1."""
    x, y = together(x1, x2)
    dtype = accepted("fmod", REAL, x.dtype)
    if dtype in dt.FLOATS:
        return _float_fmod(x, y)
    zero, r = like(x, 0), p["rem"](x, y)
    turned = p["and"](p["xor"](p["lt"](x, zero), p["lt"](y, zero)), p["ne"](r, zero))
    return p["select"](turned, p["sub"](r, y), r)


def _float_fmod(x: Value, y: Value) -> Value:
    """The value by magnitudes, which is exact; the slopes 1 and -trunc(x / y), also at multiples of y, by the
    remainder with the sign of y.
    """
    out = p["copysign"](p["rem"](p["abs"](x), p["abs"](y)), x)
    if type(x) is type(y) is np.ndarray:
        return out
    r, zero = p["rem"](x, y), like(x, 0)
    turned = p["and"](p["xor"](p["lt"](x, zero), p["lt"](y, zero)), p["ne"](r, zero))
    moved = p["select"](turned, p["sub"](r, y), r)
    still = p["stop_gradient"]
    nothing = p["select"](p["is_finite"](moved), p["sub"](still(moved), moved), p["sub"](still(x), x))
    return p["sub"](still(out), nothing)  # +0 taken away leaves the sign of a zero


@op(G, plan=True)
def frac(x: Any, /) -> Value:
    """x - trunc(x)."""
    x = in_dtype(x, "frac", REAL_FLOATS)
    return p["sub"](x, p["trunc"](x))


@op(G, methods=(), plan=True)
def deg2rad(x: Any, /) -> Value:
    """Degrees as radians."""
    x = in_dtype(x, "deg2rad", REAL_FLOATS)
    return p["mul"](x, like(x, math.pi / 180))


@op(G, methods=(), plan=True)
def rad2deg(x: Any, /) -> Value:
    """Radians as degrees."""
    x = in_dtype(x, "rad2deg", REAL_FLOATS)
    return p["mul"](x, like(x, 180 / math.pi))


@op(G, plan=True)
def nan_to_num(
    x: Any, /, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Value:
    """NaN and infinities replaced by numbers; by default 0 and the largest finite ones."""
    x = as_value(x)
    if x.dtype not in dt.FLOATS:
        return x
    info = finfo(x.dtype)
    x, zero = p["select"](p["is_nan"](x), like(x, nan), x), like(x, 0)
    infinite = p["is_inf"](x)
    high = p["and"](infinite, p["gt"](x, zero))
    low = p["and"](infinite, p["lt"](x, zero))
    x = p["select"](high, like(x, info.max if posinf is None else posinf), x)
    return p["select"](low, like(x, info.min if neginf is None else neginf), x)


# -- complex numbers -------------------------------------------------------------------------------------


@op(G, methods=("conj", "conjugate"), plan=True)
def conj(x: Any, /) -> Value:
    """The complex conjugate; a real number itself."""
    x = in_dtype(x, "conj", NUMERIC)
    return p["conj"](x) if x.dtype in dt.COMPLEX else x


@op(G, methods=(), plan=True)
def real(x: Any, /) -> Value:
    """The real part."""
    x = in_dtype(x, "real", NUMERIC)
    return p["real"](x) if x.dtype in dt.COMPLEX else x


@op(G, methods=(), plan=True)
def imag(x: Any, /) -> Value:
    """The imaginary part: 0 for real numbers."""
    x = in_dtype(x, "imag", NUMERIC)
    return p["imag"](x) if x.dtype in dt.COMPLEX else like(x, 0)


@op(G, plan=True)
def angle(x: Any, /) -> Value:
    """The angle of a complex number, from -π to π; 0 or π for real ones."""
    x = in_dtype(x, "angle", INEXACTS)
    if x.dtype in dt.COMPLEX:
        return p["atan2"](p["imag"](x), p["real"](x))
    return p["select"](p["lt"](x, like(x, 0)), like(x, math.pi), p["select"](p["ne"](x, x), x, like(x, 0)))


@op(G, methods=(), plan=True)
def complex(real: Any, imag: Any) -> Value:
    """real + i·imag."""
    re, im = together(real, imag)
    if re.dtype not in (dt.float32, dt.float64):
        raise DTypeError(
            f"complex of {re.dtype}",
            where=user_location(),
            expected="float32 or float64",
            remedy="cast the parts first",
        )
    return p["complex"](re, im)


# -- truth -----------------------------------------------------------------------------------------------


def truth(x: Any) -> Value:
    """Booleans: True where x is not zero."""
    x = as_value(x)
    return x if x.dtype == dt.bool_ else p["ne"](x, like(x, 0))


def _logical(x1: Any, x2: Any, primitive: str) -> Value:
    x, y = truth(x1), truth(x2)
    shape = broadcast_shapes(x.shape, y.shape)
    return p[primitive](broadcast_to(x, shape), broadcast_to(y, shape))


@op(G, plan=True)
def logical_and(x1: Any, x2: Any, /) -> Value:
    """x1 and x2, element by element; what is not zero is true."""
    return _logical(x1, x2, "and")


@op(G, plan=True)
def logical_or(x1: Any, x2: Any, /) -> Value:
    """x1 or x2, element by element; what is not zero is true."""
    return _logical(x1, x2, "or")


@op(G, plan=True)
def logical_xor(x1: Any, x2: Any, /) -> Value:
    """One of x1 and x2 but not both, element by element; what is not zero is true."""
    return _logical(x1, x2, "xor")


@op(G, plan=True)
def logical_not(x: Any, /) -> Value:
    """Is it zero?"""
    return p["not"](truth(x))


@op(G, plan=True)
def isclose(x1: Any, x2: Any, /, *, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Value:
    """|x1 - x2| <= atol + rtol * |x2|, element by element."""
    x, y = together(x1, x2)
    same = p["eq"](x, y)
    if x.dtype not in dt.INEXACT:
        if x.dtype == dt.bool_:
            return same
        x, y = astype(x, dt.float64), astype(y, dt.float64)
    gap, size = p["abs"](p["sub"](x, y)), p["abs"](y)
    near = p["le"](gap, p["add"](like(size, atol), p["mul"](like(size, rtol), size)))
    finite = p["and"](p["is_finite"](x), p["is_finite"](y))
    out = p["or"](same, p["and"](near, finite))
    return p["or"](out, p["and"](p["is_nan"](x), p["is_nan"](y))) if equal_nan else out


# -- of neural networks ----------------------------------------------------------------------------------


def _sigmoid_parts(x: Value) -> tuple[Value, Value]:
    """exp(x) and 1, both divided by the larger of the two, so neither overflows; small floats widened.

    Chosen by `select`, not by absolute values: each branch is smooth at 0, to any derivative.
    """
    x = astype(x, dt.accumulator(x.dtype))
    below, one = p["lt"](x, like(x, 0)), like(x, 1)
    small = p["exp"](p["select"](below, x, p["neg"](x)))
    return p["select"](below, small, one), p["select"](below, one, small)


def _sigmoid_forward(x: Value) -> tuple[Value, Sequence[Value]]:
    return _sigmoid(x), (x,)


def _sigmoid_backward(residuals: Sequence[Value], cotangents: Sequence[Value]) -> list[Value]:
    """sigmoid(x) * sigmoid(-x): accurate in both tails."""
    up, down = _sigmoid_parts(residuals[0])
    total = p["add"](up, down)
    slope = p["div"](p["div"](p["mul"](up, down), total), total)
    return [astype(p["mul"](astype(cotangents[0], slope.dtype), slope), residuals[0].dtype)]


@composite("sigmoid", _sigmoid_forward, _sigmoid_backward)
def _sigmoid(x: Value) -> Value:
    up, down = _sigmoid_parts(x)
    return astype(p["div"](up, p["add"](up, down)), x.dtype)


@op(G, plan=True)
def sigmoid(x: Any, /) -> Value:
    """1 / (1 + exp(-x)), accurate for small and large x."""
    return _sigmoid(in_dtype(x, "sigmoid", REAL_FLOATS))


def plain_relu(x: Any) -> Value | None:
    """relu of what is just an array of floats that NumPy has itself."""
    if (zero := _ZEROS.get(x.dtype)) is None or not nobody_looks():
        return None
    out = x.copy()
    np.putmask(out, np.less_equal(x, zero), zero)
    return out


_ZEROS = {np.dtype(name): np.zeros((), name) for name in ("float16", "float32", "float64")}


@op(G, short=plain_relu, plan=True)
def relu(x: Any, /) -> Value:
    """x where it is positive, else 0; its slope at 0 is 0."""
    x = in_dtype(x, "relu", ORDERED)
    zero = like(x, 0)
    return p["select"](p["le"](x, zero), zero, x)


@op(G, plan=True)
def logit(x: Any, /, eps: float | None = None) -> Value:
    """log(x / (1 - x)), the inverse of sigmoid; with `eps`, x is kept that far from 0 and 1."""
    x = in_dtype(x, "logit", REAL_FLOATS)
    if eps is not None:
        x = clip(x, eps, 1 - eps)
    return p["sub"](p["log"](x), p["log1p"](p["neg"](x)))


alias("clamp", "clip")
alias("conjugate", "conj")
