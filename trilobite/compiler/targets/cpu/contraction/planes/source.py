"""A source of planes with zeros around it, its lines cut by the stride: then every tap of consecutive pixels
is one run of memory.

Enters: dtypes, rank and the stride of the last axis. Leaves: the text of one kernel for every size. A unit is
a line of the copy: elements 0, s, 2s, ... of the line between its zeros, then 1, s+1, ..., each as long as
whole vectors. Bits stay as they are.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.runs import copy_run
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.types import Dim
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import memory_type


@dataclass(frozen=True)
class _AxisWords(Words[W]):
    """Extents of the source and of the copy, and zeros before."""

    extent: W
    whole: W
    low: W


@dataclass(frozen=True)
class _Words(Words[W]):
    x: W
    out: W
    length: W
    axes: tuple[_AxisWords[W], ...]


def source_step(
    host: Host, dtype: DType, source: Operand, target: Operand, planes: Dim, axes: list[tuple[int, int, int]],
    stride: int, length: int,
) -> Step:  # fmt: skip
    """Copy `planes` planes. `axes`: extents of the source and of the copy, and zeros before, of each axis;
    `length`: of each of the `stride` parts of a line.
    """
    words: _Words[Content] = _Words(source, target, length, tuple(_AxisWords(*axis) for axis in axes))
    lines = planes
    for _, whole, _ in axes[:-1]:
        lines = lines * whole
    return Step(_kernel(host, dtype, stride, forms(words), length), contents(words), lines)


@lru_cache(maxsize=64)
def _kernel(host: Host, dtype: DType, stride: int, words: _Words[Form], length: int) -> NativeKernel:
    scratch = stride * length * dtype.itemsize if stride > 1 else 0
    return NativeKernel("conv_planes_source", _text(host, dtype, stride, words), scratch=scratch)


@lru_cache(maxsize=64)
def _text(host: Host, dtype: DType, stride: int, words: _Words[Form]) -> str:
    t = Text(host)
    w: _Words[Value] = read(t, words)
    lanes = host.lanes(dtype.itemsize)
    line = t.mul(w.length, stride)
    with t.loop(t.begin, t.end, name="line") as unit:
        source, inside = _line(t, w, dtype, unit.index)
        target = t.address(w.out, t.mul(unit.index, line), dtype)

        def copied(target: Value = target, source: Value = source) -> None:
            whole = target if stride == 1 else t.scratch
            _padded(t, w.axes[-1], dtype, source, whole, line, lanes)
            if stride > 1:
                _parted(t, dtype, whole, target, w.length, stride, lanes)

        def outside(target: Value = target) -> None:
            _zeros(t, dtype, target, t.constant("i64", 0), line, lanes)

        t.either(inside, copied, outside)
    return t.module()


def _line(t: Text, w: _Words[Value], dtype: DType, unit: Value) -> tuple[Value, Value]:
    """Where the line of the source begins that a unit copies, and whether there is one."""
    inside, rest, at, size = t.constant("i1", 1), unit, t.constant("i64", 0), w.axes[-1].extent
    for axis in reversed(w.axes[:-1]):
        place = t.sub(t.urem(rest, axis.whole), axis.low)
        rest = t.udiv(rest, axis.whole)
        inside = t.and_(inside, t.icmp("ult", place, axis.extent))
        at, size = t.add(at, t.mul(place, size)), t.mul(size, axis.extent)
    return t.address(w.x, t.add(at, t.mul(rest, size)), dtype), inside


def _padded(
    t: Text, axis: _AxisWords[Value], dtype: DType, source: Value, target: Value, line: Value, lanes: int
) -> None:  # fmt: skip
    """The line between zeros; a negative `low` leaves elements out, and so does a line that is too short.
    Lines are whole vectors, and zeros are written before the elements that take their places.
    """
    before, out = t.smin(t.smax(axis.low, 0), line), t.smax(t.sub(0, axis.low), 0)
    count = t.smax(t.smin(t.sub(axis.extent, out), t.sub(line, before)), 0)
    after = t.sub(line, t.add(before, count))
    end = t.sub(line, t.and_(t.add(after, lanes - 1), -lanes))
    _zeros(t, dtype, target, t.constant("i64", 0), before, lanes)
    _zeros(t, dtype, target, end, line, lanes)
    middle = t.address(target, before, dtype)
    copy_run(t, (dtype, dtype), t.address(source, out, dtype), middle, count, lanes)


def _zeros(t: Text, dtype: DType, target: Value, first: Value, last: Value, lanes: int) -> None:
    """Whole vectors from element `first` on, until `last` is reached."""
    zero = t.constant(memory_type(dtype, lanes), 0)
    with t.loop(first, last, lanes, name="zero") as i:
        t.store_type(zero, t.address(target, i.index, dtype))


def _parted(
    t: Text, dtype: DType, source: Value, target: Value, length: Value, stride: int, lanes: int
) -> None:
    with t.loop(0, length, lanes, name="part") as i:
        first = t.address(source, t.mul(i.index, stride), dtype)
        to = t.address(target, i.index, dtype)
        for phase, value in enumerate(_phases(t, dtype, first, stride, lanes)):
            t.store(dtype, value, t.address(to, t.mul(length, phase), dtype))


def _phases(t: Text, dtype: DType, first: Value, stride: int, lanes: int) -> list[Value]:
    """`stride` vectors: of elements 0, stride, ..., of elements 1, stride + 1, ..., and so on."""
    if stride == 2:
        a, b = (t.load(dtype, t.address(first, i * lanes, dtype), lanes) for i in range(2))
        return [t.shuffle(a, b, range(phase, 2 * lanes, 2)) for phase in range(2)]
    starts = [t.address(first, phase, dtype) for phase in range(stride)]
    return [t.load_strided(dtype, start, stride, lanes) for start in starts]
