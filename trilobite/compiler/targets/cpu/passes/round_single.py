"""round_single: numbers go to their grids by products of float32, where that is exact.

Enters: a graph. Leaves: the graph with `requantise_single` for `requantise`, the same bits from vectors of
half the width, and `quantise_product` for `quantise`, the same bits without a division. Scales must be known
as constants. Those of `requantise` are large enough, or the sums are small: how large they can be follows
from the bytes that are multiplied and how many.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from trilobite.base.dtypes import bits, float32, int32, is_integer
from trilobite.base.reciprocals import reciprocal_in_two
from trilobite.compiler.graph.regions import on_every_graph
from trilobite.compiler.graph.rewrite import UNCOUNTED, Counters
from trilobite.compiler.targets.cpu.passes.bytes import BYTES
from trilobite.compiler.targets.cpu.primitives.rounding import EXACT, is_single
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.primitives.common import integer_range

Array = np.ndarray[Any, Any]
Makers = Mapping[Var, Equation]
_MOVES = frozenset({"broadcast", "reshape", "transpose", "slice", "cast"})
_BYTE = 255  # the largest magnitude of a weight in panels


def round_single(graph: Graph, counters: Counters = UNCOUNTED) -> Graph:
    return on_every_graph(graph, lambda g: _rounded(g, counters))


def _rounded(graph: Graph, counters: Counters) -> Graph:
    if not any(e.primitive.name in _FORMS for e in graph.equations):
        return graph
    makers = {v: e for e in graph.equations for v in e.outputs}
    equations = []
    for e in graph.equations:
        found = _FORMS[e.primitive.name](e, makers) if e.primitive.name in _FORMS else None
        if found is not None:
            counters[found.primitive.name] += 1
        equations.append(found or e)
    return Graph(graph.inputs, equations, graph.outputs, graph.name)


def _requantise(e: Equation, makers: Makers) -> Equation | None:
    scale = _number(e.inputs[1], makers)
    if scale is None or e.inputs[0].type.dtype != int32:
        return None
    if not is_single(scale, e.attributes["dtype"], magnitude(e.inputs[0], makers) <= EXACT):
        return None
    return Equation(table["requantise_single"], e.inputs, e.attributes, e.outputs, e.location)


def _quantise(e: Equation, makers: Makers) -> Equation | None:
    scale, zero = (_number(v, makers) for v in e.inputs[1:])
    dtype = e.attributes["dtype"]
    if scale is None or zero is None or scale.ndim or e.inputs[0].type.dtype != float32 or dtype not in BYTES:
        return None
    low, high = (int(n) - int(zero) for n in integer_range(dtype))
    found = reciprocal_in_two(float(scale), low, high)
    if found is None:
        return None
    attributes = {"axis": None, "dtype": dtype, "factor": found[0], "rest": found[1]}
    return Equation(table["quantise_product"], e.inputs, attributes, e.outputs, e.location)


_FORMS = {"requantise": _requantise, "quantise": _quantise}


def _number(v: Var, makers: Makers) -> Array | None:
    """The value of a constant."""
    e = makers.get(v)
    return _value(e) if e is not None and e.primitive.name in ("constant", "full") else None


def _value(e: Equation) -> Array:
    """Of a constant; one element of a value that is the same everywhere."""
    attributes = dict(e.attributes)
    if e.primitive.name == "full":
        attributes["shape"] = ()
    return np.asarray(e.primitive.evaluate(**attributes))


def magnitude(v: Var, makers: Makers) -> int:
    """What no magnitude of an integer value exceeds, as far as its making tells."""
    most = max(map(abs, integer_range(v.type.dtype))) if is_integer(v.type.dtype) else 1 << 64
    return min(most, _magnitude(makers[v], makers)) if v in makers else most


def _magnitude(e: Equation, makers: Makers) -> int:
    name, a = e.primitive.name, e.attributes
    if name in ("constant", "full"):
        return int(np.abs(_value(e).astype(np.float64)).max(initial=0))
    if name in _MOVES and is_integer(e.inputs[0].type.dtype):
        return magnitude(e.inputs[0], makers)
    if name in ("add", "sub"):
        return sum(magnitude(v, makers) for v in e.inputs)
    if name == "mul":
        return prod(magnitude(v, makers) for v in e.inputs)
    if name == "reduce_sum":
        sizes = [e.inputs[0].type.shape[i] for i in a["axes"]]
        known = prod(n for n in sizes if isinstance(n, int))
        return magnitude(e.inputs[0], makers) * known if all(isinstance(n, int) for n in sizes) else 1 << 64
    terms = _terms(e)
    return 1 << 64 if terms is None else terms


def _terms(e: Equation) -> int | None:
    """The largest sum of a convolution or product of bytes."""
    name, a = e.primitive.name, e.attributes
    if name in ("conv_integer", "conv_integer_tiles"):
        taps = int(prod(a["kernel"])) if name == "conv_integer" else 9
        depth = int(e.inputs[0].type.shape[-1]) // int(a.get("groups", 1))
        return depth * taps * max(int(a["zero"]), _BYTE - int(a["zero"])) * _BYTE
    if name == "conv_last" and e.inputs[1].type.ndim == e.inputs[0].type.ndim:
        x, w = (v.type for v in e.inputs)
        if is_integer(x.dtype) and bits(x.dtype) <= 8:
            return prod(int(n) for n in w.shape[:-1]) * _BYTE * _BYTE
    return None
