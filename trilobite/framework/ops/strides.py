"""Windows over memory as PyTorch names them: strides, as_strided, unfold, select; and parts replaced."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.layouts import first_element, row_major
from trilobite.framework.ops.axes import axes_in, axis_in, whole
from trilobite.framework.ops.registry import method, operators, tensor_op
from trilobite.framework.ops.shaping import handle, through
from trilobite.framework.tensor import Tensor, wrap
from trilobite.framework.views import diagonal_steps

G = "shape"


@method("stride")
def stride(x: Tensor, dim: int | None = None) -> Any:
    """How far apart neighbours along each axis are, in elements. What is no view is row-major."""
    steps = x._strides() or row_major(x.shape)
    return steps if dim is None else steps[axis_in(dim, x.ndim, "stride")]


@method("storage_offset")
def storage_offset(x: Tensor) -> int:
    """Which element of the memory that it shares a view begins with; 0 for what is no view."""
    found = first_element(x._peek().shape, x._view or ())
    return 0 if found is None else int(found)


@method("data_ptr")
def data_ptr(x: Tensor) -> int:
    """The address of the first element."""
    return int(x.detach().numpy().ctypes.data)


@method("element_size")
def element_size(x: Tensor) -> int:
    """Bytes of one element."""
    return int(x.dtype.itemsize)


@tensor_op(G)
def as_strided(x: Any, size: Any, stride: Any, storage_offset: int = 0) -> Tensor:
    """Elements of the flattened tensor at places that sizes and strides name; a copy, gradients flow."""
    x = handle(x)
    sizes, steps = tuple(size), tuple(stride)
    if len(sizes) != len(steps):
        raise ShapeError(
            f"as_strided with sizes {sizes} and strides {steps}", where=user_location(), expected="as many"
        )
    places = np.full(sizes, storage_offset or 0, np.int64)
    for a, (n, step) in enumerate(zip(sizes, steps, strict=True)):
        places += (np.arange(n) * step).reshape([-1 if i == a else 1 for i in range(len(sizes))])
    if places.size and not 0 <= places.min() <= places.max() < x.numel():
        raise ShapeError(
            f"as_strided reaches element {places.max()} of {x.numel()}",
            where=user_location(),
            expected="places inside the tensor",
        )
    return x.reshape(-1)[wrap(places)]  # type: ignore[no-any-return]


@method("unfold")
def unfold(x: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Windows of `size` elements along an axis, `step` apart, as a new last axis. A view where windows do not
    overlap, else a copy.
    """
    if x.ndim == 0:
        return unfold(x.reshape(1), dimension, size, step).reshape(size)  # type: ignore[no-any-return]
    a = axis_in(dimension, x.ndim, "unfold")
    n = x.shape[a]
    if not 0 <= size <= n or step < 1:
        raise ArgumentError(
            f"unfold into windows of {size}, {step} apart, of {n} elements",
            where=user_location(),
            expected=f"0 <= size <= {n}, step >= 1",
        )
    count = (n - size) // step + 1
    step = size if count == 1 else step
    if size <= step and count * step <= n:  # no element stands in two windows: they are parts of the tensor
        cut = x.narrow(a, 0, count * step).unflatten(a, (count, step))
        return cut.narrow(a + 1, 0, size).movedim(a + 1, -1)  # type: ignore[no-any-return]
    places = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    taken = operators["take"].public(x, wrap(places), axis=a)
    return taken.movedim(a + 1, -1)  # type: ignore[no-any-return]


@tensor_op(G, view=True)
def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The diagonal of the plane of two axes, as a new last axis; a positive offset is above it. A view."""
    x = handle(x)
    a, b = axes_in((axis1, axis2), x.ndim, "diagonal")
    return through(x, *diagonal_steps(x.shape, operator.index(offset), a, b))


@tensor_op(G, name="linalg.diagonal", methods=())
def matrix_diagonal(x: Any, /, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of the last two axes, or of those named; a positive offset is above it. A view."""
    x = handle(x)
    if x.ndim < 2:
        raise ShapeError(
            f"linalg.diagonal of a tensor of shape {tuple(x.shape)}",
            where=user_location(),
            expected="matrices: (..., m, n)",
        )
    return diagonal(x, offset, dim1, dim2)


@tensor_op(G)
def select(x: Any, dim: int, index: int) -> Tensor:
    """One slice along an axis, without the axis, as a view."""
    x = handle(x)
    return x[(slice(None),) * axis_in(dim, x.ndim, "select") + (whole(index, f"select of {index!r}"),)]  # type: ignore[no-any-return]


@tensor_op(G)
def narrow_copy(x: Any, dim: int, start: int, length: int) -> Tensor:
    """`narrow` with memory of its own."""
    return handle(x).narrow(dim, start, length).clone()  # type: ignore[no-any-return]


def _with(x: Tensor, key: Any, source: Any) -> Tensor:
    out = x.clone()
    out[key] = source
    return out  # type: ignore[no-any-return]


@tensor_op(G)
def select_scatter(x: Any, src: Any, dim: int, index: int) -> Tensor:
    """x with one slice along an axis replaced."""
    x = handle(x)
    return _with(x, (slice(None),) * axis_in(dim, x.ndim, "select_scatter") + (int(index),), src)


@tensor_op(G)
def slice_scatter(
    x: Any, src: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """x with slices along an axis replaced."""
    x = handle(x)
    lead = (slice(None),) * axis_in(dim, x.ndim, "slice_scatter")
    return _with(x, (*lead, slice(start, end, step)), src)


@method("sum_to_size")
def sum_to_size(x: Tensor, *size: Any) -> Tensor:
    """Summed over the axes that broadcasting to this shape would have repeated."""
    want = tuple(size[0]) if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    lead = x.ndim - len(want)
    out = x.sum(axis=tuple(range(lead))) if lead else x
    gone = tuple(i for i, d in enumerate(want) if d == 1 and out.shape[i] != 1)
    return out.sum(axis=gone, keepdims=True) if gone else out


# -- in place: the handle looks another way ---------------------------------------------------------------


def _turned(name: str) -> None:
    def change(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if x._cell.leaf is not None:
            raise ArgumentError(
                f"{name}_ of a leaf that requires a gradient",
                where=user_location(),
                expected="a tensor whose form may change",
                remedy=f"x = x.{name}(...)",
            )
        seen = getattr(x, name)(*args, **kwargs)
        x._view, x._extra = seen._view, None
        return x

    change.__name__, change.__doc__ = f"{name}_", f"`{name}` of the tensor itself."
    method(f"{name}_")(change)


for _name in ("squeeze", "unsqueeze", "t", "transpose", "swapaxes", "swapdims"):
    _turned(_name)
