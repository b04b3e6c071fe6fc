"""Reductions over axes of size 1, of repeated values, and of reductions."""

from __future__ import annotations

from trilobite.base.dtypes import ALL, INTEGERS, is_inexact, is_integer
from trilobite.compiler.graph.passes.rules.shapes import reshaped
from trilobite.compiler.graph.rewrite import Match, Rule, element_of
from trilobite.ir.graph import Var

_SAME_OF_SAME = ("reduce_max", "reduce_min", "reduce_and", "reduce_or")  # n equal elements give that element
_ALL = (*_SAME_OF_SAME, "reduce_sum", "reduce_prod")


def _unit_axes(m: Match) -> Var | None:
    """Over axes of size 1 there is nothing to reduce. A sum begins at 0.0, so a sum of -0.0 alone is 0.0."""
    axes, shape = m.attributes["axes"], m["x"].type.shape
    real = [a for a in axes if shape[a] != 1]
    if len(real) == len(axes) and axes:
        return None
    if not real:
        same = reshaped(m, m["x"], m.type.shape)
        return _from_zero(m, same) if m.equation.primitive.name == "reduce_sum" else same
    dropped = [a for a in axes if shape[a] == 1]
    x = reshaped(m, m["x"], tuple(d for i, d in enumerate(shape) if i not in dropped))
    moved = tuple(a - sum(d < a for d in dropped) for a in real)
    return m.make(m.equation.primitive.name, x, axes=moved)


def _from_zero(m: Match, v: Var) -> Var:
    zero = element_of(0, v.type.dtype)
    if is_integer(v.type.dtype) or zero is None:
        return v
    return m.make("add", v, m.full(zero, v.type))


def _repeated(m: Match) -> Var | None:
    """Reducing over axes along which a value is repeated: the value itself, its n-fold, or it n times."""
    x, axes = m["x"], m.attributes["axes"]
    where, full = m.inner().attributes["axes"], m.inner().attributes["shape"]
    idle = [a for a in axes if a not in where]
    n = 1
    for a in idle:
        if not isinstance(full[a], int) or full[a] == 0:
            return None
        n *= full[a]
    if not idle or any(x.type.shape[i] != full[a] for i, a in enumerate(where)):
        return None
    scaled = x if m.equation.primitive.name in _SAME_OF_SAME else _times(m, x, n)
    if scaled is None:
        return None
    kept = [i for i in range(len(full)) if i not in idle]
    wide = m.make("broadcast", scaled, shape=tuple(full[i] for i in kept), axes=tuple(map(kept.index, where)))
    rest = tuple(kept.index(a) for a in axes if a in where)
    return m.make(m.equation.primitive.name, wide, axes=rest) if rest else _result(m, wide)


def _result(m: Match, v: Var) -> Var:
    return _from_zero(m, v) if m.equation.primitive.name == "reduce_sum" else v


def _times(m: Match, x: Var, n: int) -> Var | None:
    """n·x, where n is a number of the dtype. Products of equal factors stay as they are."""
    number = element_of(n, x.type.dtype) if m.equation.primitive.name == "reduce_sum" else None
    return None if number is None else m.make("mul", x, m.full(number, x.type))


def _twice(m: Match) -> Var:
    inner, outer = m.inner().attributes["axes"], m.attributes["axes"]
    kept = [i for i in range(m["x"].type.ndim) if i not in inner]
    axes = tuple(sorted((*inner, *(kept[a] for a in outer))))
    return m.make(m.equation.primitive.name, m["x"], axes=axes)


_REAL = frozenset(d for d in ALL if d.kind != "c")
RULES = (
    *(Rule(f"{name}(x)", _unit_axes) for name in _ALL),
    *(Rule(f"{name}(broadcast(x))", _repeated) for name in _SAME_OF_SAME),
    Rule("reduce_sum(broadcast(x))", _repeated, INTEGERS),
    Rule("reduce_sum(broadcast(x))", _repeated, frozenset(d for d in _REAL if is_inexact(d)), exact=False),
    *(Rule(f"{name}({name}(x))", _twice) for name in _SAME_OF_SAME),
    *(Rule(f"{name}({name}(x))", _twice, INTEGERS) for name in ("reduce_sum", "reduce_prod")),
)
