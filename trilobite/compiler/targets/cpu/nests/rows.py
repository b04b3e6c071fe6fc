"""Groups of rows as a nest: passes over the inside of a row, each computing what the next one needs.

Enters: a group, where values stand. Leaves: a nest whose loops over rows are outermost. A value that several
passes need is computed once and kept in a local row if it is dear, read back if it is an output, and
computed again otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trilobite.compiler.targets.cpu.loops.combine import accumulates_in, identity
from trilobite.compiler.targets.cpu.loops.index import Index
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loops, Node, Statement, Target
from trilobite.compiler.targets.cpu.nests.groups import Group, Root, size
from trilobite.compiler.targets.cpu.nests.reader import Reader, Source
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import TensorType

DEAR = 8  # operations from which a value is kept rather than computed again
ROOM = 1 << 18  # bytes of a row that may be kept


class Rows:
    """One group while its nest is built."""

    def __init__(
        self,
        group: Group,
        producers: Mapping[Var, Equation],
        sources: Mapping[Var, Source],
        stores: Mapping[Var, Sequence[str]],
        order: Sequence[Equation],
    ) -> None:
        self.group, self.producers, self.stores, self.order = group, producers, stores, order
        self.sources = dict(sources)
        self.locals: list[Buffer] = []
        self.names = {r.var: f"r{k}" for k, r in enumerate(group.roots)}
        self.inside = {r.var: r for r in group.roots if r.reduction is not None}
        self._number_passes()
        self._choose_kept()

    # -- when things are computed --------------------------------------------------------------------------

    def _number_passes(self) -> None:
        """A root belongs to the first pass after the reductions it needs."""
        level: dict[Var, int] = {}
        for e in self.order:
            need = max((level.get(u, -1) for u in e.inputs), default=-1)
            for v in e.outputs:
                level[v] = need + 1 if v in self.inside else -1 if v in self.sources else need
        self.level = level
        self.passes: dict[int, list[Root]] = {}
        self.posts: dict[int, list[Root]] = {}
        for r in self.group.roots:
            if r.operand.type.shape != self.group.shape or (r.reduction is None and not self.group.axes):
                self.posts.setdefault(max(level.get(r.var, -1), 0), []).append(r)
            else:
                number = level[r.var] if r.reduction is not None else level.get(r.var, -1) + 1
                self.passes.setdefault(number, []).append(r)

    def _choose_kept(self) -> None:
        """Values that more than one pass needs: which are kept, and from which pass on."""
        needed: dict[Var, set[int]] = {}
        for number, roots in self.passes.items():
            for r in roots:
                needed.setdefault(r.operand, set()).add(number)
        stored = {r.var for roots in self.passes.values() for r in roots if r.reduction is None}
        cost = self._costs()
        self.kept: dict[Var, int] = {}
        for e in reversed(self.order):
            v = e.outputs[0]
            if v not in needed or v in self.sources or v in self.inside:
                continue
            passes = needed[v]
            first = min(passes)
            if v in stored or (len(passes) > 1 and self._worth_keeping(v, cost)):
                self.kept[v] = first
                passes = {first}
            for u in e.inputs:
                needed.setdefault(u, set()).update(passes)

    def _costs(self) -> dict[Var, float]:
        cost: dict[Var, float] = {}
        for e in self.order:
            scalars = [TensorType((), v.type.dtype) for v in (*e.inputs, *e.outputs)]
            own = 0.0
            if e.primitive.name not in ("broadcast", "full", "iota", "constant") and len(e.outputs) == 1:
                own = e.primitive.cost(scalars[:-1], scalars[-1:], e.attributes)
            below = sum(cost.get(u, 0.0) for u in e.inputs if u.type.shape == self.group.shape)
            inherits = e.outputs[0] not in self.sources and e.outputs[0] not in self.inside
            cost[e.outputs[0]] = own + below if inherits else 0.0
        return cost

    def _worth_keeping(self, v: Var, cost: Mapping[Var, float]) -> bool:
        inner = tuple(d for a, d in enumerate(self.group.shape) if a in self.group.axes)
        fits = v.type.shape == self.group.shape and size(inner) * v.type.dtype.itemsize <= ROOM
        return fits and cost[v] >= DEAR

    # -- building ------------------------------------------------------------------------------------------

    def build(self) -> tuple[tuple[Node, ...], tuple[Buffer, ...]]:
        """The body of the loops over rows, and the locals it needs."""
        body: list[Node] = []
        last = max((*self.passes, *self.posts), default=-1)
        for number in range(last + 1):
            roots = self.passes.get(number, [])
            if roots or any(k == number for k in self.kept.values()):
                body += self._pass(number, roots)
            body += [self._post(r) for r in self.posts.get(number, [])]
        return tuple(body), tuple(self.locals)

    def _pass(self, number: int, roots: Sequence[Root]) -> list[Node]:
        prefix = f"p{number}_"
        index = self.group.index(prefix)
        scalars = Scalars()
        reader = Reader(self.producers, self.sources, self.group.ranges(prefix), scalars)
        before: list[Node] = []
        after: list[Node] = []
        results: list[Var] = []
        targets: list[Target] = []
        new: dict[Var, Source] = {}
        for v, first in self.kept.items():
            if first == number:
                value = reader.element(v, index)
                for target in self._kept_targets(v, index, new):
                    results.append(value)
                    targets.append(target)
        for r in roots:
            if r.reduction is None:
                continue
            acc = self._accumulator(r)
            before.append(_constant(identity(r.combine, acc.dtype), acc))
            results.append(scalars.cast(reader.element(r.operand, index), acc.dtype))
            targets.append(Target(acc.name, (), r.combine))
            after.append(self._finish(r, acc, new))
        self.sources.update(new)
        inside = Loops(tuple(f"{prefix}{a}" for a in self.group.axes), self.group.reduced_shape)
        return [*before, *inside.around(scalars.statement(results, targets)), *after]

    def _kept_targets(self, v: Var, index: tuple[Index, ...], new: dict[Var, Source]) -> list[Target]:
        here = tuple(i if a in self.group.kept else None for a, i in enumerate(index))
        names = self.stores.get(v, ())
        if names:
            new[v] = Source(names[0], here)
            return [Target(name, index) for name in names]
        row = Buffer(f"row{len(self.locals)}", v.type.dtype, self.group.reduced_shape, kind="local")
        self.locals.append(row)
        new[v] = Source(row.name, here, whole=False)
        return [Target(row.name, tuple(index[a] for a in self.group.axes))]

    def _accumulator(self, r: Root) -> Buffer:
        acc = Buffer(f"a_{self.names[r.var]}", accumulates_in(r.combine, r.var.type.dtype), (), kind="local")
        self.locals.append(acc)
        return acc

    def _finish(self, r: Root, acc: Buffer, new: dict[Var, Source]) -> Statement:
        """The accumulator becomes the result: in a local, and in memory if somebody else reads it."""
        own = Buffer(self.names[r.var], r.var.type.dtype, (), kind="local")
        self.locals.append(own)
        here = self.group.row_index()
        new[r.var] = Source(own.name, here, whole=False)
        scalars = Scalars()
        value = scalars.cast(scalars.leaf(Load(acc.name, ()), acc.dtype), own.dtype)
        targets = [Target(own.name, ()), *(Target(n, here) for n in self.stores.get(r.var, ()))]
        return scalars.statement([value] * len(targets), targets)

    def _post(self, r: Root) -> Statement:
        """A result of one element per row."""
        scalars = Scalars()
        reader = Reader(self.producers, self.sources, self.group.ranges("i"), scalars)
        value = reader.element(r.var, self.group.row_index())
        targets = [Target(n, self.group.row_index()) for n in self.stores[r.var]]
        return scalars.statement([value] * len(targets), targets)


def _constant(number: bool | int | float, buffer: Buffer) -> Statement:
    scalars = Scalars()
    return scalars.statement([scalars.number(number, buffer.dtype)], [Target(buffer.name, ())])


def around(group: Group, body: tuple[Node, ...]) -> tuple[Node, ...]:
    """The loops over rows."""
    return Loops(tuple(f"o{a}" for a in group.kept), group.kept_shape).around(*body)
