"""`tb.quantize`: a trained model and some of its data in, the same model on integers out."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ArgumentError
from trilobite.base.locations import user_location
from trilobite.compiler.targets.registry import HOST, executable
from trilobite.framework.nn.module import Module
from trilobite.framework.quantization.calibrate import Range
from trilobite.framework.quantization.grids import Grid
from trilobite.framework.quantization.module import Quantization, QuantizedModule
from trilobite.framework.quantization.plan import Plan, make_plan, passes_codes
from trilobite.framework.quantization.prepare import Prepared, prepare
from trilobite.framework.quantization.rewrite import rewritten
from trilobite.framework.quantization.scheme import Scheme
from trilobite.framework.signature import take_apart
from trilobite.framework.tensor import Tensor
from trilobite.ir.graph import Graph, Var

Array = np.ndarray[Any, Any]


def quantize(model: Module, data: Any, scheme: Any = "int8") -> QuantizedModule:
    """The model on integers, as a module; the model itself stays as it is.

    `data`: batches that show what the model will see: an iterable of tensors, or of tuples of the model's
    arguments (what a data loader gives behind them, such as labels, is passed over). `scheme`: "int8",
    "int16" or a `tb.quantization.Scheme`.
    """
    if not isinstance(model, Module):
        raise ArgumentError(
            f"quantize of {type(model).__name__}", where=user_location(), expected="a module: tb.nn.Module"
        )
    chosen = Scheme.of(scheme)
    batches = [_arguments(model, batch) for batch in _batches(data)]
    if not batches:
        raise ArgumentError(
            "quantize without data",
            where=user_location(),
            expected="at least one batch of what the model will see",
            remedy="pass a few dozen examples: ranges of activations are taken from them",
        )
    p = prepare(model, batches[0])
    plan = make_plan(model, p, chosen)
    if not plan.products:
        raise ArgumentError(
            f"{type(model).__name__} has no layer to quantise",
            where=user_location(),
            expected="a convolution or product with weights that the scheme does not keep",
            remedy="; ".join(f"{layer}: {why}" for layer, why in plan.stays.items()) or "nothing multiplies",
        )
    grids = _grids(p, plan, chosen, batches)
    graph, weights = rewritten(p, plan, grids, chosen)
    found = Quantization(
        graph, tuple(weights), (p.out_tree, p.out_static), chosen, _layers(plan, chosen), type(model).__name__
    )
    return QuantizedModule(found, weights)


def _layers(plan: Plan, scheme: Scheme) -> dict[str, str]:
    """How each layer runs: its format, or why it stayed."""
    found = {q.layer or str(q.equation.location): str(scheme.dtype) for q in plan.products.values()}
    return found | {name: f"floating point: {why}" for name, why in plan.stays.items()}


# -- data ----------------------------------------------------------------------------------------------------


def _batches(data: Any) -> Iterable[Any]:
    return [data] if isinstance(data, (Tensor, np.ndarray)) else data


def _arguments(model: Module, batch: Any) -> tuple[Any, ...]:
    """A batch as the model's arguments: as many as its forward pass takes."""
    if isinstance(batch, Mapping):
        raise ArgumentError(
            "a batch that is a mapping",
            where=user_location(),
            expected="a tensor, or a tuple of the model's arguments in order",
        )
    args = tuple(batch) if isinstance(batch, (tuple, list)) else (batch,)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters.values()
    if any(q.kind is inspect.Parameter.VAR_POSITIONAL for q in parameters):
        return args
    return args[: sum(q.kind in kinds for q in parameters)]


# -- ranges --------------------------------------------------------------------------------------------------


def _grids(p: Prepared, plan: Plan, scheme: Scheme, batches: Sequence[tuple[Any, ...]]) -> dict[Var, Grid]:
    """A grid for each class of values, from what the model computes on the data."""
    sources = [v for v in plan.coded if not _is_moved(p, plan, v) and v not in p.stable]
    order = {
        v: i for i, v in enumerate([*p.graph.inputs, *(o for e in p.graph.equations for o in e.outputs)])
    }
    sources.sort(key=order.__getitem__)
    seen = {v: Range() for v in sources}
    passes = [Range.look] if scheme.calibration == "minmax" else [Range.look, Range.count]
    observed = executable(Graph(p.graph.inputs, p.graph.equations, sources, p.graph.name), HOST)
    weights = [p.weights[v] for v in p.graph.inputs[p.arguments :]]
    for look in passes:
        for batch in batches:
            call = take_apart(batch, {}, (), (), None)
            values = observed([*(np.asarray(t._read()) for t in call.tensors), *weights])
            for v, x in zip(sources, values, strict=True):
                look(seen[v], np.asarray(x))
    return _chosen(p, plan, scheme, seen)


def _is_moved(p: Prepared, plan: Plan, v: Var) -> bool:
    e = p.makers.get(v)
    return e is not None and passes_codes(p, plan, e)


def _chosen(p: Prepared, plan: Plan, scheme: Scheme, seen: Mapping[Var, Range]) -> dict[Var, Grid]:
    ends: dict[Var, list[float]] = {}
    for v, found in seen.items():
        root = plan.root(v)
        plain = scheme.symmetric or root in plan.without_zero
        ends.setdefault(root, []).extend(found.chosen(scheme, plain))
    for v in plan.coded:
        root = plan.root(v)
        if v in p.stable:
            array = p.array(v)
            numbers = [0.0] if array is None or not array.size else [float(array.min()), float(array.max())]
            ends.setdefault(root, []).extend(numbers)
        e = p.makers.get(v)
        if e is not None and e.primitive.name == "pad" and np.isfinite(np.real(e.attributes["value"])):
            ends.setdefault(root, []).append(float(np.real(e.attributes["value"])))
    return {
        root: Grid.of(min(found), max(found), scheme.dtype, scheme.symmetric or root in plan.without_zero)
        for root, found in ends.items()
    }
