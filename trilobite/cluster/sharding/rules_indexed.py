"""Sharding rules of reads and writes at places that indices name, and of windows.

An axis that is indexed may be split where each rank can take the places that it has and leave out the others:
a table of words split along the vocabulary gives partial sums.
"""

from __future__ import annotations

from typing import Any

from trilobite.base.dtypes import DType, bool_, int64, uint64
from trilobite.cluster.sharding.rules import (
    Attributes,
    Dims,
    Factor,
    Rule,
    Splitting,
    Types,
    factors,
    only,
    rule,
)
from trilobite.ir.graph import Var
from trilobite.ir.types import TensorType


def _own_places(s: Splitting, indices: Var, size: int, begin: int, end: int) -> tuple[Var, Var]:
    """Indices within this rank's part, and which of them belong to it."""

    def number(value: int, dtype: DType = int64) -> Var:
        return s.emit("full", shape=indices.type.shape, dtype=dtype, value=value)

    if indices.type.dtype == uint64:  # what int64 does not hold is merely too large
        indices = s.emit("minimum", indices, number(size, uint64))
    if indices.type.dtype != int64:
        indices = s.emit("cast", indices, dtype=int64)
    at = s.emit("minimum", s.emit("maximum", indices, number(0)), number(size - 1))
    mine = s.emit("and", s.emit("ge", at, number(begin)), s.emit("lt", at, number(end)))
    inside = s.emit("maximum", s.emit("minimum", at, number(end - 1)), number(begin))
    return s.emit("sub", inside, number(begin)), mine


def _zeros_unless(s: Splitting, mine: Var, x: Var, axes: tuple[int, ...]) -> Var:
    mask = s.emit("broadcast", mine, shape=x.type.shape, axes=axes)
    zeros = s.emit("full", shape=x.type.shape, dtype=x.type.dtype, value=0)
    return s.emit("select", mask, x, zeros)


@rule("gather")
def _gather(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x, indices, axis = ins[0], ins[1], attributes["axis"]
    dims = factors(x.ndim)
    at = factors(indices.ndim, x.ndim)
    out = (*dims[:axis], *at, *dims[axis + 1 :])
    table = dims[axis]
    assert table is not None

    def lowered(s: Splitting, factor: int) -> tuple[Var, ...]:
        here = s.ranges[0][axis]
        inside, mine = _own_places(s, s.inputs[1], int(x.shape[axis]), *here)
        found = s.emit("gather", s.inputs[0], inside, **s.attributes)
        return (_zeros_unless(s, mine, found, tuple(range(axis, axis + indices.ndim))),)

    return Rule((dims, at), (out,), {table.name: "sum"}, (only(0),), lowerings={table.name: lowered})


def _points(x: TensorType, indices: TensorType, axes: tuple[int, ...]) -> tuple[Dims, Dims, Dims]:
    """Factors of x, of the indices, and of what stands at the points."""
    named = {a % x.ndim for a in axes}
    dims: Dims = tuple(None if i in named else Factor(i) for i in range(x.ndim))
    at = factors(indices.ndim - 1, x.ndim)
    return dims, (*at, None), (*at, *(d for i, d in enumerate(dims) if i not in named))


@rule("gather_nd")
def _gather_nd(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x, at, out = _points(ins[0], ins[1], attributes["axes"])
    return Rule((x, at), (out,), linear=(only(0),))


@rule("scatter")
def _scatter(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    """Sums may be split by points, each rank adding its own, or along the only axis that is indexed."""
    axes = attributes["axes"]
    x, at, updates = _points(ins[0], ins[1], axes)
    if attributes["kind"] != "add":
        free = (None,) * (ins[1].ndim - 1)
        return Rule((x, (*free, None), (*free, *updates[len(free) :])), (x,))
    points = [d.name for d in at if d is not None]
    sums: Any = {name: "sum" for name in points}
    lowerings: dict[int, Any] = {}
    if len(axes) == 1:
        axis = axes[0] % ins[0].ndim
        x = (*x[:axis], Factor(axis), *x[axis + 1 :])

        def lowered(s: Splitting, factor: int) -> tuple[Var, ...]:
            inside, mine = _own_places(s, s.inputs[1], int(ins[0].shape[axis]), *s.ranges[0][axis])
            flat = s.emit("reshape", mine, shape=mine.type.shape[:-1])
            kept = _zeros_unless(s, flat, s.inputs[2], tuple(range(flat.type.ndim)))
            return (s.emit("scatter", s.inputs[0], inside, kept, **s.attributes),)

        lowerings = {axis: lowered}
    return Rule(
        (x, at, updates), (x,), sums, (only(0, 2),), lowerings=lowerings,
        needs_partial={name: (0,) for name in points},
    )  # fmt: skip


@rule("scatter_reduce")
def _scatter_reduce(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x, _, updates = _points(ins[0], ins[1], attributes["axes"])
    free = (None,) * (ins[1].ndim - 1)
    return Rule((x, (None,) * ins[1].ndim, (*free, *updates[len(free) :])), (x,))


def _lanes(ndim: int, axis: int) -> Dims:
    return tuple(None if i == axis % ndim else Factor(i) for i in range(ndim))


@rule("take_along")
def _take_along(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    """Along the axis, each rank gives what it has, and zeros for the rest: classes may be split."""
    ndim, axis = ins[0].ndim, attributes["axis"] % ins[0].ndim
    x = factors(ndim)
    at = (*x[:axis], Factor(ndim), *x[axis + 1 :])

    def lowered(s: Splitting, factor: int) -> tuple[Var, ...]:
        inside, mine = _own_places(s, s.inputs[1], int(ins[0].shape[axis]), *s.ranges[0][axis])
        found = s.emit("take_along", s.inputs[0], inside, **s.attributes)
        return (_zeros_unless(s, mine, found, tuple(range(ndim))),)

    sums = {axis: "sum"} if ins[0].dtype != bool_ else {}
    x = x if sums else _lanes(ndim, axis)
    return Rule((x, at), (at,), sums, (only(0),), lowerings={axis: lowered})


@rule("scatter_along")
def _scatter_along(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    ndim, axis = ins[0].ndim, attributes["axis"] % ins[0].ndim
    lanes = _lanes(ndim, axis)
    if attributes["kind"] != "add":
        return Rule((lanes, lanes, lanes), (lanes,))

    def lowered(s: Splitting, factor: int) -> tuple[Var, ...]:
        inside, mine = _own_places(s, s.inputs[1], int(ins[0].shape[axis]), *s.ranges[0][axis])
        kept = _zeros_unless(s, mine, s.inputs[2], tuple(range(ndim)))
        return (s.emit("scatter_along", s.inputs[0], inside, kept, **s.attributes),)

    x = factors(ndim)
    return Rule((x, lanes, lanes), (x,), linear=(only(0, 2),), lowerings={axis: lowered})


@rule("scatter_reduce_along")
def _scatter_reduce_along(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x = _lanes(ins[0].ndim, attributes["axis"])
    return Rule((x, x, x), (x,))


def _whole_windows(t: TensorType, x: TensorType, sizes: Any) -> Dims:
    return tuple(Factor(i) if n == d else None for i, (n, d) in enumerate(zip(sizes, x.shape, strict=True)))


def _sizes(attributes: Attributes, ins: Types, outs: Any) -> Attributes:
    return {**attributes, "sizes": tuple(outs[0])}


@rule("dynamic_slice")
def _dynamic_slice(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _whole_windows(outs[0], ins[0], attributes["sizes"])
    starts = tuple(() for _ in ins[1:])
    return Rule((dims, *starts), (dims,), linear=(only(0),), localised=_sizes)


@rule("dynamic_update_slice")
def _dynamic_update_slice(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    dims = _whole_windows(ins[1], ins[0], ins[1].shape)
    starts = tuple(() for _ in ins[2:])
    return Rule((dims, dims, *starts), (dims,), linear=(only(0, 1),))


def _planes(types: Types, rank: int) -> tuple[Dims, ...]:
    return tuple((*factors(t.ndim - rank), *(None,) * rank) for t in types)


@rule("window_reduce", "window_argmax")
def _window_reduce(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    rank = len(attributes["size"])
    linear = (only(0),) if attributes.get("kind") == "sum" else ()
    return Rule(_planes(ins, rank), _planes(outs, rank), linear=linear)


@rule("window_gather")
def _window_gather(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    rank = attributes["rank"]
    return Rule(_planes(ins, rank), _planes(outs, rank), linear=(only(0),))


@rule("window_scatter")
def _window_scatter(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    rank = len(attributes["plane"])
    return Rule(_planes(ins, rank), _planes(outs, rank), linear=(only(0),))
