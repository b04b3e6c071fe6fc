"""`cond`: the branch that an index names. Branches are closed graphs over the same operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.dtypes import int32, is_inexact
from trilobite.base.errors import IRError
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Attributes, Primitive, Value, table
from trilobite.ir.primitives.call import graph_flops
from trilobite.ir.transforms.batch import Unmapped, all_mapped
from trilobite.ir.transforms.forward import materialise
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.transforms.regions import batch_graph, check_same, forward_graph, reverse_graph
from trilobite.ir.types import Dim, TensorType, type_of


def _cond_type(index: TensorType, *types: TensorType, branches: tuple[Graph, ...]) -> tuple[TensorType, ...]:
    if index.shape != () or index.dtype != int32:
        raise IRError(f"cond takes an int32 scalar as its index, not {index}")
    check_same("cond", branches)
    return branches[0].output_types


def _cond(index: Any, *values: Value, branches: tuple[Graph, ...]) -> tuple[Value, ...]:
    return tuple(run(branches[min(max(int(index), 0), len(branches) - 1)], values))


def _cond_jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    index, *values = primals
    active = [t is not None for t in tangents[1:]]
    derived = [forward_graph(b, active) for b in attrs["branches"]]
    n = len(attrs["branches"][0].outputs)
    out_active = [any(d[1][i] for d in derived) for i in range(n)]
    branches = tuple(_with_tangents(g, acts, out_active, n) for g, acts in derived)
    outs = cond(index, *values, *(t for t in tangents[1:] if t is not None), branches=branches)
    rest = iter(outs[n:])
    return tuple(outs[:n]), tuple(next(rest) if a else None for a in out_active)


def _with_tangents(graph: Graph, active: Sequence[bool], wanted: Sequence[bool], n: int) -> Graph:
    """Give every branch the same tangent outputs: zeros where this one has none."""

    def body(*values: Value) -> list[Value]:
        outs = run(graph, values)
        rest = iter(outs[n:])
        found = [next(rest) if a else None for a in active]
        return outs[:n] + [materialise(t, o) for t, o, w in zip(found, outs[:n], wanted, strict=True) if w]

    return record_graph(body, graph.input_types, graph.name)


def _cond_linearize(
    operands: Sequence[Value], wanted: Sequence[bool], attrs: Attributes
) -> tuple[Sequence[Value], Any]:
    """Residuals of all branches travel together; those of branches not taken are zeros."""
    index, *values = operands
    branches: tuple[Graph, ...] = attrs["branches"]
    halves = [reverse_graph(b, wanted[1:]) for b in branches]
    layout = [h.residual_types for h in halves]
    n = len(branches[0].outputs)
    forwards = tuple(_padded_forward(h.forward, i, layout, n) for i, h in enumerate(halves))
    forwards[0].__dict__["_whole"] = {"branches": branches}  # for a recording that needs no residual
    outs = cond(index, *values, branches=forwards)
    residuals = outs[n:]

    def pullback(cotangents: Sequence[Value]) -> list[Any]:
        cts = [ct for ct, t in zip(cotangents, branches[0].output_types, strict=True) if is_inexact(t.dtype)]
        ct_types = [type_of(ct) for ct in cts]
        backs = tuple(_padded_backward(h.backward, i, layout, ct_types) for i, h in enumerate(halves))
        found = iter(cond(index, *residuals, *cts, branches=backs))
        return [None, *(next(found) if w else None for w in halves[0].wanted)]

    return outs[:n], pullback


def _padded_forward(forward: Graph, which: int, layout: Sequence[Sequence[TensorType]], n: int) -> Graph:
    def body(*values: Value) -> list[Value]:
        outs = run(forward, values)
        rows = [outs[n:] if i == which else [_blank(t) for t in types] for i, types in enumerate(layout)]
        return outs[:n] + [r for row in rows for r in row]

    return record_graph(body, forward.input_types, forward.name)


def _blank(t: TensorType) -> Value:
    return table["full"](shape=t.shape, dtype=t.dtype, value=0)


def _padded_backward(
    back: Graph, which: int, layout: Sequence[Sequence[TensorType]], cts: Sequence[TensorType]
) -> Graph:
    start = sum(len(types) for types in layout[:which])
    total = sum(len(types) for types in layout)

    def body(*values: Value) -> list[Value]:
        return run(back, [*values[start : start + len(layout[which])], *values[total:]])

    return record_graph(body, [*(t for types in layout for t in types), *cts], back.name)


def _cond_batch(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> tuple[Any, ...]:
    branches: tuple[Graph, ...] = attrs["branches"]
    if mapped[0]:
        return _select_branches(size, values, mapped, branches)
    n = len(branches[0].outputs)
    first = [batch_graph(b, size, mapped[1:])[1] for b in branches]
    force = [any(f[i] for f in first) for i in range(n)]
    graphs = tuple(batch_graph(b, size, mapped[1:], force)[0] for b in branches)
    outs = cond(*values, branches=graphs)
    return tuple(o if m else Unmapped(o) for o, m in zip(outs, force, strict=True))


def _select_branches(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], branches: tuple[Graph, ...]
) -> tuple[Any, ...]:
    """A choice per element of the batch: all branches run, and each element picks."""
    index, *rest = values
    n = len(branches[0].outputs)
    results = [
        run(batch_graph(b, size, [True] * len(rest), [True] * n)[0], all_mapped(size, rest, mapped[1:]))
        for b in branches
    ]
    outs = list(results[0])
    for i, row in enumerate(results[1:], start=1):
        chosen = table["ge"](index, table["full"](shape=index.shape, dtype=index.dtype, value=i))
        outs = [pick(chosen, new, old) for new, old in zip(row, outs, strict=True)]
    return tuple(outs)


def pick(chosen: Value, new: Value, old: Value) -> Value:
    """select with a predicate that has only the leading axes."""
    p = table["broadcast"](chosen, shape=new.shape, axes=tuple(range(chosen.ndim)))
    return table["select"](p, new, old)


cond = Primitive(
    "cond",
    "index x",
    type=_cond_type,
    evaluate=_cond,
    whole_jvp=_cond_jvp,
    linearize=_cond_linearize,
    batch=_cond_batch,
    cost=lambda i, o, attrs: max(graph_flops(b) for b in attrs["branches"]),
    multiple=True,
    doc="the branch that the index names, clamped to those there are",
)
