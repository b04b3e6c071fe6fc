"""Sharding rules of products and convolutions. A convolution may be split along space too: ranks then
exchange the rows at their borders (`halo.py`).
"""

from __future__ import annotations

from fractions import Fraction

from trilobite.cluster.sharding import halo
from trilobite.cluster.sharding.rules import (
    Attributes,
    Dims,
    Factor,
    Lowering,
    Rule,
    Types,
    factors,
    only,
    rule,
)
from trilobite.ir.types import TensorType

_BOTH = (only(0), only(1))


@rule("dot")
def _dot(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x, y = ins
    (cx, cy), (bx, by) = attributes["contract"], attributes["batch"]
    dims_x: list[Factor | None] = list(factors(x.ndim))
    dims_y: list[Factor | None] = list(factors(y.ndim, x.ndim))
    for i, j in (*zip(cx, cy, strict=True), *zip(bx, by, strict=True)):
        dims_y[j] = dims_x[i]
    free_x = [d for i, d in enumerate(dims_x) if i not in (*cx, *bx)]
    free_y = [d for j, d in enumerate(dims_y) if j not in (*cy, *by)]
    out = (*(dims_x[i] for i in bx), *free_x, *free_y)
    reduces = {i: "sum" for i in cx}
    return Rule((tuple(dims_x), tuple(dims_y)), (out,), reduces, _BOTH)


N, K, C, GROUP, SPACE = 0, 1, 2, 3, 4  # factors of a convolution; those of space follow


def _channels(x: TensorType, k: int, groups: int) -> tuple[Factor, Factor, Factor | None]:
    """Factors of the input channels of x, of the output channels, and of the channels of the filters."""
    if groups == 1:
        return Factor(C), Factor(K), Factor(C)
    inner = Fraction(groups, int(x.shape[1]))
    return Factor(GROUP, inner), Factor(GROUP, Fraction(groups, k)), None


def _space(x: TensorType, attributes: Attributes) -> Dims:
    """A dimension of space may be split where the input is not spread."""
    spread = attributes["x_dilation"]
    return tuple(Factor(SPACE + i) if spread[i] == 1 else None for i in range(x.ndim - 2))


def _groups_of(place: int, each: int) -> object:
    """Fewer groups where channels are split by groups."""

    def localised(attributes: Attributes, ins: Types, outs: object) -> Attributes:
        if attributes["groups"] == 1:
            return attributes
        return {**attributes, "groups": int(ins[place].shape[1]) // each}

    return localised


def _lowered(space: Dims, lowering: Lowering) -> dict[int, Lowering]:
    return {d.name: lowering for d in space if d is not None}


@rule("conv")
def _conv(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x, w = ins
    cx, k, cw = _channels(x, int(w.shape[0]), attributes["groups"])
    space, free = _space(x, attributes), (None,) * (x.ndim - 2)
    return Rule(
        ((Factor(N), cx, *space), (k, cw, *free)),
        ((Factor(N), k, *space),),
        {C: "sum"} if attributes["groups"] == 1 else {},
        _BOTH,
        _groups_of(0, int(w.shape[1])),  # type: ignore[arg-type]
        _lowered(space, halo.conv),
        once=frozenset(d.name for d in space if d),
        refuses=halo.reach(x, outs[0], attributes, [int(d) for d in w.shape[2:]]),
    )


@rule("conv_input_grad")
def _conv_input_grad(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    y, w = ins
    x = outs[0]
    cx, k, cw = _channels(x, int(w.shape[0]), attributes["groups"])
    space, free = _space(x, attributes), (None,) * (x.ndim - 2)

    def localised(attributes: Attributes, ins: Types, outs: object) -> Attributes:
        shape = outs[0]  # type: ignore[index]
        groups = attributes["groups"]
        own = groups if groups == 1 else int(shape[1]) // int(w.shape[1])
        return {**attributes, "groups": own, "space": tuple(shape[2:])}

    return Rule(
        ((Factor(N), k, *space), (k, cw, *free)),
        ((Factor(N), cx, *space),),
        {K: "sum"} if attributes["groups"] == 1 else {},
        _BOTH,
        localised,
        _lowered(space, halo.conv_input_grad),
        once=frozenset(d.name for d in space if d),
        refuses=halo.reach(x, y, attributes, [int(d) for d in w.shape[2:]]),
    )


@rule("conv_weight_grad")
def _conv_weight_grad(ins: Types, outs: Types, attributes: Attributes) -> Rule:
    x, y = ins
    w = outs[0]
    cx, k, cw = _channels(x, int(w.shape[0]), attributes["groups"])
    space, free = _space(x, attributes), (None,) * (x.ndim - 2)
    reduces = {N: "sum"} | {d.name: "sum" for d in space if d is not None}
    return Rule(
        ((Factor(N), cx, *space), (Factor(N), k, *space)),
        ((k, cw, *free),),
        reduces,
        _BOTH,
        _groups_of(0, int(w.shape[1])),  # type: ignore[arg-type]
        _lowered(space, halo.conv_weight_grad),
        once=frozenset(d.name for d in space if d),
        refuses=halo.reach(x, y, attributes, [int(d) for d in w.shape[2:]]),
    )
