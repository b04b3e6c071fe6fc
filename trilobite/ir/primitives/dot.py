"""The general dot product: any axes contracted, any axes batched. Result axes: batch, free of x, free of y.

Meaning: operands contiguous as (batch, M, K) and (batch, K, N); 16-bit and smaller floats are multiplied and
added in float32; integers wrap in the result dtype.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from trilobite.base.blas import one_thread
from trilobite.base.dtypes import ALL, DType, accumulator, bits, bool_, float32, float64, int32, is_integer
from trilobite.base.errors import DTypeError, ShapeError
from trilobite.base.quiet import array_rule, begin, end
from trilobite.ir.primitive import Attributes, Primitive, Value
from trilobite.ir.primitives.common import cast_to, conj, count, same_types
from trilobite.ir.primitives.shape import inverse, transpose
from trilobite.ir.types import Dim, TensorType, size_of

Array = np.ndarray[Any, Any]
Axes = tuple[tuple[int, ...], tuple[int, ...]]


def free_axes(ndim: int, *taken: Sequence[int]) -> tuple[int, ...]:
    used = {a for axes in taken for a in axes}
    return tuple(i for i in range(ndim) if i not in used)


def _type(x: TensorType, y: TensorType, contract: Axes, batch: Axes, dtype: DType) -> TensorType:
    same_types("dot", (x,), ALL - {bool_})
    if x.dtype != y.dtype:
        raise DTypeError(f"dot of {x} and {y}", expected="equal dtypes; casts are explicit")
    for what, (a, b) in (("contracted", contract), ("batch", batch)):
        if len(a) != len(b) or any(x.shape[i] != y.shape[j] for i, j in zip(a, b, strict=True)):
            raise ShapeError(f"dot of {x} and {y}: {what} axes {list(a)} and {list(b)} differ in size")
    fx, fy = free_axes(len(x.shape), contract[0], batch[0]), free_axes(len(y.shape), contract[1], batch[1])
    shape = [x.shape[i] for i in (*batch[0], *fx)] + [y.shape[j] for j in fy]
    return TensorType(tuple(shape), dtype)


@lru_cache(maxsize=4096)
def _layouts(x: tuple[int, ...], y: tuple[int, ...], contract: Axes, batch: Axes) -> tuple[Any, ...]:
    """How operands of these shapes become matrices: the order of the axes of each and the sizes as (batch, M,
    K) and (batch, K, N); then the shape of the result.
    """
    fx, fy = free_axes(len(x), contract[0], batch[0]), free_axes(len(y), contract[1], batch[1])
    groups, others = (batch[0], fx, contract[0]), (batch[1], contract[1], fy)
    sizes = tuple(math.prod(x[i] for i in group) for group in groups)
    more = tuple(math.prod(y[i] for i in group) for group in others)
    shape = (*(x[i] for i in (*batch[0], *fx)), *(y[j] for j in fy))
    return sum(groups, ()), sizes, sum(others, ()), more, shape


@cache
def wide_dtype(operand: DType, result: DType) -> DType:
    """What products are added in: the accumulator of the operands, or a wider result."""
    if is_integer(result):
        return (
            int32 if bits(result) < 8 else result
        )  # 4-bit numbers are narrowed at the end, which wraps alike
    return np.promote_types(accumulator(operand), accumulator(result))


_one_thread, _asarray = one_thread(np.matmul), np.asarray
_AS_THEY_ARE: frozenset[DType] = frozenset({float32, float64})  # whose products are added in their own dtype
_ALONE = 8192  # products of up to this many multiplications OpenBLAS never divides among threads


def _product(a: Array, b: Array) -> Array:
    """One matrix product, or a batch of them, whose bits depend on the operands alone."""
    small = a.shape[-2] * a.shape[-1] * b.shape[-1] <= _ALONE
    if small and a.ndim == 2 and a.dtype in _AS_THEY_ARE and a.size != 1 != b.size:
        product: Array = a.dot(b)  # the same routine of BLAS, at a third of the call's time
        return product
    out: Array = np.matmul(a, b) if small else _one_thread(a, b)
    return out


def _small_matrices(x: Array, y: Array) -> Any:
    if x.size == 1 or y.size == 1:  # which `dot` takes for a factor, and a factor of 0 makes 0 of NaN
        return np.matmul(x, y)
    x = x if x.flags.c_contiguous else np.ascontiguousarray(x)
    return x.dot(y if y.flags.c_contiguous else np.ascontiguousarray(y))


def as_small_product(x: TensorType, y: TensorType, contract: Axes, **_: Any) -> Any:
    """What `dot` does with operands of these types, where that is a small product of float32 or float64 in
    their order; else None.
    """
    plain = x.dtype == y.dtype and x.dtype in _AS_THEY_ARE and len(x.shape) == len(y.shape)
    matrices = contract == ((1,), (0,)) and len(x.shape) == 2
    vectors = contract == ((0,), (0,)) and len(x.shape) == 1
    if not plain or not (matrices or vectors) or count(x.size) * count(size_of(y.shape[1:])) > _ALONE:
        return None
    return _small_matrices


def small_layouts(
    x: TensorType, y: TensorType, contract: Axes, batch: Axes, dtype: DType
) -> tuple[Any, ...] | None:
    """How operands of these types become matrices (`_layouts`), where the meaning of their product is one
    call of `np.matmul`, or of a routine that it calls too; else None.
    """
    if x.dtype != y.dtype or x.dtype not in _AS_THEY_ARE or dtype != x.dtype:
        return None
    order, sizes, other, more, _ = _layouts(x.shape, y.shape, contract, batch)
    many, (m, k), n = sizes[0], sizes[1:], more[2]
    if m * k * n > _ALONE or many == 0 or (many == 1 and 1 in (m, k, n)):
        return None
    return order, sizes, other, more


def small_product(x: Array, y: Array) -> Array | None:
    """What `dot` gives for two small matrices or vectors of float32 or float64; None for others."""
    sizes, others, dtype = x.shape, y.shape, x.dtype
    if dtype is not y.dtype or len(sizes) != len(others) or (dtype is not float32 and dtype is not float64):
        return None  # by identity: NumPy takes longer to hash a dtype than to multiply
    if len(sizes) == 2:
        rows, inner = sizes
        fits = others[0] == inner and rows * inner * others[1] <= _ALONE
    else:
        fits = sizes == others and len(sizes) == 1 and sizes[0] <= _ALONE
    if not fits:
        return None
    plain = x.flags.c_contiguous and y.flags.c_contiguous and x.size != 1 != y.size
    token = begin()
    try:
        return _asarray(x.dot(y) if plain else _small_matrices(x, y))
    finally:
        end(token)


def _dot(x: Array, y: Array, contract: Axes, batch: Axes, dtype: DType) -> Array:
    wide = wide_dtype(x.dtype, dtype)
    if not batch[0] and x.ndim == y.ndim == 2 and len(contract[0]) == 1:  # already two matrices
        a, b = (x if contract[0] == (1,) else x.T), (y if contract[1] == (0,) else y.T)
        out = _product(np.ascontiguousarray(a, wide), np.ascontiguousarray(b, wide))
        return out.astype(dtype, copy=False)
    order, sizes, other, more, shape = _layouts(x.shape, y.shape, contract, batch)
    a = np.ascontiguousarray(x.transpose(order), wide).reshape(sizes)
    b = np.ascontiguousarray(y.transpose(other), wide).reshape(more)
    out = _product(a[0], b[0]) if a.shape[0] == 1 else _product(a, b)
    return out.astype(dtype, copy=False).reshape(shape)


def _dot_x(t: Value, y: Value, x_type: TensorType, *, contract: Axes, batch: Axes) -> Value:
    """Cotangent of x: contract t's y-free axes with y's, then put the axes back in x's order."""
    nb, ny = len(batch[0]), len(y.shape)
    fx, fy = free_axes(len(x_type.shape), contract[0], batch[0]), free_axes(ny, contract[1], batch[1])
    t_batch = tuple(range(nb))
    t_fy = tuple(range(nb + len(fx), nb + len(fx) + len(fy)))
    out = dot(cast_to(t, y.dtype), y, contract=(t_fy, fy), batch=(t_batch, batch[1]), dtype=x_type.dtype)
    rest = [j for j in range(ny) if j not in fy and j not in batch[1]]  # y's contracted axes in y's order
    order = [*batch[0], *fx, *(contract[0][contract[1].index(j)] for j in rest)]
    return transpose(out, axes=inverse(order)) if order != sorted(order) else out


def _dot_y(t: Value, x: Value, y_type: TensorType, *, contract: Axes, batch: Axes) -> Value:
    nb, nx = len(batch[0]), len(x.shape)
    fx, fy = free_axes(nx, contract[0], batch[0]), free_axes(len(y_type.shape), contract[1], batch[1])
    t_batch, t_fx = tuple(range(nb)), tuple(range(nb, nb + len(fx)))
    out = dot(x, cast_to(t, x.dtype), contract=(fx, t_fx), batch=(batch[0], t_batch), dtype=y_type.dtype)
    rest = [i for i in range(nx) if i not in fx and i not in batch[0]]
    order = [*batch[1], *(contract[1][contract[0].index(i)] for i in rest), *fy]
    return transpose(out, axes=inverse(order)) if order != sorted(order) else out


def _batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    (x, y), (cx, cy), (bx, by) = values, attrs["contract"], attrs["batch"]
    if mapped[0]:
        cx, bx = tuple(a + 1 for a in cx), tuple(a + 1 for a in bx)
    if mapped[1]:
        cy, by = tuple(a + 1 for a in cy), tuple(a + 1 for a in by)
    if all(mapped):
        return dot(x, y, contract=(cx, cy), batch=((0, *bx), (0, *by)), dtype=attrs["dtype"])
    out = dot(x, y, contract=(cx, cy), batch=(bx, by), dtype=attrs["dtype"])
    # The mapped axis is the first free one of its side: move it to the front.
    at = len(bx) if mapped[0] else len(bx) + x.ndim - len(cx) - len(bx)
    if at == 0:
        return out
    return transpose(out, axes=(at, *(i for i in range(out.ndim) if i != at)))


def _cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
    inner = size_of([inputs[0].shape[i] for i in attrs["contract"][0]])
    return 2.0 * count(outputs[0].size) * count(inner)


dot: Primitive = Primitive(
    "dot",
    "x y",
    type=_type,
    evaluate=array_rule(_dot),
    jvp=(
        lambda t, y, *, contract, batch, dtype: dot(t, y, contract=contract, batch=batch, dtype=dtype),
        lambda t, x, *, contract, batch, dtype: dot(x, t, contract=contract, batch=batch, dtype=dtype),
    ),
    vjp=(
        lambda t, y, x_type, *, contract, batch: _dot_x(t, conj(y), x_type, contract=contract, batch=batch),
        lambda t, x, y_type, *, contract, batch: _dot_y(t, conj(x), y_type, contract=contract, batch=batch),
    ),
    batch=_batch,
    cost=_cost,
    doc="sum over contracted axes of products; dtype is that of the result",
)
