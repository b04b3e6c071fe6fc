"""Matrix products."""

from __future__ import annotations

from typing import Any

from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.meeting import broadcast_shapes, broadcast_to, common
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

G = "linear algebra"
_dot = table["dot"]


@op(G, methods=("matmul", "__matmul__", "mm"))
def matmul(x1: Any, x2: Any, /) -> Value:
    """Matrix product; vectors stand for a row or a column, leading axes broadcast."""
    x, y = common(x1, x2)
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError("matmul of a tensor without dimensions", where=user_location(), remedy="multiply with *")
    if x.shape[-1] != y.shape[max(y.ndim - 2, 0)]:
        raise ShapeError(
            f"matmul of shapes {tuple(x.shape)} and {tuple(y.shape)}", where=user_location(),
            expected=f"the last axis of the first ({x.shape[-1]}) equal to the second to last of the second ({y.shape[max(y.ndim - 2, 0)]})",
            remedy="transpose one of them: x @ y.T",
        )  # fmt: skip
    if y.ndim <= 2:
        return _dot(x, y, contract=((x.ndim - 1,), (max(y.ndim - 2, 0),)), batch=((), ()), dtype=x.dtype)
    if x.ndim == 1:
        out = _batched(table["reshape"](x, shape=(1, *x.shape)), y)
        return table["reshape"](out, shape=(*out.shape[:-2], out.shape[-1]))
    return _batched(x, y)


def _batched(x: Value, y: Value) -> Value:
    lead = broadcast_shapes(x.shape[:-2], y.shape[:-2])
    x, y = broadcast_to(x, (*lead, *x.shape[-2:])), broadcast_to(y, (*lead, *y.shape[-2:]))
    n = len(lead)
    axes = tuple(range(n))
    return _dot(x, y, contract=((n + 1,), (n,)), batch=(axes, axes), dtype=x.dtype)
