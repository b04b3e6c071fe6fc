"""The target `cpu`: a graph to an executable, by way of passes, fusions, a plan and native kernels.

Enters: a recorded graph and `Options`. Leaves: an `Executable` that takes and gives arrays. What depends on
stable inputs alone is a program of its own that runs again only when one of them has changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import is_
from typing import Any

import numpy as np

from trilobite.compiler.cpu.attention import claims
from trilobite.compiler.cpu.copying import COPY
from trilobite.compiler.cpu.kinds import kinds
from trilobite.compiler.cpu.results import picker
from trilobite.compiler.cpu.runner import Arena, Runner
from trilobite.compiler.cpu.stages import STAGES
from trilobite.compiler.passes.fuse import fuse
from trilobite.compiler.passes.split_stable import Halves, split_stable
from trilobite.compiler.pipeline import Compilation, Options, run_stages
from trilobite.compiler.plan import plan
from trilobite.compiler.program import Program
from trilobite.ir.graph import Graph
from trilobite.ir.transforms import cells
from trilobite.ir.types import Symbol, bind_symbols

Array = np.ndarray[Any, Any]
EAGER = Arena()  # of operations that run one at a time, outside compiled functions
_REFERENCES = 5  # to an array that only its cell holds, as `_written` sees it: cell, values, now, seen, a


class Compiled:
    """A fused graph with its runners: one for every choice of its symbolic sizes."""

    def __init__(self, graph: Graph, donated: Mapping[int, int], arena: Arena | None = None) -> None:
        table = kinds()
        self.arena = arena
        self.fused = fuse(graph, table.kinds, table.roots)
        self.donated = donated
        self.lowerings = {name: _once(lower) for name, lower in table.lowerings.items()}
        self.runners: dict[tuple[int, ...], Runner] = {}
        self.symbols: tuple[Symbol, ...] = tuple(sorted(self.fused.symbols))

    def program(self, sizes: Mapping[Symbol, int]) -> Program:
        return plan(self.fused, self.lowerings, sizes, self.donated, COPY)

    def runner(self, values: Sequence[Array]) -> Runner:
        if not self.symbols:
            found = self.runners.get(())
            return found or self._bind((), {})
        sizes = bind_symbols((t.shape, v.shape) for t, v in zip(self.fused.input_types, values, strict=True))
        key = tuple(sizes[s] for s in self.symbols)
        return self.runners.get(key) or self._bind(key, sizes)

    def _bind(self, key: tuple[int, ...], sizes: Mapping[Symbol, int]) -> Runner:
        from trilobite.native.cache import kernels

        program = self.program(sizes)
        code = kernels([(k.text, k.level) for k in program.kernels])
        runner = Runner(program, code, len(self.fused.inputs), compile_graph, self.arena)
        self.runners[key] = runner
        return runner


def _once(lower: Any) -> Any:
    """A lowering that is made once per equation, whatever the sizes."""
    made: dict[int, Any] = {}

    def lowered(e: Any) -> Any:
        if id(e) not in made:
            made[id(e)] = lower(e)
        return made[id(e)]

    return lowered


class Executable:
    """What `compile_graph` gives: call it with arrays."""

    def __init__(self, graph: Graph, options: Options) -> None:
        self.compilation: Compilation = run_stages(graph, STAGES, replace(options, claimed=claims))
        ready = self.compilation.latest
        self.halves: Halves | None = split_stable(ready, options.stable) if options.stable else None
        donated = dict(options.donated)
        if self.halves is None:
            self.main = Compiled(ready, donated, EAGER if options.eager else None)
            return
        at = {i: n for n, i in enumerate(self.halves.kept)}
        self.main = Compiled(self.halves.second, {o: at[i] for o, i in donated.items() if i in at})
        self.first = Compiled(self.halves.first, {})
        self._seen: list[Array] | None = None
        self._kept = picker(self.halves.kept)
        self._when = 0
        self._ready: list[Array] = []

    @property
    def parts(self) -> tuple[Compiled, ...]:
        return (self.main,) if self.halves is None else (self.first, self.main)

    def __call__(self, values: Sequence[Array]) -> list[Array]:
        if self.halves is None:
            given = list(values)
        else:
            given = [*self._kept(values), *self._stable(values)]
        if type(values) is list:
            values.clear()  # arrays that are given away are held by one list alone
        return self.main.runner(given)(given)

    def _stable(self, values: Sequence[Array]) -> list[Array]:
        assert self.halves is not None
        now = [values[i] for i in self.halves.stable]
        if self._seen is None or not all(map(is_, now, self._seen)) or self._written(now):
            self._when = cells.now
            self._ready = self.first.runner(now)(list(now))
            self._seen = now
        return self._ready

    def _written(self, now: Sequence[Array]) -> bool:
        """Has somebody written into these arrays since they were last looked at?"""
        stamped = cells.now != self._when and any(cells.stamped_after(a, self._when) for a in now)
        return [cells.is_exposed(a, _REFERENCES) for a in now].count(True) > 0 or stamped


def compile_graph(graph: Graph, options: Options = Options()) -> Executable:  # noqa: B008
    """A graph as something that runs; compiled once per graph and options."""
    made: dict[Options, Executable] = graph.__dict__.setdefault("_cpu", {})
    if options not in made:
        made[options] = Executable(graph, options)
    return made[options]
