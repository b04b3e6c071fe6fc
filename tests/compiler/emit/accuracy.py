"""Exact values of functions, and errors in units of the last place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from trilobite.ir.primitives import special_numpy

Array = np.ndarray[Any, Any]
_IN_DOUBLE = frozenset({"erf", "erfc", "erf_inv", "lgamma", "digamma"})  # have no wider definition
TWO_OPERANDS = frozenset({"atan2", "pow", "hypot", "logaddexp"})


def _sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, x.dtype.type(1)) / (1 + e)


EXACT: dict[str, Callable[..., Array]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "tanh": np.tanh, "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh,
    "acosh": np.arccosh, "atanh": np.arctanh, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin,
    "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2, "pow": np.power, "hypot": np.hypot,
    "logaddexp": np.logaddexp, "rsqrt": lambda x: 1 / np.sqrt(x), "sigmoid": _sigmoid,
    "erf": special_numpy.erf, "erfc": special_numpy.erfc, "erf_inv": special_numpy.erf_inv,
    "lgamma": special_numpy.lgamma, "digamma": special_numpy.digamma,
}  # fmt: skip


def exact(name: str, *xs: Array) -> Array:
    """In the next wider format: double for float, extended for double (special functions: double)."""
    wide = np.dtype(np.float64 if xs[0].dtype == np.float32 or name in _IN_DOUBLE else np.longdouble)
    with np.errstate(all="ignore"):
        return np.asarray(EXACT[name](*(x.astype(wide) for x in xs)))


def ulps(found: Array, want: Array, scale: Array | None = None) -> Array:
    """Errors in units of the last place of `want` (or of `scale`, if that is larger); infinite where one is
    NaN or infinite or a negative zero and the other is not.
    """
    info = np.finfo(found.dtype)
    got = found.astype(want.dtype)
    with np.errstate(all="ignore"):
        size = np.abs(want) if scale is None else np.maximum(np.abs(want), scale)
        exponent = np.frexp(np.where(np.isfinite(size), size, 1))[1]
        unit = np.ldexp(np.ones((), want.dtype), np.maximum(exponent - 1, info.minexp) - info.nmant)
        error = np.abs(got - want) / unit
        # Beyond the largest number by half a unit everything is infinite.
        most = want.dtype.type(info.max) * (1 + want.dtype.type(2) ** (-info.nmant - 2))
        over = np.abs(want) >= most
        error = np.where(over, np.where(got == np.copysign(np.inf, want), 0, np.inf), error)
        nearly = np.isinf(got) & ~over & (np.abs(want) > most * (1 - want.dtype.type(2) ** (1 - info.nmant)))
        error = np.where(nearly, 1, error)
        error = np.where(
            np.isnan(want) | np.isnan(got), np.where(np.isnan(want) & np.isnan(got), 0, np.inf), error
        )
        same_zero = (got == 0) & (np.signbit(got) == np.signbit(want))
        return np.where(want == 0, np.where(same_zero, 0, np.where(scale is None, np.inf, error)), error)


def edges(dtype: Any) -> Array:
    info = np.finfo(dtype)
    one = np.dtype(dtype).type(1)
    beside = [np.nextafter(one, one * 0), np.nextafter(one, one * 2)]
    sizes = [
        0.0, np.inf, 1.0, info.max, info.tiny, info.smallest_subnormal, 0.5, 2.0, 3.0, 1e-3, 1e5, 1e6, 1e10,
        1e22, 88.7, 88.73, 103.9, 104.1, 709.7, 709.8, 745.1, 745.2, 1.5, 2.5, 4.0, 10.0, 0.41421357, np.pi,
        np.pi / 2, np.pi / 4, *beside,
    ]  # fmt: skip
    return np.array([*sizes, *(-s for s in sizes), np.nan], dtype)


def samples(dtype: Any, count: int, seed: int) -> Array:
    """Numbers of all sizes, small and moderate ones, ones around 1, and edges."""
    rng = np.random.default_rng(seed)
    d = np.dtype(dtype)
    raw = rng.integers(0, 256, (count, d.itemsize), dtype=np.uint8).view(d).ravel()
    spread = rng.standard_normal(count) * 10.0 ** rng.integers(-8, 4, count)
    even = rng.uniform(-1, 1, count) * rng.choice([1, 2, 10, 100, 1000], count)
    ones = 1 + rng.standard_normal(count) * 10.0 ** rng.integers(-8, 0, count)
    return np.concatenate([raw, spread.astype(d), even.astype(d), ones.astype(d), edges(d)])
