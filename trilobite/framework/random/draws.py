"""The public functions: shapes, dtypes and keys as users pass them; tensors come back."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType, as_dtype
from trilobite.base.errors import ArgumentError, DTypeError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axis_in
from trilobite.framework.ops.creation import to_array
from trilobite.framework.ops.meeting import astype, broadcast_shapes, together
from trilobite.framework.random import continuous as real
from trilobite.framework.random import discrete as whole
from trilobite.framework.random.keys import bits_value, key_value, split_value
from trilobite.framework.random.quick import drawn
from trilobite.framework.tensor import Tensor, wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import Affine, Shape


def shape_of(size: Any) -> Shape:
    """A shape as users write it: a number, or several."""
    sizes = tuple(size) if isinstance(size, (tuple, list)) else (size,)
    for d in sizes:
        if (
            isinstance(d, bool)
            or not isinstance(d, (int, np.integer, Affine))
            or (not isinstance(d, Affine) and d < 0)
        ):
            raise ShapeError(f"a shape {size!r}", where=user_location(), expected="numbers of at least 0")
    return tuple(d if isinstance(d, Affine) else int(d) for d in sizes)


def _float(what: str, dtype: Any) -> DType:
    found = dt.default_float if dtype is None else as_dtype(dtype)
    real.check_float(what, found)
    return found


def _operand(x: Any) -> Value:
    return x._read() if isinstance(x, Tensor) else to_array(x)


# -- over the reals ------------------------------------------------------------------------------------------


def bits(shape: Any = (), *, key: Tensor | None = None) -> Tensor:
    """Uniform uint32 words."""
    return wrap(bits_value(key_value(key), shape_of(shape)))


def uniform(
    shape: Any = (), low: float = 0.0, high: float = 1.0, *, dtype: Any = None, key: Tensor | None = None
) -> Tensor:
    """Uniform in [low, high)."""
    d = _float("uniform", dtype)
    if not low <= high:
        raise ArgumentError(
            f"uniform between {low} and {high}", where=user_location(), expected="low <= high"
        )
    plain, sizes = (low, high) == (0.0, 1.0), shape_of(shape)
    if plain and key is None and (done := drawn(real.uniform_value, sizes, d)) is not None:
        return done
    u = real.uniform_value(key_value(key), sizes, d)
    if plain:
        return wrap(u)
    out = table["add"](*together(table["mul"](*together(u, high - low)), low))
    if low == high:
        return wrap(out)
    # Rounding may arrive at `high` itself, which does not belong to the range.
    last = float(np.nextafter(np.asarray(high, d), np.asarray(low, d)))
    return wrap(table["minimum"](*together(out, max(last, low))))


def normal(
    shape: Any = (), mean: float = 0.0, std: float = 1.0, *, dtype: Any = None, key: Tensor | None = None
) -> Tensor:
    """Normal with a mean and a standard deviation; complex ones have it in all, half of the variance in each
    part.
    """
    found = dt.default_float if dtype is None else as_dtype(dtype)
    if not std >= 0:
        raise ArgumentError(
            f"normal with a standard deviation of {std}", where=user_location(), expected="std >= 0"
        )
    sizes = shape_of(shape)
    if key is None and (mean, std) == (0, 1) and found in dt.FLOATS:
        done = drawn(real.normal_value, sizes, found)
        if done is not None:
            return done
    k = key_value(key)
    if dt.is_complex(found):
        parts = [real.normal_value(part, sizes, dt.real_of(found)) for part in split_value(k, 2)]
        x = table["mul"](*together(table["complex"](*parts), 0.5**0.5))
    else:
        real.check_float("normal", found)
        x = real.normal_value(k, sizes, found)
    if std != 1:
        x = table["mul"](*together(x, std))
    return wrap(table["add"](*together(x, mean)) if mean != 0 else x)


def truncated_normal(
    shape: Any = (),
    mean: float = 0.0,
    std: float = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    *,
    dtype: Any = None,
    key: Tensor | None = None,
) -> Tensor:
    """Normal, kept between low and high (bounds of the result, not counted in standard deviations)."""
    d = _float("truncated_normal", dtype)
    if not (low < high and std > 0):
        raise ArgumentError(
            f"truncated_normal between {low} and {high} with std {std}",
            where=user_location(),
            expected="low < high and std > 0",
        )
    x = real.truncated_value(key_value(key), shape_of(shape), (low - mean) / std, (high - mean) / std, d)
    x = table["add"](*together(table["mul"](*together(x, std)), mean))
    return wrap(table["minimum"](*together(table["maximum"](*together(x, low)), high)))


def exponential(
    shape: Any = (), rate: float = 1.0, *, dtype: Any = None, key: Tensor | None = None
) -> Tensor:
    """Exponential: waiting times at a rate."""
    d = _float("exponential", dtype)
    if not rate > 0:
        raise ArgumentError(
            f"exponential at a rate of {rate}", where=user_location(), expected="a rate above 0"
        )
    return wrap(table["div"](*together(real.exponential_value(key_value(key), shape_of(shape), d), rate)))


def gumbel(shape: Any = (), *, dtype: Any = None, key: Tensor | None = None) -> Tensor:
    """Gumbel: added to logits, the largest is a categorical draw."""
    return wrap(real.gumbel_value(key_value(key), shape_of(shape), _float("gumbel", dtype)))


def gamma(
    concentration: Any, shape: Any = None, rate: float = 1.0, *, dtype: Any = None, key: Tensor | None = None
) -> Tensor:
    """Gamma; concentration is a number or a tensor that broadcasts to the shape."""
    d = _float("gamma", dtype)
    alpha = astype(_operand(concentration), real.working(d))
    if isinstance(alpha, np.ndarray) and not (alpha > 0).all():
        raise ArgumentError(
            "gamma with a concentration of 0 or less", where=user_location(), expected="above 0"
        )
    sizes = alpha.shape if shape is None else broadcast_shapes(shape_of(shape), alpha.shape)
    x = real.gamma_value(key_value(key), sizes, alpha, d)
    return wrap(x if rate == 1 else table["div"](*together(x, rate)))


# -- over the integers ---------------------------------------------------------------------------------------


def randint(
    low: int, high: Any = None, shape: Any = (), *, dtype: Any = None, key: Tensor | None = None
) -> Tensor:
    """Uniform integers from low to high - 1 (from 0 to low - 1 with one number), unbiased."""
    if isinstance(high, (tuple, list)):  # randint(10, (2, 3)): one number and a shape
        high, shape = None, high
    if high is None:
        low, high = 0, low
    d = dt.default_int if dtype is None else as_dtype(dtype)
    if not low < high or high - low > 2**64:
        raise ArgumentError(
            f"randint from {low} below {high}",
            where=user_location(),
            expected="low < high",
            remedy="high is not among the numbers drawn: randint(0, 6, shape) gives 0 to 5",
        )
    if not dt.is_integer(d) or not (_fits(low, d) and _fits(high - 1, d)):
        raise DTypeError(
            f"randint from {low} below {high} as {d}",
            where=user_location(),
            expected="an integer dtype that holds the range",
        )
    return wrap(whole.randint_value(key_value(key), shape_of(shape), int(low), int(high), d))


def _fits(n: int, d: DType) -> bool:
    width = dt.bits(d)
    least, most = (0, 2**width) if dt.is_unsigned(d) else (-(1 << (width - 1)), 1 << (width - 1))
    return least <= n < most


def bernoulli(p: Any = 0.5, shape: Any = None, *, key: Tensor | None = None) -> Tensor:
    """True with probability p: a number, or a tensor of one per element."""
    value = _operand(p)
    if isinstance(value, np.ndarray) and not ((value >= 0) & (value <= 1)).all():
        raise ArgumentError(
            "bernoulli with p outside of [0, 1]", where=user_location(), expected="probabilities"
        )
    sizes = value.shape if shape is None else broadcast_shapes(shape_of(shape), value.shape)
    return wrap(whole.bernoulli_value(key_value(key), sizes, value))


def permutation(x: Any, *, axis: int = 0, key: Tensor | None = None) -> Tensor:
    """The numbers below n in random order, or a tensor with its entries along an axis rearranged."""
    k = key_value(key)
    if not isinstance(x, (Tensor, np.ndarray)):
        return wrap(whole.permutation_value(k, shape_of(x)[0]))
    value = _operand(x)
    a = axis_in(axis, value.ndim, "permutation")
    return wrap(table["gather"](value, whole.permutation_value(k, value.shape[a]), axis=a))


def categorical(logits: Tensor, shape: Any = None, *, axis: int = -1, key: Tensor | None = None) -> Tensor:
    """Indices drawn with probabilities softmax(logits) along an axis; `shape` adds independent draws in
    front.
    """
    value = _operand(logits)
    a = axis_in(axis, value.ndim, "categorical")
    lead = () if shape is None else shape_of(shape)
    work = real.working(value.dtype)
    noise = real.gumbel_value(key_value(key), (*lead, *value.shape), work)
    return wrap(table["argmax"](table["add"](*together(noise, astype(value, work))), axis=a + len(lead)))


def choice(
    a: Any, shape: Any = (), replace: bool = True, p: Any = None, *, axis: int = 0, key: Tensor | None = None
) -> Tensor:
    """Entries of a tensor (or numbers below n) along an axis, drawn with or without putting back, perhaps
    weighted.
    """
    source = _operand(a) if isinstance(a, (Tensor, np.ndarray)) else None
    along = 0 if source is None else axis_in(axis, source.ndim, "choice")
    n = shape_of(a)[0] if source is None else source.shape[along]
    sizes = shape_of(shape)
    places = _chosen(key_value(key), n, sizes, replace, None if p is None else _operand(p))
    return wrap(places if source is None else table["gather"](source, places, axis=along))


def _chosen(k: Value, n: Any, sizes: Shape, replace: bool, p: Value | None) -> Value:
    count = math.prod(sizes)
    if count > (n if not replace else count if n else 0):
        raise ArgumentError(
            f"{count} choices from {n}{'' if replace else ' without putting back'}",
            where=user_location(),
            expected="enough to choose from",
        )
    if p is not None and p.shape != (n,):
        raise ShapeError(
            f"choice among {n} with weights of shape {tuple(p.shape)}",
            where=user_location(),
            expected=f"({n},)",
        )
    if p is None and replace:
        return whole.randint_value(k, sizes, 0, n, dt.int64)
    if p is None:
        order = whole.permutation_value(k, n)
        picked = table["slice"](order, start=(0,), stop=(count,), step=(1,))
        return table["reshape"](picked, shape=sizes)
    score = table["log"](astype(p, real.working(p.dtype)))
    if replace:
        noise = real.gumbel_value(k, (*sizes, n), score.dtype)
        return table["argmax"](table["add"](*together(noise, score)), axis=len(sizes))
    noisy = table["add"](score, real.gumbel_value(k, (n,), score.dtype))
    return table["reshape"](table["top_k"](noisy, k=count, axis=0)[1], shape=sizes)


# -- under PyTorch's names -----------------------------------------------------------------------------------


def _sizes(size: tuple[Any, ...]) -> Any:
    return size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size


def _leaf(x: Tensor, requires_grad: bool) -> Tensor:
    return x.requires_grad_() if requires_grad else x


def rand(*size: Any, dtype: Any = None, requires_grad: bool = False, key: Tensor | None = None) -> Tensor:
    """Uniform in [0, 1)."""
    return _leaf(uniform(_sizes(size), dtype=dtype, key=key), requires_grad)


def randn(*size: Any, dtype: Any = None, requires_grad: bool = False, key: Tensor | None = None) -> Tensor:
    """Normal with mean 0 and variance 1."""
    return _leaf(normal(_sizes(size), dtype=dtype, key=key), requires_grad)


def randperm(n: int, *, dtype: Any = None, key: Tensor | None = None) -> Tensor:
    """The numbers below n in random order."""
    out = permutation(n, key=key)
    return out if dtype is None else wrap(astype(out._read(), as_dtype(dtype)))


def rand_like(x: Tensor, *, dtype: Any = None, key: Tensor | None = None) -> Tensor:
    """Uniform in [0, 1), with the shape and dtype of x."""
    return uniform(x.shape, dtype=x.dtype if dtype is None else dtype, key=key)


def randn_like(x: Tensor, *, dtype: Any = None, key: Tensor | None = None) -> Tensor:
    """Normal, with the shape and dtype of x."""
    return normal(x.shape, dtype=x.dtype if dtype is None else dtype, key=key)


def randint_like(
    x: Tensor, low: int, high: int | None = None, *, dtype: Any = None, key: Tensor | None = None
) -> Tensor:
    """Uniform integers, with the shape and dtype of x."""
    return randint(low, high, x.shape, dtype=x.dtype if dtype is None else dtype, key=key)
