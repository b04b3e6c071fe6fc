"""The walk down all trees of a forest as native code.

Enters: samples, a forest's table of nodes, and what its leaves say. Leaves: the leaf of each sample in each
tree, or sums over the trees, tree after tree in float64. A step down waits for the one before, so eight go
side by side: samples in one tree, or, of samples that are left over, trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from trilobite.inference.operators.native import HostKernel
from trilobite.native.host import features
from trilobite.native.llvm.text import Text, Value

LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
ROW = np.dtype([("split", "f8"), ("feature", "i4"), ("yes", "i4"), ("no", "i4"), ("holds", "i4")])
_TOGETHER = 8
_CODE = {"float32": "float", "float64": "double"}


@lru_cache(maxsize=2)
def leaves_of(dtype: Any) -> HostKernel:
    """Words: samples, how many, their width, nodes, roots, depths, results; units are trees."""
    return HostKernel(_leaves(_CODE[np.dtype(dtype).name]), 1)


@lru_cache(maxsize=4)
def sums_of(dtype: Any, result: Any) -> HostKernel:
    """Words: samples, results, sums, how many, their width, nodes, roots, depths, trees, what leaves say,
    targets, and behind each target's base value what sums are divided by.
    """
    return HostKernel(_sums(_CODE[np.dtype(dtype).name], _CODE[np.dtype(result).name]), 1)


class _Walk:
    """Emits the way down trees."""

    def __init__(self, t: Text, element: str, x: Value, width: Value, nodes: Value) -> None:
        self.t, self.element, self.nodes = t, element, nodes
        self.x, self.stride = x, t.mul(width, 8 if element == "double" else 4)

    def sample(self, number: Value) -> Value:
        return self.t.address(self.x, self.t.mul(number, self.stride))

    def down(self, samples: Sequence[Value], roots: Sequence[Value], depth: Value) -> list[Value]:
        """Leaves, `depth` levels below roots; who is there earlier stays."""
        t = self.t
        with t.loop(0, depth, carried=list(roots), name="level") as level:
            steps = [
                lambda s=s, at=at: self._step(s, at) for s, at in zip(samples, level.values, strict=True)
            ]
            level.next(*t.side_by_side(steps))
        return level.results

    def _step(self, sample: Value, at: Value) -> Value:
        t = self.t
        row = t.address(self.nodes, t.mul(at, ROW.itemsize))

        def word(name: str) -> Value:
            assert ROW.fields is not None
            return t.convert("sext", t.load_type("i32", t.address(row, ROW.fields[name][1])), "i64")

        size = 8 if self.element == "double" else 4
        value = t.load_type(self.element, t.address(sample, t.mul(word("feature"), size)))
        value = value if self.element == "double" else t.convert("fpext", value, "double")
        split = t.load_type("double", row)
        order = t.select(
            t.fcmp("ogt", value, split), t.constant("i64", GREATER), t.constant("i64", UNORDERED)
        )
        order = t.select(t.fcmp("oeq", value, split), t.constant("i64", EQUAL), order)
        order = t.select(t.fcmp("olt", value, split), t.constant("i64", LESS), order)
        return t.select(t.icmp("ne", t.and_(word("holds"), order), 0), word("yes"), word("no"))


def _arguments(t: Text, kinds: str) -> list[Value]:
    """One for each letter: a pointer (p) or a number (n)."""
    return [t.argument(i, "ptr" if kind == "p" else "i64") for i, kind in enumerate(kinds)]


def _leaves(element: str) -> str:
    t = Text(features())
    x, samples, width, nodes, roots, depths, trees, out = _arguments(t, "pnnpppnp")
    walk = _Walk(t, element, x, width, nodes)
    whole = t.and_(samples, -_TOGETHER)
    with t.loop(t.begin, t.end, name="tree") as tree:
        root, depth = (_word(t, table, tree.index) for table in (roots, depths))

        def descend(first: Value, count: int) -> None:
            numbers = [t.add(first, i) for i in range(count)]
            found = walk.down([walk.sample(n) for n in numbers], [root] * count, depth)
            for number, at in zip(numbers, found, strict=True):
                place = t.add(t.mul(number, trees), tree.index)
                t.store_type(t.convert("trunc", at, "i32"), t.address(out, t.mul(place, 4)))

        with t.loop(0, whole, _TOGETHER, name="samples") as some:
            descend(some.index, _TOGETHER)
        with t.loop(whole, samples, name="sample") as one:
            descend(one.index, 1)
    return t.module()


def _word(t: Text, table: Value, place: Value) -> Value:
    return t.load_type("i64", t.address(table, t.mul(place, 8)))


def _sums(element: str, result: str) -> str:
    t = Text(features())
    x, out, sums, samples, width, nodes, roots, depths, trees, said, targets, base = _arguments(
        t, "pppnnpppnpnp"
    )
    walk = _Walk(t, element, x, width, nodes)
    whole = t.and_(samples, -_TOGETHER)
    with t.loop(0, t.mul(samples, targets), name="zero") as i:
        t.store_type(t.constant("double", 0.0), t.address(sums, t.mul(i.index, 8)))

    def add(sample: Value, leaf: Value) -> None:
        mine, its = (t.address(p, t.mul(t.mul(n, targets), 8)) for p, n in ((sums, sample), (said, leaf)))
        with t.loop(0, targets, name="target") as i:
            at = t.address(mine, t.mul(i.index, 8))
            more = t.load_type("double", t.address(its, t.mul(i.index, 8)))
            t.store_type(t.fadd(t.load_type("double", at), more), at)

    with t.loop(0, trees, name="tree") as tree:
        root, depth = (_word(t, table, tree.index) for table in (roots, depths))
        with t.loop(0, whole, _TOGETHER, name="samples") as some:
            numbers = [t.add(some.index, i) for i in range(_TOGETHER)]
            found = walk.down([walk.sample(n) for n in numbers], [root] * _TOGETHER, depth)
            for number, leaf in zip(numbers, found, strict=True):
                add(number, leaf)

    def descend(sample: Value, first: Value, count: int) -> None:
        begin = [_word(t, roots, t.add(first, i)) for i in range(count)]
        deepest = _word(t, depths, first)
        for i in range(1, count):
            deepest = t.smax(deepest, _word(t, depths, t.add(first, i)))
        for leaf in walk.down([walk.sample(sample)] * count, begin, deepest):
            add(sample, leaf)

    rounds = t.and_(trees, -_TOGETHER)
    with t.loop(whole, samples, name="sample") as one:
        with t.loop(0, rounds, _TOGETHER, name="trees") as group:
            descend(one.index, group.index, _TOGETHER)
        with t.loop(rounds, trees, name="last") as left:
            descend(one.index, left.index, 1)
    _finish(t, sums, out, samples, targets, base, result)
    return t.module()


def _finish(
    t: Text, sums: Value, out: Value, samples: Value, targets: Value, base: Value, result: str
) -> None:
    """Divided, base values added, rounded once."""
    divisor = t.load_type("double", t.address(base, t.mul(targets, 8)))
    with t.loop(0, samples, name="result") as sample, t.loop(0, targets, name="value") as target:
        place = t.add(t.mul(sample.index, targets), target.index)
        found = t.fdiv(t.load_type("double", t.address(sums, t.mul(place, 8))), divisor)
        found = t.fadd(found, t.load_type("double", t.address(base, t.mul(target.index, 8))))
        found = found if result == "double" else t.convert("fptrunc", found, "float")
        t.store_type(found, t.address(out, t.mul(place, 8 if result == "double" else 4)))
