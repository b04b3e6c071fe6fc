"""Which nodes form compiled graphs and which run between them.

Enters: a graph, the constants that are known, and what kind each outer value is. Leaves: nodes placed on
levels; even levels are compiled, odd ones are host operations. A node runs on the host if it works on
strings, sequences or optionals, if the shape of its result depends on values, or if an operand that decides
a shape is not derived from shapes and constants alone. An If on shapes, a Scan and a counted Loop are
recorded in their place if their bodies hold nothing that runs on the host. Nothing is compiled or computed
here, but for nodes whose operands are all constants: they are replaced by their results.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from enum import Enum

import numpy as np

from trilobite.base.records import dataclass
from trilobite.inference.model import Graph, Node, ValueType
from trilobite.inference.operators import registry
from trilobite.inference.operators.registry import Row
from trilobite.inference.program.apply import apply, is_turned_weight
from trilobite.inference.program.values import Known, is_tensor_dtype
from trilobite.inference.tensors import DTYPES


class Kind(Enum):
    """What the plan knows about a value."""

    SHAPED = "derived from shapes and constants"
    TENSOR = "a tensor that a run gives"
    HOST = "a string tensor, sequence, optional or map"


def kind_of(t: ValueType) -> Kind:
    """How the plan treats an input of this type."""
    plain = t.kind == "tensor" and (t.dtype is None or is_tensor_dtype(t.dtype))
    return Kind.TENSOR if plain else Kind.HOST


@dataclass
class Placed:
    """A node and where it runs."""

    node: Node
    row: Row
    level: int
    shaped: bool = False

    @property
    def host(self) -> bool:
        return self.level % 2 == 1


@dataclass
class Partition:
    """All nodes placed, and the constants, with those that folding added."""

    placed: list[Placed]
    constants: dict[str, Known]
    kinds: dict[str, Kind]
    folded: int = 0


@dataclass
class _State:
    constants: dict[str, Known]
    kinds: dict[str, Kind]
    apart: Collection[Node] = ()
    levels: dict[str, int] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)
    folded: int = 0


_KEPT = {
    "DequantizeLinear",
    "MatMulNBits",
    "Dropout",
}  # folded, they would take more memory or lose a pattern


def partition(
    graph: Graph, constants: Mapping[str, Known], kinds: Mapping[str, Kind], apart: Collection[Node] = ()
) -> Partition:
    """Place every node that an output needs; loops in `apart` are steps of their own, whatever they hold."""
    s = _State(dict(constants), dict(kinds), apart)
    s.constants.update((k, Known(v)) for k, v in graph.constants.items())
    queue = deque(needed(graph))
    while queue:
        node = queue.popleft()
        inlined = _chosen(node, s)
        if inlined is not None:
            queue.extendleft(reversed(inlined))
            continue
        row = registry.find(node.domain, node.op, node.version)
        assert row is not None, node.label()
        if not _fold(node, row, s):
            _place(node, row, s)
    return Partition(s.placed, s.constants, s.kinds, s.folded)


def needed(graph: Graph) -> list[Node]:
    """The nodes that some output depends on, in their order."""
    wanted = {o.name for o in graph.outputs}
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if any(o in wanted for o in node.outputs if o):
            kept.append(node)
            wanted.update(node.reads())
    return kept[::-1]


def _chosen(node: Node, s: _State) -> Sequence[Node] | None:
    """The branch of an If whose condition is a constant, as nodes in its place."""
    if node.op != "If" or node.domain or node.inputs[0] not in s.constants:
        return None
    taken = node.attributes["then_branch" if s.constants[node.inputs[0]].array.all() else "else_branch"]
    s.constants.update((k, Known(v)) for k, v in taken.constants.items())
    pairs = zip(taken.outputs, node.outputs, strict=False)
    copies = [Node("Identity", (o.name,), (name,), {}, "", 16) for o, name in pairs if name]
    return [*taken.nodes, *copies]


def _fold(node: Node, row: Row, s: _State) -> bool:
    if row.host or row.subgraphs or not row.pure or node.op in _KEPT or makes_foreign(node):
        return False
    names = node.reads_in_order()
    operands = [s.constants.get(n) if n else None for n in names]
    if any(n and v is None for n, v in zip(names, operands, strict=True)):
        return False
    if any(v is not None and v.is_host for v in operands):
        return False
    if is_turned_weight(node, operands):
        return False
    results = apply(node, row, operands)
    if not all(isinstance(r, Known) for r in results):
        return False
    s.constants.update((n, r) for n, r in zip(node.outputs, results, strict=False) if n)
    s.folded += 1
    return True


def _place(node: Node, row: Row, s: _State) -> None:
    kinds = [_kind(n, s) for n in node.reads()]
    inline = row.subgraphs and _can_inline(node, s)
    host = row.host or (row.subgraphs and not inline) or Kind.HOST in kinds
    host = host or makes_foreign(node) or _foreign(node, s)
    host = host or _undecided(node, row, s)
    shaped = not host and row.pure and _is_shaped(node, kinds)
    low = max((s.levels.get(n, 0) for n in node.reads()), default=0)
    level = low if low % 2 == host else low + 1
    s.placed.append(Placed(node, row, level, shaped))
    for name, kind in zip(node.outputs, _result_kinds(node, row, kinds, host, shaped), strict=True):
        s.kinds[name], s.levels[name] = kind, level


def _foreign(node: Node, s: _State) -> bool:
    """Is an operand a constant that tensors cannot hold?"""
    return any(n in s.constants and s.constants[n].is_host for n in node.reads())


def makes_foreign(node: Node) -> bool:
    """Does a node convert to a dtype that tensors cannot have?"""
    if node.domain or node.op not in ("Cast", "QuantizeLinear"):
        return False
    code = node.attribute("to" if node.op == "Cast" else "output_dtype")
    return isinstance(code, int) and code in DTYPES and not is_tensor_dtype(DTYPES[code])


def _undecided(node: Node, row: Row, s: _State) -> bool:
    """Does an operand that decides shapes depend on values?"""
    return any(
        i in row.known and n and n not in s.constants and s.kinds.get(n) is not Kind.SHAPED
        for i, n in enumerate(node.inputs)
    )


def _can_inline(node: Node, s: _State) -> bool:
    """Is it an If on shapes, a Scan or a counted Loop whose bodies hold nothing but what a graph can?"""
    if node.domain or node in s.apart:
        return False
    if node.op == "If":
        fits = _kind(node.inputs[0], s) is Kind.SHAPED
    else:
        fits = (node.op == "Scan" and node.version >= 9) or (node.op == "Loop" and _is_counted(node, s))
    return fits and all(_is_plain(body, s, node.op == "If") for body in node.bodies())


def _is_counted(node: Node, s: _State) -> bool:
    """Does a Loop run as often as shapes or constants say, whatever its body computes?"""
    most, go = (*node.inputs[:2], "", "")[:2]
    body = node.attributes["body"]
    if not most or _kind(most, s) is not Kind.SHAPED or not (not go or _is_true(go, s.constants)):
        return False
    made = {o: n for n in body.nodes for o in n.outputs}
    answer = body.outputs[0].name
    while answer in made and made[answer].op == "Identity":
        answer = made[answer].inputs[0]
    if answer in made and made[answer].op == "Constant":
        return bool(np.all(made[answer].attribute("value", False)))
    always = {**s.constants, **{k: Known(v) for k, v in body.constants.items()}}
    return bool(answer == body.inputs[1].name or _is_true(answer, always))


def _is_true(name: str, constants: Mapping[str, Known]) -> bool:
    return name in constants and not constants[name].is_host and bool(constants[name].array.all())


def _is_plain(body: Graph, s: _State, once: bool) -> bool:
    """Does a body hold only what a compiled graph can? In a loop, random numbers are none of that: each round
    draws others.
    """
    outer = {n: s.kinds[n] for n in body.free() if n in s.kinds}
    known = {n: s.constants[n] for n in body.free() if n in s.constants}
    found = partition(body, known, {**outer, **{i.name: kind_of(i.type) for i in body.inputs}}, s.apart)
    held = all(p.level == 0 and (once or p.row.pure) for p in found.placed)
    return held and not any(v.is_host for v in found.constants.values())


def _is_shaped(node: Node, kinds: Sequence[Kind]) -> bool:
    return node.op in ("Shape", "Size") or all(k is Kind.SHAPED for k in kinds)


def _kind(name: str, s: _State) -> Kind:
    if name in s.constants:
        return Kind.HOST if s.constants[name].is_host else Kind.SHAPED
    return s.kinds[name]


def _result_kinds(node: Node, row: Row, kinds: Sequence[Kind], host: bool, shaped: bool) -> list[Kind]:
    if shaped:
        return [Kind.SHAPED] * len(node.outputs)
    if not host:
        return [Kind.TENSOR] * len(node.outputs)
    if row.subgraphs:
        return _declared(node)
    return [Kind.HOST if _gives_host(node, row, kinds) else Kind.TENSOR] * len(node.outputs)


def _declared(node: Node) -> list[Kind]:
    """What the bodies of a node say of its results; what they leave open may be anything."""
    found = [Kind.TENSOR] * len(node.outputs)
    for body in node.bodies():
        types = [o.type for o in body.outputs[1 if node.op == "Loop" else 0 :]]
        told = [kind_of(t) if t.dtype is not None and node.op != "SequenceMap" else Kind.HOST for t in types]
        for i in range(len(found)):
            if i >= len(told) or told[i] is Kind.HOST:
                found[i] = Kind.HOST
    return found


def _gives_host(node: Node, row: Row, kinds: Sequence[Kind]) -> bool:
    """Unless an operator is known to give numbers, what it makes of host values stays a host value."""
    if makes_foreign(node) or row.gives == "host":
        return True
    if row.gives == "numbers" or node.op == "Cast":
        return False
    return Kind.HOST in kinds
