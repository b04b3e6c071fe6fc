"""Arrays whose length is known only at run time: they lie behind each other in LDRAM.

A word of the frame says how much of that room is taken. LLVM reads it where a scope begins and writes it back
where it ends. Room that does not suffice stops the launch.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.types import size_of
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import word
from trilobite.processor.lang.ir import Block, Target, Value
from trilobite.processor.lang.types import ANY

ROOM = 1 << 20  # bytes of a core
ALIGN = 64
OVERFLOW = 5  # the code of the trap


def array_of_run_time(f: FunctionLowering, i: Instruction) -> Lowered:
    """The next bytes that are free."""
    b, step = f.builder, size_of(i.extra["type"])
    count = word(b, f.one(i.args[0]), False)
    size = b.arithmetic("mul", I64, count, b.integer(step)) if step != 1 else count
    padded = b.arithmetic("add", I64, size, b.integer(ALIGN - 1))
    whole = b.arithmetic("and", I64, padded, b.integer(-ALIGN))
    start = b.load(I64, _taken(f))
    end = b.arithmetic("add", I64, start, whole)
    full, fine = Block("full"), Block("fine")
    at = f.function.blocks.index(b.block) + 1
    f.function.blocks[at:at] = [full, fine]
    b.emit("branch", [b.arithmetic("gt", I64, end, b.integer(ROOM))], targets=[Target(full), Target(fine)])
    b.block = full
    b.trap(OVERFLOW, f"arrays of run-time length take more than {ROOM} bytes")
    b.block = fine
    b.store(I64, end, _taken(f))
    return (b.cast(b.offset(b.address(f.owner.room(ROOM)), start), ANY),)


def save(f: FunctionLowering, i: Instruction) -> Lowered:
    """llvm.stacksave: what is taken, as the pointer that LLVM wants."""
    return (f.builder.cast(f.builder.load(I64, _taken(f)), ANY),)


def restore(f: FunctionLowering, i: Instruction) -> Lowered:
    f.builder.store(I64, f.builder.cast(f.one(i.args[0]), I64), _taken(f))
    return ()


def _taken(f: FunctionLowering) -> Value:
    return f.builder.address(f.owner.taken())
