"""Views: typed, shaped places in a memory, as kernels hold them.

A view is an address, a format, extents and strides (in elements). Extents may be numbers or scalars that only
a run knows. Indexing with integers gives elements, slicing gives views; nothing is copied. The same class
serves kernels that are compiled and kernels that are interpreted.
"""

from __future__ import annotations

from typing import Any

from trilobite.processor.isa.formats import Format
from trilobite.processor.lang.python.context import current
from trilobite.processor.lang.python.dtypes import DType, dtype_of

Extent = Any  # int, or a scalar of the kernel; None where a pointer has no end


def product(extents: tuple[Extent, ...]) -> Extent:
    total: Extent = 1
    for extent in extents:
        total = extent if isinstance(total, int) and total == 1 else total * extent
    return total


def dense_strides(shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """Strides of a row-major block."""
    return tuple(product(shape[axis + 1 :]) for axis in range(len(shape)))


class View:
    """`packed[i]` says that axis i and the ones behind it lie without a gap."""

    __slots__ = ("address", "fmt", "packed", "shape", "space", "strides")

    def __init__(
        self,
        address: Any,
        fmt: Format,
        shape: tuple[Extent, ...],
        space: str,
        strides: tuple[Extent, ...] | None = None,
        packed: tuple[bool, ...] | None = None,
    ) -> None:
        self.address, self.fmt, self.shape, self.space = address, fmt, shape, space
        self.strides = dense_strides(shape) if strides is None else strides
        self.packed = (True,) * len(shape) if packed is None else packed

    # what it is
    @property
    def dtype(self) -> DType:
        return dtype_of(self.fmt)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> Extent:
        """Elements, where the view has an end."""
        if self.shape and self.shape[0] is None:
            raise self._wrong("the pointer has no length", "a view with extents", "slice it: x[start:stop]")
        return product(self.shape)

    @property
    def nbytes(self) -> Extent:
        return bytes_of(self.fmt, self.size)

    @property
    def contiguous(self) -> bool:
        return self.trailing_dense() == 0

    def trailing_dense(self) -> int:
        """The first axis from which on everything lies without a gap."""
        axis = self.ndim
        while axis > 0 and self._dense_at(axis - 1):
            axis -= 1
        return axis

    def _dense_at(self, axis: int) -> bool:
        if axis == self.ndim - 1:
            return _is_one(self.strides[axis]) or _is_one(self.shape[axis])
        if self.packed[axis] or _is_one(self.shape[axis]):
            return True
        stride, inner, extent = self.strides[axis], self.strides[axis + 1], self.shape[axis + 1]
        known = all(isinstance(x, int) for x in (stride, inner, extent))
        return bool(known and stride == inner * extent)

    def _wrong(self, what: str, expected: str, remedy: str) -> Exception:
        return current().error(what, expected, remedy)

    def __repr__(self) -> str:
        extents = "x".join("?" if e is None else str(e) for e in self.shape)
        return f"View({self.fmt.name}[{extents}] in {self.space})"

    def __len__(self) -> int:
        if isinstance(self.shape[0], int):
            return self.shape[0]
        raise self._wrong("len() of an extent that only a run knows", "a known extent", "use view.shape[0]")

    # parts of it
    def __getitem__(self, item: Any) -> Any:
        address, shape, strides, packed = self._parts(item)
        if not shape:
            return current().load(self.fmt, address)
        return View(address, self.fmt, shape, self.space, strides, packed)

    def __setitem__(self, item: Any, value: Any) -> None:
        address, shape, _, _ = self._parts(item)
        if shape:
            raise self._wrong(
                "a whole view is assigned", "one element on the left", "use dlp.copy, dlp.fill or the like"
            )
        current().store(self.fmt, value, address)

    def _parts(self, item: Any) -> tuple[Any, tuple[Extent, ...], tuple[Extent, ...], tuple[bool, ...]]:
        items = item if isinstance(item, tuple) else (item,)
        if len(items) > self.ndim:
            raise self._wrong(
                f"{len(items)} indices for a view of {self.ndim} axes", "at most one per axis", "drop some"
            )
        offset: Extent = 0
        kept: list[tuple[Extent, Extent, bool]] = []
        gap = False  # whether an axis in front of the next one was cut
        for axis in range(self.ndim):
            index = items[axis] if axis < len(items) else slice(None)
            if not isinstance(index, slice):
                offset = _plus(offset, _times(self._place(axis, index), self.strides[axis]))
                gap = True
                continue
            start, extent, cut = self._slice(axis, index)
            offset = _plus(offset, _times(start, self.strides[axis]))
            if (cut or gap) and kept:
                kept[-1] = (*kept[-1][:2], False)
            kept.append((extent, self.strides[axis], self.packed[axis]))
            gap = False
        if gap and kept:
            kept[-1] = (*kept[-1][:2], False)
        address = current().shifted(self.address, bytes_of(self.fmt, offset))
        shape = tuple(part[0] for part in kept)
        return address, shape, tuple(part[1] for part in kept), tuple(part[2] for part in kept)

    def _slice(self, axis: int, index: slice) -> tuple[Extent, Extent, bool]:
        if index.step is not None:
            raise self._wrong("a slice with a step", "start:stop", "copy a column of a 2-D view")
        extent = self.shape[axis]
        start = 0 if index.start is None else index.start
        for edge in (start, index.stop):
            if isinstance(edge, int) and edge < 0:
                raise self._wrong("a negative slice", "places from the front", "subtract from the extent")
        if index.stop is None:
            if extent is None:
                return start, None, True
            return start, (extent - start if not _is_zero(start) else extent), not _is_zero(start)
        stop = index.stop
        if isinstance(extent, int) and isinstance(stop, int) and stop > extent:
            raise self._wrong(
                f"the slice ends at {stop}, the axis at {extent}", f"a stop up to {extent}", "cut it"
            )
        count = stop - start
        if isinstance(count, int) and count < 0:
            raise self._wrong(
                f"the slice ends {-count} before it begins", "a stop that is not before the start", "turn it"
            )
        known = isinstance(extent, int) and isinstance(stop, int)
        return start, count, not (known and _is_zero(start) and extent == stop)

    def _place(self, axis: int, index: Extent) -> Extent:
        """An index along an axis that is known to be inside; behind a pointer without end anything goes."""
        extent = self.shape[axis]
        outside = isinstance(index, int) and (index < 0 or (isinstance(extent, int) and index >= extent))
        if extent is not None and outside:
            raise self._wrong(
                f"index {index} of an axis of {extent}", "a place from the front, inside of the axis",
                "count from the front: places before 0 do not exist",
            )  # fmt: skip
        return index

    # the same elements seen otherwise
    def view(self, *shape: Extent) -> View:
        """The same bytes as a row-major block of another shape; from a pointer without end, of any shape."""
        extents = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
        if not self.contiguous and self.shape[0] is not None:
            raise self._wrong("a view with gaps cannot be reshaped", "a contiguous view", "copy it first")
        if any(isinstance(e, (str, float, View, tuple)) or e is None for e in extents):
            raise self._wrong(f"a shape of {extents}", "whole numbers", "correct it")
        known = [e for e in (*self.shape, *extents) if not isinstance(e, int)]
        if not known and product(tuple(extents)) > product(self.shape):
            raise self._wrong(
                f"{list(self.shape)} has fewer elements than {list(extents)}", "a shape that fits", "fix it"
            )
        return View(self.address, self.fmt, tuple(extents), self.space)

    reshape = view

    def cast(self, dtype: Any) -> View:
        """The same bytes as elements of another type."""
        fmt = dtype_of(dtype).fmt
        if not self.contiguous and self.shape[0] is not None:
            raise self._wrong("a view with gaps cannot be cast", "a contiguous view", "copy it first")
        if self.shape and self.shape[0] is None:
            return View(self.address, fmt, (None,), self.space)
        count = self.size * self.fmt.bits // fmt.bits
        return View(self.address, fmt, (count,), self.space)

    def numpy(self) -> Any:
        """The elements as a NumPy array of their own, in an interpreted kernel: to print and to look at."""
        if self.shape and self.shape[0] is None:
            raise self._wrong("the pointer has no length", "a view with extents", "slice it: x[start:stop]")
        return current().elements(self)

    def __add__(self, count: Any) -> View:
        """Pointer arithmetic, in elements: the view that begins that much further."""
        if isinstance(count, View):
            raise self._wrong(
                f"{self} + {count}", "a number of elements behind a view", "add views with dlp.add(dst, a, b)"
            )
        if self.ndim != 1:
            raise self._wrong("pointer arithmetic on a view with axes", "a 1-D view", "index or slice it")
        extent = None if self.shape[0] is None else self.shape[0] - count
        address = current().shifted(self.address, bytes_of(self.fmt, count))
        return View(address, self.fmt, (extent,), self.space, self.strides, self.packed)

    def __eq__(self, other: object) -> Any:
        return self is other

    __hash__ = object.__hash__


def bytes_of(fmt: Format, count: Extent) -> Extent:
    """Bytes of that many elements; two of int4 are one."""
    if fmt.bits >= 8:
        return count if fmt.bits == 8 else count * (fmt.bits // 8)
    return (count + 1) // 2


def _is_one(value: Extent) -> bool:
    return isinstance(value, int) and value == 1


def _is_zero(value: Extent) -> bool:
    return isinstance(value, int) and value == 0


def _times(a: Extent, b: Extent) -> Extent:
    if _is_one(a) or _is_zero(b):
        return b if _is_one(a) else 0
    return a if _is_one(b) else (0 if _is_zero(a) else a * b)


def _plus(a: Extent, b: Extent) -> Extent:
    return b if _is_zero(a) else a if _is_zero(b) else a + b
