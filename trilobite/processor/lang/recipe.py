"""What a variable is after its value has been optimised away: an expression over values that are left.

Enters: a note for the debugger, and which values exist. Leaves: the same note over existing values, with a
recipe for the rest; a note of nothing where the value cannot be had. Nothing is kept alive for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from trilobite.processor.lang.ir import Constant, Op, Result, Value
from trilobite.processor.lang.ops import PURE
from trilobite.processor.lang.scalar import evaluate

Recipe = int | tuple[Op, "tuple[Recipe, ...]"]  # the number of an operand, or an operation upon recipes
COMPUTED = PURE - {"address", "table", "special"}  # these are known only to the machine
LARGEST = 24  # operations of one recipe


def recipe_of(note: Op) -> Recipe | None:
    """How the note's variable follows from its operands; None if it does not exist any more."""
    if not note.operands:
        return None
    found: Recipe = note.attrs.get("recipe", 0)
    return found


def settle(note: Op, exists: Callable[[Value], bool]) -> None:
    """Operands that do not exist are replaced by how they were computed."""
    if all(isinstance(value, Constant) or exists(value) for value in note.operands):
        return
    writer = _Writer(exists)
    recipe = writer.again(recipe_of(note), note.operands)
    note.operands = writer.leaves if recipe is not None else []
    note.attrs = {"variable": note.attrs["variable"]}
    if recipe is not None and recipe != 0:
        note.attrs["recipe"] = recipe


class _Writer:
    """One recipe while it is written."""

    def __init__(self, exists: Callable[[Value], bool]) -> None:
        self.exists = exists
        self.leaves: list[Value] = []
        self.steps = 0

    def again(self, recipe: Recipe | None, operands: Sequence[Value]) -> Recipe | None:
        if recipe is None:
            return None
        if isinstance(recipe, int):
            return self._value(operands[recipe])
        return self._step(recipe[0], [self.again(part, operands) for part in recipe[1]])

    def _value(self, value: Value) -> Recipe | None:
        if isinstance(value, Constant) or self.exists(value):
            if value not in self.leaves:
                self.leaves.append(value)
            return self.leaves.index(value)
        if not isinstance(value, Result) or value.op.opcode not in COMPUTED:
            return None
        return self._step(value.op, [self._value(operand) for operand in value.op.operands])

    def _step(self, op: Op, parts: Sequence[Recipe | None]) -> Recipe | None:
        self.steps += 1
        known = tuple(part for part in parts if part is not None)
        return (op, known) if len(known) == len(parts) and self.steps <= LARGEST else None


def computed(recipe: Recipe, words: Sequence[int]) -> int:
    """The word of the variable, from those of the operands."""
    if isinstance(recipe, int):
        return words[recipe]
    op, parts = recipe
    return evaluate(op, [computed(part, words) for part in parts])
