"""What strength reduction, unrolling and rotation know about a loop: preheader, latch, counting arguments."""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.cfg import Graph, Loop
from trilobite.processor.lang.ir import Argument, Block, Constant, Op, Result, Target, Value


@dataclass
class Counter:
    """A head argument that grows by the same amount in every iteration."""

    argument: Argument
    place: int
    first: Value
    step: Value


@dataclass
class Shape:
    """A loop with one entry and one latch."""

    loop: Loop
    before: Block
    latch: Block
    entering: Target
    returning: Target


def shape_of(graph: Graph, loop: Loop, is_tested_last: bool = False) -> Shape | None:
    """The loop's shape, if it is entered and repeated at one place each; `is_tested_last` takes those too
    whose latch decides whether to repeat."""
    outside = [b for b in graph.predecessors[loop.head] if b not in loop.blocks]
    if len(outside) != 1 or len(loop.latches) != 1:
        return None
    before, latch = outside[0], loop.latches[0]
    repeating = [target for target in latch.ops[-1].targets if target.block is loop.head]
    is_plain = latch.ops[-1].opcode == "jump" or is_tested_last
    if before.ops[-1].opcode != "jump" or not is_plain or len(repeating) != 1:
        return None
    return Shape(loop, before, latch, before.ops[-1].targets[0], repeating[0])


def is_invariant(value: Value, loop: Loop) -> bool:
    if isinstance(value, Constant):
        return True
    if isinstance(value, Argument):
        return value.block not in loop.blocks
    assert isinstance(value, Result)
    return value.op.block not in loop.blocks


def counters(shape: Shape) -> list[Counter]:
    """Arguments that the latch passes as themselves plus something that does not change."""
    found = []
    for place, argument in enumerate(shape.loop.head.args):
        grown = shape.returning.args[place]
        op: Op | None = grown.op if isinstance(grown, Result) else None
        if op is None or op.opcode != "add" or op.fmt is not I64:
            continue
        for one, other in ((0, 1), (1, 0)):
            if op.operands[one] is argument and is_invariant(op.operands[other], shape.loop):
                found.append(Counter(argument, place, shape.entering.args[place], op.operands[other]))
                break
    return found
