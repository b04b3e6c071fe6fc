"""The sizes of a convolution: enters what three operands and the attributes say, leaves a checked
`Geometry`.

x[N, C, *space], w[K, C/groups, *kernel], y[N, K, *out]. The three primitives of the family know two of the
operands and derive the third; all of them check here, so that one message serves recording and eager runs
alike. Does not compute anything: `conv_blocks` does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.ir.types import Dim, Shape

Ints = tuple[int, ...]
Size = Any  # an int; where only types are known, it may be an affine expression
Sizes = tuple[Size, ...]


class Geometry(NamedTuple):
    """One convolution. `channels`, `filters`: of one group. `padded`: the extent that windows slide over."""

    batch: Size
    groups: int
    channels: Size
    filters: Size
    space: Sizes
    kernel: Ints
    out: Sizes
    padded: Sizes
    stride: Ints
    low: Ints
    high: Ints
    x_dilation: Ints
    w_dilation: Ints

    @property
    def x_shape(self) -> Shape:
        return (self.batch, self.groups * self.channels, *self.space)

    @property
    def w_shape(self) -> Shape:
        return (self.groups * self.filters, self.channels, *self.kernel)

    @property
    def y_shape(self) -> Shape:
        return (self.batch, self.groups * self.filters, *self.out)

    @property
    def direct(self) -> bool:
        """Windows lie inside x as it is: nothing padded, cropped or spread."""
        return not any(self.low) and not any(self.high) and all(d == 1 for d in self.x_dilation)

    @property
    def pointwise(self) -> bool:
        """A 1x1 convolution that visits every element: a matrix product."""
        return self.direct and all(r == 1 for r in self.kernel) and all(s == 1 for s in self.stride)


def spread(extent: Dim, dilation: int) -> Dim:
    """The extent of `extent` elements that stand `dilation` apart."""
    return extent if dilation == 1 or extent == 0 else (extent - 1) * dilation + 1


def window_count(extent: Dim, window: Dim, stride: int) -> Dim:
    """How many windows fit into an extent."""
    room = extent - window
    return room + 1 if stride == 1 else room // stride + 1


@lru_cache(maxsize=4096)
def geometry(
    name: str,
    x: Shape,
    w: Shape,
    stride: Ints,
    low: Ints,
    high: Ints,
    x_dilation: Ints,
    w_dilation: Ints,
    groups: int,
) -> Geometry:
    """Check a convolution of shapes x and w, and derive the rest."""
    rank = len(x) - 2
    _check_ranks(name, x, w, rank, (stride, low, high, x_dilation, w_dilation))
    _check_numbers(name, stride, x_dilation, w_dilation, w[2:], groups)
    if x[1] != w[1] * groups or w[0] % groups:
        raise ShapeError(
            f"{name}: {x[1]} input channels, {w[0]} filters of {w[1]} channels, {groups} groups",
            where=user_location(),
            expected=f"{w[1] * groups} input channels, and a number of filters that {groups} divides",
            remedy="the weight is (filters, input channels / groups, *kernel)",
        )
    padded = tuple(spread(n, d) + lo + hi for n, d, lo, hi in zip(x[2:], x_dilation, low, high, strict=True))
    window = tuple(spread(r, d) for r, d in zip(w[2:], w_dilation, strict=True))
    for a, (extent, need) in enumerate(zip(padded, window, strict=True)):
        if extent < need:
            raise ShapeError(
                f"{name}: the kernel spans {need} elements along spatial axis {a}, "
                f"the padded input has {extent}",
                where=user_location(),
                expected=f"at least {need} elements: input {x[2 + a]}, padding {low[a]} and {high[a]}",
                remedy="pad the input more, use a smaller kernel or less dilation",
            )
    out = tuple(window_count(e, n, s) for e, n, s in zip(padded, window, stride, strict=True))
    kernel = tuple(int(r) for r in w[2:])
    return Geometry(
        x[0],
        groups,
        w[1],
        w[0] // groups,
        x[2:],
        kernel,
        out,
        padded,
        stride,
        low,
        high,
        x_dilation,
        w_dilation,
    )


def _check_ranks(name: str, x: Shape, w: Shape, rank: int, settings: tuple[Ints, ...]) -> None:
    if rank < 0 or len(w) != len(x):
        raise ShapeError(
            f"{name}: an input with {len(x)} axes and a weight with {len(w)}",
            where=user_location(),
            expected="(batch, channels, *space) and (filters, channels / groups, *kernel), equally many axes",
        )
    if any(len(s) != rank for s in settings):
        raise ShapeError(
            f"{name}: stride, low, high, x_dilation, w_dilation are {', '.join(map(str, settings))}",
            where=user_location(),
            expected=f"one number for each of {rank} spatial axes",
        )


def _check_numbers(
    name: str, stride: Ints, x_dilation: Ints, w_dilation: Ints, kernel: Shape, groups: int
) -> None:
    for what, numbers in (
        ("stride", stride),
        ("x_dilation", x_dilation),
        ("w_dilation", w_dilation),
        ("kernel", kernel),
    ):
        if any(n < 1 for n in numbers):
            raise ArgumentError(
                f"{name}: {what} {tuple(numbers)}", where=user_location(), expected="numbers of at least 1"
            )
    if groups < 1:
        raise ArgumentError(f"{name}: {groups} groups", where=user_location(), expected="at least 1")
