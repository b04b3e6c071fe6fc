"""Placements: how a tensor lies on a mesh. Along each side of the mesh it is split along one of its
dimensions, whole, or a partial sum (the tensor is the sum of what the ranks along that side have).

A dimension may be split by several sides, the first one outermost. Parts need not be equal: of `units` that
belong together, the first ranks get one more. Nothing here knows processes: a mesh is sizes and names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trilobite.cluster.groups import parts
from trilobite.ir.types import TensorType

Entry = (
    int | str | None
)  # the dimension that a side splits; None: whole; "sum", "max", "min", "prod": partial
Coordinates = tuple[int, ...]


class Placement(NamedTuple):
    """Per side of the mesh an entry, per dimension of the tensor the unit that no cut divides."""

    axes: tuple[Entry, ...]
    units: tuple[int, ...]

    def splits(self, dimension: int) -> tuple[int, ...]:
        """The sides that split a dimension, outermost first."""
        return tuple(a for a, entry in enumerate(self.axes) if type(entry) is int and entry == dimension)

    @property
    def is_whole(self) -> bool:
        return self.axes.count(None) == len(self.axes)

    @property
    def partials(self) -> tuple[int, ...]:
        return tuple(a for a, entry in enumerate(self.axes) if isinstance(entry, str))

    def with_axis(self, axis: int, entry: Entry) -> Placement:
        axes = (*self.axes[:axis], entry, *self.axes[axis + 1 :])
        return Placement(axes, self.units)

    def text(self, names: Sequence[str]) -> str:
        """For people: `data: dimension 0, model: sum`."""
        said = [
            f"{name}: {f'dimension {entry}' if type(entry) is int else entry}"
            for name, entry in zip(names, self.axes, strict=True)
            if entry is not None
        ]
        return ", ".join(said) or "whole"


def whole(sides: int, ndim: int) -> Placement:
    return Placement((None,) * sides, (1,) * ndim)


class Range(NamedTuple):
    """Where a rank's part of a dimension begins and ends."""

    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


def own_range(size: int, unit: int, sides: Sequence[int], at: Sequence[int]) -> Range:
    """The part of `size` that one rank has when sides of these lengths split it, outermost first."""
    begin, end = 0, size // unit
    for n, k in zip(sides, at, strict=True):
        each = parts(end - begin, n)
        begin += sum(each[:k])
        end = begin + each[k]
    return Range(begin * unit, end * unit)


def ranges(shape: Sequence[int], p: Placement, mesh: Sequence[int], at: Coordinates) -> list[Range]:
    """This rank's part of every dimension."""
    out = []
    for d, size in enumerate(shape):
        sides = p.splits(d)
        out.append(own_range(size, p.units[d], [mesh[a] for a in sides], [at[a] for a in sides]))
    return out


def local_type(t: TensorType, p: Placement, mesh: Sequence[int], at: Coordinates) -> TensorType:
    return TensorType(tuple(r.size for r in ranges(t.shape, p, mesh, at)), t.dtype)  # type: ignore[arg-type]


def count_parts(p: Placement, dimension: int, mesh: Sequence[int]) -> int:
    total = 1
    for a in p.splits(dimension):
        total *= mesh[a]
    return total


def is_even(size: int, unit: int, n: int) -> bool:
    """Do n parts of one size fit, cut at units?"""
    return size % n == 0 and (size // n) % unit == 0


def canonical(t: TensorType, p: Placement, mesh: Sequence[int]) -> Placement:
    """The same parts said in one way: units only where they change something, no sides of length 1."""
    axes = tuple(None if mesh[a] == 1 else entry for a, entry in enumerate(p.axes))
    clean = Placement(axes, p.units)
    units = []
    for d, size in enumerate(t.shape):
        n = count_parts(clean, d, mesh)
        units.append(1 if n == 1 or is_even(size, p.units[d], n) else p.units[d])  # type: ignore[arg-type]
    return Placement(axes, tuple(units))


def fits(t: TensorType, p: Placement, mesh: Sequence[int]) -> bool:
    """Does every rank get at least one unit of every dimension?"""
    return all(
        size // p.units[d] >= count_parts(p, d, mesh) and size % p.units[d] == 0
        for d, size in enumerate(t.shape)
        if p.splits(d)
    )
