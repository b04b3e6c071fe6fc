"""Cutting a weight into panels: the lowering of `conv_panels`.

Enters: the equation. Leaves: one step of one kernel for every size. A unit is a panel: for each row of
depth and each tap, one element of each of its columns, gathered into a vector. Bits are moved, never
converted.
"""

from __future__ import annotations

import math
from functools import lru_cache

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.words import Content, Form, W, Words, contents, forms, read
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import memory_type

_GATHERED = 16  # lanes collected at once


@dataclass(frozen=True)
class WeightWords(Words[W]):
    """A weight that is cut into panels, and where they go; strides in elements."""

    w: W
    out: W
    panels: W
    columns: W
    depth: W
    taps: W
    group: W
    column_stride: W
    depth_stride: W


def lower_panels(e: Equation, host: Host) -> Lowering:
    w, out = e.inputs[0].type, e.outputs[0].type
    filters, channels, *kernel = (int(n) for n in w.shape)
    groups, lanes, taps = e.attributes["groups"], e.attributes["lanes"], math.prod(kernel)
    each = filters // groups
    strides = (taps, channels * taps) if e.attributes["transposed"] else (channels * taps, taps)
    columns, depth = (channels, each) if e.attributes["transposed"] else (each, channels)
    words: WeightWords[Content] = WeightWords(
        Operand("in", 0), Operand("out", 0), int(out.shape[1]), columns, depth, taps,
        each * channels * taps, *strides,
    )  # fmt: skip
    units = groups * int(out.shape[1])
    if not depth * taps * columns:
        units = 0
    step = Step(_kernel(host, w.dtype, lanes, forms(words)), contents(words), units)
    return Lowering((step,), why=f"a weight cut into panels of {lanes} columns")


@lru_cache(maxsize=64)
def _kernel(host: Host, dtype: DType, lanes: int, words: WeightWords[Form]) -> NativeKernel:
    t = Text(host)
    w: WeightWords[Value] = read(t, words)
    with t.loop(t.begin, t.end, name="panel") as unit:
        group, panel = t.udiv(unit.index, w.panels), t.urem(unit.index, w.panels)
        source = t.address(w.w, t.mul(group, w.group), dtype)
        size = t.mul(t.mul(w.depth, w.taps), lanes)
        target = t.address(w.out, t.mul(unit.index, size), dtype)
        for start in range(0, lanes, _GATHERED):
            _columns(t, w, dtype, source, t.add(t.mul(panel, lanes), start), target, start, lanes)
    return NativeKernel("conv_panels", t.module())


def _columns(
    t: Text,
    w: WeightWords[Value],
    dtype: DType,
    source: Value,
    first: Value,
    target: Value,
    start: int,
    lanes: int,
) -> None:
    """Up to 16 lanes of a panel, from lane `start` on. Columns that do not exist are read from the last and
    replaced by zeros.
    """
    count = min(_GATHERED, lanes - start)
    last = t.sub(w.columns, 1)
    zero = t.constant(memory_type(dtype), 0)
    columns = [t.add(first, i) for i in range(count)]
    real = [t.icmp("sle", c, last) for c in columns]
    begins = [t.address(source, t.mul(t.smin(c, last), w.column_stride), dtype) for c in columns]
    with t.loop(0, w.depth, name="depth") as d:
        row = t.mul(d.index, w.depth_stride)
        with t.loop(0, w.taps, name="tap") as tap:
            at = t.add(row, tap.index)
            out = Value("poison", memory_type(dtype, count))
            for i in range(count):
                one = t.load_type(memory_type(dtype), t.address(begins[i], at, dtype))
                out = t.insert(out, t.select(real[i], one, zero), i)
            line = t.add(t.mul(t.add(t.mul(tap.index, w.depth), d.index), lanes), start)
            t.store_type(out, t.address(target, line, dtype))
