"""Weights of bytes in words: the lowering of `conv_integer_panels`.

Enters: the equation. Leaves: two steps. The first notes for every panel whether its neighbours are small
enough for bytes; the second reads all notes and writes the panels in the form that fits the whole weight. A
unit is a panel. The value is the same, bit for bit, as the primitive's rule gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

from trilobite.base.dtypes import DType, int32, is_unsigned
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.direct.panels import WeightWords
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.compiler.targets.cpu.primitives.conv_integer import HEADER, ONES, panel_words
from trilobite.ir.graph import Equation
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value


@dataclass(frozen=True)
class _Words(Words[W]):
    weight: WeightWords[W]
    fits: W  # of every panel the largest sum of neighbours
    all: W  # panels of all groups
    zero: W
    sizes: tuple[W, ...]  # of a panel in each form


def lower_integer_panels(e: Equation, host: Host) -> Lowering:
    w, a = e.inputs[0].type, e.attributes
    lanes, groups, transposed = a["lanes"], a["groups"], a["transposed"]
    filters, depth = (int(n) for n in (w.shape[1::-1] if transposed else w.shape[:2]))
    taps = math.prod(int(n) for n in w.shape[2:])
    columns = filters // groups
    panels = -(-columns // lanes)
    weight: WeightWords[Content] = WeightWords(
        Operand("in", 0), Operand("out", 0), panels, columns, depth, taps, columns * depth * taps,
        1 if transposed else depth * taps, filters if transposed else taps,
    )  # fmt: skip
    sizes = tuple(panel_words(depth, taps, lanes, form) for form in (1, 2))
    words: _Words[Content] = _Words(weight, Operand("temporary", 0), groups * panels, a["zero"], sizes)
    kinds, args = forms(words), contents(words)
    units = groups * panels
    check = Step(_check_kernel(host, w.dtype, lanes, a["limit"], kinds), args, units)
    write = Step(_write_kernel(host, w.dtype, lanes, a["limit"], kinds), args, max(units, 1))
    why = f"a weight of bytes in words, panels of {lanes} columns"
    return Lowering((check, write), (max(4 * units, 4),), why=why)


class Columns:
    """The numbers of one lane of one panel, zeros where the weight has none."""

    def __init__(self, t: Text, w: WeightWords[Value], dtype: DType, unit: Value, lane: Value, lanes: int):
        self.t, self.w, self.dtype = t, w, dtype
        group, panel = t.udiv(unit, w.panels), t.urem(unit, w.panels)
        column = t.add(t.mul(panel, lanes), lane)
        self.real = t.icmp("slt", column, w.columns)
        near = t.smin(column, t.sub(w.columns, 1))
        start = t.add(t.mul(group, w.group), t.mul(near, w.column_stride))
        self.source = t.address(w.w, start, dtype)

    def four(self, tap: Value, channel: Value) -> list[Value]:
        """Four channels from `channel` on, as i32."""
        t, w = self.t, self.w
        out = []
        for i in range(4):
            at = t.add(channel, i)
            near = t.smin(at, t.sub(w.depth, 1))
            place = t.add(t.mul(near, w.depth_stride), tap)
            value = t.load(self.dtype, t.address(self.source, place, self.dtype))
            wide = t.convert("zext" if is_unsigned(self.dtype) else "sext", value, "i32")
            exists = t.and_(self.real, t.icmp("slt", at, w.depth))
            out.append(t.select(exists, wide, t.constant("i32", 0)))
        return out

    def each(self, carried: Value, body: Callable[[Value, Value, list[Value], Value], Value]) -> Value:
        """All fours, tap by tap, with one value from each to the next; body(tap, channel, four, value)."""
        t, w = self.t, self.w
        with t.loop(0, w.taps, carried=[carried], name="tap") as tap:
            with t.loop(0, w.depth, 4, carried=tap.values, name="channel") as channel:
                four = self.four(tap.index, channel.index)
                channel.next(body(tap.index, channel.index, four, channel.values[0]))
            tap.next(*channel.results)
        return tap.results[0]


@lru_cache(maxsize=64)
def _check_kernel(host: Host, dtype: DType, lanes: int, limit: int, words: _Words[Form]) -> NativeKernel:
    t = Text(host)
    w: _Words[Value] = read(t, words)

    def worst(tap: Value, channel: Value, four: list[Value], so_far: Value) -> Value:
        sizes = [t.smax(v, t.sub(t.constant("i32", 0), v)) for v in four]
        for a, b in (sizes[:2], sizes[2:]):
            so_far = t.smax(so_far, t.add(a, b))
        for v in four if is_unsigned(dtype) else ():
            no_signed_byte = t.icmp("sgt", v, 127)
            so_far = t.smax(so_far, t.select(no_signed_byte, t.constant("i32", limit + 1), 0))
        return so_far

    with t.loop(t.begin, t.end, name="panel") as unit:
        start = t.constant("i32", 0 if limit else 1)
        with t.loop(0, lanes if limit else 0, carried=[start], name="lane") as lane:
            columns = Columns(t, w.weight, dtype, unit.index, lane.index, lanes)
            lane.next(columns.each(lane.values[0], worst))
        t.store_type(lane.results[0], t.address(w.fits, unit.index, int32))
    return NativeKernel("conv_integer_check", t.module())


@lru_cache(maxsize=64)
def _write_kernel(host: Host, dtype: DType, lanes: int, limit: int, words: _Words[Form]) -> NativeKernel:
    t = Text(host)
    w: _Words[Value] = read(t, words)
    with t.loop(0, w.all, carried=[t.constant("i32", 0)], name="note") as note:
        mine = t.load_type("i32", t.address(w.fits, note.index, int32))
        note.next(t.smax(note.values[0], mine))
    bytes = t.icmp("sle", note.results[0], limit)
    with t.when(t.icmp("eq", t.begin, 0)):
        header(t, w.weight.out, t.select(bytes, t.constant("i32", 1), t.constant("i32", 2)))
    with t.loop(t.begin, t.smin(t.end, w.all), name="panel") as unit:
        t.either(
            bytes,
            lambda: _panel(t, w, dtype, unit.index, lanes, 1),
            lambda: _panel(t, w, dtype, unit.index, lanes, 2),
        )
    return NativeKernel("conv_integer_panels", t.module())


def header(t: Text, out: Value, form: Value) -> None:
    """The words before the first panel."""
    t.store_type(form, out)
    for i in range(1, HEADER):
        t.store_type(t.constant("i32", ONES), t.address(out, i, int32))


def _panel(t: Text, w: _Words[Value], dtype: DType, unit: Value, lanes: int, form: int) -> None:
    out = t.address(w.weight.out, HEADER, int32)
    target = t.address(out, t.mul(unit, w.sizes[form - 1]), int32)
    rows = t.mul(t.ceil_div(w.weight.depth, 4), form)

    def word(four: list[Value], low: int, mask: int, bits: int) -> Value:
        found = t.and_(four[low], mask)
        for i in range(1, 32 // bits):
            found = t.or_(found, t.shl(t.and_(four[low + i], mask), i * bits))
        return found

    with t.loop(0, lanes, name="lane") as lane:

        def write(tap: Value, channel: Value, four: list[Value], so_far: Value) -> Value:
            row = t.add(t.mul(t.udiv(channel, 4), form), t.mul(tap, rows))
            at = t.add(t.mul(t.add(row, 1), lanes), lane.index)
            if form == 1:
                t.store_type(word(four, 0, 255, 8), t.address(target, at, int32))
            else:
                for half in range(2):
                    place = t.address(target, t.add(at, half * lanes), int32)
                    t.store_type(word(four, 2 * half, 65535, 16), place)
            for v in four:
                so_far = t.add(so_far, v)
            return so_far

        columns = Columns(t, w.weight, dtype, unit, lane.index, lanes)
        total = columns.each(t.constant("i32", 0), write)
        zero = t.sub(t.constant("i32", 0), t.convert("trunc", w.zero, "i32"))
        t.store_type(t.mul(total, zero), t.address(target, lane.index, int32))
    if form == 1:  # what the larger form would have taken
        spare = t.sub(w.sizes[1], w.sizes[0])
        rest = t.address(out, t.add(t.mul(w.all, w.sizes[0]), t.mul(unit, spare)), int32)
        with t.loop(0, spare, name="spare") as i:
            t.store_type(t.constant("i32", 0), t.address(rest, i.index, int32))
