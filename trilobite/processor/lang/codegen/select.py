"""Instruction selection: one rule per operation that is more than one scalar row.

Enters: an operation whose values have registers. Leaves: its instructions, through the emitter.
"""

from __future__ import annotations

from collections.abc import Callable

from trilobite.processor.isa.address import LETTERS, address
from trilobite.processor.isa.formats import I64, U8, U16, U32, U64, Format
from trilobite.processor.isa.rows.control import SPECIAL_REGISTERS
from trilobite.processor.isa.table import MNEMONICS
from trilobite.processor.lang.codegen.emit import Emitter, row_of
from trilobite.processor.lang.codegen.legalise import NULL_RUN, as_immediate, is_move
from trilobite.processor.lang.codegen.moves import Register, Slot
from trilobite.processor.lang.codegen.registers import LINK, SPILL_REGISTERS, STACK_POINTER
from trilobite.processor.lang.intrinsics import contract
from trilobite.processor.lang.ir import Constant, Op
from trilobite.processor.lang.ops import OPS
from trilobite.processor.lang.scalar import constant_word, scalar_row
from trilobite.processor.lang.types import STACK, is_float


def _constant(emit: Emitter, op: Op) -> None:
    emit.number(emit.target(op.result), constant_word(op.attrs["value"]))
    emit.keep(op.result)


def _run(emit: Emitter, op: Op) -> None:
    first = emit.allocation.registers[op.result]
    for place, value in enumerate(op.operands):
        emit.copy(Register(first + place), emit.place_of(value))


def _select(emit: Emitter, op: Op) -> None:
    emit.finish(op, scalar_row("SSEL"), emit.takes(op.operands))


def _convert(emit: Emitter, op: Op) -> None:
    source = op.attrs["source"]
    registers = emit.takes(op.operands)
    if source is op.fmt:
        emit.finish(op, scalar_row("SMOVE"), registers)
    else:
        emit.finish(op, scalar_row("SCVT"), registers, (op.fmt, source), (op.attrs["rounding"],))


def _cast(emit: Emitter, op: Op) -> None:
    """Words are already extended as their type says, so widening is a move; the rest reads the low bits."""
    to, registers = op.attrs["type"], emit.takes(op.operands)
    if is_move(op):
        emit.finish(op, scalar_row("SMOVE"), registers)
    else:
        emit.finish(op, scalar_row("SADD", True), registers, (_unsigned(to) if is_float(to) else to,))


def _unsigned(fmt: Format) -> Format:
    return {8: U8, 16: U16, 32: U32, 64: U64}[fmt.bits]


def _offset(emit: Emitter, op: Op) -> None:
    a = emit.take(op.operands[0], SPILL_REGISTERS[0])
    second = op.operands[1]
    if isinstance(second, Constant):
        emit.finish(op, scalar_row("SADD", True), [a], (I64,), immediate=second.integer)
    else:
        emit.finish(op, scalar_row("SADD"), [a, emit.take(second, SPILL_REGISTERS[1])], (I64,))


def _address(emit: Emitter, op: Op) -> None:
    buffer = op.attrs["buffer"]
    offset = emit.layout.offsets[buffer]
    if buffer.space == STACK:
        below = offset - emit.layout.sizes[STACK]
        emit.finish(op, scalar_row("SADD", True), [STACK_POINTER], (I64,), immediate=below)
    else:
        emit.number(emit.target(op.result), address(LETTERS[buffer.space], offset))
        emit.keep(op.result)


def _table(emit: Emitter, op: Op) -> None:
    emit.number(emit.target(op.result), emit.tables[op.attrs["table"]])
    emit.keep(op.result)


def _special(emit: Emitter, op: Op) -> None:
    which = SPECIAL_REGISTERS.index(op.attrs.get("name", "clock"))
    emit.put(row_of("SREAD", "out", "imm"), (emit.target(op.result),), immediate=which)
    emit.keep(op.result)


def _get(emit: Emitter, op: Op) -> None:
    offset = emit.slot_offset(emit.homes[op.attrs["variable"]])
    emit.finish(op, scalar_row("SLOAD", True), [STACK_POINTER], (I64,), immediate=offset)


def _set(emit: Emitter, op: Op) -> None:
    emit.copy(Slot(emit.homes[op.attrs["variable"]]), emit.place_of(op.operands[0]))


def _load(emit: Emitter, op: Op) -> None:
    emit.finish(
        op, scalar_row("SLOAD", True), emit.takes(op.operands), (op.fmt,), immediate=op.attrs["offset"]
    )


def _store(emit: Emitter, op: Op) -> None:
    registers = tuple(emit.takes(op.operands))
    emit.put(scalar_row("SSTORE", True), registers, (op.fmt,), immediate=op.attrs["offset"])


def _atomic(emit: Emitter, op: Op) -> None:
    flags = (op.attrs["op"],) if op.opcode == "atomic" else ()
    emit.finish(op, scalar_row(OPS[op.opcode].mnemonic), emit.takes(op.operands), (op.fmt,), flags)


def _tensor(emit: Emitter, op: Op) -> None:
    """One register per operand of the row; a scalar that is left constant takes the immediate form."""
    row = contract(op.attrs["row"]).row
    registers: list[int] = []
    immediate: int | None = None
    for place, value in enumerate(op.operands):
        if not isinstance(value, Constant):
            registers.append(emit.take(value, SPILL_REGISTERS[place]))
        elif value.type is I64 and value.value == NULL_RUN and row.operands[place].kind == "run":
            registers.append(NULL_RUN)
        else:
            immediate = as_immediate(op.attrs["formats"][0], value)
    if op.results:
        registers.append(emit.target(op.result))
    if immediate is None:
        emit.put(row, tuple(registers), op.attrs["formats"], op.attrs["flags"])
    else:
        form = next(r for r in MNEMONICS[row.mnemonic] if r.immediate is not None)
        emit.put(form, tuple(registers), op.attrs["formats"], immediate=immediate)
    if op.results:
        emit.keep(op.result)


def _sync(emit: Emitter, op: Op) -> None:
    named = op.attrs["queues"]
    row = MNEMONICS["SYNC"][0]
    emit.put(row, flags=tuple(flag.name if flag.name in named else "" for flag in row.flags))


def _barrier(emit: Emitter, op: Op) -> None:
    emit.put(MNEMONICS["BARRIER"][0], flags=(op.attrs["scope"], op.attrs["members"]))


def _print(emit: Emitter, op: Op) -> None:
    emit.number(SPILL_REGISTERS[0], emit.tables[op.attrs["table"]])
    first = emit.allocation.registers[op.operands[0]] if op.operands else 0
    emit.put(MNEMONICS["PRINT"][0], (SPILL_REGISTERS[0], first))


def _call(emit: Emitter, op: Op) -> None:
    """Arguments in `$0` and on, results in `$0` and on; no other register outlives it."""
    emit.copies([(Register(n), emit.place_of(value)) for n, value in enumerate(op.operands)])
    emit.out.calls.append((len(emit.out.instructions), op.attrs["function"]))
    emit.put(row_of("CALL", "out", "target"), (LINK,))
    wanted = [(n, result) for n, result in enumerate(op.results) if emit.has_place(result)]
    emit.copies([(emit.destination(result), Register(n)) for n, result in wanted])


def _nothing(emit: Emitter, op: Op) -> None:
    """For the tools only."""


RULES: dict[str, Callable[[Emitter, Op], None]] = {
    "constant": _constant, "run": _run, "select": _select, "convert": _convert, "cast": _cast,
    "offset": _offset, "address": _address, "table": _table, "special": _special, "clock": _special,
    "get": _get, "set": _set, "load": _load, "store": _store, "atomic": _atomic, "cas": _atomic,
    "tensor": _tensor, "sync": _sync, "barrier": _barrier, "print": _print, "note": _nothing,
    "begin": _nothing, "keep": _nothing, "call": _call,
}  # fmt: skip
