"""Variables in scratchpads that have a value of their own get it where a kernel begins.

`__nram__ float table[4] = {...}` is static storage, but a scratchpad holds nothing before a kernel runs. A
variable of one word is also set if the value is 0; arrays without a value stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from trilobite.processor.isa.formats import I8, I16, I32, I64
from trilobite.processor.lang.bang.lower.memory_core import reachable
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Block, Buffer, Constant, Function, KernelModule
from trilobite.processor.lang.types import STACK

_WORDS = {1: I8, 2: I16, 4: I32, 8: I64}


def initialise(module: KernelModule, entry: Function, values: Mapping[Buffer, bytes]) -> None:
    """Puts the stores and copies in front of the entry's first operation."""
    functions = reachable(module, entry)
    used = {op.attrs["buffer"] for f in functions for op in f.ops() if op.opcode == "address"}
    wanted = [buffer for buffer in values if buffer in used]
    if not wanted:
        return
    first = entry.blocks[0]
    initial, rest = Block("initial"), Block("rest")
    for op in first.ops:
        rest.append(op)
    first.ops = []
    b = Builder(module, entry)
    b.location = entry.location
    for buffer in wanted:
        if buffer.space == STACK:  # which every core has
            _set(b, buffer, values[buffer])
    b.branch(b.special("isMpu"), rest, initial)  # the memory core has no such memory
    b.block = initial
    for buffer in wanted:
        if buffer.space != STACK:
            _set(b, buffer, values[buffer])
    b.jump(rest)
    entry.blocks[1:1] = [initial, rest]


def _set(b: Builder, buffer: Buffer, content: bytes) -> None:
    fmt = _WORDS.get(len(content))
    if fmt is not None:
        b.store(fmt, Constant(fmt, int.from_bytes(content, "little", signed=True)), b.address(buffer))
    else:
        b.tensor("COPY", [b.address(buffer), b.table(content, buffer.name), b.integer(len(content))])
