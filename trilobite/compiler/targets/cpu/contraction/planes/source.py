"""A source of planes with zeros around it, its lines cut by the stride: then every tap of consecutive pixels
is one run of memory.

Enters: dtypes, rank and the stride of the last axis. Leaves: the text of one kernel for every size. A unit is
a line of the copy: elements 0, s, 2s, ... of the line between its zeros, then 1, s+1, ..., each as long as
whole vectors. Bits stay as they are.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType
from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.margin import copy_run
from trilobite.compiler.targets.cpu.contraction.words import Words, read_words
from trilobite.compiler.targets.cpu.emit.text import Text, Value
from trilobite.compiler.targets.cpu.emit.types import memory_type
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.types import Dim
from trilobite.native.host import Host


def source_step(
    host: Host, dtype: DType, source: Operand, target: Operand, planes: Dim, axes: list[tuple[int, int, int]],
    stride: int, length: int,
) -> Step:  # fmt: skip
    """Copy `planes` planes. `axes`: extents of the source and of the copy, and zeros before, of each axis;
    `length`: of each of the `stride` parts of a line.
    """
    words = Words()
    words.add("x", source)
    words.add("out", target)
    words.add("length", length)
    lines = planes
    for i, (extent, whole, low) in enumerate(axes):
        for name, value in (("extent", extent), ("whole", whole), ("low", low)):
            words.add(f"{name}{i}", value)
        lines = lines * (whole if i + 1 < len(axes) else 1)
    kernel = _kernel(host, dtype, len(axes), stride, tuple(words.names), length)
    return Step(kernel, tuple(words.contents), lines)


@lru_cache(maxsize=64)
def _kernel(
    host: Host, dtype: DType, rank: int, stride: int, names: tuple[str, ...], length: int
) -> NativeKernel:
    scratch = stride * length * dtype.itemsize if stride > 1 else 0
    return NativeKernel("conv_planes_source", _text(host, dtype, rank, stride, names), scratch=scratch)


@lru_cache(maxsize=64)
def _text(host: Host, dtype: DType, rank: int, stride: int, names: tuple[str, ...]) -> str:
    t = Text(host)
    w = read_words(t, names)
    lanes = host.lanes(dtype.itemsize)
    line = t.mul(w["length"], stride)
    with t.loop(t.begin, t.end, name="line") as unit:
        source, inside = _line(t, w, dtype, rank, unit.index)
        target = t.address(w["out"], t.mul(unit.index, line), dtype)

        def copied(target: Value = target, source: Value = source) -> None:
            whole = target if stride == 1 else t.scratch
            _padded(t, w, dtype, rank - 1, source, whole, line, lanes)
            if stride > 1:
                _parted(t, dtype, whole, target, w["length"], stride, lanes)

        def outside(target: Value = target) -> None:
            _zeros(t, dtype, target, t.constant("i64", 0), line, lanes)

        t.either(inside, copied, outside)
    return t.module()


def _line(t: Text, w: dict[str, Value], dtype: DType, rank: int, unit: Value) -> tuple[Value, Value]:
    """Where the line of the source begins that a unit copies, and whether there is one."""
    inside, rest, at, size = t.constant("i1", 1), unit, t.constant("i64", 0), w[f"extent{rank - 1}"]
    for a in reversed(range(rank - 1)):
        place = t.sub(t.urem(rest, w[f"whole{a}"]), w[f"low{a}"])
        rest = t.udiv(rest, w[f"whole{a}"])
        inside = t.and_(inside, t.icmp("ult", place, w[f"extent{a}"]))
        at, size = t.add(at, t.mul(place, size)), t.mul(size, w[f"extent{a}"])
    return t.address(w["x"], t.add(at, t.mul(rest, size)), dtype), inside


def _padded(
    t: Text, w: dict[str, Value], dtype: DType, axis: int, source: Value, target: Value, line: Value,
    lanes: int,
) -> None:  # fmt: skip
    """The line between zeros; a negative `low` leaves elements out, and so does a line that is too short.
    Lines are whole vectors, and zeros are written before the elements that take their places.
    """
    low = w[f"low{axis}"]
    before, out = t.smin(t.smax(low, 0), line), t.smax(t.sub(0, low), 0)
    count = t.smax(t.smin(t.sub(w[f"extent{axis}"], out), t.sub(line, before)), 0)
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
