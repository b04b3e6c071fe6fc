"""The lab `pass`: a pass over graphs of the compiler that takes out transposes and negations.

Random graphs of the IR go through the student's pass. The result must verify, compute the same bits, and have
no more equations than the rules allow: a transpose of a transpose is one, one that changes nothing is
none, two negations are none, and what nobody needs is gone.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.apps.labs.task import Array, Fault, Inputs, Lab, Part, Sizes, compare, first
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph, Var
from trilobite.ir.verify import verify

KINDS = {
    "transposes": ("transpose", "transpose", "tanh"),
    "negations": ("neg", "neg", "tanh", "add"),
    "everything": ("transpose", "transpose", "neg", "tanh", "add", "mul"),
}


def _graph(kinds: tuple[str, ...], dead: bool, rng: np.random.Generator, s: Sizes) -> Inputs:
    extents = (2, 3, 4)
    plan: list[tuple[str, int, int, tuple[int, ...]]] = []
    for known in range(1, s["steps"] + 1):
        kind = kinds[int(rng.integers(len(kinds)))]
        axes = tuple(int(a) for a in rng.permutation(3))
        plan.append((kind, max(0, known - 1 - int(rng.integers(2))), int(rng.integers(known)), axes))

    def build(x: Any) -> list[Any]:
        values = [x]
        for kind, a, b, axes in plan:
            values.append(_step(kind, values[a], values[b], axes))
        return [values[-1], *([] if dead else values[1::3])]

    array = rng.normal(size=extents).astype(np.float32)
    graph = tb.make_graph(build)(tb.tensor(array))
    return {"graph": str(graph), "_graph": graph, "_x": array}


def _step(kind: str, a: Any, b: Any, axes: tuple[int, ...]) -> Any:
    if kind == "transpose":
        return tb.permute_dims(a, axes)
    if kind in ("neg", "tanh") or a.shape != b.shape:
        return tb.tanh(a) if kind == "tanh" else -a
    return a + b if kind == "add" else a * b


def reference(graph: Graph) -> Graph:
    """The graph after the rules, applied in one walk from front to back, without what is not needed."""
    now: dict[Var, Var] = {}
    maker: dict[Var, Equation] = {}
    kept: list[Equation] = []
    for e in graph.equations:
        new = Equation(
            e.primitive, tuple(now.get(v, v) for v in e.inputs), e.attributes, e.outputs, e.location
        )
        new, same = _reduced(new, maker)
        if same is not None:
            now[e.outputs[0]] = same
            continue
        kept.append(new)
        maker.update(dict.fromkeys(new.outputs, new))
    outputs = [now.get(v, v) for v in graph.outputs]
    needed, live = set(outputs), list[Equation]()
    for e in reversed(kept):
        if any(v in needed for v in e.outputs):
            live.append(e)
            needed.update(e.inputs)
    return Graph(graph.inputs, live[::-1], outputs, graph.name)


def _reduced(e: Equation, maker: dict[Var, Equation]) -> tuple[Equation, Var | None]:
    """The equation, or an equation in its place, or the value that it would only repeat."""
    before = maker.get(e.inputs[0]) if e.inputs else None
    if e.primitive.name == "neg" and before is not None and before.primitive.name == "neg":
        return e, before.inputs[0]
    if e.primitive.name != "transpose":
        return e, None
    axes = tuple(e.attributes["axes"])
    if before is not None and before.primitive.name == "transpose":
        axes = tuple(before.attributes["axes"][a] for a in axes)
        e = Equation(e.primitive, before.inputs, {"axes": axes}, e.outputs, e.location)
    return e, (e.inputs[0] if axes == tuple(range(len(axes))) else None)


def _judge(student: ModuleType, i: Inputs) -> Fault | None:
    graph: Graph = i["_graph"]
    found = student.clean(graph)
    if not isinstance(found, Graph):
        return Fault("clean does not give a graph", "a Graph", type(found).__name__)
    verify(found)
    if found.input_types != graph.input_types or found.output_types != graph.output_types:
        return Fault(
            "the graph takes or gives other types now", str(graph.output_types), str(found.output_types)
        )
    arrays: tuple[list[Array], list[Array]] = (run(graph, [i["_x"]]), run(found, [i["_x"]]))
    wrong = first(*(compare(f"result {k}", b, a) for k, (a, b) in enumerate(zip(*arrays, strict=True))))
    if wrong is not None:
        return wrong
    most = len(reference(graph))
    if len(found) <= most:
        return None
    return Fault(f"{len(found)} equations are left", f"at most {most}: {reference(graph)}", str(found))


def _part(name: str, task: str, dead: bool) -> Part:
    def make(rng: np.random.Generator, s: Sizes) -> Inputs:
        return _graph(KINDS[name], dead, rng, s)

    return Part(name, task, make, _judge, {"steps": (1, 14)}, cases=30)


LAB = Lab(
    "pass",
    "a pass for the compiler",
    (
        _part(
            "transposes",
            "clean(graph): transposes of transposes become one, those that change nothing none",
            True,
        ),
        _part("negations", "two negations are none; what nobody needs is gone", True),
        _part("everything", "all of it, in graphs with several results", False),
    ),
)
