"""Functions that PyTorch names and the table does not: put together from those that are there.

Enters and leaves: tensors. The room comes in when one of its names is first asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.ops.linalg import solve_triangular
from trilobite.framework.ops.more_pointwise import fractional
from trilobite.framework.ops.pairs import Pair
from trilobite.framework.ops.registry import operators
from trilobite.framework.ops.shaping import handle
from trilobite.framework.tensor import Tensor


def _op(name: str) -> Any:
    return operators[name].public


def detach(input: Any) -> Tensor:
    """x without a history."""
    return handle(input).detach()


def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """A stretch of x along a dimension."""
    return handle(input).narrow(dim, start, length)


def fill(input: Any, value: Any) -> Any:
    """A tensor like x that holds one value."""
    return _op("zeros_like")(input) + value if isinstance(value, Tensor) else _op("full_like")(input, value)


def flipud(input: Any) -> Any:
    """Rows in reverse."""
    return _op("flip")(input, axis=0)


def fliplr(input: Any) -> Any:
    """Columns in reverse."""
    return _op("flip")(input, axis=1)


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> Any:
    """Parts of given sizes along a dimension."""
    return handle(input).split(list(split_sizes), dim)


def unsafe_split(input: Any, split_size: Any, dim: int = 0) -> Any:
    return handle(input).split(split_size, dim)


def unsafe_chunk(input: Any, chunks: int, dim: int = 0) -> Any:
    return handle(input).chunk(chunks, dim)


unsafe_split_with_sizes = split_with_sizes


def resolve_conj(input: Any) -> Any:
    """x itself: conjugates are never put off."""
    return input


resolve_neg = resolve_conj


def is_conj(input: Any) -> bool:
    return False


is_neg = is_inference = is_distributed = is_conj


def is_signed(input: Any) -> bool:
    """May the dtype hold negative numbers?"""
    return handle(input).dtype.name not in ("bool", "uint8", "uint16", "uint32", "uint64", "uint4", "uint2")


def frexp(input: Any) -> Pair:
    """Mantissa (of size 1/2 to 1) and exponent of 2."""
    x = handle(input)
    at = _exponent(x.detach())
    first, ldexp = at // 2, _op("ldexp")  # in two steps: 2^1074 is no number
    return Pair(ldexp(ldexp(x, -first), first - at).to(x.dtype), at)


def _exponent(x: Any) -> Any:
    """The power of 2 above |x|, from its bits; 0 of what has none."""
    wide = x.dtype.name == "float64"
    x = x if wide else x.to(dt.float32)
    width, mantissa = (64, 52) if wide else (32, 23)
    least, ones = 2.0 ** (-1022 if wide else -126), 2 ** (width - 1 - mantissa) - 1
    small = (x.abs() < least) & (x != 0)
    line = _op("where")(small, x * 2.0**mantissa, x).view(dt.int64 if wide else dt.int32)
    power = ((line >> mantissa) & ones) - (ones >> 1) + 1 - mantissa * small
    return _op("where")((x == 0) | ~x.isfinite(), 0, power).to(dt.int32)


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """Powers of a vector as columns, the highest first unless increasing."""
    x = handle(x)
    n = x.shape[-1] if N is None else N
    powers = _op("arange")(n) if increasing else _op("arange")(n - 1, -1, -1)
    return x[..., None] ** powers


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Any:
    """Areas under a curve up to each point, by trapezoids."""
    y = fractional(y)
    n = y.shape[dim]
    mean = (y.narrow(dim, 1, n - 1) + y.narrow(dim, 0, n - 1)) * 0.5
    if x is None:
        return _op("cumsum")(mean * dx, dim=dim)
    x = fractional(x)
    steps = _op("diff")(x, axis=-1 if x.ndim == 1 else dim)
    if steps.ndim == 1:
        shape = [1] * y.ndim
        shape[dim] = -1
        steps = steps.reshape(shape)
    return _op("cumsum")(mean * steps, dim=dim)


def gradient(input: Any, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list[Any]:
    """Slopes along dimensions by central differences; at the ends by those of one side."""
    x = handle(input)
    dims = list(range(x.ndim)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    return [_slope(x, d, s, edge_order) for d, s in zip(dims, steps, strict=True)]


def _slope(x: Any, d: int, step: Any, order: int) -> Any:
    n = x.shape[d]
    if n < order + 1:
        raise ArgumentError(
            f"gradient along a dimension of {n}",
            where=user_location(),
            expected=f"at least {order + 1} places",
        )
    if isinstance(step, Tensor) and step.ndim == 1:
        raise ArgumentError("gradient with places", where=user_location(), expected="spacing by numbers")

    def part(a: int, length: int = 1) -> Any:
        return x.narrow(d, a, length)

    first, last = (part(1) - part(0)) / step, (part(n - 1) - part(n - 2)) / step
    if order == 2:
        first = (-3 * part(0) + 4 * part(1) - part(2)) / (2 * step)
        last = (3 * part(n - 1) - 4 * part(n - 2) + part(n - 3)) / (2 * step)
    middle = [(part(2, n - 2) - part(0, n - 2)) / (2 * step)] if n > 2 else []
    return _op("cat")([first, *middle, last], dim=d)


def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """The quantile of those elements that are not NaN; NaN where there is none."""
    x = handle(input)
    if x.ndim == 0:
        return _op("quantile")(x.reshape(1), q, interpolation=interpolation)
    flat, d = (x.reshape(-1), 0) if dim is None else (x, dim)
    lines = flat.movedim(d, -1)
    rows = lines.reshape(-1, lines.shape[-1])
    found = [
        _op("quantile")(row[~_op("isnan")(row)], q, interpolation=interpolation)
        if bool((~_op("isnan")(row)).any())
        else _op("full_like")(handle(q) if isinstance(q, Tensor) else row[0], float("nan")).to(x.dtype)
        for row in rows
    ]
    out = _op("stack")(found, axis=-1)
    lead = tuple(out.shape[:-1])
    out = out.reshape((*lead, *lines.shape[:-1]))
    if not keepdim:
        return out
    return (
        out.reshape((*lead, *([1] * x.ndim))) if dim is None else out.unsqueeze(d if d < 0 else d + len(lead))
    )


def index_reduce(
    input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True
) -> Any:
    """Slices of a source combined with those of x that the index names: prod, mean, amax or amin."""
    x, source = handle(input), handle(source)
    if x.ndim == 0:
        lines = x.reshape(1), source.reshape(-1)
        return index_reduce(lines[0], 0, index, lines[1], reduce, include_self=include_self).reshape(())
    shape = [1] * source.ndim
    shape[dim] = -1
    places = handle(index).reshape(shape).expand(source.shape)
    return x.scatter_reduce(dim, places, source, reduce=reduce, include_self=include_self)


def as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Any:
    """x with the elements that `as_strided` names replaced."""
    x = handle(input)
    places = _op("arange")(x.numel()).reshape(x.shape)
    at = _op("as_strided")(places, size, stride, storage_offset or 0)
    flat = x.reshape(-1)
    return flat.index_copy(0, at.reshape(-1), handle(src).reshape(-1)).reshape(x.shape)


def triangular_solve(
    b: Any, A: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Pair:
    """The solution of a triangular system, and the matrix."""
    a = handle(A).mT if transpose else handle(A)
    found = solve_triangular(a, handle(b), upper=upper != transpose, unitriangular=unitriangular)
    return Pair(found, handle(A))


def frobenius_norm(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The root of the sum of squares."""
    squares = handle(input).abs().square()
    return (squares.sum() if dim is None else squares.sum(dim=dim, keepdim=keepdim)).sqrt()


def sym_int(a: Any) -> int:
    return int(a)


def sym_float(a: Any) -> float:
    return float(a)


def sym_max(a: Any, b: Any) -> Any:
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    return min(a, b)


def sym_not(a: Any) -> bool:
    return not a


def _check(condition: Any, message: Any = None) -> None:
    """A RuntimeError with the message unless the condition holds."""
    _checked(condition, message, RuntimeError)


def _check_value(condition: Any, message: Any = None) -> None:
    _checked(condition, message, ValueError)


def _check_index(condition: Any, message: Any = None) -> None:
    _checked(condition, message, IndexError)


def _check_type(condition: Any, message: Any = None) -> None:
    _checked(condition, message, TypeError)


def _check_is_size(i: Any, message: Any = None, **limits: Any) -> None:
    _checked(i >= 0, message, RuntimeError)


def _check_tensor_all(condition: Any, message: Any = None) -> None:
    _checked(handle(condition).all(), message, RuntimeError)


def _checked(condition: Any, message: Any, error: type[Exception]) -> None:
    from trilobite.base.errors import TraceError

    try:
        holds = bool(condition)
    except TraceError:
        return  # only a run knows
    if not holds:
        raise error(str(message() if callable(message) else message or "a condition does not hold"))


def _assert_async(condition: Any, message: str = "") -> None:
    """An assertion; at once, as nothing here runs behind."""
    _checked(condition, message, RuntimeError)


def _shape_as_tensor(input: Any) -> Any:
    """The shape as a tensor of integers."""
    return _op("asarray")(np.asarray(tuple(handle(input).shape), np.int64))


def get_device(input: Any) -> int:
    """-1: the CPU has no number."""
    return -1


def empty_permuted(size: Any, physical_layout: Any, **kwargs: Any) -> Any:
    return _op("empty")(size, **kwargs)


def is_anomaly_enabled() -> bool:
    """Are NaN looked for?"""
    from trilobite.ir.transforms import bind as entry

    return entry.threads.context.watch is not None


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    return False


def get_autocast_gpu_dtype() -> Any:
    return dt.float16


def clear_autocast_cache() -> None:
    """Nothing is kept between casts."""


def foreach(name: str) -> Any:
    """`_foreach_add(xs, ys)`: a function or method on each of a list of tensors."""
    method = name.removeprefix("_foreach_")

    def each(first: Sequence[Any], *rest: Any, **kwargs: Any) -> Any:
        if method == "norm" and "ord" in kwargs:
            kwargs["p"] = kwargs.pop("ord")

        def row(i: int) -> Any:
            operands = [r[i] if isinstance(r, (list, tuple)) else r for r in rest]
            if len(operands) == 3 and method.startswith("addc"):  # factors behind the operands
                return getattr(first[i], method)(*operands[:2], value=operands[2])
            return getattr(first[i], method)(*operands, **kwargs)

        out = tuple(row(i) for i in range(len(first)))
        return None if method.endswith("_") else out

    each.__name__ = name
    return each


explain_room(globals())
