"""Reductions that keep the last axis, and reductions of few long rows: partial results of fixed blocks.

Columns: a strip of accumulators stays in the first cache while rows are added to it. Where that alone leaves
too little to do side by side, or too many additions in a row, the rows are cut into blocks of fixed size,
whose partial results a second nest combines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.combine import accumulates_in, identity
from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Quotient,
    Ranges,
    as_index,
    atom_index,
    upper,
    variable,
)
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loop, Loops, Nest, Node, Target, substituted
from trilobite.compiler.targets.cpu.loops.transform import extent_of, split_loop
from trilobite.compiler.targets.cpu.nests.defaults import BLOCK
from trilobite.compiler.targets.cpu.nests.groups import Group, Root, size
from trilobite.compiler.targets.cpu.nests.reader import Reader
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Var
from trilobite.ir.types import Dim, Shape

STRIP = 2048  # accumulators that stay in the first cache
ReaderOf = Callable[[Scalars, Ranges], Reader]
FEWEST = 16  # rows that are worth cutting into blocks
RUN = 512  # rows that are added one after the other before partial results are kept apart
BLOCK_VAR = "block"


@dataclass(frozen=True)
class Destination:
    """Where the result of a root goes: buffers of the kept shape, or partial results by block."""

    names: tuple[str, ...]
    partial: bool = False


def strips(group: Group) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The kept axes outside the reduced ones, and those inside (behind the last reduced axis)."""
    last = max(group.axes)
    return tuple(a for a in group.kept if a < last), tuple(a for a in group.kept if a > last)


class Columns:
    """One group of columns while its nest is built."""

    def __init__(self, group: Group, destinations: dict[Var, Destination]) -> None:
        self.group, self.destinations = group, destinations
        self.outer, self.inner = strips(group)
        self.strip = self._strip()

    def _strip(self) -> tuple[int, int] | None:
        """The axis to cut into strips, and how many of its places make one; None: no need. Axes before it
        become loops outside.
        """
        shape = tuple(self.group.shape[a] for a in self.inner)
        if size(shape) <= 2 * STRIP:
            return None
        rest = 1.0
        for k in reversed(range(len(shape))):
            if rest * upper(shape[k]) > STRIP:
                self.outer, self.inner = (*self.outer, *self.inner[:k]), self.inner[k:]
                return self.inner[0], max(int(STRIP // rest), 1)
            rest *= upper(shape[k])
        return None

    def _strips(self) -> Index:
        """How many strips there are."""
        assert self.strip is not None
        axis, cut = self.strip
        d = self.group.shape[axis]
        return Index(-(-d // cut)) if isinstance(d, int) else atom_index(Quotient(Index(d + (cut - 1)), cut))

    def _extents(self, phase: str) -> list[tuple[str, tuple[Index, ...]]]:
        """Variables and extents of the loops along a strip."""
        out = []
        for a in self.inner:
            d = self.group.shape[a]
            extent: tuple[Index, ...] = (as_index(d),)
            if self.strip is not None and a == self.strip[0]:
                cut = self.strip[1]
                whole = isinstance(d, int) and d % cut == 0
                extent = (Index(cut),) if whole else (Index(cut), as_index(d) - variable("s") * cut)
            out.append((f"{phase}{a}", extent))
        return out

    def _strip_shape(self) -> Shape:
        """Of the accumulators."""
        out: list[Dim] = [self.group.shape[a] for a in self.inner]
        if self.strip is not None:
            out[0] = self.strip[1]
        return tuple(out)

    def _local(self, phase: str) -> tuple[Index, ...]:
        return tuple(variable(f"{phase}{a}") for a in self.inner)

    def _place(self, a: int, phase: str) -> Index:
        """The place on an axis during a phase."""
        if a in self.group.axes:
            return variable(f"i{a}")
        if a not in self.inner:
            return variable(f"o{a}")
        here = variable(f"{phase}{a}")
        if self.strip is not None and a == self.strip[0]:
            return variable("s") * self.strip[1] + here
        return here

    def _along(self, phase: str, body: Node) -> Node:
        for var, extent in reversed(self._extents(phase)):
            body = Loop(var, extent, (body,))
        return body

    def build(
        self, reader_of: ReaderOf, roots: Sequence[Root]
    ) -> tuple[tuple[Node, ...], tuple[Buffer, ...]]:
        accs = {
            r.var: Buffer(
                f"a{k}", accumulates_in(r.combine, r.var.type.dtype), self._strip_shape(), kind="local"
            )
            for k, r in enumerate(roots)
        }
        sums = self._sums(reader_of, roots, accs)
        rows = Loops(tuple(f"i{a}" for a in self.group.axes), self.group.reduced_shape)
        body: tuple[Node, ...] = (self._start(roots, accs), *rows.around(sums), self._end(roots, accs))
        if self.strip is not None:
            body = (Loop("s", (self._strips(),), body),)
        outer = Loops(tuple(f"o{a}" for a in self.outer), tuple(self.group.shape[a] for a in self.outer))
        return outer.around(*body), tuple(accs.values())

    def _start(self, roots: Sequence[Root], accs: dict[Var, Buffer]) -> Node:
        scalars = Scalars()
        values = [scalars.number(identity(r.combine, accs[r.var].dtype), accs[r.var].dtype) for r in roots]
        targets = [Target(accs[r.var].name, self._local("b")) for r in roots]
        return self._along("b", scalars.statement(values, targets))

    def _sums(self, reader_of: ReaderOf, roots: Sequence[Root], accs: dict[Var, Buffer]) -> Node:
        scalars = Scalars()
        index = tuple(self._place(a, "c") for a in range(len(self.group.shape)))
        reader: Reader = reader_of(scalars, self._ranges())
        values = [scalars.cast(reader.element(r.operand, index), accs[r.var].dtype) for r in roots]
        targets = [Target(accs[r.var].name, self._local("c"), r.combine) for r in roots]
        return self._along("c", scalars.statement(values, targets))

    def _ranges(self) -> dict[str, Dim]:
        out: dict[str, Dim] = {f"i{a}": self.group.shape[a] for a in self.group.axes}
        out.update({f"o{a}": self.group.shape[a] for a in self.outer})
        out.update({f"c{a}": d for a, d in zip(self.inner, self._strip_shape(), strict=True)})
        if self.strip is not None:
            axis, cut = self.strip
            out["s"] = -(-upper(self.group.shape[axis]) // cut)
        return out

    def _end(self, roots: Sequence[Root], accs: dict[Var, Buffer]) -> Node:
        scalars = Scalars()
        index = tuple(self._place(a, "e") for a in self.group.kept)
        values: list[Var] = []
        targets: list[Target] = []
        for r in roots:
            acc, to = accs[r.var], self.destinations[r.var]
            value = scalars.leaf(Load(acc.name, self._local("e")), acc.dtype)
            if not to.partial:
                value = scalars.cast(value, r.var.type.dtype)
            for name in to.names:
                values.append(value)
                targets.append(Target(name, (variable(BLOCK_VAR), *index) if to.partial else index))
        return self._along("e", scalars.statement(values, targets))


# -- blocks ------------------------------------------------------------------------------------------------


def reduction_loop(body: tuple[Node, ...]) -> Loop | None:
    """The outermost loop whose iterations are combined: the one between a start and an end."""
    while len(body) == 1 and isinstance(body[0], Loop):
        body = body[0].body
    if len(body) < 3:
        return None
    middle = [n for n in body if isinstance(n, Loop)]
    return max(middle, key=_depth) if middle else None


def _depth(node: Node) -> int:
    return 1 + max(map(_depth, node.body), default=0) if isinstance(node, Loop) else 0


def rows_per_block(nest: Nest, group: Group) -> int | None:
    """How many iterations of the reduction make one block; None where one block is enough."""
    found = reduction_loop(nest.body)
    iterations = None if found is None else extent_of(found)
    if found is None or not isinstance(iterations, int) or iterations < 2:
        return None
    per_iteration = size(group.shape) / max(size(group.kept_shape), 1) / iterations
    if iterations * per_iteration < FEWEST:
        return None
    outside = _outside(nest.body)
    each = size(group.shape) / max(iterations, 1) / outside
    enough = outside >= 8 or iterations * each * outside <= 4 * BLOCK
    if enough and iterations * per_iteration <= 4 * RUN * RUN**0.5:
        return None
    rows = max(int(BLOCK // each), 1)
    rows = min(rows, max(RUN, int((iterations * RUN) ** 0.5)))
    return _even(rows, iterations) if rows < iterations else None


def _even(rows: int, iterations: int) -> int:
    """A size of about so many rows that divides all of them, if there is one; else a multiple of four."""
    for n in range(rows, rows // 2, -1):
        if iterations % n == 0 and n % 4 == 0:
            return n
    return max(rows // 4 * 4, 1)


def _outside(body: tuple[Node, ...]) -> int:
    """Units that there are without blocks."""
    total = 1
    while len(body) == 1 and isinstance(body[0], Loop):
        extent = extent_of(body[0])
        total *= max(extent, 1) if isinstance(extent, int) else 8
        body = body[0].body
    return total


def in_blocks(nest: Nest, rows: int) -> Nest:
    """The nest with the reduction cut into blocks; statements after it see the block's number."""

    def change(body: tuple[Node, ...]) -> tuple[Node, ...]:
        if len(body) == 1 and isinstance(body[0], Loop):
            return (replace(body[0], body=change(body[0].body)),)
        found = reduction_loop(body)
        assert found is not None
        blocks = split_loop(found, rows)
        (inner,) = blocks.body
        inside = tuple(inner if n is found else n for n in body)
        whole = Loop(BLOCK_VAR, blocks.extent, substituted(inside, {blocks.var: variable(BLOCK_VAR)}))
        return (whole,)

    return replace(nest, body=change(nest.body))
