"""`call`: a graph as one equation. Jitted functions, composites and functions with rules of their own are
calls.

Attributes: `graph` (the body), `name`, `target` (who runs it; empty for "inline as you like"), `tracked`
(which outputs `backward()` outside may follow; empty for all), `options` (of a composite: what its body was
recorded with, for a target that claims it whole), and for functions with their own derivative
`forward` and `backward` graphs (`strict`: they are the only derivative there is; `push`: a forward-mode
rule): forward: inputs -> outputs, residuals; backward: residuals, cotangents of inexact outputs -> cotangents
of inexact inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.dtypes import is_inexact
from trilobite.base.errors import GradientError
from trilobite.ir import evaluate
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import Attributes, Primitive, Value
from trilobite.ir.transforms.batch import Unmapped, all_mapped
from trilobite.ir.transforms.forward import materialise
from trilobite.ir.transforms.regions import batch_graph, forward_graph, reverse_graph
from trilobite.ir.types import Dim, TensorType, bind_symbols, substitute, symbols_of


def _type(*types: TensorType, graph: Graph, **_: Any) -> tuple[TensorType, ...]:
    if not graph.symbols or any(symbols_of(t.shape) for t in types):
        return graph.output_types
    declared, actual = (t.shape for t in graph.input_types), [t.shape for t in types]
    sizes = bind_symbols(zip(declared, actual, strict=True))
    return tuple(TensorType(substitute(t.shape, sizes), t.dtype) for t in graph.output_types)


def _evaluate(*values: Value, graph: Graph, target: str = "", **_: Any) -> tuple[Value, ...]:
    if target:
        return tuple(evaluate.elsewhere(graph, target)(values))
    return tuple(evaluate.distinct(evaluate.run(graph, values), values))


def invoke(graph: Graph, values: Sequence[Value], attrs: Attributes, suffix: str = "") -> Sequence[Value]:
    """Call a derived graph under the same name and target."""
    kept = {k: attrs[k] for k in ("options",) if k in attrs}
    out: Sequence[Value] = call(
        *values, graph=graph, name=attrs["name"] + suffix, target=attrs.get("target", ""), **kept
    )
    return out


def _jvp(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    if "push" in attrs:
        return _push(primals, tangents, attrs)
    _refuse_innermost(attrs)
    if attrs.get("strict"):
        raise GradientError(
            f"{attrs['name']} has a reverse-mode rule of its own (custom_vjp) and no forward-mode one",
            remedy="define it with custom_jvp, which serves both modes",
        )
    graph: Graph = attrs["graph"]
    active = [t is not None for t in tangents]
    derived, out_active = forward_graph(graph, active)
    outs = invoke(derived, [*primals, *(t for t in tangents if t is not None)], attrs, ".jvp")
    n = len(graph.outputs)
    rest = iter(outs[n:])
    return tuple(outs[:n]), tuple(next(rest) if a else None for a in out_active)


def _refuse_innermost(attrs: Attributes) -> None:
    """A function whose rules call the function itself: a recording keeps the rules of a few such calls."""
    if attrs.get("strict") and "backward" not in attrs:
        raise GradientError(
            f"a third derivative of {attrs['name']}, whose rules call {attrs['name']} itself",
            expected="two derivatives at most, where jit records the rules",
            remedy="write what the function computes into its rules, or differentiate without jit",
        )


def _push(primals: Sequence[Value], tangents: Sequence[Any], attrs: Attributes) -> tuple[Any, Any]:
    """The function's own forward-mode rule: it takes a tangent for every inexact operand."""
    graph: Graph = attrs["graph"]
    full = [materialise(t, p) for t, p in zip(tangents, primals, strict=True) if is_inexact(p.dtype)]
    outs = invoke(attrs["push"], [*primals, *full], attrs, ".jvp")
    n = len(graph.outputs)
    rest = iter(outs[n:])
    return tuple(outs[:n]), tuple(next(rest) if is_inexact(t.dtype) else None for t in graph.output_types)


def _linearize(
    operands: Sequence[Value], wanted: Sequence[bool], attrs: Attributes
) -> tuple[Sequence[Value], Any]:
    if "backward" in attrs:
        return _own_rule(operands, attrs)
    _refuse_innermost(attrs)
    graph: Graph = attrs["graph"]
    halves = reverse_graph(graph, wanted)
    halves.forward.__dict__["_whole"] = attrs  # as for a rule of its own
    outs = invoke(halves.forward, operands, attrs, ".fwd")
    n = halves.outputs
    residuals = outs[n:]

    def pullback(cotangents: Sequence[Value]) -> list[Any]:
        cts = [ct for ct, t in zip(cotangents, graph.output_types, strict=True) if is_inexact(t.dtype)]
        found = iter(invoke(halves.backward, [*residuals, *cts], attrs, ".bwd"))
        return [next(found) if w else None for w in halves.wanted]

    return outs[:n], pullback


def _own_rule(operands: Sequence[Value], attrs: Attributes) -> tuple[Sequence[Value], Any]:
    graph: Graph = attrs["graph"]
    attrs["forward"].__dict__["_whole"] = attrs  # a recording that needs no residual calls the whole again
    outs = invoke(attrs["forward"], operands, attrs, ".fwd")
    n = len(graph.outputs)
    residuals = outs[n:]

    def pullback(cotangents: Sequence[Value]) -> list[Any]:
        cts = [ct for ct, t in zip(cotangents, graph.output_types, strict=True) if is_inexact(t.dtype)]
        found = iter(invoke(attrs["backward"], [*residuals, *cts], attrs, ".bwd"))
        return [next(found) if is_inexact(t.dtype) else None for t in graph.input_types]

    return outs[:n], pullback


def _batch(size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes) -> tuple[Any, ...]:
    if "backward" in attrs:
        return _batch_own_rule(size, values, mapped, attrs)
    graph, out_mapped = batch_graph(attrs["graph"], size, mapped)
    outs = call(*values, **{**attrs, "graph": graph})
    return tuple(o if m else Unmapped(o) for o, m in zip(outs, out_mapped, strict=True))


def _batch_own_rule(
    size: Dim, values: Sequence[Value], mapped: Sequence[bool], attrs: Attributes
) -> tuple[Any, ...]:
    """With a rule of its own everything is mapped, so that residuals and cotangents have one form."""
    regions = {k: attrs[k] for k in ("graph", "forward", "backward", "push") if k in attrs}
    mapped_regions = {
        k: batch_graph(g, size, [True] * len(g.inputs), [True] * len(g.outputs))[0]
        for k, g in regions.items()
    }
    out: tuple[Any, ...] = call(*all_mapped(size, values, mapped), **{**attrs, **mapped_regions})
    return out


def _cost(inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: Any) -> float:
    return graph_flops(attrs["graph"])


def graph_flops(graph: Graph) -> float:
    """Floating-point operations of a graph: the sum over its equations."""
    return sum(
        e.primitive.cost([v.type for v in e.inputs], [v.type for v in e.outputs], e.attributes)
        for e in graph.equations
    )


call = Primitive(
    "call",
    "x",
    type=_type,
    evaluate=_evaluate,
    whole_jvp=_jvp,
    linearize=_linearize,
    batch=_batch,
    cost=_cost,
    multiple=True,
    doc="a graph as one equation",
)
