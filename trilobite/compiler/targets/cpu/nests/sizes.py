"""Kernels that serve many sizes: lengths and strides of a scheduled nest become words of its kernel.

Enters: a nest with its schedule. Leaves: the nest with symbols in the place of numbers, with names that
depend on its form alone, and the numbers, in the order in which a run passes them. Nests that differ in sizes
alone leave as equal ones, and one kernel serves them all.

The schedule was chosen for the numbers and stays, so a kernel of any size computes what one of its own would,
in the same order: the same bits. Numbers remain where the text is better for them: short loops, strides of
vectors, how many elements are left after the last whole vector; and in nests with guards, quotients or
micro-kernels, which look at their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trilobite.compiler.targets.cpu.loops.index import Index, bounds
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Loop,
    Micro,
    Nest,
    Node,
    Statement,
    Target,
    loops,
    node_indices,
    ranges_of,
    walk,
)
from trilobite.ir.types import Affine, Dim, Symbol

LEAST = 8  # smaller numbers stay: they cost nothing, and text is written out for them
MULTIPLES = (2, 3, 4)  # of a stride, for the rows that one iteration takes
LINE = 64  # bytes
SMALL = 1 << 15  # bytes of a local that may be twice as large as it must
MOST = 2**31 - 1


def sized(nest: Nest) -> tuple[Nest, tuple[int, ...]]:
    """The nest for any size, and its own sizes; itself where its numbers stay."""
    if nest.symbols or not all(map(_is_plain, walk(nest.body))):
        return nest, ()
    lifted = _Lifted(nest)
    out = lifted.nest()
    return out, tuple(lifted.values[s] for s in out.symbols)


def _is_plain(node: Node) -> bool:
    """Does it address memory by sums of loop variables alone?"""
    if isinstance(node, Micro) or (isinstance(node, Loop) and (node.start or node.kind == "unrolled")):
        return False
    if isinstance(node, Statement) and any(not isinstance(x, Load) or x.guards for x in node.leaves):
        return False
    return all(isinstance(atom, str) for i in node_indices(node) for atom, _ in i.terms)


def _room(n: int, itemsize: int) -> int:
    """Elements of a local: the next power of two, of a large one the next eighth of it; and a line, so that
    two locals do not lie on the same sets of the cache.
    """
    whole = 1 << (n - 1).bit_length()
    part = whole if whole * itemsize <= SMALL else whole // 8
    return -(-n // part) * part + LINE // itemsize


class _Lifted:
    """A nest while its numbers become symbols."""

    def __init__(self, nest: Nest) -> None:
        self.old = nest
        every = list(loops(nest.body))
        self.variables = {each.var: f"i{k}" for k, each in enumerate(every)}
        self.buffers = {b.name: f"b{k}" for k, b in enumerate(nest.buffers)}
        self.lanes = {each.var for each in every if all(isinstance(n, Statement) for n in each.body)}
        self.values: dict[Symbol, int] = {}
        self.sizes: dict[int, Dim] = {}
        self.ranges = ranges_of(nest.body)
        self._strides()

    def _strides(self) -> None:
        """A symbol for every stride and offset, less those that are few times another of the same buffer."""
        families: dict[str, set[int]] = {}
        for name, index in self._accesses():
            families.setdefault(name, set()).update(self._numbers(index))
        for n in sorted(set().union(*families.values())):
            within = [family for family in families.values() if n in family]
            rows = ((k, n // k) for k in MULTIPLES if n % k == 0 and n // k >= LEAST)
            found = next(((k, u) for k, u in rows if all(u in family for family in within)), None)
            self.sizes[n] = self.sizes[found[1]] * found[0] if found is not None else self._symbol(n)

    def _accesses(self) -> Iterator[tuple[str, Index]]:
        for node in walk(self.old.body):
            if isinstance(node, Statement):
                yield from ((load.buffer, i) for load in node.loads() for i in load.index)
                yield from ((t.buffer, i) for t in node.targets for i in t.index)
            elif isinstance(node, Loop):
                yield from ((a.buffer, a.index) for a in node.ahead)

    def _numbers(self, index: Index) -> set[int]:
        found = [index.constant, *(c for atom, c in index.terms if atom not in self.lanes)]
        return {n for n in found if isinstance(n, int) and n >= LEAST}

    def _symbol(self, value: int) -> Dim:
        symbol = Symbol(f"s{len(self.values):02}", 1, MOST)
        self.values[symbol] = value
        return Affine(0, [(symbol, 1)])

    # -- the nest anew ---------------------------------------------------------------------------------------

    def nest(self) -> Nest:
        body = tuple(map(self._node, self.old.body))
        same = self.old.unless_same
        names = None if same is None else (self.buffers[same[0]], self.buffers[same[1]])
        return Nest("nest", tuple(map(self._buffer, self.old.buffers)), body, names)

    def _buffer(self, b: Buffer) -> Buffer:
        """Arguments of no size; locals rounded up, so that few sizes differ."""
        if b.kind == "argument":
            return Buffer(self.buffers[b.name], b.dtype, (1,), (), b.kind)
        (n,) = b.shape
        assert isinstance(n, int)
        return Buffer(self.buffers[b.name], b.dtype, (_room(n, b.dtype.itemsize),), (), b.kind)

    def _node(self, node: Node) -> Node:
        if isinstance(node, Statement):
            leaves = tuple(self._load(x) for x in node.leaves if isinstance(x, Load))
            targets = tuple(
                Target(self.buffers[t.buffer], tuple(map(self._index, t.index)), t.combine)
                for t in node.targets
            )
            return Statement(leaves, node.body, targets)
        assert isinstance(node, Loop)
        ahead = tuple(
            replace(a, buffer=self.buffers[a.buffer], index=self._index(a.index)) for a in node.ahead
        )
        body = tuple(map(self._node, node.body))
        spans = [bounds(e, self.ranges) for e in node.extent]
        return replace(
            node, var=self.variables[node.var], extent=self._extent(node), body=body, ahead=ahead,
            runs=all(span is not None and span[0] >= 1 for span in spans),
        )  # fmt: skip

    def _load(self, load: Load) -> Load:
        return Load(self.buffers[load.buffer], tuple(map(self._index, load.index)))

    def _index(self, index: Index) -> Index:
        terms = tuple(
            (self.variables[str(atom)], c if atom in self.lanes else self._size(c)) for atom, c in index.terms
        )
        return Index(self._size(index.constant), terms)

    def _size(self, n: Dim) -> Dim:
        return self.sizes.get(n, n) if isinstance(n, int) else n

    def _extent(self, node: Loop) -> tuple[Index, ...]:
        if len(node.extent) > 1 or not node.extent[0].is_constant:
            return tuple(self._bound(e) for e in node.extent)
        (n,) = (e.constant for e in node.extent)
        assert isinstance(n, int)
        if node.kind == "parallel":  # whoever calls the kernel says how far it goes
            return (Index(MOST),)
        step = node.lanes * max(node.unroll, 1) if node.kind == "vector" else 1
        if n < max(2 * step, LEAST):
            return node.extent
        return (Index(self._symbol(n // step) * step + n % step),)

    def _bound(self, e: Index) -> Index:
        """One of several ends of a loop: what the outer loops leave of it."""
        terms = tuple((self.variables[str(atom)], c) for atom, c in e.terms)
        n = e.constant
        assert isinstance(n, int)
        return Index(self._symbol(n) if terms and n >= LEAST else n, terms)
