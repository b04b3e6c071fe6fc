"""Decision trees as one table, and the walk of samples down all of them.

Enters: columns of nodes. Leaves: the leaf of each sample in each tree, or what the leaves say, summed. `walk`
is the meaning, in NumPy, one level of all trees a round; `leaves` and `sums` are native (`descent`), and ask
`walk` for what native code does not know: tests for membership and splits at NaN.
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError, FileError
from trilobite.base.records import dataclass
from trilobite.inference.operators.ml.descent import (
    EQUAL,
    GREATER,
    LESS,
    ROW,
    UNORDERED,
    leaves_of,
    sums_of,
)
from trilobite.native.memory import address

Array = np.ndarray[Any, Any]
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
MEMBER, LEAF = MODES.index("BRANCH_MEMBER"), len(MODES)
_HOLDS = np.array(  # by mode: the orders that it asks for
    [
        LESS | EQUAL,
        LESS,
        GREATER | EQUAL,
        GREATER,
        EQUAL,
        LESS | GREATER | UNORDERED,
        0,
        0,
    ],
    np.int32,
)


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
        self._check(x)
        if self._tables is None:
            return self.walk(x)
        x = np.ascontiguousarray(x)
        out, trees = np.empty((len(x), len(self.roots)), np.int32), len(self.roots)
        leaves_of(x.dtype)((address(x), *x.shape, *self._places, trees, address(out)), trees)
        return out

    def sums(self, x: Array, said: Array, base: Array, dtype: Any) -> Array:
        """(samples, targets): what the leaves reached say (a row of `said` each), tree after tree; divided by
        the last of `base`, to which the others are then added.
        """
        self._check(x)
        targets = said.shape[1]
        if self._tables is None:
            total = np.zeros((len(x), targets))
            for leaves in self.walk(x).T:
                total += said[leaves]
            return (total / base[-1] + base[:-1]).astype(dtype)
        x = np.ascontiguousarray(x)
        out, room = np.empty((len(x), targets), dtype), np.empty((len(x), targets))
        arrays, leaves = (address(x), address(out), address(room)), (address(said), targets, address(base))
        sums_of(x.dtype, dtype)((*arrays, *x.shape, *self._places, len(self.roots), *leaves), 1)
        return out

    def _check(self, x: Array) -> None:
        if self._low < 0 or x.ndim != 2 or x.shape[1] <= self._high:
            given = f"samples of {x.shape[1]} features" if x.ndim == 2 else f"samples in {x.ndim} dimensions"
            raise ArgumentError(given, expected=f"more than {self._high}, which trees look at")

    @cached_property
    def _tables(self) -> tuple[Array, Array, Array] | None:
        """Nodes, roots and depths as native code reads them, if it can."""
        if self.members or np.isnan(self.split).any():
            return None
        rows = np.zeros(len(self.mode), ROW)
        rows["split"], rows["yes"], rows["no"] = self.split, self.yes, self.no
        rows["feature"] = np.where(self.mode == LEAF, 0, self.feature)
        rows["holds"] = _HOLDS[self.mode] | np.where(self.missing_is_yes, UNORDERED, 0)
        return rows, np.ascontiguousarray(self.roots, np.int64), self.depths

    @cached_property
    def _places(self) -> tuple[int, ...]:
        """Where the tables are."""
        return tuple(address(table) for table in self._tables or ())

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
