"""Elementwise primitives: arithmetic, powers and exponentials. Operands have equal shapes and dtypes.

`t` in a derivative is the tangent (or cotangent) of the operand that the rule stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import ALL, COMPLEX, FLOATS, INEXACT, INTEGERS, DType, bool_
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Absent, Primitive, PartialRule, Value, table
from trilobite.ir.primitives.common import batch_elementwise, flops_per_element, same_types
from trilobite.ir.types import TensorType

NUMBERS = ALL - {bool_}


def elementwise(
    name: str,
    operands: str,
    evaluate: Callable[..., Any],
    derivative: Sequence[PartialRule] | Absent,
    *,
    accepts: Collection[DType] = NUMBERS,
    result: DType | None = None,
    flops: float = 1.0,
    doc: str = "",
) -> Primitive:
    """Define an elementwise primitive; `result` is the dtype of the output where it is not that of the operands."""

    def type_rule(*types: TensorType) -> TensorType:
        first = same_types(name, types, accepts)
        return first if result is None else TensorType(first.shape, result)

    return Primitive(
        name, operands, type=type_rule, evaluate=array_rule(evaluate), derivative=derivative,
        batch=batch_elementwise(name), cost=flops_per_element(flops), doc=doc,
    )  # fmt: skip


def constant_like(x: Value, value: float) -> Value:
    """A value of x's shape and dtype, the same everywhere."""
    return table["full"](shape=x.shape, dtype=x.dtype, value=value)


def _scaled(t: Value, factor: float) -> Value:
    return mul(t, constant_like(t, factor))


# -- arithmetic --------------------------------------------------------------------------------------------------------

add = elementwise("add", "x y", np.add, (lambda t: t, lambda t: t))
sub = elementwise("sub", "x y", np.subtract, (lambda t: t, lambda t: neg(t)))
mul = elementwise("mul", "x y", np.multiply, (lambda t, y: mul(t, y), lambda t, x: mul(t, x)))
div = elementwise(
    "div", "x y", np.divide, (lambda t, y: div(t, y), lambda t, y, out: neg(mul(t, div(out, y)))), accepts=INEXACT
)
neg = elementwise("neg", "x", np.negative, (lambda t: neg(t),))


def _pow_x(t: Value, x: Value, y: Value) -> Value:
    """y·x^(y-1), and 0 where y is 0, whatever x is."""
    zero, one = constant_like(y, 0.0), constant_like(y, 1.0)
    still = table["eq"](y, zero)
    power = pow(x, select(still, one, sub(y, one)))
    return mul(t, mul(y, power))


def _pow_y(t: Value, x: Value, y: Value, out: Value) -> Value:
    """out·log x, and 0 where x is 0 and y ≥ 0 (the limit)."""
    zero, one = constant_like(x, 0.0), constant_like(x, 1.0)
    still = table["eq"](x, zero)
    return select(still, zero, mul(t, mul(out, log(select(still, one, x)))))


pow = elementwise("pow", "x y", np.power, (_pow_x, _pow_y), flops=20, accepts=INEXACT | INTEGERS)

# -- exponentials and powers -------------------------------------------------------------------------------------------

exp = elementwise("exp", "x", np.exp, (lambda t, out: mul(t, out),), accepts=INEXACT, flops=10)
log = elementwise("log", "x", np.log, (lambda t, x: div(t, x),), accepts=INEXACT, flops=10)
sqrt = elementwise("sqrt", "x", np.sqrt, (lambda t, out: div(t, add(out, out)),), accepts=INEXACT, flops=4)
tanh = elementwise(
    "tanh", "x", np.tanh,
    (lambda t, out: mul(t, sub(constant_like(out, 1.0), mul(out, out))),), accepts=INEXACT, flops=15,
)  # fmt: skip
sin = elementwise("sin", "x", np.sin, (lambda t, x: mul(t, cos(x)),), accepts=INEXACT, flops=10)
cos = elementwise("cos", "x", np.cos, (lambda t, x: neg(mul(t, sin(x))),), accepts=INEXACT, flops=10)
conj = elementwise("conj", "x", np.conjugate, (lambda t: conj(t),), accepts=COMPLEX, flops=0)
# conj is not holomorphic: its derivative is stated as a real-linear map, which is its own adjoint.

# -- choice and order --------------------------------------------------------------------------------------------------


def _select_type(p: TensorType, x: TensorType, y: TensorType) -> TensorType:
    same_types("select", (p,), {bool_})
    same_types("select", (p, TensorType(x.shape, bool_)), {bool_})
    return same_types("select", (x, y), ALL)


select = Primitive(
    "select", "p x y", type=_select_type, evaluate=array_rule(np.where),
    jvp=(None, lambda t, p: select(p, t, constant_like(t, 0.0)), lambda t, p: select(p, constant_like(t, 0.0), t)),
    vjp=(None, lambda t, p: select(p, t, constant_like(t, 0.0)), lambda t, p: select(p, constant_like(t, 0.0), t)),
    batch=batch_elementwise("select"), cost=flops_per_element(1), doc="x where p, else y",
)  # fmt: skip

_CHOOSES = "comparisons have no slope"
eq = elementwise("eq", "x y", np.equal, Absent(_CHOOSES), accepts=ALL, result=bool_)
ne = elementwise("ne", "x y", np.not_equal, Absent(_CHOOSES), accepts=ALL, result=bool_)
lt = elementwise("lt", "x y", np.less, Absent(_CHOOSES), accepts=ALL - COMPLEX, result=bool_)
le = elementwise("le", "x y", np.less_equal, Absent(_CHOOSES), accepts=ALL - COMPLEX, result=bool_)
gt = elementwise("gt", "x y", np.greater, Absent(_CHOOSES), accepts=ALL - COMPLEX, result=bool_)
ge = elementwise("ge", "x y", np.greater_equal, Absent(_CHOOSES), accepts=ALL - COMPLEX, result=bool_)


def _share(t: Value, x: Value, y: Value, out: Value) -> Value:
    """The slope goes to the operand that was chosen; equal operands share it evenly."""
    zero = constant_like(t, 0.0)
    half = select(eq(x, y), _scaled(t, 0.5), t)
    return select(eq(x, out), half, zero)


maximum = elementwise("maximum", "x y", np.maximum, (_share, lambda t, y, x, out: _share(t, y, x, out)), accepts=ALL - COMPLEX)
minimum = elementwise("minimum", "x y", np.minimum, (_share, lambda t, y, x, out: _share(t, y, x, out)), accepts=ALL - COMPLEX)

logical_not = elementwise("not", "x", np.invert, Absent("bits have no slope"), accepts=INTEGERS | {bool_})
bit_and = elementwise("and", "x y", np.bitwise_and, Absent("bits have no slope"), accepts=INTEGERS | {bool_})
bit_or = elementwise("or", "x y", np.bitwise_or, Absent("bits have no slope"), accepts=INTEGERS | {bool_})


def _shift_right(x: Any, n: Any) -> Any:
    """Arithmetic for signed, logical for unsigned; a shift by the width or more leaves the sign (or 0)."""
    return np.right_shift(x, n)


shift_right = elementwise("shift_right", "x n", _shift_right, Absent("bits have no slope"), accepts=INTEGERS)
