"""Puts the body of every called function in the place of the call.

Enters: a module. Leaves: functions without calls, but those to functions that are kept (`frames` makes
recursive ones into others first).
"""

from __future__ import annotations

from collections.abc import Collection

from trilobite.processor.lang.ir import Block, Function, KernelModule, Op, Target, Value, Variable
from trilobite.processor.lang.passes.clone import clone_blocks


def inline(module: KernelModule, function: Function, kept: Collection[str] = ()) -> bool:
    """Inlines until no call is left but those to functions that are kept."""
    changed = False
    while True:
        found = next(((b, op) for b in function.blocks for op in b.ops if _is_inlined(op, kept)), None)
        if found is None:
            return changed
        _inline_call(module, function, *found)
        changed = True


def _is_inlined(op: Op, kept: Collection[str]) -> bool:
    return op.opcode == "call" and op.attrs["function"] not in kept


def _inline_call(module: KernelModule, function: Function, block: Block, call: Op) -> None:
    called = module.functions[call.attrs["function"]]
    scope = f"{call.attrs['function']}"
    variables = {v: Variable(v.name, v.type, v.scope or scope, v.location, v.shown) for v in called.variables}
    function.variables.extend(variables.values())
    values: dict[Value, Value] = {}
    made = clone_blocks(called.blocks, values, variables)
    rest = Block(block.name)
    place = block.ops.index(call)
    behind = block.ops[place + 1 :]
    del block.ops[place:]
    results = [rest.add_argument(kind) for kind in called.results]
    for op in behind:
        rest.append(op)
    block.append(Op("jump", location=call.location, targets=[Target(made[called.blocks[0]], call.operands)]))
    for new in made.values():
        last = new.ops[-1]
        if last.opcode == "return":
            new.ops[-1] = Op("jump", location=last.location, targets=[Target(rest, last.operands)])
            new.ops[-1].block = new
    at = function.blocks.index(block) + 1
    function.blocks[at:at] = [*made.values(), rest]
    replaced: dict[Value, Value] = dict(zip(call.results, results, strict=True))
    for op in function.ops():
        op.replace_uses(replaced)
