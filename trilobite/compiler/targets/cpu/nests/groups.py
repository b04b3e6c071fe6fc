"""Which values of a region are written to memory, and which of them are computed by one nest.

Enters: a prepared region. Leaves: `Group`s in order. A root is a reduction, an output, or a value that names
places; everything between is computed where it is used. Kinds of groups:

    map      elementwise and data movement over one shape
    rows     reductions over axes that include the last one, and what is computed from the same rows: the row
             is walked through several times while it is in the cache
    columns  reductions that keep the last axis
    blocks   few, long rows: partial results of fixed blocks first
    write    a scatter or a running sum, by itself
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from trilobite.base.records import dataclass
from trilobite.compiler.targets.cpu.loops.index import Index, upper, variable
from trilobite.compiler.targets.cpu.loops.ir import loops_over
from trilobite.compiler.targets.cpu.nests.classes import COMBINE, RENEWALS, WRITES
from trilobite.compiler.targets.cpu.nests.defaults import BLOCK
from trilobite.compiler.targets.cpu.nests.movement import place_operands
from trilobite.compiler.targets.cpu.nests.reader import ELEMENTWISE, CannotRead, Reader, Source
from trilobite.compiler.targets.cpu.nests.rewrite import producers
from trilobite.compiler.targets.cpu.nests.scalars import Scalars
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Dim, Shape, TensorType

DEAR, MANY = 3, 16  # operations of a value, and rows it is repeated over, that make it worth memory
RENEWS = 4  # how many times as large a value must be for replacing a part of it in place
ROOM = 1 << 18  # elements of the state of a running sum


@dataclass(frozen=True)
class Root:
    """A value that is written to memory."""

    var: Var
    reduction: Equation | None = None
    write: Equation | None = None  # a scatter or a running sum

    @property
    def operand(self) -> Var:
        """The value whose elements are computed for it."""
        return self.var if self.reduction is None else self.reduction.inputs[0]

    @property
    def axes(self) -> tuple[int, ...]:
        return () if self.reduction is None else tuple(self.reduction.attributes["axes"])

    @property
    def combine(self) -> str:
        assert self.reduction is not None
        return COMBINE[self.reduction.primitive.name]


@dataclass
class Group:
    kind: Literal["map", "rows", "columns", "blocks", "write"]
    shape: Shape
    axes: tuple[int, ...] = ()
    roots: list[Root] = field(default_factory=list)

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(a for a in range(len(self.shape)) if a not in self.axes)

    @property
    def kept_shape(self) -> Shape:
        return tuple(self.shape[a] for a in self.kept)

    @property
    def reduced_shape(self) -> Shape:
        return tuple(self.shape[a] for a in self.axes)

    def row_index(self) -> tuple[Index, ...]:
        """The index of the row that is being computed."""
        return tuple(variable(f"o{a}") for a in self.kept)

    def index(self, prefix: str) -> tuple[Index, ...]:
        """The index of an element of that row; `prefix` names the variables inside the row."""
        return tuple(variable(f"{prefix}{a}" if a in self.axes else f"o{a}") for a in range(len(self.shape)))

    def ranges(self, prefix: str) -> dict[str, Dim]:
        return {f"{prefix if a in self.axes else 'o'}{a}": d for a, d in enumerate(self.shape)}


def size(shape: Shape) -> float:
    """Elements, at the largest sizes."""
    total = 1.0
    for d in shape:
        total *= upper(d)
    return total


class Groups:
    """The groups of a region."""

    def __init__(self, region: Graph) -> None:
        self.region, self.producers = region, producers(region)
        self.inputs: dict[Var, Source] = {v: Source(f"x{i}") for i, v in enumerate(region.inputs)}
        self._constants()
        self.groups: list[Group] = []
        self.group_of: dict[Var, int] = {}
        self._direct: dict[Var, frozenset[Var]] = {}
        self._apart = self._needed_apart()
        self._renewed = self._renewals()
        for root in self._roots():
            self._place(root)

    def _constants(self) -> None:
        self.constants: list[Var] = []
        for e in self.region.equations:
            if e.primitive.name == "constant":
                self.inputs[e.outputs[0]] = Source(f"c{len(self.constants)}")
                self.constants.append(e.outputs[0])

    def _roots(self) -> list[Root]:
        """In order of the equations; outputs that are inputs come first."""
        wanted = set(self.region.outputs)
        wanted |= self._apart
        roots = [Root(v) for v in dict.fromkeys(self.region.outputs) if v in self.inputs]
        for e in self.region.equations:
            v = e.outputs[0]
            if e.primitive.name in COMBINE:
                roots.append(Root(v, e))
            elif e.primitive.name in WRITES or v in self._renewed:
                roots.append(Root(v, write=e))
            elif v in wanted and v not in self.inputs:
                roots.append(Root(v))
        return roots

    def _stands(self, v: Var) -> bool:
        """Can an element of v be read from memory as it is?"""
        while v not in self.inputs:
            e = self.producers[v]
            if e.primitive.name not in ("broadcast", "transpose", "reshape", "slice", "reverse", "barrier",
                                        "stop_gradient"):  # fmt: skip
                return False
            v = e.inputs[0]
        return True

    # -- dependences ---------------------------------------------------------------------------------------

    def direct(self, v: Var) -> frozenset[Var]:
        """The roots that must be in memory before v can be computed."""
        if not self._direct:
            for e in self.region.equations:
                found: set[Var] = set()
                for u in e.inputs:
                    found |= {u} if self.materialised(u) else self._direct.get(u, frozenset())
                for out in e.outputs:
                    self._direct[out] = frozenset(found)
        return self._direct.get(v, frozenset())

    def _renewals(self) -> set[Var]:
        """Outputs that are an input with a small part of it replaced: only that part is written where the two
        share their memory.
        """
        out: set[Var] = set()
        for e in self.region.equations:
            v = e.outputs[0]
            if e.primitive.name in RENEWALS and e.inputs[0] in self.inputs and v in self.region.outputs:
                part, whole = size(e.inputs[1].type.shape), size(v.type.shape)
                out |= {v} if part * RENEWS <= whole else set()
        return out

    def materialised(self, v: Var) -> bool:
        e = self.producers.get(v)
        if v in self._renewed:
            return True
        return e is not None and (
            e.primitive.name in COMBINE or e.primitive.name in WRITES or v in self._apart
        )

    def _needed_apart(self) -> set[Var]:
        """Values that must, or had better, stand in memory: those that name places, and short rows that are
        dear and repeated over many.
        """
        out: set[Var] = set()
        cost: dict[Var, float] = {}
        for e in self.region.equations:
            out |= {v for v in place_operands(e) if not self._stands(v)}
            cost[e.outputs[0]] = _own_cost(e) + sum(cost.get(v, 0.0) for v in e.inputs)
            if e.primitive.name in COMBINE or e.primitive.name in WRITES:
                cost[e.outputs[0]] = 0.0
            if e.primitive.name == "broadcast" and cost.get(e.inputs[0], 0.0) >= DEAR and _repeats_rows(e):
                out.add(e.inputs[0])
        return out

    def needs(self, root: Root) -> frozenset[Var]:
        if root.reduction is None:  # for a write: what its operands need
            return self.direct(root.var)
        operand = root.operand
        return frozenset({operand}) if self.materialised(operand) else self.direct(operand)

    # -- placing -------------------------------------------------------------------------------------------

    def _place(self, root: Root) -> None:
        earliest = max((self.group_of[v] for v in self.needs(root)), default=-1)
        for k in range(max(earliest, 0), len(self.groups)):
            if self._fits(root, k, depends=k == earliest):
                self.groups[k].roots.append(root)
                self.group_of[root.var] = k
                return
        self.groups.append(self._new(root))
        self.group_of[root.var] = len(self.groups) - 1

    def _fits(self, root: Root, k: int, depends: bool) -> bool:
        group = self.groups[k]
        shape = root.operand.type.shape
        if root.write is not None or group.kind == "write":
            return False
        if group.kind != "rows":
            same = group.shape == shape and group.axes == root.axes
            return same and not depends and (root.reduction is None) == (group.kind == "map")
        if root.reduction is None:
            inside = shape in (group.shape, group.kept_shape)
        else:
            inside = shape == group.shape and group.axes == root.axes
        return inside and self._same_rows(root, group)

    def _same_rows(self, root: Root, group: Group) -> bool:
        """Does everything that the root needs from this group belong to the row being computed?"""
        sources = dict(self.inputs)
        for v in self.group_of:
            if self.materialised(v):
                sources[v] = Source("any")
        for member in group.roots:
            if member.reduction is not None:
                sources[member.var] = Source("own", group.row_index(), whole=False)
            elif self.materialised(member.var):
                return False
        reader = Reader(self.producers, sources, group.ranges("i"), Scalars())
        index = group.index("i") if root.operand.type.shape == group.shape else group.row_index()
        try:
            reader.element(root.operand, index)
        except CannotRead:
            return False
        return True

    def check(self) -> None:
        """Raises `CannotRead` where an element of a root has no scalar computation, and `ShapeError` where a
        size is not affine.
        """
        sources = {**self.inputs, **{v: Source("any") for v in self.group_of if self.materialised(v)}}
        for group in self.groups:
            reader = Reader(self.producers, sources, group.ranges("o"), Scalars())
            for root in group.roots:
                if root.write is not None:
                    self._check_write(root.write, sources)
                    continue
                index = group.index("o") if root.operand.type.shape == group.shape else group.row_index()
                reader.element(root.operand, index)

    def _check_write(self, e: Equation, sources: Mapping[Var, Source]) -> None:
        for v in e.inputs:
            here = loops_over(v.type.shape, "w")
            Reader(self.producers, sources, here.ranges, Scalars()).element(v, here.index)
        if (
            e.primitive.name == "cumulative"
            and size(e.inputs[0].type.shape[e.attributes["axis"] + 1 :]) > ROOM
        ):
            raise CannotRead("a running sum whose state is too large for a row")

    def _new(self, root: Root) -> Group:
        shape, axes = root.operand.type.shape, root.axes
        if root.write is not None:
            return Group("write", shape, (), [root])
        if root.reduction is None:
            return Group("map", shape, (), [root])
        if max(axes) < len(shape) - 1:
            return Group("columns", shape, axes, [root])
        kept = size(tuple(d for a, d in enumerate(shape) if a not in axes))
        fixed = all(isinstance(d, int) for d in shape)
        if fixed and kept < 8 and size(shape) / max(kept, 1) > 4 * BLOCK:
            return Group("blocks", shape, axes, [root])
        return Group("rows", shape, axes, [root])


def _own_cost(e: Equation) -> float:
    if e.primitive.name not in ELEMENTWISE:
        return 0.0
    types = [TensorType((), v.type.dtype) for v in (*e.inputs, *e.outputs)]
    return float(e.primitive.cost(types[:-1], types[-1:], e.attributes))


def _repeats_rows(e: Equation) -> bool:
    """Is the last axis of the operand the last of the result, and repeated many times?"""
    x, out = e.inputs[0].type.shape, e.outputs[0].type.shape
    last = bool(x) and e.attributes["axes"][-1] == len(out) - 1 and x[-1] == out[-1]
    return last and size(out) >= MANY * size(x)


def readers_of(groups: Groups) -> Mapping[Var, set[int]]:
    """For each root, the groups that read it."""
    place = {v: i for i, e in enumerate(groups.region.equations) for v in e.outputs}
    out: dict[Var, set[int]] = {}
    for k, group in enumerate(groups.groups):
        for root in group.roots:
            for v in sorted(groups.needs(root), key=place.__getitem__):
                out.setdefault(v, set()).add(k)
    return out
