"""Folded, transposed and packed weights: computed once, and again when a weight changes.

Enters: the values of a run. Leaves: what the rest of the graph needs of its stable inputs: folded, transposed
and packed weights. A weight that is read packed and in no other form is packed on its own, and its cell lets
go of the array, unless somebody else holds it: the panels are all that stays, until somebody looks at the
weight. One that was looked at stays beside its panels from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import is_
from typing import Any

import numpy as np

from trilobite.compiler.targets.cpu.compiled import Compiled
from trilobite.compiler.targets.cpu.primitives.packing import PACKERS
from trilobite.compiler.targets.cpu.program_store import Division, Pack, ProgramStore
from trilobite.compiler.targets.cpu.runner import Arena
from trilobite.ir.graph import Graph
from trilobite.ir.transforms import cells
from trilobite.ir.types import TensorType
from trilobite.native.memory import Memory, empty, give_back
from trilobite.native.ownership import PACKED_WEIGHT, SEEN_WEIGHT, is_alone

Array = np.ndarray[Any, Any]
_ROUND = 4 << 20  # bytes of weights that are let go before their pages are given back


class Weights:
    """The part of a graph that depends on stable inputs alone. `first` gives it before fusion, `rest` all
    of it but the packings that stand alone, `packing` one of these. `owners` are cells of inputs.
    """

    def __init__(
        self,
        division: Division,
        types: Sequence[TensorType],
        first: Callable[[], Graph],
        rest: Callable[[], Graph],
        packing: Callable[[int], Graph],
        store: ProgramStore | None,
    ) -> None:
        self.stable, self.packs, self.outputs = division.stable, division.packs, division.outputs
        self.owners: Mapping[int, cells.Cell] = {}
        self.arena = Arena()
        alone = {p.input for p in self.packs}
        self._inputs = [n for n, i in enumerate(self.stable) if i not in alone]
        self._at = {i: n for n, i in enumerate(self.stable)}
        self.first = Compiled([types[i] for i in self.stable], first, {}, (store, 1), self.arena)
        self.rest = self.first
        if self.packs:
            taken = [types[self.stable[n]] for n in self._inputs]
            self.rest = Compiled(taken, rest, {}, (store, 2), self.arena)
        self._packers: dict[tuple[Any, ...], Compiled] = {}
        for number, p in enumerate(self.packs):
            kind = _kind(types, p)
            if kind not in self._packers:
                part = (store, 3 + len(self._packers))
                self._packers[kind] = Compiled(
                    [types[p.input]], partial(packing, number), {}, part, self.arena
                )
        self._packer = [self._packers[_kind(types, p)] for p in self.packs]
        packed = {p.output for p in self.packs}
        self._others = [k for k in range(self.outputs) if k not in packed]
        self._seen: list[Array] | None = None
        self._when = 0
        self._exposures = -1  # when none of the weights was exposed
        self._ready: list[Any] = [None] * self.outputs
        self._observed: set[int] = set()
        self._stand_ins: dict[int, Array] = {}  # of weights that were put away

    def begin(self, values: Sequence[Array]) -> None:
        """Makes the programs, while other threads compile."""
        if self._others:
            self.rest.begin([values[self.stable[n]] for n in self._inputs])
        for packer, p in zip(self._packer, self.packs, strict=True):
            packer.begin([values[p.input]])

    def prepare(self, values: Sequence[Array]) -> None:
        """Compiles what a run with values of these shapes needs."""
        if self._others:
            self.rest.runner([values[self.stable[n]] for n in self._inputs])
        for packer, p in zip(self._packer, self.packs, strict=True):
            packer.runner([values[p.input]])

    def __call__(self, values: Sequence[Array], held: int) -> list[Array]:
        now = [values[i] for i in self.stable]
        if self._are_as_before(now):
            return self._ready
        self._look_again(now)
        changed = self._changed(now, held)
        is_first = self._seen is None  # what comes of constants alone is made then
        if is_first or True in changed:
            self._when = cells.now
            if is_first and self.packs:
                give_back()  # what compiling has left
            if self._others and (is_first or any(changed[n] for n in self._inputs)):
                made = self.rest.runner(given := [now[n] for n in self._inputs])(given)
                for k, array in zip(self._others, made, strict=True):
                    self._ready[k] = array
            self._pack(values, now, changed)
            self._seen = now
            self.arena.release()  # weights seldom change
        return self._ready

    def _are_as_before(self, now: list[Array]) -> bool:
        """Are they the arrays last seen, with nothing written and nothing exposed anywhere since? Said of all
        at once: a small network has more weights than its run takes microseconds.
        """
        if self._seen is None or cells.now != self._when or cells.exposures != self._exposures:
            return False
        return all(map(is_, now, self._seen))

    def _look_again(self, now: list[Array]) -> None:
        """Another thread may have looked at weights since the caller saw what stands in for them."""
        if self._seen is not None:
            for n, stand_in in self._stand_ins.items():
                if now[n] is stand_in:
                    now[n] = self._seen[n]

    def _changed(self, now: list[Array], held: int) -> list[bool]:
        """Which of these arrays are others than those last looked at, or written since?"""
        if self._seen is None:
            return [True] * len(now)
        exposures = cells.exposures  # before they are looked at: another thread may expose one meanwhile
        outside = [cells.is_exposed(a, SEEN_WEIGHT + held) for a in now]
        self._exposures = -1 if True in outside else exposures
        if cells.now == self._when and True not in outside and all(map(is_, now, self._seen)):
            return []
        pairs = zip(now, self._seen, outside, strict=True)
        return [a is not b or seen or cells.stamped_after(a, self._when) for a, b, seen in pairs]

    # -- weights in panels ----------------------------------------------------------------------------------

    def _pack(self, values: Sequence[Array], now: list[Array], changed: list[bool]) -> None:
        """Large ones first: a weight and its panels are both there for a moment, and more stays with each."""
        free = 0
        for number in sorted(range(len(self.packs)), key=lambda k: -values[self.packs[k].input].nbytes):
            p = self.packs[number]
            n = self._at[p.input]
            if not changed[n]:
                continue
            (self._ready[p.output],) = self._packer[number].runner([now[n]])([now[n]])
            if type(values) is list and self._let_go(number, n, values, now):
                free += self._ready[p.output].nbytes
                if free > _ROUND:
                    free = 0
                    give_back()
        if free:
            give_back()

    def _let_go(self, number: int, n: int, values: list[Array], now: list[Array]) -> bool:
        """The panels are there: is the array of no more use to anybody?"""
        i = self.packs[number].input
        cell = self.owners.get(i)
        array = now[n]
        private = array.flags.owndata or type(array.base) is Memory
        seen = number in self._observed
        if cell is None or seen or not private or type(cell) is not cells.Cell or cell.value is not array:
            return False
        if not is_alone(array, PACKED_WEIGHT):
            return False
        stand_in = cells.put_away(cell, array, self, partial(self._bring, number, n, array.shape))
        if stand_in is None:
            return False
        values[i] = now[n] = self._stand_ins[n] = stand_in
        return True

    def _bring(self, number: int, n: int, shape: tuple[int, ...]) -> Array:
        """The weight from its panels. It stays: who looked once will look again. Before the first run is
        over, the next one finds it changed.
        """
        p = self.packs[number]
        panels = self._ready[p.output]
        array = empty(shape, panels.dtype)
        array[...] = PACKERS[p.name](panels, shape, **p.attributes)
        if self._seen is not None:
            self._seen[n] = array
        self._observed.add(number)
        return array


def _kind(types: Sequence[TensorType], p: Pack) -> tuple[Any, ...]:
    """Weights of one kind are packed by one program."""
    return types[p.input], p.name, *sorted(p.attributes.items())
