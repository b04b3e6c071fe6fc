"""A chain of elementwise equations as vector instructions on tiles in NRAM.

Enters: equations of one shape, which values are operands and which are results, and numbers that are known.
Leaves: a `Chain`, a `VectorBody`: it says how much scratch memory it needs and writes its instructions at the
end of a builder. Truth values lie in memory as bytes; within a chain they stay in the format of what made
them until somebody needs another. What each primitive becomes stands in `rows` and `casts`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilobite.base.dtypes import DType, bool_
from trilobite.compiler.targets.dlp.vector.formats import format_of, scalar_of
from trilobite.compiler.targets.dlp.vector.joins import joined
from trilobite.compiler.targets.dlp.vector.rows import ROWS
from trilobite.compiler.targets.dlp.writer import ALIGN, Int, Writer, slots
from trilobite.ir.graph import Equation, Var
from trilobite.processor.isa.formats import I64, Format
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Constant, KernelModule, Op, Value
from trilobite.processor.lang.types import Pointer, is_pointer
from trilobite.processor.machine import Machine

Number = int | float


class Slots:
    """Scratch memory in units of one byte per element: places are given out and taken back."""

    def __init__(self) -> None:
        self.free: list[tuple[int, int]] = []
        self.top = 0

    def take(self, size: int) -> int:
        for place, (at, room) in enumerate(self.free):
            if room >= size:
                if room == size:
                    del self.free[place]
                else:
                    self.free[place] = (at + size, room - size)
                return at
        at, self.top = self.top, self.top + size
        return at

    def give(self, at: int, size: int) -> None:
        merged: list[tuple[int, int]] = []
        for start, room in sorted([*self.free, (at, size)]):
            if merged and merged[-1][0] + merged[-1][1] == start:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((start, room))
        self.free = merged


class Emission:
    """One writing of a chain: where values lie now, in which formats."""

    def __init__(self, writer: Writer, count: Int, scratch: Value, most: int) -> None:
        self.w, self.count, self.scratch = writer, count, scratch
        self.unit = slots(most)  # elements a slot has room for
        self.slots = Slots()
        self.held: dict[Var, dict[Format, Value]] = {}
        self.owned: dict[tuple[Var | None, Format], tuple[int, int]] = {}
        self.temporaries: list[tuple[int, int]] = []
        self.numbers: Mapping[Var, Number] = {}
        self.results: dict[Var, Value] = {}

    # -- places ----------------------------------------------------------------------------------------------

    def _slot(self, fmt: Format) -> tuple[Value, tuple[int, int]]:
        size = fmt.bits // 8
        at = self.slots.take(size)
        return self.w.at(self.scratch, at * self.unit), (at, size)

    def temporary(self, fmt: Format) -> Value:
        """A tile that lives until the equation is done."""
        pointer, place = self._slot(fmt)
        self.temporaries.append(place)
        return pointer

    def result(self, var: Var, fmt: Format | None = None) -> Value:
        """Where a value is to be written: its place in the caller's memory, or a slot."""
        own = format_of(var.type.dtype)
        fmt = fmt or own
        if var in self.results and fmt is own:
            pointer = self.results[var]
        else:
            pointer, self.owned[var, fmt] = self._slot(fmt)
        self.held.setdefault(var, {})[fmt] = pointer
        return pointer

    def number(self, var: Var) -> Number | None:
        return self.numbers.get(var)

    def scalar(self, var: Var, fmt: Format) -> Value:
        """A known number as a constant of a format."""
        return Constant(fmt, self.numbers[var])

    def tile(self, var: Var, fmt: Format | None = None) -> Value:
        """The tile of a value; truth values in the format asked for."""
        fmt = fmt or format_of(var.type.dtype)
        held = self.held.setdefault(var, {})
        if fmt in held:
            return held[fmt]
        if var in self.numbers:
            pointer, self.owned[var, fmt] = self._slot(fmt)
            self.w.vector("VSET", fmt, pointer, self.count, Constant(fmt, self.numbers[var]))
        else:
            source, old = next(iter(held.items()))
            pointer, self.owned[var, fmt] = self._slot(fmt)
            self.convert(pointer, fmt, old, source)
        held[fmt] = pointer
        return pointer

    def alias(self, var: Var, source: Var) -> None:
        """The same bytes under another name. The source stays where it is as long as the alias is needed."""
        fmt, own = format_of(source.type.dtype), format_of(var.type.dtype)
        if var in self.results:
            self.w.copy(self.results[var], self.tile(source), self.w.mul(self.count, own.bits // 8))
            self.held[var] = {own: self.results[var]}
            return
        out = self.result(var)
        self.w.copy(out, self.tile(source, fmt), self.w.mul(self.count, own.bits // 8))

    # -- instructions ----------------------------------------------------------------------------------------

    def put(self, row: str, fmt: Format, dst: Value, *sources: Value) -> None:
        """An instruction whose operands are destination, count, sources."""
        self.w.vector(row, fmt, dst, self.count, *sources)

    def convert(self, dst: Value, to: Format, source: Value, fmt: Format, rounding: str = "rn") -> None:
        if to is fmt:
            self.w.copy(dst, source, self.w.mul(self.count, to.bits // 8))
        else:
            self.w.vector("VCVT", (to, fmt), dst, self.count, source, flags=(rounding,))

    # -- lives -----------------------------------------------------------------------------------------------

    def finish_equation(self, dying: Sequence[Var]) -> None:
        for place in self.temporaries:
            self.slots.give(*place)
        self.temporaries.clear()
        for var in dying:
            for key in [k for k in self.owned if k[0] is var]:
                self.slots.give(*self.owned.pop(key))
            self.held.pop(var, None)


class Chain:
    """Equations in order, from operand tiles to result tiles."""

    def __init__(
        self,
        equations: Sequence[Equation],
        operands: Sequence[Var],
        results: Sequence[Var],
        numbers: Mapping[Var, object],
        machine: Machine,
    ) -> None:
        self.operands, self.results = tuple(operands), tuple(results)
        self.numbers = {v: scalar_of(v.type.dtype, n) for v, n in numbers.items()}
        self.equations = joined(equations, results, self.numbers)
        self.machine = machine
        self.inputs: Sequence[DType] = [v.type.dtype for v in operands]
        self.outputs: Sequence[DType] = [v.type.dtype for v in results]
        self.dying = self._last_uses()
        self.bytes_per_element = self._measured()

    def _last_uses(self) -> list[list[Var]]:
        seen = set(self.results) | set(self.operands)
        out: list[list[Var]] = []
        for e in reversed(self.equations):
            last = [v for v in dict.fromkeys((*e.inputs, *e.outputs)) if v not in seen]
            seen.update(last)
            out.append(last)
        return out[::-1]

    def _measured(self) -> int:
        """Slots that the chain holds at once, in bytes per element, by writing it for nobody."""
        module = KernelModule("measured")
        writer = Writer(module, "measured", [Pointer("nram")] * 3, self.machine)
        a, b, scratch = writer.params
        operands, results = [a] * len(self.operands), [b] * len(self.results)
        done = self._write(writer, operands, results, ALIGN, scratch, ALIGN)
        self.fixed_bytes = sum(b.bytes for b in module.buffers.values())  # tables beside the tiles
        self.lane_bytes, self.instructions = _passes(writer, self.machine)
        return done.slots.top

    def scratch_bytes(self, count: int) -> int:
        return self.bytes_per_element * slots(count)

    def emit(
        self,
        builder: Builder,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        count: int | Value,
        scratch: Value,
        most: int,
    ) -> None:
        writer = Writer.around(builder, self.machine)
        self._write(writer, inputs, outputs, count, scratch, most)

    def _write(
        self,
        writer: Writer,
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        count: Int,
        scratch: Value,
        most: int,
    ) -> Emission:
        e = Emission(writer, count, scratch, most)
        e.numbers = self.numbers
        for var, pointer in zip(self.operands, inputs, strict=True):
            e.held.setdefault(var, {})[format_of(var.type.dtype)] = pointer
        e.results = dict(zip(self.results, outputs, strict=True))
        for equation, dying in zip(self.equations, self.dying, strict=True):
            ROWS[equation.primitive.name](e, equation)
            self._settle(e, equation)
            e.finish_equation(dying)
        for var, pointer in e.results.items():
            self._pass_through(e, var, pointer)
        return e

    @staticmethod
    def _settle(e: Emission, equation: Equation) -> None:
        """Truth values that are results go to their bytes."""
        for var in equation.outputs:
            if var in e.results and format_of(var.type.dtype) not in e.held[var]:
                fmt, pointer = next(iter(e.held[var].items()))
                own = format_of(var.type.dtype)
                e.convert(e.results[var], own, pointer, fmt)
                e.held[var][own] = e.results[var]

    @staticmethod
    def _pass_through(e: Emission, var: Var, pointer: Value) -> None:
        """Results that are operands, or numbers."""
        own = format_of(var.type.dtype)
        at = e.held.get(var, {}).get(own)
        if at is pointer:
            return
        if at is None:
            e.put("VSET", own, pointer, Constant(own, e.numbers[var]))
        else:
            e.w.copy(pointer, at, e.w.mul(e.count, own.bits // 8))


def _passes(writer: Writer, machine: Machine) -> tuple[int, int]:
    """Bytes of an element that pass the vector unit's lanes, and in how many instructions."""
    unit, total, many = machine.core.vfu, 0, 0
    passes = {"vector-divide": unit.divide_passes, "vector-function": unit.transcendental_passes}
    for op in writer.function.ops():
        if op.opcode == "tensor" and op.attrs["formats"]:
            timing, formats = contract(op.attrs["row"]).row.timing, [f.bits // 8 for f in op.attrs["formats"]]
            if timing != "matrix":
                total += max(max(formats) * passes.get(timing, 1), _fed(op, formats, machine))
            many += 1
    return total, many


def _fed(op: Op, formats: Sequence[int], machine: Machine) -> int:
    """What the lanes could pass while NRAM reads and writes an element's operands."""
    tiles = sum(is_pointer(v.type) for v in op.operands)
    bytes_moved = sum(formats) if len(formats) > 1 else formats[0] * tiles
    lanes, rate = machine.core.vfu.bytes_per_cycle, max(1, machine.core.nram.bytes_per_cycle)
    return -(-bytes_moved * lanes // rate)


def is_truth(var: Var) -> bool:
    return var.type.dtype == bool_


__all__ = ["Chain", "Emission", "I64", "is_truth"]
