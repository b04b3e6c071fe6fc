"""Time without data: a launch whose tensor instructions leave records and compute nothing.

Enters: a launch. Leaves: the trace that a launch with data would leave, as long as no value of a tensor
decides what happens next. Control and scalar code run as ever, on memories of their own (DRAM is the
device's; what is stored there is taken back). Registers and bytes that came out of a tensor are known to be
unknown: they may be operands that time does not depend on, and are refused as conditions, addresses, sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from trilobite.base.errors import DataDependence
from trilobite.processor.isa.address import NUMBERS, split
from trilobite.processor.isa.formats import Array
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, SRAM, VALUE_FIELDS, WRAM, Region
from trilobite.processor.sim.control import HANDLERS, after_atomic
from trilobite.processor.sim.core import MASK, Core, Kernel
from trilobite.processor.sim.memory import Memory, Place, lazy_bytes
from trilobite.processor.sim.prepared import CLASS_NUMBER, Prepared
from trilobite.processor.sim.tensor_step import MARK_SHIFT
from trilobite.processor.sim.timing.ranges import bounds

UNDO = 1 << 12  # stores to DRAM between two calls of the native code
OWNED = (LDRAM, NRAM, WRAM, SRAM, ACC)
BRANCHES = ("CB", "CBZ", "CBNZ", "BEQ", "BNE", "BLT", "BGE", "BLTU", "BGEU", "JUMP", "CALL", "RET")
Undone = tuple[int, int, int]  # address of the host, bytes, old word


class DryMemory(Memory):
    """The device's DRAM, and scratchpads in which nothing is known yet. A mark stands for a few bytes."""

    def __init__(self, real: Memory) -> None:
        self.machine, self.gdram, self.code, self.blocks = real.machine, real.gdram, real.code, real.blocks
        self.aligned = real.aligned
        self.unwritten = {}
        self._pads = {}
        self._marks: dict[tuple[str, int, int], Array] = {}
        self.overwritten: list[Undone] = []

    def marks(self, space: str, cluster: int, core: int) -> Array:
        """Of one memory: 1 for unknown in DRAM, where all is known at first; for known in the others."""
        key = (space, 0, 0) if space == GDRAM else (space, cluster, 0 if space == SRAM else core)
        if key not in self._marks:
            self._marks[key] = lazy_bytes((self.size(space) >> MARK_SHIFT) + 2)
        return self._marks[key]

    def is_known(self, place: Place, address: int, size: int) -> bool:
        marks, value = self._at(place, address, size)
        return bool((marks == value).all())

    def learn(self, place: Place, address: int, size: int, is_known: bool) -> None:
        """Bytes become known, as far as they fill their marks, or unknown."""
        marks, value = self._at(place, address, size)
        if not is_known or size >= 1 << MARK_SHIFT:
            marks[:] = value if is_known else 1 - value

    def _at(self, place: Place, address: int, size: int) -> tuple[Array, int]:
        """Marks of some bytes, and the value of those that are known."""
        space, cluster, core, offset = split(address)
        if space is None or space == CODE:
            return np.ones(1, np.uint8), 1
        found = self.marks(space, cluster - 1 if cluster else place.cluster, core - 1 if core else place.core)
        return found[offset >> MARK_SHIFT : (offset + size - 1 >> MARK_SHIFT) + 1], int(space != GDRAM)

    def keep(self, address: int, size: int) -> None:
        """A store to DRAM is about to happen."""
        space, _, _, offset = split(address)
        if space == GDRAM:
            old = int.from_bytes(self.gdram[offset : offset + size].tobytes(), "little")
            self.overwritten.append((self.gdram.ctypes.data + offset, size, old))

    def restore(self) -> None:
        """DRAM as it was."""
        base = self.gdram.ctypes.data
        for host, size, old in reversed(self.overwritten):
            at = host - base
            self.gdram[at : at + size] = np.frombuffer((old & MASK).to_bytes(8, "little")[:size], np.uint8)
        self.overwritten.clear()


class CoreShadow:
    """What is known of one core's registers, and where native code finds the marks of its memories."""

    def __init__(self, memory: DryMemory, place: Place) -> None:
        self.memory = memory
        self.taint = np.zeros(64, np.int64)
        self.undo = np.zeros(3 * UNDO, np.int64)
        self.marks = np.zeros(len(NUMBERS), np.int64)
        for space, number in NUMBERS.items():
            # constants are all known, by marks of their own
            found = np.ones(0, np.uint8) if space == CODE else memory.marks(space, place.cluster, place.core)
            self.marks[number] = found.ctypes.data
        self.constants = np.ones((memory.size(CODE) >> MARK_SHIFT) + 2, np.uint8)
        self.marks[NUMBERS[CODE]] = self.constants.ctypes.data

    def keep(self, count: int) -> None:
        """Stores of native code, to be taken back one day."""
        rows = self.undo[: 3 * count].reshape(-1, 3).tolist()
        self.memory.overwritten += [(host, size, old) for host, size, old in rows]


class DryCore(Core):
    """A core that notes tensor instructions instead of doing them."""

    def __init__(self, place: Place, memory: DryMemory, kernels: dict[str, Kernel]) -> None:
        super().__init__(place, memory, kernels, traced=True)
        self.dry_memory = memory
        self.shadow = CoreShadow(memory, place)

    def start(
        self,
        program: object,
        code: list[Prepared],
        entry: int,
        arguments: list[int],
        special: dict[str, int],
    ) -> None:
        super().start(program, code, entry, arguments, special)  # type: ignore[arg-type]
        self.shadow.taint[:] = 0

    def is_tainted(self, registers: Sequence[int]) -> bool:
        return bool(self.shadow.taint[list(registers)].any())

    def refuse(self, what: str) -> DataDependence:
        assert self.program is not None
        return DataDependence(
            f"the time of this launch depends on data: {what} comes out of a tensor",
            where=f"{self.name()}, {self.program.where(self.pc)}",
            expected="control, addresses and sizes that follow from arguments and constants",
            remedy="launch it with data",
        )

    def _scalar_step(self, prepared: Prepared) -> None:
        sources = [register for _, register, _ in prepared.fields]
        super()._scalar_step(prepared)
        self.shadow.taint[prepared.outputs] = self.is_tainted(sources)

    def _tensor(self, prepared: Prepared) -> None:
        for name, register, _ in prepared.fields:
            if self.shadow.taint[register] and name not in VALUE_FIELDS:
                raise self.refuse(f"the operand {name}")
        known = self._decoded(prepared)
        for region in known.writes:
            self._spoil(region)
        self.shadow.taint[prepared.outputs] = 1
        self.flush()
        self.trace.tail.extend(known.records)

    def _spoil(self, region: Region) -> None:
        low, high = bounds(region)
        if region.count and high > low:
            self.dry_memory.learn(self.place, low, high - low, is_known=False)


def _checked(name: str) -> Callable[[Core, Prepared], None]:
    """A branch, whose sources must be known."""

    def handler(core: Core, prepared: Prepared) -> None:
        assert isinstance(core, DryCore)
        if core.is_tainted([register for _, register, _ in prepared.fields]):
            raise core.refuse("what it branches on")
        HANDLERS[name](core, prepared)
        core.shadow.taint[prepared.outputs] = 0

    return handler


def _address(core: DryCore, prepared: Prepared) -> int:
    base = prepared.instruction.registers[1]
    if core.is_tainted([base]):
        raise core.refuse("an address")
    return (core.registers[base] + prepared.instruction.immediate) & MASK


def _load(core: Core, prepared: Prepared) -> None:
    assert isinstance(core, DryCore)
    address, size = _address(core, prepared), prepared.static["f0"].bits // 8
    HANDLERS["SLOAD"](core, prepared)
    core.shadow.taint[prepared.outputs] = not core.dry_memory.is_known(core.place, address, size)


def _store(core: Core, prepared: Prepared) -> None:
    assert isinstance(core, DryCore)
    address, size = _address(core, prepared), prepared.static["f0"].bits // 8
    memory, value = core.dry_memory, prepared.instruction.registers[0]
    memory.locate(core.place, address, 0, size, "".join((GDRAM, *OWNED)))  # faults come before any change
    memory.keep(address, size)
    HANDLERS["SSTORE"](core, prepared)
    memory.learn(core.place, address, size, is_known=not core.is_tainted([value]))


def _atomic(core: Core, prepared: Prepared) -> None:
    assert isinstance(core, DryCore)
    if core.is_tainted([prepared.instruction.registers[1]]):
        raise core.refuse("an address")
    core.registers[prepared.outputs[0]] = 0
    core.shadow.taint[prepared.outputs] = 1
    after_atomic(core)


def _print(core: Core, prepared: Prepared) -> None:
    """What would be printed may be data; time only counts the instruction."""
    core.count(CLASS_NUMBER["add"])
    core.pc += 1


def _known(name: str) -> Callable[[Core, Prepared], None]:
    def handler(core: Core, prepared: Prepared) -> None:
        assert isinstance(core, DryCore)
        HANDLERS[name](core, prepared)
        core.shadow.taint[prepared.outputs] = 0

    return handler


DRY_HANDLERS: dict[str, Callable[[Core, Prepared], None]] = {
    **HANDLERS,
    **{name: _checked(name) for name in BRANCHES},
    "SLOAD": _load, "SSTORE": _store, "ATOMIC": _atomic, "CAS": _atomic, "PRINT": _print,
    "SREAD": _known("SREAD"),
}  # fmt: skip

__all__ = ["DRY_HANDLERS", "DryCore", "DryMemory"]
