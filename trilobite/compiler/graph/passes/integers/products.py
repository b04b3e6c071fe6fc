"""Products of two operands in codes: what is multiplied, and what zero points have added to it.

sum of (x - zx)(w - zw) = sum of x·w - zx·sum of w - zw·sum of x + terms·zx·zw. Of a convolution the sums of x
are those of its windows. What depends on weights alone a target computes once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from trilobite.base.dtypes import bool_, int8, int32
from trilobite.compiler.graph.passes.integers.forms import ROOM, Array, Codes, Sums, Writer
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitives.dot import free_axes


def product(w: Writer, e: Equation, x: Codes, y: Codes) -> Sums | Var | None:
    """The product of codes: sums with a scale, or without scales the integers themselves; None where the form
    of the grids or the number of terms forbids it.
    """
    terms = _terms(e)
    if terms is None or not 0 < terms * x.reach * y.reach < ROOM or (x.scale is None) != (y.scale is None):
        return None
    place = _place_in_conv(e, x, y) if e.primitive.name == "conv" else _place_in_dot(e, x, y)
    if place == _NOWHERE:
        return None
    total = (_convolved if e.primitive.name == "conv" else _multiplied)(w, e, x, y, terms)
    if x.scale is None or y.scale is None:
        return total
    scale = x.scale.astype(np.float64) * y.scale.astype(np.float64)
    without = partial(_without, w, e, x, y, terms) if y.axis is not None else None
    return Sums(total, scale, place, reach=terms * x.reach * y.reach, without=without)


def _without(w: Writer, e: Equation, x: Codes, y: Codes, terms: int, gone: Array) -> Var:
    """The product without the weights of some channels of the second operand's axis."""
    kept = w.along(w.constant(~gone, int8), y.q, y.axis)
    rest = replace(y, q=w.make("mul", y.q, kept))
    return (_convolved if e.primitive.name == "conv" else _multiplied)(w, e, x, rest, terms)


_NOWHERE = -1


def _terms(e: Equation) -> int | None:
    """How many products are added up for one result."""
    if e.primitive.name == "conv":
        sizes: Sequence[Any] = e.inputs[1].type.shape[1:]
    else:
        sizes = [e.inputs[1].type.shape[a] for a in e.attributes["contract"][1]]
    return prod(sizes) if all(isinstance(n, int) for n in sizes) else None


# -- convolutions --------------------------------------------------------------------------------------------


def _place_in_conv(e: Equation, x: Codes, y: Codes) -> int | None:
    """The axis of the result that has scales of its own."""
    if not x.is_plain or y.moving is not None or y.axis not in (None, 0):
        return _NOWHERE
    return None if y.axis is None else 1


def _margins(e: Equation) -> bool:
    a = e.attributes
    return any(a["low"]) or any(a["high"]) or any(d != 1 for d in a["x_dilation"])


def _convolved(w: Writer, e: Equation, x: Codes, y: Codes, terms: int) -> Var:
    attributes = {**e.attributes, "dtype": int32}
    q = x.q
    if x.has_zero and _margins(e):
        low, high = attributes["low"], attributes["high"]
        between = tuple(d - 1 for d in attributes["x_dilation"])
        around = {"low": (0, 0, *low), "high": (0, 0, *high), "between": (0, 0, *between)}
        q = _padded(w, x, around)
        none = (0,) * len(low)
        attributes |= {"low": none, "high": none, "x_dilation": (1,) * len(low)}
    total = w.make("conv", q, y.q, **attributes)
    if x.has_zero:
        axes = tuple(range(1, y.q.type.ndim))
        sums = w.make("reduce_sum", w.cast(y.q, int32), axes=axes)
        total = _less(w, total, sums, _zero(w, x), (1,))
    if y.has_zero:
        ones = w.full((attributes["groups"], *y.q.type.shape[1:]), int8, 1)
        sums = w.make("conv", q, ones, **attributes)
        total = _less_windows(w, total, sums, x, y, terms)
    return total


def _padded(w: Writer, x: Codes, around: Mapping[str, Any]) -> Var:
    """Codes with their zero point around them. One that a run computes is a byte, too."""
    if x.moving is None:
        return w.make("pad", x.q, **around, value=int(x.zero))
    inside = w.make("pad", w.full(x.q.type.shape, bool_, True), **around, value=False)
    codes = w.make("pad", x.q, **around, value=0)
    zero = w.along(w.cast(x.moving, int8), codes, None)
    return w.make("select", inside, codes, zero)


def _less_windows(w: Writer, total: Var, sums: Var, x: Codes, y: Codes, terms: int) -> Var:
    """The sum of each window, times the zero point of the filters that read it."""
    groups, filters = int(sums.type.shape[1]), int(total.type.shape[1])
    if x.has_zero:
        sums = w.make("sub", sums, w.along(_times(w, _zero(w, x), terms), sums, None))
    shape = (sums.type.shape[0], groups, filters // groups, *sums.type.shape[2:])
    axes = (0, 1, *range(3, len(shape)))
    each = w.make("reshape", w.make("broadcast", sums, shape=shape, axes=axes), shape=total.type.shape)
    zero = w.along(w.constant(y.zero, int32), total, None if y.axis is None else 1)
    return w.make("sub", total, w.make("mul", each, zero))


# -- products of matrices ------------------------------------------------------------------------------------


def _place_in_dot(e: Equation, x: Codes, y: Codes) -> int | None:
    """Scales may run along one free axis of one operand."""
    places = [_result_axis(e, i, c.axis) for i, c in enumerate((x, y)) if c.axis is not None]
    if len(places) > 1 or _NOWHERE in places:
        return _NOWHERE
    return places[0] if places else None


def _result_axis(e: Equation, side: int, axis: int) -> int:
    """Where a free axis of an operand lies in the result."""
    contract, batch = e.attributes["contract"], e.attributes["batch"]
    if axis in contract[side] or axis in batch[side]:
        return _NOWHERE
    free = [free_axes(v.type.ndim, contract[i], batch[i]) for i, v in enumerate(e.inputs)]
    return len(batch[0]) + (len(free[0]) if side else 0) + free[side].index(axis)


def _multiplied(w: Writer, e: Equation, x: Codes, y: Codes, terms: int) -> Var:
    total = w.make("dot", x.q, y.q, **{**e.attributes, "dtype": int32})
    if x.has_zero:
        sums, axes = _sums_of(w, e, 1, y)
        if y.has_zero:
            sums = _less_terms(w, sums, y, terms, axes, e, 1)
        total = _less(w, total, sums, _zero(w, x), axes, _axis_of(e, 0, x))
    if y.has_zero:
        sums, axes = _sums_of(w, e, 0, x)
        total = _less(w, total, sums, _zero(w, y), axes, _axis_of(e, 1, y))
    return total


def _axis_of(e: Equation, side: int, c: Codes) -> int | None:
    return None if c.axis is None else _result_axis(e, side, c.axis)


def _less_terms(w: Writer, sums: Var, y: Codes, terms: int, axes: Any, e: Equation, side: int) -> Var:
    """Sums of an operand less its zero point at every term."""
    zero = _times(w, _zero(w, y), terms)
    place = _axis_of(e, side, y)
    return w.make("sub", sums, w.along(zero, sums, None if place is None else axes.index(place)))


def _sums_of(w: Writer, e: Equation, side: int, c: Codes) -> tuple[Var, tuple[int, ...]]:
    """An operand added up along what is contracted, and the axes of the result that are left of it."""
    contract, batch = e.attributes["contract"][side], e.attributes["batch"][side]
    sums = w.make("reduce_sum", w.cast(c.q, int32), axes=tuple(sorted(contract)))
    left = [a for a in range(c.q.type.ndim) if a not in contract]
    places = [batch.index(a) if a in batch else _result_axis(e, side, a) for a in left]
    order = sorted(range(len(left)), key=places.__getitem__)
    if order != list(range(len(left))):
        sums = w.make("transpose", sums, axes=tuple(order))
    return sums, tuple(sorted(places))


def _less(
    w: Writer, total: Var, sums: Var, zero: Var, axes: tuple[int, ...], place: int | None = None
) -> Var:
    """The sums, spread over the result, times the zero point of the other operand, taken off."""
    if place is None:
        part = w.make("mul", sums, w.along(zero, sums, None))
        return w.make("sub", total, w.make("broadcast", part, shape=total.type.shape, axes=axes))
    wide = w.make("broadcast", sums, shape=total.type.shape, axes=axes)
    return w.make("sub", total, w.make("mul", wide, w.along(zero, total, place)))


def _zero(w: Writer, c: Codes) -> Var:
    return w.constant(c.zero, int32) if c.moving is None else c.moving


def _times(w: Writer, v: Var, number: int) -> Var:
    return w.make("mul", v, w.full(v.type.shape, int32, number))
