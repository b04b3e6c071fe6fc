"""slice_batch: convolutions of many images, a few images at a time.

Enters: a graph whose convolutions are channels last. Leaves: the graph in which the part of a network whose
values of all images are larger than the caches is a `scan` over slices of the batch: what a layer writes is
still near when the next one reads it. Parts whose values fit keep the whole batch, and so do parts that
compute much with every byte: there larger products do better. What is sliced keeps images apart, so no bits
change but those of sums over all pixels of an image, whose blocks depend on how many images there are.

A graph is parted into levels: an equation that keeps images apart is on the level of its operands, and one
that does not (a product, statistics of a batch) stands between two levels. Each level has one loop at most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trilobite.base.records import dataclass
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.rules.pointwise import POINTWISE
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Affine, TensorType, size_of

_LAYERS = frozenset(
    "conv_last conv_winograd conv_integer conv_integer_tiles window_last_reduce".split()
)  # whose first operand is a batch of images; all others are weights


class Caches(NamedTuple):
    """When what a layer reads and writes, weights apart, is too much."""

    near: int  # bytes that stay in the caches until the next layer reads them
    idle: float  # operations with each byte below which a layer waits for memory


def slice_batch(graph: Graph, caches: Caches, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with loops over slices of large batches."""
    size = _batch(graph, caches.near)
    if size is None or graph.has_effects:
        return graph
    levels = _Levels(graph, size)
    loops = {at: part for at, es in levels.apart.items() if (part := _part(graph, es, size, caches))}
    if not loops:
        return graph
    counters["loop over slices"] += len(loops)
    return dce(_with_loops(graph, levels, loops))


def _batch(graph: Graph, near: int) -> int | None:
    """How many images the largest layer has, if that is large and they are several."""
    layers = [e for e in graph.equations if _is_layer(e)]
    largest = max(layers, key=_traffic, default=None)
    if largest is None or _traffic(largest) <= near:
        return None
    size = int(largest.inputs[0].type.shape[0])
    return size if size > 1 else None


def _is_layer(e: Equation) -> bool:
    if e.primitive.name not in _LAYERS or e.inputs[0].type.ndim < 3:
        return False
    return _is_static((e.inputs[0], *e.outputs))


def _is_static(values: Iterable[Var]) -> bool:
    return not any(isinstance(d, Affine) for v in values for d in v.type.shape)


def _traffic(layer: Equation) -> int:
    return sum(_bytes(v) for v in (layer.inputs[0], *layer.outputs))


def _work(layer: Equation) -> float:
    types = [[v.type for v in values] for values in (layer.inputs, layer.outputs)]
    return layer.primitive.cost(*types, layer.attributes)


def _bytes(v: Var) -> int:
    return int(size_of(v.type.shape)) * v.type.dtype.itemsize


# -- which equations keep images apart -----------------------------------------------------------------------


def _images(e: Equation, size: int) -> Sequence[Var] | None:
    """The first operands, whose first axis is the result's, image by image; None if there are none such."""
    if not e.outputs or any(v.type.shape[:1] != (size,) for v in e.outputs) or not _is_static(e.outputs):
        return None
    name, a = e.primitive.name, e.attributes
    operands = e.inputs[:1]
    if name in POINTWISE:
        operands = e.inputs
    elif name == "transpose":
        operands = operands if a["axes"][0] == 0 else ()
    elif name == "broadcast":
        operands = operands if a["axes"][:1] == (0,) else ()
    elif name.startswith("reduce_"):
        operands = operands if 0 not in a["axes"] else ()
    elif name != "reshape" and not _is_layer(e):
        return None
    same = operands and all(v.type.shape[:1] == (size,) for v in operands)
    return operands if same else None


class _Levels:
    """Equations that keep images apart, by level, and the level before which each of the others stands."""

    def __init__(self, graph: Graph, size: int) -> None:
        self.size = size
        self.makers = {v: e for e in graph.equations for v in e.outputs}
        self.images = self._seeds(graph)
        self.apart: dict[int, list[Equation]] = {}
        self.level: dict[int, int] = {}  # by the equation's identity
        ready: dict[Var, int] = {}  # the level on which a value can be read
        made: dict[Var, int] = {}  # on which it is made, with images apart
        for e in graph.equations:
            images = len(self._images(e))
            at = 0
            for n, v in enumerate(e.inputs):  # what is read as a whole must be there as a whole
                at = max(at, made[v] + (n >= images) if v in made else ready.get(v, 0))
            self.level[id(e)] = at
            if not images:
                ready.update((v, at) for v in e.outputs)
                continue
            self.apart.setdefault(at, []).append(e)
            self.images.update(e.outputs)
            made.update((v, at) for v in e.outputs)

    def _images(self, e: Equation) -> Sequence[Var]:
        """The operands of an equation that keeps images apart, without its weights; none of another."""
        operands = _images(e, self.size) or ()
        if not any(v in self.images for v in operands):
            return ()
        return operands if all(v in self.images or self.same_for_all(v) for v in operands) else ()

    def same_for_all(self, v: Var) -> bool:
        """Is a value the same for every image?"""
        e = self.makers.get(v)
        return e is not None and _is_uniform(e)

    def _seeds(self, graph: Graph) -> set[Var]:
        """What layers read as images, and what that is computed from."""
        found = {e.inputs[0] for e in graph.equations if _is_layer(e) and _images(e, self.size)}
        for e in reversed(graph.equations):
            if any(v in found for v in e.outputs) and not _is_uniform(e):
                found.update(v for v in _images(e, self.size) or () if not self.same_for_all(v))
        return found


def _is_uniform(e: Equation) -> bool:
    if e.primitive.name != "broadcast":
        return e.primitive.name == "full"
    return e.attributes["axes"][:1] != (0,) or e.inputs[0].type.shape[0] == 1


# -- which part of a level is sliced -------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A run of a level's equations, what is read elsewhere of what they make, and the images of a slice."""

    begin: int
    end: int
    results: Sequence[Var]
    images: int


def _part(graph: Graph, level: Sequence[Equation], size: int, caches: Caches) -> _Part | None:
    """From the first large layer to the last, with what follows that before the next layer."""
    layers = [n for n, e in enumerate(level) if _is_layer(e)]
    large = [n for n in layers if _traffic(level[n]) > caches.near]
    if len(large) < 2:
        return None
    begin = 0 if large[0] == layers[0] else large[0]
    end = next((n for n in layers if n > large[-1]), len(level))
    traffic = [_traffic(level[n]) for n in large]
    results = _read_elsewhere(graph, level[begin:end])
    if 4 * sum(map(_bytes, results)) > sum(traffic):  # that is written as a whole all the same
        return None
    if sum(_work(level[n]) for n in large) > caches.idle * sum(traffic):
        return None
    fitting = [n for n in range(1, size) if size % n == 0 and n * max(traffic) <= caches.near * size]
    return _Part(begin, end, results, max(fitting, default=1))


def _read_elsewhere(graph: Graph, chosen: Sequence[Equation]) -> list[Var]:
    mine = {id(e) for e in chosen}
    read = {v for e in graph.equations if id(e) not in mine for v in e.inputs} | set(graph.outputs)
    return [v for e in chosen for v in e.outputs if v in read]


# -- the loops -----------------------------------------------------------------------------------------------


def _with_loops(graph: Graph, levels: _Levels, loops: Mapping[int, _Part]) -> Graph:
    """Level by level: what does not keep images apart, then the level up to its loop, the loop, the rest."""
    stage = {id(e): 0 for e in graph.equations}
    for at, part in loops.items():
        in_order = enumerate(levels.apart[at])
        stage.update((id(e), 1 + (n >= part.begin) + (n >= part.end)) for n, e in in_order)
    equations: list[Equation] = []
    for e in sorted(graph.equations, key=lambda e: (levels.level[id(e)], stage[id(e)])):
        at = levels.level[id(e)]
        if stage[id(e)] != 2:
            equations.append(e)
        elif e is levels.apart[at][loops[at].begin]:
            equations += _Loop(levels, levels.apart[at], loops[at]).equations()
    return Graph(graph.inputs, equations, graph.outputs, graph.name)


class _Loop:
    """A part of a level as a scan."""

    def __init__(self, levels: _Levels, level: Sequence[Equation], part: _Part) -> None:
        self.levels, self.part = levels, part
        self.chosen = level[part.begin : part.end]
        self.rounds = levels.size // part.images
        self.body: list[Equation] = []
        self.inside: dict[Var, Var] = {}  # what the slice of a value is called in the body
        self.consts: dict[Var, Var] = {}
        self.slices: dict[Var, Var] = {}

    def equations(self) -> list[Equation]:
        for e in self.chosen:
            self._copy(e, len(_images(e, self.levels.size) or ()))
        near, shapes = self.chosen[0].location, {v: self._stacked(v).shape for v in self.slices}
        cut = [Equation.of("reshape", (v,), {"shape": shape}, near) for v, shape in shapes.items()]
        given = [self.inside[v] for v in self.part.results]
        inner = [*self.consts.values(), *self.slices.values()]
        outer = [*self.consts, *(e.outputs[0] for e in cut)]
        stacked = tuple(Var(self._stacked(v)) for v in self.part.results)
        attributes = {
            "body": Graph(inner, self.body, given, "slice"), "consts": len(self.consts), "carries": 0,
            "length": self.rounds, "reverse": False,
        }  # fmt: skip
        last = self.chosen[-1]
        loop = Equation(table["scan"], tuple(outer), attributes, stacked, last.location)
        joined = [
            Equation(table["reshape"], (s,), {"shape": v.type.shape}, (v,), last.location)
            for s, v in zip(stacked, self.part.results, strict=True)
        ]
        return [*cut, loop, *joined]

    def _stacked(self, v: Var) -> TensorType:
        return TensorType((self.rounds, self.part.images, *v.type.shape[1:]), v.type.dtype)

    def _copy(self, e: Equation, images: int) -> None:
        """An equation on a slice; so many of its operands are images."""
        inputs = [
            self._slice(v) if n < images else self.consts.setdefault(v, Var(v.type))
            for n, v in enumerate(e.inputs)
        ]
        attributes = dict(e.attributes)
        if "shape" in attributes:
            attributes["shape"] = (self.part.images, *attributes["shape"][1:])
        made = Equation.of(e.primitive.name, inputs, attributes, e.location)
        self.body.append(made)
        self.inside.update(zip(e.outputs, made.outputs, strict=True))

    def _slice(self, v: Var) -> Var:
        if v not in self.inside:
            if v not in self.levels.images:  # the same for all images
                self._copy(self.levels.makers[v], 0)
            else:
                self.inside[v] = Var(TensorType((self.part.images, *v.type.shape[1:]), v.type.dtype))
                self.slices[v] = self.inside[v]
        return self.inside[v]
