"""Sizes that a run decides, while a graph is recorded: arithmetic on them, and which sizes are such.

Enters: the sizes a step has met so far. Leaves: a pattern in which sizes that differed are symbols of the
IR, so that one compiled graph serves all of them; and rules for the operators that models compute shapes
with, on arrays whose elements may be symbols. What has no rule here is recorded once per size instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import gcd
from typing import Any, NamedTuple

import numpy as np

import trilobite as tb
from trilobite.base.errors import ShapeError
from trilobite.framework.tensor import Tensor
from trilobite.inference.model import Node
from trilobite.ir.types import Affine, Factors, Floor, Symbol, bind_symbols, dim

Array = np.ndarray[Any, Any]
Key = tuple[tuple[tuple[int, ...], Any], ...]
Pattern = tuple[tuple[Any, ...], ...]

UNBOUNDED = 2**31 - 1


class Bounds(NamedTuple):
    """What is assumed of sizes that vary: an upper end, whether none will be much smaller than those met, and
    whether all will be multiples of the power of two that those met are.
    """

    upper: int = UNBOUNDED
    near: bool = False
    multiples: bool = False


BOUNDS = (
    Bounds(),
    Bounds(near=True),
    Bounds(near=True, multiples=True),
    *(Bounds(2**n) for n in range(13, 2, -1)),
    Bounds(0),
)
"""Tried in this order: windows need a least size, branches that meet again need sizes that halve evenly, and
tables of positions hold only so many. An upper end helps only where a comparison was left open.
"""
_LARGEST_MULTIPLE = 64

# -- patterns ------------------------------------------------------------------------------------------------


def pattern_of(keys: Sequence[Key], bounds: Bounds = BOUNDS[0]) -> Pattern | None:
    """Shapes with a symbol for every size that was not always the same; equal histories share a symbol.

    None if the operands differ in rank or dtype, or if a size was 0, which programs treat in another way.
    """
    first = keys[0]
    kinds = [tuple((len(shape), dtype) for shape, dtype in k) for k in keys]
    if any(k != kinds[0] for k in kinds):
        return None
    symbols: dict[tuple[int, ...], Any] = {}
    out: list[tuple[Any, ...]] = []
    for i, (shape, _) in enumerate(first):
        sizes: list[Any] = []
        for a in range(len(shape)):
            history = tuple(k[i][0][a] for k in keys)
            if len(set(history)) == 1:
                sizes.append(history[0])
                continue
            if min(history) < 1:
                return None
            if history not in symbols:
                symbols[history] = _varying(f"s{len(symbols)}", history, bounds)
            sizes.append(symbols[history])
        out.append(tuple(sizes))
    return tuple(out)


def _varying(name: str, history: Sequence[int], bounds: Bounds) -> Any:
    """The size that was each of these so far."""
    each = gcd(*history, _LARGEST_MULTIPLE) if bounds.multiples else 1
    counts = [n // each for n in history]
    least = min(counts)
    lower = 1 << (least.bit_length() - 1) if bounds.near else min(2, least)
    return dim(name, min=lower, max=max(bounds.upper // each, *counts)) * each


def fits(pattern: Pattern, key: Key) -> bool:
    """Does a graph with these symbols serve operands of these sizes?"""
    if any(len(p) != len(shape) for p, (shape, _) in zip(pattern, key, strict=True)):
        return False
    for p, (shape, _) in zip(pattern, key, strict=True):
        if any(not isinstance(d, Affine) and d != n for d, n in zip(p, shape, strict=True)):
            return False
    try:
        bind_symbols((p, shape) for p, (shape, _) in zip(pattern, key, strict=True))
    except ShapeError:
        return False
    return True


# -- arithmetic on shapes ------------------------------------------------------------------------------------


def has_symbols(array: Array) -> bool:
    return array.dtype == np.dtype(object) and any(isinstance(v, Affine) for v in array.reshape(-1).tolist())


def sizes_array(sizes: Sequence[Any]) -> Array:
    """Sizes as an operand: numbers if all of them are."""
    if not any(isinstance(d, Affine) for d in sizes):
        return np.asarray(sizes, dtype=np.int64)
    out = np.empty(len(sizes), dtype=object)
    out[:] = list(sizes)
    return out


def settled(array: Array) -> Array:
    """Plain integers where no symbol is left."""
    return array if has_symbols(array) else np.asarray(array.tolist(), dtype=np.int64).reshape(array.shape)


def as_number(size: Any) -> Any:
    """A symbolic size as a tensor without axes, which is a sum of that many ones; a number as it is."""
    if not isinstance(size, Affine):
        return size
    total = tb.asarray(np.asarray(size.constant, np.int64))
    for symbol, times in size.terms:
        total = total + _counted(symbol) * times
    return total


def _counted(symbol: Symbol) -> Any:
    match symbol.of:
        case Floor(size, by):
            return tb.floor_divide(as_number(size), by)
        case Factors(symbols):
            return reduce(lambda a, b: a * b, map(_counted, symbols))
    one = tb.broadcast_to(tb.asarray(np.asarray(1, np.int64)), (Affine(0, [(symbol, 1)]),))
    return tb.sum(one)


def tensor_of(array: Array) -> Tensor:
    """An array of sizes as a tensor."""
    if not has_symbols(array):
        return tb.asarray(array)  # type: ignore[no-any-return]
    parts = [tb.asarray(as_number(v), dtype=tb.int64) for v in array.reshape(-1).tolist()]
    return tb.reshape(tb.stack(parts, axis=0), array.shape)  # type: ignore[no-any-return]


def _elementwise(function: Callable[[Any, Any], Any]) -> Callable[..., Array]:
    def rule(node: Node, x: Array, y: Array) -> Array:
        a, b = np.broadcast_arrays(x, y)
        out = np.empty(a.shape, dtype=object)
        for i in np.ndindex(a.shape):
            out[i] = function(a[i], b[i])
        return out

    return rule


def _divided(a: Any, b: Any) -> Any:
    if isinstance(a, Affine) and a.bounds()[0] < 0:
        raise ShapeError(f"{a} over {b}: which way it is rounded depends on the symbols")
    if isinstance(b, Affine) and not isinstance(a, Affine):
        _small(a, b)
        return 0  # rounded towards it
    if isinstance(a, Affine) or isinstance(b, Affine):
        return a // b
    return int(a) // int(b) if (a >= 0) == (b > 0) else -(-int(a) // int(b))


def _modulo(a: Any, b: Any) -> Any:
    """With the sign of the divisor, as a roll by a negative shift takes it."""
    if isinstance(b, Affine) and not isinstance(a, Affine):
        number = _small(a, b)
        return number if number >= 0 else b + number
    return a % b


def _small(number: Any, size: Affine) -> int:
    """A number nearer to 0 than a size ever is."""
    found = int(number)
    if abs(found) >= size.bounds()[0]:
        raise ShapeError(f"whether {found} is less than {size} depends on the symbols")
    return found


def _equal(a: Any, b: Any) -> bool:
    """A symbol differs from every number below its bound; whether it equals others depends on the run."""
    if isinstance(a, Affine) and isinstance(b, Affine):
        if a == b:
            return True
        raise ShapeError(f"whether {a} equals {b} depends on the symbols")
    if isinstance(a, Affine) or isinstance(b, Affine):
        low, high = (a if isinstance(a, Affine) else b).bounds()
        n = int(b if isinstance(a, Affine) else a)
        if low <= n <= high:
            raise ShapeError(f"whether {a} equals {b} depends on the symbols")
        return False
    return bool(a == b)


def _gather(node: Node, x: Array, indices: Array) -> Array:
    return np.take(x, indices.astype(np.int64), axis=node.attribute("axis", 0))


def _concat(node: Node, *parts: Array) -> Array:
    return np.concatenate([p.astype(object) for p in parts], axis=node.attributes["axis"])


def _slice(
    node: Node, x: Array, starts: Any = None, ends: Any = None, axes: Any = None, steps: Any = None
) -> Array:
    if starts is None:
        starts, ends = (np.asarray(node.attributes[k]) for k in ("starts", "ends"))
        axes = np.asarray(node.attribute("axes") or range(starts.size))
    keys: list[Any] = [slice(None)] * x.ndim
    which = range(starts.size) if axes is None else axes.tolist()
    by = [1] * starts.size if steps is None else steps.tolist()
    for a, start, end, step in zip(which, starts.tolist(), ends.tolist(), by, strict=True):
        keys[a] = slice(start, end if end > -(2**31) or step > 0 else None, step)
    found: Array = x[tuple(keys)]
    return found


def _squeeze(node: Node, x: Array, axes: Any = None) -> Array:
    which = node.attribute("axes") if axes is None else tuple(axes.reshape(-1).tolist())
    return np.squeeze(x, None if which is None else tuple(which))


def _unsqueeze(node: Node, x: Array, axes: Any = None) -> Array:
    which = node.attribute("axes") if axes is None else axes.reshape(-1).tolist()
    return np.expand_dims(x, tuple(which))


def _product(node: Node, x: Array, axes: Any = None) -> Array:
    total = reduce(lambda a, b: a * b, x.reshape(-1).tolist(), 1)
    out = np.empty((), dtype=object)
    out[()] = total
    return out.reshape((1,) * x.ndim) if node.attribute("keepdims", 1) else out


def _where(node: Node, p: Array, x: Array, y: Array) -> Array:
    a, b, c = np.broadcast_arrays(p, x.astype(object), y.astype(object))
    return np.where(a.astype(bool), b, c)


RULES: dict[str, Callable[..., Array]] = {
    "Add": _elementwise(lambda a, b: a + b),
    "Sub": _elementwise(lambda a, b: a - b),
    "Mul": _elementwise(lambda a, b: a * b),
    "Div": _elementwise(_divided),
    "Mod": _elementwise(_modulo),
    "Equal": _elementwise(_equal),
    "Less": _elementwise(lambda a, b: bool(a < b)),
    "Greater": _elementwise(lambda a, b: bool(a > b)),
    "Max": _elementwise(lambda a, b: a if a >= b else b),
    "Min": _elementwise(lambda a, b: a if a <= b else b),
    "Gather": _gather,
    "Concat": _concat,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "ReduceProd": _product,
    "Where": _where,
    "Reshape": lambda node, x, shape: x.reshape(tuple(shape.tolist())),
    "Identity": lambda node, x: x,
    "Cast": lambda node, x: x,
}
"""Operators on arrays of sizes. A Cast keeps them what they are: whole numbers."""
_WHOLE = (6, 7, 12, 13)  # int32, int64, uint32, uint64


def evaluated(node: Node, operands: Sequence[Any]) -> list[Array]:
    """Results of an operator on arrays of which some hold symbols; an error if only a run could know them."""
    rule = RULES.get(node.op)
    if rule is None or (node.op == "Cast" and node.attributes["to"] not in _WHOLE):
        raise ShapeError(f"{node.label()} on a size that a run decides")
    found = _boxed(rule(node, *operands))
    if found.dtype != np.dtype(object):
        return [found]
    if all(isinstance(v, bool | np.bool_) for v in found.reshape(-1).tolist()):
        return [found.astype(bool)]
    return [settled(found)]


def _boxed(value: Any) -> Array:
    """NumPy gives single objects as they are, not as arrays without axes."""
    if isinstance(value, np.ndarray):
        return value
    out = np.empty((), dtype=object)
    out[()] = value
    return out
