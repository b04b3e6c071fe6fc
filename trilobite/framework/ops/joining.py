"""Joining, splitting and repeating tensors. Pieces of a split are views; joined and repeated tensors are
new.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trilobite.base import dtypes as dt
from trilobite.base.errors import ArgumentError, ShapeError
from trilobite.base.locations import user_location
from trilobite.framework.ops.axes import axes_in, axis_in, size_in, whole
from trilobite.framework.ops.meeting import as_value, astype, broadcast_to, common
from trilobite.framework.ops.registry import alias, method, op, tensor_op
from trilobite.framework.ops.shaping import handle, reshape_step
from trilobite.framework.tensor import Tensor
from trilobite.framework.views import Step
from trilobite.ir.primitive import Value
from trilobite.ir.primitives import table
from trilobite.ir.types import Affine, Dim, Shape

G = "joining"


def _given(arrays: Any, what: str) -> list[Value]:
    if isinstance(arrays, (np.ndarray, str)) or not hasattr(arrays, "__iter__"):
        raise ArgumentError(
            f"{what} of {type(arrays).__name__}", where=user_location(), expected="a list or tuple of tensors"
        )
    values = list(arrays)
    if not values:
        raise ArgumentError(f"{what} of no tensors", where=user_location(), expected="at least one")
    return common(*values)


@op(G, methods=(), plan=True)
def concat(arrays: Any, /, axis: int | None = 0) -> Value:
    """One after the other along an axis; with axis=None, all of them flattened."""
    xs = _without_nothing(_given(arrays, "concat"))
    if axis is None:
        xs, axis = [table["reshape"](x, shape=(_size(x),)) for x in xs], 0
    first = xs[0]
    a = axis_in(axis, first.ndim, "concat")
    for i, x in enumerate(xs[1:], start=1):
        if x.ndim != first.ndim or x.shape[:a] + x.shape[a + 1 :] != first.shape[:a] + first.shape[a + 1 :]:
            raise ShapeError(
                f"concat along axis {a} of shapes {tuple(first.shape)} and, as number {i}, {tuple(x.shape)}",
                where=user_location(),
                expected=f"equal sizes in every axis but axis {a}",
                remedy="choose another axis, or pad or cut to equal sizes; tb.stack joins along a new axis",
            )
    return table["concatenate"](*xs, axis=a)


def _without_nothing(xs: list[Value]) -> list[Value]:
    """Without empty lines, which PyTorch joins to tensors of any shape: caches begin as `tensor([])`."""
    return [x for x in xs if x.shape != (0,)] or xs[:1] if any(x.ndim != 1 for x in xs) else xs


def _size(x: Value) -> Dim:
    from trilobite.ir.types import size_of

    return size_of(x.shape)


@op(G, methods=(), plan=True)
def stack(arrays: Any, /, axis: int = 0) -> Value:
    """One after the other along a new axis."""
    xs = _given(arrays, "stack")
    shape = xs[0].shape
    for i, x in enumerate(xs):
        if x.shape != shape:
            raise ShapeError(
                f"stack: tensor 0 has shape {tuple(shape)}, tensor {i} has shape {tuple(x.shape)}",
                where=user_location(),
                expected="equal shapes",
                remedy="tb.concat joins along an axis that is there",
            )
    a = axis_in(axis, len(shape) + 1, "stack")
    slabs = [table["reshape"](x, shape=(*shape[:a], 1, *shape[a:])) for x in xs]
    return table["concatenate"](*slabs, axis=a)


@op(G, methods=(), plan=True)
def hstack(arrays: Any, /) -> Value:
    """Joined along the second axis; along the first for vectors."""
    xs = [table["reshape"](x, shape=(1,)) if x.ndim == 0 else x for x in _given(arrays, "hstack")]
    return concat(xs, axis=0 if xs[0].ndim == 1 else 1)


@op(G, methods=(), plan=True)
def vstack(arrays: Any, /) -> Value:
    """Joined along the first axis; vectors become rows."""
    xs = [table["reshape"](x, shape=(1, _size(x))) if x.ndim < 2 else x for x in _given(arrays, "vstack")]
    return concat(xs, axis=0)


# -- splitting -------------------------------------------------------------------------------------------


def slice_step(shape: Shape, axis: int, start: Dim, stop: Dim) -> Step:
    """From start to stop along one axis."""
    n = len(shape)
    return table["slice"], {
        "start": tuple(start if i == axis else 0 for i in range(n)),
        "stop": tuple(stop if i == axis else d for i, d in enumerate(shape)),
        "step": (1,) * n,
    }


def _fixed(x: Tensor, axis: int, what: str) -> int:
    size = x.shape[axis]
    if isinstance(size, Affine):
        raise ShapeError(
            f"{what} along the symbolic size {size}",
            where=user_location(),
            expected="a size that is a number",
        )
    return size


def _pieces(x: Tensor, axis: int, ends: Sequence[int]) -> tuple[Tensor, ...]:
    starts = (0, *ends[:-1])
    shape = x.shape
    return tuple(x._through(slice_step(shape, axis, s, max(s, e))) for s, e in zip(starts, ends, strict=True))


@tensor_op(G, methods=("unstack", "unbind"), view=True)
def unstack(x: Any, /, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, as views without it."""
    x = handle(x)
    a = axis_in(axis, x.ndim, "unstack")
    shape = x.shape
    rest = reshape_step((*shape[:a], *shape[a + 1 :]))
    return tuple(x._through(slice_step(shape, a, i, i + 1), rest) for i in range(_fixed(x, a, "unstack")))


@tensor_op(G, view=True)
def split(x: Any, /, sizes: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Pieces of one size (the last may be smaller), or of the sizes listed, as views."""
    x = handle(x)
    a = axis_in(axis, x.ndim, "split")
    n = _fixed(x, a, "split")
    if isinstance(sizes, (tuple, list)):
        ends = [int(e) for e in np.cumsum([int(s) for s in sizes])]
        if not ends or ends[-1] != n or min(sizes) < 0:
            raise ShapeError(
                f"split of axis {a}, which has size {n}, into {list(sizes)}",
                where=user_location(),
                expected=f"sizes that add up to {n}",
            )
        return _pieces(x, a, ends)
    if sizes < 1:
        raise ArgumentError(
            f"split into pieces of size {sizes}", where=user_location(), expected="a size of at least 1"
        )
    return _pieces(x, a, [min(n, e) for e in range(sizes, max(n, 1) + sizes, sizes)])


@tensor_op(G, view=True)
def chunk(x: Any, /, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most this many pieces of equal size (the last may be smaller), as views."""
    x = handle(x)
    a = axis_in(axis, x.ndim, "chunk")
    if chunks < 1:
        raise ArgumentError(f"chunk into {chunks} pieces", where=user_location(), expected="at least 1")
    return split(x, max(1, -(-_fixed(x, a, "chunk") // chunks)), a)


@tensor_op(G, view=True)
def tensor_split(x: Any, /, sections: Any, axis: int = 0) -> tuple[Tensor, ...]:
    """Exactly this many pieces, sizes as equal as can be; or pieces that end at the places listed."""
    x = handle(x)
    a = axis_in(axis, x.ndim, "tensor_split")
    n = _fixed(x, a, "tensor_split")
    sections = sections.tolist() if isinstance(sections, Tensor) else sections
    if isinstance(sections, (tuple, list)):
        ends = [max(0, min(n, int(e) if e >= 0 else n + int(e))) for e in sections]
        return _pieces(x, a, [*ends, n])
    size, more = divmod(n, sections)
    ends = [int(e) for e in np.cumsum([size + (i < more) for i in range(sections)])]
    return _pieces(x, a, ends)


@method("narrow", view=True)
def narrow(x: Tensor, axis: int, start: int, length: int) -> Tensor:
    """`length` elements of one axis from `start` on, as a view."""
    a = axis_in(axis, x.ndim, "narrow")
    start, length = (whole(n, f"narrow to {n!r}") for n in (start, length))
    if not 0 <= start <= start + length <= _fixed(x, a, "narrow"):
        raise ShapeError(
            f"narrow of axis {a} to {start}:{start + length}",
            where=user_location(),
            expected=f"within 0:{x.shape[a]}",
        )
    return x._through(slice_step(x.shape, a, start, start + length))


# -- repeating -------------------------------------------------------------------------------------------


@op(G, plan=True)
def tile(x: Any, repetitions: Any = (), /, *, dims: Any = None) -> Value:
    """The whole tensor this many times along each axis, axes aligned from the right."""
    x = as_value(x)
    repetitions = repetitions if dims is None else dims
    times = tuple(repetitions) if isinstance(repetitions, (tuple, list)) else (repetitions,)
    times = tuple(map(size_in, times))
    n = max(len(times), x.ndim)
    times = (1,) * (n - len(times)) + times
    shape = (1,) * (n - x.ndim) + tuple(x.shape)
    both = tuple(d for pair in zip(times, shape, strict=True) for d in pair)
    lined = table["reshape"](x, shape=tuple(d for s in shape for d in (1, s)))
    wide = table["broadcast"](lined, shape=both, axes=tuple(range(2 * n)))
    return table["reshape"](wide, shape=tuple(t * d for t, d in zip(times, shape, strict=True)))


@op(G)
def repeat(x: Any, repeats: Any, /, *, axis: int | None = None, size: int | None = None) -> Value:
    """Each element this many times, one after the other. `repeats` may differ from element to element;
    `size` then fixes the length of the result where only a run knows it (what is missing repeats the last
    element).
    """
    x = as_value(x)
    if axis is None:
        x, axis = table["reshape"](x, shape=(_size(x),)), 0
    a = axis_in(axis, x.ndim, "repeat")
    if isinstance(repeats, (int, np.integer)):
        return _each(x, int(repeats), a)
    counts = as_value(np.asarray(repeats) if isinstance(repeats, (tuple, list)) else repeats)
    if counts.dtype not in dt.INTEGERS or counts.ndim > 1:
        raise ArgumentError(
            f"repeat by {counts.dtype}{list(counts.shape)}",
            where=user_location(),
            expected="a line of integers",
        )
    return table["gather"](x, _places(counts, x.shape[a], size), axis=a)


@op(G)
def repeat_interleave(
    x: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    size: int | None = None,
    output_size: int | None = None,
) -> Value:
    """`repeat` as PyTorch calls it: the axis may stand by its place. `output_size` is its word for `size`."""
    known = None if isinstance(repeats, int) else output_size
    return repeat(x, repeats, axis=axis, size=known if size is None else size)


def _each(x: Value, times: int, a: int) -> Value:
    if times < 0:
        raise ArgumentError(
            f"repeat {times} times", where=user_location(), expected="a number that is not negative"
        )
    shape = x.shape
    wide = table["broadcast"](
        x,
        shape=(*shape[: a + 1], times, *shape[a + 1 :]),
        axes=(*range(a + 1), *range(a + 2, len(shape) + 1)),
    )
    return table["reshape"](wide, shape=(*shape[:a], shape[a] * times, *shape[a + 1 :]))


def _places(counts: Value, n: Dim, size: int | None) -> Value:
    """Which element each place of the result repeats."""
    from trilobite.framework.ops.searching import known, place_in

    if size is None:
        numbers = known(counts, "repeat", "say how long the result is: repeat(..., size=n)")
        return np.repeat(np.arange(int(n)), numbers)
    line = table["reshape"](counts, shape=(_size(counts),))
    ends = table["cumulative"](astype(broadcast_to(line, (n,)), dt.int64), axis=0, kind="sum", reverse=False)
    return place_in(ends, table["iota"](shape=(size,), dtype=dt.int64, axis=0), right=True)


@op(G, plan=True)
def roll(x: Any, /, shift: Any, axis: Any = None) -> Value:
    """Elements moved along the axes; what leaves at the end enters at the beginning."""
    x = as_value(x)
    if axis is None:
        flat = table["reshape"](x, shape=(_size(x),))
        return table["reshape"](_rolled(flat, _one(shift), 0), shape=x.shape)
    axes = [axis_in(a, x.ndim, "roll") for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(shifts) != len(axes):
        raise ArgumentError(
            f"roll by {len(shifts)} shifts along {len(axes)} axes",
            where=user_location(),
            expected="one shift per axis",
        )
    for s, a in zip(shifts, axes, strict=True):
        x = _rolled(x, whole(s, f"roll by {s!r}"), a)
    return x


def _one(shift: Any) -> int:
    if isinstance(shift, (tuple, list)):
        if len(shift) != 1:
            raise ArgumentError(
                "roll by several shifts without axes",
                where=user_location(),
                expected="one shift",
                remedy="name the axes: axis=(...)",
            )
        shift = shift[0]
    return whole(shift, f"roll by {shift!r}")


def _rolled(x: Value, shift: int, a: int) -> Value:
    n = x.shape[a]
    cut = _cut(n, int(shift))
    if cut == 0:
        return x
    (take, head), (_, tail) = slice_step(x.shape, a, 0, cut), slice_step(x.shape, a, cut, n)
    return table["concatenate"](take(x, **tail), take(x, **head), axis=a)


def _cut(n: Dim, shift: int) -> Dim:
    """How many elements leave at the beginning."""
    if isinstance(n, int):
        return -shift % n if n else 0
    if abs(shift) > n:  # or an error that says which sizes decide it
        raise ArgumentError(
            f"roll by {shift} along {n} elements", where=user_location(), expected=f"at most {n}",
            remedy="tighten the bounds of the symbolic dimension",
        )  # fmt: skip
    return -shift if shift <= 0 else n - shift


@op(G, plan=True)
def rot90(x: Any, /, k: int = 1, axis: Any = (0, 1)) -> Value:
    """Turned by k quarters in the plane of two axes, from the first towards the second."""
    x = as_value(x)
    a, b = axes_in(axis, x.ndim, "rot90")
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    turn = table["transpose"]
    quarter = whole(k, f"rot90 by {k!r} quarters") % 4
    if quarter == 2:
        return table["reverse"](x, axes=tuple(sorted((a, b))))
    if quarter == 1:
        return turn(table["reverse"](x, axes=(b,)), axes=tuple(order))
    return table["reverse"](turn(x, axes=tuple(order)), axes=(b,)) if quarter == 3 else x


@op(G, plan=True)
def pad(x: Any, /, width: Any, *, value: Any = 0) -> Value:
    """`value` added around: `width` elements on every side, or ((before, after), ...) per axis. Negative
    widths crop.
    """
    x = as_value(x)
    pairs = (
        [(width, width)] * x.ndim
        if isinstance(width, int)
        else [tuple(w) if isinstance(w, (tuple, list)) else (w, w) for w in width]
    )
    if len(pairs) == 1:
        pairs = pairs * x.ndim
    if len(pairs) != x.ndim:
        raise ShapeError(
            f"pad by {width} of a tensor with {x.ndim} dimensions",
            where=user_location(),
            expected="one (before, after) per axis",
        )
    low, high = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
    return table["pad"](x, low=low, high=high, between=(0,) * x.ndim, value=value)


alias("cat", "concat")
alias("concatenate", "concat")
alias("unbind", "unstack")
