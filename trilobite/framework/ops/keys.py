"""What stands in the brackets of `x[...]`, taken apart.

Enters: a key and a shape. Leaves: a `Key`, that is the view steps of its basic part (integers, slices, None,
Ellipsis) and the index arrays that remain. The rules are NumPy's: index arrays broadcast, integers beside
them count as arrays, and their axes stand where the arrays stood, or in front if a slice stood between them.
A boolean mask stands for the arrays of the places where it is true.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import IndexingError
from trilobite.base.locations import user_location
from trilobite.framework.replay.plans import is_planning, require
from trilobite.framework.tensor import Tensor
from trilobite.framework.views import Step
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.transforms.bind import Traced
from trilobite.ir.types import Affine, Dim, Shape

_FULL = slice(None)


class Key(NamedTuple):
    """The steps of the basic part; then, on what they show: (axis, indices) per index array, and where their
    axes go.
    """

    steps: tuple[Step, ...]
    arrays: tuple[tuple[int, Value], ...]
    place: int


_END = (int, type(None))
Basic = tuple[Any, ...]


def basic(key: Any) -> Basic | None:
    """A key of nothing but integers, slices between integers, None and Ellipsis, as something hashable."""
    out = []
    for e in key if type(key) is tuple else (key,):
        kind = type(e)
        if kind is slice:
            start, stop, step = e.start, e.stop, e.step
            if type(start) not in _END or type(stop) not in _END or type(step) not in _END:
                return None
            out.append((start, stop, step))
        elif kind is int or e is None or e is Ellipsis:
            out.append(e)
        else:
            return None
    return tuple(out)


@lru_cache(maxsize=4096)
def basic_steps(key: Basic, shape: Shape) -> tuple[Step, ...]:
    """The view steps of such a key; programs use few of them, over and over."""
    return plan([slice(*e) if isinstance(e, tuple) else e for e in key], shape).steps


def entries_of(key: Any) -> list[Any]:
    """The entries of a key: integers, slices, None, Ellipsis, booleans, and arrays as values."""
    return [_entry(e) for e in (key if isinstance(key, tuple) else (key,))]


def _entry(e: Any) -> Any:
    kind = type(e)
    if e is None or e is Ellipsis or kind in (int, slice, bool):
        return e
    if isinstance(e, Tensor):
        return _array(e._read())
    if isinstance(e, np.ndarray):
        return _array(e)
    if isinstance(e, (list, tuple)):
        from trilobite.framework.ops.conversion import asarray

        value = asarray(e)._read()
        return _array(value if value.shape != (0,) else np.zeros(0, np.int64))
    if isinstance(e, (bool, np.bool_)):
        return bool(e)
    try:
        return e.__index__()
    except AttributeError:
        raise IndexingError(
            f"an index of type {kind.__name__}", where=user_location(),
            expected="integers, slices, None, Ellipsis, or integer and boolean tensors",
            remedy="make it an integer: int(i), x.astype(tb.int64)",
        ) from None  # fmt: skip


def _array(v: Value) -> Value:
    if v.dtype not in dt.INTEGERS and v.dtype != dt.bool_:
        raise IndexingError(
            f"an index of {v.dtype}",
            where=user_location(),
            expected="an integer or boolean dtype",
            remedy="cast it: index.long()",
        )
    return v.astype(np.int64) if isinstance(v, np.ndarray) and v.dtype.kind == "V" else v


def is_array(e: Any) -> bool:
    """Does the entry make the result a copy? (Booleans do: they are masks.)"""
    return isinstance(e, (np.ndarray, Traced, bool))


def is_mask(e: Any) -> bool:
    return isinstance(e, bool) or (isinstance(e, (np.ndarray, Traced)) and e.dtype == dt.bool_)


def _consumes(e: Any) -> int:
    """How many axes of the tensor an entry names."""
    if e is None or e is Ellipsis or isinstance(e, bool):
        return 0
    return e.ndim if is_mask(e) else 1


def expanded(entries: Sequence[Any], ndim: int) -> list[Any]:
    """The entries with Ellipsis and missing ones written out, so that every axis is named."""
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(dots) > 1:
        raise IndexingError(
            f"{len(dots)} ellipses in one index", where=user_location(), expected="at most one '...'"
        )
    missing = ndim - sum(map(_consumes, entries))
    if missing < 0:
        raise IndexingError(
            f"{ndim - missing} indices for a tensor with {ndim} dimensions",
            where=user_location(),
            expected=f"at most {ndim}",
            remedy="leave indices away, or add an axis first: x[..., None]",
        )
    at = dots[0] if dots else len(entries)
    return [*entries[:at], *[_FULL] * missing, *entries[at + 1 :]]


def in_range(index: int, size: Dim, axis: int) -> Dim:
    """An index counted from 0; one outside is an error that says where and how."""
    if isinstance(size, Affine):
        return index if index >= 0 else size + index
    if not -size <= index < size:
        raise IndexingError(
            f"index {index} on axis {axis}, which has size {size}",
            where=user_location(),
            expected=f"{-size} <= index < {size}",
            remedy="indices count from 0, or from -1 backwards; a slice may go past the end",
        )
    return index if index >= 0 else index + size


# -- slices ----------------------------------------------------------------------------------------------


class Span(NamedTuple):
    """A slice with a step of at least 1, and whether the result is turned round."""

    start: Dim
    stop: Dim
    step: int
    turned: bool
    length: Dim


def span(s: slice, size: Dim, axis: int) -> Span:
    """A slice as the `slice` primitive takes it: a negative step reads forwards and turns round."""
    if isinstance(size, Affine):
        return _symbolic_span(s, size, axis)
    if s.step is not None and s.step.__index__() == 0:
        raise IndexingError(
            f"a slice with step 0 on axis {axis}", where=user_location(), expected="a step that is not 0"
        )
    start, stop, step = s.indices(size)
    length = len(range(start, stop, step))
    if length == 0:
        return Span(0, 0, 1, False, 0)
    if step > 0:
        return Span(start, start + (length - 1) * step + 1, step, False, length)
    last = start + (length - 1) * step
    return Span(last, start + 1, -step, True, length)


def _symbolic_span(s: slice, size: Affine, axis: int) -> Span:
    step = 1 if s.step is None else s.step.__index__()
    if step not in (1, -1) or (step == -1 and (s.start is not None or s.stop is not None)):
        raise IndexingError(
            f"a slice with step {step} of the symbolic size {size} on axis {axis}",
            where=user_location(),
            expected="step 1, or [::-1]",
        )
    start = _end(s.start, 0, size)
    stop = _end(s.stop, size, size)
    return Span(start, stop, 1, step == -1, stop - start)


def _end(end: Any, default: Dim, size: Affine) -> Dim:
    if end is None:
        return default
    if isinstance(end, Affine):
        return end
    end = int(end.__index__())
    return int(end) if end >= 0 else size + end


# -- the whole key ---------------------------------------------------------------------------------------


def plan(entries: Sequence[Any], shape: Shape) -> Key:
    """A key as view steps and index arrays."""
    mixed = any(map(is_array, entries))
    return _Planner(shape, mixed).run(expanded(entries, len(shape)), entries)


class _Planner:
    """Walks the entries along the axes of a shape."""

    def __init__(self, shape: Shape, mixed: bool) -> None:
        self.shape, self.mixed = shape, mixed
        self.axis = 0  # the next axis of the tensor
        self.spans: list[Span] = []  # one per axis of the tensor
        self.kept: list[Dim] = []  # sizes of the axes that the steps leave
        self.arrays: list[tuple[int, Value]] = []
        self.turned: list[int] = []

    def run(self, items: Sequence[Any], entries: Sequence[Any]) -> Key:
        for e in items:
            self._add(e)
        return Key(self._steps(), tuple(self.arrays), self._place(entries))

    def _add(self, e: Any) -> None:
        if e is None:
            self.kept.append(1)
        elif isinstance(e, slice):
            self._keep(span(e, self.shape[self.axis], self.axis))
        elif isinstance(e, int) and not isinstance(e, bool):
            self._number(in_range(e, self.shape[self.axis], self.axis))
        elif is_mask(e):
            self._mask(e)
        else:
            self._index(e)

    def _keep(self, s: Span) -> None:
        if s.turned:
            self.turned.append(self.axis)
        self.spans.append(s)
        self.kept.append(s.length)
        self.axis += 1

    def _whole(self) -> int:
        """The next axis as it is; returns its place among those kept."""
        size = self.shape[self.axis]
        self._keep(Span(0, size, 1, False, size))
        return len(self.kept) - 1

    def _number(self, index: Dim) -> None:
        if self.mixed:
            self.arrays.append((self._whole(), np.asarray(index)))
            return
        self.spans.append(Span(index, index + 1, 1, False, 1))
        self.axis += 1

    def _index(self, indices: Value) -> None:
        size, axis = self.shape[self.axis], self.axis
        self.arrays.append((self._whole(), counted(indices, size, axis)))

    def _mask(self, mask: Any) -> None:
        if isinstance(mask, bool) or mask.ndim == 0:
            self.kept.append(1)  # a mask without axes takes all of x, or nothing, along a new axis
            found = np.zeros(1 if known_mask(mask) else 0, np.int64)
            self.arrays.append((len(self.kept) - 1, found))
            return
        check_mask(mask, self.shape[self.axis : self.axis + mask.ndim], self.axis)
        for line in np.nonzero(known_mask(mask)):
            self.arrays.append((self._whole(), line))

    def _steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        start, stop = tuple(s.start for s in self.spans), tuple(s.stop for s in self.spans)
        step = tuple(s.step for s in self.spans)
        if any(s != 0 for s in start) or stop != self.shape or any(s != 1 for s in step):
            steps.append((table["slice"], {"start": start, "stop": stop, "step": step}))
        if self.turned:
            steps.append((table["reverse"], {"axes": tuple(self.turned)}))
        if tuple(self.kept) != tuple(s.length for s in self.spans):
            steps.append((table["reshape"], {"shape": tuple(self.kept)}))
        return tuple(steps)

    def _place(self, entries: Sequence[Any]) -> int:
        """Where the axes of the index arrays go: where the arrays stood if they stood side by side, else in
        front.
        """
        if not self.arrays:
            return 0
        at = [i for i, e in enumerate(entries) if is_array(e) or (isinstance(e, int) and self.mixed)]
        return self.arrays[0][0] if at[-1] - at[0] + 1 == len(at) else 0


def check_mask(mask: Value, shape: Shape, axis: int) -> None:
    for i, (m, d) in enumerate(zip(mask.shape, shape, strict=True)):
        if m not in (d, 0):
            raise IndexingError(
                f"a boolean mask of size {m} on axis {axis + i}, which has size {d}", where=user_location(),
                expected=f"a mask of shape {tuple(shape)} there",
            )  # fmt: skip


def known_mask(mask: Any) -> np.ndarray[Any, Any]:
    from trilobite.framework.ops.searching import known

    if isinstance(mask, bool):
        return np.asarray(mask)
    return known(
        mask, "indexing with a boolean mask", "tb.where(mask, x, 0), or tb.masked_select(x, mask, size=n)"
    )


def counted(indices: Value, size: Dim, axis: int) -> Value:
    """Indices counted from 0. Known ones must be in range; those that only a run knows are clamped to it."""
    if isinstance(indices, np.ndarray) and not isinstance(size, Affine):
        wide = indices if indices.dtype == dt.uint64 else indices.astype(np.int64)
        if wide.size:
            low, high = int(wide.min()), int(wide.max())
            in_range(high if high >= size else low, size, axis)
        wide = wide.astype(np.int64)
        return np.where(wide < 0, wide + size, wide)
    wide = indices if indices.dtype == dt.int64 else table["cast"](indices, dtype=dt.int64)
    zero = table["full"](shape=wide.shape, dtype=dt.int64, value=0)
    if isinstance(size, Affine):
        ones = table["full"](shape=(size,), dtype=dt.int64, value=1)
        n = table["reduce_sum"](ones, axes=(0,))
        extent = table["broadcast"](n, shape=wide.shape, axes=())
    else:
        extent = table["full"](shape=wide.shape, dtype=dt.int64, value=size)
    negative = table["lt"](wide, zero)
    if is_planning():
        low = table["neg"](extent) if indices.dtype != dt.uint64 else zero
        require(table["and"](table["ge"](wide, low), table["lt"](wide, extent)))
    return table["select"](negative, table["add"](wide, extent), wide)
