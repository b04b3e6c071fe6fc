"""Memory for results: arrays that the caller has given away, and arrays of earlier runs that nobody holds.

Enters: what a program returns, and which inputs may be overwritten by which results. Leaves: an array for
every result. An input is overwritten only if it is an array that an earlier run made, and nobody but its cell
holds it, or a view of it; otherwise a copy takes its place. Fresh pages cost as much as many a kernel, so
results of the run before last are used again, unless somebody holds them, or a view of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_, itemgetter
from sys import getrefcount
from typing import Any

import numpy as np

from trilobite.compiler.program import Value
from trilobite.native.memory import empty

Array = np.ndarray[Any, Any]
_GIVEN = 5  # references to an array that is given away: cell, values, candidates, record, argument
_UNHELD = 2  # to one that only a record here holds: record, argument
_MEMORY = 3  # to the memory of either: the array, the record, argument
_RECYCLED = 64 << 20  # bytes of results that are kept for further runs, at most
_SETS = 2  # runs whose results are kept: those of the last one are often still held when the next begins


class _Record:
    """Arrays made here, and the memory that they lie in."""

    def __init__(self, arrays: list[Array]) -> None:
        self.arrays = arrays
        self.memory = [_memory(a) for a in arrays]

    def is_free(self, references: int) -> bool:
        """Does nobody hold any of them, or a view?"""
        return (
            max(map(getrefcount, self.arrays)) <= references and max(map(getrefcount, self.memory)) <= _MEMORY
        )

    def replace(self, n: int, array: Array) -> None:
        self.arrays[n], self.memory[n] = array, _memory(array)


class Results:
    """Allocates the results of one program."""

    def __init__(self, outputs: Sequence[Value], reuses: Mapping[int, int]) -> None:
        self.reuses = tuple(reuses.items())
        self._types = [(v.shape, v.dtype) for v in outputs]
        self._fresh = [k for k in range(len(outputs)) if k not in reuses]
        self._given = _Record([])
        self._sets: list[_Record] = []
        kept = sum(_bytes(outputs[k]) for k in self._fresh)
        self._candidates = picker([i for _, i in self.reuses])
        order = {k: n for n, k in enumerate((*self._fresh, *reuses))}
        self._in_order = picker([order[k] for k in range(len(outputs))])
        self._recycles = bool(self._fresh) and _SETS * kept <= _RECYCLED

    def allocate(self, values: list[Array]) -> list[Array]:
        """An array per result. Where an input cannot be given away, `values` gets a copy of it."""
        fresh = self._unheld()
        if not self.reuses:
            return list(fresh)
        candidates = list(self._candidates(values))
        if not self._all_ours(candidates):
            self._copy(values, candidates)
        del candidates
        return list(self._in_order((*fresh, *self._candidates(values))))

    # -- fresh ones ------------------------------------------------------------------------------------------

    def _unheld(self) -> list[Array]:
        """Arrays for the fresh results, of an earlier run where that is possible."""
        if not self._recycles:
            return [empty(*self._types[k]) for k in self._fresh]
        if len(self._sets) < _SETS:
            self._sets.append(_Record([empty(*self._types[k]) for k in self._fresh]))
            return self._sets[-1].arrays
        record = self._sets[0]
        self._sets.append(self._sets.pop(0))
        if not record.is_free(_UNHELD):
            for n, k in enumerate(self._fresh):
                held = getrefcount(record.arrays[n]) > _UNHELD or getrefcount(record.memory[n]) > _MEMORY
                if held:
                    record.replace(n, empty(*self._types[k]))
        return record.arrays

    # -- given ones ------------------------------------------------------------------------------------------

    def _all_ours(self, candidates: Sequence[Array]) -> bool:
        ours = self._given.arrays
        return (
            len(ours) == len(candidates) and all(map(is_, candidates, ours)) and self._given.is_free(_GIVEN)
        )

    def _copy(self, values: list[Array], candidates: list[Array]) -> None:
        """One by one: what is not ours alone is copied, and the copy is ours."""
        at = {id(a): n for n, a in enumerate(self._given.arrays)}
        for n, (k, i) in enumerate(self.reuses):
            mine = at.get(id(candidates[n]))
            alone = mine is not None and getrefcount(candidates[n]) <= _GIVEN
            if alone and getrefcount(self._given.memory[mine]) <= _MEMORY:  # type: ignore[index]
                continue
            new = empty(*self._types[k])
            np.copyto(new, values[i].reshape(new.shape))
            values[i] = new
        self._given = _Record([values[i] for _, i in self.reuses])


def picker(places: Sequence[int]) -> Callable[[Sequence[Array]], Sequence[Array]]:
    """The elements at these places, as a function that costs little."""
    if len(places) < 2:
        return lambda values: [values[i] for i in places]
    pick: Callable[[Sequence[Array]], Sequence[Array]] = itemgetter(*places)
    return pick


def _memory(array: Array) -> Any:
    return array if array.base is None else array.base


def _bytes(v: Value) -> int:
    total = int(v.dtype.itemsize)
    for d in v.shape:
        total *= d
    return total
