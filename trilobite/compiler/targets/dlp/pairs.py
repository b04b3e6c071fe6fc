"""What primitives mean for complex numbers as pairs of real values.

A rule takes values and pairs, as the equation's operands are, and gives a value, a pair, or several.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.dtypes import bool_, is_complex, real_of, uint32, uint64
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.expand.terms import select
from trilobite.ir.primitive import table


class Pair(NamedTuple):
    re: Any
    im: Any


def _pair(x: Any) -> Pair:
    return x if isinstance(x, Pair) else Pair(x, t.like(x, 0.0))


def each(name: str) -> Callable[..., Any]:
    """Both parts by themselves; operands that are no pairs (indices, starts) are shared."""

    def rule(*xs: Any, **attributes: Any) -> Pair:
        def part(i: int) -> Any:
            return table[name](*(x[i] if isinstance(x, Pair) else x for x in xs), **_real(attributes))

        return Pair(part(0), part(1))

    return rule


def _real(attributes: Any) -> Any:
    found = dict(attributes)
    if "dtype" in found and is_complex(found["dtype"]):
        found["dtype"] = real_of(found["dtype"])
    return found


# -- arithmetic ----------------------------------------------------------------------------------------------


def add(x: Pair, y: Pair) -> Pair:
    return Pair(t.add(x.re, y.re), t.add(x.im, y.im))


def sub(x: Pair, y: Pair) -> Pair:
    return Pair(t.sub(x.re, y.re), t.sub(x.im, y.im))


def neg(x: Pair) -> Pair:
    return Pair(t.one("neg", x.re), t.one("neg", x.im))


def mul(x: Pair, y: Pair) -> Pair:
    return Pair(t.sub(t.mul(x.re, y.re), t.mul(x.im, y.im)), t.add(t.mul(x.re, y.im), t.mul(x.im, y.re)))


def scale(x: Pair, by: float) -> Pair:
    return Pair(t.mul(x.re, by), t.mul(x.im, by))


def div(x: Pair, y: Pair) -> Pair:
    """Smith's: by the ratio of the smaller part of y to the larger."""
    swap = t.compare("lt", t.one("abs", y.re), t.one("abs", y.im))
    large, small = select(swap, y.im, y.re), select(swap, y.re, y.im)
    zero = t.compare("eq", large, 0.0)
    ratio = select(zero, t.like(large, 0.0), t.div(small, large))
    below = t.add(large, t.mul(small, ratio))
    re = select(swap, t.add(t.mul(x.re, ratio), x.im), t.add(x.re, t.mul(x.im, ratio)))
    im = select(swap, t.sub(t.mul(x.im, ratio), x.re), t.sub(x.im, t.mul(x.re, ratio)))
    return Pair(t.div(re, below), t.div(im, below))


def size(x: Pair) -> Any:
    return table["hypot"](x.re, x.im)


def times_i(x: Pair) -> Pair:
    return Pair(t.one("neg", x.im), x.re)


def over_i(x: Pair) -> Pair:
    return Pair(x.im, t.one("neg", x.re))


def one_like(x: Pair) -> Pair:
    return Pair(t.like(x.re, 1.0), t.like(x.re, 0.0))


def sqrt(x: Pair) -> Pair:
    length = size(x)
    root = t.one("sqrt", t.mul(t.add(length, t.one("abs", x.re)), 0.5))
    other = t.div(t.one("abs", x.im), t.mul(root, 2.0))
    zero = t.compare("eq", length, 0.0)
    other = select(zero, t.like(other, 0.0), other)
    right = t.compare("ge", x.re, 0.0)
    re, im = select(right, root, other), select(right, other, root)
    endless = t.one("is_inf", x.im)
    re = select(endless, t.one("abs", x.im), re)
    im = select(endless, t.one("abs", x.im), im)
    return Pair(re, table["copysign"](im, x.im))


def exp(x: Pair) -> Pair:
    length = t.one("exp", x.re)
    flat = t.compare("eq", x.im, 0.0)
    return Pair(t.mul(length, t.one("cos", x.im)), select(flat, x.im, t.mul(length, t.one("sin", x.im))))


def log(x: Pair) -> Pair:
    return Pair(t.one("log", size(x)), table["atan2"](x.im, x.re))


def _sign(x: Pair) -> Pair:
    length = size(x)
    zero = t.compare("eq", length, 0.0)
    by = select(zero, t.like(length, 1.0), length)
    return Pair(t.div(x.re, by), t.div(x.im, by))


def _pow(x: Pair, y: Pair) -> Pair:
    found = exp(mul(y, log(x)))
    none = table["and"](t.compare("eq", y.re, 0.0), t.compare("eq", y.im, 0.0))
    zero = table["and"](t.compare("eq", x.re, 0.0), t.compare("eq", x.im, 0.0))
    rises = table["and"](zero, t.compare("gt", y.re, 0.0))
    re = select(none, t.like(found.re, 1.0), select(rises, t.like(found.re, 0.0), found.re))
    im = select(table["or"](none, rises), t.like(found.im, 0.0), found.im)
    return Pair(re, im)


# -- hyperbolic and circular ---------------------------------------------------------------------------------


def sinh(x: Pair) -> Pair:
    return Pair(
        t.mul(table["sinh"](x.re), t.one("cos", x.im)), t.mul(table["cosh"](x.re), t.one("sin", x.im))
    )


def cosh(x: Pair) -> Pair:
    return Pair(
        t.mul(table["cosh"](x.re), t.one("cos", x.im)), t.mul(table["sinh"](x.re), t.one("sin", x.im))
    )


def tanh(x: Pair) -> Pair:
    """In double angles, held where exponentials would overflow."""
    a, b = t.mul(x.re, 2.0), t.mul(x.im, 2.0)
    far = t.compare("gt", t.one("abs", a), 60.0)
    held = t.minimum(t.maximum(a, -60.0), 60.0)
    below = t.add(table["cosh"](held), t.one("cos", b))
    re, im = t.div(table["sinh"](held), below), t.div(t.one("sin", b), below)
    return Pair(select(far, t.one("sign", a), re), select(far, t.like(im, 0.0), im))


def asinh(x: Pair) -> Pair:
    """log(x + sqrt(x^2 + 1)) of the half plane where nothing cancels."""
    turn = t.compare("lt", x.re, 0.0)
    y = Pair(select(turn, t.one("neg", x.re), x.re), select(turn, t.one("neg", x.im), x.im))
    found = log(add(y, sqrt(add(mul(y, y), one_like(y)))))
    return Pair(
        select(turn, t.one("neg", found.re), found.re), select(turn, t.one("neg", found.im), found.im)
    )


def acosh(x: Pair) -> Pair:
    one = one_like(x)
    return log(add(x, mul(sqrt(add(x, one)), sqrt(sub(x, one)))))


def atanh(x: Pair) -> Pair:
    one = one_like(x)
    return scale(sub(log(add(one, x)), log(sub(one, x))), 0.5)


def _acos(x: Pair) -> Pair:
    found = over_i(asinh(times_i(x)))
    return Pair(t.sub(pi / 2, found.re), t.one("neg", found.im))


def _through(function: Callable[[Pair], Pair]) -> Callable[[Pair], Pair]:
    """A circular function by its hyperbolic one: f(x) = g(ix) / i."""
    return lambda x: over_i(function(times_i(x)))


def _log_by(base: float) -> Callable[[Pair], Pair]:
    return lambda x: scale(log(x), 1.0 / float(np.log(base)))


def _expm1(x: Pair) -> Pair:
    """expm1(a) cos b + (cos b - 1), the last by its half angle."""
    half = t.one("sin", t.mul(x.im, 0.5))
    less = t.mul(t.mul(half, half), -2.0)
    grown = table["expm1"](x.re)
    re = t.add(t.mul(grown, t.one("cos", x.im)), less)
    return Pair(re, t.mul(t.one("exp", x.re), t.one("sin", x.im)))


def _log1p(x: Pair) -> Pair:
    """log|1 + x| by what is added to 1: re (2 + re) + im^2."""
    more = t.add(t.mul(x.re, t.add(x.re, 2.0)), t.mul(x.im, x.im))
    return Pair(t.mul(table["log1p"](more), 0.5), table["atan2"](x.im, t.add(x.re, 1.0)))


# -- truth, casts, arrays ------------------------------------------------------------------------------------


def _both(name: str, joined: str) -> Callable[..., Any]:
    def rule(*xs: Pair) -> Any:
        found = [table[name](*(x[i] for x in xs)) for i in (0, 1)]
        return table[joined](*found)

    return rule


def _cast(x: Any, dtype: Any) -> Any:
    if is_complex(dtype):
        pair = _pair(x) if isinstance(x, Pair) else Pair(t.cast(x, real_of(dtype)), None)
        re = t.cast(pair.re, real_of(dtype))
        return Pair(re, t.like(re, 0.0) if pair.im is None else t.cast(pair.im, real_of(dtype)))
    if dtype == bool_:
        return table["or"](t.compare("ne", x.re, 0.0), t.compare("ne", x.im, 0.0))
    return t.cast(x.re, dtype)


def _full(shape: Any, dtype: Any, value: Any) -> Pair:
    number = complex(value)
    return Pair(*(t.full(shape, real_of(dtype), float(v)) for v in (number.real, number.imag)))


def _constant(value: Any) -> Pair:
    return Pair(t.constant(value.array.real.copy()), t.constant(value.array.imag.copy()))


def _pad(x: Pair, low: Any, high: Any, between: Any, value: Any) -> Pair:
    number = complex(value)
    return Pair(*(
        table["pad"](part, low=low, high=high, between=between, value=float(v))
        for part, v in zip(x, (number.real, number.imag), strict=True)
    ))  # fmt: skip


def _iota(shape: Any, dtype: Any, axis: int) -> Pair:
    re = t.iota(shape, real_of(dtype), axis)
    return Pair(re, t.like(re, 0.0))


def bilinear(name: str) -> Callable[..., Any]:
    """Products and convolutions: four of real numbers."""

    def rule(x: Any, y: Any, **attributes: Any) -> Pair:
        a, b = _pair(x), _pair(y)

        def of(p: Any, q: Any) -> Any:
            return table[name](p, q, **_real(attributes))

        return Pair(t.sub(of(a.re, b.re), of(a.im, b.im)), t.add(of(a.re, b.im), of(a.im, b.re)))

    return rule


def _bitcast(x: Any, dtype: Any) -> Any:
    """Between a pair of 32-bit parts and a word of 64 bits, the real part low."""
    if isinstance(x, Pair) and is_complex(dtype):
        return x
    if isinstance(x, Pair):
        low, high = (t.cast(t.bitcast(part, uint32), uint64) for part in x)
        word = t.bitwise("or", low, t.bitwise("shift_left", high, 32))
        return word if dtype == uint64 else t.bitcast(word, dtype)
    word = x if x.dtype == uint64 else t.bitcast(x, uint64)
    parts = (t.bitwise("and", word, 0xFFFFFFFF), t.bitwise("shift_right", word, 32))
    return Pair(*(t.bitcast(t.cast(p, uint32), real_of(dtype)) for p in parts))


_MOVES = """
    broadcast reshape transpose slice concatenate reverse update_slice dynamic_slice dynamic_update_slice
    gather gather_nd take_along scatter scatter_along reduce_sum select stop_gradient barrier window_reduce
""".split()

RULES: dict[str, Callable[..., Any]] = {
    **{name: each(name) for name in _MOVES},
    "add": add, "sub": sub, "neg": neg, "mul": mul, "div": div, "abs": size, "sign": _sign,
    "conj": lambda x: Pair(x.re, t.one("neg", x.im)), "real": lambda x: x.re, "imag": lambda x: x.im,
    "complex": lambda re, im: Pair(re, im),
    "sqrt": sqrt, "rsqrt": lambda x: div(one_like(x), sqrt(x)), "exp": exp, "log": log, "pow": _pow,
    "exp2": lambda x: exp(scale(x, float(np.log(2.0)))), "expm1": _expm1, "log1p": _log1p,
    "log2": _log_by(2.0), "log10": _log_by(10.0),
    "sinh": sinh, "cosh": cosh, "tanh": tanh, "sin": _through(sinh), "tan": _through(tanh),
    "cos": lambda x: cosh(times_i(x)),
    "asinh": asinh, "acosh": acosh, "atanh": atanh, "asin": _through(asinh), "atan": _through(atanh),
    "acos": _acos,
    "eq": _both("eq", "and"), "ne": _both("ne", "or"), "is_nan": _both("is_nan", "or"),
    "is_inf": _both("is_inf", "or"), "is_finite": _both("is_finite", "and"),
    "cast": _cast, "bitcast": _bitcast, "full": _full, "constant": _constant, "pad": _pad, "iota": _iota,
    "dot": bilinear("dot"), "conv": bilinear("conv"), "conv_input_grad": bilinear("conv_input_grad"),
    "conv_weight_grad": bilinear("conv_weight_grad"),
}  # fmt: skip
