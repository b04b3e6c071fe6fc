"""The loop IR: buffers, loops, and statements whose computation is a scalar graph.

A `Nest` is a value: loops around statements. A statement reads its leaves (loads, positions, tests), runs
its body (a graph of elementwise primitives over 0-d types) once, and writes each result to a target: it
stores it, or combines it into what stands there by a primitive that may be reordered. What is computed and
how the loops run (their kinds) are apart: `schedule` changes the second alone. Meaning: `interpret`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from trilobite.base.dtypes import DType, bool_
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Indirect,
    Ranges,
    as_index,
    factors,
    substitute,
    times,
    upper,
    variable,
    with_products,
)
from trilobite.ir.graph import Graph
from trilobite.ir.types import Affine, Dim, Shape, Symbol, size_of, symbols_of

Number = bool | int | float
COMBINES = ("add", "mul", "maximum", "minimum", "and", "or")


@dataclass(frozen=True)
class Buffer:
    """Memory that a nest reads or writes. `local`: of one run of one unit; it starts with arbitrary bits."""

    name: str
    dtype: DType
    shape: Shape
    strides: Shape = ()  # in elements; none given: row-major
    kind: Literal["argument", "local"] = "argument"

    @property
    def steps(self) -> Shape:
        return self.strides or row_major(self.shape)

    def flat(self, index: Sequence[Index]) -> Index:
        """The number of an element in memory."""
        out = Index(0)
        for i, step in zip(index, self.steps, strict=True):
            out = out + i * step
        return out

    @property
    def bytes(self) -> int:
        """Of a local: enough for every size."""
        return upper(size_of(self.shape)) * self.dtype.itemsize


def row_major(shape: Shape) -> Shape:
    out: list[Dim] = []
    for d in reversed(shape[1:]):
        out.append(times(out[-1], d) if out else d)
    return (*reversed(out), 1) if shape else ()


# -- statements --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Load:
    """An element. Where one of the guards is negative memory is not touched and the fill is the value."""

    buffer: str
    index: tuple[Index, ...]
    guards: tuple[Index, ...] = ()
    fill: Number = 0

    def substituted(self, by: Mapping[str, Index]) -> Load:
        index, guards = (tuple(substitute(i, by) for i in each) for each in (self.index, self.guards))
        return Load(self.buffer, index, guards, self.fill)

    @property
    def indices(self) -> tuple[Index, ...]:
        return (*self.index, *self.guards)

    def __str__(self) -> str:
        at = f"{self.buffer}[{', '.join(map(str, self.index))}]"
        if not self.guards:
            return at
        return f"({at} if {' and '.join(f'{g} >= 0' for g in self.guards)} else {self.fill})"


@dataclass(frozen=True)
class Position:
    """The value of an index, as a number of a dtype."""

    index: Index
    dtype: DType

    def substituted(self, by: Mapping[str, Index]) -> Position:
        return Position(substitute(self.index, by), self.dtype)

    @property
    def indices(self) -> tuple[Index, ...]:
        return (self.index,)

    def __str__(self) -> str:
        return f"{self.dtype.name}({self.index})"


@dataclass(frozen=True)
class Test:
    """True where no guard is negative."""

    __test__ = False  # not one of pytest's
    guards: tuple[Index, ...]

    def substituted(self, by: Mapping[str, Index]) -> Test:
        return Test(tuple(substitute(g, by) for g in self.guards))

    @property
    def indices(self) -> tuple[Index, ...]:
        return self.guards

    def __str__(self) -> str:
        return "(" + " and ".join(f"{g} >= 0" for g in self.guards) + ")"


Leaf = Load | Position | Test


@dataclass(frozen=True)
class Target:
    """Where a result goes. `combine` names the primitive that joins it to what stands there."""

    buffer: str
    index: tuple[Index, ...]
    combine: str | None = None

    def substituted(self, by: Mapping[str, Index]) -> Target:
        return Target(self.buffer, tuple(substitute(i, by) for i in self.index), self.combine)


@dataclass(frozen=True)
class Statement:
    leaves: tuple[Leaf, ...]
    body: Graph
    targets: tuple[Target, ...]

    def substituted(self, by: Mapping[str, Index]) -> Statement:
        leaves = tuple(leaf.substituted(by) for leaf in self.leaves)
        return Statement(leaves, self.body, tuple(t.substituted(by) for t in self.targets))

    def loads(self) -> Iterator[Load]:
        """Every read of memory, those inside indices too."""
        for leaf in self.leaves:
            for i in leaf.indices:
                yield from i.loads()
            if isinstance(leaf, Load):
                yield leaf
        for t in self.targets:
            for i in t.index:
                yield from i.loads()


@dataclass(frozen=True)
class Micro:
    """A nest that a micro-kernel runs instead: its name, and the loops that say what it means."""

    kernel: str
    meaning: tuple[Node, ...]


Kind = Literal["serial", "parallel", "vector", "unrolled"]


@dataclass(frozen=True)
class Ahead:
    """Memory that a later iteration of an outer loop, or a later loop, will read or write: to be asked for
    now.
    """

    buffer: str
    index: Index
    write: bool


@dataclass(frozen=True)
class Loop:
    """`for var in range(max(0, start), min(extent))`. A vector loop runs `lanes` elements at once, `unroll`
    such vectors per iteration, in `pairs` as one of twice the width, and what remains one by one. Each
    iteration of it may ask for memory `ahead`.
    """

    var: str
    extent: tuple[Index, ...]
    body: tuple[Node, ...]
    kind: Kind = "serial"
    lanes: int = 0
    unroll: int = 1
    pairs: bool = False
    ahead: tuple[Ahead, ...] = ()
    start: tuple[Index, ...] = ()  # of skewed loops: the first iteration is the largest of these, or 0
    runs: bool = False  # it has an iteration, though its bounds may not show it


Node = Loop | Statement | Micro


@dataclass(frozen=True)
class Nest:
    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Node, ...]
    unless_same: tuple[str, str] | None = None  # nothing to do where these two buffers are one

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)

    @property
    def arguments(self) -> tuple[Buffer, ...]:
        return tuple(b for b in self.buffers if b.kind == "argument")

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        """The sizes that a run passes, after the buffers, in this order."""
        return tuple(s for s in self.sizes if factors(s) is None)

    @property
    def sizes(self) -> tuple[Symbol, ...]:
        """Those, and products of them, each after its factors."""
        found: set[Symbol] = set()
        for b in self.buffers:
            found |= symbols_of((*b.steps, *(b.shape if b.kind == "local" else ())))
        for node in walk(self.body):
            for i in node_indices(node):
                found |= symbols_of(list(index_sizes(i)))
        return tuple(with_products(found))

    def __str__(self) -> str:
        from trilobite.compiler.targets.cpu.loops.text import show

        return show(self)


def loop(var: str, extent: Index | Dim, *body: Node, kind: Kind = "serial") -> Loop:
    return Loop(var, (as_index(extent),), body, kind)


@dataclass(frozen=True)
class Loops:
    """Loops over a shape, one for each axis, the first outermost."""

    names: tuple[str, ...]
    shape: Shape

    @property
    def index(self) -> tuple[Index, ...]:
        """Of the element that an iteration is for."""
        return tuple(map(variable, self.names))

    @property
    def ranges(self) -> dict[str, Dim]:
        return dict(zip(self.names, self.shape, strict=True))

    def around(self, *body: Node) -> tuple[Node, ...]:
        for name, d in reversed(self.ranges.items()):
            body = (loop(name, d, *body),)
        return body


def loops_over(shape: Sequence[Dim], letter: str = "o") -> Loops:
    return Loops(tuple(f"{letter}{a}" for a in range(len(shape))), tuple(shape))


# -- walking -----------------------------------------------------------------------------------------------


def walk(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """Every node, outer before inner, in order of the text."""
    for node in nodes:
        yield node
        if isinstance(node, Loop):
            yield from walk(node.body)
        elif isinstance(node, Micro):
            yield from walk(node.meaning)


def statements(nodes: tuple[Node, ...]) -> Iterator[Statement]:
    return (n for n in walk(nodes) if isinstance(n, Statement))


def loops(nodes: tuple[Node, ...]) -> Iterator[Loop]:
    return (n for n in walk(nodes) if isinstance(n, Loop))


def buffers_of(nodes: tuple[Node, ...]) -> set[str]:
    """The names of all memory that is read or written there."""
    out: set[str] = set()
    for s in statements(nodes):
        out |= {load.buffer for load in s.loads()} | {t.buffer for t in s.targets}
    return out


def node_indices(node: Node) -> Iterator[Index]:
    """The indices that stand in a node itself, not in what it contains."""
    if isinstance(node, Loop):
        yield from node.extent
        yield from node.start
    elif isinstance(node, Statement):
        for leaf in node.leaves:
            yield from leaf.indices
        for t in node.targets:
            yield from t.index


def index_sizes(index: Index) -> Iterator[Dim]:
    """Every size inside an index."""
    yield index.constant
    for atom, c in index.terms:
        yield c
        if isinstance(atom, str):
            continue
        if isinstance(atom, Indirect):
            yield from (atom.low, atom.high)
            inner = atom.load.indices
        else:
            yield atom.by
            inner = (atom.index,)
        for i in inner:
            yield from index_sizes(i)


def rewritten(nodes: tuple[Node, ...], change: Callable[[Node], tuple[Node, ...]]) -> tuple[Node, ...]:
    """Each node replaced by what `change` gives, inner nodes first."""
    out: list[Node] = []
    for node in nodes:
        if isinstance(node, Loop):
            node = replace(node, body=rewritten(node.body, change))
        elif isinstance(node, Micro):
            node = replace(node, meaning=rewritten(node.meaning, change))
        out.extend(change(node))
    return tuple(out)


def substituted(nodes: tuple[Node, ...], by: Mapping[str, Index]) -> tuple[Node, ...]:
    """Loop variables replaced by indices everywhere inside."""

    def change(node: Node) -> tuple[Node, ...]:
        if isinstance(node, Statement):
            return (node.substituted(by),)
        if isinstance(node, Loop):
            extent, start = (tuple(substitute(e, by) for e in each) for each in (node.extent, node.start))
            return (replace(node, extent=extent, start=start),)
        return (node,)

    return rewritten(nodes, change)


def ranges_of(nodes: tuple[Node, ...]) -> Ranges:
    """For each loop variable the largest extent that is known without other variables."""
    out: dict[str, Dim] = {}
    for each in loops(nodes):
        plain = [e.constant for e in each.extent if e.is_constant]
        if plain:
            out[each.var] = _smallest(plain)
    return out


def _smallest(sizes: list[Dim]) -> Dim:
    fixed = [d for d in sizes if not isinstance(d, Affine)]
    return min(fixed) if fixed else sizes[0]


def leaf_dtype(nest: Nest, leaf: Leaf) -> DType:
    if isinstance(leaf, Load):
        return nest.buffer(leaf.buffer).dtype
    return leaf.dtype if isinstance(leaf, Position) else bool_
