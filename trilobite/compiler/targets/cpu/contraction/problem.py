"""A convolution as rows gathered by taps: the one form that the direct kernels run.

Enters: the attributes and shapes of `conv_last` or `conv_last_input_grad`. Leaves: `Part`s. A part says,
for a lattice of output positions m, out[m] = sum over taps of row(step*m + offset of the tap) @
weight(tap), where a row is the run of channels at one position of the source, and zeros outside. A
convolution is one part; an input gradient of stride s is one part for each position within the stride, each
with the taps that reach it, so no product with a zero between elements is ever made. It computes nothing.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from trilobite.base.records import dataclass
from trilobite.ir.graph import Equation
from trilobite.ir.types import Affine, Dim, size_of

Array = np.ndarray[Any, Any]
SHALLOW = 8  # channels up to which rows of taps are worth a padded copy of the source


@dataclass(frozen=True)
class Axis:
    """One spatial axis of a part: output position `first + every*m` for m < count reads source `step*m + b`,
    where b is in `offsets` for each tap number in `taps`.
    """

    count: int
    first: int
    every: int
    step: int
    extent: int  # of the source
    taps: tuple[int, ...]
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class Part:
    """Axes, and what is the same for all parts of a convolution."""

    axes: tuple[Axis, ...]
    out: tuple[int, ...]  # extents of the whole result
    kernel: tuple[int, ...]

    @property
    def positions(self) -> int:
        return math.prod(a.count for a in self.axes)

    @property
    def tap_count(self) -> int:
        return math.prod(len(a.taps) for a in self.axes)

    def tap_rows(self) -> tuple[Array, Array]:
        """For each tap the source offset along each axis, and its number in the kernel."""
        numbers: Array = np.zeros((), np.int64)
        for axis, size in zip(self.axes, self.kernel, strict=True):
            numbers = numbers[..., None] * size + np.array(axis.taps, np.int64)
        grid = np.meshgrid(*(np.array(axis.offsets, np.int64) for axis in self.axes), indexing="ij")
        offsets = [along.ravel() for along in grid]
        return np.array(offsets, np.int64).reshape(len(self.axes), numbers.size).T, numbers.ravel()


@dataclass(frozen=True)
class Problem:
    """Sizes of one convolution. `depth`, `columns`: of one group. `channels`: of a source position."""

    batch: Dim
    groups: int
    channels: int
    depth: int
    columns: int
    source: tuple[int, ...]
    parts: tuple[Part, ...]
    apart: int = 0  # rows from group to group where they lie one after the other; 0: side by side in each row
    merged: int = 1  # groups of the convolution whose columns share a panel and count as one group here

    @property
    def out(self) -> tuple[int, ...]:
        return self.parts[0].out if self.parts else ()

    @property
    def images(self) -> tuple[int, Dim]:
        """How many images are cut into units together, and how often: a symbolic batch is one by one."""
        return (1, self.batch) if isinstance(self.batch, Affine) else (int(self.batch), 1)

    @property
    def image(self) -> int:
        """Elements of an image of the source."""
        return math.prod(self.source) * self.channels


def _lattice(out: int, kernel: int, a: int, b: int, c: int, d: int, extent: int) -> list[Axis]:
    """Position i reads tap r at (a*i + b*r + c) / d where that is whole; one axis for each class of i."""
    common = math.gcd(a, d)
    every = d // common
    found = []
    for first in range(min(every, out)):
        taps = [r for r in range(kernel) if (a * first + b * r + c) % d == 0]
        offsets = [(a * first + b * r + c) // d for r in taps]
        count = (out - first + every - 1) // every
        found.append(Axis(count, first, every, a // common, extent, tuple(taps), tuple(offsets)))
    return found


def _kernel(e: Equation) -> tuple[int, ...]:
    x, w = (v.type for v in e.inputs)
    kernel = w.shape[:-2] if w.ndim == x.ndim else w.shape[2:-2]
    return tuple(int(k) for k in kernel)


def problem(e: Equation) -> Problem:
    """The gathered form of a `conv_last` or `conv_last_input_grad`. Only the batch may be symbolic."""
    return gathered(e, _kernel(e))


def gathered(e: Equation, kernel: tuple[int, ...]) -> Problem:
    """The same of any equation with the attributes of a convolution."""
    x, y = e.inputs[0].type, e.outputs[0].type
    source, out = (tuple(int(n) for n in t.shape[1:-1]) for t in (x, y))
    axes = [_axis(e, i, kernel[i], source[i], out[i]) for i in range(len(kernel))]
    parts = tuple(Part(choice, out, kernel) for choice in product(*axes))
    groups, merged = e.attributes["groups"], _merged(e)
    channels, columns = int(x.shape[-1]), int(y.shape[-1]) * merged // groups
    depth = channels // groups
    return Problem(x.shape[0], groups // merged, channels, depth, columns, source, parts, merged=merged)


def _merged(e: Equation) -> int:
    """How many groups each group of panels holds."""
    if e.primitive.name != "conv_last":
        return 1
    x, w = (v.type for v in e.inputs)
    return int(e.attributes["groups"] // w.shape[0]) if w.ndim == x.ndim + 2 else 1


def weight_problem(e: Equation) -> Problem:
    """The convolution whose weight a `conv_last_weight_grad` is the gradient of."""
    x, y = (v.type for v in e.inputs)
    a = e.attributes
    source, out = (tuple(int(n) for n in t.shape[1:-1]) for t in (x, y))
    axes = tuple(
        Axis(
            out[i], 0, 1, a["stride"][i], source[i], tuple(range(a["kernel"][i])),
            tuple(r * a["w_dilation"][i] - a["low"][i] for r in range(a["kernel"][i])),
        )
        for i in range(len(source))
    )  # fmt: skip
    channels, groups = int(x.shape[-1]), a["groups"]
    columns = int(y.shape[-1]) // groups
    part = Part(axes, out, tuple(a["kernel"]))
    return Problem(x.shape[0], groups, channels, channels // groups, columns, source, (part,))


def window_problem(e: Equation) -> Problem:
    """`window_last_reduce` as rows gathered by taps, and `window_last_spread` as its transpose."""
    x, y, a = e.inputs[0].type, e.outputs[0].type, e.attributes
    rank = len(a["size"])
    lead = x.ndim - 1 - rank
    source, out = (tuple(int(n) for n in t.shape[lead:-1]) for t in (x, y))
    axes = []
    for i in range(rank):
        stride, low, apart = a["stride"][i], a["low"][i], a["dilation"][i]
        if e.primitive.name == "window_last_spread":
            axes.append(_lattice(out[i], a["size"][i], 1, -apart, low, stride, source[i]))
        else:
            axes.append(_lattice(out[i], a["size"][i], stride, apart, -low, 1, source[i]))
    parts = tuple(Part(choice, out, tuple(a["size"])) for choice in product(*axes))
    channels = int(x.shape[-1])
    return Problem(size_of(x.shape[:lead]), 1, channels, channels, channels, source, parts)


def _axis(e: Equation, i: int, kernel: int, source: int, out: int) -> list[Axis]:
    a: dict[str, Any] = dict(e.attributes)
    stride, low, spread, taps = a["stride"][i], a["low"][i], a["x_dilation"][i], a["w_dilation"][i]
    if e.primitive.name == "conv_last_input_grad":
        return _lattice(out, kernel, spread, -taps, low, stride, source)
    return _lattice(out, kernel, stride, taps, -low, spread, source)


# -- simpler forms of the same convolution -----------------------------------------------------------------


def pointwise(p: Problem) -> bool:
    """Every output position reads the one source position with its own number, by the only tap there is: rows
    of a matrix product.
    """
    return len(p.parts) == 1 and all(
        a.count == a.extent and (a.first, a.every, a.step, a.offsets, size) == (0, 1, 1, (0,), 1)
        for a, size in zip(p.parts[0].axes, p.parts[0].kernel, strict=True)
    )


def as_rows(p: Problem) -> Problem:
    """A pointwise convolution without spatial axes: every pixel is an image."""
    return replace(p, batch=p.batch * math.prod(p.source), source=(), parts=(Part((), (), ()),))


def margins(p: Problem) -> tuple[int, int] | None:
    """How much padding the last source axis needs so that each row of taps is one run of memory; None if taps
    along that axis do not stand side by side, or no more is won than lost.
    """
    if len(p.parts) != 1 or not p.source or p.groups * p.merged != 1 or p.depth > SHALLOW:
        return None
    axis = p.parts[0].axes[-1]
    run = list(range(axis.offsets[0], axis.offsets[0] + len(axis.offsets)))
    whole = axis.taps == tuple(range(p.parts[0].kernel[-1]))  # a source spread apart meets some taps alone
    if len(axis.offsets) < 2 or list(axis.offsets) != run or axis.count == 0 or not whole:
        return None
    low = max(0, -axis.offsets[0])
    return low, max(0, axis.step * (axis.count - 1) + axis.offsets[-1] + 1 - axis.extent)


def with_long_rows(p: Problem, low: int, high: int) -> Problem:
    """The last kernel axis joined with the channels, for a source padded by `low` and `high` along it."""
    part = p.parts[0]
    axis = part.axes[-1]
    extent = axis.extent + low + high
    joined = replace(axis, extent=extent, taps=(0,), offsets=(axis.offsets[0] + low,))
    parts = (Part((*part.axes[:-1], joined), part.out, (*part.kernel[:-1], 1)),)
    return replace(p, depth=p.depth * len(axis.taps), source=(*p.source[:-1], extent), parts=parts)
