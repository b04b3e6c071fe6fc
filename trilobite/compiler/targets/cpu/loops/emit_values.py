"""Indices, addresses, guards and leaves of a nest as LLVM values, for one element or a vector of them.

Enters: indices and leaves, the values of the loop variables around. Leaves: `Value`s. A `Lane` says which
variable runs along the lanes. Where an index is linear in it, one instruction reads all lanes; else each lane
is read by itself. Invariant parts are computed where the innermost of their variables is known, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from trilobite.base.dtypes import DType, int32, int64
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.emit.scalar import emit_scalars
from trilobite.compiler.targets.cpu.loops.combine import cast_graph
from trilobite.compiler.targets.cpu.loops.index import Atom, Index, Indirect, Quotient
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Leaf,
    Load,
    Loop,
    Nest,
    Number,
    Position,
    ranges_of,
)
from trilobite.ir.types import Affine, Dim, Symbol
from trilobite.native.llvm import formats
from trilobite.native.llvm.text import Text, Value, memory_type, register_type, vector


@dataclass(frozen=True)
class Lane:
    """The variable along the lanes, its value in the first lane, and how many lanes there are (0: scalar)."""

    var: str
    at: Value
    lanes: int


class Scope:
    """What is known at one place of the text: pointers, sizes, loop variables, indices computed before."""

    def __init__(self, nest: Nest, text: Text) -> None:
        self.nest, self.text = nest, text
        self.pointers: dict[str, Value] = {}
        self.sizes: dict[Symbol, Value] = {}
        self.buffers = {b.name: b for b in nest.buffers}
        self.ranges = ranges_of(nest.body)
        self._env: list[dict[str, Value]] = [{}]
        self._known: list[dict[object, Value]] = [{}]

    @contextmanager
    def entered(self, variables: Mapping[str, Value]) -> Iterator[None]:
        """Inside, these variables have these values; what is computed there is forgotten afterwards."""
        self._env.append({**self._env[-1], **variables})
        self._known.append({})
        yield
        self._env.pop()
        self._known.pop()

    def _remembered(self, key: object) -> Value | None:
        return next((known[key] for known in reversed(self._known) if key in known), None)

    # -- sizes and indices ---------------------------------------------------------------------------------

    def size(self, d: Dim) -> Value:
        if not isinstance(d, Affine):
            return self.text.constant("i64", d)
        found = self._remembered(d)
        if found is None:
            found = self.text.constant("i64", d.constant)
            for symbol, c in d.terms:
                found = self.text.add(self.text.mul(self.sizes[symbol], c), found)
            self._known[-1][d] = found
        return found

    def extent(self, node: Loop) -> Value:
        out = self.index(node.extent[0])
        for other in node.extent[1:]:
            out = self.text.smin(out, self.index(other))
        return out

    def start(self, node: Loop) -> Value:
        """The first iteration of a loop."""
        out = self.text.constant("i64", 0)
        for each in node.start:
            out = self.text.smax(out, self.index(each))
        return out

    def index(self, index: Index) -> Value:
        """The i64 value of an index whose variables are all known."""
        found = self._remembered(index)
        if found is not None:
            return found
        out = self.size(index.constant)
        for atom, c in index.terms:
            out = self.text.add(self.text.mul(self._atom(atom), self.size(c)), out)
        self._known[-1][index] = out
        return out

    def _atom(self, atom: Atom) -> Value:
        if isinstance(atom, str):
            return self._env[-1][atom]
        if isinstance(atom, Indirect):
            return self._indirect(atom)
        inner, by = self.index(atom.index), self.size(atom.by)
        # Indices that are taken apart are never negative: they number elements.
        return self.text.udiv(inner, by) if isinstance(atom, Quotient) else self.text.urem(inner, by)

    def _indirect(self, atom: Indirect) -> Value:
        t, dtype = self.text, self.buffers[atom.load.buffer].dtype
        raw = self.scalar_load(atom.load)
        low, high = self.size(atom.low), self.size(atom.high)
        if dtype.kind == "u" and dtype.itemsize == 8:
            return t.smax(t.intrinsic("umin", "i64", raw, high), low)
        signed = dtype.kind == "i" or dtype.name == "int4"
        wide = raw if dtype == int64 else t.convert("sext" if signed else "zext", raw, "i64")
        return t.smin(t.smax(wide, low), high)

    # -- addresses -----------------------------------------------------------------------------------------

    def pointer(self, buffer: Buffer, flat: Index) -> Value:
        """The address of an element whose index is known; remembered."""
        key = ("address", buffer.name, flat)
        found = self._remembered(key)
        if found is None:
            found = self.text.address(self.pointers[buffer.name], self.index(flat), buffer.dtype)
            self._known[-1][key] = found
        return found

    # -- guards --------------------------------------------------------------------------------------------

    def test(self, guards: Sequence[Index]) -> Value:
        """One bit: is none of the guards negative?"""
        out = self.text.constant("i1", 1)
        for g in guards:
            out = self.text.and_(out, self.text.icmp("sge", self.index(g), 0))
        return out

    def mask(self, guards: Sequence[Index], lane: Lane) -> Value:
        """One bit per lane, of guards linear in the lane's variable."""
        t, type = self.text, vector("i64", lane.lanes)
        out: Value | None = None
        for g in guards:
            truth = t.icmp("sge", self.along(g, lane), t.constant(type, 0))
            out = truth if out is None else t.and_(out, truth)
        return out if out is not None else t.constant(vector("i1", lane.lanes), 1)

    def along(self, index: Index, lane: Lane) -> Value:
        """The values of an index by lane, as i64."""
        t = self.text
        if not linear(index, lane.var):
            out = Value("poison", vector("i64", lane.lanes))
            for k, one in enumerate(self._by_lane(lane)):
                with self.entered(one):
                    out = t.insert(out, self.index(index), k)
            return out
        c = self.size(index.coefficient(lane.var))
        first = t.add(self.index(index.without(lane.var)), t.mul(lane.at, c))
        steps = t.lane_numbers(vector("i64", lane.lanes))
        return t.add(t.splat(first, lane.lanes), t.mul(steps, t.splat(c, lane.lanes)))

    def _by_lane(self, lane: Lane) -> Iterator[dict[str, Value]]:
        for k in range(lane.lanes):
            yield {lane.var: self.text.add(lane.at, k)}

    # -- leaves --------------------------------------------------------------------------------------------

    def leaf(self, leaf: Leaf, lane: Lane) -> Value:
        """The value of a leaf, in register form, for one element or for the lanes."""
        if not lane.lanes:
            with self.entered({lane.var: lane.at}):
                return self._scalar_leaf(leaf)
        if all(lane.var not in i.variables for i in leaf.indices):
            return self.text.splat(self._scalar_leaf(leaf), lane.lanes)
        if isinstance(leaf, Load):
            return self._vector_load(leaf, lane)
        if isinstance(leaf, Position):
            return self._numbers(leaf, lane)
        return self._mask_of(leaf.guards, lane)

    def _mask_of(self, guards: Sequence[Index], lane: Lane) -> Value:
        fixed = [g for g in guards if lane.var not in g.variables]
        moving = [g for g in guards if lane.var in g.variables]
        out = self.mask(moving, lane)
        return self.text.and_(out, self.text.splat(self.test(fixed), lane.lanes)) if fixed else out

    def _scalar_leaf(self, leaf: Leaf) -> Value:
        if isinstance(leaf, Load):
            return self.scalar_load(leaf)
        if isinstance(leaf, Position):
            return self._as_number(self.index(leaf.index), leaf.dtype, 0)
        return self.test(leaf.guards)

    def scalar_load(self, load: Load) -> Value:
        buffer = self.buffers[load.buffer]
        flat = buffer.flat(load.index)
        if not load.guards:
            return self.text.load(buffer.dtype, self.pointer(buffer, flat))
        return self._guarded(
            self.test(load.guards), lambda: self.text.load(buffer.dtype, self.pointer(buffer, flat)),
            self.fill(buffer.dtype, load.fill, 0),
        )  # fmt: skip

    def _guarded(self, condition: Value, read: Callable[[], Value], fill: Value) -> Value:
        def then() -> list[Value]:
            with self.entered({}):
                return [read()]

        (out,) = self.text.either(condition, then, lambda: [fill])
        return out

    def fill(self, dtype: DType, number: Number, lanes: int) -> Value:
        """A number as the dtype holds it, in register form."""
        held = np.full((), number, dtype)
        plain = held.item() if dtype.kind in "biu" else float(held.astype(np.float64))
        return self.text.constant(register_type(dtype, lanes), plain)

    def _as_number(self, value: Value, dtype: DType, lanes: int) -> Value:
        if dtype == int64:
            return value
        if dtype == int32:
            return self.text.convert("trunc", value, "i32")
        return _value(emit_scalars(self.text, cast_graph(int64, dtype), [value], lanes)[0])

    def _numbers(self, leaf: Position, lane: Lane) -> Value:
        return self._as_number(self.along(leaf.index, lane), leaf.dtype, lane.lanes)

    def _vector_load(self, load: Load, lane: Lane) -> Value:
        buffer = self.buffers[load.buffer]
        flat = buffer.flat(load.index)
        fixed = [g for g in load.guards if lane.var not in g.variables]
        moving = [g for g in load.guards if lane.var in g.variables]
        fill = self.fill(buffer.dtype, load.fill, lane.lanes)
        if not fixed:
            return self._moving_load(buffer, flat, moving, fill, lane)
        return self._guarded(
            self.test(fixed), lambda: self._moving_load(buffer, flat, moving, fill, lane), fill
        )

    def _moving_load(
        self, buffer: Buffer, flat: Index, moving: Sequence[Index], fill: Value, lane: Lane
    ) -> Value:
        straight = linear(flat, lane.var) and all(linear(g, lane.var) for g in moving)
        if not moving:
            return self.read(buffer, flat, lane)
        if straight and flat.coefficient(lane.var) == 1:
            mask = self.mask(moving, lane)
            at = self.text.address(self.pointer(buffer, flat.without(lane.var)), lane.at, buffer.dtype)
            return self.text.select(mask, self.text.load_masked(buffer.dtype, at, mask), fill)
        return self._each_guarded(buffer, flat, moving, fill, lane)

    def _each_guarded(
        self, buffer: Buffer, flat: Index, guards: Sequence[Index], fill: Value, lane: Lane
    ) -> Value:
        t = self.text
        out = Value("poison", fill.type)
        one = t.extract(fill, 0)
        for k, variables in enumerate(self._by_lane(lane)):
            with self.entered(variables):
                element = self._guarded(
                    self.test(guards), lambda: t.load(buffer.dtype, self.pointer(buffer, flat)), one
                )
            out = t.insert(out, element, k)
        return out

    # -- vectors in memory ---------------------------------------------------------------------------------

    def read(self, buffer: Buffer, flat: Index, lane: Lane) -> Value:
        """The lanes' elements of a buffer."""
        t, dtype = self.text, buffer.dtype
        if not linear(flat, lane.var):
            return self._gathered(buffer, flat, lane)
        base, c = self.pointer(buffer, flat.without(lane.var)), flat.coefficient(lane.var)
        if c == 1:
            return t.load(dtype, t.address(base, lane.at, dtype), lane.lanes)
        at = t.address(base, t.mul(lane.at, self.size(c)), dtype)
        if c == -1:
            back = t.address(at, 1 - lane.lanes, dtype)
            raw = t.load_type(memory_type(dtype, lane.lanes), back)
            return formats.to_register(t, dtype, t.shuffle(raw, None, range(lane.lanes - 1, -1, -1)))
        return t.load_strided(dtype, at, self.size(c), lane.lanes)

    def _gathered(self, buffer: Buffer, flat: Index, lane: Lane) -> Value:
        t, dtype = self.text, buffer.dtype
        out = Value("poison", memory_type(dtype, lane.lanes))
        for k, variables in enumerate(self._by_lane(lane)):
            with self.entered(variables):
                out = t.insert(out, t.load_type(memory_type(dtype), self.pointer(buffer, flat)), k)
        return formats.to_register(t, dtype, out)

    def write(self, buffer: Buffer, flat: Index, value: Value, lane: Lane) -> None:
        """Store the lanes, or the one element."""
        t, dtype = self.text, buffer.dtype
        if not lane.lanes:
            with self.entered({lane.var: lane.at}):
                t.store(dtype, value, self.pointer(buffer, flat))
            return
        c = flat.coefficient(lane.var)
        if not linear(flat, lane.var):
            raw = formats.to_memory(t, dtype, value)
            for k, variables in enumerate(self._by_lane(lane)):
                with self.entered(variables):
                    t.store_type(t.extract(raw, k), self.pointer(buffer, flat))
            return
        base = self.pointer(buffer, flat.without(lane.var))
        if c == 1:
            t.store(dtype, value, t.address(base, lane.at, dtype))
        else:
            t.store_strided(dtype, value, t.address(base, t.mul(lane.at, self.size(c)), dtype), self.size(c))


def _value(v: object) -> Value:
    assert isinstance(v, Value)
    return v


def linear(index: Index, var: str) -> bool:
    """Does the variable stand in the index only as a plain multiple?"""
    return all(isinstance(atom, str) or var not in atom_variables(atom) for atom, _ in index.terms)


def atom_variables(atom: Atom) -> frozenset[str]:
    return Index(0, ((atom, 1),)).variables
