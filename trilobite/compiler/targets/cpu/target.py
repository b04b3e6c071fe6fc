"""The target `cpu`: a graph to an executable, by way of passes, fusions, a plan and native kernels.

Enters: a recorded graph and `Options`. Leaves: an `Executable` that takes and gives arrays. What depends on
stable inputs alone is a program of its own that runs again only when one of them has changed. Programs that
an earlier process has made come from disk; `graph_to_program` is then run only if somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import numpy as np

from trilobite.compiler.graph.pipeline import Compilation, Options, Sizes
from trilobite.compiler.targets import contract
from trilobite.compiler.targets.contract import NOBODY, Target, Usage
from trilobite.compiler.targets.cpu.compiled import Compiled
from trilobite.compiler.targets.cpu.primitives import FAMILIES
from trilobite.compiler.targets.cpu.program_store import Division, Pack, ProgramStore, facts, store_of
from trilobite.compiler.targets.cpu.results import picker
from trilobite.compiler.targets.cpu.runner import Arena
from trilobite.compiler.targets.cpu.weights import Weights
from trilobite.ir.evaluate import sizes_of
from trilobite.ir.graph import Graph
from trilobite.ir.transforms.cells import Cell

if TYPE_CHECKING:
    from trilobite.compiler.graph.fuse import FusionPolicy
    from trilobite.compiler.graph.passes import Pass
    from trilobite.compiler.graph.passes.split_stable import Halves
    from trilobite.compiler.targets.cpu.graph_to_program import Made
    from trilobite.compiler.targets.cpu.tools.memory import MemoryReport
    from trilobite.compiler.targets.cpu.tools.profiling import Profile

Array = np.ndarray[Any, Any]
EAGER = Arena()  # of operations that run one at a time, outside compiled functions


class Executable(contract.Executable):
    """What `compile_graph` gives: call it with arrays."""

    overwrites = True

    def __init__(self, graph: Graph, options: Options) -> None:
        self.graph, self.options = graph, options
        everyone.add(self)
        store = store_of(graph, options)
        self.division = self._divided(store)
        donated, types = dict(options.donated), graph.input_types
        if not self.division.two:
            arena = EAGER if options.eager else None
            self.main = Compiled(
                types, lambda: self.compilation.latest, donated, (store, 0), arena, options.replaced
            )
            return
        kept = self.division.kept
        at = {i: n for n, i in enumerate(kept)}
        given = {o: at[i] for o, i in donated.items() if i in at}
        taken = [types[i] for i in kept]
        self.main = Compiled(taken, lambda: self._two().second, given, (store, 0), None, options.replaced)
        self.weights = Weights(
            self.division, types, lambda: self._two().first, lambda: self._two().rest, self._packing, store
        )
        self.keeper = self.weights
        self._kept = picker(kept)

    # -- how it was made -------------------------------------------------------------------------------------

    @cached_property
    def _made(self) -> Made:
        from trilobite.compiler.targets.cpu.graph_to_program import make

        return make(self.graph, self.options)

    @property
    def compilation(self) -> Compilation:
        return self._made.compilation

    @property
    def halves(self) -> Halves | None:
        return self._made.halves

    @property
    def fusions(self) -> int:  # type: ignore[override]
        return sum(len(part.fused) for part in self.parts)

    @property
    def parts(self) -> tuple[Compiled, ...]:
        return (self.weights.first, self.main) if self.division.two else (self.main,)

    def _two(self) -> Halves:
        assert self.halves is not None
        return self.halves

    def _packing(self, number: int) -> Graph:
        return self._two().packings[number].graph

    def _divided(self, store: ProgramStore | None) -> Division:
        found = None if store is None else store.division()
        if found is None:
            halves = self.halves
            found = Division() if halves is None else _division(halves)
            if store is not None:
                store.keep_division(found)
        return found

    # -- running ---------------------------------------------------------------------------------------------

    def prepare(self, values: Sequence[Array], owners: Mapping[int, Cell] = NOBODY) -> None:
        """Compiles what a run with values of these shapes needs."""
        given: list[Any] = list(values)
        if self.division.two:
            self.weights.owners = owners
            given = [*self._kept(values), *range(self.division.outputs)]
            self.main.begin(given)  # most of the work: its kernels are being compiled meanwhile
            self.weights.begin(values)
            self.weights.prepare(values)
        self.main.runner(given)

    def __call__(self, values: Sequence[Array]) -> list[Array]:
        """Values that nobody has looked at are looked at first: native code would read whatever lies where
        they should be. None is given away.
        """
        sizes_of(self.graph, values)
        return self.run(tuple(values), [], 0)

    def run(self, values: Sequence[Array], old: list[Array], held: int) -> list[Array]:
        if self.division.two:
            ready = self.weights(values, held)
            given = [*self._kept(values), *ready]
        else:
            given = list(values)
        if type(values) is list:
            values.clear()  # arrays that are given away are held by one list alone
        return self.main.runner(given)(given, old, held)

    @property
    def stages(self) -> Mapping[str, str]:
        from trilobite.compiler.targets.cpu.report import Stages

        return Stages(self)

    def profile(self, call: Callable[[], object], repeats: int, again: bool = False) -> Profile:
        from trilobite.compiler.targets.cpu.tools.profiling import busiest, profile_calls
        from trilobite.compiler.targets.cpu.tools.roofs import roofline

        if again:
            roofline(again=True)
        return profile_calls(busiest(call) or self, call, repeats, self.graph.name)

    def tune(self, seconds: float, say: Callable[[str], None], seed: int = 0) -> str:
        from trilobite.compiler.targets.cpu.tuning.report import outcomes_table
        from trilobite.compiler.targets.cpu.tuning.tuner import tune

        return outcomes_table(tune(self, seconds, say, seed))

    def memory(self) -> MemoryReport:
        from trilobite.compiler.targets.cpu.tools.memory import memory_report

        return memory_report(self)

    def explain(self) -> list[str]:
        from trilobite.compiler.targets.cpu.report import explain

        return explain(self)


class Cpu(Target):
    """This machine's cores."""

    name = "cpu"
    primitives = frozenset(name for names in FAMILIES.values() for name in names.split())
    exports = ("c",)

    def lower(self, graph: Graph, usage: Usage) -> tuple[Graph, Options]:
        """As it is: only where no program is found on disk is one made (`graph_to_program`)."""
        return graph, options_of(usage)

    def load(self, lowered: tuple[Graph, Options]) -> Executable:
        return compile_graph(*lowered)

    def passes(self) -> Sequence[Pass]:
        from trilobite.compiler.targets.cpu.stages import STAGES

        return [p for _, p in STAGES]

    def fusion(self) -> FusionPolicy:
        from trilobite.compiler.targets.cpu.kinds import kinds

        return kinds().policy

    def export(self, graph: Graph, usage: Usage, form: str) -> str:
        from trilobite.compiler.targets.cpu.tools.c_program import c_program

        return c_program(graph, options_of(usage))

    def facts(self) -> str | None:
        return facts()


SIZES = Sizes(scaled=1 << 18, merged=1 << 16, shortened=4096, put_away=1 << 16)


def options_of(usage: Usage) -> Options:
    """What the passes are told."""
    told = Options.of(dict(usage.options), usage.stable, usage.donated, usage.replaced, "the cpu")
    return told._replace(eager=usage.alone, sizes=SIZES)


_ONLY = Cpu()


def cpu(argument: object) -> Target:
    return _ONLY


everyone: WeakSet[Executable] = WeakSet()
"""What was compiled in this process and is still there. Several may serve one function: with gradients on,
one keeps what a backward pass needs.
"""


def _division(halves: Halves) -> Division:
    packs = tuple(
        Pack(p.input, p.output, p.equation.primitive.name, dict(p.equation.attributes))
        for p in halves.packings
    )
    return Division(True, halves.stable, halves.kept, len(halves.first.outputs), packs)


def compile_graph(graph: Graph, options: Options = Options()) -> Executable:  # noqa: B008
    """A graph as something that runs; compiled once per graph and options."""
    made: dict[Options, Executable] = graph.__dict__.setdefault("_cpu", {})
    if options not in made:
        made[options] = Executable(graph, options)
    return made[options]
