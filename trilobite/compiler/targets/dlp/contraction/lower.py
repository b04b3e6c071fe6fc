"""The room's door: a problem becomes a function of the module.

Enters: a problem, what follows it, a machine and how many cores run. Leaves: a function that all cores call,
and what was decided about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from trilobite.base.errors import KernelError
from trilobite.compiler.targets.dlp.contraction.behind import Beside
from trilobite.compiler.targets.dlp.contraction.choose import choose
from trilobite.compiler.targets.dlp.contraction.function import write
from trilobite.compiler.targets.dlp.contraction.mapping import Mapping
from trilobite.compiler.targets.dlp.contraction.nest import Nest, crop, nest_of, refusal
from trilobite.compiler.targets.dlp.contraction.places import Plan
from trilobite.compiler.targets.dlp.contraction.prefetched import Early, Prefetched
from trilobite.compiler.targets.dlp.contraction.search import Found
from trilobite.compiler.targets.dlp.interfaces import (
    Convolution,
    Cost,
    Epilogue,
    LoweredGroup,
    Problem,
    Tensor,
    row_major,
)
from trilobite.processor.lang.ir import KernelModule
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
    mapping: Mapping | Found | None = None,
    prefetched: Prefetched | None = None,
    following: Sequence[Early] = (),
) -> LoweredGroup:
    """Adds the function `name`. Without a mapping the search chooses one. `prefetched` and `following` say
    what groups do for each other (`write`)."""
    nest = nest_for(problem, epilogue)
    found = Found(mapping, 0) if isinstance(mapping, Mapping) else mapping
    found = found or choose(nest, machine, cores, epilogue)
    chosen = found.mapping
    plan = Plan(nest, chosen, machine, epilogue)
    write(module, name, plan, crop(problem), cores, prefetched, following)
    has_rate = nest.left.rate in machine.core.mfu.macs_per_cycle
    lacks = f"the matrix unit of {machine.name} has no {nest.left.rate}: the vector unit multiplies"
    cost = Cost(found.timed or found.predicted, found.bound, macs=nest.macs) if found.predicted else None
    unit: Literal["matrix", "vector"] = "matrix" if has_rate else "vector"
    return LoweredGroup(name, unit, cost, str(chosen), meets=True, why="" if has_rate else lacks)


def planned(
    problem: Problem, epilogue: Epilogue | None, machine: Machine, cores: int, beside: Beside
) -> tuple[Plan, Found]:
    """The choice for `lower_contraction`, and what it means; `beside`: what other groups do for it."""
    nest = nest_for(problem, epilogue)
    found = choose(nest, machine, cores, epilogue, beside)
    return Plan(nest, found.mapping, machine, epilogue), found


def expected_cycles(problem: Problem, epilogue: Epilogue | None, machine: Machine, cores: int) -> float:
    """Of the best mapping; without end where the matrix unit does not take the problem."""
    if refusal(problem) is not None:
        return float("inf")
    found = choose(nest_for(problem, epilogue), machine, cores, epilogue)
    return found.timed or found.predicted


def nest_for(problem: Problem, epilogue: Epilogue | None) -> Nest:
    reason = refusal(problem)
    if reason is not None:
        raise KernelError(reason, expected="a problem of the matrix unit", remedy="ask `accepts` first")
    return nest_of(problem, () if epilogue is None else (*epilogue.operands, *epilogue.results))
