"""Moves of data: broadcast, transpose, slice, pad, concatenate, reverse, windows at places read from memory.

Enters: an equation's shapes and attributes as plain numbers. Leaves: a function of one pointer per operand
and result. Everything is strided copies from device memory to device memory; a transpose of the last axis
goes through NRAM in squares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from trilobite.compiler.targets.dlp.interfaces import LoweredGroup
from trilobite.compiler.targets.dlp.kernels.passes import row_strides
from trilobite.compiler.targets.dlp.kernels.picked import is_picked, write_picked
from trilobite.compiler.targets.dlp.kernels.strided import Axis, collapsed, shared_copy, strided_copy
from trilobite.compiler.targets.dlp.vector.formats import WORDS
from trilobite.compiler.targets.dlp.writer import GDRAM, Int, Writer, nram_room
from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.ir import Constant, KernelModule, Value
from trilobite.processor.machine import Machine

Shape = Sequence[int]
SHORT = 1024  # bytes of a row, up to which rows of short pieces are put together in NRAM
LEAST = 1024  # elements along the source, below which a tile is not cut for the sake of more cores


class Moves:
    """One function of moves while it is written."""

    def __init__(
        self, module: KernelModule, name: str, pointers: int, machine: Machine, cores: int, item: int
    ) -> None:
        self.w = Writer(module, name, [GDRAM] * pointers, machine, cores)
        self.name, self.item, self.machine = name, item, machine
        self.given: Sequence[Sequence[int]] = ()  # strides of the operands
        self.far: Sequence[int] = ()  # and of the result

    def done(self, why: str = "") -> LoweredGroup:
        self.w.finish()
        return LoweredGroup(self.name, "dma", mapping=why or "strided copies")

    def copy(self, dst: Value, src: Value, axes: Sequence[Axis]) -> None:
        """By all cores; squares through NRAM where the last axis of one is not that of the other.

        Axes come in the order of the result's memory: what is a run of both is a run of the copy in every
        layout."""
        axes = sorted(axes, key=lambda axis: -int(axis.dst))  # type: ignore[arg-type]
        left = collapsed(axes)
        if 0 in [a.extent for a in axes]:
            return
        pair = _turned(left)
        if pair is not None and self.item in WORDS:
            _through_nram(self.w, dst, src, left, pair, self.item)
        elif is_picked(left, self.item):
            write_picked(self.w, dst, src, left, self.item)
        else:
            shared_copy(self.w, dst, src, axes, self.item)

    def fill(self, dst: Value, count: int, fmt: Format, value: int | float) -> None:
        """A run of device memory with one number."""
        w = self.w
        step = min(count, (nram_room(self.machine) - 1024) // self.item)
        tile = w.buffer("fill", step * self.item)
        w.vector("VSET", fmt, tile, step, Constant(fmt, value))
        with w.shared_loop(-(-count // step)) as i:
            at = w.mul(i, step)
            size = step if count % step == 0 else w.least(step, w.sub(count, at))
            w.copy(w.at(dst, w.mul(at, self.item)), tile, w.mul(size, self.item))


def _turned(axes: Sequence[Axis]) -> tuple[int, int] | None:
    """The axes along which destination and source are contiguous, if they are not the same one."""
    dst = [i for i, a in enumerate(axes) if a.dst == 1]
    src = [i for i, a in enumerate(axes) if a.src == 1]
    if len(dst) != 1 or len(src) != 1 or dst == src:
        return None
    return dst[0], src[0]


def _square(source: int, goal: int, room: int) -> tuple[int, int]:
    """Sides of a tile of at most `room` elements: a square, or longer along one side where the other is short
    (pictures have three channels)."""
    across = min(source, max(16, int(room**0.5)))
    along = min(goal, max(1, room // across))
    return min(source, max(across, room // along)), along


def _through_nram(
    w: Writer, dst: Value, src: Value, axes: Sequence[Axis], pair: tuple[int, int], item: int
) -> None:
    """Squares [along source][along destination] are read by rows, turned, and written by rows."""
    d, s = axes[pair[0]], axes[pair[1]]
    assert isinstance(d.extent, int) and isinstance(s.extent, int)
    room = (nram_room(w.machine) - 1024) // (2 * item)
    across, along = _square(s.extent, d.extent, room)
    others = [axis for i, axis in enumerate(axes) if i not in pair]
    counts = [int(o.extent) for o in others]  # type: ignore[arg-type]
    while prod(counts) * -(-s.extent // across) * -(-d.extent // along) < w.cores and across > LEAST:
        across = -(-across // 2)
    a, b = w.buffer("turn", across * along * item), w.buffer("turned", across * along * item)
    rows, columns = -(-d.extent // along), -(-s.extent // across)
    with w.shared_loop(prod(counts) * rows * columns) as number:
        piece, rest = w.rem(number, rows * columns), w.div(number, rows * columns)
        i, j = w.mul(w.div(piece, columns), along), w.mul(w.rem(piece, columns), across)
        here, there = w.add(w.mul(i, d.src), j), w.add(i, w.mul(j, s.dst))
        for axis, n in zip(reversed(others), reversed(counts), strict=True):
            at, rest = w.rem(rest, n), w.div(rest, n)
            here, there = w.add(here, w.mul(at, axis.src)), w.add(there, w.mul(at, axis.dst))
        m, n2 = w.least(along, w.sub(d.extent, i)), w.least(across, w.sub(s.extent, j))
        strided_copy(w, a, w.at(src, w.mul(here, item)), [Axis(m, n2, d.src), Axis(n2, 1, 1)], item)
        w.vector("VTRANS", WORDS[item], b, a, 1, m, n2)
        strided_copy(w, w.at(dst, w.mul(there, item)), b, [Axis(n2, s.dst, m), Axis(m, 1, 1)], item)


# -- moves whose places are known ----------------------------------------------------------------------------

Make = Callable[[Moves, Sequence[Shape], Shape, dict[str, object]], None]


def broadcast(m: Moves, shapes: Sequence[Shape], out: Shape, axes: Sequence[int]) -> None:
    (shape,) = shapes
    own, steps = m.given[0], [0] * len(out)
    for axis, size, stride in zip(axes, shape, own, strict=True):
        steps[axis] = stride if size == out[axis] else 0
    x, y = m.w.params
    m.copy(y, x, [Axis(n, d, s) for n, d, s in zip(out, m.far, steps, strict=True)])


def transpose(m: Moves, shapes: Sequence[Shape], out: Shape, axes: Sequence[int]) -> None:
    own = m.given[0]
    x, y = m.w.params
    m.copy(y, x, [Axis(n, d, own[a]) for n, d, a in zip(out, m.far, axes, strict=True)])


def reverse(m: Moves, shapes: Sequence[Shape], out: Shape, axes: Sequence[int]) -> None:
    own = m.given[0]
    start = sum((out[a] - 1) * own[a] for a in axes)
    x, y = m.w.params
    signs = [-s if a in axes else s for a, s in enumerate(own)]
    m.copy(y, m.w.at(x, start * m.item), [Axis(*t) for t in zip(out, m.far, signs, strict=True)])


def slice_(m: Moves, shapes: Sequence[Shape], out: Shape, start: Shape, step: Shape) -> None:
    own = m.given[0]
    x, y = m.w.params
    begin = sum(a * s for a, s in zip(start, own, strict=True))
    steps = [a * s for a, s in zip(step, own, strict=True)]
    m.copy(y, m.w.at(x, begin * m.item), [Axis(*t) for t in zip(out, m.far, steps, strict=True)])


def update_slice(m: Moves, shapes: Sequence[Shape], out: Shape, start: Shape, step: Shape) -> None:
    part, own = shapes[1], m.far
    x, y, result = m.w.params
    m.copy(result, x, [Axis(prod(out), 1, 1)])
    between(m)
    begin = sum(a * s for a, s in zip(start, own, strict=True))
    steps = [a * s for a, s in zip(step, own, strict=True)]
    axes = [Axis(*t) for t in zip(part, steps, m.given[1], strict=True)]
    m.copy(m.w.at(result, begin * m.item), y, axes)


def pad(
    m: Moves,
    shapes: Sequence[Shape],
    out: Shape,
    low: Shape,
    between_: Shape,
    fill: tuple[Format, int | float],
) -> None:
    (shape,) = shapes
    x, y = m.w.params
    m.fill(y, prod(out), *fill)
    own, far = m.given[0], m.far
    extents, here, there = [], 0, 0
    for axis, (n, lo, gap) in enumerate(zip(shape, low, between_, strict=True)):
        step = gap + 1
        first = 0 if lo >= 0 else -(lo // step)
        last = min(n, (out[axis] - lo + gap) // step)
        extents.append(max(last - first, 0))
        here += first * own[axis]
        there += (lo + first * step) * far[axis]
    if 0 in extents:
        return
    between(m)
    steps = [f * (gap + 1) for f, gap in zip(far, between_, strict=True)]
    axes = [Axis(*t) for t in zip(extents, steps, own, strict=True)]
    m.copy(m.w.at(y, there * m.item), m.w.at(x, here * m.item), axes)


def concatenate(m: Moves, shapes: Sequence[Shape], out: Shape, axis: int) -> None:
    widths = [prod(shape[axis:]) for shape in shapes]
    if _is_short(m, shapes, out, widths):
        _joined_rows(m, prod(out[:axis]), widths)
        return
    far, at = m.far, 0
    *operands, y = m.w.params
    for x, shape, own in zip(operands, shapes, m.given, strict=True):
        axes = [Axis(*t) for t in zip(shape, far, own, strict=True)]
        m.copy(m.w.at(y, at * far[axis] * m.item), x, axes)
        at += shape[axis]


def _is_short(m: Moves, shapes: Sequence[Shape], out: Shape, widths: Sequence[int]) -> bool:
    """Do rows of the result consist of pieces shorter than what DRAM writes at once?"""
    plain = list(m.far) == list(row_strides(out)) and all(
        list(own) == list(row_strides(shape)) for own, shape in zip(m.given, shapes, strict=True)
    )
    row = sum(widths) * m.item
    return plain and 0 not in out and row <= SHORT and min(widths) * m.item < m.machine.dram.granule_bytes


def _joined_rows(m: Moves, rows: int, widths: Sequence[int]) -> None:
    """Tiles of whole rows are put together in NRAM, and written as runs (the parts of complex numbers, or
    coordinates that are stacked along the last axis)."""
    w, total = m.w, sum(widths)
    *operands, y = w.params
    most = (nram_room(m.machine) - 1024) // (total * m.item)
    step = max(1, min(most, -(-rows // w.cores)))
    tile = w.buffer("rows", step * total * m.item)
    with w.shared_loop(-(-rows // step)) as i:
        first = w.mul(i, step)
        count = step if rows % step == 0 else w.least(step, w.sub(rows, first))
        at = 0
        for x, width in zip(operands, widths, strict=True):
            piece = [Axis(count, total, width), Axis(width, 1, 1)]
            strided_copy(w, w.at(tile, at * m.item), w.at(x, w.mul(first, width * m.item)), piece, m.item)
            at += width
        w.copy(w.at(y, w.mul(first, total * m.item)), tile, w.mul(count, total * m.item))


def between(m: Moves) -> None:
    """What one core has written, another may overwrite behind this."""
    if m.w.cores > 1:
        m.w.b.barrier("chip", "ipu")


# -- windows at places that a run decides --------------------------------------------------------------------


def _offset(m: Moves, starts: Sequence[Value], fmts: Sequence[Format], shape: Shape, window: Shape) -> Int:
    """Bytes to the window whose starts are read from device memory, moved so that it lies inside."""
    w = m.w
    total: Int = 0
    for pointer, fmt, n, size, stride in zip(starts, fmts, shape, window, row_strides(shape), strict=True):
        start: Value = w.load(fmt, pointer)
        if fmt is not I64:
            start = w.b.convert(start, I64)
        inside = w.most(0, w.least(start, n - size))
        total = w.add(total, w.mul(inside, stride * m.item))
    return total


def dynamic_slice(m: Moves, shapes: Sequence[Shape], out: Shape, fmts: Sequence[Format]) -> None:
    w, own = m.w, row_strides(shapes[0])
    x, *starts, y = w.params
    here = w.at(x, _offset(m, starts, fmts, shapes[0], out))
    m.copy(y, here, [Axis(*t) for t in zip(out, row_strides(out), own, strict=True)])


def dynamic_update(m: Moves, shapes: Sequence[Shape], out: Shape, fmts: Sequence[Format]) -> None:
    w, own, part = m.w, row_strides(out), shapes[1]
    x, y, *starts, result = w.params
    there = w.at(result, _offset(m, starts, fmts, out, part))
    m.copy(result, x, [Axis(prod(out), 1, 1)])
    between(m)
    m.copy(there, y, [Axis(*t) for t in zip(part, own, row_strides(part), strict=True)])
