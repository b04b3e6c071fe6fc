"""Variables and buffers of a kernel while the debugger holds it.

Enters: a debugger on a compiled kernel. Leaves: the values of the source's names at the instruction where the
core in focus stands. At level 0 every variable is there; at level 2 those whose value still exists somewhere
or follows from values that do, and the others are said to be optimised away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trilobite.base.errors import ArgumentError
from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.formats import BY_NAME, I64, Array
from trilobite.processor.isa.row import region
from trilobite.processor.isa.rows.scalar import from_register
from trilobite.processor.lang.codegen.compile import BufferPlace, KernelProgram
from trilobite.processor.lang.codegen.variables import VariablePlace
from trilobite.processor.lang.recipe import computed
from trilobite.processor.lang.types import STACK
from trilobite.processor.sim.control import LOADABLE

if TYPE_CHECKING:
    from trilobite.processor.tools.debugger import Debugger

MASK = (1 << 64) - 1
STACK_POINTER = 62


class OptimisedAway:
    """Stands for the value of a variable that has been set and that no register or memory holds any more."""

    def __repr__(self) -> str:
        return "<optimised away>"


OPTIMISED_AWAY = OptimisedAway()


def variables(debugger: Debugger) -> dict[str, Any]:
    """Names and values, those of device functions as `function.name`; later assignments stand."""
    program = _program(debugger)
    core = debugger.core
    found: dict[str, Any] = {}
    for place in program.variables:
        if place.first <= core.pc < place.last and not place.name.startswith("("):
            found[_full_name(program, place.scope, place.name)] = _value(debugger, place)
    for held in program.buffers:
        if held.members and held.first <= core.pc < held.last:
            found[_full_name(program, *held.local)] = _parts(debugger, held)
    return found


def buffer(debugger: Debugger, name: str, slot: int = 0) -> Array:
    """A buffer's elements in its own shape; `slot` picks one of a pipelined loop's copies."""
    program = _program(debugger)
    known = {b.name: b for b in program.buffers}
    if name not in known:
        raise ArgumentError(
            f"the kernel has no buffer {name!r}",
            expected="one of " + ", ".join(known),
            remedy="buffers have the names they are assigned to",
        )
    found = known[name]
    at = _address(debugger, found) + slot * (found.bytes // found.slots)
    return debugger.tensor(at, found.element, found.shape or (found.bytes,))


def buffers_text(debugger: Debugger) -> str:
    """Every buffer with its memory, its elements and where it is declared."""
    rows = [
        f"{b.name}: {b.element} {'x'.join(map(str, b.shape or (b.bytes,)))} in {b.space} ({b.location})"
        for b in _program(debugger).buffers
    ]
    return "\n".join(rows) or "the kernel has no buffer"


def _address(debugger: Debugger, place: BufferPlace) -> int:
    if place.space == STACK:
        return (int(debugger.core.registers[STACK_POINTER]) + place.offset) & MASK
    return address(LETTERS[place.space], place.offset)


def _parts(debugger: Debugger, place: BufferPlace) -> Any:
    """An array as it is, a struct as its members by name."""
    at = _address(debugger, place)
    values: dict[str, Any] = {}
    for part in place.members:
        seen = debugger.tensor(at + part.offset, part.format, part.shape or (1,))
        values[part.path] = seen if part.shape else seen[0].item()
    return values.get("", values)


def _program(debugger: Debugger) -> KernelProgram:
    if not isinstance(debugger.program, KernelProgram):
        raise ArgumentError(
            "the program was not compiled from a kernel",
            expected="a Python or BANG C kernel",
            remedy="look at registers and memory instead",
        )
    return debugger.program


def _full_name(program: KernelProgram, scope: str, name: str) -> str:
    return name if scope in program.entries else f"{scope}.{name}"


def _value(debugger: Debugger, place: VariablePlace) -> Any:
    if not place.parts:
        return OPTIMISED_AWAY
    word = computed(place.recipe, [_word(debugger, kind, where) for kind, where in place.parts])
    fmt = BY_NAME.get(place.type)
    return word if fmt is None else from_register(fmt, word)[0].item()


def _word(debugger: Debugger, kind: str, where: int) -> int:
    core = debugger.core
    if kind == "number":
        return where
    if kind == "register":
        return int(core.registers[where])
    at = (core.registers[STACK_POINTER] + where) & MASK
    return int(debugger.device.memory.read(core.place, region(at, I64, (1,), LOADABLE))[0]) & MASK
