"""Activations as the words that integer convolutions read: bytes filled up to fours, or 16-bit numbers.

Enters: a source of bytes, [positions, groups · depth]. Leaves: the step that writes, for every position and
group, `quads` fours: of bytes if the weight is of form 1, of 16-bit numbers if of form 2. Where the depth is
a multiple of four, form 1 reads the source itself and this step does nothing. Lines may get positions of
`zero` before and after them, so that a row of taps is one run of memory.
"""

from __future__ import annotations

from functools import lru_cache

from trilobite.base.dtypes import DType, uint8, uint16
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Operand, Step
from trilobite.compiler.targets.cpu.contraction.runs import copy_run, fill_run, zero_run
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.types import Dim
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import memory_type, vector


@dataclass(frozen=True)
class _Words(Words[W]):
    x: W
    w: W
    out: W
    positions: W
    each: W
    groups: W
    depth: W
    zero: W
    low: W
    high: W


def rows_step(
    host: Host, buffers: tuple[Operand, Operand, Operand], positions: Dim, each: int, units: Dim,
    groups: int, depth: int, zero: int, margin: tuple[int, int],
) -> Step:  # fmt: skip
    """`buffers`: the source, the weight, where words go. A unit is `each` positions; the last one may be
    short. `margin`: positions of `zero` before and after those of a unit, of one group.
    """
    words: _Words[Content] = _Words(*buffers, positions, each, groups, depth, zero, *margin)
    few = depth if depth < 4 else 0
    return Step(_kernel(host, depth % 4 == 0, few, forms(words)), contents(words), units)


@lru_cache(maxsize=64)
def _kernel(host: Host, aligned: bool, few: int, words: _Words[Form]) -> NativeKernel:
    """`few`: the depth, if it is less than a word."""
    t = Text(host)
    w: _Words[Value] = read(t, words)
    bytes = t.icmp("eq", t.load_type("i32", w.w), 1)

    lanes = host.vector_bytes // 2

    def write(kept: DType) -> None:
        size = kept.itemsize
        with t.loop(t.begin, t.end, name="unit") as unit:
            first = t.mul(unit.index, w.each)
            count = t.smin(t.sub(w.positions, first), w.each)
            lines, first = t.mul(count, w.groups), t.mul(first, w.groups)
            source = t.address(w.x, t.mul(first, w.depth))
            if aligned:
                target = t.address(w.out, t.mul(t.mul(first, w.depth), size))
                copy_run(t, (uint8, kept), source, target, t.mul(lines, w.depth), lanes)
                return
            whole = t.mul(t.ceil_div(w.depth, 4), 4)
            row = t.mul(whole, size)
            around = t.mul(unit.index, t.add(w.low, w.high))
            begin = t.address(w.out, t.mul(t.add(first, around), row))
            middle = t.address(begin, t.mul(w.low, row))
            whole_lines = _fill_up(t, few, kept, source, middle, lines) if few else t.constant("i64", 0)
            with t.loop(whole_lines, lines, name="line") as line:
                here = t.address(source, t.mul(line.index, w.depth))
                target = t.address(middle, t.mul(line.index, row))
                copy_run(t, (uint8, kept), here, target, w.depth, lanes)
                zero_run(t, kept, t.address(target, t.mul(w.depth, size)), t.sub(whole, w.depth))
            zero = t.convert("trunc", w.zero, memory_type(kept))
            fill_run(t, kept, zero, begin, t.mul(w.low, whole))
            fill_run(t, kept, zero, t.address(middle, t.mul(lines, row)), t.mul(w.high, whole))

    with t.when(t.not_(bytes)):
        write(uint16)
    if not aligned:
        with t.when(bytes):
            write(uint8)
    return NativeKernel("conv_integer_rows", t.module())


def _fill_up(t: Text, depth: int, kept: DType, source: Value, target: Value, lines: Value) -> Value:
    """Lines of one word, several at once: where vectors are read, zeros go between. How many were written."""
    at_once = t.host.vector_bytes // 4
    whole = t.and_(lines, -at_once)
    order = [n * depth + i if i < depth else at_once * depth for n in range(at_once) for i in range(4)]
    with t.loop(0, whole, at_once, name="words") as line:
        read = t.load_type(vector("i8", at_once * depth), t.address(source, t.mul(line.index, depth)), 1)
        filled = t.shuffle(read, t.constant(read.type, 0), order)
        wide = t.convert("zext", filled, "i16") if kept == uint16 else filled
        t.store_type(wide, t.address(target, t.mul(line.index, 4 * kept.itemsize)), 1)
    return whole
