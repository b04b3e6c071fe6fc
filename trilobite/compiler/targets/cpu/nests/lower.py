"""`lower`: a fusion of kind "loops" as steps. `accepts`: whether a region can be lowered, and if not why.

Enters: a fusion equation. Leaves: a `Lowering`: one step per nest, temporaries for what a later nest reads.
Small regions run in one step each, serially; everything else in units that any number of threads may share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from trilobite.base.errors import DeviceError, ShapeError
from trilobite.compiler.program.kernels import Lowering
from trilobite.compiler.targets.cpu.loops.collapse import collapsed
from trilobite.compiler.targets.cpu.loops.combine import accumulates_in
from trilobite.compiler.targets.cpu.loops.index import Ranges, variable
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Nest,
    Node,
    Statement,
    Target,
    loops,
    loops_over,
)
from trilobite.compiler.targets.cpu.nests import classes, joins, writes
from trilobite.compiler.targets.cpu.nests.accuracy import in_chunks
from trilobite.compiler.targets.cpu.nests.assembly import Assembly
from trilobite.compiler.targets.cpu.nests.columns import Columns, Destination, in_blocks, rows_per_block
from trilobite.compiler.targets.cpu.nests.defaults import BLOCK
from trilobite.compiler.targets.cpu.nests.groups import Group, Groups, Root
from trilobite.compiler.targets.cpu.nests.jam import jammed
from trilobite.compiler.targets.cpu.nests.reader import CannotRead, Reader, Source
from trilobite.compiler.targets.cpu.nests.rewrite import prepared
from trilobite.compiler.targets.cpu.nests.rows import Rows, around
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.compiler.targets.cpu.tuning.choices import choice
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Dim, Shape, TensorType, symbols_of
from trilobite.native.host import Host, features

LARGEST = 512  # equations of a region


def accepts(region: Graph) -> str | None:
    """None if the region can be lowered to loops; else the reason why not."""
    if len(region.equations) > LARGEST:
        return f"it has {len(region.equations)} operations; a nest takes {LARGEST}"
    for e in region.equations:
        if classes.classify(e) == "opaque" and not classes.writes(e):
            return f"{e.primitive.name} of {', '.join(str(v.type) for v in e.inputs)} has no loops"
    if not any(map(_needs_a_look, region.equations)):
        return None
    try:
        Groups(prepared(region)).check()
    except (CannotRead, ShapeError) as error:
        return str(error).splitlines()[0]
    return None


def _needs_a_look(e: Equation) -> bool:
    """May an equation be impossible for its sizes? Symbolic ones, running sums, reshapes of nothing."""
    if e.primitive.name in ("cumulative", "reshape"):
        return True
    return any(not isinstance(d, int) for v in (*e.inputs, *e.outputs) for d in v.type.shape)


def lower(equation: Equation) -> Lowering:
    """The steps of a fusion of kind "loops"."""
    region: Graph = equation.attributes["region"]
    why = accepts(region)
    if why is not None:
        raise DeviceError(
            f"the region {region.name!r} cannot be lowered to loops: {why}",
            where=equation.location,
            expected="elementwise, reduction and data-movement primitives of real numbers",
            remedy='let it run by its NumPy rules: kind="host"',
        )
    cut = choice("loops", lambda: _description(region), block=BLOCK)
    return lowered(region, features(), cut["block"])


@lru_cache(maxsize=512)
def lowered(region: Graph, host: Host, block: int = BLOCK) -> Lowering:
    return _Lowering(region, host, block).lowering()


def _description(region: Graph) -> str:
    names = " ".join(e.primitive.name for e in region.equations)
    return f"{' '.join(str(t) for t in region.output_types)} of {names}"


def nests_of(region: Graph) -> tuple[Nest, ...]:
    """The scheduled nests of a region, one per step: what C and the interpreter read."""
    assembly = _Lowering(region, features())
    assembly.lowering()
    return tuple(assembly.nests)


class _Lowering(Assembly):
    """The groups of a region, each by its kind."""

    def lowering(self) -> Lowering:
        sources = dict(self.groups.inputs)
        for group in self.groups.groups:
            if any(0 not in r.var.type.shape for r in group.roots):
                getattr(self, f"_{group.kind}")(group, sources)
            for r in group.roots:
                if r.var in self.stores and r.var not in sources:
                    sources[r.var] = Source(self.stores[r.var][0])
        return Lowering(
            tuple(self.steps), tuple(self.temporaries), tuple(self._constants()), self._in_place(),
            why=self._why(),
        )  # fmt: skip

    def _map(self, group: Group, sources: dict[Var, Source]) -> None:
        large = [r for r in group.roots if self._is_large_join(r.var, sources)]
        for r in large:
            for name in self.stores[r.var]:
                self._join(self.producers[r.var], name, sources)
        roots = [r for r in group.roots if r not in large]
        results = [(r.var, Target(name, ())) for r in roots for name in self.stores[r.var]]
        if results:
            self._elements(group.shape, results, sources)

    def _elements(
        self, shape: Shape, results: Sequence[tuple[Var, Target]], sources: dict[Var, Source]
    ) -> None:
        """One nest over a shape that computes every element of some values."""
        here, scalars = loops_over(shape), Scalars()
        reader = self._reader(sources, scalars, here.ranges)
        values = [reader.element(v, here.index) for v, _ in results]
        body = scalars.statement(values, [replace(t, index=here.index) for _, t in results])
        self._step(self._nest(here.around(body), ()))

    def _is_large_join(self, v: Var, sources: dict[Var, Source]) -> bool:
        e = self.producers.get(v)
        return e is not None and v not in sources and joins.is_large(e, BLOCK)

    def _join(self, e: Equation, name: str, sources: dict[Var, Source]) -> None:
        """Each piece by itself, into its part of the result: no element asks where it belongs. What is made
        of another piece reads that in its place, so pieces are written in the order in which they are made.
        """
        whole, axis = self.buffers[name], e.attributes["axis"]
        start: Dim = 0
        pieces: list[tuple[Var, str]] = []
        for k, (x, join) in enumerate(joins.pieces(e, sources)):
            if join is not None:
                self.producers[x] = join
            part, place = f"{name}_{k}", start * whole.steps[axis] * whole.dtype.itemsize
            self.buffers[part] = Buffer(part, whole.dtype, x.type.shape, whole.steps)
            self.operands[part] = replace(self.operands[name], offset=self.operands[name].offset + place)
            pieces.append((x, part))
            start = start + x.type.shape[axis]
        for x, part in sorted(pieces, key=lambda piece: self._made_at(piece[0])):
            if any(d == 0 for d in x.type.shape):
                continue
            if self._is_large_join(x, sources):
                self._join(self.producers[x], part, sources)
            else:
                self._elements(x.type.shape, [(x, Target(part, ()))], sources)
            sources.setdefault(x, Source(part))

    def _made_at(self, v: Var) -> int:
        """Which equation of the region makes a value; inputs come first, joins of some operands last."""
        if v in self.groups.inputs:
            return -1
        return self.order.get(v, len(self.order))

    def _rows(self, group: Group, sources: dict[Var, Source]) -> None:
        rows = Rows(group, self.producers, sources, self.stores, self.region.equations)
        body, local = rows.build()
        self._step(in_chunks(collapsed(self._nest(around(group, body), local))), flat=True)

    def _columns(self, group: Group, sources: dict[Var, Source]) -> None:
        def build(destinations: dict[Var, Destination]) -> Nest:
            body, local = Columns(group, destinations).build(
                lambda scalars, ranges: self._reader(sources, scalars, ranges), group.roots
            )
            return collapsed(self._nest(body, local))

        self._partial(group, build)

    def _blocks(self, group: Group, sources: dict[Var, Source]) -> None:
        def build(destinations: dict[Var, Destination]) -> Nest:
            return collapsed(self._long_rows(group, sources, destinations))

        self._partial(group, build)

    def _write(self, group: Group, sources: dict[Var, Source]) -> None:
        """A copy, then the updates; or one walk along the axis."""
        (root,) = group.roots
        e, names = root.write, self.stores[root.var]
        assert e is not None

        def reader_of(scalars: Scalars, ranges: Ranges) -> Reader:
            return self._reader(sources, scalars, ranges)

        if e.primitive.name in classes.RENEWALS:
            self._renew(e, reader_of, sources, names)
            return
        if e.primitive.name == "cumulative":
            body, local = writes.running(e, reader_of, names)
            self._step(self._nest(body, local))
            return
        dtype, result = writes.working(e), root.var.type
        name = names[0] if dtype == result.dtype else self.temporary(result.shape, dtype)
        self._whole(e.inputs[0], reader_of, sources, name)
        if not any(d == 0 for d in e.inputs[2].type.shape):
            nest = collapsed(self._nest(writes.scattered(e, reader_of, name, dtype), ()))
            along = e.primitive.name.endswith("along")
            self._emit(writes.in_lanes(nest) if along else writes.in_strips(nest))
        wide = Var(TensorType(result.shape, dtype))

        def wide_reader(scalars: Scalars, ranges: Ranges) -> Reader:
            return Reader({}, {wide: Source(name)}, ranges, scalars)

        for other in names if dtype != result.dtype else names[1:]:
            self._step(self._nest(writes.copied(wide, wide_reader, other, result.dtype), ()))

    def _renew(
        self, e: Equation, reader_of: writes.ReaderOf, sources: dict[Var, Source], names: list[str]
    ) -> None:
        """The whole, then the part that is new."""
        for name in names:
            self._whole(e.inputs[0], reader_of, sources, name)
        if not any(d == 0 for d in e.inputs[1].type.shape):
            for name in names:
                self._step(self._nest(writes.replaced(e, reader_of, name), ()))

    def _whole(self, v: Var, reader_of: writes.ReaderOf, sources: dict[Var, Source], name: str) -> None:
        """Every element of a value into a buffer, unless it stands there."""
        dtype = self.buffers[name].dtype
        nest = self._nest(writes.copied(v, reader_of, name, dtype), ())
        if v in sources and v.type.dtype == dtype:
            nest = replace(nest, unless_same=(sources[v].buffer, name))
        self._step(nest)

    def _partial(self, group: Group, build: Any) -> None:
        """One nest, or one that leaves partial results by block and one that combines them."""
        whole = {r.var: Destination(tuple(self.stores[r.var])) for r in group.roots}
        nest = build(whole)
        rows = rows_per_block(nest, group) if len(symbols_of(group.kept_shape)) < 2 else None
        if rows is None:
            self._step(in_chunks(jammed(nest)), flat=True)
            return
        count = self._count(in_blocks(nest, rows))
        shape = (count, *group.kept_shape)
        parts = {
            r.var: self.temporary(shape, accumulates_in(r.combine, r.var.type.dtype)) for r in group.roots
        }
        nest = in_blocks(build({v: Destination((t,), partial=True) for v, t in parts.items()}), rows)
        self._step(in_chunks(jammed(nest)), flat=True)
        self._combine(group, shape, parts)

    def _count(self, nest: Nest) -> int:
        block = next(each for each in loops(nest.body) if each.var == "block")
        count = block.extent[0].constant
        assert isinstance(count, int)
        return count

    def _combine(self, group: Group, shape: Shape, parts: dict[Var, str]) -> None:
        """The second nest: partial results by block, in order."""
        several = any(d != 1 for d in group.kept_shape)
        again = Group("columns" if several else "rows", shape, (0,))
        sources: dict[Var, Source] = {}
        stores: dict[Var, list[str]] = {}
        for r in group.roots:
            assert r.reduction is not None
            whole = Var(TensorType(shape, self.buffers[parts[r.var]].dtype))
            result = Var(r.var.type)
            reduction = Equation(r.reduction.primitive, (whole,), {"axes": (0,)}, (result,))
            again.roots.append(Root(result, reduction))
            sources[whole] = Source(parts[r.var])
            stores[result] = self.stores[r.var]
        equations = [r.reduction for r in again.roots if r.reduction is not None]
        if not several:
            rows = Rows(again, {}, sources, stores, equations)
            body, local = rows.build()
            nest = self._nest(around(again, body), local)
        else:
            body, local = Columns(again, {v: Destination(tuple(n)) for v, n in stores.items()}).build(
                lambda scalars, ranges: Reader({}, sources, ranges, scalars), again.roots
            )
            nest = self._nest(body, local)
        self._step(in_chunks(collapsed(nest)), flat=True)

    def _long_rows(
        self, group: Group, sources: dict[Var, Source], destinations: dict[Var, Destination]
    ) -> Nest:
        """Rows whose results go to partial results by block, or to the end."""
        stores: dict[Var, Sequence[str]] = {v: d.names for v, d in destinations.items()}
        rows = Rows(group, self.producers, sources, stores, self.region.equations)
        body, local = rows.build()
        if any(d.partial for d in destinations.values()):
            body = tuple(_by_block(n, set(self._names(destinations)), rows) for n in body)
        return self._nest(around(group, body), local)

    def _names(self, destinations: dict[Var, Destination]) -> list[str]:
        return [n for d in destinations.values() for n in d.names]


def _by_block(node: Node, names: set[str], rows: Rows) -> Node:
    """Results of one row become results of one block of it."""
    if not isinstance(node, Statement):
        return node
    targets = []
    for t in node.targets:
        if t.buffer in names:
            t = replace(t, index=(variable("block"), *t.index))
        targets.append(t)
    # A partial result is wider than the result: it is not rounded yet.
    kept = [(k, t) for k, t in enumerate(targets) if t.buffer in names]
    if not kept:
        return node
    load = node.leaves[0]
    assert isinstance(load, Load)
    scalars = Scalars()
    acc = next(b for b in rows.locals if b.name == load.buffer)
    value = scalars.leaf(load, acc.dtype)
    return scalars.statement([value] * len(kept), [t for _, t in kept])
