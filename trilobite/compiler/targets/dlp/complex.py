"""split_complex: complex numbers as pairs of real ones.

Enters: a graph. Leaves: a graph without complex values, in which each of them is two real values; inputs and
outputs keep their bytes: a complex array of shape S is a real one of shape (*S, 2). Regions of control flow
pass the two parts side by side. What each primitive means for pairs stands in `pairs`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trilobite.base.dtypes import is_complex, real_of
from trilobite.compiler.graph.regions import CONTROL, outer_first
from trilobite.compiler.targets.dlp.pairs import RULES, Pair
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType

Parts = tuple[Var, ...]  # one variable, or the real and the imaginary one


def _has_complex(graph: Graph) -> bool:
    def touches(g: Graph) -> bool:
        values = [*g.inputs, *(v for e in g.equations for v in e.outputs)]
        return any(is_complex(v.type.dtype) for v in values)

    return any(touches(g) for g in outer_first(graph))


def split_complex(graph: Graph) -> Graph:
    """The graph on real numbers."""
    if not _has_complex(graph):
        return graph
    splitter = _Splitter()
    inputs, equations = [], splitter.out
    for v in graph.inputs:
        if not is_complex(v.type.dtype):
            inputs.append(v)
            splitter.parts[v] = (v,)
            continue
        packed = Var(TensorType((*v.type.shape, 2), real_of(v.type.dtype)))
        inputs.append(packed)
        splitter.parts[v] = tuple(splitter.bound(_unpack(i), [packed], None)[0] for i in (0, 1))
    splitter.run(graph)
    outputs = []
    for v in graph.outputs:
        parts = splitter.parts[v]
        outputs.append(parts[0] if len(parts) == 1 else splitter.bound(_pack, list(parts), None)[0])
    return Graph(inputs, equations, outputs, graph.name)


def _unpack(place: int) -> Any:
    def body(x: Any) -> list[Any]:
        shape = tuple(x.shape[:-1])
        start, stop = (0,) * len(shape) + (place,), (*shape, place + 1)
        part = table["slice"](x, start=start, stop=stop, step=(1,) * x.ndim)
        return [table["reshape"](part, shape=shape)]

    return body


def _pack(re: Any, im: Any) -> list[Any]:
    columns = [table["reshape"](v, shape=(*v.shape, 1)) for v in (re, im)]
    return [table["concatenate"](*columns, axis=len(re.shape))]


class _Splitter:
    """One graph on its way."""

    def __init__(self) -> None:
        self.parts: dict[Var, Parts] = {}
        self.out: list[Equation] = []

    def run(self, graph: Graph) -> None:
        for e in graph.equations:
            self._equation(e)

    def bound(self, body: Any, inputs: Sequence[Var], at: Equation | None) -> list[Var]:
        """What a function of values gives, spliced in."""
        made = record_graph(body, [v.type for v in inputs], "complex")
        inside = dict(zip(made.inputs, inputs, strict=True))
        for b in made.equations:
            outputs = tuple(Var(v.type) for v in b.outputs)
            where = b.location if at is None else at.location
            self.out.append(
                Equation(b.primitive, tuple(inside[v] for v in b.inputs), b.attributes, outputs, where)
            )
            inside.update(zip(b.outputs, outputs, strict=True))
        return [inside[v] for v in made.outputs]

    def _equation(self, e: Equation) -> None:
        inputs = [self.parts.get(v, (v,)) for v in e.inputs]
        if e.primitive.name in CONTROL:
            self._control(e, inputs)
            return
        if not any(is_complex(v.type.dtype) for v in (*e.inputs, *e.outputs)):
            flat = tuple(p[0] for p in inputs)
            if flat != e.inputs:
                e = Equation(e.primitive, flat, e.attributes, e.outputs, e.location)
            self.out.append(e)
            self.parts.update((v, (v,)) for v in e.outputs)
            return
        lengths = [len(p) for p in inputs]
        shape: list[int] = []

        def body(*values: Any) -> list[Any]:
            left = iter(values)
            pairs = [next(left) if n == 1 else Pair(next(left), next(left)) for n in lengths]
            found = RULES[e.primitive.name](*pairs, **e.attributes)
            found = (
                list(found) if isinstance(found, (tuple, list)) and not isinstance(found, Pair) else [found]
            )
            shape.extend(2 if isinstance(f, Pair) else 1 for f in found)
            return [v for f in found for v in (f if isinstance(f, Pair) else (f,))]

        made = iter(self.bound(body, [v for p in inputs for v in p], e))
        for v, n in zip(e.outputs, shape, strict=True):
            self.parts[v] = tuple(next(made) for _ in range(n))

    # -- regions ---------------------------------------------------------------------------------------------

    def _control(self, e: Equation, inputs: Sequence[Parts]) -> None:
        attributes = {k: _in_region(v) for k, v in e.attributes.items()}
        widths = [len(p) for p in inputs]
        if e.primitive.name == "while":
            m, n = e.attributes["consts"]
            attributes["consts"] = (sum(widths[:m]), sum(widths[m : m + n]))
        elif e.primitive.name == "scan":
            n, c = e.attributes["consts"], e.attributes["carries"]
            attributes["consts"], attributes["carries"] = sum(widths[:n]), sum(widths[n : n + c])
        outputs: list[Var] = []
        for v in e.outputs:
            self.parts[v] = _split(v)
            outputs += self.parts[v]
        flat = tuple(v for p in inputs for v in p)
        self.out.append(Equation(e.primitive, flat, attributes, tuple(outputs), e.location))


def _split(v: Var) -> Parts:
    if not is_complex(v.type.dtype):
        return (v,)
    part = TensorType(v.type.shape, real_of(v.type.dtype))
    return Var(part), Var(part)


def _in_region(value: Any) -> Any:
    if isinstance(value, Graph):
        return _region(value)
    if isinstance(value, tuple) and any(isinstance(v, Graph) for v in value):
        return tuple(_in_region(v) for v in value)
    return value


def _region(graph: Graph) -> Graph:
    """A region whose complex inputs and outputs are two each."""
    splitter = _Splitter()
    inputs: list[Var] = []
    for v in graph.inputs:
        splitter.parts[v] = _split(v)
        inputs += splitter.parts[v]
    splitter.run(graph)
    outputs = [p for v in graph.outputs for p in splitter.parts[v]]
    return Graph(inputs, splitter.out, outputs, graph.name)
