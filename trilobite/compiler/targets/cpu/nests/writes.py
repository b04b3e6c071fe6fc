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
from trilobite.compiler.targets.cpu.loops.index import Index, Ranges, as_index, variable
from trilobite.compiler.targets.cpu.loops.ir import (
    Buffer,
    Load,
    Loop,
    Loops,
    Nest,
    Node,
    Statement,
    Target,
    loop,
    loops_over,
)
from trilobite.compiler.targets.cpu.loops.transform import extent_of, fuse_pair, split_loop
from trilobite.compiler.targets.cpu.nests.reader import Reader, place_of
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Equation, Var
from trilobite.ir.primitive import table
from trilobite.ir.types import Shape

STRIP = 64  # elements of a row that one unit of a scatter writes at least
ReaderOf = Callable[[Scalars, Ranges], Reader]
_COMBINE = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}
_RUNNING = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum", "logsumexp": "logaddexp"}


def working(e: Equation) -> DType:
    """What the result is computed in: sums and products of small floats in float32."""
    dtype: DType = e.outputs[0].type.dtype
    kind = e.attributes["kind"]
    return accumulator(dtype) if kind in ("add", "mul", "sum", "prod", "logsumexp") else dtype


def copied(v: Var, reader_of: ReaderOf, to: str, dtype: DType) -> tuple[Node, ...]:
    """Every element of a value into a buffer."""
    here, scalars = loops_over(v.type.shape), Scalars()
    value = scalars.cast(reader_of(scalars, here.ranges).element(v, here.index), dtype)
    return here.around(scalars.statement([value], [Target(to, here.index)]))


def scattered(e: Equation, reader_of: ReaderOf, to: str, dtype: DType) -> tuple[Node, ...]:
    """The updates, written one after the other where they may meet; those loops stand innermost but one."""
    if e.primitive.name in ("scatter_along", "scatter_reduce_along"):
        return _along(e, reader_of, to, dtype)
    x, indices, updates = e.inputs
    n = indices.type.ndim - 1
    here, scalars = loops_over(updates.type.shape, "u"), Scalars()
    reader, index = reader_of(scalars, here.ranges), here.index
    places = {
        a: place_of(scalars, reader.element(indices, (*index[:n], Index(k))), x.type.shape[a] - 1)
        for k, a in enumerate(e.attributes["axes"])
    }
    rest = iter(index[n:])
    at = tuple(places[a] if a in places else next(rest) for a in range(x.type.ndim))
    return here.around(_written(e, scalars, reader.element(updates, index), Target(to, at), dtype))


def _along(e: Equation, reader_of: ReaderOf, to: str, dtype: DType) -> tuple[Node, ...]:
    x, indices, updates = e.inputs
    axis, shape = e.attributes["axis"], updates.type.shape
    here, scalars = loops_over(shape, "u"), Scalars()
    reader, index = reader_of(scalars, here.ranges), here.index
    place = place_of(scalars, reader.element(indices, index), x.type.shape[axis] - 1)
    at = (*index[:axis], place, *index[axis + 1 :])
    body = _written(e, scalars, reader.element(updates, index), Target(to, at), dtype)
    order = [a for a in range(len(shape)) if a != axis] + [axis]
    return Loops(tuple(here.names[a] for a in order), tuple(shape[a] for a in order)).around(body)


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


def replaced(e: Equation, reader_of: ReaderOf, to: str) -> tuple[Node, ...]:
    """The part alone, into a buffer that holds the rest."""
    x, y, *starts = e.inputs
    here, scalars = loops_over(y.type.shape, "u"), Scalars()
    reader, index = reader_of(scalars, here.ranges), here.index
    value = reader.element(y, index)
    if starts:
        at = tuple(
            i + place_of(scalars, reader.element(s, ()), d - n) if d != n else i
            for i, s, d, n in zip(index, starts, x.type.shape, y.type.shape, strict=True)
        )
    else:
        steps = zip(index, e.attributes["start"], e.attributes["step"], strict=True)
        at = tuple(i * step + start for i, start, step in steps)
    return here.around(scalars.statement([value], [Target(to, at)]))


# -- running sums ------------------------------------------------------------------------------------------


def running(
    e: Equation, reader_of: ReaderOf, names: list[str]
) -> tuple[tuple[Node, ...], tuple[Buffer, ...]]:
    """Along one axis in order, over the axes behind it side by side; along the last axis several lanes side
    by side, for each step waits for the one before.
    """
    x, axis = e.inputs[0], e.attributes["axis"]
    shape, dtype = x.type.shape, working(e)
    here, inner = loops_over(shape), shape[axis + 1 :]
    variables, ranges = here.index, here.ranges
    beside = _beside(shape, axis, dtype)
    if beside is not None:
        inner = (beside.together,)
        ranges |= {beside.block: -(-beside.lanes // beside.together), beside.lane: beside.together}
        variables = (*variables[: axis - 1], beside.place, variables[axis])
    state = Buffer("state", dtype, inner, kind="local")
    combine = _RUNNING[e.attributes["kind"]]
    start = identity(combine, dtype) if combine != "logaddexp" else float("-inf")
    begin, fill = Scalars(), Loops(tuple(f"b{axis + 1 + a}" for a in range(len(inner))), inner)
    first = begin.statement([begin.number(start, dtype)], [Target("state", fill.index)])
    place = variables[axis]
    if e.attributes["reverse"]:
        place = as_index(shape[axis] - 1) - place
    index = (*variables[:axis], place, *variables[axis + 1 :])
    scalars = Scalars()
    value = scalars.cast(reader_of(scalars, ranges).element(x, index), dtype)
    to = Target("state", variables[axis + 1 :] if beside is None else (variable(beside.lane),))
    before = scalars.leaf(Load("state", to.index), dtype)
    after = scalars.apply(table[combine], (before, value), dtype, {})
    result = scalars.cast(after, e.outputs[0].type.dtype)
    step: Node = scalars.statement([after, *[result] * len(names)], [to, *(Target(n, index) for n in names)])
    if beside is not None:
        step = Loop(beside.lane, beside.extent, (step,))
    walk = Loops(here.names[axis:], shape[axis:]).around(step)
    around = Loops(here.names[:axis], shape[:axis])
    if beside is not None:
        around = Loops((*around.names[:-1], beside.block), (*around.shape[:-1], ranges[beside.block]))
    body = around.around(*fill.around(first), *walk)
    # One node; without loops around, a loop of one iteration.
    return body if len(body) == 1 else (loop("whole", 1, *body),), (state,)


# Bytes of lanes walked together; of more, lines that lie a power of two apart push each other out.
_TOGETHER = 32


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
