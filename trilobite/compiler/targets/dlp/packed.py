"""Weights that are laid out, or computed from other weights, once: again only when one of them has changed.

Enters: arrays of inputs that seldom change. Leaves: blocks of device memory in the order that readers want,
and programs in two parts, of which the first makes from weights alone what the second needs of them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trilobite.compiler.targets.dlp.parts import Packed
from trilobite.compiler.targets.dlp.resident import Link
from trilobite.ir.transforms import cells
from trilobite.processor.sim.run import Run

if TYPE_CHECKING:
    from trilobite.compiler.graph.passes.split_stable import Halves
    from trilobite.compiler.targets.dlp.compiled import Compiled, Loaded

Array = np.ndarray[Any, Any]


class Seen:
    """Arrays as they were: are they the same objects, and has nobody written them?"""

    def __init__(self) -> None:
        self._arrays: list[weakref.ref[Array]] = []
        self._when = -1

    def is_same(self, values: Sequence[Array]) -> bool:
        if self._when < 0 or len(values) != len(self._arrays):
            return False
        return all(
            ref() is v and not cells.stamped_after(v, self._when) and not cells.is_exposed(v, 0)
            for ref, v in zip(self._arrays, values, strict=True)
        )

    def note(self, values: Sequence[Array]) -> None:
        self._arrays, self._when = [weakref.ref(v) for v in values], cells.now


class PackedWeight:
    """A weight in the order that its readers want."""

    def __init__(self, place: Array, packed: Packed) -> None:
        """`place`: its bytes in the device's memory."""
        self.packed, self.place = packed, place
        self._seen = Seen()

    def update(self, value: Array) -> int:
        """Lays the weight out again if it has changed; how many bytes that were."""
        if self._seen.is_same([value]):
            return 0
        moved = np.ascontiguousarray(_real(value).transpose(self.packed.order))
        self.place[:] = moved.reshape(-1).view(np.uint8)
        self._seen.note([value])
        return moved.nbytes


def _real(value: Array) -> Array:
    """Complex numbers as pairs along a last axis, as `split_complex` reads them."""
    if value.dtype.kind != "c":
        return value
    return np.stack([value.real, value.imag], axis=-1)


class Parted:
    """A program in two parts: what depends on weights alone, and the rest."""

    def __init__(self, halves: Halves, first: Loaded, second: Loaded) -> None:
        self.halves, self.first, self.second = halves, first, second
        self._seen = Seen()
        self._made: list[Array] = []

    @property
    def compiled(self) -> Compiled:
        return self.second.compiled

    @property
    def last_run(self) -> Run | None:
        return self.second.last_run

    @property
    def link(self) -> Link:
        return self.second.link

    def run(self, values: Sequence[Array], traced: bool = True, checks: bool | None = None) -> list[Array]:
        weights = [values[i] for i in self.halves.stable]
        if not self._seen.is_same(weights):
            self._made = self.first.run(weights, traced=False, checks=checks)
            self._seen.note(weights)
        kept = [values[i] for i in self.halves.kept]
        return self.second.run([*kept, *self._made], traced, checks)

    def time(self, values: Sequence[Array]) -> Run:
        """Of the second part; what the first has made must be there."""
        if not self._made:
            self.run(values, traced=False)
        return self.second.time([*(values[i] for i in self.halves.kept), *self._made])

    def apart(self) -> Parted:
        return Parted(self.halves, self.first, self.second.apart())
