"""A mesh: ranks in a box, with a name for each side. `mesh["data"]` is the group of ranks along that side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.cluster.groups import Group, rank, size


@dataclass(frozen=True)
class Mesh:
    """Ranks 0, 1, 2, ... in a box of this shape, the last side fastest."""

    shape: tuple[int, ...]
    names: tuple[str, ...]

    def __getitem__(self, axes: str | tuple[str, ...]) -> Group:
        """The ranks that differ along these sides alone, in their order."""
        wanted = (axes,) if isinstance(axes, str) else tuple(axes)
        unknown = [name for name in wanted if name not in self.names]
        if unknown or len(set(wanted)) != len(wanted) or not wanted:
            raise ArgumentError(
                f"the sides {wanted} of a mesh", where=user_location(), expected=f"some of {self.names}"
            )
        inner = [self.names.index(name) for name in wanted]
        outer = [i for i in range(len(self.shape)) if i not in inner]
        box = np.arange(int(np.prod(self.shape))).reshape(self.shape).transpose(*outer, *inner)
        rows = box.reshape(-1, int(np.prod([self.shape[i] for i in inner])))
        return Group(tuple(tuple(map(int, row)) for row in rows))

    def size(self, name: str) -> int:
        """How many ranks there are along a side."""
        return self[name].size

    @property
    def place(self) -> dict[str, int]:
        """Where this rank stands."""
        found = np.unravel_index(rank(), self.shape)
        return dict(zip(self.names, map(int, found), strict=True))


def mesh(shape: Sequence[int], names: Sequence[str]) -> Mesh:
    """All ranks of the run in a box: `mesh((2, 2), ("data", "model"))`."""
    sides, called = tuple(int(n) for n in shape), tuple(names)
    if len(sides) != len(called) or len(set(called)) != len(called) or min(sides, default=0) < 1:
        raise ArgumentError(
            f"a mesh of {sides} with the names {called}",
            where=user_location(),
            expected="as many names as sides, each name once, sides of at least 1",
        )
    if int(np.prod(sides)) != size():
        raise ArgumentError(
            f"a mesh of {' × '.join(map(str, sides))} = {int(np.prod(sides))} ranks in a run of {size()}",
            where=user_location(),
            expected="every rank in one place of the mesh",
            remedy=f"trilobite launch -n {int(np.prod(sides))} script.py",
        )
    return Mesh(sides, called)
