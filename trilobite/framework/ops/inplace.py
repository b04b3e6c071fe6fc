"""Changing a tensor: copy_, fill_, zero_, and what `+=` and its kin do."""

from __future__ import annotations

from typing import Any

from trilobite.base import dtypes as dt
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.creation import to_array
from trilobite.framework.ops.meeting import astype, broadcast_to
from trilobite.framework.ops.registry import tensor_op
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitives import table

G = "in place"


def assign(x: Tensor, result: Tensor, what: str) -> Tensor:
    """Store the result of an operation in the tensor itself: its shape must fit, its dtype may not be of a higher kind."""
    value = result._read()
    if value.shape != x.shape:
        raise ShapeError(f"{what}: a result of shape {tuple(value.shape)} in a tensor of shape {tuple(x.shape)}", where=user_location(), expected="the tensor's own shape")
    rank = ("bool", "int", "float", "complex")
    if rank.index(dt.kind(value.dtype)) > rank.index(dt.kind(x.dtype)):
        raise DTypeError(f"{what}: a result of {value.dtype} in a tensor of {x.dtype}", where=user_location(), expected="a dtype that it casts to without loss of kind", remedy="x = x + y, which makes a new tensor")
    x._store(astype(value, x.dtype))
    return x


@tensor_op(G, name="copy_", methods=("copy_",))
def copy_(x: Tensor, source: Any) -> Tensor:
    """Take the values of another tensor, cast and broadcast to this one."""
    value = source._read() if isinstance(source, Tensor) else to_array(source)
    x._store(broadcast_to(astype(value, x.dtype), x.shape))
    return x


@tensor_op(G, name="fill_", methods=("fill_",))
def fill_(x: Tensor, number: Any) -> Tensor:
    """One number everywhere."""
    x._store(table["full"](shape=x.shape, dtype=x.dtype, value=number))
    return x


@tensor_op("shape", name="clone", methods=("clone",))
def clone(x: Tensor) -> Tensor:
    """A copy with memory of its own, through which gradients flow."""
    import numpy as np

    value = x._read()
    return wrap(value.copy() if isinstance(value, np.ndarray) else value)
