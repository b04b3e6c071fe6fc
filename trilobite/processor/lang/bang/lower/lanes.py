"""Copies and the lanes of WRAM: what a direction says, and steps from lane to lane.

Sources that write the 64 lanes one by one step by a 64th of WRAM: 64 pieces, each of one lane; their offsets
in WRAM are those of one lane. The matrix unit reads rows without gaps, so such a copy writes its 64 pieces
behind each other, 64 times as far in WRAM. Where one copy writes all that a lane has, that is the order in
which rows are dealt to lanes; where every copy writes one row of each lane, rows lie in order. A function
that holds such copies keeps the size of the last piece, and a product asks which of both it is.
"""

from __future__ import annotations

import re

from trilobite.processor.isa.address import NUMBERS, SPACE_SHIFT
from trilobite.processor.isa.formats import I64, U64, Format
from trilobite.processor.isa.row import WRAM
from trilobite.processor.isa.rows.matrix import LANES
from trilobite.processor.lang.bang.llvm.values import Number
from trilobite.processor.lang.bang.lower.function import FunctionLowering
from trilobite.processor.lang.bang.lower.tensor import Call
from trilobite.processor.lang.ir import Block, Constant, Result, Value


def direction_of(call: Call) -> str:
    """What the enumerator or the intrinsic's own name says; nothing if it is known only at run time."""
    old = re.search(r"_([a-z]+)_to_([a-z]+)$", call.form.name)
    if old:
        return f"{old[1]}2{old[2]}".upper().replace("DRAM", "GDRAM")
    value = call.args.get("direction")
    if not isinstance(value, Constant) or not 0 <= value.integer < len(DIRECTIONS):
        return ""
    return DIRECTIONS[value.integer]


DIRECTIONS = (
    "GDRAM2NRAM NRAM2GDRAM LDRAM2NRAM NRAM2LDRAM GDRAM2WRAM WRAM2GDRAM LDRAM2WRAM WRAM2LDRAM "
    "NRAM2NRAM NRAM2WRAM WRAM2NRAM GDRAM2SRAM SRAM2GDRAM LDRAM2SRAM SRAM2LDRAM SRAM2NRAM NRAM2SRAM "
    "SRAM2WRAM WRAM2SRAM GDRAM2GDRAM GDRAM2LDRAM LDRAM2GDRAM LDRAM2LDRAM SRAM2SRAM WRAM2WRAM"
).split()


def plan_lanes(f: FunctionLowering) -> None:
    """A variable for the size of the last piece, in a function that names a 64th of WRAM."""
    lane = f.owner.machine.core.wram.bytes // LANES
    operands = [arg.value for block in f.source.blocks for i in block.instructions for arg in i.args]
    if any(isinstance(value, Number) and value.value == lane for value in operands):
        f.lanes = f.function.add_variable("lanes", I64)
        f.builder.set(f.lanes, Constant(I64, 0))


def in_lanes(
    f: FunctionLowering, call: Call, step: Value, count: Value, written: Value
) -> tuple[Value, Value]:
    """Destination and step of a copy; with a 64th of WRAM, 64 times, piece behind piece."""
    b, dst = f.builder, call.args["dst"]
    lane, direction = f.owner.machine.core.wram.bytes // LANES, direction_of(call)
    if direction and not direction.endswith("2WRAM"):
        return dst, step
    if (f.owner.space_of(dst) or "wram") != "wram":
        return dst, step
    if any(isinstance(v, Constant) and v.integer != known for v, known in ((step, lane), (count, LANES))):
        plain_copy(f, call)
        return dst, step
    truth = b.arithmetic("and", I64, b.arithmetic("eq", I64, step, b.integer(lane)),
                         b.arithmetic("eq", I64, count, b.integer(LANES)))  # fmt: skip
    if not direction:
        place = b.cast(b.cast(dst, I64), U64)
        space = b.cast(b.arithmetic("shr", U64, place, Constant(U64, SPACE_SHIFT)), I64)
        truth = b.arithmetic("and", I64, truth, b.arithmetic("eq", I64, space, b.integer(NUMBERS[WRAM])))
    if f.lanes is not None:
        b.set(f.lanes, b.select(truth, written, b.get(f.lanes)))
        dst = b.select(truth, _spread(f, dst), dst)
    return dst, b.select(truth, written, step)


def plain_copy(f: FunctionLowering, call: Call) -> None:
    """Other copies to WRAM leave rows as they are."""
    if f.lanes is not None and direction_of(call).endswith("2WRAM"):
        f.builder.set(f.lanes, f.builder.integer(0))


def _spread(f: FunctionLowering, place: Value) -> Value:
    """64 times as far behind the beginning of its buffer, if that is known."""
    b, base = f.builder, place
    while isinstance(base, Result) and base.op.opcode == "offset":
        base = base.op.operands[0]
    if not (isinstance(base, Result) and base.op.opcode == "address"):
        buffers = f.owner.llvm.in_section("wram")
        if len(buffers) != 1:
            return place
        base = b.address(f.owner.buffer(buffers[0]))
    distance = b.arithmetic("sub", I64, b.cast(place, I64), b.cast(base, I64))
    return b.offset(place, b.arithmetic("mul", I64, distance, b.integer(LANES - 1)))


def product(
    f: FunctionLowering, row: str, operands: list[Value], formats: list[Format], flags: list[str], k: Value
) -> None:
    """A product whose filters, of k numbers, lie as the last copy left them; its third operand is where."""
    b = f.builder
    if f.lanes is None:
        b.tensor(row, operands, formats, flags)
        return
    piece, bits = b.get(f.lanes), b.arithmetic("mul", I64, k, b.integer(formats[2].bits))
    whole = b.arithmetic("eq", I64, b.arithmetic("mul", I64, piece, b.integer(8)), bits)
    right = b.select(b.arithmetic("ne", I64, piece, b.integer(0)), _spread(f, operands[2]), operands[2])
    in_order, dealt, behind = Block("in_order"), Block("dealt"), Block("behind")
    at = f.function.blocks.index(b.block) + 1
    f.function.blocks[at:at] = [in_order, dealt, behind]
    b.branch(whole, in_order, dealt)
    for block, last in ((in_order, ""), (dealt, "lanes")):
        b.block = block
        b.tensor(row, [*operands[:2], right, *operands[3:]], formats, [*flags[:-1], last])
        b.jump(behind)
    b.block = behind
