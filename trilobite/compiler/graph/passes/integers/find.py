"""integers: what is written as products of dequantised bytes, and rounded to bytes again, runs on the bytes.

Enters: a graph with `dequantise` and `quantise` around float operations (the form that quantising tools
write), or with integers less their zero points cast to int32 (ONNX's QLinearConv, MatMulInteger). Leaves: a
graph in which convolutions and products multiply bytes and add in 32 bits, biases and clamps go into those
sums, sums over planes add up codes, and moves (reshapes, slices, joins, paddings, largest of a window) move
bytes. Sums are rounded once, by `requantise`, so all targets give the same bits. Unsigned bytes become
signed ones, because units multiply those. Results are within a step of the grid of what was written.

Scales and zero points must be constants of the graph; weights need not be. Products of more terms than 32
bits hold, and grids along an axis that is added up, stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base.dtypes import float32, int8, int32, uint8
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.integers.forms import (
    BYTES,
    HALF,
    ROOM,
    Array,
    Codes,
    Constants,
    Sums,
    Writer,
)
from trilobite.compiler.graph.passes.integers.products import product
from trilobite.compiler.graph.passes.integers.sums import clamped, drained, plain, scaled, with_bias
from trilobite.compiler.graph.regions import on_every_graph, uses
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import size_of

MOVES = frozenset({"reshape", "transpose", "slice", "reverse", "concatenate", "pad", "broadcast", "gather"})
_TESTS = {"le": "maximum", "lt": "maximum", "ge": "minimum", "gt": "minimum"}
_LARGEST = frozenset({"reduce_max", "reduce_min", "window_reduce"})


def integers(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph on integers, as far as it is written between grids."""
    return on_every_graph(graph, lambda g: _on_integers(g, counters))


def _on_integers(graph: Graph, counters: Counters) -> Graph:
    if not any(_reads_bytes(e) for e in graph.equations):
        return graph
    found = Counters()
    out = dce(_Walk(graph, found).run())
    if not found:
        return graph
    counters.update(found)
    return out


def _reads_bytes(e: Equation) -> bool:
    return e.primitive.name in ("dequantise", "cast") and e.inputs[0].type.dtype in BYTES


class _Walk:
    """Equations in order; `codes` and `sums` know values of the old graph, `now` has their numbers."""

    def __init__(self, graph: Graph, counters: Counters) -> None:
        self.graph, self.counters = graph, counters
        self.constants = Constants(graph)
        self.readers = uses(graph)
        self.w = Writer()
        self.now: dict[Var, Var] = {v: v for v in graph.inputs}
        self.codes: dict[Var, Codes] = {}
        self.sums: dict[Var, Sums] = {}
        self.signed: dict[Var, Var] = {}  # int8 for bytes of either kind

    def run(self) -> Graph:
        for e in self.graph.equations:
            self.w.location = e.location
            rule = _RULES.get(e.primitive.name)
            if rule is None or not rule(self, e):
                self.w.copied(e, tuple(self.numbers(v) for v in e.inputs))
                self.now.update(zip(e.outputs, e.outputs, strict=True))
        outputs = [self.numbers(v) for v in self.graph.outputs]
        return Graph(self.graph.inputs, self.w.equations, outputs, self.graph.name)

    # -- forms of a value ------------------------------------------------------------------------------------

    def numbers(self, v: Var) -> Var:
        """A value as it was written."""
        if v not in self.now:
            if v in self.signed:
                self.now[v] = self.w.signed(self.signed[v]) if v.type.dtype == uint8 else self.signed[v]
            elif v in self.sums:
                self.now[v] = plain(self.w, self.sums[v])
            else:
                self.now[v] = self.dequantised(self.codes[v])
        return self.now[v]

    def dequantised(self, c: Codes) -> Var:
        assert c.scale is not None
        scale, zero = self.w.constant(c.scale, float32), self.w.constant(c.zero, int8)
        return self.w.make("dequantise", c.q, scale, zero, axis=c.axis)

    def bytes(self, v: Var) -> Var:
        """A value of bytes as signed ones."""
        if v not in self.signed:
            q = self.numbers(v)
            self.signed[v] = self.w.signed(q) if v.type.dtype == uint8 else q
        return self.signed[v]

    def zero(self, v: Var, dtype: Any) -> Array | None:
        """A zero point as one of signed bytes."""
        found = self.constants.array(v)
        return None if found is None else found.astype(np.int64) - (HALF if dtype == uint8 else 0)

    # -- to codes and from them ------------------------------------------------------------------------------

    def dequantise(self, e: Equation) -> bool:
        q, scale, zero = e.inputs
        by, point = self.constants.array(scale), self.zero(zero, q.type.dtype)
        if q.type.dtype not in BYTES or scale.type.dtype != float32 or by is None or point is None:
            return False
        if not bool(((by > 0) & np.isfinite(by)).all()) or not by.size:
            return False
        self.codes[e.outputs[0]] = Codes(self.bytes(q), by, point, e.attributes["axis"])
        return True

    def quantise(self, e: Equation) -> bool:
        x, scale, zero = e.inputs
        dtype, out = e.attributes["dtype"], e.outputs[0]
        by, point = self.constants.array(scale), self.zero(zero, dtype)
        if dtype not in BYTES or by is None or point is None or e.attributes["axis"] is not None:
            return False
        if x in self.codes and self._same(self.codes[x], by, point):
            self.signed[out] = self.codes[x].q
            self.counters["codes of codes"] += 1
        elif x in self.sums:
            self.signed[out] = drained(self.w, self.sums[x], by, int(point), int8)
            self.counters["requantise"] += 1
        elif scale.type.dtype == float32:
            grid = self.w.constant(by, float32), self.w.full((), int8, int(point))
            self.signed[out] = self.w.make("quantise", self.numbers(x), *grid, axis=None, dtype=int8)
        else:
            return False
        return True

    @staticmethod
    def _same(c: Codes, scale: Array, zero: Array) -> bool:
        return c.is_plain and c.scale is not None and bool(c.scale == scale) and bool(c.zero == zero)

    def cast(self, e: Equation) -> bool:
        (x,), (out,) = e.inputs, e.outputs
        if x.type.dtype not in BYTES or out.type.dtype != int32:
            return False
        half = HALF if x.type.dtype == uint8 else 0
        self.codes[out] = Codes(self.bytes(x), None, np.array(-half), None)
        self.w.copied(e, (self.numbers(x),))
        self.now[out] = out
        return True

    def sub(self, e: Equation) -> bool:
        """Integers less their zero point."""
        c = self._lowered(e)
        if c is None:
            return False
        if c.axis is None and c.zero is self.codes[e.inputs[0]].zero:
            c = self._moving(e, c)
        if c is not None:
            self.codes[e.outputs[0]] = c
        self.w.copied(e, tuple(self.numbers(v) for v in e.inputs))
        self.now[e.outputs[0]] = e.outputs[0]
        return True

    def _lowered(self, e: Equation) -> Codes | None:
        """Bytes in 32 bits less a constant (the sum with its negative is the usual form), if these are such;
        as they are where the other operand is no constant.
        """
        sign = 1 if e.primitive.name == "sub" else -1
        c = self.codes.get(e.inputs[0])
        if c is None or c.scale is not None or c.axis is not None or c.moving is not None:
            return None
        found = self.constants.repeated(e.inputs[1])
        if found is None:
            return c if sign == 1 else None
        point = c.zero + sign * found.values.astype(np.int64)
        return Codes(c.q, None, point, found.axis) if bool((np.abs(point) <= 2 * HALF).all()) else None

    def _moving(self, e: Equation, c: Codes) -> Codes | None:
        """A zero point that a run computes: one byte of the same kind, widened and repeated."""
        spread = self.constants.makers.get(e.inputs[1])
        if spread is None or spread.primitive.name != "broadcast" or spread.inputs[0].type.shape != ():
            return None
        point = spread.inputs[0]
        source = self.constants.makers.get(point)
        kind = uint8 if bool(c.zero) else int8
        if source is None or source.primitive.name != "cast" or source.inputs[0].type.dtype != kind:
            return None
        zero = self.w.make("add", self.numbers(point), self.w.full((), int32, int(c.zero)))
        return Codes(c.q, None, np.array(0), None, zero)

    # -- products --------------------------------------------------------------------------------------------

    def product(self, e: Equation) -> bool:
        x, y = (self.codes.get(v) for v in e.inputs)
        if x is None or y is None or e.outputs[0].type.dtype not in (float32, int32):
            return False
        found = product(self.w, e, x, y)
        if found is None:
            return False
        if isinstance(found, Sums):
            self.sums[e.outputs[0]] = found
        else:
            self.now[e.outputs[0]] = found
        self.counters[e.primitive.name] += 1
        return True

    def reduce_sum(self, e: Equation) -> bool:
        c = self.codes.get(e.inputs[0])
        sizes = [e.inputs[0].type.shape[a] for a in e.attributes["axes"]]
        if c is None or c.scale is None or not c.is_plain or not all(isinstance(n, int) for n in sizes):
            return False
        count = int(size_of(sizes))
        if not 0 < count * c.reach < ROOM:
            return False
        total = self.w.make("reduce_sum", self.w.cast(c.q, int32), axes=e.attributes["axes"])
        if c.has_zero:
            total = self.w.make("sub", total, self.w.full(total.type.shape, int32, count * int(c.zero)))
        self.sums[e.outputs[0]] = Sums(total, c.scale.astype(np.float64), None)
        self.counters["reduce_sum"] += 1
        return True

    # -- behind sums -----------------------------------------------------------------------------------------

    def add(self, e: Equation) -> bool:
        if e.outputs[0].type.dtype == int32:
            return self.sub(e)
        for v, other in (e.inputs, e.inputs[::-1]):
            bias = self.constants.repeated(other) if v in self.sums else None
            found = None if bias is None else with_bias(self.sums[v], bias)
            if found is not None:
                self.sums[e.outputs[0]] = found
                return True
        return False

    def scale(self, e: Equation) -> bool:
        for v, other in (e.inputs, e.inputs[::-1])[: 1 if e.primitive.name == "div" else 2]:
            by = self.constants.number(other) if v in self.sums else None
            if by is None:
                continue
            found = scaled(self.sums[v], by if e.primitive.name == "mul" else 1 / by if by else 0.0)
            if found is not None:
                self.sums[e.outputs[0]] = found
                return True
        return False

    def clamp(self, e: Equation) -> bool:
        for v, other in (e.inputs, e.inputs[::-1]):
            end = self.constants.number(other) if v in self.sums else None
            if end is not None and np.isfinite(end):
                self.sums[e.outputs[0]] = clamped(self.sums[v], e.primitive.name, end)
                return True
        return False

    def select(self, e: Equation) -> bool:
        """x < end ? end : x, or x > end ? end : x. What is compared may be x before another clamp."""
        test, (_, fixed, x) = self.constants.makers.get(e.inputs[0]), e.inputs
        s, end = self.sums.get(x), self.constants.number(fixed)
        if test is None or test.primitive.name not in _TESTS or s is None or end is None:
            return False
        before = self.sums.get(test.inputs[0])
        same = before is s or (before is not None and not before.is_clamped and before.before_clamp(s))
        if not same or self.constants.number(test.inputs[1]) != end or not s.low <= end <= s.high:
            return False
        self.sums[e.outputs[0]] = clamped(s, _TESTS[test.primitive.name], end)
        return True

    # -- moves -----------------------------------------------------------------------------------------------

    def move(self, e: Equation) -> bool:
        return self._move_bytes(e) or self._move_codes(e) or self._move_sums(e)

    def _move_bytes(self, e: Equation) -> bool:
        """Bytes that are there as signed ones, moved as such."""
        (out,) = e.outputs
        sources = self._moved(e)
        if out.type.dtype not in BYTES or not all(v in self.signed for v in sources):
            return False
        attributes = dict(e.attributes)
        if e.primitive.name == "pad":
            attributes["value"] = int(attributes["value"]) - (HALF if out.type.dtype == uint8 else 0)
        moved = [self.signed[v] for v in sources]
        rest = [self.numbers(v) for v in e.inputs[len(moved) :]]
        self.signed[out] = self.w.make(e.primitive.name, *moved, *rest, **attributes)
        return True

    @staticmethod
    def _moved(e: Equation) -> Sequence[Var]:
        return e.inputs if e.primitive.name == "concatenate" else e.inputs[:1]

    def _move_codes(self, e: Equation) -> bool:
        sources = self._moved(e)
        found = [self.codes[v] for v in sources if v in self.codes]
        if len(found) != len(sources) or found[0].scale is None:
            return False
        first = found[0]
        axis = first.axis
        if axis is not None:
            if e.primitive.name != "transpose":
                return False
            axis = e.attributes["axes"].index(axis)
        elif not all(first.same_grid(c) for c in found) or not self._may_move(e):
            return False
        attributes = dict(e.attributes)
        if e.primitive.name == "pad":
            attributes["value"] = int(first.zero)
        rest = [self.numbers(v) for v in e.inputs[len(found) :]]
        q = self.w.make(e.primitive.name, *(c.q for c in found), *rest, **attributes)
        self.codes[e.outputs[0]] = Codes(q, first.scale, first.zero, axis)
        self.counters["moves"] += 1
        return True

    def _may_move(self, e: Equation) -> bool:
        name, a = e.primitive.name, e.attributes
        if name == "pad":
            return bool(a["value"] == 0)
        if name == "broadcast":  # a small operand of something else is better read where it is
            out = e.outputs[0]
            return all(r.primitive.name in MOVES for r in self.graph.equations if out in r.inputs)
        if name == "window_reduce":
            whole = all(
                max(lo, hi) < (n - 1) * d + 1
                for lo, hi, n, d in zip(a["low"], a["high"], a["size"], a["dilation"], strict=True)
            )
            return a["kind"] in ("max", "min") and whole
        return True

    def _move_sums(self, e: Equation) -> bool:
        """Sums of one scale in another shape."""
        s = self.sums.get(e.inputs[0])
        if s is None or e.primitive.name != "reshape" or s.place is not None or s.at is not None:
            return False
        total = self.w.make("reshape", s.total, **e.attributes)
        self.sums[e.outputs[0]] = Sums(total, s.scale, None, s.bias, None, s.low, s.high)
        return True


_RULES = {
    "dequantise": _Walk.dequantise, "quantise": _Walk.quantise, "cast": _Walk.cast, "sub": _Walk.sub,
    "conv": _Walk.product, "dot": _Walk.product, "reduce_sum": _Walk.reduce_sum,
    "add": _Walk.add, "mul": _Walk.scale, "div": _Walk.scale, "maximum": _Walk.clamp,
    "minimum": _Walk.clamp, "select": _Walk.select,
    **dict.fromkeys((*MOVES, *_LARGEST), _Walk.move),
}  # fmt: skip
