"""Sorting: any number of operands, keys, axes and dtypes by lines of one key with the places they came from.

The core form is `sort(x[..., n], iota int32)` along the last axis by one key, where a line fits into NRAM;
longer lines go through a network of comparisons of (key, place).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from trilobite.base.dtypes import bool_, int32, int64, is_float, uint8
from trilobite.compiler.targets.dlp.expand import narrow
from trilobite.compiler.targets.dlp.expand import terms as t
from trilobite.compiler.targets.dlp.shapes import extents
from trilobite.compiler.targets.dlp.vector.formats import computes
from trilobite.ir.graph import Equation
from trilobite.ir.primitive import table

Body = Callable[..., Any] | None
LONGEST = 8192  # elements of a line that the sort row takes; it fits into the NRAM of every preset


def _is_core(e: Equation) -> bool:
    x = e.inputs[0].type
    return (
        len(e.inputs) == 2
        and e.attributes["keys"] == 1
        and e.attributes["axis"] == len(x.shape) - 1
        and computes(x.dtype)
        and x.dtype != bool_
        and e.inputs[1].type.dtype == int32
        and extents(e.inputs[0])[-1] <= LONGEST
        and len(x.shape) == 2
    )


def _sort(e: Equation) -> Body:
    axis, keys = e.attributes["axis"], e.attributes["keys"]
    shape = extents(e.inputs[0])
    if 0 in shape:
        return lambda *xs: list(xs)
    if _is_core(e):
        return None

    def body(*xs: Any) -> list[Any]:
        last = len(shape) - 1
        order = (*(a for a in range(len(shape)) if a != axis), axis)
        lines, n = prod(shape) // shape[axis], shape[axis]
        flat = [t.reshape(t.transpose(x, order), lines, n) for x in xs]
        places = _permutation(flat[:keys])
        found = [table["take_along"](x, places, axis=1) for x in flat]
        back = tuple(last if a == axis else order.index(a) for a in range(len(shape)))
        moved = [shape[a] for a in order]
        return [t.transpose(t.reshape(x, *moved), back) for x in found]

    return body


def _permutation(keys: Sequence[Any]) -> Any:
    """Where each element of the sorted lines stood: the last key first, for each pass is stable."""
    places: Any = None
    for key in reversed(keys):
        x = _comparable(key)
        if places is not None:
            x = table["take_along"](x, places, axis=1)
        came = _sorted_places(x)
        places = came if places is None else table["take_along"](places, came, axis=1)
    return places


def _comparable(x: Any) -> Any:
    if x.dtype == bool_:
        return t.cast(x, uint8)
    return x if computes(x.dtype) else t.cast(x, narrow.wider(x.dtype))


def _sorted_places(x: Any) -> Any:
    index = t.iota(x.shape, int32, 1)
    if x.shape[1] <= LONGEST:
        return table["sort"](x, index, axis=1, keys=1)[1]
    return _network(x, index)


def _network(x: Any, index: Any) -> Any:
    """Bitonic: pairs (key, place) are never equal, so the order is the stable one."""
    lines, n = x.shape
    width = 1 << (n - 1).bit_length()
    beyond = t.compare("ge", t.iota((lines, width), int32, 1), n)
    x, index = (t.padded(v, 1, 0, width - n, 0) for v in (x, index))
    size = 2
    while size <= width:
        step = size // 2
        while step:
            x, index, beyond = _stage(x, index, beyond, size, step)
            step //= 2
        size *= 2
    return t.part(index, 1, 0, n)


def _stage(x: Any, index: Any, beyond: Any, size: int, step: int) -> tuple[Any, Any, Any]:
    lines, width = x.shape
    shape = (lines, width // (2 * step), 2, step)
    both = [_halves(v, shape) for v in (x, index, beyond)]
    (xa, xb), (ia, ib), (ba, bb) = both
    upside = t.iota(xa.shape, int32, 1)
    falls = t.compare("ne", t.bitwise("and", t.mul(upside, 2 * step), size), 0)
    after = _after(xa, ia, ba, xb, ib, bb)
    swap = table["xor"](after, falls)
    parts = []
    for a, b in both:
        first, second = t.select(swap, b, a), t.select(swap, a, b)
        parts.append(t.reshape(t.join([first, second], 2), lines, width))
    return parts[0], parts[1], parts[2]


def _halves(v: Any, shape: Sequence[int]) -> tuple[Any, Any]:
    cut = t.reshape(v, *shape)
    return t.part(cut, 2, 0, 1), t.part(cut, 2, 1, 2)


def _after(xa: Any, ia: Any, ba: Any, xb: Any, ib: Any, bb: Any) -> Any:
    """Does the first of two come behind the second? NaN is the largest, what fills the line up behind all."""
    greater, same = t.compare("gt", xa, xb), t.compare("eq", xa, xb)
    if is_float(xa.dtype):
        na, nb = table["is_nan"](xa), table["is_nan"](xb)
        greater = table["or"](greater, table["and"](na, table["not"](nb)))
        same = table["or"](same, table["and"](na, nb))
    later = t.compare("gt", ia, ib)
    by_key = table["or"](greater, table["and"](same, later))
    return table["or"](
        table["and"](ba, table["not"](bb)), table["and"](table["not"](table["xor"](ba, bb)), by_key)
    )


def _top_k(e: Equation) -> Body:
    """Backwards sorted and turned round: of equal ones the first comes first."""
    k = e.attributes["k"]
    shape = extents(e.inputs[0])
    axis = e.attributes.get("axis", -1) % len(shape)
    out = extents(e.outputs[0])
    if 0 in out:
        return lambda x: [t.full(out, x.dtype, 0), t.full(out, int64, 0)]

    def body(x: Any) -> list[Any]:
        n = shape[axis]
        turned = t.reverse(x, axis)
        places = table["sort"](turned, t.iota(shape, int32, axis), axis=axis, keys=1)[1]
        best = t.reverse(t.part(places, axis, n - k, n), axis)
        stood = t.cast(t.sub(t.like(best, n - 1), best), int64)
        return [table["take_along"](x, stood, axis=axis), stood]

    return body


RULES = {"sort": _sort, "top_k": _top_k}
