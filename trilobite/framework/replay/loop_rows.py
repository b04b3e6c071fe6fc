"""Rows of inner loops (`native/ufunc_loops.py`), and the memory they work in: what rules are written with.

A value is memory with strides: reshaped, transposed, sliced and repeated values are other ways to look at the
same memory, and cost nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.axes import merged
from trilobite.ir.graph import Var
from trilobite.ir.types import TensorType
from trilobite.native.ufunc_loops import Loop, Place, Row, copying, loop_of

Array = np.ndarray[Any, Any]
_ROOM = np.empty(1 << 19, np.uint8)
"""What lies between two rows of one call. The interpreter's lock is held meanwhile, so all calls share it."""
_ALIGNED = 64


class NoLoop(Exception):
    """An equation that has no inner loop."""


class Seen(NamedTuple):
    """Memory as a value looks at it."""

    place: Place
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def is_row_major(self) -> bool:
        return all(
            d == 1 or s == t for d, s, t in zip(self.shape, self.strides, strides_of(self), strict=True)
        )

    def through(self, shape: Sequence[Any], strides: Sequence[int], offset: int = 0) -> Seen:
        at = Place(self.place.base, self.place.offset + offset)
        return Seen(at, tuple(shape), tuple(strides), self.dtype)


def strides_of(x: Any) -> tuple[int, ...]:
    """Bytes between elements of row-major memory of this shape and dtype."""
    out, size = [], x.dtype.itemsize
    for d in reversed(x.shape):
        out.append(size)
        size *= d
    return tuple(reversed(out))


class Rows:
    """Rows for one equation after the other, and the memory they work in."""

    def __init__(self, inputs: Sequence[Var], made: Sequence[Var], known: dict[Var, Array]) -> None:
        self.inputs, self.made = len(inputs), {v: i for i, v in enumerate(made)}
        self.rows: list[Row] = []
        self.fixed: list[Array] = [_ROOM]
        self.taken = 0  # bytes of the room
        self.seen: dict[Var, Seen] = {}
        for i, v in enumerate(inputs):
            self.seen[v] = self.memory(i, v.type.shape, v.type.dtype)
        for v, array in known.items():
            self.seen[v] = self.constant(array)

    @staticmethod
    def memory(base: int, shape: tuple[Any, ...], dtype: Any) -> Seen:
        x = Seen(Place(base, 0), shape, (), dtype)
        return x._replace(strides=strides_of(x))

    def constant(self, array: Array) -> Seen:
        self.fixed.append(np.ascontiguousarray(array).reshape(array.shape))
        return self.memory(self.inputs + len(self.made) + len(self.fixed) - 1, array.shape, array.dtype)

    def fresh(self, e: Var | None, shape: tuple[Any, ...], dtype: Any) -> Seen:
        """Memory for a result: the array that leaves, or some of our own."""
        if e in self.made:
            return self.memory(self.inputs + self.made[e], shape, dtype)
        at = self.taken
        self.taken += -(-math.prod(shape) * dtype.itemsize // _ALIGNED) * _ALIGNED
        if self.taken > _ROOM.nbytes:
            raise NoLoop
        return self.memory(self.inputs + len(self.made), shape, dtype)._replace(
            place=Place(self.inputs + len(self.made), at)
        )

    def placed(self, v: Var, x: Seen) -> Seen:
        """A result that leaves stands in its own array."""
        if v not in self.made or x.place.base == self.inputs + self.made[v]:
            return x
        return self.copied(x, self.fresh(v, x.shape, x.dtype))

    def copied(self, x: Seen, out: Seen) -> Seen:
        self.each(needed(copying(x.dtype.itemsize)), x, out)
        return out

    def row_major(self, x: Seen) -> Seen:
        return x if x.is_row_major else self.copied(x, self.fresh(None, x.shape, x.dtype))

    def ufunc(
        self, ufunc: np.ufunc, xs: Sequence[Seen], v: Var | None, type: TensorType | None = None
    ) -> Seen:
        type = v.type if v is not None else type
        assert type is not None
        return self.into(ufunc, xs, self.fresh(v, type.shape, type.dtype))

    def into(self, ufunc: np.ufunc, xs: Sequence[Seen], out: Seen) -> Seen:
        kinds = "".join(x.dtype.char for x in xs) + "->" + out.dtype.char
        self.each(needed(loop_of(ufunc, kinds)), *xs, out)
        return out

    def each(self, loop: Loop, *xs: Seen) -> None:
        """A loop over all elements of operands of one shape: along the longest axis, for each other place."""
        sizes, strides = merged(xs[0].shape, [x.strides for x in xs])
        if not sizes:
            sizes, strides = [1], [[0] for _ in xs]
        inner = max(range(len(sizes)), key=sizes.__getitem__)
        outer = [i for i in range(len(sizes)) if i != inner]
        steps = tuple(s[inner] for s in strides)
        for at in product(*(range(sizes[i]) for i in outer)):
            far = [sum(n * s[i] for n, i in zip(at, outer, strict=True)) for s in strides]
            places = tuple(Place(x.place.base, x.place.offset + f) for x, f in zip(xs, far, strict=True))
            self.rows.append(Row(loop, places, (sizes[inner],), steps))


def needed(loop: Loop | None) -> Loop:
    if loop is None:
        raise NoLoop
    return loop
