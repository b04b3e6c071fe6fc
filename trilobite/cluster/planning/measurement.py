"""What a plan really takes: its steps timed on the ranks of this run, its memory as it is compiled.

Enters: a task and a plan. Leaves: the plan with seconds and bytes beside those that were predicted. All ranks
call it; the figures are those of the slowest, and of the one that needs most.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from trilobite.cluster.collectives import all_reduce, barrier
from trilobite.cluster.planning.prediction import nbytes
from trilobite.cluster.planning.search import Plan, Task
from trilobite.cluster.planning.staged import Staged
from trilobite.cluster.sharding.function import Sharded
from trilobite.compiler.targets.registry import executable, target_now

WARM = 3  # steps before any counts


def measured(plan: Plan, task: Task, steps: int = 9) -> Plan:
    """The plan, applied to the task, with what a step of it takes: the median of some."""
    step = plan.apply(task)
    for _ in range(WARM):
        step(*task.args)
    barrier()
    ends = [time.perf_counter()]
    for _ in range(steps):  # one behind the other: ranks that share a core begin in turn
        step(*task.args)
        ends.append(time.perf_counter())
    own = np.array([np.median(np.diff(ends)), memory(step, task)])
    seconds, nbytes = all_reduce(own, "max").tolist()
    return replace(plan, measured=(seconds, nbytes))


def memory(step: Sharded, task: Task) -> float:
    """Bytes of this rank: what enters the compiled step, what leaves it and does not take the place of what
    entered, and what it needs in between. Gradients take the place of those of the step before.
    """
    plan = step.plan(*task.args)
    if isinstance(step, Staged):
        return step.stage_memory(plan)  # type: ignore[arg-type]
    report = executable(plan.made.graph, target_now(step._target), plan.usage).memory()
    in_place = {out for out, _ in plan.usage.donated}
    outs = [nbytes(v.type) for i, v in enumerate(plan.made.graph.outputs) if i not in in_place]
    return float(report.inputs + sum(outs) + report.peak)
