"""fuse: the equations of a graph to fusions, each of which becomes one kernel (or a few).

Enters: a graph after all other passes, and a target's `FusionPolicy`. Leaves: a graph of `fusion` equations,
large `constant`s apart. Groups are numbered as they begin; an equation may join only the newest group among
those that make its operands, so every group reads older ones alone and no cycle can arise. Constants,
broadcasts and counters float: each reader has its own copy, which costs no memory. So do short chains of
cheap equations over one large value that several groups read. Reductions of one large value stand side by
side in one group.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import field
from typing import Any

from trilobite.base.records import dataclass
from trilobite.compiler.graph.floating import MOVES, Floating, is_symbolic
from trilobite.compiler.graph.overlap import overlap
from trilobite.compiler.graph.passes.rules.pointwise import POINTWISE
from trilobite.compiler.graph.regions import ALIASES, CONTROL, with_regions
from trilobite.compiler.graph.share_kernels import share_kernels
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitives.fusion import fusion
from trilobite.ir.types import size_of

_PIECES = frozenset({"slice", "reverse", "concatenate"})
_REDUCTIONS = frozenset({"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"})


@dataclass(frozen=True)
class Kind:
    """Who can run a region as one kernel. `accepts` gives None, or the reason why not."""

    name: str
    accepts: Callable[[Graph], str | None]


@dataclass(frozen=True)
class FusionPolicy:
    """What a target fuses: the kinds of kernels it has, which primitive begins a group of which kind (all
    others begin loops), and how large things are for it: every figure is the target's own.
    """

    kinds: Mapping[str, Kind]
    roots: Mapping[str, str]
    largest: int  # equations of a group: beyond that a kernel gains nothing and takes long to compile
    constant: int  # elements of a constant that is written into kernels
    from_memory: int  # elements: more than a cache keeps until they are read again
    transposed: int  # elements of a transpose that stands alone: more than the first cache holds
    chain: int  # cheap equations that are computed again by each reader rather than written and read
    joined: int | None = None  # elements of a join from which on each operand is written into its part of it
    codes: bool = False  # numbers of a grid are made by whoever reads them, not written to memory
    narrow: bool = False  # a wider form of a value is made by whoever reads it, not written to memory
    widens: Callable[[Equation, Set[str]], bool] | None = None  # do kernels of these primitives make a cast?


@dataclass
class _Group:
    kind: str
    equations: list[Equation]  # its own
    body: list[Equation]  # with copies of the floating ones that they read when they joined
    why: str = ""
    refusals: list[str] = field(default_factory=list)  # why equations that tried to join could not
    largest: int = 0  # elements of the largest value that they read or make, if sizes are known
    symbolic: bool = False  # is the size of one of these values a symbol?
    single: bool = True  # are they all single numbers?
    in_parts: bool = False  # is there a join into whose parts other equations of the group write?

    def enter(self, e: Equation) -> None:
        self.equations.append(e)
        for v in (*e.inputs, *e.outputs):
            known = [d for d in v.type.shape if isinstance(d, int)]
            self.symbolic |= len(known) < v.type.ndim
            self.single &= v.type.ndim == 0
            self.largest = max(self.largest, math.prod(known))


class _Fuser(Floating):
    def __init__(self, graph: Graph, policy: FusionPolicy) -> None:
        super().__init__(graph, policy)
        self.graph, self.kinds = graph, policy.kinds
        self.groups: list[_Group] = []
        self.made: dict[Var, int] = {}  # the group that makes a value
        self.behind: dict[Var, int] = {}  # for an alias: the group that must have run
        self.constants: list[Equation] = []
        self.aliases: dict[int, list[Equation]] = {}  # by the group after which they stand; -1: at the start
        self.reduced: dict[
            tuple[Any, ...], int
        ] = {}  # large value, shape, axes: the newest loops that reduce it

    # -- growing ---------------------------------------------------------------------------------------------

    def add(self, e: Equation) -> None:
        name = e.primitive.name
        if name == "constant" and e.attributes["value"].array.size > self.policy.constant:
            self.constants.append(e)
        elif self._costs_nothing(e):
            self.floating[e.outputs[0]] = e
        elif name in ALIASES:
            self._alias(e)
        elif name in CONTROL:
            self._control(e)
        elif self._only_widens(e) or self._reads_codes(e):
            self.floating[e.outputs[0]] = e
        elif self._join(e) or self._stand_beside(e):
            return
        elif self._waits(e) or self._is_cheaper_again(e):
            self.floating[e.outputs[0]] = e
        else:
            self._begin(e)

    def _alias(self, e: Equation) -> None:
        self._materialise(e.inputs)
        at = self._oldest_allowed(e.inputs[0])
        self.behind[e.outputs[0]] = at
        self.aliases.setdefault(at, []).append(e)

    def _oldest_allowed(self, v: Var) -> int:
        """The group that must have run before a value can be read from memory; -1 for inputs."""
        return self.behind.get(v, self.made.get(v, -1))

    def _join(self, e: Equation) -> bool:
        direct = [self.made[v] for v in self._sources(e) if v in self.made]
        if not direct or not e.outputs:  # what gives nothing is there for its effect
            return False
        at = max(direct)
        group = self.groups[at]
        if group.kind not in self.kinds or _length(self._with_copies(group.body, e)) > self.policy.largest:
            return False
        if any(self.behind[v] >= at for v in self._sources(e) if v in self.behind):
            return False
        if group.kind == "loops" and any(map(self._is_large_transpose, (e, *group.equations))):
            return False  # moved through registers in squares, which other work would keep from being so
        parts = self._writes_parts(group, e)
        reason = None
        if group.in_parts and e.primitive.name not in _PIECES:
            reason = "every element would ask which part of a join it is read from"
        elif not parts and self._grows(group, e):
            reason = "it would repeat the group's work for every element"
        if reason is None:
            reason = self.kinds[group.kind].accepts(self._region_with(e, group))
        if reason is not None:
            group.refusals.append(f"{e.primitive.name} ({e.location}) stayed out: {reason}")
            return False
        group.in_parts |= parts
        self._enter(e, at)
        return True

    def _writes_parts(self, group: _Group, e: Equation) -> bool:
        """A large join of what elementwise work of the group makes for it alone (and slices of that, as where
        an edge is reflected): every operand is written straight into its part.
        """
        least = self.policy.joined
        if e.primitive.name != "concatenate" or group.kind != "loops" or least is None:
            return False
        if any(map(is_symbolic, (*e.inputs, *e.outputs))) or size_of(e.outputs[0].type.shape) < least:
            return False
        inside = {v for x in group.equations for v in x.outputs}
        mine = [v for v in e.inputs if v in inside]
        alone = all(self.read_by[v] <= _PIECES and v not in self.results for v in mine)
        return alone and all(x.primitive.name in POINTWISE | _PIECES for x in group.equations)

    def _is_large_transpose(self, e: Equation) -> bool:
        """A transpose that moves the last axis of much data."""
        if e.primitive.name != "transpose" or e.attributes["axes"][-1:] == (e.outputs[0].type.ndim - 1,):
            return False
        out = e.outputs[0]
        return not is_symbolic(out) and bool(size_of(out.type.shape) >= self.policy.transposed)

    def _stand_beside(self, e: Equation) -> bool:
        """A reduction, or what only one reads, joins the newest loops that reduce the same axes of a value
        from memory which it reads, too: one pass over that for both. They read nothing newer than it does.
        """
        if not e.outputs:
            return False
        reduction = e if e.primitive.name in _REDUCTIONS else self.only_reader.get(e.outputs[0])
        if reduction is None or reduction.primitive.name not in _REDUCTIONS:
            return False
        if reduction is not e and (e.primitive.name not in POINTWISE or e.outputs[0] in self.results):
            return False
        sources = self._sources(e)
        key = reduction.inputs[0].type.shape, reduction.attributes["axes"]
        at = max((self.reduced.get((v, *key), -1) for v in sources), default=-1)
        if at <= max((self._oldest_allowed(v) for v in sources), default=-1):
            return False
        group = self.groups[at]
        if _length(self._with_copies(group.body, e)) > self.policy.largest:
            return False
        if self.kinds[group.kind].accepts(self._region_with(e, group)) is not None:
            return False
        self._enter(e, at)
        return True

    @staticmethod
    def _grows(group: _Group, e: Equation) -> bool:
        """Is the group's work on fewer elements than the equation's? A scalar is read, not made by each."""
        if group.symbolic or any(map(is_symbolic, e.outputs)):
            return group.single and bool(e.outputs[0].type.shape)
        return bool(group.largest < size_of(e.outputs[0].type.shape))

    def _begin(self, e: Equation) -> None:
        kind = self.policy.roots.get(e.primitive.name, "loops")
        why = "no kind runs it" if kind not in self.kinds else self._refusal(kind, e)
        if why is not None and kind in self.kinds and any(v in self.floating for v in e.inputs):
            self._materialise(e.inputs)
            why = self._refusal(kind, e)
        if why is not None and kind != "loops" and "loops" in self.kinds:
            kind, first = "loops", why
            why = self._refusal(kind, e)
            why = None if why is None else f"{first}; {why}"
        if why is not None:
            self._materialise(e.inputs)
        self.groups.append(_Group("host" if why is not None else kind, [], [], why or ""))
        self._enter(e, len(self.groups) - 1)

    def _refusal(self, kind: str, e: Equation) -> str | None:
        return self.kinds[kind].accepts(self._region_with(e))

    def _control(self, e: Equation) -> None:
        """A kind of its own: its regions are fused by themselves, and the rest of it is jumps."""
        self._materialise(e.inputs)
        self.groups.append(_Group(e.primitive.name, [], []))
        self._enter(with_regions(e, lambda g: fuse(g, self.policy)), len(self.groups) - 1)

    def _enter(self, e: Equation, at: int) -> None:
        group = self.groups[at]
        group.body = self._with_copies(group.body, e)
        group.enter(e)
        if group.kind == "loops" and e.primitive.name in _REDUCTIONS and not is_symbolic(e.inputs[0]):
            self._note_reduction(e, at)
        for v in e.outputs:
            self.made[v] = at

    def _note_reduction(self, e: Equation, at: int) -> None:
        shape, group = e.inputs[0].type.shape, self.groups[at]
        if size_of(shape) < self.policy.from_memory:
            return
        inside = {v for x in group.body for v in x.outputs}
        for v in dict.fromkeys(v for x in group.body for v in x.inputs if v not in inside):
            if v.type.shape == shape:
                self.reduced[v, shape, e.attributes["axes"]] = at

    def _materialise(self, values: Sequence[Var]) -> None:
        """Values that a kernel must find in memory: floating ones become groups of their own."""
        for v in values:
            if v in self.floating:
                e = self.floating.pop(v)
                self._begin(e)

    # -- regions ---------------------------------------------------------------------------------------------

    def _region_with(self, e: Equation, group: _Group | None = None) -> Graph:
        """What a group would be with this equation."""
        own, body = ([], []) if group is None else (group.equations, group.body)
        return self._region([*own, e], self._with_copies(body, e))

    def _region(self, own: Sequence[Equation], body: Sequence[Equation], name: str = "region") -> Graph:
        """Every value that is not read inside alone is an output."""
        inside = {v for e in body for v in e.outputs}
        inputs = dict.fromkeys(v for e in body for v in e.inputs if v not in inside)
        return Graph(tuple(inputs), body, self._outputs(own, body), name)

    def _outputs(self, equations: Sequence[Equation], body: Sequence[Equation]) -> list[Var]:
        inner: dict[Var, int] = {}
        mine = {id(e) for e in equations}
        for e in reversed(body):  # a floating equation counts as inside if all its readers are
            if id(e) in mine or self.readers.get(e.outputs[0], 0) == inner.get(e.outputs[0], 0):
                for v in e.inputs:
                    inner[v] = inner.get(v, 0) + 1
        return [
            v
            for e in equations
            for v in e.outputs
            if v in self.results or self.readers.get(v, 0) > inner.get(v, 0) or v not in self.readers
        ]

    # -- the fused graph -------------------------------------------------------------------------------------

    def graph_of_fusions(self) -> Graph:
        self._materialise([v for v in self.graph.outputs if v in self.floating])
        out = [*self.constants, *map(self._alias_fusion, self.aliases.get(-1, ()))]
        for at, group in enumerate(self.groups):
            out.append(self._fusion(group))
            out += map(self._alias_fusion, self.aliases.get(at, ()))
        return Graph(self.graph.inputs, out, self.graph.outputs, self.graph.name)

    def _alias_fusion(self, e: Equation) -> Equation:
        return self._fusion(_Group("alias", [e], [e]))

    def _fusion(self, group: _Group) -> Equation:
        region = self._region(group.equations, group.body, _name(group.equations))
        attributes = {"kind": group.kind, "region": region, **({"why": group.why} if group.why else {})}
        if group.refusals:
            attributes["apart"] = tuple(group.refusals)
        return Equation(fusion, region.inputs, attributes, region.outputs, group.equations[-1].location)


def _name(equations: Sequence[Equation]) -> str:
    names = [e.primitive.name for e in equations if e.primitive.name not in ("broadcast", "constant", "full")]
    return "_".join(names if len(names) <= 4 else [*names[:2], str(len(names) - 3), names[-1]]) or "constant"


def _length(body: Sequence[Equation]) -> int:
    return sum(e.primitive.name not in MOVES for e in body)


def fuse(graph: Graph, policy: FusionPolicy) -> Graph:
    """A graph of fusions, and of constants that are too large for kernels."""
    fuser = _Fuser(graph, policy)
    for e in _scalars_first(graph):
        fuser.add(e)
    return overlap(share_kernels(fuser.graph_of_fusions(), policy.kinds))


def _scalars_first(graph: Graph) -> list[Equation]:
    """Arithmetic on single numbers that come from outside (step counts, learning rates) before all else: what
    reads them can then join any group.
    """
    early: list[Equation] = []
    late: list[Equation] = []
    known = {v for v in graph.inputs if not v.type.shape}
    for e in graph.equations:
        single = all(not v.type.shape for v in e.outputs) and all(v in known for v in e.inputs)
        if single and not e.primitive.effect and not any(True for _ in e.regions()):
            known.update(e.outputs)
            early.append(e)
        else:
            late.append(e)
    return early + late
