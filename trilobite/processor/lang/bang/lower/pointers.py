"""Pointers to functions: numbers, and calls that ask which function a number means.

The processor has no call through a register and kernels are inlined whole, so the address of a function is
its place among those whose address the source takes, and a call through a pointer is a chain of comparisons
over those of the right shape.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.bang.llvm.instructions import Instruction
from trilobite.processor.lang.bang.llvm.types import Void
from trilobite.processor.lang.bang.lower.control import call_defined
from trilobite.processor.lang.bang.lower.function import FunctionLowering, Lowered
from trilobite.processor.lang.bang.lower.scalars import leaves
from trilobite.processor.lang.ir import Block, Target


def call_pointer(f: FunctionLowering, i: Instruction) -> Lowered:
    """Calls the function that the pointer's number means; a number of none stops the launch."""
    b = f.builder
    known = [name for name in f.owner.llvm.taken if _fits(f, i, name)]
    if not known:
        f.refuse("a call through a pointer that no function of the source fits")
        return f.dummy(i.type)
    pointer = b.cast(f.one(i.extra["callee"]), I64)
    kinds = [] if isinstance(i.type, Void) else [f.scalar(leaf) for leaf in leaves(i.type)]
    behind = Block("called")
    results = tuple(behind.add_argument(kind) for kind in kinds)
    for name in known:
        yes, no = Block("call"), Block("other")
        at = f.function.blocks.index(b.block) + 1
        f.function.blocks[at:at] = [yes, no]
        number = b.integer(f.owner.llvm.number_of(name))
        b.emit("branch", [b.arithmetic("eq", I64, pointer, number)], targets=[Target(yes), Target(no)])
        b.block = yes
        b.emit("jump", targets=[Target(behind, list(call_defined(f, i, name)))])
        b.block = no
    b.trap(2, "a call through a pointer that points to no function")
    f.function.blocks.insert(f.function.blocks.index(b.block) + 1, behind)
    b.block = behind
    return results


def _fits(f: FunctionLowering, i: Instruction, name: str) -> bool:
    found = f.owner.llvm.function(name)
    if found is None or found.result != i.type or len(found.params) != len(i.args):
        return False
    return all(param.type == arg.type for param, arg in zip(found.params, i.args, strict=True))
