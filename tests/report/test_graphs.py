"""Layout of graphs: edges point down, boxes of a layer do not touch, new equations are marked."""

from __future__ import annotations

import time
from itertools import pairwise

import numpy as np

import trilobite as tb
from trilobite.ir.graph import Graph
from trilobite.report.graphs import stage_data, stages_data


def graph_of(depth: int) -> Graph:
    def f(x: tb.Tensor) -> tb.Tensor:
        y = x
        for i in range(depth):
            y = tb.sin(y) + x * (i + 1.5) if i % 3 else tb.maximum(y, x)
        return y

    return tb.jit(f).lower(tb.tensor(np.ones(3, np.float32))).graph


def test_edges_point_down_and_boxes_stand_apart() -> None:
    graph = graph_of(12)
    stage = stage_data("graph", graph)
    nodes = {node["id"]: node for node in stage["nodes"]}
    assert len(nodes) == len(graph.equations)
    assert all(nodes[a]["y"] < nodes[b]["y"] for a, b in stage["edges"])
    rows: dict[int, list[dict]] = {}
    for node in stage["nodes"]:
        rows.setdefault(node["y"], []).append(node)
        assert node["x"] >= 0 and node["x"] + node["w"] <= stage["width"]
    for row in rows.values():
        row.sort(key=lambda node: node["x"])
        assert all(a["x"] + a["w"] < b["x"] for a, b in pairwise(row))


def test_every_read_is_an_edge() -> None:
    graph = graph_of(7)
    makers = {v: n for n, e in enumerate(graph.equations) for v in e.outputs}
    wanted = {(makers[v], n) for n, e in enumerate(graph.equations) for v in e.inputs if v in makers}
    assert {tuple(edge) for edge in stage_data("graph", graph)["edges"]} == wanted


def test_what_a_pass_made_is_marked() -> None:
    first, second = graph_of(2), graph_of(4)
    before, after = stages_data({"a": first, "b": second})
    assert not any(node["fresh"] for node in before["nodes"])
    assert sum(node["fresh"] for node in after["nodes"]) == len(second.equations) - len(first.equations)


def test_ten_thousand_equations_are_laid_out_quickly() -> None:
    graph = graph_of(3000)
    began = time.perf_counter()
    stage = stage_data("graph", graph)
    assert len(stage["nodes"]) > 8000
    assert time.perf_counter() - began < 10  # a quadratic layout would take minutes
