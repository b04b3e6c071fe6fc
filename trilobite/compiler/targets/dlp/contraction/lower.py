"""The room's door: a problem becomes a function of the module.

Enters: a problem, what follows it, a machine and how many cores run. Leaves: a function that all cores call,
and what was decided about it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from trilobite.base.errors import KernelError
from trilobite.compiler.targets.dlp.contraction.choose import choose
from trilobite.compiler.targets.dlp.contraction.generate import Kernel
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import Nest, crop, nest_of, refusal
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.search import Found
from trilobite.compiler.targets.dlp.interfaces import (
    Convolution,
    Cost,
    Epilogue,
    LoweredGroup,
    Problem,
    Product,
    Tensor,
    row_major,
)
from trilobite.processor.lang.builder import Builder
from trilobite.processor.lang.ir import Function, KernelModule, Value
from trilobite.processor.lang.types import Pointer
from trilobite.processor.machine import Machine


def accepts(problem: Problem, machine: Machine) -> str | None:
    """None, or why the matrix unit cannot run the problem."""
    return refusal(problem)


def preferred(problem: Problem, machine: Machine) -> Problem:
    """The same problem with the strides that cost least: inputs of an output next to each other."""
    if isinstance(problem, Convolution):
        x, w, y = (row_major(t.shape, t.dtype) for t in (problem.x, problem.w, problem.y))
        return replace(problem, x=x, w=w, y=y)
    b, _, n, k = problem.sizes
    y = Tensor(problem.y.shape, problem.y.dtype, (n * k if b > 1 else 0, 1, k))
    x, out = (row_major(t.shape, t.dtype) for t in (problem.x, problem.out))
    return replace(problem, x=x, y=y, out=out)


def lower_contraction(
    module: KernelModule,
    name: str,
    problem: Problem,
    epilogue: Epilogue | None,
    machine: Machine,
    cores: int,
    mapping: Mapping | None = None,
) -> LoweredGroup:
    """Adds the function `name`. Without a mapping the search chooses one."""
    nest = nest_for(problem, epilogue)
    found = Found(mapping, 0) if mapping else choose(nest, machine, cores, epilogue)
    chosen = found.mapping
    plan = Plan(nest, chosen, machine, epilogue)
    write(module, name, problem, plan)
    has_rate = nest.left.rate in machine.core.mfu.macs_per_cycle
    lacks = f"the matrix unit of {machine.name} has no {nest.left.rate}: the vector unit multiplies"
    cost = Cost(found.predicted, found.bound, macs=nest.macs) if found.predicted else None
    unit: Literal["matrix", "vector"] = "matrix" if has_rate else "vector"
    return LoweredGroup(name, unit, cost, str(chosen), why="" if has_rate else lacks)


def nest_for(problem: Problem, epilogue: Epilogue | None) -> Nest:
    reason = refusal(problem)
    if reason is not None:
        raise KernelError(reason, expected="a problem of the matrix unit", remedy="ask `accepts` first")
    return nest_of(problem, () if epilogue is None else (*epilogue.operands, *epilogue.results))


def write(module: KernelModule, name: str, problem: Problem, plan: Plan) -> Function:
    """The function of one contraction."""
    overflow = plan.overflow()
    if overflow is not None:
        raise KernelError(
            f"the mapping does not fit {plan.machine.name}: {overflow}",
            expected="tiles that fit the scratchpads",
            remedy="take smaller tiles or fewer buffers",
        )
    function = module.add_function(Function(name))
    builder = Builder(module, function)
    extra = len(plan.epilogue.operands) if plan.epilogue else 0
    results = len(plan.epilogue.results) if plan.epilogue else 1
    params: list[Value] = [
        builder.block.add_argument(Pointer("gdram"), f"p{number}") for number in range(2 + extra + results)
    ]
    operands = _in_order(problem, plan.nest, params[:2])
    moved = crop(problem)
    if moved:
        operands[0] = builder.offset(operands[0], builder.integer(moved))
    Kernel(builder, plan, [*operands, *params[2 : 2 + extra]], params[2 + extra :]).emit()
    builder.ret()
    return function


def _in_order(problem: Problem, nest: Nest, pointers: list[Value]) -> list[Value]:
    """The image first, then the filter (y for a weight gradient)."""
    if isinstance(problem, Product) and nest.swapped:
        return pointers[::-1]
    return pointers
