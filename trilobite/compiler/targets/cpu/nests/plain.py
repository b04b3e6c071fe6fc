"""Products, convolutions and windows as plain loops: what their kernels compute, without how.

Enters: an equation of one of `PLAIN`. Leaves: its nests, in order, over buffers `x0, x1, ...`, `y0` and,
where one nest hands numbers to the next, `t0`. This is what C shows and what a reader compares a kernel with;
speed is the business of the rooms `gemm` and `conv`. One element of the result after the other, terms in
row-major order, in the accumulator's dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from trilobite.base.dtypes import DType, accumulator, bool_, int64
from trilobite.compiler.targets.cpu.loops.combine import identity
from trilobite.compiler.targets.cpu.loops.index import (
    Index,
    Indirect,
    Quotient,
    Remainder,
    as_index,
    atom_index,
    bounds,
)
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Leaf,
    Load,
    Loops,
    Nest,
    Node,
    Position,
    Statement,
    Target,
    Test,
    buffers_of,
    loops_over,
    ranges_of,
    rewritten,
)
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitive import table
from trilobite.ir.primitives.dot import free_axes, wide_dtype
from trilobite.ir.types import Dim, Shape, TensorType

Indices = tuple[Index, ...]


class _Writer:
    """The nests of one equation in the making."""

    def __init__(self, e: Equation) -> None:
        self.e = e
        self.buffers = {
            **{f"x{i}": _buffer(f"x{i}", v.type) for i, v in enumerate(e.inputs)},
            "y0": _buffer("y0", e.outputs[0].type),
        }

    def local(self, name: str, dtype: DType) -> None:
        self.buffers[name] = Buffer(name, dtype, (), kind="local")

    def temporary(self, name: str, shape: Shape, dtype: DType) -> None:
        self.buffers[name] = Buffer(name, dtype, shape)

    def read(self, scalars: Scalars, leaf: Leaf) -> Var:
        if isinstance(leaf, Load):
            return scalars.leaf(leaf, self.buffers[leaf.buffer].dtype)
        return scalars.leaf(leaf, leaf.dtype if isinstance(leaf, Position) else bool_)

    def nest(self, *body: Node) -> Nest:
        return Nest(self.e.primitive.name, tuple(self.buffers.values()), body)

    def set(self, name: str, value: float, index: Indices = ()) -> Statement:
        scalars = Scalars()
        return scalars.statement([scalars.number(value, self.buffers[name].dtype)], [Target(name, index)])

    def copy(self, source: str, at: Indices, to: str, index: Indices) -> Statement:
        scalars = Scalars()
        value = scalars.cast(self.read(scalars, Load(source, at)), self.buffers[to].dtype)
        return scalars.statement([value], [Target(to, index)])


def _buffer(name: str, type: TensorType) -> Buffer:
    return Buffer(name, type.dtype, type.shape)


def _sum_of_products(e: Equation, over: Loops, first: Load, second: Load) -> tuple[Nest, ...]:
    """Every element of the result (`o0, o1, ...`): the sum over some variables of one load times another."""
    w, out = _Writer(e), e.outputs[0].type
    wide = wide_dtype(e.inputs[0].type.dtype, out.dtype)
    w.local("sum", wide)
    scalars = Scalars()
    factors = [scalars.cast(w.read(scalars, load), wide) for load in (first, second)]
    term = scalars.apply(table["mul"], factors, wide, {})
    added = scalars.statement([term], [Target("sum", (), "add")])
    here = loops_over(out.shape)
    return (w.nest(*here.around(w.set("sum", 0), *over.around(added), w.copy("sum", (), "y0", here.index))),)


# -- products ----------------------------------------------------------------------------------------------


def _dot(e: Equation) -> tuple[Nest, ...]:
    (x, y), (cx, cy), (bx, by) = e.inputs, e.attributes["contract"], e.attributes["batch"]
    fx, fy = free_axes(x.type.ndim, cx, bx), free_axes(y.type.ndim, cy, by)
    over = loops_over([x.type.shape[a] for a in cx], "k")
    inner, outer = over.index, loops_over(e.outputs[0].type.shape).index

    def index(
        ndim: int, batch: Sequence[int], free: Sequence[int], summed: Sequence[int], start: int
    ) -> Indices:
        at = {a: outer[i] for i, a in enumerate(batch)}
        at |= {a: outer[start + i] for i, a in enumerate(free)}
        at |= {a: inner[i] for i, a in enumerate(summed)}
        return tuple(at[a] for a in range(ndim))

    first = Load("x0", index(x.type.ndim, bx, fx, cx, len(bx)))
    second = Load("x1", index(y.type.ndim, by, fy, cy, len(bx) + len(fx)))
    return _sum_of_products(e, over, first, second)


# -- convolutions: three views of one sum; see ir/primitives/conv.py ---------------------------------------


def _divided(index: Index, by: int, extent: Dim) -> tuple[Index, Indices]:
    """Which of `extent` places is `by` apart from the next, at this index; guards for there being one."""
    guards = (index, as_index((extent - 1) * by) - index)
    if by == 1:
        return index, guards
    return atom_index(Quotient(index, by)), (*guards, Index(0) - atom_index(Remainder(index, by)))


def _under(e: Equation, positions: Indices, taps: Indices, space: Shape) -> tuple[Indices, Indices]:
    """The element of x under a tap of the window at some position, and guards for its being inside."""
    a = e.attributes
    index: list[Index] = []
    guards: list[Index] = []
    for d, (p, r, n) in enumerate(zip(positions, taps, space, strict=True)):
        at, inside = _divided(
            p * a["stride"][d] + r * a["w_dilation"][d] - a["low"][d], a["x_dilation"][d], n
        )
        index.append(at)
        guards += inside
    return tuple(index), tuple(guards)


def _loops(first: str, letter: str, shape: Shape) -> Loops:
    """Loops over channels or images, and over an axis of space each."""
    return Loops((first, *loops_over(shape[1:], letter).names), shape)


def _block(index: Index, size: Dim, groups: int) -> Index:
    """The group that a channel belongs to, `size` channels a group."""
    return Index(0) if groups == 1 else atom_index(Quotient(index, size))


def _conv(e: Equation) -> tuple[Nest, ...]:
    (x, w), groups = (v.type for v in e.inputs), e.attributes["groups"]
    n, k, *p = loops_over(e.outputs[0].type.shape).index
    over = _loops("c", "r", w.shape[1:])
    c, *r = over.index
    at, guards = _under(e, tuple(p), tuple(r), x.shape[2:])
    channel = _block(k, w.shape[0] // groups, groups) * w.shape[1] + c
    return _sum_of_products(e, over, Load("x0", (n, channel, *at), guards), Load("x1", (k, c, *r)))


def _conv_weight_grad(e: Equation) -> tuple[Nest, ...]:
    (x, y), out, groups = (v.type for v in e.inputs), e.outputs[0].type, e.attributes["groups"]
    k, c, *r = loops_over(out.shape).index
    over = _loops("n", "p", (y.shape[0], *y.shape[2:]))
    n, *p = over.index
    at, guards = _under(e, tuple(p), tuple(r), x.shape[2:])
    channel = _block(k, out.shape[0] // groups, groups) * out.shape[1] + c
    return _sum_of_products(e, over, Load("x0", (n, channel, *at), guards), Load("x1", (n, k, *p)))


def _conv_input_grad(e: Equation) -> tuple[Nest, ...]:
    (y, w), a = (v.type for v in e.inputs), e.attributes
    rank, groups = y.ndim - 2, a["groups"]
    filters, channels = w.shape[0] // groups, w.shape[1]
    n, channel, *i = loops_over(e.outputs[0].type.shape).index
    over = _loops("k", "r", (filters, *w.shape[2:]))
    k, *r = over.index
    index: list[Index] = []
    guards: list[Index] = []
    for d in range(rank):
        place = i[d] * a["x_dilation"][d] + a["low"][d] - r[d] * a["w_dilation"][d]
        at, inside = _divided(place, a["stride"][d], y.shape[2 + d])
        index.append(at)
        guards += inside
    block = _block(channel, channels, groups)
    filter = block * filters + k
    first = Load("x0", (n, filter, *index), tuple(guards))
    return _sum_of_products(e, over, first, Load("x1", (filter, channel - block * channels, *r)))


# -- windows -----------------------------------------------------------------------------------------------


def _window_places(e: Equation) -> tuple[Indices, Indices, Loops, Index]:
    """The index of x under tap `r` of window `o`, its guards, the loops over taps, its place in the plane."""
    a, x = e.attributes, e.inputs[0].type
    rank = len(a["size"])
    lead = x.ndim - rank
    taps = loops_over(a["size"], "r")
    outer = loops_over(x.shape).index
    index, guards, flat = list(outer[:lead]), [], Index(0)
    for d, r in enumerate(taps.index):
        place = outer[lead + d] * a["stride"][d] + r * a["dilation"][d] - a["low"][d]
        index.append(place)
        guards += [place, as_index(x.shape[lead + d] - 1) - place]
        flat = flat * x.shape[lead + d] + place
    return tuple(index), tuple(guards), taps, flat


def _window_reduce(e: Equation) -> tuple[Nest, ...]:
    kind, dtype = e.attributes["kind"], e.outputs[0].type.dtype
    combine = {"max": "maximum", "min": "minimum", "sum": "add"}[kind]
    w, wide = _Writer(e), accumulator(dtype) if kind == "sum" else dtype
    w.local("total", wide)
    index, guards, taps, _ = _window_places(e)
    scalars = Scalars()
    value = w.read(scalars, Load("x0", index, guards, identity(combine, dtype)))
    joined = scalars.statement([scalars.cast(value, wide)], [Target("total", (), combine)])
    here = loops_over(e.outputs[0].type.shape)
    start, end = w.set("total", identity(combine, wide)), w.copy("total", (), "y0", here.index)
    return (w.nest(*here.around(start, *taps.around(joined), end)),)


def _window_argmax(e: Equation) -> tuple[Nest, ...]:
    w, dtype = _Writer(e), e.inputs[0].type.dtype
    w.local("best", dtype)
    w.local("where", int64)
    index, guards, taps, flat = _window_places(e)
    s = Scalars()
    inside, value = w.read(s, Test(guards)), w.read(s, Load("x0", index, guards))
    best, where = w.read(s, Load("best", ())), w.read(s, Load("where", ()))

    def test(name: str, *values: Var) -> Var:
        return s.apply(table[name], values, bool_, {})

    first_nan = test("and", test("is_nan", value), test("not", test("is_nan", best)))
    above = (
        test("or", test("gt", value, best), first_nan) if dtype.kind not in "biu" else test("gt", value, best)
    )
    found = test("and", inside, test("or", test("lt", where, s.number(0, int64)), above))
    results = [s.select(found, value, best), s.select(found, w.read(s, Position(flat, int64)), where)]
    step = s.statement(results, [Target("best", ()), Target("where", ())])
    here = loops_over(e.outputs[0].type.shape)
    start, end = (w.set("best", 0), w.set("where", -1)), w.copy("where", (), "y0", here.index)
    return (w.nest(*here.around(*start, *taps.around(step), end)),)


def _flat(buffer: Buffer, lead: int) -> Buffer:
    """The same memory with its planes flat."""
    size: Dim = 1
    for d in buffer.shape[lead:]:
        size = size * d
    return Buffer(buffer.name, buffer.dtype, (*buffer.shape[:lead], size))


def _window_gather(e: Equation) -> tuple[Nest, ...]:
    w, out = _Writer(e), e.outputs[0].type
    lead = out.ndim - e.attributes["rank"]
    here = loops_over(out.shape)
    outer = here.index
    plane = w.buffers["x0"] = _flat(w.buffers["x0"], lead)
    place = Load("x1", outer)
    real = atom_index(Indirect(place, -1, plane.shape[-1] - 1))
    s = Scalars()
    at = (*outer[:lead], atom_index(Indirect(place, 0, plane.shape[-1] - 1)))
    value = w.read(s, Load("x0", at, (real,)))
    return (w.nest(*here.around(s.statement([value], [Target("y0", outer)]))),)


def _window_scatter(e: Equation) -> tuple[Nest, ...]:
    """Zeros, then every number to where it belongs, then the sums in their dtype."""
    w, out, y = _Writer(e), e.outputs[0].type, e.inputs[0].type
    lead, wide = y.ndim - len(e.attributes["plane"]), accumulator(y.dtype)
    to = "y0" if wide == out.dtype else "t0"
    w.temporary("t0", out.shape, wide)
    here, given = loops_over(out.shape), loops_over(y.shape)
    planes, outer = here.index, given.index
    zeros = w.nest(*here.around(w.set(to, 0, planes)))
    rounded = w.nest(*here.around(w.copy("t0", planes, "y0", planes)))
    plane = w.buffers[to] = _flat(w.buffers[to], lead)
    s = Scalars()
    place = Load("x1", planes)
    highest = plane.shape[-1] - 1
    real = w.read(s, Test((atom_index(Indirect(place, -1, highest)),)))
    value = s.select(real, s.cast(w.read(s, Load("x0", outer)), wide), s.number(0, wide))
    at = (*outer[:lead], atom_index(Indirect(place, 0, highest)))
    put = w.nest(*given.around(s.statement([value], [Target(to, at, "add")])))
    return (zeros, put) if to == "y0" else (zeros, put, rounded)


PLAIN: dict[str, Callable[[Equation], tuple[Nest, ...]]] = {
    "dot": _dot, "conv": _conv, "conv_input_grad": _conv_input_grad, "conv_weight_grad": _conv_weight_grad,
    "window_reduce": _window_reduce, "window_argmax": _window_argmax, "window_gather": _window_gather,
    "window_scatter": _window_scatter,
}  # fmt: skip


def plain_nests(e: Equation) -> tuple[Nest, ...]:
    """The loops of one equation of `PLAIN`, with the buffers they use and guards that may fail."""
    return tuple(_proved(_trimmed(nest)) for nest in PLAIN[e.primitive.name](e))


def _trimmed(nest: Nest) -> Nest:
    used = buffers_of(nest.body)
    return Nest(nest.name, tuple(b for b in nest.buffers if b.name in used), nest.body)


def _proved(nest: Nest) -> Nest:
    ranges = ranges_of(nest.body)

    def may_fail(guard: Index) -> bool:
        span = bounds(guard, ranges)
        return span is None or span[0] < 0

    def change(node: Node) -> tuple[Node, ...]:
        if not isinstance(node, Statement):
            return (node,)
        leaves = [
            replace(leaf, guards=tuple(filter(may_fail, leaf.guards))) if isinstance(leaf, Load) else leaf
            for leaf in node.leaves
        ]
        return (replace(node, leaves=tuple(leaves)),)

    return replace(nest, body=rewritten(nest.body, change))
