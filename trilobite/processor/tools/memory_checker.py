"""The memory checker: uninitialised bytes that matter, and stacks that leave their room.

Enters: what each core does, in the order of execution. Leaves: `Finding`s. Bounds and alignment are faults
of the simulator itself. Reading a byte that nothing wrote is normal (padded tails); it is reported when the
byte, or what was computed from it, reaches DRAM, a branch or an address. After a report the bytes count as
written, so that one error gives one finding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trilobite.processor.isa.address import address_text, split
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import I64, Array
from trilobite.processor.isa.row import GDRAM, LDRAM, NRAM, SRAM, VALUE_FIELDS, Operands, Region, region
from trilobite.processor.sim.control import LOADABLE
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.memory import LDRAM_BYTES, Memory, Place
from trilobite.processor.sim.prepared import Prepared
from trilobite.processor.tools.definedness import Definedness
from trilobite.processor.tools.findings import Finding, site_of
from trilobite.processor.tools.register_masks import extended, result_mask
from trilobite.processor.tools.spans import Key, Span, home
from trilobite.processor.tools.spreading import is_elementwise, spread
from trilobite.processor.tools.wording import Wording

STACK = 62
STATIC_LDRAM = 1 << 25  # what static arrays may take of LDRAM; the stack has the rest
INDEXED = {"VGATH": 1, "VSCAT": 2}  # the array that holds indices
WRITTEN = "bytes that the program or the host wrote before"
Report = Callable[[Finding], None]


class CoreState:
    """Undefined bits per register with where they came from, and the room of the stack."""

    def __init__(self, core: Core) -> None:
        self.undefined = [0] * 64
        self.origin = [""] * 64
        self.any = False
        self.uses_stack = True
        self.top = core.special["stack"]
        self.room: tuple[int, int] | None = None  # of the stack, once it was asked for

    def set(self, register: int, mask: int, origin: str) -> None:
        self.undefined[register], self.origin[register] = mask, origin
        self.any = self.any or mask != 0

    def clear(self, register: int) -> None:
        self.undefined[register] = 0
        self.any = any(self.undefined)


class MemoryChecker:
    def __init__(self, memory: Memory, report: Report, said: Wording | None = None) -> None:
        self.memory, self.report = memory, report
        self._said = said  # the words of the program's language
        self._shown = said.address if said is not None else address_text
        self.shadow = Definedness(memory)
        self.states: dict[Place, CoreState] = {}
        self.lanes: Callable[[int, Operands], None] | None = None  # told how undefined lanes spread
        self._origins: dict[tuple[Key, int], str] = {}  # by memory and byte, whoever wrote it
        self._seen: set[tuple[str, int]] = set()

    def began(self, core: Core) -> None:
        self.states[core.place] = CoreState(core)

    # Scalar instructions; all are told before they execute.

    def compute(self, core: Core, prepared: Prepared) -> None:
        """A scalar instruction without memory: the mask of its result."""
        state = self.states[core.place]
        if prepared.outputs[0] == STACK:
            self._move_stack(core, prepared)
        if not state.any:
            return
        mask = result_mask(prepared, state.undefined, core.registers)
        sources = prepared.instruction.registers[1:]
        origin = next((state.origin[register] for register in sources if state.undefined[register]), "")
        state.set(prepared.outputs[0], mask, origin)

    def define(self, core: Core, prepared: Prepared) -> None:
        """An instruction whose result never depends on its inputs: CALL, SREAD."""
        for register in prepared.outputs:
            self.states[core.place].clear(register)

    def branch(self, core: Core, registers: Sequence[int]) -> None:
        self._demand(core, registers, "a branch")

    def load(self, core: Core, prepared: Prepared, place: Region) -> None:
        state = self.states[core.place]
        self._address(core, prepared.instruction.registers[1:2])
        self._stack_access(core, prepared.instruction.registers[1], place)
        target = prepared.outputs[0]
        raw = self.shadow.bytes(core.place, place)
        if raw is None or raw.all():
            state.clear(target)
            return
        bits = int.from_bytes(bytes(np.where(raw.reshape(-1) == 0, 255, 0).astype(np.uint8)), "little")
        where = f"{self._shown(place.address)} ({core.program.where(core.pc)})" if core.program else ""
        at = home(self.memory, core.place, place.address)
        origin = self._origins.get(at, f"loaded from {where}")
        state.set(target, extended(place.fmt, bits), origin)

    def store(self, core: Core, prepared: Prepared, place: Region) -> None:
        state, fmt = self.states[core.place], place.fmt
        value, base = prepared.instruction.registers
        self._address(core, (base,))
        self._stack_access(core, base, place)
        mask = state.undefined[value] & ((1 << fmt.bits) - 1)
        if mask and split(place.address)[0] == GDRAM:
            self._demand(core, (value,), "DRAM")
            mask = 0
        raw = self.shadow.bytes(core.place, place)
        if raw is not None:
            flat = np.frombuffer(mask.to_bytes(8, "little"), np.uint8)[: fmt.bits // 8]
            raw.reshape(-1)[:] = flat == 0
            self._remember(core, place, state.origin[value], mask != 0)

    def atomic(self, core: Core, prepared: Prepared, place: Region) -> None:
        """The old value comes into a register and the new one into memory that others see."""
        _, at, *given = prepared.instruction.registers
        self._address(core, (at,))
        self._demand(core, given, "an atomic")
        raw = self.shadow.bytes(core.place, place)
        if raw is not None and not raw.all():
            self._uninitialised(core, "an atomic", self._unwritten(place.address))
        if raw is not None:
            raw[...] = 1
        self.states[core.place].clear(prepared.outputs[0])

    # Tensor instructions.

    def tensor(
        self,
        core: Core,
        prepared: Prepared,
        queue: str,
        o: Operands,
        reads: Sequence[Region],
        writes: Sequence[Region],
        spans: tuple[Sequence[Span], Sequence[Span]],
    ) -> None:
        """`spans` are the bytes of the regions that are not empty."""
        state = self.states[core.place]
        tainted = False
        if state.any:
            places = [register for name, register, _ in prepared.fields if name not in VALUE_FIELDS]
            self._address(core, places, queue)
            tainted = any(state.undefined[register] for _, register, _ in prepared.fields)
        if not tainted and all(self.shadow.is_defined(span) for span in spans[0]):
            for span in spans[1]:
                self.shadow.define(span)
            for register in prepared.outputs:
                state.clear(register)
            return
        masks = [self.shadow.undefined(core.place, read) for read in reads]
        self._judge_indices(core, prepared, queue, reads, masks)
        results = self._results(core, prepared, o, reads, masks, tainted)
        origin = self._origin(core, reads, masks)
        if tainted and not origin:
            registers = (register for _, register, _ in prepared.fields if state.undefined[register])
            origin = next((state.origin[register] for register in registers if state.origin[register]), "")
        for write, mask in zip(writes, results, strict=False):
            self._write(core, queue, write, mask, origin)
        for register, mask in zip(prepared.outputs, results[len(writes) :], strict=True):
            state.set(register, -int(mask.any()) & ((1 << 64) - 1), origin)

    def _judge_indices(
        self, core: Core, prepared: Prepared, queue: str, reads: Sequence[Region], masks: list[Array | None]
    ) -> None:
        number = INDEXED.get(prepared.row.mnemonic)
        if number is None or masks[number] is None or "zero" in prepared.instruction.flags:
            return
        text = self._origin(core, reads[number : number + 1], masks[number : number + 1])
        self._uninitialised(core, "an address", text, queue)
        masks[number] = None

    def _results(
        self,
        core: Core,
        prepared: Prepared,
        o: Operands,
        reads: Sequence[Region],
        masks: Sequence[Array | None],
        tainted: bool,
    ) -> Sequence[Array]:
        given = [np.zeros(read.shape, bool) if mask is None else mask
                 for read, mask in zip(reads, masks, strict=True)]  # fmt: skip
        results = spread(prepared.row, o, given, lambda number: self.memory.read(core.place, reads[number]))
        if tainted:
            return [np.ones_like(mask) for mask in results]
        if self.lanes is not None and is_elementwise(prepared.row) and results[0].ndim == 1:
            nowhere = np.logical_and.reduce(given)  # undefined in all operands
            if nowhere.any() and results[0][nowhere].all():
                self.lanes(core.pc, o)
        return results

    def spread_natively(self, place: Place, rows: Sequence[tuple[int, int, int]]) -> None:
        """Machine code left undefined elements in results: where these are, and what they came from."""
        for result, operand, first in rows:
            origin = self._known(place, operand, first) or self._unwritten(first)
            self._origins[home(self.memory, place, result)] = origin

    def _write(self, core: Core, queue: str, write: Region, mask: Array, origin: str) -> None:
        found: Array | None = mask if mask.any() else None
        if found is not None and split(write.address)[0] == GDRAM:
            size = int(np.count_nonzero(found)) * write.fmt.align
            what = f"{size} of {write.bytes} bytes, {origin}"
            self._uninitialised(core, "DRAM", what, queue)
            found = None
        self.shadow.write_mask(core.place, write, found)
        self._remember(core, write, origin, found is not None)

    # Where undefined bytes came from.

    def _remember(self, core: Core, place: Region, origin: str, is_undefined: bool) -> None:
        """Keeps the origin of undefined results by the first byte they were written to."""
        key = home(self.memory, core.place, place.address)
        if is_undefined and core.program is not None:
            self._origins[key] = origin or self._here(core)
        else:
            self._origins.pop(key, None)

    def _here(self, core: Core) -> str:
        assert core.program is not None
        return f"computed at {core.program.where(core.pc)} from undefined registers"

    def _origin(self, core: Core, reads: Sequence[Region], masks: Sequence[Array | None]) -> str:
        for read, mask in zip(reads, masks, strict=True):
            if mask is None:
                continue
            first = _element(read, int(np.flatnonzero(mask.reshape(-1))[0]))
            return self._known(core.place, read.address, first) or self._unwritten(first)
        return ""

    def _known(self, place: Place, address: int, first: int) -> str | None:
        """Where undefined bytes came from: by what wrote their place, or the first of them."""
        found = self._origins.get(home(self.memory, place, address))
        return found if found is not None else self._origins.get(home(self.memory, place, first))

    def _unwritten(self, address: int) -> str:
        return f"{self._shown(address)} was never written"

    # Findings.

    def _address(self, core: Core, registers: Sequence[int], queue: str = "control") -> None:
        self._demand(core, registers, "an address", queue)

    def _demand(self, core: Core, registers: Sequence[int], what: str, queue: str = "control") -> None:
        state = self.states[core.place]
        if not state.any:
            return
        for register in registers:
            if state.undefined[register]:
                origin = state.origin[register] or "its bytes were never written"
                self._uninitialised(core, what, f"{self._holder(core, register)}{origin}", queue)
                state.clear(register)

    def _holder(self, core: Core, register: int) -> str:
        """Who brings undefined bytes: the source's variables, in assembly the register."""
        if self._said is None or not self._said.is_bang:
            return f"${register}, "
        state = self.states[core.place]

        def is_undefined(kind: str, where: int) -> bool:
            if kind == "register":
                return bool(state.undefined[where])
            if kind != "frame":
                return False
            at = (core.registers[STACK] + where) & ((1 << 64) - 1)
            raw = self.shadow.bytes(core.place, region(at, I64, (1,), LOADABLE))
            return raw is not None and not raw.all()

        names = self._said.carriers(core, is_undefined)
        return f"through {names}, " if names else ""

    def _uninitialised(self, core: Core, what: str, detail: str, queue: str = "control") -> None:
        if (what, core.pc) in self._seen:
            return
        self._seen.add((what, core.pc))
        text = f"uninitialised bytes reach {what}: {detail}"
        remedy = "write the bytes first, or leave them out"
        self.report(Finding("uninitialised", text, (site_of(core, queue),), WRITTEN, remedy))

    # The stack.

    def room(self, core: Core) -> tuple[int, int]:
        """The addresses between which the stack may move."""
        state = self.states[core.place]
        if state.room is not None:
            return state.room
        top, machine = state.top, self.memory.machine
        rooms = {NRAM: machine.core.nram.reserved_kib << 10, SRAM: machine.sram.reserved_kib << 10,
                 LDRAM: LDRAM_BYTES - STATIC_LDRAM}  # fmt: skip
        space = split(top - 1)[0]
        state.room = top - rooms[space or LDRAM], top
        return state.room

    def _move_stack(self, core: Core, prepared: Prepared) -> None:
        """A push or pop keeps $62 a stack pointer; anything else makes it a register like others."""
        if not moves_stack(prepared.instruction):
            self.states[core.place].uses_stack = False

    def _stack_access(self, core: Core, base: int, place: Region) -> None:
        state, pointer = self.states[core.place], place.address
        if base != STACK or not state.uses_stack:
            return
        low, top = self.room(core)
        if pointer >= low:  # above its top the memory ends, which is a fault
            return
        state.uses_stack = False
        text = f"stack overflow: {address_text(pointer)} is outside the room of the stack"
        room = f"an address from {address_text(low)} to {address_text(top)}"
        remedy = "recurse less deeply, or make frames smaller"
        self.report(Finding("stack", text, (site_of(core, "control"),), room, remedy))


def moves_stack(instruction: Instruction) -> bool:
    """Whether an instruction that writes $62 pushes or pops."""
    return instruction.mnemonic in ("SADD", "SSUB") and instruction.registers[1] == STACK


def _element(place: Region, number: int) -> int:
    """The address of an element of a region, by its place in row-major order."""
    index = np.unravel_index(number, place.shape)
    inner = place.fmt.bits * int(index[-1]) // 8
    return (
        place.address
        + inner
        + sum(int(i) * stride for i, stride in zip(index[:-1], place.strides[:-1], strict=True))
    )
