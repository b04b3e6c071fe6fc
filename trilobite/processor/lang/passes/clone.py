"""Copies of blocks, with every value, variable and target mapped: what inlining and unrolling are made of."""

from __future__ import annotations

from collections.abc import Sequence

from trilobite.processor.lang.ir import Block, Buffer, Function, KernelModule, Op, Target, Value, Variable


def clone_blocks(
    blocks: Sequence[Block], values: dict[Value, Value], variables: dict[Variable, Variable] | None = None
) -> dict[Block, Block]:
    """New blocks for old; `values` gains the copies. Targets outside `blocks` stay as they are."""
    made = {block: Block(block.name) for block in blocks}
    for old, new in made.items():
        for arg in old.args:
            values[arg] = new.add_argument(arg.type, arg.name)
    for old, new in made.items():
        for op in old.ops:
            copy = Op(op.opcode, op.operands, dict(op.attrs), [r.type for r in op.results], op.location)
            copy.targets = [Target(made.get(t.block, t.block), list(t.args)) for t in op.targets]
            if variables and "variable" in copy.attrs:
                copy.attrs["variable"] = variables[copy.attrs["variable"]]
            values.update(zip(op.results, copy.results, strict=True))
            new.append(copy)
    for new in made.values():
        for op in new.ops:
            op.replace_uses(values)
    return made


def clone_function(function: Function) -> Function:
    """A function of its own with the same meaning."""
    copy = Function(function.name, function.results, function.is_entry, function.is_routine)
    copy.location = function.location
    variables = {v: Variable(v.name, v.type, v.scope, v.location, v.shown) for v in function.variables}
    copy.variables = list(variables.values())
    made = clone_blocks(function.blocks, {}, variables)
    copy.blocks = [made[block] for block in function.blocks]
    return copy


def clone_module(module: KernelModule) -> KernelModule:
    """A module whose functions may be changed; buffers are shared, because passes only read them."""
    copy = KernelModule(module.source)
    copy.aligned = module.aligned
    buffers: dict[str, Buffer] = dict(module.buffers)
    copy.buffers, copy.tables, copy.device_data = buffers, dict(module.tables), module.device_data
    for function in module.functions.values():
        copy.add_function(clone_function(function))
    return copy
