"""Fourier transforms, without any scaling: factors, lengths and shifts are made of other primitives above.

`fft` sums x[j] exp(-2πi jk/n), or with +i when inverse, so that each is the transpose of the other. `rfft`
keeps the n//2 + 1 numbers that a real line needs, `irfft` makes a real line of given length from them: the
imaginary parts of the first number, and of the last for an even length, have no say. Precision is that of
the operand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import COMPLEX, FLOATS, accumulator, complex_of, int64, real_of
from trilobite.base.errors import ShapeError
from trilobite.base.locations import user_location
from trilobite.base.quiet import array_rule
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.common import cast_to, count, same_types
from trilobite.ir.types import Dim, TensorType

Array = np.ndarray[Any, Any]


def _check_axes(name: str, x: TensorType, axes: Sequence[int]) -> None:
    if len(set(axes)) != len(axes) or any(not 0 <= a < len(x.shape) for a in axes):
        raise ShapeError(
            f"{name} of {x} over axes {list(axes)}",
            where=user_location(),
            expected=f"distinct axes of at least 0 and below {len(x.shape)}",
        )
    for a in axes:
        if x.shape[a] == 0:
            raise ShapeError(
                f"{name} of {x}: axis {a} has no elements",
                where=user_location(),
                expected="at least one element to transform",
                remedy="give a length n of at least 1",
            )


def _cost(flops: float) -> Any:
    """`flops` times N log2 n, n the number of elements that one transform joins."""

    def rule(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
        x = inputs[0] if count(inputs[0].size) > count(outputs[0].size) else outputs[0]
        axes = attrs["axes"] if "axes" in attrs else (attrs["axis"],)
        length = float(np.prod([count(x.shape[a]) for a in axes]))
        return flops * count(x.size) * float(np.log2(max(length, 2.0)))

    return rule


# -- complex -------------------------------------------------------------------------------------------------


def _fft(x: Array, axes: tuple[int, ...], inverse: bool) -> Array:
    if not axes:
        return x.copy()
    return np.fft.ifftn(x, axes=axes, norm="forward") if inverse else np.fft.fftn(x, axes=axes)


def _fft_type(x: TensorType, axes: tuple[int, ...], inverse: bool) -> TensorType:
    same_types("fft", (x,), COMPLEX)
    _check_axes("fft", x, axes)
    return x


def _fft_batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
    return fft(values[0], axes=tuple(a + 1 for a in attrs["axes"]), inverse=attrs["inverse"])


fft: Primitive = Primitive(
    "fft", "x", type=_fft_type, evaluate=array_rule(_fft),
    jvp=(lambda t, *, axes, inverse: fft(t, axes=axes, inverse=inverse),),
    vjp=(lambda t, *, axes, inverse: fft(t, axes=axes, inverse=not inverse),),
    batch=_fft_batch, cost=_cost(5.0),
    doc="the discrete Fourier transform over the axes, unscaled in both directions",
)  # fmt: skip

# -- real ----------------------------------------------------------------------------------------------------


def half(length: Dim) -> Dim:
    """How many numbers the spectrum of a real line has."""
    return length // 2 + 1


def _rfft(x: Array, axis: int) -> Array:
    return np.fft.rfft(x.astype(accumulator(x.dtype), copy=False), axis=axis)


def _rfft_type(x: TensorType, axis: int) -> TensorType:
    same_types("rfft", (x,), FLOATS)
    _check_axes("rfft", x, (axis,))
    shape = (*x.shape[:axis], half(x.shape[axis]), *x.shape[axis + 1 :])
    return TensorType(shape, complex_of(accumulator(x.dtype)))


def _irfft(x: Array, axis: int, length: int) -> Array:
    return np.fft.irfft(x, n=length, axis=axis, norm="forward")


def _irfft_type(x: TensorType, axis: int, length: Dim) -> TensorType:
    same_types("irfft", (x,), COMPLEX)
    _check_axes("irfft", x, (axis,))
    if length < 1 or x.shape[axis] != half(length):
        raise ShapeError(
            f"irfft of {x} along axis {axis} to length {length}",
            where=user_location(),
            expected=f"{half(length)} numbers for a length of {length}, which is at least 1",
        )
    return TensorType((*x.shape[:axis], length, *x.shape[axis + 1 :]), real_of(x.dtype))


def _weighted(x: Value, axis: int, length: Dim, inner: float) -> Value:
    """x scaled but for numbers that stand for themselves alone: the first, and an even length's last."""
    place = table["iota"](shape=x.shape, dtype=int64, axis=axis)
    alone = table["eq"](place, table["full"](shape=x.shape, dtype=int64, value=0))
    if length % 2 == 0:
        last = table["full"](shape=x.shape, dtype=int64, value=length // 2)
        alone = table["or"](alone, table["eq"](place, last))
    return table["select"](
        alone, x, table["mul"](x, table["full"](shape=x.shape, dtype=x.dtype, value=inner))
    )


def _rfft_vjp(t: Value, x_type: TensorType, *, axis: int) -> Value:
    """irfft counts numbers inside the half spectrum twice, for their mirror images: so half of them."""
    length = x_type.shape[axis]
    return cast_to(irfft(_weighted(t, axis, length, 0.5), axis=axis, length=length), x_type.dtype)


def _real_batch(name: str) -> Any:
    def rule(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> Value:
        return table[name](values[0], **{**attrs, "axis": attrs["axis"] + 1})

    return rule


rfft: Primitive = Primitive(
    "rfft", "x", type=_rfft_type, evaluate=array_rule(_rfft),
    jvp=(lambda t, *, axis: rfft(t, axis=axis),), vjp=(_rfft_vjp,),
    batch=_real_batch("rfft"), cost=_cost(2.5),
    doc="the first n//2 + 1 numbers of the transform of a real line, unscaled",
)  # fmt: skip

irfft: Primitive = Primitive(
    "irfft", "x", type=_irfft_type, evaluate=array_rule(_irfft),
    jvp=(lambda t, *, axis, length: irfft(t, axis=axis, length=length),),
    vjp=(lambda t, *, axis, length: _weighted(rfft(t, axis=axis), axis, length, 2.0),),
    batch=_real_batch("irfft"), cost=_cost(2.5),
    doc="the real line of this length that has the half spectrum x, times the length",
)  # fmt: skip
