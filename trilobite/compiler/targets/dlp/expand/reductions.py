"""Reductions over any axes, of any dtype, by reductions over one run of axes of a format that accumulates.

Places of extremes are the smallest index among those that hold one; bits over many elements are combined in
halves; running sums (products, extremes) by doubling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.base.dtypes import (
    SMALL_FLOATS,
    accumulator,
    bits,
    bool_,
    int32,
    is_complex,
    is_float,
    uint8,
)
from trilobite.compiler.targets.dlp.expand import narrow
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.vector.formats import computes
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table
from trilobite.ir.primitives.reduction import highest, lowest

Body = Callable[..., Any] | None


def runs(axes: tuple[int, ...]) -> list[list[int]]:
    """Neighbouring axes together."""
    found: list[list[int]] = []
    for a in axes:
        if found and found[-1][-1] == a - 1:
            found[-1].append(a)
        else:
            found.append([a])
    return found


def _empty(name: str, e: Equation) -> Body:
    """What no elements give."""
    dtype, shape = e.outputs[0].type.dtype, e.outputs[0].type.shape
    value = {"sum": lambda d: 0, "prod": lambda d: 1, "max": lowest, "min": highest}[name](dtype)
    return lambda x: t.full(shape, dtype, float(value) if is_float(dtype) else value)


def _reduce(name: str) -> Callable[[Equation], Body]:
    def rule(e: Equation) -> Body:
        x, axes = e.inputs[0].type, e.attributes["axes"]
        if not axes:
            return lambda v: v
        if any(x.shape[a] == 0 for a in axes):
            return _empty(name, e)
        if is_complex(x.dtype):
            return _product_of_complex(e) if name == "prod" else None
        if x.dtype == bool_:
            return lambda v: t.cast(t.reduce(name, t.cast(v, uint8), axes), bool_)
        wide = _working(name, x.dtype)
        if wide != x.dtype:
            return lambda v: t.cast(t.reduce(name, t.cast(v, wide), axes), x.dtype)
        groups = runs(axes)
        if len(groups) > 1:
            last = tuple(groups[-1])
            return lambda v: t.reduce(name, t.reduce(name, v, last), tuple(a for g in groups[:-1] for a in g))
        return None

    return rule


def _working(name: str, dtype: Any) -> Any:
    if name in ("sum", "prod") and dtype in SMALL_FLOATS:
        return accumulator(dtype)
    return (
        dtype
        if computes(dtype)
        else (int32 if bits(dtype) == 4 and not is_float(dtype) else narrow.wider(dtype))
    )


def _product_of_complex(e: Equation) -> Body:
    """In halves, along one axis after the other."""
    axes = e.attributes["axes"]

    def body(x: Any) -> Any:
        for a in reversed(axes):
            x = _halved(lambda p, q: t.mul(p, q), x, a)
        return x

    return body


def _halved(combine: Callable[[Any, Any], Any], x: Any, axis: int) -> Any:
    """All elements of an axis combined, upper half with lower half; an odd one waits."""
    n = x.shape[axis]
    while n > 1:
        half = n // 2
        joined = combine(t.part(x, axis, 0, half), t.part(x, axis, half, 2 * half))
        x = t.join([joined, t.part(x, axis, 2 * half, n)], axis) if n % 2 else joined
        n = x.shape[axis]
    return t.reshape(x, *(d for i, d in enumerate(x.shape) if i != axis))


def _bits(name: str, truth: str) -> Callable[[Equation], Body]:
    def rule(e: Equation) -> Body:
        x, axes = e.inputs[0].type, e.attributes["axes"]
        if not axes:
            return lambda v: v
        if any(x.shape[a] == 0 for a in axes):
            dtype, all_bits = e.outputs[0].type.dtype, name == "and"
            value = (
                all_bits
                if dtype == bool_
                else (-1 if dtype.kind != "u" else (1 << bits(dtype)) - 1) * all_bits
            )
            return lambda v: t.full(e.outputs[0].type.shape, dtype, value)
        if x.dtype == bool_:
            return lambda v: t.cast(t.reduce(truth, t.cast(v, uint8), axes), bool_)

        def body(v: Any) -> Any:
            for a in reversed(axes):
                v = _halved(lambda p, q: t.bitwise(name, p, q), v, a)
            return v

        return body

    return rule


def _place(name: str) -> Callable[[Equation], Body]:
    """The first index where the extreme stands; the first NaN, if there is one."""

    def rule(e: Equation) -> Body:
        axis, out = e.attributes["axis"], e.outputs[0].type.dtype

        def body(x: Any) -> Any:
            if x.dtype == bool_:
                x = t.cast(x, uint8)
            if not computes(x.dtype):
                x = t.cast(x, narrow.wider(x.dtype))
            best = t.spread(t.reduce(name, x, (axis,)), x.shape, (axis,))
            hit = t.compare("eq", x, best)
            if is_float(x.dtype):
                unordered = table["is_nan"](best)
                hit = t.select(unordered, table["is_nan"](x), hit)
            places = t.iota(x.shape, int32, axis)
            found = t.reduce("min", t.select(hit, places, t.like(places, x.shape[axis])), (axis,))
            return t.cast(found, out)

        return body

    return rule


# -- running -------------------------------------------------------------------------------------------------


def _running(kind: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any], Any]]:
    return {
        "sum": (t.add, lambda d: 0),
        "prod": (t.mul, lambda d: 1),
        "max": (t.maximum, lowest),
        "min": (t.minimum, highest),
        "logsumexp": (lambda x, y: table["logaddexp"](x, y), lambda d: float("-inf")),
    }[kind]


def _cumulative(e: Equation) -> Body:
    axis, kind, backwards = (e.attributes[k] for k in ("axis", "kind", "reverse"))
    combine, identity = _running(kind)

    def body(x: Any) -> Any:
        out = x.dtype
        if x.dtype == bool_:
            x = t.cast(x, uint8)
        wide = accumulator(x.dtype) if kind not in ("max", "min") else x.dtype
        if not computes(wide) and not is_complex(wide):
            wide = narrow.wider(wide)
        x = t.cast(x, wide)
        fill, reach, n = identity(x.dtype), 1, x.shape[axis]
        fill = float(fill) if is_float(x.dtype) else fill
        while reach < n:
            low, high = (-reach, reach) if backwards else (reach, -reach)
            x = combine(t.padded(x, axis, low, high, fill), x)
            reach *= 2
        return t.cast(x, out)

    return body


RULES = {
    **{f"reduce_{name}": _reduce(name) for name in ("sum", "prod", "max", "min")},
    "reduce_and": _bits("and", "min"),
    "reduce_or": _bits("or", "max"),
    "argmax": _place("max"),
    "argmin": _place("min"),
    "cumulative": _cumulative,
}
