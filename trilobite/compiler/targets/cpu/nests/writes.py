"""Values whose elements depend on order: scatters and running sums.

Enters: the equation, how elements of its operands are read, where the result goes. Leaves: loops. A scatter
copies its operand, then writes the updates in row-major order of the indices; along axes that no index names,
and lanes of `scatter_along`, updates do not meet and may run side by side. A running sum keeps its state in a
local row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trilobite.base.dtypes import DType, accumulator, is_float
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.combine import identity
from trilobite.compiler.targets.cpu.loops.index import Index, Indirect, Ranges, as_index, atom_index, variable
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loop, Nest, Node, Statement, Target
from trilobite.compiler.targets.cpu.loops.transform import extent_of, fuse_pair, split_loop
from trilobite.compiler.targets.cpu.nests.reader import CannotRead, Reader
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Dim, Shape

STRIP = 64  # elements of a row that one unit of a scatter writes at least
ReaderOf = Callable[[Scalars, Ranges], Reader]
_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}
_RUNNING = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "logsumexp": "logaddexp"}


def working(e: Equation) -> DType:
    """What the result is computed in: sums and products of small floats in float32."""
    dtype: DType = e.outputs[0].type.dtype
    kind = e.attributes["kind"]
    return accumulator(dtype) if kind in ("add", "mul", "sum", "prod", "logsumexp") else dtype


def looped(names: list[str], shape: Shape, body: Node) -> Node:
    for name, d in reversed(list(zip(names, shape, strict=True))):
        body = Loop(name, (as_index(d),), (body,))
    return body


def copied(v: Var, reader_of: ReaderOf, to: str, dtype: DType) -> Node:
    """Every element of a value into a buffer."""
    names = [f"o{a}" for a in range(len(v.type.shape))]
    scalars = Scalars()
    index = tuple(map(variable, names))
    reader = reader_of(scalars, dict(zip(names, v.type.shape, strict=True)))
    value = scalars.cast(reader.element(v, index), dtype)
    return looped(names, v.type.shape, scalars.statement([value], [Target(to, index)]))


def _place(scalars: Scalars, value: Var, highest: Dim) -> Index:
    leaf = scalars.reads.get(value)
    if not isinstance(leaf, Load):
        raise CannotRead("a computed place that does not stand in memory")
    return atom_index(Indirect(leaf, 0, highest))


def scattered(e: Equation, reader_of: ReaderOf, to: str, dtype: DType) -> Node:
    """The updates, written one after the other where they may meet; those loops stand innermost but one."""
    if e.primitive.name in ("scatter_along", "scatter_reduce_along"):
        return _along(e, reader_of, to, dtype)
    x, indices, updates = e.inputs
    axes = e.attributes["axes"]
    n = indices.type.ndim - 1
    shape = updates.type.shape
    names = [f"u{a}" for a in range(len(shape))]
    scalars = Scalars()
    reader = reader_of(scalars, dict(zip(names, shape, strict=True)))
    index = tuple(map(variable, names))
    places = {
        a: _place(scalars, reader.element(indices, (*index[:n], Index(k))), x.type.shape[a] - 1)
        for k, a in enumerate(axes)
    }
    rest = iter(index[n:])
    at = tuple(places[a] if a in places else next(rest) for a in range(x.type.ndim))
    body: Node = _written(e, scalars, reader.element(updates, index), Target(to, at), dtype)
    return looped(names, shape, body)


def _along(e: Equation, reader_of: ReaderOf, to: str, dtype: DType) -> Node:
    x, indices, updates = e.inputs
    axis, shape = e.attributes["axis"], updates.type.shape
    names = [f"u{a}" for a in range(len(shape))]
    scalars = Scalars()
    reader = reader_of(scalars, dict(zip(names, shape, strict=True)))
    index = tuple(map(variable, names))
    place = _place(scalars, reader.element(indices, index), x.type.shape[axis] - 1)
    at = (*index[:axis], place, *index[axis + 1 :])
    body: Node = _written(e, scalars, reader.element(updates, index), Target(to, at), dtype)
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    return looped([names[a] for a in order], tuple(shape[a] for a in order), body)


def _written(e: Equation, scalars: Scalars, value: Var, target: Target, dtype: DType) -> Node:
    combine = _COMBINE.get(e.attributes["kind"])
    return scalars.statement([scalars.cast(value, dtype)], [Target(target.buffer, target.index, combine)])


# -- what of a scatter runs side by side -------------------------------------------------------------------


def in_lanes(nest: Nest) -> Nest:
    """Of `scatter_along`: every loop but the innermost, which walks along the axis in order."""
    top = nest.body[0]
    if not isinstance(top, Loop) or all(isinstance(n, Statement) for n in top.body):
        return nest
    while isinstance(top.body[0], Loop) and isinstance(top.body[0].body[0], Loop):
        fused = fuse_pair(top)
        if fused is None:
            break
        top = fused
    return replace(nest, body=(replace(top, kind="parallel"),))


def in_strips(nest: Nest) -> Nest:
    """Of `scatter`: strips of the rows, each of which takes all points in order."""
    around: list[Loop] = []
    body = nest.body
    while len(body) == 1 and isinstance(body[0], Loop):
        around.append(body[0])
        body = body[0].body
    row = around[-1] if around else None
    n = None if row is None else extent_of(row)
    (s,) = body
    assert isinstance(s, Statement)
    if row is None or not isinstance(n, int) or n < 2 * STRIP or not _is_row(s, row.var):
        return nest
    strip = split_loop(row, max(STRIP, -(-n // (8 * STRIP)) * STRIP))
    for each in reversed(around[:-1]):
        strip = replace(strip, body=(replace(each, body=strip.body),))
    return replace(nest, body=(replace(strip, kind="parallel"),))


def _is_row(s: Statement, var: str) -> bool:
    """Does each iteration of the loop write elements that no other iteration writes?"""
    return all(sum(_moves(i, var) for i in t.index) == 1 for t in s.targets)


def _moves(index: Index, var: str) -> bool:
    return index.coefficient(var) != 0


# -- a part replaced ---------------------------------------------------------------------------------------


def replaced(e: Equation, reader_of: ReaderOf, to: str) -> Node:
    """The part alone, into a buffer that holds the rest."""
    x, y, *starts = e.inputs
    names = [f"u{a}" for a in range(y.type.ndim)]
    scalars = Scalars()
    reader = reader_of(scalars, dict(zip(names, y.type.shape, strict=True)))
    index = tuple(map(variable, names))
    value = reader.element(y, index)
    if starts:
        at = tuple(
            i + _place(scalars, reader.element(s, ()), d - n) if d != n else i
            for i, s, d, n in zip(index, starts, x.type.shape, y.type.shape, strict=True)
        )
    else:
        steps = zip(index, e.attributes["start"], e.attributes["step"], strict=True)
        at = tuple(i * step + start for i, start, step in steps)
    return looped(names, y.type.shape, scalars.statement([value], [Target(to, at)]))


# -- running sums ------------------------------------------------------------------------------------------


def running(e: Equation, reader_of: ReaderOf, names: list[str]) -> tuple[Node, tuple[Buffer, ...]]:
    """Along one axis in order, over the axes behind it side by side; along the last axis several lanes side
    by side, for each step waits for the one before.
    """
    x, axis = e.inputs[0], e.attributes["axis"]
    shape, dtype = x.type.shape, working(e)
    inner = shape[axis + 1 :]
    variables = _variables("o", 0, shape)
    beside, ranges = _beside(shape, axis, dtype), {f"o{a}": d for a, d in enumerate(shape)}
    if beside is not None:
        inner = (beside.together,)
        ranges |= {beside.block: -(-beside.lanes // beside.together), beside.lane: beside.together}
        variables = (*variables[: axis - 1], beside.place, variables[axis])
    state = Buffer("state", dtype, inner, kind="local")
    combine = _RUNNING[e.attributes["kind"]]
    start = identity(combine, dtype) if combine != "logaddexp" else float("-inf")
    begin = Scalars()
    last = [f"b{a}" for a in range(axis + 1, axis + 1 + len(inner))]
    first = begin.statement([begin.number(start, dtype)], [Target("state", tuple(map(variable, last)))])
    place = variables[axis]
    if e.attributes["reverse"]:
        place = as_index(shape[axis] - 1) - place
    index = (*variables[:axis], place, *variables[axis + 1 :])
    scalars = Scalars()
    value = scalars.cast(reader_of(scalars, ranges).element(x, index), dtype)
    here = Target("state", variables[axis + 1 :] if beside is None else (variable(beside.lane),))
    before = scalars.leaf(Load("state", here.index), dtype)
    after = scalars.apply(table[combine], (before, value), dtype, {})
    result = scalars.cast(after, e.outputs[0].type.dtype)
    step: Node = scalars.statement(
        [after, *[result] * len(names)], [here, *(Target(n, index) for n in names)]
    )
    if beside is not None:
        step = Loop(beside.lane, beside.extent, (step,))
    fill = looped(last, inner, first)
    walk = looped([f"o{a}" for a in range(axis, len(shape))], shape[axis:], step)
    body: tuple[Node, ...] = (fill, walk)
    for a in reversed(range(axis)):
        blocks = beside is not None and a == axis - 1
        loop = (beside.block, ranges[beside.block]) if beside and blocks else (f"o{a}", shape[a])
        body = (Loop(loop[0], (as_index(loop[1]),), body),)
    return _only(body), (state,)


_TOGETHER = (
    32  # bytes of lanes walked together; of more, lines that lie a power of two apart push each other out
)


@dataclass(frozen=True)
class _Beside:
    """Lanes of the last axis that are walked together."""

    lanes: int
    together: int
    block: str
    lane: str

    @property
    def place(self) -> Index:
        return variable(self.block) * self.together + variable(self.lane)

    @property
    def extent(self) -> tuple[Index, ...]:
        whole, rest = Index(self.together), Index(self.lanes) - variable(self.block) * self.together
        return (whole,) if self.lanes % self.together == 0 else (whole, rest)


def _beside(shape: Shape, axis: int, dtype: DType) -> _Beside | None:
    """Of floats: a sum of integers is there for the next step at once."""
    lanes = shape[axis - 1] if axis == len(shape) - 1 and axis > 0 else 0
    together = _TOGETHER // dtype.itemsize
    if not isinstance(lanes, int) or lanes < together or not is_float(dtype):
        return None
    return _Beside(lanes, together, f"o{axis - 1}_b", "lane")


def _only(body: tuple[Node, ...]) -> Node:
    """One node; without loops around, a loop of one iteration."""
    return body[0] if len(body) == 1 else Loop("whole", (Index(1),), body)


def _variables(prefix: str, first: int, shape: Shape) -> tuple[Index, ...]:
    return tuple(variable(f"{prefix}{a}") for a in range(first, len(shape)))
