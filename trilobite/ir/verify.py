"""The verifier: is this graph well formed? Runs at every stage boundary in tests.

Enters: a graph. Leaves: nothing, or an IRError that names the equation. Checked: variables are defined once
and before use, regions use only their own, types are what the type rules infer, attributes are hashable and
sizes come from inputs. Not checked: whether the graph computes what it should.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from trilobite.base.errors import IRError, TrilobiteError
from trilobite.base.locations import UNKNOWN
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import result_types, table
from trilobite.ir.text import walk
from trilobite.ir.types import Affine, Dim, Symbol, TensorType, symbols_of


def verify(graph: Graph) -> None:
    """Raise an IRError if the graph, or a region anywhere inside it, is malformed."""
    graphs = list(walk(graph))
    owner: dict[Var, Graph] = {}
    for g in graphs:
        for v in (*g.inputs, *(o for e in g.equations for o in e.outputs)):
            owner.setdefault(v, g)
    around = _sizes_around(graphs)
    for g in reversed(graphs):  # inner ones first: their hashes are then known when an outer one asks
        _verify_one(g, owner, around.get(id(g), frozenset()))


def _sizes_around(graphs: Sequence[Graph]) -> dict[int, frozenset[Symbol]]:
    """Sizes that the graph around decides: a fusion is a part of it, unlike regions of other equations."""
    out: dict[int, frozenset[Symbol]] = {}
    for g in graphs:
        for e in g.equations:
            if e.primitive.name == "fusion":
                out[id(e.attributes["region"])] = g.symbols | out.get(id(g), frozenset())
    return out


def _verify_one(graph: Graph, owner: dict[Var, Graph], around: frozenset[Symbol]) -> None:
    decided = graph.symbols | around
    known: set[Var] = set()
    for i, v in enumerate(graph.inputs):
        if v in known:
            raise IRError(f"input {i} is the same variable as an earlier one", where=f"graph {graph.name}")
        known.add(v)
    for i, e in enumerate(graph.equations):
        where = _place(graph, i, e)
        _check_primitive(e, where)
        for k, v in enumerate(e.inputs):
            _check_known(v, f"operand {k}", known, graph, owner, where)
        _check_attributes(e, graph, decided, where)
        _check_types(e, where)
        for k, v in enumerate(e.outputs):
            if v in known:
                raise IRError(f"output {k} is defined a second time", where=where)
            known.add(v)
            _check_sizes(v.type.shape, graph, decided, where)
    for k, v in enumerate(graph.outputs):
        _check_known(v, f"output {k}", known, graph, owner, f"graph {graph.name}")


def _place(graph: Graph, i: int, e: Equation) -> str:
    line = "" if e.location is UNKNOWN else f", {e.location}"
    return f"equation {i} ({e.primitive.name}) of graph {graph.name}{line}"


def _check_known(
    v: Var, what: str, known: set[Var], graph: Graph, owner: dict[Var, Graph], where: str
) -> None:
    if v in known:
        return
    outer = owner.get(v)
    if outer is not None and outer is not graph:
        raise IRError(
            f"{what} is a variable of graph {outer.name}",
            where=where,
            expected="a region uses its own variables only; what it reads from outside are operands",
        )
    raise IRError(f"{what} is used before it is defined", where=where)


def _check_primitive(e: Equation, where: str) -> None:
    if table.get(e.primitive.name) is not e.primitive:
        raise IRError(f"{e.primitive.name!r} is not a primitive of the table", where=where)


def _check_attributes(e: Equation, graph: Graph, decided: frozenset[Symbol], where: str) -> None:
    for name, value in e.attributes.items():
        try:
            hash(value)
        except TypeError:
            raise IRError(
                f"the attribute {name} is a {type(value).__name__}, which is not hashable", where=where,
                expected="immutable values: tuples instead of lists, Dense instead of arrays",
            ) from None  # fmt: skip
        _check_sizes(_sizes_in(value), graph, decided, where)


def _sizes_in(value: Any) -> Iterable[Dim]:
    """The sizes in an attribute, also inside tuples and types; regions decide their own."""
    pending = [value]
    while pending:
        v = pending.pop()
        if isinstance(v, Affine):
            yield v
        elif isinstance(v, TensorType):
            pending += v.shape
        elif isinstance(v, tuple):
            pending += v


def _check_sizes(sizes: Iterable[Dim], graph: Graph, decided: frozenset[Symbol], where: str) -> None:
    loose = {s for s in symbols_of(tuple(sizes)) - decided if s.of is None or s.bases() - decided}
    if loose:
        names = ", ".join(sorted(s.name for s in loose))
        raise IRError(f"no input of graph {graph.name} decides the size {names}", where=where)


def _check_types(e: Equation, where: str) -> None:
    try:
        types = result_types(e.primitive, [v.type for v in e.inputs], e.attributes)
    except TrilobiteError as error:
        raise IRError(
            f"the type rule refuses it: {error.what}", where=where, expected=error.expected
        ) from error
    except TypeError as error:
        raise IRError(f"operands or attributes do not fit the primitive: {error}", where=where) from error
    found = tuple(v.type for v in e.outputs)
    if found != types:
        raise IRError(f"the outputs are {_listed(found)}", where=where, expected=_listed(types))


def _listed(types: Iterable[TensorType]) -> str:
    return ", ".join(map(str, types)) or "none"
