"""Discrete Fourier transforms: small ones by a matrix, larger ones by factors (Cooley, Tukey)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from trilobite.base.dtypes import complex_of, int64
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table

Body = Callable[..., Any] | None
SMALL = 64  # points that a matrix transforms at once


def _roots(n: int, count: int, inverse: bool, dtype: Any) -> Any:
    """exp(-+ 2 pi i j k / n) for j < count, k < n / count."""
    return _powers(n, np.outer(np.arange(count), np.arange(n // count)), inverse, dtype)


def _matrix(n: int, inverse: bool, dtype: Any) -> Any:
    return _powers(n, np.outer(np.arange(n), np.arange(n)), inverse, dtype)


def _powers(n: int, exponents: Any, inverse: bool, dtype: Any) -> Any:
    """Powers of the n-th root of unity, by quarter turns: 1, i, -1 and -i are exact, so that a real signal
    has a real mean and a real highest frequency, as the meaning says."""
    quarter, rest = np.divmod(4 * (exponents % n), n)
    root = np.exp(0.5j * np.pi * rest / n) * np.array([1, 1j, -1, -1j])[quarter]
    return np.asarray(root if inverse else np.conj(root), dtype)


def _factor(n: int) -> int:
    """The largest divisor that a matrix takes, if there is one above 1."""
    return max((d for d in range(1, SMALL + 1) if n % d == 0), default=1)


def _along_last(x: Any, inverse: bool) -> Any:
    """x[rows, n]"""
    rows, n = x.shape
    p = _factor(n)
    if n <= SMALL or p == 1:
        return t.product(x, t.constant(_matrix(n, inverse, x.dtype)))
    q = n // p  # x[j q + i]: transforms over j, twists, transforms over i
    cut = t.transpose(t.reshape(x, rows, p, q), (0, 2, 1))
    inner = _along_last(t.reshape(cut, rows * q, p), inverse)
    twisted = t.mul(
        t.reshape(inner, rows, q, p),
        t.broadcast(t.constant(_roots(n, q, inverse, x.dtype)), (rows, q, p), (1, 2)),
    )
    columns = t.reshape(t.transpose(twisted, (0, 2, 1)), rows * p, q)
    outer = t.reshape(_along_last(columns, inverse), rows, p, q)
    return t.reshape(t.transpose(outer, (0, 2, 1)), rows, n)


def transformed(x: Any, axis: int, inverse: bool) -> Any:
    order = (*(a for a in range(x.ndim) if a != axis), axis)
    moved = t.transpose(x, order)
    shape = tuple(moved.shape)
    found = _along_last(t.reshape(moved, prod(shape[:-1]), shape[-1]), inverse)
    back = tuple(order.index(a) for a in range(x.ndim))
    return t.transpose(t.reshape(found, *shape), back)


def _fft(e: Equation) -> Body:
    def body(x: Any) -> Any:
        for a in e.attributes["axes"]:
            x = transformed(x, a, e.attributes["inverse"])
        return x

    return (lambda x: x) if 0 in extents(e.inputs[0]) else body


def _rfft(e: Equation) -> Body:
    axis, out = e.attributes["axis"], extents(e.outputs[0])

    def body(x: Any) -> Any:
        dtype = complex_of(x.dtype)
        n = x.shape[axis]
        half = t.part(transformed(t.cast(x, dtype), axis, False), axis, 0, out[axis])
        return half if n <= SMALL or n % 2 else _real_end(half, axis, n // 2)

    return body


def _real_end(x: Any, axis: int, place: int) -> Any:
    """Without the imaginary part at a place, where the rounding of several factors left one."""
    imag = table["imag"](x)
    there = t.compare("eq", t.iota(x.shape, int64, axis), t.full(x.shape, int64, place))
    return table["complex"](table["real"](x), t.select(there, t.like(imag, 0), imag))


def _irfft(e: Equation) -> Body:
    """The other half of the spectrum is the first one's mirror image, conjugated."""
    axis, n = e.attributes["axis"], e.attributes["length"]

    def body(x: Any) -> Any:
        half = n // 2 + 1
        x = t.part(x, axis, 0, half)
        mirror = t.reverse(t.part(x, axis, 1, n - half + 1), axis)
        parts = [x, table["conj"](mirror)] if n > half else [x]
        return table["real"](transformed(t.join(parts, axis), axis, True))

    return body


RULES = {"fft": _fft, "rfft": _rfft, "irfft": _irfft}
