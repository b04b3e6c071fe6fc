"""Discrete Fourier transforms over values: the `fft` extension of the array API standard. `tb.fft` offers
them.

Scaling: `norm` says which direction is divided by the number of elements joined: "backward" the inverse,
"forward" the other, "ortho" both by its square root. Lengths: an axis is cut or filled with zeros at its
end first. Complex results have the precision of the operand; integers become the default float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.dtypes import FLOATS, DType, accumulator, as_dtype, complex_of
from trilobite.base.errors import ArgumentError, DTypeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axes_in, axis_in
from trilobite.framework.ops.conversion import check_device
from trilobite.framework.ops.joining import roll
from trilobite.framework.ops.meeting import INEXACTS, REAL_FLOATS, accepted, as_value, astype
from trilobite.framework.ops.registry import op
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table

G = "fft"
Norm = Literal["backward", "ortho", "forward"]
_OPPOSITE = {"backward": "forward", "forward": "backward", "ortho": "ortho"}

# -- operands, lengths, scales -------------------------------------------------------------------------------


def _complex(x: Any, what: str) -> Value:
    x = as_value(x)
    return astype(x, complex_of(accumulator(accepted(f"fft.{what}", INEXACTS, x.dtype))))


def _real(x: Any, what: str) -> Value:
    x = as_value(x)
    return astype(x, accumulator(accepted(f"fft.{what}", REAL_FLOATS, x.dtype)))


def _length(n: Any, what: str) -> int:
    if not hasattr(n, "__index__") or n.__index__() < 1:
        raise ArgumentError(
            f"fft.{what} of length {n!r}",
            where=user_location(),
            expected="a whole number of at least 1",
            remedy="pass n, or transform an axis that has elements",
        )
    return int(n.__index__())


def _fitted(x: Value, axes: Sequence[int], lengths: Sequence[Any]) -> Value:
    """x cut or filled with zeros at the end of the axes."""
    high = [0] * x.ndim
    for a, n in zip(axes, lengths, strict=True):
        high[a] = n - x.shape[a]
    if not any(high):
        return x
    none = (0,) * x.ndim
    return table["pad"](x, low=none, high=tuple(high), between=none, value=0.0)


def _scaled(x: Value, count: int, norm: Norm, inverse: bool, what: str) -> Value:
    if norm not in _OPPOSITE:
        raise ArgumentError(
            f"fft.{what} with norm={norm!r}",
            where=user_location(),
            expected="'backward', 'ortho' or 'forward'",
        )
    if norm == ("forward" if inverse else "backward"):
        return x
    factor = 1 / math.sqrt(count) if norm == "ortho" else 1 / count
    return table["mul"](x, table["full"](shape=x.shape, dtype=x.dtype, value=factor))


def _plan(x: Value, s: Any, axes: Any, what: str) -> tuple[tuple[int, ...], list[Any]]:
    """The axes of a transform and the lengths asked for (None: as it is)."""
    axes, s = (None if v is None else (v,) if isinstance(v, int) else tuple(v) for v in (axes, s))
    if axes is None and s is not None:
        axes = tuple(range(x.ndim - len(s), x.ndim))
    chosen = axes_in(axes, x.ndim, f"fft.{what}")
    lengths = [None] * len(chosen) if s is None else [None if n == -1 else n for n in s]
    if len(lengths) != len(chosen):
        raise ArgumentError(
            f"fft.{what} with {len(lengths)} lengths for {len(chosen)} axes",
            where=user_location(),
            expected="one length an axis",
        )
    return chosen, lengths


def _all_complex(
    x: Value, axes: Sequence[int], lengths: Sequence[Any], norm: Norm, inverse: bool, what: str
) -> Value:
    sizes = [_length(x.shape[a] if n is None else n, what) for a, n in zip(axes, lengths, strict=True)]
    x = _fitted(x, axes, sizes)
    out = table["fft"](x, axes=tuple(axes), inverse=inverse)
    return _scaled(out, math.prod(sizes), norm, inverse, what)


def _to_half(x: Value, axis: int, n: Any, norm: Norm, what: str) -> Value:
    n = _length(x.shape[axis] if n is None else n, what)
    out = table["rfft"](_fitted(x, (axis,), (n,)), axis=axis)
    return _scaled(out, n, norm, False, what)


def _from_half(x: Value, axis: int, n: Any, norm: Norm, what: str) -> Value:
    n = _length(2 * (x.shape[axis] - 1) if n is None else n, what)
    out = table["irfft"](_fitted(x, (axis,), (n // 2 + 1,)), axis=axis, length=n)
    return _scaled(out, n, norm, True, what)


# -- complex -------------------------------------------------------------------------------------------------


@op(G, name="fft.fft", methods=())
def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Value:
    """The transform along one axis: sums of x[j] exp(-2πi jk/n)."""
    x = _complex(x, "fft")
    return _all_complex(x, (axis_in(axis, x.ndim, "fft.fft"),), (n,), norm, False, "fft")


@op(G, name="fft.ifft", methods=())
def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Value:
    """The inverse of fft."""
    x = _complex(x, "ifft")
    return _all_complex(x, (axis_in(axis, x.ndim, "fft.ifft"),), (n,), norm, True, "ifft")


@op(G, name="fft.fftn", methods=())
def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Norm = "backward") -> Value:
    """The transform over several axes, or all of them."""
    x = _complex(x, "fftn")
    return _all_complex(x, *_plan(x, s, axes, "fftn"), norm, False, "fftn")


@op(G, name="fft.ifftn", methods=())
def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Norm = "backward") -> Value:
    """The inverse of fftn."""
    x = _complex(x, "ifftn")
    return _all_complex(x, *_plan(x, s, axes, "ifftn"), norm, True, "ifftn")


@op(G, name="fft.fft2", methods=())
def fft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Norm = "backward") -> Value:
    """fftn over two axes."""
    return fftn(x, s=s, axes=axes, norm=norm)


@op(G, name="fft.ifft2", methods=())
def ifft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Norm = "backward") -> Value:
    """The inverse of fft2."""
    return ifftn(x, s=s, axes=axes, norm=norm)


# -- real ----------------------------------------------------------------------------------------------------


@op(G, name="fft.rfft", methods=())
def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Value:
    """fft of a real line: its first n//2 + 1 numbers, which say everything."""
    x = _real(x, "rfft")
    return _to_half(x, axis_in(axis, x.ndim, "fft.rfft"), n, norm, "rfft")


@op(G, name="fft.irfft", methods=())
def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Value:
    """The inverse of rfft: a real line of length n, by default the even one."""
    x = _complex(x, "irfft")
    return _from_half(x, axis_in(axis, x.ndim, "fft.irfft"), n, norm, "irfft")


@op(G, name="fft.rfftn", methods=())
def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Norm = "backward") -> Value:
    """fftn of real numbers: the last axis keeps its first n//2 + 1 numbers."""
    x = _real(x, "rfftn")
    chosen, lengths = _plan(x, s, axes, "rfftn")
    _some_axis(chosen, "rfftn")
    out = _to_half(x, chosen[-1], lengths[-1], norm, "rfftn")
    return _all_complex(out, chosen[:-1], lengths[:-1], norm, False, "rfftn")


@op(G, name="fft.irfftn", methods=())
def irfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: Norm = "backward") -> Value:
    """The inverse of rfftn; the last length is by default the even one."""
    x = _complex(x, "irfftn")
    chosen, lengths = _plan(x, s, axes, "irfftn")
    _some_axis(chosen, "irfftn")
    out = _all_complex(x, chosen[:-1], lengths[:-1], norm, True, "irfftn")
    return _from_half(out, chosen[-1], lengths[-1], norm, "irfftn")


def _some_axis(axes: Sequence[int], what: str) -> None:
    if not axes:
        raise ArgumentError(f"fft.{what} over no axes", where=user_location(), expected="at least one axis")


@op(G, name="fft.rfft2", methods=())
def rfft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Norm = "backward") -> Value:
    """rfftn over two axes."""
    return rfftn(x, s=s, axes=axes, norm=norm)


@op(G, name="fft.irfft2", methods=())
def irfft2(x: Any, /, *, s: Any = None, axes: Any = (-2, -1), norm: Norm = "backward") -> Value:
    """The inverse of rfft2."""
    return irfftn(x, s=s, axes=axes, norm=norm)


@op(G, name="fft.hfft", methods=())
def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Value:
    """The real transform of a line that mirrors its conjugate, given by its first half."""
    x = table["conj"](_complex(x, "hfft"))
    return _from_half(x, axis_in(axis, x.ndim, "fft.hfft"), n, _turned(norm), "hfft")


@op(G, name="fft.ihfft", methods=())
def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Value:
    """The inverse of hfft."""
    x = _real(x, "ihfft")
    return table["conj"](_to_half(x, axis_in(axis, x.ndim, "fft.ihfft"), n, _turned(norm), "ihfft"))


def _turned(norm: Any) -> Any:
    """The same scale, said of the other direction."""
    return _OPPOSITE.get(norm, norm)


# -- frequencies ---------------------------------------------------------------------------------------------


def _frequencies(places: np.ndarray[Any, Any], n: int, d: float, dtype: Any, device: Any, what: str) -> Value:
    check_device(device)
    chosen: DType = dt.default_float if dtype is None else as_dtype(dtype)
    if chosen not in FLOATS:
        raise DTypeError(f"fft.{what} in {chosen}", where=user_location(), expected="a float dtype")
    with np.errstate(all="ignore"):
        return (places / (n * float(d))).astype(chosen)


@op(G, name="fft.fftfreq", methods=())
def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Value:
    """The frequencies of fft's results, in cycles per unit of the spacing d; the negative ones last."""
    n = _length(n, "fftfreq")
    half = (n - 1) // 2 + 1
    return _frequencies(np.r_[0:half, -(n // 2) : 0], n, d, dtype, device, "fftfreq")


@op(G, name="fft.rfftfreq", methods=())
def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Value:
    """The frequencies of rfft's results."""
    n = _length(n, "rfftfreq")
    return _frequencies(np.arange(n // 2 + 1), n, d, dtype, device, "rfftfreq")


def _shifted(x: Any, axes: Any, forward: bool, what: str) -> Value:
    x = as_value(x)
    chosen = axes_in(axes, x.ndim, f"fft.{what}")
    shifts = tuple(x.shape[a] // 2 if forward else -(x.shape[a] // 2) for a in chosen)
    return roll(x, shifts, axis=chosen) if chosen else x


@op(G, name="fft.fftshift", methods=())
def fftshift(x: Any, /, *, axes: Any = None) -> Value:
    """Frequency zero in the middle."""
    return _shifted(x, axes, True, "fftshift")


@op(G, name="fft.ifftshift", methods=())
def ifftshift(x: Any, /, *, axes: Any = None) -> Value:
    """Frequency zero first again."""
    return _shifted(x, axes, False, "ifftshift")
