"""sink_shapes: work on the small shape, and moves of data that need not happen.

Enters: a simplified graph. Leaves: the graph in which
  - pointwise work on repeated values happens before they are repeated,
  - reshapes and transposes have sunk below pointwise work, where they meet and cancel, and where what was
    above them can be fused with what is below,
  - products of matrices read transposed and repeated operands as they lie, and give their result as wanted.
The rules of `simplify` apply along the way. Layouts of convolutions are the layout pass's business.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from trilobite.base.dtypes import INEXACT, INTEGERS, bool_
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.passes.rules.pointwise import POINTWISE
from trilobite.compiler.graph.passes.rules.shapes import repeated, reshaped
from trilobite.compiler.graph.passes.simplify import TABLE
from trilobite.compiler.graph.regions import extent
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters, Match, Rule, by_head, rewrite
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.dot import free_axes
from trilobite.ir.primitives.shape import inverse
from trilobite.ir.types import Affine, Shape

# -- pointwise work on repeated values -----------------------------------------------------------------------


def _on_small_shape(m: Match) -> Var | None:
    """f(broadcast(x), broadcast(y)) -> broadcast(f(x, y)), if the axes that vary are fewer."""
    if m.equation.primitive.name not in POINTWISE:
        return None
    shape, vary = m.type.shape, set[int]()
    for v in m.equation.inputs:
        axes = _varying(m, v)
        if axes is None:
            return None
        vary.update(axes)
    axes = sorted(vary)
    small = tuple(shape[a] for a in axes)
    if extent(small) >= extent(shape):
        return None
    operands = [_cut_down(m, v, axes, small) for v in m.equation.inputs]
    return repeated(m, m.make(m.equation.primitive.name, *operands, **m.attributes), shape, axes)


def _varying(m: Match, v: Var) -> Sequence[int] | None:
    """The axes along which a repeated value is not the same; None if it is not a repeated one."""
    if m.number(v) is not None:
        return ()
    e = m.maker(v)
    if e is None or e.primitive.name != "broadcast":
        return None
    return [a for d, a in zip(e.inputs[0].type.shape, e.attributes["axes"], strict=True) if d != 1]


def _cut_down(m: Match, v: Var, axes: Sequence[int], small: Shape) -> Var:
    element = m.number(v)
    if element is not None:
        return m.rewriter.full(element, type(v.type)(small, v.type.dtype))
    own, e = _varying(m, v), m.maker(v)
    assert own is not None and e is not None
    source = reshaped(m, e.inputs[0], tuple(v.type.shape[a] for a in own))
    return repeated(m, source, small, [axes.index(a) for a in own])


# -- pointwise work under reshapes and transposes ------------------------------------------------------------


def _under(
    m: Match, name: str, seen: Callable[[Equation], Any], places: Callable[[Equation], Sequence[int | None]]
) -> list[Var] | None:
    """The operands of a pointwise equation as they were before a move that all of them went through.

    `seen` tells moves apart; `places` gives, for each axis after the move, the axis it was, or None.
    """
    if m.equation.primitive.name not in POINTWISE:
        return None
    moves = [e for v in m.equation.inputs if (e := m.maker(v)) is not None and e.primitive.name == name]
    if not moves or len({seen(e) for e in moves}) > 1:
        return None
    before, back = moves[0].inputs[0].type.shape, places(moves[0])
    operands = [_unmoved(m, v, name, before, back) for v in m.equation.inputs]
    known = [v for v in operands if v is not None]
    return known if len(known) == len(operands) else None


def _unmoved(m: Match, v: Var, name: str, before: Shape, back: Sequence[int | None]) -> Var | None:
    element, e = m.number(v), m.maker(v)
    if element is not None:
        return m.rewriter.full(element, type(v.type)(before, v.type.dtype))
    if e is not None and e.primitive.name == name:
        return e.inputs[0]
    if e is None or e.primitive.name != "broadcast" or e.inputs[0].type.shape.count(1):
        return None
    axes = [back[a] for a in e.attributes["axes"]]
    own = [a for a in axes if a is not None]
    if len(own) < len(axes) or own != sorted(own):
        return None
    return m.make("broadcast", e.inputs[0], shape=before, axes=tuple(own))


def _reshape_below(m: Match) -> Var | None:
    """f(reshape(x), reshape(y)) -> reshape(f(x, y))."""
    operands = _under(m, "reshape", lambda e: e.inputs[0].type.shape, _reshape_places)
    if operands is None:
        return None
    return reshaped(m, m.make(m.equation.primitive.name, *operands, **m.attributes), m.type.shape)


def _transpose_below(m: Match) -> Var | None:
    """f(transpose(x), transpose(y)) -> transpose(f(x, y))."""
    operands = _under(m, "transpose", lambda e: e.attributes["axes"], lambda e: e.attributes["axes"])
    if operands is None:
        return None
    axes = next(
        e.attributes["axes"]
        for v in m.equation.inputs
        if (e := m.maker(v)) is not None and e.primitive.name == "transpose"
    )
    return m.make("transpose", m.make(m.equation.primitive.name, *operands, **m.attributes), axes=axes)


def _reshape_places(e: Equation) -> list[int | None]:
    return kept_axes(e.inputs[0].type.shape, e.outputs[0].type.shape)


def kept_axes(before: Shape, after: Shape) -> list[int | None]:
    """For each axis after a reshape, the axis it was before, where one became one; else None."""
    places: list[int | None] = [None] * len(after)
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            places[j] = i
            i, j = i + 1, j + 1
        elif before[i] == 1 or after[j] == 1:
            i, j = i + (before[i] == 1), j + (before[i] != 1)
        else:
            ends = _block(before, after, i, j)
            if ends is None:
                return places
            i, j = ends
    return places


def _block(before: Shape, after: Shape, i: int, j: int) -> tuple[int, int] | None:
    """Where the axes that were merged and split end; None if symbolic sizes are among them."""
    left = right = 1
    while i < len(before) and j < len(after):
        if left <= right:
            if isinstance(before[i], Affine):
                return None
            left, i = left * before[i], i + 1
        else:
            if isinstance(after[j], Affine):
                return None
            right, j = right * after[j], j + 1
        if left == right:
            return i, j
    return None


# -- moves of repeated and reduced values --------------------------------------------------------------------


def _transpose_repeated(m: Match) -> Var:
    """transpose(broadcast(x)) -> broadcast(transpose(x)): the smaller one moves."""
    places = inverse(m.attributes["axes"])
    axes = [places[a] for a in m.inner().attributes["axes"]]
    order = sorted(range(len(axes)), key=axes.__getitem__)
    small = m.make("transpose", m["x"], axes=tuple(order)) if order != sorted(order) else m["x"]
    return repeated(m, small, m.type.shape, sorted(axes))


def _reshape_repeated(m: Match) -> Var | None:
    """reshape(broadcast(x)) -> broadcast(x), if the axes of x are neither split nor merged."""
    wide = m.inner().outputs[0].type.shape
    new = {place: i for i, place in enumerate(kept_axes(wide, m.type.shape)) if place is not None}
    axes = [new[a] for a in m.inner().attributes["axes"] if a in new]
    if len(axes) < len(m.inner().attributes["axes"]):
        return None
    return repeated(m, m["x"], m.type.shape, axes)


def _transpose_slice(m: Match) -> Var | None:
    """transpose(reshape(slice(x))) -> reshape(transpose(slice(x))), if the reshape only drops axes of size 1
    and rows stay rows: the two moves become one kernel then.
    """
    part = m.maker(m["x"])
    if part is None or part.primitive.name != "slice" or m.rewriter.readers[m.inner().outputs[0]] > 1:
        return None
    before, places = m["x"].type.shape, kept_axes(m["x"].type.shape, m.inner().outputs[0].type.shape)
    dropped = [a for a in range(len(before)) if a not in places]
    kept = [places[a] for a in m.attributes["axes"]]
    if None in kept or kept[-1:] != [len(before) - 1] or any(before[a] != 1 for a in dropped):
        return None
    axes = (*dropped, *(a for a in kept if a is not None))
    return reshaped(m, m.make("transpose", m["x"], axes=axes), m.type.shape)


def _reduce_transposed(m: Match) -> Var:
    """reduce(transpose(x)) -> transpose(reduce(x)): the smaller one moves, if any."""
    moved, axes = m.inner().attributes["axes"], m.attributes["axes"]
    out = m.make(m.equation.primitive.name, m["x"], axes=tuple(sorted(moved[a] for a in axes)))
    kept = [moved[a] for a in range(len(moved)) if a not in axes]
    order = tuple(sorted(kept).index(a) for a in kept)
    return m.make("transpose", out, axes=order) if list(order) != sorted(order) else out


# -- products of matrices ------------------------------------------------------------------------------------


def _read_transposed(m: Match) -> Var | None:
    """dot(transpose(x), y) -> dot(x, y) with other axes, if those that stay keep their order."""
    operands, contract, batch = (
        list(m.equation.inputs),
        list(m.attributes["contract"]),
        list(m.attributes["batch"]),
    )
    changed = False
    for side in (0, 1):
        e = m.maker(operands[side])
        if e is None or e.primitive.name != "transpose":
            continue
        moved = e.attributes["axes"]
        stay = [moved[a] for a in free_axes(len(moved), contract[side], batch[side])]
        if stay == sorted(stay):
            operands[side], changed = e.inputs[0], True
            contract[side] = tuple(moved[a] for a in contract[side])
            batch[side] = tuple(moved[a] for a in batch[side])
    if not changed:
        return None
    return m.make("dot", *operands, contract=tuple(contract), batch=tuple(batch), dtype=m.attributes["dtype"])


def _read_repeated(m: Match) -> Var | None:
    """dot(x, broadcast(y)) with y repeated along batch axes -> dot(x, y): those axes are x's alone."""
    e = m.maker(m.equation.inputs[1])
    if e is None or e.primitive.name != "broadcast":
        return None
    own = e.attributes["axes"]
    (cx, cy), (bx, by) = m.attributes["contract"], m.attributes["batch"]
    lone = [i for i, a in enumerate(by) if a not in own]
    first = len(by) - len(lone)
    if not lone or lone != list(range(first, len(by))) or any(a not in own for a in cy):
        return None
    fy = free_axes(len(e.attributes["shape"]), cy, by)
    x_order = [bx[i] for i in lone] + list(free_axes(m.equation.inputs[0].type.ndim, cx, bx))
    if x_order != sorted(x_order) or any(a not in own for a in fy):
        return None
    y = reshaped(m, e.inputs[0], tuple(e.attributes["shape"][a] for a in own))
    return m.make(
        "dot", m.equation.inputs[0], y, contract=(cx, tuple(own.index(a) for a in cy)),
        batch=(bx[:first], tuple(own.index(a) for a in by[:first])), dtype=m.attributes["dtype"],
    ) if y.type.shape == e.inputs[0].type.shape else None  # fmt: skip


def _give_transposed(m: Match) -> Var | None:
    """transpose(dot(x, y)) -> dot(y, x) where the transpose exchanges the two sides, as (AB)ᵀ = BᵀAᵀ; batch
    axes come in any order. Only where nobody else reads the product.
    """
    dot, axes = m.inner(), m.attributes["axes"]
    if m.rewriter.readers[dot.outputs[0]] > 1:
        return None
    (cx, cy), (bx, by) = dot.attributes["contract"], dot.attributes["batch"]
    n = len(bx)
    rows = n + dot.inputs[0].type.ndim - len(cx) - n
    order, rest = axes[:n], list(axes[n:])
    if sorted(order) != list(range(n)):
        return None
    x, y = dot.inputs
    bx, by = tuple(bx[i] for i in order), tuple(by[i] for i in order)
    dtype = dot.attributes["dtype"]
    if rest == list(range(n, len(axes))):
        return m.make("dot", x, y, contract=(cx, cy), batch=(bx, by), dtype=dtype)
    if rest == [*range(rows, len(axes)), *range(n, rows)]:
        return m.make("dot", y, x, contract=(cy, cx), batch=(by, bx), dtype=dtype)
    return None


_WORD = INTEGERS | {bool_}
_REDUCTIONS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or")
SINKING = (
    # One element may be computed otherwise than many, in the last bit.
    Rule("*", _on_small_shape, exact=False),
    Rule("*", _reshape_below),
    Rule("*", _transpose_below),
    Rule("transpose(broadcast(x))", _transpose_repeated),
    Rule("reshape(broadcast(x))", _reshape_repeated),
    Rule("transpose(reshape(x))", _transpose_slice),
    *(Rule(f"{name}(transpose(x))", _reduce_transposed, _WORD) for name in _REDUCTIONS),
    *(Rule(f"{name}(transpose(x))", _reduce_transposed, INEXACT, exact=False) for name in _REDUCTIONS[:4]),
    Rule("dot(x, y)", _read_transposed),
    Rule("dot(x, y)", _read_repeated, exact=False),
)
TRANSPOSED_PRODUCTS = (Rule("transpose(dot(x, y))", _give_transposed, exact=False),)
_SINKING, _PRODUCTS = by_head(TABLE, SINKING), by_head(TRANSPOSED_PRODUCTS)


def sink_shapes(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    """The graph with work on the small shape and moves of data removed."""
    # Products first: a transpose that sank below other work could no longer be the product's own.
    written = rewrite(graph, _PRODUCTS, counters)
    return rewrite(dce(rewrite(written, _SINKING, counters)), _PRODUCTS, counters)
