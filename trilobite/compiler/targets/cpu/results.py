"""Memory for results: arrays that the caller has given away, and arrays of earlier runs that nobody holds.

Enters: what a program returns, which inputs may be overwritten by which results, and results of the last run
that this one replaces. Leaves: an array for every result. An array is overwritten only if its memory is its
own and nobody but its owner holds it, or a view of it; otherwise a copy or a fresh one takes its place. Fresh
pages cost as much as many a kernel, so other results use those of the run before last, unless somebody holds
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any
from weakref import WeakSet

import numpy as np

from trilobite.compiler.program.program import Value, size_of
from trilobite.native.memory import Memory, empty
from trilobite.native.ownership import GIVEN, UNHELD, counter, references
from trilobite.native.pages import populate

Array = np.ndarray[Any, Any]
_RECYCLED = 64 << 20  # bytes of results that are kept for further runs, at most
_SETS = 2  # runs whose results are kept: those of the last one are often still held when the next begins


class Results:
    """Allocates the results of one program.

    `replaced` are results of which the caller hands in the arrays of the last run, as `old`: gradients.
    """

    def __init__(
        self, outputs: Sequence[Value], reuses: Mapping[int, int], replaced: Sequence[int] = ()
    ) -> None:
        self.reuses, self.replaced = tuple(reuses.items()), tuple(k for k in replaced if k not in reuses)
        self._types = [(v.shape, v.dtype) for v in outputs]
        given = [*reuses, *self.replaced]
        self._given = len(given)
        self._fresh = [k for k in range(len(outputs)) if k not in given]
        self._count = counter()
        self._ours: list[Array] = []  # what was given away in the last run
        self._sets: list[list[Array]] = []
        kept = sum(size_of(outputs[k]) for k in self._fresh)
        self._candidates = picker([i for _, i in self.reuses])
        order = {k: n for n, k in enumerate((*self._fresh, *given))}
        self._in_order = picker([order[k] for k in range(len(outputs))])
        self._recycles = bool(self._fresh) and _SETS * kept <= _RECYCLED
        _everyone.add(self)

    def allocate(self, values: list[Array], old: list[Array], held: int) -> list[Array]:
        """An array per result. Where an input cannot be given away, `values` gets a copy of it. The caller
        refers to each array that it gives away `held` times more than by its cell and its list.
        """
        fresh = self._unheld()
        if not self.reuses and not self.replaced:
            return list(fresh)
        candidates = [*self._candidates(values), *old]
        in_place = 0 < self._count(candidates, self._ours) <= GIVEN + held
        if not in_place or len(candidates) < self._given:
            self._renew(values, candidates, GIVEN + held)
        return list(self._in_order((*fresh, *candidates)))

    def forget(self) -> None:
        """Keeps no array of earlier runs."""
        self._sets, self._ours = [], []

    # -- fresh ones ------------------------------------------------------------------------------------------

    def _unheld(self) -> list[Array]:
        """Arrays for the fresh results, of an earlier run where that is possible."""
        if not self._recycles:
            return [empty(*self._types[k]) for k in self._fresh]
        if len(self._sets) < _SETS:
            self._sets.append([empty(*self._types[k]) for k in self._fresh])
            return self._sets[-1]
        record = self._sets[0]
        self._sets.append(self._sets.pop(0))
        if self._count(record, record) > UNHELD:
            for n, k in enumerate(self._fresh):
                if references(record, n) > UNHELD:
                    record[n] = empty(*self._types[k])
        return record

    # -- given ones ------------------------------------------------------------------------------------------

    def _renew(self, values: list[Array], candidates: list[Array], most: int) -> None:
        """One by one: what others may see is replaced, an input by a copy, and that is ours."""
        ours = {id(a) for a in self._ours}
        others = self._taken_over(candidates)
        inputs = len(self.reuses)
        for n, k in enumerate((*(k for k, _ in self.reuses), *self.replaced)):
            if n == len(candidates):  # there is no old result
                candidates.append(self._spare(n, k))
                continue
            known = most if id(candidates[n]) in ours else most - 1
            if not self._fits(candidates[n], k) or references(candidates, n) > known:
                new = empty(*self._types[k])
                if n < inputs:
                    i = self.reuses[n][1]
                    np.copyto(new, values[i].reshape(new.shape))
                    values[i] = new
                candidates[n] = new
        for array in candidates:
            if id(array) not in ours and id(array) not in others:
                populate(array)
        self._ours = candidates

    def _taken_over(self, candidates: Sequence[Array]) -> set[int]:
        """The arrays that other programs were given in their last run, by identity; those which share one
        with this (a step for another size of batch) let all of them go.
        """
        mine, found = {id(a) for a in candidates}, set()
        for other in list(_everyone):
            theirs = set() if other is self else {id(a) for a in other._ours}
            if not mine.isdisjoint(theirs):
                found |= theirs
                other._ours = []
        return found

    def _fits(self, array: Array, k: int) -> bool:
        """Can result k be written here, and does the array's own count tell of everybody who sees it?"""
        private = array.flags.owndata or type(array.base) is Memory
        whole = array.flags.c_contiguous and array.flags.writeable and array.flags.aligned
        return private and whole and (array.shape, array.dtype) == self._types[k]

    def _spare(self, n: int, k: int) -> Array:
        """What the last run gave as result k, if it is forgotten, else a fresh array."""
        ours = self._ours
        return ours[n] if n < len(ours) and references(ours, n) <= UNHELD else empty(*self._types[k])


_everyone: WeakSet[Results] = WeakSet()


def picker(places: Sequence[int]) -> Callable[[Sequence[Array]], Sequence[Array]]:
    """The elements at these places, as a function that costs little."""
    if len(places) < 2:
        return lambda values: [values[i] for i in places]
    pick: Callable[[Sequence[Array]], Sequence[Array]] = itemgetter(*places)
    return pick
