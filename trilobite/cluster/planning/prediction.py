"""What a plan would cost: seconds and bytes of one rank, from its graph alone.

Operations cost what the primitives say, at the machine's speed; values that are written to memory cost their
bytes, at the speed of caches as far as these still hold them: by how many bytes were touched since. An
elementwise value that one elementwise reader takes is not written: it is fused. What only looks at a value in
another way (`Views`) costs nothing. Memory is that of the inputs and of what is alive at the worst moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from trilobite.cluster.planning.machines import Machine
from trilobite.cluster.sharding.partition import Collective, Partition
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.hoist_scan import hoist_scan
from trilobite.compiler.graph.passes.hoist_while import hoist_while
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.graph.regions import with_regions
from trilobite.compiler.targets.contract import Usage
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import TensorType, size_of

_FUSED = frozenset(
    """
add sub mul div neg exp log tanh erf sqrt rsqrt pow maximum minimum select cast broadcast
full iota slice abs sign gt ge lt le eq ne and or not xor expm1
log1p sin cos is_finite is_nan
""".split()
)


_PRODUCTS = ("dot", "conv", "conv_input_grad", "conv_weight_grad")


class Views(dict[Var, Var]):
    """Of each view in a graph the value that it shows: other shapes and names of it, and what products give
    or take in another order of axes.
    """

    def __init__(self, graph: Graph) -> None:
        makers = {v: e.primitive.name for e in graph.equations for v in e.outputs}
        readers: dict[Var, list[str]] = {v: ["result"] for v in graph.outputs}
        for e in graph.equations:
            for v in e.inputs:
                readers.setdefault(v, []).append(e.primitive.name)
        for e in graph.equations:
            if e.primitive.name in ("reshape", "stop_gradient", "barrier"):
                self.update(zip(e.outputs, map(self.of, e.inputs), strict=True))
            elif e.primitive.name == "transpose":
                (given,), (made,) = e.inputs, e.outputs
                product = makers.get(given) == "dot" and len(readers[given]) == 1
                if product or set(readers.get(made, ["result"])) == {"dot"}:
                    self[made] = self.of(given)

    def of(self, v: Var) -> Var:
        return self.get(v, v)


class Predicted(NamedTuple):
    """Of one step of one rank. `along` are seconds of collectives by side of the mesh."""

    work: float
    along: dict[str, float]
    state: float  # bytes of what enters and leaves: parameters, gradients, optimiser state, the batch
    peak: float  # bytes at the worst moment, state included

    @property
    def seconds(self) -> float:
        return self.work + sum(self.along.values())

    def grown(self, more: Predicted, times: int) -> Predicted:
        """This one with what each of `times` further layers adds: the difference of `more` and this one."""
        along = {k: self.along.get(k, 0.0) + times * (more.along.get(k, 0.0) - self.along.get(k, 0.0))
                 for k in {**self.along, **more.along}}  # fmt: skip
        rows = [(getattr(self, f), getattr(more, f)) for f in ("work", "state", "peak")]
        work, state, peak = (a + times * max(b - a, 0.0) for a, b in rows)
        return Predicted(work, along, state, peak)


def nbytes(t: TensorType) -> float:
    return float(size_of(t.shape)) * t.dtype.itemsize


def predicted(made: Partition, machine: Machine, names: tuple[str, ...], usage: Usage) -> Predicted:
    """`usage` says which results take the place of an input; gradients take that of the step before."""
    state = sum(nbytes(v.type) for v in made.graph.inputs)
    in_place = {out for out, _ in usage.donated}
    new = [i for i in range(len(made.graph.outputs)) if i not in in_place]
    results = sum(nbytes(made.graph.outputs[i].type) for i in new)
    made = replace(made, graph=as_compiled(made.graph))
    peak = state + results + alive(made.graph)
    each = works(made.graph, machine, peak)
    handed = machine.turn + machine.value * max(len(made.graph.inputs), len(made.graph.outputs))
    return Predicted(sum(each) + handed, waits(made, each, machine, names), state + results, peak)


def as_compiled(graph: Graph) -> Graph:
    """The graph with its loops as the compiler leaves them: what need not be done step by step is one product
    beside the loop, such as the gradient of a recurrent weight. What is outside of loops keeps its names.
    """
    loops = ("scan", "while")
    if not any(e.primitive.name in loops for e in graph.equations):
        return graph
    flat = [with_regions(e, lambda g: dce(inline(g))) if e.primitive.name in loops else e
            for e in graph.equations]  # fmt: skip
    return hoist_while(hoist_scan(Graph(graph.inputs, flat, graph.outputs, graph.name)))


_GATHERS = ("cluster_all_gather", "cluster_broadcast")


def waits(made: Partition, each: Sequence[float], machine: Machine, names: Sequence[str]) -> dict[str, float]:
    """Seconds that collectives add to those of the equations, by side of the mesh, in a run on paper: each
    begins where it stands (a gather where the one before it is first read), the link takes their bytes one
    after another, and who reads a result before it is there waits. Part of the time is the rank's own:
    `machine.exposed` of the bytes', `machine.handling` of the messages' beginnings. The rest of the latencies
    of sums that are all under way together counts once.
    """
    equations, along, views = made.graph.equations, dict.fromkeys(names, 0.0), Views(made.graph)
    known = {id(c) for c in made.made_by.values()}
    for c in made.collectives:
        if id(c) not in known:  # in a loop: waited for at once
            along[c.sides[0]] += c.seconds * c.times
    operand = {v: e.inputs for e in equations for v in e.outputs if v in made.made_by}
    begins = _beginnings(made, equations, views)
    now = link = 0.0
    there: dict[Var, tuple[float, Collective]] = {}

    def wait(values: Iterable[Var]) -> None:
        nonlocal now
        for v in map(views.of, values):
            done, c = there.pop(v, (0.0, None))
            if c is not None and done > now:
                along[c.sides[0]] += done - now
                now = done

    for i, e in enumerate(equations):
        for v in begins.get(i, ()):
            c = made.made_by[v]
            wait(operand[v])
            moving = c.seconds - c.latency
            own = moving * machine.exposed + c.latency * machine.handling
            along[c.sides[0]] += own
            now += own
            link = max(link, now) + moving * (1 - machine.exposed)
            there[v] = link + c.latency * (1 - machine.handling), c
        if not any(v in made.made_by or v in views for v in e.outputs):
            wait(e.inputs)
        now += each[i]
    wait(list(there))
    return along


def _beginnings(made: Partition, equations: Sequence[Equation], views: Views) -> dict[int, list[Var]]:
    """At which equation each collective begins."""
    first: dict[Var, int] = {}
    for i, e in enumerate(equations):
        if not any(v in views for v in e.outputs):
            for v in map(views.of, e.inputs):
                first.setdefault(v, i)
    out: dict[int, list[Var]] = {}
    before = 0  # where the gather before this one is first read
    for i, e in enumerate(equations):
        for v in e.outputs:
            if v in made.made_by:
                early = e.primitive.name in _GATHERS and e.inputs[0] in made.graph.inputs
                out.setdefault(min(i, before) if early else i, []).append(v)
                if early:
                    before = first.get(v, i)
    return out


def _footprint(graph: Graph) -> float:
    return sum(nbytes(v.type) for v in (*graph.inputs, *graph.outputs)) + alive(graph)


def _readers(graph: Graph, views: Views) -> dict[Var, list[str]]:
    found: dict[Var, list[str]] = {}
    for e in graph.equations:
        if not any(v in views for v in e.outputs):
            for v in map(views.of, e.inputs):
                found.setdefault(v, []).append(e.primitive.name)
    for v in map(views.of, graph.outputs):
        found.setdefault(v, []).append("result")
    return found


def _written(graph: Graph, views: Views) -> set[Var]:
    """Values that lie in memory: all but views and those that their only reader is fused with."""
    readers = _readers(graph, views)
    out = set()
    for e in graph.equations:
        for v in e.outputs:
            if v in views:
                continue
            seen = readers.get(v, [])
            name = e.primitive.name
            small = name in ("broadcast", "full", "iota", "slice")
            fused = name in _FUSED and all(r in _FUSED or r.startswith("reduce") for r in seen)
            ends = name in _PRODUCTS and all(r in _FUSED for r in seen)  # what follows is done tile by tile
            if not ((fused and (len(seen) <= 1 or small)) or (ends and len(seen) == 1)):
                out.add(v)
    return out


def work(graph: Graph, machine: Machine, footprint: float) -> float:
    """Seconds of computing, collectives left out."""
    return sum(works(graph, machine, footprint))


def works(graph: Graph, machine: Machine, footprint: float) -> list[float]:
    """The same, equation by equation. All that a step touches are `footprint` bytes, its inputs were touched
    that long ago, and so was memory that something new is written to.
    """
    views = Views(graph)
    written, touched = _written(graph, views), footprint
    out = [0.0] * len(graph.equations)
    there = written | set(graph.inputs)  # what is read from memory
    last = dict.fromkeys(graph.inputs, 0.0)  # of each value, how many bytes had been touched when it was
    known: dict[int, float] = {}
    for i, e in enumerate(graph.equations):
        name = e.primitive.name
        if name.startswith("cluster_") or name == "constant" or any(v in views for v in e.outputs):
            continue
        inner = 0.0
        for _, region in e.regions():
            if id(region) not in known:
                known[id(region)] = work(region, machine, _footprint(region))
            inner += known[id(region)] * (int(e.attributes["length"]) if name == "scan" else 1)
        if inner:
            out[i] = inner
            continue
        types, outs = [v.type for v in e.inputs], [v.type for v in e.outputs]
        flops = e.primitive.cost(types, outs, e.attributes)
        made = [v for v in e.outputs if v in written]
        read = [v for v in map(views.of, e.inputs) if v in there]
        if name in _FUSED and name != "slice":  # what is fused together reads a value once
            there -= set(read)
        moving = 0.0
        for v in (*read, *made):
            size = nbytes(v.type if name != "slice" else outs[0])
            moving += machine.through(size, min(footprint, touched - last.get(v, 0.0)))
            touched += size
            last[v] = touched
        fast = flops / machine.flops if name in _PRODUCTS else 0.25 * flops / machine.flops
        out[i] = max(fast, moving) + (machine.kernel if made else 0.0)
    return out


def _last_uses(graph: Graph, views: Views) -> dict[Var, int]:
    """The last equation that needs each value. What is sent stays until what comes of it is first read."""
    last: dict[Var, int] = {}
    first: dict[Var, int] = {}
    for i, e in enumerate(graph.equations):
        if not any(v in views for v in e.outputs):
            for v in map(views.of, e.inputs):
                last[v] = i
                first.setdefault(v, i)
    end = len(graph.equations) - 1
    for i, e in enumerate(graph.equations):
        if e.primitive.name.startswith("cluster_"):
            for v in map(views.of, e.inputs):
                last[v] = max(last[v], min((first.get(o, end) for o in e.outputs), default=i))
    return last


def alive(graph: Graph) -> float:
    """Bytes of values at the worst moment, inputs and results left out."""
    views = Views(graph)
    written, last = _written(graph, views) - set(map(views.of, graph.outputs)), _last_uses(graph, views)
    now = worst = 0.0
    ends: dict[int, list[Var]] = {}
    for i, e in enumerate(graph.equations):
        for _, region in e.regions():
            kept = [v for v in e.outputs if v in written] if e.primitive.name == "call" else region.outputs
            worst = max(worst, now + alive(region) + sum(nbytes(v.type) for v in kept))
        for v in e.outputs:
            if v in written and v in last:
                now += nbytes(v.type)
                ends.setdefault(last[v], []).append(v)
        worst = max(worst, now)
        now -= sum(nbytes(v.type) for v in ends.pop(i, ()))
    return worst
