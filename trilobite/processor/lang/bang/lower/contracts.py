"""What the table promises of operands, held against every use of an intrinsic.

Counts are at least 0; an intrinsic that cannot work in place has its result elsewhere; parts of the 2xx
family take vectors at multiples of 64 bytes, in multiples of 128. What is known when a source is compiled is
refused with its line. With `Options.contracts` the rest is asked where the kernel runs: a breach stops it.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.bang.lower.function import FunctionLowering
from trilobite.processor.lang.bang.lower.tensor import Call
from trilobite.processor.lang.bang.table.row import VECTOR_2XX
from trilobite.processor.lang.ir import Block, Constant, Result, Target, Value

ADDRESS, BYTES = 64, 128  # what addresses and sizes of vectors are multiples of on 2xx
BREACH = 3  # the code of the trap


def check_contract(f: FunctionLowering, call: Call) -> None:
    for p in call.form.parameters:
        value = call.args[p.name]
        if p.sign in "#%" and isinstance(value, Constant) and value.integer < 0:
            f.refuse(f"{call.form.name}: {p.name} is {value.integer}, a count is at least 0")
    _check_memories(f, call)
    if not call.form.in_place and not call.form.ahead:
        _check_in_place(f, call)
    if call.form.alignment == VECTOR_2XX and f.owner.machine.name.startswith("mlu2"):
        _check_alignment(f, call)


def _check_memories(f: FunctionLowering, call: Call) -> None:
    """Operands whose memory is plain to see lie where the table says."""
    words = call.form.space.split(", ")
    if words[0] not in ("nram", "wram"):
        return
    others = dict(word.split(" ") for word in words[1:])
    for p in call.form.parameters:
        found = f.owner.space_of(call.args[p.name]) if p.is_array else ""
        wanted = others.get(p.name, words[0])
        if found and found != wanted:
            f.refuse(f"{call.form.name}: {p.name} lies in {found}, it must lie in {wanted}")


def place_of(value: Value) -> tuple[object, int]:
    """The buffer or value that a pointer is a known number of bytes behind."""
    distance = 0
    while isinstance(value, Result) and value.op.opcode == "offset":
        step = value.op.operands[1]
        if not isinstance(step, Constant):
            return (value, distance)
        value, distance = value.op.operands[0], distance + step.integer
    if isinstance(value, Result) and value.op.opcode == "address":
        return (value.op.attrs["buffer"], distance)
    return (value, distance)


def _check_in_place(f: FunctionLowering, call: Call) -> None:
    written = [p.name for p in call.form.parameters if p.sign == ">"]
    read = [p.name for p in call.form.parameters if p.sign == "<"]
    for out in written[:1]:
        for name in read:
            said = f"{call.form.name}: {out} and {name} are one place; it does not work in place"
            if place_of(call.args[out]) == place_of(call.args[name]):
                if name != "partial":  # a sum may go on where it is
                    f.refuse(said)
            elif f.owner.contracts:
                b = f.builder
                same = b.arithmetic("eq", I64, _word(f, call.args[out]), _word(f, call.args[name]))
                _stop_if(f, same, said)


def _check_alignment(f: FunctionLowering, call: Call) -> None:
    """Buffers begin at multiples of 64, so that the distance from one tells."""
    name, machine = call.form.name, f.owner.machine.name
    for p in call.form.parameters:
        value = call.args[p.name]
        if p.is_array:
            base, distance = place_of(value)
            if not hasattr(base, "align"):
                said = f"{name}: {p.name} is no multiple of {ADDRESS}, as {machine} takes vectors"
                _stop_if_low_bits(f, _word(f, value), ADDRESS, said)
            elif distance % ADDRESS:
                f.refuse(f"{name}: {p.name} lies {distance % ADDRESS} bytes behind a multiple of {ADDRESS}; "
                         f"{machine} takes vectors at multiples of it")  # fmt: skip
        elif p.sign == "#":
            size = call.formats["T"].bits // 8 if "T" in call.formats else 1
            if not isinstance(value, Constant):
                said = f"{name}: {p.name} makes no multiple of {BYTES} bytes, as {machine} takes vectors"
                amount = f.builder.arithmetic("mul", I64, value, f.builder.integer(size))
                _stop_if_low_bits(f, amount, BYTES, said)
            elif value.integer * size % BYTES:
                f.refuse(f"{name}: {p.name} is {value.integer}, {value.integer * size} bytes; "
                         f"{machine} takes vectors of multiples of {BYTES}")  # fmt: skip


def _word(f: FunctionLowering, pointer: Value) -> Value:
    return f.builder.cast(pointer, I64)


def _stop_if_low_bits(f: FunctionLowering, value: Value, multiple: int, said: str) -> None:
    if f.owner.contracts:
        b = f.builder
        low = b.arithmetic("and", I64, value, b.integer(multiple - 1))
        _stop_if(f, b.arithmetic("ne", I64, low, b.integer(0)), said)


def _stop_if(f: FunctionLowering, truth: Value, said: str) -> None:
    b = f.builder
    broken, fine = Block("breach"), Block("fine")
    at = f.function.blocks.index(b.block) + 1
    f.function.blocks[at:at] = [broken, fine]
    b.emit("branch", [truth], targets=[Target(broken), Target(fine)])
    b.block = broken
    b.trap(BREACH, f"a contract of an intrinsic is broken: {said}")
    b.block = fine
