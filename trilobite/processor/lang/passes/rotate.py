"""Loops test at their end: the head's test is repeated behind the body, which saves a jump each time.

Enters: a function. Leaves: loops whose head only guards the first iteration. Applied to heads that are
nothing but a few pure operations and a branch, last of all passes, because it hides counters from the others.
"""

from __future__ import annotations

from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.ir import Argument, Block, Function, Op, Target, Value
from trilobite.processor.lang.ops import PURE
from trilobite.processor.lang.passes.induction import Shape, shape_of

LONGEST = 6  # operations of a head that is worth repeating


def rotate(function: Function) -> bool:
    changed = False
    graph = Graph(function)  # what it says of dominance stays true: a rotated loop's body keeps its entry
    for loop in sorted(graph.loops, key=lambda loop: graph.number[loop.head]):
        shape = shape_of(graph, loop)
        if shape is not None and _is_test(graph, shape):
            _rotate(function, graph, shape)
            changed = True
    return changed


def _is_test(graph: Graph, shape: Shape) -> bool:
    head, loop = shape.loop.head, shape.loop
    last = head.ops[-1]
    if last.opcode != "branch" or len(head.ops) > LONGEST or shape.latch is head:
        return False
    if any(op.opcode not in PURE and op.opcode != "note" for op in head.ops[:-1]):
        return False
    inside = [t for t in last.targets if t.block in loop.blocks]
    alone = all(len(graph.predecessors[t.block]) == 1 for t in last.targets)
    return len(inside) == 1 and alone and last.targets[0].block is not last.targets[1].block


def _rotate(function: Function, graph: Graph, shape: Shape) -> None:
    head = shape.loop.head
    last = head.ops[-1]
    made: list[Value] = [*head.args, *(result for op in head.ops for result in op.results)]
    for target in last.targets:
        _receive(function, graph, head, target, made)
    copied: dict[Value, Value] = dict(zip(head.args, shape.returning.args, strict=True))
    latch = shape.latch
    latch.ops.pop()
    for op in head.ops:
        copy = Op(op.opcode, op.operands, dict(op.attrs), [r.type for r in op.results], op.location)
        copy.targets = [Target(t.block, list(t.args)) for t in op.targets]
        copy.replace_uses(copied)
        copied.update(zip(op.results, copy.results, strict=True))
        latch.append(copy)


def _receive(function: Function, graph: Graph, head: Block, target: Target, made: list[Value]) -> None:
    """The block behind an edge takes what it and all that it dominates need of the head, as arguments."""
    region = {b for b in graph.order if graph.dominates(target.block, b)}
    mapping: dict[Value, Value] = {}
    used = {v for b in region for op in b.ops for v in op.uses()}
    for value in made:
        if value in used:
            name = value.name if isinstance(value, Argument) else ""
            mapping[value] = target.block.add_argument(value.type, name)
            target.args.append(value)
    for block in region:
        for op in block.ops:
            op.replace_uses(mapping)
    _note_again(head, target.block, mapping)


def _note_again(head: Block, block: Block, mapping: dict[Value, Value]) -> None:
    """What the debugger was told in the head holds for the arguments that took its values."""
    for op in head.ops:
        if op.opcode == "note" and any(value in mapping for value in op.operands):
            note = Op("note", op.operands, dict(op.attrs), location=block.ops[0].location)
            note.replace_uses(mapping)
            note.block = block
            block.ops.insert(0, note)
