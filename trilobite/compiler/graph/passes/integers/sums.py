"""Sums of products, read: rounded once to codes, as a matrix unit drains, or as numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from trilobite.base.dtypes import DType, float32, int32
from trilobite.compiler.graph.passes.integers.forms import ROOM, Array, Repeated, Sums, Writer
from trilobite.ir.graph import Var
from trilobite.ir.primitives.common import integer_range

_NOTHING = 256  # which part of a number is less than a step of any grid that holds the number


def with_bias(s: Sums, bias: Repeated) -> Sums | None:
    """A constant behind a product goes into its sums, if they have room for it."""
    if s.bias is not None or s.is_clamped or (bias.axis is not None and s.place not in (None, bias.axis)):
        return None
    values = bias.values.astype(np.float64)
    s = replace(s, bias=values, at=bias.axis if bias.axis is not None else s.place)
    over = np.abs(values / s.scale) >= ROOM
    return s if not over.any() else _bias_alone(s, values, over)


def _bias_alone(s: Sums, bias: Array, over: Array) -> Sums | None:
    """Channels whose weights are so small that the sums have no room for the bias: nothing but the bias."""
    if s.without is None or s.scale.shape != over.shape or not s.reach * _NOTHING <= ROOM:
        return None
    return replace(s, total=s.without(over), scale=np.where(over, np.abs(bias), s.scale), alone=over)


def scaled(s: Sums, by: float) -> Sums | None:
    if not by > 0 or not np.isfinite(by):
        return None
    bias = None if s.bias is None else s.bias * by
    return replace(s, scale=s.scale * by, bias=bias, low=s.low * by, high=s.high * by)


def clamped(s: Sums, name: str, end: float) -> Sums:
    """The larger or the smaller (`maximum`, `minimum`) of the sums and a number."""
    choose = max if name == "maximum" else min
    return replace(s, low=choose(s.low, end), high=choose(s.high, end))


def drained(w: Writer, s: Sums, scale: Array, zero: int, dtype: DType) -> Var:
    """The sums as codes of a grid."""
    if s.alone is not None and s.bias is not None:  # whole steps of the grid itself, which any unit rounds
        step = float(scale)
        near = np.clip(np.rint(s.bias / step), -ROOM, ROOM) * step
        s = replace(s, scale=np.where(s.alone, step, s.scale), bias=np.where(s.alone, near, s.bias))
    factor = (s.scale / float(scale)).astype(np.float32)
    by = w.constant(factor, float32)
    point = w.full(factor.shape, dtype, zero)
    q = w.make("requantise", _total(w, s), by, point, axis=s.place, dtype=dtype)
    return held(w, q, s, scale, zero)


def held(w: Writer, q: Var, s: Sums, scale: Array, zero: int) -> Var:
    """Codes between those of the clamp's ends, where the format alone does not keep them there."""
    least, most = integer_range(q.type.dtype)
    for name, end, edge in (("maximum", s.low, least), ("minimum", s.high, most)):
        code = edge if np.isinf(end) else code_of(end, scale, zero, q.type.dtype)
        if code != edge:
            q = w.make(name, q, w.full(q.type.shape, q.type.dtype, code))
    return q


def code_of(number: float, scale: Array, zero: int, dtype: DType) -> int:
    """As `quantise` rounds it."""
    return int(np.clip(np.rint(np.float32(number) / np.float32(scale)) + zero, *integer_range(dtype)))


def plain(w: Writer, s: Sums) -> Var:
    """The sums as numbers."""
    scale = s.scale.astype(np.float32)
    by, zero = w.constant(scale, float32), w.full(scale.shape, int32, 0)
    out = w.make("dequantise", _total(w, s), by, zero, axis=s.place)
    for name, end in (("maximum", s.low), ("minimum", s.high)):
        if np.isfinite(end):
            out = w.make(name, out, w.full(out.type.shape, float32, end))
    return out


def _total(w: Writer, s: Sums) -> Var:
    steps = s.steps
    if steps is None or not steps.any():
        return s.total
    axis = s.at if steps.ndim else None
    beside = _taken_off(w, s.total, axis)
    if beside is None:
        return w.make("add", s.total, w.along(w.constant(steps, int32), s.total, axis))
    sums, vector = beside
    both = w.make("sub", vector, w.along(w.constant(steps, int32), vector, 0 if steps.ndim else None))
    return w.make("sub", sums, w.along(both, s.total, axis))


def _taken_off(w: Writer, total: Var, axis: int | None) -> tuple[Var, Var] | None:
    """Sums and a vector along this axis that was taken off them: with a bias it is one vector."""
    made = w.makers.get(total)
    if made is None or made.primitive.name != "sub" or axis is None:
        return None
    vector = w.makers.get(made.inputs[1])
    if vector is None or vector.primitive.name != "broadcast" or vector.attributes["axes"] != (axis,):
        return None
    return made.inputs[0], vector.inputs[0]
