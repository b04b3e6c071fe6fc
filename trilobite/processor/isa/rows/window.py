"""Vector rows over sliding windows of [h][w][c] images: pooling and its backward, im2col and col2im.

Pooling has no border of its own (VPAD makes one). Window sums follow the stated tree over the taps, row by
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from trilobite.processor.isa.formats import F32, FLOATS, I32, INTEGERS, Array, Format
from trilobite.processor.isa.numbers import finish, widen
from trilobite.processor.isa.row import (
    VECTOR,
    Flag,
    IllegalOperands,
    Operands,
    Region,
    Row,
    each,
    operands,
    region,
)
from trilobite.processor.isa.rows.arrange import first_best, tree

ANY = each(*FLOATS, *INTEGERS)
POOL = "run:h,w,c,kh,kw,sh,sw"
IM2COL = "run:h,w,c,kh,kw,sh,sw,dh,dw,top,bottom,left,right"


def extent(size: int, kernel: int, stride: int, dilation: int = 1) -> int:
    """Windows that fit along one axis."""
    if min(size, kernel, stride, dilation) < 1:
        raise IllegalOperands(
            f"size {size}, window {kernel}, stride {stride}, dilation {dilation}: all must be at least 1"
        )
    reach = dilation * (kernel - 1) + 1
    if reach > size:
        raise IllegalOperands(f"a window that reaches over {reach} does not fit into {size}")
    return (size - reach) // stride + 1


def pooled(o: Operands) -> tuple[int, int, int]:
    return extent(o.h, o.kh, o.sh), extent(o.w, o.kw, o.sw), o.c


def taps(
    kh: int, kw: int, sh: int, sw: int, dh: int, dw: int, p: int, q: int
) -> Iterator[tuple[slice, slice]]:
    """For every tap, in order, the rows and columns of the image that it sees."""
    for r in range(kh):
        for s in range(kw):
            top, left = r * dh, s * dw
            yield slice(top, top + (p - 1) * sh + 1, sh), slice(left, left + (q - 1) * sw + 1, sw)


def _windows(o: Operands, a: Array) -> Array:
    """[p][q][c][kh * kw]"""
    p, q, _ = pooled(o)
    return np.stack([a[rows, cols] for rows, cols in taps(o.kh, o.kw, o.sh, o.sw, 1, 1, p, q)], axis=-1)


def _pool(o: Operands, a: Array) -> Sequence[Array]:
    windows = _windows(o, a)
    if o.op != "avg":
        return (tree(o.f0, o.op, windows),)
    total = tree(F32, "sum", windows.astype(np.float32)) if o.f0.bits < 64 else tree(o.f0, "sum", windows)
    return (finish(o.f0, total / total.dtype.type(o.kh * o.kw)),)


def _no_average_of_integers(formats: Sequence[Format], flags: Mapping[str, str]) -> str | None:
    if flags["op"] == "avg" and formats[0] in INTEGERS:
        return "an average needs a float format"
    return None


def _pool_index(o: Operands, a: Array) -> Sequence[Array]:
    windows = _windows(o, a)
    best = first_best("argmax", windows)
    return np.take_along_axis(windows, best[..., None].astype(np.int64), axis=-1)[..., 0], best


def _unpool(o: Operands, a: Array, index: Array) -> Sequence[Array]:
    p, q, _ = pooled(o)
    wide = widen(o.f0, a)
    out = np.zeros((o.h, o.w, o.c), wide.dtype)
    if ((index < 0) | (index >= o.kh * o.kw)).any():
        raise IllegalOperands(f"an index lies outside the window of {o.kh} x {o.kw}")
    for tap, (rows, cols) in enumerate(taps(o.kh, o.kw, o.sh, o.sw, 1, 1, p, q)):
        out[rows, cols] += np.where(index == tap, wide, wide.dtype.type(0))
    return (finish(o.f0, out) if o.f0.kind == "float" else out.astype(o.f0.dtype),)


def _unpool_average(o: Operands, a: Array) -> Sequence[Array]:
    p, q, _ = pooled(o)
    share = widen(o.f0, a) / widen(o.f0, a).dtype.type(o.kh * o.kw)
    out = np.zeros((o.h, o.w, o.c), share.dtype)
    for rows, cols in taps(o.kh, o.kw, o.sh, o.sw, 1, 1, p, q):
        out[rows, cols] += share
    return (finish(o.f0, out),)


def unrolled(o: Operands) -> tuple[int, int]:
    """Output rows and columns of a padded, dilated window."""
    return (
        extent(o.h + o.top + o.bottom, o.kh, o.sh, o.dh),
        extent(o.w + o.left + o.right, o.kw, o.sw, o.dw),
    )


def im2col(o: Operands, a: Array) -> Array:
    """[p * q][kh * kw * c], zeros where a window leaves the image."""
    p, q = unrolled(o)
    framed = np.zeros((o.h + o.top + o.bottom, o.w + o.left + o.right, a.shape[2]), a.dtype)
    framed[o.top : o.top + o.h, o.left : o.left + o.w] = a
    views = [framed[rows, cols] for rows, cols in taps(o.kh, o.kw, o.sh, o.sw, o.dh, o.dw, p, q)]
    return np.stack(views, axis=2).reshape(p * q, -1)


def col2im(o: Operands, columns: Array, channels: int) -> Array:
    """The sum of what every tap gives back, taps in order."""
    p, q = unrolled(o)
    out = np.zeros((o.h + o.top + o.bottom, o.w + o.left + o.right, channels), columns.dtype)
    parts = columns.reshape(p, q, o.kh * o.kw, channels)
    for tap, (rows, cols) in enumerate(taps(o.kh, o.kw, o.sh, o.sw, o.dh, o.dw, p, q)):
        out[rows, cols] += parts[:, :, tap]
    return out[o.top : o.top + o.h, o.left : o.left + o.w]


def _col2im(o: Operands, a: Array) -> Sequence[Array]:
    image = col2im(o, widen(o.f0, a), o.c)
    return (finish(o.f0, image) if o.f0.kind == "float" else image.astype(o.f0.dtype),)


def _image(name: str) -> Callable[[Operands], Sequence[Region]]:
    return lambda o: [region(getattr(o, name), o.f0, (o.h, o.w, o.c))]


def _columns(name: str) -> Callable[[Operands], Sequence[Region]]:
    def regions(o: Operands) -> Sequence[Region]:
        p, q = unrolled(o)
        return [region(getattr(o, name), o.f0, (p * q, o.kh * o.kw * o.c))]

    return regions


def _pool_work(o: Operands) -> Mapping[str, int]:
    """Bytes that pass the lanes: every tap of every window."""
    p, q, c = pooled(o)
    return {"bytes": o.f0.bytes(p * q * c * o.kh * o.kw)}


def _column_work(o: Operands) -> Mapping[str, int]:
    p, q = unrolled(o)
    return {"bytes": o.f0.bytes(p * q * o.c * o.kh * o.kw)}


ROWS = (
    Row("VPOOL", operands("dst a " + POOL), ANY, VECTOR, "vector-window",
        "dst[p][q][c] = reduction of a over the window at (p sh, q sw)", _pool, _image("a"),
        lambda o: [region(o.dst, o.f0, pooled(o))], (Flag("op", ("max", "min", "sum", "avg")),),
        _pool_work, _no_average_of_integers),
    Row("VPOOLX", operands("dst index a " + POOL), ANY, VECTOR, "vector-window",
        "max pooling, and index (i32) = the first tap r kw + s that holds the maximum", _pool_index,
        _image("a"),
        lambda o: [region(o.dst, o.f0, pooled(o)), region(o.index, I32, pooled(o))], work=_pool_work),
    Row("VUNPOOL", operands("dst a index " + POOL), ANY, VECTOR, "vector-window",
        "dst[h][w][c] = sum of the a[p][q][c] whose index points there; the backward of VPOOLX", _unpool,
        lambda o: [region(o.a, o.f0, pooled(o)), region(o.index, I32, pooled(o))], _image("dst"),
        work=_pool_work),
    Row("VUNPOOLA", operands("dst a " + POOL), each(*FLOATS), VECTOR, "vector-window",
        "dst[h][w][c] = sum of the shares a[p][q][c] / (kh kw); the backward of average pooling",
        _unpool_average,
        lambda o: [region(o.a, o.f0, pooled(o))], _image("dst"), work=_pool_work),
    Row("VIM2COL", operands("dst a " + IM2COL), ANY, VECTOR, "vector-window",
        "dst[p q][kh kw c] = the windows of a, with border, stride and dilation",
        lambda o, a: (im2col(o, a),), _image("a"), _columns("dst"), work=_column_work),
    Row("VCOL2IM", operands("dst a " + IM2COL), ANY, VECTOR, "vector-window",
        "dst[h][w][c] = sum of the windows a[p q][kh kw c], taps in order; the backward of VIM2COL", _col2im,
        _columns("a"), _image("dst"), work=_column_work),
)  # fmt: skip
