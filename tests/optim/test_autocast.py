"""Mixed precision: which operations are lowered and raised, what gradients become, and that a recording
knows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import trilobite as tb
from trilobite.base.errors import ArgumentError
from trilobite.framework.autocast import POLICY, autocast, autocast_dtype
from trilobite.framework.ops.registry import operators

RNG = np.random.default_rng(3)
F = tb.nn.functional


def normal(*shape: int, dtype: Any = np.float32) -> tb.Tensor:
    return tb.tensor(RNG.normal(size=shape).astype(dtype))


LOWERED: dict[str, Callable[[], tb.Tensor]] = {
    "matmul": lambda: normal(3, 4) @ normal(4, 2),
    "tensordot": lambda: tb.tensordot(normal(3, 4), normal(4, 2), axes=1),
    "vecdot": lambda: tb.vecdot(normal(3, 4), normal(3, 4)),
    "einsum": lambda: tb.einsum("ij,kj->ik", normal(3, 4), normal(2, 4)),
    "linear": lambda: tb.nn.Linear(4, 2)(normal(3, 4)),
    "bilinear": lambda: tb.nn.Bilinear(4, 3, 2)(normal(5, 4), normal(5, 3)),
    "conv": lambda: tb.nn.Conv2d(2, 3, 3)(normal(1, 2, 5, 5)),
    "conv_transpose": lambda: tb.nn.ConvTranspose2d(2, 3, 3)(normal(1, 2, 5, 5)),
    "attention": lambda: F.scaled_dot_product_attention(normal(2, 3, 4), normal(2, 3, 4), normal(2, 3, 4)),
}
RAISED: dict[str, Callable[[tb.Tensor], tb.Tensor]] = {
    "softmax": lambda x: F.softmax(x, 1),
    "log_softmax": lambda x: F.log_softmax(x, 1),
    "loss": lambda x: F.mse_loss(x, x),
    "sum": lambda x: x.sum(),
    "prod": lambda x: tb.prod(x),
    "var": lambda x: tb.var(x, correction=0),
    "std": lambda x: tb.std(x, correction=0),
    "logsumexp": lambda x: tb.logsumexp(x, axis=0),
    "cumulative_sum": lambda x: tb.cumulative_sum(x, axis=0),
    "cumulative_prod": lambda x: tb.cumulative_prod(x, axis=0),
}


def test_every_row_of_the_table_is_tested() -> None:
    raised = {name for name in RAISED if name in operators or name in ("softmax", "log_softmax", "loss")}
    assert set(LOWERED) | raised == set(POLICY)


@pytest.mark.parametrize("dtype", [tb.bfloat16, tb.float16], ids=str)
@pytest.mark.parametrize("name", LOWERED)
def test_products_are_formed_in_the_small_format(name: str, dtype: Any) -> None:
    with autocast(dtype):
        assert LOWERED[name]().dtype == dtype
    assert LOWERED[name]().dtype == tb.float32


@pytest.mark.parametrize("name", [n for n in RAISED if n in POLICY])
def test_sensitive_functions_are_raised(name: str) -> None:
    x = normal(3, 4, dtype=np.float16)
    with autocast(tb.float16):
        assert RAISED[name](x).dtype == tb.float32
    assert RAISED[name](x).dtype == tb.float16


def test_losses_of_classes_are_raised() -> None:
    x, y = normal(6, 4, dtype=tb.bfloat16), tb.tensor(RNG.integers(0, 4, 6))
    with autocast(tb.bfloat16):
        loss = F.cross_entropy(x, y)
        assert (
            F.cross_entropy(x, F.softmax(x, 1)).dtype
            == F.nll_loss(F.log_softmax(x, 1), y).dtype
            == tb.float32
        )
    assert loss.dtype == tb.float32
    wide = x.numpy().astype(np.float64)
    want = -np.mean([r[c] - np.log(np.exp(r).sum()) for r, c in zip(wide, y.numpy(), strict=True)])
    assert loss.item() == pytest.approx(want, rel=1e-6)


def test_the_product_is_that_of_rounded_operands() -> None:
    x, y = normal(5, 7), normal(7, 3)
    with autocast(tb.bfloat16):
        got = x @ y
    want = x.astype(tb.bfloat16) @ y.astype(tb.bfloat16)
    np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_other_dtypes_are_left_alone() -> None:
    with autocast(tb.bfloat16):
        assert (normal(2, 2, dtype=np.float64) @ normal(2, 2, dtype=np.float64)).dtype == tb.float64
        assert (tb.tensor([[1]]) @ tb.tensor([[1]])).dtype == tb.int64
        assert (tb.tensor([[1j]]) @ tb.tensor([[1j]])).dtype == tb.complex64
        assert (normal(2) + normal(2)).dtype == tb.float32


def test_gradients_arrive_in_the_parameters_own_dtype() -> None:
    layer = tb.nn.Linear(4, 2)
    with autocast(tb.bfloat16):
        loss = F.mse_loss(layer(normal(3, 4)), tb.zeros((3, 2)))
    loss.backward()
    assert layer.weight.grad.dtype == layer.bias.grad.dtype == tb.float32
    rounded = layer.weight.grad.numpy().astype(tb.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(layer.weight.grad.numpy(), rounded), "they were rounded on the way"


def test_modules_of_all_kinds_run() -> None:
    def modules() -> list[tuple[Any, tb.Tensor]]:
        encoder = tb.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        return [
            (
                tb.nn.Sequential(
                    tb.nn.Conv2d(1, 4, 3), tb.nn.BatchNorm2d(4), tb.nn.ReLU(), tb.nn.MaxPool2d(2)
                ),
                normal(2, 1, 8, 8),
            ),
            (tb.nn.LSTM(3, 5), normal(4, 2, 3)),
            (tb.nn.GRU(3, 5), normal(4, 2, 3)),
            (encoder, normal(2, 4, 8)),
            (
                tb.nn.Sequential(tb.nn.Linear(3, 6), tb.nn.LayerNorm(6), tb.nn.GELU(), tb.nn.Dropout(0.1)),
                normal(4, 3),
            ),
        ]

    for module, x in modules():
        with autocast(tb.bfloat16):
            out = module(x)
            loss = (out[0] if isinstance(out, tuple) else out).sum()
        assert loss.dtype == tb.float32
        loss.backward()
        for name, p in module.named_parameters():
            assert p.dtype == p.grad.dtype == tb.float32, name
            assert np.isfinite(p.grad.numpy()).all(), name


def test_it_nests_is_a_decorator_and_belongs_to_its_thread() -> None:
    x = normal(2, 2)
    seen: list[Any] = []

    @autocast(tb.float16)
    def product() -> tb.Tensor:
        return x @ x

    with autocast(tb.bfloat16):
        with autocast(enabled=False):
            assert (x @ x).dtype == tb.float32
        assert product().dtype == tb.float16 and (x @ x).dtype == tb.bfloat16
        worker = threading.Thread(target=lambda: seen.append((x @ x).dtype))
        worker.start()
        worker.join()
    assert seen == [tb.float32] and autocast_dtype() is None
    with pytest.raises(KeyError), autocast():
        raise KeyError
    assert autocast_dtype() is None


def test_a_recording_is_one_of_its_mode() -> None:
    x = normal(3, 3)
    product = tb.jit(lambda x: x @ x)
    plain = product(x)
    with autocast(tb.bfloat16):
        low = product(x)
        eager = x @ x
    assert plain.dtype == product(x).dtype == tb.float32 and low.dtype == tb.bfloat16
    np.testing.assert_array_equal(low.numpy(), eager.numpy())
    assert product.recompilations == ["autocast is bfloat16"]
    casts = [
        e
        for e in tb.make_graph(autocast(tb.bfloat16)(lambda x: x @ x))(x).equations
        if e.primitive.name == "cast"
    ]
    assert len(casts) == 2, "the casts stand in the graph"


def test_what_is_computed_again_is_computed_alike() -> None:
    """Checkpointing runs the block a second time, after autocast has ended."""
    w = tb.tensor(RNG.normal(size=(4, 4)).astype(np.float32), requires_grad=True)
    x = normal(3, 4)
    seen: list[Any] = []

    def block(x: tb.Tensor) -> tb.Tensor:
        out = tb.tanh(x @ w)
        seen.append(out.dtype)
        return out

    grads = []
    for wrap in (lambda f: f, tb.checkpoint):
        w.grad = None
        with autocast(tb.bfloat16):
            out = wrap(block)(x).astype(tb.float32).sum()
        out.backward()
        grads.append(w.grad.numpy().copy())
    assert set(seen) == {tb.bfloat16} and len(seen) == 3
    np.testing.assert_array_equal(*grads)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_scaled_step_in_mixed_precision_is_the_same_compiled(dtype: str) -> None:
    def run(jitted: bool) -> list[np.ndarray]:
        tb.manual_seed(4)
        model = tb.nn.Sequential(
            tb.nn.Linear(3, 8), tb.nn.BatchNorm1d(8), tb.nn.Tanh(), tb.nn.Dropout(0.2), tb.nn.Linear(8, 2)
        )
        optimizer = tb.optim.AdamW(model.parameters(), lr=0.01)
        schedule = tb.optim.CosineAnnealingLR(optimizer, 50)
        scaler = tb.optim.GradScaler(init_scale=2.0**20, growth_interval=7)
        data = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)

        def step(x: tb.Tensor, y: tb.Tensor) -> tb.Tensor:
            with autocast(dtype):
                loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            schedule.step()
            return loss

        f = tb.jit(step, target="reference") if jitted else step
        y = tb.tensor((data.sum(axis=1) > 0).astype(np.int64))
        losses = [f(tb.tensor(data), y).item() for _ in range(30)]
        tensors = [
            *model.state_dict().values(),
            scaler._scale,
            *(t for s in optimizer.state.values() for t in s.values()),
        ]
        return [np.array(losses), *(t.detach().numpy().copy() for t in tensors)]

    for a, b in zip(run(False), run(True), strict=True):
        np.testing.assert_array_equal(a, b)


def test_only_small_floats() -> None:
    with pytest.raises(ArgumentError, match=r"autocast\(float32\)[\s\S]*bfloat16 or float16"):
        autocast(tb.float32)
