"""Graphs as drawings: a layer for every step away from the inputs, computed here so that the page only draws.

Enters: graphs of the IR by stage. Leaves: plain data, a stage each: boxes with places, edges, which boxes the
pass before did not have. Work grows with the graph's size, not with its square.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from trilobite.ir.graph import Equation, Graph

HEIGHT, GAP, LAYER, LETTER, WIDEST = 24, 14, 46, 7.2, 44  # pixels; letters of the longest label
MOST = 12_000  # equations of a graph that is drawn


def stages_data(stages: Mapping[str, Graph]) -> list[dict[str, Any]]:
    """The graphs in their order; in each, what the one before it did not have is marked."""
    found, before = [], Counter[str]()
    for name, graph in stages.items():
        labels = Counter(_label(e) for e in graph.equations)
        found.append(stage_data(name, graph, labels - before if before else Counter()))
        before = labels
    return found


def stage_data(name: str, graph: Graph, fresh: Counter[str] | None = None) -> dict[str, Any]:
    """One graph as boxes and edges. Of a graph that is too large to be looked at, the first equations."""
    equations = graph.equations[:MOST]
    sources = _sources(equations)
    layers = _layers(sources)
    rows = _ordered(layers, sources)
    widths = [_width(e) for e in equations]
    places, extent = _placed(rows, widths)
    left = Counter(fresh or {})
    nodes = []
    for number, equation in enumerate(equations):
        label = _label(equation)
        new = left[label] > 0
        left[label] -= new
        x, y = places[number]
        nodes.append(
            {
                "id": number, "label": label, "module": "", "location": str(equation.location),
                "x": x, "y": y, "w": widths[number], "h": HEIGHT, "fresh": bool(new),
            }
        )  # fmt: skip
    edges = [[a, b] for b, found in enumerate(sources) for a in found]
    return {"name": name, "width": extent, "height": len(rows) * LAYER + GAP, "nodes": nodes, "edges": edges}


def _label(equation: Equation) -> str:
    types = ", ".join(str(v.type) for v in equation.outputs)
    name = equation.primitive.name
    kind = equation.attributes.get("kind") or equation.attributes.get("name")
    head = f"{name} {kind}" if isinstance(kind, str) else name
    text = f"{head} {types}"
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def _width(equation: Equation) -> int:
    return round(len(_label(equation)) * LETTER) + 12


def _sources(equations: Sequence[Equation]) -> list[list[int]]:
    """Of each equation, those that it reads, once each."""
    makers: dict[Any, int] = {}
    found: list[list[int]] = []
    for number, equation in enumerate(equations):
        read = (makers[v] for v in equation.inputs if v in makers)
        found.append(list(dict.fromkeys(read)))
        makers.update({v: number for v in equation.outputs})
    return found


def _layers(sources: Sequence[Sequence[int]]) -> list[int]:
    depth: list[int] = []
    for read in sources:
        depth.append(1 + max((depth[n] for n in read), default=-1))
    return depth


def _ordered(layers: Sequence[int], sources: Sequence[Sequence[int]]) -> list[list[int]]:
    """Equations by layer, each layer by the mean place of what its members read."""
    rows: dict[int, list[int]] = defaultdict(list)
    for number, layer in enumerate(layers):
        rows[layer].append(number)
    place: dict[int, float] = {}
    for layer in sorted(rows):
        rows[layer].sort(key=lambda n: (sum(place[m] for m in sources[n]) / max(len(sources[n]), 1), n))
        place.update({n: i / max(len(rows[layer]), 1) for i, n in enumerate(rows[layer])})
    return [rows[layer] for layer in sorted(rows)]


def _placed(rows: Sequence[Sequence[int]], widths: Sequence[int]) -> tuple[dict[int, tuple[int, int]], int]:
    lengths = [sum(widths[n] + GAP for n in row) for row in rows]
    extent = max(lengths, default=0) + 2 * GAP
    places: dict[int, tuple[int, int]] = {}
    for layer, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        x = (extent - length) // 2 + GAP // 2
        for number in row:
            places[number] = (x, GAP + layer * LAYER)
            x += widths[number] + GAP
    return places, extent
