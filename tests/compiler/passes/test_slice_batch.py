"""slice_batch: large batches in slices; the meaning stays in every bit, small or dense parts stay whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from tests.compiler.passes.test_layout import conv, names, per_channel, pool, record, relu
from trilobite.compiler.graph.passes.dce import dce
from trilobite.compiler.graph.rewrite import Counters
from trilobite.compiler.targets.cpu import stages
from trilobite.compiler.targets.cpu.passes.layout import layout
from trilobite.compiler.targets.cpu.passes.slice_batch import Caches, slice_batch
from trilobite.compiler.targets.registry import executable
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Equation, Graph
from trilobite.ir.primitive import table
from trilobite.ir.verify import verify

Array = np.ndarray[Any, Any]
EVERYTHING = Caches(near=1, idle=float("inf"))


def sliced(graph: Graph, caches: Caches = EVERYTHING) -> Graph:
    """Channels last, then in slices; well-typed, and of the same bits for whole numbers."""
    before = dce(layout(graph, accuracy="strict"))
    after = slice_batch(before, caches)
    verify(after)
    rng = np.random.default_rng(7)
    values = [rng.integers(-3, 4, t.shape).astype(t.dtype) for t in graph.input_types]
    for a, b in zip(run(after, values), run(before, values), strict=True):
        assert np.array_equal(a, b)
    return after


def loops(graph: Graph) -> list[Equation]:
    return [e for e in graph.equations if e.primitive.name == "scan"]


def block(x: Any, expand: Any, depthwise: Any, project: Any, stride: int = 1) -> Any:
    """An inverted bottleneck."""
    y = relu(conv(x, expand, pad=0))
    y = relu(conv(y, depthwise, stride=stride, groups=depthwise.shape[0]))
    return conv(y, project, pad=0)


WEIGHTS = ((12, 4, 1, 1), (12, 1, 3, 3), (4, 12, 1, 1))


@pytest.mark.parametrize("batch", [2, 5, 6])
def test_a_bottleneck_with_its_shortcut_runs_image_by_image(batch: int) -> None:
    graph = sliced(record(lambda x, *w: table["add"](x, block(x, *w)), (batch, 4, 6, 5), *WEIGHTS))
    (loop,) = loops(graph)
    assert loop.attributes["length"] == batch
    assert loop.attributes["carries"] == 0
    assert names(loop.attributes["body"])["conv_last"] == 3
    assert names(graph)["conv_last"] == 0


def test_slices_are_as_large_as_fits_and_divide_the_batch() -> None:
    graph = record(lambda x, *w: block(x, *w), (12, 4, 6, 5), *WEIGHTS)
    image = (12 + 12) * 6 * 5 * 4  # of the depthwise convolution
    for near, length in ((image - 1, 12), (image, 12), (2 * image, 6), (5 * image, 3), (7 * image, 2)):
        (loop,) = loops(sliced(graph, EVERYTHING._replace(near=near)))
        assert loop.attributes["length"] == length
    assert not loops(sliced(graph, EVERYTHING._replace(near=12 * image)))


def test_layers_behind_the_last_large_one_keep_the_batch() -> None:
    def network(x: Any, *w: Any) -> Any:
        x = pool(block(x, *w[:3]))
        return table["reduce_sum"](block(pool(x), *w[3:]), axes=(2, 3))

    graph = record(network, (4, 4, 16, 16), *WEIGHTS, *WEIGHTS)
    small = sliced(graph, EVERYTHING._replace(near=4 * (4 + 12) * 8 * 8 * 4))
    (loop,) = loops(small)
    inside = names(loop.attributes["body"])
    assert (inside["conv_last"], inside["window_last_reduce"]) == (3, 1)
    assert names(small)["conv_last"] == 3, "the second bottleneck is outside"
    (all_of_it,) = loops(sliced(graph))
    assert names(all_of_it.attributes["body"])["reduce_sum"] == 1


def test_what_is_the_same_for_all_images_is_made_in_the_body() -> None:
    def network(x: Any, bias: Any, *w: Any) -> Any:
        y = block(x, *w)
        return pool(table["add"](y, per_channel(bias, y)))

    (loop,) = loops(sliced(record(network, (5, 4, 6, 6), (4,), *WEIGHTS)))
    assert names(loop.attributes["body"])["broadcast"] >= 1
    consts = [v.type.shape for v in loop.inputs[: loop.attributes["consts"]]]
    assert all(len(shape) != 4 or shape[0] != 5 for shape in consts)


def test_a_product_between_levels_stands_between_two_loops() -> None:
    def network(x: Any, mix: Any, *w: Any) -> Any:
        y = block(x, *w[:3])
        means = table["reduce_sum"](y, axes=(2, 3))
        scale = table["dot"](means, mix, contract=((1,), (0,)), batch=((), ()), dtype=np.dtype("float32"))
        z = block(x, *w[3:])
        wide = table["broadcast"](scale, shape=z.shape, axes=(0, 1))
        return block(table["mul"](z, wide), *w[:3])

    graph = sliced(record(network, (3, 4, 6, 6), (4, 4), *WEIGHTS, *WEIGHTS))
    order = [e.primitive.name for e in graph.equations if e.primitive.name in ("scan", "dot")]
    assert order == ["scan", "dot", "scan"]


def test_statistics_of_a_batch_stay_whole() -> None:
    def network(x: Any, *w: Any) -> Any:
        y = block(x, *w)
        total = table["reduce_sum"](y, axes=(0, 2, 3))
        return table["sub"](y, table["broadcast"](total, shape=y.shape, axes=(1,)))

    graph = sliced(record(network, (4, 4, 6, 6), *WEIGHTS))
    assert names(graph)["reduce_sum"] == 1


def test_weights_that_are_computed_from_images_are_whole() -> None:
    """The second convolution's filters are the first one's images."""

    def network(x: Any, *w: Any) -> Any:
        y = block(x, *w)
        small = table["slice"](y, start=(0, 0, 0, 0), stop=(*y.shape[:2], 3, 3), step=(1, 1, 1, 1))
        return relu(conv(relu(conv(y, y, pad=2)), relu(small)))

    sliced(record(network, (4, 4, 6, 6), *WEIGHTS))


def test_values_that_are_read_elsewhere_keep_a_part_whole() -> None:
    def network(x: Any, *w: Any) -> Any:
        y = relu(conv(x, w[0], pad=0))
        z = relu(conv(y, w[1], groups=12))
        return y, z, conv(z, w[2], pad=0)

    assert not loops(sliced(record(network, (4, 4, 6, 6), *WEIGHTS)))


def test_dense_layers_keep_the_batch() -> None:
    graph = record(lambda x, v, w: conv(relu(conv(x, v)), w), (4, 32, 8, 8), (32, 32, 3, 3), (32, 32, 3, 3))
    assert not loops(sliced(graph, Caches(near=1, idle=16.0)))
    assert loops(sliced(graph))


def test_one_image_and_one_layer_stay_as_they_are() -> None:
    for graph in (
        record(lambda x, *w: block(x, *w), (1, 4, 6, 6), *WEIGHTS),
        record(lambda x, w: relu(conv(x, w)), (4, 4, 6, 6), (4, 4, 3, 3)),
    ):
        before = dce(layout(graph, accuracy="strict"))
        counted = Counters()
        assert slice_batch(before, EVERYTHING, counted) is before
        assert not counted


class Small(tb.nn.Module):
    """A few bottlenecks, with everything that networks have around them."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = tb.nn.Conv2d(3, 8, 3, stride=2, padding=1, bias=False)
        self.norm = tb.nn.BatchNorm2d(8)
        self.expand = tb.nn.Conv2d(8, 24, 1)
        self.depthwise = tb.nn.Conv2d(24, 24, 3, padding=1, groups=24)
        self.project = tb.nn.Conv2d(24, 8, 1)
        self.head = tb.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = tb.nn.functional.relu6(self.norm(self.stem(x)))
        y = tb.nn.functional.relu6(self.depthwise(tb.nn.functional.relu6(self.expand(x))))
        return self.head((x + self.project(y)).mean((2, 3)))


def test_compiled_networks_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Small().eval()
    x = tb.tensor(np.random.default_rng(3).standard_normal((6, 3, 33, 31)).astype("f"))
    with tb.no_grad():
        whole = tb.jit(network, target="cpu", options={"skip": ("slice_batch",)})(x).numpy()
        monkeypatch.setattr(stages, "_NEAR", 1 << 15)
        compiled = tb.jit(network, target="cpu")
        found = compiled(x).numpy()
        again = compiled(x + 1).numpy()
        other = network(x + 1).numpy()
    assert np.array_equal(whole, found)
    (entry,) = compiled.entries.values()
    made = executable(entry[-1].recording.graph, "cpu", entry[-1].usage).compilation
    assert len(loops(made.latest)) == 1
    told = compiled.explain(x)
    assert "conv_last" in told.split("scan kernel")[1], "what is in the loop is told, too"
    np.testing.assert_allclose(again, other, rtol=1e-5, atol=1e-5)


def test_steps_that_train_through_large_batches_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "_NEAR", 1 << 15)
    x = tb.tensor(np.random.default_rng(4).standard_normal((4, 3, 17, 17)).astype("f"))
    steps: list[Callable[[Any], Any]] = []
    losses = []
    for compiled in (False, True):
        tb.manual_seed(5)
        network = Small()
        optimiser = tb.optim.SGD(network.parameters(), lr=0.1)

        def step(x: Any, network: Small = network, optimiser: Any = optimiser) -> Any:
            loss = network(x).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            return loss

        steps.append(tb.jit(step, target="cpu") if compiled else step)
        losses.append([float(steps[-1](x).detach().numpy()) for _ in range(3)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)
