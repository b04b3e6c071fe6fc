"""The interpreter: the meaning of a graph, equation by equation, with nothing optimised.

`run(graph, values)` binds every equation, so it works over any values (arrays, taped, recorded, batched
ones). With arrays alone it calls the NumPy rules directly and drops each intermediate after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from trilobite.base.errors import ShapeError
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import Value
from trilobite.ir.transforms import bind as entry
from trilobite.ir.transforms.bind import bind
from trilobite.ir.types import Affine, Symbol, bind_symbols, substitute


def run(graph: Graph, values: Sequence[Value], around: Mapping[Symbol, int] | None = None) -> list[Value]:
    """The outputs of `graph` for these inputs. `around` are sizes that the graph around decides: a fusion's
    region is a part of it.
    """
    sizes = {**(around or {}), **sizes_of(graph, values)}
    if entry.threads.context.recorder is None and all(type(v) is np.ndarray for v in values):
        return _run_arrays(graph, values, sizes)
    env: dict[Var, Value] = dict(zip(graph.inputs, values, strict=True))
    for e in graph.equations:
        out = bind(e.primitive, *[env[v] for v in e.inputs], **_attributes(e, sizes))
        _store(env, e, out)
    return [env[v] for v in graph.outputs]


def _run_arrays(graph: Graph, values: Sequence[Value], sizes: Mapping[Symbol, int]) -> list[Value]:
    watch = entry.threads.context.watch
    env: dict[Var, Value] = dict(zip(graph.inputs, values, strict=True))
    for e, dying in zip(graph.equations, _last_uses(graph), strict=True):
        operands = [env[v] for v in e.inputs]
        out = e.primitive.evaluate(*operands, **_attributes(e, sizes))
        if watch is not None:
            watch(e.primitive, operands, out, e.location)
        _store(env, e, out)
        for v in dying:
            del env[v]
    return [env[v] for v in graph.outputs]


def _store(env: dict[Var, Value], e: Equation, out: Any) -> None:
    if e.primitive.multiple:
        env.update(zip(e.outputs, out, strict=True))
    else:
        env[e.outputs[0]] = out


def _attributes(e: Equation, sizes: Mapping[Symbol, int]) -> Mapping[str, Any]:
    if not sizes:
        return e.attributes
    fixed = {k: substitute(v, sizes) for k, v in e.attributes.items()}
    return {**fixed, "sizes": sizes} if e.primitive.name == "fusion" else fixed


def sizes_of(graph: Graph, values: Sequence[Value]) -> dict[Symbol, int]:
    """What the symbols of a graph are for these values, which must be of its inputs' types: numbers, or sizes
    of the recording that runs it.
    """
    if len(values) != len(graph.inputs):
        raise ShapeError(
            f"{graph.name} takes {len(graph.inputs)} values",
            expected=graph.input_types,
            remedy=f"got {len(values)}",
        )
    for i, (t, v) in enumerate(zip(graph.input_types, values, strict=True)):
        fits = len(t.shape) == len(v.shape) and t.dtype == v.dtype
        if not fits or any(
            a != b for a, b in zip(t.shape, v.shape, strict=True) if not isinstance(a, Affine)
        ):
            raise ShapeError(f"input {i} of {graph.name} is {v.dtype}{list(v.shape)}", expected=t)
    if not graph.symbols:
        return {}
    return bind_symbols((t.shape, v.shape) for t, v in zip(graph.input_types, values, strict=True))


def _last_uses(graph: Graph) -> list[list[Var]]:
    """Per equation, the variables that nothing reads afterwards."""
    cached = graph.__dict__.get("_last_uses")
    if cached is None:
        alive = set(graph.outputs)
        dying: list[list[Var]] = []
        for e in reversed(graph.equations):
            ends = {v for v in (*e.inputs, *e.outputs) if v not in alive}
            alive |= ends
            dying.append(list(ends))
        cached = graph.__dict__["_last_uses"] = dying[::-1]
    return list(cached)


# -- memory of results, and graphs that run elsewhere --------------------------------------------------------


def distinct(outs: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Outputs with memory of their own: an array that is also an input, or another output, or a view, is
    copied.
    """
    taken = {id(v) for v in values}
    out: list[Value] = []
    for o in outs:
        if type(o) is np.ndarray and (id(o) in taken or o.base is not None or not o.flags.writeable):
            o = o.copy()
        taken.add(id(o))
        out.append(o)
    return out


def elsewhere(graph: Graph, target: str) -> Callable[[Sequence[Value]], list[Value]]:
    """A graph as something that runs on a target. Here there is none but the interpreter; the compiler's
    registry of targets takes this function's place.
    """
    return lambda values: distinct(run(graph, values), values)
