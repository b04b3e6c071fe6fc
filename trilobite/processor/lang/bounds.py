"""Which arrays the operands of memory operations may come from, for the checker of bounds.

Enters: a function before its addresses become arithmetic. Leaves: for every operation on memory the buffers
behind each of its pointers, where all that it may point to is known. Pointers are followed through
offsets, choices, loops, and through the words of the stack that hold them: the variables and structs of code
that is not optimised. What passes through other memory, or is computed as an integer, has no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.encode import Instruction
from trilobite.processor.isa.formats import BY_NAME, I64
from trilobite.processor.lang.codegen.registers import STACK_POINTER
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Buffer, Function, Op, Value
from trilobite.processor.lang.provenance import EVERYWHERE, NOWHERE, Points, Provenance
from trilobite.processor.lang.stack_words import StackWords
from trilobite.processor.lang.types import is_pointer

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
    result must lie apart, or only so that what is done in order, `elements` or `pieces`, is read before the
    result reaches it; and the arrays that its operands may lie in."""

    name: str = ""
    parameters: tuple[tuple[str, str], ...] = ()
    apart: bool = False
    arrays: tuple[tuple[str, tuple[Array, ...]], ...] = ()
    in_order: str = ""
    read: frozenset[str] = frozenset()  # operands that are read, and those that are written
    written: frozenset[str] = frozenset()


CALL = "call"  # attribute of a tensor operation: the name, parameters, `apart` and `in_order` of its CallNote
Sources = dict[str, tuple[Buffer, ...]]  # operand -> the arrays it may lie in
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


class _Reach(Provenance):
    """Provenance that looks into the stack."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self._words = StackWords(function)

    def arrays(self, pointer: Value) -> tuple[Buffer, ...]:
        """Everything that it may point to, if all of that is arrays of scratchpads; else nothing."""
        points = self.of(pointer)
        if points.spaces or not all(buffer.space in SPACES for buffer in points.buffers):
            return ()
        return tuple(sorted(points.buffers, key=lambda buffer: (buffer.name, buffer.bytes)))

    def _behind(self, op: Op, value: Value) -> tuple[list[Value], Points]:
        if op.opcode in ("load", "get"):
            held = self._words.values(op)
            return (held, NOWHERE) if held else ([], NOWHERE if op.opcode == "get" else _UNKNOWN)
        if op.opcode == "cast" and (is_pointer(value.type) or op.operands[0].type == I64):
            return [op.operands[0]], NOWHERE
        return super()._behind(op, value)


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
        name, parameters, apart, in_order = op.attrs.get(CALL, ("", (), False, ""))
        arrays = tuple(
            (operand, tuple(_array(buffer, offsets[buffer]) for buffer in buffers))
            for operand, buffers in sources.get(op, {}).items()
        )
        if name or arrays:
            used = contract(op.attrs["row"]).accesses if op.opcode == "tensor" else ()
            read, written = (
                frozenset(a.operand for a in used if chosen(a))
                for chosen in (attrgetter("reads"), attrgetter("writes"))
            )
            notes[_place(op, at, made)] = CallNote(name, parameters, apart, arrays, in_order, read, written)
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
