"""Tensors with one number everywhere."""

from __future__ import annotations

from typing import Any

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import size_in
from trilobite.framework.ops.meeting import scalar
from trilobite.framework.sizes import Size
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table
from trilobite.ir.primitives.common import OWN
from trilobite.ir.transforms import bind as entry
from trilobite.ir.types import Affine, Shape


def shape_of(shape: Any) -> Shape:
    """A shape as a tuple of sizes."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    out = tuple(map(size_in, sizes))
    if any(not isinstance(d, Affine) and d < 0 for d in out):
        raise ShapeError(
            f"a tensor of shape {out}",
            where=user_location(),
            expected="sizes that are not negative",
            remedy="only reshape works a size out from -1",
        )
    return out


def filled(shape: Any, value: Any, dtype: DType) -> Tensor:
    """A tensor with one number everywhere."""
    sizes = shape_of(shape)
    if entry.threads.context.recorder is not None or any(isinstance(d, Affine) for d in sizes):
        return wrap(table["full"](shape=sizes, dtype=dtype, value=value))
    if value == 0 and type(value) is int:
        return wrap(np.zeros(sizes, dtype))  # the system hands out pages of zeros without writing them
    out = np.empty(sizes, dtype)
    out[...] = scalar(value, dtype)
    return wrap(out)


def plainly(shape: Any, value: Any, dtype: DType) -> np.ndarray[Any, Any] | None:
    """A number that surely fits, in a shape that is nothing but sizes, in eager mode: the array."""
    if (type(shape) is not tuple and type(shape) is not Size) or entry.threads.context.recorder is not None:
        return None
    for d in shape:
        if type(d) is not int or d < 0:
            return None
    if value == 0 and type(value) is int:
        return np.zeros(shape, dtype)
    if dtype.num >= OWN or dtype.kind != "f" or type(value) not in (int, float):
        return None
    out = np.empty(shape, dtype)
    out.fill(value)
    return out
