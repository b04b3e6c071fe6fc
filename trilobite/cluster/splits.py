"""How a layer's parameter lies in the whole one that one process has.

A module whose parameters are parts says so by `splits()`: for its own parameters, by attribute, the steps
from the part to the whole. Layers of this package do; those that you write may. Checkpoints and copies follow
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from trilobite.cluster import collectives as c
from trilobite.cluster.groups import Group, part_of
from trilobite.framework.nn.module import Module
from trilobite.framework.tensor import Tensor

Array = np.ndarray[Any, Any]


class Step(Protocol):
    """One step from a part to something larger, and back."""

    def shape(self, part: tuple[int, ...]) -> tuple[int, ...]:
        """What the whole of a part of this shape has."""

    def whole(self, part: Array) -> Array:
        """A collective of those who share it."""

    def part(self, whole: Array) -> Array: ...


class Split(NamedTuple):
    """Members share a tensor along an axis, each of so many equal blocks alone. `line`: its elements are one
    line, of a tensor of this shape.
    """

    group: Group
    axis: int
    size: int
    blocks: int = 1
    line: tuple[int, ...] | None = None

    def shape(self, part: tuple[int, ...]) -> tuple[int, ...]:
        if self.line is not None:
            return self.line
        return tuple(self.size if i == self.axis % len(part) else d for i, d in enumerate(part))

    def whole(self, part: Array) -> Array:
        rows = np.moveaxis(part, self.axis, 0)
        stacked = rows.reshape((self.blocks, rows.shape[0] // self.blocks, *rows.shape[1:]))
        joined = c.all_gather(stacked, 1, group=self.group, size=self.size // self.blocks).numpy()
        out = np.moveaxis(joined.reshape((self.size, *joined.shape[2:])), 0, self.axis)
        return np.ascontiguousarray(out if self.line is None else out.reshape(self.line))

    def part(self, whole: Array) -> Array:
        rows = whole.reshape(-1) if self.line is not None else whole
        each = self.size // self.blocks
        begin, end = part_of(each, self.group)
        at = [r for b in range(self.blocks) for r in range(b * each + begin, b * each + end)]
        return np.ascontiguousarray(rows.take(at, axis=self.axis))


class Turned:
    """The layer keeps the transpose."""

    def shape(self, part: tuple[int, ...]) -> tuple[int, ...]:
        return part[::-1]

    def whole(self, part: Array) -> Array:
        return np.ascontiguousarray(part.T)

    def part(self, whole: Array) -> Array:
        return np.ascontiguousarray(whole.T)


class Steps(tuple[Step, ...]):
    """From a part to the whole, in this order; none: it is whole."""

    def shape(self, part: Sequence[Any]) -> tuple[int, ...]:
        found = tuple(int(d) for d in part)
        for step in self:
            found = step.shape(found)
        return found

    def whole(self, part: Array) -> Array:
        for step in self:
            part = step.whole(part)
        return part

    def part(self, whole: Array) -> Array:
        for step in reversed(self):
            whole = step.part(whole)
        return whole


def steps_of(module: Module) -> dict[int, Steps]:
    """The steps of every parameter that is a part, by its id, as the modules that own them say."""
    found: dict[int, Steps] = {}
    for m in module.modules():
        said = getattr(m, "splits", None)
        if said is None:
            continue
        for name, steps in said().items():
            p = getattr(m, name)
            if isinstance(p, Tensor):
                found[id(p)] = Steps(steps)
    return found
