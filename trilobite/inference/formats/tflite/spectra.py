"""TFLite's complex numbers as pairs of real tensors, and the transform that makes them."""

from __future__ import annotations

from collections.abc import Callable

from trilobite.inference.formats.channels_last import Tensor
from trilobite.inference.formats.tflite.convert import Converter, Rule
from trilobite.inference.formats.tflite.file import Operator


def _rfft_2d(c: Converter, o: Operator) -> None:
    """Over the last two axes, cut or filled up to the lengths that are asked for."""
    a, rank = c.a, len(c.info(o, 0).shape)
    rows, columns = c.ints(o, 1, "lengths")
    name = a.node("Unsqueeze", c.layers.last(c.x(o, 0)), a.ints(-1))
    name = a.node("DFT", name, a.constant(columns, "int64"), a.constant(-2, "int64"), onesided=1)
    if rows != 1 or c.info(o, 0).shape[-2] != 1:
        name = a.node("DFT", name, a.constant(rows, "int64"), a.constant(-3, "int64"))
    real, imaginary = (
        c.layers.made(a.node("Gather", name, a.constant(k, "int64"), axis=-1), rank) for k in (0, 1)
    )
    c.pairs[o.outputs[0]] = real, imaginary


def _part(k: int) -> Rule:
    return lambda c, o: c.keep(o, c.pair(o, 0)[k])


def _absolute(c: Converter, o: Operator) -> None:
    squares = [c.layers.pointwise("Mul", part, part) for part in c.pair(o, 0)]
    c.keep(o, c.layers.unary("Sqrt", c.layers.pointwise("Add", *squares)))


def each(
    c: Converter, o: Operator, write: Callable[[Converter, Operator, Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """An operation that moves numbers, on both parts."""
    real, imaginary = c.pair(o, 0)
    return write(c, o, real), write(c, o, imaginary)


def cast(c: Converter, o: Operator) -> None:
    """The real part, as TensorFlow casts."""
    real = c.pair(o, 0)[0]
    c.keep(o, c.layers.made(c.a.cast(c.layers.last(real), c.out_info(o).dtype), real.rank))


ROWS: dict[str, Rule] = {
    "RFFT2D": _rfft_2d,
    "REAL": _part(0),
    "IMAG": _part(1),
    "COMPLEX_ABS": _absolute,
}
