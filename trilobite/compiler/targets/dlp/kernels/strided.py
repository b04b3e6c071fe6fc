"""Copies between strided arrays, in any memories: collapsed axes, the DMA's two strides, loops around them.

Enters: where to, where from, and per axis (extent, destination stride, source stride) in elements. Leaves:
COPY, COPY2 or COPY3 instructions in as few loops as the axes allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trilobite.compiler.targets.dlp.writer import Int, Writer
from trilobite.processor.lang.ir import Value


class Axis(NamedTuple):
    """An axis of a copy; strides in elements."""

    extent: Int
    dst: Int
    src: Int


def collapsed(axes: Sequence[Axis]) -> list[Axis]:
    """Without axes of one element, neighbours merged where one stride describes both."""
    kept: list[Axis] = []
    for axis in axes:
        if isinstance(axis.extent, int) and axis.extent == 1:
            continue
        if kept and _merges(kept[-1], axis):
            outer = kept.pop()
            assert isinstance(outer.extent, int) and isinstance(axis.extent, int)
            kept.append(Axis(outer.extent * axis.extent, axis.dst, axis.src))
        else:
            kept.append(axis)
    return kept


def _merges(outer: Axis, inner: Axis) -> bool:
    if not all(isinstance(n, int) for n in (*outer, *inner)):
        return False
    return outer.dst == inner.extent * inner.dst and outer.src == inner.extent * inner.src  # type: ignore[operator]


def strided_copy(w: Writer, dst: Value, src: Value, axes: Sequence[Axis], item: int) -> None:
    """All elements, in order."""
    left = collapsed(axes)
    size: Int = item
    if left and left[-1].dst == 1 and left[-1].src == 1:
        size = w.mul(left.pop().extent, item)
    _copy(w, dst, src, left, size, item)


def _copy(w: Writer, dst: Value, src: Value, axes: Sequence[Axis], size: Int, item: int) -> None:
    if len(axes) > 2:
        outer = axes[0]
        with w.loop(0, outer.extent) as i:
            there = w.at(dst, w.mul(i, w.mul(outer.dst, item)))
            here = w.at(src, w.mul(i, w.mul(outer.src, item)))
            _copy(w, there, here, axes[1:], size, item)
        return
    steps = [(w.mul(a.dst, item), w.mul(a.src, item), a.extent) for a in axes]
    if not steps:
        w.copy(dst, src, size)
    elif len(steps) == 1:
        w.copy2(dst, src, size, *steps[0])
    else:
        w.copy3(dst, src, size, steps[1], steps[0])


def shared_copy(w: Writer, dst: Value, src: Value, axes: Sequence[Axis], item: int) -> None:
    """The same by all cores together: the longest axis is divided among them."""
    if w.cores == 1:
        strided_copy(w, dst, src, axes, item)
        return
    left = collapsed(axes)
    if not left:
        with w.first_core():
            strided_copy(w, dst, src, axes, item)
        return
    lengths = [a.extent for a in left]
    assert all(isinstance(n, int) for n in lengths)
    at = max(range(len(left)), key=lambda place: (lengths[place], -place))
    axis = left[at]
    grain = 64 if at == len(left) - 1 else 1  # a run is cut at whole bursts
    pieces = -(-int(axis.extent) // grain)  # type: ignore[arg-type]
    share = -(-pieces // w.cores) * grain
    begin = w.mul(w.task(), share)
    with w.when(w.compare("lt", begin, axis.extent)):
        count = w.least(share, w.sub(axis.extent, begin))
        there = w.at(dst, w.mul(begin, w.mul(axis.dst, item)))
        here = w.at(src, w.mul(begin, w.mul(axis.src, item)))
        strided_copy(w, there, here, [*left[:at], Axis(count, axis.dst, axis.src), *left[at + 1 :]], item)
