"""The target `cpu`: a graph to an executable, by way of passes, fusions, a plan and native kernels.

Enters: a recorded graph and `Options`. Leaves: an `Executable` that takes and gives arrays. What depends on
stable inputs alone is a program of its own that runs again only when one of them has changed. Programs that
an earlier process has made come from disk; the way to them (`making`) is then gone only by who looks at it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import is_
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.compiler.cpu.results import picker
from trilobite.compiler.cpu.runner import Arena, Runner
from trilobite.compiler.cpu.shelf import Division, Shelf, shelf_of
from trilobite.compiler.pipeline import Compilation, Options
from trilobite.compiler.program import Program
from trilobite.ir.graph import Graph
from trilobite.ir.transforms import cells
from trilobite.ir.types import Symbol, TensorType, bind_symbols, symbols_of

if TYPE_CHECKING:
    from trilobite.compiler.cpu.making import Fused, Made
    from trilobite.compiler.passes.split_stable import Halves

Array = np.ndarray[Any, Any]
EAGER = Arena()  # of operations that run one at a time, outside compiled functions
_REFERENCES = 5  # to an array that only its cell holds, as `_written` sees it: cell, values, now, seen, a


class Compiled:
    """A part of a graph with its runners: one for every choice of its symbolic sizes.

    `types` are those of the inputs that decide the sizes; `graph` gives the part before it is fused.
    """

    def __init__(
        self,
        types: Sequence[TensorType],
        graph: Callable[[], Graph],
        donated: Mapping[int, int],
        shelf: tuple[Shelf | None, int],
        arena: Arena | None = None,
        replaced: Sequence[int] = (),
    ) -> None:
        self.arena, self.donated, self.replaced = arena, donated, replaced
        self._types, self._graph = types, graph
        self._shelf, self._part = shelf
        self.runners: dict[tuple[int, ...], Runner] = {}
        self.symbols: tuple[Symbol, ...] = tuple(sorted({s for t in types for s in symbols_of(t.shape)}))

    @cached_property
    def _fused(self) -> Fused:
        from trilobite.compiler.cpu.making import Fused

        return Fused(self._graph())

    @property
    def fused(self) -> Graph:
        return self._fused.graph

    def program(self, sizes: Mapping[Symbol, int]) -> Program:
        return self._fused.program(sizes, self.donated)

    def runner(self, values: Sequence[Array]) -> Runner:
        if not self.symbols:
            found = self.runners.get(())
            return found or self._bind((), {}, len(values))
        sizes = bind_symbols((t.shape, v.shape) for t, v in zip(self._types, values, strict=False))
        key = tuple(sizes[s] for s in self.symbols)
        return self.runners.get(key) or self._bind(key, sizes, len(values))

    def _bind(self, key: tuple[int, ...], sizes: Mapping[Symbol, int], inputs: int) -> Runner:
        from trilobite.native.cache import kernels

        program = self._kept(key, sizes)
        code = kernels([(k.text, k.level) for k in program.kernels])
        runner = Runner(program, code, inputs, compile_graph, self.arena, self.replaced)
        self.runners[key] = runner
        return runner

    def _kept(self, key: tuple[int, ...], sizes: Mapping[Symbol, int]) -> Program:
        """The program from disk, or made and put there."""
        found = None if self._shelf is None else self._shelf.program(self._part, key)
        if found is None:
            found = self.program(sizes)
            if self._shelf is not None:
                self._shelf.keep(self._part, key, found)
        return found


class Executable:
    """What `compile_graph` gives: call it with arrays."""

    def __init__(self, graph: Graph, options: Options) -> None:
        self.graph, self.options = graph, options
        shelf = shelf_of(graph, options)
        self.division = self._divided(shelf)
        donated, types = dict(options.donated), graph.input_types
        if not self.division.two:
            arena = EAGER if options.eager else None
            latest = lambda: self.compilation.latest  # noqa: E731
            self.main = Compiled(types, latest, donated, (shelf, 0), arena, options.replaced)
            return
        stable, kept = self.division.stable, self.division.kept
        at = {i: n for n, i in enumerate(kept)}
        given = {o: at[i] for o, i in donated.items() if i in at}
        taken = [types[i] for i in kept]
        second = lambda: self._half("second")  # noqa: E731
        self.main = Compiled(taken, second, given, (shelf, 0), None, options.replaced)
        first = lambda: self._half("first")  # noqa: E731
        self._arena = Arena()
        self.first = Compiled([types[i] for i in stable], first, {}, (shelf, 1), self._arena)
        self._seen: list[Array] | None = None
        self._kept = picker(kept)
        self._when = 0
        self._ready: list[Array] = []

    # -- how it was made -------------------------------------------------------------------------------------

    @cached_property
    def _made(self) -> Made:
        from trilobite.compiler.cpu.making import make

        return make(self.graph, self.options)

    @property
    def compilation(self) -> Compilation:
        return self._made.compilation

    @property
    def halves(self) -> Halves | None:
        return self._made.halves

    @property
    def parts(self) -> tuple[Compiled, ...]:
        return (self.first, self.main) if self.division.two else (self.main,)

    def _half(self, name: str) -> Graph:
        half: Graph = getattr(self.halves, name)
        return half

    def _divided(self, shelf: Shelf | None) -> Division:
        found = None if shelf is None else shelf.division()
        if found is None:
            halves = self.halves
            found = Division() if halves is None else Division(True, halves.stable, halves.kept)
            if shelf is not None:
                shelf.keep_division(found)
        return found

    # -- running ---------------------------------------------------------------------------------------------

    def prepare(self, values: Sequence[Array]) -> bool:
        """Compiles what a run with values of these shapes needs; false if that was there."""
        before = sum(len(part.runners) for part in self.parts)
        given: list[Any] = list(values)
        if self.division.two:
            first = self.first.runner([values[i] for i in self.division.stable])
            given = [*self._kept(values), *first.program.outputs]
        self.main.runner(given)
        return sum(len(part.runners) for part in self.parts) > before

    def __call__(self, values: Sequence[Array], old: list[Array] | None = None, held: int = 0) -> list[Array]:
        """`old` are the arrays of the results that this run replaces; the caller refers to each of them, and
        to each input that it gives away, `held` times more than by its cell and these lists.
        """
        if self.division.two:
            given = [*self._kept(values), *self._stable(values, held)]
        else:
            given = list(values)
        if type(values) is list:
            values.clear()  # arrays that are given away are held by one list alone
        return self.main.runner(given)(given, old, held)

    def _stable(self, values: Sequence[Array], held: int) -> list[Array]:
        now = [values[i] for i in self.division.stable]
        if self._seen is None or not all(map(is_, now, self._seen)) or self._written(now, held):
            self._when = cells.now
            self._ready = self.first.runner(now)(list(now))
            self._seen = now
            self._arena.release()  # weights seldom change
        return self._ready

    def _written(self, now: Sequence[Array], held: int) -> bool:
        """Has somebody written into these arrays since they were last looked at?"""
        stamped = cells.now != self._when and any(cells.stamped_after(a, self._when) for a in now)
        return [cells.is_exposed(a, _REFERENCES + held) for a in now].count(True) > 0 or stamped


def compile_graph(graph: Graph, options: Options = Options()) -> Executable:  # noqa: B008
    """A graph as something that runs; compiled once per graph and options."""
    made: dict[Options, Executable] = graph.__dict__.setdefault("_cpu", {})
    if options not in made:
        made[options] = Executable(graph, options)
    return made[options]
