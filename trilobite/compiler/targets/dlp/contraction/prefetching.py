"""The copies with which a routine prefetches for another what that finds on chip when it begins.

Enters: a kernel of the other routine's plan that only has the buffers which this takes, and what is to be
done. Leaves: copies from DRAM, or from SRAM to the cores, that nobody in this routine waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from trilobite.compiler.targets.dlp.contraction.nest import DIMS
from trilobite.compiler.targets.dlp.contraction.prefetched import WHOLE, Early
from trilobite.compiler.targets.dlp.contraction.scalars import Int
from trilobite.compiler.targets.dlp.contraction.together import SharedLoads
from trilobite.compiler.targets.dlp.contraction.walk import Point


class Prefetching(SharedLoads):
    """The part of a kernel that works for other routines."""

    filled: tuple[str, ...]
    trips: dict[str, Int]

    def _where(self, at: Point, name: str, body: Callable[[], None]) -> None:
        raise NotImplementedError

    def _load_tile(self, name: str, at: Point, share: tuple[int, int] = (0, WHOLE)) -> None:
        raise NotImplementedError

    def _load_extra(self, number: int, at: Point) -> None:
        raise NotImplementedError

    def prefetch(self, early: Early, piece: int = 0, pieces: int = 1) -> None:
        """What another routine finds when it begins, into buffers that nobody else uses meanwhile."""
        there = self.s.compare("gt", self.s.product(self.trips.values()), 0)
        self.s.when(there, partial(self._prefetch, early, piece, pieces), "early")

    def _prefetch(self, early: Early, piece: int, pieces: int) -> None:
        inside = self.plan.residences["right"].inside if self.plan.is_whole else ()
        fill = self._fill_part if "right" in self.filled else self._load_tile
        get: Callable[[str, Point], None] = partial(fill, share=early.share)
        if early.does == "give":
            get = partial(self._take, piece=piece, pieces=pieces)
        self._each(inside, dict.fromkeys(DIMS, 0), lambda at: self._where(
            at, "right", partial(get, "right", at)))  # fmt: skip
        origin = Point(dict.fromkeys(DIMS, 0), {})
        for number in early.operands if not piece else ():
            if number > 1:
                self._where(origin, "out", partial(self._load_extra, number - 2, origin))

    def _each(self, dims: Sequence[str], index: dict[str, Int], body: Callable[[Point], None]) -> None:
        """The body at every tile along these dims."""
        if not dims:
            body(Point(index, {}))
            return
        first, rest = dims[0], dims[1:]
        self.s.loop(self.trips[first], lambda n: self._each(rest, {**index, first: n}, body), "tiles")
