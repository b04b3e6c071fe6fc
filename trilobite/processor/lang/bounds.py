"""Which arrays the operands of memory operations may come from, for the checker of bounds.

Enters: a function before its addresses become arithmetic. Leaves: for every operation on memory the buffers
behind each of its pointers, where all that it may point to is known. Pointers are followed through
offsets, choices, loops, and through the words of the stack that hold them: the variables and structs of code
that is not optimised. What passes through other memory, or is computed as an integer, has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import BY_NAME, I64
from trilobite.processor.lang.codegen.registers import STACK_POINTER
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Buffer, Constant, Function, Op, Result, Value, Variable
from trilobite.processor.lang.provenance import EVERYWHERE, NOWHERE, Points, Provenance
from trilobite.processor.lang.types import STACK, is_pointer

SPACES = frozenset(("nram", "wram", "sram", "ldram", "acc"))


@dataclass(frozen=True)
class Array:
    """An array as the checker knows it: its addresses and what the source calls it."""

    name: str
    low: int
    high: int
    element: int  # bytes
    declared: str


@dataclass(frozen=True)
class CallNote:
    """What the source calls an instruction: the intrinsic, its parameters by operand, whether source and
    result must lie apart, or the source at least ahead; and the arrays that its operands may lie in."""

    name: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    apart: bool = False
    arrays: tuple[tuple[str, tuple[Array, ...]], ...] = ()
    ahead: bool = False


CALL = "call"  # attribute of a tensor operation: the name, parameters, `apart` and `ahead` of its CallNote
Sources = dict[str, tuple[Buffer, ...]]  # operand -> the arrays it may lie in
Slot = tuple[Buffer, int | None]  # a place in a buffer of the stack; None: somewhere in it
_UNKNOWN = Points(spaces=frozenset([EVERYWHERE]))


def sources_of(function: Function) -> dict[Op, Sources]:
    """The known arrays behind the pointers of every operation that touches memory."""
    reach = _Reach(function)
    found = {}
    for op in function.ops():
        mine = {name: arrays for name, value in _pointers(op) if (arrays := reach.arrays(value))}
        if mine:
            found[op] = mine
    return found


def _pointers(op: Op) -> list[tuple[str, Value]]:
    if op.opcode == "tensor":
        promise = contract(op.attrs["row"])
        pairs = zip(promise.fields, op.operands, strict=True)
        return [(name, value) for name, value in pairs if promise.access(name) is not None]
    if op.opcode == "store":
        return [("", op.operands[1])]
    return [("", op.operands[0])] if op.opcode == "load" else []


def slot_of(pointer: Value, distance: int) -> Slot | None:
    """The word of the stack that a pointer means, if it is plain to see."""
    known: int | None = distance
    while isinstance(pointer, Result) and pointer.op.opcode in ("offset", "cast"):
        if pointer.op.opcode == "offset":
            step = pointer.op.operands[1]
            known = known + step.integer if known is not None and isinstance(step, Constant) else None
        pointer = pointer.op.operands[0]
    if not isinstance(pointer, Result) or pointer.op.opcode != "address":
        return None
    buffer = pointer.op.attrs["buffer"]
    return (buffer, known) if buffer.space == STACK else None


class _Reach(Provenance):
    """Provenance that looks into the stack."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self._stored: dict[Buffer, list[tuple[int | None, Value]]] = {}
        self._set: dict[Variable, list[Value]] = {}
        self._escaped: set[Buffer] = set()
        for op in function.ops():
            self._note(op)

    def _note(self, op: Op) -> None:
        if op.opcode == "store":
            slot = slot_of(op.operands[1], op.attrs["offset"])
            if slot is not None:
                self._stored.setdefault(slot[0], []).append((slot[1], op.operands[0]))
        if op.opcode == "set":
            self._set.setdefault(op.attrs["variable"], []).append(op.operands[0])
        if op.opcode in ("offset", "load", "note"):
            return
        handed = op.operands[:1] if op.opcode == "store" else op.uses()
        for value in handed:
            if op.opcode == "cast" and is_pointer(op.results[0].type):
                continue
            slot = slot_of(value, 0)
            if slot is not None:
                self._escaped.add(slot[0])

    def arrays(self, pointer: Value) -> tuple[Buffer, ...]:
        """Everything that it may point to, if all of that is arrays of scratchpads; else nothing."""
        points = self.of(pointer)
        if points.spaces or not all(buffer.space in SPACES for buffer in points.buffers):
            return ()
        return tuple(sorted(points.buffers, key=lambda buffer: (buffer.name, buffer.bytes)))

    def _behind(self, op: Op, value: Value) -> tuple[list[Value], Points]:
        if op.opcode == "load":
            return self._loaded(op)
        if op.opcode == "get":
            return (list(self._set.get(op.attrs["variable"], ())), NOWHERE)
        if op.opcode == "cast" and (is_pointer(value.type) or op.operands[0].type == I64):
            return [op.operands[0]], NOWHERE
        return super()._behind(op, value)

    def _loaded(self, op: Op) -> tuple[list[Value], Points]:
        slot = slot_of(op.operands[0], op.attrs["offset"])
        if slot is None or slot[0] in self._escaped:
            return [], _UNKNOWN
        buffer, at = slot
        stored = [
            v for place, v in self._stored.get(buffer, ()) if place is None or at is None or place == at
        ]
        return (stored, NOWHERE) if stored else ([], _UNKNOWN)


def notes_of(
    sources: Mapping[Op, Sources],
    places: Mapping[Op, int],
    made: Sequence[Instruction],
    offsets: Mapping[Buffer, int],
) -> dict[int, CallNote]:
    """What is known of every instruction that touches memory, by its place among those made of a function."""
    notes = {}
    for op, at in places.items():
        if op.opcode not in ("tensor", "load", "store"):
            continue
        name, parameters, apart, ahead = op.attrs.get(CALL, ("", (), False, False))
        arrays = tuple(
            (operand, tuple(_array(buffer, offsets[buffer]) for buffer in buffers))
            for operand, buffers in sources.get(op, {}).items()
        )
        if name or arrays:
            notes[_place(op, at, made)] = CallNote(name, parameters, apart, arrays, ahead)
    return notes


def _array(buffer: Buffer, offset: int) -> Array:
    low = address(LETTERS[buffer.space], offset)
    size = BY_NAME[buffer.element].bits // 8 if buffer.element in BY_NAME else 1
    return Array(buffer.local[0] or buffer.name, low, low + buffer.bytes, max(size, 1), str(buffer.location))


def _place(op: Op, at: int, made: Sequence[Instruction]) -> int:
    """The instruction of an operation that touches memory; spilled registers come from the stack."""
    while at < len(made):
        row = made[at].row
        is_scalar = row.mnemonic in ("SLOAD", "SSTORE") and made[at].registers[1] != STACK_POINTER
        if row.is_tensor if op.opcode == "tensor" else is_scalar:
            break
        at += 1
    return at
