"""Operations that move elements about: sort, gather, scatter, filter, transpose, pad, windows.

Shapes are those of the views; what a row of the ISA wants beyond them is a keyword.
"""

from __future__ import annotations

from typing import Any

from trilobite.processor.isa.formats import I32
from trilobite.processor.lang.python.context import current
from trilobite.processor.lang.python.operations import (
    emit,
    intrinsic,
    known_size,
    need_room,
    same_format,
    same_shape,
    same_size,
    view_of,
)
from trilobite.processor.lang.python.view import View


def _axes(view: View, count: int, operation: str) -> tuple[Any, ...]:
    if view.ndim != count:
        raise current().error(
            f"{operation}: {view} has {view.ndim} axes", f"a view of {count} axes", "use .view"
        )
    return view.shape


def _index(view: View, operation: str) -> View:
    if view.fmt is not I32:
        raise current().error(f"{operation}: indices are {view.fmt.name}", "i32 indices", "use dlp.i32")
    return view


@intrinsic
def sort(dst: Any, index: Any, a: Any, descending: bool = False) -> None:
    """dst = a sorted, index = where each element came from; stable, NaN counts as the largest."""
    out, places, source = (
        view_of("dst", dst, "sort"),
        view_of("index", index, "sort"),
        view_of("a", a, "sort"),
    )
    same_size("sort", out, source)
    same_size("sort", places, source)
    flags = ("desc" if descending else "",)
    emit(
        "VSORT",
        [out, _index(places, "sort"), source.size, source],
        (same_format("sort", out, source),),
        flags,
    )


@intrinsic
def gather(dst: Any, table: Any, index: Any) -> None:
    """dst[i] = table[index[i]]; indices are i32, u8 or u16."""
    out, source, places = (
        view_of(n, v, "gather") for n, v in (("dst", dst), ("table", table), ("index", index))
    )
    same_size("gather", out, places)
    formats = (same_format("gather", out, source), places.fmt)
    emit("VGATH", [out, out.size, source, places, source.size], formats)


@intrinsic
def scatter(table: Any, a: Any, index: Any, add: bool = False) -> None:
    """table[index[i]] = a[i], or with `add` += a[i], i ascending."""
    out, source, places = (
        view_of(n, v, "scatter") for n, v in (("table", table), ("a", a), ("index", index))
    )
    same_size("scatter", source, places)
    operands = [out, source.size, source, _index(places, "scatter"), out.size]
    emit("VSCAT", operands, (same_format("scatter", out, source),), ("add" if add else "set",))


@intrinsic
def compress(dst: Any, a: Any, mask: Any) -> Any:
    """The a[i] with mask[i] != 0 move to the front of dst, zeros follow; gives how many there are."""
    out, source, chosen = (view_of(n, v, "compress") for n, v in (("dst", dst), ("a", a), ("mask", mask)))
    fmt = same_format("compress", out, source, chosen)
    same_size("compress", source, chosen)
    need_room("compress", out, *source.shape)
    return emit("VFILT", [out, source.size, source, chosen], (fmt,))[0]


@intrinsic
def transpose(dst: Any, a: Any) -> None:
    """dst[j][i] = a[i][j], or dst[b][j][i] = a[b][i][j]."""
    out, source = view_of("dst", dst, "transpose"), view_of("a", a, "transpose")
    shape = source.shape if source.ndim == 3 else (1, *_axes(source, 2, "transpose"))
    same_shape("transpose", "dst", out, (*source.shape[:-2], source.shape[-1], source.shape[-2]))
    emit("VTRANS", [out, source, *shape], (same_format("transpose", out, source),))


@intrinsic
def pad(
    dst: Any, a: Any, top: Any = 0, bottom: Any = 0, left: Any = 0, right: Any = 0, value: Any = 0
) -> None:
    """dst = a[h][w][c] with a frame of the value around it."""
    out, source = view_of("dst", dst, "pad"), view_of("a", a, "pad")
    shape = _axes(source, 3, "pad")
    h, w, c = shape
    framed = (known_sum(h, top, bottom), known_sum(w, left, right), c)
    same_shape("pad", "dst", out, framed)
    operands = [out, source, *shape, top, bottom, left, right, value]
    emit("VPAD", operands, (same_format("pad", out, source),))


@intrinsic
def mirror(dst: Any, a: Any, axis: str = "x") -> None:
    """dst = a[h][w][c] with its columns (x) or rows (y) in reverse."""
    out, source = view_of("dst", dst, "mirror"), view_of("a", a, "mirror")
    same_shape("mirror", "dst", out, source.shape)
    emit(
        "VMIRROR", [out, source, *_axes(source, 3, "mirror")], (same_format("mirror", out, source),), (axis,)
    )


@intrinsic
def reshape_filter(dst: Any, a: Any) -> None:
    """Filters dealt to 64 lanes: a[n][h][w][c], n a multiple of 64."""
    out, source = view_of("dst", dst, "reshape_filter"), view_of("a", a, "reshape_filter")
    shape = _axes(source, 4, "reshape_filter")
    same_size("reshape_filter", out, source)
    emit("VRSHF", [out, source, *shape], (same_format("reshape_filter", out, source),))


def _window(kernel: Any, stride: Any) -> list[Any]:
    kh, kw = kernel
    sh, sw = (stride, stride) if not isinstance(stride, tuple) else stride
    return [kh, kw, sh, sw]


def known_sum(*extents: Any) -> int | None:
    return sum(extents) if all(isinstance(e, int) for e in extents) else None


def windows(extent: Any, kernel: Any, stride: Any, dilation: Any = 1, border: Any = 0) -> Any:
    """How many windows fit along an axis; None where only a run knows."""
    if not all(isinstance(x, int) for x in (extent, kernel, stride, dilation, border)) or stride < 1:
        return None
    return max(0, (extent + border - dilation * (kernel - 1) - 1) // stride + 1)


def _pooled(image: View, kernel: Any, stride: Any) -> tuple[Any, ...]:
    kh, kw, sh, sw = _window(kernel, stride)
    return (windows(image.shape[0], kh, sh), windows(image.shape[1], kw, sw), image.shape[2])


@intrinsic
def pool(dst: Any, a: Any, kernel: Any, stride: Any = (1, 1), op: str = "max") -> None:
    """dst[p][q][c] = max, min, sum or avg of a[h][w][c] over windows of `kernel` at steps of `stride`."""
    out, source = view_of("dst", dst, "pool"), view_of("a", a, "pool")
    operands = [out, source, *_axes(source, 3, "pool"), *_window(kernel, stride)]
    same_shape("pool", "dst", out, _pooled(source, kernel, stride))
    emit("VPOOL", operands, (same_format("pool", out, source),), (op,))


@intrinsic
def max_pool_index(dst: Any, index: Any, a: Any, kernel: Any, stride: Any = (1, 1)) -> None:
    """Max pooling, and the first tap of each window that holds the maximum."""
    out, places, source = (view_of(n, v, "pool") for n, v in (("dst", dst), ("index", index), ("a", a)))
    operands = [out, _index(places, "pool"), source, *_axes(source, 3, "pool"), *_window(kernel, stride)]
    for name, view in (("dst", out), ("index", places)):
        same_shape("pool", name, view, _pooled(source, kernel, stride))
    emit("VPOOLX", operands, (same_format("pool", out, source),))


@intrinsic
def max_unpool(dst: Any, a: Any, index: Any, kernel: Any, stride: Any = (1, 1)) -> None:
    """The backward of max pooling: dst[h][w][c] = sum of the a whose index points there."""
    out, source, places = (view_of(n, v, "unpool") for n, v in (("dst", dst), ("a", a), ("index", index)))
    operands = [out, source, _index(places, "unpool"), *_axes(out, 3, "unpool"), *_window(kernel, stride)]
    for name, view in (("a", source), ("index", places)):
        same_shape("unpool", name, view, _pooled(out, kernel, stride))
    emit("VUNPOOL", operands, (same_format("unpool", out, source),))


@intrinsic
def avg_unpool(dst: Any, a: Any, kernel: Any, stride: Any = (1, 1)) -> None:
    """The backward of average pooling."""
    out, source = view_of("dst", dst, "unpool"), view_of("a", a, "unpool")
    operands = [out, source, *_axes(out, 3, "unpool"), *_window(kernel, stride)]
    same_shape("unpool", "a", source, _pooled(out, kernel, stride))
    emit("VUNPOOLA", operands, (same_format("unpool", out, source),))


def _unrolled(image: View, kernel: Any, stride: Any, dilation: Any, border: Any) -> list[Any]:
    dh, dw = (dilation, dilation) if not isinstance(dilation, tuple) else dilation
    return [*_axes(image, 3, "im2col"), *_window(kernel, stride), dh, dw, *border]


def _same_columns(columns: View, operands: list[Any]) -> None:
    """Columns have a row for each window, and in it all its elements."""
    h, w, c, kh, kw, sh, sw, dh, dw, top, bottom, left, right = operands[2:]
    p = windows(h, kh, sh, dh, known_sum(top, bottom))
    q = windows(w, kw, sw, dw, known_sum(left, right))
    if p is not None and q is not None:
        same_shape("im2col", "the view of windows", columns, (p * q, known_size((kh, kw, c))))


@intrinsic
def im2col(
    dst: Any, a: Any, kernel: Any, stride: Any = (1, 1), dilation: Any = (1, 1), border: Any = (0, 0, 0, 0)
) -> None:
    """dst[p q][kh kw c] = the windows of a[h][w][c]; border is (top, bottom, left, right)."""
    out, source = view_of("dst", dst, "im2col"), view_of("a", a, "im2col")
    operands = [out, source, *_unrolled(source, kernel, stride, dilation, border)]
    _same_columns(out, operands)
    emit("VIM2COL", operands, (same_format("im2col", out, source),))


@intrinsic
def col2im(
    dst: Any, a: Any, kernel: Any, stride: Any = (1, 1), dilation: Any = (1, 1), border: Any = (0, 0, 0, 0)
) -> None:
    """dst[h][w][c] = sum of the windows a[p q][kh kw c]: the backward of im2col."""
    out, source = view_of("dst", dst, "col2im"), view_of("a", a, "col2im")
    operands = [out, source, *_unrolled(out, kernel, stride, dilation, border)]
    _same_columns(source, operands)
    emit("VCOL2IM", operands, (same_format("col2im", out, source),))
