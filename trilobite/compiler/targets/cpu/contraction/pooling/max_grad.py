"""The gradient of max pooling: y added where each window's largest element stands.

Enters: a `window_last_max_grad`. Leaves: one step of one kernel for every size. A unit is an image and a
vector of channels: it clears its part of the result, then goes through the windows in order, so that sums
of windows that overlap are added in that order. The first of equals wins, and NaN before all.
"""

from __future__ import annotations

import math
from functools import lru_cache, partial

import numpy as np

from trilobite.base.dtypes import DType
from trilobite.base.records import dataclass
from trilobite.compiler.program.kernels import Lowering, Operand, Step
from trilobite.compiler.targets.cpu.contraction.gather import Gather, table_bytes
from trilobite.compiler.targets.cpu.contraction.problem import Problem, window_problem
from trilobite.compiler.targets.cpu.contraction.runs import Vectors
from trilobite.compiler.targets.cpu.contraction.tables import axis_words, tables, tap_words
from trilobite.compiler.targets.cpu.contraction.words import (
    AxisWords,
    Content,
    Form,
    TapWords,
    W,
    Words,
    contents,
    forms,
    read,
)
from trilobite.compiler.targets.cpu.kernel import NativeKernel
from trilobite.ir.graph import Equation
from trilobite.ir.primitives.common import count
from trilobite.ir.types import Affine
from trilobite.native.host import Host
from trilobite.native.llvm.text import Text, Value
from trilobite.native.llvm.types import is_float_type, register_type, vector

_UNITS = 8


@dataclass(frozen=True)
class _Words(Words[W]):
    x: W
    y: W
    out: W
    tables: TapWords[W]
    runs: W
    run: W
    width: W
    clear: W
    windows: W
    taps: W
    image: W
    image_rows: W
    axes: tuple[AxisWords[W], ...]


def lower_max_grad(e: Equation, inputs: tuple[int, int], disjoint: bool, host: Host) -> Lowering:
    """`disjoint`: no element stands in two windows."""
    p = window_problem(Equation(e.primitive, e.inputs[:1], e.attributes, e.inputs[1:]))
    dtype, (part,) = e.inputs[0].type.dtype, p.parts or (None,)
    run = _run(p, _lanes(host, dtype))
    runs = -(-p.channels // run)
    plane = math.prod(p.source)
    windows, taps = (part.positions, part.tap_count) if part else (0, 0)
    words: _Words[Content] = _Words(
        Operand("in", inputs[0]), Operand("in", inputs[1]), Operand("out", 0),
        tap_words(0, 1), runs=runs, run=run, width=p.channels,
        clear=0 if disjoint and _covered(p) else plane, windows=windows, taps=taps,
        image=plane * p.channels, image_rows=windows, axes=axis_words(p, part) if part else (),
    )  # fmt: skip
    text = _text(host, dtype, disjoint, forms(words))
    work = 2.0 * count(p.batch) * p.channels * (plane + taps * windows)
    step = Step(
        NativeKernel("window_max_grad", text, scratch=table_bytes(1, taps)),
        contents(words),
        p.batch * runs,
        work,
    )
    found = tables(p, part, dtype.itemsize) if part else (np.zeros(4, np.int64),) * 2
    constants = (np.zeros(max(p.channels, 1), dtype), *found)
    return Lowering((step,), (), constants, why="each window's largest found again, in order of windows")


def _covered(p: Problem) -> bool:
    """Does every element of the plane stand in a window? Then each is written without being cleared."""
    return all(
        a.offsets[0] <= 0 and a.step == len(a.taps) and a.step * (a.count - 1) + a.offsets[-1] + 1 >= a.extent
        for part in p.parts
        for a in part.axes
        if a.taps
    ) and bool(p.parts)


def _run(p: Problem, lanes: int) -> int:
    """Channels of a unit: all of them, unless images alone are too few for all threads."""
    images = 1 if isinstance(p.batch, Affine) else max(int(p.batch), 1)
    runs = min(-(-_UNITS // images), -(-p.channels // (2 * lanes)))
    return max(-(-p.channels // max(runs, 1) // lanes) * lanes, lanes)


def _lanes(host: Host, dtype: DType) -> int:
    return host.lanes(max(dtype.itemsize, 4))


@lru_cache(maxsize=64)
def _text(host: Host, dtype: DType, disjoint: bool, words: _Words[Form]) -> str:
    return MaxGrad(host, dtype, disjoint, words).text()


class MaxGrad(Vectors):
    """Emits one kernel."""

    def __init__(self, host: Host, dtype: DType, disjoint: bool, words: _Words[Form]) -> None:
        super().__init__(Text(host), dtype, _lanes(host, dtype))
        self.words, self.disjoint = words, disjoint

    def text(self) -> str:
        t = self.t
        w: _Words[Value] = read(t, self.words)
        self.w, self.gather = w, Gather(t, w, self.dtype)
        with t.loop(t.begin, t.end, name="unit") as unit:
            self._unit(t.udiv(unit.index, w.runs), t.mul(t.urem(unit.index, w.runs), w.run))
        return t.module()

    def _unit(self, image: Value, first: Value) -> None:
        t, w = self.t, self.w
        last = t.smin(t.add(first, w.run), w.width)
        out = t.address(w.out, t.mul(image, w.image), self.dtype)
        with t.loop(0, w.clear, name="clear") as i:
            row = t.address(out, t.mul(i.index, w.width), self.dtype)
            self.each(last, partial(self._clear, row), first)
        begin = self.gather.coordinates(t.constant("i64", 0), image)
        with t.loop(0, w.windows, carried=begin, name="window") as window:
            self.gather.pixel(window.values, w.x, t.scratch)
            row = t.add(t.mul(image, w.windows), window.index)
            errors = t.address(w.y, t.mul(row, w.width), self.dtype)
            self.each(last, partial(self._window, errors), first)
            window.next(*self.gather.after(window.values))

    def _clear(self, row: Value, channel: Value, count: Value | None) -> None:
        zero = self.t.constant(register_type(self.dtype, self.lanes), 0)
        self.store(zero, self.t.address(row, channel, self.dtype), count)

    def _window(self, errors: Value, channel: Value, count: Value | None) -> None:
        """Find the largest of each of these channels, then add."""
        t, w = self.t, self.w
        y = self.load(t.address(errors, channel, self.dtype), count)
        start = [
            t.constant(register_type(self.dtype, self.lanes), 0),
            t.constant(vector("i32", self.lanes), -1),
        ]
        with t.loop(0, w.taps, carried=start, name="tap") as tap:
            place = t.load_type("ptr", t.address(t.scratch, t.mul(tap.index, 8)))
            found = tap.values
            tap.next(
                *t.either(
                    self._is_real(place),
                    partial(self._better, tap.index, t.address(place, channel, self.dtype), found, count),
                    lambda: found,
                )
            )
        where = tap.results[1]
        with t.loop(0, w.taps, name="add") as tap:
            place = t.load_type("ptr", t.address(t.scratch, t.mul(tap.index, 8)))
            with t.when(self._is_real(place)):
                number = t.splat(t.convert("trunc", tap.index, "i32"), self.lanes)
                self._add(y, t.icmp("eq", where, number), t.address(place, channel, self.dtype), count)

    def _better(self, tap: Value, at: Value, found: list[Value], count: Value | None) -> list[Value]:
        """The best so far and its tap, after one more; -1 stands for none yet."""
        t, (best, where) = self.t, found
        value = self.load(at, count)
        wins = t.or_(self._beats(value, best), t.icmp("slt", where, 0))
        number = t.splat(t.convert("trunc", tap, "i32"), self.lanes)
        return [t.select(wins, value, best), t.select(wins, number, where)]

    def _is_real(self, place: Value) -> Value:
        return self.t.define("i1", f"icmp ne ptr {place}, {self.w.tables.zeros}")

    def _add(self, y: Value, here: Value, place: Value, count: Value | None) -> None:
        """The result lies as x does: the same distance from its beginning."""
        t = self.t
        whole, begin = (t.define("i64", f"ptrtoint ptr {v} to i64") for v in (place, self.w.x))
        at = t.address(self.w.out, t.sub(whole, begin))
        if self.disjoint:
            self.store(t.select(here, y, t.constant(y.type, 0)), at, count)
            return
        old = self.load(at, count)
        new = t.fadd(old, y) if is_float_type(y.type) else t.add(old, y)
        self.store(t.select(here, new, old), at, count)

    def _beats(self, value: Value, best: Value) -> Value:
        t = self.t
        if not is_float_type(value.type):
            return t.icmp("ugt" if self.dtype.kind == "u" else "sgt", value, best)
        nan = t.and_(t.fcmp("uno", value, value), t.fcmp("ord", best, best))
        return t.or_(t.fcmp("ogt", value, best), nan)
