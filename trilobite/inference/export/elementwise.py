"""Elementwise primitives as ONNX nodes: one row each.

Enters: an equation whose operands have equal shapes. Leaves: nodes on tensors that broadcast to that shape.
Where ONNX leaves something open that the primitive fixes (division of integers by zero, the sign of a
remainder), nodes are added that settle it. A float cast to an integer that cannot hold it is open in ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base.dtypes import (
    bits,
    bool_,
    float32,
    int32,
    int64,
    is_float,
    is_integer,
    is_signed,
    is_unsigned,
)
from trilobite.inference.export.scope import Refused, Scope, onnx_type
from trilobite.ir.graph import Equation

Write = Callable[..., str]  # (scope, equation, *tensors) -> tensor
Rule = Callable[[Scope, Equation], None]


def pointwise(write: Write) -> Rule:
    """A rule from what it writes for tensors that broadcast."""

    def rule(s: Scope, e: Equation) -> None:
        names, loose = s.loose(e.inputs)
        s.finish(e.outputs[0], write(s, e, *names), loose)

    return rule


def node(op: str, **attrs: Any) -> Rule:
    return pointwise(lambda s, e, *x: s.emit(op, *x, **attrs))


def _same(s: Scope, e: Equation) -> None:
    s.alias(e.outputs[0], e.inputs[0])


def _dtype(e: Equation) -> Any:
    return e.inputs[0].type.dtype


def _c(s: Scope, e: Equation, value: Any) -> str:
    """A number in the dtype of the operands."""
    return s.constant(value, _dtype(e))


def of_floats(op: str) -> Rule:
    """Rounding: integers are whole already."""
    rule = node(op)
    return lambda s, e: (rule if is_float(_dtype(e)) else _same)(s, e)


def of_bools(on_bools: str, otherwise: str) -> Rule:
    return pointwise(lambda s, e, *x: s.emit(on_bools if _dtype(e) == bool_ else otherwise, *x))


# -- arithmetic ----------------------------------------------------------------------------------------------


def _neg(s: Scope, e: Equation, x: str) -> str:
    return s.emit("Sub", _c(s, e, 0), x) if is_unsigned(_dtype(e)) else s.emit("Neg", x)


def _guarded(s: Scope, e: Equation, y: str) -> tuple[str, str]:
    """A divisor without zeros, and where they were; no guard for a divisor that is known to have none."""
    known = s.known.get(e.inputs[1])
    if known is not None and known.all():
        return y, ""
    zero = s.emit("Equal", y, _c(s, e, 0))
    return s.emit("Where", zero, _c(s, e, 1), y), zero


def _integer(s: Scope, e: Equation, x: str, y: str, quotient: bool) -> str:
    """The remainder has the sign of y; the quotient of Div is one too much where that takes a correction."""
    safe, zero = _guarded(s, e, y)
    out = s.emit("Mod", x, safe)
    if quotient:
        down = s.emit("Div", x, safe)
        if not is_unsigned(_dtype(e)):
            left = s.emit("Sub", x, s.emit("Mul", down, safe))
            other = s.emit("Not", s.emit("Equal", left, out))
            down = s.emit("Sub", down, s.emit("Cast", other, to=onnx_type(_dtype(e))))
        out = down
    return s.emit("Where", zero, _c(s, e, 0), out) if zero else out


def _pow(s: Scope, e: Equation, x: str, y: str) -> str:
    """A negative power of an integer is 0, but of 1 and -1."""
    if is_integer(_dtype(e)) and _dtype(e) not in (int32, int64):
        raise Refused(f"ONNX has no powers of {_dtype(e).name}")
    known = s.known.get(e.inputs[1])
    if not is_signed(_dtype(e)) or (known is not None and (known >= 0).all()):
        return s.emit("Pow", x, y)
    zero, one = _c(s, e, 0), _c(s, e, 1)
    whole = s.emit("Pow", x, s.emit("Max", y, zero))
    odd = s.emit("Sub", one, s.emit("Mul", _c(s, e, 2), s.emit("Mod", y, _c(s, e, 2))))
    unit = s.emit("Where", s.emit("Equal", x, _c(s, e, -1)), odd, zero)
    unit = s.emit("Where", s.emit("Equal", x, one), one, unit)
    return s.emit("Where", s.emit("Less", y, zero), unit, whole)


def _floor_div(s: Scope, e: Equation, x: str, y: str) -> str:
    if is_integer(_dtype(e)):
        return _integer(s, e, x, y, True)
    return s.emit("Floor", s.emit("Div", x, y))


def _rem(s: Scope, e: Equation, x: str, y: str) -> str:
    if is_integer(_dtype(e)):
        return _integer(s, e, x, y, False)
    return s.emit("Sub", x, s.emit("Mul", y, s.emit("Floor", s.emit("Div", x, y))))


def _hypot(s: Scope, e: Equation, x: str, y: str) -> str:
    """The larger one times sqrt(1 + ratio²): nothing overflows on the way."""
    a, b = s.emit("Abs", x), s.emit("Abs", y)
    big, small = s.emit("Max", a, b), s.emit("Min", a, b)
    none = s.emit("Equal", big, _c(s, e, 0))
    ratio = s.emit("Div", small, s.emit("Where", none, _c(s, e, 1), big))
    return s.emit("Mul", big, s.emit("Sqrt", s.emit("Add", s.emit("Mul", ratio, ratio), _c(s, e, 1))))


def _negative(s: Scope, e: Equation, x: str) -> str:
    """Is the sign bit set? Of -0.0 the inverse is negative."""
    below = s.emit("Less", x, _c(s, e, 0))
    if not is_float(_dtype(e)):
        return below
    zero = s.emit("Equal", x, _c(s, e, 0))
    return s.emit("Or", below, s.emit("And", zero, s.emit("Less", s.emit("Reciprocal", x), _c(s, e, 0))))


def _copysign(s: Scope, e: Equation, x: str, y: str) -> str:
    a = s.emit("Abs", x)
    return s.emit("Where", _negative(s, e, y), s.emit("Neg", a), a)


def _trunc(s: Scope, e: Equation) -> None:
    if not is_float(_dtype(e)):
        return _same(s, e)
    return pointwise(
        lambda s, e, x: s.emit("Where", s.emit("Less", x, _c(s, e, 0)), s.emit("Ceil", x), s.emit("Floor", x))
    )(s, e)


# -- exponentials: what has no cancellation here has none there ----------------------------------------------


def _expm1(s: Scope, e: Equation, x: str) -> str:
    """(u - 1)·x/log u with u = exp(x), which is exact to rounding; x where u is 1, u - 1 where x is far
    from 0."""
    one = _c(s, e, 1)
    u = s.emit("Exp", x)
    less = s.emit("Sub", u, one)
    still = s.emit("Equal", u, one)
    far = s.emit("Greater", s.emit("Abs", x), _c(s, e, 1))
    log = s.emit("Log", s.emit("Where", s.emit("Or", still, far), _c(s, e, 2), u))
    near = s.emit("Where", still, x, s.emit("Div", s.emit("Mul", less, x), log))
    return s.emit("Where", far, less, near)


def _log1p_of(s: Scope, x: str, dtype: Any) -> str:
    """log(u)·x/(u - 1) with u = 1 + x; x where u is 1, log u where x is far from 0."""
    one = s.constant(1, dtype)
    u = s.emit("Add", x, one)
    still = s.emit("Equal", u, one)
    far = s.emit("Greater", s.emit("Abs", x), s.constant(0.5, dtype))
    below = s.emit("Where", s.emit("Or", still, far), one, s.emit("Sub", u, one))
    log = s.emit("Log", u)
    near = s.emit("Where", still, x, s.emit("Div", s.emit("Mul", log, x), below))
    return s.emit("Where", far, log, near)


def _logaddexp(s: Scope, e: Equation, x: str, y: str) -> str:
    top = s.emit("Max", x, y)
    apart = s.emit("Abs", s.emit("Sub", x, y))
    sum_ = s.emit("Add", top, _log1p_of(s, s.emit("Exp", s.emit("Neg", apart)), _dtype(e)))
    return s.emit("Where", s.emit("Equal", x, y), s.emit("Add", x, _c(s, e, np.log(2.0))), sum_)


def _scaled_log(base: float) -> Rule:
    return pointwise(lambda s, e, x: s.emit("Mul", s.emit("Log", x), _c(s, e, 1 / np.log(base))))


def _atan2(s: Scope, e: Equation, y: str, x: str) -> str:
    """The angle of y/x, half a turn further where x is negative."""
    zero, pi = _c(s, e, 0), _c(s, e, np.pi)
    on_axis = s.emit("Equal", x, zero)
    angle = s.emit("Atan", s.emit("Div", y, s.emit("Where", on_axis, _c(s, e, 1), x)))
    turned = s.emit("Where", _negative(s, e, y), s.emit("Sub", angle, pi), s.emit("Add", angle, pi))
    inside = s.emit("Where", _negative(s, e, x), turned, angle)
    half = s.emit("Mul", s.emit("Sign", y), _c(s, e, np.pi / 2))
    level = s.emit("Equal", y, zero)
    return s.emit("Where", s.emit("And", on_axis, s.emit("Not", level)), half, inside)


# -- comparison and bits -------------------------------------------------------------------------------------


def _ordered(op: str) -> Rule:
    """Order of bools: as of 0 and 1."""

    def write(s: Scope, e: Equation, *x: str) -> str:
        if _dtype(e) == bool_:
            x = tuple(s.emit("Cast", v, to=onnx_type(np.dtype(np.int32))) for v in x)
        return s.emit(op, *x)

    return pointwise(write)


def _finite(s: Scope, e: Equation, x: str) -> str:
    if not is_float(_dtype(e)):
        return s.emit("Equal", x, x)
    x = s.cast(x, _dtype(e), float32) if _dtype(e).itemsize < 2 else x
    return s.emit("Not", s.emit("Or", s.emit("IsNaN", x), s.emit("IsInf", x)))


def _is(op: str) -> Rule:
    def write(s: Scope, e: Equation, x: str) -> str:
        return s.emit(op, x) if is_float(_dtype(e)) else s.emit("Not", s.emit("Equal", x, x))

    return pointwise(write)


def _shift(direction: str) -> Rule:
    def write(s: Scope, e: Equation, x: str, n: str) -> str:
        if bits(_dtype(e)) < 8:
            raise Refused(f"BitShift is not defined on {_dtype(e).name}")
        if direction == "RIGHT" and not is_unsigned(_dtype(e)):
            return _signed_to_the_right(s, e, x, n)
        return _shifted(s, e, x, n, direction)

    return pointwise(write)


def _shifted(s: Scope, e: Equation, x: str, n: str, direction: str) -> str:
    """Of numbers that are not negative; nothing remains when all bits have left."""
    dtype, zero = _dtype(e), _c(s, e, 0)
    far = s.emit("GreaterOrEqual", n, _c(s, e, dtype.itemsize * 8))
    word = None if is_unsigned(dtype) else np.dtype(f"u{dtype.name}")
    if word is not None:
        far = s.emit("Or", far, s.emit("Less", n, zero))
    n = s.emit("Where", far, zero, n)
    if word is None:
        moved = s.emit("BitShift", x, n, direction=direction)
    else:  # the same bits without a sign
        x, n = (s.emit("Cast", v, to=onnx_type(word)) for v in (x, n))
        moved = s.emit("Cast", s.emit("BitShift", x, n, direction=direction), to=onnx_type(dtype))
    return s.emit("Where", far, zero, moved)


def _signed_to_the_right(s: Scope, e: Equation, x: str, n: str) -> str:
    """Negative numbers are turned over, shifted, and turned back."""
    negative, ones = s.emit("Less", x, _c(s, e, 0)), _c(s, e, -1)
    moved = _shifted(s, e, s.emit("Where", negative, s.emit("Sub", ones, x), x), n, "RIGHT")
    return s.emit("Where", negative, s.emit("Sub", ones, moved), moved)


def _cast(s: Scope, e: Equation) -> None:
    dtype = e.attributes["dtype"]
    if dtype == _dtype(e):
        return _same(s, e)
    return pointwise(lambda s, e, x: s.emit("Cast", x, to=onnx_type(dtype)))(s, e)


# -- numbers as they are -------------------------------------------------------------------------------------


def _constant(s: Scope, e: Equation) -> None:
    array = e.attributes["value"].array
    s.set(e.outputs[0], s.model.constant(array))
    s.known[e.outputs[0]] = array


def _full(s: Scope, e: Equation) -> None:
    number = np.asarray(e.attributes["value"]).astype(e.attributes["dtype"])
    s.known[e.outputs[0]] = number
    name = s.model.constant(number)
    s.set_loose(e.outputs[0], name)


def _iota(s: Scope, e: Equation) -> None:
    shape, axis, dtype = (e.attributes[k] for k in ("shape", "axis", "dtype"))
    onnx_type(dtype)
    n = shape[axis]
    if isinstance(n, int) and n <= 4096:
        line = s.model.constant(np.arange(n).astype(dtype))
    else:
        end = s.emit("Squeeze", s.model.extent(n), s.ints(0))
        line = s.emit("Range", s.constant(0, np.int64), end, s.constant(1, np.int64))
        line = s.cast(line, np.dtype(np.int64), dtype)
    after = len(shape) - axis - 1
    if after:
        line = s.emit("Unsqueeze", line, s.ints(*range(1, after + 1)))
    s.set_loose(e.outputs[0], line)


ROWS: dict[str, Rule] = {
    **{
        name: node(op)
        for name, op in (
            row.split(":")
            for row in "add:Add sub:Sub mul:Mul div:Div sqrt:Sqrt abs:Abs sign:Sign exp:Exp log:Log "
            "sin:Sin cos:Cos tan:Tan asin:Asin acos:Acos atan:Atan sinh:Sinh cosh:Cosh tanh:Tanh asinh:Asinh "
            "acosh:Acosh atanh:Atanh erf:Erf eq:Equal select:Where".split()
        )
    },
    "neg": pointwise(_neg),
    "pow": pointwise(_pow),
    "floor_div": pointwise(_floor_div),
    "rem": pointwise(_rem),
    "rsqrt": pointwise(lambda s, e, x: s.emit("Reciprocal", s.emit("Sqrt", x))),
    "hypot": pointwise(_hypot),
    "copysign": pointwise(_copysign),
    "floor": of_floats("Floor"),
    "ceil": of_floats("Ceil"),
    "round": of_floats("Round"),
    "trunc": _trunc,
    "exp2": pointwise(lambda s, e, x: s.emit("Pow", _c(s, e, 2), x)),
    "expm1": pointwise(_expm1),
    "log2": _scaled_log(2.0),
    "log10": _scaled_log(10.0),
    "log1p": pointwise(lambda s, e, x: _log1p_of(s, x, _dtype(e))),
    "logaddexp": pointwise(_logaddexp),
    "atan2": pointwise(_atan2),
    "erfc": pointwise(lambda s, e, x: s.emit("Sub", _c(s, e, 1), s.emit("Erf", x))),
    "ne": pointwise(lambda s, e, x, y: s.emit("Not", s.emit("Equal", x, y))),
    "lt": _ordered("Less"),
    "le": _ordered("LessOrEqual"),
    "gt": _ordered("Greater"),
    "ge": _ordered("GreaterOrEqual"),
    "maximum": of_bools("Or", "Max"),
    "minimum": of_bools("And", "Min"),
    "is_finite": pointwise(_finite),
    "is_nan": _is("IsNaN"),
    "is_inf": _is("IsInf"),
    "signbit": pointwise(_negative),
    "not": of_bools("Not", "BitwiseNot"),
    "and": of_bools("And", "BitwiseAnd"),
    "or": of_bools("Or", "BitwiseOr"),
    "xor": of_bools("Xor", "BitwiseXor"),
    "shift_left": _shift("LEFT"),
    "shift_right": _shift("RIGHT"),
    "cast": _cast,
    "constant": _constant,
    "full": _full,
    "iota": _iota,
    "stop_gradient": _same,
    "barrier": _same,
}
