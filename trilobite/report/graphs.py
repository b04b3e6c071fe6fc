"""Graphs as drawings: boxes nested by module, in rows computed here so that the page only adds up sizes.

Enters: graphs of the IR by stage. Leaves: plain data, a stage each: labels and places of its equations, the
tree of modules with the rows of what each of them holds, edges, and which equations the pass made or took
away. Work grows with the graph's size, not with its square.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from trilobite.ir.graph import Equation, Graph
from trilobite.report.places import place_text
from trilobite.report.subjects import Labels, packed

WIDEST = 44  # letters of the longest label
MOST = 20_000  # equations of a graph that is drawn
LONGEST = 160  # letters of an equation's attributes
Key = tuple[str, str]


def stages_data(stages: Mapping[str, Graph], docs: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """The graphs in their order. One that a pass left as it was is named with the stage it equals."""
    found: list[dict[str, Any]] = []
    before: list[Key] = []
    for name, graph in stages.items():
        keys = [_key(e) for e in graph.equations[:MOST]]
        if found and keys == before:
            found[-1]["same"].append(name)
            continue
        if found:
            found[-1]["gone"] = _marked(before, Counter(before) - Counter(keys))
        fresh = _marked(keys, Counter(keys) - Counter(before)) if found else _marked(keys, Counter())
        found.append(stage_data(name, graph, fresh, (docs or {}).get(name, "")))
        before = keys
    return found


def stage_data(name: str, graph: Graph, fresh: str = "", doc: str = "") -> dict[str, Any]:
    """One graph. Of a graph that is too large to be looked at, the first equations."""
    equations = graph.equations[:MOST]
    sources = _sources(equations)
    labels, places, details = Labels(), Labels(), Labels()
    tree = _tree(equations)
    tree.place(sources)
    none = _marked([_key(e) for e in equations], Counter())
    return {
        "name": name,
        "doc": doc,
        "same": [],
        "total": len(graph.equations),
        "label": _numbers(labels.number(label_of(e)) for e in equations),
        "place": _numbers(places.number(place_text(e.location)) for e in equations),
        "detail": _numbers(details.number(_attributes(e)) for e in equations),
        "labels": [text for text, _ in labels.texts],
        "places": [text for text, _ in places.texts],
        "details": [text for text, _ in details.texts],
        "modules": [[m.name, m.count, m.rows] for m in tree.modules],
        "edges": _numbers(n for b, found in enumerate(sources) for a in found for n in (a, b)),
        "fresh": fresh or none,
        "gone": none,
    }


def label_of(equation: Equation) -> str:
    """The primitive (of a fusion or call its kind), and what it gives."""
    types = ", ".join(str(v.type) for v in equation.outputs)
    kind = equation.attributes.get("kind") or equation.attributes.get("name")
    name = f"{equation.primitive.name} {kind}" if isinstance(kind, str) else equation.primitive.name
    region = equation.attributes.get("region")
    if isinstance(region, Graph):
        inner = dict.fromkeys(e.primitive.name for e in region.equations if e.primitive.name not in _PLAIN)
        name = f"{kind}: {' '.join(inner)}" if inner else name
    text = f"{name} {types}"
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


_PLAIN = ("constant", "full", "broadcast", "reshape", "iota")  # say little about a fusion


def _attributes(equation: Equation) -> str:
    shown = (f"{k}={v}" for k, v in equation.attributes.items() if isinstance(v, (int, str, tuple, bool)))
    text = ", ".join(shown)
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _key(equation: Equation) -> Key:
    """By what an equation is known again behind a pass."""
    return label_of(equation), str(equation.location)


def _numbers(values: Iterable[int]) -> str:
    return packed(np.fromiter(values, np.uint32), "<u4")


def _marked(keys: Sequence[Key], which: Counter[Key]) -> str:
    left = Counter(which)
    marks = np.zeros(len(keys), np.uint8)
    for number, key in enumerate(keys):
        if left[key] > 0:
            left[key] -= 1
            marks[number] = 1
    return packed(marks, "<u1")


def _sources(equations: Sequence[Equation]) -> list[list[int]]:
    """Of each equation, those that it reads, once each."""
    makers: dict[Any, int] = {}
    found: list[list[int]] = []
    for number, equation in enumerate(equations):
        read = (makers[v] for v in equation.inputs if v in makers)
        found.append(list(dict.fromkeys(read)))
        makers.update({v: number for v in equation.outputs})
    return found


# -- modules -------------------------------------------------------------------------------------------------


@dataclass
class _Module:
    """A box. Children, in order of appearance: equations by number, modules by -1 - their number."""

    name: str
    count: int = 0  # equations in it, at any depth
    children: list[int] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)


class _Tree:
    """Modules by number, the whole graph first; of every equation the way from there to it."""

    def __init__(self) -> None:
        self.modules = [_Module("")]
        self.ways: list[tuple[int, ...]] = []

    def place(self, sources: Sequence[Sequence[int]]) -> None:
        """Rows of every module: what reads stands below what it reads."""
        reads: list[dict[int, set[int]]] = [{} for _ in self.modules]
        for number, found in enumerate(sources):
            for source in found:
                module, a, b = self._meeting(source, number)
                reads[module].setdefault(b, set()).add(a)
        for box, edges in zip(self.modules, reads, strict=True):
            box.rows = _rows(box.children, edges)

    def _meeting(self, source: int, reader: int) -> tuple[int, int, int]:
        """The innermost module that holds both, and its children that they are in."""
        a, b = self.ways[source], self.ways[reader]
        depth = 0
        while depth < min(len(a), len(b)) and a[depth] == b[depth]:
            depth += 1
        return (
            a[depth - 1],
            -1 - a[depth] if depth < len(a) else source,
            -1 - b[depth] if depth < len(b) else reader,
        )


def _tree(equations: Sequence[Equation]) -> _Tree:
    counts = Counter(prefix for e in equations for prefix in _prefixes(e.location.module))
    tree = _Tree()
    numbers: dict[str, int] = {}
    for number, equation in enumerate(equations):
        way = [0]
        for prefix in _prefixes(equation.location.module):
            if counts[prefix] < 2:  # a box around one equation says nothing
                break
            if prefix not in numbers:
                numbers[prefix] = len(tree.modules)
                tree.modules.append(_Module(prefix, counts[prefix]))
                tree.modules[way[-1]].children.append(-1 - numbers[prefix])
            way.append(numbers[prefix])
        tree.modules[way[-1]].children.append(number)
        tree.ways.append(tuple(way))
    tree.modules[0].count = len(equations)
    return tree


def _prefixes(module: str) -> list[str]:
    parts = module.split(".") if module else []
    return [".".join(parts[: n + 1]) for n in range(len(parts))]


def _rows(children: Sequence[int], reads: Mapping[int, set[int]]) -> list[list[int]]:
    """Children by how far they are from the first, each as late as its readers allow."""
    order = {child: n for n, child in enumerate(children)}
    before = {c: sorted((s for s in reads.get(c, ()) if order[s] < order[c]), key=order.__getitem__)
              for c in children}  # fmt: skip
    rank: dict[int, int] = {}
    for child in children:
        rank[child] = 1 + max((rank[s] for s in before[child]), default=-1)
    latest: dict[int, int] = {}
    for child in reversed(children):
        rank[child] = max(rank[child], latest.get(child, rank[child] + 1) - 1)
        for source in before[child]:
            latest[source] = min(latest.get(source, rank[child]), rank[child])
    return _ordered(children, rank, before)


def _ordered(
    children: Sequence[int], rank: Mapping[int, int], before: Mapping[int, Sequence[int]]
) -> list[list[int]]:
    """Each row by the mean place of what its members read."""
    rows: dict[int, list[int]] = {}
    for child in children:
        rows.setdefault(rank[child], []).append(child)
    place: dict[int, float] = {}
    for layer in sorted(rows):
        row = rows[layer]
        row.sort(key=lambda c: sum(place[s] for s in before[c]) / len(before[c]) if before[c] else 0.5)
        place.update({c: (i + 0.5) / len(row) for i, c in enumerate(row)})
    return [rows[layer] for layer in sorted(rows)]
