"""A loop ends where one of its addresses ends: a counter that only counts iterations disappears.

Enters: a function behind strength reduction. Leaves: innermost loops `i < n` whose only use of i was that
test compare an address (or another counter) with its last value, which is computed before the loop. For the
debugger i follows from how far that address is from its end.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.cfg import Graph
from trilobite.processor.lang.ir import Block, Constant, Function, Op, Result, Target, Value
from trilobite.processor.lang.passes.induction import Counter, Shape, counters, is_invariant, shape_of
from trilobite.processor.lang.types import is_pointer


@dataclass
class Test:
    """What decides whether the loop goes on: a counter, or what it becomes, is compared with a limit."""

    op: Op
    branch: Op
    counter: Counter
    limit: Value
    is_first: bool  # at the head, and so before the first iteration too


def end_by_address(function: Function) -> bool:
    changed = False
    graph = Graph(function)
    readers = _readers(function)  # stays true: a replaced test reads nothing new of another loop's counter
    around = {loop.parent.head for loop in graph.loops if loop.parent is not None}
    for loop in graph.loops:
        shape = shape_of(graph, loop, is_tested_last=True) if loop.head not in around else None
        test = _test_of(shape) if shape is not None else None
        if shape is not None and test is not None and _only_counts(readers, shape, test):
            leader = _leader(shape, test)
            if leader is not None:
                _replace(function, shape, test, leader)
                changed = True
    return changed


def _test_of(shape: Shape) -> Test | None:
    """`i < n` at the head, or `i + 1 == n` (`!=`) at the end, for a counter that grows by 1."""
    head, latch = shape.loop.head, shape.latch
    is_first = latch.ops[-1].opcode == "jump"
    branch = (head if is_first else latch).ops[-1]
    truth = branch.operands[0] if branch.opcode == "branch" else None
    op = truth.op if isinstance(truth, Result) else None
    if op is None or op.opcode not in ("lt", "eq", "ne") or op.fmt is not I64:
        return None
    goes_on = branch.targets[1 if op.opcode == "eq" else 0].block in shape.loop.blocks
    leaves = branch.targets[0 if op.opcode == "eq" else 1].block not in shape.loop.blocks
    if not (goes_on and leaves) or (op.opcode == "lt") != is_first:
        return None
    for counter in counters(shape):
        seen = counter.argument if is_first else shape.returning.args[counter.place]
        if op.operands[0] is seen and _is_one(counter.step) and is_invariant(op.operands[1], shape.loop):
            return Test(op, branch, counter, op.operands[1], is_first)
    return None


def _is_one(step: Value) -> bool:
    return isinstance(step, Constant) and step.integer == 1


def _readers(function: Function) -> dict[Value, set[Op | Target]]:
    """The operations that read each value, and the targets that pass it on; the debugger does not count."""
    found: dict[Value, set[Op | Target]] = {}
    for op in function.ops():
        if op.opcode != "note":
            for value in op.operands:
                found.setdefault(value, set()).add(op)
            for target in op.targets:
                for value in target.args:
                    found.setdefault(value, set()).add(target)
    return found


def _only_counts(readers: dict[Value, set[Op | Target]], shape: Shape, test: Test) -> bool:
    """Nobody but the test, the addition and the debugger reads the counter."""
    grown = shape.returning.args[test.counter.place]
    assert isinstance(grown, Result)
    mine = {test.op, grown.op, shape.returning}
    if not mine.issuperset(readers.get(test.counter.argument, ())) or not mine.issuperset(readers[grown]):
        return False
    return grown not in (v for n, v in enumerate(shape.returning.args) if n != test.counter.place)


def _leader(shape: Shape, test: Test) -> Counter | None:
    """Another argument that grows by a constant."""
    for place, argument in enumerate(shape.loop.head.args):
        grown = shape.returning.args[place]
        op = grown.op if isinstance(grown, Result) else None
        if argument is test.counter.argument or op is None or op.opcode not in ("add", "offset"):
            continue
        step = op.operands[1]
        fits = argument.type is I64 or is_pointer(argument.type)
        if fits and op.operands[0] is argument and isinstance(step, Constant) and step.integer:
            return Counter(argument, place, shape.entering.args[place], step)
    return None


def _replace(function: Function, shape: Shape, test: Test, leader: Counter) -> None:
    end = _end(shape, test, leader)
    block = test.op.block
    assert block is not None
    value = leader.argument if test.is_first else shape.returning.args[leader.place]
    compared = _word(block, value, test.op)
    attrs = {"fmt": I64}
    new = Op("eq" if test.op.opcode == "eq" else "ne", [compared, end], attrs, [I64], test.op.location)
    _insert(block, new, test.op)
    test.branch.replace_uses({test.op.result: new.result})
    _tell(function, shape, test, leader, end)


def _end(shape: Shape, test: Test, leader: Counter) -> Value:
    """The leader's word behind the last iteration, computed before the loop."""
    before, at = shape.before, shape.before.ops[-1]
    count = _whole(before, "sub", test.limit, test.counter.first, at)
    if test.is_first:
        count = _whole(before, "max", count, Constant(I64, 0), at)
    assert isinstance(leader.step, Constant)
    way = _whole(before, "mul", count, Constant(I64, leader.step.integer), at)
    return _whole(before, "add", _word(before, leader.first, at), way, at)


def _whole(block: Block, opcode: str, a: Value, b: Value, at: Op) -> Value:
    return _insert(block, Op(opcode, [a, b], {"fmt": I64}, [I64], at.location), at)


def _word(block: Block, value: Value, at: Op) -> Value:
    """A pointer as the number that it is."""
    if value.type is I64:
        return value
    return _insert(block, Op("cast", [value], {"type": I64}, [I64], at.location), at)


def _insert(block: Block, op: Op, at: Op) -> Value:
    op.block = block
    block.ops.insert(block.ops.index(at), op)
    return op.result


def _tell(function: Function, shape: Shape, test: Test, leader: Counter, end: Value) -> None:
    """Notes of the counter, and of what it becomes, follow from the leader; the operations stand nowhere."""
    grown = shape.returning.args[test.counter.place]
    mapping: dict[Value, Value] = {
        test.counter.argument: _told(leader.argument, test, leader, end),
        grown: _told(shape.returning.args[leader.place], test, leader, end),
    }
    for op in function.ops():
        if op.opcode == "note":
            op.replace_uses(mapping)


def _told(value: Value, test: Test, leader: Counter, end: Value) -> Value:
    """first + (value - its first) / step where that is a buffer's place, else limit - (end - value) / step"""

    def made(opcode: str, a: Value, b: Value) -> Value:
        return Op(opcode, [a, b], {"fmt": I64}, [I64], test.op.location).result

    word = value
    if value.type is not I64:
        word = Op("cast", [value], {"type": I64}, [I64], test.op.location).result
    first = leader.first.op if isinstance(leader.first, Result) else None
    if first is not None and first.opcode == "address":
        begin = Op("cast", [leader.first], {"type": I64}, [I64], test.op.location).result
        return made("add", test.counter.first, made("div", made("sub", word, begin), leader.step))
    return made("sub", test.limit, made("div", made("sub", end, word), leader.step))
