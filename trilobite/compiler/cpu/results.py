"""Memory for results: fresh arrays, and arrays that the caller has given away.

Enters: what a program returns, and which inputs may be overwritten by which results. Leaves: an array for
every result. An input is overwritten only if it is an array that an earlier run made, and nobody but its cell
holds it, or a view of it; otherwise a copy takes its place. Memory of earlier results that nobody holds any
more is used again: fresh pages cost as much as many a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import is_
from sys import getrefcount
from typing import Any

import numpy as np

from trilobite.compiler.program import Value
from trilobite.native.memory import LINE, empty

Array = np.ndarray[Any, Any]
_PAGE = 1 << 16  # bytes from which small results are cut
_SMALL = 1 << 11  # results up to this size are cut from pages: an allocation of their own takes longer
_ARRAY = 5  # references to an array that is given away: cell, values, candidates, record, argument
_MEMORY = 3  # references to its memory: the array, the record, argument
_UNHELD = 2  # references to an earlier result that only the record here holds: record, argument
_RECYCLED = 64 << 20  # bytes of results that are kept for further runs, at most
_RUNS = 2  # results of so many runs: those of the last one are often still held when the next begins


class Results:
    """Allocates the results of one program."""

    def __init__(self, outputs: Sequence[Value], reuses: Mapping[int, int]) -> None:
        large = {k: i for k, i in reuses.items() if _bytes(outputs[k]) > _SMALL}
        self.reuses = tuple(large.items())
        self._fresh = [(k, v.shape, v.dtype) for k, v in enumerate(outputs) if k not in large]
        self._small = [_bytes(v) <= _SMALL for v in outputs]
        self._rooms = [-(-_bytes(v) // LINE) * LINE for v in outputs]
        self._count = len(outputs)
        self._made: list[Array] = []  # the arrays given for reused results in the last run,
        self._memory: list[Array] = []  # and what they lie in
        self._page, self._used = empty(_PAGE, np.uint8), 0
        kept = sum(_bytes(v) for k, v in enumerate(outputs) if not self._small[k] and k not in large)
        self._earlier: dict[int, list[Array]] | None = {} if _RUNS * kept <= _RECYCLED else None

    def allocate(self, values: list[Array]) -> list[Array]:
        """An array per result. Where an input cannot be given away, `values` gets a copy of it."""
        outs: list[Any] = [None] * self._count
        for k, shape, dtype in self._fresh:
            outs[k] = self._cut(k, shape, dtype) if self._small[k] else self._large(k, shape, dtype)
        if self.reuses:
            candidates = [values[i] for _, i in self.reuses]
            if not self._all_ours(candidates):
                self._replace(values, candidates)
            del candidates
            for k, i in self.reuses:
                outs[k] = values[i]
        return outs

    def _cut(self, k: int, shape: tuple[int, ...], dtype: Any) -> Array:
        at, self._used = self._used, self._used + self._rooms[k]
        if self._used > _PAGE:
            self._page, at, self._used = empty(_PAGE, np.uint8), 0, self._rooms[k]
        return np.ndarray(shape, dtype, self._page, at)

    def _large(self, k: int, shape: tuple[int, ...], dtype: Any) -> Array:
        if self._earlier is None:
            return empty(shape, dtype)
        earlier = self._earlier.setdefault(k, [])
        for n in range(len(earlier)):
            if getrefcount(earlier[n]) == _UNHELD and getrefcount(earlier[n].base) == _UNHELD:
                return earlier[n]
        out = empty(shape, dtype)
        earlier.append(out)
        del earlier[:-_RUNS]
        return out

    def _all_ours(self, candidates: Sequence[Array]) -> bool:
        made = self._made
        return (
            len(made) == len(candidates)
            and all(map(is_, candidates, made))
            and max(map(getrefcount, candidates)) <= _ARRAY
            and max(map(getrefcount, self._memory)) <= _MEMORY
        )

    def _replace(self, values: list[Array], candidates: list[Array]) -> None:
        """One by one: what is not ours alone is copied, and the copy is ours."""
        ours = {id(a): n for n, a in enumerate(self._made)}
        for n, (_, i) in enumerate(self.reuses):
            at = ours.get(id(values[i]))
            if at is not None and _alone(candidates, n) and getrefcount(self._memory[at]) <= _MEMORY:
                continue
            new = empty(values[i].shape, values[i].dtype)
            np.copyto(new, values[i])
            values[i] = new
        self._made = [values[i] for _, i in self.reuses]
        self._memory = [a if a.base is None else a.base for a in self._made]


def _alone(candidates: Sequence[Array], n: int) -> bool:
    return getrefcount(candidates[n]) <= _ARRAY


def _bytes(v: Value) -> int:
    total = int(v.dtype.itemsize)
    for d in v.shape:
        total *= d
    return total
