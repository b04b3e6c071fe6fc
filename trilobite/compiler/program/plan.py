"""plan: a fused graph to a Program. Which kernels run in which order, and where every buffer lies.

Enters: a graph whose equations are all `fusion`s (and large `constant`s), the lowerings by kind, numbers for
its symbolic sizes, and which inputs the caller gives away. Leaves: a `Program`. It does not compile anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from trilobite.base.errors import IRError, PlanError
from trilobite.compiler.program.kernels import Kernel, Lower, Lowering, Operand
from trilobite.compiler.program.memory import Interval, pack
from trilobite.compiler.program.plan_control import Nested, Setting, is_control, nested
from trilobite.compiler.program.program import (
    Arrival,
    Call,
    Exchange,
    HostCall,
    Place,
    Program,
    Step,
    Value,
)
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.types import Dim, Symbol, TensorType, substitute

_MOST = 1 << 46  # bytes: more than any machine's memory


class Rank:
    """What other ranks take part in: it begins, or has arrived."""


Lowered = Lowering | Nested | Rank | str | None


class _Plan:
    """One run of planning: filled in order, then closed into a Program."""

    def __init__(self, graph: Graph, sizes: Mapping[Symbol, int], donated: Mapping[int, int]) -> None:
        self.graph, self.sizes, self.donated = graph, sizes, donated
        self.root: dict[Var, Var] = {}  # what memory a value has: itself, or what it is an alias of
        self.constant: dict[Var, int] = {}
        self.constants: list[np.ndarray[Any, Any]] = []
        self.first: dict[Var, int] = {}
        self.last: dict[Var, int] = {}
        self.shared: dict[Var, Var] = {}  # a value that takes over the memory of one that dies there
        self.reuses: dict[int, int] = {}

    # -- sizes -----------------------------------------------------------------------------------------------

    def number(self, d: Dim) -> int:
        return d if type(d) is int else int(substitute(d, self.sizes))

    def shape(self, t: TensorType) -> tuple[int, ...]:
        return tuple(self.number(d) for d in t.shape)

    def bytes(self, v: Var) -> int:
        total = v.type.dtype.itemsize
        for d in v.type.shape:
            total *= self.number(d)
        return total

    # -- lives -----------------------------------------------------------------------------------------------

    def owner(self, v: Var) -> Var:
        """Whose memory a value has, sharing included."""
        v = self.root.get(v, v)
        while v in self.shared:
            v = self.shared[v]
        return v

    def find_lives(self) -> None:
        for v in self.graph.inputs:
            self.first[v] = -1
        for at, e in enumerate(self.graph.equations):
            for v in e.inputs:
                self.last[self.root.get(v, v)] = at
            if e.primitive.name == "constant":
                self.constant[e.outputs[0]] = len(self.constants)
                self.constants.append(_aligned(e.attributes["value"].array))
            elif is_alias(e) or _is_kind(e, "arrival"):
                self.root[e.outputs[0]] = self.root.get(e.inputs[0], e.inputs[0])
            for v in e.outputs:
                self.first[v] = at
                self.last.setdefault(self.root.get(v, v), at)
        for v in self.graph.outputs:
            self.last[self.root.get(v, v)] = len(self.graph.equations)


def plan(
    graph: Graph,
    lowerings: Mapping[str, Lower],
    sizes: Mapping[Symbol, int] | None = None,
    donated: Mapping[int, int] | None = None,
    copy: Kernel | None = None,
) -> Program:
    """The Program of a fused graph. `donated` maps outputs to the inputs whose memory they may take; `copy`
    is the kernel that copies bytes, which control flow needs.
    """
    p = _Plan(graph, sizes or {}, donated or {})
    p.find_lives()
    lowered = [
        _nested(e, p, lowerings, copy) if is_control(e) else _lower(e, lowerings) for e in graph.equations
    ]
    outputs = _place_outputs(p)
    _share(p, lowered, outputs)
    intervals, owners = _intervals(p, lowered, outputs)
    packing = pack(intervals)
    if packing.peak > _MOST:
        raise PlanError(
            f"{graph.name} would need {packing.peak:,} bytes for its intermediate values",
            expected=f"at most {_MOST:,}",
            remedy="use smaller batches, or tb.checkpoint parts of it",
        )
    offsets = dict(zip(owners, packing.offsets, strict=True))
    placer = _Placer(p, outputs, offsets)
    steps: list[Step] = []
    for at, (e, low) in enumerate(zip(graph.equations, lowered, strict=True)):
        if isinstance(low, Lowering):
            steps += placer.calls(at, e, low)
        elif isinstance(low, Nested):
            steps += placer.control(at, e, low)
        elif isinstance(low, Rank):
            steps.append(placer.exchange(at, e))
        elif low is not None:
            steps.append(placer.host(at, e, low))
    results = tuple(placer.value(v) for v in graph.outputs)
    locations = tuple(e.location for e in graph.equations)
    return Program(tuple(steps), results, tuple(p.constants), packing, p.reuses, locations)


def is_alias(e: Equation) -> bool:
    return _is_kind(e, "alias")


def _is_kind(e: Equation, kind: str) -> bool:
    return e.primitive.name == "fusion" and bool(e.attributes["kind"] == kind)


def _nested(e: Equation, p: _Plan, lowerings: Mapping[str, Lower], copy: Kernel | None) -> Nested:
    (inner,) = e.attributes["region"].equations
    if copy is None:
        raise IRError("control flow in a graph planned without a kernel that copies", where=e.location)
    return nested(inner, lambda g, given: plan(g, lowerings, p.sizes, given, copy), p.number, copy)


def _aligned(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same array, contiguous from a 64-byte boundary on."""
    raw = np.empty(array.nbytes + 64, np.uint8)
    start = -raw.ctypes.data % 64
    out: np.ndarray[Any, Any] = raw[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def _lower(e: Equation, lowerings: Mapping[str, Lower]) -> Lowering | Rank | str | None:
    """A lowering; or for the host, why it runs there; or None for what needs no step."""
    if e.primitive.name == "constant" or is_alias(e):
        return None
    if e.primitive.name != "fusion":
        raise IRError(
            f"a {e.primitive.name} equation in a graph to plan", expected="fusions", where=e.location
        )
    kind = e.attributes["kind"]
    if kind in ("exchange", "arrival"):
        return Rank()
    if kind == "host":
        return str(e.attributes.get("why", ""))
    return lowerings[kind](e)


# -- outputs and sharing -------------------------------------------------------------------------------------


def _place_outputs(p: _Plan) -> dict[Var, int]:
    """Values that are computed straight into the memory of a result: each can serve one, and first that for
    which an input was given away.
    """
    out: dict[Var, int] = {}
    inputs = set(p.graph.inputs)
    for k, v in sorted(enumerate(p.graph.outputs), key=lambda kv: kv[0] not in p.donated):
        root = p.root.get(v, v)
        if root not in inputs and root not in p.constant and root not in out:
            out[root] = k
    return out


def _share(p: _Plan, lowered: Sequence[Lowered], outputs: dict[Var, int]) -> None:
    """Let results of elementwise work take over the memory of operands that die there."""
    number = {v: i for i, v in enumerate(p.graph.inputs)}
    taken: set[Var] = set()
    for at, (e, low) in enumerate(zip(p.graph.equations, lowered, strict=True)):
        if not isinstance(low, Lowering):
            continue
        for o, i in low.in_place:
            result, operand = e.outputs[o], p.root.get(e.inputs[i], e.inputs[i])
            if p.last[operand] != at or operand in taken or operand in p.constant or result in p.shared:
                continue
            if p.bytes(result) != p.bytes(operand) or _read_elsewhere(p, e, i, operand):
                continue
            if operand in number:
                k = outputs.get(result)
                if k is not None and p.donated.get(k) == number[operand]:
                    p.reuses[k] = number[operand]
                    taken.add(operand)
            elif operand not in outputs and result not in outputs:
                p.shared[result] = operand
                taken.add(operand)
                mine = p.owner(result)
                p.last[mine] = max(p.last[mine], p.last[result])


def _read_elsewhere(p: _Plan, e: Equation, i: int, operand: Var) -> bool:
    return any(k != i and p.root.get(v, v) is operand for k, v in enumerate(e.inputs))


def _intervals(
    p: _Plan, lowered: Sequence[Lowered], outputs: dict[Var, int]
) -> tuple[list[Interval], list[Any]]:
    intervals: list[Interval] = []
    owners: list[Any] = []
    for at, (e, low) in enumerate(zip(p.graph.equations, lowered, strict=True)):
        if low is None or _is_kind(e, "arrival"):
            continue
        for v in e.outputs:
            if v not in outputs and v not in p.shared:
                intervals.append(Interval(at, p.last[v], p.bytes(v)))
                owners.append(v)
        for n, size in enumerate(low.temporaries if isinstance(low, Lowering | Nested) else ()):
            intervals.append(
                Interval(at, at, prod(map(p.number, size if isinstance(size, tuple) else (size,))))
            )
            owners.append((at, n))
    return intervals, owners


# -- places --------------------------------------------------------------------------------------------------


class _Placer:
    """From values and operands to places."""

    def __init__(self, p: _Plan, outputs: dict[Var, int], offsets: Mapping[Any, int]) -> None:
        self.p, self.outputs, self.offsets = p, outputs, offsets
        self.input = {v: i for i, v in enumerate(p.graph.inputs)}
        self.own: dict[int, int] = {}  # constants of lowerings, by identity

    def place(self, v: Var) -> Place:
        v = self.p.owner(v)
        if v in self.input:
            return Place("input", self.input[v])
        if v in self.p.constant:
            return Place("constant", self.p.constant[v])
        if v in self.outputs:
            return Place("output", self.outputs[v])
        return Place("arena", 0, self.offsets[v])

    def value(self, v: Var) -> Value:
        return Value(self.place(v), self.p.shape(v.type), v.type.dtype)

    def calls(self, at: int, e: Equation, low: Lowering) -> list[Call]:
        nbytes = sum(self.p.bytes(v) for v in (*e.inputs, *e.outputs))
        return [
            Call(
                s.kernel,
                tuple(self.word(a, at, e, low) for a in s.args),
                self.p.number(s.units),
                at,
                s.flops,
                nbytes if n == 0 else 0,
                s.serial,
                s.whole,
            )
            for n, s in enumerate(low.steps)
        ]

    def word(self, a: Operand | Dim, at: int, e: Equation, low: Lowering) -> Place | int:
        if not isinstance(a, Operand):
            return self.p.number(a)
        if a.role == "temporary":
            base = Place("arena", 0, self.offsets[at, a.index])
        elif a.role == "constant":
            base = Place("constant", self.lowering_constant(low.constants[a.index]))
        else:
            base = self.place((e.inputs if a.role == "in" else e.outputs)[a.index])
        return Place(base.space, base.index, base.offset + self.p.number(a.offset))

    def lowering_constant(self, array: np.ndarray[Any, Any]) -> int:
        if id(array) not in self.own:
            self.own[id(array)] = len(self.p.constants)
            self.p.constants.append(_aligned(array))
        return self.own[id(array)]

    def control(self, at: int, e: Equation, nested: Nested) -> list[Step]:
        (inner,) = e.attributes["region"].equations
        ins, outs = ([self.value(v) for v in vs] for vs in (inner.inputs, inner.outputs))
        temporaries = [Place("arena", 0, self.offsets[at, n]) for n in range(len(nested.temporaries))]
        return nested.steps(Setting(at, ins, outs, temporaries, self.lowering_constant))

    def exchange(self, at: int, e: Equation) -> Exchange | Arrival:
        """An arrival has the number of the equation that makes what it waits for."""
        if _is_kind(e, "arrival"):
            return Arrival(self.p.first[e.inputs[0]], at)
        (inner,) = e.attributes["region"].equations
        attributes = {k: substitute(v, self.p.sizes) for k, v in inner.attributes.items()}
        ins = tuple(self.value(v) for v in e.inputs)
        output = self.value(e.outputs[0])
        return Exchange(inner.primitive.name, attributes, ins, output, at, inner.location, at)

    def host(self, at: int, e: Equation, why: str) -> HostCall:
        (inner,) = e.attributes["region"].equations
        attributes = {k: substitute(v, self.p.sizes) for k, v in inner.attributes.items()}
        ins, outs = (tuple(self.value(v) for v in vs) for vs in (inner.inputs, inner.outputs))
        return HostCall(inner, attributes, ins, outs, at, why)
