"""Schedules: how a nest runs, apart from what it computes.

Enters: a nest. Each method changes how it runs and returns the schedule, so that they chain; `nest` is the
result and `steps` what was done. A change that could let a value be read before it is written, or two
iterations that must stay in order run side by side, is refused with the dependence that forbids it.

    s = Schedule(nest).split("i", 64).reorder("i_o", "j", "i_i").vectorise("i_i", 8).parallelise("i_o")
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops import micro, pack
from trilobite.compiler.targets.cpu.loops.dependence import (
    Dependence,
    Sign,
    carried,
    carried_by,
    dependences,
    folds,
    starts,
    turns_before,
    turns_over,
)
from trilobite.compiler.targets.cpu.loops.index import Index, variable
from trilobite.compiler.targets.cpu.loops.ir import (
    Loop,
    Micro,
    Nest,
    Statement,
    buffers_of,
    loops,
    statements,
    substituted,
    walk,
)
from trilobite.compiler.targets.cpu.loops.polyhedral import reorder
from trilobite.compiler.targets.cpu.loops.polyhedral.meet import meeting
from trilobite.compiler.targets.cpu.loops.polyhedral.model import installed, is_affine
from trilobite.compiler.targets.cpu.loops.polyhedral.rows import is_unimodular
from trilobite.compiler.targets.cpu.loops.text import loop_line
from trilobite.compiler.targets.cpu.loops.transform import (
    extent_of,
    fuse_pair,
    interchange_pair,
    join_pair,
    on_loop,
    skew_loop,
    split_loop,
)
from trilobite.compiler.targets.cpu.loops.verify import verify

UNROLL = 64  # iterations that one may write out


class Schedule:
    """A nest and the changes made to how it runs."""

    def __init__(self, nest: Nest) -> None:
        verify(nest)
        self.nest = nest
        self.steps: list[str] = []

    def _done(self, nest: Nest, step: str) -> Schedule:
        verify(nest)
        self.nest = nest
        self.steps.append(step)
        return self

    def loop(self, var: str) -> Loop:
        found = [each for each in loops(self.nest.body) if each.var == var]
        if len(found) != 1:
            names = ", ".join(each.var for each in loops(self.nest.body))
            raise self._refused(f"there is no loop {var!r}", f"one of {names}", "print the nest: str(nest)")
        return found[0]

    def _refused(self, what: str, expected: str, remedy: str) -> IRError:
        return IRError(what, where=f"nest {self.nest.name}", expected=expected, remedy=remedy)

    # -- the shape of loops --------------------------------------------------------------------------------

    def split(self, var: str, size: int) -> Schedule:
        """`var` becomes `var_o` over blocks of `size` iterations and `var_i` inside; the last may be
        short.
        """
        if size < 1:
            raise self._refused(
                f"split {var} into blocks of {size}", "a size of at least 1", "give a positive size"
            )
        if self.loop(var).kind == "unrolled":
            raise self._refused(
                f"split {var}: it is unrolled", "a loop with iterations", "split before unrolling"
            )
        return self._done(on_loop(self.nest, var, lambda n: (split_loop(n, size),)), f"split {var} {size}")

    def tile(self, outer: str, inner: str, rows: int, columns: int) -> Schedule:
        """Both loops in blocks, and the loops over blocks outside: outer_o, inner_o, outer_i, inner_i."""
        self.split(outer, rows).split(inner, columns)
        return self.reorder(f"{outer}_o", f"{inner}_o", f"{outer}_i", f"{inner}_i")

    def fuse(self, outer: str, inner: str) -> Schedule:
        """A loop and the only loop in it become one, `outer_inner`."""
        node = self._nested(outer, inner, "fuse")
        fused = fuse_pair(node)
        if fused is None:
            raise self._refused(
                f"the loops {outer} and {inner} cannot become one",
                "extents that do not depend on other loops, of which at most one is symbolic",
                "fuse before splitting, or split by a size that divides the extent",
            )
        return self._done(on_loop(self.nest, outer, lambda _: (fused,)), f"fuse {outer} {inner}")

    def _nested(self, outer: str, inner: str, what: str) -> Loop:
        node = self.loop(outer)
        self.loop(inner)
        if len(node.body) != 1 or not isinstance(node.body[0], Loop) or node.body[0].var != inner:
            raise self._refused(
                f"cannot {what} {outer} and {inner}: {inner} is not the only thing inside {outer}",
                "a loop directly inside another, with nothing beside it",
                "move what stands beside it out of the loop first, or choose other loops",
            )
        return node

    def reorder(self, *order: str) -> Schedule:
        """Loops directly inside each other, from the outermost to the innermost, in this order."""
        present = [each.var for each in loops(self.nest.body) if each.var in order]
        for var in order:
            self.loop(var)
        wanted = list(order)
        for k in range(len(wanted)):
            at = present.index(wanted[k])
            for j in range(at, k, -1):
                self._interchange(present[j - 1], present[j])
                present[j - 1], present[j] = present[j], present[j - 1]
        self.steps.append(f"reorder {' '.join(order)}")
        return self

    def skew(self, outer: str, inner: str, factor: int = 1) -> Schedule:
        """Iterations of `inner` begin `factor` later with each iteration of `outer`: it becomes
        `inner_outer`, which is `inner + factor * outer`. The order of iterations stays; what changes is
        which exchanges are legal then.
        """
        node = self._nested(outer, inner, "skew")
        child = node.body[0]
        assert isinstance(child, Loop)
        skewed = skew_loop(child, node, factor)
        if skewed is None or child.kind != "serial":
            raise self._refused(
                f"cannot skew {inner} by {factor} iterations for each of {outer}",
                "a factor of at least 1, and two plain loops with fixed numbers of iterations",
                "skew before splitting, vectorising and unrolling",
            )
        return self._done(on_loop(self.nest, inner, lambda _: (skewed,)), f"skew {outer} {inner} {factor}")

    def _interchange(self, outer: str, inner: str) -> None:
        node = self._nested(outer, inner, "exchange")
        child = node.body[0]
        assert isinstance(child, Loop)
        if child.kind == "vector" or node.kind in ("unrolled", "parallel"):
            kind = child.kind if child.kind == "vector" else node.kind
            raise self._refused(
                f"cannot exchange {outer} and {inner}: one of them is {kind}",
                "plain loops",
                "reorder before vectorising, unrolling and parallelising",
            )
        exchanged = interchange_pair(node)
        if exchanged is None:
            raise self._refused(
                f"cannot exchange {outer} and {inner}: the extent of {inner} depends on {outer}",
                "extents that grow with the loop that moves inside by one, and end somewhere without it",
                "split by a size that divides the extent, or exchange before splitting",
            )
        for d in dependences(self.nest):
            if not d.reordable and turns_over(d, outer, inner):
                met = self._met(d, {**turns_before(d, outer), outer: "> 0", inner: "< 0"})
                if met is not None:
                    what = f"cannot exchange {outer} and {inner}"
                    raise self._broken(what, met, "keep their order, or split first")
        self.nest = on_loop(self.nest, outer, lambda _: (exchanged,))

    def _met(self, d: Dependence, signs: Mapping[str, Sign], nest: Nest | None = None) -> Dependence | None:
        """The dependence, if iterations whose distances have these signs do meet. The test by distances is
        on the safe side; with islpy the answer is exact.
        """
        return meeting(nest or self.nest, d, signs) if installed() else d

    def transform(self, rows: Mapping[str, Index]) -> Schedule:
        """Loops directly inside each other run in the order of other ones, whose iterations are sums of
        theirs: `transform({"t": t, "w": 2 * t + x})`. Every iteration must have its own place in the new
        loops.
        """
        chain = self._chain({v for row in rows.values() for v in row.variables})
        if not is_unimodular(rows, [each.var for each in chain]):
            raise self._refused(
                f"rows over the loops {', '.join(each.var for each in chain)} lose or repeat iterations",
                "as many rows as loops, with whole numbers and a determinant of 1 or -1",
                "give one row for each loop; multiples belong to the other loops of a row",
            )
        self._plain_loops("transformed")
        taken = {each.var for each in loops(self.nest.body)} - {each.var for each in chain}
        if taken & rows.keys():
            raise self._refused(
                f"there is a loop {min(taken & rows.keys())!r}", "new names", "rename the row"
            )
        found = reorder.transformed(self.nest, chain, rows)
        if isinstance(found, Dependence):
            raise self._broken(
                "the rows cannot be the order of iterations", found, "let rows grow with the loops"
            )
        return self._done(found, f"transform {', '.join(f'{name} = {row}' for name, row in rows.items())}")

    def auto_tile(self, *sizes: int) -> Schedule:
        """All loops in an order in which they may run in blocks, found as Pluto does, and in blocks of these
        sizes (the last serves for all further loops; 32 if none is given). Loops keep their names, `x_t` is
        `x` skewed by `t`; blocks end in `_o`, what is inside in `_i`.
        """
        if any(size < 1 for size in sizes):
            raise self._refused(f"blocks of {min(sizes)}", "sizes of at least 1", "give positive sizes")
        self._plain_loops("tiled")
        words = " ".join(map(str, sizes or (32,)))
        return self._done(reorder.tiled(self.nest, sizes or (32,)), f"auto_tile {words}")

    def _plain_loops(self, what: str) -> None:
        micro = any(isinstance(n, Micro) for n in walk(self.nest.body))
        if micro or any(each.kind != "serial" for each in loops(self.nest.body)) or not is_affine(self.nest):
            raise self._refused(
                f"the loops of {self.nest.name} cannot be {what}",
                "plain loops whose numbers of iterations are affine in the loops around them",
                "do this before vectorising, unrolling, parallelising and tensorising",
            )

    def _chain(self, names: set[str]) -> list[Loop]:
        """The loops of these names, each directly inside the one before."""
        chain = [each for each in loops(self.nest.body) if each.var in names]
        for name in sorted(names):
            self.loop(name)
        for outer, inner in pairwise(chain):
            self._nested(outer.var, inner.var, "transform")
        return chain

    def _broken(self, what: str, d: Dependence, remedy: str) -> IRError:
        if any(iterations is None for _, iterations in d.distance):
            remedy += "; distances that are not known (any) are found with the extra `polyhedral`"
        return self._refused(
            f"{what}: it would reorder a {d}", "an order that every dependence allows", remedy
        )

    # -- kinds of loops ------------------------------------------------------------------------------------

    def vectorise(self, var: str, lanes: int, unroll: int = 1) -> Schedule:
        """Run an innermost loop in vectors. Results that are combined may be combined in another order."""
        node = self.loop(var)
        if not all(isinstance(n, Statement) for n in node.body):
            raise self._refused(
                f"the loop {var} cannot run in vectors: there are loops in it",
                "an innermost loop",
                "vectorise the loop inside, or reorder so that this one is innermost",
            )
        for d in carried(self.nest, var):
            met = None if d.reordable and folds(d, node) else self._met(d, carried_by(d, var))
            if met is not None:
                what = f"the loop {var} cannot run in vectors"
                raise self._broken(what, met, "vectorise a loop that carries no dependence")
        step = f"vectorise {var} {lanes} x {unroll}"
        kind = replace(node, kind="vector", lanes=lanes, unroll=unroll)
        return self._done(on_loop(self.nest, var, lambda _: (kind,)), step)

    def parallelise(self, var: str) -> Schedule:
        """Iterations of the outermost loop as units that several threads share."""
        node = self.loop(var)
        if node.start:
            raise self._refused(
                f"the loop {var} cannot be parallel: it is skewed",
                "a loop that begins with iteration 0",
                "parallelise a loop around it, or inside it after an exchange",
            )
        if self.nest.body != (node,):
            raise self._refused(
                f"the loop {var} cannot be parallel: it is not the outermost and only one",
                "the loop around everything else",
                "reorder or fuse it to the outside, or make the other loops a nest of their own",
            )
        local = {b.name for b in self.nest.buffers if b.kind == "local"}
        for d in carried(self.nest, var):
            met = None if d.first.buffer in local else self._met(d, carried_by(d, var))
            if met is not None:
                what = f"the loop {var} cannot be parallel"
                raise self._broken(what, met, "combine into partial results per block first")
        return self._done(
            on_loop(self.nest, var, lambda n: (replace(n, kind="parallel"),)), f"parallelise {var}"
        )

    def unroll(self, var: str) -> Schedule:
        """Write out every iteration of a loop of few."""
        iterations = extent_of(self.loop(var))
        if not isinstance(iterations, int) or iterations > UNROLL:
            raise self._refused(
                f"the loop {var} has {iterations or 'an unknown number of'} iterations",
                f"a fixed number up to {UNROLL}",
                f"split {var} by a small number and unroll {var}_i",
            )
        return self._done(on_loop(self.nest, var, lambda n: (replace(n, kind="unrolled"),)), f"unroll {var}")

    # -- producers and consumers ---------------------------------------------------------------------------

    def compute_at(self, producer: str, consumer: str, levels: int = 1) -> Schedule:
        """Run a producer's loops inside the consumer's: the outermost `levels` loops of both become one."""
        for level in range(levels):
            first, second = self.loop(producer), self.loop(consumer)
            self._join(first, second)
            if level + 1 < levels:
                inner = [n for n in self.loop(consumer).body if isinstance(n, Loop)]
                if len(inner) != 2:
                    raise self._refused(
                        f"there are not two loops inside {consumer} at level {level + 1}",
                        "a producer's loop and a consumer's loop beside each other",
                        f"compute_at with levels={level + 1}",
                    )
                producer, consumer = inner[0].var, inner[1].var
        self.steps.append(f"compute_at {producer} {consumer} {levels}")
        return self

    def _join(self, first: Loop, second: Loop) -> None:
        """Two loops beside each other as one; what the second reads must not come from later iterations."""
        if (first.extent, first.start) != (second.extent, second.start):
            raise self._refused(
                f"cannot join the loops `{loop_line(first)}` and `{loop_line(second)}`",
                "equal extents",
                "split or pad one of them so that both make the same iterations",
            )
        self._must_be_next(first, second)
        joined = join_pair(self.nest, first, second)
        producer = list(statements(substituted(first.body, {first.var: variable(second.var)})))
        consumer = list(statements(second.body))
        for d in dependences(joined):
            iterations = dict(d.distance).get(second.var, 0)
            early = d.first.statement in consumer and d.second.statement in producer
            if early and not d.reordable and (iterations is None or iterations > 0) and starts(d, second.var):
                met = self._met(d, {**turns_before(d, second.var), second.var: "> 0"}, joined)
                if met is not None:
                    what = f"cannot compute {first.var} inside {second.var}"
                    remedy = "let the producer run ahead: compute it before the loop, or shift the consumer"
                    raise self._broken(what, met.reversed(), remedy)
        self.nest = joined

    def _must_be_next(self, first: Loop, second: Loop) -> None:
        """The producer stands before the consumer, and what stands between them does not touch its memory."""
        bodies = [self.nest.body, *(each.body for each in loops(self.nest.body))]
        together = next((b for b in bodies if first in b and second in b), ())
        between = together[together.index(first) + 1 : together.index(second)] if together else ()
        written = {t.buffer for s in statements((first, *between)) for t in s.targets}
        touched = written & buffers_of((first,)) & buffers_of(between)
        if not together or together.index(first) >= together.index(second) or touched:
            raise self._refused(
                f"the loop {first.var} cannot move into {second.var}"
                + (f": {min(touched)} is used between them" if touched else ""),
                "a producer that stands before its consumer, in the same loop",
                "choose loops beside each other, or join what stands between them first",
            )

    # -- memory and micro-kernels --------------------------------------------------------------------------

    def pack(self, buffer: str, var: str) -> Schedule:
        """At the start of each iteration of `var`, copy what its loops read of a buffer into a local one."""
        node = self.loop(var)
        written = {t.buffer for s in statements((node,)) for t in s.targets}
        if buffer in written:
            raise self._refused(
                f"{buffer} cannot be packed inside {var}: it is written there",
                "a buffer that the loop only reads",
                "pack inside a loop that does not write it",
            )
        return self._done(pack.packed(self.nest, buffer, node), f"pack {buffer} {var}")

    def tensorise(self, var: str, kernel: str) -> Schedule:
        """Let a micro-kernel run a loop and everything in it."""
        node = self.loop(var)
        known = micro.KERNELS.get(kernel)
        if known is None:
            names = ", ".join(micro.KERNELS)
            raise self._refused(f"there is no micro-kernel {kernel!r}", f"one of {names}", "use one of these")
        why = known.refuses(self.nest, node)
        if why is not None:
            raise self._refused(
                f"the micro-kernel {kernel} does not compute the loop {var}: {why}",
                known.doc,
                "split and reorder the loops until they have its form",
            )
        return self._done(
            on_loop(self.nest, var, lambda n: (Micro(kernel, (n,)),)), f"tensorise {var} {kernel}"
        )
