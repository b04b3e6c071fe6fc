"""A part of a graph with the programs it became: one for every choice of its symbolic sizes.

Enters: types of the inputs, and the part before it is fused. Leaves: `Runner`s. Programs that an earlier
process has made come from disk; `graph_to_program` is then run only if somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.base.collection import uncollected
from trilobite.compiler.program.program import Program
from trilobite.compiler.targets.cpu.kernel import native
from trilobite.compiler.targets.cpu.program_store import ProgramStore
from trilobite.compiler.targets.cpu.runner import Arena, Runner
from trilobite.ir.graph import Graph
from trilobite.ir.types import Symbol, TensorType, bind_symbols, symbols_of

if TYPE_CHECKING:
    from trilobite.compiler.targets.cpu.graph_to_program import Fused

Array = np.ndarray[Any, Any]
_SIZES = 128  # whose runners are kept
_ON_DISK = 8  # whose programs a process puts on disk: each has all kernels, and making one takes less


class Compiled:
    """A part of a graph with its runners: one for every choice of its symbolic sizes.

    `types` are those of the inputs that decide the sizes; `graph` gives the part before it is fused. Runners
    of many sizes share their memory, and only those of the sizes used last are kept.
    """

    def __init__(
        self,
        types: Sequence[TensorType],
        graph: Callable[[], Graph],
        donated: Mapping[int, int],
        store: tuple[ProgramStore | None, int],
        arena: Arena | None = None,
        replaced: Sequence[int] = (),
    ) -> None:
        self.donated, self.replaced = donated, replaced
        self._types, self._graph = types, graph
        self._store, self._part = store
        self.runners: dict[tuple[int, ...], Runner] = {}
        self.symbols: tuple[Symbol, ...] = tuple(sorted({s for t in types for s in symbols_of(t.shape)}))
        self.arena = Arena() if arena is None and self.symbols else arena
        self._latest: Runner | None = None
        self._shown: Mapping[Symbol, int] = {s: s.lower for s in self.symbols}
        self._begun: dict[tuple[int, ...], Program] = {}

    @cached_property
    def _fused(self) -> Fused:
        from trilobite.compiler.targets.cpu.graph_to_program import Fused

        return Fused(self._graph())

    @property
    def fused(self) -> Graph:
        """What was run last; before that, for the smallest sizes."""
        return self.fused_at(self._shown)

    def fused_at(self, sizes: Mapping[Symbol, int]) -> Graph:
        return self._fused.at(sizes).graph

    def program(self, sizes: Mapping[Symbol, int]) -> Program:
        return self._fused.program(sizes, self.donated)

    def begin(self, values: Sequence[Array]) -> None:
        """Makes the program for values of these shapes: its kernels are compiled by other threads while this
        one makes the next, or comes back for the runner.
        """
        sizes = self._sizes(values) if self.symbols else {}
        key = tuple(sizes[s] for s in self.symbols)
        if key not in self.runners and key not in self._begun:
            self._begun[key] = self._kept(key, sizes)

    def _sizes(self, values: Sequence[Array]) -> Mapping[Symbol, int]:
        return bind_symbols((t.shape, v.shape) for t, v in zip(self._types, values, strict=False))

    def runner(self, values: Sequence[Array]) -> Runner:
        if not self.symbols:
            found = self.runners.get(())
            return found or self._bind((), {}, len(values))
        sizes = self._sizes(values)
        key = tuple(sizes[s] for s in self.symbols)
        found = self.runners.get(key) or self._bind(key, sizes, len(values))
        if found is not self._latest:
            self._shown = sizes
            self._take_over(key, found)
        return found

    def _take_over(self, key: tuple[int, ...], runner: Runner) -> None:
        """The runner of another size is the latest: the one before lets go of what it keeps for further runs,
        and the one that was so longest ago is forgotten.
        """
        if self._latest is not None:
            self._latest.forget()
        self._latest = runner
        self.runners.pop(key, None)
        self.runners[key] = runner
        if len(self.runners) > _SIZES:
            self.runners.pop(next(iter(self.runners)), None)

    def _bind(self, key: tuple[int, ...], sizes: Mapping[Symbol, int], inputs: int) -> Runner:
        from trilobite.native.cache import named

        program = self._begun.pop(key, None) or self._kept(key, sizes)
        kernels = native(program.kernels)
        code = named([k.code for k in kernels], lambda i: (kernels[i].text, kernels[i].level))
        with uncollected():
            runner = Runner(program, code, inputs, self.arena, self.replaced)
        self.runners[key] = runner
        return runner

    def _kept(self, key: tuple[int, ...], sizes: Mapping[Symbol, int]) -> Program:
        """The program from disk, or made and put there."""
        found = None if self._store is None else self._store.program(self._part, key)
        if found is None:
            found = self.program(sizes)
            if self._store is not None and len(self.runners) < _ON_DISK:
                self._store.keep(self._part, key, found)
        return found
