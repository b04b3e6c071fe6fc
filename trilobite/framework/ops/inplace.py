"""Changing a tensor: copy_, fill_, zero_, and what `+=` and its kin do."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError, ShapeError, StateError
from trilobite.base.locations import user_location
from trilobite.framework.ops.conversion import to_array
from trilobite.framework.ops.indexing import setitem
from trilobite.framework.ops.meeting import astype, broadcast_to
from trilobite.framework.ops.pointwise import truth
from trilobite.framework.ops.registry import method
from trilobite.framework.ops.taking import index_add, scatter, scatter_add
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives.common import OWN
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms import cells

_RANK = ("bool", "int", "float", "complex")


def assign(x: Tensor, result: Tensor, what: str, since: int | None = None) -> Tensor:
    """Store the result of an operation, which began at `since`, in the tensor itself: its shape must fit, its
    dtype may not be of a higher kind.
    """
    value = result._read()
    if _written(x, value):
        return x
    if value.shape != x.shape:
        raise ShapeError(
            f"{what}: a result of shape {tuple(value.shape)} in a tensor of shape {tuple(x.shape)}",
            where=user_location(),
            expected="the tensor's own shape",
            remedy="x = x + y, which makes a new tensor",
        )
    if _RANK.index(dt.kind(value.dtype)) > _RANK.index(dt.kind(x.dtype)):
        raise DTypeError(
            f"{what}: a result of {value.dtype} in a tensor of {x.dtype}",
            where=user_location(),
            expected="a dtype that it casts to without loss of kind",
            remedy="x = x + y, which makes a new tensor",
        )
    x._store(astype(value, x._peek().dtype), since)
    return x


def _written(x: Tensor, new: Any) -> bool:
    """Plain memory takes an array of its own kind at once."""
    cell, ctx = x._cell, entry.threads.context
    if cell.leaf is not None or cell.owner is not None or ctx.recorder is not None or ctx.undo is not None:
        return False  # in a recording the value may be somewhere else, and is not asked for
    old = cell.value
    if type(old) is not np.ndarray or type(new) is not np.ndarray or x._view is not None:
        return False
    if x._extra is not None or old.dtype != new.dtype or old.shape != new.shape or not old.flags.writeable:
        return False
    np.copyto(old, new)
    cells.stamp(old)
    return True


@method("copy_")
def copy_(x: Tensor, source: Any) -> Tensor:
    """Take the values of another tensor, cast and broadcast to this one."""
    value = source._read() if isinstance(source, Tensor) else to_array(source)
    if _written(x, value):
        return x
    x._store(broadcast_to(astype(value, x._peek().dtype), x.shape))
    return x


@method("fill_")
def fill_(x: Tensor, number: Any) -> Tensor:
    """One number everywhere."""
    setitem(x, Ellipsis, number)
    return x


@method("zero_")
def zero_(x: Tensor) -> Tensor:
    """Zeros everywhere."""
    held = x._cell.value
    if type(held) is np.ndarray and x._view is None and held.dtype.num < OWN and _written(x, _zero(held)):
        return x
    return fill_(x, False)


@lru_cache(maxsize=64)
def _zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    return np.broadcast_to(np.zeros((), dtype), shape)


def _zero(like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return _zeros(like.shape, like.dtype)


@method("detach_")
def detach_(x: Tensor) -> Tensor:
    """The tensor itself without its history."""
    if x.requires_grad:
        if x._view is not None:
            raise StateError(
                "detach_() of a view",
                where=user_location(),
                expected="a tensor with memory of its own",
                remedy="y = x.detach()",
            )
        value = x.detach()._read()
        x._cell, x._extra = wrap(value)._cell, None
    return x


@method("masked_fill_")
def masked_fill_(x: Tensor, mask: Any, value: Any) -> Tensor:
    """One value where the mask is true; the mask is repeated to the tensor's shape."""
    mask = truth(_read(mask))
    setitem(x, wrap(mask if mask.shape == x.shape else broadcast_to(mask, x.shape)), value)
    return x


def _read(v: Any) -> Any:
    return v._read() if isinstance(v, Tensor) else v


@method("scatter_")
def scatter_(
    x: Tensor, axis: int, index: Any, source: Any = None, *, reduce: str | None = None, value: Any = None
) -> Tensor:
    """Write source[..., i, ...] at x[..., index[..., i, ...], ...]."""
    source, reduce = value if source is None else source, reduce or "set"
    return assign(x, wrap(scatter(x._read(), axis, _read(index), _read(source), reduce=reduce)), "scatter_")


@method("scatter_add_")
def scatter_add_(x: Tensor, axis: int, index: Any, source: Any) -> Tensor:
    """Add source[..., i, ...] at x[..., index[..., i, ...], ...]."""
    return assign(x, wrap(scatter_add(x._read(), axis, _read(index), _read(source))), "scatter_add_")


@method("index_add_")
def index_add_(x: Tensor, axis: int, index: Any, source: Any, *, alpha: Any = 1) -> Tensor:
    """Add the slices of a source to the slices along an axis that the indices name."""
    source = source if alpha == 1 else source * alpha
    return assign(x, wrap(index_add(x._read(), axis, _read(index), _read(source))), "index_add_")
