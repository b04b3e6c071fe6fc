"""How long one fusion takes with given parameters: it is planned, compiled and run alone.

Enters: a fusion equation without symbolic sizes. Leaves: seconds, the least of many runs. Inputs are random
numbers, integers small, so that indices stay within any table they look things up in.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from trilobite.base.dtypes import bool_, is_float
from trilobite.compiler.program.plan import plan
from trilobite.compiler.program.program import Program
from trilobite.compiler.targets.cpu.copying import COPY
from trilobite.compiler.targets.cpu.kernel import native
from trilobite.compiler.targets.cpu.kinds import kinds
from trilobite.compiler.targets.cpu.runner import Runner
from trilobite.compiler.targets.cpu.tuning.choices import Asked, trying
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import TensorType
from trilobite.native.memory import empty

Array = np.ndarray[Any, Any]
RUNS = 60
SECONDS = 0.03  # for one figure, at most


class Subject:
    """A fusion that can be run with any parameters."""

    def __init__(self, equation: Equation, seed: int = 0) -> None:
        ins = dict.fromkeys(equation.inputs)
        self.graph = Graph(tuple(ins), (equation,), equation.outputs, "tuned")
        rng = np.random.default_rng(seed)
        self.values = [random_array(v, rng) for v in ins]

    def asked(self) -> tuple[Asked, ...]:
        """What its lowering asks for."""
        with trying() as trial:
            plan(self.graph, kinds().lowerings, copy=COPY)
        return tuple(trial.asked)

    def program(self, parameters: Mapping[str, int] | None) -> Program:
        with trying(parameters):
            return plan(self.graph, kinds().lowerings, copy=COPY)

    def runner(self, parameters: Mapping[str, int] | None) -> Runner:
        from trilobite.native.cache import kernels

        program = self.program(parameters)
        code = kernels([(k.text, k.level) for k in native(program.kernels)])
        return Runner(program, code, len(self.graph.inputs))

    def seconds(self, parameters: Mapping[str, int] | None, limit: float = SECONDS) -> float:
        """The least time of its kernels together."""
        return timed(self.runner(parameters), self.values, limit)

    def outputs(self, parameters: Mapping[str, int] | None) -> list[Array]:
        return self.runner(parameters)(list(self.values))


def timed(runner: Runner, values: list[Array], limit: float = SECONDS) -> float:
    runner(list(values))  # pages are touched, threads awake
    runner.table.time(max(len(runner.steps), 1))
    until, least = time.perf_counter() + limit, np.inf
    try:
        for n in range(RUNS):
            runner(list(values))
            events = runner.table.events()
            least = min(least, float((events[:, 2] - events[:, 1]).sum()) * 1e-9)
            if n >= 2 and time.perf_counter() > until:
                break
    finally:
        runner.table.time(0)
    return least


def random_array(v: Var, rng: np.random.Generator) -> Array:
    t: TensorType = v.type
    shape = tuple(int(d) for d in t.shape)
    out = empty(shape, t.dtype)
    if t.dtype == bool_:
        out[...] = rng.integers(0, 2, shape)
    elif is_float(t.dtype):
        out[...] = rng.standard_normal(shape).astype(np.float32)
    else:
        out[...] = rng.integers(0, 2, shape)
    return out
