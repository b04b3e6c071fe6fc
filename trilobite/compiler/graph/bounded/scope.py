"""What a rule has to work with: real sizes as values, largest sizes as numbers, and what lies behind the real
ones replaced.

Enters: the symbols of a graph and their values in this run. Leaves: words for rules. A rule gets the scope,
an equation of the graph with symbols, and values of the largest sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import DType, bool_, int64, is_float, is_integer
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import Value, table
from trilobite.ir.primitives.common import float_range, integer_range
from trilobite.ir.types import Affine, Dim, Floor, Symbol, TensorType

Rule = Callable[["Scope", Equation, Sequence[Value]], Any]


class OneByOne(Exception):
    """Why a graph has no form at its bounds."""


def top(d: Any) -> int:
    """The largest that a size can be."""
    return int(d.bounds()[1]) if isinstance(d, Affine) else int(d)


def at_bounds(value: Any) -> Any:
    """An attribute or a type with the largest sizes."""
    if isinstance(value, Affine):
        return top(value)
    if isinstance(value, tuple) and not any(isinstance(v, Graph) for v in value):
        return tuple(at_bounds(v) for v in value)
    if isinstance(value, TensorType):
        return TensorType(tuple(map(top, value.shape)), value.dtype)
    return value


def again(e: Equation, *values: Value) -> Any:
    """An equation with its sizes at their bounds."""
    return e.primitive(*values, **{k: at_bounds(v) for k, v in e.attributes.items()})


def is_symbolic(value: Any) -> bool:
    """Does a size in it depend on the run?"""
    if isinstance(value, tuple):
        return any(map(is_symbolic, value))
    if isinstance(value, TensorType):
        return is_symbolic(tuple(value.shape))
    return isinstance(value, Affine)


def loose(t: TensorType, axes: Sequence[int] | None = None) -> tuple[int, ...]:
    """The axes, or those of them, whose size the run decides."""
    among = range(t.ndim) if axes is None else axes
    return tuple(a for a in among if isinstance(t.shape[a], Affine))


def lowest(dtype: DType, sign: int = -1) -> Any:
    """What no element lies below; above, for a sign of 1."""
    if dtype == bool_:
        return sign > 0
    if is_integer(dtype):
        return integer_range(dtype)[sign > 0]
    with np.errstate(all="ignore"):
        infinite = np.asarray(sign * np.inf).astype(dtype)
    return sign * np.inf if np.isinf(infinite.astype(np.float32)) else float_range(dtype)[sign > 0]


def neutral(dtype: DType, kind: str) -> Any:
    """What changes no sum, product, extreme, conjunction or disjunction."""
    if kind in ("max", "logsumexp", "min"):
        return lowest(dtype, 1 if kind == "min" else -1)
    if kind == "and" and is_integer(dtype):
        return -1 if integer_range(dtype)[0] else integer_range(dtype)[1]  # all bits
    return {"sum": -0.0 if is_float(dtype) else 0, "prod": 1, "and": True, "or": False}[kind]


class Scope:
    """The sizes of one run. `made`: which equation a value of the graph comes from, where that is known."""

    def __init__(self, sizes: Mapping[Affine, Value], made: Mapping[Var, Equation] | None = None) -> None:
        self.sizes, self.made = sizes, made or {}

    def live(self, d: Dim) -> Value:
        """A size in this run, as an int64 without axes."""
        if not isinstance(d, Affine):
            return self.number(d)
        if d in self.sizes:
            return self.sizes[d]
        total = self.number(d.constant)
        for symbol, coefficient in d.terms:
            term = table["mul"](self._symbol(symbol), self.number(coefficient))
            total = table["add"](total, term)
        return total

    def _symbol(self, s: Symbol) -> Value:
        alone = Affine(0, [(s, 1)])
        if alone in self.sizes:
            return self.sizes[alone]
        if s.of is None:
            raise OneByOne(f"the size {s} is not one of the inputs'")
        if isinstance(s.of, Floor):
            return table["floor_div"](self.live(s.of.size), self.number(s.of.by))
        found = self._symbol(s.of.symbols[0])
        for other in s.of.symbols[1:]:
            found = table["mul"](found, self._symbol(other))
        return found

    def number(self, n: int) -> Value:
        return table["full"](shape=(), dtype=int64, value=int(n))

    def below(self, shape: Sequence[int], axis: int, d: Dim) -> Value:
        """Where indices of an axis lie below a size: bool of that shape."""
        return self.before(shape, axis, self.live(d))

    def before(self, shape: Sequence[int], axis: int, stop: Value) -> Value:
        place = table["iota"](shape=(shape[axis],), dtype=int64, axis=0)
        line = table["lt"](place, table["broadcast"](stop, shape=(shape[axis],), axes=()))
        return table["broadcast"](line, shape=tuple(shape), axes=(axis,))

    def inside(self, shape: Sequence[int], t: TensorType, axes: Sequence[int]) -> Value | None:
        """Where the indices of those axes lie below the real sizes; None: everywhere."""
        found = None
        for a in loose(t, axes):
            here = self.below(shape, a, t.shape[a])
            found = here if found is None else table["and"](found, here)
        return found

    def clean(self, x: Value, t: TensorType, axes: Sequence[int] | None, fill: Any) -> Value:
        """The value with what lies behind the real sizes of those axes (of all) replaced."""
        where = self.inside(x.shape, t, range(t.ndim) if axes is None else axes)
        if where is None:
            return x
        return table["select"](where, x, table["full"](shape=x.shape, dtype=x.dtype, value=fill))

    def at_most(self, indices: Value, d: Dim) -> Value:
        """Indices clamped to the real places of an axis."""
        if not isinstance(d, Affine):
            return indices
        last = table["sub"](self.live(d), self.number(1))
        wide = table["cast"](indices, dtype=int64) if indices.dtype != int64 else indices
        return table["minimum"](wide, table["broadcast"](last, shape=indices.shape, axes=()))


def grown(x: Value, axis: int, by: int) -> Value:
    """With that many more places at the end of an axis; fewer, if `by` is negative."""
    if by == 0:
        return x
    blank = (0,) * len(x.shape)
    high = tuple(by if a == axis else 0 for a in range(len(x.shape)))
    return table["pad"](x, low=blank, high=high, between=blank, value=0)


def fitted(x: Value, shape: Sequence[int]) -> Value:
    """With the places behind the real sizes that a type of this shape has."""
    for a, (n, wanted) in enumerate(zip(x.shape, shape, strict=True)):
        x = grown(x, a, wanted - n)
    return x
