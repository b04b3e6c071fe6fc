"""Tensors from data, and from nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType, as_dtype
from trilobite.base.errors import ArgumentError, DeviceError
from trilobite.framework.ops.registry import tensor_op
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry


def to_array(data: Any, dtype: Any = None, copy: bool | None = None) -> Value:
    """Data as an array: Python floats become float32, ints int64; arrays keep their dtype."""
    want = None if dtype is None else as_dtype(dtype)
    if isinstance(data, Tensor):
        value = data.detach()._read()
        return value if want is None or want == value.dtype else table["cast"](value, dtype=want)
    if not isinstance(data, (np.ndarray, np.generic)):
        data = _from_python(data, want)
    if want is None:
        want = as_dtype(data.dtype)
    with np.errstate(all="ignore"):
        return np.array(data, dtype=want) if copy else np.asarray(data, dtype=want)


def _from_python(data: Any, want: DType | None) -> np.ndarray[Any, Any]:
    if hasattr(data, "__array__"):
        return np.asarray(data)
    if isinstance(data, (list, tuple)):
        data = _plain(data)
    try:
        found = np.asarray(data)
    except ValueError as error:
        raise ArgumentError(f"the data does not form a tensor: {error}", expected="numbers, or nested lists of equal lengths") from None
    if found.dtype == object or found.dtype.kind in "SUOmM":
        raise ArgumentError(f"the data does not form a tensor: {type(data).__name__} of {found.dtype}", expected="numbers, or nested lists of equal lengths")
    if want is not None:
        return found
    default = {"f": dt.default_float, "i": dt.default_int, "u": dt.default_int, "c": dt.default_complex}.get(found.dtype.kind)
    empty = found.size == 0 and found.dtype == np.float64
    return found.astype(dt.default_float if empty else default) if default is not None else found


def _plain(data: Sequence[Any]) -> list[Any]:
    return [d.detach().numpy() if isinstance(d, Tensor) else _plain(d) if isinstance(d, (list, tuple)) else d for d in data]


def check_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise DeviceError(f"there is no device {device!r}", expected="'cpu'", remedy="choose where compiled code runs with tb.jit(f, target=...)")


@tensor_op("creation", methods=())
def tensor(data: Any, *, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """A tensor with a copy of the data."""
    check_device(device)
    out = wrap(to_array(data, dtype, copy=True))
    return out.requires_grad_() if requires_grad else out


def filled(shape: Any, value: Any, dtype: DType) -> Tensor:
    """A tensor with one number everywhere."""
    sizes = (shape,) if isinstance(shape, (int, np.integer)) or not isinstance(shape, (tuple, list)) else tuple(shape)
    if entry.threads.context.recorder is not None:
        return wrap(table["full"](shape=sizes, dtype=dtype, value=value))
    return wrap(np.full(sizes, value, dtype))


@tensor_op("creation", methods=())
def zeros(shape: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros."""
    check_device(device)
    out = filled(shape, 0, dt.default_float if dtype is None else as_dtype(dtype))
    return out.requires_grad_() if requires_grad else out


@tensor_op("creation", methods=())
def ones(shape: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Ones."""
    check_device(device)
    out = filled(shape, 1, dt.default_float if dtype is None else as_dtype(dtype))
    return out.requires_grad_() if requires_grad else out
