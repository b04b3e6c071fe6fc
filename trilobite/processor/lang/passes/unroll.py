"""Loops of few and known iterations become straight code.

Enters: a function. Leaves: the same function without the innermost loops that run at most `TRIPS` times,
counted by constants, with at most `OPERATIONS` operations in all copies. `simplify` then sees the counters as
numbers.
"""

from __future__ import annotations

from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.ir import Block, Constant, Function, Op, Result, Target, Value
from trilobite.processor.lang.passes.clone import clone_blocks
from trilobite.processor.lang.passes.induction import Shape, counters, shape_of

TRIPS = 8
OPERATIONS = 128


def unroll(function: Function) -> bool:
    """One loop after the other, until none is left that is short enough."""
    changed = False
    while True:
        graph = Graph(function)
        parents = {loop.parent.head for loop in graph.loops if loop.parent is not None}
        for loop in graph.loops:
            shape = shape_of(graph, loop) if loop.head not in parents else None
            trips = _trips(shape) if shape is not None else None
            if shape is not None and trips is not None:
                size = sum(len(block.ops) for block in loop.blocks)
                if trips <= TRIPS and size * trips <= OPERATIONS:
                    _unroll(function, shape, trips)
                    changed = True
                    break
        else:
            return changed


def _trips(shape: Shape) -> int | None:
    """How often the body runs, if the head compares a counter of constants with a constant."""
    loop = shape.loop
    last = loop.head.ops[-1]
    if loop.exits() != [(loop.head, t.block) for t in last.targets if t.block not in loop.blocks]:
        return None
    truth = last.operands[0] if last.opcode == "branch" else None
    op: Op | None = truth.op if isinstance(truth, Result) else None
    if op is None or op.opcode not in ("lt", "gt") or last.targets[1].block in loop.blocks:
        return None
    counter = next((c for c in counters(shape) if c.argument is op.operands[0]), None)
    if counter is None:
        return None
    numbers = [v.integer for v in (counter.first, counter.step, op.operands[1]) if isinstance(v, Constant)]
    if len(numbers) != 3:
        return None
    first, step, limit = numbers
    if (step > 0) != (op.opcode == "lt") or step == 0:
        return None
    return len(range(first, limit, step))


def _unroll(function: Function, shape: Shape, trips: int) -> None:
    loop = shape.loop
    order = [block for block in function.blocks if block in loop.blocks]
    entering = shape.entering
    made: list[Block] = []
    values: dict[Value, Value] = {}
    for trip in range(trips + 1):
        values = {}
        copies = clone_blocks(order if trip < trips else [loop.head], values)
        head = copies[loop.head]
        entering.block = head
        last = head.ops[-1]
        chosen = last.targets[0 if trip < trips else 1]
        head.ops[-1] = Op("jump", location=last.location, targets=[Target(chosen.block, chosen.args)])
        head.ops[-1].block = head
        if trip < trips:
            entering = copies[shape.latch].ops[-1].targets[0]
        made += copies.values()
    place = function.blocks.index(loop.head)
    function.blocks = [b for b in function.blocks if b not in loop.blocks]
    function.blocks[place:place] = made
    for op in function.ops():  # what the loop's head left behind is the last copy's
        op.replace_uses(values)
