"""Every primitive's sharding rule against the whole: random types, placements, meshes, also uneven."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sharding_runs import all_whole, random_placement, run_split
from trilobite.nn import functional as F

import trilobite as tb
from trilobite import nn
from trilobite.cluster.sharding.partition import partition  # noqa: F401  (enters all rules)
from trilobite.cluster.sharding.placements import Placement, canonical
from trilobite.cluster.sharding.rules import GATHERED, REGIONS, RULES
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph
from trilobite.ir.primitives import FAMILIES, table

Array = np.ndarray[Any, Any]
MESHES = [(3,), (2, 2)]


def test_every_primitive_has_a_rule_or_a_word() -> None:
    """Targets' own primitives come after sharding; collectives in a function that is split are refused."""
    for family, names in FAMILIES.items():
        if not family.startswith("cluster"):
            assert [n for n in names.split() if n not in RULES and n not in REGIONS] == []
    assert all(len(why) > 10 for why in (*GATHERED.values(), *REGIONS.values()))


def graph_of(f: Callable[..., Any], args: list[Array]) -> Graph:
    graph: Graph = tb.jit(f).lower(*map(tb.tensor, args)).graph
    return graph


def check(graph: Graph, args: list[Array], ins: list[Placement], mesh: tuple[int, ...]) -> None:
    want = run(graph, args)
    found, _ = run_split(graph, args, ins, mesh)
    for a, b in zip(found, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


def with_gradients(f: Callable[..., Any], n: int) -> Callable[..., Any]:
    """The result, and the slopes of its sum of squares in the first n arguments."""

    def both(*args: Any) -> Any:
        def loss(*first: Any) -> Any:
            out = f(*first, *args[n:])
            return (out * out).sum()

        return f(*args), *tb.grad(loss, argnums=tuple(range(n)))(*args[:n])

    return both


rng = np.random.default_rng(5)


def normal(*shape: int) -> Array:
    return rng.normal(size=shape)


def indices(high: int, *shape: int) -> Array:
    return rng.integers(-2, high + 2, shape)  # what is outside is clamped


CASES: dict[str, tuple[Callable[..., Any], int, list[Array]]] = {
    "matmul": (lambda x, y: x @ y, 2, [normal(5, 7), normal(7, 6)]),
    "batched products": (lambda x, y: x @ y.mT, 2, [normal(4, 5, 6), normal(4, 7, 6)]),
    "elementwise": (lambda x, y: tb.exp(x) * y - x / (y * y + 1.0), 2, [normal(5, 6), normal(5, 6)]),
    "broadcast": (lambda x, y: x + y * 2.0, 2, [normal(5, 6), normal(6)]),
    "sums": (lambda x: x.sum(axis=0) * x.sum() + x.mean(axis=0), 1, [normal(5, 7)]),
    "extremes": (lambda x: x.amax(axis=0) - x.amin(axis=0), 1, [normal(7, 4)]),
    "products of elements": (lambda x: x.prod(axis=0), 1, [normal(6, 4)]),
    "softmax": (lambda x: F.softmax(x, -1), 1, [normal(5, 7)]),
    "layer norm": (lambda x, w: F.layer_norm(x, (7,), w), 2, [normal(5, 7), normal(7)]),
    "group norm": (lambda x: F.group_norm(x, 4), 1, [normal(4, 8, 3, 5)]),
    "merge": (lambda x: x.reshape((-1, 4)) * 2.0, 1, [normal(5, 3, 4)]),
    "part": (lambda x: x.reshape((5, 3, 4)).transpose(1, 2) * 2.0, 1, [normal(5, 12)]),
    "slices": (lambda x: x[:, 1:5:2] * x[:, :2], 1, [normal(6, 5)]),
    "joined": (lambda x, y: tb.concatenate([x, y, x], 1), 2, [normal(5, 3), normal(5, 4)]),
    "reversed": (lambda x: tb.flip(x, (1,)) * x, 1, [normal(5, 6)]),
    "padded": (lambda x: F.pad(x, (1, 2)) * 2.0, 1, [normal(5, 6)]),
    "sorted": (lambda x: tb.sort(x, axis=1), 1, [normal(5, 6)]),
    "running sums": (lambda x: tb.cumulative_sum(x, axis=1), 1, [normal(5, 6)]),
    "where": (lambda x, y: tb.where(x > 0, x * y, y), 2, [normal(5, 6), normal(5, 6)]),
    "embedding": (lambda w, i: F.embedding(i, w) * 2.0, 1, [normal(9, 5), rng.integers(0, 9, (4, 6))]),
    "taken along": (lambda x, i: tb.take_along_axis(x, i, axis=1), 1, [normal(5, 9), indices(9, 5, 4)]),
    "cross entropy": (lambda x, y: F.cross_entropy(x, y), 1, [normal(7, 9), rng.integers(0, 9, 7)]),
    "max pooling": (lambda x: F.max_pool2d(x, 2), 1, [normal(4, 6, 5, 6)]),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), 3,
        [normal(3, 4, 5, 6), normal(3, 4, 5, 6), normal(3, 4, 5, 6)],
    ),
    "solve": (
        lambda a, b: tb.linalg.solve(a @ a.mT + 9 * tb.eye(4), b), 2, [normal(5, 4, 4), normal(5, 4, 2)],
    ),
    "scan": (
        lambda x, w: tb.scan(lambda c, r: (tb.tanh(c @ w + r), c), x[0] * 0.0, x)[1] * 1.0, 2,
        [normal(4, 5, 6), normal(6, 6)],
    ),
    "cond": (
        lambda x: tb.cond(x.sum() > 0, lambda v: v @ v.mT, lambda v: (v * 2.0) @ v.mT, x), 1, [normal(5, 6)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_split_operands_give_what_whole_ones_do(name: str) -> None:
    f, n, args = CASES[name]
    graph = graph_of(with_gradients(f, n), args)
    draw = np.random.default_rng(sum(map(ord, name)))
    mesh = MESHES[int(draw.integers(len(MESHES)))]
    check(graph, args, [random_placement(v.type, mesh, draw) for v in graph.inputs], mesh)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_many_placements(name: str) -> None:
    f, n, args = CASES[name]
    graph = graph_of(with_gradients(f, n), args)
    draw = np.random.default_rng(1 + sum(map(ord, name)))
    for mesh in ((2,), (4,), *MESHES, (1, 3), (2, 1, 2)):
        for _ in range(12):
            check(graph, args, [random_placement(v.type, mesh, draw) for v in graph.inputs], mesh)


CONVOLUTIONS = {
    "padded": dict(padding=1),
    "strides": dict(stride=2, padding=1),
    "dilated": dict(dilation=2, padding=2),
    "groups": dict(groups=2, padding=1),
    "depthwise": dict(groups=4, padding=1),
    "no padding": {},
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_along_batch_channels_and_space(name: str) -> None:
    """Along space, ranks exchange rows; gradients of input and filters too."""
    settings: dict[str, Any] = CONVOLUTIONS[name]
    x, w = normal(3, 4, 13, 9), normal(6 if name != "depthwise" else 8, 4 // settings.get("groups", 1), 3, 3)

    def f(x: Any, w: Any) -> Any:
        return F.conv2d(x, w, **settings)

    graph = graph_of(with_gradients(f, 2), [x, w])
    for mesh, dimension in (((3,), 2), ((2, 2), 0), ((2,), 1), ((2,), 3)):
        axes = (dimension, *(None if dimension else 2 for _ in mesh[1:]))
        p = canonical(graph.inputs[0].type, Placement(axes, (1,) * 4), mesh)
        check(graph, [x, w], [p, all_whole(graph, mesh)[1]], mesh)


def test_rows_at_borders_are_exchanged_not_the_image() -> None:
    x, w = normal(2, 3, 16, 8), normal(4, 3, 3, 3)
    graph = graph_of(lambda x, w: F.conv2d(x, w, padding=1), [x, w])
    ins = [Placement((2,), (1,) * 4), Placement((None,), (1,) * 4)]
    _, made = run_split(graph, [x, w], ins, (4,))
    assert {c.name for c in made[0].collectives} == {"cluster_permute"}
    assert sum(c.nbytes for c in made[0].collectives) == 2 * (2 * 3 * 1 * 8) * 8


def test_a_dimension_too_short_for_its_neighbours_is_gathered() -> None:
    x, w = normal(2, 3, 4, 8), normal(4, 3, 3, 3)
    graph = graph_of(lambda x, w: F.conv2d(x, w, dilation=3, padding=3), [x, w])
    ins = [Placement((2,), (1,) * 4), Placement((None,), (1,) * 4)]
    _, made = run_split(graph, [x, w], ins, (4,))
    assert "cluster_all_gather" in {c.name for c in made[0].collectives}


def test_batch_norm_takes_the_statistics_of_all_ranks() -> None:
    norm = nn.BatchNorm2d(4).double()
    x = normal(5, 4, 3, 3)

    def f(x: Any) -> Any:
        return F.batch_norm(x, None, None, norm.weight.detach(), norm.bias.detach(), training=True)

    jitted = tb.jit(with_gradients(f, 1))
    graph = jitted.lower(tb.tensor(x)).graph
    args = [x, *(np.asarray(t.detach().numpy()) for t in (norm.weight, norm.bias))][: len(graph.inputs)]
    ins = [Placement((0,), (1,) * 4), *(all_whole(graph, (3,))[1:])]
    check(graph, args, ins, (3,))


def test_a_sum_that_is_left_out_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests would fail if a rule forgot one."""
    f, n, args = CASES["layer norm"]
    graph = graph_of(with_gradients(f, n), args)
    ins = [Placement((1,), (1, 1)), Placement((0,), (1,))]
    check(graph, args, ins, (7,))
    monkeypatch.setattr(table["cluster_all_reduce"], "evaluate", lambda x, **_: x)
    with pytest.raises(AssertionError):
        check(graph, args, ins, (7,))
