"""Puts the body of every called function in the place of the call.

Enters: a module. Leaves: functions without calls, but those to functions that are kept (`frames` makes
recursive ones into others first).
"""

from __future__ import annotations

from collections.abc import Collection

from trilobite.processor.lang.ir import Block, Function, KernelModule, Op, Target, Value, Variable
from trilobite.processor.lang.passes.clone import clone_blocks


def inline(module: KernelModule, function: Function, kept: Collection[str] = ()) -> bool:
    """Inlines until no call is left but those to functions that are kept. Blocks are passed through once:
    behind a call go the blocks of the called function, then the rest of its own block."""
    replaced: dict[Value, Value] = {}
    at = inlined = 0
    while at < len(function.blocks):
        call = next((op for op in function.blocks[at].ops if _is_inlined(op, kept)), None)
        if call is not None:
            replaced |= _inline_call(module, function, at, call)
            inlined += 1
        at += 1
    for op in function.ops():
        op.replace_uses(replaced)
    return inlined > 0


def _is_inlined(op: Op, kept: Collection[str]) -> bool:
    return op.opcode == "call" and op.attrs["function"] not in kept


def _inline_call(module: KernelModule, function: Function, at: int, call: Op) -> dict[Value, Value]:
    """Cuts the block with this number at its call; gives what stands for the call's results."""
    block = function.blocks[at]
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
    function.blocks[at + 1 : at + 1] = [*made.values(), rest]
    return dict(zip(call.results, results, strict=True))
