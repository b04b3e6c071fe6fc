"""The meaning of control, scalar memory and atomic instructions: changes of one core's state.

Enters: a core and a prepared instruction. Leaves: the core after it. One function per mnemonic or family.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from trilobite.processor.isa import arithmetic
from trilobite.processor.isa.address import split
from trilobite.processor.isa.formats import F64, U8, Array, Format
from trilobite.processor.isa.row import ACC, CODE, GDRAM, LDRAM, NRAM, SRAM, WRAM, region, signed
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.isa.rows.scalar import from_register, to_register
from trilobite.processor.sim.core import MASK, Core
from trilobite.processor.sim.prepared import CLASS_NUMBER, Prepared, sync_queues
from trilobite.processor.sim.record import BarrierRecord, SyncRecord

LOADABLE = GDRAM + LDRAM + NRAM + WRAM + SRAM + ACC + CODE
STORABLE = GDRAM + LDRAM + NRAM + WRAM + SRAM + ACC
ATOMIC_SPACES = GDRAM + SRAM
BRANCH = CLASS_NUMBER["branch"]
PRINTF = re.compile(r"%%|%[-+ 0#]*\d*(?:\.\d+)?(?:hh|h|ll|l|z)?([dixXufFeEgGcsp])")


def _jump(core: Core, target: int) -> None:
    if not 0 <= target <= len(core.code):
        raise core.fault(
            f"the program jumps to instruction {target}, outside its {len(core.code)} instructions"
        )
    core.pc = target


def _branch_if(test: Callable[[list[int], tuple[int, ...]], bool]) -> Callable[[Core, Prepared], None]:
    def handler(core: Core, prepared: Prepared) -> None:
        core.count(BRANCH)
        instruction = prepared.instruction
        if test(core.registers, instruction.registers):
            _jump(core, core.pc + instruction.immediate)
        else:
            core.pc += 1

    return handler


def _unconditional(core: Core, prepared: Prepared) -> None:
    """JUMP, CALL and RET: to a label, or to where a register says."""
    core.count(BRANCH)
    instruction = prepared.instruction
    if prepared.row.immediate:
        target = core.pc + instruction.immediate
    else:
        target = core.registers[instruction.registers[-1]]
    if prepared.outputs:
        core.registers[prepared.outputs[0]] = core.pc + 1
    _jump(core, target)


def _nop(core: Core, prepared: Prepared) -> None:
    core.count(CLASS_NUMBER["issue"])
    core.pc += 1


def _halt(core: Core, prepared: Prepared) -> None:
    core.count(CLASS_NUMBER["issue"])
    core.flush()
    core.halted, core.event = True, "halt"


def _trap(core: Core, prepared: Prepared) -> None:
    code = prepared.instruction.immediate
    printed = "".join(core.printed).rstrip().rpartition("\n")[2]  # the last line may say why
    message = core.program.messages.get(core.pc, "") if core.program is not None else ""
    what = f"the program trapped with code {code}"
    if message:
        what += f": {message}" + (f"; the last line it printed: {printed}" if printed else "")
    elif printed:
        what += f": {printed}"
    raise core.fault(what, "the program itself found something wrong; see what leads here")


def _sync(core: Core, prepared: Prepared) -> None:
    core.flush()
    if core.traced:
        core.trace.tail.append(SyncRecord(core.pc, sync_queues(prepared.instruction)))
    core.pc += 1


def _barrier(core: Core, prepared: Prepared) -> None:
    """The chip counts who has arrived; the program counter moves on when the meeting is complete."""
    core.flush()
    core.event = "barrier"


def pass_barrier(core: Core, meeting: int, scope: str) -> None:
    if core.traced:
        core.trace.tail.append(BarrierRecord(core.pc, scope, meeting))
    core.pc += 1


def _sread(core: Core, prepared: Prepared) -> None:
    number = prepared.instruction.immediate
    if not 0 <= number < len(SPECIAL_REGISTERS):
        raise core.fault(f"there is no special register {number}")
    name = SPECIAL_REGISTERS[number]
    if name == "clock":  # functional time: instructions executed; timing replaces it in its own report
        core.special["readClock"] = 1
        value = core.trace.instructions
    else:
        value = core.special[name]
    core.registers[prepared.outputs[0]] = value & MASK
    core.count(CLASS_NUMBER["add"])
    core.pc += 1


def _access_class(address: int) -> int:
    return CLASS_NUMBER["dram" if split(address)[0] in (GDRAM, LDRAM, CODE) else "scratchpad"]


def _remember(core: Core, address: int) -> None:
    """Translated code may know this DRAM block from now on."""
    if core.native is not None and split(address)[0] == GDRAM:
        core.native.remember_block(core.memory, address)


def _load(core: Core, prepared: Prepared) -> None:
    fmt: Format = prepared.static["f0"]
    address = (core.registers[prepared.instruction.registers[1]] + prepared.instruction.immediate) & MASK
    element = core.memory.read(core.place, region(address, fmt, (1,), LOADABLE))
    core.registers[prepared.outputs[0]] = to_register(fmt, element)
    core.count(_access_class(address))
    core.touch(address, fmt.bits // 8, is_write=False)
    _remember(core, address)
    core.pc += 1


def _store(core: Core, prepared: Prepared) -> None:
    fmt: Format = prepared.static["f0"]
    value, base = (core.registers[register] for register in prepared.instruction.registers)
    address = (base + prepared.instruction.immediate) & MASK
    core.memory.write(core.place, region(address, fmt, (1,), STORABLE), from_register(fmt, value))
    core.count(_access_class(address))
    core.touch(address, fmt.bits // 8, is_write=True)
    _remember(core, address)
    core.pc += 1


ATOMIC_FUNCTIONS: dict[str, Callable[[Format, Array, Array], Array]] = {
    "add": arithmetic.add,
    "exch": lambda fmt, old, new: new,
    "and": arithmetic.bit_and,
    "or": arithmetic.bit_or,
    "xor": arithmetic.bit_xor,
    "max": arithmetic.greater_merge,
    "min": arithmetic.less_merge,
    "inc": lambda fmt, old, limit: (0 * old if old[0] >= limit[0] else old + fmt.dtype.type(1)).astype(
        fmt.dtype
    ),
    "dec": lambda fmt, old, limit: limit if old[0] == 0 or old[0] > limit[0] else old - fmt.dtype.type(1),
}


def _atomic(core: Core, prepared: Prepared) -> None:
    fmt: Format = prepared.static["f0"]
    _, at, given = prepared.instruction.registers
    place = region(core.registers[at], fmt, (1,), ATOMIC_SPACES)
    old = core.memory.read(core.place, place).copy()
    new = ATOMIC_FUNCTIONS[prepared.static["op"]](fmt, old, from_register(fmt, core.registers[given]))
    core.memory.write(core.place, place, new)
    core.registers[prepared.outputs[0]] = to_register(fmt, old)
    after_atomic(core)


def _compare_and_swap(core: Core, prepared: Prepared) -> None:
    fmt: Format = prepared.static["f0"]
    _, at, expected, given = prepared.instruction.registers
    place = region(core.registers[at], fmt, (1,), ATOMIC_SPACES)
    old = core.memory.read(core.place, place).copy()
    if old[0] == from_register(fmt, core.registers[expected])[0]:
        core.memory.write(core.place, place, from_register(fmt, core.registers[given]))
    core.registers[prepared.outputs[0]] = to_register(fmt, old)
    after_atomic(core)


def after_atomic(core: Core) -> None:
    core.count(CLASS_NUMBER["atomic"])
    core.pc += 1
    core.event = "atomic"


def _text_at(core: Core, address: int, limit: int = 4096) -> str:
    found = bytearray()
    while len(found) < limit:
        byte = int(core.memory.read(core.place, region(address + len(found), U8, (1,), LOADABLE))[0])
        if byte == 0:
            break
        found.append(byte)
    return found.decode("latin-1")


def _print(core: Core, prepared: Prepared) -> None:
    """Like C's printf: %d %i signed, %u %x unsigned, %f %e %g an f64, %c a character, %s an address, %p."""
    at, first = prepared.instruction.registers
    taken = 0

    def value(match: re.Match[str]) -> str:
        nonlocal taken
        if match[0] == "%%":
            return "%"
        if first + taken > 63:
            raise core.fault("the format takes more values than there are registers")
        raw = core.registers[first + taken]
        taken += 1
        spec = re.sub(r"hh|h|ll|l|z", "", match[0])
        return _formatted(core, spec, match[1], raw)

    core.printed.append(PRINTF.sub(value, _text_at(core, core.registers[at])))
    core.count(CLASS_NUMBER["add"])
    core.pc += 1


def _formatted(core: Core, spec: str, kind: str, raw: int) -> str:
    if kind in "di":
        return spec.replace("i", "d") % signed(raw)
    if kind in "fFeEgG":
        return spec % float(from_register(F64, raw)[0])
    if kind == "s":
        return spec % _text_at(core, raw)
    if kind == "c":
        return chr(raw & 0xFF)
    return (spec[:-1] + "d" if kind == "u" else spec) % raw if kind != "p" else f"{raw:#x}"


HANDLERS: dict[str, Callable[[Core, Prepared], None]] = {
    "NOP": _nop, "HALT": _halt, "TRAP": _trap, "JUMP": _unconditional, "CALL": _unconditional,
    "RET": _unconditional, "SYNC": _sync, "BARRIER": _barrier, "SREAD": _sread, "PRINT": _print,
    "SLOAD": _load, "SSTORE": _store, "ATOMIC": _atomic, "CAS": _compare_and_swap,
    "CB": _branch_if(lambda r, x: 0 < r[x[0]] < 1 << 63),
    "CBZ": _branch_if(lambda r, x: r[x[0]] == 0),
    "CBNZ": _branch_if(lambda r, x: r[x[0]] != 0),
    "BEQ": _branch_if(lambda r, x: r[x[0]] == r[x[1]]),
    "BNE": _branch_if(lambda r, x: r[x[0]] != r[x[1]]),
    "BLT": _branch_if(lambda r, x: signed(r[x[0]]) < signed(r[x[1]])),
    "BGE": _branch_if(lambda r, x: signed(r[x[0]]) >= signed(r[x[1]])),
    "BLTU": _branch_if(lambda r, x: r[x[0]] < r[x[1]]),
    "BGEU": _branch_if(lambda r, x: r[x[0]] >= r[x[1]]),
}  # fmt: skip

__all__ = ["HANDLERS", "after_atomic", "pass_barrier"]
