"""Loop-invariant motion: pure operations whose operands come from outside a loop are computed before it.

Enters: a function, and how many registers hoisted values may keep through a loop. Leaves: the same function
with a preheader for every loop. Memory is not read early.
"""

from __future__ import annotations

from trilobite.processor.lang.cfg import Graph, Loop
from trilobite.processor.lang.ir import Argument, Block, Constant, Function, Op, Result, Target, Value
from trilobite.processor.lang.ops import PURE

MOVABLE = PURE | {"constant", "run"}
WIDEST = 24  # registers that runs may hold through loops: they cannot be spilled


def preheader(function: Function, graph: Graph, loop: Loop) -> Block:
    """The one block before the loop, made (and entered into the graph) if there is none."""
    outside = [block for block in graph.predecessors[loop.head] if block not in loop.blocks]
    if len(outside) == 1 and outside[0].successors == [loop.head]:
        return outside[0]
    made = Block(f"before {loop.head.name}")
    passed = [made.add_argument(arg.type, arg.name) for arg in loop.head.args]
    made.append(Op("jump", location=loop.head.ops[0].location, targets=[Target(loop.head, list(passed))]))
    for block in outside:
        for target in block.ops[-1].targets:
            if target.block is loop.head:
                target.block = made
    function.blocks.insert(function.blocks.index(loop.head), made)
    graph.order.insert(graph.order.index(loop.head), made)
    graph.predecessors[made] = outside
    graph.predecessors[loop.head] = [made, *(b for b in graph.predecessors[loop.head] if b in loop.blocks)]
    around = loop.parent
    while around is not None:
        around.blocks[made] = None
        around = around.parent
    return made


def hoist(function: Function, room: int = 40) -> bool:
    """Innermost loops first, so that a value may rise through several."""
    changed = False
    runs: set[Op] = set()
    graph = Graph(function)
    for loop in sorted(graph.loops, key=lambda loop: -loop.depth):
        changed |= _hoist_from(function, graph, loop, room, runs)
    return changed


def _hoist_from(function: Function, graph: Graph, loop: Loop, room: int, runs: set[Op]) -> bool:
    inside: set[Op] = {op for block in loop.blocks for op in block.ops}
    carried = _live_through(loop)
    moved: list[Op] = []
    for block in [block for block in graph.order if block in loop.blocks]:
        for op in list(block.ops):
            if op.opcode not in MOVABLE or not _invariant(op, loop, inside):
                continue
            width = _width(op.result)
            if carried + width > room or (op.opcode == "run" and not _admitted(op, runs)):
                continue
            carried += width
            block.ops.remove(op)
            inside.discard(op)
            moved.append(op)
    if moved:
        before = preheader(function, graph, loop)
        last = before.ops.pop()
        for op in [*moved, last]:
            before.append(op)
    return bool(moved)


def _width(value: Value) -> int:
    """Registers that a value takes."""
    return int(value.op.attrs.get("width", 1)) if isinstance(value, Result) else 1


def _admitted(op: Op, runs: set[Op]) -> bool:
    """Whether one more run may live through a loop."""
    if op not in runs and sum(_width(run.result) for run in runs) + _width(op.result) > WIDEST:
        return False
    runs.add(op)
    return True


def _invariant(op: Op, loop: Loop, inside: set[Op]) -> bool:
    for value in op.operands:
        if isinstance(value, Constant):
            continue
        if isinstance(value, Argument):
            if value.block in loop.blocks:
                return False
        elif isinstance(value, Result) and value.op in inside:
            return False
    return True


def _live_through(loop: Loop) -> int:
    """Registers that the loop holds anyway: its own arguments, and what it reads from outside."""
    inside: set[Op] = {op for block in loop.blocks for op in block.ops}
    outside: set[Value] = set(loop.head.args)
    for op in inside:
        for value in op.uses():
            if isinstance(value, Result):
                if value.op not in inside:
                    outside.add(value)
            elif isinstance(value, Argument) and value.block not in loop.blocks:
                outside.add(value)
    return sum(_width(value) for value in outside)
