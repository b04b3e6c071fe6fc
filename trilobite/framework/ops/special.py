"""`tb.special`: functions of mathematics under PyTorch's names, each one of `tb` or composed of those."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.base.wrong_use import explain_room
from trilobite.framework.ops.registry import heeding_out, operators
from trilobite.framework.ops.shaping import handle
from trilobite.framework.tensor import Tensor

F = TypeVar("F", bound=Callable[..., Any])


def _op(name: str) -> Any:
    return operators[name].public


def _float(x: Any) -> Any:
    x = handle(x)
    return x if x.dtype in dt.FLOATS else x.to(dt.default_float)


def _is_small(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dtype in dt.FLOATS and dt.bits(x.dtype) < 32


def _in_float32(fn: F) -> F:
    """16-bit and smaller floats are computed in float32 and rounded once: series lose their digits."""

    @wraps(fn)
    def widened(*args: Any, **kwargs: Any) -> Any:
        given = [*args, *kwargs.values()]
        if not any(map(_is_small, given)):
            return fn(*args, **kwargs)
        wide = [x.to(dt.float32) if _is_small(x) else x for x in given]
        out = fn(*wide[: len(args)], **dict(zip(kwargs, wide[len(args) :], strict=True)))
        return out.to(_op("result_type")(*(x for x in given if isinstance(x, Tensor))))

    return widened  # type: ignore[return-value]


def __getattr__(name: str) -> Any:
    row = {"expit": "sigmoid", "gammaln": "lgamma", "psi": "digamma"}.get(name, name)
    if row in operators and row in _SAME:
        return _op(row)
    raise AttributeError(f"trilobite.special has no {name!r}")


_SAME = frozenset(
    """sigmoid lgamma digamma erf erfc erfinv exp2 expm1 log1p logit logsumexp softmax log_softmax round sinc
    xlogy""".split()
)


@_in_float32
def entr(x: Any) -> Tensor:
    """-x·log(x), 0 at 0, -inf below."""
    x = _float(x)
    return _op("where")(x < 0, -math.inf, -_op("xlogy")(x, x))  # type: ignore[no-any-return]


@_in_float32
def xlog1py(x: Any, other: Any) -> Tensor:
    """x·log(1 + other), 0 where x is 0."""
    x, other = _float(x), _float(other)
    plain = (other > -1) & _op("isfinite")(other)
    still = (x == 0) & ~plain & ~_op("isnan")(other)
    return _op("where")(still, 0.0, x * _op("log1p")(_op("where")(still, 0.0, other)))  # type: ignore[no-any-return]


@_in_float32
def ndtr(x: Any) -> Tensor:
    """The area under the normal curve up to x."""
    return _op("erfc")(-_float(x) / math.sqrt(2.0)) / 2  # type: ignore[no-any-return]


@_in_float32
def ndtri(p: Any) -> Tensor:
    """Where the normal curve has the area p below."""
    return _op("erfinv")(2 * _float(p) - 1) * math.sqrt(2.0)  # type: ignore[no-any-return]


@_in_float32
def log_ndtr(x: Any) -> Tensor:
    """The logarithm of ndtr, accurate far below 0."""
    x = _float(x)
    edge = -10.0 if op_info(x).bits <= 32 else -30.0
    far, right = x < edge, x > 0
    low = _op("where")(far, x, edge)
    term, series = 1.0, 1.0 + low * 0
    for k in range(1, 9):  # the asymptotic series of erfc
        term = -term * (2 * k - 1)
        series = series + term / low ** (2 * k)
    asymptotic = -low * low / 2 - (-low).log() - 0.5 * math.log(2 * math.pi) + series.log()
    near = ndtr(_op("where")(far | right, 0.0, x)).log()
    above = _op("log1p")(-ndtr(-_op("where")(right, x, 0.0)))
    return _op("where")(far, asymptotic, _op("where")(right, above, near))  # type: ignore[no-any-return]


def op_info(x: Any) -> Any:
    """The limits of x's dtype."""
    return _op("finfo")(x.dtype)


# Coefficients of Abramowitz and Stegun 9.8.1 to 9.8.4 are too coarse; power and asymptotic series are exact.
_TERMS = 60


@_in_float32
def _bessel(x: Any, order: int, scaled: bool) -> Tensor:
    """I0 or I1: its power series up to |x| = 20, its asymptotic one beyond; `scaled` by exp(-|x|)."""
    x = _float(x)
    size = x.abs()
    near = size <= 20.0
    half = _op("where")(near, x, 1.0) / 2  # with its sign: |x| would lose the slopes at 0
    term: Any = half**order
    total = term
    for k in range(1, _TERMS):
        term = term * half * half / (k * (k + order))
        total = total + term
    far = _op("where")(near, 20.0, size)
    mu, part, tail = 4.0 * order * order, 1.0, 1.0 + far * 0
    for k in range(1, 12):
        part = -part * (mu - (2 * k - 1) ** 2) / k
        tail = tail + part / (8 * far) ** k
    tail = tail / (2 * math.pi * far).sqrt()
    low = total * (-_op("where")(near, size, 0.0)).exp() if scaled else total
    high = tail if scaled else tail * far.exp()
    return _op("where")(near, low, high * x.sign() if order else high)  # type: ignore[no-any-return]


def i0(x: Any) -> Tensor:
    """The modified Bessel function of order 0."""
    return _bessel(x, 0, False)


def i0e(x: Any) -> Tensor:
    """i0 over exp(|x|)."""
    return _bessel(x, 0, True)


def i1(x: Any) -> Tensor:
    """The modified Bessel function of order 1."""
    return _bessel(x, 1, False)


def i1e(x: Any) -> Tensor:
    """i1 over exp(|x|)."""
    return _bessel(x, 1, True)


_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798)


@_in_float32
def polygamma(n: int, x: Any) -> Tensor:
    """The n-th derivative of digamma, for n >= 1 by recurrence upwards and an asymptotic series; x > 0, and
    by reflection for n = 1 below.
    """
    if n < 0:
        raise ArgumentError(f"polygamma of order {n!r}", where=user_location(), expected="an integer >= 0")
    x = _float(x)
    if n == 0:
        return _op("digamma")(x)  # type: ignore[no-any-return]
    if n == 1:
        below = x < 0.5
        flipped = _op("where")(below, 1 - x, x)
        turn = (math.pi / _op("sin")(_op("where")(below, x, 0.5) * math.pi)) ** 2
        found = _positive_polygamma(1, flipped)
        return _op("where")(below, turn - found, found)  # type: ignore[no-any-return]
    return _positive_polygamma(n, x)


def _positive_polygamma(n: int, x: Any) -> Tensor:
    sign = -1.0 if n % 2 == 0 else 1.0
    total: Any = x * 0
    for k in range(20):
        total = total + (x + k) ** (-(n + 1.0))
    total = total * math.factorial(n)
    z = x + 20.0
    tail = math.factorial(n - 1) * z ** (-float(n)) + math.factorial(n) * z ** (-(n + 1.0)) / 2
    for k, b in enumerate(_BERNOULLI, start=1):
        scale = b * math.factorial(2 * k + n - 1) / math.factorial(2 * k)
        tail = tail + scale * z ** (-(2.0 * k + n))
    return sign * (total + tail)  # type: ignore[no-any-return]


@_in_float32
def multigammaln(x: Any, p: int) -> Tensor:
    """The logarithm of the gamma function of p dimensions."""
    x = _float(x)
    total: Any = p * (p - 1) / 4 * math.log(math.pi)
    for i in range(p):
        total = total + _op("lgamma")(x - i / 2)
    return total  # type: ignore[no-any-return]


for _name in "entr xlog1py ndtr ndtri log_ndtr i0 i0e i1 i1e polygamma multigammaln".split():
    globals()[_name] = heeding_out(globals()[_name])
mvlgamma = multigammaln


explain_room(globals())
