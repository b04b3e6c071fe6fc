"""What variables and words of the stack hold in code that is not optimised: pointers, structs, references.

Enters: a function before its addresses become arithmetic. Leaves: for an address the word of the stack that
it means, and the values that are ever stored there. A reference is a variable or word that holds the address
of another word; it is followed as long as every store that might go through it is known. Words whose address
goes elsewhere have no answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trilobite.processor.lang.ir import Argument, Buffer, Constant, Function, Op, Result, Value, Variable
from trilobite.processor.lang.types import STACK, is_pointer

Slot = tuple[Buffer, int | None]  # a place in a buffer of the stack; None: somewhere in it
FAR = 1 << 62
ROUNDS = 12  # references to references that are followed
_MOVES = ("offset", "load", "note")  # do not hand an address on


class StackWords:
    def __init__(self, function: Function) -> None:
        self.set: dict[Variable, list[Value]] = {}
        self._stores: list[Op] = []
        self._handed: list[Value] = []
        for op in function.ops():
            self._note(op)
        self._stored: dict[Buffer, list[tuple[int | None, Value]]] = {}
        self._escaped: set[Buffer] = set()
        self._asked: dict[Op, int] = {}  # being looked at, by depth: a circle adds nothing to itself
        self._circle = FAR  # the least depth that a circle led back to
        self._known: dict[Op, Value | bool | None] = {}  # what `_held` found, while stores are the same
        self._gather()

    def _note(self, op: Op) -> None:
        if op.opcode == "store":
            self._stores.append(op)
            return
        if op.opcode == "set":
            self.set.setdefault(op.attrs["variable"], []).append(op.operands[0])
        elif op.opcode not in _MOVES and not (op.opcode == "cast" and is_pointer(op.results[0].type)):
            self._handed += op.uses()

    def _gather(self) -> None:
        """Until nothing new is found: what one round knows of references tells the next where stores go. A
        store that goes nobody knows where in the end may change all words whose address is held anywhere."""
        for _ in range(ROUNDS):
            stored: dict[Buffer, list[tuple[int | None, Value]]] = {}
            lost = False
            for op in self._stores:
                place = self.place(op.operands[1], op.attrs["offset"])
                lost |= place is None
                if isinstance(place, tuple):
                    stored.setdefault(place[0], []).append((place[1], op.operands[0]))
            escaped = set(self._given_away())
            if stored == self._stored and escaped == self._escaped:
                self._escaped = escaped | (set(self._addressed()) if lost else set())
                self._known.clear()
                return
            self._stored, self._escaped = stored, escaped
            self._known.clear()
        self._escaped = set(self._stored)
        self._known.clear()

    def _given_away(self) -> Iterator[Buffer]:
        """Buffers whose address goes to an operation that may do anything, or into other memory."""
        elsewhere = [op.operands[0] for op in self._stores if self.place(op.operands[1], 0) is False]
        yield from self._buffers((*self._handed, *elsewhere))

    def _addressed(self) -> Iterator[Buffer]:
        """Buffers whose address some word or variable holds."""
        yield from self._buffers([op.operands[0] for op in self._stores])
        for values in self.set.values():
            yield from self._buffers(values)

    def _buffers(self, values: Iterable[Value]) -> Iterator[Buffer]:
        for value in values:
            place = self.place(value, 0)
            if isinstance(place, tuple):
                yield place[0]

    def place(self, pointer: Value, distance: int) -> Slot | bool | None:
        """The word that an address means; False where it is none of the stack's, None where nobody knows."""
        known: int | None = distance
        for _ in range(ROUNDS):
            pointer, known = _stripped(pointer, known)
            if not isinstance(pointer, Result):
                return False if isinstance(pointer, (Argument, Constant)) else None
            if pointer.op.opcode == "address":
                buffer = pointer.op.attrs["buffer"]
                return (buffer, known) if buffer.space == STACK else False
            if pointer.op.opcode not in ("load", "get"):
                return None if pointer.op.opcode == "select" else False
            if pointer.op in self._asked:
                self._circle = min(self._circle, self._asked[pointer.op])
                return False
            found = self._held(pointer.op)
            if not isinstance(found, Value):
                return found
            pointer = found
        return None

    def _held(self, op: Op) -> Value | bool | None:
        """The one value that a load or variable has. Else False if it is none of the stack's: it comes out of
        other memory, or none is that it may be. What a circle cut short is not kept."""
        if op in self._known:
            return self._known[op]
        depth, outer = len(self._asked), self._circle
        self._asked[op], self._circle = depth, FAR
        found = self._looked_up(op)
        del self._asked[op]
        if self._circle >= depth:
            self._known[op], self._circle = found, FAR
        self._circle = min(self._circle, outer)
        return found

    def _looked_up(self, op: Op) -> Value | bool | None:
        held = self.values(op)
        if held is None:
            return False if self.place(op.operands[0], op.attrs["offset"]) is False else None
        if len(held) == 1:
            return held[0]
        return False if held and all(self.place(v, 0) is False for v in held) else None

    def values(self, op: Op) -> list[Value] | None:
        """All that the load of a word, or the use of a variable, may find; or None."""
        if op.opcode == "get":
            return self.set.get(op.attrs["variable"], [])
        place = self.place(op.operands[0], op.attrs["offset"])
        if not isinstance(place, tuple) or place[0] in self._escaped:
            return None
        at = place[1]
        return [v for p, v in self._stored.get(place[0], ()) if p is None or at is None or p == at]


def _stripped(pointer: Value, known: int | None) -> tuple[Value, int | None]:
    while isinstance(pointer, Result) and pointer.op.opcode in ("offset", "cast"):
        if pointer.op.opcode == "offset":
            step = pointer.op.operands[1]
            known = known + step.integer if known is not None and isinstance(step, Constant) else None
        pointer = pointer.op.operands[0]
    return pointer, known
