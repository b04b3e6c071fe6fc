"""Formats without arithmetic: 8-bit floats and 4-bit numbers compute in a wider one and round once.

What only moves bits keeps them as they are. Truth values that are added or compared go through bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.base.dtypes import DType, bits, float32, int8, int32, is_float, is_integer, is_signed, uint8
from trilobite.compiler.graph.passes.rules.pointwise import POINTWISE
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.vector.formats import computes
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table

_BITS = frozenset({"select", "bitcast", "cast", "complex", "real", "imag", "conj"})


def wider(dtype: DType) -> DType:
    """The dtype that stands for one without arithmetic."""
    if is_float(dtype):
        return float32
    return int8 if is_signed(dtype) else uint8


def rule(e: Equation) -> Callable[..., Any] | None:
    name = e.primitive.name
    if name in ("popcount", "clz") and bits(e.inputs[0].type.dtype) == 4:
        return _count(e)
    if name not in POINTWISE or name in _BITS or not e.inputs:
        return None
    dtype = e.inputs[-1].type.dtype
    if dtype.kind == "c" or computes(dtype) or not (is_float(dtype) or is_integer(dtype)):
        return None
    wide, out = wider(dtype), e.outputs[0].type.dtype

    def body(*xs: Any) -> Any:
        found = table[name](*(t.cast(x, wide) for x in xs), **e.attributes)
        return t.cast(found, out) if found.dtype != out else found

    return body


def _count(e: Equation) -> Callable[..., Any]:
    """Of the four bits alone."""

    def body(x: Any) -> Any:
        word = t.bitwise("and", t.cast(t.cast(x, int8), int32), 15)
        found = t.one(e.primitive.name, word)
        if e.primitive.name == "clz":
            found = t.sub(found, 28)
        return t.cast(found, x.dtype)

    return body
