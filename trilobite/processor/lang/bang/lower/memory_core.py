"""Kernels that do not know of the memory core.

The memory core runs the same kernel text, has no NRAM, and takes part in `__sync_cluster` and `__sync_all`. A
source that never asks which core it is on was written for compute cores alone: there the memory core returns
at once, and barriers wait for compute cores only.
"""

from __future__ import annotations

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.ir import Block, Constant, Function, KernelModule, Op, Target
from trilobite.processor.lang.ops import COMPARISONS

MEMORY_CORE = 0x80  # its coreId


def leave_out_memory_core(module: KernelModule) -> None:
    """For every entry that does not ask; a function that others call as well keeps its barriers."""
    unaware = [entry for entry in module.entries if not _asks(reachable(module, entry))]
    shared = {f for entry in module.entries if entry not in unaware for f in reachable(module, entry)}
    for entry in unaware:
        for function in reachable(module, entry) - shared:
            for op in function.ops():
                if op.opcode == "barrier" and not op.attrs["members"]:
                    op.attrs["members"] = "ipu"
        _return_at_once(entry)


def reachable(module: KernelModule, entry: Function) -> set[Function]:
    """The entry and everything it calls."""
    found: set[Function] = set()
    work = [entry]
    while work:
        function = work.pop()
        if function not in found:
            found.add(function)
            work += [module.functions[op.attrs["function"]] for op in function.ops() if op.opcode == "call"]
    return found


def _asks(functions: set[Function]) -> bool:
    """`__is_mpu()`, or a comparison with the number that `coreId` has on the memory core."""
    specials = {op.attrs["name"] for f in functions for op in f.ops() if op.opcode == "special"}
    if "isMpu" in specials:
        return True
    return "coreId" in specials and any(
        isinstance(value, Constant) and value.value in (MEMORY_CORE - 1, MEMORY_CORE)
        for f in functions
        for op in f.ops()
        if op.opcode in COMPARISONS
        for value in op.operands
    )


def _return_at_once(function: Function) -> None:
    first = function.blocks[0]
    work, done = Block("work"), Block("memory_core")
    for op in first.ops:
        work.append(op)
    first.ops = []
    asked = Op("special", (), {"name": "isMpu"}, [I64], function.location)
    first.append(asked)
    first.append(
        Op("branch", [asked.result], location=function.location, targets=[Target(done), Target(work)])
    )
    done.append(Op("return", location=function.location))
    function.blocks[1:1] = [work, done]
