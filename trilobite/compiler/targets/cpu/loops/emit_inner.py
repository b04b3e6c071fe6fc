"""Innermost loops as LLVM: whole vectors first, then what remains one by one, with accumulators in registers.

Enters: a loop whose body is statements alone. A result that is combined into an element that does not move
with the loop stays in registers: `unroll` vectors of partial results, joined pairwise, then the lanes by
halves, then the rest of the elements in order, then what stood in memory. So the order depends on the extent
and the schedule alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import islice

from trilobite.base.dtypes import DType
from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.emit.scalar import emit_scalars
from trilobite.compiler.targets.cpu.loops.accumulate import Parts, accumulator, folded
from trilobite.compiler.targets.cpu.loops.combine import identity, scalar_graph
from trilobite.compiler.targets.cpu.loops.emit_values import Lane, Scope, linear
from trilobite.compiler.targets.cpu.loops.index import Index, bounds
from trilobite.compiler.targets.cpu.loops.ir import Leaf, Load, Loop, Statement, Target
from trilobite.ir.graph import Graph, Var
from trilobite.ir.types import Affine
from trilobite.native.llvm.flow import Loop as LlvmLoop
from trilobite.native.llvm.text import Value


def innermost(node: Loop) -> bool:
    return all(isinstance(n, Statement) for n in node.body)


LINE = 64  # bytes that come from memory at once
Accumulators = list[Parts]  # of each result that stays in registers


def split_invariant(body: Graph, known: set[Var]) -> tuple[Graph, Graph]:
    """A scalar graph as two: what `known` inputs alone decide, and the rest, which takes its results."""
    free = {v for e in body.equations if not e.inputs for v in e.outputs}
    fixed, early, late = set(known), [], []
    for e in body.equations:
        # Numbers are free wherever they stand: only what computes with something invariant moves.
        if e.inputs and all(v in fixed or v in free for v in e.inputs) and fixed & set(e.inputs):
            fixed |= set(e.outputs)
            early.append(e)
        else:
            late.append(e)
    used = {v for e in late for v in e.inputs} | set(body.outputs)
    numbers = [e for e in late if not e.inputs]
    made = {v for e in early for v in e.outputs}
    results = [v for e in early for v in e.outputs if v in used]
    before = Graph([v for v in body.inputs if v in known], [*numbers, *early], results, "invariant")
    kept = [e for e in late if e.inputs or set(e.outputs) & used]
    inputs = [v for v in body.inputs if v in used] + [v for v in results if v in made]
    return before, Graph(inputs, kept, body.outputs, "moving")


class Inner:
    """One innermost loop while it is emitted."""

    def __init__(self, scope: Scope, node: Loop) -> None:
        self.scope, self.text, self.node = scope, scope.text, node
        self.body: list[Statement] = [n for n in node.body if isinstance(n, Statement)]
        self.lanes = node.lanes if node.kind in ("vector", "parallel") else 0
        self.kept = [t for s in self.body for t in s.targets if self._stays(t)]
        self.by = [accumulator(scope.text, str(t.combine), self._dtype(t)) for t in self.kept]
        self.invariant: dict[Leaf, Value] = {}
        self.fixed: list[
            dict[Var, Value]
        ] = []  # by statement (two may share a body): what no iteration changes
        self.moving: list[Graph] = []  # the bodies without that

    def _stays(self, t: Target) -> bool:
        """Can this accumulator live in a register while the loop runs?"""
        moves = any(self.node.var in i.variables for i in t.index)
        read = any(load.buffer == t.buffer for s in self.body for load in s.loads())
        written = sum(o.buffer == t.buffer for s in self.body for o in s.targets)
        return t.combine is not None and not moves and not read and written == 1

    def emit(self, start: Value | None = None, stop: Value | None = None) -> None:
        """The whole loop, or its iterations from start to stop."""
        with self.scope.entered({}):
            first = self.scope.start(self.node) if start is None else start
            n = self.scope.extent(self.node) if stop is None else stop
            if self.node.start:  # a skewed loop may have no iterations, and ends before it begins
                n = self.text.smax(n, first)
            self._prepare()
            found = self._vectors(first, n) if self.lanes else self._scalars(first, n)
            for target, by, parts in zip(self.kept, self.by, found, strict=True):
                self._join(target, by.result(parts))

    # -- before the loop -----------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Compute addresses and read invariant elements where they do not move."""
        written = {t.buffer for s in self.body for t in s.targets}
        for s in self.body:
            for leaf in s.leaves:
                self._prepare_leaf(leaf, written)
            for t in s.targets:
                self._base(t.buffer, t.index)
            self._prepare_body(s)
        for a in self.node.ahead:
            self._base(a.buffer, (a.index,))

    def _prepare_body(self, s: Statement) -> None:
        """Compute before the loop what depends on invariant leaves alone."""
        known = {v: self.invariant[leaf] for leaf, v in zip(s.leaves, s.body.inputs, strict=True)
                 if leaf in self.invariant}  # fmt: skip
        before, rest = split_invariant(s.body, set(known))
        self.moving.append(rest)
        if before.equations:
            values = emit_scalars(self.text, before, [known[v] for v in before.inputs], 0)
            known.update(zip(before.outputs, values, strict=True))
        self.fixed.append(known)

    def _prepare_leaf(self, leaf: Leaf, written: set[str]) -> None:
        var = self.node.var
        fixed = all(var not in i.variables for i in leaf.indices)
        reads = {load.buffer for i in leaf.indices for load in i.loads()}
        reads |= {leaf.buffer} if isinstance(leaf, Load) else set()
        if fixed and not reads & written and (self._runs() or not reads):
            # A loop that may not run at all must not read what it would not have read.
            self.invariant[leaf] = self.scope.leaf(leaf, Lane(var, self.text.constant("i64", 0), 0))
            return
        for g in leaf.indices if not isinstance(leaf, Load) else leaf.guards:
            if linear(g, var) and self._settled(g):
                self.scope.index(g.without(var))
        if isinstance(leaf, Load):
            self._base(leaf.buffer, leaf.index)

    def _runs(self) -> bool:
        """Is it known that the loop has at least one iteration?"""
        if self.node.start or self.node.runs:
            return self.node.runs
        spans = [bounds(e, self.scope.ranges) for e in self.node.extent]
        return all(span is not None and span[0] >= 1 for span in spans)

    def _base(self, name: str, index: Sequence[Index]) -> None:
        buffer = self.scope.buffers[name]
        flat = buffer.flat(index)
        if linear(flat, self.node.var) and self._settled(flat):
            self.scope.pointer(buffer, flat.without(self.node.var))

    def _settled(self, index: Index) -> bool:
        """Do the loads inside an index read what this loop does not write?"""
        written = {t.buffer for s in self.body for t in s.targets}
        return not any(load.buffer in written for load in index.loads())

    # -- the loop ------------------------------------------------------------------------------------------

    def _start(self, lanes: int, copies: int) -> list[Accumulators]:
        one = [by.start(self.scope.fill(by.dtype, identity(by.combine, by.dtype), lanes)) for by in self.by]
        return [list(one) for _ in range(copies)]

    def _dtype(self, t: Target) -> DType:
        return self.scope.buffers[t.buffer].dtype

    def _scalars(self, first: Value, n: Value) -> Accumulators:
        if self.node.kind == "unrolled":
            return self._unrolled(n)
        return self._range(first, n, 0, self._start(0, 1))[0]

    def _unrolled(self, n: Value) -> Accumulators:
        if n.number is None:
            raise IRError(
                f"the unrolled loop {self.node.var} has no fixed extent",
                where=f"nest {self.scope.nest.name}",
                expected="a number",
                remedy="split it by a number and unroll the inner loop",
            )
        found = self._start(0, 1)[0]
        for k in range(n.number):
            with self.scope.entered({}):
                found = self._turn(Lane(self.node.var, self.text.constant("i64", k), 0), found)
        return found

    def _vectors(self, first: Value, n: Value) -> Accumulators:
        """Whole blocks of vectors, then single vectors, then single elements."""
        lanes, unroll = self.lanes, max(self.node.unroll, 1)
        width = 2 * lanes if self.node.pairs else lanes
        found, at = self._start(width, lanes * unroll // width), first
        left = None if first.number != 0 else self._left(lanes * unroll)
        if unroll > 1:
            stop = self._whole(at, n, lanes * unroll, left)
            found = self._range(at, stop, width, found)
            at = stop
        if width > lanes:
            found = [half for wide in found for half in self._halves(wide)]
        single = [self._pairwise([f[k] for f in found], k) for k in range(len(self.kept))]
        stop = at if left is not None and left < lanes and unroll > 1 else self._whole(at, n, lanes, left)
        (single,) = self._range(at, stop, lanes, [single])
        last = [folded(self.text, by, parts) for by, parts in zip(self.by, single, strict=True)]
        return self._range(stop, n, 0, [last])[0]

    def _halves(self, wide: Accumulators) -> list[Accumulators]:
        """The accumulators of two vectors that were one."""
        both = [[self.text.halves(v) for v in parts] for parts in wide]
        return [[[pair[k] for pair in parts] for parts in both] for k in (0, 1)]

    def _left(self, step: int) -> int | None:
        """How many iterations follow the last whole step, where that is known of a symbolic number."""
        (first, *others) = self.node.extent
        n = first.constant
        if others or not first.is_constant or not isinstance(n, Affine) or any(c % step for _, c in n.terms):
            return None
        return n.constant % step

    def _whole(self, start: Value, stop: Value, step: int, left: int | None) -> Value:
        """Where the last whole step from start ends that fits before stop."""
        t = self.text
        if start.number is not None and stop.number is not None:
            return t.constant("i64", start.number + (stop.number - start.number) // step * step)
        if left is not None:
            return stop if left % step == 0 else t.sub(stop, left % step)
        iterations = t.sub(stop, start)
        return (
            t.add(start, t.and_(iterations, -step))
            if step & (step - 1) == 0
            else t.sub(stop, t.urem(iterations, step))
        )

    def _range(self, start: Value, stop: Value, lanes: int, found: list[Accumulators]) -> list[Accumulators]:
        """Iterations from start to stop, one copy of the body per list of accumulators."""
        if start is stop or (
            start.number is not None and stop.number is not None and start.number >= stop.number
        ):
            return found
        copies, width = len(found), max(lanes, 1)
        carried = [v for accumulators in found for parts in accumulators for v in parts]
        with self.text.loop(start, stop, width * copies, carried, self.node.var) as loop:
            with self.scope.entered({}):
                self._fetch(loop, width * copies)
                own = self._apart(loop.values, found)
                copy = partial(self._copy, loop, lanes, own)
                out = self.text.side_by_side([partial(copy, k) for k in range(copies)])
            loop.next(*(v for accumulators in out for parts in accumulators for v in parts))
        return self._apart(loop.results, found)

    def _fetch(self, loop: LlvmLoop, elements: int) -> None:
        """Ask for the lines of memory ahead that belong to the elements of this iteration."""
        for a in self.node.ahead if elements > 1 else ():
            buffer = self.scope.buffers[a.buffer]
            base = self.scope.pointer(buffer, a.index.without(self.node.var))
            for k in range(0, elements, LINE // buffer.dtype.itemsize):
                at = self.text.address(base, self.text.add(loop.index, k), buffer.dtype)
                self.text.prefetch(at, write=a.write)

    def _apart(self, flat: Sequence[Value], like: list[Accumulators]) -> list[Accumulators]:
        """The values of a loop as accumulators again."""
        values = iter(flat)
        return [[list(islice(values, len(parts))) for parts in accumulators] for accumulators in like]

    def _copy(self, loop: LlvmLoop, lanes: int, own: list[Accumulators], k: int) -> Accumulators:
        """The body at the k-th element or vector of an iteration."""
        at = self.text.add(loop.index, k * max(lanes, 1))
        with self.scope.entered({}):
            return self._turn(Lane(self.node.var, at, lanes), own[k])

    def _turn(self, lane: Lane, found: Accumulators) -> Accumulators:
        """All statements for one element or one vector; the accumulators afterwards."""
        rest = list(zip(self.by, found, strict=True))
        out: Accumulators = []
        for s, body, fixed in zip(self.body, self.moving, self.fixed, strict=True):
            leaves = dict(zip(s.body.inputs, s.leaves, strict=True))
            values = [
                self.text.splat(fixed[v], lane.lanes) if v in fixed else self.scope.leaf(leaves[v], lane)
                for v in body.inputs
            ]
            results = emit_scalars(self.text, body, values, lane.lanes)
            for target, result in zip(s.targets, results, strict=True):
                if target in self.kept:
                    by, parts = rest.pop(0)
                    out.append(by.take(parts, result))
                else:
                    self._write(target, result, lane)
        return out

    def _combined(self, target: Target, a: Value, b: Value, lanes: int) -> Value:
        graph = scalar_graph(str(target.combine), self._dtype(target))
        return emit_scalars(self.text, graph, [a, b], lanes)[0]

    def _write(self, target: Target, value: Value, lane: Lane) -> None:
        buffer = self.scope.buffers[target.buffer]
        flat = buffer.flat(target.index)
        if target.combine is not None:
            there = self.scope.leaf(Load(target.buffer, target.index), lane)
            value = self._combined(target, there, value, lane.lanes)
        self.scope.write(buffer, flat, value, lane)

    # -- after the loop ------------------------------------------------------------------------------------

    def _pairwise(self, values: list[Parts], k: int) -> Parts:
        while len(values) > 1:
            pairs = zip(values[::2], values[1::2], strict=False)
            odd = values[len(values) - len(values) % 2 :]
            values = [self.by[k].merged(a, b) for a, b in pairs] + odd
        return values[0]

    def _join(self, target: Target, value: Value) -> None:
        """Into memory, with what stands there."""
        self._write(target, value, Lane(self.node.var, self.text.constant("i64", 0), 0))
