"""Vector rows that combine or move elements: reductions, scan, sort, gather and scatter, pooling,
transpose, pad.

A reduction of n values has one stated tree: values are padded with the neutral element to a power of two,
then the upper half is combined into the lower half until one is left. Floats below 32 bits are combined in
float32.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from trilobite.processor.isa.formats import F32, FLOATS, I32, INTEGERS, U8, U16, Array, Format
from trilobite.processor.isa.numbers import finish, integer_range, widen
from trilobite.processor.isa.row import VECTOR, Flag, IllegalOperands, Operands, Region, Row, operands, region
from trilobite.processor.isa.rows.vector import ANY, vectors

Combine = Callable[[Array, Array], Array]


def larger(a: Array, b: Array) -> Array:
    """NaN wins, and +0 is larger than -0."""
    tie = (a == b) & (np.signbit(b) if b.dtype.kind == "f" else False)
    return np.where((a > b) | (a != a) | tie, a, b)


def smaller(a: Array, b: Array) -> Array:
    tie = (a == b) & (np.signbit(a) if a.dtype.kind == "f" else False)
    return np.where((a < b) | (a != a) | tie, a, b)


COMBINE: dict[str, Combine] = {"sum": np.add, "prod": np.multiply, "max": larger, "min": smaller}
REDUCTIONS = ("sum", "max", "min", "prod", "argmax", "argmin")


def neutral(fmt: Format, kind: str, wide: np.dtype[Any]) -> Array:
    """The element that changes nothing: -0 for a float sum, so that negative zeros keep their sign."""
    if fmt.kind == "float":
        return np.array({"sum": -0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[kind], wide)
    low, high = integer_range(fmt)
    return np.array({"sum": 0, "prod": 1, "max": low, "min": high}[kind], wide)


def tree(fmt: Format, kind: str, x: Array) -> Array:
    """The stated tree over the last axis; the result is in the format."""
    wide = widen(fmt, x)
    length = wide.shape[-1]
    width = 1 << max(length - 1, 0).bit_length()
    fill = np.broadcast_to(neutral(fmt, kind, wide.dtype), (*wide.shape[:-1], width - length))
    values = np.concatenate([wide, fill], axis=-1)
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = COMBINE[kind](values[..., :half], values[..., half:])
    result = values[..., 0]
    return finish(fmt, result) if fmt.kind == "float" else result.astype(fmt.dtype)


def first_best(kind: str, x: Array) -> Array:
    """The first place of the largest or smallest value; the first NaN, if there is one."""
    number = x.astype(np.float64) if x.dtype.kind not in "iu" else x
    best = np.argmax(number, axis=-1) if kind == "argmax" else np.argmin(number, axis=-1)
    return np.asarray(best, np.int32)


def _nonempty(length: int) -> None:
    if length < 1:
        raise IllegalOperands("an arg-reduction of no elements has no result")


def _reduce(kind: str, o: Operands, a: Array) -> Sequence[Array]:
    return (tree(o.f0, kind, a).reshape(1),)


def _reduction(mnemonic: str, kind: str, line: str) -> Row:
    return Row(mnemonic, operands("dst n a"), ANY, VECTOR, "vector-reduce", line, partial(_reduce, kind),
               vectors("a"), lambda o: [region(o.dst, o.f0, (1,))])  # fmt: skip


def _arg(kind: str, o: Operands, a: Array) -> Sequence[Array]:
    _nonempty(o.n)
    return (first_best(kind, a).reshape(1),)


def _arg_row(mnemonic: str, kind: str, line: str) -> Row:
    return Row(mnemonic, operands("dst n a"), ANY, VECTOR, "vector-reduce", line, partial(_arg, kind),
               vectors("a"), lambda o: [region(o.dst, I32, (1,))])  # fmt: skip


def _axis_reduce(o: Operands, a: Array) -> Sequence[Array]:
    values = np.moveaxis(a, 1, -1)
    if o.op.startswith("arg"):
        _nonempty(o.length)
        return (first_best(o.op, values),)
    return (tree(o.f0, o.op, values),)


def _axis_out(o: Operands) -> Sequence[Region]:
    return [region(o.dst, I32 if o.op.startswith("arg") else o.f0, (o.outer, o.inner))]


def _dot(o: Operands, a: Array, b: Array) -> Sequence[Array]:
    products = widen(o.f0, a) * widen(o.f0, b)
    if o.f0.kind != "float" or o.f0.bits >= 32:
        return (tree(o.f0, "sum", products.astype(o.f0.dtype)).reshape(1),)
    return (finish(o.f0, tree(F32, "sum", products)).reshape(1),)


def _scan(o: Operands, a: Array) -> Sequence[Array]:
    """Sums from the first element on, one after the other."""
    wide = np.add.accumulate(widen(o.f0, a), dtype=widen(o.f0, a).dtype)
    return (finish(o.f0, wide) if o.f0.kind == "float" else wide.astype(o.f0.dtype),)


def _sort(o: Operands, a: Array) -> Sequence[Array]:
    """Stable; NaN counts as the largest value."""
    key = a.astype(np.float64) if a.dtype.kind not in "iu" else a
    if o.order == "desc":
        order = (o.n - 1 - np.argsort(key[::-1], kind="stable"))[::-1]
    else:
        order = np.argsort(key, kind="stable")
    return a[order], order.astype(np.int32)


def _indices(index: Array, limit: int) -> Array:
    places = index.astype(np.int64)
    wrong = (places < 0) | (places >= limit)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise IllegalOperands(f"index {int(places[at])} at place {at} is outside a table of {limit} elements")
    return places


def _gather(o: Operands, table: Array, index: Array) -> Sequence[Array]:
    if o.outside != "zero":
        return (table[_indices(index, o.m)],)
    places = index.astype(np.int64)
    inside = (places >= 0) & (places < o.m)
    out = np.zeros(places.shape, table.dtype)
    out[inside] = table[places[inside]]
    return (out,)


def _gather_reads(o: Operands) -> Sequence[Region]:
    return [region(o.table, o.f0, (o.m,)), region(o.index, o.f1, (o.n,))]


def _scatter(o: Operands, table: Array, values: Array, index: Array) -> Sequence[Array]:
    """In ascending order of the source, so the last of equal indices stands, and sums are one chain."""
    places = _indices(index, o.m)
    if o.op == "set":
        out = table.copy()
        out[places] = values
        return (out,)
    wide = widen(o.f0, table).copy()
    np.add.at(wide, places, widen(o.f0, values))
    return (finish(o.f0, wide) if o.f0.kind == "float" else wide.astype(o.f0.dtype),)


def _scatter_reads(o: Operands) -> Sequence[Region]:
    return [region(o.table, o.f0, (o.m,)), region(o.a, o.f0, (o.n,)), region(o.index, I32, (o.n,))]


def _transpose(o: Operands, a: Array) -> Sequence[Array]:
    return (np.ascontiguousarray(np.swapaxes(a, 1, 2)),)


def _pad(o: Operands, a: Array) -> Sequence[Array]:
    from trilobite.processor.isa.rows.scalar import from_register

    value = from_register(o.f0, o.value)[0]
    out = np.full((o.h + o.top + o.bottom, o.w + o.left + o.right, o.c), value, a.dtype)
    out[o.top : o.top + o.h, o.left : o.left + o.w] = a
    return (out,)


def _mirror(o: Operands, a: Array) -> Sequence[Array]:
    return (np.ascontiguousarray(a[:, ::-1] if o.axis == "x" else a[::-1]),)


def _reshape_filter(o: Operands, a: Array) -> Sequence[Array]:
    """[n][hwc] to [64][n / 64][hwc]: row r of the filter goes to lane r mod 64, slot r / 64."""
    if o.count % 64:
        raise IllegalOperands(f"{o.count} filters are no multiple of the 64 lanes")
    lanes = a.reshape(o.count // 64, 64, a.shape[1])
    return (np.ascontiguousarray(np.swapaxes(lanes, 0, 1)).reshape(a.shape),)


INDEXED = tuple((fmt, index) for fmt in (*FLOATS, *INTEGERS) for index in (I32, U8, U16))
ROWS = (
    _reduction("VSUM", "sum", "dst[0] = sum of a, by the stated tree"),
    _reduction("VMAX", "max", "dst[0] = largest of a; NaN if one is NaN"),
    _reduction("VMIN", "min", "dst[0] = smallest of a; NaN if one is NaN"),
    _reduction("VPROD", "prod", "dst[0] = product of a, by the stated tree"),
    _arg_row("VARGMAX", "argmax", "dst[0] (i32) = first place of the largest of a"),
    _arg_row("VARGMIN", "argmin", "dst[0] (i32) = first place of the smallest of a"),
    Row("VREDUCE", operands("dst a run:outer,length,inner"), ANY, VECTOR, "vector-reduce",
        "dst[p][q] = reduction over j of a[p][j][q]; arg-reductions give i32", _axis_reduce,
        lambda o: [region(o.a, o.f0, (o.outer, o.length, o.inner))], _axis_out, (Flag("op", REDUCTIONS),)),
    Row("VDP", operands("dst n a b"), ANY, VECTOR, "vector-reduce",
        "dst[0] = sum of a[i] * b[i]: rounded products, then the stated tree", _dot, vectors("a", "b"),
        lambda o: [region(o.dst, o.f0, (1,))]),
    Row("VSCAN", operands("dst n a"), ANY, VECTOR, "vector-reduce",
        "dst[i] = a[0] + ... + a[i], from the left", _scan, vectors("a"), vectors("dst")),
    Row("VSORT", operands("dst index n a"), ANY, VECTOR, "vector-sort",
        "dst = a sorted, index (i32) = where each came from; stable, NaN largest", _sort, vectors("a"),
        lambda o: [region(o.dst, o.f0, (o.n,)), region(o.index, I32, (o.n,))],
        (Flag("order", ("", "desc")),)),
    Row("VGATH", operands("dst n table index m"), INDEXED, VECTOR, "vector-permute",
        "dst[i] = table[index[i]], m elements in the table; an index outside it is a fault, or .zero gives 0",
        _gather, _gather_reads, vectors("dst"), (Flag("outside", ("", "zero")),)),
    Row("VSCAT", operands("table n a index m"), ANY, VECTOR, "vector-permute",
        "table[index[i]] = a[i] (or + a[i]), i ascending; index is i32, m elements in the table", _scatter,
        _scatter_reads, lambda o: [region(o.table, o.f0, (o.m,))], (Flag("op", ("set", "add")),)),
    Row("VTRANS", operands("dst a run:batch,rows,cols"), ANY, VECTOR, "vector-permute",
        "dst[b][j][i] = a[b][i][j]", _transpose, lambda o: [region(o.a, o.f0, (o.batch, o.rows, o.cols))],
        lambda o: [region(o.dst, o.f0, (o.batch, o.cols, o.rows))]),
    Row("VPAD", operands("dst a run:h,w,c,top,bottom,left,right,value"), ANY, VECTOR, "vector-permute",
        "dst = a[h][w][c] with a frame of the value around it", _pad,
        lambda o: [region(o.a, o.f0, (o.h, o.w, o.c))],
        lambda o: [region(o.dst, o.f0, (o.h + o.top + o.bottom, o.w + o.left + o.right, o.c))]),
    Row("VMIRROR", operands("dst a run:h,w,c"), ANY, VECTOR, "vector-permute",
        "dst = a[h][w][c] with its columns (x) or rows (y) in reverse", _mirror,
        lambda o: [region(o.a, o.f0, (o.h, o.w, o.c))], lambda o: [region(o.dst, o.f0, (o.h, o.w, o.c))],
        (Flag("axis", ("x", "y")),)),
    Row("VRSHF", operands("dst a run:count,h,w,c"), ANY, VECTOR, "vector-permute",
        "dst[l][s] = a[64 s + l]: filters dealt to 64 lanes, as __bang_reshape_filter does", _reshape_filter,
        lambda o: [region(o.a, o.f0, (o.count, o.h * o.w * o.c))],
        lambda o: [region(o.dst, o.f0, (o.count, o.h * o.w * o.c))]),
)  # fmt: skip

__all__ = ["ROWS", "first_best", "tree"]
