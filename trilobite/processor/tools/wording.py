"""Findings in the words of the language that a program was written in.

Enters: a program; places in it, bytes, queues. Leaves: text. A BANG C program speaks of intrinsics, of its
arrays, of `__sync_io()` and `__sync_cluster()`; assembly and Python kernels speak of instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.isa.address import NAMES, OFFSET_MASK, SPACES, address_text
from trilobite.processor.isa.program import Program
from trilobite.processor.sim.core import Core
from trilobite.processor.sim.memory import Place
from trilobite.processor.tools.spans import Key, Span, key_text

_SYNCS = {
    "io": "__sync_io()",
    "move": "__sync_move()",
    "matrix": "__sync_compute()",
    "vector": "__sync_compute()",
}
_BARRIERS = {"cluster": "__sync_cluster()", "chip": "__sync_all()"}


class Wording:
    def __init__(self, program: Program) -> None:
        self.program = program
        self._notes = getattr(program, "notes", {})
        self.is_bang = any(note.name for note in self._notes.values())
        places = getattr(program, "buffers", ())
        self._arrays = [p for p in places if p.space in ("nram", "wram", "sram", "ldram", "acc")]

    def line(self, instruction: int) -> str:
        """What makes two instructions one to the reader: the line of a source, else the instruction."""
        return self.program.where(instruction) if self.is_bang else str(instruction)

    def bytes(self, key: Key, low: int, high: int, asking: Place | None) -> str:
        """Bytes of a memory, by the array that they lie in if there is one."""
        plain = key_text(key, low, high, asking)
        fitting = [p for p in self._arrays if p.space == NAMES[key[0]]
                   and p.offset <= low and high <= p.offset + p.bytes]  # fmt: skip
        if not fitting:
            return plain
        place = min(fitting, key=lambda p: p.bytes)
        return (
            f"{place.local[0] or place.name}, bytes {low - place.offset} to {high - place.offset} ({plain})"
        )

    def address(self, address: int) -> str:
        """One byte, by the array that it lies in if there is one."""
        space, offset = SPACES[address >> 56 & 0xFF], address & OFFSET_MASK
        fitting = [p for p in self._arrays if p.space == NAMES[space] and 0 <= offset - p.offset < p.bytes]
        if not fitting:
            return address_text(address)
        place = min(fitting, key=lambda p: p.bytes)
        name = place.local[0] or place.name
        return f"byte {offset - place.offset} of {name} ({address_text(address)})"

    def memory(self, core: Core, span: Span) -> str:
        return self.bytes(span.key, span.low, span.high, core.place)

    def carriers(self, core: Core, is_undefined: Callable[[str, int], bool]) -> str:
        """The source's variables that hold undefined bytes where a core is, as far as their places are known;
        `is_undefined` is asked for a part: a register, or a place in the frame."""
        alive = [p for p in getattr(self.program, "variables", ()) if p.first <= core.pc < p.last]
        found = [
            p.name for p in alive if not p.name.startswith("(") and any(is_undefined(*q) for q in p.parts)
        ]
        return ", ".join(dict.fromkeys(found))

    def sync(self, queue: str) -> str:
        return _SYNCS[queue] if self.is_bang else f"SYNC.{queue}"

    def barrier(self, scope: str) -> str:
        return _BARRIERS[scope] if self.is_bang else f"a BARRIER.{scope}"

    @property
    def order(self) -> str:
        """What would have ordered two accesses."""
        if self.is_bang:
            return "the order of one pipe, a __sync or a barrier from the first to the second"
        return "queue order, SYNC or BARRIER from the first to the second"
