"""What sources of others stopped at when `torch` was replaced: each line as they write it."""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest

import trilobite as tb
from trilobite import nn

X = np.random.default_rng(7).standard_normal((3, 4)).astype("f4")


# -- equal -----------------------------------------------------------------------------------------------


def test_equal_is_a_tensor_and_an_answer() -> None:
    x, y = tb.tensor(X), tb.tensor(X)
    assert tb.equal(x, y)
    assert all(tb.equal(a, b) for a, b in zip(x, y, strict=True))
    y[1, 2] += 1
    assert not tb.equal(x, y)
    found = tb.equal(x, y)
    assert found.dtype == tb.bool and tuple(found.shape) == (3, 4)
    assert found.numpy().sum() == 11 and int(tb.sum(found)) == 11
    assert x.equal(x.clone()) is True and x.equal(y) is False


def test_equal_of_other_shapes() -> None:
    x = tb.tensor(X)
    assert not tb.equal(x, x[:1])  # they broadcast, and are not the same
    wrong = tb.equal(x, x[:2])
    assert not wrong
    assert repr(wrong) == "False"
    for use in (
        lambda: wrong.sum(),
        lambda: wrong.shape,
        lambda: ~wrong,
        lambda: wrong[0],
        lambda: list(wrong),
    ):
        with pytest.raises(tb.errors.ShapeError, match="shape"):
            use()
    assert tb.equal(tb.zeros(0, 3), tb.zeros(0, 3))
    assert not tb.equal(tb.zeros(0, 3), tb.zeros(0, 1))


def test_equal_elsewhere_is_as_it_was() -> None:
    """`==` has no truth of its own, one element is its own truth, a recorded one has none."""
    x = tb.tensor(X)
    with pytest.raises(tb.errors.TrilobiteError, match="exactly one element"):
        bool(x == x)
    with pytest.raises(tb.errors.TrilobiteError, match="exactly one element"):
        bool(tb.equal(x, x).clone())
    assert bool(tb.equal(tb.tensor([2.0]), tb.tensor(2.0)))  # as the standard has it
    with pytest.raises(tb.errors.TraceError):
        tb.jit(lambda a: 1 if tb.equal(a, a) else 0)(x)


# -- joins, sizes ----------------------------------------------------------------------------------------


def test_an_empty_line_is_joined_to_anything() -> None:
    x = tb.tensor(X)
    assert tb.cat([tb.tensor([]), x], dim=-2).tolist() == X.tolist()
    assert tb.cat([x, tb.tensor([])], dim=1).tolist() == X.tolist()
    assert tuple(tb.cat([tb.tensor([]), tb.tensor([])]).shape) == (0,)
    assert tb.cat([tb.tensor([]), tb.tensor([1.0])]).tolist() == [1.0]
    with pytest.raises(tb.errors.ShapeError):
        tb.cat([tb.zeros(0, 2), x])
    for _ in range(20):  # planned as well
        assert tb.cat([tb.tensor([]), x], dim=-2).tolist() == X.tolist()


def test_sizes_stay_sizes() -> None:
    size = tb.Size([2, 3])
    for found in (
        (1,) + size,
        size + (1,),
        size[1:],
        size * 2,
        2 * size,
        tb.broadcast_shapes((2, 1), (1, 3)),
    ):
        assert type(found) is tb.Size
    assert ((1,) + size).numel() == 6 and (size * 2).numel() == 36


# -- writes that nobody checks ---------------------------------------------------------------------------


class Assign(tb.autograd.Function):
    @staticmethod
    def forward(ctx, room, value, index):  # type: ignore[no-untyped-def]
        ctx.index = index
        room.data[index] = value
        return room

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad, grad[ctx.index], None


def test_what_is_written_by_data_is_not_checked() -> None:
    """A solver fills one room stage by stage, and knows that its gradient is right."""
    y = tb.tensor(X[0], requires_grad=True)
    k = tb.zeros(4, 3)
    k = Assign.apply(k, y, (..., 0))
    one = (k[..., :1] * 2.0 * y.detach().unsqueeze(-1)).sum(-1)
    k = Assign.apply(k, one, (..., 1))
    two = (k[..., :2] * 3.0).sum(-1)
    two.sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 3 + 6 * X[0], rtol=1e-6)


def test_what_is_written_otherwise_is() -> None:
    for write in (lambda t: t.detach().mul_(2), lambda t: t.detach()[0].fill_(1), lambda t: t.mul_(2)):
        x = tb.tensor(X, requires_grad=True)
        y = x * 1
        z = y * y
        with tb.no_grad():
            write(y)
        with pytest.raises(tb.errors.GradientError, match="changed in place"):
            z.sum().backward()
    x = tb.tensor(X, requires_grad=True)
    y = x * 1
    z = y * y
    with tb.no_grad():
        y.mul_(2)  # checked, whatever comes after it
    y.data.mul_(0.5)
    with pytest.raises(tb.errors.GradientError, match="changed in place"):
        z.sum().backward()


def test_copies_of_views_see_what_data_wrote() -> None:
    x = tb.tensor(np.arange(6.0).reshape(2, 3))
    flat = x.T.reshape(-1)
    assert flat.tolist() == [0, 3, 1, 4, 2, 5]
    x.data[0, 0] = 9.0
    assert x.T.reshape(-1).tolist() == [9, 3, 1, 4, 2, 5]


# -- rules, modules, rooms -------------------------------------------------------------------------------


class Wide(tb.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        x, scale = ctx.saved_tensors
        return grad * scale, grad * x


def test_a_gradient_of_what_forward_repeated_is_summed() -> None:
    x, scale = tb.tensor(X, requires_grad=True), tb.tensor([[2.0]], requires_grad=True)
    Wide.apply(x, scale).sum().backward()
    assert tuple(scale.grad.shape) == (1, 1)
    np.testing.assert_allclose(scale.grad.item(), X.sum(), rtol=1e-5)


class Narrow(Wide):
    @staticmethod
    def backward(ctx, grad):  # type: ignore[no-untyped-def]
        return grad, tb.zeros(5)


def test_a_gradient_of_another_shape_is_an_error() -> None:
    x, scale = tb.tensor(X, requires_grad=True), tb.tensor([[2.0]], requires_grad=True)
    with pytest.raises(tb.errors.ArgumentError, match="shape"):
        Narrow.apply(x, scale).sum().backward()


def test_modules_have_getattr() -> None:
    class Kernel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.raw = nn.Parameter(tb.ones(2))

        def __getattr__(self, name: str) -> object:
            try:
                return super().__getattr__(name)
            except AttributeError:
                return f"made {name}"

        @property
        def broken(self) -> object:
            return self.raw.no_such_thing

    k = Kernel()
    assert k.__getattr__("raw") is k.raw and k.other == "made other"
    with pytest.raises(AttributeError, match="'Linear' object has no attribute 'wieght'"):
        nn.Linear(2, 2).wieght
    assert not hasattr(nn.Linear(2, 2), "wieght")


ROOMS = """
utils.data.sampler.Sampler utils.data.dataset.Dataset utils.data.dataloader.DataLoader
utils.data.distributed.DistributedSampler nn.utils.clip_grad.clip_grad_norm_ nn.modules.lazy
distributions.utils distributions.exponential.Exponential distributions.one_hot_categorical futures.Future
jit.ScriptModule distributed.rpc quasirandom.SobolEngine serialization.MAP_LOCATION complex32 quint8
autograd.profiler.record_function
""".split()


@pytest.mark.parametrize("name", ROOMS)
def test_rooms_need_no_import_of_their_own(name: str) -> None:
    fresh = f"import trilobite\nfrom functools import reduce\nreduce(getattr, {name.split('.')!r}, trilobite)"
    if name == ROOMS[0]:  # one in a process of its own; for the others names of this one do
        subprocess.run([sys.executable, "-c", fresh], check=True)
    assert functools.reduce(getattr, name.split("."), tb) is not None


def test_names_that_are_only_names() -> None:
    assert tb.complex32 is not tb.complex64 and {tb.complex32: 1}[tb.complex32] == 1
    with pytest.raises(tb.errors.DTypeError, match="complex32"):
        tb.zeros(2, dtype=tb.complex32)
    with pytest.raises(tb.errors.ArgumentError, match="Sobol"):
        tb.quasirandom.SobolEngine(2)
    with pytest.raises(tb.errors.StateError):
        tb.distributed.rpc.init_rpc("worker")
    with pytest.raises(ImportError, match="no_such_name"):
        exec("from trilobite.jit import no_such_name")


def test_a_list_takes_the_extents_of_a_shape() -> None:
    sizes, shape = [1], tb.zeros(2, 3).shape
    sizes += shape
    assert type(sizes) is list and sizes == [1, 2, 3]
    assert type((1, *()) + shape) is type(shape) and (1,) + shape == (1, 2, 3)


# -- masks, old orders, names of classes -----------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1), (4,), (1, 1), ()])
def test_masks_are_repeated(shape: tuple[int, ...]) -> None:
    mask = np.random.default_rng(4).random(shape) < 0.5
    for jitted in (False, True):
        x = tb.tensor(X, requires_grad=True)

        def run(x: tb.Tensor = x) -> tb.Tensor:
            y = x * 2
            y.masked_fill_(tb.tensor(mask), -1.0)
            y.sum().backward()
            return y

        y = (tb.jit(run) if jitted else run)()
        np.testing.assert_array_equal(y.detach().numpy(), np.where(mask, np.float32(-1), 2 * X))
        np.testing.assert_array_equal(x.grad.numpy(), np.broadcast_to(np.where(mask, 0.0, 2.0), X.shape))


def test_a_mask_of_the_last_axes_is_not_one_of_the_first() -> None:
    scores = tb.zeros(3, 3, 3, 3)
    scores.masked_fill_(tb.ones(3, 3).triu(1).bool(), -1.0)
    assert scores[2, 0].tolist() == [[0, -1, -1], [0, 0, -1], [0, 0, 0]]


def test_factors_before_operands() -> None:
    """PyTorch's old order, also with factors that are tensors."""
    a, b = (np.random.default_rng(i).random((3, 3)) + 0.5 for i in range(2))
    two, half = tb.tensor(2.0, dtype=tb.float64), tb.tensor(0.5)
    wanted = {
        "add_": ((two, a), a + 2 * a), "sub_": ((two, b), a - 2 * b),
        "addcmul_": ((two, a, b), a + 2 * a * b), "addcdiv_": ((-0.5, a, b), a - 0.5 * a / b),
        "addmm_": ((1, -2, a, b.T), a - 2 * a @ b.T), "addbmm_": ((two, a[None], b[None]), 2 * a + a @ b),
        "addmv_": ((half, two, a, b[0]), 0.5 * a[0] + 2 * a @ b[0]),
        "addr_": ((0.5, a[0], b[0]), 0.5 * a + np.outer(a[0], b[0])),
    }  # fmt: skip
    for name, (args, found) in wanted.items():
        x = tb.tensor(a[0] if name == "addmv_" else a)
        getattr(x, name)(*(tb.tensor(v) if isinstance(v, np.ndarray) else v for v in args))
        np.testing.assert_allclose(x.numpy(), found, rtol=1e-6, err_msg=name)


def test_types_by_the_names_that_tensors_give() -> None:
    for dtype in (tb.float64, tb.float16, tb.int64, tb.bool):
        name = tb.zeros(2, dtype=dtype).type()
        assert (
            tb.ones(2).type(name).dtype == dtype
            and tb.ones(2).type(name.replace("trilobite", "torch")).dtype == dtype
        )
    with pytest.raises(tb.errors.DTypeError):
        tb.ones(2).type("torch.cuda.FloatTensor")


def test_gradients_are_asked_for_where_nothing_is_followed() -> None:
    x = tb.tensor(X, requires_grad=True)
    (x**3).sum().backward(create_graph=True)
    with tb.no_grad():
        (second,) = tb.autograd.grad([x.grad], [x], grad_outputs=[tb.ones(3, 4)])
    np.testing.assert_allclose(second.numpy(), 6 * X, rtol=1e-6)
    assert not second.requires_grad
