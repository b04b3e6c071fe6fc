"""Windows with channels last, as the CPU target runs them: x[*batch, *space, C], windows over `space`.

The layout pass makes these from the `window_*` primitives, whose meaning they have with the last axis moved
before the plane. Two of them join what the backward pass of pooling would do in several steps. They are never
differentiated: they exist only after that is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Primitive, TargetPrimitive, table
from trilobite.ir.primitives import window as _first  # noqa: F401 (the meaning is its rules)
from trilobite.ir.primitives.common import count, elements
from trilobite.ir.primitives.conv_geometry import Ints, spread
from trilobite.ir.primitives.window import reduce_cost, window_of
from trilobite.ir.types import Shape, TensorType, size_of

Array = np.ndarray[Any, Any]


def _plane_last(t: TensorType, rank: int) -> TensorType:
    """The type with channels before the plane."""
    at = t.ndim - 1 - rank
    return TensorType((*t.shape[:at], t.shape[-1], *t.shape[at:-1]), t.dtype)


def _channels_last(t: TensorType, rank: int) -> TensorType:
    at = t.ndim - 1 - rank
    return TensorType((*t.shape[:at], *t.shape[at + 1 :], t.shape[at]), t.dtype)


def _out(x: Array, rank: int) -> Array:
    return np.ascontiguousarray(np.moveaxis(x, x.ndim - 1 - rank, -1))


def _in(x: Array, rank: int) -> Array:
    return np.moveaxis(x, -1, x.ndim - 1 - rank)


# -- forms of one primitive each ---------------------------------------------------------------------------


def _rank(attrs: dict[str, Any]) -> int:
    return attrs["rank"] if "rank" in attrs else len(attrs["size"] if "size" in attrs else attrs["plane"])


def _last(name: str, operands: str, cost: Any, doc: str) -> Primitive:
    """`window_last_<name>`: the primitive `window_<name>` with channels last."""
    first = table[f"window_{name}"]

    def type_rule(*types: TensorType, **attrs: Any) -> TensorType:
        rank = _rank(attrs)
        found: TensorType = first.type(*(_plane_last(t, rank) for t in types), **attrs)
        return _channels_last(found, rank)

    def evaluate(*values: Array, **attrs: Any) -> Array:
        rank = _rank(attrs)
        return _out(first.evaluate(*(_in(v, rank) for v in values), **attrs), rank)

    return TargetPrimitive(
        f"window_last_{name}", operands, type=type_rule, evaluate=array_rule(evaluate),
        cost=cost, doc=doc,
    )  # fmt: skip


window_last_reduce = _last(
    "reduce", "x", reduce_cost, "window_reduce of x[*batch, *space, C]"
)  # fmt: skip
window_last_argmax = _last(
    "argmax", "x", reduce_cost, "window_argmax of x[*batch, *space, C]: flat places in the plane"
)  # fmt: skip
window_last_gather = _last(
    "gather", "x indices", lambda i, o, a: elements(o), "window_gather with channels last"
)  # fmt: skip
window_last_scatter = _last(
    "scatter", "y indices", lambda i, o, a: elements(i[:1]), "window_scatter with channels last"
)  # fmt: skip


# -- the backward pass of pooling, in one step each --------------------------------------------------------


def disjoint(window: Mapping[str, Any]) -> bool:
    """Does no element stand in two windows?"""
    size, stride, dilation = (window[k] for k in ("size", "stride", "dilation"))
    return all(s >= spread(n, d) for n, s, d in zip(size, stride, dilation, strict=True))


def _max_grad_type(x: TensorType, y: TensorType, **window: Any) -> TensorType:
    rank = len(window["size"])
    places = window_last_argmax.type(x, **window)
    plane = x.shape[x.ndim - 1 - rank : -1]
    found: TensorType = window_last_scatter.type(y, places, plane=plane, disjoint=False)
    return found


def _max_grad(x: Array, y: Array, **window: Any) -> Array:
    rank = len(window["size"])
    places = window_last_argmax.evaluate(x, **window)
    plane = x.shape[x.ndim - 1 - rank : -1]
    found: Array = window_last_scatter.evaluate(y, places, plane=plane, disjoint=disjoint(window))
    return found


window_last_max_grad = TargetPrimitive(
    "window_last_max_grad", "x y", type=_max_grad_type, evaluate=array_rule(_max_grad),
    cost=lambda i, o, a: elements(i[1:]) * count(size_of(a["size"])),
    doc="y added to zeros where each window's largest element of x stands: first of equals, NaN before all",
)  # fmt: skip


def _spread_type(
    y: TensorType, plane: Shape, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints
) -> TensorType:
    lead = y.ndim - 1 - len(size)
    x = TensorType((*y.shape[:lead], *plane, y.shape[-1]), y.dtype)
    window = window_of(size, stride, low, high, dilation)
    found = window_last_reduce.type(x, kind="sum", **window)
    places = TensorType(found.shape, np.dtype("int64"))
    result: TensorType = window_last_scatter.type(y, places, plane=plane, disjoint=False)
    return result


def _spread(y: Array, plane: Ints, size: Ints, stride: Ints, low: Ints, high: Ints, dilation: Ints) -> Array:
    """Zeros between the windows' numbers, then a windowed sum of stride 1: as the derivative states it."""
    lead, rank = y.ndim - 1 - len(size), len(size)
    zeros = (0,) * y.ndim
    between = (*zeros[:lead], *(s - 1 for s in stride), 0)
    wide = table["pad"].evaluate(y, low=zeros, high=zeros, between=between, value=0.0)
    reach = [(n - 1) * d for n, d in zip(size, dilation, strict=True)]
    before = tuple(r - lo for r, lo in zip(reach, low, strict=True))
    after = tuple(n + lo - e for n, lo, e in zip(plane, low, wide.shape[lead:-1], strict=True))
    window = window_of(size, (1,) * rank, before, after, dilation)
    found: Array = window_last_reduce.evaluate(wide, kind="sum", **window)
    return found


window_last_spread = TargetPrimitive(
    "window_last_spread", "y", type=_spread_type, evaluate=array_rule(_spread),
    cost=reduce_cost,
    doc="the transpose of a windowed sum: each element of the plane gets the sum of y over its windows",
)  # fmt: skip
