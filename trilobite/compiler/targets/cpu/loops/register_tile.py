"""The micro-kernel `register_tile`: a sum of products whose results stay in registers while its loop runs.

Enters: loops `k`, `i`, `j` directly inside each other around `c[.., j] += a[..] * b[.., j]`, where `c` does
not move with `k`, `a` not with `j` and `b` not with `i`. Leaves: code that reads a tile of `c` once, adds all
iterations of `k` to it in registers, and writes it once. Tiles that are not whole run plainly. Each
element adds its products in the order of `k`.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

from trilobite.base.dtypes import DType, float32, float64, int32, int64
from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.emit_values import Scope
from trilobite.compiler.targets.cpu.loops.index import Index
from trilobite.compiler.targets.cpu.loops.ir import Buffer, Load, Loop, Nest, Node, Statement
from trilobite.native.host import features
from trilobite.native.llvm.text import Text, Value

DOC = "loops k, i, j, the last two of fixed extents, around c[.., j] += a[..] * b[.., j]"
MOST = 28  # accumulators; more do not stay in registers on any machine
_DTYPES = (float32, float64, int32, int64)
_TOGETHER = 4  # iterations of k that are written out


@dataclass(frozen=True)
class _Product:
    """The three loops, and where an element of each array is."""

    k: Loop
    i: Loop
    j: Loop
    dtype: DType
    sums: tuple[Buffer, Index]
    row: tuple[Buffer, Index]  # the factor that is one number for all of j
    column: tuple[Buffer, Index]  # the factor that is the same for all of i

    @property
    def lanes(self) -> int:
        """Those of the widest registers that hold tiles, where they are filled; the bits are the same."""
        host, size = features(), self.dtype.itemsize
        wide = host.tile_lanes(size) if self.dtype.kind == "f" else host.lanes(size)
        return host.lanes(size) if size_of(self.j) % wide else wide

    @property
    def vectors(self) -> int:
        return size_of(self.j) // self.lanes

    @property
    def filled(self) -> tuple[Loop, ...]:
        return self.i, self.j

    def emit(self, scope: Scope) -> None:
        _tile(scope, self)


def size_of(node: Loop) -> int:
    """The largest number of iterations that stands in the text; 0 if there is none."""
    known = [e.constant for e in node.extent if e.is_constant and isinstance(e.constant, int)]
    return min(known, default=0)


def _inside(node: Loop) -> Node | None:
    return node.body[0] if len(node.body) == 1 and not node.start else None


def matched(nest: Nest, k: Loop) -> _Product | str:
    i = _inside(k)
    j = _inside(i) if isinstance(i, Loop) else None
    s = _inside(j) if isinstance(j, Loop) else None
    if not isinstance(i, Loop) or not isinstance(j, Loop) or not isinstance(s, Statement):
        return "it is not three loops around one statement"
    if k.start or [e.primitive.name for e in s.body.equations] != ["mul"] or len(s.targets) != 1:
        return "its statement is not one product"
    target, leaves = s.targets[0], [leaf for leaf in s.leaves if isinstance(leaf, Load) and not leaf.guards]
    if target.combine != "add" or len(leaves) != 2 or nest.buffer(target.buffer).dtype not in _DTYPES:
        return "its statement does not add products of two elements of 32 or 64 bits"
    places = [(nest.buffer(x.buffer), nest.buffer(x.buffer).flat(x.index)) for x in leaves]
    sums = nest.buffer(target.buffer), nest.buffer(target.buffer).flat(target.index)
    if target.buffer in (leaves[0].buffer, leaves[1].buffer):
        return f"{target.buffer} is read by its own sum"
    for row, column in (places, places[::-1]):
        if j.var not in row[1].variables and i.var not in column[1].variables:
            return _checked(_Product(k, i, j, sums[0].dtype, sums, row, column))
    return f"no factor stays while {i.var} moves and the other while {j.var} does"


def _checked(p: _Product) -> _Product | str:
    if p.k.var in p.sums[1].variables:
        return f"its result moves with {p.k.var}"
    if any(place[1].coefficient(p.j.var) != 1 for place in (p.sums, p.column)):
        return f"its result or a factor does not lie along {p.j.var}"
    rows, columns = size_of(p.i), size_of(p.j)
    if not rows or not columns or columns % p.lanes:
        return f"the extent of {p.j.var} is not a multiple of {p.lanes}, or {p.i.var} has none"
    if rows * p.vectors > MOST:
        return f"{rows} x {p.vectors} vectors are more than {MOST} registers"
    return p


def _tile(scope: Scope, p: _Product) -> None:
    t = scope.text
    spots = []
    for i in range(size_of(p.i)):
        for v in range(p.vectors):
            with _at(scope, p, i, v):
                spots.append(t.address(scope.pointers[p.sums[0].name], scope.index(p.sums[1]), p.dtype))
    sums = [t.load(p.dtype, spot, p.lanes) for spot in spots]
    iterations = scope.extent(p.k)
    whole = t.and_(iterations, -_TOGETHER)
    with t.loop(0, whole, _TOGETHER, carried=sums, name=p.k.var) as k:
        found = list(k.values)
        for u in range(_TOGETHER):
            found = _step(scope, p, t.add(k.index, u), found)
        k.next(*found)
    with t.loop(whole, iterations, carried=k.results, name=p.k.var) as k:
        k.next(*_step(scope, p, k.index, list(k.values)))
    for spot, value in zip(spots, k.results, strict=True):
        t.store(p.dtype, value, spot)


def _at(scope: Scope, p: _Product, i: int, v: int) -> AbstractContextManager[None]:
    number = scope.text.constant
    return scope.entered({p.i.var: number("i64", i), p.j.var: number("i64", v * p.lanes)})


def _step(scope: Scope, p: _Product, k: Value, sums: list[Value]) -> list[Value]:
    """One iteration of k for the whole tile."""
    t = scope.text
    columns, out = [], []
    with scope.entered({p.k.var: k}):
        for v in range(p.vectors):
            with _at(scope, p, 0, v):
                columns.append(t.load(p.dtype, scope.pointer(*p.column), p.lanes))
        for i in range(size_of(p.i)):
            with _at(scope, p, i, 0):
                row = t.splat(t.load(p.dtype, scope.pointer(*p.row)), p.lanes)
            for v, column in enumerate(columns):
                out.append(_added(t, row, column, sums[i * p.vectors + v], p.dtype))
    return out


def _added(t: Text, a: Value, b: Value, c: Value, dtype: DType) -> Value:
    """Floats are rounded once, as kernels of products do."""
    return t.fma(a, b, c) if dtype.kind == "f" else t.add(t.mul(a, b), c)
