"""Addresses by addition: a product or sum of a loop's counter becomes a counter of its own.

Enters: a function. Leaves: loops in which `p + (i * K + j) * 4` is one pointer that grows by a constant.
Chains of add, mul, shl and offset over a counter and values that do not change are followed; only the end of
a chain that something else reads gets a register. It is arithmetic modulo 2^64, so no bit changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.cfg import Graph, Loop
from trilobite.processor.lang.ir import Block, Constant, Function, Op, Value
from trilobite.processor.lang.passes.hoist import preheader
from trilobite.processor.lang.passes.induction import Counter, Shape, counters, is_invariant, shape_of

MOST = 8  # new counters a loop
CHAIN = ("add", "sub", "mul", "shl", "offset")


@dataclass
class Affine:
    """A value that is linear in a counter: the operations that lead to it, and whether one multiplies."""

    counter: Counter
    chain: list[Op]
    scaled: bool


def reduce_strength(function: Function) -> bool:
    """Innermost loops first."""
    changed = False
    graph = Graph(function)
    for loop in sorted(graph.loops, key=lambda one: -one.depth):
        preheader(function, graph, loop)
        shape = shape_of(graph, loop, is_tested_last=True)
        if shape is not None:
            changed |= _reduce(shape)
    return changed


def _reduce(shape: Shape) -> bool:
    known = _affine_values(shape)
    inside = [op for block in shape.loop.blocks for op in block.ops]
    wanted: dict[Value, Affine] = {}
    for op in inside:
        if op.results and op.result in known:
            continue  # part of a longer chain
        for value in op.uses():
            found = known.get(value)
            if found is not None and (found.scaled or len(found.chain) > 1):
                wanted[value] = found
    mapping: dict[Value, Value] = {}
    for value, affine in list(wanted.items())[:MOST]:
        mapping[value] = _new_counter(shape, value, affine)
    if mapping:
        for op in inside:
            op.replace_uses(mapping)
    return bool(mapping)


def _affine_values(shape: Shape) -> dict[Value, Affine]:
    loop = shape.loop
    known: dict[Value, Affine] = {}
    starts: dict[Value, Counter] = {c.argument: c for c in counters(shape)}
    blocks = [b for b in loop.blocks]
    changed = True
    while changed:
        changed = False
        for op in (op for block in blocks for op in block.ops):
            if op.opcode in CHAIN and op.result not in known and not _grows(op, starts, shape):
                found = _follow(op, loop, known, starts)
                if found is not None:
                    known[op.result] = found
                    changed = True
    return known


def _grows(op: Op, starts: dict[Value, Counter], shape: Shape) -> bool:
    """The counter's own addition stays as it is."""
    return any(value is op.result for value in shape.returning.args)


def _follow(op: Op, loop: Loop, known: dict[Value, Affine], starts: dict[Value, Counter]) -> Affine | None:
    if op.opcode != "offset" and op.fmt is not I64:
        return None
    places = (0, 1) if op.opcode in ("add", "mul", "offset") else (0,)
    for place in places:
        value, other = op.operands[place], op.operands[1 - place]
        if op.opcode == "offset" and place == 0 and value not in known:
            continue
        if not is_invariant(other, loop):
            continue
        if value in known:
            inner = known[value]
            return Affine(inner.counter, [*inner.chain, op], inner.scaled or op.opcode in ("mul", "shl"))
        if value in starts:
            return Affine(starts[value], [op], op.opcode in ("mul", "shl"))
    return None


def _new_counter(shape: Shape, value: Value, affine: Affine) -> Value:
    """Begins with the chain's value at the first iteration and grows by the chain's slope."""
    before = shape.before
    last = before.ops.pop()
    first: Value = affine.counter.first
    step: Value = affine.counter.step
    current: Value = affine.counter.argument
    for op in affine.chain:
        operands = [first if v is current else v for v in op.operands]
        copy = Op(op.opcode, operands, dict(op.attrs), [op.result.type], op.location)
        folded = _folded(op.opcode, operands)
        first = before.append(copy).result if folded is None else folded
        if op.opcode in ("mul", "shl"):
            operands = [step if v is current else v for v in op.operands]
            step = (
                _known(op.opcode, operands)
                or before.append(Op(op.opcode, operands, dict(op.attrs), [I64], op.location)).result
            )
        current = op.result
    before.append(last)
    argument = shape.loop.head.add_argument(value.type)
    shape.entering.args.append(first)
    opcode = "add" if value.type is I64 else "offset"
    attrs = {"fmt": I64} if opcode == "add" else {"type": value.type}
    grown = Op(opcode, [argument, step], attrs, [value.type], last.location)
    _before_terminator(shape.latch, grown)
    shape.returning.args.append(grown.result)
    return argument


def _known(opcode: str, operands: list[Value]) -> Value | None:
    """A slope that is a number."""
    a, b = operands
    if not isinstance(a, Constant) or not isinstance(b, Constant):
        return None
    word = (a.integer * b.integer if opcode == "mul" else a.integer << (b.integer & 63)) % (1 << 64)
    return Constant(I64, word - (1 << 64) if word >> 63 else word)


def _folded(opcode: str, operands: list[Value]) -> Value | None:
    """What begins at 0 stays a value that loops further out can follow."""
    zeros = [isinstance(value, Constant) and value.integer == 0 for value in operands]
    if opcode == "mul" and any(zeros):
        return operands[zeros.index(True)]
    if zeros[0] and opcode in ("shl", "add"):
        return operands[0 if opcode == "shl" else 1]
    return operands[0] if zeros[1] and opcode != "mul" else None


def _before_terminator(block: Block, op: Op) -> None:
    last = block.ops.pop()
    block.append(op)
    block.append(last)
