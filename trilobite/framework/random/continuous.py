"""Distributions over the reals, from bits. A key, a shape and a dtype enter, one draw per element leaves.

Uniforms use as many bits as the dtype's significand has, so each is exact and below 1. Normals are pairs by
Box and Muller: the first half of the draws takes the cosines, the second half the sines of the same radii.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import DType
from trilobite.base.errors import DTypeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.meeting import astype, together
from trilobite.framework.random.keys import bits_value, fold_value, split_value
from trilobite.framework.tensor import wrap
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms import bind as entry
from trilobite.ir.types import Shape, size_of

_SIGNIFICAND = {dt.float64: 53, dt.float32: 24, dt.float16: 11, dt.bfloat16: 8}


def _apply(name: str, x: Any, y: Any) -> Value:
    return table[name](*together(x, y))


def check_float(what: str, dtype: DType) -> None:
    if dtype not in _SIGNIFICAND:
        names = ", ".join(d.name for d in _SIGNIFICAND)
        raise DTypeError(
            f"{what} of {dtype}",
            where=user_location(),
            expected=f"one of {names}",
            remedy="draw float32 and cast",
        )


def _top(words: Value, count: int) -> Value:
    """The highest bits of words, as small integers."""
    return table["shift_right"](words, table["full"](shape=words.shape, dtype=words.dtype, value=32 - count))


def _two(k: Value, shape: Shape) -> tuple[Value, Value]:
    """Two words per element."""
    first, second = split_value(k, 2)
    return bits_value(first, shape), bits_value(second, shape)


def uniform_value(k: Value, shape: Shape, dtype: DType = dt.float32) -> Value:
    """Uniform in [0, 1)."""
    count = _SIGNIFICAND[dtype]
    if count <= 32:
        return _apply("mul", astype(_top(bits_value(k, shape), count), dtype), 2.0**-count)
    high, low = (astype(_top(w, n), dtype) for w, n in zip(_two(k, shape), (27, 26), strict=True))
    return _apply("mul", _apply("add", _apply("mul", high, 2.0**26), low), 2.0**-53)


def positive_uniform(k: Value, shape: Shape, dtype: DType) -> Value:
    """Uniform in (0, 1], with all the bits of a word (or two) so that its logarithm reaches far."""
    if dtype == dt.float64:
        return _apply("sub", 1.0, uniform_value(k, shape, dtype))
    words = astype(bits_value(k, shape), dtype)
    return _apply("add", _apply("mul", words, 2.0**-32), 2.0**-33)


def working(dtype: DType) -> DType:
    """Where formulas are computed: float64 for itself, float32 for the rest."""
    return dt.float64 if dtype == dt.float64 else dt.float32


def exponential_value(k: Value, shape: Shape, dtype: DType) -> Value:
    """-log(u)."""
    return astype(table["neg"](table["log"](positive_uniform(k, shape, working(dtype)))), dtype)


def normal_value(k: Value, shape: Shape, dtype: DType) -> Value:
    """Mean 0, variance 1. Uniforms of the working dtype are combined in float64: logarithms and sines of
    different targets differ in the last place, which a rounding to less hides.
    """
    n = size_of(shape)
    half = (n + 1) // 2
    work = working(dtype)
    first, second = split_value(k, 2)
    size = astype(positive_uniform(first, (half,), work), dt.float64)
    radius = table["sqrt"](_apply("mul", table["log"](size), -2.0))
    angle = _apply("mul", astype(uniform_value(second, (half,), work), dt.float64), 2 * math.pi)
    pair = (table["mul"](radius, table["cos"](angle)), table["mul"](radius, table["sin"](angle)))
    flat = table["concatenate"](*pair, axis=0)
    flat = table["slice"](flat, start=(0,), stop=(n,), step=(1,))
    return astype(table["reshape"](flat, shape=tuple(shape)), dtype)


def truncated_value(k: Value, shape: Shape, low: float, high: float, dtype: DType) -> Value:
    """Normal between two bounds, by the inverse of its distribution function."""
    work = working(dtype)
    ends = [math.erf(b / math.sqrt(2)) for b in (low, high)]
    u = _apply("add", _apply("mul", uniform_value(k, shape, work), ends[1] - ends[0]), ends[0])
    x = _apply("mul", table["erf_inv"](u), math.sqrt(2))
    return astype(_apply("minimum", _apply("maximum", x, low), high), dtype)


def gumbel_value(k: Value, shape: Shape, dtype: DType) -> Value:
    """-log(-log(u)); u stays below 1, so no draw is infinite."""
    work = working(dtype)
    below = float(np.nextafter(np.ones((), work), np.zeros((), work)))
    u = _apply("minimum", positive_uniform(k, shape, work), below)
    return astype(table["neg"](table["log"](table["neg"](table["log"](u)))), dtype)


def gamma_value(k: Value, shape: Shape, concentration: Value, dtype: DType) -> Value:
    """Marsaglia and Tsang's method: a cube of a shifted normal, accepted or drawn again; below 1 it is
    boosted. What no draw would be accepted for is taken as it comes: inf of inf, NaN of NaN and below 0.
    """
    work = working(dtype)
    alpha = table["broadcast"](
        astype(concentration, work),
        shape=tuple(shape),
        axes=tuple(range(len(shape) - concentration.ndim, len(shape))),
    )
    boost_key, draw_key = split_value(k, 2)
    small = _apply("lt", alpha, 1.0)
    drawn = table["and"](_apply("gt", alpha, 0.0), _apply("lt", alpha, math.inf))
    d = _apply("sub", table["select"](small, _apply("add", alpha, 1.0), alpha), 1 / 3)
    c = _apply("div", 1 / 3, table["sqrt"](d))

    def draw(key: Value) -> tuple[Value, Value]:
        first, second = split_value(key, 2)
        x = normal_value(first, shape, work)
        root = _apply("add", _apply("mul", c, x), 1.0)
        v = _apply("mul", _apply("mul", root, root), root)
        positive = _apply("gt", v, 0.0)
        v = table["select"](positive, v, table["full"](shape=v.shape, dtype=v.dtype, value=1.0))
        log_u = table["log"](positive_uniform(second, shape, work))
        square = _apply("mul", _apply("mul", x, x), 0.5)
        bound = _apply("add", square, _apply("mul", d, _apply("add", _apply("sub", 1.0, v), table["log"](v))))
        fits = table["and"](positive, _apply("lt", log_u, bound))
        return _apply("mul", d, v), table["or"](fits, table["not"](drawn))

    x = redrawn(draw_key, draw)
    log_u = table["log"](positive_uniform(boost_key, shape, work))
    boost = table["exp"](_apply("div", log_u, alpha))
    x = table["select"](small, table["mul"](x, boost), x)
    nowhere = table["full"](shape=x.shape, dtype=x.dtype, value=math.nan)
    return astype(table["select"](_apply("lt", alpha, 0.0), nowhere, x), dtype)


def redrawn(k: Value, draw: Callable[[Value], tuple[Value, Value]]) -> Value:
    """`draw(key) -> (values, accepted)`, with what is not accepted drawn again under further keys."""
    value, accepted = draw(k)
    if type(accepted) is np.ndarray and type(value) is np.ndarray and entry.context().recorder is None:
        attempt = 1
        while not accepted.all():
            again, good = draw(fold_value(k, np.asarray(attempt)))
            value, accepted = table["select"](accepted, value, again), table["or"](accepted, good)
            attempt += 1
        return value
    return _redrawn_in_a_loop(k, draw, value, accepted)


def _redrawn_in_a_loop(
    k: Value, draw: Callable[[Value], tuple[Value, Value]], value: Value, accepted: Value
) -> Value:
    from trilobite.framework.control import while_loop

    axes = tuple(range(accepted.ndim))

    def left(s: Any) -> Any:
        return wrap(table["not"](table["reduce_and"](s[2]._read(), axes=axes)))

    def again(s: Any) -> Any:
        attempt, old, ok = (t._read() for t in s)
        new, good = draw(fold_value(k, attempt))
        return (
            wrap(_apply("add", attempt, 1)), wrap(table["select"](ok, old, new)), wrap(table["or"](ok, good)),
        )  # fmt: skip

    found = while_loop(left, again, (wrap(np.asarray(1)), wrap(value), wrap(accepted)))
    out: Value = found[1]._read()
    return out
