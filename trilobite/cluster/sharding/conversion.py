"""From one placement to another: which collectives, in which order, and what they cost.

Enters: a value's whole type, where it lies and where it should. Leaves: steps, each a primitive with its
attributes; all ranks get the same steps but for the sizes of their parts. What moves no data (taking one's
part of a whole value) is a slice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from trilobite.cluster.exchanges import SMALL
from trilobite.cluster.groups import parts
from trilobite.cluster.sharding.placements import (
    Coordinates,
    Entry,
    Placement,
    canonical,
    count_parts,
    local_type,
    own_range,
    ranges,
)
from trilobite.ir.graph import Equation
from trilobite.ir.types import TensorType, size_of

TURNS = (-1,)  # among groups: micro-batches, which come one after another on the same rank (`micro.py`)


def marks(e: Equation) -> bool:
    """Do micro-batches meet here, or part?"""
    return TURNS in members(e) or "micros" in e.attributes or "first" in e.attributes


def members(e: Equation) -> tuple[tuple[int, ...], ...]:
    """The groups of a collective; none of other equations (those of a convolution are a number)."""
    found: Any = e.attributes.get("groups", ())
    return found if isinstance(found, tuple) else ()


class Link(NamedTuple):
    """Seconds to begin a message, and bytes a second."""

    latency: float
    bandwidth: float


@dataclass(frozen=True)
class Costs:
    """What a search weighs: seconds to begin a message, bytes and operations a second."""

    latency: float = 2e-5
    bandwidth: float = 4e9
    flops: float = 5e10
    memory: float = 1e10  # bytes a second through a rank's memory
    sides: tuple[Link, ...] = ()  # per side of the mesh, where they differ

    def link(self, sides: Sequence[int]) -> Link:
        """The slowest of those that a collective along these sides uses."""
        found = [self.sides[a] for a in sides] if self.sides else []
        return min(found, key=lambda s: s.bandwidth, default=Link(self.latency, self.bandwidth))

    def collective(self, name: str, nbytes: float, n: int, sides: Sequence[int] = ()) -> float:
        """Seconds of one collective on `nbytes`, the whole operand or result, over n ranks."""
        if n == 1:
            return 0.0
        link = self.link(sides)
        begun = exchanges(name, nbytes, n) * math.ceil(math.log2(n)) * link.latency
        return begun + moved(name, nbytes, n) / link.bandwidth


def exchanges(name: str, nbytes: float, n: int) -> int:
    """How often members wait for each other: for the word that tells what each is about to do, which carries
    few bytes with it, for data, and for what comes of it.
    """
    if nbytes / (n if name == "cluster_all_gather" else 1) <= SMALL:
        return 1
    return 3 if name == "cluster_all_reduce" else 2


def moved(name: str, nbytes: float, n: int) -> float:
    """Bytes that each rank sends when n of them handle `nbytes`: an operand that all have (sums), or the
    whole that they make together (gathers, exchanges).
    """
    if name == "cluster_permute":
        return nbytes
    share = nbytes * (n - 1) / n
    return {"cluster_all_reduce": 2 * share, "cluster_all_to_all": share / n}.get(name, share)


class Step(NamedTuple):
    """One equation on the way, what the value is afterwards, and what it costs."""

    primitive: str
    attributes: dict[str, Any]
    placement: Placement
    sides: tuple[int, ...]  # along which ranks talk; none for slices
    nbytes: float  # that each rank sends
    seconds: float


@cache
def groups_along(mesh: tuple[int, ...], sides: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    """The ranks that differ along these sides alone, as a partition of all ranks."""
    outer = [i for i in range(len(mesh)) if i not in sides]
    box = np.arange(int(np.prod(mesh))).reshape(mesh).transpose(*outer, *sides)
    rows = box.reshape(-1, int(np.prod([mesh[i] for i in sides])))
    return tuple(tuple(map(int, row)) for row in rows)


class Converter:
    """All conversions of one rank of a mesh. `groups` may be left out where nothing will run."""

    turns: frozenset[int] = frozenset()  # sides along which parts come one after another: `micro.py`

    def __init__(self, mesh: tuple[int, ...], at: Coordinates, costs: Costs, on_paper: bool = False) -> None:
        self.mesh, self.at, self.costs = mesh, at, costs
        self._seconds: dict[Any, float] = {}
        self.groups: Callable[[tuple[int, ...]], Any] = (
            (lambda sides: ((0,),)) if on_paper else (lambda sides: groups_along(mesh, sides))
        )

    def steps(self, t: TensorType, source: Placement, target: Placement) -> list[Step]:
        """From one placement to another, reductions first."""
        out: list[Step] = []
        now = self._reduced(t, source, target, out)
        now = self._exchanged(t, now, target, out)
        now = self._gathered(t, now, target, out)
        if _cuts(now) != _cuts(target):
            now = self._sliced(t, now, target, out)
        self._made_partial(t, now, target, out)
        return out

    def seconds(self, t: TensorType, source: Placement, target: Placement) -> float:
        key = t, source, target
        if key not in self._seconds:
            self._seconds[key] = sum(s.seconds for s in self.steps(t, source, target))
        return self._seconds[key]

    def _local(self, t: TensorType, p: Placement) -> TensorType:
        return local_type(t, p, self.mesh, self.at)

    def _bytes(self, t: TensorType, p: Placement) -> float:
        """Of a part of average size: what is decided here must be decided alike on all ranks."""
        n = 1
        for a, entry in enumerate(p.axes):
            n *= self.mesh[a] if type(entry) is int else 1
        return float(size_of(t.shape)) * t.dtype.itemsize / n

    def _step(
        self, name: str, sides: tuple[int, ...], after: Placement, nbytes: float, **attributes: Any
    ) -> Step:
        n = int(np.prod([self.mesh[a] for a in sides]))
        seconds, sent = self.costs.collective(name, nbytes, n, sides), moved(name, nbytes, n)
        return Step(name, {"groups": self.groups(sides), **attributes}, after, sides, sent, seconds)

    # -- partial sums ----------------------------------------------------------------------------------------

    def _reduced(self, t: TensorType, now: Placement, target: Placement, out: list[Step]) -> Placement:
        left = [a for a in now.partials if target.axes[a] != now.axes[a]]
        for a in list(left):
            if now.axes[a] == "sum" and self._can_scatter(t, now, target, a):
                now = self._scattered(t, now, target, a, out)
                left.remove(a)
        for op in ("sum", "prod", "max", "min"):
            sides = tuple(a for a in left if now.axes[a] == op)
            if sides:
                after = now
                for a in sides:
                    after = after.with_axis(a, None)
                nbytes = self._bytes(t, now)
                out.append(self._step("cluster_all_reduce", sides, after, nbytes, op=op, shared=False))
                now = after
        return now

    def _can_scatter(self, t: TensorType, now: Placement, target: Placement, a: int) -> bool:
        """Is the dimension that this side is to split so far split by the sides before it alone?"""
        d = target.axes[a]
        if type(d) is not int:
            return False
        before = tuple(b for b in target.splits(d) if b < a)
        return now.splits(d) == before and (not before or now.units[d] == target.units[d])

    def _scattered(
        self, t: TensorType, now: Placement, target: Placement, a: int, out: list[Step]
    ) -> Placement:
        d = target.axes[a]
        assert type(d) is int
        units = (*now.units[:d], target.units[d], *now.units[d + 1 :])
        after = Placement(now.with_axis(a, d).axes, units)
        sizes = self._sizes(t, after, d, a)
        own = None if sizes is None else self.at[a]
        nbytes = self._bytes(t, now)
        out.append(self._step("cluster_reduce_scatter", (a,), after, nbytes, axis=d, sizes=sizes, part=own))
        return after

    def _sizes(self, t: TensorType, p: Placement, d: int, a: int) -> tuple[int, ...] | None:
        """How much of a dimension each rank along the innermost side that splits it has; None if equal."""
        outer = [b for b in p.splits(d) if b < a]
        r = own_range(t.shape[d], p.units[d], [self.mesh[b] for b in outer], [self.at[b] for b in outer])  # type: ignore[arg-type]
        each = tuple(k * p.units[d] for k in parts(r.size // p.units[d], self.mesh[a]))
        return None if len(set(each)) == 1 else each

    # -- splits ----------------------------------------------------------------------------------------------

    def _exchanged(self, t: TensorType, now: Placement, target: Placement, out: list[Step]) -> Placement:
        """A side that splits another dimension than before, all to all where everything divides."""
        for a, (have, want) in enumerate(zip(now.axes, target.axes, strict=True)):
            if type(have) is not int or type(want) is not int or have == want:
                continue
            after = now.with_axis(a, want)
            units = (*after.units[:want], target.units[want], *after.units[want + 1 :])
            after = canonical(t, Placement(after.axes, units), self.mesh)
            if self._divides(t, now, have, a) and self._divides(t, after, want, a):
                nbytes = self._bytes(t, now.with_axis(a, None))
                out.append(self._step("cluster_all_to_all", (a,), after, nbytes, split=want, join=have))
                now = after
        return now

    def _divides(self, t: TensorType, p: Placement, d: int, a: int) -> bool:
        innermost = p.splits(d)[-1] == a
        return innermost and p.units[d] == 1 and t.shape[d] % count_parts(p, d, self.mesh) == 0

    def _gathered(self, t: TensorType, now: Placement, target: Placement, out: list[Step]) -> Placement:
        """Sides that split a dimension otherwise than they should, innermost first."""
        for d in range(len(t.shape)):
            have, want = now.splits(d), target.splits(d)
            common = 0
            if now.units[d] == target.units[d] or not have:
                while common < min(len(have), len(want)) and have[common] == want[common]:
                    common += 1
            for a in reversed(have[common:]):
                after = now.with_axis(a, None)
                sizes = self._sizes(t, now, d, a)
                nbytes = self._bytes(t, after)
                out.append(
                    self._step("cluster_all_gather", (a,), after, nbytes, axis=d, sizes=sizes, shared=False)
                )
                now = after
        return now

    def _sliced(self, t: TensorType, now: Placement, target: Placement, out: list[Step]) -> Placement:
        axes: list[Entry] = list(now.axes)
        for a, entry in enumerate(target.axes):
            if type(entry) is int:
                axes[a] = entry
        after = Placement(tuple(axes), target.units)
        have = ranges(t.shape, now, self.mesh, self.at)  # type: ignore[arg-type]
        want = ranges(t.shape, after, self.mesh, self.at)  # type: ignore[arg-type]
        attributes = {
            "start": tuple(w.begin - h.begin for w, h in zip(want, have, strict=True)),
            "stop": tuple(w.end - h.begin for w, h in zip(want, have, strict=True)),
            "step": (1,) * len(have),
        }
        out.append(Step("slice", attributes, after, (), 0.0, 0.0))
        return after

    def _made_partial(self, t: TensorType, now: Placement, target: Placement, out: list[Step]) -> None:
        """A whole value as a partial sum: the first rank along the side has it, the others have nothing."""
        for a, (have, want) in enumerate(zip(now.axes, target.axes, strict=True)):
            if have is None and want == "sum":
                now = now.with_axis(a, "sum")
                local = self._local(t, now)
                kept = self.at[a] == 0
                zeros = {"shape": local.shape, "dtype": local.dtype, "value": 0}
                out.append(Step("" if kept else "full", {} if kept else zeros, now, (), 0.0, 0.0))


def _cuts(p: Placement) -> tuple[Entry, ...]:
    return tuple(entry if type(entry) is int else None for entry in p.axes)
