"""Drawings of graphs: rows of modules, edges that point down, what passes made and took away."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import trilobite as tb
from trilobite.framework import nn
from trilobite.ir.graph import Graph
from trilobite.report.graphs import LONGEST, WIDEST, _attributes, label_of, stage_data, stages_data


def graph_of(depth: int) -> Graph:
    def f(x: tb.Tensor) -> tb.Tensor:
        y = x
        for i in range(depth):
            y = tb.sin(y) + x * (i + 1.5) if i % 3 else tb.maximum(y, x)
        return y

    return tb.jit(f).lower(tb.tensor(np.ones(3, np.float32))).graph


class Net(nn.Module):
    def __init__(self) -> None:
        self.a = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))
        self.b = nn.Linear(3, 3)

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        return self.b(self.a(x)) + self.a(tb.sin(x))  # a module that is called twice


def net_graph() -> Graph:
    return tb.jit(Net()).lower(tb.tensor(np.ones((2, 3), np.float32))).graph


def unpacked(text: str, dtype: str = "<u4") -> list[int]:
    return np.frombuffer(base64.b64decode(text), dtype).tolist()


def every_equation(stage: dict[str, Any]) -> list[int]:
    return sorted(child for _, _, rows in stage["modules"] for row in rows for child in row if child >= 0)


def test_every_equation_and_module_stands_in_one_row() -> None:
    for graph in (graph_of(12), net_graph()):
        stage = stage_data("graph", graph)
        assert every_equation(stage) == list(range(len(graph.equations)))
        boxes = [-1 - c for _, _, rows in stage["modules"] for row in rows for c in row if c < 0]
        assert sorted(boxes) == list(range(1, len(stage["modules"])))


def test_what_reads_stands_below_what_it_reads_in_the_same_module() -> None:
    stage = stage_data("graph", graph_of(12))
    (_, _, rows), edges = stage["modules"][0], unpacked(stage["edges"])
    level = {child: n for n, row in enumerate(rows) for child in row}
    assert all(level[a] < level[b] for a, b in zip(edges[::2], edges[1::2], strict=True))


class Straight(nn.Module):
    """Modules that read each other, side by side and nested, each called once."""

    def __init__(self) -> None:
        self.first = nn.Sequential(nn.Linear(3, 4), nn.GELU(), nn.Linear(4, 5), nn.LayerNorm(5))
        self.second = nn.Sequential(nn.Sequential(nn.Linear(5, 4), nn.Softplus()), nn.Linear(4, 5))
        self.third = nn.LayerNorm(5)

    def forward(self, x: tb.Tensor) -> tb.Tensor:
        x = self.first(x)
        out: tb.Tensor = self.third(self.second(x) * 2 + x)
        return out


def test_boxes_stand_below_the_boxes_that_they_read() -> None:
    stage = stage_data("graph", tb.jit(Straight()).lower(tb.tensor(np.ones((2, 3), np.float32))).graph)
    above, row_of = {}, {}
    for number, (_, _, rows) in enumerate(stage["modules"]):
        for n, row in enumerate(rows):
            for child in row:
                above[child], row_of[child] = -1 - number, n

    def way(child: int) -> list[int]:
        """The boxes around an equation and itself, the whole graph first."""
        return [*way(above[child]), child] if child in above else [child]

    edges, crossing = unpacked(stage["edges"]), 0
    for a, b in zip(edges[::2], edges[1::2], strict=True):
        x, y = next((x, y) for x, y in zip(way(a), way(b), strict=False) if x != y)
        assert row_of[x] < row_of[y], (a, b)
        crossing += x < 0 and y < 0
    assert crossing >= 2  # from box to box, not only within one


def test_modules_are_nested_as_in_the_network() -> None:
    stage = stage_data("graph", net_graph())
    names = {name: count for name, count, _ in stage["modules"]}
    assert {"a", "a.0", "a.2", "b"} <= names.keys()
    assert names["a"] > names["a.0"] and names[""] == len(net_graph().equations)


def test_every_read_is_an_edge() -> None:
    graph = net_graph()
    makers = {v: n for n, e in enumerate(graph.equations) for v in e.outputs}
    wanted = {(makers[v], n) for n, e in enumerate(graph.equations) for v in e.inputs if v in makers}
    edges = unpacked(stage_data("graph", graph)["edges"])
    assert set(zip(edges[::2], edges[1::2], strict=True)) == wanted


def test_what_a_pass_made_and_took_away_is_marked() -> None:
    first, second = graph_of(2), graph_of(4)
    before, after = stages_data({"a": first, "b": second})
    assert not any(unpacked(before["fresh"], "u1")) and not any(unpacked(before["gone"], "u1"))
    assert sum(unpacked(after["fresh"], "u1")) == len(second.equations) - len(first.equations)
    longer, shorter = stages_data({"a": second, "b": first})
    assert sum(unpacked(longer["gone"], "u1")) == len(second.equations) - len(first.equations)
    assert not any(unpacked(shorter["fresh"], "u1"))


def test_a_pass_that_changed_nothing_is_only_named() -> None:
    graph = graph_of(3)
    (stage,) = stages_data({"a": graph, "b": graph, "c": graph}, {"a": "what it does"})
    assert stage["same"] == ["b", "c"] and stage["doc"] == "what it does"


def test_ten_thousand_equations_are_laid_out_quickly() -> None:
    graph = graph_of(3000)
    began = time.thread_time()
    stage = stage_data("graph", graph)
    assert len(unpacked(stage["label"])) > 8000
    assert time.thread_time() - began < 10  # a quadratic layout would take minutes


@dataclass(frozen=True)
class Named:
    """Stands for a primitive or an equation: a name, attributes, no outputs."""

    name: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: tuple[Any, ...] = ()

    @property
    def primitive(self) -> Named:
        return self


def test_long_labels_and_attributes_are_cut_to_the_letter() -> None:
    for length in (WIDEST - 1, WIDEST, WIDEST + 1, WIDEST + 9):  # a space stands behind the name
        name = "abcdefghij"[: length % 10] + "x" * (length - length % 10)
        label, whole = label_of(Named(name[1:])), f"{name[1:]} "  # type: ignore[arg-type]
        assert len(label) == min(length, WIDEST)
        assert label == whole if length <= WIDEST else label == whole[: WIDEST - 1] + "…"
    for length in (LONGEST - 1, LONGEST, LONGEST + 1, LONGEST + 30):
        text = _attributes(Named("", {"a": "y" * (length - 2)}))  # type: ignore[arg-type]
        assert len(text) == min(length, LONGEST) and text.endswith("…") == (length > LONGEST)
