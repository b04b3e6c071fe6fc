"""Who calls whom in a module of kernel IR.

Enters: a module. Leaves: what a function reaches, and functions in an order in which callers come first.
"""

from __future__ import annotations

from trilobite.processor.lang.ir import Function, KernelModule, Op


def calls_of(function: Function) -> list[Op]:
    return [op for op in function.ops() if op.opcode == "call"]


def reached(module: KernelModule, name: str) -> set[str]:
    """Every function that a call of this one may end up in; itself only if it is in a circle."""
    seen: set[str] = set()
    work = [name]
    while work:
        function = module.functions.get(work.pop())
        found = {op.attrs["function"] for op in calls_of(function)} - seen if function else set()
        seen |= found
        work += sorted(found)
    return seen


def callers_first(module: KernelModule) -> list[Function]:
    """Entries as they stand, then the functions they reach, each behind everybody who calls it."""
    depth = {function.name: 0 for function in module.entries}
    work = list(depth)
    while work:
        name = work.pop(0)
        for op in calls_of(module.functions[name]):
            called = op.attrs["function"]
            if depth.get(called, -1) <= depth[name]:
                depth[called] = depth[name] + 1
                work.append(called)
    return sorted((module.functions[name] for name in depth), key=lambda function: depth[function.name])
