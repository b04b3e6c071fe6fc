"""Forward mode: dual numbers over any values. A tangent of None is zero and costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.dtypes import is_inexact
from trilobite.ir.primitive import Attributes, Primitive, Value, types_of
from trilobite.ir.transforms.bind import Interpreter, Traced, bind
from trilobite.ir.transforms.tape import add, zeros
from trilobite.ir.types import type_of


class Dual(Traced):
    """A value and its tangent."""

    __slots__ = ("primal", "tangent")

    def __init__(self, forward: Forward, primal: Value, tangent: Value) -> None:
        self.interpreter = forward
        self.primal, self.tangent = primal, tangent
        self.shape, self.dtype = primal.shape, primal.dtype


class Forward(Interpreter):
    """Processes primitives on duals."""

    __slots__ = ()

    def dual(self, primal: Value, tangent: Any) -> Value:
        return primal if tangent is None or not is_inexact(primal.dtype) else Dual(self, primal, tangent)

    def split(self, value: Value) -> tuple[Value, Any]:
        if type(value) is Dual and value.interpreter is self:
            return value.primal, value.tangent
        return value, None

    def process(self, primitive: Primitive, values: Sequence[Value], attributes: Attributes) -> Any:
        self.check_alive("jvp")
        pairs = [self.split(v) for v in values]
        primals, tangents = [p for p, _ in pairs], [t for _, t in pairs]
        outs, out_tangents = push(primitive, primals, tangents, attributes)
        if primitive.multiple:
            return tuple(self.dual(o, t) for o, t in zip(outs, out_tangents, strict=True))
        return self.dual(outs, out_tangents)


def push(
    primitive: Primitive, primals: Sequence[Value], tangents: Sequence[Any], attributes: Attributes
) -> tuple[Any, Any]:
    """Result and tangent(s) of one primitive."""
    if primitive.whole_jvp is not None:
        pair: tuple[Any, Any] = primitive.whole_jvp(primals, tangents, attributes)
        return pair
    out = bind(primitive, *primals, **attributes)
    if not is_inexact(out.dtype):
        return out, None
    total: Any = None
    types = [*types_of(primals), type_of(out)]
    for rule, t in zip(primitive.partials("jvp"), tangents, strict=True):
        if t is None or rule is None:
            continue
        term = rule(t, primals, types, out, attributes)
        total = term if total is None else add(total, term)
    return out, total


def materialise(tangent: Any, like: Value) -> Value:
    """A tangent that is really there: zeros for None."""
    return zeros(type_of(like)) if tangent is None else tangent
