"""Replayed operations run NumPy's inner loops without NumPy's calls: the bits are those of the calls."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import trilobite.nn.functional as F

import trilobite as tb
from trilobite.framework.replay import calls as replay
from trilobite.framework.replay import plans
from trilobite.framework.replay.calls import Replay, whole
from trilobite.framework.replay.inner_loops import in_loops
from trilobite.ir.graph import Graph
from trilobite.ir.primitives import table
from trilobite.ir.transforms.record import record_graph
from trilobite.ir.types import TensorType
from trilobite.native.ufunc_loops import loop_of

FLOATS = (np.float32, np.float64)
SHAPES = ((1,), (7,), (4, 4), (3, 1, 5), (2, 3, 4), (2, 3, 2, 5), (1, 33), (130, 3))
CALLS = 24  # enough for a plan


def values(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray[Any, Any]:
    """Random numbers, some of them special."""
    random = np.random.default_rng(seed)
    if dtype == np.bool_:
        return random.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return random.integers(-9, 9, shape).astype(dtype)
    x = (random.standard_normal(shape) * 4).astype(dtype)
    flat = x.reshape(-1)
    for i, special in enumerate((-0.0, np.inf, np.nan, -np.inf, 0.0)):
        if flat.size > 5:
            flat[(i * 7 + seed) % flat.size] = special
    return x


def both_ways(graph: Graph, arrays: list[np.ndarray[Any, Any]]) -> tuple[Any, Any]:
    """The graph by loops, which it must have, and by NumPy's calls."""
    part = whole(graph)
    calls: list[Any] = []
    kept = replay._quickest
    try:
        replay._quickest = lambda part, moving, known, run: kept(
            part, moving, known, calls.append(run) or run
        )
        run = Replay(part).run
    finally:
        replay._quickest = kept
    assert run is not calls[0], "no loops"
    return run(arrays), calls[0](arrays)


def check(fn: Any, *arrays: np.ndarray[Any, Any]) -> None:
    graph = record_graph(fn, [TensorType(a.shape, a.dtype) for a in arrays], "tried")
    for found, meant in zip(*both_ways(graph, list(arrays)), strict=True):
        assert (found.dtype, found.shape) == (meant.dtype, meant.shape)
        assert found.tobytes() == meant.tobytes()


UNARY = (
    "exp log sqrt rsqrt tanh sin cos abs neg floor ceil trunc round expm1 log1p sign is_nan is_finite".split()
)
BINARY = "add sub mul div maximum minimum eq lt ge pow atan2 hypot copysign rem floor_div".split()


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES)
def test_elementwise(shape: tuple[int, ...], dtype: Any) -> None:
    x, y = values(shape, dtype), values(shape, dtype, 1)
    for name in UNARY:
        check(lambda v, name=name: [table[name](v)], x)
    for name in BINARY:
        check(lambda v, w, name=name: [table[name](v, w)], x, y)


@pytest.mark.parametrize("dtype", (np.int8, np.int32, np.int64, np.uint8))
def test_integers(dtype: Any) -> None:
    x, y = values((5, 3), dtype), values((5, 3), dtype, 1)
    for name in "add sub mul maximum minimum eq lt and or xor rem floor_div".split():
        check(lambda v, w, name=name: [table[name](v, w)], x, y)


@pytest.mark.parametrize("name", ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min"))
@pytest.mark.parametrize("dtype", FLOATS)
def test_reductions(name: str, dtype: Any) -> None:
    """In NumPy's order: along the innermost axis by pairs, over others row by row."""
    for shape, axes in [
        ((1,), (0,)), ((7,), (0,)), ((300,), (0,)), ((4, 4), (0,)), ((4, 4), (1,)), ((4, 4), (0, 1)),
        ((3, 5, 7), (1,)), ((3, 5, 7), (1, 2)), ((3, 5, 7), (0, 1)), ((2, 1, 3), (1,)), ((2, 1, 9), (0, 2)),
        ((1, 40), (0,)), ((40, 1), (0,)), ((3, 129), (1,)),
    ]:  # fmt: skip
        x = np.random.default_rng(3).standard_normal(shape).astype(dtype)
        check(lambda v, axes=axes: [table[name](v, axes=axes)], x)
        check(lambda v, axes=axes: [table[name](v, axes=axes)], values(shape, dtype, 2))
        check(lambda v, axes=axes: [table[name](v, axes=axes)], np.full(shape, -0.0, dtype))


def test_looks_and_copies() -> None:
    x, y = values((3, 4), np.float32), values((2, 4), np.float32, 1)
    t = table

    def many(v: Any, w: Any) -> list[Any]:
        turned = t["transpose"](v, axes=(1, 0))
        part = t["slice"](turned, start=(1, 0), stop=(4, 3), step=(2, 1))
        back = t["reverse"](t["reshape"](part, shape=(3, 2)), axes=(0,))
        wide = t["broadcast"](t["reduce_max"](w, axes=(0,)), shape=(3, 4), axes=(1,))
        padded = t["pad"](v, low=(1, 0), high=(0, 2), between=(0, 1), value=-2.5)
        cropped = t["pad"](v, low=(-1, 0), high=(0, -2), between=(0, 0), value=0.0)
        chosen = t["select"](t["lt"](v, wide), v, wide)
        joined = t["concatenate"](v, w, chosen, axis=0)
        return [back, joined, padded, cropped, t["add"](v, wide), t["cast"](v, dtype=np.dtype("f8")), turned]

    check(many, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_products(dtype: Any) -> None:
    no: Any = ((), ())
    for a, b, contract, batch in [
        ((4, 3), (3, 5), ((1,), (0,)), no), ((4, 3), (5, 3), ((1,), (1,)), no),
        ((3, 4), (3, 5), ((0,), (0,)), no), ((2, 4, 3), (2, 3, 5), ((2,), (1,)), ((0,), (0,))),
        ((2, 4, 3), (2, 5, 3), ((2,), (2,)), ((0,), (0,))),
        ((2, 1, 3), (2, 3, 1), ((2,), (1,)), ((0,), (0,))), ((2, 3, 4), (4, 3, 6), ((1, 2), (1, 0)), no),
    ]:  # fmt: skip
        attributes = {"contract": contract, "batch": batch, "dtype": np.dtype(dtype)}
        check(
            lambda v, w, attributes=attributes: [table["dot"](v, w, **attributes)],
            values(a, dtype), values(b, dtype, 1),
        )  # fmt: skip


def test_arrays_that_do_not_fit_go_through_numpy() -> None:
    """Turned, or not aligned: the same results by NumPy's calls."""
    graph = record_graph(
        lambda v: [table["exp"](table["neg"](v))], [TensorType((4, 3), np.dtype("f4"))], "tried"
    )
    turned = values((3, 4), np.float32).T
    odd = (
        np.frombuffer(b"\0" + values((4, 3), np.float32, 5).tobytes(), np.uint8)[1:].view("f4").reshape(4, 3)
    )
    for x in (turned, odd):
        found, meant = both_ways(graph, [x])
        assert found[0].tobytes() == meant[0].tobytes() == np.exp(-x).tobytes()


def test_what_has_no_loops() -> None:
    empty = record_graph(
        lambda v: [table["exp"](table["neg"](v))], [TensorType((0, 3), np.dtype("f4"))], "tried"
    )
    part = whole(empty)
    assert in_loops(part.inputs, part.equations, {}, part.outputs, lambda a: a) is None
    assert loop_of(np.exp, "fd->f") is None
    x = tb.zeros((0, 4))
    for _ in range(CALLS):
        assert tb.softmax(x).shape == (0, 4)


OPERATIONS = {
    "softmax": lambda x, y: F.softmax(x, -1),
    "log_softmax": lambda x, y: F.log_softmax(x, 0),
    "sigmoid": lambda x, y: tb.sigmoid(x),
    "silu": lambda x, y: F.silu(x),
    "layer_norm": lambda x, y: F.layer_norm(x, (x.shape[-1],)),
    "var": lambda x, y: x.var(),
    "std of rows": lambda x, y: x.std(1),
    "norm": lambda x, y: x.norm(),
    "norm 3": lambda x, y: tb.norm(x, 3.0, -1),
    "cat": lambda x, y: tb.cat([x, y]),
    "stack": lambda x, y: tb.stack([x, y], 1),
    "stack with a number": lambda x, y: tb.stack([x[0], y[0]]),
    "outer": lambda x, y: tb.outer(x[0], y[0]),
    "dot": lambda x, y: tb.dot(x[0], y[0]),
    "cumsum": lambda x, y: x.cumsum(1),
    "prod": lambda x, y: x.prod(0),
    "roll": lambda x, y: x.roll(1, 0),
    "diagonal": lambda x, y: x.diagonal(),
    "masked_fill": lambda x, y: x.masked_fill(y > 0, 2.0),
    "mse": lambda x, y: F.mse_loss(x, y),
    "logsumexp": lambda x, y: x.logsumexp(0),
    "pad": lambda x, y: F.pad(x, (1, 2)),
    "linear": lambda x, y: F.linear(x, y),
    "tensordot": lambda x, y: tb.tensordot(x, y, axes=([0], [0])),
    "erf": lambda x, y: tb.erf(x),
    "gelu": lambda x, y: F.gelu(x),
    "rsqrt": lambda x, y: tb.rsqrt(x * x + 1),
    "largest of rows": lambda x, y: x.max(1).values,
    "smallest of columns": lambda x, y: x.min(0, keepdim=True)[0],
    "sorted": lambda x, y: x.sort(1).values,
    "sorted falling": lambda x, y: x.sort(0, descending=True)[0],
    "topk": lambda x, y: x.topk(2).values,
    "topk smallest": lambda x, y: x.topk(1, 0, largest=False).values,
    "median": lambda x, y: x.median(),
    "gather": lambda x, y: x.gather(1, _at(x, x.shape)),
    "index_select": lambda x, y: x.index_select(1, _at(x, (3,))),
    "take_along": lambda x, y: tb.take_along_dim(x, _at(x, x.shape), 1),
    "by an index": lambda x, y: x[:, _at(x, (4,))],
    "by two indices": lambda x, y: x[_at(x, (4,)) * 0, _at(x, (4,))],
    "scatter_add": lambda x, y: x.scatter_add(1, _at(x, x.shape), y),
    "embedding": lambda x, y: F.embedding(_at(x, (2, 3)) * 0, x),
    "cross_entropy": lambda x, y: F.cross_entropy(x, _at(x, x.shape[:1])),
    "cross_entropy smooth": lambda x, y: F.cross_entropy(
        x, _at(x, x.shape[:1]), y[0] * y[0], label_smoothing=0.1, reduction="sum"
    ),
    "tril": lambda x, y: x.tril(),
    "triu": lambda x, y: tb.triu(x, 1),
    "einsum": lambda x, y: tb.einsum("ij,kj->ik", x, y),
    "addmm": lambda x, y: tb.addmm(x[:, 0], x, y.t(), beta=0.5),
    "addcmul": lambda x, y: tb.addcmul(x, x, y, value=2.0),
    "avg_pool": lambda x, y: F.avg_pool1d(x[None], 2, 1),
    "avg_pool padded": lambda x, y: F.avg_pool2d(x[None, None], 2, 1, 1, count_include_pad=False),
    "max_pool": lambda x, y: F.max_pool1d(x[None], 2, 1),
    "max_pool padded": lambda x, y: F.max_pool2d(x[None, None], 3, 2, 1),
    "conv": lambda x, y: F.conv2d(x[None, None], y[None, None, :2, :2], padding=1),
    "bmm of a transpose": lambda x, y: tb.bmm(x[None], y[None].transpose(1, 2)),
    "sum of a transpose": lambda x, y: x.t() + y.t(),
    "view": lambda x, y: x.view(-1) * 2,
    "part": lambda x, y: x[0] * 2,
    "several parts": lambda x, y: x.unbind(1)[1] + y.chunk(2, 1)[0][:, 0],
    "flipped and permuted": lambda x, y: x.flip(0).permute(1, 0) * 1,
    "cummax": lambda x, y: x.cummax(1).values,
}


def _at(x: Any, shape: Any) -> Any:
    return tb.tensor(np.arange(int(np.prod(shape))).reshape(shape) * 7 % x.shape[1])


def _with_gradients(operation: Any, data: list[Any]) -> list[np.ndarray[Any, Any]]:
    x, y = (tb.tensor(d, requires_grad=True) for d in data)
    plain = operation(x.detach().clone(), y.detach().clone())
    out = operation(x, y)
    (out * out).sum().backward()
    gradients = [t.grad.numpy() if t.grad is not None else np.zeros(0) for t in (x, y)]
    assert plain.numpy().tobytes() == out.detach().numpy().tobytes()
    return [out.detach().numpy(), *gradients]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", ((5, 5), (3, 17), (1, 2)))
def test_without_a_plan_and_with_one(
    shape: tuple[int, ...], dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The long way, never planned, beside the plan: results and gradients."""
    data = [np.random.default_rng(9).standard_normal(shape).astype(dtype) for _ in range(2)]
    with_plan = {}
    for name, operation in OPERATIONS.items():
        for _ in range(CALLS):
            with_plan[name] = _with_gradients(operation, data)
    monkeypatch.setattr(plans, "OFTEN", 1 << 60)
    plans._plans.clear()
    for name, operation in OPERATIONS.items():
        meant = _with_gradients(operation, data)
        assert [a.tobytes() for a in meant] == [a.tobytes() for a in with_plan[name]], name


def test_threads_share_the_room() -> None:
    wrong: list[int] = []

    def work(seed: int) -> None:
        x = tb.tensor(values((4, 9), np.float32, seed).clip(-5, 5))
        meant = F.softmax(x.clone(), -1).numpy().copy()
        same = [np.array_equal(F.softmax(x, -1).numpy(), meant, equal_nan=True) for _ in range(300)]
        wrong.append(same.count(False))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert wrong == [0] * 4
