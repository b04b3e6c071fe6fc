"""Who talks to whom: `Group`, and where this process stands: `rank`, `size`, `world`.

A group of a mesh is a partition of all ranks: along the axis "data" of a mesh of 2 × 2, ranks 0 and 2, and
ranks 1 and 3. Every rank names the same partition and takes part in the one tuple that holds it, so programs
are alike on all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.ir import ranks
from trilobite.ir.ranks import Groups


@dataclass(frozen=True)
class Group:
    """Ranks that do something together: each tuple of `groups` for itself."""

    groups: Groups

    @property
    def size(self) -> int:
        """How many members each of them has."""
        return len(self.groups[0])

    @property
    def members(self) -> tuple[int, ...]:
        """The ranks of this rank's own."""
        return ranks.members_of("a group", self.groups, rank())

    @property
    def index(self) -> int:
        """This rank's place among them."""
        return ranks.position(self.groups)


def rank() -> int:
    """The number of this process among all: 0 if it is the only one."""
    return _transport().rank


def size() -> int:
    """How many processes run this program together."""
    return _transport().size


def world() -> Group:
    """All ranks."""
    return Group((tuple(range(size())),))


def as_group(group: Group | None) -> Group:
    if group is None:
        return world()
    if not isinstance(group, Group):
        raise ArgumentError(
            f"a group {group!r}",
            where=user_location(),
            expected="tb.cluster.world(), an axis of a mesh (mesh['data']), or tb.cluster.Group(groups)",
        )
    return group


def traffic() -> list[Any]:
    """What this process has exchanged with others, line by line: `name`, `line`, `runs`, `bytes` of operands,
    and the seconds that it `waited`. Empty where no other process takes part.
    """
    at = _transport()
    return list(at.traffic()) if at.native else []


def _transport() -> ranks.Transport:
    from trilobite.cluster.start import started

    started()
    return ranks.transport()


def parts(size: int, n: int) -> tuple[int, ...]:
    """How many of `size` each of `n` gets, as even as can be: the first ones get one more."""
    return tuple(size // n + (k < size % n) for k in range(n))


def part_of(size: int, group: Group) -> tuple[int, int]:
    """Where this rank's part of `size` begins and ends."""
    sizes = parts(size, group.size)
    begin = sum(sizes[: group.index])
    return begin, begin + sizes[group.index]
