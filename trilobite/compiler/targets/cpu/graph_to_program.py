"""How a graph becomes programs of this target: passes, the part for weights apart, fusions, a plan.

Enters: a recorded graph and `Options`. Leaves: the graph after every pass, fused graphs and `Program`s. It
compiles no kernel and runs nothing. A process that finds its programs on disk never imports this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trilobite.base.records import dataclass
from trilobite.compiler.graph.fuse import fuse
from trilobite.compiler.graph.passes.inline import specialise
from trilobite.compiler.graph.passes.rematerialise import peak_bytes
from trilobite.compiler.graph.passes.split_stable import Halves, split_stable
from trilobite.compiler.graph.pipeline import Compilation, Options, run_stages
from trilobite.compiler.program.kernels import Lower
from trilobite.compiler.program.plan import plan
from trilobite.compiler.program.program import Program
from trilobite.compiler.targets.cpu.contraction.attention.lower import claims
from trilobite.compiler.targets.cpu.copying import COPY
from trilobite.compiler.targets.cpu.kernel import native
from trilobite.compiler.targets.cpu.kinds import kinds
from trilobite.compiler.targets.cpu.primitives.packing import PACKERS
from trilobite.compiler.targets.cpu.stages import STAGES
from trilobite.ir.graph import Graph
from trilobite.ir.text import walk
from trilobite.ir.types import Symbol
from trilobite.native.cache import ahead
from trilobite.native.runtime import begin as begin_runtime

_CHOICES = 16  # of sizes whose fused graphs are kept; programs of more are


@dataclass(frozen=True)
class Made:
    """A graph behind its passes, and its halves if there are two."""

    compilation: Compilation
    halves: Halves | None


def make(graph: Graph, options: Options) -> Made:
    """Who asked for little memory gets no second copy of a weight: what is made of weights is made in every
    run, in memory that the plan shares.
    """
    begin_runtime()
    options = options._replace(claimed=claims)
    if options.memory:
        options = options._replace(stable=frozenset())
    compilation = run_stages(graph, STAGES, options)
    if compilation.counters.get("rematerialise"):
        compilation = _smaller(compilation, run_stages(graph, STAGES, options._replace(memory=0)))
    halves = _halves(compilation.latest, options) if options.stable else None
    return Made(compilation, halves)


def _halves(graph: Graph, options: Options) -> Halves | None:
    return split_stable(graph, options.stable, PACKERS, options.sizes.put_away)


def _smaller(again: Compilation, plain: Compilation) -> Compilation:
    """Fusion keeps fewer values than `rematerialise` knows of, and none where what it computes again stands
    between: it is worth it only if less is alive once all is fused, and the plain graph takes too much.
    """
    budget = again.options.memory
    return min(plain, again, key=lambda c: max(peak_bytes(Fused(c.latest).graph), budget))


class Fused:
    """A fused graph; its lowerings are made once, whatever the sizes. Where symbols keep an operation from
    being a kernel (the plane of a convolution), the graph is fused anew for each choice of sizes.
    """

    def __init__(self, graph: Graph) -> None:
        table = kinds()
        self.source, self.graph = graph, fuse(graph, table.policy)
        self.lowerings = {name: _once(lower) for name, lower in table.lowerings.items()}
        self._waiting = _hosts(self.graph) if graph.symbols else 0
        self._fixed: dict[tuple[tuple[Symbol, int], ...], Fused] = {}

    def at(self, sizes: Mapping[Symbol, int]) -> Fused:
        """What runs for these sizes: the graph itself, unless numbers leave less of it to NumPy."""
        if not self._waiting or not sizes:
            return self
        key = tuple(sorted(sizes.items()))
        if key not in self._fixed:
            fixed = Fused(specialise(self.source, sizes))
            if _hosts(fixed.graph) >= self._waiting:
                self._waiting = 0
                return self
            if len(self._fixed) >= _CHOICES:
                self._fixed.pop(next(iter(self._fixed)), None)
            self._fixed[key] = fixed
        return self._fixed[key]

    def program(self, sizes: Mapping[Symbol, int], donated: Mapping[int, int]) -> Program:
        fused = self.at(sizes)
        return plan(fused.graph, fused.lowerings, sizes, donated, COPY)


def _hosts(graph: Graph) -> int:
    """How many operations are left to NumPy, those in loops and branches included."""
    return sum(e.attributes.get("kind") == "host" for g in walk(graph) for e in g.equations)


def _once(lower: Lower) -> Lower:
    """A lowering that is made once per equation; its kernels are being compiled while the next is made."""
    made: dict[int, Any] = {}

    def lowered(e: Any) -> Any:
        if id(e) not in made:
            made[id(e)] = found = lower(e)
            kernels = native(dict.fromkeys(step.kernel for step in found.steps))
            ahead((k.code, (k.text, k.level)) for k in kernels)
        return made[id(e)]

    return lowered
