"""One core: registers, program counter, and the execution of single instructions in program order.

Enters: a linked program and a task. Leaves: changed memory, records of what was done, and an event whenever
other cores matter (a barrier, an atomic, the end). The meaning of tensor and scalar instructions is their
row's; loads, stores, atomics and control act on the core and stand in `sim/control.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple, Protocol

from trilobite.base.errors import ProcessorFault
from trilobite.processor.isa.address import split
from trilobite.processor.isa.disassembler import instruction_text
from trilobite.processor.isa.formats import I4, Array
from trilobite.processor.isa.program import Program
from trilobite.processor.isa.row import (
    CODE,
    GDRAM,
    LDRAM,
    IllegalOperands,
    Operands,
    Region,
    signed,
)
from trilobite.processor.sim.memory import Memory, MemoryFault, Place, store, typed
from trilobite.processor.sim.observer import Observer
from trilobite.processor.sim.prepared import CLASS_NUMBER, Prepared, tensor_record
from trilobite.processor.sim.record import SCALAR_CLASSES, CoreTrace, ScalarRecord, SyncRecord, TensorRecord

MASK = (1 << 64) - 1
Kernel = Callable[..., Any]
Regions = tuple[Region, ...]
Records = tuple[TensorRecord | SyncRecord, ...]
MOST = 1 << 14  # executions that a core remembers; beyond this the operands do not come back
Handlers = Mapping[str, Callable[["Core", "Prepared"], None]]


class Decoded(NamedTuple):
    """A tensor instruction with the operands that registers give it: everything but its data."""

    operands: Operands
    reads: Regions
    writes: Regions
    targets: list[Array]
    sources: list[Array]  # none where it must be read anew
    records: Records


class NativeCode(Protocol):
    """What a core asks of translated code."""

    @property
    def entry_points(self) -> Container[int]: ...

    def run(self, core: Core, limit: int) -> int: ...

    def remember_block(self, memory: Memory, offset: int) -> None: ...

    def visited(self, place: int, operands: Operands) -> None: ...


class Core:
    """The state of one core during a launch."""

    def __init__(self, place: Place, memory: Memory, kernels: Mapping[str, Kernel], traced: bool) -> None:
        self.place, self.memory, self.kernels, self.traced = place, memory, kernels, traced
        self.registers = [0] * 64
        self.pc = 0
        self.program: Program | None = None
        self.code: list[Prepared] = []
        self.special: dict[str, int] = {}
        self.halted = True
        self.event: str | None = None  # why the core stopped running: "barrier", "atomic", "halt"
        self.trace = CoreTrace(place.cluster, place.core)
        self.printed: list[str] = []
        self.random_block = 0
        self.native: NativeCode | None = None  # translated scalar code, once it is worth its price
        self.observer: Observer | None = None
        self._scalar: ScalarRecord | None = None
        self.interpreted, self.patience = 0, -1  # instructions since somebody looked, and how many may be
        self._known: dict[Any, Decoded] = {}

    def start(
        self,
        program: Program,
        code: list[Prepared],
        entry: int,
        arguments: list[int],
        special: dict[str, int],
    ) -> None:
        """Puts a task on the core: arguments from $0 on, stack in $62, return address (the end) in $63."""
        self.program, self.code, self.pc, self.special = program, code, entry, special
        self.registers = [value & MASK for value in arguments] + [0] * (64 - len(arguments))
        self.registers[62] = special["stack"]
        self.registers[63] = len(code)
        self.halted, self.random_block = False, 0

    def run(self, limit: int, handlers: Handlers) -> int:
        """Executes until an event, `limit` instructions or the end of its patience; gives the number
        executed. Whoever calls it has told NumPy to be silent about overflow and the like.
        """
        self.event, done = None, 0
        end = len(self.code)
        interpret = self._interpret if self.observer is None else self._observed
        while done < limit and self.event is None:
            if self.native is not None and self.pc in self.native.entry_points:
                executed = self.native.run(self, limit - done)
                self.trace.instructions += executed
                done += executed
                if done >= limit:
                    break
            if self.pc == end:  # falling off the end, or returning from the entry, ends the task
                self.halted, self.event = True, "halt"
                break
            interpret(handlers)
            done += 1
            if self.interpreted == self.patience:  # whoever calls it may know a quicker way
                break
        return done

    def _interpret(self, handlers: Handlers) -> None:
        """One instruction by its meaning."""
        try:
            self._step(self.code[self.pc], handlers)
        except (MemoryFault, IllegalOperands) as error:
            raise self.fault(str(error)) from None
        self.trace.instructions += 1
        self.interpreted += 1

    def _observed(self, handlers: Handlers) -> None:
        assert self.observer is not None
        self.observer.before(self)
        self._interpret(handlers)
        self.observer.after(self)

    def _step(self, prepared: Prepared, handlers: Handlers) -> None:
        row = prepared.row
        handler = handlers.get(row.mnemonic)
        if handler is not None:
            handler(self, prepared)
        elif row.is_tensor:
            self._tensor(prepared)
            self.pc += 1
        else:
            self._scalar_step(prepared)
            self.count(prepared.scalar_class)
            self.pc += 1

    def _scalar_step(self, prepared: Prepared) -> None:
        if prepared.quick is not None and self.kernels:
            self.registers[prepared.outputs[0]] = prepared.quick(self.registers)
            return
        assert prepared.row.meaning is not None
        results = prepared.row.meaning(self.operands(prepared))
        for register, value in zip(prepared.outputs, results, strict=True):
            self.registers[register] = value & MASK

    def operands(self, prepared: Prepared) -> Operands:
        registers = self.registers
        values = dict(prepared.static)
        for name, register, is_signed in prepared.fields:
            value = registers[register]
            values[name] = signed(value) if is_signed else value
        return Operands(values)

    def _tensor(self, prepared: Prepared) -> None:
        row, known = prepared.row, self._decoded(prepared)
        o = known.operands
        if row.mnemonic == "RV":  # goes on in a stream
            o.values.update(seed=self.special["randomSeed"], counter=self.random_block)
            self.random_block += -(-max(o.n, 0) // 4)
        assert row.meaning is not None
        if self.observer is not None:  # who is told before anything changes
            self.observer.tensor(self, prepared, o, known.reads, known.writes)
        arrays = known.sources or [self.memory.read(self.place, region) for region in known.reads]
        kernel = self.kernels.get(row.mnemonic, row.meaning)
        results = kernel(o, *arrays)
        for raw, region, values in zip(known.targets, known.writes, results, strict=False):
            store(raw, region, values)
        for register, value in zip(prepared.outputs, results[len(known.writes) :], strict=True):
            self.registers[register] = int(value) & MASK
        if self.traced:
            self.flush()
            self.trace.tail.extend(known.records)
        if self.native is not None and self.kernels:
            self.native.visited(self.pc, o)

    def _decoded(self, prepared: Prepared) -> Decoded:
        """What the operands of an instruction decide; loops come back to the same ones."""
        key = (self.pc, prepared.key(self.registers))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            row, o = prepared.row, self.operands(prepared)
            assert row.writes is not None
            reads, writes = tuple(row.reads(o)) if row.reads else (), tuple(row.writes(o))
            memory, place = self.memory, self.place
            targets = [memory.view(place, region) for region in writes]  # faults come before any change
            raws = [memory.view(place, region) for region in reads]
            # A copy of scattered bytes or of packed values does not follow the memory.
            follow = all(x.flags.c_contiguous and r.fmt is not I4 for x, r in zip(raws, reads, strict=True))
            sources = [typed(x, r) for x, r in zip(raws, reads, strict=True)] if follow else []
            records = self._records(prepared, o) if self.traced else ()
            found = self._known[key] = Decoded(o, reads, writes, targets, sources, records)
        return found

    def _records(self, prepared: Prepared, o: Operands) -> Records:
        made = tensor_record(self.pc, prepared, o)
        if prepared.outputs:  # the register is needed before the next instruction can be decoded
            return made, SyncRecord(self.pc, (made.queue,))
        return (made,)

    def count(self, scalar_class: int) -> None:
        """One scalar instruction more in the running record."""
        if self.traced:
            self.scalar_record().counts[scalar_class] += 1

    def scalar_record(self, place: int | None = None) -> ScalarRecord:
        """The record of the scalar work since the last other event; `place` is where that began."""
        if self._scalar is None:
            self._scalar = ScalarRecord(self.pc if place is None else place, [0] * len(SCALAR_CLASSES))
        return self._scalar

    def take_scalar(self) -> ScalarRecord | None:
        """The running record, which the core forgets."""
        taken, self._scalar = self._scalar, None
        return taken

    def touch(self, address: int, size: int, is_write: bool) -> None:
        """Notes a scalar access to a scratchpad, which interlocks must order behind tensor instructions."""
        if not self.traced or split(address)[0] in (GDRAM, LDRAM, CODE):
            return
        self.count(CLASS_NUMBER["issue"])
        record = self._scalar
        assert record is not None
        old = record.writes if is_write else record.reads
        new = (min(old[0], address), max(old[1], address + size)) if old else (address, address + size)
        if is_write:
            record.writes = new
        else:
            record.reads = new

    def flush(self) -> None:
        """Closes the running scalar record."""
        if self._scalar is not None:
            self.trace.tail.append(self._scalar)
            self._scalar = None

    def name(self) -> str:
        kind = "memory core" if self.place.is_memory_core else f"core {self.place.core}"
        return f"cluster {self.place.cluster} {kind}"

    def fault(self, what: str, remedy: str = "correct the program, or its arguments") -> ProcessorFault:
        """A fault that names core, instruction and source line."""
        assert self.program is not None
        inside = 0 <= self.pc < len(self.code)
        text = instruction_text(self.code[self.pc].instruction) if inside else "no instruction"
        who = f"{self.name()}, task {self.special.get('taskId', 0)}"
        note = getattr(self.program, "notes", {}).get(self.pc)  # what the source calls it
        called = note.name if note is not None and note.name else f"instruction {self.pc}: {text}"
        where = f"{who}, {called} ({self.program.where(self.pc)})"
        expected = self.code[self.pc].row.line if inside else f"an instruction number below {len(self.code)}"
        return ProcessorFault(what, where=where, expected=expected, remedy=remedy)
