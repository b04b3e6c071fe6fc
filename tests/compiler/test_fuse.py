"""Fusion by groups: the same meaning, the expected groups, no cycles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.graph.fuse import FusionPolicy, Kind, fuse
from trilobite.compiler.graph.passes.split_stable import split_stable
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.text import parse
from trilobite.ir.verify import verify

MOVES = {"broadcast", "constant", "full", "iota", "cast"}
ELEMENTWISE = {"add", "mul", "sub", "exp", "neg", "maximum", "tanh", *MOVES}


def loops(region: Graph) -> str | None:
    """Elementwise work over one shape, and a reduction at its end."""
    names = [e.primitive.name for e in region.equations]
    unknown = [n for n in names if n not in ELEMENTWISE | {"reduce_sum"}]
    if unknown:
        return f"{unknown[0]} is not elementwise"
    if "reduce_sum" in names[:-1]:
        return "work after a reduction"
    shapes = {e.outputs[0].type.shape for e in region.equations if e.primitive.name in ELEMENTWISE - MOVES}
    return "two shapes" if len(shapes) > 1 else None


def dots(region: Graph) -> str | None:
    first = next(e for e in region.equations if e.primitive.name not in MOVES)
    rest = [e for e in region.equations if e is not first and e.primitive.name not in ELEMENTWISE]
    if first.primitive.name != "dot" or rest:
        return "not a product with elementwise work behind it"
    return None


KINDS: Mapping[str, Kind] = {"loops": Kind("loops", loops), "dot": Kind("dot", dots)}
ROOTS = {"dot": "dot"}
FIGURES = {"largest": 64, "constant": 16, "from_memory": 1 << 22, "transposed": 1 << 15, "chain": 6}


def fused(text: str) -> Graph:
    graph = parse(text)
    out = fuse(graph, FusionPolicy(KINDS, ROOTS, **FIGURES))
    verify(out)
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(t.shape).astype(t.dtype) for t in graph.input_types]
    for a, b in zip(run(graph, values), run(out, values), strict=True):
        assert a.tobytes() == b.tobytes()
    return out


def groups(graph: Graph) -> list[tuple[str, list[str]]]:
    return [
        (e.attributes["kind"], [i.primitive.name for i in e.attributes["region"].equations])
        for e in graph.equations
        if e.primitive.name == "fusion"
    ]


def test_a_layer_is_one_kernel() -> None:
    out = fused("""
        graph "layer"(%0: f32[4,3], %1: f32[3,5], %2: f32[5]) {
          %3: f32[4,5] = dot %0, %1 {contract=((1,),(0,)), batch=((),()), dtype=f32}
          %4: f32[4,5] = broadcast %2 {shape=(4,5), axes=(1,)}
          %5: f32[4,5] = add %3, %4
          %6: f32[4,5] = tanh %5
          return %6
        }""")
    assert groups(out) == [("dot", ["dot", "broadcast", "add", "tanh"])]
    assert len(out.equations[0].outputs) == 1


def test_a_diamond_does_not_become_a_cycle() -> None:
    out = fused("""
        graph "diamond"(%0: f32[4,4]) {
          %1: f32[4,4] = exp %0
          %2: f32[4,4] = dot %1, %1 {contract=((1,),(0,)), batch=((),()), dtype=f32}
          %3: f32[4,4] = add %1, %2
          return %3
        }""")
    assert groups(out) == [("loops", ["exp"]), ("dot", ["dot", "add"])]


def test_values_read_elsewhere_leave_the_group() -> None:
    out = fused("""
        graph "several"(%0: f32[6], %1: f32[6]) {
          %2: f32[6] = mul %0, %1
          %3: f32[6] = exp %2
          %4: f32[6] = neg %3
          return %2, %4
        }""")
    assert groups(out) == [("loops", ["mul", "exp", "neg"])]
    assert [str(v.type) for v in out.equations[0].outputs] == ["f32[6]", "f32[6]"]


def test_broadcasts_are_copied_to_each_reader() -> None:
    out = fused("""
        graph "shared"(%0: f32[3,4], %1: f32[4], %2: f32[4,4]) {
          %3: f32[3,4] = broadcast %1 {shape=(3,4), axes=(1,)}
          %4: f32[3,4] = add %0, %3
          %5: f32[3,4] = dot %0, %2 {contract=((1,),(0,)), batch=((),()), dtype=f32}
          %6: f32[3,4] = mul %5, %3
          return %4, %6
        }""")
    assert groups(out) == [("loops", ["broadcast", "add"]), ("dot", ["dot", "broadcast", "mul"])]


def test_a_broadcast_that_is_a_result_is_computed() -> None:
    out = fused("""
        graph "result"(%0: f32[4]) {
          %1: f32[3,4] = broadcast %0 {shape=(3,4), axes=(1,)}
          return %1
        }""")
    assert groups(out) == [("loops", ["broadcast"])]


def test_what_no_kind_runs_is_left_to_the_host_with_its_reason() -> None:
    out = fused("""
        graph "host"(%0: f32[3,4]) {
          %1: f32[2,3,4] = broadcast %0 {shape=(2,3,4), axes=(1,2)}
          %2: f32[2,3,4] = sort %1 {axis=2, keys=1}
          %3: f32[2,3,4] = neg %2
          return %3
        }""")
    kinds = groups(out)
    assert ("host", ["sort"]) in kinds and kinds[-1] == ("loops", ["neg"])
    host = next(e for e in out.equations if e.attributes["kind"] == "host")
    assert host.attributes["why"] == "sort is not elementwise"


def test_reshapes_are_aliases_and_order_is_kept() -> None:
    out = fused("""
        graph "shapes"(%0: f32[3,4]) {
          %1: f32[3,4] = exp %0
          %2: f32[12] = reshape %1 {shape=(12,)}
          %3: f32[12] = neg %2
          %4: f32[3,4] = reshape %3 {shape=(3,4)}
          %5: f32[3,4] = add %4, %1
          return %5
        }""")
    assert [k for k, _ in groups(out)] == ["loops", "alias", "loops", "alias", "loops"]


def test_two_branches_of_one_value_meet_in_one_group() -> None:
    out = fused("""
        graph "meeting"(%0: f32[3,4]) {
          %1: f32[3,4] = tanh %0
          %2: f32[3,4] = exp %0
          %3: f32[3,4] = neg %2
          %4: f32[3,4] = add %1, %3
          return %4
        }""")
    assert groups(out) == [("loops", ["tanh", "exp", "neg", "add"])]


def test_what_waits_for_its_reader_is_not_computed_twice() -> None:
    out = fused("""
        graph "once"(%0: f32[3,4], %1: f32[4,5], %2: f32[4,5]) {
          %3: f32[3,4] = exp %0
          %4: f32[3,4] = neg %3
          %5: f32[3,5] = dot %4, %1 {contract=((1,), (0,)), batch=((), ()), dtype=f32}
          %6: f32[3,5] = dot %4, %2 {contract=((1,), (0,)), batch=((), ()), dtype=f32}
          return %5, %6
        }""")
    assert [names.count("exp") for _, names in groups(out)] == [1, 0, 0]


def test_rows_that_are_interpolated_between_are_read_by_one_kernel() -> None:
    def between(x: Any) -> Any:
        return tb.nn.functional.interpolate(x, scale_factor=(2, 3), mode="bilinear")

    x = tb.tensor(np.random.default_rng(0).standard_normal((1, 3, 5, 7)).astype("f"))
    kernels = tb.jit(between).lower(x).stages["fuse"].split("fusion ")[1:]
    assert [k.count("= gather") for k in kernels] == [2, 2]


def test_long_chains_are_cut() -> None:
    lines = ["%1: f32[2] = exp %0"] + [f"%{i + 1}: f32[2] = neg %{i}" for i in range(1, 200)]
    out = fused('graph "chain"(%0: f32[2]) {\n' + "\n".join(lines) + "\nreturn %200\n}")
    assert [len(names) for _, names in groups(out)] == [64, 64, 64, 8]


WEIGHTS = """
    graph "folded"(%0: f32[2,3], %1: f32[3,5], %2: f32[5]) {
      %3: f32[3,5] = broadcast %2 {shape=(3,5), axes=(1,)}
      %4: f32[3,5] = mul %1, %3
      %5: f32[2,5] = dot %0, %4 {contract=((1,),(0,)), batch=((),()), dtype=f32}
      %6: f32[2,5] = broadcast %2 {shape=(2,5), axes=(1,)}
      %7: f32[2,5] = add %5, %6
      return %7
    }"""


def test_what_depends_on_weights_alone_is_split_off() -> None:
    graph = parse(WEIGHTS)
    halves = split_stable(graph, [1, 2])
    assert halves is not None
    verify(halves.first)
    verify(halves.second)
    assert [e.primitive.name for e in halves.first.equations] == ["broadcast", "mul"]
    assert [e.primitive.name for e in halves.second.equations] == ["dot", "broadcast", "add"]
    rng = np.random.default_rng(1)
    values = [rng.standard_normal(t.shape).astype(t.dtype) for t in graph.input_types]
    ready = run(halves.first, [values[i] for i in halves.stable])
    got = run(halves.second, [*(values[i] for i in halves.kept), *ready])
    assert got[0].tobytes() == run(graph, values)[0].tobytes()


@pytest.mark.parametrize("stable", [[], [0]])
def test_nothing_worth_splitting_is_not_split(stable: list[int]) -> None:
    assert split_stable(parse(WEIGHTS), stable) is None


def test_a_cheap_value_of_several_readers_is_computed_by_each() -> None:
    out = fused("""
        graph "normalised"(%0: f32[64,8], %1: f32[8,8]) {
          %2: f32[64,8] = dot %0, %1 {contract=((1,),(0,)), batch=((),()), dtype=f32}
          %3: f32[8] = reduce_sum %2 {axes=(0,)}
          %4: f32[8] = exp %3
          %5: f32[64,8] = broadcast %4 {shape=(64,8), axes=(1,)}
          %6: f32[64,8] = sub %2, %5
          %7: f32[64,8] = mul %6, %6
          %8: f32[8] = reduce_sum %7 {axes=(0,)}
          %9: f32[64,8] = broadcast %8 {shape=(64,8), axes=(1,)}
          %10: f32[64,8] = mul %6, %9
          return %10
        }""")
    names = [names for _, names in groups(out)]
    assert names[-2:] == [["broadcast", "sub", "mul", "reduce_sum"], ["broadcast", "sub", "broadcast", "mul"]]
    assert all(v.type.shape == (8,) for e in out.equations[1:-1] for v in e.outputs)


BIG = (2048, 2049)  # more than a cache keeps


def beside(fn: Callable[..., Any], *values: Any) -> tuple[list[str], list[Any]]:
    """The kernels of a function, and how far its results are from the eager ones."""
    compiled = tb.jit(fn, target="cpu")
    found, known = compiled(*values), fn(*values)
    off = [
        float(np.abs(a.numpy() - b.numpy()).max() / np.abs(b.numpy()).max())
        for a, b in zip(found, known, strict=True)
    ]
    told = compiled.explain(*values).splitlines()
    return [line.split("kernel ")[1] for line in told if " kernel " in line], off


def test_reductions_of_one_large_value_share_a_pass() -> None:
    x = tb.tensor(np.random.default_rng(0).standard_normal(BIG).astype("f"))
    kernels, off = beside(lambda x: (x.sum(1), x.max(axis=1), (x * x).sum(1)), x)
    assert kernels == ["reduce_sum_reduce_max_mul_reduce_sum"]
    assert max(off) < 1e-5
    kernels, off = beside(lambda x: (x.sum(), tb.exp(x).max()), x)
    assert len(kernels) == 1 and max(off) < 1e-4
    kernels, off = beside(lambda x: (x.sum(0), x.max(axis=1)), x)
    assert len(kernels) == 2 and max(off) < 1e-4, "over other axes it would be two passes anyway"


def test_small_values_and_elementwise_work_stay_apart() -> None:
    x = tb.tensor(np.random.default_rng(0).standard_normal((64, 65)).astype("f"))
    assert len(beside(lambda x: (x.sum(1), x.max(axis=1)), x)[0]) == 2
    assert len(beside(lambda x: (tb.exp(x), tb.sin(x)), x)[0]) == 2


def test_a_reduction_never_stands_before_what_it_reads() -> None:
    """The second one reads the first one's result beside the value."""
    x = tb.tensor(np.random.default_rng(0).standard_normal(BIG).astype("f"))
    y = tb.tensor(np.random.default_rng(1).standard_normal(BIG).astype("f"))

    def chained(x: Any, y: Any) -> Any:
        first = x.max(1, keepdim=True)
        second = (x * y).sum(1)
        third = ((x - first) * tb.exp(y)).sum(1)
        return first, second, third, (x * (first + y)).max(1)

    assert max(beside(chained, x, y)[1]) < 1e-4
