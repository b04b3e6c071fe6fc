"""Making arrays: counters along an axis of several, constants of formats without arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.base.dtypes import bits, float32, int32, int64, is_complex, is_float, is_integer
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.vector.formats import computes
from trilobite.ir.graph import Equation

Body = Callable[..., Any] | None


def _iota(e: Equation) -> Body:
    shape, dtype, axis = (e.attributes[k] for k in ("shape", "dtype", "axis"))
    if is_complex(dtype):
        return None
    if not computes(dtype) or bits(dtype) == 1:
        wide = int64 if is_integer(dtype) or not is_float(dtype) else float32
        return lambda: t.cast(t.iota(shape, wide, axis), dtype)
    if dtype.itemsize < 4:  # counts beyond the format round or wrap as a cast does
        return lambda: t.cast(t.iota(shape, int32, axis), dtype)
    if len(shape) > 1:
        return lambda: t.broadcast(t.iota((shape[axis],), dtype, 0), shape, (axis,))
    return None


RULES = {"iota": _iota}
