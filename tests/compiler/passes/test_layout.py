"""The layout pass: the graph's meaning stays, and transposes stand only where a value enters or leaves."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.compiler.graph.passes.inline import inline
from trilobite.compiler.targets.cpu.passes.layout import layout
from trilobite.compiler.targets.cpu.passes.layout_axes import Components, identity, orders
from trilobite.ir.evaluate import run
from trilobite.ir.graph import Graph, Var
from trilobite.ir.primitive import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.ir.verify import verify
from trilobite.native.host import SSE2

Array = np.ndarray[Any, Any]
F32 = np.dtype("float32")


def record(fn: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    def several(*values: Any) -> Any:
        out = fn(*values)
        return out if isinstance(out, (tuple, list)) else (out,)

    return record_graph(several, [TensorType(s, F32) for s in shapes])


def conv(x: Any, w: Any, stride: int = 1, pad: int = 1, groups: int = 1, dtype: Any = F32) -> Any:
    rank = x.ndim - 2
    return table["conv"](
        x, w, stride=(stride,) * rank, low=(pad,) * rank, high=(pad,) * rank, x_dilation=(1,) * rank,
        w_dilation=(1,) * rank, groups=groups, dtype=dtype,
    )  # fmt: skip


def pool(x: Any, kind: str = "max") -> Any:
    return table["window_reduce"](
        x, size=(2, 2), stride=(2, 2), low=(0, 0), high=(0, 0), dilation=(1, 1), kind=kind
    )


def relu(x: Any) -> Any:
    return table["maximum"](x, table["full"](shape=x.shape, dtype=F32, value=0.0))


def per_channel(b: Any, like: Any) -> Any:
    four = table["reshape"](b, shape=(1, b.shape[0], *(1,) * (like.ndim - 2)))
    return table["broadcast"](four, shape=like.shape, axes=tuple(range(like.ndim)))


def names(graph: Graph) -> Counter[str]:
    return Counter(e.primitive.name for e in graph.equations)


def check(graph: Graph, seed: int = 0) -> Graph:
    """Verified, and equal to what it was within rounding."""
    found = layout(graph)
    verify(found)
    assert found.input_types == graph.input_types and found.output_types == graph.output_types
    rng = np.random.default_rng(seed)
    values = [
        np.asarray(np.abs(rng.standard_normal(t.shape)) + 0.1).astype(t.dtype)
        if t.dtype.kind == "f"
        else np.asarray(rng.integers(0, 3, t.shape)).astype(t.dtype)
        for t in graph.input_types
    ]
    for a, b in zip(run(found, values), run(graph, values), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        size = max(1.0, float(np.abs(np.asarray(b, np.float64)).max(initial=0)))
        np.testing.assert_allclose(
            np.asarray(a, np.float64), np.asarray(b, np.float64), rtol=2e-4, atol=2e-5 * size
        )
    return found


# -- small graphs ------------------------------------------------------------------------------------------


def test_one_convolution_is_transposed_in_and_out() -> None:
    graph = check(record(conv, (2, 3, 7, 6), (5, 3, 3, 3)))
    assert names(graph) == {"transpose": 2, "conv_last": 1, "conv_panels": 1}


def biased(x: Any, w: Any, b: Any, stride: int, pad: int) -> Any:
    h = conv(x, w, stride, pad)
    return relu(table["add"](h, per_channel(b, h)))


@pytest.mark.parametrize(
    "x, w, stride, pad",
    [
        ((1, 3, 9, 8), (5, 3, 1, 1), 1, 0),
        ((2, 3, 9, 8), (5, 3, 1, 1), 2, 0),
        ((1, 3, 40, 40), (32, 3, 7, 7), 2, 3),
        ((2, 3, 112, 112), (16, 3, 3, 3), 2, 1),
        ((1, 24, 56, 56), (5, 24, 5, 5), 1, 2),
    ],
)
def test_a_convolution_alone_runs_where_its_values_lie(x: Any, w: Any, stride: int, pad: int) -> None:
    graph = check(record(partial(biased, stride=stride, pad=pad), x, w, w[:1]))
    found = names(graph)
    assert found["conv_planes"] == found["gemm_pack"] == 1 and not found["transpose"]
    assert found["slice"] == (stride > 1 and w[2:] == (1, 1))


@pytest.mark.parametrize(
    "x, w",
    [
        ((1, 512, 14, 14), (512, 512, 3, 3)),
        ((1, 2048, 7, 7), (512, 2048, 1, 1)),
        ((1, 64, 9, 9), (64, 64, 5, 5)),
        ((4, 48, 28, 28), (48, 48, 5, 5)),
        ((1, 96, 14, 14), (96, 96, 5, 5)),
    ],
    ids=["tiles", "few pixels", "short lines", "lines that panels break", "lines of one vector"],
)
def test_channels_move_where_that_is_quicker(x: Any, w: Any) -> None:
    graph = layout(record(partial(conv, pad=w[2] // 2), x, w))
    assert names(graph)["transpose"] == 2 and not names(graph)["conv_planes"]


def test_pixels_of_narrow_floats_are_columns_of_a_product() -> None:
    def net(x: Any, w: Any) -> Any:
        half = {"dtype": np.dtype("float16")}
        x, w = (table["cast"](v, **half) for v in (x, w))
        ones, zeros = (1, 1), (0, 0)
        return table["conv"](
            x, w, stride=ones, low=zeros, high=zeros, x_dilation=ones, w_dilation=ones, groups=1, **half
        )

    found = names(layout(record(net, (1, 3, 9, 8), (5, 3, 1, 1))))
    assert found["dot"] == 1 and not found["transpose"] and not found["conv_planes"]


def test_few_filters_over_many_pixels_leave_the_channels_in_front() -> None:
    """Between convolutions of many filters, too: most lanes of the direct kernel would stay empty."""

    def net(x: Any, w: Any, v: Any, u: Any) -> Any:
        return conv(relu(conv(relu(conv(x, w)), v, pad=0)), u)

    graph = check(record(net, (1, 32, 64, 64), (32, 32, 3, 3), (3, 32, 7, 7), (32, 3, 3, 3)))
    assert names(graph)["conv_winograd"] == 1
    few = [e for e in graph.equations if e.primitive.name == "conv_planes" and e.attributes["filters"] == 3]
    assert [e.attributes["kernel"] for e in few] == [(7, 7)]


def test_single_pixels_between_convolutions_go_channels_last() -> None:
    def net(x: Any, w: Any, v: Any, u: Any) -> Any:
        return conv(relu(conv(relu(conv(x, w)), v, pad=0)), u)

    graph = check(record(net, (1, 3, 9, 8), (5, 3, 3, 3), (6, 5, 1, 1), (4, 6, 3, 3)))
    assert names(graph)["conv_last"] == 3 and names(graph)["transpose"] == 2


def test_counters_say_what_was_made_and_what_still_moves() -> None:
    counters: Counter[str] = Counter()
    layout(record(conv, (2, 3, 7, 6), (5, 3, 3, 3)), counters=counters)
    assert counters == {"transpose": 2, "conv_last": 1, "conv_panels": 1}


def test_nothing_stands_between_two_convolutions() -> None:
    def net(x: Any, w: Any, b: Any, v: Any) -> Any:
        h = conv(x, w)
        h = relu(table["add"](h, per_channel(b, h)))
        h = pool(h)
        h = table["pad"](h, low=(0, 0, 1, 0), high=(0, 0, 0, 2), between=(0, 0, 0, 0), value=0.5)
        h = table["concatenate"](h, h, axis=1)
        return conv(h, v)

    graph = check(record(net, (2, 3, 8, 6), (5, 3, 3, 3), (5,), (7, 10, 3, 3)))
    inner = [e for e in graph.equations if e.primitive.name == "transpose"]
    assert [e.inputs[0] in graph.inputs or e.outputs[0] in graph.outputs for e in inner] == [True, True]


def test_batch_statistics_are_taken_where_values_lie() -> None:
    def net(x: Any, w: Any) -> Any:
        h = conv(x, w)
        mean = table["reduce_sum"](h, axes=(0, 2, 3))
        return relu(table["sub"](h, per_channel(mean, h))), mean

    graph = check(record(net, (2, 3, 8, 6), (5, 3, 3, 3)))
    (sum_,) = (e for e in graph.equations if e.primitive.name == "reduce_sum")
    assert sum_.attributes["axes"] == (0, 1, 2)
    assert names(graph)["transpose"] == 2


def test_a_graph_without_convolutions_stays_as_it_is() -> None:
    def net(x: Any, y: Any) -> Any:
        t = table["transpose"](x, axes=(0, 2, 1, 3))
        return table["dot"](t, y, contract=((3,), (2,)), batch=((0, 1), (0, 1)), dtype=F32)

    graph = record(net, (2, 3, 4, 5), (2, 4, 5, 6))
    assert layout(graph) == graph


def test_a_users_own_channels_last_costs_nothing() -> None:
    def net(x: Any, w: Any, v: Any) -> Any:
        h = table["transpose"](x, axes=(0, 3, 1, 2))
        h = table["transpose"](conv(h, w), axes=(0, 2, 3, 1))
        h = table["transpose"](relu(h), axes=(0, 3, 1, 2))
        return table["transpose"](conv(h, v), axes=(0, 2, 3, 1))

    graph = check(record(net, (2, 8, 6, 3), (5, 3, 3, 3), (7, 5, 3, 3)))
    assert names(graph)["transpose"] == 0


def test_an_axis_of_one_element_moves_by_reshape() -> None:
    graph = check(record(lambda x, w: conv(x, w, pad=0), (2, 1, 3, 3), (5, 1, 3, 3)))
    assert names(graph) == {"reshape": 2, "conv_last": 1, "conv_panels": 1}


def test_one_filter_per_channel_keeps_its_weight_plain() -> None:
    graph = check(record(lambda x, w: conv(x, w, groups=6), (2, 6, 5, 5), (6, 1, 3, 3)))
    assert names(graph) == {"transpose": 3, "conv_last": 1}


@pytest.mark.parametrize("shapes", [((2, 3, 9), (4, 3, 3)), ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3))])
def test_one_and_three_axes(shapes: Any) -> None:
    check(record(lambda x, w: relu(conv(x, w)), *shapes))


def test_slices_reversals_and_updates_move_along() -> None:
    def net(x: Any, w: Any, v: Any) -> Any:
        h = conv(x, w)
        n, c, a, b = h.shape
        part = table["slice"](h, start=(0, 1, 0, 2), stop=(n, c, a, b), step=(1, 2, 1, 1))
        part = table["reverse"](part, axes=(1, 3))
        h = table["update_slice"](
            h, part, start=(0, 0, 0, 1), stop=(n, part.shape[1], a, b - 1), step=(1, 1, 1, 1)
        )
        return conv(table["reverse"](h, axes=(2,)), v)

    graph = check(record(net, (2, 3, 6, 7), (6, 3, 3, 3), (4, 6, 3, 3)))
    assert names(graph)["transpose"] == 2


def test_complex_convolutions_are_left_alone() -> None:
    c64 = np.dtype("complex64")

    def net(x: Any, w: Any) -> Any:
        return (table["conv"](
            x, w, stride=(1,), low=(0,), high=(0,), x_dilation=(1,), w_dilation=(1,), groups=1, dtype=c64
        ),)  # fmt: skip

    graph = record_graph(net, [TensorType((2, 3, 9), c64), TensorType((4, 3, 3), c64)])
    assert names(layout(graph))["conv"] == 1


def test_bodies_of_loops_are_laid_out_too() -> None:
    w = tb.tensor(np.linspace(-1, 1, 81, dtype=np.float32).reshape(3, 3, 3, 3))

    def loop(x: Any) -> Any:
        return tb.scan(lambda h, _: (tb.nn.functional.conv2d(h, w, padding=1), None), x, None, length=3)[0]

    graph = inline(tb.jit(loop).lower(tb.tensor(np.ones((1, 3, 5, 5), np.float32))).graph)
    found = check(graph)
    assert "conv_last" in str(found) and " conv " not in str(found)


def test_one_weight_in_two_forms() -> None:
    """On a machine whose panels for both are as wide: 4 filters of a plane, 2 vectors of 2 doubles."""
    f64 = np.dtype("float64")
    shapes = [TensorType(s, f64) for s in ((1, 3, 64, 64), (1, 3, 3, 3), (64, 3, 3, 3))]
    here = partial(conv, pad=0, dtype=f64)
    graph = record_graph(lambda x, y, w: (here(x, w, stride=2), here(y, w)), shapes)
    laid = layout(graph, SSE2, "strict")
    verify(laid)
    names = Counter(e.primitive.name for e in laid.equations)
    assert names["conv_planes"] == names["conv_last"] == names["gemm_pack"] == names["conv_panels"] == 1
    rng = np.random.default_rng(0)
    values = [rng.standard_normal(t.shape) for t in shapes]
    for found, expected in zip(run(laid, values), run(graph, values), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_windows_over_a_plane_alone_stay() -> None:
    graph = check(record(pool, (6, 8)))
    assert names(graph) == {"window_reduce": 1}


def test_ties_compose() -> None:
    """c is b with two axes exchanged, b is a turned: a's axes of c are found through both."""
    a, b, c = (Var(TensorType(s, F32)) for s in ((2, 3, 4), (4, 2, 3), (4, 3, 2)))
    components = Components()
    components.tie(b, c, (0, 2, 1))
    components.tie(a, b, (2, 0, 1))
    (root, of_a), (same, of_c) = components.find(a), components.find(c)
    assert root is same
    back = {axis: i for i, axis in enumerate(of_a)}
    assert tuple(back[axis] for axis in of_c) == (2, 1, 0)
    assert identity(3) == (0, 1, 2)


# -- networks ----------------------------------------------------------------------------------------------


class Block(tb.nn.Module):
    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        nn = tb.nn
        self.c1, self.b1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
        self.c2, self.b2 = nn.Conv2d(b, b, 3, 1, 1, groups=b, bias=False), nn.BatchNorm2d(b)
        self.short = nn.Conv2d(a, b, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        f = tb.nn.functional
        return f.relu(self.b2(self.c2(f.relu(self.b1(self.c1(x))))) + self.short(x))


class Net(tb.nn.Module):
    """What the zoo's networks are made of: residual blocks, both poolings, normalisation, a dense end."""

    def __init__(self) -> None:
        super().__init__()
        nn = tb.nn
        self.first, self.pool = nn.Conv2d(3, 8, 3, padding=1), nn.MaxPool2d(3, 2, 1)
        self.one, self.two = Block(8, 8, 1), Block(8, 12, 2)
        self.average, self.last = nn.AvgPool2d(2), nn.Linear(12, 5)

    def forward(self, x: Any) -> Any:
        h = self.average(self.two(self.one(self.pool(tb.nn.functional.relu(self.first(x))))))
        return self.last(h.mean((2, 3)))


def graphs() -> tuple[Graph, Graph]:
    """Inference and a training step."""
    net = Net()
    optimiser = tb.optim.SGD(list(net.parameters()), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        loss = tb.nn.functional.cross_entropy(net(x), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        return loss

    x = tb.tensor(np.random.default_rng(0).standard_normal((4, 3, 16, 16)).astype(np.float32))
    y = tb.tensor(np.array([0, 1, 2, 3]))
    train = tb.jit(step).lower(x, y).graph
    net.eval()
    return inline(tb.jit(net.forward).lower(x).graph), inline(train)


def test_inference_has_one_transpose() -> None:
    """The image's, beside weights with one filter per channel."""
    graph, _ = graphs()
    found = check(graph)
    weights = {v for e in found.equations for v in e.inputs if e.primitive.name == "conv_panels"}
    moved = [e for e in found.equations if e.primitive.name == "transpose" and e.inputs[0].type.ndim == 4]
    activations = [e for e in moved if e.inputs[0].type.shape[0] == 4 and e.inputs[0] not in weights]
    assert len(activations) == 1


def test_training_moves_the_image_and_gradients_of_weights_alone() -> None:
    _, graph = graphs()
    found = check(graph)
    made = {v: e for e in found.equations for v in e.outputs}
    moved = [e for e in found.equations if e.primitive.name == "transpose" and e.inputs[0].type.ndim == 4]
    sources = Counter(made[e.inputs[0]].primitive.name if e.inputs[0] in made else "input" for e in moved)
    # Seven convolutions: each gradient once; the image, and two weights with one filter per channel.
    assert sources == {"conv_last_weight_grad": 7, "input": 3}
    assert not {"conv", "conv_input_grad", "conv_weight_grad"} & set(names(found))
    assert names(found)["window_last_max_grad"] == 1 and names(found)["window_last_spread"] == 1


def test_time_grows_with_the_graph() -> None:
    def chain(x: Any, w: Any, *, length: int) -> Any:
        for _ in range(length):
            x = relu(conv(x, w))
        return x

    seconds = []
    for length in (100, 1000):
        graph = record(lambda x, w, n=length: chain(x, w, length=n), (1, 3, 4, 4), (3, 3, 3, 3))
        least = min(_seconds(graph) for _ in range(3))
        seconds.append(least)
    assert seconds[1] < 40 * seconds[0]


def _seconds(graph: Graph) -> float:
    start = time.thread_time()
    orders(graph)
    layout(graph)
    return time.thread_time() - start
