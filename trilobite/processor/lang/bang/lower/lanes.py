"""Copies and the lanes of WRAM: what a direction says, and steps from lane to lane.

Sources that write the 64 lanes one by one step by a 64th of WRAM: 64 pieces, each the rows of one lane. The
matrix unit reads the lanes one behind the other without gaps, so such a copy steps by what it writes of a
lane instead. A lane must be written by one copy.
"""

from __future__ import annotations

import re

from trilobite.processor.isa.address import NUMBERS, SPACE_SHIFT
from trilobite.processor.isa.formats import I64, U64
from trilobite.processor.isa.row import WRAM
from trilobite.processor.isa.rows.matrix import LANES
from trilobite.processor.lang.bang.lower.function import FunctionLowering
from trilobite.processor.lang.bang.lower.tensor import Call
from trilobite.processor.lang.ir import Constant, Value


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


def lane_step(f: FunctionLowering, call: Call, step: Value, count: Value, written: Value) -> Value:
    """The step of a copy's destination; with a 64th of WRAM, 64 times, what is written of a lane."""
    lane = f.owner.machine.core.wram.bytes // LANES
    direction = direction_of(call)
    if direction and not direction.endswith("2WRAM"):
        return step
    if (f.owner.space_of(call.args["dst"]) or "wram") != "wram":
        return step
    if any(isinstance(v, Constant) and v.integer != known for v, known in ((step, lane), (count, LANES))):
        return step
    b = f.builder
    truth = b.arithmetic("and", I64, b.arithmetic("eq", I64, step, b.integer(lane)),
                         b.arithmetic("eq", I64, count, b.integer(LANES)))  # fmt: skip
    if not direction:
        place = b.cast(b.cast(call.args["dst"], I64), U64)
        space = b.cast(b.arithmetic("shr", U64, place, Constant(U64, SPACE_SHIFT)), I64)
        truth = b.arithmetic("and", I64, truth, b.arithmetic("eq", I64, space, b.integer(NUMBERS[WRAM])))
    return b.select(truth, written, step)
