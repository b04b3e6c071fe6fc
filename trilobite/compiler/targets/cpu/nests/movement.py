"""Rules of the primitives that move data: how an element's index becomes the index of an operand's element.

Enters: an equation and the index of an element of its result (see `reader`). Leaves: which elements of the
operands it is made of. Slices, transposes and reshapes are arithmetic on indices; pads and joins are guards;
gathers are indices that are loaded.
"""

from __future__ import annotations

from trilobite.base.dtypes import bool_
from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Ranges,
    as_index,
    bounds,
    divided,
    times,
)
from trilobite.compiler.targets.cpu.loops.ir import Load, Test
from trilobite.compiler.targets.cpu.nests.random_bits import random_bits
from trilobite.compiler.targets.cpu.nests.reader import CannotRead, Indices, Reader, Rule, RuleOf, place_of
from trilobite.ir.graph import Equation, Var
from trilobite.ir.types import Dim, Shape


def _same(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    return (yield e.inputs[0], index, guards)


def _broadcast(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x = e.inputs[0]
    out: Shape = e.outputs[0].type.shape
    at = tuple(
        Index(0) if d == 1 and out[a] != 1 else index[a]
        for d, a in zip(x.type.shape, e.attributes["axes"], strict=True)
    )
    return (yield x, at, guards)


def _transpose(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    at = [Index(0)] * len(index)
    for i, a in enumerate(e.attributes["axes"]):
        at[a] = index[i]
    return (yield e.inputs[0], tuple(at), guards)


def _reshape(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x = e.inputs[0]
    at = reshaped(index, e.outputs[0].type.shape, x.type.shape, r.ranges)
    return (yield x, at, guards)


def reshaped(index: Indices, shape: Shape, source: Shape, ranges: Ranges) -> Indices:
    """The index in `source` of the element that has `index` in `shape`: group by group of axes."""
    out: list[Index] = []
    for axes, into in axis_groups(shape, source):
        flat = Index(0)
        for a in axes:
            flat = flat * shape[a] + index[a]
        digits: list[Index] = []
        for b in reversed(into):
            if b == into[0]:
                digits.append(flat)
            else:
                flat, digit = divided(flat, source[b], ranges)
                digits.append(digit)
        out += digits[::-1]
    return tuple(out)


def axis_groups(a: Shape, b: Shape) -> list[tuple[list[int], list[int]]]:
    """Pairs of runs of axes of two shapes that hold the same elements, as short as possible."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(a) or j < len(b):
        left: list[int] = []
        right: list[int] = []
        m: Dim = 1
        n: Dim = 1
        while (not left and not right) or m != n:
            # The side that holds less takes its next axis; sizes of symbols decide by their largest value.
            if j == len(b) or (i < len(a) and _count(m) <= _count(n)):
                if i == len(a):
                    raise CannotRead(f"a reshape of {list(b)} to {list(a)} with no elements")
                m, i = times(m, a[i]), i + 1
                left.append(i - 1)
            else:
                n, j = times(n, b[j]), j + 1
                right.append(j - 1)
        groups.append((left, right))
    return groups


def _count(d: Dim) -> int:
    return d if isinstance(d, int) else d.bounds()[1]


def _slice(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    a = e.attributes
    at = tuple(i * s + lo for i, lo, s in zip(index, a["start"], a["step"], strict=True))
    return (yield e.inputs[0], at, guards)


def _reverse(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    shape, axes = e.outputs[0].type.shape, e.attributes["axes"]
    at = tuple(
        as_index(d - 1) - i if a in axes else i for a, (i, d) in enumerate(zip(index, shape, strict=True))
    )
    return (yield e.inputs[0], at, guards)


def _pad(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x, a = e.inputs[0], e.attributes
    at: list[Index] = []
    own: list[Index] = []
    for i, d, low, between in zip(index, x.type.shape, a["low"], a["between"], strict=True):
        place, conditions = _unpadded(r, i - low, d, between + 1)
        at.append(place)
        own += conditions
    dtype = x.type.dtype
    tests, never = r.needed(own)
    fill = r.scalars.number(a["value"], dtype)
    if never:
        return fill
    if not tests:
        return (yield x, tuple(at), guards)
    inside = _merged(guards, tests)
    value = yield x, tuple(at), inside
    leaf = r.scalars.reads.get(value)
    if isinstance(leaf, Load) and leaf.guards == inside and not leaf.fill:
        return r.scalars.leaf(Load(leaf.buffer, leaf.index, inside, a["value"]), dtype)
    return r.scalars.select(r.scalars.leaf(Test(tests), bool_), value, fill)


def _unpadded(r: Reader, i: Index, d: Dim, step: int) -> tuple[Index, list[Index]]:
    """The place in an axis of size d that the padded place i shows, and what must hold for it to exist."""
    if step == 1:
        return i, [i, as_index(d - 1) - i]
    span = bounds(i, r.ranges)
    if span is None:
        raise CannotRead("a dilated pad at a computed place")
    lift = max(-(span[0] // step), 0)  # only what is not negative is taken apart
    place, rest = divided(i + lift * step, step, r.ranges)
    place = place - lift
    return place, [rest * -1, place, as_index(d - 1) - place]


def _merged(a: Indices, b: Indices) -> Indices:
    return tuple(dict.fromkeys((*a, *b)))


def _concatenate(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    axis = e.attributes["axis"]
    pieces: list[tuple[Indices, Var]] = []
    start: Dim = 0
    for x in e.inputs:
        size = x.type.shape[axis]
        place = index[axis] - start
        start = start + size
        if size == 0:
            continue
        tests, never = r.needed((place, as_index(size - 1) - place))
        if never:
            continue
        at = (*index[:axis], place, *index[axis + 1 :])
        value = yield x, at, _merged(guards, tests)
        below, _ = r.needed((as_index(size - 1) - place,))
        pieces.append((below, value))
    out = pieces[-1][1]
    for tests, value in reversed(pieces[:-1]):
        out = r.scalars.select(r.scalars.leaf(Test(tests), bool_), value, out) if tests else value
    return out


# -- computed places ---------------------------------------------------------------------------------------


def _gather(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x, indices = e.inputs
    axis, n = e.attributes["axis"], indices.type.ndim
    number = yield indices, index[axis : axis + n], guards
    place = place_of(r.scalars, number, x.type.shape[axis] - 1)
    return (yield x, (*index[:axis], place, *index[axis + n :]), guards)


def _gather_nd(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x, indices = e.inputs
    axes, n = e.attributes["axes"], indices.type.ndim - 1
    places: dict[int, Index] = {}
    for k, a in enumerate(axes):
        number = yield indices, (*index[:n], Index(k)), guards
        places[a] = place_of(r.scalars, number, x.type.shape[a] - 1)
    rest = iter(index[n:])
    return (yield x, tuple(places[a] if a in places else next(rest) for a in range(x.type.ndim)), guards)


def _take_along(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x, indices = e.inputs
    axis = e.attributes["axis"]
    number = yield indices, index, guards
    place = place_of(r.scalars, number, x.type.shape[axis] - 1)
    return (yield x, (*index[:axis], place, *index[axis + 1 :]), guards)


def _dynamic_slice(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x, *starts = e.inputs
    at: list[Index] = []
    for i, s, d, n in zip(index, starts, x.type.shape, e.attributes["sizes"], strict=True):
        if d == n:
            at.append(i)
            continue
        number = yield s, (), guards
        at.append(i + place_of(r.scalars, number, d - n))
    return (yield x, tuple(at), guards)


def _dynamic_update_slice(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x, y, *starts = e.inputs
    at: list[Index] = []
    tests: list[Index] = []
    for i, s, d, n in zip(index, starts, x.type.shape, y.type.shape, strict=True):
        if d == n:
            at.append(i)
            continue
        number = yield s, (), guards
        place = i - place_of(r.scalars, number, d - n)
        at.append(place)
        tests += [place, as_index(n - 1) - place]
    if any(n == 0 for n in y.type.shape):
        return (yield x, index, guards)
    kept = tuple(tests)
    value = yield y, tuple(at), _merged(guards, kept)
    old = yield x, index, guards
    return r.scalars.select(r.scalars.leaf(Test(kept), bool_), value, old) if kept else value


def _update_slice(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    x, y = e.inputs
    at: list[Index] = []
    own: list[Index] = []
    a = e.attributes
    if any(n == 0 for n in y.type.shape):
        return (yield x, index, guards)
    for i, n, lo, step in zip(index, y.type.shape, a["start"], a["step"], strict=True):
        place, conditions = _unpadded(r, i - lo, n, step)
        at.append(place)
        own += conditions
    tests, never = r.needed(own)
    if never:
        return (yield x, index, guards)
    value = yield y, tuple(at), _merged(guards, tests)
    if not tests:
        return value
    old = yield x, index, guards
    return r.scalars.select(r.scalars.leaf(Test(tests), bool_), value, old)


def _quantised(r: Reader, e: Equation, index: Indices, guards: Indices) -> Rule:
    """Scale and zero point are numbers, or one per place on the axis."""
    axis = e.attributes["axis"]
    x = yield e.inputs[0], index, guards
    per = () if axis is None else (index[axis],)
    scale = yield e.inputs[1], per, guards
    zero = yield e.inputs[2], per, guards
    attributes = {**e.attributes, "axis": None}
    return r.scalars.apply(e.primitive, (x, scale, zero), e.outputs[0].type.dtype, attributes)


RULES: dict[str, RuleOf] = {
    "broadcast": _broadcast,
    "transpose": _transpose,
    "reshape": _reshape,
    "slice": _slice,
    "reverse": _reverse,
    "pad": _pad,
    "concatenate": _concatenate,
    "stop_gradient": _same,
    "barrier": _same,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "take_along": _take_along,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "update_slice": _update_slice,
    "quantise": _quantised,
    "requantise": _quantised,
    "quantise_product": _quantised,
    "requantise_single": _quantised,
    "dequantise": _quantised,
    "random_bits": random_bits,
}
PLACES = {"gather": (1,), "gather_nd": (1,), "take_along": (1,)}  # operands that name places


def place_operands(e: Equation) -> tuple[Var, ...]:
    """The operands of an equation that say where to read."""
    if e.primitive.name in ("dynamic_slice", "dynamic_update_slice"):
        return e.inputs[1 if e.primitive.name == "dynamic_slice" else 2 :]
    if e.primitive.name.startswith("scatter"):
        return e.inputs[1:2]
    return tuple(e.inputs[i] for i in PLACES.get(e.primitive.name, ()))
