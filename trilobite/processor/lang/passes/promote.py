"""Variables become values: `get` and `set` disappear, joins get block arguments, the debugger gets notes.

A block where paths meet takes an argument for every variable that is read behind it; arguments that turn out
to be the same value on every path are dropped by `simplify`. A variable that is read before it is set is 0.
"""

from __future__ import annotations

from trilobite.processor.lang.cfg import Graph, remove_unreachable
from trilobite.processor.lang.ir import Block, Constant, Function, Op, Value, Variable


def promote(function: Function) -> bool:
    """Whether there was anything to promote."""
    if not any(op.opcode in ("get", "set") for op in function.ops()):
        return False
    remove_unreachable(function)
    graph = Graph(function)
    live = _live_in(graph)
    arguments: dict[Block, dict[Variable, Value]] = {}
    for block in graph.order[1:]:
        if len(graph.predecessors[block]) > 1:
            needed = [variable for variable in function.variables if variable in live[block]]
            arguments[block] = {v: block.add_argument(v.type, v.name) for v in needed}
    out: dict[Block, dict[Variable, Value]] = {}
    replaced: dict[Value, Value] = {}
    for block in graph.order:
        known = _entry_values(graph, block, arguments, out)
        out[block] = _rename(block, known, replaced, arguments.get(block, {}))
    _pass_on(graph, arguments, out)
    _settle(function, replaced)
    return True


def _live_in(graph: Graph) -> dict[Block, set[Variable]]:
    """Variables that may be read before they are set, from each block's start on."""
    needs: dict[Block, set[Variable]] = {}
    kills: dict[Block, set[Variable]] = {}
    for block in graph.order:
        needs[block], kills[block] = set(), set()
        for op in block.ops:
            if op.opcode == "get" and op.attrs["variable"] not in kills[block]:
                needs[block].add(op.attrs["variable"])
            elif op.opcode == "set":
                kills[block].add(op.attrs["variable"])
    live = {block: set(needs[block]) for block in graph.order}
    changed = True
    while changed:
        changed = False
        for block in reversed(graph.order):
            for following in block.successors:
                new = live[following] - kills[block] - live[block]
                if new:
                    live[block] |= new
                    changed = True
    return live


def _entry_values(
    graph: Graph,
    block: Block,
    arguments: dict[Block, dict[Variable, Value]],
    out: dict[Block, dict[Variable, Value]],
) -> dict[Variable, Value]:
    before = graph.predecessors[block]
    if len(before) == 1 and block is not graph.order[0]:
        return dict(out[before[0]])
    return dict(arguments.get(block, {}))


def _rename(
    block: Block, known: dict[Variable, Value], replaced: dict[Value, Value], joined: dict[Variable, Value]
) -> dict[Variable, Value]:
    kept: list[Op] = []
    for variable, value in joined.items():
        note = Op("note", [value], {"variable": variable, "join": True}, location=block.ops[0].location)
        note.block = block
        kept.append(note)
    for op in block.ops:
        if op.opcode == "get":
            variable = op.attrs["variable"]
            replaced[op.result] = known.setdefault(variable, Constant(variable.type, 0))
        elif op.opcode == "set":
            known[op.attrs["variable"]] = op.operands[0]
            note = Op("note", op.operands, {"variable": op.attrs["variable"]}, location=op.location)
            note.block = block
            kept.append(note)
        else:
            kept.append(op)
    block.ops = kept
    return known


def _pass_on(
    graph: Graph,
    arguments: dict[Block, dict[Variable, Value]],
    out: dict[Block, dict[Variable, Value]],
) -> None:
    for block in graph.order:
        for target in block.ops[-1].targets:
            for variable in arguments.get(target.block, {}):
                target.args.append(out[block].get(variable, Constant(variable.type, 0)))


def _settle(function: Function, replaced: dict[Value, Value]) -> None:
    """A value that was read from a variable may itself have been one."""

    def final(value: Value) -> Value:
        while value in replaced:
            value = replaced[value]
        return value

    mapping = {value: final(value) for value in replaced}
    for op in function.ops():
        op.replace_uses(mapping)
