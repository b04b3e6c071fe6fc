"""Tensors made from others, or like them, under PyTorch's names: new_zeros, diagonals, grids of indices,
blocks, stacks; real numbers seen as complex ones.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explains
from trilobite.framework.ops.axes import axis_in, whole
from trilobite.framework.ops.creation import without_meaning
from trilobite.framework.ops.registry import alias, method, operators, tensor_op
from trilobite.framework.ops.shaping import handle, listed
from trilobite.framework.tensor import Tensor, wrap

G = "creation"


def _op(name: str) -> Any:
    return operators[name].public


# -- like another tensor ---------------------------------------------------------------------------------


def _new(name: str) -> None:
    def make(x: Tensor, *size: Any, dtype: Any = None, **settings: Any) -> Tensor:
        shape = settings.pop("size", None)
        sizes = tuple(listed(size)) if shape is None else shape
        return _op(name)(sizes, dtype=x.dtype if dtype is None else dtype, **settings)  # type: ignore[no-any-return]

    make.__name__, make.__doc__ = f"new_{name}", f"tb.{name} of this tensor's dtype."
    method(f"new_{name}")(make)


for _name in ("zeros", "ones", "empty"):
    _new(_name)


@method("new_full")
def new_full(x: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, **settings: Any) -> Tensor:
    """tb.full of this tensor's dtype."""
    return _op("full")(size, fill_value, dtype=x.dtype if dtype is None else dtype, **settings)  # type: ignore[no-any-return]


@method("new_tensor", "new")
def new_tensor(
    x: Tensor, *data: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """tb.tensor of this tensor's dtype; x.new(2, 3) makes zeros."""
    out = Tensor(*data, dtype=x.dtype if dtype is None else dtype, device=device)
    return out.requires_grad_() if requires_grad else out


@tensor_op(G, methods=())
@explains
def empty_strided(size: Any, stride: Any, **settings: Any) -> Tensor:
    """A tensor to be written to; strides change no result and are left aside."""
    return _op("empty")(tuple(size), **settings)  # type: ignore[no-any-return]


@tensor_op(G, methods=())
def scalar_tensor(number: Any, *, dtype: Any = None, device: Any = None, **other: Any) -> Tensor:
    """A number as a tensor without dimensions; a float unless said otherwise."""
    grad = {"requires_grad": other.pop("requires_grad", False)}
    without_meaning(other)
    return _op("tensor")(number, dtype=dt.default_float if dtype is None else dtype, device=device, **grad)  # type: ignore[no-any-return]


@tensor_op(G, methods=(), name="range")
def inclusive_range(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None, **other: Any
) -> Tensor:
    """From start to end, the end included; floats unless said otherwise."""
    start, end = (0, start) if end is None else (start, end)
    count = math.floor((end - start) / step) + 1
    line = start + np.arange(count) * step
    return wrap(line.astype(dt.default_float if dtype is None else dt.as_dtype(dtype)))


@tensor_op(G, methods=())
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0) -> Tensor:
    """The bytes of a buffer as a tensor; of one that may not be written to, a copy."""
    return _op("from_numpy")(np.frombuffer(buffer, dt.as_dtype(dtype), count, offset))  # type: ignore[no-any-return]


# -- indices and diagonals -------------------------------------------------------------------------------


def _wholes(what: str, *numbers: Any) -> list[int]:
    return [whole(n, f"{what} of {n!r}") for n in numbers]


def _indices(found: tuple[Any, ...], dtype: Any) -> Tensor:
    return wrap(np.stack(found).astype(dt.int64 if dtype is None else dt.as_dtype(dtype)))


@tensor_op(G, methods=())
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, **settings: Any) -> Tensor:
    """Rows and columns of what stands on and below a diagonal."""
    return _indices(np.tril_indices(*_wholes("tril_indices", row, offset, col)), dtype)


@tensor_op(G, methods=())
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, **settings: Any) -> Tensor:
    """Rows and columns of what stands on and above a diagonal."""
    return _indices(np.triu_indices(*_wholes("triu_indices", row, offset, col)), dtype)


@tensor_op(G)
def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices in the plane of two new axes, with the last axis of x on a diagonal and zeros elsewhere."""
    x = handle(x)
    n = x.shape[-1] + abs(offset)
    a, b = axis_in(dim1, x.ndim + 1, "diag_embed"), axis_in(dim2, x.ndim + 1, "diag_embed")
    low = max(-offset, 0)
    at = np.arange(x.shape[-1])
    out = _op("zeros")((*x.shape[:-1], n, n), dtype=x.dtype)
    out[..., wrap(at + low), wrap(at + max(offset, 0))] = x
    return out.movedim((-2, -1), (a, b))  # type: ignore[no-any-return]


@tensor_op(G)
def diagflat(x: Any, offset: int = 0) -> Tensor:
    """A matrix with all elements on a diagonal."""
    return _op("diag")(handle(x).reshape(-1), offset)  # type: ignore[no-any-return]


@tensor_op(G)
def diagonal_scatter(x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """x with a diagonal replaced."""
    x = handle(x)
    a, b = axis_in(dim1, x.ndim, "diagonal_scatter"), axis_in(dim2, x.ndim, "diagonal_scatter")
    out = x.movedim((a, b), (-2, -1)).clone()
    low, right = max(-offset, 0), max(offset, 0)
    at = np.arange(min(out.shape[-2] - low, out.shape[-1] - right))
    out[..., wrap(at + low), wrap(at + right)] = src
    return out.movedim((-2, -1), (a, b))  # type: ignore[no-any-return]


@method("fill_diagonal_")
def fill_diagonal_(x: Tensor, fill_value: Any, wrap: bool = False) -> Tensor:
    """One number on the main diagonal, in place; with `wrap` on that of each square of a tall matrix."""
    if wrap and x.ndim == 2 and x.shape[0] > x.shape[1]:
        flat = _op("arange")(0, x.shape[0] * x.shape[1], x.shape[1] + 1)
        x[flat // x.shape[1], flat % x.shape[1]] = fill_value
        return x
    at = _op("arange")(min(x.shape))
    x[(at,) * x.ndim] = fill_value
    return x


# -- several tensors -------------------------------------------------------------------------------------


@tensor_op(G, methods=())
def block_diag(*tensors: Any) -> Tensor:
    """Matrices one after the other along the diagonal, zeros elsewhere."""
    parts = [handle(x) for x in tensors]
    parts = [x.reshape((1,) * (2 - x.ndim) + tuple(x.shape)) if x.ndim < 2 else x for x in parts]
    columns = sum(x.shape[1] for x in parts)
    rows, left = [], 0
    for x in parts:
        rows.append(_op("pad")(x, ((0, 0), (left, columns - left - x.shape[1]))))
        left += x.shape[1]
    return _op("concat")(rows, axis=0)  # type: ignore[no-any-return]


@tensor_op(G, methods=())
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of the elements of several vectors, one per row."""
    lines = [handle(x) for x in tensors]
    if len(lines) == 1:
        return lines[0]
    grid = _op("meshgrid")(*lines, indexing="ij")
    return _op("stack")([g.reshape(-1) for g in grid], axis=1)  # type: ignore[no-any-return]


@tensor_op(G, methods=("combinations",))
def combinations(x: Any, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of r elements of a vector, in order, one per row."""
    x = handle(x)
    pick = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = np.array(list(pick(range(x.shape[0]), r)), np.int64).reshape(-1, r)
    return x[wrap(places)]  # type: ignore[no-any-return]


@tensor_op(G, methods=())
@explains
def dstack(tensors: Any) -> Tensor:
    """Joined along the third axis."""
    return _op("concat")([atleast_3d(x) for x in tensors], axis=2)  # type: ignore[no-any-return]


@tensor_op(G, methods=())
@explains
def column_stack(tensors: Any) -> Tensor:
    """Joined along the second axis; vectors become columns."""
    parts = [handle(x) for x in tensors]
    return _op("concat")([x.reshape(-1, 1) if x.ndim < 2 else x for x in parts], axis=1)  # type: ignore[no-any-return]


def _at_least(tensors: tuple[Any, ...], form: Any) -> Any:
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else tensors
    out = tuple(form(handle(x)) for x in given)
    return out[0] if len(tensors) == 1 and not isinstance(tensors[0], (list, tuple)) else out


@tensor_op(G, methods=())
def atleast_1d(*tensors: Any) -> Any:
    """With one dimension if there is none."""
    return _at_least(tensors, lambda x: x.reshape(1) if x.ndim == 0 else x)


@tensor_op(G, methods=())
def atleast_2d(*tensors: Any) -> Any:
    """With leading dimensions up to two."""
    return _at_least(tensors, lambda x: x.reshape((1,) * (2 - x.ndim) + tuple(x.shape)) if x.ndim < 2 else x)


@tensor_op(G, methods=())
def atleast_3d(*tensors: Any) -> Any:
    """With dimensions up to three: rows stand in the middle, as NumPy has it."""

    def form(x: Tensor) -> Any:
        if x.ndim >= 3:
            return x
        return x.reshape(1, -1, 1) if x.ndim < 2 else x.reshape(*x.shape, 1)

    return _at_least(tensors, form)


def _divided(name: str, axis: int) -> None:
    def cut(x: Any, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None) -> Any:
        x = handle(x)
        given = (indices_or_sections, indices, sections)
        indices_or_sections = next((v for v in given if v is not None), None)
        a = 0 if name == "hsplit" and x.ndim == 1 else axis
        return _op("tensor_split")(x, indices_or_sections, a)

    cut.__name__, cut.__doc__ = name, f"Pieces along axis {axis}."
    tensor_op("joining", name=name)(cut)


for _name, _axis in (("vsplit", 0), ("hsplit", 1), ("dsplit", 2)):
    _divided(_name, _axis)


# -- complex numbers -------------------------------------------------------------------------------------


@tensor_op(G, methods=())
def view_as_real(x: Any) -> Tensor:
    """Real and imaginary parts along a new last axis of size 2; a copy, gradients flow."""
    x = handle(x)
    return _op("stack")([x.real, x.imag], axis=-1)  # type: ignore[no-any-return]


@tensor_op(G, methods=())
def view_as_complex(x: Any) -> Tensor:
    """A last axis of size 2 as real and imaginary parts; a copy, gradients flow."""
    x = handle(x)
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError(
            f"view_as_complex of shape {tuple(x.shape)}", where=user_location(), expected="(..., 2)"
        )
    return _op("complex")(x[..., 0], x[..., 1])  # type: ignore[no-any-return]


@tensor_op(G, methods=())
def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers by their sizes and angles."""
    size, turn = handle(abs), handle(angle)
    return _op("complex")(size * turn.cos(), size * turn.sin())  # type: ignore[no-any-return]


alias("row_stack", "vstack")
alias("broadcast_tensors", "broadcast_arrays")
