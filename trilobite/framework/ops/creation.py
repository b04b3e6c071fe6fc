"""Tensors from nothing: zeros and numbers, ranges, grids, triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType, as_dtype
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.conversion import check_device, tensor, to_array
from trilobite.framework.ops.filling import filled, plainly, shape_of
from trilobite.framework.ops.meeting import as_value, broadcast_to, plain, scalar, within
from trilobite.framework.ops.registry import op, operators, read, read_operand, tensor_op
from trilobite.framework.promotion import scalar_dtype
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.types import Affine, Shape

G = "creation"


_WITHOUT_MEANING = ("layout", "memory_format", "pin_memory", "out", "names")


def without_meaning(settings: dict[str, Any]) -> None:
    """Settings of PyTorch's that choose between memories there, and change no result here."""
    for name, value in settings.items():
        if name not in _WITHOUT_MEANING or (name == "out" and value is not None):
            raise _NoSetting(
                f"the setting {name}={value!r}",
                where=user_location(),
                expected="dtype, device or requires_grad",
                remedy="assign the result: x[...] = ..." if name == "out" else None,
            )


class _NoSetting(ArgumentError, TypeError):
    """A keyword that the function does not have."""


def _sizes(shape: Any, more: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """A shape in one piece, or as sizes one by one: zeros((2, 3)), zeros(2, 3)."""
    if settings:
        without_meaning(settings)
    return (shape, *more) if more else shape


def _made(shape: Any, value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    kind = dt.default_float if dtype is None else as_dtype(dtype)
    if device is None and not requires_grad and (plain := plainly(shape, value, kind)) is not None:
        return wrap(plain)
    check_device(device)
    out = filled(shape, value, kind)
    return out.requires_grad_() if requires_grad else out


def _like(x: Any, value: Any, dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    x = x if isinstance(x, Tensor) else as_value(x)
    return _made(x.shape, value, x.dtype if dtype is None else dtype, device, requires_grad)


@tensor_op(G, methods=())
def zeros(
    shape: Any, *more: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Zeros."""
    return _made(_sizes(shape, more, other), 0, dtype, device, requires_grad)


@tensor_op(G, methods=())
def ones(
    shape: Any, *more: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Ones."""
    return _made(_sizes(shape, more, other), 1, dtype, device, requires_grad)


@tensor_op(G, methods=())
def empty(
    shape: Any, *more: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """A tensor to be written to. It holds zeros: the same program gives the same bits."""
    return _made(_sizes(shape, more, other), 0, dtype, device, requires_grad)


@tensor_op(G, methods=())
def full(
    shape: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **other: Any,
) -> Tensor:
    """One number everywhere; its kind decides the dtype."""
    without_meaning(other)
    if isinstance(fill_value, Tensor) and fill_value.ndim == 0:
        value = read(fill_value) if dtype is None else within(read_operand(fill_value), as_dtype(dtype))
        return wrap(np.array(v) if type(v := broadcast_to(value, shape_of(shape))) is np.ndarray else v)
    number = plain(fill_value)
    return _made(shape, number, scalar_dtype(type(number)) if dtype is None else dtype, device, requires_grad)


@tensor_op(G, methods=())
def zeros_like(
    x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Zeros in the shape and dtype of x."""
    without_meaning(other)
    return _like(x, 0, dtype, device, requires_grad)


@tensor_op(G, methods=())
def ones_like(
    x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Ones in the shape and dtype of x."""
    without_meaning(other)
    return _like(x, 1, dtype, device, requires_grad)


@tensor_op(G, methods=())
def empty_like(
    x: Any, /, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """A tensor to be written to, in the shape and dtype of x. It holds zeros."""
    without_meaning(other)
    return _like(x, 0, dtype, device, requires_grad)


@tensor_op(G, methods=())
def full_like(
    x: Any,
    /,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **other: Any,
) -> Tensor:
    """One number everywhere, in the shape and dtype of x."""
    without_meaning(other)
    x = x if isinstance(x, Tensor) else wrap(as_value(x))
    return full(
        x.shape,
        fill_value,
        dtype=x.dtype if dtype is None else dtype,
        device=device,
        requires_grad=requires_grad,
    )


# -- ranges ----------------------------------------------------------------------------------------------


@tensor_op(G, methods=())
def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **other: Any,
) -> Tensor:
    """From start up to, but not including, stop."""
    check_device(device)
    without_meaning(other)
    start, stop = (0, start) if stop is None else (start, stop)
    if isinstance(stop, Affine) or isinstance(start, Affine):
        return wrap(_counted(start, stop, step, dt.default_int if dtype is None else as_dtype(dtype)))
    start, stop, step = plain_end(start), plain_end(stop), plain_end(step)
    if step == 0:
        raise ArgumentError(
            "arange with a step of 0",
            where=user_location(),
            expected="a step that is not 0",
            remedy="tb.full repeats one number",
        )
    whole = all(isinstance(v, int) for v in (start, stop, step))
    want = as_dtype(dtype) if dtype is not None else dt.default_int if whole else dt.default_float
    out = wrap(_integers(start, stop, step, want) if whole else _floats(start, stop, step, want))
    return out.requires_grad_() if requires_grad else out


def plain_end(x: Any) -> Any:
    """An end of a range as a Python number: also from a tensor without dimensions whose value is known."""
    return x.item() if isinstance(x, (Tensor, np.ndarray)) else plain(x)


def _integers(start: int, stop: int, step: int, dtype: DType) -> Value:
    count = len(range(start, stop, step))
    if dtype in dt.INTEGERS and count:
        scalar(start, dtype), scalar(range(start, stop, step)[-1], dtype)  # both ends must fit
    if entry.threads.context.recorder is not None and dtype in dt.INTEGERS:
        line = table["iota"](shape=(count,), dtype=dtype, axis=0)
        scale, shift = np.asarray(step if count > 1 else 1).astype(dtype), np.asarray(start).astype(dtype)
        line = line if step == 1 or count < 2 else table["mul"](line, broadcast_to(scale, (count,)))
        return line if start == 0 else table["add"](line, broadcast_to(shift, (count,)))
    limit = 2**63 - 1
    fits = max(abs(start), abs(stop), abs(step)) <= limit
    exact = np.arange(start, stop, step) if fits else np.asarray(range(start, stop, step), np.uint64)
    return exact.astype(dtype)


def _floats(start: float, stop: float, step: float, dtype: DType) -> Value:
    count = max(0, math.ceil((stop - start) / step))
    with np.errstate(all="ignore"):
        return (start + np.arange(count, dtype=np.float64) * step).astype(dtype)


def _counted(start: Any, stop: Any, step: Any, dtype: DType) -> Value:
    """A range whose length only a run knows: from 0 by 1."""
    if start != 0 or step != 1:
        raise ArgumentError(
            f"arange({start}, {stop}, {step}) with a symbolic size",
            where=user_location(),
            expected="start 0 and step 1",
            remedy="scale and shift the result: tb.arange(n) * step + start",
        )
    return table["iota"](shape=(stop,), dtype=dtype, axis=0)


@tensor_op(G, methods=())
def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True,
    requires_grad: bool = False, **other: Any,
) -> Tensor:  # fmt: skip
    """`num` numbers at equal distances from start to stop, with or without stop itself."""
    check_device(device)
    without_meaning(other)
    num = num.__index__()
    if num < 0:
        raise ArgumentError(f"linspace with num={num}", where=user_location(), expected="num >= 0")
    if _of_a_run(start) or _of_a_run(stop):
        return _line_of_a_run(start, stop, num, dtype, endpoint)
    start, stop = plain_end(start), plain_end(stop)
    complex_ends = isinstance(start, complex) or isinstance(stop, complex)
    want = as_dtype(dtype) if dtype is not None else dt.default_complex if complex_ends else dt.default_float
    with np.errstate(all="ignore"):
        line = np.linspace(
            start, stop, num, dtype=np.complex128 if complex_ends else np.float64, endpoint=endpoint
        )
        line = line.astype(want)
    if want in dt.INTEGERS and isinstance(start, int) and isinstance(stop, int) and num:
        line[0] = scalar(start, want)  # float64 does not hold every integer
        if endpoint and num > 1:
            line[-1] = scalar(stop, want)
    out = wrap(line)
    return out.requires_grad_() if requires_grad else out


def _of_a_run(x: Any) -> bool:
    """Is it a tensor whose number only a run knows?"""
    return isinstance(x, Tensor) and not isinstance(x._read(), np.ndarray)


def _line_of_a_run(start: Any, stop: Any, num: int, dtype: Any, endpoint: bool) -> Tensor:
    """From each end half of the way, so that both ends are met."""
    want = as_dtype(dtype) if dtype is not None else dt.default_float
    inner = dt.float64 if want in dt.INTEGERS else want
    first, last = (wrap(within(read_operand(x), inner)) for x in (start, stop))
    at = arange(num).to(first.dtype)
    step = (last - first) / max(num - bool(endpoint), 1)
    line = first + step * at
    if endpoint and num > 1:
        line = operators["where"].public(at < num // 2, line, last - step * (num - 1 - at))
    return line.to(want)  # type: ignore[no-any-return]


@tensor_op(G, methods=())
def logspace(
    start: Any, stop: Any, /, num: int, base: float = 10.0, *, dtype: Any = None, endpoint: bool = True,
    device: Any = None, requires_grad: bool = False, **other: Any,
) -> Tensor:  # fmt: skip
    """`num` numbers at equal ratios, from base**start to base**stop."""
    check_device(device)
    without_meaning(other)
    want = dt.default_float if dtype is None else as_dtype(dtype)
    if _of_a_run(start) or _of_a_run(stop):
        return (base ** _line_of_a_run(start, stop, num, None, endpoint)).to(want)  # type: ignore[no-any-return]
    line = np.logspace(plain_end(start), plain_end(stop), num, endpoint=endpoint, base=base)
    return wrap(line.astype(want)).requires_grad_(requires_grad)


# -- grids, triangles ------------------------------------------------------------------------------------


@op(G, methods=())
def meshgrid(*arrays: Any, indexing: str = "xy") -> tuple[Value, ...]:
    """Coordinates of a grid from the coordinates along its axes; "xy" exchanges the first two axes."""
    if indexing not in ("xy", "ij"):
        raise ArgumentError(
            f"meshgrid(indexing={indexing!r})", where=user_location(), expected="'xy' or 'ij'"
        )
    xs = [
        as_value(x)
        for x in (arrays[0] if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else arrays)
    ]
    for x in xs:
        if x.ndim > 1:
            raise ShapeError(
                f"meshgrid of a tensor of shape {tuple(x.shape)}",
                where=user_location(),
                expected="one dimension each",
            )
    order = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        order[0], order[1] = 1, 0
    lines = [table["reshape"](x, shape=(x.shape[0] if x.ndim else 1,)) for x in xs]
    shape = tuple(lines[i].shape[0] for i in order)
    return tuple(table["broadcast"](x, shape=shape, axes=(order.index(i),)) for i, x in enumerate(lines))


def iota(shape: Shape, axis: int, dtype: DType = dt.int64) -> Value:
    return table["iota"](shape=tuple(shape), dtype=dtype, axis=axis)


def below(shape: Shape, k: int) -> Value:
    """True on and below the k-th diagonal of the last two axes."""
    n = len(shape)
    column, row = iota(shape, n - 1), iota(shape, n - 2)
    return table["le"](
        table["sub"](column, row), table["full"](shape=tuple(shape), dtype=dt.int64, value=_within(k))
    )


def _within(k: Any) -> int:
    """A diagonal's number; beyond any matrix they are all alike."""
    return int(max(-(2**62), min(2**62, k.__index__())))


@tensor_op(G, methods=())
def eye(
    n_rows: Any = None,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    n: Any = None,
    m: Any = None,
    **other: Any,
) -> Tensor:
    """Ones on the k-th diagonal, zeros elsewhere."""
    check_device(device)
    without_meaning(other)
    n_rows, n_cols = n_rows if n is None else n, n_cols if m is None else m
    shape = shape_of((n_rows, n_rows if n_cols is None else n_cols))
    column, row = iota(shape, 1), iota(shape, 0)
    on = table["eq"](table["sub"](column, row), table["full"](shape=shape, dtype=dt.int64, value=_within(k)))
    out = wrap(table["cast"](on, dtype=dt.default_float if dtype is None else as_dtype(dtype)))
    return out.requires_grad_() if requires_grad else out


def _triangle(x: Any, k: int, upper: bool) -> Value:
    x = as_value(x)
    if x.ndim < 2:
        raise ShapeError(
            f"{'triu' if upper else 'tril'} of a tensor of shape {tuple(x.shape)}",
            where=user_location(),
            expected="at least two dimensions",
        )
    zero = table["full"](shape=x.shape, dtype=x.dtype, value=0)
    lower = below(x.shape, k - 1 if upper else k)
    return table["select"](lower, zero, x) if upper else table["select"](lower, x, zero)


@op(G, plan=True)
def tril(x: Any, /, k: int = 0) -> Value:
    """Zeros above the k-th diagonal of the last two axes."""
    return _triangle(x, k, upper=False)


@op(G, plan=True)
def triu(x: Any, /, k: int = 0) -> Value:
    """Zeros below the k-th diagonal of the last two axes."""
    return _triangle(x, k, upper=True)


@op(G, methods=("one_hot",), plan=True)
def one_hot(x: Any, /, num_classes: int, *, dtype: Any = None) -> Value:
    """A new last axis with 1 at the place that x names and 0 elsewhere; all zeros where x is outside."""
    x = as_value(x)
    if x.dtype not in dt.INTEGERS:
        raise ArgumentError(
            f"one_hot of {x.dtype}", where=user_location(), expected="integers", remedy="x.long()"
        )
    shape = (*x.shape, num_classes)
    places = table["broadcast"](table["cast"](x, dtype=dt.int64), shape=shape, axes=tuple(range(x.ndim)))
    return table["cast"](
        table["eq"](places, iota(shape, x.ndim)), dtype=dt.default_float if dtype is None else as_dtype(dtype)
    )


__all__ = ["arange", "check_device", "eye", "filled", "tensor", "to_array", "zeros"]
