"""The interpreter: the meaning of a graph, equation by equation, with nothing optimised.

`run(graph, values)` binds every equation, so it works over any values (arrays, taped, recorded, batched
ones). With arrays alone it calls the NumPy rules directly and drops each intermediate after its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trilobite.base.errors import DeviceError, ShapeError
from trilobite.base.locations import user_location
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
    """What the symbols of a graph are for these values, which must be of its inputs' types."""
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
    if not graph.symbols or any(isinstance(d, Affine) for v in values for d in v.shape):
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


# -- targets -------------------------------------------------------------------------------------------------

Executable = Callable[[Sequence[Value]], list[Value]]


class Usage(NamedTuple):
    """What whoever runs a graph knows about its inputs, and the graph does not say."""

    stable: frozenset[int] = frozenset()  # inputs that are the same arrays in most runs: weights only read
    donated: tuple[tuple[int, int], ...] = ()  # (output, input): the output replaces that input for good
    options: tuple[tuple[str, Any], ...] = ()  # what the user asked of the target, by name
    replaced: tuple[int, ...] = ()  # outputs that replace what the run before gave: gradients


NO_USAGE = Usage()


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


targets: dict[str, Callable[[Graph, Usage], Executable]] = {
    "reference": lambda graph, usage: lambda values: distinct(run(graph, values), values)
}
"""How a graph becomes something that runs, by target name. What it gives has memory of its own. Upper rooms
add the targets of the compiler here.
"""


def target_now(target: str) -> str:
    """Who runs a graph: while somebody watches all results, the interpreter, which shows them."""
    return target if entry.threads.context.watch is None else "reference"


def existing(graph: Graph, target: str, usage: Usage) -> Executable | None:
    """The compiled form if there is one."""
    found: Executable | None = graph.__dict__.get("_executables", {}).get((target, usage))
    return found


def executable(graph: Graph, target: str, usage: Usage = NO_USAGE) -> Executable:
    """The compiled form of a graph on a target; compiled once."""
    if target not in targets:
        raise DeviceError(
            f"there is no target {target!r}",
            where=user_location(),
            expected=f"one of {', '.join(sorted(targets))}",
            remedy='tb.jit(f, target="reference") runs everywhere',
        )
    cache: dict[Any, Executable] = graph.__dict__.setdefault("_executables", {})
    if (target, usage) not in cache:
        cache[target, usage] = targets[target](graph, usage)
    return cache[target, usage]
