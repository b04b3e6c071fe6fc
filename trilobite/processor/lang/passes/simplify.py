"""Constant propagation, algebra, common subexpressions, decided branches, arguments that are not needed.

Enters: a function. Leaves: the same meaning with fewer operations. Rules are data where they are algebra;
what a constant operation gives is the meaning of its ISA row, so folding changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from trilobite.processor.isa.formats import I64
from trilobite.processor.lang.cfg import Graph, predecessors, remove_unreachable
from trilobite.processor.lang.ir import Block, Constant, Function, Op, Target, Value
from trilobite.processor.lang.ops import PURE
from trilobite.processor.lang.scalar import constant_of, constant_word, evaluate
from trilobite.processor.lang.types import is_integer

_COMMUTATIVE = ("add", "mul", "and", "or", "xor")
_REWRITTEN = frozenset((*_COMMUTATIVE, "min", "max", "offset"))
_PLACED = ("address", "table", "special")  # pure, but known only to the machine


def simplify(function: Function) -> bool:
    """Repeats until nothing changes; what has been folded is folded again only if the blocks changed."""
    changed = False
    for turn in range(20):
        step = _decide_branches(function)
        step |= _drop_arguments(function)
        step |= _merge_blocks(function)
        if step or turn == 0:
            step |= _fold(function)
        if not step:
            return changed
        changed = True
    return changed


def _is(value: Value, number: int) -> bool:
    return isinstance(value, Constant) and is_integer(value.type) and value.value == number


def _adds(total: Value, part: Value) -> Value | None:
    """y where the total is part + y."""
    op = getattr(total, "op", None)
    if op is None or op.opcode != "add" or not is_integer(op.fmt) or op.fmt != part.type:
        return None
    rest = [value for value in op.operands if value is not part]
    return rest[0] if len(rest) == 1 else None


# Algebra of integers: opcode -> (test on the operands, what it becomes).
Rule = tuple[Callable[[Value, Value], bool], Callable[[Op], Value | None]]
_RULES: dict[str, tuple[Rule, ...]] = {
    "add": ((lambda a, b: _is(b, 0), lambda op: op.operands[0]),  # x + 0 -> x
            (lambda a, b: _is(a, 0), lambda op: op.operands[1])),
    "sub": ((lambda a, b: _is(b, 0), lambda op: op.operands[0]),  # x - 0 -> x
            (lambda a, b: a is b, lambda op: Constant(op.fmt, 0)),  # x - x -> 0
            (lambda a, b: _adds(a, b) is not None, lambda op: _adds(*op.operands))),  # (x + y) - x -> y
    "mul": ((lambda a, b: _is(b, 1), lambda op: op.operands[0]),  # x * 1 -> x
            (lambda a, b: _is(a, 1), lambda op: op.operands[1]),
            (lambda a, b: _is(a, 0) or _is(b, 0), lambda op: Constant(op.fmt, 0))),  # x * 0 -> 0
    "div": ((lambda a, b: _is(b, 1), lambda op: op.operands[0]),),  # x / 1 -> x
    "and": ((lambda a, b: a is b, lambda op: op.operands[0]),  # x & x -> x
            (lambda a, b: _is(a, 0) or _is(b, 0), lambda op: Constant(op.fmt, 0))),
    "or": ((lambda a, b: _is(b, 0), lambda op: op.operands[0]),  # x | 0 -> x
           (lambda a, b: _is(a, 0), lambda op: op.operands[1])),
    "xor": ((lambda a, b: _is(b, 0), lambda op: op.operands[0]),),  # x ^ 0 -> x
    "shl": ((lambda a, b: _is(b, 0), lambda op: op.operands[0]),),  # x << 0 -> x
    "shr": ((lambda a, b: _is(b, 0), lambda op: op.operands[0]),),
    "max": ((lambda a, b: a is b, lambda op: op.operands[0]),),
    "min": ((lambda a, b: a is b, lambda op: op.operands[0]),),
}  # fmt: skip


def _simpler(op: Op) -> Value | None:
    """A value that the operation's result always equals."""
    if op.opcode in _PLACED:
        return None
    if _are_constant(op.operands):
        return constant_of(op.result.type, evaluate(op, [_word(value) for value in op.operands]))
    if op.opcode == "offset" and _is(op.operands[1], 0):
        return op.operands[0]
    if op.opcode == "select":
        return _selected(op)
    if op.opcode == "cast" and op.operands[0].type == op.attrs["type"]:
        return op.operands[0]
    if op.opcode in _RULES and is_integer(op.fmt):
        a, b = op.operands
        for test, become in _RULES[op.opcode]:
            if test(a, b):
                found = become(op)
                return found if found is not None and found.type == op.fmt else None
    return None


def _are_constant(values: list[Value]) -> bool:
    for value in values:  # noqa: SIM110, `all` with a generator takes three times as long
        if not isinstance(value, Constant):
            return False
    return True


def _word(value: Value) -> int:
    assert isinstance(value, Constant)
    return constant_word(value)


def _selected(op: Op) -> Value | None:
    truth, a, b = op.operands
    if isinstance(truth, Constant):
        return a if truth.value else b
    return a if a is b else None


def _rewrite(op: Op) -> None:
    """Cheaper operations with the same result, in place."""
    turns = ("min", "max") if op.opcode in ("min", "max") and is_integer(op.fmt) else _COMMUTATIVE
    if op.opcode in turns and isinstance(op.operands[0], Constant):
        op.operands.reverse()  # constants to the right: the immediate form takes them there
    if op.opcode == "mul" and is_integer(op.fmt) and (shift := _shift_of(op.operands[1])):
        op.opcode, op.operands[1] = "shl", Constant(op.fmt, shift)  # x * 2^k -> x << k
    if op.opcode == "offset":
        _join_offsets(op)
    if op.opcode == "add" and is_integer(op.fmt):
        _join_sums(op)


def _shift_of(value: Value) -> int:
    if not isinstance(value, Constant):
        return 0
    number = int(value.value)
    return number.bit_length() - 1 if number > 1 and number & (number - 1) == 0 else 0


def _join_offsets(op: Op) -> None:
    """(p + c) + d -> p + (c + d) for constants."""
    inner = getattr(op.operands[0], "op", None)
    if inner is None or inner.opcode != "offset" or not isinstance(op.operands[1], Constant):
        return
    if isinstance(inner.operands[1], Constant):
        total = inner.operands[1].integer + op.operands[1].integer
        op.operands = [inner.operands[0], Constant(I64, total)]


def _join_sums(op: Op) -> None:
    inner = getattr(op.operands[0], "op", None)
    if inner is None or inner.opcode != "add" or inner.fmt is not op.fmt:
        return
    if isinstance(op.operands[1], Constant) and isinstance(inner.operands[1], Constant):
        total = evaluate(op, [_word(inner.operands[1]), _word(op.operands[1])])
        op.operands = [inner.operands[0], constant_of(op.fmt, total)]


def _key(op: Op) -> Hashable:
    attrs = tuple(op.attrs.items() if len(op.attrs) < 2 else sorted(op.attrs.items()))
    return (op.opcode, attrs, *[_identity(v) if isinstance(v, Constant) else v for v in op.operands])


def _fold(function: Function) -> bool:
    """Folds in dominance order; an operation that a dominating block has computed is not computed again."""
    graph = Graph(function)
    mapping: dict[Value, Value] = {}
    seen: dict[Block, dict[Hashable, Value]] = {}
    changed = False
    for block in graph.order:
        table = dict(seen[graph.parent[block]]) if block is not graph.order[0] else {}
        seen[block] = table
        kept: list[Op] = []
        for op in block.ops:
            op.replace_uses(mapping)
            opcode = op.opcode
            if opcode not in PURE:
                kept.append(op)
                continue
            if opcode in _REWRITTEN:
                _rewrite(op)
            value = _simpler(op)
            if value is None:
                value = table.setdefault(_key(op), op.result)
            if value is op.result:
                kept.append(op)
            else:
                mapping[op.result] = mapping.get(value, value)
                changed = True
        block.ops = kept
    return changed  # definitions come before their uses in this order, so every use has been replaced


def _decide_branches(function: Function) -> bool:
    changed = False
    for block in function.blocks:
        last = block.ops[-1]
        if last.opcode != "branch":
            continue
        truth = last.operands[0]
        yes, no = last.targets
        chosen: Target | None = None
        if isinstance(truth, Constant):
            chosen = yes if truth.value else no
        elif yes.block is no.block and yes.args == no.args:
            chosen = yes
        if chosen is not None:
            block.ops[-1] = Op("jump", location=last.location, targets=[chosen])
            block.ops[-1].block = block
            changed = True
    if changed:
        remove_unreachable(function)
    return changed


def _drop_arguments(function: Function) -> bool:
    """An argument that is one value on every path, or that nobody reads, goes."""
    incoming, used = _incoming(function)
    mapping: dict[Value, Value] = {}
    for block in function.blocks[1:]:
        before = len(mapping)
        for place in reversed(range(len(block.args))):
            arg = block.args[place]
            given = {_identity(target.args[place]): target.args[place] for target in incoming[block]}
            given.pop(arg, None)
            if len(given) == 1 or arg not in used:
                if arg in used:
                    mapping[arg] = next(iter(given.values()))
                del block.args[place]
                for target in incoming[block]:
                    del target.args[place]
        if len(mapping) > before:  # every path says already what such a join would say of its variable
            block.ops = [op for op in block.ops if not ("join" in op.attrs and op.operands[0] in mapping)]
    if not mapping:
        return False
    _replace_everywhere(function, mapping)
    return True


def _incoming(function: Function) -> tuple[dict[Block, list[Target]], set[Value]]:
    """The targets that name each block, and the values that are read by anything but their own argument."""
    incoming: dict[Block, list[Target]] = {block: [] for block in function.blocks}
    used: set[Value] = set()
    for op in function.ops():
        used.update(op.operands)
        for target in op.targets:
            incoming[target.block].append(target)
            pairs = zip(target.block.args, target.args, strict=True)
            used.update(value for arg, value in pairs if value is not arg)
    return incoming, used


def _identity(value: Value) -> Hashable:
    return (value.type.name, constant_word(value)) if isinstance(value, Constant) else value


def _replace_everywhere(function: Function, mapping: dict[Value, Value]) -> None:
    def final(value: Value) -> Value:
        seen = set()
        while value in mapping and value not in seen:
            seen.add(value)
            value = mapping[value]
        return value

    settled = {value: final(value) for value in mapping}
    for op in function.ops():
        op.replace_uses(settled)


def _merge_blocks(function: Function) -> bool:
    """A block whose only predecessor goes nowhere else continues it."""
    merged: dict[Value, Value] = {}
    gone: set[Block] = set()
    before = predecessors(function.blocks)
    for block in list(function.blocks):
        while block not in gone:
            last = block.ops[-1]
            if last.opcode != "jump":
                break
            target = last.targets[0]
            following = target.block
            if following is function.blocks[0] or following is block or len(before[following]) != 1:
                break
            merged.update(zip(following.args, target.args, strict=True))
            block.ops.pop()
            for op in following.ops:
                block.append(op)
            for after in block.successors:
                before[after] = [block if b is following else b for b in before[after]]
            gone.add(following)
    function.blocks = [block for block in function.blocks if block not in gone]
    if merged:
        _replace_everywhere(function, merged)
    return bool(gone)
