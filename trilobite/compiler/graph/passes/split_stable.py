"""split_stable: what depends on stable inputs alone, apart from the rest.

Enters: a graph, and which inputs are stable: weights that runs read and seldom change. Leaves: two graphs.
The first computes from stable inputs what the second needs of them (folded, transposed and packed weights),
so it runs again only when a weight has changed. What costs nothing to redo (a broadcast, a reshape, a
constant) stays with its reader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from trilobite.base.records import dataclass
from trilobite.compiler.graph.pipeline import USUAL
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Affine, symbols_of

_FREE = frozenset({"broadcast", "reshape", "constant", "full", "iota", "stop_gradient", "barrier"})


@dataclass(frozen=True)
class Packing:
    """An input of the whole graph that is packed and used in no other way, and which output of `first` that
    gives.
    """

    input: int
    output: int
    graph: Graph

    @property
    def equation(self) -> Equation:
        return self.graph.equations[0]


@dataclass(frozen=True)
class Halves:
    """`first` takes the stable inputs at `stable`; `second` takes the inputs at `kept`, then first's
    outputs. `first` consists of `packings` and `rest`.
    """

    first: Graph
    second: Graph
    stable: tuple[int, ...]
    kept: tuple[int, ...]
    packings: tuple[Packing, ...]
    rest: Graph


def split_stable(
    graph: Graph, stable: Iterable[int], packers: Container[str] = (), least: int = USUAL.put_away
) -> Halves | None:
    """The two halves, or None if nothing worth running apart depends on stable inputs alone. `packers` are
    primitives whose operand can be made from what they give; weights of `least` bytes are packed alone.
    """
    wanted = set(stable)
    early = _early(graph, {graph.inputs[i] for i in wanted})
    made = {v for e in early for v in e.outputs}
    if not made:
        return None
    gone = {id(e) for e in early}
    late = [e for e in graph.equations if id(e) not in gone]
    crossing = tuple(
        dict.fromkeys(v for v in (*(v for e in late for v in e.inputs), *graph.outputs) if v in made)
    )
    first_inputs = {v for e in early for v in e.inputs}
    second_inputs = {v for e in late for v in e.inputs} | set(graph.outputs)
    taken = tuple(i for i, v in enumerate(graph.inputs) if v in first_inputs)
    kept = _with_sizes(
        graph, {i for i, v in enumerate(graph.inputs) if v in second_inputs or i not in wanted}
    )
    first = Graph([graph.inputs[i] for i in taken], early, crossing, graph.name + ".weights")
    second = Graph([*(graph.inputs[i] for i in kept), *crossing], late, graph.outputs, graph.name)
    packings = _packings(first, taken, kept, packers, least)
    return Halves(first, second, taken, kept, packings, _rest(first, packings))


def _packings(
    first: Graph, taken: Sequence[int], kept: Sequence[int], packers: Container[str], least: int
) -> tuple[Packing, ...]:
    at = {v: i for v, i in zip(first.inputs, taken, strict=True) if i not in kept}
    readers = Counter(v for e in first.equations for v in e.inputs)
    readers.update(first.outputs)
    outputs = {v: k for k, v in enumerate(first.outputs)}
    found = []
    for e in first.equations:
        if e.primitive.name in packers and e.outputs[0] in outputs and readers[e.outputs[0]] == 1:
            (v,) = e.inputs
            if v in at and readers[v] == 1 and _bytes(v) >= least:
                graph = Graph((v,), (e,), e.outputs, first.name + ".packed")
                found.append(Packing(at[v], outputs[e.outputs[0]], graph))
    return tuple(found)


def _bytes(v: Var) -> int:
    size = v.type.size
    return size * v.type.dtype.itemsize if isinstance(size, int) else 0


def _rest(first: Graph, packings: Sequence[Packing]) -> Graph:
    """The part without its packings."""
    if not packings:
        return first
    packed = {id(e) for p in packings for e in p.graph.equations}
    gone = {v for p in packings for v in (*p.graph.inputs, *p.graph.outputs)}
    equations = [e for e in first.equations if id(e) not in packed]
    inputs = [v for v in first.inputs if v not in gone]
    return Graph(inputs, equations, [v for v in first.outputs if v not in gone], first.name)


def _with_sizes(graph: Graph, kept: set[int]) -> tuple[int, ...]:
    """These inputs, and those that decide symbolic sizes which these do not."""
    known = {s for i in kept for s in symbols_of(graph.input_types[i].shape)}
    more = {i for i, t in enumerate(graph.input_types) if not symbols_of(t.shape) <= known}
    return tuple(sorted(kept | more))


def _early(graph: Graph, known: set[Var]) -> list[Equation]:
    """Equations that depend on stable values alone and are worth keeping the results of."""
    settled = set(known)
    candidates: list[Equation] = []
    for e in graph.equations:
        alone = all(v in settled for v in e.inputs) and not e.primitive.effect and not _random(e)
        if alone and not _sized(e):  # sizes are decided by each run
            settled.update(e.outputs)
            candidates.append(e)
    # From the back: a free equation stays only if something that is not free reads it inside.
    needed: set[Var] = set()
    out: list[Equation] = []
    for e in reversed(candidates):
        worth = e.primitive.name not in _FREE or any(v in needed for v in e.outputs)
        if worth and (e.inputs or any(v in needed for v in e.outputs)):
            needed.update(e.inputs)
            out.append(e)
    return out[::-1] if any(e.primitive.name not in _FREE for e in out) else []


def _sized(e: Equation) -> bool:
    """Does a size of what it makes, or of how often it repeats, depend on a symbol?"""
    return any(symbols_of(v.type.shape) for v in e.outputs) or _names_size(e.attributes.values())


def _names_size(values: Iterable[object]) -> bool:
    return any(isinstance(v, Affine) or (isinstance(v, tuple) and _names_size(v)) for v in values)


def _random(e: Equation) -> bool:
    return any(g.has_effects for _, g in e.regions())
