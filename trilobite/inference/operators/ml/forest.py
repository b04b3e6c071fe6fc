"""Decision trees as one table, and the walk of samples down all of them, as native code.

Enters: columns of nodes. Leaves: the leaf of each sample in each tree. `walk` is the meaning, in NumPy, one
level of all trees a round; `leaves` is the same tree by tree, eight samples side by side, and asks `walk` for
what native code does not know: tests for membership and splits at NaN.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, FileError
from trilobite.base.records import dataclass
from trilobite.inference.operators.native import HostKernel
from trilobite.native.host import features
from trilobite.native.llvm.text import Text, Value

Array = np.ndarray[Any, Any]
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER, LEAF = MODES.index("BRANCH_MEMBER"), len(MODES)
_LESS, _EQUAL, _GREATER, _UNORDERED = 1, 2, 4, 8
_HOLDS = np.array(  # by mode: the orders that it asks for
    [
        _LESS | _EQUAL,
        _LESS,
        _GREATER | _EQUAL,
        _GREATER,
        _EQUAL,
        _LESS | _GREATER | _UNORDERED,
        0,
        0,
    ],
    np.int32,
)
_ROW = np.dtype([("split", "f8"), ("feature", "i4"), ("yes", "i4"), ("no", "i4"), ("holds", "i4")])
_SAMPLES = 8  # side by side: a step down waits for the one before


@dataclass
class Forest:
    """Nodes of all trees in one table; children are rows of it, a leaf is its own child."""

    roots: Array
    feature: Array
    split: Array
    mode: Array
    yes: Array
    no: Array
    missing_is_yes: Array
    members: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rows = len(self.mode)
        for children in (self.roots, self.yes, self.no):
            if len(children) and not (children.min() >= 0 and children.max() < rows):
                raise FileError(
                    "a tree of the ensemble has a child that is not there", expected=f"{rows} nodes"
                )
        self.depths = self._depths()
        looked_at = self.feature[self.mode != LEAF]
        self._low, self._high = int(looked_at.min(initial=0)), int(looked_at.max(initial=-1))

    def _depths(self) -> Array:
        """Levels above the deepest leaf, by tree."""
        inner = self.mode != LEAF
        depths = np.zeros(len(self.roots), np.int64)
        at, tree = np.asarray(self.roots), np.arange(len(self.roots))
        for level in range(len(self.mode) + 1):
            at, tree = at[inner[at]], tree[inner[at]]
            if not len(at):
                return depths
            depths[tree] = level + 1
            both = np.concatenate([self.yes[at], self.no[at]])
            pairs = np.unique(np.stack([both, np.concatenate([tree, tree])]), axis=1)
            at, tree = pairs
        raise FileError("a tree of the ensemble never ends in a leaf", expected="trees without cycles")

    def leaves(self, x: Array) -> Array:
        """(samples, trees): the row of the leaf that each sample ends in."""
        if self._low < 0 or x.shape[1] <= self._high:
            raise ArgumentError(
                f"samples of {x.shape[1]} features", expected=f"more than {self._high}, which trees look at"
            )
        if self._rows is None:
            return self.walk(x)
        x = np.ascontiguousarray(x)
        out = np.empty((len(x), len(self.roots)), np.int32)
        words = [x.ctypes.data, len(x), x.shape[1], self._rows.ctypes.data, self._roots.ctypes.data,
                 self.depths.ctypes.data, len(self.roots), out.ctypes.data]  # fmt: skip
        _descent("double" if x.dtype == np.float64 else "float")(words, len(self.roots))
        return out

    @cached_property
    def _roots(self) -> Array:
        return np.ascontiguousarray(self.roots, np.int64)

    @cached_property
    def _rows(self) -> Array | None:
        """The table as native code reads it, if it can."""
        if self.members or np.isnan(self.split).any():
            return None
        rows = np.zeros(len(self.mode), _ROW)
        rows["split"], rows["yes"], rows["no"] = self.split, self.yes, self.no
        rows["feature"] = np.where(self.mode == LEAF, 0, self.feature)
        rows["holds"] = _HOLDS[self.mode] | np.where(self.missing_is_yes, _UNORDERED, 0)
        return rows

    def walk(self, x: Array) -> Array:
        """The meaning of `leaves`."""
        at = np.broadcast_to(self.roots, (len(x), len(self.roots))).copy()
        rows = np.arange(len(x))[:, None]
        while not (self.mode[at] == LEAF).all():
            value = x[rows, np.where(self.mode[at] == LEAF, 0, self.feature[at])]
            at = np.where(self._holds(at, value), self.yes[at], self.no[at])
        return at

    def _holds(self, at: Array, value: Array) -> Array:
        split, mode = self.split[at], self.mode[at]
        tests = [value <= split, value < split, value >= split, value > split, value == split, value != split]
        out = np.select([mode == m for m in range(6)], tests, False)
        for row, members in self.members.items():
            here = at == row
            out[here] = np.isin(value[here], members)
        return out | (np.isnan(value) & self.missing_is_yes[at])


@lru_cache(maxsize=2)
def _descent(element: str) -> HostKernel:
    return HostKernel(_text(element), 1)


def _text(element: str) -> str:
    """For trees begin to end: all samples, some at a time, down as many levels as the tree has."""
    t = Text(features())
    x, samples, width, rows, roots, depths, trees, out = (
        t.argument(i, "ptr" if i in (0, 3, 4, 5, 7) else "i64") for i in range(8)
    )
    size = 8 if element == "double" else 4
    whole = t.mul(t.sdiv(samples, _SAMPLES), _SAMPLES)
    with t.loop(t.begin, t.end, name="tree") as tree:
        root = t.load_type("i64", t.address(roots, t.mul(tree.index, 8)))
        depth = t.load_type("i64", t.address(depths, t.mul(tree.index, 8)))

        def descend(first: Value, count: int) -> None:
            starts = [t.address(x, t.mul(t.mul(t.add(first, i), width), size)) for i in range(count)]
            with t.loop(0, depth, carried=[root] * count, name="level") as level:
                steps = [
                    lambda s=s, at=at: _step(t, s, at) for s, at in zip(starts, level.values, strict=True)
                ]
                level.next(*t.side_by_side(steps))
            for i, at in enumerate(level.results):
                place = t.add(t.mul(t.add(first, i), trees), tree.index)
                t.store_type(t.convert("trunc", at, "i32"), t.address(out, t.mul(place, 4)))

        def _step(t: Text, start: Value, at: Value) -> Value:
            row = t.address(rows, t.mul(at, _ROW.itemsize))

            def word(name: str) -> Value:
                assert _ROW.fields is not None
                found = t.load_type("i32", t.address(row, _ROW.fields[name][1]))
                return t.convert("sext", found, "i64")

            value = t.load_type(element, t.address(start, t.mul(word("feature"), size)))
            value = value if element == "double" else t.convert("fpext", value, "double")
            split = t.load_type("double", row)
            order = t.select(
                t.fcmp("ogt", value, split), t.constant("i64", _GREATER), t.constant("i64", _UNORDERED)
            )
            order = t.select(t.fcmp("oeq", value, split), t.constant("i64", _EQUAL), order)
            order = t.select(t.fcmp("olt", value, split), t.constant("i64", _LESS), order)
            holds = t.icmp("ne", t.and_(word("holds"), order), 0)
            return t.select(holds, word("yes"), word("no"))

        with t.loop(0, whole, _SAMPLES, name="samples") as some:
            descend(some.index, _SAMPLES)
        with t.loop(whole, samples, name="sample") as one:
            descend(one.index, 1)
    return t.module()
