"""Grids of numbers: quantise and dequantise as the arithmetic they mean; 4-bit numbers in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.base.dtypes import float32, float64, int32, is_integer
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.primitives import rescale, scaled, to_grid
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.vector.formats import computes
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import Primitive
from trilobite.ir.primitives.common import float_range, integer_range

Body = Callable[..., Any] | None


def _width(*dtypes: Any) -> Any:
    return float64 if float64 in dtypes or int32 in dtypes else float32


def _along(v: Any, shape: Any, axis: int | None) -> Any:
    return t.broadcast(v, shape, () if axis is None else (axis,))


def _spread(primitive: Primitive, e: Equation, dtype: Any) -> Body:
    """The same with scale and zero point at every place."""
    axis, shape = e.attributes["axis"], extents(e.inputs[0])

    def body(x: Any, scale: Any, zero_point: Any) -> Any:
        return primitive(x, _along(scale, shape, axis), _along(zero_point, shape, axis), dtype=dtype)

    return body


def _quantise(e: Equation) -> Body:
    axis, dtype, shape = e.attributes["axis"], e.attributes["dtype"], extents(e.inputs[0])
    if is_integer(dtype) and computes(dtype) and _width(e.inputs[0].type.dtype, dtype) == float32:
        return _spread(to_grid, e, dtype)

    def body(x: Any, scale: Any, zero_point: Any) -> Any:
        wide = _width(x.dtype, dtype)
        by, zero = (_along(t.cast(v, wide), shape, axis) for v in (scale, zero_point))
        steps = t.div(t.cast(x, wide), by)
        if not is_integer(dtype):
            low, high = float_range(dtype)
            return t.cast(_clipped(t.add(steps, zero), low, high), dtype)
        found = t.add(t.one("round", steps), zero)
        found = t.select(t.one("is_nan", found), zero, found)
        low, high = integer_range(dtype)
        return t.cast(t.cast(_clipped(found, low, high), int32), dtype)

    return body


def _clipped(x: Any, low: float, high: float) -> Any:
    return t.minimum(t.maximum(x, float(low)), float(high))


def _dequantise(e: Equation) -> Body:
    axis, shape = e.attributes["axis"], extents(e.inputs[0])
    if e.inputs[0].type.dtype == int32 and e.inputs[1].type.dtype == float32:
        return _spread(scaled, e, float32)

    def body(q: Any, scale: Any, zero_point: Any) -> Any:
        wide = _width(scale.dtype, q.dtype)
        by, zero = (_along(t.cast(v, wide), shape, axis) for v in (scale, zero_point))
        return t.cast(t.mul(t.sub(t.cast(q, wide), zero), by), scale.dtype)

    return body


def _requantise(e: Equation) -> Body:
    """One rounding that the matrix unit's drain has, too; in steps where no conversion gives the dtype."""
    axis, dtype, shape = e.attributes["axis"], e.attributes["dtype"], extents(e.inputs[0])
    if computes(dtype) and e.inputs[1].type.dtype == float32:
        return _spread(rescale, e, dtype)

    def body(x: Any, scale: Any, zero_point: Any) -> Any:
        by, zero = (_along(t.cast(v, float64), shape, axis) for v in (scale, zero_point))
        found = t.add(t.one("round", t.mul(t.cast(x, float64), by)), zero)
        found = t.select(t.one("is_nan", found), zero, found)
        low, high = integer_range(dtype)
        return t.cast(t.cast(_clipped(found, low, high), int32), dtype)

    return body


RULES = {"quantise": _quantise, "requantise": _requantise, "dequantise": _dequantise}
