"""Making arrays: counters along an axis of several, joins of many parts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trilobite.base.dtypes import bits, float32, int32, int64, is_complex, is_float, is_integer
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.vector.formats import computes
from trilobite.ir.graph import Equation

Body = Callable[..., Any] | None
MOST_PARTS = 16  # that one join takes


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


def _concatenate(e: Equation) -> Body:
    """A routine takes few addresses: many parts are joined in turns."""
    axis, count = e.attributes["axis"], len(e.inputs)
    if count <= MOST_PARTS:
        return None
    size = max(-(-count // MOST_PARTS), 2)

    def joined(*values: Any) -> Any:
        return t.join([t.join(values[n : n + size], axis) for n in range(0, count, size)], axis)

    return joined


RULES = {"iota": _iota, "concatenate": _concatenate}
