"""Operands that repeat along some axes of a tile: their own elements come from device memory once, and are
repeated on chip.

Enters: where an operand lies, the extents of a tile, and its stride along each of them, 0 where it repeats.
Leaves: instructions that fill the tile. A DMA engine would fetch a granule of DRAM for every element that
repeats along the innermost axis; here such elements are copied side by side, and the block is turned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from trilobite.compiler.targets.dlp.kernels.strided import Axis, strided_copy
from trilobite.compiler.targets.dlp.vector.formats import WORDS
from trilobite.compiler.targets.dlp.writer import Int, Writer, padded
from trilobite.processor.lang.ir import Value

LINE = 128  # bytes that an on-chip copy moves in a cycle: shorter pieces are joined first


@dataclass(frozen=True)
class Spread:
    """`extents` of the largest tile and an operand's `strides`, outermost first."""

    extents: tuple[int, ...]
    strides: tuple[int, ...]
    item: int

    @property
    def repeats(self) -> int:
        """How often each element stands side by side: along the innermost axes that do not change it."""
        return prod(self.extents[self._own :])

    @property
    def _own(self) -> int:
        """Axes before those."""
        return max((place + 1 for place, s in enumerate(self.strides) if s), default=0)

    @property
    def compact(self) -> int:
        """Elements that come from memory."""
        return prod(n for n, s in zip(self.extents, self.strides, strict=True) if s)

    @property
    def is_needed(self) -> bool:
        """Some axis of the tile repeats elements."""
        places = [n for n, s in zip(self.extents, self.strides, strict=True) if not s]
        return self.item in WORDS and prod(places) > 1

    @property
    def bytes(self) -> tuple[int, int, int]:
        """Of the elements as they come, of those with the outer axes repeated, of a block to be turned."""
        own = prod(self.extents[: self._own])
        again = own if own > self.compact and self.repeats > 1 else 0
        whole = own * self.repeats if self.repeats > 1 else 0
        return tuple(padded(n * self.item) for n in (self.compact, again, whole))  # type: ignore[return-value]

    def emit(self, w: Writer, tile: Value, source: Value, room: Value, count: Int) -> None:
        """Fills a tile whose outermost axis has `count` elements; `room` is NRAM of `bytes` altogether."""
        near, far = self.bytes[0], self.bytes[0] + self.bytes[1]
        extents: list[Int] = [count, *self.extents[1:]]
        own, held = self._own, self._compact_strides(extents, w)
        loaded = [Axis(n, h, s) for n, h, s in zip(extents, held, self.strides, strict=True) if s]
        strided_copy(w, room, source, loaded, self.item)
        if self.repeats == 1:
            self._repeat_outer(w, tile, room, extents, held)
            return
        rows: Value = room
        if self.bytes[1]:
            rows = w.at(room, near)
            self._repeat_outer(w, rows, room, extents[:own], held[:own])
        block = w.at(room, far)
        many = _product(w, extents[:own])
        self._side_by_side(w, block, rows, many)
        w.vector("VTRANS", WORDS[self.item], tile, block, 1, self.repeats, many)

    def _compact_strides(self, extents: Sequence[Int], w: Writer) -> list[Int]:
        """Of the elements as they come: one behind the other; 0 where they repeat."""
        found: list[Int] = []
        step: Int = 1
        for n, s in zip(reversed(extents), reversed(self.strides), strict=True):
            found.append(step if s else 0)
            step = w.mul(step, n) if s else step
        return found[::-1]

    def _repeat_outer(
        self, w: Writer, to: Value, source: Value, extents: Sequence[Int], held: Sequence[Int]
    ) -> None:
        """All these axes, of which the innermost changes the element: pieces are whole runs."""
        steps: list[Int] = []
        step: Int = 1
        for n in reversed(extents):
            steps.append(step)
            step = w.mul(step, n)
        axes = [Axis(n, d, s) for n, d, s in zip(extents, reversed(steps), held, strict=True)]
        strided_copy(w, to, source, axes, self.item)

    def _side_by_side(self, w: Writer, to: Value, source: Value, many: Int) -> None:
        """`many` elements, `repeats` times one behind the other: a few first, then those as one piece."""
        size = w.mul(many, self.item)
        most = prod(self.extents[: self._own]) * self.item
        few = min(self.repeats, -(-LINE // most))
        w.copy2(to, source, size, size, 0, few)
        blocks, left = self.repeats // few - 1, self.repeats % few
        if blocks:
            whole = w.mul(size, few)
            w.copy2(w.at(to, whole), to, whole, whole, 0, blocks)
        if left:
            w.copy(w.at(to, w.mul(size, self.repeats - left)), to, w.mul(size, left))


def _product(w: Writer, extents: Sequence[Int]) -> Int:
    found: Int = 1
    for n in extents:
        found = w.mul(found, n)
    return found
