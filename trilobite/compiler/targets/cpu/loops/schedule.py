"""Schedules: how a nest runs, apart from what it computes.

Enters: a nest. Each method changes how it runs and returns the schedule, so that they chain; `nest` is the
result and `steps` what was done. A change that could let a value be read before it is written, or two turns
that must stay in order run side by side, is refused with the dependence that forbids it.

    s = Schedule(nest).split("i", 64).reorder("i_o", "j", "i_i").vectorise("i_i", 8).parallelise("i_o")
"""

from __future__ import annotations

from dataclasses import replace

from trilobite.base.errors import IRError
from trilobite.compiler.targets.cpu.loops import micro, pack
from trilobite.compiler.targets.cpu.loops.dependence import Dependence, carried, dependences
from trilobite.compiler.targets.cpu.loops.index import variable
from trilobite.compiler.targets.cpu.loops.ir import (
    Loop,
    Micro,
    Nest,
    Node,
    Statement,
    loops,
    rewritten,
    statements,
    substituted,
)
from trilobite.compiler.targets.cpu.loops.text import loop_line
from trilobite.compiler.targets.cpu.loops.transform import (
    extent_of,
    fuse_pair,
    interchange_pair,
    on_loop,
    skew_loop,
    split_loop,
)
from trilobite.compiler.targets.cpu.loops.verify import verify

UNROLL = 64  # turns that one may write out


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
        """`var` becomes `var_o` over blocks of `size` turns and `var_i` inside; the last may be short."""
        if size < 1:
            raise self._refused(
                f"split {var} into blocks of {size}", "a size of at least 1", "give a positive size"
            )
        if self.loop(var).kind == "unrolled":
            raise self._refused(f"split {var}: it is unrolled", "a loop with turns", "split before unrolling")
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
        """Turns of `inner` begin `factor` later with each turn of `outer`: it becomes `inner_outer`, which is
        `inner + factor * outer`. The order of turns stays; what changes is which exchanges are legal then.
        """
        node = self._nested(outer, inner, "skew")
        child = node.body[0]
        assert isinstance(child, Loop)
        skewed = skew_loop(child, node, factor)
        if skewed is None or child.kind != "serial":
            raise self._refused(
                f"cannot skew {inner} by {factor} turns for each of {outer}",
                "a factor of at least 1, and two plain loops with fixed numbers of turns",
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
            if not d.reordable and _turns_over(d, outer, inner):
                raise self._broken(
                    f"cannot exchange {outer} and {inner}", d, "keep their order, or split first"
                )
        self.nest = on_loop(self.nest, outer, lambda _: (exchanged,))

    def _broken(self, what: str, d: Dependence, remedy: str) -> IRError:
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
            if not d.reordable or not _folds(d, node):
                raise self._broken(
                    f"the loop {var} cannot run in vectors", d, "vectorise a loop that carries no dependence"
                )
        step = f"vectorise {var} {lanes} x {unroll}"
        kind = replace(node, kind="vector", lanes=lanes, unroll=unroll)
        return self._done(on_loop(self.nest, var, lambda _: (kind,)), step)

    def parallelise(self, var: str) -> Schedule:
        """Turns of the outermost loop as units that several threads share."""
        node = self.loop(var)
        if node.start:
            raise self._refused(
                f"the loop {var} cannot be parallel: it is skewed",
                "a loop that begins with turn 0",
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
            if d.first.buffer not in local:
                raise self._broken(
                    f"the loop {var} cannot be parallel", d, "combine into partial results per block first"
                )
        return self._done(
            on_loop(self.nest, var, lambda n: (replace(n, kind="parallel"),)), f"parallelise {var}"
        )

    def unroll(self, var: str) -> Schedule:
        """Write out every turn of a loop of few."""
        turns = extent_of(self.loop(var))
        if not isinstance(turns, int) or turns > UNROLL:
            raise self._refused(
                f"the loop {var} has {'an unknown number of' if turns is None else turns} turns",
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
        """Two loops beside each other as one; what the second reads must not come from later turns."""
        if (first.extent, first.start) != (second.extent, second.start):
            raise self._refused(
                f"cannot join the loops `{loop_line(first)}` and `{loop_line(second)}`",
                "equal extents",
                "split or pad one of them so that both make the same turns",
            )
        joined = self._joined(first, second)
        producer = list(statements(substituted(first.body, {first.var: variable(second.var)})))
        consumer = list(statements(second.body))
        for d in dependences(joined):
            turns = dict(d.distance).get(second.var, 0)
            early = d.first.statement in consumer and d.second.statement in producer
            if early and not d.reordable and (turns is None or turns > 0) and _starts(d, second.var):
                raise self._broken(
                    f"cannot compute {first.var} inside {second.var}",
                    Dependence(
                        d.second, d.first, tuple((v, None if t is None else -t) for v, t in d.distance)
                    ),
                    "let the producer run ahead: compute it before the loop, or shift the consumer",
                )
        self.nest = joined

    def _joined(self, first: Loop, second: Loop) -> Nest:
        body = (*substituted(first.body, {first.var: variable(second.var)}), *second.body)

        def change(node: Node) -> tuple[Node, ...]:
            if node == second:
                return (replace(second, body=body),)
            return () if node == first else (node,)

        return replace(self.nest, body=rewritten(self.nest.body, change))

    # -- memory and micro-kernels --------------------------------------------------------------------------

    def pack(self, buffer: str, var: str) -> Schedule:
        """At the start of each turn of `var`, copy what its loops read of a buffer into a local one."""
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


def _turns_over(d: Dependence, outer: str, inner: str) -> bool:
    """Would exchanging two loops run the second access before the first?"""
    distance = dict(d.distance)
    if outer not in distance or inner not in distance:
        return False
    for v, turns in d.distance:
        if v == outer:
            break
        if turns not in (0, None):
            return False  # an outer loop keeps them in order
    a, b = distance[outer], distance[inner]
    return (a is None or a > 0) and (b is None or b < 0)


def _folds(d: Dependence, node: Loop) -> bool:
    """Do all lanes of a loop combine into one element, which they have for themselves? Lanes that combine
    into elements of their own, some of which may be the same, would lose what the others add.
    """
    s, buffer = list(statements((node,))), d.first.buffer
    alone = sum(t.buffer == buffer for each in s for t in each.targets) == 1
    read = any(load.buffer == buffer for each in s for load in each.loads())
    return alone and not read and not any(node.var in i.variables for i in d.first.index)


def _starts(d: Dependence, var: str) -> bool:
    """Are all loops around `var` at the same turn, or may they be?"""
    for v, turns in d.distance:
        if v == var:
            return True
        if turns not in (0, None):
            return False
    return True
