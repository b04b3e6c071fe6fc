"""grow_joins: joins that extend one another are written once; the meaning stays in every bit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.passes.test_layout import names, record
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.cpu.passes.grow_joins import grow_joins
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitive import table
from trilobite.ir.verify import verify

Array = np.ndarray[Any, Any]


def grown(graph: Graph) -> Graph:
    """After the pass: well-typed, and of the same bits."""
    after = grow_joins(graph)
    verify(after)
    rng = np.random.default_rng(5)
    values = [rng.standard_normal(t.shape).astype(t.dtype) for t in graph.input_types]
    for a, b in zip(run(after, values), run(graph, values), strict=True):
        assert np.array_equal(a, b)
    return after


def listed(x: Any, w: Any, axis: int, depth: int) -> Any:
    """Every layer joins all that came before it."""
    parts = [x]
    for _ in range(depth):
        joined = table["concatenate"](*parts, axis=axis)
        parts.append(layer(joined, w, axis))
    return table["concatenate"](*parts, axis=axis)


def chained(x: Any, w: Any, axis: int, depth: int) -> Any:
    """Every layer's result is joined to what was joined before."""
    for _ in range(depth):
        x = table["concatenate"](x, layer(x, w, axis), axis=axis)
    return x


def layer(x: Any, w: Any, axis: int) -> Any:
    """The sum along the axis, three times: reads the whole join."""
    total = table["reduce_sum"](x, axes=(axis,))
    shape = [*total.shape[:axis], 3, *total.shape[axis:]]
    wide = table["broadcast"](
        total, shape=tuple(shape), axes=tuple(a for a in range(len(shape)) if a != axis)
    )
    return table["mul"](wide, w)


def shapes(axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    x, w = [17, 19, 23], [17, 19, 23]
    x[axis], w[axis] = 5, 3
    return tuple(x), tuple(w)


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("network", [listed, chained])
def test_a_dense_block_is_one_value_that_grows(network: Any, axis: int) -> None:
    graph = record(lambda x, w: network(x, w, axis, 6), *shapes(axis))
    found = names(grown(graph))
    assert found["concatenate"] == 1
    assert found["update_slice"] == (6 if network is listed else 5)  # its first join has one operand


def dense(x: tb.Tensor, w: tb.Tensor, depth: int, chain: bool) -> tb.Tensor:
    """As users write dense blocks, in either manner."""
    parts = [x]
    for _ in range(depth):
        joined = tb.cat(parts, 2)
        new = joined.tanh() @ w[: joined.shape[2]]
        parts = [joined, new] if chain else [*parts, new]
    return tb.cat(parts, 2)


@pytest.mark.parametrize("chain", [False, True])
def test_compiled_blocks_and_their_gradients_are_the_plain_ones(chain: bool) -> None:
    rng = np.random.default_rng(3)
    x, w = (tb.tensor(rng.standard_normal(s) / 4) for s in ((17, 19, 5), (40, 3)))
    step = tb.value_and_grad(lambda x, w: (dense(x, w, 7, chain) ** 2).sum(), (0, 1))
    plain, fast = (tb.jit(step, target=target)(x, w) for target in ("reference", "cpu"))
    for a, b in zip([plain[0], *plain[1]], [fast[0], *fast[1]], strict=True):
        np.testing.assert_allclose(b.numpy(), a.numpy(), rtol=1e-8, atol=1e-8)


def test_late_readers_of_early_joins_read_the_newest_form() -> None:
    def network(x: Any, w: Any) -> Any:
        joins = [x]
        for _ in range(5):
            joins.append(table["concatenate"](joins[-1], layer(joins[-1], w, 2), axis=2))
        return [table["neg"](j) for j in joins]

    graph = record(network, *shapes(2))
    after = grown(graph)
    (last,) = [e for e in after.equations if e.primitive.name == "update_slice"][-1:]
    readers = [e for e in after.equations if e.primitive.name == "slice" and e.inputs[0] is last.outputs[0]]
    assert len(readers) == 4  # all joins but the widest, which is the value itself


@pytest.mark.parametrize("chain", [False, True])
def test_the_value_grows_in_the_memory_that_it_has(chain: bool) -> None:
    """The step that would copy the older form finds it in its place, every time."""
    x, w = (tb.tensor(np.zeros(s, np.float32)) for s in ((17, 19, 30), (60, 3)))
    made = tb.jit(lambda x, w: dense(x, w, 8, chain).exp().sum()).lower(x, w)
    copies = re.findall(r"update_slice\w*\((arena\+\d+), (arena\+\d+)[, \d]*\)", made.stages["program"])
    same = [a for a, b in copies if a == b]
    assert len(same) == 6  # of 7 updates: the last is computed where it is read


def test_what_gains_nothing_stays() -> None:
    counters = Counters()
    for network, given in (
        (lambda x, w: listed(x, w, 2, 1), shapes(2)),  # two joins
        (lambda x, w: listed(x, w, 0, 4), ((5, 2, 3), (3, 2, 3))),  # few elements
        (lambda x, w: table["concatenate"](x, w, x, w, axis=1), ((9, 40, 30), (9, 4, 30))),  # one join
    ):
        graph = record(network, *given)
        assert grow_joins(graph, counters) is graph
    assert not counters


def test_a_part_that_is_most_of_the_whole_stays() -> None:
    def network(x: Any, y: Any) -> Any:
        a = table["concatenate"](x, x, axis=1)
        b = table["concatenate"](a, x, axis=1)
        return table["concatenate"](b, y, axis=1)

    graph = record(network, (50, 3), (50, 200))
    assert grow_joins(graph) is graph
